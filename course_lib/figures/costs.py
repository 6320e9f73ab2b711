"""Figures of chapter 12, cost and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib import accounting
from course_lib.cost_formulas import Formulas, evaluate, to_html, to_text
from course_lib.figures.style import (
    COLOURS,
    MUTED,
    SKY,
    WIDTH,
    Plot,
    Sliders,
    bold,
    course_style,
    svg_text,
)
from course_lib.validation import check_at_least, check_positive_int

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Table",
    "bottleneck_map",
    "cost_table",
    "memory_against_length",
    "memory_over_step",
    "training_calculator",
]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN, _PURPLE = COLOURS["green"], COLOURS["purple"]
_HEAD = 64  # width of a head where the number of heads follows from the model's width
# Where the 8 h n² bytes of a layer's tables are as many as all others that it keeps, d_ff = 4 d and
# h = d / 64: n²d / 8 = (56 + 5 / 64) n d, but for a few numbers that don't grow with d.
_HALF = round(8 * (56 + 5 / _HEAD))


# ---- Table ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table for a page, with the same in plain text.

    Parameters
    ----------
    html : str
        The element ``<table>``.
    text : str
        What it says, for what shows no tables.
    name : str
        What it is about, for those who hear the page.

    Examples
    --------
    >>> Table("<table></table>", "Nothing.", "An empty table")
    Nothing.
    """

    html: str = field(repr=False)
    text: str
    name: str = field(repr=False)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Return the table in a box of its own, which scrolls where the page is narrow."""
        return (
            f'<div role="region" aria-label="{escape(self.name)}" tabindex="0" '
            f'style="overflow-x:auto;margin:.5rem 0">{self.html}</div>'
        )


def cost_table(
    rows: Mapping[str, Formulas], *, n: int, d: int, h: int, d_ff: int, N: int, V: int
) -> Table:
    """Show formulas and, under each, what it amounts to.

    Parameters
    ----------
    rows : mapping of names to Formulas
    n, d, h, d_ff, N, V : int
        The sizes that the numbers are for.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If there are no rows, or a size isn't a whole number of at least 1.

    Examples
    --------
    >>> rows = {"layer norm": Formulas(flops="0", parameters="2*d", steps="2")}
    >>> cost_table(rows, n=1, d=512, h=8, d_ff=2048, N=6, V=9)
    layer norm | steps 2 | FLOPs 0 | parameters 2d = 1,024
    """
    if not rows:
        raise ValueError("rows must have at least one row; got none")
    sizes = {"n": n, "d": d, "h": h, "d_ff": d_ff, "N": N, "V": V}
    for name, size in sizes.items():
        check_positive_int(name, size)
    columns = {
        "steps": "steps", "path": "path", "flops": "FLOPs", "parameters": "parameters",
        "kept": "kept, bytes",
    }  # fmt: skip
    used = [key for key in columns if any(getattr(row, key) for row in rows.values())]
    left = (
        "text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;"
        "border-top:1px solid rgba(128,128,128,.35)"
    )
    small = "font-size:.85em;white-space:nowrap"
    head = "".join(f'<th scope="col" style="{left}">{columns[key]}</th>' for key in used)
    lines, said = [], []
    for name, row in rows.items():
        cells, words = [], [name]
        for key in used:
            if not (formula := getattr(row, key)):
                cells.append(f'<td style="{left}"></td>')
                continue
            number, written = evaluate(formula, sizes), to_text(formula)
            plain = written.replace(",", "").isdigit()
            amount = f"{number:,}" if number < 10_000 else _amount(number, "bytes" in columns[key])
            below = "" if plain else f'<br><span style="{small}">{amount}</span>'
            whole = ";white-space:nowrap" if len(written) < 12 else ""
            cells.append(f'<td style="{left}{whole}">{to_html(formula)}{below}</td>')
            words.append(f"{columns[key]} {written}" + ("" if plain else f" = {amount}"))
        lines.append(f'<tr><th scope="row" style="{left}">{escape(name)}</th>{"".join(cells)}</tr>')
        said.append(" | ".join(words))
    look = "border-collapse:collapse;font-size:.9em;min-width:40rem"
    html = (
        f'<table style="{look}"><thead><tr><td></td>{head}</tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table>"
    )
    return Table(html, "\n".join(said), "Costs by formula")


# ---- Plots ---------------------------------------------------------------------------------------


def memory_over_step(runs: Mapping[str, Sequence[int]]) -> Plot:
    """Draw how many bytes are alive in the course of a training step.

    Parameters
    ----------
    runs : mapping of names to sequences of int
        One to three; bytes after each operation, from `course_lib.accounting.live_bytes`.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no runs or more than three, or one has fewer than two numbers.

    Examples
    --------
    >>> memory_over_step({"all kept": [0, 2 << 20, 1 << 20]})
    Memory alive after each operation of a training step, in MiB. all kept: 3 operations, a peak \
of 2.0 MiB after 50 % of them.
    """
    if not 1 <= len(runs) <= 3:
        raise ValueError(f"runs must be one to three; got {len(runs)}")
    rows = {name: np.asarray(row, dtype=np.float64) / 2**20 for name, row in runs.items()}
    for name, row in rows.items():
        if row.ndim != 1 or row.size < 2:
            raise ValueError(f"runs[{name!r}] must be at least two numbers; got shape {row.shape}")
    looks = ((_BLUE, "-"), (_ORANGE, (0, (4, 1.5))), (_GREEN, (0, (1.5, 1.2))))
    said = []
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
        axes = figure.add_subplot()
        for (colour, dashes), (name, row) in zip(looks, rows.items(), strict=False):
            at, peak = int(row.argmax()), row.max()
            x = np.arange(row.size)
            axes.plot(x, row, color=colour, linestyle=dashes, linewidth=1.6, label=name)
            said.append(
                f"{name}: {row.size:,} operations, a peak of {peak:.1f} MiB after "
                f"{at / (row.size - 1):.0%} of them.".replace("%", " %")
            )
        axes.set_xlim(0, max(row.size for row in rows.values()))
        axes.set_ylim(0, 1.28 * max(row.max() for row in rows.values()))
        axes.set_xlabel("operations of the step, in order")
        axes.set_ylabel("alive, MiB")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.legend(loc="upper right", frameon=False, ncols=len(rows))
    alt = f"Memory alive after each operation of a training step, in MiB. {' '.join(said)}"
    return Plot(figure, alt)


def memory_against_length(
    d: int = 512, n_layers: int = 6, vocab_size: int = 32_000, longest: int = 8192
) -> Plot:
    """Draw what training holds in memory for one pair, against its length.

    An encoder-decoder with heads of 64 and d_ff = 4 d, one table of embeddings for both sides and
    the output, source and target of the same length, float32, Adam.

    Parameters
    ----------
    d : int, default 512
        Width, a multiple of 64.
    n_layers : int, default 6
        N.
    vocab_size : int, default 32_000
    longest : int, default 8192
        At least 64.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a size isn't a whole number or too small, or `d` no multiple of 64.

    Examples
    --------
    >>> memory_against_length(longest=4096).alt[:73]
    'Memory of training with one pair of n tokens each, n from 32 to 4096, d ='
    """
    check_at_least("longest", longest, 64)
    x = np.unique(np.geomspace(32, longest, 29).round().astype(int))
    heads, d_ff = _heads(d), 4 * d
    parameters = accounting.total(
        accounting.encoder_decoder(
            2, 2, vocab_size, vocab_size, d, heads, n_layers, d_ff, tie="all"
        )
    ).parameters
    fixed = 16 * parameters
    tables, rest = [], []
    for n in x.tolist():
        kept = accounting.activation_memory(
            n, n, vocab_size, d, heads, n_layers, d_ff, padded=False
        )
        tables.append(kept["attention tables"])
        rest.append(sum(kept.values()) - tables[-1])
    rows = {
        "attention tables": (_ORANGE, "-", np.array(tables)),
        "other activations": (_BLUE, (0, (4, 1.5)), np.array(rest)),
        "parameters,\ngradients, Adam": (_GREEN, (0, (1.5, 1.2)), np.full(x.size, fixed)),
    }
    passed = [
        int(x[np.argmax(np.array(tables) >= row)]) if tables[-1] >= row[-1] else 0
        for row in (np.array(rest), np.full(x.size, fixed))
    ]
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for name, (colour, dashes, row) in rows.items():
            axes.plot(x, row / 2**30, color=colour, linestyle=dashes, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlim(x[0], x[-1])
        _powers_of_two(axes, int(x[-1]), every=1 if longest <= 8192 else 2)
        axes.yaxis.set_major_locator(FixedLocator([2.0**k for k in range(-10, 12, 2)]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _gibibytes(value)))
        axes.set_xlabel(f"length $n$ ($d$ = {d}, {heads} heads, $N$ = {n_layers})")
        axes.set_ylabel("for one pair, float32")
        axes.legend(loc="upper left", frameon=False, labelspacing=0.3)
    first, last = (
        ", ".join(
            f"{name.replace(chr(10), ' ')} {_amount(float(row[i]), True)}"
            for name, (*_, row) in rows.items()
        )
        for i in (0, -1)
    )
    overtaken = " and ".join(
        f"{what} {f'by n = {n}' if n else 'nowhere'}"
        for what, n in zip(("the other activations", "all that is fixed"), passed, strict=True)
    )
    alt = (
        f"Memory of training with one pair of n tokens each, n from {x[0]} to {x[-1]}, d = {d}, "
        f"{n_layers} layers, both axes logarithmic. At the left: {first}. At the right: {last}. "
        f"The tables pass {overtaken}."
    )
    return Plot(figure, alt)


def bottleneck_map(models: Mapping[str, tuple[int, int]], longest: int = 2**19) -> Plot:
    """Draw where in the plane of length and width a layer spends its FLOPs, with models in it.

    A layer of self-attention and a feed-forward network of d_ff = 4 d takes ``24 n d²`` FLOPs in
    products with weights and ``4 n² d`` in scores and sums, which are a share of n / (n + 6 d).

    Parameters
    ----------
    models : mapping of names to (n, d)
        At most eight.
    longest : int, default 2**19

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a model lies outside: n from 16 to `longest`, d from 64 to 16,384.

    Examples
    --------
    >>> bottleneck_map({"base": (50, 512)})
    Share of a layer's FLOPs that scores and weighted sums take, n / (n + 6 d), for n from 16 to \
524288 and d from 64 to 16384, both axes logarithmic: half on the line n = 6 d, below a quarter \
left of n = 2 d, above three quarters right of n = 18 d. Of what such a layer keeps in memory, \
tables are half from n = 449 on, at any width. base, n = 50, d = 512: 2 %.
    """
    check_at_least("longest", longest, 1024)
    if not 1 <= len(models) <= 8:
        raise ValueError(f"models must be one to eight; got {len(models)}")
    for name, (n, d) in models.items():
        if not (16 <= n <= longest and 64 <= d <= 2**14):
            raise ValueError(
                f"models[{name!r}] must have n from 16 to {longest} and d from 64 to 16384; got "
                f"({n}, {d})"
            )
    width = np.array([64.0, 2.0**14])
    with course_style():
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlim(16, longest)
        axes.set_ylim(64, 2**14)
        axes.fill_betweenx(width, 16, 2 * width, color=SKY, alpha=0.35, linewidth=0)
        axes.fill_betweenx(width, 18 * width, longest, color=_ORANGE, alpha=0.3, linewidth=0)
        axes.plot(6 * width, width, color="black", linewidth=1.4, linestyle=(0, (4, 2)))
        _powers_of_two(axes, longest, every=3)
        axes.yaxis.set_major_locator(FixedLocator([2.0**k for k in range(6, 15, 2)]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("length $n$")
        axes.set_ylabel("width $d$")
        axes.axvline(_HALF, color=_PURPLE, linewidth=1.8, linestyle=(0, (1.5, 1.2)))
        axes.text(0.03, 0.6, "products\nwith weights", transform=axes.transAxes)
        axes.text(0.97, 0.3, "scores\nand sums", transform=axes.transAxes, ha="right")
        axes.annotate(
            f"half of\nmemory:\nn = {_HALF}", (_HALF, 0.05), (-6, 0), textcoords="offset points",
            xycoords=("data", "axes fraction"), color=_PURPLE, ha="right",
        )  # fmt: skip
        axes.annotate("$n = 6d$", (6 * 180, 180), (7, -2), textcoords="offset points", va="center")
        for name, (n, d) in models.items():
            axes.plot([n], [d], "o", color="black", markersize=5)
            below = d > 2**13 or n > 6 * d  # away from the upper edge, and from the dashed line
            edge, dotted = n < 128, _HALF <= n < 4 * _HALF  # close at the left
            axes.annotate(
                name, (n, d), (-18 if edge else 0, -7 if below else 6), textcoords="offset points",
                ha="left" if edge or dotted else "center", va="top" if below else "bottom",
                fontsize=10.5,
            )  # fmt: skip
    said = " ".join(
        f"{name}, n = {n}, d = {d}: {100 * n / (n + 6 * d):.0f} %."
        for name, (n, d) in models.items()
    )
    alt = (
        "Share of a layer's FLOPs that scores and weighted sums take, n / (n + 6 d), for n from 16 "
        f"to {longest} and d from 64 to 16384, both axes logarithmic: half on the line n = 6 d, "
        "below a quarter left of n = 2 d, above three quarters right of n = 18 d. Of what such a "
        f"layer keeps in memory, tables are half from n = {_HALF} on, at any width. {said}"
    )
    return Plot(figure, alt)


def _powers_of_two(axes: Axes, longest: int, every: int = 1) -> None:
    """Mark lengths at powers of two."""
    marks = [2.0**k for k in range(4, 31, every) if 2**k <= longest]
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _gibibytes(number: float) -> str:
    """Write a power of two of GiB, in MiB where that is shorter."""
    return f"{number:,.0f} GiB" if number >= 1 else f"{1024 * number:,.0f} MiB"


def _heads(d: int) -> int:
    """Return how many heads of 64 there are, or raise."""
    check_positive_int("d", d)
    if d % _HEAD:
        raise ValueError(f"d must be a multiple of {_HEAD}, the width of a head; got {d}")
    return d // _HEAD


# ---- Calculator ----------------------------------------------------------------------------------

# Of b pairs of n tokens each, d_ff = 4 d, heads of 64, dropout, no padding, s bytes a number. Text
# that both Python and the script compute.
_PARAMETERS = "(N*(28*d**2 + 32*d) + 3*V*d + V)"
_MEMORY = {
    "parameters": f"s*{_PARAMETERS}",
    "gradients": f"s*{_PARAMETERS}",
    "Adam": f"(16 - 2*s)*{_PARAMETERS}",  # in float32: its means, and a copy if s is 2
    "attention tables": "6*N*b*h*n**2*s",
    "other activations": (
        "N*b*n*((15*d + 10*d + 10*d + 5)*s + 3*h*(s + 1) + 1 + 5*d*s) + N*n**2 + 4*b*n*d*s + 16*b*n"
    ),
    "log-probabilities": "b*n*V*s",
}
_FLOPS = {
    "projections": "72*N*b*n*d**2",
    "scores and sums": "36*N*b*n**2*d",
    "feed-forward": "96*N*b*n*d**2",
    "vocabulary": "6*b*n*d*V",
}
_CACHE = "4*N*b*n*d*s"
_SIZES = ((_BLUE, _GREEN, SKY, _ORANGE, _PURPLE, MUTED), (_BLUE, _ORANGE, _GREEN, MUTED))
_VOCABULARY = 32_000
_COUNTS = ("", " k", " M", " G", " T", " P", " E", " Z", " Y")
_BYTES = (" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB", " ZiB")
_RATES = ("10 G", "100 G", "1 T", "10 T", "100 T", "1 P", "10 P")
_WORDS = (
    tuple(f"{2**k:,}" for k in range(4, 18)),
    tuple(f"{2**k:,}" for k in range(6, 15)),
    (),
    tuple(f"{2**k:,}" for k in range(11)),
    ("4", "2"),
    _RATES,
)


def training_calculator(
    n: int = 64, d: int = 512, n_layers: int = 6, batch: int = 256, size: int = 4, rate: int = 1
) -> Sliders:
    """Draw what a training step of an encoder-decoder needs, with sliders for its sizes.

    Heads are 64 wide, d_ff = 4 d, 32,000 tokens, nothing tied, with dropout; source and target are
    equally long. The optimiser is Adam, which works in float32 whatever the numbers' size.

    Parameters
    ----------
    n : int, default 64
        Length, a power of two from 16 to 131,072.
    d : int, default 512
        Width, a power of two from 64 to 16,384.
    n_layers : int, default 6
        From 1 to 96.
    batch : int, default 256
        Pairs, a power of two up to 1,024.
    size : int, default 4
        Bytes a number, 4 or 2; with 2, Adam holds a copy of the parameters in float32 as well.
    rate : int, default 1
        FLOPs a second, 10 to the power of 10 + `rate`, `rate` from 0 to 6.

    Returns
    -------
    Sliders

    Raises
    ------
    ValueError
        If a slider couldn't be set so.

    Examples
    --------
    >>> print(training_calculator(n=32, d=64, n_layers=1, batch=1).caption)
    One step: 418 MFLOP at 100 GFLOP/s, 4.18 ms.
    """
    steps = {
        "n": _exponent("n", n, 4, 17),
        "d": _exponent("d", d, 6, 14),
        "batch": _exponent("batch", batch, 0, 10),
    }
    for name, value, allowed in (
        ("n_layers", n_layers, range(1, 97)), ("size", size, (2, 4)), ("rate", rate, range(7)),
    ):  # fmt: skip
        if isinstance(value, bool) or value not in allowed:
            raise ValueError(f"{name} must be one of {list(allowed)}; got {value!r}")
    sizes = {
        "n": n, "d": d, "h": d // _HEAD, "N": n_layers, "b": batch, "s": size, "V": _VOCABULARY,
    }  # fmt: skip
    parts, top = [], 22
    totals = []
    for what, formulas, colours, binary in (
        ("memory of training", _MEMORY, _SIZES[0], True),
        ("FLOPs of a step", _FLOPS, _SIZES[1], False),
    ):
        values = {name: evaluate(formula, sizes) for name, formula in formulas.items()}
        whole = sum(values.values())
        totals.append(whole)
        kind = "memory" if binary else "flops"
        total = f'<tspan data-total="{kind}">{_amount(whole, binary)}</tspan>'
        parts.append(svg_text(4, top, bold(what), 14) + svg_text(356, top, bold(total), 14, "end"))
        for i, (name, value) in enumerate(values.items()):
            y, share = top + 23 * (i + 1), value / whole
            parts.append(
                svg_text(4, y, escape(name), 13.5)
                + f'<rect data-bar="{kind} {i}" x="130" y="{y - 12}" height="14" rx="2" '
                f'width="{130 * share:.1f}" fill="{colours[i]}" stroke="currentColor" '
                'stroke-opacity="0.5" stroke-width="0.8"/>'
                + svg_text(
                    356,
                    y,
                    f'<tspan data-value="{kind} {i}">{_amount(value, binary)}</tspan>',
                    13.5,
                    "end",
                )
            )
        top += 23 * (len(values) + 1) + 18
    held, cached = evaluate(_PARAMETERS, sizes), evaluate(_CACHE, sizes)
    for name, words, kind in (
        ("parameters", _amount(held, False), "held"),
        ("cache to write n tokens", _amount(cached, True), "cache"),
    ):
        tspan = f'<tspan data-total="{kind}">{words}</tspan>'
        parts.append(svg_text(4, top, name, 13.5) + svg_text(356, top, bold(tspan), 13.5, "end"))
        top += 23
    caption = _step(totals[1], rate)
    alt = (
        "What training an encoder-decoder needs; sliders set its sizes, at first "
        f"n = {n}, d = {d}, N = {n_layers}, {batch} pairs, {size} bytes a number. Memory "
        f"{_amount(totals[0], True)}: "
        + ", ".join(
            f"{name} {_amount(evaluate(formula, sizes), True)}" for name, formula in _MEMORY.items()
        )
        + f". FLOPs {_amount(totals[1], False)}: "
        + ", ".join(
            f"{name} {_amount(evaluate(formula, sizes), False)}" for name, formula in _FLOPS.items()
        )
        + f". {_amount(held, False)} parameters. {caption}"
    )
    return Sliders(
        "".join(parts),
        360,
        top - 8,
        alt,
        kind="training-calculator",
        sliders=(
            ("length n", 4, 17, steps["n"]),
            ("width d", 6, 14, steps["d"]),
            ("layers N", 1, 96, n_layers),
            ("pairs b", 0, 10, steps["batch"]),
            ("bytes", 0, 1, 0 if size == 4 else 1),
            ("FLOP/s", 0, 6, rate),
        ),
        caption=caption,
        draw=_DRAW,
        legend="Sizes of the model and of the batch, and the machine",
        words=_WORDS,
    )


def _exponent(name: str, value: int, low: int, high: int) -> int:
    """Return the power of two that a size is, or raise."""
    allowed = {2**k: k for k in range(low, high + 1)}
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name} must be a power of two from {2**low} to {2**high}; got {value!r}")
    return allowed[value]


def _step(flops: int, rate: int) -> str:
    """Return how long a step takes, in words."""
    return (
        f"One step: {_amount(flops, False)}FLOP at {_RATES[rate]}FLOP/s, "
        f"{_time(flops / 10 ** (10 + rate))}."
    )


def _three_digits(value: float) -> str:
    """Write a number below 1,000 with three digits, halves away from zero as a script does."""
    places = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return str(Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def _amount(value: float, binary: bool) -> str:
    """Write a number with a unit: bytes in steps of 1,024, others in steps of 1,000."""
    units, base = (_BYTES, 1024.0) if binary else (_COUNTS, 1000.0)
    value, i = float(value), 0
    while value >= 999.5 and i < len(units) - 1:
        value, i = value / base, i + 1
    text = f"{value:.0f}" if i == 0 else _three_digits(value)
    return text + units[i]


def _time(seconds: float) -> str:
    """Write a time with a unit."""
    for limit, length, unit in (
        (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (100.0, 1.0, "s"), (6000.0, 60.0, "min"),
        (360_000.0, 3600.0, "h"), (8_640_000.0, 86_400.0, "days"),
    ):  # fmt: skip
        if seconds < limit:
            return f"{_three_digits(seconds / length)} {unit}"
    return _amount(seconds / 31_557_600, False) + " years"


def _listed(formulas: Mapping[str, str]) -> str:
    return "[" + ", ".join(formulas.values()) + "]"


# The words of `_amount`, for every calculator's script: `size` writes bytes, `count` other numbers.
AMOUNTS = f"""function digits(x) {{ return x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0); }}
    function amount(x, units, base) {{
      var i = 0;
      while (x >= 999.5 && i < units.length - 1) {{ x /= base; i++; }}
      return (i ? digits(x) : x.toFixed(0)) + units[i];
    }}
    function count(x) {{ return amount(x, {list(_COUNTS)}, 1000); }}
    function size(x) {{ return amount(x, {list(_BYTES)}, 1024); }}"""

# The formulas above, and the same words as `_amount`, `_time` and `_step`; a test holds them
# together.
_DRAW = f"""var n = Math.pow(2, values[0]), d = Math.pow(2, values[1]), N = values[2];
    var b = Math.pow(2, values[3]), s = values[4] ? 2 : 4, h = d / {_HEAD}, V = {_VOCABULARY};
    var rate = {list(_RATES)}[values[5]];
    {AMOUNTS}
    function time(x) {{
      var units = [[1e-3, 1e-6, "µs"], [1, 1e-3, "ms"], [100, 1, "s"], [6000, 60, "min"],
        [360000, 3600, "h"], [8640000, 86400, "days"]];
      for (var i = 0; i < units.length; i++)
        if (x < units[i][0]) return digits(x / units[i][1]) + " " + units[i][2];
      return count(x / 31557600) + " years";
    }}
    function put(kind, x, word) {{
      root.querySelector('[data-total="' + kind + '"]').textContent = word(x);
    }}
    function show(kind, parts, word) {{
      var whole = parts.reduce(function (a, c) {{ return a + c; }});
      put(kind, whole, word);
      parts.forEach(function (x, i) {{
        var key = '="' + kind + " " + i + '"]';
        root.querySelector("[data-bar" + key).setAttribute("width", (130 * x / whole).toFixed(1));
        root.querySelector("[data-value" + key).textContent = word(x);
      }});
      return whole;
    }}
    show("memory", {_listed(_MEMORY)}, size);
    var flops = show("flops", {_listed(_FLOPS)}, count);
    put("held", {_PARAMETERS}, count);
    put("cache", {_CACHE}, size);
    return "One step: " + count(flops) + "FLOP at " + rate + "FLOP/s, " +
      time(flops / Math.pow(10, 10 + values[5])) + ".";"""
