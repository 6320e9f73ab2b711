"""Derive and run the notebooks whose manuscript or code changed: what `make notebooks` runs.

``python -m tools.notebooks`` does it for all, ``python -m tools.notebooks 05`` for one chapter and
its exercises, ``python -m tools.notebooks exercises/05_scaled_dot_product_attention`` for one
manuscript. ``--check`` compares and runs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from tools import execute, paragraphs, stored
from tools.config import Address, read_address
from tools.drift import ADVICE, find_drift
from tools.manuscript import find_manuscripts
from tools.plan import Plan, finish, make_plan, with_outputs
from tools.problem import Problem
from tools.rules import FindPoints, points_of

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT = 300


@dataclass
class Outcome:
    """What happened to the notebooks of the manuscripts."""

    ran: list[Path] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def generate(
    root: Path,
    names: list[str] | None = None,
    *,
    force: bool = False,
    jobs: int = 2,
    time_limit: int = TIME_LIMIT,
    points: FindPoints | None = None,
) -> Outcome:
    """Bring the notebooks under `root` up to date with their manuscripts.

    Parameters
    ----------
    root : Path
        The project's folder.
    names : list of str, optional
        Only these manuscripts.
    force : bool, default False
        Run all of them anew, and overwrite what was edited by hand.
    jobs : int, default 2
        How many kernels run at a time.
    time_limit : int
        Seconds that a cell may take.
    points : callable, optional
        Looks up the points of an exercise, to compare with what its cell says.

    Returns
    -------
    Outcome
        A manuscript with a problem leaves its notebooks as they were, and stops no other.
    """
    address = read_address(root)
    paths = find_manuscripts(root, names)
    return asyncio.run(_generate(root, paths, address, force, jobs, time_limit, points))


async def _generate(
    root: Path,
    paths: list[Path],
    address: Address,
    force: bool,
    jobs: int,
    time_limit: int,
    points: FindPoints | None,
) -> Outcome:
    outcome = Outcome()
    kernels = asyncio.Semaphore(max(1, jobs))

    async def one(path: Path) -> None:
        try:
            plan = make_plan(root, path, address, points)
            old = {name: _overwritable(root, plan, name, force) for name in plan.notebooks}
            ready = {
                name: None if force else with_outputs(plan, name, old[name])
                for name in plan.notebooks
            }
            runs = [_run(root, plan, name) for name, notebook in ready.items() if notebook is None]
            # All of them end before the first problem is told: no kernel is left behind.
            results = await asyncio.gather(*runs, return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
                ready[result[0]] = result[1]
                outcome.ran.append(result[0])
            texts = {
                name: finish(plan, notebook)
                for name, notebook in ready.items()
                if notebook is not None
            }
            outcome.written += stored.write_together(root, texts)
        except Problem as problem:
            print(problem, file=sys.stderr, flush=True)
            outcome.problems.append(problem)

    async def _run(root: Path, plan: Plan, name: Path) -> tuple[Path, NotebookNode]:
        async with kernels:
            start = time.monotonic()
            notebook = copy.deepcopy(plan.notebooks[name])
            await execute.run(notebook, name, root, plan.where(name), time_limit)
            seconds = time.monotonic() - start
            print(f"{name.as_posix()} ran in {seconds:.1f} s", file=sys.stderr, flush=True)
            return name, notebook

    await asyncio.gather(*(one(path) for path in paths))
    return outcome


def _overwritable(root: Path, plan: Plan, name: Path, force: bool) -> NotebookNode | None:
    """Return the notebook on disk, unless it holds edits that would be lost."""
    if force:
        try:
            return stored.read_notebook(root, name)
        except Problem:
            return None
    old = stored.read_notebook(root, name)
    if old is None or not stored.is_edited(old):
        return old
    if stored.authored(old) == stored.authored(plan.notebooks[name]):
        return old  # the edits are in the manuscript by now
    if name.parent.name == "exercises":
        advice = (
            f"its source is {plan.manuscript.path.as_posix()}: edit that instead, "
            "or solutions/ and then make pull"
        )
    else:
        advice = "make pull brings the edits back into the manuscript"
    raise Problem(
        f"{name.as_posix()} was edited by hand and would be overwritten: {advice}. "
        "To give the edits up: --force"
    )


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these: a chapter or a path")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    parser.add_argument("--force", action="store_true", help="run all; overwrite edits by hand")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="kernels at a time (2)")
    parser.add_argument(
        "--time-limit", type=int, default=TIME_LIMIT, metavar="S", help="seconds a cell may take"
    )
    options = parser.parse_args(arguments)
    points = points_of(root)
    try:
        if options.check:
            found = paragraphs.find_drift(root) + find_drift(root, options.names, points)
            for line in found:
                print(line)
            if found:
                print(f"{len(found)} differences: {ADVICE}")
            else:
                print("Notebooks and manuscripts agree.")
            return 1 if found else 0
        if paragraphs.write(root):
            print(f"wrote {paragraphs.TARGET.as_posix()}")
        outcome = generate(
            root,
            options.names,
            force=options.force,
            jobs=options.jobs,
            time_limit=options.time_limit,
            points=points,
        )
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted: what was running has not been written.", file=sys.stderr)
        return 130
    for path in outcome.written:
        print(f"wrote {path.as_posix()}")
    if not outcome.written and not outcome.problems:
        print("All notebooks are up to date.")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
