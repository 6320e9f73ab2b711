from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib import accounting
from course_lib.figures import Plot, Svg
from course_lib.figures import why_transformers as figures
from course_lib.reference.attention_scores import plain_self_attention

SVG = "{http://www.w3.org/2000/svg}"
TOKENS = ["the", "cat", "that", "ate", "five", "fish", "was", "hungry"]
WEIGHTS = plain_self_attention(np.random.default_rng(2).standard_normal((8, 3)))[1]
BACK = np.arange(1, 61)
NORMS = {
    "RNN": 2.0 * 0.6**BACK,
    "RNN, weights × 6": 1.3**BACK,
    "GRU": 0.65**BACK,
    "GRU, z near 1": 0.1 * 0.96**BACK,
    "self-attention": np.full(60, 0.08),
}
LENGTHS = 2 ** np.arange(4, 12)
SECONDS = {"RNN": 5e-6 * LENGTHS, "self-attention": 1e-8 * LENGTHS**2.0 + 1e-5}
SCORES = {
    "self-attention": np.ones((3, 4)),
    "GRU": np.array([[1, 1, 0.63, 0.51], [1, 1, 1, 0.5], [1, 0.99, 0.98, 0.52]]),
    "self-attention, no positions": np.array([[0.69, 0.69, 0.66, 0.6]] * 3),
}

PLOTS: dict[str, Callable[[], Plot]] = {
    "gradient_decay": lambda: figures.gradient_decay(BACK, NORMS),
    "gradient_decay, all lines alike": lambda: figures.gradient_decay(
        BACK, {name: np.full(60, 0.5) for name in NORMS}
    ),
    "layer_times": lambda: figures.layer_times(LENGTHS, SECONDS, 128),
    "layer_times, equal": lambda: figures.layer_times(
        LENGTHS, dict.fromkeys(SECONDS, SECONDS["RNN"]), 128
    ),
    "flops_crossover": figures.flops_crossover,
    "flops_crossover, narrow": lambda: figures.flops_crossover(64, 4096, width=5),
    "agreement_accuracy": lambda: figures.agreement_accuracy([4, 8, 16, 32], SCORES),
    "agreement_accuracy, all at chance": lambda: figures.agreement_accuracy(
        [4, 8, 16, 32], {name: np.full((2, 4), 0.5) for name in SCORES}
    ),
}

DRAWINGS: dict[str, Callable[[], Svg]] = {
    "unrolled_against_all_pairs": lambda: figures.unrolled_against_all_pairs(TOKENS[:6]),
    "unrolled_against_all_pairs of 3": lambda: figures.unrolled_against_all_pairs(TOKENS[:3]),
    "architecture_overview": figures.architecture_overview,
    "self_attention_steps": lambda: figures.self_attention_steps(TOKENS, WEIGHTS, 6),
    "self_attention_steps of 2": lambda: figures.self_attention_steps(["a", "<b>"], np.eye(2)),
}


def parse(figure: Svg) -> ElementTree.Element:
    (svg,) = re.findall(r"<svg.*</svg>", figure._repr_html_(), re.DOTALL)
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_fits_a_phone_with_words_that_can_be_read(name: str) -> None:
    figure = DRAWINGS[name]()
    root = parse(figure)
    assert figure.width <= 360
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] == figure.alt
    for text in root.iter(f"{SVG}text"):
        smallest = 0.75 if any("%" in t.get("font-size", "") for t in text) else 1.0
        assert float(text.attrib["font-size"]) * smallest * 340 / figure.width >= 9
        # a letter is a good half of its size wide
        words, anchor = "".join(text.itertext()), text.attrib["text-anchor"]
        width = 0.56 * float(text.attrib["font-size"]) * len(words)
        left = float(text.attrib["x"]) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
        assert left >= -1 and left + width <= figure.width + 1, words
        assert 10 <= float(text.attrib["y"]) <= figure.height - 3, words
    assert repr(figure) == figure.alt


# ---- Unrolled against all pairs ------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 6, 7])
def test_the_recurrence_has_a_chain_and_self_attention_every_pair(n: int) -> None:
    tokens = [f"t{i}" for i in range(n)]
    figure = figures.unrolled_against_all_pairs(tokens)
    found = texts(parse(figure))
    assert [found.count(token) for token in tokens] == [2] * n
    assert [found.count(f"{letter}{i + 1}") for letter in "sy" for i in range(n)] == [1] * 2 * n
    ends = re.findall(
        r'd="M([\d.]+) ([\d.]+) L([\d.]+) ([\d.]+)" fill="none" stroke-l', figure.body
    )
    levels = [tuple(map(float, (y, to_y))) for _, y, _, to_y in ends]
    assert levels.count((67.0, 67.0)) == n - 1, "the chain"
    assert sum(y == 276 for y, _ in levels) == n * n, "all pairs"
    assert f"{n - 1} links" in figure.alt and f"{n * n} lines" in figure.alt


def test_the_steps_of_both_layers_are_those_of_the_accounting() -> None:
    figure = figures.unrolled_against_all_pairs(TOKENS[:6])
    recurrence, attention = (t for t in texts(parse(figure)) if ":" in t)
    assert f" {accounting.total(accounting.rnn(6, 4)).steps} steps" in recurrence
    assert f" {accounting.total(accounting.plain_self_attention(6, 4)).steps} steps" in attention


# ---- The step-through ----------------------------------------------------------------------------


def test_every_state_shows_the_weights_that_it_was_given() -> None:
    figure = figures.self_attention_steps(TOKENS, WEIGHTS, 6)
    groups = {int(g.attrib["data-step"]): g for g in parse(figure).iter(f"{SVG}g")}
    assert sorted(groups) == list(range(9))
    for i in range(8):
        numbers = [t for t in texts(groups[i]) if re.fullmatch(r"\d\.\d\d", t)]
        assert numbers == [f"{w:.2f}" for w in WEIGHTS[i]]
        widths = [float(p.attrib["stroke-width"]) for p in groups[i].iter(f"{SVG}path")]
        seen = [w for w in WEIGHTS[i] if w >= 0.005]
        assert widths == [pytest.approx(0.8 + 7 * w, abs=0.01) for w in seen]
    assert ["weight" in texts(groups[i]) for i in range(9)] == [True] * 8 + [False]
    everyone = [p.attrib["d"] for p in groups[8].iter(f"{SVG}path")]
    alone = [p.attrib["d"] for i in range(8) for p in groups[i].iter(f"{SVG}path")]
    assert everyone == alone


def test_the_still_picture_is_that_of_the_token_asked_for() -> None:
    figure = figures.self_attention_steps(TOKENS, WEIGHTS, 3)
    shown = [
        g.attrib["data-step"] for g in parse(figure).iter(f"{SVG}g") if "style" not in g.attrib
    ]
    assert shown == ["3"]
    html = figure._repr_html_()
    assert re.findall(r'aria-pressed="true"', html) == ['aria-pressed="true"']
    assert figure.captions[3] in html.split("<p ")[1]
    assert 'role="group" aria-label="Which token asks" hidden' in html


def test_a_caption_names_the_two_largest_weights_of_its_row() -> None:
    weights = [[0.1, 0.7, 0.2], [0.5, 0.25, 0.25], [0.0, 0.4, 0.6]]
    figure = figures.self_attention_steps(["a", "b", "c"], weights)
    assert figure.captions == (
        "“a” asks. Most comes from “b”, weight 0.70; “c” is next with 0.20.",
        "“b” asks. Most comes from “a”, weight 0.50; “b” is next with 0.25.",
        "“c” asks. Most comes from “c”, weight 0.60; “b” is next with 0.40.",
        "All 3 ask at once: 3 × 3 = 9 weights, from one product. Nobody waits for anybody.",
    )
    assert figure.buttons == ("a", "b", "c", "all at once")


def test_the_step_through_asks_nothing_of_the_network_and_has_no_ids_that_could_clash() -> None:
    html = DRAWINGS["self_attention_steps"]()._repr_html_()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|\bsrc=|\bid=|fetch|import", html)


def test_words_of_a_token_are_shown_not_run() -> None:
    html = DRAWINGS["self_attention_steps of 2"]()._repr_html_()
    assert "<b>" not in html and html.count("&lt;b&gt;") >= 4


# ---- The architecture ----------------------------------------------------------------------------


def test_the_overview_names_every_part_of_the_model() -> None:
    root = parse(figures.architecture_overview(4))
    found = texts(root)
    for words, times in (
        ("embeddings", 2), ("+ positions", 2), ("encoder", 1), ("decoder", 1), ("4 layers", 2),
        ("self-attention", 1), ("self-attention,", 1), ("masked", 1), ("cross-attention", 1),
        ("feed-forward", 2), ("projection", 1), ("source tokens", 1), ("target tokens so far", 1),
    ):  # fmt: skip
        assert found.count(words) == times, words
    assert figures.architecture_overview(4).alt.count("4 layers") == 2


# ---- The plots -----------------------------------------------------------------------------------


def lines(plot: Plot) -> list[np.ndarray]:
    return [
        np.asarray(line.get_ydata(), dtype=float)
        for line in plot.figure.axes[0].get_lines()
        if len(np.atleast_1d(line.get_ydata())) > 2
    ]


def test_the_lines_are_the_data() -> None:
    for plot, data in (
        (PLOTS["gradient_decay"](), NORMS.values()),
        (PLOTS["layer_times"](), [1e3 * np.asarray(s) for s in SECONDS.values()]),
    ):
        for line, row in zip(lines(plot), data, strict=True):
            assert np.allclose(line, row)


def test_every_seed_is_a_mark_and_the_line_joins_the_means() -> None:
    found = lines(PLOTS["agreement_accuracy"]())
    expected = [row for table in SCORES.values() for row in (table.mean(axis=0), *table)]
    assert len(found) == len(expected)
    for line, row in zip(found, expected, strict=True):
        assert np.allclose(line, row)


def test_marks_of_models_that_are_equally_right_do_not_hide_each_other() -> None:
    plot = figures.agreement_accuracy([4, 32], {name: [[1.0, 1.0]] for name in SCORES})
    marks = [m for m in plot.figure.axes[0].get_lines() if m.get_marker() in ("o", "^")]
    assert len(marks) == 3
    assert len({float(np.asarray(mark.get_xdata())[0]) for mark in marks}) == 3


def test_the_layers_cross_where_length_and_width_are_equal() -> None:
    attention, rnn, convolution = lines(figures.flops_crossover(64, 1024))
    x = figures.flops_crossover(64, 1024).figure.axes[0].get_lines()[0].get_xdata()
    lengths = [int(n) for n in np.asarray(x)]
    assert attention.tolist() == [4 * n * n * 64 for n in lengths]
    assert rnn.tolist() == [4 * n * 64 * 64 for n in lengths]
    assert convolution.tolist() == [
        accounting.total(accounting.convolution(n, 64, 3)).flops for n in lengths
    ]
    assert all((a < b) == (n < 64) for a, b, n in zip(attention, rnn, lengths, strict=True))


def test_a_layer_has_one_colour_in_all_plots_and_its_second_kind_is_dashed() -> None:
    found: dict[str, set[Any]] = {}
    for name, names in (
        ("gradient_decay", NORMS), ("layer_times", SECONDS), ("agreement_accuracy", SCORES),
        ("flops_crossover", ("self-attention", "RNN", "convolution, width 3")),
    ):  # fmt: skip
        labels = {
            text.get_text().replace(",\n", ", "): text.get_color()
            for text in PLOTS[name]().figure.axes[0].texts
        }
        for layer in names:
            found.setdefault(layer.split(",")[0], set()).add(labels[layer])
    assert {layer: len(colours) for layer, colours in found.items()} == dict.fromkeys(
        ("RNN", "GRU", "self-attention", "convolution"), 1
    )
    drawn_lines = PLOTS["gradient_decay"]().figure.axes[0].get_lines()
    assert [line.get_linestyle() for line in drawn_lines] == ["-", "--", "-", "--", "-"]


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    steps, pairs = figures.self_attention_steps, figures.unrolled_against_all_pairs
    for call, said in (
        (lambda: pairs(["a", "b"]), "tokens must be from 3 to 7; got 2"),
        (lambda: pairs(list("abcdefgh")), "tokens must be from 3 to 7; got 8"),
        (lambda: figures.architecture_overview(0), "n_layers must be a whole number"),
        (lambda: steps(["a"], [[1.0]]), "tokens must be from 2 to 9 different words"),
        (lambda: steps(["a", "a"], np.eye(2)), "tokens must be from 2 to 9 different words"),
        (lambda: steps(["a", "b"], np.eye(3)), r"weights must have the shape \(2, 2\)"),
        (lambda: steps(["a", "b"], np.ones((2, 2))), "weights must be rows of weights"),
        (lambda: steps(["a", "b"], [[2.0, -1.0], [0, 1]]), "weights must be rows of weights"),
        (lambda: steps(["a", "b"], np.eye(2), 2), "shown must be the place of a token, 0 to 1"),
        (lambda: steps(["a", "b"], np.eye(2), True), "shown must be the place of a token"),
        (lambda: figures.gradient_decay([1], {"RNN": [1.0]}), "distances must be a row of at"),
        (lambda: figures.gradient_decay([2, 1], {"RNN": [1, 1]}), "distances must be a row of at"),
        (lambda: figures.gradient_decay([1, 2], {}), "there must be at least one line"),
        (lambda: figures.gradient_decay([1, 2], {"RNN": [1.0]}), "RNN must be a row of 2 positive"),
        (
            lambda: figures.gradient_decay([1, 2], {"RNN": [1, 0]}),
            "RNN must be a row of 2 positive",
        ),
        (lambda: figures.gradient_decay([1, 2], {"CNN": [1, 1]}), "a line's name must begin with"),
        (lambda: figures.layer_times([1, 2], {"RNN": [1, 1]}, 0), "d_model must be a whole number"),
        (lambda: figures.layer_times([1, 2], {"RNN": [1, np.inf]}, 4), "RNN must be a row of 2"),
        (lambda: figures.flops_crossover(64, 64), "longest must be above d_model = 64; got 64"),
        (lambda: figures.flops_crossover(width=0), "width must be a whole number of at least 1"),
        (
            lambda: figures.agreement_accuracy([4], {"GRU": [[1.0]]}),
            "distances must be a row of at",
        ),
        (lambda: figures.agreement_accuracy([4, 8], {}), "accuracies must have at least one table"),
        (lambda: figures.agreement_accuracy([4, 8], {"GRU": [1, 1]}), "accuracies of GRU must be"),
        (
            lambda: figures.agreement_accuracy([4, 8], {"GRU": [[1, 1.5]]}),
            "accuracies of GRU must lie between 0 and 1",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
