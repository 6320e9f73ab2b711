from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from course_lib.blocks.multi_head import merge_heads, split_heads
from course_lib.figures import multi_head
from course_lib.figures.multi_head import (
    accuracy_by_heads,
    head_lines,
    masks_over_sentence,
    split_and_glue,
)
from course_lib.figures.style import StepThrough
from course_lib.reference.attention import causal_mask
from course_lib.reference.masks import combine_masks, padding_mask
from tests.figures import drawn

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["I", "saw", "a", "cat", "on", "a", "mat"]
RNG = np.random.default_rng(0)
TABLES = RNG.dirichlet(np.ones(9), size=(12, 9))

STEPS = {
    "split_and_glue": split_and_glue,
    "split_and_glue of 3 heads": lambda: split_and_glue(2, 6, 3),
    "masks_over_sentence": lambda: masks_over_sentence(WORDS),
    "masks_over_sentence, short": lambda: masks_over_sentence(["yes"], 1),
    "head_lines": lambda: head_lines(["[CLS]", *WORDS, "[SEP]"], TABLES),
    "head_lines, one": lambda: head_lines(["a", "b"], [np.eye(2)]),
}


def groups(figure: StepThrough) -> list[ElementTree.Element]:
    """Return the states of a drawing, in order."""
    html = figure._repr_html_()
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    found = [g for g in svg.iter(f"{SVG}g") if "data-step" in g.attrib]
    assert [int(g.attrib["data-step"]) for g in found] == list(range(len(figure.buttons)))
    return found


def texts(group: ElementTree.Element) -> list[str]:
    found = ["".join(t.itertext()) for t in group.iter(f"{SVG}text")]
    return [t.replace("\u200b", "") for t in found]


def cells(group: ElementTree.Element) -> list[tuple[float, float, int, str]]:
    """Return where each cell with a number stands: y, x, its number, its colour."""
    found, elements = [], list(group)
    for rect, text in pairwise(elements):
        if rect.tag == f"{SVG}rect" and text.tag == f"{SVG}text":
            place = int("".join(text.itertext()))
            at = float(rect.attrib["y"]), float(rect.attrib["x"])
            found.append((*at, place, rect.attrib["fill"]))
    return found


@pytest.mark.parametrize("name", STEPS)
def test_a_drawing_fits_a_phone_and_shows_one_state(name: str) -> None:
    figure = STEPS[name]()
    assert figure.width <= 360
    states = groups(figure)
    visible = [i for i, g in enumerate(states) if "display:none" not in g.attrib.get("style", "")]
    assert visible == [figure.shown]
    for group in states:
        for rect in group.iter(f"{SVG}rect"):
            right = float(rect.attrib["x"]) + float(rect.attrib["width"])
            bottom = float(rect.attrib["y"]) + float(rect.attrib["height"])
            assert right <= 358
            assert bottom <= figure.height
        for text in group.iter(f"{SVG}text"):
            assert float(text.attrib["font-size"]) * 340 / 360 >= 9
    assert figure._repr_html_() == STEPS[name]()._repr_html_()


@pytest.mark.parametrize(("n", "d", "h"), [(3, 4, 2), (2, 6, 3), (2, 4, 2), (2, 6, 2)])
def test_each_step_says_pytorchs_shapes_and_strides_and_where_its_numbers_lie(
    n: int, d: int, h: int
) -> None:
    figure = split_and_glue(n, d, h)
    x = torch.arange(n * d).reshape(n, d)
    own = torch.arange(n * d).reshape(h, n, d // h)
    floats = [a.float() for a in (x, own)]
    states = {
        "project": x,
        "cut": x.reshape(n, h, d // h),
        "turn": split_heads(floats[0], h).long(),
        "attend": own,
        "turn back": own.transpose(0, 1),
        "glue": merge_heads(floats[1]),
        "mix": x,
    }
    strides = {name: a.stride() for name, a in states.items()}
    strides["turn"] = split_heads(floats[0], h).stride()
    for name, group in zip(figure.buttons, groups(figure), strict=True):
        said = f"shape {tuple(states[name].shape)}, strides {strides[name]}"
        assert said in texts(group)
        assert f"{name}, {said}" in figure.alt
        drawn_cells = cells(group)
        matrix, memory = drawn_cells[: n * d], drawn_cells[n * d :]
        assert [place for *_, place, _ in memory] == list(range(n * d))
        # By rows from top to bottom, by heads or columns from left to right.
        places = [place for *_, place, _ in sorted(matrix, key=lambda c: (c[0], c[1]))]
        if name in ("turn", "attend"):
            expected = states[name].transpose(0, 1).reshape(-1)
        elif name == "glue":
            expected = x.reshape(-1)  # copied: in order
        else:
            expected = states[name].reshape(-1)
        assert places == [int(p) for p in expected], name
        colour = {place: ink for *_, place, ink in memory}
        assert all(colour[place] == ink for *_, place, ink in matrix)


def test_the_copy_brings_the_heads_numbers_into_the_order_that_merging_does() -> None:
    n, d, h = 3, 4, 2
    heads = torch.arange(h).repeat_interleave(n * d // h).reshape(h, n, d // h)
    merged = merge_heads(heads.float()).reshape(-1)
    figure = split_and_glue(n, d, h)
    memory = cells(groups(figure)[figure.buttons.index("glue")])[n * d :]
    inks = [ink for *_, ink in memory]
    assert inks == [multi_head._HEADS[int(i)] for i in merged]


def test_the_masks_drawn_are_those_of_the_reference() -> None:
    figure, n = masks_over_sentence(WORDS, 2), 9
    right = padding_mask(np.array([7]), n)[0, 0]
    left = padding_mask(np.array([7]), n, side="left")[0, 0]
    masks = [
        causal_mask(n),
        np.broadcast_to(right, (n, n)),
        combine_masks(right, causal_mask(n)),
        combine_masks(left, causal_mask(n)),
    ]
    for name, mask, group in zip(figure.buttons, masks, groups(figure), strict=True):
        filled = [r for r in group.iter(f"{SVG}rect") if "rx" in r.attrib]
        at = {(float(r.attrib["y"]), float(r.attrib["x"])) for r in filled}
        ys = sorted(
            {float(r.attrib["y"]) for r in group.iter(f"{SVG}rect") if "rx" not in r.attrib}
        )
        xs = sorted(
            {float(r.attrib["x"]) for r in group.iter(f"{SVG}rect") if "rx" not in r.attrib}
        )
        seen = np.array([[(y + 4, x + 4) in at for x in xs] for y in ys])
        assert (seen == mask).all(), name
        assert f"{name}: {mask.sum()} of 81 pairs" in figure.alt
        framed = [r for r in group.iter(f"{SVG}rect") if r.attrib.get("stroke-width") == "3"]
        assert len(framed) == (~mask.any(axis=-1)).sum()
        labels = texts(group)
        assert labels.count("‹pad›") == 4
        assert labels[0] == ("‹pad›" if name == "on the left" else "I")


def test_lines_are_as_wide_as_weights_and_what_is_said_is_where_most_goes() -> None:
    figure = head_lines([str(i) for i in range(9)], TABLES)
    for table, group in zip(TABLES, groups(figure), strict=True):
        lines = list(group.iter(f"{SVG}line"))
        assert len(lines) == (table >= 0.04).sum()
        widths = [float(line.attrib["stroke-width"]) for line in lines]
        np.testing.assert_allclose(widths, 0.6 + 5 * table[table >= 0.04], atol=0.006)
    before = np.eye(5, k=-1)
    before[0, 0] = 1.0
    last = np.tile([0.1, 0.0, 0.0, 0.1, 0.8], (5, 1))
    even = np.full((5, 5), 0.2)
    said = head_lines(list("abcde"), [before, np.eye(5), last, even], first=1).captions
    assert said[0] == "Head 0: mostly the token before, mean weight 1.00."
    assert said[1] == "Head 1: mostly the token itself, mean weight 1.00."
    assert said[2] == "Head 2: mostly “e”, the last, mean weight 0.80."
    assert re.fullmatch(r"Head 3: spread out; most goes to .*, mean weight 0.20\.", said[3])


def test_no_word_of_the_plot_is_cut_off_or_on_another_and_it_says_every_range() -> None:
    heads, shares = [1, 2, 4, 8, 16, 32], np.linspace(0.4, 1.0, 18).reshape(6, 3)
    more = {1: [0.8, 0.81, 0.82], 32: [0.9, 0.95, 0.92]}
    plot = accuracy_by_heads(heads, shares, more, 32, (500, 2500))
    assert drawn.faults(plot) == []
    first, second = plot.alt.split("After 500 steps, ")[1].split("After 2500 steps, ")
    for h, row in zip(heads, shares, strict=True):
        assert f"{h} head{'s' * (h > 1)}: {row.min():.2f} to {row.max():.2f}" in first
    assert second == "1 head: 0.80 to 0.82; 32 heads: 0.90 to 0.95."
    assert plot.png() == accuracy_by_heads(heads, shares, more, 32, (500, 2500)).png()


def test_equal_seeds_stand_side_by_side_around_their_number_of_heads() -> None:
    plot = accuracy_by_heads([1, 2], np.ones((2, 3)), {2: [1, 1, 1]}, 8, (1, 2))
    axes = plot.figure.axes[0]
    dots, triangles = (line.get_xdata() for line in axes.lines[:2])
    assert len(np.unique(dots)) == 6
    np.testing.assert_allclose(np.exp(np.log(dots).reshape(2, 3).mean(axis=1)), [1, 2])
    np.testing.assert_allclose(triangles, dots[3:])


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    good = np.eye(2)[None]

    def by_heads(accuracy: list, patient: dict) -> None:
        accuracy_by_heads([1, 2], accuracy, patient, 8, (1, 2))

    for call, said in (
        (lambda: split_and_glue(5, 2, 2), "n must be from 2 to 4"),
        (lambda: split_and_glue(3, 6, 2), "n must be from 2 to 4"),
        (lambda: split_and_glue(3, 4, 3), "n_heads must divide d, 4; got 3"),
        (lambda: split_and_glue(1, 4, 2), "n must be from 2 to 4"),
        (lambda: split_and_glue(3, 4, 4), "n must be from 2 to 4"),
        (lambda: split_and_glue(3, 4, 1), "n must be from 2 to 4"),
        (lambda: masks_over_sentence([], 2), "words and n_padding must be 9 tokens"),
        (lambda: masks_over_sentence(WORDS, 3), "words and n_padding must be 9 tokens"),
        (lambda: masks_over_sentence(WORDS, 0), "n_padding must be a whole number"),
        (lambda: head_lines(["a"], good), "tokens must be from 2 to 9"),
        (lambda: head_lines(["a", "b"], good[0]), "weights must have the shape"),
        (lambda: head_lines(["a", "b"], 2 * good), "weights must be rows of weights"),
        (lambda: head_lines(["a", "b"], good, shown=1), "shown must be below 1"),
        (lambda: by_heads([[0.5]], {1: [0.5]}), "accuracy must have a row"),
        (lambda: by_heads([[2], [1]], {1: [0.5]}), "accuracy must be shares"),
        (lambda: by_heads([[1], [1]], {1: [-1.0]}), "patient must be shares"),
        (lambda: by_heads([[1], [1]], {1: [0.5, 0.6]}), r"patient must have 1 shares for some of"),
        (
            lambda: by_heads([[1], [1]], {4: [0.5]}),
            r"patient must have 1 shares for some of \[1, 2",
        ),
        (lambda: by_heads([[1], [1]], {}), "patient must have 1 shares"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
