"""The exercises of chapter 07 about norms: layer norm and its gradient, RMSNorm, which axis.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import normalization as ref
from course_lib.reference import residual as ref_residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LAYER_NORM",
    "LAYER_NORM_BACKWARD",
    "RMS_NORM",
    "WHICH_AXIS",
    "normalize",
    "standard",
]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


def standard(x: NDArray, axis: Any = -1, eps: float = 1e-5, ddof: int = 0) -> NDArray:
    """Centre and divide by the standard deviation; NaN where that can't be computed."""
    with np.errstate(all="ignore"):
        centred = x - x.mean(axis=axis, keepdims=True)
        return centred / np.sqrt(x.var(axis=axis, ddof=ddof, keepdims=True) + eps)


# -- 07.layer_norm ---------------------------------------------------------------------------------


def _normed(
    *shape: int, shift: float = 0.0, spread: float = 2.0, **more: Any
) -> Callable[[int], dict[str, Any]]:
    """Draw tokens whose means are not 0, and γ and β. In a wide spread ε doesn't show."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, *shape])
        return {
            "x": draw(rng, *shape, spread=spread) + shift,
            "gamma": draw(rng, shape[-1]) + 2.5,
            "beta": draw(rng, shape[-1]) + 0.35,
            **more,
        }

    return build


def _even_token(seed: int) -> dict[str, Any]:
    inputs = _normed(3, 2, spread=400.0)(seed)
    inputs["x"][1] = 400.0
    return inputs


_LAYER_CASES = [
    case(
        "two tokens, with γ = 1 and β = 0 | each has mean 0, mean square 1",
        {
            "x": np.array([[100.0, 200.0, 300.0, 400.0], [500.0, 100.0, 100.0, 500.0]]),
            "gamma": np.ones(4),
            "beta": np.zeros(4),
        },
    ),
    case(
        "5 tokens of width 3 | each token alone, then γ and β",
        _normed(5, 3, shift=70.0, spread=400.0),
    ),
    case("ε = 0.1 | where ε stands makes a difference", _normed(3, 5, eps=0.1)),
    case("a token of equal numbers | it comes out as β", _even_token),
    case("4 tokens of width 4 | the last axis, though both are equally long", _normed(4, 4)),
    case(
        "2 sequences of 3 tokens, width 4 | whatever axes stand in front",
        _normed(2, 3, 4, shift=-40.0, spread=400.0),
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
    standardise: Callable[[NDArray, float], NDArray] = lambda x, eps: standard(x, eps=eps),
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
        "ε outside the root | With large tokens and a tiny ε it can't be seen, with tokens "
        "near 1 in the fifth or sixth digit, and with ε = 0.1 by far: you add it to the standard "
        "deviation. → Is ε added to the variance or to "
        "its root?",
    ),
    wrong(
        _divided(lambda x, eps: np.sqrt(_var(x, 1)) + eps),
        "divided by d − 1, ε outside the root | Two things: your variance divides by d − 1, as "
        "`torch.std` does, and ε is added to the root in the place of the variance. → Which "
        "formula for σ does the text give?",
    ),
    wrong(
        _divided(lambda x, eps: np.maximum(np.sqrt(_var(x)), eps)),
        "ε as a lower bound | You divide by the larger one of σ and ε. So ε has no say in any "
        "ordinary token. → To what is ε added in the formula?",
    ),
    wrong(
        _layer(lambda x, eps: ((x.T - x.mean(-1)) / np.sqrt(x.var(-1) + eps)).T),
        "turned round with .T | For one sequence you're right. In a batch `.T` turns the order of "
        "*all* axes round. → Which argument of `mean` keeps the axis, so that nothing has to be "
        "turned?",
    ),
    wrong(
        _layer(lambda x, eps: standard(x, 0, eps)),
        "along axis 0 | You take mean and variance along axis 0: over the tokens, or over the "
        "batch where there is one. One token alone becomes β. → Which axis holds the numbers of "
        "one token, counted from the end?",
    ),
    wrong(
        _layer(lambda x, eps: standard(x, None, eps)),
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
        _layer(lambda x, eps: standard(x)),
        "ε ignored | You have your own ε, a constant: where the caller asks for ε = 0.1 nothing "
        "changes. → Where does your function use its argument `eps`?",
    ),
    wrong(
        _layer(lambda x, eps: standard(x, eps=0.0)),
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
        _layer(lambda x, eps: standard(x, eps=0.0) + eps),
        "ε added at the end | ε is added to the quotient: division comes before addition, so the "
        "brackets around σ and ε are missing, and a token of equal numbers still gives 0/0. → "
        "Which sum belongs under the root?",
    ),
    wrong(
        _layer(finish=lambda h, gamma, beta: gamma * (h + beta)),
        "γ after β | A token of equal numbers comes out as γβ: you add the shift and scale it "
        "then. → In which order do γ and β act?",
    ),
    wrong(
        _divided(lambda x, eps: _var(x) + eps),
        "divided by the variance | You divide by the variance: a token twice as large comes out "
        "half as large. → What must numbers be divided by so that their variance is 1?",
    ),
    wrong(
        _layer(lambda x, eps: standard(x, 1, eps)),
        "along axis 1 | For one sequence that's right. In a batch axis 1 is that of the tokens. → "
        "Which number names the last axis, however many there are in front?",
    ),
    wrong(
        _layer(finish=lambda h, gamma, beta: h + beta),
        "γ left out | The learned shift is there, the learned scale isn't: all columns are "
        "equally wide. → Which argument does your function never use?",
    ),
    wrong(
        _layer(lambda x, eps: standard(x, (-2, -1), eps)),
        "over the last two axes | Each sequence has one mean and one variance, so that a token "
        "depends on those around it, later ones too. → How many means does a sequence of n tokens "
        "need?",
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


LAYER_NORM = Exercise(
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
        "one token, γ = 1, ε = 3 | a gradient on the first number alone",
        {
            "x": np.array([[1.0, 3.0]]),
            "gamma": np.ones(2),
            "d_output": np.array([[1.0, 0.0]]),
            "eps": 3.0,
        },
    ),
    case(
        "gradients that are nearly alike, γ = 1 | what they share can't come from x",
        {
            "x": np.array([[1.0, -2.0, 4.0], [0.0, 5.0, 1.0]]),
            "gamma": np.ones(3),
            "d_output": np.array([[2.3, 2.0, 2.0], [3.0, 3.0, 3.6]]),
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
    weighed: str = "",
    order: tuple[int, int, int] = (0, 1, 2),
) -> Callable[..., tuple[Any, Any, Any]]:
    """Return the backward pass with some steps replaced."""

    def backward(x: NDArray, gamma: NDArray, d_output: NDArray, eps: float = 1e-5) -> Any:
        eps = eps if own_eps is None else own_eps
        h = standard(x, eps=eps)
        sigma = np.sqrt(_var(x) + eps)
        g = weigh(d_output, gamma)
        if d_x is not None:
            dx = d_x(g, h, sigma, gamma)
        else:
            dx = g - mean * g.mean(-1, keepdims=True) - slope * h * (g * h).mean(-1, keepdims=True)
            dx = dx / sigma if scaled else dx
        parts = (
            dx,
            d_gamma(g if "gamma" in weighed else d_output, h, x),
            d_beta(g if "beta" in weighed else d_output),
        )
        return tuple(parts[i] for i in order)

    return backward


def _summed(d: NDArray) -> NDArray:
    return d.sum(axis=tuple(range(d.ndim - 1)))


def _averaged(d: NDArray) -> NDArray:
    return d.mean(axis=tuple(range(d.ndim - 1)))


def _back_last(g: NDArray, h: NDArray, sigma: NDArray, gamma: NDArray) -> NDArray:
    """Go back through x̂ first and multiply by γ then."""
    d = g / gamma
    d = d - d.mean(-1, keepdims=True) - h * (d * h).mean(-1, keepdims=True)
    return gamma * d / sigma


def _row_mean(g: NDArray) -> Any:
    return g.mean(-1, keepdims=True)


def _centred(g: NDArray) -> Any:
    return g - _row_mean(g)


def _back_less(g: NDArray, h: NDArray, sigma: NDArray, gamma: NDArray) -> NDArray:
    """Divide both sums by d − 1."""
    n = g.shape[-1] - 1
    return (g - g.sum(-1, keepdims=True) / n - h * (g * h).sum(-1, keepdims=True) / n) / sigma


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
        _back(d_x=_back_last),
        "γ at the end of dx | With γ = 1 your dx is right. Otherwise γ comes too late: it stands "
        "in front of the whole, but on its way back the gradient passes it before the means are "
        "taken. → Which step of the forward pass is the last, and so the first to go back "
        "through?",
    ),
    wrong(
        _back(weighed="gamma beta"),
        "γ in dgamma and dbeta | With γ = 1 you're right. Your dgamma and dbeta add up γ·d_output, "
        "the gradient that goes on to x̂. → What is the derivative of γ·x̂ + β with respect to β?",
    ),
    wrong(
        _back(weighed="gamma"),
        "γ in dgamma | With γ = 1 you're right. Your dgamma adds up γ·d_output·x̂, from the "
        "gradient that goes on to x̂. → What is the derivative of γ·x̂ with respect to γ?",
    ),
    wrong(
        _back(weighed="beta"),
        "γ in dbeta | With γ = 1 you're right. Your dbeta adds up γ·d_output, the gradient that "
        "goes on to x̂. → What is the derivative of γ·x̂ + β with respect to β?",
    ),
    wrong(
        _back(own_eps=0.0),
        "σ in the place of s | Your x̂ and your dx divide by the deviation without ε, which shows "
        "where ε is large. → What does the text call s, and what σ?",
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
        _back(d_x=lambda g, h, s, gamma: (_centred(g) - h * _row_mean(g * h)) * s),
        "multiplied by s | Your dx is multiplied by s where it should be divided. With s near 1 "
        "that hardly shows. → What does a division by s do to the gradient on its way back?",
    ),
    wrong(
        _back(d_x=lambda g, h, s, gamma: (_centred(g) - h * _row_mean(g * h)) / s**2),
        "divided by the variance, dx | Your dx is divided by s² where s belongs. → By what does "
        "the forward pass divide x − μ?",
    ),
    wrong(
        _back(slope=2.0),
        "the way through s twice | The correction for s is twice too large in your dx: the 2 from "
        "the square meets the ½ from the root. → What is the derivative of √(σ² + ε) with respect "
        "to σ²?",
    ),
    wrong(
        _back(d_x=lambda g, h, s, gamma: (_centred(g) - h * g * h) / s),
        "a product without its mean | In the correction for s each number meets only its own "
        "gradient. But all numbers of the token go through the same s. → Over what is the mean of "
        "g·x̂ taken?",
    ),
    wrong(
        _back(mean=-1.0),
        "the sign of the first way back | In your dx the mean of the gradients is added. A larger "
        "mean makes outputs *smaller*. → What is the derivative of x − μ with respect to μ?",
    ),
    wrong(
        _back(d_x=lambda g, h, s, gamma: g),
        "only γ on the way to x | Your dx is γ·d_output: the gradient of x̂, not yet of x. → "
        "Through what does x become x̂?",
    ),
    wrong(
        _back(d_x=_back_less),
        "divided by d − 1, dx | Both corrections in your dx are divided by d − 1, as an estimate "
        "from a sample would be. → By what did the forward pass divide the sum, for mean and "
        "variance?",
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
        _back(d_gamma=lambda d, h, x: _averaged(d * h), d_beta=_averaged),
        "dgamma and dbeta averaged | Your dgamma and dbeta are means over the tokens. Whether the "
        "loss is a mean is already in d_output. → What does the chain rule do with several paths "
        "to the same number?",
    ),
    wrong(
        _back(slope=-1.0),
        "the sign of the second way back | One of the two ways back has the wrong sign: a larger "
        "σ makes outputs *smaller*. → What is the derivative of 1/σ with respect to σ?",
    ),
    wrong(
        _back(d_gamma=lambda d, h, x: (d * h).sum(axis=-1), d_beta=lambda d: d.sum(axis=-1)),
        "dgamma and dbeta summed over the token's numbers | Your dgamma has a number for each "
        "token, but γ has one for each of the d numbers of a token. → Which axis has to remain?",
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


LAYER_NORM_BACKWARD = Exercise(
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


def _scaled(
    *shape: int, shift: float = 130.0, spread: float = 200.0, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        inputs = _normed(*shape, shift=shift, spread=spread)(seed)
        del inputs["beta"]
        return {**inputs, **more}

    return build


_RMS_CASES = [
    case(
        "one token 300, 400, with γ = 1 | mean square 1",
        {"x": np.array([[300.0, 400.0]]), "gamma": np.ones(2)},
    ),
    case("5 tokens of width 3 | each token alone, means stay", _scaled(5, 3)),
    case(
        "ε = 0.1 | where ε stands makes a difference",
        _scaled(3, 5, shift=1.3, spread=2.0, eps=0.1),
    ),
    case(
        "a token of zeros | it stays 0",
        {
            "x": np.array([[0.0, 0.0, 0.0], [200.0, -100.0, 200.0]]),
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
    before: Callable[[NDArray], NDArray] = lambda x: x,
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
        _rms(
            lambda x, eps: np.sqrt((x**2).sum(-1, keepdims=True) / (x.shape[-1] - 1) + eps),
        ),
        "divided by d − 1 | Your mean square divides by d − 1, as an estimate from a sample does. "
        "→ How many squares are there in a token of width d?",
    ),
    wrong(
        _rms(lambda x, eps: np.maximum(_size(x, 0.0), eps)),
        "ε as a lower bound | You divide by the larger one of the root and ε. So ε has no say in "
        "any ordinary token. → To what is ε added in the formula?",
    ),
    wrong(
        lambda x, gamma, eps=1e-6: (x.T / np.sqrt((x**2).mean(-1) + eps)).T * gamma,
        "turned round with .T | For one sequence you're right. In a batch `.T` turns the order of "
        "*all* axes round. → Which argument of `mean` keeps the axis, so that nothing has to be "
        "turned?",
    ),
    wrong(
        _rms(lambda x, eps: _size(x, 1e-6)),
        "ε ignored | With ε left out by the caller you're right; with ε = 0.1 it shows that you "
        "use a constant. → Where does your function use its argument `eps`?",
    ),
    wrong(
        _rms(lambda x, eps: _size(x, 1e-5 if eps == 1e-6 else eps)),
        "layer norm's ε | this exercise uses 10⁻⁶ for ε where the caller gives none; yours is "
        "layer norm's 10⁻⁵, which shows with tiny numbers. → Which default does the docstring's "
        "signature have?",
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
        _rms(lambda x, eps: (x**2).mean(-1, keepdims=True) + eps),
        "no root | You divide by the mean square itself: a token twice as large comes out half as "
        "large. → Which letter of RMS is missing?",
    ),
    wrong(
        _rms(lambda x, eps: _size(x, eps, 1)),
        "along axis 1 | For one sequence that's right. In a batch axis 1 is that of the tokens. → "
        "Which number names the last axis, however many there are in front?",
    ),
    wrong(
        _rms(lambda x, eps: _size(x, eps, None)),
        "over everything | There's one mean square for the whole array, so that a token's size "
        "depends on all others. → What does `mean()` cover when it isn't told an axis?",
    ),
    wrong(
        _rms(lambda x, eps: np.sqrt(_var(x) + eps)),
        "divided by the standard deviation | You divide by the standard deviation, for which the "
        "mean is taken away first, even if the token keeps it. → Squares of which numbers does "
        "the root *mean square* take?",
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


RMS_NORM = Exercise(
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
    return standard(x, _AXES[kind], eps)


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
    changes: Mapping[str, Any], standardise: Callable[..., NDArray] = standard
) -> Callable[..., Any]:
    """Return the norms with other axes, or another way to normalise along the right ones."""

    def norms(x: NDArray, kind: str, eps: float = 1e-5) -> Any:
        with np.errstate(all="ignore"):
            return standardise(x, {**_AXES, **changes}[kind], eps)

    return norms


def _flat_standard(x: NDArray, axis: Any, eps: float) -> NDArray:
    return (x - x.mean(axis=axis)) / np.sqrt(x.var(axis=axis) + eps)


def _standard_in_place(x: NDArray, axis: Any, eps: float) -> NDArray:
    x[...] = standard(x, axis, eps)
    return x


_AVERAGED: dict[Any, str] = {
    0: "over the sequences alone, for each place of each feature",
    2: "over the numbers of each token, as layer norm does",
    (0, 1): "over all tokens of all sequences, as batch norm does",
    (0, 2): "over the sequences and features at each place",
    (1, 2): "over all numbers of each sequence, as sequence norm does",
    None: "over the whole array",
}
_LEFT = {
    "batch": "Which axis alone keeps means of its own, if there are d of them",
    "layer": "Which two axes keep means of their own, if there are b·n of them",
    "sequence": "Which axis alone keeps means of its own, if there are b of them",
}

_AXIS_WRONG = [
    *(
        wrong(
            _along({kind: axes}),
            f"{kind} norm alone, axes {axes} | The other kinds may be right; your {kind} norm "
            f"averages {_AVERAGED[axes]}. → {_LEFT[kind]}?",
        )
        for kind, wrong_axes in (
            ("batch", (2, (0, 2), (1, 2))),
            ("layer", ((0, 1), (0, 2), None)),
            ("sequence", (0, 2, (0, 1), (0, 2))),
        )
        for axes in wrong_axes
    ),
    wrong(
        _along({"batch": None, "layer": None, "sequence": None}),
        "everything over everything | Whatever is asked for, there's a single mean for the whole "
        "array. → What do `mean()` and `var()` cover when they aren't told an axis?",
    ),
    wrong(
        _along({}, lambda x, axis, eps: standard(x, axis, 0.0)),
        "no ε at all | The axes are right, and ε is missing: off in the fifth or sixth digit, and "
        "with ε = 0.1 by far. → What stands under the root in the formula?",
    ),
    wrong(
        _along(
            {},
            lambda x, axis, eps: (
                (x - x.mean(axis=axis, keepdims=True)) / (x.var(axis=axis, keepdims=True) + eps)
            ),
        ),
        "divided by the variance | The axes are right, but you divide by the variance. → What must "
        "numbers be divided by so that their variance is 1?",
    ),
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
        _along({"batch": None}),
        "batch norm over everything | Your batch norm has a single mean for the whole array, so "
        "that features are mixed. → How many features are there, and how many means does each "
        "have?",
    ),
    wrong(
        _along({"sequence": None}),
        "sequence norm over everything | With one sequence you're right. With several, your "
        "sequence norm has a single mean for all of them. → Which axis has to keep means of its "
        "own?",
    ),
    wrong(
        _along({"batch": None, "sequence": None}),
        "batch and sequence norm over everything | Both your batch norm and your sequence norm "
        "have a single mean for the whole array. → Which axis keeps means of its own in each of "
        "them?",
    ),
    wrong(
        _along({"batch": 0, "sequence": (0, 1)}),
        "one axis too few, one kind too far | Your batch norm averages over the sequences alone, "
        "and your sequence norm over sequences and tokens, which is batch norm. → Which axis keeps "
        "means of its own in each of them?",
    ),
    wrong(
        _along({"layer": 1}),
        "layer norm along the tokens | Your layer norm averages over the tokens of a sequence, one "
        "feature at a time, so that a token depends on later ones. → Which axis holds the numbers "
        "of one token?",
    ),
    wrong(
        _along({"layer": 0}),
        "layer norm along the batch | Your layer norm compares tokens at the same place of "
        "different sequences. → Which axis holds the numbers of one token?",
    ),
    wrong(
        _along(
            {},
            lambda x, axis, eps: (
                (x - x.mean(axis=axis, keepdims=True)) / (x.std(axis=axis, keepdims=True) + eps)
            ),
        ),
        "ε outside the root | The axes are right, and ε is added to the deviation in the place of "
        "the variance: off in the fifth or sixth digit, and with ε = 0.1 by far. → What stands "
        "under the root in the formula?",
    ),
    wrong(
        _along({}, lambda x, axis, eps: standard(x, axis, eps, 1)),
        "divided by one less | The axes are right, but your variance divides by the count less "
        "one, as an estimate from a sample does (and `torch.var` by default). → What does the "
        "worked example divide the four squares by?",
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
        _along({}, lambda x, axis, eps: standard(x, axis)),
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
        return standard(x.reshape(b * n, d).T, eps=eps).T.reshape(x.shape)
    rows = x.reshape(b, n * d) if kind == "sequence" else x
    return standard(rows, eps=eps).reshape(x.shape)


def _axis_torch(x: Any, kind: str, eps: float = 1e-5) -> Any:
    from torch.nn import functional

    if kind == "batch":
        return functional.batch_norm(x.mT, None, None, training=True, eps=eps).mT
    return functional.layer_norm(x, x.shape[-1:] if kind == "layer" else x.shape[1:], eps=eps)


WHICH_AXIS = Exercise(
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
