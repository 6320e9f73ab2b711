"""Attention: the course's two halves against PyTorch's own kernel, which keeps no weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.timing import compare, show
from course_lib.blocks import attention as torch_half
from course_lib.reference import attention as numpy_half


def main() -> None:
    """Compare at three lengths, 8 heads of width 64, with a causal mask."""
    for n in (64, 256, 1024):
        rng = np.random.default_rng(5)
        q, k, v = (rng.standard_normal((1, 8, n, 64)).astype(np.float32) for _ in range(3))
        tq, tk, tv = (torch.from_numpy(x) for x in (q, k, v))
        mask, tensor_mask = numpy_half.causal_mask(n), torch_half.causal_mask(n)
        results = compare(
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
            }
        )
        show(f"Attention, n = {n}", results)
