from __future__ import annotations

import re
from collections.abc import Callable
from math import log
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor

from course_lib.data.vocabulary import BOS, EOS
from course_lib.decoding import BeamStep, beam_search, generate
from course_lib.figures.decoding import (
    accuracy_by_position,
    beam_tree,
    cache_growth,
    decoding_times,
    slopes,
    what_filters_keep,
)
from course_lib.figures.style import Plot, StepThrough
from course_lib.reference.attention import causal_mask

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["a", "cat", "sat", "on", "the", "mat"]
BLUE, GREEN = "#0072B2", "#009E73"
TREE = {
    (): {"the": 0.55, "a": 0.45},
    ("the",): {"cat": 0.40, "dog": 0.35, "bird": 0.25},
    ("a",): {"cat": 0.70, "dog": 0.20, "bird": 0.10},
    ("the", "cat"): {"<eos>": 0.55, "sleeps": 0.45},
    ("the", "dog"): {"sleeps": 0.90, "<eos>": 0.10},
    ("a", "cat"): {"sleeps": 0.80, "<eos>": 0.20},
    **{(a, n): {"<eos>": 1.0} for a, n in (("the", "bird"), ("a", "dog"), ("a", "bird"))},
    **{(a, n, "sleeps"): {"<eos>": 1.0} for a, n in (("the", "cat"), ("the", "dog"), ("a", "cat"))},
}
SURE, UNSURE = np.array([0.9, 0.05, 0.03, 0.02]), np.array([0.3, 0.3, 0.3, 0.1])
LINES = {"right letters": np.linspace(0.6, 1, 24).reshape(3, 8), "its own": np.full((3, 8), 0.5)}
TIMES = {"without a cache": [0.01, 0.02, 0.05, 0.4], "with": [0.01, 0.02, 0.04, 0.081]}

PLOTS: dict[str, Callable[[], Plot]] = {
    "filters": lambda: what_filters_keep({"sure": SURE, "unsure": UNSURE}),
    "accuracy": lambda: accuracy_by_position(LINES, "letter"),
    "accuracy, three and chance": lambda: accuracy_by_position(
        {**LINES, "no error so far": np.zeros((3, 8))}, chance=0.1
    ),
    "times": lambda: decoding_times([16, 64, 256, 1024], TIMES),
    "times of one": lambda: decoding_times([16, 64, 256], {"naive": [1, 2, 300]}),
}
STEPS: dict[str, Callable[[], StepThrough]] = {
    "beam of 2": lambda: beam_tree(TREE, 2),
    "beam of 3": lambda: beam_tree(TREE, 3, shown=0),
    "cache": lambda: cache_growth(WORDS),
    "cache, long": lambda: cache_growth([*WORDS, "and", "slept"], prompt=1),
}


def groups(figure: StepThrough) -> list[ElementTree.Element]:
    """Return the states of a drawing, in order."""
    html = figure._repr_html_()
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    found = [g for g in svg.iter(f"{SVG}g") if "data-step" in g.attrib]
    assert [int(g.attrib["data-step"]) for g in found] == list(range(len(figure.buttons)))
    return found


def texts(group: ElementTree.Element) -> list[str]:
    return ["".join(t.itertext()) for t in group.iter(f"{SVG}text")]


def boxes(group: ElementTree.Element) -> list[tuple[str, str, str]]:
    """Return word, probability and look of every hypothesis that is drawn."""
    said = texts(group)
    looks = []
    for rect in group.iter(f"{SVG}rect"):
        looks.append({BLUE: "kept", GREEN: "finished"}.get(rect.attrib["stroke"], "dropped"))
    return list(zip(said[::2], said[1::2], looks, strict=True))


def levels(group: ElementTree.Element) -> list[int]:
    """Return how many words stand before the last one of each hypothesis."""
    return [round(float(rect.attrib["x"]) / 90) for rect in group.iter(f"{SVG}rect")]


@pytest.mark.parametrize("name", STEPS)
def test_a_drawing_fits_a_phone_and_shows_one_state(name: str) -> None:
    figure = STEPS[name]()
    assert figure.width <= 360
    states = groups(figure)
    visible = [i for i, g in enumerate(states) if "display:none" not in g.attrib.get("style", "")]
    assert visible == [figure.shown]
    for group in states:
        for rect in group.iter(f"{SVG}rect"):
            assert float(rect.attrib["x"]) >= 0
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= 358
            assert float(rect.attrib["y"]) >= 0
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= figure.height
        for text in group.iter(f"{SVG}text"):
            assert float(text.attrib["font-size"]) * 340 / 360 >= 9
    assert figure._repr_html_() == STEPS[name]()._repr_html_()


class Tree:
    """The tree as a model that the library can search."""

    vocabulary = ("<pad>", "<bos>", "<eos>", "the", "a", "cat", "dog", "bird", "sleeps")

    def start(
        self, src: Tensor, src_lengths: Tensor, *, max_length: int, use_cache: bool
    ) -> tuple[Tensor, list[tuple[str, ...]]]:
        return torch.full((len(src), 1), BOS), [()] * len(src)

    def step(
        self, ids: Tensor, state: list[tuple[str, ...]]
    ) -> tuple[Tensor, list[tuple[str, ...]]]:
        state = [
            before if i == BOS else (*before, self.vocabulary[i])
            for before, i in zip(state, ids[:, 0].tolist(), strict=True)
        ]
        logits = torch.full((len(state), 1, len(self.vocabulary)), -torch.inf)
        for row, before in enumerate(state):
            for word, p in TREE.get(before, {"<eos>": 1.0}).items():
                logits[row, 0, self.vocabulary.index(word)] = log(p)
        return logits, state

    def reorder(self, state: list[tuple[str, ...]], rows: Tensor) -> list[tuple[str, ...]]:
        return [state[i] for i in rows.tolist()]


ONE = (torch.ones(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64))


@pytest.mark.parametrize("width", [2, 3, 4])
def test_the_beam_drawn_is_the_librarys(width: int) -> None:
    figure = beam_tree(TREE, width)
    steps: list[BeamStep] = []
    found = beam_search(
        Tree(), *ONE, max_length=6, beam_width=width, length_penalty=0.0, on_step=steps.append
    )  # fmt: skip
    assert len(steps) == len(figure.buttons) - 1
    for i, (step, group) in enumerate(zip(steps, groups(figure)[1:], strict=True)):
        looks = [(p, look) for (_, p, look), level in zip(boxes(group), levels(group), strict=True)
                 if level == i]  # fmt: skip
        goes_on = step.scores.gather(1, step.kept).exp()[step.tokens.gather(1, step.kept) != EOS]
        over = i == len(steps) - 1  # what still could go on doesn't any more
        expected = [f"{p:.3f}" for p in goes_on.tolist() if p > 0 and not over]
        assert sorted(p for p, look in looks if look == "kept") == sorted(expected)
        ended = [f"{p:.3f}" for p in step.scores[step.finished].exp().tolist()]
        assert sorted(p for p, look in looks if look == "finished") == sorted(ended)
    best = [Tree.vocabulary[t] for t in found.ids[0, 0].tolist()]
    words = " ".join(best).replace("<eos>", "‹eos›")
    assert f"Best of all: “{words}”, {found.scores[0, 0].exp():.3f}." in figure.captions[-1]


def test_greedy_decoding_drawn_is_the_librarys() -> None:
    figure = beam_tree(TREE, 2)
    ids, scores = generate(Tree(), *ONE, max_length=6, return_scores=True)
    words = " ".join(Tree.vocabulary[t] for t in ids[0].tolist()).replace("<eos>", "‹eos›")
    assert figure.captions[0] == f"Greedy: “{words}”, total {scores[0].exp():.3f}."
    looks = boxes(groups(figure)[0])
    assert [word for word, _, look in looks if look != "dropped"] == ["the", "cat", "‹eos›"]
    assert Tree.vocabulary.index("<eos>") == EOS


def test_no_box_of_the_tree_lies_on_another() -> None:
    for group in groups(beam_tree(TREE, 3)):
        places = [(float(r.attrib["x"]), float(r.attrib["y"])) for r in group.iter(f"{SVG}rect")]
        for i, (x, y) in enumerate(places):
            for other_x, other_y in places[:i]:
                assert abs(x - other_x) >= 78 or abs(y - other_y) >= 34


@pytest.mark.parametrize(("words", "prompt"), [(WORDS, 3), (WORDS, 1), (WORDS[:3], 2)])
def test_the_cells_computed_are_those_of_attention_with_a_cache(
    words: list[str], prompt: int
) -> None:
    figure, n = cache_growth(words, prompt), len(words)
    for i, (t, group) in enumerate(zip(range(prompt, n + 1), groups(figure), strict=True)):
        new = t if i == 0 else 1
        rects = list(group.iter(f"{SVG}rect"))
        ys = sorted({float(r.attrib["y"]) for r in rects})
        xs = sorted({float(r.attrib["x"]) for r in rects})
        look = np.full((len(ys), n), "", dtype=object)
        for r in rects:
            place = ys.index(float(r.attrib["y"])), xs.index(float(r.attrib["x"]))
            stroke = r.attrib["stroke"]
            look[place] = {BLUE: "new", GREEN: "kept"}.get(
                stroke, "past" if "stroke-dasharray" in r.attrib else "other"
            )
        scores, kept = look[:t, :t], look[-2:]
        mask = causal_mask(new, t)
        assert ((scores == "new")[t - new :] == mask).all()
        assert ((scores == "past")[: t - new] == causal_mask(t)[: t - new, :t]).all()
        assert (kept[:, : t - new] == "kept").all()
        assert (kept[:, t - new : t] == "new").all()
        assert (kept[:, t:] == "other").all()
        assert ((look[t:n] == "other") == causal_mask(n)[t:]).all()  # still to come, in outline
        if i:
            said = f"Token {t} alone: 1 query, 1 key, 1 value, and {mask.sum()} scores."
            assert figure.captions[i].startswith(said)


def test_the_filters_drawn_keep_what_is_said() -> None:
    plot = what_filters_keep({"sure": SURE, "unsure": UNSURE}, k=2, p=0.92, ratio=0.05)
    assert "sure: top-k 2 keeps 2 with 0.95 in all; top-p 0.92 keeps 2 with 0.95" in plot.alt
    assert "min-p 0.05 keeps 2 with 0.95 in all. unsure: top-k 2 keeps 3 with 0.90" in plot.alt
    for axes, kept in zip(plot.figure.axes, (2, 3, 2, 4, 2, 4), strict=True):
        filled = [bar for bar in axes.patches if bar.get_facecolor()[:3] != (1, 1, 1)]
        assert len(filled) == kept
        assert len(axes.patches) == 4


def test_a_slope_is_drawn_beside_its_two_points_only() -> None:
    plot = PLOTS["times"]()
    for line in plot.figure.axes[0].lines[1::2]:
        np.testing.assert_allclose(line.get_xdata(), [128, 2048])
        (low, high), (slope,) = line.get_ydata(), slopes(line.get_xdata(), line.get_ydata())
        marks = next(m for m in plot.figure.axes[0].lines[::2] if m.get_color() == line.get_color())
        np.testing.assert_allclose(slope, slopes(marks.get_xdata(), marks.get_ydata())[-1])
        assert low < marks.get_ydata()[-2] < marks.get_ydata()[-1] < high


def test_slopes_are_those_of_powers() -> None:
    x = np.array([2.0, 8.0, 16.0])
    np.testing.assert_allclose(slopes(x, 3 * x**2.5), [2.5, 2.5])
    plot = decoding_times(x, {"a": x**2, "b": 5 * x})
    assert "T as" not in plot.alt.split("Seconds")[0]
    assert "power of 2.0" in plot.alt
    assert "power of 1.0" in plot.alt


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    short = {(): {"a": 0.5, "<eos>": 0.5}}
    for call, said in (
        (lambda: beam_tree(TREE, 1), "width must be a whole number of at least 2"),
        (lambda: beam_tree(short), "table must say what follows ('a',)"),
        (lambda: beam_tree({(): {"<eos>": 0.5}}), "table must have probabilities that sum to 1"),
        (lambda: beam_tree(TREE, shown=5), "table must be searched in at most 4 steps"),
        (lambda: cache_growth(["a", "b"], 1), "tokens must be from 3 to 8"),
        (lambda: cache_growth(WORDS, 6), "tokens must be from 3 to 8"),
        (lambda: cache_growth(WORDS, 0), "prompt must be a whole number"),
        (lambda: what_filters_keep({"one": SURE}), "distributions must be two; got 1"),
        (lambda: what_filters_keep({"a": SURE, "b": SURE[::-1]}), "distributions must fall"),
        (lambda: what_filters_keep({"a": SURE, "b": SURE / 2}), "distributions must fall"),
        (lambda: accuracy_by_position({}), "lines must be one to three tables"),
        (lambda: accuracy_by_position({"a": [0.5]}), "lines must be one to three tables"),
        (lambda: accuracy_by_position({"a": [[1.5]]}), "lines must be shares from 0 to 1"),
        (lambda: decoding_times([1, 2], {"a": [1, 2]}), "lengths must be at least three"),
        (lambda: decoding_times([1, 2, 2], {"a": [1, 2, 3]}), "lengths must be at least three"),
        (lambda: decoding_times([1, 2, 3], {}), "seconds must be of one or two; got 0"),
        (lambda: decoding_times([1, 2, 3], {"a": [1, 0, 3]}), "seconds must be 3 positive"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
            call()
