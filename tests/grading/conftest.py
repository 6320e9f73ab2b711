"""What the grader's tests share: a registered toy exercise, and no progress file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from course_lib.grading import Exercise, checks, progress, registry
from tests.grading import toy as toys


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Exercise]]:
    """Register the toy exercise; call it to register one with other fields in its place."""
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    progress.forget()
    checks._GIVEN.clear()
    ids = set()

    def make(**changed: Any) -> Exercise:
        exercise = toys.exercise(**changed)
        registry.unregister(exercise.id)
        ids.add(exercise.id)
        return registry.register(exercise)

    make()
    yield make
    for each in ids:
        registry.unregister(each)
    progress.forget()
    checks._GIVEN.clear()
