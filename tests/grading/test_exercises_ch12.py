"""What only chapter 12's exercises promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from course_lib import accounting
from course_lib.grading import check
from course_lib.grading.exercises import ch12_cost_and_memory as ch12
from course_lib.grading.exercises import flop_counts, memory_counts
from tests.grading.course import answers, manuscript

BYTES, FLOPS, BOTTLENECK, CROSSOVER, TIME, SHEET = ch12.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


# -- against what is counted -----------------------------------------------------------------------


def layer_of_torch(x: Any, w: dict[str, Any], n_heads: int) -> Any:
    """An encoder layer, the norms last, of PyTorch's own softmax and layer norm."""
    import torch
    from torch.nn import functional

    d = x.shape[-1]
    q, k, v = (
        functional.linear(x, w[name]).unflatten(-1, (n_heads, -1)).transpose(1, 2) for name in "qkv"
    )
    weights = torch.softmax(q * (d // n_heads) ** -0.5 @ k.mT, dim=-1)
    heads = (weights @ v).transpose(1, 2).flatten(-2)
    x = functional.layer_norm(x + functional.linear(heads, w["o"]), (d,), w["g"], w["b"])
    inner = torch.relu(functional.linear(x, w["1"]))
    return functional.layer_norm(x + functional.linear(inner, w["2"]), (d,), w["g"], w["b"])


@pytest.mark.parametrize("sizes", [(4, 6, 2, 10, 1), (5, 8, 4, 12, 3), (3, 6, 1, 7, 2)])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_bytes_are_those_that_autograd_keeps(sizes: tuple[int, ...], n_layers: int) -> None:
    torch = pytest.importorskip("torch")
    n, d, h, d_ff, batch = sizes
    shapes = {**dict.fromkeys("qkvo", (d, d)), "1": (d_ff, d), "2": (d, d_ff), "g": (d,), "b": (d,)}
    layers = [
        {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}
        for _ in range(n_layers)
    ]

    def run(x: Any) -> Any:
        for w in layers:
            x = layer_of_torch(x, w, h)
        return x

    kept = accounting.count_saved_bytes(run, torch.randn(batch, n, d, requires_grad=True))
    assert kept == sum(memory_counts.activation_bytes(n, d, h, d_ff, n_layers, batch))


def test_the_tables_of_the_syllabus_are_6_gib() -> None:
    assert memory_counts.activation_bytes(4096, 512, 8, 2048, 12)[0] == 6 * 2**30


def test_checkpointing_of_one_layer_saves_nothing_and_of_more_it_does() -> None:
    sizes = (5, 8, 2, 20)
    plain, saved = (
        [memory_counts.activation_bytes(*sizes, n_layers, 3, 4, again) for n_layers in (1, 2)]
        for again in (False, True)
    )
    assert plain[0] == saved[0]
    assert all(a > b for a, b in zip(plain[1], saved[1], strict=True))


def test_flops_of_the_cases_are_counted_by_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from course_lib.models.encoder_decoder import EncoderDecoder

    n_src, n_tgt, d, h, n_layers, d_ff, vocab, batch = 5, 3, 8, 2, 2, 10, 11, 2
    model = EncoderDecoder(vocab, vocab, d, h, n_layers, d_ff)
    src, tgt = torch.full((batch, n_src), 4), torch.full((batch, n_tgt), 5)
    tgt[:, 0] = 1
    lengths = torch.full((batch,), n_src)
    counted = accounting.count_flops(lambda: model(src, lengths, tgt).sum().backward())
    assert counted == sum(flop_counts.step_flops(n_src, n_tgt, d, h, n_layers, d_ff, vocab, batch))


def test_the_sheet_is_the_sum_of_what_is_counted_elsewhere() -> None:
    n, d, h, d_ff, n_layers, vocab, batch = SHEET.cases[-1].build().values()
    parameters, flops, memory = ch12.cost_sheet(n, d, h, d_ff, n_layers, vocab, batch)
    layer = accounting.total(accounting.encoder_layer(n, d, h, d_ff, batch, attention_bias=False))
    assert parameters == vocab * d + n_layers * (layer.parameters - d_ff - d)
    logits = accounting.total(accounting.tied_logits(n, d, vocab, batch))
    assert flops == 3 * (n_layers * layer.flops + logits.flops)
    tables, _ = memory_counts.activation_bytes(n, d, h, d_ff, n_layers, batch)
    assert memory == sum(accounting.training_memory(parameters, tables).values())


# -- the cases -------------------------------------------------------------------------------------


def test_each_of_four_things_is_the_bottleneck_of_some_case() -> None:
    largest = {BOTTLENECK.reference(**case.build())[1] for case in BOTTLENECK.cases}
    assert largest == {0, 1, 2, 3}


def test_lengths_reach_their_share_and_those_before_them_dont() -> None:
    for case in CROSSOVER.cases:
        d, d_ff, *share = case.build().values()
        n = CROSSOVER.reference(d, d_ff, *share)

        def reached(n: int, d: int = d, d_ff: int = d_ff) -> float:
            costs = accounting.encoder_layer(n, d, 1, d_ff)
            return 4 * n * n * d / accounting.total(costs).flops

        wanted = share[0] if share else 0.5
        assert reached(n) >= wanted
        assert n == 1 or reached(n - 1) < wanted
        if not share:
            assert n == accounting.crossover_length(d, d_ff)


def test_gpt_3_takes_as_long_as_the_cases_say() -> None:
    days = {case.shows: TIME.reference(**case.build())[0] for case in TIME.cases}
    assert round(days["about 25 days"]) == 25
    assert round(days["about 34 days"]) in (33, 34)


# -- what students write ---------------------------------------------------------------------------


def test_a_float_where_a_number_of_bytes_is_asked_for_is_called_by_its_name() -> None:
    def gib(n, d, n_heads, d_ff, n_layers, batch=1, bytes_each=4, checkpointing=False):  # type: ignore[no-untyped-def]
        tables = n_layers * batch * n_heads * n * n * bytes_each
        return tables / 2**30, tables / 2**30

    assert "expected whole numbers" in words(check(BYTES.id, gib))


def test_a_sheet_with_one_repair_is_told_which_two_faults_are_left() -> None:
    by_name = {m.name: m.wrong for m in SHEET.misconceptions}
    text = words(check(SHEET.id, by_name["scores h times, Adam with one number"]))
    assert "Two faults are left: each head's scores" in text
    text = words(check(SHEET.id, by_name["the table twice"]))
    assert "One fault is left: the table of embeddings is counted twice" in text


def test_half_the_step_is_a_valid_variant() -> None:
    (mistake,) = [m for m in FLOPS.misconceptions if m.name == "multiplications only"]
    assert "A valid variant" in str(check(FLOPS.id, mistake.wrong))


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = words(manuscript("12")), answers("12")
    tables, others = solved.activation_bytes(3, 2, 1, 5, 1)
    assert f"which are {tables} bytes" in text
    assert rf"3 \cdot 25 \cdot 4 = {others}$ bytes" in text

    step = solved.step_flops(2, 1, 2, 1, 1, 3, 5)
    assert "three times that: {}, {} and {}.".format(*step) in text
    assert [x // 3 for x in step] == [64 + 32 + 48, 40 + 64 + 24, 20]
    assert "64 FLOPs in projections, 32 in scores and sums, 48 in the network: 144." in text
    assert "40 in self-attention, 64 in cross-attention, 24 in the network: 128." in text

    shares, _ = solved.bottleneck(2, 3, 5, 1, 4)
    np.testing.assert_allclose(shares, np.array([144, 48, 120, 48]) / 360)
    assert "The costs are 144, 48, 120 and 48, of 360 in all." in text
    assert "0.4, 0.133, 0.333 and 0.133" in text

    n, d, d_ff = 7, 2, 3
    assert solved.crossover_length(d, d_ff) == n
    assert 4 * n * n * d == 8 * n * d * d + 4 * n * d * d_ff == 392
    assert "take 392 FLOPs, projections and network together 392" in text

    days, hours = solved.training_time(1e6, 1e9, 1, 1e11)
    assert f"{days:.3f} days, or {hours:.3f} hours" in text

    parameters, flops, memory = solved.cost_sheet(2, 2, 1, 3, 1, 4)
    assert f"which makes {parameters}." in text
    assert f"three times 176, which is {flops}" in text
    assert rf"4 \cdot (176 + 4) = {memory}$ bytes" in text
