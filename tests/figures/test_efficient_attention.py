from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib import accounting
from course_lib.figures import Plot
from course_lib.figures import efficient_attention as figures
from course_lib.figures.costs import _amount

RUNS = {
    "a table": {n: 20 * n**2 for n in (512, 1024, 2048)},
    "tiles": {n: 2**20 + 300 * n for n in (512, 1024, 2048, 4096, 8192, 16_384)},
}
SCORES = np.random.default_rng(2).integers(-9, 10, (8, 8))

PLOTS: dict[str, Callable[[], Plot]] = {
    "cache_against_context": figures.cache_against_context,
    "cache_against_context, small": lambda: figures.cache_against_context(
        2, 4, 2, 16, 10**8, longest=4096
    ),
    "cache_against_context, large": lambda: figures.cache_against_context(
        126, 128, 8, 128, 405 * 10**9, longest=2**20
    ),
    "memory_measured": lambda: figures.memory_measured(RUNS),
    "memory_measured of one": lambda: figures.memory_measured(
        {"tiles": {64: 10**5, 128: 10**6, 256: 10**7}}
    ),
}


def test_the_lines_of_the_cache_are_what_the_accounting_says() -> None:
    plot = figures.cache_against_context(3, 8, 2, 64, 10**9, longest=8192)
    *lines, _ = plot.figure.axes[0].get_lines()
    for line, heads in zip(lines, (8, 2, 1), strict=True):
        for n, gib in zip(*line.get_data(), strict=True):
            numbers = accounting.kv_cache(int(n), 3, heads, 64)["self-attention"]
            assert gib * 2**30 == pytest.approx(accounting.memory(numbers, "float16"))
    assert "MQA, 1 head 6.00 MiB. The weights take 1.86 GiB." in plot.alt


def test_the_measured_points_are_drawn_and_said() -> None:
    plot = figures.memory_measured(RUNS)
    table, tiles = plot.figure.axes[0].get_lines()
    assert list(table.get_xdata()) == [512, 1024, 2048]
    assert list(tiles.get_ydata()) == [y / 2**30 for y in RUNS["tiles"].values()]
    assert "tokens 15.0 MiB more, from 1,024 to 2,048 tokens 60.0 MiB more. tiles: " in plot.alt


# ---- Tiles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block_q", "block_k"), [(2, 2), (3, 2), (1, 8), (8, 8), (5, 3)])
@pytest.mark.parametrize("causal", [True, False])
def test_each_step_shows_what_is_kept_after_its_tile(
    block_q: int, block_k: int, causal: bool
) -> None:
    scores = SCORES[3:] if causal else SCORES
    n_q, n_k = scores.shape
    figure = figures.tile_steps(scores, block_q, block_k, causal)
    root = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
    steps = [g for g in root.iter("g") if g.get("data-step")]
    assert len(steps) == len(figure.buttons) == len(figure.captions)
    seen = np.tri(n_q, n_k, n_k - n_q, dtype=bool) if causal else np.ones((n_q, n_k), dtype=bool)
    visited = np.zeros((n_q, n_k), dtype=bool)
    for group, caption in zip(steps, figure.captions, strict=True):
        match = re.search(r"quer(?:y|ies) (\d+)(?: to (\d+))?, keys? (\d+)(?: to (\d+))?", caption)
        assert match is not None
        first, last, left, right = (None if x is None else int(x) for x in match.groups())
        assert first is not None and left is not None
        rows = slice(first, (first if last is None else last) + 1)
        columns = slice(left, (left if right is None else right) + 1)
        assert seen[rows, columns].any(), "a tile that is hidden whole is visited"
        visited[rows, columns] = True
        texts = [t.text for t in group.iter("text")]
        for row in range(rows.stop):
            known = scores[row][visited[row] & seen[row]]
            peak = known.max() if known.size else -np.inf
            m = "−∞" if peak == -np.inf else str(peak).replace("-", "−")
            exps, values = np.exp(known - peak), np.flatnonzero(visited[row] & seen[row])
            sums = f"{exps.sum():.2f}", f"{(exps * values).sum():.2f}"
            assert texts[3 * row : 3 * row + 3] == [m, *sums]
        done = bool((visited[rows] | ~seen[rows]).all())
        own = scores[rows.stop - 1][seen[rows.stop - 1]]
        weights = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
        output = f"output is o / l = {weights @ np.flatnonzero(seen[rows.stop - 1]):.2f}."
        assert caption.endswith(output) == done
    assert visited[seen].all()


def test_only_the_tile_that_is_shown_is_seen_at_the_start() -> None:
    figure = figures.tile_steps(SCORES, 2, 2, shown=4)
    assert figure.body.count("display:none") == 9
    assert '<g data-step="4">' in figure.body


def test_the_words_say_how_many_tiles_are_left_out() -> None:
    assert "10 of 16 tiles, none that a causal mask hides" in figures.tile_steps(SCORES, 2, 2).alt
    assert "16 of 16 tiles. " in figures.tile_steps(SCORES, 2, 2, causal=False).alt


def test_a_maximum_that_rises_shrinks_what_there_is() -> None:
    figure = figures.tile_steps([[0, 2, 1, 3]], 1, 1, causal=False)
    assert figure.captions[0].endswith("Query 0 begins: m = 0, l = 1.00, o = 0.00.")
    assert "m rises from 0 to 2, so l = 1.00 shrinks to 0.14, and o = 0.00" in figure.captions[1]
    assert "m stays 2, l grows from 1.14 to 1.50, o from 1.00 to 1.74." in figure.captions[2]
    assert "l = 1.50 shrinks to 0.55, and o = 1.74 to 0.64, before the" in figure.captions[3]


def test_every_score_that_is_seen_is_written_and_every_other_is_a_dot() -> None:
    root = ElementTree.fromstring(f"<svg>{figures.tile_steps(SCORES, 2, 2).body}</svg>")
    cells = [t.text for t in root.findall("text")][-74:]
    for i, row in enumerate(SCORES):
        words = [str(s).replace("-", "−") if j <= i else "·" for j, s in enumerate(row)]
        assert cells[1 + 9 * i : 10 + 9 * i] == [str(i), *words]


# ---- Calculator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"n": 1024, "n_layers": 1, "n_heads": 8, "n_kv_heads": 1, "d_head": 64, "bits": 32},
        {"n": 2**20, "n_layers": 128, "n_heads": 128, "n_kv_heads": 128, "d_head": 256,
         "batch": 256},
        {"n_heads": 16, "n_kv_heads": 64, "bits": 8},
        {"n_heads": 128, "n_kv_heads": 8},
    ],
)  # fmt: skip
def test_the_calculator_counts_as_the_accounting_does(chosen: dict[str, int]) -> None:
    at = {"n": 32_768, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "d_head": 128, "batch": 1,
          "bits": 16, **chosen}  # fmt: skip
    figure = figures.cache_calculator(**at)
    root = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
    values = [t.text for t in root.iter("tspan") if t.get("data-value")]
    names = [t.text or "" for t in root.iter("tspan") if t.get("data-name")]
    shared = min(at["n_heads"], at["n_kv_heads"])
    for heads, value, name in zip((at["n_heads"], shared, 1), values, names, strict=True):
        numbers = accounting.kv_cache(
            at["n"], at["n_layers"], heads, at["d_head"], at["batch"]
        )["self-attention"]  # fmt: skip
        assert value == _amount(numbers * at["bits"] // 8, True)
        assert name[5:].split()[0] == str(heads)
    numbers = accounting.kv_cache(1, at["n_layers"], shared, at["d_head"])["self-attention"]
    assert figure.caption.startswith(f"A token takes {_amount(numbers * at['bits'] // 8, True)}, ")
    assert ("Only " in figure.caption) == (at["n_kv_heads"] > at["n_heads"])


def test_a_bar_is_as_much_longer_as_its_cache_is_doubled() -> None:
    def widths(**sizes: int) -> list[float]:
        body = figures.cache_calculator(**sizes).body
        return [float(x) for x in re.findall(r'data-bar.*? width="([^"]+)"', body)]

    before = widths()
    assert before[0] - before[1] == pytest.approx(2 * (before[1] - before[2]) / 3, abs=0.2)
    for name, value in {"n": 2**16, "n_layers": 64, "d_head": 256, "batch": 2, "bits": 32}.items():
        after = widths(**{name: value})
        assert [b - a for a, b in zip(before, after, strict=True)] == pytest.approx(
            [(before[0] - before[1]) / 2] * 3, abs=0.11
        )
    marked = re.search(r'd="M([0-9.]+) 26V', figures.cache_calculator().body)
    full = widths(n=2**13, n_layers=80, n_heads=64, batch=16)[1]  # 16 texts of 2.5 GiB
    assert marked is not None
    assert float(marked[1]) == pytest.approx(118 + full, abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figures.cache_against_context(n_kv_heads=5), "n_kv_heads must divide n_heads"),
        (lambda: figures.cache_against_context(longest=100), "longest must be a whole number of"),
        (lambda: figures.memory_measured({}), "runs must be one to three; got 0"),
        (lambda: figures.memory_measured({"a": {1: 2}}), r"runs\['a'\] must have at least three"),
        (lambda: figures.tile_steps(np.ones((9, 9)), 2, 2), "scores must have from 1 to 8 rows"),
        (lambda: figures.tile_steps(np.ones((3, 2)), 2, 2), "scores must have from 1 to 8 rows"),
        (lambda: figures.tile_steps(np.ones(3), 2, 2), "scores must have from 1 to 8 rows"),
        (lambda: figures.tile_steps([[0.5]], 2, 2), "scores must be whole numbers from -9 to 9"),
        (lambda: figures.tile_steps([[np.nan]], 2, 2), "scores must be whole numbers from -9 to"),
        (lambda: figures.tile_steps(SCORES, 0, 2), "block_q must be a whole number"),
        (lambda: figures.tile_steps(SCORES, 2, 2, shown=10), "shown must be a tile, 0 to 9; got"),
        (lambda: figures.cache_calculator(n=1000), "n must be a power of two from 1024 to 1048576"),
        (lambda: figures.cache_calculator(n_layers=0), "n_layers must be a whole number of at le"),
        (lambda: figures.cache_calculator(n_layers=129), "n_layers must be at most 128; got 129"),
        (lambda: figures.cache_calculator(n_heads=3), "n_heads must be a power of two from 8 to"),
        (lambda: figures.cache_calculator(bits=4), r"bits must be one of \[32, 16, 8\]; got 4"),
    ],
)
def test_what_cannot_be_drawn_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
