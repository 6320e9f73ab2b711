"""Finds an exercise by its id; loads a chapter's exercises when they are first asked for."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re

from course_lib.grading import exercises
from course_lib.grading.model import Exercise
from course_lib.grading.pristine import pristine

__all__ = ["chapters", "find", "of_chapter", "register", "unregister"]

_MODULE = re.compile(r"ch(\d\d)_\w+")
_BY_CHAPTER: dict[str, dict[str, Exercise]] = {}


def chapters() -> dict[str, str]:
    """Return the chapters that have exercises: number → name, as in "05" → "05_attention"."""
    names = (module.name for module in pkgutil.iter_modules(exercises.__path__))
    return {
        m.group(1): m.group(0)[2:]
        for m in sorted(filter(None, map(_MODULE.fullmatch, names)), key=str)
    }


def of_chapter(number: str) -> list[Exercise]:
    """Return a chapter's exercises in the order of its notebook; none for an unknown chapter.

    Raises
    ------
    ValueError
        If two exercises share an id, or an id doesn't begin with the chapter's number.
    """
    if number not in _BY_CHAPTER:
        found: dict[str, Exercise] = {}
        name = chapters().get(number)
        if name is not None:
            with pristine():  # the references are bound now, and should be the course's
                module = importlib.import_module(f"{exercises.__name__}.ch{name}")
            for exercise in module.EXERCISES:
                if exercise.chapter != number:
                    raise ValueError(f"exercise {exercise.id} stands among those of chapter {name}")
                if exercise.id in found:
                    raise ValueError(f"two exercises have the id {exercise.id}")
                found[exercise.id] = exercise
        _BY_CHAPTER[number] = found
    return list(_BY_CHAPTER[number].values())


def find(exercise_id: str) -> Exercise:
    """Return the exercise with this id.

    Raises
    ------
    ValueError
        If there is none; names the ids that look like it.
    """
    if isinstance(exercise_id, str):
        number = exercise_id.split(".")[0]
        of_chapter(number)
        if exercise_id in _BY_CHAPTER[number]:
            return _BY_CHAPTER[number][exercise_id]
    known = [e.id for number in {*chapters(), *_BY_CHAPTER} for e in of_chapter(number)]
    near = difflib.get_close_matches(str(exercise_id), sorted(known), n=3, cutoff=0.5)
    near = near or sorted(i for i in known if i.split(".")[-1] == str(exercise_id).split(".")[-1])
    advice = (
        f"Did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"There are: {', '.join(sorted(known))}."
    )
    raise ValueError(f"There is no exercise {exercise_id!r}. {advice}")


def register(exercise: Exercise) -> Exercise:
    """Add an exercise that belongs to no chapter's module (an instructor's own, a test's).

    Raises
    ------
    ValueError
        If its id is taken.
    """
    of_chapter(exercise.chapter)
    if exercise.id in _BY_CHAPTER[exercise.chapter]:
        raise ValueError(f"two exercises have the id {exercise.id}")
    _BY_CHAPTER[exercise.chapter][exercise.id] = exercise
    return exercise


def unregister(exercise_id: str) -> None:
    """Take back what `register` added."""
    _BY_CHAPTER.get(exercise_id.split(".")[0], {}).pop(exercise_id, None)
