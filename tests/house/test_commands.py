"""The commands that a newcomer gives fail when they should, and say why."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.house.layout import ROOT
from tools import book, checks

needs_make = pytest.mark.skipif(
    shutil.which("make") is None or os.name == "nt", reason="make isn't installed here"
)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Makefile in a folder of its own, so that this environment stays as it is."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True)


def interpreter(folder: Path, script: str) -> str:
    """Write a program that passes for an interpreter of Python."""
    path = folder / "another-python"
    path.write_text("#!/bin/sh\n" + script.replace("PYTHON", sys.executable))
    path.chmod(0o755)
    return str(path)


@needs_make
def test_make_alone_lists_the_commands(tmp_path: Path) -> None:
    done = make(tmp_path)
    assert done.returncode == 0
    assert re.search(r"^  make book +\w", done.stdout, re.MULTILINE)
    assert re.search(r"^  make test +\w", done.stdout, re.MULTILINE)


@needs_make
def test_an_old_python_is_told_apart_before_anything_is_installed(tmp_path: Path) -> None:
    old = interpreter(
        tmp_path,
        """exec PYTHON -c 'import sys; sys.version_info = (3, 9, 1); exec(sys.argv[1])' "$2" """,
    )
    done = make(tmp_path, "book", f"PYTHON={old}")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert "is 3.9" in done.stderr
    assert not (tmp_path / ".venv").exists()


@needs_make
def test_a_python_that_makes_no_environments_is_told_with_what_to_install(tmp_path: Path) -> None:
    bare = interpreter(
        tmp_path,
        """case "$*" in *venv*) mkdir -p .venv/bin; exit 1;; esac; exec PYTHON "$@" """,
    )
    done = make(tmp_path, "test", f"PYTHON={bare}")
    assert done.returncode != 0
    assert "python3-venv" in done.stdout
    # Half an environment would pass for a whole one the next time.
    assert not (tmp_path / ".venv").exists()


def tiny_book(folder: Path, text: str) -> Path:
    (folder / "_config.yml").write_text("title: Tiny\nonly_build_toc_files: true\n")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: intro\n")
    (folder / "intro.md").write_text(text)
    return folder


def test_a_book_with_a_warning_is_not_built_and_not_the_second_time_either(tmp_path: Path) -> None:
    root = tiny_book(tmp_path, "# Tiny\n\n[A page](nowhere.md) that isn't there.\n")
    assert book.build(root) != 0
    # An incremental build would have forgotten the warning.
    assert book.build(root) != 0


def test_a_book_without_a_warning_is_built(tmp_path: Path) -> None:
    root = tiny_book(tmp_path, "# Tiny\n\nA page.\n")
    assert book.build(root) == 0
    assert (root / book.SITE / "index.html").is_file()


def cell(source: str, *outputs: dict, tags: tuple[str, ...] = (), count: int | None = 1) -> dict:
    return new_code_cell(
        source, outputs=list(outputs), execution_count=count, metadata={"tags": list(tags)}
    )


def printed(text: str, name: str = "stdout") -> dict:
    return new_output("stream", name=name, text=text)


IGNORED = ("nbval-ignore-output",)
CELLS = {
    "gives_what_is_stored": (cell("print(1)", printed("1\n")), True),
    "gives_something_else": (cell("print(2)", printed("1\n")), False),
    "may_differ_by_its_tag": (cell("print(2)", printed("1\n"), tags=IGNORED), True),
    "was_never_run": (cell("print(1)", count=None), False),
    "gives_more_than_is_stored": (cell("print(1)"), False),
    "warns": (cell("import warnings; warnings.warn('hm')"), False),
    "warns_under_a_tag": (cell("import warnings; warnings.warn('hm')", tags=IGNORED), False),
    "warns_as_stored": (
        cell("import sys; print('hm', file=sys.stderr)", printed("hm\n", "stderr")),
        False,
    ),
    "raises": (cell("1 / 0"), False),
}  # fmt: skip


@pytest.mark.slow
def test_a_notebook_that_gives_other_outputs_than_stored_or_any_noise_fails(tmp_path: Path) -> None:
    for name, (content, _) in CELLS.items():
        nbformat.write(new_notebook(cells=[content]), tmp_path / f"{name}.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-rA", "-p",
         "no:cacheprovider", *checks.NBVAL, "--nbval-current-env", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )  # fmt: skip
    outcomes = dict(
        reversed(pair)
        for pair in re.findall(r"^(PASSED|FAILED) \S*?(\w+)\.ipynb::", done.stdout, re.MULTILINE)
    )
    assert outcomes == {
        name: "PASSED" if passes else "FAILED" for name, (_, passes) in CELLS.items()
    }


def test_a_report_of_pytest_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase name="a"/><testcase name="b"><failure/></testcase>
        <testcase name="c"><error/></testcase>
        <testcase name="d"><skipped message="no such machine"/></testcase>
        </testsuite></testsuites>"""
    )
    tally = checks.Tally()
    tally.read(report)
    assert (tally.passed, tally.failed, tally.skips) == (1, 2, ["d: no such machine"])


def test_a_failed_step_fails_the_whole_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def step(name: str, good: bool) -> object:
        def run(_: checks.Tally) -> bool:
            """Do as told."""
            ran.append(name)
            return good

        return run

    steps = {"one": step("one", False), "two": step("two", True)}
    monkeypatch.setattr(checks, "STEPS", steps)
    monkeypatch.setattr(sys, "argv", ["checks"])
    assert checks.main() == 1
    assert ran == ["one", "two"]
    assert "✗ one" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["checks", "two"])
    assert checks.main() == 0
    monkeypatch.setattr(sys, "argv", ["checks", "three"])
    with pytest.raises(SystemExit):
        checks.main()
