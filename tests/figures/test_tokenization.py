from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib.figures import Plot
from course_lib.figures import tokenization as figures
from course_lib.figures.style import StepThrough
from course_lib.tokenizers.bpe import apply_merges, count_pairs, train
from course_lib.tokenizers.byte_level import ByteLevelBPE

SVG = "{http://www.w3.org/2000/svg}"
WORDS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
MERGES = train(WORDS, 7)
RANKED = [(b"l", b"e"), (b"a", b"b"), (b"u", b"n"), (b"ab", b"le"), (b"n", b"a")]
PIECES = {"English": 13, "Turkish": 20, "Greek": 65, "Chinese": 29, "Thai": 78, "Hindi": 78}
SIZES, LENGTHS = [256, 512, 1024, 2048, 4096, 8192], [43839, 21345, 15990, 12976, 11399, 10719]
NUMBERS = [16, 32, 64, 128, 256]
SECONDS = {"naive": [0.1, 0.2, 0.4, 0.8, 1.6], "fast": [0.02, 0.022, 0.025, 0.03, 0.04]}

PLOTS: dict[str, Callable[[], Plot]] = {
    "pieces_by_language": lambda: figures.pieces_by_language(PIECES),
    "pieces_by_language of 15": lambda: figures.pieces_by_language(
        {f"language {i}": 13 + 5 * i for i in range(15)}
    ),
    "pieces_by_language, all alike": lambda: figures.pieces_by_language(dict.fromkeys(PIECES, 1)),
    "lengths_by_vocabulary": lambda: figures.lengths_by_vocabulary(SIZES, LENGTHS, 9520),
    "lengths_by_vocabulary, two sizes": lambda: figures.lengths_by_vocabulary(
        [256, 512], [10**6, 4 * 10**5], 2 * 10**5
    ),
    "training_times": lambda: figures.training_times(NUMBERS, SECONDS),
    "training_times of one": lambda: figures.training_times([1, 2], {"naive": [1e-5, 1e3]}),
}

STEPS: dict[str, Callable[[], StepThrough]] = {
    "merge_steps": lambda: figures.merge_steps(WORDS, 7),
    "merge_steps, larger": lambda: figures.merge_steps(
        {"banan": 999, "nanas": 100, "abba": 20, "<&": 3, "ab": 2, "ba": 1}, 8
    ),
    "encoding_steps": lambda: figures.encoding_steps("unable", RANKED),
    "encoding_steps of spaces and tags": lambda: figures.encoding_steps(" <b>& </b>", [(" ", "<")]),
}


def groups(figure: StepThrough) -> dict[int, ElementTree.Element]:
    (svg,) = re.findall(r"<svg.*</svg>", figure._repr_html_(), re.DOTALL)
    found = ElementTree.fromstring(svg).iter(f"{SVG}g")
    return {int(g.attrib["data-step"]): g for g in found}


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def rectangles(root: ElementTree.Element, colour: str) -> list[ElementTree.Element]:
    return [r for r in root.iter(f"{SVG}rect") if r.attrib["fill"] == colour]


@pytest.mark.parametrize("name", STEPS)
def test_every_state_fits_a_phone_with_words_that_can_be_read(name: str) -> None:
    figure = STEPS[name]()
    assert figure.width <= 360
    for group in groups(figure).values():
        for text in group.iter(f"{SVG}text"):
            size = float(text.attrib["font-size"])
            assert size >= 10
            words, anchor = "".join(text.itertext()), text.attrib["text-anchor"]
            width = 0.56 * size * len(words)
            left = float(text.attrib["x"]) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
            assert left >= -1 and left + width <= figure.width + 1, words
            assert 10 <= float(text.attrib["y"]) <= figure.height - 3, words
        for box in group.iter(f"{SVG}rect"):
            assert float(box.attrib["x"]) >= 0
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= figure.width
            assert float(box.attrib["y"]) + float(box.attrib["height"]) <= figure.height
    assert repr(figure) == figure.alt


@pytest.mark.parametrize("name", STEPS)
def test_a_step_through_has_a_state_for_each_button_and_shows_the_first(name: str) -> None:
    figure = STEPS[name]()
    assert sorted(groups(figure)) == list(range(len(figure.buttons)))
    shown = [k for k, group in groups(figure).items() if "style" not in group.attrib]
    assert shown == [0]
    html = figure._repr_html_()
    assert escape(figure.captions[0]) in html.split("<p ")[1]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|\bsrc=|\bid=|fetch|import", html)


# ---- Merge by merge ------------------------------------------------------------------------------


def test_every_state_shows_the_words_as_the_merges_so_far_cut_them_and_their_pairs() -> None:
    for k, group in groups(figures.merge_steps(WORDS, 7)).items():
        cut = {word: apply_merges(word, MERGES[:k]) for word in WORDS}
        counts = count_pairs({symbols: WORDS[word] for word, symbols in cut.items()})
        expected = [
            *(t for word, symbols in cut.items() for t in (f"{WORDS[word]} ×", *symbols)),
            *(t for (a, b), n in counts.items() for t in (f"{a} {b}", str(n))),
            *([] if counts else ["none left"]),
            *(f"{a} + {b}" for a, b in MERGES[:k]),
            *([] if k else ["none yet"]),
        ]
        assert texts(group) == expected


def test_the_pair_that_is_merged_next_is_marked_in_the_words_and_in_the_list() -> None:
    for k, group in groups(figures.merge_steps(WORDS, 7)).items():
        marked = rectangles(group, figures._ORANGE)
        bold = [t.text for t in group.iter(f"{SVG}tspan")]
        if k == len(MERGES):
            assert marked == [] and bold == []
            continue
        left, right = MERGES[k]
        cut = [apply_merges(word, MERGES[:k]) for word in WORDS]
        places = sum((left, right) in pairwise(c) for c in cut)
        assert len(marked) == 2 * places + 1, "both boxes in every word, and the pair's bar"
        assert bold[0] == f"{left} {right}"


def test_bars_are_as_long_as_their_counts() -> None:
    group = groups(figures.merge_steps(WORDS, 2))[0]
    bars = [r for r in group.iter(f"{SVG}rect") if r.attrib["rx"] == "2"]
    widths = [float(bar.attrib["width"]) for bar in bars]
    counts = list(count_pairs(WORDS).values())
    assert widths == pytest.approx([52 * n / 20 for n in counts], abs=0.06)


def test_a_word_is_as_wide_after_a_merge_as_before() -> None:
    ends = []
    for group in groups(figures.merge_steps(WORDS, 7)).values():
        boxes = [r for r in group.iter(f"{SVG}rect") if r.attrib["height"] == "27"]
        right = {}
        for box in boxes:
            x, y, width = (float(box.attrib[key]) for key in ("x", "y", "width"))
            if x < 180 and y < 230:
                right[y] = max(right.get(y, 0.0), x + width)
        ends.append(right)
    assert len(ends[0]) == 5 and all(end == ends[0] for end in ends)


def test_the_captions_of_the_merges_say_why() -> None:
    captions = figures.merge_steps(WORDS, 7).captions
    assert captions[0] == "u + g occurs most often, 20 times, in 3 words. It is merged next."
    assert captions[3] == "p + un occurs most often, 12 times, in 1 word. It is merged next."
    assert captions[4] == (
        "A tie: p + ug and hug + s occur 5 times each. The pair met first is merged, p + ug."
    )
    assert captions[7].startswith("No pair is left: after 7 merges every word is a single symbol.")


def test_merges_that_run_out_leave_fewer_buttons() -> None:
    assert figures.merge_steps({"ab": 1}, 8).buttons == ("start", "1")


def test_letters_that_overlap_are_marked_once() -> None:
    assert figures._places(("a", "a", "a"), ("a", "a")) == {0, 1}
    assert figures._places(("a", "a", "a", "a"), ("a", "a")) == {0, 1, 2, 3}
    assert figures._places(("a", "b"), None) == set()


# ---- Encoding ------------------------------------------------------------------------------------


def test_encoding_ends_where_the_library_does_and_merges_the_lowest_rank_each_time() -> None:
    figure = figures.encoding_steps("unable", RANKED)
    states = groups(figure)
    assert texts(states[0]) == [
        *"unable", "u + n", "2", "n + a", "4", "a + b", "1", "b + l", "not in the list",
        "l + e", "0",
    ]  # fmt: skip
    merged = [re.search(r": (\w+) \+ (\w+)", caption) for caption in figure.captions[:-1]]
    pairs = [(m[1].encode(), m[2].encode()) for m in merged if m]
    assert pairs == RANKED[:4]
    last = apply_merges(b"unable", RANKED)
    assert texts(states[4])[: len(last)] == [symbol.decode() for symbol in last]
    assert figure.captions[-1].endswith("this is the encoding, 2 pieces.")


def test_text_and_bytes_make_the_same_figure() -> None:
    as_text = [(a.decode(), b.decode()) for a, b in RANKED]
    assert figures.encoding_steps("unable", as_text) == figures.encoding_steps("unable", RANKED)


def test_a_word_that_becomes_one_symbol_says_so() -> None:
    figure = figures.encoding_steps("ab", [("a", "b")])
    assert texts(groups(figure)[1]) == ["ab", "none left"]
    assert "1 piece." in figure.captions[1]


def test_symbols_are_shown_not_run() -> None:
    html = figures.encoding_steps(" <b>& </b>", [(" ", "<")])._repr_html_()
    assert "<b>" not in html and "␣&lt;" in html


# ---- The dial ------------------------------------------------------------------------------------


def cut_of(html: str) -> list[str]:
    spans = re.findall(r"<span [^>]*>(.*?)</span>", html, re.DOTALL)
    return [s.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for s in spans]


@pytest.mark.parametrize(("shown", "size"), [(0, 256), (1, 258), (2, 261)])
def test_the_dial_starts_with_the_cut_of_the_size_that_is_shown(shown: int, size: int) -> None:
    text = "unable <b> to"
    figure = figures.vocabulary_dial(RANKED, [256, 258, 261], text, shown)
    tokenizer = ByteLevelBPE(RANKED[: size - 256])
    tokens = [tokenizer.tokens[i].decode() for i in tokenizer.encode(text)]
    html = figure._repr_html_()
    assert cut_of(html) == ["␣" if token == " " else token for token in tokens]
    assert ">&lt;</span>" in html or "> &lt;</span>" in html
    assert f"|V| = {size}: {len(tokens)} tokens" in html
    assert f"At {size} it has {len(tokens)} tokens" in figure.alt
    assert f'value="{shown}"' in html and "<div hidden>" in html


def test_bytes_that_are_no_character_are_written_in_hexadecimal_digits() -> None:
    figure = figures.vocabulary_dial(RANKED, [256, 257], "猫\n")
    assert cut_of(figure._repr_html_()) == ["‹E7›", "‹8C›", "‹AB›", "↵"]


def test_a_token_that_is_only_spaces_is_no_empty_box() -> None:
    figure = figures.vocabulary_dial([(b" ", b" "), (b" ", b"a")], [256, 258], "a   a", shown=1)
    assert cut_of(figure._repr_html_()) == ["a", "␣␣", " a"]
    assert figure.alt.endswith("a|␣␣|␣a.")


def test_the_dial_carries_the_merges_that_it_needs_and_asks_nothing_of_the_network() -> None:
    html = figures.vocabulary_dial(RANKED, [256, 260], "a")._repr_html_()
    assert 'data-merges="108,101;97,98;117,110;257,256"' in html
    assert not re.search(r"https?://|\bsrc=|\bid=|fetch|import|PIECE|FIRST|SECOND", html)


# ---- The plots -----------------------------------------------------------------------------------


def test_bars_are_the_pieces_from_the_fewest_and_the_first_language_stands_out() -> None:
    plot = figures.pieces_by_language(PIECES)
    axes = plot.figure.axes[0]
    order = [label.get_text() for label in axes.get_yticklabels()]
    assert order == sorted(PIECES, key=lambda language: PIECES[language])
    assert [bar.get_width() for bar in axes.patches] == sorted(PIECES.values())
    bars = zip(order, axes.patches, strict=True)
    colours = {language: bar.get_facecolor() for language, bar in bars}
    assert [language for language, c in colours.items() if c != colours["Thai"]] == ["English"]
    assert [t.get_text().split() for t in axes.texts][:2] == [["13"], ["20", "×", "1.5"]]
    assert "English 13, Turkish 20 (1.5 times English)" in plot.alt
    assert axes.get_xlabel() == "pieces, and how many times English"


def test_the_lines_are_the_data() -> None:
    axes = figures.lengths_by_vocabulary(SIZES, LENGTHS, 9520).figure.axes[0]
    floor, line = axes.get_lines()
    assert list(np.asarray(line.get_xdata())) == SIZES
    assert list(np.asarray(line.get_ydata())) == LENGTHS
    assert set(np.asarray(floor.get_ydata())) == {9520}
    axes = figures.training_times(NUMBERS, SECONDS).figure.axes[0]
    for drawn_line, row in zip(axes.get_lines(), SECONDS.values(), strict=True):
        assert list(np.asarray(drawn_line.get_ydata())) == row
    assert [text.get_text() for text in axes.texts] == list(SECONDS)


def test_a_figure_of_what_does_not_fit_says_what_is_wrong() -> None:
    merge, encode, dial = figures.merge_steps, figures.encoding_steps, figures.vocabulary_dial
    languages, lengths = figures.pieces_by_language, figures.lengths_by_vocabulary
    times = figures.training_times
    for call, said in (
        (lambda: merge(WORDS, 0), "n_merges must be a whole number of at least 1"),
        (lambda: merge(WORDS, 9), "there is room for 1 to 8 pairs and 8 merges"),
        (lambda: merge({"a": 1}, 1), "there is room for 1 to 8 pairs"),
        (lambda: merge({}, 1), "words must be 1 to 6 of at most 5 letters"),
        (lambda: merge({"hugged": 1}, 1), "words must be 1 to 6 of at most 5 letters"),
        (lambda: merge(dict.fromkeys("abcdefg", 1), 1), "words must be 1 to 6"),
        (lambda: merge({"ab": 1000}, 1), "words must be 1 to 6 .* at most 999 times"),
        (lambda: encode("a", []), "word must be 2 to 10 characters of ASCII"),
        (lambda: encode("naïve", []), "word must be 2 to 10 characters of ASCII"),
        (lambda: encode("a" * 11, []), "word must be 2 to 10 characters of ASCII"),
        (lambda: encode(b"ab", []), "word must be 2 to 10 characters of ASCII"),  # type: ignore[arg-type]
        (lambda: dial(RANKED, [256], "a"), "sizes must be at least two, rising from 256 to 261"),
        (lambda: dial(RANKED, [258, 257], "a"), "sizes must be at least two, rising"),
        (lambda: dial(RANKED, [255, 257], "a"), "sizes must be at least two, rising"),
        (lambda: dial(RANKED, [256, 262], "a"), "sizes must be at least two, rising"),
        (lambda: dial(RANKED, [256, 261], ""), "text must have 1 to 300 characters; got 0"),
        (lambda: dial(RANKED, [256, 261], "a" * 301), "text must have 1 to 300 characters"),
        (lambda: dial(RANKED, [256, 261], "a", 2), "shown must be the place of a size, 0 to 1"),
        (lambda: dial(RANKED, [256, 261], "a", True), "shown must be the place of a size"),
        (lambda: languages({"English": 1}), "pieces must hold at least two languages"),
        (lambda: languages({"English": 1, "Thai": 0}), r"pieces\['Thai'\] must be a whole number"),
        (lambda: lengths([256], [9], 1), "sizes must rise and be as many as lengths"),
        (lambda: lengths([512, 256], [9, 8], 1), "sizes must rise"),
        (lambda: lengths([256, 512], [9, 8, 7], 1), "sizes must rise"),
        (lambda: lengths([256, 512], [9, 8], 9), "lengths must not be below the floor 9"),
        (lambda: lengths([256, 512], [9, -8], 1), "lengths must be a row of positive numbers"),
        (lambda: lengths([256, 512], [9, 8], 0), "floor must be a whole number of at least 1"),
        (lambda: times([2, 1], {"a": [1, 1]}), "merges must be at least two rising numbers"),
        (lambda: times([1, 2], {}), "seconds must hold 1 to 4 rows of 2 numbers"),
        (lambda: times([1, 2], {"a": [1]}), "seconds must hold 1 to 4 rows of 2 numbers"),
        (lambda: times([1, 2], {"a": [1, 0]}), "a must be a row of positive numbers"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
