"""Text, lists and dictionaries as results: compared, shown and explained for what they are."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from course_lib.grading import Case, Exercise, Misconception, plain
from tests.grading.toy import told

Toy = Callable[..., Exercise]

PAIRS = [("u", "g"), ("u", "n"), ("h", "ug")]
COUNTS = {("h", "u"): 10, ("u", "g"): 15}
PIECES = ["hug", "s"]
TEXT = "café au lait"
CASE = [Case(name="one", inputs={"word": "hugs"})]


class Letters(str):
    """A string that says it equals whatever pleases."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def nested(depth: int, kind: type) -> Any:
    value: Any = kind()
    for _ in range(depth):
        value = kind([value])
    return value


def asked(toy: Toy, right: Any, answer: Any, **changed: Any) -> tuple[Any, str]:
    """Check a function that returns `answer` where `right` is expected."""
    toy(**{"reference": lambda word: right, "cases": CASE, "misconceptions": [], **changed})
    return told(lambda word: answer)


ALIKE: dict[str, tuple[Any, Any]] = {
    "a list of pairs": (PAIRS, list(PAIRS)),
    "tuples for lists": (PAIRS, tuple(PAIRS)),
    "lists for tuples": (PAIRS, [list(pair) for pair in PAIRS]),
    "a deque": (PIECES, collections.deque(PIECES)),
    "a list for a tuple": (("h", "ug"), ["h", "ug"]),
    "an array of text": (PIECES, np.array(PIECES)),
    "strings of numpy": (PIECES, [np.str_(piece) for piece in PIECES]),
    "a dictionary": (COUNTS, dict(COUNTS)),
    "a Counter": (COUNTS, collections.Counter(COUNTS)),
    "a defaultdict": (COUNTS, collections.defaultdict(int, COUNTS)),
    "another order of keys": (COUNTS, dict(reversed(COUNTS.items()))),
    "numbers of numpy": (COUNTS, {key: np.int64(n) for key, n in COUNTS.items()}),
    "whole floats": (COUNTS, {key: float(n) for key, n in COUNTS.items()}),
    "text": (TEXT, "".join(TEXT)),
    "a subclass of text": (TEXT, types.new_class("Text", (str,))(TEXT)),
    "bytes": (b"ab", b"ab"),
    "a bytearray": (b"ab", bytearray(b"ab")),
    "a set": ({"a", "b"}, frozenset("ba")),
    "ids as an array": ([257, 32], np.array([257, 32])),
    "nothing": ([], ()),
    "floats but for rounding": ({"a": 0.3}, {"a": 0.1 + 0.2}),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_holds_the_same_is_right_whatever_its_container(name: str, toy: Toy) -> None:
    right, answer = ALIKE[name]
    report, text = asked(toy, right, answer)
    assert report.passed and report.points == 3, text


UNLIKE: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "another item": (
        PIECES,
        ["h", "ugs"],
        (
            "result yours ['h', 'ugs'] right ['hug', 's']",
            "first difference at result[0]: 'h', right 'hug'",
            "spells the right text, cut at other places.",
        ),
    ),
    "another pair": (
        PAIRS,
        [*PAIRS[:2], ("h", "u")],
        ("first difference at result[2]: ('h', 'u'), right ('h', 'ug')",),
    ),
    "too few": (
        PAIRS,
        PAIRS[:2],
        (
            "yours ends, right ('h', 'ug')",
            "is right as far as it goes, but ends after 2 of 3 items.",
        ),
    ),
    "too many": (
        PIECES,
        [*PIECES, ""],
        ("first difference at result[2]: '', the right one ends", "goes on after the right one's"),
    ),
    "none": (PIECES, [], ("is right as far as it goes, but holds none of 2 items.",)),
    "the wrong way round": (PIECES, PIECES[::-1], ("is the right one in reverse order.",)),
    "another order": (
        PAIRS,
        [PAIRS[1], PAIRS[2], PAIRS[0]],
        ("holds the right items in another order.",),
    ),
    "text for a list": (
        PIECES,
        "hug s",
        (
            "Your result is a string; expected a list of strings.",
            "→ Are the parts to be joined, or to stand one by one in a list?",
        ),
    ),
    "a list for text": (
        TEXT,
        list(TEXT),
        ("is a list of strings; expected a string.", "What joins the parts into one string?"),
    ),
    "bytes for text": (TEXT, TEXT.encode(), ("is bytes; expected a string.", "bytes into text?")),
    "strings for pairs": (
        PAIRS,
        ["ug", "un", "hug"],
        ("is a list of strings; expected a list of pairs.", "makes one string of them?"),
    ),
    "pairs with their counts": (PAIRS, [(p, 3) for p in PAIRS], ("(('u', 'g'), 3)",)),
    "pieces for ids": ([5, 6], PIECES, ("expected a list of whole numbers.", "to get ids?")),
    "a mixture": (
        PIECES,
        ["h", ("u", "g"), "s"],
        ("is a list of pairs and strings;", "Which line puts something of another kind into"),
    ),
    "a set for a list": (
        PIECES,
        set(PIECES),
        ("yours {'hug', 's'}", "is a set; expected a list", "has no order"),
    ),
    "a number": (PIECES, 2, ("is a whole number; expected a list of strings.",)),
    "True for 1": ({"a": 1}, {"a": True}, ("yours True right 1",)),
    "another count": (
        COUNTS,
        {("h", "u"): 10, ("u", "g"): 5},
        (
            "result[('u', 'g')] yours 5 right 15",
            "has the right keys; 1 of 2 values differ.",
        ),
    ),
    "a key missing": (
        COUNTS,
        {("h", "u"): 10},
        ("yours has 1 key, right 2 keys", "yours missing right 15", "lacks: 1 of 2 keys."),
    ),
    "a key too many": (
        COUNTS,
        {**COUNTS, ("g", "h"): 0},
        ("result[('g', 'h')] yours 0 right not there", "is right but for 1 key too many."),
    ),
    "white space": (TEXT, TEXT + "\n", ("differs from the right one in white space only.",)),
    "another character": (
        TEXT,
        TEXT.replace("é", "\ufffd"),
        ("first difference at character 3 of result: '\ufffd', right 'é'",),
    ),
    "text that ends early": (TEXT, TEXT[:4], ("is right as far as it goes, but ends too early.",)),
    "text that goes on": (TEXT, TEXT + "!", ("and then goes on.",)),
    "a string that equals everything": (TEXT, Letters("x"), ("yours 'x'",)),
    "an object that equals everything": (PIECES, AlwaysEqual(), ("an `AlwaysEqual` object.",)),
    "such an object in an array": (
        PIECES,
        np.array(["hug", AlwaysEqual()], dtype=object),
        ("an `AlwaysEqual` object.",),
    ),
    "such a key": (COUNTS, {AlwaysEqual(): 10}, ("an `AlwaysEqual` object.",)),
    "None": (PIECES, None, ("returns None.", "Is there a `return`")),
    "None in a list": (PIECES, ["hug", None], ("a list of None and strings",)),
    "a generator": (
        PIECES,
        (piece for piece in PIECES),
        ("returns a generator, which holds nothing yet.", "Collect what it gives, as in list(…)"),
    ),
    "a map": (TEXT, map(str, TEXT), ("a `map` object, not its items.", 'as in "".join(…)')),
    "keys": (PIECES, dict.fromkeys(PIECES).keys(), ("a `dict_keys` object, not its items.",)),
    "items for a dictionary": (COUNTS, COUNTS.items(), ("as in dict(…), and return that.",)),
    "a function": (PIECES, lambda: PIECES, ("returns a function instead of its result.",)),
    "lists without a bottom": (PIECES, nested(40, list), ("nested more than 16 deep",)),
    "keys without a bottom": (COUNTS, {nested(5000, tuple): 1}, ("nested more than 16 deep",)),
    "items without an end": (PIECES, ["h"] * 1_000_001, ("more than 1,000,000 items.",)),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_what_is_another_gets_no_point_and_says_what_differs(name: str, toy: Toy) -> None:
    right, answer, sentences = UNLIKE[name]
    report, text = asked(toy, right, answer)
    assert report.points == 0 and report.attempted and not report.passed, text
    assert "→" in text
    for sentence in sentences:
        assert sentence in text, text


def test_only_the_part_that_is_wrong_is_shown(toy: Toy) -> None:
    fields: dict[str, Any] = {"returns": ("pieces", "score")}
    right = (PIECES, -7.5)
    assert asked(toy, right, (tuple(PIECES), np.float32(-7.5)), **fields)[0].passed
    _, text = asked(toy, right, (["hugs"], -7.5), **fields)
    assert "pieces yours ['hugs'] right ['hug', 's']" in text and "score" not in text
    _, text = asked(toy, right, (PIECES, 7.5), **fields)
    assert "score yours 7.500 right −7.500" in text and "pieces" not in text
    _, text = asked(toy, right, (-7.5, PIECES), **fields)
    assert "returns `score` first; expected (pieces, score)." in text
    _, text = asked(toy, right, (PIECES, PIECES), **fields)
    assert "returns a list that holds text (str) for `score`" in text
    _, text = asked(toy, right, (None, -7.5), **fields)
    assert "returns None for `pieces`" in text


def test_a_misconception_is_recognised_by_its_list(toy: Toy) -> None:
    wrong = Misconception(
        name="joined", wrong=lambda word: ["".join(p) for p in PAIRS], hint="Joined. → Why?"
    )
    _, text = asked(toy, PAIRS, ["ug", "un", "hug"], misconceptions=[wrong])
    assert "Joined." in text and "→ Why?" in text
    _, text = asked(toy, PAIRS, ["ug", "un"], misconceptions=[wrong])
    assert "Joined." not in text


def test_a_list_that_is_changed_on_the_way_is_noticed(toy: Toy) -> None:
    toy(
        reference=lambda symbols: symbols[1:],
        cases=[Case(name="one", inputs={"symbols": ["h", "u"]})],
        misconceptions=[],
    )

    def popping(symbols: list[str]) -> list[str]:
        symbols.pop(0)
        return list(symbols)

    report, text = told(popping)
    assert report.points == 0
    assert "The result is right, but `symbols` was changed" in text
    assert "`append`, `pop`, `del`" in text


def growing(word: str) -> Any:
    counts = dict.fromkeys(word, 0)
    for letter in counts:
        counts[letter * 2] = 1
    return counts


@pytest.mark.parametrize(
    ("wrong", "step"),
    [
        (growing, "Which new one could be filled in its place?"),
        (lambda word: list(word)[9], "How long is it at that moment"),
        (lambda word: {list(word): 1}, "Which kind of sequence can't change?"),
        (lambda word: tuple(word).__setitem__, "What is the object before the dot?"),
        (lambda word: "".join([b"a"]), "Text and bytes can't be joined."),
        (lambda word: int(word), "What does that line work on at that moment?"),
    ],
)
def test_an_error_gets_a_step_that_fits_text_and_lists(wrong: Any, step: str, toy: Toy) -> None:
    toy(reference=lambda word: PIECES, cases=CASE, misconceptions=[])
    _, text = told(wrong)
    assert step in text, text


def test_long_inputs_are_broken_after_commas_and_can_be_copied(toy: Toy) -> None:
    words = {("h", "u", "g", str(i)): i for i in range(8)}
    toy(
        reference=lambda words: COUNTS,
        cases=[Case(name="one", inputs={"words": words})],
        misconceptions=[],
    )
    report, text = told(lambda words: {})
    (line,) = [part for part in text.split("result: ") if "words = " in part]
    assert eval(line.split("words = ")[1].strip()) == words
    assert all(len(line) <= 80 for line in str(report).splitlines())


@pytest.mark.parametrize("at", [0, 1, 37, 198, 199])
def test_a_long_list_or_text_shows_where_it_first_differs(at: int) -> None:
    right = [f"p{i}" for i in range(200)]
    yours = [*right[:at], "here", *right[at + 1 :]]
    lines = plain.side_by_side("pieces", yours, right)
    assert all(len(line) <= plain.WIDTH for line in lines)
    assert "'here'" in lines[0] and f"'p{at}'" in lines[1]
    assert lines[2] == f"first difference at pieces[{at}]: 'here', right 'p{at}'"

    text = "abcdefghij" * 20
    other = f"{text[:at]}X{text[at + 1 :]}"
    lines = plain.side_by_side("text", other, text)
    assert all(len(line) <= plain.WIDTH for line in lines)
    assert "X" in lines[0]
    assert lines[2] == f"first difference at character {at} of text: 'X', right {text[at]!r}"


def test_only_some_of_many_keys_are_listed() -> None:
    right = {("a", str(i)): i for i in range(50)}
    lines = plain.side_by_side("counts", {}, right)
    assert len(lines) == 8 and lines[-1] == "… and 44 more that differ"
    assert all(len(line) <= plain.WIDTH for line in lines)
