"""Where the norm stands on a residual branch: behind the sum or before the sublayer, in numpy.

Half-precision sums are taken in single precision and returned in half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.precision import widen
from course_lib.reference.normalization import layer_norm
from course_lib.validation import check_callable, check_correction, check_norm_inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["post_norm", "pre_norm"]


def post_norm(
    x: NDArray,
    sublayer: Callable[[NDArray], NDArray],
    gamma: NDArray,
    beta: NDArray,
    eps: float = 1e-5,
) -> NDArray:
    """Add a sublayer's correction to its input, and normalise the sum.

    ``LayerNorm(x + f(x))`` (Vaswani et al. 2017, section 3.1).

    Parameters
    ----------
    x : float array, (..., d)
        Tokens as rows.
    sublayer : callable
        f, from an array to one of the same shape and dtype.
    gamma, beta : float arrays, (d,)
        Of the layer norm.
    eps : float, default 1e-5
        Of the layer norm.

    Returns
    -------
    float array of the shape and dtype of `x`

    Raises
    ------
    ValueError
        As `layer_norm`, and if `sublayer` can't be called or returns what can't be added to `x`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 3.0]])
    >>> post_norm(x, lambda x: 10 * x, np.ones(2), np.zeros(2)).round(3)
    array([[-1.,  1.]])
    """
    check_norm_inputs(x, gamma, beta, eps)
    check_callable("sublayer", sublayer)
    y = sublayer(x)
    check_correction(y, x)
    total = widen(x) + widen(y)
    return layer_norm(total, widen(gamma), widen(beta), eps).astype(x.dtype)


def pre_norm(
    x: NDArray,
    sublayer: Callable[[NDArray], NDArray],
    gamma: NDArray,
    beta: NDArray,
    eps: float = 1e-5,
) -> NDArray:
    """Add to the input what a sublayer makes of the normalised input.

    ``x + f(LayerNorm(x))`` (Xiong et al. 2020, table 1).

    Parameters
    ----------
    x : float array, (..., d)
        Tokens as rows.
    sublayer : callable
        f, from an array to one of the same shape and dtype.
    gamma, beta : float arrays, (d,)
        Of the layer norm.
    eps : float, default 1e-5
        Of the layer norm.

    Returns
    -------
    float array of the shape and dtype of `x`
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
    >>> import numpy as np
    >>> x = np.array([[1.0, 3.0]])
    >>> pre_norm(x, lambda x: 10 * x, np.ones(2), np.zeros(2)).round(3)
    array([[-9., 13.]])
    """
    check_norm_inputs(x, gamma, beta, eps)
    check_callable("sublayer", sublayer)
    y = sublayer(layer_norm(x, gamma, beta, eps))
    check_correction(y, x)
    return (widen(x) + widen(y)).astype(x.dtype)
