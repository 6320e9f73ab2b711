"""Rotary position embedding and the ways to stretch its context, in numpy.

A vector's columns are taken in pairs, each a point in a plane. At position m pair i is turned by
the angle m θ_i. The formulas are those of Su et al., "RoFormer: Enhanced Transformer with Rotary
Position Embedding", 2021 (arXiv:2104.09864), section 3.2.
Half-precision input is computed in single precision and returned in half. Angles grow with the
position, so they are computed in the precision of the frequencies, which come in float64.
"""

from __future__ import annotations

from math import ceil, floor, log, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

from course_lib.precision import widen
from course_lib.reference.positions import frequencies as sinusoid_frequencies
from course_lib.validation import (
    check_even,
    check_factor,
    check_frequencies,
    check_llama3,
    check_longrope,
    check_ntk,
    check_positive_int,
    check_rotation,
    check_yarn,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "dynamic_ntk_frequencies",
    "half_split_permutation",
    "linear_frequencies",
    "llama3_frequencies",
    "longrope_frequencies",
    "ntk_frequencies",
    "rotary_frequencies",
    "rotate_half_split",
    "rotate_interleaved",
    "yarn_frequencies",
]


def rotary_frequencies(d: int, base: float = 10000.0) -> NDArray:
    """Return the angle by which each pair turns from one position to the next.

    ``θ_i = base^(−2i/d)`` for i = 0, …, d/2 − 1 (Su et al. 2021, section 3.2.2): the frequencies of
    sinusoidal positions, in double precision whatever the model computes in.

    Parameters
    ----------
    d : int
        Width that is rotated, even.
    base : float, default 10000.0

    Returns
    -------
    float64 array, (d/2,)
        In radians, from 1 downwards.

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 2, or `base` isn't above 1.

    Examples
    --------
    >>> rotary_frequencies(8)
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    return sinusoid_frequencies(d, base, dtype=np.float64)


def _turn(
    a: NDArray, b: NDArray, positions: NDArray, frequencies: NDArray
) -> tuple[NDArray, NDArray]:
    """Turn each point (a, b) by its position's angle."""
    angles = positions[..., None] * widen(frequencies)  # (..., n, pairs)
    cos, sin = np.cos(angles).astype(a.dtype), np.sin(angles).astype(a.dtype)
    return a * cos - b * sin, a * sin + b * cos


def rotate_interleaved(x: NDArray, positions: NDArray, frequencies: NDArray) -> NDArray:
    """Turn pairs of neighbouring columns by their position's angles.

    Pair i, (a, b), stands in columns 2i and 2i + 1. At position m it becomes
    ``(a cos mθ_i − b sin mθ_i, a sin mθ_i + b cos mθ_i)`` (Su et al. 2021, equation 34).

    Parameters
    ----------
    x : float array, (..., n, d)
        Queries or keys.
    positions : array of whole numbers or floats that broadcasts to (..., n)
        Counted from 0 at the start of the text: tokens that come after a cache go on from it.
    frequencies : float array, (d_rotated / 2,)
        Only the first d_rotated columns turn, the others stay as they are.

    Returns
    -------
    float array, (..., n, d)

    Raises
    ------
    ValueError
        If shapes or dtypes don't fit together, or there are more frequencies than pairs.

    References
    ----------
    Su et al., 2021 (arXiv:2104.09864), section 3.4.2.

    Examples
    --------
    A quarter turn at each position:

    >>> x = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> rotate_interleaved(x, np.arange(3), np.array([np.pi / 2])).round(4) + 0.0
    array([[ 1.,  0.],
           [ 0.,  1.],
           [-1.,  0.]])
    """
    check_rotation(x, positions, frequencies)
    wide, d_rotated = widen(x), 2 * len(frequencies)
    a, b = wide[..., 0:d_rotated:2], wide[..., 1:d_rotated:2]
    turned = np.stack(_turn(a, b, positions, frequencies), axis=-1)
    turned = turned.reshape(*x.shape[:-1], d_rotated)
    return np.concatenate([turned, wide[..., d_rotated:]], axis=-1).astype(x.dtype)


def rotate_half_split(x: NDArray, positions: NDArray, frequencies: NDArray) -> NDArray:
    """Turn pairs of columns by their angles: p pairs are (0, p), (1, p + 1), ….

    The same rotation as `rotate_interleaved`, of columns half the turning width apart: with p
    frequencies the first p columns are the pairs' first members, the next p their second ones.
    It's what the Llama of transformers does.

    Parameters
    ----------
    x : float array, (..., n, d)
        Queries or keys.
    positions : array of whole numbers or floats that broadcasts to (..., n)
        Counted from 0 at the start of the text: tokens that come after a cache go on from it.
    frequencies : float array, (d_rotated / 2,)
        Only the first d_rotated columns turn, in halves of their own; the others stay as they are.

    Returns
    -------
    float array, (..., n, d)

    Raises
    ------
    ValueError
        If shapes or dtypes don't fit together, or there are more frequencies than pairs.

    References
    ----------
    Black et al., "GPT-NeoX-20B", 2022 (arXiv:2204.06745), section 2.1; Touvron et al., "LLaMA",
    2023 (arXiv:2302.13971), section 2.2, as implemented in transformers.

    Examples
    --------
    Column 0 is paired with column 2, and column 1, whose frequency is 0 here, with column 3:

    >>> x = np.array([[1.0, 2.0, 0.0, 3.0]])
    >>> rotate_half_split(x, np.array([1]), np.array([np.pi / 2, 0.0])).round(4) + 0.0
    array([[0., 2., 1., 3.]])
    """
    check_rotation(x, positions, frequencies)
    wide, p = widen(x), len(frequencies)
    a, b, rest = wide[..., :p], wide[..., p : 2 * p], wide[..., 2 * p :]
    turned = _turn(a, b, positions, frequencies)
    return np.concatenate([*turned, rest], axis=-1).astype(x.dtype)


def half_split_permutation(d: int) -> NDArray[np.int64]:
    """Return the order of columns that makes interleaved pairs half-split ones.

    With p = ``half_split_permutation(d)``, ``rotate_half_split(x[..., p], …)`` equals
    ``rotate_interleaved(x, …)[..., p]``. Applied to the columns of each head in W_Q and W_K, it
    turns a model trained with one layout into one that computes the same with the other: scores
    don't depend on the order of columns, as long as queries and keys share it.

    Parameters
    ----------
    d : int
        Width that is rotated, even: that of one head where all of it turns.

    Returns
    -------
    int64 array, (d,)
        First the even columns, then the odd ones. ``np.argsort`` of it leads back.

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 2.

    Examples
    --------
    >>> half_split_permutation(6)
    array([0, 2, 4, 1, 3, 5])
    """
    check_even("d", d)
    return np.arange(d).reshape(d // 2, 2).T.reshape(d)


def linear_frequencies(frequencies: NDArray, factor: float) -> NDArray:
    """Slow all pairs down by `factor`: longer texts turn them no farther.

    ``θ_i / factor``, which is to place the tokens at positions ``m / factor``, between those that
    were trained: position interpolation (Chen et al. 2023, equation 4).

    Parameters
    ----------
    frequencies : float array, (d/2,)
    factor : float
        How many times longer than in training the context may be, at least 1.

    Returns
    -------
    float array, (d/2,)

    Raises
    ------
    ValueError
        If `frequencies` isn't one row of floats, or `factor` isn't at least 1.

    References
    ----------
    Chen et al., "Extending Context Window of Large Language Models via Position Interpolation",
    2023 (arXiv:2306.15595).

    Examples
    --------
    >>> linear_frequencies(np.array([1.0, 0.1]), factor=4)
    array([0.25 , 0.025])
    """
    check_frequencies(frequencies)
    check_factor("factor", factor)
    return frequencies / factor


def ntk_frequencies(d: int, factor: float, base: float = 10000.0) -> NDArray:
    """Raise the base: the slowest pair slows down by `factor`.

    ``θ_i = (base · factor^(d / (d − 2)))^(−2i/d)``: pair i slows down by
    ``factor^(2i / (d − 2))``, the fastest not at all.

    Parameters
    ----------
    d : int
        Width that is rotated, even and at least 4.
    factor : float
        How many times longer than in training the context may be, at least 1.
    base : float, default 10000.0

    Returns
    -------
    float64 array, (d/2,)

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 4, `factor` isn't at least 1, or `base` isn't
        above 1.

    References
    ----------
    bloc97, "NTK-Aware Scaled RoPE", 2023, as given by Peng et al., "YaRN", 2023
    (arXiv:2309.00071), section 3.1.

    Examples
    --------
    >>> (rotary_frequencies(8) / ntk_frequencies(8, factor=8)).round(4)
    array([1., 2., 4., 8.])
    """
    check_ntk(d, factor, base)
    return rotary_frequencies(d, base * factor ** (d / (d - 2)))


def dynamic_ntk_frequencies(
    d: int, factor: float, length: int, original_length: int, base: float = 10000.0
) -> NDArray:
    """Raise the base as the text grows beyond the length that was trained.

    As `ntk_frequencies` with the factor ``factor · length / original_length − (factor − 1)``,
    which is 1 up to `original_length`.

    Parameters
    ----------
    d : int
        Width that is rotated, even and at least 4.
    factor : float
        At least 1. With 1, the base follows ``length / original_length``.
    length : int
        Tokens of the text so far. Keys that were turned at another length don't fit.
    original_length : int
        Length that was trained.
    base : float, default 10000.0

    Returns
    -------
    float64 array, (d/2,)

    Raises
    ------
    ValueError
        If `d` isn't an even number of at least 4, `factor` isn't at least 1, a length isn't a whole
        number of at least 1, or `base` isn't above 1.

    References
    ----------
    Peng et al., "YaRN", 2023 (arXiv:2309.00071), section 3.3, in the form of transformers' rope
    type "dynamic".

    Examples
    --------
    >>> original = rotary_frequencies(8)
    >>> (original / dynamic_ntk_frequencies(8, 1.0, length=100, original_length=512)).round(4)
    array([1., 1., 1., 1.])
    >>> (original / dynamic_ntk_frequencies(8, 1.0, length=4096, original_length=512)).round(4)
    array([1., 2., 4., 8.])
    """
    check_factor("factor", factor)
    check_positive_int("length", length)
    check_positive_int("original_length", original_length)
    grown = max(length, original_length) / original_length
    return ntk_frequencies(d, factor * grown - (factor - 1), base)


def _yarn_ramp(
    d: int, original_length: int, base: float, beta_fast: float, beta_slow: float
) -> NDArray:
    """Return 0 for pairs left alone, 1 for those slowed down, a ramp between."""

    def pair_with(turns: float) -> float:
        """Solve ``original_length · base^(−2i/d) / 2π = turns`` for i."""
        return d * log(original_length / (2 * pi * turns)) / (2 * log(base))

    first = max(floor(pair_with(beta_fast)), 0)
    # Where no pair makes a whole turn the ramp ends where it begins.
    last = max(min(ceil(pair_with(beta_slow)), d - 1), first)
    return np.clip((np.arange(d // 2) - first) / max(last - first, 0.001), 0.0, 1.0)


def yarn_frequencies(
    d: int,
    factor: float,
    original_length: int,
    base: float = 10000.0,
    beta_fast: float = 32,
    beta_slow: float = 1,
) -> tuple[NDArray, float]:
    """Leave fast pairs alone, slow down slow ones, blend in between.

    Pair i makes ``r_i = original_length · θ_i / 2π`` turns within the length that was trained. A
    pair with more than `beta_fast` turns keeps its frequency, one with fewer than `beta_slow` gets
    ``θ_i / factor``, and between them a ramp leads from the one to the other.

    Parameters
    ----------
    d : int
        Width that is rotated, even.
    factor : float
        How many times longer than in training the context may be, at least 1.
    original_length : int
        Length that was trained.
    base : float, default 10000.0
    beta_fast, beta_slow : float, default 32 and 1
        Numbers of turns at the two ends of the ramp.

    Returns
    -------
    frequencies : float64 array, (d/2,)
    attention_factor : float
        ``0.1 ln(factor) + 1``: queries and keys are both multiplied by it, and the scores by its
        square, against the weights spreading out over more tokens.

    Raises
    ------
    ValueError
        If a size isn't one, `factor` isn't at least 1, `base` isn't above 1, or `beta_fast` isn't
        above `beta_slow` and that above 0.

    References
    ----------
    Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023
    (arXiv:2309.00071), sections 3.2 and 3.4. Their ramp is linear in the number of turns.
    This one is that of their code and of transformers: linear in i, between whole numbers.

    Examples
    --------
    >>> frequencies, attention_factor = yarn_frequencies(16, factor=4, original_length=2048)
    >>> (rotary_frequencies(16) / frequencies).round(2)
    array([1.  , 1.  , 1.  , 1.23, 1.6 , 2.29, 4.  , 4.  ])
    >>> round(attention_factor, 4)
    1.1386
    """
    check_yarn(factor, original_length, beta_fast, beta_slow)
    original = rotary_frequencies(d, base)
    ramp = _yarn_ramp(d, original_length, base, beta_fast, beta_slow)
    frequencies = (1 - ramp) * original + ramp * original / factor
    return frequencies, 0.1 * log(factor) + 1


def llama3_frequencies(
    d: int,
    factor: float,
    original_length: int,
    base: float = 10000.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> NDArray:
    """Leave fast pairs alone, slow down slow ones, blend in between, by the turns that they make.

    Pair i makes ``r_i = original_length · θ_i / 2π`` turns within the length that was trained. A
    pair with more than `high_freq_factor` turns keeps its frequency, one with fewer than
    `low_freq_factor` gets ``θ_i / factor``, and between them a ramp that is linear in r_i leads
    from the one to the other. Scores are left as they are.

    Parameters
    ----------
    d : int
        Width that is rotated, even.
    factor : float
        How many times longer than in training the context may be, at least 1.
    original_length : int
        Length that was trained.
    base : float, default 10000.0
        Llama 3's is 500,000.
    low_freq_factor, high_freq_factor : float, default 1 and 4
        Numbers of turns at the two ends of the ramp.

    Returns
    -------
    float64 array, (d/2,)

    Raises
    ------
    ValueError
        If a size isn't one, `factor` isn't at least 1, `base` isn't above 1, or `high_freq_factor`
        isn't above `low_freq_factor` and that above 0.

    References
    ----------
    Grattafiori et al., "The Llama 3 Herd of Models", 2024 (arXiv:2407.21783), section 3.2, as
    published with Llama 3.1 and in transformers' rope type "llama3".

    Examples
    --------
    >>> frequencies = llama3_frequencies(16, factor=8, original_length=8192, base=500000.0)
    >>> (rotary_frequencies(16, 500000.0) / frequencies).round(2)
    array([1.  , 1.  , 1.  , 1.  , 2.69, 8.  , 8.  , 8.  ])
    """
    check_llama3(factor, original_length, low_freq_factor, high_freq_factor)
    original = rotary_frequencies(d, base)
    turns = original_length * original / (2 * pi)
    kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clip(0.0, 1.0)
    return kept * original + (1 - kept) * original / factor


def longrope_frequencies(
    frequencies: NDArray, factors: NDArray, factor: float, original_length: int
) -> tuple[NDArray, float]:
    """Slow down each pair by a factor of its own, which was searched for.

    ``θ_i / λ_i``. A model comes with two rows of λ, one for texts up to `original_length` and one
    for longer ones.

    Parameters
    ----------
    frequencies : float array, (d/2,)
    factors : float array, (d/2,)
        λ, above 0.
    factor : float
        How many times longer than in training the context may be, at least 1.
    original_length : int
        Length that was trained, at least 2.

    Returns
    -------
    frequencies : float array, (d/2,)
    attention_factor : float
        ``√(1 + ln(factor) / ln(original_length))``: queries and keys are both multiplied by it.

    Raises
    ------
    ValueError
        If there isn't one factor above 0 for each frequency, `factor` isn't at least 1, or
        `original_length` isn't a whole number of at least 2.

    References
    ----------
    Ding et al., "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", 2024
    (arXiv:2402.13753), section 3.1, as in transformers' rope type "longrope".

    Examples
    --------
    >>> slow, attention_factor = longrope_frequencies(
    ...     np.array([1.0, 0.1]), np.array([1.0, 4.0]), factor=4, original_length=4096
    ... )
    >>> slow, round(attention_factor, 4)
    (array([1.   , 0.025]), 1.0801)
    """
    check_longrope(frequencies, factors, factor, original_length)
    return frequencies / factors, sqrt(1 + log(factor) / log(original_length))
