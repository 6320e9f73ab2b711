"""Grouped-query attention: several query heads share a head of keys and values, in PyTorch.

Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
Checkpoints", 2023 (arXiv:2305.13245). One head of keys and values for all is multi-query attention
(Shazeer, 2019, arXiv:1911.02150); one for each query head is multi-head attention.
Half-precision input is computed in single precision and returned in half, rounded once a call.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.blocks.attention import causal_mask, scaled_dot_product_attention
from course_lib.blocks.cache import KeyValueCache
from course_lib.blocks.masks import combine_masks
from course_lib.blocks.multi_head import merge_heads, project, split_heads
from course_lib.precision import widen
from course_lib.validation import (
    check_divides,
    check_features,
    check_flag,
    check_grouped_query_inputs,
    check_kv_heads,
    check_mask,
    check_pooled,
    check_repeated,
    check_sequence,
    check_sizes,
)

__all__ = ["GroupedQueryAttention", "grouped_query_attention", "pool_kv_heads", "repeat_kv"]


def repeat_kv(x: Tensor, group_size: int) -> Tensor:
    """Repeat each head of keys or values, once for each query head it serves.

    Query head i asks the keys of head i // group_size: with two heads of keys and four of queries,
    the heads are 0, 0, 1, 1.

    Parameters
    ----------
    x : float tensor, (..., h_kv, n, d_k)
        Keys or values, by heads.
    group_size : int
        How many query heads share one head of keys and values, h / h_kv.

    Returns
    -------
    float tensor, (..., h, n, d_k)

    Raises
    ------
    ValueError
        If `x` has no axis of heads or is empty, or `group_size` isn't a whole number of at least 1.

    Examples
    --------
    >>> import torch
    >>> x = torch.arange(2.0).reshape(2, 1, 1)  # two heads of one token
    >>> repeat_kv(x, 2).flatten().tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    check_repeated(x, group_size)
    return x.repeat_interleave(group_size, dim=-3)  # (..., h, n, d_k)


def grouped_query_attention(
    x_q: Tensor,  # (..., n_q, d)
    x_kv: Tensor,  # (..., n_k, d_kv)
    w_q: Tensor,  # (d, h d_k)
    w_k: Tensor,  # (d_kv, h_kv d_k)
    w_v: Tensor,  # (d_kv, h_kv d_v)
    w_o: Tensor,  # (h d_v, d_out)
    n_heads: int,
    n_kv_heads: int,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Let h query heads attend, each to keys and values shared with its group.

    Multi-head attention with the heads of keys and values repeated: query head i asks head
    ``i // (n_heads // n_kv_heads)``. Only h_kv heads of keys and values are computed, and only they
    are kept where there is a cache.

    Parameters
    ----------
    x_q : float tensor, (..., n_q, d)
        The tokens that ask.
    x_kv : float tensor, (..., n_k, d_kv)
        The tokens that are asked.
    w_q, w_k, w_v, w_o : float tensors, (d, h d_k), (d_kv, h_kv d_k), (d_kv, h_kv d_v), (h d_v, d_out)
    n_heads : int
        h, heads of queries.
    n_kv_heads : int
        h_kv, heads of keys and values, which divides h: 1 for multi-query attention.
    mask : boolean tensor that broadcasts to (..., h, n_q, n_k), optional
        True where a query may look at a key.

    Returns
    -------
    output : float tensor, (..., n_q, d_out)
    weights : float tensor, (..., h, n_q, n_k)
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

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> w, w_kv = torch.eye(2), torch.tensor([[1.0], [0.0]])
    >>> output, weights = grouped_query_attention(x, x, w, w_kv, w_kv, w, n_heads=2, n_kv_heads=1)
    >>> weights
    tensor([[[0.7311, 0.2689],
             [0.5000, 0.5000]],
    <BLANKLINE>
            [[0.5000, 0.5000],
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
    return output.to(dtype), weights.to(dtype)


def pool_kv_heads(w: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    """Make the matrix of fewer heads of keys or values: each group's mean.

    What a trained multi-head model's W_K and W_V become before it is trained a little further with
    grouped queries, or with one head of keys and values.

    Parameters
    ----------
    w : float tensor, (d, h d_k)
        W_K or W_V, heads side by side; a bias, (h d_k,), is pooled in the same way.
    n_heads : int
        h, heads that there are.
    n_kv_heads : int
        h_kv, heads that there shall be, which divides h.

    Returns
    -------
    float tensor, (d, h_kv d_k)

    Raises
    ------
    ValueError
        If `w` is empty or no tensor of floats, its columns aren't those of h heads, or
        `n_kv_heads` doesn't divide `n_heads`.

    References
    ----------
    Ainslie et al. 2023 (arXiv:2305.13245), section 2.1 and figure 1.

    Examples
    --------
    >>> import torch
    >>> pool_kv_heads(torch.tensor([[1.0, 3.0, 10.0, 20.0]]), n_heads=4, n_kv_heads=2)
    tensor([[ 2., 15.]])
    """
    check_pooled(w, n_heads, n_kv_heads)
    heads = widen(w).unflatten(-1, (n_kv_heads, n_heads // n_kv_heads, -1))
    pooled = heads.mean(dim=-2)  # (d, h_kv, d_k)
    return pooled.flatten(-2).to(w.dtype)


class GroupedQueryAttention(nn.Module):
    """Self-attention with weights of its own, in which query heads share keys and values.

    What a decoder alone needs: queries and keys can be turned by their positions, and keys and
    values kept for the steps to come. A cache holds the heads of keys and values, not those of
    queries.

    Parameters
    ----------
    d_model : int
        Width of the tokens, in and out.
    n_heads : int
        h, heads of queries.
    n_kv_heads : int, optional
        h_kv, heads of keys and values, which divides h; as many as there are of queries where left
        out.
    d_head : int, optional
        Width of a head; ``d_model / n_heads`` where left out, which must be whole then.
    bias : bool, default True
        Whether the four projections have biases.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or one doesn't divide what it must.

    References
    ----------
    Ainslie et al. 2023 (arXiv:2305.13245), section 2.2; Shazeer 2019 (arXiv:1911.02150), section 3.

    Examples
    --------
    >>> import torch
    >>> attention = GroupedQueryAttention(d_model=8, n_heads=4, n_kv_heads=2, bias=False)
    >>> attention(torch.zeros(3, 5, 8), causal=True).shape
    torch.Size([3, 5, 8])
    >>> sum(p.numel() for p in attention.parameters())  # 2 d² + 2 d · 2 d/4
    192
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_kv_heads(n_heads, n_kv_heads)
        if d_head is None:
            check_divides("n_heads", n_heads, "d_model", d_model)
            d_head = d_model // n_heads
        check_sizes(d_head=d_head)
        check_flag("bias", bias)
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.w_q = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.w_k = nn.Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.w_v = nn.Linear(d_model, n_kv_heads * d_head, bias=bias)
        self.w_o = nn.Linear(n_heads * d_head, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,  # (..., n, d)
        mask: Tensor | None = None,
        causal: bool = False,
        rotate: Callable[[Tensor], Tensor] | None = None,
        cache: KeyValueCache | None = None,
        collect: list[Tensor] | None = None,
    ) -> Tensor:
        """Let the tokens of `x` ask one another, and all that came before them.

        Parameters
        ----------
        x : float tensor, (..., n, d)
        mask : boolean tensor that broadcasts to (..., h, n, past + n), optional
            True where a query may look at a key.
        causal : bool, default False
            Whether, besides, a token may look no further than at itself.
        rotate : callable, optional
            Turns queries and keys, (..., h or h_kv, n, d_head), by their positions.
        cache : KeyValueCache, optional
            Of `n_kv_heads` heads. The keys, turned, and values of `x` are added to it, and the
            queries look at all that it holds.
        collect : list, optional
            The weights, (..., h, n, past + n), are appended to it.

        Returns
        -------
        float tensor, (..., n, d)

        Raises
        ------
        ValueError
            If a shape or dtype doesn't fit, `mask` isn't boolean, or `cache` is of another batch
            size or has no room.
        """
        check_sequence("x", x, "(..., n, d)")
        check_features("x", x, self.d_model)
        q = split_heads(self.w_q(x), self.n_heads)  # (..., h, n, d_head)
        k = split_heads(self.w_k(x), self.n_kv_heads)  # (..., h_kv, n, d_head)
        v = split_heads(self.w_v(x), self.n_kv_heads)
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        if cache is not None:
            k, v = cache.append(k, v)
        group_size = self.n_heads // self.n_kv_heads
        if group_size == 1:
            heads = self._attend(q, k, v, mask, causal, collect)
        elif x.shape[-2] == 1:
            heads = self._attend_once(q, k, v, mask, collect)
        else:
            k, v = repeat_kv(k, group_size), repeat_kv(v, group_size)
            heads = self._attend(q, k, v, mask, causal, collect)
        return self.w_o(merge_heads(heads))

    def _attend_once(
        self,
        q: Tensor,  # (..., h, 1, d_head)
        k: Tensor,  # (..., h_kv, n_k, d_head)
        v: Tensor,
        mask: Tensor | None,
        collect: list[Tensor] | None,
    ) -> Tensor:
        """Let one token ask: a group's queries are rows of one product, and no key is copied."""
        if mask is not None:
            check_mask(mask, (*q.shape[:-1], k.shape[-2]))
            mask = self._as_rows(mask.expand(*q.shape[:-1], k.shape[-2]))
        heads = self._attend(self._as_rows(q), k, v, mask, False, collect)
        if collect is not None:
            collect[-1] = collect[-1].flatten(-3, -2).unsqueeze(-2)  # (..., h, 1, n_k)
        return heads.flatten(-3, -2).unsqueeze(-2)  # (..., h, 1, d_head)

    def _as_rows(self, x: Tensor) -> Tensor:
        """Make the one row of each of h heads one of h / h_kv rows of each of h_kv heads."""
        return x.squeeze(-2).unflatten(-2, (self.n_kv_heads, -1))

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        causal: bool,
        collect: list[Tensor] | None,
    ) -> Tensor:
        """Attend: in one kernel where no row of the mask can be empty, and in steps elsewhere."""
        n, n_k = q.shape[-2], k.shape[-2]
        causal = causal and n > 1  # one new token is the last of all
        if mask is None and collect is None and causal and n == n_k:
            # No mask but the triangle: the kernel leaves half of the work out.
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        past = causal_mask(n, n_k).to(q.device) if causal else None
        if mask is None and collect is None:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=past)
        heads, weights = scaled_dot_product_attention(q, k, v, combine_masks(past, mask))
        if collect is not None:
            collect.append(weights)
        return heads
