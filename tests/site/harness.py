"""Build the site, serve it on this machine, and look at a page of it with a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = (360, 768, 1280)
THEMES = ("light", "dark")

# Elements that reach out of the window, unless they are cut or scroll inside a box of their own.
# Text that only screen readers get is placed far outside on purpose.
OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth;
  const found = [];
  if (document.documentElement.scrollWidth > width) {
    for (const e of document.body.querySelectorAll("*")) {
      const box = e.getBoundingClientRect();
      if (box.width && box.right > width + 1) {
        let boxed = false;
        for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
          if (getComputedStyle(p).overflowX !== "visible") { boxed = true; break; }
        if (!boxed) found.push(`${e.tagName.toLowerCase()}.${e.className}`.slice(0, 80));
      }
    }
    found.push(`page ${document.documentElement.scrollWidth} wide`);
  }
  return found;
}"""

ICONS = """() => {
  const icons = [...document.querySelectorAll(".fa-solid, .fas, .fab, .far")];
  const holes = icons.filter(e => getComputedStyle(e).maskImage === "none");
  return [icons.length, holes.map(e => e.className)];
}"""

AXE = """async () => {
  const result = await axe.run(document, { resultTypes: ["violations"], preload: false });
  return result.violations.flatMap(v => v.nodes.map(n => ({
    rule: v.id, impact: v.impact, selector: n.target.join(" "), html: n.html.slice(0, 200),
    why: n.failureSummary,
  })));
}"""


# A figure alone on a page, on the grounds of light and dark pages.
FIGURES_PAGE = (
    '<!doctype html><html lang="en"><head><title>Figures</title></head>'
    "<body style='margin:8px'><main><h1>Figures</h1>{}</main></body></html>"
)
GROUNDS = ("#222 on #fff", "#ddd on #121212")


def show(page: Page, *figures: Any) -> None:
    """Put figures, whatever has a ``_repr_html_``, on a page, one below the other."""
    page.set_content(FIGURES_PAGE.format("".join(figure._repr_html_() for figure in figures)))


@contextmanager
def on_a_phone(browser: Browser, *figures: Any) -> Iterator[Page]:
    """Open figures on a phone without a network; nothing may be said on the console meanwhile."""
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    context.set_offline(True)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text))
    show(opened, *figures)
    yield opened
    assert faults == []
    context.close()


@contextmanager
def without_scripts(browser: Browser, *figures: Any) -> Iterator[Page]:
    """Open figures where no script runs."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    show(page, *figures)
    yield page
    context.close()


def axe_faults(page: Page, ground: str) -> list[dict[str, Any]]:
    """Return what axe finds on a page of figures, in the colours of one of `GROUNDS`."""
    ink, paper = ground.split(" on ")
    page.evaluate(f"document.body.style.cssText = 'color:{ink};background:{paper}'")
    page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = page.evaluate(AXE)
    return found


def copy_of_the_tree(target: Path) -> Path:
    """Copy what git tracks, and what it would track, into `target`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    """Build the book of `tree` as `make book` does."""
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    return subprocess.run(
        [*program, "build", "--warningiserror", "--nitpick", "--keep-going", "--quiet", "."],
        cwd=tree,
        # Nothing but this environment: a Node that happens to be installed must not be needed.
        env={**os.environ, "PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
    )


@dataclass
class Visit:
    """What one page showed while a browser looked at it."""

    name: str
    html: str = ""
    requests: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    bytes: int = 0
    sent: int = 0
    overflow: dict[int, list[str]] = field(default_factory=dict)
    axe: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    icons: int = 0
    holes: list[str] = field(default_factory=list)

    @property
    def soup(self) -> BeautifulSoup:
        """The page as the browser had it after its scripts had run."""
        return BeautifulSoup(self.html, "html.parser")


class Quiet(SimpleHTTPRequestHandler):
    """Serve files and say nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, without playwright's own flag for the headless mode."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def look_at(browser: Browser, address: str, name: str) -> Visit:
    """Open one page, record what it asks for and says, and examine it in each width and theme."""
    visit = Visit(name)
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    origin = urlsplit(address).netloc

    page.on("request", lambda request: visit.requests.append(request.url))
    page.on(
        "console",
        lambda message: (
            visit.console.append(f"{message.type}: {message.text}")
            if message.type in ("error", "warning")
            else None
        ),
    )
    page.on("pageerror", lambda error: visit.console.append(f"uncaught: {error}"))
    page.on("requestfailed", lambda r: visit.failures.append(f"{r.url} {r.failure}"))
    page.on(
        "response",
        lambda r: visit.failures.append(f"{r.url} {r.status}") if r.status >= 400 else None,
    )
    # A page that reaches out doesn't get there: the test needs no network, and leaks nothing.
    page.route(
        lambda url: urlsplit(url).scheme in ("http", "https") and urlsplit(url).netloc != origin,
        lambda route: route.abort(),
    )
    page.goto(address + name, wait_until="load")
    page.wait_for_timeout(150)
    visit.html = page.content()
    # What is folded away is part of the page too. An image further down loads when it is reached.
    page.evaluate(
        """() => {
          document.querySelectorAll("article details").forEach(d => d.open = true);
          document.querySelectorAll("img").forEach(i => i.loading = "eager");
        }"""
    )
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        visit.overflow[width] = page.evaluate(OVERFLOWING)
    visit.sent = len(visit.requests)
    visit.icons, visit.holes = page.evaluate(ICONS)
    page.evaluate(AXE_SCRIPT)
    for theme in THEMES:
        page.evaluate("t => { document.documentElement.dataset.theme = t; }", theme)
        page.wait_for_timeout(350)  # colours fade from one theme to the other
        visit.axe[theme] = page.evaluate(AXE)
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_timeout(500)  # the theme waits a while before it looks what scrolls
    visit.axe["phone"] = page.evaluate(AXE)
    visit.bytes = sum(
        page.evaluate(
            """() => [...performance.getEntriesByType("resource"),
                      ...performance.getEntriesByType("navigation")]
                     .map(e => e.encodedBodySize)"""
        )
    )
    context.close()
    return visit
