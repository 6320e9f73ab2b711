"""Decoding: with a cache against without, and both against transformers' generate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import log

import torch

from benchmarks.timing import compare, show
from course_lib.decoding import generate
from tests.models.peers import peers, their_mask


def timed(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(
    lengths: Sequence[int] = (64, 256, 1024),
    d_model: int = 64,
    n_layers: int = 2,
    vocab_size: int = 500,
    widths: Sequence[int] = (1, 4),
    peer_length: int = 128,
    seconds: float = 4.0,
) -> dict[str, dict[str, float]]:
    """Compare at several lengths T, and beams of several widths at one.

    The weights are random, and <eos> is never the likeliest: all write the same T tokens.

    Parameters
    ----------
    lengths : sequence of ints
        Tokens that are written, with a cache and without.
    d_model, n_layers, vocab_size : int
        Of the model, which has heads of 16 and d_ff = 4 d.
    widths : sequence of ints
        Beam widths for the comparison with transformers; 1 is greedy.
    peer_length : int
        Tokens that are written in it.
    seconds : float, default 4.0
        How long to measure each; what takes longer is called once.

    Returns
    -------
    dict of dicts
        Median seconds a call, by what is compared and by rival; and the exponents a in time ~ T^a
        from one length to the next.
    """
    results = {}
    n_heads = max(1, d_model // 16)
    longest = max(*lengths, peer_length)
    ours, theirs = peers(
        vocab_size=vocab_size, d_model=d_model, n_heads=n_heads, n_layers=n_layers,
        d_ff=4 * d_model, max_length=max(longest, 16), ending=None,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(3, vocab_size, (1, 16), generator=generator)
    src_lengths = torch.tensor([16])
    for length in lengths:
        write = partial(generate, ours, src, src_lengths, max_length=length)
        assert write().shape == (1, length)
        rivals = {"with a cache": write, "without": partial(write, use_cache=False)}
        result = {name: timed(rival) for name, rival in rivals.items()}
        if max(result.values()) < seconds:  # otherwise once is enough, and long
            result = compare(rivals, seconds)
        show(f"Greedy, T = {length}, width {d_model}, {n_layers} + {n_layers} layers", result)
        results[f"T = {length}"] = result
    exponents = {}
    for short, long in pairwise(lengths):
        for name in ("with a cache", "without"):
            ratio = results[f"T = {long}"][name] / results[f"T = {short}"][name]
            exponents[f"{name}, {short} to {long}"] = log(ratio) / log(long / short)
    print("\nTime grows as T to the power of")
    for name, exponent in exponents.items():
        print(f"  {name:46} {exponent:9.2f}")
    results["exponents"] = exponents
    mask = their_mask(src_lengths, 16)
    for k in widths:
        mine = partial(generate, ours, src, src_lengths, max_length=peer_length)
        mine = partial(mine, method="beam", beam_width=k) if k > 1 else mine
        peer = partial(
            theirs.generate, input_ids=src, attention_mask=mask, max_new_tokens=peer_length,
            do_sample=False, num_beams=k,
        )  # fmt: skip
        assert torch.equal(mine(), peer()[:, 1:])
        result = compare({"transformers, generate": peer, "course_lib.decoding": mine}, seconds)
        show(f"{'Greedy' if k == 1 else f'Beam of {k}'}, T = {peer_length}, same weights", result)
        results[f"beam {k}"] = result
    return results
