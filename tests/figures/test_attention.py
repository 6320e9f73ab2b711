from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot
from course_lib.figures import attention as figures
from course_lib.figures.attention import _measure_scalings
from course_lib.reference.attention import causal_mask, scaled_dot_product_attention
from tests.figures import drawn

WIDTHS = 2 ** np.arange(2, 11)
WORDS = ["I", "saw", "a", "cat", "on", "a", "mat", "today"]
HAND = scaled_dot_product_attention(*[np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])] * 3)[1]


def long_heatmap() -> Plot:
    x = np.random.default_rng(0).standard_normal((8, 4))
    weights = scaled_dot_product_attention(x, x, x, causal_mask(8))[1]
    return figures.weights_heatmap(weights, WORDS, mask=causal_mask(8))


PLOTS: dict[str, Callable[[], Plot]] = {
    "score_variance": lambda: figures.score_variance(WIDTHS, WIDTHS * 1.02, np.full(9, 0.98)),
    "scaling_comparison": figures.scaling_comparison,
    "weights_heatmap": lambda: figures.weights_heatmap(HAND, ["token 0", "token 1", "token 2"]),
    "weights_heatmap of 8 words": long_heatmap,
    "weights_heatmap, one cell": lambda: figures.weights_heatmap([[1.0]], ["a"]),
    "weights_heatmap, 2 by 5": lambda: figures.weights_heatmap(
        np.full((2, 5), 0.2), ["he", "she"], ["one", "two", "three", "four", "five"]
    ),
    "softmax_shift_and_scale": lambda: figures.softmax_shift_and_scale([1.0, 0.0, 2.0, 0.5]),
    "softmax_shift_and_scale of 8": lambda: figures.softmax_shift_and_scale(np.arange(-4.0, 4.0)),
}


def test_the_heat_map_says_the_weights_of_the_worked_example() -> None:
    texts = [t for t, _, _ in drawn.words(PLOTS["weights_heatmap"]().figure)]
    numbers = [t for t in texts if re.fullmatch(r"0\.\d{3}", t)]
    row = ["0.401", "0.198", "0.401"]
    assert numbers == [*row, "0.198", "0.401", "0.401", "0.248", "0.248", "0.503"]


def test_a_hidden_cell_shows_no_number() -> None:
    plot = long_heatmap()
    numbers = [t for t, _, _ in drawn.words(plot.figure) if re.fullmatch(r"\d\.\d\d", t)]
    assert len(numbers) == 8 * 9 // 2
    assert plot.alt.count("hidden") == 8 * 7 // 2


def test_only_the_square_root_keeps_entropy_and_gradient_level() -> None:
    spread, gradient = _measure_scalings([4, 32, 1024], 64, 512, 5)
    none, root, full = range(3)
    assert np.ptp(spread[root]) < 0.05
    assert gradient[root].max() < 1.2 * gradient[root].min()
    assert spread[none, -1] < 0.1 < 0.6 < spread[none, 0]
    assert spread[full, -1] > 0.999
    for unscaled in (none, full):
        assert gradient[unscaled, -1] < gradient[root, -1] / 10


def test_the_gradient_norm_is_that_of_finite_differences() -> None:
    d, n, step = 4, 6, 1e-6
    rng = np.random.default_rng(5)
    q, k = rng.standard_normal((1, d)), rng.standard_normal((n, d))

    def weights(query: np.ndarray) -> np.ndarray:
        return scaled_dot_product_attention(query, k, k)[1][0]

    slopes = [(weights(q + e) - weights(q - e)) / (2 * step) for e in step * np.eye(d)]
    _, gradient = _measure_scalings([d], n, 1, 5)
    assert gradient[1, 0] == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_the_diagram_names_every_shape_and_fits_a_phone() -> None:
    svg = figures.qkv_diagram()
    root = ElementTree.fromstring(svg._repr_html_())
    lines = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    lines = [t.replace("\u200b", "") for t in lines]
    for shape in ("nq × dk", "nk × dk", "nk × dv", "nq × nk", "nq × dv"):
        assert shape in lines
        assert re.sub(r"([nd])([qkv])", r"\1_\2", shape) in svg.alt
    assert svg.width <= 360
    sizes = [float(t.attrib["font-size"]) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert min(sizes) * 0.75 * 340 / svg.width >= 9  # an index is three quarters of its letter


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    for call, said in (
        (lambda: figures.score_variance([4, 8], [4.0], [1.0, 1.0]), "raw must be a row"),
        (lambda: figures.score_variance([4, 8], [4.0, -1.0], [1.0, 1.0]), "raw must be a row"),
        (lambda: figures.scaling_comparison([4]), "d_ks must have at least two"),
        (lambda: figures.scaling_comparison([4, 0]), "d_ks must be a whole number"),
        (lambda: figures.weights_heatmap([[1.0, 0.0]], ["a"]), "weights must have a row"),
        (lambda: figures.weights_heatmap([[1.5]], ["a"]), "weights must lie between 0 and 1"),
        (lambda: figures.weights_heatmap([[1.0]], ["a"], mask=[[1]]), "mask must be boolean"),
        (lambda: figures.softmax_shift_and_scale([np.inf]), "scores must be one row"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
