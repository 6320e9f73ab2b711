"""Chapter 06's drawings in a browser: what each button shows is the state that was drawn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.multi_head import head_lines, masks_over_sentence, split_and_glue
from tests.site.harness import GROUNDS, axe_faults, on_a_phone

WORDS = ["I", "saw", "a", "cat", "on", "a", "mat"]
FIGURES = {
    "split_and_glue": split_and_glue(),
    "masks_over_sentence": masks_over_sentence(WORDS),
    "head_lines": head_lines(WORDS, np.random.default_rng(0).dirichlet(np.ones(7), (12, 7))),
}
SHOWN = """root => [...root.querySelectorAll("svg [data-step]")]
  .filter(g => g.getClientRects().length && getComputedStyle(g).display !== "none")
  .map(g => Number(g.dataset.step))"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a phone with all of them on one page, and no network."""
    with on_a_phone(browser, *FIGURES.values()) as opened:
        yield opened


@pytest.mark.parametrize("name", FIGURES)
def test_each_button_shows_its_own_state_by_finger_and_by_key(page: Page, name: str) -> None:
    figure, place = FIGURES[name], list(FIGURES).index(name)
    root = page.locator("[data-step-through]").nth(place)
    assert root.evaluate(SHOWN) == [figure.shown]
    buttons = root.get_by_role("button")
    assert buttons.all_text_contents() == list(figure.buttons)
    for step, caption in enumerate(figure.captions):
        buttons.nth(step).tap()
        assert root.evaluate(SHOWN) == [step]
        assert root.locator("p").inner_text() == caption
    page.keyboard.press("ArrowRight")
    assert root.evaluate(SHOWN) == [0], "round the end"


def test_nothing_sticks_out_on_a_phone_and_words_stay_inside_their_drawing(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for place, figure in enumerate(FIGURES.values()):
        root = page.locator("[data-step-through]").nth(place)
        for step in range(len(figure.buttons)):
            root.get_by_role("button").nth(step).click()
            outside = root.evaluate(
                """root => { const svg = root.querySelector("svg").getBoundingClientRect();
                return [...root.querySelectorAll("svg text")]
                  .map(t => [t.textContent, t.getBoundingClientRect()])
                  .filter(([, b]) => b.width && (b.left < svg.left - 1 || b.right > svg.right + 1
                    || b.top < svg.top - 1 || b.bottom > svg.bottom + 1))
                  .map(([text]) => text); }"""
            )
            assert outside == [], (figure.buttons[step], outside)


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(page: Page, ground: str) -> None:
    assert axe_faults(page, ground) == []
