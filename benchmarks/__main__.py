"""Run every benchmark of this folder, or those named: ``python -m benchmarks attention``.

Prints a table; ``--json PATH`` writes the numbers too. Nothing is asserted: a ratio of one machine
says little about another, and a busy one says little about itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path


def run(arguments: list[str] | None = None) -> None:
    """Run the benchmarks that the command line names."""
    here = Path(__file__).parent
    available = sorted(p.stem for p in here.glob("[a-z]*.py") if p.stem != "timing")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help=f"all where left out: {', '.join(available)}")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write seconds a call there")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(available)):
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(available)}")
    names = options.names or available
    results = {name: importlib.import_module(f"benchmarks.{name}").main() for name in names}
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run()
