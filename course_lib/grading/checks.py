"""What a notebook calls: `check`, `hint` and `status`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from typing import Any

from course_lib.grading import progress, registry, run, values
from course_lib.grading.diagnose import find_misconception
from course_lib.grading.evaluate import evaluate, prepare, torch_is_there, writes_stub
from course_lib.grading.model import Exercise
from course_lib.grading.pristine import pristine, remember
from course_lib.grading.report import Block, Message, Report, make_report, not_attempted

__all__ = ["check", "hint", "status"]

_GIVEN: dict[str, int] = {}


def check(
    exercise_id: str, function: Callable[..., Any] | None = None, *, backend: str | None = None
) -> Report:
    """Run a function on an exercise's cases and say what is right and what isn't.

    Parameters
    ----------
    exercise_id : str
        Such as "05.softmax".
    function : callable, optional
        The student's function. Left out, it's looked up in the caller's notebook under the name
        that the exercise gives it.
    backend : {"numpy", "torch"}, optional
        Whether the function is given arrays or tensors. Left out, a function that mentions torch,
        itself or in a helper beside it, gets tensors.

    Returns
    -------
    Report
        Nothing that the function does is raised.

    Raises
    ------
    ValueError
        If there is no such exercise or backend.

    Examples
    --------
    >>> import os; os.environ["COURSE_LIB_PROGRESS"] = "off"
    >>> import numpy as np
    >>> def softmax(x, axis=-1):
    ...     return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
    >>> report = check("05.softmax", softmax)
    >>> report.passed, report.points
    (False, 2.14)
    """
    run.refuse_nested()
    with pristine():
        exercise = registry.find(exercise_id)
    if backend not in (None, "numpy", "torch"):
        raise ValueError(f"backend must be 'numpy' or 'torch'; got {backend!r}")
    progress.see(exercise.id)
    if function is None:
        namespace = sys._getframe(1).f_globals
        function = namespace.get(exercise.function)
        if function is None:
            return _finish(_missing(exercise, namespace))
    if not callable(function):
        sentence = f"`{exercise.function}` isn't a function here but a {type(function).__name__}."
        step = "Was its name given to something else? Run the cell that defines it again."
        return _finish(not_attempted(exercise, sentence, step))
    if backend is None:
        # The import of torch is not to count as the function's time.
        backend = "torch" if values.refers_to_torch(function) and torch_is_there() else "numpy"
    elif backend == "torch" and not torch_is_there():
        raise ValueError("backend 'torch' needs torch, which isn't installed here")
    with pristine():
        prepared = prepare(exercise)
        results = evaluate(exercise, function, prepared, backend)
        if all(r.kind == "stub" for r in results) and writes_stub(function):
            sentence = "Your code goes in the place of `raise NotImplementedError()`."
            step = f'Write it and run this cell again. `hint("{exercise.id}")` gives a first idea.'
            return _finish(not_attempted(exercise, sentence, step))
        misconception = find_misconception(exercise, results, prepared)
        return _finish(make_report(exercise, results, misconception))


def _finish(report: Report) -> Report:
    progress.record(report)
    return report


def _missing(exercise: Exercise, namespace: dict[str, Any]) -> Report:
    """Report that the notebook has no function of the name."""
    name = exercise.function
    functions = [k for k, v in namespace.items() if callable(v) and not k.startswith("_")]
    near = difflib.get_close_matches(name, functions, n=1, cutoff=0.6)
    other = f" There is a `{near[0]}`: was it renamed?" if near else ""
    sentence = f"There is no function `{name}` in this notebook.{other}"
    step = f"Run the cell that defines `{name}`, then this one."
    return not_attempted(exercise, sentence, step)


def hint(exercise_id: str, level: int | None = None) -> Message:
    """Give a hint for an exercise, and a stronger one at every further call.

    Parameters
    ----------
    exercise_id : str
        Such as "05.softmax".
    level : int, optional
        Which of the hints, from 1; left out, the next one.

    Returns
    -------
    Message

    Raises
    ------
    ValueError
        If there is no such exercise, or no hint of that number.

    Examples
    --------
    >>> print(hint("05.softmax", level=2))  # doctest: +ELLIPSIS
    05.softmax · hint 2 of 3
    <BLANKLINE>
    Subtracting a number from all scores of a row changes no weight...
    """
    exercise = registry.find(exercise_id)
    progress.see(exercise.id)
    count = len(exercise.hints)
    if not count:
        return Message([Block("head", f"{exercise.id} · no hints")])
    if level is None:
        level = min(_GIVEN.get(exercise.id, 0) + 1, count)
    if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= count:
        raise ValueError(f"level must be a whole number from 1 to {count}; got {level!r}")
    _GIVEN[exercise.id] = max(level, _GIVEN.get(exercise.id, 0))
    head = f"{exercise.id} · hint {level} of {count}"
    return Message([Block("head", head), Block("cause", exercise.hints[level - 1])])


def status(course: bool = False) -> Message:
    """Show which exercises are passed and which are left.

    Parameters
    ----------
    course : bool, default False
        Over the whole course, with what earlier notebooks have kept in a file, in place of the
        chapters that this notebook has checked.

    Returns
    -------
    Message

    Examples
    --------
    >>> str(status()).splitlines()[0].startswith("Where you stand")
    True
    """
    return progress.standing(course)


for _name, _module in list(sys.modules.items()):  # all of the grader is there by now
    if _name.startswith("course_lib.grading.") and ".exercises" not in _name:
        remember(_module)
