"""Take the paragraphs of chapters 00 to 14 for ``course_lib.data.book``, which chapter 15 searches.

``python -m tools.paragraphs`` writes the file; `make notebooks` does so, too, before it runs
anything, and the drift check says when the file isn't what the manuscripts give.
"""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path
from textwrap import fill

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from tools.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path("course_lib/data/book_text.py")
CHAPTERS = range(15)
SHORTEST = 100  # characters
HEAD = '''\
"""The text of chapters 00 to 14. Generated from the manuscripts by ``tools/paragraphs.py``."""

TEXT = r"""
'''

_SIGNS = {
    "…": "dots|ldots|cdots", "·": "cdot", "×": "times", "|": "mid", "√": "sqrt", "∞": "infty",
    "≤": "le|leq", "≥": "ge|geq", "≠": "ne|neq", "≈": "approx", "∈": "in",
}  # fmt: skip
_QUESTIONS = "Check yourself"
_PARSER = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin).use(front_matter_plugin)


def paragraphs_of(text: str) -> list[tuple[str, str]]:
    """Return sections and paragraphs of a chapter's manuscript.

    Parameters
    ----------
    text : str
        With its front matter.

    Returns
    -------
    list of pairs
        The title of the section, which is the chapter's before the first one; and a paragraph in
        one line, without marks of Markdown and TeX. Code, displayed formulas, tables, questions and
        what is folded away are left out.
    """
    found, section, folded = [], "", 0
    tokens = _PARSER.parse(text)
    for before, token in pairwise(tokens):
        closed = token.content.count("</details>")
        folded += token.content.count("<details>")
        if before.type == "heading_open":
            section = _plain(token)
        elif before.type == "paragraph_open" and not folded and section != _QUESTIONS:
            plain = _plain(token)
            if len(plain) >= SHORTEST and not plain.startswith("The exercises"):
                found.append((section, plain))
        folded -= closed
    return found


def _plain(token: Token) -> str:
    """Return the text of a heading or a paragraph, without marks of Markdown and TeX."""
    parts = []
    for child in token.children or []:
        if child.type == "math_inline":
            parts.append(_plain_formula(child.content))
        elif child.type != "html_inline":
            parts.append(" " if child.type in ("softbreak", "hardbreak") else child.content)
    return " ".join("".join(parts).split())


def _plain_formula(text: str) -> str:
    """Return a formula with the signs that TeX has names for, and without its marks."""
    for sign, name in _SIGNS.items():
        text = re.sub(rf"\\(?:{name})(?![a-zA-Z])", sign, text)
    text = re.sub(r"\\(?:text|math[a-z]+|[lr]vert|left|right|[,;! ])", "", text)
    return re.sub(r"[\\{}]", "", text)


def generate(root: Path = ROOT) -> str:
    """Return what the file should hold.

    Raises
    ------
    Problem
        If a chapter's text can't be written as a Python string.
    """
    parts = []
    folder = root / "manuscript" / "chapters"
    for number in CHAPTERS:
        for path in sorted(folder.glob(f"{number:02d}_*.md")):
            parts.append(f"# {path.stem}")
            last = ""
            for section, paragraph in paragraphs_of(path.read_text(encoding="utf-8")):
                if section != last:
                    parts.append(f"## {section}")
                    last = section
                parts.append(fill(paragraph, 96, break_long_words=False, break_on_hyphens=False))
    text = "\n\n".join(parts)
    if '"""' in text:
        raise Problem('a paragraph of the chapters holds """, which the file of the text can\'t')
    return f'{HEAD}{text}\n"""\n'


def find_drift(root: Path = ROOT) -> list[str]:
    """Return what is wrong with the file, in a line; nothing where a project has none."""
    path = root / TARGET
    if not path.is_file() or path.read_text(encoding="utf-8") == generate(root):
        return []
    return [f"{TARGET.as_posix()}: a chapter's text has changed since it was generated"]


def write(root: Path = ROOT) -> bool:
    """Write the file where it is another one; tell whether it was. A project without stays so."""
    if not find_drift(root):
        return False
    (root / TARGET).write_text(generate(root), encoding="utf-8")
    return True


if __name__ == "__main__":
    (ROOT / TARGET).touch()
    print(f"wrote {TARGET}" if write() else f"{TARGET} is up to date")
    sys.exit(0)
