"""The numpy half of normalisation: its numbers and its promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.normalization import (
    batch_norm,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    sequence_norm,
    standardise,
)
from tests.agreement import numerical_gradient

NORMS = {"layer": layer_norm, "batch": batch_norm, "sequence": sequence_norm}


def inputs(*shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = 3 * rng.standard_normal(shape) + 2
    return x, rng.standard_normal(shape[-1]), rng.standard_normal(shape[-1])


def test_layer_norm_written_out_token_by_token_is_the_same() -> None:
    x, gamma, beta = inputs(2, 3, 4)
    output = layer_norm(x, gamma, beta, eps=0.1)
    for i, j in np.ndindex(2, 3):
        row = x[i, j]
        mean = sum(row) / 4
        variance = sum((v - mean) ** 2 for v in row) / 4  # by d, not d − 1
        expected = (row - mean) / (variance + 0.1) ** 0.5 * gamma + beta  # ε inside the root
        np.testing.assert_allclose(output[i, j], expected, atol=1e-12)


def test_rms_norm_written_out_token_by_token_is_the_same() -> None:
    x, gamma, _ = inputs(2, 3, 4)
    output = rms_norm(x, gamma, eps=0.1)
    for i, j in np.ndindex(2, 3):
        row = x[i, j]
        expected = row / (sum(v * v for v in row) / 4 + 0.1) ** 0.5 * gamma
        np.testing.assert_allclose(output[i, j], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "axes", "others"),
    [
        ("layer", -1, [(0, 1)]),  # where every token is normalised, the whole sequence is
        ("batch", (0, 1), [-1, (1, 2)]),
        ("sequence", (1, 2), [-1, (0, 1)]),
    ],
)
def test_a_norm_leaves_mean_zero_and_variance_one_over_its_own_axes_alone(
    name: str, axes: int | tuple[int, ...], others: list
) -> None:
    x, _, _ = inputs(4, 5, 6)
    y = NORMS[name](x, np.ones(6), np.zeros(6), eps=1e-12)
    np.testing.assert_allclose(y.mean(axis=axes), 0, atol=1e-10)
    np.testing.assert_allclose(y.var(axis=axes), 1, atol=1e-10)
    for other in others:
        assert np.abs(y.var(axis=other) - 1).max() > 0.05


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        # from a change in token 1 of sequence 0 to: itself, another token, another sequence
        ("layer", (True, False, False)),
        ("batch", (True, True, True)),
        ("sequence", (True, True, False)),
    ],
)
def test_what_a_tokens_output_depends_on(name: str, sees: tuple[bool, ...]) -> None:
    x, gamma, beta = inputs(2, 3, 4)
    other = x.copy()
    other[0, 1] += np.arange(4.0)
    changed = (NORMS[name](x, gamma, beta) != NORMS[name](other, gamma, beta)).any(axis=-1)
    assert (changed[0, 1], changed[0, 0], changed[1].any()) == sees


@given(st.floats(0.1, 100), st.floats(-100, 100), st.integers(0, 1000))
def test_layer_norm_is_blind_to_a_tokens_scale_and_shift_and_rms_norm_to_its_scale(
    scale: float, shift: float, seed: int
) -> None:
    x, gamma, beta = inputs(3, 8, seed=seed)
    plain = layer_norm(x, gamma, beta, eps=1e-12)
    np.testing.assert_allclose(layer_norm(scale * x + shift, gamma, beta, 1e-12), plain, atol=1e-6)
    plain = rms_norm(x, gamma, eps=1e-12)
    np.testing.assert_allclose(rms_norm(scale * x, gamma, 1e-12), plain, atol=1e-6)
    assert np.abs(rms_norm(x + 5, gamma) - plain).max() > 0.01


def test_where_the_mean_is_zero_rms_norm_is_layer_norm_without_shift() -> None:
    x, gamma, _ = inputs(3, 8)
    x = x - x.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(
        rms_norm(x, gamma, eps=1e-5), layer_norm(x, gamma, np.zeros(8), eps=1e-5), atol=1e-12
    )


def test_a_token_of_equal_features_comes_out_as_beta_without_a_warning() -> None:
    _, gamma, beta = inputs(1, 4)
    with np.errstate(all="raise"):
        assert (layer_norm(np.full((2, 4), 7.0), gamma, beta) == beta).all()
        assert (rms_norm(np.zeros((2, 4)), gamma) == 0).all()


@given(st.lists(st.integers(1, 3), max_size=3), st.integers(1, 6), st.integers(0, 10**6))
def test_layer_norms_gradients_equal_finite_differences(lead: list[int], d: int, seed: int) -> None:
    x, gamma, beta = inputs(*lead, d, seed=seed)
    upstream = np.random.default_rng(seed + 1).standard_normal(x.shape)
    eps = 0.1  # with two features that are nearly equal, a small ε has gradients of any size

    def loss(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> float:
        return float((layer_norm(x, gamma, beta, eps) * upstream).sum())

    d_x, d_gamma, d_beta = layer_norm_backward(x, gamma, upstream, eps)
    for got, by_hand in (
        (d_x, numerical_gradient(lambda a: loss(a, gamma, beta), x)),
        (d_gamma, numerical_gradient(lambda a: loss(x, a, beta), gamma)),
        (d_beta, numerical_gradient(lambda a: loss(x, gamma, a), beta)),
    ):
        np.testing.assert_allclose(got, by_hand, atol=1e-6 * max(1.0, np.abs(got).max()))


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_the_gradient_has_no_part_along_a_shift_of_the_token(d: int, seed: int) -> None:
    x, gamma, _ = inputs(3, d, seed=seed)
    d_x, _, _ = layer_norm_backward(x, gamma, np.random.default_rng(seed).standard_normal(x.shape))
    np.testing.assert_allclose(d_x.sum(axis=-1), 0, atol=1e-9 * max(1.0, np.abs(d_x).max()))


@pytest.mark.parametrize("axes", [(0,), (1,), (-1,), (0, 1), (-2, -1), (0, 1, 2)])
def test_standardising_leaves_mean_zero_and_variance_one_over_the_axes_asked_for(
    axes: tuple[int, ...],
) -> None:
    x, _, _ = inputs(3, 4, 5)
    y = standardise(x, axes, eps=1e-12)
    np.testing.assert_allclose(y.mean(axis=axes), 0, atol=1e-10)
    np.testing.assert_allclose(y.var(axis=axes), 1, atol=1e-10)


def test_half_precision_does_not_overflow_where_its_squares_would() -> None:
    x = np.array([[1000.0, -1000.0, 500.0, -500.0]], dtype=np.float16)  # a square is 1,000,000
    gamma, beta = np.ones(4, dtype=np.float16), np.zeros(4, dtype=np.float16)
    with np.errstate(over="raise", invalid="raise"):
        outputs = [layer_norm(x, gamma, beta), rms_norm(x, gamma)]
        outputs += [f(x, gamma, beta) for f in (batch_norm, sequence_norm)]
        outputs += layer_norm_backward(x, gamma, x)
    assert all(y.dtype == np.float16 and np.isfinite(y).all() for y in outputs)
    np.testing.assert_allclose(outputs[0], [[1.265, -1.265, 0.6323, -0.6323]], atol=1e-3)


def test_inputs_are_left_as_they_were() -> None:
    arrays = inputs(2, 3, 4)
    before = [a.copy() for a in arrays]
    for norm in NORMS.values():
        norm(*arrays)
    rms_norm(arrays[0], arrays[1])
    layer_norm_backward(arrays[0], arrays[1], arrays[0])
    standardise(arrays[0], (0,))
    for was, a in zip(before, arrays, strict=True):
        assert (was == a).all()
