"""Activations and the feed-forward network that each token goes through alone, in numpy.

The network is that of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section
3.3, and its gated successor. Weights are (d_in, d_out): a layer is ``x @ W + b``, as the formula
reads. Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

from math import erf, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.validation import (
    check_choice,
    check_feed_forward_inputs,
    check_float,
    check_swiglu_inputs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["feed_forward", "gelu", "relu", "silu", "swiglu"]


def relu(x: NDArray) -> NDArray:
    """Keep what is positive and set the rest to 0: ``max(x, 0)``.

    Parameters
    ----------
    x : float array of any shape

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point.

    References
    ----------
    Nair and Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines", 2010.

    Examples
    --------
    >>> relu(np.array([-1.5, 0.0, 2.0]))
    array([0., 0., 2.])
    """
    check_float("x", x)
    return np.maximum(x, 0)


def gelu(x: NDArray, approximate: str = "none") -> NDArray:
    """Weigh each number by the share of a normal distribution below it.

    ``x Φ(x)`` with ``Φ(x) = (1 + erf(x / √2)) / 2``, the normal distribution's cumulative function;
    or the approximation ``x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2``, which GPT-2 uses.

    Parameters
    ----------
    x : float array of any shape
    approximate : str, default "none"
        "none" for the exact form, "tanh" for the approximation.

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point, or `approximate` is neither of the two.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016 (arXiv:1606.08415), section 2.

    Examples
    --------
    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    >>> gelu(np.array([-1.0, 0.0, 1.0]), approximate="tanh").round(4)
    array([-0.1588,  0.    ,  0.8412])
    """
    check_float("x", x)
    check_choice("approximate", approximate, ("none", "tanh"))
    wide = widen(x)
    if approximate == "tanh":
        below = (1 + np.tanh(sqrt(2 / pi) * (wide + 0.044715 * wide**3))) / 2
    else:
        # numpy has no erf, and Python's takes one number at a time.
        erfs = np.vectorize(erf, otypes=[wide.dtype])(wide / sqrt(2))
        below = (1 + erfs) / 2
    return (wide * below).astype(x.dtype)


def silu(x: NDArray) -> NDArray:
    """Weigh each number by its own sigmoid: ``x σ(x)``, also called swish.

    Parameters
    ----------
    x : float array of any shape

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point.

    References
    ----------
    Elfwing, Uchibe and Doya, "Sigmoid-Weighted Linear Units for Neural Network Function
    Approximation in Reinforcement Learning", 2017 (arXiv:1702.03118).

    Examples
    --------
    >>> silu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.2689,  0.    ,  0.7311])
    """
    check_float("x", x)
    wide = widen(x)
    # The sigmoid by tanh: (1 + tanh(x / 2)) / 2, in which no exponential overflows.
    return (wide * (1 + np.tanh(wide / 2)) / 2).astype(x.dtype)


# By the names that `feed_forward` takes.
ACTIVATIONS = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "silu": silu,
}


def feed_forward(
    x: NDArray,  # (..., d)
    w_1: NDArray,  # (d, d_ff)
    b_1: NDArray | None,  # (d_ff,)
    w_2: NDArray,  # (d_ff, d)
    b_2: NDArray | None,  # (d,)
    activation: str = "relu",
) -> NDArray:
    """Send every token through two layers, with a bend between them.

    ``f(x W_1 + b_1) W_2 + b_2``, where f is ReLU in the paper (Vaswani et al. 2017, equation 2).

    Parameters
    ----------
    x : float array, (..., d)
        Tokens as rows.
    w_1, b_1 : float arrays, (d, d_ff) and (d_ff,)
    w_2, b_2 : float arrays, (d_ff, d) and (d,)
        Either bias may be None.
    activation : str, default "relu"
        "relu", "gelu", "gelu_tanh" or "silu".

    Returns
    -------
    float array, (..., d)
        No token's output depends on another token.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, an array is empty, or the activation is none of
        these.

    Examples
    --------
    >>> x = np.array([[1.0, -2.0]])
    >>> eye = np.eye(2)
    >>> feed_forward(x, eye, np.array([0.5, 0.5]), eye, np.array([0.0, 1.0]))
    array([[1.5, 1. ]])
    """
    check_feed_forward_inputs(x, w_1, b_1, w_2, b_2)
    check_choice("activation", activation, ACTIVATIONS)
    hidden = widen(x) @ widen(w_1)  # (..., d_ff)
    if b_1 is not None:
        hidden = hidden + widen(b_1)
    output = ACTIVATIONS[activation](hidden) @ widen(w_2)  # (..., d)
    if b_2 is not None:
        output = output + widen(b_2)
    return output.astype(x.dtype)


def swiglu(
    x: NDArray,  # (..., d)
    w_1: NDArray,  # (d, d_ff)
    w_2: NDArray,  # (d_ff, d)
    w_3: NDArray,  # (d, d_ff)
) -> NDArray:
    """Send every token through two layers whose hidden values have a gate.

    ``(SiLU(x W_1) ⊙ x W_3) W_2``: one matrix makes the gate, another the values.

    Parameters
    ----------
    x : float array, (..., d)
        Tokens as rows.
    w_1 : float array, (d, d_ff)
        Makes the gate.
    w_2 : float array, (d_ff, d)
        Leads back to the width d.
    w_3 : float array, (d, d_ff)
        Makes the values.

    Returns
    -------
    float array, (..., d)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or an array is empty.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv:2002.05202), equation 6, where W is
    our W_1 and V our W_3. The numbers are those of Llama's code.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> swiglu(2 * one, one, one, 3 * one).round(4)
    array([[10.5696]])
    """
    check_swiglu_inputs(x, w_1, w_2, w_3)
    wide = widen(x)
    gate = silu(wide @ widen(w_1))  # (..., d_ff)
    values = wide @ widen(w_3)  # (..., d_ff)
    return ((gate * values) @ widen(w_2)).astype(x.dtype)
