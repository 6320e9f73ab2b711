"""Padding masks, and masks put together, in PyTorch.

A mask is boolean, and True means "may look". The causal mask is in
`course_lib.blocks.attention`.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from course_lib.validation import check_choice, check_lengths, check_masks

__all__ = ["combine_masks", "padding_mask"]


def padding_mask(lengths: Tensor, n: int, side: str = "right") -> Tensor:
    """Return the mask that hides a batch's padding from every head and query.

    Parameters
    ----------
    lengths : tensor of whole numbers, (b,)
        How many tokens of each sequence are real, from 0 to `n`. Any other shape stands for as many
        leading axes.
    n : int
        The length that all sequences are padded to.
    side : str, default "right"
        Where the padding stands, "right" or "left" of the real tokens.

    Returns
    -------
    boolean tensor, (b, 1, 1, n)
        True where there is a real token. It broadcasts to (b, h, n_q, n).

    Raises
    ------
    ValueError
        If `lengths` aren't whole numbers from 0 to `n`, `n` is below 1, or `side` is unknown.

    Examples
    --------
    >>> padding_mask(torch.tensor([1, 3]), 4).int()[:, 0, 0]
    tensor([[1, 0, 0, 0],
            [1, 1, 1, 0]], dtype=torch.int32)
    >>> padding_mask(torch.tensor([1, 3]), 4, side="left").int()[:, 0, 0]
    tensor([[0, 0, 0, 1],
            [0, 1, 1, 1]], dtype=torch.int32)
    """
    check_lengths(lengths, n)
    check_choice("side", side, ("left", "right"))
    positions = torch.arange(n, device=lengths.device)
    if side == "left":
        positions = positions.flip(0)  # counted from the last one
    real = positions < lengths[..., None]  # (b, n)
    return real[..., None, None, :]  # (b, 1, 1, n)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Return the mask that allows a look only where all masks allow it.

    Parameters
    ----------
    *masks : boolean tensors that broadcast with one another, or None
        None hides nothing.

    Returns
    -------
    boolean tensor, or None where no mask is given
        Of the shape that the masks broadcast to.

    Raises
    ------
    ValueError
        If a mask isn't boolean, or has a shape that doesn't broadcast with those before it.

    Examples
    --------
    >>> from course_lib.blocks.attention import causal_mask
    >>> combine_masks(padding_mask(torch.tensor([2, 3]), 3), causal_mask(3)).int()[0, 0]
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 0]], dtype=torch.int32)
    """
    check_masks(masks)
    given = [mask for mask in masks if mask is not None]
    return reduce(torch.logical_and, given) if given else None
