"""Log-softmax, cross-entropy, perplexity, the chain rule and sampling, in PyTorch.

What a language model is trained and judged by, whatever is inside it. Logarithms are natural, so
losses are in nats. Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.blocks.attention import softmax
from course_lib.precision import widen
from course_lib.validation import (
    check_axis,
    check_batch_losses,
    check_conditionals,
    check_draw,
    check_float,
    check_targets,
)

__all__ = [
    "chain_log_probability",
    "cross_entropy",
    "log_softmax",
    "perplexity",
    "sample",
]


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Turn scores into log-probabilities along `axis`.

    ``log_softmax(x)_i = x_i − log sum_j exp(x_j)``, computed after subtracting the maximum: no
    exponential overflows, and no probability is rounded to 0 before its logarithm is taken.

    Parameters
    ----------
    x : float tensor of any shape
        Scores. −∞ stays −∞.
    axis : int, default -1
        The axis whose probabilities sum to 1.

    Returns
    -------
    float tensor of the shape and dtype of `x`
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
    >>> log_softmax(torch.tensor([0.0, 0.0, -20.0]))
    tensor([ -0.6931,  -0.6931, -20.6931])
    """
    check_float("x", x)
    check_axis("x", x, axis)
    wide = widen(x)
    peak = wide.amax(dim=axis, keepdim=True).detach()  # a shift has no gradient
    # The peak of a row of −∞ is −∞ too: −∞ − 0 stays −∞, −∞ − (−∞) would be NaN.
    shifted = wide - peak.masked_fill(peak == -torch.inf, 0.0)
    total = torch.exp(shifted).sum(dim=axis, keepdim=True)
    return (shifted - torch.log(total.masked_fill(total == 0.0, 1.0))).to(x.dtype)


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    ignore_index: int = -100,
) -> Tensor:
    """Return the mean of −log p(correct token) over all positions that count.

    Against a one-hot target the cross-entropy ``−Σ_i y_i log p_i`` has one term left: the
    surprise at the token that came.

    Parameters
    ----------
    logits : float tensor, (..., V)
        A score for every token of the vocabulary, before any softmax.
    targets : integer tensor, (...)
        The token that came at each position.
    ignore_index : int, default -100
        Positions with this target, padding for example, don't count: neither in the sum nor in
        what it is divided by.

    Returns
    -------
    float tensor without axes, in nats

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
    >>> logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    >>> cross_entropy(logits, torch.tensor([2, -100]))  # log 4
    tensor(1.3863)
    """
    check_targets(logits, targets, ignore_index)
    targets = targets.long()  # in eight bits, −100 would be the token 156
    kept = targets != ignore_index
    log_p = log_softmax(widen(logits)[kept])  # (m, V), m of them count
    surprise = -log_p[torch.arange(len(log_p)), targets[kept]]  # (m,)
    return surprise.mean().to(logits.dtype)


def perplexity(losses: Tensor, n_tokens: Tensor) -> Tensor:
    """Return exp of the mean loss a token, from losses of unequal batches.

    ``exp(Σ_i n_i L_i / Σ_i n_i)``: among how many equally likely tokens the model is as unsure.

    Parameters
    ----------
    losses : float tensor, (k,)
        Mean cross-entropy a token of each batch, in nats.
    n_tokens : integer tensor, (k,)
        How many tokens that mean was taken over.

    Returns
    -------
    float tensor without axes

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
    >>> perplexity(torch.tensor([2.0, 8.0]).log(), torch.tensor([300, 100]))
    tensor(2.8284)
    """
    check_batch_losses(losses, n_tokens)
    wide = widen(losses)
    mean = (wide * n_tokens).sum() / n_tokens.sum()
    return torch.exp(mean).to(losses.dtype)


def chain_log_probability(conditionals: Tensor, tokens: Tensor) -> Tensor:
    """Add up log p(token | what came before) over a sequence.

    ``log p(x_1, …, x_T) = Σ_t log p(x_t | x_<t)``. The product itself would soon be too small for
    a float.

    Parameters
    ----------
    conditionals : float tensor, (..., T, V)
        Row t is the distribution p(· | x_<t) over the vocabulary.
    tokens : integer tensor, (..., T)
        The tokens that came.

    Returns
    -------
    float tensor, (...)
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
    >>> conditionals = torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    >>> chain_log_probability(conditionals, torch.tensor([0, 1])).exp()
    tensor(0.4500)
    """
    check_conditionals(conditionals, tokens)
    p = widen(conditionals).gather(-1, tokens.long()[..., None])[..., 0]  # (..., T)
    return torch.log(p).sum(dim=-1).to(conditionals.dtype)


def sample(
    logits: Tensor,
    uniforms: Tensor | float,
    temperature: float = 1.0,
) -> Tensor:
    """Draw a token from each row of softmax(logits / temperature).

    By the inverse of the distribution function: tokens lie side by side on [0, 1), each as wide as
    it is probable, and a uniform number falls on one of them.

    Parameters
    ----------
    logits : float tensor, (..., V)
        Scores; −∞ for a token that is never drawn.
    uniforms : float tensor, (...), or a float for one row
        Numbers in [0, 1).
    temperature : float, default 1.0
        Below 1 sharpens the distribution, above 1 flattens it.

    Returns
    -------
    int64 tensor, (...)
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
    >>> logits = torch.tensor([0.2, 0.5, 0.3]).log()
    >>> [int(sample(logits, u)) for u in (0.0, 0.19, 0.21, 0.69, 0.71)]
    [0, 0, 1, 1, 2]
    """
    check_draw(logits, uniforms, temperature)
    # In float64, so that rounding hardly ever decides between two tokens.
    p = softmax(logits.double() / temperature)
    heights = p.cumsum(dim=-1)  # (..., V)
    heights = heights / heights[..., -1:]  # ends at 1, above every u
    u = torch.as_tensor(uniforms, dtype=torch.float64)
    # `<=`: a token owns its lower edge, so u = 0 never draws one of probability 0.
    return (heights <= u[..., None]).sum(dim=-1)
