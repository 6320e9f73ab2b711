"""The exercises of chapter 15 about one vector for a text, and about finding texts by it.

Every misconception here is the right computation with one step wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import sentence_embeddings as library

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["POOLING", "SEARCH", "search", "sentence_vectors"]


# -- 15.pooling ------------------------------------------------------------------------------------


def sentence_vectors(hidden: NDArray, mask: NDArray) -> tuple[NDArray, NDArray]:
    """Return the mean of the real tokens, and the same at length 1.

    Parameters
    ----------
    hidden : float array, (..., n, d)
        May hold anything at padding, NaN and ∞ as well.
    mask : boolean array, (..., n)

    Returns
    -------
    means, units : float arrays, (..., d)
        0 where no token is real.
    """
    means, units = _pooled()(hidden, mask)
    return means, units


def _sum(hidden: NDArray, mask: NDArray) -> Any:
    return np.where(mask[..., None], hidden, 0.0).sum(axis=-2)


def _count(mask: NDArray) -> Any:
    return np.maximum(mask.sum(axis=-1, keepdims=True), 1)


def _unit(means: NDArray) -> Any:
    size = np.sqrt((means**2).sum(axis=-1, keepdims=True))
    return means / np.where(size == 0, 1.0, size)


def _pooled(
    *,
    add: Callable[[NDArray, NDArray], Any] = _sum,
    count: Callable[[NDArray], Any] = _count,
    unit: Callable[[NDArray], Any] = _unit,
    returns: Callable[[Any, Any], Any] = lambda means, units: (means, units),
) -> Callable[..., Any]:
    """Return the pooling with some steps replaced."""

    def pooled(hidden: NDArray, mask: NDArray) -> Any:
        with np.errstate(all="ignore"):
            means = add(hidden, mask) / count(mask)
            return returns(means, unit(means))

    return pooled


def _length_of_sum(hidden: NDArray, mask: NDArray) -> Any:
    means, total = _pooled()(hidden, mask)[0], _sum(hidden, mask)
    size = np.sqrt((total**2).sum(axis=-1, keepdims=True))
    return means, means / np.where(size == 0, 1.0, size)


def _texts(*rows: str, d: int = 3, alone: bool = False, bad: bool = False) -> Any:
    """Draw vectors for rows such as "xx..": x for a real token, a dot for padding."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, len(rows), len(rows[0]), d])
        mask = np.array([[c == "x" for c in row] for row in rows])
        hidden = draw(rng, *mask.shape, d) + 0.4
        if bad:
            hidden[~mask] = np.nan
            hidden[-1, -1, ::2] = np.inf, -np.inf
        if alone:
            hidden, mask = hidden[0], mask[0]
        return {"hidden": hidden.round(1), "mask": mask}

    return build


def _with_a_zero(seed: int) -> dict[str, Any]:
    given: dict[str, Any] = _texts("xxx.", ".xxx", d=2)(seed)
    given["hidden"][:, 1] = 0.0
    return given


_POOL_CASES = [
    case("one text of 3 tokens | no padding, no batch", _texts("xxx", d=2, alone=True)),
    case("2 texts of 4 and 2 tokens | padding is left out", _texts("xxxx", "xx..")),
    case("padding on the left | a mask can have any form", _texts("xxx", ".xx", "..x", d=2)),
    case("marks left out in the middle | or any other form", _texts("xx.x.x", "x..xxx")),
    case("NaN and ∞ at padding | 0 times either isn't 0", _texts("xxx.", "x...", bad=True)),
    case("a real token of zeros | it counts", _with_a_zero),
    case("a text without a token | zeros, and no NaN", _texts("xx", "..", d=4)),
]


def _by_slices(hidden: NDArray, mask: NDArray) -> Any:
    """Take the mask for a length."""
    rows = hidden.reshape(-1, *hidden.shape[-2:])
    lengths = mask.sum(axis=-1).reshape(-1)
    total = np.stack([row[:n].sum(axis=0) for row, n in zip(rows, lengths, strict=True)])
    return total.reshape(*hidden.shape[:-2], -1)


def _only(pick: Callable[[NDArray], int]) -> Callable[[NDArray, NDArray], Any]:
    """Return what takes one token in the place of all."""

    def add(hidden: NDArray, mask: NDArray) -> Any:
        rows = hidden.reshape(-1, *hidden.shape[-2:])
        masks = mask.reshape(-1, mask.shape[-1])
        chosen = [
            row[pick(real)] if real.any() else 0 * row[0]
            for row, real in zip(rows, masks, strict=True)
        ]
        return np.stack(chosen).reshape(*hidden.shape[:-2], -1)

    return add


def _largest(hidden: NDArray, mask: NDArray) -> Any:
    found = np.where(mask[..., None], hidden, -np.inf).max(axis=-2)
    return np.where(mask.any(axis=-1, keepdims=True), found, 0.0)


def _units_first(hidden: NDArray, mask: NDArray) -> Any:
    return _sum(_unit(np.where(mask[..., None], hidden, 0.0)), mask)


def _one(mask: NDArray) -> Any:
    return 1


def _up_to_the_last(mask: NDArray) -> NDArray:
    """Fill the gaps before the last real token."""
    return np.flip(np.maximum.accumulate(np.flip(mask, -1), axis=-1), -1)


def _multiplied(hidden: NDArray, mask: NDArray) -> Any:
    return (hidden * mask[..., None]).sum(axis=-2)


def _zeros_for_nan(hidden: NDArray, mask: NDArray) -> Any:
    return _multiplied(np.where(np.isnan(hidden), 0.0, hidden), mask)


def _unit_or_zeros(means: NDArray) -> Any:
    """Give what has no length above 0 zeros: NaN as well."""
    size = np.sqrt((means**2).sum(axis=-1, keepdims=True))
    return np.where(size > 0, means / size, 0.0)


def _not_zero(by_number: bool) -> Callable[..., Any]:
    """Count what isn't 0, in the place of what's real."""

    def pooled(hidden: NDArray, mask: NDArray) -> Any:
        kept = np.where(mask[..., None], hidden, 0.0) != 0
        count = kept if by_number else kept.any(axis=-1, keepdims=True)
        means = _sum(hidden, mask) / np.maximum(count.sum(axis=-2), 1)
        return means, _unit(means)

    return pooled


def _mean_of_units(again: bool) -> Callable[..., Any]:
    def pooled(hidden: NDArray, mask: NDArray) -> Any:
        mean = _units_first(hidden, mask) / _count(mask)
        return _pooled()(hidden, mask)[0], _unit(mean) if again else mean

    return pooled


def _all_of_batch(means: NDArray) -> Any:
    size = np.sqrt((means**2).sum())
    return means / np.where(size == 0, 1.0, size)


def _down(means: NDArray) -> Any:
    size = np.sqrt((means**2).sum(axis=0, keepdims=True))
    return means / np.where(size == 0, 1.0, size)


def _scaled(size_of: Callable[[NDArray], Any]) -> Callable[[NDArray], Any]:
    def unit(means: NDArray) -> Any:
        size = size_of(means)
        return means / np.where(size == 0, 1.0, size)

    return unit


_POOL_WRONG = [
    wrong(
        _pooled(add=lambda hidden, mask: hidden.sum(axis=-2), count=lambda mask: mask.shape[-1]),
        "padding counted | You take the mean of all places, padding too. → For which places is the "
        "mask False?",
    ),
    wrong(
        _pooled(count=lambda mask: mask.shape[-1]),
        "divided by the padded length | Your sum leaves padding out, and you divide it by the "
        "padded length. The units don't show it. → How many vectors have you added?",
    ),
    wrong(
        _pooled(add=lambda hidden, mask: hidden.sum(axis=-2)),
        "padding added | You divide by the number of real tokens, and your sum has the padding in "
        "it. → Which vectors belong into the sum?",
    ),
    wrong(
        _pooled(count=_one),
        "a sum | You return the sum of the real tokens in the place of their mean. The units don't "
        "show it. → By what is the sum to be divided?",
    ),
    wrong(
        _pooled(add=lambda hidden, mask: (hidden * mask[..., None]).sum(axis=-2)),
        "multiplied by the mask | You multiply by the mask, and 0 · NaN is NaN: what stands at "
        "padding comes through. → Which function of numpy *chooses* between two numbers?",
    ),
    wrong(
        _pooled(
            add=lambda hidden, mask: (
                np.nan_to_num(hidden).sum(axis=-2) / mask.shape[-1] * _count(mask)
            )
        ),
        "NaN for padding | You make zeros of NaN and take the mean of all places. At padding there "
        "are numbers, too. → What alone says which tokens are real?",
    ),
    wrong(
        _pooled(count=lambda mask: mask.sum(axis=-1, keepdims=True)),
        "divided by 0 | For a text without a token you divide 0 by 0. → By what may 0 be divided "
        "to stay 0?",
    ),
    wrong(
        _pooled(unit=lambda means: means / np.sqrt((means**2).sum(axis=-1, keepdims=True))),
        "a vector without length | Your means are right. For a text without a token the length is "
        "0, and you divide by it. → What is a vector of zeros to become?",
    ),
    wrong(
        _pooled(
            add=lambda hidden, mask: _sum(hidden, np.logical_not(mask)),
            count=lambda mask: _count(np.logical_not(mask)),
        ),
        "the mask turned round | You take the mean of the padding and leave the real tokens out. → "
        "What does True mean in the mask?",
    ),
    wrong(
        _pooled(add=_by_slices),
        "the first places | You count the real tokens and take as many places from the beginning. "
        "That's right for padding at the end alone. → Where else can padding be?",
    ),
    wrong(
        _pooled(add=_only(lambda real: 0), count=_one),
        "the first place | You return the vector of the first place, as one does with `[CLS]`. → "
        "How was this encoder trained to be read?",
    ),
    wrong(
        _pooled(add=_only(lambda real: int(real.nonzero()[0][-1])), count=_one),
        "the last real token | You return the vector of the last real token, as one does with a "
        "decoder. → How was this encoder trained to be read?",
    ),
    wrong(
        _pooled(add=_largest, count=_one),
        "the largest of each column | You take the largest number of each column in the place of "
        "the mean. → What does the formula add?",
    ),
    wrong(
        _pooled(add=_units_first),
        "tokens at length 1 | You bring every token to length 1 before the mean, so that long "
        "vectors no longer count for more. → Which vectors are divided by their length?",
    ),
    wrong(
        _pooled(unit=_all_of_batch),
        "one length for the batch | Your means are right. You divide by the length of the whole "
        "batch taken as one vector. → Along which axis are squares added?",
    ),
    wrong(
        _pooled(unit=_down),
        "lengths of columns | Your means are right. You add squares down the first axis. → Which "
        "axis holds the numbers of one vector?",
    ),
    wrong(
        _pooled(unit=_scaled(lambda x: (x**2).sum(axis=-1, keepdims=True))),
        "no root | Your means are right. You divide by the sum of squares, which is the *square* "
        "of the length. → How long is (3, 4)?",
    ),
    wrong(
        _pooled(unit=_scaled(lambda x: np.abs(x).sum(axis=-1, keepdims=True))),
        "absolute values added | Your means are right. You divide by the sum of absolute values. → "
        "How long is (3, 4)?",
    ),
    wrong(
        _pooled(unit=_scaled(lambda x: np.sqrt((x**2).mean(axis=-1, keepdims=True)))),
        "a mean of squares | Your means are right. You divide by the root of the *mean* square, as "
        "RMSNorm does. → How long are your vectors?",
    ),
    wrong(
        _pooled(unit=_scaled(lambda x: np.abs(x).max(axis=-1, keepdims=True))),
        "the largest number for a length | Your means are right. You divide by the largest number "
        "of the vector. → How long is (3, 4)?",
    ),
    wrong(
        _pooled(returns=lambda means, units: (units, units)),
        "both at length 1 | Your units are right, and your means are at length 1 as well. → What "
        "is the first of the two before it's divided by its length?",
    ),
    wrong(
        _pooled(returns=lambda means, units: (means, means)),
        "no units | Your means are right, and you return them twice. → By what are they divided "
        "for the second part?",
    ),
    wrong(
        _pooled(unit=lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)),
        "a softmax | Your means are right. You make the numbers of each sum to 1 by a softmax. → "
        "What does a length of 1 ask of their squares?",
    ),
    wrong(
        _pooled(returns=lambda means, units: (units, means)),
        "changed places | Your two parts are right, and have changed places. → Which does "
        "the docstring name first?",
    ),
    wrong(
        _pooled(count=lambda mask: max(mask.sum(), 1)),
        "tokens of the whole batch | You divide by the number of real tokens in the whole batch. → "
        "Along which axis of the mask are they counted?",
    ),
    wrong(
        _pooled(count=lambda mask: mask.sum(axis=-1, keepdims=True) + 1),
        "one token too many | You divide by one more than there are, perhaps so as not to divide "
        "by 0. → Which function leaves all numbers from 1 on as they are?",
    ),
    wrong(
        _pooled(unit=lambda x: x / np.maximum(np.sqrt((x**2).sum(axis=-1, keepdims=True)), 1.0)),
        "short vectors left short | Your means are right. What's shorter than 1 isn't brought to "
        "length 1 by you. → From which length on may a vector count as 0?",
    ),
    wrong(
        _pooled(
            add=lambda hidden, mask: _sum(hidden, _up_to_the_last(mask)),
            count=lambda mask: _count(_up_to_the_last(mask)),
        ),
        "up to the last real token | You average all places up to the last real token, padding "
        "between them as well. → Where else than at the end can padding be?",
    ),
    wrong(
        _pooled(add=_zeros_for_nan),
        "NaN alone made 0 | You make zeros of NaN and multiply by the mask. At padding there can "
        "be ∞, too, and 0 · ∞ is NaN. → Which function of numpy *chooses* between two numbers?",
    ),
    wrong(
        _pooled(add=_zeros_for_nan, unit=_unit_or_zeros),
        "NaN alone made 0, and no NaN in the units | You make zeros of NaN and multiply by the "
        "mask. At padding there can be ∞, too, and 0 · ∞ is NaN in the means. → Which function of "
        "numpy *chooses* between two numbers?",
    ),
    wrong(
        _pooled(add=_multiplied, unit=_unit_or_zeros),
        "multiplied by the mask, and no NaN in the units | You multiply by the mask, and 0 · NaN "
        "is NaN: what stands at padding comes through to the means. → Which function of numpy "
        "*chooses* between two numbers?",
    ),
    wrong(
        _pooled(count=lambda mask: mask.sum(axis=-1, keepdims=True), unit=_unit_or_zeros),
        "divided by 0, and no NaN in the units | Your units are right. For the mean of a text "
        "without a token you divide 0 by 0. → By what may 0 be divided to stay 0?",
    ),
    wrong(
        _not_zero(by_number=False),
        "tokens of zeros not counted | You count the vectors that aren't 0. A real token's vector "
        "may be 0, and is one of those that are averaged. → What alone says which tokens are real?",
    ),
    wrong(
        _not_zero(by_number=True),
        "zeros not counted | In each column you count the numbers that aren't 0. A real token may "
        "have a 0 there. → What alone says which tokens are real?",
    ),
    wrong(
        _mean_of_units(again=False),
        "a mean of units | Your means are right. For the units you bring each *token* to length 1 "
        "and take the mean of those. → Which vector is divided by its length?",
    ),
    wrong(
        _mean_of_units(again=True),
        "a mean of units, at length 1 | Your means are right. For the units you bring each "
        "*token* to length 1 first, so that long ones no longer count for more. → Which vector is "
        "divided by its length?",
    ),
    wrong(
        _pooled(unit=lambda x: x / (np.sqrt((x**2).sum(axis=-1, keepdims=True)) + 1e-6)),
        "a little added to the length | Your means are right. You add a small number to every "
        "length so as not to divide by 0, and all units are a little short. → Which lengths alone "
        "need it?",
    ),
    wrong(
        _length_of_sum,
        "the length of the sum | Your means are right, and for the units you divide them by the "
        "length of the *sum*. → Whose length is to become 1?",
    ),
]


def _pool_loops(hidden: Any, mask: Any) -> Any:
    rows, masks = hidden.reshape(-1, *hidden.shape[-2:]), mask.reshape(-1, mask.shape[-1])
    means = []
    for row, real in zip(rows, masks, strict=True):
        own = [vector for vector, keep in zip(row, real, strict=True) if keep]
        means.append(sum(own) / len(own) if own else np.zeros(hidden.shape[-1]))
    found = np.array(means).reshape(*hidden.shape[:-2], -1)
    sizes = np.linalg.norm(found, axis=-1, keepdims=True)
    return found, found / np.maximum(sizes, 1e-30)


def _pool_product(hidden: Any, mask: Any) -> Any:
    """Multiply by rows of shares."""
    shares = mask / np.maximum(mask.sum(axis=-1, keepdims=True), 1)
    means = (shares[..., None, :] @ np.where(mask[..., None], hidden, 0))[..., 0, :]
    with np.errstate(invalid="ignore"):
        return means, np.nan_to_num(means / np.linalg.norm(means, axis=-1, keepdims=True))


def _pool_cleaned(hidden: Any, mask: Any) -> Any:
    """Make numbers of all that isn't one, and multiply by the mask."""
    total = (np.nan_to_num(hidden) * mask[..., None]).sum(axis=-2)
    means = total / (mask.sum(axis=-1)[..., None] + 1e-12)
    return means, means / np.maximum(np.linalg.norm(means, axis=-1)[..., None], 1e-12)


def _pool_torch(hidden: Any, mask: Any) -> Any:
    from torch.nn import functional

    total = hidden.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=-2)
    means = total / mask.sum(dim=-1, keepdim=True).clamp(min=1)
    return means, functional.normalize(means, dim=-1)


POOLING = Exercise(
    id="15.pooling",
    function="sentence_vectors",
    reference=sentence_vectors,
    guarded=[library.mean_pooling, library.unit_length],
    cases=_POOL_CASES,
    returns=("means", "units"),
    misconceptions=_POOL_WRONG,
    alternatives=[
        ("loops", _pool_loops),
        ("a product", _pool_product),
        ("cleaned", _pool_cleaned),
        Alternative(name="torch", right=_pool_torch, backend="torch"),
    ],
    hints=[
        "Three steps: the sum of what is real, how many that are, and the length of the quotient. "
        "Twice you divide, and each time it could be by 0.",
        "Choose before you add: `np.where(mask[..., None], hidden, 0)`. The mask needs one "
        "axis more, of length 1.",
        "`total / np.maximum(count, 1)` and `means / np.maximum(size, 1e-12)`, where count and "
        "size keep their last axis by `keepdims=True`.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 15.search -------------------------------------------------------------------------------------


def search(
    queries: NDArray, documents: NDArray, k: int, at_least: float = -np.inf
) -> tuple[NDArray, NDArray]:
    """Find each query's k nearest documents by cosine, of those that are near enough.

    Parameters
    ----------
    queries : float array, (m, d)
    documents : float array, (n, d)
    k : int
        At most n.
    at_least : float, default −∞
        The smallest cosine that is near enough.

    Returns
    -------
    indices : int64 array, (m, k)
        The nearest first, of equal ones the earlier first; −1 where none is left.
    scores : float array, (m, k)
        Their cosines; 0 where none is left.
    """
    indices, scores = _search()(queries, documents, k, at_least)
    return indices, scores


def _rows(x: NDArray) -> Any:
    return _unit(x)


def _as_is(x: NDArray) -> Any:
    return x


def _dots(a: NDArray, b: NDArray) -> Any:
    return a @ b.T


def _nearest(scores: NDArray) -> Any:
    return np.argsort(-scores, axis=-1, kind="stable")


def _search(
    *,
    of_query: Callable[[NDArray], Any] = _rows,
    of_document: Callable[[NDArray], Any] = _rows,
    compare: Callable[[NDArray, NDArray], Any] = _dots,
    order: Callable[[NDArray], Any] = _nearest,
    by: Callable[[NDArray, NDArray, NDArray], Any] = lambda scores, queries, documents: scores,
    near: Callable[[NDArray, float], Any] = lambda scores, at_least: scores >= at_least,
    empty: tuple[int | None, float | None] = (-1, 0.0),
    returns: Callable[[Any, Any], Any] = lambda indices, scores: (indices, scores),
) -> Callable[..., Any]:
    """Return the search with some steps replaced."""

    def searched(queries: NDArray, documents: NDArray, k: int, at_least: float = -np.inf) -> Any:
        with np.errstate(all="ignore"):
            scores = compare(of_query(queries), of_document(documents))
            indices = order(by(scores, queries, documents))[:, :k]
            best = np.take_along_axis(scores, indices, axis=-1)
            kept = near(best, at_least)
            index, score = empty
            shown = best if score is None else np.where(kept, best, score)
            found = indices if index is None else np.where(kept, indices, index)
            return returns(found, shown)

    return searched


def _marked_by(mark: float) -> Callable[..., Any]:
    """Return the search that marks far documents by a number, and knows them by it."""

    def searched(queries: NDArray, documents: NDArray, k: int, at_least: float = -np.inf) -> Any:
        scores = _unit(queries) @ _unit(documents).T
        scores = np.where(scores >= at_least, scores, mark)
        indices = _nearest(scores)[:, :k]
        best = np.take_along_axis(scores, indices, axis=-1)
        known = np.isclose(best, mark, rtol=0, atol=1e-12)
        return np.where(known, -1, indices), np.where(known, 0.0, best)

    return searched


def _zeros_before(queries: NDArray, documents: NDArray, k: int, at_least: float = -np.inf) -> Any:
    scores = _unit(queries) @ _unit(documents).T
    scores = np.where(scores >= at_least, scores, 0.0)
    indices = _nearest(scores)[:, :k]
    best = np.take_along_axis(scores, indices, axis=-1)
    kept = best >= at_least
    return np.where(kept, indices, -1), np.where(kept, best, 0.0)


def _at_least_one(x: NDArray) -> NDArray:
    return x / np.maximum(np.sqrt((x**2).sum(axis=-1, keepdims=True)), 1.0)


def _longer(by: float) -> Callable[[NDArray], Any]:
    return lambda x: x / (np.sqrt((x**2).sum(axis=-1, keepdims=True)) + by)


def _down_the_queries(scores: NDArray) -> Any:
    return np.argsort(-scores, axis=0, kind="stable")


def _first_scores(queries: NDArray, documents: NDArray, k: int, at_least: float = -np.inf) -> Any:
    scores = _unit(queries) @ _unit(documents).T
    indices = _nearest(scores)[:, :k]
    best = scores[:, :k]
    return np.where(best >= at_least, indices, -1), np.where(best >= at_least, best, 0.0)


def _vectors(m: int, n: int, d: int, k: int, **more: Any) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, m, n, d, k])
        queries, documents = draw(rng, m, d), draw(rng, n, d)
        queries += 0.05 * np.where(queries == 0, 1, 0)
        # Long and short ones, so that a dot product ranks otherwise than a cosine.
        documents = (documents * np.array([0.3, 3.0, 1.0])[np.arange(n) % 3][:, None]).round(2)
        if k == n:
            documents[-1] = -2 * queries[0]  # the very opposite is a document as well
        return {"queries": queries, "documents": documents, "k": k, **more}

    return build


def _alike(seed: int) -> dict[str, Any]:
    """Draw from three documents, each there several times, and queries along the axes."""
    rng = np.random.default_rng([seed, 8])
    three = np.array([[3.0, 4.0, 0.0], [0.0, 3.0, 4.0], [4.0, 0.0, 3.0]])
    documents = three[np.concatenate([rng.permutation(3), rng.integers(0, 3, 21)])]
    return {"queries": np.eye(3)[:2] * [[1.0], [2.0]], "documents": documents, "k": 12}


def _with_zeros(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 9])
    direction = draw(rng, 3) + np.array([2.0, 0.3, -0.4])
    documents = np.stack(
        [[0.4, -0.3, 0.2] - direction, np.zeros(3), direction[::-1], 2 * direction]
    ).round(1)
    return {"queries": np.stack([direction, np.zeros(3)]).round(1), "documents": documents, "k": 3}


def _distances(scores: NDArray, queries: NDArray, documents: NDArray) -> Any:
    return -((queries[:, None] - documents[None]) ** 2).sum(axis=-1)


def _some_near(seed: int) -> dict[str, Any]:
    """Draw documents of which some are near enough: the last query has one on the border."""
    rng = np.random.default_rng([seed, 10])
    angles = np.deg2rad([200, 10, 25, 75, 125, 300, 170]) + rng.uniform(-0.05, 0.05, 7)
    sizes = rng.uniform(0.5, 3.0, 7)[:, None]
    documents = (np.stack([np.cos(angles), np.sin(angles)], axis=-1) * sizes).round(2)
    documents[3] = np.array([3.0, 4.0]) * rng.choice([0.5, 1.0, 2.0])  # 3/5 is 0.6 to the last bit
    queries = np.array([[2.0, 0.5], [-1.0, 0.1], [0.2, -0.3], [2.0, 0.0]])
    return {"queries": queries, "documents": documents, "k": 7, "at_least": 0.6}


def _on_the_border(seed: int) -> dict[str, Any]:
    """Draw documents of ±1, whose cosines are multiples of 1/2, exactly."""
    rng = np.random.default_rng([seed, 11])
    signs = np.array([[1, 1, 1, 1], [-1, 1, 1, -1], [1, -1, 1, 1], [-1, -1, -1, 1]])
    axes = np.array([[-4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 0]])
    documents = np.concatenate([signs * 2, axes])[rng.permutation(7)].astype(float)
    queries = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    return {"queries": queries, "documents": documents, "k": 7, "at_least": -0.5}


_SEARCH_CASES = [
    case("one query, 3 documents, the best of them", _vectors(1, 3, 2, 1)),
    case("one query, all of 5 documents | in order, the opposite last", _vectors(1, 5, 3, 5)),
    case("3 queries, 6 documents, two of them | each query has its own", _vectors(3, 6, 4, 2)),
    case("documents that are there several times | of equal ones the earlier first", _alike),
    case("vectors of zeros | their cosine is 0", _with_zeros),
    case("only what is near enough | a cosine of 0.6 is; −1 and 0 where none is left", _some_near),
    case("a border of −0.5, which some have exactly | *at least* lets them in", _on_the_border),
    case("nothing near enough | there's always a nearest, and it isn't an answer",
         _vectors(2, 4, 3, 2, at_least=0.9999)),
]  # fmt: skip


_SEARCH_WRONG = [
    wrong(
        _search(of_query=_as_is, of_document=_as_is),
        "dot products | You compare by dot products, so that long vectors win. → By what is a dot "
        "product divided to become a cosine?",
    ),
    wrong(
        _search(of_document=_as_is),
        "documents at their own length | You bring queries to length 1 and leave documents as they "
        "are, so that long ones win. → Which lengths does a cosine not depend on?",
    ),
    wrong(
        _search(of_query=_as_is),
        "queries at their own length | Your order is right, but the scores aren't cosines: they "
        "grow with the query's length. → Which lengths does a cosine not depend on?",
    ),
    wrong(
        _search(of_query=lambda x: x / np.sqrt((x**2).sum(axis=-1, keepdims=True))),
        "a query of zeros | A query of zeros is divided by its length, which is 0. → What cosine "
        "does the text give a vector of zeros?",
    ),
    wrong(
        _search(of_document=lambda x: x / np.sqrt((x**2).sum(axis=-1, keepdims=True))),
        "a document of zeros | A document of zeros is divided by its length, which is 0. → What "
        "cosine does the text give a vector of zeros?",
    ),
    wrong(
        _search(
            of_query=lambda x: x / np.sqrt((x**2).sum(axis=-1, keepdims=True)),
            of_document=lambda x: x / np.sqrt((x**2).sum(axis=-1, keepdims=True)),
        ),
        "vectors of zeros | Vectors of zeros are divided by their length, which is 0. → What "
        "cosine does the text give a vector of zeros?",
    ),
    wrong(
        _search(order=lambda scores: np.argsort(scores, axis=-1, kind="stable")),
        "the farthest first | Your list begins with the farthest document, not the nearest. → In "
        "which direction does `argsort` sort?",
    ),
    wrong(
        _search(order=lambda scores: np.argsort(scores, axis=-1, kind="stable")[:, ::-1]),
        "turned round | You sort upwards and turn the list round, and of equal documents the later "
        "one comes first, then. → What can you sort in the place of the scores, so that nothing "
        "has to be turned?",
    ),
    wrong(
        _search(order=lambda scores: np.argsort(-np.abs(scores), axis=-1, kind="stable")),
        "opposites | You rank by the absolute value, so that the opposite counts as near. → Which "
        "cosine has a vector with its own negative?",
    ),
    wrong(
        _search(by=_distances),
        "ranked by distance | The scores are cosines, but you rank by the distance between the "
        "vectors as they are. → When do distance and cosine give the same order?",
    ),
    wrong(
        _search(order=lambda scores: np.broadcast_to(
            np.argsort(-scores[0], kind="stable"), scores.shape)),
        "one order for all | You rank for the first query and use that order for all. → Along "
        "which axis is there one list for each query?",
    ),
    wrong(
        _search(order=lambda scores: np.sort(_nearest(scores), axis=-1)),
        "in the order of the documents | Your list is in the order of the documents. → Which one "
        "comes first?",
    ),
    wrong(
        _search(by=lambda scores, queries, documents: queries @ documents.T),
        "ranked by dot products | The scores are cosines, but you rank by dot products, so that "
        "long documents come first. → Which of the two is the order to follow?",
    ),
    wrong(
        _search(near=lambda scores, at_least: scores > at_least),
        "above the border | A document whose cosine *is* `at_least` doesn't count with you. → "
        "Which comparison says *at least*?",
    ),
    wrong(
        _search(of_query=_longer(1e-9), of_document=_longer(1e-9)),
        "a little in the length | You add a small number to lengths, or to their product, so that "
        "nothing is divided by 0. All cosines are a little too near 0, and one that is exactly "
        "`at_least` falls below it then. → Which is the only length that must be replaced?",
    ),
    wrong(
        _search(of_query=_longer(1e-6), of_document=_longer(1e-6)),
        "a millionth in the length | You add about a millionth to each length, so that nothing is "
        "divided by 0. The cosines of short vectors have too few right digits then. → Which is the "
        "only length that must be replaced by another?",
    ),
    wrong(
        _search(near=lambda scores, at_least: scores >= max(at_least, 0.0)),
        "never below 0 | You leave out documents whose cosine is below 0, whatever the border. → "
        "What is the border where none is given?",
    ),
    wrong(
        _search(near=lambda scores, at_least: (scores >= at_least) & (scores >= 0.3)),
        "a border of your own | You leave out documents that are near enough by `at_least`: there "
        "is a border of your own, or a default that's been changed. → What is the border where "
        "none is given?",
    ),
    wrong(
        _search(near=lambda scores, at_least: (scores >= at_least).all(-1, keepdims=True)
                & (scores == scores)),
        "all of a list or nothing | Where one document isn't near enough you drop the query's "
        "whole list. → For how many documents is the comparison made?",
    ),
    wrong(
        _search(near=lambda scores, at_least: (scores >= at_least).any(-1, keepdims=True)
                & (scores == scores)),
        "the best decides for all | Where the best document is near enough you return the whole "
        "list, far ones too. → For how many documents is the comparison made?",
    ),
    wrong(
        _search(compare=lambda a, b: a @ b.T, order=_nearest, empty=(None, 0.0)),
        "indices that are left | Where none is near enough your score is 0, and the index of the "
        "document is left. → Which index belongs to no document?",
    ),
    wrong(
        _search(empty=(-1, -np.inf)),
        "score −∞ for none | Where none is near enough your score is −∞. It was useful for the "
        "sorting, perhaps, and has stayed. → Which score does the text give to none?",
    ),
    wrong(
        _marked_by(0.0),
        "a cosine of 0 for none | You make 0 of cosines that aren't near enough, before the "
        "sorting, so that they stand above negative ones, and for documents that have 0 "
        "themselves. → Which number is below all cosines?",
    ),
    wrong(
        _marked_by(-1.0),
        "a cosine of −1 for none | You mark what isn't near enough by −1, and the very opposite "
        "of a query has that cosine itself. → Which number is below all cosines?",
    ),
    wrong(
        _zeros_before,
        "far cosines made 0 | You make 0 of cosines that aren't near enough, before you sort. "
        "Where the border is negative these come before real ones, and count. → Which number is "
        "below all cosines?",
    ),
    wrong(
        _search(of_query=_at_least_one, of_document=_at_least_one),
        "short vectors left short | You divide by a length of at least 1, so that vectors shorter "
        "than 1 stay short. → Which lengths does a cosine not depend on?",
    ),
    wrong(
        _search(near=lambda scores, at_least: scores >= -2),
        "at_least not used | You return documents also where they aren't near enough. → Where "
        "does your function use `at_least`?",
    ),
    wrong(
        _search(near=lambda scores, at_least: scores <= at_least),
        "the far ones kept | You keep what is *not* near enough, and drop the rest. → On "
        "which side of `at_least` is near?",
    ),
    wrong(
        _search(near=lambda scores, at_least: np.abs(scores) >= at_least),
        "absolute values near enough | You compare absolute values with `at_least`, so that the "
        "opposite is near enough. → Which cosine has a vector with its own negative?",
    ),
    wrong(
        _search(empty=(-1, None)),
        "scores that are left | Where none is near enough your index is −1, and the score of the "
        "document is left. → Which score belongs to no document?",
    ),
    wrong(
        _search(empty=(0, 0.0)),
        "index 0 for none | Where none is near enough your index is 0, and that's a document. → "
        "Which index does the text give to none?",
    ),
    wrong(
        _search(empty=(-1, -1.0)),
        "score −1 for none | Where none is near enough your score is −1. → Which score does the "
        "text give to none?",
    ),
    wrong(
        _search(compare=lambda a, b: 1 - a @ b.T),
        "one minus the cosine | Your scores are distances, 1 − cos, and the largest comes first. → "
        "Which of the two grows with likeness?",
    ),
    wrong(
        _search(compare=lambda a, b: (1 + a @ b.T) / 2),
        "between 0 and 1 | Your scores are (1 + cos)/2, which keeps the order and moves the "
        "border. → Between which two numbers lies a cosine?",
    ),
    wrong(
        _search(of_query=lambda x: x / np.maximum(np.sqrt((x**2).sum()), 1e-12)),
        "one length for all queries | You divide all queries by one length, that of the whole "
        "array. → Along which axis are squares added?",
    ),
    wrong(
        _search(of_document=lambda x: x / np.maximum(np.sqrt((x**2).sum()), 1e-12)),
        "one length for all documents | You divide all documents by one length, that of the whole "
        "array. → Along which axis are squares added?",
    ),
    wrong(
        _search(of_query=lambda x: x / np.maximum((x**2).sum(axis=-1, keepdims=True), 1e-12),
                of_document=lambda x: x / np.maximum((x**2).sum(axis=-1, keepdims=True), 1e-12)),
        "no root | You divide by the sum of squares, which is the *square* of a length. → How long "
        "is (3, 4)?",
    ),
    wrong(
        _search(order=lambda scores: np.argsort(-scores, axis=-1)),
        "equal ones as they fall | `np.argsort` may put equal numbers in any order, if it isn't "
        "told otherwise, and `np.argpartition` as well. → Which kind of sort keeps their order?",
    ),
    wrong(
        _search(order=lambda scores: np.argsort(scores, axis=-1)[:, ::-1]),
        "turned round, equal ones as they fall | You sort upwards and turn the list round, and "
        "equal documents come in any order. → What can you sort in the place of the scores, and by "
        "which kind of sort?",
    ),
    wrong(
        _search(order=_down_the_queries),
        "sorted along the wrong axis | You sort down the columns: for each document you rank the "
        "queries. → Which axis of the scores are the documents?",
    ),
    wrong(
        _search(compare=lambda a, b: np.maximum(a @ b.T, 0)),
        "negative cosines cut off | You make 0 of negative cosines, so that the far ones are all "
        "alike. → Between which two numbers lies a cosine?",
    ),
    wrong(
        _search(
            of_query=_as_is,
            of_document=_as_is,
            compare=lambda a, b: -np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=-1)),
        ),
        "distances | You compare by the distance between the vectors as they are, with a minus. → "
        "What does a cosine not depend on?",
    ),
    wrong(
        _search(
            of_document=lambda x: x / np.maximum(np.sqrt((x**2).sum(axis=0, keepdims=True)), 1e-12)
        ),
        "lengths of columns | You add the documents' squares down the first axis. → Which axis "
        "holds the numbers of one document?",
    ),
    wrong(
        _search(
            of_query=lambda x: x / np.maximum(np.sqrt((x**2).sum(axis=0, keepdims=True)), 1e-12),
            of_document=lambda x: x / np.maximum(np.sqrt((x**2).sum(axis=0, keepdims=True)), 1e-12),
        ),
        "lengths of all columns | You add squares down the first axis, for queries and documents. "
        "→ Which axis holds the numbers of one vector?",
    ),
    wrong(
        _search(
            of_query=lambda x: x / np.maximum(np.sqrt((x**2).sum()), 1e-12),
            of_document=lambda x: x / np.maximum(np.sqrt((x**2).sum()), 1e-12),
        ),
        "one length for each array | You divide all queries by one length, and all documents by "
        "one: those of the whole arrays. → Along which axis are squares added?",
    ),
    wrong(
        _first_scores,
        "the first documents' scores | Your indices are right, and the scores are those of the "
        "first documents, in the order of the file. → Which function fetches numbers by indices, "
        "row by row?",
    ),
    wrong(
        _search(returns=lambda indices, scores: (scores, indices)),
        "changed places | Your two parts are right, and have changed places. → Which does "
        "the docstring name first?",
    ),
]  # fmt: skip


def _search_loops(queries: Any, documents: Any, k: int, at_least: float = -np.inf) -> Any:
    indices, scores = [], []
    for query in queries:
        found = []
        for i, document in enumerate(documents):
            size = float(np.sqrt((query @ query) * (document @ document)))
            found.append((-(query @ document) / size if size > 0 else 0.0, i))
        best = [(i, -cosine) if -cosine >= at_least else (-1, 0.0) for cosine, i in sorted(found)]
        indices.append([i for i, _ in best[:k]])
        scores.append([cosine for _, cosine in best[:k]])
    return np.array(indices), np.array(scores)


def _search_one_by_one(queries: Any, documents: Any, k: int, at_least: float = -np.inf) -> Any:
    """Take the best, cross it out, and look again."""
    a = queries / np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-12)
    b = documents / np.maximum(np.linalg.norm(documents, axis=1, keepdims=True), 1e-12)
    cosines = np.einsum("md,nd->mn", a, b)
    rows = np.arange(len(queries))
    indices = np.full((len(queries), k), -1)
    scores = np.zeros((len(queries), k))
    for j in range(k):
        best = cosines.argmax(axis=1)
        good = cosines[rows, best] >= at_least
        indices[good, j], scores[good, j] = best[good], cosines[rows, best][good]
        cosines[rows, best] = -np.inf
    return indices, scores


def _search_before(queries: Any, documents: Any, k: int, at_least: float = -np.inf) -> Any:
    """Mark what isn't near enough by −∞ before the sort."""

    def unit(x: Any) -> Any:
        return x / np.maximum(np.sqrt((x * x).sum(axis=-1))[:, None], 1e-12)

    cosines = unit(queries) @ unit(documents).T
    cosines[cosines < at_least] = -np.inf
    indices = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(cosines, indices, axis=1)
    indices[np.isinf(scores)] = -1
    return indices, np.where(indices < 0, 0.0, scores)


def _search_torch(queries: Any, documents: Any, k: int, at_least: float = -np.inf) -> Any:
    from torch.nn import functional

    cosines = functional.normalize(queries, dim=-1) @ functional.normalize(documents, dim=-1).T
    scores, indices = cosines.sort(dim=-1, descending=True, stable=True)
    far = scores < at_least
    return indices.masked_fill(far, -1)[:, :k], scores.masked_fill(far, 0.0)[:, :k]


SEARCH = Exercise(
    id="15.search",
    function="search",
    reference=search,
    guarded=[library.cosine_search, library.cosine_similarity, library.unit_length],
    cases=_SEARCH_CASES,
    returns=("indices", "scores"),
    misconceptions=_SEARCH_WRONG,
    alternatives=[
        ("loops", _search_loops),
        ("one by one", _search_one_by_one),
        ("marked before the sort", _search_before),
        Alternative(name="torch", right=_search_torch, backend="torch"),
    ],
    hints=[
        "Bring queries and documents to length 1; then one product holds all cosines, a row for "
        "each query. What has no length stays as it is.",
        "Sort the scores *with a minus*, by a kind of sort that leaves equal ones in their order, "
        "and keep the first k columns. `np.take_along_axis` fetches their scores.",
        '`np.argsort(-scores, axis=1, kind="stable")[:, :k]`, then `np.where(best >= at_least, …)` '
        "once for the indices, once for the scores.",
    ],
    points=4,
    minutes=20,
    difficulty=1,
)
