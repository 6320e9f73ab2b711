"""Encoder, decoder and the whole Transformer as functions of dictionaries of weights, in PyTorch.

The model is that of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section
3, with the norm where its authors put it or before each sublayer (Xiong et al. 2020,
arXiv:2002.04745). The names of the weights are those of the modules' ``state_dict()`` in
`EncoderLayer`, `DecoderLayer` and `course_lib.models.encoder_decoder`. Matrices are
(d_out, d_in), as ``torch.nn.Linear`` keeps them.

A layer's weights, where p stands for `attention`, or for `self_attention` and `cross_attention`::

    p.norm.gamma, p.norm.beta                                     (d,)
    p.sublayer.w_q.weight, …w_k.weight, …w_v.weight, …w_o.weight  (d, d)
    p.sublayer.w_q.bias, …w_k.bias, …w_v.bias, …w_o.bias          (d,)
    feed_forward.norm.gamma, feed_forward.norm.beta               (d,)
    feed_forward.sublayer.w_1.weight, feed_forward.sublayer.w_1.bias  (d_ff, d), (d_ff,)
    feed_forward.sublayer.w_2.weight, feed_forward.sublayer.w_2.bias  (d, d_ff), (d,)

Biases may be left out. A model's weights::

    src_embedding.table, tgt_embedding.table    (V_src, d), (V_tgt, d)
    src_positions.table, tgt_positions.table    (max_length, d); sinusoidal where left out
    encoder.0.…, encoder.1.…, decoder.0.…, …    the layers'
    encoder_norm.gamma, encoder_norm.beta, decoder_norm.…  (d,), where the norm comes first
    predict.weight, predict.bias                (V_tgt, d), (V_tgt,); tied where left out
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TypedDict

from torch import Tensor, nn

from course_lib.blocks.attention import causal_mask
from course_lib.blocks.cache import CachedAttention, KeyValueCache
from course_lib.blocks.embeddings import embedding, tied_logits
from course_lib.blocks.feed_forward import FeedForward, feed_forward
from course_lib.blocks.multi_head import multi_head_attention, project
from course_lib.blocks.normalization import layer_norm
from course_lib.blocks.positions import learned_positions, sinusoidal_positions
from course_lib.blocks.residual import Residual, post_norm, pre_norm
from course_lib.validation import (
    check_flag,
    check_sequence,
    check_token_ids,
    check_weights,
)

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "decode",
    "decoder_layer",
    "encode",
    "encoder_decoder",
    "encoder_layer",
]


def encoder_layer(
    x: Tensor,  # (..., n, d)
    weights: Mapping[str, Tensor],
    n_heads: int,
    mask: Tensor | None = None,
    norm_first: bool = False,
    activation: str = "relu",
) -> Tensor:
    """Let tokens ask one another, then send each through a network.

    Two residual sublayers: self-attention, and the feed-forward network (Vaswani et al. 2017,
    section 3.1).

    Parameters
    ----------
    x : float tensor, (..., n, d)
    weights : dictionary
        `attention.…` and `feed_forward.…`, as above.
    n_heads : int
        h, which divides d.
    mask : boolean tensor that broadcasts to (..., h, n, n), optional
        True where a token may look at another.
    norm_first : bool, default False
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    activation : str, default "relu"
        Of the feed-forward network: "relu", "gelu", "gelu_tanh" or "silu".

    Returns
    -------
    float tensor, (..., n, d)

    Raises
    ------
    ValueError
        If a weight is missing, or a shape, a dtype or a choice doesn't fit.

    Examples
    --------
    >>> import torch
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = model.encoder[0].state_dict()
    >>> encoder_layer(torch.ones((3, 5, 4)), weights, n_heads=2).shape
    torch.Size([3, 5, 4])
    """
    check_sequence("x", x, "(..., n, d)")
    check_flag("norm_first", norm_first)
    x = _attend(x, None, weights, "attention", n_heads, mask, norm_first)
    return _think(x, weights, norm_first, activation)


def decoder_layer(
    x: Tensor,  # (..., n_tgt, d)
    memory: Tensor,  # (..., n_src, d)
    weights: Mapping[str, Tensor],
    n_heads: int,
    self_mask: Tensor | None = None,
    cross_mask: Tensor | None = None,
    norm_first: bool = False,
    activation: str = "relu",
) -> Tensor:
    """Let target tokens ask one another, then the source, then a network.

    Three residual sublayers: self-attention, cross-attention with queries from the target and keys
    and values from the source, and the feed-forward network (Vaswani et al. 2017, section 3.1).

    Parameters
    ----------
    x : float tensor, (..., n_tgt, d)
    memory : float tensor, (..., n_src, d)
        What the encoder made of the source. No norm of this layer is applied to it.
    weights : dictionary
        `self_attention.…`, `cross_attention.…` and `feed_forward.…`, as above.
    n_heads : int
        h, which divides d.
    self_mask : boolean tensor that broadcasts to (..., h, n_tgt, n_tgt), optional
        True where a target token may look at another. Without it each sees what comes later, too.
    cross_mask : boolean tensor that broadcasts to (..., h, n_tgt, n_src), optional
        True where a target token may look at a source token.
    norm_first : bool, default False
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    activation : str, default "relu"
        Of the feed-forward network: "relu", "gelu", "gelu_tanh" or "silu".

    Returns
    -------
    float tensor, (..., n_tgt, d)

    Raises
    ------
    ValueError
        If a weight is missing, or a shape, a dtype or a choice doesn't fit.

    Examples
    --------
    >>> import torch
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = model.decoder[0].state_dict()
    >>> x, memory = torch.ones((2, 4)), torch.ones((5, 4))
    >>> decoder_layer(x, memory, weights, n_heads=2, self_mask=causal_mask(2)).shape
    torch.Size([2, 4])
    """
    check_sequence("x", x, "(..., n_tgt, d)")
    check_sequence("memory", memory, "(..., n_src, d)")
    check_flag("norm_first", norm_first)
    x = _attend(x, None, weights, "self_attention", n_heads, self_mask, norm_first)
    x = _attend(x, memory, weights, "cross_attention", n_heads, cross_mask, norm_first)
    return _think(x, weights, norm_first, activation)


def encode(
    src: Tensor,  # (..., n_src)
    src_mask: Tensor | None,
    weights: Mapping[str, Tensor],
    n_heads: int,
    norm_first: bool = False,
    activation: str = "relu",
) -> Tensor:
    """Turn the ids of a source into vectors that a decoder can ask.

    Parameters
    ----------
    src : integer tensor, (..., n_src)
    src_mask : boolean tensor that broadcasts to (..., h, n_src, n_src), or None
        True at source tokens, False at padding: (b, 1, 1, n_src) for a batch.
    weights : dictionary
        A model's, as above.
    n_heads : int
    norm_first : bool, default False
    activation : str, default "relu"

    Returns
    -------
    float tensor, (..., n_src, d)

    Raises
    ------
    ValueError
        If a weight is missing, an id isn't in the vocabulary, the source is longer than its table
        of positions, or a shape, a dtype or a choice doesn't fit.

    Examples
    --------
    >>> import torch
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = model.state_dict()
    >>> encode(torch.tensor([4, 5, 6]), None, weights, n_heads=2).shape
    torch.Size([3, 4])
    """
    check_flag("norm_first", norm_first)
    x = _embed("src", src, weights)  # (..., n_src, d)
    for layer in _layers(weights, "encoder"):
        x = encoder_layer(x, layer, n_heads, src_mask, norm_first, activation)
    return _norm(x, weights, "encoder_norm") if norm_first else x


def decode(
    tgt: Tensor,  # (..., n_tgt)
    memory: Tensor,  # (..., n_src, d)
    src_mask: Tensor | None,
    weights: Mapping[str, Tensor],
    n_heads: int,
    norm_first: bool = False,
    activation: str = "relu",
) -> Tensor:
    """Score each next token of a target, given those before it and the memory.

    Parameters
    ----------
    tgt : integer tensor, (..., n_tgt)
        The target shifted right, so that it begins with <bos>. Padding at its end needs no mask:
        the causal one keeps it from all that comes before.
    memory : float tensor, (..., n_src, d)
        From `encode`.
    src_mask : boolean tensor that broadcasts to (..., h, n_tgt, n_src), or None
        True at source tokens, False at padding: (b, 1, 1, n_src) for a batch.
    weights : dictionary
        A model's, as above.
    n_heads : int
    norm_first : bool, default False
    activation : str, default "relu"

    Returns
    -------
    float tensor, (..., n_tgt, V_tgt)

    Raises
    ------
    ValueError
        As `encode`, for the target.

    Examples
    --------
    >>> import torch
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = model.state_dict()
    >>> memory = encode(torch.tensor([4, 5, 6]), None, weights, n_heads=2)
    >>> decode(torch.tensor([1, 5]), memory, None, weights, n_heads=2).shape
    torch.Size([2, 7])
    """
    check_flag("norm_first", norm_first)
    x = _embed("tgt", tgt, weights)  # (..., n_tgt, d)
    causal = causal_mask(x.shape[-2]).to(x.device)
    options = (norm_first, activation)
    for layer in _layers(weights, "decoder"):
        x = decoder_layer(x, memory, layer, n_heads, causal, src_mask, *options)
    x = _norm(x, weights, "decoder_norm") if norm_first else x
    if "predict.weight" in weights:
        return project(x, weights["predict.weight"].T, weights.get("predict.bias"))
    return tied_logits(x, weights["tgt_embedding.table"])


def encoder_decoder(
    src: Tensor,  # (..., n_src)
    src_mask: Tensor | None,
    tgt: Tensor,  # (..., n_tgt)
    weights: Mapping[str, Tensor],
    n_heads: int,
    norm_first: bool = False,
    activation: str = "relu",
) -> Tensor:
    """Score each next token of a target, given those before it and a source.

    Parameters
    ----------
    src : integer tensor, (..., n_src)
    src_mask : boolean tensor that broadcasts to (..., h, n_tgt or n_src, n_src), or None
        True at source tokens, False at padding: (b, 1, 1, n_src) for a batch.
    tgt : integer tensor, (..., n_tgt)
        The target shifted right, so that it begins with <bos>.
    weights : dictionary
        A model's, as above. It says how many layers there are, whether positions are learned and
        whether the projection is tied.
    n_heads : int
    norm_first : bool, default False
    activation : str, default "relu"

    Returns
    -------
    float tensor, (..., n_tgt, V_tgt)
        Logits.

    Raises
    ------
    ValueError
        If a weight is missing, an id isn't in its vocabulary, a sequence is longer than its table
        of positions, or a shape, a dtype or a choice doesn't fit.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3 and figure 1.

    Examples
    --------
    >>> import torch
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = model.state_dict()
    >>> src, tgt = torch.tensor([4, 5, 6]), torch.tensor([1, 5])
    >>> encoder_decoder(src, None, tgt, weights, n_heads=2).shape
    torch.Size([2, 7])
    """
    memory = encode(src, src_mask, weights, n_heads, norm_first, activation)
    return decode(tgt, memory, src_mask, weights, n_heads, norm_first, activation)


def _attend(
    x: Tensor,
    memory: Tensor | None,
    weights: Mapping[str, Tensor],
    name: str,
    n_heads: int,
    mask: Tensor | None,
    norm_first: bool,
) -> Tensor:
    """Return x after residual attention: over itself, or over memory if given."""
    (w_q, w_k, w_v, w_o), biases, norm = _look_up(weights, name, "qkvo")

    def sublayer(y: Tensor) -> Tensor:
        asked = y if memory is None else memory
        w = (w_q, w_k, w_v, w_o)
        return multi_head_attention(y, asked, *w, n_heads, mask, *biases)[0]

    residual = pre_norm if norm_first else post_norm
    return residual(x, sublayer, *norm)


def _think(
    x: Tensor,
    weights: Mapping[str, Tensor],
    norm_first: bool,
    activation: str,
) -> Tensor:
    """Return x after the residual feed-forward sublayer."""
    (w_1, w_2), (b_1, b_2), norm = _look_up(weights, "feed_forward", "12")

    def sublayer(y: Tensor) -> Tensor:
        return feed_forward(y, w_1, b_1, w_2, b_2, activation)

    residual = pre_norm if norm_first else post_norm
    return residual(x, sublayer, *norm)


def _look_up(
    weights: Mapping[str, Tensor], name: str, letters: str
) -> tuple[list[Tensor], list[Tensor | None], tuple[Tensor, Tensor]]:
    """Return a sublayer's matrices, transposed, its biases, and γ and β of its norm."""
    gamma, beta = f"{name}.norm.gamma", f"{name}.norm.beta"
    matrices = [f"{name}.sublayer.w_{letter}.weight" for letter in letters]
    biases = [f"{name}.sublayer.w_{letter}.bias" for letter in letters]
    check_weights(weights, [*matrices, gamma, beta])
    transposed = [weights[matrix].T for matrix in matrices]
    return transposed, [weights.get(b) for b in biases], (weights[gamma], weights[beta])


def _embed(side: str, ids: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """Return the scaled embeddings of ids, positions added, (..., n, d)."""
    check_weights(weights, [f"{side}_embedding.table"])
    table = weights[f"{side}_embedding.table"]  # (V, d)
    check_token_ids(side, ids, "(..., n)", len(table))
    n, d = ids.shape[-1], table.shape[1]
    if f"{side}_positions.table" in weights:
        positions = learned_positions(n, weights[f"{side}_positions.table"])
    else:
        positions = sinusoidal_positions(n, d, dtype=table.dtype).to(table.device)
    return embedding(ids, table) * sqrt(d) + positions


def _layers(weights: Mapping[str, Tensor], stack: str) -> list[dict[str, Tensor]]:
    """Return the dictionaries of a stack's layers, in order."""
    check_weights(weights, [])
    layers: list[dict[str, Tensor]] = []
    while True:
        start = f"{stack}.{len(layers)}."
        names = [name for name in weights if name.startswith(start)]
        if not names:
            break
        layers.append({name.removeprefix(start): weights[name] for name in names})
    if not layers:
        check_weights(weights, [f"{stack}.0.feed_forward.norm.gamma"])
    return layers


def _norm(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    """Return x after the norm that ends a stack of pre-norm layers."""
    check_weights(weights, [f"{name}.gamma", f"{name}.beta"])
    return layer_norm(x, weights[f"{name}.gamma"], weights[f"{name}.beta"])


class EncoderLayer(nn.Module):
    """`encoder_layer` with weights of its own.

    Parameters
    ----------
    d_model, n_heads, d_ff : int
        Width of the tokens, heads (which divide it), width inside the feed-forward network.
    dropout : float, default 0
        Share of each sublayer's output that is set to 0 in training, before it is added.
    norm_first : bool, default False
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    activation : str, default "relu"
        Of the feed-forward network.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Vaswani et al. 2017 (arXiv:1706.03762), sections 3.1 and 5.4.

    Examples
    --------
    >>> import torch
    >>> layer = EncoderLayer(d_model=8, n_heads=2, d_ff=32)
    >>> layer(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        norm_first: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        check_flag("norm_first", norm_first)
        attention = CachedAttention(d_model, n_heads)
        network = FeedForward(d_model, d_ff, activation=activation)
        options: _Options = {"norm_first": norm_first, "dropout": dropout}
        self.attention = Residual(d_model, attention, **options)
        self.feed_forward = Residual(d_model, network, **options)

    def forward(
        self,
        x: Tensor,  # (..., n, d)
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Take the tokens of a sequence through the layer.

        Parameters
        ----------
        x : float tensor, (..., n, d)
        mask : boolean tensor that broadcasts to (..., h, n, past + n), optional
        cache : KeyValueCache, optional
            Keys and values of the past, for a model that has no decoder but causal layers.

        Returns
        -------
        float tensor, (..., n, d)
        """
        return self.feed_forward(self.attention(x, mask=mask, cache=cache))


class DecoderLayer(nn.Module):
    """`decoder_layer` with weights of its own.

    Parameters
    ----------
    d_model, n_heads, d_ff : int
        Width of the tokens, heads (which divide it), width inside the feed-forward network.
    dropout : float, default 0
        Share of each sublayer's output that is set to 0 in training, before it is added.
    norm_first : bool, default False
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    activation : str, default "relu"
        Of the feed-forward network.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Vaswani et al. 2017 (arXiv:1706.03762), sections 3.1 and 5.4.

    Examples
    --------
    >>> import torch
    >>> layer = DecoderLayer(d_model=8, n_heads=2, d_ff=32)
    >>> layer(torch.zeros(3, 5, 8), torch.zeros(3, 7, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        norm_first: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        check_flag("norm_first", norm_first)
        own = CachedAttention(d_model, n_heads)
        cross = CachedAttention(d_model, n_heads)
        network = FeedForward(d_model, d_ff, activation=activation)
        options: _Options = {"norm_first": norm_first, "dropout": dropout}
        self.self_attention = Residual(d_model, own, **options)
        self.cross_attention = Residual(d_model, cross, **options)
        self.feed_forward = Residual(d_model, network, **options)

    def forward(
        self,
        x: Tensor,  # (..., n_tgt, d)
        memory: Tensor,  # (..., n_src, d)
        self_mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        self_cache: KeyValueCache | None = None,
        cross_cache: KeyValueCache | None = None,
        collect: list[Tensor] | None = None,
    ) -> Tensor:
        """Take target tokens through the layer: all of them, or new ones.

        Parameters
        ----------
        x : float tensor, (..., n_tgt, d)
        memory : float tensor, (..., n_src, d)
        self_mask : boolean tensor that broadcasts to (..., h, n_tgt, past + n_tgt), optional
        cross_mask : boolean tensor that broadcasts to (..., h, n_tgt, n_src), optional
        self_cache : KeyValueCache, optional
            Keys and values of the past, to which those of `x` are added.
        cross_cache : KeyValueCache, optional
            Keys and values of `memory`: filled where it's empty, read where it isn't.
        collect : list, optional
            The weights by which the source was looked at, (..., h, n_tgt, n_src), are appended.

        Returns
        -------
        float tensor, (..., n_tgt, d)
        """
        x = self.self_attention(x, mask=self_mask, cache=self_cache)
        x = self.cross_attention(
            x,
            memory,
            mask=cross_mask,
            cache=cross_cache,
            collect=collect,
        )
        return self.feed_forward(x)


class _Options(TypedDict):
    norm_first: bool
    dropout: float
