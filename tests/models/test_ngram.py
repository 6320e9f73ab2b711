from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.data.vocabulary import BOS
from course_lib.models.ngram import SMOOTHINGS, NGram, back_off, count, windows

V = 7
TOKENS = st.integers(0, V - 1)
TEXTS = st.lists(st.lists(TOKENS, min_size=1, max_size=12), min_size=1, max_size=6)
CONTEXTS = st.lists(TOKENS, max_size=5)
K = st.floats(0.01, 0.99)


@settings(deadline=None)
@given(TEXTS, CONTEXTS, st.integers(1, 4), st.sampled_from(SMOOTHINGS), K)
def test_the_probabilities_after_any_context_sum_to_1(texts, context, order, smoothing, k) -> None:
    model = NGram(order, V, smoothing=smoothing, k=k).fit(texts)
    p = model.probabilities(context)
    assert p.shape == (V,)
    assert (p > 0.0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_they_do_so_where_every_token_was_seen_after_every_context(smoothing: str) -> None:
    model = NGram(3, V, smoothing=smoothing).fit([list(p) for p in product(range(V), repeat=3)])
    for context in product(range(V), repeat=2):
        assert model.probabilities(context).sum() == pytest.approx(1.0, abs=1e-12)


@settings(deadline=None)
@given(TEXTS, st.integers(1, 4), st.sampled_from(SMOOTHINGS), K)
def test_a_score_is_the_log_probability_of_each_token_given_those_before(
    texts, order, smoothing, k
) -> None:
    model = NGram(order, V, smoothing=smoothing, k=k).fit(texts)
    for text in texts:
        one_by_one = [model.log_probabilities(text[:t])[x] for t, x in enumerate(text)]
        assert model.score(text) == pytest.approx(one_by_one)


@settings(deadline=None)
@given(TEXTS, st.integers(1, 4))
def test_no_more_than_order_minus_1_tokens_count(texts, order) -> None:
    model = NGram(order, V).fit(texts)
    rest = [2, 3, 4][4 - order :]
    assert len(rest) == order - 1
    a, b = (model.probabilities([x, *rest]) for x in (5, 6))
    assert np.array_equal(a, b)


def test_a_bigram_without_smoothing_is_the_relative_frequency() -> None:
    model = NGram(2, V, smoothing="add-k", k=0.0).fit([[4, 5, 2], [4, 6, 2], [4, 5, 2]])
    assert model.probabilities([4]).tolist() == pytest.approx([0, 0, 0, 0, 0, 2 / 3, 1 / 3])
    assert model.probabilities([])[4] == 1.0  # each sentence begins with 4


def test_what_was_never_seen_has_log_probability_minus_infinity_without_smoothing() -> None:
    model = NGram(2, V, smoothing="add-k", k=0.0).fit([[4, 5, 2]])
    assert model.score([4, 2]).tolist() == [0.0, -np.inf]
    assert np.isfinite(model.score([6, 4])[1])  # 6 was never seen: nothing is known, all are equal


def test_add_k_is_the_formula() -> None:
    model = NGram(2, V, smoothing="add-k", k=0.25).fit([[4, 5, 4, 6, 4, 5]])
    after_4 = np.full(V, 0.25)
    after_4[5] += 2
    after_4[6] += 1
    assert model.probabilities([4]) == pytest.approx(after_4 / (3 + 0.25 * V))


def test_backing_off_is_the_formula_worked_by_hand() -> None:
    # After 5 came 4 and 2, once each: each keeps (1 − 0.5) / 2. Of one token, 4 has 2 of 5, 5 too,
    # 2 has 1; what three discounts of 0.5 free, 0.3, is shared by the other four.
    model = NGram(2, V, k=0.5).fit([[4, 5, 4, 5, 2]])
    lower = np.array([0.075, 0.075, 0.1, 0.075, 0.3, 0.3, 0.075])
    assert model.probabilities([6]) == pytest.approx(lower)  # 6 was never seen as a context
    unseen = lower.copy()
    unseen[[4, 2]] = 0.0
    right = 0.5 * unseen / unseen.sum()
    right[[4, 2]] = 0.25
    assert model.probabilities([5]) == pytest.approx(right)


def test_kneser_ney_is_the_formula_worked_by_hand() -> None:
    # Distinct predecessors: 4 follows <bos> and 5, 5 follows 4, 2 follows 5.
    model = NGram(2, V, smoothing="kneser-ney", k=0.5).fit([[4, 5, 4, 5, 2]])
    lower = np.full(V, 0.5 * 3 / 4 / V)
    lower[[4, 5, 2]] += np.array([1.5, 0.5, 0.5]) / 4
    right = 0.5 * lower
    right[[4, 2]] += 0.25
    assert model.probabilities([5]) == pytest.approx(right)


def test_kneser_ney_asks_how_many_contexts_a_word_follows_not_how_often_it_comes() -> None:
    # 5 is frequent, but after 4 alone; 6 is rarer and comes after three different tokens.
    text = [4, 5] * 6 + [2, 6, 3, 6, 0, 6]
    by_count, by_context = (
        NGram(2, V, smoothing=s, k=0.5).fit([text]) for s in ("backoff", "kneser-ney")
    )
    new = [BOS, 1]
    assert by_count.probabilities(new)[5] > by_count.probabilities(new)[6]
    assert by_context.probabilities(new)[5] < by_context.probabilities(new)[6]


@given(TEXTS, st.integers(1, 4))
def test_windows_hold_what_a_model_may_look_at(texts, context) -> None:
    contexts, targets = windows(texts, context)
    assert targets.tolist() == [x for text in texts for x in text]
    rows = iter(contexts.tolist())
    for text in texts:
        for t in range(len(text)):
            before = ([BOS] * context + text)[t : t + context]
            assert next(rows) == before


def test_windows_of_nothing_are_empty() -> None:
    contexts, targets = windows([], 2)
    assert contexts.shape == (0, 2)
    assert targets.shape == (0,)
    assert windows([[4, 5]], 0)[0].shape == (2, 0)


@given(TEXTS, st.integers(0, 3))
def test_every_context_and_each_of_its_ends_is_counted_once_a_token(texts, context) -> None:
    counts = count(*windows(texts, context))
    n = sum(map(len, texts))
    for length in range(context + 1):
        total = sum(after.total() for key, after in counts.items() if len(key) == length)
        assert total == n


def test_backing_off_keeps_the_proportions_of_what_was_not_seen() -> None:
    p = np.array([0.4, 0.3, 0.2, 0.1])
    q = back_off(p, np.array([1]), np.array([0.75]), 0.25)
    assert q[1] == 0.75
    assert q[[0, 2, 3]] / q[0] == pytest.approx(p[[0, 2, 3]] / p[0])
    assert p.tolist() == [0.4, 0.3, 0.2, 0.1]


def test_one_long_row_of_ids_is_one_sequence() -> None:
    text = [4, 5, 6, 4, 5, 2]
    one, other = NGram(3, V).fit(np.array(text)), NGram(3, V).fit([text])
    assert np.array_equal(one.score(text), other.score(text))
    assert one.n_parameters() == other.n_parameters() > 0


def test_fitting_again_forgets_the_text_before() -> None:
    model = NGram(2, V).fit([[4, 4, 4]])
    assert np.array_equal(
        model.fit([[5, 6]]).score([5, 6]), NGram(2, V).fit([[5, 6]]).score([5, 6])
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: NGram(0, V), "order must be a whole number of at least 1; got 0"),
        (lambda: NGram(2, 1), "vocab_size must be a whole number of at least 2; got 1"),
        (lambda: NGram(2, V, smoothing="good-turing"), "smoothing must be one of"),
        (lambda: NGram(2, V, smoothing="add-k", k=-1.0), "k must be at least 0"),
        (lambda: NGram(2, V, k=1.0), "k must be between 0 and 1"),
        (lambda: NGram(2, V, k=0.0), "k must be between 0 and 1"),
        (lambda: NGram(2, V, k=float("nan")), "k must be a finite number; got nan"),
        (lambda: NGram(2, V, k=None), "k must be a finite number; got None"),
        (lambda: NGram(2, V, k="0.5"), "k must be a finite number; got '0.5'"),
        (lambda: NGram(2, V, smoothing="add-k", k=True), "k must be a finite number; got True"),
        (lambda: NGram(2, V, smoothing="add-k", k=np.inf), "k must be a finite number; got inf"),
        (lambda: NGram(2, V, smoothing=None), "smoothing must be one of .*; got None"),
        (lambda: NGram(2, V).score([4]), "the model must be fitted before"),
        (lambda: NGram(2, V).probabilities([4]), "the model must be fitted before"),
        (lambda: NGram(2, V).fit([]), "sequences must hold at least one token"),
        (
            lambda: NGram(2, V).fit([[4, V]]),
            r"sequences\[0\] must hold whole numbers from 0 to 6; got 7",
        ),
        (
            lambda: NGram(2, V).fit([[4]]).score([-1]),
            "ids must hold whole numbers from 0 to 6; got -1",
        ),
        (lambda: NGram(2, V).fit([[4]]).score([]), "ids must hold at least one token"),
        (lambda: NGram(2, V).fit([4, V]), "sequences must hold whole numbers from 0 to 6; got 7"),
        (lambda: NGram(2, V).fit([[], []]), "sequences must hold at least one token"),
        (lambda: windows([[4]], -1), "context must be a whole number of at least 0"),
        (lambda: windows([[4]], 1, start=-1), "start must be a whole number of at least 0"),
        (lambda: windows([[4]], 1, start=1.0), "start must be a whole number of at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(call, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        call()


NOT_IDS = [4.7, 4.0, np.float64(4), True, np.bool_(True), None, "4", -1, 2**63, [4]]
ONE_SEQUENCE = {
    "probabilities": ("context", NGram(2, V).fit([[4, 5]]).probabilities),
    "log_probabilities": ("context", NGram(2, V).fit([[4, 5]]).log_probabilities),
    "score": ("ids", NGram(2, V).fit([[4, 5]]).score),
    "fit": ("sequences", NGram(2, V).fit),
}


@pytest.mark.parametrize("name", ONE_SEQUENCE)
@pytest.mark.parametrize("bad", NOT_IDS, ids=repr)
def test_what_is_no_id_is_named_and_not_made_one(name: str, bad: Any) -> None:
    argument, call = ONE_SEQUENCE[name]
    with pytest.raises(ValueError, match=f"^{argument} must hold whole numbers from 0 to 6; got "):
        call([5, 4, bad])


@pytest.mark.parametrize("bad", NOT_IDS, ids=repr)
def test_the_sequence_that_holds_it_is_named(bad: Any) -> None:
    for call in (NGram(2, V).fit, lambda several: windows(several, 1)):
        with pytest.raises(ValueError, match=r"^sequences\[1\] must hold whole numbers from 0 to "):
            call([[4], [5, bad]])


@pytest.mark.parametrize("dtype", [float, bool, complex])
def test_an_array_that_holds_no_whole_numbers_is_refused(dtype: type) -> None:
    for argument, call in ONE_SEQUENCE.values():
        with pytest.raises(ValueError, match=f"^{argument} must hold whole numbers"):
            call(np.ones(3, dtype=dtype))


@pytest.mark.parametrize("bad", [None, 4, 4.7, "45", {4, 5}, {4: 5}, np.array(4)], ids=repr)
def test_what_is_no_sequence_is_named(bad: Any) -> None:
    for argument, call in ONE_SEQUENCE.values():
        with pytest.raises(ValueError, match=f"^{argument} must be (a sequence|sequences) of ids"):
            call(bad)
    with pytest.raises(ValueError, match=r"^sequences must be sequences of ids; got "):
        windows(bad, 1)
    with pytest.raises(ValueError, match=r"^sequences\[1\] must be a sequence of ids; got "):
        windows([[4], bad], 1)


def test_a_context_out_of_range_is_refused_where_no_model_would_look_at_it() -> None:
    model = NGram(2, V).fit([[4, 5]])
    with pytest.raises(ValueError, match=r"^context must hold whole numbers from 0 to 6; got 7$"):
        model.probabilities([V, 4])


@pytest.mark.parametrize("of", [tuple, iter, np.array, torch.tensor, np.uint8, list])
def test_ids_may_be_any_whole_numbers_in_any_sequence(of: Any) -> None:
    text = [4, 5, 6, 4, 5, 2]
    model = NGram(3, V).fit([text])
    assert np.array_equal(NGram(3, V).fit([of(text), of([4])]).probabilities([4, 5]),
                          NGram(3, V).fit([text, [4]]).probabilities([4, 5]))  # fmt: skip
    assert np.array_equal(NGram(3, V).fit(of(text)).score(text), model.score(text))
    assert np.array_equal(model.score(of(text)), model.score(text))
    assert np.array_equal(model.probabilities(of(text)), model.probabilities(text))
    contexts, targets = windows([of(text)], 2)
    assert np.array_equal(contexts, windows([text], 2)[0])
    assert targets.tolist() == text and targets.dtype == contexts.dtype == np.int64


def test_sizes_and_discounts_may_be_numbers_of_numpy() -> None:
    text = [4, 5, 6, 4, 5, 2]
    model = NGram(np.uint8(3), np.int64(V), k=np.float32(0.5)).fit([text])
    assert np.array_equal(model.score(text), NGram(3, V, k=0.5).fit([text]).score(text))
    assert np.array_equal(windows([text], np.int64(2), np.int64(3))[0], windows([text], 2, 3)[0])
