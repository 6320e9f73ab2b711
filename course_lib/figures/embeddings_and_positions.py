"""Figures of chapter 04, embeddings and positions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import degrees
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

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
from course_lib.reference.embeddings import embedding, one_hot
from course_lib.reference.positions import frequencies, sinusoidal_positions
from course_lib.validation import check_at_least, check_even

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "clock_hands",
    "look_up",
    "position_matrix",
    "position_products",
]

_BLUE, _ORANGE, _GREEN = COLOURS["blue"], COLOURS["orange"], COLOURS["green"]


# ---- Drawings ------------------------------------------------------------------------------------


def look_up(tokens: Sequence[str], words: Sequence[str], table: ArrayLike) -> Svg:
    """Draw that a look-up is the product of one-hot rows with the table.

    Parameters
    ----------
    tokens : sequence of str, (n,)
        From 2 to 5 of `words`; a word may come several times.
    words : sequence of str, (V,)
        The vocabulary, from 2 to 6 different words.
    table : array-like, (V, d)
        Their vectors, d from 1 to 4.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If a number doesn't fit, two of `words` are the same, or a token is none of them.

    Examples
    --------
    >>> look_up(["b", "b"], ["a", "b"], [[0.5], [-1.0]])
    One-hot rows times a table of embeddings. b, id 1: a 1 in column 1 of 2, and row 1 of the \
table, -1.0. b, id 1: a 1 in column 1 of 2, and row 1 of the table, -1.0.
    """
    e = np.asarray(table, dtype=np.float64)
    n, v = len(tokens), len(words)
    if not 2 <= v <= 6 or len(set(words)) != v:
        raise ValueError(f"words must be from 2 to 6 different ones; got {list(words)}")
    if not 2 <= n <= 5 or not set(tokens) <= set(words):
        raise ValueError(f"tokens must be from 2 to 5 of {list(words)}; got {list(tokens)}")
    if e.ndim != 2 or len(e) != v or not 1 <= e.shape[1] <= 4:
        raise ValueError(f"table must have the shape ({v}, d), d from 1 to 4; got {e.shape}")
    ids = np.array([list(words).index(token) for token in tokens])
    rows, x = one_hot(ids, v), embedding(ids, e)
    colours = [*COLOURS.values(), _BLUE, _ORANGE]
    ink = {i: colours[place] for place, i in enumerate(dict.fromkeys(ids.tolist()))}
    d, small, wide, high = e.shape[1], 17, 36, 24
    # Above: one-hot rows and what comes out. Below: the table, whose rows are the words.
    left, top = 78, 62
    right = 352 - wide * d
    parts = [
        svg_text(left, 22, bold("one-hot rows"), 14),
        svg_text(352, 22, bold("embeddings"), 14, "end"),
        svg_text(right - 16, top + high * n / 2 + 6, "=", 20, "middle"),
    ]
    for j in range(v):
        parts.append(svg_text(left + small * (j + 0.5), 48, str(j), 12.5, "middle"))
    for i, token in enumerate(tokens):
        y, colour = top + high * i, ink[int(ids[i])]
        parts.append(svg_text(left - 8, y + 17, escape(token), 14, "end"))
        for j in range(v):
            lit = bool(rows[i, j])
            parts.append(_cell(left + small * j, y, small, high, colour if lit else None))
            number = f"{rows[i, j]:.0f}"
            parts.append(svg_text(left + small * (j + 0.5), y + 17, number, 12.5, "middle"))
        for j in range(d):
            parts.append(_cell(right + wide * j, y, wide, high, colour))
            number = _number(x[i, j], 1)
            parts.append(svg_text(right + wide * (j + 0.5), y + 17, number, 12.5, "middle"))
    below = top + high * n + 64
    parts.append(svg_text(left + small * v / 2, below - 40, "×", 20, "middle"))
    parts.append(svg_text(left, below - 14, bold("table") + " E", 14))
    beside = left + max(wide * d, 68) + 12
    parts.append(svg_text(beside, below - 14, f"{v} rows, {d} columns", 13))
    for i, word in enumerate(words):
        y, used = below + high * i, ink.get(i)
        parts.append(svg_text(left - 8, y + 17, f"{escape(word)} {i}", 14, "end"))
        for j in range(d):
            parts.append(_cell(left + wide * j, y, wide, high, used))
            number = _number(e[i, j], 1)
            parts.append(svg_text(left + wide * (j + 0.5), y + 17, number, 12.5, "middle"))
    said = " ".join(
        f"{token}, id {i}: a 1 in column {i} of {v}, and row {i} of the table, "
        f"{' '.join(f'{a:.1f}' for a in row)}."
        for token, i, row in zip(tokens, ids, x, strict=True)
    )
    alt = f"One-hot rows times a table of embeddings. {said}"
    return Svg("".join(parts), 360, below + high * v + 10, alt)


def clock_hands(
    position: int = 5,
    shift: int = 3,
    d: int = 8,
    base: float = 10000.0,
    longest: int = 200,
    widest: int = 20,
) -> Sliders:
    """Draw a position as the hands of d/2 clocks, and the position `shift` further beside it.

    A hand's end lies at (sin p θ_i, cos p θ_i): it starts at twelve and turns clockwise by θ_i
    from each position to the next.

    Parameters
    ----------
    position, shift : int, default 5 and 3
        Where the sliders start.
    d : int, default 8
        Width, even, at most 8.
    base : float, default 10000
    longest, widest : int, default 200 and 20
        The sliders' ends.

    Returns
    -------
    Sliders

    Raises
    ------
    ValueError
        If `d` isn't 2, 4, 6 or 8, `base` isn't above 1, or a slider would start beyond its end.

    Examples
    --------
    >>> clock_hands(position=10, shift=1, d=4)
    Clocks with one hand for each pair of columns; sliders move the position, at first 10, and the \
shift, at first 1. Pair 0 turns by 1 radian a position: sine -0.54, cosine -0.84. Pair 1 turns by \
0.01 radian a position: sine 0.10, cosine 1.00.
    """
    check_even("d", d)
    if d > 8:
        raise ValueError(f"d must be at most 8: there is room for four clocks; got {d}")
    check_at_least("position", position, 0)
    check_at_least("shift", shift, 0)
    check_at_least("longest", longest, position)
    check_at_least("widest", widest, shift)
    theta = frequencies(d, base)
    pe = sinusoidal_positions(1, d, base, offset=position)[0]
    radius, middle = 36, 74
    parts = []
    for i, turn in enumerate(theta):
        x = 180 + 88 * (i - (d / 2 - 1) / 2)
        parts.append(svg_text(x, 22, f"pair {i}", 14, "middle"))
        parts.append(
            f'<circle cx="{x:g}" cy="{middle}" r="{radius}" fill="none" stroke="currentColor" '
            'stroke-opacity="0.55" stroke-width="1.4"/>'
        )
        for hour in range(12):
            parts.append(
                f'<path d="M{x:g} {middle - radius + 1} v4" stroke="currentColor" stroke-opacity='
                f'"0.55" stroke-width="1.2" transform="rotate({30 * hour} {x:g} {middle})"/>'
            )
        for name, colour, long, width, at in (
            ("later", _ORANGE, 26, 3, position + shift),
            ("now", _BLUE, 30, 4, position),
        ):
            parts.append(
                f'<path data-hand="{name}" data-theta="{float(turn)!r}" data-x="{x:g}" '
                f'd="M{x:g} {middle} v{-long}" stroke="{colour}" stroke-width="{width}" '
                f'stroke-linecap="round" transform="{_turned(at * float(turn), x, middle)}"/>'
            )
        parts.append(f'<circle cx="{x:g}" cy="{middle}" r="3.5"/>')
        parts.append(svg_text(x, 134, f"{subscript('θ', str(i))} = {turn:.3g}", 13.5, "middle"))
        for row, (name, value) in enumerate((("sin", pe[2 * i]), ("cos", pe[2 * i + 1]))):
            parts.append(
                svg_text(x, 155 + 19 * row, f'{name} <tspan data-{name}="{i}">'
                         f"{_number(value)}</tspan>", 13.5, "middle")
            )  # fmt: skip
    parts.append(
        f'<path d="M58 199 h26" stroke="{_BLUE}" stroke-width="4" stroke-linecap="round"/>'
        + svg_text(92, 204, "position p", 13.5)
        + f'<path d="M196 199 h26" stroke="{_ORANGE}" stroke-width="3" stroke-linecap="round"/>'
        + svg_text(230, 204, "position p + k", 13.5)
    )
    alt = (
        "Clocks with one hand for each pair of columns; sliders move the position, at first "
        f"{position}, and the shift, at first {shift}. "
    ) + " ".join(
        f"Pair {i} turns by {turn:.3g} radian a position: sine {pe[2 * i]:.2f}, cosine "
        f"{pe[2 * i + 1]:.2f}."
        for i, turn in enumerate(theta)
    )
    return Sliders(
        "".join(parts),
        360,
        214,
        alt,
        kind="clock-hands",
        sliders=(
            ("position p", 0, longest, position),
            ("shift k", 0, widest, shift),
        ),
        caption=_said(position, shift, theta),
        draw=_DRAW_HANDS,
        legend="Position, and shift to a second one",
    )


def _said(position: int, shift: int, theta: NDArray) -> str:
    """Return what stands under the clocks."""
    turns = ", ".join(f"{_number(degrees(shift * turn), 1)}°" for turn in theta)
    product = np.cos(shift * theta).sum()
    return (
        f"From position {position} to {position + shift} the hands turn by {turns}, and "
        f"PE({position}) · PE({position + shift}) = {_number(product)}. Neither depends on p."
    )


# The same numbers and words as `_said`, `_number` and `_turned`; a test holds them together.
_DRAW_HANDS = """var p = values[0], k = values[1], seen = [], turns = [], product = 0;
    function number(x, digits) {
      var s = x.toFixed(digits);
      return Number(s) === 0 ? (0).toFixed(digits) : s.replace("-", "\\u2212");
    }
    root.querySelectorAll("[data-hand]").forEach(function (hand) {
      var theta = Number(hand.getAttribute("data-theta")), now = hand.dataset.hand === "now";
      var angle = (now ? p : p + k) * theta, x = hand.getAttribute("data-x");
      var turned = (angle * 180 / Math.PI % 360).toFixed(2);
      hand.setAttribute("transform", "rotate(" + turned + " " + x + " 74)");
      if (now) seen.push(theta);
    });
    seen.forEach(function (theta, i) {
      root.querySelector('[data-sin="' + i + '"]').textContent = number(Math.sin(p * theta), 2);
      root.querySelector('[data-cos="' + i + '"]').textContent = number(Math.cos(p * theta), 2);
      turns.push(number(k * theta * 180 / Math.PI, 1) + "\\u00b0");
      product += Math.cos(k * theta);
    });
    return "From position " + p + " to " + (p + k) + " the hands turn by " + turns.join(", ") +
      ", and PE(" + p + ") \\u00b7 PE(" + (p + k) + ") = " + number(product, 2) +
      ". Neither depends on p.";"""


# ---- Plots ---------------------------------------------------------------------------------------


def position_matrix(table: ArrayLike) -> Plot:
    """Draw a table of positions as two pictures, sines beside cosines, a row for each position.

    In the table sines and cosines take turns, and side by side they would be stripes of one pixel.

    Parameters
    ----------
    table : array-like, (n, d)
        Numbers from −1 to 1; n at least 2, d even and at least 4.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If `table` has another shape, or numbers outside that range.

    Examples
    --------
    >>> position_matrix(sinusoidal_positions(20, 8))
    Positions 0 to 19, one a row, and 8 columns; the even ones, sines, on the left, the odd ones, \
cosines, on the right; colours for -1 to 1. Changes of sign on the way \
down: 6 in column 0, 0 in column 2, 0 in column 4, 0 in column 6. Column 6 goes from 0.000 to \
0.019, column 7 from 1.000 to 1.000.
    """
    t = np.asarray(table, dtype=np.float64)
    if (
        t.ndim != 2
        or len(t) < 2
        or t.shape[1] < 4
        or t.shape[1] % 2
        or not (np.abs(t) <= 1.0).all()
    ):
        raise ValueError(
            "table must have a shape (n, d), n ≥ 2, d ≥ 4 and even, and numbers from -1 to 1; got "
            f"shape {t.shape}"
        )
    n, d = t.shape
    with course_style():
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        colours = LinearSegmentedColormap.from_list("signed", [_ORANGE, "white", _BLUE])
        for axes, first, name in zip(panels, (0, 1), ("sin", "cos"), strict=True):
            image = axes.imshow(
                t[:, first::2],
                cmap=colours,
                vmin=-1,
                vmax=1,
                aspect="auto",
                interpolation="none",
            )
            axes.grid(visible=False)
            axes.set_title(name)
            axes.set_xlabel("pair")
        panels[0].set_ylabel("position")
        bar = figure.colorbar(image, ax=panels, ticks=[-1, 0, 1], aspect=30)
        bar.ax.set_yticklabels(["−1", "0", "1"])
        bar.outline.set_visible(False)
    changes = np.diff(t >= 0.0, axis=0).sum(axis=0)
    shown = [0, d // 4 // 2 * 2, d // 2 // 2 * 2, d - 2]  # even columns: sines
    alt = (
        f"Positions 0 to {n - 1}, one a row, and {d} columns; the even ones, sines, on the left, "
        "the odd ones, cosines, on the right; colours for -1 to 1. Changes of sign on the way "
        "down: "
        + ", ".join(f"{changes[c]} in column {c}" for c in dict.fromkeys(shown))
        + f". Column {d - 2} goes from {t[0, -2]:.3f} to {t[-1, -2]:.3f}, column {d - 1} from "
        f"{t[0, -1]:.3f} to {t[-1, -1]:.3f}."
    )
    return Plot(figure, alt)


def position_products(
    offsets: ArrayLike, curve: ArrayLike, measured: dict[int, tuple[ArrayLike, ArrayLike]]
) -> Plot:
    """Draw dot products of positions against their distance.

    Parameters
    ----------
    offsets, curve : array-like, (m,)
        Distances p − q, rising, 0 among them, and Σ cos((p − q) θ_i) at each.
    measured : dict of int to (distances, products)
        For some q, dot products of PE(q) with other positions.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If `curve` isn't as long as `offsets`, 0 isn't among them, or there are more than 3 q.

    Examples
    --------
    >>> position_products([-1, 0, 1], [1.5, 2.0, 1.5], {5: ([0, 1], [2.0, 1.5])})
    PE(p) · PE(q) against p - q from -1 to 1: 2.0 at 0, 1.5 at 1, 1.5 at -1; lowest 1.5 at \
distance 1. The points for q = 5 lie on the curve within 0.0.
    """
    x, y = np.asarray(offsets, dtype=np.float64), np.asarray(curve, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not (np.diff(x) > 0).all() or 0.0 not in x:
        raise ValueError(
            f"offsets must rise, hold 0, and be as many as curve; got shapes {x.shape}, {y.shape}"
        )
    if not 1 <= len(measured) <= 3:
        raise ValueError(f"measured must hold from 1 to 3 positions; got {len(measured)}")
    points = {q: tuple(np.asarray(a, dtype=np.float64) for a in xy) for q, xy in measured.items()}
    looks = zip(
        points.items(), (_BLUE, _ORANGE, _GREEN), ("o", "s", "D"), (7.0, 6.0, 5.0), strict=False
    )
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(x, y, color=MUTED, linewidth=1.4, zorder=1)
        for (q, (a, b)), colour, marker, size in looks:
            axes.plot(
                a, b, marker, color=colour, markersize=size, label=f"q = {q}", markeredgewidth=0
            )
        axes.set_xlabel("$p - q$")
        axes.set_ylabel("PE($p$) · PE($q$)")
        axes.set_xlim(x[0], x[-1])
        low, high = min(0.0, float(y.min())), float(y.max())
        axes.set_ylim(low - 0.05 * (high - low), high + 0.08 * (high - low))
        axes.legend(
            frameon=False, loc="upper right" if y[-1] < 0.9 * high else "center right",
            handletextpad=0.2, borderpad=0.1,
        )  # fmt: skip
    at = {float(a): float(b) for a, b in zip(x, y, strict=True)}
    lowest = int(y.argmin())
    off = max(float(np.abs(np.interp(a, x, y) - b).max()) for a, b in points.values())
    named = ", ".join(map(str, points))
    alt = (
        f"PE(p) · PE(q) against p - q from {x[0]:g} to {x[-1]:g}: {at[0.0]:.1f} at 0"
        + "".join(f", {at[k]:.1f} at {k:g}" for k in (1.0, -1.0) if k in at)
        + f"; lowest {y[lowest]:.1f} at distance {abs(x[lowest]):g}. The points for q = {named} "
        f"lie on the curve within {off:.1f}."
    )
    return Plot(figure, alt)


# ---- Pieces --------------------------------------------------------------------------------------


def _cell(x: float, y: float, width: float, height: float, colour: str | None) -> str:
    """Return a cell of a matrix, tinted where it takes part."""
    fill = f'fill="{colour}" fill-opacity="0.3"' if colour else 'fill="none"'
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {fill} '
        'stroke="currentColor" stroke-opacity="0.4" stroke-width="1"/>'
    )


def _number(value: float, digits: int = 2) -> str:
    """Return a number with a real minus sign, and no minus before zero."""
    text = f"{value:.{digits}f}"
    return f"{0:.{digits}f}" if float(text) == 0.0 else text.replace("-", "−")


def _turned(angle: float, x: float, y: float) -> str:
    """Return the rotation of a hand by an angle in radians, clockwise."""
    return f"rotate({degrees(angle) % 360:.2f} {x:g} {y:g})"
