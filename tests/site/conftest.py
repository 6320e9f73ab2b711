"""The built site, served on this machine, and a browser that visits every page of it once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
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

AXE = """async () => {
  const result = await axe.run(document, { resultTypes: ["violations"], preload: false });
  return result.violations.flatMap(v => v.nodes.map(n => ({
    rule: v.id, impact: v.impact, selector: n.target.join(" "), html: n.html.slice(0, 200),
    why: n.failureSummary,
  })));
}"""


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
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/bin"])},
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
    overflow: dict[int, list[str]] = field(default_factory=dict)
    axe: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    scrollers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def soup(self) -> BeautifulSoup:
        """The page as the browser had it after its scripts had run."""
        return BeautifulSoup(self.html, "html.parser")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site: the one that COURSE_SITE names, or a fresh one."""
    if given := os.environ.get("COURSE_SITE"):
        assert Path(given, "index.html").is_file(), f"COURSE_SITE={given} holds no site"
        return Path(given)
    tree = copy_of_the_tree(tmp_path_factory.mktemp("site"))
    done = build(tree)
    assert done.returncode == 0, f"the book was not built:\n{done.stdout}\n{done.stderr}"
    return tree / "_build" / "html"


@pytest.fixture(scope="session")
def pages(site: Path) -> list[str]:
    """Return every page of the site, as a path below its root."""
    found = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    return [name for name in found if not name.startswith("_static/")]


class Quiet(SimpleHTTPRequestHandler):
    """Serve files and say nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Serve the site and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium, without playwright's own flag for the headless mode."""
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Open]:
    """Return a function that opens a page of the site in a fresh browser profile."""
    contexts = []

    def open_it(name: str, width: int = 1280, height: int = 800, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.goto(address + name, wait_until="load")
        return page

    yield open_it
    for context in contexts:
        context.close()


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
    page.on("requestfinished", lambda r: sizes.append(r.url))
    sizes: list[str] = []
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


@pytest.fixture(scope="session")
def visits(browser: Browser, address: str, pages: list[str]) -> list[Visit]:
    """Visit every page once."""
    return [look_at(browser, address, name) for name in pages]
