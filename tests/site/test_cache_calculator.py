"""Chapter 14's calculator and its tiles: what the scripts show is what the library computes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.efficient_attention import cache_calculator, tile_steps
from course_lib.figures.style import Sliders
from tests.site.harness import GROUNDS, axe_faults, on_a_phone, without_scripts
from tests.site.test_calculator import drawn, same, shown

FIGURE = cache_calculator()
TILES = tile_steps(np.random.default_rng(2).integers(-9, 10, (8, 8)), 2, 2, shown=4)
# Powers of two but for the layers; 0, 1, 2 for 32, 16 and 8 bits.
PLACES = [
    (10, 1, 3, 0, 6, 0, 0), (20, 128, 7, 7, 8, 8, 1), (17, 80, 6, 3, 7, 0, 2),
    (13, 32, 4, 6, 7, 4, 1), (15, 126, 7, 3, 7, 2, 2),
]  # fmt: skip


def at(place: tuple[int, ...]) -> Sliders:
    n, n_layers, h, h_kv, d, b, bits = place
    return cache_calculator(2**n, n_layers, 2**h, 2**h_kv, 2**d, 2**b, (32, 16, 8)[bits])


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with on_a_phone(browser, FIGURE, at(PLACES[2])) as opened:
        yield opened


def move(page: Page, place: tuple[int, ...]) -> None:
    for slider, value in zip(page.locator("input").all()[:7], place, strict=True):
        slider.fill(str(value))


def test_it_starts_as_the_still_picture(page: Page) -> None:
    assert same(shown(page), drawn(FIGURE))
    assert same(shown(page, 1), drawn(at(PLACES[2])))


@pytest.mark.parametrize("place", PLACES)
def test_moved_sliders_show_what_the_library_computes_there(
    page: Page, place: tuple[int, ...]
) -> None:
    move(page, place)
    assert same(shown(page), drawn(at(place)))
    first = page.locator("[data-sliders]").first
    boxes = [t.bounding_box() for t in first.locator("svg text").all()]
    bars = [r.bounding_box() for r in first.locator("svg rect").all()]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :] + bars:
            assert a and b
            across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
            down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
            assert across < 1 or down < 5, (place, a, b)


def test_tiles_are_shown_one_at_a_time(browser: Browser) -> None:
    with on_a_phone(browser, TILES) as page:
        for number, button in enumerate(page.get_by_role("button").all()):
            button.click()
            seen = page.locator("svg [data-step]:visible").all()
            assert [g.get_attribute("data-step") for g in seen] == [str(number)]
            assert page.locator("[data-step-through] p").inner_text() == TILES.captions[number]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(browser: Browser, ground: str) -> None:
    for figure in (FIGURE, TILES):
        with on_a_phone(browser, figure) as page:
            assert axe_faults(page, ground) == []


def test_without_scripts_there_is_a_still_picture_and_no_dead_slider(browser: Browser) -> None:
    with without_scripts(browser, FIGURE) as page:
        assert page.get_by_role("slider").count() == 0
        assert page.locator("p").inner_text() == FIGURE.caption
