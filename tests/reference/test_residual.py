"""The numpy half of residual wrappers: which input, which sum, which norm."""

from __future__ import annotations

import numpy as np

from course_lib.reference.normalization import layer_norm
from course_lib.reference.residual import post_norm, pre_norm

rng = np.random.default_rng(0)
X = 5 * rng.standard_normal((2, 3, 4)) + 1
GAMMA, BETA = rng.standard_normal((2, 4))


def test_post_norm_gives_the_sublayer_the_input_and_normalises_the_sum() -> None:
    seen = []

    def sublayer(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x**2

    output = post_norm(X, sublayer, GAMMA, BETA, eps=0.1)
    assert (seen[0] == X).all()
    np.testing.assert_allclose(output, layer_norm(X + X**2, GAMMA, BETA, 0.1), atol=1e-12)


def test_pre_norm_gives_the_sublayer_the_normalised_input_and_leaves_the_sum_alone() -> None:
    seen = []

    def sublayer(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x**2

    output = pre_norm(X, sublayer, GAMMA, BETA, eps=0.1)
    normalised = layer_norm(X, GAMMA, BETA, 0.1)
    np.testing.assert_allclose(seen[0], normalised, atol=1e-12)
    np.testing.assert_allclose(output, X + normalised**2, atol=1e-12)


def test_with_a_sublayer_that_says_nothing_pre_norm_is_the_identity_and_post_norm_is_not() -> None:
    assert (pre_norm(X, np.zeros_like, GAMMA, BETA) == X).all()
    np.testing.assert_allclose(
        post_norm(X, np.zeros_like, GAMMA, BETA), layer_norm(X, GAMMA, BETA), atol=1e-12
    )


def test_half_precision_sums_are_rounded_once() -> None:
    x = np.full((1, 2), 60000.0, dtype=np.float16)
    x[0, 1] = -60000.0
    gamma, beta = np.ones(2, dtype=np.float16), np.zeros(2, dtype=np.float16)
    with np.errstate(over="raise", invalid="raise"):
        output = post_norm(x, lambda x: x, gamma, beta)  # the sum is above float16's 65,504
    assert output.dtype == np.float16
    assert output.tolist() == [[1.0, -1.0]]
