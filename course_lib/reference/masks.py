"""Padding masks, and masks put together, in numpy.

A mask is boolean, and True means "may look". The causal mask is in
`course_lib.reference.attention`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from course_lib.validation import check_choice, check_lengths, check_masks

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["combine_masks", "padding_mask"]


def padding_mask(lengths: NDArray, n: int, side: str = "right") -> NDArray[np.bool_]:
    """Return the mask that hides a batch's padding from every head and query.

    Parameters
    ----------
    lengths : array of whole numbers, (b,)
        How many tokens of each sequence are real, from 0 to `n`. Any other shape stands for as many
        leading axes.
    n : int
        The length that all sequences are padded to.
    side : str, default "right"
        Where the padding stands, "right" or "left" of the real tokens.

    Returns
    -------
    boolean array, (b, 1, 1, n)
        True where there is a real token. It broadcasts to (b, h, n_q, n).

    Raises
    ------
    ValueError
        If `lengths` aren't whole numbers from 0 to `n`, `n` is below 1, or `side` is unknown.

    Examples
    --------
    >>> padding_mask(np.array([1, 3]), 4).astype(int)[:, 0, 0]
    array([[1, 0, 0, 0],
           [1, 1, 1, 0]])
    >>> padding_mask(np.array([1, 3]), 4, side="left").astype(int)[:, 0, 0]
    array([[0, 0, 0, 1],
           [0, 1, 1, 1]])
    """
    check_lengths(lengths, n)
    check_choice("side", side, ("left", "right"))
    positions = np.arange(n)
    if side == "left":
        positions = positions[::-1]  # counted from the last one
    real = positions < lengths[..., None]  # (b, n)
    return real[..., None, None, :]  # (b, 1, 1, n)


def combine_masks(*masks: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return the mask that allows a look only where all masks allow it.

    Parameters
    ----------
    *masks : boolean arrays that broadcast with one another, or None
        None hides nothing.

    Returns
    -------
    boolean array, or None where no mask is given
        Of the shape that the masks broadcast to.

    Raises
    ------
    ValueError
        If a mask isn't boolean, or has a shape that doesn't broadcast with those before it.

    Examples
    --------
    >>> from course_lib.reference.attention import causal_mask
    >>> combine_masks(padding_mask(np.array([2, 3]), 3), causal_mask(3)).astype(int)[0, 0]
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 0]])
    """
    check_masks(masks)
    given = [mask for mask in masks if mask is not None]
    return reduce(np.logical_and, given) if given else None
