"""Attention: the course's two halves against PyTorch's own kernel, which keeps no weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.timing import compare, show
from course_lib.blocks import attention as torch_half
from course_lib.reference import attention as numpy_half


def main(
    lengths: Sequence[int] = (64, 256, 1024),
    n_heads: int = 8,
    d_head: int = 64,
    seconds: float = 2.0,
) -> dict[str, dict[str, float]]:
    """Compare at several lengths, in float32 with a causal mask.

    Parameters
    ----------
    lengths : sequence of ints
    n_heads, d_head : int
    seconds : float, default 2.0
        How long to measure at each length.

    Returns
    -------
    dict of dicts
        Median seconds a call, by length and by rival.
    """
    results = {}
    for n in lengths:
        rng = np.random.default_rng(5)
        q, k, v = (
            rng.standard_normal((1, n_heads, n, d_head)).astype(np.float32) for _ in range(3)
        )
        tq, tk, tv = (torch.from_numpy(x) for x in (q, k, v))
        mask, tensor_mask = numpy_half.causal_mask(n), torch_half.causal_mask(n)
        result = compare(
            {
                "torch.nn.functional (no weights returned)": partial(
                    F.scaled_dot_product_attention, tq, tk, tv, attn_mask=tensor_mask
                ),
                "course_lib.blocks": partial(
                    torch_half.scaled_dot_product_attention, tq, tk, tv, tensor_mask
                ),
                "course_lib.reference": partial(
                    numpy_half.scaled_dot_product_attention, q, k, v, mask
                ),
            },
            seconds,
        )
        show(f"Attention, n = {n}, {n_heads} heads of width {d_head}", result)
        results[f"n = {n}"] = result
    return results
