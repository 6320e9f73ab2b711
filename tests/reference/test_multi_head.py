"""The numpy half of multi-head attention: against loops over heads, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import causal_mask, scaled_dot_product_attention
from course_lib.reference.masks import combine_masks, padding_mask
from course_lib.reference.multi_head import (
    fuse_projections,
    fused_projections,
    merge_heads,
    multi_head_attention,
    project,
    split_heads,
)
from tests.agreement import MultiHeadInputs, assert_close, multi_head_inputs

RNG = np.random.default_rng(0)


def weights_of_a_layer(d: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    names = ("w_q", "w_k", "w_v", "w_o")
    return {name: rng.standard_normal((d, d)) / np.sqrt(d) for name in names}


def test_heads_are_neighbouring_columns_in_order() -> None:
    x = np.arange(24.0).reshape(1, 4, 6)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 4, 2)
    for i in range(3):
        assert (heads[:, i] == x[..., 2 * i : 2 * i + 2]).all()


@given(st.lists(st.integers(1, 3), max_size=3), *[st.integers(1, 4)] * 3)
def test_merging_undoes_splitting(lead: list[int], n: int, h: int, d_head: int) -> None:
    x = RNG.standard_normal((*lead, n, h * d_head))
    heads = split_heads(x, h)
    assert heads.shape == (*lead, h, n, d_head)
    assert (merge_heads(heads) == x).all()
    assert (split_heads(merge_heads(heads), h) == heads).all()


def test_splitting_moves_no_number_and_merging_copies() -> None:
    x = np.zeros((2, 5, 6))
    heads = split_heads(x, 3)
    assert np.shares_memory(heads, x)
    behind_one_another = heads.copy()  # as they come out of attention
    assert not np.shares_memory(merge_heads(behind_one_another), behind_one_another)


@given(multi_head_inputs())
def test_many_heads_equal_a_loop_over_single_ones(x: MultiHeadInputs) -> None:
    a, h = x.arrays, x.n_heads
    output, weights = multi_head_attention(**x.numpy())
    lead, (n_q, n_k) = a["x_q"].shape[:-2], weights.shape[-2:]
    mask = None if a["mask"] is None else np.broadcast_to(a["mask"], (*lead, h, n_q, n_k))
    pieces = {name: np.split(a[name], h, axis=-1) for name in ("w_q", "w_k", "w_v")}
    biases = {
        name: [0.0] * h if a.get(name) is None else np.split(a[name], h)
        for name in ("b_q", "b_k", "b_v")
    }
    heads = []
    for i in range(h):
        q = a["x_q"] @ pieces["w_q"][i] + biases["b_q"][i]
        k = a["x_kv"] @ pieces["w_k"][i] + biases["b_k"][i]
        v = a["x_kv"] @ pieces["w_v"][i] + biases["b_v"][i]
        dtype = a["x_q"].dtype
        seen = None if mask is None else mask[..., i, :, :]
        head, rows = scaled_dot_product_attention(*(y.astype(dtype) for y in (q, k, v)), seen)
        assert_close(weights[..., i, :, :], rows, 30 * x.tolerance)
        heads.append(head)
    b_o = 0.0 if a.get("b_o") is None else a["b_o"]
    expected = (np.concatenate(heads, axis=-1) @ a["w_o"] + b_o).astype(dtype)
    assert_close(output, expected, 30 * x.tolerance)


def test_one_head_with_identities_for_matrices_is_plain_attention() -> None:
    x, eye = RNG.standard_normal((2, 5, 4)), np.eye(4)
    output, weights = multi_head_attention(x, x, eye, eye, eye, eye, 1)
    expected, rows = scaled_dot_product_attention(x, x, x)
    np.testing.assert_allclose(output, expected)
    np.testing.assert_allclose(weights[:, 0], rows)


def test_each_head_divides_by_the_root_of_its_own_width() -> None:
    d, h = 8, 4
    x, eye = 3.0 * RNG.standard_normal((3, d)), np.eye(d)
    weights = multi_head_attention(x, x, eye, eye, eye, eye, h)[1]
    for i in range(h):
        own = x[:, 2 * i : 2 * i + 2]
        scores = np.log(weights[i])
        differences = own @ own.T / np.sqrt(2)
        np.testing.assert_allclose(
            scores - scores[:, :1], differences - differences[:, :1], atol=1e-9
        )


def test_fused_projections_equal_three_and_their_biases() -> None:
    x = RNG.standard_normal((2, 5, 4))
    ws, bs = RNG.standard_normal((3, 4, 6)), RNG.standard_normal((3, 6))
    w_qkv, b_qkv = fuse_projections(*ws), fuse_projections(*bs)
    assert (w_qkv.shape, b_qkv.shape) == ((4, 18), (18,))
    for y, w, b in zip(fused_projections(x, w_qkv, b_qkv), ws, bs, strict=True):
        np.testing.assert_allclose(y, project(x, w, b), atol=1e-12)
        np.testing.assert_allclose(y, x @ w + b, atol=1e-12)


def test_heads_in_another_order_give_the_same_output() -> None:
    d, h = 6, 3
    x, w = RNG.standard_normal((2, 5, d)), weights_of_a_layer(6)
    order = np.arange(d).reshape(h, -1)[[2, 0, 1]].ravel()
    turned = {name: w[name][:, order] for name in ("w_q", "w_k", "w_v")} | {"w_o": w["w_o"][order]}
    output, weights = multi_head_attention(x, x, n_heads=h, **w)
    other, rows = multi_head_attention(x, x, n_heads=h, **turned)
    np.testing.assert_allclose(other, output, atol=1e-12)
    np.testing.assert_allclose(rows, weights[:, [2, 0, 1]], atol=1e-12)


@given(st.integers(0, 1000))
def test_without_positions_shuffled_tokens_give_shuffled_outputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, order = rng.standard_normal((5, 6)), rng.permutation(5)
    w = weights_of_a_layer(6, seed)
    output, _ = multi_head_attention(x, x, n_heads=2, **w)
    shuffled, _ = multi_head_attention(x[order], x[order], n_heads=2, **w)
    np.testing.assert_allclose(shuffled, output[order], atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_equals_its_members_one_by_one(side: str) -> None:
    lengths, n, d = np.array([3, 5, 1]), 6, 8
    w = weights_of_a_layer(d)
    members = [RNG.standard_normal((length, d)) for length in lengths]
    batch = np.full((3, n, d), 7.0)
    where = [slice(0, m) if side == "right" else slice(n - m, n) for m in lengths]
    for row, at, member in zip(batch, where, members, strict=True):
        row[at] = member
    mask = combine_masks(padding_mask(lengths, n, side), causal_mask(n))
    output, _ = multi_head_attention(batch, batch, n_heads=2, mask=mask, **w)
    for row, at, member in zip(output, where, members, strict=True):
        alone, _ = multi_head_attention(
            member, member, n_heads=2, mask=causal_mask(len(member)), **w
        )
        np.testing.assert_allclose(row[at], alone, atol=1e-12)


def test_under_a_causal_mask_no_output_answers_to_a_later_token() -> None:
    x, w = RNG.standard_normal((1, 5, 6)), weights_of_a_layer(6)
    other = x.copy()
    other[:, 3] += 1.0
    one = multi_head_attention(x, x, n_heads=3, mask=causal_mask(5), **w)[0]
    two = multi_head_attention(other, other, n_heads=3, mask=causal_mask(5), **w)[0]
    assert (one[:, :3] == two[:, :3]).all()
    assert (np.abs(one[:, 3:] - two[:, 3:]).max(axis=-1) > 1e-3).all()


def test_a_query_with_nothing_to_look_at_gets_the_bias_of_the_output() -> None:
    x, w = RNG.standard_normal((2, 4)), weights_of_a_layer(4)
    mask = np.array([[False, False], [True, True]])
    b_o = np.arange(4.0)
    output, weights = multi_head_attention(x, x, n_heads=2, mask=mask, b_o=b_o, **w)
    assert output[0].tolist() == b_o.tolist()
    assert (weights[:, 0] == 0).all()
    assert np.isfinite(output).all()


def test_half_precision_equals_single_precision_rounded_once() -> None:
    x = (4 * RNG.standard_normal((2, 5, 8))).astype(np.float16)
    w = {name: (20 * a).astype(np.float16) for name, a in weights_of_a_layer(8).items()}
    half = multi_head_attention(x, x, n_heads=2, **w)
    wide = {name: a.astype(np.float32) for name, a in w.items()}
    x = x.astype(np.float32)
    single = multi_head_attention(x, x, n_heads=2, **wide)
    for a, b in zip(half, single, strict=True):
        assert a.dtype == np.float16
        assert (a == b.astype(np.float16)).all()


def test_a_bias_of_the_keys_shifts_all_scores_of_a_query_alike_and_changes_nothing() -> None:
    x, w = RNG.standard_normal((2, 5, 4)), weights_of_a_layer(4)
    plain = multi_head_attention(x, x, n_heads=2, **w)
    shifted = multi_head_attention(x, x, n_heads=2, b_k=10 * RNG.standard_normal(4), **w)
    for a, b in zip(plain, shifted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_inputs_are_left_as_they_were() -> None:
    x, w = RNG.standard_normal((2, 5, 4)), weights_of_a_layer(4)
    before = [a.copy() for a in (x, *w.values())]
    multi_head_attention(x, x, n_heads=2, mask=causal_mask(5), **w)
    for was, a in zip(before, (x, *w.values()), strict=True):
        assert (was == a).all()
