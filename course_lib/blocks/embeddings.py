"""Tokens to vectors and vectors to scores of tokens, by one table, in PyTorch.

A table has one row for each token of the vocabulary. Half-precision input is computed in single
precision and returned in half; a look-up computes nothing.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from course_lib.precision import widen
from course_lib.validation import (
    check_at_least,
    check_ids,
    check_lookup,
    check_lookup_gradient,
    check_sizes,
    check_tied,
    check_whole,
)

__all__ = [
    "TokenEmbedding",
    "embedding",
    "embedding_backward",
    "one_hot",
    "tied_logits",
]


def one_hot(ids: Tensor, size: int) -> Tensor:
    """Return a row for each id that is 1 at the id and 0 elsewhere.

    Parameters
    ----------
    ids : integer tensor, (...)
    size : int
        Number of different ids, |V|.

    Returns
    -------
    float tensor, (..., size)
        Of PyTorch's default dtype.

    Raises
    ------
    ValueError
        If `ids` doesn't hold whole numbers from 0 to size − 1, or `size` isn't one of at least 1.

    Examples
    --------
    >>> one_hot(torch.tensor([2, 0]), 3)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    check_at_least("size", size, 1)
    check_whole("ids", ids, "(...)")
    check_ids("ids", ids, size)
    equal = ids.long()[..., None] == torch.arange(size, device=ids.device)
    return equal.to(torch.get_default_dtype())  # (..., size)


def embedding(ids: Tensor, table: Tensor) -> Tensor:
    """Return the row of the table that belongs to each id.

    The same as ``one_hot(ids) E``, without the product.

    Parameters
    ----------
    ids : integer tensor, (...)
    table : float tensor, (V, d)
        E: one row for each token.

    Returns
    -------
    float tensor, (..., d)
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
    >>> embedding(torch.tensor([1, 1, 0]), torch.tensor([[0.5, 0.0], [0.1, 0.2]]))
    tensor([[0.1000, 0.2000],
            [0.1000, 0.2000],
            [0.5000, 0.0000]])
    """
    check_lookup(ids, table)
    return table[ids.long()]  # (..., d)


def embedding_backward(ids: Tensor, d_output: Tensor, n_rows: int) -> Tensor:
    """Carry a gradient from a look-up's output back to the table.

    ``dE = one_hot(ids)ᵀ dX``, summed over all positions: row i gets the sum of the gradients of
    all places where the id is i, and 0 where there is none. Computed by adding each gradient to
    its row (scatter-add), without the product.

    Parameters
    ----------
    ids : integer tensor, (...)
        What was looked up.
    d_output : float tensor, (..., d)
        Gradient of the loss with respect to what `embedding` returned.
    n_rows : int
        Rows of the table, V.

    Returns
    -------
    float tensor, (n_rows, d)

    Raises
    ------
    ValueError
        If there isn't one gradient for each id, or an id isn't one of the rows.

    Examples
    --------
    >>> embedding_backward(torch.tensor([2, 0, 2]), torch.tensor([[1.0], [5.0], [3.0]]), 4)
    tensor([[5.],
            [0.],
            [4.],
            [0.]])
    """
    check_lookup_gradient(ids, d_output, n_rows)
    rows = widen(d_output).reshape(-1, d_output.shape[-1])  # one for each id
    d_table = rows.new_zeros(n_rows, rows.shape[1])
    # `d_table[ids] += rows` would keep one gradient of an id that comes twice.
    return d_table.index_add(0, ids.long().flatten(), rows).to(d_output.dtype)


def tied_logits(hidden: Tensor, table: Tensor) -> Tensor:
    """Score every token of the vocabulary by its own embedding.

    ``hidden Eᵀ``: the output projection that needs no parameters beyond the embeddings'.

    Parameters
    ----------
    hidden : float tensor, (..., d)
        What a model made of each position.
    table : float tensor, (V, d)
        E, the rows that tokens were embedded by.

    Returns
    -------
    float tensor, (..., V)

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
    >>> tied_logits(torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]))
    tensor([1., 2., 9.])
    """
    check_tied(hidden, table)
    return (widen(hidden) @ widen(table).T).to(hidden.dtype)  # (..., V)


class TokenEmbedding(nn.Module):
    """A trained table of embeddings, read by ids, and by `logits`.

    Rows are drawn with the standard deviation 1/√d, so that their length is about 1 and a score
    by `logits` about as large as an entry of what is scored. Read as input they are multiplied by
    √d: entries of about 1, to which positions with entries between −1 and 1 can be added.

    Parameters
    ----------
    vocab_size : int
    d_model : int
    scale : bool, default True
        Whether what is looked up is multiplied by √d.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.4.

    Examples
    --------
    >>> tokens = TokenEmbedding(vocab_size=10, d_model=4)
    >>> x = tokens(torch.tensor([[3, 1, 4]]))
    >>> torch.equal(x[0, 1], 2 * tokens.table[1]), tokens.logits(x).shape
    (True, torch.Size([1, 3, 10]))
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        scale: bool = True,
    ) -> None:
        check_sizes(vocab_size=vocab_size, d_model=d_model)
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab_size, d_model) / sqrt(d_model))
        self.factor = sqrt(d_model) if scale else 1.0

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of tokens.

        Parameters
        ----------
        ids : integer tensor, (...)

        Returns
        -------
        float tensor, (..., d_model)

        Raises
        ------
        ValueError
            If `ids` doesn't hold ids of the vocabulary.
        """
        return embedding(ids, self.table) * self.factor

    def logits(self, hidden: Tensor) -> Tensor:
        """Score all tokens of the vocabulary by the same table, unscaled.

        Parameters
        ----------
        hidden : float tensor, (..., d_model)

        Returns
        -------
        float tensor, (..., vocab_size)

        Raises
        ------
        ValueError
            If `hidden` hasn't the width or the dtype of the table.
        """
        return tied_logits(hidden, self.table)
