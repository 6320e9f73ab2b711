"""Notebooks on disk: their recorded hashes, reading them, writing several as one."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from tools.problem import Problem


def digest(value: Any) -> str:
    """Return the SHA-256 of plain data."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def content(cell: NotebookNode) -> list[Any]:
    """Return what an author edits of a cell: its type, source, tags and nbgrader's metadata."""
    metadata = cell.metadata
    return [cell.cell_type, cell.source, metadata.get("tags", []), metadata.get("nbgrader")]


def hash_cells(notebook: NotebookNode) -> str:
    """Hash what an author would edit."""
    return digest([content(cell) for cell in notebook.cells])


def hash_outputs(notebook: NotebookNode) -> str:
    """Hash what running the cells gave, pictures included."""
    return digest(
        [
            [cell.execution_count, cell.outputs]
            for cell in notebook.cells
            if cell.cell_type == "code"
        ]
    )


def authored(notebook: NotebookNode) -> list[list[Any]]:
    """Return what an author wrote: the content of the cells that aren't injected or empty."""
    return [
        [cell.cell_type, cell.source.strip("\n"), *content(cell)[2:]]
        for cell in notebook.cells
        if not cell.metadata.get("course", {}).get("injected") and cell.source.strip()
    ]


def recorded(notebook: NotebookNode) -> dict[str, str]:
    """Return what the generator wrote about itself into a notebook; nothing, if it didn't."""
    found = notebook.metadata.get("course")
    return dict(found) if isinstance(found, dict) else {}


def is_edited(notebook: NotebookNode) -> bool:
    """Tell whether cells were edited since the generator wrote them (running them is no edit)."""
    return recorded(notebook).get("cells_sha256") != hash_cells(notebook)


def to_text(notebook: NotebookNode) -> str:
    """Return the file of a notebook, the same text for the same notebook."""
    return str(nbformat.writes(notebook, version=nbformat.NO_CONVERT)).rstrip("\n") + "\n"


def from_text(text: str) -> NotebookNode:
    """Read the file of a notebook."""
    return nbformat.reads(text, as_version=nbformat.NO_CONVERT)


def read_notebook(root: Path, path: Path) -> NotebookNode | None:
    """Read a notebook, None where there is none.

    Raises
    ------
    Problem
        If the file isn't a notebook of nbformat 4.
    """
    try:
        notebook = from_text((root / path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Problem(f"{path.as_posix()} isn't a notebook that can be read: {reason}") from None
    if notebook.get("nbformat") != 4:
        raise Problem(f"{path.as_posix()} has nbformat {notebook.get('nbformat')}; 4 is known here")
    return notebook


def write_together(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Write files so that either all of them are new or all are as before; skip unchanged ones.

    Returns
    -------
    list of Path
        Those that changed.
    """
    changed = {}
    for path, text in texts.items():
        target = root / path
        if not target.is_file() or target.read_bytes() != text.encode("utf-8"):
            changed[path] = text
    waiting: list[tuple[Path, Path]] = []
    try:
        for path, text in changed.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", dir=target.parent)
            waiting.append((Path(name), target))
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
            os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o644)
        for temporary, target in waiting:
            os.replace(temporary, target)
    finally:
        for temporary, _ in waiting:
            temporary.unlink(missing_ok=True)
    return list(changed)
