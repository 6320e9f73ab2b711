"""The PyTorch half of attention agrees with its twin, with PyTorch's own and with autograd."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from course_lib.blocks.attention import (
    causal_mask,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    softmax,
    softmax_backward,
)
from course_lib.reference import attention as numpy_half
from tests.agreement import AttentionInputs, assert_close, attention_inputs


@given(attention_inputs())
def test_attention_equals_its_numpy_twin(x: AttentionInputs) -> None:
    q, k, v, _, mask = x.tensors()
    ours = scaled_dot_product_attention(q, k, v, mask)
    theirs = numpy_half.scaled_dot_product_attention(x.q, x.k, x.v, x.mask)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, x.tolerance)


@given(attention_inputs())
def test_attentions_gradients_equal_their_numpy_twins(x: AttentionInputs) -> None:
    q, k, v, d_output, mask = x.tensors()
    ours = scaled_dot_product_attention_backward(q, k, v, d_output, mask)
    theirs = numpy_half.scaled_dot_product_attention_backward(x.q, x.k, x.v, x.d_output, x.mask)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, 10 * x.tolerance)


@given(attention_inputs())
def test_attention_equals_pytorchs_own_fully_masked_rows_included(x: AttentionInputs) -> None:
    q, k, v, _, mask = x.tensors()
    ours, weights = scaled_dot_product_attention(q, k, v, mask)
    # PyTorch's takes no mask of one axis; ours takes whatever broadcasts.
    theirs_mask = None if mask is None else mask.expand(weights.shape)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=theirs_mask)
    assert_close(ours, theirs, x.tolerance)


@given(attention_inputs())
def test_gradients_by_hand_equal_autograds(x: AttentionInputs) -> None:
    q, k, v, d_output, mask = x.tensors(requires_grad=True)
    output, _ = scaled_dot_product_attention(q, k, v, mask)
    output.backward(d_output)
    by_hand = scaled_dot_product_attention_backward(
        q.detach(), k.detach(), v.detach(), d_output, mask
    )
    for a, leaf in zip(by_hand, (q, k, v), strict=True):
        assert_close(a, leaf.grad, 10 * x.tolerance)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 1000))
def test_softmax_and_its_gradient_equal_pytorchs_along_every_axis(
    shape: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(*shape, dtype=torch.float64)
    for axis in range(-len(shape), len(shape)):
        assert_close(softmax(x, axis), torch.softmax(x, axis), 1e-12)
        assert_close(softmax(x, axis), numpy_half.softmax(x.numpy(), axis), 1e-12)
    scores = x.clone().requires_grad_()
    upstream = torch.randn_like(x)
    weights = torch.softmax(scores, -1)
    weights.backward(upstream)
    by_hand = softmax_backward(weights.detach(), upstream)
    assert_close(by_hand, scores.grad, 1e-12)
    assert_close(
        by_hand, numpy_half.softmax_backward(weights.detach().numpy(), upstream.numpy()), 1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow_where_raw_scores_would(dtype: torch.dtype) -> None:
    q = torch.full((2, 64), 200.0, dtype=dtype)  # q·k = 2.56 million, above float16's 65,504
    k = torch.stack([q[0], -q[0], 0 * q[0]])
    v = torch.arange(6.0, dtype=dtype).reshape(3, 2)
    output, weights = scaled_dot_product_attention(q, k, v)
    assert output.dtype == weights.dtype == dtype
    assert weights.tolist() == [[1, 0, 0]] * 2
    for gradient in scaled_dot_product_attention_backward(q, k, v, output):
        assert gradient.isfinite().all()
        assert gradient.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 5, 8).to(dtype) for _ in range(3))
    half, _ = scaled_dot_product_attention(q, k, v)
    single, _ = scaled_dot_product_attention(q.float(), k.float(), v.float())
    assert torch.equal(half, single.to(dtype))


def test_autograd_gives_no_nan_through_a_fully_masked_row() -> None:
    q, k, v = (torch.randn(3, 4, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    (output.sum() + weights.square().sum()).backward()
    assert output[1].abs().sum() == 0
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert q.grad[1].abs().sum() == 0


@given(st.integers(1, 6), st.integers(0, 4))
def test_causal_masks_are_the_same_and_pytorchs_where_square(n_q: int, past: int) -> None:
    ours = causal_mask(n_q, n_q + past)
    assert (ours.numpy() == numpy_half.causal_mask(n_q, n_q + past)).all()
    q = torch.randn(1, n_q, 2)
    by_flag = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert_close(scaled_dot_product_attention(q, q, q, causal_mask(n_q))[0], by_flag, 1e-6)


def test_entropy_and_temperature_equal_their_numpy_twins() -> None:
    from course_lib.blocks.attention import entropy, temperature_for_entropy

    scores = torch.tensor([[0.3, -1.0, 2.0, 0.0], [1.0, 1.0, 5.0, -3.0]], dtype=torch.float64)
    weights = softmax(scores)
    assert_close(entropy(weights), numpy_half.entropy(weights.numpy()), 1e-12)
    for row in scores:
        ours = temperature_for_entropy(row, 0.9)
        assert ours == pytest.approx(numpy_half.temperature_for_entropy(row.numpy(), 0.9), rel=1e-9)


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest):
    """A twin: its module, and how it makes arrays of ones, of zeros, and booleans."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    from course_lib.blocks import attention as torch_half

    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


BAD_CALLS = {
    "widths differ": (
        {"q": (2, 4), "k": (3, 5), "v": (3, 5)},
        r"k must have the width of q, d_k = 4; got shape \(3, 5\)",
    ),
    "keys without values": (
        {"q": (2, 4), "k": (3, 4), "v": (2, 4)},
        r"v must have one row for each of the 3 keys; got shape \(2, 4\)",
    ),
    "other batch": (
        {"q": (2, 2, 4), "k": (3, 3, 4), "v": (3, 3, 4)},
        r"k must have the leading axes of q, \(2,\); got \(3,\)",
    ),
    "values of another batch": (
        {"q": (2, 2, 4), "k": (2, 3, 4), "v": (1, 3, 4)},
        r"v must have the leading axes of q, \(2,\); got \(1,\)",
    ),
    "no keys": (
        {"q": (2, 4), "k": (0, 4), "v": (0, 4)},
        r"k must not be empty: \(..., n_k, d_k\); got shape \(0, 4\)",
    ),
    "no queries": ({"q": (0, 4), "k": (1, 4), "v": (1, 4)}, r"q must not be empty"),
    "one axis": ({"q": (4,), "k": (3, 4), "v": (3, 4)}, r"q must have a shape \(..., n_q, d_k\)"),
    "no axis": ({"q": (), "k": (3, 4), "v": (3, 4)}, r"q must have at least one axis"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_shapes_that_do_not_fit_are_named(half, case: str) -> None:
    module, ones = half
    shapes, message = BAD_CALLS[case]
    with pytest.raises(ValueError, match=message):
        module.scaled_dot_product_attention(**{name: ones(*s) for name, s in shapes.items()})
    with pytest.raises(ValueError, match=message):
        module.scaled_dot_product_attention_backward(
            **{name: ones(*s) for name, s in shapes.items()}, d_output=ones(2, 4)
        )


def test_a_mask_that_is_not_boolean_or_does_not_broadcast_is_named(half) -> None:
    module, ones = half
    q, k = ones(2, 4, 7, 3), ones(2, 4, 9, 3)
    expected = r"mask must be boolean with a shape that broadcasts to \(2, 4, 7, 9\); got "
    for mask, got in (
        (ones(7, 7, dtype="float32"), r"float32 of shape \(7, 7\)"),
        (ones(7, 9, dtype="int64"), r"int64 of shape \(7, 9\)"),
        (ones(9, 7, dtype="bool"), r"bool of shape \(9, 7\)"),
        (ones(1, 2, 4, 7, 9, dtype="bool"), r"bool of shape \(1, 2, 4, 7, 9\)"),
        ([[True]], "list"),
    ):
        with pytest.raises(ValueError, match=expected + got):
            module.scaled_dot_product_attention(q, k, k, mask)


def test_dtypes_that_are_not_floats_or_not_equal_are_named(half) -> None:
    module, ones = half
    with pytest.raises(ValueError, match="q must be an array of real floating-point numbers"):
        module.scaled_dot_product_attention(ones(2, 2, dtype="int64"), ones(2, 2), ones(2, 2))
    with pytest.raises(ValueError, match="v must have the dtype of q, float64; got float32"):
        module.scaled_dot_product_attention(ones(2, 2), ones(2, 2), ones(2, 2, dtype="float32"))
    with pytest.raises(ValueError, match=r"x must be .* got list"):
        module.softmax([1.0, 2.0])
    with pytest.raises(ValueError, match=r"x must be .* got complex64"):
        module.softmax(ones(2, dtype="complex64"))


def test_gradients_of_another_shape_are_named(half) -> None:
    module, ones = half
    with pytest.raises(ValueError, match=r"shape of the output, \(2, 5\); got \(2, 4\)"):
        module.scaled_dot_product_attention_backward(ones(2, 4), ones(3, 4), ones(3, 5), ones(2, 4))
    with pytest.raises(ValueError, match=r"d_weights must have the shape of weights, \(3,\)"):
        module.softmax_backward(ones(3), ones(2))


def test_axes_lengths_scores_and_targets_out_of_range_are_named(half) -> None:
    module, ones = half
    for axis in (2, -3, 0.5, True, None):
        with pytest.raises(ValueError, match="axis must be a whole number from -2 to 1 for x"):
            module.softmax(ones(2, 3), axis)
    with pytest.raises(ValueError, match="x must not be empty along axis -1"):
        module.softmax(ones(2, 0))
    for n_q in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="n_q must be a whole number of at least 1; got"):
            module.causal_mask(n_q)
    with pytest.raises(ValueError, match="n_k must be at least n_q = 3; got 2"):
        module.causal_mask(3, 2)
    for scores in (ones(3), ones(2, 2), float("inf") * ones(2)):
        with pytest.raises(ValueError, match="scores must be one row of finite scores"):
            module.temperature_for_entropy(scores, 0.5)
    row = ones(3).cumsum(0)
    for target in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"target must lie between 0.0000 and 1.0986"):
            module.temperature_for_entropy(row, target)


def test_no_call_of_the_two_halves_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(3, 3)
        scaled_dot_product_attention(x, x, x, torch.zeros(3, 3, dtype=torch.bool))
        y = x.numpy()
        numpy_half.scaled_dot_product_attention(y, y, y, np.zeros((3, 3), dtype=bool))


def test_arrays_of_the_other_library_are_named() -> None:
    array, tensor = np.ones((2, 3)), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"^x must be an array of numpy; got a torch\.Tensor"):
        numpy_half.softmax(tensor)
    with pytest.raises(ValueError, match=r"^x must be a tensor of PyTorch; got a numpy\.ndarray"):
        softmax(array)
    with pytest.raises(ValueError, match=r"^k must be an array of numpy; got a torch\.Tensor"):
        numpy_half.scaled_dot_product_attention(array, tensor.double(), array)
    assert torch.equal(softmax(torch.nn.Parameter(tensor)), softmax(tensor))
