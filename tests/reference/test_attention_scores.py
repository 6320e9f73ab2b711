"""The numpy half of scores and contexts: against loops, one query and one key at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import scaled_dot_product_attention
from course_lib.reference.attention_scores import (
    additive_scores,
    attend,
    bilinear_scores,
    dot_scores,
    plain_self_attention,
)

size = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


@given(size, size, size, size, size, seeds)
def test_scores_for_all_equal_those_of_one_query_and_one_key_at_a_time(
    n_q: int, n_k: int, d_q: int, d_k: int, d_a: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    h, s = rng.standard_normal((n_q, d_q)), rng.standard_normal((n_k, d_k))
    w_query, w_key = rng.standard_normal((d_q, d_a)), rng.standard_normal((d_k, d_a))
    v, w = rng.standard_normal(d_a), rng.standard_normal((d_q, d_k))
    additive, bilinear = np.zeros((n_q, n_k)), np.zeros((n_q, n_k))
    for t in range(n_q):
        for k in range(n_k):
            for a in range(d_a):
                inside = sum(h[t, i] * w_query[i, a] for i in range(d_q))
                inside += sum(s[k, j] * w_key[j, a] for j in range(d_k))
                additive[t, k] += v[a] * np.tanh(inside)
            bilinear[t, k] = sum(
                h[t, i] * w[i, j] * s[k, j] for i in range(d_q) for j in range(d_k)
            )
    np.testing.assert_allclose(additive_scores(h, s, w_query, w_key, v), additive, atol=1e-12)
    np.testing.assert_allclose(bilinear_scores(h, s, w), bilinear, atol=1e-12)


@given(st.lists(st.integers(1, 3), max_size=3), size, size, size, seeds)
def test_dot_scores_are_bilinear_ones_with_the_identity_between(
    lead: list[int], n_q: int, n_k: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    h, s = rng.standard_normal((*lead, n_q, d)), rng.standard_normal((*lead, n_k, d))
    np.testing.assert_allclose(dot_scores(h, s), np.einsum("...td,...kd->...tk", h, s), atol=1e-12)
    np.testing.assert_allclose(dot_scores(h, s), bilinear_scores(h, s, np.eye(d)), atol=1e-12)


def test_an_additive_score_saturates_where_a_dot_product_grows() -> None:
    one = np.ones((1, 1))
    assert additive_scores(100 * one, one, one, one, one[0]) == 1.0
    assert dot_scores(100 * one, one) == 100.0


@given(size, st.integers(2, 6), size, seeds)
def test_padding_in_the_source_changes_nothing_whatever_stands_there(
    n_q: int, n_k: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, n_k + 1, 3)
    h, s = rng.standard_normal((3, n_q, d)), rng.standard_normal((3, n_k, d))
    mask = (np.arange(n_k) < lengths[:, None])[:, None, :]  # (b, 1, n_k)
    context, weights = attend(dot_scores(h, s), s, mask)
    for b, length in enumerate(lengths):
        alone, its_weights = attend(dot_scores(h[b], s[b, :length]), s[b, :length])
        np.testing.assert_allclose(context[b], alone, atol=1e-12)
        np.testing.assert_allclose(weights[b, :, :length], its_weights, atol=1e-12)
        assert (weights[b, :, length:] == 0).all()


def test_a_query_that_may_look_nowhere_gets_zeros_without_a_warning() -> None:
    mask = np.array([[True, True], [False, False]])
    with np.errstate(all="raise"):
        context, weights = attend(np.ones((2, 2)), np.array([[1.0], [3.0]]), mask)
    assert context.tolist() == [[2.0], [0.0]]
    assert weights.tolist() == [[0.5, 0.5], [0.0, 0.0]]


@given(st.lists(st.integers(1, 3), max_size=2), size, size, st.booleans(), seeds)
def test_plain_self_attention_is_scaled_attention_with_the_scale_taken_out(
    lead: list[int], n: int, d: int, masked: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((*lead, n, d))
    mask = rng.random((n, n)) < 0.6 if masked else None
    for a, b in zip(
        plain_self_attention(x, mask),
        scaled_dot_product_attention(np.sqrt(d) * x, x, x, mask),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-12)


@given(st.integers(1, 7), size, seeds)
def test_shuffled_tokens_give_the_same_outputs_shuffled(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, order = rng.standard_normal((n, d)), rng.permutation(n)
    np.testing.assert_allclose(
        plain_self_attention(x[order])[0], plain_self_attention(x)[0][order], atol=1e-12
    )


def test_half_precision_does_not_overflow_where_raw_scores_would() -> None:
    x = np.full((2, 64), 200.0, dtype=np.float16)  # x·x = 2.56 million, above float16's 65,504
    x[1] = -200.0
    with np.errstate(over="raise", invalid="raise"):
        output, weights = plain_self_attention(x)
    assert output.dtype == weights.dtype == np.float16
    assert (output == x).all()
    assert weights.tolist() == [[1, 0], [0, 1]]


def test_inputs_are_left_as_they_were() -> None:
    rng = np.random.default_rng(0)
    h, s, w = (rng.standard_normal((3, 3)) for _ in range(3))
    mask = rng.random((3, 3)) < 0.5
    before = [x.copy() for x in (h, s, w, mask)]
    scores = additive_scores(h, s, w, w, w[0])
    kept = scores.copy()
    attend(scores, s, mask)
    dot_scores(h, s)
    bilinear_scores(h, s, w)
    plain_self_attention(s, mask)
    assert (kept == scores).all()
    for was, x in zip(before, (h, s, w, mask), strict=True):
        assert (was == x).all()


def test_half_precision_equals_single_precision_rounded() -> None:
    rng = np.random.default_rng(0)
    q, k, v, w = (rng.standard_normal(s).astype(np.float16) for s in ((3, 5), (4, 5), (5,), (5, 5)))
    mask = rng.random((3, 4)) < 0.7
    for function, arguments in (
        (lambda *a: (additive_scores(*a),), (q, k, w, w, v)),
        (lambda *a: (bilinear_scores(*a),), (q, k, w)),
        (lambda *a: (dot_scores(*a),), (q, k)),
        (lambda *a: attend(*a, mask), (q @ k.T, k)),
        (plain_self_attention, (k,)),
    ):
        single = function(*(a.astype(np.float32) for a in arguments))
        for got, expected in zip(function(*arguments), single, strict=True):
            assert got.dtype == np.float16
            assert (got == expected.astype(np.float16)).all()
