from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from course_lib.data.agreement import NOUNS, WORDS, Agreement, agreement_examples

SINGULAR = {one for one, _ in NOUNS}
PLURAL = {several for _, several in NOUNS}
DISTANCES = [0, 1, 2, 3, 4, 5, 6, 7, 11, 20, 48]


@pytest.mark.parametrize("distance", DISTANCES)
def test_between_subject_and_verb_stand_as_many_words_as_were_asked_for(distance: int) -> None:
    for example in agreement_examples(200, distance=distance, seed=1):
        assert example.distance == distance
        assert len(example.tokens) - 1 - example.subject == distance
        assert set(example.tokens) <= set(WORDS)


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_verb_agrees_with_the_first_noun(distance: int) -> None:
    for example in agreement_examples(200, distance=distance, seed=2):
        nouns = [word for word in example.tokens if word in SINGULAR | PLURAL]
        assert nouns[0] == example.tokens[example.subject]
        assert example.plural == (nouns[0] in PLURAL)
        assert example.verb == ("were" if example.plural else "was")


def test_every_gap_is_a_chain_of_places_and_clauses() -> None:
    starts = {"near", "behind", "beside", "with", "that", "outside", "inside", "over", "in"}
    for distance in DISTANCES[1:]:
        for example in agreement_examples(100, distance=distance, seed=3):
            gap = list(example.tokens[example.subject + 1 :])
            while gap:
                assert gap[0] in starts, gap
                if gap[0] in ("outside", "inside"):
                    gap = gap[1:]
                elif gap[0] in ("over", "in"):
                    assert tuple(gap[:2]) in (("over", "there"), ("in", "town"))
                    gap = gap[2:]
                else:
                    end = next(i for i, word in enumerate(gap) if word in SINGULAR | PLURAL)
                    verbs = {"saw", "followed", "liked", "heard"} & set(gap[:end])
                    assert len(verbs) == (gap[0] == "that")
                    assert gap[:end].count("the") == 1
                    gap = gap[end + 1 :]


def test_the_other_nouns_tell_nothing_of_the_subjects_number() -> None:
    examples = agreement_examples(4000, distance=12, seed=4)
    agree: list[bool] = []
    for example in examples:
        others = [w for w in example.tokens[example.subject + 1 :] if w in SINGULAR | PLURAL]
        agree += [(word in PLURAL) == example.plural for word in others]
    assert sum(agree) / len(agree) == pytest.approx(0.5, abs=0.02)
    assert sum(e.plural for e in examples) / 4000 == pytest.approx(0.5, abs=0.03)
    for word in ("the", "that", "old", "near", "often", "outside"):
        with_it = [e.plural for e in examples if word in e.tokens]
        assert len(with_it) == 4000 or sum(with_it) / len(with_it) == pytest.approx(0.5, abs=0.06)


def test_every_word_turns_up() -> None:
    seen = {w for d in (5, 6, 7, 8) for e in agreement_examples(300, distance=d, seed=5)
            for w in e.tokens}  # fmt: skip
    assert seen == set(WORDS)
    assert len(WORDS) == len(set(WORDS))


def test_the_same_seed_gives_the_same_examples_and_another_gives_others() -> None:
    one = agreement_examples(50, distance=9, seed=[7, 9])
    assert one == agreement_examples(50, distance=9, seed=[7, 9])
    assert one[:20] == agreement_examples(20, distance=9, seed=[7, 9])
    assert one != agreement_examples(50, distance=9, seed=[8, 9])


@pytest.mark.parametrize("seed", [(7, 9), range(7, 10, 2), np.array([7, 9])])
def test_a_seed_of_several_numbers_may_be_any_sequence_of_them(seed: Any) -> None:
    wanted = agreement_examples(20, distance=9, seed=[7, 9])
    assert agreement_examples(20, distance=9, seed=seed) == wanted


def test_a_whole_number_of_numpy_is_the_same_seed() -> None:
    wanted = agreement_examples(20, distance=9, seed=7)
    assert agreement_examples(20, distance=9, seed=np.uint8(7)) == wanted


@pytest.mark.parametrize(
    "seed",
    [None, "7", b"7", 7.0, True, -1, [], [7, -1], [7, 2.0], [7, None], [True], {7}, {7: 9},
     np.array([7.0]), np.array([[7, 9]]), np.random.default_rng(7)],
)  # fmt: skip
def test_a_seed_that_is_none_is_named(seed: Any) -> None:
    said = "^seed must be a whole number of at least 0, or a sequence of such; got "
    with pytest.raises(ValueError, match=said) as caught:
        agreement_examples(2, distance=3, seed=seed)
    assert str(caught.value).endswith(repr(seed))


def test_the_distance_of_an_example_is_counted_from_its_subject() -> None:
    example = Agreement(("the", "old", "cat", "over", "there"), plural=False, subject=2)
    assert (example.distance, example.verb) == (2, "was")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"n": 0, "distance": 3}, "n must be a whole number of at least 1; got 0"),
        ({"n": 2.0, "distance": 3}, r"n must be a whole number of at least 1; got 2\.0"),
        ({"n": 2, "distance": -1}, "distance must be a whole number of at least 0; got -1"),
        ({"n": 2, "distance": True}, "distance must be a whole number of at least 0; got True"),
        ({"n": 2, "distance": "5"}, "distance must be a whole number of at least 0; got '5'"),
    ],
)
def test_sizes_that_do_not_fit_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        agreement_examples(**arguments, seed=0)
