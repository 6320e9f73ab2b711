from __future__ import annotations

import re
from collections.abc import Callable
from math import log
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from course_lib.figures import Plot
from course_lib.figures import language_models as figures

SENTENCE = ["I", "saw", "a", "cat", "on", "a", "mat", "<eos>"]
STEPS = [0.5, 1.0, 0.75, 0.375, 0.2, 0.75, 0.375, 1.0]
SOURCE = ["Я", "видел", "кота", "на", "коврике"]
RESULTS = {
    "unigram": 212.0,
    "trigram, add-k": 334.0,
    "bigram": 89.0,
    "trigram": 82.0,
    "4-gram": 68.0,
    "neural network": 69.0,
    "both, averaged": 55.0,
}
WORDS = ["object", "value", "list", "name", "mat"]

PLOTS: dict[str, Callable[[], Plot]] = {
    "sentence_probability": lambda: figures.sentence_probability(SENTENCE, STEPS),
    "sentence_probability, improbable": lambda: figures.sentence_probability(
        SENTENCE, [0.001, 0.02, 0.3, 0.0004, 0.1, 0.2, 0.01, 0.05]
    ),
    "sentence_probability, one token": lambda: figures.sentence_probability(["yes"], [0.3]),
    "loss_of_one_token": lambda: figures.loss_of_one_token(
        ["cat", "dog", "mat", "hat", "the"], [0.3, 0.4, 0.15, 0.1, 0.05], "cat"
    ),
    "loss_of_one_token, sure": lambda: figures.loss_of_one_token(["yes", "no"], [1.0, 0.0], "yes"),
    "loss_of_one_token, wrong": lambda: figures.loss_of_one_token(
        ["yes", "no"], [0.02, 0.98], "yes"
    ),
    "pieces_seen_before": lambda: figures.pieces_seen_before(
        [1, 2, 3, 4, 5, 6, 7, 8], [0.95, 0.63, 0.28, 0.12, 0.05, 0.02, 0.01, 0.01]
    ),
    "model_perplexities": lambda: figures.model_perplexities(
        RESULTS, 1707, marked=["neural network"]
    ),
    "model_perplexities of the chapter": lambda: figures.model_perplexities(
        {
            "unigram": 212.0,
            "trigram, add-k": 334.0,
            "bigram, backoff": 89.0,
            "trigram, backoff": 82.0,
            "4-gram, backoff": 83.0,
            "trigram, Kneser–Ney": 70.0,
            "4-gram, Kneser–Ney": 68.0,
            "neural network": 69.0,
            "both, averaged": 57.0,
        },
        1707,
        marked=["neural network", "both, averaged"],
    ),
    "model_perplexities of a large vocabulary": lambda: figures.model_perplexities(
        {"unigram": 900.0, "network": 31.0}, 50_000
    ),
    "temperatures": lambda: figures.temperatures(
        WORDS, {t: np.full(5, 0.2) for t in (0.5, 1.0, 2.0)}
    ),
    "temperatures, one": lambda: figures.temperatures(WORDS[:2], {1.0: np.array([1.0, 0.0])}),
}


def bars(figure: Figure, panel: int = 0) -> list[float]:
    """Return the lengths of a panel's horizontal bars."""
    return [patch.get_width() for patch in figure.axes[panel].patches]


def test_the_bars_of_a_sentence_are_its_steps_and_their_running_product() -> None:
    figure = PLOTS["sentence_probability"]().figure
    assert bars(figure, 0) == pytest.approx(STEPS)
    (line,) = figure.axes[1].lines
    assert line.get_xdata() == pytest.approx(np.cumprod(STEPS))
    assert "logarithmic" in figure.axes[1].get_title(loc="left")


def test_every_step_is_in_the_words_of_the_sentence() -> None:
    alt = PLOTS["sentence_probability"]().alt
    for token, p, so_far in zip(SENTENCE, STEPS, np.cumprod(STEPS), strict=True):
        assert f"{token}: {p:.3g}, so far {so_far:.3g}." in alt


def test_prediction_and_target_stand_side_by_side_and_the_point_is_on_the_curve() -> None:
    figure = PLOTS["loss_of_one_token"]().figure
    assert bars(figure) == pytest.approx([0.3, 0.4, 0.15, 0.1, 0.05, 1, 0, 0, 0, 0])
    curve, point = (line.get_xydata() for line in figure.axes[1].lines)
    assert point.tolist() == [[0.3, pytest.approx(-log(0.3))]]
    assert curve[:, 1] == pytest.approx(-np.log(curve[:, 0]))


def test_a_marked_model_has_another_colour() -> None:
    figure = PLOTS["model_perplexities"]().figure
    (points,) = (c for c in figure.axes[0].collections if isinstance(c, PathCollection))
    assert np.asarray(points.get_offsets())[:, 0].tolist() == list(RESULTS.values())
    colours = [tuple(c) for c in points.get_facecolors()]
    assert len(set(colours)) == 2
    assert [c for c in colours if colours.count(c) == 1] == [colours[5]]


def test_the_two_colours_of_the_models_are_named() -> None:
    axes = PLOTS["model_perplexities"]().figure.axes[0]
    assert axes.get_title(loc="left") == "counts"
    assert axes.get_title(loc="center") == "network"
    assert axes.get_title(loc="right") == "uniform: 1,707"


def test_the_axis_of_perplexities_reaches_the_uniform_model() -> None:
    axes = PLOTS["model_perplexities"]().figure.axes[0]
    assert axes.lines[0].get_xdata()[0] == 1707
    assert axes.get_xlim()[0] < min(RESULTS.values()) < 1707 < axes.get_xlim()[1]


def svg_texts(svg: figures.Svg) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg._repr_html_())
    return list(root.iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.parametrize("given", [0, 3, 7])
def test_the_scheme_shows_every_word_and_marks_the_next(given: int) -> None:
    svg = figures.encoder_decoder(SOURCE, SENTENCE, given)
    lines = ["".join(t.itertext()) for t in svg_texts(svg)]
    assert [w for w in lines if w in SOURCE] == SOURCE
    assert [w for w in lines if w in SENTENCE] == SENTENCE
    assert svg.body.count("stroke-dasharray") == 1
    assert f"next comes {SENTENCE[given]}" in svg.alt


def test_the_arrow_of_the_decoder_ends_on_the_next_word() -> None:
    for given in range(len(SENTENCE)):
        svg = figures.encoder_decoder(SOURCE, SENTENCE, given)
        (box,) = re.findall(r'<rect x="([\d.]+)" y="302" width="([\d.]+)"[^>]*dasharray', svg.body)
        (arrow,) = re.findall(r"M([\d.]+) 278", svg.body)
        left, width = map(float, box)
        assert left < float(arrow) < left + width


def test_the_scheme_fits_a_phone() -> None:
    svg = figures.encoder_decoder(SOURCE, SENTENCE, 3)
    assert svg.width <= 360
    assert min(float(t.attrib["font-size"]) for t in svg_texts(svg)) * 340 / svg.width >= 9
    boxes = re.findall(r'<rect x="([\d.]+)" y="(?:28|302)" width="([\d.]+)"', svg.body)
    assert len(boxes) == len(SOURCE) + len(SENTENCE)
    assert all(float(x) > 0 and float(x) + float(w) < svg.width for x, w in boxes)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: figures.encoder_decoder([], ["a"], 0), "source must have one to six words"),
        (lambda: figures.encoder_decoder(["a"], ["b"], 1), "given must be below the 1 words"),
        (lambda: figures.encoder_decoder(["a"], ["b"], -1), "given must be a whole number"),
        (lambda: figures.sentence_probability(["a"], [0.0]), "probabilities must have one number"),
        (lambda: figures.sentence_probability(["a"], [0.5, 0.5]), "probabilities must have one"),
        (lambda: figures.sentence_probability([], []), "probabilities must have one number"),
        (
            lambda: figures.loss_of_one_token(["a", "b"], [0.5, 0.6], "a"),
            "probabilities must be a distribution",
        ),
        (
            lambda: figures.loss_of_one_token(["a", "b"], [0.0, 1.0], "a"),
            "correct must be a word of probability above 0",
        ),
        (lambda: figures.pieces_seen_before([1], [1.5]), "shares must have one number"),
        (lambda: figures.pieces_seen_before([1, 2], [1.0]), "shares must have one number"),
        (lambda: figures.model_perplexities({}, 10), "results must hold perplexities"),
        (lambda: figures.model_perplexities({"a": np.inf}, 10), "results must hold perplexities"),
        (lambda: figures.model_perplexities({"a": 2.0}, 10, ["b"]), "marked must name models"),
        (lambda: figures.temperatures(["a"], {}), "rows must be one to three rows"),
        (lambda: figures.temperatures(["a"], {1.0: np.array([0.7, 0.3])}), "rows must be one to"),
    ],
)
def test_a_figure_of_what_does_not_fit_says_what_is_wrong(call, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        call()
