from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.text import Annotation

from course_lib.figures import Plot
from course_lib.figures.decoder_only import (
    families,
    learning_curve,
    parameter_shares,
    stream_walk,
)
from course_lib.figures.style import COLOURS, StepThrough, Svg

SVG = "{http://www.w3.org/2000/svg}"
ALL = np.ones((6, 6), dtype=bool)
BOTH = np.block([[ALL[:3, :3], ~ALL[:3, :3]], [ALL[:3, :3], np.tril(ALL[:3, :3])]])
MASKS = {"encoder": ALL, "decoder": np.tril(ALL), "encoder–decoder": BOTH}
SHARES = {
    "GPT-2": {"tables": 39, "attention": 28, "network": 57, "norms": 0},
    "Llama 7B": {"tables": 262, "attention": 2147, "network": 4329, "norms": 0},
    "Llama 3 8B": {"tables": 1051, "attention": 1342, "network": 5637, "norms": 0},
}
POINTS = [(100, 2.9), (200, 2.2), (300, 1.9)]
LINES = {"4-gram of tokens": 1.8, "4-gram of words": 1.95, "8-gram of bytes": 1.85}
PLOTS: dict[str, Callable[[], Plot]] = {
    "parameter_shares": lambda: parameter_shares(SHARES),
    "parameter_shares, one": lambda: parameter_shares({"one": {"tables": 1, "rest": 9}}),
    "learning_curve": lambda: learning_curve(POINTS, [5 * 0.99**i for i in range(300)], LINES),
    "learning_curve, one line": lambda: learning_curve(
        POINTS[:1], [3.0] * 100, {"4-gram of tokens": 1.8}
    ),
}


def walk(n: int = 9, **changes: Any) -> StepThrough:
    rng = np.random.default_rng(0)
    parts = ["embedding", *("attention", "network") * 7][:n]
    tokens = [(" the", 0.5), ("\n", 0.25), (" extraordinarily", 0.125), ("<", 0.06), ("&", 0.0)]
    readings = [(f"{i}", part, 1.5 * i, tokens) for i, part in enumerate(parts)]
    settings: dict[str, Any] = {
        "text": "A class", "stream": rng.standard_normal((n, 64)), "readings": readings,
        "wanted": " the",
    }  # fmt: skip
    return stream_walk(**(settings | changes))


def svg(figure: Svg) -> ElementTree.Element:
    html = figure._repr_html_()
    return ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])


def test_the_pairs_drawn_filled_are_those_that_a_mask_allows() -> None:
    squares = [
        r.attrib for r in svg(families(MASKS, 3)).iter(f"{SVG}rect") if r.get("width") == "16"
    ]
    assert len(squares) == 3 * 36
    for p, table in enumerate(MASKS.values()):
        own = squares[36 * p : 36 * (p + 1)]
        assert [s["fill"] != "none" for s in own] == table.ravel().tolist()
    crossing = [s for s in squares if s["fill"] == COLOURS["purple"]]
    assert len(crossing) == 9
    said = "24, of which 9 are looks of the target's tokens at the source's."
    assert families(MASKS, 3).alt.endswith(said)


@pytest.mark.parametrize("make", [lambda: families(MASKS, 3), walk, lambda: walk(14)])
def test_a_drawing_fits_a_phone(make: Callable[[], Svg]) -> None:
    figure = make()
    assert figure.width <= 360
    for rect in svg(figure).iter(f"{SVG}rect"):
        assert float(rect.attrib["x"]) >= 0
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= 358
        assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= figure.height
    for text in svg(figure).iter(f"{SVG}text"):
        assert float(text.attrib["font-size"]) * 340 / 360 >= 9
        assert float(text.attrib["y"]) <= figure.height - 2
    assert figure._repr_html_() == make()._repr_html_()


def test_every_point_of_a_stream_is_a_state_with_what_was_added_and_what_is_likely() -> None:
    stream = np.cumsum(np.eye(5, 8), axis=0)
    figure = walk(5, stream=stream, shown=2)
    states = [g for g in svg(figure).iter(f"{SVG}g") if "data-step" in g.attrib]
    assert len(states) == len(figure.buttons) == len(figure.captions) == 5
    visible = [i for i, g in enumerate(states) if "display:none" not in g.attrib.get("style", "")]
    assert visible == [2]
    for i, state in enumerate(states):
        cells = [r for r in state.iter(f"{SVG}rect") if r.get("width") == "35.00"]
        filled = [float(cell.attrib["fill-opacity"]) > 0 for cell in cells]
        assert filled[:8] == (np.arange(8) == i).tolist()
        assert filled[8:] == (np.arange(8) <= i).tolist()
        said = ["".join(t.itertext()) for t in state.iter(f"{SVG}text")]
        assert {"␣the", "⏎", "␣extraordin…", "&", "50 %"} <= set(said)
        right = [r for r in state.iter(f"{SVG}rect") if r.get("fill") == COLOURS["purple"]]
        assert [float(r.attrib["width"]) for r in right] == [90.0]
    assert figure.alt.startswith("The residual stream after “A class”, 5 points.")


def test_the_shares_that_are_said_add_up() -> None:
    assert (
        parameter_shares({"a": {"x": 1, "y": 3}}).alt == "Shares of parameters. a: x 25 %, y 75 %."
    )


def test_a_share_too_narrow_for_its_number_has_it_above_and_names_stand_in_a_row() -> None:
    axes = parameter_shares(SHARES).figure.axes[0]
    at = {t.get_text(): t.xy for t in axes.texts if isinstance(t, Annotation)}
    bars = {f"{b.get_width():.0f} %": b for b in axes.patches}
    narrow, wide = bars["4 %"], bars["64 %"]
    assert at["4 %"][1] >= narrow.get_y() + narrow.get_height()
    assert wide.get_y() < at["64 %"][1] < wide.get_y() + wide.get_height()
    assert "0 %" not in at
    assert len({at[name][1] for name in SHARES["GPT-2"]}) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: families({"one": ALL}, 3),
        lambda: families({**MASKS, "decoder": np.tril(ALL).astype(int)}, 3),
        lambda: families(MASKS, 6),
        lambda: parameter_shares({}),
        lambda: parameter_shares({"a": {"x": 0}}),
        lambda: parameter_shares({"a": {"x": -1, "y": 2}}),
        lambda: parameter_shares({"a": {"x": 1}, "b": {"y": 1}}),
        lambda: parameter_shares({"a": dict.fromkeys("vwxyz", 1)}),
        lambda: learning_curve([], [1.0] * 30, {"a": 1.0}),
        lambda: learning_curve(POINTS, [1.0] * 19, {"a": 1.0}),
        lambda: learning_curve(POINTS, [1.0] * 30, {}),
        lambda: walk(3, stream=np.zeros((2, 4))),
        lambda: walk(3, readings=[("0", "norm", 1.0, [("a", 1.0)])] * 3),
        lambda: walk(15),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must"):
        wrong()
