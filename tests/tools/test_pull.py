from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.project import (
    CHAPTER,
    CHAPTER_PATH,
    EXERCISE,
    EXERCISE_PATH,
    EXERCISES,
    NOTEBOOK,
    SOLUTIONS,
    edit,
    load,
    replace,
    snapshot,
    source,
    store,
)
from tools import notebooks, pull
from tools.config import read_address
from tools.plan import make_plan
from tools.stored import authored, read_notebook


def text(root: Path, path: Path = CHAPTER_PATH) -> str:
    return (root / path).read_text(encoding="utf-8")


def pulled(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Pull, which must work, and hold that the manuscript now gives the notebook."""
    assert pull.main([], root) == 0, capsys.readouterr().err
    plan = make_plan(root, CHAPTER_PATH, read_address(root))
    notebook = read_notebook(root, NOTEBOOK)
    assert notebook is not None
    assert authored(plan.notebooks[NOTEBOOK]) == authored(notebook)
    return text(root)


def new_cell(kind: str, written: str, **metadata: object) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": kind,
        "id": f"new-{kind}-{len(written)}",
        "metadata": metadata,
        "source": [written],
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def test_a_pull_without_edits_leaves_every_byte(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(generated)
    assert pull.main([], generated) == 0
    assert "No notebook holds edits." in capsys.readouterr().out
    assert snapshot(generated) == before


def test_a_notebook_that_was_only_run_again_holds_no_edits(generated: Path) -> None:
    notebook = load(generated, NOTEBOOK)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], 99
    notebook["metadata"]["language_info"]["version"] = "3.13.7"
    store(generated, NOTEBOOK, notebook)
    assert pull.main([], generated) == 0
    assert text(generated) == CHAPTER


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("More text.", "More words.\n\nAnd a second paragraph."),
        ('print("once', 'print("only once'),
        ("print(twice(math.floor(2.5)))", "print(twice(math.floor(3.5)))\nprint()"),
        ("picture.Picture()", "print(1)\npicture.Picture()"),
    ],
)
def test_an_edited_cell_changes_in_the_manuscript_and_nothing_else_does(
    generated: Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, NOTEBOOK, old, new)
    assert pulled(generated, capsys) == CHAPTER.replace(old, new)


def test_placeholders_come_back_around_an_edit(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, NOTEBOOK, "How much is twice?", "How much, then, is twice main?")
    expected = CHAPTER.replace("How much is twice?", "How much, then, is twice main?")
    assert pulled(generated, capsys) == expected


def test_a_filled_value_that_was_itself_edited_stays_as_edited(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, NOTEBOOK, "is at https://github.com/OWNER/REPOSITORY", "is at home")
    assert pulled(generated, capsys) == CHAPTER.replace("at {{repository}}", "at home")


def test_cells_can_be_added_removed_and_moved(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = load(generated, NOTEBOOK)
    cells = notebook["cells"]
    (at,) = [i for i, cell in enumerate(cells) if source(cell) == "More text."]
    cells[at - 1 : at + 1] = [cells[at], cells[at - 1]]  # "Text." and "More text." change places
    cells.insert(at + 1, new_cell("markdown", "Between."))
    cells.insert(at + 2, new_cell("code", "1 + 1", tags=["hide-input"], collapsed=True))
    del cells[1]  # the links: injected again
    cells.append(new_cell("code", ""))
    cells.pop(-2)
    store(generated, NOTEBOOK, notebook)

    start, end = CHAPTER.index("\nText.\n"), CHAPTER.index("```{code-cell} ipython3\n:tags: [hide")
    last = CHAPTER.index("\n```{code-cell} ipython3\n:tags: [raises")
    expected = (
        CHAPTER[:start]
        + "\nMore text.\n\n+++\n\nText.\n\n+++\n\nBetween.\n\n"
        + "```{code-cell} ipython3\n:tags: [hide-input]\n\n1 + 1\n```\n\n"
        + CHAPTER[end:last]
    )
    assert pulled(generated, capsys) == expected


def test_changed_tags_come_back(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = load(generated, NOTEBOOK)
    (cell,) = [cell for cell in notebook["cells"] if source(cell) == "picture.Picture()"]
    cell["metadata"]["tags"] = ["hide-input", "wide"]
    store(generated, NOTEBOOK, notebook)
    assert pulled(generated, capsys) == CHAPTER.replace("[hide-input]", "[hide-input, wide]")


def test_code_with_a_fence_in_it_survives(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, NOTEBOOK, "picture.Picture()", 'print("""\n```\n""")')
    assert "````{code-cell} ipython3\n" in pulled(generated, capsys)


def test_a_notebook_that_lost_its_cell_ids_as_in_colab_is_pulled_all_the_same(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = load(generated, NOTEBOOK)
    for cell in notebook["cells"]:
        del cell["id"]
    notebook["nbformat_minor"] = 0
    store(generated, NOTEBOOK, notebook)
    edit(generated, NOTEBOOK, "More text.", "More words.")
    assert pulled(generated, capsys) == CHAPTER.replace("More text.", "More words.")


def test_an_edited_expansion_is_refused_and_says_where_its_code_lives(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, NOTEBOOK, "return FACTOR * x", "return x + x")
    before = snapshot(generated)
    assert pull.main([], generated) == 1
    assert "cell 5 was edited, but its code lives in course_lib/tiny.py" in capsys.readouterr().err
    assert snapshot(generated) == before


def test_an_edit_of_the_solutions_reaches_the_exercise(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, SOLUTIONS, "return 2 * x", "return x + x")
    assert pull.main(["05"], generated) == 0
    assert text(generated, EXERCISE_PATH) == EXERCISE.replace("return 2 * x", "return x + x")


def test_an_edited_exercise_without_its_answers_is_refused(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, EXERCISES, "# YOUR CODE HERE", "return 1")
    before = snapshot(generated)
    assert pull.main([], generated) == 1
    said = capsys.readouterr().err
    assert "exercises/05_doubling.ipynb was edited, but it is derived" in said
    assert "solutions/05_doubling.ipynb" in said
    assert snapshot(generated) == before


def test_two_edits_at_once_are_refused(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(generated, NOTEBOOK, "More text.", "More words.")
    replace(generated, CHAPTER_PATH, "How much is twice?", "What is twice?")
    before = snapshot(generated)
    assert pull.main([], generated) == 1
    assert "were both edited" in capsys.readouterr().err
    assert snapshot(generated) == before


def test_pulled_edits_are_overwritten_by_the_same_and_a_second_pull_has_nothing_to_do(
    generated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(generated, NOTEBOOK, "More text.", "More words.")
    assert notebooks.main([], generated) == 1
    assert pull.main([], generated) == 0
    once = text(generated)
    assert pull.main([], generated) == 0
    assert text(generated) == once
    monkeypatch.setattr("tools.execute.run", None)  # text alone runs nothing
    assert notebooks.main([], generated) == 0
    assert notebooks.main(["--check"], generated) == 0
    assert "More words." in [source(cell) for cell in load(generated, NOTEBOOK)["cells"]]
