from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot
from course_lib.figures.encoder_decoder import (
    causal_and_peeking,
    fitting_vocabularies,
    model_walk,
    shares_by_part,
)
from course_lib.figures.style import COLOURS, StepThrough

SVG = "{http://www.w3.org/2000/svg}"
PAD = "‹pad›"
SOURCE = [["я", "видел", "кота", "на", "коврике", "‹eos›"], ["он", "спит", "‹eos›", PAD, PAD, PAD]]
GIVEN = [
    ["‹bos›", "i", "saw", "a", "cat", "on", "a", "mat"],
    ["‹bos›", "he", "is", "sleeping", "‹eos›", PAD, PAD, PAD],
]
WANTED = [
    ["i", "saw", "a", "cat", "on", "a", "mat", "‹eos›"],
    ["he", "is", "sleeping", "‹eos›", PAD, PAD, PAD, PAD],
]


def arrays(n_src: int = 6, n_tgt: int = 8, d: int = 32) -> dict[str, np.ndarray]:
    """Return random arrays of a model's shapes: 4 heads, 13 words."""
    rng = np.random.default_rng(0)

    def weights(n_q: int, n_k: int) -> np.ndarray:
        return rng.dirichlet(np.ones(n_k), size=(2, 4, n_q))

    return {
        "embedded": rng.standard_normal((2, n_src, d)),
        "memory": rng.standard_normal((2, n_src, d)),
        "logits": rng.standard_normal((2, n_tgt, 13)),
        "encoder": weights(n_src, n_src),
        "self": weights(n_tgt, n_tgt),
        "cross": weights(n_tgt, n_src),
    }


def walk() -> StepThrough:
    return model_walk(SOURCE, GIVEN, WANTED, arrays())


def losses(start: float, seeds: int) -> list[list[float]]:
    return [[start * 0.99**i for i in range(100 + 10 * s)] for s in range(seeds)]


RANGES = {"base": (39_769.0, 41_722.0), "N = 2": (36_000.0, 38_000.0), "big": (35_296.0, 36_272.0)}
PARTS = {
    "table": (18.9, 0.0),
    "enc. attention": (6.3, 6.6),
    "dec. cross-attention": (6.3, 6.6),
    "projection": (0.0, 18.9),
}
PLOTS: dict[str, Callable[[], Plot]] = {
    "fitting_vocabularies": lambda: fitting_vocabularies(RANGES, 37_000),
    "fitting_vocabularies, nine": lambda: fitting_vocabularies(
        {f"d_ff = {i}": (39_000.0 + 100 * i, 42_000.0) for i in range(9)}, 37_000
    ),
    "shares_by_part": lambda: shares_by_part(PARTS),
    "shares_by_part, seven": lambda: shares_by_part({f"part {i}": (i, 7 - i) for i in range(8)}),
    "causal_and_peeking": lambda: causal_and_peeking(
        {"masked": losses(2.8, 3), "peeking": losses(2.7, 3)}, guess=2.64
    ),
    "causal_and_peeking, one": lambda: causal_and_peeking({"masked": losses(2.8, 1)}, guess=2.3),
}


def groups(figure: StepThrough) -> dict[str, ElementTree.Element]:
    """Return the states of a drawing by the words on their buttons."""
    html = figure._repr_html_()
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    found = [g for g in svg.iter(f"{SVG}g") if "data-step" in g.attrib]
    return dict(zip(figure.buttons, found, strict=True))


def texts(group: ElementTree.Element) -> list[str]:
    return ["".join(t.itertext()) for t in group.iter(f"{SVG}text")]


def cells(group: ElementTree.Element, colour: str) -> list[dict[str, str]]:
    """Return a table's squares in reading order, filled with one colour or not at all."""
    squares = [r.attrib for r in group.iter(f"{SVG}rect") if r.attrib["width"] == "22"]
    wanted = [square for square in squares if square["fill"] in (COLOURS[colour], "none")]
    assert len(wanted) == len(squares)
    return sorted(wanted, key=lambda square: (float(square["y"]), float(square["x"])))


def test_a_drawing_fits_a_phone_and_shows_one_state() -> None:
    figure = walk()
    assert figure.width <= 360
    states = list(groups(figure).values())
    visible = [i for i, g in enumerate(states) if "display:none" not in g.attrib.get("style", "")]
    assert visible == [figure.shown]
    for group in states:
        for rect in group.iter(f"{SVG}rect"):
            right = float(rect.attrib["x"]) + float(rect.attrib["width"])
            bottom = float(rect.attrib["y"]) + float(rect.attrib["height"])
            assert right <= 358
            assert bottom <= figure.height
        for text in group.iter(f"{SVG}text"):
            assert float(text.attrib["font-size"]) * 340 / 360 >= 9
            assert float(text.attrib["y"]) <= figure.height - 2
    assert figure._repr_html_() == walk()._repr_html_()


def test_every_state_says_the_shape_of_its_array_and_lights_its_part_of_the_map() -> None:
    figure = walk()
    found = {name: array.shape for name, array in arrays().items()}
    shapes = {
        "source": "ids (2, 6)",
        "mask": "(2, 1, 1, 6)",
        "embed": str(found["embedded"]),
        "encoder": f"weights {found['encoder']}",
        "memory": str(found["memory"]),
        "target": "ids (2, 8)",
        "self": f"weights {found['self']}",
        "cross": f"weights {found['cross']}",
        "logits": str(found["logits"]),
    }
    assert tuple(shapes) == figure.buttons
    lit = []
    for name, group in groups(figure).items():
        assert f"{name}: {shapes[name]}" in texts(group)
        assert f"{name} {shapes[name]}" in figure.alt
        lit.append(sum(r.attrib.get("stroke-width") == "2.4" for r in group.iter(f"{SVG}rect")))
    assert lit == [1, 1, 1, 1, 1, 1, 3, 2, 1]


def test_a_still_picture_shows_where_the_batch_begins_and_both_masks() -> None:
    figure = walk()
    assert figure.buttons[figure.shown] == "source"
    for group in groups(figure).values():
        assert {"padding mask", "causal mask"} <= set(texts(group))


def test_each_arrow_of_the_map_ends_at_a_part_of_the_model() -> None:
    group = groups(walk())["source"]
    boxes = [
        tuple(float(r.attrib[side]) for side in ("x", "y", "width", "height"))
        for r in group.iter(f"{SVG}rect")
        if r.attrib["height"] == "22"
    ]
    heads = [p.attrib["points"].split()[0] for p in group.iter(f"{SVG}polygon")]
    assert len(boxes) == 12 and len(heads) == 13
    for head in heads:
        tip_x, tip_y = (float(number) for number in head.split(","))
        assert any(
            (tip_x == x and y < tip_y < y + height)
            or (tip_y in (y, y + height) and x < tip_x < x + width)
            for x, y, width, height in boxes
        ), head


@pytest.mark.parametrize(
    ("name", "colour"), [("encoder", "orange"), ("self", "orange"), ("cross", "purple")]
)
def test_a_table_shows_the_first_heads_weights_and_leaves_empty_what_is_masked(
    name: str, colour: str
) -> None:
    weights = arrays()[name][1, 0]
    n_q, n_k = weights.shape
    real = np.array([word != PAD for word in SOURCE[1]])
    seen = np.tri(n_q, n_k, dtype=bool) if name == "self" else np.tile(real, (n_q, 1))
    squares = cells(groups(walk())[name], colour)
    filled = np.array([s["fill"] != "none" for s in squares]).reshape(n_q, n_k)
    assert (filled == seen).all()
    tints = np.array([float(s.get("fill-opacity", 0)) for s in squares]).reshape(n_q, n_k)
    expected = 0.12 + 0.85 * weights / weights.max()
    np.testing.assert_allclose(tints[seen], expected[seen], atol=0.006)


def test_the_mask_says_true_where_there_is_a_word() -> None:
    said = [t for t in texts(groups(walk())["mask"]) if t in ("True", "False")]
    assert said == ["True"] * 9 + ["False"] * 3


def test_vectors_are_blue_above_nought_and_orange_below() -> None:
    for name, key in (("embed", "embedded"), ("memory", "memory")):
        rows = arrays()[key][1]
        rects = [r.attrib for r in groups(walk())[name].iter(f"{SVG}rect")]
        drawn = [r for r in rects if r["height"] == "26" and r["fill"] != "none"]
        assert len(drawn) == rows.size
        for rect, value in zip(drawn, rows.ravel(), strict=True):
            assert rect["fill"] == COLOURS["blue" if value >= 0 else "orange"]
            assert abs(float(rect["fill-opacity"]) - abs(value) / abs(rows).max()) <= 0.0501


def test_each_place_of_the_target_is_between_the_word_given_and_the_word_wanted() -> None:
    said = texts(groups(walk())["logits"])
    start = said.index("wanted") + 1
    assert said[start::2] == GIVEN[1]
    assert said[start + 1 :: 2] == WANTED[1]


def test_the_vocabularies_drawn_are_those_given() -> None:
    plot = fitting_vocabularies(RANGES, 37_000)
    bars = plot.figure.axes[0].lines[1:]
    assert [tuple(bar.get_xdata()) for bar in bars] == list(RANGES.values())
    assert "big: 35.3 to 36.3" in plot.alt
    colours = [bar.get_color() for bar in bars]
    assert colours == [COLOURS["blue"], COLOURS["blue"], COLOURS["orange"]]


def test_shares_sum_to_one_hundred_in_each_column() -> None:
    plot = shares_by_part(PARTS)
    widths = [bar.get_width() for bar in plot.figure.axes[0].patches]
    assert len(widths) == 2 * len(PARTS)
    np.testing.assert_allclose(np.reshape(widths, (2, -1)).sum(axis=1), 100)
    shares = re.findall(r"(\d+) % and (\d+) %", plot.alt)
    assert shares == [("60", "0"), ("20", "21"), ("20", "21"), ("0", "59")]


def test_the_loss_said_is_the_last_one_drawn() -> None:
    plot = causal_and_peeking({"masked": losses(2.8, 3)}, guess=2.64)
    ends = [line.get_ydata()[-1] for line in plot.figure.axes[0].lines[1:]]
    assert len(ends) == 3
    assert f"ends at {min(ends):.2f} to {max(ends):.2f}" in plot.alt


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    good = arrays()
    without = {name: array for name, array in good.items() if name != "self"}
    short = losses(2.0, 1)
    short[0] = short[0][:5]
    for call, said in (
        (lambda: model_walk(SOURCE[:1], GIVEN, WANTED, good), "source must be two rows"),
        (lambda: model_walk(GIVEN, GIVEN, WANTED, good), "source must be two rows"),
        (
            lambda: model_walk(SOURCE, GIVEN, [row[1:] for row in WANTED], good),
            "target_out must be as long",
        ),
        (lambda: model_walk(SOURCE, GIVEN, WANTED, without), "arrays must have 'self'"),
        (
            lambda: model_walk(SOURCE, GIVEN, WANTED, good | {"cross": good["self"]}),
            r"arrays\['cross'\] must be finite, of shape \(2, 'any', 8, 6\)",
        ),
        (
            lambda: model_walk(
                SOURCE, GIVEN, WANTED, good | {"memory": np.full((2, 6, 3), np.nan)}
            ),
            r"arrays\['memory'\] must be finite",
        ),
        (lambda: shares_by_part({}), "parts must be pairs"),
        (lambda: shares_by_part({"a": (1, -1)}), "parts must be pairs"),
        (lambda: shares_by_part({"a": (1, 0)}), "parts must be pairs"),
        (lambda: fitting_vocabularies({}, 5), "ranges must have"),
        (lambda: fitting_vocabularies({"a": (2, 1)}, 5), "ranges must have"),
        (lambda: causal_and_peeking({}, 2.3), "losses must have one line or two"),
        (lambda: causal_and_peeking({"a": []}, 2.3), "losses must have one line or two"),
        (lambda: causal_and_peeking({"a": short}, 2.3), "losses must have at least 10 steps"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
