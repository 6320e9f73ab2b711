from __future__ import annotations

import re
from collections.abc import Callable
from math import pi
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot, Svg
from course_lib.figures import rotary as figures
from course_lib.reference.rotary import (
    half_split_permutation,
    linear_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    rotate_interleaved,
    yarn_frequencies,
)

SVG = "{http://www.w3.org/2000/svg}"
THETA = rotary_frequencies(128)
QUERY, KEY = np.random.default_rng(1).standard_normal((2, 8))
STRETCHED = {
    "position interpolation": linear_frequencies(THETA, 8),
    "NTK-aware base": ntk_frequencies(128, 8),
    "YaRN": yarn_frequencies(128, 8, 4096)[0],
}
RUNS = np.random.default_rng(2).normal(2.0, 0.1, (3, 128))
LOSSES = {
    "sinusoidal": RUNS + np.linspace(0, 1, 128),
    "learned": RUNS + 0.2,
    "rotary": RUNS - 0.2,
    "linear biases (ALiBi)": RUNS,
    "interpolation, 60 steps more": RUNS - 0.1,
    "as trained, 60 steps more": RUNS - 0.3,
}

PLOTS: dict[str, Callable[[], Plot]] = {
    "score_against_offset": figures.score_against_offset,
    "score_against_offset, near": lambda: figures.score_against_offset(16, 100.0, 10),
    "frequency_ramps": lambda: figures.frequency_ramps(THETA, STRETCHED, 4096),
    "frequency_ramps of little": lambda: figures.frequency_ramps(
        rotary_frequencies(8), {"the same": rotary_frequencies(8)}, 16, (1,)
    ),
    "loss_against_position": lambda: figures.loss_against_position(LOSSES, 32),
    "loss_against_position, one, all alike": lambda: figures.loss_against_position(
        {"a": np.ones((1, 8))}, 4, bins=4
    ),
}

DRAWINGS: dict[str, Callable[[], Svg]] = {
    "rotating_pairs": lambda: figures.rotating_pairs(QUERY, KEY, rotary_frequencies(8)),
    "rotating_pairs of one": lambda: figures.rotating_pairs([1, 0], [1, 0], [pi / 6], 60, 0),
    "pair_layouts": figures.pair_layouts,
    "pair_layouts of 4": lambda: figures.pair_layouts(4),
}


def parse(figure: Svg) -> ElementTree.Element:
    (svg,) = re.findall(r"<svg.*</svg>", figure._repr_html_(), re.DOTALL)
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def score(query: Any, key: Any, theta: Any, m: int, n: int) -> float:
    q = rotate_interleaved(np.array([query], dtype=float), np.array([m]), np.array(theta))
    k = rotate_interleaved(np.array([key], dtype=float), np.array([n]), np.array(theta))
    return float((q * k).sum())


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_fits_a_phone_with_words_that_can_be_read(name: str) -> None:
    figure = DRAWINGS[name]()
    root = parse(figure)
    assert figure.width <= 360
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] == figure.alt
    for text in root.iter(f"{SVG}text"):
        assert float(text.attrib["font-size"]) * 340 / figure.width >= 9
        words, anchor = "".join(text.itertext()), text.attrib["text-anchor"]
        width = 0.56 * float(text.attrib["font-size"]) * len(words)
        left = float(text.attrib["x"]) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
        assert left >= -1 and left + width <= figure.width + 1, words
        assert 10 <= float(text.attrib["y"]) <= figure.height - 3, words
    assert repr(figure) == figure.alt


# ---- Rotating pairs ------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(0, 0), (1, 3), (5, 7), (60, 2)])
def test_the_pairs_add_up_to_the_score_of_the_rotated_vectors(m: int, n: int) -> None:
    theta = rotary_frequencies(8)
    figure = figures.rotating_pairs(QUERY, KEY, theta, m, n)
    expected = score(QUERY, KEY, theta, m, n)
    (said,) = re.findall(r"score = sum = (\S+)", " ".join(texts(parse(figure))))
    assert float(said.replace("−", "-")) == pytest.approx(expected, abs=0.005)
    added = [
        float("".join(span.itertext()).replace("−", "-"))
        for span in parse(figure).iter(f"{SVG}tspan")
        if "data-added" in span.attrib
    ]
    assert len(added) == 4
    assert sum(added) == pytest.approx(expected, abs=0.025)
    assert f"offset n − m = {n - m}".replace("-", "−") in figure.caption.replace("-", "−")


def test_hands_point_where_the_rotated_pairs_do() -> None:
    theta, m, n = rotary_frequencies(8), 7, 12
    root = parse(figures.rotating_pairs(QUERY, KEY, theta, m, n))
    for name, vector, position in (("query", QUERY, m), ("key", KEY, n)):
        rotated = rotate_interleaved(vector[None], np.array([position]), theta)[0].reshape(-1, 2)
        hands = [p for p in root.iter(f"{SVG}path") if p.get("data-hand") == name]
        lengths = []
        for hand, (a, b) in zip(hands, rotated, strict=True):
            match = re.match(r"rotate\((\S+) ", hand.attrib["transform"])
            assert match is not None
            # A drawing's y axis points down, so its positive angles are clockwise.
            direction = np.exp(-1j * np.radians(float(match.group(1))))
            assert direction == pytest.approx((a + 1j * b) / abs(a + 1j * b), abs=1e-3)
            long = re.search(r"h([\d.]+)", hand.attrib["d"])
            assert long is not None
            lengths.append(float(long.group(1)) / abs(a + 1j * b))
        assert np.ptp(lengths) < 0.2, "hands are as long as their pairs"


def test_the_worked_example_shows_a_half() -> None:
    for m, n in ((1, 3), (5, 7)):
        figure = figures.rotating_pairs([1.0, 0.0], [1.0, 0.0], [pi / 6], m, n)
        assert "The score is 0.50." in figure.alt


def test_what_cannot_be_turned_is_named() -> None:
    theta = rotary_frequencies(4)
    for query, key, frequencies, message in (
        (QUERY[:4], KEY[:4], rotary_frequencies(10), "frequencies must be one to four numbers"),
        (QUERY[:4], KEY[:4], [], "frequencies must be one to four numbers"),
        (QUERY[:3], KEY[:4], theta, "query must be a row of 4 numbers"),
        (QUERY[:4], KEY, theta, "key must be a row of 4 numbers"),
        (QUERY[:4], [1, 2, 0, 0], theta, r"key must have no pair \(0, 0\)"),
    ):
        with pytest.raises(ValueError, match=message):
            figures.rotating_pairs(query, key, frequencies)
    with pytest.raises(ValueError, match="longest must be a whole number of at least 9; got 5"):
        figures.rotating_pairs(QUERY, KEY, rotary_frequencies(8), 9, 2, longest=5)
    with pytest.raises(ValueError, match="m must be a whole number of at least 0; got -1"):
        figures.rotating_pairs(QUERY, KEY, rotary_frequencies(8), -1, 2)


# ---- Layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [4, 6, 8])
def test_the_columns_are_in_the_order_of_the_permutation(d: int) -> None:
    figure = figures.pair_layouts(d)
    root = parse(figure)
    numbers = [
        (float(t.attrib["y"]), float(t.attrib["x"]), "".join(t.itertext()))
        for t in root.iter(f"{SVG}text")
        if "".join(t.itertext()).isdigit()
    ]
    numbers.sort()
    assert [int(word) for *_, word in numbers[:d]] == list(range(d))
    assert [int(word) for *_, word in numbers[d:]] == half_split_permutation(d).tolist()


def test_other_widths_have_no_room() -> None:
    for d in (2, 10):
        with pytest.raises(ValueError, match="d must be 4, 6 or 8"):
            figures.pair_layouts(d)
    with pytest.raises(ValueError, match="d must be an even whole number"):
        figures.pair_layouts(5)


# ---- Plots ---------------------------------------------------------------------------------------


def test_the_plotted_score_of_equal_vectors_is_that_of_rotated_ones() -> None:
    figure = figures.score_against_offset(d=16, furthest=20).figure
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    x, y = lines["equal vectors"].get_data()
    ones, theta = np.ones(16), rotary_frequencies(16)
    for offset, value in zip(x, y, strict=True):
        assert value == pytest.approx(score(ones, ones, theta, 3, 3 + int(offset)) / 16)


def test_no_score_of_pairs_that_are_alike_lies_above_the_bound_and_one_reaches_it() -> None:
    figure = figures.score_against_offset(d=16, furthest=20).figure
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    bound = np.asarray(lines["bound where pairs are alike"].get_ydata())
    assert bound[0] == 1.0
    assert (np.asarray(lines["equal vectors"].get_ydata()) <= bound + 1e-12).all()
    key, theta = np.tile([1.0, 0.0], 8), rotary_frequencies(16)
    for offset in range(21):
        of_angles = [
            score(np.tile([np.cos(a), np.sin(a)], 8), key, theta, 0, offset) / 8
            for a in np.linspace(0, 2 * pi, 361)
        ]
        assert max(of_angles) == pytest.approx(bound[offset], abs=1e-3)


def test_the_bound_falls() -> None:
    figure = figures.score_against_offset().figure
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    bound = np.asarray(lines["bound where pairs are alike"].get_ydata())
    assert bound[500:].mean() < 0.5 * bound[1:50].mean()


def test_a_method_has_one_colour_in_all_figures_and_more_training_is_dashed() -> None:
    ramps = figures.frequency_ramps(THETA, STRETCHED, 4096).figure.axes[0]
    names = ["rotary as trained", *STRETCHED, "as trained, 60 steps", "interpolated, 60 steps"]
    plot = figures.loss_against_position(dict.fromkeys(names, RUNS), 32).figure.axes[0]
    lines = {line.get_label(): line for line in plot.get_lines()}
    for line in ramps.get_lines()[: len(STRETCHED)]:
        assert lines[line.get_label()].get_color() == line.get_color()
        assert lines[line.get_label()].get_marker() == line.get_marker()
    assert len({lines[name].get_color() for name in ["rotary as trained", *STRETCHED]}) == 4
    (legend,) = figures.loss_against_position(dict.fromkeys(names, RUNS), 32).figure.legends
    for text in legend.get_texts():
        assert text.get_color() == lines[text.get_text()].get_color()
    for more, name in (
        ("as trained, 60 steps", "rotary as trained"),
        ("interpolated, 60 steps", "position interpolation"),
    ):
        assert lines[more].get_color() == lines[name].get_color()
        assert lines[more].get_linestyle() != lines[name].get_linestyle()


def test_the_plotted_ramps_are_how_many_times_slower_each_pair_is() -> None:
    plot = figures.frequency_ramps(THETA, STRETCHED, 4096)
    lines = {line.get_label(): line for line in plot.figure.axes[0].get_lines()}
    for name, row in STRETCHED.items():
        np.testing.assert_allclose(np.asarray(lines[name].get_ydata()), THETA / row)
    (one_turn,) = [
        line for line in plot.figure.axes[0].get_lines()
        if len(set(line.get_xdata())) == 1 and line.get_xdata()[0] > 40
    ]  # fmt: skip
    at = one_turn.get_xdata()[0]
    turns = 4096 * THETA / (2 * pi)
    assert turns[int(np.floor(at))] > 1 > turns[int(np.ceil(at))]


def test_the_lines_of_losses_are_means_of_runs_in_bins() -> None:
    plot = figures.loss_against_position(LOSSES, 32)
    for name, line in zip(LOSSES, plot.figure.axes[0].get_lines(), strict=True):
        assert line.get_label() == name
        expected = LOSSES[name].reshape(3, 16, 8).mean(axis=(0, 2))
        np.testing.assert_allclose(np.asarray(line.get_ydata()), expected)
    inside = LOSSES["rotary"][:, :32].mean(axis=1)
    assert f"rotary: {inside.mean():.2f} ({inside.min():.2f} to {inside.max():.2f})" in plot.alt


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figures.score_against_offset(furthest=9), "furthest must be a whole number of"),
        (lambda: figures.score_against_offset(d=7), "d must be an even whole number"),
        (lambda: figures.frequency_ramps(THETA, {}, 4096), "stretched must have one to three"),
        (
            lambda: figures.frequency_ramps(THETA, {"a": THETA[:3]}, 4096),
            "a must be a row of at least two positive numbers",
        ),
        (
            lambda: figures.frequency_ramps(THETA, {"a": -THETA}, 4096),
            "a must be a row of at least two positive numbers",
        ),
        (lambda: figures.frequency_ramps(THETA, STRETCHED, 0), "original_length must be a whole"),
        (lambda: figures.loss_against_position({}, 4), "losses must have one to six models"),
        (
            lambda: figures.loss_against_position({"a": np.ones(8)}, 4),
            r"losses\['a'\] must be numbers of one shape \(seeds, length\)",
        ),
        (
            lambda: figures.loss_against_position({"a": np.full((1, 8), np.nan)}, 4),
            r"losses\['a'\] must be numbers of one shape",
        ),
        (
            lambda: figures.loss_against_position({"a": np.ones((1, 8))}, 8, 4),
            "bins must divide the length, and trained lie below it",
        ),
        (
            lambda: figures.loss_against_position({"a": np.ones((1, 8))}, 4, 3),
            "bins must divide the length",
        ),
    ],
)
def test_what_cannot_be_drawn_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
