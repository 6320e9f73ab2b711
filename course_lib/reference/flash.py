"""Attention tile by tile, without a table of all scores, in numpy.

Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022
(arXiv:2205.14135). The result is that of `attention.scaled_dot_product_attention`; the memory grows
with the length, not with its square. Half-precision input is computed in single precision and
returned in half, but for the logarithms of sums, which stay in single.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.reference.grouped_query import repeat_kv
from course_lib.validation import (
    check_partials,
    check_softmax_state,
    check_tiled_gradient,
    check_tiled_inputs,
    check_tiles,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "flash_attention",
    "flash_attention_backward",
    "merge_partials",
    "online_softmax_update",
    "visible_tiles",
]


def online_softmax_update(
    m: NDArray,  # (..., n_q)
    l: NDArray,  # (..., n_q)
    o: NDArray,  # (..., n_q, d_v)
    scores: NDArray,  # (..., n_q, b)
    values: NDArray,  # (..., b, d_v)
) -> tuple[NDArray, NDArray, NDArray]:
    """Take more scores and values into a softmax that has begun.

    What is kept of all scores so far is their maximum m, the sum ``l = Σ e^(s − m)`` and the
    weighted sum ``o = Σ e^(s − m) v``. Where the maximum rises, what there is is scaled down by
    ``e^(m_old − m_new)``. Attention's output is ``o / l``.

    Parameters
    ----------
    m : float array, (..., n_q)
        Largest score so far; −∞ at the start.
    l : float array, (..., n_q)
        Sum of exponentials; 0 at the start.
    o : float array, (..., n_q, d_v)
        Sum of values, each times its exponential; 0 at the start.
    scores : float array, (..., n_q, b)
        The next b scores of every query; −∞ where it may not look.
    values : float array, (..., b, d_v)

    Returns
    -------
    m, l, o : float arrays of the same shapes
        The old ones are left as they are.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or something is empty.

    References
    ----------
    Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867),
    algorithm 3; Dao et al. 2022, algorithm 1.

    Examples
    --------
    >>> m, l, o = np.array([-np.inf]), np.zeros(1), np.zeros((1, 1))
    >>> for score, value in ((0.0, 1.0), (2.0, 5.0)):
    ...     m, l, o = online_softmax_update(
    ...         m, l, o, np.array([[score]]), np.array([[value]])
    ...     )
    >>> from course_lib.reference.attention import softmax
    >>> weights = softmax(np.array([0.0, 2.0]))
    >>> round((o / l[:, None]).item(), 4), round((weights @ np.array([1.0, 5.0])).item(), 4)
    (4.5232, 4.5232)
    """
    check_softmax_state(m, l, o, scores, values)
    dtype = m.dtype
    m, l, o, scores, values = map(widen, (m, l, o, scores, values))
    new_m = np.maximum(m, scores.max(axis=-1))  # (..., n_q)
    # Nothing seen: the maximum is −∞; with 0 in its place, exp(−∞ − 0) is 0.
    shift = np.where(new_m == -np.inf, 0.0, new_m).astype(m.dtype)
    shrink = np.exp(m - shift)  # (..., n_q)
    exps = np.exp(scores - shift[..., None])  # (..., n_q, b)
    l = l * shrink + exps.sum(axis=-1)
    o = o * shrink[..., None] + exps @ values  # (..., n_q, d_v)
    return new_m.astype(dtype), l.astype(dtype), o.astype(dtype)


def merge_partials(
    output_a: NDArray, lse_a: NDArray, output_b: NDArray, lse_b: NDArray
) -> tuple[NDArray, NDArray]:
    """Merge what queries got from two parts of the keys into what both give.

    With ``lse = log Σ e^s`` over a part's scores, the whole's sum of exponentials is
    ``e^lse_a + e^lse_b``, and each output counts as its part of it.

    Parameters
    ----------
    output_a, output_b : float arrays, (..., n_q, d_v)
    lse_a, lse_b : float arrays, (..., n_q)
        −∞ where a query may look at none of a part's keys.

    Returns
    -------
    output : float array, (..., n_q, d_v)
        0 where a query may look at no key of either part.
    lse : float array, (..., n_q)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together.

    References
    ----------
    Dao et al. 2022, section 3.1, on blocks of a softmax.

    Examples
    --------
    Three keys of equal score on one side and one on the other:

    >>> one = np.ones((1, 1))
    >>> output, lse = merge_partials(1 * one, np.log(np.array([3.0])), 9 * one, np.zeros(1))
    >>> output.item(), round(np.exp(lse).item(), 4)
    (3.0, 4.0)
    """
    check_partials(output_a, lse_a, output_b, lse_b)
    a, b = widen(lse_a), widen(lse_b)
    shift = np.maximum(a, b)
    shift = np.where(shift == -np.inf, 0.0, shift).astype(a.dtype)
    a, b = np.exp(a - shift), np.exp(b - shift)  # (..., n_q)
    nothing = a + b == 0.0
    total = np.where(nothing, 1.0, a + b).astype(a.dtype)
    a, b = (a / total)[..., None], (b / total)[..., None]  # (..., n_q, 1)
    output = a * widen(output_a) + b * widen(output_b)
    lse = np.where(nothing, -np.inf, shift + np.log(total))
    return output.astype(output_a.dtype), lse.astype(lse_a.dtype)


def visible_tiles(
    n_q: int, n_k: int, block_q: int, block_k: int, causal: bool = False
) -> list[tuple[int, int]]:
    """Return which tiles of the table of scores have an entry that may be seen.

    Tile (i, j) holds the queries from ``i block_q`` and the keys from ``j block_k`` on. Under a
    causal mask, tiles that lie whole above the diagonal are left out.

    Parameters
    ----------
    n_q, n_k : int
        Numbers of queries and of keys. As in `causal_mask`, the queries are the last of the tokens.
    block_q, block_k : int
        Rows and columns of a tile; the last tiles may be smaller.
    causal : bool, default False

    Returns
    -------
    list of (i, j)
        Row by row.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, `causal` isn't True or False, or there are
        more queries than keys where it is True.

    Examples
    --------
    >>> visible_tiles(4, 4, 2, 2, causal=True)
    [(0, 0), (1, 0), (1, 1)]
    >>> len(visible_tiles(1024, 1024, 64, 64)), len(visible_tiles(1024, 1024, 64, 64, causal=True))
    (256, 136)
    """
    check_tiles(n_q, n_k, block_q, block_k, causal)
    tiles = []
    for i, start in enumerate(range(0, n_q, block_q)):
        last = min(start + block_q, n_q) - 1  # the query of the tile that sees most
        seen = last + (n_k - n_q) + 1 if causal else n_k  # keys, up to its own
        tiles += [(i, j) for j in range(-(-seen // block_k))]  # rounded up
    return tiles


def flash_attention(
    q: NDArray,  # (..., h, n_q, d_k)
    k: NDArray,  # (..., h_kv, n_k, d_k)
    v: NDArray,  # (..., h_kv, n_k, d_v)
    mask: NDArray | None = None,
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[NDArray, NDArray]:
    """Answer every query with a weighted mean of the values, tile by tile.

    The output is that of ``scaled_dot_product_attention``, not an approximation. At any time there
    is one tile of scores; for backward, only the result is kept beside q, k and v, and tiles are
    computed again.

    Parameters
    ----------
    q : float array, (..., n_q, d_k)
        Queries.
    k, v : float arrays, (..., n_k, d_k) and (..., n_k, d_v)
        Keys and values. They may have fewer heads (the axis before the last two) than there are of
        queries, if these are a multiple: query head i then asks head ``i // (h // h_kv)``.
    mask : boolean array that broadcasts to (..., n_q, n_k), optional
        True where a query may look at a key.
    causal : bool, default False
        Whether, besides, a query may look no further than at its own token; the queries are the
        last of the tokens, as in `causal_mask`. Tiles that are hidden whole cost nothing.
    block_q, block_k : int, default 64
        Rows and columns of a tile. No result depends on them but for rounding.

    Returns
    -------
    output : float array, (..., n_q, d_v)
    lse : float array, (..., n_q)
        ``log Σ_j e^(s_ij)`` over the scores of each row, in single precision at least. A query that
        may look at no key gets output 0 and −∞ here.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, `mask` isn't boolean, a
        block isn't a whole number of at least 1, or `causal` isn't True or False.

    References
    ----------
    Dao et al. 2022, algorithm 1. Here as in FlashAttention-2 (Dao, 2023, arXiv:2307.08691) the
    outer loop is that over queries, and the division comes once, at the end.

    Examples
    --------
    >>> q = k = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> flash_attention(q, k, v, block_q=2, block_k=1)[0].round(3)
    array([[3.   , 4.   ],
           [3.407, 4.407],
           [3.51 , 4.51 ]])
    """
    check_tiled_inputs(q, k, v, mask, causal, block_q, block_k)
    n_q, n_k, dtype = q.shape[-2], k.shape[-2], q.dtype
    g = _group_size(q, k)
    mask = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], n_k))
    q, k, v = map(widen, (q, k, v))
    output = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = np.zeros(q.shape[:-1], q.dtype)
    for rows, strip in _strips(n_q, n_k, block_q, block_k, causal):
        queries = q[..., rows, :]  # (..., b_q, d_k)
        m = np.full_like(lse[..., rows], -np.inf)
        l, o = np.zeros_like(m), np.zeros_like(output[..., rows, :])
        for columns in strip:
            keys, values = (_repeated(x[..., columns, :], g) for x in (k, v))
            scores = _tile(queries, keys, rows, columns, n_k - n_q, mask, causal)
            m, l, o = online_softmax_update(m, l, o, scores, values)
        l = np.where(l == 0.0, 1.0, l).astype(l.dtype)  # nothing seen: o is 0 and m is −∞
        output[..., rows, :] = o / l[..., None]
        lse[..., rows] = m + np.log(l)
    return output.astype(dtype), lse


def flash_attention_backward(
    q: NDArray,
    k: NDArray,
    v: NDArray,
    output: NDArray,
    lse: NDArray,
    d_output: NDArray,
    mask: NDArray | None = None,
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
    d_lse: NDArray | None = None,
) -> tuple[NDArray, NDArray, NDArray]:
    """Carry a gradient from attention's output back to q, k and v, tile by tile.

    Each tile's weights are computed again, ``P = e^(S − lse)``, without a softmax. What softmax's
    gradient subtracts in each row, ``Σ_j P_j dP_j``, is ``D = Σ_c dO_c O_c``, so no row has to be
    there as a whole.

    Parameters
    ----------
    q, k, v, mask, causal, block_q, block_k
        As given to `flash_attention`. Blocks may differ.
    output, lse
        As returned by it.
    d_output : float array, (..., n_q, d_v)
        Gradient of the loss with respect to the output.
    d_lse : float array, (..., n_q), optional
        Gradient with respect to `lse`, where the loss depends on it, as after `merge_partials`.

    Returns
    -------
    d_q, d_k, d_v : float arrays with the shapes of q, k and v

    Raises
    ------
    ValueError
        As `flash_attention`, and if a result or a gradient hasn't the shape that it must have.

    References
    ----------
    Dao et al. 2022, appendix B.2 and algorithm 4.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> output, lse = flash_attention(one, one, one)
    >>> d_q, d_k, d_v = flash_attention_backward(one, one, one, output, lse, one)
    >>> d_q.item(), d_v.item()
    (0.0, 1.0)
    """
    check_tiled_inputs(q, k, v, mask, causal, block_q, block_k)
    check_tiled_gradient(q, v, output, lse, d_output, d_lse)
    n_q, n_k, dtype = q.shape[-2], k.shape[-2], q.dtype
    g = _group_size(q, k)
    mask = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], n_k))
    q, k, v, output, lse, d_output = map(widen, (q, k, v, output, lse, d_output))
    scale = 1.0 / sqrt(q.shape[-1])
    lse = np.where(lse == -np.inf, 0.0, lse).astype(lse.dtype)  # nothing seen: exp(−∞ − 0) is 0
    delta = (d_output * output).sum(axis=-1)  # D, (..., n_q)
    if d_lse is not None:
        delta = delta - widen(d_lse)
    d_q, d_k, d_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for rows, strip in _strips(n_q, n_k, block_q, block_k, causal):
        queries, d_out = q[..., rows, :], d_output[..., rows, :]
        for columns in strip:
            keys, values = (_repeated(x[..., columns, :], g) for x in (k, v))
            scores = _tile(queries, keys, rows, columns, n_k - n_q, mask, causal)
            weights = np.exp(scores - lse[..., rows, None])  # (..., b_q, b_k)
            d_weights = d_out @ values.swapaxes(-2, -1)
            d_scores = weights * (d_weights - delta[..., rows, None]) * scale
            d_q[..., rows, :] += d_scores @ keys
            d_k[..., columns, :] += _summed(d_scores.swapaxes(-2, -1) @ queries, g)
            d_v[..., columns, :] += _summed(weights.swapaxes(-2, -1) @ d_out, g)
    return d_q.astype(dtype), d_k.astype(dtype), d_v.astype(dtype)


def _strips(
    n_q: int, n_k: int, block_q: int, block_k: int, causal: bool
) -> Iterator[tuple[slice, list[slice]]]:
    """Yield each row of tiles: where its queries are, and each tile's keys."""
    tiles = visible_tiles(n_q, n_k, block_q, block_k, causal)
    for i, strip in groupby(tiles, key=lambda tile: tile[0]):
        starts = [j * block_k for _, j in strip]
        columns = [slice(at, min(at + block_k, n_k)) for at in starts]
        yield slice(i * block_q, min((i + 1) * block_q, n_q)), columns


def _tile(
    queries: NDArray,  # (..., b_q, d_k)
    keys: NDArray,  # (..., b_k, d_k)
    rows: slice,
    columns: slice,
    past: int,
    mask: NDArray | None,
    causal: bool,
) -> NDArray:
    """Return a tile of scores, −∞ where a query may not look."""
    scale = sqrt(queries.shape[-1])
    scores = queries @ keys.swapaxes(-2, -1) / scale  # (..., b_q, b_k)
    if mask is not None:
        scores = np.where(mask[..., rows, columns], scores, -np.inf)
    if causal and columns.stop - 1 > rows.start + past:  # on the diagonal
        own = np.arange(rows.start, rows.stop) + past
        place = np.arange(columns.start, columns.stop)
        scores = np.where(place > own[:, None], -np.inf, scores)
    return scores


def _group_size(q: NDArray, k: NDArray) -> int:
    """Return how many query heads share a head of keys."""
    return q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1


def _repeated(x: NDArray, group_size: int) -> NDArray:
    """Return a tile's keys or values, a head for each query head."""
    return repeat_kv(x, group_size) if group_size > 1 else x


def _summed(x: NDArray, group_size: int) -> NDArray:
    """Add up the gradients of query heads that share a head of keys."""
    if group_size == 1:
        return x
    *lead, heads, n, d = x.shape
    return x.reshape(*lead, heads // group_size, group_size, n, d).sum(axis=-3)
