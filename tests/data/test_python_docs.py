from __future__ import annotations

import re
from itertools import combinations, pairwise
from pydoc_data.topics import topics

import pytest

from course_lib.data.python_docs import (
    TEST,
    VALIDATION,
    python_docs,
    sentences,
    text_split,
    word_split,
    words,
)

SPLIT = word_split()
PARTS = {"train": SPLIT.train, "validation": SPLIT.validation, "test": SPLIT.test}


def test_the_text_is_a_quarter_of_a_megabyte_of_paragraphs_that_all_differ() -> None:
    lines = python_docs().splitlines()
    assert len(lines) == len(set(lines))
    assert 200_000 < len(python_docs()) < 400_000
    assert all(line == " ".join(line.split()) for line in lines)


def test_no_program_grammar_heading_or_emphasis_is_left() -> None:
    text = python_docs()
    for mark in (">>>", "::=", "****", "====", "----"):
        assert mark not in text
    assert not re.search(r"(?<![\w*\"'(])\*\w+\*(?!\w)", text)


def test_every_paragraph_is_one_of_the_manual() -> None:
    manual = re.sub(r"[*\s]", "", "\n".join(topics.values()))
    for line in python_docs().splitlines():
        assert re.sub(r"[*\s]", "", line) in manual


def test_what_the_manual_says_twice_is_there_once() -> None:
    said = 'The "if" statement is used for conditional execution:'
    assert sum(said in " ".join(text.split()) for text in topics.values()) > 1
    assert python_docs().count(said) == 1


def test_held_out_topics_are_topics_of_this_python_and_differ() -> None:
    assert {*TEST, *VALIDATION} <= set(topics)
    assert not set(TEST) & set(VALIDATION)


@pytest.mark.parametrize(("one", "other"), list(combinations(PARTS, 2)))
def test_no_sentence_is_in_two_parts(one: str, other: str) -> None:
    assert not set(PARTS[one]) & set(PARTS[other])


@pytest.mark.parametrize("name", PARTS)
def test_no_sentence_is_twice_in_a_part_and_none_is_empty(name: str) -> None:
    part = PARTS[name]
    assert len(part) == len(set(part))
    assert all(part)


def test_a_tenth_or_more_is_held_out_for_each_purpose() -> None:
    sizes = {name: sum(map(len, part)) for name, part in PARTS.items()}
    assert sizes["train"] > 30_000
    for name in ("validation", "test"):
        assert 0.1 < sizes[name] / sum(sizes.values()) < 0.2


def test_a_held_out_topic_lends_nothing_to_training() -> None:
    held_out = {tuple(s) for line in paragraphs("comparisons") for s in sentences(line)}
    assert len(held_out & set(SPLIT.test)) > 30
    assert not held_out & set(SPLIT.train)


def paragraphs(topic: str) -> list[str]:
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", topics[topic])]


def test_words_are_lower_case_and_lose_nothing_but_spaces() -> None:
    text = 'Don\'t call "__init__()" twice; x_1 = 3.5 … “yes”'
    found = words(text)
    assert "".join(found) == re.sub(r"\s", "", text).replace("'", "’").lower()
    assert {"don’t", "__init__", "x_1", "“"} <= set(found)


def test_a_name_or_an_abbreviation_does_not_end_a_sentence() -> None:
    assert len(sentences('See "object.attribute" and so on, e.g. this one.')) == 1
    assert len(sentences('It ends here. "None" begins the next: This one the third.')) == 3
    assert len(sentences("Two lines\nare two paragraphs")) == 2


def test_sentences_come_in_the_order_of_the_text() -> None:
    text = " ".join(words(python_docs()))
    places = [text.index(" ".join(s)) for s in SPLIT.test[:50]]
    assert all(a < b for a, b in pairwise(places))


@pytest.mark.parametrize("function", [words, sentences])
def test_what_is_no_text_is_refused(function) -> None:
    with pytest.raises(ValueError, match=r"^text must be a string; got list$"):
        function(["a"])


def test_the_parts_of_the_text_hold_every_paragraph_once_and_as_it_is_written() -> None:
    split = text_split()
    lines = [split.test.splitlines(), split.validation.splitlines(), split.train.splitlines()]
    assert [line for part in lines for line in part] == python_docs().splitlines()
    assert len(set().union(*lines)) == sum(map(len, lines))
    for text in (split.train, split.validation, split.test):
        assert text.endswith("\n")
        assert "\n\n" not in text


def test_the_text_is_split_at_the_same_topics_as_the_words() -> None:
    split = text_split()
    for name in ("validation", "test"):
        found = {tuple(s) for s in sentences(getattr(split, name))}
        assert set(getattr(SPLIT, name)) <= found
