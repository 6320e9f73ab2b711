from __future__ import annotations

import re
from collections.abc import Callable
from math import log
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot
from course_lib.figures import feed_forward_and_normalization as figures

SVG = "{http://www.w3.org/2000/svg}"
UP = np.array([np.linspace(0.3, 2, 16), np.linspace(0.2, 1.5, 16), np.linspace(0.4, 2.5, 16)])
DEPTHS = [2, 4, 8, 16, 32]
LAST = {"post-norm": UP[:, :5], "pre-norm": UP[:, 4::-1]}
BAD_RUNS = [2.4 - np.linspace(0, 0.4, 360)] * 3
GOOD_RUNS = [2.4 * np.exp(-np.linspace(0, 4, n)) for n in (220, 240, 300)]
RUNS = {
    "post-norm, 10 layers": {"without warm-up": BAD_RUNS, "with warm-up": GOOD_RUNS},
    "pre-norm, 10 layers": {"without warm-up": GOOD_RUNS, "with warm-up": GOOD_RUNS},
}
LEAK = {
    "the whole sequence at once": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.7]] * 3,
    "from the tokens before alone": [[4.0, 2.3, 1.4, 3.1, 2.0, 0.7], [4.2, 3.5, 3.7, 3.5, 2.2, 0.7],
                                     [4.1, 2.0, 1.8, 3.0, 2.1, 0.7]],
}  # fmt: skip

PLOTS: dict[str, Callable[[], Plot]] = {
    "activations": figures.activations,
    "gradients_at_start": lambda: figures.gradients_at_start(
        {"post-norm": UP, "pre-norm": UP[:, ::-1]}, DEPTHS, LAST
    ),
    "training_runs": lambda: figures.training_runs(RUNS, log(10)),
    "training_runs, one": lambda: figures.training_runs({"a": {"with warm-up": GOOD_RUNS}}, 2.3),
    "leak_by_position": lambda: figures.leak_by_position(LEAK),
}


def test_the_alt_texts_say_what_is_drawn() -> None:
    alt = PLOTS["gradients_at_start"]().alt
    assert "median of 3 seeds. By layer, of 16: post-norm 0.3 at the input and 2 at" in alt
    assert "pre-norm 2 and 0.3." in alt
    assert "in stacks of 2 to 32 layers" in alt
    alt = PLOTS["training_runs"]().alt
    assert "post-norm, 10 layers without warm-up: ends at 2.0 to 2.0 after 360 to 360" in alt
    assert "post-norm, 10 layers with warm-up: ends at 0.0 to 0.0 after 220 to 300 steps" in alt
    alt = PLOTS["leak_by_position"]().alt
    assert "tokens 2 to 7, mean of 3 seeds, against 0.69" in alt
    assert "from the tokens before alone: 4.1, 2.6, 2.3, 3.2, 2.1, 0.7." in alt


def test_the_guess_is_named_where_no_run_is_drawn() -> None:
    for axes in PLOTS["training_runs"]().figure.axes:
        (word,) = [text for text in axes.texts if "guessing" in text.get_text()]
        curves = [np.asarray(line.get_ydata()) for line in axes.lines]
        drawn_last = max(y[len(y) // 2 :].max() for y in curves)
        low, high = axes.get_ylim()
        assert low + word.xy[1] * (high - low) - 0.14 * (high - low) > drawn_last


def test_every_run_and_every_seed_is_drawn() -> None:
    axes = PLOTS["training_runs"]().figure.axes
    lines = [line for line in axes[0].lines if len(line.get_xdata()) > 2]
    assert [len(line.get_xdata()) for line in lines] == [36, 36, 36, 22, 24, 30]
    np.testing.assert_allclose(lines[0].get_ydata()[0], np.mean(BAD_RUNS[0][:10]))
    (dots,) = [
        line
        for line in PLOTS["leak_by_position"]().figure.axes[0].lines
        if len(line.get_xdata()) == 18 and line.get_ydata().max() > 1
    ]
    assert sorted(dots.get_ydata()) == sorted(np.ravel(LEAK["from the tokens before alone"]))


def test_a_norm_shades_the_numbers_over_which_its_mean_is_taken() -> None:
    root = ElementTree.fromstring(f"<svg xmlns='{SVG[1:-1]}'>{figures.norm_axes().body}</svg>")
    states = [g for g in root.iter(f"{SVG}g") if "data-norm" in g.attrib]
    x = np.arange(60.0).reshape(3, 4, 5)
    for state, axes in zip(states, ((-1,), (0, 1), (1, 2)), strict=True):
        opacities = [float(cell.attrib["fill-opacity"]) for cell in state.iter(f"{SVG}rect")]
        shaded = np.reshape(opacities, x.shape) > 0.5
        mean = np.broadcast_to(x.mean(axis=axes, keepdims=True), x.shape)
        assert (shaded == (mean == mean[0, 1, 2])).all()
    assert "layer norm 5, batch norm 12, sequence norm 20" in figures.norm_axes().alt


@pytest.mark.parametrize("make", [figures.residual_paths, figures.norm_axes])
def test_a_drawing_fits_a_phone_and_its_words_can_be_read(make: Callable) -> None:
    svg = make()
    assert svg.width <= 360
    sizes = [float(s) for s in re.findall(r'font-size="([\d.]+)"', svg.body)]
    assert min(sizes) * 340 / svg.width >= 9


def test_a_pre_norm_path_meets_nothing_but_a_sum_and_a_post_norm_one_meets_a_norm() -> None:
    text = re.findall(r"<text[^>]*>(.*?)</text>", figures.residual_paths().body)
    words = [re.sub("<[^>]*>", "", t) for t in text]
    assert words.count("LN") == words.count("sublayer f") == 2
    assert words.index("sublayer f") < words.index("LN")  # post-norm is drawn first
    assert words[::-1].index("sublayer f") < words[::-1].index("LN")


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    rows = {"post-norm": UP, "pre-norm": UP}
    for call, said in (
        (lambda: figures.gradients_at_start(rows, [2, 1], LAST), "depths must be a row"),
        (lambda: figures.gradients_at_start(rows, [1, 2], LAST), r"post-norm must be .*\(seeds, 2"),
        (lambda: figures.gradients_at_start({"post-norm": UP}, DEPTHS, LAST), "by_layer and last"),
        (lambda: figures.gradients_at_start({**rows, "pre-norm": -UP}, DEPTHS, LAST), "pre-norm"),
        (lambda: figures.training_runs({}, 2.3), "runs must have a panel"),
        (lambda: figures.training_runs({"a": {"warm": GOOD_RUNS}}, 2.3), "a run's name must be"),
        (lambda: figures.leak_by_position({}), "losses must have one line or two"),
        (lambda: figures.leak_by_position({"a": [[1.0]], "b": [[1.0, 2.0]]}), "losses must all"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
