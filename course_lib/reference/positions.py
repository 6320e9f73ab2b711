"""Vectors that say where a token stands, sinusoidal and learned, in numpy.

The sinusoids are those of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762),
section 3.5. Positions count from 0. Angles are computed in double precision, whatever is asked
for: in single precision those of position 100,000 are off by thousandths, in half by whole turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_lib.validation import (
    check_hands,
    check_position_rows,
    check_shift,
    check_sinusoids,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "frequencies",
    "learned_positions",
    "shift_rotation",
    "sinusoidal_positions",
]


def frequencies(
    d: int,
    base: float = 10000.0,
    dtype: DTypeLike | None = None,
) -> NDArray:
    """Return the angle that each pair of columns turns by at a step.

    ``θ_i = base^(−2i/d)`` for pair i: from 1 radian a position down to nearly 1 / base.

    Parameters
    ----------
    d : int
        Width of the model, even.
    base : float, default 10000
    dtype : floating dtype, default float64

    Returns
    -------
    float array, (d / 2,)

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 2, `base` isn't above 1, or `dtype` isn't floating.

    Examples
    --------
    >>> frequencies(4, base=100.0)
    array([1. , 0.1])
    """
    check_hands(d, base, dtype)
    theta = float(base) ** (-np.arange(0, d, 2) / d)  # (d / 2,)
    return theta.astype(np.float64 if dtype is None else dtype)


def sinusoidal_positions(
    n: int,
    d: int,
    base: float = 10000.0,
    offset: int = 0,
    dtype: DTypeLike | None = None,
) -> NDArray:
    """Return a vector for each of n positions: sines and cosines, ever slower.

    ``PE(p, 2i) = sin(p θ_i)`` and ``PE(p, 2i + 1) = cos(p θ_i)`` with ``θ_i = base^(−2i/d)``.

    Parameters
    ----------
    n : int
        Number of positions.
    d : int
        Width of the model, even.
    base : float, default 10000
    offset : int, default 0
        The first position.
    dtype : floating dtype, default float64

    Returns
    -------
    float array, (n, d)
        Even columns hold sines, odd ones cosines.

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, `d` is odd, `base` isn't above 1, `offset`
        isn't a whole number of at least 0, or `dtype` isn't floating.

    References
    ----------
    Vaswani et al. 2017, section 3.5. Their own program puts all sines before all cosines, and
    lets i / (d/2 − 1) take the place of 2i / d.

    Examples
    --------
    >>> sinusoidal_positions(3, 4).round(3)
    array([[ 0.   ,  1.   ,  0.   ,  1.   ],
           [ 0.841,  0.54 ,  0.01 ,  1.   ],
           [ 0.909, -0.416,  0.02 ,  1.   ]])
    """
    check_sinusoids(n, d, base, offset, dtype)
    p = np.arange(offset, offset + n)[:, None]  # (n, 1)
    angles = p * frequencies(d, base)  # (n, d / 2)
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # (n, d / 2, 2)
    return pairs.reshape(n, d).astype(np.float64 if dtype is None else dtype)


def shift_rotation(
    k: int, d: int, base: float = 10000.0, dtype: DTypeLike | None = None
) -> NDArray:
    """Return the matrix that moves every sinusoidal position k further.

    ``PE(p + k) = PE(p) R`` for every p. R turns each pair of columns by its own angle k θ_i, so
    it is made of 2 × 2 rotations on the diagonal::

        cos k θ_i   −sin k θ_i
        sin k θ_i    cos k θ_i

    Parameters
    ----------
    k : int
        By how many positions, back where negative.
    d : int
        Width of the model, even.
    base : float, default 10000
    dtype : floating dtype, default float64

    Returns
    -------
    float array, (d, d)

    Raises
    ------
    ValueError
        If `k` isn't a whole number, `d` isn't an even one of at least 2, `base` isn't above 1, or
        `dtype` isn't floating.

    References
    ----------
    Vaswani et al. 2017, section 3.5, says that there is such a matrix.

    Examples
    --------
    >>> r = shift_rotation(5, 8)
    >>> np.allclose(sinusoidal_positions(3, 8) @ r, sinusoidal_positions(3, 8, offset=5))
    True
    """
    check_shift(k, d, base, dtype)
    angles = k * frequencies(d, base)  # (d / 2,)
    sine = np.arange(0, d, 2)  # a pair's first column
    cosine = sine + 1
    rotation = np.zeros((d, d))
    rotation[sine, sine] = rotation[cosine, cosine] = np.cos(angles)
    rotation[cosine, sine] = np.sin(angles)
    rotation[sine, cosine] = -np.sin(angles)
    return rotation.astype(np.float64 if dtype is None else dtype)


def learned_positions(n: int, table: NDArray, offset: int = 0) -> NDArray:
    """Return the rows of a table of positions that n tokens get.

    Parameters
    ----------
    n : int
        Number of tokens.
    table : float array, (max_length, d)
        One trained row for each position.
    offset : int, default 0
        The first token's position.

    Returns
    -------
    float array, (n, d)
        A view of the table.

    Raises
    ------
    ValueError
        If the table ends before the last token, isn't (max_length, d), or `n` or `offset` isn't a
        whole number that fits.

    References
    ----------
    Gehring et al., "Convolutional Sequence to Sequence Learning", 2017 (arXiv:1705.03122), section
    3.1.

    Examples
    --------
    >>> learned_positions(2, np.array([[0.1], [0.2], [0.3]]), offset=1)
    array([[0.2],
           [0.3]])
    """
    check_position_rows(n, table, offset)
    return table[offset : offset + n]  # (n, d)
