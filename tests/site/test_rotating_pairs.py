"""Chapter 08's rotating pairs: what the script shows is what the reference computes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.rotary import rotating_pairs
from course_lib.reference.rotary import rotary_frequencies, rotate_interleaved
from tests.site.harness import GROUNDS, axe_faults, on_a_phone, without_scripts

QUERY, KEY = np.random.default_rng(4).standard_normal((2, 8))
THETA = rotary_frequencies(8)
FIGURE = rotating_pairs(QUERY, KEY, THETA, m=1, n=3)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a phone with the figure, and another of one pair, and no network."""
    other = rotating_pairs([1.0, 0.0], [1.0, 0.0], [np.pi / 6], m=5, n=7)
    with on_a_phone(browser, FIGURE, other) as opened:
        yield opened


def move(page: Page, m: int, n: int) -> None:
    for slider, value in zip(page.locator("input").all()[:2], (m, n), strict=True):
        slider.fill(str(value))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def at(vector: np.ndarray, position: int) -> np.ndarray:
    return rotate_interleaved(vector[None], np.array([position]), THETA)[0].reshape(-1, 2)


@pytest.mark.parametrize(("m", "n"), [(1, 3), (0, 0), (17, 2), (60, 59), (5, 60)])
def test_every_number_and_every_hand_is_the_references(page: Page, m: int, n: int) -> None:
    move(page, m, n)
    root = page.locator("[data-sliders]").first
    q, k = at(QUERY, m), at(KEY, n)
    added = [number(t) for t in root.locator("[data-added]").all_text_contents()]
    assert added == pytest.approx((q * k).sum(axis=1).tolist(), abs=0.0051)
    score = number(root.locator("[data-score]").text_content() or "")
    assert score == pytest.approx((q * k).sum(), abs=0.0051)
    for name, pairs in (("query", q), ("key", k)):
        hands = root.locator(f'[data-hand="{name}"]').all()
        for hand, (a, b) in zip(hands, pairs, strict=True):
            match = re.match(r"rotate\((\S+) ", hand.get_attribute("transform") or "")
            assert match is not None
            direction = np.exp(-1j * np.radians(float(match.group(1))))
            assert direction == pytest.approx((a + 1j * b) / abs(a + 1j * b), abs=1e-3)


@pytest.mark.parametrize(("m", "n"), [(1, 3), (17, 2), (60, 59)])
def test_script_and_still_picture_say_the_same(page: Page, m: int, n: int) -> None:
    move(page, m, n)
    still = rotating_pairs(QUERY, KEY, THETA, m, n)
    root = page.locator("[data-sliders]").first
    assert root.locator("p").inner_text() == still.caption
    shown = root.locator("svg text").all_text_contents()
    assert shown == [re.sub("<[^>]+>", "", t) for t in re.findall("<text.*?</text>", still.body)]
    drawn = [h.get_attribute("transform") for h in root.locator("[data-hand]").all()]
    assert drawn == re.findall(r'transform="([^"]+)"', still.body)


def test_moving_both_leaves_the_score(page: Page) -> None:
    scores = set()
    for m in (0, 1, 20, 58):
        move(page, m, m + 2)
        scores.add(page.locator("[data-score]").first.text_content())
    assert len(scores) == 1
    other = page.locator("[data-sliders]").nth(1)
    assert other.locator("[data-score]").text_content() == "0.50", "it stays as it is"


def test_arrow_keys_move_a_slider_by_one_position(page: Page) -> None:
    slider = page.locator("input").first
    slider.focus()
    for key, value in (("ArrowRight", "2"), ("ArrowRight", "3"), ("ArrowLeft", "2")):
        page.keyboard.press(key)
        assert slider.input_value() == value
        said = page.locator("[data-sliders]").first.locator("p").inner_text()
        assert said.startswith(f"Query at {value}, key at 3")


def test_fingers_have_room_and_nothing_sticks_out(page: Page) -> None:
    for box in (slider.bounding_box() for slider in page.locator("input").all()):
        assert box and box["height"] >= 32 and box["width"] >= 120
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(page: Page, ground: str) -> None:
    assert axe_faults(page, ground) == []


def test_without_scripts_there_is_a_still_picture_and_no_dead_slider(browser: Browser) -> None:
    with without_scripts(browser, FIGURE) as page:
        assert not page.locator("input").first.is_visible()
        shown = number(page.locator("[data-score]").first.text_content() or "")
        assert shown == pytest.approx((at(QUERY, 1) * at(KEY, 3)).sum(), abs=0.0051)
        assert page.locator("p").inner_text() == FIGURE.caption
