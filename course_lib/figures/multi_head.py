"""Figures of chapter 06, multi-head attention and masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from course_lib.figures.style import (
    COLOURS,
    MUTED,
    WIDTH,
    Plot,
    StepThrough,
    bold,
    course_style,
    svg_text,
)
from course_lib.reference.attention import causal_mask
from course_lib.reference.masks import combine_masks, padding_mask
from course_lib.validation import check_at_least, check_divides, check_positive_int

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["accuracy_by_heads", "head_lines", "masks_over_sentence", "split_and_glue"]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_HEADS = (_BLUE, _ORANGE, COLOURS["green"], COLOURS["purple"])


def split_and_glue(n: int = 3, d: int = 4, n_heads: int = 2) -> StepThrough:
    """Draw how a matrix is cut into heads and glued together again, and what lies where in memory.

    Every cell shows the place in memory of the number that stands there.

    Parameters
    ----------
    n : int, default 3
        Tokens, from 2 to 4.
    d : int, default 4
        Their width; ``n d`` is at most 12.
    n_heads : int, default 2
        From 2 to 4, divides `d`; each is at least 2 wide.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If a size isn't a whole number, the drawing has no room, or the heads don't divide the
        width.

    Examples
    --------
    >>> split_and_glue().buttons
    ('project', 'cut', 'turn', 'attend', 'turn back', 'glue', 'mix')
    """
    check_positive_int("n", n)
    check_positive_int("d", d)
    check_divides("n_heads", n_heads, "d", d)
    # With a single token, or with heads of one number, gluing would be a view.
    if not 2 <= n <= 4 or n * d > 12 or not 2 <= n_heads <= min(4, d // 2):
        raise ValueError(
            f"n must be from 2 to 4, n d at most 12, and n_heads from 2 to 4 with a width of at "
            f"least 2 each; got {n}, {d}, {n_heads}"
        )
    width = d // n_heads
    projected = np.arange(n * d).reshape(n, d)
    cut = projected.reshape(n, n_heads, width)
    turned = cut.swapaxes(0, 1)
    attended = np.arange(n * d).reshape(n_heads, n, width)
    back = attended.swapaxes(0, 1)
    glued = np.arange(n * d).reshape(n, d)
    own = np.broadcast_to(np.arange(n_heads)[None, :, None], cut.shape)
    by_head = np.arange(n * d) // (n * width)
    by_token = own.reshape(-1)
    plain, mixed = np.full(n * d, -1), np.full(n * d, -2)
    # name, what it is, places in memory, whose head each place in memory is, what is said
    steps: list[tuple[str, str, NDArray, NDArray, str]] = [
        ("project", "Q = X W_Q", projected, plain,
         "One product gives the queries of all heads. Each row is a token."),
        ("cut", "each row in h pieces", cut, by_token,
         "Read each row as h pieces, one for each head. A view: no number moves."),
        ("turn", "heads first", turned, by_token,
         "Bring the axis of heads forward. Now each head has a matrix of its own, with a row for "
         "each token. Still a view: the memory is as before, only the strides are exchanged."),
        ("attend", "each head by itself", attended, by_head,
         "Keys and values are cut likewise, and each head attends. It writes new numbers: first "
         "all of head 0, then all of the next."),
        ("turn back", "tokens first", back, by_head,
         "Bring the tokens forward again. A view: each row now has its pieces far apart in "
         "memory."),
        ("glue", "one row a token", glued, by_token,
         f"Strides can't say that a row is one piece now: the {n * d} numbers are copied into "
         "order."),
        ("mix", "times W_O", glued.copy(), mixed,
         "The last matrix mixes the heads: every number it writes is made of all of them."),
    ]  # fmt: skip
    parts = []
    for i, (name, what, places, heads, _) in enumerate(steps):
        strides = tuple(s // places.itemsize for s in places.strides)
        group = [
            svg_text(12, 20, f"{bold(name)}: {_indexed(what)}"),
            svg_text(12, 42, f"shape {_tuple(places.shape)}, strides {_tuple(strides)}", 14),
            *_matrices(places, heads, n_heads, first=name in ("turn", "attend")),
            svg_text(12, 64 + 30 * n + 44, "in memory, one after another:", 14),
        ]
        side = 336 / (n * d)
        for place in range(n * d):
            x, y = 12 + side * place, 64 + 30 * n + 54
            group += _cell(x, y, side, 28, place, int(heads[place]))
        hidden = "" if name == "turn" else ' style="display:none"'
        parts.append(f'<g data-step="{i}"{hidden}>{"".join(group)}</g>')
    said = "; ".join(
        f"{name}, shape {_tuple(places.shape)}, strides "
        f"{_tuple(tuple(s // places.itemsize for s in places.strides))}"
        for name, _, places, _, _ in steps
    )
    return StepThrough(
        "".join(parts),
        360,
        64 + 30 * n + 94,
        f"Queries of {n} tokens of width {d} on their way through {n_heads} heads, in "
        f"{len(steps)} steps: {said}. In cut, turn and turn back no number moves in memory; glue "
        "copies.",
        buttons=tuple(name for name, *_ in steps),
        captions=tuple(step[-1] for step in steps),
        shown=2,  # the still picture is the one with heads
        legend="Steps from the projection to the output",
    )


def _matrices(places: NDArray, heads: NDArray, n_heads: int, first: bool) -> list[str]:
    """Return the cells of one state: one matrix, pieces beside one another, or one a head."""
    n = places.shape[1] if first else places.shape[0]
    # (n, pieces, width), whatever the state's own axes are
    cells = places.swapaxes(0, 1) if first else places.reshape(n, -1, places.shape[-1])
    pieces, width = cells.shape[1:]
    gap = 44 if first else 10
    left = 88
    side = min(40.0, (348 - left - gap * (n_heads - 1)) / (pieces * width))
    parts = []
    for p in range(pieces):
        x0 = left + p * (width * side + gap)
        if first:
            head = int(heads[cells[0, p, 0]])
            parts.append(
                svg_text(x0 + width * side / 2, 64, f"head {p}", 14, "middle", _HEADS[head])
            )
        for i in range(n):
            for j in range(width):
                place = int(cells[i, p, j])
                parts += _cell(x0 + j * side, 72 + 30 * i, side, 30, place, int(heads[place]))
    for i in range(n):
        parts.append(svg_text(left - 10, 72 + 30 * i + 20, f"token {i}", 14, "end"))
    return parts


def _cell(x: float, y: float, width: float, height: float, place: int, head: int) -> list[str]:
    """Return one cell: in the colour of its head, plain (−1), or of all heads (−2)."""
    ink = _HEADS[head] if head >= 0 else "currentColor"
    tint = 0.22 if head >= 0 else 0.16 if head == -2 else 0.03
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{ink}" '
        f'fill-opacity="{tint}" stroke="{ink}" stroke-opacity="0.7"/>',
        svg_text(x + width / 2, y + height / 2 + 5, str(place), 14, "middle"),
    ]


def masks_over_sentence(words: Sequence[str], n_padding: int = 2) -> StepThrough:
    """Draw the masks of a padded sentence: causal, padding, both; and with padding on the left.

    Parameters
    ----------
    words : sequence of str
        From 1 to 8 short words.
    n_padding : int, default 2
        Tokens of padding, from 1; with the words at most 9.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If there are too few or too many words or tokens of padding.

    Examples
    --------
    >>> masks_over_sentence(["a", "cat"], 1)
    Masks over a cat with 1 token of padding, 3 queries by 3 keys; filled means may look. causal: \
6 of 9 pairs. padding: 6 of 9 pairs. both: 5 of 9 pairs. on the left: 3 of 9 pairs, and 1 query \
may look at nothing.
    """
    check_at_least("n_padding", n_padding, 1)
    n = len(words) + n_padding
    if not words or n > 9:
        raise ValueError(
            f"words and n_padding must be 9 tokens at most, 1 of them a word; got {list(words)} "
            f"and {n_padding}"
        )
    lengths = np.array([len(words)])
    causal, right = causal_mask(n), padding_mask(lengths, n)[0, 0]
    left = padding_mask(lengths, n, side="left")[0, 0]
    padded = [*words, *["‹pad›"] * n_padding]
    both, on_left = combine_masks(causal, right), combine_masks(causal, left)
    assert both is not None
    assert on_left is not None
    empty = int((~on_left.any(axis=-1)).sum())
    states: list[tuple[str, NDArray, list[str], str]] = [
        ("causal", causal, padded,
         "A token sees itself and what came before it. Padding is a token like any other here."),
        ("padding", np.broadcast_to(right, (n, n)), padded,
         "Padding is hidden as a key, from every query: whole columns are empty. Rows of padding "
         "stay; nobody reads their outputs."),
        ("both", both, padded,
         "A look is allowed only where both masks allow it. With padding on the right, every query "
         "has at least one key: the first word."),
        ("on the left", on_left, [*padded[len(words):], *words],
         f"Both again, with the padding on the left. {_queries(empty)} may look at nothing at "
         "all."),
    ]  # fmt: skip
    side, x0, y0 = 28, 84, 66
    parts = []
    for s, (_, mask, labels, _) in enumerate(states):
        group = []
        for i, label in enumerate(labels):
            faint = ' fill-opacity="0.7"' if label == "‹pad›" else ""
            x, y = x0 + side * i + 19, y0 - 8
            group.append(
                f'<text x="{x}" y="{y}" font-size="14" transform="rotate(-90 {x} {y})"{faint}>'
                f"{escape(label)}</text>"
            )
            group.append(svg_text(x0 - 8, y0 + side * i + 19, escape(label), 14, "end"))
            for j in range(n):
                group.append(_square(x0 + side * j, y0 + side * i, side, bool(mask[i, j])))
            if not mask[i].any():
                group.append(
                    f'<rect x="{x0}" y="{y0 + side * i}" width="{side * n}" height="{side}" '
                    f'fill="none" stroke="{_ORANGE}" stroke-width="3"/>'
                )
        hidden = "" if s == 2 else ' style="display:none"'
        parts.append(f'<g data-step="{s}"{hidden}>{"".join(group)}</g>')
    parts.append(svg_text(x0 - 8, y0 - 28, "key →", 13, "end"))
    parts.append(svg_text(x0 - 8, y0 - 8, "query ↓", 13, "end"))
    counts = [f"{name}: {int(mask.sum())} of {n * n} pairs" for name, mask, _, _ in states]
    alt = (
        f"Masks over {' '.join(words)} with {n_padding} token{'s' * (n_padding > 1)} of padding, "
        f"{n} queries by {n} keys; filled means may look. {'. '.join(counts)}, and "
        f"{empty} {'query' if empty == 1 else 'queries'} may look at nothing."
    )
    return StepThrough(
        "".join(parts),
        360,
        y0 + side * n + 8,
        alt,
        buttons=tuple(name for name, *_ in states),
        captions=tuple(state[-1] for state in states),
        shown=2,
        legend="Which mask",
    )


def _square(x: float, y: float, side: float, seen: bool) -> str:
    """Return a cell of a mask: filled where a query may look."""
    grid = (
        f'<rect x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.3"/>'
    )
    if not seen:
        return grid
    return grid + (
        f'<rect x="{x + 4:g}" y="{y + 4:g}" width="{side - 8:g}" height="{side - 8:g}" rx="4" '
        f'fill="{_BLUE}"/>'
    )


def head_lines(
    tokens: Sequence[str], weights: ArrayLike, shown: int = 0, first: int = 0
) -> StepThrough:
    """Draw where each head looks: a line from each token to those it takes from.

    Parameters
    ----------
    tokens : sequence of str, (n,)
        From 2 to 9.
    weights : array-like, (h, n, n)
        A table for each head; rows sum to 1.
    shown : int, default 0
        The head of the still picture.
    first : int, default 0
        The first query counted in what is said under the drawing.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If `weights` isn't a table of weights over the tokens for each head, or `shown` isn't a
        head.

    Examples
    --------
    >>> head_lines(["a", "cat"], [[[1, 0], [0.9, 0.1]], [[0.5, 0.5], [0.5, 0.5]]])
    Where 2 heads look over a cat. Head 0: mostly the token before, mean weight 0.90. Head 1: \
spread out; most goes to the token before, mean weight 0.50.
    """
    n = len(tokens)
    tables = np.asarray(weights, dtype=np.float64)
    if not 2 <= n <= 9:
        raise ValueError(f"tokens must be from 2 to 9; got {list(tokens)}")
    if tables.ndim != 3 or tables.shape[1:] != (n, n) or len(tables) == 0:
        raise ValueError(f"weights must have the shape (h, {n}, {n}); got {tables.shape}")
    if not ((tables >= 0).all() and np.allclose(tables.sum(axis=-1), 1.0, atol=1e-4)):
        raise ValueError("weights must be rows of weights that sum to 1")
    check_at_least("shown", shown, 0)
    check_at_least("first", first, 0)
    if shown >= len(tables) or first >= n - 1:
        raise ValueError(
            f"shown must be below {len(tables)} and first below {n - 1}; got {shown}, {first}"
        )
    gap, top = 32, 52
    ys = [top + gap * i for i in range(n)]
    parts = [svg_text(112, 24, "asks", 14, "end"), svg_text(246, 24, "is asked", 14)]
    for h, table in enumerate(tables):
        lines = [
            f'<line x1="122" y1="{ys[i]}" x2="238" y2="{ys[j]}" stroke="{_ORANGE}" '
            f'stroke-width="{0.6 + 5 * w:.2f}" stroke-opacity="{min(1.0, 0.15 + w):.2f}"/>'
            for i, row in enumerate(table)
            for j, w in enumerate(row)
            if w >= 0.04
        ]
        hidden = "" if h == shown else ' style="display:none"'
        parts.append(f'<g data-step="{h}"{hidden}>{"".join(lines)}</g>')
    for y, token in zip(ys, tokens, strict=True):
        parts.append(svg_text(112, y + 5, escape(token), anchor="end"))
        parts.append(svg_text(246, y + 5, escape(token)))
    said = [_where(tokens, table, first) for table in tables]
    alt = f"Where {len(tables)} heads look over {' '.join(tokens)}. " + " ".join(
        f"Head {h}: {words}." for h, words in enumerate(said)
    )
    return StepThrough(
        "".join(parts),
        360,
        ys[-1] + 20,
        alt,
        buttons=tuple(str(h) for h in range(len(tables))),
        captions=tuple(f"Head {h}: {words}." for h, words in enumerate(said)),
        shown=shown,
        legend="Which head",
    )


def _where(tokens: Sequence[str], table: NDArray, first: int) -> str:
    """Say which place a head's tokens look at most."""
    n = len(table)
    rows = np.arange(first, n)
    means = {
        "the token before": table[rows[rows > 0], rows[rows > 0] - 1].mean(),
        "the token itself": table[rows, rows].mean(),
        "the token after": table[rows[rows < n - 1], rows[rows < n - 1] + 1].mean(),
        f"“{tokens[0]}”, the first": table[rows, 0].mean(),
        f"“{tokens[-1]}”, the last": table[rows, -1].mean(),
    }
    if n == 2:  # before and after are first and last then
        del means[f"“{tokens[0]}”, the first"], means[f"“{tokens[-1]}”, the last"]
    place = max(means, key=lambda name: means[name])
    if means[place] > 0.5:
        return f"mostly {place}, mean weight {means[place]:.2f}"
    return f"spread out; most goes to {place}, mean weight {means[place]:.2f}"


def accuracy_by_heads(
    n_heads: ArrayLike,
    accuracy: ArrayLike,
    patient: Mapping[int, ArrayLike],
    d_model: int,
    steps: tuple[int, int],
) -> Plot:
    """Draw what models with more and more heads get right, the same width and parameters for all.

    Parameters
    ----------
    n_heads : array-like, (m,)
        Numbers of heads, rising.
    accuracy : array-like, (m, seeds)
        Shares of right answers.
    patient : mapping from int to array-like, (seeds,)
        Those with more steps of training, for some of the numbers of heads.
    d_model : int
        The width that the heads share.
    steps : (int, int)
        Steps of training, of all and of the patient ones.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the shapes don't fit, a share isn't between 0 and 1, or `patient` has another number of
        heads.

    Examples
    --------
    >>> accuracy_by_heads([1, 2], [[0.5, 0.6], [1.0, 1.0]], {1: [0.7, 0.8]}, 32, (10, 50))
    Share of right answers against the number of heads, width 32. After 10 steps, 1 head: 0.50 to \
0.60; 2 heads: 1.00 to 1.00. After 50 steps, 1 head: 0.70 to 0.80.
    """
    x, y = np.asarray(n_heads), np.asarray(accuracy, dtype=np.float64)
    more = {h: np.asarray(shares, dtype=np.float64) for h, shares in patient.items()}
    shapes = [shares.shape for shares in more.values()]
    if x.ndim != 1 or len(x) < 2 or y.ndim != 2 or len(y) != len(x):
        raise ValueError(
            f"accuracy must have a row for each of n_heads; got shapes {x.shape}, {y.shape}"
        )
    if not more or not set(more) <= set(x.tolist()) or any(s != y.shape[1:] for s in shapes):
        raise ValueError(
            f"patient must have {y.shape[1]} shares for some of {x.tolist()} heads; got shapes "
            f"{dict(zip(more, shapes, strict=True))}"
        )
    for name, shares in (("accuracy", y), *(("patient", row) for row in more.values())):
        if shares.size == 0 or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"{name} must be shares between 0 and 1; got {shares}")
    # Seeds stand side by side, so that equal ones don't hide one another.
    aside = 1.07 ** (np.arange(y.shape[1]) - (y.shape[1] - 1) / 2)
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(np.outer(x, aside).ravel(), y.ravel(), "o", color=_BLUE, clip_on=False)
        for h, shares in more.items():
            axes.plot(h * aside, shares, "^", color=_ORANGE, clip_on=False)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0.0, 1.05)
        axes.xaxis.set_major_locator(FixedLocator(x.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{h}\n{d_model // h}" for h in x])
        axes.set_xlabel("heads (below: the width of each)")
        axes.set_ylabel("both look-ups right, share")
        for y_text, words, colour in (
            (0.2, f"● {steps[0]:,} steps, by seed", _BLUE),
            (0.1, f"▲ {steps[1]:,} steps, by seed", _ORANGE),
        ):
            axes.annotate(words, (0.3, y_text), xycoords="axes fraction", color=colour)
        axes.axhline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0)
    said = []
    for n, rows in ((steps[0], dict(zip(x.tolist(), y, strict=True))), (steps[1], more)):
        ranges = [f"{_heads(h)}: {row.min():.2f} to {row.max():.2f}" for h, row in rows.items()]
        said.append(f"After {n} steps, {'; '.join(ranges)}.")
    return Plot(
        figure,
        f"Share of right answers against the number of heads, width {d_model}. {' '.join(said)}",
    )


def _heads(count: int) -> str:
    """Return a number of heads in words."""
    return f"{count} head{'s' * (count > 1)}"


def _indexed(formula: str) -> str:
    """Return a formula with what follows an underscore as an index."""
    for letter in "QO":
        formula = formula.replace(
            f"W_{letter}", f'W<tspan dy="3" font-size="75%">{letter}</tspan><tspan dy="-3">​</tspan>'
        )
    return formula


def _tuple(numbers: tuple[int, ...]) -> str:
    """Return a shape in round brackets."""
    return f"({', '.join(map(str, numbers))})"


def _queries(count: int) -> str:
    """Return a number of queries in words."""
    return "One query" if count == 1 else f"{count} queries"
