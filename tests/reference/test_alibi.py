"""Linear biases in numpy: their numbers and their promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.alibi import alibi_bias, alibi_slopes


def test_eight_heads_have_the_papers_slopes() -> None:
    assert alibi_slopes(8).tolist() == [1 / 2**i for i in range(1, 9)]


def test_sixteen_heads_have_the_papers_slopes() -> None:
    np.testing.assert_allclose(alibi_slopes(16), [2 ** (-i / 2) for i in range(1, 17)])


def test_twelve_heads_take_every_other_slope_of_sixteen_after_those_of_eight() -> None:
    np.testing.assert_allclose(
        alibi_slopes(12), [*alibi_slopes(8), *(2 ** (-i / 2) for i in (1, 3, 5, 7))]
    )


@given(st.integers(1, 130))
def test_slopes_are_as_many_as_heads_all_different_and_between_zero_and_one(n_heads: int) -> None:
    slopes = alibi_slopes(n_heads)
    assert len(set(slopes.tolist())) == n_heads
    assert ((slopes > 0) & (slopes < 1)).all()


@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 5))
def test_the_bias_is_the_slope_times_the_distance_and_nothing_else(
    n_heads: int, n_q: int, past: int
) -> None:
    bias = alibi_bias(n_heads, n_q, n_q + past)
    slopes = alibi_slopes(n_heads)
    for h, i, j in np.ndindex(bias.shape):
        assert bias[h, i, j] == pytest.approx(-slopes[h] * abs(past + i - j))


def test_queries_after_a_cache_have_the_last_rows_of_the_whole() -> None:
    assert (alibi_bias(4, 2, 7) == alibi_bias(4, 7)[:, 5:]).all()
