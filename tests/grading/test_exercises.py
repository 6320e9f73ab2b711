"""The exercises of every chapter: the checks tell right from wrong, and say which wrong it is."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check, hint
from course_lib.grading.evaluate import prepare
from course_lib.grading.model import OPEN_SEED, Alternative, Exercise, Misconception
from course_lib.grading.registry import of_chapter
from course_lib.grading.report import Report
from tests.grading.course import (
    BROKEN,
    EXERCISES,
    NAMES,
    answers,
    equal,
    manuscript,
    manuscript_cells,
    outcome,
)

SEEDS = (OPEN_SEED, 1, 2)
OF_TEXT = ("03",)  # chapters whose results are text, pieces, counts: torch has no part in them

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
each_misconception = pytest.mark.parametrize(
    ("exercise", "mistake"),
    [
        pytest.param(e, m, id=f"{e.id} {m.name}".replace(" ", "_"))
        for e in EXERCISES
        for m in e.misconceptions
    ],
)
each_alternative = pytest.mark.parametrize(
    ("exercise", "other"),
    [
        pytest.param(e, a, id=f"{e.id} {a.name}".replace(" ", "_"))
        for e in EXERCISES
        for a in e.alternatives
    ],
)


@pytest.fixture(autouse=True)
def _no_progress_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")


def words(text: object) -> str:
    """Text without its line breaks, so that a wrapped sentence is found."""
    return " ".join(str(text).split())


def rtol(exercise: Exercise) -> float:
    return exercise.tolerance.get("float64", (1e-6, 0.0))[0]


@pytest.mark.parametrize("seed", SEEDS)
@each_exercise
def test_no_two_misconceptions_do_the_same_on_all_cases(exercise: Exercise, seed: int) -> None:
    found = {
        m.name: [outcome(m.wrong, case, seed) for case in exercise.cases]
        for m in exercise.misconceptions
    }
    for (one, a), (other, b) in combinations(found.items(), 2):
        assert not all(equal(x, y, rtol(exercise)) for x, y in zip(a, b, strict=True)), (one, other)


@pytest.mark.parametrize("seed", SEEDS)
@each_misconception
def test_a_misconception_is_wrong_whatever_the_seed(
    exercise: Exercise, mistake: Misconception, seed: int
) -> None:
    assert any(
        not equal(
            outcome(mistake.wrong, case, seed),
            outcome(exercise.reference, case, seed),
            rtol(exercise),
        )
        for case in exercise.cases
    )


@pytest.mark.parametrize("seed", SEEDS)
@each_exercise
def test_the_right_results_are_finite_and_the_arguments_stay(exercise: Exercise, seed: int) -> None:
    for case in exercise.cases:
        parts, touched = outcome(exercise.reference, case, seed)
        assert not touched, case.name
        assert all(np.isfinite(x).all() for x in parts if isinstance(x, np.ndarray)), case.name


@each_exercise
def test_there_are_enough_of_everything(exercise: Exercise) -> None:
    assert 4 <= len(exercise.cases) <= 8
    assert len(exercise.misconceptions) >= 8
    assert len(exercise.alternatives) >= 3
    with_torch = any(a.backend == "torch" for a in exercise.alternatives)
    assert with_torch is (exercise.chapter not in OF_TEXT)
    assert len(exercise.hints) == 3


def has_arrays(exercise: Exercise) -> bool:
    """Whether torch could have a part in it: an argument or a part of a result is an array."""
    return any(
        isinstance(x, np.ndarray)
        for each in prepare(exercise)
        for x in (*each.inputs.values(), *(part.array for part in each.right))
    )


def has_plain_parts(exercise: Exercise) -> bool:
    """Whether a right result is, or has beside its numbers, text, a list of pieces, or such."""
    return any(part.array is None for each in prepare(exercise) for part in each.right)


@each_exercise
def test_only_exercises_about_text_do_without_torch(exercise: Exercise) -> None:
    if exercise.chapter in OF_TEXT:
        assert has_plain_parts(exercise)
    else:
        assert has_arrays(exercise) and not has_plain_parts(exercise)


@each_misconception
def test_a_hint_names_the_cause_and_one_next_step(
    exercise: Exercise, mistake: Misconception
) -> None:
    cause, arrow, step = mistake.hint.partition(" → ")
    assert arrow, mistake.hint
    assert len(cause.split()) >= 8
    assert step.endswith("?")
    assert " → " not in step


# -- the checks ------------------------------------------------------------------------------------


@cache
def verdict(exercise: Exercise, mistake: Misconception) -> Report:
    """What the check says of a misconception. Asked once, looked at by several tests."""
    return check(exercise.id, mistake.wrong)


@each_misconception
def test_the_check_turns_a_misconception_down(exercise: Exercise, mistake: Misconception) -> None:
    report = verdict(exercise, mistake)
    assert not report.passed
    assert report.points < exercise.points


def has_own_hint(exercise: Exercise, mistake: Misconception) -> bool:
    return words(mistake.hint) in words(str(verdict(exercise, mistake)))


@pytest.mark.parametrize("number", NAMES)
def test_misconceptions_get_their_own_hint(number: str) -> None:
    exercises = of_chapter(number)
    without = [
        f"{e.id} {m.name}" for e in exercises for m in e.misconceptions if not has_own_hint(e, m)
    ]
    total = sum(len(e.misconceptions) for e in exercises)
    share = 1 - len(without) / total
    print(f"\n{total} misconceptions, {share:.1%} with their own hint; without: {without}")
    assert share >= 0.95, without


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.id in BROKEN], ids=lambda e: e.id)
def test_a_broken_program_is_a_misconception_and_gets_its_hint(exercise: Exercise) -> None:
    (mistake,) = [m for m in exercise.misconceptions if m.wrong is BROKEN[exercise.id]]
    assert mistake.program is not None
    namespace: dict[str, Any] = {"__name__": "a_students_notebook"}
    exec(mistake.program, namespace)
    report = check(exercise.id, namespace[exercise.function])
    assert words(mistake.hint) in words(str(report))


@each_misconception
def test_what_is_right_elsewhere_is_called_a_valid_variant(
    exercise: Exercise, mistake: Misconception
) -> None:
    said = "valid variant" in str(verdict(exercise, mistake)).lower()
    assert said is mistake.valid_variant


@each_alternative
def test_an_alternative_gets_full_points(exercise: Exercise, other: Alternative) -> None:
    report = check(exercise.id, other.right, backend=other.backend)
    assert report.passed, str(report)
    assert report.points == exercise.points


@each_exercise
def test_a_stub_is_not_attempted(exercise: Exercise) -> None:
    def stub(*args: object, **kwargs: object) -> None:
        raise NotImplementedError

    report = check(exercise.id, stub)
    assert report.points == 0
    assert "not attempted" in str(report).lower()


@each_exercise
def test_hints_come_one_by_one(exercise: Exercise) -> None:
    for level, text in enumerate(exercise.hints, start=1):
        assert words(text) in words(str(hint(exercise.id, level=level)))


# -- the manuscript --------------------------------------------------------------------------------


@each_exercise
def test_the_answer_in_the_manuscript_gets_full_points(
    exercise: Exercise,
) -> None:
    report = check(exercise.id, getattr(answers(exercise.chapter), exercise.function))
    assert report.points == exercise.points, str(report)


@each_exercise
def test_the_worked_examples_are_true(exercise: Exercise) -> None:
    module = answers(exercise.chapter)
    function = getattr(module, exercise.function)
    runner = doctest.DocTestRunner(verbose=False)
    tests = doctest.DocTestFinder(recurse=False).find(
        function, exercise.function, module=module, globs=dict(vars(module))
    )
    with np.printoptions(precision=3, suppress=True):
        results = [runner.run(test) for test in tests]
    assert sum(r.attempted for r in results) >= 1
    assert sum(r.failed for r in results) == 0


@pytest.mark.parametrize("name", BROKEN)
def test_the_broken_program_on_the_page_is_the_one_that_the_grader_knows(name: str) -> None:
    function = BROKEN[name]
    ours = ast.parse(inspect.getsource(function)).body[0]
    (theirs,) = [
        node
        for _, source in manuscript_cells(name.split(".")[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__
    ]
    assert isinstance(ours, ast.FunctionDef)
    assert [a.arg for a in ours.args.args] == [a.arg for a in theirs.args.args]
    assert [ast.dump(x) for x in ours.body[1:]] == [ast.dump(x) for x in theirs.body]


@each_exercise
def test_the_page_and_the_exercise_say_the_same(exercise: Exercise) -> None:
    """Points, minutes and difficulty stand in the text, in nbgrader's metadata and in the data."""
    name = exercise.id.split(".")[1]
    metadata = {m["grade_id"]: m for m, _ in manuscript_cells(exercise.chapter) if m}
    assert metadata[name]["solution"] and not metadata[name]["locked"]
    assert metadata[f"check_{name}"]["grade"] and metadata[f"check_{name}"]["locked"]
    assert metadata[f"check_{name}"]["points"] == exercise.points

    number = of_chapter(exercise.chapter).index(exercise) + 1
    text = manuscript(exercise.chapter)
    (section,) = re.findall(rf"^## {number} · .*?(?=^\+\+\+|\Z)", text, re.MULTILINE | re.DOTALL)
    dots = "●" * exercise.difficulty + "○" * (3 - exercise.difficulty)
    assert f"{dots}, {exercise.minutes:g} minutes, {exercise.points:g} points." in section
    (row,) = re.findall(rf"^\| {number} · .*$", text, re.MULTILINE)
    assert row.endswith(f"| {dots} | {exercise.minutes:g} | {exercise.points:g} |")
    assert f'check("{exercise.id}")' in section
    assert section.count("### BEGIN SOLUTION") == section.count("### END SOLUTION") == 1
