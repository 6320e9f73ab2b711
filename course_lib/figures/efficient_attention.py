"""Figures of chapter 14, efficient attention."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from course_lib import accounting
from course_lib.figures.costs import AMOUNTS, _amount, _exponent, _gibibytes
from course_lib.figures.style import (
    COLOURS,
    MUTED,
    WIDTH,
    Plot,
    Sliders,
    StepThrough,
    bold,
    course_style,
    svg_text,
)
from course_lib.reference.flash import online_softmax_update, visible_tiles
from course_lib.validation import check_at_least, check_kv_heads, check_positive_int

__all__ = ["cache_against_context", "cache_calculator", "memory_measured", "tile_steps"]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN = COLOURS["green"]
_LOOKS = ((_ORANGE, "-"), (_BLUE, (0, (4, 1.5))), (_GREEN, (0, (1.5, 1.2))))


# ---- Plots ---------------------------------------------------------------------------------------


def cache_against_context(
    n_layers: int = 32,
    n_heads: int = 32,
    n_kv_heads: int = 8,
    d_head: int = 128,
    n_parameters: int = 6_738_415_616,
    longest: int = 2**17,
) -> Plot:
    """Draw what the keys and values of one text take, against its length, in 16 bits.

    Three lines: a head of keys for each query head, `n_kv_heads` of them, and one; and the model's
    weights to compare with.

    Parameters
    ----------
    n_layers, n_heads, n_kv_heads, d_head : int
    n_parameters : int
    longest : int, default 2**17
        At least 2,048.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a size isn't a whole number or too small, or `n_kv_heads` doesn't divide `n_heads`.

    Examples
    --------
    >>> cache_against_context().alt[-114:]
    'At 131,072 tokens: MHA, 32 heads 64.0 GiB; GQA, 8 heads 16.0 GiB; MQA, 1 head 2.00 GiB. \
The weights take 12.6 GiB.'
    """
    check_kv_heads(n_heads, n_kv_heads)
    check_at_least("longest", longest, 2048)
    x = np.unique(np.geomspace(1024, longest, 15).round().astype(int))
    weights = accounting.memory(n_parameters, "float16")
    rows = {
        f"{name}, {heads} head{'s' if heads > 1 else ''}": np.array(
            [_cache(n, n_layers, heads, d_head) for n in x.tolist()]
        )
        for name, heads in (("MHA", n_heads), ("GQA", n_kv_heads), ("MQA", 1))
    }
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.5), layout="constrained")
        axes = figure.add_subplot()
        for (colour, dashes), (name, row) in zip(_LOOKS, rows.items(), strict=True):
            axes.plot(x, row / 2**30, color=colour, linestyle=dashes, label=name)
        axes.axhline(weights / 2**30, color=MUTED, linewidth=1.4)
        above = weights > max(row[-1] for row in rows.values())  # as high as the legend
        axes.annotate(
            "the weights", (0.97 if above else 0.03, weights / 2**30), (0, 4), va="bottom",
            textcoords="offset points", xycoords=("axes fraction", "data"), color=MUTED,
            ha="right" if above else "left",
        )  # fmt: skip
        _logarithmic(figure, x)
        axes.set_xlabel("tokens of one text")
        axes.set_ylabel("keys and values, 16 bits")
        axes.legend(loc="upper left", frameon=False, labelspacing=0.3)
    said = "; ".join(f"{name} {_amount(float(row[-1]), True)}" for name, row in rows.items())
    alt = (
        f"Memory of the keys and values of one text in 16 bits, {n_layers} layers, heads of "
        f"{d_head}, from {x[0]:,} to {x[-1]:,} tokens, both axes logarithmic: three parallel "
        f"lines. At {x[-1]:,} tokens: {said}. The weights take {_amount(weights, True)}."
    )
    return Plot(figure, alt)


def memory_measured(runs: Mapping[str, Mapping[int, int]]) -> Plot:
    """Draw how much memory is alive at the peak of a step, against the length.

    Parameters
    ----------
    runs : mapping of names to mappings of lengths to bytes
        One to three runs, each of at least three lengths.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no runs or more than three, or one has fewer than three lengths.

    Examples
    --------
    >>> memory_measured({"tiles": {512: 3 * 2**20, 1024: 4 * 2**20, 2048: 6 * 2**20}})
    Memory alive at the peak of a step, both axes logarithmic. tiles: 3.00 MiB at 512 tokens, 6.00 \
MiB at 2,048; from 512 to 1,024 tokens 1.00 MiB more, from 1,024 to 2,048 tokens 2.00 MiB more.
    """
    if not 1 <= len(runs) <= 3:
        raise ValueError(f"runs must be one to three; got {len(runs)}")
    said, lengths = [], sorted({n for row in runs.values() for n in row})
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.5), layout="constrained")
        axes = figure.add_subplot()
        for (colour, dashes), (name, row) in zip(_LOOKS, runs.items(), strict=False):
            x = np.array(sorted(row))
            if len(x) < 3:
                raise ValueError(f"runs[{name!r}] must have at least three lengths; got {len(x)}")
            y = np.array([row[n] for n in x.tolist()], dtype=np.float64)
            axes.plot(x, y / 2**30, "o", color=colour, linestyle=dashes, label=name)
            more = [
                f"from {x[i - 1]:,} to {x[i]:,} tokens {_amount(y[i] - y[i - 1], True)} more"
                for i in (-2, -1)
            ]
            said.append(
                f"{name}: {_amount(y[0], True)} at {x[0]:,} tokens, {_amount(y[-1], True)} at "
                f"{x[-1]:,}; {', '.join(more)}."
            )
        _logarithmic(figure, np.array(lengths))
        axes.set_xlabel("tokens $n$")
        axes.set_ylabel("alive at the peak")
        axes.legend(loc="upper left", frameon=False, labelspacing=0.3)
    alt = f"Memory alive at the peak of a step, both axes logarithmic. {' '.join(said)}"
    return Plot(figure, alt)


def _cache(n: int, n_layers: int, n_heads: int, d_head: int, batch: int = 1, size: int = 2) -> int:
    """Return the bytes of keys and values."""
    return size * accounting.kv_cache(n, n_layers, n_heads, d_head, batch)["self-attention"]


def _logarithmic(figure: Figure, lengths: np.ndarray) -> None:
    """Mark powers of two on both axes, sizes in MiB or GiB."""
    (axes,) = figure.axes
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    low, high = np.log2(axes.get_ylim())
    every = 2 if high - low < 14 else 3
    axes.yaxis.set_major_locator(FixedLocator([2.0**k for k in range(-30, 21, every)]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))
    first, last = int(np.ceil(np.log2(lengths[0]))), int(np.log2(lengths[-1]))
    marks = [
        2.0**k
        for k in range(first, last + 1, 1 if last - first < 5 else 2 if last - first < 9 else 3)
    ]
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylim(2.0**low, 2.0 ** (high + 0.25 * (high - low)))  # room for the legend


def _size(value: float) -> str:
    """Write a power of two of GiB."""
    return _gibibytes(value) if value >= 2**-10 else f"{value * 2**20:,.0f} KiB"


# ---- Tiles, one after the other ------------------------------------------------------------------


def tile_steps(
    scores: ArrayLike, block_q: int, block_k: int, causal: bool = True, shown: int = 0
) -> StepThrough:
    """Draw the tiles of a table of scores in the order in which they are visited.

    The value of key j is the number j. Beside each strip stands what is kept of its rows: their
    largest score so far, m, the sum of exponentials, l, and the weighted sum of values, o.

    Parameters
    ----------
    scores : array-like, (n_q, n_k)
        Whole numbers from −9 to 9; at most 8 rows and columns.
    block_q, block_k : int
    causal : bool, default True
    shown : int, default 0
        The tile of the still picture, in the order of visits.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If the table is too large or empty, has more rows than columns or other scores, or there is
        no such tile.

    Examples
    --------
    >>> print(tile_steps([[0, 9], [1, 3]], 1, 1, shown=2).captions[2])
    Tile 3 of 3: query 1, key 1. Query 1: m rises from 1 to 3, so l = 1.00 shrinks to 0.14, and o \
= 0.00 to 0.00, before the new is added. The strip is done: query 1's output is o / l = 0.88.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or not 1 <= table.shape[0] <= 8 or not table.shape[0] <= table.shape[1] <= 8:
        raise ValueError(
            f"scores must have from 1 to 8 rows and as many columns or more; got {table.shape}"
        )
    if not np.isin(table, range(-9, 10)).all():
        raise ValueError("scores must be whole numbers from -9 to 9")
    n_q, n_k = table.shape
    tiles = visible_tiles(n_q, n_k, block_q, block_k, causal)
    if isinstance(shown, bool) or not isinstance(shown, int) or not 0 <= shown < len(tiles):
        raise ValueError(f"shown must be a tile, 0 to {len(tiles) - 1}; got {shown!r}")
    seen = np.tri(n_q, n_k, n_k - n_q, dtype=bool) if causal else np.ones((n_q, n_k), dtype=bool)
    hidden = np.where(seen, table, -np.inf)
    side, left, top = 26, 26, 46
    right, bottom = left + side * n_k, top + side * n_q

    def place(i: int, j: int) -> tuple[slice, slice]:
        rows = slice(i * block_q, min((i + 1) * block_q, n_q))
        return rows, slice(j * block_k, min((j + 1) * block_k, n_k))

    def box(rows: slice, columns: slice, look: str) -> str:
        return (
            f'<rect x="{left + side * columns.start}" y="{top + side * rows.start}" '
            f'width="{side * (columns.stop - columns.start)}" '
            f'height="{side * (rows.stop - rows.start)}" {look}/>'
        )

    parts = [svg_text((left + right) / 2, 18, "keys, and their values", 14, "middle")]
    ends = (right + 28, right + 74, right + 121)
    for x, letter in zip(ends, "mlo", strict=True):
        parts.append(svg_text(x, 39, bold(letter), 14, "end"))
    for j in range(n_k):
        parts.append(svg_text(left + side * (j + 0.5), 39, str(j), 12.5, "middle"))
    m, l, o = np.full(n_q, -np.inf), np.zeros(n_q), np.zeros((n_q, 1))
    values, captions = np.arange(float(n_k))[:, None], []
    for step, (i, j) in enumerate(tiles):
        rows, columns = place(i, j)
        before = m.copy(), l.copy(), o[:, 0].copy()
        m[rows], l[rows], o[rows] = online_softmax_update(
            m[rows], l[rows], o[rows], hidden[rows, columns], values[columns]
        )
        drawn = [box(*place(*tile), f'fill="{_BLUE}" fill-opacity="0.3"') for tile in tiles[:step]]
        drawn.append(box(rows, columns, f'fill="{_ORANGE}" fill-opacity="0.55"'))
        for row in range(rows.stop):
            y = top + side * (row + 0.5) + 5
            kept = _score(m[row]), f"{l[row]:.2f}", f"{o[row, 0]:.2f}"
            drawn += [svg_text(x, y, said, 13, "end") for x, said in zip(ends, kept, strict=True)]
        style = "" if step == shown else ' style="display:none"'
        parts.append(f'<g data-step="{step}"{style}>{"".join(drawn)}</g>')
        done, last = step + 1 == len(tiles) or tiles[step + 1][0] != i, rows.stop - 1
        captions.append(
            f"Tile {step + 1} of {len(tiles)}: {_span('query', 'queries', rows)}, "
            f"{_span('key', 'keys', columns)}. {_told(last, before, (m, l, o[:, 0]))}"
            + (
                f" The strip is done: query {last}'s output is o / l = {o[last, 0] / l[last]:.2f}."
                if done
                else ""
            )
        )
    for row in range(n_q):
        y = top + side * (row + 0.5) + 5
        parts.append(svg_text(left - 6, y, str(row), 12.5, "end"))
        for column in range(n_k):
            cell = slice(row, row + 1), slice(column, column + 1)
            look = 'fill="none" stroke="currentColor" stroke-opacity="0.25"'
            said = _score(table[row, column]) if seen[row, column] else "·"
            parts.append(box(*cell, look))
            parts.append(svg_text(left + side * (column + 0.5), y, said, 13, "middle"))
    for i in range(-(-n_q // block_q)):
        for j in range(-(-n_k // block_k)):
            line = 'fill="none" stroke="currentColor" stroke-width="1.6"'
            parts.append(box(*place(i, j), line))
    if causal:
        parts.append(svg_text(left, bottom + 20, "· hidden by the causal mask", 13))
    every = -(-n_q // block_q) * -(-n_k // block_k)
    alt = (
        f"A table of {n_q} × {n_k} scores in tiles of {block_q} × {block_k}, visited one after the "
        f"other, one button each: {len(tiles)} of {every} tiles"
        + (", none that a causal mask hides whole. " if causal else ". ")
        + "The value of each key is its number. "
        + " ".join(captions)
    )
    return StepThrough(
        "".join(parts),
        360,
        bottom + (30 if causal else 10),
        alt,
        buttons=tuple(str(i + 1) for i in range(len(tiles))),
        captions=tuple(captions),
        shown=shown,
        legend="Which tile is visited",
    )


def _score(x: float) -> str:
    """Write a whole number, or −∞."""
    return "−∞" if x == -np.inf else f"{x:.0f}".replace("-", "−")


def _span(one: str, many: str, part: slice) -> str:
    """Name a range of queries or keys."""
    last = part.stop - 1
    return f"{one} {last}" if last == part.start else f"{many} {part.start} to {last}"


def _told(row: int, before: tuple[np.ndarray, ...], after: tuple[np.ndarray, ...]) -> str:
    """Say what happened to a row's maximum and sums."""
    (m, l, o), (new_m, new_l, new_o) = ([x[row] for x in state] for state in (before, after))
    if m == -np.inf:
        return f"Query {row} begins: m = {_score(new_m)}, l = {new_l:.2f}, o = {new_o:.2f}."
    if new_m == m:
        return (
            f"Query {row}: m stays {_score(m)}, l grows from {l:.2f} to {new_l:.2f}, "
            f"o from {o:.2f} to {new_o:.2f}."
        )
    shrink = np.exp(m - new_m)
    return (
        f"Query {row}: m rises from {_score(m)} to {_score(new_m)}, so l = {l:.2f} shrinks to "
        f"{l * shrink:.2f}, and o = {o:.2f} to {o * shrink:.2f}, before the new is added."
    )


# ---- Calculator ----------------------------------------------------------------------------------

_SLIDERS = (
    ("context n", 10, 20), ("layers N", 1, 128), ("query heads h", 3, 7),
    ("key heads", 0, 7), ("head width", 6, 8), ("texts b", 0, 8), ("bits", 0, 2),
)  # fmt: skip
_BITS = (32, 16, 8)
_LEFT, _DOUBLING, _FIRST, _ROOM = 118, 4.1, 16, 40 * 2**30  # bars begin at 64 KiB
_CALCULATOR_WORDS = (
    tuple(f"{2**k:,}" for k in range(10, 21)), (), tuple(str(2**k) for k in range(3, 8)),
    tuple(str(2**k) for k in range(8)), ("64", "128", "256"),
    tuple(str(2**k) for k in range(9)), tuple(map(str, _BITS)),
)  # fmt: skip


def cache_calculator(
    n: int = 32_768,
    n_layers: int = 32,
    n_heads: int = 32,
    n_kv_heads: int = 8,
    d_head: int = 128,
    batch: int = 1,
    bits: int = 16,
) -> Sliders:
    """Draw what keys and values take, with sliders for the sizes of the model and of the batch.

    Parameters
    ----------
    n : int, default 32_768
        Context, a power of two from 1,024 to 1,048,576.
    n_layers : int, default 32
        From 1 to 128.
    n_heads : int, default 32
        Of queries, a power of two from 8 to 128.
    n_kv_heads : int, default 8
        A power of two up to 128; more than `n_heads` count as `n_heads`.
    d_head : int, default 128
        64, 128 or 256.
    batch : int, default 1
        Texts, a power of two up to 256.
    bits : int, default 16
        32, 16 or 8.

    Returns
    -------
    Sliders

    Raises
    ------
    ValueError
        If a slider couldn't be set so.

    Examples
    --------
    >>> cache_calculator().caption
    'A token takes 128 KiB, a fourth of what it takes with a head of keys for each query head.'
    """
    check_positive_int("n_layers", n_layers)
    if n_layers > 128:
        raise ValueError(f"n_layers must be at most 128; got {n_layers}")
    if isinstance(bits, bool) or bits not in _BITS:
        raise ValueError(f"bits must be one of {list(_BITS)}; got {bits!r}")
    start = (
        _exponent("n", n, 10, 20), n_layers, _exponent("n_heads", n_heads, 3, 7),
        _exponent("n_kv_heads", n_kv_heads, 0, 7), _exponent("d_head", d_head, 6, 8),
        _exponent("batch", batch, 0, 8), _BITS.index(bits),
    )  # fmt: skip
    shared, size = min(n_kv_heads, n_heads), bits // 8
    parts, said = [svg_text(4, 20, bold("keys and values"), 14)], []
    look = 'stroke="currentColor" stroke-opacity='
    for unit, power in (("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50)):
        x = _LEFT + _DOUBLING * (power - _FIRST)
        parts.append(f'<path d="M{x:.1f} 32V118" {look}"0.3"/>')
        parts.append(svg_text(x, 134, f"1 {unit}", 12.5, "middle"))
    x = _LEFT + _DOUBLING * float(np.log2(_ROOM) - _FIRST)
    parts.append(f'<path d="M{x:.1f} 26V118" {look}"1" stroke-dasharray="4 3"/>')
    parts.append(svg_text(x, 20, _amount(_ROOM, True).replace(".0", ""), 13, "middle"))
    for i, (name, heads) in enumerate((("MHA", n_heads), ("GQA", shared), ("MQA", 1))):
        value = _cache(n, n_layers, heads, d_head, batch, size)
        y = 50 + 28 * i
        words = f"{name}, {heads} head{'s' if heads > 1 else ''}"
        said.append(f"{words}: {_amount(value, True)}")
        parts.append(
            svg_text(4, y, f'<tspan data-name="{i}">{words}</tspan>', 13.5)
            + f'<rect data-bar="{i}" x="{_LEFT}" y="{y - 12}" height="15" rx="2" '
            f'width="{_DOUBLING * (np.log2(value) - _FIRST):.1f}" '
            f'fill="{(_ORANGE, _BLUE, _GREEN)[i]}" '
            'stroke="currentColor" stroke-opacity="0.5" stroke-width="0.8"/>'
            + svg_text(
                356, y, f'<tspan data-value="{i}">{_amount(value, True)}</tspan>', 13.5, "end"
            )
        )
    caption = _a_token(_cache(1, n_layers, shared, d_head, 1, size), n_heads, n_kv_heads)
    alt = (
        f"What keys and values take; sliders set the sizes, at first {n:,} tokens, {n_layers} "
        f"layers, {n_heads} query heads of {d_head}, {batch} text{'s' if batch > 1 else ''}, "
        f"{bits} bits. {'; '.join(said)}. The scale is logarithmic, 40 GiB are marked. {caption}"
    )
    return Sliders(
        "".join(parts),
        360,
        142,
        alt,
        kind="cache-calculator",
        sliders=tuple((*slider, value) for slider, value in zip(_SLIDERS, start, strict=True)),
        caption=caption,
        draw=_DRAW,
        legend="Sizes of the model, and the texts",
        words=_CALCULATOR_WORDS,
    )


_PARTS = {1: "as much as", 2: "half of what", 4: "a fourth of what", 8: "an eighth of what"}


def _a_token(nbytes: int, n_heads: int, n_kv_heads: int) -> str:
    """Say what a token takes."""
    group_size = n_heads // min(n_heads, n_kv_heads)
    part = _PARTS.get(group_size, f"1/{group_size} of what")
    more = f" Only {n_heads} of {n_kv_heads} heads of keys have a query head."
    return (
        f"A token takes {_amount(nbytes, True)}, {part} it takes with a head of keys for each "
        f"query head.{more if n_kv_heads > n_heads else ''}"
    )


# The same words as `_a_token`; a test holds them together.
_DRAW = f"""var n = Math.pow(2, values[0]), N = values[1], h = Math.pow(2, values[2]);
    var asked = Math.pow(2, values[3]), shared = Math.min(h, asked), d = Math.pow(2, values[4]);
    var b = Math.pow(2, values[5]), s = {list(_BITS)}[values[6]] / 8;
    {AMOUNTS}
    [["MHA", h], ["GQA", shared], ["MQA", 1]].forEach(function (way, i) {{
      var heads = way[1], key = '="' + i + '"]', value = 2 * N * n * heads * d * b * s;
      root.querySelector("[data-name" + key).textContent =
        way[0] + ", " + heads + " head" + (heads > 1 ? "s" : "");
      root.querySelector("[data-bar" + key).setAttribute("width",
        ({_DOUBLING} * (Math.log2(value) - {_FIRST})).toFixed(1));
      root.querySelector("[data-value" + key).textContent = size(value);
    }});
    var words = {_PARTS}, part = words[h / shared] || "1/" + h / shared + " of what";
    return "A token takes " + size(2 * N * shared * d * s) + ", " + part +
      " it takes with a head of keys for each query head." + (asked > h ?
        " Only " + h + " of " + asked + " heads of keys have a query head." : "");"""
