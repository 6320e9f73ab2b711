"""Figures of chapter 11, decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
from course_lib.reference import decoding_filters
from course_lib.validation import check_at_least, check_several

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "accuracy_by_position",
    "beam_tree",
    "cache_growth",
    "decoding_times",
    "slopes",
    "what_filters_keep",
]

_BLUE, _ORANGE, _GREEN = COLOURS["blue"], COLOURS["orange"], COLOURS["green"]

_LARGE = 14.0  # type for a phone, where a plot of many panels is shown at two thirds

Words = tuple[str, ...]
Table = Mapping[Words, Mapping[str, float]]


# ---- Drawings ------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """What one step of a search looked at: hypotheses and their total probabilities."""

    considered: dict[Words, float]
    kept: list[Words]
    finished: list[Words]


def _search(table: Table, width: int, end: str) -> list[_Step]:
    """Return the steps of a beam search that ranks by total probability."""
    live: dict[Words, float] = {(): 1.0}
    done: list[float] = []
    steps: list[_Step] = []
    while live:
        considered: dict[Words, float] = {
            (*before, word): total * p
            for before, total in live.items()
            for word, p in table[before].items()
        }
        ranked = sorted(considered, key=lambda words: -considered[words])
        finished = [words for words in ranked[:width] if words[-1] == end]
        live = {words: considered[words] for words in ranked if words[-1] != end}
        live = dict(list(live.items())[:width])
        done = sorted([*done, *(considered[words] for words in finished)], reverse=True)[:width]
        # No probability grows: what goes on can't become better than it is.
        if len(done) == width and max(live.values(), default=0.0) <= done[-1]:
            live = {}
        steps.append(_Step(considered, list(live), finished))
    return steps


def beam_tree(table: Table, width: int = 2, end: str = "<eos>", shown: int = 1) -> StepThrough:
    """Draw a tree of words as greedy decoding and a beam search go through it.

    Parameters
    ----------
    table : mapping of tuples of words to mappings of words to probabilities
        What may follow what was written so far; () is the beginning. All words but `end` are
        followed by something.
    width : int, default 2
        Hypotheses that are kept, at least 2.
    end : str, default "<eos>"
    shown : int, default 1
        The state at the start: 0 is greedy decoding, n is step n of the beam search.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If something has no continuation, probabilities don't sum to 1, the tree has no room, or
        `shown` is no state.

    Examples
    --------
    >>> table = {
    ...     (): {"a": 0.6, "b": 0.4}, ("a",): {"<eos>": 0.5, "c": 0.5}, ("b",): {"<eos>": 1.0},
    ...     ("a", "c"): {"<eos>": 1.0},
    ... }
    >>> beam_tree(table).captions[0]
    'Greedy: “a ‹eos›”, total 0.300.'
    """
    check_at_least("width", width, 2)
    for before, following in table.items():
        if abs(sum(following.values()) - 1) > 1e-9:
            raise ValueError(f"table must have probabilities that sum to 1 behind {before!r}")
        for word in following:
            if word != end and (*before, word) not in table:
                raise ValueError(f"table must say what follows {(*before, word)!r}")
    greedy, steps = _search(table, 1, end), _search(table, width, end)
    check_at_least("shown", shown, 0)
    seen = {words for step in (*greedy, *steps) for words in step.considered}
    leaves = [w for w in _in_order(table) if w in seen and not _children(w, seen)]
    deepest = max(map(len, seen))
    if deepest > 4 or len(leaves) > 10 or shown > len(steps):
        raise ValueError(
            f"table must be searched in at most 4 steps with 10 ends, and shown be at most "
            f"{len(steps)}; got {deepest}, {len(leaves)} and {shown}"
        )
    ys = {words: 20.0 + 40 * i for i, words in enumerate(leaves)}
    for words in sorted(seen, key=len, reverse=True):
        if words not in ys:
            below = [ys[child] for child in _children(words, seen)]
            ys[words] = sum(below) / len(below)

    states = [("greedy", greedy, _said_greedy(greedy))]
    for i, step in enumerate(steps):
        states.append((f"step {i + 1}", steps[: i + 1], _said(i + 1, step)))
    found = sorted(
        ((step.considered[w], w) for step in steps for w in step.finished), reverse=True
    )[:width]
    last = states[-1]
    said = f"{last[2]} Best of all: {_quoted(found[0][1])}, {found[0][0]:.3f}."
    states[-1] = (*last[:2], said)
    parts = []
    for i, (_, so_far, _) in enumerate(states):
        hidden = "" if i == shown else ' style="display:none"'
        parts.append(f'<g data-step="{i}"{hidden}>{_tree(so_far, ys)}</g>')
    height = round(20 + 40 * len(leaves) + 30)
    y = height - 14
    for x, look, label in ((8, "kept", "kept"), (98, "finished", "finished"), (216, "", "dropped")):
        parts.append(_node(x, y - 12, 24, 16, look) + svg_text(x + 31, y + 1, label, 13.5))
    return StepThrough(
        "".join(parts),
        360,
        height,
        f"A tree of words with their total probabilities. {' '.join(s for *_, s in states)}",
        buttons=tuple(name for name, *_ in states),
        captions=tuple(s for *_, s in states),
        shown=shown,
        legend="Greedy decoding, or a step of the beam search",
    )


def _in_order(table: Table, before: Words = ()) -> list[Words]:
    """Return all that can be written, each beginning before what goes on from it."""
    found = []
    for word in table.get(before, {}):
        found += [(*before, word), *_in_order(table, (*before, word))]
    return found


def _children(words: Words, seen: set[Words]) -> list[Words]:
    return [other for other in seen if other[:-1] == words]


def _shown_word(word: str) -> str:
    return word.replace("<", "‹").replace(">", "›")


def _quoted(words: Words) -> str:
    return f"“{' '.join(map(_shown_word, words))}”"


def _said_greedy(steps: Sequence[_Step]) -> str:
    (words,) = steps[-1].finished
    return f"Greedy: {_quoted(words)}, total {steps[-1].considered[words]:.3f}."


def _said(number: int, step: _Step) -> str:
    """Return what is said under a step of the beam search."""

    def those(some: list[Words]) -> str:
        return ", ".join(f"{_quoted(words)} {step.considered[words]:.3f}" for words in some)

    said = f"Step {number}: {len(step.considered)} ways to go on."
    if step.finished:
        said += f" Finished: {those(step.finished)}."
    return said + (f" Kept: {those(step.kept)}." if step.kept else "")


def _node(x: float, y: float, width: float, height: float, look: str) -> str:
    """Return the box of a hypothesis that is kept, finished or dropped."""
    line = {
        "kept": f'fill="{_BLUE}" fill-opacity="0.16" stroke="{_BLUE}" stroke-width="2.6"',
        "finished": f'fill="{_GREEN}" fill-opacity="0.30" stroke="{_GREEN}" stroke-width="2.6"',
    }.get(
        look,
        'fill="none" stroke="currentColor" stroke-opacity="0.6" stroke-width="1.2" '
        'stroke-dasharray="3 3"',
    )
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" {line}/>'


def _tree(steps: Sequence[_Step], ys: Mapping[Words, float]) -> str:
    """Return the part of the tree that these steps have looked at."""
    lines, boxes = [], []
    for step in steps:
        for words, total in step.considered.items():
            x, y = 4 + 90 * (len(words) - 1), ys[words]
            look = "kept" if words in step.kept else "finished" if words in step.finished else ""
            if len(words) > 1:
                from_y = ys[words[:-1]]
                lines.append(
                    f'<path d="M{x - 12:g} {from_y:g} L{x:g} {y:g}" stroke="currentColor" '
                    f'stroke-opacity="{0.9 if look else 0.45}" stroke-width="1.3"/>'
                )
            boxes.append(_node(x, y - 17, 78, 34, look))
            word = escape(_shown_word(words[-1]))
            boxes.append(svg_text(x + 39, y - 3, bold(word) if look else word, 13.5, "middle"))
            boxes.append(svg_text(x + 39, y + 12, f"{total:.3f}", 12.5, "middle"))
    return "".join((*lines, *boxes))


def cache_growth(tokens: Sequence[str], prompt: int = 3) -> StepThrough:
    """Draw which scores, keys and values are computed at each step, and which are kept.

    Parameters
    ----------
    tokens : sequence of str
        From 3 to 8: a prompt, and what is written behind it.
    prompt : int, default 3
        Tokens that are fed at once at the beginning.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If there are too few or too many tokens, or the prompt isn't shorter than all of them.

    Examples
    --------
    >>> cache_growth(["a", "cat", "on", "a", "mat"]).captions[1]
    'Token 4 alone: 1 query, 1 key, 1 value, and 4 scores. Without a cache it is 4 of each, and a \
table of 4 × 4.'
    """
    check_several("tokens", tokens, "a sequence of words")
    check_at_least("prompt", prompt, 1)
    n = len(tokens)
    if not 3 <= n <= 8 or prompt >= n:
        raise ValueError(f"tokens must be from 3 to 8, more than the prompt's {prompt}; got {n}")
    side, left, top = 30, 92, 34
    steps = [prompt, *range(prompt + 1, n + 1)]
    parts, captions = [], []
    for i, t in enumerate(steps):
        new = t if i == 0 else 1
        first = t - new
        group = [svg_text(left, 20, "scores: a row for each query", 13.5)]
        for row in range(t):
            y = top + side * row
            fresh = row >= first
            label = escape(tokens[row])
            group.append(svg_text(left - 8, y + 20, bold(label) if fresh else label, 13.5, "end"))
            for column in range(row + 1):
                look = "new" if fresh else "past"
                group.append(_cell(left + side * column, y, side, look))
            if fresh and i == 0:
                for column in range(row + 1, t):
                    group.append(_cell(left + side * column, y, side, "hidden"))
        for row in range(t, n):  # still to come
            for column in range(row + 1):
                group.append(_cell(left + side * column, top + side * row, side, "empty"))
        for k, name in enumerate(("keys", "values")):
            y = top + side * n + 18 + k * (side + 4)
            group.append(svg_text(left - 8, y + 20, name, 13.5, "end"))
            for column in range(n):
                look = "empty" if column >= t else "new" if column >= first else "kept"
                group.append(_cell(left + side * column, y, side, look))
        hidden = "" if i == 1 else ' style="display:none"'
        parts.append(f'<g data-step="{i}"{hidden}>{"".join(group)}</g>')
        captions.append(_said_cache(t, new))
    y = top + side * n + 18 + 2 * (side + 4) + 18
    for x, look, words in (
        (14, "new", "computed now"), (142, "kept", "kept"), (220, "past", "was needed once")
    ):  # fmt: skip
        parts.append(_cell(x, y - 15, 20, look) + svg_text(x + 26, y, words, 13))
    return StepThrough(
        "".join(parts),
        360,
        y + 12,
        f"Scores, keys and values while {' '.join(tokens)} is written, the first {prompt} tokens "
        f"at once. {' '.join(captions)}",
        buttons=tuple("prompt" if i == 0 else f"+ {tokens[t - 1]}" for i, t in enumerate(steps)),
        captions=tuple(captions),
        shown=1,
        legend="Steps of writing",
    )


def _said_cache(t: int, new: int) -> str:
    """Return what is computed at a step that ends with t tokens, `new` of them new."""
    if new == t:
        of_each = f"{t} queries, {t} keys, {t} values" if t > 1 else "1 query, 1 key, 1 value"
        return (
            f"The prompt at once: {of_each}, and a table of {t} × {t}, of which the causal mask "
            f"hides {t * (t - 1) // 2}."
        )
    return (
        f"Token {t} alone: 1 query, 1 key, 1 value, and {t} scores. Without a cache it is {t} of "
        f"each, and a table of {t} × {t}."
    )


def _cell(x: float, y: float, side: float, look: str) -> str:
    """Return a square for something computed now, kept, needed earlier, hidden or still empty."""
    line = {
        "new": f'fill="{_BLUE}" fill-opacity="0.75" stroke="{_BLUE}" stroke-width="1.6"',
        "kept": f'fill="{_GREEN}" fill-opacity="0.25" stroke="{_GREEN}" stroke-width="2.2"',
        "past": 'fill="none" stroke="currentColor" stroke-opacity="0.6" stroke-width="1" '
        'stroke-dasharray="2 3"',
        "hidden": 'fill="currentColor" fill-opacity="0.06" stroke="none"',
        "empty": 'fill="none" stroke="currentColor" stroke-opacity="0.3" stroke-width="1"',
    }[look]
    return (
        f'<rect x="{x + 2:g}" y="{y + 2:g}" width="{side - 4:g}" height="{side - 4:g}" rx="3" '
        f"{line}/>"
    )


# ---- Plots ---------------------------------------------------------------------------------------


def what_filters_keep(
    distributions: Mapping[str, ArrayLike], k: int = 3, p: float = 0.9, ratio: float = 0.1
) -> Plot:
    """Draw which tokens top-k, top-p and min-p keep of each distribution.

    Parameters
    ----------
    distributions : mapping of names to array-likes, (n,)
        Two sets of probabilities, the likeliest token first.
    k, p, ratio : int, float, float, default 3, 0.9, 0.1
        Of top-k, of top-p and of min-p.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there aren't two distributions, one doesn't sum to 1 or rises, or a filter's number is
        out of its range.

    Examples
    --------
    >>> what_filters_keep({"sure": [0.95, 0.03, 0.02], "unsure": [0.4, 0.3, 0.3]}, k=2)
    Tokens kept of 3. sure: top-k 2 keeps 2 with 0.98 in all; top-p 0.9 keeps 1 with 0.95 in all; \
min-p 0.1 keeps 1 with 0.95 in all. unsure: top-k 2 keeps 3 with 1.00 in all; top-p 0.9 keeps 3 \
with 1.00 in all; min-p 0.1 keeps 3 with 1.00 in all.
    """
    if len(distributions) != 2:
        raise ValueError(f"distributions must be two; got {len(distributions)}")
    rows = {}
    for name, values in distributions.items():
        row = np.asarray(values, dtype=np.float64)
        falls = row.ndim == 1 and row.size > 1 and (row > 0).all() and (np.diff(row) <= 0).all()
        if not falls or abs(row.sum() - 1) > 1e-6:
            raise ValueError(
                f"distributions must fall from the first to the last and sum to 1; {name!r} "
                f"is {values!r}"
            )
        rows[name] = row
    filters = (
        (f"top-k {k}", lambda logits: decoding_filters.top_k(logits, k)),
        (f"top-p {p:g}", lambda logits: decoding_filters.top_p(logits, p)),
        (f"min-p {ratio:g}", lambda logits: decoding_filters.min_p(logits, ratio)),
    )
    said = []
    n = max(len(row) for row in rows.values())
    with course_style():
        figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
        grid = figure.subplots(3, 2, sharex=True, sharey="col").T
        for (name, row), column in zip(rows.items(), grid, strict=True):
            words = []
            ticks = np.arange(0, min(1.0, 1.7 * row.max()) + 1e-9, 0.5 if row.max() > 0.5 else 0.1)
            for (title, keep), axes in zip(filters, column, strict=True):
                kept = keep(np.log(row)) > -np.inf
                x = np.arange(1, len(row) + 1)
                axes.bar(x[kept], row[kept], color=_BLUE, width=0.8)
                axes.bar(x[~kept], row[~kept], facecolor="white", edgecolor=MUTED, width=0.7)
                axes.annotate(
                    f"{title}\nkeeps {kept.sum()}", (0.98, 0.98), xycoords="axes fraction",
                    ha="right", va="top", linespacing=1.3, fontsize=_LARGE,
                )  # fmt: skip
                # Room above for the two lines, over bars that may all be of one height.
                axes.set_ylim(0, 1.75 * row.max())
                axes.set_xlim(0.2, n + 0.8)
                axes.xaxis.set_major_locator(FixedLocator([1, n]))
                axes.yaxis.set_major_locator(FixedLocator(ticks.tolist()))
                axes.tick_params(labelsize=_LARGE)
                axes.grid(False, axis="x")
                words.append(f"{title} keeps {kept.sum()} with {row[kept].sum():.2f} in all")
            column[0].set_title(f"p, {name}", fontsize=_LARGE)
            column[-1].set_xlabel("tokens by rank", fontsize=_LARGE)
            said.append(f"{name}: {'; '.join(words)}.")
        looks = (Patch(facecolor=_BLUE), Patch(facecolor="white", edgecolor=MUTED))
        figure.legend(
            looks, ("kept", "cut off"), loc="outside upper center", ncols=2, frameon=False,
            fontsize=_LARGE,
        )  # fmt: skip
    return Plot(figure, f"Tokens kept of {n}. {' '.join(said)}")


def accuracy_by_position(
    lines: Mapping[str, ArrayLike], unit: str = "token", chance: float | None = None
) -> Plot:
    """Draw how many tokens are right at each position, mean and single seeds.

    Parameters
    ----------
    lines : mapping of names to array-likes, (seeds, n)
        Up to three, of shares.
    unit : str, default "token"
        What the positions count.
    chance : float, optional
        Is drawn as a line.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no lines or more than three, or they aren't shares of one shape.

    Examples
    --------
    >>> accuracy_by_position({"right": [[0.9, 1.0], [0.7, 1.0]], "own": [[0.8, 0.5], [0.8, 0.6]]})
    Share of right tokens at positions 1 to 2, mean of 2 seeds. right: 0.80, 1.00. own: 0.80, 0.55.
    """
    tables = {name: np.asarray(rows, dtype=np.float64) for name, rows in lines.items()}
    shapes = {table.shape for table in tables.values()}
    if not 1 <= len(tables) <= 3 or len(shapes) > 1 or len(next(iter(shapes))) != 2:
        raise ValueError(
            f"lines must be one to three tables of one shape (seeds, n); got {list(tables)} of "
            f"{sorted(shapes)}"
        )
    (n_seeds, n) = shapes.pop()
    if not all(((t >= 0) & (t <= 1)).all() for t in tables.values()):
        raise ValueError("lines must be shares from 0 to 1")
    x = np.arange(1, n + 1)
    looks = ((_BLUE, "s"), (_ORANGE, "o"), (_GREEN, "^"))
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axes = figure.add_subplot()
        if chance is not None:
            axes.axhline(chance, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        for i, ((name, table), (colour, marker)) in enumerate(
            zip(tables.items(), looks, strict=False)
        ):
            axes.plot(x, table.mean(0), color=colour, marker=marker)
            axes.plot(np.tile(x, n_seeds), table.ravel(), ".", color=colour, ms=5, alpha=0.6)
            axes.annotate(
                f"{'■●▲'[i]} {name}", (0.03, 0.04 + 0.1 * (len(tables) - 1 - i)),
                xycoords="axes fraction", color=colour,
            )  # fmt: skip
        axes.set_ylim(0, 1.04)
        axes.set_xticks(x)
        axes.set_xlabel(f"position of the {unit}")
        axes.set_ylabel("share that is right")
        axes.grid(False, axis="x")
    parts = [
        f"{name}: {', '.join(f'{v:.2f}' for v in table.mean(0))}." for name, table in tables.items()
    ]
    return Plot(
        figure,
        f"Share of right {unit}s at positions 1 to {n}, mean of {n_seeds} seeds. {' '.join(parts)}",
    )


def slopes(lengths: ArrayLike, seconds: ArrayLike) -> NDArray:
    """Return the exponents a in seconds ~ lengths^a between neighbours, and over the last two.

    Parameters
    ----------
    lengths, seconds : array-likes, (m,)

    Returns
    -------
    float array, (m − 1,)

    Examples
    --------
    >>> slopes([1, 2, 4], [1.0, 2.0, 8.0])
    array([1., 2.])
    """
    x, y = np.log(np.asarray(lengths, float)), np.log(np.asarray(seconds, float))
    return np.diff(y) / np.diff(x)


def decoding_times(lengths: ArrayLike, seconds: Mapping[str, ArrayLike]) -> Plot:
    """Draw the time to write T tokens against T, both logarithmic, with the last slopes.

    Parameters
    ----------
    lengths : array-like, (m,)
        T, rising.
    seconds : mapping of names to array-likes, (m,)
        One or two ways of writing.

    Returns
    -------
    Plot
        A short dotted line through the last two points of each has their slope.

    Raises
    ------
    ValueError
        If there are fewer than three lengths, or they don't rise, or times aren't positive.

    Examples
    --------
    >>> decoding_times([1, 2, 4], {"cached": [1, 2, 4], "naive": [1, 3, 24]})
    Seconds to write T tokens, T from 1 to 4. cached: 1.00, 2.00, 4.00; at the end it grows as T \
to the power of 1.0. naive: 1.00, 3.00, 24.00; at the end it grows as T to the power of 3.0.
    """
    x = np.asarray(lengths, dtype=np.float64)
    if x.ndim != 1 or len(x) < 3 or not (np.diff(x) > 0).all() or x[0] <= 0:
        raise ValueError(f"lengths must be at least three rising numbers; got {lengths!r}")
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in seconds.items()}
    if not 1 <= len(rows) <= 2:
        raise ValueError(f"seconds must be of one or two; got {len(rows)}")
    for name, row in rows.items():
        if row.shape != x.shape or not (np.isfinite(row) & (row > 0)).all():
            raise ValueError(f"seconds must be {len(x)} positive numbers each; {name!r} is {row}")
    said = []
    half = (x[-1] / x[-2]) ** 0.5
    beyond = np.array([1 / half, half])
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for i, ((name, row), colour, marker) in enumerate(
            zip(rows.items(), (_ORANGE, _BLUE), "os", strict=False)
        ):
            last = float(slopes(x, row)[-1])
            axes.plot(x, row, color=colour, marker=marker, linestyle="none")
            ends = np.array([x[-2], x[-1]]) * beyond
            axes.plot(ends, row[-1] * (ends / x[-1]) ** last, color=colour, linestyle=(0, (1, 2)))
            axes.annotate(
                f"{'●■'[i]} {name}: $T^{{{last:.1f}}}$ at the end",
                (0.03, 0.9 - 0.11 * i), xycoords="axes fraction", color=colour,
            )  # fmt: skip
            times = ", ".join(f"{value:.2f}" for value in row)
            said.append(f"{name}: {times}; at the end it grows as T to the power of {last:.1f}.")
        everything = np.concatenate(list(rows.values()))
        low, high = everything.min(), everything.max()
        axes.set_ylim(0.6 * low, high * exp(0.45 * log(high / low)))
        axes.xaxis.set_major_locator(FixedLocator(x.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("tokens written, T")
        axes.set_ylabel("seconds")
    return Plot(
        figure, f"Seconds to write T tokens, T from {x[0]:g} to {x[-1]:g}. {' '.join(said)}"
    )
