"""The built site, served on this machine, and a browser that visits every page of it once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.site.harness import Quiet, Visit, build, chromium, copy_of_the_tree, look_at


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
    with chromium() as started:
        yield started


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
def visits(address: str, pages: list[str]) -> list[Visit]:
    """Visit every page once, with as many browsers at a time as there are cores."""
    n = os.cpu_count() or 1

    def visit(some: list[str]) -> list[Visit]:
        with chromium() as own:
            return [look_at(own, address, name) for name in some]

    with ThreadPoolExecutor(n) as pool:
        parts = pool.map(visit, (pages[i::n] for i in range(n)))
        return sorted((visit for part in parts for visit in part), key=lambda visit: visit.name)
