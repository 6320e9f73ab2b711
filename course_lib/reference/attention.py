"""Softmax, scaled dot-product attention and their gradients, in numpy.

The formulas are those of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762),
section 3.2.1.
Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.validation import (
    check_attention_inputs,
    check_axis,
    check_float,
    check_positive_int,
    check_shape,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "causal_mask",
    "entropy",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_backward",
    "softmax",
    "softmax_backward",
    "temperature_for_entropy",
]


def softmax(x: NDArray, axis: int = -1) -> NDArray:
    """Turn scores into weights along `axis`, none negative, with the sum 1.

    ``softmax(x)_i = exp(x_i) / sum_j exp(x_j)``, computed after subtracting the maximum, so that no
    exponential overflows.

    Parameters
    ----------
    x : float array of any shape
        Scores. −∞ gives the weight 0.
    axis : int, default -1
        The axis whose weights sum to 1.

    Returns
    -------
    float array of the shape and dtype of `x`
        Where all scores along `axis` are −∞ the weights are all 0.

    Raises
    ------
    ValueError
        If `x` is not floating-point, or `axis` is not one of its axes, or is empty.

    References
    ----------
    Bridle, "Probabilistic Interpretation of Feedforward Classification Network Outputs", 1990.

    Examples
    --------
    >>> softmax(np.array([0.0, 0.0, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    check_float("x", x)
    check_axis("x", x, axis)
    wide = widen(x)
    peak = wide.max(axis=axis, keepdims=True)
    # Where all is hidden the peak is −∞: with 0 in its place, exp(−∞ − 0) is 0.
    peak = np.where(peak == -np.inf, 0.0, peak).astype(wide.dtype)
    exps = np.exp(wide - peak)
    total = exps.sum(axis=axis, keepdims=True)
    return (exps / np.where(total == 0.0, 1.0, total)).astype(x.dtype)


def scaled_dot_product_attention(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> tuple[NDArray, NDArray]:
    """Answer every query with a weighted mean of the values.

    ``softmax(Q Kᵀ / √d_k) V`` (Vaswani et al. 2017, equation 1).

    Parameters
    ----------
    q : float array, (..., n_q, d_k)
        Queries.
    k : float array, (..., n_k, d_k)
        Keys.
    v : float array, (..., n_k, d_v)
        Values.
    mask : boolean array that broadcasts to (..., n_q, n_k), optional
        True where a query may look at a key.

    Returns
    -------
    output : float array, (..., n_q, d_v)
    weights : float array, (..., n_q, n_k)
        Each row sums to 1. A query that may look at no key gets weights 0 and output 0.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, or `mask` isn't boolean.

    Examples
    --------
    >>> q = k = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> scaled_dot_product_attention(q, k, v)[0].round(3)
    array([[3.   , 4.   ],
           [3.407, 4.407],
           [3.51 , 4.51 ]])
    """
    check_attention_inputs(q, k, v, mask)
    d_k = q.shape[-1]
    scores = widen(q) @ widen(k).swapaxes(-2, -1) / sqrt(d_k)  # (..., n_q, n_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)  # (..., n_q, n_k)
    output = weights @ widen(v)  # (..., n_q, d_v)
    return output.astype(v.dtype), weights.astype(q.dtype)


def softmax_backward(weights: NDArray, d_weights: NDArray) -> NDArray:
    """Carry a gradient from softmax's weights back to its scores.

    With p = softmax(s) along the last axis: ``∂L/∂s_i = p_i (∂L/∂p_i − Σ_j p_j ∂L/∂p_j)``, the
    product with softmax's Jacobian ``diag(p) − p pᵀ``.

    Parameters
    ----------
    weights : float array, (..., n)
        What softmax returned.
    d_weights : float array, (..., n)
        Gradient of the loss with respect to `weights`.

    Returns
    -------
    float array, (..., n)
        Gradient with respect to the scores; each row sums to 0.

    Raises
    ------
    ValueError
        If the two shapes differ, or the last axis is empty.

    Examples
    --------
    >>> softmax_backward(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    array([ 0.25, -0.25])
    """
    check_float("weights", weights)
    check_axis("weights", weights, -1)
    check_float("d_weights", d_weights)
    check_shape("d_weights", d_weights, "weights", weights.shape)
    p, dp = widen(weights), widen(d_weights)
    return (p * (dp - (p * dp).sum(axis=-1, keepdims=True))).astype(weights.dtype)


def scaled_dot_product_attention_backward(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Carry a gradient from attention's output back to q, k and v.

    With P = softmax(S), S = Q Kᵀ / √d_k and O = P V: ``dV = Pᵀ dO``, ``dP = dO Vᵀ``, dS by
    `softmax_backward`, ``dQ = dS K / √d_k`` and ``dK = dSᵀ Q / √d_k``.

    Parameters
    ----------
    q, k, v, mask
        As given to `scaled_dot_product_attention`.
    d_output : float array, (..., n_q, d_v)
        Gradient of the loss with respect to the output.

    Returns
    -------
    d_q, d_k, d_v : float arrays with the shapes of q, k and v

    Raises
    ------
    ValueError
        As `scaled_dot_product_attention`, and if `d_output` hasn't the output's shape.

    References
    ----------
    Dao et al., "FlashAttention", 2022 (arXiv:2205.14135), appendix B.2.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> d_q, d_k, d_v = scaled_dot_product_attention_backward(one, one, one, one)
    >>> float(d_q[0, 0]), float(d_v[0, 0])
    (0.0, 1.0)
    """
    check_attention_inputs(q, k, v, mask)
    check_float("d_output", d_output)
    check_shape("d_output", d_output, "the output", (*q.shape[:-1], v.shape[-1]))
    scale = 1.0 / sqrt(q.shape[-1])
    wide_q, wide_k, wide_v, d_out = map(widen, (q, k, v, d_output))
    _, weights = scaled_dot_product_attention(wide_q, wide_k, wide_v, mask)
    d_v = weights.swapaxes(-2, -1) @ d_out  # (..., n_k, d_v)
    d_weights = d_out @ wide_v.swapaxes(-2, -1)  # (..., n_q, n_k)
    d_scores = softmax_backward(weights, d_weights)  # 0 where the weight is 0
    d_q = d_scores @ wide_k * scale  # (..., n_q, d_k)
    d_k = d_scores.swapaxes(-2, -1) @ wide_q * scale  # (..., n_k, d_k)
    return d_q.astype(q.dtype), d_k.astype(k.dtype), d_v.astype(v.dtype)


def causal_mask(n_q: int, n_k: int | None = None) -> NDArray[np.bool_]:
    """Return the mask under which a token sees itself and what came before it.

    Query i stands at position ``n_k − n_q + i`` among the keys: with fewer queries than keys, the
    queries are the last ones.

    Parameters
    ----------
    n_q : int
        Number of queries.
    n_k : int, optional
        Number of keys, at least `n_q`; the same as `n_q` where left out.

    Returns
    -------
    boolean array, (n_q, n_k)
        True where the query may look at the key.

    Raises
    ------
    ValueError
        If a length is not a whole number of at least 1, or there are more queries than keys.

    References
    ----------
    Vaswani et al. 2017, section 3.2.3.

    Examples
    --------
    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    n_k = n_q if n_k is None else n_k
    check_positive_int("n_q", n_q)
    check_positive_int("n_k", n_k)
    if n_k < n_q:
        raise ValueError(f"n_k must be at least n_q = {n_q}; got {n_k}")
    return np.tri(n_q, n_k, k=n_k - n_q, dtype=bool)


def entropy(weights: NDArray) -> NDArray:
    """Return the entropy of each row of weights, in nats.

    ``H(p) = −Σ_i p_i ln p_i``, where a weight of 0 adds 0: between 0 (all on one) and ln n (all
    equal).

    Parameters
    ----------
    weights : float array, (..., n)
        Rows of weights that sum to 1.

    Returns
    -------
    float array, (...)

    Raises
    ------
    ValueError
        If `weights` is not floating-point, or its last axis is empty.

    References
    ----------
    Shannon, "A Mathematical Theory of Communication", 1948.

    Examples
    --------
    >>> float(entropy(np.full(4, 0.25)).round(4))
    1.3863
    """
    check_float("weights", weights)
    check_axis("weights", weights, -1)
    p = widen(weights)
    return -(p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=-1).astype(weights.dtype)


def temperature_for_entropy(scores: NDArray, target: float) -> float:
    """Find the temperature t at which ``softmax(scores / t)`` has the entropy `target`.

    The entropy never falls as t grows, so halving an interval in log t finds it.

    Parameters
    ----------
    scores : float array, (n,)
        Finite scores, not all equal.
    target : float
        Entropy in nats, above ln m (m scores share the maximum) and below ln n.

    Returns
    -------
    float
        The temperature, as exactly as the entropy can be told apart in float64.

    Raises
    ------
    ValueError
        If `scores` is not one row of finite, unequal scores, or no temperature gives `target`.

    Examples
    --------
    >>> t = temperature_for_entropy(np.array([0.0, 1.0, 2.0]), 0.8)
    >>> float(entropy(softmax(np.array([0.0, 1.0, 2.0]) / t)).round(6))
    0.8
    """
    check_float("scores", scores)
    s = scores.astype(np.float64)
    if s.ndim != 1 or not np.isfinite(s).all() or s.min() == s.max():
        raise ValueError(
            f"scores must be one row of finite scores that are not all equal; got {scores!r}"
        )
    lowest, highest = log(np.sum(s == s.max())), log(len(s))
    if not lowest < target < highest:
        raise ValueError(
            f"target must lie between {lowest:.4f} and {highest:.4f} for these scores; "
            f"got {target!r}"
        )
    spread = float(s.max() - s.min())
    cold, hot = log(spread * 1e-12), log(spread * 1e12)
    for _ in range(200):
        middle = (cold + hot) / 2
        if entropy(softmax(s / exp(middle))) < target:
            cold = middle
        else:
            hot = middle
    return exp((cold + hot) / 2)
