"""A machine such as Colab: it has torch and numpy of its own, and of the course a wheel alone.

The notebooks are tested there (`python -m tools.checks notebooks`): each lies by itself, and gets
nothing from the checkout or from its environment.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("chapters", "solutions", "exercises")
KERNEL = "elsewhere"
# What Colab surely has. The versions are ours, so that the stored outputs hold.
# Without ipywidgets the bars of tqdm, which transformers imports, warn in every notebook.
PACKAGES = ("ipykernel", "ipywidgets", "torch", "numpy", "matplotlib", "tqdm")
_PIP = ("-m", "pip", "--disable-pip-version-check")
_LIST = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


def notebooks(root: Path = ROOT) -> list[Path]:
    """Return every notebook of the course."""
    return [path for folder in FOLDERS for path in sorted((root / folder).glob("*.ipynb"))]


def run(*command: str | Path, **environment: str) -> str:
    """Run a program apart from this environment, and return what it prints.

    Raises
    ------
    RuntimeError
        If it fails, with all that it printed.
    """
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        env={**kept, **environment},
        cwd=Path(command[0]).parent,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """Build the wheel of `course_lib` from a copy, so that the checkout stays as it is."""
    copy = folder / "source"
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(
        ROOT / "course_lib", copy / "course_lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy, copy)
    (built,) = copy.glob("*.whl")
    return built


def make_machine(folder: Path) -> Path:
    """Return the interpreter of an environment in `folder` with `PACKAGES`; made where missing."""
    interpreter = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not interpreter.exists():
        run(sys.executable, "-m", "venv", folder)
        # Constraints add nothing by themselves.
        constraint = ["--constraint", str(ROOT / "requirements.txt")]
        run(interpreter, *_PIP, "install", "--quiet", *constraint, *PACKAGES)
    return interpreter


def setup_cell(path: Path) -> nbformat.NotebookNode:
    """Return the cell of a notebook that installs what it needs."""
    cells = nbformat.read(path, as_version=4).cells
    (setup,) = [c for c in cells if c.metadata.get("course", {}).get("injected") == "setup"]
    return setup


def needs(path: Path) -> set[str]:
    """Return the packages that a notebook's setup cell installs besides the library."""
    return set(setup_cell(path).metadata.course.get("needs", {}).values())


def collect_wheels(folder: Path, names: Iterable[str]) -> Path:
    """Put packages and what they bring into `folder`, in the versions of this environment."""
    folder.mkdir(parents=True, exist_ok=True)
    if asked := sorted(names):
        constraint = str(ROOT / "requirements.txt")
        options = ["--quiet", "--constraint", constraint, "--wheel-dir", str(folder)]
        run(sys.executable, *_PIP, "wheel", *options, *asked)
    return folder


def brought(names: Iterable[str]) -> set[str]:
    """Return packages and all that they require, as they are installed here."""
    found: set[str] = set()
    waiting = {canonicalize_name(name) for name in names}
    while waiting:
        name = waiting.pop()
        found.add(name)
        required = [Requirement(text) for text in importlib.metadata.requires(name) or []]
        plain = [r for r in required if r.marker is None or r.marker.evaluate({"extra": ""})]
        waiting |= {canonicalize_name(r.name) for r in plain} - found
    return found


def installed(interpreter: Path) -> dict[str, str]:
    """Return every distribution that an environment holds, with its version."""
    return json.loads(run(interpreter, "-c", _LIST))


def install(interpreter: Path, wheels: Path, *names: str | Path) -> None:
    """Install what lies in `wheels`, and nothing from anywhere else."""
    sources = ["--no-index", "--find-links", str(wheels)]
    run(interpreter, *_PIP, "install", "--quiet", *sources, *names)


def uninstall(interpreter: Path, names: Iterable[str]) -> None:
    """Take packages away again."""
    if asked := sorted(names):
        run(interpreter, *_PIP, "uninstall", "--quiet", "--yes", *asked)


def add_kernel(folder: Path, interpreter: Path) -> Path:
    """Register the interpreter as the kernel `KERNEL`; return what JUPYTER_PATH must name."""
    spec = folder / "kernels" / KERNEL
    spec.mkdir(parents=True)
    command = [str(interpreter), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": KERNEL, "language": "python"}),
        encoding="utf-8",
    )
    return folder


def lay_apart(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Copy each notebook into a folder of its own, named after where it comes from."""
    copies = []
    for path in paths:
        alone = folder / path.parent.name / path.stem
        alone.mkdir(parents=True)
        copies.append(Path(shutil.copy(path, alone)))
    return copies
