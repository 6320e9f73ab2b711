"""Figures of chapter 03, BPE tokenization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
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
from course_lib.tokenizers.bpe import count_pairs, merge_pair, train
from course_lib.tokenizers.byte_level import ByteLevelBPE
from course_lib.validation import check_at_least, check_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Dial",
    "encoding_steps",
    "lengths_by_vocabulary",
    "merge_steps",
    "pieces_by_language",
    "training_times",
    "vocabulary_dial",
]

_BLUE, _ORANGE = COLOURS["blue"], COLOURS["orange"]
_GREEN, _PURPLE = COLOURS["green"], COLOURS["purple"]
_HEIGHT = 4.0  # inches, of every plot but the bars

# A letter's box, and the gap to the next: a merged symbol fills the gaps too, so that a word is
# as wide after a merge as before it.
_BOX, _GAP, _TALL = 24, 3, 27
_MOST_WORDS, _MOST_LETTERS, _MOST_MERGES, _MOST_PAIRS = 6, 5, 8, 8


# ---- Step-throughs -------------------------------------------------------------------------------


def merge_steps(words: Mapping[str, int], n_merges: int) -> StepThrough:
    """Draw byte-pair encoding being learned, one merge for each button.

    Each state shows the words as they are cut, the counts of their pairs with the one that is
    merged next, and the merges so far.

    Parameters
    ----------
    words : mapping of str to int
        Up to 6 words of up to 5 letters, and how often each occurs, up to 999 times.
    n_merges : int
        How many merges to show at most, up to 8; fewer if pairs run out.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If there are more words, letters or merges than there is room for, or more than 8 different
        pairs at the start, or `words` isn't a mapping of words to counts.

    Examples
    --------
    >>> merge_steps({"hug": 2, "bug": 1}, 1)
    Byte-pair encoding learned from hug × 2, bug × 1, one button for each state. After 0 merges: \
h u g, b u g; pairs h u 2, u g 3, b u 1; next u g. After 1 merge, ug: h ug, b ug; pairs h ug 2, \
b ug 1; next h ug.
    """
    check_at_least("n_merges", n_merges, 1)
    first = count_pairs(words)
    fits = 1 <= len(words) <= _MOST_WORDS and max(map(len, words)) <= _MOST_LETTERS
    if not fits or max(words.values()) > 999:
        raise ValueError(
            f"words must be 1 to {_MOST_WORDS} of at most {_MOST_LETTERS} letters, each at most "
            f"999 times; got {dict(words)}"
        )
    if not 1 <= len(first) <= _MOST_PAIRS or n_merges > _MOST_MERGES:
        raise ValueError(
            f"there is room for 1 to {_MOST_PAIRS} pairs and {_MOST_MERGES} merges; "
            f"got {len(first)} pairs and n_merges = {n_merges}"
        )
    merges: list[tuple[str, str]] = train(words, n_merges)
    cut: dict[str, tuple[str, ...]] = {word: tuple(word) for word in words}
    top, step = 50, 34
    pair_step = 25.5
    below = top + max(step * len(words), round(pair_step * len(first))) + 26
    parts = [
        svg_text(44, 24, bold("words, as cut"), 14),
        svg_text(196, 24, bold("pairs") + " and their counts", 14),
        svg_text(8, below, bold("merges") + ", in order", 14),
    ]
    captions: list[str] = []
    said: list[str] = []
    highest = max(first.values())
    for k in range(len(merges) + 1):
        if k:
            cut = {word: merge_pair(symbols, merges[k - 1]) for word, symbols in cut.items()}
        counts = count_pairs({symbols: words[word] for word, symbols in cut.items()})
        following: list[tuple[str, str]] = train(
            {symbols: words[word] for word, symbols in cut.items()}, 1
        )
        winner = following[0] if following else None
        group = []
        for i, (word, symbols) in enumerate(cut.items()):
            y = top + step * i
            group.append(svg_text(40, y + 5, f"{words[word]} ×", 14, "end"))
            group += _boxes(symbols, 46, y, _places(symbols, winner))
        for i, (pair, count) in enumerate(counts.items()):
            level = top + pair_step * i
            chosen = pair == winner
            ink = _ORANGE if chosen else MUTED
            name = escape(" ".join(pair))
            group.append(svg_text(256, level + 5, bold(name) if chosen else name, 14, "end"))
            long = round(52 * count / highest, 1)
            group.append(
                f'<rect x="264" y="{level - 6:g}" width="{long:g}" height="12" rx="2" fill="{ink}" '
                f'fill-opacity="{1 if chosen else 0.55}"/>'
            )
            number = bold(str(count)) if chosen else str(count)
            group.append(svg_text(270 + long, level + 5, number, 14))
        if not counts:
            group.append(svg_text(196, top + 5, "none left", 14))
        for i, pair in enumerate(merges[:k]):
            x, y = 8 + 87 * (i % 4), below + 14 + 34 * (i // 4)
            newest = i == k - 1
            group.append(
                f'<rect x="{x}" y="{y}" width="83" height="27" rx="6" fill="{_BLUE}" '
                f'fill-opacity="{0.2 if newest else 0.08}" stroke="{_BLUE}" '
                f'stroke-width="{2.2 if newest else 1.2}"/>'
            )
            group.append(svg_text(x + 41.5, y + 18.5, escape(" + ".join(pair)), 14, "middle"))
        if not k:
            group.append(svg_text(8, below + 32, "none yet", 14))
        hidden = "" if k == 0 else ' style="display:none"'
        parts.append(f'<g data-step="{k}"{hidden}>{"".join(group)}</g>')
        captions.append(_what_comes(counts, winner, [*cut.values()], k))
        said.append(
            f"After {k} merge{'' if k == 1 else 's'}"
            + (f", {''.join(merges[k - 1])}" if k else "")
            + f": {', '.join(' '.join(symbols) for symbols in cut.values())}; "
            + (
                "pairs " + ", ".join(f"{' '.join(pair)} {n}" for pair, n in counts.items())
                + (f"; next {' '.join(winner)}" if winner else "")
                if counts
                else "no pair left"
            )
        )  # fmt: skip
    alt = (
        f"Byte-pair encoding learned from {', '.join(f'{w} × {n}' for w, n in words.items())}, "
        f"one button for each state. {'. '.join(said)}."
    )
    rows = (len(merges) + 3) // 4
    return StepThrough(
        "".join(parts),
        360,
        below + 14 + 34 * rows,
        alt,
        buttons=("start", *(str(k) for k in range(1, len(merges) + 1))),
        captions=tuple(captions),
        legend="Merges so far",
    )


def encoding_steps(word: str, merges: Sequence[tuple[str | bytes, str | bytes]]) -> StepThrough:
    """Draw a word being encoded: at each step its pairs, their ranks, and the lowest of them.

    Parameters
    ----------
    word : str
        2 to 10 characters of ASCII. A space is drawn as ␣.
    merges : sequence of pairs of str or of bytes
        In the order learned; a pair's rank is its place there, from 0.

    Returns
    -------
    StepThrough

    Raises
    ------
    ValueError
        If `word` is of another kind or length.

    Examples
    --------
    >>> encoding_steps("bug", [("u", "g"), ("b", "u")])
    Encoding bug, one button for each state. b u g: b u rank 1, u g rank 0; merged first u g. \
b ug: b ug no merge; nothing left to merge.
    """
    if not isinstance(word, str) or not word.isascii() or not 2 <= len(word) <= 10:
        raise ValueError(f"word must be 2 to 10 characters of ASCII; got {word!r}")
    ranks = {(_text(a), _text(b)): rank for rank, (a, b) in enumerate(merges)}
    symbols = tuple(word)
    states = [symbols]
    while known := [pair for pair in pairwise(symbols) if pair in ranks]:
        symbols = merge_pair(symbols, min(known, key=lambda pair: ranks[pair]))
        states.append(symbols)
    top, step, x = 118, 27, 8
    parts = [
        svg_text(x, 24, bold("symbols"), 14),
        svg_text(x, 92, bold("pairs"), 14),
        svg_text(x + 190, 92, bold("rank"), 14),
    ]
    captions: list[str] = []
    said: list[str] = []
    for k, symbols in enumerate(states):
        known = [pair for pair in pairwise(symbols) if pair in ranks]
        best = min(known, key=lambda pair: ranks[pair], default=None)
        group = _boxes(symbols, x, 50, _places(symbols, best))
        for i, pair in enumerate(pairwise(symbols)):
            y = top + step * i
            chosen = pair == best
            if chosen:
                group.append(
                    f'<rect x="{x - 4}" y="{y - 15}" width="348" height="25" rx="6" '
                    f'fill="{_ORANGE}" fill-opacity="0.16" stroke="{_ORANGE}" stroke-width="1.6"/>'
                )
            name = " + ".join(map(_seen, pair))
            rank = f"{ranks[pair]:,d}" if pair in ranks else "not in the list"
            group.append(svg_text(x + 4, y + 3, bold(name) if chosen else name, 14))
            group.append(svg_text(x + 190, y + 3, bold(rank) if chosen else rank, 14))
        if len(symbols) == 1:
            group.append(svg_text(x + 4, top + 3, "none left", 14))
        hidden = "" if k == 0 else ' style="display:none"'
        parts.append(f'<g data-step="{k}"{hidden}>{"".join(group)}</g>')
        cut = " ".join(map(_bare, symbols))
        listed = ", ".join(
            f"{_bare(a)} {_bare(b)} " + (f"rank {ranks[a, b]}" if (a, b) in ranks else "no merge")
            for a, b in pairwise(symbols)
        )
        if best is None:
            captions.append(
                f"{cut}: no pair is in the list, so this is the encoding, "
                f"{len(symbols)} piece{'' if len(symbols) == 1 else 's'}."
            )
            said.append(f"{cut}: {listed or 'one piece'}; nothing left to merge")
        else:
            a, b = map(_bare, best)
            captions.append(
                f"{cut}: {a} + {b} has the lowest rank, {ranks[best]:,d}, of the {len(known)} "
                "pairs that are in the list, and is merged."
                if len(known) > 1
                else f"{cut}: {a} + {b}, rank {ranks[best]:,d}, is the only pair in the list, and "
                "is merged."
            )
            said.append(f"{cut}: {listed}; merged first {a} {b}")
    alt = f"Encoding {_bare(word)}, one button for each state. {'. '.join(said)}."
    return StepThrough(
        "".join(parts),
        360,
        top + step * (len(word) - 2) + 16,
        alt,
        buttons=("start", *(str(k) for k in range(1, len(states)))),
        captions=tuple(captions),
        legend="Merges made in this word",
    )


# ---- A tokenizer to play with --------------------------------------------------------------------


@dataclass(frozen=True)
class Dial:
    """A text cut into tokens, with a field to write in and a slider for the vocabulary's size.

    Where no script runs, the field and the slider stay hidden and the first cut stays.

    Parameters
    ----------
    body : str
        What is shown, as HTML.
    alt : str
        What it shows at the start.
    """

    body: str = field(repr=False)
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        """Return the figure for a notebook or a page."""
        return self.body


def vocabulary_dial(
    merges: Sequence[tuple[bytes, bytes]], sizes: Sequence[int], text: str, shown: int = 0
) -> Dial:
    """Cut a text into tokens with a vocabulary of any of several sizes; the reader turns the dial.

    Parameters
    ----------
    merges : sequence of pairs of bytes
        In the order learned, no two making the same bytes. The page carries those that the largest
        vocabulary needs.
    sizes : sequence of int
        At least two, rising, from 256 on: how many tokens there are, bytes included.
    text : str
        1 to 300 characters.
    shown : int, default 0
        Which of the sizes is shown at the start.

    Returns
    -------
    Dial

    Raises
    ------
    ValueError
        If sizes don't rise, or need more merges than there are, or `text` or `shown` is out of
        range.

    Examples
    --------
    >>> vocabulary_dial([(b"u", b"g"), (b"h", b"ug")], [256, 258], "a hug", shown=1)
    The text "a hug" cut into tokens, with a slider for the size of the vocabulary, 256 to 258. At \
258 it has 3 tokens: a|␣|hug.
    """
    check_text("text", text)
    if not 1 <= len(text) <= _MOST_CHARACTERS:
        raise ValueError(f"text must have 1 to {_MOST_CHARACTERS} characters; got {len(text)}")
    rising = all(a < b for a, b in pairwise(sizes))
    if len(sizes) < 2 or not rising or not 256 <= sizes[0] <= sizes[-1] <= 256 + len(merges):
        raise ValueError(
            f"sizes must be at least two, rising from 256 to {256 + len(merges)} at most; "
            f"got {list(sizes)}"
        )
    if isinstance(shown, bool) or not isinstance(shown, int) or not 0 <= shown < len(sizes):
        raise ValueError(f"shown must be the place of a size, 0 to {len(sizes) - 1}; got {shown!r}")
    kept = merges[: sizes[-1] - 256]
    numbers = {bytes([byte]): byte for byte in range(256)}
    listed = []
    for rank, (left, right) in enumerate(kept):
        listed.append(f"{numbers[left]},{numbers[right]}")
        numbers[left + right] = 256 + rank
    tokenizer = ByteLevelBPE(kept[: sizes[shown] - 256])
    cut = [_readable(tokenizer.tokens[i]) for i in tokenizer.encode(text)]
    spans = "".join(
        f'<span style="{_PIECE}{_TINTS[i % 2]}">{escape(piece)}</span>'
        for i, piece in enumerate(cut)
    )
    label = 'style="display:block;font-size:.9rem;margin:.3rem 0"'
    wide = "display:block;box-sizing:border-box;width:100%;margin:.2rem 0 0;font:inherit"
    body = (
        f'<div data-dial data-sizes="{",".join(map(str, sizes))}" '
        f'data-merges="{";".join(listed)}" style="max-width:620px;margin:.5rem auto">'
        f"<div hidden>"
        f'<label {label}>Text<textarea rows="3" maxlength="{_MOST_CHARACTERS}" spellcheck="false" '
        f'style="{wide};padding:.4rem;color:inherit;background:none;resize:vertical;'
        f'border:1.5px solid currentColor;border-radius:6px">{escape(text)}</textarea></label>'
        f'<label {label}>Size of the vocabulary<input type="range" min="0" '
        f'max="{len(sizes) - 1}" step="1" value="{shown}" style="{wide};height:2rem"></label></div>'
        f'<p aria-live="polite" style="margin:.3rem 0">{_counted(sizes[shown], len(cut))}</p>'
        f'<div data-pieces style="line-height:1.9;overflow-wrap:anywhere">{spans}</div>'
        f"{_DIAL_SCRIPT}</div>"
    )
    alt = (
        f'The text "{text}" cut into tokens, with a slider for the size of the vocabulary, '
        f"{sizes[0]:,d} to {sizes[-1]:,d}. At {sizes[shown]:,d} it has {len(cut)} tokens: "
        f"{'|'.join(cut).replace(' ', '␣')}."
    )
    return Dial(body, alt)


_MOST_CHARACTERS = 300
_PIECE = "display:inline-block;white-space:pre;border-radius:4px;margin:1px;padding:0 1px;"
_TINTS = ("background:rgba(0,114,178,.22)", "background:rgba(213,94,0,.22)")


def _counted(size: int, n: int) -> str:
    return f"|V| = {size:,d}: {n:,d} token{'' if n == 1 else 's'}"


def _readable(token: bytes) -> str:
    """Return a token's text; bytes that are no whole characters in hexadecimal digits.

    A token that is only spaces would be an empty box: it's shown as ␣.
    """
    if not token.strip(b" "):
        return "␣" * len(token)
    try:
        return token.decode().replace("\n", "↵").replace("\t", "⇥")
    except UnicodeDecodeError:
        return "‹" + " ".join(f"{byte:02X}" for byte in token) + "›"


# The encoder of the library once more: pre-tokens, bytes, and the pair of the lowest rank first.
# A token's number is its byte, or 256 and the rank of the merge that makes it.
_DIAL_SCRIPT = (
    r"""<script>
document.querySelectorAll("[data-dial]:not([data-ready])").forEach(function (root) {
  var list = function (name, by) { return root.getAttribute(name).split(by); };
  var sizes = list("data-sizes", ",").map(Number);
  var bytes = [], ranks = new Map();
  for (var i = 0; i < 256; i++) bytes.push([i]);
  list("data-merges", ";").forEach(function (pair, rank) {
    var parts = pair.split(",").map(Number);
    ranks.set(parts[0] * 65536 + parts[1], rank);
    bytes.push(bytes[parts[0]].concat(bytes[parts[1]]));
  });
  var pattern = /'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
  var utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  function encode(text, limit) {
    var all = [];
    (text.match(pattern) || []).forEach(function (word) {
      var ids = Array.from(new TextEncoder().encode(word));
      for (;;) {
        var best = limit;
        for (var i = 0; i + 1 < ids.length; i++) {
          var rank = ranks.get(ids[i] * 65536 + ids[i + 1]);
          if (rank !== undefined && rank < best) best = rank;
        }
        if (best === limit) break;
        var merged = [];
        for (i = 0; i < ids.length; i++) {
          var found = i + 1 < ids.length && ranks.get(ids[i] * 65536 + ids[i + 1]) === best;
          merged.push(found ? 256 + best : ids[i]);
          if (found) i++;
        }
        ids = merged;
      }
      all = all.concat(ids);
    });
    return all;
  }
  function readable(id) {
    try {
      var text = utf8.decode(new Uint8Array(bytes[id]));
      if (/^ +$/.test(text)) return "␣".repeat(text.length);
      return text.replace(/\n/g, "↵").replace(/\t/g, "⇥");
    } catch (error) {
      return "‹" + bytes[id].map(function (byte) {
        return (byte < 16 ? "0" : "") + byte.toString(16).toUpperCase();
      }).join(" ") + "›";
    }
  }
  function commas(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }
  var field = root.querySelector("textarea"), slider = root.querySelector("input");
  var said = root.querySelector("p"), pieces = root.querySelector("[data-pieces]");
  function show() {
    var size = sizes[Number(slider.value)], ids = encode(field.value, size - 256);
    slider.setAttribute("aria-valuetext", commas(size) + " tokens");
    said.textContent = "|V| = " + commas(size) + ": " + commas(ids.length) +
      (ids.length === 1 ? " token" : " tokens");
    pieces.textContent = "";
    ids.forEach(function (id, i) {
      var span = document.createElement("span");
      span.style.cssText = "PIECE" + (i % 2 ? "SECOND" : "FIRST");
      span.textContent = readable(id);
      pieces.appendChild(span);
    });
  }
  field.addEventListener("input", show);
  slider.addEventListener("input", show);
  // Arrow keys belong to the slider and the field, not to the notebook or the page around.
  root.addEventListener("keydown", function (event) { event.stopPropagation(); });
  show();
  field.parentNode.parentNode.hidden = false;
  root.setAttribute("data-ready", "");
});
</script>""".replace("PIECE", _PIECE)
    .replace("FIRST", _TINTS[0])
    .replace("SECOND", _TINTS[1])
)


# ---- Plots ---------------------------------------------------------------------------------------


def pieces_by_language(pieces: Mapping[str, int]) -> Plot:
    """Draw into how many pieces the same sentence is cut in each language.

    Parameters
    ----------
    pieces : mapping of str to int
        At least two languages; the first one is what the others are compared with.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If there are fewer than two languages, or a number isn't a whole one of at least 1.

    Examples
    --------
    >>> pieces_by_language({"English": 10, "Greek": 54})
    Pieces of the same sentence in 2 languages, from the fewest: English 10, Greek 54 (5.4 times \
English).
    """
    if len(pieces) < 2:
        raise ValueError(f"pieces must hold at least two languages; got {list(pieces)}")
    for language, n in pieces.items():
        check_at_least(f"pieces[{language!r}]", n, 1)
    first = next(iter(pieces))
    order = sorted(pieces, key=lambda language: pieces[language])
    most = max(pieces.values())
    with course_style():
        figure = Figure(figsize=(WIDTH, 0.9 + 0.29 * len(order)), layout="constrained")
        axes = figure.add_subplot()
        ys = np.arange(len(order))
        axes.barh(
            ys,
            [pieces[language] for language in order],
            height=0.68,
            color=[_ORANGE if language == first else _BLUE for language in order],
        )
        for y, language in zip(ys, order, strict=True):
            n = pieces[language]
            times = "" if language == first else f"   × {n / pieces[first]:.1f}"
            axes.annotate(f"{n}{times}", (n, y), (5, 0), textcoords="offset points", va="center")
        axes.set_yticks(ys, order)
        axes.set_ylim(len(order) - 0.4, -0.6)
        axes.set_xlim(0, 1.24 * most)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"pieces, and how many times {first}")
    told = [
        f"{language} {pieces[language]}"
        + ("" if language == first else f" ({pieces[language] / pieces[first]:.1f} times {first})")
        for language in order
    ]
    alt = (
        f"Pieces of the same sentence in {len(order)} languages, from the fewest: "
        f"{', '.join(told)}."
    )
    return Plot(figure, alt)


def lengths_by_vocabulary(sizes: ArrayLike, lengths: ArrayLike, floor: int) -> Plot:
    """Draw the length of a text in tokens against the size of the vocabulary.

    Parameters
    ----------
    sizes : array-like, (m,)
        Sizes of vocabularies, rising.
    lengths : array-like, (m,)
        How many tokens the same text has with each.
    floor : int
        How many pre-tokens it has: no merge crosses them, so it can't get shorter.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the rows aren't positive or not of one length, sizes don't rise, or a length is below
        the floor.

    Examples
    --------
    >>> lengths_by_vocabulary([256, 512], [1000, 480], 200)
    Tokens of the same text against the size of the vocabulary, logarithmic: 1,000 at 256, 480 at \
512. A dashed line at 200, the number of pre-tokens, below which no merge can lead.
    """
    check_at_least("floor", floor, 1)
    x, y = _row("sizes", sizes), _row("lengths", lengths)
    if x.size < 2 or x.shape != y.shape or not (np.diff(x) > 0).all():
        raise ValueError(
            f"sizes must rise and be as many as lengths, at least two; got {x} and {y}"
        )
    if y.min() < floor:
        raise ValueError(f"lengths must not be below the floor {floor}; got {y}")
    with course_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(floor, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{floor:,d} pre-tokens", (x[0], floor), (0, -5), textcoords="offset points",
            va="top", color=MUTED,
        )  # fmt: skip
        axes.plot(x, y, color=_BLUE, marker="o", clip_on=False, zorder=3)
        for size, length in zip(x, y, strict=True):
            axes.annotate(
                f"{length:,.0f}", (size, length), (4, 6), textcoords="offset points", color=_BLUE
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(list(x)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlim(x[0] * 0.93, x[-1] * 1.32)
        axes.set_ylim(0, 1.08 * y.max())
        axes.set_xlabel("size of the vocabulary, $|V|$")
        axes.set_ylabel("tokens of the held-out text")
    alt = (
        "Tokens of the same text against the size of the vocabulary, logarithmic: "
        + ", ".join(f"{length:,.0f} at {size:,.0f}" for size, length in zip(x, y, strict=True))
        + f". A dashed line at {floor:,d}, the number of pre-tokens, below which no merge can lead."
    )
    return Plot(figure, alt)


def training_times(merges: ArrayLike, seconds: Mapping[str, ArrayLike]) -> Plot:
    """Draw how long trainers take against how many merges they learn.

    Parameters
    ----------
    merges : array-like, (m,)
        Numbers of merges, rising.
    seconds : mapping of str to array-likes, (m,)
        For one to four trainers.

    Returns
    -------
    Plot

    Raises
    ------
    ValueError
        If the rows aren't positive or not of one length, or there are more than four trainers.

    Examples
    --------
    >>> training_times([64, 128], {"naive": [0.5, 1.0], "fast": [0.03, 0.04]})
    Seconds of training against the number of merges, both axes logarithmic. naive: from 0.5 s for \
64 to 1 s for 128. fast: from 0.03 s for 64 to 0.04 s for 128.
    """
    x = _row("merges", merges)
    rows = {name: _row(name, row) for name, row in seconds.items()}
    if x.size < 2 or not (np.diff(x) > 0).all():
        raise ValueError(f"merges must be at least two rising numbers; got {x}")
    if not 1 <= len(rows) <= 4 or any(row.shape != x.shape for row in rows.values()):
        raise ValueError(
            f"seconds must hold 1 to 4 rows of {x.size} numbers; got "
            f"{ {name: row.size for name, row in rows.items()} }"
        )
    looks = zip((_ORANGE, _BLUE, _GREEN, _PURPLE), ("s", "o", "^", "D"), strict=True)
    with course_style():
        figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for (name, row), (colour, marker) in zip(rows.items(), looks, strict=False):
            axes.plot(x, row, color=colour, marker=marker)
            axes.annotate(
                name, (1.0, row[-1]), (6, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", color=colour, va="center",
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(FixedLocator(list(x)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("merges learned")
        axes.set_ylabel("seconds of one core")
    alt = "Seconds of training against the number of merges, both axes logarithmic. " + " ".join(
        f"{name}: from {row[0]:.2g} s for {x[0]:,.0f} to {row[-1]:.2g} s for {x[-1]:,.0f}."
        for name, row in rows.items()
    )
    return Plot(figure, alt)


def _row(name: str, values: ArrayLike) -> NDArray:
    """Return positive numbers as a row, or raise."""
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or not row.size or not (np.isfinite(row) & (row > 0)).all():
        raise ValueError(f"{name} must be a row of positive numbers; got {row}")
    return row


# ---- Parts of drawings ---------------------------------------------------------------------------


def _what_comes(
    counts: Mapping[tuple[str, str], int],
    winner: tuple[str, str] | None,
    cut: Sequence[tuple[str, ...]],
    done: int,
) -> str:
    """Say which pair is merged next, and why."""
    if winner is None:
        return (
            f"No pair is left: after {done} merges every word is a single symbol. The vocabulary "
            "has grown from letters to words."
        )
    most = counts[winner]
    tied = [pair for pair, n in counts.items() if n == most]
    words = sum(winner in pairwise(symbols) for symbols in cut)
    where = f"in {words} word{'' if words == 1 else 's'}"
    name = " + ".join(winner)
    if len(tied) > 1:
        others = " and ".join(" + ".join(pair) for pair in tied if pair != winner)
        return (
            f"A tie: {name} and {others} occur {most} times each. The pair met first is merged, "
            f"{name}."
        )
    return f"{name} occurs most often, {most} times, {where}. It is merged next."


def _places(symbols: Sequence[str], pair: tuple[str, str] | None) -> set[int]:
    """Return the places of the symbols that will be merged."""
    found: set[int] = set()
    i = 0
    while i + 1 < len(symbols):
        if (symbols[i], symbols[i + 1]) == pair:
            found |= {i, i + 1}
            i += 1
        i += 1
    return found


def _boxes(symbols: Sequence[str], x: float, y: float, marked: set[int]) -> list[str]:
    """Return a row of boxes with symbols in them; those that come next are marked."""
    parts = []
    for i, symbol in enumerate(symbols):
        width = _BOX * len(symbol) + _GAP * (len(symbol) - 1)
        ink = _ORANGE if i in marked else (_BLUE if len(symbol) > 1 else "currentColor")
        strength = 0.2 if i in marked else (0.14 if len(symbol) > 1 else 0.04)
        parts.append(
            f'<rect x="{x:g}" y="{y - _TALL / 2:g}" width="{width}" height="{_TALL}" rx="6" '
            f'fill="{ink}" fill-opacity="{strength}" stroke="{ink}" '
            f'stroke-opacity="{1 if ink != "currentColor" else 0.5}" '
            f'stroke-width="{2 if i in marked else 1.4}"/>'
        )
        parts.append(svg_text(x + width / 2, y + 5, _seen(symbol), 15, "middle"))
        x += width + _GAP
    return parts


def _text(part: str | bytes) -> str:
    """Return a symbol as a string; bytes that are no ASCII can't be in the words drawn here."""
    return part.decode("latin-1") if isinstance(part, bytes) else part


def _bare(symbol: str) -> str:
    """Return a symbol with its space made visible."""
    return symbol.replace(" ", "␣")


def _seen(symbol: str) -> str:
    """Return a symbol as it is drawn."""
    return escape(_bare(symbol))
