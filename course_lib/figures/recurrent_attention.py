"""Figures of chapter 01, attention in recurrent networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

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

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["accuracy_by_length", "alignment_heatmap", "bottleneck_diagram", "decoder_step"]

_BLUE, _ORANGE, _GREEN = COLOURS["blue"], COLOURS["orange"], COLOURS["green"]


def bottleneck_diagram(
    source: Sequence[str], target: Sequence[str], gloss: Sequence[str] | None = None
) -> Svg:
    """Draw an encoder that reads in both directions and a decoder, joined by one vector.

    Parameters
    ----------
    source : sequence of str
        Two to five words of up to ten letters.
    target : sequence of str
        One to four words of up to six letters; <bos> and <eos> are added.
    gloss : sequence of str, optional
        What each word of the source means, up to ten letters each.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If there are too few or too many words, or one is empty or too long.

    Examples
    --------
    >>> bottleneck_diagram(["я", "сплю"], ["i", "sleep"])
    Encoder and decoder. The encoder reads я, сплю in both directions, so each state is made from \
the word and the states on either side. All that reaches the decoder is one vector, made of the \
last state of each direction: the first decoder state starts from it, and every prediction gets \
the same one. The decoder reads <bos>, i, sleep and predicts i, sleep, <eos>: each word written \
is read at the next step.
    """
    words = _words("source", source, 2, 5)
    meanings = _gloss(gloss, words)
    written = [*_words("target", target, 1, 4, longest=6), "<eos>"]
    read = ["<bos>", *written[:-1]]
    parts = [svg_text(8, 18, bold("encoder"), colour=_BLUE)]
    columns = _columns(len(words))
    for i, (word, x) in enumerate(zip(words, columns, strict=True)):
        parts += [
            _box(x - 22, 30, 44, 34, _BLUE),
            svg_text(x, 52, subscript("s", str(i + 1)), anchor="middle"),
            svg_text(x, 98, escape(word), size=13.5, anchor="middle"),
            _arrow(x, 84, x, 66, None),
        ]
        if meanings:
            parts.append(svg_text(x, 114, escape(meanings[i]), size=11.5, anchor="middle"))
        if i:
            parts.append(_arrow(columns[i - 1] + 23, 40, x - 24, 40, _BLUE))
            parts.append(_arrow(x - 23, 54, columns[i - 1] + 24, 54, _BLUE))
    # The last state from the left ends at the last word, the last one from the right at the first.
    top = 130 if meanings else 116
    parts += [
        _path(f"M{columns[-1] + 22:g} 40 H354 V{top + 20} H310", _BLUE),
        _arrow(316, top + 20, 302, top + 20, _BLUE),
        _path(f"M{columns[0] - 22:g} 54 H8 V{top + 12} H50", _BLUE),
        _arrow(44, top + 12, 58, top + 12, _BLUE),
        _box(60, top, 240, 40, _BLUE),
        svg_text(180, top + 25, "one vector, whatever the length", size=13.5, anchor="middle"),
    ]
    columns = _columns(len(written))
    bus, said, state, heard = top + 54, top + 84, top + 108, top + 178
    parts.append(_path(f"M180 {top + 40} V{bus} M{columns[0]:g} {bus} H{columns[-1]:g}", _BLUE))
    parts.append(_path(f"M60 {top + 30} H8 V{state + 17} H12", _BLUE))
    parts.append(_arrow(8, state + 17, columns[0] - 24, state + 17, _BLUE))
    for i, (word, x) in enumerate(zip(written, columns, strict=True)):
        parts += [
            _arrow(x, bus, x, said - 14, _BLUE),
            svg_text(x, said, escape(word), size=13.5, anchor="middle"),
            _arrow(x, state, x, said + 6, _ORANGE),
            _box(x - 22, state, 44, 34, _ORANGE),
            svg_text(x, state + 22, subscript("h", str(i + 1)), anchor="middle"),
            _arrow(x, heard - 15, x, state + 36, None),
            svg_text(x, heard, escape(read[i]), size=13.5, anchor="middle"),
        ]
        if i:
            before = columns[i - 1]
            out, back = before + 4.2 * len(read[i]) + 3, x - 4.2 * len(read[i]) - 3
            line = f"M{out:g} {said - 5} H{(before + x) / 2:g} V{heard - 5} H{back:g}"
            parts.append(_arrow(before + 23, state + 17, x - 24, state + 17, _ORANGE))
            parts.append(_path(line, None, width=1.2, dashed=True))
    parts.append(svg_text(8, heard + 27, bold("decoder"), colour=_ORANGE))
    parts.append(svg_text(92, heard + 27, "dashed: each word is read next", size=13.5))
    alt = (
        f"Encoder and decoder. The encoder reads {', '.join(words)} in both directions, so each "
        "state is made from the word and the states on either side. All that reaches the decoder "
        "is one vector, made of the last state of each direction: the first decoder state starts "
        "from it, and every prediction gets the same one. The decoder reads "
        f"{', '.join(read)} and predicts {', '.join(written)}: each word written is read at the "
        "next step."
    )
    return Svg("".join(parts), 360, heard + 38, alt, max_width=440)


def decoder_step(
    source: Sequence[str],
    scores: ArrayLike,
    weights: ArrayLike,
    written: Sequence[str],
    next_word: str,
    gloss: Sequence[str] | None = None,
    note: str = "",
) -> Svg:
    """Draw one step of a decoder with attention: scores, weights, context, next word.

    Parameters
    ----------
    source : sequence of str, (n_src,)
        Two to five words of up to ten letters.
    scores, weights : array-like, (n_src,)
        Of this step, one for each word; weights lie between 0 and 1 and sum to 1.
    written : sequence of str
        What the decoder has written so far, up to five words.
    next_word : str
        What it writes now.
    gloss : sequence of str, optional
        What each word of the source means, up to ten letters each.
    note : str, default ""
        A line below the drawing, of up to fifty letters.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If the lengths don't fit, or the weights are none.

    Examples
    --------
    >>> decoder_step(["я", "сплю"], [0.0, 2.0], [0.12, 0.88], ["I"], "sleep")
    One step of a decoder with attention, after “I”. Its state h_t is scored against each state of \
the encoder; softmax turns the scores into weights. я: score 0.0, weight 0.12. сплю: score 2.0, \
weight 0.88. The mean of the encoder's states under these weights is the context c_t; from c_t and \
h_t the next word is predicted: “sleep”.
    """
    words = _words("source", source, 2, 5)
    said = " ".join(_words("written", written, 1, 5))
    (word,) = _words("next_word", [next_word], 1, 1)
    meanings = _gloss(gloss, words)
    if not isinstance(note, str) or len(note) > 50:
        raise ValueError(f"note must be a line of up to fifty letters; got {note!r}")
    s, w = (np.asarray(a, dtype=np.float64) for a in (scores, weights))
    for name, a in (("scores", s), ("weights", w)):
        if a.shape != (len(words),) or not np.isfinite(a).all():
            raise ValueError(
                f"{name} must be {len(words)} finite numbers, one for each word; got {a}"
            )
    if (w < 0.0).any() or abs(w.sum() - 1.0) > 0.02:
        raise ValueError(f"weights must lie between 0 and 1 and sum to 1; got {w}")

    columns = _columns(len(words), 58, 328)
    h_t, c_t = subscript("h", "t"), subscript("c", "t")
    foot = 240 if meanings else 226  # of the bars
    end = foot + 136
    parts = [  # the decoder's state above; it goes to the scores and, along the right, to the end
        _box(8, 8, 344, 42, _ORANGE),
        svg_text(18, 34, f"{bold('state')} {h_t}"),
        svg_text(96, 34, f"after “{escape(said)}”", size=13.5),
        _path(f"M338 50 V{end} H250", _ORANGE),
        _arrow(258, end, 250, end, _ORANGE),
    ]
    for y, name in ((82, "scores"), (127, "states"), (foot, "weights")):
        parts.append(svg_text(8, y, name, size=12.5))
    middle = (columns[0] + columns[-1]) / 2
    for i, x in enumerate(columns):
        share = float(w[i])
        height = 56 * share
        parts += [
            _path(f"M{x} 50 V66", _ORANGE),
            svg_text(x, 82, _signed(s[i]), anchor="middle"),
            _path(f"M{x} 90 V104", None, dashed=True),
            _box(x - 22, 106, 44, 32, _BLUE),
            svg_text(x, 127, subscript("s", str(i + 1)), anchor="middle"),
            svg_text(x, 156, escape(words[i]), size=12.5, anchor="middle"),
            f'<rect x="{x - 14:g}" y="{foot - height:.1f}" width="28" height="{height:.1f}" '
            f'fill="{_GREEN}"/>',
            _path(f"M{x - 20:g} {foot} H{x + 20:g}", None, width=1.0),
            svg_text(x, foot + 17, f"{share:.2f}", size=13.5, anchor="middle"),
            f'<path d="M{x:g} {foot + 24} C{x:g} {foot + 44} {middle:g} {foot + 36} {middle:g} '
            f'{foot + 58}" fill="none" stroke="{_GREEN}" stroke-width="{1.0 + 5.0 * share:.1f}" '
            f'stroke-opacity="{0.35 + 0.65 * share:.2f}"/>',
        ]
        if meanings:
            parts.append(svg_text(x, 171, escape(meanings[i]), size=11.5, anchor="middle"))
    parts += [
        _box(8, foot + 58, 320, 42, _GREEN),
        svg_text(18, foot + 84, f"{bold('context')} {c_t}"),
        svg_text(318, foot + 84, "weighted mean of states", size=13.5, anchor="end"),
        _arrow(130, foot + 100, 130, foot + 114, _GREEN),
        _box(8, foot + 116, 240, 42, None),
        svg_text(18, foot + 142, bold("next word")),
        svg_text(238, foot + 142, f"“{escape(word)}”", anchor="end"),
    ]
    if note:
        parts.append(svg_text(8, foot + 176, escape(note), size=12))
    rows = ". ".join(
        f"{a}: score {_signed(b)}, weight {c:.2f}" for a, b, c in zip(words, s, w, strict=True)
    )
    alt = (
        f"One step of a decoder with attention, after “{said}”. Its state h_t is scored against "
        f"each state of the encoder; softmax turns the scores into weights. {rows}. The mean of "
        "the encoder's states under these weights is the context c_t; from c_t and h_t the next "
        f"word is predicted: “{word}”."
    )
    if note:
        alt += f" {note[0].upper()}{note[1:]}."
    return Svg("".join(parts), 360, foot + (186 if note else 168), alt, max_width=440)


def alignment_heatmap(
    weights: ArrayLike,
    target: Sequence[str],
    source: Sequence[str],
    gloss: Sequence[str] | None = None,
) -> Plot:
    """Draw where a trained model looked as it predicted: a row for each word of the target.

    Parameters
    ----------
    weights : array-like, (n_tgt, n_src)
        From 0 to 1.
    target : sequence of str, (n_tgt,)
    source : sequence of str, (n_src,)
        At most ten words, which is what can be read on a phone.
    gloss : sequence of str, (n_src,), optional
        What each word of the source means; "" where that needn't be said.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the shapes don't fit, there are too many words, or a weight isn't between 0 and 1.

    Examples
    --------
    >>> alignment_heatmap([[0.9, 0.1], [0.3, 0.7]], ["I", "sleep"], ["я", "сплю"])
    Weights over the source, 2 target words by 2 source words. I looks at я (0.90). sleep looks at \
сплю (0.70), я (0.30).
    """
    table = np.asarray(weights, dtype=np.float64)
    rows, columns = list(target), list(source)
    if table.shape != (len(rows), len(columns)) or table.size == 0 or len(columns) > 10:
        raise ValueError(
            "weights must have a row for each target word and a column for each of at most ten "
            f"source words, {(len(rows), len(columns))}; got shape {table.shape}"
        )
    if not ((table >= 0.0) & (table <= 1.0 + 1e-6)).all():
        raise ValueError(f"weights must lie between 0 and 1; got {table.min()} to {table.max()}")
    names = columns
    if gloss is not None:
        meanings = list(gloss)
        if len(meanings) != len(columns):
            raise ValueError(
                f"gloss must have a meaning for each of {len(columns)} words; got {gloss!r}"
            )
        names = [f"{a}\n{b}" if b else a for a, b in zip(columns, meanings, strict=True)]
    # Light enough that black numbers are read on all of it, and white ones when it's inverted.
    blues = LinearSegmentedColormap.from_list("weights", ["#FFFFFF", SKY])
    crowded = max(len(word) for name in names for word in name.split("\n")) * len(columns) > 30
    with course_style():
        figure = Figure(
            figsize=(WIDTH, (1.5 if crowded else 1.0) + 0.36 * max(len(rows), 4)),
            layout="constrained",
        )
        axes = figure.add_subplot()
        axes.imshow(table, cmap=blues, vmin=0.0, vmax=1.0, aspect="auto")
        for i, j in zip(*np.nonzero(table >= 0.05), strict=True):
            axes.text(j, i, f"{table[i, j]:.2f}", ha="center", va="center", color="black", size=11)
        axes.grid(False)
        axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
        axes.grid(True, which="minor", color="#BBBBBB", linewidth=0.8)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xticks(range(len(columns)), names, rotation=90 if crowded else 0, size=12)
        axes.set_yticks(range(len(rows)), rows, size=12)
        axes.set_xlabel("source, read by the encoder", labelpad=10)
        axes.set_ylabel("target, predicted")
    looks = []
    for word, row in zip(rows, table, strict=True):
        best = [j for j in np.argsort(-row, kind="stable") if row[j] >= 0.2] or [int(row.argmax())]
        looks.append(f"{word} looks at {', '.join(f'{columns[j]} ({row[j]:.2f})' for j in best)}")
    alt = (
        f"Weights over the source, {len(rows)} target words by {len(columns)} source words. "
        f"{'. '.join(looks)}."
    )
    return Plot(figure, alt)


def accuracy_by_length(
    lengths: ArrayLike, accuracy: Mapping[str, ArrayLike], longest_trained: int | None = None
) -> Plot:
    """Draw the share of exact matches against the length of the source, every seed and the mean.

    Parameters
    ----------
    lengths : array-like, (n,)
        Lengths of the source, rising.
    accuracy : mapping from name to array-like, (n_seeds, n)
        One to three models, each with the shares, from 0 to 1, of its runs. The first is drawn in
        orange, the second in blue, the third, a variant of the second, in dashed blue.
    longest_trained : int, optional
        Lengths beyond it were not trained: they are shaded.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the shapes don't fit, lengths don't rise, or a share isn't between 0 and 1.

    Examples
    --------
    >>> accuracy_by_length([2, 4], {"with": [[1.0, 0.9], [1.0, 1.0]], "without": [[1.0, 0.2]]})
    Exact match against the length of the source. with, mean of 2 runs: 2: 1.00, 4: 0.95. without, \
1 run: 2: 1.00, 4: 0.20.
    """
    x = np.asarray(lengths, dtype=np.float64)
    if x.ndim != 1 or x.size < 2 or not (np.diff(x) > 0).all():
        raise ValueError(f"lengths must be at least two numbers that rise; got {lengths!r}")
    runs: dict[str, NDArray] = {}
    for name, values in accuracy.items():
        y = np.asarray(values, dtype=np.float64)
        if y.ndim != 2 or y.shape[1] != x.size or not len(y) or not ((y >= 0) & (y <= 1)).all():
            raise ValueError(
                f"accuracy[{name!r}] must be shares from 0 to 1 of shape (n_seeds, {x.size}); "
                f"got {values!r}"
            )
        runs[name] = y
    styles = ((_ORANGE, "s", "-"), (_BLUE, "o", "-"), (_BLUE, "^", "--"))
    if not 1 <= len(runs) <= len(styles):
        raise ValueError(f"accuracy must have one to three models; got {len(runs)}")
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.5 + 0.2 * len(runs)), layout="constrained")
        axes = figure.add_subplot()
        for (name, y), (colour, marker, line) in zip(runs.items(), styles, strict=False):
            for run in y if len(y) > 1 else ():
                axes.plot(x, run, line, color=colour, linewidth=0.9, alpha=0.55, zorder=2)
            axes.plot(
                x, y.mean(axis=0), line, color=colour, marker=marker, zorder=3, clip_on=False,
                label=name,
            )  # fmt: skip
        # Curves cross and end on one another, so names beside them would collide.
        figure.legend(
            loc="outside upper left", frameon=False, labelcolor="linecolor", handlelength=2.6
        )
        if longest_trained is not None and x[-1] > longest_trained:
            left, right = longest_trained + 0.5, x[-1] + 1.5
            axes.set_xlim(x[0] - 1, right)
            axes.axvspan(left, right, color="#EFEFEF", zorder=0, linewidth=0)
            ends = np.sort([0.0, *(y.mean(axis=0)[-1] for y in runs.values()), 1.0])
            gap = int(np.diff(ends).argmax())
            axes.annotate(
                "longer\nthan in\ntraining",
                ((left + right) / 2, (ends[gap] + ends[gap + 1]) / 2),
                color=MUTED,
                ha="center",
                va="center",
                size=10,
            )
        axes.set_xticks(x, [f"{v:g}" for v in x])
        axes.set_ylim(-0.03, 1.06)
        axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100"])
        axes.set_xlabel("length of the string, digits")
        axes.set_ylabel("exact match, %")
    said = ". ".join(
        f"{name}, {f'mean of {len(y)} runs' if len(y) > 1 else '1 run'}: "
        + ", ".join(f"{n:g}: {m:.2f}" for n, m in zip(x, y.mean(axis=0), strict=True))
        for name, y in runs.items()
    )
    alt = f"Exact match against the length of the source. {said}."
    return Plot(figure, alt)


def _words(name: str, words: Sequence[str], least: int, most: int, longest: int = 10) -> list[str]:
    """Return words as a list, or raise if there is no room for them."""
    found = [words] if isinstance(words, str) else list(words)
    if not least <= len(found) <= most or not all(0 < len(word) <= longest for word in found):
        raise ValueError(
            f"{name} must be {least} to {most} words of 1 to {longest} letters; got {words!r}"
        )
    return found


def _gloss(gloss: Sequence[str] | None, words: Sequence[str]) -> list[str]:
    """Return a meaning for each word, or none at all."""
    return [] if gloss is None else _words("gloss", gloss, len(words), len(words))


def _columns(n: int, left: float = 8, right: float = 352) -> list[float]:
    """Return the middles of n columns side by side."""
    width = (right - left) / n
    return [left + width * (i + 0.5) for i in range(n)]


def _box(x: float, y: float, width: float, height: float, colour: str | None) -> str:
    """Return a rounded box, tinted in a colour or neutral."""
    ink = colour or "currentColor"
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{ink}" '
        f'fill-opacity="{0.12 if colour else 0.04}" stroke="{ink}" '
        f'stroke-opacity="{1 if colour else 0.6}" stroke-width="1.6"/>'
    )


def _path(d: str, colour: str | None, width: float = 1.8, dashed: bool = False) -> str:
    """Return a line."""
    dash = ' stroke-dasharray="3 3"' if dashed else ""
    ink = colour or "currentColor"
    return f'<path d="{d}" fill="none" stroke="{ink}" stroke-width="{width:g}"{dash}/>'


def _arrow(x0: float, y0: float, x1: float, y1: float, colour: str | None) -> str:
    """Return a line along one axis with a head at its end."""
    if x0 == x1:
        back = 6 if y1 < y0 else -6
        head = f"M{x1 - 4:g} {y1 + back:g} L{x1:g} {y1:g} L{x1 + 4:g} {y1 + back:g}"
    else:
        back = 6 if x1 < x0 else -6
        head = f"M{x1 + back:g} {y1 - 4:g} L{x1:g} {y1:g} L{x1 + back:g} {y1 + 4:g}"
    return _path(f"M{x0:g} {y0:g} L{x1:g} {y1:g} {head}", colour)


def _signed(value: float) -> str:
    """Return a number with one digit and a true minus sign."""
    return f"{value:.1f}".replace("-", "−")
