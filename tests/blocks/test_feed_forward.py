"""The PyTorch half of feed-forward networks agrees with its twin and with PyTorch's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import feed_forward as torch_half
from course_lib.blocks.feed_forward import FeedForward, SwiGLU
from course_lib.reference import feed_forward as numpy_half
from tests.agreement import FLOATS, assert_close

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
activations = st.sampled_from(sorted(ACTIVATIONS))
dtypes = st.sampled_from(sorted(FLOATS))
size = st.integers(1, 6)
leading = st.lists(st.integers(1, 3), max_size=3)
seeds = st.integers(0, 2**32 - 1)


def draw_arrays(shapes: list[tuple[int, ...]], dtype: str, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def feed_forward_shapes(lead: list[int], d: int, d_ff: int) -> list[tuple[int, ...]]:
    return [(*lead, d), (d, d_ff), (d_ff,), (d_ff, d), (d,)]


@given(leading, size, size, activations, dtypes, seeds)
def test_feed_forward_equals_its_numpy_twin_and_pytorchs_layers(
    lead: list[int], d: int, d_ff: int, activation: str, dtype: str, seed: int
) -> None:
    arrays = draw_arrays(feed_forward_shapes(lead, d, d_ff), dtype, seed)
    x, w_1, b_1, w_2, b_2 = map(torch.tensor, arrays)
    ours = torch_half.feed_forward(x, w_1, b_1, w_2, b_2, activation)
    assert_close(ours, numpy_half.feed_forward(*arrays, activation), 5 * FLOATS[dtype])
    hidden = ACTIVATIONS[activation](F.linear(x, w_1.T, b_1))
    assert_close(ours, F.linear(hidden, w_2.T, b_2), 5 * FLOATS[dtype])


@given(leading, size, size, dtypes, seeds)
def test_swiglu_equals_its_numpy_twin(
    lead: list[int], d: int, d_ff: int, dtype: str, seed: int
) -> None:
    arrays = draw_arrays([(*lead, d), (d, d_ff), (d_ff, d), (d, d_ff)], dtype, seed)
    ours = torch_half.swiglu(*map(torch.tensor, arrays))
    assert_close(ours, numpy_half.swiglu(*arrays), 5 * FLOATS[dtype])


@given(leading, dtypes, seeds, st.sampled_from([0.1, 1.0, 8.0]))
def test_activations_equal_their_twins_and_pytorchs(
    lead: list[int], dtype: str, seed: int, spread: float
) -> None:
    (array,) = draw_arrays([(*lead, 5)], dtype, seed)
    array = (spread * array).astype(dtype)
    x = torch.tensor(array)
    for name, arguments, theirs in (
        ("relu", (), F.relu(x)),
        ("silu", (), F.silu(x)),
        ("gelu", (), F.gelu(x)),
        ("gelu", ("tanh",), F.gelu(x, approximate="tanh")),
    ):
        ours = getattr(torch_half, name)(x, *arguments)
        assert_close(ours, theirs, FLOATS[dtype])
        assert_close(ours, getattr(numpy_half, name)(array, *arguments), FLOATS[dtype])


@given(leading, size, size, activations, st.booleans(), seeds)
def test_the_module_equals_the_function_with_its_weights_and_pytorchs_with_them_copied(
    lead: list[int], d: int, d_ff: int, activation: str, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    network = FeedForward(d, d_ff, activation=activation, bias=bias)
    x = torch.randn(*lead, d)
    w_1, w_2 = network.w_1.weight.T, network.w_2.weight.T
    b_1, b_2 = network.w_1.bias, network.w_2.bias
    assert (b_1 is None) == (not bias)
    assert_close(network(x), torch_half.feed_forward(x, w_1, b_1, w_2, b_2, activation), 1e-6)
    assert sum(p.numel() for p in network.parameters()) == 2 * d * d_ff + bias * (d_ff + d)


def test_the_network_is_that_of_pytorchs_encoder_layer() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    network = FeedForward(8, 12)
    network.w_1.load_state_dict(layer.linear1.state_dict())
    network.w_2.load_state_dict(layer.linear2.state_dict())
    x = torch.randn(2, 5, 8)
    assert_close(network(x), layer._ff_block(x), 1e-6)


@given(leading, size, size, seeds)
def test_the_gated_module_equals_the_function_with_its_weights(
    lead: list[int], d: int, d_ff: int, seed: int
) -> None:
    torch.manual_seed(seed)
    network = SwiGLU(d, d_ff)
    x = torch.randn(*lead, d)
    w_1, w_2, w_3 = (w.weight.T for w in (network.w_1, network.w_2, network.w_3))
    assert_close(network(x), torch_half.swiglu(x, w_1, w_2, w_3), 1e-6)
    assert sum(p.numel() for p in network.parameters()) == 3 * d * d_ff


def test_the_gated_network_is_that_of_llama() -> None:
    from transformers.models.llama import modeling_llama as llama

    config = llama.LlamaConfig(
        hidden_size=8, intermediate_size=12, num_attention_heads=2, hidden_act="silu"
    )
    theirs = llama.LlamaMLP(config)
    network = SwiGLU(8, 12)
    for ours, name in (("w_1", "gate_proj"), ("w_2", "down_proj"), ("w_3", "up_proj")):
        getattr(network, ours).load_state_dict(getattr(theirs, name).state_dict())
    x = torch.randn(2, 5, 8)
    assert_close(network(x), theirs(x), 1e-6)


def test_dropout_acts_on_hidden_values_in_training_alone() -> None:
    torch.manual_seed(0)
    network = FeedForward(4, 64, bias=False, dropout=0.5)
    nn.init.ones_(network.w_1.weight)
    nn.init.ones_(network.w_2.weight)
    x = torch.full((1, 4), 0.25)
    trained = network(x)
    assert trained.unique().numel() == 1  # every output sums the same hidden values
    assert trained[0, 0] != 64
    assert (network.eval()(x) == 64).all()


def test_autograd_goes_through_every_function() -> None:
    torch.manual_seed(1)
    shapes = feed_forward_shapes([2], 3, 4)
    tensors = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    for name in ACTIVATIONS:
        assert torch.autograd.gradcheck(
            lambda *t, name=name: torch_half.feed_forward(*t, name), tensors
        )
    x, w_1, _, w_2, _ = tensors
    w_3 = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch_half.swiglu, (x, w_1, w_2, w_3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    tensors = [torch.randn(s).to(dtype) for s in feed_forward_shapes([2, 3], 4, 8)]
    for name in ACTIVATIONS:
        half = torch_half.feed_forward(*tensors, name)
        single = torch_half.feed_forward(*(t.float() for t in tensors), name)
        assert torch.equal(half, single.to(dtype))
    x, w_1, _, w_2, _ = tensors
    half = torch_half.swiglu(x, w_1, w_2, w_1)
    single = torch_half.swiglu(*(t.float() for t in (x, w_1, w_2, w_1)))
    assert torch.equal(half, single.to(dtype))
    for f in (torch_half.relu, torch_half.gelu, torch_half.silu):
        assert torch.equal(f(x), f(x.float()).to(dtype))


def test_no_call_of_the_two_halves_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arrays = draw_arrays(feed_forward_shapes([2], 3, 4), "float32", 0)
        for name in ACTIVATIONS:
            numpy_half.feed_forward(*arrays, name)
            torch_half.feed_forward(*map(torch.tensor, arrays), name)


# --- bad input -----------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


SHAPES = {
    "feed_forward": {"x": (2, 3), "w_1": (3, 5), "b_1": (5,), "w_2": (5, 3), "b_2": (3,)},
    "swiglu": {"x": (2, 3), "w_1": (3, 5), "w_2": (5, 3), "w_3": (3, 5)},
    "relu": {"x": (2, 3)},
    "gelu": {"x": (2, 3)},
    "silu": {"x": (2, 3)},
}


@pytest.mark.parametrize("function", SHAPES)
def test_every_argument_that_is_no_array_of_floats_or_of_another_library_is_named(
    half: Any, function: str
) -> None:
    module, ones = half
    call = getattr(module, function)
    arguments = {name: ones(*shape) for name, shape in SHAPES[function].items()}
    call(**arguments)
    for name, array in arguments.items():
        bad = [ones(*array.shape, dtype="int64"), array.tolist(), "x"]
        if not name.startswith("b_"):
            bad.append(None)
        for value in bad:
            with pytest.raises(ValueError, match=f"^{name} must be an array of real floating-poi"):
                call(**{**arguments, name: value})
        other = torch.from_numpy(array) if isinstance(array, np.ndarray) else array.numpy()
        with pytest.raises(ValueError, match=f"^{name} must be an? .*; got a"):
            call(**{**arguments, name: other})
        if len(arguments) > 1:
            with pytest.raises(ValueError, match="must have the dtype of x, float"):
                call(**{**arguments, name: ones(*array.shape, dtype="float32")})


@pytest.mark.parametrize("function", ["feed_forward", "swiglu"])
def test_shapes_that_do_not_fit_are_named(half: Any, function: str) -> None:
    module, ones = half
    call = getattr(module, function)
    arguments = {name: ones(*shape) for name, shape in SHAPES[function].items()}
    for name, bad, message in (
        ("x", ones(2, 4), r"w_1 must have a shape \(d, d_ff\) with d = 4, the width of x; got"),
        ("x", ones(0, 3), r"x must not be empty: \(..., d\); got shape \(0, 3\)"),
        ("x", ones(), "x must have at least one axis"),
        ("w_1", ones(5, 3), r"w_1 must have a shape \(d, d_ff\) with d = 3, .*; got \(5, 3\)"),
        ("w_1", ones(3), r"w_1 must have a shape \(d, d_ff\)"),
        ("w_1", ones(3, 0), r"w_1 must not be empty: \(d, d_ff\)"),
        ("w_2", ones(3, 5), r"w_2 must have the shape \(d_ff, d\) = \(5, 3\); got \(3, 5\)"),
        ("w_3", ones(5, 3), r"w_3 must have the shape \(d, d_ff\) = \(3, 5\); got \(5, 3\)"),
        ("b_1", ones(3), r"b_1 must have the shape \(d_ff,\) = \(5,\); got \(3,\)"),
        ("b_2", ones(2, 3), r"b_2 must have the shape \(d,\) = \(3,\); got \(2, 3\)"),
    ):
        if name in arguments:
            with pytest.raises(ValueError, match=f"^{message}"):
                call(**{**arguments, name: bad})


def test_unknown_words_are_named(half: Any) -> None:
    module, ones = half
    arguments = [ones(*shape) for shape in SHAPES["feed_forward"].values()]
    for bad in ("tanh", None, 1, ["relu"]):
        with pytest.raises(
            ValueError, match=r"^activation must be one of relu, gelu, gelu_tanh, s"
        ):
            module.feed_forward(*arguments, activation=bad)
        with pytest.raises(ValueError, match=r"^approximate must be one of none, tanh; got"):
            module.gelu(arguments[0], "tan" if bad == "tanh" else bad)


def test_modules_name_what_does_not_fit() -> None:
    for bad in (0, -1, 2.0, True, None):
        for make in (FeedForward, SwiGLU):
            with pytest.raises(ValueError, match=r"^d_model must be a whole number of at least 1"):
                make(bad, 4)
            with pytest.raises(
                ValueError, match=r"^d_ff must be a whole number of at least 1; got"
            ):
                make(4, bad)
    with pytest.raises(ValueError, match=r"^activation must be one of"):
        FeedForward(4, 8, activation="tanh")
    for bad in (1.0, -0.1, "0.1"):
        with pytest.raises(ValueError, match=r"^dropout must be at least 0 and below 1; got"):
            FeedForward(4, 8, dropout=bad)
    for network in (FeedForward(4, 8), SwiGLU(4, 8)):
        with pytest.raises(ValueError, match=r"^x must have rows of width d = 4; got shape \(2, 5"):
            network(torch.ones(2, 5))
        with pytest.raises(ValueError, match=r"^x must be an array of real floating-point numbers"):
            network(torch.ones(2, 4, dtype=torch.int64))
