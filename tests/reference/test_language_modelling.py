"""The numpy half of language modelling: its numbers and its promises."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import softmax
from course_lib.reference.language_modelling import (
    chain_log_probability,
    cross_entropy,
    log_softmax,
    perplexity,
    sample,
)

seeds = st.integers(0, 2**32 - 1)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), seeds)
def test_log_softmax_is_the_logarithm_of_softmax_along_every_axis(
    shape: list[int], seed: int
) -> None:
    x = np.random.default_rng(seed).standard_normal(shape)
    for axis in range(-len(shape), len(shape)):
        np.testing.assert_allclose(log_softmax(x, axis), np.log(softmax(x, axis)), atol=1e-12)


def test_log_softmax_tells_apart_what_softmax_rounds_to_zero() -> None:
    x = np.array([0.0, -1000.0, -2000.0])
    assert softmax(x).tolist() == [1.0, 0.0, 0.0]
    with np.errstate(all="raise", under="ignore"):
        assert log_softmax(x).tolist() == [0.0, -1000.0, -2000.0]
        np.testing.assert_allclose(log_softmax(x + 1e5), log_softmax(x), atol=1e-9)


def test_log_softmax_of_hidden_scores_is_minus_infinity_without_a_warning() -> None:
    with np.errstate(all="raise"):
        assert log_softmax(np.full((2, 3), -np.inf)).tolist() == [[-np.inf] * 3] * 2
        np.testing.assert_allclose(log_softmax(np.array([0.0, -np.inf, 0.0])),
                                   [-log(2), -np.inf, -log(2)])  # fmt: skip


@given(st.integers(1, 9), st.integers(1, 9), seeds)
def test_cross_entropy_is_the_product_with_one_hot_targets(m: int, v: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, targets = rng.standard_normal((m, v)), rng.integers(0, v, m)
    one_hot = np.eye(v)[targets]
    expected = -(one_hot * np.log(softmax(logits))).sum(axis=-1).mean()
    np.testing.assert_allclose(cross_entropy(logits, targets), expected, atol=1e-12)


@pytest.mark.parametrize("v", [2, 17, 1000])
def test_a_model_that_prefers_nothing_has_the_loss_log_v_and_the_perplexity_v(v: int) -> None:
    loss = cross_entropy(np.full((3, 5, v), 0.7), np.arange(15).reshape(3, 5) % v)
    assert loss == pytest.approx(log(v))
    assert perplexity(np.array([loss]), np.array([15])) == pytest.approx(v)


@given(st.integers(2, 6), st.integers(2, 6), seeds)
def test_padding_changes_no_loss_whatever_its_logits_are(b: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, targets = rng.standard_normal((b, n, 7)), rng.integers(1, 7, (b, n))
    lengths = rng.integers(1, n + 1, b)
    real = np.arange(n) < lengths[:, None]
    padded = np.where(real, targets, 0)
    one_by_one = [cross_entropy(x[:m], t[:m]) for x, t, m in zip(logits, targets, lengths,
                                                                strict=True)]  # fmt: skip
    expected = np.average(one_by_one, weights=lengths)  # a mean over tokens, not over sequences
    logits[~real] = 1e4
    np.testing.assert_allclose(cross_entropy(logits, padded, ignore_index=0), expected, atol=1e-12)


def test_a_loss_is_finite_where_the_probability_would_be_rounded_to_zero() -> None:
    assert cross_entropy(np.array([[0.0, 5000.0]]), np.array([0])) == 5000.0


def test_one_position_without_leading_axes_has_a_loss() -> None:
    assert cross_entropy(np.array([0.0, 0.0]), np.array(1)) == pytest.approx(log(2))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), seeds)
def test_perplexity_does_not_depend_on_how_tokens_were_put_into_batches(
    sizes: list[int], seed: int
) -> None:
    surprise = np.random.default_rng(seed).exponential(size=sum(sizes))
    batches = np.split(surprise, np.cumsum(sizes)[:-1])
    whole = exp(surprise.mean())
    means = np.array([batch.mean() for batch in batches])
    assert perplexity(means, np.array(sizes)) == pytest.approx(whole)


@given(st.integers(1, 5), st.integers(1, 5), seeds)
def test_the_chain_rule_gives_all_sequences_of_a_length_a_total_probability_of_one(
    length: int, v: int, seed: int
) -> None:
    """Under conditionals that do depend on what came before."""
    rng = np.random.default_rng(seed)
    table = {}
    probability = 0.0
    for index in np.ndindex((v,) * length):
        rows = []
        for t in range(length):
            rows.append(table.setdefault(index[:t], softmax(rng.standard_normal(v))))
        probability += exp(chain_log_probability(np.stack(rows), np.array(index)))
    assert probability == pytest.approx(1.0)


def test_an_impossible_token_makes_the_sequence_impossible_without_a_warning() -> None:
    conditionals = np.array([[1.0, 0.0], [0.5, 0.5]])
    with np.errstate(all="raise"):
        assert chain_log_probability(conditionals, np.array([1, 0])) == -np.inf


def test_a_long_sequence_whose_probability_underflows_keeps_its_logarithm() -> None:
    conditionals = np.full((2000, 4), 0.25)
    tokens = np.zeros(2000, dtype=np.int64)
    assert np.prod(conditionals[:, 0]) == 0.0
    assert chain_log_probability(conditionals, tokens) == pytest.approx(-2000 * log(4))


@given(st.integers(1, 8), st.sampled_from([0.3, 1.0, 2.5]), seeds)
def test_a_fine_grid_of_uniforms_draws_tokens_as_often_as_they_are_probable(
    v: int, temperature: float, seed: int
) -> None:
    logits = np.random.default_rng(seed).standard_normal(v)
    grid = (np.arange(10_000) + 0.5) / 10_000
    drawn = sample(np.tile(logits, (10_000, 1)), grid, temperature)
    frequencies = np.bincount(drawn, minlength=v) / 10_000
    np.testing.assert_allclose(frequencies, softmax(logits / temperature), atol=1e-4)


@given(st.integers(1, 6), seeds)
def test_a_token_without_probability_is_never_drawn_not_even_at_the_ends(v: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(v)
    possible = rng.random(v) < 0.5
    possible[rng.integers(v)] = True
    logits[~possible] = -np.inf
    for u in (0.0, 0.25, 0.5, np.nextafter(1.0, 0.0)):
        assert possible[sample(logits, u)]


def test_the_largest_uniform_number_draws_a_token_though_the_sum_falls_short_of_one() -> None:
    logits = np.log(np.full(10, 0.1))
    assert softmax(logits).cumsum()[-1] < 1.0
    assert sample(logits, float(np.nextafter(1.0, 0.0))) == 9


def test_a_temperature_near_zero_draws_the_most_probable_and_a_high_one_any() -> None:
    logits = np.array([1.0, 3.0, 2.0])
    for u in (0.0, 0.5, 0.99):
        assert sample(logits, u, temperature=1e-3) == 1
    assert [int(sample(logits, u, temperature=1e6)) for u in (0.2, 0.5, 0.8)] == [0, 1, 2]


def test_half_precision_comes_back_in_half_without_overflow() -> None:
    logits = np.array([[6e4, -6e4, 0.0]], dtype=np.float16)
    with np.errstate(over="raise", invalid="raise"):
        assert log_softmax(logits[:, ::2]).dtype == np.float16
        loss = cross_entropy(logits, np.array([2]))
    assert loss.dtype == np.float16
    assert loss == np.float16(6e4)
    many = np.full(5000, 8.0, dtype=np.float16)  # their sum is beyond float16
    assert perplexity(many, np.full(5000, 3)) == pytest.approx(exp(8), rel=1e-3)


def test_inputs_are_left_as_they_were() -> None:
    rng = np.random.default_rng(0)
    logits, targets = rng.standard_normal((3, 4)), rng.integers(0, 4, 3)
    u, p = rng.random(3), softmax(logits)
    before = [x.copy() for x in (logits, targets, u, p)]
    log_softmax(logits)
    cross_entropy(logits, targets)
    chain_log_probability(p, targets)
    sample(logits, u, 0.5)
    for was, x in zip(before, (logits, targets, u, p), strict=True):
        assert (was == x).all()


def test_the_chain_rule_in_half_precision_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    p = softmax(rng.standard_normal((400, 4, 9))).astype(np.float16)
    tokens = rng.integers(9, size=(400, 4))
    half = chain_log_probability(p, tokens)
    assert half.dtype == np.float16
    single = chain_log_probability(p.astype(np.float32), tokens)
    assert (half == single.astype(np.float16)).all()
