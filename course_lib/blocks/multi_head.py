"""Multi-head attention: heads, projections and the whole, in PyTorch.

The formulas are those of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762),
section 3.2.2. Weights are (d_in, d_out) and multiply from the right, as in the formulas.
Half-precision input is computed in single precision and returned in half, rounded once a call.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.blocks.attention import scaled_dot_product_attention, softmax
from course_lib.precision import widen
from course_lib.validation import (
    check_attention_inputs,
    check_divides,
    check_dropout,
    check_features,
    check_fused,
    check_heads,
    check_leading,
    check_multi_head_inputs,
    check_positive_int,
    check_projection,
    check_sequence,
    check_three,
)

__all__ = [
    "MultiHeadAttention",
    "fuse_projections",
    "fused_projections",
    "merge_heads",
    "multi_head_attention",
    "project",
    "split_heads",
]


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut every token's vector into h pieces, and bring the heads forward.

    Head i gets the columns i d/h to (i + 1) d/h − 1.

    Parameters
    ----------
    x : float tensor, (..., n, d)
    n_heads : int
        h, which divides d.

    Returns
    -------
    float tensor, (..., h, n, d/h)
        A view where that can be: no number is moved.

    Raises
    ------
    ValueError
        If `x` isn't a sequence of vectors, or `n_heads` doesn't divide their width.

    Examples
    --------
    >>> x = torch.arange(8.0).reshape(2, 4)  # 2 tokens of width 4
    >>> split_heads(x, 2)
    tensor([[[0., 1.],
             [4., 5.]],
    <BLANKLINE>
            [[2., 3.],
             [6., 7.]]])
    """
    check_sequence("x", x, "(..., n, d)")
    check_divides("n_heads", n_heads, "the width of x", x.shape[-1])
    pieces = x.unflatten(-1, (n_heads, -1))  # (..., n, h, d/h)
    return pieces.transpose(-3, -2)  # (..., h, n, d/h)


def merge_heads(x: Tensor) -> Tensor:
    """Put every token's pieces side by side again: the inverse of `split_heads`.

    Parameters
    ----------
    x : float tensor, (..., h, n, d/h)

    Returns
    -------
    float tensor, (..., n, d)
        A copy where the heads lie behind one another in memory.

    Raises
    ------
    ValueError
        If `x` has fewer than three axes, or is empty.

    Examples
    --------
    >>> merge_heads(split_heads(torch.arange(8.0).reshape(2, 4), 2))
    tensor([[0., 1., 2., 3.],
            [4., 5., 6., 7.]])
    """
    check_heads("x", x)
    return x.transpose(-3, -2).flatten(-2)  # (..., n, d)


def project(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """Multiply every token by a matrix, and add a bias if any: ``x W + b``.

    Parameters
    ----------
    x : float tensor, (..., d_in)
    w : float tensor, (d_in, d_out)
    b : float tensor, (d_out,), optional

    Returns
    -------
    float tensor, (..., d_out)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an argument is empty.

    Examples
    --------
    >>> project(torch.tensor([[1.0, 2.0]]), torch.eye(2), torch.tensor([10.0, 20.0]))
    tensor([[11., 22.]])
    """
    check_projection("x", x, "w", w, "b", b)
    y = widen(x) @ widen(w)  # (..., d_out)
    return (y if b is None else y + widen(b)).to(x.dtype)


def fuse_projections(w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Put the three matrices side by side, so that one product serves for three.

    Parameters
    ----------
    w_q, w_k, w_v : float tensors, (d_in, d_out)
        Biases, (d_out,), are put end to end in the same way.

    Returns
    -------
    float tensor, (d_in, 3 d_out)

    Raises
    ------
    ValueError
        If the three haven't one shape and dtype, or are empty.

    Examples
    --------
    >>> w = torch.eye(2)
    >>> fuse_projections(w, 2 * w, 3 * w)
    tensor([[1., 0., 2., 0., 3., 0.],
            [0., 1., 0., 2., 0., 3.]])
    """
    check_fused(w_q, w_k, w_v)
    return torch.cat((w_q, w_k, w_v), dim=-1)  # (d_in, 3 d_out)


def fused_projections(
    x: Tensor, w_qkv: Tensor, b_qkv: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values of self-attention by one product.

    Parameters
    ----------
    x : float tensor, (..., n, d_in)
    w_qkv : float tensor, (d_in, 3 d_out)
        From `fuse_projections`.
    b_qkv : float tensor, (3 d_out,), optional

    Returns
    -------
    q, k, v : float tensors, (..., n, d_out)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or the columns can't be cut in three.

    Examples
    --------
    >>> x, w = torch.ones((1, 2)), torch.eye(2)
    >>> q, k, v = fused_projections(x, fuse_projections(w, 2 * w, 3 * w))
    >>> v
    tensor([[3., 3.]])
    """
    check_sequence("x", x, "(..., n, d_in)")
    check_projection("x", x, "w_qkv", w_qkv, "b_qkv", b_qkv)
    check_three("w_qkv", w_qkv)
    q, k, v = project(x, w_qkv, b_qkv).chunk(3, dim=-1)  # (..., n, d_out) each
    return q, k, v


def multi_head_attention(
    x_q: Tensor,  # (..., n_q, d)
    x_kv: Tensor,  # (..., n_k, d_kv)
    w_q: Tensor,  # (d, h d_k)
    w_k: Tensor,  # (d_kv, h d_k)
    w_v: Tensor,  # (d_kv, h d_v)
    w_o: Tensor,  # (h d_v, d_out)
    n_heads: int,
    mask: Tensor | None = None,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
    b_o: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Let h heads attend, each with queries, keys and values of its own.

    ``Concat(head_1, …, head_h) W_O`` with ``head_i = Attention(X_q W_Q,i, X_kv W_K,i, X_kv W_V,i)``
    (Vaswani et al. 2017, section 3.2.2). The matrices of all heads stand side by side in `w_q`,
    `w_k` and `w_v`; each head divides its scores by the root of its own width. Self-attention where
    `x_kv` is `x_q`, cross-attention where it's another sequence.

    Parameters
    ----------
    x_q : float tensor, (..., n_q, d)
        The tokens that ask.
    x_kv : float tensor, (..., n_k, d_kv)
        The tokens that are asked.
    w_q, w_k, w_v, w_o : float tensors, (d, h d_k), (d_kv, h d_k), (d_kv, h d_v), (h d_v, d_out)
        Mostly all (d, d), with d_k = d_v = d/h.
    n_heads : int
        h.
    mask : boolean tensor that broadcasts to (..., h, n_q, n_k), optional
        True where a query may look at a key. One for each sequence of a batch is
        (b, 1, n_q, n_k) or (b, 1, 1, n_k).
    b_q, b_k, b_v, b_o : float tensors, (h d_k,), (h d_k,), (h d_v,), (d_out,), optional

    Returns
    -------
    output : float tensor, (..., n_q, d_out)
    weights : float tensor, (..., h, n_q, n_k)
        A query that may look at no key gets weights 0; its output is then `b_o`.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, `n_heads` doesn't divide
        the columns of `w_q` and of `w_v`, or `mask` isn't boolean.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> w = torch.eye(2)
    >>> output, weights = multi_head_attention(x, x, w, w, w, w, n_heads=2)
    >>> weights  # head 0 sees the first column alone, head 1 the second
    tensor([[[0.4223, 0.1554, 0.4223],
             [0.3333, 0.3333, 0.3333],
             [0.4223, 0.1554, 0.4223]],
    <BLANKLINE>
            [[0.3333, 0.3333, 0.3333],
             [0.1554, 0.4223, 0.4223],
             [0.1554, 0.4223, 0.4223]]])
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
    return output.to(dtype), weights.to(dtype)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with weights of its own, for self- and cross-attention.

    Weights start as Glorot and Bengio (2010) draw them, biases at 0.

    Parameters
    ----------
    d_model : int
        Width of the tokens, in and out.
    n_heads : int
        h, which divides `d_model`; each head is d_model / h wide.
    bias : bool, default True
        Whether the four projections have biases.
    fused : bool, default False
        Whether W_Q, W_K and W_V are kept, and multiplied, as one matrix.
    dropout : float, default 0
        Probability with which an attention weight is set to 0 in training, each anew at every call;
        those that are left are divided by 1 − `dropout`.

    Raises
    ------
    ValueError
        If `n_heads` doesn't divide `d_model`, or an argument is out of its range.

    References
    ----------
    Vaswani et al. 2017, section 3.2.2. Dropout of the weights is not in its text; its authors'
    code, tensor2tensor, has it, and so has ``torch.nn.MultiheadAttention``.

    Examples
    --------
    >>> attention = MultiHeadAttention(d_model=8, n_heads=2)
    >>> attention(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    >>> sum(p.numel() for p in attention.parameters())  # 4 d² + 4 d
    288
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bias: bool = True,
        fused: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive_int("d_model", d_model)
        check_divides("n_heads", n_heads, "d_model", d_model)
        check_dropout(dropout)
        self.d_model, self.n_heads, self.fused = d_model, n_heads, fused
        if fused:
            self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        else:
            self.w_q = nn.Linear(d_model, d_model, bias=bias)
            self.w_k = nn.Linear(d_model, d_model, bias=bias)
            self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew, each by itself, and set biases to 0."""
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                for matrix in layer.weight.split(self.d_model):
                    nn.init.xavier_uniform_(matrix)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(
        self,
        x_q: Tensor,  # (..., n_q, d)
        x_kv: Tensor | None = None,  # (..., n_k, d)
        mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let the tokens of `x_q` ask those of `x_kv`.

        Parameters
        ----------
        x_q : float tensor, (..., n_q, d)
        x_kv : float tensor, (..., n_k, d), optional
            `x_q` where left out: self-attention.
        mask : boolean tensor that broadcasts to (..., h, n_q, n_k), optional
            True where a query may look at a key.
        return_weights : bool, default False

        Returns
        -------
        output : float tensor, (..., n_q, d)
        weights : float tensor, (..., h, n_q, n_k)
            Only where they are asked for; what they were before dropout.

        Raises
        ------
        ValueError
            If a shape or dtype doesn't fit, or `mask` isn't boolean.
        """
        check_sequence("x_q", x_q, "(..., n_q, d)")
        check_features("x_q", x_q, self.d_model)
        if x_kv is not None:
            check_sequence("x_kv", x_kv, "(..., n_k, d)")
            check_features("x_kv", x_kv, self.d_model)
            check_leading("x_kv", x_kv, "x_q", x_q.shape[:-2], 2)
        parts = self._project(x_q, x_kv)  # (..., n, d) each
        q, k, v = (split_heads(x, self.n_heads) for x in parts)  # (..., h, n, d/h)
        if self.training and self.dropout.p > 0.0:
            heads, weights = self._attend_dropping(q, k, v, mask)
        else:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
        output = self.w_o(merge_heads(heads))  # (..., n_q, d)
        return (output, weights) if return_weights else output

    def _attend_dropping(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Attend with some of the weights dropped; return the weights as they were before."""
        check_attention_inputs(q, k, v, mask)
        scores = widen(q) @ widen(k).transpose(-2, -1) / sqrt(q.shape[-1])  # (..., h, n_q, n_k)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = softmax(scores)
        heads = self.dropout(weights) @ widen(v)  # (..., h, n_q, d/h)
        return heads.to(v.dtype), weights.to(q.dtype)

    def _project(self, x_q: Tensor, x_kv: Tensor | None) -> tuple[Tensor, ...]:
        """Return queries, keys and values, all heads side by side."""
        if not self.fused:
            source = x_q if x_kv is None else x_kv
            return self.w_q(x_q), self.w_k(source), self.w_v(source)
        if x_kv is None:
            return self.w_qkv(x_q).chunk(3, dim=-1)
        # Another is asked: a third of the matrix is for x_q, the rest for x_kv.
        d, w, b = self.d_model, self.w_qkv.weight, self.w_qkv.bias
        b_q, b_kv = (None, None) if b is None else (b[:d], b[d:])
        k, v = F.linear(x_kv, w[d:], b_kv).chunk(2, dim=-1)
        return F.linear(x_q, w[:d], b_q), k, v
