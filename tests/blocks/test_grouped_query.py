"""The PyTorch half of grouped queries agrees with its twin and with transformers' Llama."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama

from course_lib.accounting import live_bytes
from course_lib.blocks import grouped_query as torch_half
from course_lib.blocks.attention import causal_mask
from course_lib.blocks.cache import KeyValueCache
from course_lib.blocks.grouped_query import GroupedQueryAttention
from course_lib.blocks.masks import combine_masks, padding_mask
from course_lib.blocks.multi_head import MultiHeadAttention
from course_lib.blocks.rotary import rotary_frequencies, rotate_half_split
from course_lib.reference import grouped_query as numpy_half
from tests.agreement import GroupedInputs, assert_close, grouped_inputs


@given(grouped_inputs())
def test_grouped_query_attention_equals_its_numpy_twin(x: GroupedInputs) -> None:
    ours = torch_half.grouped_query_attention(**x.tensors())
    theirs = numpy_half.grouped_query_attention(**x.numpy())
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, 30 * x.tolerance)


@given(grouped_inputs())
def test_repeating_and_pooling_equal_their_numpy_twins(x: GroupedInputs) -> None:
    keys = x.arrays["x_q"][..., None, :, :]
    assert_close(torch_half.repeat_kv(torch.tensor(keys), 3), numpy_half.repeat_kv(keys, 3), 0.0)
    w, sizes = x.arrays["w_q"], (x.n_heads, x.n_kv_heads)
    ours = torch_half.pool_kv_heads(torch.tensor(w), *sizes)
    assert_close(ours, numpy_half.pool_kv_heads(w, *sizes), x.tolerance)


@given(*[st.integers(1, 4)] * 5)
def test_repeating_equals_that_of_transformers(
    b: int, h_kv: int, group_size: int, n: int, d: int
) -> None:
    x = torch.randn(b, h_kv, n, d)
    assert torch.equal(torch_half.repeat_kv(x, group_size), modeling_llama.repeat_kv(x, group_size))


@settings(max_examples=25)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans())
def test_the_module_equals_the_attention_of_llama_rotation_included(
    h_kv: int, group_size: int, half: int, bias: bool, padded: bool
) -> None:
    torch.manual_seed(0)
    h, d_head, d, n = h_kv * group_size, 2 * half, 4 * h_kv * group_size, 5
    config = LlamaConfig(
        hidden_size=d, num_attention_heads=h, num_key_value_heads=h_kv, head_dim=d_head,
        attention_bias=bias, attn_implementation="eager",
    )  # fmt: skip
    theirs = modeling_llama.LlamaAttention(config, 0).eval()
    ours = GroupedQueryAttention(d, h, n_kv_heads=h_kv, d_head=d_head, bias=bias)
    for mine, yours in zip("qkvo", ("q_proj", "k_proj", "v_proj", "o_proj"), strict=True):
        getattr(ours, f"w_{mine}").load_state_dict(getattr(theirs, yours).state_dict())
    x, positions = torch.randn(3, n, d), torch.arange(n)
    mask = padding_mask(torch.tensor([5, 2, 4]), n) if padded else None
    seen = combine_masks(causal_mask(n), mask)
    hidden = torch.zeros(seen.shape).masked_fill(~seen, -1e30)
    angles = modeling_llama.LlamaRotaryEmbedding(config)(x, positions[None])
    with torch.no_grad():
        expected, weights = theirs(x, position_embeddings=angles, attention_mask=hidden)
    frequencies = rotary_frequencies(d_head)
    rotate = partial(rotate_half_split, positions=positions, frequencies=frequencies)
    collected: list[Tensor] = []
    assert_close(ours(x, mask, True, rotate), expected, 1e-5)
    assert_close(ours(x, mask, True, rotate, collect=collected), expected, 1e-5)
    assert_close(collected[0], weights, 1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_module_with_a_head_of_keys_for_each_query_head_is_multi_head_attention(
    causal: bool, masked: bool, bias: bool
) -> None:
    torch.manual_seed(0)
    plain, grouped = MultiHeadAttention(8, 4, bias=bias), GroupedQueryAttention(8, 4, bias=bias)
    grouped.load_state_dict(plain.state_dict())
    x = torch.randn(3, 5, 8)
    mask = torch.rand(3, 1, 1, 5) < 0.7 if masked else None
    both = combine_masks(mask, causal_mask(5)) if causal else mask
    assert_close(grouped(x, mask, causal), plain(x, mask=both), 1e-5)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_the_module_computes_what_the_function_does_gradients_included(n_kv_heads: int) -> None:
    torch.manual_seed(0)
    module = GroupedQueryAttention(8, 4, n_kv_heads=n_kv_heads, d_head=3, bias=False)
    x = torch.randn(2, 5, 8)
    ws = [getattr(module, f"w_{i}").weight.detach().T.clone().requires_grad_() for i in "qkvo"]
    expected, _ = torch_half.grouped_query_attention(x, x, *ws, 4, n_kv_heads, causal_mask(5))
    output = module(x, causal=True)
    assert_close(output, expected, 1e-5)
    upstream = torch.randn_like(output)
    output.backward(upstream)
    expected.backward(upstream)
    for i, w in zip("qkvo", ws, strict=True):
        assert_close(getattr(module, f"w_{i}").weight.grad.T, w.grad, 1e-5)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.sampled_from([1, 2, 4]))
def test_cached_attention_in_chunks_equals_the_whole(sizes: list[int], n_kv_heads: int) -> None:
    torch.manual_seed(0)
    n = sum(sizes)
    module = GroupedQueryAttention(8, 4, n_kv_heads=n_kv_heads, d_head=6)
    x, frequencies = torch.randn(3, n, 8), rotary_frequencies(6)

    def rotation(start: int, m: int) -> Callable:
        positions = torch.arange(start, start + m)
        return partial(rotate_half_split, positions=positions, frequencies=frequencies)

    whole = module(x, causal=True, rotate=rotation(0, n))
    cache = KeyValueCache(3, n_kv_heads, n, 6)
    outputs = []
    for piece in x.split(sizes, dim=1):
        rotate = rotation(len(cache), piece.shape[1])
        outputs.append(module(piece, causal=True, rotate=rotate, cache=cache))
    assert_close(torch.cat(outputs, dim=1), whole, 1e-5)
    assert cache.n_bytes == 2 * 3 * n_kv_heads * n * 6 * 4  # those of keys and values alone


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("axes", [(), (9,), (1, 9), (4, 1, 9), (3, 1, 1, 9), (3, 4, 1, 9)])
def test_one_new_token_asks_as_one_of_several_does_under_any_mask(
    n_kv_heads: int, axes: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    module = GroupedQueryAttention(8, 4, n_kv_heads=n_kv_heads, d_head=6)
    x, mask = torch.randn(3, 9, 8), torch.rand(axes) < 0.6
    if len(axes) == 4:
        mask[0] = False  # a text that may look at nothing
    at_once: list[Tensor] = []
    whole = module(x, mask, collect=at_once)
    cache, alone = KeyValueCache(3, n_kv_heads, 9, 6), []
    module(x[:, :8], cache=cache)
    last = module(x[:, 8:], mask, causal=True, cache=cache, collect=alone)
    assert_close(last, whole[:, 8:], 1e-5)
    assert_close(alone[0], at_once[0][..., 8:, :], 1e-6)


def test_one_new_token_copies_no_key() -> None:
    module = GroupedQueryAttention(64, 8, n_kv_heads=1)
    cache = KeyValueCache(1, 1, 4096, 8)
    with torch.no_grad():
        module(torch.zeros(1, 4095, 64), cache=cache)
        alive = max(live_bytes(lambda: module(torch.zeros(1, 1, 64), causal=True, cache=cache)))
    assert alive < cache.n_bytes


def test_a_token_of_padding_that_may_look_at_nothing_spoils_nothing() -> None:
    torch.manual_seed(0)
    module = GroupedQueryAttention(8, 4, n_kv_heads=2)
    x = torch.randn(2, 4, 8)
    mask = padding_mask(torch.tensor([2, 4]), 4, side="left")
    output = module(x, mask, causal=True)
    assert output.isfinite().all()
    assert_close(output[0, 2:], module(x[:1, 2:], causal=True)[0], 1e-5)
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8).to(dtype)
    ws = [(20 * torch.randn(s)).to(dtype) for s in ((8, 8), (8, 4), (8, 4), (8, 8))]
    half = torch_half.grouped_query_attention(x, x, *ws, 4, 2)
    single = torch_half.grouped_query_attention(
        x.float(), x.float(), *(w.float() for w in ws), 4, 2
    )
    for a, b in zip(half, single, strict=True):
        assert torch.equal(a, b.to(dtype))
    assert torch_half.pool_kv_heads(ws[0], 4, 2).dtype == dtype


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[ModuleType, Callable]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


GOOD = {"x_q": (3, 4), "x_kv": (5, 6), "w_q": (4, 8), "w_k": (6, 4), "w_v": (6, 6), "w_o": (12, 7)}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "one axis": ({"x_q": (4,)}, r"x_q must have a shape \(..., n_q, d\); got \(4,\)"),
    "no keys": ({"x_kv": (0, 6)}, r"x_kv must not be empty: \(..., n_k, d_kv\)"),
    "batch": ({"x_q": (2, 3, 4)}, r"x_kv must have the leading axes of x_q, \(2,\); got \(\)"),
    "rows of w_k": ({"w_k": (4, 4)}, r"w_k must have a shape \(d_in, d_out\) with d_in = 6"),
    "as many columns as for all heads": (
        {"w_k": (6, 8)}, r"w_k must have n_kv_heads · d_k = 2 · 2 columns; got shape \(6, 8\)"
    ),
    "columns of w_v": ({"w_v": (6, 5)}, "n_kv_heads must divide the columns of w_v, 5; got 2"),
    "columns of w_q": ({"w_q": (4, 7)}, "n_heads must divide the columns of w_q, 7; got 4"),
    "rows of w_o": (
        {"w_o": (6, 7)},
        r"w_o must have a row for each of the 12 columns of all n_heads = 4 heads; got shape \(6,",
    ),
    "groups of two sizes": ({"n_kv_heads": 3}, "n_kv_heads must divide n_heads, 4; got 3"),
    "no head": ({"n_kv_heads": 0}, "n_kv_heads must be a whole number of at least 1; got 0"),
    "half a head": ({"n_heads": 1.5}, "n_heads must be a whole number of at least 1; got 1.5"),
    "mask": ({"mask": (3, 5)}, "mask must be boolean"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_named(
    half: tuple[ModuleType, Callable], changed: dict[str, Any], message: str
) -> None:
    module, ones = half
    given = {"n_heads": 4, "n_kv_heads": 2, **GOOD, **changed}
    arguments = {n: ones(*v) if isinstance(v, tuple) else v for n, v in given.items()}
    with pytest.raises(ValueError, match=f"^{message}"):
        module.grouped_query_attention(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, ones: m.repeat_kv(ones(3, 4), 2), r"x must have a shape \(..., h, n, d/h\)"),
        (lambda m, ones: m.repeat_kv(ones(2, 3, 4), 0), "group_size must be a whole number of at"),
        (lambda m, ones: m.repeat_kv(ones(2, 0, 4), 2), "x must not be empty"),
        (lambda m, ones: m.pool_kv_heads(ones(3, 8), 4, 3), "n_kv_heads must divide n_heads, 4"),
        (lambda m, ones: m.pool_kv_heads(ones(3, 6), 4, 2), "n_heads must divide the columns of w"),
        (lambda m, ones: m.pool_kv_heads(ones(0, 8), 4, 2), "w must not be empty"),
        (lambda m, ones: m.pool_kv_heads([1.0], 1, 1), "w must be an array of real floating-point"),
    ],
)
def test_what_cannot_be_repeated_or_pooled_is_named(
    half: tuple[ModuleType, Callable], call: Callable, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(*half)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GroupedQueryAttention(10, 4), "n_heads must divide d_model, 10; got 4"),
        (lambda: GroupedQueryAttention(8, 4, n_kv_heads=3), "n_kv_heads must divide n_heads, 4"),
        (lambda: GroupedQueryAttention(8, 4, d_head=0), "d_head must be a whole number of at"),
        (lambda: GroupedQueryAttention(8, 4, bias=1), "bias must be True or False; got 1"),
        (lambda: GroupedQueryAttention(0, 4), "d_model must be a whole number of at least 1"),
        (lambda: GroupedQueryAttention(8, 4)(torch.ones(2, 3, 4)), "x must have rows of width d ="),
        (lambda: GroupedQueryAttention(8, 4)(torch.ones(2, 3, 8), torch.ones(3, 3)), "mask"),
        (lambda: GroupedQueryAttention(8, 4, n_kv_heads=2)(
            torch.ones(2, 1, 8), torch.ones(3, dtype=torch.bool)),
         r"mask must be boolean with a shape that broadcasts to \(2, 4, 1, 1\); got"),
        (lambda: GroupedQueryAttention(8, 4, n_kv_heads=2)(
            torch.ones(2, 3, 8), cache=KeyValueCache(2, 4, 3, 2)),
         r"keys must have a shape \(2, 4, n, 2\) for this cache"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_or_is_fed_wrongly_is_named(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
