"""Figures of chapter 07, the feed-forward network, residual paths and normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.figures.style import (
    COLOURS,
    MUTED,
    WIDTH,
    Plot,
    Svg,
    bold,
    course_style,
    svg_text,
)
from course_lib.reference.feed_forward import gelu, relu, silu
from course_lib.validation import check_choice

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "activations",
    "gradients_at_start",
    "leak_by_position",
    "norm_axes",
    "residual_paths",
    "training_runs",
]

_NORMS = {"post-norm": (COLOURS["orange"], "o"), "pre-norm": (COLOURS["blue"], "s")}
_WARM_UP = {"without warm-up": COLOURS["orange"], "with warm-up": COLOURS["blue"]}


def activations() -> Plot:
    """Draw ReLU, GELU and SiLU between −4 and 4.

    Returns
    -------
    Plot

    Examples
    --------
    >>> activations()
    ReLU, GELU and SiLU from −4 to 4. All rise to about 4 on the right and end near 0 on the left. \
ReLU has its corner at 0; GELU dips to −0.17 at −0.75, SiLU to −0.28 at −1.28.
    """
    x = np.linspace(-4, 4, 801)
    curves = {
        "ReLU": (relu(x), COLOURS["orange"], "-", (2.05, 2.05), (-8, 4), "right"),
        "GELU": (gelu(x), COLOURS["blue"], (0, (5, 1.5)), (0.12, -0.2), (0, 0), "left"),
        "SiLU": (silu(x), COLOURS["green"], "-", (-2.4, -0.2), (0, -8), "right"),
    }
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for name, (y, colour, dashes, point, offset, side) in curves.items():
            axes.plot(x, y, color=colour, linestyle=dashes)
            axes.annotate(
                name,
                point,
                offset,
                textcoords="offset points",
                color=colour,
                ha=side,
                va="bottom" if offset[1] > 0 else "top",
            )
        axes.set_xlim(-4, 4)
        axes.set_ylim(-1.1, 4)
        axes.set_xlabel("what comes in")
        axes.set_ylabel("what goes on")
    lowest = {name: int(np.argmin(y)) for name, (y, *_) in curves.items()}
    dips = {name: f"{_signed(curves[name][0][i])} at {_signed(x[i])}" for name, i in lowest.items()}
    alt = (
        "ReLU, GELU and SiLU from −4 to 4. All rise to about 4 on the right and end near 0 on the "
        f"left. ReLU has its corner at 0; GELU dips to {dips['GELU']}, SiLU to {dips['SiLU']}."
    )
    return Plot(figure, alt)


def residual_paths() -> Svg:
    """Draw where the norm stands: behind the sum, or before the sublayer.

    Returns
    -------
    Svg

    Examples
    --------
    >>> residual_paths().alt.split(":")[0]
    'Two sublayers with their residual paths'
    """
    green, blue, orange = COLOURS["green"], COLOURS["blue"], COLOURS["orange"]
    parts: list[str] = []
    for left, title, formula, norm_first in (
        (0, "post-norm", "LN(x + f(x))", False),
        (185, "pre-norm", "x + f(LN(x))", True),
    ):
        trunk, branch = left + 140, left + 62  # where the residual path and the sublayer run
        parts += [
            svg_text(left + 87, 18, bold(title), anchor="middle"),
            svg_text(left + 87, 38, formula, 13.5, "middle"),
            svg_text(trunk, 66, "x", 15, "middle"),
        ]
        fork, end = 92, 330
        boxes = [("sublayer f", orange)]
        if norm_first:
            boxes.insert(0, ("LN", blue))
        plus = 260
        # the residual path, from x to the sum and on; a norm on it interrupts it
        parts.append(_down(trunk, 74, plus - 11, green, 3.0))
        parts.append(_path(f"M{trunk} {fork} H{branch} V{116}", None, arrow=(branch, 116)))
        y = 118
        for name, colour in boxes:
            parts += _box(branch - 52, y, 104, 40, colour, name)
            y += 40
            if (name, colour) != boxes[-1]:
                parts.append(_down(branch, y, y + 24, None))
                y += 26
        parts.append(
            _path(f"M{branch} {y} V{plus} H{trunk - 13}", None, arrow=(trunk - 11, plus, "right"))
        )
        parts.append(
            f'<circle cx="{trunk}" cy="{plus}" r="11" fill="none" stroke="{green}" '
            f'stroke-width="1.8"/><path d="M{trunk - 6} {plus} H{trunk + 6} M{trunk} {plus - 6} '
            f'V{plus + 6}" stroke="{green}" stroke-width="1.8"/>'
        )
        if norm_first:
            parts.append(_down(trunk, plus + 11, end, green, 3.0))
        else:
            parts.append(_down(trunk, plus + 11, plus + 26, green))
            parts += _box(trunk - 26, plus + 28, 52, 28, blue, "LN")
            parts.append(_down(trunk, plus + 56, end, None))
    alt = (
        "Two sublayers with their residual paths: post-norm, LN(x + f(x)), has the norm on the "
        "path, behind the sum; pre-norm, x + f(LN(x)), has it on the branch, before the sublayer, "
        "so that the path runs from x to the output through nothing but a sum."
    )
    return Svg("".join(parts), 360, 338, alt, max_width=440)


def norm_axes() -> Svg:
    """Draw which numbers of a batch share a mean and a variance under three norms.

    Returns
    -------
    Svg

    Examples
    --------
    >>> print(norm_axes().alt.split(". ")[0])
    A batch of 3 sequences with 4 tokens of 5 features, 60 numbers, under three norms
    """
    b, n, d = 3, 4, 5
    cell, left, gap, top = 18, 26, 20, 30
    token, feature = 1, 2
    band = n * cell + 46  # from one norm's batch to the next

    def together(norm: str, i: int, j: int, k: int) -> bool:
        """Tell whether a number is normalised together with feature 2 of token 1, sequence 0."""
        return {
            "layer norm": (i, j) == (0, token),
            "batch norm": k == feature,
            "sequence norm": i == 0,
        }[norm]

    words = {
        "layer norm": "one token's features",
        "batch norm": "one feature of all tokens",
        "sequence norm": "all of one sequence",
    }
    parts, counts = [], []
    for row, (norm, said) in enumerate(words.items()):
        y0 = top + row * band + 20
        cells = []
        count = 0
        for i in range(b):
            x0 = left + i * (d * cell + gap)
            for j in range(n):
                for k in range(d):
                    inside = together(norm, i, j, k)
                    count += inside
                    colour = COLOURS["blue"] if inside else "currentColor"
                    cells.append(
                        f'<rect x="{x0 + k * cell + 1}" y="{y0 + j * cell + 1}" '
                        f'width="{cell - 2}" height="{cell - 2}" rx="2.5" fill="{colour}" '
                        f'fill-opacity="{0.85 if inside else 0.08}" stroke="{colour}" '
                        f'stroke-opacity="{1 if inside else 0.35}" stroke-width="1"/>'
                    )
        parts += [
            f'<g data-norm="{norm}">{"".join(cells)}</g>',
            svg_text(left, y0 - 9, f"{bold(norm)}: {said}", 13.5),
            f'<text transform="translate({left - 8} {y0 + n * cell / 2:g}) rotate(-90)" '
            f'font-size="12" text-anchor="middle">← tokens</text>',
        ]
        counts.append(count)
    parts += [
        svg_text(left + i * (d * cell + gap) + d * cell / 2, 18, f"sequence {i + 1}", 13, "middle")
        for i in range(b)
    ]
    bottom = top + 2 * band + 20 + n * cell
    parts.append(svg_text(left + d * cell / 2, bottom + 16, "features →", 12, "middle"))
    per_norm = ", ".join(f"{name} {count}" for name, count in zip(words, counts, strict=True))
    alt = (
        f"A batch of {b} sequences with {n} tokens of {d} features, {b * n * d} numbers, under "
        f"three norms. Those that share a mean and a variance with one number: {per_norm}. Layer "
        "norm takes one token's row, batch norm one feature's column in every sequence, sequence "
        "norm all of one sequence."
    )
    return Svg("".join(parts), 360, bottom + 24, alt, max_width=440)


def gradients_at_start(
    by_layer: Mapping[str, ArrayLike], depths: ArrayLike, last: Mapping[str, ArrayLike]
) -> Plot:
    """Draw gradient norms before training: by layer of one deep stack, and of the last by depth.

    Parameters
    ----------
    by_layer : mapping of "post-norm" and "pre-norm" to array-likes, (seeds, L)
        Norm of each layer's gradient, from the layer next to the input on.
    depths : array-like, (k,)
        Numbers of layers, rising powers of two.
    last : mapping of the same names to array-likes, (seeds, k)
        Norm of the last layer's gradient in a stack of each depth.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a name is another, or the numbers aren't positive or don't fit together.

    Examples
    --------
    >>> rows = {"post-norm": [[1, 2], [1, 2]], "pre-norm": [[2, 1], [2, 1]]}
    >>> gradients_at_start(rows, [1, 2], rows)
    Two panels of gradient norms before training, median of 2 seeds. By layer, of 2: post-norm \
1 at the input and 2 at the output; pre-norm 2 and 1. Of the last layer, in stacks of 1 to 2 \
layers: post-norm from 1 to 2; pre-norm from 2 to 1.
    """
    stacks = np.asarray(depths, dtype=np.float64)
    if stacks.ndim != 1 or stacks.size < 2 or not (np.diff(stacks) > 0).all() or stacks[0] < 1:
        raise ValueError(f"depths must be a row of at least two rising numbers; got {depths!r}")
    layered = {name: _seeds(name, rows) for name, rows in by_layer.items()}
    lasts = {name: _seeds(name, rows, stacks.size) for name, rows in last.items()}
    if set(layered) != set(_NORMS) or set(lasts) != set(_NORMS):
        raise ValueError(f"by_layer and last must have a line for each of {', '.join(_NORMS)}")
    n_layers = layered["post-norm"].shape[1]
    with course_style():
        figure = Figure(figsize=(WIDTH, 6.2), layout=ConstrainedLayoutEngine(h_pad=0.09))
        upper, lower = figure.subplots(2, 1)
        for axes, x, lines in (
            (upper, np.arange(1, n_layers + 1), layered),
            (lower, stacks, lasts),
        ):
            for name, rows in lines.items():
                colour, marker = _NORMS[name]
                axes.fill_between(x, rows.min(0), rows.max(0), color=colour, alpha=0.18, lw=0)
                axes.plot(x, np.median(rows, 0), color=colour, marker=marker, markersize=4.5)
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            low = min(rows.min() for rows in lines.values())
            high = max(rows.max() for rows in lines.values())
            axes.set_ylim(low / 1.3, high * 2.2)
            axes.yaxis.set_major_locator(
                FixedLocator([t for t in _STEPS if low / 1.3 <= t <= high * 2.2])
            )
            axes.set_ylabel("norm of the gradient")
        upper.set_title(f"Each layer of a stack of {n_layers}")
        upper.set_xlabel("layer, from the input to the output")
        lower.set_title("The last layer, in stacks of growing depth")
        lower.set_xlabel("number of layers")
        lower.set_xscale("log", base=2)
        lower.xaxis.set_major_locator(FixedLocator(list(stacks)))
        lower.xaxis.set_minor_locator(NullLocator())
        lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        for axes in (upper, lower):
            for i, name in enumerate(_NORMS):
                axes.annotate(
                    name,
                    (0.02 + 0.27 * i, 0.97),
                    xycoords="axes fraction",
                    color=_NORMS[name][0],
                    va="top",
                )

    def ends(rows: NDArray) -> tuple[str, str]:
        middle = np.median(rows, 0)
        return f"{middle[0]:.1g}", f"{middle[-1]:.1g}"

    (a, z), (c, e) = ends(layered["post-norm"]), ends(layered["pre-norm"])
    (f, g), (h, i_) = ends(lasts["post-norm"]), ends(lasts["pre-norm"])
    alt = (
        f"Two panels of gradient norms before training, median of {len(layered['post-norm'])} "
        f"seeds. By layer, of {n_layers}: post-norm {a} at the input and {z} at the output; "
        f"pre-norm {c} and {e}. Of the last layer, in stacks of {stacks[0]:g} to {stacks[-1]:g} "
        f"layers: post-norm from {f} to {g}; pre-norm from {h} to {i_}."
    )
    return Plot(figure, alt)


def training_runs(
    runs: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], guess: float, smooth: int = 10
) -> Plot:
    """Draw losses of runs that differ in norm and warm-up, a panel a norm, a line a seed.

    Parameters
    ----------
    runs : mapping of panels' titles to mappings of "without warm-up" and "with warm-up" to losses
        Losses are sequences, one a seed; a run that ends early is drawn as far as it went.
    guess : float
        Loss of a model that guesses, drawn as a line.
    smooth : int, default 10
        Each point is the mean of so many steps.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there is no run, or a name is another.

    Examples
    --------
    >>> losses = [[2.0] * 20, [1.0] * 10]
    >>> training_runs({"post-norm": {"with warm-up": losses}}, guess=2.3)
    Loss against training step, 2 seeds a line. post-norm with warm-up: ends at 1.0 to 2.0 after \
10 to 20 steps.
    """
    if not runs or not all(runs.values()):
        raise ValueError(f"runs must have a panel, and every panel a run; got {runs!r}")
    for panel in runs.values():
        for name in panel:
            check_choice("a run's name", name, _WARM_UP)
    parts = []
    longest = max(len(row) for panel in runs.values() for rows in panel.values() for row in rows)
    with course_style():
        figure = Figure(
            figsize=(WIDTH, 0.5 + 2.3 * len(runs)), layout=ConstrainedLayoutEngine(h_pad=0.07)
        )
        panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, panel) in zip(panels, runs.items(), strict=True):
            axes.axhline(guess, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
            for i, (name, rows) in enumerate(panel.items()):
                ends, steps = [], []
                for row in rows:
                    whole = len(row) // smooth * smooth
                    y = np.reshape(row[:whole], (-1, smooth)).mean(1)
                    x = smooth * (np.arange(y.size) + 0.5)
                    axes.plot(x, y, color=_WARM_UP[name], linewidth=1.6, alpha=0.9)
                    axes.plot(x[-1:], y[-1:], ".", color=_WARM_UP[name], markersize=7)
                    ends.append(float(y[-1]))
                    steps.append(len(row))
                parts.append(
                    f"{title} {name}: ends at {min(ends):.1f} to {max(ends):.1f} after "
                    f"{min(steps)} to {max(steps)} steps"
                )
                axes.annotate(
                    name,
                    (0.99, 0.98 - 0.14 * i),
                    xycoords="axes fraction",
                    color=_WARM_UP[name],
                    ha="right",
                    va="top",
                )
            axes.annotate(
                "- - guessing", (0.99, 0.98 - 0.14 * len(panel)), xycoords="axes fraction",
                color=MUTED, ha="right", va="top",
            )  # fmt: skip
            axes.set_title(title)
            axes.set_ylim(0, guess * 1.9)
            axes.set_xlim(0, longest)
            axes.set_ylabel("loss (nats)")
        panels[-1].set_xlabel("training step")
    seeds = max(len(rows) for panel in runs.values() for rows in panel.values())
    return Plot(figure, f"Loss against training step, {seeds} seeds a line. {'. '.join(parts)}.")


def leak_by_position(losses: Mapping[str, ArrayLike], guess: float = log(2)) -> Plot:
    """Draw the loss of predicting each token of a sequence, in training and in use.

    Parameters
    ----------
    losses : mapping of names to array-likes, (seeds, n)
        Up to two: what a model reaches where the sequence is there whole, and where it isn't.
    guess : float, default ln 2
        The best that can be had honestly, drawn as a line.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no lines or more than two, or they don't fit together.

    Examples
    --------
    >>> leak_by_position({"whole": [[0.0, 0.7], [0.0, 0.7]], "prefix": [[3, 0.7], [5, 0.7]]})
    Loss of predicting tokens 2 to 3, mean of 2 seeds, against 0.69 for guessing. whole: 0.0, 0.7. \
prefix: 4.0, 0.7.
    """
    if not 1 <= len(losses) <= 2:
        raise ValueError(f"losses must have one line or two; got {len(losses)}")
    rows = {name: _seeds(name, row, least=0.0) for name, row in losses.items()}
    shapes = {row.shape for row in rows.values()}
    if len(shapes) > 1:
        raise ValueError(f"losses must all have one shape; got {sorted(shapes)}")
    (n_seeds, n) = shapes.pop()
    looks = ((COLOURS["blue"], "s"), (COLOURS["orange"], "o"))
    x = np.arange(2, n + 2)  # the first token is given
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.5), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(guess, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        high = max(row.max() for row in rows.values())
        for i, ((name, row), (colour, marker)) in enumerate(zip(rows.items(), looks, strict=False)):
            axes.plot(x, row.mean(0), color=colour, marker=marker)
            axes.plot(np.tile(x, n_seeds), row.ravel(), ".", color=colour, markersize=5, alpha=0.6)
            axes.annotate(
                name, (0.98, 0.97 - 0.1 * i), xycoords="axes fraction", color=colour, ha="right",
                va="top",
            )  # fmt: skip
        axes.annotate(
            "- - guessing", (0.98, 0.97 - 0.1 * len(rows)), xycoords="axes fraction", color=MUTED,
            ha="right", va="top",
        )  # fmt: skip
        axes.set_ylim(-0.05 * high, 1.6 * high)
        axes.set_xticks(x)
        axes.set_xlabel("token that is predicted")
        axes.set_ylabel("loss (nats)")
        axes.grid(False, axis="x")
    parts = [
        f"{name}: {', '.join(f'{v:.1f}' for v in np.abs(row.mean(0)))}"
        for name, row in rows.items()
    ]
    alt = (
        f"Loss of predicting tokens {x[0]} to {x[-1]}, mean of {n_seeds} seeds, against "
        f"{guess:.2f} for guessing. {'. '.join(parts)}."
    )
    return Plot(figure, alt)


# ---- Parts ---------------------------------------------------------------------------------------

_STEPS = [m * 10.0**e for e in range(-6, 7) for m in (1, 3)]


def _seeds(name: str, rows: ArrayLike, n: int | None = None, least: float = 1e-300) -> NDArray:
    """Return lines of several seeds as an array (seeds, n), or raise."""
    array = np.asarray(rows, dtype=np.float64)
    fits = array.ndim == 2 and array.size > 0 and n in (None, array.shape[-1])
    if not fits or not (np.isfinite(array) & (array >= least)).all():
        raise ValueError(
            f"{name} must be a table of positive numbers, (seeds, {n or 'n'}); got {rows!r}"
        )
    return array


def _signed(value: float) -> str:
    """Return a number rounded to two places, with a true minus sign."""
    return f"{value:.2f}".replace("-", "−")


def _box(x: float, y: float, width: float, height: float, colour: str, text: str) -> list[str]:
    """Return a rounded, tinted box with words in its middle."""
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{colour}" '
        f'fill-opacity="0.14" stroke="{colour}" stroke-width="1.6"/>',
        svg_text(x + width / 2, y + height / 2 + 5, text, 14, "middle"),
    ]


def _path(
    path: str,
    colour: str | None,
    width: float = 1.8,
    arrow: tuple[float, float] | tuple[float, float, str] | None = None,
) -> str:
    """Return a line, with a head at a point, pointing down or to the right, if wanted."""
    ink = colour or "currentColor"
    line = f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="{width:g}"/>'
    if arrow is None:
        return line
    x, y = arrow[:2]
    head = (
        f"M{x - 7:g} {y - 4.5:g} L{x:g} {y:g} L{x - 7:g} {y + 4.5:g}"
        if len(arrow) == 3
        else f"M{x - 4.5:g} {y - 7:g} L{x:g} {y:g} L{x + 4.5:g} {y - 7:g}"
    )
    return line + f'<path d="{head}" fill="none" stroke="{ink}" stroke-width="1.8"/>'


def _down(x: float, y: float, to: float, colour: str | None, width: float = 1.8) -> str:
    """Return an arrow straight down."""
    return _path(f"M{x:g} {y:g} V{to:g}", colour, width, arrow=(x, to))
