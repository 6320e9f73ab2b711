"""Attention: the course's two halves against PyTorch's own kernel, which keeps no weights."""

from __future__ import annotations

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
        tensors = [torch.from_numpy(x) for x in (q, k, v)]
        mask, tensor_mask = numpy_half.causal_mask(n), torch_half.causal_mask(n)
        results = compare(
            {
                "torch.nn.functional (no weights returned)": lambda t=tensors, m=tensor_mask: (
                    F.scaled_dot_product_attention(*t, attn_mask=m)
                ),
                "course_lib.blocks": lambda t=tensors, m=tensor_mask: (
                    torch_half.scaled_dot_product_attention(*t, m)
                ),
                "course_lib.reference": lambda x=(q, k, v), m=mask: (
                    numpy_half.scaled_dot_product_attention(*x, m)
                ),
            }
        )
        show(f"Attention, n = {n}", results)
