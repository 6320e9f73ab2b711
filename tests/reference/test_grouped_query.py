"""The numpy half of grouped queries: multi-head attention with repeated heads of keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import causal_mask
from course_lib.reference.grouped_query import grouped_query_attention, pool_kv_heads, repeat_kv
from course_lib.reference.multi_head import multi_head_attention
from tests.agreement import FLOATS, GroupedInputs, assert_close, grouped_inputs

RNG = np.random.default_rng(0)


def test_heads_of_keys_are_repeated_and_not_tiled() -> None:
    x = np.arange(2.0).reshape(2, 1, 1)
    assert repeat_kv(x, 2).ravel().tolist() == [0.0, 0.0, 1.0, 1.0]
    assert repeat_kv(x, 3).ravel().tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


@given(st.lists(st.integers(1, 3), max_size=2), *[st.integers(1, 4)] * 4)
def test_query_head_i_gets_the_head_of_its_group(
    lead: list[int], h_kv: int, group_size: int, n: int, d_k: int
) -> None:
    x = RNG.standard_normal((*lead, h_kv, n, d_k))
    repeated = repeat_kv(x, group_size)
    assert repeated.shape == (*lead, h_kv * group_size, n, d_k)
    for i in range(h_kv * group_size):
        assert (repeated[..., i, :, :] == x[..., i // group_size, :, :]).all()


def expanded(w: np.ndarray, n_kv_heads: int, group_size: int) -> np.ndarray:
    """Return the matrix of h heads in which each of h_kv heads comes `group_size` times."""
    pieces = np.split(w, n_kv_heads, axis=-1)
    return np.concatenate([piece for piece in pieces for _ in range(group_size)], axis=-1)


@given(grouped_inputs())
def test_grouped_queries_equal_multi_head_attention_with_repeated_heads(x: GroupedInputs) -> None:
    a, group_size = x.arrays, x.n_heads // x.n_kv_heads
    output, weights = grouped_query_attention(**x.numpy())
    wide = {n: expanded(a[n], x.n_kv_heads, group_size) for n in ("w_k", "w_v")}
    expected = multi_head_attention(**(a | wide), n_heads=x.n_heads)
    assert_close(output, expected[0], 30 * x.tolerance)
    assert_close(weights, expected[1], 30 * x.tolerance)


@given(grouped_inputs(), st.data())
def test_pooling_takes_the_mean_of_each_groups_matrices(
    x: GroupedInputs, data: st.DataObject
) -> None:
    w, d_k = x.arrays["w_q"], x.arrays["w_q"].shape[1] // x.n_heads
    pooled = pool_kv_heads(w, x.n_heads, x.n_kv_heads)
    assert pooled.shape == (len(w), x.n_kv_heads * d_k)
    assert pooled.dtype == w.dtype
    j = data.draw(st.integers(0, x.n_kv_heads - 1))
    group_size = x.n_heads // x.n_kv_heads
    group = [w[:, i * d_k : (i + 1) * d_k] for i in range(j * group_size, (j + 1) * group_size)]
    assert_close(pooled[:, j * d_k : (j + 1) * d_k], np.mean(group, axis=0), x.tolerance)


@pytest.mark.parametrize("dtype", sorted(FLOATS))
def test_pooling_what_was_repeated_changes_nothing_and_by_one_group_each_neither(
    dtype: str,
) -> None:
    w = RNG.standard_normal((5, 6)).astype(dtype)
    assert_close(pool_kv_heads(expanded(w, 2, 3), 6, 2), w, FLOATS[dtype])
    assert (pool_kv_heads(w, 3, 3) == w).all()


def test_a_pooled_multi_head_model_whose_groups_are_alike_computes_what_it_did() -> None:
    x, (w_q, w_o) = RNG.standard_normal((2, 5, 8)), RNG.standard_normal((2, 8, 8))
    w_k, w_v = (expanded(w, 2, 2) for w in RNG.standard_normal((2, 8, 4)))
    before = multi_head_attention(x, x, w_q, w_k, w_v, w_o, 4, causal_mask(5))
    pooled = (pool_kv_heads(w, 4, 2) for w in (w_k, w_v))
    after = grouped_query_attention(x, x, w_q, *pooled, w_o, 4, 2, causal_mask(5))
    for a, b in zip(after, before, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_a_bias_is_pooled_as_its_matrix_is() -> None:
    assert pool_kv_heads(np.array([1.0, 2.0, 3.0, 6.0]), 4, 2).tolist() == [1.5, 4.5]
    assert pool_kv_heads(np.array([1.0, 2.0, 3.0, 6.0]), 2, 1).tolist() == [2.0, 4.0]


def test_a_query_with_nothing_to_look_at_gets_nothing() -> None:
    x, w = RNG.standard_normal((2, 4)), RNG.standard_normal((4, 4))
    mask = np.array([[False, False], [True, True]])
    output, weights = grouped_query_attention(x, x, w, w[:, :2], w[:, :2], w, 2, 1, mask)
    assert (output[0] == 0).all()
    assert (weights[:, 0] == 0).all()
    assert np.isfinite(output).all()


def test_half_precision_equals_single_precision_rounded_once() -> None:
    x = (4 * RNG.standard_normal((2, 5, 8))).astype(np.float16)
    ws = [(20 * RNG.standard_normal(s)).astype(np.float16) for s in ((8, 8), (8, 4), (8, 4))]
    ws.append(RNG.standard_normal((8, 8)).astype(np.float16))
    half = grouped_query_attention(x, x, *ws, 4, 2)
    wide = x.astype(np.float32)
    single = grouped_query_attention(wide, wide, *(w.astype(np.float32) for w in ws), 4, 2)
    for a, b in zip(half, single, strict=True):
        assert a.dtype == np.float16
        assert (a == b.astype(np.float16)).all()
    pooled = pool_kv_heads(np.full((1, 4), 60000, dtype=np.float16), 4, 1)
    assert pooled.dtype == np.float16
    assert np.isfinite(pooled).all()


def test_inputs_are_left_as_they_were() -> None:
    x, w = RNG.standard_normal((2, 5, 4)), RNG.standard_normal((4, 4))
    before = [x.copy(), w.copy()]
    grouped_query_attention(x, x, w, w, w, w, 2, 2, causal_mask(5))
    repeat_kv(x, 2)[:] = 0.0
    assert (x == before[0]).all()
    assert (w == before[1]).all()
