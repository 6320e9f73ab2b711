from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from course_lib.figures.real_models import cost_of_context, scores_over_book
from course_lib.figures.style import Plot

N = 700
CHAPTERS = [f"{15 * i // N:02d}_name" for i in range(N)]
SCORES = np.random.default_rng(0).uniform(0, 0.5, N)
LENGTHS = [1024, 4096, 16_384, 65_536]

PLOTS: dict[str, Callable[[], Plot]] = {
    "book": lambda: scores_over_book({"where is it?": SCORES, "and that?": SCORES / 2}, CHAPTERS),
    "book, negative too": lambda: scores_over_book({"where?": SCORES - 0.2}, CHAPTERS, best=1),
    "context": lambda: cost_of_context(
        LENGTHS, {"counted": [1e13, 5e13, 4e14, 4e15], "from one length": [1e13, 4e13, 2e14, 7e14]}
    ),
}


def test_the_nearest_paragraphs_of_each_question_are_marked_and_told() -> None:
    plot = PLOTS["book"]()
    best = np.argsort(-SCORES)[:3]
    told = re.findall(r"(\d\.\d\d) in chapter (\d\d)", plot.alt)
    expected = []
    for axes, y in zip(plot.figure.axes, (SCORES, SCORES / 2), strict=True):
        (marked,) = axes.lines
        assert marked.get_xdata().tolist() == best.tolist()
        assert marked.get_ydata().tolist() == y[best].tolist()
        expected += [(f"{y[i]:.2f}", CHAPTERS[i][:2]) for i in best]
    assert told == expected
    assert f"{N} paragraphs of 15 chapters" in plot.alt


def test_the_panels_of_several_questions_have_one_scale_and_say_which_they_are() -> None:
    first, second = PLOTS["book"]().figure.axes
    assert first.get_ylim() == second.get_ylim()
    titles = [axes.get_title(loc="left") for axes in (first, second)]
    assert titles == ["where is it?", "and that?"]


def test_every_chapter_is_labelled_in_its_middle() -> None:
    plot = scores_over_book({"a": [0.1, 0.2, 0.3]}, ["00_a", "00_a", "01_b"])
    axes = plot.figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["00", "01"]
    assert list(axes.get_xticks()) == [0.5, 2.0]


def test_lines_are_drawn_as_given() -> None:
    plot = PLOTS["context"]()
    assert [line.get_ydata()[-1] for line in plot.figure.axes[0].lines] == [4e15, 7e14]
    assert "counted: from 1.0e+13 to 4.0e+15." in plot.alt


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="scores must have one number"):
        scores_over_book({"a": [0.1]}, ["00", "01"])
    with pytest.raises(ValueError, match="scores must have one number"):
        scores_over_book({"a": [0.1]}, ["00"], best=2)
    with pytest.raises(ValueError, match="scores must have one number"):
        scores_over_book({}, ["00"], best=1)
    with pytest.raises(ValueError, match="costs must be two lines"):
        cost_of_context([1, 2], {"one": [1, 2]})
    with pytest.raises(ValueError, match="costs must be two lines"):
        cost_of_context([1, 2], {"one": [1, 2], "two": [0, 1]})
