"""Time rival functions fairly: in turns, so that a busy moment hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def compare(rivals: dict[str, Callable[[], object]], seconds: float = 2.0) -> dict[str, float]:
    """Return the median time of a call, in seconds, for each of the rivals.

    Parameters
    ----------
    rivals : dict of functions without arguments
        The first is what the others are compared with.
    seconds : float, default 2.0
        How long to go on, after one call of each to warm up.

    Returns
    -------
    dict of floats
    """
    for rival in rivals.values():
        rival()
    times: dict[str, list[float]] = {name: [] for name in rivals}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, rival in rivals.items():
            start = time.perf_counter()
            rival()
            times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def show(title: str, results: dict[str, float]) -> None:
    """Print times, and how many times that of the first each is."""
    first = next(iter(results.values()))
    print(f"\n{title}")
    for name, value in results.items():
        print(f"  {name:46} {1000 * value:9.3f} ms  {value / first:6.2f} ×")
