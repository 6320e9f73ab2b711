"""What a student reads: as text and as HTML, in light and dark, on a phone."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check, hint, status
from course_lib.grading.report import Block, Message

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
EVIL = "<script>alert(1)</script></pre><img src=x onerror=alert(2)>&amp;`"


def softmax(x: Any, axis: int = -1) -> Any:
    peak = np.max(x, axis=axis, keepdims=True)
    exps = np.exp(x - np.where(np.isfinite(peak), peak, 0))
    total = exps.sum(axis=axis, keepdims=True)
    return exps / np.where(total == 0, 1, total)


def unstable(x: Any, axis: int = -1) -> Any:
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def columns(x: Any, axis: int = -1) -> Any:
    return softmax(x, axis=0)


def untouched(x: Any, axis: int = -1) -> Any:
    raise NotImplementedError


def evil_error(x: Any, axis: int = -1) -> Any:
    raise ValueError(EVIL)


def evil_print(x: Any, axis: int = -1) -> Any:
    print(EVIL)
    return x


def evil_text(x: Any, axis: int = -1) -> Any:
    return type(EVIL, (), {})()


STUDENTS = (softmax, unstable, columns, untouched, evil_error, evil_print, evil_text)
each_student = pytest.mark.parametrize("student", STUDENTS)


class Page(HTMLParser):
    """What a browser would make of it: tags that close, text, styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def plain(text: str) -> str:
    """The words alone: marks and layout are the form's, not the content's."""
    return re.sub(r"[\s`]+", "", text)


def messages() -> list[Any]:
    return [*(check("05.softmax", f) for f in STUDENTS), hint("05.softmax", 1), status()]


def test_both_forms_say_the_same() -> None:
    for message in messages():
        assert plain("".join(Page(message._repr_html_()).text)) == plain(str(message))


def test_the_html_is_whole_and_holds_no_tag_but_the_graders() -> None:
    for message in messages():
        page = Page(message._repr_html_())
        assert page.open == []
        assert {tag for tag, _ in page.tags} <= {"div", "span", "pre", "code"}
        for _, attributes in page.tags:
            assert set(attributes) <= {"style", "tabindex", "role", "aria-label"}


@each_student
def test_the_same_function_reads_the_same_twice(student: Callable[..., Any]) -> None:
    one, other = check("05.softmax", student), check("05.softmax", student)
    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp/|ipykernel", one._repr_html_())


@each_student
def test_no_line_is_wider_than_a_terminal(student: Callable[..., Any]) -> None:
    assert max(map(len, str(check("05.softmax", student)).splitlines())) <= 80


@each_student
def test_the_repr_is_the_points_as_a_float_from_0_to_the_maximum(
    student: Callable[..., Any],
) -> None:
    report = check("05.softmax", student)
    assert repr(report) == repr(float(report)) == repr(report.points)
    assert 0.0 <= float(repr(report)) <= report.max_points == 3.0


def test_what_passes_is_marked_and_the_first_failure_comes_in_full() -> None:
    text = str(check("05.softmax", unstable))
    lines = text.splitlines()
    assert re.fullmatch(r"05\.softmax · 5 of 7 cases · 2\.14 of 3 points", lines[0])
    assert sum(line.startswith("✓ ") for line in lines) == 5
    failures = [i for i, line in enumerate(lines) if line.startswith("✗ ")]
    assert len(failures) == 2
    assert any("yours" in line for line in lines[failures[0] : failures[1]])
    assert "(" in lines[failures[1]], "the others in brief"
    assert lines[lines.index("", lines.index("") + 1) :][-2].startswith("→ ")


def test_yours_stands_above_right_digit_under_digit() -> None:
    lines = str(check("05.softmax", columns)).splitlines()
    (above,) = [line for line in lines if " yours " in line]
    below = lines[lines.index(above) + 1]
    assert below.strip().startswith("right")
    assert above.index("yours") == below.index("right")
    assert [m.start() for m in re.finditer(r"\.", above)] == [
        m.start() for m in re.finditer(r"\.", below)
    ]


def test_all_right_is_said_in_a_line() -> None:
    assert str(check("05.softmax", softmax)) == (
        "05.softmax · 7 of 7 cases · 3 of 3 points\n\n✓ All cases pass."
    )


def test_the_solution_is_never_shown() -> None:
    import inspect

    from course_lib.reference import attention

    body = inspect.getsource(attention.softmax).split('"""')[-1].strip().splitlines()
    for student in STUDENTS:
        text = str(check("05.softmax", student))
        for line in body:
            assert line.strip() not in text


def test_colours_come_from_the_page() -> None:
    """No background that hides text in the other theme; accents readable on both."""
    source = "".join(message._repr_html_() for message in messages())
    styles = html.unescape(" ".join(re.findall(r'style="([^"]*)"', source)))
    for colour in re.findall(r"(?<!-)color:([^;]+)", styles):
        assert colour == "inherit" or all(_contrast(colour, page) >= 3 for page in _PAGES)
    for background in re.findall(r"background:([^;]+)", styles):
        assert re.fullmatch(r"rgba\(127,127,127,\.\d+\)", background)


_PAGES = ("#ffffff", "#f7f7f7", "#111111", "#1e1e1e")


def _contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name() -> None:
    for message in messages():
        for tag, attributes in Page(message._repr_html_()).tags:
            if "overflow-x" in (attributes.get("style") or ""):
                assert tag == "pre"
                assert attributes["tabindex"] == "0"
                assert attributes["role"] and attributes["aria-label"]


def test_a_backtick_without_its_other_half_stays_a_backtick() -> None:
    message = Message([Block("cause", "an odd ` one"), Block("step", "`two` are code")])
    source = message._repr_html_()
    assert "an odd ` one" in source
    assert source.count("<code") == 1


def test_a_word_between_asterisks_is_emphasised_and_a_product_is_not() -> None:
    text = "what is *missing*, *may look*, 2 * a * b, x**2, a*b*c, `q *= s * 2` and **kwargs"
    source = Message([Block("cause", text)])._repr_html_()
    assert re.findall("<em>(.*?)</em>", source) == ["missing", "may look"]
    for left in ("2 * a * b", "x**2", "a*b*c", "q *= s * 2", "**kwargs"):
        assert left in source


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    body = "".join(f"<h2>{i}</h2>{m._repr_html_()}" for i, m in enumerate(messages()))
    path = tmp_path_factory.mktemp("page") / "reports.html"
    path.write_text(
        '<!doctype html><html lang="en"><title>Reports</title><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><style>'
        "body{background:#fff;color:#222;font:15px sans-serif;margin:10px}"
        "@media (prefers-color-scheme:dark){body{background:#111;color:#d5d5d5}}"
        f"</style><main><h1>Reports</h1>{body}</main></html>",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [340, 1000])
def test_reports_fit_a_phone_and_are_accessible(page: Path, width: int, scheme: str) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    if not Path(CHROMIUM).exists():
        pytest.skip("needs Debian's chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab.goto(page.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        found = axe.Axe().run(tab).response["violations"]
        browser.close()
    assert [violation["id"] for violation in found] == []
