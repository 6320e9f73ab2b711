from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot, Svg
from course_lib.figures import recurrent_attention as figures
from course_lib.reference.attention import softmax
from tests.figures import drawn

SVG = "{http://www.w3.org/2000/svg}"
SOURCE = ["Я", "видел", "кота", "на", "коврике"]
GLOSS = ["i", "saw", "cat", "on", "mat"]
SCORES = np.array([0.1, 0.9, 3.2, -0.4, 0.6])
LENGTHS = np.arange(2, 19, 2)
HOLDS = np.clip(1 - 0.07 * (LENGTHS - 13).clip(0) - 0.01 * np.arange(3)[:, None], 0, 1)
FALLS = np.clip(1 / (1 + np.exp(LENGTHS - 8)) - 0.02 * np.arange(3)[:, None], 0, 1)
EIGHT = ["вчера", "старая", "женщина", "видела", "большого", "кота", "на", "коврике", "<eos>"]
TEN = ["yesterday", "the", "old", "woman", "saw", "a", "big", "cat", "on", "a", "mat", "<eos>"]


def wide_table(peak: float) -> Plot:
    scores = peak * np.random.default_rng(0).standard_normal((len(TEN), len(EIGHT)))
    return figures.alignment_heatmap(softmax(scores), TEN, EIGHT)


PLOTS: dict[str, Callable[[], Plot]] = {
    "accuracy": lambda: figures.accuracy_by_length(
        LENGTHS,
        {"with attention": HOLDS, "without": FALLS, "without, longer": FALLS[:1] ** 0.3},
        16,
    ),
    "accuracy, perfect and none": lambda: figures.accuracy_by_length(
        LENGTHS, {"with attention": np.ones((3, 9)), "without": np.zeros((3, 9))}, 16
    ),
    "accuracy, one model": lambda: figures.accuracy_by_length([1, 2], {"one": [[0.4, 0.2]]}),
    "alignment, sharp": lambda: wide_table(5.0),
    "alignment, flat": lambda: wide_table(0.1),
    "alignment, with a gloss": lambda: figures.alignment_heatmap(
        np.full((2, 9), 1 / 9),
        ["the", "boy"],
        EIGHT,
        ["yesterday", "old", "woman", "saw", "big", "cat", "on", "mat", ""],
    ),
    "alignment, two words": lambda: figures.alignment_heatmap(
        [[0.9, 0.1], [0.3, 0.7]], ["I", "sleep"], ["я", "сплю"]
    ),
}


def step() -> Svg:
    return figures.decoder_step(SOURCE, SCORES, softmax(SCORES), ["I", "saw", "a"], "cat")


SVGS: dict[str, Callable[[], Svg]] = {
    "bottleneck": lambda: figures.bottleneck_diagram(SOURCE, ["I", "saw", "a", "cat"]),
    "bottleneck, short": lambda: figures.bottleneck_diagram(["я", "сплю"], ["I"]),
    "bottleneck, with a gloss": lambda: figures.bottleneck_diagram(
        SOURCE, ["slowly"] * 4, ["w" * 6] * 5
    ),
    "decoder step": step,
    "decoder step, with a gloss": lambda: figures.decoder_step(
        SOURCE, SCORES, softmax(SCORES), ["I", "saw", "a"], "cat", GLOSS, "the scores are made up"
    ),
    "decoder step, short": lambda: figures.decoder_step(
        ["я", "сплю"], [0.0, 0.0], [0.5, 0.5], ["I"], "sleep"
    ),
}


def texts(svg: Svg) -> list[tuple[str, float, float, float, str]]:
    """Return every line of a drawing: its words, place, size and anchor."""
    root = ElementTree.fromstring(svg._repr_html_())
    return [
        (
            "".join(t.itertext()).replace("\u200b", ""),
            float(t.attrib["x"]),
            float(t.attrib["y"]),
            float(t.attrib["font-size"]),
            t.attrib["text-anchor"],
        )
        for t in root.iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("name", SVGS)
def test_a_drawing_fits_a_phone_and_no_words_meet(name: str) -> None:
    svg = SVGS[name]()
    boxes = []
    for text, x, y, size, anchor in texts(svg):
        assert size * drawn.PHONE / svg.width >= 9, text
        width = 0.62 * size * len(text)  # as wide as a wide sans serif runs
        left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        assert left >= -0.5, text
        assert left + width <= svg.width + 0.5, text
        assert size <= y <= svg.height, text
        boxes.append((text, left, left + width, y))
    for i, (text, left, right, y) in enumerate(boxes):
        for other, a, b, y_other in boxes[:i]:
            assert abs(y - y_other) > 11 or right <= a or b <= left, (text, other)


def test_a_bar_is_as_high_as_its_weight() -> None:
    root = ElementTree.fromstring(step()._repr_html_())
    bars = [r for r in root.iter(f"{SVG}rect") if r.attrib["width"] == "28"]
    heights = np.array([float(r.attrib["height"]) for r in bars])
    assert np.allclose(heights / heights.sum(), softmax(SCORES), atol=0.003)
    feet = {round(float(r.attrib["y"]) + float(r.attrib["height"]), 1) for r in bars}
    assert len(feet) == 1


def test_a_step_shows_and_says_its_scores_weights_and_words() -> None:
    said = [text for text, *_ in texts(step())]
    for text in ["−0.4", "3.2", "0.80", "0.02", *SOURCE, "after “I saw a”", "“cat”"]:
        assert text in said
    assert "кота: score 3.2, weight 0.80." in step().alt
    assert "на: score −0.4, weight 0.02." in step().alt


def test_the_bottleneck_has_a_state_for_each_word_and_one_vector() -> None:
    said = [text for text, *_ in texts(SVGS["bottleneck"]())]
    assert [t for t in said if re.fullmatch(r"s\d", t)] == ["s1", "s2", "s3", "s4", "s5"]
    assert [t for t in said if re.fullmatch(r"h\d", t)] == ["h1", "h2", "h3", "h4", "h5"]
    assert said.count("one vector, whatever the length") == 1
    assert [t for t in said if t in {"<bos>", "I", "saw", "a", "cat", "<eos>"}] == [
        "I", "<bos>", "saw", "I", "a", "saw", "cat", "a", "<eos>", "cat",
    ]  # fmt: skip  # above each state what it predicts, below it what it reads
    assert (
        "reads <bos>, I, saw, a, cat and predicts I, saw, a, cat, <eos>" in SVGS["bottleneck"]().alt
    )


def test_what_the_words_mean_and_what_is_made_up_is_written_below_them() -> None:
    svg = SVGS["decoder step, with a gloss"]()
    places = {text: (x, y) for text, x, y, *_ in texts(svg)}
    for word, meaning in zip(SOURCE, GLOSS, strict=True):
        (x, y), (x_below, y_below) = places[word], places[meaning]
        assert x == x_below
        assert 0 < y_below - y < 20
    assert "the scores are made up" in places
    assert svg.alt.endswith("The scores are made up.")
    plot = PLOTS["alignment, with a gloss"]()
    assert "женщина\nwoman" in [text for text, *_ in drawn.words(plot.figure)]


def test_words_are_escaped() -> None:
    svg = figures.decoder_step(["<b>", "&"], [0.0, 0.0], [0.5, 0.5], ["<i>"], '"')
    said = [text for text, *_ in texts(svg)]
    assert "<b>" in said
    assert "after “<i>”" in said


def test_the_heat_map_names_where_each_word_looked() -> None:
    plot = PLOTS["alignment, two words"]()
    assert "I looks at я (0.90)." in plot.alt
    assert "sleep looks at сплю (0.70), я (0.30)." in plot.alt
    numbers = [t for t, _, _ in drawn.words(plot.figure) if re.fullmatch(r"\d\.\d\d", t)]
    assert numbers == ["0.90", "0.10", "0.30", "0.70"]


def test_the_accuracy_plot_has_every_run_and_the_mean() -> None:
    plot = PLOTS["accuracy"]()
    (axes,) = plot.figure.axes
    drawn_lines = [np.asarray(line.get_ydata()) for line in axes.lines]
    for runs in (HOLDS, FALLS):
        for row in [*runs, runs.mean(axis=0)]:
            assert any(np.array_equal(row, line) for line in drawn_lines)
    assert len(drawn_lines) == 9  # the third model has one run
    assert f"16: {HOLDS[:, 7].mean():.2f}" in plot.alt
    assert f"10: {FALLS[:, 4].mean():.2f}" in plot.alt


def test_only_lengths_that_were_not_trained_are_shaded() -> None:
    def words(longest: int | None) -> list[str]:
        plot = figures.accuracy_by_length([2, 4, 6], {"one": [[1.0, 0.5, 0.2]]}, longest)
        return [t for t, _, _ in drawn.words(plot.figure)]

    assert "longer\nthan in\ntraining" in words(4)
    assert "longer\nthan in\ntraining" not in words(6)
    assert "longer\nthan in\ntraining" not in words(None)


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    two = ["a", "b"]
    for call, said in (
        (lambda: figures.bottleneck_diagram(["a"], two), "source must be 2 to 5 words"),
        (lambda: figures.bottleneck_diagram(two, list("abcde")), "target must be 1 to 4 words"),
        (lambda: figures.bottleneck_diagram(["a", ""], two), "source must be 2 to 5 words"),
        (lambda: figures.bottleneck_diagram("ab", two), "source must be 2 to 5 words"),
        (lambda: figures.decoder_step(two, [0.0], [0.5, 0.5], two, "c"), "scores must be 2"),
        (lambda: figures.decoder_step(two, [0.0, np.nan], [1, 0], two, "c"), "scores must be 2"),
        (lambda: figures.decoder_step(two, [0.0, 1.0], [1.0], two, "c"), "weights must be 2"),
        (lambda: figures.decoder_step(two, [0, 1], [0.5, 0.6], two, "c"), "weights must lie"),
        (lambda: figures.decoder_step(two, [0, 1], [-0.5, 1.5], two, "c"), "weights must lie"),
        (lambda: figures.decoder_step(two, [0, 1], [0, 1], [], "c"), "written must be 1 to 5"),
        (lambda: figures.decoder_step(two, [0, 1], [0, 1], two, ""), "next_word must be 1 to 1"),
        (lambda: figures.alignment_heatmap([[1.0, 0.0]], ["a"], ["b"]), "weights must have a row"),
        (lambda: figures.alignment_heatmap([[1.5]], ["a"], ["b"]), "weights must lie between"),
        (
            lambda: figures.alignment_heatmap(np.zeros((1, 11)), ["a"], list("abcdefghijk")),
            "weights must have a row",
        ),
        (lambda: figures.accuracy_by_length([2], {"a": [[1.0]]}), "lengths must be at least two"),
        (lambda: figures.accuracy_by_length([2, 2], {"a": [[1, 1]]}), "lengths must be at least"),
        (lambda: figures.accuracy_by_length([1, 2], {"a": [1, 1]}), r"accuracy\['a'\] must be"),
        (lambda: figures.accuracy_by_length([1, 2], {"a": [[1, 2]]}), r"accuracy\['a'\] must be"),
        (lambda: figures.accuracy_by_length([1, 2], {}), "accuracy must have one to three"),
        (lambda: figures.bottleneck_diagram(two, two, ["c"]), "gloss must be 2 to 2 words"),
        (lambda: figures.bottleneck_diagram(two, ["seven77"]), "target must be 1 to 4 words of 1"),
        (
            lambda: figures.decoder_step(two, [0, 1], [0, 1], two, "c", note="long " * 11),
            "note must be a line",
        ),
        (
            lambda: figures.alignment_heatmap([[1.0]], ["a"], ["b"], []),
            "gloss must have a meaning for each of 1",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
