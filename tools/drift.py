"""Whether manuscripts and notebooks say the same, found out without running anything."""

from __future__ import annotations

import difflib
from pathlib import Path

from nbformat import NotebookNode

from tools import stored
from tools.config import read_address
from tools.execute import RAISES, stderr_of
from tools.manuscript import find_manuscripts
from tools.plan import Plan, make_plan, with_outputs
from tools.problem import Problem
from tools.rules import FindPoints

ADVICE = "run make notebooks (or make pull, if the notebook is what was meant)"


def find_drift(
    root: Path, names: list[str] | None = None, points: FindPoints | None = None
) -> list[str]:
    """Compare every notebook with its manuscript, and with what it records of itself.

    Parameters
    ----------
    root : Path
        The project's folder.
    names : list of str, optional
        Only these manuscripts.
    points : callable, optional
        Looks up the points of an exercise.

    Returns
    -------
    list of str
        One line a difference, with its cell. Empty when all is well.
    """
    address = read_address(root)
    manuscripts = find_manuscripts(root, names)
    found: list[str] = []
    known: set[Path] = set()
    for path in manuscripts:
        try:
            plan = make_plan(root, path, address, points)
        except Problem as problem:
            found += str(problem).splitlines()
            known |= {Path(folder, f"{path.stem}.ipynb") for folder in ("chapters",)}
            known |= {Path(folder, f"{path.stem}.ipynb") for folder in ("solutions", "exercises")}
            continue
        known |= set(plan.notebooks)
        for notebook in plan.notebooks:
            found += [f"{notebook.as_posix()}: {line}" for line in _compare(root, plan, notebook)]
    if not names:
        for folder in ("chapters", "solutions", "exercises"):
            for orphan in sorted((root / folder).glob("*.ipynb")):
                if orphan.relative_to(root) not in known:
                    found.append(f"{folder}/{orphan.name}: no manuscript becomes this notebook")
    return found


def _compare(root: Path, plan: Plan, path: Path) -> list[str]:
    try:
        old = stored.read_notebook(root, path)
    except Problem as problem:
        return [str(problem)]
    if old is None:
        return [f"missing; {plan.manuscript.path.as_posix()} becomes it"]
    found = _compare_cells(plan.notebooks[path].cells, old.cells)
    found += _judge_outputs(old)

    record = stored.recorded(old)
    if record.get("cells_sha256") != stored.hash_cells(old):
        found.append("its cells were edited by hand since they were generated")
    if record.get("outputs_sha256") != stored.hash_outputs(old):
        found.append("its outputs are not those that were recorded when it was generated")
    if record.get("source_sha256") != plan.source_sha256:
        found.append(f"{plan.manuscript.path.as_posix()} has changed since it was generated")
    if record.get("depends_sha256") != plan.depends_sha256:
        found.append("code in course_lib that it imports has changed since it was run")
    if not found:
        # The same to the byte, then, unless metadata differ.
        try:
            new = with_outputs(plan, path, old)
        except Problem as problem:
            return [str(problem)]
        if new is not None:
            found += _compare_metadata(new, old)
    return found


def _compare_cells(new: list[NotebookNode], old: list[NotebookNode]) -> list[str]:
    if len(new) != len(old):
        found = [f"{len(old)} cells, but its manuscript gives {len(new)}"]
        for number, (a, b) in enumerate(zip(new, old, strict=False), start=1):
            if stored.content(a) != stored.content(b):
                return [*found, f"cell {number} is the first that differs"]
        return found
    found = []
    for number, (a, b) in enumerate(zip(new, old, strict=True), start=1):
        if a.cell_type != b.cell_type:
            found.append(f"cell {number} is {b.cell_type}, should be {a.cell_type}")
        elif a.source != b.source:
            found.append(f"cell {number} has another source: {_first_difference(a, b)}")
        if a.get("id") != b.get("id"):
            found.append(f"cell {number} has the id {b.get('id')}, should be {a['id']}")
        for key in ("tags", "nbgrader", "course"):
            if a.metadata.get(key) != b.metadata.get(key):
                found.append(
                    f"cell {number} has {key} {b.metadata.get(key)}, "
                    f"should be {a.metadata.get(key)}"
                )
    return found


def _first_difference(new: NotebookNode, old: NotebookNode) -> str:
    lines = difflib.ndiff(old.source.splitlines(), new.source.splitlines())
    pair = [line for line in lines if line[:2] in ("- ", "+ ")][:2]
    return " | ".join(pair) or "white space at the end of lines"


def _judge_outputs(notebook: NotebookNode) -> list[str]:
    found, expected = [], 0
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type != "code":
            continue
        if cell.source.strip():
            expected += 1
            if cell.execution_count != expected:
                found.append(
                    f"cell {number} has execution_count {cell.execution_count}, "
                    f"should be {expected}"
                )
        allowed = RAISES in cell.metadata.get("tags", [])
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if errors and not allowed:
            found.append(f"cell {number} holds an error that its tags don't announce")
        if allowed and not errors:
            found.append(f"cell {number} is tagged {RAISES} but holds no error")
        if stderr_of(cell):
            found.append(f"cell {number} holds output on stderr")
    return found


def _compare_metadata(new: NotebookNode, old: NotebookNode) -> list[str]:
    found = []
    for number, (a, b) in enumerate(zip(new.cells, old.cells, strict=True), start=1):
        keys = sorted(set(a.metadata) | set(b.metadata))
        wrong = [key for key in keys if a.metadata.get(key) != b.metadata.get(key)]
        if wrong:
            found.append(f"cell {number} has other metadata: {', '.join(wrong)}")
    keys = sorted((set(new.metadata) | set(old.metadata)) - {"course"})
    wrong = [key for key in keys if new.metadata.get(key) != old.metadata.get(key)]
    if wrong:
        found.append(f"other metadata: {', '.join(wrong)}")
    for key in ("nbformat", "nbformat_minor"):
        if new[key] != old[key]:
            found.append(f"{key} is {old[key]}, should be {new[key]}")
    return found
