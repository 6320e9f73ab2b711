from __future__ import annotations

import re
from collections.abc import Callable
from math import log
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot
from course_lib.figures import training as figures

SVG = "{http://www.w3.org/2000/svg}"
RNG = np.random.default_rng(0)
FALLING = 2.8 * np.exp(-np.linspace(0, 9, 600)) * RNG.uniform(0.5, 2.0, (3, 600))
SPIKY = np.where(RNG.random((3, 300)) < 0.05, 1.0, FALLING[:, :300])
RUNS = {"warm-up, cosine, clipping": list(FALLING), "constant rate, no clipping": list(SPIKY)}
SHARES = {
    "of the digit just read": RNG.uniform(0.0, 0.05, (3, 5)),
    "of the digit to be written": RNG.uniform(0.0, 0.05, (3, 5)),
}

PLOTS: dict[str, Callable[[], Plot]] = {
    "smoothed_loss": lambda: figures.smoothed_loss(14, 0.1),
    "smoothed_loss, strong": lambda: figures.smoothed_loss(4, 0.5),
    "schedules": lambda: figures.schedules(600, 60, 64),
    "schedules, late": lambda: figures.schedules(100_000, 4000, 512),
    "loss_curves": lambda: figures.loss_curves(RUNS),
    "loss_curves, one": lambda: figures.loss_curves({"a run": [FALLING[0]]}),
    "loss_curves, three": lambda: figures.loss_curves({**RUNS, "a third": [SPIKY[0]]}),
    "errors_by_count": lambda: figures.errors_by_count(range(1, 6), SHARES),
    "errors_by_count, one": lambda: figures.errors_by_count([1, 2], {"read": [[0.0, 0.5]]}),
}


def groups() -> list[list[str]]:
    body = figures.forced_and_free(["5", "1", "<b>"]).body
    root = ElementTree.fromstring(f"<svg xmlns='{SVG[1:-1]}'>{body}</svg>")
    return [
        ["".join(text.itertext()) for text in g.iter(f"{SVG}text")]
        for g in root.iter(f"{SVG}g")
        if "data-step" in g.attrib
    ]


def test_in_training_everything_is_read_and_predicted_and_in_writing_one_more_each_time() -> None:
    training, *passes = groups()
    assert training[2:] == ["<bos>", "5", "5", "1", "1", "<b>", "<b>", "<eos>"]
    assert [words[2:] for words in passes] == [
        ["<bos>", "5"],
        ["<bos>", "5", "1"],
        ["<bos>", "5", "1", "<b>"],
        ["<bos>", "5", "1", "<b>", "<eos>"],
    ]


def test_every_state_has_a_button_and_says_what_is_read() -> None:
    figure = figures.forced_and_free(["5", "1", "7", "3"])
    assert figure.buttons == ("training", "1", "2", "3", "4", "5")
    assert "one pass. All 5 tokens" in figure.captions[0]
    assert "reads <bos> alone and writes 5" in figure.captions[1]
    assert "the token it has written and writes 1" in figure.captions[2]
    assert "the 4 tokens it has written and writes <eos>" in figure.captions[5]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_no_box_leaves_the_drawing_or_lies_on_its_neighbour(n: int) -> None:
    body = figures.forced_and_free(["12345"] * n).body
    lefts = sorted({float(x) for x in re.findall(r'<rect x="([\d.]+)" y="150"', body)})
    assert len(lefts) == n + 1
    assert min(np.diff(lefts)) >= 48
    assert lefts[0] > 48
    assert lefts[-1] + 48 <= 360


def test_smoothing_moves_the_lowest_point_to_the_smoothed_probability() -> None:
    figure = figures.smoothed_loss(14, 0.1)
    plain, smooth = figure.figure.axes[0].lines[:2]
    p, y = (np.asarray(part) for part in (smooth.get_xdata(), smooth.get_ydata()))
    assert p[y.argmin()] == pytest.approx(1 - 0.1 + 0.1 / 14, abs=0.01)
    a, e = 1 - 0.1 + 0.1 / 14, 0.1 / 14
    assert y.min() == pytest.approx(-a * log(a) - 13 * e * log(e), abs=1e-3)
    assert f"lowest, {y.min():.2f}, at probability {a:.3f}" in figure.alt
    np.testing.assert_allclose(plain.get_ydata(), -np.log(p), atol=1e-9)


def test_both_schedules_reach_the_top_at_the_end_of_the_warm_up() -> None:
    for line in PLOTS["schedules"]().figure.axes[0].lines[:2]:
        y = np.asarray(line.get_ydata())
        assert y.argmax() == 59
        assert y.max() == pytest.approx(1)
    assert "to 0.20 at the end; the cosine to 0.00" in PLOTS["schedules, late"]().alt


def test_every_run_is_drawn_and_losses_of_nothing_at_the_bottom() -> None:
    figure = figures.loss_curves({**RUNS, "none": [[0.0, 0.0]]})
    above, below, last = figure.figure.axes
    assert [len(axes.lines) for axes in (above, below, last)] == [3, 3, 1]
    np.testing.assert_allclose(np.asarray(below.lines[1].get_ydata()), SPIKY[1].clip(1e-4))
    assert (np.asarray(last.lines[0].get_ydata()) == 1e-4).all()
    for row in FALLING:
        assert f"600 steps, from {row[0]:.1f} to {row[300:].mean():.3f}" in figure.alt
    shorter = figures.loss_curves({"a run": [FALLING[0], FALLING[1][:150]]})
    assert "a run: 600 steps, from" in shorter.alt and "; 150 steps, from" in shorter.alt


def test_errors_are_drawn_in_per_cent_with_their_means() -> None:
    figure = PLOTS["errors_by_count"]()
    lines = figure.figure.axes[0].lines
    assert len(lines) == 9  # a line and three seeds each, and what the legend needs
    assert [text.get_text() for text in figure.figure.legends[0].get_texts()][-1] == "single seeds"
    np.testing.assert_allclose(
        np.asarray(lines[0].get_ydata()), 100 * SHARES["of the digit just read"].mean(axis=0)
    )
    means = 100 * SHARES["of the digit to be written"].mean(axis=0)
    assert "mean of 3 seeds" in figure.alt
    assert ", ".join(f"{k}: {m:.1f}" for k, m in enumerate(means, 1)) in figure.alt


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figures.forced_and_free(["5"]), "target must be two to five"),
        (lambda: figures.forced_and_free(["5", ""]), "target must be"),
        (lambda: figures.forced_and_free(["5", "123456"]), "target must be"),
        (lambda: figures.forced_and_free(["5"] * 6), "target must be"),
        (lambda: figures.smoothed_loss(1, 0.1), "vocab_size must be at least 2"),
        (lambda: figures.smoothed_loss(4, 0.0), "epsilon above 0"),
        (lambda: figures.smoothed_loss(4, 1.0), "epsilon must be"),
        (lambda: figures.schedules(60, 60, 64), "n_warmup must be less than n_steps"),
        (lambda: figures.schedules(60, 0, 64), "n_warmup must be"),
        (lambda: figures.loss_curves({}), "runs must hold one to three"),
        (lambda: figures.loss_curves({"a": []}), "must hold rows of losses"),
        (lambda: figures.loss_curves({"a": [[1.0, -1.0]]}), "must hold rows of losses"),
        (lambda: figures.loss_curves({"a": [[1.0, float("nan")]]}), "must hold rows"),
        (lambda: figures.errors_by_count([1], {"a": [[0.1]]}), "counts must be at least two"),
        (lambda: figures.errors_by_count([2, 1], {"a": [[0.1, 0.1]]}), "counts must be"),
        (lambda: figures.errors_by_count([1, 2], {}), "one line or two"),
        (lambda: figures.errors_by_count([1, 2], {"a": [[0.1, 1.1]]}), "shares from 0 to 1"),
        (lambda: figures.errors_by_count([1, 2], {"a": [[0.1]]}), "of shape .seeds, 2."),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(draw: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()
