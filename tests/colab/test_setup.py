"""The setup cell on a machine that has its own torch and numpy: what Colab is.

The wheel of `course_lib` stands in for the repository: the cell installs what
``COURSE_LIB_REQUIREMENT`` names. pip is told to look at no index, so that it can add nothing but
what the front matter asks for, which lies ready in a folder. The cells after it run in the step
`notebooks` of `tools.checks`, on the same machine.
"""

from __future__ import annotations

import email
import os
import re
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

from tools import colab

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = colab.notebooks()
IDS = [str(path.relative_to(ROOT)) for path in NOTEBOOKS]
# A notebook for every setup cell that there is: they differ in the packages they ask for.
SETUPS = {colab.setup_cell(path).source: path for path in reversed(NOTEBOOKS)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colab.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has only what Colab surely has."""
    given = os.environ.get("COURSE_MACHINE")
    interpreter = colab.make_machine(Path(given or tmp_path_factory.mktemp("machine")))
    assert not {"course-lib", "course_lib"} & set(colab.installed(interpreter))
    return interpreter


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages that some notebook asks for and what they bring."""
    asked = set[str]().union(*map(colab.needs, SETUPS.values()))
    return colab.collect_wheels(tmp_path_factory.mktemp("wheels"), asked)


@pytest.fixture
def kernel(
    python: Path, wheel: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Name the kernel of that environment, which what a test adds to it leaves again."""
    monkeypatch.setenv("JUPYTER_PATH", str(colab.add_kernel(tmp_path / "jupyter", python)))
    monkeypatch.setenv("COURSE_LIB_REQUIREMENT", str(wheel))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    for name in ("VIRTUAL_ENV", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    before = set(colab.installed(python))
    yield colab.KERNEL
    colab.uninstall(python, set(colab.installed(python)) - before)


def test_there_is_a_notebook_of_every_kind() -> None:
    assert {path.parent.name for path in NOTEBOOKS} == set(colab.FOLDERS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", SETUPS.values(), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_the_setup_cell_installs_the_library_and_what_is_asked_for_and_changes_nothing(
    path: Path, kernel: str, python: Path, tmp_path: Path
) -> None:
    before = colab.installed(python)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [
        colab.setup_cell(path),
        nbformat.v4.new_code_cell("import course_lib.grading"),
    ]
    # Raises at a cell that fails.
    NotebookClient(
        notebook, timeout=600, kernel_name=kernel, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert [cell.outputs for cell in notebook.cells] == [[], []], (
        "it prints nothing when all is well"
    )

    after = colab.installed(python)
    assert {after.pop("course_lib", None), after.pop("course-lib", None)} - {None}
    added = {canonicalize_name(name) for name in set(after) - set(before)}
    assert added <= colab.brought(colab.needs(path)), "it adds what the notebook doesn't ask for"
    changed = {name for name, version in before.items() if after.get(name) != version}
    assert not changed, "it changed what the machine had"


@pytest.mark.slow
def test_the_setup_cell_says_what_to_do_when_the_library_cannot_be_installed(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COURSE_LIB_REQUIREMENT", str(tmp_path / "nothing-here.whl"))
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    setup = colab.setup_cell(NOTEBOOKS[0])
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
