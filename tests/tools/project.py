"""A small course to try the authoring commands on: a library, a chapter, an exercise."""

# ruff: noqa: E501  # lines of a manuscript are as long as authors write them

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG = """\
# Kept as it is.
title: Small

repository:
  url: https://github.com/OWNER/REPOSITORY  # set by make address
  path_to_book: ""
  branch: main

html: {}
"""

HEAD = """\
---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""

LIBRARY = '''\
"""Doubles."""

from __future__ import annotations

# The factor,
# as everybody knows.
FACTOR = 2


def double(x: int) -> int:
    """Double a number.

    Examples
    --------
    >>> double(2)
    4
    """
    return FACTOR * x


class Doubler:
    """Doubles on demand.

    At length.
    """

    def __call__(self, x: int) -> int:
        """Double it.

        For it is that.
        """
        return double(x)


def quadruple(x: int, double_first: bool = True) -> int:
    """Double twice."""
    é = "é"; return double(double(x)) if é else double.__call__(x)  # double
'''

CHAPTER = (
    HEAD
    + """
# Doubling

How much is twice? The code is at {{repository}}, and [here]({{colab:exercises/05_doubling}}) it runs.

```{code-cell} ipython3
import math

from course_lib import picture
```

```{code-cell}
tiny:FACTOR, double as twice
```

## In use

```{code-cell} ipython3
print("once\\n", end="")
print(twice(math.floor(2.5)))
```

Text.

+++

More text.

```{code-cell} ipython3
:tags: [hide-input]

picture.Picture()
```

```{code-cell} ipython3
:tags: [raises-exception]

twice(None) + 1 / 0
```
"""
)

EXERCISE = (
    HEAD
    + """
# Exercises: doubling

Write it.

```{code-cell} ipython3
---
nbgrader: {grade: false, grade_id: double, locked: false, schema_version: 3, solution: true, task: false}
---
def double(x):
    \"\"\"Double a number.\"\"\"
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
```

```{code-cell} ipython3
---
nbgrader: {grade: true, grade_id: check_double, locked: true, points: 3, schema_version: 3, solution: false, task: false}
---
from course_lib.grading import check

check("05.double")
```
"""
)

PICTURE = '''\
"""A picture that says what it shows."""

import base64

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Picture:
    """One pixel."""

    alt = "A plot of one\\npixel, at 1."

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/png": PIXEL, "text/plain": self.alt}
'''

GRADING = """\
from course_lib.grading import registry
from course_lib.tiny import double


def check(name):
    print("checked", name)
"""

CHAPTER_PATH = Path("manuscript/chapters/05_doubling.md")
EXERCISE_PATH = Path("manuscript/exercises/05_doubling.md")
NOTEBOOK = Path("chapters/05_doubling.ipynb")
SOLUTIONS = Path("solutions/05_doubling.ipynb")
EXERCISES = Path("exercises/05_doubling.ipynb")


def write(root: Path, path: str | Path, text: str) -> None:
    """Write one file of a project."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def make_project(root: Path) -> Path:
    """Write the sources of the small course."""
    write(root, "_config.yml", CONFIG)
    write(root, CHAPTER_PATH, CHAPTER)
    write(root, EXERCISE_PATH, EXERCISE)
    write(root, "course_lib/__init__.py", "")
    write(root, "course_lib/tiny.py", LIBRARY)
    write(root, "course_lib/picture.py", PICTURE)
    write(root, "course_lib/unused.py", "")
    write(root, "course_lib/grading/__init__.py", GRADING)
    write(root, "course_lib/grading/registry.py", "")
    write(root, "course_lib/grading/exercises/__init__.py", "")
    write(root, "course_lib/grading/exercises/ch05_doubling.py", "EXERCISES = []\n")
    write(root, "course_lib/grading/exercises/ch06_else.py", "EXERCISES = []\n")
    return root


def replace(root: Path, path: str | Path, old: str, new: str) -> None:
    """Edit a file; what is replaced must be there, once."""
    text = (root / path).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path}"
    write(root, path, text.replace(old, new))


def load(root: Path, path: str | Path) -> dict[str, Any]:
    """Read a notebook as plain data."""
    return json.loads((root / path).read_text(encoding="utf-8"))


def store(root: Path, path: str | Path, notebook: dict[str, Any]) -> None:
    """Write a notebook back as Jupyter does."""
    write(root, path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def source(cell: dict[str, Any]) -> str:
    """Return a cell's source as one string."""
    return "".join(cell["source"])


def edit(root: Path, path: str | Path, old: str, new: str) -> None:
    """Replace text in the one cell of a notebook that has it."""
    notebook = load(root, path)
    (cell,) = [cell for cell in notebook["cells"] if old in source(cell)]
    cell["source"] = source(cell).replace(old, new).splitlines(keepends=True)
    store(root, path, notebook)


def snapshot(root: Path) -> dict[str, bytes]:
    """Return every file under a project, so that two moments can be compared."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
