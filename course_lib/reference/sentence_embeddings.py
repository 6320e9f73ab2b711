"""One vector for a sentence, and the nearest ones among many, in numpy.

Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.validation import check_filled, check_pooling, check_search, check_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cosine_search", "cosine_similarity", "mean_pooling", "unit_length"]


def mean_pooling(hidden: NDArray, mask: NDArray) -> NDArray:
    """Return the mean of a sentence's real tokens.

    Parameters
    ----------
    hidden : float array, (..., n, d)
        What an encoder made of the tokens.
    mask : boolean array, (..., n)
        True at real tokens, False at padding.

    Returns
    -------
    float array, (..., d)
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
    >>> hidden = np.array([[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]])
    >>> mean_pooling(hidden, np.array([True, True, False]))
    array([2., 3.])
    """
    check_pooling(hidden, mask)
    total = np.where(mask[..., None], widen(hidden), 0.0).sum(axis=-2)  # (..., d)
    count = mask.sum(axis=-1, keepdims=True)  # (..., 1)
    return (total / np.maximum(count, 1)).astype(hidden.dtype)


def unit_length(x: NDArray) -> NDArray:
    """Divide every vector by its length, so that dot products are cosines.

    Parameters
    ----------
    x : float array, (..., d)

    Returns
    -------
    float array, (..., d)
        A vector of zeros stays one.

    Raises
    ------
    ValueError
        If `x` is not floating-point, or is empty.

    Examples
    --------
    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    check_filled("x", x, "(..., d)")
    wide = widen(x)
    largest = np.abs(wide).max(axis=-1, keepdims=True)  # so squares don't overflow
    scaled = wide / np.where(largest == 0, 1, largest)
    squares = (scaled**2).sum(axis=-1, keepdims=True)  # at least 1, or 0
    return (scaled / np.sqrt(np.maximum(squares, 1))).astype(x.dtype)


def cosine_similarity(a: NDArray, b: NDArray) -> NDArray:
    """Return the cosine of the angle between every two vectors.

    Parameters
    ----------
    a, b : float arrays, (..., m, d) and (..., n, d)
        Vectors as rows.

    Returns
    -------
    float array, (..., m, n)
        From −1 to 1; 0 where a vector is 0.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an argument is empty.

    Examples
    --------
    >>> a, b = np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0], [-3.0, 0.0]])
    >>> cosine_similarity(a, b).round(4)
    array([[ 1.    ,  0.7071, -1.    ]])
    """
    check_vectors("a", a, "b", b)
    dtype = a.dtype
    a, b = unit_length(widen(a)), unit_length(widen(b))
    return (a @ np.swapaxes(b, -1, -2)).astype(dtype)


def cosine_search(query: NDArray, documents: NDArray, k: int = 5) -> tuple[NDArray, NDArray]:
    """Find the k documents whose vectors are nearest in direction to that of a query.

    Parameters
    ----------
    query : float array, (..., d)
    documents : float array, (n, d)
    k : int, default 5
        At most n.

    Returns
    -------
    indices : int64 array, (..., k)
        Rows of `documents`, the nearest first; of equal ones the earlier first.
    scores : float array, (..., k)
        Their cosines.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, an argument is empty, or there are fewer than
        `k` documents.

    Examples
    --------
    >>> documents = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    >>> indices, scores = cosine_search(np.array([0.0, 1.0]), documents, k=2)
    >>> indices.tolist()
    [1, 2]
    """
    check_search(query, documents, k)
    rows = query.reshape(-1, query.shape[-1])  # (m, d)
    scores = cosine_similarity(rows, documents)  # (m, n)
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, axis=-1)
    shape = (*query.shape[:-1], k)
    return order.reshape(shape), best.reshape(shape)
