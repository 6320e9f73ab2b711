"""A paper that a page links to is on the page of references."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.layout import ROOT, relative

BIBLIOGRAPHY = (ROOT / "pages/references.bib").read_text(encoding="utf-8")
MANUSCRIPTS = sorted((ROOT / "manuscript").rglob("*.md"))
PAPERS = re.compile(r"https?://(?:arxiv\.org/abs|doi\.org|aclanthology\.org|(?:www\.)?jmlr\.org)/")


def addresses() -> set[str]:
    """Return where the papers of the bibliography are found."""
    urls = set(re.findall(r"^\s*url\s*=\s*\{(.*?)\}", BIBLIOGRAPHY, re.MULTILINE))
    dois = re.findall(r"^\s*doi\s*=\s*\{(.*?)\}", BIBLIOGRAPHY, re.MULTILINE)
    return urls | {f"https://doi.org/{doi}" for doi in dois}


@pytest.mark.parametrize("path", MANUSCRIPTS, ids=relative)
def test_every_paper_that_is_linked_is_in_the_bibliography(path: Path) -> None:
    links = re.findall(r"\]\((https?://[^)\s]+)\)", path.read_text(encoding="utf-8"))
    papers = {link for link in links if PAPERS.match(link)}
    assert papers - addresses() == set()


def test_every_paper_can_be_found() -> None:
    for entry in re.findall(r"^@\w+\{.*?^\}", BIBLIOGRAPHY, re.MULTILINE | re.DOTALL):
        assert re.search(r"^\s*(url|doi)\s*=", entry, re.MULTILINE), entry.splitlines()[0]
