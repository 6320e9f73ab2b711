"""Figures of chapter 13, decoder-only models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

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

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Reading", "families", "learning_curve", "parameter_shares", "stream_walk"]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN, _PURPLE = COLOURS["green"], COLOURS["purple"]

# What a model's stream says at one point: name, what was added, length, likeliest next tokens.
Reading = tuple[str, str, float, "Sequence[tuple[str, float]]"]


def families(masks: Mapping[str, ArrayLike], n_source: int) -> Svg:
    """Draw the masks of three families beside one another, on six tokens.

    Parameters
    ----------
    masks : mapping of three names to bool arrays, (6, 6)
        True = may look. In the last one the first `n_source` tokens are a source, the others a
        target.
    n_source : int
        From 1 to 5.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If there aren't three masks of six tokens, or `n_source` is out of its range.

    Examples
    --------
    >>> look = np.ones((6, 6), dtype=bool)
    >>> families({"encoder": look, "decoder": np.tril(look), "both": look}, n_source=3)
    Who may look at whom among six tokens. encoder: 36 of 36 pairs; decoder: 21; both: 36, of \
which 9 are looks of the target's tokens at the source's.
    """
    tables = {name: np.asarray(mask) for name, mask in masks.items()}
    if len(tables) != 3 or any(t.shape != (6, 6) or t.dtype != bool for t in tables.values()):
        raise ValueError("masks must be three boolean arrays of shape (6, 6)")
    if not 1 <= n_source <= 5:
        raise ValueError(f"n_source must be from 1 to 5; got {n_source}")
    side, parts = 16, []
    for p, (name, table) in enumerate(tables.items()):
        x0, y0 = 14 + 116 * p, 44
        parts.append(svg_text(x0 + 48, 16, bold(escape(name)), 12.5, "middle"))
        parts.append(svg_text(x0 + 48, 36, "key →", 11.5, "middle"))
        parts.append(
            f'<text x="{x0 - 4}" y="{y0 + 48}" font-size="11.5" text-anchor="middle" '
            f'transform="rotate(-90 {x0 - 4} {y0 + 48})">← query</text>'
        )
        for i in range(6):
            for j in range(6):
                across = p == 2 and i >= n_source > j
                ink = _PURPLE if across else _GREEN if p == 2 and i < n_source else _ORANGE
                if p == 0:
                    ink = _GREEN
                fill = f'fill="{ink}" fill-opacity="0.75"' if table[i, j] else 'fill="none"'
                parts.append(
                    f'<rect x="{x0 + side * j}" y="{y0 + side * i}" width="{side}" '
                    f'height="{side}" {fill} stroke="currentColor" stroke-opacity="0.35"/>'
                )
        if p == 2:
            at = side * n_source
            parts.append(
                f'<path d="M{x0 + at} {y0 - 3} V{y0 + 99} M{x0 - 3} {y0 + at} H{x0 + 99}" '
                'stroke="currentColor" stroke-width="2" fill="none"/>'
            )
    for x, colour, words in (
        (14, _GREEN, "reads both ways"), (134, _ORANGE, "only back"),
        (230, _PURPLE, "at the source"),
    ):  # fmt: skip
        parts.append(
            f'<rect x="{x}" y="154" width="12" height="12" fill="{colour}" fill-opacity="0.75"/>'
        )
        parts.append(svg_text(x + 17, 164.5, words, 12))
    first, second, third = ((name, int(table.sum())) for name, table in tables.items())
    crossing = int(tables[third[0]][n_source:, :n_source].sum())
    alt = (
        f"Who may look at whom among six tokens. {first[0]}: {first[1]} of 36 pairs; "
        f"{second[0]}: {second[1]}; {third[0]}: {third[1]}, of which {crossing} are looks of the "
        "target's tokens at the source's."
    )
    return Svg("".join(parts), 360, 174, alt)


def parameter_shares(models: Mapping[str, Mapping[str, int]]) -> Plot:
    """Draw which share of each model's parameters is in which of its parts.

    Parameters
    ----------
    models : mapping of names to mappings of parts to numbers of parameters
        Up to four parts, the same ones in the same order in each; a number may be 0.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no models, or their parts differ, are too many, or are all empty.

    Examples
    --------
    >>> parameter_shares({"small": {"tables": 1, "rest": 3}, "large": {"tables": 1, "rest": 9}})
    Shares of parameters. small: tables 25 %, rest 75 %; large: tables 10 %, rest 90 %.
    """
    rows = {name: dict(parts) for name, parts in models.items()}
    names = list(next(iter(rows.values()), {}))
    fits = 1 <= len(names) <= 4 and all(list(parts) == names for parts in rows.values())
    if not fits or any(
        min(parts.values()) < 0 or not any(parts.values()) for parts in rows.values()
    ):
        raise ValueError(f"models must have the same one to four parts, not all 0; got {rows}")
    numbers = np.array([list(parts.values()) for parts in rows.values()], dtype=np.float64)
    shares = 100 * numbers / numbers.sum(axis=1, keepdims=True)
    places = np.arange(len(rows))[::-1]
    colours = (_GREEN, _ORANGE, _BLUE, _PURPLE)
    in_a_row = len(names) if len(" ".join(names)) <= 32 else 2
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.35 + 0.62 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        left = np.zeros(len(rows))
        for j, colour in zip(range(len(names)), colours, strict=False):
            axes.barh(places, shares[:, j], left=left, height=0.55, color=colour)
            for i, (place, start, share) in enumerate(zip(places, left, shares[:, j], strict=True)):
                beside = shares[i, j - 1] if j else 100.0
                if 1 <= share < 9 <= beside:  # too narrow for its number, which stands above
                    axes.annotate(
                        f"{share:.0f} %", (start, place + 0.275), xytext=(1, 1),
                        textcoords="offset points", ha="left", va="bottom", color=colour,
                        fontsize=10.5, fontweight="bold",
                    )  # fmt: skip
                if share >= 9:
                    axes.annotate(
                        f"{share:.0f} %", (start + share / 2, place), ha="center", va="center",
                        color="white", fontsize=10.5, fontweight="bold",
                    )  # fmt: skip
            axes.annotate(
                names[j], (j % in_a_row / in_a_row, 1.0),
                xytext=(0, 5 if j >= in_a_row or len(names) <= in_a_row else 21),
                xycoords="axes fraction", textcoords="offset points", color=colour,
                va="bottom", fontsize=10.5, fontweight="bold",
            )  # fmt: skip
            left += shares[:, j]
        axes.set_yticks(places, list(rows))
        axes.grid(False, axis="y")
        axes.set_xlim(0, 100)
        axes.set_xlabel("share of the parameters (%)")
    said = "; ".join(
        f"{name}: " + ", ".join(f"{n} {s:.0f} %" for n, s in zip(names, row, strict=True))
        for name, row in zip(rows, shares, strict=True)
    )
    return Plot(figure, f"Shares of parameters. {said}.")


def learning_curve(
    held_out: Sequence[tuple[int, float]],
    training: Sequence[float],
    lines: Mapping[str, float],
    smooth: int = 20,
) -> Plot:
    """Draw bits per byte against training step, with those of other models as lines.

    Parameters
    ----------
    held_out : sequence of (step, bits per byte)
    training : sequence of float
        Bits per byte on each step's batch, drawn as means of `smooth` steps.
    lines : mapping of up to three names to bits per byte
    smooth : int, default 20

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there is nothing held out, there are fewer than `smooth` steps, or too many lines.

    Examples
    --------
    >>> learning_curve([(20, 3.0), (40, 2.0)], [4.0] * 40, {"counts": 2.5})
    Bits per byte against training step. Held out: from 3.00 after 20 steps to 2.00 after 40. On \
the training batches: ends at 4.00. Lines: counts 2.50.
    """
    if not held_out or len(training) < smooth or not 1 <= len(lines) <= 3:
        raise ValueError(
            f"held_out must hold a point, training {smooth} steps, lines one to three models; "
            f"got {len(held_out)}, {len(training)} and {len(lines)}"
        )
    steps, bits = (np.array(column) for column in zip(*held_out, strict=True))
    whole = len(training) // smooth * smooth
    means = np.reshape(training[:whole], (-1, smooth)).mean(axis=1)
    top = min(float(max(bits.max(), *lines.values())) * 1.15, 2.6 * float(min(lines.values())))
    bottom = 0.9 * min(float(means.min()), float(bits.min()), *lines.values())
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axes = figure.add_subplot()
        looks = ((0, (4, 3)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
        ordered = sorted(lines.items(), key=lambda line: -line[1])
        for (_, value), look in zip(ordered, looks, strict=False):
            axes.axhline(value, color=MUTED, linewidth=1.4, linestyle=look)
        axes.plot(smooth * (np.arange(means.size) + 0.5), means, color=_ORANGE, linewidth=1.6)
        axes.plot(steps, bits, color=_BLUE, marker="o", markersize=4.5)
        keys = [("model, held-out topics", _BLUE), ("model, its training batches", _ORANGE)]
        marks = ("- - ", "··· ", "-·- ")
        keys += [(mark + name, MUTED) for (name, _), mark in zip(ordered, marks, strict=False)]
        for i, (name, colour) in enumerate(reversed(keys)):  # above, where no line can pass
            axes.annotate(
                name, (0.0, 1.0), (0, 5 + 16 * i), xycoords="axes fraction",
                textcoords="offset points", color=colour, va="bottom", fontsize=10.5,
            )  # fmt: skip
        axes.set_xlim(0, float(max(steps.max(), len(training))) * 1.02)
        axes.set_ylim(bottom, top)
        axes.set_xlabel("training step")
        axes.set_ylabel("bits per byte")
    said = ", ".join(f"{name} {value:.2f}" for name, value in lines.items())
    alt = (
        f"Bits per byte against training step. Held out: from {bits[0]:.2f} after {steps[0]} steps "
        f"to {bits[-1]:.2f} after {steps[-1]}. On the training batches: ends at {means[-1]:.2f}. "
        f"Lines: {said}."
    )
    return Plot(figure, alt)


def stream_walk(
    text: str, stream: ArrayLike, readings: Sequence[Reading], wanted: str, shown: int = 0
) -> StepThrough:
    """Draw the residual stream of a text's last token, sublayer by sublayer.

    Parameters
    ----------
    text : str
        What the model reads.
    stream : array-like, (number of readings, d)
        The last token's vector at each point, its first 48 numbers drawn.
    readings : sequence of (name, what it does, length, tokens)
        One for each point, at most 14: its name, the part that has just been added ("embedding",
        "attention" or "network"), the vector's length, and up to five likeliest tokens with their
        probabilities, if it were read off there.
    wanted : str
        The token that comes next in truth.
    shown : int, default 0
        The state of the still picture.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If `stream` hasn't a row for each reading, there are none or too many, or a part is none of
        the three.

    Examples
    --------
    >>> readings = [("0", "embedding", 1.0, [("a", 0.5)]), ("1a", "attention", 2.0, [("b", 0.75)])]
    >>> stream_walk("x", [[1.0, 0.0], [1.0, -2.0]], readings, wanted="b")
    The residual stream after “x”, 2 points. Length and likeliest next token: 0: 1.0, “a” 50 %; \
1a: 2.0, “b” 75 %. What follows in truth: “b”.
    """
    rows = np.asarray(stream, dtype=np.float64)
    looks = {"embedding": _GREEN, "attention": _ORANGE, "network": _BLUE}
    if rows.ndim != 2 or len(rows) != len(readings) or not 1 <= len(rows) <= 14:
        raise ValueError(
            f"stream must have a row for each of 1 to 14 readings; got shape {rows.shape} and "
            f"{len(readings)}"
        )
    if any(part not in looks for _, part, _, _ in readings):
        raise ValueError(f"readings must name a part among {', '.join(looks)}; got {readings}")
    captions = {
        "embedding": "The token's row of the table: the stream before anything was added.",
        "attention": "Attention has read a normalised copy of the stream at all tokens so far, and "
                     "added what it found to this token's.",
        "network": "The network has read a normalised copy of this token's stream alone, and added "
                   "its answer.",
    }  # fmt: skip
    parts = []
    for i, (name, part, length, tokens) in enumerate(readings):
        hidden = "" if i == shown else ' style="display:none"'
        group = [
            *_ladder([reading[1] for reading in readings], i, looks),
            svg_text(8, 70, f"{bold(escape(name))}: after the {part}", 14),
            svg_text(352, 70, f"length {length:.1f}", 13, "end"),
            *_cells(rows[i], rows[i - 1] if i else np.zeros_like(rows[0])),
            svg_text(8, 150, "if it were read off here", 13),
        ]
        for j, (token, share) in enumerate(list(tokens)[:5]):
            y = 160 + 24 * j
            right = token == wanted
            group.append(svg_text(112, y + 15, _shown(token), 13, "end"))
            group.append(
                f'<rect x="120" y="{y}" width="{max(180 * share, 0.5):.1f}" height="20" '
                f'fill="{_PURPLE if right else "currentColor"}" '
                f'fill-opacity="{0.8 if right else 0.35}"/>'
            )
            group.append(svg_text(126 + 180 * share, y + 15, f"{100 * share:.0f} %", 12.5))
        parts.append(f'<g data-step="{i}"{hidden}>{"".join(group)}</g>')
    said = "; ".join(
        f"{name}: {length:.1f}, “{tokens[0][0]}” {100 * tokens[0][1]:.0f} %"
        for name, _, length, tokens in readings
    )
    alt = (
        f"The residual stream after “{text}”, {len(rows)} points. Length and likeliest next token: "
        f"{said}. What follows in truth: “{wanted}”."
    )
    return StepThrough(
        "".join(parts), 360, 284, alt,
        buttons=tuple(name for name, *_ in readings),
        captions=tuple(captions[part] for _, part, *_ in readings),
        shown=shown, legend="Points along the stream, from the embedding upwards",
    )  # fmt: skip


# ---- Parts ---------------------------------------------------------------------------------------


def _shown(token: str) -> str:
    """Return a token with its spaces and line ends to be seen, cut where it is long."""
    seen = token.replace(" ", "␣").replace("\n", "⏎")
    return escape(seen if len(seen) <= 12 else seen[:11] + "…")


def _ladder(parts: Sequence[str], at: int, looks: Mapping[str, str]) -> list[str]:
    """Return the stream as a line through its points, the one shown filled."""
    pitch = 336 / max(len(parts), 2)
    found = [
        '<path d="M12 24 H348 M342 19 L348 24 L342 29" fill="none" stroke="currentColor" '
        'stroke-width="2.4"/>'
    ]
    for i, part in enumerate(parts):
        x, colour = 12 + pitch * (i + 0.5), looks[part]
        found.append(
            f'<circle cx="{x:g}" cy="24" r="8" fill="{colour}" '
            f'fill-opacity="{1 if i <= at else 0.15}" stroke="{colour}" stroke-width="2"/>'
        )
        if i == at:
            found.append(
                f'<circle cx="{x:g}" cy="24" r="12" fill="none" stroke="currentColor" '
                'stroke-width="1.6"/>'
            )
    return found


def _cells(now: NDArray, before: NDArray) -> list[str]:
    """Return what was added and what the stream is now, blue above 0 and orange below."""
    found = []
    for y, name, row in ((80, "added", now - before), (108, "stream", now)):
        drawn = row[:48]
        side = 280 / len(drawn)
        most = float(np.abs(np.stack([now[:48], (now - before)[:48]])).max()) or 1.0
        found.append(svg_text(62, y + 16, name, 13, "end"))
        for j, value in enumerate(drawn.tolist()):
            ink = _BLUE if value >= 0 else _ORANGE
            found.append(
                f'<rect x="{70 + side * j:.2f}" y="{y}" width="{side:.2f}" height="22" '
                f'fill="{ink}" fill-opacity="{abs(value) / most:.1f}"/>'
            )
        found.append(
            f'<rect x="70" y="{y}" width="280" height="22" fill="none" stroke="currentColor" '
            'stroke-opacity="0.5"/>'
        )
    return found
