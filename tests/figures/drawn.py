"""Look at a figure as it is drawn: where its words stand, and which of them collide."""

from __future__ import annotations

from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from course_lib.figures import Plot, course_style

PHONE, PAGE = 340, 500  # CSS pixels: a phone's column, and a plot at full size


def words(figure: Figure) -> list[tuple[str, Bbox, float]]:
    """Return every text that is drawn: what it says, its box in pixels, its size in points."""
    with course_style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        # Ticks outside an axis' limits keep a label that is never drawn.
        undrawn: set[int] = set()
        for axes in figure.findobj(Axes):
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                    if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                        undrawn |= {id(tick.label1), id(tick.label2)}
        return [
            (text.get_text(), text.get_window_extent(renderer), text.get_fontsize())
            for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip() and id(text) not in undrawn
        ]


def crossed(figure: Figure) -> list[str]:
    """Return the words written into a plot that a line of it runs through.

    Words on a ground of their own may lie over a line. Call `words` first, which lays all out.
    """
    canvas = FigureCanvasAgg(figure)
    found = []
    for axes in figure.findobj(Axes):
        texts = [x for x in axes.texts if x.get_visible() and x.get_text().strip()]
        if legend := axes.get_legend():
            texts += [] if legend.get_frame_on() else legend.get_texts()
        lines = [x for x in axes.get_lines() if x.get_visible() and x.get_linestyle() != "None"]
        for text in texts:
            if text.get_bbox_patch() is not None:
                continue
            box = text.get_window_extent(canvas.get_renderer())
            seen = Bbox.intersection(box.padded(-1), axes.bbox)
            if seen is not None and any(
                line.get_transform().transform_path(line.get_path()).intersects_bbox(seen, False)
                for line in lines
            ):
                found.append(f"{text.get_text()!r} lies on a line")
    return found


def faults(plot: Plot) -> list[str]:
    """Return what is wrong with a plot's words: clipped, on one another, too small on a phone."""
    drawn = words(plot.figure)
    page = plot.figure.bbox
    found = [] if drawn else ["nothing is labelled"]
    for text, box, size in drawn:
        if (
            box.x0 < -0.5
            or box.y0 < -0.5
            or box.x1 > page.width + 0.5
            or box.y1 > page.height + 0.5
        ):
            found.append(f"{text!r} is cut off")
        pixels = size / 72 * 100 * PHONE / (100 * plot.figure.get_figwidth())
        if pixels < 9:
            found.append(f"{text!r} is {pixels:.1f} pixels high on a phone")
    for (a, box, _), (b, other, _) in combinations(drawn, 2):
        shared = Bbox.intersection(box, other)
        if shared is not None and min(shared.width, shared.height) > 0.5:
            found.append(f"{a!r} lies on {b!r}")
    return found + crossed(plot.figure)
