"""Bring edits made in a notebook back into its manuscript: what `make pull` runs.

The inverse of `tools.notebooks`: injected cells are dropped, lines that name code of `course_lib`
and placeholders are put back. What wasn't edited stays as it is in the manuscript, to the byte.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from jupytext.myst import dump_yaml_blocks  # type: ignore[import-untyped]
from nbformat import NotebookNode

from tools import stored
from tools.config import Address, read_address
from tools.derive import derive, pieces_by_id
from tools.manuscript import Manuscript, Piece, find_manuscripts, read_manuscript, unfill
from tools.problem import Problem, Problems

ROOT = Path(__file__).resolve().parent.parent
# What an author writes above a cell. All else is written by Jupyter or by the generator.
KEPT = ("tags", "nbgrader", "mystnb")
GENERATED_BY_NBGRADER = ("checksum", "cell_type")


def pull(root: Path, path: Path, address: Address) -> str | None:
    """Return a manuscript's text with the edits of its notebook, None if there are none.

    Parameters
    ----------
    root : Path
        The project's folder.
    path : Path
        The manuscript, relative to `root`.
    address : Address
        What stands for the placeholders.

    Raises
    ------
    Problem
        If manuscript and notebook were both edited; if the exercises without answers were; if a
        cell was edited whose code lives in `course_lib`.
    """
    manuscript = read_manuscript(root, path)
    name, *others = manuscript.notebooks
    for other in others:
        notebook = stored.read_notebook(root, other)
        if notebook is not None and stored.is_edited(notebook):
            raise Problem(
                f"{other.as_posix()} was edited, but it is derived: make the edit in "
                f"{name.as_posix()} or in {path.as_posix()}"
            )
    notebook = stored.read_notebook(root, name)
    if notebook is None or not stored.is_edited(notebook):
        return None
    expected = derive(manuscript, address)[name]
    if stored.authored(notebook) == stored.authored(expected):
        return None
    if stored.recorded(notebook).get("source_sha256") != stored.digest(manuscript.text):
        raise Problem(
            f"{path.as_posix()} and {name.as_posix()} were both edited since the one became the "
            "other: take back one of the two edits and make it in the other file"
        )
    return _rewrite(manuscript, notebook, expected, name, address)


def _rewrite(
    manuscript: Manuscript,
    notebook: NotebookNode,
    expected: NotebookNode,
    name: Path,
    address: Address,
) -> str:
    pieces = pieces_by_id(manuscript)
    derived = {cell["id"]: cell for cell in expected.cells if cell["id"] in pieces}
    problems: list[Problem] = []
    parts: list[tuple[bool, bool, str]] = []  # is text, has metadata, text
    for number, cell in enumerate(notebook.cells, start=1):
        record = cell.metadata.get("course", {})
        if record.get("injected"):
            continue
        twin = _twin(cell, derived)
        piece = None if twin is None else pieces[twin["id"]]
        if record.get("source") and (twin is None or twin.source != cell.source):
            module = record["source"].split(":")[0].replace(".", "/")
            problems.append(
                Problem(
                    f"{name.as_posix()}: cell {number} was edited, but its code lives in "
                    f"course_lib/{module}.py: make the edit there"
                )
            )
            continue
        if piece is not None and twin is not None and stored.content(cell) == stored.content(twin):
            parts.append((piece.kind == "markdown", bool(piece.metadata), _as_written(piece)))
            continue
        if cell.cell_type == "markdown":
            source = cell.source
            if record.get("template"):
                source = unfill(manuscript.root, record["template"], address, source)
            if not source.strip():
                continue
            metadata = _authored(cell)
            parts.append((True, bool(metadata), _text_cell(source, metadata)))
        elif cell.cell_type == "code":
            if not cell.source.strip():
                continue
            parts.append((False, False, _code_cell(cell, piece)))
        else:
            problems.append(
                Problem(f"{name.as_posix()}: cell {number} is {cell.cell_type}; it has no use here")
            )
    if problems:
        raise Problems(problems)
    text = manuscript.head
    before = False
    for is_text, marked, part in parts:
        text += "\n\n+++\n\n" if is_text and before and not marked else "\n\n"
        text += part
        before = is_text
    return text + "\n"


def _twin(cell: NotebookNode, derived: dict[str, NotebookNode]) -> NotebookNode | None:
    """Find the cell that another was generated as: the same id (Colab drops ids), or the same."""
    same_id = derived.get(cell.get("id", ""))
    if same_id is not None and stored.content(same_id) == stored.content(cell):
        return same_id
    for other in derived.values():
        if stored.content(other) == stored.content(cell):
            return other
    return same_id if same_id is not None and same_id.cell_type == cell.cell_type else None


def _authored(cell: NotebookNode) -> dict[str, Any]:
    metadata = {
        key: json.loads(json.dumps(cell.metadata[key])) for key in KEPT if key in cell.metadata
    }
    for key in GENERATED_BY_NBGRADER:
        metadata.get("nbgrader", {}).pop(key, None)
    mystnb = metadata.get("mystnb", {})
    mystnb.get("image", {}).pop("alt", None)
    if not mystnb.get("image", True):
        del mystnb["image"]
    return {key: value for key, value in metadata.items() if value}


def _as_written(piece: Piece) -> str:
    if piece.kind == "markdown":
        return _text_cell(piece.text, piece.metadata)
    return piece.text


def _text_cell(source: str, metadata: dict[str, Any]) -> str:
    mark = f"+++ {json.dumps(metadata, ensure_ascii=False)}\n\n" if metadata else ""
    return mark + source.strip("\n")


def _code_cell(cell: NotebookNode, piece: Piece | None) -> str:
    """Write a code cell; what stands above its code stays as written, if that wasn't edited."""
    metadata = _authored(cell)
    runs = [len(run) for run in re.findall(r"^`{3,}", cell.source, re.MULTILINE)]
    fence = "`" * max([3, *(run + 1 for run in runs)])
    header = f"{fence}{{code-cell}} ipython3\n"
    if piece is not None and piece.metadata == metadata and not runs:
        lines = piece.text.split("\n")
        body = len(piece.source.split("\n")) if piece.source else 0
        header = "\n".join(lines[: len(lines) - 1 - body]) + "\n"
        fence = lines[-1]
    elif metadata:
        header += dump_yaml_blocks(metadata)
    return f"{header}{cell.source.strip(chr(10))}\n{fence}"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.pull", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these: a chapter or a path")
    options = parser.parse_args(arguments)
    pulled, failed = False, False
    try:
        address = read_address(root)
        paths = find_manuscripts(root, options.names)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    for path in paths:
        try:
            text = pull(root, path, address)
        except Problem as problem:
            print(problem, file=sys.stderr)
            failed = True
            continue
        if text is not None:
            stored.write_together(root, {path: text})
            print(f"wrote {path.as_posix()}; make notebooks runs it")
            pulled = True
    if not pulled and not failed:
        print("No notebook holds edits.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
