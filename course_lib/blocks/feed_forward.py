"""Activations and the feed-forward network that each token goes through alone, in PyTorch.

The network is that of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section
3.3, and its gated successor. Weights are (d_in, d_out): a layer is ``x @ W + b``, as the formula
reads. Half-precision input is computed in single precision and returned in half.
"""

from __future__ import annotations

from math import pi, sqrt

import torch
from torch import Tensor, nn

from course_lib.precision import widen
from course_lib.validation import (
    check_choice,
    check_dropout,
    check_features,
    check_feed_forward_inputs,
    check_float,
    check_sizes,
    check_swiglu_inputs,
)

__all__ = ["FeedForward", "SwiGLU", "feed_forward", "gelu", "relu", "silu", "swiglu"]


def relu(x: Tensor) -> Tensor:
    """Keep what is positive and set the rest to 0: ``max(x, 0)``.

    Parameters
    ----------
    x : float tensor of any shape

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point.

    References
    ----------
    Nair and Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines", 2010.

    Examples
    --------
    >>> relu(torch.tensor([-1.5, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    check_float("x", x)
    return torch.relu(x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Weigh each number by the share of a normal distribution below it.

    ``x Φ(x)`` with ``Φ(x) = (1 + erf(x / √2)) / 2``, the normal distribution's cumulative function;
    or the approximation ``x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2``, which GPT-2 uses.

    Parameters
    ----------
    x : float tensor of any shape
    approximate : str, default "none"
        "none" for the exact form, "tanh" for the approximation.

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        If `x` is not floating-point, or `approximate` is neither of the two.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016 (arXiv:1606.08415), section 2.

    Examples
    --------
    >>> gelu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    >>> gelu(torch.tensor([-1.0, 0.0, 1.0]), approximate="tanh")
    tensor([-0.1588,  0.0000,  0.8412])
    """
    check_float("x", x)
    check_choice("approximate", approximate, ("none", "tanh"))
    wide = widen(x)
    if approximate == "tanh":
        below = (1 + torch.tanh(sqrt(2 / pi) * (wide + 0.044715 * wide**3))) / 2
    else:
        below = (1 + torch.erf(wide / sqrt(2))) / 2
    return (wide * below).to(x.dtype)


def silu(x: Tensor) -> Tensor:
    """Weigh each number by its own sigmoid: ``x σ(x)``, also called swish.

    Parameters
    ----------
    x : float tensor of any shape

    Returns
    -------
    float tensor of the shape and dtype of `x`

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
    >>> silu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    check_float("x", x)
    wide = widen(x)
    return (wide * torch.sigmoid(wide)).to(x.dtype)


# By the names that `feed_forward` takes.
ACTIVATIONS = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "silu": silu,
}


def feed_forward(
    x: Tensor,  # (..., d)
    w_1: Tensor,  # (d, d_ff)
    b_1: Tensor | None,  # (d_ff,)
    w_2: Tensor,  # (d_ff, d)
    b_2: Tensor | None,  # (d,)
    activation: str = "relu",
) -> Tensor:
    """Send every token through two layers, with a bend between them.

    ``f(x W_1 + b_1) W_2 + b_2``, where f is ReLU in the paper (Vaswani et al. 2017, equation 2).

    Parameters
    ----------
    x : float tensor, (..., d)
        Tokens as rows.
    w_1, b_1 : float tensors, (d, d_ff) and (d_ff,)
    w_2, b_2 : float tensors, (d_ff, d) and (d,)
        Either bias may be None.
    activation : str, default "relu"
        "relu", "gelu", "gelu_tanh" or "silu".

    Returns
    -------
    float tensor, (..., d)
        No token's output depends on another token.

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, a tensor is empty, or the activation is none of
        these.

    Examples
    --------
    >>> x = torch.tensor([[1.0, -2.0]])
    >>> eye = torch.eye(2)
    >>> feed_forward(x, eye, torch.tensor([0.5, 0.5]), eye, torch.tensor([0.0, 1.0]))
    tensor([[1.5000, 1.0000]])
    """
    check_feed_forward_inputs(x, w_1, b_1, w_2, b_2)
    check_choice("activation", activation, ACTIVATIONS)
    hidden = widen(x) @ widen(w_1)  # (..., d_ff)
    if b_1 is not None:
        hidden = hidden + widen(b_1)
    output = ACTIVATIONS[activation](hidden) @ widen(w_2)  # (..., d)
    if b_2 is not None:
        output = output + widen(b_2)
    return output.to(x.dtype)


def swiglu(
    x: Tensor,  # (..., d)
    w_1: Tensor,  # (d, d_ff)
    w_2: Tensor,  # (d_ff, d)
    w_3: Tensor,  # (d, d_ff)
) -> Tensor:
    """Send every token through two layers whose hidden values have a gate.

    ``(SiLU(x W_1) ⊙ x W_3) W_2``: one matrix makes the gate, another the values.

    Parameters
    ----------
    x : float tensor, (..., d)
        Tokens as rows.
    w_1 : float tensor, (d, d_ff)
        Makes the gate.
    w_2 : float tensor, (d_ff, d)
        Leads back to the width d.
    w_3 : float tensor, (d, d_ff)
        Makes the values.

    Returns
    -------
    float tensor, (..., d)

    Raises
    ------
    ValueError
        If the shapes or dtypes don't fit together, or a tensor is empty.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv:2002.05202), equation 6, where W is
    our W_1 and V our W_3. The numbers are those of Llama's code.

    Examples
    --------
    >>> one = torch.ones((1, 1))
    >>> swiglu(2 * one, one, one, 3 * one)
    tensor([[10.5696]])
    """
    check_swiglu_inputs(x, w_1, w_2, w_3)
    wide = widen(x)
    gate = silu(wide @ widen(w_1))  # (..., d_ff)
    values = wide @ widen(w_3)  # (..., d_ff)
    return ((gate * values) @ widen(w_2)).to(x.dtype)


class FeedForward(nn.Module):
    """`feed_forward` with weights of its own.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    d_ff : int
        Width in between, usually four times as much.
    activation : str, default "relu"
        "relu", "gelu", "gelu_tanh" or "silu".
    bias : bool, default True
        Whether the two layers have biases.
    dropout : float, default 0.0
        Share of hidden values that are set to 0 in training.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, the activation is none of these, or `dropout`
        isn't at least 0 and below 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), equation 2.

    Examples
    --------
    >>> network = FeedForward(d_model=8, d_ff=32)
    >>> network(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        check_choice("activation", activation, ACTIVATIONS)
        check_dropout(dropout)
        self.activation = activation
        self.w_1 = nn.Linear(d_model, d_ff, bias=bias)
        self.w_2 = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Send every token of x, (..., d), through the two layers."""
        check_features("x", x, self.w_1.in_features)
        hidden = ACTIVATIONS[self.activation](self.w_1(x))  # (..., d_ff)
        return self.w_2(self.dropout(hidden))


class SwiGLU(nn.Module):
    """`swiglu` with weights of its own, and no biases.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    d_ff : int
        Width in between. Three matrices of 8/3 d hold as much as two of 4 d.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv:2002.05202), equation 6.

    Examples
    --------
    >>> network = SwiGLU(d_model=6, d_ff=16)
    >>> network(torch.zeros(2, 5, 6)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.w_3 = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Send every token of x (..., d) through gate, values and back; returns (..., d)."""
        check_features("x", x, self.w_1.in_features)
        return self.w_2(silu(self.w_1(x)) * self.w_3(x))
