"""What the tests of the house share: where things are, and what the repository tracks."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("chapters", "solutions", "exercises")
NOTEBOOKS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.ipynb"))]
MODULES = sorted((ROOT / "course_lib").rglob("*.py"))


def relative(path: Path) -> str:
    """Return a path as the repository names it."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """Return the dotted name under which a file of the project is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tracked() -> list[Path]:
    """Return the files that git tracks and that are there."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
