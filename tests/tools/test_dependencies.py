from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.project import replace, write
from tools.dependencies import closure, fingerprint


def names(root: Path, *sources: str) -> set[str]:
    return {path.as_posix() for path in closure(root, sources, "05_doubling")}


@pytest.mark.parametrize(
    "source",
    [
        "import course_lib.tiny",
        "import course_lib.tiny as t",
        "from course_lib import tiny",
        "from course_lib.tiny import double",
        "def f():\n    from course_lib.tiny import double",
        "%matplotlib inline\nfrom course_lib.tiny import double",
    ],
)
def test_an_import_is_seen_however_it_is_written(project: Path, source: str) -> None:
    assert names(project, source) == {"course_lib/__init__.py", "course_lib/tiny.py"}


def test_imports_of_imports_count_relative_ones_too(project: Path) -> None:
    write(project, "course_lib/deep/__init__.py", "from . import one\n")
    write(project, "course_lib/deep/one.py", "from .two import x\nfrom ..tiny import double\n")
    write(project, "course_lib/deep/two.py", "x = 1\n")
    write(project, "course_lib/deep/three.py", "x = 1\n")
    assert names(project, "import course_lib.deep") == {
        "course_lib/__init__.py",
        "course_lib/deep/__init__.py",
        "course_lib/deep/one.py",
        "course_lib/deep/two.py",
        "course_lib/tiny.py",
    }


def test_the_grader_brings_the_exercises_of_its_own_chapter_and_of_no_other(project: Path) -> None:
    found = names(project, "from course_lib.grading import check")
    assert "course_lib/grading/exercises/ch05_doubling.py" in found
    assert "course_lib/grading/registry.py" in found
    assert "course_lib/tiny.py" in found
    assert "course_lib/grading/exercises/ch06_else.py" not in found


def test_other_packages_and_broken_cells_bring_nothing(project: Path) -> None:
    assert names(project, "import numpy, json", "def (", "from . import x") == set()


def test_comments_and_docstrings_do_not_change_what_a_module_does(project: Path) -> None:
    files = [Path("course_lib/tiny.py")]
    before = fingerprint(project, files)
    replace(project, files[0], "as everybody knows", "as few know")
    replace(project, files[0], '"""Double a number.', '"""Twice a number.')
    replace(project, files[0], "# double", "# twice")
    assert fingerprint(project, files) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2", "FACTOR = 3"),
        ('é = "é"', 'é = "è"'),
        ("return FACTOR * x", "x += 0\n    return FACTOR * x"),
    ],
)
def test_code_and_texts_that_code_uses_do(project: Path, old: str, new: str) -> None:
    files = [Path("course_lib/tiny.py")]
    before = fingerprint(project, files)
    replace(project, files[0], old, new)
    assert fingerprint(project, files) != before
