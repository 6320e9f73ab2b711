"""Chapter 03's dial: what its script computes is what the library computes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.tokenization import _readable, vocabulary_dial
from course_lib.tokenizers.byte_level import ByteLevelBPE
from course_lib.tokenizers.gpt2 import gpt2
from tests.site.harness import GROUNDS, axe_faults, on_a_phone, without_scripts

SIZES = [256, 320, 1024, 4096]
SAMPLE = "unable to read 12345 naïve 猫 books"
TEXTS = [
    SAMPLE,
    "I'll drink 12 cups,  won't I?\n\n  Yes!   ",
    "aaaaaaa the theatre of the mathematicians' themes",
    "def f(n):\n\tfor i in range(n):\n        print(i)\n",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι",
    "सभी मनुष्यों को गौरव",
    "🤗👨‍👩‍👧 \u00a0x\u200b\ufeffy",
    "１２３ ² ½ Ⅷ",
    "<b>&amp;</b> \"quoted\" 'single'",
    "",
]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a phone with two such figures on one page, and no network."""
    first = vocabulary_dial(gpt2().merges, SIZES, SAMPLE, shown=2)
    other = vocabulary_dial([(b"a", b"b")], [256, 257], "abc")
    with on_a_phone(browser, first, other) as opened:
        yield opened


def expected(text: str, size: int) -> list[str]:
    tokenizer = ByteLevelBPE(gpt2().merges[: size - 256])
    return [_readable(tokenizer.tokens[i]) for i in tokenizer.encode(text)]


def cut(page: Page, which: int = 0) -> list[str]:
    pieces = page.locator("[data-dial]").nth(which).locator("[data-pieces] span")
    return pieces.evaluate_all("spans => spans.map(span => span.textContent)")


@pytest.mark.parametrize("place", range(len(SIZES)))
def test_the_script_cuts_every_text_as_the_library_does(page: Page, place: int) -> None:
    root = page.locator("[data-dial]").first
    root.locator("input").fill(str(place))
    for text in TEXTS:
        root.locator("textarea").fill(text)
        pieces = expected(text, SIZES[place])
        assert cut(page) == pieces
        one = "token" if len(pieces) == 1 else "tokens"
        assert root.locator("p").inner_text() == f"|V| = {SIZES[place]:,d}: {len(pieces)} {one}"
        assert root.locator("input").get_attribute("aria-valuetext") == f"{SIZES[place]:,d} tokens"
    assert cut(page, 1) == ["a", "b", "c"], "the other figure stays as it is"


def test_a_token_that_is_only_spaces_can_be_seen(page: Page) -> None:
    root = page.locator("[data-dial]").first
    root.locator("textarea").fill("a    b")
    assert cut(page) == ["a", "␣", "␣", "␣", " b"]


def test_arrow_keys_turn_the_dial(page: Page) -> None:
    page.locator("[data-dial] input").first.focus()
    for key, place in (("ArrowRight", 3), ("ArrowLeft", 2), ("ArrowLeft", 1), ("Home", 0)):
        page.keyboard.press(key)
        assert cut(page) == expected(SAMPLE, SIZES[place])


def test_nothing_sticks_out_and_a_finger_has_room(page: Page) -> None:
    page.locator("textarea").first.fill("w" * 300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for control in page.locator("textarea, input").all():
        box = control.bounding_box()
        assert box and box["height"] >= 32


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(page: Page, ground: str) -> None:
    assert axe_faults(page, ground) == []


def test_without_scripts_there_is_the_first_cut_and_nothing_dead(browser: Browser) -> None:
    figure = vocabulary_dial(gpt2().merges, SIZES, SAMPLE, shown=2)
    with without_scripts(browser, figure) as page:
        assert not page.locator("textarea").is_visible() and not page.locator("input").is_visible()
        assert cut(page) == expected(SAMPLE, SIZES[2])
