"""Tiled attention, forward and backward, against a table of all scores and PyTorch's own kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import compare, show
from course_lib.accounting import live_bytes
from course_lib.blocks.attention import causal_mask, scaled_dot_product_attention
from course_lib.blocks.flash import flash_attention


def main(
    lengths: Sequence[int] = (256, 1024, 4096),
    n_heads: int = 4,
    d_head: int = 64,
    blocks: Sequence[int] = (64, 256, 1024),
    seconds: float = 2.0,
) -> dict[str, dict[str, float]]:
    """Compare at several lengths and sizes of tiles, causal, in float32: time, and memory alive.

    Parameters
    ----------
    lengths : sequence of ints
    n_heads, d_head : int
    blocks : sequence of ints
        Rows and columns of a tile.
    seconds : float, default 2.0
        How long to measure at each length.

    Returns
    -------
    dict of dicts
        Median seconds a call, by length and by rival, and bytes at the peak of a call.
    """
    results = {}
    for n in lengths:
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, n_heads, n, d_head, requires_grad=True) for _ in range(3))
        mask = causal_mask(n)

        def step(attend: Callable[[], Tensor], given: tuple[Tensor, ...] = (q, k, v)) -> None:
            torch.autograd.grad(attend().sum(), given)

        ways: dict[str, Callable[[], Tensor]] = {
            "torch.nn.functional": partial(F.scaled_dot_product_attention, q, k, v, is_causal=True),
            "a table of all scores": lambda q=q, k=k, v=v, mask=mask: scaled_dot_product_attention(
                q, k, v, mask
            )[0],
        }
        for block in blocks:
            ways[f"tiles of {block}"] = lambda q=q, k=k, v=v, block=block: flash_attention(
                q, k, v, causal=True, block_q=block, block_k=block
            )[0]
        steps = {name: partial(step, attend) for name, attend in ways.items()}
        result = compare(steps, seconds)
        show(f"Forward and backward, n = {n}, {n_heads} heads of width {d_head}", result)
        results[f"n = {n}"] = result
        peaks = {name: float(max(live_bytes(run))) for name, run in steps.items()}
        print("  at the peak, MiB: " + ", ".join(f"{m / 2**20:.1f}" for m in peaks.values()))
        results[f"n = {n}, bytes"] = peaks
    return results
