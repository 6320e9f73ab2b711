from __future__ import annotations

import pytest

from course_lib.data.choices import Choices, count, search


def noun(choose: Choices, colours: tuple[str, ...]) -> str:
    colour = choose.one(colours) + " " if choose.maybe(0.5) else ""
    return colour + choose.one(("cat", "dog", "bird"))


def sentence(choose: Choices) -> str:
    subject = choose.part(noun, ("black", "white"))
    if choose.maybe(0.4):
        return subject + " sleeps"
    return f"{subject} sees {choose.part(noun, ('red', 'green', 'blue'))}"


def test_the_count_is_the_number_of_all_sentences() -> None:
    everything = list(search(sentence, lambda option: True))
    assert len(everything) == len(set(everything)) == count(sentence)
    assert count(sentence) == 9 + 9 * 12


def test_a_function_without_choices_has_one_sentence() -> None:
    assert count(lambda choose: "only") == 1
    assert list(search(lambda choose: "only", lambda option: True)) == ["only"]


def test_random_sentences_are_sentences_and_all_of_them_come_up() -> None:
    everything = set(search(sentence, lambda option: True))
    choose = Choices(0)
    drawn = {sentence(choose) for _ in range(5000)}
    assert drawn == everything


def test_a_seed_repeats_itself() -> None:
    first, second, other = Choices(1), Choices(1), Choices(2)
    a, b, c = ([sentence(choose) for _ in range(30)] for choose in (first, second, other))
    assert a == b != c


def test_maybe_happens_about_as_often_as_asked() -> None:
    choose = Choices(3)
    happened = sum(choose.maybe(0.2) for _ in range(10_000))
    assert 1800 < happened < 2200  # deviation 40


def test_a_search_takes_admitted_options_and_leaves_parts_that_do_not_fit() -> None:
    wanted = "black cat sees red dog"
    found = list(search(sentence, lambda option: option is True or str(option) in wanted))
    assert wanted in found
    assert all(word in [*wanted.split(), "sleeps"] for line in found for word in line.split())
    found = list(search(sentence, lambda option: True, lambda part: part == "black cat"))
    assert found == ["black cat sleeps"]


def test_a_search_that_admits_nothing_finds_nothing() -> None:
    assert list(search(sentence, lambda option: isinstance(option, bool))) == []


def test_an_error_of_the_grammar_is_not_swallowed() -> None:
    def broken(choose: Choices) -> str:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        list(search(broken, lambda option: True))


def test_what_is_put_together_is_remembered() -> None:
    choose = Choices(0)
    choose.note("old", "cat")
    choose.note("eat", "apple")
    assert choose.combinations == {("old", "cat"), ("eat", "apple")}
