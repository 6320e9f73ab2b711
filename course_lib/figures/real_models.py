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


def scores_over_book(
    scores: Mapping[str, ArrayLike], chapters: Sequence[str], best: int = 3
) -> Plot:
    """Draw how near questions are to each paragraph of a book, in the book's order.

    Parameters
    ----------
    scores : mapping of questions to array-likes, (n,)
        A cosine for each paragraph. One panel a question, all on one scale.
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
        If there is no question, or one has not as many scores as there are chapters, or fewer than
        `best`.

    Examples
    --------
    >>> chapters = ["00_a", "00_a", "01_b", "01_b"]
    >>> scores_over_book({"why?": [0.1, 0.5, 0.2, 0.4]}, chapters, best=2)
    Cosines of questions with 4 paragraphs of 2 chapters. why? Nearest: 0.50 in chapter 00, 0.40 \
in chapter 01. Mean of all: 0.30.
    """
    rows = {question: np.asarray(y, dtype=np.float64) for question, y in scores.items()}
    n = len(chapters)
    if not rows or not 1 <= best <= n or any(y.shape != (n,) for y in rows.values()):
        raise ValueError(
            f"scores must have one number for each of {n} chapters' names, at least {best}, for "
            f"each question; got { {question: y.shape for question, y in rows.items()} }"
        )
    starts = [i for i in range(n) if i == 0 or chapters[i] != chapters[i - 1]]
    ends = [*starts[1:], n]
    said = [f"Cosines of questions with {n} paragraphs of {len(starts)} chapters."]
    with course_style():
        # Narrower than others: fifteen labels stay readable where a phone shrinks the picture.
        figure = Figure(figsize=(4.5, 0.9 + 1.9 * len(rows)), layout="constrained")
        panels = figure.subplots(len(rows), sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (question, y) in zip(panels, rows.items(), strict=True):
            order = np.argsort(-y, kind="stable")[:best]
            for start, end in list(zip(starts, ends, strict=True))[1::2]:
                axes.axvspan(start - 0.5, end - 0.5, color=MUTED, alpha=0.12, linewidth=0)
            axes.vlines(np.arange(n), 0, y, color=_BLUE, linewidth=0.6)
            axes.plot(order, y[order], "o", color=_ORANGE, ms=6)
            axes.set_title(question)
            axes.set_xlim(-1, n)
            axes.grid(False, axis="x")
            axes.tick_params(axis="x", length=0)
            nearest = ", ".join(f"{y[i]:.2f} in chapter {chapters[i][:2]}" for i in order)
            said.append(f"{question} Nearest: {nearest}. Mean of all: {y.mean():.2f}.")
        middles = [(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)]
        panels[-1].xaxis.set_major_locator(FixedLocator(middles))
        panels[-1].set_xticklabels([chapters[start][:2] for start in starts])
        panels[-1].set_xlabel("paragraphs in order, by chapter")
        figure.supylabel("cosine with the question", fontsize=11.5)
    return Plot(figure, " ".join(said))


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
        axes.xaxis.set_major_locator(FixedLocator(list(x[:: max(1, len(x) // 3)])))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        axes.set_xlabel("tokens")
        axes.set_ylabel("FLOPs")
    said = " ".join(f"{name}: from {y[0]:.1e} to {y[-1]:.1e}." for name, y in lines.items())
    return Plot(figure, f"FLOPs of a text of {x[0]:,.0f} to {x[-1]:,.0f} tokens. {said}")
