"""Keys and values that are kept between the steps of decoding, in PyTorch.

What a token's key and value are doesn't depend on the tokens behind it. They are computed once, and
each later query looks at them where they lie.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.blocks.attention import causal_mask, scaled_dot_product_attention
from course_lib.blocks.multi_head import MultiHeadAttention, merge_heads, split_heads
from course_lib.validation import (
    check_features,
    check_float_dtype,
    check_heads,
    check_ids,
    check_past,
    check_same_dtype,
    check_sequence,
    check_shape,
    check_sizes,
    check_whole,
    describe,
)

__all__ = ["CachedAttention", "DecoderCache", "KeyValueCache", "cached_attention"]


def cached_attention(
    x: Tensor,  # (..., n, d), the tokens that are new
    w_q: Tensor,  # (d, d)
    w_k: Tensor,  # (d, d)
    w_v: Tensor,  # (d, d)
    w_o: Tensor,  # (d, d)
    n_heads: int,
    past: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Let new tokens look at all that came before and at themselves.

    Parameters
    ----------
    x : float tensor, (..., n, d)
        The new tokens: one at a time, or a chunk of a prompt.
    w_q, w_k, w_v, w_o : float tensors, (d, d)
    n_heads : int
        h, which divides d.
    past : (keys, values), optional
        Of the tokens before, (..., h, n_past, d/h) each, as the call before returned them.

    Returns
    -------
    output : float tensor, (..., n, d)
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
    >>> x, w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.eye(2)
    >>> whole, _ = cached_attention(x, w, w, w, w, n_heads=1)
    >>> _, past = cached_attention(x[:2], w, w, w, w, n_heads=1)
    >>> last, past = cached_attention(x[2:], w, w, w, w, n_heads=1, past=past)
    >>> torch.allclose(last, whole[2:]), past[0].shape
    (True, torch.Size([1, 3, 2]))
    """
    check_past(x, (w_q, w_k, w_v, w_o), n_heads, past)
    q, k, v = (split_heads(x @ w, n_heads) for w in (w_q, w_k, w_v))
    if past is not None:
        k = torch.cat((past[0], k), dim=-2)  # (..., h, n_past + n, d/h)
        v = torch.cat((past[1], v), dim=-2)
    mask = causal_mask(q.shape[-2], k.shape[-2])  # key j if j ≤ n_past + i
    heads, _ = scaled_dot_product_attention(q, k, v, mask)
    return merge_heads(heads) @ w_o, (k, v)


class KeyValueCache:
    """Room for the keys and values of one attention, filled from the front.

    The memory is taken at once: 2·b·h·max_length·d/h numbers. No gradient goes through it.

    Parameters
    ----------
    batch_size : int
        b.
    n_heads : int
        h, those of keys and values.
    max_length : int
        Number of tokens that there is room for.
    d_head : int
        Width of a head, d/h.
    dtype : floating dtype, default PyTorch's default
    device : device, default PyTorch's default

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `dtype` isn't floating.

    References
    ----------
    Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019 (arXiv:1911.02150),
    section 2.4, "incremental" attention.

    Examples
    --------
    >>> cache = KeyValueCache(batch_size=1, n_heads=2, max_length=4, d_head=3)
    >>> new = torch.ones(1, 2, 3, 3)  # the prompt: 3 tokens
    >>> keys, values = cache.append(new, new)
    >>> keys, values = cache.append(new[:, :, :1], new[:, :, :1])  # one more
    >>> keys.shape, len(cache)
    (torch.Size([1, 2, 4, 3]), 4)
    """

    def __init__(
        self,
        batch_size: int,
        n_heads: int,
        max_length: int,
        d_head: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        check_sizes(batch_size=batch_size, n_heads=n_heads, max_length=max_length, d_head=d_head)
        check_float_dtype(dtype)
        shape = (batch_size, n_heads, max_length, d_head)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    def __len__(self) -> int:
        """Return how many tokens are kept."""
        return self.length

    @property
    def batch_size(self) -> int:
        """Number of sequences."""
        return self.keys.shape[0]

    @property
    def max_length(self) -> int:
        """Number of tokens that there is room for."""
        return self.keys.shape[2]

    @property
    def n_bytes(self) -> int:
        """Memory taken, in bytes, whether filled or not."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def check_batch(self, b: int) -> None:
        """Raise unless the cache is one of b sequences.

        Parameters
        ----------
        b : int

        Raises
        ------
        ValueError
            If it is of another batch size.
        """
        if self.batch_size != b:
            raise ValueError(
                f"cache must be of batch size {b}, that of what is decoded; got one of "
                f"{self.batch_size}"
            )

    def read(self) -> tuple[Tensor, Tensor]:
        """Return all keys and values kept, without copying them.

        Returns
        -------
        keys, values : float tensors, (b, h, length, d_head)
        """
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of new tokens behind the others, and return all.

        Parameters
        ----------
        keys, values : float tensors, (b, h, n, d_head)

        Returns
        -------
        keys, values : float tensors, (b, h, length + n, d_head)

        Raises
        ------
        ValueError
            If they are of another batch size, another shape or another dtype than the cache, or
            there isn't room for them.
        """
        check_heads("keys", keys)
        b, h, max_length, d_head = self.keys.shape
        if len(keys.shape) != 4 or (keys.shape[0], keys.shape[1], keys.shape[3]) != (b, h, d_head):
            raise ValueError(
                f"keys must have a shape ({b}, {h}, n, {d_head}) for this cache, which is one of "
                f"batch size {b}; got {tuple(keys.shape)}"
            )
        check_shape("values", values, "keys", tuple(keys.shape))
        check_same_dtype(cache=self.keys, keys=keys, values=values)
        start, end = self.length, self.length + keys.shape[2]
        if end > max_length:
            raise ValueError(
                f"keys must fit into the cache's max_length = {max_length} tokens; "
                f"got {keys.shape[2]} after {start}"
            )
        self.keys[:, :, start:end] = keys.detach()
        self.values[:, :, start:end] = values.detach()
        self.length = end
        return self.read()

    def reorder(self, rows: Tensor) -> None:
        """Let row i hold what row ``rows[i]`` holds; the batch becomes as long as `rows`.

        Parameters
        ----------
        rows : tensor of whole numbers, (b_new,)
            Beams go on from the hypotheses that were chosen: a row may come twice, or not at all.

        Raises
        ------
        ValueError
            If `rows` aren't rows of the cache.
        """
        _check_rows(rows, self.batch_size)
        self.keys, self.values = self._moved(self.keys, rows), self._moved(self.values, rows)

    def _moved(self, kept: Tensor, rows: Tensor) -> Tensor:
        chosen = kept[:, :, : self.length].index_select(0, rows)  # half the time of kept[rows, …]
        if len(rows) == len(kept):  # the memory that there is will do
            kept[:, :, : self.length] = chosen
            return kept
        moved = kept.new_empty(len(rows), *kept.shape[1:])
        moved[:, :, : self.length] = chosen
        return moved


class CachedAttention(MultiHeadAttention):
    """Multi-head attention that can keep the keys and values it has computed.

    The weights are those of `MultiHeadAttention`, and so are its arguments.

    Parameters
    ----------
    d_model, n_heads, bias, fused, dropout
        As `MultiHeadAttention` takes them. Nothing is dropped where there is a cache.

    Raises
    ------
    ValueError
        As `MultiHeadAttention`.

    Examples
    --------
    >>> attention = CachedAttention(d_model=8, n_heads=2)
    >>> cache = KeyValueCache(batch_size=1, n_heads=2, max_length=5, d_head=4)
    >>> x = torch.randn(1, 5, 8)
    >>> steps = [attention(x[:, t : t + 1], cache=cache) for t in range(5)]
    >>> torch.allclose(steps[4], attention(x)[:, 4:], atol=1e-6)  # the last one sees all
    True
    """

    def forward(
        self,
        x_q: Tensor,  # (..., n_q, d)
        x_kv: Tensor | None = None,  # (..., n_k, d)
        mask: Tensor | None = None,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
        collect: list[Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let the tokens of `x_q` ask those of `x_kv`, or all that came before them.

        Parameters
        ----------
        x_q : float tensor, (..., n_q, d)
        x_kv : float tensor, (..., n_k, d), optional
            `x_q` where left out: self-attention.
        mask : boolean tensor that broadcasts to (..., h, n_q, n_k), optional
            True where a query may look at a key.
        return_weights : bool, default False
        cache : KeyValueCache, optional
            Without `x_kv`, the keys and values of `x_q` are added to it, and the queries look at
            all that it holds: n_k is the past and n_q. With `x_kv` it is filled where it's empty,
            and read where it isn't.
        collect : list, optional
            The weights are appended to it.

        Returns
        -------
        output : float tensor, (..., n_q, d)
        weights : float tensor, (..., h, n_q, n_k)
            Only where they are asked for.

        Raises
        ------
        ValueError
            If a shape or dtype doesn't fit, `mask` isn't boolean, or `cache` is of another batch
            size or has no room.
        """
        if cache is None and collect is None:
            return super().forward(x_q, x_kv, mask, return_weights)
        if cache is None:
            output, weights = super().forward(x_q, x_kv, mask, return_weights=True)
        else:
            q, k, v = self._look_up(x_q, x_kv, cache)
            if mask is None and collect is None and not return_weights:
                # One kernel in place of a dozen, which at one query are most of the time.
                return self.w_o(merge_heads(F.scaled_dot_product_attention(q, k, v)))
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
            output = self.w_o(merge_heads(heads))  # (b, n_q, d)
        if collect is not None:
            collect.append(weights)
        return (output, weights) if return_weights else output

    def _look_up(
        self, x_q: Tensor, x_kv: Tensor | None, cache: KeyValueCache
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries of x_q, and the keys and values that they look at, by heads."""
        check_sequence("x_q", x_q, "(b, n_q, d)")
        check_features("x_q", x_q, self.d_model)
        if x_kv is not None and len(cache) > 0:  # of the source: computed at the first step
            cache.check_batch(len(x_q))
            return (split_heads(self._queries(x_q), self.n_heads), *cache.read())
        q, k, v = (split_heads(x, self.n_heads) for x in self._project(x_q, x_kv))
        return (q, *cache.append(k, v))

    def _queries(self, x_q: Tensor) -> Tensor:
        """Return queries alone, all heads side by side."""
        if not self.fused:
            return self.w_q(x_q)
        d, w, b = self.d_model, self.w_qkv.weight, self.w_qkv.bias
        return F.linear(x_q, w[:d], None if b is None else b[:d])


class DecoderCache:
    """The caches of all layers of a decoder: of self-attention, and of cross-attention if any.

    Parameters
    ----------
    n_layers : int
    batch_size, n_heads, max_length, d_head, dtype, device
        As `KeyValueCache` takes them.
    n_src : int, optional
        Number of source tokens; without it there is no cross-attention.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `dtype` isn't floating.

    Examples
    --------
    >>> cache = DecoderCache(2, batch_size=3, n_heads=4, max_length=10, d_head=8, n_src=5)
    >>> cache.n_bytes  # 2 · 2 layers · 3 · 4 heads · (10 + 5) · 8 numbers of 4 bytes
    23040
    """

    def __init__(
        self,
        n_layers: int,
        batch_size: int,
        n_heads: int,
        max_length: int,
        d_head: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        n_src: int | None = None,
    ) -> None:
        check_sizes(n_layers=n_layers)

        def caches(length: int) -> list[KeyValueCache]:
            sizes = (batch_size, n_heads, length, d_head)
            return [KeyValueCache(*sizes, dtype=dtype, device=device) for _ in range(n_layers)]

        self.self_attention = caches(max_length)
        self.cross_attention = [] if n_src is None else caches(n_src)

    def __len__(self) -> int:
        """Return how many tokens of the target are kept."""
        return len(self.self_attention[0])

    @property
    def batch_size(self) -> int:
        """Number of sequences."""
        return self.self_attention[0].batch_size

    @property
    def max_length(self) -> int:
        """Number of target tokens that there is room for."""
        return self.self_attention[0].max_length

    @property
    def n_bytes(self) -> int:
        """Memory taken by all layers, in bytes."""
        return sum(cache.n_bytes for cache in (*self.self_attention, *self.cross_attention))

    def reorder(self, rows: Tensor, same_sources: bool = False) -> None:
        """Let row i of every layer hold what row ``rows[i]`` holds.

        Parameters
        ----------
        rows : tensor of whole numbers, (b_new,)
        same_sources : bool, default False
            Whether each row goes on with a row of the same source, so that what is kept of the
            sources can stay where it is.

        Raises
        ------
        ValueError
            If `rows` aren't rows of the cache.
        """
        for cache in self.self_attention:
            cache.reorder(rows)
        for cache in self.cross_attention if not same_sources else ():
            cache.reorder(rows)

    def check_batch(self, b: int) -> None:
        """Raise unless the cache is one of b sequences.

        Parameters
        ----------
        b : int

        Raises
        ------
        ValueError
            If it is of another batch size.
        """
        self.self_attention[0].check_batch(b)


def _check_rows(rows: Tensor, b: int) -> None:
    """Raise unless `rows` are rows of a batch of b."""
    check_whole("rows", rows, "(b,)")
    if rows.ndim != 1 or len(rows) == 0:
        raise ValueError(f"rows must have a shape (b,), b ≥ 1; got {describe(rows)}")
    check_ids("rows", rows, b)
