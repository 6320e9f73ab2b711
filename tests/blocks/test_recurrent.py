"""The PyTorch half of recurrent layers agrees with its twin and, weights copied, with torch.nn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import recurrent as torch_half
from course_lib.reference import recurrent as numpy_half
from tests.agreement import FLOATS, assert_close

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
LAYERS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
HALVES = [torch.float16, torch.bfloat16]
kinds = st.sampled_from(sorted(GATES))
size = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


def draw_inputs(
    kind: str, lead: tuple[int, ...], n: int, d_in: int, d_h: int, dtype: str, seed: int
) -> list[np.ndarray]:
    """Tokens, state (and cell), weights: what a layer takes, in its order."""
    g = GATES[kind]
    shapes = [(*lead, n, d_in), *[(*lead, d_h)] * (1 + (kind == "lstm"))]
    shapes += [(g * d_h, d_in), (g * d_h, d_h), (g * d_h,), (g * d_h,)]
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def both(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@given(kinds, st.lists(st.integers(1, 3), max_size=3), size, size, size,
       st.sampled_from(sorted(FLOATS)), seeds)  # fmt: skip
def test_steps_and_layers_equal_their_numpy_twins(
    kind: str, lead: list[int], n: int, d_in: int, d_h: int, dtype: str, seed: int
) -> None:
    xs, *rest = draw_inputs(kind, tuple(lead), n, d_in, d_h, dtype, seed)
    tensors = [torch.tensor(a) for a in rest]
    for name, tokens in ((f"{kind}_step", xs[..., 0, :]), (kind, xs)):
        ours = both(getattr(torch_half, name)(torch.tensor(tokens), *tensors))
        theirs = both(getattr(numpy_half, name)(tokens, *rest))
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b, 5 * FLOATS[dtype])


@given(kinds, size, size, size, size, seeds)
def test_steps_and_layers_equal_pytorchs_with_the_same_weights(
    kind: str, b: int, n: int, d_in: int, d_h: int, seed: int
) -> None:
    tensors = [torch.from_numpy(a) for a in draw_inputs(kind, (b,), n, d_in, d_h, "float64", seed)]
    xs, *state = tensors[:-4]
    weights = tensors[-4:]

    cell = CELLS[kind](d_in, d_h, dtype=torch.float64)
    layer = LAYERS[kind](d_in, d_h, batch_first=True, dtype=torch.float64)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell.load_state_dict(dict(zip(names, weights, strict=True)))
    layer.load_state_dict(dict(zip((f"{name}_l0" for name in names), weights, strict=True)))

    ours = both(getattr(torch_half, f"{kind}_step")(xs[:, 0], *state, *weights))
    theirs = both(cell(xs[:, 0], tuple(state) if kind == "lstm" else state[0]))
    for a, c in zip(ours, theirs, strict=True):
        assert_close(a, c, 1e-12)

    start = [s[None] for s in state]
    states, last = layer(xs, tuple(start) if kind == "lstm" else start[0])
    ours = both(getattr(torch_half, kind)(xs, *state, *weights))
    assert_close(ours[0], states, 1e-12)
    if kind == "lstm":
        assert_close(ours[1], last[1][0], 1e-12)


@pytest.mark.parametrize("kind", GATES)
def test_gradients_equal_finite_differences_and_pytorchs(kind: str) -> None:
    arrays = draw_inputs(kind, (2,), 3, 2, 3, "float64", 0)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    layer, step = getattr(torch_half, kind), getattr(torch_half, f"{kind}_step")
    assert torch.autograd.gradcheck(layer, tensors)
    token = tensors[0].detach()[:, 0].clone().requires_grad_()
    assert torch.autograd.gradcheck(step, (token, *tensors[1:]))

    module = LAYERS[kind](2, 3, batch_first=True, dtype=torch.float64)
    for parameter, weight in zip(module.parameters(), tensors[-4:], strict=True):
        parameter.data = weight.detach().clone()
    state = [s.detach()[None] for s in tensors[1:-4]]
    module(tensors[0].detach(), tuple(state) if kind == "lstm" else state[0])[0].sum().backward()
    both(layer(*tensors))[0].sum().backward()
    for parameter, weight in zip(module.parameters(), tensors[-4:], strict=True):
        assert_close(weight.grad, parameter.grad, 1e-12)


def test_the_sigmoid_equals_its_twin_and_pytorchs_and_is_differentiable() -> None:
    x = torch.linspace(-40, 40, 81, dtype=torch.float64, requires_grad=True)
    assert_close(torch_half.sigmoid(x), numpy_half.sigmoid(x.detach().numpy()), 1e-15)
    assert_close(torch_half.sigmoid(x), torch.sigmoid(x), 1e-15)
    assert torch.autograd.gradcheck(torch_half.sigmoid, (x,))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_rounded_once_and_not_at_every_step(
    kind: str, dtype: torch.dtype
) -> None:
    tensors = [torch.tensor(a).to(dtype) for a in draw_inputs(kind, (2,), 20, 3, 4, "float32", 1)]
    layer = getattr(torch_half, kind)
    half, single = both(layer(*tensors)), both(layer(*(a.float() for a in tensors)))
    for a, b in zip(half, single, strict=True):
        assert a.dtype == dtype
        assert torch.equal(a, b.to(dtype))
    x = tensors[0][:, 0]
    step = getattr(torch_half, f"{kind}_step")
    half, single = (
        both(step(*(f(a) for a in (x, *tensors[1:])))) for f in (lambda a: a, torch.Tensor.float)
    )
    for a, b in zip(half, single, strict=True):
        assert torch.equal(a, b.to(dtype))


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


FUNCTIONS = [*GATES, *(f"{kind}_step" for kind in GATES)]


def good_shapes(function: str) -> dict[str, tuple[int, ...]]:
    kind, _, step = function.partition("_")
    g = GATES[kind]
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 3)} if step else {"xs": (2, 5, 3)}
    shapes["h"] = (2, 4)
    if kind == "lstm":
        shapes["c"] = (2, 4)
    return {**shapes, "w_x": (g * 4, 3), "w_h": (g * 4, 4), "b_x": (g * 4,), "b_h": (g * 4,)}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_argument_that_does_not_fit_is_named(half: Any, function: str) -> None:
    module, ones = half
    call, shapes = getattr(module, function), good_shapes(function)
    arguments = {name: ones(*shape) for name, shape in shapes.items()}
    call(**arguments)
    for name, shape in shapes.items():
        for bad in (ones(*shape, dtype="int64"), arguments[name].tolist(), None):
            with pytest.raises(ValueError, match=f"^{name} must be an array of real floating-poin"):
                call(**{**arguments, name: bad})
        array = arguments[name]
        other = torch.from_numpy(array) if isinstance(array, np.ndarray) else array.numpy()
        with pytest.raises(ValueError, match=f"^{name} must be an? .*; got a"):
            call(**{**arguments, name: other})
        with pytest.raises(ValueError, match=r"must have the dtype of h, float"):
            call(**{**arguments, name: ones(*shape, dtype="float32")})
        wrong = (7, *shape) if len(shape) > 1 and name in ("h", "c") else (*shape[:-1], 7)
        with pytest.raises(ValueError, match=r"^\w+ must have the (shape|leading axes)"):
            call(**{**arguments, name: ones(*wrong)})
        with pytest.raises(ValueError, match=r"must not be empty|must have the shape"):
            call(**{**arguments, name: ones(*shape[:-1], 0)})


def test_messages_say_what_was_expected(half: Any) -> None:
    module, ones = half
    arguments = {name: ones(*shape) for name, shape in good_shapes("gru").items()}
    for name, bad, message in (
        ("w_x", ones(3, 12), r"w_x must have the shape \(3 d_h, d_in\) = \(12, 3\); got \(3, 12\)"),
        ("w_h", ones(4, 4), r"w_h must have the shape \(3 d_h, d_h\) = \(12, 4\); got \(4, 4\)"),
        ("b_h", ones(4), r"b_h must have the shape \(3 d_h,\) = \(12,\); got \(4,\)"),
        ("h", ones(5, 4), r"h must have the leading axes of the tokens in xs, \(2,\); got \(5,\)"),
        ("xs", ones(3), r"xs must have a shape \(..., n, d_in\); got \(3,\)"),
        ("xs", ones(2, 0, 3), r"xs must not be empty: \(..., n, d_in\); got shape \(2, 0, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            module.gru(**{**arguments, name: bad})
    with pytest.raises(ValueError, match=r"c must have the shape of h, \(2, 4\); got \(1, 4\)"):
        shapes = good_shapes("lstm_step")
        module.lstm_step(**{**{name: ones(*s) for name, s in shapes.items()}, "c": ones(1, 4)})
    with pytest.raises(ValueError, match="x must be an array of real floating-point numbers; got"):
        module.sigmoid([1.0])
