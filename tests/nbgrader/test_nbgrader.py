"""A class, graded by nbgrader as an instructor would: released, handed in, autograded, exported.

One course, one assignment, one student for everything that people do to a grader. All are graded
in one batch, so that each also shows that it doesn't harm the others.
"""

from __future__ import annotations

import copy
import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course_lib.grading import check

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
CHAPTER = "05_scaled_dot_product_attention"
ASSIGNMENT = "ps05"

# Overflows on large scores and does what it should on all others.
HALF_RIGHT_SOFTMAX = """
def softmax(x, axis=-1):
    exps = np.exp(x)
    return exps / exps.sum(axis=axis, keepdims=True)
"""


def nbgrader(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run nbgrader in a course's folder, in this environment, and return what came of it."""
    # It calls alembic by name.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COURSE_LIB_PROGRESS": "off"}
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def release(course: Path, assignment: str, sources: list[Path]) -> dict[str, NotebookNode]:
    """Release notebooks as an assignment, and return what students get, by name."""
    course.mkdir(exist_ok=True)
    shutil.copy(ROOT / "tools" / "nbgrader_config.py", course)
    folder = course / "source" / assignment
    folder.mkdir(parents=True)
    for source in sources:
        shutil.copy(source, folder)
    done = nbgrader(course, "generate_assignment", assignment, "--create")
    assert done.returncode == 0, done.stdout
    files = sorted((course / "release" / assignment).glob("*.ipynb"))
    return {file.stem: nbformat.read(file, as_version=4) for file in files}


def by_grade_id(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Return the cells that nbgrader knows, in order."""
    cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader")]
    return {cell.metadata.nbgrader.grade_id: cell for cell in cells}


@dataclass(frozen=True)
class Material:
    """What a student starts from, and what the instructor has."""

    released: NotebookNode
    solved: NotebookNode

    @property
    def checks(self) -> dict[str, float]:
        """Points of each check cell, in order."""
        cells = by_grade_id(self.released)
        return {n: float(c.metadata.nbgrader.points) for n, c in cells.items()
                if c.metadata.nbgrader.grade}  # fmt: skip

    @property
    def answers(self) -> list[str]:
        """Names of the cells that a student fills in, in order."""
        cells = by_grade_id(self.released)
        return [name for name, cell in cells.items() if cell.metadata.nbgrader.solution]

    def untouched(self) -> NotebookNode:
        return copy.deepcopy(self.released)

    def right(self) -> NotebookNode:
        notebook = self.untouched()
        solved = by_grade_id(self.solved)
        for name in self.answers:
            by_grade_id(notebook)[name].source = solved[name].source
        return notebook


Submission = Callable[[Material], NotebookNode | str]
SUBMISSIONS: dict[str, Submission] = {}


def student(function: Submission) -> Submission:
    """Enrol a student, whose name is the function's."""
    SUBMISSIONS[function.__name__] = function
    return function


def with_first_cell(notebook: NotebookNode, source: str) -> NotebookNode:
    """Add a plain cell before the first answer."""
    first = next(i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader"))
    notebook.cells.insert(first, new_code_cell(source))
    return notebook


@student
def right(m: Material) -> NotebookNode:
    return m.right()


@student
def untouched(m: Material) -> NotebookNode:
    return m.untouched()


@student
def half_right(m: Material) -> NotebookNode:
    notebook = m.untouched()
    cells, solved = by_grade_id(notebook), by_grade_id(m.solved)
    cells["softmax_backward"].source = solved["softmax_backward"].source
    cells["softmax"].source = "import numpy as np\n" + HALF_RIGHT_SOFTMAX
    return notebook


@student
def crashes_in_a_plain_cell(m: Material) -> NotebookNode:
    return with_first_cell(m.right(), "this_name_is_defined_nowhere")


@student
def crashes_in_the_last_answer(m: Material) -> NotebookNode:
    notebook = m.right()
    cell = by_grade_id(notebook)[m.answers[-1]]
    cell.source = "import no_such_module_as_this\n" + cell.source
    return notebook


@student
def leaves_a_syntax_error_in_the_last_answer(m: Material) -> NotebookNode:
    notebook = m.right()
    by_grade_id(notebook)[m.answers[-1]].source += "\n    return ((("
    return notebook


@student
def kills_the_kernel(m: Material) -> NotebookNode:
    return with_first_cell(m.right(), "import os\nos._exit(0)")


@student
def makes_noise_in_a_plain_cell(m: Material) -> NotebookNode:
    return with_first_cell(m.right(), "import sys\nprint('noise', file=sys.stderr)")


@student
def makes_noise_at_every_call(m: Material) -> NotebookNode:
    notebook = m.right()
    cell = by_grade_id(notebook)["softmax"]
    cell.source += """

import functools, os, sys, warnings

def noisy(function):
    @functools.wraps(function)
    def wrapped(*arguments, **named):
        warnings.warn("this softmax was called")
        print("noise", file=sys.stderr)
        return function(*arguments, **named)
    return wrapped

softmax = noisy(softmax)
"""
    return notebook


@student
def edits_the_check_cells(m: Material) -> NotebookNode:
    notebook = m.untouched()
    for name in m.checks:
        by_grade_id(notebook)[name].source = "print(100)\n100.0"
    return notebook


@student
def raises_the_points(m: Material) -> NotebookNode:
    notebook = m.right()
    for name in m.checks:
        by_grade_id(notebook)[name].metadata.nbgrader.points = 100
    return notebook


@student
def patches_what_compares(m: Material) -> NotebookNode:
    source = """
import numpy as np

np.allclose = np.isclose = np.array_equal = lambda *arguments, **named: True
np.testing.assert_allclose = lambda *arguments, **named: None

class Same(float):
    __eq__ = __ge__ = __le__ = lambda self, other: True
    __hash__ = float.__hash__
"""
    notebook = with_first_cell(m.untouched(), source)
    by_grade_id(notebook)["softmax"].source = "def softmax(x, axis=-1):\n    return Same(1.0)"
    return notebook


@student
def deletes_a_check_cell(m: Material) -> NotebookNode:
    notebook = m.right()
    gone = next(iter(m.checks))
    notebook.cells = [
        cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") != gone
    ]
    return notebook


@student
def duplicates_a_check_cell(m: Material) -> NotebookNode:
    notebook = m.right()
    cell = by_grade_id(notebook)[next(iter(m.checks))]
    again = copy.deepcopy(cell)
    again.id = "pasted-below"
    notebook.cells.insert(notebook.cells.index(cell) + 1, again)
    return notebook


@student
def duplicates_an_answer_cell(m: Material) -> NotebookNode:
    notebook = m.right()
    cell = by_grade_id(notebook)[m.answers[0]]
    again = copy.deepcopy(cell)
    again.id = "pasted-below"
    notebook.cells.insert(notebook.cells.index(cell) + 1, again)
    return notebook


@student
def strips_the_metadata(m: Material) -> NotebookNode:
    notebook = m.right()
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
    return notebook


@student
def hands_in_no_json(m: Material) -> str:
    return nbformat.writes(m.right())[:-200]


@student
def hands_in_an_empty_file(m: Material) -> str:
    return ""


@student
def renames_the_file(m: Material) -> NotebookNode:
    return m.right()


@dataclass(frozen=True)
class Graded:
    """What the instructor has after `nbgrader autograde` and `nbgrader export`."""

    material: Material
    scores: dict[str, float]
    log: str
    exit_code: int

    @property
    def to_be_looked_at(self) -> set[str]:
        """Students whom nbgrader names at the end as not graded."""
        pattern = rf"error processing assignment '{ASSIGNMENT}' for student '(\w+)'"
        return set(re.findall(pattern, self.log))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graded]:
    course = tmp_path_factory.mktemp("class")
    source = ROOT / "solutions" / f"{CHAPTER}.ipynb"
    (released,) = release(course, ASSIGNMENT, [source]).values()
    material = Material(released=released, solved=nbformat.read(source, as_version=4))
    for name, submission in SUBMISSIONS.items():
        folder = course / "submitted" / name / ASSIGNMENT
        folder.mkdir(parents=True)
        made = submission(material)
        text = made if isinstance(made, str) else nbformat.writes(made)
        file = "mine" if name == "renames_the_file" else CHAPTER
        (folder / f"{file}.ipynb").write_text(text, encoding="utf-8")
    done = nbgrader(course, "autograde", ASSIGNMENT)
    exported = nbgrader(course, "export", "--to=grades.csv")
    assert exported.returncode == 0, exported.stdout
    with open(course / "grades.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["assignment"] for row in rows} == {ASSIGNMENT}
    assert {float(row["max_score"]) for row in rows} == {sum(material.checks.values())}
    scores = {row["student_id"]: float(row["score"]) for row in rows}
    yield Graded(material, scores, done.stdout, done.returncode)


def partial(exercise: str, source: str, name: str) -> float:
    """Return the points of a piece of code, as the grader says here and now."""
    namespace: dict = {"np": np}
    exec(source, namespace)
    report = check(exercise, namespace[name])
    assert 0 < report.points < report.max_points
    return report.points


FULL = [
    "right",
    "crashes_in_a_plain_cell",
    "makes_noise_in_a_plain_cell",
    "makes_noise_at_every_call",
    "raises_the_points",
    "deletes_a_check_cell",
    "duplicates_a_check_cell",
    "duplicates_an_answer_cell",
]
NOTHING = ["untouched", "edits_the_check_cells", "patches_what_compares"]
ALL_BUT_THE_LAST = ["crashes_in_the_last_answer", "leaves_a_syntax_error_in_the_last_answer"]
NOT_GRADED = [
    "kills_the_kernel",
    "strips_the_metadata",
    "hands_in_no_json",
    "hands_in_an_empty_file",
    "renames_the_file",
]

pytestmark = pytest.mark.slow


def test_every_student_has_an_expected_outcome_and_a_grade(graded: Graded) -> None:
    expected = [*FULL, *NOTHING, *ALL_BUT_THE_LAST, *NOT_GRADED, "half_right"]
    assert sorted(expected) == sorted(SUBMISSIONS) == sorted(graded.scores)


@pytest.mark.parametrize("name", FULL)
def test_right_work_gets_full_points_whatever_stands_around_it(name: str, graded: Graded) -> None:
    assert graded.scores[name] == sum(graded.material.checks.values())


@pytest.mark.parametrize("name", NOTHING)
def test_no_answer_gets_no_point_whatever_the_check_cells_say(name: str, graded: Graded) -> None:
    assert graded.scores[name] == 0.0


def test_half_right_work_gets_the_points_of_the_cases_that_pass(graded: Graded) -> None:
    earned = partial("05.softmax", HALF_RIGHT_SOFTMAX, "softmax")
    whole = graded.material.checks["check_softmax_backward"]
    assert graded.scores["half_right"] == pytest.approx(earned + whole, abs=1e-9)


@pytest.mark.parametrize("name", ALL_BUT_THE_LAST)
def test_an_answer_that_cannot_run_costs_its_own_points_and_no_others(
    name: str, graded: Graded
) -> None:
    *others, _ = graded.material.checks.values()
    assert graded.scores[name] == sum(others)


def test_what_cannot_be_graded_counts_zero_and_is_named_while_the_others_go_on(
    graded: Graded,
) -> None:
    assert graded.to_be_looked_at == set(NOT_GRADED)
    assert graded.exit_code != 0
    assert {graded.scores[name] for name in NOT_GRADED} == {0.0}


def test_the_release_is_what_is_committed_in_exercises(tmp_path: Path) -> None:
    released = release(tmp_path / "all", "all", SOLUTIONS)
    committed = {path.stem for path in (ROOT / "exercises").glob("*.ipynb")}
    assert set(released) == committed != set()
    for name, notebook in released.items():
        stored = nbformat.read(ROOT / "exercises" / f"{name}.ipynb", as_version=4)
        assert [c.source for c in stored.cells] == [c.source for c in notebook.cells]
        ours, theirs = by_grade_id(stored), by_grade_id(notebook)
        assert list(ours) == list(theirs) != []
        for grade_id in ours:
            assert ours[grade_id].metadata.nbgrader == theirs[grade_id].metadata.nbgrader
        text = "\n".join(cell.source for cell in stored.cells)
        assert "BEGIN SOLUTION" not in text


def test_nbgrader_validates_what_is_handed_out_and_what_is_right(tmp_path: Path) -> None:
    # What a student sees on pressing Validate: a right notebook is told that it passes.
    shutil.copy(ROOT / "solutions" / f"{CHAPTER}.ipynb", tmp_path)
    done = nbgrader(tmp_path, "validate", f"{CHAPTER}.ipynb")
    assert done.returncode == 0, done.stdout
    assert "Success! Your notebook passes all the tests." in done.stdout
