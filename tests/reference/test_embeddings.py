"""The numpy half of embeddings: its numbers and its promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.embeddings import embedding, embedding_backward, one_hot, tied_logits

leading = st.lists(st.integers(0, 4), max_size=3)
seeds = st.integers(0, 2**32 - 1)


@given(leading, st.integers(1, 9), st.integers(1, 5), seeds)
def test_a_look_up_is_the_product_of_one_hot_rows_with_the_table(
    lead: list[int], v: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids, table = rng.integers(0, v, lead), rng.standard_normal((v, d))
    assert (embedding(ids, table) == one_hot(ids, v) @ table).all()
    assert embedding(ids, table).shape == (*lead, d)


@given(leading, st.integers(1, 9), st.integers(1, 5), seeds)
def test_the_tables_gradient_is_the_transposed_product_with_one_hot_rows(
    lead: list[int], v: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids, d_output = rng.integers(0, v, lead), rng.standard_normal((*lead, d))
    expected = one_hot(ids, v).reshape(-1, v).T @ d_output.reshape(-1, d)
    np.testing.assert_allclose(embedding_backward(ids, d_output, v), expected, atol=1e-12)


def test_the_tables_gradient_equals_finite_differences() -> None:
    rng = np.random.default_rng(0)
    ids, table = np.array([[3, 1, 3], [0, 3, 1]]), rng.standard_normal((5, 2))
    weight = rng.standard_normal((2, 3, 2))  # a loss: this weighted sum of the output's tanh

    def loss(e: np.ndarray) -> float:
        return float((weight * np.tanh(embedding(ids, e))).sum())

    d_output = weight * (1 - np.tanh(embedding(ids, table)) ** 2)
    by_hand = embedding_backward(ids, d_output, 5)
    for place in np.ndindex(5, 2):
        step = np.zeros_like(table)
        step[place] = 1e-6
        slope = (loss(table + step) - loss(table - step)) / 2e-6
        assert by_hand[place] == pytest.approx(slope, abs=1e-8)
    assert (by_hand[[2, 4]] == 0).all(), "tokens that don't occur"


def test_gradients_of_a_token_that_comes_several_times_add_up() -> None:
    ids, d_output = np.array([7, 7, 7, 2]), np.ones((4, 3), dtype=np.float32)
    d_table = embedding_backward(ids, d_output, 10)
    assert d_table[7].tolist() == [3.0] * 3
    assert d_table[2].tolist() == [1.0] * 3
    assert d_table.sum() == d_output.sum()
    assert d_table.dtype == np.float32


def test_a_gradient_in_half_precision_is_added_up_in_single_and_rounded_once() -> None:
    ids = np.zeros(5000, dtype=np.int64)
    d_output = np.full((5000, 1), 0.1, dtype=np.float16)  # in half, the sum stops at 256
    assert embedding_backward(ids, d_output, 2)[0, 0] == np.float16(5000 * np.float16(0.1))


def test_one_id_without_axes_gives_one_row() -> None:
    table = np.arange(6.0).reshape(3, 2)
    assert embedding(np.array(1), table).tolist() == [2.0, 3.0]
    assert embedding(np.int64(2), table).tolist() == [4.0, 5.0]
    assert one_hot(np.int64(2), 3).tolist() == [0.0, 0.0, 1.0]
    assert embedding_backward(np.int64(2), np.ones(2), 3).tolist() == [[0, 0], [0, 0], [1, 1]]


def test_writing_to_what_was_looked_up_leaves_the_table_alone() -> None:
    table = np.zeros((3, 2))
    embedding(np.array([1, 2]), table)[:] = 5.0
    assert (table == 0.0).all()


@given(leading, st.integers(1, 9), st.integers(1, 5), seeds)
def test_a_tied_logit_is_the_dot_product_with_a_tokens_own_row(
    lead: list[int], v: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    hidden, table = rng.standard_normal((*lead, d)), rng.standard_normal((v, d))
    logits = tied_logits(hidden, table)
    assert logits.shape == (*lead, v)
    for place in np.ndindex(*lead):
        for token in range(v):
            assert logits[place][token] == pytest.approx(hidden[place] @ table[token])


def test_tied_logits_in_half_precision_survive_products_beyond_its_range() -> None:
    hidden = np.array([[300.0, 300.0]], dtype=np.float16)
    table = np.array([[300.0, -299.0]], dtype=np.float16)
    with np.errstate(over="raise", invalid="raise"):
        assert tied_logits(hidden, table).tolist() == [[300.0]]
