"""Run every benchmark of this folder, or those named: ``python -m benchmarks attention``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

available = sorted(p.stem for p in Path(__file__).parent.glob("[a-z]*.py") if p.stem != "timing")
chosen = sys.argv[1:] or available
if unknown := sorted(set(chosen) - set(available)):
    sys.exit(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(available)}")
for name in chosen:
    importlib.import_module(f"benchmarks.{name}").main()
