"""Recurrence: the course's GRU against PyTorch's own, and both against self-attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from benchmarks.timing import compare, show
from course_lib.blocks import attention_scores
from course_lib.blocks import recurrent as torch_half
from course_lib.reference import recurrent as numpy_half


def main(
    lengths: Sequence[int] = (16, 64, 256, 1024), d: int = 256, seconds: float = 2.0
) -> dict[str, dict[str, float]]:
    """Compare at several lengths, one sequence in float32, without gradients.

    Parameters
    ----------
    lengths : sequence of ints
    d : int
        Width of tokens and states.
    seconds : float, default 2.0
        How long to measure at each length.

    Returns
    -------
    dict of dicts
        Median seconds a call, by length and by rival.
    """
    results = {}
    torch.manual_seed(5)
    layer = nn.GRU(d, d, batch_first=True)
    weights = [p.detach() for p in layer.parameters()]
    arrays = [w.numpy() for w in weights]
    with torch.no_grad():
        for n in lengths:
            xs, h = torch.randn(1, n, d), torch.zeros(1, d)
            result = compare(
                {
                    "torch.nn.GRU": partial(layer, xs, h[None]),
                    "course_lib.blocks, gru": partial(torch_half.gru, xs, h, *weights),
                    "course_lib.reference, gru": partial(
                        numpy_half.gru, xs.numpy(), h.numpy(), *arrays
                    ),
                    "course_lib.blocks, plain_self_attention": partial(
                        attention_scores.plain_self_attention, xs
                    ),
                },
                seconds,
            )
            show(f"GRU and self-attention, n = {n}, width {d}", result)
            results[f"n = {n}"] = result
    return results
