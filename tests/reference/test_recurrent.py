"""The numpy half of recurrent layers: gates one by one, states that fade or stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.recurrent import (
    gru,
    gru_step,
    lstm,
    lstm_step,
    rnn,
    rnn_step,
    sigmoid,
)

seeds = st.integers(0, 2**32 - 1)
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def weights(rng: np.random.Generator, n_gates: int, d_in: int, d_h: int) -> list[np.ndarray]:
    shapes = ((n_gates * d_h, d_in), (n_gates * d_h, d_h), (n_gates * d_h,), (n_gates * d_h,))
    return [rng.standard_normal(shape) for shape in shapes]


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_the_sigmoid_is_the_logistic_function_and_never_overflows() -> None:
    x = np.linspace(-30, 30, 601)
    np.testing.assert_allclose(sigmoid(x), logistic(x), atol=1e-15)
    with np.errstate(all="raise"):
        assert sigmoid(np.array([-1e30, 0.0, 1e30])).tolist() == [0.0, 0.5, 1.0]
        assert sigmoid(np.array([-6e4], dtype=np.float16)).dtype == np.float16


@given(st.integers(1, 4), st.integers(1, 4), seeds)
def test_a_step_equals_its_gates_written_out_one_by_one(d_in: int, d_h: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, h, c = rng.standard_normal(d_in), rng.standard_normal(d_h), rng.standard_normal(d_h)

    def parts(n_gates: int) -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
        w_x, w_h, b_x, b_h = w = weights(rng, n_gates, d_in, d_h)
        rows = [slice(g * d_h, (g + 1) * d_h) for g in range(n_gates)]
        return w, [(w_x[g] @ x + b_x[g], w_h[g] @ h + b_h[g]) for g in rows]

    w, ((a, b),) = parts(1)
    np.testing.assert_allclose(rnn_step(x, h, *w), np.tanh(a + b), atol=1e-12)

    w, ((x_r, h_r), (x_z, h_z), (x_n, h_n)) = parts(3)
    r, z = logistic(x_r + h_r), logistic(x_z + h_z)
    expected = (1 - z) * np.tanh(x_n + r * h_n) + z * h
    np.testing.assert_allclose(gru_step(x, h, *w), expected, atol=1e-12)

    w, sums = parts(4)
    i, f, g, o = (a + b for a, b in sums)
    cell = logistic(f) * c + logistic(i) * np.tanh(g)
    got_h, got_c = lstm_step(x, h, c, *w)
    np.testing.assert_allclose(got_c, cell, atol=1e-12)
    np.testing.assert_allclose(got_h, logistic(o) * np.tanh(cell), atol=1e-12)


@given(st.lists(st.integers(1, 3), max_size=2), st.integers(1, 5), seeds)
def test_a_sequence_equals_its_steps_and_can_be_cut_anywhere(
    lead: list[int], n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    xs, h, c = (rng.standard_normal((*lead, *s)) for s in ((n, 2), (3,), (3,)))
    cut = int(rng.integers(1, n + 1))
    for layer, step, n_gates in ((rnn, rnn_step, 1), (gru, gru_step, 3)):
        w = weights(rng, n_gates, 2, 3)
        states = layer(xs, h, *w)
        assert states.shape == (*lead, n, 3)
        state = h
        for t in range(n):
            state = step(xs[..., t, :], state, *w)
            assert np.array_equal(states[..., t, :], state)
        if cut < n:
            rest = layer(xs[..., cut:, :], states[..., cut - 1, :], *w)
            np.testing.assert_allclose(rest, states[..., cut:, :], atol=1e-12)
    w = weights(rng, 4, 2, 3)
    states, last = lstm(xs, h, c, *w)
    state, cell = h, c
    for t in range(n):
        state, cell = lstm_step(xs[..., t, :], state, cell, *w)
        assert np.array_equal(states[..., t, :], state)
    assert np.array_equal(last, cell)


def test_an_update_gate_that_is_shut_keeps_the_state_and_a_forget_gate_the_cell() -> None:
    rng = np.random.default_rng(0)
    xs, h, c = rng.standard_normal((50, 2)), rng.standard_normal(3), rng.standard_normal(3)
    w_x, w_h = np.zeros((9, 2)), np.zeros((9, 3))
    b = np.concatenate([np.zeros(3), np.full(3, 50.0), np.ones(3)])  # z = 1
    np.testing.assert_allclose(gru(xs, h, w_x, w_h, b, 0 * b)[-1], h)
    w_x, w_h = np.zeros((12, 2)), np.zeros((12, 3))
    b = np.concatenate([np.full(3, -50.0), np.full(3, 50.0), np.ones(6)])  # i = 0, f = 1
    np.testing.assert_allclose(lstm(xs, h, c, w_x, w_h, b, 0 * b)[1], c)


def test_the_candidate_does_not_see_the_state_through_a_shut_reset_gate() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(2)
    w_x, w_h, b_x, b_h = weights(rng, 3, 2, 4)
    w_h[:8] = 0  # the gates themselves don't look at the state
    b_x[:4], b_x[4:8] = -50.0, -50.0  # r = 0, z = 0
    w_x[:8] = b_h[:8] = 0
    one, other = rng.standard_normal((2, 4))
    a, b = gru_step(x, one, w_x, w_h, b_x, b_h), gru_step(x, other, w_x, w_h, b_x, b_h)
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_a_state_depends_on_tokens_before_it_and_on_none_after() -> None:
    rng = np.random.default_rng(2)
    xs, h = rng.standard_normal((6, 2)), np.zeros(3)
    changed = xs.copy()
    changed[3] += 1.0
    for layer, n_gates in ((rnn, 1), (gru, 3), (lambda xs, h, *w: lstm(xs, h, h, *w)[0], 4)):
        w = weights(rng, n_gates, 2, 3)
        a, b = layer(xs, h, *w), layer(changed, h, *w)
        assert np.array_equal(a[:3], b[:3])
        assert (a[3:] != b[3:]).any(axis=-1).all()


@pytest.mark.parametrize("name", GATES)
def test_half_precision_is_rounded_once_and_not_at_every_step(name: str) -> None:
    rng = np.random.default_rng(3)
    layer: Callable = {"rnn": rnn, "gru": gru, "lstm": lstm}[name]
    state = [rng.standard_normal(3).astype(np.float16) for _ in range(1 + (name == "lstm"))]
    xs = rng.standard_normal((20, 2)).astype(np.float16)
    w = [a.astype(np.float16) for a in weights(rng, GATES[name], 2, 3)]
    half = layer(xs, *state, *w)
    single = layer(*(a.astype(np.float32) for a in (xs, *state, *w)))
    pairs = zip(half, single, strict=True) if name == "lstm" else [(half, single)]
    for a, b in pairs:
        assert a.dtype == np.float16
        assert np.array_equal(a, b.astype(np.float16))


def test_inputs_are_left_as_they_were() -> None:
    rng = np.random.default_rng(4)
    xs, h, c = rng.standard_normal((4, 2)), rng.standard_normal(3), rng.standard_normal(3)
    for layer, state, n_gates in ((rnn, [h], 1), (gru, [h], 3), (lstm, [h, c], 4)):
        arguments = [xs, *state, *weights(rng, n_gates, 2, 3)]
        before = [a.copy() for a in arguments]
        layer(*arguments)
        for was, a in zip(before, arguments, strict=True):
            assert (was == a).all()
