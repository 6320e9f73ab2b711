from __future__ import annotations

import re
from collections.abc import Callable
from math import degrees
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot, Svg
from course_lib.figures import embeddings_and_positions as figures
from course_lib.reference.positions import frequencies, sinusoidal_positions

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["the", "cat", "dog", "saw", "sat"]
TABLE = np.round(np.random.default_rng(0).uniform(-0.9, 0.9, (5, 3)), 1)
OFFSETS = np.arange(-60, 61)
CURVE = np.cos(OFFSETS[:, None] * frequencies(128)).sum(axis=1)
PE = sinusoidal_positions(300, 128)


def measured(*places: int) -> dict:
    near = {q: np.arange(max(0, q - 60), q + 61, 6) for q in places}
    return {q: (p - q, PE[p] @ PE[q]) for q, p in near.items()}


PLOTS: dict[str, Callable[[], Plot]] = {
    "position_matrix": lambda: figures.position_matrix(sinusoidal_positions(100, 128)),
    "position_matrix, small": lambda: figures.position_matrix(sinusoidal_positions(2, 4)),
    "position_products": lambda: figures.position_products(OFFSETS, CURVE, measured(10, 70, 200)),
    "position_products, flat": lambda: figures.position_products(
        [-1, 0, 1], [2.0, 2.0, 2.0], {0: ([0, 1], [2.0, 2.0])}
    ),
}

DRAWINGS: dict[str, Callable[[], Svg]] = {
    "look_up": lambda: figures.look_up(["the", "cat", "saw", "the", "dog"], WORDS, TABLE),
    "look_up, smallest": lambda: figures.look_up(["a", "<b>"], ["a", "<b>"], [[0.5], [-1]]),
    "look_up, largest": lambda: figures.look_up(
        ["rivers"] * 5, ["rivers", *WORDS], np.full((6, 4), -0.5)
    ),
    "clock_hands": figures.clock_hands,
    "clock_hands, at rest": lambda: figures.clock_hands(0, 0),
    "clock_hands, two": lambda: figures.clock_hands(7, 2, d=4, base=100.0),
    "clock_hands, far": lambda: figures.clock_hands(200, 20),
}


def parse(figure: Svg) -> ElementTree.Element:
    (svg,) = re.findall(r"<svg.*</svg>", figure._repr_html_(), re.DOTALL)
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()).replace("\u200b", "") for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_fits_a_phone_with_words_that_can_be_read(name: str) -> None:
    figure = DRAWINGS[name]()
    root = parse(figure)
    assert figure.width <= 360
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] == figure.alt
    boxes = []
    for text in root.iter(f"{SVG}text"):
        smallest = 0.75 if any("%" in t.get("font-size", "") for t in text) else 1.0
        size = float(text.attrib["font-size"])
        assert size * smallest * 340 / figure.width >= 9
        words, anchor = "".join(text.itertext()).replace("\u200b", ""), text.attrib["text-anchor"]
        width = 0.56 * size * len(words)
        left = float(text.attrib["x"]) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
        y = float(text.attrib["y"])
        assert left >= -1 and left + width <= figure.width + 1, words
        assert 10 <= y <= figure.height - 3, words
        boxes.append((words, left, left + width, y - 0.7 * size, y))
    for i, (words, left, right, top, bottom) in enumerate(boxes):
        for other, a, b, c, d in boxes[:i]:
            apart = right < a + 2 or b < left + 2 or bottom < c or d < top
            assert apart, f"{words} lies on {other}"
    assert repr(figure) == figure.alt


# ---- The look-up ---------------------------------------------------------------------------------


def test_the_drawn_product_is_right_one_hot_rows_table_and_result() -> None:
    tokens = ["the", "cat", "saw", "the", "dog"]
    figure = figures.look_up(tokens, WORDS, TABLE)
    numbers = [float(t.replace("−", "-")) for t in texts(parse(figure))
               if re.fullmatch(r"−?\d\.\d|[01]", t)]  # fmt: skip
    columns, rest = numbers[:5], numbers  # the ids above the columns that look like 0 or 1
    assert columns[:2] == [0.0, 1.0]
    rows, rest = np.array(rest[2 : 2 + 5 * 8]).reshape(5, 8), rest[2 + 5 * 8 :]
    table = np.array(rest).reshape(5, 3)
    np.testing.assert_array_equal(table, TABLE)
    np.testing.assert_allclose(rows[:, :5] @ table, rows[:, 5:], atol=1e-12)
    assert [WORDS[i] for i in rows[:, :5].argmax(axis=1)] == tokens


def test_a_row_of_the_table_is_tinted_where_it_is_looked_up_and_in_what_comes_out() -> None:
    figure = figures.look_up(["b", "b", "d"], ["a", "b", "c", "d"], np.zeros((4, 2)))
    tints = [r.get("fill") for r in parse(figure).iter(f"{SVG}rect")]
    assert len(tints) == 3 * (4 + 2) + 4 * 2
    above, below = np.array(tints[:18]).reshape(3, 6), np.array(tints[18:]).reshape(4, 2)
    b, d = above[0, 1], above[2, 3]
    assert b != d and "none" not in (b, d)
    assert above.tolist() == [
        ["none", b, "none", "none", b, b],
        ["none", b, "none", "none", b, b],
        ["none", "none", "none", d, d, d],
    ]
    assert below.tolist() == [["none"] * 2, [b] * 2, ["none"] * 2, [d] * 2]


def test_a_look_up_that_cannot_be_drawn_is_named() -> None:
    for words in (["a"], list("abcdefg"), ["a", "a"]):
        with pytest.raises(ValueError, match="words must be from 2 to 6 different ones; got"):
            figures.look_up(["a", "a"], words, np.zeros((len(words), 2)))
    for tokens in (["a"], ["a"] * 6, ["a", "c"]):
        with pytest.raises(ValueError, match="tokens must be from 2 to 5 of"):
            figures.look_up(tokens, ["a", "b"], np.zeros((2, 2)))
    for shape in ((3, 2), (2, 5), (2,), (2, 0)):
        with pytest.raises(ValueError, match=r"table must have the shape \(2, d\), d from 1 to 4"):
            figures.look_up(["a", "b"], ["a", "b"], np.zeros(shape))


# ---- The clocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k", "d"), [(5, 3, 8), (0, 0, 8), (200, 20, 8), (63, 1, 4)])
def test_a_hands_tip_lies_at_sine_and_cosine_as_drawn_and_as_written(
    p: int, k: int, d: int
) -> None:
    root = parse(figures.clock_hands(p, k, d))
    for name, at in (("now", p), ("later", p + k)):
        hands = [h for h in root.iter(f"{SVG}path") if h.get("data-hand") == name]
        pe = sinusoidal_positions(1, d, offset=at)[0]
        assert len(hands) == d // 2
        for i, hand in enumerate(hands):
            (turn,) = re.findall(r"rotate\(([\d.]+) ", hand.attrib["transform"])
            angle = np.radians(float(turn))  # clockwise from straight up
            assert np.sin(angle) == pytest.approx(pe[2 * i], abs=2e-4)
            assert np.cos(angle) == pytest.approx(pe[2 * i + 1], abs=2e-4)
    pe = sinusoidal_positions(1, d, offset=p)[0]
    for i, value in enumerate(pe):
        name = ("sin", "cos")[i % 2]
        (span,) = [t for t in root.iter(f"{SVG}tspan") if t.get(f"data-{name}") == str(i // 2)]
        assert float(str(span.text).replace("−", "-")) == pytest.approx(value, abs=0.0051)


def test_what_is_said_below_the_clocks_is_true_wherever_they_stand() -> None:
    for p, k in ((5, 3), (0, 0), (77, 12)):
        said = figures.clock_hands(p, k).caption
        numbers = [float(x.replace("−", "-")) for x in re.findall(r"−?\d+\.\d+", said)]
        turns, product = numbers[:4], numbers[4]
        assert turns == [pytest.approx(degrees(k * t), abs=0.051) for t in frequencies(8)]
        one, two = sinusoidal_positions(1, 8, offset=p), sinusoidal_positions(1, 8, offset=p + k)
        assert product == pytest.approx(float(one[0] @ two[0]), abs=0.0051)


def test_clocks_that_cannot_be_drawn_are_named() -> None:
    for d in (0, 3, True):
        with pytest.raises(ValueError, match="d must be an even whole number of at least 2"):
            figures.clock_hands(d=d)
    with pytest.raises(ValueError, match="d must be at most 8"):
        figures.clock_hands(d=10)
    with pytest.raises(ValueError, match="position must be a whole number of at least 0; got -1"):
        figures.clock_hands(position=-1)
    with pytest.raises(ValueError, match=r"shift must be a whole number of at least 0; got 0\.5"):
        figures.clock_hands(shift=0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest must be a whole number of at least 9; got 8"):
        figures.clock_hands(position=9, longest=8)
    with pytest.raises(ValueError, match="widest must be a whole number of at least 9; got 8"):
        figures.clock_hands(shift=9, widest=8)
    with pytest.raises(ValueError, match="base must be a number above 1; got 1"):
        figures.clock_hands(base=1)


# ---- The plots -----------------------------------------------------------------------------------


def test_the_matrix_that_is_drawn_is_the_one_given_and_its_alt_text_counts_it() -> None:
    table = sinusoidal_positions(100, 128)
    plot = figures.position_matrix(table)
    for axes, columns in zip(plot.figure.axes, (table[:, 0::2], table[:, 1::2]), strict=False):
        (image,) = axes.images
        np.testing.assert_array_equal(np.asarray(image.get_array()), columns)
        assert image.get_clim() == (-1.0, 1.0)
    assert [axes.get_title(loc="left") for axes in plot.figure.axes[:2]] == ["sin", "cos"]
    flips = int((np.diff(np.sign(table[1:, 0])) != 0).sum())  # sin 0 is 0: neither sign
    assert f"{flips} in column 0" in plot.alt
    assert "Positions 0 to 99" in plot.alt and "128 columns" in plot.alt


def test_points_and_curve_of_the_products_are_the_ones_given() -> None:
    points = measured(10, 200)
    plot = figures.position_products(OFFSETS, CURVE, points)
    curve, *marks = plot.figure.axes[0].lines
    np.testing.assert_array_equal(curve.get_ydata(), CURVE)
    for (q, (x, y)), mark in zip(points.items(), marks, strict=True):
        np.testing.assert_array_equal(mark.get_xdata(), x)
        np.testing.assert_array_equal(mark.get_ydata(), y)
        assert mark.get_label() == f"q = {q}"
    assert "64.0 at 0" in plot.alt and "within 0.0" in plot.alt
    wrong = figures.position_products(OFFSETS, CURVE, {10: (points[10][0], points[10][1] + 5)})
    assert "within 5.0" in wrong.alt


def test_tables_and_curves_that_cannot_be_drawn_are_named() -> None:
    flat, thin, odd = np.zeros((1, 8)), np.zeros((5, 2)), np.zeros((5, 7))
    for table in (np.zeros(5), flat, thin, odd, np.full((5, 8), 1.5)):
        with pytest.raises(ValueError, match=r"table must have a shape \(n, d\), n ≥ 2, d ≥ 4 and"):
            figures.position_matrix(table)
    points = {0: ([0], [1.0])}
    for x, y in (([0, 1], [1.0]), ([1, 0], [1.0, 1.0]), ([1, 2], [1.0, 1.0]), ([[0]], [[1.0]])):
        with pytest.raises(ValueError, match="offsets must rise, hold 0, and be as many as curve"):
            figures.position_products(x, y, points)
    for many in ({}, dict.fromkeys(range(4), ([0], [1.0]))):
        with pytest.raises(ValueError, match="measured must hold from 1 to 3 positions; got"):
            figures.position_products([0, 1], [1.0, 1.0], many)
