"""What holds for the plots of every chapter: those that its tests list as ``PLOTS``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from course_lib.figures import Plot
from tests.figures import drawn

PLOTS: dict[str, Callable[[], Plot]] = {
    f"{path.stem.removeprefix('test_')}-{name}": make
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if path != Path(__file__)
    for name, make in getattr(
        importlib.import_module(f"tests.figures.{path.stem}"), "PLOTS", {}
    ).items()
}


def test_every_chapters_plots_are_found() -> None:
    assert len({name.split("-")[0] for name in PLOTS}) >= 8


@pytest.mark.parametrize("name", PLOTS)
def test_no_word_is_cut_off_or_on_another_or_too_small_on_a_phone(name: str) -> None:
    assert drawn.faults(PLOTS[name]()) == []


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_the_same_each_time(name: str) -> None:
    one, two = PLOTS[name](), PLOTS[name]()
    assert one.alt == two.alt
    assert one.png() == two.png()
