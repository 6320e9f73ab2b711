"""Kept keys and values are those that were given, and attention over them is that over all."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.blocks.attention import causal_mask
from course_lib.blocks.cache import CachedAttention, DecoderCache, KeyValueCache


def filled(b: int = 3, n: int = 4, max_length: int = 6) -> tuple[KeyValueCache, torch.Tensor]:
    torch.manual_seed(0)
    cache = KeyValueCache(b, 2, max_length, 5)
    keys = torch.randn(b, 2, n, 5)
    cache.append(keys, -keys)
    return cache, keys


def with_random_biases(attention: CachedAttention) -> CachedAttention:
    """Return attention whose biases aren't all 0, as they are at first, and so are seen."""
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            parameter.data.normal_()
    return attention


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_what_is_appended_in_pieces_is_read_as_a_whole(sizes: list[int]) -> None:
    n = sum(sizes)
    keys, values = torch.randn(2, 3, n, 4), torch.randn(2, 3, n, 4)
    cache = KeyValueCache(2, 3, n + 2, 4)
    pieces = zip(keys.split(sizes, dim=2), values.split(sizes, dim=2), strict=True)
    for i, piece in enumerate(pieces):
        k, v = cache.append(*piece)
        assert len(cache) == sum(sizes[: i + 1])
        assert torch.equal(k, keys[:, :, : len(cache)])
        assert torch.equal(v, values[:, :, : len(cache)])


def test_memory_is_taken_once() -> None:
    cache, keys = filled()
    place = cache.keys.data_ptr()
    read, _ = cache.append(keys[:, :, :2], keys[:, :, :2])
    assert cache.keys.data_ptr() == place == read.data_ptr()
    assert cache.n_bytes == 2 * 3 * 2 * 6 * 5 * 4


@pytest.mark.parametrize("rows", [[2, 0, 1], [0, 0, 1], [1], [0, 0, 1, 1, 2, 2]])
def test_reordering_moves_rows_and_goes_on_behind_them(rows: list[int]) -> None:
    cache, keys = filled()
    cache.reorder(torch.tensor(rows))
    assert cache.batch_size == len(rows)
    assert cache.max_length == 6
    new = torch.randn(len(rows), 2, 1, 5)
    k, v = cache.append(new, new)
    assert torch.equal(k, torch.cat((keys[rows], new), dim=2))
    assert torch.equal(v, torch.cat((-keys[rows], new), dim=2))


@settings(max_examples=25)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_cached_self_attention_in_chunks_equals_the_whole(
    sizes: list[int], fused: bool, bias: bool
) -> None:
    torch.manual_seed(len(sizes))
    n = sum(sizes)
    attention = with_random_biases(CachedAttention(8, 2, fused=fused, bias=bias))
    x = torch.randn(3, n, 8)
    whole = attention(x, mask=causal_mask(n))
    cache = KeyValueCache(3, 2, n, 4)
    outputs = []
    for piece in x.split(sizes, dim=1):
        mask = causal_mask(piece.shape[1], len(cache) + piece.shape[1])
        outputs.append(attention(piece, mask=mask, cache=cache))
    torch.testing.assert_close(torch.cat(outputs, dim=1), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_cached_cross_attention_looks_at_the_source_of_the_first_call(
    fused: bool, bias: bool
) -> None:
    torch.manual_seed(0)
    attention = with_random_biases(CachedAttention(8, 2, fused=fused, bias=bias))
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    cache = KeyValueCache(3, 2, 5, 4)
    first = attention(x[:, :1], memory, cache=cache)
    rest = attention(x[:, 1:], torch.zeros_like(memory), cache=cache)
    assert len(cache) == 5
    together = torch.cat((first, rest), dim=1)
    torch.testing.assert_close(together, attention(x, memory), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_the_weights_are_given_where_they_are_asked_for(masked: bool, cached: bool) -> None:
    torch.manual_seed(0)
    attention = CachedAttention(8, 2)
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    mask = torch.rand(3, 1, 4, 5) < 0.7 if masked else None
    output, weights = super(CachedAttention, attention).forward(x, memory, mask, True)
    collected: list[torch.Tensor] = []
    cache = KeyValueCache(3, 2, 5, 4) if cached else None
    ours, same = attention(x, memory, mask, True, cache, collected)
    torch.testing.assert_close(ours, output)
    torch.testing.assert_close(same, weights)
    torch.testing.assert_close(collected[0], weights)
    torch.testing.assert_close(attention(x, memory, mask, cache=cache), output)


def test_a_query_that_may_look_at_no_key_gets_no_more_than_the_bias() -> None:
    attention = CachedAttention(8, 2)
    attention.w_o.bias.data.fill_(3.0)
    cache = KeyValueCache(1, 2, 5, 4)
    mask = torch.zeros(1, 2, dtype=torch.bool)
    assert attention(torch.randn(1, 2, 8), mask=mask, cache=cache).eq(3.0).all()


def test_no_gradient_is_kept_in_a_cache() -> None:
    cache, _ = filled(n=1)
    keys = torch.randn(3, 2, 1, 5, requires_grad=True)
    k, v = cache.append(keys, 2 * keys)
    assert not k.requires_grad
    assert not v.requires_grad


def test_the_caches_of_a_decoder_are_reordered_together() -> None:
    cache = DecoderCache(2, 3, 2, 6, 5, n_src=4)
    keys = torch.randn(3, 2, 4, 5)
    for part in (*cache.self_attention, *cache.cross_attention):
        part.append(keys, keys)
    cache.reorder(torch.tensor([1, 0, 2]), same_sources=True)
    assert torch.equal(cache.self_attention[1].read()[0], keys[[1, 0, 2]])
    assert torch.equal(cache.cross_attention[1].read()[0], keys)
    cache.reorder(torch.tensor([1, 0, 2]))
    cache.cross_attention[0].reorder(torch.tensor([1, 0, 2]))
    cache.cross_attention[1].reorder(torch.tensor([1, 0, 2]))
    cache.reorder(torch.tensor([2, 2]))
    assert len(cache) == 4
    assert cache.batch_size == 2
    for part in (*cache.self_attention, *cache.cross_attention):
        assert torch.equal(part.read()[0], keys[[2, 2]])
    assert cache.n_bytes == 2 * 2 * 2 * 2 * (6 + 4) * 5 * 4


FAULTS: list[tuple[Callable, str]] = [
    (lambda: filled()[0].append(torch.ones(2, 2, 1, 5), torch.ones(2, 2, 1, 5)),
     "keys must have a shape (3, 2, n, 5) for this cache, which is one of batch size 3; "
     "got (2, 2, 1, 5)"),
    (lambda: filled()[0].append(torch.ones(3, 2, 3, 5), torch.ones(3, 2, 3, 5)),
     "keys must fit into the cache's max_length = 6 tokens; got 3 after 4"),
    (lambda: filled()[0].append(torch.ones(3, 2, 1, 5), torch.ones(3, 2, 2, 5)),
     "values must have the shape of keys, (3, 2, 1, 5); got (3, 2, 2, 5)"),
    (lambda: filled()[0].append(torch.ones(3, 2, 1, 5).double(), torch.ones(3, 2, 1, 5).double()),
     "keys must have the dtype of cache, float32; got float64"),
    (lambda: filled()[0].append(torch.ones(2, 5), torch.ones(2, 5)), "keys must"),
    (lambda: filled()[0].reorder(torch.tensor([3])), "rows must be from 0 to 2; got 3"),
    (lambda: filled()[0].reorder(torch.tensor([[1]])), "rows must have a shape (b,), b ≥ 1"),
    (lambda: filled()[0].reorder(torch.ones(2)), "rows must be an array of whole numbers"),
    (lambda: CachedAttention(8, 2)(torch.ones(2, 1, 8), cache=KeyValueCache(3, 2, 4, 4)),
     "keys must have a shape (3, 2, n, 4) for this cache, which is one of batch size 3; "
     "got (2, 2, 1, 4)"),
    (lambda: CachedAttention(10, 2)(torch.ones(2, 1, 10), torch.ones(2, 4, 10), cache=filled()[0]),
     "cache must be of batch size 2, that of what is decoded; got one of 3"),
    (lambda: CachedAttention(8, 2)(torch.ones(2, 1, 6), cache=KeyValueCache(2, 2, 4, 4)),
     "x_q must have rows of width d = 8; got shape (2, 1, 6)"),
    (lambda: KeyValueCache(0, 1, 1, 1), "batch_size must be a whole number of at least 1; got 0"),
    (lambda: KeyValueCache(1, 1, 1, 1, dtype=torch.int64), "dtype must be one of"),
    (lambda: DecoderCache(0, 1, 1, 1, 1), "n_layers must be a whole number of at least 1; got 0"),
    (lambda: DecoderCache(1, 2, 1, 1, 1).check_batch(3),
     "cache must be of batch size 3, that of what is decoded; got one of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS)
def test_bad_input_is_named(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
