"""What a decoder alone costs by formula is what PyTorch counts, and what its makers publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import accounting
from course_lib.blocks.grouped_query import grouped_query_attention
from course_lib.models.decoder_only import (
    GPT2_SMALL,
    LLAMA_3_8B,
    LLAMA_7B,
    DecoderConfig,
    DecoderOnly,
)

size = st.integers(1, 6)


def sizes_of(config: DecoderConfig) -> dict[str, Any]:
    """Return the arguments of `accounting.decoder_only` that describe a model."""
    names = ("vocab_size", "n_heads", "n_layers", "d_ff", "n_kv_heads", "d_head", "positions",
             "norm", "activation", "bias", "tied")  # fmt: skip
    sizes = {name: getattr(config, name) for name in names} | {"d": config.d_model}
    return sizes | ({"max_length": config.max_length} if config.positions == "learned" else {})


@st.composite
def decoder_configs(draw: st.DrawFn) -> DecoderConfig:
    n_kv_heads, group_size, half = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(size)
    return DecoderConfig(
        vocab_size=draw(st.integers(3, 9)), d_model=draw(size), n_layers=draw(st.integers(1, 3)),
        n_heads=n_kv_heads * group_size, n_kv_heads=n_kv_heads, d_head=2 * half, d_ff=draw(size),
        max_length=20, positions=draw(st.sampled_from(["rotary", "learned"])),
        norm=draw(st.sampled_from(["rms", "layer"])), bias=draw(st.booleans()),
        activation=draw(st.sampled_from(["swiglu", "gelu", "gelu_tanh", "relu", "silu"])),
        tied=draw(st.booleans()),
    )  # fmt: skip


@given(decoder_configs(), st.integers(1, 8), st.integers(1, 3))
def test_flops_and_parameters_are_those_that_are_counted(
    config: DecoderConfig, n: int, batch: int
) -> None:
    model = DecoderOnly(config)
    ids = torch.zeros(batch, n, dtype=torch.int64)
    lines = accounting.decoder_only(n, batch=batch, **sizes_of(config))
    cost = accounting.total(lines)
    assert cost.parameters == sum(p.numel() for p in model.parameters())
    assert cost.flops == accounting.count_flops(model, ids)
    block = sum(p.numel() for p in model.layers[0].parameters())
    assert lines["block 1"].parameters == block
    assert len(lines) == config.n_layers + 4


@given(decoder_configs(), st.integers(1, 8), st.integers(1, 4), st.integers(1, 3))
def test_a_step_with_a_cache_costs_what_is_counted(
    config: DecoderConfig, past: int, n: int, batch: int
) -> None:
    model = DecoderOnly(config).eval()
    ids = torch.zeros(batch, past + n, dtype=torch.int64)
    with torch.no_grad():
        _, state = model.start(ids, max_length=1)
        model.step(ids[:, :past], state)
        counted = accounting.count_flops(model.step, ids[:, past:], state)
    assert state.cache is not None
    cost = accounting.total(accounting.decoder_only(n, batch=batch, past=past, **sizes_of(config)))
    assert cost.flops == counted
    kept = accounting.kv_cache(
        past + n, config.n_layers, config.n_kv_heads, config.d_head, batch
    )["self-attention"]  # fmt: skip
    assert state.cache.n_bytes == accounting.memory(kept)


@given(*[size] * 4, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_attention_costs_the_flops_that_are_counted(
    n_q: int, n_k: int, d: int, d_head: int, n_kv_heads: int, group_size: int, batch: int
) -> None:
    h = n_kv_heads * group_size
    x_q, x_kv = torch.zeros(batch, n_q, d), torch.zeros(batch, n_k, d)
    w_q, w_kv = torch.zeros(d, h * d_head), torch.zeros(d, n_kv_heads * d_head)
    w_o = torch.zeros(h * d_head, d)
    lines = accounting.grouped_query_attention(
        n_q, n_k, d, h, n_kv_heads, batch, d_head=d_head
    )  # fmt: skip
    counted = accounting.count_flops(
        grouped_query_attention, x_q, x_kv, w_q, w_kv, w_kv, w_o, h, n_kv_heads
    )
    assert accounting.total(lines).flops == counted
    matrices = (w_q, w_kv, w_kv, w_o)
    assert accounting.total(lines).parameters == sum(w.numel() for w in matrices)


@given(*[size] * 3, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_with_a_head_of_keys_for_each_query_it_is_multi_head_attention(
    n_q: int, n_k: int, half: int, h: int, batch: int, bias: bool
) -> None:
    d = h * 2 * half
    grouped = accounting.grouped_query_attention(n_q, n_k, d, h, h, batch, bias)
    assert grouped.pop("repeat") == accounting.Cost()
    assert grouped == accounting.multi_head_attention(n_q, n_k, d, h, batch, bias)


def test_the_numbers_of_the_seven_billion_parameter_model() -> None:
    sizes = sizes_of(LLAMA_7B)
    lines = accounting.decoder_only(1, **sizes)
    parts = accounting.decoder_block(1, 4096, 32, 11_008)
    assert parts["attention"].parameters == 67_108_864
    assert parts["feed-forward"].parameters == 135_266_304
    assert parts["norms"].parameters == 8_192
    assert lines["block 7"].parameters == 202_383_360
    blocks = sum(cost.parameters for name, cost in lines.items() if name.startswith("block"))
    assert blocks == 32 * 202_383_360 == 6_476_267_520
    assert lines["embedding"].parameters + lines["projection"].parameters == 262_144_000
    assert accounting.total(lines).parameters == 6_738_415_616
    assert round(accounting.total(lines).parameters / 1e9, 2) == 6.74
    # Two FLOPs a parameter and token, but for the table that is only looked up.
    used = accounting.total(lines).parameters - lines["embedding"].parameters
    assert accounting.total(lines).flops / used == pytest.approx(2, rel=1e-3)


def test_the_cache_of_the_seven_billion_parameter_model() -> None:
    def held(n: int, n_kv_heads: int) -> int:
        numbers = accounting.kv_cache(n, 32, n_kv_heads, 128)["self-attention"]
        return accounting.memory(numbers, "float16")

    assert held(1, 32) == 524_288 == 512 * 2**10
    assert held(32_768, 32) == 16 * 2**30
    assert held(1, 8) == 128 * 2**10
    assert held(32_768, 8) == 4 * 2**30
    sizes = {"n_q": 1, "n_k": 1, "d": 4096, "n_heads": 32}
    all_heads, eight = (
        accounting.total(accounting.grouped_query_attention(**sizes, n_kv_heads=h)).parameters
        for h in (32, 8)
    )
    assert (all_heads, eight) == (67_108_864, 41_943_040)


@pytest.mark.parametrize(
    ("config", "published"),
    [(GPT2_SMALL, 124_439_808), (LLAMA_7B, 6_738_415_616), (LLAMA_3_8B, 8_030_261_248)],
)
def test_published_models_have_their_published_sizes(config: DecoderConfig, published: int) -> None:
    assert accounting.total(accounting.decoder_only(1, **sizes_of(config))).parameters == published


def test_a_block_of_gpt2_holds_about_twelve_d_squared() -> None:
    d = 768
    block = accounting.decoder_block(
        1, d, 12, 4 * d, norm="layer", activation="gelu_tanh", bias=True, positions="learned"
    )
    assert accounting.total(block).parameters == 12 * d**2 + 13 * d
    gated = accounting.decoder_block(1, d, 12, 8 * d // 3)
    assert accounting.total(gated).parameters == 12 * d**2 + 2 * d


@settings(max_examples=30)
@given(decoder_configs(), st.integers(1, 5))
def test_steps_of_one_token_cost_together_what_the_whole_text_costs_but_for_hidden_scores(
    config: DecoderConfig, n: int
) -> None:
    sizes = sizes_of(config)
    whole = accounting.total(accounting.decoder_only(n, **sizes)).flops
    steps = sum(
        accounting.total(accounting.decoder_only(1, past=t, **sizes)).flops for t in range(n)
    )
    hidden = n * (n - 1) // 2  # pairs of a query and a key behind it
    assert whole - steps == 4 * config.n_layers * config.n_heads * config.d_head * hidden


SIZES: dict[str, Any] = {"n": 2, "vocab_size": 9, "d": 8, "n_heads": 4, "n_layers": 1, "d_ff": 8}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.decoder_only(**{**SIZES, "n_layers": 0}), "n_layers must be a whole number o"),
        (lambda a: a.decoder_only(**SIZES, n_kv_heads=3), "n_kv_heads must divide n_heads, 4; got"),
        (lambda a: a.decoder_only(**{**SIZES, "d": 9}), "n_heads must divide d, 9; got 4"),
        (lambda a: a.decoder_only(**SIZES, positions="none"), "positions must be one of"),
        (lambda a: a.decoder_only(**SIZES, positions="learned"), "max_length must be a whole numb"),
        (lambda a: a.decoder_only(**SIZES, max_length=9), "max_length must be left out but for le"),
        (lambda a: a.decoder_only(**SIZES, positions="learned", max_length=3, past=2),
         "max_length must be a whole number of at least 4; got 3"),
        (lambda a: a.decoder_only(**SIZES, norm="batch"), "norm must be one of"),
        (lambda a: a.decoder_only(**SIZES, activation="tanh"), "activation must be one of"),
        (lambda a: a.decoder_only(**SIZES, tied=1), "tied must be True or False; got 1"),
        (lambda a: a.decoder_only(**SIZES, bias=1), "bias must be True or False; got 1"),
        (lambda a: a.decoder_only(**SIZES, past=-1), "past must be a whole number of at least 0"),
        (lambda a: a.grouped_query_attention(1, 2, 8, 4, 2, cached=2), "cached must be below n_k "),
        (lambda a: a.grouped_query_attention(1, 2, 8, 4, 2, d_head=0), "d_head must be a whole nu"),
    ],
)  # fmt: skip
def test_models_that_cannot_be_are_named(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(accounting)
