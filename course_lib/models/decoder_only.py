"""A decoder alone, as GPT-2 and Llama are: one model, and what differs between the two.

Embeddings, a stack of pre-norm blocks (causal self-attention, then a feed-forward network), a last
norm, and a projection to the vocabulary. A configuration says which kind of each part is built in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from course_lib.blocks.cache import DecoderCache, KeyValueCache
from course_lib.blocks.embeddings import TokenEmbedding
from course_lib.blocks.feed_forward import ACTIVATIONS, FeedForward, SwiGLU
from course_lib.blocks.grouped_query import GroupedQueryAttention
from course_lib.blocks.masks import padding_mask
from course_lib.blocks.normalization import LayerNorm, RMSNorm
from course_lib.blocks.positions import LearnedPositions
from course_lib.blocks.residual import Residual
from course_lib.blocks.rotary import (
    dynamic_ntk_frequencies,
    linear_frequencies,
    llama3_frequencies,
    longrope_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    rotate_half_split,
    yarn_frequencies,
)
from course_lib.models.weights import Source, config_dictionary, load_weights
from course_lib.validation import (
    check_choice,
    check_divides,
    check_dropout,
    check_even,
    check_flag,
    check_ids,
    check_kv_heads,
    check_number,
    check_room,
    check_sizes,
    check_token_ids,
    check_token_lengths,
    describe,
)

__all__ = [
    "GPT2_SMALL",
    "LLAMA_3_8B",
    "LLAMA_7B",
    "DecoderBlock",
    "DecoderConfig",
    "DecoderOnly",
    "DecoderOnlyState",
    "RotaryScaling",
    "decoder_config",
    "gpt2",
    "llama",
]

_SCALINGS = ("linear", "ntk", "dynamic", "yarn", "llama3", "longrope")


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """How rotary positions are stretched beyond the length that was trained.

    With "dynamic" and "longrope" the turn of a key depends on the length of the text. A cache keeps
    the keys as they were turned when they came; without one, all are turned anew at each step. So
    what is written with a cache may be something else, in transformers as here.

    Parameters
    ----------
    kind : str
        "linear", "ntk", "dynamic", "yarn", "llama3" or "longrope", as the functions of
        `course_lib.blocks.rotary` of these names.
    factor : float, default 1
        How many times longer the context may be.
    original_length : int, optional
        Length that was trained; "linear" and "ntk" have no use for it.
    beta_fast, beta_slow : float, default 32 and 1
        Of "yarn".
    low_freq_factor, high_freq_factor : float, default 1 and 4
        Of "llama3".
    short_factors, long_factors : tuples of float, optional
        Of "longrope": one for each pair, up to `original_length` and beyond.
    attention_factor : float, optional
        What queries and keys are multiplied by; where left out, what "yarn" and "longrope" say,
        and 1 with the others.

    Raises
    ------
    ValueError
        If `kind` is none of these. What else is wrong with it, `frequencies` says.

    Examples
    --------
    >>> scaling = RotaryScaling(kind="linear", factor=2.0)
    >>> scaling.frequencies(4, 10000.0, length=8)
    (tensor([0.5000, 0.0050], dtype=torch.float64), 1.0)
    """

    kind: str
    factor: float = 1.0
    original_length: int | None = None
    beta_fast: float = 32
    beta_slow: float = 1
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factors: tuple[float, ...] | None = None
    long_factors: tuple[float, ...] | None = None
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _SCALINGS)
        if self.attention_factor is not None:
            check_number("attention_factor", self.attention_factor, above=0.0)

    def frequencies(self, d: int, base: float, length: int) -> tuple[Tensor, float]:
        """Return the angle of each pair at a length of text, and what scores are scaled by.

        Parameters
        ----------
        d : int
            Width of a head.
        base : float
        length : int
            Tokens of the text so far, on which "dynamic" and "longrope" depend.

        Returns
        -------
        frequencies : float64 tensor, (d/2,)
        attention_factor : float

        Raises
        ------
        ValueError
            If an argument is out of its range, or missing.
        """
        made, scale = self._scaled(d, base, length)
        return made, scale if self.attention_factor is None else self.attention_factor

    def _scaled(self, d: int, base: float, length: int) -> tuple[Tensor, float]:
        original = rotary_frequencies(d, base)
        if self.kind == "linear":
            return linear_frequencies(original, self.factor), 1.0
        if self.kind == "ntk":
            return ntk_frequencies(d, self.factor, base), 1.0
        trained = self.original_length
        if trained is None:
            raise ValueError(f"original_length must be given for kind {self.kind!r}; got None")
        if self.kind == "dynamic":
            return dynamic_ntk_frequencies(d, self.factor, length, trained, base), 1.0
        if self.kind == "yarn":
            betas = (self.beta_fast, self.beta_slow)
            return yarn_frequencies(d, self.factor, trained, base, *betas)
        if self.kind == "llama3":
            turns = (self.low_freq_factor, self.high_freq_factor)
            return llama3_frequencies(d, self.factor, trained, base, *turns), 1.0
        name = "long_factors" if length > trained else "short_factors"
        factors = getattr(self, name)
        if factors is None:
            raise ValueError(f"{name} must be given for kind 'longrope'; got None")
        row = torch.tensor(factors, dtype=original.dtype)
        return longrope_frequencies(original, row, self.factor, trained)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """What a decoder alone is built of.

    Parameters
    ----------
    vocab_size, d_model, n_layers, n_heads, d_ff : int
        Tokens, width, blocks, heads of queries, width inside the feed-forward networks.
    max_length : int
        Rows of the table of learned positions, which no text may pass. For rotary ones the length
        that the model is made for; nothing stops a longer text but what comes out.
    n_kv_heads : int, optional
        Heads of keys and values, which divides `n_heads`; as many where left out.
    d_head : int, optional
        Width of a head; ``d_model / n_heads`` where left out.
    positions : {"rotary", "learned"}, default "rotary"
        Queries and keys are turned (columns half a head apart make a pair), or rows of a table are
        added to the embeddings.
    rotary_base : float, default 10000
    rotary_scaling : RotaryScaling, optional
    norm : {"rms", "layer"}, default "rms"
    eps : float, default 1e-6
        Of the norms.
    activation : str, default "swiglu"
        "swiglu" for a gated network without biases; "gelu", "gelu_tanh", "relu" or "silu" for two
        layers.
    bias : bool, default False
        Whether the projections of attention, and the two layers, have biases.
    tied : bool, default False
        Whether the table of embeddings scores the vocabulary, too.
    dropout : float, default 0
        Share of the embeddings, and of what each sublayer adds, that is set to 0 in training.

    Raises
    ------
    ValueError
        If an argument is out of its range, or doesn't fit the others.

    Examples
    --------
    >>> config = DecoderConfig(
    ...     vocab_size=100, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=40, max_length=32
    ... )
    >>> config.d_head
    4
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    max_length: int
    n_kv_heads: int = None  # type: ignore[assignment]
    d_head: int = None  # type: ignore[assignment]
    positions: str = "rotary"
    rotary_base: float = 10000.0
    rotary_scaling: RotaryScaling | None = None
    norm: str = "rms"
    eps: float = 1e-6
    activation: str = "swiglu"
    bias: bool = False
    tied: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        names = ("vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "max_length")
        check_sizes(**{name: getattr(self, name) for name in names})
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        check_kv_heads(self.n_heads, self.n_kv_heads)
        if self.d_head is None:
            check_divides("n_heads", self.n_heads, "d_model", self.d_model)
            object.__setattr__(self, "d_head", self.d_model // self.n_heads)
        check_sizes(d_head=self.d_head)
        check_choice("positions", self.positions, ("rotary", "learned"))
        if self.positions == "rotary":
            check_even("d_head", self.d_head)
            for length in (1, 2 * self.max_length):
                self.frequencies(length)  # raises where anything is amiss
        elif self.rotary_scaling is not None:
            raise ValueError(
                "rotary_scaling must be left out where positions are learned; "
                f"got {self.rotary_scaling!r}"
            )
        check_choice("norm", self.norm, ("rms", "layer"))
        check_number("eps", self.eps, above=0.0)
        check_choice("activation", self.activation, ("swiglu", *ACTIVATIONS))
        check_flag("bias", self.bias)
        check_flag("tied", self.tied)
        check_dropout(self.dropout)

    def frequencies(self, length: int) -> tuple[Tensor, float]:
        """Return the angle by which each pair turns from one position to the next.

        Parameters
        ----------
        length : int
            Tokens of the text so far, on which some scalings depend.

        Returns
        -------
        frequencies : float64 tensor, (d_head / 2,)
        attention_factor : float
            What queries and keys are multiplied by.
        """
        if self.rotary_scaling is None:
            return rotary_frequencies(self.d_head, self.rotary_base), 1.0
        if not isinstance(self.rotary_scaling, RotaryScaling):
            raise ValueError(
                f"rotary_scaling must be a RotaryScaling, or None; got {self.rotary_scaling!r}"
            )
        return self.rotary_scaling.frequencies(self.d_head, self.rotary_base, length)


def gpt2(
    vocab_size: int = 50_257,
    d_model: int = 768,
    n_layers: int = 12,
    n_heads: int = 12,
    max_length: int = 1024,
    **changes: Any,
) -> DecoderConfig:
    """Return a configuration of GPT-2's kind; the smallest of the published ones by default.

    Learned positions, LayerNorm, GELU by tanh in a network of 4 d, biases throughout, tied.

    Parameters
    ----------
    vocab_size, d_model, n_layers, n_heads, max_length : int
    **changes
        Anything else that `DecoderConfig` takes.

    Returns
    -------
    DecoderConfig

    Raises
    ------
    ValueError
        As `DecoderConfig`.

    References
    ----------
    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3.

    Examples
    --------
    >>> gpt2(d_model=64, n_heads=4).d_ff
    256
    """
    check_sizes(d_model=d_model)
    settings: dict[str, Any] = {
        "d_ff": 4 * d_model, "positions": "learned", "norm": "layer", "eps": 1e-5,
        "activation": "gelu_tanh", "bias": True, "tied": True, **changes,
    }  # fmt: skip
    return DecoderConfig(
        vocab_size=vocab_size, d_model=d_model, n_layers=n_layers, n_heads=n_heads,
        max_length=max_length, **settings,
    )  # fmt: skip


def llama(
    vocab_size: int = 32_000,
    d_model: int = 4096,
    n_layers: int = 32,
    n_heads: int = 32,
    d_ff: int = 11_008,
    max_length: int = 2048,
    **changes: Any,
) -> DecoderConfig:
    """Return a configuration of Llama's kind; the 6.7 billion parameter model by default.

    Rotary positions, RMSNorm, SwiGLU, no biases, not tied.

    Parameters
    ----------
    vocab_size, d_model, n_layers, n_heads, d_ff, max_length : int
    **changes
        Anything else that `DecoderConfig` takes, such as `n_kv_heads`.

    Returns
    -------
    DecoderConfig

    Raises
    ------
    ValueError
        As `DecoderConfig`.

    References
    ----------
    Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023
    (arXiv:2302.13971), section 2.2 and table 2.

    Examples
    --------
    >>> llama(d_model=64, n_heads=4, d_ff=172, n_kv_heads=2).d_head
    16
    """
    return DecoderConfig(
        vocab_size=vocab_size, d_model=d_model, n_layers=n_layers, n_heads=n_heads, d_ff=d_ff,
        max_length=max_length, **changes,
    )  # fmt: skip


GPT2_SMALL = gpt2()
LLAMA_7B = llama()
# Grattafiori et al. 2024 (arXiv:2407.21783), table 3.
LLAMA_3_8B = llama(
    128_256, d_ff=14_336, n_kv_heads=8, max_length=8192, rotary_base=500_000.0, eps=1e-5
)


def _norm(config: DecoderConfig) -> nn.Module:
    kind = RMSNorm if config.norm == "rms" else LayerNorm
    return kind(config.d_model, config.eps)


class DecoderBlock(nn.Module):
    """One block: ``x + Attention(Norm(x))``, then ``x + FeedForward(Norm(x))``.

    Parameters
    ----------
    config : DecoderConfig

    Examples
    --------
    >>> block = DecoderBlock(llama(d_model=16, n_heads=4, d_ff=40))
    >>> block(torch.zeros(2, 5, 16), causal=True).shape
    torch.Size([2, 5, 16])
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        d, d_ff, p = config.d_model, config.d_ff, config.dropout
        attention = GroupedQueryAttention(
            d, config.n_heads, n_kv_heads=config.n_kv_heads, d_head=config.d_head, bias=config.bias
        )
        network: nn.Module = (
            SwiGLU(d, d_ff)
            if config.activation == "swiglu"
            else FeedForward(d, d_ff, activation=config.activation, bias=config.bias)
        )
        self.attention = Residual(d, attention, norm=_norm(config), dropout=p)
        self.feed_forward = Residual(d, network, norm=_norm(config), dropout=p)

    def forward(
        self,
        x: Tensor,  # (..., n, d)
        mask: Tensor | None = None,
        causal: bool = False,
        rotate: Callable[[Tensor], Tensor] | None = None,
        cache: KeyValueCache | None = None,
        collect: list[Tensor] | None = None,
    ) -> Tensor:
        """Take tokens through the block; the arguments are those of `GroupedQueryAttention`.

        Parameters
        ----------
        x : float tensor, (..., n, d)
        mask, causal, rotate, cache, collect
            What attention takes besides.

        Returns
        -------
        float tensor, (..., n, d)
        """
        return self.feed_forward(self.attention(x, mask, causal, rotate, cache, collect))


@dataclass
class DecoderOnlyState:
    """What decoding remembers between two steps.

    Parameters
    ----------
    padding : int64 tensor, (b,), or None
        How many tokens of padding stand on the left of each text, if any do.
    cache : DecoderCache or None
        Keys and values so far; without it, everything is computed anew at each step.
    ids : int64 tensor, (b, n)
        The text so far; kept where there is no cache.
    """

    padding: Tensor | None
    cache: DecoderCache | None
    ids: Tensor


class DecoderOnly(nn.Module):
    """Score each next token of a text, given those before it.

    Matrices start normally distributed with deviation 0.02, those that end a sublayer with
    ``0.02 / √(2 n_layers)`` since as many sums add up; biases at 0 (GPT-2's way).

    Parameters
    ----------
    config : DecoderConfig
        Such as ``gpt2(…)`` or ``llama(…)``.

    Raises
    ------
    ValueError
        If `config` is no `DecoderConfig`.

    References
    ----------
    Radford et al. 2019 (GPT-2), section 2.3; Touvron et al. 2023 (arXiv:2302.13971), section 2.2.

    Examples
    --------
    >>> model = DecoderOnly(llama(100, d_model=16, n_layers=2, n_heads=4, d_ff=40, n_kv_heads=2))
    >>> model(torch.tensor([[5, 6, 7], [8, 9, 0]])).shape
    torch.Size([2, 3, 100])
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        if not isinstance(config, DecoderConfig):
            raise ValueError(f"config must be a DecoderConfig; got {describe(config)}")
        self.config = config
        vocab_size, d = config.vocab_size, config.d_model
        self.embedding = TokenEmbedding(vocab_size, d, scale=False)
        learned = config.positions == "learned"
        self.positions = LearnedPositions(config.max_length, d) if learned else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(DecoderBlock(config) for _ in range(config.n_layers))
        self.norm = _norm(config)
        self.predict = None if config.tied else nn.Linear(d, vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew, and set biases to 0."""
        for name, parameter in self.named_parameters():
            if name.endswith(("gamma", "beta")):
                continue
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
                continue
            last = name.endswith(("w_o.weight", "w_2.weight"))
            nn.init.normal_(parameter, std=0.02 / sqrt(2 * len(self.layers)) if last else 0.02)

    @classmethod
    def from_transformers(cls, state_dict: Mapping[str, Tensor], config: Any) -> DecoderOnly:
        """Return the model of a GPT-2 or Llama of transformers, its weights included.

        Parameters
        ----------
        state_dict : mapping of names to tensors
            Of ``GPT2LMHeadModel`` or ``LlamaForCausalLM``, or what their checkpoints hold. Copied.
        config : configuration of transformers, or dictionary
            As `decoder_config` takes it.

        Returns
        -------
        DecoderOnly
            In evaluation mode, of the dtype that the embeddings have there.

        Raises
        ------
        ValueError
            If the model is one of another kind, has an option that ours hasn't, or `state_dict`
            lacks a tensor, has one too many, or one of another shape.

        Examples
        --------
        >>> config = {
        ...     "model_type": "gpt2", "vocab_size": 9, "n_positions": 5, "n_embd": 4,
        ...     "n_layer": 1, "n_head": 2,
        ... }
        >>> DecoderOnly.from_transformers({}, config)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: state_dict must hold what the configuration asks for; h.0.attn.c_attn.bias is...
        """
        settings = config_dictionary(config)
        ours = decoder_config(settings)
        with torch.device("meta"):  # no memory and no random numbers: all is replaced
            model = cls(ours)
        llama_like = settings["model_type"] == "llama"
        prefix = "model." if llama_like else "transformer."
        if isinstance(state_dict, Mapping) and not any(
            str(name).startswith(prefix) for name in state_dict
        ):
            prefix = ""
        sources, table = _llama_sources(ours, prefix) if llama_like else _gpt2_sources(ours, prefix)
        load_weights(
            model, state_dict, sources, ignored=_NO_WEIGHTS,
            copies={"lm_head.weight": table} if ours.tied else None,
        )  # fmt: skip
        return model.eval()

    @overload
    def forward(
        self, ids: Tensor, lengths: Tensor | None = None,
        side: Literal["right", "left"] = "right", return_weights: Literal[False] = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def forward(
        self, ids: Tensor, lengths: Tensor | None = None,
        side: Literal["right", "left"] = "right", *, return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        side: Literal["right", "left"] = "right",
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Score the token after each one.

        Parameters
        ----------
        ids : int64 tensor, (b, n)
        lengths : int64 tensor, (b,), optional
            Numbers of real tokens; without it none is padded.
        side : {"right", "left"}, default "right"
            Where the padding stands. On the right it needs nothing: no token before it looks that
            far. On the left it is hidden, and positions count from behind it.
        return_weights : bool, default False
            Return the weights of attention as well.

        Returns
        -------
        logits : float tensor, (b, n, vocab_size)
            Those at padding mean nothing.
        weights : float tensor, (n_layers, b, h, n, n), if asked for

        Raises
        ------
        ValueError
            If an id isn't in the vocabulary, a shape, a dtype or a length doesn't fit, or the text
            is longer than the table of learned positions.
        """
        check_token_ids("ids", ids, "(b, n)", self.config.vocab_size)
        check_choice("side", side, ("right", "left"))
        padding = None
        if lengths is not None:
            check_token_lengths("lengths", lengths, "ids", ids)
            padding = _padding(ids, lengths) if side == "left" else None
        if not return_weights:
            return self._logits(ids, padding)
        weights: list[Tensor] = []
        return self._logits(ids, padding, collect=weights), torch.stack(weights)

    def new_cache(self, batch_size: int, max_length: int) -> DecoderCache:
        """Return an empty cache: for the heads of keys and values alone.

        Parameters
        ----------
        batch_size : int
        max_length : int
            Most tokens that will be fed.

        Returns
        -------
        DecoderCache

        Raises
        ------
        ValueError
            If a size isn't a whole number of at least 1.
        """
        config, like = self.config, self.embedding.table
        sizes = (config.n_layers, batch_size, config.n_kv_heads, max_length, config.d_head)
        return DecoderCache(*sizes, dtype=like.dtype, device=like.device)

    def start(
        self,
        src: Tensor,
        src_lengths: Tensor | None = None,
        *,
        max_length: int,
        use_cache: bool = True,
        **prompt: Any,
    ) -> tuple[Tensor, DecoderOnlyState]:
        """Return what decoding begins with: the texts to continue, and an empty state.

        Parameters
        ----------
        src : int64 tensor, (b, n)
            The texts. Shorter ones are padded on the left, so that all end at the same place.
        src_lengths : int64 tensor, (b,), optional
            Numbers of real tokens; without it none is padded.
        max_length : int
            Most tokens that will be written behind them.
        use_cache : bool, default True
        **prompt
            Nothing: `src` is the prompt.

        Returns
        -------
        ids : int64 tensor, (b, n)
            The tokens to feed to `step` first, in one piece or in several.
        state : DecoderOnlyState

        Raises
        ------
        ValueError
            As the model, and if texts and `max_length` are longer together than the table of
            learned positions.
        """
        if prompt:
            raise ValueError(
                f"{next(iter(prompt))} must be left out: a decoder alone continues src itself"
            )
        check_token_ids("src", src, "(b, n)", self.config.vocab_size)
        check_sizes(max_length=max_length)
        check_flag("use_cache", use_cache)
        padding = None
        if src_lengths is not None:
            check_token_lengths("src_lengths", src_lengths, "src", src)
            padding = _padding(src, src_lengths)
        b, n = src.shape
        room = n + max_length - 1  # the last token written is never fed
        if self.positions is not None:
            check_room("src and what is written", room, self.config.max_length)
        cache = self.new_cache(b, room) if use_cache else None
        return src, DecoderOnlyState(padding, cache, src[:, :0])

    def step(self, ids: Tensor, state: DecoderOnlyState) -> tuple[Tensor, DecoderOnlyState]:
        """Feed the next tokens, one or many, and return the logits behind each.

        Parameters
        ----------
        ids : int64 tensor, (b, n)
        state : DecoderOnlyState
            From `start`, or from the step before. Its cache is written to.

        Returns
        -------
        logits : float tensor, (b, n, vocab_size)
        state : DecoderOnlyState

        Raises
        ------
        ValueError
            As the model, and if `state` is of another batch.
        """
        if not isinstance(state, DecoderOnlyState):
            raise ValueError(
                f"state must be a DecoderOnlyState, as start gives; got {describe(state)}"
            )
        check_token_ids("ids", ids, "(b, n)", self.config.vocab_size)
        if state.cache is not None:
            state.cache.check_batch(len(ids))
            return self._logits(ids, state.padding, state.cache), state
        if len(ids) != len(state.ids):
            raise ValueError(
                f"ids must have as many rows as state, {len(state.ids)}; got {len(ids)}"
            )
        seen = torch.cat((state.ids, ids), dim=1)
        logits = self._logits(seen, state.padding)[:, -ids.shape[1] :]
        return logits, replace(state, ids=seen)

    def reorder(self, state: DecoderOnlyState, rows: Tensor) -> DecoderOnlyState:
        """Return the state whose row i is row ``rows[i]`` of this one.

        Parameters
        ----------
        state : DecoderOnlyState
            Not to be used any more: its cache becomes that of the new state.
        rows : int64 tensor, (b_new,)
            A row may come twice, or not at all.

        Returns
        -------
        DecoderOnlyState

        Raises
        ------
        ValueError
            If `rows` aren't rows of the state.
        """
        check_ids("rows", rows, len(state.ids))
        if state.cache is not None:
            state.cache.reorder(rows)
        padding = None if state.padding is None else state.padding[rows]
        return DecoderOnlyState(padding, state.cache, state.ids[rows])

    def _logits(
        self,
        ids: Tensor,
        padding: Tensor | None,
        cache: DecoderCache | None = None,
        collect: list[Tensor] | None = None,
    ) -> Tensor:
        """Take tokens through the model: all of a text, or those that are new to the cache."""
        n, past = ids.shape[1], 0 if cache is None else len(cache)
        mask, offset, rotate = None, past if padding is None else past - padding, None
        if padding is not None:
            real = (past + n - padding).clamp(min=0)  # 0 while there is nothing but padding
            mask = padding_mask(real, past + n, side="left")  # (b, 1, 1, past + n)
        x = self.embedding(ids)  # (b, n, d)
        if self.positions is None:
            rotate = self._rotation(offset, n, ids.device)
        else:
            check_room("ids", n, self.config.max_length, past)
            x = self.positions(x, offset)
        x = self.dropout(x)
        caches = [None] * len(self.layers) if cache is None else cache.self_attention
        for layer, own in zip(self.layers, caches, strict=True):
            x = layer(x, mask, True, rotate, own, collect)
        x = self.norm(x)
        return self.embedding.logits(x) if self.predict is None else self.predict(x)

    def _rotation(
        self, offset: int | Tensor, n: int, device: torch.device
    ) -> Callable[[Tensor], Tensor]:
        """Return what turns queries and keys of n tokens by their positions."""
        if isinstance(offset, Tensor):  # one for each text; before 0 stands padding
            positions = (offset[:, None] + torch.arange(n, device=device))[:, None]  # (b, 1, n)
            length = max(1, int(offset.max()) + n)
        else:
            positions, length = torch.arange(offset, offset + n, device=device), offset + n
        frequencies, factor = self.config.frequencies(length)
        frequencies = frequencies.to(device)

        def rotate(x: Tensor) -> Tensor:
            turned = rotate_half_split(x, positions, frequencies)
            return turned if factor == 1.0 else turned * factor

        return rotate


def _padding(ids: Tensor, lengths: Tensor) -> Tensor | None:
    """Return how many tokens of padding stand on the left of each text, None where none does."""
    padding = ids.shape[1] - lengths
    return padding if bool(padding.any()) else None


# --- the names of transformers --------------------------------------------------------------------

# In older checkpoints: causal masks and frequencies, which are computed.
_NO_WEIGHTS = r"(^|\.)attn\.(bias|masked_bias)$|rotary_emb\.inv_freq$"
_ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu",
}  # fmt: skip


def decoder_config(config: Any) -> DecoderConfig:
    """Return our configuration for one of transformers.

    Parameters
    ----------
    config : configuration of transformers, or dictionary
        A ``GPT2Config`` or ``LlamaConfig``, or what config.json holds.

    Returns
    -------
    DecoderConfig

    Raises
    ------
    ValueError
        If the model is of another kind, a size is missing, or an option is chosen that our model
        hasn't.

    Examples
    --------
    >>> theirs = {
    ...     "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "rms_norm_eps": 1e-5,
    ...     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...     "intermediate_size": 14336, "max_position_embeddings": 32768, "hidden_act": "silu",
    ... }
    >>> decoder_config(theirs).n_kv_heads
    8
    """
    settings = config_dictionary(config)
    readers = {"gpt2": _from_gpt2, "llama": _from_llama}
    kind = settings["model_type"]
    if kind not in readers:
        raise ValueError(f"config must have a model_type among {', '.join(readers)}; got {kind!r}")
    return readers[kind](settings)


def _size(settings: Mapping[str, Any], name: str) -> Any:
    if settings.get(name) is None:
        raise ValueError(f"config must have {name}; got none")
    return settings[name]


def _refuse(settings: Mapping[str, Any], **only: Any) -> None:
    """Raise where an option isn't the one that our model has."""
    for name, value in only.items():
        if settings.get(name, value) not in (value, None):
            raise ValueError(
                f"config must have {name} = {value!r}, for there is no other here; "
                f"got {settings[name]!r}"
            )


def _from_gpt2(settings: Mapping[str, Any]) -> DecoderConfig:
    _refuse(
        settings, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )  # fmt: skip
    activation = settings.get("activation_function", "gelu_new")
    check_choice("activation_function", activation, _ACTIVATIONS)
    d = _size(settings, "n_embd")
    return gpt2(
        _size(settings, "vocab_size"), d, _size(settings, "n_layer"), _size(settings, "n_head"),
        _size(settings, "n_positions"), d_ff=settings.get("n_inner") or 4 * d,
        eps=settings.get("layer_norm_epsilon", 1e-5), activation=_ACTIVATIONS[activation],
        tied=settings.get("tie_word_embeddings", True), dropout=settings.get("resid_pdrop", 0.1),
    )  # fmt: skip


def _from_llama(settings: Mapping[str, Any]) -> DecoderConfig:
    _refuse(settings, hidden_act="silu", mlp_bias=False)
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    base = rope.get("rope_theta") or settings.get("rope_theta") or 10000.0
    return llama(
        _size(settings, "vocab_size"), _size(settings, "hidden_size"),
        _size(settings, "num_hidden_layers"), _size(settings, "num_attention_heads"),
        _size(settings, "intermediate_size"), _size(settings, "max_position_embeddings"),
        n_kv_heads=settings.get("num_key_value_heads"), d_head=settings.get("head_dim"),
        rotary_base=base, rotary_scaling=_scaling(settings, rope),
        eps=settings.get("rms_norm_eps", 1e-6), bias=settings.get("attention_bias", False),
        tied=settings.get("tie_word_embeddings", False),
    )  # fmt: skip


def _scaling(settings: Mapping[str, Any], rope: Mapping[str, Any]) -> RotaryScaling | None:
    """Return how a Llama stretches its positions, None where it doesn't."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    check_choice("rope_type", kind, ("default", "linear", "dynamic", "yarn", "llama3", "longrope"))
    _refuse(rope, partial_rotary_factor=1.0, truncate=True)
    longest = settings["max_position_embeddings"]
    trained = longest
    if kind in ("yarn", "llama3", "longrope"):
        own = rope.get("original_max_position_embeddings")
        trained = settings.get("original_max_position_embeddings") or own or longest
    factor = rope.get("factor")
    if factor is None and kind in ("yarn", "longrope"):
        factor = longest / trained
    if factor is None:
        raise ValueError(f"config must give a factor for rope_type {kind!r}; got none")
    chosen: dict[str, Any] = {"attention_factor": rope.get("attention_factor")}
    if kind == "yarn":
        chosen |= {
            "beta_fast": rope.get("beta_fast") or 32,
            "beta_slow": rope.get("beta_slow") or 1,
        }
        scales = rope.get("mscale"), rope.get("mscale_all_dim")
        if chosen["attention_factor"] is None and all(scales):
            above, below = (0.1 * float(scale or 0) * log(factor) + 1 for scale in scales)
            chosen["attention_factor"] = above / below
    if kind == "llama3":
        names = ("low_freq_factor", "high_freq_factor")
        chosen |= {name: rope[name] for name in names if name in rope}
    if kind == "longrope":
        chosen["short_factors"] = tuple(rope.get("short_factor") or ())
        chosen["long_factors"] = tuple(rope.get("long_factor") or ())
    return RotaryScaling(kind=kind, factor=factor, original_length=trained, **chosen)


def _llama_sources(config: DecoderConfig, prefix: str) -> tuple[list[Source], str]:
    """Return where our weights stand in a Llama, and the name of its table of embeddings."""
    table = f"{prefix}embed_tokens.weight"
    sources = [Source(table, ("embedding.table",))]
    projections = {"q_proj": "w_q", "k_proj": "w_k", "v_proj": "w_v", "o_proj": "w_o"}
    for i in range(config.n_layers):
        there, here = f"{prefix}layers.{i}.", f"layers.{i}."
        names = {
            "input_layernorm.weight": "attention.norm.gamma",
            "post_attention_layernorm.weight": "feed_forward.norm.gamma",
            "mlp.gate_proj.weight": "feed_forward.sublayer.w_1.weight",
            "mlp.down_proj.weight": "feed_forward.sublayer.w_2.weight",
            "mlp.up_proj.weight": "feed_forward.sublayer.w_3.weight",
        }
        for theirs, ours in projections.items():
            for kind in ("weight", "bias") if config.bias else ("weight",):
                names[f"self_attn.{theirs}.{kind}"] = f"attention.sublayer.{ours}.{kind}"
        sources += [Source(there + theirs, (here + ours,)) for theirs, ours in names.items()]
    sources.append(Source(f"{prefix}norm.weight", ("norm.gamma",)))
    if not config.tied:
        sources.append(Source("lm_head.weight", ("predict.weight",)))
    return sources, table


def _gpt2_sources(config: DecoderConfig, prefix: str) -> tuple[list[Source], str]:
    """Return where our weights stand in a GPT-2, and the name of its table of embeddings.

    Its matrices are (d_in, d_out), and those of queries, keys and values one.
    """
    table = f"{prefix}wte.weight"
    sources = [
        Source(table, ("embedding.table",)),
        Source(f"{prefix}wpe.weight", ("positions.table",)),
    ]
    for i in range(config.n_layers):
        there, here = f"{prefix}h.{i}.", f"layers.{i}."
        for kind, name in (("weight", "gamma"), ("bias", "beta")):
            sources += [
                Source(f"{there}ln_1.{kind}", (f"{here}attention.norm.{name}",)),
                Source(f"{there}ln_2.{kind}", (f"{here}feed_forward.norm.{name}",)),
            ]
            layers = {
                "attn.c_attn": [f"attention.sublayer.w_{part}" for part in "qkv"],
                "attn.c_proj": ["attention.sublayer.w_o"],
                "mlp.c_fc": ["feed_forward.sublayer.w_1"],
                "mlp.c_proj": ["feed_forward.sublayer.w_2"],
            }
            for theirs, ours in layers.items():
                parts = tuple(f"{here}{part}.{kind}" for part in ours)
                sources.append(Source(f"{there}{theirs}.{kind}", parts, kind == "weight"))
    for kind, name in (("weight", "gamma"), ("bias", "beta")):
        sources.append(Source(f"{prefix}ln_f.{kind}", (f"norm.{name}",)))
    if not config.tied:
        sources.append(Source("lm_head.weight", ("predict.weight",)))
    return sources, table
