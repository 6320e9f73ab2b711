"""The numpy half of sentence embeddings: means without padding, cosines, the nearest rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.sentence_embeddings import (
    cosine_search,
    cosine_similarity,
    mean_pooling,
    unit_length,
)

RNG = np.random.default_rng(0)
seeds = st.integers(0, 9999)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 4), seeds)
def test_the_mean_is_that_of_the_real_tokens_wherever_they_stand(
    counts: list[int], d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((len(counts), 5, d))
    mask = np.stack([rng.permutation(np.arange(5) < count) for count in counts])
    for row, tokens, real in zip(mean_pooling(hidden, mask), hidden, mask, strict=True):
        expected = tokens[real].mean(axis=0) if real.any() else np.zeros(d)
        np.testing.assert_allclose(row, expected, atol=1e-12)


@pytest.mark.parametrize("filler", [0.0, 1e30, np.nan, np.inf])
def test_what_stands_at_padding_does_not_count(filler: float) -> None:
    hidden, mask = (
        RNG.standard_normal((2, 4, 3)),
        np.array([[True] * 4, [True, True, False, False]]),
    )
    filled = np.where(mask[..., None], hidden, filler)
    np.testing.assert_allclose(mean_pooling(filled, mask)[1], hidden[1, :2].mean(axis=0))
    assert mean_pooling(hidden.astype(np.float16), mask).dtype == np.float16


@given(st.sampled_from([1e-200, 1e-30, 1.0, 1e30, 1e200]), seeds)
def test_a_vector_of_any_size_gets_the_length_one_and_keeps_its_direction(
    size: float, seed: int
) -> None:
    x = np.random.default_rng(seed).standard_normal((3, 4))
    unit = unit_length(size * x)
    np.testing.assert_allclose((unit**2).sum(axis=-1), 1.0)
    np.testing.assert_allclose(unit, unit_length(x), atol=1e-12)
    assert (unit_length(0 * x) == 0).all()


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), seeds)
def test_similarity_is_the_cosine_of_the_angle(m: int, n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, d)), rng.standard_normal((n, d))
    similarity = cosine_similarity(a, b)
    for i in range(m):
        for j in range(n):
            cosine = a[i] @ b[j] / np.linalg.norm(a[i]) / np.linalg.norm(b[j])
            assert similarity[i, j] == pytest.approx(cosine)
    np.testing.assert_allclose(cosine_similarity(5.0 * a, 0.1 * b), similarity, atol=1e-12)
    np.testing.assert_allclose(cosine_similarity(b, a), similarity.T, atol=1e-12)


@given(st.integers(1, 9), st.integers(1, 4), st.data(), seeds)
def test_the_nearest_come_first_and_of_equal_ones_the_earlier(
    n: int, d: int, data: st.DataObject, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    documents = rng.integers(-1, 2, (n, d)).astype(float)  # many are equal
    queries = rng.standard_normal((2, d))
    k = data.draw(st.integers(1, n))
    indices, scores = cosine_search(queries, documents, k)
    assert indices.shape == scores.shape == (2, k)
    table = cosine_similarity(queries, documents)
    for row, found, best in zip(table, indices, scores, strict=True):
        assert found.tolist() == sorted(range(n), key=lambda i: (-row[i], i))[:k]
        assert (best == row[found]).all()
    one, _ = cosine_search(queries[0], documents, k)
    assert one.tolist() == indices[0].tolist()


def test_a_long_vector_is_no_nearer_than_a_short_one() -> None:
    documents = np.array([[100.0, 100.0], [0.0, 0.1]])
    assert cosine_search(np.array([0.0, 1.0]), documents, 1)[0].tolist() == [1]
