from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from course_lib import accounting
from course_lib.cost_formulas import BLOCKS, MODEL, Formulas, evaluate
from course_lib.figures import Plot
from course_lib.figures import costs as figures

SIZES = {"n": 50, "d": 512, "h": 8, "d_ff": 2048, "N": 6, "V": 37_000}
MODELS = {"Transformer": (50, 512), "GPT-3": (2048, 12_288), "Llama 3.1, 8B": (131_072, 4096)}
RISING = [i << 20 for i in (1, 5, 9, 4, 0)]

PLOTS: dict[str, Callable[[], Plot]] = {
    "memory_over_step": lambda: figures.memory_over_step(
        {"all kept": RISING, "checkpoints": [3 << 20] * 40, "a third": RISING[::-1]}
    ),
    "memory_over_step of one, large": lambda: figures.memory_over_step({"a": [1, 10**12]}),
    "memory_against_length": figures.memory_against_length,
    "memory_against_length, small": lambda: figures.memory_against_length(64, 1, 100, 64),
    "memory_against_length, large": lambda: figures.memory_against_length(4096, 32, longest=2**17),
    "bottleneck_map": lambda: figures.bottleneck_map(MODELS),
    "bottleneck_map of five": lambda: figures.bottleneck_map(
        {**MODELS, "BERT, base": (512, 768), "Llama 2, 7B": (4096, 4096)}
    ),
}


class Cells(HTMLParser):
    """Reads a table: the text of each cell, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.regions: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "br":
            self.rows[-1][-1] += " = "
        if tag == "div":
            self.regions.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def cells(table: figures.Table) -> Cells:
    parser = Cells()
    parser.feed(table._repr_html_())
    return parser


def test_the_table_has_every_cell_with_its_number_under_it() -> None:
    table = figures.cost_table(BLOCKS | MODEL, **SIZES)
    head, *rows = cells(table).rows
    assert head == ["", "steps", "path", "FLOPs", "parameters", "kept, bytes"]
    assert [row[0] for row in rows] == [*BLOCKS, *MODEL]
    assert {len(row) for row in rows} == {6}
    columns = ("steps", "path", "flops", "parameters", "kept")
    for (name, *shown), formulas in zip(rows, (BLOCKS | MODEL).values(), strict=True):
        for cell, column in zip(shown, columns, strict=True):
            formula = getattr(formulas, column)
            if not formula:
                assert cell == "", name
                continue
            number = evaluate(formula, SIZES)
            said = cell.split(" = ")[-1]
            amount = float(re.match(r"[\d.,]+", said).group().replace(",", ""))  # type: ignore[union-attr]
            unit = said.lstrip("0123456789.,").strip()
            steps = ["", "k", "M", "G", "T"] if "iB" not in unit else ["B", "KiB", "MiB", "GiB"]
            base = 1024 if "iB" in unit else 1000
            assert amount * base ** steps.index(unit) == pytest.approx(number, rel=0.006)
            assert f"{formula and said}" in repr(table)


def test_a_table_scrolls_by_keyboard_where_the_page_is_narrow() -> None:
    (region,) = cells(figures.cost_table(BLOCKS, **SIZES)).regions
    assert region["tabindex"] == "0"
    assert region["role"] == "region"
    assert region["aria-label"] == "Costs by formula"
    assert "overflow-x:auto" in (region["style"] or "")


def test_a_column_that_no_row_fills_is_left_out() -> None:
    rows = {"a": Formulas(flops="2*n"), "b": Formulas(flops="3", steps="n")}
    head, *_ = cells(figures.cost_table(rows, **SIZES)).rows
    assert head == ["", "steps", "FLOPs"]


def test_the_lines_of_memory_are_what_the_accounting_says() -> None:
    plot = figures.memory_against_length(d=128, n_layers=2, vocab_size=50, longest=256)
    lines = {line.get_label(): line for line in plot.figure.axes[0].get_lines()}
    for i, n in enumerate(np.asarray(lines["attention tables"].get_xdata()).astype(int).tolist()):
        kept = accounting.activation_memory(n, n, 50, 128, 2, 2, 512, padded=False)
        model = accounting.encoder_decoder(n, n, 50, 50, 128, 2, 2, 512, tie="all")
        fixed = 16 * accounting.total(model).parameters
        for name, nbytes in (
            ("attention tables", kept["attention tables"]),
            ("other activations", sum(kept.values()) - kept["attention tables"]),
            ("parameters,\ngradients, Adam", fixed),
        ):
            assert np.asarray(lines[name].get_ydata())[i] == pytest.approx(nbytes / 2**30)


def test_the_words_under_the_lines_say_where_they_cross() -> None:
    said = figures.memory_against_length(longest=8192).alt
    match = re.search(
        r"the other activations by n = (\d+) and all that is fixed by n = (\d+)", said
    )
    assert match is not None
    first, second = map(int, match.groups())
    for n, below in ((first, False), (first // 2, True)):
        kept = accounting.activation_memory(n, n, 32_000, padded=False)
        assert (2 * kept["attention tables"] < sum(kept.values())) == below
    fixed = (
        16
        * accounting.total(accounting.encoder_decoder(9, 9, 32_000, 32_000, tie="all")).parameters
    )
    for n, below in ((second, False), (second // 2, True)):
        kept = accounting.activation_memory(n, n, 32_000, padded=False)
        assert (kept["attention tables"] < fixed) == below
    assert "nowhere and all that is fixed nowhere" in figures.memory_against_length(longest=64).alt


def test_the_map_is_drawn_from_the_shares_that_the_accounting_says() -> None:
    plot = figures.bottleneck_map(MODELS)
    for name, (n, d) in MODELS.items():
        lines = accounting.multi_head_attention(n, n, d, d // 64)
        layer = accounting.total(accounting.encoder_layer(n, d, d // 64, 4 * d)).flops
        share = (lines["scores"].flops + lines["heads"].flops) / layer
        assert f"{name}, n = {n}, d = {d}: {100 * share:.0f} %." in plot.alt
    half, border, *_ = plot.figure.axes[0].get_lines()
    for n, d in zip(*half.get_data(), strict=True):
        assert n == accounting.crossover_length(int(d), 4 * int(d))
    # Of what a layer keeps in memory, the tables are half on this line, whatever the width.
    n = int(border.get_xdata()[0])
    for d in (64, 512, 16_384):
        for length, below in ((n - 8, True), (n + 8, False)):
            tables = 8 * (d // 64) * length**2
            sizes = {"n": length, "d": d, "h": d // 64, "d_ff": 4 * d}
            kept = evaluate(BLOCKS["encoder layer"].kept, sizes)
            assert (2 * tables < kept) == below


def test_the_step_is_drawn_operation_by_operation() -> None:
    plot = figures.memory_over_step({"all kept": RISING})
    (line,) = plot.figure.axes[0].get_lines()
    assert np.asarray(line.get_ydata()).tolist() == [1, 5, 9, 4, 0]
    assert "5 operations, a peak of 9.0 MiB after 50 % of them" in plot.alt


# ---- Calculator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"n": 16, "d": 64, "n_layers": 1, "batch": 1, "size": 2, "rate": 6},
        {"n": 131_072, "d": 16_384, "n_layers": 96, "batch": 1024},
        {"n": 512, "d": 128, "n_layers": 3, "batch": 8, "size": 2, "rate": 0},
    ],
)
def test_the_calculator_counts_as_the_accounting_does(chosen: dict[str, int]) -> None:
    at = {"n": 64, "d": 512, "n_layers": 6, "batch": 256, "size": 4, "rate": 1, **chosen}
    n, d, b = at["n"], at["d"], at["batch"]
    h, layers, dtype = d // 64, at["n_layers"], {4: "float32", 2: "float16"}[at["size"]]
    lines = accounting.encoder_decoder(n, n, 32_000, 32_000, d, h, layers, 4 * d, b)
    kept = accounting.activation_memory(
        n, n, 32_000, d, h, layers, 4 * d, b, padded=False, dtype=dtype
    )
    held = accounting.total(lines).parameters
    memory = accounting.training_memory(held, sum(kept.values()), dtype)
    # Sixteen bytes a parameter either way: two means in float32, and a copy where numbers are half.
    memory["optimiser"] = 16 * held - memory["parameters"] - memory["gradients"]
    cache = accounting.kv_cache(n, layers, h, 64, b, n_src=n)
    attention = accounting.multi_head_attention(n, n, d, h, b)
    mixing = 9 * layers * (attention["scores"].flops + attention["heads"].flops)
    network = 6 * layers * accounting.total(accounting.feed_forward(n, d, 4 * d, b)).flops
    head = 3 * lines["projection"].flops
    flops = accounting.training_flops(lines)
    tables = kept["attention tables"]
    expected = {
        "memory 0": memory["parameters"], "memory 1": memory["gradients"],
        "memory 2": memory["optimiser"], "memory 3": tables,
        "memory 4": memory["activations"] - tables,
        "memory 5": accounting.memory(b * n * 32_000, dtype),
        "flops 0": flops - mixing - network - head, "flops 1": mixing, "flops 2": network,
        "flops 3": head, "held": held, "flops": flops,
        "memory": sum(memory.values()) + accounting.memory(b * n * 32_000, dtype),
        "cache": accounting.memory(sum(cache.values()), dtype),
    }  # fmt: skip
    figure = figures.training_calculator(**at)
    root = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
    shown = {
        t.get("data-value") or t.get("data-total"): t.text
        for t in root.iter("tspan") if t.get("data-value") or t.get("data-total")
    }  # fmt: skip
    assert shown.keys() == expected.keys()
    for name, number in expected.items():
        assert shown[name] == figures._amount(number, name.startswith(("memory", "cache"))), name
    bars = {r.get("data-bar"): float(r.get("width") or "nan") for r in root.iter("rect")}
    for name, width in bars.items():
        whole = expected[str(name).split()[0]]
        assert width == pytest.approx(130 * expected[str(name)] / whole, abs=0.051)
    seconds = flops / 10 ** (10 + at["rate"])
    assert figure.caption.endswith(f"FLOP/s, {figures._time(seconds)}.")


@pytest.mark.parametrize(
    ("value", "binary", "said"),
    [
        (0, False, "0"), (999, False, "999"), (999.4, False, "999"), (1000, False, "1.00 k"),
        (99_949, False, "99.9 k"), (99_951, False, "100 k"), (63_082_496, False, "63.1 M"),
        (1023, True, "1.00 KiB"), (999, True, "999 B"), (1.125 * 2**30, True, "1.13 GiB"),
        (999.5 * 2**20, True, "0.98 GiB"), (5e26, False, "500 Y"), (5e30, False, "5000000 Y"),
    ],
)  # fmt: skip
def test_amounts_have_three_digits_and_a_unit(value: float, binary: bool, said: str) -> None:
    assert figures._amount(value, binary) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(4e-6, "4.00 µs"), (0.5, "500 ms"), (1, "1.00 s"), (99.9, "99.9 s"), (120, "2.00 min"),
     (7200, "2.00 h"), (432_000, "5.00 days"), (31_557_600 * 12e3, "12.0 k years")],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit(seconds: float, said: str) -> None:
    assert figures._time(seconds) == said


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figures.cost_table({}, **SIZES), "rows must have at least one row; got none"),
        (lambda: figures.cost_table(BLOCKS, **{**SIZES, "h": 0}), "h must be a whole number of at"),
        (lambda: figures.memory_over_step({}), "runs must be one to three; got 0"),
        (lambda: figures.memory_over_step({"a": [1]}), r"runs\['a'\] must be at least two numbers"),
        (lambda: figures.memory_against_length(100), "d must be a multiple of 64, the width of a"),
        (lambda: figures.memory_against_length(longest=8), "longest must be a whole number of at"),
        (lambda: figures.bottleneck_map({}), "models must be one to eight; got 0"),
        (lambda: figures.bottleneck_map({"a": (8, 64)}), r"models\['a'\] must have n from 16 to"),
        (lambda: figures.training_calculator(n=100), "n must be a power of two from 16 to 131072"),
        (lambda: figures.training_calculator(d=True), "d must be a power of two from 64 to 16384"),
        (lambda: figures.training_calculator(batch=3), "batch must be a power of two from 1 to 10"),
        (lambda: figures.training_calculator(n_layers=0), "n_layers must be one of "),
        (lambda: figures.training_calculator(size=8), r"size must be one of \[2, 4\]; got 8"),
        (lambda: figures.training_calculator(rate=7), "rate must be one of "),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
