"""The Transformer: an encoder, a decoder and cross-attention between them, from the blocks.

The model of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), with padding of
source and target throughout. The same model as functions is in
`course_lib.reference.encoder_decoder`, whose weights have the names of this one's ``state_dict()``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, overload

import torch
from torch import Tensor, nn

from course_lib.blocks.attention import causal_mask
from course_lib.blocks.cache import DecoderCache
from course_lib.blocks.embeddings import TokenEmbedding
from course_lib.blocks.encoder_decoder import DecoderLayer, EncoderLayer
from course_lib.blocks.masks import combine_masks, padding_mask
from course_lib.blocks.normalization import LayerNorm
from course_lib.blocks.positions import LearnedPositions, SinusoidalPositions
from course_lib.data.vocabulary import BOS, EOS
from course_lib.validation import (
    check_at_least,
    check_choice,
    check_dropout,
    check_first_tokens,
    check_flag,
    check_ids,
    check_room,
    check_same_dtype,
    check_sequence,
    check_sizes,
    check_token_ids,
    check_token_lengths,
    describe,
)

__all__ = ["DecoderState", "EncoderDecoder"]


@dataclass
class DecoderState:
    """What decoding remembers between two steps.

    Parameters
    ----------
    memory : float tensor, (b, n_src, d_model)
        What the encoder made of the source.
    src_lengths : int64 tensor, (b,)
    padding : int64 tensor, (b,), or None
        How many tokens of padding stand on the left of each target, if any do.
    cache : DecoderCache or None
        Keys and values so far; without it, everything is computed anew at each step.
    ids : int64 tensor, (b, n)
        The target so far; kept where there is no cache.
    sources : int64 tensor, (b,)
        Which source each row is of. Beams of one source share all that is known of it.
    """

    memory: Tensor
    src_lengths: Tensor
    padding: Tensor | None
    cache: DecoderCache | None
    ids: Tensor
    sources: Tensor


class EncoderDecoder(nn.Module):
    """Read a source by self-attention, write a target by self- and cross-attention.

    Embeddings are multiplied by √d and get positions added; N encoder layers and N decoder layers
    follow, and a projection to the target's vocabulary. Dropout is where the paper has it: on what
    each sublayer adds, and on the sum of embeddings and positions.

    Parameters
    ----------
    src_vocab_size, tgt_vocab_size : int
        Numbers of tokens. Ids 0, 1 and 2 are padding, <bos> and <eos>, which a target needs.
    d_model : int, default 512
    n_heads : int, default 8
        Divides `d_model`.
    n_layers : int, default 6
        N, of the encoder and of the decoder.
    d_ff : int, default 2048
        Width inside the feed-forward networks.
    dropout : float, default 0.1
    norm_first : bool, default False
        False for ``LayerNorm(x + f(x))`` as in the paper. True for ``x + f(LayerNorm(x))`` with one
        more norm at the end of the encoder and one at that of the decoder.
    tie : {"none", "output", "all"}, default "none"
        "output": the projection is the table of target embeddings, and has no bias. "all": source
        and target share that table, too (the paper, section 3.4).
    max_length : int, default 1024
        Most tokens of a source, and of a target with its <bos>.
    positions : {"sinusoidal", "learned"}, default "sinusoidal"
    activation : str, default "relu"
        "relu", "gelu", "gelu_tanh" or "silu".

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1 (3 for `tgt_vocab_size`), `n_heads` doesn't
        divide `d_model`, a choice is none of those named, `d_model` is odd with sinusoidal
        positions, or all is to be tied between vocabularies of two sizes.

    References
    ----------
    Vaswani et al. 2017 (arXiv:1706.03762), sections 3 and 5.4, figure 1; Xiong et al. 2020
    (arXiv:2002.04745) for `norm_first`; Press and Wolf 2017 (arXiv:1608.05859) for `tie`.

    Examples
    --------
    >>> model = EncoderDecoder(12, 9, d_model=16, n_heads=2, n_layers=2, d_ff=32)
    >>> src = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
    >>> model(src, torch.tensor([4, 2]), torch.tensor([[1, 4], [1, 5]])).shape
    torch.Size([2, 2, 9])
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        d_model: int = 512,
        n_heads: int = 8,
        n_layers: int = 6,
        d_ff: int = 2048,
        *,
        dropout: float = 0.1,
        norm_first: bool = False,
        tie: Literal["none", "output", "all"] = "none",
        max_length: int = 1024,
        positions: Literal["sinusoidal", "learned"] = "sinusoidal",
        activation: str = "relu",
    ) -> None:
        super().__init__()
        check_sizes(src_vocab_size=src_vocab_size, n_layers=n_layers, max_length=max_length)
        check_at_least("tgt_vocab_size", tgt_vocab_size, EOS + 1)
        check_dropout(dropout)
        check_flag("norm_first", norm_first)
        check_choice("tie", tie, ("none", "output", "all"))
        check_choice("positions", positions, ("sinusoidal", "learned"))
        if tie == "all" and src_vocab_size != tgt_vocab_size:
            raise ValueError(
                f"tie must not be 'all' for vocabularies of {src_vocab_size} and {tgt_vocab_size} "
                "tokens, which can't share a table"
            )
        self.d_model, self.n_heads, self.max_length = d_model, n_heads, max_length
        self.src_vocab_size, self.tgt_vocab_size = src_vocab_size, tgt_vocab_size

        def table() -> LearnedPositions | SinusoidalPositions:
            learned = positions == "learned"
            return (
                LearnedPositions(max_length, d_model) if learned else SinusoidalPositions(d_model)
            )

        self.src_embedding = TokenEmbedding(src_vocab_size, d_model)
        self.tgt_embedding = (
            self.src_embedding if tie == "all" else TokenEmbedding(tgt_vocab_size, d_model)
        )
        self.src_positions, self.tgt_positions = table(), table()
        self.dropout = nn.Dropout(dropout)
        sizes = (d_model, n_heads, d_ff)
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for _ in range(n_layers):
            self.encoder.append(
                EncoderLayer(*sizes, dropout=dropout, norm_first=norm_first, activation=activation)
            )
            self.decoder.append(
                DecoderLayer(*sizes, dropout=dropout, norm_first=norm_first, activation=activation)
            )
        self.encoder_norm = LayerNorm(d_model) if norm_first else nn.Identity()
        self.decoder_norm = LayerNorm(d_model) if norm_first else nn.Identity()
        self.predict = nn.Linear(d_model, tgt_vocab_size) if tie == "none" else None

    def encode(self, src: Tensor, src_lengths: Tensor) -> Tensor:
        """Read the source; what lies behind a sequence's length changes nothing before it.

        Parameters
        ----------
        src : int64 tensor, (b, n_src)
            Padded at the end, with any ids.
        src_lengths : int64 tensor, (b,)

        Returns
        -------
        float tensor, (b, n_src, d_model)

        Raises
        ------
        ValueError
            If the shapes, dtypes or lengths don't fit, an id isn't in the vocabulary, or the source
            is longer than `max_length`.
        """
        check_token_ids("src", src, "(b, n_src)", self.src_vocab_size)
        check_token_lengths("src_lengths", src_lengths, "src", src)
        check_room("src", src.shape[1], self.max_length)
        mask = padding_mask(src_lengths, src.shape[1])  # (b, 1, 1, n_src)
        x = self.dropout(self.src_positions(self.src_embedding(src)))  # (b, n_src, d)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    @overload
    def decode(
        self, tgt_in: Tensor, memory: Tensor, src_lengths: Tensor,
        cache: DecoderCache | None = None, padding: Tensor | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def decode(
        self, tgt_in: Tensor, memory: Tensor, src_lengths: Tensor,
        cache: DecoderCache | None = None, padding: Tensor | None = None,
        *, return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    def decode(
        self,
        tgt_in: Tensor,
        memory: Tensor,
        src_lengths: Tensor,
        cache: DecoderCache | None = None,
        padding: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Take target tokens through the decoder: all at once, or those that are new.

        Parameters
        ----------
        tgt_in : int64 tensor, (b, n_tgt)
            Begins with <bos>, unless the cache holds what came before. Padding on the right needs
            nothing: no token before it looks that far.
        memory : float tensor, (b, n_src, d_model)
            From `encode`. With a cache it is looked at in the first step alone.
        src_lengths : int64 tensor, (b,)
        cache : DecoderCache, optional
            From `new_cache`. Query i of `tgt_in` looks at what the cache held and at the new
            tokens up to i.
        padding : int64 tensor, (b,), optional
            How many tokens of padding stand on the left of each target; its positions count from
            behind them.
        return_weights : bool, default False
            Return the weights over the source as well.

        Returns
        -------
        logits : float tensor, (b, n_tgt, tgt_vocab_size)
        weights : float tensor, (n_layers, b, h, n_tgt, n_src), if asked for

        Raises
        ------
        ValueError
            If the shapes, dtypes or lengths don't fit, an id isn't in the vocabulary, a target
            doesn't begin with <bos>, it is longer than `max_length`, or the cache is of another
            batch size.
        """
        past = 0 if cache is None else len(cache)
        self._check_target(tgt_in, past, padding)
        self._check_memory(memory, src_lengths, len(tgt_in))
        n_src, n = memory.shape[1], tgt_in.shape[1]
        caches: list[tuple] = [(None, None)] * len(self.decoder)
        if cache is not None:
            cache.check_batch(len(tgt_in))
            caches = list(zip(cache.self_attention, cache.cross_attention, strict=True))
        self_mask = self._self_mask(n, past, padding, tgt_in.device)
        padded = bool((src_lengths < n_src).any())
        cross_mask = padding_mask(src_lengths, n_src) if padded else None  # (b, 1, 1, n_src)
        offset = past if padding is None else past - padding
        x = self.dropout(self.tgt_positions(self.tgt_embedding(tgt_in), offset))  # (b, n, d)
        weights: list[Tensor] | None = [] if return_weights else None
        for layer, (own, cross) in zip(self.decoder, caches, strict=True):
            x = layer(x, memory, self_mask, cross_mask, own, cross, weights)
        logits = self._logits(self.decoder_norm(x))
        return logits if weights is None else (logits, torch.stack(weights))

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
            The target shifted right: <bos>, then all tokens but the last; padded at the end.
        return_weights : bool, default False
            Return the weights over the source as well.

        Returns
        -------
        logits : float tensor, (b, n_tgt, tgt_vocab_size)
        weights : float tensor, (n_layers, b, h, n_tgt, n_src), if asked for

        Raises
        ------
        ValueError
            If the shapes, dtypes or lengths don't fit, an id isn't in its vocabulary, a target
            doesn't begin with <bos>, or a sequence is longer than `max_length`.
        """
        self._check_target(tgt_in, 0, None)
        memory = self.encode(src, src_lengths)
        if return_weights:
            return self.decode(tgt_in, memory, src_lengths, return_weights=True)
        return self.decode(tgt_in, memory, src_lengths)

    def new_cache(self, batch_size: int, n_src: int, max_length: int) -> DecoderCache:
        """Return an empty cache for decoding.

        Parameters
        ----------
        batch_size : int
        n_src : int
            Width of the batch of sources.
        max_length : int
            Most tokens of the target that will be fed to the decoder, <bos> included.

        Returns
        -------
        DecoderCache

        Raises
        ------
        ValueError
            If a size isn't a whole number of at least 1.
        """
        like = self.tgt_embedding.table
        d_head = self.d_model // self.n_heads
        sizes = (len(self.decoder), batch_size, self.n_heads, max_length, d_head)
        return DecoderCache(*sizes, dtype=like.dtype, device=like.device, n_src=n_src)

    def start(
        self,
        src: Tensor,
        src_lengths: Tensor,
        *,
        max_length: int,
        use_cache: bool = True,
        prompt: Tensor | None = None,
        prompt_lengths: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """Read the sources, and return what decoding begins with.

        Parameters
        ----------
        src : int64 tensor, (b, n_src)
        src_lengths : int64 tensor, (b,)
        max_length : int
            Most tokens that will be written behind the prompt.
        use_cache : bool, default True
        prompt : int64 tensor, (b, n_prompt), optional
            What the targets begin with; <bos> alone where left out. Shorter ones are padded on the
            left, so that all end at the same place.
        prompt_lengths : int64 tensor, (b,), optional
            Numbers of tokens of the prompts; without it none is padded.

        Returns
        -------
        ids : int64 tensor, (b, n_prompt)
            The tokens to feed to `step` first, in one piece or in several.
        state : DecoderState

        Raises
        ------
        ValueError
            As `encode`, and if a prompt doesn't begin with <bos>, or prompt and `max_length` are
            longer together than the model's `max_length`.
        """
        check_sizes(max_length=max_length)
        check_flag("use_cache", use_cache)
        memory = self.encode(src, src_lengths)
        b = len(src)
        if prompt is None:
            prompt = torch.full((b, 1), BOS, dtype=torch.int64, device=src.device)
        check_token_ids("prompt", prompt, "(b, n_prompt)", self.tgt_vocab_size)
        if len(prompt) != b:
            raise ValueError(f"prompt must have as many rows as src, {b}; got {len(prompt)}")
        n = prompt.shape[1]
        padding = None
        if prompt_lengths is not None:
            check_token_lengths("prompt_lengths", prompt_lengths, "prompt", prompt)
            padding = n - prompt_lengths
        _check_first("prompt", prompt, padding)
        room = n + max_length - 1  # the last token written is never fed
        check_room("prompt and what is written", room, self.max_length)
        cache = self.new_cache(b, src.shape[1], room) if use_cache else None
        sources = torch.arange(b, device=src.device)
        return prompt, DecoderState(memory, src_lengths, padding, cache, prompt[:, :0], sources)

    def step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Feed the next tokens, one or many, and return the logits behind each.

        Parameters
        ----------
        ids : int64 tensor, (b, n)
        state : DecoderState
            From `start`, or from the step before. Its cache is written to.

        Returns
        -------
        logits : float tensor, (b, n, tgt_vocab_size)
        state : DecoderState

        Raises
        ------
        ValueError
            As `decode`.
        """
        if not isinstance(state, DecoderState):
            raise ValueError(f"state must be a DecoderState, as start gives; got {describe(state)}")
        if state.cache is not None:
            logits = self.decode(ids, state.memory, state.src_lengths, state.cache, state.padding)
            return logits, state
        check_token_ids("ids", ids, "(b, n)", self.tgt_vocab_size)
        if len(ids) != len(state.ids):
            raise ValueError(
                f"ids must have as many rows as state, {len(state.ids)}; got {len(ids)}"
            )
        seen = torch.cat((state.ids, ids), dim=1)
        padding = state.padding
        logits = self.decode(seen, state.memory, state.src_lengths, padding=padding)
        return logits[:, -ids.shape[1] :], replace(state, ids=seen)

    def reorder(self, state: DecoderState, rows: Tensor) -> DecoderState:
        """Return the state whose row i is row ``rows[i]`` of this one.

        Parameters
        ----------
        state : DecoderState
            Not to be used any more: its cache becomes that of the new state.
        rows : int64 tensor, (b_new,)
            A row may come twice, or not at all.

        Returns
        -------
        DecoderState

        Raises
        ------
        ValueError
            If `rows` aren't rows of the state.
        """
        check_ids("rows", rows, len(state.sources))
        sources, ids = state.sources[rows], state.ids[rows]
        same = torch.equal(sources, state.sources)
        if state.cache is not None:
            state.cache.reorder(rows, same_sources=same)
        if same:
            return replace(state, ids=ids)
        return DecoderState(
            memory=state.memory[rows],
            src_lengths=state.src_lengths[rows],
            padding=None if state.padding is None else state.padding[rows],
            cache=state.cache,
            ids=ids,
            sources=sources,
        )

    def _logits(self, x: Tensor) -> Tensor:
        return self.tgt_embedding.logits(x) if self.predict is None else self.predict(x)

    def _self_mask(
        self, n: int, past: int, padding: Tensor | None, device: torch.device
    ) -> Tensor | None:
        """Return where n new target tokens may look: key j up to past + i, and no padding."""
        # One new token is the last of all: there is nothing behind it to be hidden.
        causal = None if n == 1 else causal_mask(n, past + n).to(device)
        if padding is None:
            return causal
        lengths = (past + n - padding).clamp(min=0)  # 0 while there is nothing but padding
        real = padding_mask(lengths, past + n, side="left")  # (b, 1, 1, past + n)
        return combine_masks(causal, real)

    def _check_target(self, tgt_in: Tensor, past: int, padding: Tensor | None) -> None:
        check_token_ids("tgt_in", tgt_in, "(b, n_tgt)", self.tgt_vocab_size)
        check_room("tgt_in", tgt_in.shape[1], self.max_length, past)
        if padding is not None and tuple(padding.shape) != (len(tgt_in),):
            raise ValueError(
                f"padding must have a shape ({len(tgt_in)},), one number for each row of tgt_in; "
                f"got {describe(padding)}"
            )
        if past == 0:
            _check_first("tgt_in", tgt_in, padding)

    def _check_memory(self, memory: Tensor, src_lengths: Tensor, b: int) -> None:
        check_sequence("memory", memory, f"(b, n_src, {self.d_model})")
        if memory.ndim != 3 or memory.shape[2] != self.d_model or memory.shape[0] != b:
            raise ValueError(
                f"memory must have a shape ({b}, n_src, {self.d_model}), a row for each of tgt_in; "
                f"got {tuple(memory.shape)}"
            )
        check_same_dtype(**{"the model": self.tgt_embedding.table, "memory": memory})
        check_token_lengths("src_lengths", src_lengths, "memory", memory[:, :, 0])


def _check_first(name: str, ids: Tensor, padding: Tensor | None) -> None:
    """Raise unless every row begins with <bos> behind its padding, as far as that is in `ids`."""
    if padding is None:
        check_first_tokens(name, ids, BOS)
        return
    here = padding < ids.shape[1]
    rows, first = ids[here], padding[here][:, None]
    if len(rows):
        check_first_tokens(name, rows.gather(1, first), BOS)
