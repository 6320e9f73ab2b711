"""The exercises of all chapters, their manuscripts, and outcomes told apart without the grader."""

from __future__ import annotations

import copy
import importlib
import linecache
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from course_lib.grading.model import Case
from course_lib.grading.registry import chapters, of_chapter

ROOT = Path(__file__).parents[2]
NAMES = chapters()  # "05" → "05_scaled_dot_product_attention"
EXERCISES = [exercise for number in NAMES for exercise in of_chapter(number)]
# The broken programs of the debugging exercises: what the page shows.
BROKEN = {
    exercise_id: function
    for name in NAMES.values()
    for exercise_id, function in getattr(
        importlib.import_module(f"course_lib.grading.exercises.ch{name}"), "BROKEN", {}
    ).items()
}


def outcome(function: Callable[..., Any], case: Case, seed: int) -> Any:
    """What a function does with a case: its parts and whether it changed its arguments.

    Parts made of numbers are arrays; text, lists of pieces, dictionaries stay what they are.
    """
    given = case.build(seed)
    args = copy.deepcopy(given)
    with np.errstate(all="ignore"):
        try:
            result = function(**args)
        except Exception as error:
            return type(error).__name__
    if isinstance(result, tuple) and all(isinstance(x, (str, bytes)) for x in result):
        result = list(result)  # one result: symbols
    parts = result if isinstance(result, tuple) else (result,)
    touched = not all(as_it_was(args[name], x) for name, x in given.items())
    return [np.asarray(part) if made_of_numbers(part) else part for part in parts], touched


def as_it_was(x: Any, before: Any) -> bool:
    """Whether an argument, or what it holds, is still what it was."""
    if isinstance(before, np.ndarray):
        return np.array_equal(x, before, equal_nan=True)
    if isinstance(before, (list, tuple)):
        return len(x) == len(before) and all(map(as_it_was, x, before))
    if isinstance(before, dict):
        return list(x) == list(before) and all(as_it_was(x[k], before[k]) for k in before)
    if callable(before):  # a function is its own copy; of other objects, what they keep counts
        return as_it_was(getattr(x, "__dict__", {}), getattr(before, "__dict__", {}))
    return bool(x == before)


def made_of_numbers(part: Any) -> bool:
    """Whether a part of a result is an array, or could be one."""
    if isinstance(part, (list, tuple)):
        return all(made_of_numbers(x) for x in part)
    return not isinstance(part, (str, bytes, dict, set)) and part is not None


def equal(a: Any, b: Any, rtol: float) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return (
        a[1] == b[1]
        and len(a[0]) == len(b[0])
        and all(alike(x, y, rtol) for x, y in zip(a[0], b[0], strict=True))
    )


def alike(x: Any, y: Any, rtol: float) -> bool:
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        return type(x) is type(y) and bool(x == y)
    return x.shape == y.shape and np.allclose(x, y, rtol=rtol, atol=1e-9, equal_nan=True)


def manuscript(chapter: str) -> str:
    return (ROOT / "manuscript/exercises" / f"{NAMES[chapter]}.md").read_text(encoding="utf-8")


@cache
def manuscript_cells(chapter: str) -> list[tuple[dict[str, Any], str]]:
    """The manuscript's code cells: nbgrader's metadata and source."""
    import jupytext

    notebook = jupytext.reads(manuscript(chapter), fmt="md:myst")
    return [
        (cell.metadata.get("nbgrader", {}), cell.source)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@cache
def answers(chapter: str) -> ModuleType:
    """The manuscript's cells with their answers, run as a module; checks and calls left out."""
    source = "\n\n\n".join(
        text
        for _, text in manuscript_cells(chapter)
        if not re.search(r"^(check|hint|status)\(", text, re.MULTILINE)
    )
    name = f"solved_{chapter}"
    module = ModuleType(name)
    # inspect and doctest look for the source behind a file's name
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    before = np.get_printoptions()
    try:
        exec(compile(source, name, "exec"), vars(module))
    finally:
        np.set_printoptions(**before)
    return module
