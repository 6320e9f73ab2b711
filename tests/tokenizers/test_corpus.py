from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from course_lib.data.python_docs import python_docs
from course_lib.tokenizers import corpus
from course_lib.tokenizers.bpe import train
from course_lib.tokenizers.byte_level import GPT2_PATTERN
from course_lib.tokenizers.corpus import count_pretokens, train_bpe
from tests.tokenizers.strings import strings

# The pattern of GPT-4's tokenizer: signs take the line ends after them along, numbers are cut in
# threes, and white space is matched up to its last line end.
GPT4_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
# What borders may go wrong at: contractions, runs of white space, all line ends, several bytes a
# character, pieces of special tokens.
PIECES = ["a", "word", "é", "漢字", "😀", "1", "234", "'", "'l", "'ll", "'re", ".", "!?", "b c"]
PIECES += [" ", "  ", "\n", "\r\n", "\t", "\u3000", "\x85", "<", "<|", "<|a", "<|a|>", "|>b", ">"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
PATTERNS = st.sampled_from([GPT2_PATTERN, GPT4_PATTERN])
SPECIALS = st.sampled_from([(), ("<|a|>",), ("<|a|>", "<|a|>b", "<"), ("b c", " w"), (" ",)])


def plain_counts(text: str, pattern: str, specials: tuple[str, ...]) -> dict[bytes, int]:
    """Count the pre-tokens of a whole text, the definition word for word."""
    counts: Counter[bytes] = Counter()
    start = at = 0
    while at <= len(text):
        fitting = [token for token in specials if text.startswith(token, at)]
        if fitting or at == len(text):
            found = regex.finditer(pattern, text[start:at])
            counts.update(match.group().encode() for match in found)
            start = at + len(max(fitting, key=len, default=""))
            at = max(start, at + 1)
        else:
            at += 1
    return dict(counts)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus") / "text.txt"


def written(file: Path, text: str) -> Path:
    file.write_bytes(text.encode())
    return file


# Without a letter before white space there is no cheap border, and matches are looked at.
SIGNS = st.lists(st.sampled_from(["。", "'", "ll", " ", "\u3000", "\n", "<|a|>", "<"]), max_size=99)


@given(
    TEXTS | SIGNS.map("".join),
    SPECIALS,
    st.sampled_from([GPT2_PATTERN, GPT4_PATTERN]),
    st.integers(1, 80),
)
@example("a" * 40 + "'ll" + "b" * 40, (), GPT2_PATTERN, 1)
@example(" " * 100 + "\n", (), GPT4_PATTERN, 7)
@example(" " * 100 + "a", (), GPT2_PATTERN, 7)
@example("漢字。" * 40, (), GPT2_PATTERN, 10)
@settings(max_examples=600)
def test_borders_of_chunks_change_nothing_in_texts_and_files(
    file: Path, text: str, specials: tuple[str, ...], pattern: str, chunk_bytes: int
) -> None:
    wanted = list(plain_counts(text, pattern, specials).items())
    for source in (text, written(file, text)):
        counts = count_pretokens(source, pattern, specials, chunk_bytes=chunk_bytes)
        assert list(counts.items()) == wanted  # in the same order too


@pytest.mark.parametrize("pattern", [GPT2_PATTERN, GPT4_PATTERN])
@pytest.mark.parametrize("chunk_bytes", [1, 50, 1000])
def test_a_text_in_many_scripts_is_counted_the_same_in_chunks_of_any_size(
    file: Path, pattern: str, chunk_bytes: int
) -> None:
    text = "".join(strings(2000)).encode(errors="replace").decode()
    wanted = Counter(match.group().encode() for match in regex.finditer(pattern, text))
    for source in (text, written(file, text)):
        assert count_pretokens(source, pattern, chunk_bytes=chunk_bytes) == wanted


def test_chunks_are_cut_even_where_no_white_space_is() -> None:
    text = "漢字。" * 1000
    parts = [text[i : i + 100] for i in range(0, len(text), 100)]
    chunks = list(corpus._chunks(iter(parts), regex.compile(GPT2_PATTERN), (), 100))
    assert "".join(chunks) == text
    assert max(map(len, chunks)) < 400


def test_a_pretoken_longer_than_a_chunk_stays_whole() -> None:
    text = "x" * 5000 + " y"
    assert count_pretokens(text, chunk_bytes=10) == {b"x" * 5000: 1, b" y": 1}


def test_several_processes_return_what_one_returns(file: Path) -> None:
    text = python_docs()[:60_000] + "<|end|>" + "漢字。" * 2000
    for source in (text, written(file, text)):
        one = count_pretokens(source, special_tokens=["<|end|>"], chunk_bytes=5000)
        two = count_pretokens(source, special_tokens=["<|end|>"], chunk_bytes=5000, processes=2)
        assert list(one.items()) == list(two.items())


def test_an_error_while_processes_work_reaches_the_caller(file: Path) -> None:
    file.write_bytes(b"word " * 1000 + b"\xff")
    with pytest.raises(ValueError, match="source must be a file in UTF-8"):
        count_pretokens(file, chunk_bytes=500, processes=2)


def test_line_ends_of_a_file_are_kept(file: Path) -> None:
    assert count_pretokens(written(file, "a\r\nb\rc")) == count_pretokens("a\r\nb\rc")
    assert b"\r" in count_pretokens(file)


def test_groups_in_a_pattern_change_nothing() -> None:
    assert count_pretokens("ab 12", r"(\p{L})\p{L}*|.") == {b"ab": 1, b" ": 1, b"1": 1, b"2": 1}


def test_empty_matches_are_no_pretokens() -> None:
    assert count_pretokens("ab 1 c", r"\p{L}*") == {b"ab": 1, b"c": 1}


def test_memory_does_not_grow_with_the_file(file: Path) -> None:
    peaks = []
    line = python_docs()[:20_000] + "\n"
    for repeats in (10, 100):
        written(file, line * repeats)
        tracemalloc.start()
        count_pretokens(file, chunk_bytes=2**14)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < file.stat().st_size / 2


def test_training_counts_then_learns_then_numbers() -> None:
    text = python_docs()[:50_000] + "<|end|>" + "a<|end|>b" * 500
    for ties in ("first", "greatest"):
        tokenizer = train_bpe(text, 400, ["<|end|>"], ties=ties)  # type: ignore[arg-type]
        words = count_pretokens(text, special_tokens=["<|end|>"])
        assert list(tokenizer.merges) == train(words, 143, ties=ties)  # type: ignore[arg-type]
        assert len(tokenizer) == 400
        assert tokenizer.special_tokens == {"<|end|>": 399}
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_nothing_is_merged_across_a_special_token() -> None:
    tokenizer = train_bpe("a<|x|>b" * 50 + "a<|x", 300, ["<|x|>"])
    made = {left + right for left, right in tokenizer.merges}
    assert made == {b"<|", b"ba"}  # of "ba", and of "<|" and "x" behind the last "a"
    assert len(tokenizer) == 259  # pairs ran out


def test_a_file_in_processes_trains_the_tokenizer_of_its_text(file: Path) -> None:
    text = python_docs()[:50_000]
    options: dict[str, Any] = {"chunk_bytes": 5000, "processes": 2}
    from_file = train_bpe(written(file, text), 400, **options)
    assert from_file.merges == train_bpe(text, 400).merges


def test_rare_pairs_can_be_left_alone() -> None:
    assert train_bpe("ab ab cd", 300, min_count=2).merges == ((b"a", b"b"),)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_progress_bar_reaches_the_size_of_the_source(
    processes: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars = []

    class Bar:
        def __init__(self, total: int) -> None:
            self.total, self.n, self.closed = total, 0, False
            bars.append(self)

        def update(self, n: int) -> None:
            self.n += n

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(corpus, "progress_bar", Bar)
    text = "naïve café " * 100
    for source in (text, written(file, text)):
        counts = count_pretokens(source, chunk_bytes=100, processes=processes, progress=True)
        assert counts == count_pretokens(text)
    assert [(bar.total, bar.n, bar.closed) for bar in bars] == [(1300, 1300, True)] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": b"bytes"}, "source must be a string, or the path of a file; got bytes"),
        ({"source": "a\ud800"}, "source must be text that UTF-8 can write; .* at 1"),
        ({"pattern": 3}, "pattern must be a string"),
        ({"pattern": "("}, "pattern must be a regular expression"),
        ({"special_tokens": "<s>"}, "special_tokens must be an iterable of strings"),
        ({"special_tokens": [""]}, "special_tokens must not hold an empty string"),
        ({"special_tokens": ["<s>", "<s>"]}, "special_tokens must be distinct"),
        ({"special_tokens": [1]}, "a token of special_tokens must be a string"),
        ({"special_tokens": ["\udc80"]}, "a token of special_tokens must be text that UTF-8"),
        ({"processes": 0}, "processes must be a whole number of at least 1; got 0"),
        ({"chunk_bytes": 0}, "chunk_bytes must be a whole number of at least 1; got 0"),
    ],
)
def test_counting_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        count_pretokens(**{"source": "text"} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 255}, "vocab_size must be a whole number of at least 256; got 255"),
        ({"vocab_size": 256, "special_tokens": ["<s>"]}, "at least 257; got 256"),
        ({"vocab_size": 300.0}, "vocab_size must be"),
        ({"ties": "last"}, "ties must be"),
        ({"special_tokens": [""]}, "special_tokens must not hold an empty string"),
        ({"special_tokens": ["a"]}, "special"),
        ({"source": None}, "source must be"),
    ],
)
def test_training_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_bpe(**{"source": "text", "vocab_size": 300} | options)


def test_a_file_that_is_missing_or_broken_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        count_pretokens(tmp_path / "none.txt")
    broken = tmp_path / "broken.txt"
    for data in (b"caf\xe9 au lait", b"caf\xc3"):  # Latin-1; cut within a character
        broken.write_bytes(data)
        with pytest.raises(ValueError, match="source must be a file in UTF-8"):
            count_pretokens(broken)
