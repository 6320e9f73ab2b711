"""What every committed notebook keeps to, whoever opens it where."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import tomllib
from nbformat import NotebookNode

from tests.house.layout import FOLDERS, NOTEBOOKS, ROOT, relative

IDS = [relative(path) for path in NOTEBOOKS]
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)

# They show as raw text in Colab, in VS Code and on GitHub.
MYST_ONLY = {
    "a directive": r"^\s*(?:`{3,}|~{3,}|:{3,})\s*\{[\w:.-]+\}",
    "a colon fence": r"^\s*:{3,}",
    "a role": r"\{[a-zA-Z][\w:+.-]*\}`[^`]+`",
    "a target": r"^\([\w:. -]+\)=\s*$",
    "a comment": r"^%",
    "a block break": r"^\+\+\+",
    "a labelled formula": r"^\$\$.*\$\$\s*\([\w:.-]+\)|^\$\$\s*\([\w:.-]+\)",
    "a substitution": r"\{\{.*?\}\}",
    "an attribute list": r"[\])`]\{[.#][^}]*\}",
    "a link without text": r"\[\]\(",
    "a definition list": r"^: ",
}


@cache
def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def prose(cell: NotebookNode) -> str:
    """Return a markdown cell without its code blocks, code spans and formulas' insides."""
    return re.sub(r"^```[\w-]*\n.*?^```\s*$", "", cell.source, flags=re.MULTILINE | re.DOTALL)


def asserts(source: str) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))


def test_there_is_a_notebook_in_every_folder() -> None:
    assert {path.parent.name for path in NOTEBOOKS} == set(FOLDERS)


@each_notebook
def test_a_notebook_is_valid(path: Path) -> None:
    nbformat.validate(read(path))


@each_notebook
def test_markdown_has_no_syntax_that_only_the_site_understands(path: Path) -> None:
    for number, cell in enumerate(read(path).cells):
        if cell.cell_type != "markdown":
            continue
        for what, pattern in MYST_ONLY.items():
            # A directive looks like a code block, so it is sought before those are cut out.
            text = cell.source if what == "a directive" else prose(cell)
            found = re.search(pattern, text, re.MULTILINE)
            assert found is None, f"cell {number} has {what}: {found.group()!r}"


@each_notebook
def test_every_cell_has_an_id_of_its_own_that_was_not_drawn_at_random(path: Path) -> None:
    ids = [cell.get("id") for cell in read(path).cells]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for name in ids:
        drawn = re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f-]{27})?", name)
        assert drawn is None, f"{name} looks like an id that nbformat or jupytext drew"


@each_notebook
def test_cells_were_run_in_order_from_the_first_to_the_last(path: Path) -> None:
    counts = [cell.execution_count for cell in code_cells(path) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))


@each_notebook
def test_an_error_that_is_shown_is_announced_by_a_tag(path: Path) -> None:
    for cell in code_cells(path):
        errors = [out for out in cell.outputs if out.output_type == "error"]
        assert bool(errors) == ("raises-exception" in tags(cell)), cell.source


@each_notebook
def test_nothing_is_stored_on_stderr(path: Path) -> None:
    for cell in code_cells(path):
        streams = [out.name for out in cell.outputs if out.output_type == "stream"]
        assert "stderr" not in streams, cell.source


@each_notebook
def test_every_picture_has_words_that_say_what_it_shows(path: Path) -> None:
    for cell in code_cells(path):
        for out in cell.outputs:
            data = out.get("data", {})
            kinds = {kind for kind in data if kind.startswith("image/")}
            if "<svg" in data.get("text/html", ""):
                kinds.add("text/html")
            if not kinds:
                continue
            alt = data.get("text/plain", "")
            assert len(alt.split()) >= 5, f"{cell.source}\nshows a picture with the words {alt!r}"
            assert not alt.startswith("<"), f"{cell.source}\nshows a bare {alt}"


@each_notebook
def test_a_figure_is_shown_with_numbers_that_can_be_compared(path: Path) -> None:
    # nbval skips PNGs, so a blank plot would pass: its words, or the cell, say what was plotted.
    for cell in code_cells(path):
        pngs = [out for out in cell.outputs if "image/png" in out.get("data", {})]
        for out in pngs:
            numbers = re.search(r"\d", out.data.get("text/plain", ""))
            assert numbers or asserts(cell.source), cell.source


@each_notebook
def test_every_column_of_a_table_has_a_name(path: Path) -> None:
    """A header without a word is read aloud as nothing; axe finds it on the built page only."""
    for cell in read(path).cells:
        if cell.cell_type != "markdown":
            continue
        lines = cell.source.splitlines()
        for header, rule in pairwise(lines):
            if re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", rule.strip()):
                names = re.split(r"(?<!\\)\|", header.strip())[1:-1]
                assert all(name.strip() for name in names), f"{relative(path)}: {header}"


@each_notebook
def test_no_output_pulls_scripts_or_holds_an_address(path: Path) -> None:
    notebook = read(path)
    assert "widgets" not in notebook.metadata
    for cell in code_cells(path):
        for out in cell.outputs:
            for kind, value in out.get("data", {}).items():
                if kind.startswith("image/"):
                    continue
                assert "widget" not in kind
                text = "".join(value) if isinstance(value, list) else str(value)
                assert re.search(r"\bat 0x[0-9a-f]{6,}", text) is None, text
                assert re.search(r"(?:src|href)=[\"'](?:https?:)?//", text) is None, text


def test_the_setup_cell_is_the_first_code_cell_and_the_same_in_all_notebooks() -> None:
    """But for the packages that a chapter's front matter asks for."""
    setups = {path: code_cells(path)[0] for path in NOTEBOOKS}
    sources: dict[str, set[str]] = {}
    for path, cell in setups.items():
        assert cell.metadata["course"]["injected"] == "setup", relative(path)
        assert cell.outputs == [], relative(path)
        assert sum(c.source == cell.source for c in code_cells(path)) == 1, relative(path)
        needs = cell.metadata["course"].get("needs", {})
        sources.setdefault(str(sorted(needs.items())), set()).add(cell.source)
        for module, package in needs.items():
            assert f'find_spec("{module}")' in cell.source
            assert f'wanted.append("{package}")' in cell.source
    assert {len(same) for same in sources.values()} == {1}
    (usual,) = sources["[]"]
    assert "course_lib" in usual
    assert "COURSE_LIB_REQUIREMENT" in usual


def test_few_outputs_are_left_uncompared_and_those_cells_assert() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        budget = tomllib.load(file)["tool"]["course"]["nbval_ignored_cells"]
    ignored = [
        (path, cell)
        for path in NOTEBOOKS
        for cell in code_cells(path)
        if "nbval-ignore-output" in tags(cell) or "NBVAL_IGNORE_OUTPUT" in cell.source
    ]
    print(f"{len(ignored)} cells of {len(NOTEBOOKS)} notebooks are not compared; budget {budget}")
    for path, cell in ignored:
        assert asserts(cell.source), f"{relative(path)}: nothing is held of\n{cell.source}"
    assert len(ignored) <= budget
    for path in NOTEBOOKS:
        for cell in code_cells(path):
            assert not {"nbval-skip", "skip-execution"} & set(tags(cell)), relative(path)


@each_notebook
def test_the_code_that_a_reader_sees_fits_the_page(path: Path) -> None:
    """The column shows 83 characters; the library's own signatures may be a little longer."""
    for cell in code_cells(path):
        if not {"hide-input", "remove-cell"} & set(tags(cell)):
            limit = 86 if "source" in cell.metadata.get("course", {}) else 84
            long = [line for line in cell.source.splitlines() if len(line) > limit]
            assert not long, f"{relative(path)}: {cell.id}: {long[0]}"
