"""The numpy half of the decoding filters says what may be drawn, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import softmax
from course_lib.reference.decoding_filters import length_penalty, min_p, top_k, top_p

P = np.array([[0.1, 0.4, 0.25, 0.2, 0.05], [0.05, 0.05, 0.5, 0.3, 0.1]])


def kept(logits: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(row > -np.inf).tolist() for row in np.atleast_2d(logits)]


@pytest.mark.parametrize(
    ("k", "expected"),
    [(1, [[1], [2]]), (2, [[1, 2], [2, 3]]), (3, [[1, 2, 3], [2, 3, 4]]), (5, [[*range(5)]] * 2),
     (99, [[*range(5)]] * 2)],
)  # fmt: skip
def test_top_k_keeps_the_k_likeliest(k: int, expected: list[list[int]]) -> None:
    assert kept(top_k(np.log(P), k)) == expected


def test_tokens_as_likely_as_the_kth_all_stay() -> None:
    assert kept(top_k(np.array([1.0, 3.0, 1.0, 0.0]), 2)) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("p", "expected"),
    [(1e-9, [[1], [2]]), (0.39, [[1], [2]]), (0.41, [[1, 2], [2]]), (0.64, [[1, 2], [2, 3]]),
     (0.84, [[1, 2, 3], [2, 3, 4]]), (0.86, [[0, 1, 2, 3], [2, 3, 4]]),
     (1.0, [[*range(5)]] * 2), (1, [[*range(5)]] * 2)],
)  # fmt: skip
def test_top_p_keeps_the_fewest_that_reach_p(p: float, expected: list[list[int]]) -> None:
    assert kept(top_p(np.log(P), p)) == expected


def test_of_equally_likely_tokens_top_p_keeps_the_first() -> None:
    assert kept(top_p(np.zeros(8), 0.3)) == [[0, 1, 2]]


def test_tokens_that_reach_p_exactly_are_enough() -> None:
    assert kept(top_p(np.zeros(4), 0.5)) == [[0, 1]]


@pytest.mark.parametrize(
    ("p", "expected"),
    [(1.0, [[1], [2]]), (0.61, [[1, 2], [2]]), (0.49, [[1, 2, 3], [2, 3]]),
     (0.19, [[0, 1, 2, 3], [2, 3, 4]]), (0.01, [[*range(5)]] * 2)],
)  # fmt: skip
def test_min_p_keeps_what_has_a_share_of_the_largest(p: float, expected: list[list[int]]) -> None:
    assert kept(min_p(np.log(P), p)) == expected


FILTERS: list[tuple[Callable, Any]] = [(top_k, 2), (top_p, 0.55), (min_p, 0.27)]


@pytest.mark.parametrize(("function", "amount"), FILTERS)
@given(seed=st.integers(0, 2**32 - 1), v=st.integers(1, 9), dtype=st.sampled_from("efd"))
def test_what_stays_is_unchanged_and_no_less_likely_than_what_falls(
    function: Callable, amount: Any, seed: int, v: int, dtype: str
) -> None:
    rng = np.random.default_rng(seed)
    logits = (3 * rng.standard_normal((2, 3, v))).astype(dtype)
    logits[..., 1:][rng.random((2, 3, v - 1)) < 0.2] = -np.inf  # some can't be drawn anyhow
    before = logits.copy()
    out = function(logits, amount)
    np.testing.assert_array_equal(logits, before)
    assert out.dtype == logits.dtype
    assert not np.shares_memory(out, logits)
    stays = out > -np.inf
    np.testing.assert_array_equal(out[stays], logits[stays])
    assert stays.any(axis=-1).all()
    for row, chosen in zip(logits.reshape(-1, v), stays.reshape(-1, v), strict=True):
        assert chosen[row.argmax()] or (row[chosen] == row.max()).any()
        falls = row[~chosen]
        assert falls.size == 0 or row[chosen].min() >= falls.max()


@pytest.mark.parametrize(("function", "amount"), FILTERS)
def test_a_shift_of_all_logits_changes_nothing(function: Callable, amount: Any) -> None:
    logits = np.log(P)
    for shift in (-1000.0, 5.0, 3000.0):
        assert kept(function(logits + shift, amount)) == kept(function(logits, amount))


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
def test_the_nucleus_is_the_smallest_of_its_mass(seed: int, p: float) -> None:
    logits = 2 * np.random.default_rng(seed).standard_normal(8)
    stays = top_p(logits, p) > -np.inf
    probabilities = softmax(logits)
    assert probabilities[stays].sum() >= p - 1e-12
    assert probabilities[stays].sum() - probabilities[stays].min() < p + 1e-12


def test_the_length_penalty_is_a_power_of_the_length() -> None:
    scores, lengths = np.array([-6.0, -6.0, -1.0]), np.array([1, 4, 2])
    np.testing.assert_allclose(length_penalty(scores, lengths, 0.0), scores)
    np.testing.assert_allclose(length_penalty(scores, lengths), [-6.0, -1.5, -0.5])
    np.testing.assert_allclose(length_penalty(scores, lengths, 0.5), [-6.0, -3.0, -1 / 2**0.5])
    np.testing.assert_allclose(length_penalty(scores, lengths, -1.0), [-6.0, -24.0, -2.0])


FAULTS: list[tuple[Callable, tuple, str]] = [
    (top_k, (P, 0), "k must be a whole number of at least 1; got 0"),
    (top_k, (P, 1.5), "k must be a whole number of at least 1; got 1.5"),
    (top_p, (P, 0.0), "p must be above 0 and at most 1; got 0.0"),
    (top_p, (P, 1.5), "p must be above 0 and at most 1; got 1.5"),
    (top_p, (P, float("nan")), "p must be above 0 and at most 1; got nan"),
    (min_p, (P, 0), "p must be above 0 and at most 1; got 0"),
    (min_p, (P, True), "p must be above 0 and at most 1; got True"),
    (min_p, (np.array([np.inf, 0.0]), 0.1), "logits must be below ∞"),
    (top_p, (np.array([np.nan, 0.0]), 0.1), "logits must be below ∞"),
    (top_k, (np.full((1, 2), -np.inf), 1), "logits must be below ∞"),
    (top_k, (np.zeros((2, 0)), 1), "logits must not be empty"),
    (top_k, (np.arange(3), 1), "logits must be an array of real floating-point numbers"),
    (length_penalty, (P, np.ones(2, dtype=int)), "lengths must have the shape of scores, (2, 5)"),
    (length_penalty, (P[0], np.arange(5)), "lengths must be at least 1; got 0"),
    (length_penalty, (P[0], np.ones(5)), "lengths must be an array of whole numbers"),
    (length_penalty, (P[0], np.arange(1, 6), np.inf), "alpha must be a finite number; got inf"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), FAULTS)
def test_bad_input_is_named(function: Callable, arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        function(*arguments)
