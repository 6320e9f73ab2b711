"""What a manuscript must keep to, checked before anything runs; each fault with its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.config import Address
from tools.manuscript import Manuscript, Piece, fill
from tools.problem import Problem, Problems

BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
_GRADER_KEYS = {"grade", "grade_id", "locked", "schema_version", "solution"}
_GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")
_MYST = (
    (re.compile(r"^\s*(?:`{3,}|~{3,}|:{3,})\s*\{"), "a MyST directive"),
    (re.compile(r"^\s*:{3,}"), "a MyST directive"),
    (re.compile(r"\{[A-Za-z][\w:.+-]*\}`[^`]"), "a MyST role"),
    (re.compile(r"^\([^()\s]+\)=\s*$"), "a MyST target"),
    (re.compile(r"^\{[.#][^{}]*\}\s*$"), "a MyST attribute block"),
    (re.compile(r"^%(?!%)"), "a MyST comment"),
    (re.compile(r"\$\$\s*\([\w:-]+\)\s*$"), "a MyST equation label"),
    (re.compile(r"[\])]\{[.#][^{}]*\}"), "a MyST attribute list"),
    (re.compile(r"\[\]\("), "a link without text"),
    (re.compile(r"^: "), "a definition list"),
)

FindPoints = Callable[[str], float]
"""Returns the points of the exercise with an id; raises ValueError where there is none."""


def points_of(root: Path) -> FindPoints | None:
    """Return how to look up an exercise's points, or None where `root` has no registry (yet).

    Another project's grader than the one that this process can import isn't asked.
    """
    registry = root / "course_lib" / "grading" / "registry.py"
    try:
        from course_lib.grading import registry as module
    except ImportError:
        return None
    here = Path(str(module.__file__)).resolve()
    if not registry.is_file() or here != registry.resolve():
        return None
    return lambda exercise_id: float(module.find(exercise_id).points)


def check_manuscript(
    manuscript: Manuscript, address: Address, points: FindPoints | None = None
) -> None:
    """Check all that can be checked without running the cells.

    Raises
    ------
    Problems
        All faults found.
    """
    problems: list[Problem] = []
    ids: dict[str, int] = {}
    level = 0
    for piece in manuscript.pieces:

        def report(sentence: str, offset: int = 0, at: int = piece.line) -> None:
            problems.append(manuscript.problem(at + offset, sentence))

        _check_solution(piece, report)
        if piece.kind == "markdown":
            try:
                fill(manuscript.root, piece.source, address)
            except Problem as problem:
                report(str(problem))
            level = _check_markdown(piece, level, report)
        else:
            _check_code(piece, points, report)
        grade_id = _grader(piece).get("grade_id")
        if grade_id is not None:
            if grade_id in ids:
                report(f"the grade id {grade_id!r} is taken by the cell in line {ids[grade_id]}")
            ids.setdefault(grade_id, piece.line)
        if _grader(piece) and not manuscript.is_exercise:
            report("a chapter has no graded cells; move it to the exercises")
    if problems:
        raise Problems(problems)


def _grader(piece: Piece) -> dict[str, Any]:
    found = piece.metadata.get("nbgrader")
    return found if isinstance(found, dict) else {}


def _check_solution(piece: Piece, report: Callable[..., None]) -> None:
    grader = _grader(piece)
    if "nbgrader" in piece.metadata:
        missing = sorted(_GRADER_KEYS - set(grader))
        if missing:
            report(f"the cell's nbgrader metadata lacks {', '.join(missing)}")
        elif grader["schema_version"] != 3:
            report("the cell's nbgrader metadata must have schema_version: 3")
        if not _GRADE_ID.fullmatch(str(grader.get("grade_id", ""))):
            report("a grade id consists of letters, digits, _ and -")
        if grader.get("grade") and not isinstance(grader.get("points"), int | float):
            report("a graded cell says its points")

    inside = False
    found = False
    for offset, line in enumerate(piece.source.splitlines()):
        where = _offset(piece, offset)
        if BEGIN in line:
            found = True
            if inside:
                report(f"{BEGIN} inside a solution that is still open", where)
            inside = True
        elif END in line:
            found = True
            if not inside:
                report(f"{END} without a {BEGIN} before it", where)
            inside = False
    if inside:
        report(f"{BEGIN} without an {END} after it")
    if found and not grader.get("solution"):
        report("solution markers in a cell whose nbgrader metadata doesn't say solution: true")
    if grader.get("solution") and not found:
        report(f"the cell is marked as a solution but has no ### {BEGIN} … ### {END}")


def _offset(piece: Piece, line: int) -> int:
    """Where a line of a cell's source lies below the cell's first line in the manuscript."""
    if piece.kind == "markdown":
        return line
    body = len(piece.source.splitlines())
    return len(piece.text.splitlines()) - 1 - body + line


def _check_code(piece: Piece, points: FindPoints | None, report: Callable[..., None]) -> None:
    source = piece.expanded or piece.source
    tags = piece.metadata.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        report("tags are a list: [hide-input]")
        return
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:  # running it will say so, or a magic is meant
        nodes = []
    if "nbval-ignore-output" in tags and not any(isinstance(n, ast.Assert) for n in nodes):
        report(
            "nbval-ignore-output without an assert in the cell: "
            "say what must hold where the output may differ"
        )
    if not _grader(piece).get("grade"):
        return
    calls = [
        node.args[0].value
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "check"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]
    if not calls:
        report('a graded cell calls check("NN.exercise")')
    for call in calls if points is not None else []:
        assert points is not None
        try:
            worth = points(call)
        except ValueError as error:
            report(str(error))
            continue
        written = _grader(piece).get("points")
        if isinstance(written, int | float) and float(written) != worth:
            report(f"the cell says {written:g} points, the exercise {call} has {worth:g}")


def _check_markdown(piece: Piece, level: int, report: Callable[..., None]) -> int:
    """Check the text of one cell; take and return the level of the last heading."""
    fence = ""
    for offset, line in enumerate(piece.source.splitlines()):
        opening = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            if opening and opening.group(1).startswith(fence) and line.strip() == opening.group(1):
                fence = ""
            continue
        code_free = re.sub(r"(?<![}`])(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        for pattern, what in _MYST:
            if pattern.search(line if what == "a MyST directive" else code_free):
                report(f"{what}, which shows as raw text in Colab and on GitHub", offset)
                break
        if opening:
            fence = opening.group(1)
            continue
        heading = re.match(r"(#{1,6})\s", line)
        if heading:
            new = len(heading.group(1))
            if new > level + 1:
                first = "the first heading is the title, with one #"
                skipped = f"a heading of level {new} right under one of level {level}"
                report(skipped if level else first, offset)
            level = new
    return level
