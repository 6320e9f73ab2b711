from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.project import (
    CHAPTER_PATH,
    EXERCISE_PATH,
    EXERCISES,
    NOTEBOOK,
    SOLUTIONS,
    edit,
    load,
    replace,
    snapshot,
    store,
)
from tools import notebooks
from tools.drift import find_drift

Cells = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("generated")
    monkeypatch.setattr("tools.execute.run", None)  # calling it would fail


def test_generated_notebooks_have_not_drifted(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(generated)
    assert notebooks.main(["--check"], generated) == 0
    assert capsys.readouterr().out == "Notebooks and manuscripts agree.\n"
    assert snapshot(generated) == before


def test_a_difference_is_printed_with_its_cell_and_the_way_out(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(generated, CHAPTER_PATH, "floor(2.5)", "floor(3.5)")
    before = snapshot(generated)
    assert notebooks.main(["--check"], generated) == 1
    said = capsys.readouterr().out
    assert "chapters/05_doubling.ipynb: cell 7 has another source" in said
    assert "floor(3.5)" in said
    assert "make notebooks" in said
    assert snapshot(generated) == before


def set_output(cells: Cells) -> None:
    cells[6]["outputs"][0]["text"] = ["once\n", "5\n"]


def set_picture(cells: Cells) -> None:
    (cell,) = [c for c in cells if c["source"] == ["picture.Picture()"]]
    data = cell["outputs"][0]["data"]
    assert data["image/png"].startswith("iVBORw0KGgoAAAANS")
    data["image/png"] = data["image/png"].replace("mNk", "mNj", 1)


def set_count(cells: Cells) -> None:
    cells[6]["execution_count"] = 9


def set_null_count(cells: Cells) -> None:
    cells[6]["execution_count"] = None


def set_id(cells: Cells) -> None:
    cells[6]["id"] = "mine"


def set_tags(cells: Cells) -> None:
    cells[6]["metadata"]["tags"] = ["mine"]


def set_alt(cells: Cells) -> None:
    (cell,) = [c for c in cells if c["source"] == ["picture.Picture()"]]
    cell["metadata"]["mystnb"]["image"]["alt"] = "Something else."


def set_error(cells: Cells) -> None:
    cells[6]["outputs"] = [{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]


def set_stderr(cells: Cells) -> None:
    cells[6]["outputs"] = [{"output_type": "stream", "name": "stderr", "text": ["warning"]}]


def drop_error(cells: Cells) -> None:
    cells[-1]["outputs"] = []


def drop_cell(cells: Cells) -> None:
    del cells[7]


def turn_to_text(cells: Cells) -> None:
    cells[6] = {"cell_type": "markdown", "id": "cell-007", "metadata": {}, "source": ["x"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_output, "its outputs are not those that were recorded"),
        (set_picture, "its outputs are not those that were recorded"),
        (set_count, "cell 7 has execution_count 9, should be 4"),
        (set_null_count, "cell 7 has execution_count None, should be 4"),
        (set_id, "cell 7 has the id mine, should be cell-007"),
        (set_tags, "cell 7 has tags ['mine'], should be None"),
        (set_tags, "its cells were edited by hand"),
        (set_alt, "other metadata: mystnb"),
        (set_error, "cell 7 holds an error that its tags don't announce"),
        (set_stderr, "cell 7 holds output on stderr"),
        (drop_error, "is tagged raises-exception but holds no error"),
        (drop_cell, "cell 8 is the first that differs"),
        (turn_to_text, "cell 7 is markdown, should be code"),
    ],
)
def test_an_edit_of_a_notebook_is_found(
    generated: Path, change: Callable[[Cells], None], said: str
) -> None:
    notebook = load(generated, NOTEBOOK)
    change(notebook["cells"])
    store(generated, NOTEBOOK, notebook)
    found = find_drift(generated)
    assert any(line.startswith(f"{NOTEBOOK}: ") and said in line for line in found), found


def test_a_changed_kernel_name_is_found(generated: Path) -> None:
    notebook = load(generated, NOTEBOOK)
    notebook["metadata"]["kernelspec"]["display_name"] = "Python 3 (mine)"
    store(generated, NOTEBOOK, notebook)
    assert find_drift(generated) == [f"{NOTEBOOK}: other metadata: kernelspec"]


def test_an_answer_that_returned_to_the_exercise_is_found(generated: Path) -> None:
    edit(generated, EXERCISES, "raise NotImplementedError()", "return 2 * x")
    found = find_drift(generated)
    assert any("cell 4 has another source: -     return 2 * x" in line for line in found)


def test_a_points_entry_that_changed_is_found(generated: Path) -> None:
    notebook = load(generated, EXERCISES)
    notebook["cells"][4]["metadata"]["nbgrader"]["points"] = 9
    store(generated, EXERCISES, notebook)
    assert any("cell 5 has nbgrader" in line for line in find_drift(generated))


def test_code_of_the_library_that_changed_is_found(generated: Path) -> None:
    replace(generated, "course_lib/picture.py", "at 1.", "at 2.")
    assert find_drift(generated) == [
        f"{NOTEBOOK}: code in course_lib that it imports has changed since it was run"
    ]


def test_code_shown_on_the_page_that_changed_is_found(generated: Path) -> None:
    replace(generated, "course_lib/tiny.py", "return FACTOR * x", "return x * FACTOR")
    found = find_drift(generated, ["chapters/05_doubling"])
    assert any("cell 5 has another source" in line for line in found), found


def test_a_manuscript_without_a_notebook_is_found(generated: Path) -> None:
    (generated / EXERCISES).unlink()
    assert find_drift(generated) == [f"{EXERCISES}: missing; {EXERCISE_PATH} becomes it"]


def test_a_notebook_without_a_manuscript_is_found(generated: Path) -> None:
    (generated / EXERCISE_PATH).unlink()
    replace(generated, CHAPTER_PATH, ", and [here]({{colab:exercises/05_doubling}}) it runs", "")
    found = find_drift(generated)
    for path in (SOLUTIONS, EXERCISES):
        assert f"{path}: no manuscript becomes this notebook" in found


def test_a_fault_in_a_manuscript_is_told_and_its_notebooks_are_not_called_orphans(
    generated: Path,
) -> None:
    replace(generated, EXERCISE_PATH, "    ### END SOLUTION\n", "")
    (line,) = find_drift(generated)
    assert line.startswith(f"{EXERCISE_PATH}:12: BEGIN SOLUTION without an END")


def test_a_notebook_that_cannot_be_read_is_told(generated: Path) -> None:
    (generated / NOTEBOOK).write_text("{", encoding="utf-8")
    (line,) = find_drift(generated)
    assert "isn't a notebook that can be read" in line
