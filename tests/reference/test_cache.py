"""Attention over what is kept equals attention over the whole, in chunks of any size."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.blocks import cache as blocks
from course_lib.reference.attention import causal_mask
from course_lib.reference.cache import cached_attention
from course_lib.reference.multi_head import multi_head_attention

RNG = np.random.default_rng(0)
D, H = 12, 3
W = [RNG.standard_normal((D, D)) / D**0.5 for _ in range(4)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.sampled_from([(), (2,), (2, 3)]))
def test_chunks_of_any_size_equal_the_whole_under_a_causal_mask(
    sizes: list[int], leading: tuple[int, ...]
) -> None:
    n = sum(sizes)
    x = np.random.default_rng(n).standard_normal((*leading, n, D))
    whole, _ = multi_head_attention(x, x, *W, H, causal_mask(n))
    past, outputs = None, []
    for piece in np.split(x, np.cumsum(sizes)[:-1], axis=-2):
        output, past = cached_attention(piece, *W, H, past)
        outputs.append(output)
    np.testing.assert_allclose(np.concatenate(outputs, axis=-2), whole, atol=1e-12)
    assert past is not None
    assert past[0].shape == past[1].shape == (*leading, H, n, D // H)


@pytest.mark.parametrize("n_past", [0, 1, 4])
def test_the_twin_in_pytorch_returns_the_same(n_past: int) -> None:
    x = RNG.standard_normal((2, 5, D))
    kept = [RNG.standard_normal((2, H, n_past, D // H)) for _ in range(2)]
    past = (kept[0], kept[1]) if n_past else None
    theirs = tuple(map(torch.from_numpy, past)) if past else None
    expected, (keys, values) = cached_attention(x, *W, H, past)
    output, after = blocks.cached_attention(
        torch.from_numpy(x), *map(torch.from_numpy, W), H, theirs  # type: ignore[arg-type]
    )  # fmt: skip
    np.testing.assert_allclose(output.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(after[0].numpy(), keys)
    np.testing.assert_allclose(after[1].numpy(), values)


def test_what_is_kept_is_left_as_it_is() -> None:
    x = RNG.standard_normal((4, D))
    _, past = cached_attention(x[:3], *W, H)
    before = [kept.copy() for kept in past]
    cached_attention(x[3:], *W, H, past)
    for kept, was in zip(past, before, strict=True):
        assert np.array_equal(kept, was)


def faulty_calls() -> list[tuple[Callable[[], object], str]]:
    x = RNG.standard_normal((2, 4, D))
    _, (keys, values) = cached_attention(x, *W, H)

    def call(*past: object) -> Callable[[], object]:
        return lambda: cached_attention(x, *W, H, past)  # type: ignore[arg-type]

    return [
        (call(keys), "past must be two arrays, keys and values; got"),
        (call(keys[:1], values), "past's keys must have a shape (2, 3, n_past, 4); got (1, 3, 4"),
        (call(keys[:, :2], values), "past's keys must have a shape (2, 3, n_past, 4); got (2, 2"),
        (call(keys, values[..., :2]), "past's values must have a shape (2, 3, n_past, 4); got"),
        (call(keys, values[:, :, :3]), "past must hold as many values as keys, 4; got 3"),
        (
            call(keys.astype(np.float32), values),
            "past's keys must have the dtype of x, float64",
        ),
        (call(keys[0, 0], values), "past's keys must have a shape (..., h, n, d/h); got (4, 4)"),
        (lambda: cached_attention(x, *W, 5), "n_heads must divide"),
    ]


@pytest.mark.parametrize("i", range(len(faulty_calls())))
def test_bad_input_is_named(i: int) -> None:
    call, message = faulty_calls()[i]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
