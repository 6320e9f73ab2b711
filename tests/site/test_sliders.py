"""Chapter 04's clocks: what their script draws and says is what the library draws and says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.embeddings_and_positions import clock_hands
from course_lib.figures.style import Sliders
from tests.site.harness import GROUNDS, axe_faults, on_a_phone, without_scripts

FIGURE = clock_hands(position=5, shift=3)
STATE = """root => ({
  hands: [...root.querySelectorAll("[data-hand]")].map(h => h.getAttribute("transform")),
  numbers: [...root.querySelectorAll("[data-sin],[data-cos]")].map(t => t.textContent),
  said: root.querySelector("p").textContent,
  values: [...root.querySelectorAll("output")].map(o => Number(o.textContent)),
})"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a phone with two such figures on one page, and no network."""
    other = clock_hands(position=2, shift=1, d=4, base=100.0)
    with on_a_phone(browser, FIGURE, other) as opened:
        yield opened


def state(page: Page, which: int = 0) -> dict:
    return page.locator("[data-sliders]").nth(which).evaluate(STATE)


def drawn(figure: Sliders, *values: int) -> dict:
    """Return what the library itself draws and says."""
    return {
        "hands": re.findall(r'data-hand.*?transform="([^"]*)"', figure.body),
        "numbers": re.findall(r"<tspan data-(?:sin|cos)[^>]*>([^<]*)<", figure.body),
        "said": figure.caption,
        "values": list(values),
    }


def set_to(page: Page, slider: int, value: int) -> None:
    page.locator("[data-sliders]").first.locator("input").nth(slider).fill(str(value))


def close(a: dict, b: dict) -> bool:
    """Compare, with hands a hundredth of a degree apart at most: roundings may differ."""
    turns = [[float(x) for x in re.findall(r"[\d.]+", " ".join(s["hands"]))] for s in (a, b)]
    near = all(abs(x - y) < 0.011 for x, y in zip(*turns, strict=True))
    return near and {**a, "hands": 0} == {**b, "hands": 0}


def test_it_starts_as_the_still_picture(page: Page) -> None:
    assert close(state(page), drawn(FIGURE, 5, 3))


@pytest.mark.parametrize(
    ("p", "k"), [(0, 0), (1, 0), (3, 20), (44, 1), (63, 7), (157, 11), (200, 20)]
)
def test_a_moved_slider_shows_what_the_library_draws_there(page: Page, p: int, k: int) -> None:
    set_to(page, 0, p)
    set_to(page, 1, k)
    assert close(state(page), drawn(clock_hands(p, k), p, k))
    other = drawn(clock_hands(2, 1, d=4, base=100.0), 2, 1)
    assert close(state(page, 1), other), "the other figure stays as it is"


def test_arrow_keys_move_a_slider_by_one_and_stay_with_it(page: Page) -> None:
    page.evaluate("window.heard = 0; document.addEventListener('keydown', () => window.heard++)")
    page.get_by_role("slider").first.focus()
    for key, p in (("ArrowRight", 6), ("ArrowUp", 7), ("ArrowLeft", 6), ("Home", 0), ("End", 200)):
        page.keyboard.press(key)
        assert close(state(page), drawn(clock_hands(p, 3), p, 3))
    assert page.evaluate("window.heard") == 0


def test_a_finger_on_the_track_moves_the_slider(page: Page) -> None:
    box = page.get_by_role("slider").first.bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2)
    p = state(page)["values"][0]
    assert 130 <= p <= 170
    assert close(state(page), drawn(clock_hands(p, 3), p, 3))


def test_fingers_have_room_and_nothing_sticks_out(page: Page) -> None:
    for slider in page.get_by_role("slider").all():
        box = slider.bounding_box()
        assert box and box["height"] >= 32 and box["width"] >= 150
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(page: Page, ground: str) -> None:
    assert axe_faults(page, ground) == []


def test_without_scripts_there_is_a_still_picture_and_no_dead_slider(browser: Browser) -> None:
    with without_scripts(browser, FIGURE) as page:
        assert page.get_by_role("slider").count() == 0
        hands = [h.get_attribute("transform") for h in page.locator("[data-hand]").all()]
        assert hands == drawn(FIGURE)["hands"]
        assert page.locator("p").inner_text() == FIGURE.caption
