"""From a manuscript to its notebooks, not yet run: what is added, numbered, and cut out."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import (  # type: ignore[import-untyped]
    CheckCellMetadata,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
    NbGraderPreprocessor,
)

from tools.config import Address
from tools.manuscript import Manuscript, Piece, fill
from tools.problem import Problem

# Written as it is, and not as the kernel says it: a kernel names its patch version.
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
SETUP_TAG = "remove-cell"


def setup_source(address: Address, needs: Mapping[str, str] | None = None) -> str:
    """Return the source of the setup cell: the first code cell of every notebook.

    Parameters
    ----------
    address : Address
        Where the library is installed from.
    needs : mapping of str to str, optional
        What else the notebook needs: the name under which it is imported, and pip's name for it.
    """
    others = "".join(
        f'if importlib.util.find_spec("{module}") is None:\n    wanted.append("{package}")\n'
        for module, package in (needs or {}).items()
    )
    what = "the course's own library and what else it needs" if others else "the course's library"
    return f"""\
# @title Setup: run this cell first
# Installs {what} where missing, as in Colab; elsewhere it does nothing.
import importlib.util
import os
import subprocess
import sys

wanted = []
if importlib.util.find_spec("course_lib") is None:
    published = "course_lib @ {address.pip}"
    wanted.append(os.environ.get("COURSE_LIB_REQUIREMENT", published))
{others}if wanted:
    install = [sys.executable, "-m", "pip", "install", "--quiet", *wanted]
    pip = subprocess.run(install, capture_output=True, text=True)
    if pip.returncode != 0:
        last_lines = "\\n".join((pip.stdout + pip.stderr).strip().splitlines()[-5:])
        raise RuntimeError(
            f"pip could not install {{', '.join(wanted)}}. It says:\\n{{last_lines}}\\n"
            "Check that this machine is online and that the address above opens in a browser; "
            "then run this cell again."
        )
    importlib.invalidate_caches()"""


def links_source(name: str, is_exercise: bool, address: Address) -> str:
    """Return the text of the cell under the title: where to run this, and what belongs to it."""
    if is_exercise:
        here = address.colab(f"exercises/{name}")
        return f"[Open in Colab]({here}) · [The chapter](../chapters/{name}.ipynb)"
    return (
        f"[Open in Colab]({address.colab(f'chapters/{name}')}) · "
        f"[Exercises](../exercises/{name}.ipynb) · "
        f"[Exercises in Colab]({address.colab(f'exercises/{name}')})"
    )


def injected_source(record: Mapping[str, Any], notebook: Path, address: Address) -> str:
    """Return the source of an injected cell of a notebook from what the cell's metadata record."""
    if record["injected"] == "setup":
        return setup_source(address, record.get("needs"))
    return links_source(notebook.stem, notebook.parent.name != "chapters", address)


def derive(manuscript: Manuscript, address: Address) -> dict[Path, NotebookNode]:
    """Build the notebooks of a manuscript: a chapter, or solutions and exercises.

    Returns
    -------
    dict
        From each notebook's path, relative to the root, to the notebook without outputs. Cell
        ``cell-007`` is the seventh; `place` says where it stands in the manuscript.
    """
    path = manuscript.notebooks[0]
    notebook = nbformat.v4.new_notebook(metadata=copy.deepcopy(NOTEBOOK_METADATA))
    notebook.cells = [_cell(manuscript, piece, address) for piece in manuscript.pieces]
    for index, kind in _injections(manuscript):
        notebook.cells.insert(index, _injected(manuscript, kind, path, address))
    for number, cell in enumerate(notebook.cells, start=1):
        cell["id"] = f"cell-{number:03d}"
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebooks = {path: notebook}
    if manuscript.is_exercise:
        notebooks[manuscript.notebooks[1]] = _without_answers(manuscript, notebook)
    return notebooks


def place(manuscript: Manuscript, index: int) -> int:
    """Return the manuscript's line for the cell with an index in its notebooks; 1 if injected."""
    lines = [piece.line for piece in manuscript.pieces]
    for at, _ in _injections(manuscript):
        lines.insert(at, 1)
    return lines[index]


def pieces_by_id(manuscript: Manuscript) -> dict[str, Piece]:
    """Return which piece of the manuscript each cell id of its notebooks stands for."""
    every: list[Piece | None] = list(manuscript.pieces)
    for at, _ in _injections(manuscript):
        every.insert(at, None)
    return {f"cell-{n:03d}": piece for n, piece in enumerate(every, start=1) if piece is not None}


def _injections(manuscript: Manuscript) -> list[tuple[int, str]]:
    """Say where injected cells go, in the order of insertion: links under the title, then setup."""
    pieces = manuscript.pieces
    if pieces and pieces[0].kind == "markdown":
        return [(1, "links"), (2, "setup")]
    return [(0, "setup")]


def _injected(manuscript: Manuscript, kind: str, path: Path, address: Address) -> NotebookNode:
    record: dict[str, Any] = {"injected": kind}
    if kind == "setup" and manuscript.needs:
        record["needs"] = manuscript.needs
    source = injected_source(record, path, address)
    metadata: dict[str, Any] = {"course": record}
    if kind == "links":
        return nbformat.v4.new_markdown_cell(source, metadata=metadata)
    # cellView folds the code away in Colab and leaves its title.
    metadata |= {"cellView": "form", "tags": [SETUP_TAG]}
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def _cell(manuscript: Manuscript, piece: Piece, address: Address) -> NotebookNode:
    metadata = copy.deepcopy(piece.metadata)
    if piece.kind == "markdown":
        source = fill(manuscript.root, piece.source, address)
        if source != piece.source:
            metadata["course"] = {"template": piece.source}
        return nbformat.v4.new_markdown_cell(source, metadata=metadata)
    if piece.expanded is not None:
        metadata["course"] = {"source": piece.source}
    return nbformat.v4.new_code_cell(piece.expanded or piece.source, metadata=metadata)


def _without_answers(manuscript: Manuscript, solved: NotebookNode) -> NotebookNode:
    """Cut the answers out with nbgrader's own steps, so that the result is its own assignment."""
    notebook = copy.deepcopy(solved)
    resources: dict[str, Any] = {}
    steps: list[type[NbGraderPreprocessor]] = [
        ClearSolutions,
        LockCells,
        ComputeChecksums,
        CheckCellMetadata,
    ]
    for step in steps:
        preprocessor = step()
        preprocessor.log = logging.getLogger("tools.nbgrader")
        preprocessor.log.propagate = False
        try:
            notebook, resources = preprocessor.preprocess(notebook, resources)
        except Exception as error:
            raise Problem(
                f"{manuscript.path.as_posix()}: nbgrader's {step.__name__} refuses it: {error}"
            ) from None
    return notebook
