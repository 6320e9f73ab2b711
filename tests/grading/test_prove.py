"""The proof of an exercise finds the faults that it's there to find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from course_lib.grading import Case, Exercise, Misconception, check, registry
from course_lib.grading.prove import prove

IDS: list[str] = []


def double(x: Any) -> Any:
    return 2 * x


def add_itself(x: Any) -> Any:
    return x + x


def square(x: Any) -> Any:
    return x**2


def make(name: str, **changed: Any) -> Exercise:
    fields: dict[str, Any] = {
        "id": f"95.{name}",
        "function": "double",
        "reference": double,
        "cases": [
            Case(name="two", inputs={"x": np.full(3, 2.0)}),  # 2 + 2 = 2 · 2 = 2²
            Case(name="three", inputs={"x": np.arange(3.0)}),
        ],
        "misconceptions": [Misconception(name="square", wrong=square, hint="Squared. → Twice?")],
        "alternatives": [add_itself],
    }
    exercise = registry.register(Exercise(**{**fields, **changed}))
    IDS.append(exercise.id)
    return exercise


@pytest.fixture(autouse=True)
def _unregister(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")
    yield
    while IDS:
        registry.unregister(IDS.pop())


def test_a_sound_exercise_is_proved() -> None:
    proof = prove(make("sound"))
    assert (proof.accepted, proof.without_hint, proof.rejected) == ([], [], [])
    assert (proof.stub_points, proof.stub_attempted, proof.hint_share) == (0.0, False, 1.0)


def test_a_wrong_answer_that_the_cases_let_through_is_found() -> None:
    lazy = make("lazy", cases=[Case(name="two", inputs={"x": np.full(3, 2.0)})])
    assert prove(lazy).accepted == ["square"]


def test_a_right_answer_that_is_turned_down_is_found() -> None:
    assert prove(make("strict", alternatives=[("tripled", lambda x: 3 * x)])).rejected == [
        "tripled"
    ]


def test_a_wrong_answer_with_anothers_hint_is_found() -> None:
    twice = [
        Misconception(name="square", wrong=square, hint="Squared. → Twice?"),
        Misconception(name="times itself", wrong=lambda x: x * x, hint="Itself. → Twice?"),
    ]
    proof = prove(make("twins", misconceptions=twice))
    assert proof.without_hint == ["times itself"]
    assert proof.hint_share == 0.5


def test_full_points_are_never_a_matter_of_rounding() -> None:
    cases = [Case(name=str(n), inputs={"x": float(n)}) for n in range(1, 1001)]
    many = make("many", cases=cases, points=1, misconceptions=[])
    report = check(many.id, lambda x: 2 * x if x != 7 else 0.0)
    assert not report.passed
    assert report.points == 0.99


def test_weights_share_the_points() -> None:
    cases = [
        Case(name="light", inputs={"x": 1.0}),
        Case(name="heavy", inputs={"x": 2.0}, weight=3),
    ]
    exercise = make("weights", cases=cases, points=2, misconceptions=[])
    assert check(exercise.id, lambda x: 2.0).points == 0.5
    assert check(exercise.id, lambda x: 4.0).points == 1.5
