"""Multi-head attention: heads, projections and the whole, in numpy.

The formulas are those of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762),
section 3.2.2. Weights are (d_in, d_out) and multiply from the right, as in the formulas.
Half-precision input is computed in single precision and returned in half, rounded once a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.reference.attention import scaled_dot_product_attention
from course_lib.validation import (
    check_divides,
    check_fused,
    check_heads,
    check_multi_head_inputs,
    check_projection,
    check_sequence,
    check_three,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "fuse_projections",
    "fused_projections",
    "merge_heads",
    "multi_head_attention",
    "project",
    "split_heads",
]


def split_heads(x: NDArray, n_heads: int) -> NDArray:
    """Cut every token's vector into h pieces, and bring the heads forward.

    Head i gets the columns i d/h to (i + 1) d/h − 1.

    Parameters
    ----------
    x : float array, (..., n, d)
    n_heads : int
        h, which divides d.

    Returns
    -------
    float array, (..., h, n, d/h)
        A view where that can be: no number is moved.

    Raises
    ------
    ValueError
        If `x` isn't a sequence of vectors, or `n_heads` doesn't divide their width.

    Examples
    --------
    >>> x = np.arange(8.0).reshape(2, 4)  # 2 tokens of width 4
    >>> split_heads(x, 2)
    array([[[0., 1.],
            [4., 5.]],
    <BLANKLINE>
           [[2., 3.],
            [6., 7.]]])
    """
    check_sequence("x", x, "(..., n, d)")
    check_divides("n_heads", n_heads, "the width of x", x.shape[-1])
    *leading, n, d = x.shape
    pieces = x.reshape(*leading, n, n_heads, d // n_heads)  # (..., n, h, d/h)
    return pieces.swapaxes(-3, -2)  # (..., h, n, d/h)


def merge_heads(x: NDArray) -> NDArray:
    """Put every token's pieces side by side again: the inverse of `split_heads`.

    Parameters
    ----------
    x : float array, (..., h, n, d/h)

    Returns
    -------
    float array, (..., n, d)
        A copy where the heads lie behind one another in memory.

    Raises
    ------
    ValueError
        If `x` has fewer than three axes, or is empty.

    Examples
    --------
    >>> merge_heads(split_heads(np.arange(8.0).reshape(2, 4), 2))
    array([[0., 1., 2., 3.],
           [4., 5., 6., 7.]])
    """
    check_heads("x", x)
    *leading, h, n, d_head = x.shape
    return x.swapaxes(-3, -2).reshape(*leading, n, h * d_head)  # (..., n, d)


def project(x: NDArray, w: NDArray, b: NDArray | None = None) -> NDArray:
    """Multiply every token by a matrix, and add a bias if any: ``x W + b``.

    Parameters
    ----------
    x : float array, (..., d_in)
    w : float array, (d_in, d_out)
    b : float array, (d_out,), optional

    Returns
    -------
    float array, (..., d_out)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an argument is empty.

    Examples
    --------
    >>> project(np.array([[1.0, 2.0]]), np.eye(2), np.array([10.0, 20.0]))
    array([[11., 22.]])
    """
    check_projection("x", x, "w", w, "b", b)
    y = widen(x) @ widen(w)  # (..., d_out)
    return (y if b is None else y + widen(b)).astype(x.dtype)


def fuse_projections(w_q: NDArray, w_k: NDArray, w_v: NDArray) -> NDArray:
    """Put the three matrices side by side, so that one product serves for three.

    Parameters
    ----------
    w_q, w_k, w_v : float arrays, (d_in, d_out)
        Biases, (d_out,), are put end to end in the same way.

    Returns
    -------
    float array, (d_in, 3 d_out)

    Raises
    ------
    ValueError
        If the three haven't one shape and dtype, or are empty.

    Examples
    --------
    >>> w = np.eye(2)
    >>> fuse_projections(w, 2 * w, 3 * w)
    array([[1., 0., 2., 0., 3., 0.],
           [0., 1., 0., 2., 0., 3.]])
    """
    check_fused(w_q, w_k, w_v)
    return np.concatenate((w_q, w_k, w_v), axis=-1)  # (d_in, 3 d_out)


def fused_projections(
    x: NDArray, w_qkv: NDArray, b_qkv: NDArray | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Compute queries, keys and values of self-attention by one product.

    Parameters
    ----------
    x : float array, (..., n, d_in)
    w_qkv : float array, (d_in, 3 d_out)
        From `fuse_projections`.
    b_qkv : float array, (3 d_out,), optional

    Returns
    -------
    q, k, v : float arrays, (..., n, d_out)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or the columns can't be cut in three.

    Examples
    --------
    >>> x, w = np.ones((1, 2)), np.eye(2)
    >>> q, k, v = fused_projections(x, fuse_projections(w, 2 * w, 3 * w))
    >>> v
    array([[3., 3.]])
    """
    check_sequence("x", x, "(..., n, d_in)")
    check_projection("x", x, "w_qkv", w_qkv, "b_qkv", b_qkv)
    check_three("w_qkv", w_qkv)
    q, k, v = np.split(project(x, w_qkv, b_qkv), 3, axis=-1)  # (..., n, d_out) each
    return q, k, v


def multi_head_attention(
    x_q: NDArray,  # (..., n_q, d)
    x_kv: NDArray,  # (..., n_k, d_kv)
    w_q: NDArray,  # (d, h d_k)
    w_k: NDArray,  # (d_kv, h d_k)
    w_v: NDArray,  # (d_kv, h d_v)
    w_o: NDArray,  # (h d_v, d_out)
    n_heads: int,
    mask: NDArray[np.bool_] | None = None,
    b_q: NDArray | None = None,
    b_k: NDArray | None = None,
    b_v: NDArray | None = None,
    b_o: NDArray | None = None,
) -> tuple[NDArray, NDArray]:
    """Let h heads attend, each with queries, keys and values of its own.

    ``Concat(head_1, …, head_h) W_O`` with ``head_i = Attention(X_q W_Q,i, X_kv W_K,i, X_kv W_V,i)``
    (Vaswani et al. 2017, section 3.2.2). The matrices of all heads stand side by side in `w_q`,
    `w_k` and `w_v`; each head divides its scores by the root of its own width. Self-attention where
    `x_kv` is `x_q`, cross-attention where it's another sequence.

    Parameters
    ----------
    x_q : float array, (..., n_q, d)
        The tokens that ask.
    x_kv : float array, (..., n_k, d_kv)
        The tokens that are asked.
    w_q, w_k, w_v, w_o : float arrays, (d, h d_k), (d_kv, h d_k), (d_kv, h d_v), (h d_v, d_out)
        Mostly all (d, d), with d_k = d_v = d/h.
    n_heads : int
        h.
    mask : boolean array that broadcasts to (..., h, n_q, n_k), optional
        True where a query may look at a key. One for each sequence of a batch is
        (b, 1, n_q, n_k) or (b, 1, 1, n_k).
    b_q, b_k, b_v, b_o : float arrays, (h d_k,), (h d_k,), (h d_v,), (d_out,), optional

    Returns
    -------
    output : float array, (..., n_q, d_out)
    weights : float array, (..., h, n_q, n_k)
        A query that may look at no key gets weights 0; its output is then `b_o`.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, `n_heads` doesn't divide
        the columns of `w_q` and of `w_v`, or `mask` isn't boolean.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> w = np.eye(2)
    >>> output, weights = multi_head_attention(x, x, w, w, w, w, n_heads=2)
    >>> weights.round(3)  # head 0 sees the first column alone, head 1 the second
    array([[[0.422, 0.155, 0.422],
            [0.333, 0.333, 0.333],
            [0.422, 0.155, 0.422]],
    <BLANKLINE>
           [[0.333, 0.333, 0.333],
            [0.155, 0.422, 0.422],
            [0.155, 0.422, 0.422]]])
    """
    matrices, biases = (w_q, w_k, w_v, w_o), (b_q, b_k, b_v, b_o)
    check_multi_head_inputs(x_q, x_kv, matrices, n_heads, biases)
    dtype = x_q.dtype
    x_q, x_kv, w_q, w_k, w_v, w_o = map(widen, (x_q, x_kv, *matrices))
    b_q, b_k, b_v, b_o = (b if b is None else widen(b) for b in biases)

    q = split_heads(project(x_q, w_q, b_q), n_heads)  # (..., h, n_q, d_k)
    k = split_heads(project(x_kv, w_k, b_k), n_heads)  # (..., h, n_k, d_k)
    v = split_heads(project(x_kv, w_v, b_v), n_heads)  # (..., h, n_k, d_v)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    merged = merge_heads(heads)  # (..., n_q, h d_v)
    output = project(merged, w_o, b_o)  # (..., n_q, d_out)
    return output.astype(dtype), weights.astype(dtype)
