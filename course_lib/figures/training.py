"""Figures of chapter 10, training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

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
from course_lib.reference.optimization import (
    cosine_schedule,
    label_smoothed_cross_entropy,
    warmup_schedule,
)
from course_lib.validation import check_positive_int, check_share

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "errors_by_count",
    "forced_and_free",
    "loss_curves",
    "schedules",
    "smoothed_loss",
]

_BLUE, _ORANGE, _GREEN = COLOURS["blue"], COLOURS["orange"], COLOURS["green"]


def forced_and_free(target: Sequence[str]) -> StepThrough:
    """Draw what a decoder reads and predicts in training, and at each step of writing.

    Parameters
    ----------
    target : sequence of str
        Two to five tokens of up to five letters, without <bos> and <eos>.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If there are too few or too many tokens, or one is empty or too long.

    Examples
    --------
    >>> forced_and_free(["5", "1"])
    What a decoder reads and predicts. In training, one pass: it reads <bos>, 5, 1, which are \
given, and predicts 5, 1, <eos>, each from what stands at and left of it. When it writes, 3 \
passes: in each it reads what it has written so far and adds one token.
    """
    words = list(target)
    if not 2 <= len(words) <= 5 or not all(0 < len(word) <= 5 for word in words):
        raise ValueError(f"target must be two to five tokens of up to five letters; got {target!r}")
    read, predicted = ["<bos>", *words], [*words, "<eos>"]
    n = len(read)
    pitch = 296 / n
    columns = [60 + pitch * (i + 0.5) for i in range(n)]
    top, middle, bottom = 30, 88, 150
    parts = [
        svg_text(0, top + 20, "predicts", 11.5),
        svg_text(0, bottom + 20, "reads", 11.5),
    ]

    def box(x: float, y: float, word: str, colour: str, dashed: bool = False) -> str:
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        return (
            f'<rect x="{x - 24:g}" y="{y}" width="48" height="30" rx="6" fill="{colour}" '
            f'fill-opacity="0.14" stroke="{colour}" stroke-width="1.6"{dashes}/>'
            + svg_text(x, y + 20, escape(word), 13.5, "middle")
        )

    def arrow(x: float, y: float, to: float) -> str:
        return (
            f'<path d="M{x:g} {y:g} V{to:g} M{x - 4:g} {to + 6:g} L{x:g} {to:g} L{x + 4:g} '
            f'{to + 6:g}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        )

    buttons, captions = ["training"], []
    captions.append(
        f"In training: one pass. All {n} tokens to read are given, each of them right, and all {n} "
        "predictions are compared with the target at once."
    )
    for i in range(n):
        buttons.append(str(i + 1))
        captions.append(
            f"Writing, pass {i + 1} of {n}: the decoder reads "
            + ("<bos> alone" if i == 0 else f"<bos> and the {_number(i)} it has written")
            + f" and writes {predicted[i]}."
        )
    for state in range(n + 1):
        shown = n if state == 0 else state
        hidden = "" if state == 0 else ' style="display:none"'
        group = [
            f'<rect x="{columns[0] - 28:g}" y="{middle}" '
            f'width="{columns[shown - 1] - columns[0] + 56:g}" height="34" rx="8" fill="none" '
            'stroke="currentColor" stroke-width="1.5"/>',
            svg_text((columns[0] + columns[shown - 1]) / 2, middle + 22,
                     "decoder" if shown > 1 else "dec.", 13.5, "middle"),
            svg_text(180, 16, bold("training" if state == 0 else "writing"), 13.5, "middle"),
        ]  # fmt: skip
        for i in range(shown):
            x = columns[i]
            given = state == 0 or i == 0
            group.append(box(x, bottom, read[i], _BLUE if given else _ORANGE))
            group.append(arrow(x, bottom - 2, middle + 36))
            if state == 0 or i == shown - 1:
                group.append(arrow(x, middle - 2, top + 32))
                group.append(box(x, top, predicted[i], _ORANGE, dashed=state == 0))
        parts.append(f'<g data-step="{state}"{hidden}>{"".join(group)}</g>')
    alt = (
        f"What a decoder reads and predicts. In training, one pass: it reads {', '.join(read)}, "
        f"which are given, and predicts {', '.join(predicted)}, each from what stands at and left "
        f"of it. When it writes, {n} passes: in each it reads what it has written so far and adds "
        "one token."
    )
    return StepThrough(
        "".join(parts), 360, 190, alt, max_width=440,
        buttons=tuple(buttons), captions=tuple(captions), legend="in training, or pass",
    )  # fmt: skip


def smoothed_loss(vocab_size: int, epsilon: float) -> Plot:
    """Draw the loss of one token against the probability given to it, with and without smoothing.

    The other tokens share the rest evenly.

    Parameters
    ----------
    vocab_size : int
        At least 2.
    epsilon : float
        Above 0 and below 1.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If `vocab_size` or `epsilon` is out of its range.

    Examples
    --------
    >>> smoothed_loss(4, 0.1)
    Loss against the probability of the right token, 4 tokens. Without smoothing it falls to 0 at \
probability 1. With ε = 0.1 it is lowest, 0.35, at probability 0.925, and rises towards 1: 0.77 \
at 0.9999.
    """
    check_positive_int("vocab_size", vocab_size)
    check_share("epsilon", epsilon)
    if vocab_size < 2 or epsilon == 0:
        raise ValueError(
            f"vocab_size must be at least 2 and epsilon above 0; got {vocab_size} and {epsilon}"
        )
    p = 1 - np.geomspace(0.9, 1e-4, 400)

    def losses(probability: NDArray, eps: float) -> NDArray:
        other = (1 - probability) / (vocab_size - 1)
        logits = np.log(np.column_stack([probability, *[other] * (vocab_size - 1)]))
        return np.array([label_smoothed_cross_entropy(row, np.array(0), eps) for row in logits])

    best = 1 - epsilon + epsilon / vocab_size
    floor = losses(np.array([best]), epsilon)[0]
    curves = (
        ("ε = 0", losses(p, 0.0), _BLUE),
        (f"ε = {epsilon:g}", losses(p, epsilon), _ORANGE),
    )
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for i, (name, y, colour) in enumerate(curves):
            axes.plot(p, y, color=colour)
            axes.annotate(
                name, (0.97, 0.96 - 0.1 * i), xycoords="axes fraction", color=colour, ha="right",
                va="top",
            )  # fmt: skip
        axes.plot([best], [floor], "o", color=_ORANGE)
        axes.annotate(
            f"lowest: {floor:.2f}", (best, floor), (-6, 26), textcoords="offset points",
            color=_ORANGE, ha="right", va="bottom",
        )  # fmt: skip
        axes.set_xlim(0.1, 1.01)
        axes.set_ylim(-0.05, max(2.6, 1.25 * curves[1][1].max()))
        axes.set_xlabel("probability of the right token")
        axes.set_ylabel("loss (nats)")
    alt = (
        f"Loss against the probability of the right token, {vocab_size} tokens. Without smoothing "
        f"it falls to 0 at probability 1. With ε = {epsilon:g} it is lowest, {floor:.2f}, at "
        f"probability {best:.3f}, and rises towards 1: {curves[1][1][-1]:.2f} at {p[-1]:.4f}."
    )
    return Plot(figure, alt)


def schedules(n_steps: int, n_warmup: int, d_model: int) -> Plot:
    """Draw the paper's schedule and warm-up with cosine, each as a share of its highest rate.

    Parameters
    ----------
    n_steps : int
    n_warmup : int
        Fewer than `n_steps`.
    d_model : int

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If a number isn't whole and at least 1, or there is nothing behind the warm-up.

    Examples
    --------
    >>> schedules(600, 60, 64)
    Learning rate over 600 steps, as a share of the highest. Both schedules rise in a straight \
line to 1 at step 60. Then the paper's falls as the root of the steps, to 0.32 at the end; the \
cosine to 0.00.
    """
    for name, value in (("n_steps", n_steps), ("n_warmup", n_warmup), ("d_model", d_model)):
        check_positive_int(name, value)
    if n_warmup >= n_steps:
        raise ValueError(f"n_warmup must be less than n_steps = {n_steps}; got {n_warmup}")
    steps = np.arange(1, n_steps + 1)
    paper = warmup_schedule(steps, d_model, n_warmup)
    curves = {
        "paper": (paper / paper.max(), _ORANGE, "-"),
        "cosine": (cosine_schedule(steps, n_steps, n_warmup), _BLUE, (0, (5, 1.5))),
    }
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for i, (name, (y, colour, dashes)) in enumerate(curves.items()):
            axes.plot(steps, y, color=colour, linestyle=dashes)
            axes.annotate(
                name, (0.98, 0.97 - 0.11 * i), xycoords="axes fraction", color=colour, ha="right",
                va="top",
            )  # fmt: skip
        axes.axvline(n_warmup, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.set_ylim(0, 1.25)
        axes.set_xlim(0, n_steps)
        axes.set_xlabel("step")
        axes.set_ylabel("rate / highest rate")
    alt = (
        f"Learning rate over {n_steps:,} steps, as a share of the highest. Both schedules rise in "
        f"a straight line to 1 at step {n_warmup}. Then the paper's falls as the root of the "
        f"steps, to {curves['paper'][0][-1]:.2f} at the end; the cosine to "
        f"{curves['cosine'][0][-1]:.2f}."
    )
    return Plot(figure, alt)


def loss_curves(runs: Mapping[str, Sequence[Sequence[float]]]) -> Plot:
    """Draw the loss of every step of some runs, on a logarithmic axis, a panel for each recipe.

    Parameters
    ----------
    runs : mapping of one to three names to sequences of runs, each a sequence of losses
        Losses of 0 are drawn at the bottom. The first run has the panel's colour, others are grey.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no runs or too many, or a loss is negative or no number.

    Examples
    --------
    >>> loss_curves({"steady": [[2.0, 1.0, 0.5, 0.01]], "constant": [[2.0, 1.0, 0.5, 0.4]]})
    Loss of every step, logarithmic, 2 panels, each run from its first loss to the mean of its \
last half. steady: 4 steps, from 2.0 to 0.255. constant: 4 steps, from 2.0 to 0.450.
    """
    if not 1 <= len(runs) <= 3:
        raise ValueError(f"runs must hold one to three recipes; got {len(runs)}")
    rows = {
        name: [_losses(name, row) for row in some] or [_losses(name, [])]
        for name, some in runs.items()
    }
    longest = max(len(row) for some in rows.values() for row in some)
    lowest, highest = 1e-4, max(row.max() for some in rows.values() for row in some)
    said = []
    with course_style():
        figure = Figure(figsize=(WIDTH, 0.6 + 2.1 * len(rows)), layout="constrained")
        panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, some), colour in zip(
            panels, rows.items(), (_BLUE, _ORANGE, _GREEN), strict=False
        ):
            for i, row in enumerate(some):
                axes.plot(
                    np.arange(1, len(row) + 1), np.maximum(row, lowest), zorder=3 - 0.1 * i,
                    color=(colour, MUTED, "#B0B0B0")[min(i, 2)], linewidth=0.9, alpha=0.9,
                )  # fmt: skip
            axes.set_title(name)
            axes.set_yscale("log")
            axes.set_ylim(lowest, 2 * highest)
            axes.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.minorticks_off()
            axes.set_xlim(0, longest)
            axes.set_ylabel("loss (nats)")
            each = [
                f"{len(row)} steps, from {row[0]:.1f} to {row[len(row) // 2 :].mean():.3f}"
                for row in some
            ]
            said.append(f"{name}: {'; '.join(each)}")
        panels[-1].set_xlabel("training step")
    count = f"{len(rows)} panel{'s' * (len(rows) > 1)}"
    what = "each run from its first loss to the mean of its last half"
    return Plot(figure, f"Loss of every step, logarithmic, {count}, {what}. {'. '.join(said)}.")


def errors_by_count(counts: ArrayLike, shares: Mapping[str, ArrayLike]) -> Plot:
    """Draw the share of wrong tokens against how often a token occurs in its string.

    Parameters
    ----------
    counts : array-like, (k,)
        Numbers of occurrences, rising.
    shares : mapping of names to array-likes, (seeds, k)
        One or two: shares of wrong tokens, from 0 to 1.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the shapes don't fit, counts don't rise, or a share isn't between 0 and 1.

    Examples
    --------
    >>> errors_by_count([1, 2], {"read": [[0.01, 0.02], [0.0, 0.04]]})
    Wrong tokens, in per cent, against how often a token occurs in the string, mean of 2 seeds. \
read: 1: 0.5, 2: 3.0.
    """
    x = np.asarray(counts, dtype=np.float64)
    if x.ndim != 1 or x.size < 2 or not (np.diff(x) > 0).all():
        raise ValueError(f"counts must be at least two numbers that rise; got {counts!r}")
    rows = {}
    for name, values in shares.items():
        y = np.asarray(values, dtype=np.float64)
        if y.ndim != 2 or y.shape[1] != x.size or not len(y) or not ((y >= 0) & (y <= 1)).all():
            raise ValueError(
                f"shares[{name!r}] must be shares from 0 to 1 of shape (seeds, {x.size}); "
                f"got {values!r}"
            )
        rows[name] = 100 * y
    if not 1 <= len(rows) <= 2:
        raise ValueError(f"shares must have one line or two; got {len(rows)}")
    looks = ((_ORANGE, "o"), (_BLUE, "s"))
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.6 + 0.2 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for (name, y), (colour, marker) in zip(rows.items(), looks, strict=False):
            axes.plot(x, y.mean(axis=0), color=colour, marker=marker, label=name)
            for run in y if len(y) > 1 else ():
                axes.plot(x, run, color=colour, linewidth=0.9, alpha=0.5)
        if len(next(iter(rows.values()))) > 1:
            axes.plot([], [], color=MUTED, linewidth=0.9, label="single seeds")
        figure.legend(
            loc="outside upper left", frameon=False, labelcolor="linecolor", handlelength=2.2
        )
        axes.set_xticks(x, [f"{v:g}" for v in x])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("occurrences in the string")
        axes.set_ylabel("wrong tokens, %")
        axes.grid(visible=False, axis="x")
    n_seeds = len(next(iter(rows.values())))
    said = ". ".join(
        f"{name}: " + ", ".join(f"{n:g}: {m:.1f}" for n, m in zip(x, y.mean(axis=0), strict=True))
        for name, y in rows.items()
    )
    alt = (
        "Wrong tokens, in per cent, against how often a token occurs in the string, mean of "
        f"{n_seeds} seed{'s' * (n_seeds > 1)}. {said}."
    )
    return Plot(figure, alt)


# ---- Parts ---------------------------------------------------------------------------------------


def _number(i: int) -> str:
    return "token" if i == 1 else f"{i} tokens"


def _losses(name: str, row: Sequence[float]) -> NDArray:
    """Return a run's losses as an array, or raise."""
    losses = np.asarray(row, dtype=np.float64)
    if losses.ndim != 1 or losses.size < 2 or not (np.isfinite(losses) & (losses >= 0)).all():
        raise ValueError(f"runs[{name!r}] must hold rows of losses of at least 0; got {row!r}")
    return losses
