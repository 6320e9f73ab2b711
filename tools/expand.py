"""The library's code on the page: `module:name` becomes the source of `name` in `course_lib`.

A cell ``blocks.attention:softmax, causal_mask as mask`` is replaced by the source of the two, each
docstring cut to its first line. A renamed function keeps its new name in every later cell that is
expanded from the same module, so that `attention_np` calls `softmax_np`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tools.problem import Problem

PACKAGE = "course_lib"
_NAME = r"[A-Za-z_]\w*"
_PART = rf"{_NAME}(?: as {_NAME})?"
_LINE = re.compile(rf"({_NAME}(?:\.{_NAME})*):({_PART}(?:, ?{_PART})*)")


def is_expansion(source: str) -> bool:
    """Tell whether a cell's source is one line that names code of `course_lib`.

    Examples
    --------
    >>> is_expansion("blocks.attention:softmax, entropy as h"), is_expansion("x: int")
    (True, False)
    """
    return _LINE.fullmatch(source.strip()) is not None


@dataclass
class Expander:
    """Expands the cells of one notebook, in order, since a renaming holds for those after it."""

    root: Path
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)

    def expand(self, line: str) -> str:
        """Return the source that a line such as ``blocks.attention:softmax`` stands for.

        Raises
        ------
        Problem
            If there is no such module, or no such name at its top level.
        """
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise Problem(f"{line!r} doesn't name code as module:name")
        module = match.group(1)
        source, tree = self._read(module)
        wanted = [re.split(r" as ", part) for part in re.split(r", ?", match.group(2))]
        renamed = self.renamed.setdefault(module, {})
        renamed.update({name: new[0] for name, *new in wanted if new})

        text, before = "", None
        for name, *_ in wanted:
            node = _find(tree, name)
            if node is None:
                known = ", ".join(sorted(filter(None, map(_name, tree.body)))) or "nothing"
                raise Problem(f"{PACKAGE}.{module} has no {name}; it defines {known}")
            constant = isinstance(node, ast.Assign | ast.AnnAssign)
            if before is not None:
                text += "\n" if before and constant else "\n\n\n"
            text += _excerpt(source, node, renamed)
            before = constant
        return self._formatted(text) if renamed else text

    def _read(self, module: str) -> tuple[str, ast.Module]:
        base = self.root.joinpath(PACKAGE, *module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                source = path.read_text(encoding="utf-8")
                try:
                    return source, ast.parse(source)
                except SyntaxError as error:
                    place = path.relative_to(self.root).as_posix()
                    raise Problem(f"{place}:{error.lineno}: {error.msg}") from None
        raise Problem(f"there is no module {PACKAGE}.{module}")

    def _formatted(self, text: str) -> str:
        """Break anew the lines that a longer name has made too long."""
        command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "cell.py", "-"]
        done = subprocess.run(command, input=text, cwd=self.root, capture_output=True, text=True)
        if done.returncode != 0:
            raise Problem(f"ruff can't format the code: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")


def _name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _find(tree: ast.Module, name: str) -> ast.stmt | None:
    return next((node for node in tree.body if _name(node) == name), None)


def _excerpt(source: str, node: ast.stmt, renamed: dict[str, str]) -> str:
    """Cut a definition out of its module, with the comment that stands right above it."""
    lines = source.splitlines()
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    last = node.end_lineno or node.lineno

    # ast counts columns in bytes. Edits from the end, so that those before keep their place.
    encoded = [line.encode("utf-8") for line in lines]
    for line, start, end, new in sorted(_renamings(node, renamed, lines), reverse=True):
        encoded[line] = encoded[line][:start] + new.encode("utf-8") + encoded[line][end:]
    lines = [line.decode("utf-8") for line in encoded]

    for doc in sorted(_docstrings(node), key=lambda d: d.lineno, reverse=True):
        end = doc.end_lineno or doc.lineno
        if end > doc.lineno:
            opening = lines[doc.lineno - 1].rstrip()
            quotes = opening.lstrip().lstrip("rRuU")[:3]
            if opening.endswith(quotes):  # the text begins on the line after the quotes
                opening += lines[doc.lineno].strip()
            lines[doc.lineno - 1 : end] = [opening + quotes]
            last -= end - doc.lineno
    return "\n".join(lines[first:last])


def _docstrings(node: ast.stmt) -> list[ast.Expr]:
    found = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            doc = inner.body[0]
            if (
                isinstance(doc, ast.Expr)
                and isinstance(doc.value, ast.Constant)
                and isinstance(doc.value.value, str)
            ):
                found.append(doc)
    return found


def _renamings(
    node: ast.stmt, renamed: dict[str, str], lines: list[str]
) -> list[tuple[int, int, int, str]]:
    """Return (line, start, end, new name) of every mention of a renamed name in the code."""
    edits = []
    own = _name(node)
    local = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id != own:
            local.add(inner.id)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id in renamed and inner.id not in local:
            start = inner.col_offset
            end = start + len(inner.id.encode("utf-8"))
            edits.append((inner.lineno - 1, start, end, renamed[inner.id]))
    if own in renamed and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        line = lines[node.lineno - 1]
        match = re.match(rf"(?:async\s+)?(?:def|class)\s+({re.escape(own)})\b", line)
        assert match is not None, line
        start, end = (len(line[:at].encode("utf-8")) for at in match.span(1))
        edits.append((node.lineno - 1, start, end, renamed[own]))
    return edits
