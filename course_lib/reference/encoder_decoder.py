"""Encoder, decoder and the whole Transformer as functions of dictionaries of weights, in numpy.

The model is that of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section
3, with the norm where its authors put it or before each sublayer (Xiong et al. 2020,
arXiv:2002.04745). The names of the weights are those of the modules' ``state_dict()`` in
`course_lib.blocks.encoder_decoder` and `course_lib.models.encoder_decoder`. Matrices are
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
from typing import TYPE_CHECKING

import numpy as np

from course_lib.reference.attention import causal_mask
from course_lib.reference.embeddings import embedding, tied_logits
from course_lib.reference.feed_forward import feed_forward
from course_lib.reference.multi_head import multi_head_attention, project
from course_lib.reference.normalization import layer_norm
from course_lib.reference.positions import learned_positions, sinusoidal_positions
from course_lib.reference.residual import post_norm, pre_norm
from course_lib.validation import (
    check_flag,
    check_sequence,
    check_token_ids,
    check_weights,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode", "decoder_layer", "encode", "encoder_decoder", "encoder_layer"]


def encoder_layer(
    x: NDArray,  # (..., n, d)
    weights: Mapping[str, NDArray],
    n_heads: int,
    mask: NDArray[np.bool_] | None = None,
    norm_first: bool = False,
    activation: str = "relu",
) -> NDArray:
    """Let tokens ask one another, then send each through a network.

    Two residual sublayers: self-attention, and the feed-forward network (Vaswani et al. 2017,
    section 3.1).

    Parameters
    ----------
    x : float array, (..., n, d)
    weights : dictionary
        `attention.…` and `feed_forward.…`, as above.
    n_heads : int
        h, which divides d.
    mask : boolean array that broadcasts to (..., h, n, n), optional
        True where a token may look at another.
    norm_first : bool, default False
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    activation : str, default "relu"
        Of the feed-forward network: "relu", "gelu", "gelu_tanh" or "silu".

    Returns
    -------
    float array, (..., n, d)

    Raises
    ------
    ValueError
        If a weight is missing, or a shape, a dtype or a choice doesn't fit.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = {name: w.numpy() for name, w in model.encoder[0].state_dict().items()}
    >>> encoder_layer(np.ones((3, 5, 4), dtype=np.float32), weights, n_heads=2).shape
    (3, 5, 4)
    """
    check_sequence("x", x, "(..., n, d)")
    check_flag("norm_first", norm_first)
    x = _attend(x, None, weights, "attention", n_heads, mask, norm_first)
    return _think(x, weights, norm_first, activation)


def decoder_layer(
    x: NDArray,  # (..., n_tgt, d)
    memory: NDArray,  # (..., n_src, d)
    weights: Mapping[str, NDArray],
    n_heads: int,
    self_mask: NDArray[np.bool_] | None = None,
    cross_mask: NDArray[np.bool_] | None = None,
    norm_first: bool = False,
    activation: str = "relu",
) -> NDArray:
    """Let target tokens ask one another, then the source, then a network.

    Three residual sublayers: self-attention, cross-attention with queries from the target and keys
    and values from the source, and the feed-forward network (Vaswani et al. 2017, section 3.1).

    Parameters
    ----------
    x : float array, (..., n_tgt, d)
    memory : float array, (..., n_src, d)
        What the encoder made of the source. No norm of this layer is applied to it.
    weights : dictionary
        `self_attention.…`, `cross_attention.…` and `feed_forward.…`, as above.
    n_heads : int
        h, which divides d.
    self_mask : boolean array that broadcasts to (..., h, n_tgt, n_tgt), optional
        True where a target token may look at another. Without it each sees what comes later, too.
    cross_mask : boolean array that broadcasts to (..., h, n_tgt, n_src), optional
        True where a target token may look at a source token.
    norm_first : bool, default False
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    activation : str, default "relu"
        Of the feed-forward network: "relu", "gelu", "gelu_tanh" or "silu".

    Returns
    -------
    float array, (..., n_tgt, d)

    Raises
    ------
    ValueError
        If a weight is missing, or a shape, a dtype or a choice doesn't fit.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = {name: w.numpy() for name, w in model.decoder[0].state_dict().items()}
    >>> x, memory = np.ones((2, 4), dtype=np.float32), np.ones((5, 4), dtype=np.float32)
    >>> decoder_layer(x, memory, weights, n_heads=2, self_mask=causal_mask(2)).shape
    (2, 4)
    """
    check_sequence("x", x, "(..., n_tgt, d)")
    check_sequence("memory", memory, "(..., n_src, d)")
    check_flag("norm_first", norm_first)
    x = _attend(x, None, weights, "self_attention", n_heads, self_mask, norm_first)
    x = _attend(x, memory, weights, "cross_attention", n_heads, cross_mask, norm_first)
    return _think(x, weights, norm_first, activation)


def encode(
    src: NDArray,  # (..., n_src)
    src_mask: NDArray[np.bool_] | None,
    weights: Mapping[str, NDArray],
    n_heads: int,
    norm_first: bool = False,
    activation: str = "relu",
) -> NDArray:
    """Turn the ids of a source into vectors that a decoder can ask.

    Parameters
    ----------
    src : integer array, (..., n_src)
    src_mask : boolean array that broadcasts to (..., h, n_src, n_src), or None
        True at source tokens, False at padding: (b, 1, 1, n_src) for a batch.
    weights : dictionary
        A model's, as above.
    n_heads : int
    norm_first : bool, default False
    activation : str, default "relu"

    Returns
    -------
    float array, (..., n_src, d)

    Raises
    ------
    ValueError
        If a weight is missing, an id isn't in the vocabulary, the source is longer than its table
        of positions, or a shape, a dtype or a choice doesn't fit.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = {name: w.numpy() for name, w in model.state_dict().items()}
    >>> encode(np.array([4, 5, 6]), None, weights, n_heads=2).shape
    (3, 4)
    """
    check_flag("norm_first", norm_first)
    x = _embed("src", src, weights)  # (..., n_src, d)
    for layer in _layers(weights, "encoder"):
        x = encoder_layer(x, layer, n_heads, src_mask, norm_first, activation)
    return _norm(x, weights, "encoder_norm") if norm_first else x


def decode(
    tgt: NDArray,  # (..., n_tgt)
    memory: NDArray,  # (..., n_src, d)
    src_mask: NDArray[np.bool_] | None,
    weights: Mapping[str, NDArray],
    n_heads: int,
    norm_first: bool = False,
    activation: str = "relu",
) -> NDArray:
    """Score each next token of a target, given those before it and the memory.

    Parameters
    ----------
    tgt : integer array, (..., n_tgt)
        The target shifted right, so that it begins with <bos>. Padding at its end needs no mask:
        the causal one keeps it from all that comes before.
    memory : float array, (..., n_src, d)
        From `encode`.
    src_mask : boolean array that broadcasts to (..., h, n_tgt, n_src), or None
        True at source tokens, False at padding: (b, 1, 1, n_src) for a batch.
    weights : dictionary
        A model's, as above.
    n_heads : int
    norm_first : bool, default False
    activation : str, default "relu"

    Returns
    -------
    float array, (..., n_tgt, V_tgt)

    Raises
    ------
    ValueError
        As `encode`, for the target.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = {name: w.numpy() for name, w in model.state_dict().items()}
    >>> memory = encode(np.array([4, 5, 6]), None, weights, n_heads=2)
    >>> decode(np.array([1, 5]), memory, None, weights, n_heads=2).shape
    (2, 7)
    """
    check_flag("norm_first", norm_first)
    x = _embed("tgt", tgt, weights)  # (..., n_tgt, d)
    causal = causal_mask(x.shape[-2])
    options = (norm_first, activation)
    for layer in _layers(weights, "decoder"):
        x = decoder_layer(x, memory, layer, n_heads, causal, src_mask, *options)
    x = _norm(x, weights, "decoder_norm") if norm_first else x
    if "predict.weight" in weights:
        return project(x, weights["predict.weight"].T, weights.get("predict.bias"))
    return tied_logits(x, weights["tgt_embedding.table"])


def encoder_decoder(
    src: NDArray,  # (..., n_src)
    src_mask: NDArray[np.bool_] | None,
    tgt: NDArray,  # (..., n_tgt)
    weights: Mapping[str, NDArray],
    n_heads: int,
    norm_first: bool = False,
    activation: str = "relu",
) -> NDArray:
    """Score each next token of a target, given those before it and a source.

    Parameters
    ----------
    src : integer array, (..., n_src)
    src_mask : boolean array that broadcasts to (..., h, n_tgt or n_src, n_src), or None
        True at source tokens, False at padding: (b, 1, 1, n_src) for a batch.
    tgt : integer array, (..., n_tgt)
        The target shifted right, so that it begins with <bos>.
    weights : dictionary
        A model's, as above. It says how many layers there are, whether positions are learned and
        whether the projection is tied.
    n_heads : int
    norm_first : bool, default False
    activation : str, default "relu"

    Returns
    -------
    float array, (..., n_tgt, V_tgt)
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
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> weights = {name: w.numpy() for name, w in model.state_dict().items()}
    >>> src, tgt = np.array([4, 5, 6]), np.array([1, 5])
    >>> encoder_decoder(src, None, tgt, weights, n_heads=2).shape
    (2, 7)
    """
    memory = encode(src, src_mask, weights, n_heads, norm_first, activation)
    return decode(tgt, memory, src_mask, weights, n_heads, norm_first, activation)


def _attend(
    x: NDArray,
    memory: NDArray | None,
    weights: Mapping[str, NDArray],
    name: str,
    n_heads: int,
    mask: NDArray[np.bool_] | None,
    norm_first: bool,
) -> NDArray:
    """Return x after residual attention: over itself, or over memory if given."""
    (w_q, w_k, w_v, w_o), biases, norm = _look_up(weights, name, "qkvo")

    def sublayer(y: NDArray) -> NDArray:
        asked = y if memory is None else memory
        w = (w_q, w_k, w_v, w_o)
        return multi_head_attention(y, asked, *w, n_heads, mask, *biases)[0]

    residual = pre_norm if norm_first else post_norm
    return residual(x, sublayer, *norm)


def _think(
    x: NDArray,
    weights: Mapping[str, NDArray],
    norm_first: bool,
    activation: str,
) -> NDArray:
    """Return x after the residual feed-forward sublayer."""
    (w_1, w_2), (b_1, b_2), norm = _look_up(weights, "feed_forward", "12")

    def sublayer(y: NDArray) -> NDArray:
        return feed_forward(y, w_1, b_1, w_2, b_2, activation)

    residual = pre_norm if norm_first else post_norm
    return residual(x, sublayer, *norm)


def _look_up(
    weights: Mapping[str, NDArray], name: str, letters: str
) -> tuple[list[NDArray], list[NDArray | None], tuple[NDArray, NDArray]]:
    """Return a sublayer's matrices, transposed, its biases, and γ and β of its norm."""
    gamma, beta = f"{name}.norm.gamma", f"{name}.norm.beta"
    matrices = [f"{name}.sublayer.w_{letter}.weight" for letter in letters]
    biases = [f"{name}.sublayer.w_{letter}.bias" for letter in letters]
    check_weights(weights, [*matrices, gamma, beta])
    transposed = [weights[matrix].T for matrix in matrices]
    return transposed, [weights.get(b) for b in biases], (weights[gamma], weights[beta])


def _embed(side: str, ids: NDArray, weights: Mapping[str, NDArray]) -> NDArray:
    """Return the scaled embeddings of ids, positions added, (..., n, d)."""
    check_weights(weights, [f"{side}_embedding.table"])
    table = weights[f"{side}_embedding.table"]  # (V, d)
    check_token_ids(side, ids, "(..., n)", len(table))
    n, d = ids.shape[-1], table.shape[1]
    if f"{side}_positions.table" in weights:
        positions = learned_positions(n, weights[f"{side}_positions.table"])
    else:
        positions = sinusoidal_positions(n, d, dtype=table.dtype)
    return embedding(ids, table) * sqrt(d) + positions


def _layers(weights: Mapping[str, NDArray], stack: str) -> list[dict[str, NDArray]]:
    """Return the dictionaries of a stack's layers, in order."""
    check_weights(weights, [])
    layers: list[dict[str, NDArray]] = []
    while True:
        start = f"{stack}.{len(layers)}."
        names = [name for name in weights if name.startswith(start)]
        if not names:
            break
        layers.append({name.removeprefix(start): weights[name] for name in names})
    if not layers:
        check_weights(weights, [f"{stack}.0.feed_forward.norm.gamma"])
    return layers


def _norm(x: NDArray, weights: Mapping[str, NDArray], name: str) -> NDArray:
    """Return x after the norm that ends a stack of pre-norm layers."""
    check_weights(weights, [f"{name}.gamma", f"{name}.beta"])
    return layer_norm(x, weights[f"{name}.gamma"], weights[f"{name}.beta"])
