"""Which exercises are passed: in this notebook, and over the course where a file can be kept.

The file is ``.course_lib/progress.json`` in the home folder. ``COURSE_LIB_PROGRESS`` names another,
or says ``off``. Nothing is kept while nbgrader runs. A file that can't be read or written is no
error: the notebook's own record remains.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from course_lib.grading import registry
from course_lib.grading.report import Block, Message, Report

__all__ = ["forget", "record", "standing"]

_HERE: dict[str, float] = {}
_SEEN: set[str] = set()


def see(exercise_id: str) -> None:
    """Take down that this notebook has asked for an exercise."""
    _SEEN.add(exercise_id)


def forget() -> None:
    """Begin anew: no exercise has been checked in this notebook."""
    _HERE.clear()
    _SEEN.clear()


def record(report: Report) -> None:
    """Take down a check's points: the last in this notebook, the best in the file."""
    see(report.exercise_id)
    _HERE[report.exercise_id] = report.points
    path = progress_file()
    if path is None or not report.attempted:
        return
    kept, _ = _read(path)
    if report.points > kept.get(report.exercise_id, -1.0):
        kept[report.exercise_id] = report.points
        with contextlib.suppress(OSError):
            _write(path, kept)


def progress_file() -> Path | None:
    """Return where progress over the course is kept, or None where it isn't."""
    named = os.environ.get("COURSE_LIB_PROGRESS", "")
    if named.lower() == "off" or os.environ.get("NBGRADER_EXECUTION"):
        return None
    if named:
        return Path(named)
    try:
        return Path.home() / ".course_lib" / "progress.json"
    except RuntimeError:  # no home folder
        return None


def _read(path: Path) -> tuple[dict[str, float], bool]:
    """Return the points kept in a file, and whether it could be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, True
    except (OSError, ValueError, RecursionError):  # RecursionError: thousands of brackets
        return {}, False
    if not isinstance(data, dict):
        return {}, False
    good = {
        k: float(v)
        for k, v in data.items()
        if isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < 1e6
    }
    return good, len(good) == len(data)


def _write(path: Path, points: dict[str, float]) -> None:
    """Replace the file in one step, so that no reader meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(points, file, indent=1, sort_keys=True)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def standing(course: bool = False) -> Message:
    """Return what is passed and what is left.

    Parameters
    ----------
    course : bool, default False
        Over all chapters, with what earlier sessions have kept, in place of the chapters that this
        notebook has checked.
    """
    points, notes = dict(_HERE), []
    chapters = sorted({exercise_id.split(".")[0] for exercise_id in _SEEN})
    if course:
        chapters = sorted({*registry.chapters(), *chapters})
        path = progress_file()
        if path is None:
            notes.append("No file is kept here, so this is what this notebook knows.")
        else:
            kept, readable = _read(path)
            points = {k: max(kept.get(k, 0.0), points.get(k, 0.0)) for k in {*kept, *points}}
            if not readable:
                notes.append("The file with your progress can't be read and was left out.")
    if not chapters:
        text = "Nothing has been checked in this notebook yet. Run the cells above."
        return Message([Block("head", "Where you stand"), Block("cause", text)])
    exercises = [e for chapter in chapters for e in registry.of_chapter(chapter)]
    total = sum(e.points for e in exercises)
    got = sum(min(points.get(e.id, 0.0), e.points) for e in exercises)
    passed = [e for e in exercises if points.get(e.id, 0.0) >= e.points]
    head = (
        f"Where you stand · {len(passed)} of {len(exercises)} exercises passed · "
        f"{got:g} of {total:g} points"
    )
    width = max(len(e.id) for e in exercises)
    rows = []
    for exercise in exercises:
        mine = points.get(exercise.id)
        sign = "✓" if exercise in passed else "·" if not mine else "◐"
        count = f"{mine or 0:g} of {exercise.points:g}"
        rows.append(f"{sign} {exercise.id:<{width}}  {count}")
    blocks = [Block("head", head), Block("evidence", "\n".join(rows))]
    return Message([*blocks, *(Block("cause", note) for note in notes)])
