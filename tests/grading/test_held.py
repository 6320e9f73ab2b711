"""How much a call holds at once: what is measured, and what a check says of too much."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from course_lib.grading import run, values
from course_lib.grading.evaluate import evaluate, prepare
from course_lib.grading.held import Held
from course_lib.grading.model import Case, Exercise

N = 100_000
LIMIT = 400_000


def total(x: Any) -> Any:
    """Add up in pieces, which is the right way here."""
    return sum(2.0 * x[at : at + 1000].sum() for at in range(0, len(x), 1000))


def at_once(x: Any) -> Any:
    return (2.0 * x).sum()


def exercise(memory: int | None = LIMIT) -> Exercise:
    numbers = np.arange(N) / N
    return Exercise(
        id="99.total",
        function="total",
        reference=lambda x: 2.0 * x.sum(),
        cases=[Case(name="many numbers", inputs={"x": numbers}, memory=memory)],
        if_too_large="All is doubled before anything is added. → Which piece could be first?",
    )


def result(function: Any, given: Exercise, backend: str = "numpy") -> Any:
    (found,) = evaluate(given, function, prepare(given), backend)
    return found


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_is_held_at_once_is_the_largest_arrays_size(backend: str) -> None:
    x = np.zeros(N)
    if backend == "torch":
        pytest.importorskip("torch")
        x = values.to_tensors(x)
    assert 8 * N <= run.call(at_once, [x], measured=True).held < 9 * N
    assert run.call(total, [x], measured=True).held < N
    assert run.call(at_once, [x]).held == 0


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_right_result_doesnt_pass_if_too_much_was_held(backend: str) -> None:
    if backend == "torch":
        pytest.importorskip("torch")
    found = result(at_once, exercise(), backend)
    assert found.kind == "memory" and not found.passed
    assert found.sentence.startswith("The numbers are right, but your function held 0.8")
    assert "and here it may hold 0.4. All is doubled before" in found.sentence
    assert found.step == "Which piece could be first?"
    assert result(total, exercise(), backend).passed
    assert result(at_once, exercise(None), backend).passed


def test_a_wrong_result_is_explained_as_such() -> None:
    assert result(lambda x: (3.0 * x).sum(), exercise()).kind == "values"


def test_who_was_measuring_goes_on() -> None:
    tracemalloc.start()
    try:
        with Held() as held:
            np.ones(N)
        assert tracemalloc.is_tracing()
        assert 8 * N <= held.most < 9 * N
    finally:
        tracemalloc.stop()
    with Held():
        pass
    assert not tracemalloc.is_tracing()


def test_nobody_stops_the_measuring() -> None:
    def stops(x: Any) -> Any:
        y = at_once(x)
        tracemalloc.stop()
        return y

    found = result(stops, exercise())
    assert found.kind == "refused" and "tracemalloc.stop" in found.sentence
    assert not tracemalloc.is_tracing()


@pytest.mark.parametrize("memory", [0, -1, True, "2 MB"])
def test_a_limit_is_a_number_above_0(memory: Any) -> None:
    with pytest.raises(ValueError, match="memory of case 'a'"):
        Case(name="a", inputs={"x": 1.0}, memory=memory)
