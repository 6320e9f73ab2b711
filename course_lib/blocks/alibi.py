"""Attention with linear biases, in PyTorch: the farther a key, the lower its score.

The formulas are those of Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear
Biases Enables Input Length Extrapolation", 2022 (arXiv:2108.12409), section 3.
"""

from __future__ import annotations

from math import floor, log2

import torch
from torch import Tensor

from course_lib.validation import check_last_queries, check_positive_int

__all__ = ["alibi_bias", "alibi_slopes"]


def alibi_slopes(n_heads: int) -> Tensor:
    """Return how much each head takes off a score for each token of distance.

    For h heads ``2^(−8/h), 2^(−16/h), …, 2^(−8)``, if h is a power of two. Otherwise those of the
    next lower power come first, and after them every other one of twice that power.

    Parameters
    ----------
    n_heads : int

    Returns
    -------
    float tensor, (n_heads,)

    Raises
    ------
    ValueError
        If `n_heads` isn't a whole number of at least 1.

    References
    ----------
    Press, Smith and Lewis, 2022 (arXiv:2108.12409), section 3; for other numbers of heads than
    powers of two, their published code.

    Examples
    --------
    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """
    check_positive_int("n_heads", n_heads)
    power = 2 ** floor(log2(n_heads))
    slopes = 2.0 ** (-8.0 * torch.arange(1, power + 1) / power)
    # For other numbers of heads: every other slope of twice that power.
    between = 2.0 ** (-4.0 * torch.arange(1, 2 * power + 1, 2) / power)
    return torch.cat([slopes, between[: n_heads - power]])


def alibi_bias(n_heads: int, n_q: int, n_k: int | None = None) -> Tensor:
    """Return what is added to the scores before the softmax.

    ``−slope · |i − j|`` for a query at position i and a key at position j. Query i stands at
    position ``n_k − n_q + i`` among the keys: with fewer queries than keys, the queries are the
    last ones, as in `causal_mask`.

    Parameters
    ----------
    n_heads : int
    n_q : int
        Number of queries.
    n_k : int, optional
        Number of keys, at least `n_q`; the same as `n_q` where left out.

    Returns
    -------
    float tensor, (n_heads, n_q, n_k)
        0 where a token looks at itself, negative elsewhere. A causal mask is applied besides.

    Raises
    ------
    ValueError
        If a number isn't a whole one of at least 1, or there are more queries than keys.

    References
    ----------
    Press, Smith and Lewis, 2022 (arXiv:2108.12409), section 3. Their models are causal, where no
    key lies after its query.

    Examples
    --------
    >>> alibi_bias(8, 3)[0]
    tensor([[ 0.0000, -0.5000, -1.0000],
            [-0.5000,  0.0000, -0.5000],
            [-1.0000, -0.5000,  0.0000]])
    """
    n_k = n_q if n_k is None else n_k
    check_last_queries(n_q, n_k)
    positions = torch.arange(n_k)
    distance = (positions[n_k - n_q :, None] - positions).abs()  # (n_q, n_k)
    return alibi_slopes(n_heads)[:, None, None] * -distance
