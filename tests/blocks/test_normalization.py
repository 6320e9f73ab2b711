"""The PyTorch half of normalisation agrees with its twin, with PyTorch's own and with autograd."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import normalization as torch_half
from course_lib.blocks.normalization import LayerNorm, RMSNorm
from course_lib.reference import normalization as numpy_half
from tests.agreement import FLOATS, assert_close

leading = st.lists(st.integers(1, 3), max_size=3)
size = st.integers(1, 6)
dtypes = st.sampled_from(sorted(FLOATS))
seeds = st.integers(0, 2**32 - 1)
eps_values = st.sampled_from([1e-3, 0.1])


def draw_arrays(lead: list[int], d: int, dtype: str, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = ((*lead, d), (d,), (d,), (*lead, d))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@given(leading, size, dtypes, seeds, eps_values)
def test_norms_over_a_token_equal_their_numpy_twins_and_pytorchs(
    lead: list[int], d: int, dtype: str, seed: int, eps: float
) -> None:
    arrays = draw_arrays(lead, d, dtype, seed)
    x, gamma, beta, _ = map(torch.tensor, arrays)
    tolerance = 20 * FLOATS[dtype]
    ours = torch_half.layer_norm(x, gamma, beta, eps)
    assert_close(ours, numpy_half.layer_norm(*arrays[:3], eps), tolerance)
    assert_close(ours, F.layer_norm(x, (d,), gamma, beta, eps), tolerance)
    ours = torch_half.rms_norm(x, gamma, eps)
    assert_close(ours, numpy_half.rms_norm(*arrays[:2], eps), tolerance)
    assert_close(ours, F.rms_norm(x, (d,), gamma, eps), tolerance)


@given(leading, size, size, dtypes, seeds, eps_values)
def test_norms_over_more_than_a_token_equal_their_numpy_twins_and_pytorchs(
    lead: list[int], n: int, d: int, dtype: str, seed: int, eps: float
) -> None:
    arrays = draw_arrays([*lead, n], d, dtype, seed)
    x, gamma, beta, _ = map(torch.tensor, arrays)
    tolerance = 20 * FLOATS[dtype]

    ours = torch_half.batch_norm(x, gamma, beta, eps)
    assert_close(ours, numpy_half.batch_norm(*arrays[:3], eps), tolerance)
    if x.numel() > d:  # PyTorch refuses a batch of one token
        flat = F.batch_norm(x.reshape(-1, d), None, None, gamma, beta, training=True, eps=eps)
        assert_close(ours, flat.reshape(x.shape), tolerance)

    ours = torch_half.sequence_norm(x, gamma, beta, eps)
    assert_close(ours, numpy_half.sequence_norm(*arrays[:3], eps), tolerance)
    if n * d > 1:  # and a group of one number
        channels = x.reshape(-1, n, d).transpose(1, 2)  # one group of all is the whole sequence
        group = F.group_norm(channels, 1, gamma, beta, eps).transpose(1, 2)
        assert_close(ours, group.reshape(x.shape), tolerance)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), seeds, dtypes, st.data())
def test_standardising_equals_its_numpy_twin_over_any_axes(
    shape: list[int], seed: int, dtype: str, data: st.DataObject
) -> None:
    every = st.integers(0, len(shape) - 1)
    axes = tuple(data.draw(st.lists(every, min_size=1, unique=True)))
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    ours = torch_half.standardise(torch.tensor(x), axes, 0.1)
    assert_close(ours, numpy_half.standardise(x, axes, 0.1), 20 * FLOATS[dtype])


@given(leading, size, dtypes, seeds, eps_values)
def test_gradients_by_hand_equal_autograds_pytorchs_and_their_numpy_twins(
    lead: list[int], d: int, dtype: str, seed: int, eps: float
) -> None:
    arrays = draw_arrays(lead, d, dtype, seed)
    x, gamma, beta, d_output = map(torch.tensor, arrays)
    by_hand = torch_half.layer_norm_backward(x, gamma, d_output, eps)
    twin = numpy_half.layer_norm_backward(arrays[0], arrays[1], arrays[3], eps)
    tolerance = 200 * FLOATS[dtype]
    for a, b in zip(by_hand, twin, strict=True):
        assert_close(a, b, tolerance)
    for forward in (
        torch_half.layer_norm,
        lambda x, gamma, beta, eps: F.layer_norm(x, (d,), gamma, beta, eps),
    ):
        leaves = [t.clone().requires_grad_() for t in (x, gamma, beta)]
        forward(*leaves, eps).backward(d_output)
        for a, leaf in zip(by_hand, leaves, strict=True):
            assert_close(a, leaf.grad, tolerance)


def test_autograd_goes_through_every_norm() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    gamma, beta = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for norm in (torch_half.layer_norm, torch_half.batch_norm, torch_half.sequence_norm):
        assert torch.autograd.gradcheck(norm, (x, gamma, beta))
    assert torch.autograd.gradcheck(torch_half.rms_norm, (x, gamma))


@given(leading, size, seeds)
def test_modules_start_as_pytorchs_and_equal_them_with_copied_weights(
    lead: list[int], d: int, seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(*lead, d)
    ours, theirs = LayerNorm(d), nn.LayerNorm(d)
    rms, their_rms = RMSNorm(d), nn.RMSNorm(d, eps=1e-6)
    assert_close(ours(x), theirs(x), 2e-4)  # with few features σ may be tiny, and rounding large
    assert_close(rms(x), their_rms(x), 1e-5)
    x = x.double()
    for a, b, names in ((ours, theirs, ("gamma", "beta")), (rms, their_rms, ("gamma",))):
        a.double()
        b.double()
        for name, parameter in zip(names, b.parameters(), strict=True):
            nn.init.normal_(parameter)
            getattr(a, name).data.copy_(parameter.data)
        assert_close(a(x), b(x), 1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x, d_output = ((100 * torch.randn(2, 3, 8)).to(dtype) for _ in range(2))
    gamma, beta = (torch.randn(8).to(dtype) for _ in range(2))
    for f, arguments in (
        (torch_half.layer_norm, (x, gamma, beta)),
        (torch_half.batch_norm, (x, gamma, beta)),
        (torch_half.sequence_norm, (x, gamma, beta)),
        (torch_half.rms_norm, (x, gamma)),
        (torch_half.standardise, (x, (-1,))),
        (torch_half.layer_norm_backward, (x, gamma, d_output)),
    ):
        half = f(*arguments)
        single = f(*(a.float() if isinstance(a, torch.Tensor) else a for a in arguments))
        pairs = zip(half, single, strict=True) if isinstance(half, tuple) else [(half, single)]
        for a, b in pairs:
            assert a.dtype == dtype
            assert torch.equal(a, b.to(dtype))


def test_no_call_of_the_two_halves_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in ("layer_norm", "batch_norm", "sequence_norm"):
            getattr(numpy_half, f)(np.zeros((1, 1, 1)), np.ones(1), np.ones(1))
            getattr(torch_half, f)(torch.zeros(1, 1, 1), torch.ones(1), torch.ones(1))


# --- bad input -----------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


SHAPES = {
    "layer_norm": {"x": (2, 3, 4), "gamma": (4,), "beta": (4,)},
    "batch_norm": {"x": (2, 3, 4), "gamma": (4,), "beta": (4,)},
    "sequence_norm": {"x": (2, 3, 4), "gamma": (4,), "beta": (4,)},
    "rms_norm": {"x": (2, 3, 4), "gamma": (4,)},
    "layer_norm_backward": {"x": (2, 3, 4), "gamma": (4,), "d_output": (2, 3, 4)},
}


@pytest.mark.parametrize("function", SHAPES)
def test_every_argument_that_does_not_fit_is_named(half: Any, function: str) -> None:
    module, ones = half
    call = getattr(module, function)
    arguments = {name: ones(*shape) for name, shape in SHAPES[function].items()}
    call(**arguments)
    for name, array in arguments.items():
        bad = [ones(*array.shape, dtype="int64"), array.tolist()]
        bad += [] if name == "beta" else [None]
        for value in bad:
            with pytest.raises(ValueError, match=f"^{name} must be an array of real floating-poi"):
                call(**{**arguments, name: value})
        other = torch.from_numpy(array) if isinstance(array, np.ndarray) else array.numpy()
        with pytest.raises(ValueError, match=f"^{name} must be an? .*; got a"):
            call(**{**arguments, name: other})
        with pytest.raises(ValueError, match="must have the dtype of x, float"):
            call(**{**arguments, name: ones(*array.shape, dtype="float32")})
        with pytest.raises(ValueError, match=r"^\w+ must have the shape"):
            call(**{**arguments, name: ones(*array.shape[:-1], 5)})
    for bad in (0, 0.0, -1e-5, float("nan"), float("inf"), "1e-5", None, True):
        with pytest.raises(ValueError, match=r"^eps must be a number above 0; got"):
            call(**arguments, eps=bad)
    with pytest.raises(ValueError, match=r"^x must not be empty: "):
        call(**{**arguments, "x": ones(2, 0, 4)})


def test_a_missing_shift_and_missing_axes_are_named(half: Any) -> None:
    module, ones = half
    for name in ("layer_norm", "batch_norm", "sequence_norm"):
        with pytest.raises(ValueError, match=r"^beta must be an array of real floating-point num"):
            getattr(module, name)(ones(2, 3), ones(3), None)
    for name in ("batch_norm", "sequence_norm"):
        with pytest.raises(ValueError, match=r"^x must have a shape \(..., n, d\); got \(3,\)"):
            getattr(module, name)(ones(3), ones(3), ones(3))
    assert module.layer_norm(ones(3), ones(3), ones(3)).shape == (3,)


def test_axes_that_make_no_sense_are_named(half: Any) -> None:
    module, ones = half
    x = ones(2, 3)
    for axes, message in (
        ((), "axes must be a tuple of one axis of x at least; got"),
        (-1, "axes must be a tuple of one axis of x at least; got -1"),
        ([-1], "axes must be a tuple"),
        ((2,), "axis must be a whole number from -2 to 1 for x"),
        ((0.0,), "axis must be a whole number"),
        ((1, -1), r"axes must name each axis of x once; got \(1, -1\)"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            module.standardise(x, axes)
    with pytest.raises(ValueError, match=r"^x must not be empty"):
        module.standardise(ones(0, 3), (1,))
    with pytest.raises(ValueError, match=r"^eps must be a number above 0; got 0"):
        module.standardise(x, (1,), 0)


def test_modules_name_what_does_not_fit() -> None:
    for make in (LayerNorm, RMSNorm):
        for bad in (0, -1, 2.0, True, None):
            with pytest.raises(ValueError, match=r"^d_model must be a whole number of at least 1"):
                make(bad)
        with pytest.raises(ValueError, match=r"^eps must be a number above 0; got 0"):
            make(4, eps=0)
        with pytest.raises(ValueError, match=r"^x must have rows of width d = 4; got shape \(2, 5"):
            make(4)(torch.ones(2, 5))
