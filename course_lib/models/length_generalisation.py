"""A small language model that can be told about positions in four ways, in PyTorch.

It exists to be trained on short texts and read longer ones. All four ways share every other part:
sinusoidal and learned positions are added to the embeddings, rotary ones turn queries and keys in
every layer, and linear biases (ALiBi) are added to the scores.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.blocks.alibi import alibi_bias
from course_lib.blocks.attention import causal_mask
from course_lib.blocks.attention_scores import attend, dot_scores
from course_lib.blocks.embeddings import TokenEmbedding
from course_lib.blocks.feed_forward import FeedForward
from course_lib.blocks.multi_head import MultiHeadAttention, merge_heads, split_heads
from course_lib.blocks.normalization import LayerNorm
from course_lib.blocks.positions import LearnedPositions, SinusoidalPositions
from course_lib.blocks.residual import Residual
from course_lib.blocks.rotary import rotary_frequencies, rotate_half_split
from course_lib.validation import (
    check_choice,
    check_divides,
    check_embedded,
    check_even,
    check_sizes,
    describe,
)

__all__ = ["POSITIONS", "PositionedAttention", "PositionedLanguageModel", "loss_by_position"]

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi")


class PositionedAttention(MultiHeadAttention):
    """Causal multi-head self-attention that turns queries and keys, or adds a bias to the scores.

    Parameters
    ----------
    d_model : int
        Width of the tokens, in and out.
    n_heads : int
        h, which divides `d_model`.

    Raises
    ------
    ValueError
        If `n_heads` doesn't divide `d_model`.

    Examples
    --------
    >>> attention = PositionedAttention(d_model=8, n_heads=2)
    >>> attention(torch.zeros(3, 5, 8), frequencies=rotary_frequencies(4)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        frequencies: Tensor | None = None,
        attention_factor: float = 1.0,
        bias: Tensor | None = None,
        window: int | None = None,
    ) -> Tensor:
        """Let every token ask itself and those before it.

        Parameters
        ----------
        x : float tensor, (..., n, d)
        frequencies : float tensor, (d_rotated / 2,), optional
            Of rotary positions, which count from 0.
        attention_factor : float, default 1
            What queries and keys are multiplied by where they're turned.
        bias : float tensor that broadcasts to (..., h, n, n), optional
            Added to the scaled scores.
        window : int, optional
            How many tokens are looked at, the asking one included; all that came before where
            left out.

        Returns
        -------
        float tensor, (..., n, d)
        """
        n = x.shape[-2]
        q, k, v = (split_heads(y, self.n_heads) for y in self._project(x, None))  # (..., h, n, d/h)
        if frequencies is not None:
            positions = torch.arange(n, device=x.device)
            q = rotate_half_split(q, positions, frequencies) * attention_factor
            k = rotate_half_split(k, positions, frequencies) * attention_factor
        scores = dot_scores(q, k) / sqrt(q.shape[-1])  # (..., h, n, n)
        if bias is not None:
            scores = scores + bias
        mask = causal_mask(n).to(x.device)
        if window is not None:
            check_sizes(window=window)
            mask = mask.triu(1 - window)
        heads, _ = attend(scores, v, mask)
        return self.w_o(merge_heads(heads))


class PositionedLanguageModel(nn.Module):
    """Predict every next token of a text: embeddings, pre-norm blocks, and the embeddings again.

    Parameters
    ----------
    vocab_size : int
    d_model : int
    n_heads : int
    n_layers : int
    positions : str
        "sinusoidal", "learned", "rotary" or "alibi".
    max_length : int, optional
        Rows of the table of learned positions, and only of that.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, `n_heads` doesn't divide `d_model`,
        `positions` isn't one of the four, a head that would be turned has an odd width, or
        `max_length` is missing or given without need.

    References
    ----------
    Press, Smith and Lewis, "Train Short, Test Long", 2022 (arXiv:2108.12409), whose comparison
    this is on a small scale.

    Examples
    --------
    >>> model = PositionedLanguageModel(10, d_model=8, n_heads=2, n_layers=1, positions="rotary")
    >>> model(torch.tensor([[3, 1, 4]])).shape
    torch.Size([1, 3, 10])
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        n_layers: int,
        positions: str,
        max_length: int | None = None,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size=vocab_size, d_model=d_model, n_heads=n_heads, n_layers=n_layers)
        check_divides("n_heads", n_heads, "d_model", d_model)
        check_choice("positions", positions, POSITIONS)
        if positions == "rotary":
            check_even("d_model / n_heads", d_model // n_heads)
        if (max_length is None) == (positions == "learned"):
            need = "a whole number for" if max_length is None else "left out but for"
            raise ValueError(f"max_length must be {need} learned positions; got {max_length!r}")
        self.positions = positions
        self.n_heads = n_heads
        self.embedding = TokenEmbedding(vocab_size, d_model)
        self.added: nn.Module = nn.Identity()
        if positions == "sinusoidal":
            self.added = SinusoidalPositions(d_model)
        if max_length is not None:
            self.added = LearnedPositions(max_length, d_model)
        self.attention = nn.ModuleList(
            Residual(d_model, PositionedAttention(d_model, n_heads)) for _ in range(n_layers)
        )
        self.feed_forward = nn.ModuleList(
            Residual(d_model, FeedForward(d_model, 4 * d_model)) for _ in range(n_layers)
        )
        self.norm = LayerNorm(d_model)
        # No buffer: a model in half precision would round the frequencies.
        self.frequencies = rotary_frequencies(d_model // n_heads) if positions == "rotary" else None

    def forward(
        self,
        ids: Tensor,
        frequencies: Tensor | None = None,
        attention_factor: float = 1.0,
        window: int | None = None,
    ) -> Tensor:
        """Return the logits of the token after each one.

        Parameters
        ----------
        ids : integer tensor, (b, n)
        frequencies : float tensor, (d_head / 2,), optional
            Of rotary positions, in place of those that were trained.
        attention_factor : float, default 1
            What turned queries and keys are multiplied by.
        window : int, optional
            How many tokens each one looks at in every layer, itself included.

        Returns
        -------
        float tensor, (b, n, vocab_size)

        Raises
        ------
        ValueError
            If ids aren't (b, n) of the vocabulary, a text is longer than the table of learned
            positions, frequencies are given to a model that doesn't turn, or `window` isn't a
            whole number of at least 1.
        """
        check_embedded("ids", ids, "(b, n)")
        if len(ids.shape) != 2 or 0 in ids.shape:
            raise ValueError(f"ids must have a shape (b, n), b and n ≥ 1; got {tuple(ids.shape)}")
        if frequencies is None:
            frequencies = self.frequencies
        elif self.positions != "rotary":
            raise ValueError(
                f"frequencies must be left out where positions are {self.positions}; "
                f"got {describe(frequencies)}"
            )
        bias = None
        if self.positions == "alibi":
            bias = alibi_bias(self.n_heads, ids.shape[1]).to(ids.device)
        x = self.added(self.embedding(ids))  # (b, n, d)
        for attention, feed_forward in zip(self.attention, self.feed_forward, strict=True):
            x = attention(x, frequencies, attention_factor, bias, window)
            x = feed_forward(x)
        return self.embedding.logits(self.norm(x))


def loss_by_position(model: nn.Module, ids: Tensor, length: int, **options: object) -> Tensor:
    """Return the mean loss at each position of texts of a given length.

    Parameters
    ----------
    model : nn.Module
        From ids (b, n) to logits (b, n, vocab_size).
    ids : integer tensor, (m,)
        One long text; it is cut into pieces of `length`, and what is left over is dropped.
    length : int
    **options
        What the model takes besides.

    Returns
    -------
    float tensor, (length,)
        −log p of the next token in nats, with position + 1 tokens to go by.

    Raises
    ------
    ValueError
        If the text has less than ``length + 1`` tokens, or isn't a tensor of ids with one axis.

    Examples
    --------
    >>> model = PositionedLanguageModel(10, d_model=8, n_heads=2, n_layers=1, positions="alibi")
    >>> loss_by_position(model, torch.arange(10), length=4).shape
    torch.Size([4])
    """
    check_sizes(length=length)
    check_embedded("ids", ids, "(m,)")
    if len(ids.shape) != 1 or len(ids) <= length:
        raise ValueError(f"ids must be one row of more than {length}; got {describe(ids)}")
    n_texts = (len(ids) - 1) // length
    inputs = ids[: n_texts * length].view(n_texts, length)
    targets = ids[1 : n_texts * length + 1].view(n_texts, length)
    total = torch.zeros(length)
    with torch.no_grad():
        for x, y in zip(inputs.split(64), targets.split(64), strict=True):
            losses = F.cross_entropy(model(x, **options).transpose(1, 2), y, reduction="none")
            total += losses.sum(0)
    return total / n_texts
