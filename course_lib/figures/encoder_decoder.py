"""Figures of chapter 09, the encoder-decoder."""

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

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["causal_and_peeking", "fitting_vocabularies", "model_walk", "shares_by_part"]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN, _PURPLE = COLOURS["green"], COLOURS["purple"]
_TOP = 190  # where the picture below the map begins

# Parts of the map: x, y, width, words, colour.
_PARTS = {
    "source": (6, 22, 50, "source", None),
    "mask": (6, 66, 92, "padding mask", None),
    "embed": (68, 22, 52, "embed", _GREEN),
    "encoder": (132, 22, 86, "N layers", _ORANGE),
    "memory": (230, 22, 68, "memory", _PURPLE),
    "target": (6, 104, 50, "target", None),
    "embed target": (68, 104, 52, "embed", _GREEN),
    "causal": (62, 142, 84, "causal mask", None),
    "self": (138, 104, 42, "self", _ORANGE),
    "cross": (188, 104, 48, "cross", _PURPLE),
    "ffn": (244, 104, 42, "FFN", _BLUE),
    "logits": (302, 104, 52, "logits", None),
}


def model_walk(
    source: Sequence[Sequence[str]],
    target_in: Sequence[Sequence[str]],
    target_out: Sequence[Sequence[str]],
    arrays: Mapping[str, ArrayLike],
    shown: int = 0,
) -> StepThrough:
    """Draw a padded batch of two pairs on its way through the model, with all shapes.

    Attention is drawn for the first head and the second pair.

    Parameters
    ----------
    source, target_in, target_out : two sequences of words each
        Padded with "‹pad›" to at most 6 words for the source, 8 for the target.
    arrays : mapping of names to array-likes
        "embedded" (2, n_src, d), "memory" (2, n_src, d), "logits" (2, n_tgt, V), and the weights of
        the first layers, "encoder" (2, h, n_src, n_src), "self" (2, h, n_tgt, n_tgt) and "cross"
        (2, h, n_tgt, n_src). At most 32 numbers a row are drawn.
    shown : int, default 0
        The state of the still picture.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If the words don't make two rows of one length, or an array is missing or of another shape.

    Examples
    --------
    >>> table = np.full((2, 1, 2, 2), 0.5)
    >>> rows, scores = np.zeros((2, 2, 4)), np.zeros((2, 2, 5))
    >>> arrays = {"embedded": rows, "memory": rows, "logits": scores}
    >>> arrays |= {"encoder": table, "self": table, "cross": table}
    >>> words = [["a", "b"], ["c", "‹pad›"]]
    >>> model_walk(words, words, words, arrays).buttons
    ('source', 'mask', 'embed', 'encoder', 'memory', 'target', 'self', 'cross', 'logits')
    """
    src, tgt_in, tgt_out = (
        _rows(name, words, most)
        for name, words, most in (
            ("source", source, 6), ("target_in", target_in, 8), ("target_out", target_out, 8)
        )
    )  # fmt: skip
    n_src, n_tgt = len(src[0]), len(tgt_in[0])
    if len(tgt_out[0]) != n_tgt:
        raise ValueError(f"target_out must be as long as target_in, {n_tgt}; got {len(tgt_out[0])}")
    found = _arrays(arrays, n_src, n_tgt)
    h, d, size = found["encoder"].shape[1], found["memory"].shape[2], found["logits"].shape[2]
    real = np.array([[word != "‹pad›" for word in row] for row in src])  # (2, n_src)
    causal = np.tril(np.ones((n_tgt, n_tgt), dtype=bool))
    seen = {
        "encoder": np.broadcast_to(real[1], (n_src, n_src)),
        "self": causal,
        "cross": np.broadcast_to(real[1], (n_tgt, n_src)),
    }

    def table(name: str, queries: Sequence[str], keys: Sequence[str]) -> list[str]:
        colour = _PURPLE if name == "cross" else _ORANGE
        return _table(found[name][1, 0], seen[name], queries, keys, colour)

    states: list[tuple[str, tuple[str, ...], str, list[str], str]] = [
        ("source", ("source",), f"ids (2, {n_src})", _tokens(src),
         "Two sentences of unequal length as rows of ids. The shorter one is padded."),
        ("mask", ("mask",), f"(2, 1, 1, {n_src})", _tokens(src, real),
         "Filled: a real token, True. One row for each sentence; the two ones stand for all heads "
         "and all queries. The same mask goes into the encoder and into cross-attention."),
        ("embed", ("embed",), f"(2, {n_src}, {d})", _vectors(found["embedded"][1], src[1]),
         "Each id becomes a row of the table, times √d, and gets its position added. Here the rows "
         "of sentence 2, blue above 0 and orange below."),
        ("encoder", ("encoder",), f"weights (2, {h}, {n_src}, {n_src})",
         table("encoder", src[1], src[1]),
         "In each layer every token looks at all real tokens of its sentence, then goes through "
         "the network. Columns of padding stay empty. Layer 1, head 1, sentence 2."),
        ("memory", ("memory",), f"(2, {n_src}, {d})", _vectors(found["memory"][1], src[1]),
         "What leaves the last encoder layer. It's computed once, and every decoder layer asks it. "
         "Rows of padding hold numbers too; the mask keeps them from being read."),
        ("target", ("target",), f"ids (2, {n_tgt})", _tokens(tgt_in),
         "The target, shifted right: it begins with ‹bos›, and each place is to say the word that "
         "comes next."),
        ("self", ("embed target", "causal", "self"), f"weights (2, {h}, {n_tgt}, {n_tgt})",
         table("self", tgt_in[1], tgt_in[1]),
         "Embedded like the source, target tokens ask one another. The causal mask leaves what "
         "came before, and the token itself."),
        ("cross", ("cross", "ffn"), f"weights (2, {h}, {n_tgt}, {n_src})",
         table("cross", tgt_in[1], src[1]),
         "Then they ask the source: queries from the target, keys and values from the memory. The "
         "table isn't square. After it, the network. N such layers."),
        ("logits", ("logits",), f"(2, {n_tgt}, {size})",
         _logits(found["logits"][1], tgt_in[1], tgt_out[1]),
         f"A score for each of {size} words at each place. Right: the word that training wants "
         "there. This model is untrained, so its scores don't know it yet."),
    ]  # fmt: skip
    parts = []
    for i, (name, lit, shape, picture, _) in enumerate(states):
        group = [*_map(lit), svg_text(8, _TOP - 4, f"{bold(name)}: {shape}", 15), *picture]
        hidden = "" if i == shown else ' style="display:none"'
        parts.append(f'<g data-step="{i}"{hidden}>{"".join(group)}</g>')
    said = "; ".join(f"{name} {shape}" for name, _, shape, *_ in states)
    return StepThrough(
        "".join(parts),
        360,
        _TOP + 268,
        f"A batch of 2 pairs on its way through an encoder-decoder in {len(states)} steps, with "
        f"the shape of each array: {said}. Of sentence 2, {int(real[1].sum())} of {n_src} source "
        "tokens are real; the columns of the others are empty in the encoder's and in the cross-"
        "attention's table.",
        buttons=tuple(name for name, *_ in states),
        captions=tuple(state[-1] for state in states),
        shown=shown,
        legend="Parts of the model, in the order in which they are computed",
    )


def shares_by_part(parts: Mapping[str, tuple[float, float]]) -> Plot:
    """Draw what share of a model's parameters and of its FLOPs each of its parts has.

    Parameters
    ----------
    parts : mapping of names to (parameters, FLOPs)

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no parts, a number is negative, or one of the two sums is 0.

    Examples
    --------
    >>> shares_by_part({"table": (3, 0), "layers": (1, 1)})
    Shares of parameters and of FLOPs. table: 75 % and 0 %; layers: 25 % and 100 %.
    """
    numbers = np.array([list(pair) for pair in parts.values()], dtype=np.float64)
    fits = numbers.ndim == 2 and numbers.shape[1:] == (2,) and (numbers >= 0).all()
    if not fits or not (numbers.sum(axis=0) > 0).all():
        raise ValueError(f"parts must be pairs of numbers of at least 0, not all 0; got {parts}")
    shares = 100 * numbers / numbers.sum(axis=0)
    places = np.arange(len(parts))[::-1]
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.0 + 0.55 * len(parts)), layout="constrained")
        axes = figure.add_subplot()
        looks = (("of the parameters", _BLUE, 0.19), ("of the FLOPs", _ORANGE, -0.19))
        for column, (_, colour, up) in enumerate(looks):
            axes.barh(places + up, shares[:, column], height=0.36, color=colour)
            for place, share in zip(places, shares[:, column], strict=True):
                axes.annotate(
                    f"{share:.0f} %", (share, place + up), xytext=(4, 0),
                    textcoords="offset points", va="center", color=colour, fontsize=10.5,
                )  # fmt: skip
        for i, (name, colour, _) in enumerate(looks):
            axes.annotate(
                name, (0.55 * i, 1.0), xytext=(0, 6), xycoords="axes fraction",
                textcoords="offset points", color=colour, va="bottom",
            )  # fmt: skip
        axes.set_yticks(places, list(parts))
        axes.grid(False, axis="y")
        axes.set_xlim(0, 1.25 * shares.max())
        axes.set_xlabel("share (%)")
    said = "; ".join(
        f"{name}: {p:.0f} % and {f:.0f} %" for name, (p, f) in zip(parts, shares, strict=True)
    )
    return Plot(figure, f"Shares of parameters and of FLOPs. {said}.")


def fitting_vocabularies(ranges: Mapping[str, tuple[float, float]], stated: float) -> Plot:
    """Draw which vocabularies would make the reported numbers of parameters right.

    Parameters
    ----------
    ranges : mapping of models to (lowest, highest)
        Numbers of tokens.
    stated : float
        The vocabulary that was reported, drawn as a line.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no ranges, or a lowest number is above the highest.

    Examples
    --------
    >>> fitting_vocabularies({"base": (40_000, 42_000), "big": (35_000, 36_000)}, 37_000)
    Vocabularies that fit, in thousands, against 37 reported. base: 40.0 to 42.0; big: 35.0 to 36.0.
    """
    if not ranges or not all(0 < low <= high for low, high in ranges.values()):
        raise ValueError(f"ranges must have a lowest and a highest number each; got {ranges}")
    places = range(len(ranges))[::-1]
    with course_style():
        figure = Figure(figsize=(WIDTH, 1.0 + 0.32 * len(ranges)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(stated, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)))
        for place, (low, high) in zip(places, ranges.values(), strict=True):
            inside = low <= stated <= high
            colour = _BLUE if low > stated or inside else _ORANGE
            axes.plot([low, high], [place, place], color=colour, linewidth=7,
                      solid_capstyle="butt")  # fmt: skip
        axes.annotate(
            "reported", (stated, len(ranges) - 0.45), xytext=(4, 0), textcoords="offset points",
            color=MUTED, va="center",
        )  # fmt: skip
        axes.set_yticks(list(places), list(ranges))
        axes.set_ylim(-0.7, len(ranges) - 0.1)
        axes.grid(False, axis="y")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}"))
        axes.set_xlabel("vocabulary (thousands of tokens)")
    said = "; ".join(
        f"{name}: {low / 1000:.1f} to {high / 1000:.1f}" for name, (low, high) in ranges.items()
    )
    alt = f"Vocabularies that fit, in thousands, against {stated / 1000:g} reported. {said}."
    return Plot(figure, alt)


def causal_and_peeking(
    losses: Mapping[str, Sequence[Sequence[float]]], guess: float, smooth: int = 10
) -> Plot:
    """Draw the losses of a decoder with its mask and of one without, a line a seed.

    Parameters
    ----------
    losses : mapping of up to two names to sequences of losses, one a seed
    guess : float
        Loss of a model that guesses, drawn as a line.
    smooth : int, default 10
        Each point is the mean of so many steps.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are no runs or more than two names, or a run is too short.

    Examples
    --------
    >>> causal_and_peeking({"masked": [[2.0] * 20], "peeking": [[1.0] * 20]}, guess=2.3)
    Loss against training step, 1 seed a line. masked: ends at 2.00. peeking: ends at 1.00.
    """
    if not 1 <= len(losses) <= 2 or not all(losses.values()):
        raise ValueError(f"losses must have one line or two, each with a seed; got {losses!r}")
    if any(len(row) < smooth for rows in losses.values() for row in rows):
        raise ValueError(f"losses must have at least {smooth} steps")
    said = []
    with course_style():
        figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(guess, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        for i, ((name, rows), colour) in enumerate(
            zip(losses.items(), (_BLUE, _ORANGE), strict=False)
        ):
            ends = []
            for row in rows:
                whole = len(row) // smooth * smooth
                y = np.reshape(row[:whole], (-1, smooth)).mean(axis=1)
                axes.plot(smooth * (np.arange(y.size) + 0.5), y, color=colour, linewidth=1.6)
                ends.append(float(y[-1]))
            low, high = f"{min(ends):.2f}", f"{max(ends):.2f}"
            said.append(f"{name}: ends at {low}" + (f" to {high}" if high != low else ""))
            axes.annotate(
                name, (0.98, 0.97 - 0.09 * i), xycoords="axes fraction", color=colour, ha="right",
                va="top",
            )  # fmt: skip
        axes.annotate(
            "- - guessing", (0.98, 0.97 - 0.09 * len(losses)), xycoords="axes fraction",
            color=MUTED, ha="right", va="top",
        )  # fmt: skip
        axes.set_ylim(0, 1.6 * guess)
        axes.set_xlim(left=0)
        axes.set_xlabel("training step")
        axes.set_ylabel("loss (nats a token)")
    seeds = max(len(rows) for rows in losses.values())
    alt = f"Loss against training step, {seeds} seed{'s' * (seeds > 1)} a line. {'. '.join(said)}."
    return Plot(figure, alt)


# ---- Parts ---------------------------------------------------------------------------------------


def _rows(name: str, words: Sequence[Sequence[str]], most: int) -> list[list[str]]:
    """Return two rows of words of one length, or raise."""
    rows = [list(row) for row in words]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]) or not 1 <= len(rows[0]) <= most:
        raise ValueError(f"{name} must be two rows of the same 1 to {most} words; got {rows}")
    return rows


def _arrays(arrays: Mapping[str, ArrayLike], n_src: int, n_tgt: int) -> dict[str, NDArray]:
    """Return the arrays of a walk once their shapes are seen to fit, or raise."""
    wanted = {
        "embedded": (2, n_src, None),
        "memory": (2, n_src, None),
        "logits": (2, n_tgt, None),
        "encoder": (2, None, n_src, n_src),
        "self": (2, None, n_tgt, n_tgt),
        "cross": (2, None, n_tgt, n_src),
    }
    found = {}
    for name, shape in wanted.items():
        if name not in arrays:
            raise ValueError(f"arrays must have {name!r}; got {sorted(arrays)}")
        array = np.asarray(arrays[name], dtype=np.float64)
        fits = array.ndim == len(shape) and all(
            want in (None, got) for want, got in zip(shape, array.shape, strict=True)
        )
        if not fits or not np.isfinite(array).all():
            said = tuple("any" if size is None else size for size in shape)
            raise ValueError(f"arrays[{name!r}] must be finite, of shape {said}; got {array.shape}")
        found[name] = array
    return found


def _map(lit: tuple[str, ...]) -> list[str]:
    """Return the small map of the model, with the parts of one step filled."""
    parts = [
        svg_text(175, 14, "encoder", 12.5, "middle"),
        svg_text(236, 148, "N decoder layers", 12.5, "middle"),
        '<rect x="132" y="98" width="160" height="34" rx="8" fill="none" stroke="currentColor" '
        'stroke-opacity="0.55" stroke-dasharray="4 3"/>',
        _line("M98 77 H200"),
        *_arrow("M175 77 V44"), *_arrow("M200 77 V104"), *_arrow("M31 44 V66"),
        *_arrow("M56 33 H68"), *_arrow("M120 33 H132"), *_arrow("M218 33 H230"),
        *_arrow("M264 44 V90 H224 V104", _PURPLE, 2),
        *_arrow("M56 115 H68"), *_arrow("M120 115 H138"), *_arrow("M180 115 H188"),
        *_arrow("M236 115 H244"), *_arrow("M286 115 H302"),
        _line("M146 153 H159"), *_arrow("M159 153 V126"),
    ]  # fmt: skip
    for name, (x, y, width, words, colour) in _PARTS.items():
        ink = colour or "currentColor"
        tint = 0.55 if name in lit else 0.08
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="22" rx="5" fill="{ink}" '
            f'fill-opacity="{tint if colour else tint / 2}" stroke="{ink}" '
            f'stroke-width="{2.4 if name in lit else 1.2}"/>'
        )
        parts.append(svg_text(x + width / 2, y + 15.2, words, 12, "middle"))
    return parts


def _line(path: str, ink: str = "currentColor", width: float = 1.4) -> str:
    return f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="{width}"/>'


def _arrow(path: str, ink: str = "currentColor", width: float = 1.4) -> list[str]:
    """Return a line of level and upright pieces, with a head at its end."""
    x, y, down, step = 0, 0, False, 0
    for piece in path.split():
        number = int(piece.lstrip("MHV"))
        if piece[0] == "H":
            x, down, step = number, False, number - x
        elif piece[0] == "V":
            y, down, step = number, True, number - y
        elif piece[0] == "M":
            x = number
        else:
            y = number
    back = -7 if step > 0 else 7
    sides = [(4, back), (-4, back)] if down else [(back, 4), (back, -4)]
    corners = " ".join(f"{x + a},{y + b}" for a, b in [(0, 0), *sides])
    return [_line(path, ink, width), f'<polygon points="{corners}" fill="{ink}"/>']


def _tokens(rows: Sequence[Sequence[str]], real: NDArray | None = None) -> list[str]:
    """Return the tokens of two sentences in cells; with `real`, as filled and empty cells."""
    n = len(rows[0])
    across = 4 if n > 6 else n  # eight words take two lines
    lines = -(-n // across)
    side, parts = 336 / across, []
    dashes = ' stroke-dasharray="3 3"'
    for i, row in enumerate(rows):
        top = _TOP + 12 + i * (36 * lines + 34)
        parts.append(svg_text(12, top + 10, f"sentence {i + 1}", 13))
        for j, word in enumerate(row):
            x, y = 12 + side * (j % across), top + 18 + 34 * (j // across)
            padding = word == "‹pad›"
            dark = bool(real[i, j]) if real is not None else False
            ink = _BLUE if dark else "currentColor"
            tint = 0.3 if dark else 0.02 if padding or real is not None else 0.07
            parts.append(
                f'<rect x="{x + 1:g}" y="{y}" width="{side - 2:g}" height="30" rx="5" '
                f'fill="{ink}" fill-opacity="{tint}" stroke="{ink}" '
                f'stroke-opacity="{0.4 if padding else 0.8}"'
                f"{dashes if padding else ''}/>"
            )
            said = ("True" if dark else "False") if real is not None else escape(word)
            size = 11 if len(said) > 6 and across > 4 else 12.5
            parts.append(svg_text(x + side / 2, y + 20, said, size, "middle"))
    return parts


def _vectors(rows: NDArray, words: Sequence[str]) -> list[str]:
    """Return a matrix as tinted cells, a row a token."""
    drawn = rows[:, :32]
    n, width = drawn.shape
    side = 264 / width
    most = float(np.abs(drawn).max()) or 1.0
    parts = []
    for i in range(n):
        y = _TOP + 14 + 30 * i
        parts.append(svg_text(76, y + 18, escape(words[i]), 13, "end"))
        for j in range(width):
            value = float(drawn[i, j])
            ink = _BLUE if value >= 0 else _ORANGE
            parts.append(
                f'<rect x="{84 + side * j:.2f}" y="{y}" width="{side:.2f}" height="26" '
                f'fill="{ink}" fill-opacity="{abs(value) / most:.1f}"/>'
            )
        parts.append(
            f'<rect x="84" y="{y}" width="264" height="26" fill="none" stroke="currentColor" '
            'stroke-opacity="0.5"/>'
        )
    return parts


def _table(
    weights: NDArray, seen: NDArray, queries: Sequence[str], keys: Sequence[str], colour: str
) -> list[str]:
    """Return a table of weights: darker is more, without a fill where a look is forbidden."""
    side, x0, y0 = 22, 112, _TOP + 78
    most = float(weights.max()) or 1.0
    parts = [
        svg_text(x0 - 8, y0 - 26, "key →", 13, "end"),
        svg_text(x0 - 8, y0 - 8, "query ↓", 13, "end"),
    ]
    for j, key in enumerate(keys):
        x, y = x0 + side * j + 15.5, y0 - 6
        parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="13" transform="rotate(-90 {x:g} {y:g})">'
            f"{escape(key)}</text>"
        )
    for i, query in enumerate(queries):
        parts.append(svg_text(x0 - 8, y0 + side * i + 16, escape(query), 13, "end"))
        for j in range(len(keys)):
            fill = (
                f'fill="{colour}" fill-opacity="{0.12 + 0.85 * weights[i, j] / most:.2f}"'
                if seen[i, j]
                else 'fill="none"'
            )
            parts.append(
                f'<rect x="{x0 + side * j}" y="{y0 + side * i}" width="{side}" height="{side}" '
                f'{fill} stroke="currentColor" stroke-opacity="0.3"/>'
            )
    return parts


def _logits(logits: NDArray, given: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return a row of scores for each place, between the word given and the word wanted."""
    drawn = logits[:, :32]
    n, width = drawn.shape
    side = 190 / width
    most = float(np.abs(drawn).max()) or 1.0
    parts = [
        svg_text(74, _TOP + 22, "given", 13, "end"),
        svg_text(82 + 95, _TOP + 22, "scores of all words", 13, "middle"),
        svg_text(280, _TOP + 22, "wanted", 13),
    ]
    for i in range(n):
        y = _TOP + 32 + 27 * i
        parts.append(svg_text(74, y + 16, escape(given[i]), 13, "end"))
        for j in range(width):
            value = float(drawn[i, j])
            ink = _BLUE if value >= 0 else _ORANGE
            parts.append(
                f'<rect x="{82 + side * j:.2f}" y="{y}" width="{side:.2f}" height="23" '
                f'fill="{ink}" fill-opacity="{abs(value) / most:.1f}" stroke="currentColor" '
                'stroke-opacity="0.25"/>'
            )
        parts.append(svg_text(280, y + 16, escape(wanted[i]), 13))
    return parts
