"""The exercises of chapter 09 about an encoder's and a decoder's layer.

Everything that is wrong here is wrong in one way; hints that both layers share stand in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import cut, late, paste
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.norms import standard
from course_lib.grading.exercises.transformer_layers import (
    attention_of,
    decoder,
    encoder,
    layer_weights,
    network_of,
    norm_of,
    post,
    pre,
    torch_attention_of,
    torch_network_of,
    torch_norm_of,
)
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import encoder_decoder as ref
from course_lib.reference import feed_forward, multi_head, normalization

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ATTENTION_BIASES",
    "DECODER",
    "ENCODER",
    "NO_BIAS",
    "ONE_HEAD",
    "ONE_SEQUENCE",
    "TURNED",
    "UNTURNED",
    "decoder_by_blocks",
    "decoder_layer",
    "decoder_torch",
    "encoder_by_blocks",
    "encoder_layer",
    "encoder_torch",
    "inverted",
    "padding",
    "without_batch",
]

_GUARDED: list[Callable[..., Any]] = [
    ref.encoder_layer,
    ref.decoder_layer,
    ref.encode,
    ref.decode,
    ref.encoder_decoder,
]


# -- 09.encoder_layer ------------------------------------------------------------------------------


def encoder_layer(
    x: NDArray, weights: Mapping[str, NDArray], n_heads: int, mask: NDArray | None = None
) -> NDArray:
    """Run an encoder layer with the norms last.

    Parameters
    ----------
    x : float array, (..., n, d)
    weights : dictionary
        By the names of the course's modules; matrices are (d_out, d_in).
    n_heads : int
    mask : boolean array that broadcasts to (..., h, n, n), optional
        True where a token may look at another.

    Returns
    -------
    float array, (..., n, d)
    """
    return ref.encoder_layer(x, weights, n_heads, mask)


def _tokens(
    *shape: int,
    h: int,
    d_ff: int,
    lengths: tuple[int, ...] | None = None,
    silent: bool = False,
) -> Callable[[int], dict[str, Any]]:
    """Draw tokens and a layer; with `lengths`, a mask of padding; silent, a layer that adds 0."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 1, *shape])
        given: dict[str, Any] = {
            "x": draw(rng, *shape),
            "weights": layer_weights(rng, shape[-1], d_ff, "attention"),
            "n_heads": h,
        }
        if silent:
            _silence(given["weights"])
        if lengths is not None:
            given["mask"] = padding(lengths, shape[-2], batch=len(shape) > 2)
        return given

    return build


def _silence(weights: dict[str, NDArray]) -> None:
    """Let every sublayer end in zeros."""
    for name, w in weights.items():
        if ".w_o." in name or ".w_2." in name:
            weights[name] = np.zeros_like(w)


def padding(lengths: tuple[int, ...], n: int, batch: bool) -> NDArray:
    """Build the mask of padded sources: (b, 1, 1, n), or (1, 1, n) of a single one."""
    real = np.arange(n) < np.array(lengths)[:, None]  # (b, n)
    return real[:, None, None, :] if batch else real[:, None, :]


_ENCODER_CASES = [
    case("one token, one head | attention gives its value, projected", _tokens(1, 4, h=1, d_ff=7)),
    case(
        "3 tokens, sublayers that add nothing | what is left are two norms",
        _tokens(3, 4, h=2, d_ff=5, silent=True),
    ),
    case("4 tokens of width 6, one head | tokens look at one another", _tokens(4, 6, h=1, d_ff=5)),
    case("5 tokens of width 6, 3 heads | each head has its share", _tokens(5, 6, h=3, d_ff=8)),
    case(
        "4 tokens, the last is padding | nobody looks at it",
        _tokens(4, 6, h=2, d_ff=5, lengths=(3,)),
    ),
    case(
        "2 sequences, one of them padded | a batch gives what its members give",
        _tokens(2, 5, 6, h=3, d_ff=7, lengths=(5, 3)),
    ),
]


def _untouched(x: Any, f: Any, norm: Any) -> Any:
    return norm(f(x))


def _bare(x: Any, f: Any, norm: Any) -> Any:
    return x + f(x)


def _no_residual(x: Any, f: Any, norm: Any) -> Any:
    return f(norm(x))


def _output_normed(x: Any, f: Any, norm: Any) -> Any:
    return x + norm(f(x))


def _normed_goes_round(x: Any, f: Any, norm: Any) -> Any:
    return norm(x) + f(norm(x))


def _both_sides(x: Any, f: Any, norm: Any) -> Any:
    return norm(x + f(norm(x)))


def _as_it_is(w: NDArray) -> NDArray:
    return w


UNTURNED = partial(attention_of, turn=_as_it_is)


def _gelu(x: NDArray) -> NDArray:
    return feed_forward.gelu(x)


def _transposed(mask: Any) -> Any:
    return None if mask is None else np.swapaxes(mask, -2, -1)


def inverted(mask: Any) -> Any:
    """Show what a mask hides, and hide what it shows."""
    return None if mask is None else ~mask


def _side_by_side(
    x: NDArray, weights: Mapping[str, NDArray], n_heads: int, mask: NDArray | None = None
) -> Any:
    """Let the network see what attention saw, with norms of their own after each sum."""
    ask, think = attention_of(weights, "attention", n_heads), network_of(weights)
    y = norm_of(weights, "attention.norm")(x + ask(x, x, mask))
    return norm_of(weights, "feed_forward.norm")(y + think(x))


def _first_goes_round(
    x: NDArray, weights: Mapping[str, NDArray], n_heads: int, mask: NDArray | None = None
) -> Any:
    ask, think = attention_of(weights, "attention", n_heads), network_of(weights)
    y = norm_of(weights, "attention.norm")(x + ask(x, x, mask))
    return norm_of(weights, "feed_forward.norm")(x + think(y))


def _network_first(
    x: NDArray, weights: Mapping[str, NDArray], n_heads: int, mask: NDArray | None = None
) -> Any:
    ask, think = attention_of(weights, "attention", n_heads), network_of(weights)
    y = norm_of(weights, "feed_forward.norm")(x + think(x))
    return norm_of(weights, "attention.norm")(y + ask(y, y, mask))


def _encoder_in_place(
    x: NDArray, weights: Mapping[str, NDArray], n_heads: int, mask: NDArray | None = None
) -> Any:
    result = encoder()(x, weights, n_heads, mask)
    x += attention_of(weights, "attention", n_heads)(x, x, mask)
    return result


def _padding_to_0(
    x: NDArray, weights: Mapping[str, NDArray], n_heads: int, mask: NDArray | None = None
) -> Any:
    y = encoder()(x, weights, n_heads, mask)
    return y if mask is None else y * mask[..., 0, 0, :, None]


# Hints that both layers share.
TURNED = (
    "no matrix of attention transposed | You multiply tokens by attention's matrices as they "
    "stand, and since those are square nothing complains. They're (d_out, d_in). → Which way "
    "round does `x @ W` need them?"
)
ATTENTION_BIASES = (
    "attention without biases | The biases of attention's four projections are missing. → Which "
    "entries of `weights` does your function never read?"
)
_NETWORK_BIASES = (
    "the network without biases | The biases of the feed-forward network's two layers are missing. "
    "→ Which entries of `weights` does your function never read?"
)
_ALL_BIASES = (
    "no biases at all | All biases are missing, those of attention's four projections and of the "
    "network's two layers. → Which entries of `weights` does your function never read?"
)
_NO_RELU = (
    "no ReLU | Nothing bends between the network's two layers, so they're one linear layer. → "
    "What happens to the inner numbers before W_2 sees them?"
)
_GELU = (
    "GELU for ReLU | this exercise uses ReLU between the network's two layers, as the first "
    "Transformer does; you use GELU. → What does ReLU make of −0.1?"
)
_RELU_TWICE = (
    "ReLU after both layers | The network's output is cut off at 0 too, so it can only add. → "
    "Between which two steps does the network bend?"
)
ONE_HEAD = (
    "one head | With one head you're right. Where there are more, you attend with a single one of "
    "the whole width. → Where does `n_heads` come in?"
)
_WHOLE_SCALE = (
    "scores divided by √d | With one head you're right. With more, a head's scores are sums of "
    "d/h products, and you divide by the root of the whole width. → How wide are one head's "
    "queries?"
)
_CUT = (
    "heads cut without a swap of axes | With one head you're right. With more, vectors are "
    "reshaped to (h, n, d/h) in one go, so that a head holds pieces of several tokens. → Which "
    "axis has to be cut first, and which two swapped then?"
)
_NO_W_O = (
    "no W_O | What the heads found is put side by side and goes on as it is. → Which of "
    "attention's four matrices hasn't been used?"
)
_DDOF = (
    "variance over d − 1 | Your norms divide by d − 1 when they average squares, as `torch.std` "
    "and `ddof=1` do. → By what does layer norm divide?"
)
_SEQUENCE_NORM = (
    "norms over the whole sequence | Your norms take mean and variance over all tokens together, "
    "so that tokens, padding among them, have a say in one another. → Over which axis does layer "
    "norm go?"
)
_EPS = (
    "another ε | Your numbers are off by a few millionths: ε in your norms isn't 10⁻⁵ (RMSNorm's "
    "default, for one, is 10⁻⁶). → Which ε does the text of the exercise name?"
)
_NO_GAMMA = (
    "norms without γ and β | Your norms centre and divide, and stop there. → Which two entries of "
    "`weights` belong to each norm?"
)


_NO_BETA = (
    "norms without β | Your norms centre, divide and multiply by γ, and stop there. → Which "
    "entries of `weights` does your function never read?"
)
_GAMMA_AND_BETA = (
    "γ and β exchanged | Your norms multiply by β and add γ. → In which order does `layer_norm` "
    "take the two?"
)
_KEYS_FOR_QUERIES = (
    "queries and keys exchanged | With one token to ask you're right; else it shows that your "
    "queries are made with W_K and your keys with W_Q. → In which order does "
    "`multi_head_attention` take its matrices?"
)


def _exchanged(weights: Mapping[str, Any], name: str, n_heads: int) -> Any:
    """Make queries with W_K and keys with W_Q."""
    other = dict(weights)
    for end in ("weight", "bias"):
        q, k = f"{name}.sublayer.w_q.{end}", f"{name}.sublayer.w_k.{end}"
        other[q], other[k] = weights[k], weights[q]
    return attention_of(other, name, n_heads)


ONE_SEQUENCE = (
    "a batch has one more axis | For one sequence you're right. In a batch there's one more axis "
    "in front, and a line of yours doesn't reckon with it: it unpacks two lengths, takes `len`, or "
    "counts axes from the front. → Which numbers name tokens and widths however many axes there "
    "are in front?"
)


def without_batch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that can't handle a batch: its first argument has two axes, or one."""

    def single(*given: Any, **named: Any) -> Any:
        first = [*given, *named.values()][0]
        if first.ndim > 1 + (first.dtype.kind == "f"):
            raise ValueError("too many values to unpack (expected 2)")
        return function(*given, **named)

    return single


def _norm_over_tokens(y: NDArray) -> NDArray:
    return standard(y, axis=(-2, -1))


def _sample_norm(y: NDArray) -> NDArray:
    return standard(y, ddof=1)


def _small_eps(y: NDArray) -> NDArray:
    return standard(y, eps=1e-6)


def _twice_relu(y: NDArray) -> NDArray:
    return np.maximum(y, 0.0)


def _same(y: NDArray) -> NDArray:
    return y


_WIDE = partial(attention_of, scale=lambda d, h: sqrt(d))
_HEADS_CUT = partial(attention_of, split=cut, merge=paste)
_WITHOUT_W_O = partial(attention_of, project=lambda heads, w_o: heads)
NO_BIAS = partial(attention_of, biases="")
_NET_NO_BIAS = partial(network_of, biases="")
_LINEAR = partial(network_of, bend=_same)
_SMOOTH = partial(network_of, bend=_gelu)
_BENT_TWICE = partial(network_of, last=_twice_relu)


def _renormed(**rules: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function that gives a layer's norms another γ and β, from the two that they have."""

    def changed(weights: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(weights)
        for name in weights:
            start, _, part = name.rpartition(".")
            if part in rules:
                result[name] = rules[part](weights[f"{start}.gamma"], weights[f"{start}.beta"])
        return result

    return changed


_unscaled_norm = _renormed(gamma=lambda g, b: 0 * g + 1, beta=lambda g, b: 0 * b)
_without_beta = _renormed(beta=lambda g, b: 0 * b)
_exchanged_norm = _renormed(gamma=lambda g, b: b, beta=lambda g, b: g)


def _with_norms(layer: Callable[..., Any], change: Callable[..., Any], at: int) -> Any:
    """Return a layer whose argument number `at`, the weights, is changed beforehand."""

    def changed(*given: Any, **named: Any) -> Any:
        arguments = [*given, *named.values()]
        arguments[at] = change(arguments[at])
        return layer(*arguments)

    return changed


_ENCODER_WRONG = [
    wrong(
        encoder(around=(pre, pre)),
        "norms first | this exercise uses LN(x + f(x)), as the first Transformer does; you have x "
        "+ f(LN(x)), as most later ones do. → What does a sublayer see if the norm comes last?",
        variant=True,
    ),
    wrong(
        encoder(around=(pre, post)),
        "norm first, then norm last | The norm comes first around your attention and last around "
        "the network. → Which of the two is LN(x + f(x))?",
    ),
    wrong(
        encoder(around=(_bare, _bare)),
        "no norms | You add what each sublayer returns, and nothing is normalised. → Where does LN "
        "stand in LN(x + f(x))?",
    ),
    wrong(
        encoder(around=(_bare, post)),
        "no norm after attention | The sum after attention goes on as it is; only the last one is "
        "normalised. → How many norms has the layer, and where does the first one stand?",
    ),
    wrong(
        encoder(around=(post, _bare)),
        "no norm at the end | Attention is right, and the sum after the network leaves the layer "
        "without a norm. → How many norms has the layer?",
    ),
    wrong(
        encoder(around=(_untouched, _untouched)),
        "no residual connections | Sublayers that add nothing leave nothing: only what they return "
        "goes on, and the tokens themselves are lost. → What is f(x) added to before the norm?",
    ),
    wrong(
        encoder(around=(_untouched, post)),
        "no residual connection around attention | What attention returns is normalised alone: the "
        "tokens that went in are lost. → What is it added to?",
    ),
    wrong(
        encoder(around=(post, _untouched)),
        "no residual connection around the network | Attention is right. What the network returns "
        "is normalised alone. → What is it added to?",
    ),
    wrong(
        encoder(around=(_output_normed, _output_normed)),
        "what is added is normalised | You have x + LN(f(x)): the norm is applied to the "
        "sublayer's output, and the sum goes on as it is. → What stands inside the brackets of "
        "LN(x + f(x))?",
    ),
    wrong(
        encoder(around=(_both_sides, _both_sides)),
        "norms on both sides | You normalise what goes into a sublayer and the sum as well, with "
        "the same γ and β. → How many times does LN stand in LN(x + f(x))?",
    ),
    wrong(
        encoder(norms=("feed_forward", "attention")),
        "the norms exchanged | Attention's sum is normalised with the network's γ and β, and the "
        "other way round. → How does the name of a norm in `weights` begin?",
    ),
    wrong(
        encoder(norms=("attention", "attention")),
        "attention's norm twice | Both norms use attention's γ and β (a copied line?). → How does "
        "the name of the second norm in `weights` begin?",
    ),
    wrong(
        encoder(norms=("feed_forward", "feed_forward")),
        "the network's norm twice | Both norms use the network's γ and β (a copied line?). → How "
        "does the name of the first norm in `weights` begin?",
    ),
    wrong(_with_norms(encoder(), _unscaled_norm, 1), _NO_GAMMA),
    wrong(_with_norms(encoder(), _without_beta, 1), _NO_BETA),
    wrong(_with_norms(encoder(), _exchanged_norm, 1), _GAMMA_AND_BETA),
    wrong(encoder(attention=_exchanged), _KEYS_FOR_QUERIES),
    wrong(
        encoder(attention=partial(attention_of, merge=paste)),
        "heads merged without a swap of axes | With one head you're right. With more, the table of "
        "heads is reshaped to (n, d) in one go, so that a row holds several tokens of one head. → "
        "Which two axes have to be neighbours before they become one?",
    ),
    wrong(
        encoder(attention=partial(attention_of, split=cut)),
        "heads split without a swap of axes | With one head you're right. With more, vectors are "
        "reshaped to (h, n, d/h) in one go, so that a head holds pieces of several tokens; the "
        "merge is right. → Which axis has to be cut first, and which two swapped then?",
    ),
    wrong(encoder(standardise=_sample_norm), _DDOF),
    wrong(encoder(standardise=_norm_over_tokens), _SEQUENCE_NORM),
    wrong(encoder(standardise=_small_eps), _EPS),
    wrong(encoder(attention=UNTURNED), TURNED),
    wrong(
        encoder(attention=partial(attention_of, turn=_as_it_is, biases="")),
        "no matrix of attention transposed, and no biases | Two things about attention: its square "
        "matrices are (d_out, d_in) and you multiply by them as they stand, and their biases are "
        "missing. → Which way round does `x @ W` need a matrix?",
    ),
    wrong(encoder(attention=NO_BIAS), ATTENTION_BIASES),
    wrong(encoder(network=_NET_NO_BIAS), _NETWORK_BIASES),
    wrong(encoder(attention=NO_BIAS, network=_NET_NO_BIAS), _ALL_BIASES),
    wrong(
        encoder(
            attention=partial(
                attention_of, inputs=lambda x, y, w_q, w_k, w_v: (x @ w_q, y @ w_k, y @ w_v)
            )
        ),
        "only W_O with its bias | The biases of queries, keys and values are missing, that of W_O "
        "is there. → Which entries of `weights` does your function never read?",
    ),
    wrong(
        encoder(attention=partial(attention_of, biases="qkv")),
        "W_O without its bias | Attention's last bias is missing; those of queries, keys and "
        "values are there. → What is added after W_O?",
    ),
    wrong(
        encoder(attention=partial(attention_of, inputs=lambda x, y, w_q, w_k, w_v: (x, y, y))),
        "no projections to queries, keys and values | Your heads compare the tokens as they are "
        "and mix them; only W_O is used. → What are a token's query, key and value made with?",
    ),
    wrong(encoder(attention=_WITHOUT_W_O), _NO_W_O),
    wrong(encoder(heads=lambda h: 1), ONE_HEAD),
    wrong(encoder(attention=_WIDE), _WHOLE_SCALE),
    wrong(
        encoder(attention=partial(attention_of, scale=lambda d, h: 1.0)),
        "scores not scaled | Your attention is too sharp, by more the wider the heads are. → What "
        "are scores divided by before the softmax?",
    ),
    wrong(encoder(attention=_HEADS_CUT), _CUT),
    wrong(
        encoder(seen=lambda mask: None),
        "the mask ignored | Without padding you're right. With it, tokens look at the padding as "
        "if it were words. → Which argument does your attention never get?",
    ),
    wrong(
        encoder(seen=inverted),
        "the mask inverted | Without padding you're right. With it, tokens see the padding and "
        "nothing else. → What does True mean in the mask?",
    ),
    wrong(
        encoder(seen=_transposed),
        "the mask turned | Without padding you're right. With it, padding is hidden as one who "
        "asks, where it should be hidden as one who is asked. → Which axis of the scores belongs "
        "to keys?",
    ),
    wrong(
        encoder(attention=partial(attention_of, hide=lambda s, mask: s, after_weights=late)),
        "masked after the softmax | Without padding you're right. With it, weights are set to 0 "
        "after the softmax, so that rows no longer sum to 1. → What has to be masked, the scores "
        "or the weights?",
    ),
    wrong(
        _padding_to_0,
        "padding set to 0 | Real tokens are right, and you set the rows of padding to 0. The layer "
        "treats them as any others; the mask says only whom nobody looks at. → Which line "
        "multiplies the output by the mask?",
    ),
    wrong(
        encoder(seen=lambda mask: None if mask is None else mask & np.tri(mask.shape[-1]) > 0),
        "a causal mask beside the padding | Without padding you're right. With it, tokens don't "
        "see what comes after them either, which is a rule for decoders. → Whom may an encoder's "
        "token look at?",
    ),
    wrong(
        lambda x, weights, n_heads, mask=None: encoder(
            seen=lambda mask: np.tri(x.shape[-2], dtype=bool) & (True if mask is None else mask)
        )(x, weights, n_heads, mask),
        "causal | No token of yours sees what comes after it. That's a decoder's rule: a source is "
        "all there when it's read. → Which mask does the docstring speak of?",
    ),
    wrong(encoder(network=_LINEAR), _NO_RELU),
    wrong(encoder(network=_SMOOTH), _GELU, variant=True),
    wrong(encoder(network=_BENT_TWICE), _RELU_TWICE),
    wrong(
        _side_by_side,
        "the network sees the tokens that came in | Your network gets the layer's input, where it "
        "should get what attention and the first norm have made of it. → What is x in the second "
        "LN(x + f(x))?",
    ),
    wrong(
        _first_goes_round,
        "the layer's input added twice | Around the network you add the tokens that came into the "
        "*layer*, where those belong that came into the network. → What is x in the second "
        "LN(x + f(x))?",
    ),
    wrong(
        _network_first,
        "the network before attention | Your two sublayers come in the other order: network, then "
        "attention. → Which comes first: to ask the others, or to think about what they said?",
    ),
    wrong(
        lambda x, weights, n_heads, mask=None: norm_of(weights, "attention.norm")(
            x + attention_of(weights, "attention", n_heads)(x, x, mask)
        ),
        "no network | You return what attention and its norm make of the tokens. → Which sublayer "
        "is missing?",
    ),
    wrong(without_batch(encoder()), ONE_SEQUENCE),
    wrong(
        _encoder_in_place,
        "x is overwritten | The numbers are right, but `x += …` writes into the caller's array. → "
        "How is a sum written that makes a new array?",
    ),
]


def encoder_by_blocks(x: Any, weights: Any, n_heads: int, mask: Any = None) -> Any:
    """Compose it of the course's own blocks."""
    w = [weights[f"attention.sublayer.w_{a}.weight"].T for a in "qkvo"]
    b = {f"b_{a}": weights[f"attention.sublayer.w_{a}.bias"] for a in "qkvo"}
    y, _ = multi_head.multi_head_attention(x, x, w[0], w[1], w[2], w[3], n_heads, mask, **b)
    x = normalization.layer_norm(
        x + y, weights["attention.norm.gamma"], weights["attention.norm.beta"]
    )
    inner = [
        weights[f"feed_forward.sublayer.{a}"].T
        for a in ("w_1.weight", "w_1.bias", "w_2.weight", "w_2.bias")
    ]
    y = x + feed_forward.feed_forward(x, *inner)
    return normalization.layer_norm(
        y, weights["feed_forward.norm.gamma"], weights["feed_forward.norm.beta"]
    )


def _token_by_token(ask: Any, asked: Any, w: Any, name: str, h: int, allowed: Any) -> Any:
    """Attend for one token after another, head by head; `allowed` is (h, n_q, n_k)."""
    q, k, v = (
        rows @ w[f"{name}.sublayer.w_{a}.weight"].T + w[f"{name}.sublayer.w_{a}.bias"]
        for rows, a in ((ask, "q"), (asked, "k"), (asked, "v"))
    )
    width, out = ask.shape[-1] // h, np.zeros(ask.shape)
    for i in range(h):
        own = slice(i * width, (i + 1) * width)
        for t, query in enumerate(q[:, own]):
            e = np.exp(k[:, own] @ query / width**0.5) * allowed[i, t]
            out[t, own] = e @ v[:, own] / e.sum()
    return out @ w[f"{name}.sublayer.w_o.weight"].T + w[f"{name}.sublayer.w_o.bias"]


def _one_by_one(y: Any, w: Any, name: str) -> Any:
    rows = [(row - np.mean(row)) / np.sqrt(np.var(row) + 1e-5) for row in y]
    return np.array(rows) * w[f"{name}.norm.gamma"] + w[f"{name}.norm.beta"]


def _think_by_einsum(y: Any, w: Any) -> Any:
    w_1, b_1, w_2, b_2 = (
        w[f"feed_forward.sublayer.{a}"]
        for a in ("w_1.weight", "w_1.bias", "w_2.weight", "w_2.bias")
    )
    inner = np.einsum("nd,fd->nf", y, w_1) + b_1
    return np.einsum("nf,df->nd", inner * (inner > 0), w_2) + b_2


def _encoder_by_loops(x: Any, weights: Any, n_heads: int, mask: Any = None) -> Any:
    """Take one sequence after another, each token by itself."""
    *lead, n, _ = x.shape
    allowed = np.broadcast_to(True if mask is None else mask, (*lead, n_heads, n, n))
    out = np.zeros(x.shape)
    for place in np.ndindex(*lead):
        y = x[place]
        y = y + _token_by_token(y, y, weights, "attention", n_heads, allowed[place])
        y = _one_by_one(y, weights, "attention")
        out[place] = _one_by_one(y + _think_by_einsum(y, weights), weights, "feed_forward")
    return out


def encoder_torch(x: Any, weights: Any, n_heads: int, mask: Any = None) -> Any:
    """Do it with tensors."""
    import torch  # noqa: F401

    ask = torch_attention_of(weights, "attention", n_heads)
    y = torch_norm_of(weights, "attention.norm")(x + ask(x, x, mask))
    return torch_norm_of(weights, "feed_forward.norm")(y + torch_network_of(weights)(y))


ENCODER = Exercise(
    id="09.encoder_layer",
    function="encoder_layer",
    reference=encoder_layer,
    guarded=_GUARDED,
    cases=_ENCODER_CASES,
    returns=("output",),
    misconceptions=_ENCODER_WRONG,
    alternatives=[
        Alternative(name="of the course's blocks", right=encoder_by_blocks),
        Alternative(name="loops", right=_encoder_by_loops),
        Alternative(name="torch", right=encoder_torch, backend="torch"),
    ],
    hints=[
        "Two sublayers one after the other, each as LN(x + f(x)). The second one's x is what the "
        "first one made.",
        "Read the weights into variables first, by their names, and transpose each matrix there: "
        "`weights[…].T`. Attention has four matrices and four biases.",
        "`multi_head_attention` of the course returns a pair, of which you need the first part. "
        "The mask goes in as it is: it broadcasts to the scores.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 09.decoder_layer ------------------------------------------------------------------------------


def decoder_layer(
    x: NDArray,
    memory: NDArray,
    weights: Mapping[str, NDArray],
    n_heads: int,
    self_mask: NDArray | None = None,
    cross_mask: NDArray | None = None,
    norm_first: bool = False,
) -> NDArray:
    """Run a decoder layer: self-attention, cross-attention, the network.

    Parameters
    ----------
    x : float array, (..., n_tgt, d)
    memory : float array, (..., n_src, d)
        What the encoder made of the source.
    weights : dictionary
    n_heads : int
    self_mask : boolean array that broadcasts to (..., h, n_tgt, n_tgt), optional
    cross_mask : boolean array that broadcasts to (..., h, n_tgt, n_src), optional
    norm_first : bool, default False

    Returns
    -------
    float array, (..., n_tgt, d)
    """
    return ref.decoder_layer(x, memory, weights, n_heads, self_mask, cross_mask, norm_first)


def _pair(
    *lead: int,
    n_tgt: int,
    n_src: int,
    d: int,
    h: int,
    lengths: tuple[int, ...] | None = None,
    causal: bool = True,
    near: bool = False,
    silent: bool = False,
    norm_first: bool = False,
) -> Callable[[int], dict[str, Any]]:
    """Draw target tokens, a memory and a layer; near, a mask of each token and its neighbours."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, *lead, n_tgt, n_src, d])
        given: dict[str, Any] = {
            "x": draw(rng, *lead, n_tgt, d),
            "memory": draw(rng, *lead, n_src, d, spread=1.5),
            "weights": layer_weights(rng, d, d + 1, "self_attention", "cross_attention"),
            "n_heads": h,
            "self_mask": np.tri(n_tgt, dtype=bool) if causal else None,
            "cross_mask": None,
            "norm_first": norm_first,
        }
        if near:
            places = np.arange(n_tgt)
            given["self_mask"] = abs(places - places[:, None]) <= 1
        if silent:
            _silence(given["weights"])
        if lengths is not None:
            given["cross_mask"] = padding(lengths, n_src, batch=bool(lead))
        return given

    return build


_DECODER_CASES = [
    case(
        "norm last, one target token, one head | it asks 3 source tokens",
        _pair(n_tgt=1, n_src=3, d=4, h=1, causal=False),
    ),
    case(
        "norm last, sublayers that add nothing | what is left are three norms",
        _pair(n_tgt=2, n_src=3, d=4, h=2, causal=False, silent=True),
    ),
    case(
        "norm last, 3 target and 5 source tokens | target tokens look back, and at all of the "
        "source",
        _pair(n_tgt=3, n_src=5, d=6, h=3),
    ),
    case(
        "norm last, as many target as source tokens | the target asks, the source answers",
        _pair(n_tgt=4, n_src=4, d=6, h=2),
    ),
    case(
        "norm last, a batch with a padded source | nobody looks at the padding",
        _pair(2, n_tgt=3, n_src=4, d=6, h=3, lengths=(4, 2)),
    ),
    case(
        "norm last, 5 target tokens that see their neighbours alone | which mask, the caller says",
        _pair(n_tgt=5, n_src=3, d=4, h=2, near=True),
    ),
    case(
        "norm first, sublayers that add nothing | tokens stay as they are",
        _pair(n_tgt=3, n_src=2, d=4, h=2, causal=False, silent=True, norm_first=True),
    ),
    case(
        "norm first, 4 target tokens, the second half of the source is padding | no norm touches "
        "the memory",
        _pair(n_tgt=4, n_src=6, d=4, h=2, lengths=(3,), norm_first=True),
    ),
]


def _swapped(ask: Any, z: Any, memory: Any, norm: Any, mask: Any, norm_first: bool) -> Any:
    return ask(memory, z, _transposed(mask))


def _memory_normed(ask: Any, z: Any, memory: Any, norm: Any, mask: Any, norm_first: bool) -> Any:
    return ask(z, norm(memory), mask)


def _memory_normed_if_first(
    ask: Any, z: Any, memory: Any, norm: Any, mask: Any, norm_first: bool
) -> Any:
    return ask(z, norm(memory) if norm_first else memory, mask)


def _no_memory(ask: Any, z: Any, memory: Any, norm: Any, mask: Any, norm_first: bool) -> Any:
    return ask(z, z, None)


def _no_memory_causal(
    x: Any,
    memory: Any,
    weights: Any,
    n_heads: int,
    self_mask: Any = None,
    cross_mask: Any = None,
    norm_first: bool = False,
) -> Any:
    """Let the second attention look back into the target, under the same mask as the first."""

    def cross(ask: Any, z: Any, memory: Any, norm: Any, mask: Any, norm_first: bool) -> Any:
        return ask(z, z, self_mask)

    return decoder(cross=cross)(x, memory, weights, n_heads, self_mask, cross_mask, norm_first)


def _decoder_asks_x(
    x: Any,
    memory: Any,
    weights: Any,
    n_heads: int,
    self_mask: Any = None,
    cross_mask: Any = None,
    norm_first: bool = False,
) -> Any:
    """Let cross-attention's queries come from the layer's input."""

    def cross(ask: Any, z: Any, memory: Any, norm: Any, mask: Any, norm_first: bool) -> Any:
        return ask(norm(x) if norm_first else x, memory, mask)

    return decoder(cross=cross)(x, memory, weights, n_heads, self_mask, cross_mask, norm_first)


def _masked_otherwise(masks: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decoder layer whose masks are made of those given, n_tgt and `norm_first`."""

    def layer(
        x: Any,
        memory: Any,
        weights: Any,
        n_heads: int,
        self_mask: Any = None,
        cross_mask: Any = None,
        norm_first: bool = False,
    ) -> Any:
        used = masks(self_mask, cross_mask, x.shape[-2], norm_first)
        return decoder()(x, memory, weights, n_heads, *used, norm_first)

    return layer


def _decoder_in_place(
    x: Any,
    memory: Any,
    weights: Any,
    n_heads: int,
    self_mask: Any = None,
    cross_mask: Any = None,
    norm_first: bool = False,
) -> Any:
    result = decoder()(x, memory, weights, n_heads, self_mask, cross_mask, norm_first)
    x += 1.0
    return result


def _keys_and_values(keys: str, values: str) -> Callable[..., Any]:
    """Return a decoder whose cross-attention takes keys and values from different sides."""

    def attention(weights: Any, name: str, n_heads: int) -> Any:
        if name != "cross_attention":
            return attention_of(weights, name, n_heads)

        def ask(z: Any, memory: Any, mask: Any) -> Any:
            w = {a: weights[f"{name}.sublayer.w_{a}.weight"].T for a in "qkv"}
            b = {a: weights[f"{name}.sublayer.w_{a}.bias"] for a in "qkv"}
            side = {"target": z, "source": memory}
            given = (
                z @ w["q"] + b["q"],
                side[keys] @ w["k"] + b["k"],
                side[values] @ w["v"] + b["v"],
            )
            return attention_of(weights, name, n_heads, inputs=lambda *_: given)(z, memory, mask)

        return ask

    return decoder(attention=attention)


_NEXT_CROSS = "Who asks in cross-attention, and who answers?"

_DECODER_WRONG = [
    wrong(
        decoder(cross=_swapped),
        "queries from the source | In cross-attention your queries come from the memory and keys "
        "and values from the target, which only fits where both have the same length. → "
        f"{_NEXT_CROSS}",
    ),
    wrong(
        _keys_and_values("source", "target"),
        "values from the target | In cross-attention your values come from the target, which only "
        "fits where both have the same length: what is mixed isn't the source. → From where do "
        "keys *and* values come?",
    ),
    wrong(
        _keys_and_values("target", "source"),
        "keys from the target | In cross-attention your keys come from the target, which only fits "
        "where both have the same length. → From where do keys *and* values come?",
    ),
    wrong(
        decoder(cross=_no_memory),
        "the memory ignored | Your second attention looks at the target once more, all of it; the "
        f"source has no say. → {_NEXT_CROSS}",
    ),
    wrong(
        _no_memory_causal,
        "self-attention twice | Your second attention looks at the target once more, under the "
        f"same mask as the first; the source has no say. → {_NEXT_CROSS}",
    ),
    wrong(
        decoder(order=("cross_attention", "self_attention", "feed_forward")),
        "cross-attention first | Your target tokens ask the source before they've asked one "
        "another. → Which attention stands first in the text of the exercise?",
    ),
    wrong(
        decoder(order=("self_attention", "feed_forward")),
        "no cross-attention | Your layer is an encoder's with a mask: the memory is never used. → "
        "Which sublayer stands between self-attention and the network?",
    ),
    wrong(
        decoder(order=("cross_attention", "feed_forward")),
        "no self-attention | Your target tokens ask the source and never one another. → Which "
        "sublayer comes first?",
    ),
    wrong(
        decoder(order=("self_attention", "cross_attention")),
        "no network | You return what the two attentions make of the tokens. → Which sublayer "
        "comes third?",
    ),
    wrong(
        _decoder_asks_x,
        "the source asked by the layer's input | Your cross-attention's queries come from the "
        "tokens that came into the layer; what self-attention found out goes round it. → What is x "
        "when the second sublayer begins?",
    ),
    wrong(
        decoder(cross=_memory_normed_if_first),
        "the memory normalised | With the norm last you're right. With the norm first, you "
        "normalise the memory too, with a norm that is meant for the target. The encoder has "
        "normalised its output itself. → Which of the two inputs of cross-attention does LN(x) "
        "speak of?",
    ),
    wrong(
        decoder(cross=_memory_normed),
        "the memory normalised in either case | You normalise the memory with a norm of this "
        "layer, which is meant for the target. The encoder's output comes in as it's to be used. → "
        "Which of the two inputs of cross-attention does LN speak of?",
    ),
    wrong(
        decoder(self_seen=lambda own, cross: None),
        "self-attention without its mask | Where there's no mask you're right. Your target tokens "
        "see what comes after them, which they're to predict. → Which of the two masks does your "
        "function never use?",
    ),
    wrong(
        decoder(cross_seen=lambda own, cross: None),
        "cross-attention without its mask | Without padding you're right. With it, target tokens "
        "look at the source's padding. → Which of the two masks does your function never use?",
    ),
    wrong(
        decoder(self_seen=lambda own, cross: None, cross_seen=lambda own, cross: None),
        "no masks | Where there are no masks you're right; where there are, you use neither. → "
        "Which arguments does your attention never get?",
    ),
    wrong(
        decoder(self_seen=lambda own, cross: cross, cross_seen=lambda own, cross: own),
        "the masks exchanged | Self-attention gets the source's mask and cross-attention the "
        "causal one, which doesn't even fit where both sides have different lengths. → Which mask "
        "is as wide as the source is long?",
    ),
    wrong(
        _masked_otherwise(
            lambda own, cross, n, norm_first: (own, own) if norm_first else (own, cross)
        ),
        "the target's mask for the source, norm first | With the norm last you're right. With the "
        "norm first, your cross-attention gets the target's mask, the one of self-attention. → "
        "Which of the two masks is as wide as the source is long?",
    ),
    wrong(
        _masked_otherwise(lambda own, cross, n, norm_first: (np.tri(n, dtype=bool), cross)),
        "always causal | Where the target's mask is causal you're right. Your self-attention makes "
        "a causal mask itself, whatever mask it is given. → Which argument does your function "
        "never use?",
    ),
    wrong(
        _masked_otherwise(
            lambda own, cross, n, norm_first: (
                np.tri(n, dtype=bool) & (True if own is None else own),
                cross,
            )
        ),
        "a causal mask beside the one given | Where the target's mask is causal you're right. Your "
        "self-attention hides what the mask hides and all that comes later besides. → Who decides "
        "what a target token may see, the layer or its caller?",
    ),
    wrong(
        decoder(cross_seen=lambda own, cross: own),
        "the causal mask twice | Your cross-attention gets the causal mask too, which only fits "
        "where both sides have the same length. A source is all there when it's asked. → Which of "
        "the two masks is as wide as the source is long?",
    ),
    wrong(
        decoder(
            self_seen=lambda own, cross: inverted(own),
            cross_seen=lambda own, cross: inverted(cross),
        ),
        "the masks inverted | Where there are no masks you're right; where there are, tokens see "
        "what they shouldn't and nothing else. → What does True mean in a mask?",
    ),
    wrong(
        decoder(
            attention=partial(attention_of, hide=lambda s, mask: s, after_weights=late),
        ),
        "masked after the softmax | Weights are set to 0 after the softmax, so that rows no longer "
        "sum to 1. → What has to be masked, the scores or the weights?",
    ),
    wrong(
        decoder(own={"cross_attention": "self_attention"}),
        "self-attention's matrices twice | Your cross-attention asks the right ones, with the "
        "matrices of self-attention. → How do the names of its own begin?",
    ),
    wrong(
        decoder(own={"self_attention": "cross_attention"}),
        "cross-attention's matrices twice | Your self-attention asks the right ones, with the "
        "matrices of cross-attention. → How do the names of its own begin?",
    ),
    wrong(
        decoder(
            own={"cross_attention": "self_attention", "self_attention": "cross_attention"},
            norms={"cross_attention": "self_attention", "self_attention": "cross_attention"},
        ),
        "the attentions' weights exchanged | Your self-attention has the weights of "
        "cross-attention, and the other way round. → With which word do the names of the first "
        "sublayer's weights begin?",
    ),
    wrong(
        decoder(norms={"cross_attention": "self_attention"}),
        "self-attention's norm for cross-attention | The second norm uses γ and β of the first (a "
        "copied line?). → How does the name of cross-attention's norm begin?",
    ),
    wrong(
        decoder(norms={"cross_attention": "self_attention", "feed_forward": "self_attention"}),
        "one norm for all | All three norms use γ and β of the first. → How does the name of a "
        "norm in `weights` begin?",
    ),
    wrong(
        decoder(norms={"feed_forward": "cross_attention", "cross_attention": "feed_forward"}),
        "the last two norms exchanged | Cross-attention has the network's norm, and the other way "
        "round. → How does the name of a norm in `weights` begin?",
    ),
    wrong(
        decoder(choose=lambda norm_first: False),
        "the norm always last | With the norm last you're right. You normalise the sums in either "
        "case: `norm_first` is never used. → What does a sublayer see if the norm comes first?",
    ),
    wrong(
        decoder(choose=lambda norm_first: True),
        "the norm always first | You normalise what goes into the sublayers in either case: "
        "`norm_first` is never used. → What is normalised if the norm comes last?",
    ),
    wrong(
        decoder(choose=lambda norm_first: not norm_first),
        "first and last exchanged | You have both kinds of layers, and each stands where the other "
        "belongs. → Which of the two is x + f(LN(x))?",
    ),
    wrong(
        decoder(pre=_normed_goes_round),
        "the normalised tokens are added | With the norm last you're right. With the norm first, "
        "you add to the *normalised* tokens (does a variable `x` get overwritten by its norm?). → "
        "Which x does x + f(LN(x)) begin with?",
    ),
    wrong(
        decoder(last=lambda y, norm, norm_first: norm(y) if norm_first else y),
        "a norm at the end of the layer | With the norm first, you normalise the layer's output "
        "once more. In such a model one norm ends the whole stack, not each layer. → How many "
        "norms has a layer?",
    ),
    wrong(
        decoder(post=_untouched, pre=_no_residual),
        "no residual connections | Sublayers that add nothing leave nothing: only what they return "
        "goes on. → What is f's output added to?",
    ),
    wrong(
        decoder(post=_bare, pre=_bare),
        "no norms | You add what each sublayer returns, and nothing is normalised. → Where does LN "
        "stand in the two formulas?",
    ),
    wrong(
        decoder(post=_output_normed),
        "what is added is normalised | With the norm last you have x + LN(f(x)): the norm is "
        "applied to the sublayer's output, and the sum goes on as it is. → What stands inside the "
        "brackets of LN(x + f(x))?",
    ),
    wrong(_with_norms(decoder(), _unscaled_norm, 2), _NO_GAMMA),
    wrong(_with_norms(decoder(), _without_beta, 2), _NO_BETA),
    wrong(_with_norms(decoder(), _exchanged_norm, 2), _GAMMA_AND_BETA),
    wrong(decoder(attention=_exchanged), _KEYS_FOR_QUERIES),
    wrong(
        decoder(order=("self_attention", "feed_forward", "cross_attention")),
        "the network before cross-attention | Your tokens think about what they heard before "
        "they've asked the source. → Which sublayer comes last?",
    ),
    wrong(
        decoder(pre=_both_sides),
        "norms on both sides | With the norm last you're right. With the norm first, you normalise "
        "what goes in and the sum as well. → How many times does LN stand in x + f(LN(x))?",
    ),
    wrong(
        decoder(pre=_output_normed),
        "what is added is normalised, norm first | this exercise uses x + f(LN(x)) where the norm "
        "comes first; you have x + LN(f(x)), as Swin v2 and OLMo 2 do. → What does the sublayer "
        "see here?",
        variant=True,
    ),
    wrong(
        decoder(arounds={"cross_attention": (_untouched, _no_residual)}),
        "no residual connection around cross-attention | Self-attention is right. What "
        "cross-attention returns goes on alone, and what the target was is lost. → What is it "
        "added to?",
    ),
    wrong(
        decoder(arounds={"cross_attention": (post, _bare)}),
        "no norm before cross-attention | With the norm last you're right. With the norm first, "
        "the source is asked by tokens that nobody has normalised. → What goes into "
        "cross-attention in x + f(LN(x))?",
    ),
    wrong(
        decoder(norms={"self_attention": "feed_forward", "cross_attention": "feed_forward"}),
        "the network's norm for all | All three norms use γ and β of the last. → How does the name "
        "of a norm in `weights` begin?",
    ),
    wrong(decoder(standardise=_sample_norm), _DDOF),
    wrong(decoder(standardise=_norm_over_tokens), _SEQUENCE_NORM),
    wrong(decoder(standardise=_small_eps), _EPS),
    wrong(decoder(attention=UNTURNED), TURNED),
    wrong(decoder(attention=NO_BIAS), ATTENTION_BIASES),
    wrong(decoder(network=_NET_NO_BIAS), _NETWORK_BIASES),
    wrong(decoder(attention=NO_BIAS, network=_NET_NO_BIAS), _ALL_BIASES),
    wrong(decoder(heads=lambda h: 1), ONE_HEAD),
    wrong(decoder(attention=_WIDE), _WHOLE_SCALE),
    wrong(decoder(attention=_HEADS_CUT), _CUT),
    wrong(decoder(attention=_WITHOUT_W_O), _NO_W_O),
    wrong(decoder(network=_LINEAR), _NO_RELU),
    wrong(decoder(network=_SMOOTH), _GELU, variant=True),
    wrong(decoder(network=_BENT_TWICE), _RELU_TWICE),
    wrong(without_batch(decoder()), ONE_SEQUENCE),
    wrong(
        _decoder_in_place,
        "x is overwritten | The numbers are right, but `x += …` writes into the caller's array. → "
        "How is a sum written that makes a new array?",
    ),
]


def decoder_by_blocks(
    x: Any,
    memory: Any,
    weights: Any,
    n_heads: int,
    self_mask: Any = None,
    cross_mask: Any = None,
    norm_first: bool = False,
) -> Any:
    """Compose it of the course's own blocks."""

    def part(name: str) -> dict[str, Any]:
        start = f"{name}.sublayer."
        return {key[len(start) :]: w.T for key, w in weights.items() if key.startswith(start)}

    def ask(name: str, z: Any, y: Any, mask: Any) -> Any:
        w = part(name)
        matrices = {f"w_{a}": w[f"w_{a}.weight"] for a in "qkvo"}
        biases = {f"b_{a}": w[f"w_{a}.bias"] for a in "qkvo"}
        given = {**matrices, "n_heads": n_heads, "mask": mask, **biases}
        return multi_head.multi_head_attention(z, y, **given)[0]

    def norm(name: str, z: Any) -> Any:
        return normalization.layer_norm(
            z, weights[f"{name}.norm.gamma"], weights[f"{name}.norm.beta"]
        )

    w = part("feed_forward")
    network = [w["w_1.weight"], w["w_1.bias"], w["w_2.weight"], w["w_2.bias"]]
    for name, f in (
        ("self_attention", lambda z: ask("self_attention", z, z, self_mask)),
        ("cross_attention", lambda z: ask("cross_attention", z, memory, cross_mask)),
        ("feed_forward", lambda z: feed_forward.feed_forward(z, *network)),
    ):
        x = x + f(norm(name, x)) if norm_first else norm(name, x + f(x))
    return x


def _decoder_by_loops(
    x: Any,
    memory: Any,
    weights: Any,
    n_heads: int,
    self_mask: Any = None,
    cross_mask: Any = None,
    norm_first: bool = False,
) -> Any:
    """Take one pair after another, each token by itself."""
    *lead, n, _ = x.shape
    sizes = ((self_mask, n), (cross_mask, memory.shape[-2]))
    looks, asks = (
        np.broadcast_to(True if mask is None else mask, (*lead, n_heads, n, keys))
        for mask, keys in sizes
    )
    out = np.zeros(x.shape)
    for place in np.ndindex(*lead):
        out[place] = _decoder_of_one(
            x[place], memory[place], weights, n_heads, looks[place], asks[place], norm_first
        )
    return out


def _decoder_of_one(
    y: Any, source: Any, weights: Any, h: int, looks: Any, asks: Any, norm_first: bool
) -> Any:
    for name, f in (
        (
            "self_attention",
            lambda z: _token_by_token(z, z, weights, "self_attention", h, looks),
        ),
        (
            "cross_attention",
            lambda z: _token_by_token(z, source, weights, "cross_attention", h, asks),
        ),
        ("feed_forward", lambda z: _think_by_einsum(z, weights)),
    ):
        if norm_first:
            y = y + f(_one_by_one(y, weights, name))
        else:
            y = _one_by_one(y + f(y), weights, name)
    return y


def decoder_torch(
    x: Any,
    memory: Any,
    weights: Any,
    n_heads: int,
    self_mask: Any = None,
    cross_mask: Any = None,
    norm_first: bool = False,
) -> Any:
    """Do it with tensors."""
    import torch  # noqa: F401

    asks = [torch_attention_of(weights, f"{a}_attention", n_heads) for a in ("self", "cross")]
    think = torch_network_of(weights)
    for name, f in (
        ("self_attention", lambda z: asks[0](z, z, self_mask)),
        ("cross_attention", lambda z: asks[1](z, memory, cross_mask)),
        ("feed_forward", think),
    ):
        norm = torch_norm_of(weights, f"{name}.norm")
        x = pre(x, f, norm) if norm_first else post(x, f, norm)
    return x


DECODER = Exercise(
    id="09.decoder_layer",
    function="decoder_layer",
    reference=decoder_layer,
    guarded=_GUARDED,
    cases=_DECODER_CASES,
    returns=("output",),
    misconceptions=_DECODER_WRONG,
    alternatives=[
        Alternative(name="of the course's blocks", right=decoder_by_blocks),
        Alternative(name="loops", right=_decoder_by_loops),
        Alternative(name="torch", right=decoder_torch, backend="torch"),
    ],
    hints=[
        "Three sublayers: the target asks itself, the target asks the memory, the network. Write "
        "each as a function f of tokens, and what goes round it once.",
        "In cross-attention W_Q meets the target, W_K and W_V meet the memory. The output has as "
        "many rows as the target.",
        "With the norm first, LN is applied to the target alone: cross-attention sees LN(x) and "
        "the memory as it came.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)
