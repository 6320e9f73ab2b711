"""What all figures share: colours, type sizes, and how a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "MUTED",
    "SKY",
    "WIDTH",
    "Plot",
    "Sliders",
    "StepThrough",
    "Svg",
    "bold",
    "course_style",
    "subscript",
    "svg_text",
]

# Three of Okabe and Ito's colours and a purple dark enough for white paper. They can be told apart
# with any of the three kinds of colour blindness, and stand out from white, from the dark page, and
# from it once more after the site's filter has inverted a picture; a test holds all of this.
COLOURS = {"blue": "#0072B2", "orange": "#D55E00", "green": "#009E73", "purple": "#A03C78"}
SKY = "#56B4E9"  # Okabe and Ito's sky blue: a ground for words, too light for lines
MUTED = "#6B6B6B"  # for axes and lines to compare with, never for data

WIDTH = 5.0  # inches; at 100 CSS pixels an inch a plot is 500 pixels wide on a page
_PIXELS_PER_INCH = 100
_DENSITY = 2  # device pixels for each CSS pixel, so that lines are sharp on good screens

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelsize": 11.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # matplotlib ships it, so a figure is the same everywhere
    "font.size": 11.0,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "mathtext.fontset": "dejavusans",
    "savefig.facecolor": "white",
    "xtick.color": MUTED,
    "xtick.labelcolor": "black",
    "xtick.labelsize": 10.5,
    "ytick.color": MUTED,
    "ytick.labelcolor": "black",
    "ytick.labelsize": 10.5,
}


@contextmanager
def course_style() -> Iterator[None]:
    """Draw in the style of the course, whatever style the notebook around has chosen.

    Examples
    --------
    >>> with course_style():
    ...     mpl.rcParams["font.family"]
    ['DejaVu Sans']
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@dataclass(frozen=True)
class Plot:
    """A matplotlib figure with a text that says what it shows.

    A notebook shows the picture; what can't show pictures, and the test that compares stored
    outputs, gets the text, which is computed from the data that was drawn.

    Parameters
    ----------
    figure : matplotlib Figure
        Made with ``Figure(...)``, not by pyplot, which would keep it open and show it twice.
    alt : str
        What the picture shows, with rounded numbers.

    Examples
    --------
    >>> Plot(Figure(), "Nothing at all.")
    Nothing at all.
    """

    figure: Figure = field(repr=False)
    alt: str

    def png(self) -> bytes:
        """Return the picture, on white, the same bytes each time."""
        buffer = BytesIO()
        with course_style():
            self.figure.savefig(
                buffer,
                format="png",
                dpi=_DENSITY * _PIXELS_PER_INCH,
                metadata={"Software": None},
            )
        return buffer.getvalue()

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what Jupyter shows, and the size in CSS pixels at which it shows it."""
        width, height = (round(_PIXELS_PER_INCH * x) for x in self.figure.get_size_inches())
        return (
            {"image/png": self.png(), "text/plain": self.alt},
            {"image/png": {"width": width, "height": height}},
        )


@dataclass(frozen=True)
class Svg:
    """A drawing in SVG with a text that says what it shows.

    Text and lines are drawn in the colour of the text around (``currentColor``), so it fits light
    and dark pages.

    Parameters
    ----------
    body : str
        The elements inside ``<svg>``.
    width, height : int
        Size of the drawing in its own units, at most 360 wide: a unit is a pixel on a phone.
    alt : str
        What the drawing shows.
    max_width : int, default 460
        Width in CSS pixels beyond which it doesn't grow.

    Examples
    --------
    >>> Svg('<circle cx="5" cy="5" r="4"/>', 10, 10, "A disc.")
    A disc.
    """

    body: str = field(repr=False)
    width: int
    height: int
    alt: str
    max_width: int = 460

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        """Return the drawing for a notebook or a page."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'role="img" aria-label="{escape(self.alt)}" fill="currentColor" '
            f"font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\" "
            f'style="display:block;width:100%;max-width:{self.max_width}px;height:auto;'
            f'margin:.5rem auto">{self.body}</svg>'
        )


@dataclass(frozen=True)
class StepThrough(Svg):
    """A drawing with one state for each button, shown one at a time.

    Everything is drawn beforehand; the script only shows one group and hides the others. Where no
    script runs the buttons stay hidden and the first state shown stays: a still picture.

    Parameters
    ----------
    buttons : tuple of str
        What stands on the buttons; button i shows the group of the drawing with ``data-step="i"``.
    captions : tuple of str
        What is said under the drawing in each state.
    shown : int, default 0
        The state at the start.
    legend : str
        What the buttons are for.
    """

    buttons: tuple[str, ...] = field(default=(), repr=False)
    captions: tuple[str, ...] = field(default=(), repr=False)
    shown: int = 0
    legend: str = ""

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        """Return buttons, drawing, caption and script."""
        look = (
            "font:inherit;font-size:.9rem;color:inherit;background:none;cursor:pointer;"
            "border:1.5px solid currentColor;border-radius:999px;padding:.3rem .7rem;"
            "min-height:2.2rem;min-width:2.4rem"
        )
        buttons = "".join(
            f'<button type="button" data-step="{i}" data-caption="{escape(caption)}" '
            f'aria-pressed="{"true" if i == self.shown else "false"}" style="{look}">'
            f"{escape(word)}</button>"
            for i, (word, caption) in enumerate(zip(self.buttons, self.captions, strict=True))
        )
        return (
            f'<div data-step-through style="max-width:{self.max_width}px;margin:.5rem auto">'
            f'<div role="group" aria-label="{escape(self.legend)}" hidden '
            f'style="display:none;flex-wrap:wrap;gap:.35rem;margin:.2rem 0 .6rem">{buttons}</div>'
            f"{super()._repr_html_()}"
            f'<p aria-live="polite" style="margin:.3rem 0 0;min-height:3em">'
            f"{escape(self.captions[self.shown])}</p>"
            f"{_SCRIPT}</div>"
        )


# Every such figure of a page is set up once, by whichever of their scripts comes first. Arrow keys
# move along the buttons as they do in a toolbar, and show what they come to.
_SCRIPT = """<script>
document.querySelectorAll("[data-step-through]:not([data-ready])").forEach(function (root) {
  var bar = root.querySelector("[role=group]"), said = root.querySelector("p");
  var buttons = Array.prototype.slice.call(bar.querySelectorAll("button"));
  var groups = Array.prototype.slice.call(root.querySelectorAll("svg [data-step]"));
  function show(i) {
    buttons.forEach(function (b, j) {
      b.setAttribute("aria-pressed", String(i === j));
      b.style.boxShadow = i === j ? "inset 0 0 0 2px currentColor" : "none";
      b.style.fontWeight = i === j ? "700" : "400";
    });
    groups.forEach(function (g) {
      g.style.display = Number(g.getAttribute("data-step")) === i ? "" : "none";
    });
    said.textContent = buttons[i].getAttribute("data-caption");
  }
  buttons.forEach(function (b, i) {
    b.addEventListener("click", function () { show(i); });
    b.addEventListener("keydown", function (event) {
      var step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      var next = (i + step + buttons.length) % buttons.length;
      buttons[next].focus();
      show(next);
    });
    if (b.getAttribute("aria-pressed") === "true") show(i);
  });
  bar.hidden = false;
  bar.style.display = "flex";
  root.setAttribute("data-ready", "");
});
</script>"""


@dataclass(frozen=True)
class Sliders(Svg):
    """A drawing with sliders, redrawn by a script whenever one is moved.

    What the script needs to know stands in the drawing. Where no script runs the sliders stay
    hidden and the drawing stays as it was made: a still picture.

    Parameters
    ----------
    kind : str
        Name of the figure; figures of one kind share a script.
    sliders : tuple of (str, int, int, int)
        Label, smallest, largest and first value of each.
    caption : str
        What is said under the drawing at the start.
    draw : str
        Body of a JavaScript function of ``root`` (the element around the drawing) and ``values``
        (a number for each slider) that changes the drawing and returns the new caption.
    legend : str
        What the sliders are for.
    words : tuple of tuples of str, optional
        For each slider what is shown in place of its numbers, from the smallest on; an empty tuple
        for one that shows the numbers.

    Examples
    --------
    >>> Sliders("", 10, 10, "A line.", kind="line", sliders=(("length", 0, 9, 3),), draw="return 1")
    A line.
    """

    kind: str = ""
    sliders: tuple[tuple[str, int, int, int], ...] = field(default=(), repr=False)
    caption: str = field(default="", repr=False)
    draw: str = field(default="", repr=False)
    legend: str = ""
    words: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        """Return sliders, drawing, caption and script."""
        worded = self.words or ((),) * len(self.sliders)
        rows = "".join(
            '<label style="display:flex;align-items:center;gap:.6rem;font-size:.9rem">'
            f'<span style="min-width:{"10.5" if self.words else "7.5"}rem">{escape(label)} = '
            f"<output>{escape(words[value - low]) if words else value}</output></span>"
            f'<input type="range" min="{low}" max="{high}" step="1" value="{value}" '
            + (f'data-words="{escape("|".join(words))}" ' if words else "")
            + 'style="flex:1;min-width:0;height:2.2rem;accent-color:#0072B2;cursor:pointer">'
            "</label>"
            for (label, low, high, value), words in zip(self.sliders, worded, strict=True)
        )
        script = _SLIDER_SCRIPT.replace("KIND", self.kind).replace("DRAW", self.draw)
        if self.words:
            script = script.replace(_SHOW_NUMBER, _SHOW_WORD)
        return (
            f'<div data-sliders="{self.kind}" style="max-width:{self.max_width}px;'
            f'margin:.5rem auto"><div role="group" aria-label="{escape(self.legend)}" hidden '
            f'style="display:none">{rows}</div>{super()._repr_html_()}'
            f'<p aria-live="polite" style="margin:.3rem 0 0;min-height:3em">'
            f"{escape(self.caption)}</p>{script}</div>"
        )


# What a slider says of itself: its number, or the word that stands for it, to the ear as well.
_SHOW_NUMBER = 'x.parentNode.querySelector("output").textContent = x.value;'
_SHOW_WORD = """var word = (x.dataset.words || "").split("|")[x.value - x.min] || x.value;
      x.parentNode.querySelector("output").textContent = word;
      x.setAttribute("aria-valuetext", word);"""

# Arrow keys belong to the slider: the page mustn't turn a leaf at them.
_SLIDER_SCRIPT = """<script>
document.querySelectorAll('[data-sliders="KIND"]:not([data-ready])').forEach(function (root) {
  var bar = root.querySelector("[role=group]"), said = root.querySelector("p");
  var inputs = Array.prototype.slice.call(bar.querySelectorAll("input"));
  function draw(root, values) {
    DRAW
  }
  function update() {
    inputs.forEach(function (x) { x.parentNode.querySelector("output").textContent = x.value; });
    said.textContent = draw(root, inputs.map(function (x) { return Number(x.value); }));
  }
  inputs.forEach(function (input) {
    input.addEventListener("input", update);
    input.addEventListener("keydown", function (event) { event.stopPropagation(); });
  });
  update();
  bar.hidden = false;
  bar.style.display = "block";
  root.setAttribute("data-ready", "");
});
</script>"""


def svg_text(
    x: float,
    y: float,
    content: str,
    size: float = 15,
    anchor: str = "start",
    colour: str | None = None,
) -> str:
    """Return a line of text, its baseline at y."""
    fill = f' fill="{colour}"' if colour else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"{fill}>'
        f"{content}</text>"
    )


def bold(content: str) -> str:
    """Return text in bold."""
    return f'<tspan font-weight="700">{content}</tspan>'


def subscript(letter: str, index: str) -> str:
    """Return a letter with an index below."""
    return (
        f'<tspan font-style="italic">{letter}</tspan><tspan font-style="italic" dy="3" '
        f'font-size="75%">{index}</tspan><tspan dy="-3">\u200b</tspan>'
    )
