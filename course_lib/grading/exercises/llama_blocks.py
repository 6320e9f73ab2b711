"""The exercise of chapter 13 about a whole block of Llama's, from a checkpoint's dictionary.

Every misconception here is the right block with one step wrong. All is written out: the course's
own functions refuse to work while a student's are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import (
    cut,
    every_other,
    merge,
    paste,
    softmax,
    split,
)
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.gated_networks import gelu_tanh, silu
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import feed_forward as ref_ffn
from course_lib.reference import grouped_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LLAMA_BLOCK", "llama_block"]

Weights = Mapping[str, Any]
Around = Callable[..., Any]


def llama_block(
    x: NDArray,
    weights: Weights,
    n_heads: int,
    n_kv_heads: int,
    base: float = 10000.0,
    eps: float = 1e-6,
) -> NDArray:
    """Run a block of Llama's on weights by the names of a checkpoint.

    Parameters
    ----------
    x : float array, (..., n, d)
    weights : dictionary
        Matrices are (d_out, d_in).
    n_heads, n_kv_heads : int
        Heads of queries; heads of keys and values, which divide them.
    base : float, default 10000
        Of the rotary angles.
    eps : float, default 1e-6

    Returns
    -------
    float array, (..., n, d)
    """
    y: NDArray = _block()(x, weights, n_heads, n_kv_heads, base, eps)
    return y


# -- the pieces ------------------------------------------------------------------------------------


def _rms(x: NDArray, gamma: NDArray, eps: float) -> NDArray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * gamma


def _centred(x: NDArray, gamma: NDArray, eps: float) -> NDArray:
    return _rms(x - x.mean(axis=-1, keepdims=True), gamma, eps)


def _angles(n: int, width: int, base: float) -> NDArray:
    return np.arange(n)[:, None] * base ** (-np.arange(0, width, 2) / width)


def _turned(x: NDArray, angles: NDArray) -> NDArray:
    """Turn the pairs of columns that are half a head apart."""
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _turned_neighbours(x: NDArray, angles: NDArray) -> NDArray:
    a, b = x[..., ::2], x[..., 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def _as_a_whole(heads: NDArray, base: float) -> NDArray:
    """Turn what is side by side in all heads, as if it were one wide head."""
    x = merge(heads)
    return split(_turned(x, _angles(x.shape[-2], x.shape[-1], base)), heads.shape[-3])


def _by_rows(x: NDArray, w: NDArray) -> NDArray:
    return x @ w.T


def _as_it_lies(x: NDArray, w: NDArray) -> NDArray:
    """Multiply without the transpose wherever the widths allow it."""
    return x @ w if w.shape[0] == x.shape[-1] else x @ w.T


def _grouped(x: NDArray, times: int) -> NDArray:
    return x.repeat(times, axis=-3)


def _tiled(x: NDArray, times: int) -> NDArray:
    return np.concatenate([x] * times, axis=-3)


def _pre(x: NDArray, f: Any, norm: Any) -> Any:
    return x + f(norm(x))


def _without_keepdims(scores: NDArray) -> NDArray:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1))


def _causal(n: int) -> NDArray:
    return np.tri(n, dtype=bool)


_ATTENTION = {letter: f"self_attn.{letter}_proj.weight" for letter in "qkvo"}
_NETWORK = {name: f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
_FIRST, _SECOND = "input_layernorm.weight", "post_attention_layernorm.weight"


def _as_given(eps: float) -> float:
    return eps


def _none(eps: float) -> float:
    return 0.0


def _default(eps: float) -> float:
    return 1e-6


def _block(
    *,
    around: tuple[Around, Around] = (_pre, _pre),
    norms: tuple[str, str] = (_FIRST, _SECOND),
    rms: Callable[..., NDArray] = _rms,
    linear: Callable[[NDArray, NDArray], NDArray] = _by_rows,
    linear_out: Callable[[NDArray, NDArray], NDArray] | None = None,
    names: Mapping[str, str] = {},
    split: Callable[[NDArray, int], NDArray] = split,
    merge: Callable[[NDArray], NDArray] = merge,
    angles: Callable[[int, int, float], NDArray] = _angles,
    turn: Callable[[NDArray, NDArray], NDArray] = _turned,
    turns: str = "qk",
    turn_first: bool = False,
    backwards: str = "",
    ahead: str = "",
    angle_width: Callable[[int, int, int], int] = lambda width, d, h: width,
    raw: str = "",
    share: Callable[[NDArray, int], NDArray] = _grouped,
    scale: Callable[[int, int, int, int], float] = lambda width, d, h, h_kv: sqrt(width),
    seen: Callable[[int], NDArray] = _causal,
    weigh: Callable[[NDArray], NDArray] = softmax,
    late: bool = False,
    hidden: float = -np.inf,
    project: bool = True,
    gate: Callable[[NDArray, NDArray], NDArray] = lambda g, up: silu(g) * up,
    base_of: Callable[[float], float] = lambda base: base,
    eps_of: tuple[Callable[[float], float], Callable[[float], float]] = (_as_given, _as_given),
    parallel: tuple[int, int] | None = None,
    reads: Callable[..., Any] | None = None,
    onto: Callable[[Any, Any], Any] | None = None,
    finish: Callable[[Any], Any] = lambda y: y,
) -> Callable[..., Any]:
    """Return the block with some steps replaced."""

    def block(
        x: NDArray,
        weights: Weights,
        n_heads: int,
        n_kv_heads: int,
        base: float = 10000.0,
        eps: float = 1e-6,
    ) -> Any:
        w = {
            letter: weights[names.get(name, name)]
            for letter, name in (_ATTENTION | _NETWORK).items()
        }

        def normed(i: int) -> Callable[[NDArray], NDArray]:
            return lambda y: rms(y, weights[norms[i]], eps_of[i](eps))

        def attention(y: NDArray) -> NDArray:
            heads = {"q": n_heads, "k": n_kv_heads, "v": n_kv_heads}
            read = {letter: x if letter in raw else y for letter in heads}
            z = {letter: split(linear(read[letter], w[letter]), h) for letter, h in heads.items()}
            width = z["q"].shape[-1]
            n = y.shape[-2]
            at = np.zeros((n + 1, width // 2))
            some = angles(n + 1, angle_width(width, y.shape[-1], n_heads), base_of(base))
            at[:, : some.shape[1]] = some[:, : width // 2]
            if turn_first:
                z |= {letter: _as_a_whole(z[letter], base) for letter in turns}
            else:
                signs = {letter: -1.0 if letter in backwards else 1.0 for letter in turns}
                z |= {
                    letter: turn(z[letter], sign * (at[1:] if letter in ahead else at[:n]))
                    for letter, sign in signs.items()
                }
            k, v = (share(z[letter], n_heads // n_kv_heads) for letter in "kv")
            scores = z["q"] @ k.swapaxes(-2, -1)
            scores = scores / scale(width, y.shape[-1], n_heads, n_kv_heads)
            mask = seen(n)
            table = weigh(scores) * mask if late else weigh(np.where(mask, scores, hidden))
            out = merge(table @ v)
            return (linear_out or linear)(out, w["o"]) if project else out

        def network(y: NDArray) -> NDArray:
            return linear(gate(linear(y, w["gate"]), linear(y, w["up"])), w["down"])

        with np.errstate(all="ignore"):
            first, second = normed(0), normed(1)
            if parallel is not None:
                one, other = (normed(i)(x) for i in parallel)
                return finish(x + attention(one) + network(other))
            y = around[0](x, attention, first)
            read = second if reads is None else (lambda _: second(reads(x, first)))
            z = around[1](y, network, read)
            return finish(z if onto is None else z - y + onto(x, y))

    return block


# -- 13.llama_block --------------------------------------------------------------------------------


def _drawn(
    *lead: int,
    n: int,
    d: int,
    h: int,
    h_kv: int,
    d_ff: int,
    width: int | None = None,
    silent: bool = False,
    spread: float = 1.0,
    **more: Any,
) -> Callable[[int], dict[str, Any]]:
    """Draw tokens and a block; silent, one whose sublayers add 0."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 3, *lead, n, d, h, h_kv])
        each = width or d // h
        shapes = {"q": (h * each, d), "k": (h_kv * each, d), "v": (h_kv * each, d)}
        shapes["o"] = (d, h * each)
        weights: dict[str, NDArray] = {_FIRST: draw(rng, d, spread=0.3) + 1.4}
        for letter, shape in shapes.items():
            weights[_ATTENTION[letter]] = draw(rng, *shape, spread=0.6)
        weights[_SECOND] = draw(rng, d, spread=0.3) + 0.8
        for name, shape in (("gate", (d_ff, d)), ("up", (d_ff, d)), ("down", (d, d_ff))):
            weights[_NETWORK[name]] = draw(rng, *shape, spread=0.5)
        if silent:
            for name in (_ATTENTION["o"], _NETWORK["down"]):
                weights[name] = np.zeros_like(weights[name])
        x = spread * (draw(rng, *lead, n, d) + 0.3)
        return {"x": x, "weights": weights, "n_heads": h, "n_kv_heads": h_kv, **more}

    return build


_CASES = [
    case(
        "2 tokens, sublayers that add nothing | the stream goes through",
        _drawn(n=2, d=4, h=2, h_kv=2, d_ff=6, silent=True),
    ),
    case(
        "one token, one head | attention gives its value, projected",
        _drawn(n=1, d=4, h=1, h_kv=1, d_ff=5),
    ),
    case(
        "5 tokens, one head | causal, and rotated by position",
        _drawn(n=5, d=4, h=1, h_kv=1, d_ff=6),
    ),
    case("4 tokens, 3 heads | as many of keys", _drawn(n=4, d=12, h=3, h_kv=3, d_ff=8)),
    case(
        "4 tokens, 4 heads on 2 of keys | query heads 0 and 1 share the first",
        _drawn(n=4, d=8, h=4, h_kv=2, d_ff=10, width=4),
    ),
    case(
        "2 sequences, 4 heads on one of keys | all share it",
        _drawn(2, n=3, d=8, h=4, h_kv=1, d_ff=6, width=4),
    ),
    case(
        "6 heads on 3 of keys, base 500, ε = 0.1 | the arguments that have defaults",
        _drawn(2, n=5, d=24, h=6, h_kv=3, d_ff=7, spread=0.5, base=500.0, eps=0.1),
    ),
]


def _post(x: NDArray, f: Any, norm: Any) -> Any:
    return norm(x + f(x))


def _lost(x: NDArray, f: Any, norm: Any) -> Any:
    y = norm(x)
    return y + f(y)


def _swap(a: str, b: str) -> dict[str, str]:
    return {a: b, b: a}


def _from_one(n: int, width: int, base: float) -> NDArray:
    return (np.arange(n)[:, None] + 1.0) * base ** (-np.arange(0, width, 2) / width)


def _stops(where: Callable[[NDArray, Weights, int, int], bool], message: str) -> Callable[..., Any]:
    """Return the right block, which stops with a ValueError where it's told to."""

    def block(
        x: NDArray,
        weights: Weights,
        n_heads: int,
        n_kv_heads: int,
        base: float = 10000.0,
        eps: float = 1e-6,
    ) -> Any:
        if where(x, weights, n_heads, n_kv_heads):
            raise ValueError(message)
        return _block()(x, weights, n_heads, n_kv_heads, base, eps)

    return block


_whole_width = _stops(
    lambda x, weights, h, h_kv: len(weights[_ATTENTION["q"]]) != x.shape[-1], "cannot reshape array"
)
_before_the_swap = _stops(
    lambda x, weights, h, h_kv: x.shape[-2] != h or x.shape[-2] != h_kv, "positions must be"
)
_wide_frequencies = _stops(
    lambda x, weights, h, h_kv: len(weights[_ATTENTION["q"]]) != h * x.shape[-1],
    "frequencies must have",
)
_without_batch = _stops(lambda x, weights, h, h_kv: x.ndim > 2, "too many values to unpack")
_without_groups = _stops(lambda x, weights, h, h_kv: 1 < h_kv < h, "cannot be broadcast together")
_from_the_front = _stops(
    lambda x, weights, h, h_kv: x.ndim == 2 and h != h_kv, "cannot be broadcast together"
)
_without_shared = _stops(lambda x, weights, h, h_kv: h != h_kv, "cannot be broadcast together")


def _in_place(
    x: NDArray,
    weights: Weights,
    n_heads: int,
    n_kv_heads: int,
    base: float = 10000.0,
    eps: float = 1e-6,
) -> Any:
    x[...] = _block()(x, weights, n_heads, n_kv_heads, base, eps)
    return x


_WRONG = [
    wrong(
        _block(around=(_post, _post)),
        "the norms last | You normalise the sums, as the Transformer of 2017 does. Here the stream "
        "is never divided by anything. → What does a sublayer read in x + f(Norm(x))?",
    ),
    wrong(
        _block(around=(_lost, _lost)),
        "the stream normalised | You add to the normalised tokens: `x = norm(x)` comes before "
        "the sum. With sublayers that add nothing x must come out as it came. → Does the sum "
        "begin with x or with Norm(x)?",
    ),
    wrong(
        _block(around=(_pre, _lost)),
        "the stream normalised before the network | Around attention you're right. Before the "
        "network you normalise x and add to that. → Does the sum begin with x or with Norm(x)?",
    ),
    wrong(
        _block(around=(_lost, _pre)),
        "the stream normalised before attention | Around the network you're right. Before "
        "attention you normalise x and add to that. → Does the sum begin with x or with "
        "Norm(x)?",
    ),
    wrong(
        _block(around=(lambda x, f, norm: f(norm(x)),) * 2),
        "no stream | Each sublayer's output replaces its input, so that sublayers that add "
        "nothing leave nothing. → What is the output added to?",
    ),
    wrong(
        _block(around=(lambda x, f, norm: f(norm(x)), _pre)),
        "no sum behind attention | Around the network you're right. Attention's output replaces "
        "the stream. → What is it added to?",
    ),
    wrong(
        _block(around=(_pre, lambda x, f, norm: f(norm(x)))),
        "no sum behind the network | Around attention you're right. The network's output "
        "replaces the stream. → What is it added to?",
    ),
    wrong(
        _block(around=(lambda x, f, norm: x + f(x),) * 2),
        "no norms | The sublayers read the stream as it is. → Which two vectors of the dictionary "
        "does your function never use?",
    ),
    wrong(
        _block(around=(lambda x, f, norm: x + norm(f(x)),) * 2),
        "answers normalised | You normalise what the sublayers return, and not what they read. "
        "→ What stands inside the brackets of x + f(Norm(x))?",
    ),
    wrong(
        _block(parallel=(0, 1)),
        "both sublayers at once | Your network reads x as it was before attention. Some models are "
        "trained with both sublayers in parallel; in this checkpoint the network has learned to "
        "read what attention has added. → Which sum goes into the second norm?",
    ),
    wrong(
        _block(parallel=(0, 0)),
        "one norm for both sublayers | Your network reads what attention reads, the first norm's "
        "output. Some models, such as GPT-J, are trained so; in this checkpoint the network has a "
        "norm of its own, after attention. → Which sum goes into the second norm?",
    ),
    wrong(
        _block(norms=(_SECOND, _FIRST)),
        "the norms' weights changed places | Before each sublayer you use the other one's γ. → "
        "Before which sublayer does `post_attention_layernorm` stand: what comes after "
        "attention?",
    ),
    wrong(
        _block(norms=(_FIRST, _FIRST)),
        "one γ for both | Both your norms use the γ that belongs before attention. → Which "
        "vector of the dictionary does your function never use?",
    ),
    wrong(
        _block(
            rms=lambda x, gamma, eps: x / np.sqrt((x**2).mean(axis=-2, keepdims=True) + eps) * gamma
        ),
        "the mean square of all tokens | Your norms take the mean over the tokens, so that each "
        "token depends on later ones. → Which axis holds the numbers of one token?",
    ),
    wrong(
        _block(rms=_centred),
        "layer norm | You subtract the mean. In spite of their names the norms have no β, and "
        "are RMSNorm. → What does RMSNorm do with a token's mean?",
    ),
    wrong(
        _block(linear=_as_it_lies),
        "square matrices not transposed | You don't transpose a matrix wherever the widths "
        "allow it. Square ones always do. → Which of the two sizes comes first in a checkpoint?",
    ),
    wrong(
        _block(turn_first=True),
        "turned before cut into heads | With one head you're right. With more you rotate "
        "queries and keys before you cut them into heads, so that the columns of a pair lie in "
        "different heads. → Which of the two comes first?",
    ),
    wrong(
        _block(linear_out=_as_it_lies),
        "o_proj not transposed | The other matrices are used rightly. You don't transpose "
        "`o_proj` where it's square. → Which of its two sizes comes first in a checkpoint?",
    ),
    wrong(
        _block(raw="kv"),
        "keys and values of the stream | You make queries from normalised tokens, but keys and "
        "values from the stream as it is. → How many of the three read the norm's output?",
    ),
    wrong(
        _block(raw="v"),
        "values of the stream | You make queries and keys from normalised tokens, but values "
        "from the stream as it is. → How many of the three read the norm's output?",
    ),
    wrong(
        _before_the_swap,
        "turned before the axes are swapped | Chapter 08's function takes the last axis but one "
        "for the tokens. When you call it, that's the axis of the heads. → Which shape should "
        "queries have then: (…, n, h, w) or (…, h, n, w)?",
    ),
    wrong(
        _wide_frequencies,
        "frequencies for the width d | Your program runs only where a head is as wide as the "
        "model: you ask for the frequencies of d columns. → How wide is what you rotate?",
    ),
    wrong(
        _block(angle_width=lambda width, d, h: d // h),
        "frequencies for the width d/h | Where a head is d/h wide you're right. Where it's wider "
        "you have too few frequencies, so that some pairs aren't rotated. → How wide is what you "
        "rotate?",
    ),
    wrong(
        _block(backwards="k"),
        "keys backwards | You rotate keys in the other direction than queries, so that scores "
        "depend on the sum of two positions and not on their difference. → What is the sign of the "
        "positions of keys?",
    ),
    wrong(
        _block(ahead="q"),
        "queries one place ahead | Your queries are rotated one place further than the keys, so "
        "that each token is at distance 1 from itself. → Which positions do the query and the key "
        "of token 0 get?",
    ),
    wrong(
        _block(ahead="k"),
        "keys one place ahead | Your keys are rotated one place further than the queries, so that "
        "each token is at distance 1 from itself. → Which positions do the query and the key of "
        "token 0 get?",
    ),
    wrong(
        _block(turns=""),
        "nothing turned | Your block learns of positions from the mask alone. → What happens to "
        "queries and keys before they meet?",
    ),
    wrong(
        _block(turns="q"),
        "keys not turned | You rotate queries alone, so that scores depend on where the query "
        "is and not on how far away the key is. → Which two have to be rotated?",
    ),
    wrong(
        _block(turns="qkv"),
        "values turned | You rotate the values as well, which have no part in a score. → What "
        "are positions for in attention?",
    ),
    wrong(
        _block(turn=_turned_neighbours),
        "neighbours turned | this exercise uses pairs that lie half a head apart, as "
        "checkpoints do; you rotate columns 2i and 2i + 1, as the paper does. → Which of "
        "chapter 08's two functions fits these weights?",
        variant=True,
    ),
    wrong(
        _block(turn=lambda x, angles: _turned(x, -angles), turns="q"),
        "only queries, backwards | You rotate queries alone, and in the wrong direction. → "
        "Which two have to be rotated, and in which direction?",
    ),
    wrong(
        _block(
            angles=lambda n, width, base: (
                np.arange(n)[:, None] * base ** (-np.arange(width // 2) / width)
            )
        ),
        "the exponent halved | The angles of your pairs fall too slowly: the exponent is −i/w "
        "in place of −2i/w. → What is the exponent of the last pair, roughly?",
    ),
    wrong(
        _block(base_of=lambda base: 10000.0),
        "the base ignored | With the default you're right; with another base your angles stay as "
        "they were. → Where does your function use `base`?",
    ),
    wrong(
        _block(eps_of=(_default, _default)),
        "ε ignored | With the default you're right; with ε = 0.1 your norms use a constant. → "
        "Where does your function use `eps`?",
    ),
    wrong(
        _block(eps_of=(_none, _none)),
        "no ε | You add no ε under the root. With a tiny one that hardly shows, with ε = 0.1 it "
        "does. → What is added to the mean square in RMSNorm?",
    ),
    wrong(
        _block(eps_of=(_as_given, _none)),
        "no ε in the second norm | Your first norm is right. In the one before the network ε is "
        "missing, or a constant. → Where does that norm use `eps`?",
    ),
    wrong(
        _block(eps_of=(_none, _as_given)),
        "no ε in the first norm | Your second norm is right. In the one before attention ε is "
        "missing. → What is added to the mean square in both?",
    ),
    wrong(
        _block(eps_of=(_default, _as_given)),
        "ε ignored in the first norm | With the default you're right. With ε = 0.1 your first "
        "norm still uses a constant. → Where does the norm before attention use `eps`?",
    ),
    wrong(
        _block(base_of=lambda base: 10000.0, eps_of=(_default, _default)),
        "base and ε ignored | With the defaults you're right, and neither argument changes "
        "anything. → Which two arguments does your function never use?",
    ),
    wrong(
        _block(share=_tiled),
        "keys in turn | With one head of keys, or as many as of queries, you're right. In "
        "between, your query heads 0, 1, 2, 3 use keys 0, 1, 0, 1, as `np.tile` repeats. → "
        "Which query heads form a group: neighbours?",
    ),
    wrong(
        _without_shared,
        "as many heads of keys | Where there are fewer heads of keys than of queries your "
        "program stops: their shapes don't fit. → How many query heads does a head of keys "
        "serve?",
    ),
    wrong(
        _whole_width,
        "d/h for the width of a head | Where the matrix of queries has more rows than d your "
        "program stops. → How can you find the width of a head from that matrix?",
    ),
    wrong(
        _without_batch,
        "a batch has one more axis | For one sequence you're right. A batch has one more axis "
        "in front, and a line of yours stops there. → Which numbers name the axes of tokens and "
        "widths, however many come before them?",
    ),
    wrong(
        _block(split=cut),
        "heads cut across tokens | You reshape to (h, n, width) in one go, which mixes tokens. → "
        "Which axis does a reshape split, and which swap comes after it?",
    ),
    wrong(
        _block(split=every_other),
        "heads of every other column | Your head i has the columns i, i + h, …. → Which columns "
        "lie side by side in a head?",
    ),
    wrong(
        _block(
            merge=lambda x: (
                x.swapaxes(-3, -2).swapaxes(-2, -1).reshape(*x.shape[:-3], x.shape[-2], -1)
            )
        ),
        "heads interleaved again | You join the outputs of the heads number by number, and not "
        "head beside head. → In which order do the columns of `o_proj` expect them?",
    ),
    wrong(
        _block(scale=lambda width, d, h, h_kv: sqrt(h)),
        "scaled by √h | You divide scores by the root of the number of heads, and not of a head's "
        "width. → How many terms has a score?",
    ),
    wrong(
        _block(scale=lambda width, d, h, h_kv: 1.0),
        "not scaled | Your scores go into the softmax as they are, undivided. → By what are "
        "they divided, so that a softmax isn't too sure of itself?",
    ),
    wrong(
        _block(scale=lambda width, d, h, h_kv: sqrt(d)),
        "scaled by √d | You divide scores by the root of the model's width, or of all heads' "
        "together. A score is a sum over one head. → How many terms has it?",
    ),
    wrong(
        _block(scale=lambda width, d, h, h_kv: float(width)),
        "scaled without the root | You divide scores by the width of a head, and not by its root. "
        "→ How does the spread of a sum grow with the number of its terms?",
    ),
    wrong(
        _block(scale=lambda width, d, h, h_kv: sqrt(h_kv * width)),
        "scaled by the width of all keys | You divide scores by the root of the width of all "
        "heads of keys together. A score is a sum over one head. → How many terms has it?",
    ),
    wrong(
        _block(scale=lambda width, d, h, h_kv: sqrt(d / h)),
        "scaled by √(d/h) | Where a head is d/h wide you're right. Here it needn't be, and you "
        "scale as if it were. → How many terms has a score?",
    ),
    wrong(
        _from_the_front,
        "an axis counted from the front | In a batch you're right. For one sequence alone you "
        "repeat along another axis, since there's none for the batch. → Which number names the "
        "axis of heads, however many come before it?",
    ),
    wrong(
        _without_groups,
        "one head of keys or all | With one head of keys, or as many as of queries, you're "
        "right. In between your program stops: 4 heads don't meet 2. → How often is each head "
        "of keys and values to be repeated, and along which axis?",
    ),
    wrong(
        _block(around=(lambda x, f, norm: x, _pre)),
        "no attention | Your block is its network alone: tokens know nothing of each other. → "
        "Which sublayer comes before the network?",
    ),
    wrong(
        _block(around=(_pre, lambda x, f, norm: x)),
        "no network | Your block is attention alone, and ends after the first sum. → Which "
        "sublayer comes after attention?",
    ),
    wrong(
        _block(seen=lambda n: np.ones((n, n), dtype=bool)),
        "no causal mask | Every token sees the whole text. A model that writes can't. → Which "
        "tokens may the first one see?",
    ),
    wrong(
        _block(seen=lambda n: np.tri(n, k=-1, dtype=bool)),
        "the diagonal hidden | No token sees itself, and the first one sees nothing at all. → "
        "Which diagonal is the last that a token may see?",
    ),
    wrong(
        _block(seen=lambda n: np.tri(n, k=1, dtype=bool)),
        "one token ahead | Every token sees itself, those before it and the one after it. → Which "
        "diagonal is the last that a token may see?",
    ),
    wrong(
        _block(seen=lambda n: np.tri(n, dtype=bool).T),
        "the mask turned | Tokens see what comes after them, and not what came before. → What "
        "does a 1 in row i and column j of the mask mean?",
    ),
    wrong(
        _block(late=True),
        "masked after the softmax | You set weights to 0 after the softmax, so that later tokens "
        "still have their share of the sum. → What has to be hidden, before which step?",
    ),
    wrong(
        _block(weigh=_without_keepdims),
        "keepdims forgotten | Your exponentials are divided by sums that have lost their last "
        "axis, so that with one head each weight gets the sum of another row, and with more the "
        "shapes hardly ever fit. → What keeps an axis of length 1?",
    ),
    wrong(
        _block(weigh=lambda s: softmax(s, axis=-2)),
        "softmax over queries | Your weights sum to 1 for each key and not for each query. → Which "
        "axis holds the keys?",
    ),
    wrong(
        _block(project=False),
        "attention not projected | You add the outputs of the heads as they are. → Which matrix "
        "of the dictionary does your function never use?",
    ),
    wrong(
        _block(gate=lambda g, up: g * silu(up)),
        "gate and up changed places | You apply SiLU to the output of `up_proj` and leave the "
        "gate as it is. → Whose output goes through SiLU?",
    ),
    wrong(
        _block(gate=lambda g, up: silu(g) + up),
        "added to the gate | You add the activated gate to the other projection. → By which "
        "operation does a gate near 0 shut something off?",
    ),
    wrong(
        _block(gate=lambda g, up: silu(g * up)),
        "bent after the product | You multiply the two projections and apply SiLU to the "
        "product. → To which of the two does SiLU belong?",
    ),
    wrong(
        _block(gate=lambda g, up: silu(g)),
        "nothing gated | Your network is an ordinary one of two layers and never uses "
        "`up_proj`. → By what is the activated gate multiplied?",
    ),
    wrong(
        _block(gate=lambda g, up: g * up),
        "no activation | You multiply the two projections as they are. → Which one goes through "
        "an activation, and through which?",
    ),
    wrong(
        _block(gate=lambda g, up: up / (1.0 + np.exp(-g))),
        "gated by a sigmoid | Your gate is σ(g), and SiLU is g·σ(g). → What is missing in front of "
        "the sigmoid?",
    ),
    wrong(
        _block(gate=lambda g, up: g / (1.0 + np.exp(-up))),
        "the sigmoid of up | You multiply the gate by the sigmoid of `up_proj`'s output. → "
        "Which number goes into the sigmoid in g·σ(g)?",
    ),
    wrong(
        _block(gate=lambda g, up: np.maximum(g, 0) * up),
        "gated by ReLU | Your gates are cut off at 0, as ReLU does, which is ReGLU. → What does "
        "SiLU do with a gate of −1?",
    ),
    wrong(
        _block(names=_swap(_ATTENTION["k"], _ATTENTION["v"])),
        "keys and values changed places | You make the keys with `v_proj` and the values with "
        "`k_proj`. Both have the same shape. → Which of the two is compared with queries?",
    ),
    wrong(
        _block(around=(_pre, lambda x, f, norm: x + f(x))),
        "no norm before the network | Around attention you're right. The network reads the "
        "stream as it is. → Which vector of the dictionary does your function never use?",
    ),
    wrong(
        _block(around=(lambda x, f, norm: x + f(x), _pre)),
        "no norm before attention | Around the network you're right. Attention reads the stream "
        "as it is. → Which vector of the dictionary does your function never use?",
    ),
    wrong(
        _block(reads=lambda x, first: first(x)),
        "a norm of a norm | Your network reads attention's input, normalised once more. It "
        "knows nothing of attention's output. → Of which tokens is the second norm?",
    ),
    wrong(
        _block(onto=lambda x, y: x),
        "attention lost | You add the network's output to the tokens as they came in, so that "
        "attention's output is missing from the stream. → What is the sum behind attention for?",
    ),
    wrong(
        _block(
            rms=lambda x, gamma, eps: (
                x / (np.sqrt((x**2).mean(axis=-1, keepdims=True)) + eps) * gamma
            )
        ),
        "ε outside the root | You add ε to the root. With a tiny ε that hardly shows, with ε = "
        "0.1 it does. → To what is it added in RMSNorm?",
    ),
    wrong(
        _block(rms=lambda x, gamma, eps: _rms(x, np.ones_like(gamma), eps)),
        "γ left out | Your norms divide by a token's size, but what the model has learned for "
        "them is missing. → Which two vectors of the dictionary does your function never use?",
    ),
    wrong(
        _block(rms=lambda x, gamma, eps: _rms(x, 1.0 + gamma, eps)),
        "1 + γ | this exercise uses γ as it is; you multiply by 1 + γ, which is Gemma's way of "
        "storing it. → By what does Llama's norm multiply?",
        variant=True,
    ),
    wrong(
        _block(turn=lambda x, angles: _turned(x, -angles)),
        "turned backwards | You rotate queries and keys in the other direction, or count "
        "positions from the end. → What is the position of the first token?",
    ),
    wrong(
        _block(merge=paste),
        "heads not brought back | You join the heads as (h, n, w) lies in memory, without "
        "swapping the axes, so that tokens are mixed. → Which axis has to come before the last "
        "one when heads are joined?",
    ),
    wrong(
        _block(hidden=0.0),
        "hidden scores of 0 | Later tokens get the score 0, which is an ordinary score and gets "
        "its share. → Which score becomes a weight of 0?",
    ),
    wrong(
        _block(gate=lambda g, up: gelu_tanh(g) * up),
        "gated by GELU | this exercise uses SiLU for the gate, as Llama does; yours is a GELU, "
        "which is Gemma's. → Which activation does the text name?",
        variant=True,
    ),
    wrong(
        _block(gate=lambda g, up: silu(g) * g),
        "the gate gates itself | Your network uses `gate_proj` twice, and `up_proj` never. → By "
        "what is the activated gate multiplied?",
    ),
    wrong(
        _block(gate=lambda g, up: silu(up) * up),
        "up gates itself | Your network uses `up_proj` twice, and `gate_proj` never. → What "
        "goes through SiLU?",
    ),
    wrong(
        _in_place,
        "the stream overwritten | The numbers are right, but the caller's tokens have been "
        "changed. → Which line writes into `x` itself: is it `+=`?",
    ),
]


def _by_loops(x: Any, weights: Any, h: int, h_kv: int, base: float = 1e4, eps: float = 1e-6) -> Any:
    """Go head by head and query by query."""
    (w_q, w_k, w_v, w_o) = (weights[_ATTENTION[letter]] for letter in "qkvo")
    width, y = len(w_q) // h, x.copy()
    for lead in np.ndindex(x.shape[:-2]):
        tokens = _rms(x[lead], weights[_FIRST], eps)
        at = _angles(len(tokens), width, base)
        for i in range(h):
            own = slice(i * width, (i + 1) * width)
            j = i * h_kv // h
            theirs = slice(j * width, (j + 1) * width)
            q, k = (_turned(tokens @ w.T, at) for w in (w_q[own], w_k[theirs]))
            for t in range(len(tokens)):
                e = np.exp(k[: t + 1] @ q[t] / width**0.5)
                seen = e / e.sum() @ (tokens[: t + 1] @ w_v[theirs].T)
                y[lead][t] += w_o[:, own] @ seen
    z = _rms(y, weights[_SECOND], eps)
    g, up = (z @ weights[_NETWORK[name]].T for name in ("gate", "up"))
    return y + (g * up / (1 + np.exp(-g))) @ weights[_NETWORK["down"]].T


def _by_groups(
    x: Any, weights: Any, h: int, h_kv: int, base: float = 1e4, eps: float = 1e-6
) -> Any:
    """Keep an axis for the groups, so that nothing is repeated; turn with complex numbers."""
    n = x.shape[-2]
    normed = _rms(x, weights[_FIRST], eps)
    width = len(weights[_ATTENTION["q"]]) // h
    rotor = np.exp(1j * _angles(n, width, base))

    def heads(letter: str, *axes: int) -> Any:
        w = weights[_ATTENTION[letter]].reshape(*axes, width, -1)
        return np.einsum(
            "...nd,...wd->...nw", np.expand_dims(normed, tuple(range(-2 - len(axes), -2))), w
        )

    def turned(z: Any) -> Any:
        c = (z[..., : width // 2] + 1j * z[..., width // 2 :]) * rotor
        return np.concatenate([c.real, c.imag], axis=-1)

    q, k = turned(heads("q", h_kv, h // h_kv)), turned(heads("k", h_kv, 1))
    scores = q @ k.swapaxes(-2, -1) * width**-0.5
    scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    out = softmax(scores) @ heads("v", h_kv, 1)  # (..., h_kv, h / h_kv, n, width)
    w_o = weights[_ATTENTION["o"]].reshape(-1, h_kv, h // h_kv, width)
    y = x + np.einsum("...ginw,dgiw->...nd", out, w_o)
    z = _rms(y, weights[_SECOND], eps)
    g = z @ weights[_NETWORK["gate"]].T
    return y + (silu(g) * (z @ weights[_NETWORK["up"]].T)) @ weights[_NETWORK["down"]].T


def _by_torch(x: Any, weights: Any, h: int, h_kv: int, base: float = 1e4, eps: float = 1e-6) -> Any:
    import torch
    from torch.nn import functional

    def norm(y: Any, name: str) -> Any:
        return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weights[name]

    def heads(y: Any, letter: str, count: int) -> Any:
        return (y @ weights[_ATTENTION[letter]].T).unflatten(-1, (count, -1)).transpose(-3, -2)

    y = norm(x, _FIRST)
    q, k, v = heads(y, "q", h), heads(y, "k", h_kv), heads(y, "v", h_kv)
    width = q.shape[-1]
    at = torch.as_tensor(_angles(x.shape[-2], width, base), dtype=x.dtype)
    cos, sin = (torch.cat([f(at), f(at)], dim=-1) for f in (torch.cos, torch.sin))

    def turned(z: Any) -> Any:
        a, b = z.chunk(2, dim=-1)
        return z * cos + torch.cat([-b, a], dim=-1) * sin

    k, v = (z.repeat_interleave(h // h_kv, dim=-3) for z in (turned(k), v))
    out = functional.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
    x = x + out.transpose(-3, -2).flatten(-2) @ weights[_ATTENTION["o"]].T
    y = norm(x, _SECOND)
    gate, up, down = (weights[_NETWORK[name]] for name in ("gate", "up", "down"))
    return x + (functional.silu(y @ gate.T) * (y @ up.T)) @ down.T


LLAMA_BLOCK = Exercise(
    id="13.llama_block",
    function="llama_block",
    reference=llama_block,
    guarded=[
        grouped_query.grouped_query_attention,
        ref_ffn.swiglu,
    ],
    cases=_CASES,
    returns=("output",),
    misconceptions=_WRONG,
    alternatives=[
        ("loops", _by_loops),
        ("groups with an axis of their own", _by_groups),
        Alternative(name="torch", right=_by_torch, backend="torch"),
    ],
    hints=[
        "Two sums: `x = x + attention(norm(x))`, then `x = x + network(norm(x))`. Get them right "
        "with sublayers that return zeros, then write the network, then attention.",
        "Matrices are (d_out, d_in): `y @ w.T`. A head is as wide as `q_proj` has rows, divided "
        "by `n_heads`. Rotate queries and keys once they're cut into heads, (..., h, n, width).",
        "`np.repeat(k, n_heads // n_kv_heads, axis=-3)` gives neighbouring query heads the same "
        "keys. Hide scores with `np.tri(n)` before the softmax. The network is "
        "`(silu(y @ gate.T) * (y @ up.T)) @ down.T`.",
    ],
    points=5,
    minutes=40,
    difficulty=3,
)
