"""Figures of chapter 00, language models."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log, log10
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from course_lib.figures.style import COLOURS, MUTED, WIDTH, Plot, Svg, bold, course_style, svg_text
from course_lib.validation import check_at_least

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "encoder_decoder",
    "loss_of_one_token",
    "model_perplexities",
    "pieces_seen_before",
    "sentence_probability",
    "temperatures",
]


def encoder_decoder(source: Sequence[str], target: Sequence[str], given: int) -> Svg:
    """Draw an encoder that reads a sentence and a decoder that writes its translation.

    Parameters
    ----------
    source : sequence of str
        Words that go into the encoder, one to six.
    target : sequence of str
        Words of the translation, one to eight.
    given : int
        How many words of the translation are there already; the next one is being written.

    Returns
    -------
    Svg

    Raises
    ------
    ValueError
        If there are too few or too many words, or `given` isn't below their number.

    Examples
    --------
    >>> encoder_decoder(["Я", "вижу"], ["I", "see", "it"], given=1)
    An encoder reads the source, Я вижу, and hands a representation of it to the \
decoder, which writes one token at a time. It has written I, and reads that again; next comes \
see, then it.
    """
    if not 1 <= len(source) <= 6 or not 1 <= len(target) <= 8:
        raise ValueError(
            f"source must have one to six words and target one to eight; "
            f"got {len(source)} and {len(target)}"
        )
    check_at_least("given", given, 0)
    if given >= len(target):
        raise ValueError(f"given must be below the {len(target)} words of target; got {given}")
    blue, orange = COLOURS["blue"], COLOURS["orange"]
    target_parts, left, at = _words(target, 302, orange, filled=given)
    parts = [
        svg_text(
            180, 18, "source <tspan font-style='italic'>x</tspan>", size=13.5, anchor="middle"
        ),
        *_words(source, 28, blue)[0],
        _arrow("M180 58 V80"),
        _box(46, 82, 268, 50, blue),
        svg_text(180, 103, bold("encoder"), anchor="middle"),
        svg_text(180, 122, "reads all of the source", size=13.5, anchor="middle"),
        _arrow("M180 132 V154"),
        *[_cell(102 + 20 * i, 156, shade) for i, shade in enumerate(_SHADES)],
        svg_text(180, 196, "representation of the source: numbers", size=13.5, anchor="middle"),
        _arrow("M180 204 V226"),
        _box(46, 228, 268, 50, orange),
        svg_text(180, 249, bold("decoder"), anchor="middle"),
        svg_text(180, 268, "writes one token at a time", size=13.5, anchor="middle"),
        _arrow(f"M{min(max(at, 54), 306):.1f} 278 V300"),
        *target_parts,
        svg_text(
            180,
            352,
            "target <tspan font-style='italic'>y</tspan>: the decoder reads what it has written,",
            size=13.5,
            anchor="middle",
        ),
        svg_text(180, 370, "and the dashed word comes next", size=13.5, anchor="middle"),
        _arrow(f"M{left:.1f} 316 H{left - 12:.1f} V253 H44", sideways=True),
    ]
    written = " ".join(target[:given])
    read = f"It has written {written}, and reads that again" if given else "It has written nothing"
    rest = " ".join(target[given + 1 :])
    alt = (
        f"An encoder reads the source, {' '.join(source)}, and hands a representation of it to "
        f"the decoder, which writes one token at a time. {read}; next comes {target[given]}"
    )
    return Svg("".join(parts), 360, 380, f"{alt}, then {rest}." if rest else f"{alt}.")


def sentence_probability(tokens: Sequence[str], probabilities: ArrayLike) -> Plot:
    """Draw how a sentence's probability shrinks token by token.

    Parameters
    ----------
    tokens : sequence of str, (n,)
    probabilities : array-like, (n,)
        p of each token given those before it, above 0.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there isn't one probability in (0, 1] for each token.

    Examples
    --------
    >>> sentence_probability(["I", "saw"], [0.5, 0.25])
    The probability of a sentence, token by token. I: 0.5, so far 0.5. saw: 0.25, so far 0.125.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != (len(tokens),) or not tokens or not ((p > 0.0) & (p <= 1.0)).all():
        raise ValueError(
            f"probabilities must have one number above 0 and at most 1 for each of the "
            f"{len(tokens)} tokens; got {probabilities!r}"
        )
    so_far = np.exp(np.log(p).cumsum())
    places = np.arange(len(p))
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.3 + 0.42 * len(p)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        left.barh(places, p, height=0.62, color=COLOURS["blue"])
        # A logarithmic axis has no 0 at which a bar could begin: points, joined in reading order.
        right.plot(so_far, places, "o-", color=COLOURS["orange"], markersize=6, linewidth=1.2)
        right.set_xscale("log")
        low = 10.0 ** np.floor(log10(so_far[-1]) - 0.01)
        for axes, values in ((left, p), (right, so_far)):
            for i, value in enumerate(values):
                axes.annotate(
                    f"{value:.3g}" if value >= 1e-3 else _power(value),
                    (value, i),
                    (4 if axes is left else 7, 0),
                    textcoords="offset points",
                    va="center",
                    size=10.5,
                )
            axes.grid(False, axis="y")
            axes.tick_params(axis="y", length=0)
        left.set_xlim(0.0, 1.32)
        left.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        right.set_xlim(low, 10.0 ** (-0.62 * log10(low)))
        step = max(1, round(-log10(low) / 2))
        ticks = [10.0**i for i in range(0, round(log10(low)) - 1, -step)]
        right.xaxis.set_major_locator(FixedLocator(ticks))
        right.xaxis.set_minor_locator(NullLocator())
        right.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _tick(x)))
        left.set_yticks(places, list(tokens))
        left.invert_yaxis()
        left.set_title("each token, given\nthose before it", size=11)
        right.set_title("product so far\n(logarithmic axis)", size=11)
        left.set_xlabel("$p(x_t\\,|\\,x_{<t})$")
        right.set_xlabel("$p(x_1,\\ldots,x_t)$")
    listed = ". ".join(
        f"{token}: {a:.3g}, so far {b:.3g}" for token, a, b in zip(tokens, p, so_far, strict=True)
    )
    return Plot(figure, f"The probability of a sentence, token by token. {listed}.")


def loss_of_one_token(words: Sequence[str], probabilities: ArrayLike, correct: str) -> Plot:
    """Draw a prediction beside its one-hot target, and −log p with the correct token on it.

    Parameters
    ----------
    words : sequence of str, (n,)
        The vocabulary.
    probabilities : array-like, (n,)
        What the model predicts.
    correct : str
        The word that came.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the probabilities are no distribution over two to eight words, or `correct` isn't one of
        the words or has probability 0.

    Examples
    --------
    >>> loss_of_one_token(["cat", "dog"], [0.25, 0.75], "cat")
    Left, prediction against one-hot target: cat 0.25 against 1, dog 0.75 against 0. Right, the \
curve of −log p falls from 4.61 at p = 0.01 to 0 at p = 1; cat lies on it at p = 0.25, loss 1.39.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if (
        p.shape != (len(words),)
        or not 2 <= p.size <= 8
        or not (p >= 0.0).all()
        or abs(p.sum() - 1.0) > 1e-6
    ):
        raise ValueError(
            f"probabilities must be a distribution over two to eight words, here {len(words)}; "
            f"got {probabilities!r}"
        )
    if correct not in words or p[list(words).index(correct)] == 0.0:
        raise ValueError(f"correct must be a word of probability above 0; got {correct!r}")
    target = np.array([float(word == correct) for word in words])
    at = float(p[list(words).index(correct)])
    places = np.arange(p.size)
    curve = np.linspace(0.01, 1.0, 200)
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.9), layout=ConstrainedLayoutEngine(w_pad=0.08))
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1.0])
        left.barh(places - 0.2, p, height=0.36, color=COLOURS["blue"])
        left.barh(places + 0.2, target, height=0.36, color=COLOURS["orange"])
        for i, (a, b) in enumerate(zip(p, target, strict=True)):
            for value, y, colour in ((a, i - 0.2, "blue"), (b, i + 0.2, "orange")):
                left.annotate(
                    f"{value:.2f}" if colour == "blue" else f"{value:.0f}",
                    (value, y),
                    (3, 0),
                    textcoords="offset points",
                    va="center",
                    size=10,
                    color=COLOURS[colour],
                )
        left.set_yticks(places, words)
        left.invert_yaxis()
        left.set_xlim(0.0, 1.25)
        left.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        left.grid(False, axis="y")
        left.tick_params(axis="y", length=0)
        left.set_xlabel("probability")
        left.set_title("predicted", color=COLOURS["blue"], size=11, loc="left")
        left.set_title("one-hot", color=COLOURS["orange"], size=11, loc="right")
        right.plot(curve, -np.log(curve), color=COLOURS["green"])
        right.plot([at], [-log(at)], "o", color=COLOURS["blue"], markersize=8, zorder=3)
        right.annotate(
            f"{correct}:\n{-log(at):.2f}",
            (at, -log(at)),
            (8, 4),
            textcoords="offset points",
            color=COLOURS["blue"],
            va="bottom",
        )
        right.set_xlim(0.0, 1.03)
        right.set_ylim(-0.08, 4.8)
        right.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        right.set_xlabel("$p$ of the correct token")
        right.set_title("loss $-\\log\\,p$", color=COLOURS["green"], size=11)
    listed = ", ".join(
        f"{w} {a:.2g} against {b:.0f}" for w, a, b in zip(words, p, target, strict=True)
    )
    return Plot(
        figure,
        f"Left, prediction against one-hot target: {listed}. Right, the curve of −log p falls from "
        f"{-log(0.01):.2f} at p = 0.01 to 0 at p = 1; {correct} lies on it at p = {at:.2g}, loss "
        f"{-log(at):.2f}.",
    )


def pieces_seen_before(lengths: Sequence[int], shares: ArrayLike) -> Plot:
    """Draw what share of a new text's pieces an old text holds, by their length.

    Parameters
    ----------
    lengths : sequence of int, (n,)
        Lengths of the pieces, in tokens.
    shares : array-like, (n,)
        From 0 to 1.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there isn't one share from 0 to 1 for each length.

    Examples
    --------
    >>> pieces_seen_before([1, 2], [0.9, 0.5])
    Share of pieces of new text that were seen before, by length in tokens: 1: 90 %, 2: 50 %.
    """
    y = np.asarray(shares, dtype=np.float64)
    if y.shape != (len(lengths),) or not y.size or not ((y >= 0.0) & (y <= 1.0)).all():
        raise ValueError(
            f"shares must have one number from 0 to 1 for each of the {len(lengths)} lengths; "
            f"got {shares!r}"
        )
    with course_style():
        figure = Figure(figsize=(WIDTH, 2.9), layout="constrained")
        axes = figure.add_subplot()
        axes.bar(range(len(y)), 100 * y, width=0.62, color=COLOURS["blue"])
        for i, share in enumerate(y):
            axes.annotate(
                f"{100 * share:.0f} %", (i, 100 * share), (0, 3), textcoords="offset points",
                ha="center",
            )  # fmt: skip
        axes.set_xticks(range(len(y)), [f"{n}" for n in lengths])
        axes.set_ylim(0, 115)
        axes.set_yticks([0, 50, 100])
        axes.grid(False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel("length of the piece, in tokens")
        axes.set_ylabel("seen before, in %")
    listed = ", ".join(f"{n}: {100 * s:.0f} %" for n, s in zip(lengths, y, strict=True))
    return Plot(
        figure, f"Share of pieces of new text that were seen before, by length in tokens: {listed}."
    )


def model_perplexities(
    results: dict[str, float], vocab_size: int, marked: Sequence[str] = ()
) -> Plot:
    """Draw the perplexity of several models, on a logarithmic axis that ends at the uniform one's.

    Parameters
    ----------
    results : dict of str to float
        Perplexity by the model's name.
    vocab_size : int
        The perplexity of the uniform model, a dashed line.
    marked : sequence of str, optional
        Names of models that have a network in them; the others count.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there is no model, a perplexity is below 1 or not finite, or `marked` isn't among them.

    Examples
    --------
    >>> model_perplexities({"bigram": 90.0, "network": 71.0}, 1700)
    Perplexity on test text: bigram 90; network 71. Of a uniform model: 1,700.
    """
    check_at_least("vocab_size", vocab_size, 2)
    values = np.array(list(results.values()), dtype=np.float64)
    if not values.size or not (np.isfinite(values) & (values >= 1.0)).all():
        raise ValueError(f"results must hold perplexities of at least 1; got {results!r}")
    if not set(marked) <= set(results):
        raise ValueError(f"marked must name models of results; got {list(marked)}")
    places = np.arange(values.size)
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.2 + 0.45 * values.size), layout="constrained")
        axes = figure.add_subplot()
        colours = [COLOURS["orange" if name in marked else "blue"] for name in results]
        axes.hlines(places, 1.0, vocab_size, colors=MUTED, linewidth=0.7, alpha=0.35)
        axes.scatter(values, places, s=48, c=colours, zorder=3)
        axes.axvline(vocab_size, color=MUTED, linestyle=(0, (4, 3)), linewidth=1.4)
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                f"{value:,.0f}", (value, place), (8, 0), textcoords="offset points", va="center"
            )
        axes.set_xscale("log")
        low = 10.0 ** np.floor(log10(values.min() * 0.9))
        axes.set_xlim(low, vocab_size * 1.1)
        ticks = [m * 10.0**e for e in range(0, 7) for m in (1, 2, 5)]
        inside = [t for t in ticks if low <= t <= vocab_size * 1.1]
        axes.xaxis.set_major_locator(FixedLocator(inside[:: 1 + len(inside) // 9]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.set_yticks(places, list(results))
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("test perplexity (log axis)")
        if 0 < len(set(marked)) < len(results):
            axes.set_title("counts", loc="left", color=COLOURS["blue"])
            axes.set_title("network", loc="center", color=COLOURS["orange"])
        axes.set_title(f"uniform: {vocab_size:,d}", loc="right", color=MUTED)
    listed = "; ".join(f"{name} {value:,.0f}" for name, value in results.items())
    return Plot(figure, f"Perplexity on test text: {listed}. Of a uniform model: {vocab_size:,d}.")


def temperatures(words: Sequence[str], rows: dict[float, NDArray]) -> Plot:
    """Draw one distribution over a few words at several temperatures, side by side.

    Parameters
    ----------
    words : sequence of str, (n,)
    rows : dict of float to array, (n,)
        Probabilities of the words by temperature; the rest is with other words.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no rows, more than three, or one isn't (n,) of probabilities.

    Examples
    --------
    >>> temperatures(["a", "b"], {0.5: np.array([0.8, 0.2]), 1.0: np.array([0.67, 0.33])})
    Probabilities by temperature. At 0.5: a 0.80, b 0.20. At 1: a 0.67, b 0.33.
    """
    good = all(
        np.shape(p) == (len(words),) and (np.asarray(p) >= 0.0).all() and np.sum(p) <= 1.0 + 1e-6
        for p in rows.values()
    )
    if not 1 <= len(rows) <= 3 or not words or not good:
        raise ValueError(
            f"rows must be one to three rows of {len(words)} probabilities; got {rows!r}"
        )
    places = np.arange(len(words))
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.5 + 0.33 * len(words)), layout="constrained")
        panels = np.atleast_1d(figure.subplots(1, len(rows), sharey=True))
        for axes, (temperature, p) in zip(panels, rows.items(), strict=True):
            axes.barh(places, p, height=0.62, color=COLOURS["blue"])
            for i, value in enumerate(p):
                axes.annotate(
                    f"{value:.2f}", (value, i), (3, 0), textcoords="offset points", va="center",
                    size=10,
                )  # fmt: skip
            axes.set_xlim(0.0, 1.55)
            axes.set_xticks([0.0, 1.0], ["0", "1"])
            axes.set_title(f"temperature {temperature:g}", size=10.5)
            axes.grid(False, axis="y")
            axes.tick_params(axis="y", length=0)
        panels[0].set_yticks(places, words)
        panels[0].invert_yaxis()
        panels[len(panels) // 2].set_xlabel("probability of the next token")
    listed = ". ".join(
        f"At {t:g}: " + ", ".join(f"{w} {v:.2f}" for w, v in zip(words, p, strict=True))
        for t, p in rows.items()
    )
    return Plot(figure, f"Probabilities by temperature. {listed}.")


_SHADES = (0.75, 0.2, 0.5, 0.95, 0.35, 0.6, 0.15, 0.8)  # nothing is meant by them


def _words(
    words: Sequence[str], y: float, colour: str, filled: int | None = None
) -> tuple[list[str], float, float]:
    """Return a centred row of boxed words, its left edge, and the middle of word `filled`.

    That word is dashed, and those after it are faint.
    """
    size = 15 if sum(map(len, words)) + 3 * len(words) <= 40 else 13
    widths = [len(word) * size * 0.62 + 12 for word in words]
    gap = 4.0
    left = x = 180 - (sum(widths) + gap * (len(words) - 1)) / 2
    middle = x
    parts = []
    for i, (word, width) in enumerate(zip(words, widths, strict=True)):
        there, now = filled is None or i < filled, i == filled
        middle = x + width / 2 if now else middle
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" rx="6" fill="{colour}" '
            f'fill-opacity="{0.14 if there else 0}" stroke="{colour}" '
            f'stroke-opacity="{1 if there or now else 0.35}" stroke-width="1.5"'
            + (' stroke-dasharray="4 3"/>' if now else "/>")
        )
        parts.append(
            f'<text x="{x + width / 2:.1f}" y="{y + 19}" font-size="{size}" text-anchor="middle"'
            + ("" if there or now else ' fill-opacity="0.75"')
            + f">{escape(word)}</text>"
        )
        x += width + gap
    return parts, left, middle


def _cell(x: float, y: float, shade: float) -> str:
    """Return one number of a vector, as a shaded square."""
    return (
        f'<rect x="{x}" y="{y}" width="16" height="20" rx="3" fill="{COLOURS["green"]}" '
        f'fill-opacity="{shade}" stroke="{COLOURS["green"]}" stroke-width="1.2"/>'
    )


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return a rounded box, tinted in a colour."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{colour}" '
        f'fill-opacity="0.12" stroke="{colour}" stroke-width="1.6"/>'
    )


def _arrow(path: str, sideways: bool = False) -> str:
    """Return a line with an arrow head at its end, downwards or to the right."""
    if sideways:
        y, x = path.split("V")[1].split(" H")
        head = f"M{float(x) - 7:g} {float(y) - 4.5:g} L{x} {y} L{float(x) - 7:g} {float(y) + 4.5:g}"
    else:
        x, y = path[1:].split(" ")[0], path.split("V")[1]
        head = f"M{float(x) - 4.5:g} {float(y) - 7:g} L{x} {y} L{float(x) + 4.5:g} {float(y) - 7:g}"
    return (
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.8"/>'
        f'<path d="{head}" fill="none" stroke="currentColor" stroke-width="1.8"/>'
    )


def _power(value: float) -> str:
    """Return a small number as 3.1·10⁻⁵, in matplotlib's math."""
    exponent = int(np.floor(log10(value)))
    return f"${value / 10.0**exponent:.1f}\\cdot 10^{{{exponent}}}$"


def _tick(value: float) -> str:
    """Return a power of ten."""
    exponent = round(log10(value))
    return "1" if exponent == 0 else f"$10^{{{exponent}}}$"
