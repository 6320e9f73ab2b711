"""Log-softmax, cross-entropy, perplexity, the chain rule and sampling, in numpy.

What a language model is trained and judged by, whatever is inside it. Logarithms are natural, so
losses are in nats. Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.reference.attention import softmax
from course_lib.validation import (
    check_axis,
    check_batch_losses,
    check_conditionals,
    check_draw,
    check_float,
    check_targets,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "chain_log_probability",
    "cross_entropy",
    "log_softmax",
    "perplexity",
    "sample",
]


def log_softmax(x: NDArray, axis: int = -1) -> NDArray:
    """Turn scores into log-probabilities along `axis`.

    ``log_softmax(x)_i = x_i − log sum_j exp(x_j)``, computed after subtracting the maximum: no
    exponential overflows, and no probability is rounded to 0 before its logarithm is taken.

    Parameters
    ----------
    x : float array of any shape
        Scores. −∞ stays −∞.
    axis : int, default -1
        The axis whose probabilities sum to 1.

    Returns
    -------
    float array of the shape and dtype of `x`
        The logarithm of what softmax returns. Where all scores along `axis` are −∞, so are all
        log-probabilities.

    Raises
    ------
    ValueError
        If `x` is not floating-point, or `axis` is not one of its axes, or is empty.

    References
    ----------
    Blanchard, Higham and Higham, "Accurately Computing the Log-Sum-Exp and Softmax Functions",
    2021.

    Examples
    --------
    >>> log_softmax(np.array([0.0, 0.0, -20.0])).round(3)
    array([ -0.693,  -0.693, -20.693])
    """
    check_float("x", x)
    check_axis("x", x, axis)
    wide = widen(x)
    peak = wide.max(axis=axis, keepdims=True)
    # The peak of a row of −∞ is −∞ too: −∞ − 0 stays −∞, −∞ − (−∞) would be NaN.
    shifted = wide - np.where(peak == -np.inf, 0.0, peak).astype(wide.dtype)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    return (shifted - np.log(np.where(total == 0.0, 1.0, total))).astype(x.dtype)


def cross_entropy(
    logits: NDArray,
    targets: NDArray,
    ignore_index: int = -100,
) -> NDArray:
    """Return the mean of −log p(correct token) over all positions that count.

    Against a one-hot target the cross-entropy ``−Σ_i y_i log p_i`` has one term left: the
    surprise at the token that came.

    Parameters
    ----------
    logits : float array, (..., V)
        A score for every token of the vocabulary, before any softmax.
    targets : integer array, (...)
        The token that came at each position.
    ignore_index : int, default -100
        Positions with this target, padding for example, don't count: neither in the sum nor in
        what it is divided by.

    Returns
    -------
    float scalar, in nats

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a target is not in the vocabulary, or no
        position counts.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning", 2016, section 6.2.2.3.

    Examples
    --------
    >>> logits = np.array([[0.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    >>> float(cross_entropy(logits, np.array([2, -100])).round(4))  # log 4
    1.3863
    """
    check_targets(logits, targets, ignore_index)
    kept = targets != ignore_index
    log_p = log_softmax(widen(logits)[kept])  # (m, V), m of them count
    surprise = -log_p[np.arange(len(log_p)), targets[kept]]  # (m,)
    return surprise.mean().astype(logits.dtype)


def perplexity(losses: NDArray, n_tokens: NDArray) -> NDArray:
    """Return exp of the mean loss a token, from losses of unequal batches.

    ``exp(Σ_i n_i L_i / Σ_i n_i)``: among how many equally likely tokens the model is as unsure.

    Parameters
    ----------
    losses : float array, (k,)
        Mean cross-entropy a token of each batch, in nats.
    n_tokens : integer array, (k,)
        How many tokens that mean was taken over.

    Returns
    -------
    float scalar

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, there is no batch, or one has no token.

    References
    ----------
    Jelinek, Mercer, Bahl and Baker, "Perplexity: a measure of the difficulty of speech recognition
    tasks", 1977.

    Examples
    --------
    >>> float(perplexity(np.log([2.0, 8.0]), np.array([300, 100])).round(4))
    2.8284
    """
    check_batch_losses(losses, n_tokens)
    wide = widen(losses)
    mean = (wide * n_tokens).sum() / n_tokens.sum()
    return np.exp(mean).astype(losses.dtype)


def chain_log_probability(conditionals: NDArray, tokens: NDArray) -> NDArray:
    """Add up log p(token | what came before) over a sequence.

    ``log p(x_1, …, x_T) = Σ_t log p(x_t | x_<t)``. The product itself would soon be too small for
    a float.

    Parameters
    ----------
    conditionals : float array, (..., T, V)
        Row t is the distribution p(· | x_<t) over the vocabulary.
    tokens : integer array, (..., T)
        The tokens that came.

    Returns
    -------
    float array, (...)
        −∞ where a token came that was held impossible.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a row is no distribution, or a token is not in
        the vocabulary.

    References
    ----------
    Shannon, "A Mathematical Theory of Communication", 1948, section 2.

    Examples
    --------
    >>> conditionals = np.array([[0.5, 0.5], [0.1, 0.9]])
    >>> float(np.exp(chain_log_probability(conditionals, np.array([0, 1]))).round(4))
    0.45
    """
    check_conditionals(conditionals, tokens)
    picked = np.take_along_axis(widen(conditionals), tokens[..., None], axis=-1)
    p = picked[..., 0]  # (..., T)
    with np.errstate(divide="ignore"):  # log 0 = −∞ is meant
        return np.log(p).sum(axis=-1).astype(conditionals.dtype)


def sample(
    logits: NDArray, uniforms: NDArray | float, temperature: float = 1.0
) -> NDArray[np.int64]:
    """Draw a token from each row of softmax(logits / temperature).

    By the inverse of the distribution function: tokens lie side by side on [0, 1), each as wide as
    it is probable, and a uniform number falls on one of them.

    Parameters
    ----------
    logits : float array, (..., V)
        Scores; −∞ for a token that is never drawn.
    uniforms : float array, (...), or a float for one row
        Numbers in [0, 1).
    temperature : float, default 1.0
        Below 1 sharpens the distribution, above 1 flattens it.

    Returns
    -------
    int64 array, (...)
        The smallest id whose distribution function exceeds the uniform number.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a row has no possible token, a number lies
        outside [0, 1), or the temperature is not above 0.

    References
    ----------
    Devroye, "Non-Uniform Random Variate Generation", 1986, section III.2; temperature: Ackley,
    Hinton and Sejnowski, "A Learning Algorithm for Boltzmann Machines", 1985.

    Examples
    --------
    >>> logits = np.log([0.2, 0.5, 0.3])
    >>> [int(sample(logits, u)) for u in (0.0, 0.19, 0.21, 0.69, 0.71)]
    [0, 0, 1, 1, 2]
    """
    check_draw(logits, uniforms, temperature)
    # In float64, so that rounding hardly ever decides between two tokens.
    p = softmax(logits.astype(np.float64) / temperature)
    heights = p.cumsum(axis=-1)  # (..., V)
    heights = heights / heights[..., -1:]  # ends at 1, above every u
    u = np.asarray(uniforms, dtype=np.float64)
    # `<=`: a token owns its lower edge, so u = 0 never draws one of probability 0.
    return (heights <= u[..., None]).sum(axis=-1, dtype=np.int64)
