"""Which modules of `course_lib` a notebook's outputs depend on: a static closure over imports."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

from tools.expand import PACKAGE


def closure(root: Path, sources: Iterable[str], chapter: str) -> list[Path]:
    """Return the files of `course_lib` that code imports, directly or through one another.

    Parameters
    ----------
    root : Path
        The project's folder.
    sources : iterable of str
        The code of a notebook's cells.
    chapter : str
        The notebook's name. The grader looks a chapter's exercises up by its number, which no
        import statement shows: they are added where the grader is imported.

    Returns
    -------
    list of Path
        Relative to `root`, sorted.
    """
    found: set[Path] = set()
    waiting = [name for source in sources for name in _imported(source, "")]
    while waiting:
        path = _file(root, waiting.pop())
        if path is None or path in found:
            continue
        found.add(path)
        module = ".".join(path.with_suffix("").parts)
        waiting += _imported((root / path).read_text(encoding="utf-8"), module)
        if module == f"{PACKAGE}.grading.__init__":
            waiting.append(f"{PACKAGE}.grading.exercises.ch{chapter}")
        # `import a.b.c` runs the files of a and a.b as well.
        waiting += [".".join(path.parts[:depth]) for depth in range(1, len(path.parts))]
    return sorted(found)


def fingerprint(root: Path, files: Iterable[Path]) -> str:
    """Return a hash of what files do: of their code without its docstrings and comments."""
    digest = hashlib.sha256()
    for path in files:
        code = _without_prose((root / path).read_text(encoding="utf-8"))
        digest.update(f"{path.as_posix()}\n{code}\n".encode())
    return digest.hexdigest()


def _file(root: Path, module: str) -> Path | None:
    """Find the file of a module; of ``module.name`` where name isn't a module, that of module."""
    if module.split(".")[0] != PACKAGE:
        return None
    base = Path(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if (root / path).is_file():
            return path
    parent = module.rpartition(".")[0]
    return _file(root, parent) if parent else None


def _imported(source: str, module: str) -> list[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with a magic, or a broken one, which execution will report
        lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            return []
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                # "." is what the module lies in; a package's own module is its __init__.
                base = ".".join([*module.split(".")[: -node.level], *filter(None, [base])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def _without_prose(source: str) -> str:
    """Blank out comments and docstrings. Same lines, so that nothing else moves."""
    lines = source.splitlines()
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError):
        return source
    for token in tokens:
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column].rstrip()
    for node in ast.walk(tree):
        holds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(node, holds) and ast.get_docstring(node, clean=False) is not None:
            doc = node.body[0]
            if doc.lineno == getattr(node, "lineno", 0):  # def f(): "doc"
                continue
            for line in range(doc.lineno - 1, doc.end_lineno or doc.lineno):
                lines[line] = ""
    return "\n".join(line for line in lines if line.strip())
