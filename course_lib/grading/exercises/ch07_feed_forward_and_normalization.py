"""The exercises of chapter 07: the feed-forward network, norms, residual blocks, and a leak.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.ch02_why_transformers import Layer
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import feed_forward as ref_ffn
from course_lib.reference import normalization as ref
from course_lib.reference import residual as ref_residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXERCISES", "leak", "normalize", "residual_stack"]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


_erf = np.vectorize(erf, otypes=[float])


def _relu(x: NDArray) -> NDArray:
    return np.maximum(x, 0.0)


def _gelu(x: NDArray) -> NDArray:
    return 0.5 * x * (1.0 + _erf(x / sqrt(2.0)))


def _same(x: NDArray) -> NDArray:
    return x


def _standard(x: NDArray, axis: Any = -1, eps: float = 1e-5, ddof: int = 0) -> NDArray:
    """Centre and divide by the standard deviation; NaN where that can't be computed."""
    with np.errstate(all="ignore"):
        centred = x - x.mean(axis=axis, keepdims=True)
        return centred / np.sqrt(x.var(axis=axis, ddof=ddof, keepdims=True) + eps)


# -- 07.feed_forward -------------------------------------------------------------------------------


def _network(rng: np.random.Generator, lead: tuple[int, ...], d: int, d_ff: int) -> dict[str, Any]:
    return {
        "x": draw(rng, *lead, d),
        "w_1": draw(rng, d, d_ff),
        "b_1": draw(rng, d_ff),
        "w_2": draw(rng, d_ff, d),
        "b_2": draw(rng, d),
    }


def _drawn_network(
    lead: tuple[int, ...], d: int, d_ff: int, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        return {**_network(np.random.default_rng([seed, 1, *lead]), lead, d, d_ff), **more}

    return build


def _nothing_comes_in(seed: int) -> dict[str, Any]:
    return {**_drawn_network((2,), 3, 4)(seed), "x": np.zeros((2, 3))}


_FFN_CASES = [
    case(
        "one token, weights 1 | what is below 0 is cut off",
        {
            "x": np.array([[2.0, -3.0]]),
            "w_1": np.eye(2),
            "b_1": np.zeros(2),
            "w_2": np.eye(2),
            "b_2": np.zeros(2),
        },
    ),
    case("tokens of zeros | what the biases do alone", _nothing_comes_in),
    case(
        "5 tokens of width 3, inner width 7 | wider inside, and as wide as before outside",
        _drawn_network((5,), 3, 7),
    ),
    case(
        "2 sequences of 4 tokens, width 3, inner width 6 | each token alone, whatever axes stand "
        "in front",
        _drawn_network((2, 4), 3, 6),
    ),
    case(
        "GELU from −4 to 4 | the exact one, to four decimals and more",
        {
            "x": np.arange(-4.0, 5.0)[:, None],
            "w_1": np.eye(1),
            "b_1": np.zeros(1),
            "w_2": np.eye(1),
            "b_2": np.zeros(1),
            "activation": "gelu",
        },
    ),
    case(
        "GELU, 4 tokens of width 2, inner width 5 | the same network with the other bend",
        _drawn_network((4,), 2, 5, activation="gelu"),
    ),
]


def _ffn(
    *,
    relu: Callable[[NDArray], NDArray] = _relu,
    gelu: Callable[[NDArray], NDArray] = _gelu,
    inner: Callable[..., NDArray] = lambda x, w, b, act: act(x @ w + b),
    outer: Callable[..., NDArray] = lambda h, w, b, act: h @ w + b,
    after: Callable[[NDArray, NDArray], NDArray] = lambda y, x: y,
) -> Callable[..., Any]:
    """Return the network with some steps replaced."""

    def network(
        x: NDArray, w_1: NDArray, b_1: NDArray, w_2: NDArray, b_2: NDArray, activation: str = "relu"
    ) -> Any:
        act = {"relu": relu, "gelu": gelu}[activation]
        return after(outer(inner(x, w_1, b_1, act), w_2, b_2, act), x)

    return network


def _gelu_tanh(power: int) -> Callable[[NDArray], NDArray]:
    return lambda x: 0.5 * x * (1.0 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**power)))


def _sigmoid(x: NDArray) -> NDArray:
    return 1.0 / (1.0 + np.exp(-x))


def _gelu_by_number(x: NDArray) -> NDArray:
    raise TypeError("only 0-dimensional arrays can be converted to Python scalars")  # by math.erf


_FFN_WRONG = [
    wrong(
        _ffn(relu=_same, gelu=_same),
        "no non-linearity | Your numbers are those of two matrix products with nothing between "
        "them, and two linear layers in a row are one linear layer. → What happens to the inner "
        "numbers before W_2 sees them?",
    ),
    wrong(
        _ffn(gelu=_relu),
        "ReLU whatever is asked for | With ReLU you're right; where GELU is asked for you still "
        "cut off at 0. → Where does your function look at `activation`?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: x @ w + b, outer=lambda h, w, b, act: act(h @ w + b)),
        "ReLU at the end | The bend comes after the second layer, so no output is ever clearly "
        "below 0, and the two products in front of it are one. → Between which two steps does the "
        "formula bend?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x @ w)),
        "the first bias left out | Your tokens of zeros come out as b_2 alone: every bend sits at "
        "0, as if there were no b_1. → What is added to x W_1 before the activation?",
    ),
    wrong(
        _ffn(outer=lambda h, w, b, act: h @ w),
        "the second bias left out | Your outputs are off by the same row for every token, wherever "
        "it stands: something constant is missing at the end. → What is added after W_2?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x @ w), outer=lambda h, w, b, act: h @ w),
        "both biases left out | Tokens of zeros come out as zeros, which is what a network without "
        "biases does. → Which two arguments does your function never use?",
    ),
    wrong(
        _ffn(relu=lambda h: np.max(h, 0)),
        "np.max in the place of np.maximum | An axis is gone: `np.max(h, 0)` takes the largest "
        "number along axis 0, which mixes the tokens. → Which function of numpy compares number by "
        "number with 0?",
    ),
    wrong(
        _ffn(gelu=_gelu_by_number),
        "math.erf of an array | Your GELU stops with a TypeError: `math.erf` takes one number, and "
        "the inner numbers come as an array. → Which function of numpy makes one that takes "
        "arrays out of it?",
    ),
    wrong(
        _ffn(gelu=_gelu_tanh(3)),
        "the tanh form of GELU | this exercise uses the exact GELU, x·Φ(x); yours is the "
        "approximation with tanh, which GPT-2 uses and which is off by up to 5·10⁻⁴. → How is Φ "
        "written with the error function?",
        variant=True,
    ),
    wrong(
        _ffn(gelu=_gelu_tanh(2)),
        "a square for the cube in GELU's tanh form | This is the tanh form of GELU with a square "
        "where a cube belongs, so left and right of 0 it's off by different amounts. And the exact "
        "one is asked for. → How is Φ written with the error function, which `math.erf` computes?",
    ),
    wrong(
        _ffn(gelu=lambda x: x * _sigmoid(1.702 * x)),
        "GELU from a sigmoid | this exercise uses the exact GELU, x·Φ(x); yours is the quick "
        "approximation x·σ(1.702x), off by up to 0.02. → How is Φ written with the error function?",
        variant=True,
    ),
    wrong(
        _ffn(gelu=lambda x: 0.5 * (1.0 + _erf(x / sqrt(2.0)))),
        "Φ alone | Your GELU stays between 0 and 1: that's Φ(x), the share that is let through. → "
        "What is it a share of?",
    ),
    wrong(
        _ffn(after=lambda y, x: x + y),
        "the token added | Your output is the network's plus the token itself. That sum is the "
        "residual connection around the network, which is another exercise. → What does the "
        "formula add up?",
    ),
]


def _ffn_loops(
    x: NDArray, w_1: NDArray, b_1: NDArray, w_2: NDArray, b_2: NDArray, activation: str = "relu"
) -> Any:
    bend: dict[str, Callable[[float], float]] = {
        "relu": lambda s: max(s, 0.0),
        "gelu": lambda s: s * (1 + erf(s / sqrt(2))) / 2,
    }
    output = np.zeros((*x.shape[:-1], w_2.shape[1]))
    for place in np.ndindex(x.shape[:-1]):
        inner = [bend[activation](float(x[place] @ w) + b) for w, b in zip(w_1.T, b_1, strict=True)]
        output[place] = b_2 + sum(h * row for h, row in zip(inner, w_2, strict=True))
    return output


def _ffn_einsum(
    x: NDArray, w_1: NDArray, b_1: NDArray, w_2: NDArray, b_2: NDArray, activation: str = "relu"
) -> Any:
    h = np.einsum("...d,df->...f", x, w_1) + b_1
    h = np.where(h > 0, h, 0.0) if activation == "relu" else h - h * _erf_complement(h)
    return np.einsum("...f,fd->...d", h, w_2) + b_2


def _erf_complement(h: NDArray) -> NDArray:
    """1 − Φ."""
    return (1.0 - _erf(h / sqrt(2.0))) / 2.0


def _ffn_torch(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any, activation: str = "relu") -> Any:
    from torch.nn import functional

    act: Any = {"relu": functional.relu, "gelu": functional.gelu}[activation]
    return functional.linear(act(functional.linear(x, w_1.T, b_1)), w_2.T, b_2)


_FEED_FORWARD = Exercise(
    id="07.feed_forward",
    function="feed_forward",
    reference=ref_ffn.feed_forward,
    guarded=[ref_ffn.gelu],
    cases=_FFN_CASES,
    returns=("output",),
    misconceptions=_FFN_WRONG,
    alternatives=[
        ("loops", _ffn_loops),
        ("einsum", _ffn_einsum),
        Alternative(name="torch", right=_ffn_torch, backend="torch"),
    ],
    hints=[
        "Three steps: out to the inner width, bend every number by itself, back to the token's "
        "width. Both matrix products add their bias.",
        "`x @ w_1` leaves all axes in front alone. ReLU is `np.maximum(h, 0)`; look at "
        "`activation` to tell which bend is wanted.",
        "GELU is h·Φ(h) with Φ(h) = (1 + erf(h/√2))/2. `math.erf` takes one number; "
        "`np.vectorize(math.erf)` takes an array.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 07.layer_norm ---------------------------------------------------------------------------------


def _normed(*shape: int, shift: float = 0.0, **more: Any) -> Callable[[int], dict[str, Any]]:
    """Draw tokens whose means are not 0, and γ and β."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, *shape])
        return {
            "x": draw(rng, *shape, spread=2.0) + shift,
            "gamma": draw(rng, shape[-1]) + 2.5,
            "beta": draw(rng, shape[-1]) + 0.35,
            **more,
        }

    return build


def _even_token(seed: int) -> dict[str, Any]:
    inputs = _normed(3, 2)(seed)
    inputs["x"][1] = 4.0
    return inputs


_LAYER_CASES = [
    case(
        "one token 1, 2, 3, 4, with γ = 1 and β = 0 | mean 0, mean square 1",
        {
            "x": np.array([[1.0, 2.0, 3.0, 4.0]]),
            "gamma": np.ones(4),
            "beta": np.zeros(4),
        },
    ),
    case("5 tokens of width 3 | each token alone, then γ and β", _normed(5, 3, shift=0.7)),
    case("ε = 0.1 | where ε stands makes a difference", _normed(3, 5, eps=0.1)),
    case("a token of equal numbers | it comes out as β", _even_token),
    case("4 tokens of width 4 | the last axis, though both are equally long", _normed(4, 4)),
    case(
        "2 sequences of 3 tokens, width 4 | whatever axes stand in front",
        _normed(2, 3, 4, shift=-0.4),
    ),
    case(
        "numbers far from 0 | a shift of a token changes nothing",
        {
            "x": 1e8 + np.array([[1.0, 2.0, 4.0], [5.0, 1.0, 3.0]]),
            "gamma": np.array([1.0, 2.0, 3.0]),
            "beta": np.array([0.5, 0.0, -0.5]),
        },
    ),
]


def _layer(
    standardise: Callable[[NDArray, float], NDArray] = lambda x, eps: _standard(x, eps=eps),
    finish: Callable[..., NDArray] = lambda h, gamma, beta: gamma * h + beta,
) -> Callable[..., Any]:
    """Return layer norm with some steps replaced."""

    def norm(x: NDArray, gamma: NDArray, beta: NDArray, eps: float = 1e-5) -> Any:
        with np.errstate(all="ignore"):
            return finish(standardise(x, eps), gamma, beta)

    return norm


def _divided(by: Callable[[NDArray, float], NDArray]) -> Callable[..., Any]:
    """Layer norm whose centred tokens are divided by something else."""
    return _layer(lambda x, eps: (x - x.mean(-1, keepdims=True)) / by(x, eps))


def _var(x: NDArray, ddof: int = 0) -> NDArray:
    return x.var(axis=-1, ddof=ddof, keepdims=True)


def _apart(x: NDArray, eps: float) -> NDArray:
    """Take the variance as the mean square less the squared mean."""
    return np.sqrt((x**2).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2 + eps)


def _layer_in_place(x: NDArray, gamma: NDArray, beta: NDArray, eps: float = 1e-5) -> Any:
    x -= x.mean(axis=-1, keepdims=True)
    x /= np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    return x * gamma + beta


_LAYER_WRONG = [
    wrong(
        _divided(lambda x, eps: np.sqrt(_var(x, 1) + eps)),
        "divided by d − 1 | Your numbers are too small by the factor √((d−1)/d): your variance "
        "divides by d − 1, as an estimate from a sample does. With d = 512 nobody would see it. → "
        "What does layer norm divide the sum of squares by?",
    ),
    wrong(
        _divided(lambda x, eps: np.sqrt(_var(x)) + eps),
        "ε outside the root | Your numbers are off in the fifth or sixth digit, and by much more "
        "with ε = 0.1: you add it to the standard deviation. → Is ε added to the variance or to "
        "its root?",
    ),
    wrong(
        _divided(lambda x, eps: np.sqrt(_var(x, 1)) + eps),
        "divided by d − 1, ε outside the root | Two things: your variance divides by d − 1, as "
        "`torch.std` does, and ε is added to the root in the place of the variance. → Which "
        "formula for σ does the text give?",
    ),
    wrong(
        _layer(lambda x, eps: _standard(x, 0, eps)),
        "along axis 0 | You take mean and variance along axis 0: over the tokens, or over the "
        "batch where there is one. One token alone becomes β. → Which axis holds the numbers of "
        "one token, counted from the end?",
    ),
    wrong(
        _layer(lambda x, eps: _standard(x, None, eps)),
        "over everything | There is one mean and one variance for the whole array, so that every "
        "token depends on all others. → What do `mean()` and `var()` cover when they aren't told "
        "an axis?",
    ),
    wrong(
        _layer(finish=lambda h, gamma, beta: h),
        "γ and β left out | With γ = 1 and β = 0 you're right: your tokens have mean 0 and "
        "variance 1, and stay so. → What do the two learned vectors do with them?",
    ),
    wrong(
        _layer(finish=lambda h, gamma, beta: gamma * h),
        "β left out | A token of equal numbers comes out as 0 with you; the learned shift is "
        "missing. → Which argument does your function never use?",
    ),
    wrong(
        _layer(lambda x, eps: _standard(x)),
        "ε ignored | You have your own ε, a constant: where the caller asks for ε = 0.1 nothing "
        "changes. → Where does your function use its argument `eps`?",
    ),
    wrong(
        _layer(lambda x, eps: _standard(x, eps=0.0)),
        "no ε at all | A token of equal numbers has variance 0, and 0/0 is NaN. → What does the "
        "formula add to the variance so that this can't happen?",
    ),
    wrong(
        _layer(lambda x, eps: x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)),
        "the root mean square | this exercise uses layer norm; yours divides by the root mean "
        "square without centring first, which is RMSNorm (with a β). → What is taken away from "
        "every number before the division?",
        variant=True,
    ),
    wrong(
        _divided(_apart),
        "the mean square less the squared mean | The formula E[x²] − E[x]² is right on paper. With "
        "numbers near 10⁸ it takes two huge numbers from each other and nothing exact is left. → "
        "Which squares would be small there, if the mean were taken away first?",
    ),
    wrong(
        _layer(lambda x, eps: (x - x.mean(-1)) / np.sqrt(x.var(-1) + eps)),
        "the mean has lost its axis | The means came out without their axis, so that they can't be "
        "set against rows; for 4 tokens of width 4 they are set against the columns instead. → "
        "Which argument of `mean` keeps the axis, with length 1?",
    ),
    wrong(
        _layer_in_place,
        "x is overwritten | The numbers are right, but the caller's tokens are gone, which a "
        "residual connection still needs. → Which line writes into `x` itself?",
    ),
]


def _layer_loops(x: NDArray, gamma: NDArray, beta: NDArray, eps: float = 1e-5) -> Any:
    output = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        mean = sum(x[place]) / len(gamma)
        variance = sum((a - mean) ** 2 for a in x[place]) / len(gamma)
        output[place] = [
            g * (a - mean) / sqrt(variance + eps) + b
            for a, g, b in zip(x[place], gamma, beta, strict=True)
        ]
    return output


def _layer_matrix(x: NDArray, gamma: NDArray, beta: NDArray, eps: float = 1e-5) -> Any:
    """Centring is a matrix product."""
    d = x.shape[-1]
    centred = x @ (np.eye(d) - np.full((d, d), 1 / d))
    scale = (np.einsum("...i,...i->...", centred, centred) / d + eps) ** -0.5
    return centred * scale[..., None] * gamma + beta


def _layer_torch(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    from torch.nn import functional

    return functional.layer_norm(x, gamma.shape, gamma, beta, eps)


_LAYER_NORM = Exercise(
    id="07.layer_norm",
    function="layer_norm",
    reference=ref.layer_norm,
    guarded=[ref.sequence_norm, ref.batch_norm, ref_residual.post_norm, ref_residual.pre_norm],
    cases=_LAYER_CASES,
    returns=("output",),
    misconceptions=_LAYER_WRONG,
    alternatives=[
        ("loops", _layer_loops),
        ("a matrix that centres", _layer_matrix),
        Alternative(name="torch", right=_layer_torch, backend="torch"),
    ],
    hints=[
        "For every token by itself: take its mean away, divide by its standard deviation, then "
        "scale and shift with γ and β.",
        "Mean and variance go along the last axis, and `keepdims=True` keeps it. ε is added to the "
        "variance, inside of the root.",
        "`x.var(axis=-1, keepdims=True)` divides by d, as it should; torch's `var` and `std` "
        "divide by d − 1 unless they're told `correction=0`.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 07.layer_norm_backward ------------------------------------------------------------------------


def _backward(*shape: int, **more: Any) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 3, *shape])
        return {
            "x": draw(rng, *shape, spread=2.0) + 0.3,
            "gamma": draw(rng, shape[-1]) + 2.5,
            "d_output": draw(rng, *shape) + 0.25,
            **more,
        }

    return build


_BACKWARD_CASES = [
    case(
        "one token, γ = 1 | the worked example",
        {
            "x": np.array([[1.0, 3.0]]),
            "gamma": np.ones(2),
            "d_output": np.array([[1.0, 0.0]]),
            "eps": 1.0,
        },
    ),
    case(
        "the same gradient everywhere, γ = 1 | a shift of the output can't come from x",
        {
            "x": np.array([[1.0, -2.0, 4.0], [0.0, 5.0, 1.0]]),
            "gamma": np.ones(3),
            "d_output": np.array([[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]]),
        },
    ),
    case("one token of width 4 | γ weighs the gradient", _backward(1, 4)),
    case("5 tokens of width 3 | all tokens use the same γ and β", _backward(5, 3)),
    case("ε = 0.5 | ε takes part", _backward(3, 5, eps=0.5)),
    case("2 sequences of 3 tokens, width 4 | over all axes in front", _backward(2, 3, 4)),
]


def _back(
    *,
    d_x: Callable[..., NDArray] | None = None,
    weigh: Callable[[NDArray, NDArray], NDArray] = lambda d, gamma: d * gamma,
    mean: float = 1.0,
    slope: float = 1.0,
    scaled: bool = True,
    own_eps: float | None = None,
    d_gamma: Callable[..., Any] = lambda d, h, x: _summed(d * h),
    d_beta: Callable[..., Any] = lambda d: _summed(d),
    order: tuple[int, int, int] = (0, 1, 2),
) -> Callable[..., tuple[Any, Any, Any]]:
    """Return the backward pass with some steps replaced."""

    def backward(x: NDArray, gamma: NDArray, d_output: NDArray, eps: float = 1e-5) -> Any:
        eps = eps if own_eps is None else own_eps
        h = _standard(x, eps=eps)
        sigma = np.sqrt(_var(x) + eps)
        g = weigh(d_output, gamma)
        if d_x is not None:
            dx = d_x(g, h, sigma, gamma)
        else:
            dx = g - mean * g.mean(-1, keepdims=True) - slope * h * (g * h).mean(-1, keepdims=True)
            dx = dx / sigma if scaled else dx
        parts = (dx, d_gamma(d_output, h, x), d_beta(d_output))
        return tuple(parts[i] for i in order)

    return backward


def _summed(d: NDArray) -> NDArray:
    return d.sum(axis=tuple(range(d.ndim - 1)))


def _back_sums(g: NDArray, h: NDArray, sigma: NDArray, gamma: NDArray) -> NDArray:
    return (g - g.sum(-1, keepdims=True) - h * (g * h).sum(-1, keepdims=True)) / sigma


_BACKWARD_WRONG = [
    wrong(
        _back(mean=0.0, slope=0.0),
        "mean and deviation taken for constants | Your dx is γ·d_output/σ, as if mean and "
        "deviation were given numbers. They move when x moves. → Through which other numbers of "
        "the token does one number of x reach the output?",
    ),
    wrong(
        _back(mean=0.0),
        "the mean taken for a constant | A number of x also raises the mean, which lowers all "
        "outputs of its token; that way back is missing in your dx. Its rows should sum to 0. → "
        "What is to be taken away from every gradient for it?",
    ),
    wrong(
        _back(slope=0.0),
        "the deviation taken for a constant | A number of x also changes the deviation, which "
        "scales all outputs of its token; that way back is missing in your dx. → How much does σ "
        "change when one number does, in terms of x̂?",
    ),
    wrong(
        _back(weigh=lambda d, gamma: d),
        "γ left out of dx | With γ = 1 your dx is right. Otherwise the gradient has to pass γ "
        "before it reaches x̂. → What is the gradient of γ·x̂ + β with respect to x̂?",
    ),
    wrong(
        _back(scaled=False),
        "not divided by σ | Your dx is right but for a factor, a different one for each token. → "
        "What does the forward pass divide by, and where is that in your dx?",
    ),
    wrong(
        _back(d_x=_back_sums),
        "sums in the place of means | Both corrections in your dx are d times too large: you take "
        "sums over the token where means belong. → How much does the mean move when one of d "
        "numbers moves by 1?",
    ),
    wrong(
        _back(d_gamma=lambda d, h, x: _summed(d * x)),
        "dgamma from x | Your dgamma multiplies the gradient by x. In the forward pass γ "
        "multiplies x̂. → What is the derivative of γ·x̂ with respect to γ?",
    ),
    wrong(
        _back(d_gamma=lambda d, h, x: _summed(d)),
        "dgamma without x̂ | Your dgamma is the same as dbeta. γ is multiplied by something in the "
        "forward pass. → By what?",
    ),
    wrong(
        _back(d_gamma=lambda d, h, x: d * h, d_beta=lambda d: d),
        "dgamma and dbeta for each token | Your dgamma and dbeta have a row for every token, but "
        "there's one γ and one β that all tokens use. → What happens to the gradients of a number "
        "that is used many times?",
    ),
    wrong(
        _back(d_gamma=lambda d, h, x: (d * h).sum(axis=0), d_beta=lambda d: d.sum(axis=0)),
        "dgamma and dbeta summed along axis 0 | For one sequence that's right. In a batch axis 0 "
        "is that of the sequences, and the tokens' axis is still there. → Over which axes does one "
        "γ serve?",
    ),
    wrong(
        _back(order=(0, 2, 1)),
        "dbeta before dgamma | dgamma and dbeta have changed places; both are right. → In which "
        "order does the docstring's Returns name them?",
    ),
    wrong(
        _back(own_eps=1e-5),
        "ε ignored | With the usual ε you're right; with a larger one it shows that your σ and x̂ "
        "use a constant of their own. → Where does your function use its argument `eps`?",
    ),
]


def _backward_jacobian(x: NDArray, gamma: NDArray, d_output: NDArray, eps: float = 1e-5) -> Any:
    """Build every token's Jacobian dx̂/dx and multiply by it."""
    d = x.shape[-1]
    flat, grads = x.reshape(-1, d), d_output.reshape(-1, d)
    dx = np.zeros(flat.shape)
    d_gamma = np.zeros(d)
    for i, (row, grad) in enumerate(zip(flat, grads, strict=True)):
        sigma = np.sqrt(row.var() + eps)
        h = (row - row.mean()) / sigma
        dx[i] = (np.eye(d) - 1 / d - np.outer(h, h) / d) / sigma @ (gamma * grad)
        d_gamma += grad * h
    return dx.reshape(x.shape), d_gamma, grads.sum(axis=0)


def _backward_chain(x: NDArray, gamma: NDArray, d_output: NDArray, eps: float = 1e-5) -> Any:
    """One step of the forward pass after another, from the last to the first."""
    d = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    root = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    d_hat = d_output * gamma
    d_root = (-d_hat * centred / root**2).sum(-1, keepdims=True)
    d_variance = d_root / (2 * root)
    d_centred = d_hat / root + d_variance * 2 * centred / d
    dx = d_centred - d_centred.sum(-1, keepdims=True) / d
    lead = "".join("abc"[: x.ndim - 1])
    d_gamma = np.einsum(f"{lead}z,{lead}z->z", d_output, centred / root)
    return dx, d_gamma, np.einsum(f"{lead}z->z", d_output)


def _backward_torch(x: Any, gamma: Any, d_output: Any, eps: float = 1e-5) -> Any:
    import torch

    x, gamma = x.detach().requires_grad_(), gamma.detach().requires_grad_()
    beta = torch.zeros_like(gamma, requires_grad=True)
    output = torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, eps)
    return torch.autograd.grad(output, (x, gamma, beta), d_output)


_LAYER_NORM_BACKWARD = Exercise(
    id="07.layer_norm_backward",
    function="layer_norm_backward",
    reference=ref.layer_norm_backward,
    cases=_BACKWARD_CASES,
    returns=("dx", "dgamma", "dbeta"),
    misconceptions=_BACKWARD_WRONG,
    alternatives=[
        ("a Jacobian a token", _backward_jacobian),
        ("step by step", _backward_chain),
        Alternative(name="torch", right=_backward_torch, backend="torch"),
    ],
    hints=[
        "Begin with what is easy: β is added to every token, γ multiplies x̂. One γ serves all "
        "tokens, so its gradients add up.",
        "Let g = γ·d_output be the gradient of x̂. A number of x reaches x̂ directly, through the "
        "mean and through σ. Each way gives one term.",
        "The way through the mean takes the token's mean of g away; the way through σ takes away "
        "x̂ times the token's mean of g·x̂. All of it is divided by σ.",
    ],
    points=4,
    minutes=30,
    difficulty=3,
)


# -- 07.rms_norm -----------------------------------------------------------------------------------


def _scaled(*shape: int, shift: float = 1.3, **more: Any) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        inputs = _normed(*shape, shift=shift)(seed)
        del inputs["beta"]
        return {**inputs, **more}

    return build


_RMS_CASES = [
    case(
        "one token 3, 4, with γ = 1 | mean square 1",
        {"x": np.array([[3.0, 4.0]]), "gamma": np.ones(2)},
    ),
    case("5 tokens of width 3 | each token alone, means stay", _scaled(5, 3)),
    case("ε = 0.1 | where ε stands makes a difference", _scaled(3, 5, eps=0.1)),
    case(
        "a token of zeros | it stays 0",
        {
            "x": np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 2.0]]),
            "gamma": np.array([1.0, 2.0, 3.0]),
        },
    ),
    case("4 tokens of width 4 | the last axis, though both are equally long", _scaled(4, 4)),
    case("2 sequences of 3 tokens, width 4 | whatever axes stand in front", _scaled(2, 3, 4)),
    case(
        "tiny numbers, ε by default | ε is 10⁻⁶ unless it's given",
        {"x": np.array([[0.001, -0.003, 0.002]]), "gamma": np.array([1.0, 0.5, 2.0])},
    ),
]


def _rms(
    size: Callable[[NDArray, float], Any],
    finish: Callable[[NDArray, NDArray], NDArray] = lambda h, gamma: gamma * h,
    before: Callable[[NDArray], NDArray] = _same,
) -> Callable[..., Any]:
    """Return RMSNorm with another size of a token, or another step before or after."""

    def norm(x: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
        with np.errstate(all="ignore"):
            return finish(before(x) / size(before(x), eps), gamma)

    return norm


def _size(x: NDArray, eps: float, axis: Any = -1) -> NDArray:
    return np.sqrt((x**2).mean(axis=axis, keepdims=True) + eps)


def _rms_in_place(x: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
    x /= _size(x, eps)
    return x * gamma


_RMS_WRONG = [
    wrong(
        _rms(_size, before=lambda x: x - x.mean(-1, keepdims=True)),
        "the mean taken away | Your tokens have mean 0: that's layer norm without β. RMSNorm "
        "leaves the mean where it is. → Which line could go?",
    ),
    wrong(
        _rms(lambda x, eps: np.sqrt((x**2).sum(-1, keepdims=True) + eps)),
        "the sum of squares | Your tokens have length 1, so they shrink as d grows. The sum of "
        "squares is one step short of their mean. → What is missing for the numbers to be of size "
        "1 at any width?",
    ),
    wrong(
        _rms(lambda x, eps: np.sqrt((x**2).mean(-1, keepdims=True)) + eps),
        "ε outside the root | With large tokens and a tiny ε it can't be seen, with ε = 0.1 it "
        "can: you add ε to the root. → To what is it added in the formula?",
    ),
    wrong(
        _rms(lambda x, eps: _size(x, 1e-6)),
        "ε ignored | With ε left out by the caller you're right; with ε = 0.1 it shows that you "
        "use a constant. → Where does your function use its argument `eps`?",
    ),
    wrong(
        _rms(lambda x, eps: _size(x, 1e-5 if eps == 1e-6 else eps)),
        "layer norm's ε | this exercise uses 10⁻⁶ for ε where the caller gives none; yours is "
        "layer norm's 10⁻⁵, which shows with tiny numbers (Llama 2 and 3 use it, the first Llama "
        "didn't). → Which default does the docstring's signature have?",
        variant=True,
    ),
    wrong(
        _rms(lambda x, eps: _size(x, 0.0)),
        "no ε at all | A token of zeros has mean square 0, and 0/0 is NaN. → What does the formula "
        "add to the mean square so that this can't happen?",
    ),
    wrong(
        _rms(_size, finish=lambda h, gamma: h),
        "γ left out | With γ = 1 you're right: the mean square of your tokens is 1, whatever the "
        "model has learned. → Which argument does your function never use?",
    ),
    wrong(
        _rms(_size, finish=lambda h, gamma: (1 + gamma) * h),
        "1 + γ | this exercise uses γ as it is; you multiply by 1 + γ, which is Gemma's way of "
        "storing it. → By what does the docstring's formula multiply?",
        variant=True,
    ),
    wrong(
        _rms(lambda x, eps: _size(x, eps, 0)),
        "along axis 0 | You take the mean square along axis 0: over the tokens, or over the batch "
        "where there is one. → Which axis holds the numbers of one token, counted from the end?",
    ),
    wrong(
        _rms(lambda x, eps: np.sqrt((x**2).mean(-1) + eps)),
        "the mean has lost its axis | The mean squares came out without their axis, so that they "
        "can't be set against rows; for 4 tokens of width 4 they are set against the columns. → "
        "Which argument of `mean` keeps the axis, with length 1?",
    ),
    wrong(
        _rms_in_place,
        "x is overwritten | The numbers are right, but the caller's tokens are gone, which a "
        "residual connection still needs. → Which line writes into `x` itself?",
    ),
]


def _rms_loops(x: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
    output = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        square = sum(float(a) ** 2 for a in x[place]) / x.shape[-1]
        for i, (a, g) in enumerate(zip(x[place], gamma, strict=True)):
            output[(*place, i)] = g * a / sqrt(square + eps)
    return output


def _rms_lengths(x: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
    """√d over the token's length."""
    d = x.shape[-1]
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return gamma * x * sqrt(d) / np.hypot(length, sqrt(d * eps))


def _rms_torch(x: Any, gamma: Any, eps: float = 1e-6) -> Any:
    import torch

    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gamma


_RMS_NORM = Exercise(
    id="07.rms_norm",
    function="rms_norm",
    reference=ref.rms_norm,
    cases=_RMS_CASES,
    returns=("output",),
    misconceptions=_RMS_WRONG,
    alternatives=[
        ("loops", _rms_loops),
        ("lengths", _rms_lengths),
        Alternative(name="torch", right=_rms_torch, backend="torch"),
    ],
    hints=[
        "Two things less than layer norm: no mean is taken away, no β is added.",
        "Square the numbers, take the mean along the last axis, add ε, take the root: that is what "
        "a token is divided by. γ comes last.",
        "`np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)` is the token's size.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 07.which_axis ---------------------------------------------------------------------------------

_AXES: dict[str, Any] = {"batch": (0, 1), "layer": 2, "sequence": (1, 2)}


def normalize(x: NDArray, kind: str, eps: float = 1e-5) -> NDArray:
    """Normalise a batch of sequences in one of three ways, without scale and shift.

    Parameters
    ----------
    x : float array, (b, n, d)
    kind : {"batch", "layer", "sequence"}
        What shares a mean and a variance: a feature's numbers of all tokens of the batch; the
        numbers of one token; all numbers of one sequence.
    eps : float
        Added to the variance.

    Returns
    -------
    float array, (b, n, d)
    """
    return _standard(x, _AXES[kind], eps)


def _batch(b: int, n: int, d: int, kind: str, **more: Any) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        x = draw(np.random.default_rng([seed, 4, b, n, d]), b, n, d, spread=2.0)
        x += np.linspace(-1.0, 2.0, d).round(1) + np.arange(b)[:, None, None] / 2
        return {"x": x, "kind": kind, **more}

    return build


_AXIS_CASES = [
    case(
        "layer norm of 2 sequences, 3 tokens, width 4 | 6 means, one a token",
        _batch(2, 3, 4, "layer"),
    ),
    case(
        "batch norm of 2 sequences, 3 tokens, width 4 | 4 means, one a feature",
        _batch(2, 3, 4, "batch"),
    ),
    case(
        "sequence norm of 2 sequences, 3 tokens, width 4 | 2 means, one a sequence",
        _batch(2, 3, 4, "sequence"),
    ),
    case(
        "batch norm of one sequence with ε = 0.1 | what generation has: a batch of one",
        _batch(1, 4, 3, "batch", eps=0.1),
    ),
    case(
        "sequence norm, 3 sequences of 3 tokens, width 3 | the right axes, though all are equally "
        "long",
        _batch(3, 3, 3, "sequence"),
    ),
    case(
        "batch norm, 3 sequences of 3 tokens, width 3 | the right axes, all equally long",
        _batch(3, 3, 3, "batch"),
    ),
]


def _along(
    changes: Mapping[str, Any], standardise: Callable[..., NDArray] = _standard
) -> Callable[..., Any]:
    """Return the norms with other axes, or another way to normalise along the right ones."""

    def norms(x: NDArray, kind: str, eps: float = 1e-5) -> Any:
        with np.errstate(all="ignore"):
            return standardise(x, {**_AXES, **changes}[kind], eps)

    return norms


def _flat_standard(x: NDArray, axis: Any, eps: float) -> NDArray:
    return (x - x.mean(axis=axis)) / np.sqrt(x.var(axis=axis) + eps)


def _standard_in_place(x: NDArray, axis: Any, eps: float) -> NDArray:
    x[...] = _standard(x, axis, eps)
    return x


_AXIS_WRONG = [
    wrong(
        _along({"batch": 0, "layer": 2, "sequence": 1}),
        "the axis of that name | You average along the axis that each kind is named after, one at "
        "a time. Batch norm has a mean for each *feature*, and sequence norm one for each "
        "*sequence*. → Which axes of (b, n, d) are averaged away if d means are left, and which if "
        "b are left?",
    ),
    wrong(
        _along({"batch": (1, 2), "layer": (0, 1), "sequence": (0, 2)}),
        "the axis of that name is kept | You keep the axis that each kind is named after and "
        "average over the other two. Look at the numbers of means: d for batch norm, b for "
        "sequence norm, b·n for layer norm. → Which axes have to be averaged away so that these "
        "are left?",
    ),
    wrong(
        _along({"batch": 0}),
        "batch norm over the batch axis alone | Your batch norm has a mean for every place of "
        "every feature, n·d of them; with one sequence there's nothing to average. → Do all tokens "
        "of a sequence share a feature's mean?",
    ),
    wrong(
        _along({"batch": 1}),
        "batch norm of each sequence by itself | Your batch norm has a mean for each feature of "
        "each sequence: with one sequence that's right, but sequences don't share anything. It has "
        "a name of its own, instance norm. → Which axis has to be averaged away as well, if d "
        "means are to be left?",
    ),
    wrong(
        _along({"batch": (1, 2), "sequence": (0, 1)}),
        "batch norm and sequence norm changed places | Batch norm and sequence norm have changed "
        "places. The name says who takes part in one mean: the batch, or a sequence. → If a whole "
        "batch takes part, which axis is the only one left?",
    ),
    wrong(
        _along({"sequence": 1}),
        "sequence norm for each feature | this exercise uses one mean for all numbers of a "
        "sequence; yours has one for each feature of it, which is instance norm. → How many means "
        "does the docstring name for each sequence?",
        variant=True,
    ),
    wrong(
        _along({"layer": (1, 2)}),
        "layer norm over the last two axes | Your layer norm has one mean for each sequence, not "
        "for each token, and so it is the same as sequence norm. → How many tokens share the "
        "statistics of layer norm?",
    ),
    wrong(
        _along({"batch": 2, "sequence": 2}),
        "always layer norm | Whatever is asked for, you normalise each token by itself. → Where "
        "does your function look at `kind`?",
    ),
    wrong(
        _along({}, _flat_standard),
        "the means have lost their axes | The means came out without the axes that they were taken "
        "along, and broadcasting sets them against the wrong ones, or can't. Batch norm alone "
        "survives that, as its means belong to the last axis. → Which argument of `mean` keeps "
        "averaged axes, with length 1?",
    ),
    wrong(
        _along({}, lambda x, axis, eps: _standard(x, axis)),
        "ε ignored | With the usual ε you're right; with ε = 0.1 it shows that you use a constant. "
        "→ Where does your function use its argument `eps`?",
    ),
    wrong(
        _along({}, lambda x, axis, eps: x - x.mean(axis=axis, keepdims=True)),
        "only centred | The axes are right and the means are 0, but the numbers are as far apart "
        "as they were. → What are the centred numbers divided by?",
    ),
    wrong(
        _along({}, _standard_in_place),
        "x is overwritten | The numbers are right, but the caller's array holds them too: what was "
        "in it is gone. → Which line writes into `x` itself?",
    ),
]


def _axis_loops(x: NDArray, kind: str, eps: float = 1e-5) -> Any:
    b, n, d = x.shape
    output = np.zeros(x.shape)
    groups: dict[str, list[Any]] = {
        "batch": [np.s_[:, :, f] for f in range(d)],
        "layer": [np.s_[i, t, :] for i in range(b) for t in range(n)],
        "sequence": [np.s_[i] for i in range(b)],
    }
    for group in groups[kind]:
        part = x[group]
        output[group] = (part - part.mean()) / sqrt(float(part.var()) + eps)
    return output


def _axis_reshaped(x: NDArray, kind: str, eps: float = 1e-5) -> Any:
    """Lay what shares a mean along the last axis of a table."""
    b, n, d = x.shape
    if kind == "batch":
        return _standard(x.reshape(b * n, d).T, eps=eps).T.reshape(x.shape)
    rows = x.reshape(b, n * d) if kind == "sequence" else x
    return _standard(rows, eps=eps).reshape(x.shape)


def _axis_torch(x: Any, kind: str, eps: float = 1e-5) -> Any:
    from torch.nn import functional

    if kind == "batch":
        return functional.batch_norm(x.mT, None, None, training=True, eps=eps).mT
    return functional.layer_norm(x, x.shape[-1:] if kind == "layer" else x.shape[1:], eps=eps)


_WHICH_AXIS = Exercise(
    id="07.which_axis",
    function="normalize",
    reference=normalize,
    guarded=[ref.layer_norm, ref.batch_norm, ref.sequence_norm],
    cases=_AXIS_CASES,
    returns=("output",),
    misconceptions=_AXIS_WRONG,
    alternatives=[
        ("loops over what shares a mean", _axis_loops),
        ("reshaped to rows", _axis_reshaped),
        Alternative(name="torch", right=_axis_torch, backend="torch"),
    ],
    hints=[
        "Write the shape of the means beside each kind: how many are there, and which of b, n and "
        "d do they still depend on?",
        "`mean` and `var` take several axes at once, as a tuple, and average them away. The axes "
        "that don't stand in the tuple are those that have means of their own.",
        "Batch norm leaves d means, so it averages over axes 0 and 1. Layer norm leaves (b, n), "
        "sequence norm b. `keepdims=True` lets the means broadcast.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 07.residual_stack -----------------------------------------------------------------------------


def residual_stack(
    x: NDArray,
    sublayers: Sequence[Callable[[NDArray], NDArray]],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> NDArray:
    """Run tokens through sublayers, each with a residual connection and a layer norm.

    Parameters
    ----------
    x : float array, (..., n, d)
    sublayers : sequence of callables
        Each from (..., n, d) to (..., n, d).
    gammas, betas : float arrays, (N + 1, d) where the norm comes first, else (N, d)
        Of the sublayers' norms, in order; where the norm comes first, the last row is that of a
        norm at the very end.
    norm_first : bool
        x + f(LN(x)) and a last norm, in the place of LN(x + f(x)).
    eps : float

    Returns
    -------
    float array, (..., n, d)
    """
    return _stack()(x, sublayers, gammas, betas, norm_first, eps)


def _pre(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return x + f(norm(x))


def _post(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return norm(x + f(x))


def _stack(
    pre: Callable[..., NDArray] = _pre,
    post: Callable[..., NDArray] = _post,
    *,
    which: Callable[[int], int] = lambda i: i,
    last: Callable[..., NDArray] = lambda y, norms, norm_first: norms[-1](y) if norm_first else y,
    choose: Callable[[bool], bool] = lambda norm_first: norm_first,
    own_eps: float | None = None,
) -> Callable[..., Any]:
    """Return the stack with some steps replaced."""

    def stack(
        x: NDArray,
        sublayers: Sequence[Any],
        gammas: NDArray,
        betas: NDArray,
        norm_first: bool = True,
        eps: float = 1e-5,
    ) -> Any:
        eps = eps if own_eps is None else own_eps

        def norm(i: int) -> Callable[[NDArray], NDArray]:
            return lambda y: gammas[i] * _standard(y, eps=eps) + betas[i]

        y = x
        for i, f in enumerate(sublayers):
            y = (pre if choose(norm_first) else post)(y, f, norm(which(i)), x)
        return last(y, [norm(i) for i in range(len(gammas))], norm_first)

    return stack


_MIX = Layer(
    "half the mean of the tokens so far",
    lambda x: np.cumsum(x, axis=-2) / (2.0 * np.arange(1, x.shape[-2] + 1)[:, None]),
)
_BEND = Layer("three times ReLU", lambda x: 3.0 * np.maximum(x, 0.0))
_TURN = Layer("each token's numbers in reverse, plus 1", lambda x: x[..., ::-1] + 1.0)
_NOTHING = Layer("zeros", np.zeros_like)


def _stacked(
    sublayers: list[Layer], *shape: int, norm_first: bool, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 5, *shape])
        rows = len(sublayers) + norm_first
        return {
            "x": draw(rng, *shape, spread=3.0) + 1.2,
            "sublayers": sublayers,
            "gammas": draw(rng, rows, shape[-1], spread=0.3) + 1.5,
            "betas": draw(rng, rows, shape[-1]) + 0.15,
            "norm_first": norm_first,
            **more,
        }

    return build


_STACK_CASES = [
    case(
        "norm last, a sublayer that adds nothing | the tokens, normalised",
        _stacked([_NOTHING], 2, 4, norm_first=False),
    ),
    case(
        "norm last, one sublayer | the sum is normalised", _stacked([_TURN], 2, 3, norm_first=False)
    ),
    case(
        "norm last, 3 sublayers | each has its own γ and β",
        _stacked([_MIX, _BEND, _TURN], 4, 3, norm_first=False),
    ),
    case(
        "norm first, one sublayer | the sublayer sees normalised tokens, the sum has them as they "
        "are",
        _stacked([_TURN], 3, 5, norm_first=True),
    ),
    case(
        "norm first, a sublayer that adds nothing | what is left is the norm at the end",
        _stacked([_NOTHING], 3, 4, norm_first=True),
    ),
    case(
        "norm first, a batch of 2, 3 sublayers | each has its own γ and β, and so has the end",
        _stacked([_MIX, _BEND, _TURN], 2, 4, 3, norm_first=True),
    ),
    case(
        "norm first, 2 sublayers, ε = 0.5 | ε in every norm",
        _stacked([_BEND, _MIX], 4, 2, norm_first=True, eps=0.5),
    ),
]


def _stack_in_place(
    x: NDArray,
    sublayers: Sequence[Any],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    def norm(y: NDArray, i: int) -> NDArray:
        return gammas[i] * _standard(y, eps=eps) + betas[i]

    for i, f in enumerate(sublayers):
        if norm_first:
            x += f(norm(x, i))
        else:
            x += f(x)
            x = norm(x, i)
    return norm(x, -1) if norm_first else x


def _no_end(y: NDArray, norms: list[Any], norm_first: bool) -> NDArray:
    return y


def _norm_goes_round(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return norm(x) + f(norm(x))


def _nothing_goes_round(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return f(norm(x))


_STACK_WRONG = [
    wrong(
        _stack(pre=_post, last=lambda y, norms, norm_first: y),
        "the norm always last | this exercise uses `norm_first` to choose; you normalise the sum "
        "in either case, as the first Transformer does. → What does a sublayer see if the norm "
        "comes first, and what is added to its output?",
        variant=True,
    ),
    wrong(
        _stack(post=_pre),
        "the norm always first | this exercise uses `norm_first` to choose; you normalise the "
        "sublayer's input in either case, as GPT-2 and all later decoders do. → What is normalised "
        "if the norm comes last: the sublayer's input, its output, or the sum?",
        variant=True,
    ),
    wrong(
        _stack(choose=lambda norm_first: not norm_first),
        "first and last changed places | You have both kinds of blocks, and each stands where the "
        "other belongs. → Which of the two is x + f(LN(x))?",
    ),
    wrong(
        _stack(last=_no_end),
        "no norm at the end | With the norm last you're right. With the norm first nothing has "
        "normalised the last sum, and one row of γ and β is left over. → Where does the row N + 1 "
        "belong?",
    ),
    wrong(
        _stack(last=lambda y, norms, norm_first: norms[-1](y)),
        "a norm at the end in either case | With the norm first you're right. With the norm last, "
        "the last sum has been normalised already, and you do it again. → How many rows of γ are "
        "there in each case?",
    ),
    wrong(
        _stack(which=lambda i: 0),
        "one γ and β for all | With one sublayer you're right. With several, all of their norms "
        "use the first row. → Which row belongs to sublayer i?",
    ),
    wrong(
        _stack(pre=lambda x, f, norm, first: f(norm(x)), post=lambda x, f, norm, first: norm(f(x))),
        "no residual connection | A sublayer that adds nothing leaves nothing at all: only its "
        "output goes on, and the tokens themselves are lost. → What is f's output added to?",
    ),
    wrong(
        _stack(pre=_norm_goes_round),
        "the normalised tokens are added, norm first | With the norm first, you add the sublayer's "
        "output to the *normalised* tokens (does a variable `x` get overwritten by its norm?). "
        "Then no path from the end to the beginning is free of norms. → Which x does the formula x "
        "+ f(LN(x)) begin with?",
    ),
    wrong(
        _stack(pre=_norm_goes_round, last=_no_end),
        "the normalised tokens are added, norm first, and no norm at the end | Two things, with "
        "the norm first: you add the sublayer's output to the *normalised* tokens (does a variable "
        "`x` get overwritten by its norm?), and nothing normalises the last sum. → Which x does "
        "the formula x + f(LN(x)) begin with?",
    ),
    wrong(
        _stack(pre=_nothing_goes_round, last=_no_end),
        "no residual connection, norm first, and no norm at the end | Two things, with the norm "
        "first: only the sublayer's output goes on, and nothing normalises it at the end. → What "
        "is f's output added to?",
    ),
    wrong(
        _stack(pre=lambda x, f, norm, first: x + norm(f(x))),
        "the sublayer's output normalised | this exercise uses x + f(LN(x)) where the norm comes "
        "first; you have x + LN(f(x)), which normalises what comes out of the sublayer (Swin v2 "
        "and OLMo 2 do so). → What does the sublayer see here?",
        variant=True,
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: first + f(norm(x)),
            post=lambda x, f, norm, first: norm(first + f(x)),
        ),
        "the input added each time | With one sublayer you're right. From the second on you add "
        "the stack's very first tokens, where those belong that went into this sublayer. → Which x "
        "goes round sublayer i?",
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: x + f(norm(first)),
            post=lambda x, f, norm, first: norm(x + f(first)),
        ),
        "all sublayers see the input | this exercise uses sublayers one after another; yours all "
        "see the first tokens, side by side, as attention and feed-forward do in GPT-J's parallel "
        "blocks. → What goes into the second sublayer?",
        variant=True,
    ),
    wrong(
        _stack(own_eps=1e-5),
        "ε ignored | With the usual ε you're right; with ε = 0.5 it shows that it doesn't reach "
        "your norms. → Where do you hand `eps` on?",
    ),
    wrong(
        _stack_in_place,
        "x is overwritten | All numbers are right, but the caller's tokens have been added to. `x "
        "+= …` writes into the array that was passed in. → How is the sum written so that it's a "
        "new array?",
    ),
]


def _norm_row(x: NDArray, gamma: NDArray, beta: NDArray, eps: float) -> NDArray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + beta


def _stack_streams(
    x: NDArray,
    sublayers: Sequence[Any],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    """Keep the stream and its norm beside each other."""
    stream = x
    for f, gamma, beta in zip(sublayers, gammas, betas, strict=False):
        seen = _norm_row(stream, gamma, beta, eps) if norm_first else stream
        stream = stream + f(seen)
        if not norm_first:
            stream = _norm_row(stream, gamma, beta, eps)
    return _norm_row(stream, gammas[-1], betas[-1], eps) if norm_first else stream


def _stack_recursive(
    x: NDArray,
    sublayers: Sequence[Any],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    if not sublayers:
        return _norm_row(x, gammas[0], betas[0], eps) if norm_first else x
    if norm_first:
        x = x + sublayers[0](_norm_row(x, gammas[0], betas[0], eps))
    else:
        x = _norm_row(x + sublayers[0](x), gammas[0], betas[0], eps)
    return _stack_recursive(x, sublayers[1:], gammas[1:], betas[1:], norm_first, eps)


def _stack_torch(
    x: Any,
    sublayers: Sequence[Any],
    gammas: Any,
    betas: Any,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    from torch.nn.functional import layer_norm

    for i, f in enumerate(sublayers):
        if norm_first:
            x = x + f(layer_norm(x, x.shape[-1:], gammas[i], betas[i], eps))
        else:
            x = layer_norm(x + f(x), x.shape[-1:], gammas[i], betas[i], eps)
    return layer_norm(x, x.shape[-1:], gammas[-1], betas[-1], eps) if norm_first else x


_RESIDUAL_STACK = Exercise(
    id="07.residual_stack",
    function="residual_stack",
    reference=residual_stack,
    guarded=[ref_residual.post_norm, ref_residual.pre_norm],
    cases=_STACK_CASES,
    returns=("output",),
    misconceptions=_STACK_WRONG,
    alternatives=[
        ("a stream", _stack_streams),
        ("recursion", _stack_recursive),
        Alternative(name="torch", right=_stack_torch, backend="torch"),
    ],
    hints=[
        "Write the loop for one kind first: x becomes LN(x + f(x)), with row i of γ and β for "
        "sublayer i. A sublayer is called like any function.",
        "With the norm first, the *input* of f is normalised and x itself is added: x + f(LN(x)). "
        "Keep x apart from its norm.",
        "With the norm first there is one norm more than there are sublayers: after the loop, with "
        "the last row. `x = x + …` makes a new array, `x += …` doesn't.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 07.leak ---------------------------------------------------------------------------------------


def leak(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> NDArray:
    """Measure how much each token's output depends on a single later token.

    Parameters
    ----------
    function : callable
        From an array (n, d) to an array whose first axis has length n.
    x : float array, (n, d)
    other : float array, (n, d)
        What tokens are replaced by, one at a time.

    Returns
    -------
    float array, (n,)
        Entry t is the largest change of a number in output row t when one token s > t is replaced
        by ``other[s]``; 0 for the last token.
    """
    return _leaks()(function, x, other)


def _leaks(
    *,
    later: Callable[[int, int], bool] = lambda s, t: s > t,
    size: Callable[[NDArray], Any] = lambda change: np.abs(change).max(),
    swap: Callable[[NDArray, NDArray, int], NDArray] | None = None,
    gather: Callable[[NDArray], Any] = lambda table: table.max(axis=1, initial=0.0),
) -> Callable[..., Any]:
    """Return the measurement with some steps replaced.

    `later` says which tokens s are changed for the sake of token t, `swap` how, and `gather` makes
    an entry of each row of the table [t, s] of sizes.
    """

    def one(x: NDArray, other: NDArray, s: int) -> NDArray:
        changed = x.copy()
        changed[s] = other[s]
        return changed

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        before, n = function(x), len(x)
        table = np.zeros((n, n))
        for s in range(n):
            after = function((swap or one)(x, other, s))
            for t in range(n):
                if later(s, t):
                    table[t, s] = size(after[t] - before[t])
        return gather(table)

    return measure


def _so_far_rule(x: NDArray) -> NDArray:
    return np.tanh(np.cumsum(x, axis=0))


def _next_rule(x: NDArray) -> NDArray:
    return x + 0.5 * np.concatenate([x[1:], x[:1] * 0.0])


def _last_rule(x: NDArray) -> NDArray:
    return np.concatenate([x, np.tanh(x[:, :1] * x[-1, :1])], axis=1)


def _all_rule(x: NDArray) -> NDArray:
    return x - x.mean(axis=0)


def _sequence_rule(x: NDArray) -> NDArray:
    return _standard(x, None)


_TOKENWISE = Layer("layer norm of each token", _standard)
_SO_FAR = Layer("tanh of the sum of the tokens so far", _so_far_rule)
_NEXT = Layer("each token plus half the next one", _next_rule)
_LAST = Layer("each token with what it makes of the last one beside it", _last_rule)
_CENTRED = Layer("each token less the mean of all", _all_rule)
_SEQUENCE = Layer("one norm over the whole sequence", _sequence_rule)


def _probed(layer: Layer, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 6, n, d])
        return {
            "function": layer,
            "x": draw(rng, n, d),
            "other": draw(rng, n, d) + np.where(rng.random((n, d)) < 0.5, -1.5, 1.5),
        }

    return build


def _opposite(seed: int) -> dict[str, Any]:
    """Draw tokens; the replacements of the last two, together, change no mean."""
    x = draw(np.random.default_rng([seed, 7]), 4, 2)
    change = np.array([[0.5, 1.0], [0.0, 0.0], [-2.0, 3.0], [2.0, -3.0]])
    return {"function": _CENTRED, "x": x, "other": x + change}


_LEAK_CASES = [
    case(
        "layer norm, 4 tokens of width 3 | no token sees another: 0 everywhere",
        _probed(_TOKENWISE, 4, 3),
    ),
    case(
        "tanh of the sum so far, 5 tokens | earlier tokens may have a say", _probed(_SO_FAR, 5, 2)
    ),
    case("each token plus half the next, 4 tokens | a leak of one place", _probed(_NEXT, 4, 2)),
    case(
        "each token with the last one, 5 tokens | a leak from the end, in a column of its own",
        _probed(_LAST, 5, 3),
    ),
    case("each token less the mean, changes that cancel | one token at a time", _opposite),
    case(
        "one norm over the sequence, 4 tokens of width 3 | all but the last know the future",
        _probed(_SEQUENCE, 4, 3),
    ),
    case(
        "one norm over the sequence, a single token | there's nothing after it",
        _probed(_SEQUENCE, 1, 3),
    ),
]


def _leak_from(changed: Callable[[NDArray, NDArray, int], NDArray]) -> Callable[..., Any]:
    """Change several tokens at once for the sake of token t, and compare its output."""

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        before = function(x)
        after = [function(changed(x.copy(), other, t)) for t in range(len(x))]
        return np.array([np.abs(after[t][t] - before[t]).max() for t in range(len(x))])

    return measure


def _all_after(x: NDArray, other: NDArray, t: int) -> NDArray:
    x[t + 1 :] = other[t + 1 :]
    return x


def _just_the_last(x: NDArray, other: NDArray, t: int) -> NDArray:
    if t < len(x) - 1:
        x[-1] = other[-1]
    return x


def _piled_up(copy: bool, by_token: bool) -> Callable[..., Any]:
    """Replace one token after another and never put one back; t or s is the outer loop."""

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        now = x.copy() if copy else x
        before = function(now)
        found = np.zeros(len(x))
        pairs = [(t, s) for t in range(len(x)) for s in range(t + 1, len(x))]
        for t, s in pairs if by_token else sorted(pairs, key=lambda pair: pair[1]):
            now[s] = other[s]
            found[t] = max(found[t], np.abs(function(now)[t] - before[t]).max())
        return found

    return measure


def _leak_overwriting(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
    found = _leaks()(function, x, other)
    x[1:] = other[1:]
    return found


def _zeroed(x: NDArray, other: NDArray, s: int) -> NDArray:
    changed = x.copy()
    changed[s] = 0.0
    return changed


_LEAK_WRONG = [
    wrong(
        _leak_from(_all_after),
        "all later tokens at once | You replace all later tokens together. Their effects may "
        "cancel, and then a leak isn't seen at all. → How many tokens may differ from `x` in one "
        "call of the function?",
    ),
    wrong(
        _leaks(later=lambda s, t: s == t + 1),
        "only the next token | You try the next token only; a leak may come from further away, "
        "such as the end. → Which tokens are later than token t?",
    ),
    wrong(
        _leak_from(_just_the_last),
        "only the last token | You replace the last token only; what leaks from one place to the "
        "one before it isn't seen. → Which tokens are later than token t?",
    ),
    wrong(
        _leaks(later=lambda s, t: s >= t),
        "the token itself too | You replace token t itself as well, and of course its output "
        "changes then. → With which s does your inner loop begin?",
    ),
    wrong(
        _leaks(later=lambda s, t: s != t),
        "any other token | You replace earlier tokens too, but those may have a say: that's what a "
        "causal function is. → Which side of t is the future?",
    ),
    wrong(
        _leaks(later=lambda s, t: s < t),
        "earlier tokens | You replace the tokens *before* t, which may have a say. Is the first "
        "index the one that is changed or the one that is looked at? → Which side of t is the "
        "future?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(axis=0, initial=0.0)),
        "listed by the token that was changed | Your entry s says how far a change of token s "
        "reaches back; asked for is, for each token t, what reaches *it*. Your first entry is "
        "always 0, where the last one should be. → Over which of the two tokens is the maximum "
        "taken?",
    ),
    wrong(
        _leaks(size=np.max),
        "with its sign | You take the largest difference, sign and all: an output that only falls "
        "is counted as 0 or less. → How large is a change of −3?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(initial=0.0)),
        "one number for all | You return the worst leak of all as one number. → For how many "
        "tokens is one asked?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(axis=1, initial=0.0) > 1e-9),
        "yes or no | You say whether a token leaks; asked for is by how much, so that a small leak "
        "can be told from a large one. → What do you compare with a threshold?",
    ),
    wrong(
        _leaks(swap=_zeroed),
        "replaced by zeros | You replace a token by zeros, which some functions treat in a special "
        "way. → What does the docstring replace it by?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(axis=1, initial=0.0)[:-1]),
        "the last token left out | Your result is one entry short: the last token has nothing "
        "after it, but it has an entry all the same. → What is it?",
    ),
    *(
        wrong(
            _piled_up(copy, by_token),
            f"tokens never put back, {where}, {loop} | Replacements pile up{how}: when the next "
            "token is tried, the ones tried before it are still replaced. → From which array "
            "should each trial start?",
        )
        for copy, where, how in (
            (True, "in one copy", ""),
            (False, "in x", ", and in the caller's array, since `changed = x` is no copy"),
        )
        for by_token, loop in ((True, "t by t"), (False, "s by s"))
    ),
    wrong(
        _leak_overwriting,
        "x is overwritten | After the call the caller's tokens are the replaced ones: `changed = "
        "x` only gives the same array a second name. → Which line makes a copy to write into?",
    ),
]


def _leak_lists(function: Any, x: NDArray, other: NDArray) -> Any:
    before = function(x)
    worst = [0.0] * len(x)
    for s in range(1, len(x)):
        after = function(np.concatenate([x[:s], other[s : s + 1], x[s + 1 :]]))
        for t in range(s):
            worst[t] = max(worst[t], max(abs(float(c)) for c in after[t] - before[t]))
    return worst


def _leak_at_once(function: Any, x: NDArray, other: NDArray) -> Any:
    """All trials as one table [s, t], of which the part above the diagonal is dropped."""
    n = len(x)
    trials = np.where(np.eye(n, dtype=bool)[:, :, None], other, x)  # (s, token, d)
    after = np.stack([function(trial) for trial in trials])
    size = np.abs(after - function(x)).reshape(n, n, -1).max(axis=-1)
    return np.tril(size, k=-1).max(axis=0)


def _leak_torch(function: Any, x: Any, other: Any) -> Any:
    import torch

    before, found = function(x), torch.zeros(len(x), dtype=x.dtype)
    for s in range(1, len(x)):
        changed = x.clone()
        changed[s] = other[s]
        size = (function(changed) - before)[:s].abs().amax(dim=-1)
        found[:s] = torch.maximum(found[:s], size)
    return found


_LEAK = Exercise(
    id="07.leak",
    function="leak",
    reference=leak,
    cases=_LEAK_CASES,
    returns=("leaks",),
    misconceptions=_LEAK_WRONG,
    alternatives=[
        ("lists", _leak_lists),
        ("all trials in a table", _leak_at_once),
        Alternative(name="torch", right=_leak_torch, backend="torch"),
    ],
    hints=[
        "Call the function once on x. Then, for one later token s, call it on a copy of x in which "
        "only row s is replaced, and compare row t of both outputs.",
        "For token t, do so for every s from t + 1 on and keep the largest of all |differences|. "
        "Each trial starts from x as it was.",
        "`changed = x.copy(); changed[s] = other[s]` is one trial, and `np.abs(a - b).max()` is "
        "the size of a change. With no later token the largest is 0.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [
    _FEED_FORWARD,
    _LAYER_NORM,
    _LAYER_NORM_BACKWARD,
    _RMS_NORM,
    _WHICH_AXIS,
    _RESIDUAL_STACK,
    _LEAK,
]
