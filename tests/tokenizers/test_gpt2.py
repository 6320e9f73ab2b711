"""Against the real thing: GPT-2's files, in the tokenizers library and in tiktoken."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from course_lib.data.python_docs import python_docs
from course_lib.tokenizers.byte_level import VOCAB_BPE_SHA256, ByteLevelBPE, verified
from course_lib.tokenizers.gpt2 import gpt2 as ours
from course_lib.tokenizers.gpt2 import gpt2_files
from tests.tokenizers.gpt2_files import END, peer, tiktoken_peer
from tests.tokenizers.strings import SCRIPTS, strings

# What Unicode assigned after this Python's tables may be a letter to one library and not yet to
# another ("Cn"), and a lone surrogate ("Cs") is no text.
assigned = st.characters(exclude_categories=["Cn", "Cs"])
any_unicode = st.characters(exclude_categories=["Cs"])


def test_the_published_vocabulary_has_50257_tokens() -> None:
    assert len(ours()) == 50257
    assert len(ours().merges) == 50000
    assert ours().special_tokens == {END: 50256}


def test_numbering_bytes_then_merges_then_special_tokens_gives_the_ids_of_the_files() -> None:
    assert ByteLevelBPE(ours().merges, [END]).tokens == ours().tokens


def test_the_strings_are_ten_thousand_in_twenty_scripts() -> None:
    assert len(set(strings())) >= 10_000
    assert len(SCRIPTS) >= 20


def test_ids_equal_those_of_tokenizers_on_all_strings() -> None:
    texts = list(strings())
    expected = [found.ids for found in peer().encode_batch(texts)]
    wrong = [t for t, ids in zip(texts, expected, strict=True) if ours().encode(t) != ids]
    assert wrong == []


def test_ids_equal_those_of_tiktoken_on_all_strings() -> None:
    theirs = tiktoken_peer()
    wrong = [t for t in strings() if ours().encode(t) != theirs.encode(t, allowed_special="all")]
    assert wrong == []


def test_ids_of_special_tokens_as_plain_text_equal_those_of_tiktoken() -> None:
    texts = [t for t in strings() if END in t]
    assert len(texts) > 10
    for text in texts:
        assert ours().encode(text, ()) == tiktoken_peer().encode(text, disallowed_special=())


@given(st.text(assigned))
@settings(max_examples=1000)
def test_ids_of_any_assigned_characters_equal_those_of_both(text: str) -> None:
    ids = ours().encode(text)
    assert ids == peer().encode(text).ids
    assert ids == tiktoken_peer().encode(text, allowed_special="all")


@given(st.text(st.sampled_from("'sSdmtlLveER  \t\n\u3000\x85aé1½²!¡\u0301中😀\u200d"), max_size=30))
@settings(max_examples=1000)
def test_ids_equal_those_of_both_where_kinds_of_characters_meet(text: str) -> None:
    ids = ours().encode(text)
    assert ids == peer().encode(text).ids
    assert ids == tiktoken_peer().encode(text, allowed_special="all")


def test_ids_of_one_long_pretoken_equal_those_of_both() -> None:
    rng = random.Random(3)
    for n in (65, 100, 1000, 5000):
        for letters in ("a", "ab", "etaoinshr", "0123456789", " ", "中国人", "=-"):
            text = "".join(rng.choice(letters) for _ in range(n))
            ids = ours().encode(text)
            assert ids == peer().encode(text).ids
            assert ids == tiktoken_peer().encode(text)


def test_ids_of_real_text_equal_those_of_both() -> None:
    text = python_docs()
    ids = ours().encode(text)
    assert ids == peer().encode(text).ids
    assert ids == tiktoken_peer().encode(text)


def test_every_string_comes_back() -> None:
    assert [t for t in strings() if ours().decode(ours().encode(t)) != t] == []


@given(st.text(any_unicode))
@settings(max_examples=1000)
def test_any_text_comes_back(text: str) -> None:
    assert ours().decode(ours().encode(text)) == text


@given(st.lists(st.integers(0, 50256)))
@settings(max_examples=1000)
def test_any_ids_are_decoded_as_tiktoken_does(ids: list[int]) -> None:
    assert ours().decode_bytes(ids) == tiktoken_peer().decode_bytes(ids)
    assert ours().decode(ids) == tiktoken_peer().decode(ids)


@given(st.binary(max_size=12))
@settings(max_examples=1000)
def test_any_bytes_are_decoded_as_tiktoken_does(data: bytes) -> None:
    ids = [ours().tokens.index(bytes([b])) for b in data]
    assert ours().decode(ids) == tiktoken_peer().decode(ids)


def test_bytes_that_look_like_surrogates_become_replacement_characters() -> None:
    half = [ours().tokens.index(bytes([b])) for b in b"\xed\xa0\x80"]
    assert ours().decode(half) == "\ufffd" * 3 == tiktoken_peer().decode(half)


def chunks_of(text: str, rng: random.Random, longest: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = rng.randint(0, longest)
        yield text[at : at + size]
        at += size


@pytest.mark.parametrize("longest", [1, 10, 5_000, 10**9])
def test_a_stream_gives_the_ids_of_the_whole(longest: int) -> None:
    rng = random.Random(longest)
    text = "".join(rng.sample(strings(), 3000)) + " " * 20_000 + "a" * 20_000 + END
    assert list(ours().encode_iterable(chunks_of(text, rng, longest))) == ours().encode(text)


def test_files_come_out_as_they_went_in(tmp_path: Path) -> None:
    ours().save_gpt2(tmp_path)
    for path in gpt2_files():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_the_json_is_read_by_tokenizers_and_gives_the_same_ids(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    ours().save_json(path)
    theirs = Tokenizer.from_file(str(path))
    assert theirs.get_vocab() == peer().get_vocab()
    texts = list(strings())
    for text, found in zip(texts, theirs.encode_batch(texts), strict=True):
        assert found.ids == ours().encode(text)
        assert theirs.decode(found.ids, skip_special_tokens=False) == text
    assert ByteLevelBPE.from_json(path).encode("A round trip.") == ours().encode("A round trip.")


def test_a_file_that_tokenizers_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    peer().save(str(path))
    read = ByteLevelBPE.from_json(path)
    assert read.tokens == ours().tokens
    assert read.merges == ours().merges
    assert read.special_tokens == ours().special_tokens


def test_a_file_with_another_hash_is_refused() -> None:
    with pytest.raises(ValueError, match=r"encoder\.json must have the SHA-256 1ce16.*got 196139"):
        verified(gpt2_files()[1], VOCAB_BPE_SHA256)


@pytest.mark.slow
def test_streaming_ten_megabytes_takes_less_than_one_above_the_vocabulary() -> None:
    tokenizer = ours()
    docs = python_docs()
    lines = docs.splitlines(keepends=True)

    def text() -> Iterator[str]:
        # Other words each time, so that a cache without a bound would show.
        for i in range(10_000_000 // len(docs)):
            for line in lines:
                yield line.replace("e", chr(0x4E00 + i))

    list(tokenizer.encode_iterable(["warm"]))
    tracemalloc.start()
    try:
        n = sum(1 for _ in tokenizer.encode_iterable(text()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n > 1_000_000
    assert peak < 1_000_000
