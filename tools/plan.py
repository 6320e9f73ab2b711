"""What the notebooks of one manuscript should be, and whether stored outputs may stay in them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from tools import stored
from tools.config import Address
from tools.dependencies import closure, fingerprint
from tools.derive import derive, place
from tools.execute import RAISES, Where, describe_pictures
from tools.manuscript import Manuscript, read_manuscript
from tools.rules import FindPoints, check_manuscript


@dataclass
class Plan:
    """A manuscript and the notebooks that it should become, without their outputs."""

    manuscript: Manuscript
    notebooks: dict[Path, NotebookNode]
    source_sha256: str
    depends_sha256: str

    def where(self, path: Path) -> Where:
        """Return how to name the place of a cell of a notebook."""

        def name(index: int) -> str:
            line = place(self.manuscript, index)
            source = self.manuscript.path.as_posix()
            return f"{source}:{line}: cell {index + 1} of {path.as_posix()}"

        return name


def make_plan(root: Path, path: Path, address: Address, points: FindPoints | None = None) -> Plan:
    """Read and check a manuscript and derive its notebooks.

    Raises
    ------
    Problem
        What is wrong with the manuscript, and where.
    """
    manuscript = read_manuscript(root, path)
    check_manuscript(manuscript, address, points)
    notebooks = derive(manuscript, address)
    code = [cell.source for cell in next(iter(notebooks.values())).cells if _is_code(cell)]
    files = closure(root, code, manuscript.name)
    return Plan(
        manuscript,
        notebooks,
        stored.digest(manuscript.text),
        fingerprint(root, files),
    )


def with_outputs(plan: Plan, path: Path, old: NotebookNode | None) -> NotebookNode | None:
    """Return the notebook with the outputs of the one on disk, or None if it must be run.

    Outputs stay when the code of every cell, and of what the cells import, is as it was. So a
    change of the text alone, or of the repository's address, runs nothing.
    """
    if old is None:
        return None
    record = stored.recorded(old)
    if record.get("depends_sha256") != plan.depends_sha256:
        return None
    if record.get("outputs_sha256") != stored.hash_outputs(old):
        return None
    new = copy.deepcopy(plan.notebooks[path])
    cells = [cell for cell in new.cells if _is_code(cell, setup=True)]
    before = [cell for cell in old.cells if _is_code(cell, setup=True)]
    if [_runs(cell) for cell in cells] != [_runs(cell) for cell in before]:
        return None
    for cell, run in zip(cells, before, strict=True):
        cell.outputs = run.outputs
        cell.execution_count = run.execution_count
    for index, cell in enumerate(new.cells):
        if cell.cell_type == "code":
            describe_pictures(cell, plan.where(path)(index))
    return new


def finish(plan: Plan, notebook: NotebookNode) -> str:
    """Record the hashes in a notebook that has its outputs, and return its file's text."""
    # As it will be read: some values are stored in another form than kernels give them.
    notebook = stored.from_text(stored.to_text(notebook))
    notebook.metadata["course"] = {
        "source": plan.manuscript.path.as_posix(),
        "source_sha256": plan.source_sha256,
        "cells_sha256": stored.hash_cells(notebook),
        "outputs_sha256": stored.hash_outputs(notebook),
        "depends_sha256": plan.depends_sha256,
    }
    nbformat.validate(notebook)
    return stored.to_text(notebook)


def is_setup(cell: NotebookNode) -> bool:
    """Tell whether a cell is the injected setup cell."""
    return cell.metadata.get("course", {}).get("injected") == "setup"


def _is_code(cell: NotebookNode, setup: bool = False) -> bool:
    return cell.cell_type == "code" and (setup or not is_setup(cell))


def _runs(cell: NotebookNode) -> Any:
    """Return what decides a cell's outputs. The setup cell does nothing where `course_lib` is."""
    if is_setup(cell):
        return "setup"
    return [cell.source, RAISES in cell.metadata.get("tags", [])]
