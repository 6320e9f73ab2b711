"""One step of Adam, and clipping by a common norm.

Chapter 10's. Every misconception is the right computation with one thing wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import optimization as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ADAM", "CLIP", "adam_step", "clip_by_global_norm"]


# -- 10.adam ---------------------------------------------------------------------------------------


def adam_step(
    parameter: NDArray,
    gradient: NDArray,
    m: NDArray,
    v: NDArray,
    step: int,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    eps: float = 1e-8,
) -> tuple[NDArray, NDArray, NDArray]:
    """Take one step of Adam.

    Parameters
    ----------
    parameter, gradient : float arrays, (...)
    m, v : float arrays, (...)
        Running means of gradients and of their squares; zeros before the first step.
    step : int
        1 for the first step.
    lr, beta_1, beta_2, eps : float

    Returns
    -------
    parameter, m, v : float arrays, (...)
    """
    new: tuple[NDArray, NDArray, NDArray] = _adam()(
        parameter, gradient, m, v, step, lr, beta_1, beta_2, eps
    )
    return new


def _midway(*shape: int, step: int, **more: Any) -> Callable[[int], dict[str, Any]]:
    """Draw a parameter, and means as they may be before some step."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, *shape, step])
        return {
            "parameter": draw(rng, *shape),
            "gradient": draw(rng, *shape, spread=2.0) + 0.05,
            "m": draw(rng, *shape) + 0.02,
            "v": rng.integers(2, 40, shape) / 10,
            "step": step,
            "lr": 0.1,
            **more,
        }

    return build


_ADAM_CASES = [
    case(
        "the first step | as long as the learning rate, against the gradient if there is one",
        {
            "parameter": np.array([1.0, 1.0, 1.0, 1.0]),
            "gradient": np.array([0.5, -20.0, 3.0, 0.0]),
            "m": np.zeros(4),
            "v": np.zeros(4),
            "step": 1,
            "lr": 0.1,
        },
    ),
    case("the third step, 4 numbers | both means go on", _midway(4, step=3)),
    case(
        "no gradient in this step | the means shrink, and the old one still moves the parameter",
        {
            "parameter": np.array([2.0, -1.0]),
            "gradient": np.zeros(2),
            "m": np.array([0.3, -0.05]),
            "v": np.array([0.4, 0.01]),
            "step": 5,
            "lr": 0.02,
        },
    ),
    case(
        "β₁ = 0.8, β₂ = 0.98, a matrix | as they are given",
        _midway(2, 3, step=10, beta_1=0.8, beta_2=0.98),
    ),
    case(
        "ε = 0.5 | outside the root, after the correction",
        _midway(3, step=4, beta_1=0.9, beta_2=0.99, eps=0.5),
    ),
    case(
        "never a gradient so far | nothing moves",
        {
            "parameter": np.array([0.7, -0.2]),
            "gradient": np.zeros(2),
            "m": np.zeros(2),
            "v": np.zeros(2),
            "step": 2,
            "lr": 0.1,
        },
    ),
    case("step 4000 | the correction is all but over", _midway(2, 2, step=4000, lr=0.001)),
]

Rule = Callable[..., Any]


def _adam(
    *,
    mean: Rule = lambda m, g, b: b * m + (1.0 - b) * g,
    square: Rule = lambda v, g, b: b * v + (1.0 - b) * g**2,
    free_m: Rule = lambda m, b, t: m / (1.0 - b**t),
    free_v: Rule = lambda v, b, t: v / (1.0 - b**t),
    move: Rule = lambda theta, m, v, lr, eps: theta - lr * m / (np.sqrt(v) + eps),
    betas: Rule = lambda b1, b2: (b1, b2),
    epsilon: Rule = lambda eps, b1, b2, t: eps,
    returns: Rule = lambda theta, m, v, m_hat, v_hat: (theta, m, v),
    used: Rule = lambda old, new: new,
) -> Callable[..., Any]:
    """Return Adam's step with some parts replaced; `used` picks from (m, v) before and after."""

    def step_of(
        parameter: NDArray,
        gradient: NDArray,
        m: NDArray,
        v: NDArray,
        step: int,
        lr: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        eps: float = 1e-8,
    ) -> Any:
        b1, b2 = betas(beta_1, beta_2)
        with np.errstate(all="ignore"):
            new = mean(m, gradient, b1), square(v, gradient, b2)
            m_now, v_now = used((m, v), new)
            hats = free_m(m_now, b1, step), free_v(v_now, b2, step)
            theta = move(parameter, *hats, lr, epsilon(eps, b1, b2, step))
        return returns(theta, *new, *hats)

    return step_of


def _kept(x: NDArray, beta: float, step: int) -> NDArray:
    return x


def _adam_in_place(
    parameter: NDArray,
    gradient: NDArray,
    m: NDArray,
    v: NDArray,
    step: int,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    m *= beta_1
    m += (1 - beta_1) * gradient
    v *= beta_2
    v += (1 - beta_2) * gradient**2
    parameter -= lr * (m / (1 - beta_1**step)) / (np.sqrt(v / (1 - beta_2**step)) + eps)
    return parameter, m, v


_ADAM_WRONG = [
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m / np.sqrt(v) + eps),
        "ε added to the parameter | Without brackets ε is added to the parameter, not to the root: "
        "a/b + c divides first. → Where do brackets have to stand?",
    ),
    wrong(
        _adam(
            free_m=lambda m, b, t: m / (1.0 - b) ** t,
            free_v=lambda v, b, t: v / (1.0 - b) ** t,
        ),
        "(1 − β) to the power t | You divide by (1 − β)ᵗ, which gets smaller from step to step. → "
        "What is to be raised to the power t: β, or 1 − β?",
    ),
    wrong(
        _adam(free_m=lambda m, b, t: m - b**t, free_v=lambda v, b, t: v - b**t),
        "no brackets around 1 − βᵗ | `m / 1 - beta**step` divides by 1 and then subtracts. → Where "
        "do brackets have to stand?",
    ),
    wrong(
        lambda parameter, gradient, m, v, step, lr, beta_1=0.9, beta_2=0.999, eps=1e-8: _adam(
            free_v=lambda v, b, t: v / (1.0 - beta_1**t)
        )(parameter, gradient, m, v, step, lr, beta_1, beta_2, eps),
        "v corrected with β₁ | You divide v by 1 − β₁ᵗ; it was made with β₂. → Which β belongs to "
        "v̂?",
    ),
    wrong(
        lambda parameter, gradient, m, v, step, lr, beta_1=0.9, beta_2=0.999, eps=1e-8: _adam(
            square=lambda v, g, b: beta_1 * v + (1.0 - beta_1) * g**2
        )(parameter, gradient, m, v, step, lr, beta_1, beta_2, eps),
        "v made with β₁ | Your v forgets as fast as m: it's made with β₁. → Which β belongs to v?",
    ),
    wrong(
        lambda parameter, gradient, m, v, step, lr, beta_1=0.9, beta_2=0.999, eps=1e-8: _adam(
            mean=lambda m, g, b: beta_2 * m + (1.0 - beta_2) * g
        )(parameter, gradient, m, v, step, lr, beta_1, beta_2, eps),
        "m made with β₂ | Your m forgets as slowly as v: it is made with β₂. → Which β belongs to "
        "m?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m / (v**2 + eps)),
        "squared for the root | You divide by v̂ squared, where its root is meant. → What makes a "
        "mean of squares as large as a gradient again?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * np.sign(m)),
        "the sign alone | All your steps are as long as the learning rate, which Adam's are in the "
        "first step only. → By what is m̂ divided?",
    ),
    wrong(
        _adam(mean=lambda m, g, b: m + (1.0 - b) * g, square=lambda v, g, b: v + (1.0 - b) * g**2),
        "nothing forgotten | You add to the old means without shrinking them, so they only grow. → "
        "What share of the old mean stays?",
    ),
    wrong(
        _adam(square=lambda v, g, b: b * v + (1.0 - b) * g * 2),
        "twice for the square | Your v takes in twice the gradient, `g * 2`, which may be negative "
        "and has no root then. → How is a square written in Python?",
    ),
    wrong(
        _adam(free_m=_kept, free_v=_kept),
        "no bias correction | Both means start from zeros and are used as they are, so they're too "
        "small at first; your first step isn't as long as the learning rate. → By what are m and v "
        "divided to make up for the zeros?",
    ),
    wrong(
        _adam(free_v=_kept),
        "only m corrected | The mean of the gradients is freed of the zeros it started from, that "
        "of their squares isn't, so early steps are too long. → Which of the two means is still "
        "too small?",
    ),
    wrong(
        _adam(free_m=_kept),
        "only v corrected | The mean of the squares is freed of the zeros it started from, that of "
        "the gradients isn't, so early steps are too short. → Which of the two means is still too "
        "small?",
    ),
    wrong(
        _adam(returns=lambda theta, m, v, m_hat, v_hat: (theta, m_hat, v_hat)),
        "corrected means returned | What you return as m and v are m̂ and v̂, with the correction "
        "in them. The next step would correct them once more. → Which m does the next step's βm + "
        "(1 − β)g start from?",
    ),
    wrong(
        _adam(
            free_m=lambda m, b, t: m / (1.0 - b ** (t - 1)),
            free_v=lambda v, b, t: v / (1.0 - b ** (t - 1)),
        ),
        "steps counted from 0 | Your correction uses β^(t−1), and in the first step that is a "
        "division by 0. → What is `step` in the first step?",
    ),
    wrong(
        _adam(
            free_m=lambda m, b, t: m / (1.0 - b ** (t + 1)),
            free_v=lambda v, b, t: v / (1.0 - b ** (t + 1)),
        ),
        "a step too many | Your correction uses β^(t+1): you add 1 to a step that is counted from "
        "1 already. → What is `step` in the first step?",
    ),
    wrong(
        _adam(free_m=lambda m, b, t: m / (1.0 - b), free_v=lambda v, b, t: v / (1.0 - b)),
        "the first step's correction for ever | You divide by 1 − β in every step; that's right in "
        "the first one. As steps go by the divisor should come close to 1. → Where does `step` "
        "come in?",
    ),
    wrong(
        _adam(
            free_m=lambda m, b, t: m / (1.0 - b * t) if b * t != 1 else m * inf,
            free_v=lambda v, b, t: v / (1.0 - b * t) if b * t != 1 else v * inf,
        ),
        "β times t | You divide by 1 − β·t where 1 − βᵗ is meant: after the first step that's "
        "negative. → How often has a number of t steps ago been multiplied by β?",
    ),
    wrong(
        _adam(
            free_m=lambda m, b, t: m * (1.0 - b**t),
            free_v=lambda v, b, t: v * (1.0 - b**t),
        ),
        "multiplied, not divided | You multiply by 1 − βᵗ, so that means which are too small "
        "already get smaller. → Which operation makes a number larger, if 1 − βᵗ is below 1?",
    ),
    wrong(
        _adam(betas=lambda b1, b2: (b2, b1)),
        "β₁ and β₂ swapped | m forgets as slowly as v should, and v as fast as m. → Which of the "
        "two means does β₁ belong to?",
    ),
    wrong(
        _adam(
            mean=lambda m, g, b: (1.0 - b) * m + b * g,
            square=lambda v, g, b: (1.0 - b) * v + b * g**2,
        ),
        "β and 1 − β swapped | Your means keep a small part of what they were and take most of "
        "the new gradient. → With β = 0.9, how much of the old mean should stay?",
    ),
    wrong(
        _adam(mean=lambda m, g, b: b * m + g, square=lambda v, g, b: b * v + g**2),
        "1 − β forgotten | You add the gradient as a whole to β times the old mean, so m and v are "
        "sums that grow, not means. → What share does the new gradient get, if the old mean keeps "
        "β?",
    ),
    wrong(
        _adam(square=lambda v, g, b: b * v + (1.0 - b) * g),
        "the gradient isn't squared | Your v is a mean of gradients, which may be negative, and "
        "then its root is NaN. → What is v the running mean of?",
    ),
    wrong(
        _adam(square=lambda v, g, b: b * v + (1.0 - b) * np.abs(g)),
        "the size for the square | Your v is a mean of the gradients' sizes, |g|. → What is v the "
        "running mean of, if its root has to be as large as a gradient?",
    ),
    wrong(
        _adam(square=lambda v, g, b: b * v + (1.0 - b) * (g**2).sum()),
        "one square for all | You add up the squares of all numbers of the gradient; Adam keeps a "
        "mean square for each number by itself. → What is the shape of v?",
    ),
    wrong(
        _adam(square=lambda v, g, b: b * v + (1.0 - b) * (g**2).mean()),
        "the mean of all squares | You average the squares over all numbers of the gradient; Adam "
        "keeps a mean over steps, for each number by itself. → What is the shape of v?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m / (v + eps)),
        "no root | You divide by v̂, not by its root: a gradient ten times as large would make the "
        "step ten times shorter. → What makes a mean of squares as large as a gradient again?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m / np.sqrt(v + eps)),
        "ε inside the root | You add ε under the root; in Adam it's added to the root. → Which "
        "bracket closes first?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m / np.sqrt(v + eps**2)),
        "ε squared inside the root | You add ε² under the root; in Adam ε itself is added to the "
        "root. Both prevent 0/0, but they aren't the same number. → Which is larger where v̂ isn't "
        "0: √(v̂ + ε²) or √v̂ + ε?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m / np.sqrt(v)),
        "no ε | Where there was never a gradient you divide 0 by 0. → What is added to the root so "
        "that it isn't 0?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * (m / np.sqrt(v) + eps)),
        "ε outside the fraction | You divide by the root alone and add ε then, so 0/0 isn't "
        "prevented. → To which part of the fraction does ε belong?",
    ),
    wrong(
        _adam(epsilon=lambda eps, b1, b2, t: eps / np.sqrt(1.0 - b2**t)),
        "ε before the correction | this exercise uses √v̂ + ε; you put the corrections into the "
        "learning rate and add ε to the root of the uncorrected v, which makes ε larger in early "
        "steps. → To the root of which v is ε added?",
        variant=True,
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta + lr * m / (np.sqrt(v) + eps)),
        "uphill | Your parameter goes with the gradient; the loss grows. → Which sign leads "
        "downhill?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta.copy()),
        "no step | The means are right, but the parameter comes out as it came in. → Which line "
        "takes the step?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: -lr * m / (np.sqrt(v) + eps)),
        "the change alone | You return the change of the parameter, not the new parameter. → What "
        "is the change added to?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - lr * m),
        "v isn't used | You step along m̂ as it is. v is kept but divides nothing. → What makes "
        "steps as long for small gradients as for large ones?",
    ),
    wrong(
        lambda parameter, gradient, m, v, step, lr, beta_1=0.9, beta_2=0.999, eps=1e-8: _adam(
            move=lambda theta, m, v, lr, eps: theta - lr * gradient / (np.sqrt(v) + eps)
        )(parameter, gradient, m, v, step, lr, beta_1, beta_2, eps),
        "the gradient for its mean | You step along the new gradient and don't use m. Where the "
        "gradient is 0 for once, Adam still moves. → Which of g, m and m̂ stands above the "
        "fraction's line?",
    ),
    wrong(
        _adam(used=lambda old, new: old),
        "the old means used | You step with the m and v that came in, and update them only then. → "
        "Which comes first, the new means or the step?",
    ),
    wrong(
        lambda parameter, gradient, m, v, step, lr, beta_1=0.9, beta_2=0.999, eps=1e-8: _adam(
            square=lambda v, g, b: b * v + (1.0 - b) * (beta_1 * m + (1.0 - beta_1) * g) ** 2
        )(parameter, gradient, m, v, step, lr, beta_1, beta_2, eps),
        "m squared | Your v takes in the square of m; it's a mean of the squares of gradients. → "
        "What is squared in the second line of the algorithm?",
    ),
    wrong(
        _adam(move=lambda theta, m, v, lr, eps: theta - m / (np.sqrt(v) + eps)),
        "no learning rate | Your steps have the length 1, whatever the learning rate. → Where does "
        "`lr` come in?",
    ),
    wrong(
        _adam(betas=lambda b1, b2: (0.9, 0.999)),
        "β₁ and β₂ are always 0.9 and 0.999 | You're right as long as the defaults are asked for. "
        "→ Where does your function use `beta_1` and `beta_2`?",
    ),
    wrong(
        _adam(epsilon=lambda eps, b1, b2, t: 1e-8),
        "ε is always 10⁻⁸ | You're right but for another ε than the default. → Where does your "
        "function use `eps`?",
    ),
    wrong(
        _adam(returns=lambda theta, m, v, m_hat, v_hat: theta),
        "only the parameter returned | What you return isn't three arrays in a row: beside the "
        "parameter the caller needs the new means. → What should the next step be called with?",
    ),
    wrong(
        _adam(returns=lambda theta, m, v, m_hat, v_hat: (theta, v, m)),
        "v before m | The right three arrays are there, in the order parameter, v, m. → In which "
        "order does the docstring return them?",
    ),
    wrong(
        _adam(mean=lambda m, g, b: (1.0 - b) * g, square=lambda v, g, b: (1.0 - b) * g**2),
        "the means start anew | Your m and v hold this step's gradient alone, as if both had been "
        "zeros. → What do the arguments `m` and `v` bring along?",
    ),
    wrong(
        _adam(returns=lambda theta, m, v, m_hat, v_hat: (m, v, theta)),
        "in another order | The right three arrays are there, in the order m, v, parameter. → In "
        "which order does the docstring return them?",
    ),
    wrong(
        lambda parameter, gradient, m, v, step, lr, beta_1=0.9, beta_2=0.999, eps=1e-8: (
            _adam()(parameter, gradient, m, v, step, lr, beta_1, beta_2, eps)[0],
            m,
            v,
        ),
        "the old means returned | The parameter is right, but you return the m and v that came in: "
        "nothing is remembered. → What should the next step be called with?",
    ),
    wrong(
        _adam_in_place,
        "everything in place | The results are right, but `parameter`, `m` and `v` have changed in "
        "the caller's hands, as by `*=`, `+=` and `-=`. → Which lines write into an argument in "
        "the place of making a new array?",
    ),
]


def _adam_loops(
    parameter: NDArray,
    gradient: NDArray,
    m: NDArray,
    v: NDArray,
    step: int,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    parameter, m, v = parameter.copy(), m.copy(), v.copy()
    for place in np.ndindex(parameter.shape):
        g = gradient[place]
        m[place] = beta_1 * m[place] + (1 - beta_1) * g
        v[place] = beta_2 * v[place] + (1 - beta_2) * g * g
        root = (v[place] / (1 - beta_2**step)) ** 0.5
        parameter[place] -= lr * m[place] / (1 - beta_1**step) / (root + eps)
    return parameter, m, v


def _adam_one_rate(
    parameter: NDArray,
    gradient: NDArray,
    m: NDArray,
    v: NDArray,
    step: int,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Put both corrections into the rate, and ε where it belongs all the same."""
    m = m + (1 - beta_1) * (gradient - m)
    v = v + (1 - beta_2) * (np.square(gradient) - v)
    late = np.sqrt(1 - beta_2**step)
    rate = lr * late / (1 - beta_1**step)
    return parameter - rate * m / (np.sqrt(v) + eps * late), m, v


def _adam_torch(
    parameter: Any,
    gradient: Any,
    m: Any,
    v: Any,
    step: int,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    m = m.lerp(gradient, 1 - beta_1)
    v = (v * beta_2).addcmul(gradient, gradient, value=1 - beta_2)
    root = (v / (1 - beta_2**step)).sqrt()
    return parameter.addcdiv(m, root + eps, value=-lr / (1 - beta_1**step)), m, v


ADAM = Exercise(
    id="10.adam",
    function="adam_step",
    reference=adam_step,
    guarded=[ref.adam_step],
    cases=_ADAM_CASES,
    returns=("parameter", "m", "v"),
    misconceptions=_ADAM_WRONG,
    alternatives=[
        ("number by number", _adam_loops),
        ("corrections in the rate", _adam_one_rate),
        Alternative(name="torch", right=_adam_torch, backend="torch"),
    ],
    hints=[
        "Five lines: the new m, the new v, m̂, v̂, the new parameter. All of them work number by "
        "number, so arrays of any shape go through as they are.",
        "m̂ and v̂ are needed for the step only. What you return, and what the next call gets, are "
        "m and v without the correction.",
        "`m / (1 - beta_1**step)` is m̂. The step is `lr * m_hat / (np.sqrt(v_hat) + eps)`, and it "
        "is taken away. Write `m = …`, not `m *= …`.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 10.clip ---------------------------------------------------------------------------------------


def clip_by_global_norm(
    d_weight: NDArray, d_bias: NDArray, max_norm: float
) -> tuple[NDArray, NDArray, float]:
    """Scale the two gradients of a layer by one factor, if their common norm is too large.

    Parameters
    ----------
    d_weight : float array, (d_in, d_out)
    d_bias : float array, (d_out,)
    max_norm : float

    Returns
    -------
    d_weight, d_bias : float arrays
    norm : float
        Before clipping.
    """
    clipped: tuple[NDArray, NDArray, float] = _clip()(d_weight, d_bias, max_norm)
    return clipped


def _layer(
    d_in: int, d_out: int, max_norm: float, *, weight: float = 1.0, bias: float = 1.0
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 5, d_in, d_out])
        return {
            "d_weight": (weight * (draw(rng, d_in, d_out) + 0.03)).round(4),
            "d_bias": (bias * (draw(rng, d_out) + 0.04)).round(4),
            "max_norm": max_norm,
        }

    return build


_CLIP_CASES = [
    case(
        "six numbers of norm 10, at most 4 | all are multiplied by 0.4",
        {
            "d_weight": np.array([[1.0, -7.0], [-3.0, 1.0]]),
            "d_bias": np.array([6.0, 2.0]),
            "max_norm": 4.0,
        },
    ),
    case(
        "small gradients, at most 10 | nothing changes",
        _layer(2, 3, 10.0),
    ),
    case("a weight (4, 3) and a bias, at most 0.5 | one norm of all numbers", _layer(4, 3, 0.5)),
    case(
        "a large weight beside a small bias | their ratio stays",
        _layer(3, 2, 2.0, weight=30.0, bias=0.2),
    ),
    case(
        "all numbers 0 | they stay 0",
        {"d_weight": np.zeros((2, 2)), "d_bias": np.zeros(2), "max_norm": 1.0},
    ),
    case(
        "each below the limit alone, not together | what counts is the norm of both",
        {
            "d_weight": np.array([[0.6, 0.0], [0.0, -0.4]]),
            "d_bias": np.array([0.0, 0.8]),
            "max_norm": 1.0,
        },
    ),
]


def _global(w: NDArray, b: NDArray) -> Any:
    return np.sqrt((w**2).sum() + (b**2).sum())


def _if_larger(g: NDArray, norm: Any, limit: float) -> Any:
    return g * (limit / norm) if norm > limit else g.copy()


def _clip(
    *,
    norm: Callable[[NDArray, NDArray], Any] = _global,
    scale: Callable[[NDArray, Any, float], Any] = _if_larger,
    returned: Callable[..., Any] = lambda w, b, norm: norm,
) -> Callable[..., Any]:
    """Return clipping with some parts replaced; `returned` makes the third result."""

    def clip(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
        with np.errstate(all="ignore"):
            n = norm(d_weight, d_bias)
            new = scale(d_weight, n, max_norm), scale(d_bias, n, max_norm)
            return (*new, returned(*new, n))

    return clip


def _each_by_itself(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    norms = [np.sqrt((g**2).sum()) for g in (d_weight, d_bias)]
    new = [_if_larger(g, n, max_norm) for g, n in zip((d_weight, d_bias), norms, strict=True)]
    return (*new, np.sqrt(norms[0] ** 2 + norms[1] ** 2))


def _python_division(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    norm = float(_global(d_weight, d_bias))
    factor = min(1.0, max_norm / norm)
    return d_weight * factor, d_bias * factor, norm


def _clip_in_place(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    norm = _global(d_weight, d_bias)
    if norm > max_norm:
        d_weight *= max_norm / norm
        d_bias *= max_norm / norm
    return d_weight, d_bias, norm


def _weight_alone(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    norm = _global(d_weight, d_bias)
    return _if_larger(d_weight, norm, max_norm), d_bias.copy(), norm


def _norms_twice(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    """Take the norm anew after the weight has been scaled."""
    norm = _global(d_weight, d_bias)
    weight = _if_larger(d_weight, norm, max_norm)
    return weight, _if_larger(d_bias, _global(weight, d_bias), max_norm), norm


def _own_norms(total: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Clip each by itself, and return something of the two norms."""

    def clip(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
        norms = [np.sqrt((g**2).sum()) for g in (d_weight, d_bias)]
        new = _each_by_itself(d_weight, d_bias, max_norm)[:2]
        return (*new, total(norms))

    return clip


def _row_by_row(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    rows = np.array([_if_larger(row, np.sqrt((row**2).sum()), max_norm) for row in d_weight])
    bias = _if_larger(d_bias, np.sqrt((d_bias**2).sum()), max_norm)
    return rows, bias, _global(d_weight, d_bias)


def _not_one_vector(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    return _clip(norm=lambda w, b: np.linalg.norm(np.concatenate([w, b])))(
        d_weight, d_bias, max_norm
    )


_OWN = (
    "You clip each gradient by its own norm, and the third result isn't the norm of both either. → "
    "Over which numbers is the one norm taken?"
)

_CLIP_WRONG = [
    wrong(_own_norms(lambda norms: norms[0]), f"each by its own norm, the first returned | {_OWN}"),
    wrong(_own_norms(lambda norms: norms[1]), f"each by its own norm, the last returned | {_OWN}"),
    wrong(_own_norms(sum), f"each by its own norm, the sum returned | {_OWN}"),
    wrong(_own_norms(max), f"each by its own norm, the larger returned | {_OWN}"),
    wrong(
        _not_one_vector,
        "put together as they are | A matrix and a row can't be put together: `np.concatenate` "
        "wants as many axes in both. → What makes one long row of an array?",
    ),
    wrong(
        _row_by_row,
        "row by row | You clip each row of the weight by its own norm. The rows' ratios change, "
        "and with them the direction of the step. → Over which numbers is the norm taken?",
    ),
    wrong(
        _clip(norm=lambda w, b: np.linalg.norm(w + b)),
        "added before the norm | You add the bias to every row of the weight before you take the "
        "norm. → What is added up: the numbers, or their squares?",
    ),
    wrong(
        _clip(norm=lambda w, b: np.sqrt(w.sum() ** 2 + b.sum() ** 2)),
        "summed before squared | You add up the numbers of a gradient and square the sum, so "
        "positive and negative ones cancel. → Which comes first, the square or the sum?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g - (norm - limit) if norm > limit else g.copy()),
        "shortened by subtraction | You subtract what the norm has too much from every number, "
        "which turns the vector. → Which operation makes a vector shorter and keeps its direction?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: np.minimum(g, limit)),
        "cut off from above | You cut off numbers above the limit; negative ones may be as large "
        "as they like, and the direction changes. → By what can all numbers be multiplied alike?",
    ),
    wrong(
        _each_by_itself,
        "each by its own norm | You clip each gradient by its own norm. Their ratio changes, and "
        "with it the direction of the step. → Over which numbers is the norm taken?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: np.clip(g, -limit, limit)),
        "number by number | You cut off every number at the limit. Large ones lose more than small "
        "ones, so the direction changes. → By what can all numbers be multiplied alike?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g * limit / norm),
        "always rescaled | You bring every gradient to the limit, small ones too; zeros become "
        "NaN. → When should nothing change?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g * limit / (norm + 1e-6)),
        "always rescaled, guarded against 0 | You bring every gradient to the limit, small ones "
        "too: only zeros are left alone. → When should nothing change?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g * limit / norm if norm < limit else g.copy()),
        "the small ones rescaled | You raise what is below the limit and leave what is above it. → "
        "Which of the two should stay as it is?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g.copy()),
        "nothing clipped | The norm is right, but your gradients come out as they came in, however "
        "large. → Which comparison tells that they are too large?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g / norm if norm > limit else g.copy()),
        "to the length 1 | What is too large comes out with the norm 1, whatever the limit. → What "
        "norm should it have after clipping?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g * norm / limit if norm > limit else g.copy()),
        "the factor upside down | What is too large gets larger still: you multiply by norm over "
        "limit. → Is the factor above or below 1?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: g * limit if norm > limit else g.copy()),
        "times the limit | What is too large is multiplied by the limit, whatever its norm was. → "
        "By what would the norm first have to be divided?",
    ),
    wrong(
        _clip(scale=lambda g, norm, limit: np.zeros_like(g) if norm > limit else g.copy()),
        "thrown away | What is too large comes out as 0, so that step would be lost. → What should "
        "stay of the gradient, if not its length?",
    ),
    wrong(
        _clip(norm=lambda w, b: (w**2).sum() + (b**2).sum()),
        "no root | You compare the sum of squares with the limit, and return it. → What turns a "
        "sum of squares into a length?",
    ),
    wrong(
        _clip(norm=lambda w, b: np.sqrt((w**2).sum()) + np.sqrt((b**2).sum())),
        "norms added | You add the norms of the two gradients; but norms of 3 and 4 make a common "
        "one of 5, not of 7. → What is added up before the root is taken?",
    ),
    wrong(
        _clip(norm=lambda w, b: np.abs(w).sum() + np.abs(b).sum()),
        "sizes added | You add up the sizes of all numbers; with 3 and −4 you get 7. → What is "
        "done to each number before it is added, in the length of a vector?",
    ),
    wrong(
        _clip(norm=lambda w, b: max(np.abs(w).max(), np.abs(b).max())),
        "the largest number for the norm | this exercise uses the root of the sum of squares; you "
        "take the largest number, which is the maximum norm. → Of how many numbers is the norm "
        "made?",
        variant=True,
    ),
    wrong(
        _clip(norm=lambda w, b: np.sqrt(((w**2).sum() + (b**2).sum()) / (w.size + b.size))),
        "the root mean square | You average the squares; then a large model would be allowed "
        "longer steps. → What is done with the squares in the length of a vector?",
    ),
    wrong(
        _clip(norm=lambda w, b: np.sqrt((w**2).mean() + (b**2).mean())),
        "means of squares added | You average the squares of each gradient before you add them. → "
        "What is done with the squares in the length of a vector?",
    ),
    wrong(
        _clip(norm=lambda w, b: max(np.sqrt((w**2).sum()), np.sqrt((b**2).sum()))),
        "the larger of the two norms | You take the larger one of the two norms, so two that are "
        "just below the limit go through. → Over which numbers is the norm taken?",
    ),
    wrong(
        _clip(
            norm=lambda w, b: np.sqrt(np.linalg.norm(w, 2) ** 2 + np.linalg.norm(b, 2) ** 2),
        ),
        "the matrix norm | `np.linalg.norm(w, 2)` of a matrix is its largest singular value, not "
        "the root of the sum of squares of its numbers. → What does it do without the 2, or with "
        '`ord="fro"`?',
    ),
    wrong(
        _clip(norm=lambda w, b: np.sqrt((w**2).sum())),
        "only the weight's norm | The bias has no part in your norm. → Over which numbers is the "
        "norm taken?",
    ),
    wrong(
        _weight_alone,
        "the bias left as it is | You scale the weight's gradient and leave the bias's as it is. → "
        "How many gradients does the one factor belong to?",
    ),
    wrong(
        _norms_twice,
        "the norm taken anew for the bias | You scale the weight, then take the norm again, with "
        "the scaled weight in it, before you scale the bias. → How often is the norm computed, and "
        "when?",
    ),
    wrong(
        _clip(returned=lambda w, b, norm: _global(w, b)),
        "the norm after clipping | Your gradients are right, but the norm you return is that of "
        "the clipped ones. The reader of a training log wants to know how large they were. → Which "
        "of the two norms does the docstring return?",
    ),
    wrong(
        lambda d_weight, d_bias, max_norm: _clip()(d_weight, d_bias, max_norm)[:2],
        "no norm returned | What you return isn't three things in a row, the two gradients and the "
        "norm. → What does the docstring return, and in which order?",
    ),
    wrong(
        _clip(returned=lambda w, b, norm: _global(w, b) / norm),
        "the factor returned | Your gradients are right, but what you return with them is a "
        "quotient of two norms. → What is the third thing that the docstring returns?",
    ),
    wrong(
        _python_division,
        "division by 0 | With a gradient of zeros your function stops: the norm is 0, and you "
        "divide by it before you compare. → In which of the two cases, above the limit or below, "
        "is the factor needed at all?",
    ),
    wrong(
        _clip_in_place,
        "in place | The results are right, but the caller's gradients have changed: `*=` writes "
        "into them. → Which lines make new arrays in the place of that?",
    ),
]


def _clip_flat(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    norm = np.linalg.norm(np.concatenate([d_weight.ravel(), d_bias.ravel()]))
    factor = max_norm / max(float(norm), max_norm)
    return d_weight * factor, d_bias * factor, norm


def _clip_as_torch_does(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    """With 10⁻⁶ in the divisor, and the factor kept at 1 or below."""
    norm = np.linalg.norm([np.linalg.norm(d_weight), np.linalg.norm(d_bias)])
    factor = min(1.0, max_norm / (norm + 1e-6))
    return d_weight * factor, d_bias * factor, norm


def _clip_loops(d_weight: NDArray, d_bias: NDArray, max_norm: float) -> Any:
    total = 0.0
    for g in (d_weight, d_bias):
        for x in g.flat:
            total += float(x) ** 2
    norm = total**0.5
    if norm <= max_norm:
        return d_weight.copy(), d_bias.copy(), norm
    return d_weight / norm * max_norm, d_bias / norm * max_norm, norm


def _clip_torch(d_weight: Any, d_bias: Any, max_norm: float) -> Any:
    import torch

    weight, bias = (torch.nn.Parameter(torch.zeros_like(g)) for g in (d_weight, d_bias))
    weight.grad, bias.grad = d_weight.clone(), d_bias.clone()
    norm = torch.nn.utils.clip_grad_norm_([weight, bias], max_norm)
    return weight.grad, bias.grad, norm


CLIP = Exercise(
    id="10.clip",
    function="clip_by_global_norm",
    reference=clip_by_global_norm,
    guarded=[ref.clip_by_global_norm],
    cases=_CLIP_CASES,
    returns=("d_weight", "d_bias", "norm"),
    tolerance={"float64": (1e-5, 1e-8)},  # torch adds 10⁻⁶ to the norm that it divides by
    misconceptions=_CLIP_WRONG,
    alternatives=[
        ("one long vector", _clip_flat),
        ("as torch does", _clip_as_torch_does),
        ("loops", _clip_loops),
        Alternative(name="torch", right=_clip_torch, backend="torch"),
    ],
    hints=[
        "Put all numbers of both gradients into one long vector in your mind. Its length is the "
        "norm; if that's too large, the vector is to be shortened and to keep its direction.",
        "Both gradients are multiplied by one and the same factor, so that the norm of both "
        "together becomes `max_norm`. Below the limit the factor is 1.",
        "`norm = np.sqrt((d_weight**2).sum() + (d_bias**2).sum())`. Compare it with the limit "
        "before you divide by it: it may be 0.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)
