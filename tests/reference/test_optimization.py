"""The numpy half of optimization does what its formulas say, on cases worked out by hand."""

from __future__ import annotations

from math import cos, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.language_modelling import cross_entropy
from course_lib.reference.optimization import (
    adam_step,
    clip_by_global_norm,
    cosine_schedule,
    exact_match,
    label_smoothed_cross_entropy,
    shift_right,
    warmup_schedule,
)

seeds = st.integers(0, 2**32 - 1)


# --- teacher forcing -----------------------------------------------------------------------------


def test_every_token_is_predicted_from_those_before_it() -> None:
    targets = np.array([[4, 5, 6, 2], [7, 2, 0, 0]])
    assert shift_right(targets, bos=1).tolist() == [[1, 4, 5, 6], [1, 7, 2, 0]]


def test_shifting_leaves_what_it_is_given_as_it_was_and_keeps_the_dtype() -> None:
    ids = np.array([3, 4, 5], dtype=np.int32)
    shifted = shift_right(ids, 1)
    assert ids.tolist() == [3, 4, 5]
    assert shifted.dtype == np.int32
    assert shift_right(np.array([9]), 1).tolist() == [1]


# --- label smoothing -----------------------------------------------------------------------------


@given(st.integers(2, 7), st.floats(0.0, 0.99), seeds)
def test_a_smoothed_loss_is_the_cross_entropy_against_the_smoothed_target(
    v: int, epsilon: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(4, v)), rng.integers(0, v, 4)
    smoothed = (1 - epsilon) * np.eye(v)[targets] + epsilon / v
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -(smoothed * log_p).sum(-1).mean()
    assert label_smoothed_cross_entropy(logits, targets, epsilon) == pytest.approx(expected)


def test_five_tokens_at_a_tenth_are_worked_out_by_hand() -> None:
    p = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    # 1 − 0.1 + 0.02 for the right one, 0.02 for each of the others
    expected = -(0.92 * log(0.6) + 4 * 0.02 * log(0.1))
    loss = label_smoothed_cross_entropy(np.log(p)[None], np.array([0]))
    assert loss == pytest.approx(expected)


def test_the_loss_is_lowest_where_the_model_says_the_smoothed_target_and_is_its_entropy() -> None:
    epsilon, v = 0.1, 5
    target = np.full(v, epsilon / v)
    target[2] += 1 - epsilon
    floor = -(target * np.log(target)).sum()
    best = label_smoothed_cross_entropy(np.log(target)[None], np.array([2]), epsilon)
    assert best == pytest.approx(floor)
    for confidence in (2.0, 20.0, 200.0):
        logits = confidence * np.eye(v)[[2]]
        assert label_smoothed_cross_entropy(logits, np.array([2]), epsilon) > floor


@pytest.mark.parametrize("ignore_index", [-100, 0, 3])
def test_padding_counts_neither_above_nor_below_the_line(ignore_index: int) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 5))
    targets = np.array([[1, 2, ignore_index], [4, ignore_index, ignore_index]])
    alone = label_smoothed_cross_entropy(logits[[0, 0, 1], [0, 1, 0]], np.array([1, 2, 4]))
    padded = label_smoothed_cross_entropy(logits, targets, ignore_index=ignore_index)
    assert padded == pytest.approx(alone)


def test_without_smoothing_it_is_the_cross_entropy_also_where_a_token_is_impossible() -> None:
    logits = np.array([[0.0, -np.inf, 1.0]])
    plain = cross_entropy(logits, np.array([0]))
    assert label_smoothed_cross_entropy(logits, np.array([0]), epsilon=0.0) == plain
    assert label_smoothed_cross_entropy(logits, np.array([0]), epsilon=0.1) == np.inf


# --- schedules -----------------------------------------------------------------------------------


def test_the_papers_rate_rises_in_a_line_and_falls_with_the_root() -> None:
    peak = 1 / sqrt(512 * 4000)
    assert warmup_schedule(4000, 512, 4000) == pytest.approx(peak)
    for step in (1, 10, 3999):
        assert warmup_schedule(step, 512, 4000) == pytest.approx(peak * step / 4000)
    for step in (4000, 4001, 100_000):
        assert warmup_schedule(step, 512, 4000) == pytest.approx(1 / sqrt(512 * step))
    assert warmup_schedule(7, 512, 4000) == 2 * warmup_schedule(7, 2048, 4000)


@given(st.integers(1, 500), st.data())
def test_the_cosine_rises_in_a_line_falls_in_half_a_wave_and_ends_at_zero(
    n_steps: int, data: st.DataObject
) -> None:
    n_warmup = data.draw(st.integers(0, n_steps))
    step = data.draw(st.integers(1, n_steps))
    factor = cosine_schedule(step, n_steps, n_warmup)
    if step <= n_warmup:
        assert factor == step / n_warmup
    else:
        share = (step - n_warmup) / (n_steps - n_warmup)
        assert factor == pytest.approx((1 + cos(pi * share)) / 2)
    last = cosine_schedule(n_steps, n_steps, n_warmup)
    assert last == pytest.approx(1.0 if n_warmup == n_steps else 0.0)


def test_steps_given_together_have_the_rates_that_they_have_alone() -> None:
    steps = np.arange(1, 13).reshape(3, 4)
    for schedule, arguments in ((warmup_schedule, (8, 5)), (cosine_schedule, (12, 5))):
        alone = [[float(schedule(int(s), *arguments)) for s in row] for row in steps]
        assert schedule(steps, *arguments).tolist() == alone


# --- Adam ----------------------------------------------------------------------------------------


def test_two_steps_of_adam_are_worked_out_by_hand() -> None:
    theta, m, v = np.array([1.0]), np.zeros(1), np.zeros(1)
    theta, m, v = adam_step(theta, np.array([2.0]), m, v, step=1, lr=0.1)
    assert (m[0], v[0]) == pytest.approx((0.2, 0.004))
    assert theta[0] == pytest.approx(0.9)  # m̂ = 2, √v̂ = 2
    theta, m, v = adam_step(theta, np.array([-1.0]), m, v, step=2, lr=0.1)
    m_hat, v_hat = (0.9 * 0.2 - 0.1) / (1 - 0.81), (0.999 * 0.004 + 0.001) / (1 - 0.999**2)
    assert theta[0] == pytest.approx(0.9 - 0.1 * m_hat / sqrt(v_hat))


def test_decay_shrinks_the_parameter_itself_whatever_the_gradient() -> None:
    zero = np.zeros(2)
    theta, m, v = adam_step(np.array([2.0, -4.0]), zero, zero, zero, 1, lr=0.1, weight_decay=0.5)
    assert theta.tolist() == pytest.approx([1.9, -3.8])
    assert not m.any() and not v.any()  # it doesn't pass through the means


def test_epsilon_stands_outside_the_root() -> None:
    theta, _, _ = adam_step(np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1), 1, lr=1.0, eps=3.0)
    assert theta[0] == pytest.approx(-1 / (1 + 3))


def test_a_step_changes_nothing_that_it_is_given() -> None:
    arrays = [np.full(3, x) for x in (1.0, 2.0, 0.5, 0.25)]
    copies = [a.copy() for a in arrays]
    adam_step(*arrays, 3, 0.1, weight_decay=0.1)
    for a, copy in zip(arrays, copies, strict=True):
        assert np.array_equal(a, copy)


# --- clipping ------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=4),
       st.floats(0.01, 100.0), seeds)  # fmt: skip
def test_clipped_gradients_have_at_most_the_norm_and_the_same_direction(
    shapes: list[list[int]], max_norm: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    gradients = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    flat = np.concatenate([g.reshape(-1) for g in gradients])
    clipped, norm = clip_by_global_norm(gradients, max_norm)
    assert norm == pytest.approx(np.linalg.norm(flat))
    after = np.concatenate([g.reshape(-1) for g in clipped])
    np.testing.assert_allclose(after, flat * min(1.0, max_norm / norm))


def test_small_gradients_are_left_alone_to_the_last_bit() -> None:
    gradients = [np.array([0.1, 0.2]), np.array([[0.3]])]
    clipped, _ = clip_by_global_norm(gradients, 1.0)
    for before, after in zip(gradients, clipped, strict=True):
        assert np.array_equal(before, after)


def test_gradients_whose_squares_overflow_have_a_norm() -> None:
    clipped, norm = clip_by_global_norm([np.array([3e30, 4e30], dtype=np.float32)], 1.0)
    assert norm == pytest.approx(5e30, rel=1e-6)
    assert clipped[0].tolist() == pytest.approx([0.6, 0.8])
    zeros, norm = clip_by_global_norm([np.zeros(3)], 1.0)
    assert norm == 0 and zeros[0].tolist() == [0, 0, 0]


# --- exact match ---------------------------------------------------------------------------------


def test_a_row_counts_only_if_all_of_its_real_tokens_are_right() -> None:
    targets = np.array([[5, 6, 2], [7, 2, 0], [8, 2, 0], [9, 9, 2]])
    predictions = np.array([[5, 6, 2], [7, 2, 9], [2, 8, 0], [9, 2, 0]])
    assert exact_match(predictions, targets, pad=0) == 0.5


def test_a_prediction_may_be_wider_and_is_wrong_if_it_is_too_narrow() -> None:
    targets = np.array([[5, 6, 2], [7, 2, 0]])
    assert exact_match(np.array([[5, 6, 2, 0, 0], [7, 2, 0, 0, 0]]), targets, pad=0) == 1.0
    assert exact_match(np.array([[5, 6], [7, 2]]), targets, pad=0) == 0.5
    assert exact_match(np.zeros((2, 0), dtype=int), targets, pad=0) == 0.0


def test_one_row_alone_is_right_or_wrong() -> None:
    assert exact_match(np.array([4, 2]), np.array([4, 2]), pad=0) == 1.0
    assert exact_match(np.array([4, 3]), np.array([4, 2]), pad=0) == 0.0
