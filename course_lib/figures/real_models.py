"""Figures of chapter 15, real models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.figures.style import COLOURS, MUTED, WIDTH, Plot, course_style

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["cost_of_context", "scores_over_book"]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]


def scores_over_book(scores: ArrayLike, chapters: Sequence[str], best: int = 3) -> Plot:
    """Draw how near a question is to each paragraph of a book, in the book's order.

    Parameters
    ----------
    scores : array-like, (n,)
        A cosine for each paragraph.
    chapters : sequence of str, (n,)
        Where each stands; those of one chapter follow one another. Two characters are shown.
    best : int, default 3
        How many are marked as the nearest.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there aren't as many scores as chapters, or fewer than `best`.

    Examples
    --------
    >>> scores_over_book([0.1, 0.5, 0.2, 0.4], ["00_a", "00_a", "01_b", "01_b"], best=2)
    Cosine of a question with 4 paragraphs of 2 chapters. Nearest: 0.50 in chapter 00, 0.40 in \
chapter 01. Mean of all: 0.30.
    """
    y = np.asarray(scores, dtype=np.float64)
    if y.ndim != 1 or len(y) != len(chapters) or not 1 <= best <= len(y):
        raise ValueError(
            f"scores must have one number for each of {len(chapters)} chapters' names, and at "
            f"least {best}; got shape {y.shape}"
        )
    starts = [i for i in range(len(y)) if i == 0 or chapters[i] != chapters[i - 1]]
    ends = [*starts[1:], len(y)]
    order = np.argsort(-y, kind="stable")[:best]
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if number % 2:
                axes.axvspan(start - 0.5, end - 0.5, color=MUTED, alpha=0.12, linewidth=0)
        axes.vlines(np.arange(len(y)), 0, y, color=_BLUE, linewidth=0.6)
        axes.plot(order, y[order], "o", color=_ORANGE, ms=7)
        middles = [(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)]
        axes.xaxis.set_major_locator(FixedLocator(middles))
        axes.set_xticklabels([chapters[start][:2] for start in starts])
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-1, len(y))
        axes.set_xlabel("paragraphs in order, by chapter")
        axes.set_ylabel("cosine with the question")
        axes.grid(False, axis="x")
    nearest = ", ".join(f"{y[i]:.2f} in chapter {chapters[i][:2]}" for i in order)
    return Plot(
        figure,
        f"Cosine of a question with {len(y)} paragraphs of {len(starts)} chapters. "
        f"Nearest: {nearest}. Mean of all: {y.mean():.2f}.",
    )


def cost_of_context(lengths: ArrayLike, costs: Mapping[str, ArrayLike]) -> Plot:
    """Draw what texts cost by their length, in FLOPs, on logarithmic axes.

    Parameters
    ----------
    lengths : array-like of int, (k,)
        Tokens, rising.
    costs : mapping of names to array-likes, (k,)
        Two lines, the higher one at the end first.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there aren't two lines of positive numbers, one for each length.

    Examples
    --------
    >>> cost_of_context([1, 10], {"counted": [1e12, 5e13], "guessed": [1e12, 1e13]})
    FLOPs of a text of 1 to 10 tokens. counted: from 1.0e+12 to 5.0e+13. guessed: from 1.0e+12 to \
1.0e+13.
    """
    x = np.asarray(lengths, dtype=np.float64)
    lines = {name: np.asarray(values, dtype=np.float64) for name, values in costs.items()}
    if len(lines) != 2 or any(y.shape != x.shape or not (y > 0).all() for y in lines.values()):
        raise ValueError(
            f"costs must be two lines of {x.size} positive numbers; got "
            f"{ {name: y.shape for name, y in lines.items()} }"
        )
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        looks = ((_BLUE, "-", (0.03, 0.92)), (_ORANGE, "--", (0.03, 0.82)))
        for (name, y), (colour, dashes, place) in zip(lines.items(), looks, strict=True):
            axes.plot(x, y, dashes, color=colour, marker="o")
            axes.annotate(
                f"{'━' if dashes == '-' else '╍'} {name}", place, xycoords="axes fraction",
                color=colour,
            )  # fmt: skip
        axes.xaxis.set_major_locator(FixedLocator(list(x[:: max(1, len(x) // 4)])))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        axes.set_xlabel("tokens")
        axes.set_ylabel("FLOPs")
    said = " ".join(f"{name}: from {y[0]:.1e} to {y[-1]:.1e}." for name, y in lines.items())
    return Plot(figure, f"FLOPs of a text of {x[0]:,.0f} to {x[-1]:,.0f} tokens. {said}")
