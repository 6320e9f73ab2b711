"""Figures of chapter 05, scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.figures.style import (
    COLOURS,
    MUTED,
    SKY,
    WIDTH,
    Plot,
    Svg,
    bold,
    course_style,
    subscript,
    svg_text,
)
from course_lib.reference.attention import entropy, softmax, softmax_backward
from course_lib.validation import check_positive_int

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "qkv_diagram",
    "scaling_comparison",
    "score_variance",
    "softmax_shift_and_scale",
    "weights_heatmap",
]


def score_variance(d_ks: ArrayLike, raw: ArrayLike, scaled: ArrayLike) -> Plot:
    """Draw the variance of raw and of scaled scores against the width, on the line var = d_k.

    Parameters
    ----------
    d_ks : array-like, (n,)
        Widths of queries and keys, rising.
    raw, scaled : array-like, (n,)
        Measured variance of q·k and of q·k/√d_k.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the three aren't rows of one length of positive numbers, or have fewer than two.

    Examples
    --------
    >>> score_variance([4, 16], [4.1, 15.7], [1.02, 0.98])
    Variance of scores against d_k from 4 to 16, both axes logarithmic. Raw scores follow the line \
variance = d_k: from 4.1 to 16. Divided by √d_k they stay between 0.98 and 1.02.
    """
    x, y_raw, y_scaled = (np.asarray(a, dtype=np.float64) for a in (d_ks, raw, scaled))
    for name, a in (("d_ks", x), ("raw", y_raw), ("scaled", y_scaled)):
        if a.shape != x.shape or a.ndim != 1 or a.size < 2 or not (np.isfinite(a) & (a > 0)).all():
            raise ValueError(
                f"{name} must be a row of at least two positive numbers, as long as d_ks; got {a}"
            )
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.7), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(x, x, color=MUTED, linewidth=1.2, zorder=1)
        axes.plot(x, np.ones_like(x), color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
        axes.plot(x, y_raw, "o", color=COLOURS["orange"], zorder=3, clip_on=False)
        axes.plot(x, y_scaled, "s", color=COLOURS["blue"], zorder=3, clip_on=False)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        _plain_powers(axes, x)
        top = float(max(x[-1], y_raw.max()))
        axes.set_ylim(0.5, top * 1.6)
        axes.yaxis.set_major_locator(FixedLocator([4.0**i for i in range(12) if 4**i <= top * 1.6]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        axes.set_xlabel("width $d_k$ of queries and keys")
        axes.set_ylabel("variance of the scores")
        axes.annotate(
            "raw, $q\\cdot k$:\non the line var = $d_k$",
            (0.05, 0.93),
            xycoords="axes fraction",
            color=COLOURS["orange"],
            va="top",
        )
        axes.annotate(
            "divided by $\\sqrt{d_k}$: near 1",
            (0.98, 1.35),
            xycoords=("axes fraction", "data"),
            color=COLOURS["blue"],
            ha="right",
            va="bottom",
        )
    alt = (
        f"Variance of scores against d_k from {x[0]:g} to {x[-1]:g}, both axes logarithmic. Raw "
        f"scores follow the line variance = d_k: from {y_raw[0]:.2g} to {_two(y_raw[-1])}. "
        f"Divided by √d_k they stay between {y_scaled.min():.2f} and {y_scaled.max():.2f}."
    )
    return Plot(figure, alt)


def scaling_comparison(
    d_ks: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512, 1024),
    n_keys: int = 64,
    n_queries: int = 512,
    seed: int = 5,
) -> Plot:
    """Draw what three divisors of the scores do to the weights and to the gradient.

    Queries and keys are drawn from the standard normal distribution. The upper panel has the mean
    entropy of the weights as a share of ln n. The lower one has the Frobenius norm of ∂p/∂q, how
    much a query's weights p answer to a change of the query q: softmax's Jacobian diag(p) − p pᵀ
    times the keys, over the divisor. It is the median over queries, because with unscaled scores
    the mean is made by the few queries whose two best keys happen to tie.

    Parameters
    ----------
    d_ks : sequence of ints
        Widths of queries and keys, rising.
    n_keys : int, default 64
    n_queries : int, default 512
        Queries measured at each width, in groups of at most 64 that share their keys.
    seed : int, default 5

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are fewer than two widths, fewer than two keys, or a size isn't a whole number of
        at least 1.

    Examples
    --------
    >>> "Divided by √d_k" in scaling_comparison((4, 16), n_keys=8, n_queries=64).alt
    True
    """
    widths = [int(d) if isinstance(d, np.integer) else d for d in d_ks]
    for d in widths:
        check_positive_int("d_ks", d)
    check_positive_int("n_keys", n_keys)
    check_positive_int("n_queries", n_queries)
    if len(widths) < 2 or n_keys < 2:
        raise ValueError(
            f"d_ks must have at least two widths and n_keys be at least 2; got {widths}, {n_keys}"
        )
    spread, gradient = _measure_scalings(widths, n_keys, n_queries, seed)
    styles = [
        ("not divided", COLOURS["orange"], "o"),
        ("divided by $\\sqrt{d_k}$", COLOURS["blue"], "s"),
        ("divided by $d_k$", COLOURS["green"], "^"),
    ]
    with course_style():
        figure = Figure(figsize=(WIDTH, 6.2), layout=ConstrainedLayoutEngine(h_pad=0.09))
        upper, lower = figure.subplots(2, 1, sharex=True)
        for axes, values in ((upper, spread), (lower, gradient)):
            for row, (_, colour, marker) in zip(values, styles, strict=True):
                axes.plot(widths, row, color=colour, marker=marker)
            axes.set_xscale("log", base=2)
        _plain_powers(lower, np.array(widths))
        upper.set_title("How evenly the weights are spread")
        upper.set_ylabel("entropy / $\\ln\\,n$\n(0 one key, 1 uniform)")
        upper.set_ylim(-0.02, 1.12)
        upper.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        lower.set_title("How strongly the weights answer to the query")
        lower.set_yscale("log")
        lower.set_ylabel("$\\|\\partial p\\,/\\,\\partial q\\|$, median")
        lower.set_xlabel("width $d_k$ of queries and keys")
        lower.yaxis.set_minor_locator(NullLocator())
        lower.yaxis.set_major_formatter(FuncFormatter(_plain))
        low, high = float(gradient.min()), float(gradient.max())
        lower.set_ylim(low / 1.8, high * 3.5)
        middle = len(widths) // 2
        for axes, values, offsets in (
            (upper, spread, ((0, 8, "left"), (0, -9, "center"), (0, 5, "center"))),
            (lower, gradient, ((0, 9, "center"), (0, 8, "center"), (-8, -8, "right"))),
        ):
            for row, (name, colour, _), (dx, dy, side) in zip(values, styles, offsets, strict=True):
                axes.annotate(
                    name,
                    (widths[middle], float(row[middle])),
                    (dx, dy),
                    textcoords="offset points",
                    color=colour,
                    ha=side,
                    va="bottom" if dy > 0 else "top",
                )
    first, last = widths[0], widths[-1]
    parts = [
        f"{name}, entropy goes from {s[0]:.2f} to {s[-1]:.2f} of ln n and the gradient norm "
        f"from {g[0]:.1g} to {g[-1]:.1g}"
        for name, s, g in zip(
            ("Not divided", "Divided by √d_k", "Divided by d_k"), spread, gradient, strict=True
        )
    ]
    alt = (
        f"Two panels against d_k from {first} to {last}, with {n_keys} keys: entropy of the "
        f"weights, and norm of ∂p/∂q, median over queries. {'. '.join(parts)}."
    )
    return Plot(figure, alt)


def _measure_scalings(
    widths: Sequence[int], n_keys: int, n_queries: int, seed: int
) -> tuple[NDArray, NDArray]:
    """Return entropy over ln n, and the median norm of ∂p/∂q, both (3 divisors, widths)."""
    rng = np.random.default_rng(seed)
    spread, gradient = np.empty((3, len(widths))), np.empty((3, len(widths)))
    identity = np.eye(n_keys)
    for column, d in enumerate(widths):
        entropies: list[list[NDArray]] = [[], [], []]
        norms: list[list[NDArray]] = [[], [], []]
        for start in range(0, n_queries, 64):
            q = rng.standard_normal((min(64, n_queries - start), d))
            k = rng.standard_normal((n_keys, d))
            scores, gram = q @ k.T, k @ k.T
            for i, divisor in enumerate((1.0, sqrt(d), float(d))):
                p = softmax(scores / divisor)
                shape = (len(q), n_keys, n_keys)
                jacobian = softmax_backward(
                    np.broadcast_to(p[:, None, :], shape), np.broadcast_to(identity, shape)
                )
                # ‖J K‖² = Σ (J K Kᵀ) ⊙ J: the n × n Gram matrix instead of n × d rows a query
                square = ((jacobian @ gram) * jacobian).sum(axis=(-2, -1))
                norms[i].append(np.sqrt(np.maximum(square, 0.0)) / divisor)
                entropies[i].append(entropy(p) / log(n_keys))
        for i in range(3):
            spread[i, column] = np.concatenate(entropies[i]).mean()
            gradient[i, column] = np.median(np.concatenate(norms[i]))
    return spread, gradient


def weights_heatmap(
    weights: ArrayLike,
    query_labels: Sequence[str],
    key_labels: Sequence[str] | None = None,
    mask: ArrayLike | None = None,
) -> Plot:
    """Draw a table of weights: a row for each query, a column for each key.

    Parameters
    ----------
    weights : array-like, (n_q, n_k)
        From 0 to 1. Eight columns are as many as can be read on a phone.
    query_labels : sequence of str, (n_q,)
    key_labels : sequence of str, (n_k,), optional
        The query labels where left out.
    mask : boolean array-like, (n_q, n_k), optional
        True = may look. Hidden cells are hatched.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the shapes don't fit, a weight isn't between 0 and 1, or `mask` isn't boolean.

    Examples
    --------
    >>> weights_heatmap([[1, 0], [0.25, 0.75]], ["I", "you"], mask=[[True, False], [True, True]])
    Table of weights, 2 queries by 2 keys. I: I 1.00, you hidden. you: I 0.25, you 0.75.
    """
    table = np.asarray(weights, dtype=np.float64)
    keys = list(query_labels if key_labels is None else key_labels)
    queries = list(query_labels)
    if table.shape != (len(queries), len(keys)) or table.size == 0:
        raise ValueError(
            f"weights must have a row for each query label and a column for each key label, "
            f"{(len(queries), len(keys))}; got shape {table.shape}"
        )
    if not ((table >= 0.0) & (table <= 1.0 + 1e-6)).all():
        raise ValueError(f"weights must lie between 0 and 1; got {table.min()} to {table.max()}")
    seen = np.ones(table.shape, dtype=bool) if mask is None else np.asarray(mask)
    if seen.dtype != np.bool_ or seen.shape != table.shape:
        raise ValueError(
            f"mask must be boolean of shape {table.shape}; got {seen.dtype} of shape {seen.shape}"
        )
    n_q, n_k = table.shape
    digits = 3 if n_k <= 5 else 2
    size = 11.0 if n_k <= 6 else 10.5
    # Light enough that black numbers are read on all of it, and white ones when it's inverted.
    blues = LinearSegmentedColormap.from_list("weights", ["#FFFFFF", SKY])
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.5 + 0.5 * n_q), layout="constrained")
        axes = figure.add_subplot()
        image = axes.imshow(table, cmap=blues, vmin=0.0, vmax=1.0, aspect="auto")
        for i in range(n_q):
            for j in range(n_k):
                if seen[i, j]:
                    number = f"{table[i, j]:.{digits}f}"
                    axes.text(j, i, number, ha="center", va="center", color="black", size=size)
                else:
                    axes.add_patch(
                        Rectangle(
                            (j - 0.5, i - 0.5), 1, 1,
                            facecolor="#F4F4F4", edgecolor="#8A8A8A", hatch="////", linewidth=0,
                        )
                    )  # fmt: skip
        axes.grid(False)
        axes.set_xticks(np.arange(n_k + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(n_q + 1) - 0.5, minor=True)
        axes.grid(True, which="minor", color="#BBBBBB", linewidth=0.8)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        crowded = max(map(len, keys)) * n_k > 36
        axes.set_xticks(range(n_k), keys, rotation=90 if crowded else 0)
        axes.set_yticks(range(n_q), queries)
        axes.set_xlabel("key")
        axes.set_ylabel("query")
        bar = figure.colorbar(image, ax=axes, ticks=[0.0, 0.5, 1.0], fraction=0.045, pad=0.02)
        bar.ax.set_yticklabels(["0", "0.5", "1"])
        bar.set_label("weight")
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
    rows = [
        f"{queries[i]}: "
        + ", ".join(
            f"{keys[j]} {table[i, j]:.2f}" if seen[i, j] else f"{keys[j]} hidden"
            for j in range(n_k)
        )
        for i in range(n_q)
    ]
    return Plot(figure, f"Table of weights, {n_q} queries by {n_k} keys. {'. '.join(rows)}.")


def softmax_shift_and_scale(scores: ArrayLike, shift: float = 10.0, factor: float = 3.0) -> Plot:
    """Draw softmax of some scores, of the scores shifted, and of the scores stretched.

    Parameters
    ----------
    scores : array-like, (n,)
    shift : float, default 10
        Added to all scores.
    factor : float, default 3
        Multiplied with all scores.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If `scores` isn't one row of one to eight finite numbers.

    Examples
    --------
    >>> softmax_shift_and_scale([0.0, 1.0])
    Three bar charts of weights. Scores 0, 1: 0.27, 0.73. All plus 10: 0.27, 0.73, the same. All \
times 3: 0.05, 0.95.
    """
    s = np.asarray(scores, dtype=np.float64)
    if s.ndim != 1 or not 1 <= s.size <= 8 or not np.isfinite(s).all():
        raise ValueError(f"scores must be one row of one to eight finite numbers; got {scores!r}")
    panels = [
        ("softmax of the scores", s, COLOURS["blue"]),
        (f"{shift:g} added to each: nothing changes", s + shift, COLOURS["blue"]),
        (f"each times {factor:g}: the differences grow", s * factor, COLOURS["orange"]),
    ]
    with course_style():
        figure = Figure(figsize=(WIDTH, 5.8), layout=ConstrainedLayoutEngine(h_pad=0.09))
        rows_of_axes = figure.subplots(3, 1, sharey=True)
        for axes, (title, row, colour) in zip(rows_of_axes, panels, strict=True):
            weights = softmax(row)
            axes.bar(range(s.size), weights, width=0.62, color=colour)
            for i, weight in enumerate(weights):
                axes.annotate(
                    f"{weight:.2f}", (i, weight), (0, 3), textcoords="offset points", ha="center"
                )
            axes.set_title(title)
            axes.set_xticks(range(s.size), [_signed(x) for x in row])
            axes.set_ylim(0.0, 1.2)
            axes.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
            axes.set_ylabel("weight")
            axes.grid(False, axis="x")
            axes.tick_params(axis="x", length=0)
        axes.set_xlabel("score")
    listed = [", ".join(f"{w:.2f}" for w in softmax(row)) for _, row, _ in panels]
    alt = (
        f"Three bar charts of weights. Scores {', '.join(map(_signed, s))}: {listed[0]}. "
        f"All plus {shift:g}: {listed[1]}, the same. All times {factor:g}: {listed[2]}."
    )
    return Plot(figure, alt)


def qkv_diagram() -> Svg:
    """Draw how queries, keys and values flow through attention, with a shape on every box.

    Returns
    -------
    Svg

    Examples
    --------
    >>> qkv_diagram().alt.split(":")[0]
    'Data flow of scaled dot-product attention'
    """
    n_q, n_k, d_k, d_v = (subscript(a, b) for a, b in ("nq", "nk", "dk", "dv"))
    blue, orange, green = COLOURS["blue"], COLOURS["orange"], COLOURS["green"]
    parts = []
    for x, letter, role, shape, colour in (
        (8, "Q", "queries", f"{n_q} × {d_k}", orange),
        (128, "K", "keys", f"{n_k} × {d_k}", blue),
        (248, "V", "values", f"{n_k} × {d_v}", green),
    ):
        parts += [
            _box(x, 8, 104, 50, colour),
            svg_text(
                x + 52, 28, f'<tspan font-weight="700">{letter}</tspan>  {role}', anchor="middle"
            ),
            svg_text(x + 52, 48, shape, size=13.5, anchor="middle"),
        ]
    steps = (
        ("scores", _sup("QK", "⊤"), False),
        ("scaled", f"divide by √{d_k}", False),
        ("masked", "optional: −∞ where hidden", True),
        ("weights", "softmax of each row", False),
    )
    parts += [  # V runs past the four steps, each 74 high with its arrow, to the output
        _line("M60 58 V82", orange, arrow=True),
        _line("M180 58 V82", blue, arrow=True),
        _line("M300 58 V378", green, arrow=True),
    ]
    y = 84
    for name, how, optional in steps:
        parts += [
            _box(8, y, 224, 50, None, dashed=optional),
            svg_text(20, y + 21, bold(name)),
            svg_text(20, y + 40, how, size=13.5),
            svg_text(220, y + 21, f"{n_q} × {n_k}", size=13.5, anchor="end"),
        ]
        parts.append(_line(f"M120 {y + 50} V{y + 72}", None, arrow=True))
        y += 74
    parts += [
        _box(8, y, 344, 50, green),
        svg_text(20, y + 21, bold("output")),
        svg_text(20, y + 40, "weights · V: a mean of the values", size=13.5),
        svg_text(340, y + 21, f"{n_q} × {d_v}", size=13.5, anchor="end"),
    ]
    alt = (
        "Data flow of scaled dot-product attention: queries Q (n_q × d_k) and keys K (n_k × d_k) "
        "give scores QKᵀ (n_q × n_k), which are divided by √d_k, set to −∞ where an optional mask "
        "hides a key, and turned into weights (n_q × n_k) by a softmax of each row; the weights "
        "times the values V (n_k × d_v) are the output (n_q × d_v)."
    )
    return Svg("".join(parts), 360, y + 58, alt, max_width=440)


def _box(x: float, y: float, width: float, height: float, colour: str | None,
         dashed: bool = False) -> str:  # fmt: skip
    """Return a rounded box, tinted in a colour or neutral."""
    ink = colour or "currentColor"
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{ink}" '
        f'fill-opacity="{0.12 if colour else 0.04}" stroke="{ink}" '
        f'stroke-opacity="{1 if colour else 0.6}" stroke-width="1.6"{dash}/>'
    )


def _line(path: str, colour: str | None, arrow: bool = False) -> str:
    """Return a path that ends downwards, with an arrow head if wanted."""
    ink = colour or "currentColor"
    head = ""
    if arrow:
        start, end = path[1:].split(" V")
        x, y = float(start.split()[0]), float(end)
        head = f'<path d="M{x - 4.5:g} {y - 7:g} L{x:g} {y:g} L{x + 4.5:g} {y - 7:g}" '
        head += f'fill="none" stroke="{ink}" stroke-width="1.8"/>'
    return f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="1.8"/>{head}'


def _sup(letters: str, index: str) -> str:
    """Return letters with an index above."""
    return f'{letters}<tspan dy="-5" font-size="75%">{index}</tspan>'


def _plain(value: float, _: object = None) -> str:
    """Return a number without exponent: 0.01, 1, 256."""
    return f"{value:.10f}".rstrip("0").rstrip(".")


def _two(value: float) -> str:
    """Return a number rounded to two significant digits, without exponent."""
    return _plain(float(f"{value:.2g}"))


def _signed(value: float) -> str:
    """Return a number with a true minus sign."""
    return f"{value:g}".replace("-", "−")


def _plain_powers(axes: Axes, x: NDArray) -> None:
    """Label every second power of two on a logarithmic x axis, as plain numbers."""
    ticks = [2.0**i for i in range(0, 24, 2) if x[0] <= 2**i <= x[-1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
