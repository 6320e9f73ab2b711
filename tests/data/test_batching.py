from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.data.batching import bucket_batches, draw_batch, pad
from course_lib.data.vocabulary import PAD

ROWS = st.lists(st.lists(st.integers(0, 50), max_size=7), min_size=1, max_size=6)


@given(ROWS, st.integers(0, 3))
def test_each_row_begins_with_its_sequence_and_ends_in_padding(
    rows: list[list[int]], extra: int
) -> None:
    length = max(map(len, rows)) + extra
    ids, lengths = pad(rows, length)
    assert ids.shape == (len(rows), length)
    assert ids.dtype == lengths.dtype == np.int64
    assert lengths.tolist() == [len(row) for row in rows]
    for padded, row in zip(ids.tolist(), rows, strict=True):
        assert padded == row + [PAD] * (length - len(row))


@given(ROWS)
def test_without_a_length_the_longest_sequence_sets_it(rows: list[list[int]]) -> None:
    ids, lengths = pad(rows)
    assert ids.shape[1] == lengths.max() == max(map(len, rows))


def test_arrays_pad_like_lists() -> None:
    a, _ = pad([np.array([1, 2, 3]), np.array([4])])
    b, _ = pad([[1, 2, 3], [4]])
    assert (a == b).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "sequences must hold at least one sequence"),
        (([[1, 2], 3],), r"sequences\[1\] must be a sequence of ids; got 3"),
        ((["12"],), r"sequences\[0\] must be a sequence of ids; got '12'"),
        (([[1], ["кот"]],), r"sequences\[1\] must hold whole numbers; got 'кот'"),
        (([[1.0]],), r"sequences\[0\] must hold whole numbers; got 1.0"),
        (([[1, -2]],), r"sequences\[0\] must hold ids, none negative or over 63 bits; got -2"),
        (([[1, 2**63]],), r"none negative or over 63 bits; got 9223372036854775808"),
        (([[1, True]],), r"sequences\[0\] must hold whole numbers; got True"),
        (([torch.tensor([True])],), r"sequences\[0\] must hold whole numbers; got tensor"),
        (([{5, 6}],), r"sequences\[0\] must be a sequence of ids; got {5, 6}"),
        (([np.array(5)],), r"sequences\[0\] must be a sequence of ids; got array\(5\)"),
        ((None,), "sequences must be a sequence of sequences of ids; got None"),
        (({"a": [1]},), "sequences must be a sequence of sequences of ids; got {'a'"),
        (([[1], [1, 2, 3]], 2), r"no longer than length = 2; got 3 ids in sequences\[1\]"),
        (([[1]], -1), "length must be a whole number of at least 0; got -1"),
        (([[1]], 2.0), "length must be a whole number of at least 0; got 2.0"),
    ],
)
def test_what_cannot_be_padded_is_refused_by_name(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pad(*arguments)


EXAMPLES = [f"example {i}" for i in range(40)]


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    straight = [draw_batch(EXAMPLES, 8, seed=3, step=t) for t in range(20)]
    backwards = [draw_batch(EXAMPLES, 8, seed=3, step=t) for t in reversed(range(20))]
    assert straight == backwards[::-1]
    np.random.seed(0)  # what others do to numpy's global state is nothing to it
    assert draw_batch(EXAMPLES, 8, seed=3, step=5) == straight[5]


def test_other_steps_and_other_seeds_draw_other_examples() -> None:
    batches = {
        tuple(draw_batch(EXAMPLES, 8, seed=seed, step=step))
        for seed in range(10)
        for step in range(10)
    }
    assert len(batches) == 100


def test_every_example_is_drawn_about_equally_often() -> None:
    drawn = [e for step in range(500) for e in draw_batch(EXAMPLES, 16, seed=0, step=step)]
    counts = np.array([drawn.count(e) for e in EXAMPLES])  # expected 200 each, deviation 14
    assert counts.sum() == 8000
    assert counts.min() > 130 and counts.max() < 270


def test_a_batch_may_be_larger_than_what_it_is_drawn_from() -> None:
    assert draw_batch(["one"], 3, seed=0, step=0) == ["one"] * 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"examples": []}, "examples must hold at least one example"),
        ({"examples": None}, "examples must be a sequence; got None"),
        ({"examples": {0: "a"}}, "examples must be a sequence; got {0"),
        ({"examples": {"a"}}, "examples must be a sequence; got {'a'}"),
        ({"examples": np.array(1)}, r"examples must be a sequence; got array\(1\)"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
        ({"batch_size": 2.0}, "batch_size must be a whole number of at least 1; got 2.0"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"seed": None}, "seed must be a whole number of at least 0; got None"),
        ({"step": -1}, "step must be a whole number of at least 0; got -1"),
        ({"step": True}, "step must be a whole number of at least 0; got True"),
    ],
)
def test_a_bad_draw_is_refused_by_name(changed: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_batch(**({"examples": EXAMPLES, "batch_size": 2, "seed": 0, "step": 0} | changed))


# --- buckets -------------------------------------------------------------------------------------

TEXTS = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@given(TEXTS, st.integers(1, 9), st.integers(1, 4), st.integers(0, 5))
def test_every_epoch_takes_each_example_once(
    sizes: list[int], batch_size: int, pool: int, epoch: int
) -> None:
    examples = list(enumerate(sizes))
    batch = bucket_batches(examples, batch_size, length=lambda e: e[1], seed=3, pool=pool)
    n_batches = -(-len(examples) // batch_size)
    taken = [batch(epoch * n_batches + i) for i in range(n_batches)]
    assert sorted(e for some in taken for e in some) == examples
    assert sorted(map(len, taken))[1:] == [batch_size] * (n_batches - 1)


@given(TEXTS, st.integers(1, 9), st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_a_steps_bucket_does_not_depend_on_what_was_drawn_before(
    sizes: list[int], batch_size: int, steps: list[int]
) -> None:
    examples = list(enumerate(sizes))
    one = bucket_batches(examples, batch_size, length=lambda e: e[1], seed=7)
    for step in steps:
        fresh = bucket_batches(examples, batch_size, length=lambda e: e[1], seed=7)
        assert one(step) == fresh(step)


def padding(batch: list[list[int]]) -> int:
    return len(batch) * max(map(len, batch)) - sum(map(len, batch))


def test_buckets_hold_far_less_padding_than_batches_drawn_at_random() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, 2000).tolist()
    examples = [[9] * n for n in lengths]
    bucket = bucket_batches(examples, 32, pool=10)
    sorted_ones = sum(padding(bucket(step)) for step in range(60))
    mixed = sum(padding(draw_batch(examples, 32, seed=0, step=step)) for step in range(60))
    assert sorted_ones < mixed / 5


def test_epochs_and_seeds_have_other_batches_and_batches_are_not_in_order_of_length() -> None:
    examples = [[i] * (i % 10 + 1) for i in range(400)]
    bucket, other = bucket_batches(examples, 8, pool=5), bucket_batches(examples, 8, pool=5, seed=1)
    first, second = ([bucket(e * 50 + i) for i in range(50)] for e in (0, 1))
    assert first != second
    assert not {tuple(map(tuple, b)) for b in first} & {tuple(map(tuple, b)) for b in second}
    assert first != [other(i) for i in range(50)]


def test_the_batches_of_an_epoch_do_not_come_in_order_of_length() -> None:
    examples = [[i] * (i % 10 + 1) for i in range(400)]
    bucket = bucket_batches(examples, 8)  # one pool: unshuffled, the short ones would come first
    heads = [len(bucket(step)[0]) for step in range(50)]
    assert heads != sorted(heads)


def test_a_bucket_may_be_sorted_by_source_and_then_by_target() -> None:
    pairs = [("s" * i, "t" * j) for i in (1, 2) for j in (1, 2, 3, 4)]
    bucket = bucket_batches(pairs, 2, length=lambda p: (len(p[0]), len(p[1])))
    for step in range(4):
        (a, b), (c, d) = bucket(step)
        assert a == c
        assert abs(len(b) - len(d)) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], 2), {}, "examples must hold at least one example; got none"),
        (({1, 2}, 2), {}, "examples must be a sequence; got"),
        ((["a"], 0), {}, "batch_size must be a whole number of at least 1; got 0"),
        ((["a"], 1), {"length": 3}, "length must be a function; got 3"),
        ((["a"], 1), {"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ((["a"], 1), {"pool": 0}, "pool must be a whole number of at least 1; got 0"),
    ],
)
def test_buckets_that_cannot_be_filled_are_named(
    arguments: tuple, options: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        bucket_batches(*arguments, **options)


@pytest.mark.parametrize("bad", [-1, 1.0, None, True])
def test_a_bucket_of_a_step_that_is_none_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"^step must be a whole number of at least 0; got"):
        bucket_batches(["a"], 1)(bad)  # type: ignore[arg-type]
