"""The exercises of chapter 05: the checks tell right from wrong, and say which wrong it is."""

from __future__ import annotations

import ast
import copy
import doctest
import importlib.util
import re
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check, hint
from course_lib.grading.exercises import ch05_scaled_dot_product_attention as ch05
from course_lib.grading.model import OPEN_SEED, Alternative, Case, Exercise, Misconception

EXERCISES = ch05.EXERCISES
SEEDS = (OPEN_SEED, 1, 2)
MANUSCRIPT = (
    Path(__file__).parents[2] / "manuscript/exercises" / "05_scaled_dot_product_attention.md"
)
BROKEN = {
    "05.bug_axis": ch05.biased_attention_broken,
    "05.bug_mask": ch05.read_store_broken,
    "05.bug_batch": ch05.window_attention_broken,
}

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


# -- an outcome, told apart without the grader's own code ------------------------------------------


def outcome(function: Callable[..., Any], case: Case, seed: int) -> Any:
    """What a function does with a case: its arrays and whether it changed its arguments."""
    given = case.build(seed)
    args = copy.deepcopy(given)
    with np.errstate(all="ignore"):
        try:
            result = function(**args)
        except Exception as error:
            return type(error).__name__
    parts = result if isinstance(result, tuple) else (result,)
    touched = any(
        isinstance(x, np.ndarray) and not np.array_equal(x, args[name], equal_nan=True)
        for name, x in given.items()
    )
    return [np.asarray(part) for part in parts], touched


def equal(a: Any, b: Any, rtol: float) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return a[1] == b[1] and all(
        x.shape == y.shape and np.allclose(x, y, rtol=rtol, atol=1e-9, equal_nan=True)
        for x, y in zip(a[0], b[0], strict=True)
    )


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
        assert all(np.isfinite(part).all() for part in parts), case.name


@each_exercise
def test_there_are_enough_of_everything(exercise: Exercise) -> None:
    assert 4 <= len(exercise.cases) <= 8
    assert len(exercise.misconceptions) >= 8
    assert len(exercise.alternatives) >= 3
    assert any(isinstance(a, Alternative) and a.backend == "torch" for a in exercise.alternatives)
    assert len(exercise.hints) == 3


@each_misconception
def test_a_hint_names_the_cause_and_one_next_step(
    exercise: Exercise, mistake: Misconception
) -> None:
    cause, arrow, step = mistake.hint.partition(" → ")
    assert arrow, mistake.hint
    assert len(cause.split()) >= 8
    assert step.endswith("?")
    assert " → " not in step


def test_softmax_over_the_wrong_axis_survives_only_where_all_rows_and_columns_agree() -> None:
    """The case that hides the first bug hides it, and the next one shows it."""
    first, second = EXERCISES[5].cases[:2]
    for case, hidden in ((first, True), (second, False)):
        right = outcome(ch05.biased_attention, case, OPEN_SEED)
        assert equal(outcome(ch05.biased_attention_broken, case, OPEN_SEED), right, 1e-9) is hidden


# -- the checks ------------------------------------------------------------------------------------


@each_misconception
def test_the_check_turns_a_misconception_down(exercise: Exercise, mistake: Misconception) -> None:
    report = check(exercise.id, mistake.wrong)
    assert not report.passed
    assert report.points < exercise.points


def has_own_hint(exercise: Exercise, mistake: Misconception) -> bool:
    return words(mistake.hint) in words(str(check(exercise.id, mistake.wrong)))


def test_misconceptions_get_their_own_hint() -> None:
    without = [
        f"{e.id} {m.name}" for e in EXERCISES for m in e.misconceptions if not has_own_hint(e, m)
    ]
    total = sum(len(e.misconceptions) for e in EXERCISES)
    share = 1 - len(without) / total
    print(f"\n{total} misconceptions, {share:.1%} with their own hint; without: {without}")
    assert share >= 0.95, without


@pytest.mark.parametrize("exercise", EXERCISES[5:], ids=lambda e: e.id)
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
    said = "valid variant" in str(check(exercise.id, mistake.wrong)).lower()
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


@cache
def manuscript_cells() -> list[tuple[dict[str, Any], str]]:
    """The manuscript's code cells: nbgrader's metadata and source."""
    import jupytext

    notebook = jupytext.reads(MANUSCRIPT.read_text(encoding="utf-8"), fmt="md:myst")
    return [
        (cell.metadata.get("nbgrader", {}), cell.source)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@cache
def solved(tmp: Path) -> ModuleType:
    """The manuscript's cells with their answers, run as a module; checks and calls left out."""
    source = "\n\n\n".join(
        text
        for _, text in manuscript_cells()
        if not re.search(r"^(check|hint|status)\(", text, re.MULTILINE)
    )
    path = tmp / "solved_ch05.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("solved_ch05", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    before = np.get_printoptions()
    try:
        return solved(tmp_path_factory.mktemp("solved"))
    finally:
        np.set_printoptions(**before)


@each_exercise
def test_the_answer_in_the_manuscript_gets_full_points(
    exercise: Exercise, answers: ModuleType
) -> None:
    report = check(exercise.id, getattr(answers, exercise.function))
    assert report.points == exercise.points, str(report)


@each_exercise
def test_the_worked_examples_are_true(exercise: Exercise, answers: ModuleType) -> None:
    function = getattr(answers, exercise.function)
    runner = doctest.DocTestRunner(verbose=False)
    tests = doctest.DocTestFinder(recurse=False).find(
        function, exercise.function, module=answers, globs=dict(vars(answers))
    )
    with np.printoptions(precision=3, suppress=True):
        results = [runner.run(test) for test in tests]
    assert sum(r.attempted for r in results) >= 1
    assert sum(r.failed for r in results) == 0


@pytest.mark.parametrize("name", BROKEN)
def test_the_broken_program_on_the_page_is_the_one_that_the_grader_knows(name: str) -> None:
    function = BROKEN[name]
    ours = ast.parse(inspect_source(function)).body[0]
    (theirs,) = [
        node
        for _, source in manuscript_cells()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__
    ]
    assert isinstance(ours, ast.FunctionDef)
    assert [a.arg for a in ours.args.args] == [a.arg for a in theirs.args.args]
    assert [ast.dump(x) for x in ours.body[1:]] == [ast.dump(x) for x in theirs.body]


def inspect_source(function: Callable[..., Any]) -> str:
    import inspect

    return inspect.getsource(function)


@each_exercise
def test_the_page_and_the_exercise_say_the_same(exercise: Exercise) -> None:
    """Points, minutes and difficulty stand in the text, in nbgrader's metadata and in the data."""
    name = exercise.id.split(".")[1]
    metadata = {m["grade_id"]: m for m, _ in manuscript_cells() if m}
    assert metadata[name]["solution"] and not metadata[name]["locked"]
    assert metadata[f"check_{name}"]["grade"] and metadata[f"check_{name}"]["locked"]
    assert metadata[f"check_{name}"]["points"] == exercise.points

    number = EXERCISES.index(exercise) + 1
    text = MANUSCRIPT.read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {number} · .*?(?=^\+\+\+|\Z)", text, re.MULTILINE | re.DOTALL)
    dots = "●" * exercise.difficulty + "○" * (3 - exercise.difficulty)
    assert f"{dots}, {exercise.minutes:g} minutes, {exercise.points:g} points." in section
    (row,) = re.findall(rf"^\| {number} · .*$", text, re.MULTILINE)
    assert row.endswith(f"| {dots} | {exercise.minutes:g} | {exercise.points:g} |")
    assert f'check("{exercise.id}")' in section
    assert section.count("### BEGIN SOLUTION") == section.count("### END SOLUTION") == 1


def test_numbers_in_the_text_are_those_that_come_out(answers: ModuleType) -> None:
    text = MANUSCRIPT.read_text(encoding="utf-8")
    shares = answers.softmax(np.array([1.0, 0.0, 2.0]))
    assert "become {:.3f}, {:.3f}, {:.3f}.".format(*shares) in text
    for p in (np.array([1, 3]) / 4, np.array([1, 2]) / 3):
        assert f"{-(p * np.log(p)).sum():.3f}" in text
    assert f"= {np.log(3) / np.log(2):.3f}$" in text
