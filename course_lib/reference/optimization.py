"""Teacher forcing, label smoothing, schedules, Adam, clipping and exact match, in numpy.

What training needs besides a model. Steps are counted from 1, as in the papers. Half-precision
input is computed in single precision and returned in half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.reference.language_modelling import log_softmax
from course_lib.validation import (
    check_adam,
    check_at_least,
    check_gradients,
    check_match,
    check_positive_int,
    check_right_shift,
    check_share,
    check_step_number,
    check_targets,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "adam_step",
    "clip_by_global_norm",
    "cosine_schedule",
    "exact_match",
    "global_norm",
    "label_smoothed_cross_entropy",
    "shift_right",
    "warmup_schedule",
]


def shift_right(ids: NDArray, bos: int) -> NDArray:
    """Put `bos` before every row and drop its last token, for teacher forcing.

    Where the decoder reads ``<bos> x_1 … x_{n−1}`` it has to predict ``x_1 … x_n``. All positions
    are trained at once, each with the right tokens before it (teacher forcing).

    Parameters
    ----------
    ids : integer array, (..., n)
        Targets.
    bos : int
        The id of <bos>.

    Returns
    -------
    integer array, (..., n), of the dtype of `ids`

    Raises
    ------
    ValueError
        If `ids` doesn't hold whole numbers, a row is empty, or `bos` is no id.

    References
    ----------
    Williams and Zipser, "A Learning Algorithm for Continually Running Fully Recurrent Neural
    Networks", 1989.

    Examples
    --------
    >>> shift_right(np.array([[5, 6, 2], [7, 2, 0]]), bos=1)
    array([[1, 5, 6],
           [1, 7, 2]])
    """
    check_right_shift(ids, bos)
    shifted = np.full_like(ids, bos)
    shifted[..., 1:] = ids[..., :-1]
    return shifted


def label_smoothed_cross_entropy(
    logits: NDArray,
    targets: NDArray,
    epsilon: float = 0.1,
    ignore_index: int = -100,
) -> NDArray:
    """Return the mean cross-entropy with a share ε spread over all tokens alike.

    The target is ``(1 − ε) · one-hot + ε / |V|``: the right token has 1 − ε + ε/|V|, each other
    one ε/|V|. The loss can't fall below the entropy of that, so it ends above 0.

    Parameters
    ----------
    logits : float array, (..., V)
        A score for every token of the vocabulary, before any softmax.
    targets : integer array, (...)
        The token that came at each position.
    epsilon : float, default 0.1
        ε, at least 0 and below 1. At 0 this is the cross-entropy.
    ignore_index : int, default -100
        Positions with this target, padding for example, don't count: neither in the sum nor in
        what it is divided by.

    Returns
    -------
    float scalar, in nats

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a target is not in the vocabulary, no position
        counts, or `epsilon` isn't at least 0 and below 1.

    References
    ----------
    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2016
    (arXiv:1512.00567), section 7; Vaswani et al. 2017 (arXiv:1706.03762), section 5.4.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]])
    >>> float(label_smoothed_cross_entropy(logits, np.array([0, -100])).round(4))
    0.3535
    >>> float(label_smoothed_cross_entropy(logits, np.array([0, -100]), epsilon=0.0).round(4))
    0.0535
    """
    check_targets(logits, targets, ignore_index)
    check_share("epsilon", epsilon)
    kept = targets != ignore_index
    surprise = -log_softmax(widen(logits)[kept])  # (m, V), m positions count
    right = surprise[np.arange(len(surprise)), targets[kept]]  # (m,)
    if epsilon == 0.0:  # or 0 times the surprise at what is impossible: NaN
        return right.mean().astype(logits.dtype)
    smoothed = (1.0 - epsilon) * right + epsilon * surprise.mean(axis=-1)
    return smoothed.mean().astype(logits.dtype)


def warmup_schedule(step: int | NDArray, d_model: int, n_warmup: int) -> NDArray:
    """Return the paper's rate: a rise, then a fall with the root of the steps.

    ``d_model^(−1/2) · min(step^(−1/2), step · n_warmup^(−3/2))``: highest at step `n_warmup`, where
    it is ``1 / √(d_model · n_warmup)``.

    Parameters
    ----------
    step : int or integer array, (...)
        Counted from 1.
    d_model : int
        Width of the model: wider ones learn slower.
    n_warmup : int
        Steps of the rise, at least 1.

    Returns
    -------
    float64 array, (...), or scalar
        The rate itself, not a factor of one.

    Raises
    ------
    ValueError
        If a step, `d_model` or `n_warmup` isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), equation 3.

    Examples
    --------
    >>> warmup_schedule(np.array([1, 2000, 4000, 16000]), d_model=512, n_warmup=4000).round(6)
    array([0.      , 0.000349, 0.000699, 0.000349])
    """
    check_step_number("step", step)
    check_positive_int("d_model", d_model)
    check_positive_int("n_warmup", n_warmup)
    t = np.asarray(step, dtype=np.float64)
    return d_model**-0.5 * np.minimum(t**-0.5, t * n_warmup**-1.5)


def cosine_schedule(step: int | NDArray, n_steps: int, n_warmup: int) -> NDArray:
    """Return the rate's factor: a straight rise to 1, then half a cosine to 0.

    ``step / n_warmup`` up to step `n_warmup`, and from there
    ``½ (1 + cos(π (step − n_warmup) / (n_steps − n_warmup)))``.

    Parameters
    ----------
    step : int or integer array, (...)
        Counted from 1, the last one is `n_steps`.
    n_steps : int
        Steps in all, at least 1.
    n_warmup : int
        Steps of the rise, from 0 to `n_steps`.

    Returns
    -------
    float64 array, (...), or scalar
        From 0 to 1.

    Raises
    ------
    ValueError
        If a number isn't whole, a step isn't from 1 to `n_steps`, or `n_warmup` isn't from 0 to
        `n_steps`.

    References
    ----------
    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017
    (arXiv:1608.03983), equation 5, without restarts.

    Examples
    --------
    >>> cosine_schedule(np.array([1, 2, 4, 7, 12]), n_steps=12, n_warmup=2).round(3)
    array([0.5  , 1.   , 0.905, 0.5  , 0.   ])
    """
    check_positive_int("n_steps", n_steps)
    check_step_number("step", step, n_steps)
    check_at_least("n_warmup", n_warmup, 0)
    if n_warmup > n_steps:
        most = f"n_steps = {n_steps}"
        raise ValueError(f"n_warmup must be at most {most}; got {n_warmup}")
    t = np.asarray(step, dtype=np.float64)
    rise = t / max(n_warmup, 1)
    fall = 0.5 * (1.0 + np.cos(np.pi * (t - n_warmup) / max(n_steps - n_warmup, 1)))
    return np.where(t <= n_warmup, rise, fall)[()]


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
    weight_decay: float = 0.0,
) -> tuple[NDArray, NDArray, NDArray]:
    """Take one step of Adam, or with weight decay of AdamW, for one parameter.

    ``m ← β₁ m + (1 − β₁) g``, ``v ← β₂ v + (1 − β₂) g²``, and with the means freed of the zeros
    they started from, ``m̂ = m / (1 − β₁ᵗ)`` and ``v̂ = v / (1 − β₂ᵗ)``:
    ``θ ← θ − lr λ θ − lr m̂ / (√v̂ + ε)``. The decay λ acts on the parameter itself, not by way of
    the gradient.

    Parameters
    ----------
    parameter, gradient : float array, (...)
    m, v : float array, (...)
        Running means of gradients and of their squares; zeros before the first step.
    step : int
        t: 1 for the first step.
    lr : float
        Learning rate, at least 0.
    beta_1, beta_2 : float, default 0.9 and 0.999
        How slowly the means forget, at least 0 and below 1. The Transformer's paper has 0.9, 0.98.
    eps : float, default 1e-8
        ε, outside the root.
    weight_decay : float, default 0
        λ, at least 0.

    Returns
    -------
    parameter, m, v : float array, (...)
        New ones: what was given stays as it is.

    Raises
    ------
    ValueError
        If shapes or dtypes differ, `v` is negative somewhere, or a number is out of its range.

    References
    ----------
    Kingma and Ba, "Adam", 2015 (arXiv:1412.6980), algorithm 1; Loshchilov and Hutter, "Decoupled
    Weight Decay Regularization", 2019 (arXiv:1711.05101), algorithm 2 with λ times the rate.

    Examples
    --------
    The first step is as long as the learning rate, whatever the gradient:

    >>> zero = np.zeros(2)
    >>> adam_step(np.ones(2), np.array([0.001, -50.0]), zero, zero, step=1, lr=0.1)[0].round(4)
    array([0.9, 1.1])
    """
    rates = {"lr": lr, "beta_1": beta_1, "beta_2": beta_2, "eps": eps}
    rates["weight_decay"] = weight_decay
    check_adam(parameter, gradient, m, v, step, rates)
    theta, g = widen(parameter), widen(gradient)
    mean = beta_1 * widen(m) + (1.0 - beta_1) * g
    square = beta_2 * widen(v) + (1.0 - beta_2) * g * g
    mean_hat = mean / (1.0 - beta_1**step)
    square_hat = square / (1.0 - beta_2**step)
    move = mean_hat / (np.sqrt(square_hat) + eps)
    theta = theta - lr * weight_decay * theta - lr * move
    dtype = parameter.dtype
    return theta.astype(dtype), mean.astype(dtype), square.astype(dtype)


def global_norm(gradients: Sequence[NDArray]) -> NDArray:
    """Return the root of the sum of all squares, as if all gradients were one vector.

    Parameters
    ----------
    gradients : sequence of float arrays of any shapes, at least one

    Returns
    -------
    float array without axes, in the widest dtype of the gradients

    Examples
    --------
    >>> float(global_norm([np.array([3.0]), np.array([[4.0]])]))
    5.0
    """
    # The largest entry is taken out of the squares: they could overflow.
    largest = max((float(np.abs(g).max()) for g in gradients if g.size), default=0.0)
    unit = largest if 0.0 < largest < np.inf else 1.0
    return np.sqrt(sum(((g / unit) ** 2).sum() for g in gradients)) * unit


def clip_by_global_norm(
    gradients: Sequence[NDArray], max_norm: float
) -> tuple[list[NDArray], NDArray]:
    """Scale all gradients by one factor, to a common norm of at most `max_norm`.

    The norm is that of all numbers of all gradients together; where it is at most `max_norm`
    nothing changes. One factor for all keeps the direction of the step.

    Parameters
    ----------
    gradients : sequence of float arrays of any shapes, at least one
    max_norm : float
        Above 0.

    Returns
    -------
    clipped : list of float arrays of the shapes and dtypes of `gradients`
    norm : float scalar
        The norm before clipping, in the widest dtype of the gradients.

    Raises
    ------
    ValueError
        If there is no gradient, one isn't floating-point, or `max_norm` isn't above 0.

    References
    ----------
    Pascanu, Mikolov and Bengio, "On the Difficulty of Training Recurrent Neural Networks", 2013
    (arXiv:1211.5063), algorithm 1.

    Examples
    --------
    >>> clipped, norm = clip_by_global_norm([np.array([3.0]), np.array([[4.0]])], max_norm=1.0)
    >>> [g.round(2).tolist() for g in clipped], float(norm)
    ([[0.6], [[0.8]]], 5.0)
    """
    check_gradients(gradients, max_norm)
    wide = [widen(g) for g in gradients]
    norm = global_norm(wide)
    factor = max_norm / norm if norm > max_norm else 1.0
    clipped = [(w * factor).astype(g.dtype) for w, g in zip(wide, gradients, strict=True)]
    return clipped, np.asarray(norm, dtype=np.result_type(*wide))[()]


def exact_match(predictions: NDArray, targets: NDArray, pad: int) -> float:
    """Return the share of rows that are predicted without an error.

    A row counts if it has the target's id at every real token of the target. What stands where the
    target is padded isn't looked at; so every target should end with <eos>, or a prediction that
    goes on after it would count too.

    Parameters
    ----------
    predictions : integer array, (..., n_p)
        What was generated, or the most likely tokens under teacher forcing. A row that is shorter
        than its target is wrong.
    targets : integer array, (..., n)
    pad : int
        The id of padding in `targets`.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If ids aren't whole numbers, the leading axes differ, or a target is all padding.

    Examples
    --------
    >>> targets = np.array([[5, 6, 2], [7, 2, 0], [8, 2, 0]])
    >>> exact_match(np.array([[5, 6, 2, 0], [7, 2, 9, 9], [8, 8, 2, 0]]), targets, pad=0)
    0.6666666666666666
    """
    check_match(predictions, targets, pad)
    n = min(predictions.shape[-1], targets.shape[-1])
    real = targets != pad  # (..., n)
    hit = predictions[..., :n] == targets[..., :n]
    right = (hit | ~real[..., :n]).all(axis=-1) & ~real[..., n:].any(axis=-1)  # (...)
    return float(right.mean())
