"""Chapter 02's self-attention, token by token: what its script shows is what was drawn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from course_lib.figures.style import StepThrough
from course_lib.figures.why_transformers import self_attention_steps
from course_lib.reference.attention_scores import plain_self_attention
from tests.site.harness import GROUNDS, axe_faults, on_a_phone, without_scripts

TOKENS = ["the", "cat", "was", "hungry"]
WEIGHTS = plain_self_attention(np.random.default_rng(3).standard_normal((4, 3)))[1]
FIGURE = self_attention_steps(TOKENS, WEIGHTS, shown=2)
SHOWN = """root => [...root.querySelectorAll("svg [data-step]")]
  .filter(g => g.getClientRects().length && getComputedStyle(g).display !== "none")
  .map(g => [Number(g.dataset.step), [...g.querySelectorAll("text")].map(t => t.textContent)])"""


def numbers(row: int) -> list[str]:
    """Return what a token's group says: a heading, and the weights under it."""
    return ["weight", *(f"{w:.2f}" for w in WEIGHTS[row])]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a phone with two such figures on one page, and no network."""
    other = self_attention_steps(["a", "b"], np.eye(2))
    with on_a_phone(browser, FIGURE, other) as opened:
        yield opened


def state(page: Page, which: int = 0) -> tuple[int, list[str], str, list[str]]:
    """Return the group shown, what it says, the caption, and the buttons that are pressed."""
    root = page.locator("[data-step-through]").nth(which)
    ((step, written),) = root.evaluate(SHOWN)
    pressed = root.locator("button[aria-pressed=true]").all_text_contents()
    return step, written, root.locator("p").inner_text(), pressed


def expected(step: int, figure: StepThrough = FIGURE) -> tuple[int, list[str], str, list[str]]:
    written = numbers(step) if step < len(TOKENS) else []
    return step, written, figure.captions[step], [figure.buttons[step]]


def test_it_starts_with_the_token_of_the_still_picture(page: Page) -> None:
    assert state(page) == expected(2)


def test_each_button_shows_its_own_token_and_its_weights(page: Page) -> None:
    root = page.locator("[data-step-through]").first
    for step in (0, 1, 2, 3, 4, 1):
        root.get_by_role("button", name=FIGURE.buttons[step], exact=True).click()
        assert state(page) == expected(step)
    assert state(page, 1)[0] == 0, "the other figure stays as it is"


def test_a_finger_works_as_a_mouse_does(page: Page) -> None:
    page.locator("[data-step-through]").first.get_by_role("button", name="cat").tap()
    assert state(page) == expected(1)


def test_arrow_keys_move_along_the_tokens_and_round_the_end(page: Page) -> None:
    root = page.locator("[data-step-through]").first
    root.get_by_role("button", name="was").focus()
    for key, step in (("ArrowRight", 3), ("ArrowDown", 4), ("ArrowRight", 0), ("ArrowLeft", 4),
                      ("ArrowUp", 3)):  # fmt: skip
        page.keyboard.press(key)
        assert state(page) == expected(step)
        assert page.evaluate("document.activeElement.textContent") == FIGURE.buttons[step]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert state(page) == expected(4)


def test_fingers_have_room_and_nothing_sticks_out(page: Page) -> None:
    for box in (button.bounding_box() for button in page.get_by_role("button").all()):
        assert box and box["height"] >= 32 and box["width"] >= 32
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_no_fault(page: Page, ground: str) -> None:
    assert axe_faults(page, ground) == []


def test_without_scripts_there_is_a_still_picture_and_no_dead_button(browser: Browser) -> None:
    with without_scripts(browser, FIGURE) as page:
        assert page.get_by_role("button").count() == 0
        visible = [g.get_attribute("data-step") for g in page.locator("svg [data-step]").all()
                   if "display:none" not in (g.get_attribute("style") or "")]  # fmt: skip
        assert visible == ["2"]
        assert page.locator("p").inner_text() == FIGURE.captions[2]
