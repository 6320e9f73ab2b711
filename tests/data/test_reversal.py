from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from course_lib.data.reversal import reversal_pairs


def test_the_target_is_the_source_read_backwards() -> None:
    pairs = reversal_pairs(300, seed=1, min_length=1, max_length=12)
    assert len(pairs) == 300
    for source, target in pairs:
        assert list(target) == list(reversed(source))


def test_the_default_is_ten_symbols_of_ten() -> None:
    pairs = reversal_pairs(500, seed=0)
    assert {len(source) for source, _ in pairs} == {10}
    assert {s for source, _ in pairs for s in source} == set("0123456789")


def test_every_length_and_symbol_asked_for_is_about_equally_frequent() -> None:
    pairs = reversal_pairs(3000, seed=2, min_length=3, max_length=7, n_symbols=12)
    lengths = np.bincount([len(source) for source, _ in pairs], minlength=9)
    assert lengths[:3].sum() == lengths[8:].sum() == 0
    assert (lengths[3:8] > 500).all()  # expected 600, deviation 22
    symbols = [s for source, _ in pairs for s in source]
    assert set(symbols) == {str(i) for i in range(12)}
    assert min(symbols.count(s) for s in set(symbols)) > 1000  # expected 1250, deviation 34


def test_a_string_is_drawn_anew_and_not_shifted_from_the_one_before() -> None:
    sources = [source for source, _ in reversal_pairs(300, seed=3)]
    for shift in range(9):
        pairs = pairwise(sources)
        assert sum(a[shift + 1 :] == b[: 9 - shift] for a, b in pairs) < 100  # chance: 30 at most


def test_a_seed_repeats_and_another_seed_differs() -> None:
    assert reversal_pairs(50, seed=4) == reversal_pairs(50, seed=4)
    assert reversal_pairs(50, seed=4) != reversal_pairs(50, seed=5)


def test_none_and_one_symbol_are_fine() -> None:
    assert reversal_pairs(0, seed=0) == []
    (pair,) = reversal_pairs(1, seed=0, min_length=2, max_length=2, n_symbols=1)
    assert pair == (("0", "0"), ("0", "0"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n": -1}, "n must be a whole number of at least 0; got -1"),
        ({"n": 2.5}, "n must be a whole number of at least 0; got 2.5"),
        ({"seed": -3}, "seed must be a whole number of at least 0; got -3"),
        ({"min_length": 0}, "min_length must be a whole number of at least 1; got 0"),
        ({"max_length": "10"}, "max_length must be a whole number of at least 1; got '10'"),
        ({"min_length": 11}, "max_length must be at least min_length, 11; got 10"),
        ({"n_symbols": 0}, "n_symbols must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(changed: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reversal_pairs(**({"n": 3, "seed": 0} | changed))
