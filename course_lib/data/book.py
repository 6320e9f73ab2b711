"""The paragraphs of this book, for a search: what chapters 00 to 14 say, without code and formulas.

A notebook that runs elsewhere has no chapters beside it, only this library. So the text is part of
it: ``tools/paragraphs.py`` takes it from the manuscripts.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from course_lib.data.book_text import TEXT

__all__ = ["Paragraph", "book_paragraphs"]


class Paragraph(NamedTuple):
    """A paragraph, and where it stands."""

    chapter: str
    section: str
    text: str


@cache
def book_paragraphs() -> tuple[Paragraph, ...]:
    """Return the paragraphs of the chapters, in order.

    Returns
    -------
    tuple of Paragraph
        Lists' items count as paragraphs; what has fewer than 100 characters is left out.

    Examples
    --------
    >>> book_paragraphs()[0].chapter
    '00_language_models'
    """
    found = []
    chapter = section = ""
    for block in TEXT.strip().split("\n\n"):
        if block.startswith("## "):
            section = block[3:]
        elif block.startswith("# "):
            chapter = block[2:]
        else:
            found.append(Paragraph(chapter, section, block.replace("\n", " ")))
    return tuple(found)
