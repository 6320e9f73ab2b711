"""The PyTorch half of multi-head attention agrees with its twin and with ``torch.nn``."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import multi_head as torch_half
from course_lib.blocks.attention import causal_mask
from course_lib.blocks.masks import combine_masks, padding_mask
from course_lib.blocks.multi_head import MultiHeadAttention
from course_lib.reference import multi_head as numpy_half
from tests.agreement import MultiHeadInputs, assert_close, multi_head_inputs


@given(multi_head_inputs())
def test_multi_head_attention_equals_its_numpy_twin(x: MultiHeadInputs) -> None:
    ours = torch_half.multi_head_attention(**x.tensors())
    theirs = numpy_half.multi_head_attention(**x.numpy())
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, 30 * x.tolerance)


@given(st.lists(st.integers(1, 3), max_size=3), *[st.integers(1, 4)] * 3)
def test_splitting_and_merging_equal_their_numpy_twins(
    lead: list[int], n: int, h: int, d_head: int
) -> None:
    x = torch.randn(*lead, n, h * d_head)
    heads = torch_half.split_heads(x, h)
    assert_close(heads, numpy_half.split_heads(x.numpy(), h), 0.0)
    assert torch.equal(torch_half.merge_heads(heads), x)
    assert_close(torch_half.merge_heads(heads), numpy_half.merge_heads(heads.numpy()), 0.0)


def test_splitting_moves_no_number_and_merging_copies() -> None:
    x = torch.zeros(2, 5, 6)
    heads = torch_half.split_heads(x, 3)
    assert heads.data_ptr() == x.data_ptr()
    assert heads._base is x
    behind_one_another = heads.contiguous()  # as they come out of attention
    merged = torch_half.merge_heads(behind_one_another)
    assert merged.data_ptr() != behind_one_another.data_ptr()


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 999))
def test_projections_equal_their_numpy_twins(d: int, m: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    x, ws, bs = torch.randn(2, 3, d), torch.randn(3, d, m), torch.randn(3, m)
    w_qkv, b_qkv = torch_half.fuse_projections(*ws), torch_half.fuse_projections(*bs)
    assert_close(w_qkv, numpy_half.fuse_projections(*ws.numpy()), 0.0)
    assert_close(b_qkv, numpy_half.fuse_projections(*bs.numpy()), 0.0)
    b = b_qkv if bias else None
    ours = torch_half.fused_projections(x, w_qkv, b)
    theirs = numpy_half.fused_projections(x.numpy(), w_qkv.numpy(), b.numpy() if bias else None)
    for y, twin, w, b_one in zip(ours, theirs, ws, bs, strict=True):
        assert_close(y, twin, 1e-5)
        assert_close(y, torch_half.project(x, w, b_one if bias else None), 1e-5)
        assert_close(y, x @ w + (b_one if bias else 0.0), 1e-5)


def pytorchs(arrays: dict[str, torch.Tensor], n_heads: int) -> nn.MultiheadAttention:
    """Return PyTorch's own module with these weights, given as (d_in, d_out)."""
    d = arrays["w_q"].shape[0]
    bias = arrays.get("b_q") is not None
    module = nn.MultiheadAttention(
        d, n_heads, bias=bias, batch_first=True, dtype=arrays["w_q"].dtype
    )
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([arrays[f"w_{i}"].T for i in "qkv"]))
        module.out_proj.weight.copy_(arrays["w_o"].T)
        if bias:
            module.in_proj_bias.copy_(torch.cat([arrays[f"b_{i}"] for i in "qkv"]))
            module.out_proj.bias.copy_(arrays["b_o"])
    return module


def ours_with(arrays: dict[str, torch.Tensor], n_heads: int, fused: bool) -> MultiHeadAttention:
    """Return our module with these weights."""
    bias = arrays.get("b_q") is not None
    module = MultiHeadAttention(arrays["w_q"].shape[0], n_heads, bias=bias, fused=fused)
    module.to(arrays["w_q"].dtype)
    ws, bs = [arrays[f"w_{i}"] for i in "qkv"], [arrays.get(f"b_{i}") for i in "qkv"]
    if fused:
        layers = [module.w_qkv]
        ws = [torch_half.fuse_projections(*ws)]
        bs = [torch_half.fuse_projections(*bs)] if bias else [None]
    else:
        layers = [module.w_q, module.w_k, module.w_v]
    with torch.no_grad():
        for layer, w, b in zip(
            [*layers, module.w_o], [*ws, arrays["w_o"]], [*bs, arrays.get("b_o")], strict=True
        ):
            layer.weight.copy_(w.T)
            if b is not None:
                layer.bias.copy_(b)
    return module


@given(multi_head_inputs(square=True), st.booleans(), st.booleans())
def test_all_equal_pytorchs_own_module_with_copied_weights_gradients_included(
    x: MultiHeadInputs, fused: bool, to_itself: bool
) -> None:
    t, h = x.tensors(), x.n_heads
    x_q, x_kv, mask = t["x_q"], t["x_kv"], t["mask"]
    shape = (len(x_q), h, x_q.shape[1], x_kv.shape[1])
    if to_itself:
        mask = None if mask is None else causal_mask(x_q.shape[1])
        x_kv, shape = x_q, (len(x_q), h, x_q.shape[1], x_q.shape[1])
    # There a mask has one axis for batch and heads, and True hides.
    theirs_mask = None if mask is None else ~mask.expand(shape).flatten(0, 1)
    theirs = pytorchs(t, h)
    output, weights = theirs(
        x_q, x_kv, x_kv, attn_mask=theirs_mask, average_attn_weights=False, need_weights=True
    )
    tolerance = 100 * x.tolerance
    by_function = torch_half.multi_head_attention(**{**t, "x_kv": x_kv, "mask": mask})
    ours = ours_with(t, h, fused)
    by_class = ours(x_q, None if to_itself else x_kv, mask, return_weights=True)
    for mine, own_weights in (by_function, by_class):
        assert_close(mine, output, tolerance)
        assert_close(own_weights, weights, tolerance)
    assert torch.equal(ours(x_q, None if to_itself else x_kv, mask), by_class[0])

    upstream = torch.randn_like(output)
    output.backward(upstream)
    by_class[0].backward(upstream)
    assert_close(ours.w_o.weight.grad, theirs.out_proj.weight.grad, tolerance)
    ours_in = (
        ours.w_qkv.weight.grad
        if fused
        else torch.cat([layer.weight.grad for layer in (ours.w_q, ours.w_k, ours.w_v)])
    )
    assert_close(ours_in, theirs.in_proj_weight.grad, tolerance)


@pytest.mark.parametrize("fused", [False, True])
def test_padding_and_causal_masks_equal_pytorchs_own_padding_mask(fused: bool) -> None:
    torch.manual_seed(0)
    b, n, d, h = 3, 6, 8, 2
    w = {f"w_{i}": torch.randn(d, d) for i in "qkvo"} | {f"b_{i}": torch.randn(d) for i in "qkvo"}
    x, lengths = torch.randn(b, n, d), torch.tensor([6, 2, 4])
    mask = combine_masks(padding_mask(lengths, n), causal_mask(n))
    ours = ours_with(w, h, fused)(x, mask=mask)
    theirs, _ = pytorchs(w, h)(
        x, x, x, attn_mask=~causal_mask(n), key_padding_mask=torch.arange(n) >= lengths[:, None]
    )
    assert_close(ours, theirs, 1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_weights_start_as_glorots_and_biases_at_zero(fused: bool) -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(64, 4, fused=fused)
    parameters = dict(module.named_parameters())
    assert sum(p.numel() for p in parameters.values()) == 4 * 64**2 + 4 * 64
    for name, p in parameters.items():
        if name.endswith("bias"):
            assert (p == 0).all()
        else:
            # uniform between ±√(6 / (d + d)), each of the fused matrices too
            assert p.abs().max().item() == pytest.approx((6 / 128) ** 0.5, rel=0.01)
            assert p.var().item() == pytest.approx(1 / 64, rel=0.05)


def test_without_bias_there_is_none() -> None:
    for fused in (False, True):
        module = MultiHeadAttention(6, 3, bias=False, fused=fused)
        assert sum(p.numel() for p in module.parameters()) == 4 * 36
        assert module(torch.randn(2, 4, 6), torch.randn(2, 5, 6)).shape == (2, 4, 6)


def test_dropout_drops_weights_in_training_alone_and_keeps_their_mean() -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(1, 6, 8)
    module.eval()
    still, weights = module(x, return_weights=True)
    assert torch.equal(module(x), still)
    module.train()
    outputs = torch.stack([module(x) for _ in range(4000)])
    assert not torch.equal(outputs[0], outputs[1])
    assert torch.allclose(outputs.mean(0), still, atol=0.05)
    assert torch.equal(module(x, return_weights=True)[1], weights)


def test_dropout_drops_the_weights_that_are_returned_before_it() -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(3, 5, 8)
    # The first query of the second sequence may look at no key.
    mask = combine_masks(padding_mask(torch.tensor([5, 4, 5]), 5, side="left"), causal_mask(5))
    torch.manual_seed(1)
    output, weights = module(x, mask=mask, return_weights=True)
    torch.manual_seed(1)
    dropped = nn.functional.dropout(weights, 0.5)
    v = torch_half.split_heads(module.w_v(x), 2)
    assert torch.allclose(output, module.w_o(torch_half.merge_heads(dropped @ v)), atol=1e-6)
    assert torch.equal(weights, module.eval()(x, mask=mask, return_weights=True)[1])
    with pytest.raises(ValueError, match=r"^mask must be .* broadcasts to \(3, 2, 5, 5\)"):
        module.train()(x, mask=torch.zeros(5, 5))


def test_any_number_of_leading_axes_will_do() -> None:
    module = MultiHeadAttention(6, 2)
    x = torch.randn(2, 3, 4, 6)
    whole = module(x)
    assert whole.shape == x.shape
    assert torch.allclose(whole[1, 2], module(x[1, 2]), atol=1e-6)


def test_autograd_gives_no_nan_through_a_fully_masked_row() -> None:
    module = MultiHeadAttention(4, 2)
    x = torch.randn(1, 3, 4, requires_grad=True)
    mask = combine_masks(padding_mask(torch.tensor([1]), 3, side="left"), causal_mask(3))
    module(x, mask=mask).sum().backward()
    gradients = [x.grad, *(p.grad for p in module.parameters())]
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8).to(dtype)
    ws = [(20 * torch.randn(8, 8)).to(dtype) for _ in range(4)]
    half = torch_half.multi_head_attention(x, x, *ws, 2)
    single = torch_half.multi_head_attention(x.float(), x.float(), *(w.float() for w in ws), 2)
    for a, b in zip(half, single, strict=True):
        assert torch.equal(a, b.to(dtype))


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest):
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


BAD_CALLS = {
    "one axis": ({"x_q": (4,)}, r"x_q must have a shape \(..., n_q, d\); got \(4,\)"),
    "no tokens": ({"x_kv": (0, 6)}, r"x_kv must not be empty: \(..., n_k, d_kv\)"),
    "other batch": (
        {"x_q": (2, 3, 4)}, r"x_kv must have the leading axes of x_q, \(2,\); got \(\)"
    ),
    "rows of w_q": (
        {"w_q": (5, 8)},
        r"w_q must have a shape \(d_in, d_out\) with d_in = 4, the width of x_q; got \(5, 8\)",
    ),
    "rows of w_v": ({"w_v": (4, 8)}, r"w_v must have a shape .* d_in = 6, the width of x_kv"),
    "columns of w_k": (
        {"w_k": (6, 10)}, r"w_k must have as many columns as w_q, 8; got shape \(6, 10\)"
    ),
    "rows of w_o": (
        {"w_o": (6, 8)},
        r"w_o must have a row for each of the 12 columns of w_v; got shape \(6, 8\)",
    ),
    "one axis of w_o": ({"w_o": (12,)}, r"w_o must have a row for each"),
    "bias of queries": ({"b_q": (7,)}, r"b_q must have the shape \(d_out,\) = \(8,\); got \(7,\)"),
    "bias of the output": ({"b_o": (4,)}, r"b_o must have the shape \(d_out,\) = \(5,\)"),
}  # fmt: skip


def good(ones) -> dict[str, object]:
    shapes = {"x_q": (3, 4), "x_kv": (5, 6), "w_q": (4, 8), "w_k": (6, 8), "w_v": (6, 12),
              "w_o": (12, 5)}  # fmt: skip
    return {name: ones(*shape) for name, shape in shapes.items()} | {"n_heads": 4}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_shapes_that_do_not_fit_are_named(half, case: str) -> None:
    module, ones = half
    assert module.multi_head_attention(**good(ones))[0].shape == (3, 5)
    shapes, message = BAD_CALLS[case]
    with pytest.raises(ValueError, match=f"^{message}"):
        module.multi_head_attention(**good(ones) | {n: ones(*s) for n, s in shapes.items()})


def test_dtypes_that_do_not_fit_are_named(half) -> None:
    module, ones = half
    for name in ("x_kv", "w_q", "w_o"):
        other = good(ones) | {name: ones(*good(ones)[name].shape, dtype="float32")}
        with pytest.raises(ValueError, match=f"^{name} must have the dtype of x_"):
            module.multi_head_attention(**other)
    with pytest.raises(ValueError, match=r"^x_q must be an array of real floating-point numbers"):
        module.multi_head_attention(**good(ones) | {"x_q": ones(3, 4, dtype="int64")})


def test_numbers_of_heads_that_do_not_divide_are_named(half) -> None:
    module, ones = half
    for n_heads, said in (
        (3, "n_heads must divide the columns of w_q, 8; got 3"),
        (8, "n_heads must divide the columns of w_v, 12; got 8"),
        (0, "n_heads must be a whole number of at least 1; got 0"),
        (2.0, "n_heads must be a whole number of at least 1; got 2.0"),
        (True, "n_heads must be a whole number"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            module.multi_head_attention(**good(ones) | {"n_heads": n_heads})
    with pytest.raises(ValueError, match=r"^n_heads must divide the width of x, 4; got 3"):
        module.split_heads(ones(2, 4), 3)
    with pytest.raises(ValueError, match=r"^x must have a shape \(..., n, d\); got \(4,\)"):
        module.split_heads(ones(4), 2)
    with pytest.raises(ValueError, match=r"^x must have a shape \(..., h, n, d/h\); got \(2, 4\)"):
        module.merge_heads(ones(2, 4))


def test_a_mask_that_does_not_broadcast_over_the_heads_is_named(half) -> None:
    module, ones = half
    x, w = ones(2, 7, 8), ones(8, 8)
    expected = r"^mask must be boolean with a shape that broadcasts to \(2, 4, 7, 7\); got "
    for mask, got in (
        (ones(2, 7, 7, dtype="bool"), r"bool of shape \(2, 7, 7\)"),  # the axis of heads is missing
        (ones(2, 1, 1, 6, dtype="bool"), r"bool of shape \(2, 1, 1, 6\)"),
        (ones(7, 7), r"float64 of shape \(7, 7\)"),
    ):
        with pytest.raises(ValueError, match=expected + got):
            module.multi_head_attention(x, x, w, w, w, w, 4, mask)


def test_projections_that_cannot_be_fused_or_cut_in_three_are_named(half) -> None:
    module, ones = half
    with pytest.raises(
        ValueError, match=r"^w_v must have the shape of w_q, \(4, 6\); got \(4, 3\)"
    ):
        module.fuse_projections(ones(4, 6), ones(4, 6), ones(4, 3))
    with pytest.raises(ValueError, match=r"^w_q must have a shape \(d_in, d_out\), or \(d_out,\)"):
        module.fuse_projections(*[ones(1, 4, 6)] * 3)
    with pytest.raises(ValueError, match=r"^w_qkv must have columns for three; got 8"):
        module.fused_projections(ones(2, 4), ones(4, 8))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"d_model": 8, "n_heads": 3}, "n_heads must divide d_model, 8; got 3"),
        ({"d_model": 0, "n_heads": 1}, "d_model must be a whole number of at least 1"),
        ({"d_model": 8, "n_heads": 2, "dropout": 1.0}, "dropout must be at least 0 and below 1"),
    ],
)
def test_a_module_that_cannot_be_is_refused(arguments: dict, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        MultiHeadAttention(**arguments)


def test_tokens_that_do_not_fit_the_module_are_named() -> None:
    module = MultiHeadAttention(8, 2)
    good_x = torch.zeros(2, 3, 8)
    for x_q, x_kv, said in (
        (torch.zeros(2, 3, 6), None, r"x_q must have rows of width d = 8; got shape \(2, 3, 6\)"),
        (torch.zeros(8), None, r"x_q must have a shape \(..., n_q, d\); got \(8,\)"),
        (good_x, torch.zeros(2, 3, 6), r"x_kv must have rows of width d = 8"),
        (good_x, torch.zeros(1, 3, 8), r"x_kv must have the leading axes of x_q, \(2,\); got"),
        (good_x, torch.zeros(2, 0, 8), r"x_kv must not be empty"),
        (good_x.numpy(), None, r"x_q must be a tensor of PyTorch"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{said}"):
            module(x_q, x_kv)
    with pytest.raises(ValueError, match=r"^mask must be .* broadcasts to \(2, 2, 3, 3\)"):
        module(good_x, mask=torch.zeros(3, 3))
