"""Where a student stands: in the notebook, and over the course in a file that may be missing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.grading import Case, Exercise, check, checks, hint, progress, registry, status

CASES = [Case(name=str(n), inputs={"x": float(n)}) for n in range(1, 5)]


def half(x: float) -> float:
    return x / 2


EXERCISES = [
    Exercise(
        id=f"96.{name}",
        function=name,
        reference=half,
        cases=CASES,
        points=2,
        hints=["One.", "Two.", "Three."] if name == "first" else (),
    )
    for name in ("first", "second")
]
RIGHT: Callable[[float], float] = lambda x: x * 0.5  # noqa: E731
PARTLY: Callable[[float], float] = lambda x: x * 0.5 if x < 2 else 0.0  # noqa: E731


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    file = tmp_path / "kept" / "progress.json"
    monkeypatch.setenv("COURSE_LIB_PROGRESS", str(file))
    for exercise in EXERCISES:
        registry.register(exercise)
    progress.forget()
    checks._GIVEN.clear()
    yield file
    for exercise in EXERCISES:
        registry.unregister(exercise.id)
    progress.forget()


def rows(course: bool = False) -> list[str]:
    return [line[4:] for line in str(status(course)).splitlines() if line.startswith("    ")]


def test_nothing_is_claimed_before_anything_is_checked(path: Path) -> None:
    assert "Nothing has been checked in this notebook yet" in str(status())
    assert not path.exists()


def test_status_shows_what_is_passed_what_is_begun_and_what_is_left(path: Path) -> None:
    check("96.first", PARTLY)
    assert rows() == ["◐ 96.first   0.5 of 2", "· 96.second  0 of 2"]
    assert str(status()).startswith("Where you stand · 0 of 2 exercises passed · 0.5 of 4 points")
    check("96.second", RIGHT)
    assert rows() == ["◐ 96.first   0.5 of 2", "✓ 96.second  2 of 2"]
    assert str(status()).startswith("Where you stand · 1 of 2 exercises passed · 2.5 of 4 points")


def test_the_notebook_shows_the_last_check_and_the_course_the_best(path: Path) -> None:
    check("96.first", RIGHT)
    check("96.first", PARTLY)
    assert rows()[0] == "◐ 96.first   0.5 of 2"
    kept = next(row for row in rows(course=True) if "96.first" in row)
    assert kept.split() == ["✓", "96.first", "2", "of", "2"]


def test_another_session_finds_what_was_kept(path: Path) -> None:
    check("96.first", RIGHT)
    assert json.loads(path.read_text()) == {"96.first": 2.0}
    progress.forget()
    assert "Nothing has been checked" in str(status())
    hint("96.first", 1)
    assert "2 of 2" in next(row for row in rows(course=True) if "96.first" in row)


def test_status_says_the_same_twice_and_in_both_forms(path: Path) -> None:
    check("96.first", PARTLY)
    assert str(status()) == str(status())
    html = status()._repr_html_()
    assert html == status()._repr_html_()
    assert "96.first" in html and "0.5 of 2" in html
    assert 'tabindex="0"' in html, "the rows scroll on a phone, so a keyboard must reach them"


@pytest.mark.parametrize(
    "content",
    ["", "not json", "[1, 2]", '{"96.first": "much"}', '{"96.first": NaN}', "[" * 100_000, "\xff"],
)
def test_a_file_that_cannot_be_read_is_left_out_with_a_sentence(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content.encode("latin-1"))
    hint("96.first", 1)
    assert "can't be read and was left out" in " ".join(str(status(course=True)).split())
    assert check("96.first", RIGHT).passed
    assert json.loads(path.read_text())["96.first"] == 2.0


def test_points_in_a_file_count_for_no_more_than_an_exercise_gives(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"96.first": 1000.0}')
    hint("96.first", 1)
    head = str(status(course=True)).splitlines()[0]
    assert " · 2 of " in head and head.endswith(" points")


@pytest.mark.skipif(os.name == "nt", reason="no folder of that kind")
def test_a_place_that_cannot_be_written_is_no_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.write_text("a file where the folder should be")
    check("96.first", RIGHT)
    assert rows()[0] == "✓ 96.first   2 of 2"
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "/dev/null/progress.json")
    check("96.first", RIGHT)


def test_no_half_written_file_is_left(path: Path) -> None:
    path.mkdir(parents=True)  # so that nothing can take its place
    check("96.first", RIGHT)
    assert [p.name for p in path.parent.iterdir()] == ["progress.json"]


@pytest.mark.parametrize(
    ("name", "value"), [("COURSE_LIB_PROGRESS", "off"), ("NBGRADER_EXECUTION", "autograde")]
)
def test_nothing_is_written_where_it_is_off_or_nbgrader_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(name, value)
    check("96.first", RIGHT)
    assert "No file is kept here" in " ".join(str(status(course=True)).split())
    assert list(tmp_path.iterdir()) == []


def test_an_untouched_exercise_is_not_kept(path: Path) -> None:
    def stub(x: float) -> float:
        raise NotImplementedError

    check("96.first", stub)
    assert not path.exists()


def test_hints_grow_stronger_and_then_stay(path: Path) -> None:
    said = [str(hint("96.first")).splitlines()[-1] for _ in range(4)]
    assert said == ["One.", "Two.", "Three.", "Three."]
    assert str(hint("96.first", 2)).startswith("96.first · hint 2 of 3")


@pytest.mark.parametrize("level", [0, 4, -1, 1.0, True, "1"])
def test_a_hint_that_is_not_there_is_an_error_that_says_what_is(path: Path, level: Any) -> None:
    with pytest.raises(ValueError, match="level must be a whole number from 1 to 3; got"):
        hint("96.first", level)


def test_an_exercise_without_hints_says_so(path: Path) -> None:
    assert "no hints" in str(hint("96.second"))
