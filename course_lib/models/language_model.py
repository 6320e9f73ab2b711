"""A small neural language model over a window of tokens, in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.validation import check_dropout, check_sizes, check_windows

__all__ = ["WindowLanguageModel"]


class WindowLanguageModel(nn.Module):
    """Predict a token from the vectors of the last few, side by side.

    ``U tanh(H [v_1; …; v_m] + b_1) + b_2``, the network of Bengio et al. without its direct
    connections from input to output. Dropout is later than theirs.

    Parameters
    ----------
    vocab_size : int
    context : int
        How many tokens it looks at.
    d_model : int
        Width of a token's vector.
    d_hidden : int
        Width of the hidden layer.
    dropout : float, default 0
        Share of the hidden units, and of the entries of tokens' vectors half that share, that a
        training step sets to 0. At least 0 and below 1.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `dropout` is out of range.

    References
    ----------
    Bengio, Ducharme, Vincent and Jauvin, "A neural probabilistic language model", 2003, equation 1.

    Examples
    --------
    >>> model = WindowLanguageModel(vocab_size=10, context=3, d_model=4, d_hidden=8)
    >>> model(torch.tensor([[1, 1, 5], [1, 5, 6]])).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        vocab_size: int,
        context: int,
        d_model: int,
        d_hidden: int,
        dropout: float = 0.0,
    ) -> None:
        check_sizes(vocab_size=vocab_size, context=context)
        check_sizes(d_model=d_model, d_hidden=d_hidden)
        check_dropout(dropout)
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.hidden = nn.Linear(context * d_model, d_hidden)
        self.output = nn.Linear(d_hidden, vocab_size)
        self.drop_embedding = nn.Dropout(dropout / 2)
        self.drop_hidden = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of the next token.

        Parameters
        ----------
        ids : integer tensor, (b, context)
            The last tokens, the latest last.

        Returns
        -------
        float tensor, (b, vocab_size)

        Raises
        ------
        ValueError
            If `ids` has another shape or dtype, or holds what isn't an id.
        """
        check_windows(ids, self.context, self.embedding.num_embeddings)
        x = self.drop_embedding(self.embedding(ids))  # (b, context, d_model)
        hidden = torch.tanh(self.hidden(x.flatten(1)))  # (b, d_hidden)
        return self.output(self.drop_hidden(hidden))  # (b, vocab_size)
