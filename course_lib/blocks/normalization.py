"""Normalisation over a token, over a batch and over a sequence, in PyTorch.

What differs between them is the axes over which mean and variance are taken. Only LayerNorm and
RMSNorm look at each token alone. Half-precision input is computed in single precision and returned
in half.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.precision import widen
from course_lib.validation import (
    check_axes,
    check_features,
    check_filled,
    check_float,
    check_norm_inputs,
    check_number,
    check_same_dtype,
    check_scale_inputs,
    check_shape,
    check_sizes,
)

__all__ = [
    "LayerNorm",
    "RMSNorm",
    "batch_norm",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "sequence_norm",
    "standardise",
]


def standardise(x: Tensor, axes: tuple[int, ...], eps: float = 1e-5) -> Tensor:
    """Subtract the mean over some axes, and divide by the deviation over them.

    ``(x − μ) / √(σ² + ε)``, where σ² is the mean square of ``x − μ``: divided by the number of
    elements, not by one less.

    Parameters
    ----------
    x : float tensor of any shape
    axes : tuple of int
        The axes over which mean and variance are taken together.
    eps : float, default 1e-5
        Keeps the root away from 0, and what doesn't vary at 0.

    Returns
    -------
    float tensor of the shape and dtype of `x`
        Over `axes` the mean is 0, and the variance just below 1.

    Raises
    ------
    ValueError
        If `x` is not floating-point or is empty, `axes` aren't some of its axes, each once, or
        `eps` isn't above 0.

    Examples
    --------
    >>> standardise(torch.tensor([[1.0, 3.0], [5.0, 5.0]]), axes=(-1,))
    tensor([[-1.0000,  1.0000],
            [ 0.0000,  0.0000]])
    """
    check_filled("x", x, "(..., d)")
    check_axes("x", x, axes)
    check_number("eps", eps, above=0.0)
    wide = widen(x)
    centred = wide - wide.mean(dim=axes, keepdim=True)
    variance = (centred**2).mean(dim=axes, keepdim=True)
    return (centred / torch.sqrt(variance + eps)).to(x.dtype)


def layer_norm(
    x: Tensor,  # (..., d)
    gamma: Tensor,  # (d,)
    beta: Tensor,  # (d,)
    eps: float = 1e-5,
) -> Tensor:
    """Give every token mean 0 and variance 1, then scale and shift its features.

    ``γ ⊙ (x − μ) / √(σ² + ε) + β`` with μ and σ² over the last axis; σ² is divided by d, not d − 1
    (Ba et al. 2016, equations 3 and 4).

    Parameters
    ----------
    x : float tensor, (..., d)
        Tokens as rows.
    gamma, beta : float tensors, (d,)
        Scale and shift of each feature.
    eps : float, default 1e-5
        Keeps the root away from 0.

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> layer_norm(torch.tensor([[1.0, 3.0]]), torch.ones(2), torch.tensor([0.0, 10.0]))
    tensor([[-1.0000, 11.0000]])
    """
    check_norm_inputs(x, gamma, beta, eps)
    x_hat = standardise(widen(x), (-1,), eps)
    return (widen(gamma) * x_hat + widen(beta)).to(x.dtype)


def layer_norm_backward(
    x: Tensor, gamma: Tensor, d_output: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Carry a gradient from layer norm's output back to x, γ and β.

    With ``s = √(σ² + ε)``, ``x̂ = (x − μ) / s`` and ``g = γ ⊙ dy``, means over the last axis::

        dx = (g − mean(g) − x̂ mean(g ⊙ x̂)) / s
        dγ = Σ dy ⊙ x̂        dβ = Σ dy

    with the sums over all tokens.

    Parameters
    ----------
    x, gamma, eps
        As given to `layer_norm`.
    d_output : float tensor, (..., d)
        Gradient of the loss with respect to the output.

    Returns
    -------
    d_x : float tensor, (..., d)
        Each row sums to 0.
    d_gamma, d_beta : float tensors, (d,)

    Raises
    ------
    ValueError
        As `layer_norm`, and if `d_output` hasn't the shape and dtype of `x`.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> x, dy = torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    >>> d_x, d_gamma, d_beta = layer_norm_backward(x, torch.ones(3), dy)
    >>> d_x, d_beta
    (tensor([[ 0.1763, -0.2204,  0.0441]]), tensor([1., 0., 0.]))
    """
    check_scale_inputs(x, gamma, eps)
    check_float("d_output", d_output, "(..., d)")
    check_shape("d_output", d_output, "x", x.shape)
    check_same_dtype(x=x, d_output=d_output)
    wide, d_out = widen(x), widen(d_output)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    s = torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps)  # (..., 1)
    x_hat = centred / s
    g = widen(gamma) * d_out
    along = (g * x_hat).mean(dim=-1, keepdim=True)
    d_x = (g - g.mean(dim=-1, keepdim=True) - x_hat * along) / s
    tokens = (-1, x.shape[-1])  # all of them under one another
    d_gamma = (d_out * x_hat).reshape(tokens).sum(dim=0)
    d_beta = d_out.reshape(tokens).sum(dim=0)
    return d_x.to(x.dtype), d_gamma.to(x.dtype), d_beta.to(x.dtype)


def rms_norm(x: Tensor, gamma: Tensor, eps: float = 1e-6) -> Tensor:
    """Give every token a mean square of 1, then scale its features.

    ``γ ⊙ x / √(mean(x²) + ε)`` over the last axis (Zhang and Sennrich 2019, equation 4).

    Parameters
    ----------
    x : float tensor, (..., d)
        Tokens as rows.
    gamma : float tensor, (d,)
        Scale of each feature.
    eps : float, default 1e-6
        Keeps the root away from 0.

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).

    Examples
    --------
    >>> rms_norm(torch.tensor([[1.0, 7.0]]), torch.ones(2))
    tensor([[0.2000, 1.4000]])
    """
    check_scale_inputs(x, gamma, eps)
    wide = widen(x)
    mean_square = (wide**2).mean(dim=-1, keepdim=True)  # (..., 1)
    return (widen(gamma) * wide / torch.sqrt(mean_square + eps)).to(x.dtype)


def batch_norm(
    x: Tensor,  # (..., n, d)
    gamma: Tensor,  # (d,)
    beta: Tensor,  # (d,)
    eps: float = 1e-5,
) -> Tensor:
    """Give every feature mean 0 and variance 1 over all tokens of the batch.

    The formula of `layer_norm` with μ and σ² over all axes but the last. These are the statistics
    of the batch at hand, as in training: a token's output depends on all the others.

    Parameters
    ----------
    x : float tensor, (..., n, d)
        Sequences of tokens, usually (b, n, d).
    gamma, beta : float tensors, (d,)
        Scale and shift of each feature.
    eps : float, default 1e-5
        Keeps the root away from 0.

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Ioffe and Szegedy, "Batch Normalization", 2015 (arXiv:1502.03167), algorithm 1.

    Examples
    --------
    >>> x = torch.tensor([[[1.0, 0.0], [3.0, 0.0]]])
    >>> batch_norm(x, torch.ones(2), torch.zeros(2))
    tensor([[[-1.0000,  0.0000],
             [ 1.0000,  0.0000]]])
    """
    check_norm_inputs(x, gamma, beta, eps, axes="(..., n, d)")
    all_tokens = tuple(range(x.ndim - 1))
    x_hat = standardise(widen(x), all_tokens, eps)
    return (widen(gamma) * x_hat + widen(beta)).to(x.dtype)


def sequence_norm(
    x: Tensor,  # (..., n, d)
    gamma: Tensor,  # (d,)
    beta: Tensor,  # (d,)
    eps: float = 1e-5,
) -> Tensor:
    """Give every sequence mean 0 and variance 1 over all it holds.

    The formula of `layer_norm` with μ and σ² over the last two axes, tokens and features together:
    a token's output depends on all tokens of its sequence, those that come later included.

    Parameters
    ----------
    x : float tensor, (..., n, d)
        Sequences of tokens.
    gamma, beta : float tensors, (d,)
        Scale and shift of each feature.
    eps : float, default 1e-5
        Keeps the root away from 0.

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, `x` is empty, or `eps` isn't above 0.

    References
    ----------
    Wu and He, "Group Normalization", 2018 (arXiv:1803.08494): the case of one group.

    Examples
    --------
    >>> x = torch.tensor([[[1.0, 1.0], [3.0, 3.0]]])
    >>> sequence_norm(x, torch.ones(2), torch.zeros(2))
    tensor([[[-1.0000, -1.0000],
             [ 1.0000,  1.0000]]])
    """
    check_norm_inputs(x, gamma, beta, eps, axes="(..., n, d)")
    x_hat = standardise(widen(x), (-2, -1), eps)
    return (widen(gamma) * x_hat + widen(beta)).to(x.dtype)


class LayerNorm(nn.Module):
    """`layer_norm` with a scale and a shift of its own, which start at 1 and 0.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    eps : float, default 1e-5

    Raises
    ------
    ValueError
        If `d_model` isn't a whole number of at least 1, or `eps` isn't above 0.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> LayerNorm(2)(torch.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        check_number("eps", eps, above=0.0)
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every token of x (..., d); returns (..., d)."""
        check_features("x", x, len(self.gamma))
        return layer_norm(x, self.gamma, self.beta, self.eps)


class RMSNorm(nn.Module):
    """`rms_norm` with a scale of its own, which starts at 1.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    eps : float, default 1e-6

    Raises
    ------
    ValueError
        If `d_model` isn't a whole number of at least 1, or `eps` isn't above 0.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).

    Examples
    --------
    >>> RMSNorm(2)(torch.tensor([[1.0, 7.0]])).detach()
    tensor([[0.2000, 1.4000]])
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        check_number("eps", eps, above=0.0)
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every token of x (..., d); returns (..., d)."""
        check_features("x", x, len(self.gamma))
        return rms_norm(x, self.gamma, self.eps)
