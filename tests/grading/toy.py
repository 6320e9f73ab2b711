"""A small exercise for the grader's own tests, and what a student's answers to it look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.grading import Alternative, Case, Exercise, Misconception, check
from course_lib.grading.report import Report

ID = "98.scale"


class Liar(np.ndarray):
    """An array whose operators say what pleases."""

    def __eq__(self, other: object) -> Any:
        return np.ones(self.shape, bool)

    def __ne__(self, other: object) -> Any:
        return np.zeros(self.shape, bool)

    def __sub__(self, other: object) -> Any:
        return np.zeros(self.shape)

    __rsub__ = __sub__

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        return np.zeros(self.shape)

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        return np.zeros(self.shape)


def scale(x: Any, y: Any) -> Any:
    """The course's answer: every row of x times its number of y, plus 1."""
    return x * y[:, None] + 1.0


def right(x: Any, y: Any) -> Any:
    """A right answer that is none of the course's functions."""
    return x * y[:, None] + 1.0


def no_one(x: Any, y: Any) -> Any:
    return x * y[:, None]


def minus(x: Any, y: Any) -> Any:
    return -x * y[:, None] + 1.0


def draw(rows: int) -> Callable[[int], dict[str, Any]]:
    def inputs(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng(seed + rows)
        return {"x": rng.normal(size=(rows, 3)), "y": rng.normal(size=rows)}

    return inputs


CASES = (
    Case(name="two rows", inputs=draw(2), shows="each row has its own factor"),
    Case(name="zeros", inputs={"x": np.zeros((1, 3)), "y": np.zeros(1)}),
    Case(name="four rows", inputs=draw(4), weight=2),
)
MISCONCEPTIONS = (
    Misconception(name="one forgotten", wrong=no_one, hint="The 1 is missing. → What comes last?"),
    Misconception(name="minus", wrong=minus, hint="The factor's sign is off. → Which sign?"),
)


def exercise(**changed: Any) -> Exercise:
    """The exercise, with some of its fields changed."""
    fields: dict[str, Any] = {
        "id": ID,
        "function": "scale_rows",
        "reference": scale,
        "cases": CASES,
        "misconceptions": MISCONCEPTIONS,
        "alternatives": [Alternative(name="as arrays", right=right)],
        "hints": ["Think of rows.", "Broadcast y."],
        "points": 3,
        "time_limit": 5,
    }
    return Exercise(**{**fields, **changed})


def told(function: Any, **options: Any) -> tuple[Report, str]:
    """Check a function; return the report and its text without line breaks."""
    report = check(ID, function, **options)
    return report, words(report)


def words(text: object) -> str:
    return " ".join(str(text).split())
