"""The trainer against that of the package tokenizers, on real text.

The two break ties differently (there: the smallest pair of ids), and after one tie the lists may
differ for good. So the peer's merges are replayed: each must be of a pair that our counts call a
most frequent one at that step. Then only ties can tell the lists apart; and where ours has had no
tie, the lists are equal.
"""

from __future__ import annotations

import json
from pydoc_data.topics import topics

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from course_lib.tokenizers import bpe
from course_lib.tokenizers.bpe import train, train_naive
from course_lib.tokenizers.byte_level import GPT2_PATTERN, bytes_to_unicode
from course_lib.tokenizers.corpus import count_pretokens
from tests.tokenizers.strings import strings

SPECIAL = "<|endoftext|>"
BYTE = {character: byte for byte, character in bytes_to_unicode().items()}
ENGLISH = SPECIAL.join(topics[name] for name in sorted(topics))
# The peer's regular expressions know white space and letters of another Unicode version.
MANY_SCRIPTS = "".join(character for text in strings(3000) for character in text
                       if character.isprintable() or character == "\n")  # fmt: skip
TEXTS = {"English": ENGLISH, "many scripts": MANY_SCRIPTS}


def peer_merges(text: str, vocab_size: int) -> list[tuple[bytes, bytes]]:
    """Train with the package and return its merges as bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # Its trainer leaves special tokens in the text: they are cut out for it.
    tokenizer.train_from_iterator(text.split(SPECIAL), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(_bytes(left), _bytes(right)) for left, right in merges]


def _bytes(token: str) -> bytes:
    return bytes(BYTE[character] for character in token)


@pytest.mark.parametrize("name", TEXTS)
def test_every_merge_of_the_package_is_a_most_frequent_pair_by_our_counts(name: str) -> None:
    words = count_pretokens(TEXTS[name], GPT2_PATTERN, [SPECIAL])
    corpus = bpe._Corpus(bpe._cut_words(words))
    peer = peer_merges(TEXTS[name], 2048)
    assert len(peer) == 2048 - 256
    unique = 0
    for pair in peer:
        top = max(corpus.counts.values())
        assert corpus.counts[pair] == top
        unique += sum(n == top for n in corpus.counts.values()) == 1
        corpus.merge(pair)
    assert unique > 100  # or ties could have decided everything


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("ties", ["first", "greatest"])
def test_the_lists_are_equal_up_to_the_first_tie(name: str, ties: bpe.Ties) -> None:
    words = count_pretokens(TEXTS[name], GPT2_PATTERN, [SPECIAL])
    ours = train(words, 256, ties=ties)
    corpus = bpe._Corpus(bpe._cut_words(words))
    n_equal = 0
    for pair in ours:
        top = corpus.counts[pair]
        if sum(n == top for n in corpus.counts.values()) > 1:
            break
        corpus.merge(pair)
        n_equal += 1
    assert n_equal >= 10
    assert ours[:n_equal] == peer_merges(TEXTS[name], 512)[:n_equal]


def test_with_its_ties_broken_as_there_the_whole_list_is_that_of_the_package() -> None:
    # Ours, with the tie rule of the package instead of the course's.
    words = count_pretokens(ENGLISH, GPT2_PATTERN, [SPECIAL])
    corpus = bpe._Corpus(bpe._cut_words(words))
    # Its first ids are those of the alphabet, sorted by the characters that stand for bytes.
    ids = {bytes([BYTE[character]]): i for i, character in enumerate(sorted(BYTE))}
    merges = []
    for _ in range(1000):
        pair = min(corpus.counts, key=lambda p: (-corpus.counts[p], ids[p[0]], ids[p[1]]))
        corpus.merge(pair)
        ids.setdefault(pair[0] + pair[1], len(ids))
        merges.append(pair)
    assert merges == peer_merges(ENGLISH, 1256)


def test_both_trainers_of_the_course_agree_on_real_text() -> None:
    for text in TEXTS.values():
        words = count_pretokens(text[:30_000], GPT2_PATTERN, [SPECIAL])
        for ties in ("first", "greatest"):
            assert train(words, 150, ties=ties) == train_naive(words, 150, ties=ties)  # type: ignore[arg-type]
