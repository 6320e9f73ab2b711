"""What the book's build needs beyond its configuration: see `setup`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import formulas
import landing_figure
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole, SphinxDirective, SphinxRole
from sphinxcontrib import katex

logger = logging.getLogger(__name__)

# Jupyter Book puts these on every page, and this book never uses them. The first knows the address
# of a CDN.
UNUSED_SCRIPTS = ("THEBE_JS_URL", "sphinx-thebe.js")
UNUSED_STYLES = ("sphinx-thebe.css",)


def drop_thebe_settings(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Take the settings of Thebe (live code, which we don't offer) out of the page."""
    for node in list(doctree.findall(nodes.raw)):
        if "text/x-thebe-config" in node.astext() or "kernelName" in node.astext():
            node.parent.remove(node)


def drop_unused_assets(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Take scripts and style sheets that nothing uses out of the page, and each second copy."""

    def useful(assets: list[Any], unused: tuple[str, ...]) -> list[Any]:
        kept: dict[str, Any] = {}
        for asset in assets:
            text = f"{getattr(asset, 'filename', asset)} {getattr(asset, 'attributes', '')}"
            if not any(name in text for name in unused):
                kept.setdefault(text.strip() if getattr(asset, "filename", "") else text, asset)
        return list(kept.values())

    context["script_files"] = useful(context["script_files"], UNUSED_SCRIPTS)
    context["css_files"] = useful(context["css_files"], UNUSED_STYLES)


def mend_roles(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the entries of a list of references the role that the list's own role asks for."""
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


class LandingFigure(SphinxDirective):
    """The picture of the first page; its content is the caption."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the picture and its caption."""
        caption = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, caption)
        opening = f'<figure class="course-figure">{landing_figure.svg()}<figcaption>'
        return [
            nodes.raw("", opening, format="html"),
            *(child for paragraph in caption.children for child in paragraph.children),
            nodes.raw("", "</figcaption></figure>", format="html"),
        ]


class ColabRole(ReferenceRole):
    """A link that opens a notebook of this repository in Colab: {colab}`text <chapters/05_…>`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link. A notebook that isn't there is a warning."""
        theme = self.config.html_theme_options
        if not Path(self.env.srcdir, f"{self.target}.ipynb").is_file():
            logger.warning("no notebook %s.ipynb", self.target, location=self.get_location())
        owner = theme["repository_url"].rstrip("/").removeprefix("https://github.com/")
        path = "/".join(filter(None, [theme["path_to_docs"].strip("/"), self.target]))
        colab = theme["launch_buttons"]["colab_url"]
        url = f"{colab}/github/{owner}/blob/{theme['repository_branch']}/{path}.ipynb"
        return [nodes.reference("", self.title, refuri=url, internal=False)], []


class RepositoryRole(SphinxRole):
    """A link to the repository that `_config.yml` names: {repository}`text`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link."""
        url = self.config.html_theme_options["repository_url"]
        return [nodes.reference("", self.text, refuri=url, internal=False)], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Set formulas, take out what pages don't need, and add what the first page needs."""
    katex.render_latex = formulas.render
    app.connect("build-finished", formulas.stop)
    app.connect("doctree-resolved", drop_thebe_settings, priority=900)
    app.connect("html-page-context", drop_unused_assets, priority=900)
    app.connect("html-page-context", mend_roles)
    app.add_directive("landing-figure", LandingFigure)
    app.add_role("colab", ColabRole())
    app.add_role("repository", RepositoryRole())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
