"""Where the norm stands on a residual branch: behind the sum or before the sublayer, in PyTorch.

Half-precision sums are taken in single precision and returned in half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from course_lib.blocks.normalization import LayerNorm, layer_norm
from course_lib.precision import widen
from course_lib.validation import (
    check_callable,
    check_correction,
    check_dropout,
    check_features,
    check_module,
    check_norm_inputs,
    check_sizes,
)

__all__ = ["Residual", "post_norm", "pre_norm"]


def post_norm(
    x: Tensor,
    sublayer: Callable[[Tensor], Tensor],
    gamma: Tensor,
    beta: Tensor,
    eps: float = 1e-5,
) -> Tensor:
    """Add a sublayer's correction to its input, and normalise the sum.

    ``LayerNorm(x + f(x))`` (Vaswani et al. 2017, section 3.1).

    Parameters
    ----------
    x : float tensor, (..., d)
        Tokens as rows.
    sublayer : callable
        f, from a tensor to one of the same shape and dtype.
    gamma, beta : float tensors, (d,)
        Of the layer norm.
    eps : float, default 1e-5
        Of the layer norm.

    Returns
    -------
    float tensor of the shape and dtype of `x`

    Raises
    ------
    ValueError
        As `layer_norm`, and if `sublayer` can't be called or returns what can't be added to `x`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762).

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[1.0, 3.0]])
    >>> post_norm(x, lambda x: 10 * x, torch.ones(2), torch.zeros(2))
    tensor([[-1.,  1.]])
    """
    check_norm_inputs(x, gamma, beta, eps)
    check_callable("sublayer", sublayer)
    y = sublayer(x)
    check_correction(y, x)
    total = widen(x) + widen(y)
    return layer_norm(total, widen(gamma), widen(beta), eps).to(x.dtype)


def pre_norm(
    x: Tensor,
    sublayer: Callable[[Tensor], Tensor],
    gamma: Tensor,
    beta: Tensor,
    eps: float = 1e-5,
) -> Tensor:
    """Add to the input what a sublayer makes of the normalised input.

    ``x + f(LayerNorm(x))`` (Xiong et al. 2020, table 1).

    Parameters
    ----------
    x : float tensor, (..., d)
        Tokens as rows.
    sublayer : callable
        f, from a tensor to one of the same shape and dtype.
    gamma, beta : float tensors, (d,)
        Of the layer norm.
    eps : float, default 1e-5
        Of the layer norm.

    Returns
    -------
    float tensor of the shape and dtype of `x`
        Not normalised: a stack of such layers needs one more norm at its end.

    Raises
    ------
    ValueError
        As `layer_norm`, and if `sublayer` can't be called or returns what can't be added to `x`.

    References
    ----------
    Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020 (arXiv:2002.04745).

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[1.0, 3.0]])
    >>> pre_norm(x, lambda x: 10 * x, torch.ones(2), torch.zeros(2))
    tensor([[-9.0000, 13.0000]])
    """
    check_norm_inputs(x, gamma, beta, eps)
    check_callable("sublayer", sublayer)
    y = sublayer(layer_norm(x, gamma, beta, eps))
    check_correction(y, x)
    return (widen(x) + widen(y)).to(x.dtype)


class Residual(nn.Module):
    """A sublayer with its residual path and its layer norm.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    sublayer : nn.Module
        From (..., d) to (..., d): attention or a feed-forward network.
    norm_first : bool, default True
        True for ``x + f(LayerNorm(x))``, False for ``LayerNorm(x + f(x))``.
    dropout : float, default 0.0
        Share of the correction's numbers that are set to 0 in training.
    norm : nn.Module, optional
        Another norm than ``LayerNorm(d_model)``, from (..., d) to (..., d).

    Raises
    ------
    ValueError
        If `d_model` isn't a whole number of at least 1, `sublayer` or `norm` isn't an nn.Module, or
        `dropout` isn't at least 0 and below 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), sections 3.1 and 5.4;
    Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020 (arXiv:2002.04745).

    Examples
    --------
    >>> import torch
    >>> block = Residual(2, nn.Identity())
    >>> block(torch.tensor([[1.0, 5.0]])).detach().round(decimals=3)
    tensor([[0., 6.]])
    """

    def __init__(
        self,
        d_model: int,
        sublayer: nn.Module,
        *,
        norm_first: bool = True,
        dropout: float = 0.0,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        check_module("sublayer", sublayer)
        check_dropout(dropout)
        if norm is not None:
            check_module("norm", norm)
        self.d_model = d_model
        self.norm = LayerNorm(d_model) if norm is None else norm
        self.sublayer = sublayer
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return x (..., d) with the sublayer's correction.

        Parameters
        ----------
        x : float tensor, (..., d)
        *args, **kwargs
            What the sublayer takes besides, such as a mask.

        Returns
        -------
        float tensor, (..., d)

        Raises
        ------
        ValueError
            If `x` hasn't the width `d_model`, or the sublayer returns what can't be added to it.
        """
        check_features("x", x, self.d_model)
        y = self.sublayer(self.norm(x) if self.norm_first else x, *args, **kwargs)
        check_correction(y, x)
        total = x + self.dropout(y)
        return total if self.norm_first else self.norm(total)
