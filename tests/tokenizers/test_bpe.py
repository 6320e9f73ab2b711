from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from course_lib.tokenizers import bpe
from course_lib.tokenizers.bpe import (
    Ties,
    apply_merges,
    count_pairs,
    merge_pair,
    train,
    train_naive,
)
from course_lib.tokenizers.byte_level import ByteLevelBPE
from tests.house.layout import ROOT

WORKED = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
TRAINERS = [train_naive, train]
TIES: list[Ties] = ["first", "greatest"]


def words_over(symbols: Any) -> st.SearchStrategy[dict[Any, int]]:
    return st.dictionaries(symbols, st.integers(1, 4), max_size=8)


# Few symbols, so that there are many ties and many overlaps.
WORDS = st.one_of(
    words_over(st.text("ab", max_size=12)),
    words_over(st.text("abcé ", max_size=8)),
    words_over(st.lists(st.sampled_from([b"a", b"b"]), max_size=12).map(b"".join)),
    words_over(st.text("abcdefgh", min_size=8, max_size=30)),
    # Symbols that merges make too: one string comes about in several ways.
    words_over(st.lists(st.sampled_from(["a", "b", "ab", "ba", "aa"]), max_size=8).map(tuple)),
)


def encoded(word: str, merges: list[tuple[str, str]]) -> tuple[str, ...]:
    symbols: tuple[str, ...] = tuple(word)
    for pair in merges:
        symbols = merge_pair(symbols, pair)
    return symbols


def test_the_worked_corpus_has_the_counts_of_the_text() -> None:
    counts = count_pairs(WORKED)
    assert counts["u", "g"] == 20
    assert counts["p", "u"] == 17
    assert counts["u", "n"] == 16
    assert counts["h", "u"] == 15
    assert max(counts.values()) == 20


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("ties", TIES)
def test_the_worked_corpus_has_the_merges_of_the_text(
    trainer: Callable[..., list[tuple[str, str]]], ties: Ties
) -> None:
    merges = trainer(WORKED, 4, ties=ties)
    assert ["".join(pair) for pair in merges] == ["ug", "un", "hug", "pun"]
    assert encoded("bugs", merges) == ("b", "ug", "s")
    assert encoded("hugs", merges) == ("hug", "s")


def test_the_counts_between_the_worked_merges_are_those_of_the_text() -> None:
    words: dict[Any, int] = dict(WORKED)
    tops = [("u", "g"), ("u", "n"), ("h", "ug"), ("p", "un")]
    wanted = [
        {("u", "g"): 20},
        {("u", "n"): 16, ("h", "ug"): 15, ("p", "u"): 12},
        {("h", "ug"): 15, ("p", "un"): 12},
        {("p", "un"): 12},
    ]
    for pair, expected in zip(tops, wanted, strict=True):
        counts = count_pairs(words)
        assert {p: counts[p] for p in expected} == expected
        assert max(counts.values()) == counts[pair]
        words = {merge_pair(word, pair): n for word, n in words.items()}


def test_the_first_rule_takes_the_pair_that_is_met_first() -> None:
    for trainer in TRAINERS:
        assert trainer({"xcd": 1, "ab": 1}, 1, ties="first") == [("x", "c")]
        assert trainer({"ab": 1, "xcd": 1}, 1, ties="first") == [("a", "b")]


def test_the_first_rule_reads_the_words_as_they_are_cut_at_that_moment() -> None:
    # After `bc` is gone into one symbol, (a, bc) stands where (a, b) stood first of all.
    words = {"abc": 1, "xy": 1, "bc": 5}
    for trainer in TRAINERS:
        assert trainer(words, 3) == [("b", "c"), ("a", "bc"), ("x", "y")]


def test_the_first_rule_sees_that_a_first_place_is_gone() -> None:
    # (a, b) is met before (c, d) until (x, a) takes away its first place. Both are then there once.
    words = {"xab": 1, "xa": 3, "cd": 1, "ab": 1}
    for trainer in TRAINERS:
        assert trainer(words, 4) == [("x", "a"), ("xa", "b"), ("c", "d"), ("a", "b")]


def test_the_greatest_rule_compares_left_parts_first_and_longer_is_greater() -> None:
    for trainer in TRAINERS:
        assert trainer({"az": 1, "ba": 1}, 1, ties="greatest") == [("b", "a")]
        assert trainer({("a", "z"): 1, ("ab", "a"): 1}, 1, ties="greatest") == [("ab", "a")]
        assert trainer({("z", "a"): 1, ("z", "ab"): 1}, 1, ties="greatest") == [("z", "ab")]
        assert trainer({b"\x80a": 1, b"\x7fz": 1}, 1, ties="greatest") == [(b"\x80", b"a")]


def test_overlapping_pairs_are_all_counted_and_merged_from_left_to_right() -> None:
    assert count_pairs({"aaa": 3}) == {("a", "a"): 6}
    assert merge_pair("aaa", ("a", "a")) == ("aa", "a")
    assert merge_pair("aaaaa", ("a", "a")) == ("aa", "aa", "a")
    for trainer in TRAINERS:
        # Four times (a, a) in one word, against three times (b, c).
        assert trainer({"bc": 3, "aaaaa": 1}, 1) == [("a", "a")]


def test_counts_of_numpy_do_not_overflow() -> None:
    words: dict[str, Any] = {"ab": np.int8(100), "abc": np.int8(100), "xy": 127}
    assert count_pairs(words)["a", "b"] == 200
    for trainer in TRAINERS:
        assert trainer(words, 1) == [("a", "b")]


def test_no_pair_is_counted_across_words() -> None:
    assert count_pairs({"xa": 1, "by": 1, "za": 1, "bw": 1}).keys() == {
        ("x", "a"), ("b", "y"), ("z", "a"), ("b", "w"),
    }  # fmt: skip


def test_pairs_are_counted_in_the_order_in_which_they_are_met() -> None:
    assert list(count_pairs({"ba": 1, "aab": 1})) == [("b", "a"), ("a", "a"), ("a", "b")]


@given(WORDS, st.integers(0, 40), st.sampled_from(TIES), st.integers(1, 3))
# Here merges to the left of a pair decide between equals, if places are counted in symbols.
@example({"caeddcaabcbcbecedbb": 1}, 40, "first", 1)
@example({"abab": 1, "baab": 1, "aaa": 1}, 40, "first", 1)
@example({("aa",): 1, ("a", "a"): 2, ("aa", "b"): 1, ("a", "a", "b"): 1}, 40, "first", 1)
@example({("ab", "c"): 2, ("a", "b", "c"): 1, ("a", "bc"): 1, ("b", "c"): 3}, 40, "first", 1)
def test_the_fast_trainer_returns_the_list_of_the_naive_one(
    words: dict[Any, int], n_merges: int, ties: Ties, min_count: int
) -> None:
    options: dict[str, Any] = {"ties": ties, "min_count": min_count}
    assert train(words, n_merges, **options) == train_naive(words, n_merges, **options)


@given(WORDS, st.sampled_from(TIES))
def test_a_longer_list_goes_on_from_a_shorter_one_and_ends_where_no_pair_is_left(
    words: dict[Any, int], ties: Ties
) -> None:
    merges = train(words, 1000, ties=ties)
    assert train(words, 3, ties=ties) == merges[:3]
    for pair in merges:
        words = _merged(words, pair)
    assert count_pairs(words) == {}


@given(WORDS, st.sampled_from(TIES))
def test_every_merge_is_of_a_most_frequent_pair(words: dict[Any, int], ties: Ties) -> None:
    for pair in train(words, 20, ties=ties):
        counts = count_pairs(words)
        best = [p for p, n in counts.items() if n == max(counts.values())]
        assert pair == (best[0] if ties == "first" else max(best))
        words = _merged(words, pair)


def _merged(words: dict[Any, int], pair: Any) -> dict[Any, int]:
    result: dict[Any, int] = {}
    for word, n in words.items():
        cut = merge_pair(word, pair) if word else ()
        result[cut] = result.get(cut, 0) + n
    return result


@given(words_over(st.text("ab", max_size=12)), st.randoms())
def test_the_greatest_rule_does_not_depend_on_the_order_of_words(
    words: dict[str, int], random: Any
) -> None:
    shuffled = list(words.items())
    random.shuffle(shuffled)
    assert train(words, 20, ties="greatest") == train(dict(shuffled), 20, ties="greatest")


@given(WORDS)
def test_the_kept_counts_are_those_of_counting_again(words: dict[Any, int]) -> None:
    corpus = bpe._Corpus(bpe._cut_words(words))
    for pair in train(words, 20):
        corpus.merge(pair)
        cut = zip(map(tuple, corpus.words), corpus.frequencies, strict=True)
        assert corpus.counts == bpe._count(list(cut))


@given(st.text("abc", max_size=20), st.text("abc", min_size=2, max_size=2))
def test_a_merge_keeps_the_text_and_leaves_no_such_pair(text: str, pair: str) -> None:
    merged = merge_pair(text, (pair[0], pair[1]))
    assert "".join(merged) == text
    assert (pair[0], pair[1]) not in pairwise(merged)


def test_rarer_pairs_than_asked_for_are_left_alone() -> None:
    for trainer in TRAINERS:
        assert trainer({"ab": 3, "cd": 2, "ef": 1}, 9, min_count=2) == [("a", "b"), ("c", "d")]


def test_words_without_pairs_give_no_merges() -> None:
    for trainer in TRAINERS:
        assert trainer({}, 3) == trainer({"a": 5, "": 1}, 3) == []


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_progress_bar_counts_merges_and_leaves_the_list_alone(
    trainer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bars = []

    class Bar:
        def __init__(self, total: int) -> None:
            self.total, self.n = total, 0
            bars.append(self)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            self.closed = True

        def update(self) -> None:
            self.n += 1

    monkeypatch.setattr(bpe, "progress_bar", Bar)
    assert trainer(WORKED, 4, progress=True) == trainer(WORKED, 4)
    (bar,) = bars
    assert (bar.total, bar.n, bar.closed) == (4, 4, True)


@pytest.mark.parametrize(
    "function", [count_pairs, lambda words: train(words, 1), lambda words: train_naive(words, 1)]
)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hug"], "words must be a mapping"),
        ({"hug": 0}, "words\\['hug'\\] must be a whole number of at least 1; got 0"),
        ({"hug": 1.5}, "words\\['hug'\\] must be a whole number"),
        ({"hug": True}, "words\\['hug'\\] must be a whole number"),
        ({"hug": 1, b"pug": 1}, "words must hold strings alone or bytes alone"),
        ({3: 1}, "a word of words must be a string, bytes, or a sequence"),
        ({("a", b"b"): 1}, "a word of words must be"),
        ({("a", ""): 1}, "a word of words must be"),
    ],
)
def test_words_that_cannot_be_counted_are_refused(
    function: Callable[[Any], Any], words: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(words)


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_merges": -1}, "n_merges must be a whole number of at least 0; got -1"),
        ({"n_merges": 1.0}, "n_merges must be"),
        ({"ties": "last"}, "ties must be 'first' or 'greatest'; got 'last'"),
        ({"ties": ["first"]}, "ties must be"),
        ({"min_count": 0}, "min_count must be a whole number of at least 1; got 0"),
    ],
)
def test_training_that_makes_no_sense_is_refused(
    trainer: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        trainer(WORKED, **{"n_merges": 1} | options)


@pytest.mark.parametrize(
    ("symbols", "pair", "message"),
    [
        (3, ("a", "b"), "symbols must be"),
        ("ab", ["a", "b"], "pair must be a tuple of two symbols"),
        ("ab", ("a", "b", "c"), "pair must be a tuple of two symbols"),
        ("ab", ("a", 1), "pair must be"),
        ("ab", ("a", ""), "pair must be"),
        ("ab", (b"a", b"b"), "pair must hold str, as symbols does; got bytes"),
        ("ab", None, "pair must be"),
    ],
)
def test_a_merge_that_makes_no_sense_is_refused(symbols: Any, pair: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        merge_pair(symbols, pair)


def test_the_trainers_need_no_package() -> None:
    program = """
import sys
for name in ("numpy", "regex", "torch", "tqdm"):
    sys.modules[name] = None  # importing it raises, as where it isn't installed
import course_lib.tokenizers
from course_lib.tokenizers.bpe import train
assert train({"ab": 1}, 1) == [("a", "b")]
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Applying merges


def test_the_worked_example_is_cut_by_rank() -> None:
    merges = train(WORKED, 4)
    assert apply_merges("bugs", merges) == ("b", "ug", "s")
    assert apply_merges("hugs", merges) == ("hug", "s")
    assert apply_merges("pun", merges) == ("pun",)


def test_the_lowest_rank_goes_first_and_not_the_leftmost_pair() -> None:
    assert apply_merges("abc", [("b", "c"), ("a", "b")]) == ("a", "bc")
    assert apply_merges("abc", [("a", "b"), ("b", "c")]) == ("ab", "c")


def test_of_a_pair_that_is_in_the_list_twice_the_first_place_counts() -> None:
    assert apply_merges("abc", [("a", "b"), ("b", "c"), ("a", "b")]) == ("ab", "c")


def test_a_pair_is_merged_wherever_it_occurs_before_a_later_one() -> None:
    assert apply_merges("aaab", [("a", "a"), ("a", "b"), ("aa", "ab")]) == ("aaab",)
    assert apply_merges("aaaab", [("a", "a"), ("a", "b"), ("aa", "aa")]) == ("aaaa", "b")


def test_the_words_of_training_are_cut_as_training_left_them() -> None:
    for n_merges in range(8):
        merges = train(WORKED, n_merges)
        assert {w: apply_merges(w, merges) for w in WORKED} == {
            w: encoded(w, merges) for w in WORKED
        }


@given(st.lists(st.text("abc", max_size=12), max_size=8), st.text("abc", max_size=20))
def test_the_byte_level_encoder_cuts_a_pretoken_alike(words: list[str], word: str) -> None:
    merges = train({w.encode(): words.count(w) for w in words}, 20)
    tokenizer = ByteLevelBPE(merges)
    found = tuple(tokenizer.tokens[i] for i in tokenizer.encode(word))
    assert apply_merges(word.encode(), merges) == found


@pytest.mark.parametrize(
    ("symbols", "merges", "says"),
    [
        (3, [], "symbols must be a string"),
        ("ab", "ab", "merges must be a sequence of pairs; got str"),
        ("ab", [("a", "b", "c")], r"merges\[0\] must be a tuple of two symbols"),
        ("ab", [("a", "b"), ["a", "b"]], r"merges\[1\] must be a tuple of two symbols"),
        ("ab", [(b"a", b"b")], r"merges\[0\] must hold str, as symbols does; got bytes"),
        ("ab", [("a", "")], r"merges\[0\] must be"),
    ],
)
def test_merges_that_cannot_be_applied_are_refused(
    symbols: object, merges: object, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        apply_merges(symbols, merges)
