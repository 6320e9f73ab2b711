from __future__ import annotations

import struct
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from course_lib.figures import COLOURS, MUTED, Plot, Svg, course_style
from course_lib.figures.style import SKY
from tests.figures import colour, drawn

WHITE, DARK = np.ones(3), colour.rgb("#121212")


@pytest.mark.parametrize("name", [*COLOURS, "muted"])
def test_a_colour_stands_out_on_white_on_the_dark_page_and_inverted(name: str) -> None:
    c = colour.rgb({**COLOURS, "muted": MUTED}[name])
    assert colour.contrast(c, WHITE) >= 3
    assert colour.contrast(c, DARK) >= 3
    assert colour.contrast(colour.inverted(c), DARK) >= 3


@pytest.mark.parametrize("vision", colour.VISION)
@pytest.mark.parametrize(("a", "b"), [*combinations(COLOURS, 2)])
def test_two_colours_are_told_apart_by_every_kind_of_eye(vision: str, a: str, b: str) -> None:
    x, y = colour.rgb(COLOURS[a]), colour.rgb(COLOURS[b])
    assert colour.distance(x, y, vision) >= 10
    assert colour.distance(colour.inverted(x), colour.inverted(y), vision) >= 10


def test_words_are_read_on_every_shade_of_the_sky_in_light_and_dark() -> None:
    for share in np.linspace(0, 1, 11):
        ground = WHITE + (colour.rgb(SKY) - WHITE) * share
        assert colour.contrast(ground, 0 * WHITE) >= 4.5
        assert colour.contrast(colour.inverted(ground), colour.inverted(0 * WHITE)) >= 4.5


def test_the_measure_of_colours_sees_red_and_green_collapse_for_the_colour_blind() -> None:
    red, green = colour.rgb("#B06000"), colour.rgb("#6B7D00")
    assert colour.distance(red, green, "full") > 40
    assert colour.distance(red, green, "deutan") < 10
    assert np.allclose(colour.inverted(WHITE), DARK, atol=0.01)


def test_a_plot_is_shown_as_a_sharp_picture_of_moderate_size_and_its_text() -> None:
    with course_style():
        plot = Plot(Figure(figsize=(5, 2)), "Empty.")
    data, metadata = plot._repr_mimebundle_()
    assert data["text/plain"] == repr(plot) == "Empty."
    assert metadata["image/png"] == {"width": 500, "height": 200}
    assert struct.unpack(">II", data["image/png"][16:24]) == (1000, 400)


def test_a_plot_is_drawn_alike_whatever_style_the_notebook_has_chosen() -> None:
    def picture() -> bytes:
        with course_style():
            figure = Figure(figsize=(3, 2))
            figure.add_subplot().set_title("$d_k$")
        return Plot(figure, "x").png()

    plain = picture()
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "black", "savefig.bbox": "tight"}):
        assert picture() == plain
        assert mpl.rcParams["font.size"] == 20


def test_the_words_of_a_bad_plot_are_found_out() -> None:
    with course_style():
        figure = Figure(figsize=(5, 2))
        figure.text(0.5, 0.5, "one")
        figure.text(0.51, 0.5, "two")
        figure.text(0.99, 0.9, "outside")
        figure.text(0.1, 0.1, "tiny", size=6)
    found = " ".join(drawn.faults(Plot(figure, "x")))
    assert "'one' lies on 'two'" in found
    assert "'outside' is cut off" in found
    assert "'tiny' is" in found


def test_a_drawing_says_what_it_shows_and_escapes_it() -> None:
    html = Svg("<g/>", 10, 20, 'a < b & "c"')._repr_html_()
    assert 'role="img"' in html
    assert 'aria-label="a &lt; b &amp; &quot;c&quot;"' in html
