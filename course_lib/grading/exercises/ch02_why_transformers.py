"""The exercises of chapter 02: self-attention, gradients through time, order, costs, and a bug.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from math import exp, inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.model import Alternative, Case, Exercise, Misconception
from course_lib.grading.values import is_tensor, to_tensors
from course_lib.reference import attention_scores as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "Layer",
    "crossover",
    "equivariance_gap",
    "gather",
    "gather_broken",
    "jacobian_norms",
    "layer_flops",
    "steps_and_path",
]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


def _softmax(s: NDArray, axis: Any = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def _naive_softmax(s: NDArray) -> NDArray:
    """Softmax without the maximum subtracted."""
    with np.errstate(all="ignore"):
        e = np.exp(s)
        return e / e.sum(axis=-1, keepdims=True)


def _products(x: NDArray) -> NDArray:
    return x @ x.swapaxes(-2, -1)


# -- 02.jacobian_norms -----------------------------------------------------------------------------


def jacobian_norms(w_h: NDArray, n_steps: int) -> NDArray:
    """Return by how much at most a change of a linear RNN's state grows in 0, 1, 2, … steps.

    Parameters
    ----------
    w_h : float array, (d, d)
        The recurrence is s_k = W_h s_{k−1} + W_x x_k.
    n_steps : int
        At least 0.

    Returns
    -------
    float array, (n_steps + 1,)
        Entry k is the spectral norm of ∂s_{t+k}/∂s_t.
    """
    return _norms(w_h, n_steps)


def _norms(w_h: NDArray, n_steps: int) -> NDArray:
    return np.array([_spectral(m) for m in _powers(w_h, n_steps)])


def _powers(w_h: NDArray, n_steps: int) -> list[NDArray]:
    return [np.linalg.matrix_power(w_h, k) for k in range(n_steps + 1)]


def _rotation(degrees: float) -> NDArray:
    angle = np.deg2rad(degrees)
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _drawn_recurrence(seed: int) -> dict[str, Any]:
    return {"w_h": draw(np.random.default_rng([seed, 2]), 4, 4, spread=0.6), "n_steps": 5}


_JACOBIAN_CASES = [
    Case(
        name="a state of one number",
        inputs={"w_h": np.array([[-0.9]]), "n_steps": 4},
        shows="0.9, 0.81, … whatever the sign",
    ),
    Case(
        name="no step",
        inputs={"w_h": np.array([[0.5, 0.2], [0.1, 0.4]]), "n_steps": 0},
        shows="nothing has changed yet: 1",
    ),
    Case(
        name="one direction grows, the other shrinks",
        inputs={"w_h": np.diag([1.1, 0.5]), "n_steps": 6},
        shows="the one that grows decides",
    ),
    Case(
        name="a rotation by 40°",
        inputs={"w_h": _rotation(40.0), "n_steps": 5},
        shows="it neither grows nor shrinks",
    ),
    Case(
        name="grows at first, shrinks in the end",
        inputs={"w_h": np.array([[0.8, 3.0], [0.0, 0.6]]), "n_steps": 8},
        shows="a product isn't known from its factors' norms",
    ),
    Case(
        name="gone after two steps",
        inputs={"w_h": np.array([[0.0, 2.0], [0.0, 0.0]]), "n_steps": 3},
        shows="W_h isn't 0, its square is",
    ),
    Case(
        name="a state of 4 numbers, 5 steps",
        inputs=_drawn_recurrence,
        shows="any recurrence",
    ),
]


def _normed(norm: Callable[[NDArray], Any]) -> Callable[[NDArray, int], Any]:
    """Measure the right products by something else."""
    return lambda w_h, n_steps: np.array([norm(m) for m in _powers(w_h, n_steps)])


def _spectral(m: NDArray) -> float:
    return float(np.linalg.norm(m, ord=2))


def _radius(m: NDArray) -> float:
    return float(np.abs(np.linalg.eigvals(m)).max())


def _to_the_power(number: Callable[[NDArray], float]) -> Callable[[NDArray, int], Any]:
    """Raise a number of the matrix to the power of k."""
    return lambda w_h, n_steps: number(w_h) ** np.arange(n_steps + 1.0)


def _jacobian_entrywise(w_h: NDArray, n_steps: int) -> Any:
    return np.array([_spectral(np.power(w_h, k)) for k in range(n_steps + 1)])


def _jacobian_star(w_h: NDArray, n_steps: int) -> Any:
    """Multiply entry by entry, from the identity on."""
    product, norms = np.eye(len(w_h)), []
    for _ in range(n_steps + 1):
        norms.append(_spectral(product))
        product = product * w_h
    return np.array(norms)


def _jacobian_from_one(w_h: NDArray, n_steps: int) -> Any:
    return _norms(w_h, n_steps + 1)[1:]


def _jacobian_too_short(w_h: NDArray, n_steps: int) -> Any:
    return _norms(w_h, n_steps)[1:]


def _jacobian_no_end(w_h: NDArray, n_steps: int) -> Any:
    return _norms(w_h, n_steps)[:-1]


def _jacobian_last(w_h: NDArray, n_steps: int) -> Any:
    return _norms(w_h, n_steps)[-1]


def _jacobian_reversed(w_h: NDArray, n_steps: int) -> Any:
    return _norms(w_h, n_steps)[::-1]


def _jacobian_added(w_h: NDArray, n_steps: int) -> Any:
    return _spectral(w_h) * np.arange(n_steps + 1.0)


def _jacobian_square_kept(w_h: NDArray, n_steps: int) -> Any:
    """Square the product at every step: W, W², W⁴, …."""
    product, norms = w_h, [1.0]
    for _ in range(n_steps):
        norms.append(_spectral(product))
        product = product @ product
    return np.array(norms)


def _jacobian_all_singular(w_h: NDArray, n_steps: int) -> Any:
    return np.array([np.linalg.svd(m, compute_uv=False) for m in _powers(w_h, n_steps)])


def _jacobian_overwriting(w_h: NDArray, n_steps: int) -> Any:
    norms = _norms(w_h, n_steps)
    w_h[...] = np.linalg.matrix_power(w_h, n_steps + 1)
    return norms


_JACOBIAN_WRONG = [
    Misconception(
        name="the Frobenius norm",
        wrong=_normed(np.linalg.norm),
        hint="After no step your number is √d where it should be 1: you take the root of the sum "
        "of all squared entries, which is what `np.linalg.norm` does with a matrix unless it's "
        "told otherwise. → Which `ord` gives the largest factor by which a vector is stretched?",
    ),
    Misconception(
        name="powers of the norm",
        wrong=_to_the_power(_spectral),
        hint="You raise the norm of W_h to a power. That's an upper bound: the direction that one "
        "step stretches most need not be the one that the next step stretches. → In which order "
        "do the product and the norm have to be taken?",
    ),
    Misconception(
        name="powers of the Frobenius norm",
        wrong=_to_the_power(lambda w: float(np.linalg.norm(w))),
        hint="You raise the norm of W_h to a power, and it's the norm that adds up all squared "
        "entries. → Which has to come first, the product of the matrices or the norm, and which "
        "`ord` is asked for?",
    ),
    Misconception(
        name="the largest eigenvalue",
        wrong=_normed(_radius),
        hint="You take the largest eigenvalue in size. It says how a change fares in the very long "
        "run, but on the way it may grow to many times that. → Which number says how much a "
        "matrix stretches a vector at most: an eigenvalue or a singular value?",
    ),
    Misconception(
        name="the determinant",
        wrong=_normed(lambda m: abs(np.linalg.det(m))),
        hint="The determinant says how a *volume* changes: one direction may grow while it "
        "shrinks. → Which number says how much a single vector is stretched at most?",
    ),
    Misconception(
        name="entries raised to a power",
        wrong=_jacobian_entrywise,
        hint="For a diagonal matrix you're right: `**` raises every entry by itself to the power "
        "of k. → Which operator multiplies matrices?",
    ),
    Misconception(
        name="entries raised to a power, the Frobenius norm",
        wrong=lambda w_h, n_steps: np.array([np.linalg.norm(w_h**k) for k in range(n_steps + 1)]),
        hint="Two things. `**` raises every entry by itself to the power of k, so that after no "
        "step all entries are 1; and the norm that you take adds up all squared entries. → Which "
        "matrix is ∂s_t/∂s_t, and which operator multiplies matrices?",
    ),
    Misconception(
        name="all singular values",
        wrong=_jacobian_all_singular,
        hint="You return all singular values of each product, d numbers a step. → Which one of "
        "them says how much a vector is stretched at most?",
    ),
    Misconception(
        name="multiplied entry by entry",
        wrong=_jacobian_star,
        hint="For a diagonal matrix you're right: `*` multiplies entry by entry, so from the "
        "identity on only the diagonal is left. → Which operator multiplies matrices?",
    ),
    Misconception(
        name="the product squared at every step",
        wrong=_jacobian_square_kept,
        hint="From the second step on you're too far: the product is multiplied by itself, so you "
        "pass W, W², W⁴, W⁸. → By which matrix does one more step multiply?",
    ),
    Misconception(
        name="one step too far",
        wrong=_jacobian_from_one,
        hint="Each of your entries belongs one place further on: the first is that of one step, "
        "where it should be that of none. → Which matrix is ∂s_t/∂s_t?",
    ),
    Misconception(
        name="the start is missing",
        wrong=_jacobian_too_short,
        hint="Your entries are right from one step on; the first one, for no step at all, is "
        "missing. → Which matrix is ∂s_t/∂s_t, and what is its norm?",
    ),
    Misconception(
        name="the end is missing",
        wrong=_jacobian_no_end,
        hint="Your list ends one entry too early: it has n_steps numbers. → From 0 to n_steps, how "
        "many are there?",
    ),
    Misconception(
        name="only the last",
        wrong=_jacobian_last,
        hint="You return the norm after all steps; the ones on the way are asked for as well. → "
        "Where in your loop could each norm be kept?",
    ),
    Misconception(
        name="in reverse order",
        wrong=_jacobian_reversed,
        hint="The numbers are right and come in the other order. → Which entry belongs to no step "
        "at all, the first or the last?",
    ),
    Misconception(
        name="norms added",
        wrong=_jacobian_added,
        hint="Your numbers grow by the same amount at every step. A change is *multiplied* at "
        "every step. → What does the chain rule do with the derivatives of one step after another?",
    ),
    Misconception(
        name="the squared singular value",
        wrong=_normed(lambda m: _spectral(m) ** 2),
        hint="Your numbers are the squares of the right ones: that's what the largest eigenvalue "
        "of MᵀM is. → What is left to do with it?",
    ),
    Misconception(
        name="the smallest singular value",
        wrong=_normed(lambda m: np.linalg.norm(m, ord=-2)),
        hint="You return how much a vector is stretched at *least*. → Which of the singular "
        "values is asked for, the last or the first?",
    ),
    Misconception(
        name="the sum of the singular values",
        wrong=_normed(lambda m: np.linalg.norm(m, ord="nuc")),
        hint="You add up all singular values, so that after no step there's already d. → A vector "
        "can't be stretched along all directions at once: which one of them is asked for?",
    ),
    Misconception(
        name="column sums",
        wrong=_normed(lambda m: np.linalg.norm(m, ord=1)),
        hint="Your numbers are the largest sum of a column: `ord=1`, a norm that measures vectors "
        "by the sum of their entries. → Which `ord` measures them by their length?",
    ),
    Misconception(
        name="row sums",
        wrong=_normed(lambda m: np.linalg.norm(m, ord=inf)),
        hint="Your numbers are the largest sum of a row: `ord=inf`, a norm that measures vectors "
        "by their largest entry. → Which `ord` measures them by their length?",
    ),
    Misconception(
        name="the largest entry",
        wrong=_normed(lambda m: np.abs(m).max()),
        hint="You return the largest entry of the product. A vector that isn't along an axis can "
        "be stretched by more. → Which number of a matrix is the largest over all directions?",
    ),
    Misconception(
        name="the largest eigenvalue, sign and all",
        wrong=_normed(lambda m: np.linalg.eigvals(m).real.max()),
        hint="Your numbers can fall below 0, or miss a matrix that turns: you return the largest "
        "eigenvalue, sign and all. A norm is a length. → Which number says how much a vector is "
        "stretched at most: an eigenvalue or a singular value?",
    ),
    Misconception(
        name="a vector of ones followed",
        wrong=_normed(lambda m: np.linalg.norm(m @ np.ones(len(m)))),
        hint="You follow one vector, whose entries are all 1. Another may be stretched by more. → "
        "Which number of the matrix is the largest stretch over all vectors of length 1?",
    ),
    Misconception(
        name="logarithms",
        wrong=_normed(lambda m: np.log10(_spectral(m))),
        hint="These are logarithms: fine for a plot's axis, but the norms themselves are asked "
        "for. → What is the norm of the identity?",
    ),
    Misconception(
        name="W_h is overwritten",
        wrong=_jacobian_overwriting,
        hint="The numbers are right, but the caller's W_h isn't what it was: a product was written "
        "into it. → Which line (perhaps with `@=` or `out=`) changes `w_h` itself?",
    ),
]


def _jacobian_loop(w_h: NDArray, n_steps: int) -> Any:
    product, norms = np.eye(len(w_h)), []
    for _ in range(n_steps + 1):
        norms.append(np.linalg.svd(product, compute_uv=False)[0])
        product = w_h @ product
    return norms


def _jacobian_eigenvalues(w_h: NDArray, n_steps: int) -> Any:
    norms = [1.0]
    product = np.eye(len(w_h))
    for _ in range(n_steps):
        product = product @ w_h
        norms.append(float(np.sqrt(max(0.0, np.linalg.eigvalsh(product.T @ product)[-1]))))
    return np.array(norms)


def _jacobian_transposed(w_h: NDArray, n_steps: int) -> Any:
    """Carry the gradient back by Wᵀ: a transposed matrix has the same norm."""
    back = [np.linalg.matrix_power(w_h.T, k) for k in range(n_steps + 1)]
    return np.linalg.norm(np.stack(back), ord=2, axis=(-2, -1))


def _jacobian_torch(w_h: Any, n_steps: int) -> Any:
    import torch

    powers = [torch.linalg.matrix_power(w_h, k) for k in range(n_steps + 1)]
    return torch.linalg.matrix_norm(torch.stack(powers), ord=2)


_JACOBIAN_NORMS = Exercise(
    id="02.jacobian_norms",
    function="jacobian_norms",
    reference=jacobian_norms,
    cases=_JACOBIAN_CASES,
    returns=("norms",),
    misconceptions=_JACOBIAN_WRONG,
    alternatives=[
        Alternative(name="a loop and singular values, as a list", right=_jacobian_loop),
        Alternative(name="eigenvalues of MᵀM", right=_jacobian_eigenvalues),
        Alternative(name="transposed, all at once", right=_jacobian_transposed),
        Alternative(name="torch", right=_jacobian_torch, backend="torch"),
    ],
    hints=[
        "In a linear RNN every step multiplies a change of the state by the same matrix. So what "
        "do k steps multiply it by?",
        "Start with the identity, which is what no step does, and multiply by W_h once a step. "
        "Keep the norm of each product, the identity's included.",
        "The spectral norm is the largest singular value: `np.linalg.norm(m, ord=2)`. Without "
        "`ord` numpy takes another norm.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 02.self_attention -----------------------------------------------------------------------------


def _tokens(*shape: int) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {"x": draw(np.random.default_rng([seed, 1, *shape]), *shape)}


_SELF_CASES = [
    Case(
        name="one token",
        inputs={"x": np.array([[2.0, -1.0, 0.5]])},
        shows="it has only itself to look at",
    ),
    Case(
        name="two orthogonal tokens",
        inputs={"x": np.array([[1.0, 0.0], [0.0, 2.0]])},
        shows="the longer one looks at itself more",
    ),
    Case(
        name="5 tokens of width 3",
        inputs=_tokens(5, 3),
        shows="every token's weights sum to 1",
    ),
    Case(
        name="3 tokens of width 3",
        inputs=_tokens(3, 3),
        shows="tokens are rows",
    ),
    Case(
        name="a batch of 2 sequences of 4 tokens, width 3",
        inputs=_tokens(2, 4, 3),
        shows="each sequence asks itself alone",
    ),
    Case(
        name="long tokens, and a short one",
        inputs={"x": np.array([[40.0, 0.0], [39.9, 2.0], [-40.0, 2.0], [0.02, 0.05]])},
        shows="no overflow, and no 0/0",
    ),
]


def _self(
    *,
    scores: Callable[[NDArray], NDArray] = _products,
    weigh: Callable[[NDArray], NDArray] = _softmax,
    mix: Callable[[NDArray, NDArray], NDArray] = lambda p, x: p @ x,
) -> Callable[[NDArray], tuple[Any, Any]]:
    """Return self-attention with some steps replaced."""

    def attend(x: NDArray) -> tuple[Any, Any]:
        with np.errstate(all="ignore"):
            weights = weigh(scores(x))
            return mix(weights, x), weights

    return attend


def _global_shift(s: NDArray) -> NDArray:
    e = np.exp(s - s.max())
    return e / e.sum(axis=-1, keepdims=True)


def _flat_sum(s: NDArray) -> NDArray:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1)


def _flat_sum_unshifted(s: NDArray) -> NDArray:
    return np.exp(s) / np.exp(s).sum(axis=-1)


def _first_attempt(s: NDArray) -> NDArray:
    return np.exp(s) / np.exp(s).sum()


def _whole_table(s: NDArray) -> NDArray:
    return _softmax(s, axis=(-2, -1))


def _without_itself(s: NDArray) -> NDArray:
    return _softmax(np.where(np.eye(s.shape[-1], dtype=bool), -np.inf, s))


def _looking_back(s: NDArray) -> NDArray:
    return _softmax(np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf))


def _cosines(x: NDArray) -> NDArray:
    return _products(x / np.linalg.norm(x, axis=-1, keepdims=True))


def _self_of_features(x: NDArray) -> tuple[Any, Any]:
    weights = _softmax(x.swapaxes(-2, -1) @ x)
    return x @ weights, weights


def _self_overwriting(x: NDArray) -> tuple[Any, Any]:
    weights = _softmax(_products(x))
    x[...] = weights @ x
    return x, weights


def _self_swapped(x: NDArray) -> tuple[Any, Any]:
    weights = _softmax(_products(x))
    return weights, weights @ x


_SELF_WRONG = [
    Misconception(
        name="no softmax",
        wrong=_self(weigh=lambda s: s),
        hint="Your weights are the scores themselves: some are negative, and the rows don't sum to "
        "1. → Which function makes shares of a whole out of scores?",
    ),
    Misconception(
        name="divided by the sum of the scores",
        wrong=_self(weigh=lambda s: s / s.sum(axis=-1, keepdims=True)),
        hint="Your rows sum to 1, but a score below 0 gives a weight below 0, and a sum near 0 "
        "blows everything up. → What has to be done to a score before it's divided, so that it's "
        "positive and the order stays?",
    ),
    Misconception(
        name="scaled by √d",
        wrong=_self(scores=lambda x: _products(x) / sqrt(x.shape[-1])),
        valid_variant=True,
        hint="this exercise uses the products of the tokens as they are; you divide them by √d, "
        "as a later chapter will. → Which formula does the docstring give?",
    ),
    Misconception(
        name="over the queries",
        wrong=_self(weigh=lambda s: _softmax(s, axis=-2)),
        hint="Your columns sum to 1 and your rows don't. The table of scores is symmetric, so "
        "nothing looks odd, but the token that asks is the row. → Along which axis do the weights "
        "of one asking token lie?",
    ),
    Misconception(
        name="over the whole table",
        wrong=_self(weigh=_whole_table),
        hint="All weights of a sequence together sum to 1, where each token's should by "
        "themselves. → Along which axis lie the weights of one asking token?",
    ),
    Misconception(
        name="over everything, no maximum subtracted",
        wrong=_self(weigh=_first_attempt),
        hint="All your weights together sum to 1, where each token's should by themselves. Long "
        "tokens are another matter, and can wait. → What does `sum()` add up when it isn't told "
        "an axis?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_self(weigh=_naive_softmax),
        hint="The formula is right, but a token of length 40 scores 1,600 with itself, and e to "
        "the power of that is more than a float holds. → Which number may be taken from all "
        "scores of a row without changing its weights?",
    ),
    Misconception(
        name="NaN swept away after an overflow",
        wrong=_self(weigh=lambda s: np.nan_to_num(_naive_softmax(s))),
        hint="Where tokens are long, your exponentials overflow and give NaN; replacing it by 0 "
        "takes the weight from the very tokens that should have most. → What has to happen before "
        "the exponential so that there's no NaN to replace?",
    ),
    Misconception(
        name="one maximum for all tokens",
        wrong=_self(weigh=_global_shift),
        hint="You shift all rows by the largest score of the whole table. The row of a short token "
        "lies so far below it that all its exponentials are 0. → Whose maximum does each row need?",
    ),
    Misconception(
        name="the sum has lost its axis",
        wrong=_self(weigh=_flat_sum),
        hint="The sums of the rows came out as a flat array, and broadcasting set them against the "
        "columns: wrong numbers for one sequence, an error for a batch. → Which argument of `sum` "
        "keeps the summed axis, with length 1?",
    ),
    Misconception(
        name="the sum has lost its axis, no maximum subtracted",
        wrong=_self(weigh=_flat_sum_unshifted),
        hint="The sums of the rows came out as a flat array, and broadcasting set them against the "
        "columns. Long tokens are another matter, and can wait. → Which argument of `sum` keeps "
        "the summed axis, with length 1?",
    ),
    Misconception(
        name="a token doesn't see itself",
        wrong=_self(weigh=_without_itself),
        hint="The diagonal of your weights is 0, and a token that is alone gets NaN. In "
        "self-attention the sequence asks *all* of itself. → Which tokens may a token look at?",
    ),
    Misconception(
        name="a token sees only what came before",
        wrong=_self(weigh=_looking_back),
        hint="Your weights are 0 above the diagonal: a token doesn't see what comes after it. "
        "That's how a decoder looks; here all look at all. → Which tokens may the first one look "
        "at?",
    ),
    Misconception(
        name="x.T turns all axes round",
        wrong=_self(scores=lambda x: x @ x.T),
        hint="For one sequence that's right. A batch has one more axis in front: `.T` reverses all "
        "of them, and a loop over `x` runs over sequences, not tokens. → Which two axes are the "
        "tokens' and their numbers', counted from the end?",
    ),
    Misconception(
        name="x.T turns all axes round, no maximum subtracted",
        wrong=_self(scores=lambda x: x @ x.T, weigh=_naive_softmax),
        hint="For one sequence of short tokens that's right. With a batch `.T` reverses the order "
        "of all axes, the batch included. Long tokens are another matter, and can wait. → Which "
        "two axes should change places, counted from the end?",
    ),
    Misconception(
        name="x.T turns all axes round, one maximum for all tokens",
        wrong=_self(scores=lambda x: x @ x.T, weigh=_global_shift),
        hint="For one sequence of tokens that are equally long that's right. With a batch `.T` "
        "reverses the order of all axes, the batch included. The maximum is another matter, and "
        "can wait. → Which two axes should change places, counted from the end?",
    ),
    Misconception(
        name="the axis counted from the front",
        wrong=_self(weigh=lambda s: _softmax(s, axis=1)),
        hint="For one sequence that's right. In a batch axis 1 is another one, and your columns "
        "sum to 1 in the place of your rows. → Which number names the last axis however many "
        "there are in front?",
    ),
    Misconception(
        name="the axis counted from the front, no maximum subtracted",
        wrong=_self(weigh=lambda s: np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)),
        hint="For one sequence of short tokens that's right. In a batch axis 1 is another one, and "
        "your columns sum to 1 in the place of your rows. Long tokens can wait. → Which number "
        "names the last axis however many there are in front?",
    ),
    Misconception(
        name="features ask features",
        wrong=_self_of_features,
        hint="Your table has a row and a column for each of the d numbers of a token, not for each "
        "token: columns were multiplied with columns. → In X Xᵀ, what does a row of X meet?",
    ),
    Misconception(
        name="cosines",
        wrong=_self(scores=_cosines),
        hint="You compare directions only: every token scores 1 with itself, however long it is. "
        "→ Does the docstring's formula divide by lengths?",
    ),
    Misconception(
        name="softmax applied twice",
        wrong=_self(weigh=lambda s: _softmax(_softmax(s))),
        hint="These weights are what softmax makes of weights: much too even. → How often is "
        "softmax applied on the way to your result?",
    ),
    Misconception(
        name="mixed by columns",
        wrong=_self(mix=lambda p, x: p.swapaxes(-2, -1) @ x),
        hint="Your weights are right, but each token is mixed with the weights that *others* give "
        "it: they don't sum to 1. → Is it a row or a column of the weights that answers one token?",
    ),
    Misconception(
        name="the token itself added",
        wrong=_self(mix=lambda p, x: x + p @ x),
        hint="Your weights are right; the output is the weighted mean plus the token itself. That "
        "sum is a residual connection, which belongs to the model around the attention. → What "
        "does the docstring's formula add up?",
    ),
    Misconception(
        name="weights times scores",
        wrong=_self(mix=lambda p, x: p @ _products(x)),
        hint="Your weights are right, but what they weigh are rows of scores. → The weighted mean "
        "of what is the output, if it's to have the width of a token?",
    ),
    Misconception(
        name="weights first",
        wrong=_self_swapped,
        hint="Both results are right but come in the other order. → Which one does the docstring's "
        "Returns name first?",
    ),
    Misconception(
        name="the tokens are overwritten",
        wrong=_self_overwriting,
        hint="All numbers are right, but the caller's tokens are gone: your function writes its "
        "output into its argument. → Which line changes `x` itself?",
    ),
]


def _self_loops(x: NDArray) -> tuple[Any, Any]:
    n = x.shape[-2]
    weights = np.zeros((*x.shape[:-1], n))
    output = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        lead = place[:-1]
        scores = [float(x[place] @ x[(*lead, j)]) for j in range(n)]
        parts = [exp(s - max(scores)) for s in scores]
        for j, part in enumerate(parts):
            weights[(*place, j)] = part / sum(parts)
            output[place] += weights[(*place, j)] * x[(*lead, j)]
    return output, weights


def _self_einsum(x: NDArray) -> tuple[Any, Any]:
    scores = np.einsum("...ic,...jc->...ij", x, x)
    # one over the sum of e^(s_j − s_i): where that is ∞, the weight is 0
    with np.errstate(over="ignore"):
        weights = 1.0 / np.exp(scores[..., None, :] - scores[..., :, None]).sum(axis=-1)
    return np.einsum("...ij,...jc->...ic", weights, x), weights


def _self_distances(x: NDArray) -> tuple[Any, Any]:
    """x·y = (|x|² + |y|² − |x − y|²) / 2, and |x|² cancels in the row."""
    squares = ((x[..., :, None, :] - x[..., None, :, :]) ** 2).sum(axis=-1)
    weights = _softmax(((x**2).sum(axis=-1)[..., None, :] - squares) / 2)
    return weights @ x, weights


def _self_torch(x: Any) -> tuple[Any, Any]:
    import torch

    weights = torch.softmax(x @ x.mT, dim=-1)
    return weights @ x, weights


_SELF_ATTENTION = Exercise(
    id="02.self_attention",
    function="self_attention",
    reference=ref.plain_self_attention,
    guarded=[ref.attend],
    cases=_SELF_CASES,
    returns=("output", "weights"),
    misconceptions=_SELF_WRONG,
    alternatives=[
        Alternative(name="loops", right=_self_loops),
        Alternative(name="einsum, and weights from differences", right=_self_einsum),
        Alternative(name="scores from distances", right=_self_distances),
        Alternative(name="torch", right=_self_torch, backend="torch"),
    ],
    hints=[
        "Three lines: the scores of all pairs in one product, softmax along each row, and one more "
        "product.",
        "Row i of X Xᵀ holds what token i scores with all tokens. Softmax takes each row's own "
        "maximum away first; `keepdims=True` keeps the axis.",
        "For a batch, swap the last two axes only: `x.swapaxes(-2, -1)`. The output is weights "
        "times tokens.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 02.equivariance_gap ---------------------------------------------------------------------------


class Layer:
    """A function on tokens with a name, which is what a report prints of it.

    Parameters
    ----------
    name : str
    rule : callable
        From a float array (n, d) to an array whose first axis has length n.

    Examples
    --------
    >>> Layer("each token doubled", lambda x: 2 * x)
    each token doubled
    """

    def __init__(self, name: str, rule: Callable[[NDArray], NDArray]) -> None:
        self._name = name
        self._rule = rule

    def __repr__(self) -> str:
        return self._name

    def __call__(self, x: Any) -> Any:
        """Apply the rule to a copy; tensors come back as tensors."""
        if is_tensor(x):
            return to_tensors(np.asarray(self._rule(x.detach().cpu().numpy().copy())))
        return np.asarray(self._rule(np.array(x, dtype=float)))


def equivariance_gap(function: Callable[[NDArray], NDArray], x: NDArray) -> float:
    """Return how far at most a function is from treating all orders of its tokens alike.

    Parameters
    ----------
    function : callable
        From an array (n, d) to an array whose first axis has length n.
    x : float array, (n, d)
        The tokens: few of them, since all n! orders are tried.

    Returns
    -------
    float
        The largest |function(x[p]) − function(x)[p]| over all permutations p and all numbers.
    """
    return _gap(function, x)


def _gap(function: Any, x: NDArray) -> float:
    return max(_gaps(function, x, permutations(range(len(x)))))


def _gaps(function: Any, x: NDArray, orders: Iterable[Sequence[int]]) -> list[float]:
    y = function(x)
    return [float(np.abs(function(x[list(p)]) - y[list(p)]).max()) for p in orders]


def _attention_rule(x: NDArray) -> NDArray:
    return _softmax(_products(x)) @ x


def _falling_rule(by: float) -> Callable[[NDArray], NDArray]:
    """Return what adds a number to the first token's output where first numbers only fall."""

    def rule(x: NDArray) -> NDArray:
        y = np.tanh(x)
        if (np.diff(x[:, 0]) < 0).all():
            y[0] += by
        return y

    return rule


def _fading_rule(x: NDArray) -> NDArray:
    state = np.zeros_like(x[0])
    for token in x:
        state = state / 2 + token
    return np.concatenate([x + state, x - state], axis=1)


def _length_rule(x: NDArray) -> NDArray:
    return np.sqrt((x**2).sum(axis=-1))


_LENGTHS = Layer("the length of each token", _length_rule)
_ATTENTION = Layer("self-attention", _attention_rule)
_FADING = Layer(
    "each token with the last state of s = s/2 + x, once added, once taken away", _fading_rule
)
_FALLING = Layer("something else where first numbers only fall", _falling_rule(0.4))
_LESS = Layer("something less where first numbers only fall", _falling_rule(-0.4))


def _fed(layer: Layer, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    """Draw tokens whose first numbers differ and neither rise nor fall throughout."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 3, n, d])
        while True:
            x = draw(rng, n, d)
            steps = np.diff(x[:, 0])
            if len(set(x[:, 0])) == n and (steps > 0).any() and (steps < 0).any():
                return {"function": layer, "x": x}

    return build


def _fed_one_order(
    order: Sequence[int], layer: Layer = _FALLING
) -> Callable[[int], dict[str, Any]]:
    """Draw tokens whose first numbers fall in one order of all, which is the one given."""

    def build(seed: int) -> dict[str, Any]:
        x = draw(np.random.default_rng([seed, 4, *order]), len(order), 2)
        # no two alike, however the draw is rounded
        x[list(order), 0] = np.sort(x[:, 0])[::-1] - np.arange(len(order)) / 8
        return {"function": layer, "x": x}

    return build


# Each of five orders is the only one of 120 that shows the gap. Who tries all orders of one kind
# finds it where it's of that kind; who tries some at random finds next to none.
_GAP_CASES = [
    Case(
        name="self-attention",
        inputs=_fed(_ATTENTION, 4, 4),
        shows="no gap but rounding",
    ),
    Case(
        name="one order of 120 is treated otherwise",
        inputs=_fed_one_order([2, 4, 0, 3, 1]),
        shows="the gap is 0.4, and in any other order there's none",
    ),
    Case(
        name="another one, two neighbours swapped",
        inputs=_fed_one_order([0, 1, 3, 2, 4]),
        shows="again one order of 120",
    ),
    Case(
        name="another one, first and last swapped",
        inputs=_fed_one_order([4, 1, 2, 3, 0]),
        shows="again one order of 120",
    ),
    Case(
        name="another one, all turned in a circle",
        inputs=_fed_one_order([2, 3, 4, 0, 1]),
        shows="again one order of 120",
    ),
    Case(
        name="another one, all reversed",
        inputs=_fed_one_order([4, 3, 2, 1, 0], _LESS),
        shows="once more one order of 120, and the difference is below 0",
    ),
    Case(
        name="each token with an RNN's last state",
        inputs=_fed(_FADING, 5, 3),
        shows="each order has a gap of its own",
    ),
    Case(
        name="one number a token",
        inputs=_fed(_LENGTHS, 3, 4),
        shows="an output without a second axis, and no gap",
    ),
]


def _compared(
    left: Callable[[Any, NDArray, list[int]], NDArray] = lambda f, x, p: f(x[p]),
    right: Callable[[Any, NDArray, list[int]], NDArray] = lambda f, x, p: f(x)[p],
    measure: Callable[[NDArray], Any] = lambda d: np.abs(d).max(),
    over: Callable[[list[float]], float] = max,
) -> Callable[[Any, NDArray], Any]:
    """Return the tester over all orders, with some steps replaced."""

    def gap(function: Any, x: NDArray) -> Any:
        orders = [list(p) for p in permutations(range(len(x)))]
        return over([float(measure(left(function, x, p) - right(function, x, p))) for p in orders])

    return gap


def _tried(orders: Callable[[int], Iterable[Sequence[int]]]) -> Callable[[Any, NDArray], Any]:
    """Return the tester over some orders only."""
    return lambda function, x: max(_gaps(function, x, orders(len(x))))


def _turns(n: int) -> Iterable[Sequence[int]]:
    return [[(i + k) % n for i in range(n)] for k in range(n)]


def _neighbour_swaps(n: int) -> Iterable[Sequence[int]]:
    return [[*range(i), i + 1, i, *range(i + 2, n)] for i in range(n - 1)]


def _all_swaps(n: int) -> Iterable[Sequence[int]]:
    for i in range(n):
        for j in range(i):
            order = list(range(n))
            order[i], order[j] = j, i
            yield order


def _some_at_random(n: int) -> Iterable[Sequence[int]]:
    rng = np.random.default_rng(0)
    return [rng.permutation(n).tolist() for _ in range(4)]


def _gap_of_features(function: Any, x: NDArray) -> Any:
    y = function(x)
    orders = map(list, permutations(range(x.shape[1])))
    return max(float(np.abs(function(x[:, p]) - y[:, p]).max()) for p in orders)


def _gap_of_tuples(function: Any, x: NDArray) -> Any:
    return max(
        float(np.abs(function(x[p]) - function(x)[p]).max()) for p in permutations(range(len(x)))
    )


def _gap_relative(function: Any, x: NDArray) -> Any:
    return _gap(function, x) / np.abs(function(x)).max()


def _gap_as_answer(function: Any, x: NDArray) -> Any:
    return _gap(function, x) < 1e-9


def _gap_as_doubt(function: Any, x: NDArray) -> Any:
    return _gap(function, x) > 1e-9


def _gap_overwriting(function: Any, x: NDArray) -> Any:
    gap = _gap(function, x)
    x[...] = x[::-1].copy()
    return gap


_GAP_WRONG = [
    Misconception(
        name="invariance tested",
        wrong=_compared(right=lambda f, x, p: f(x)),
        hint="You ask whether the output stays as it is when the tokens are shuffled. That's "
        "*in*variance: it's true of sorting, and false of self-attention. Equivariance lets the "
        "output be shuffled along. → What has to happen to function(x) before it's compared?",
    ),
    Misconception(
        name="shuffled back the wrong way",
        wrong=_compared(left=lambda f, x, p: f(x[p])[p], right=lambda f, x, p: f(x)),
        hint="You shuffle the wrong way on one side: by p where the inverse of p belongs, or the "
        "reverse. For a swap of two tokens the two are the same, for a turn of three they aren't. "
        "→ If row 0 of x[p] is x[p[0]], which row of function(x) belongs there?",
    ),
    Misconception(
        name="the tokens not shuffled",
        wrong=_compared(left=lambda f, x, p: f(x)),
        hint="Both sides call the function on tokens in the same order, so you measure how far "
        "its outputs differ from each other. → On which side has x to be shuffled *before* the "
        "call?",
    ),
    Misconception(
        name="a tuple for an index",
        wrong=_gap_of_tuples,
        hint="`permutations` yields tuples, and to numpy x[(2, 0, 1)] is x[2, 0, 1]: one entry of "
        "an array with three axes. → What has a tuple to be turned into so that it picks rows?",
    ),
    Misconception(
        name="two axes taken for granted",
        wrong=_compared(left=lambda f, x, p: f(x[p, :]), right=lambda f, x, p: f(x)[p, :]),
        hint="All is well as long as the output has two axes; a function may return one number a "
        "token. → Which index picks entries along the first axis, however many others there are?",
    ),
    Misconception(
        name="the output's columns shuffled",
        wrong=_compared(right=lambda f, x, p: f(x)[:, p]),
        hint="You shuffle the columns of the output. Tokens are rows. → Which axis of function(x) "
        "has as many entries as there are tokens?",
    ),
    Misconception(
        name="features shuffled",
        wrong=_gap_of_features,
        hint="You shuffle the numbers inside of each token; the tokens stay in their places. → "
        "Which axis of x do the tokens lie along?",
    ),
    Misconception(
        name="some orders at random",
        wrong=_tried(_some_at_random),
        hint="You try some orders, or one, and those that matter aren't among them: they look "
        "like orders drawn at random. (With `default_rng()` your answer may even be another one "
        "at each call.) 5 tokens have only 120 orders. → What in itertools yields them all?",
    ),
    Misconception(
        name="only reversed",
        wrong=_tried(lambda n: [range(n)[::-1]]),
        hint="All tokens reversed seems to be among the orders you try, perhaps the only one; "
        "others are missing. (`permutations` yields it last: perhaps your loop keeps just the last "
        "gap.) → How many orders do n tokens have, and where is the "
        "largest gap so far kept?",
    ),
    Misconception(
        name="only turned",
        wrong=_tried(_turns),
        hint="Orders that turn the tokens in a circle seem to be among those you try, others are "
        "missing. → How many orders do n tokens have, and what in itertools yields them all?",
    ),
    Misconception(
        name="only the first two swapped",
        wrong=_tried(lambda n: [[1, 0, *range(2, n)]]),
        hint="One swap of the first two tokens is one order of n!, and says nothing about the "
        "others. → What in itertools yields all orders?",
    ),
    Misconception(
        name="only neighbours swapped",
        wrong=_tried(_neighbour_swaps),
        hint="Swaps of neighbours seem to be among the orders you try, others are missing. Every "
        "order can be *made* of such swaps, but a function may treat all of these well and "
        "another one not. → What in itertools yields all orders?",
    ),
    Misconception(
        name="only two swapped",
        wrong=_tried(_all_swaps),
        hint="Swaps of two tokens seem to be among the orders you try, others are missing. A "
        "function may treat all swaps alike and another order not. → What "
        "in itertools yields all orders?",
    ),
    Misconception(
        name="the smallest gap",
        wrong=_compared(over=min),
        hint="You return the smallest gap. The tokens as they are count as an order too, and their "
        "gap is always 0. → Which one of the gaps would prove a function guilty?",
    ),
    Misconception(
        name="the mean over the orders",
        wrong=_compared(over=lambda gaps: sum(gaps) / len(gaps)),
        hint="You average over the orders, so a function that treats one of 120 otherwise gets "
        "away with a 120th. → Which one of the gaps is asked for?",
    ),
    Misconception(
        name="the mean of the numbers",
        wrong=_compared(measure=lambda d: np.abs(d).mean()),
        hint="You average over the numbers of an output. The docstring asks for the largest one, "
        "so that a fault in one place isn't thinned out. → Which function has to stand in the "
        "place of `mean`?",
    ),
    Misconception(
        name="the sum of the numbers",
        wrong=_compared(measure=lambda d: np.abs(d).sum()),
        hint="You add up the differences over all numbers, so your gap grows with the size of the "
        "output. → Which function has to stand in the place of `sum`?",
    ),
    Misconception(
        name="the length of the difference",
        wrong=_compared(measure=lambda d: np.linalg.norm(d)),
        hint="You measure the difference by its length, the root of the sum of squares; asked for "
        "is the largest single number in it. → Which function gives that?",
    ),
    Misconception(
        name="squared differences",
        wrong=_compared(measure=lambda d: (d**2).max()),
        hint="Your gaps are the squares of the right ones. → What turns a difference into a size "
        "without changing how large it is?",
    ),
    Misconception(
        name="the sign left in",
        wrong=_compared(measure=lambda d: d.max()),
        hint="You take the largest difference with its sign: one that is far below 0 doesn't "
        "count. → What is missing before the maximum is taken?",
    ),
    Misconception(
        name="only the sums compared",
        wrong=_compared(measure=lambda d: abs(d.sum())),
        hint="You compare sums, in which differences with opposite signs cancel: shuffled rows "
        "always have the same sum. → Should the difference be taken before or after adding up, "
        "and is there anything to add up at all?",
    ),
    Misconception(
        name="relative to the output",
        wrong=_gap_relative,
        hint="You divide by the largest number of the output. That's often wise, but the "
        "docstring asks for the gap as it is. → Which division can go?",
    ),
    Misconception(
        name="a verdict that it's equivariant",
        wrong=_gap_as_answer,
        hint="You return True or False; a size is wanted, a number. How large a gap is too large "
        "is for the caller to say. → Which number do you compare with the threshold?",
    ),
    Misconception(
        name="a verdict that it isn't",
        wrong=_gap_as_doubt,
        hint="You return whether there is a gap; a size is wanted, how large it is. What counts as "
        "too large is for the caller to say. → Which number do you compare with the threshold?",
    ),
    Misconception(
        name="the tokens left shuffled",
        wrong=_gap_overwriting,
        hint="The gap is right, but the caller's tokens are in another order than before: `x` "
        "itself was shuffled, as `np.random.shuffle` or `x[:] = …` does. → Which expression gives "
        "a shuffled copy?",
    ),
]


def _gap_matrices(function: Any, x: NDArray) -> Any:
    """Shuffle by permutation matrices: P f(x) against f(P x)."""
    eye, y = np.eye(len(x)), function(x)
    gaps = []
    for p in permutations(range(len(x))):
        shuffle = eye[list(p)]
        gaps.append(np.abs(function(shuffle @ x) - shuffle @ y).max())
    return np.max(gaps)


def _gap_undone(function: Any, x: NDArray) -> Any:
    """Shuffle, call, and put the output back in order."""
    y, worst = function(x), 0.0
    for p in permutations(range(len(x))):
        back = np.argsort(p)
        worst = max(worst, np.max(np.abs(function(x[list(p)])[back] - y)))
    return worst


def _gap_recursive(function: Any, x: NDArray) -> Any:
    y = function(x)

    def worst(chosen: list[int], left: list[int]) -> float:
        if not left:
            return float(abs(function(x[chosen]) - y[chosen]).max())
        return max(worst([*chosen, i], [j for j in left if j != i]) for i in left)

    return worst([], list(range(len(x))))


def _gap_torch(function: Any, x: Any) -> Any:
    import torch

    y, worst = function(x), torch.zeros(())
    for p in permutations(range(len(x))):
        order = torch.tensor(p)
        worst = torch.maximum(worst, (function(x[order]) - y[order]).abs().max())
    return worst


_EQUIVARIANCE_GAP = Exercise(
    id="02.equivariance_gap",
    function="equivariance_gap",
    reference=equivariance_gap,
    cases=_GAP_CASES,
    returns=("gap",),
    misconceptions=_GAP_WRONG,
    alternatives=[
        Alternative(name="permutation matrices", right=_gap_matrices),
        Alternative(name="put back in order", right=_gap_undone),
        Alternative(name="recursion", right=_gap_recursive),
        Alternative(name="torch", right=_gap_torch, backend="torch"),
    ],
    hints=[
        "Take one order first, say p = [2, 0, 1]. `x[p]` shuffles the tokens. What should the "
        "output of an equivariant function then look like, compared with function(x)?",
        "Two ways to the same place: shuffle and then call, or call and then shuffle. The gap is "
        "the largest absolute difference between them.",
        "`itertools.permutations(range(n))` yields all orders, as tuples: make each a list before "
        "you index with it. Keep the largest gap.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 02.layer_flops --------------------------------------------------------------------------------


def layer_flops(n: int, d: int) -> tuple[int, int]:
    """Return the FLOPs of the matrix products of self-attention and of an RNN.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Width of a token, and of the RNN's state.

    Returns
    -------
    attention : int
        Of softmax(X Xᵀ) X.
    recurrence : int
        Of n steps s = tanh(W_x x + W_h s).
    """
    attention = accounting.total(accounting.plain_self_attention(n, d))
    recurrence = accounting.total(accounting.rnn(n, d))
    return attention.flops, recurrence.flops


_FLOPS_CASES = [
    Case(name="3 tokens of width 2", inputs={"n": 3, "d": 2}, shows="small enough for paper"),
    Case(
        name="one token", inputs={"n": 1, "d": 5}, shows="attention has one score, the RNN a step"
    ),
    Case(name="width 1", inputs={"n": 7, "d": 1}, shows="the RNN multiplies two numbers a step"),
    Case(name="as many tokens as they are wide", inputs={"n": 64, "d": 64}, shows="a draw"),
    Case(
        name="a sentence in the paper's width",
        inputs={"n": 30, "d": 512},
        shows="attention needs less",
    ),
    Case(
        name="a long text",
        inputs={"n": 100_000, "d": 128},
        shows="attention needs more",
    ),
]


def _flops(
    attention: Callable[[int, int], Any] = lambda n, d: 4 * n * n * d,
    recurrence: Callable[[int, int], Any] = lambda n, d: 4 * n * d * d,
) -> Callable[[int, int], tuple[Any, Any]]:
    return lambda n, d: (attention(n, d), recurrence(n, d))


_FLOPS_WRONG = [
    Misconception(
        name="multiplications only",
        wrong=_flops(lambda n, d: 2 * n * n * d, lambda n, d: 2 * n * d * d),
        valid_variant=True,
        hint="this exercise uses the count in which a multiplication and an addition are 1 FLOP "
        "each, 2 m k p for a product of (m × k) and (k × p); you count the pair once. → By which "
        "factor are both your numbers too small?",
    ),
    Misconception(
        name="multiplications only in attention",
        wrong=_flops(attention=lambda n, d: 2 * n * n * d),
        hint="Your RNN is right, your attention half of what it should be: one of its two "
        "products is missing, or its additions are. → After the scores, which product makes the "
        "output, and what does each cost?",
    ),
    Misconception(
        name="one of the RNN's two products",
        wrong=_flops(recurrence=lambda n, d: 2 * n * d * d),
        hint="Your attention is right, your RNN half of what it should be. A step multiplies two "
        "vectors by a matrix each, and every multiplication has its addition. → Which two "
        "products does W_x x + W_h s hold?",
    ),
    Misconception(
        name="one product in each",
        wrong=_flops(lambda n, d: n * n * d, lambda n, d: n * d * d),
        hint="Both numbers are a quarter of what they should be. That's the size without its "
        "factor: fine for O(·), not for a count. → How many products are there in each layer, and "
        "what is 2 m k p for each?",
    ),
    Misconception(
        name="one step of the RNN",
        wrong=_flops(recurrence=lambda n, d: 4 * d * d),
        hint="Your attention is right; your RNN has the cost of a single step. → How many steps "
        "does a sequence of n tokens take?",
    ),
    Misconception(
        name="one step too few",
        wrong=_flops(recurrence=lambda n, d: 4 * (n - 1) * d * d),
        hint="Your RNN takes n − 1 steps. The first token goes through a step as well, from the "
        "state before it. → How many states does a sequence of n tokens have?",
    ),
    Misconception(
        name="attention of one token",
        wrong=_flops(attention=lambda n, d: 4 * n * d),
        hint="Your attention is that of a single token that asks. → How many tokens ask?",
    ),
    Misconception(
        name="the two swapped",
        wrong=_flops(lambda n, d: 4 * n * d * d, lambda n, d: 4 * n * n * d),
        hint="Your two numbers have changed places, or n and d have. Attention compares every "
        "token with every token; the RNN multiplies by d × d matrices. → Which of the two grows "
        "with the square of the length?",
    ),
    Misconception(
        name="one addition fewer for each number",
        wrong=_flops(
            lambda n, d: n * n * (2 * d - 1) + n * d * (2 * n - 1),
            lambda n, d: n * 2 * d * (2 * d - 1),
        ),
        valid_variant=True,
        hint="this exercise uses 2 m k p for a product, as PyTorch's counter does; you count, "
        "exactly, k − 1 additions for a sum of k numbers. → What does the rule in the text give?",
    ),
    Misconception(
        name="softmax counted",
        wrong=_flops(attention=lambda n, d: 4 * n * n * d + 5 * n * n),
        hint="You count softmax as well, 5 for each score. True, but only matrix products are "
        "asked for here. → Which two lines of self-attention hold one?",
    ),
    Misconception(
        name="everything counted",
        wrong=_flops(
            lambda n, d: 4 * n * n * d + 5 * n * n,
            lambda n, d: 4 * n * d * d + 2 * n * d,
        ),
        hint="You count softmax, the sum and tanh as well. True, but only matrix products are "
        "asked for here. → What is left if all that runs element by element is taken out?",
    ),
    Misconception(
        name="exponentials and tanh counted",
        wrong=_flops(
            lambda n, d: 4 * n * n * d + n * n,
            lambda n, d: 4 * n * d * d + n * d,
        ),
        hint="You count an exponential for each score and a tanh for each number of the state as "
        "well. True, but only matrix products are asked for here. → What is left if all that runs "
        "element by element is taken out?",
    ),
    Misconception(
        name="softmax and tanh counted",
        wrong=_flops(
            lambda n, d: 4 * n * n * d + 5 * n * n,
            lambda n, d: 4 * n * d * d + n * d,
        ),
        hint="You count softmax and tanh as well. True, but only matrix products are asked for "
        "here. → What is left if all that runs element by element is taken out?",
    ),
    Misconception(
        name="tanh counted",
        wrong=_flops(recurrence=lambda n, d: 4 * n * d * d + n * d),
        hint="You count something for each number of the RNN's state as well, such as its tanh. "
        "True, but only matrix products are asked for here. → What is left of a step if all that "
        "runs element by element is taken out?",
    ),
    Misconception(
        name="the bias counted too",
        wrong=_flops(recurrence=lambda n, d: 4 * n * d * d + 3 * n * d),
        hint="You count sums, biases and tanh of the RNN as well. True, but only matrix products "
        "are asked for here. → What is left of a step if all that runs element by element is "
        "taken out?",
    ),
    Misconception(
        name="the sum and tanh counted",
        wrong=_flops(recurrence=lambda n, d: 4 * n * d * d + 2 * n * d),
        hint="You count the RNN's sum and tanh as well. True, but only matrix products are asked "
        "for here. → What is left of a step if all that runs element by element is taken out?",
    ),
    Misconception(
        name="three projections",
        wrong=_flops(attention=lambda n, d: 4 * n * n * d + 6 * n * d * d),
        hint="You count three projections, which a later chapter puts in front of attention. Here "
        "tokens meet as they are: softmax(X Xᵀ) X. → Which products are in that formula?",
    ),
    Misconception(
        name="four projections",
        wrong=_flops(attention=lambda n, d: 4 * n * n * d + 8 * n * d * d),
        hint="You count four projections, as a whole Transformer layer has them. Here tokens meet "
        "as they are: softmax(X Xᵀ) X. → Which products are in that formula?",
    ),
    Misconception(
        name="only pairs that look back",
        wrong=_flops(attention=lambda n, d: 2 * n * (n + 1) * d),
        hint="You count each pair of tokens once, as if a token looked only at those before it. "
        "→ How many scores are there in X Xᵀ?",
    ),
    Misconception(
        name="a gated RNN",
        wrong=_flops(recurrence=lambda n, d: 16 * n * d * d),
        hint="Your RNN is four times too dear: that's an LSTM, with four gates. → How many "
        "matrices are in tanh(W_x x + W_h s)?",
    ),
    Misconception(
        name="the state also multiplied by the length",
        wrong=_flops(recurrence=lambda n, d: 4 * n * n * d * d),
        hint="Your RNN grows with the square of the length. Each of its n steps multiplies a "
        "vector, not the whole sequence. → What are the two shapes in W_h s?",
    ),
]


def _product_flops(m: int, k: int, p: int) -> int:
    return 2 * m * k * p


def _flops_by_products(n: int, d: int) -> tuple[Any, Any]:
    attention = _product_flops(n, d, n) + _product_flops(n, n, d)
    return attention, sum(2 * _product_flops(1, d, d) for _ in range(min(n, 1))) * n


def _flops_one_weight(n: int, d: int) -> list[Any]:
    """Lay token and state end to end, and the two matrices side by side."""
    return [np.int64(2 * n) * n * (d + d), np.int64(n) * 2 * (2 * d) * d]


def _flops_tuple_of_arrays(n: int, d: int) -> tuple[Any, Any]:
    both = np.array([n, d]) * (4 * n * d)
    return both[0], both[1]


def _flops_torch(n: int, d: int) -> Any:
    import torch

    pair = torch.tensor([n, d]) * 4 * n * d
    return pair[0], pair[1]


_LAYER_FLOPS = Exercise(
    id="02.layer_flops",
    function="layer_flops",
    reference=layer_flops,
    guarded=[accounting.plain_self_attention, accounting.rnn],
    cases=_FLOPS_CASES,
    returns=("attention", "recurrence"),
    misconceptions=_FLOPS_WRONG,
    alternatives=[
        Alternative(name="product by product", right=_flops_by_products),
        Alternative(name="one weight for both, as a list", right=_flops_one_weight),
        Alternative(name="both at once", right=_flops_tuple_of_arrays),
        Alternative(name="torch", right=_flops_torch, backend="torch"),
    ],
    hints=[
        "Write each layer as matrix products and note the shapes of the factors. A product of "
        "(m × k) and (k × p) costs 2 m k p.",
        "Self-attention has two products: (n × d) times (d × n), then (n × n) times (n × d). A "
        "step of the RNN has two as well, each a (d × d) matrix times a vector.",
        "Don't forget that the RNN takes n steps. Softmax, tanh and the sum aren't products of "
        "matrices.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 02.crossover ----------------------------------------------------------------------------------


def crossover(d: int, gates: int = 1, projections: int = 0) -> int:
    """Return the length from which on self-attention needs more FLOPs than a recurrent layer.

    Parameters
    ----------
    d : int
        Width of tokens and states.
    gates : int, default 1
        Pairs of matrices that a step of the recurrent layer multiplies by.
    projections : int, default 0
        d × d matrices that the attention layer multiplies every token by.

    Returns
    -------
    int
        The smallest n of at least 1 at which attention needs more.
    """
    # 4 n² d + 2 projections n d² > 4 gates n d²
    return max(1, d * (2 * gates - projections) // 2 + 1)


_CROSSOVER_CASES = [
    Case(
        name="an RNN, the paper's width",
        inputs={"d": 512},
        shows="at n = d it's a draw, at d + 1 attention needs more",
    ),
    Case(name="an LSTM", inputs={"d": 512, "gates": 4}, shows="four times as much a step"),
    Case(
        name="one projection, an even width",
        inputs={"d": 6, "gates": 1, "projections": 1},
        shows="again a draw first",
    ),
    Case(
        name="one projection, an odd width",
        inputs={"d": 7, "gates": 1, "projections": 1},
        shows="no draw: it lies between two lengths",
    ),
    Case(
        name="a GRU and four projections",
        inputs={"d": 100, "gates": 3, "projections": 4},
        shows="back to d + 1",
    ),
    Case(
        name="an RNN and four projections",
        inputs={"d": 64, "gates": 1, "projections": 4},
        shows="attention needs more from the first token on",
    ),
    Case(
        name="an LSTM and three projections",
        inputs={"d": 9, "gates": 4, "projections": 3},
        shows="all of it together",
    ),
]


def _crossing(
    x: Callable[[int, int, int], float],
    finish: Callable[[float], Any] = lambda x: max(1, int(np.floor(x)) + 1),
) -> Callable[..., Any]:
    """Return the crossover for a length of equality that is computed otherwise, or rounded so."""

    def wrong(d: int, gates: int = 1, projections: int = 0) -> Any:
        return finish(x(d, gates, projections))

    return wrong


def _draw_at(d: int, gates: int, projections: int) -> float:
    return d * (gates - projections / 2)


_CROSSOVER_WRONG = [
    Misconception(
        name="the draw itself",
        wrong=_crossing(_draw_at, lambda x: max(1, int(np.ceil(x)))),
        hint="Where both need the same, you already say that attention needs more: a ≥ where a > "
        "is asked for. → At n = d, who needs more, an RNN or self-attention?",
    ),
    Misconception(
        name="the draw itself, and below 1",
        wrong=_crossing(_draw_at, lambda x: int(np.ceil(x))),
        hint="You return the length at which both need the same, rounded up; asked for is the "
        "first one beyond it, and never less than 1. → At n = d, who needs more, an RNN or "
        "self-attention?",
    ),
    Misconception(
        name="the last length at which attention doesn't need more, and below 1",
        wrong=_crossing(_draw_at, lambda x: int(np.floor(x))),
        hint="You return the last length at which attention doesn't need more, and where the "
        "projections alone cost more than the recurrence even one below 0. → What is the first "
        "length of a sequence at which it does?",
    ),
    Misconception(
        name="the last length at which attention doesn't need more",
        wrong=_crossing(_draw_at, lambda x: max(1, int(np.floor(x)))),
        hint="You return the last length at which attention doesn't need more. → What is the first "
        "one at which it does?",
    ),
    Misconception(
        name="as a float",
        wrong=_crossing(_draw_at, float),
        hint="Your function returns where the two costs are equal, as a float. A length is a whole "
        "number, and the first one *beyond* that is asked for. → Which whole number follows 3.5, "
        "and which one follows 3.0?",
    ),
    Misconception(
        name="below 1",
        wrong=_crossing(_draw_at, lambda x: int(np.floor(x)) + 1),
        hint="Where the projections alone cost more than the recurrence, your formula gives a "
        "length below 1. → Which is the shortest sequence there is?",
    ),
    Misconception(
        name="rounded and one added",
        wrong=_crossing(_draw_at, lambda x: max(1, int(np.floor(x + 0.5)) + 1)),
        hint="Where the two costs are equal between two lengths, you're one too far: you round up "
        "and then add 1. → Which whole number is the first above 3.5?",
    ),
    Misconception(
        name="rounded and one added, and below 1",
        wrong=_crossing(_draw_at, lambda x: int(np.floor(x + 0.5)) + 1),
        hint="Where the two costs are equal between two lengths, you're one too far: something is "
        "rounded (perhaps by `//`, on one part only) before 1 is added. And no sequence is shorter "
        "than 1. → Which whole number is the first above 3.5?",
    ),
    Misconception(
        name="projections of one token",
        wrong=lambda d, gates=1, projections=0: next(
            n for n in range(1, 100_000) if 2 * n * n + projections * d > 2 * gates * n * d
        ),
        hint="Without projections you're right. With them your attention is too cheap: every token "
        "is multiplied, and you count one. → How often does each projection come up in a sequence "
        "of n tokens?",
    ),
    Misconception(
        name="a projection at half its cost",
        wrong=_crossing(lambda d, g, p: d * (g - p / 4)),
        hint="Without projections you're right. A projection costs you n d² FLOPs, half of what it "
        "should: in this count a multiplication and an addition are 1 each. → What is 2 m k p for "
        "(n × d) times (d × d)?",
    ),
    Misconception(
        name="gates left out",
        wrong=_crossing(lambda d, g, p: d * (1 - p / 2)),
        hint="Your answer is the same for an RNN and an LSTM. → Where does `gates` come in: which "
        "of the two costs grows with it?",
    ),
    Misconception(
        name="projections left out",
        wrong=_crossing(lambda d, g, p: d * g),
        hint="Your answer is the same with and without projections. → What do they cost for n "
        "tokens, and on which side of the comparison does that stand?",
    ),
    Misconception(
        name="both left out",
        wrong=_crossing(lambda d, g, p: d),
        hint="You always answer d + 1, which is right for an RNN and attention without "
        "projections. → Which of the two costs grows with `gates`, and which with `projections`?",
    ),
    Misconception(
        name="a projection counted like a gate",
        wrong=_crossing(lambda d, g, p: d * (g - p)),
        hint="A projection costs you as much as a gate. A gate multiplies by two matrices, one for "
        "the token and one for the state. → How many matrices does a projection multiply by?",
    ),
    Misconception(
        name="projections on the other side",
        wrong=_crossing(lambda d, g, p: d * (g + p / 2)),
        hint="More projections make your attention cheaper: their cost was added to the "
        "recurrent layer. → Which layer has them?",
    ),
    Misconception(
        name="a gate of one matrix",
        wrong=_crossing(lambda d, g, p: d * (g - p) / 2),
        hint="A gate costs you one product. It has two, with the token and with the state. → What "
        "does a step of an RNN, with one gate, cost in FLOPs?",
    ),
    Misconception(
        name="only the scores of attention",
        wrong=_crossing(lambda d, g, p: d * (2 * g - p)),
        hint="Your attention is too cheap: the scores are one product of n² d multiplications, and "
        "there's a second. → What is done with the weights?",
    ),
    Misconception(
        name="the length at which attention needs less",
        wrong=lambda d, gates=1, projections=0: next(
            (n for n in range(1, 10_000) if 2 * n + projections * d < 2 * gates * d), 1
        ),
        hint="You return the first length at which attention needs *less*, nearly always 1: either "
        "the comparison is the wrong way round, or n and d have changed places in one of the "
        "costs. → Which of the two grows with the square of the length, and which is to be larger?",
    ),
    Misconception(
        name="d itself",
        wrong=lambda d, gates=1, projections=0: d,
        hint="You always answer d. That's where an RNN and plain attention need the same: asked "
        "for is where attention needs *more*, and for other gates and projections. → Which cost "
        "grows with `gates`, which with `projections`, and where are the two equal then?",
    ),
    Misconception(
        name="a search that ends at d",
        wrong=lambda d, gates=1, projections=0: next(
            (n for n in range(1, d + 1) if 2 * n + projections * d > 2 * gates * d), d
        ),
        hint="Your search ends at n = d, and what you look for may lie beyond it: an LSTM is four "
        "times as dear as an RNN. → How long may the sequence be before attention needs more?",
    ),
]


def _crossover_search(d: int, gates: int = 1, projections: int = 0) -> Any:
    n = 1
    while 4 * n * n * d + 2 * projections * n * d * d <= 4 * gates * n * d * d:
        n += 1
    return n


def _crossover_halving(d: int, gates: int = 1, projections: int = 0) -> Any:
    low, high = 0, 2 * gates * d + 1  # too short, long enough
    while high - low > 1:
        n = (low + high) // 2
        if 2 * n + projections * d > 2 * gates * d:
            high = n
        else:
            low = n
    return np.int64(high)


def _crossover_ceil(d: int, gates: int = 1, projections: int = 0) -> Any:
    half = 2 * gates * d - projections * d
    return max(1, -((-half - 1) // 2))


def _crossover_torch(d: int, gates: int = 1, projections: int = 0) -> Any:
    import torch

    n = torch.arange(1, 2 * gates * d + 2)
    return n[2 * n + projections * d > 2 * gates * d].min()


_CROSSOVER = Exercise(
    id="02.crossover",
    function="crossover",
    reference=crossover,
    cases=_CROSSOVER_CASES,
    returns=("length",),
    misconceptions=_CROSSOVER_WRONG,
    alternatives=[
        Alternative(name="a search", right=_crossover_search),
        Alternative(name="halving an interval", right=_crossover_halving),
        Alternative(name="rounded up", right=_crossover_ceil),
        Alternative(name="torch", right=_crossover_torch, backend="torch"),
    ],
    hints=[
        "Write down both costs for a length n: attention with its projections on the left, the "
        "recurrent layer with its gates on the right. What can be divided out?",
        "Attention: 4 n² d + 2 · projections · n d². Recurrence: 4 · gates · n d². Divided by "
        "2 n d both sides are short. You can solve for n, or try n = 1, 2, 3, …",
        "The first whole n *above* the point of equality is asked for, and never less than 1. "
        "Whole-number division `//` rounds down.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 02.steps_and_path -----------------------------------------------------------------------------

_NOWHERE = 10**6  # further than any path


def steps_and_path(layers: list[str | int], n: int) -> tuple[int, int]:
    """Return how long a stack of layers takes, and how far its last output is from its first token.

    Parameters
    ----------
    layers : list
        From the first to the last: "rnn", "attention", or an odd number, which is the width of a
        convolution around each token.
    n : int
        Tokens.

    Returns
    -------
    steps : int
        Computations that have to wait for one another, however many processors there are: the
        longest chain.
    path : int
        Computations that lead from the first token to the last output: the shortest chain, or −1
        if there's none.
    """
    return _longest(layers, n), _shortest(layers, n)


def _longest(layers: list[str | int], n: int) -> int:
    ready = [0] * n
    for layer in layers:
        ready = _pass(layer, ready, max)
    return max(ready)


def _shortest(layers: list[str | int], n: int) -> int:
    away = [0] + [_NOWHERE] * (n - 1)
    for layer in layers:
        away = _pass(layer, away, min)
    return away[-1] if away[-1] < _NOWHERE else -1


def _pass(
    layer: str | int,
    before: list[int],
    pick: Callable[..., int],
    reach: Callable[[int], int] = lambda width: width // 2,
) -> list[int]:
    """Return what each output of a layer has behind it, given what its inputs have."""
    after: list[int] = []
    for i, own in enumerate(before):
        if layer == "attention":
            sources = before
        elif layer == "rnn":
            sources = [own, *after[-1:]]
        else:
            r = reach(int(layer))
            sources = before[max(0, i - r) : i + r + 1]
        after.append(pick(sources) + 1)
    return after


_PATH_CASES = [
    Case(
        name="attention",
        inputs={"layers": ["attention"], "n": 6},
        shows="one step, and everyone is next to everyone",
    ),
    Case(
        name="an RNN",
        inputs={"layers": ["rnn"], "n": 6},
        shows="as many steps as tokens, and the path as long",
    ),
    Case(
        name="three convolutions of width 3",
        inputs={"layers": [3, 3, 3], "n": 4},
        shows="each reaches one token further",
    ),
    Case(
        name="two convolutions of width 5",
        inputs={"layers": [5, 5], "n": 8},
        shows="they don't reach far enough",
    ),
    Case(
        name="an RNN under attention",
        inputs={"layers": ["rnn", "attention"], "n": 7},
        shows="attention shortens the path, not the wait",
    ),
    Case(
        name="two RNNs",
        inputs={"layers": ["rnn", "rnn"], "n": 5},
        shows="the second needn't wait for the first to be through",
    ),
    Case(
        name="an RNN under a convolution",
        inputs={"layers": ["rnn", 5], "n": 9},
        shows="a short cut at the end",
    ),
    Case(
        name="a stack of all",
        inputs={"layers": [3, "rnn", "rnn", "attention", 5], "n": 8},
        shows="longest chain and shortest one",
    ),
]


def _by_layers(layers: list[str | int], n: int) -> int:
    return sum(n if layer == "rnn" else 1 for layer in layers)


def _chains(
    steps: Callable[[list[str | int], int], Any] = _longest,
    path: Callable[[list[str | int], int], Any] = _shortest,
) -> Callable[[list[str | int], int], tuple[Any, Any]]:
    return lambda layers, n: (steps(layers, n), path(layers, n))


def _path_with(
    reach: Callable[[int], int] = lambda width: width // 2,
    start: int = 0,
    end: int = -1,
    enter: int = 1,
    none: Any = -1,
) -> Callable[[list[str | int], int], Any]:
    """Return the path with a reach, ends or a cost of entering an RNN of its own."""

    def path(layers: list[str | int], n: int) -> Any:
        away = [_NOWHERE] * n
        away[start] = 0
        for layer in layers:
            if layer == "rnn":
                after: list[int] = []
                for own in away:
                    after.append(min(own + enter, *[last + 1 for last in after[-1:]], _NOWHERE))
                away = after
            else:
                away = _pass(layer, away, min, reach)
        return away[end] if away[end] < _NOWHERE else none

    return path


def _count(layers: list[str | int], n: int) -> int:
    return len(layers)


def _steps_where(
    attention: bool = False, convolution: bool = False
) -> Callable[[list[str | int], int], int]:
    """Count n steps in a row for layers that need one."""

    def steps(layers: list[str | int], n: int) -> int:
        rnns: list[str | int] = [layer for layer in layers if layer == "rnn"]
        slow = [attention if layer == "attention" else convolution for layer in layers]
        waits = [n if s else 1 for s, layer in zip(slow, layers, strict=True) if layer != "rnn"]
        return _longest(rnns, n) + sum(waits)

    return steps


def _walked_through(layers: list[str | int], n: int) -> int:
    """Walk through every RNN from end to end."""
    return -1 if _shortest(layers, n) == -1 else _by_layers(layers, n)


def _slowest(layers: list[str | int], n: int) -> int:
    return n if "rnn" in layers else 1


def _of_first_layer(layers: list[str | int], n: int) -> int:
    return _shortest(layers[:1], n)


_PATH_WRONG = [
    Misconception(
        name="layer after layer",
        wrong=_chains(steps=_by_layers),
        hint="You let the second RNN wait until the first has read everything. Its first step "
        "needs only the first state below it, and can run while the lower one reads on. → How "
        "long does the last state of the upper RNN have to wait?",
    ),
    Misconception(
        name="layer after layer, and the path through all of it",
        wrong=_chains(steps=_by_layers, path=_by_layers),
        hint="You add up what each layer takes by itself, for both answers. Information needn't "
        "walk through a whole RNN if another layer can carry it. → With attention on top of an "
        "RNN, which way does the first token have to the last output?",
    ),
    Misconception(
        name="layer after layer, and an RNN always walked through",
        wrong=_chains(steps=_by_layers, path=_walked_through),
        hint="Your path walks through every RNN from end to end, and your steps let each layer "
        "wait for the one below to be through. → With attention on top of an RNN, which way does "
        "the first token have to the last output?",
    ),
    Misconception(
        name="an RNN always walked through",
        wrong=_chains(path=_walked_through),
        hint="Your path walks through every RNN from end to end. It may leave it after one step, "
        "if the next layer carries it on. → With attention on top of an RNN, which way does the "
        "first token have to the last output?",
    ),
    Misconception(
        name="the longest chain twice",
        wrong=_chains(path=_longest),
        hint="Your path is the longest chain, the same as your steps. Of all the ways from the "
        "first token to the last output the *shortest* is asked for. → Which function stands in "
        "the place of `max` there?",
    ),
    Misconception(
        name="the shortest chain twice",
        wrong=_chains(steps=_shortest),
        hint="Your steps are the shortest chain. A computation has to wait for the *last* of its "
        "inputs. → Which function stands in the place of `min` there?",
    ),
    Misconception(
        name="one for each layer",
        wrong=_chains(steps=_count, path=_count),
        hint="You count layers, as if each took one step. An RNN's states wait for one another, "
        "and a convolution reaches only so far. → Which inputs does the last state of an RNN need?",
    ),
    Misconception(
        name="one step for each layer",
        wrong=_chains(steps=_count),
        hint="Your path is right, but you count one step for each layer. → Can the last state of "
        "an RNN be computed before the one before it?",
    ),
    Misconception(
        name="a path for each layer",
        wrong=_chains(path=_count),
        hint="Your steps are right, but your path has one computation for each layer, as if every "
        "layer could carry a token anywhere. → How far does a convolution of width 5 carry it, and "
        "how far one step of an RNN?",
    ),
    Misconception(
        name="no way not noticed",
        wrong=_chains(path=lambda layers, n: _path_with(none=len(layers))(layers, n)),
        hint="Two convolutions of width 5 reach four tokens to each side; the eighth token is "
        "seven away. You report a path all the same. → What does the docstring ask for where no "
        "chain leads from the first token to the last output?",
    ),
    Misconception(
        name="no way is ∞",
        wrong=_chains(path=_path_with(none=inf)),
        valid_variant=True,
        hint="this exercise uses −1 where there is no path; you return ∞. → Which line decides "
        "what is returned at the end?",
    ),
    Misconception(
        name="a convolution reaches its whole width",
        wrong=_chains(path=_path_with(reach=lambda width: width)),
        hint="A convolution of width 3 sees a token and one neighbour on each side; you let it "
        "reach three to each side. → How far from its middle is the edge of a window of width w?",
    ),
    Misconception(
        name="a convolution reaches w − 1",
        wrong=_chains(path=_path_with(reach=lambda width: width - 1)),
        hint="You let a convolution of width w reach w − 1 tokens, as if the token stood at the "
        "window's edge. It stands in the middle. → How many neighbours are there on each side?",
    ),
    Misconception(
        name="a convolution reaches one token",
        wrong=_chains(path=_path_with(reach=lambda width: 1)),
        hint="All your convolutions reach one token to each side, whatever their width. → How many "
        "neighbours on each side are in a window of width 5?",
    ),
    Misconception(
        name="only links between tokens counted",
        wrong=_chains(path=_path_with(enter=0)),
        valid_variant=True,
        hint="this exercise uses computations, where the chapter counts links between tokens: "
        "entering an RNN is one as well, so that a path through 6 tokens has 6. → How many times "
        "is the RNN's function applied until the last state knows the first token?",
    ),
    Misconception(
        name="from the last token to the first output",
        wrong=_chains(path=_path_with(start=-1, end=0)),
        hint="You look for a way from the last token to the first output. An RNN reads forward "
        "and has none. → Where does the path begin, and where does it end?",
    ),
    Misconception(
        name="attention takes n steps",
        wrong=_chains(steps=_steps_where(attention=True)),
        hint="You let the tokens ask one after another. None of them needs what another one has "
        "been answered. → With enough processors, how long does the last token wait for its turn?",
    ),
    Misconception(
        name="a convolution takes n steps",
        wrong=_chains(steps=_steps_where(convolution=True)),
        hint="You let the convolution's window slide from token to token. No place needs what came "
        "out at another. → With enough processors, how long does the last place wait?",
    ),
    Misconception(
        name="both take n steps",
        wrong=_chains(steps=_steps_where(attention=True, convolution=True)),
        hint="You let every layer go from token to token. Only in an RNN does a token need what "
        "came out at the one before. → Which layers could answer all tokens at once?",
    ),
    Misconception(
        name="the slowest layer only",
        wrong=_chains(steps=_slowest),
        hint="Your steps are those of the slowest layer, as if all layers ran at once. A layer "
        "needs what the one below gives. → How much later than its input is an output ready?",
    ),
    Misconception(
        name="only the first layer's path",
        wrong=_chains(path=_of_first_layer),
        hint="Your path looks at the first layer alone. → What does each further layer add to it, "
        "and what may it save?",
    ),
    Misconception(
        name="the path first",
        wrong=_chains(steps=_shortest, path=_longest),
        hint="Both numbers are right and have changed places. → Which one does the docstring's "
        "Returns name first?",
    ),
]


def _chains_of_graph(layers: list[str | int], n: int) -> Any:
    """Build all computations as a graph, then look for chains in it."""
    inputs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for depth, layer in enumerate(layers, start=1):
        for i in range(n):
            below = range(n)
            if layer == "rnn":
                below = range(i, i + 1)
            elif layer != "attention":
                half = (int(layer) - 1) // 2
                below = range(max(0, i - half), min(n, i + half + 1))
            inputs[depth, i] = [(depth - 1, j) for j in below]
            if layer == "rnn" and i:
                inputs[depth, i].append((depth, i - 1))
    longest: dict[tuple[int, int], float] = {(0, i): 0 for i in range(n)}
    shortest: dict[tuple[int, int], float] = {(0, i): 0 if i == 0 else inf for i in range(n)}
    for place, needed in inputs.items():
        longest[place] = 1 + max(longest[p] for p in needed)
        shortest[place] = 1 + min(shortest[p] for p in needed)
    end = shortest[len(layers), n - 1]
    return [int(max(longest.values())), -1 if end == inf else int(end)]


def _chains_by_matrices(layers: list[str | int], n: int) -> Any:
    """Products in which plus stands for times, and max or min for the sum."""
    place = np.arange(n)
    late, near = np.zeros(n), np.where(place == 0, 0.0, inf)
    for layer in layers:
        ahead = place[:, None] - place[None, :]
        if layer == "attention":
            cost = np.ones((n, n))
        elif layer == "rnn":
            cost = np.where(ahead >= 0, ahead + 1.0, inf)
        else:
            cost = np.where(np.abs(ahead) <= int(layer) // 2, 1.0, inf)
        late = np.where(np.isinf(cost), -inf, cost + late).max(axis=1)
        near = (cost + near).min(axis=1)
    path = -1 if np.isinf(near[-1]) else int(near[-1])
    return int(late.max()), path


def _chains_recursive(layers: list[str | int], n: int) -> Any:
    def find(depth: int, i: int, pick: Any, start: Any, known: dict[Any, Any]) -> Any:
        if depth == 0:
            return start(i)
        if (depth, i) not in known:
            layer = layers[depth - 1]
            reach = {"rnn": 0, "attention": n}.get(str(layer))
            reach = int(layer) // 2 if reach is None else reach
            below = range(max(0, i - reach), min(n, i + reach + 1))
            found = [find(depth - 1, j, pick, start, known) for j in below]
            if layer == "rnn" and i > 0:
                found.append(find(depth, i - 1, pick, start, known))
            known[depth, i] = pick(found) + 1
        return known[depth, i]

    top = len(layers)
    late: dict[Any, Any] = {}
    steps = max(find(top, i, max, lambda i: 0, late) for i in range(n))
    path = find(top, n - 1, min, lambda i: 0 if i == 0 else inf, {})
    return steps, -1 if path == inf else path


def _chains_torch(layers: list[str | int], n: int) -> Any:
    import torch

    place = torch.arange(n)
    ahead = place[:, None] - place[None, :]
    late, near = torch.zeros(n), torch.full((n,), torch.inf)
    near[0] = 0
    for layer in layers:
        if layer == "attention":
            cost = torch.ones(n, n)
        elif layer == "rnn":
            cost = torch.where(ahead >= 0, ahead + 1.0, torch.inf)
        else:
            cost = torch.where(ahead.abs() <= int(layer) // 2, 1.0, torch.inf)
        late = torch.where(cost.isinf(), -torch.inf, cost + late).amax(dim=1)
        near = (cost + near).amin(dim=1)
    path = torch.where(near[-1].isinf(), -1.0, near[-1])
    return late.max().long(), path.long()


_STEPS_AND_PATH = Exercise(
    id="02.steps_and_path",
    function="steps_and_path",
    reference=steps_and_path,
    cases=_PATH_CASES,
    returns=("steps", "path"),
    misconceptions=_PATH_WRONG,
    alternatives=[
        Alternative(name="a graph, as a list", right=_chains_of_graph),
        Alternative(name="products with max and min", right=_chains_by_matrices),
        Alternative(name="recursion", right=_chains_recursive),
        Alternative(name="torch", right=_chains_torch, backend="torch"),
    ],
    hints=[
        "Draw the stack for 4 tokens: a dot for every output of every layer, an arrow from each "
        "input that it needs. Steps is the longest chain of dots, the path is the shortest from "
        "the first token to the last output.",
        "Carry one number for every place through the layers: when is its output ready? An output "
        "is ready one step after the last of its inputs. An RNN's inputs are the place below and "
        "the state before.",
        "For the path the same with `min`: begin with 0 at the first token and something endless "
        "at the others, and read off the last place in the end. It may still be endless.",
    ],
    points=4,
    minutes=30,
    difficulty=3,
)


# -- 02.bug_order ----------------------------------------------------------------------------------


def gather(x: NDArray, rounds: int) -> NDArray:
    """Let tokens listen to those near them, all at the same time, for some rounds.

    Parameters
    ----------
    x : float array, (n, d)
        Left as it is.
    rounds : int
        At least 0.

    Returns
    -------
    float array, (n, d)
        A round replaces X by softmax(S) X, with s_ij = −|x_i − x_j|² / 2 of the tokens as they are
        before the round.
    """
    return _gather(x, rounds)


def _gather(x: NDArray, rounds: int) -> NDArray:
    for _ in range(rounds):
        x = _softmax(-_squares(x) / 2) @ x
    return x


def gather_broken(x: NDArray, rounds: int) -> NDArray:
    """Do the same in another way, as the exercise's notebook shows it."""
    squares = ((x[:, None] - x[None, :]) ** 2).sum(axis=-1)
    weights = np.exp(-squares / 2)
    weights /= weights.sum(axis=-1, keepdims=True)
    for _ in range(rounds):
        for i in range(len(x)):
            x[i] = weights[i] @ x
    return x


def _squares(x: NDArray) -> NDArray:
    return ((x[:, None] - x[None, :]) ** 2).sum(axis=-1)


def _gathering(n: int, d: int, rounds: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        return {"x": draw(np.random.default_rng([seed, 7, n, d]), n, d), "rounds": rounds}

    return build


_GATHER_CASES = [
    Case(
        name="no round",
        inputs=_gathering(3, 2, 0),
        shows="the tokens as they are",
    ),
    Case(
        name="two tokens, one round",
        inputs={"x": np.array([[0.0], [2.0]]), "rounds": 1},
        shows="both move by the same amount",
    ),
    Case(
        name="5 tokens of width 3, one round",
        inputs=_gathering(5, 3, 1),
        shows="everyone listens before anyone moves",
    ),
    Case(
        name="4 tokens of width 2, 3 rounds",
        inputs=_gathering(4, 2, 3),
        shows="who is near is asked anew",
    ),
    Case(
        name="3 tokens of width 3, 2 rounds",
        inputs=_gathering(3, 3, 2),
        shows="tokens are rows",
    ),
    Case(
        name="two pairs far apart, 4 rounds",
        inputs={
            "x": np.array([[0.0, 0.0], [0.5, -1.0], [60.0, 60.0], [61.0, 59.5]]),
            "rounds": 4,
        },
        shows="each pair meets, and nothing overflows",
    ),
]


def _rounds(
    *,
    scores: Callable[[NDArray], NDArray] = lambda x: -_squares(x) / 2,
    weigh: Callable[[NDArray], NDArray] = _softmax,
    anew: bool = True,
    together: bool = True,
    in_place: bool = False,
    count: Callable[[int], int] = lambda rounds: rounds,
) -> Callable[[NDArray, int], Any]:
    """Return the rounds with some steps replaced."""

    def gathered(x: NDArray, rounds: int) -> Any:
        now = x if in_place else x.copy()
        with np.errstate(all="ignore"):
            weights = weigh(scores(now))
            for _ in range(count(rounds)):
                if anew:
                    weights = weigh(scores(now))
                if together:
                    now[...] = weights @ now
                else:
                    for i in range(len(now)):
                        now[i] = weights[i] @ now
        return now

    return gathered


def _one_by_one(in_place: bool) -> Callable[[NDArray, int], Any]:
    """Ask anew for every token, among tokens of which some have moved."""

    def gathered(x: NDArray, rounds: int) -> Any:
        now = x if in_place else x.copy()
        for _ in range(rounds):
            for i in range(len(now)):
                now[i] = _softmax(-((now - now[i]) ** 2).sum(axis=-1) / 2) @ now
        return now

    return gathered


def _gather_once(x: NDArray, rounds: int) -> Any:
    return _gather(x, min(rounds, 1))


def _gather_one_array(x: NDArray, rounds: int) -> Any:
    new = np.zeros_like(x)
    for _ in range(rounds):
        weights = _softmax(-_squares(x) / 2)
        for i in range(len(x)):
            new[i] = weights[i] @ x
        x = new
    return x


_PROGRAM_HINT = (
    "Shuffle the tokens and the output isn't just shuffled, so this is no self-attention: it's a "
    "recurrence over the tokens."
)

_GATHER_WRONG = [
    Misconception(
        name="the program as it was",
        wrong=gather_broken,
        program=as_cell(gather_broken, "gather"),
        hint=f"This is what the broken program returns. {_PROGRAM_HINT} → When token 1 takes its "
        "mean, where has token 0 gone by then?",
    ),
    Misconception(
        name="the program as it was, on a copy",
        wrong=_rounds(anew=False, together=False),
        hint=f"The caller's tokens are safe now. But shuffle them: {_PROGRAM_HINT[0].lower()}"
        f"{_PROGRAM_HINT[1:]} → When token 1 takes its mean, where has token 0 gone by then?",
    ),
    Misconception(
        name="all at once, but the caller's array is overwritten, and nobody is asked anew",
        wrong=_rounds(anew=False, in_place=True),
        hint="All tokens move together now. From the second round on the weights are still those "
        "of the first, and the caller's tokens are gone. → Which lines have to run once a round, "
        "and which one changes `x` itself?",
    ),
    Misconception(
        name="all at once, but nobody is asked anew",
        wrong=_rounds(anew=False),
        hint="One round is right. From the second on the tokens have moved, and your weights are "
        "still those of where they were at first. → Which lines have to run once a round?",
    ),
    Misconception(
        name="asked anew once a round, moved one after another, the caller's array overwritten",
        wrong=_rounds(together=False, in_place=True),
        hint="The weights are computed anew in each round, but tokens still move one after "
        "another, and in the caller's array. → When token 1 takes its mean, where has token 0 "
        "gone by then?",
    ),
    Misconception(
        name="asked anew once a round, moved one after another",
        wrong=_rounds(together=False),
        hint="The weights are computed anew in each round, but tokens still move one after "
        "another: later ones meet some that have moved. → Into which array could all new tokens "
        "be written until the round is over?",
    ),
    Misconception(
        name="asked anew for every token, the caller's array overwritten",
        wrong=_one_by_one(in_place=True),
        hint="Now weights too are computed among tokens of which some have moved, and the "
        "caller's are gone. All tokens are to look at the same moment. → Into which array could "
        "all new tokens be written until the round is over?",
    ),
    Misconception(
        name="asked anew for every token",
        wrong=_one_by_one(in_place=False),
        hint="Now weights too are computed among tokens of which some have moved: even more of a "
        "recurrence. All are to look at the same moment. → Into which array could all new tokens "
        "be written until the round is over?",
    ),
    Misconception(
        name="only the caller's array is overwritten",
        wrong=_rounds(in_place=True),
        hint="All numbers are right. One fault is left: after the call the caller's tokens have "
        "moved, and a second call gives another answer. → Which line changes the array that was "
        "passed in?",
    ),
    Misconception(
        name="every round from the start",
        wrong=_gather_once,
        hint="However many rounds there are, you return what one gives: each begins with the "
        "tokens that were passed in. → Which tokens does the second round start with?",
    ),
    Misconception(
        name="every round from the start, into zeros",
        wrong=lambda x, rounds: _gather(x, 1) if rounds else np.zeros_like(x),
        hint="However many rounds there are, you return what one gives, and with none an array of "
        "zeros: each round begins with the tokens that were passed in. → Which tokens does the "
        "second round start with?",
    ),
    Misconception(
        name="one new array for all rounds",
        wrong=_gather_one_array,
        hint="One round is right. After it your new array *is* the tokens, so that the second "
        "round writes into what it reads: tokens move one after another again. → When does a round "
        "need an array of its own?",
    ),
    Misconception(
        name="one round too many",
        wrong=_rounds(count=lambda rounds: rounds + 1),
        hint="Your tokens have moved once more than they should; with no round at all they have "
        "moved as well. → How often does your loop run if rounds is 0?",
    ),
    Misconception(
        name="normalised over the queries",
        wrong=_rounds(weigh=lambda s: _softmax(s, axis=-2)),
        hint="Your columns of weights sum to 1 and your rows don't: the table of distances is "
        "symmetric, so the two are easily mixed up (a sum without `keepdims` does it too). The "
        "broken program had this right. → Along which axis lie the weights of one listening "
        "token?",
    ),
    Misconception(
        name="normalised over the whole table",
        wrong=_rounds(weigh=lambda s: _softmax(s, axis=(-2, -1))),
        hint="All your weights together sum to 1, so everything shrinks towards 0. The broken "
        "program had this right. → Along which axis lie the weights of one listening token?",
    ),
    Misconception(
        name="not normalised",
        wrong=_rounds(weigh=np.exp),
        hint="Your weights don't sum to 1, so the tokens grow from round to round. The broken "
        "program had this right. → Which line divided the weights?",
    ),
    Misconception(
        name="the sign lost",
        wrong=_rounds(scores=lambda x: _squares(x) / 2),
        hint="Your tokens listen to those *far* from them. → Which sign stands before the squared "
        "distance in the docstring's formula?",
    ),
    Misconception(
        name="not halved",
        wrong=_rounds(scores=lambda x: -_squares(x)),
        hint="Your tokens listen more narrowly than they should: the squared distance isn't "
        "halved. → What does the docstring's formula divide it by?",
    ),
    Misconception(
        name="distances not squared",
        wrong=_rounds(scores=lambda x: -np.sqrt(_squares(x)) / 2),
        hint="You use the distance, not its square. The broken program had this right. → Where "
        "does a root, or `np.linalg.norm`, come in?",
    ),
    Misconception(
        name="products for scores",
        wrong=_rounds(scores=_products),
        hint="These are the numbers that the products X Xᵀ would give, as in plain self-attention. "
        "Here near tokens are to listen to each other. → Which scores does the docstring name?",
    ),
    Misconception(
        name="a token doesn't hear itself",
        wrong=_rounds(weigh=_without_itself),
        hint="Your tokens don't listen to themselves; two of them just change places. → What is "
        "the score of a token with itself, by the docstring's formula?",
    ),
]


def _gather_loops(x: NDArray, rounds: int) -> Any:
    for _ in range(rounds):
        new = np.zeros(x.shape)
        for i in range(len(x)):
            parts = [exp(-float(((x[i] - other) ** 2).sum()) / 2) for other in x]
            for part, other in zip(parts, x, strict=True):
                new[i] += part / sum(parts) * other
        x = new
    return x


def _gather_products(x: NDArray, rounds: int) -> Any:
    """|x − y|² = |x|² + |y|² − 2 x·y, and |x|² cancels in the row."""
    now = x.copy()
    for _ in range(rounds):
        now = _softmax(now @ now.T - (now**2).sum(axis=-1) / 2) @ now
    return now


def _gather_recursive(x: NDArray, rounds: int) -> Any:
    if rounds == 0:
        return x
    weights = np.exp(-np.einsum("ijc,ijc->ij", x[:, None] - x, x[:, None] - x) / 2)
    return _gather_recursive(weights @ x / weights.sum(axis=1, keepdims=True), rounds - 1)


def _gather_torch(x: Any, rounds: int) -> Any:
    import torch

    for _ in range(rounds):
        x = torch.softmax(-((x[:, None] - x[None, :]) ** 2).sum(dim=-1) / 2, dim=-1) @ x
    return x


_BUG_ORDER = Exercise(
    id="02.bug_order",
    function="gather",
    reference=gather,
    cases=_GATHER_CASES,
    returns=("tokens",),
    misconceptions=_GATHER_WRONG,
    alternatives=[
        Alternative(name="loops into a new array", right=_gather_loops),
        Alternative(name="products in the place of distances", right=_gather_products),
        Alternative(name="recursion", right=_gather_recursive),
        Alternative(name="torch", right=_gather_torch, backend="torch"),
    ],
    hints=[
        "Give the program two tokens and one round. Both should move by the same amount. Print "
        "`x` after each pass of the inner loop.",
        "Three questions: what does token 1 see when token 0 has moved already; what are the "
        "weights in the second round; whose array is `x`?",
        "A round needs no inner loop: one product makes all new tokens at once, as a new array. "
        "What the weights depend on has changed by then, so they belong inside of the outer loop.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [
    _JACOBIAN_NORMS,
    _SELF_ATTENTION,
    _EQUIVARIANCE_GAP,
    _LAYER_FLOPS,
    _CROSSOVER,
    _STEPS_AND_PATH,
    _BUG_ORDER,
]

BROKEN = {"02.bug_order": gather_broken}
