from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.project import CHAPTER, CHAPTER_PATH, EXERCISE, EXERCISE_PATH, replace, write
from tools.config import read_address
from tools.plan import make_plan
from tools.problem import Problem
from tools.rules import points_of


def complaints(
    project: Path, path: Path, old: str | None = None, new: str = "", worth: float = 3
) -> str:
    """Break a manuscript in one place and return what is said about it; "" if nothing is."""
    if old is not None:
        replace(project, path, old, new)

    def points(name: str) -> float:
        if name != "05.double":
            raise ValueError(f"There is no exercise {name!r}.")
        return worth

    try:
        make_plan(project, path, read_address(project), points)
    except Problem as problem:
        return str(problem)
    return ""


def line_of(text: str, needle: str) -> int:
    return text[: text.index(needle)].count("\n") + 1


@pytest.mark.parametrize("path", [CHAPTER_PATH, EXERCISE_PATH])
def test_the_small_course_keeps_to_the_rules(project: Path, path: Path) -> None:
    assert complaints(project, path) == ""


@pytest.mark.parametrize(
    ("old", "new", "needle", "said"),
    [
        ("    ### END SOLUTION\n", "", "```{code-cell} ipython3\n---", "BEGIN SOLUTION without an"),
        ("    ### BEGIN SOLUTION\n", "", "    ### END", "END SOLUTION without a BEGIN"),
        (
            "    return 2 * x\n",
            "    ### BEGIN SOLUTION\n    return 2 * x\n",
            "    return 2 * x",
            "BEGIN SOLUTION inside a solution",
        ),
        (
            "    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n",
            "    return 2 * x\n",
            "```{code-cell} ipython3\n---",
            "marked as a solution but has no",
        ),
        (
            "locked: false, schema_version: 3, solution: true",
            "locked: false, schema_version: 3, solution: false",
            "```{code-cell} ipython3\n---",
            "solution markers in a cell whose nbgrader metadata doesn't say solution: true",
        ),
        (
            "nbgrader: {grade: false, grade_id: double, locked: false, schema_version: 3, "
            "solution: true, task: false}",
            "tags: []",
            "```{code-cell} ipython3\n---",
            "solution markers in a cell",
        ),
        ("Write it.", "Write it. ### BEGIN SOLUTION", "# Exercises", "solution markers in a cell"),
        (
            "grade_id: check_double",
            "grade_id: double",
            "```{code-cell} ipython3\n---\nnbgrader: {grade: true",
            "the grade id 'double' is taken by the cell in line 12",
        ),
        (
            "schema_version: 3, solution: true, ",
            "schema_version: 2, solution: true, ",
            "```{code-cell} ipython3\n---",
            "must have schema_version: 3",
        ),
        (
            "locked: false, schema_version: 3, ",
            "",
            "```{code-cell} ipython3\n---",
            "metadata lacks locked, schema_version",
        ),
        (
            "grade_id: check_double",
            'grade_id: "check.double"',
            "```{code-cell} ipython3\n---\nnbgrader: {grade: true",
            "a grade id consists of letters, digits, _ and -",
        ),
        (
            'check("05.double")',
            'check("05.treble")',
            "```{code-cell} ipython3\n---\nnbgrader: {grade: true",
            "There is no exercise '05.treble'",
        ),
        (
            'check("05.double")',
            "print()",
            "```{code-cell} ipython3\n---\nnbgrader: {grade: true",
            'a graded cell calls check("NN.exercise")',
        ),
        (
            "points: 3",
            "points: 2.5",
            "```{code-cell} ipython3\n---\nnbgrader: {grade: true",
            "the cell says 2.5 points, the exercise 05.double has 3",
        ),
    ],
)
def test_a_fault_of_an_exercise_is_said_with_its_line(
    project: Path, old: str, new: str, needle: str, said: str
) -> None:
    text = complaints(project, EXERCISE_PATH, old, new)
    line = line_of((project / EXERCISE_PATH).read_text(encoding="utf-8"), needle)
    if "inside a solution" in said:
        line -= 1  # the marker stands above the line sought
    assert f"{EXERCISE_PATH}:{line}: " in text
    assert said in text


def test_points_that_agree_as_numbers_agree(project: Path) -> None:
    assert complaints(project, EXERCISE_PATH, "points: 3", "points: 3.0") == ""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{{unknown}}", "unknown placeholder {{unknown}}"),
        ("{{colab:chapters/99_none}}", "names a notebook that no manuscript becomes"),
        ("$e^{{x}}$", "unknown placeholder {{x}}"),
        ("{{colab}}", "unknown placeholder {{colab}}"),
        ("```{note}\nText.\n```", "a MyST directive"),
        (":::{note}\nText.\n:::", "a MyST directive"),
        ("See {ref}`there`.", "a MyST role"),
        ("(label)=", "a MyST target"),
        ("% comment", "a MyST comment"),
        ("{.class}", "a MyST attribute block"),
        ("$$x$$ (equation)", "a MyST equation label"),
        ("[text](there){.class}", "a MyST attribute list"),
        ("See [](there).", "a link without text"),
        (": what it means", "a definition list"),
        ("#### Deep", "a heading of level 4 right under one of level 2"),
    ],
)
def test_text_that_only_the_site_would_understand_is_refused_with_its_line(
    project: Path, written: str, said: str
) -> None:
    text = complaints(project, CHAPTER_PATH, "\nMore text.\n", f"\nMore text.\n\n{written}\n")
    start = line_of(CHAPTER, "More text.")
    # A placeholder is told with its cell, all else with its own line.
    assert (
        f"{CHAPTER_PATH}:{start if 'laceholder' in said or 'names' in said else start + 2}: "
        in text
    )
    assert said in text


@pytest.mark.parametrize(
    "written",
    [
        "Code that shows `{{a}` and ``{ref}`x` `` is no role.",
        "$e^{x}$ and $\\frac{a}{b}$",
        "```python\n% not a comment\n{.class}\n# not a heading\n```",
        "<details>\n<summary>A</summary>\n\n$$x$$\n\n</details>",
        "### Deeper\n\n## Back",
    ],
)
def test_text_that_reads_the_same_everywhere_is_left_alone(project: Path, written: str) -> None:
    assert complaints(project, CHAPTER_PATH, "\nMore text.\n", f"\n{written}\n") == ""


def test_the_first_heading_is_the_title(project: Path) -> None:
    assert "the first heading is the title" in complaints(
        project, CHAPTER_PATH, "# Doubling", "## Doubling"
    )


def test_an_output_that_may_differ_needs_an_assertion_on_what_must_hold(project: Path) -> None:
    start = line_of(CHAPTER, "```{code-cell} ipython3\n:tags: [hide-input]")
    text = complaints(project, CHAPTER_PATH, "[hide-input]", "[nbval-ignore-output]")
    assert f"{CHAPTER_PATH}:{start}: nbval-ignore-output without an assert" in text
    asserted = complaints(project, CHAPTER_PATH, "picture.Picture()", "assert picture.Picture()")
    assert asserted == ""


def test_an_unknown_name_in_an_expansion_is_said_with_its_line(project: Path) -> None:
    line = line_of(CHAPTER, "```{code-cell}\ntiny")
    text = complaints(project, CHAPTER_PATH, "double as twice", "treble")
    assert f"{CHAPTER_PATH}:{line}: course_lib.tiny has no treble" in text


def test_graded_cells_belong_to_the_exercises(project: Path) -> None:
    write(project, CHAPTER_PATH, EXERCISE)
    assert "a chapter has no graded cells" in complaints(project, CHAPTER_PATH)


def test_a_cell_that_is_never_closed_is_said(project: Path) -> None:
    text = complaints(project, CHAPTER_PATH, "twice(None) + 1 / 0\n```\n", "twice(None) + 1 / 0\n")
    assert "this code cell is never closed" in text


def test_a_manuscript_without_front_matter_is_said(project: Path) -> None:
    write(project, CHAPTER_PATH, "# Doubling\n")
    assert f"{CHAPTER_PATH}:1: " in complaints(project, CHAPTER_PATH)


def test_metadata_that_is_not_yaml_is_said_with_its_line(project: Path) -> None:
    line = line_of(CHAPTER, "```{code-cell} ipython3\n:tags: [hide-input]")
    assert f"line {line} " in complaints(project, CHAPTER_PATH, "[hide-input]", "[hide-input")


def test_all_faults_are_told_at_once(project: Path) -> None:
    replace(project, CHAPTER_PATH, "\nMore text.\n", "\n{{unknown}}\n")
    text = complaints(project, CHAPTER_PATH, "[hide-input]", "[nbval-ignore-output]")
    assert len(text.splitlines()) == 2


def test_another_projects_grader_is_not_asked(project: Path) -> None:
    assert points_of(project) is None


def test_this_courses_own_grader_is_asked() -> None:
    points = points_of(Path(__file__).resolve().parents[2])
    assert points is not None
    assert points("05.softmax") > 0
    with pytest.raises(ValueError, match="no exercise"):
        points("05.nothing")
