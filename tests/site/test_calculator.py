"""Chapter 12's calculator: what the script shows is what the library computes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.costs import training_calculator
from course_lib.figures.style import Sliders
from tests.site.harness import GROUNDS, axe_faults, on_a_phone, without_scripts

FIGURE = training_calculator()
# Where the sliders stand, as powers of two, layers, 0 for four bytes, and FLOP/s.
PLACES = [
    (4, 6, 1, 0, 0, 0), (17, 14, 96, 10, 0, 6), (9, 7, 12, 3, 1, 2), (12, 12, 32, 0, 1, 4),
    (6, 9, 6, 8, 0, 1), (13, 6, 2, 10, 1, 3), (5, 13, 95, 5, 0, 5),
    (4, 13, 71, 2, 0, 1),  # 999.998 MiB a part, which is 0.98 GiB
]  # fmt: skip


def at(place: tuple[int, ...]) -> Sliders:
    n, d, n_layers, batch, halved, rate = place
    return training_calculator(2**n, 2**d, n_layers, 2**batch, 2 if halved else 4, rate)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a phone with the figure, and another set otherwise, and no network."""
    with on_a_phone(browser, FIGURE, at(PLACES[3])) as opened:
        yield opened


def move(page: Page, place: tuple[int, ...]) -> None:
    for slider, value in zip(page.locator("input").all()[:6], place, strict=True):
        slider.fill(str(value))


def shown(page: Page, which: int = 0) -> dict[str, Any]:
    root = page.locator("[data-sliders]").nth(which)
    widths = [float(bar.get_attribute("width") or "nan") for bar in root.locator("rect").all()]
    return {
        "words": root.locator("svg text").all_text_contents(),
        "widths": widths,
        "said": root.locator("p").inner_text(),
        "values": root.locator("output").all_text_contents(),
    }


def drawn(figure: Sliders) -> dict[str, Any]:
    words = [re.sub("<[^>]+>", "", t) for t in re.findall("<text.*?</text>", figure.body)]
    widths = [float(w) for w in re.findall(r'<rect [^>]*? width="([^"]+)"', figure.body)]
    values = [
        names[value - low] if names else str(value)
        for (_, low, _, value), names in zip(figure.sliders, figure.words, strict=True)
    ]
    return {"words": words, "widths": widths, "said": figure.caption, "values": values}


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Compare; bars may differ by a rounding."""
    near = all(abs(x - y) < 0.11 for x, y in zip(a["widths"], b["widths"], strict=True))
    return near and {**a, "widths": 0} == {**b, "widths": 0}


def test_it_starts_as_the_still_picture(page: Page) -> None:
    assert same(shown(page), drawn(FIGURE))
    assert same(shown(page, 1), drawn(at(PLACES[3])))


@pytest.mark.parametrize("place", PLACES)
def test_moved_sliders_show_what_the_library_computes_there(
    page: Page, place: tuple[int, ...]
) -> None:
    move(page, place)
    assert same(shown(page), drawn(at(place)))
    assert same(shown(page, 1), drawn(at(PLACES[3]))), "the other figure stays as it is"


def test_a_slider_says_what_it_shows_to_the_ear_too(page: Page) -> None:
    slider = page.get_by_role("slider").first
    assert slider.get_attribute("aria-valuetext") == "64"
    slider.focus()
    for key, said in (("ArrowRight", "128"), ("End", "131,072"), ("Home", "16")):
        page.keyboard.press(key)
        assert slider.get_attribute("aria-valuetext") == said
    layers = page.get_by_role("slider").nth(2)
    layers.fill("31")
    assert layers.get_attribute("aria-valuetext") == "31"


def test_fingers_have_room_and_nothing_sticks_out(page: Page) -> None:
    for slider in page.get_by_role("slider").all():
        box = slider.bounding_box()
        assert box and box["height"] >= 32 and box["width"] >= 150
    move(page, PLACES[1])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_no_word_lies_on_another_at_the_longest_numbers(page: Page) -> None:
    for place in PLACES:
        move(page, place)
        root = page.locator("[data-sliders]").first
        boxes = [t.bounding_box() for t in root.locator("svg text").all()]
        bars = [r.bounding_box() for r in root.locator("svg rect").all()]
        for i, a in enumerate(boxes):
            for b in boxes[i + 1 :] + bars:
                assert a and b
                across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
                down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
                assert across < 1 or down < 5, (place, a, b)


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(page: Page, ground: str) -> None:
    assert axe_faults(page, ground) == []


def test_without_scripts_there_is_a_still_picture_and_no_dead_slider(browser: Browser) -> None:
    with without_scripts(browser, FIGURE) as page:
        assert page.get_by_role("slider").count() == 0
        assert page.locator("svg text").all_text_contents() == drawn(FIGURE)["words"]
        assert page.locator("p").inner_text() == FIGURE.caption
