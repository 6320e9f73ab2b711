"""Keys and values that are kept between the steps of decoding, in numpy.

What a token's key and value are doesn't depend on the tokens behind it. They are computed once, and
each later query looks at them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from course_lib.reference.attention import causal_mask, scaled_dot_product_attention
from course_lib.reference.multi_head import merge_heads, split_heads
from course_lib.validation import check_past

__all__ = ["cached_attention"]


def cached_attention(
    x: NDArray,  # (..., n, d), the tokens that are new
    w_q: NDArray,  # (d, d)
    w_k: NDArray,  # (d, d)
    w_v: NDArray,  # (d, d)
    w_o: NDArray,  # (d, d)
    n_heads: int,
    past: tuple[NDArray, NDArray] | None = None,
) -> tuple[NDArray, tuple[NDArray, NDArray]]:
    """Let new tokens look at all that came before and at themselves.

    Parameters
    ----------
    x : float array, (..., n, d)
        The new tokens: one at a time, or a chunk of a prompt.
    w_q, w_k, w_v, w_o : float arrays, (d, d)
    n_heads : int
        h, which divides d.
    past : (keys, values), optional
        Of the tokens before, (..., h, n_past, d/h) each, as the call before returned them.

    Returns
    -------
    output : float array, (..., n, d)
        Of the new tokens.
    past : (keys, values), (..., h, n_past + n, d/h) each
        For the next call.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or `n_heads` doesn't divide d.

    References
    ----------
    Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019 (arXiv:1911.02150),
    section 2.4, "incremental" attention.

    Examples
    --------
    >>> x, w = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.eye(2)
    >>> whole, _ = cached_attention(x, w, w, w, w, n_heads=1)
    >>> _, past = cached_attention(x[:2], w, w, w, w, n_heads=1)
    >>> last, past = cached_attention(x[2:], w, w, w, w, n_heads=1, past=past)
    >>> np.allclose(last, whole[2:]), past[0].shape
    (True, (1, 3, 2))
    """
    check_past(x, (w_q, w_k, w_v, w_o), n_heads, past)
    q, k, v = (split_heads(x @ w, n_heads) for w in (w_q, w_k, w_v))
    if past is not None:
        k = np.concatenate((past[0], k), axis=-2)  # (..., h, n_past + n, d/h)
        v = np.concatenate((past[1], v), axis=-2)
    mask = causal_mask(q.shape[-2], k.shape[-2])  # key j if j ≤ n_past + i
    heads, _ = scaled_dot_product_attention(q, k, v, mask)
    return merge_heads(heads) @ w_o, (k, v)
