"""The tree as README draws it: names, pins, addresses, and nothing of one machine."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest
import tomllib
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.house.layout import ROOT, relative, tracked
from tools.config import read_address

NAME = re.compile(r"\d{2}_[a-z0-9]+(_[a-z0-9]+)*")

# Written so that they don't match themselves.
HOSTS = {
    "a Python index": r"\bpypi\.(?:org|python)|pythonhosted\.|download\.pytorch\.",
    "npm's registry": r"registry\.npm|\bnpmjs\.(?:org|com)|registry\.yarn",
    "Debian's archive": r"\b(?:deb|security|ftp)\.debian\.|archive\.ubuntu\.",
    "another registry": r"static\.crates\.|proxy\.golang\.|repo1?\.maven\.|conda\.anaconda\.",
}
PATHS = {
    "a path of one machine": r"(?<![\w.$}/-])/(?:work|root|opt|home|tmp|Users|mnt|srv)/[\w.]",
    "a drive of one machine": r"\b[A-Z]:\\\\?(?:Users|Windows|Program)",
}


def lines_of(path: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a text file, without what is encoded."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []
    return [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if not ('"image/' in line or (len(line) > 2000 and " " not in line.strip()))
    ]


def test_no_tracked_file_names_a_registry_or_a_path_of_this_machine() -> None:
    found = [
        f"{relative(path)}:{number} names {what}: {line.strip()[:120]}"
        for path in tracked()
        for number, line in lines_of(path)
        for what, pattern in (HOSTS | PATHS).items()
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


def test_the_patterns_find_what_they_are_for() -> None:
    # Put together from parts, or this file would be found out itself.
    for parts in (("py", "pi.org"), ("registry.n", "pmjs.org"), ("deb", ".debian.org")):
        assert any(re.search(pattern, "".join(parts)) for pattern in HOSTS.values())
    for parts in (("/wo", "rk/main"), ("'/ro", "ot/.cache'"), ("C:\\", "Users\\me")):
        assert any(re.search(pattern, "".join(parts)) for pattern in PATHS.values())
    assert not any(re.search(pattern, "{{root}}/work/x") for pattern in PATHS.values())


def requirements() -> dict[str, Requirement]:
    """Return what requirements.txt asks for, by canonical name."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    stated = [line.split("#")[0].strip() for line in text.splitlines()]
    parsed = [Requirement(line) for line in stated if line]
    names = [canonicalize_name(r.name) for r in parsed]
    assert len(set(names)) == len(names), "a package is pinned twice"
    return dict(zip(names, parsed, strict=True))


def test_requirements_pin_everything_exactly() -> None:
    for requirement in requirements().values():
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", str(requirement)
        assert "*" not in specifier.version, str(requirement)
    assert str(requirements()["jupyter-book"].specifier) == "==1.0.4.post1"
    assert str(requirements()["torch"].specifier) == "==2.13.0"


def test_the_environment_is_the_one_that_is_pinned() -> None:
    wrong = []
    for name, requirement in requirements().items():
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "nothing"
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement} is pinned, {version} is installed")
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need a few packages more")
def test_what_the_pinned_packages_bring_along_is_pinned_too() -> None:
    pins = requirements()
    missing = set()
    for name in pins:
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for text in needed:
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            other = canonicalize_name(requirement.name)
            # A CUDA build of torch brings packages of its own, of the versions that it pins.
            if other not in pins and not (name == "torch" and other != "setuptools"):
                missing.add(f"{requirement.name} (for {name})")
    assert not missing, ", ".join(sorted(missing))


def test_every_pin_admits_the_first_python_that_the_book_promises() -> None:
    refused = []
    for name in requirements():
        try:
            wanted = importlib.metadata.metadata(name)["Requires-Python"] or ""
        except importlib.metadata.PackageNotFoundError:
            continue
        if not SpecifierSet(wanted).contains("3.11.0"):
            refused.append(f"{name} needs Python {wanted}")
    assert not refused


def test_the_library_asks_for_lower_bounds_only() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    stated = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        stated += extra
    for text in stated:
        operators = {specifier.operator for specifier in Requirement(text).specifier}
        assert operators == {">="}, text
    assert project["requires-python"] == ">=3.10"


def test_the_address_is_the_placeholder_or_an_owner_and_a_name() -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    url = config["repository"]["url"]
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)", url)
    assert match, f"{url} is no address of a repository"
    assert not url.endswith(".git")
    assert config["repository"]["branch"]
    if read_address(ROOT).is_placeholder:
        print("The address is still the placeholder: make address REPO=owner/name sets it.")
    else:
        assert "OWNER" not in url
        assert "REPOSITORY" not in url


def test_the_address_stands_in_one_place_only() -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    address = config["repository"]["url"].removeprefix("https://github.com/")
    # Written by `make address`, or speaking about the placeholder itself.
    derived = ("chapters/", "solutions/", "exercises/")
    spoken = {"_config.yml", "README.md", "CONTRIBUTING.md", "CITATION.cff", "pages/instructors.md"}
    found = [
        relative(path)
        for path in tracked()
        if not relative(path).startswith((*derived, "tests/", "tools/"))
        and relative(path) not in spoken
        and any(address in line for _, line in lines_of(path))
    ]
    assert found == []


def names_in(folder: str, suffix: str) -> set[str]:
    return {path.name.removesuffix(suffix) for path in (ROOT / folder).glob(f"*{suffix}")}


def test_a_chapter_has_the_same_name_everywhere() -> None:
    chapters = names_in("manuscript/chapters", ".md")
    exercises = names_in("manuscript/exercises", ".md")
    assert chapters
    assert all(NAME.fullmatch(name) for name in chapters)
    assert exercises <= chapters
    assert names_in("chapters", ".ipynb") == chapters
    assert names_in("solutions", ".ipynb") == exercises
    assert names_in("exercises", ".ipynb") == exercises
    modules = names_in("course_lib/grading/exercises", ".py")
    graded = {name.removeprefix("ch") for name in modules if re.match(r"ch\d\d_", name)}
    assert graded == exercises


def toc_files(node: object) -> list[str]:
    """Return every page that the table of contents lists, in its order."""
    if isinstance(node, dict):
        return [v for k, v in node.items() if k in ("root", "file")] + [
            name for value in node.values() for name in toc_files(value)
        ]
    if isinstance(node, list):
        return [name for item in node for name in toc_files(item)]
    return []


def test_the_table_of_contents_lists_every_chapter_and_exercise_in_order() -> None:
    listed = toc_files(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    assert len(set(listed)) == len(listed)
    for folder in ("chapters", "exercises"):
        wanted = sorted(f"{folder}/{name}" for name in names_in(folder, ".ipynb"))
        assert [name for name in listed if name.startswith(f"{folder}/")] == wanted
    for name in listed:
        assert any((ROOT / f"{name}{end}").is_file() for end in (".md", ".ipynb")), name
    pages = {f"pages/{name}" for name in names_in("pages", ".md")}
    assert pages <= set(listed), "a page is in no table of contents"


@pytest.mark.parametrize("name", ["LICENSE", "CITATION.cff", "CONTRIBUTING.md"])
def test_a_file_that_every_project_has_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "pages/instructors.md"])
def test_a_command_or_a_file_that_the_prose_names_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    commands = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(re.findall(r"`[^`]+`", text))))
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        commands |= set(re.findall(r"^\s*make ([a-z]+)\b", block, re.MULTILINE))
    assert commands <= make_targets(), f"no such target: {commands - make_targets()}"
    modules = set(re.findall(r"python -m (tools(?:\.\w+)?)", text))
    for module in modules:
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{target} is not there"


def test_help_lists_every_target_and_every_target_is_phony() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    described = set(re.findall(r"^([a-z]+):.*## ", text, re.MULTILINE))
    assert make_targets() == set(phony.split()) == described


def test_the_workflows_use_the_makefile_and_pinned_actions_and_run_weekly() -> None:
    workflows = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
    }
    assert set(workflows) == {"test", "publish"}
    steps = [
        step
        for flow in workflows.values()
        for job in flow["jobs"].values()
        for step in job["steps"]
    ]
    commands = {step["run"].strip() for step in steps if "run" in step}
    assert commands == {"make test", "make book"}
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
    # YAML reads the key `on` as true.
    when = workflows["test"][True]
    assert {"push", "pull_request", "schedule"} <= set(when)
    assert re.fullmatch(r"\d+ \d+ \* \* \d", when["schedule"][0]["cron"])
