"""A manuscript, read: its cells with their places, code expanded, placeholders still as written."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import jupytext.myst  # type: ignore[import-untyped]
import yaml  # type: ignore[import-untyped]
from nbformat import NotebookNode

from tools.config import Address
from tools.expand import Expander, is_expansion
from tools.problem import Problem, Problems

FOLDERS = {"chapters": "manuscript/chapters", "exercises": "manuscript/exercises"}
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}:]*?)(?::([^{}]*?))?\s*\}\}")


@dataclass
class Piece:
    """One cell of a manuscript.

    Parameters
    ----------
    kind : str
        "code" or "markdown".
    source : str
        As the manuscript has it: one line that names code, placeholders unfilled.
    metadata : dict
        What the author wrote above the cell: tags, nbgrader's fields.
    line : int
        Where the cell begins in the manuscript, from 1.
    text : str
        The cell in the manuscript, its fences included.
    expanded : str or None
        The library's source, where `source` names it.
    """

    kind: str
    source: str
    metadata: dict[str, Any]
    line: int
    text: str
    expanded: str | None = None


@dataclass
class Manuscript:
    """A text notebook and its cells."""

    root: Path
    path: Path  # relative to root
    text: str
    head: str = ""
    needs: dict[str, str] = field(default_factory=dict)  # packages: name of import → name for pip
    pieces: list[Piece] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The chapter's name, as in ``05_scaled_dot_product_attention``."""
        return self.path.stem

    @property
    def is_exercise(self) -> bool:
        """Whether it becomes a pair of notebooks, with and without answers."""
        return self.path.parent.name == "exercises"

    @property
    def notebooks(self) -> list[Path]:
        """The notebooks that it becomes, relative to the root; its answers first."""
        folders = ("solutions", "exercises") if self.is_exercise else ("chapters",)
        return [Path(folder, f"{self.name}.ipynb") for folder in folders]

    def problem(self, line: int, sentence: str) -> Problem:
        """Say what is wrong at a line."""
        return Problem(f"{self.path.as_posix()}:{line}: {sentence}")


def find_manuscripts(root: Path, names: list[str] | None = None) -> list[Path]:
    """Return the manuscripts under `root`, or those that `names` say.

    A name is a chapter's (``05_attention``: the chapter and its exercises), its number, or the path
    of a manuscript or of a notebook.

    Raises
    ------
    Problem
        If a name fits none.
    """
    paths = [path for folder in FOLDERS.values() for path in sorted((root / folder).glob("*.md"))]
    every = [path.relative_to(root) for path in paths]
    if not names:
        return every
    chosen: list[Path] = []
    for name in names:
        wanted = Path(name)
        folder = {"solutions": "exercises"}.get(wanted.parent.name, wanted.parent.name)
        stem = wanted.stem if wanted.suffix in (".md", ".ipynb") else wanted.name
        fitting = [
            path
            for path in every
            if folder in ("", path.parent.name)
            and (path.stem == stem or path.stem.split("_")[0] == stem)
        ]
        if not fitting:
            known = ", ".join(sorted({path.stem for path in every})) or "none"
            raise Problem(f"no manuscript is called {name}; there are: {known}")
        chosen += [path for path in fitting if path not in chosen]
    return chosen


def read_manuscript(root: Path, path: Path) -> Manuscript:
    """Read a manuscript and expand the cells that name code of `course_lib`.

    Raises
    ------
    Problem
        If it can't be parsed, or a cell names code that isn't there; says the line.
    """
    text = (root / path).read_bytes().decode("utf-8").replace("\r\n", "\n")
    manuscript = Manuscript(root, path, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            notebook = jupytext.myst.myst_to_notebook(text, add_source_map=True)
    except Exception as error:
        raise Problem(f"{path.as_posix()}: {error}") from None

    lines = text.split("\n")
    parser = jupytext.myst.get_parser()
    tokens = parser.parse(text + "\n")
    if not tokens or tokens[0].type != "front_matter":
        raise manuscript.problem(1, "the manuscript doesn't begin with its front matter (---)")
    manuscript.head = "\n".join(lines[: tokens[0].map[1]])
    manuscript.needs = _needs(manuscript, yaml.safe_load(tokens[0].content))
    fences = {token.map[0] + 1: token.map for token in tokens if token.type == "fence"}

    problems: list[Problem] = []
    expander = Expander(root)
    for cell, start in zip(notebook.cells, notebook.metadata["source_map"], strict=True):
        metadata = {key: _plain(value) for key, value in cell.metadata.items()}
        if cell.cell_type == "markdown":
            line = start + 1
            while not lines[line - 1].strip():
                line += 1
            piece = Piece("markdown", cell.source, metadata, line, cell.source)
        elif cell.cell_type == "code":
            first, last = fences[start]
            block = "\n".join(lines[first:last])
            piece = Piece("code", cell.source, metadata, start, block)
            if last - first < 2 or not re.fullmatch(r"\s*`{3,}\s*", lines[last - 1]):
                problems.append(manuscript.problem(start, "this code cell is never closed"))
        else:
            raise manuscript.problem(start, f"{cell.cell_type} cells have no use here")
        if piece.kind == "code" and is_expansion(piece.source):
            try:
                piece.expanded = expander.expand(piece.source)
            except Problem as problem:
                problems.append(manuscript.problem(piece.line, str(problem)))
        manuscript.pieces.append(piece)
    if problems:
        raise Problems(problems)
    return manuscript


def _needs(manuscript: Manuscript, head: Any) -> dict[str, str]:
    """Return the packages that the front matter asks for under ``course: {needs: …}``."""
    course = (head or {}).get("course", {})
    needs = course.get("needs", {}) if isinstance(course, dict) else None
    names = [*needs, *needs.values()] if isinstance(needs, dict) else []
    if not isinstance(needs, dict) or not all(
        isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) for name in names
    ):
        raise manuscript.problem(
            1, "course in the front matter must read {needs: {module: package}}, names of packages"
        )
    return {str(module): str(package) for module, package in needs.items()}


def _plain(value: Any) -> Any:
    """Turn notebook nodes into plain dictionaries, all the way down."""
    if isinstance(value, NotebookNode | dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def fill(root: Path, text: str, address: Address) -> str:
    """Fill the placeholders of a text cell: ``{{repository}}``, ``{{branch}}``, ``{{colab:…}}``.

    Raises
    ------
    Problem
        If one is unknown, or names a notebook that no manuscript becomes.
    """
    return _PLACEHOLDER.sub(lambda match: _value(root, match, address), text)


def _value(root: Path, match: re.Match[str], address: Address) -> str:
    name, argument = match.groups()
    if name == "repository" and argument is None:
        return address.url
    if name == "branch" and argument is None:
        return address.branch
    if name == "colab" and argument:
        folder, _, stem = argument.partition("/")
        source = {"solutions": "exercises"}.get(folder, folder)
        if not (root / "manuscript" / source / f"{stem}.md").is_file():
            raise Problem(f"{match.group(0)} names a notebook that no manuscript becomes")
        return address.colab(argument)
    raise Problem(
        f"unknown placeholder {match.group(0)}; "
        "there are {{repository}}, {{branch}} and {{colab:chapters/NN_name}}"
    )


def unfill(root: Path, template: str, address: Address, edited: str) -> str:
    """Put the placeholders of `template` back into its filled and then edited text.

    A value that the edit changed stays as the edit has it.
    """
    filled, spans, last = "", [], 0
    for match in _PLACEHOLDER.finditer(template):
        filled += template[last : match.start()]
        value = _value(root, match, address)
        spans.append((len(filled), len(filled) + len(value), match.group(0)))
        filled += value
        last = match.end()
    filled += template[last:]
    blocks = SequenceMatcher(None, filled, edited, autojunk=False).get_matching_blocks()
    for start, end, placeholder in reversed(spans):
        for block in blocks:
            if block.a <= start and end <= block.a + block.size:
                at = start - block.a + block.b
                edited = edited[:at] + placeholder + edited[at + end - start :]
                break
    return edited
