"""Tokens to vectors and vectors to scores of tokens, by one table, in numpy.

A table has one row for each token of the vocabulary. Half-precision input is computed in single
precision and returned in half; a look-up computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.validation import (
    check_at_least,
    check_ids,
    check_lookup,
    check_lookup_gradient,
    check_tied,
    check_whole,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "embedding",
    "embedding_backward",
    "one_hot",
    "tied_logits",
]


def one_hot(ids: NDArray, size: int) -> NDArray:
    """Return a row for each id that is 1 at the id and 0 elsewhere.

    Parameters
    ----------
    ids : integer array, (...)
    size : int
        Number of different ids, |V|.

    Returns
    -------
    float64 array, (..., size)

    Raises
    ------
    ValueError
        If `ids` doesn't hold whole numbers from 0 to size − 1, or `size` isn't one of at least 1.

    Examples
    --------
    >>> one_hot(np.array([2, 0]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    check_at_least("size", size, 1)
    check_whole("ids", ids, "(...)")
    check_ids("ids", ids, size)
    return (np.arange(size) == np.asarray(ids)[..., None]).astype(np.float64)


def embedding(ids: NDArray, table: NDArray) -> NDArray:
    """Return the row of the table that belongs to each id.

    The same as ``one_hot(ids) E``, without the product.

    Parameters
    ----------
    ids : integer array, (...)
    table : float array, (V, d)
        E: one row for each token.

    Returns
    -------
    float array, (..., d)
        A copy: writing to it leaves the table as it is.

    Raises
    ------
    ValueError
        If `ids` doesn't hold whole numbers from 0 to V − 1, or `table` isn't (V, d).

    References
    ----------
    Bengio, Ducharme, Vincent and Jauvin, "A neural probabilistic language model", 2003, section 2.

    Examples
    --------
    >>> embedding(np.array([1, 1, 0]), np.array([[0.5, 0.0], [0.1, 0.2]]))
    array([[0.1, 0.2],
           [0.1, 0.2],
           [0.5, 0. ]])
    """
    check_lookup(ids, table)
    return table[np.asarray(ids)]  # (..., d)


def embedding_backward(ids: NDArray, d_output: NDArray, n_rows: int) -> NDArray:
    """Carry a gradient from a look-up's output back to the table.

    ``dE = one_hot(ids)ᵀ dX``, summed over all positions: row i gets the sum of the gradients of
    all places where the id is i, and 0 where there is none. Computed by adding each gradient to
    its row (scatter-add), without the product.

    Parameters
    ----------
    ids : integer array, (...)
        What was looked up.
    d_output : float array, (..., d)
        Gradient of the loss with respect to what `embedding` returned.
    n_rows : int
        Rows of the table, V.

    Returns
    -------
    float array, (n_rows, d)

    Raises
    ------
    ValueError
        If there isn't one gradient for each id, or an id isn't one of the rows.

    Examples
    --------
    >>> embedding_backward(np.array([2, 0, 2]), np.array([[1.0], [5.0], [3.0]]), 4)
    array([[5.],
           [0.],
           [4.],
           [0.]])
    """
    check_lookup_gradient(ids, d_output, n_rows)
    d_out = widen(d_output)
    d_table = np.zeros((n_rows, d_out.shape[-1]), dtype=d_out.dtype)
    # `d_table[ids] += d_out` would keep one gradient of an id that comes twice.
    np.add.at(d_table, np.asarray(ids), d_out)
    return d_table.astype(d_output.dtype)


def tied_logits(hidden: NDArray, table: NDArray) -> NDArray:
    """Score every token of the vocabulary by its own embedding.

    ``hidden Eᵀ``: the output projection that needs no parameters beyond the embeddings'.

    Parameters
    ----------
    hidden : float array, (..., d)
        What a model made of each position.
    table : float array, (V, d)
        E, the rows that tokens were embedded by.

    Returns
    -------
    float array, (..., V)

    Raises
    ------
    ValueError
        If the widths or dtypes differ, or `table` isn't (V, d).

    References
    ----------
    Press and Wolf, "Using the Output Embedding to Improve Language Models", 2017
    (arXiv:1608.05859).

    Examples
    --------
    >>> tied_logits(np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]))
    array([1., 2., 9.])
    """
    check_tied(hidden, table)
    return (widen(hidden) @ widen(table).T).astype(hidden.dtype)  # (..., V)
