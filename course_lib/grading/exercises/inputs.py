"""What the exercises of all chapters draw their inputs with."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_cell", "draw", "partial_mask", "weights_rows"]


def draw(rng: np.random.Generator, *shape: int, spread: float = 1.0) -> NDArray:
    """Random numbers with one decimal, so that a student can copy them from the feedback."""
    return (spread * rng.standard_normal(shape)).round(1)


def weights_rows(rng: np.random.Generator, *shape: int) -> NDArray:
    """Rows of weights that sum to 1, with two decimals; none is 0."""
    parts = rng.integers(1, 10, shape).astype(float)
    rows = np.floor(100 * parts / parts.sum(axis=-1, keepdims=True)) / 100
    rows[..., 0] += 1.0 - rows.sum(axis=-1)
    return rows.round(2)


def partial_mask(rng: np.random.Generator, n_q: int, n_k: int) -> NDArray:
    """Build a mask that hides about a third; no row or column of it is all hidden or all shown."""
    while True:
        mask = rng.random((n_q, n_k)) < 0.65
        some = [mask.any(axis=axis).all() and (~mask).any(axis=axis).all() for axis in (0, 1)]
        if all(some):
            return mask


def as_cell(function: Callable[..., Any], name: str) -> str | None:
    """Return a function's source as a student's cell has it, under another name."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:  # an installation without sources
        return None
    head = "from __future__ import annotations\n\nimport numpy as np\n\n\n"
    return head + source.replace(f"def {function.__name__}(", f"def {name}(", 1)
