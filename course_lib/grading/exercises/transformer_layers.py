"""Layers and whole encoder-decoders with their steps to be replaced, and written in other ways.

Exercises build wrong answers and right ones from it. Everything is written out: the course's own
functions refuse to work while a student's are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import attend
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.norms import standard
from course_lib.reference.positions import sinusoidal_positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "attention_of",
    "decoder",
    "encoder",
    "layer_weights",
    "model",
    "network_of",
    "norm_of",
    "post",
    "pre",
    "relu",
    "stack",
    "torch_attention_of",
    "torch_network_of",
    "torch_norm_of",
]

Weights = Mapping[str, Any]
Around = Callable[..., Any]


def layer_weights(
    rng: np.random.Generator, d: int, d_ff: int, *attentions: str
) -> dict[str, NDArray]:
    """Draw a layer's weights, by the names of the course's modules."""
    weights: dict[str, NDArray] = {}
    for name in (*attentions, "feed_forward"):
        weights[f"{name}.norm.gamma"] = draw(rng, d, spread=0.3) + 1.4
        weights[f"{name}.norm.beta"] = draw(rng, d, spread=0.5) + 0.2
        shapes = {f"w_{x}": (d, d) for x in "qkvo"}
        if name == "feed_forward":
            shapes = {"w_1": (d_ff, d), "w_2": (d, d_ff)}
        for matrix, shape in shapes.items():
            weights[f"{name}.sublayer.{matrix}.weight"] = draw(rng, *shape, spread=0.6)
            weights[f"{name}.sublayer.{matrix}.bias"] = draw(rng, shape[0], spread=0.6) + 0.05
    return weights


# -- the pieces ------------------------------------------------------------------------------------


def post(x: Any, f: Any, norm: Any) -> Any:
    """Normalise the sum."""
    return norm(x + f(x))


def pre(x: Any, f: Any, norm: Any) -> Any:
    """Normalise what goes in."""
    return x + f(norm(x))


def relu(x: NDArray) -> NDArray:
    """Cut off what is below 0."""
    return np.maximum(x, 0.0)


def _turned(w: NDArray) -> NDArray:
    return w.T


def norm_of(weights: Weights, name: str, standardise: Any = standard) -> Callable[[Any], Any]:
    """Return the layer norm with these weights."""
    return lambda y: weights[f"{name}.gamma"] * standardise(y) + weights[f"{name}.beta"]


def attention_of(
    weights: Weights, name: str, n_heads: int, biases: str = "qkvo", **changes: Any
) -> Callable[..., Any]:
    """Return multi-head attention with these weights, of (who asks, who is asked, mask)."""
    w = {x: weights[f"{name}.sublayer.w_{x}.weight"] for x in "qkvo"}
    b = {x: weights[f"{name}.sublayer.w_{x}.bias"] if x in biases else 0.0 for x in "qkvo"}
    options: dict[str, Any] = {
        "turn": _turned,
        "inputs": lambda x, y, w_q, w_k, w_v: (
            x @ w_q + b["q"],
            y @ w_k + b["k"],
            y @ w_v + b["v"],
        ),
        "project": lambda heads, w_o: heads @ w_o + b["o"],
        "returns": lambda output, table: output,
    }
    attended = attend(**{**options, **changes})
    return lambda x, y, mask: attended(x, y, w["q"], w["k"], w["v"], w["o"], n_heads, mask)


def network_of(
    weights: Weights,
    name: str = "feed_forward",
    bend: Callable[[NDArray], NDArray] = relu,
    biases: str = "12",
    last: Callable[[NDArray], NDArray] = lambda y: y,
) -> Callable[[Any], Any]:
    """Return the feed-forward network with these weights."""
    w = {x: weights[f"{name}.sublayer.w_{x}.weight"].T for x in "12"}
    b = {x: weights[f"{name}.sublayer.w_{x}.bias"] if x in biases else 0.0 for x in "12"}
    return lambda x: last(bend(x @ w["1"] + b["1"]) @ w["2"] + b["2"])


# -- layers ----------------------------------------------------------------------------------------


def encoder(
    around: tuple[Around, Around] = (post, post),
    norms: tuple[str, str] = ("attention", "feed_forward"),
    attention: Any = attention_of,
    network: Any = network_of,
    seen: Callable[[Any], Any] = lambda mask: mask,
    standardise: Any = standard,
    heads: Callable[[int], int] = lambda h: h,
) -> Callable[..., Any]:
    """Return an encoder layer with some steps replaced."""

    def layer(x: NDArray, weights: Weights, n_heads: int, mask: NDArray | None = None) -> Any:
        ask = attention(weights, "attention", heads(n_heads))
        first, second = (norm_of(weights, f"{name}.norm", standardise) for name in norms)
        y = around[0](x, lambda z: ask(z, z, seen(mask)), first)
        return around[1](y, network(weights), second)

    return layer


_SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")


def decoder(
    post: Around = post,
    pre: Around = pre,
    arounds: Mapping[str, tuple[Around, Around]] = {},
    order: Sequence[str] = _SUBLAYERS,
    norms: Mapping[str, str] = {},
    own: Mapping[str, str] = {},
    choose: Callable[[bool], bool] = lambda norm_first: norm_first,
    attention: Any = attention_of,
    network: Any = network_of,
    cross: Callable[..., Any] = lambda ask, z, memory, norm, mask, norm_first: ask(z, memory, mask),
    self_seen: Callable[..., Any] = lambda own, cross: own,
    cross_seen: Callable[..., Any] = lambda own, cross: cross,
    standardise: Any = standard,
    heads: Callable[[int], int] = lambda h: h,
    last: Callable[..., Any] = lambda y, norm, norm_first: y,
) -> Callable[..., Any]:
    """Return a decoder layer with some steps replaced.

    `norms` and `own` say whose norm, and whose matrices, a sublayer uses in the place of its own;
    `arounds` what goes round it, with the norm last and first, where that isn't `post` and `pre`.
    """

    def layer(
        x: NDArray,
        memory: NDArray,
        weights: Weights,
        n_heads: int,
        self_mask: NDArray | None = None,
        cross_mask: NDArray | None = None,
        norm_first: bool = False,
    ) -> Any:
        norm = {
            name: norm_of(weights, f"{norms.get(name, name)}.norm", standardise)
            for name in _SUBLAYERS
        }
        ask = {
            name: attention(weights, own.get(name, name), heads(n_heads)) for name in _SUBLAYERS[:2]
        }
        masks = (self_mask, cross_mask)
        sublayers: dict[str, Any] = {
            "self_attention": lambda z: ask["self_attention"](z, z, self_seen(*masks)),
            "cross_attention": lambda z: cross(
                ask["cross_attention"],
                z,
                memory,
                norm["cross_attention"],
                cross_seen(*masks),
                norm_first,
            ),
            "feed_forward": network(weights),
        }
        y = x
        for name in order:
            last_or_first = arounds.get(name, (post, pre))
            y = last_or_first[choose(norm_first)](y, sublayers[name], norm[name])
        return last(y, norm["feed_forward"], norm_first)

    return layer


# -- models ----------------------------------------------------------------------------------------


def stack(weights: Weights, side: str) -> list[dict[str, Any]]:
    """Return the dictionaries of an encoder's or a decoder's layers, by their numbers."""
    numbers = {int(key.split(".")[1]) for key in weights if key.startswith(f"{side}.")}
    return [
        {
            key.removeprefix(f"{side}.{i}."): w
            for key, w in weights.items()
            if key.startswith(f"{side}.{i}.")
        }
        for i in sorted(numbers)
    ]


_ENCODER, _DECODER = encoder(), decoder()


def model(
    embed: Callable[..., Any] = lambda rows, places: rows * sqrt(rows.shape[-1]) + places,
    place: Callable[[int, int], Any] = sinusoidal_positions,
    tables: tuple[str, str] = ("src", "tgt"),
    layers: Callable[[Weights, str], Any] = stack,
    encoder: Any = _ENCODER,
    decoder: Any = _DECODER,
    remembered: Callable[..., Any] = lambda states, i: states[-1],
    encoder_mask: Callable[[Any], Any] = lambda mask: mask,
    self_mask: Callable[..., Any] = lambda n, mask: np.tri(n, dtype=bool),
    cross_mask: Callable[..., Any] = lambda n, mask: mask,
    tied: Callable[[Any, Any], Any] = lambda x, table: x @ table.T,
    bias: bool = True,
    finish: Callable[[Any], Any] = lambda logits: logits,
) -> Callable[..., Any]:
    """Return a whole model's forward pass with some steps replaced."""

    def forward(
        src: NDArray, src_mask: NDArray | None, tgt: NDArray, weights: Weights, n_heads: int
    ) -> Any:
        def come_in(ids: NDArray, side: str) -> Any:
            rows = weights[f"{side}_embedding.table"][ids]
            return embed(rows, place(*rows.shape[-2:]))

        states = [come_in(src, tables[0])]
        for layer in layers(weights, "encoder"):
            states.append(encoder(states[-1], layer, n_heads, encoder_mask(src_mask)))
        x = come_in(tgt, tables[1])
        seen = self_mask(x.shape[-2], src_mask)
        for i, layer in enumerate(layers(weights, "decoder")):
            asked = cross_mask(x.shape[-2], src_mask)
            x = decoder(x, remembered(states, i), layer, n_heads, seen, asked)
        if "predict.weight" in weights:
            logits = x @ weights["predict.weight"].T
            return finish(logits + weights["predict.bias"] if bias else logits)
        return finish(tied(x, weights["tgt_embedding.table"]))

    return forward


# -- with tensors ----------------------------------------------------------------------------------


def torch_norm_of(weights: Weights, name: str) -> Callable[[Any], Any]:
    """Do what `norm_of` does, with tensors."""
    from torch.nn import functional

    gamma, beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]
    return lambda y: functional.layer_norm(y, gamma.shape, gamma, beta)


def torch_attention_of(weights: Weights, name: str, n_heads: int) -> Callable[..., Any]:
    """Do what `attention_of` does, with tensors and PyTorch's own attention."""
    from torch.nn import functional

    def linear(x: Any, letter: str) -> Any:
        key = f"{name}.sublayer.w_{letter}"
        return functional.linear(x, weights[f"{key}.weight"], weights[f"{key}.bias"])

    def ask(x: Any, y: Any, mask: Any) -> Any:
        q, k, v = (
            linear(z, letter).unflatten(-1, (n_heads, -1)).transpose(-3, -2)
            for z, letter in ((x, "q"), (y, "k"), (y, "v"))
        )
        heads = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return linear(heads.transpose(-3, -2).flatten(-2), "o")

    return ask


def torch_network_of(weights: Weights) -> Callable[[Any], Any]:
    """Do what `network_of` does, with tensors."""
    from torch.nn import functional

    def linear(x: Any, number: int) -> Any:
        key = f"feed_forward.sublayer.w_{number}"
        return functional.linear(x, weights[f"{key}.weight"], weights[f"{key}.bias"])

    return lambda x: linear(functional.relu(linear(x, 1)), 2)
