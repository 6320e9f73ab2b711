"""Normalisation over a token, over a batch and over a sequence, in numpy.

What differs between them is the axes over which mean and variance are taken. Only LayerNorm and
RMSNorm look at each token alone. Half-precision input is computed in single precision and returned
in half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.validation import (
    check_axes,
    check_filled,
    check_float,
    check_norm_inputs,
    check_number,
    check_same_dtype,
    check_scale_inputs,
    check_shape,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "batch_norm",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "sequence_norm",
    "standardise",
]


def standardise(x: NDArray, axes: tuple[int, ...], eps: float = 1e-5) -> NDArray:
    """Subtract the mean over some axes, and divide by the deviation over them.

    ``(x − μ) / √(σ² + ε)``, where σ² is the mean square of ``x − μ``: divided by the number of
    elements, not by one less.

    Parameters
    ----------
    x : float array of any shape
    axes : tuple of int
        The axes over which mean and variance are taken together.
    eps : float, default 1e-5
        Keeps the root away from 0, and what doesn't vary at 0.

    Returns
    -------
    float array of the shape and dtype of `x`
        Over `axes` the mean is 0, and the variance just below 1.

    Raises
    ------
    ValueError
        If `x` is not floating-point or is empty, `axes` aren't some of its axes, each once, or
        `eps` isn't above 0.

    Examples
    --------
    >>> standardise(np.array([[1.0, 3.0], [5.0, 5.0]]), axes=(-1,)).round(3)
    array([[-1.,  1.],
           [ 0.,  0.]])
    """
    check_filled("x", x, "(..., d)")
    check_axes("x", x, axes)
    check_number("eps", eps, above=0.0)
    wide = widen(x)
    centred = wide - wide.mean(axis=axes, keepdims=True)
    variance = (centred**2).mean(axis=axes, keepdims=True)
    return (centred / np.sqrt(variance + eps)).astype(x.dtype)


def layer_norm(
    x: NDArray,  # (..., d)
    gamma: NDArray,  # (d,)
    beta: NDArray,  # (d,)
    eps: float = 1e-5,
) -> NDArray:
    """Give every token mean 0 and variance 1, then scale and shift its features.

    ``γ ⊙ (x − μ) / √(σ² + ε) + β`` with μ and σ² over the last axis; σ² is divided by d, not d − 1
    (Ba et al. 2016, equations 3 and 4).

    Parameters
    ----------
    x : float array, (..., d)
        Tokens as rows.
    gamma, beta : float arrays, (d,)
        Scale and shift of each feature.
    eps : float, default 1e-5
        Keeps the root away from 0.

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> layer_norm(np.array([[1.0, 3.0]]), np.ones(2), np.array([0.0, 10.0])).round(3)
    array([[-1., 11.]])
    """
    check_norm_inputs(x, gamma, beta, eps)
    x_hat = standardise(widen(x), (-1,), eps)
    return (widen(gamma) * x_hat + widen(beta)).astype(x.dtype)


def layer_norm_backward(
    x: NDArray, gamma: NDArray, d_output: NDArray, eps: float = 1e-5
) -> tuple[NDArray, NDArray, NDArray]:
    """Carry a gradient from layer norm's output back to x, γ and β.

    With ``s = √(σ² + ε)``, ``x̂ = (x − μ) / s`` and ``g = γ ⊙ dy``, means over the last axis::

        dx = (g − mean(g) − x̂ mean(g ⊙ x̂)) / s
        dγ = Σ dy ⊙ x̂        dβ = Σ dy

    with the sums over all tokens.

    Parameters
    ----------
    x, gamma, eps
        As given to `layer_norm`.
    d_output : float array, (..., d)
        Gradient of the loss with respect to the output.

    Returns
    -------
    d_x : float array, (..., d)
        Each row sums to 0.
    d_gamma, d_beta : float arrays, (d,)

    Raises
    ------
    ValueError
        As `layer_norm`, and if `d_output` hasn't the shape and dtype of `x`.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> x, dy = np.array([[1.0, 2.0, 6.0]]), np.array([[1.0, 0.0, 0.0]])
    >>> d_x, d_gamma, d_beta = layer_norm_backward(x, np.ones(3), dy)
    >>> d_x.round(3), d_gamma.round(3), d_beta
    (array([[ 0.176, -0.22 ,  0.044]]), array([-0.926,  0.   ,  0.   ]), array([1., 0., 0.]))
    """
    check_scale_inputs(x, gamma, eps)
    check_float("d_output", d_output, "(..., d)")
    check_shape("d_output", d_output, "x", x.shape)
    check_same_dtype(x=x, d_output=d_output)
    wide, d_out = widen(x), widen(d_output)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    s = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)  # (..., 1)
    x_hat = centred / s
    g = widen(gamma) * d_out
    along = (g * x_hat).mean(axis=-1, keepdims=True)
    d_x = (g - g.mean(axis=-1, keepdims=True) - x_hat * along) / s
    tokens = (-1, x.shape[-1])  # all of them under one another
    d_gamma = (d_out * x_hat).reshape(tokens).sum(axis=0)
    d_beta = d_out.reshape(tokens).sum(axis=0)
    return d_x.astype(x.dtype), d_gamma.astype(x.dtype), d_beta.astype(x.dtype)


def rms_norm(x: NDArray, gamma: NDArray, eps: float = 1e-6) -> NDArray:
    """Give every token a mean square of 1, then scale its features.

    ``γ ⊙ x / √(mean(x²) + ε)`` over the last axis (Zhang and Sennrich 2019, equation 4).

    Parameters
    ----------
    x : float array, (..., d)
        Tokens as rows.
    gamma : float array, (d,)
        Scale of each feature.
    eps : float, default 1e-6
        Keeps the root away from 0.

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).

    Examples
    --------
    >>> rms_norm(np.array([[1.0, 7.0]]), np.ones(2)).round(3)
    array([[0.2, 1.4]])
    """
    check_scale_inputs(x, gamma, eps)
    wide = widen(x)
    mean_square = (wide**2).mean(axis=-1, keepdims=True)  # (..., 1)
    return (widen(gamma) * wide / np.sqrt(mean_square + eps)).astype(x.dtype)


def batch_norm(
    x: NDArray,  # (..., n, d)
    gamma: NDArray,  # (d,)
    beta: NDArray,  # (d,)
    eps: float = 1e-5,
) -> NDArray:
    """Give every feature mean 0 and variance 1 over all tokens of the batch.

    The formula of `layer_norm` with μ and σ² over all axes but the last. These are the statistics
    of the batch at hand, as in training: a token's output depends on all the others.

    Parameters
    ----------
    x : float array, (..., n, d)
        Sequences of tokens, usually (b, n, d).
    gamma, beta : float arrays, (d,)
        Scale and shift of each feature.
    eps : float, default 1e-5
        Keeps the root away from 0.

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Ioffe and Szegedy, "Batch Normalization", 2015 (arXiv:1502.03167), algorithm 1.

    Examples
    --------
    >>> x = np.array([[[1.0, 0.0], [3.0, 0.0]]])
    >>> batch_norm(x, np.ones(2), np.zeros(2)).round(3)
    array([[[-1.,  0.],
            [ 1.,  0.]]])
    """
    check_norm_inputs(x, gamma, beta, eps, axes="(..., n, d)")
    all_tokens = tuple(range(x.ndim - 1))
    x_hat = standardise(widen(x), all_tokens, eps)
    return (widen(gamma) * x_hat + widen(beta)).astype(x.dtype)


def sequence_norm(
    x: NDArray,  # (..., n, d)
    gamma: NDArray,  # (d,)
    beta: NDArray,  # (d,)
    eps: float = 1e-5,
) -> NDArray:
    """Give every sequence mean 0 and variance 1 over all it holds.

    The formula of `layer_norm` with μ and σ² over the last two axes, tokens and features together:
    a token's output depends on all tokens of its sequence, those that come later included.

    Parameters
    ----------
    x : float array, (..., n, d)
        Sequences of tokens.
    gamma, beta : float arrays, (d,)
        Scale and shift of each feature.
    eps : float, default 1e-5
        Keeps the root away from 0.

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Wu and He, "Group Normalization", 2018 (arXiv:1803.08494): the case of one group.

    Examples
    --------
    >>> x = np.array([[[1.0, 1.0], [3.0, 3.0]]])
    >>> sequence_norm(x, np.ones(2), np.zeros(2)).round(3)
    array([[[-1., -1.],
            [ 1.,  1.]]])
    """
    check_norm_inputs(x, gamma, beta, eps, axes="(..., n, d)")
    x_hat = standardise(widen(x), (-2, -1), eps)
    return (widen(gamma) * x_hat + widen(beta)).astype(x.dtype)
