"""The reversal task: "3 7 1 5" → "5 1 7 3". What matters is nothing but where a symbol stands."""

from __future__ import annotations

import numpy as np

from course_lib.validation import check_at_least

__all__ = ["reversal_pairs"]


def reversal_pairs(
    n: int, *, seed: int, min_length: int = 10, max_length: int = 10, n_symbols: int = 10
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Draw strings of symbols, each with its reversal.

    Every length from `min_length` to `max_length` is equally likely, and so is every string of one
    length; a string may be drawn twice.

    Parameters
    ----------
    n : int
        How many pairs.
    seed : int
        The same seed and arguments give the same pairs.
    min_length, max_length : int, default 10
        The range of lengths, both included.
    n_symbols : int, default 10
        How many different symbols there are: the whole numbers from "0" on.

    Returns
    -------
    list of (source, target)
        Two tuples of str each; the target is the source read backwards.

    Raises
    ------
    ValueError
        If `n`, `seed`, a length or `n_symbols` is too small, or `max_length` < `min_length`.

    Examples
    --------
    >>> [(source, target)] = reversal_pairs(1, seed=0, min_length=4, max_length=4)
    >>> len(source), target == source[::-1]
    (4, True)
    """
    check_at_least("n", n, 0)
    check_at_least("seed", seed, 0)
    check_at_least("min_length", min_length, 1)
    check_at_least("max_length", max_length, 1)
    check_at_least("n_symbols", n_symbols, 1)
    if max_length < min_length:
        raise ValueError(
            f"max_length must be at least min_length, {min_length}; got {max_length!r}"
        )
    rng = np.random.default_rng(seed)
    lengths = rng.integers(min_length, max_length + 1, size=n).tolist()
    symbols = [str(i) for i in rng.integers(n_symbols, size=sum(lengths)).tolist()]
    pairs = []
    start = 0
    for length in lengths:
        source = tuple(symbols[start : start + length])
        pairs.append((source, source[::-1]))
        start += length
    return pairs
