"""Figures of chapter 08, rotary position embedding."""

from __future__ import annotations

from collections.abc import Mapping
from math import atan2, degrees, hypot, pi
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.figures.style import (
    COLOURS,
    MUTED,
    WIDTH,
    Plot,
    Sliders,
    Svg,
    bold,
    course_style,
    subscript,
    svg_text,
)
from course_lib.reference.rotary import half_split_permutation, rotary_frequencies
from course_lib.validation import check_at_least, check_even

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "frequency_ramps",
    "loss_against_position",
    "pair_layouts",
    "rotating_pairs",
    "score_against_offset",
]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN, _PURPLE = COLOURS["green"], COLOURS["purple"]
_RADIUS, _MIDDLE = 37, 76


# ---- Drawings ------------------------------------------------------------------------------------


def rotating_pairs(
    query: ArrayLike,
    key: ArrayLike,
    frequencies: ArrayLike,
    m: int = 1,
    n: int = 3,
    longest: int = 60,
) -> Sliders:
    """Draw the pairs of a query and a key, turned by their positions, and the score.

    Pair i is columns 2i and 2i + 1, a point in a plane of its own. Hands turn counter-clockwise,
    as angles are counted.

    Parameters
    ----------
    query, key : array-like, (d,)
        Before they are turned; no pair of either is (0, 0).
    frequencies : array-like, (d/2,)
        One to four, in radians a position.
    m, n : int, default 1 and 3
        Positions of query and key where the sliders start.
    longest : int, default 60
        The sliders' end.

    Returns
    -------
    Sliders

    Raises
    ------
    ValueError
        If the shapes don't fit, a pair has no direction, or a slider would start beyond its end.

    Examples
    --------
    >>> rotating_pairs([1.0, 0.0], [1.0, 0.0], [np.pi / 6])
    Pairs of a query, at first at position 1, and of a key, at first at position 3, turned by \
their positions; sliders move both. A pair adds the product of both lengths and the cosine of the \
angle between. Pair 0 turns by 0.524 radians a position and adds 0.50. The score is 0.50.
    """
    theta = np.asarray(frequencies, dtype=np.float64)
    if theta.ndim != 1 or not 1 <= theta.size <= 4 or not np.isfinite(theta).all():
        raise ValueError(f"frequencies must be one to four numbers; got {frequencies!r}")
    pairs = {}
    for name, vector in (("query", query), ("key", key)):
        row = np.asarray(vector, dtype=np.float64)
        if row.shape != (2 * theta.size,) or not np.isfinite(row).all():
            raise ValueError(f"{name} must be a row of {2 * theta.size} numbers; got {vector!r}")
        pairs[name] = row.reshape(-1, 2)
        if not pairs[name].any(axis=1).all():
            raise ValueError(f"{name} must have no pair (0, 0), which has no direction; got {row}")
    check_at_least("m", m, 0)
    check_at_least("n", n, 0)
    check_at_least("longest", longest, max(m, n))
    longest_hand = max(hypot(*pair) for rows in pairs.values() for pair in rows)
    parts, said = [], []
    total = 0.0
    for i, turn in enumerate(theta):
        x = 180 + 88 * (i - (theta.size - 1) / 2)
        parts.append(svg_text(x, 22, f"pair {i}", 14, "middle"))
        parts.append(
            f'<circle cx="{x:g}" cy="{_MIDDLE}" r="{_RADIUS}" fill="none" stroke="currentColor" '
            'stroke-opacity="0.55" stroke-width="1.4"/>'
            f'<path d="M{x + _RADIUS:g} {_MIDDLE} h-5" stroke="currentColor" '
            'stroke-opacity="0.55" stroke-width="1.4"/>'
        )
        for name, colour, width, position in (
            ("key", _ORANGE, 3, n),
            ("query", _BLUE, 4, m),
        ):
            a, b = pairs[name][i]
            start, long = atan2(b, a), (_RADIUS - 4) * hypot(a, b) / longest_hand
            parts.append(
                f'<path data-hand="{name}" data-theta="{float(turn)!r}" data-start="{start!r}" '
                f'data-length="{hypot(a, b)!r}" data-x="{x:g}" d="M{x:g} {_MIDDLE} h{long:.1f}" '
                f'stroke="{colour}" stroke-width="{width}" stroke-linecap="round" '
                f'transform="{_turned(start + position * float(turn), x)}"/>'
            )
        parts.append(f'<circle cx="{x:g}" cy="{_MIDDLE}" r="3.5"/>')
        added = _product(pairs["query"][i], pairs["key"][i], (n - m) * float(turn))
        total += added
        parts.append(svg_text(x, 136, f"{subscript('θ', str(i))} = {turn:.3g}", 13.5, "middle"))
        parts.append(
            svg_text(x, 158, f'<tspan data-added="{i}">{_number(added)}</tspan>', 14, "middle")
        )
        said.append(
            f"Pair {i} turns by {turn:.3g} radian{'s' if turn != 1 else ''} a position and adds "
            f"{_number(added)}."
        )
    sum_of_all = f'score = sum = <tspan data-score="">{_number(total)}</tspan>'
    parts.append(svg_text(180, 186, bold(sum_of_all), 15, "middle"))
    rule = "a pair adds length × length × cos(angle between)"
    parts.append(svg_text(180, 236, rule, 13, "middle"))
    parts.append(
        f'<path d="M74 206 h26" stroke="{_BLUE}" stroke-width="4" stroke-linecap="round"/>'
        + svg_text(108, 211, "query", 13.5)
        + f'<path d="M210 206 h26" stroke="{_ORANGE}" stroke-width="3" stroke-linecap="round"/>'
        + svg_text(244, 211, "key", 13.5)
    )
    alt = (
        f"Pairs of a query, at first at position {m}, and of a key, at first at position {n}, "
        "turned by their positions; sliders move both. A pair adds the product of both lengths and "
        f"the cosine of the angle between. {' '.join(said)} The score is {_number(total)}."
    )
    return Sliders(
        "".join(parts),
        360,
        246,
        alt,
        kind="rotating-pairs",
        sliders=(("query at m", 0, longest, m), ("key at n", 0, longest, n)),
        caption=_said(m, n, total),
        draw=_DRAW_PAIRS,
        legend="Positions of the query and of the key",
    )


def _product(query: NDArray, key: NDArray, angle: float) -> float:
    """Return the dot product of a pair of the query with one of the key turned by an angle."""
    turned = atan2(key[1], key[0]) + angle - atan2(query[1], query[0])
    return float(hypot(*query) * hypot(*key) * np.cos(turned))


def _said(m: int, n: int, score: float) -> str:
    """Return what stands under the pairs."""
    return (
        f"Query at {m}, key at {n}: offset n − m = {_number(n - m, 0)}, score {_number(score)}. "
        "Move both by the same number: the hands turn, the score stays."
    )


# The same numbers and words as `_said`, `_product` and `_turned`; a test holds them together.
_DRAW_PAIRS = """var m = values[0], n = values[1], keys = [], queries = [], score = 0;
    function number(x, digits) {
      var s = x.toFixed(digits);
      return Number(s) === 0 ? (0).toFixed(digits) : s.replace("-", "\\u2212");
    }
    root.querySelectorAll("[data-hand]").forEach(function (hand) {
      var isQuery = hand.dataset.hand === "query", x = hand.getAttribute("data-x");
      var angle = Number(hand.dataset.start) + (isQuery ? m : n) * Number(hand.dataset.theta);
      var turned = ((-angle * 180 / Math.PI % 360 + 360) % 360).toFixed(2);
      hand.setAttribute("transform", "rotate(" + turned + " " + x + " 76)");
      (isQuery ? queries : keys).push([Number(hand.dataset.length), angle]);
    });
    queries.forEach(function (q, i) {
      var added = q[0] * keys[i][0] * Math.cos(keys[i][1] - q[1]);
      root.querySelector('[data-added="' + i + '"]').textContent = number(added, 2);
      score += added;
    });
    root.querySelector("[data-score]").textContent = number(score, 2);
    return "Query at " + m + ", key at " + n + ": offset n \\u2212 m = " + number(n - m, 0) +
      ", score " + number(score, 2) +
      ". Move both by the same number: the hands turn, the score stays.";"""


def pair_layouts(d: int = 8) -> Svg:
    """Draw which columns are turned together in the two layouts, and where each column goes.

    Parameters
    ----------
    d : int, default 8
        Width that is rotated, even, from 4 to 8.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If `d` isn't 4, 6 or 8.

    Examples
    --------
    >>> pair_layouts(4)
    Two rows of 4 columns. Interleaved: the pairs are columns 0 and 1, 2 and 3. Half-split: the \
pairs are columns 0 and 2, 1 and 3; in order they hold the interleaved columns 0, 2, 1, 3.
    """
    check_even("d", d)
    if not 4 <= d <= 8:
        raise ValueError(f"d must be 4, 6 or 8: there is room for four pairs; got {d}")
    p = half_split_permutation(d)
    half, side, wide = d // 2, 30, 40
    colours = list(COLOURS.values())
    left = 180 - wide * d / 2 + (wide - side) / 2
    tops = (84, 190)
    parts = [
        svg_text(180, 22, bold("interleaved") + ": neighbours turn together", 14, "middle"),
        svg_text(
            180,
            304,
            bold("half-split") + ": columns " + f"{half} apart turn together",
            14,
            "middle",
        ),
    ]
    for target, source in enumerate(p):
        x, to = left + wide * (source + 0.5), left + wide * (target + 0.5)
        x, to = x - (wide - side) / 2, to - (wide - side) / 2
        parts.append(
            f'<path d="M{x:g} {tops[0] + side + 3} L{to:g} {tops[1] - 3}" fill="none" '
            f'stroke="{colours[source // 2]}" stroke-opacity="0.7" stroke-width="1.6"/>'
        )
    for i in range(half):
        for top, (a, b), below in (
            (tops[0], (2 * i, 2 * i + 1), False),
            (tops[1], (i, half + i), True),
        ):
            xs = [left + wide * column + side / 2 for column in (a, b)]
            y = top + side + 3 if below else top - 3
            high = (14 + 9 * i if half > 1 else 14) if below else 22
            bend = y + high * 1.8 if below else y - high
            parts.append(
                f'<path d="M{xs[0]:g} {y} C{xs[0]:g} {bend:g} {xs[1]:g} {bend:g} {xs[1]:g} {y}" '
                f'fill="none" stroke="{colours[i]}" stroke-width="2"/>'
            )
            for column, x in zip((a, b), xs, strict=True):
                parts.append(
                    f'<rect x="{x - side / 2:g}" y="{top}" width="{side}" height="{side}" rx="4" '
                    f'fill="{colours[i]}" fill-opacity="0.22" stroke="{colours[i]}" '
                    'stroke-width="1.4"/>'
                )
                named = column if top == tops[0] else int(p[column])
                parts.append(svg_text(x, top + 20, str(named), 14, "middle"))
    by_side = ", ".join(f"{2 * i} and {2 * i + 1}" for i in range(half))
    apart = ", ".join(f"{i} and {half + i}" for i in range(half))
    alt = (
        f"Two rows of {d} columns. Interleaved: the pairs are columns {by_side}. Half-split: the "
        f"pairs are columns {apart}; in order they hold the interleaved columns "
        f"{', '.join(map(str, p))}."
    )
    return Svg("".join(parts), 360, 316, alt)


# ---- Plots ---------------------------------------------------------------------------------------


def score_against_offset(d: int = 128, base: float = 10000.0, furthest: int = 1000) -> Plot:
    """Draw how the score of equal and of random vectors depends on the offset.

    A query and a key whose entries are all 1 score ``2 Σ_i cos(Δ θ_i)`` at the offset Δ. The bound
    is ``2 |Σ_i e^{iΔθ_i}|``: no query and key of the same lengths score higher, if the angle from
    the one to the other is the same in all pairs. Both are divided by their value at Δ = 0.
    Vectors drawn at random have no such bound: their scores are divided by their lengths.

    Parameters
    ----------
    d : int, default 128
        Width, even.
    base : float, default 10000
    furthest : int, default 1000

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 2, `base` isn't above 1, or `furthest` isn't a whole
        number of at least 10.

    References
    ----------
    Su et al., "RoFormer", 2021 (arXiv:2104.09864), section 3.4.3 and figure 2.

    Examples
    --------
    >>> "Equal vectors: 1.00 at offset 0" in score_against_offset(16, furthest=20).alt
    True
    """
    check_at_least("furthest", furthest, 10)
    theta = rotary_frequencies(d, base)
    offsets = np.arange(furthest + 1)
    phases = np.exp(1j * offsets[:, None] * theta)  # (furthest + 1, d/2)
    equal = phases.real.mean(axis=1)
    bound = np.abs(phases.mean(axis=1))
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((2, 200, d // 2, 2)) @ np.array([1, 1j])
    scores = ((query.conj() * key) @ phases.T).real  # (200, furthest + 1)
    scores /= (np.linalg.norm(query, axis=1) * np.linalg.norm(key, axis=1))[:, None]
    spread = scores.std(axis=0)
    with course_style():
        figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
        axes = figure.add_subplot()
        axes.fill_between(
            offsets, -spread, spread, color=MUTED, alpha=0.3, linewidth=0,
            label="random vectors: mean ± deviation",
        )  # fmt: skip
        axes.plot(
            offsets, bound, color=_ORANGE, linestyle=(0, (4, 2)),
            label="bound where pairs are alike",
        )  # fmt: skip
        axes.plot(offsets, equal, color=_BLUE, linewidth=1.6, label="equal vectors")
        axes.set_xlim(0, furthest)
        axes.set_ylim(min(-0.3, float(equal.min()) - 0.05), 1.05)
        axes.set_xlabel("offset $n - m$, tokens")
        axes.set_ylabel("score, relative")
        axes.legend(loc="upper right", frameon=False)
    near, far = slice(1, furthest // 10 + 1), slice(furthest // 2, None)
    alt = (
        f"Score against the offset from 0 to {furthest}, d = {d}. Equal vectors: "
        f"{equal[0]:.2f} at offset 0, {equal[near].mean():.2f} on average over the next "
        f"{furthest // 10}, {equal[far].mean():.2f} beyond {furthest // 2}. The bound falls from "
        f"1.00 to {bound[near].mean():.2f} and {bound[far].mean():.2f}. Scores of random vectors "
        f"deviate by {spread[near].mean():.2f} and {spread[far].mean():.2f}."
    )
    return Plot(figure, alt)


def frequency_ramps(
    frequencies: ArrayLike,
    stretched: Mapping[str, ArrayLike],
    original_length: int,
    limits: tuple[float, float] = (32, 1),
) -> Plot:
    """Draw by how much each way to stretch the context slows down each pair.

    Parameters
    ----------
    frequencies : array-like, (d/2,)
        Those of training, falling.
    stretched : mapping of names to array-likes, (d/2,)
        One to three other sets.
    original_length : int
        Length that was trained, which says how many turns a pair made.
    limits : tuple of two floats, default (32, 1)
        Numbers of turns that are marked.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a row isn't as long as `frequencies`, or a number isn't positive.

    Examples
    --------
    >>> frequency_ramps([1.0, 0.1], {"slower": [0.5, 0.05]}, 100)
    How many times slower each pair turns, pair 0 with 15.9 turns in 100 tokens, pair 1 with 1.59. \
slower: 2.0 at the fastest pair, 2.0 in the middle, 2.0 at the slowest.
    """
    check_at_least("original_length", original_length, 1)
    theta = np.asarray(frequencies, dtype=np.float64)
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in stretched.items()}
    if not 1 <= len(rows) <= 3:
        raise ValueError(f"stretched must have one to three rows; got {len(rows)}")
    for name, row in (("frequencies", theta), *rows.items()):
        if row.ndim != 1 or row.shape != theta.shape or row.size < 2 or not (row > 0).all():
            raise ValueError(
                f"{name} must be a row of at least two positive numbers, as long as frequencies; "
                f"got {row}"
            )
    slower = {name: theta / row for name, row in rows.items()}
    turns = original_length * theta / (2 * pi)
    pairs = np.arange(theta.size)
    top = max(float(row.max()) for row in slower.values())
    with course_style():
        figure = Figure(figsize=(WIDTH, 4.3), layout="constrained")
        axes = figure.add_subplot()
        every = max(1, theta.size // 10)
        for i, (name, row) in enumerate(slower.items()):
            axes.plot(pairs, row, markevery=every, markersize=5, label=name, **_look(name, i + 1))
        for limit in limits:
            # Pairs lie evenly in log θ, so where between two pairs the limit falls is read there.
            at = float(np.interp(-np.log(limit), -np.log(turns), pairs))
            if turns[-1] < limit < turns[0]:
                axes.axvline(at, color=MUTED, linewidth=1.2, linestyle=(0, (1, 2)))
                axes.annotate(
                    f"{limit:g} turn{'s' if limit != 1 else ''}", (at, 1.0), (3, -4),
                    xycoords=("data", "axes fraction"), textcoords="offset points", color=MUTED,
                    va="top",
                )  # fmt: skip
        axes.set_xlim(0, theta.size - 1)
        axes.set_yscale("log", base=2)
        axes.set_ylim(0.9, max(1.3, top) * 1.35)
        powers = [2.0**i for i in range(12) if 2.0**i <= top * 1.2]
        axes.yaxis.set_major_locator(FixedLocator(powers))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ×"))
        axes.set_xlabel("pair $i$ (fast on the left, slow on the right)")
        axes.set_ylabel("how many times slower")
        figure.legend(
            loc="outside upper left", frameon=False, labelcolor="linecolor", handlelength=2.8
        )
    middle = theta.size // 2
    alt = (
        f"How many times slower each pair turns, pair 0 with {turns[0]:.3g} turns in "
        f"{original_length} tokens, pair {theta.size - 1} with {turns[-1]:.3g}. "
        + " ".join(
            f"{name}: {row[0]:.1f} at the fastest pair, {row[middle]:.1f} in the middle, "
            f"{row[-1]:.1f} at the slowest."
            for name, row in slower.items()
        )
    )
    return Plot(figure, alt)


def loss_against_position(losses: Mapping[str, ArrayLike], trained: int, bins: int = 16) -> Plot:
    """Draw the loss of several trained models at each position of texts longer than in training.

    Parameters
    ----------
    losses : mapping of names to array-likes, (seeds, length)
        One to six models, each with its runs: loss in nats at positions 0, 1, …. A line joins the
        means over bins of positions, a band reaches from the lowest run to the highest.
    trained : int
        Length that was trained; what lies beyond is shaded.
    bins : int, default 16
        Points of a line; they divide the length.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the shapes don't fit, `bins` doesn't divide the length, or a loss isn't a number.

    Examples
    --------
    >>> loss_against_position({"a": [[1.0, 1.0, 2.0, 4.0]]}, trained=2, bins=2)
    Loss against position from 0 to 3, trained up to 1; mean of 1 run (lowest to highest). a: 1.00 \
(1.00 to 1.00) in training's length, 4.00 (4.00 to 4.00) in the last quarter.
    """
    check_at_least("trained", trained, 1)
    check_at_least("bins", bins, 2)
    tables = {name: np.asarray(table, dtype=np.float64) for name, table in losses.items()}
    if not 1 <= len(tables) <= 6:
        raise ValueError(f"losses must have one to six models; got {len(tables)}")
    shape = next(iter(tables.values())).shape
    for name, table in tables.items():
        wanted = table.ndim == 2 and table.shape == shape and table.size
        if not wanted or not np.isfinite(table).all():
            raise ValueError(
                f"losses[{name!r}] must be numbers of one shape (seeds, length); got {table.shape}"
            )
    length = shape[1]
    if length % bins or not trained < length:
        raise ValueError(
            f"bins must divide the length, and trained lie below it; got length {length}, "
            f"{bins} bins, trained {trained}"
        )
    binned = {
        name: table.reshape(shape[0], bins, -1).mean(axis=2) for name, table in tables.items()
    }
    x = (np.arange(bins) + 0.5) * length / bins
    thin: dict[str, Any] = {"linewidth": 1.6, "markersize": 4.5}
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.7 + 0.2 * len(binned)), layout="constrained")
        axes = figure.add_subplot()
        for i, (name, table) in enumerate(binned.items()):
            look = _look(name, i)
            axes.fill_between(
                x, table.min(axis=0), table.max(axis=0), color=look["color"], alpha=0.18,
                linewidth=0,
            )  # fmt: skip
            axes.plot(x, table.mean(axis=0), label=name, **look, **thin)
        axes.axvspan(trained, length, color="#EFEFEF", zorder=0, linewidth=0)
        low = min(float(table.min()) for table in binned.values())
        high = max(float(table.max()) for table in binned.values())
        room = max(high - low, 0.1)
        axes.set_ylim(low - 0.05 * room, high + 0.16 * room)
        axes.annotate(
            "longer than in training", (trained, 0.98), (6, 0), color=MUTED, size=10.5,
            xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
        )  # fmt: skip
        axes.set_xlim(0, length)
        axes.set_xticks(range(0, length + 1, trained if length <= 8 * trained else length // 8))
        axes.set_xlabel("position in the text, characters")
        axes.set_ylabel("loss, nats a character")
        # Curves cross and end on one another, so names beside them would collide.
        figure.legend(
            loc="outside upper left", frameon=False, labelcolor="linecolor", handlelength=2.6
        )
    parts = []
    for name, table in tables.items():
        inside = table[:, :trained].mean(axis=1)
        last = table[:, -(length // 4) :].mean(axis=1)
        parts.append(
            f"{name}: {_range(inside)} in training's length, {_range(last)} in the last quarter"
        )
    alt = (
        f"Loss against position from 0 to {length - 1}, trained up to {trained - 1}; mean of "
        f"{shape[0]} run{'s' if shape[0] > 1 else ''} (lowest to highest). {'. '.join(parts)}."
    )
    return Plot(figure, alt)


# ---- Pieces --------------------------------------------------------------------------------------


# One colour and marker a method, in all figures; there are four colours for two families.
_METHODS = {
    "interpol": (_GREEN, "^"),
    "ntk": (_ORANGE, "s"),
    "yarn": (_PURPLE, "D"),
    "sinusoidal": (_ORANGE, "s"),
    "learned": (_GREEN, "^"),
    "alibi": (_PURPLE, "D"),
    "as trained": (_BLUE, "o"),
    "rotary": (_BLUE, "o"),
}


def _look(name: str, i: int) -> dict[str, Any]:
    """Return colour, marker and line of a method, of line i where it has no name we know.

    What was trained further is drawn in dashes.
    """
    others = list(dict.fromkeys(_METHODS.values()))
    found = [look for part, look in _METHODS.items() if part in name.lower()]
    colour, marker = found[0] if found else others[i % len(others)]
    look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "-"}
    if "steps" in name:
        look["linestyle"] = (0, (4, 2))
    return look


def _range(runs: NDArray) -> str:
    """Return the mean of some runs with the lowest and the highest."""
    return f"{runs.mean():.2f} ({runs.min():.2f} to {runs.max():.2f})"


def _number(value: float, digits: int = 2) -> str:
    """Return a number with a real minus sign, and no minus before zero."""
    text = f"{value:.{digits}f}"
    return f"{0:.{digits}f}" if float(text) == 0.0 else text.replace("-", "−")


def _turned(angle: float, x: float) -> str:
    """Return the rotation of a hand by an angle in radians, counter-clockwise."""
    return f"rotate({degrees(-angle) % 360:.2f} {x:g} {_MIDDLE})"
