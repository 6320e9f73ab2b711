"""The PyTorch half of scores and contexts agrees with its twin and with independent formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from course_lib.blocks import attention_scores as torch_half
from course_lib.reference import attention_scores as numpy_half
from tests.agreement import FLOATS, assert_close

HALVES = [torch.float16, torch.bfloat16]


@st.composite
def inputs(draw: st.DrawFn, dtypes: tuple[str, ...] = tuple(FLOATS)) -> dict[str, np.ndarray]:
    """Draw sequences with 0 to 3 leading axes, weights between them, and a mask or none."""
    lead = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    n_q, n_k, d_q, d_k, d_a, d_v = (draw(st.integers(1, 5)) for _ in range(6))
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask_shape = draw(
        st.sampled_from([None, (*lead, n_q, n_k), (n_q, n_k), (*lead, 1, n_k), (n_k,), (n_q, 1)])
    )
    shapes = {
        "queries": (*lead, n_q, d_q),
        "keys": (*lead, n_k, d_k),
        "more_keys": (*lead, n_k, d_q),
        "values": (*lead, n_k, d_v),
        "w_query": (d_q, d_a),
        "w_key": (d_k, d_a),
        "w": (d_q, d_k),
        "v": (d_a,),
    }
    x = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    if mask_shape is not None:
        x["mask"] = rng.random(mask_shape) < 0.6
    return x


def tensors(x: dict[str, np.ndarray], requires_grad: bool = False) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor(a, requires_grad=requires_grad and name != "mask")
        for name, a in x.items()
    }


@given(inputs())
def test_scores_equal_their_twins_and_einsums(x: dict[str, np.ndarray]) -> None:
    t, tolerance = tensors(x), 5 * FLOATS[x["v"].dtype.name]
    names = ("queries", "keys", "w_query", "w_key", "v")
    additive = torch_half.additive_scores(*(t[name] for name in names))
    assert_close(additive, numpy_half.additive_scores(*(x[name] for name in names)), tolerance)
    hidden = torch.tanh(
        torch.einsum("...qi,ia->...qa", t["queries"], t["w_query"]).unsqueeze(-2)
        + torch.einsum("...kj,ja->...ka", t["keys"], t["w_key"]).unsqueeze(-3)
    )
    assert_close(additive, torch.einsum("...qka,a->...qk", hidden, t["v"]), tolerance)

    bilinear = torch_half.bilinear_scores(t["queries"], t["keys"], t["w"])
    assert_close(bilinear, numpy_half.bilinear_scores(x["queries"], x["keys"], x["w"]), tolerance)
    assert_close(
        bilinear,
        torch.einsum("...qi,ij,...kj->...qk", t["queries"], t["w"], t["keys"]),
        tolerance,
    )

    dot = torch_half.dot_scores(t["queries"], t["more_keys"])
    assert_close(dot, numpy_half.dot_scores(x["queries"], x["more_keys"]), tolerance)
    assert_close(dot, torch.einsum("...qi,...ki->...qk", t["queries"], t["more_keys"]), tolerance)


@given(inputs())
def test_contexts_equal_their_twins_and_pytorchs_attention(x: dict[str, np.ndarray]) -> None:
    t, tolerance = tensors(x), 5 * FLOATS[x["v"].dtype.name]
    scores = torch_half.dot_scores(t["queries"], t["more_keys"])
    ours = torch_half.attend(scores, t["values"], t.get("mask"))
    theirs = numpy_half.attend(scores.numpy(), x["values"], x.get("mask"))
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, tolerance)
    mask = None if "mask" not in t else t["mask"].expand(scores.shape)
    by_pytorch = F.scaled_dot_product_attention(
        t["queries"], t["more_keys"], t["values"], attn_mask=mask, scale=1.0
    )
    assert_close(ours[0], by_pytorch, tolerance)


@given(inputs(), st.booleans())
def test_plain_self_attention_equals_its_twin_and_pytorchs(
    x: dict[str, np.ndarray], masked: bool
) -> None:
    keys = torch.tensor(x["keys"])
    n = keys.shape[-2]
    mask = torch.ones(n, n, dtype=torch.bool).tril(-1) if masked else None  # hides a whole row
    ours = torch_half.plain_self_attention(keys, mask)
    theirs = numpy_half.plain_self_attention(x["keys"], None if mask is None else mask.numpy())
    tolerance = 5 * FLOATS[x["v"].dtype.name]
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, tolerance)
    expanded = None if mask is None else mask.expand(ours[1].shape)
    by_pytorch = F.scaled_dot_product_attention(keys, keys, keys, attn_mask=expanded, scale=1.0)
    assert_close(ours[0], by_pytorch, tolerance)


def test_gradients_equal_finite_differences() -> None:
    torch.manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    queries, keys, values = normal(2, 3, 4), normal(2, 5, 6), normal(2, 5, 3)
    check = torch.autograd.gradcheck
    assert check(torch_half.additive_scores, (queries, keys, normal(4, 7), normal(6, 7), normal(7)))
    assert check(torch_half.bilinear_scores, (queries, keys, normal(4, 6)))
    assert check(torch_half.dot_scores, (queries, normal(2, 5, 4)))
    mask = torch.rand(2, 3, 5) < 0.6
    mask[0, 1] = False
    assert check(torch_half.attend, (normal(2, 3, 5), values, mask))
    assert check(torch_half.plain_self_attention, (queries,))


def test_autograd_gives_no_nan_through_a_query_that_may_look_nowhere() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    output, weights = torch_half.plain_self_attention(x, mask)
    (output.sum() + weights.square().sum()).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert output[1].abs().sum() == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k, v, w = (torch.randn(*s).to(dtype) for s in ((3, 5), (4, 5), (5,), (5, 5)))
    mask = torch.rand(3, 4) < 0.7
    for function, arguments in (
        (torch_half.additive_scores, (q, k, w, w, v)),
        (torch_half.bilinear_scores, (q, k, w)),
        (torch_half.dot_scores, (q, k)),
        (lambda *a: torch_half.attend(*a, mask)[0], (q @ k.T, k)),
        (lambda *a: torch_half.attend(*a, mask)[1], (q @ k.T, k)),
        (lambda *a: torch_half.plain_self_attention(*a)[0], (k,)),
        (lambda *a: torch_half.plain_self_attention(*a)[1], (200 * k,)),
    ):
        half = function(*arguments)
        single = function(*(a.float() for a in arguments))
        assert half.dtype == dtype
        assert torch.equal(half, single.to(dtype))


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


GOOD = {
    "additive_scores": {
        "queries": (2, 3, 4), "keys": (2, 5, 6), "w_query": (4, 7), "w_key": (6, 7), "v": (7,),
    },
    "bilinear_scores": {"queries": (2, 3, 4), "keys": (2, 5, 6), "w": (4, 6)},
    "dot_scores": {"queries": (2, 3, 4), "keys": (2, 5, 4)},
    "attend": {"scores": (2, 3, 5), "values": (2, 5, 6)},
    "plain_self_attention": {"x": (2, 3, 4)},
}  # fmt: skip

BAD = [
    ("additive_scores", "queries", (4,), r"queries must have a shape \(..., n_q, d_q\); got \(4,"),
    ("additive_scores", "queries", (2, 0, 4), r"queries must not be empty: \(..., n_q, d_q\)"),
    ("additive_scores", "keys", (3, 5, 6), r"keys must have the leading axes of queries, \(2,\)"),
    ("additive_scores", "w_query", (7, 4), r"w_query must have the shape \(d_q, d_a\) = \(4, 7\)"),
    ("additive_scores", "w_key", (4, 7), r"w_key must have the shape \(d_k, d_a\) = \(6, 7\); got"),
    ("additive_scores", "v", (7, 1), r"v must have a shape \(d_a,\), d_a ≥ 1; got \(7, 1\)"),
    ("additive_scores", "v", (0,), r"v must have a shape \(d_a,\), d_a ≥ 1; got \(0,\)"),
    ("bilinear_scores", "w", (6, 4), r"w must have the shape \(d_q, d_k\) = \(4, 6\); got \(6, 4"),
    ("bilinear_scores", "keys", (2, 0, 6), r"keys must not be empty: \(..., n_k, d_k\)"),
    ("bilinear_scores", "queries", (3, 4), r"keys must have the leading axes of queries, \(\)"),
    ("dot_scores", "keys", (2, 5, 6), r"keys must have the width of queries, 4; got shape \(2, 5"),
    ("dot_scores", "queries", (4,), r"queries must have a shape"),
    ("attend", "scores", (5,), r"scores must have a shape \(..., n_q, n_k\); got \(5,\)"),
    ("attend", "scores", (2, 3, 0), r"scores must not be empty"),
    ("attend", "values", (2, 3, 6), r"values must have one row for each of the 5 keys; got shape"),
    ("attend", "values", (5, 6), r"values must have the leading axes of scores, \(2,\); got \(\)"),
    ("plain_self_attention", "x", (4,), r"x must have a shape \(..., n, d\); got \(4,\)"),
    ("plain_self_attention", "x", (0, 4), r"x must not be empty"),
]


@pytest.mark.parametrize(("function", "name", "shape", "message"), BAD)
def test_shapes_that_do_not_fit_are_named(
    half: Any, function: str, name: str, shape: tuple[int, ...], message: str
) -> None:
    module, ones = half
    arguments = {key: ones(*s) for key, s in GOOD[function].items()}
    getattr(module, function)(**arguments)
    with pytest.raises(ValueError, match=message):
        getattr(module, function)(**{**arguments, name: ones(*shape)})


def other_library(x: Any) -> Any:
    """Return an array as a tensor, a tensor as an array."""
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x.numpy()


@pytest.mark.parametrize(("function", "name"), [(f, n) for f, names in GOOD.items() for n in names])
def test_arguments_that_are_no_floats_or_of_another_dtype_are_named(
    half: Any, function: str, name: str
) -> None:
    module, ones = half
    arguments = {key: ones(*s) for key, s in GOOD[function].items()}
    shape = GOOD[function][name]
    for bad in (ones(*shape, dtype="int64"), arguments[name].tolist(), None):
        with pytest.raises(ValueError, match=f"^{name} must be an array of real floating-point"):
            getattr(module, function)(**{**arguments, name: bad})
    other = other_library(arguments[name])
    with pytest.raises(
        ValueError, match=rf"^{name} must be an? .*; got a {type(other).__module__}"
    ):
        getattr(module, function)(**{**arguments, name: other})
    if len(arguments) > 1:
        with pytest.raises(ValueError, match=r"must have the dtype of .*, float"):
            getattr(module, function)(**{**arguments, name: ones(*shape, dtype="float32")})


def test_a_mask_that_is_not_boolean_or_does_not_broadcast_is_named(half: Any) -> None:
    module, ones = half
    for mask in (ones(3, 5), ones(5, 3, dtype="bool"), ones(1, 2, 3, 5, dtype="bool"), [True]):
        with pytest.raises(ValueError, match=r"mask must be boolean .* to \(2, 3, 5\); got"):
            module.attend(ones(2, 3, 5), ones(2, 5, 6), mask)
    for mask in (ones(3, 3), ones(3, 4, dtype="bool")):
        with pytest.raises(ValueError, match=r"mask must be boolean .* to \(2, 3, 3\); got"):
            module.plain_self_attention(ones(2, 3, 4), mask)
    other = other_library(ones(3, 5, dtype="bool"))
    with pytest.raises(ValueError, match=r"^mask must be an? .*; got a"):
        module.attend(ones(2, 3, 5), ones(2, 5, 6), other)
