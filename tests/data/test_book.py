# ruff: noqa: E501  # lines of a manuscript are as long as authors write them

from __future__ import annotations

import re
from pathlib import Path

from course_lib.data.book import book_paragraphs
from tests.house.layout import ROOT
from tools import paragraphs

CHAPTER = """\
---
jupytext: {}
---

# A title

> **A call-out** with a [link](https://example.org/a_(b)), `code <pad>` and $\\sqrt{d_k} \\cdot 2$, long enough to be taken for a paragraph of this book.

```{code-cell} ipython3
"a long line of code which is long enough to be taken for a paragraph of the book, though it isn't one"
```

$$x = \\text{a formula that is as long as a paragraph, which must not be taken for one, however long it is}$$

## A *section*

Too short.

- The first item of a list, which is long enough to be a paragraph of its own, and *slanted* in one place;
- the second item, which is also long enough to be a paragraph of its own, and goes on
  in another line.

| a table | whose text is |
| --- | --- |
| a table | whose row is long enough to be taken for a paragraph of the book, though it isn't a paragraph |

## Check yourself

1. A question, which is long enough to be a paragraph, but nobody shall find it by searching, nor its answer.
"""


def test_the_paragraphs_are_what_the_chapters_say_today() -> None:
    assert paragraphs.find_drift(ROOT) == []


def test_text_is_taken_without_marks_and_nothing_else_is() -> None:
    assert paragraphs.paragraphs_of(CHAPTER) == [
        (
            "A title",
            "A call-out with a link, code <pad> and √d_k · 2, long enough to be taken for a paragraph "
            "of this book.",
        ),
        (
            "A section",
            "The first item of a list, which is long enough to be a paragraph of its own, and "
            "slanted in one place;",
        ),
        (
            "A section",
            "the second item, which is also long enough to be a paragraph of its own, and goes on "
            "in another line.",
        ),
    ]


def test_a_chapter_that_was_edited_is_noticed_and_the_file_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "manuscript" / "chapters"
    folder.mkdir(parents=True)
    (folder / "00_one.md").write_text(CHAPTER, encoding="utf-8")
    assert paragraphs.find_drift(tmp_path) == []  # a project without the file
    assert not paragraphs.write(tmp_path)
    target = tmp_path / paragraphs.TARGET
    target.parent.mkdir(parents=True)
    target.write_text("", encoding="utf-8")
    assert paragraphs.write(tmp_path)
    assert not paragraphs.write(tmp_path)
    text = CHAPTER.replace("goes on", "went on")
    (folder / "00_one.md").write_text(text, encoding="utf-8")
    assert len(paragraphs.find_drift(tmp_path)) == 1
    assert paragraphs.write(tmp_path)
    assert "went on" in target.read_text(encoding="utf-8")


def test_all_chapters_are_there_in_order_with_text_that_reads() -> None:
    book = book_paragraphs()
    chapters = list(dict.fromkeys(p.chapter for p in book))
    manuscripts = sorted((ROOT / "manuscript/chapters").glob("*.md"))
    assert chapters == [p.stem for p in manuscripts][:15]
    assert len(book) > 500
    for paragraph in book:
        assert paragraph.section
        assert len(paragraph.text) >= paragraphs.SHORTEST
        assert not re.search(r"\n|\]\(|\*\*|`|\\(?!n)|\{\{|https?:", paragraph.text), paragraph.text
