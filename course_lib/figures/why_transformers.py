"""Figures of chapter 02, why the Transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from course_lib import accounting
from course_lib.figures.style import (
    COLOURS,
    MUTED,
    WIDTH,
    Plot,
    StepThrough,
    Svg,
    bold,
    course_style,
    svg_text,
)
from course_lib.validation import check_positive_int

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "agreement_accuracy",
    "architecture_overview",
    "flops_crossover",
    "gradient_decay",
    "layer_times",
    "self_attention_steps",
    "unrolled_against_all_pairs",
]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN, _PURPLE = COLOURS["green"], COLOURS["purple"]
_HEIGHT = 4.0  # inches, of every plot
# A layer keeps its colour through the chapter; a second kind of it is dashed.
_FAMILIES = {
    "self-attention": (_ORANGE, "o"),
    "RNN": (_BLUE, "s"),
    "GRU": (_PURPLE, "^"),
    "convolution": (_GREEN, "D"),
}


# ---- Drawings ------------------------------------------------------------------------------------


def unrolled_against_all_pairs(tokens: Sequence[str]) -> Svg:
    """Draw how a recurrence and how self-attention connect the same tokens.

    The path from the first token to the last is marked in both.

    Parameters
    ----------
    tokens : sequence of str
        From 3 to 7 short words.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If there are fewer than 3 tokens or more than 7.

    Examples
    --------
    >>> unrolled_against_all_pairs(["the", "cat", "was"])
    Two drawings of the 3 tokens the, cat, was. Recurrence: states in a chain, each computed from \
the one before, 3 steps one after another; the path from the first token to the last has 2 links. \
Self-attention: each of 3 outputs is joined to each of 3 tokens, 9 lines, in 3 steps however many \
tokens there are; the path from the first token to the last is 1 link.
    """
    n = len(tokens)
    if not 3 <= n <= 7:
        raise ValueError(f"tokens must be from 3 to 7; got {n}")
    xs = [round(180 + (i - (n - 1) / 2) * 330 / n, 1) for i in range(n)]
    parts = [svg_text(8, 20, bold("Recurrence:") + f" {n} steps, one after another")]
    for i, (x, token) in enumerate(zip(xs, tokens, strict=True)):
        # the marked path: up from the first token, then along the chain
        marked = i == 0
        parts.append(_arrow(x, 108, x, 84, _BLUE if marked else None, heavy=marked))
        if i:
            parts.append(_arrow(xs[i - 1] + 15, 67, x - 15, 67, _BLUE, heavy=True))
        parts.append(_disc(x, 67, _BLUE))
        parts.append(svg_text(x, 72, _state(i + 1), size=14, anchor="middle"))
        parts.append(svg_text(x, 44, f"step {i + 1}" if i == 0 else str(i + 1), 13, "middle"))
        parts.append(svg_text(x, 124, escape(token), size=14, anchor="middle"))
    steps = accounting.total(accounting.plain_self_attention(n, 1)).steps
    parts.append(svg_text(8, 168, bold("Self-attention:") + f" {steps} steps at any length"))
    for i, x in enumerate(xs):
        for j, source in enumerate(xs):
            if (i, j) != (n - 1, 0):
                parts.append(_stroke(source, 276, x, 221, None, 1.2, 0.38))
    parts.append(_arrow(xs[0], 276, xs[-1] - 12, 213, _ORANGE, heavy=True))
    for i, (x, token) in enumerate(zip(xs, tokens, strict=True)):
        parts.append(_disc(x, 206, _ORANGE))
        parts.append(svg_text(x, 211, _state(i + 1, "y"), size=14, anchor="middle"))
        parts.append(svg_text(x, 292, escape(token), size=14, anchor="middle"))
    alt = (
        f"Two drawings of the {n} tokens {', '.join(tokens)}. Recurrence: states in a chain, each "
        f"computed from the one before, {n} steps one after another; the path from the first token "
        f"to the last has {n - 1} links. Self-attention: each of {n} outputs is joined to each of "
        f"{n} tokens, {n * n} lines, in {steps} steps however many tokens there are; the path from "
        "the first token to the last is 1 link."
    )
    return Svg("".join(parts), 360, 302, alt)


def architecture_overview(n_layers: int = 6) -> Svg:
    """Draw the Transformer from a distance: encoder, decoder, and what stands around them.

    Parameters
    ----------
    n_layers : int, default 6
        Layers in each of the two stacks; 6 in the paper.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If `n_layers` isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), figure 1.

    Examples
    --------
    >>> architecture_overview(2).alt.split(".")[0]
    'The Transformer, read from the bottom up'
    """
    check_positive_int("n_layers", n_layers)
    left, right, wide = 36, 194, 130
    parts = []
    for x, name, rows in (
        (left, "encoder", ((302, "self-attention", _ORANGE), (236, "feed-forward", _BLUE))),
        (
            right,
            "decoder",
            (
                (302, "self-attention,|masked", _ORANGE),
                (236, "cross-attention", _PURPLE),
                (170, "feed-forward", _BLUE),
            ),
        ),
    ):
        top = rows[-1][0] - 12
        parts.append(
            f'<rect x="{x - 10}" y="{top}" width="{wide + 20}" height="{358 - top}" rx="10" '
            'fill="currentColor" fill-opacity="0.03" stroke="currentColor" stroke-opacity="0.55" '
            'stroke-width="1.4" stroke-dasharray="5 4"/>'
        )
        middle = x + wide / 2  # the words stand left and right of the line that goes up
        parts.append(svg_text(middle - 8, top - 9, bold(name), 14, "end"))
        parts.append(svg_text(middle + 8, top - 9, f"{n_layers} layers", 14))
        for y, words, colour in rows:
            parts += _labelled_box(x, y, wide, 46, colour, words.split("|"))
        for (y, _, _), (above, _, _) in pairwise(rows):
            parts.append(_arrow(x + wide / 2, y - 1, x + wide / 2, above + 47))
        parts += _labelled_box(x, 384, wide, 46, _GREEN, ["embeddings", "+ positions"])
        parts.append(_arrow(x + wide / 2, 383, x + wide / 2, 349))
        parts.append(_arrow(x + wide / 2, 452, x + wide / 2, 431))
    parts += [
        svg_text(left + wide / 2, 468, "source tokens", 14, "middle"),
        svg_text(right + wide / 2, 468, "target tokens so far", 14, "middle"),
        # the encoder's output, up and over to the decoder's cross-attention
        _stroke(left + wide / 2, 235, left + wide / 2, 198, _PURPLE, 2.4),
        _stroke(left + wide / 2, 198, 180, 198, _PURPLE, 2.4),
        _stroke(180, 198, 180, 259, _PURPLE, 2.4),
        _arrow(180, 259, right - 1, 259, _PURPLE, heavy=True),
        _arrow(right + wide / 2, 169, right + wide / 2, 123),
    ]
    parts += _labelled_box(right, 76, wide, 46, None, ["projection", "d → |V|, softmax"])
    parts.append(_arrow(right + wide / 2, 75, right + wide / 2, 51))
    parts.append(svg_text(right + wide / 2, 26, "probabilities of", 14, "middle"))
    parts.append(svg_text(right + wide / 2, 43, "the next token", 14, "middle"))
    alt = (
        "The Transformer, read from the bottom up. Left: source tokens, embeddings plus positions, "
        f"then the encoder, {n_layers} layers, each with self-attention and a feed-forward "
        "network. Right: the target tokens so far, embeddings plus positions, then the decoder, "
        f"{n_layers} layers, each with masked self-attention, cross-attention and a feed-forward "
        "network; above it a projection from d to |V| and a softmax give the probabilities of the "
        "next token. An arrow leads from the encoder's output into the decoder's cross-attention."
    )
    return Svg("".join(parts), 360, 476, alt, max_width=440)


def self_attention_steps(tokens: Sequence[str], weights: ArrayLike, shown: int = 0) -> StepThrough:
    """Draw self-attention token by token: one asks, all answer; and all of them at once.

    Parameters
    ----------
    tokens : sequence of str, (n,)
        From 2 to 9 words, no two of them the same.
    weights : array-like, (n, n)
        Row i: how much token i takes from each. Rows sum to 1.
    shown : int, default 0
        The token that asks in the still picture.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If the number of tokens doesn't fit, two are the same, `weights` isn't (n, n) with rows of
        weights, or `shown` isn't one of the tokens.

    Examples
    --------
    >>> self_attention_steps(["cat", "was"], [[0.75, 0.25], [0.5, 0.5]], shown=1)
    Self-attention over 2 tokens, one button for each that asks and one for all at once. cat asks: \
cat 0.75, was 0.25. was asks: cat 0.50, was 0.50.
    """
    n = len(tokens)
    table = np.asarray(weights, dtype=np.float64)
    if not 2 <= n <= 9 or len(set(tokens)) != n:
        raise ValueError(f"tokens must be from 2 to 9 different words; got {list(tokens)}")
    if table.shape != (n, n):
        raise ValueError(f"weights must have the shape {(n, n)}; got {table.shape}")
    if not ((table >= 0.0).all() and np.allclose(table.sum(axis=1), 1.0, atol=1e-4)):
        raise ValueError(f"weights must be rows of weights that sum to 1; got {table}")
    if isinstance(shown, bool) or not isinstance(shown, int) or not 0 <= shown < n:
        raise ValueError(f"shown must be the place of a token, 0 to {n - 1}; got {shown!r}")
    gap, top = 38, 56
    ys = [top + gap * i for i in range(n)]
    parts = [
        svg_text(112, 24, "asks", size=14, anchor="end"),
        svg_text(212, 24, "answer", size=14),
    ]
    for i in range(n + 1):  # the state n is all at once
        askers = range(n) if i == n else (i,)
        lines = [
            _stroke(122, ys[a], 204, ys[j], _ORANGE, round(0.8 + 7.0 * w, 2), round(0.25 + w, 2))
            for a in askers
            for j, w in enumerate(table[a])
            if w >= 0.005
        ]
        if i < n:
            lines.append(svg_text(278, 24, "weight", size=14))
            lines.append(
                f'<rect x="8" y="{ys[i] - 16}" width="112" height="32" rx="7" fill="{_ORANGE}" '
                f'fill-opacity="0.14" stroke="{_ORANGE}" stroke-width="1.8"/>'
            )
            for y, w in zip(ys, table[i], strict=True):
                lines.append(
                    f'<rect x="278" y="{y + 7}" width="{round(74 * w, 1)}" height="5" rx="2" '
                    f'fill="{_ORANGE}"/>'
                )
                lines.append(svg_text(278, y + 3, f"{w:.2f}", size=14))
        hidden = "" if i == shown else ' style="display:none"'
        parts.append(f'<g data-step="{i}"{hidden}>{"".join(lines)}</g>')
    for y, token in zip(ys, tokens, strict=True):
        parts.append(svg_text(112, y + 5, escape(token), size=15, anchor="end"))
        parts.append(svg_text(212, y + 5, escape(token), size=15))
    said = [
        f"“{token}” asks. Most comes from “{tokens[int(row.argmax())]}”, weight {row.max():.2f}; "
        f"“{tokens[int(np.argsort(-row, kind='stable')[1])]}” is next with {np.sort(row)[-2]:.2f}."
        for token, row in zip(tokens, table, strict=True)
    ]
    said.append(
        f"All {n} ask at once: {n} × {n} = {n * n} weights, from one product. Nobody waits for "
        "anybody."
    )
    rows = [
        f"{token} asks: " + ", ".join(f"{t} {w:.2f}" for t, w in zip(tokens, row, strict=True))
        for token, row in zip(tokens, table, strict=True)
    ]
    alt = (
        f"Self-attention over {n} tokens, one button for each that asks and one for all at once. "
        f"{'. '.join(rows)}."
    )
    return StepThrough(
        "".join(parts),
        360,
        ys[-1] + 26,
        alt,
        buttons=(*tokens, "all at once"),
        captions=tuple(said),
        shown=shown,
        legend="Which token asks",
    )


# ---- Plots ---------------------------------------------------------------------------------------


def gradient_decay(distances: ArrayLike, norms: Mapping[str, ArrayLike]) -> Plot:
    """Draw how strongly the last output answers to a token further and further back.

    Parameters
    ----------
    distances : array-like, (m,)
        How many tokens back, rising.
    norms : mapping of names to array-likes, (m,)
        The norm of the derivative at each distance, for layers whose names begin with
        self-attention, RNN, GRU or convolution.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the rows aren't positive, or not as long as `distances`, or a name isn't of a known
        layer.

    Examples
    --------
    >>> gradient_decay([0, 10], {"RNN": [1.0, 1e-3], "self-attention": [0.5, 0.5]})
    Norm of the derivative of the last output by the token k back, for k from 0 to 10, \
logarithmic. RNN: from 1 to 0.001. self-attention: from 0.5 to 0.5.
    """
    x, rows = _series("distances", distances, norms)
    looks = _looks(rows)
    with course_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for (colour, _, dashes), row in zip(looks, rows.values(), strict=True):
            axes.plot(x, row, color=colour, linestyle=dashes)
        axes.set_yscale("log")
        axes.set_xlim(x[0], x[-1])
        axes.set_xlabel("tokens back, $k$")
        axes.set_ylabel("norm of the derivative")
        axes.yaxis.set_major_locator(LogLocator(numticks=7))
        axes.yaxis.set_minor_locator(NullLocator())
        _label_ends(axes, rows, looks)
    alt = (
        f"Norm of the derivative of the last output by the token k back, for k from {x[0]:g} to "
        f"{x[-1]:g}, logarithmic. "
        + " ".join(f"{name}: from {row[0]:.1g} to {row[-1]:.1g}." for name, row in rows.items())
    )
    return Plot(figure, alt)


def layer_times(lengths: ArrayLike, seconds: Mapping[str, ArrayLike], d_model: int) -> Plot:
    """Draw measured times of layers against the length of the sequence.

    Parameters
    ----------
    lengths : array-like, (m,)
        Rising.
    seconds : mapping of names to array-likes, (m,)
        For layers whose names begin with self-attention, RNN, GRU or convolution.
    d_model : int
        The width that all layers have.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the rows aren't positive, or not as long as `lengths`, or a name isn't of a known
        layer.

    Examples
    --------
    >>> layer_times([16, 64], {"RNN": [0.001, 0.004], "self-attention": [0.0001, 0.0016]}, 128)
    Time of one layer against the length n from 16 to 64 at d = 128, both axes logarithmic. RNN: \
from 1 to 4 ms. self-attention: from 0.1 to 1.6 ms.
    """
    check_positive_int("d_model", d_model)
    x, rows = _series("lengths", lengths, seconds)
    looks = _looks(rows)
    rows = {name: 1e3 * row for name, row in rows.items()}
    with course_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for (colour, marker, dashes), row in zip(looks, rows.values(), strict=True):
            axes.plot(x, row, color=colour, marker=marker, linestyle=dashes)
        _log_log(axes, x)
        axes.set_xlabel(f"length $n$ of the sequence ($d$ = {d_model})")
        axes.set_ylabel("time of one layer, ms")
        _label_ends(axes, rows, looks)
    alt = (
        f"Time of one layer against the length n from {x[0]:g} to {x[-1]:g} at d = {d_model}, both "
        "axes logarithmic. "
        + " ".join(f"{name}: from {row[0]:.2g} to {row[-1]:.2g} ms." for name, row in rows.items())
    )
    return Plot(figure, alt)


def flops_crossover(d_model: int = 512, longest: int = 8192, width: int = 3) -> Plot:
    """Draw the FLOPs of three layers against the length, and where they cross.

    Parameters
    ----------
    d_model : int, default 512
        The width that all layers have.
    longest : int, default 8192
        The largest length, above `d_model`.
    width : int, default 3
        How many tokens the convolution sees at once.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `longest` isn't above `d_model`.

    Examples
    --------
    >>> flops_crossover(64, 1024)
    FLOPs of one layer at d = 64 against the length n from 8 to 1024, both axes logarithmic. \
Self-attention starts below and grows as n²; RNN and convolution over 3 tokens grow as n. \
Self-attention needs fewer FLOPs than the RNN below n = 64, and more above.
    """
    for name, size in (("d_model", d_model), ("longest", longest), ("width", width)):
        check_positive_int(name, size)
    if longest <= d_model:
        raise ValueError(f"longest must be above d_model = {d_model}; got {longest}")
    layers: dict[str, Callable[[int], dict[str, accounting.Cost]]] = {
        "self-attention": lambda n: accounting.plain_self_attention(n, d_model),
        "RNN": lambda n: accounting.rnn(n, d_model),
        f"convolution, width {width}": lambda n: accounting.convolution(n, d_model, width),
    }

    def flops(name: str, n: int) -> int:
        return accounting.total(layers[name](n)).flops

    x = np.unique(np.geomspace(8, longest, 41).round().astype(int))
    rows = {name: np.array([float(flops(name, int(n))) for n in x]) for name in layers}
    lengths = range(1, longest + 1)
    crossing = next(n for n in lengths if flops("self-attention", n) >= flops("RNN", n))
    looks = _looks(rows)
    with course_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for (colour, _, dashes), row in zip(looks, rows.values(), strict=True):
            axes.plot(x, row, color=colour, linestyle=dashes)
        _log_log(axes, x)
        axes.axvspan(20, 50, color=MUTED, alpha=0.14, linewidth=0)
        axes.axvline(crossing, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot([crossing], [flops("RNN", crossing)], "o", color="black", zorder=4)
        axes.annotate(
            f"$n = d$ = {crossing}", (crossing, 0.03), (5, 0), textcoords="offset points",
            xycoords=("data", "axes fraction"),
        )  # fmt: skip
        axes.annotate(
            "a sentence", (crossing if 50 <= crossing < 256 else 50, 0.97), (6, 0),
            textcoords="offset points",
            xycoords=("data", "axes fraction"), va="top",
        )  # fmt: skip
        axes.set_xlabel(f"length $n$ of the sequence ($d$ = {d_model})")
        axes.set_ylabel("FLOPs of one layer")
        _label_ends(axes, rows, looks)
    alt = (
        f"FLOPs of one layer at d = {d_model} against the length n from {x[0]} to {x[-1]}, both "
        "axes logarithmic. Self-attention starts below and grows as n²; RNN and convolution over "
        f"{width} tokens grow as n. Self-attention needs fewer FLOPs than the RNN below "
        f"n = {crossing}, and more above."
    )
    return Plot(figure, alt)


def agreement_accuracy(distances: ArrayLike, accuracies: Mapping[str, ArrayLike]) -> Plot:
    """Draw the accuracy of several trained models against the distance of subject and verb.

    Parameters
    ----------
    distances : array-like, (m,)
        Rising.
    accuracies : mapping of names to array-likes, (seeds, m)
        For models whose names begin with self-attention, RNN, GRU or convolution. Each seed is a
        mark, a line joins the means. Marks of different models stand side by side.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the tables don't fit, an accuracy isn't between 0 and 1, or a name isn't of a known
        layer.

    Examples
    --------
    >>> agreement_accuracy([4, 8], {"GRU": [[1.0, 0.5], [1.0, 0.7]]})
    Accuracy against the distance of subject and verb, 4 to 8, mean of 2 seeds (lowest to \
highest). GRU: at 4 1.00 (1.00 to 1.00), at 8 0.60 (0.50 to 0.70).
    """
    x = np.asarray(distances, dtype=np.float64)
    tables = {name: np.asarray(table, dtype=np.float64) for name, table in accuracies.items()}
    if x.ndim != 1 or x.size < 2 or not (np.diff(x) > 0).all():
        raise ValueError(f"distances must be a row of at least two rising numbers; got {x}")
    if not tables:
        raise ValueError("accuracies must have at least one table; got none")
    looks = _looks(tables)
    for name, table in tables.items():
        if table.ndim != 2 or table.shape[1] != x.size or not table.size:
            raise ValueError(
                f"accuracies of {name} must be (seeds, {x.size}); got shape {table.shape}"
            )
        if not ((table >= 0.0) & (table <= 1.0)).all():
            raise ValueError(f"accuracies of {name} must lie between 0 and 1; got {table}")
    means = {name: table.mean(axis=0) for name, table in tables.items()}
    with course_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(0.5, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        aside = 0.026 * (x[-1] - x[0]) * (np.arange(len(tables)) - (len(tables) - 1) / 2)
        for look, by, (name, table) in zip(looks, aside, tables.items(), strict=True):
            colour, marker, dashes = look
            axes.plot(x, means[name], color=colour, linestyle=dashes)
            for row in table:
                axes.plot(
                    x + by, row, marker, color=colour, alpha=0.75, markersize=5, clip_on=False
                )
        axes.set_ylim(0.42, 1.02)
        axes.set_yticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
        axes.set_xticks(x)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("tokens between subject and verb")
        axes.set_ylabel("right verbs (unseen sentences)")
        axes.annotate("chance", (x[0], 0.495), va="top", color=MUTED)
        _label_ends(axes, means, looks)
    n_seeds = len(next(iter(tables.values())))
    parts = [
        f"{name}: "
        + ", ".join(
            f"at {d:g} {mean:.2f} ({low:.2f} to {high:.2f})"
            for d, mean, low, high in zip(
                x, means[name], table.min(axis=0), table.max(axis=0), strict=True
            )
        )
        for name, table in tables.items()
    ]
    alt = (
        f"Accuracy against the distance of subject and verb, {x[0]:g} to {x[-1]:g}, mean of "
        f"{n_seeds} seeds (lowest to highest). {'. '.join(parts)}."
    )
    return Plot(figure, alt)


def _series(
    name: str, x: ArrayLike, rows: Mapping[str, ArrayLike]
) -> tuple[NDArray, dict[str, NDArray]]:
    """Return the row and the named rows as arrays, or raise."""
    base = np.asarray(x, dtype=np.float64)
    if base.ndim != 1 or base.size < 2 or not (np.diff(base) > 0).all():
        raise ValueError(f"{name} must be a row of at least two rising numbers; got {base}")
    if not rows:
        raise ValueError("there must be at least one line; got none")
    arrays = {key: np.asarray(row, dtype=np.float64) for key, row in rows.items()}
    for key, row in arrays.items():
        if row.shape != base.shape or not (np.isfinite(row) & (row > 0)).all():
            raise ValueError(f"{key} must be a row of {base.size} positive numbers; got {row}")
    return base, arrays


def _log_log(axes: Axes, x: NDArray) -> None:
    """Set both axes logarithmic, with powers of two below and powers of ten at the side."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(x[0], x[-1])
    powers = [2.0**i for i in range(32) if x[0] <= 2.0**i <= x[-1]]
    axes.xaxis.set_major_locator(FixedLocator(powers[:: 1 if len(powers) < 7 else 2]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _looks(names: Iterable[str]) -> list[tuple[str, str, Any]]:
    """Return the colour, marker and dashes of each line, or raise if a name is of no family."""
    looks: list[tuple[str, str, Any]] = []
    for name in names:
        family = next((f for f in _FAMILIES if name.startswith(f)), None)
        if family is None:
            raise ValueError(f"a line's name must begin with {', '.join(_FAMILIES)}; got {name!r}")
        colour, marker = _FAMILIES[family]
        second = any(colour == other for other, _, _ in looks)
        looks.append((colour, marker, (0, (3.5, 1.5)) if second else "-"))
    return looks


def _label_ends(
    axes: Axes, rows: Mapping[str, NDArray], looks: Sequence[tuple[str, str, Any]]
) -> None:
    """Write each line's name at its right end, moved up or down where two would collide."""
    names = [name.replace(", ", ",\n") for name in rows]
    scale = axes.yaxis.get_transform().transform
    bottom, top = scale(np.array(axes.get_ylim()))
    ends = (scale(np.array([row[-1] for row in rows.values()])) - bottom) / (top - bottom)
    # Centres as near to their lines as the heights of the words allow, from the bottom up and
    # then, where the top is passed, back down.
    line = 1.25 * 11.0 / 72 / (0.8 * _HEIGHT)
    half = [line * (name.count("\n") + 1) / 2 for name in names]
    order = np.argsort(ends, kind="stable")
    for below, i in pairwise(order):
        ends[i] = max(ends[i], ends[below] + half[below] + half[i])
    ends[order[-1]] = min(ends[order[-1]], 1.0)
    for above, i in pairwise(order[::-1]):
        ends[i] = min(ends[i], ends[above] - half[above] - half[i])
    for name, y, (colour, _, _) in zip(names, ends, looks, strict=True):
        axes.annotate(
            name, (1.0, float(y)), (6, 0), xycoords="axes fraction", textcoords="offset points",
            color=colour, va="center", fontsize=11.0,
        )  # fmt: skip


# ---- Parts of drawings ---------------------------------------------------------------------------


def _labelled_box(
    x: float, y: float, width: float, height: float, colour: str | None, lines: Sequence[str]
) -> list[str]:
    """Return a rounded box, tinted or neutral, with lines of text in its middle."""
    ink = colour or "currentColor"
    first = y + height / 2 + 5 - 8.5 * (len(lines) - 1)
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{ink}" '
        f'fill-opacity="{0.14 if colour else 0.05}" stroke="{ink}" '
        f'stroke-opacity="{1 if colour else 0.6}" stroke-width="1.6"/>',
        *(
            svg_text(x + width / 2, first + 17 * i, escape(line), 14, "middle")
            for i, line in enumerate(lines)
        ),
    ]


def _disc(x: float, y: float, colour: str) -> str:
    """Return the circle of a state."""
    return (
        f'<circle cx="{x}" cy="{y}" r="15" fill="{colour}" fill-opacity="0.14" '
        f'stroke="{colour}" stroke-width="1.6"/>'
    )


def _stroke(
    x: float, y: float, to_x: float, to_y: float, colour: str | None, width: float = 1.8,
    opacity: float = 1.0,
) -> str:  # fmt: skip
    """Return a straight line."""
    return (
        f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" fill="none" stroke-linecap="round" '
        f'stroke="{colour or "currentColor"}" stroke-width="{width:g}" '
        f'stroke-opacity="{min(opacity, 1.0):g}"/>'
    )


def _arrow(
    x: float, y: float, to_x: float, to_y: float, colour: str | None = None, heavy: bool = False
) -> str:
    """Return a straight line that ends in a head."""
    along = np.array([to_x - x, to_y - y], dtype=np.float64)
    along /= np.hypot(*along)
    across = np.array([-along[1], along[0]])
    tip = np.array([to_x, to_y])
    (ax, ay), (bx, by) = tip - 7 * along + 4.5 * across, tip - 7 * along - 4.5 * across
    width = 2.6 if heavy else 1.6
    ink = colour or "currentColor"
    return _stroke(x, y, to_x, to_y, colour, width) + (
        f'<path d="M{ax:.1f} {ay:.1f} L{to_x:g} {to_y:g} L{bx:.1f} {by:.1f}" fill="none" '
        f'stroke="{ink}" stroke-width="{width:g}"/>'
    )


def _state(index: int, letter: str = "s") -> str:
    """Return a letter with an index below."""
    return (
        f'<tspan font-style="italic">{letter}</tspan><tspan dy="3" font-size="75%">{index}</tspan>'
    )
