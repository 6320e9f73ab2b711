"""Attention tile by tile, without a table of all scores, in PyTorch.

Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022
(arXiv:2205.14135). The result is that of `attention.scaled_dot_product_attention`; the memory grows
with the length, not with its square. Half-precision input is computed in single precision and
returned in half, but for the logarithms of sums, which stay in single.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from course_lib.blocks.grouped_query import repeat_kv
from course_lib.precision import widen
from course_lib.validation import (
    check_partials,
    check_softmax_state,
    check_tiled_gradient,
    check_tiled_inputs,
    check_tiles,
)

__all__ = [
    "flash_attention",
    "flash_attention_backward",
    "merge_partials",
    "online_softmax_update",
    "visible_tiles",
]


def online_softmax_update(
    m: Tensor,  # (..., n_q)
    l: Tensor,  # (..., n_q)
    o: Tensor,  # (..., n_q, d_v)
    scores: Tensor,  # (..., n_q, b)
    values: Tensor,  # (..., b, d_v)
) -> tuple[Tensor, Tensor, Tensor]:
    """Take more scores and values into a softmax that has begun.

    What is kept of all scores so far is their maximum m, the sum ``l = Σ e^(s − m)`` and the
    weighted sum ``o = Σ e^(s − m) v``. Where the maximum rises, what there is is scaled down by
    ``e^(m_old − m_new)``. Attention's output is ``o / l``.

    Parameters
    ----------
    m : float tensor, (..., n_q)
        Largest score so far; −∞ at the start.
    l : float tensor, (..., n_q)
        Sum of exponentials; 0 at the start.
    o : float tensor, (..., n_q, d_v)
        Sum of values, each times its exponential; 0 at the start.
    scores : float tensor, (..., n_q, b)
        The next b scores of every query; −∞ where it may not look.
    values : float tensor, (..., b, d_v)

    Returns
    -------
    m, l, o : float tensors of the same shapes
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
    >>> m, l, o = torch.tensor([-torch.inf]), torch.zeros(1), torch.zeros(1, 1)
    >>> for score, value in ((0.0, 1.0), (2.0, 5.0)):
    ...     m, l, o = online_softmax_update(
    ...         m, l, o, torch.tensor([[score]]), torch.tensor([[value]])
    ...     )
    >>> weights = torch.softmax(torch.tensor([0.0, 2.0]), dim=0)
    >>> round((o / l[:, None]).item(), 4), round((weights @ torch.tensor([1.0, 5.0])).item(), 4)
    (4.5232, 4.5232)
    """
    check_softmax_state(m, l, o, scores, values)
    dtype = m.dtype
    m, l, o, scores, values = map(widen, (m, l, o, scores, values))
    new_m = torch.maximum(m, scores.amax(dim=-1))  # (..., n_q)
    # Nothing seen: the maximum is −∞; with 0 in its place, exp(−∞ − 0) is 0.
    shift = new_m.masked_fill(new_m == -torch.inf, 0.0)
    shrink = torch.exp(m - shift)  # (..., n_q)
    exps = torch.exp(scores - shift[..., None])  # (..., n_q, b)
    l = l * shrink + exps.sum(dim=-1)
    o = o * shrink[..., None] + exps @ values  # (..., n_q, d_v)
    return new_m.to(dtype), l.to(dtype), o.to(dtype)


def merge_partials(
    output_a: Tensor, lse_a: Tensor, output_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    """Merge what queries got from two parts of the keys into what both give.

    With ``lse = log Σ e^s`` over a part's scores, the whole's sum of exponentials is
    ``e^lse_a + e^lse_b``, and each output counts as its part of it.

    Parameters
    ----------
    output_a, output_b : float tensors, (..., n_q, d_v)
    lse_a, lse_b : float tensors, (..., n_q)
        −∞ where a query may look at none of a part's keys.

    Returns
    -------
    output : float tensor, (..., n_q, d_v)
        0 where a query may look at no key of either part.
    lse : float tensor, (..., n_q)

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

    >>> one = torch.ones(1, 1)
    >>> output, lse = merge_partials(1 * one, torch.tensor([3.0]).log(), 9 * one, torch.zeros(1))
    >>> output.item(), round(lse.exp().item(), 4)
    (3.0, 4.0)
    """
    check_partials(output_a, lse_a, output_b, lse_b)
    a, b = widen(lse_a), widen(lse_b)
    shift = torch.maximum(a, b)
    shift = shift.masked_fill(shift == -torch.inf, 0.0)
    a, b = torch.exp(a - shift), torch.exp(b - shift)  # (..., n_q)
    nothing = a + b == 0.0
    total = (a + b).masked_fill(nothing, 1.0)
    a, b = (a / total)[..., None], (b / total)[..., None]  # (..., n_q, 1)
    output = a * widen(output_a) + b * widen(output_b)
    lse = (shift + torch.log(total)).masked_fill(nothing, -torch.inf)
    return output.to(output_a.dtype), lse.to(lse_a.dtype)


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
    q: Tensor,  # (..., h, n_q, d_k)
    k: Tensor,  # (..., h_kv, n_k, d_k)
    v: Tensor,  # (..., h_kv, n_k, d_v)
    mask: Tensor | None = None,
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
) -> tuple[Tensor, Tensor]:
    """Answer every query with a weighted mean of the values, tile by tile.

    The output is that of ``scaled_dot_product_attention``, not an approximation. At any time there
    is one tile of scores; for backward, only the result is kept beside q, k and v, and tiles are
    computed again.

    Parameters
    ----------
    q : float tensor, (..., n_q, d_k)
        Queries.
    k, v : float tensors, (..., n_k, d_k) and (..., n_k, d_v)
        Keys and values. They may have fewer heads (the axis before the last two) than there are of
        queries, if these are a multiple: query head i then asks head ``i // (h // h_kv)``.
    mask : boolean tensor that broadcasts to (..., n_q, n_k), optional
        True where a query may look at a key.
    causal : bool, default False
        Whether, besides, a query may look no further than at its own token; the queries are the
        last of the tokens, as in `causal_mask`. Tiles that are hidden whole cost nothing.
    block_q, block_k : int, default 64
        Rows and columns of a tile. No result depends on them but for rounding.

    Returns
    -------
    output : float tensor, (..., n_q, d_v)
    lse : float tensor, (..., n_q)
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
    >>> q = k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> flash_attention(q, k, v, block_q=2, block_k=1)[0]
    tensor([[3.0000, 4.0000],
            [3.4067, 4.4067],
            [3.5105, 4.5105]])
    """
    check_tiled_inputs(q, k, v, mask, causal, block_q, block_k)
    output, lse = _TiledAttention.apply(q, k, v, mask, causal, block_q, block_k)
    return output, lse


def flash_attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    lse: Tensor,
    d_output: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    block_q: int = 64,
    block_k: int = 64,
    d_lse: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
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
    d_output : float tensor, (..., n_q, d_v)
        Gradient of the loss with respect to the output.
    d_lse : float tensor, (..., n_q), optional
        Gradient with respect to `lse`, where the loss depends on it, as after `merge_partials`.

    Returns
    -------
    d_q, d_k, d_v : float tensors with the shapes of q, k and v

    Raises
    ------
    ValueError
        As `flash_attention`, and if a result or a gradient hasn't the shape that it must have.

    References
    ----------
    Dao et al. 2022, appendix B.2 and algorithm 4.

    Examples
    --------
    >>> one = torch.ones(1, 1)
    >>> output, lse = flash_attention(one, one, one)
    >>> d_q, d_k, d_v = flash_attention_backward(one, one, one, output, lse, one)
    >>> d_q.item(), d_v.item()
    (0.0, 1.0)
    """
    check_tiled_inputs(q, k, v, mask, causal, block_q, block_k)
    check_tiled_gradient(q, v, output, lse, d_output, d_lse)
    n_q, n_k, dtype = q.shape[-2], k.shape[-2], q.dtype
    g = _group_size(q, k)
    mask = None if mask is None else mask.expand(*q.shape[:-1], n_k)
    q, k, v, output, lse, d_output = map(widen, (q, k, v, output, lse, d_output))
    scale = 1.0 / sqrt(q.shape[-1])
    lse = lse.masked_fill(lse == -torch.inf, 0.0)  # nothing seen: exp(−∞ − 0) is 0
    delta = (d_output * output).sum(dim=-1)  # D, (..., n_q)
    if d_lse is not None:
        delta = delta - widen(d_lse)
    d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows, strip in _strips(n_q, n_k, block_q, block_k, causal):
        queries, d_out = q[..., rows, :], d_output[..., rows, :]
        for columns in strip:
            keys, values = (_repeated(x[..., columns, :], g) for x in (k, v))
            scores = _tile(queries, keys, rows, columns, n_k - n_q, mask, causal)
            weights = torch.exp(scores - lse[..., rows, None])  # (..., b_q, b_k)
            d_weights = d_out @ values.mT
            d_scores = weights * (d_weights - delta[..., rows, None]) * scale
            d_q[..., rows, :] += d_scores @ keys
            d_k[..., columns, :] += _summed(d_scores.mT @ queries, g)
            d_v[..., columns, :] += _summed(weights.mT @ d_out, g)
    return d_q.to(dtype), d_k.to(dtype), d_v.to(dtype)


class _TiledAttention(torch.autograd.Function):
    """Forward keeps the result; backward computes the tiles again."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        causal: bool,
        block_q: int,
        block_k: int,
    ) -> tuple[Tensor, Tensor]:
        output, lse = _forward(q, k, v, mask, causal, block_q, block_k)
        ctx.save_for_backward(q, k, v, output, lse)
        ctx.rest = mask, causal, block_q, block_k
        return output, lse

    @staticmethod
    def backward(
        ctx: Any,
        d_output: Tensor,
        d_lse: Tensor,
    ) -> tuple[Tensor | None, ...]:
        q, k, v, output, lse = ctx.saved_tensors
        mask, causal, block_q, block_k = ctx.rest
        gradients = flash_attention_backward(
            q, k, v, output, lse, d_output, mask, causal, block_q, block_k, d_lse
        )
        return (*gradients, None, None, None, None)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    block_q: int,
    block_k: int,
) -> tuple[Tensor, Tensor]:
    """Return output and logarithms of sums, row of tiles by row of tiles."""
    n_q, n_k, dtype = q.shape[-2], k.shape[-2], q.dtype
    g = _group_size(q, k)
    mask = None if mask is None else mask.expand(*q.shape[:-1], n_k)
    q, k, v = map(widen, (q, k, v))
    output = q.new_zeros((*q.shape[:-1], v.shape[-1]))
    lse = q.new_zeros(q.shape[:-1])
    for rows, strip in _strips(n_q, n_k, block_q, block_k, causal):
        queries = q[..., rows, :]  # (..., b_q, d_k)
        m = torch.full_like(lse[..., rows], -torch.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(output[..., rows, :])
        for columns in strip:
            keys, values = (_repeated(x[..., columns, :], g) for x in (k, v))
            scores = _tile(queries, keys, rows, columns, n_k - n_q, mask, causal)
            m, l, o = online_softmax_update(m, l, o, scores, values)
        l = l.masked_fill(l == 0.0, 1.0)  # nothing seen: o is 0 and m is −∞
        output[..., rows, :] = o / l[..., None]
        lse[..., rows] = m + torch.log(l)
    return output.to(dtype), lse


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
    queries: Tensor,  # (..., b_q, d_k)
    keys: Tensor,  # (..., b_k, d_k)
    rows: slice,
    columns: slice,
    past: int,
    mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """Return a tile of scores, −∞ where a query may not look."""
    scale = sqrt(queries.shape[-1])
    scores = queries @ keys.mT / scale  # (..., b_q, b_k)
    if mask is not None:
        scores = scores.masked_fill(~mask[..., rows, columns], -torch.inf)
    if causal and columns.stop - 1 > rows.start + past:  # on the diagonal
        own = torch.arange(rows.start, rows.stop, device=scores.device) + past
        place = torch.arange(columns.start, columns.stop, device=scores.device)
        scores = scores.masked_fill(place > own[:, None], -torch.inf)
    return scores


def _group_size(q: Tensor, k: Tensor) -> int:
    """Return how many query heads share a head of keys."""
    return q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1


def _repeated(x: Tensor, group_size: int) -> Tensor:
    """Return a tile's keys or values, a head for each query head."""
    return repeat_kv(x, group_size) if group_size > 1 else x


def _summed(x: Tensor, group_size: int) -> Tensor:
    """Add up the gradients of query heads that share a head of keys."""
    return x.unflatten(-3, (-1, group_size)).sum(dim=-3) if group_size > 1 else x
