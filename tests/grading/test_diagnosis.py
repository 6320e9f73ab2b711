"""Which misconception a wrong result is taken for, and what is said where it's none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from course_lib.grading import Case, Exercise, Misconception
from course_lib.grading.diagnose import find_misconception, observe
from course_lib.grading.evaluate import evaluate, prepare

ROWS = np.random.default_rng(3).normal(size=(3, 4)) + np.arange(4.0)
SQUARE = np.random.default_rng(4).normal(size=(4, 4)) + np.arange(4.0)


def plus_mean(x: Any) -> Any:
    return x + x.mean(axis=-1, keepdims=True)


def exact(x: Any) -> Any:
    """Right, and none of the course's functions."""
    return x + x.mean(axis=-1, keepdims=True)


def no_mean(x: Any) -> Any:
    return x * 1.0


def all_mean(x: Any) -> Any:
    return x + x.mean()


def first_row_only(x: Any) -> Any:
    """Like `all_mean` for a matrix; raises for one row."""
    return x + np.mean([row.mean() for row in x[:, :, None]])


def wrong_for_squares(x: Any) -> Any:
    """Like `all_mean` where n = m, and right elsewhere."""
    return all_mean(x) if x.shape[0] == x.shape[-1] else exact(x)


def misconception(wrong: Callable[..., Any], **more: Any) -> Misconception:
    return Misconception(name=wrong.__name__, wrong=wrong, hint="A hint. → A step?", **more)


def diagnose(
    student: Callable[..., Any],
    wrongs: list[Callable[..., Any]],
    reference: Callable[..., Any] = plus_mean,
    inputs: dict[str, Any] | None = None,
) -> str | None:
    """The name of the misconception that a function is taken for."""
    inputs = inputs or {"one row": ROWS[0], "rows": ROWS, "square": SQUARE}
    exercise = Exercise(
        id="94.mean",
        function="plus_mean",
        reference=reference,
        cases=[Case(name=name, inputs={"x": x}) for name, x in inputs.items()],
        misconceptions=[misconception(wrong) for wrong in wrongs],
    )
    prepared = prepare(exercise)
    results = evaluate(exercise, student, prepared, "numpy")
    found = find_misconception(exercise, results, prepared)
    return found.name if found else None


def test_what_does_the_same_on_every_case_is_the_cause() -> None:
    wrongs = [no_mean, wrong_for_squares, all_mean]
    for wrong in wrongs:
        assert diagnose(lambda x, f=wrong: f(x) + 0.0, wrongs) == wrong.__name__  # type: ignore[misc]


def test_agreement_on_every_case_comes_before_the_exercises_order() -> None:
    """Both do the same where the student fails; one does so where the student passes, too."""

    def student(x: Any) -> Any:
        return wrong_for_squares(x)

    assert diagnose(student, [all_mean, wrong_for_squares]) == "wrong_for_squares"
    assert diagnose(student, [wrong_for_squares, all_mean]) == "wrong_for_squares"


def test_agreement_on_the_cases_that_fail_comes_next() -> None:
    def student(x: Any) -> Any:
        return wrong_for_squares(x)

    assert diagnose(student, [no_mean, all_mean]) == "all_mean"


def test_of_those_that_agree_where_the_student_fails_the_one_that_agrees_most_is_taken() -> None:
    def student(x: Any) -> Any:
        return all_mean(x) if x.shape == (3, 4) else exact(x)

    def wrong_for_one_row_too(x: Any) -> Any:
        return all_mean(x) if x.ndim == 2 else no_mean(x)

    assert diagnose(student, [wrong_for_one_row_too, all_mean]) == "all_mean"
    assert diagnose(student, [all_mean, wrong_for_one_row_too]) == "all_mean"


def test_agreement_on_the_first_case_that_fails_comes_last() -> None:
    def student(x: Any) -> Any:
        return all_mean(x) if x.shape == (3, 4) else exact(x) + (x.ndim == 2)

    assert diagnose(student, [no_mean, all_mean]) == "all_mean"


def test_among_equals_the_first_in_order_is_taken() -> None:
    def same(x: Any) -> Any:
        return no_mean(x)

    assert diagnose(lambda x: x + 0.0, [no_mean, same]) == "no_mean"
    assert diagnose(lambda x: x + 0.0, [same, no_mean]) == "same"


def test_rounding_and_precision_do_not_hide_a_misconception() -> None:
    assert diagnose(lambda x: all_mean(x.astype(np.float32)), [no_mean, all_mean]) == "all_mean"


def test_another_mistake_is_nobodys() -> None:
    assert diagnose(lambda x: 3 * x, [no_mean, all_mean]) is None
    assert diagnose(exact, [no_mean]) is None


def test_what_is_right_on_the_failing_case_is_not_its_cause() -> None:
    """The student's numbers are right there, and so are the misconception's; the dtype isn't."""

    def half(x: Any) -> Any:
        return exact(x).astype(np.float16)

    assert diagnose(half, [all_mean, wrong_for_squares]) is None


def test_the_same_error_on_the_same_cases_is_the_same_mistake() -> None:
    def student(x: Any) -> Any:
        return x + sum(row.mean() for row in x[:, :, None]) / len(x)

    assert diagnose(student, [no_mean, first_row_only]) == "first_row_only"


def test_a_changed_input_is_part_of_the_mistake() -> None:
    def in_place(x: Any) -> Any:
        x += x.mean(axis=-1, keepdims=True)
        return x

    def student(x: Any) -> Any:
        x[...] = exact(x)
        return x

    assert diagnose(student, [no_mean, in_place]) == "in_place"
    assert diagnose(student, [no_mean]) is None


def test_a_function_that_never_ran_has_no_misconception() -> None:
    def raises(x: Any) -> Any:
        raise MemoryError

    assert diagnose(raises, [no_mean, all_mean]) is None


# -- what can be seen without knowing the mistake --------------------------------------------------


def seen(student: Callable[..., Any], x: Any = ROWS, reference: Any = plus_mean) -> str:
    exercise = Exercise(
        id="94.mean",
        function="plus_mean",
        reference=reference,
        cases=[Case(name="one", inputs={"x": x})],
    )
    (result,) = evaluate(exercise, student, prepare(exercise), "numpy")
    assert not result.passed
    return observe(result)


OBSERVATIONS: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "factor": (lambda x: 2.5 * exact(x), ROWS, "is 2.5 times the right one throughout."),
    "factor near 1": (
        lambda x: 0.99998 * exact(x),
        ROWS,
        "is 0.99998 times the right one throughout.",
    ),
    "sign": (lambda x: -exact(x), ROWS, "has the wrong sign throughout."),
    "offset": (lambda x: exact(x) + 7, ROWS, "differs from the right one by 7 throughout."),
    "transposed": (lambda x: exact(x).T, SQUARE, "is the right one transposed."),
    "reversed": (
        lambda x: exact(x)[::-1],
        ROWS,
        "is the right one in reverse order along the last axis but one.",
    ),
    "shifted": (
        lambda x: np.roll(exact(x), 1, axis=-1),
        ROWS,
        "is the right one shifted by one place along the last axis.",
    ),
    "shuffled": (
        lambda x: exact(x).ravel()[[3, 1, 2, 0, 7, 5, 4, 6, 8, 11, 10, 9]].reshape(3, 4),
        ROWS,
        "holds the right numbers in another order.",
    ),
    "two wrong": (
        lambda x: exact(x) + np.eye(3, 4) * [1, 0, 0, 0] + np.eye(3, 4) * [0, 0, 1, 0],
        ROWS,
        "is right but for 2 of 12 numbers.",
    ),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_what_can_be_seen_is_said(name: str) -> None:
    student, x, sentence = OBSERVATIONS[name]
    assert seen(student, x) == f"Your result {sentence}"


def test_nothing_is_said_where_nothing_can_be_seen() -> None:
    assert seen(lambda x: x**2) == ""


def test_no_relation_is_claimed_that_any_two_numbers_have() -> None:
    """One number is always some factor of another, and some distance from it."""
    assert seen(lambda x: 3 * x, np.float64(2.0), reference=lambda x: x + 0.0) == ""


def test_a_factor_of_zero_is_no_factor() -> None:
    assert "times" not in seen(lambda x: 0 * x)


def test_no_factor_of_what_is_zero_but_for_rounding() -> None:
    def rounding(x: Any) -> Any:
        return 1e-17 * np.array([1.0, -2.0, 3.0, 1.0])

    assert seen(lambda x: 1e-3 * np.array([1.0, -2.0, 3.0, 1.0]), reference=rounding) == ""


def test_an_axis_in_another_place_is_not_called_missing() -> None:
    exercise = Exercise(
        id="94.heads",
        function="heads",
        reference=lambda x: x[None],
        cases=[Case(name="one", inputs={"x": ROWS})],
    )
    (result,) = evaluate(exercise, lambda x: x[:, None], prepare(exercise), "numpy")
    assert result.problem is not None
    assert "of length 1 too" not in result.problem.sentence
    assert "their arrangement isn't" in result.problem.sentence
