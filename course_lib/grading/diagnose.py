"""Finds the likely cause of a wrong result: a known misconception, or what can be seen of it.

A misconception is a function with one mistake. It's recognised by what it does: its results, and
the inputs that it changes, are those of the student's function. The first rule that finds one
decides; among several it's the one that agrees on the most cases, and then the first in the
exercise's order:

1. it does the same on every case that ran, those that pass among them;
2. it does the same on every case that failed;
3. it gives the same wrong result on the first case that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.grading import compare, plain
from course_lib.grading.evaluate import CaseResult, Prepared, behaviour, size_of
from course_lib.grading.model import Exercise, Misconception
from course_lib.grading.values import Part

__all__ = ["find_misconception", "observe"]

# What a misconception is never the cause of.
_ELSEWHERE = ("skipped", "time", "memory", "own", "stub", "refused", "keyboard", "exit")


def find_misconception(
    exercise: Exercise, results: list[CaseResult], prepared: list[Prepared]
) -> Misconception | None:
    """Return the misconception that a student's results show, or None."""
    ran = [i for i, r in enumerate(results) if r.kind not in _ELSEWHERE]
    failed = [i for i in ran if not results[i].passed]
    if not failed:
        return None
    best, rank = None, (0, 0)
    for wrong in exercise.misconceptions:
        theirs = behaviour(exercise, wrong.wrong, prepared)
        same = {i: _same(exercise, results[i], theirs[i]) for i in ran}
        first = failed[0]
        if all(same.values()):
            return wrong
        agreed = sum(same.values())
        if all(same[i] for i in failed):
            mine = (2, agreed)
        elif same[first] and results[first].yours is not None:
            mine = (1, agreed)
        else:
            continue
        if mine > rank:  # of equals, the first in the exercise's order
            best, rank = wrong, mine
    return best


def _same(exercise: Exercise, mine: CaseResult, theirs: CaseResult) -> bool:
    if mine.passed != theirs.passed:
        return False
    if mine.kind != theirs.kind and mine.kind in ("dtype", "precision"):
        return False  # the numbers alone would match
    if mine.yours is None or theirs.yours is None:
        if mine.kind != theirs.kind or (mine.yours is None) != (theirs.yours is None):
            return False
        a, b = mine.outcome.mistake, theirs.outcome.mistake
        return (a and a.type) == (b and b.type)
    return mine.touched == theirs.touched and compare.agree(
        mine.yours, theirs.yours, exercise.tolerance, size_of(mine.prepared.inputs)
    )


def observe(result: CaseResult) -> str:
    """Say something true about how a wrong result relates to the right one, or nothing."""
    problem = result.problem
    if problem is None or problem.kind not in ("values", "plain") or result.yours is None:
        return ""
    yours, right = result.yours[problem.part], result.prepared.right[problem.part]
    whole = "Your result" if len(result.yours) == 1 else f"Your `{right.name}`"
    if problem.kind == "plain":
        seen = plain.observe(yours.plain, right.plain)
        return f"{whole} {seen}" if seen else ""
    if yours.array is None or right.array is None or yours.array.dtype.kind not in "fiu":
        return ""
    a, b = yours.array.astype(np.float64), right.array.astype(np.float64)

    def equal(x: NDArray[Any]) -> bool:
        return not compare.differing(Part("", x, yours.dtype), right, {}).any()

    with np.errstate(all="ignore"):
        for test in (_factor, _offset, _order):
            sentence = test(a, b, equal)
            if sentence:
                return f"{whole} {sentence}"
    assert problem.where is not None
    wrong = int(problem.where.sum())
    if a.ndim and wrong < a.size:
        return f"{whole} is right but for {wrong} of {a.size} numbers."
    return ""


Test = Callable[[NDArray[Any]], bool]


def _factor(a: NDArray[Any], b: NDArray[Any], equal: Test) -> str:
    there = np.abs(b) > 0
    if not there.any() or np.sum(there) < 2:
        return ""
    factor = float(np.median(a[there] / b[there]))
    if not np.isfinite(factor) or factor == 0 or not equal(a / factor):
        return ""
    if equal(np.zeros_like(b)):  # the right one is 0 but for rounding: a ratio says nothing
        return ""
    if np.isclose(factor, -1):
        return "has the wrong sign throughout."
    digits = 4 if f"{factor:.4g}" != "1" else 8  # "1 times" would say that it's right
    return f"is {factor:.{digits}g} times the right one throughout."


def _offset(a: NDArray[Any], b: NDArray[Any], equal: Test) -> str:
    if a.size < 2:
        return ""
    offset = float(np.median(a - b))
    if not np.isfinite(offset) or not equal(a - offset):
        return ""
    return f"differs from the right one by {offset:.4g} throughout."


def _order(a: NDArray[Any], b: NDArray[Any], equal: Test) -> str:
    if a.ndim >= 2 and a.shape[-1] == a.shape[-2] and equal(a.swapaxes(-2, -1)):
        return "is the right one transposed."
    for axis, word in ((-1, "the last axis"), (-2, "the last axis but one")):
        if a.ndim >= -axis and a.shape[axis] > 1:
            if equal(np.flip(a, axis)):
                return f"is the right one in reverse order along {word}."
            if equal(np.roll(a, -1, axis)) or equal(np.roll(a, 1, axis)):
                return f"is the right one shifted by one place along {word}."
    if a.ndim >= 1 and equal(_put_in_order(a, b)):
        return "holds the right numbers in another order."
    return ""


def _put_in_order(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers of `a` at the places where `b` has those of the same rank."""
    placed = np.empty(b.size)
    placed[np.argsort(b, axis=None)] = np.sort(a, axis=None)
    return placed.reshape(b.shape)
