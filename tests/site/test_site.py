"""What the built site promises, tried in a browser on every page of it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
import pydata_sphinx_theme
import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Page
from sphinxcontrib import katex

from tests.site.harness import AXE, AXE_SCRIPT, ROOT, Visit, build, copy_of_the_tree

Open = Callable[..., Page]

CHAPTER = "chapters/05_scaled_dot_product_attention.html"
EXERCISE = "exercises/05_scaled_dot_product_attention.html"
FIRST = "00_language_models.html"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
REPOSITORY = CONFIG["repository"]["url"].removeprefix("https://github.com/").strip("/")
BRANCH = CONFIG["repository"]["branch"]
FOLDER = "".join(f"{part}/" for part in CONFIG["repository"]["path_to_book"].split("/") if part)
COLAB = f"https://colab.research.google.com/github/{REPOSITORY}/blob/{BRANCH}/{FOLDER}"

# axe's findings that neither CSS nor a template can mend: (rule, part of the selector) and why.
EXCEPTED: dict[tuple[str, str], str] = {}


def parse(site: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


def contents() -> Iterator[str]:
    """Yield the path of every page in _toc.yml, without its ending."""

    def walk(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (str(node[key]) for key in ("root", "file") if key in node)
            for child in node.values():
                yield from walk(child)
        elif isinstance(node, list):
            for child in node:
                yield from walk(child)

    yield from walk(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))


def visited(visits: list[Visit], name: str) -> Visit:
    return next(visit for visit in visits if visit.name == name)


# ---- Every page ----------------------------------------------------------------------------------


def test_the_site_holds_the_pages_of_its_contents_and_no_others(pages: list[str]) -> None:
    expected = {f"{name}.html" for name in contents()} | {"index.html", "search.html"}
    assert set(pages) == expected


def test_no_page_asks_another_origin_for_anything(visits: list[Visit], address: str) -> None:
    foreign = [
        f"{visit.name}: {url}"
        for visit in visits
        for url in visit.requests
        if not url.startswith((address, "data:"))
    ]
    assert foreign == []


def test_no_request_fails(visits: list[Visit]) -> None:
    assert [f"{visit.name}: {line}" for visit in visits for line in visit.failures] == []


def test_the_console_stays_clean(visits: list[Visit]) -> None:
    assert [f"{visit.name}: {line}" for visit in visits for line in visit.console] == []


def test_no_page_scrolls_sideways_on_a_phone_a_tablet_or_a_desktop(visits: list[Visit]) -> None:
    assert all(set(visit.overflow) == {360, 768, 1280} for visit in visits)
    wide = [
        f"{visit.name} at {width}: {found}"
        for visit in visits
        for width, found in visit.overflow.items()
        if found
    ]
    assert wide == []


def test_axe_finds_no_fault_in_light_in_dark_and_on_a_phone(visits: list[Visit]) -> None:
    faults, used = set(), set()
    for visit in visits:
        assert set(visit.axe) == {"light", "dark", "phone"}
        for theme, violations in visit.axe.items():
            for found in violations:
                excepted = [
                    key
                    for key in EXCEPTED
                    if key[0] == found["rule"] and key[1] in found["selector"]
                ]
                used.update(excepted)
                if not excepted:
                    faults.add(
                        f"{visit.name} ({theme}): {found['rule']}, {found['impact']}: "
                        f"{found['selector']} {found['html']}"
                    )
    assert sorted(faults) == []
    assert used == set(EXCEPTED), "an exception that nothing needs any more"


def test_axe_finds_no_fault_in_what_opens_over_a_page(open_page: Open) -> None:
    phone = open_page("intro.html", width=360, height=740)
    phone.locator(".primary-toggle:visible").click()
    phone.locator(f"dialog a[href*='{EXERCISE}']").wait_for()
    desktop = open_page("intro.html")
    desktop.keyboard.press("Control+k")
    desktop.locator("dialog input[type=search]").wait_for()
    found = open_page("search.html?q=softmax")
    found.locator("#search-results ul.search li p").first.wait_for()
    for page in (phone, desktop, found):
        page.wait_for_timeout(400)
        page.evaluate(AXE_SCRIPT)
        assert page.evaluate(AXE) == []


def test_every_icon_is_drawn(visits: list[Visit]) -> None:
    """The theme's icon font is left out, so an icon that course.css doesn't know is a hole."""
    assert sum(visit.icons for visit in visits) > 50
    assert [f"{visit.name}: {icon}" for visit in visits for icon in visit.holes] == []


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: list[str]) -> None:
    soups = {name: parse(site, name) for name in pages}
    ids = {
        name: {tag["id"] for tag in soup.find_all(id=True)} | {"", "top"}
        for name, soup in soups.items()
    }
    broken, followed = [], 0
    for name, soup in soups.items():
        for tag in soup.find_all(["a", "link", "script", "img", "source", "form"]):
            for attribute in ("href", "src", "action"):
                if attribute not in tag.attrs:
                    continue
                address = str(tag[attribute])
                parts = urlsplit(urljoin(f"site:///{name}", address))
                if urlsplit(address).scheme in ("http", "https"):
                    if tag.name != "a":
                        broken.append(f"{name}: {tag.name} from elsewhere: {address}")
                    continue
                if urlsplit(address).scheme in ("data", "mailto"):
                    continue
                followed += 1
                # "chapters/x.html", "../_static/y.css": relative to the page.
                path = unquote(
                    urlsplit(
                        urljoin(
                            f"http://site/{name}", urlsplit(address).path or name.rsplit("/")[-1]
                        )
                    ).path
                ).lstrip("/")
                if not (site / path).is_file():
                    broken.append(f"{name}: {address}")
                elif path in ids and unquote(parts.fragment) not in ids[path]:
                    broken.append(f"{name}: no anchor {address}")
    assert followed > 300
    assert broken == []


def test_every_image_says_what_it_shows(visits: list[Visit]) -> None:
    silent, seen = [], 0
    for visit in visits:
        for image in visit.soup.select("article img, article svg"):
            if image.find_parent("button") or image.get("aria-hidden") == "true":
                continue
            if image.find_parent(class_="katex"):  # a root sign; the formula has its own MathML
                continue
            seen += 1
            title = image.find("title")
            text = image.get("alt") or image.get("aria-label") or (title.text if title else "")
            if len(str(text).split()) < 5 or ("/" in str(text) and ".png" in str(text)):
                silent.append(f"{visit.name}: {str(image)[:80]} says {text!r}")
            if image.name == "svg" and image.get("role") != "img":
                silent.append(f"{visit.name}: an svg without role=img: {str(image)[:80]}")
    assert seen >= 6, "the first page and the chapter have figures"
    assert silent == []


def test_formulas_are_set_in_the_page_itself(site: Path, pages: list[str]) -> None:
    raw = []
    for name in pages:
        soup = parse(site, name)
        assert soup.select(".katex-error") == []
        scripts = " ".join(str(s.get("src", "")) + (s.string or "") for s in soup("script"))
        assert not re.search("katex|mathjax", scripts, re.IGNORECASE), name
        for tag in soup.select(".katex, pre, code, script, style"):
            tag.decompose()
        text = soup.get_text()
        raw += [
            f"{name}: …{m[0]}…" for m in re.finditer(r".{0,20}(\$\$|\\\(|\\\[|\\frac).{0,20}", text)
        ]
        raw += [f"{name}: …{m[0]}…" for m in re.finditer(r"\$[^$\n]{1,60}\$", text)]
    assert raw == []
    chapter = parse(site, CHAPTER)
    assert len(chapter.select(".katex")) > 40
    assert len(chapter.select(".katex-display math")) > 5, "MathML too, for those who listen"


def test_every_page_can_be_read_without_scripts(open_page: Open) -> None:
    page = open_page(CHAPTER, java_script_enabled=False)
    assert page.locator("article h1").is_visible()
    assert page.locator("article .katex-display").first.is_visible()
    assert page.locator("article div.cell_output").first.is_visible()


# ---- Getting around ------------------------------------------------------------------------------


def test_every_colab_link_names_a_notebook_of_this_repository(site: Path, pages: list[str]) -> None:
    linked: dict[str, set[str]] = {}
    for name in pages:
        for link in parse(site, name).select('a[href*="colab.research.google.com"]'):
            url = str(link["href"])
            assert url.startswith(COLAB), f"{name}: {url} is not below {COLAB}"
            path = url.removeprefix(COLAB)
            assert path.endswith(".ipynb"), f"{name}: {url} is no notebook"
            assert (ROOT / path).is_file(), f"{name}: there is no {path}"
            linked.setdefault(name, set()).add(path)
    for name in (n for n in pages if n.startswith(("chapters/", "exercises/"))):
        assert Path(name).with_suffix(".ipynb").as_posix() in linked[name]


def test_the_colab_button_stands_on_every_notebook(site: Path, pages: list[str]) -> None:
    for name in (n for n in pages if n.startswith(("chapters/", "exercises/"))):
        (button,) = parse(site, name).select(".article-header-buttons a.course-launch")
        assert button["href"] == COLAB + Path(name).with_suffix(".ipynb").as_posix()
        assert " ".join(button.text.split()) == "Open in Colab"


def test_the_exercises_are_one_click_from_their_chapter_and_back(open_page: Open) -> None:
    page = open_page(CHAPTER)
    page.locator(f"article a[href*='{EXERCISE}']").first.click()
    page.wait_for_load_state()
    assert page.url.endswith(EXERCISE)
    page.locator(f"article a[href*='{CHAPTER}']").first.click()
    page.wait_for_load_state()
    assert page.url.endswith(CHAPTER)


def test_on_a_phone_the_menu_opens_and_leads_to_the_exercises(open_page: Open) -> None:
    page = open_page("intro.html", width=360, height=740)
    link = page.locator(f"a[href*='{EXERCISE}']:visible").filter(has_text="05 · Exercises")
    assert link.count() == 0
    page.locator(".primary-toggle:visible").click()
    link.click()
    page.wait_for_url(f"**/{EXERCISE}")


def test_the_first_page_says_it_all_in_one_screen(open_page: Open) -> None:
    page = open_page("intro.html", width=1280, height=800)
    doors = page.locator(".course-doors .sd-card")
    assert doors.count() == 4
    for element in [page.locator(".course-figure > svg"), *doors.all()]:
        box = element.bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= 800
    first = (f"chapters/{FIRST}", f"exercises/{FIRST}")
    for target in (*first, "pages/instructors.html", "colab.research.google.com"):
        assert page.locator(f"article a[href*='{target}']").first.is_visible()


@pytest.mark.parametrize("word", ["softmax", "attention"])
def test_the_search_page_finds_the_chapter(open_page: Open, word: str) -> None:
    page = open_page(f"search.html?q={word}")
    results = page.locator("#search-results ul.search li a")
    results.first.wait_for()
    page.wait_for_function(
        "document.querySelector('#search-results .search-summary')?.textContent.match(/\\d/)"
    )
    found = [str(link.get_attribute("href")) for link in results.all()]
    assert any(href.startswith(CHAPTER) for href in found), found


def test_the_search_field_opens_by_keyboard_and_leads_to_results(open_page: Open) -> None:
    page = open_page(CHAPTER)
    page.keyboard.press("Control+k")
    page.locator("dialog input[type=search]").fill("softmax")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=softmax*")
    page.locator("#search-results ul.search li a").first.wait_for()


def test_the_search_says_so_when_it_finds_nothing(open_page: Open) -> None:
    page = open_page("search.html?q=xylophone")
    page.wait_for_function(
        "document.querySelector('#search-results')?.textContent.includes('did not match')"
    )


BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(18, 18, 18)"


@pytest.mark.parametrize(("scheme", "colour"), [("light", LIGHT), ("dark", DARK)])
def test_a_page_follows_the_system_at_first(open_page: Open, scheme: str, colour: str) -> None:
    assert open_page(CHAPTER, color_scheme=scheme).evaluate(BACKGROUND) == colour


def test_the_switch_turns_dark_and_the_next_page_stays_dark(open_page: Open, address: str) -> None:
    page = open_page(CHAPTER, color_scheme="light")
    seen = {page.evaluate(BACKGROUND)}
    for _ in range(3):
        page.locator("button.theme-switch-button:visible").first.click()
        page.wait_for_timeout(400)
        seen.add(page.evaluate(BACKGROUND))
        if page.evaluate(BACKGROUND) == DARK:
            break
    assert seen == {LIGHT, DARK}
    page.goto(address + EXERCISE)
    assert page.evaluate(BACKGROUND) == DARK


# ---- Figures, formulas, code ---------------------------------------------------------------------


def test_figures_are_inverted_in_the_dark_and_only_there(open_page: Open) -> None:
    look = "e => getComputedStyle(e).filter"
    for scheme, expected in (("light", "none"), ("dark", "invert(0.93) hue-rotate(180deg)")):
        page = open_page(CHAPTER, color_scheme=scheme)
        images = page.locator("div.cell_output img")
        assert images.count() > 0
        assert {image.evaluate(look) for image in images.all()} == {expected}


@pytest.mark.parametrize("width", [360, 1280])
def test_figures_keep_their_proportions_and_fit(open_page: Open, width: int) -> None:
    page = open_page(CHAPTER, width=width)
    sizes = page.locator("div.cell_output img").evaluate_all(
        """async images => {
          for (const i of images) i.loading = "eager";
          await Promise.all(images.map(i => i.decode()));
          return images.map(i => [i.naturalWidth / i.naturalHeight, i.width / i.height, i.width]);
        }"""
    )
    assert sizes
    for drawn, shown, wide in sizes:
        assert shown == pytest.approx(drawn, rel=0.01)
        assert 250 < wide <= width


def test_long_formulas_and_code_scroll_in_their_own_box_and_by_keyboard(open_page: Open) -> None:
    # Narrower than a phone: today's formulas are written so as to fit one.
    page = open_page(CHAPTER, width=240, height=740)
    page.wait_for_timeout(500)
    for selector in (".katex-display", "div.cell_input pre"):
        boxes = page.evaluate(
            """s => [...document.querySelectorAll(s)]
                 .filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1)
                 .map(e => [getComputedStyle(e).overflowX, e.tabIndex])""",
            selector,
        )
        assert boxes, f"no {selector} of the chapter is wider than the window: nothing is tested"
        assert {tuple(box) for box in boxes} == {("auto", 0)}
    wide = open_page(CHAPTER, width=1280)
    assert wide.locator(".katex-display[tabindex]").count() == 0


def test_the_picture_of_the_first_page_shows_what_its_words_say(visits: list[Visit]) -> None:
    spec = importlib.util.spec_from_file_location(
        "landing_figure", ROOT / "_ext" / "landing_figure.py"
    )
    assert spec and spec.loader
    figure: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figure)

    rng = np.random.default_rng(5)
    queries, keys = rng.standard_normal((12, 512)), rng.standard_normal((512, 12))
    largest = []
    for name, divisor in (("1", 1.0), ("√d_k", 512**0.5), ("d_k", 512.0)):
        powers = np.exp(queries @ keys / divisor)
        right = powers / powers.sum(axis=1, keepdims=True)
        assert np.allclose(figure.weights()[name], right)
        largest.append(right.max(axis=1).mean())
    assert largest[0] > 0.8 and 0.15 < largest[1] < 0.5 and largest[2] < 0.1

    words = visited(visits, "intro.html").soup.select_one("article svg")
    assert words is not None
    for value in largest:
        assert f"is {value:.2f} on average" in str(words["aria-label"])


def test_no_page_weighs_much(visits: list[Visit], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        for visit in visits:
            own = len(visit.html.encode())
            print(
                f"\n  {visit.name}: {visit.bytes / 1e6:.2f} MB in {visit.sent} requests, "
                f"of which {own / 1e6:.2f} MB are the page",
                end="",
            )
    # Uncompressed; servers compress it to about a quarter.
    heavy = [visit.name for visit in visits if visit.sent > 50 or visit.bytes >= 2_000_000]
    assert heavy == []


# ---- The build -----------------------------------------------------------------------------------


def test_the_style_sheet_of_katex_is_of_the_version_that_sets_the_formulas() -> None:
    folder = ROOT / "_static" / "katex"
    style = (folder / "katex.min.css").read_text(encoding="utf-8")
    assert f'content:"{katex.katex_version}"' in style
    fonts = set(re.findall(r"url\(([^)]*)\)", style))
    assert fonts and all((folder / font).is_file() for font in fonts)


def test_our_list_of_assets_is_the_themes_without_its_icon_script() -> None:
    name = "static/webpack-macros.html"
    theme = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / name
    assets = [
        re.findall(r"_static/[\w./-]+", path.read_text(encoding="utf-8"))
        for path in (theme, ROOT / "_templates" / name)
    ]
    assert assets[1] == [a for a in assets[0] if a != "_static/scripts/fontawesome.js"]
    assert assets[1] != assets[0]


@pytest.mark.slow
def test_a_broken_link_or_formula_stops_the_build(tmp_path: Path) -> None:
    tree = copy_of_the_tree(tmp_path)
    with (tree / "pages" / "notation.md").open("a", encoding="utf-8") as page:
        page.write("\n[a page](no_such_page.md) [a place](#no-such-place)\n\n$\\frac{1$\n")
    done = build(tree)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "no_such_page.md" in said
    assert "no-such-place" in said
    assert "this formula can't be set" in said
