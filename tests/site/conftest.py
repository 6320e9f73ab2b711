"""The built site, served on this machine, and a browser that visits every page of it once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.site.harness import CHROMIUM, FLAGS, Quiet, Visit, build, copy_of_the_tree, look_at


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


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page of the site in a fresh browser profile."""
    contexts = []

    def open_it(name: str, width: int = 1280, height: int = 800, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.goto(address + name, wait_until="load")
        return page

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def visits(browser: Browser, address: str, pages: list[str]) -> list[Visit]:
    """Visit every page once."""
    return [look_at(browser, address, name) for name in pages]
