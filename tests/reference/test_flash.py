"""The numpy half of tiled attention: equal to plain attention, and linear in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference import attention as plain
from course_lib.reference.flash import (
    flash_attention,
    flash_attention_backward,
    merge_partials,
    online_softmax_update,
    visible_tiles,
)
from course_lib.reference.grouped_query import repeat_kv
from tests.agreement import (
    AttentionInputs,
    TiledInputs,
    assert_close,
    attention_inputs,
    numerical_gradient,
    tiled_inputs,
)

RNG = np.random.default_rng(0)
blocks = st.integers(1, 8)


def everything(x: TiledInputs) -> tuple[np.ndarray, ...]:
    """Return the output and the logarithms of sums from plain attention, heads repeated."""
    groups = x.q.shape[-3] // x.k.shape[-3] if x.q.ndim > 2 else 1
    k, v = (repeat_kv(a, groups) if groups > 1 else a for a in (x.k, x.v))
    output, _ = plain.scaled_dot_product_attention(x.q, k, v, x.seen)
    scores = x.q @ k.swapaxes(-2, -1) / np.sqrt(x.q.shape[-1])
    if x.seen is not None:
        scores = np.where(x.seen, scores, -np.inf)
    with np.errstate(divide="ignore"):
        peak = scores.max(axis=-1, keepdims=True)
        peak = np.where(peak == -np.inf, 0.0, peak)
        lse = np.log(np.exp(scores - peak).sum(axis=-1)) + peak[..., 0]
    return output, lse.astype(x.q.dtype)


@given(tiled_inputs())
def test_tiled_attention_equals_plain_attention_at_every_tile_size(x: TiledInputs) -> None:
    output, lse = flash_attention(**x.numpy())
    expected, expected_lse = everything(x)
    assert_close(output, expected, 10 * x.tolerance)
    hidden = expected_lse == -np.inf
    assert (lse[hidden] == -np.inf).all()
    assert (output[hidden] == 0).all()
    assert_close(np.where(hidden, 0, lse), np.where(hidden, 0, expected_lse), 10 * x.tolerance)


@given(attention_inputs(), blocks, blocks)
def test_gradients_equal_those_of_plain_attention_at_every_tile_size(
    x: AttentionInputs, block_q: int, block_k: int
) -> None:
    output, lse = flash_attention(x.q, x.k, x.v, x.mask)
    gradients = flash_attention_backward(
        x.q, x.k, x.v, output, lse, x.d_output, x.mask, block_q=block_q, block_k=block_k
    )
    expected = plain.scaled_dot_product_attention_backward(x.q, x.k, x.v, x.d_output, x.mask)
    for a, b in zip(gradients, expected, strict=True):
        assert_close(a, b, 50 * x.tolerance)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_equal_finite_differences_shared_heads_and_logarithms_included(
    causal: bool,
) -> None:
    q, k, v = (RNG.standard_normal(shape) for shape in ((4, 3, 2), (2, 5, 2), (2, 5, 3)))
    d_output, d_lse = RNG.standard_normal((4, 3, 3)), RNG.standard_normal((4, 3))
    mask = RNG.random((4, 1, 5)) < 0.8
    mask[..., 0] = True
    rest = {"mask": mask, "causal": causal, "block_q": 2, "block_k": 2}

    def loss(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> float:
        output, lse = flash_attention(q, k, v, **rest)
        return float((output * d_output).sum() + (lse * d_lse).sum())

    output, lse = flash_attention(q, k, v, **rest)
    gradients = flash_attention_backward(q, k, v, output, lse, d_output, **rest, d_lse=d_lse)
    for name, gradient in zip(("q", "k", "v"), gradients, strict=True):
        given_ = {"q": q, "k": k, "v": v}
        numerical = numerical_gradient(
            lambda a, name=name, given_=given_: loss(**{**given_, name: a}), given_[name]
        )
        np.testing.assert_allclose(gradient, numerical, atol=1e-7)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 10), st.integers(1, 10), st.booleans())
def test_the_tiles_that_are_visited_are_those_with_an_entry_that_is_seen(
    n_q: int, more: int, block_q: int, block_k: int, causal: bool
) -> None:
    n_k = n_q + more
    mask = plain.causal_mask(n_q, n_k) if causal else np.ones((n_q, n_k), dtype=bool)
    expected = [
        (i, j)
        for i in range(-(-n_q // block_q))
        for j in range(-(-n_k // block_k))
        if mask[i * block_q : (i + 1) * block_q, j * block_k : (j + 1) * block_k].any()
    ]
    assert visible_tiles(n_q, n_k, block_q, block_k, causal) == expected


def test_more_queries_than_keys_have_tiles_where_nothing_is_causal() -> None:
    assert visible_tiles(3, 1, 2, 2) == [(0, 0), (1, 0)]


def test_hidden_tiles_are_never_looked_at() -> None:
    q, k, v = (RNG.standard_normal((6, 2)) for _ in range(3))
    expected, _ = flash_attention(q, k, v, causal=True)
    k[4:], v[4:] = np.nan, np.nan
    output, _ = flash_attention(q, k, v, causal=True, block_q=2, block_k=2)
    np.testing.assert_allclose(output[:4], expected[:4], rtol=1e-12)
    assert np.isnan(output[4:]).all()


def softmax_mean(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    return plain.softmax(scores) @ values


@pytest.mark.parametrize("order", ["ascending", "descending", "as they are"])
@pytest.mark.parametrize("offset", [0.0, -2000.0, 2000.0])
@pytest.mark.parametrize("block", [1, 2, 7])
def test_updates_make_a_softmax_whatever_the_order_and_size_of_scores(
    order: str, offset: float, block: int
) -> None:
    scores, values = 5 * RNG.standard_normal((2, 3, 7)), RNG.standard_normal((2, 7, 4))
    if order != "as they are":
        scores.sort(axis=-1)
    scores = (scores[..., ::-1] if order == "descending" else scores) + offset
    m, l, o = np.full((2, 3), -np.inf), np.zeros((2, 3)), np.zeros((2, 3, 4))
    for i in range(0, 7, block):
        before = [a.copy() for a in (m, l, o)]
        old = m, l, o
        m, l, o = online_softmax_update(
            m, l, o, scores[..., i : i + block], values[:, i : i + block]
        )
        for a, b in zip(old, before, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(m, scores.max(axis=-1))
    np.testing.assert_allclose(o / l[..., None], softmax_mean(scores, values), rtol=1e-9)


def test_scores_that_are_all_hidden_change_nothing() -> None:
    hidden, values = np.full((2, 3), -np.inf), RNG.standard_normal((3, 4))
    start = np.full(2, -np.inf), np.zeros(2), np.zeros((2, 4))
    for state in (start, (np.array([1.0, -3.0]), np.array([2.0, 1.0]), np.ones((2, 4)))):
        for a, b in zip(online_softmax_update(*state, hidden, values), state, strict=True):
            np.testing.assert_array_equal(a, b)


@given(attention_inputs(dtypes=("float64",)), st.data())
def test_parts_of_the_keys_merge_into_the_whole(x: AttentionInputs, data: st.DataObject) -> None:
    k, v = np.concatenate((x.k, 3 * x.k), axis=-2), np.concatenate((x.v, -x.v), axis=-2)
    n_k = k.shape[-2]
    seen = None if x.mask is None else np.broadcast_to(x.mask, (*x.q.shape[:-1], n_k // 2))
    seen = None if seen is None else np.concatenate((seen, np.roll(seen, 1, -1)), axis=-1)
    at = data.draw(st.integers(1, n_k - 1))
    parts = []
    for part in (slice(0, at), slice(at, n_k)):
        mask = None if seen is None else seen[..., part]
        parts.append(flash_attention(x.q, k[..., part, :], v[..., part, :], mask))
    whole = flash_attention(x.q, k, v, seen)
    for merged in (merge_partials(*parts[0], *parts[1]), merge_partials(*parts[1], *parts[0])):
        hidden = whole[1] == -np.inf
        assert_close(merged[0], whole[0], 1e-11)
        assert (merged[1][hidden] == -np.inf).all()
        np.testing.assert_allclose(merged[1][~hidden], whole[1][~hidden], rtol=0, atol=1e-9)


def test_half_precision_is_computed_in_single() -> None:
    q, k, v = (30 * RNG.standard_normal((2, 9, 4)) for _ in range(3))
    halves = [x.astype(np.float16) for x in (q, k, v)]
    singles = [x.astype(np.float32) for x in halves]
    output, lse = flash_attention(*halves, block_k=2)
    expected, expected_lse = flash_attention(*singles)
    assert output.dtype == np.float16
    assert lse.dtype == np.float32
    np.testing.assert_array_equal(output, expected.astype(np.float16))
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-6)
    for a, x in zip(
        flash_attention_backward(*halves, output, lse, np.ones_like(output)), halves, strict=True
    ):
        assert a.dtype == np.float16
        assert a.shape == x.shape


def peak_of(call: Callable[[], object]) -> int:
    """Return the most bytes that were allocated at any time during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_length_and_that_of_plain_attention_with_its_square() -> None:
    def attend(n: int, tiled: bool) -> Callable[[], object]:
        q, k, v = (RNG.standard_normal((n, 8)).astype(np.float32) for _ in range(3))
        if not tiled:
            return lambda: plain.scaled_dot_product_attention(q, k, v)

        def both_ways() -> None:
            output, lse = flash_attention(q, k, v, block_q=512, block_k=512)
            flash_attention_backward(q, k, v, output, lse, output, block_q=512, block_k=512)

        return both_ways

    square = [peak_of(attend(n, tiled=False)) for n in (512, 1024, 2048)]
    assert 3.8 < square[1] / square[0] < 4.2
    assert 3.8 < square[2] / square[1] < 4.2
    tiles = {n: peak_of(attend(n, tiled=True)) for n in (1024, 2048, 4096)}
    rows = 4 * 8 * 5  # bytes a token: output, three gradients, and less than that besides
    assert tiles[4096] - tiles[2048] < 2048 * rows * 1.5
    assert tiles[2048] - tiles[1024] < 1024 * rows * 1.5
    assert tiles[4096] < square[2] / 4


@pytest.mark.slow
def test_sixteen_thousand_tokens_take_a_hundredth_of_a_table() -> None:
    n = 16_384
    q, k, v = (RNG.standard_normal((n, 8)).astype(np.float32) for _ in range(3))
    at_peak = peak_of(lambda: flash_attention(q, k, v, causal=True, block_q=256, block_k=1024))
    assert at_peak < 4 * n**2 / 100


GOOD = {"q": (4, 3, 2), "k": (2, 5, 2), "v": (2, 5, 3)}
BAD = {
    "no floats": ({"q": np.ones((4, 3, 2), dtype=int)}, "q must be an array of real floating-"),
    "width": ({"k": (2, 5, 3)}, "k must have the width of q, d_k = 2"),
    "rows": ({"v": (2, 4, 3)}, "v must have one row for each of the 5 keys"),
    "leading axes": ({"v": (1, 5, 3)}, r"v must have the leading axes of k, \(2,\); got \(1,\)"),
    "no divisor": ({"k": (3, 5, 2), "v": (3, 5, 3)}, r"k must have the leading axes of q, \(4,\)"),
    "more axes": ({"q": (3, 2)}, r"k must have the leading axes of q, \(\)"),
    "batch": ({"q": (2, 4, 3, 2), "k": (1, 2, 5, 2), "v": (1, 2, 5, 3)}, "k must have the leading"),
    "empty": ({"q": (4, 0, 2)}, "q must not be empty"),
    "block": ({"block_q": 0}, "block_q must be a whole number of at least 1; got 0"),
    "half a block": ({"block_k": 1.5}, "block_k must be a whole number of at least 1; got 1.5"),
    "causal": ({"causal": 1}, "causal must be True or False; got 1"),
    "too many": ({"q": (4, 6, 2), "causal": True}, "n_k must be at least n_q = 6; got 5"),
    "mask": ({"mask": np.ones((3, 5))}, "mask must be boolean"),
    "shape of mask": ({"mask": np.ones((3, 4), dtype=bool)}, "mask must be boolean with a shape"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_named(changed: dict[str, object], message: str) -> None:
    given_ = {
        name: np.ones(value) if name in GOOD and isinstance(value, tuple) else value
        for name, value in {**GOOD, **changed}.items()
    }
    with pytest.raises(ValueError, match=f"^{message}"):
        flash_attention(**given_)


ONES = np.ones
STATE = {"m": ONES(3), "l": ONES(3), "o": ONES((3, 2)), "scores": ONES((3, 4)),
         "values": ONES((4, 2))}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: online_softmax_update(**{**STATE, "m": ONES(2)}), r"m must have the shape"),
        (lambda: online_softmax_update(**{**STATE, "l": ONES((3, 1))}), r"l must have the shape"),
        (lambda: online_softmax_update(**{**STATE, "o": ONES((3, 4))}), r"o must have the shape"),
        (lambda: online_softmax_update(**{**STATE, "values": ONES((3, 2))}), "values must have on"),
        (lambda: online_softmax_update(**{**STATE, "values": ONES((1, 4, 2))}), "values must have"),
        (lambda: online_softmax_update(**{**STATE, "scores": ONES((3, 0))}), "scores must not be"),
        (lambda: online_softmax_update(**{**STATE, "m": ONES(3, "f4")}), "m must have the dtype"),
        (lambda: merge_partials(ONES((3, 2)), ONES(3), ONES((3, 1)), ONES(3)), "output_b must ha"),
        (lambda: merge_partials(ONES((3, 2)), ONES(2), ONES((3, 2)), ONES(3)), "lse_a must have"),
        (lambda: merge_partials(ONES((3, 2)), ONES(3), ONES((3, 2)), ONES((3, 1))), "lse_b must"),
        (lambda: visible_tiles(0, 1, 1, 1), "n_q must be a whole number of at least 1; got 0"),
        (lambda: visible_tiles(3, 2, 1, 1, True), "n_k must be at least n_q = 3; got 2"),
        (lambda: visible_tiles(3, 2, True, 1), "block_q must be a whole number"),
    ],
)
def test_what_cannot_be_updated_merged_or_cut_is_named(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("wrong", ["output", "lse", "d_output", "d_lse"])
def test_a_result_or_gradient_of_another_shape_is_named(wrong: str) -> None:
    shapes = {"output": (3, 2), "lse": (3,), "d_output": (3, 2), "d_lse": (3,)}
    shapes[wrong] = (4, *shapes[wrong][1:])
    q, k, v = ONES((3, 5)), ONES((6, 5)), ONES((6, 2))
    with pytest.raises(ValueError, match=f"^{wrong} must have the shape"):
        flash_attention_backward(q, k, v, **{name: ONES(s) for name, s in shapes.items()})
