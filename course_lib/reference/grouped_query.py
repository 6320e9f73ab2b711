"""Grouped-query attention: several query heads share a head of keys and values, in numpy.

Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
Checkpoints", 2023 (arXiv:2305.13245). One head of keys and values for all is multi-query attention
(Shazeer, 2019, arXiv:1911.02150); one for each query head is multi-head attention.
Half-precision input is computed in single precision and returned in half, rounded once a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.reference.attention import scaled_dot_product_attention
from course_lib.reference.multi_head import merge_heads, project, split_heads
from course_lib.validation import (
    check_grouped_query_inputs,
    check_pooled,
    check_repeated,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["grouped_query_attention", "pool_kv_heads", "repeat_kv"]


def repeat_kv(x: NDArray, group_size: int) -> NDArray:
    """Repeat each head of keys or values, once for each query head it serves.

    Query head i asks the keys of head i // group_size: with two heads of keys and four of queries,
    the heads are 0, 0, 1, 1.

    Parameters
    ----------
    x : float array, (..., h_kv, n, d_k)
        Keys or values, by heads.
    group_size : int
        How many query heads share one head of keys and values, h / h_kv.

    Returns
    -------
    float array, (..., h, n, d_k)

    Raises
    ------
    ValueError
        If `x` has no axis of heads or is empty, or `group_size` isn't a whole number of at least 1.

    Examples
    --------
    >>> x = np.arange(2.0).reshape(2, 1, 1)  # two heads of one token
    >>> repeat_kv(x, 2).ravel().tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    check_repeated(x, group_size)
    return np.repeat(x, group_size, axis=-3)  # (..., h, n, d_k)


def grouped_query_attention(
    x_q: NDArray,  # (..., n_q, d)
    x_kv: NDArray,  # (..., n_k, d_kv)
    w_q: NDArray,  # (d, h d_k)
    w_k: NDArray,  # (d_kv, h_kv d_k)
    w_v: NDArray,  # (d_kv, h_kv d_v)
    w_o: NDArray,  # (h d_v, d_out)
    n_heads: int,
    n_kv_heads: int,
    mask: NDArray | None = None,
) -> tuple[NDArray, NDArray]:
    """Let h query heads attend, each to keys and values shared with its group.

    Multi-head attention with the heads of keys and values repeated: query head i asks head
    ``i // (n_heads // n_kv_heads)``. Only h_kv heads of keys and values are computed, and only they
    are kept where there is a cache.

    Parameters
    ----------
    x_q : float array, (..., n_q, d)
        The tokens that ask.
    x_kv : float array, (..., n_k, d_kv)
        The tokens that are asked.
    w_q, w_k, w_v, w_o : float arrays, (d, h d_k), (d_kv, h_kv d_k), (d_kv, h_kv d_v), (h d_v, d_out)
    n_heads : int
        h, heads of queries.
    n_kv_heads : int
        h_kv, heads of keys and values, which divides h: 1 for multi-query attention.
    mask : boolean array that broadcasts to (..., h, n_q, n_k), optional
        True where a query may look at a key.

    Returns
    -------
    output : float array, (..., n_q, d_out)
    weights : float array, (..., h, n_q, n_k)
        A query that may look at no key gets weights 0 and output 0.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, `n_kv_heads` doesn't divide
        `n_heads`, or `mask` isn't boolean.

    References
    ----------
    Ainslie et al. 2023 (arXiv:2305.13245), section 2.2; Shazeer 2019 (arXiv:1911.02150), section 3.

    Examples
    --------
    Two query heads, which ask the same keys, of one column:

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> w, w_kv = np.eye(2), np.array([[1.0], [0.0]])
    >>> output, weights = grouped_query_attention(x, x, w, w_kv, w_kv, w, n_heads=2, n_kv_heads=1)
    >>> weights.round(4)
    array([[[0.7311, 0.2689],
            [0.5   , 0.5   ]],
    <BLANKLINE>
           [[0.5   , 0.5   ],
            [0.7311, 0.2689]]])
    """  # noqa: E501
    check_grouped_query_inputs(x_q, x_kv, (w_q, w_k, w_v, w_o), n_heads, n_kv_heads)
    dtype = x_q.dtype
    x_q, x_kv, w_q, w_k, w_v, w_o = map(widen, (x_q, x_kv, w_q, w_k, w_v, w_o))
    group_size = n_heads // n_kv_heads

    q = split_heads(project(x_q, w_q), n_heads)  # (..., h, n_q, d_k)
    k = split_heads(project(x_kv, w_k), n_kv_heads)  # (..., h_kv, n_k, d_k)
    v = split_heads(project(x_kv, w_v), n_kv_heads)  # (..., h_kv, n_k, d_v)
    k, v = repeat_kv(k, group_size), repeat_kv(v, group_size)  # (..., h, n_k, ...)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    output = project(merge_heads(heads), w_o)  # (..., n_q, d_out)
    return output.astype(dtype), weights.astype(dtype)


def pool_kv_heads(w: NDArray, n_heads: int, n_kv_heads: int) -> NDArray:
    """Make the matrix of fewer heads of keys or values: each group's mean.

    What a trained multi-head model's W_K and W_V become before it is trained a little further with
    grouped queries, or with one head of keys and values.

    Parameters
    ----------
    w : float array, (d, h d_k)
        W_K or W_V, heads side by side; a bias, (h d_k,), is pooled in the same way.
    n_heads : int
        h, heads that there are.
    n_kv_heads : int
        h_kv, heads that there shall be, which divides h.

    Returns
    -------
    float array, (d, h_kv d_k)

    Raises
    ------
    ValueError
        If `w` is empty or no array of floats, its columns aren't those of h heads, or
        `n_kv_heads` doesn't divide `n_heads`.

    References
    ----------
    Ainslie et al. 2023 (arXiv:2305.13245), section 2.1 and figure 1.

    Examples
    --------
    >>> pool_kv_heads(np.array([[1.0, 3.0, 10.0, 20.0]]), n_heads=4, n_kv_heads=2)
    array([[ 2., 15.]])
    """
    check_pooled(w, n_heads, n_kv_heads)
    heads = widen(w).reshape(*w.shape[:-1], n_kv_heads, n_heads // n_kv_heads, -1)
    pooled = heads.mean(axis=-2)  # (d, h_kv, d_k)
    return pooled.reshape(*w.shape[:-1], -1).astype(w.dtype)
