"""What is done to scores before a token is drawn or a hypothesis chosen, in PyTorch.

A filter returns the logits of the tokens that may be drawn as they are, and −∞ for all others; what
comes out is drawn from by `sample`, or filtered further. Probabilities are taken in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.blocks.attention import softmax
from course_lib.validation import (
    check_at_least,
    check_finished,
    check_logits,
    check_number,
    check_probability,
)

__all__ = ["length_penalty", "min_p", "top_k", "top_p"]


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k most likely tokens.

    Parameters
    ----------
    logits : float tensor, (..., V)
        A token of −∞ can't be drawn.
    k : int
        At least 1; more than V keeps all.

    Returns
    -------
    float tensor, (..., V)
        −∞ where a token falls away. Tokens as likely as the k-th all stay.

    Raises
    ------
    ValueError
        If `logits` aren't floats below ∞ with one above −∞ in each row, or `k` isn't a whole number
        of at least 1.

    References
    ----------
    Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation", 2018 (arXiv:1805.04833),
    section 5.3.

    Examples
    --------
    >>> top_k(torch.tensor([1.0, 3.0, 2.0]), k=2)
    tensor([-inf, 3., 2.])
    """
    check_logits("logits", logits)
    check_at_least("k", k, 1)
    k = min(int(k), logits.shape[-1])
    kth = logits.topk(k, dim=-1).values[..., -1:]  # (..., 1)
    return logits.masked_fill(logits < kth, -torch.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the most likely tokens that have the probability p together.

    The nucleus: the fewest tokens whose probabilities sum to at least p, so the one that crosses p
    stays, and the most likely token always does.

    Parameters
    ----------
    logits : float tensor, (..., V)
        A token of −∞ can't be drawn.
    p : float
        Above 0 and at most 1; 1 keeps all.

    Returns
    -------
    float tensor, (..., V)
        −∞ where a token falls away. Of tokens that are equally likely the first ones stay.

    Raises
    ------
    ValueError
        If `logits` aren't floats below ∞ with one above −∞ in each row, or `p` isn't above 0 and at
        most 1.

    References
    ----------
    Holtzman et al., "The Curious Case of Neural Text Degeneration", 2019 (arXiv:1904.09751),
    section 3.1.

    Examples
    --------
    >>> probabilities = torch.tensor([0.1, 0.6, 0.3])
    >>> top_p(probabilities.log(), p=0.8) > -torch.inf  # 0.6 is not enough, 0.6 + 0.3 is
    tensor([False,  True,  True])
    """
    check_logits("logits", logits)
    check_probability("p", p)
    if p == 1:
        return logits.clone()
    ordered, order = torch.sort(logits, dim=-1, descending=True, stable=True)
    probabilities = softmax(ordered.double())
    before = probabilities.cumsum(dim=-1) - probabilities  # of likelier ones
    before[..., 0] = 0.0  # exactly: however small p is, the likeliest stays
    falls = torch.zeros_like(logits, dtype=torch.bool)
    falls = falls.scatter(-1, order, before >= p)  # in the order of the vocabulary
    return logits.masked_fill(falls, -torch.inf)


def min_p(logits: Tensor, p: float) -> Tensor:
    """Keep the tokens that are at least p times as likely as the likeliest.

    Parameters
    ----------
    logits : float tensor, (..., V)
        A token of −∞ can't be drawn.
    p : float
        Above 0 and at most 1; 1 keeps the most likely token alone.

    Returns
    -------
    float tensor, (..., V)
        −∞ where a token falls away.

    Raises
    ------
    ValueError
        If `logits` aren't floats below ∞ with one above −∞ in each row, or `p` isn't above 0 and at
        most 1.

    References
    ----------
    Nguyen et al., "Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs", 2024
    (arXiv:2407.01082).

    Examples
    --------
    >>> probabilities = torch.tensor([0.1, 0.6, 0.3])
    >>> min_p(probabilities.log(), p=0.4) > -torch.inf  # at least 0.24
    tensor([False,  True,  True])
    """
    check_logits("logits", logits)
    check_probability("p", p)
    wide = logits.double()
    ratios = torch.exp(wide - wide.amax(dim=-1, keepdim=True))  # p_i / max p
    return logits.masked_fill(ratios < p, -torch.inf)


def length_penalty(scores: Tensor, lengths: Tensor, alpha: float = 1.0) -> Tensor:
    """Divide the total log-probability of a hypothesis by its length to the power α.

    A sum of logarithms falls with every token, so without it the shortest hypothesis is favoured.
    α = 0 leaves the sum, α = 1 makes it the mean per token.

    Parameters
    ----------
    scores : float tensor, (...)
        Sums of log-probabilities.
    lengths : integer tensor, (...)
        Numbers of tokens that were written, <eos> included.
    alpha : float, default 1.0

    Returns
    -------
    float tensor, (...)

    Raises
    ------
    ValueError
        If the shapes differ, a length is below 1, or `alpha` isn't a finite number.

    References
    ----------
    Wu et al., "Google's Neural Machine Translation System", 2016 (arXiv:1609.08144), section 7,
    has ((5 + length) / 6)^α in place of length^α.

    Examples
    --------
    >>> length_penalty(torch.tensor([-2.0, -3.0]), torch.tensor([2, 4]))
    tensor([-1.0000, -0.7500])
    """
    check_finished(scores, lengths)
    check_number("alpha", alpha)
    return (scores / lengths.double() ** alpha).to(scores.dtype)
