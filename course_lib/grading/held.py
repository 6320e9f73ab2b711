"""Tells how much memory a call holds at once beside its arguments.

numpy reports what its arrays take to ``tracemalloc``. PyTorch doesn't: where tensors are handed
over, what its operations return is watched instead. Neither sees what C code takes for itself.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from course_lib.accounting import watch_live_bytes

# These are the functions themselves: the names in `tracemalloc` refuse while a student's code runs.
try:
    from tracemalloc import get_traced_memory, is_tracing, reset_peak, start, stop
except ImportError:  # pragma: no cover - an interpreter without it, where nothing is measured
    _TRACES = False
else:
    _TRACES = True

__all__ = ["Held"]


class Held:
    """A context that measures; afterwards `most` says how many bytes were held at once.

    Parameters
    ----------
    tensors : bool
        Whether it's PyTorch that computes.

    Examples
    --------
    >>> import numpy as np
    >>> with Held() as held:
    ...     y = np.zeros(1000).sum()
    >>> 8000 <= held.most < 16_000
    True
    """

    def __init__(self, *, tensors: bool = False) -> None:
        self.most = 0
        self._watch = _watch(self) if tensors else None

    def __enter__(self) -> Held:
        if self._watch is not None:
            self._watch.__enter__()
            return self
        if not _TRACES:  # pragma: no cover
            return self
        self._was_on = is_tracing()
        if not self._was_on:
            start()
        reset_peak()
        self._before = get_traced_memory()[0]
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._watch is not None:
            self._watch.__exit__(*exc)
            return
        if not _TRACES:  # pragma: no cover
            return
        self.most = max(0, get_traced_memory()[1] - self._before)
        if not self._was_on:
            stop()


def _watch(held: Held) -> AbstractContextManager[Any]:
    """Return a context in which `held` learns of the tensors that operations make."""
    import torch

    def note(alive: int) -> None:
        held.most = max(held.most, alive)

    with watch_live_bytes(note):  # the first operation loads modules, not in a student's time
        torch.zeros(1).add(1)
    held.most = 0
    return watch_live_bytes(note)
