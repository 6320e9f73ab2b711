"""The numpy half of attention: its numbers, its promises, its errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import (
    causal_mask,
    entropy,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    softmax,
    softmax_backward,
    temperature_for_entropy,
)
from tests.agreement import AttentionInputs, attention_inputs, numerical_gradient

Q = K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
V = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_the_worked_example_comes_out_to_three_decimals() -> None:
    output, weights = scaled_dot_product_attention(Q, K, V)
    assert (Q @ K.T).tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 2]]
    assert weights.round(3).tolist() == [
        [0.401, 0.198, 0.401],
        [0.198, 0.401, 0.401],
        [0.248, 0.248, 0.503],
    ]
    assert output.round(3).tolist() == [[3.0, 4.0], [3.407, 4.407], [3.510, 4.510]]


def test_the_worked_example_comes_out_under_the_causal_mask() -> None:
    output, weights = scaled_dot_product_attention(Q, K, V, causal_mask(3))
    assert output.round(3).tolist() == [[1.0, 2.0], [2.340, 3.340], [3.510, 4.510]]
    assert weights[1].round(3).tolist() == [0.330, 0.670, 0.0]


@given(attention_inputs())
def test_rows_of_weights_sum_to_one_or_are_zero_where_all_is_hidden(x: AttentionInputs) -> None:
    output, weights = scaled_dot_product_attention(x.q, x.k, x.v, x.mask)
    seen = (
        np.ones(weights.shape, bool) if x.mask is None else np.broadcast_to(x.mask, weights.shape)
    )
    some = seen.any(axis=-1)
    np.testing.assert_allclose(weights.sum(axis=-1), some, atol=1e-5)
    assert (weights[~seen] == 0).all()
    assert (output[~some] == 0).all()
    assert np.isfinite(output).all()


@given(attention_inputs(), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(x: AttentionInputs, random: object) -> None:
    order = np.arange(x.k.shape[-2])
    random.shuffle(order)  # type: ignore[attr-defined]
    plain, _ = scaled_dot_product_attention(x.q, x.k, x.v)
    shuffled, _ = scaled_dot_product_attention(x.q, x.k[..., order, :], x.v[..., order, :])
    np.testing.assert_allclose(shuffled, plain, atol=20 * x.tolerance, rtol=1e-5)


@given(attention_inputs(dtypes=("float64",)))
def test_attentions_gradients_equal_finite_differences(x: AttentionInputs) -> None:
    def loss(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> float:
        return float((scaled_dot_product_attention(q, k, v, x.mask)[0] * x.d_output).sum())

    d_q, d_k, d_v = scaled_dot_product_attention_backward(x.q, x.k, x.v, x.d_output, x.mask)
    scale = max(1.0, *(np.abs(d).max() for d in (d_q, d_k, d_v)))
    for got, by_hand in (
        (d_q, numerical_gradient(lambda q: loss(q, x.k, x.v), x.q)),
        (d_k, numerical_gradient(lambda k: loss(x.q, k, x.v), x.k)),
        (d_v, numerical_gradient(lambda v: loss(x.q, x.k, v), x.v)),
    ):
        np.testing.assert_allclose(got, by_hand, atol=1e-6 * scale)


def test_softmaxs_gradient_equals_the_product_with_its_jacobian() -> None:
    rng = np.random.default_rng(0)
    scores, d_weights = rng.standard_normal((2, 3, 5))
    weights = softmax(scores)
    jacobians = [np.diag(p) - np.outer(p, p) for p in weights]
    expected = np.stack([j @ d for j, d in zip(jacobians, d_weights, strict=True)])
    np.testing.assert_allclose(softmax_backward(weights, d_weights), expected, atol=1e-12)
    by_hand = numerical_gradient(lambda s: float((softmax(s) * d_weights).sum()), scores)
    np.testing.assert_allclose(softmax_backward(weights, d_weights), by_hand, atol=1e-8)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_softmax_sums_to_one_along_the_axis_asked_for(axis: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4))
    np.testing.assert_allclose(softmax(x, axis=axis).sum(axis=axis), 1.0)


def test_softmax_is_blind_to_shifts_and_not_to_scale() -> None:
    s = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(softmax(s + 700.0), softmax(s))
    assert softmax(3 * s).max() > softmax(s).max() + 0.1


def test_softmax_of_huge_scores_neither_overflows_nor_warns() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert softmax(np.array([1e4, 1e4, -1e4])).tolist() == [0.5, 0.5, 0.0]


def test_softmax_of_a_wholly_hidden_row_is_zero_without_a_warning() -> None:
    with np.errstate(all="raise"):
        assert softmax(np.full((2, 3), -np.inf)).tolist() == [[0.0] * 3] * 2


def test_half_precision_does_not_overflow_where_raw_scores_would() -> None:
    q = np.full((2, 64), 200.0, dtype=np.float16)  # q·k = 2.56 million, above float16's 65,504
    k = np.stack([q[0], -q[0], 0 * q[0]])
    v = np.arange(6.0, dtype=np.float16).reshape(3, 2)
    with np.errstate(over="raise", invalid="raise"):
        output, weights = scaled_dot_product_attention(q, k, v)
        gradients = scaled_dot_product_attention_backward(q, k, v, output)
    assert output.dtype == weights.dtype == np.float16
    assert weights.tolist() == [[1, 0, 0]] * 2
    assert all(np.isfinite(g).all() and g.dtype == np.float16 for g in gradients)


def test_inputs_are_left_as_they_were() -> None:
    rng = np.random.default_rng(2)
    q, k, v, d_output = (rng.standard_normal((3, 3)) for _ in range(4))
    mask = causal_mask(3)
    before = [x.copy() for x in (q, k, v, d_output, mask)]
    scaled_dot_product_attention(q, k, v, mask)
    scaled_dot_product_attention_backward(q, k, v, d_output, mask)
    for was, x in zip(before, (q, k, v, d_output, mask), strict=True):
        assert (was == x).all()


def test_with_fewer_queries_than_keys_the_causal_mask_puts_the_queries_last() -> None:
    assert causal_mask(2, 4).astype(int).tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert (causal_mask(2, 4) == causal_mask(4)[2:]).all()


def test_entropy_runs_from_zero_to_the_logarithm_of_the_length() -> None:
    rows = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4])
    np.testing.assert_allclose(entropy(rows), [0.0, np.log(2), np.log(4)])


@given(st.integers(2, 8), st.floats(0.05, 0.95), st.integers(0, 1000))
def test_the_temperature_found_gives_the_entropy_asked_for(n: int, part: float, seed: int) -> None:
    scores = np.random.default_rng(seed).standard_normal(n) * 10.0 ** (seed % 5 - 2)
    target = part * np.log(n)
    t = temperature_for_entropy(scores, target)
    np.testing.assert_allclose(entropy(softmax(scores / t)), target, rtol=1e-9)


@given(st.integers(2, 8), st.integers(0, 1000))
def test_entropy_never_falls_as_the_temperature_grows(n: int, seed: int) -> None:
    scores = np.random.default_rng(seed).standard_normal(n)
    entropies = [float(entropy(softmax(scores / t))) for t in np.logspace(-2, 3, 50)]
    assert (np.diff(entropies) >= -1e-12).all()
