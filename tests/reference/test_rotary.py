"""The numpy half of rotary positions: its numbers, its promises, its errors."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, log, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.rotary import (
    dynamic_ntk_frequencies,
    half_split_permutation,
    linear_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    rotate_half_split,
    rotate_interleaved,
    yarn_frequencies,
)

ROTATIONS = [rotate_interleaved, rotate_half_split]
both = pytest.mark.parametrize("rotate", ROTATIONS)
even = st.integers(1, 6).map(lambda half: 2 * half)
seeds = st.integers(0, 2**32 - 1)
whole = st.integers(-1000, 1000)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def turned(rotate: Callable, x: np.ndarray, position: int, theta: np.ndarray) -> np.ndarray:
    """Rotate one vector."""
    return rotate(x[None], np.array([position]), theta)[0]


@both
@pytest.mark.parametrize(("m", "n"), [(1, 3), (5, 7)])
def test_the_worked_example_scores_a_half_at_both_pairs_of_positions(
    rotate: Callable, m: int, n: int
) -> None:
    theta, one = np.array([pi / 6]), np.array([1.0, 0.0])
    q, k = turned(rotate, one, m, theta), turned(rotate, one, n, theta)
    assert q @ k == pytest.approx(0.5, abs=1e-12)
    assert q == pytest.approx([cos(m * pi / 6), sin(m * pi / 6)])


def test_frequencies_are_those_of_the_formula() -> None:
    theta = rotary_frequencies(64)
    assert theta.tolist() == pytest.approx([10000 ** (-2 * i / 64) for i in range(32)], rel=1e-14)
    assert theta[0] == 1.0
    assert rotary_frequencies(4, base=100).tolist() == [1.0, 0.1]


@both
@given(seed=seeds, d=even, m=whole, n=whole, shift=whole)
def test_scores_depend_on_the_offset_alone(
    rotate: Callable, seed: int, d: int, m: int, n: int, shift: int
) -> None:
    q, k = normal(seed, 2, d)
    theta = rotary_frequencies(d)
    score = turned(rotate, q, m, theta) @ turned(rotate, k, n, theta)
    later = turned(rotate, q, m + shift, theta) @ turned(rotate, k, n + shift, theta)
    one_side = q @ turned(rotate, k, n - m, theta)
    assert score == pytest.approx(later, abs=1e-9)
    assert score == pytest.approx(one_side, abs=1e-9)


@both
@given(seed=seeds, d=even, m=whole, n=whole)
def test_rotations_keep_lengths_add_up_and_start_at_the_identity(
    rotate: Callable, seed: int, d: int, m: int, n: int
) -> None:
    x, theta = normal(seed, d), rotary_frequencies(d)
    once = turned(rotate, x, m, theta)
    np.testing.assert_allclose(np.linalg.norm(once), np.linalg.norm(x), atol=1e-9)
    np.testing.assert_allclose(
        turned(rotate, once, n, theta), turned(rotate, x, m + n, theta), atol=1e-9
    )
    assert (turned(rotate, x, 0, theta) == x).all()


@given(seed=seeds, d=even, m=whole)
def test_interleaved_pairs_are_complex_numbers_times_a_phase(seed: int, d: int, m: int) -> None:
    x, theta = normal(seed, d), rotary_frequencies(d)
    phases = np.exp(1j * m * theta)
    product = (x[0::2] + 1j * x[1::2]) * phases
    got = turned(rotate_interleaved, x, m, theta)
    np.testing.assert_allclose(got[0::2] + 1j * got[1::2], product, atol=1e-9)


@given(seed=seeds, d=even, n=st.integers(1, 5))
def test_the_permutation_turns_one_layout_into_the_other(seed: int, d: int, n: int) -> None:
    x, p, theta = normal(seed, 3, n, d), half_split_permutation(d), rotary_frequencies(d)
    positions = np.arange(n)
    interleaved = rotate_interleaved(x, positions, theta)
    half_split = rotate_half_split(x[..., p], positions, theta)
    np.testing.assert_allclose(half_split, interleaved[..., p], atol=1e-12)
    np.testing.assert_allclose(half_split[..., np.argsort(p)], interleaved, atol=1e-12)


@given(seed=seeds, d=even, n=st.integers(1, 5))
def test_permuting_the_columns_of_the_weights_leaves_scores_as_they_were(
    seed: int, d: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    x, w_q, w_k = rng.standard_normal((n, 7)), *rng.standard_normal((2, 7, d))
    p, theta, positions = half_split_permutation(d), rotary_frequencies(d), np.arange(n)
    q, k = (rotate_interleaved(x @ w, positions, theta) for w in (w_q, w_k))
    q_half, k_half = (rotate_half_split(x @ w[:, p], positions, theta) for w in (w_q, w_k))
    np.testing.assert_allclose(q_half @ k_half.T, q @ k.T, atol=1e-9)


def test_the_two_layouts_differ_from_four_columns_on() -> None:
    x, positions, theta = normal(0, 1, 4), np.array([3]), rotary_frequencies(4)
    one, other = (rotate(x, positions, theta) for rotate in ROTATIONS)
    assert np.abs(one - other).max() > 0.1
    assert half_split_permutation(2).tolist() == [0, 1]


@both
def test_columns_beyond_the_rotated_ones_stay_as_they_are(rotate: Callable) -> None:
    x, theta, positions = normal(1, 2, 5, 7), rotary_frequencies(4), np.arange(3, 8)
    got = rotate(x, positions, theta)
    assert (got[..., 4:] == x[..., 4:]).all()
    np.testing.assert_allclose(got[..., :4], rotate(x[..., :4], positions, theta), atol=1e-12)


@both
def test_tokens_that_go_on_from_a_cache_equal_the_rows_of_the_whole(rotate: Callable) -> None:
    x, theta = normal(2, 6, 8), rotary_frequencies(8)
    whole_text = rotate(x, np.arange(6), theta)
    pieces = [rotate(x[a:b], np.arange(a, b), theta) for a, b in ((0, 3), (3, 4), (4, 6))]
    assert (np.concatenate(pieces) == whole_text).all()


@both
def test_each_sequence_of_a_batch_may_have_positions_of_its_own(rotate: Callable) -> None:
    x, theta = normal(3, 2, 3, 4, 8), rotary_frequencies(8)  # (b, h, n, d)
    positions = np.array([[0, 1, 2, 3], [0, 0, 0, 1]])  # the second is padded on the left
    got = rotate(x, positions[:, None, :], theta)
    for sequence, row, expected in zip(x, positions, got, strict=True):
        assert (rotate(sequence, row, theta) == expected).all()


@both
def test_positions_between_whole_ones_equal_slower_frequencies(rotate: Callable) -> None:
    x, theta, positions = normal(4, 5, 8), rotary_frequencies(8), np.arange(5)
    between = rotate(x, positions / 4, theta)
    np.testing.assert_allclose(
        rotate(x, positions, linear_frequencies(theta, 4)), between, atol=1e-12
    )


@both
def test_single_precision_is_exact_far_into_a_text(rotate: Callable) -> None:
    x, theta = normal(5, 1, 128), rotary_frequencies(128)
    far = np.array([1_000_000])
    got = rotate(x.astype(np.float32), far, theta)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, rotate(x, far, theta), atol=1e-6)


@both
def test_half_precision_equals_single_precision_rounded(rotate: Callable) -> None:
    x = normal(6, 4, 8).astype(np.float16)
    theta, positions = rotary_frequencies(8), np.arange(1000, 1004)
    expected = rotate(x.astype(np.float32), positions, theta).astype(np.float16)
    got = rotate(x, positions, theta)
    assert got.dtype == np.float16
    assert (got == expected).all()


@both
def test_inputs_are_left_as_they_were(rotate: Callable) -> None:
    x, positions, theta = normal(7, 3, 4), np.arange(3), rotary_frequencies(4)
    before = [a.copy() for a in (x, positions, theta)]
    rotate(x, positions, theta)
    linear_frequencies(theta, 2.0)
    for was, a in zip(before, (x, positions, theta), strict=True):
        assert (was == a).all()


def test_position_interpolation_slows_every_pair_by_the_factor() -> None:
    theta = rotary_frequencies(16)
    np.testing.assert_allclose(theta / linear_frequencies(theta, 4), 4.0)


@given(half=st.integers(2, 64), factor=st.floats(1, 64))
def test_the_raised_base_keeps_the_fastest_pair_and_slows_the_slowest_by_the_factor(
    half: int, factor: float
) -> None:
    slower = rotary_frequencies(2 * half) / ntk_frequencies(2 * half, factor)
    assert slower[0] == 1.0
    assert slower[-1] == pytest.approx(factor, rel=1e-9)
    assert (np.diff(slower) >= -1e-12).all()
    np.testing.assert_allclose(slower, factor ** (np.arange(half) / (half - 1)), rtol=1e-9)


def test_the_growing_base_changes_nothing_up_to_the_trained_length() -> None:
    for length in (1, 100, 2048):
        got = dynamic_ntk_frequencies(64, 4.0, length, original_length=2048)
        np.testing.assert_allclose(got, rotary_frequencies(64), rtol=1e-14)
    twice = dynamic_ntk_frequencies(64, 1.0, 4096, original_length=2048)
    np.testing.assert_allclose(twice, ntk_frequencies(64, 2.0), rtol=1e-14)
    np.testing.assert_allclose(
        dynamic_ntk_frequencies(64, 3.0, 4096, original_length=2048), ntk_frequencies(64, 4.0)
    )


def test_yarn_leaves_fast_pairs_alone_and_slows_slow_ones_by_the_factor() -> None:
    theta, length, factor = rotary_frequencies(128), 4096, 8.0
    got, attention_factor = yarn_frequencies(128, factor, length)
    turns = length * theta / (2 * pi)
    slower = theta / got
    # The ramp begins and ends at whole i, so it may reach one pair beyond the two limits.
    np.testing.assert_allclose(slower[turns > 32 * 1.2], 1.0)
    np.testing.assert_allclose(slower[turns < 1 / 1.2], factor)
    between = (turns < 30) & (turns > 1.2)
    assert between.sum() > 5
    assert ((slower[between] > 1) & (slower[between] < factor)).all()
    assert (np.diff(slower) >= -1e-12).all()
    assert attention_factor == pytest.approx(0.1 * log(8) + 1)


def test_yarn_without_stretching_changes_nothing() -> None:
    got, attention_factor = yarn_frequencies(32, 1.0, 512)
    np.testing.assert_allclose(got, rotary_frequencies(32), rtol=1e-14)
    assert attention_factor == 1.0


@pytest.mark.parametrize("length", [1, 2, 4, 6])
def test_yarn_slows_everything_where_nothing_made_a_turn(length: int) -> None:
    theta = rotary_frequencies(32)
    slower = theta / yarn_frequencies(32, 4.0, length)[0]
    np.testing.assert_allclose(slower[1:], 4.0)
