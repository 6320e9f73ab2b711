"""What the licence and the citation file say agrees with the rest."""

from __future__ import annotations

import tomllib
import yaml

from tests.site.harness import ROOT


def test_the_licence_says_which_part_is_under_which() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    for words in (
        "MIT License",
        "Permission is hereby granted, free of charge",
        'THE SOFTWARE IS PROVIDED "AS IS"',
        "Creative Commons Attribution 4.0 International",
        "https://creativecommons.org/licenses/by/4.0/legalcode",
    ):
        assert words in text


def test_the_citation_file_is_valid_and_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert all(set(author) <= {"name", "website"} for author in citation["authors"])
    assert citation["type"] in {"software", "dataset"}
    assert citation["version"] == project["version"]
    assert citation["license"] == "MIT"
