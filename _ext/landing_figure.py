"""The picture of the first page, computed when the book is built."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from course_lib.reference.attention import softmax

N_QUERIES = N_KEYS = 12
D_K = 512
CELL, GAP = 9, 1
BOX = f"h{CELL - GAP}v{CELL - GAP}h-{CELL - GAP}z"
SIDE = N_KEYS * CELL - GAP
SPACE = 22
LEVELS = 20


def weights() -> dict[str, NDArray[np.float64]]:
    """Return the attention weights of the same random queries and keys under three divisors."""
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((N_QUERIES, D_K)) @ rng.standard_normal((D_K, N_KEYS))
    divisors = {"1": 1.0, "√d_k": float(np.sqrt(D_K)), "d_k": float(D_K)}
    return {name: softmax(scores / divisor) for name, divisor in divisors.items()}


def panel(p: NDArray[np.float64], left: float, top: float) -> str:
    """Draw one heat map: a path for each of a few shades, which is far shorter than a box a cell.

    The shade is the root of the weight, so that small weights still show.
    """
    shade = np.rint(np.sqrt(p) * LEVELS).astype(int)
    paths = []
    for level in range(1, LEVELS + 1):
        cells = "".join(
            f"M{left + column * CELL:g} {top + row * CELL:g}{BOX}"
            for row, column in np.argwhere(shade == level)
        )
        if cells:
            paths.append(f'<path opacity="{level / LEVELS:.2f}" d="{cells}"/>')
    return "".join(paths)


def svg() -> str:
    """Return the picture as SVG; its text alternative is computed from what it shows."""
    panels = weights()
    alt = (
        f"Three heat maps of the same {N_QUERIES} by {N_KEYS} attention weights. "
        + " ".join(
            f"Scores divided by {name}: the largest weight of a row is "
            f"{p.max(axis=1).mean():.2f} on average."
            for name, p in panels.items()
        )
        + f" Equal weights would be {1 / N_KEYS:.2f}."
    )
    words = ("locks on", "chooses", "averages")
    formulas = ("÷ 1", "÷ √d", "÷ d")
    parts = []
    for i, (p, word, formula) in enumerate(zip(panels.values(), words, formulas, strict=True)):
        left = i * (SIDE + SPACE)
        middle = left + SIDE / 2
        sub = "" if i == 0 else '<tspan dy="3" font-size="9">k</tspan>'
        parts.append(
            f'<text x="{middle:g}" y="12" font-size="13" font-weight="600">{formula}{sub}</text>'
            f'<g fill="var(--course-accent)">{panel(p, left, 22)}</g>'
            f'<text x="{middle:g}" y="{22 + SIDE + 17}" font-size="13">{word}</text>'
        )
    width, height = 3 * SIDE + 2 * SPACE, 22 + SIDE + 24
    return (
        f'<svg role="img" aria-label="{alt}" viewBox="0 0 {width} {height}" '
        'xmlns="http://www.w3.org/2000/svg" fill="currentColor" text-anchor="middle" '
        f'font-family="var(--course-plain)">{"".join(parts)}</svg>'
    )
