"""Test everything, step by step, and say at the end what passed: what `make test` runs.

``python -m tools.checks`` runs every step, ``python -m tools.checks style tests`` those named.
A failed step doesn't stop the others, so that one run shows all there is to mend.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tools import book, colab

ROOT = Path(__file__).resolve().parent.parent
CORES = os.cpu_count() or 1
WORKERS = min(CORES, 4)
# Cells run in their order, and under the course's own stricter rules.
NBVAL = [
    "--nbval",
    "--nbval-cell-timeout=300",
    "-p",
    "tests.notebooks.strict",
    "-p",
    "no:randomly",
]


@dataclass
class Tally:
    """What pytest counted, over all its runs."""

    passed: int = 0
    failed: int = 0
    skips: list[str] = field(default_factory=list)

    def read(self, report: Path) -> None:
        """Add one JUnit report."""
        for case in ElementTree.parse(report).iter("testcase"):
            skipped = case.find("skipped")
            if skipped is not None:
                self.skips.append(f"{case.get('name')}: {skipped.get('message')}")
            elif case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
            else:
                self.passed += 1


def run(*arguments: str, **environment: str) -> bool:
    """Run a module of this environment from the project's root, and tell whether it passed."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL
    )
    return done.returncode == 0


def pytest(tally: Tally, *arguments: str, workers: int = WORKERS, **environment: str) -> bool:
    """Run pytest in parallel and count. A run that finds no test has failed."""
    # Two processes with two threads each on two cores wait for one another.
    environment = {"OMP_NUM_THREADS": str(max(1, CORES // workers)), **environment}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-q", f"--junitxml={report}"]
        if workers > 1:
            options += ["-n", str(workers), "--dist", "loadscope"]
        good = run("pytest", *options, *arguments, **environment)
        if report.is_file():
            tally.read(report)
    return good


def style(_: Tally) -> bool:
    """Lint, format and check types."""
    # A list, not a generator: each of the three has its say.
    return all([run("ruff", "check", "."), run("ruff", "format", "--check", "."), run("mypy")])


def drift(_: Tally) -> bool:
    """Compare every notebook with its manuscript: both say the same."""
    return run("tools.notebooks", "--check")


def tests(tally: Tally) -> bool:
    """Run the tests of the code, and every example in a docstring."""
    folders = ["tests", "course_lib", "tools"]
    # What nbgrader reads is no module: it runs inside nbgrader only. The rest has its own step.
    ignored = ["tests/site", "tests/colab/test_setup.py", "tools/nbgrader_config.py"]
    return pytest(tally, "--doctest-modules", *folders, *(f"--ignore={p}" for p in ignored))


def notebooks(tally: Tally) -> bool:
    """Run every notebook on a machine such as Colab: each cell gives the output that is stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine = str(folder / "machine")
        good = pytest(tally, "tests/colab/test_setup.py", workers=1, COURSE_MACHINE=machine)

        python = colab.make_machine(Path(machine))
        paths = colab.notebooks()
        needed = set[str]().union(*map(colab.needs, paths))
        wheels = colab.collect_wheels(folder / "wheels", needed)
        colab.install(python, wheels, colab.build_wheel(folder), *sorted(needed))
        environment = {
            "JUPYTER_PATH": str(colab.add_kernel(folder / "jupyter", python)),
            "COURSE_LIB_PROGRESS": "off",
            "TQDM_DISABLE": "1",  # its bars go to stderr, where warnings are sought
            "PIP_NO_INDEX": "1",  # there is nothing left to be installed
        }
        options = [
            *NBVAL,
            f"--nbval-kernel-name={colab.KERNEL}",
            "-c",
            str(ROOT / "pyproject.toml"),
        ]
        colab.lay_apart(folder / "notebooks", paths)
        alone = str(folder / "notebooks")
        return pytest(tally, *options, alone, workers=WORKERS, **environment) and good


def site(tally: Tally) -> bool:
    """Build the site without a warning, and try it in a browser."""
    if book.build() != 0:
        print("The site was not built, so it was not tested.")
        return False
    return pytest(tally, "tests/site", workers=1, COURSE_SITE=str(ROOT / book.SITE))


STEPS: dict[str, Callable[[Tally], bool]] = {
    "style": style,
    "drift": drift,
    "tests": tests,
    "notebooks": notebooks,
    "site": site,
}


def main() -> int:
    """Run the steps named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.checks", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="step", help=", ".join(STEPS))
    chosen = parser.parse_args().steps or list(STEPS)
    unknown = [name for name in chosen if name not in STEPS]
    if unknown:
        parser.error(f"no step is called {', '.join(unknown)}; there are {', '.join(STEPS)}")

    tally, results = Tally(), []
    for name in chosen:
        print(f"\n=== {name}: {STEPS[name].__doc__}", flush=True)
        start = time.monotonic()
        good = STEPS[name](tally)
        results.append((good, name, time.monotonic() - start))

    print()
    for good, name, seconds in results:
        print(f"{'✓' if good else '✗'} {name:10} {seconds:6.0f} s  {STEPS[name].__doc__}")
    for skip in tally.skips:
        print(f"skipped: {skip}")
    if tally.passed or tally.failed or tally.skips:
        print(f"{tally.passed} passed, {tally.failed} failed, {len(tally.skips)} skipped")
    return 0 if all(good for good, _, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
