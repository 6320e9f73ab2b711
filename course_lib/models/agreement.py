"""Two small classifiers that read the beginning of a sentence and choose the form of its verb.

Both turn tokens into vectors, mix those of one sentence into the last token's vector, and read the
answer off that one with one matrix. They differ in how the mixing is done: by a recurrent network
that carries a state from token to token, or by one layer of self-attention in which the last token
asks all others at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.blocks.attention_scores import plain_self_attention
from course_lib.validation import (
    check_embedded,
    check_ids,
    check_positive_int,
    describe,
)

__all__ = ["AttentionClassifier", "GruClassifier"]


class GruClassifier(nn.Module):
    """Embeddings, one GRU, and two logits from its state after the last token.

    Parameters
    ----------
    vocab_size : int
    d_model : int
        Width of embeddings and of the state.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014
    (arXiv:1406.1078).

    Examples
    --------
    >>> model = GruClassifier(vocab_size=10, d_model=4)
    >>> model(torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1])).shape
    torch.Size([2, 2])
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        check_positive_int("vocab_size", vocab_size)
        check_positive_int("d_model", d_model)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.gru = nn.GRU(d_model, d_model, batch_first=True)
        self.head = nn.Linear(d_model, 2)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits of "was" and "were".

        Parameters
        ----------
        ids : integer tensor, (b, n)
            Tokens; what stands behind a sentence's length is never looked at.
        lengths : integer tensor, (b,)
            Numbers of real tokens, from 1 to n.

        Returns
        -------
        float tensor, (b, 2)

        Raises
        ------
        ValueError
            If shapes or dtypes don't fit, an id isn't in the vocabulary, or a length isn't between
            1 and n.
        """
        _check_batch(ids, lengths, self.embedding.num_embeddings)
        states, _ = self.gru(self.embedding(ids))  # (b, n, d)
        return self.head(_last(states, lengths))


class AttentionClassifier(nn.Module):
    """Embeddings plus learned positions, one layer of plain self-attention, and two logits.

    The answer is read off the output at the last token. The layer has no weights of its own: what
    looks at what is learned in the embeddings.

    Parameters
    ----------
    vocab_size : int
    d_model : int
        Width of embeddings and positions.
    max_length : int
        Number of positions that are learned: the longest sentence.
    positions : bool, default True
        Without them the layer can't tell in which order the tokens stand.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    Examples
    --------
    >>> model = AttentionClassifier(vocab_size=10, d_model=4, max_length=5)
    >>> ids, lengths = torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1])
    >>> logits, weights = model(ids, lengths, return_weights=True)
    >>> logits.shape, weights[1].tolist()
    (torch.Size([2, 2]), [1.0, 0.0, 0.0])
    """

    def __init__(
        self, vocab_size: int, d_model: int, max_length: int, positions: bool = True
    ) -> None:
        super().__init__()
        check_positive_int("vocab_size", vocab_size)
        check_positive_int("d_model", d_model)
        check_positive_int("max_length", max_length)
        self.max_length = max_length
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_length, d_model) if positions else None
        self.head = nn.Linear(d_model, 2)
        # Scores are dot products of these vectors, and the largest is a token's with itself. Drawn
        # this short, it stays below 1: every token begins by looking at all tokens evenly.
        with torch.no_grad():
            for table in (self.embedding, self.positions):
                if table is not None:
                    table.weight.normal_(std=0.5 / d_model**0.5)

    def forward(
        self, ids: Tensor, lengths: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the logits of "was" and "were", and what the last token looked at if wanted.

        Parameters
        ----------
        ids : integer tensor, (b, n)
            Tokens; what stands behind a sentence's length is never looked at.
        lengths : integer tensor, (b,)
            Numbers of real tokens, from 1 to n.
        return_weights : bool, default False

        Returns
        -------
        logits : float tensor, (b, 2)
        weights : float tensor, (b, n), if wanted
            Of the last token's question: 0 for padding, each row sums to 1.

        Raises
        ------
        ValueError
            If shapes or dtypes don't fit, n is above `max_length`, an id isn't in the vocabulary,
            or a length isn't between 1 and n.
        """
        _check_batch(ids, lengths, self.embedding.num_embeddings)
        n = ids.shape[1]
        if n > self.max_length:
            raise ValueError(f"ids must have at most {self.max_length} tokens a row; got {n}")
        x = self.embedding(ids)  # (b, n, d)
        if self.positions is not None:
            x = x + self.positions.weight[:n]
        real = torch.arange(n, device=ids.device) < lengths[:, None]  # (b, n)
        output, weights = plain_self_attention(x, real[:, None, :])
        logits = self.head(_last(output, lengths))
        return (logits, _last(weights, lengths)) if return_weights else logits


def _last(rows: Tensor, lengths: Tensor) -> Tensor:
    """Return what stands at each sentence's last real token: (b, n, ...) to (b, ...)."""
    return rows[torch.arange(len(rows), device=rows.device), lengths - 1]


def _check_batch(ids: Any, lengths: Any, vocab_size: int) -> None:
    """Raise unless tokens and lengths fit together."""
    check_embedded("ids", ids, "(b, n)")
    if len(ids.shape) != 2 or 0 in ids.shape:
        raise ValueError(f"ids must have a shape (b, n), b and n ≥ 1; got {tuple(ids.shape)}")
    check_ids("ids", ids, vocab_size)
    check_embedded("lengths", lengths, "(b,)")
    if lengths.shape != ids.shape[:1]:
        raise ValueError(
            f"lengths must have one entry for each of the {len(ids)} rows of ids; "
            f"got {describe(lengths)}"
        )
    if not bool(((lengths >= 1) & (lengths <= ids.shape[1])).all()):
        raise ValueError(
            f"lengths must be whole numbers from 1 to {ids.shape[1]}; got {lengths.tolist()}"
        )
