"""The PyTorch half of rotary positions agrees with its twin and with transformers' Llama."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from course_lib.blocks import rotary as torch_half
from course_lib.reference import rotary as numpy_half
from tests.agreement import FLOATS, assert_close

NAMES = ["rotate_interleaved", "rotate_half_split"]
both = pytest.mark.parametrize("name", NAMES)
seeds = st.integers(0, 2**32 - 1)


@both
@given(
    leading=st.lists(st.integers(1, 3), max_size=3),
    n=st.integers(1, 5),
    half=st.integers(1, 5),
    rest=st.integers(0, 3),
    dtype=st.sampled_from(sorted(FLOATS)),
    per_sequence=st.booleans(),
    fractional=st.booleans(),
    seed=seeds,
)
def test_rotations_equal_their_numpy_twins(
    name: str, leading: list[int], n: int, half: int, rest: int, dtype: str, per_sequence: bool,
    fractional: bool, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((*leading, n, 2 * half + rest)).astype(dtype)
    positions = rng.integers(0, 5000, ((*leading, n) if per_sequence else (n,)))
    positions = positions / 4 if fractional else positions
    theta = numpy_half.rotary_frequencies(2 * half)
    ours = getattr(torch_half, name)(*map(torch.tensor, (x, positions, theta)))
    assert_close(ours, getattr(numpy_half, name)(x, positions, theta), FLOATS[dtype])


@given(half=st.integers(2, 40), base=st.floats(2, 1e6), factor=st.floats(1, 40),
       length=st.integers(1, 9000), original=st.integers(1, 9000))  # fmt: skip
def test_frequencies_equal_their_numpy_twins(
    half: int, base: float, factor: float, length: int, original: int
) -> None:
    d = 2 * half
    calls: dict[str, tuple[Any, ...]] = {
        "rotary_frequencies": (d, base),
        "ntk_frequencies": (d, factor, base),
        "dynamic_ntk_frequencies": (d, factor, length, original, base),
    }
    for name, args in calls.items():
        assert_close(getattr(torch_half, name)(*args), getattr(numpy_half, name)(*args), 1e-12)
    theta = torch_half.rotary_frequencies(d, base)
    assert_close(
        torch_half.linear_frequencies(theta, factor),
        numpy_half.linear_frequencies(theta.numpy(), factor),
        1e-12,
    )
    ours, scale = torch_half.yarn_frequencies(d, factor, original, base)
    theirs, other_scale = numpy_half.yarn_frequencies(d, factor, original, base)
    assert_close(ours, theirs, 1e-12)
    assert scale == other_scale


@given(st.integers(1, 40))
def test_permutations_equal_their_numpy_twins(half: int) -> None:
    ours = torch_half.half_split_permutation(2 * half)
    assert ours.tolist() == numpy_half.half_split_permutation(2 * half).tolist()


# --- against transformers ------------------------------------------------------------------------


def llama(
    d: int, base: float, trained: int, **rope: Any
) -> tuple[LlamaRotaryEmbedding, LlamaConfig]:
    """Return the rotary embedding of a Llama with heads of width d."""
    config = LlamaConfig(
        hidden_size=3 * d,
        num_attention_heads=3,
        head_dim=d,
        max_position_embeddings=trained,
        rope_parameters={"rope_theta": base, **rope},
    )
    return LlamaRotaryEmbedding(config), config


def theirs(
    embedding: LlamaRotaryEmbedding, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = embedding(q, positions)
    return apply_rotary_pos_emb(q, k, cos, sin)


def compare(
    embedding: LlamaRotaryEmbedding, theta: torch.Tensor, scale: float, last: int, seed: int
) -> None:
    """Rotate queries and keys at positions up to `last` both ways, in batches with heads."""
    torch.manual_seed(seed)
    d = 2 * len(theta)
    q, k = torch.randn(2, 3, 5, d), torch.randn(2, 3, 5, d)
    positions = torch.randint(0, last + 1, (2, 5))
    positions[0, 0] = last
    expected = theirs(embedding, q, k, positions)
    for x, right in zip((q, k), expected, strict=True):
        ours = scale * torch_half.rotate_half_split(x, positions[:, None, :], theta)
        # Theirs has its angles in float32, which at position p is off by up to p / 2**24 radians
        # for the rounded frequency and as much for the rounded product.
        assert_close(ours, right, 1e-6 + last * 2.0**-22)


widths = st.integers(2, 20).map(lambda half: 2 * half)
bases = st.sampled_from([100.0, 10000.0, 500000.0])
factors = st.sampled_from([1.0, 2.0, 4.0, 7.5])


@settings(max_examples=25, deadline=None)
@given(d=widths, base=bases, last=st.integers(0, 300), seed=seeds)
def test_rotation_equals_llamas(d: int, base: float, last: int, seed: int) -> None:
    embedding, _ = llama(d, base, 512, rope_type="default")
    compare(embedding, torch_half.rotary_frequencies(d, base), 1.0, last, seed)


@settings(max_examples=25, deadline=None)
@given(d=widths, base=bases, factor=factors, last=st.integers(0, 300), seed=seeds)
def test_position_interpolation_equals_llamas(
    d: int, base: float, factor: float, last: int, seed: int
) -> None:
    embedding, _ = llama(d, base, 64, rope_type="linear", factor=factor)
    theta = torch_half.linear_frequencies(torch_half.rotary_frequencies(d, base), factor)
    compare(embedding, theta, 1.0, last, seed)


@settings(max_examples=25, deadline=None)
@given(d=widths, base=bases, factor=factors, last=st.integers(0, 300), seed=seeds)
def test_the_growing_base_equals_llamas(
    d: int, base: float, factor: float, last: int, seed: int
) -> None:
    embedding, _ = llama(d, base, 64, rope_type="dynamic", factor=factor)
    theta = torch_half.dynamic_ntk_frequencies(d, factor, last + 1, 64, base)
    compare(embedding, theta, 1.0, last, seed)


@settings(max_examples=40, deadline=None)
@given(
    d=widths,
    base=bases,
    factor=factors,
    trained=st.sampled_from([8, 64, 512, 2048]),
    betas=st.sampled_from([(32, 1), (16, 2), (8, 0.5)]),
    last=st.integers(0, 300),
    seed=seeds,
)
def test_yarn_equals_llamas_its_attention_factor_included(
    d: int, base: float, factor: float, trained: int, betas: tuple[float, float], last: int,
    seed: int,
) -> None:  # fmt: skip
    fast, slow = betas
    embedding, _ = llama(
        d, base, int(trained * factor), rope_type="yarn", factor=factor, beta_fast=fast,
        beta_slow=slow, original_max_position_embeddings=trained,
    )  # fmt: skip
    theta, scale = torch_half.yarn_frequencies(d, factor, trained, base, fast, slow)
    assert scale == pytest.approx(embedding.attention_scaling)
    assert_close(theta.float(), embedding.inv_freq, 1e-6)
    compare(embedding, theta, scale, last, seed)


def test_a_checkpoint_with_interleaved_pairs_gives_llamas_scores_after_the_permutation() -> None:
    torch.manual_seed(0)
    d, n, n_heads = 16, 6, 3
    x, w_q, w_k = torch.randn(n, 20), torch.randn(20, n_heads * d), torch.randn(20, n_heads * d)
    theta, positions = torch_half.rotary_frequencies(d), torch.arange(n)
    p = torch_half.half_split_permutation(d)

    def heads(w: torch.Tensor) -> torch.Tensor:
        return (x @ w).view(n, n_heads, d).transpose(0, 1)

    q, k = (torch_half.rotate_interleaved(heads(w), positions, theta) for w in (w_q, w_k))

    def permuted(w: torch.Tensor) -> torch.Tensor:  # the columns of each head on their own
        return w.view(-1, n_heads, d)[:, :, p].reshape(w.shape)

    embedding, _ = llama(d, 10000.0, 64, rope_type="default")
    q_llama, k_llama = theirs(
        embedding, heads(permuted(w_q))[None], heads(permuted(w_k))[None], positions[None]
    )
    assert_close((q_llama @ k_llama.mT)[0], q @ k.mT, 1e-5)
    unpermuted = theirs(embedding, heads(w_q)[None], heads(w_k)[None], positions[None])
    assert (unpermuted[0] @ unpermuted[1].mT - q @ k.mT).abs().max() > 1.0


# --- precision and gradients ---------------------------------------------------------------------


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, rotate = torch.randn(4, 8).to(dtype), getattr(torch_half, name)
    theta, positions = torch_half.rotary_frequencies(8), torch.arange(3000, 3004)
    half = rotate(x, positions, theta)
    assert half.dtype == dtype
    assert torch.equal(half, rotate(x.float(), positions, theta).to(dtype))


@both
def test_the_gradient_turns_back(name: str) -> None:
    torch.manual_seed(0)
    rotate = getattr(torch_half, name)
    x = torch.randn(2, 5, 9, dtype=torch.float64, requires_grad=True)
    theta, positions = torch_half.rotary_frequencies(6), torch.arange(3, 8)
    upstream = torch.randn(2, 5, 9, dtype=torch.float64)
    rotate(x, positions, theta).backward(upstream)
    assert_close(x.grad, rotate(upstream, -positions, theta), 1e-12)


# --- bad input -----------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[ModuleType, Callable[..., Any]]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


BAD_CALLS = {
    "more frequencies than pairs": (
        {"x": (3, 5), "positions": (3,), "frequencies": (3,)},
        r"frequencies must have at most one for each pair of columns of x, 2; got 3",
    ),
    "frequencies of two axes": (
        {"x": (3, 4), "positions": (3,), "frequencies": (1, 2)},
        r"frequencies must have a shape \(d/2,\), d ≥ 2; got \(1, 2\)",
    ),
    "no frequency": (
        {"x": (3, 4), "positions": (3,), "frequencies": (0,)},
        r"frequencies must have a shape \(d/2,\), d ≥ 2; got \(0,\)",
    ),
    "too few positions": (
        {"x": (3, 4), "positions": (2,), "frequencies": (2,)},
        r"positions must be .* one for each of the 3 tokens, that broadcasts to \(3,\); got int64",
    ),
    "one position for all tokens": (
        {"x": (3, 4), "positions": (1,), "frequencies": (2,)},
        r"positions must be .* one for each of the 3 tokens",
    ),
    "positions of another batch": (
        {"x": (2, 3, 4), "positions": (4, 3), "frequencies": (2,)},
        r"positions must be .* that broadcasts to \(2, 3\); got int64 of shape \(4, 3\)",
    ),
    "positions of heads": (
        {"x": (2, 5, 3, 4), "positions": (2, 3), "frequencies": (2,)},
        r"positions must be .* that broadcasts to \(2, 5, 3\); got int64 of shape \(2, 3\)",
    ),
    "a vector": ({"x": (4,), "positions": (1,), "frequencies": (2,)}, r"x must have a shape"),
    "no token": ({"x": (0, 4), "positions": (0,), "frequencies": (2,)}, r"x must not be empty"),
}


@both
@pytest.mark.parametrize("case", BAD_CALLS)
def test_shapes_that_do_not_fit_are_named(half: Any, name: str, case: str) -> None:
    module, ones = half
    shapes, message = BAD_CALLS[case]
    arrays = {
        key: ones(*s, dtype="int64" if key == "positions" else "float64")
        for key, s in shapes.items()
    }
    with pytest.raises(ValueError, match=message):
        getattr(module, name)(**arrays)


@both
def test_dtypes_that_do_not_fit_are_named(half: Any, name: str) -> None:
    module, ones = half
    rotate, positions = getattr(module, name), ones(3, dtype="int64")
    with pytest.raises(ValueError, match="x must be an array of real floating-point numbers"):
        rotate(ones(3, 4, dtype="int64"), positions, ones(2))
    with pytest.raises(ValueError, match="frequencies must be an array of real floating-point"):
        rotate(ones(3, 4), positions, ones(2, dtype="int64"))
    for wrong in (ones(3, dtype="bool"), ones(3, dtype="complex64"), [0, 1, 2], 3, None):
        with pytest.raises(ValueError, match="positions must be an array of real numbers, one"):
            rotate(ones(3, 4), wrong, ones(2))
    other = torch.arange(3) if module is numpy_half else np.arange(3)
    with pytest.raises(ValueError, match="positions must be a"):
        rotate(ones(3, 4), other, ones(2))


@pytest.mark.parametrize("d", [0, -2, 3, 4.0, True, "4", None])
def test_a_width_that_is_not_even_is_named(half: Any, d: object) -> None:
    module, _ = half
    for call in (
        lambda: module.rotary_frequencies(d),
        lambda: module.half_split_permutation(d),
        lambda: module.ntk_frequencies(d, 2.0),
        lambda: module.dynamic_ntk_frequencies(d, 2.0, 8, 4),
        lambda: module.yarn_frequencies(d, 2.0, 64),
    ):
        with pytest.raises(ValueError, match="d must be an even whole number of at least 2; got"):
            call()


def test_a_base_can_not_be_raised_for_a_single_pair(half: Any) -> None:
    module, _ = half
    with pytest.raises(ValueError, match="d must be a whole number of at least 4; got 2"):
        module.ntk_frequencies(2, 4.0)


@pytest.mark.parametrize("factor", [0.5, 0, -1, float("nan"), float("inf"), True, "2", None])
def test_a_factor_below_one_is_named(half: Any, factor: object) -> None:
    module, ones = half
    for call in (
        lambda: module.linear_frequencies(ones(4), factor),
        lambda: module.ntk_frequencies(8, factor),
        lambda: module.dynamic_ntk_frequencies(8, factor, 8, 4),
        lambda: module.yarn_frequencies(8, factor, 64),
    ):
        with pytest.raises(ValueError, match="factor must be a number of at least 1; got"):
            call()


def test_bases_lengths_and_turns_that_make_no_sense_are_named(half: Any) -> None:
    module, _ = half
    for base in (1, 0.0, -10.0, float("nan"), "10000"):
        for call in (
            lambda b: module.rotary_frequencies(8, b),
            lambda b: module.ntk_frequencies(8, 2.0, b),
            lambda b: module.yarn_frequencies(8, 2.0, 64, b),
        ):
            with pytest.raises(ValueError, match="base must be a number above 1; got"):
                call(base)
    for bad in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=r"^length must be a whole number of at least 1; got"):
            module.dynamic_ntk_frequencies(8, 2.0, bad, 4)
        with pytest.raises(ValueError, match="original_length must be a whole number of at least"):
            module.dynamic_ntk_frequencies(8, 2.0, 4, bad)
        with pytest.raises(ValueError, match="original_length must be a whole number of at least"):
            module.yarn_frequencies(8, 2.0, bad)
    with pytest.raises(ValueError, match="beta_slow must be a number above 0; got 0"):
        module.yarn_frequencies(8, 2.0, 64, beta_slow=0)
    with pytest.raises(ValueError, match="beta_fast must be a number above 1; got 1"):
        module.yarn_frequencies(8, 2.0, 64, beta_fast=1)


def test_no_call_of_the_two_halves_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, positions, theta = torch.randn(3, 4), torch.arange(3), torch_half.rotary_frequencies(4)
        for name in NAMES:
            getattr(torch_half, name)(x, positions, theta)
            getattr(numpy_half, name)(x.numpy(), positions.numpy(), theta.numpy())
        for module in (torch_half, numpy_half):
            module.yarn_frequencies(8, 4.0, 1)
            module.dynamic_ntk_frequencies(8, 4.0, 10, 3)
