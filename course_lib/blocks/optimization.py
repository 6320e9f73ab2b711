"""Teacher forcing, label smoothing, schedules, Adam, clipping and exact match, in PyTorch.

What training needs besides a model. Steps are counted from 1, as in the papers. Half-precision
input is computed in single precision and returned in half.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

import torch
from torch import Tensor

from course_lib.blocks.language_modelling import log_softmax
from course_lib.precision import widen
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


def shift_right(ids: Tensor, bos: int) -> Tensor:
    """Put `bos` before every row and drop its last token, for teacher forcing.

    Where the decoder reads ``<bos> x_1 … x_{n−1}`` it has to predict ``x_1 … x_n``. All positions
    are trained at once, each with the right tokens before it (teacher forcing).

    Parameters
    ----------
    ids : integer tensor, (..., n)
        Targets.
    bos : int
        The id of <bos>.

    Returns
    -------
    integer tensor, (..., n), of the dtype of `ids`

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
    >>> shift_right(torch.tensor([[5, 6, 2], [7, 2, 0]]), bos=1)
    tensor([[1, 5, 6],
            [1, 7, 2]])
    """
    check_right_shift(ids, bos)
    first = torch.full_like(ids[..., :1], bos)
    return torch.cat((first, ids[..., :-1]), dim=-1)


def label_smoothed_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    epsilon: float = 0.1,
    ignore_index: int = -100,
) -> Tensor:
    """Return the mean cross-entropy with a share ε spread over all tokens alike.

    The target is ``(1 − ε) · one-hot + ε / |V|``: the right token has 1 − ε + ε/|V|, each other
    one ε/|V|. The loss can't fall below the entropy of that, so it ends above 0.

    Parameters
    ----------
    logits : float tensor, (..., V)
        A score for every token of the vocabulary, before any softmax.
    targets : integer tensor, (...)
        The token that came at each position.
    epsilon : float, default 0.1
        ε, at least 0 and below 1. At 0 this is the cross-entropy.
    ignore_index : int, default -100
        Positions with this target, padding for example, don't count: neither in the sum nor in
        what it is divided by.

    Returns
    -------
    float tensor without axes, in nats

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
    >>> logits = torch.tensor([[4.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]])
    >>> label_smoothed_cross_entropy(logits, torch.tensor([0, -100]))
    tensor(0.3535)
    >>> label_smoothed_cross_entropy(logits, torch.tensor([0, -100]), epsilon=0.0)
    tensor(0.0535)
    """
    check_targets(logits, targets, ignore_index)
    check_share("epsilon", epsilon)
    targets = targets.long()  # in eight bits, −100 would be the token 156
    kept = targets != ignore_index
    surprise = -log_softmax(widen(logits)[kept])  # (m, V), m positions count
    right = surprise.gather(-1, targets[kept][:, None])[:, 0]  # (m,)
    if epsilon == 0.0:  # or 0 times the surprise at what is impossible: NaN
        return right.mean().to(logits.dtype)
    smoothed = (1.0 - epsilon) * right + epsilon * surprise.mean(dim=-1)
    return smoothed.mean().to(logits.dtype)


def warmup_schedule(step: int | Tensor, d_model: int, n_warmup: int) -> Tensor:
    """Return the paper's rate: a rise, then a fall with the root of the steps.

    ``d_model^(−1/2) · min(step^(−1/2), step · n_warmup^(−3/2))``: highest at step `n_warmup`, where
    it is ``1 / √(d_model · n_warmup)``.

    Parameters
    ----------
    step : int or integer tensor, (...)
        Counted from 1.
    d_model : int
        Width of the model: wider ones learn slower.
    n_warmup : int
        Steps of the rise, at least 1.

    Returns
    -------
    float64 tensor, (...)
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
    >>> steps = torch.tensor([2000, 4000, 16000])
    >>> (1e6 * warmup_schedule(steps, d_model=512, n_warmup=4000)).round().int().tolist()
    [349, 699, 349]
    """
    check_step_number("step", step)
    check_positive_int("d_model", d_model)
    check_positive_int("n_warmup", n_warmup)
    t = torch.as_tensor(step, dtype=torch.float64)
    return d_model**-0.5 * torch.minimum(t**-0.5, t * n_warmup**-1.5)


def cosine_schedule(step: int | Tensor, n_steps: int, n_warmup: int) -> Tensor:
    """Return the rate's factor: a straight rise to 1, then half a cosine to 0.

    ``step / n_warmup`` up to step `n_warmup`, and from there
    ``½ (1 + cos(π (step − n_warmup) / (n_steps − n_warmup)))``.

    Parameters
    ----------
    step : int or integer tensor, (...)
        Counted from 1, the last one is `n_steps`.
    n_steps : int
        Steps in all, at least 1.
    n_warmup : int
        Steps of the rise, from 0 to `n_steps`.

    Returns
    -------
    float64 tensor, (...)
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
    >>> cosine_schedule(torch.tensor([1, 2, 4, 7, 12]), n_steps=12, n_warmup=2).float()
    tensor([0.5000, 1.0000, 0.9045, 0.5000, 0.0000])
    """
    check_positive_int("n_steps", n_steps)
    check_step_number("step", step, n_steps)
    check_at_least("n_warmup", n_warmup, 0)
    if n_warmup > n_steps:
        most = f"n_steps = {n_steps}"
        raise ValueError(f"n_warmup must be at most {most}; got {n_warmup}")
    t = torch.as_tensor(step, dtype=torch.float64)
    rise = t / max(n_warmup, 1)
    fall = 0.5 * (1.0 + torch.cos(pi * (t - n_warmup) / max(n_steps - n_warmup, 1)))
    return torch.where(t <= n_warmup, rise, fall)


def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Take one step of Adam, or with weight decay of AdamW, for one parameter.

    ``m ← β₁ m + (1 − β₁) g``, ``v ← β₂ v + (1 − β₂) g²``, and with the means freed of the zeros
    they started from, ``m̂ = m / (1 − β₁ᵗ)`` and ``v̂ = v / (1 − β₂ᵗ)``:
    ``θ ← θ − lr λ θ − lr m̂ / (√v̂ + ε)``. The decay λ acts on the parameter itself, not by way of
    the gradient.

    Parameters
    ----------
    parameter, gradient : float tensor, (...)
    m, v : float tensor, (...)
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
    parameter, m, v : float tensor, (...)
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

    >>> zero = torch.zeros(2)
    >>> adam_step(torch.ones(2), torch.tensor([0.001, -50.0]), zero, zero, step=1, lr=0.1)[0]
    tensor([0.9000, 1.1000])
    """
    rates = {"lr": lr, "beta_1": beta_1, "beta_2": beta_2, "eps": eps}
    rates["weight_decay"] = weight_decay
    check_adam(parameter, gradient, m, v, step, rates)
    theta, g = widen(parameter), widen(gradient)
    mean = beta_1 * widen(m) + (1.0 - beta_1) * g
    square = beta_2 * widen(v) + (1.0 - beta_2) * g * g
    mean_hat = mean / (1.0 - beta_1**step)
    square_hat = square / (1.0 - beta_2**step)
    move = mean_hat / (torch.sqrt(square_hat) + eps)
    theta = theta - lr * weight_decay * theta - lr * move
    dtype = parameter.dtype
    return theta.to(dtype), mean.to(dtype), square.to(dtype)


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the root of the sum of all squares, as if all gradients were one vector.

    Parameters
    ----------
    gradients : sequence of float tensors of any shapes, at least one

    Returns
    -------
    float tensor without axes, in the widest dtype of the gradients

    Examples
    --------
    >>> global_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
    tensor(5.)
    """
    # The largest entry is taken out of the squares: they could overflow.
    largest = max((float(g.abs().max()) for g in gradients if g.numel()), default=0.0)
    unit = largest if 0.0 < largest < torch.inf else 1.0
    return torch.sqrt(sum(((g / unit) ** 2).sum() for g in gradients)) * unit  # type: ignore[arg-type]


def clip_by_global_norm(
    gradients: Sequence[Tensor], max_norm: float
) -> tuple[list[Tensor], Tensor]:
    """Scale all gradients by one factor, to a common norm of at most `max_norm`.

    The norm is that of all numbers of all gradients together; where it is at most `max_norm`
    nothing changes. One factor for all keeps the direction of the step.

    Parameters
    ----------
    gradients : sequence of float tensors of any shapes, at least one
    max_norm : float
        Above 0.

    Returns
    -------
    clipped : list of float tensors of the shapes and dtypes of `gradients`
    norm : float tensor without axes
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
    >>> gradients = [torch.tensor([3.0]), torch.tensor([[4.0]])]
    >>> clip_by_global_norm(gradients, max_norm=1.0)
    ([tensor([0.6000]), tensor([[0.8000]])], tensor(5.))
    """
    check_gradients(gradients, max_norm)
    wide = [widen(g) for g in gradients]
    norm = global_norm(wide)
    factor = max_norm / norm if norm > max_norm else 1.0
    clipped = [(w * factor).to(g.dtype) for w, g in zip(wide, gradients, strict=True)]
    return clipped, norm


def exact_match(predictions: Tensor, targets: Tensor, pad: int) -> float:
    """Return the share of rows that are predicted without an error.

    A row counts if it has the target's id at every real token of the target. What stands where the
    target is padded isn't looked at; so every target should end with <eos>, or a prediction that
    goes on after it would count too.

    Parameters
    ----------
    predictions : integer tensor, (..., n_p)
        What was generated, or the most likely tokens under teacher forcing. A row that is shorter
        than its target is wrong.
    targets : integer tensor, (..., n)
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
    >>> targets = torch.tensor([[5, 6, 2], [7, 2, 0], [8, 2, 0]])
    >>> exact_match(torch.tensor([[5, 6, 2, 0], [7, 2, 9, 9], [8, 8, 2, 0]]), targets, pad=0)
    0.6666666666666666
    """
    check_match(predictions, targets, pad)
    n = min(predictions.shape[-1], targets.shape[-1])
    real = targets != pad  # (..., n)
    hit = predictions[..., :n] == targets[..., :n]
    right = (hit | ~real[..., :n]).all(dim=-1) & ~real[..., n:].any(dim=-1)  # (...)
    return right.double().mean().item()
