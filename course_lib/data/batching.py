"""Sequences of unequal length as one array, and batches that a step number alone determines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from course_lib.data.vocabulary import PAD
from course_lib.validation import check_at_least, check_callable, check_several, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["bucket_batches", "draw_batch", "pad"]

Example = TypeVar("Example")


def pad(sequences: Sequence[Sequence[int]], length: int | None = None) -> tuple[NDArray, NDArray]:
    """Put sequences of ids into one array, each filled up on the right with `PAD`.

    Parameters
    ----------
    sequences : b sequences of int
        Ids, none negative. An empty sequence becomes a row of padding.
    length : int, optional
        The width n of the result; by default the length of the longest sequence.

    Returns
    -------
    ids : int64 array, (b, n)
    lengths : int64 array, (b,)
        How many ids of each row are not padding: ``np.arange(n) < lengths[:, None]`` is the mask.

    Raises
    ------
    ValueError
        If there is no sequence, or one holds anything but ids or is longer than `length`.

    Examples
    --------
    >>> ids, lengths = pad([[5, 6, 7], [8]])
    >>> ids
    array([[5, 6, 7],
           [8, 0, 0]])
    >>> lengths
    array([3, 1])
    """
    if length is not None:
        check_at_least("length", length, 0)
    check_several("sequences", sequences, "a sequence of sequences of ids")
    rows = [_ids(f"sequences[{i}]", sequence) for i, sequence in enumerate(sequences)]
    if not rows:
        raise ValueError("sequences must hold at least one sequence; got none")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    longest = int(lengths.argmax())
    if length is None:
        length = len(rows[longest])
    if len(rows[longest]) > length:
        raise ValueError(
            f"sequences must be no longer than length = {length}; "
            f"got {len(rows[longest])} ids in sequences[{longest}]"
        )
    ids = np.full((len(rows), length), PAD, dtype=np.int64)  # (b, n)
    for target, row in zip(ids, rows, strict=True):
        target[: len(row)] = row
    return ids, lengths


def draw_batch(
    examples: Sequence[Example], batch_size: int, *, seed: int, step: int
) -> list[Example]:
    """Draw the examples of one training step, with replacement.

    They depend on `seed` and `step` alone, not on what was drawn before: a training that is
    resumed at step 500 sees what an uninterrupted one sees.

    Parameters
    ----------
    examples : sequence
        What to draw from.
    batch_size : int
        How many to draw.
    seed, step : int
        Neither negative.

    Returns
    -------
    list of `batch_size` members of `examples`

    Raises
    ------
    ValueError
        If `examples` is empty, `batch_size` is less than 1, or `seed` or `step` is negative.

    Examples
    --------
    >>> draw_batch("abcdef", 4, seed=0, step=7) == draw_batch("abcdef", 4, seed=0, step=7)
    True
    """
    check_at_least("batch_size", batch_size, 1)
    check_at_least("seed", seed, 0)
    check_at_least("step", step, 0)
    _check_examples(examples)
    rows = np.random.default_rng([int(seed), int(step)]).integers(len(examples), size=batch_size)
    return [examples[row] for row in rows.tolist()]


def bucket_batches(
    examples: Sequence[Example],
    batch_size: int,
    *,
    length: Callable[[Example], Any] = len,  # type: ignore[assignment]
    seed: int = 0,
    pool: int = 50,
) -> Callable[[int], list[Example]]:
    """Return a function from a step's number to its batch, whose examples are about equally long.

    Every epoch takes each example once, in an order of its own. It is cut into pools of `pool`
    batches; each pool is sorted by length and cut into batches, and all batches are shuffled. So
    batches hold little padding, and yet no two epochs the same batches. What a step gets depends
    on `seed` and its number alone, not on what was drawn before.

    Parameters
    ----------
    examples : sequence
        What to draw from.
    batch_size : int
        Examples a batch. The last ones of an epoch may be fewer.
    length : callable, default len
        From an example to what the pools are sorted by: a number, or a tuple such as the lengths
        of source and target.
    seed : int, default 0
    pool : int, default 50
        Batches that are sorted together. 1 sorts nothing that matters; as many as an epoch has
        give the same neighbours, but for ties, in every epoch.

    Returns
    -------
    function from a step, 0, 1, …, to a list of examples

    Raises
    ------
    ValueError
        If `examples` is empty or no sequence, `length` no function, a number too small, or a step
        negative.

    Examples
    --------
    >>> batch = bucket_batches(["a", "bcd", "e", "fgh"], batch_size=2)
    >>> sorted(sorted(batch(step)) for step in (0, 1))
    [['a', 'e'], ['bcd', 'fgh']]
    """
    _check_examples(examples)
    check_at_least("batch_size", batch_size, 1)
    check_callable("length", length)
    check_at_least("seed", seed, 0)
    check_at_least("pool", pool, 1)
    lengths = [length(example) for example in examples]
    n_batches = -(-len(examples) // batch_size)
    epochs: dict[int, list[list[int]]] = {}

    def cut(rows: list[int], size: int) -> list[list[int]]:
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def make_epoch(epoch: int) -> list[list[int]]:
        rng = np.random.default_rng([int(seed), epoch])
        batches = []
        for some in cut(rng.permutation(len(examples)).tolist(), pool * batch_size):
            batches += cut(sorted(some, key=lambda row: lengths[row]), batch_size)
        return [batches[i] for i in rng.permutation(n_batches).tolist()]

    def batch(step: int) -> list[Example]:
        check_at_least("step", step, 0)
        epoch, place = divmod(int(step), n_batches)
        if epoch not in epochs:  # one is kept: steps mostly follow one another
            epochs.clear()
            epochs[epoch] = make_epoch(epoch)
        return [examples[row] for row in epochs[epoch][place]]

    return batch


def _check_examples(examples: Any) -> None:
    """Raise unless `examples` is a sequence of at least one."""
    indexed = hasattr(examples, "__getitem__") and not isinstance(examples, Mapping | Set)
    if not indexed or getattr(examples, "shape", None) == ():
        raise ValueError(f"examples must be a sequence; got {examples!r}")
    if len(examples) == 0:
        raise ValueError("examples must hold at least one example; got none")


def _ids(name: str, sequence: Sequence[int]) -> list[int]:
    """Return a sequence of ids as a list, or raise."""
    check_several(name, sequence, "a sequence of ids")
    ids = []
    for item in sequence:
        i = whole_number(item)
        if i is None:
            raise ValueError(f"{name} must hold whole numbers; got {item!r}")
        if not 0 <= i < 2**63:
            raise ValueError(f"{name} must hold ids, none negative or over 63 bits; got {item!r}")
        ids.append(i)
    return ids
