"""Softmax, scaled dot-product attention and their gradients, in PyTorch.

The formulas are those of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762),
section 3.2.1.
Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

from math import exp, log, sqrt

import torch
from torch import Tensor

from course_lib.precision import widen
from course_lib.validation import (
    check_attention_inputs,
    check_axis,
    check_float,
    check_positive_int,
    check_shape,
)

__all__ = [
    "causal_mask",
    "entropy",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_backward",
    "softmax",
    "softmax_backward",
    "temperature_for_entropy",
]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Turn scores into weights along `axis`, none negative, with the sum 1.

    ``softmax(x)_i = exp(x_i) / sum_j exp(x_j)``, computed after subtracting the maximum, so that no
    exponential overflows.

    Parameters
    ----------
    x : float tensor of any shape
        Scores. −∞ gives the weight 0.
    axis : int, default -1
        The axis whose weights sum to 1.

    Returns
    -------
    float tensor of the shape and dtype of `x`
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
    >>> softmax(torch.tensor([0.0, 0.0, -torch.inf]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    check_float("x", x)
    check_axis("x", x, axis)
    wide = widen(x)
    peak = wide.amax(dim=axis, keepdim=True).detach()  # a shift has no gradient
    # Where all is hidden the peak is −∞: with 0 in its place, exp(−∞ − 0) is 0.
    peak = peak.masked_fill(peak == -torch.inf, 0.0)
    exps = torch.exp(wide - peak)
    total = exps.sum(dim=axis, keepdim=True)
    return (exps / total.masked_fill(total == 0.0, 1.0)).to(x.dtype)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Answer every query with a weighted mean of the values.

    ``softmax(Q Kᵀ / √d_k) V`` (Vaswani et al. 2017, equation 1).

    Parameters
    ----------
    q : float tensor, (..., n_q, d_k)
        Queries.
    k : float tensor, (..., n_k, d_k)
        Keys.
    v : float tensor, (..., n_k, d_v)
        Values.
    mask : boolean tensor that broadcasts to (..., n_q, n_k), optional
        True where a query may look at a key.

    Returns
    -------
    output : float tensor, (..., n_q, d_v)
    weights : float tensor, (..., n_q, n_k)
        Each row sums to 1. A query that may look at no key gets weights 0 and output 0.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, or `mask` isn't boolean.

    Examples
    --------
    >>> q = k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> scaled_dot_product_attention(q, k, v)[0]
    tensor([[3.0000, 4.0000],
            [3.4067, 4.4067],
            [3.5105, 4.5105]])
    """
    check_attention_inputs(q, k, v, mask)
    d_k = q.shape[-1]
    scores = widen(q) @ widen(k).transpose(-2, -1) / sqrt(d_k)  # (..., n_q, n_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = softmax(scores)  # (..., n_q, n_k)
    output = weights @ widen(v)  # (..., n_q, d_v)
    return output.to(v.dtype), weights.to(q.dtype)


def softmax_backward(weights: Tensor, d_weights: Tensor) -> Tensor:
    """Carry a gradient from softmax's weights back to its scores.

    With p = softmax(s) along the last axis: ``∂L/∂s_i = p_i (∂L/∂p_i − Σ_j p_j ∂L/∂p_j)``, the
    product with softmax's Jacobian ``diag(p) − p pᵀ``.

    Parameters
    ----------
    weights : float tensor, (..., n)
        What softmax returned.
    d_weights : float tensor, (..., n)
        Gradient of the loss with respect to `weights`.

    Returns
    -------
    float tensor, (..., n)
        Gradient with respect to the scores; each row sums to 0.

    Raises
    ------
    ValueError
        If the two shapes differ, or the last axis is empty.

    Examples
    --------
    >>> softmax_backward(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    tensor([ 0.2500, -0.2500])
    """
    check_float("weights", weights)
    check_axis("weights", weights, -1)
    check_float("d_weights", d_weights)
    check_shape("d_weights", d_weights, "weights", weights.shape)
    p, dp = widen(weights), widen(d_weights)
    return (p * (dp - (p * dp).sum(dim=-1, keepdim=True))).to(weights.dtype)


def scaled_dot_product_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, d_output: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Carry a gradient from attention's output back to q, k and v.

    With P = softmax(S), S = Q Kᵀ / √d_k and O = P V: ``dV = Pᵀ dO``, ``dP = dO Vᵀ``, dS by
    `softmax_backward`, ``dQ = dS K / √d_k`` and ``dK = dSᵀ Q / √d_k``.

    Parameters
    ----------
    q, k, v, mask
        As given to `scaled_dot_product_attention`.
    d_output : float tensor, (..., n_q, d_v)
        Gradient of the loss with respect to the output.

    Returns
    -------
    d_q, d_k, d_v : float tensors with the shapes of q, k and v

    Raises
    ------
    ValueError
        As `scaled_dot_product_attention`, and if `d_output` hasn't the output's shape.

    References
    ----------
    Dao et al., "FlashAttention", 2022 (arXiv:2205.14135), appendix B.2.

    Examples
    --------
    >>> one = torch.ones(1, 1)
    >>> d_q, d_k, d_v = scaled_dot_product_attention_backward(one, one, one, one)
    >>> d_q.item(), d_v.item()
    (0.0, 1.0)
    """
    check_attention_inputs(q, k, v, mask)
    check_float("d_output", d_output)
    check_shape("d_output", d_output, "the output", (*q.shape[:-1], v.shape[-1]))
    scale = 1.0 / sqrt(q.shape[-1])
    wide_q, wide_k, wide_v, d_out = map(widen, (q, k, v, d_output))
    _, weights = scaled_dot_product_attention(wide_q, wide_k, wide_v, mask)
    d_v = weights.transpose(-2, -1) @ d_out  # (..., n_k, d_v)
    d_weights = d_out @ wide_v.transpose(-2, -1)  # (..., n_q, n_k)
    d_scores = softmax_backward(weights, d_weights)  # 0 where the weight is 0
    d_q = d_scores @ wide_k * scale  # (..., n_q, d_k)
    d_k = d_scores.transpose(-2, -1) @ wide_q * scale  # (..., n_k, d_k)
    return d_q.to(q.dtype), d_k.to(k.dtype), d_v.to(v.dtype)


def causal_mask(n_q: int, n_k: int | None = None) -> Tensor:
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
    boolean tensor, (n_q, n_k)
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
    >>> causal_mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    n_k = n_q if n_k is None else n_k
    check_positive_int("n_q", n_q)
    check_positive_int("n_k", n_k)
    if n_k < n_q:
        raise ValueError(f"n_k must be at least n_q = {n_q}; got {n_k}")
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_k - n_q)


def entropy(weights: Tensor) -> Tensor:
    """Return the entropy of each row of weights, in nats.

    ``H(p) = −Σ_i p_i ln p_i``, where a weight of 0 adds 0: between 0 (all on one) and ln n (all
    equal).

    Parameters
    ----------
    weights : float tensor, (..., n)
        Rows of weights that sum to 1.

    Returns
    -------
    float tensor, (...)

    Raises
    ------
    ValueError
        If `weights` is not floating-point, or its last axis is empty.

    References
    ----------
    Shannon, "A Mathematical Theory of Communication", 1948.

    Examples
    --------
    >>> entropy(torch.full((4,), 0.25))
    tensor(1.3863)
    """
    check_float("weights", weights)
    check_axis("weights", weights, -1)
    p = widen(weights)
    return -(p * torch.log(p.masked_fill(p <= 0.0, 1.0))).sum(dim=-1).to(weights.dtype)


def temperature_for_entropy(scores: Tensor, target: float) -> float:
    """Find the temperature t at which ``softmax(scores / t)`` has the entropy `target`.

    The entropy never falls as t grows, so halving an interval in log t finds it.

    Parameters
    ----------
    scores : float tensor, (n,)
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
    >>> t = temperature_for_entropy(torch.tensor([0.0, 1.0, 2.0]), 0.8)
    >>> entropy(softmax(torch.tensor([0.0, 1.0, 2.0]) / t))
    tensor(0.8000)
    """
    check_float("scores", scores)
    s = scores.detach().double()
    if s.ndim != 1 or not s.isfinite().all() or s.min() == s.max():
        raise ValueError(
            f"scores must be one row of finite scores that are not all equal; got {scores!r}"
        )
    lowest, highest = log((s == s.max()).sum()), log(len(s))
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
