"""The broken program of chapter 13: a block of GPT-2's, read from a checkpoint with three faults.

Every misconception here is a repair that stopped half-way, or one that broke something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import erf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import softmax
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.gated_networks import gelu_tanh
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.exercises.norms import standard
from course_lib.grading.model import Alternative, Exercise, Misconception

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BROKEN", "GPT2_BLOCK", "gpt2_block", "gpt2_block_broken"]

Weights = Mapping[str, Any]


def gpt2_block(x: NDArray, weights: Weights, n_heads: int) -> NDArray:
    """Run a block of GPT-2's on weights by the names of its checkpoint.

    Parameters
    ----------
    x : float array, (..., n, d)
    weights : dictionary
        Matrices are (d_in, d_out); c_attn makes queries, keys and values.
    n_heads : int

    Returns
    -------
    float array, (..., n, d)
    """
    y: NDArray = _block()(x, weights, n_heads)
    return y


def gpt2_block_broken(x: NDArray, weights: Weights, n_heads: int) -> NDArray:
    """Do the same, as the exercise's notebook shows it: with three faults."""

    def norm(y, name):  # type: ignore[no-untyped-def]
        centred = y - y.mean(axis=-1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return unit * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(y, name):  # type: ignore[no-untyped-def]
        return y @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def gelu(y):  # type: ignore[no-untyped-def]
        return y * (1 + np.tanh(np.sqrt(2 / np.pi) * y + 0.044715 * y**3)) / 2

    *lead, n, d = x.shape
    fused = linear(norm(x, "ln_1"), "attn.c_attn")  # (..., n, 3 d)
    fused = fused.reshape(*lead, n, n_heads, 3, d // n_heads)
    q, k, v = np.moveaxis(fused, -2, 0).swapaxes(-3, -2)  # each (..., h, n, d / h)
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(d // n_heads)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    heads = exps / exps.sum(axis=-1, keepdims=True) @ v  # (..., h, n, d / h)
    heads = heads.swapaxes(-3, -2).reshape(*lead, n, d)
    x = x + linear(heads, "attn.c_proj")

    x = norm(x, "ln_2")
    return x + linear(gelu(linear(x, "mlp.c_fc")), "mlp.c_proj")


# -- the block with steps to be replaced -----------------------------------------------------------


def _side_by_side(fused: NDArray, h: int) -> Any:
    """Take all queries first, then all keys, then all values."""
    *lead, n, width = fused.shape
    return np.moveaxis(fused.reshape(*lead, n, 3, h, width // 3 // h), -3, 0).swapaxes(-3, -2)


def _head_by_head(fused: NDArray, h: int) -> Any:
    *lead, n, width = fused.shape
    return np.moveaxis(fused.reshape(*lead, n, h, 3, width // 3 // h), -2, 0).swapaxes(-3, -2)


def _every_third(fused: NDArray, h: int) -> Any:
    *lead, n, width = fused.shape
    return np.moveaxis(fused.reshape(*lead, n, h, width // 3 // h, 3), -1, 0).swapaxes(-3, -2)


def _interleaved(fused: NDArray, h: int) -> Any:
    """Take queries, keys and values rightly, and every h-th column for a head."""
    *lead, n, width = fused.shape
    parts = fused.reshape(*lead, n, 3, width // 3 // h, h)
    return np.moveaxis(np.moveaxis(parts, -1, -2), -3, 0).swapaxes(-3, -2)


def _in_order(names: str) -> Callable[[NDArray, int], Any]:
    """Take the thirds of the columns in another order."""
    places = [names.split(", ").index(name) for name in ("queries", "keys", "values")]
    return lambda fused, h: [_side_by_side(fused, h)[place] for place in places]


def _values_second(fused: NDArray, h: int) -> Any:
    q, k, v = _side_by_side(fused, h)
    return q, v, k


def _across_tokens(fused: NDArray, h: int) -> Any:
    """Cut into heads without bringing their axis forward."""
    *lead, n, width = fused.shape
    parts = np.split(fused, 3, axis=-1)
    return [y.reshape(*lead, h, n, width // 3 // h) for y in parts]


def _thirds_of_the_text(fused: NDArray, h: int) -> Any:
    *lead, n, width = fused.shape
    parts = fused.reshape(*lead, 3, n, h, width // 3 // h)
    return np.moveaxis(parts, -4, 0).swapaxes(-3, -2)


def _gelu_half(y: NDArray) -> NDArray:
    return y * (1.0 + np.tanh(sqrt(2 / pi) * y + 0.044715 * y**3)) / 2


_erf = np.vectorize(erf, otypes=[float])


def _gelu_exact(y: NDArray) -> NDArray:
    return y * (1.0 + _erf(y / sqrt(2.0))) / 2


def _gelu_square(y: NDArray) -> NDArray:
    return y * (1.0 + np.tanh(sqrt(2 / pi) * (y + 0.044715 * y**2))) / 2


def _pre(x: NDArray, f: Any, norm: Any) -> Any:
    return x + f(norm(x))


def _lost(x: NDArray, f: Any, norm: Any) -> Any:
    y = norm(x)
    return y + f(y)


def _no_norm(x: NDArray, f: Any, norm: Any) -> Any:
    return x + f(x)


def _last(x: NDArray, f: Any, norm: Any) -> Any:
    return norm(x + f(x))


def _no_sum(x: NDArray, f: Any, norm: Any) -> Any:
    return f(norm(x))


def _block(
    *,
    parts: Callable[[NDArray, int], Any] = _side_by_side,
    bend: Callable[[NDArray], NDArray] = gelu_tanh,
    around: Callable[..., Any] = _pre,
    first: Callable[..., Any] = _pre,
    norms: tuple[str, str] = ("ln_1", "ln_2"),
    scale: Callable[[int, int], float] = lambda d, h: sqrt(d // h),
    seen: Callable[[int], NDArray] = lambda n: np.tri(n, dtype=bool),
    standardise: Callable[[NDArray], NDArray] = standard,
    biases: bool = True,
) -> Callable[..., Any]:
    """Return the block with some steps replaced."""

    def block(x: NDArray, weights: Weights, n_heads: int) -> Any:
        def norm(name: str) -> Callable[[NDArray], NDArray]:
            gamma, beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
            return lambda y: standardise(y) * gamma + beta

        def linear(y: NDArray, name: str) -> NDArray:
            return y @ weights[f"{name}.weight"] + (weights[f"{name}.bias"] if biases else 0.0)

        def attention(y: NDArray) -> NDArray:
            d = y.shape[-1]
            q, k, v = parts(linear(y, "attn.c_attn"), n_heads)
            scores = q @ k.swapaxes(-2, -1) / scale(d, n_heads)
            table = softmax(np.where(seen(y.shape[-2]), scores, -np.inf))
            return linear((table @ v).swapaxes(-3, -2).reshape(y.shape), "attn.c_proj")

        def network(y: NDArray) -> NDArray:
            return linear(bend(linear(y, "mlp.c_fc")), "mlp.c_proj")

        with np.errstate(all="ignore"):
            y = first(x, attention, norm(norms[0]))
            return around(y, network, norm(norms[1]))

    return block


def _drawn(*lead: int, n: int, d: int, h: int, spread: float = 1.0) -> Callable[[int], Any]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 7, *lead, n, d, h])
        weights: dict[str, NDArray] = {}
        for name in ("ln_1", "ln_2"):
            weights[f"{name}.weight"] = draw(rng, d, spread=0.3) + 1.4
            weights[f"{name}.bias"] = draw(rng, d, spread=0.5) + 0.2
        shapes = {
            "attn.c_attn": (d, 3 * d),
            "attn.c_proj": (d, d),
            "mlp.c_fc": (d, 4 * d),
            "mlp.c_proj": (4 * d, d),
        }
        for name, shape in shapes.items():
            weights[f"{name}.weight"] = draw(rng, *shape, spread=0.6)
            weights[f"{name}.bias"] = draw(rng, shape[1], spread=0.6) + 0.05
        return {"x": spread * (draw(rng, *lead, n, d) + 0.3), "weights": weights, "n_heads": h}

    return build


_CASES = [
    case("one token, one head | attention can only give its value", _drawn(n=1, d=3, h=1)),
    case("3 tokens, one head | they look back", _drawn(n=3, d=4, h=1)),
    case("one token, 2 heads | which of the 12 columns are values", _drawn(n=1, d=4, h=2)),
    case("4 tokens, 3 heads | everything together", _drawn(n=4, d=6, h=3, spread=0.7)),
    case("2 sequences of 3 tokens, 2 heads | a batch", _drawn(2, n=3, d=8, h=2)),
    case("2 tokens of small numbers | ε counts", _drawn(n=2, d=4, h=1, spread=0.02)),
]


# What a repaired, or half repaired, line does: (name, function, what is said of it, next step).
# No name says that the line is right.
_Step = tuple[str, Any, str, str]
_PARTS: list[_Step] = [
    ("", _side_by_side, "", ""),
    (
        "queries, keys and values head by head",
        _head_by_head,
        "the columns of c_attn are cut as if each head had its queries, keys and values together",
        "Which columns does the text call queries?",
    ),
    (
        "every third column",
        _every_third,
        "every third column of c_attn is taken for queries",
        "Which columns does the text call queries?",
    ),
    (
        "heads of every other column",
        _interleaved,
        "queries, keys and values are found, and a head takes columns that don't lie side by side",
        "Which columns of the queries are the first head's?",
    ),
    (
        "heads cut across tokens",
        _across_tokens,
        "queries, keys and values are found, and the cut into heads mixes tokens",
        "Which axis does a reshape split, and which swap comes after it?",
    ),
]
_BENDS: list[_Step] = [
    ("", gelu_tanh, "", ""),
    (
        "the bracket of GELU",
        _gelu_half,
        "in GELU √(2/π) multiplies y alone, and not the cube",
        "Where does the bracket open in the formula of t?",
    ),
    (
        "another GELU",
        _gelu_exact,
        "GELU is the exact one, and GPT-2 was trained with the one by tanh",
        "Which formula does the text give?",
    ),
]
_AROUND: list[_Step] = [
    ("", _pre, "", ""),
    (
        "the stream normalised",
        _lost,
        "the stream is normalised before the network, and the normalised one is added to",
        "What is the network's output to be added to?",
    ),
    (
        "no second norm",
        _no_norm,
        "the network reads the stream without a norm",
        "What does a sublayer read in x + f(Norm(x))?",
    ),
    (
        "the norm last",
        _last,
        "the second norm stands behind the sum",
        "What does a sublayer read in x + f(Norm(x))?",
    ),
]
_FAULTS = {
    "queries, keys and values head by head",
    "the bracket of GELU",
    "the stream normalised",
}


def _half_repaired() -> list[Misconception]:
    """Return one misconception for each way in which three lines can be left, but the right one."""
    found = []
    for steps in product(_PARTS, _BENDS, _AROUND):
        parts, bend, around = (step[1] for step in steps)
        bad = [step for step in steps if step[0]]
        names = [step[0] for step in bad]
        if not bad or set(names) == _FAULTS:
            continue
        start = "Still wrong here: "
        if set(names) <= _FAULTS:
            start = "One fault is left: " if len(bad) == 1 else "Two faults are left: "
        found.append(
            wrong(
                _block(parts=parts, bend=bend, around=around),
                f"{', '.join(names)} | {start}{'; '.join(step[2] for step in bad)}. → {bad[0][3]}",
            )
        )
    return found


def _attention_lost(x: NDArray, weights: Weights, n_heads: int) -> Any:
    with_attention = _block(around=lambda x, f, norm: x)(x, weights, n_heads)
    return _block()(x, weights, n_heads) - with_attention + x


_WRONG = [
    wrong(
        gpt2_block_broken,
        "the program as it was | This is what the broken program returns: the columns of c_attn "
        "are cut as if each head had its queries, keys and values together; in GELU √(2/π) "
        "multiplies y alone; and the stream is normalised before the network. → Which of the "
        "three can't show with a single head?",
        program=as_cell(gpt2_block_broken, "gpt2_block"),
    ),
    *_half_repaired(),
    wrong(
        _block(parts=_values_second),
        "keys and values changed places | The three faults are mended, but the second third of "
        "the columns is taken for values and the last for keys. → In which order does the text "
        "name them?",
    ),
    wrong(
        _block(bend=_gelu_square),
        "a square in GELU | GELU has a square where a cube belongs. → Which power of y changes "
        "sign with y?",
    ),
    wrong(
        _block(bend=lambda y: y * (1.0 + np.tanh(y + 0.044715 * y**3)) / 2),
        "GELU without its factor | GELU has lost its √(2/π): nothing multiplies the bracket. → "
        "Which number does so in the formula?",
    ),
    wrong(
        _block(bend=lambda y: y * (1.0 + np.tanh(2 / pi * (y + 0.044715 * y**3))) / 2),
        "2/π without the root | GELU's bracket is multiplied by 2/π, and not by its root. → "
        "Which number multiplies the bracket in the formula?",
    ),
    wrong(
        _block(bend=lambda y: y * (1.0 + np.tanh(sqrt(2 / pi) * (y + 0.44715 * y**3))) / 2),
        "a digit lost in GELU | In GELU the cube counts ten times as much as it should. → How "
        "many zeros follow the point?",
    ),
    wrong(
        _block(bend=lambda y: y * (1.0 + np.tanh(sqrt(2 / pi) * (y + 0.044715) * y**3)) / 2),
        "a bracket of GELU too early | In GELU the bracket closes too early, so that the cube "
        "multiplies it. → What does 0.044715 multiply in the formula?",
    ),
    wrong(
        _block(bend=lambda y: 2 * gelu_tanh(y)),
        "½ lost in GELU | GELU is twice as large as it should be: its ½ is missing. → What are "
        "the smallest and largest values of 1 + tanh?",
    ),
    *(
        wrong(
            _block(parts=_in_order(order)),
            f"columns in the order {order} | The three faults are mended, but you take the three "
            f"thirds of the columns for {order}, one after the other. → In which order does the "
            "text name them?",
        )
        for order in (
            "keys, queries, values",
            "keys, values, queries",
            "values, queries, keys",
            "values, keys, queries",
        )
    ),
    wrong(
        _block(scale=lambda d, h: sqrt(3 * d // h)),
        "scaled by √(3d/h) | Scores are divided by the root of three heads' width. → How many "
        "terms has the product of a query and a key?",
    ),
    wrong(
        _block(parts=_thirds_of_the_text),
        "the 3 before the tokens | You reshape to an axis of 3 that comes before the tokens, so "
        "that the first third of the *text* makes queries. → Which axis does a reshape split?",
    ),
    wrong(
        _block(bend=lambda y: np.maximum(y, 0.0)),
        "ReLU for GELU | The network uses ReLU, which cuts off everything below 0. → Which "
        "formula does the text give?",
    ),
    wrong(
        _block(around=_no_sum),
        "the network's output alone | The network's output is returned alone and replaces the "
        "stream. → What is it to be added to?",
    ),
    wrong(
        _block(around=lambda x, f, norm: norm(x) + f(x)),
        "norm and stream changed places | The network reads the stream as it is, and its output "
        "is added to the normalised one. → Which of the two belongs inside f(…) in x + "
        "f(Norm(x))?",
    ),
    wrong(
        _block(around=lambda x, f, norm: _no_norm(x + norm(x), f, norm)),
        "the norm added to the stream | You add the normalised tokens to the stream, and the "
        "network reads the sum. → What is added to the stream in x + f(Norm(x))?",
    ),
    wrong(
        _block(first=_no_sum),
        "attention's output alone | The three faults are mended, but attention's output "
        "replaces the stream now. → What did the broken program add it to?",
    ),
    wrong(
        _attention_lost,
        "attention lost | You add the network's output to the tokens as they came in, so that "
        "attention's output is missing from the stream. → What is the sum behind attention for?",
    ),
    wrong(
        _block(first=_lost),
        "the stream normalised before attention | The three faults are mended, but there's a "
        "new one around attention: you add to the normalised tokens. → What did the broken "
        "program add to there?",
    ),
    wrong(
        _block(first=_lost, around=_lost),
        "the stream normalised twice | You add to normalised tokens around attention too, where "
        "the broken program was right. → What is a sublayer's output to be added to?",
    ),
    wrong(
        _block(first=_last, around=_last),
        "both norms last | You normalise both sums, as the Transformer of 2017 does. → What does a "
        "sublayer read in x + f(Norm(x))?",
    ),
    wrong(
        _block(norms=("ln_1", "ln_1")),
        "ln_1 twice | The three faults are mended, but the network reads through attention's "
        "norm. → Which norm belongs before the network?",
    ),
    wrong(
        _block(norms=("ln_2", "ln_1")),
        "the norms changed places | Each sublayer reads through the other one's norm. → Which "
        "of the two comes first?",
    ),
    wrong(
        _block(scale=lambda d, h: sqrt(d)),
        "scaled by √d | Scores are divided by the root of the model's width. → By what did the "
        "broken program divide them?",
    ),
    wrong(
        _block(scale=lambda d, h: 1.0),
        "not scaled | Your scores go into the softmax as they are, undivided. → By what did the "
        "broken program divide them?",
    ),
    wrong(
        _block(seen=lambda n: np.ones((n, n), dtype=bool)),
        "no causal mask | The three faults are mended, but tokens see the whole text now. → "
        "What did the broken program hide?",
    ),
    wrong(
        _block(seen=lambda n: np.tri(n, k=1, dtype=bool)),
        "one token ahead | The three faults are mended, but tokens see the next one now. → What "
        "did the broken program hide?",
    ),
    wrong(
        _block(standardise=lambda y: y / np.sqrt((y**2).mean(axis=-1, keepdims=True) + 1e-5)),
        "RMSNorm | The three faults are mended, but the norms no longer subtract the mean. → "
        "Which norm has GPT-2?",
    ),
    wrong(
        _block(standardise=lambda y: standard(y, eps=1e-6)),
        "ε = 10⁻⁶ | The three faults are mended, but ε is 10⁻⁶ in your norms, as in Llama's. "
        "All numbers are slightly off, most where tokens are small. → Which ε does the text "
        "give?",
    ),
    wrong(
        _block(standardise=lambda y: standard(y, eps=0.0)),
        "no ε | The three faults are mended, but your norms have no ε, or a far smaller one. "
        "All numbers are slightly off, most where tokens are small. → Which ε does the text "
        "give?",
    ),
    wrong(
        _block(
            standardise=lambda y: (
                (y - y.mean(axis=-1, keepdims=True)) / (y.std(axis=-1, keepdims=True) + 1e-5)
            )
        ),
        "ε outside the root | The three faults are mended, but your norms add ε to the standard "
        "deviation. All numbers are slightly off, most where tokens are small. → To what did "
        "the broken program add it?",
    ),
    wrong(
        _block(standardise=lambda y: standard(y, ddof=1)),
        "divided by d − 1 | The three faults are mended, but your norms divide by d − 1 in the "
        "variance, as for a sample. → By what did the broken program divide?",
    ),
    wrong(
        _block(biases=False),
        "biases left out | The three faults are mended, but the projections have lost their "
        "biases. → What did the broken program add to each product?",
    ),
]


def _by_thirds(x: Any, weights: Any, n_heads: int) -> Any:
    """Cut in three, then into heads, and go head by head."""
    y = x.copy()
    width = x.shape[-1] // n_heads
    fused = standard(x) * weights["ln_1.weight"] + weights["ln_1.bias"]
    fused = fused @ weights["attn.c_attn.weight"] + weights["attn.c_attn.bias"]
    queries, keys, values = np.split(fused, 3, axis=-1)
    hidden = np.triu(np.full((x.shape[-2], x.shape[-2]), -1e30), k=1)
    for i in range(n_heads):
        own = slice(i * width, (i + 1) * width)
        scores = np.einsum("...ie,...je->...ij", queries[..., own], keys[..., own])
        table = softmax(scores * width**-0.5 + hidden)
        y += table @ values[..., own] @ weights["attn.c_proj.weight"][own]
    y += weights["attn.c_proj.bias"]
    z = standard(y) * weights["ln_2.weight"] + weights["ln_2.bias"]
    z = z @ weights["mlp.c_fc.weight"] + weights["mlp.c_fc.bias"]
    z = z / (1.0 + np.exp(-2 * sqrt(2 / pi) * (z + 0.044715 * z**3)))
    return y + z @ weights["mlp.c_proj.weight"] + weights["mlp.c_proj.bias"]


def _prefix_by_prefix(x: Any, weights: Any, n_heads: int) -> Any:
    """Run the block on each beginning of the text, where there's no future to see."""
    everything = _block(seen=lambda n: np.ones((n, n), dtype=bool))
    rows = [
        everything(x[..., : t + 1, :], weights, n_heads)[..., -1, :] for t in range(x.shape[-2])
    ]
    return np.stack(rows, axis=-2)


def _by_torch(x: Any, weights: Any, n_heads: int) -> Any:
    from torch.nn import functional

    def norm(y: Any, name: str) -> Any:
        gamma, beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return functional.layer_norm(y, gamma.shape, gamma, beta)

    def linear(y: Any, name: str) -> Any:
        return functional.linear(y, weights[f"{name}.weight"].T, weights[f"{name}.bias"])

    q, k, v = (
        y.unflatten(-1, (n_heads, -1)).transpose(-3, -2)
        for y in linear(norm(x, "ln_1"), "attn.c_attn").chunk(3, dim=-1)
    )
    heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + linear(heads.transpose(-3, -2).flatten(-2), "attn.c_proj")
    inner = functional.gelu(linear(norm(x, "ln_2"), "mlp.c_fc"), approximate="tanh")
    return x + linear(inner, "mlp.c_proj")


GPT2_BLOCK = Exercise(
    id="13.bug_gpt2",
    function="gpt2_block",
    reference=gpt2_block,
    cases=_CASES,
    returns=("output",),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="head by head", right=_by_thirds),
        Alternative(name="one beginning after another", right=_prefix_by_prefix),
        Alternative(name="torch", right=_by_torch, backend="torch"),
    ],
    hints=[
        "Take it apart: set `mlp.c_proj` to zeros and attention is left, with its stream. Set "
        "`attn.c_proj` to zeros and the network is left.",
        "One fault is in how the columns of `c_attn` become heads, one in a bracket, one in what "
        "the network's answer is added to.",
        "The axes of the reshape are (3, n_heads, width), and the 3 comes to the front. √(2/π) "
        "multiplies the whole bracket. And `x` stays what it was: only the network reads the norm.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)

#: The program that the debugging exercise begins with.
BROKEN: dict[str, Callable[..., Any]] = {"13.bug_gpt2": gpt2_block_broken}
