"""Exercises as data: what an author gets wrong is said when the exercise is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from course_lib.grading import Alternative, Case, Exercise, Misconception, registry
from course_lib.grading.model import OPEN_SEED


def double(x: Any) -> Any:
    return 2 * x


ONE = Case(name="one number", inputs={"x": 1.0})
WRONG = Misconception(name="tripled", wrong=lambda x: 3 * x, hint="Three times. → How often?")


def make(**changed: Any) -> Exercise:
    fields = {"id": "97.double", "function": "double", "reference": double, "cases": [ONE]}
    return Exercise(**{**fields, **changed})


def case(**changed: Any) -> Case:
    return Case(**{"name": "one", "inputs": {"x": 1.0}, **changed})


def misconception(**changed: Any) -> Misconception:
    return Misconception(**{"name": "none", "wrong": double, "hint": "A hint.", **changed})


def alternative(**changed: Any) -> Alternative:
    return Alternative(**{"name": "another", "right": double, **changed})


BAD: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (make, {"id": "double"}, "id must be of the form"),
    (make, {"id": 5}, "id must be of the form"),
    (make, {"function": "a name"}, "must be a name in Python"),
    (make, {"reference": 3}, "reference of exercise 97.double must be callable; got int"),
    (make, {"cases": []}, "must hold at least one case"),
    (make, {"cases": [ONE, ONE]}, "distinct names; twice: one number"),
    (make, {"cases": [{"x": 1}]}, "must all be of type Case; got dict"),
    (make, {"points": 0}, "points of exercise 97.double must be a number above 0; got 0"),
    (make, {"points": -1}, "points"),
    (make, {"points": float("nan")}, "points"),
    (make, {"points": float("inf")}, "points"),
    (make, {"points": True}, "points"),
    (make, {"time_limit": 0}, "time_limit"),
    (make, {"minutes": -5}, "minutes"),
    (make, {"difficulty": 4}, "difficulty of exercise 97.double must be 1, 2 or 3; got 4"),
    (make, {"misconceptions": [WRONG, WRONG]}, "twice: tripled"),
    (make, {"misconceptions": [double]}, "of type Misconception; got function"),
    (make, {"alternatives": [lambda x: x]}, "named functions"),
    (make, {"alternatives": [3]}, "named functions"),
    (make, {"alternatives": [double, double]}, "twice: double"),
    (make, {"hints": "one string"}, "must be a sequence of strings"),
    (make, {"hints": [""]}, "a hint of exercise 97.double must be a text"),
    (make, {"returns": "output"}, "must be a tuple of names"),
    (make, {"returns": ()}, "must be a tuple of names"),
    (make, {"returns": ("a", "a")}, "twice: a"),
    (make, {"tolerance": {"int8": (0, 0)}}, "keyed by float64"),
    (make, {"tolerance": {"float64": (1.5, 0)}}, "pairs"),
    (make, {"guarded": [1]}, "guarded"),
    (case, {"name": " "}, "a case's name must be a text"),
    (case, {"inputs": [1.0]}, "must be a mapping or a callable"),
    (case, {"inputs": {}}, "must name at least one argument"),
    (case, {"weight": 0}, "weight of case 'one' must be a number above 0"),
    (misconception, {"name": ""}, "a misconception's name must be a text"),
    (misconception, {"wrong": "x + 1"}, "wrong of misconception 'none' must be callable; got str"),
    (misconception, {"hint": ""}, "hint of misconception 'none' must be a text"),
    (alternative, {"right": None}, "must be callable; got NoneType"),
    (alternative, {"backend": "jax"}, "must be 'numpy' or 'torch'; got 'jax'"),
]


@pytest.mark.parametrize(("maker", "changed", "sentence"), BAD)
def test_a_slip_of_an_author_is_said_when_it_is_made(
    maker: Callable[..., Any], changed: dict[str, Any], sentence: str
) -> None:
    maker()  # right without the change
    with pytest.raises(ValueError) as caught:
        maker(**changed)
    assert sentence in str(caught.value)


def test_an_exercise_cannot_be_changed_after_it_is_made() -> None:
    with pytest.raises(AttributeError):
        make().points = 100.0  # type: ignore[misc]


def test_alternatives_may_be_named_in_three_ways() -> None:
    exercise = make(
        alternatives=[double, ("by hand", double), Alternative(name="third", right=double)]
    )
    assert [a.name for a in exercise.alternatives] == ["double", "by hand", "third"]


def test_inputs_drawn_from_a_seed_are_the_same_each_time_and_others_for_another_seed() -> None:
    drawn = case(inputs=lambda seed: {"x": np.random.default_rng(seed).normal(size=3)})
    assert drawn.build()["x"].tolist() == drawn.build(OPEN_SEED)["x"].tolist()
    assert drawn.build(1)["x"].tolist() != drawn.build(2)["x"].tolist()


def test_two_exercises_of_one_id_are_an_error() -> None:
    registry.register(make())
    try:
        with pytest.raises(ValueError, match=r"two exercises have the id 97\.double"):
            registry.register(make())
    finally:
        registry.unregister("97.double")


@pytest.mark.parametrize(
    ("asked", "named"),
    [("05.sofmax", "05.softmax"), ("softmax", "05.softmax"), ("05.Attention", "05.attention")],
)
def test_an_unknown_id_names_near_ones(asked: str, named: str) -> None:
    with pytest.raises(ValueError, match=f"no exercise '{asked}'.*'{named}'"):
        registry.find(asked)


@pytest.mark.parametrize("asked", [None, 5, "", "xyzzy"])
def test_an_id_like_none_lists_what_there_is(asked: Any) -> None:
    with pytest.raises(ValueError, match=r"There is no exercise .*05\.softmax"):
        registry.find(asked)


def test_every_chapters_exercises_have_its_number_and_distinct_ids() -> None:
    numbers = registry.chapters()
    assert "05" in numbers
    for number in numbers:
        exercises = registry.of_chapter(number)
        assert exercises
        assert {e.chapter for e in exercises} == {number}
        assert len({e.id for e in exercises}) == len(exercises)
