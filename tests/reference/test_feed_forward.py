"""The numpy half of feed-forward networks: its numbers and its promises."""

from __future__ import annotations

from math import erfc, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.feed_forward import feed_forward, gelu, relu, silu, swiglu

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


def weights(d: int, d_ff: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s) for s in ((d, d_ff), (d_ff,), (d_ff, d), (d,))]


def test_a_network_written_out_token_by_token_and_neuron_by_neuron_is_the_same() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 4, 3))
    w_1, b_1, w_2, b_2 = weights(3, 5)
    output = feed_forward(x, w_1, b_1, w_2, b_2)
    for i, j in np.ndindex(2, 4):
        hidden = [max(0.0, float(x[i, j] @ w_1[:, m] + b_1[m])) for m in range(5)]
        expected = [sum(h * w for h, w in zip(hidden, w_2[:, c], strict=True)) + b_2[c]
                    for c in range(3)]  # fmt: skip
        np.testing.assert_allclose(output[i, j], expected, atol=1e-12)


@given(st.sampled_from(ACTIVATIONS), st.integers(1, 4), st.integers(0, 3))
def test_no_token_sees_another(activation: str, n: int, changed: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((4, 3))
    w = weights(3, 7)
    before = feed_forward(x, *w, activation=activation)
    other = x.copy()
    other[changed] += 1.0
    after = feed_forward(other, *w, activation=activation)
    assert (np.delete(after, changed, 0) == np.delete(before, changed, 0)).all()
    assert (after[changed] != before[changed]).any()


def test_a_bias_that_is_none_is_one_of_zeros() -> None:
    x = np.random.default_rng(2).standard_normal((4, 3))
    w_1, b_1, w_2, b_2 = weights(3, 5)
    for first, second in ((None, b_2), (b_1, None), (None, None)):
        zeros = [np.zeros_like(b) if a is None else a for a, b in ((first, b_1), (second, b_2))]
        np.testing.assert_array_equal(
            feed_forward(x, w_1, first, w_2, second), feed_forward(x, w_1, zeros[0], w_2, zeros[1])
        )


def test_gelus_exact_form_is_x_times_the_share_of_a_normal_below_x() -> None:
    x = np.linspace(-6, 6, 241)
    phi = np.array([erfc(-v / sqrt(2)) / 2 for v in x])
    np.testing.assert_allclose(gelu(x), x * phi, atol=1e-15)


def test_gelus_approximation_is_near_and_not_the_same() -> None:
    x = np.linspace(-4, 4, 801)
    gap = np.abs(gelu(x) - gelu(x, approximate="tanh")).max()
    assert 1e-4 < gap < 5e-4


def test_far_out_every_activation_is_the_identity_or_zero() -> None:
    far = np.array([-50.0, 50.0])
    for f in (relu, gelu, lambda x: gelu(x, "tanh"), silu):
        np.testing.assert_allclose(f(far), [0.0, 50.0], atol=1e-12)


def test_silu_and_gelu_fall_below_zero_and_relu_does_not() -> None:
    x = np.linspace(-10, 0, 1001)
    assert relu(x).min() == 0
    assert silu(x).min() == pytest.approx(-0.2785, abs=1e-4)
    assert gelu(x).min() == pytest.approx(-0.1700, abs=1e-4)


def test_swiglu_written_out_is_the_same_and_tells_the_gate_from_the_values() -> None:
    rng = np.random.default_rng(3)
    x, w_1, w_2, w_3 = (rng.standard_normal(s) for s in ((2, 3), (3, 5), (5, 3), (3, 5)))
    a = x @ w_1
    expected = (a / (1 + np.exp(-a)) * (x @ w_3)) @ w_2
    np.testing.assert_allclose(swiglu(x, w_1, w_2, w_3), expected, atol=1e-12)
    assert not np.allclose(swiglu(x, w_3, w_2, w_1), expected, atol=0.1)


def test_without_a_non_linearity_two_layers_would_be_one() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 6, 3))
    w = weights(3, 8)
    middle = feed_forward((x + y) / 2, *w)
    mean = (feed_forward(x, *w) + feed_forward(y, *w)) / 2
    assert np.abs(middle - mean).max() > 0.1
    w_1, b_1, w_2, b_2 = w
    # with biases so large that no ReLU is ever off, the network is linear, and one matrix does it
    np.testing.assert_allclose(
        feed_forward(x, w_1, b_1 + 1e3, w_2, b_2),
        x @ (w_1 @ w_2) + (b_1 + 1e3) @ w_2 + b_2,
        atol=1e-9,
    )


def test_half_precision_does_not_overflow_inside() -> None:
    x = np.full((2, 64), 60.0, dtype=np.float16)
    w_1 = np.full((64, 32), 30.0, dtype=np.float16)  # 115,200 inside, above float16's 65,504
    w_2 = np.full((32, 64), 1e-3, dtype=np.float16)
    zeros = [np.zeros(k, dtype=np.float16) for k in (32, 64)]
    with np.errstate(over="raise", invalid="raise"):
        for activation in ACTIVATIONS:
            output = feed_forward(x, w_1, zeros[0], w_2, zeros[1], activation)
            assert output.dtype == np.float16
            assert np.isfinite(output).all()
        cube = gelu(np.array([60.0], dtype=np.float16), "tanh")
    assert cube.tolist() == [60.0]


def test_inputs_are_left_as_they_were() -> None:
    x = np.random.default_rng(5).standard_normal((2, 3))
    w_1, b_1, w_2, b_2 = weights(3, 5)
    arrays = (x, w_1, b_1, w_2, b_2)
    before = [a.copy() for a in arrays]
    for activation in ACTIVATIONS:
        feed_forward(*arrays, activation=activation)
    swiglu(x, w_1, w_2, w_1)
    for was, a in zip(before, arrays, strict=True):
        assert (was == a).all()
