"""A small course, written anew for each test; run once for those that need its outputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tools.project import make_project
from tools.notebooks import generate


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The sources of a small course, nothing generated."""
    return make_project(tmp_path / "course")


@pytest.fixture(scope="session")
def _generated_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("generated") / "course")
    outcome = generate(root)
    assert not outcome.problems, outcome.problems
    return root


@pytest.fixture
def generated(_generated_once: Path, tmp_path: Path) -> Path:
    """The small course with its notebooks, run."""
    root = tmp_path / "course"
    shutil.copytree(_generated_once, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root
