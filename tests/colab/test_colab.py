"""A notebook alone, on a machine that has its own torch and numpy: what Colab is.

The wheel of `course_lib` stands in for the repository: the setup cell installs what
``COURSE_LIB_REQUIREMENT`` names. pip is told to look at no index, so that it can add nothing but
what the front matter asks for, which lies ready in a folder.
"""

from __future__ import annotations

import email
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [
    path
    for folder in ("chapters", "solutions", "exercises")
    for path in sorted((ROOT / folder).glob("*.ipynb"))
]
IDS = [str(path.relative_to(ROOT)) for path in NOTEBOOKS]
LIST_INSTALLED = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


def run(*command: str | Path, **environment: str) -> str:
    """Run a program apart from this environment, and return what it prints."""
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        env={**kept, **environment},
        cwd=Path(command[0]).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that the checkout stays as it is."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(
        ROOT / "course_lib", copy / "course_lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy, copy)
    (built,) = copy.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has only what Colab surely has."""
    home = tmp_path_factory.mktemp("machine")
    run(sys.executable, "-m", "venv", home)
    interpreter = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    # The versions are ours, so that the stored outputs hold; constraints add nothing by themselves.
    pip = [interpreter, "-m", "pip", "--disable-pip-version-check"]
    packages = ["ipykernel", "torch", "numpy", "matplotlib", "tqdm"]
    run(*pip, "install", "--quiet", "--constraint", ROOT / "requirements.txt", *packages)
    assert "course-lib" not in installed(interpreter)
    assert "course_lib" not in installed(interpreter)
    return interpreter


def needs(path: Path) -> set[str]:
    """Return the packages that a notebook's setup cell installs besides the library."""
    cells = nbformat.read(path, as_version=4).cells
    records = [cell.metadata.get("course", {}) for cell in cells]
    (setup,) = [record for record in records if record.get("injected") == "setup"]
    return set(setup.get("needs", {}).values())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages that some notebook asks for and what they bring, in the versions of ours."""
    folder = tmp_path_factory.mktemp("wheels")
    asked = sorted(set[str]().union(*map(needs, NOTEBOOKS)))
    if asked:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        run(*pip, "--constraint", ROOT / "requirements.txt", "--wheel-dir", folder, *asked)
    return folder


def brought(names: set[str]) -> set[str]:
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
    return json.loads(run(interpreter, "-c", LIST_INSTALLED))


@pytest.fixture(scope="module")
def bare(python: Path) -> set[str]:
    """The names of what that environment held at first."""
    return set(installed(python))


@pytest.fixture
def kernel(
    python: Path,
    bare: set[str],
    wheel: Path,
    wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Name the kernel of that environment, which `course_lib` has left again."""
    added = sorted(set(installed(python)) - bare)
    if added:
        run(python, "-m", "pip", "--quiet", "uninstall", "--yes", *added)
    spec = tmp_path / "jupyter" / "kernels" / "elsewhere"
    spec.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "elsewhere", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("COURSE_LIB_REQUIREMENT", str(wheel))
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")
    monkeypatch.setenv("TQDM_DISABLE", "1")  # its bars go to stderr, where warnings are sought
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    for name in ("VIRTUAL_ENV", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    yield "elsewhere"


def test_there_is_a_notebook_of_every_kind() -> None:
    assert {path.parent.name for path in NOTEBOOKS} == {"chapters", "solutions", "exercises"}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_a_notebook_alone_runs_where_only_what_colab_surely_has_is(
    path: Path, kernel: str, python: Path, tmp_path: Path
) -> None:
    before = installed(python)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(path, alone)
    notebook = nbformat.read(alone / path.name, as_version=4)

    # Raises at the first cell that fails, unless the cell's tags announce it.
    NotebookClient(
        notebook, timeout=600, kernel_name=kernel, resources={"metadata": {"path": str(alone)}}
    ).execute()

    after = installed(python)
    assert {after.pop("course_lib", None), after.pop("course-lib", None)} - {None}
    added = {canonicalize_name(name) for name in set(after) - set(before)}
    assert added <= brought(needs(path)), "the setup cell adds what the notebook doesn't ask for"
    changed = {name for name, version in before.items() if after.get(name) != version}
    assert not changed, "the setup cell changed what the machine had"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[0].outputs == [], "the setup cell prints nothing when all is well"
    noise = [
        out.text
        for cell in code
        for out in cell.outputs
        if out.output_type == "stream" and out.name == "stderr"
    ]
    assert noise == []


@pytest.mark.slow
def test_the_setup_cell_says_what_to_do_when_the_library_cannot_be_installed(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_LIB_REQUIREMENT", str(tmp_path / "nothing-here.whl"))
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
    notebook.cells = [setup]
    elsewhere = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(
        notebook, timeout=120, kernel_name=kernel, allow_errors=True, resources=elsewhere
    ).execute()
    errors = [out for out in setup.outputs if out.output_type == "error"]
    assert errors, "the notebook must not go on without the library"
    shown = " ".join(str(out.get("evalue", "")) + str(out.get("text", "")) for out in setup.outputs)
    assert "pip could not install" in shown
    assert "nothing-here.whl" in shown


def test_the_wheel_is_content_with_an_older_torch_and_numpy_and_caps_neither(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
        files = archive.namelist()
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    for requirement in requirements:
        operators = {spec.operator for spec in requirement.specifier}
        assert operators <= {">="}, f"{requirement} has more than a lower bound"
    bounds = {r.name: r.specifier for r in requirements}
    assert bounds["numpy"].contains("1.26.4")
    assert bounds["torch"].contains("2.2.0")
    assert all("extra" in str(r.marker) for r in requirements if r.name == "torch")
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(">=3.10")
    # Everything of the package is in it, the empty file that says it is typed included.
    source = ROOT / "course_lib"
    wanted = {str(p.relative_to(ROOT)) for p in source.rglob("*.py")} | {"course_lib/py.typed"}
    assert wanted <= set(files)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_every_colab_link_leads_to_a_notebook_of_this_repository(path: Path) -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    repository = config["repository"]["url"].rstrip("/").removesuffix(".git")
    owner_and_name = "/".join(repository.split("/")[-2:])
    branch = config["repository"]["branch"]
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"colab\.research\.google\.com/github/([^)\s\"'\\>]+)", text)
    assert links, "a notebook has a link that opens it in Colab"
    targets = []
    for link in links:
        prefix = f"{owner_and_name}/blob/{branch}/"
        assert link.startswith(prefix), f"{link} does not lead to {repository} at {branch}"
        targets.append(link.removeprefix(prefix))
    for target in targets:
        assert (ROOT / target).is_file(), f"{target} is not in the repository"
    if path.parent.name != "solutions":
        assert str(path.relative_to(ROOT).as_posix()) in targets
