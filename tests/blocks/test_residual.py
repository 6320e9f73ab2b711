"""The PyTorch half of residual wrappers agrees with its twin and with PyTorch's encoder layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import residual as torch_half
from course_lib.blocks.feed_forward import FeedForward
from course_lib.blocks.normalization import RMSNorm
from course_lib.blocks.residual import Residual
from course_lib.reference import residual as numpy_half
from tests.agreement import FLOATS, assert_close

WRAPPERS = ("post_norm", "pre_norm")


@given(st.sampled_from(WRAPPERS), st.lists(st.integers(1, 3), max_size=3), st.integers(2, 6),
       st.sampled_from(sorted(FLOATS)), st.integers(0, 2**32 - 1))  # fmt: skip
def test_wrappers_equal_their_numpy_twins(
    name: str, lead: list[int], d: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, gamma, beta, w = (
        rng.standard_normal(s).astype(dtype) for s in ((*lead, d), (d,), (d,), (d, d))
    )
    theirs = getattr(numpy_half, name)(x, lambda x: x @ w, gamma, beta, 0.1)
    x, gamma, beta, w = map(torch.tensor, (x, gamma, beta, w))
    ours = getattr(torch_half, name)(x, lambda x: x @ w, gamma, beta, 0.1)
    assert_close(ours, theirs, 50 * FLOATS[dtype])


@pytest.mark.parametrize("norm_first", [True, False])
def test_two_wrapped_sublayers_are_pytorchs_encoder_layer(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    for norm in (layer.norm1, layer.norm2):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)

    class Attention(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor, key_padding_mask: torch.Tensor) -> torch.Tensor:
            return self.inner(x, x, x, key_padding_mask=key_padding_mask, need_weights=False)[0]

    network = FeedForward(8, 12)
    network.w_1.load_state_dict(layer.linear1.state_dict())
    network.w_2.load_state_dict(layer.linear2.state_dict())
    first = Residual(8, Attention(layer.self_attn), norm_first=norm_first)
    second = Residual(8, network, norm_first=norm_first)
    for block, norm in ((first, layer.norm1), (second, layer.norm2)):
        block.norm.gamma.data.copy_(norm.weight.data)
        block.norm.beta.data.copy_(norm.bias.data)
    x = torch.randn(3, 5, 8)
    hidden = torch.arange(5) >= torch.tensor([[5], [3], [4]])
    ours = second(first(x, key_padding_mask=hidden))
    assert_close(ours, layer(x, src_key_padding_mask=hidden), 1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_module_equals_the_function_with_its_weights(norm_first: bool) -> None:
    torch.manual_seed(1)
    block = Residual(6, FeedForward(6, 9), norm_first=norm_first)
    nn.init.normal_(block.norm.gamma)
    nn.init.normal_(block.norm.beta)
    x = torch.randn(2, 4, 6)
    function = torch_half.pre_norm if norm_first else torch_half.post_norm
    expected = function(x, block.sublayer, block.norm.gamma, block.norm.beta)
    assert_close(block(x), expected, 1e-6)


@pytest.mark.parametrize("norm_first", [True, False])
def test_another_norm_stands_where_layer_norm_would(norm_first: bool) -> None:
    torch.manual_seed(4)
    norm = RMSNorm(6)
    block = Residual(6, FeedForward(6, 9), norm_first=norm_first, norm=norm)
    x = torch.randn(2, 4, 6)
    f = block.sublayer
    assert_close(block(x), x + f(norm(x)) if norm_first else norm(x + f(x)), 1e-6)


def test_dropout_acts_on_the_correction_and_never_on_the_residual_path() -> None:
    torch.manual_seed(2)
    block = Residual(200, nn.Identity(), dropout=0.5)
    x = torch.randn(1, 200)
    normalised = block.norm(x)
    y = (block(x) - x).detach()
    dropped = y.abs() < 1e-6
    assert 50 < dropped.sum() < 150
    assert_close(y[~dropped], 2 * normalised[~dropped], 1e-5)
    assert_close(block.eval()(x), x + normalised, 1e-6)


def test_autograd_goes_through_both() -> None:
    torch.manual_seed(3)
    x, w = torch.randn(2, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    gamma, beta = torch.randn(2, 3, dtype=torch.float64)
    leaves = [t.requires_grad_() for t in (x, w, gamma.clone(), beta.clone())]
    for name in WRAPPERS:
        wrapper = getattr(torch_half, name)
        assert torch.autograd.gradcheck(
            lambda x, w, g, b, f=wrapper: f(x, lambda y: torch.tanh(y @ w), g, b), leaves
        )


# --- bad input -----------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_does_not_fit_is_named(half: Any, name: str) -> None:
    module, ones = half
    wrapper = getattr(module, name)
    x, gamma, beta = ones(2, 3), ones(3), ones(3)
    for sublayer, message in (
        (3, "sublayer must be a function; got 3"),
        (lambda x: None, "what sublayer returns must be an array of real floating-point numbers"),
        (lambda x: x[:1], r"what sublayer returns must have the shape of x, \(2, 3\); got \(1, 3"),
        (lambda x: ones(2, 3, dtype="float32"), "what sublayer returns must have the dtype of x"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            wrapper(x, sublayer, gamma, beta)
    with pytest.raises(ValueError, match=r"^gamma must have the shape \(d,\) = \(3,\); got \(2,\)"):
        wrapper(x, lambda x: x, ones(2), beta)
    with pytest.raises(ValueError, match=r"^x must not be empty"):
        wrapper(ones(0, 3), lambda x: x, gamma, beta)
    with pytest.raises(ValueError, match=r"^eps must be a number above 0; got 0"):
        wrapper(x, lambda x: x, gamma, beta, 0)


def test_a_correction_of_the_other_library_is_named() -> None:
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"^what sublayer returns must be an array of numpy; got"):
        numpy_half.pre_norm(x, torch.tensor, x[0], x[0])


def test_the_module_names_what_does_not_fit() -> None:
    for bad in (0, 2.0, None):
        with pytest.raises(ValueError, match=r"^d_model must be a whole number of at least 1; got"):
            Residual(bad, nn.Identity())
    with pytest.raises(ValueError, match=r"^sublayer must be an nn\.Module; got function"):
        Residual(4, lambda x: x)
    with pytest.raises(ValueError, match=r"^norm must be an nn\.Module; got str"):
        Residual(4, nn.Identity(), norm="rms")
    with pytest.raises(ValueError, match=r"^sublayer must be an nn\.Module; got type"):
        Residual(4, nn.Identity)
    with pytest.raises(ValueError, match=r"^dropout must be at least 0 and below 1; got 1"):
        Residual(4, nn.Identity(), dropout=1)
    with pytest.raises(ValueError, match=r"^x must have rows of width d = 4; got shape \(2, 5\)"):
        Residual(4, nn.Identity())(torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"^what sublayer returns must have the shape of x"):
        Residual(4, nn.Linear(4, 5))(torch.ones(2, 4))
