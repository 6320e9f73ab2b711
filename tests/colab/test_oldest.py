"""`course_lib` at the lower bounds that it promises: Python 3.10, numpy 1.24, and no torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What a student without torch does: import every module that needs none, and have right answers
# judged. Run by the old interpreter, so it is plain text here.
PROGRAM = """
import importlib, pkgutil, sys
import numpy
assert sys.version_info[:2] == (3, 10), sys.version
assert numpy.__version__.startswith("1.24."), numpy.__version__
import course_lib
torch = tuple(f"course_lib.{name}" for name in ("blocks", "models", "training", "decoding"))
names = [m.name for m in pkgutil.walk_packages(course_lib.__path__, "course_lib.")
         if not m.name.startswith(torch)]
for name in names:
    importlib.import_module(name)
assert "torch" not in sys.modules

from course_lib.grading import check
from course_lib.grading.registry import find
(right, *_) = [a.right for a in find("05.softmax").alternatives if a.name == "loops"]
report = check("05.softmax", right)
assert report.points == report.max_points, str(report)
def careless(x, axis=-1):
    exps = numpy.exp(x)
    return exps / exps.sum(axis=axis, keepdims=True)

report = check("05.softmax", careless)
assert 0 < report.points < report.max_points, str(report)
print(len(names), "modules")
"""


def find_python() -> Path | None:
    """Return an interpreter of Python 3.10 that runs, if there is one."""
    candidates = [Path(found)] if (found := shutil.which("python3.10")) else []
    candidates += sorted(Path.home().glob(".pyenv/versions/3.10*/bin/python3.10"))
    for candidate in candidates:
        done = subprocess.run([str(candidate), "-c", "import ensurepip, venv"], capture_output=True)
        if done.returncode == 0:
            return candidate
    return None


@pytest.mark.slow
def test_the_numpy_half_works_on_the_oldest_python_and_numpy_without_torch(tmp_path: Path) -> None:
    old = find_python()
    if old is None:
        pytest.skip("no Python 3.10 on this machine: the oldest Python promised is untested here")
    bounds = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lowest = dict(re.findall(r'"(numpy|matplotlib)>=([\d.]+)"', bounds))
    home = tmp_path / "old"
    subprocess.run([str(old), "-m", "venv", str(home)], check=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    packages = [f"{name}=={version}.*" for name, version in sorted(lowest.items())]
    assert packages == ["matplotlib==3.6.*", "numpy==1.24.*"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COURSE_LIB_PROGRESS": "off"}
    for command in (
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, "regex"],
        ["-W", "error::SyntaxWarning", "-c", PROGRAM],
    ):
        done = subprocess.run(
            [str(python), *command], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"\d+ modules", done.stdout)
