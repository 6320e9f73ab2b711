"""Vectors that say where a token stands, sinusoidal and learned, in PyTorch.

The sinusoids are those of Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762),
section 3.5. Positions count from 0. Angles are computed in double precision, whatever is asked
for: in single precision those of position 100,000 are off by thousandths, in half by whole turns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.validation import (
    check_even,
    check_hands,
    check_number,
    check_position_rows,
    check_sequence,
    check_shape,
    check_shift,
    check_sinusoids,
    check_sizes,
    check_whole,
    describe,
)

__all__ = [
    "LearnedPositions",
    "SinusoidalPositions",
    "frequencies",
    "learned_positions",
    "shift_rotation",
    "sinusoidal_positions",
]


def frequencies(
    d: int,
    base: float = 10000.0,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the angle that each pair of columns turns by at a step.

    ``θ_i = base^(−2i/d)`` for pair i: from 1 radian a position down to nearly 1 / base.

    Parameters
    ----------
    d : int
        Width of the model, even.
    base : float, default 10000
    dtype : floating dtype, default PyTorch's default

    Returns
    -------
    float tensor, (d / 2,)

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 2, `base` isn't above 1, or `dtype` isn't floating.

    Examples
    --------
    >>> frequencies(4, base=100.0)
    tensor([1.0000, 0.1000])
    """
    check_hands(d, base, dtype)
    exponents = -torch.arange(0, d, 2, dtype=torch.float64) / d  # (d / 2,)
    theta = float(base) ** exponents
    return theta.to(dtype or torch.get_default_dtype())


def sinusoidal_positions(
    n: int,
    d: int,
    base: float = 10000.0,
    offset: int = 0,
    dtype: torch.dtype | None = None,
) -> Tensor:
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
    dtype : floating dtype, default PyTorch's default

    Returns
    -------
    float tensor, (n, d)
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
    >>> sinusoidal_positions(3, 4)
    tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
            [ 0.8415,  0.5403,  0.0100,  0.9999],
            [ 0.9093, -0.4161,  0.0200,  0.9998]])
    """
    check_sinusoids(n, d, base, offset, dtype)
    p = torch.arange(offset, offset + n)[:, None]  # (n, 1)
    angles = p * frequencies(d, base, dtype=torch.float64)  # (n, d / 2)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (n, d / 2, 2)
    return pairs.reshape(n, d).to(dtype or torch.get_default_dtype())


def shift_rotation(
    k: int, d: int, base: float = 10000.0, dtype: torch.dtype | None = None
) -> Tensor:
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
    dtype : floating dtype, default PyTorch's default

    Returns
    -------
    float tensor, (d, d)

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
    >>> torch.allclose(sinusoidal_positions(3, 8) @ r, sinusoidal_positions(3, 8, offset=5))
    True
    """
    check_shift(k, d, base, dtype)
    angles = k * frequencies(d, base, dtype=torch.float64)  # (d / 2,)
    sine = torch.arange(0, d, 2)  # a pair's first column
    cosine = sine + 1
    rotation = torch.zeros(d, d, dtype=torch.float64)
    rotation[sine, sine] = rotation[cosine, cosine] = torch.cos(angles)
    rotation[cosine, sine] = torch.sin(angles)
    rotation[sine, cosine] = -torch.sin(angles)
    return rotation.to(dtype or torch.get_default_dtype())


def learned_positions(n: int, table: Tensor, offset: int = 0) -> Tensor:
    """Return the rows of a table of positions that n tokens get.

    Parameters
    ----------
    n : int
        Number of tokens.
    table : float tensor, (max_length, d)
        One trained row for each position.
    offset : int, default 0
        The first token's position.

    Returns
    -------
    float tensor, (n, d)
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
    >>> learned_positions(2, torch.tensor([[0.1], [0.2], [0.3]]), offset=1)
    tensor([[0.2000],
            [0.3000]])
    """
    check_position_rows(n, table, offset)
    return table[offset : offset + n]  # (n, d)


class SinusoidalPositions(nn.Module):
    """Add sinusoidal positions to the vectors of a sequence. Nothing is trained.

    Parameters
    ----------
    d_model : int
        Even.
    base : float, default 10000

    Raises
    ------
    ValueError
        If `d_model` isn't an even number of at least 2, or `base` isn't above 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.5.

    Examples
    --------
    >>> add_positions = SinusoidalPositions(d_model=4)
    >>> add_positions(torch.zeros(1, 2, 4))
    tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
             [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    def __init__(self, d_model: int, base: float = 10000.0) -> None:
        check_even("d_model", d_model)
        check_number("base", base, above=1)
        super().__init__()
        self.d_model = d_model
        self.base = base
        # Computed when first needed. No buffer: `.double()` would keep what float32 rounded off.
        self._table = torch.empty(0, d_model)

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Return the vectors with their positions added.

        Parameters
        ----------
        x : float tensor, (..., n, d_model)
        offset : int or tensor of whole numbers, default 0
            The first vector's position; a tensor (...) has one for each sequence. A position
            below 0 is that of padding on the left: it counts as 0.

        Returns
        -------
        float tensor, (..., n, d_model)

        Raises
        ------
        ValueError
            If `x` isn't (..., n, d_model), or `offset` isn't a whole number of at least 0.
        """
        _check_width(x, self.d_model)
        n, first = _span(x, offset)
        check_sinusoids(n, self.d_model, self.base, first)
        table = self._table
        if table.dtype != x.dtype or table.device != x.device or len(table) < first + n:
            length = max(first + n, 2 * len(table))  # grows by doubling, seldom
            table = sinusoidal_positions(length, self.d_model, self.base, dtype=x.dtype)
            self._table = table = table.to(x.device)
        return x + _rows(table, offset, x.shape[-2])


class LearnedPositions(nn.Module):
    """Add trained positions to the vectors of a sequence, as BERT and GPT-2 do.

    Rows are drawn with the standard deviation 0.02, as BERT's.

    Parameters
    ----------
    max_length : int
        Number of rows: no sequence may be longer.
    d_model : int

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
    Understanding", 2019 (arXiv:1810.04805).

    Examples
    --------
    >>> add_positions = LearnedPositions(max_length=5, d_model=4)
    >>> x = add_positions(torch.zeros(1, 2, 4), offset=3)
    >>> torch.equal(x[0], add_positions.table[3:])
    True
    """

    def __init__(self, max_length: int, d_model: int) -> None:
        check_sizes(max_length=max_length, d_model=d_model)
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, d_model))

    def forward(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Return the vectors with their positions added.

        Parameters
        ----------
        x : float tensor, (..., n, d_model)
        offset : int or tensor of whole numbers, default 0
            The first vector's position; a tensor (...) has one for each sequence. A position
            below 0 is that of padding on the left: it counts as 0.

        Returns
        -------
        float tensor, (..., n, d_model)

        Raises
        ------
        ValueError
            If `x` isn't (..., n, d_model), the table ends before the last vector, or `offset`
            isn't a whole number of at least 0.
        """
        _check_width(x, self.table.shape[1])
        n, first = _span(x, offset)
        check_position_rows(n, self.table, first)
        return x + _rows(self.table, offset, x.shape[-2])


def _check_width(x: Tensor, d_model: int) -> None:
    check_sequence("x", x, "(..., n, d_model)")
    if x.shape[-1] != d_model:
        raise ValueError(f"x must have the width d_model = {d_model}; got {describe(x)}")


def _span(x: Tensor, offset: int | Tensor) -> tuple[int, int]:
    """Return how many positions are needed, and the first: those of the sequence furthest on."""
    n = x.shape[-2]
    if not isinstance(offset, Tensor):
        return n, offset
    check_whole("offset", offset, "(...)")
    check_shape("offset", offset, "x before its last two axes", tuple(x.shape[:-2]))
    furthest = int(offset.max())
    return max(1, n + min(0, furthest)), max(0, furthest)


def _rows(table: Tensor, offset: int | Tensor, n: int) -> Tensor:
    """Return the rows of n tokens, (n, d), or (..., n, d) where each sequence has its offset."""
    if not isinstance(offset, Tensor):
        return table[offset : offset + n]
    steps = torch.arange(n, device=table.device)
    return table[(offset.long()[..., None] + steps).clamp(min=0)]
