"""A recurrent encoder and a recurrent decoder, with attention between them or without.

The model of Bahdanau, Cho and Bengio, 2014 (arXiv:1409.0473), in the order of Luong, Pham and
Manning, 2015 (arXiv:1508.04025), section 3.1: what a decoder state gets from the source enters the
prediction and not the next state. So all target positions can ask at once while training.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from course_lib.blocks.attention_scores import attend
from course_lib.data.vocabulary import BOS, EOS, PAD
from course_lib.validation import (
    check_at_least,
    check_dot_inputs,
    check_float,
    check_positive_int,
    check_same_dtype,
    describe,
)

__all__ = ["RecurrentSeq2Seq", "Source"]

ATTENTIONS = (None, "dot", "bilinear", "additive")


class Source(NamedTuple):
    """What the decoder may know of the source, computed once for all its steps.

    Parameters
    ----------
    states : float tensor, (b, n_src, d_model)
        One for each token, zeros at padding.
    keys : float tensor, (b, n_src, d_model)
        The part of the scores that doesn't depend on the decoder.
    mask : boolean tensor, (b, 1, n_src)
        True at tokens, False at padding.
    summary : float tensor, (b, d_model)
        The last state of each direction: forwards at the last token, backwards at the first.
    """

    states: Tensor
    keys: Tensor
    mask: Tensor
    summary: Tensor


class RecurrentSeq2Seq(nn.Module):
    """Read the source by a GRU in both directions, write the target by another.

    The encoder's states are the rows of S (n_src, d_model), the decoder's those of H
    (n_tgt, d_model). A prediction is made from a decoder state and a context: with attention the
    mean of the rows of S that the state asks for, without it the encoder's last states in both
    directions, the same at every step. Everything else is the same, so the two can be compared.

    Parameters
    ----------
    src_vocab_size, tgt_vocab_size : int
        Numbers of tokens. Ids 0, 1 and 2 are padding, <bos> and <eos>, which a target needs.
    d_model : int
        Width of embeddings and states. Even: each direction of the encoder has half.
    attention : {None, "dot", "bilinear", "additive"}, default None
        How a decoder state is scored against an encoder state.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1 (3 for `tgt_vocab_size`), `d_model` is odd, or
        `attention` is none of the four.

    References
    ----------
    Bahdanau et al. 2014 (arXiv:1409.0473), section 3 and appendix A; Luong et al. 2015
    (arXiv:1508.04025), equations 5 to 8.

    Examples
    --------
    >>> model = RecurrentSeq2Seq(12, 9, d_model=16, attention="dot")
    >>> src = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
    >>> model(src, torch.tensor([4, 2]), torch.tensor([[1, 4], [1, 5]])).shape
    torch.Size([2, 2, 9])
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        d_model: int,
        attention: Literal["dot", "bilinear", "additive"] | None = None,
    ) -> None:
        super().__init__()
        check_positive_int("src_vocab_size", src_vocab_size)
        check_at_least("tgt_vocab_size", tgt_vocab_size, EOS + 1)
        check_positive_int("d_model", d_model)
        if d_model % 2:
            raise ValueError(f"d_model must be even, half for each direction; got {d_model}")
        if attention not in ATTENTIONS:
            raise ValueError(f"attention must be one of {ATTENTIONS}; got {attention!r}")
        self.attention = attention
        self.src_embedding = nn.Embedding(src_vocab_size, d_model)
        self.encoder = nn.GRU(d_model, d_model // 2, batch_first=True, bidirectional=True)
        self.start = nn.Linear(d_model, d_model)
        self.tgt_embedding = nn.Embedding(tgt_vocab_size, d_model)
        self.decoder = nn.GRU(d_model, d_model, batch_first=True)
        self.combine = nn.Linear(2 * d_model, d_model)
        self.predict = nn.Linear(d_model, tgt_vocab_size)
        # Last, so that models of one seed start alike but for the scores.
        if attention == "additive":
            self.w_query = nn.Parameter(torch.randn(d_model, d_model) / sqrt(d_model))
            self.w_key = nn.Parameter(torch.randn(d_model, d_model) / sqrt(d_model))
            self.v = nn.Parameter(torch.randn(d_model) / sqrt(d_model))
        if attention == "bilinear":
            self.w = nn.Parameter(torch.randn(d_model, d_model) / sqrt(d_model))

    def encode(self, src: Tensor, src_lengths: Tensor) -> Source:
        """Read the source; what lies behind a sequence's length changes nothing.

        Parameters
        ----------
        src : int64 tensor, (b, n_src)
        src_lengths : int64 tensor, (b,)

        Returns
        -------
        Source

        Raises
        ------
        ValueError
            If the shapes, dtypes or lengths don't fit, or an id isn't in the vocabulary.
        """
        _check_ids("src", src, "(b, n_src)", self.src_embedding.num_embeddings)
        _check_lengths(src_lengths, src)
        packed = pack_padded_sequence(
            self.src_embedding(src), src_lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        packed_states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(packed_states, True, total_length=src.shape[1])
        positions = torch.arange(src.shape[1], device=src.device)
        mask = positions < src_lengths.to(src.device)[:, None, None]  # (b, 1, n_src)
        return Source(states, self._keys(states), mask, torch.cat((last[0], last[1]), dim=-1))

    def keys(self, states: Tensor) -> Tensor:
        """Return the part of the scores that encoder states give alone.

        Parameters
        ----------
        states : float tensor, (b, n_src, d_model)

        Returns
        -------
        float tensor, (b, n_src, d_model)

        Raises
        ------
        ValueError
            If `states` has another shape or dtype.
        """
        self._check_rows("states", states)
        return self._keys(states)

    def _keys(self, states: Tensor) -> Tensor:
        if self.attention == "additive":
            return states @ self.w_key
        if self.attention == "bilinear":
            return states @ self.w.T  # h W sᵀ = h (s Wᵀ)ᵀ
        return states

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Score decoder states against what `keys` has made of encoder states.

        Parameters
        ----------
        queries : float tensor, (b, n_tgt, d_model)
        keys : float tensor, (b, n_src, d_model)

        Returns
        -------
        float tensor, (b, n_tgt, n_src)

        Raises
        ------
        ValueError
            If shapes or dtypes don't fit.
        """
        self._check_rows("queries", queries)
        self._check_rows("keys", keys)
        check_dot_inputs(queries, keys)
        return self._scores(queries, keys)

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.attention == "additive":
            asked = (queries @ self.w_query)[:, :, None, :]  # (b, n_tgt, 1, d_model)
            return torch.tanh(asked + keys[:, None, :, :]) @ self.v
        return queries @ keys.transpose(-2, -1)

    def decode(
        self, tgt_in: Tensor, state: Tensor, source: Source
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Take the decoder through some tokens, one or many.

        Parameters
        ----------
        tgt_in : int64 tensor, (b, n_tgt)
        state : float tensor, (1, b, d_model)
            The state before the first of them.
        source : Source

        Returns
        -------
        logits : float tensor, (b, n_tgt, tgt_vocab_size)
        state : float tensor, (1, b, d_model)
            The state after the last token.
        weights : float tensor, (b, n_tgt, n_src), or None without attention

        Raises
        ------
        ValueError
            If shapes or dtypes don't fit, or an id isn't in the vocabulary.
        """
        self._check_source(source)
        _check_ids("tgt_in", tgt_in, "(b, n_tgt)", self.tgt_embedding.num_embeddings)
        b, d_model = source.summary.shape
        if len(tgt_in) != b:
            raise ValueError(f"tgt_in must have as many rows as source, {b}; got {len(tgt_in)}")
        self._check_float("state", state, (1, b, d_model))
        return self._decode(tgt_in, state, source)

    def _decode(
        self, tgt_in: Tensor, state: Tensor, source: Source
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        queries, state = self.decoder(self.tgt_embedding(tgt_in), state)  # H: (b, n_tgt, d_model)
        weights: Tensor | None = None
        if self.attention is None:
            context = source.summary[:, None, :].expand_as(queries)
        else:
            scores = self._scores(queries, source.keys)  # (b, n_tgt, n_src)
            context, weights = attend(scores, source.states, source.mask)
        combined = torch.tanh(self.combine(torch.cat((context, queries), dim=-1)))
        return self.predict(combined), state, weights

    def first_state(self, source: Source) -> Tensor:
        """Return the state in which the decoder starts.

        Parameters
        ----------
        source : Source

        Returns
        -------
        float tensor, (1, b, d_model)

        Raises
        ------
        ValueError
            If `source` isn't what `encode` gives.
        """
        self._check_source(source)
        return self._first_state(source)

    def _first_state(self, source: Source) -> Tensor:
        return torch.tanh(self.start(source.summary))[None]

    @overload
    def forward(
        self, src: Tensor, src_lengths: Tensor, tgt_in: Tensor,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def forward(
        self, src: Tensor, src_lengths: Tensor, tgt_in: Tensor, return_weights: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, src: Tensor, src_lengths: Tensor, tgt_in: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Predict each next token of the target, given the ones before it (teacher forcing).

        Parameters
        ----------
        src : int64 tensor, (b, n_src)
            Padded at the end, with any ids.
        src_lengths : int64 tensor, (b,)
        tgt_in : int64 tensor, (b, n_tgt)
            The target shifted right: <bos>, then all tokens but the last.
        return_weights : bool, default False
            Return the weights over the source as well.

        Returns
        -------
        logits : float tensor, (b, n_tgt, tgt_vocab_size)
        weights : float tensor, (b, n_tgt, n_src), if asked for

        Raises
        ------
        ValueError
            If the shapes, dtypes or lengths don't fit, an id isn't in the vocabulary, or weights
            are asked of a model without attention.
        """
        self._check_return_weights(return_weights)
        _check_ids("tgt_in", tgt_in, "(b, n_tgt)", self.tgt_embedding.num_embeddings)
        source = self.encode(src, src_lengths)
        if len(tgt_in) != len(src):
            raise ValueError(f"tgt_in must have as many rows as src, {len(src)}; got {len(tgt_in)}")
        logits, _, weights = self._decode(tgt_in, self._first_state(source), source)
        return (logits, weights) if return_weights and weights is not None else logits

    @overload
    def generate(
        self, src: Tensor, src_lengths: Tensor, max_length: int,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def generate(
        self, src: Tensor, src_lengths: Tensor, max_length: int, return_weights: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @torch.no_grad()
    def generate(
        self, src: Tensor, src_lengths: Tensor, max_length: int, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Write the target token by token, the most likely one each time, up to <eos>.

        Parameters
        ----------
        src : int64 tensor, (b, n_src)
        src_lengths : int64 tensor, (b,)
        max_length : int
            Most tokens of a target, <eos> included.
        return_weights : bool, default False
            Return the weights over the source as well.

        Returns
        -------
        ids : int64 tensor, (b, n_tgt)
            As long as the longest target that was written; padding after <eos>.
        weights : float tensor, (b, n_tgt, n_src), if asked for
            Zeros where the target has ended.

        Raises
        ------
        ValueError
            As `forward`, and if `max_length` isn't a whole number of at least 1.
        """
        self._check_return_weights(return_weights)
        check_positive_int("max_length", max_length)
        source = self.encode(src, src_lengths)
        state = self._first_state(source)
        token = torch.full((len(src), 1), BOS, dtype=torch.int64, device=src.device)
        ended = torch.zeros(len(src), 1, dtype=torch.bool, device=src.device)
        ids: list[Tensor] = []
        rows: list[Tensor] = []
        while len(ids) < max_length and not ended.all():
            logits, state, weights = self._decode(token, state, source)
            token = logits.argmax(dim=-1).masked_fill(ended, PAD)  # (b, 1)
            ids.append(token)
            if weights is not None:
                rows.append(weights.masked_fill(ended[:, :, None], 0.0))
            ended = ended | (token == EOS)
        written = torch.cat(ids, dim=1)
        return (written, torch.cat(rows, dim=1)) if return_weights else written

    def _check_return_weights(self, wanted: bool) -> None:
        if wanted and self.attention is None:
            raise ValueError("return_weights must be False for a model without attention; got True")

    def _check_rows(self, name: str, x: Any) -> None:
        """Raise unless `x` holds at least one state for each member of a batch."""
        d_model = self.start.in_features
        check_float(name, x, f"(b, n, {d_model})")
        if len(x.shape) != 3 or x.shape[-1] != d_model or 0 in x.shape:
            raise ValueError(
                f"{name} must have a shape (b, n, {d_model}), b and n ≥ 1; got {tuple(x.shape)}"
            )
        self._check_dtype(name, x)

    def _check_float(self, name: str, x: Any, shape: tuple[int, ...]) -> None:
        """Raise unless `x` has the shape that the source asks for, and the model's dtype."""
        check_float(name, x, str(shape))
        if tuple(x.shape) != shape:
            raise ValueError(
                f"{name} must have the shape {shape} for this source; got {tuple(x.shape)}"
            )
        self._check_dtype(name, x)

    def _check_dtype(self, name: str, x: Tensor) -> None:
        check_same_dtype(**{"the model": self.start.weight, name: x})

    def _check_source(self, source: Any) -> None:
        """Raise unless `source` could come from `encode`."""
        if not isinstance(source, Source):
            raise ValueError(f"source must be a Source, as encode gives; got {describe(source)}")
        self._check_rows("source.states", source.states)
        b, n_src, d_model = source.states.shape
        self._check_float("source.keys", source.keys, (b, n_src, d_model))
        self._check_float("source.summary", source.summary, (b, d_model))
        mask = source.mask
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (b, 1, n_src):
            raise ValueError(
                f"source.mask must be boolean of shape {(b, 1, n_src)}; got {describe(mask)}"
            )


def _check_ids(name: str, ids: Any, axes: str, vocab_size: int) -> None:
    """Raise unless `ids` is a table of at least one id, all of them in the vocabulary."""
    wanted = f"{name} must be int64 ids from 0 to {vocab_size - 1} of shape {axes}"
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.ndim != 2 or 0 in ids.shape:
        raise ValueError(f"{wanted}; got {describe(ids)}")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab_size:
        raise ValueError(f"{wanted}; got {low} to {high}")


def _check_lengths(lengths: Any, src: Tensor) -> None:
    """Raise unless `lengths` has a length for each source, from 1 to the width of the batch."""
    b, n_src = src.shape
    wanted = f"src_lengths must be int64 from 1 to {n_src} of shape ({b},)"
    if not isinstance(lengths, Tensor) or lengths.dtype != torch.int64 or lengths.shape != (b,):
        raise ValueError(f"{wanted}; got {describe(lengths)}")
    if int(lengths.min()) < 1 or int(lengths.max()) > n_src:
        raise ValueError(f"{wanted}; got {lengths.tolist()}")
