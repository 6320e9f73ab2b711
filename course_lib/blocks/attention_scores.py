"""Attention between an encoder and a decoder, and a sequence attending to itself, in PyTorch.

Rows of ``queries`` are what asks (in translation the decoder's states h_t), rows of ``keys`` are
what is asked (the encoder's states s_k). Every function answers all queries at once.
Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.blocks.attention import softmax
from course_lib.precision import widen
from course_lib.validation import (
    check_additive_inputs,
    check_attend_inputs,
    check_bilinear_inputs,
    check_dot_inputs,
    check_self_attention_inputs,
)

__all__ = [
    "additive_scores",
    "attend",
    "bilinear_scores",
    "dot_scores",
    "plain_self_attention",
]


def additive_scores(
    queries: Tensor, keys: Tensor, w_query: Tensor, w_key: Tensor, v: Tensor
) -> Tensor:
    """Score every query against every key by a network of one hidden layer.

    ``score(h_t, s_k) = v · tanh(h_t W_query + s_k W_key)`` (Bahdanau et al. 2014, appendix A.1.2).

    Parameters
    ----------
    queries : float tensor, (..., n_q, d_q)
    keys : float tensor, (..., n_k, d_k)
    w_query : float tensor, (d_q, d_a)
        Takes queries to the hidden layer.
    w_key : float tensor, (d_k, d_a)
        Takes keys to the hidden layer.
    v : float tensor, (d_a,)
        Takes the hidden layer to a number.

    Returns
    -------
    float tensor, (..., n_q, n_k)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a sequence is empty.

    References
    ----------
    Bahdanau, Cho and Bengio, 2014 (arXiv:1409.0473), section 3.1 and appendix A.1.2.

    Examples
    --------
    >>> one = torch.ones(1, 1)
    >>> additive_scores(one, torch.tensor([[0.0], [-1.0]]), one, one, one[0])
    tensor([[0.7616, 0.0000]])
    """
    check_additive_inputs(queries, keys, w_query, w_key, v)
    from_queries = widen(queries) @ widen(w_query)  # (..., n_q, d_a)
    from_keys = widen(keys) @ widen(w_key)  # (..., n_k, d_a)
    hidden = torch.tanh(from_queries[..., :, None, :] + from_keys[..., None, :, :])
    scores = hidden @ widen(v)  # (..., n_q, n_k, d_a) · (d_a,)
    return scores.to(queries.dtype)


def dot_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Score every query against every key by their dot product.

    ``score(h_t, s_k) = h_t · s_k`` (Luong et al. 2015, equation 8, "dot"); for all at once
    ``H Sᵀ``.

    Parameters
    ----------
    queries : float tensor, (..., n_q, d)
    keys : float tensor, (..., n_k, d)

    Returns
    -------
    float tensor, (..., n_q, n_k)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a sequence is empty.

    References
    ----------
    Luong, Pham and Manning, "Effective Approaches to Attention-based Neural Machine Translation",
    2015 (arXiv:1508.04025).

    Examples
    --------
    >>> dot_scores(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([[11., 17.]])
    """
    check_dot_inputs(queries, keys)
    return (widen(queries) @ widen(keys).transpose(-2, -1)).to(queries.dtype)


def bilinear_scores(queries: Tensor, keys: Tensor, w: Tensor) -> Tensor:
    """Score every query against every key by a dot product through a matrix.

    ``score(h_t, s_k) = h_t · W s_k`` (Luong et al. 2015, equation 8, "general"); for all at once
    ``H W Sᵀ``.

    Parameters
    ----------
    queries : float tensor, (..., n_q, d_q)
    keys : float tensor, (..., n_k, d_k)
    w : float tensor, (d_q, d_k)

    Returns
    -------
    float tensor, (..., n_q, n_k)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a sequence is empty.

    References
    ----------
    Luong, Pham and Manning, "Effective Approaches to Attention-based Neural Machine Translation",
    2015 (arXiv:1508.04025).

    Examples
    --------
    >>> w = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> bilinear_scores(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0, 5.0]]), w)
    tensor([[13.]])
    """
    check_bilinear_inputs(queries, keys, w)
    through_w = widen(queries) @ widen(w)  # (..., n_q, d_k)
    scores = through_w @ widen(keys).transpose(-2, -1)  # (..., n_q, n_k)
    return scores.to(queries.dtype)


def attend(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Turn scores into weights and take each query's weighted mean of values.

    ``context_t = Σ_k softmax(scores_t)_k values_k`` (Bahdanau et al. 2014, equations 5 and 6).

    Parameters
    ----------
    scores : float tensor, (..., n_q, n_k)
    values : float tensor, (..., n_k, d_v)
        In translation the encoder's states, which are the keys as well.
    mask : boolean tensor that broadcasts to (..., n_q, n_k), optional
        True where a query may look. A source with padding needs one: of shape (b, 1, n_k) it hides
        the padding from all queries.

    Returns
    -------
    context : float tensor, (..., n_q, d_v)
    weights : float tensor, (..., n_q, n_k)
        Each row sums to 1. A query that may look nowhere gets weights 0 and context 0.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a sequence is empty, or `mask` isn't boolean.

    References
    ----------
    Bahdanau, Cho and Bengio, 2014 (arXiv:1409.0473), section 3.1 and appendix A.1.2.

    Examples
    --------
    >>> values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> context, weights = attend(torch.zeros(1, 3), values, torch.tensor([True, True, False]))
    >>> context
    tensor([[2., 3.]])
    """
    check_attend_inputs(scores, values, mask)
    wide = widen(scores)
    if mask is not None:
        wide = wide.masked_fill(~mask, -torch.inf)
    weights = softmax(wide)  # (..., n_q, n_k)
    context = weights @ widen(values)  # (..., n_q, d_v)
    return context.to(values.dtype), weights.to(scores.dtype)


def plain_self_attention(
    x: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Let every token of a sequence look at all its tokens, itself included.

    ``softmax(X Xᵀ) X``: nothing is learned, nothing is scaled. Rows of X are queries, keys and
    values at once.

    Parameters
    ----------
    x : float tensor, (..., n, d)
    mask : boolean tensor that broadcasts to (..., n, n), optional
        True where a token may look.

    Returns
    -------
    output : float tensor, (..., n, d)
    weights : float tensor, (..., n, n)
        Each row sums to 1. A token that may look nowhere gets weights 0 and output 0.

    Raises
    ------
    ValueError
        If `x` is not floating-point or empty, or `mask` isn't boolean or doesn't broadcast.

    References
    ----------
    Cheng, Dong and Lapata, "Long Short-Term Memory-Networks for Machine Reading", 2016
    (arXiv:1601.06733), who called a sequence's attention to itself intra-attention.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> plain_self_attention(x)[1]
    tensor([[0.7311, 0.2689],
            [0.2689, 0.7311]])
    """
    check_self_attention_inputs(x, mask)
    wide = widen(x)
    output, weights = attend(dot_scores(wide, wide), wide, mask)
    return output.to(x.dtype), weights.to(x.dtype)
