"""One vector for a sentence, and the nearest ones among many, in PyTorch.

Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.precision import widen
from course_lib.validation import check_filled, check_pooling, check_search, check_vectors

__all__ = ["cosine_search", "cosine_similarity", "mean_pooling", "unit_length"]


def mean_pooling(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of a sentence's real tokens.

    Parameters
    ----------
    hidden : float tensor, (..., n, d)
        What an encoder made of the tokens.
    mask : boolean tensor, (..., n)
        True at real tokens, False at padding.

    Returns
    -------
    float tensor, (..., d)
        0 where no token is real.

    Raises
    ------
    ValueError
        If `hidden` isn't a sequence of vectors, or `mask` isn't boolean or of another shape.

    References
    ----------
    Reimers and Gurevych, "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks", 2019
    (arXiv:1908.10084), section 3.

    Examples
    --------
    >>> hidden = torch.tensor([[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]])
    >>> mean_pooling(hidden, torch.tensor([True, True, False]))
    tensor([2., 3.])
    """
    check_pooling(hidden, mask)
    total = widen(hidden).masked_fill(~mask[..., None], 0.0).sum(dim=-2)  # (..., d)
    count = mask.sum(dim=-1, keepdim=True)  # (..., 1)
    return (total / count.clamp(min=1)).to(hidden.dtype)


def unit_length(x: Tensor) -> Tensor:
    """Divide every vector by its length, so that dot products are cosines.

    Parameters
    ----------
    x : float tensor, (..., d)

    Returns
    -------
    float tensor, (..., d)
        A vector of zeros stays one.

    Raises
    ------
    ValueError
        If `x` is not floating-point, or is empty.

    Examples
    --------
    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    check_filled("x", x, "(..., d)")
    wide = widen(x)
    largest = wide.abs().amax(dim=-1, keepdim=True)  # so squares don't overflow
    scaled = wide / torch.where(largest == 0, 1, largest)
    squares = (scaled**2).sum(dim=-1, keepdim=True)  # at least 1, or 0
    return (scaled / squares.clamp(min=1).sqrt()).to(x.dtype)


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of the angle between every two vectors.

    Parameters
    ----------
    a, b : float tensors, (..., m, d) and (..., n, d)
        Vectors as rows.

    Returns
    -------
    float tensor, (..., m, n)
        From −1 to 1; 0 where a vector is 0.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an argument is empty.

    Examples
    --------
    >>> a, b = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 1.0], [-3.0, 0.0]])
    >>> cosine_similarity(a, b)
    tensor([[ 1.0000,  0.7071, -1.0000]])
    """
    check_vectors("a", a, "b", b)
    dtype = a.dtype
    a, b = unit_length(widen(a)), unit_length(widen(b))
    return (a @ b.transpose(-2, -1)).to(dtype)


def cosine_search(query: Tensor, documents: Tensor, k: int = 5) -> tuple[Tensor, Tensor]:
    """Find the k documents whose vectors are nearest in direction to that of a query.

    Parameters
    ----------
    query : float tensor, (..., d)
    documents : float tensor, (n, d)
    k : int, default 5
        At most n.

    Returns
    -------
    indices : int64 tensor, (..., k)
        Rows of `documents`, the nearest first; of equal ones the earlier first.
    scores : float tensor, (..., k)
        Their cosines.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, an argument is empty, or there are fewer than
        `k` documents.

    Examples
    --------
    >>> documents = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    >>> indices, scores = cosine_search(torch.tensor([0.0, 1.0]), documents, k=2)
    >>> indices.tolist()
    [1, 2]
    """
    check_search(query, documents, k)
    rows = query.reshape(-1, query.shape[-1])  # (m, d)
    scores = cosine_similarity(rows, documents)  # (m, n)
    best, order = scores.sort(dim=-1, descending=True, stable=True)
    shape = (*query.shape[:-1], k)
    return order[:, :k].reshape(shape), best[:, :k].reshape(shape)
