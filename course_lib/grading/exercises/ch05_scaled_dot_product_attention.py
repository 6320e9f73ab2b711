"""The exercises of chapter 05: softmax, attention, their gradients, a temperature, three bugs.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.inputs import as_cell, draw, partial_mask, weights_rows
from course_lib.grading.model import Alternative, Case, Exercise, Misconception
from course_lib.reference import attention as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "biased_attention",
    "biased_attention_broken",
    "read_store",
    "read_store_broken",
    "window_attention",
    "window_attention_broken",
]


# -- what the misconceptions share -----------------------------------------------------------------


def _plain_softmax(s: NDArray, axis: int = -1) -> NDArray:
    """Softmax that is stable but knows nothing of rows that are all −∞."""
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def _softmax_right(s: NDArray, axis: int = -1) -> NDArray:
    """Softmax as it should be; the course's own refuses to work while a student's is checked."""
    return np.nan_to_num(_plain_softmax(s, axis))


def _naive_softmax(s: NDArray, axis: int = -1) -> NDArray:
    """Softmax without the maximum subtracted."""
    with np.errstate(all="ignore"):
        e = np.exp(s)
        return e / e.sum(axis=axis, keepdims=True)


def _scores(q: NDArray, k: NDArray) -> NDArray:
    return q @ k.swapaxes(-2, -1) / sqrt(q.shape[-1])


def _hide(scores: NDArray, mask: NDArray | None, fill: float = -np.inf) -> NDArray:
    return scores if mask is None else np.where(mask, scores, fill)


# -- 05.softmax ------------------------------------------------------------------------------------


def _softmax_rows(n_rows: int, n: int) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {"x": draw(np.random.default_rng([seed, n_rows, n]), n_rows, n)}


def _softmax_other_axis(seed: int) -> dict[str, Any]:
    return {"x": draw(np.random.default_rng([seed, 3]), 2, 3, 4), "axis": 1}


def _softmax_hidden(seed: int) -> dict[str, Any]:
    x = draw(np.random.default_rng([seed, 6]), 2, 4)
    x[0, 1] = x[1, 0] = x[1, 3] = -np.inf
    return {"x": x}


_SOFTMAX_CASES = [
    Case(
        name="one row of three scores",
        inputs={"x": np.array([1.0, 0.0, 2.0])},
        shows="weights that sum to 1",
    ),
    Case(
        name="3 rows of 5 scores",
        inputs=_softmax_rows(3, 5),
        shows="every row is divided by its own sum",
    ),
    Case(
        name="4 rows of 4 scores",
        inputs=_softmax_rows(4, 4),
        shows="rows sum to 1, columns don't",
    ),
    Case(
        name="axis = 1 of shape (2, 3, 4)",
        inputs=_softmax_other_axis,
        shows="the sum runs along the axis asked for",
    ),
    Case(
        name="scores in the thousands",
        inputs={"x": np.array([[2000.0, 1999.0, 0.0], [-3000.0, -3001.0, -2999.0]])},
        shows="no overflow, and no 0/0",
    ),
    Case(name="−∞ among the scores", inputs=_softmax_hidden, shows="its weight is 0"),
    Case(
        name="a row of nothing but −∞",
        inputs={"x": np.array([[-np.inf, -np.inf, -np.inf], [0.0, -np.inf, 1.0]])},
        shows="all weights of that row are 0",
    ),
]


def _softmax_axis_0(x: NDArray, axis: int = -1) -> NDArray:
    return _softmax_right(x, 0)


def _softmax_axis_last(x: NDArray, axis: int = -1) -> NDArray:
    return _softmax_right(x, -1)


def _softmax_no_shift(x: NDArray, axis: int = -1) -> NDArray:
    return _naive_softmax(x, axis)


def _softmax_global_shift(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max())
        return e / e.sum(axis=axis, keepdims=True)


def _softmax_mean_shift(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.mean(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def _softmax_min_shift(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.min(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def _softmax_swept(x: NDArray, axis: int = -1) -> NDArray:
    return np.nan_to_num(_naive_softmax(x, axis))


def _softmax_sigmoid(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def _softmax_clipped(x: NDArray, axis: int = -1) -> NDArray:
    return _naive_softmax(np.clip(x, -500.0, 500.0), axis)


def _softmax_shift_last(x: NDArray, axis: int = -1) -> NDArray:
    """Take the maximum along the last axis, the sum along the one asked for."""
    peak = x.max(axis=-1, keepdims=True)
    e = np.exp(x - np.where(peak == -np.inf, 0.0, peak))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0.0, 1.0, total)


def _softmax_large_negative(x: NDArray, axis: int = -1) -> NDArray:
    return _plain_softmax(np.where(x == -np.inf, -1e9, x), axis)


def _softmax_global_sum(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        peak = x.max(axis=axis, keepdims=True)
        e = np.exp(x - np.where(peak == -np.inf, 0.0, peak))
        return e / e.sum()


def _softmax_first_attempt(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        return np.exp(x) / np.exp(x).sum()


def _softmax_no_division(x: NDArray, axis: int = -1) -> NDArray:
    peak = x.max(axis=axis, keepdims=True)
    return np.exp(x - np.where(peak == -np.inf, 0.0, peak))


def _softmax_no_exponential(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        return x / x.sum(axis=axis, keepdims=True)


def _softmax_log(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        return np.log(_plain_softmax(x, axis))


def _softmax_twice(x: NDArray, axis: int = -1) -> NDArray:
    return _softmax_right(_softmax_right(x, axis), axis)


def _softmax_no_keepdims(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis)


def _softmax_flat_maximum(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=axis))
        return e / e.sum(axis=axis, keepdims=True)


def _softmax_flat_both(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=axis))
        return e / e.sum(axis=axis)


def _softmax_flat_sum_unshifted(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        return np.exp(x) / np.exp(x).sum(axis=axis)


def _softmax_in_place(x: NDArray, axis: int = -1) -> NDArray:
    answer = _softmax_right(x, axis)
    x[...] = answer
    return answer


_SOFTMAX_WRONG = [
    Misconception(
        name="over the first axis",
        wrong=_softmax_axis_0,
        hint="Your weights sum to 1 down the columns, whatever `axis` says. With one row nobody "
        "can tell. → Which axis does your sum run along, and where does `axis` come in?",
    ),
    Misconception(
        name="always over the last axis",
        wrong=_softmax_axis_last,
        hint="Right along the last axis, but the argument `axis` makes no difference to your "
        "function. → Where in your code are sums and maxima taken, and along what?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_softmax_no_shift,
        hint="e to the power of a large score is beyond what a float can hold, and of a very "
        "negative one it is 0 for the whole row. The formula is right; the numbers on the way "
        "aren't. → Which number may be taken from all scores of a row without changing the "
        "weights?",
    ),
    Misconception(
        name="one maximum for all rows",
        wrong=_softmax_global_shift,
        hint="You shift all rows by the same number, the largest of the whole array. A row that "
        "lies far below it becomes all zeros. → Whose maximum does each row need?",
    ),
    Misconception(
        name="the mean subtracted",
        wrong=_softmax_mean_shift,
        hint="Taking the mean away leaves the weights right on paper, but the largest score can "
        "still lie far above the mean. → After which shift is no exponent above 0?",
    ),
    Misconception(
        name="the minimum subtracted",
        wrong=_softmax_min_shift,
        hint="Taking the minimum away makes every exponent positive: a row that spans 1000 still "
        "overflows, and a minimum of −∞ makes everything infinite. → After which shift is no "
        "exponent above 0?",
    ),
    Misconception(
        name="NaN swept away after an overflow",
        wrong=_softmax_swept,
        hint="Where scores are large, your exponentials overflow and give NaN; replacing it by 0 "
        "takes the weight from the very scores that should have most. → What has to happen before "
        "the exponential so that there's no NaN to replace?",
    ),
    Misconception(
        name="a sigmoid",
        wrong=_softmax_sigmoid,
        hint="Each of your weights depends on its own score alone, so they don't share out one "
        "whole. → By what is e to the power of a score divided in softmax?",
    ),
    Misconception(
        name="scores clipped",
        wrong=_softmax_clipped,
        hint="You cut large scores down to a limit: scores above it become equal, and so do their "
        "weights. → Which change leaves all differences between scores as they are?",
    ),
    Misconception(
        name="maximum and sum along different axes",
        wrong=_softmax_shift_last,
        hint="Right along the last axis. Along another, what you subtract differs between the "
        "scores that are weighed against each other, so it doesn't cancel. → In which two places "
        "does softmax use an axis?",
    ),
    Misconception(
        name="NaN where all is −∞",
        wrong=_plain_softmax,
        hint="All right but the row in which every score is −∞: the maximum is −∞ too, and "
        "−∞ − (−∞) is NaN. → What does the docstring promise for such a row, and which two "
        "numbers, shift and sum, have to be kept from doing harm there?",
    ),
    Misconception(
        name="−1e9 in place of −∞",
        wrong=_softmax_large_negative,
        hint="A row of nothing but −∞ got equal weights. That happens when −∞ is replaced by a "
        "large negative number: all scores are then equal again. → What does the docstring "
        "promise for such a row?",
    ),
    Misconception(
        name="divided by the sum of everything",
        wrong=_softmax_global_sum,
        hint="All your weights together sum to 1, where each row should by itself. → What does "
        "`sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="divided by the sum of everything, no maximum subtracted",
        wrong=_softmax_first_attempt,
        hint="All your weights together sum to 1, where each row should by itself. Large scores "
        "are another matter, and can wait. → What does `sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="not divided",
        wrong=_softmax_no_division,
        hint="The largest weight of each row is exactly 1, and the rows sum to more than that. "
        "→ What makes exponentials into shares of a whole?",
    ),
    Misconception(
        name="no exponential",
        wrong=_softmax_no_exponential,
        hint="You divide the scores themselves by their sum. A score of 0 or below then gets no "
        "weight or a negative one. → Which function makes every score positive and keeps the "
        "order?",
    ),
    Misconception(
        name="the logarithm",
        wrong=_softmax_log,
        hint="These are the logarithms of the weights: none is above 0. → Which step of "
        "log-softmax is one too many here?",
    ),
    Misconception(
        name="applied twice",
        wrong=_softmax_twice,
        hint="These weights are what softmax makes of weights: much too even. → How often is "
        "softmax applied on the way to your result?",
    ),
    Misconception(
        name="the sum has lost its axis",
        wrong=_softmax_no_keepdims,
        hint="The sums of the rows came out as a flat array, and broadcasting set them against the "
        "columns: an error for most shapes, wrong numbers for a square one. → Which argument of "
        "`sum` keeps the summed axis, with length 1?",
    ),
    Misconception(
        name="the maximum has lost its axis",
        wrong=_softmax_flat_maximum,
        hint="The maxima of the rows came out as a flat array, and broadcasting set them against "
        "the columns: an error for most shapes, wrong numbers for a square one. → Which argument "
        "of `max` keeps its axis, with length 1?",
    ),
    Misconception(
        name="maximum and sum have lost their axis",
        wrong=_softmax_flat_both,
        hint="Maxima and sums of the rows came out as flat arrays, and broadcasting set them "
        "against the columns: an error for most shapes, wrong numbers for a square one. → Which "
        "argument of `max` and `sum` keeps their axis, with length 1?",
    ),
    Misconception(
        name="the sum has lost its axis, no maximum subtracted",
        wrong=_softmax_flat_sum_unshifted,
        hint="The sums of the rows came out as a flat array, and broadcasting set them against the "
        "columns: an error for most shapes, wrong numbers for a square one. Large scores are "
        "another matter, and can wait. → Which argument of `sum` keeps its axis, with length 1?",
    ),
    Misconception(
        name="the scores are overwritten",
        wrong=_softmax_in_place,
        hint="The weights are right, but the caller's scores are gone: your function writes its "
        "result into its argument. → Which line (perhaps with `-=`, `/=` or `out=`) changes `x` "
        "itself?",
    ),
]


def _softmax_by_log_sum(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        peak = np.nan_to_num(x.max(axis=axis, keepdims=True), neginf=0.0)
        total = np.log(np.exp(x - peak).sum(axis=axis, keepdims=True)) + peak
        return np.exp(x - np.where(np.isfinite(total), total, 0.0))


def _softmax_by_loops(x: NDArray, axis: int = -1) -> NDArray:
    rows = np.moveaxis(x, axis, -1)
    out = np.zeros(rows.shape)
    for place in np.ndindex(rows.shape[:-1]):
        row = rows[place]
        if np.all(row == -np.inf):
            continue
        total = 0.0
        for score in row:
            total += exp(score - row.max())
        for i, score in enumerate(row):
            out[(*place, i)] = exp(score - row.max()) / total
    return np.moveaxis(out, -1, axis)


def _softmax_by_pairs(x: NDArray, axis: int = -1) -> NDArray:
    """Divide 1 by the sum of all e^(s_j − s_i): where one is ∞, the weight is 0."""
    rows = np.moveaxis(x, axis, -1)
    with np.errstate(all="ignore"):
        against = np.exp(rows[..., None, :] - rows[..., :, None])
        weights = 1.0 / against.sum(axis=-1)
    return np.moveaxis(np.where(rows == -np.inf, 0.0, weights), -1, axis)


def _softmax_in_double(x: NDArray, axis: int = -1) -> NDArray:
    return _softmax_right(np.asarray(x, np.float64), axis).astype(x.dtype)


def _softmax_torch(x: Any, axis: int = -1) -> Any:
    import torch

    return torch.nan_to_num(torch.softmax(x, dim=axis))


_SOFTMAX = Exercise(
    id="05.softmax",
    function="softmax",
    reference=ref.softmax,
    cases=_SOFTMAX_CASES,
    returns=("weights",),
    misconceptions=_SOFTMAX_WRONG,
    alternatives=[
        Alternative(name="exponential of the score minus log-sum-exp", right=_softmax_by_log_sum),
        Alternative(name="loops", right=_softmax_by_loops),
        Alternative(name="sum over pairs", right=_softmax_by_pairs),
        Alternative(name="float64, NaN replaced", right=_softmax_in_double),
        Alternative(name="torch", right=_softmax_torch, backend="torch"),
    ],
    hints=[
        "Begin with the formula as it stands: exponentials, divided by their sum along `axis`. "
        "`keepdims=True` lets the sum be divided by. The first four cases pass with that.",
        "Subtracting a number from all scores of a row changes no weight. Subtract the row's "
        "maximum: no exponent is above 0 then, and one is exactly 0, so the sum is at least 1.",
        "Only a row of nothing but −∞ is left. There the maximum must not be subtracted (take 0 "
        "in its place) and the sum must not be divided by (take 1): `np.where` does both.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 05.attention ----------------------------------------------------------------------------------

_WORKED = {
    "q": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    "k": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    "v": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
}


def _qkv(
    seed: list[int], lead: tuple[int, ...], n_q: int, n_k: int, d_k: int, d_v: int
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "q": draw(rng, *lead, n_q, d_k),
        "k": draw(rng, *lead, n_k, d_k),
        "v": draw(rng, *lead, n_k, d_v),
    }


def _attention_one_key(seed: int) -> dict[str, Any]:
    return _qkv([seed, 1], (), 3, 1, 2, 4)


def _attention_equal(seed: int) -> dict[str, Any]:
    given = _qkv([seed, 2], (), 2, 4, 3, 5)
    given["q"] = np.zeros_like(given["q"])
    return given


def _attention_sizes(seed: int) -> dict[str, Any]:
    return _qkv([seed, 4], (), 3, 5, 4, 2)


def _attention_masked(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 5])
    return {**_qkv([seed, 5], (), 4, 5, 3, 2), "mask": partial_mask(rng, 4, 5)}


def _attention_nothing(seed: int) -> dict[str, Any]:
    mask = np.array([[True, True, False, True], [False] * 4, [False, True, True, True]])
    return {**_qkv([seed, 6], (), 3, 4, 2, 5), "mask": mask}


def _attention_batch(seed: int) -> dict[str, Any]:
    """Draw a batch of 2 with 3 heads; the shorter sequence's last two keys are padding."""
    length = np.array([6, 4])
    mask = np.arange(6) < length[:, None, None, None]  # (2, 1, 1, 6)
    return {**_qkv([seed, 7], (2, 3), 4, 6, 5, 7), "mask": mask}


def _attention_large(seed: int) -> dict[str, Any]:
    given = _qkv([seed, 8], (), 2, 3, 4, 2)
    return {**given, "q": 100 * given["q"] - 50.0, "k": 10 * given["k"] + 50.0}


_ATTENTION_CASES = [
    Case(name="one key", inputs=_attention_one_key, shows="the output is its value"),
    Case(
        name="equal scores", inputs=_attention_equal, shows="the output is the mean of the values"
    ),
    Case(
        name="the chapter's example",
        inputs=_WORKED,
        shows="the first output is (3, 4)",
    ),
    Case(
        name="3 queries, 5 keys, d_k = 4, d_v = 2",
        inputs=_attention_sizes,
        shows="the scale and every axis count",
    ),
    Case(name="some keys hidden", inputs=_attention_masked, shows="the others share the whole"),
    Case(
        name="a query that may look at nothing",
        inputs=_attention_nothing,
        shows="its weights and its output are 0",
    ),
    Case(
        name="a batch of 2 with 3 heads and padding",
        inputs=_attention_batch,
        shows="axes in front are carried along",
    ),
    Case(name="scores in the thousands", inputs=_attention_large, shows="no overflow"),
]

_Attended = tuple[Any, Any]


def _attend_with(
    scaled: Callable[[NDArray, NDArray], NDArray],
) -> Callable[..., _Attended]:
    """Attention with another way from queries and keys to scores."""

    def attend(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
        weights = ref.softmax(_hide(scaled(q, k), mask))
        return weights @ v, weights

    return attend


def _attend_scale_front(q: NDArray, k: NDArray) -> NDArray:
    return q @ k.swapaxes(-2, -1) / sqrt(q.shape[1])


def _attend_over_queries(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    weights = ref.softmax(_hide(_scores(q, k), mask), -2)
    return weights @ v, weights


def _attend_axis_1(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = ref.softmax(_hide(_scores(q, k), mask), 1)
    return weights @ v, weights


def _attend_hides_all(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    """Give np.where a mask that is None: it counts as False."""
    weights = ref.softmax(np.where(np.array(mask, bool), _scores(q, k), -np.inf))
    return weights @ v, weights


def _attend_indexed(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    """Index the scores with the mask, which must have their shape then."""
    scores = _scores(q, k)
    if mask is not None:
        scores[~mask] = -np.inf
    weights = ref.softmax(scores)
    return weights @ v, weights


def _attend_turned(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    output, weights = _attention_einsum(q, k, v, mask)
    return weights, output


def _attend_inverted(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = ref.softmax(_hide(_scores(q, k), None if mask is None else ~mask))
    return weights @ v, weights


def _attend_mask_late(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = ref.softmax(_scores(q, k))
    weights = weights if mask is None else weights * mask
    return weights @ v, weights


def _attend_no_mask(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = ref.softmax(_scores(q, k))
    return weights @ v, weights


def _attend_mask_added(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    weights = ref.softmax(_scores(q, k) + (0.0 if mask is None else mask))
    return weights @ v, weights


def _attend_fill(fill: float) -> Callable[..., _Attended]:
    def attend(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
        weights = ref.softmax(_hide(_scores(q, k), mask, fill))
        return weights @ v, weights

    return attend


def _attend_nan(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = _plain_softmax(_hide(_scores(q, k), mask))
    return weights @ v, weights


def _attend_naive(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = _naive_softmax(_hide(_scores(q, k), mask))
    if mask is not None:
        weights = np.where(mask.any(axis=-1, keepdims=True), weights, 0.0)
    return weights @ v, weights


def _attend_scale_late(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    weights = ref.softmax(_hide(q @ k.swapaxes(-2, -1), mask)) / sqrt(q.shape[-1])
    return weights @ v, weights


def _attend_full_transpose(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    weights = ref.softmax(_hide(q @ k.T / sqrt(q.shape[-1]), mask))
    return weights @ v, weights


def _attend_returns_scores(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    scores = _hide(_scores(q, k), mask)
    return ref.softmax(scores) @ v, scores


def _attend_mixes_keys(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    weights = ref.softmax(_hide(_scores(q, k), mask))
    return weights @ k, weights


def _attend_in_place(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    q /= sqrt(q.shape[-1])
    weights = ref.softmax(_hide(q @ k.swapaxes(-2, -1), mask))
    return weights @ v, weights


_ATTENTION_WRONG = [
    Misconception(
        name="no scaling",
        wrong=_attend_with(lambda q, k: q @ k.swapaxes(-2, -1)),
        hint="Your weights are sharper than they should be, and by more the larger d_k is. → What "
        "was done to the scores before the softmax so that their spread doesn't grow with d_k?",
    ),
    Misconception(
        name="divided by d_k",
        wrong=_attend_with(lambda q, k: q @ k.swapaxes(-2, -1) / q.shape[-1]),
        hint="Your weights are more even than they should be: the scores were divided by too much. "
        "→ The variance of a dot product is d_k. What is its standard deviation?",
    ),
    Misconception(
        name="multiplied by √d_k",
        wrong=_attend_with(lambda q, k: q @ k.swapaxes(-2, -1) * sqrt(q.shape[-1])),
        hint="Your weights are far too sharp: the scores grew where they should have shrunk. "
        "→ Does the root of d_k multiply or divide?",
    ),
    Misconception(
        name="scaled by the number of keys",
        wrong=_attend_with(lambda q, k: q @ k.swapaxes(-2, -1) / sqrt(k.shape[-2])),
        hint="The scores are divided by the root of a length, that of the keys' axis. → How many "
        "products are added up in one score? Which axis of q has that size?",
    ),
    Misconception(
        name="scaled by the width of the values",
        wrong=lambda q, k, v, mask=None: _attend_with(
            lambda q, k: q @ k.swapaxes(-2, -1) / sqrt(v.shape[-1])
        )(q, k, v, mask),
        hint="The scores are divided by the root of d_v, the width of the values, which have no "
        "part in them. → How many products are added up in one score?",
    ),
    Misconception(
        name="the scale counted from the front",
        wrong=_attend_with(_attend_scale_front),
        hint="All right for one sequence, but with batch axes the scale is taken from another "
        "axis than the width. → Where does d_k stand if there may be any number of axes in front?",
    ),
    Misconception(
        name="softmax over the queries",
        wrong=_attend_over_queries,
        hint="Your columns of weights sum to 1, where each row should: the queries compete for a "
        "key. → Each query shares out one whole among the keys. Which axis is that?",
    ),
    Misconception(
        name="softmax over axis 1",
        wrong=_attend_axis_1,
        hint="All right for one sequence. With batch axes, axis 1 is another one than the keys'. "
        "→ Which number names the last axis however many there are?",
    ),
    Misconception(
        name="no mask hides everything",
        wrong=_attend_hides_all,
        hint="Without a mask your weights are all 0: every key is hidden. `np.where` takes None "
        "for False. → What should happen to the scores when `mask is None`?",
    ),
    Misconception(
        name="a mask that isn't broadcast",
        wrong=_attend_indexed,
        hint="`scores[~mask] = …` needs a mask of the shape of the scores. One of shape "
        "(2, 1, 1, n_k), which serves all heads and queries, doesn't fit. → Which function of "
        "numpy chooses between two values by a condition, and broadcasts?",
    ),
    Misconception(
        name="output and weights in the other order",
        wrong=_attend_turned,
        hint="Both results are right, but they come in the other order. → What does the docstring "
        "list first under Returns?",
    ),
    Misconception(
        name="mask inverted",
        wrong=_attend_inverted,
        hint="`nn.MultiheadAttention` reads a mask that way round; this exercise uses True for "
        "“may look”, so you hide what should be seen. → In which entries does your code write −∞?",
        valid_variant=True,
    ),
    Misconception(
        name="mask applied after the softmax",
        wrong=_attend_mask_late,
        hint="The hidden keys have weight 0, but the others no longer sum to 1: they were given "
        "their shares while the hidden ones still took theirs. → At which point must a key be "
        "hidden so that the softmax never counts it?",
    ),
    Misconception(
        name="mask ignored",
        wrong=_attend_no_mask,
        hint="Your weights are the same with and without a mask. → Where does `mask` come in, and "
        "is the result of that step used?",
    ),
    Misconception(
        name="mask added to the scores",
        wrong=_attend_mask_added,
        hint="Adding the mask raises the visible scores by 1 and hides nothing: in arithmetic True "
        "is 1 and False is 0. → What must a score be for its exponential to vanish?",
    ),
    Misconception(
        name="hidden scores set to 0 (or to −1e-9)",
        wrong=_attend_fill(0.0),
        hint="Hidden keys still get weight, since e to the power of 0 is 1. A tiny number such as "
        "−1e-9 (for −1e9) does the same. → Which score has an exponential of 0?",
    ),
    Misconception(
        name="NaN for a query that may look at nothing",
        wrong=_attend_nan,
        hint="All right but the query from which every key is hidden: nothing is left to share "
        "out, and 0/0 is NaN. → What does the docstring promise for it, and which sum is 0 there?",
    ),
    Misconception(
        name="hidden scores set to −1e9",
        wrong=_attend_fill(-1e9),
        hint="A query that may look at nothing reads all keys evenly: −1e9 is the same for all of "
        "them, so none is further down than another. → Which number is below every score, and "
        "what does softmax make of a row of it?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_attend_naive,
        hint="Large scores overflow on the way through the exponential. → What does a stable "
        "softmax take from each row first?",
    ),
    Misconception(
        name="scaled after the softmax",
        wrong=_attend_scale_late,
        hint="The weights of a query sum to less than 1, and to less the larger d_k is: you "
        "divided the weights. → What is it whose spread should not grow with d_k?",
    ),
    Misconception(
        name="k.T turns all axes round",
        wrong=_attend_full_transpose,
        hint="For one sequence that's right. With batch axes `.T` reverses the order of all axes, "
        "the batch included. → Which two axes change places, counted from the end?",
    ),
    Misconception(
        name="scores returned for weights",
        wrong=_attend_returns_scores,
        hint="The output is right, but what you return beside it are the scores from before the "
        "softmax. → Which of your variables has rows that sum to 1?",
    ),
    Misconception(
        name="the keys are mixed, not the values",
        wrong=_attend_mixes_keys,
        hint="The weights are right, but they were used to mix the keys: your output has d_k "
        "columns. → What does a key's token hand over?",
    ),
    Misconception(
        name="the queries are scaled in place",
        wrong=_attend_in_place,
        hint="The numbers are right, but afterwards the caller's queries are smaller than before: "
        "`q /= …` changes the array that was passed in. → How do you write it so that a new array "
        "comes out?",
    ),
]


def _attention_einsum(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    scores = np.einsum("...id,...jd->...ij", q, k) * q.shape[-1] ** -0.5
    weights = np.nan_to_num(_plain_softmax(_hide(scores, mask)))
    return np.einsum("...ij,...jd->...id", weights, v), weights


def _attention_loops(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    weights = np.zeros((*q.shape[:-1], k.shape[-2]))
    output = np.zeros((*q.shape[:-1], v.shape[-1]))
    may = np.ones(weights.shape, bool) if mask is None else np.broadcast_to(mask, weights.shape)
    for place in np.ndindex(q.shape[:-1]):
        lead = place[:-1]
        seen = [j for j in range(k.shape[-2]) if may[(*place, j)]]
        scores = [float(np.dot(q[place], k[(*lead, j)])) / sqrt(q.shape[-1]) for j in seen]
        exps = [exp(s - max(scores)) for s in scores]
        for j, e in zip(seen, exps, strict=True):
            weights[(*place, j)] = e / sum(exps)
            output[place] += e / sum(exps) * v[(*lead, j)]
    return output, weights


def _attention_scaled_first(
    q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None
) -> _Attended:
    """Scale the queries, mask the exponentials, divide last."""
    scores = (q / sqrt(q.shape[-1])) @ k.swapaxes(-2, -1)
    scores = _hide(scores, mask)
    peak = scores.max(axis=-1, keepdims=True)
    exps = np.exp(scores - np.where(np.isfinite(peak), peak, 0.0))
    total = exps.sum(axis=-1, keepdims=True)
    total[total == 0.0] = 1.0
    return (exps @ v) / total, exps / total


def _attention_single(q: NDArray, k: NDArray, v: NDArray, mask: NDArray | None = None) -> _Attended:
    """Compute in single precision whatever came in, and return that."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    weights = ref.softmax(_hide(_scores(q, k), mask))
    return weights @ v, weights


def _attention_torch(q: Any, k: Any, v: Any, mask: Any = None) -> _Attended:
    import torch

    scores = q @ k.transpose(-2, -1) / sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)
    return weights @ v, weights


_ATTENTION = Exercise(
    id="05.attention",
    function="attention",
    reference=ref.scaled_dot_product_attention,
    cases=_ATTENTION_CASES,
    returns=("output", "weights"),
    misconceptions=_ATTENTION_WRONG,
    alternatives=[
        Alternative(name="einsum", right=_attention_einsum),
        Alternative(name="loops", right=_attention_loops),
        Alternative(name="queries scaled first, division last", right=_attention_scaled_first),
        Alternative(name="single precision", right=_attention_single),
        Alternative(name="torch", right=_attention_torch, backend="torch"),
    ],
    hints=[
        "Three lines carry it: scores, weights, output. Write down the shape of each, "
        "(…, n_q, n_k), (…, n_q, n_k), (…, n_q, d_v), and use your `softmax`.",
        "Only the last two axes of k change places: `k.swapaxes(-2, -1)`. The width that the "
        "scores are scaled by is the size of the last axis of q.",
        "The mask acts on the scores: `np.where(mask, scores, -np.inf)`. A softmax that gives 0 "
        "for a row of −∞ does the rest, also for a query that may look at nothing.",
    ],
    points=4,
    minutes=20,
    difficulty=1,
)


# -- 05.softmax_backward ---------------------------------------------------------------------------


def _back_rows(*shape: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, *shape])
        return {"weights": weights_rows(rng, *shape), "d_weights": draw(rng, *shape)}

    return build


def _back_hidden(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 5])
    weights = np.array([[0.5, 0.0, 0.3, 0.2], [0.0, 0.0, 0.0, 0.0], [0.0, 0.9, 0.1, 0.0]])
    return {"weights": weights, "d_weights": draw(rng, 3, 4)}


_BACK_CASES = [
    Case(
        name="two equal weights",
        inputs={"weights": np.array([0.5, 0.5]), "d_weights": np.array([1.0, 0.0])},
        shows="one score goes up by what the other goes down",
    ),
    Case(
        name="the same gradient for every weight",
        inputs={"weights": np.array([0.2, 0.5, 0.3]), "d_weights": np.array([2.0, 2.0, 2.0])},
        shows="nothing to gain: all 0",
    ),
    Case(
        name="one weight is 1",
        inputs={"weights": np.array([0.0, 1.0, 0.0]), "d_weights": np.array([3.0, -1.0, 2.0])},
        shows="a locked softmax passes nothing on",
    ),
    Case(name="3 rows of 5", inputs=_back_rows(3, 5), shows="each row by itself"),
    Case(name="4 rows of 4", inputs=_back_rows(4, 4), shows="sums along rows, not columns"),
    Case(
        name="weights of 0",
        inputs=_back_hidden,
        shows="hidden keys get no gradient, and a row of zeros gives zeros",
    ),
    Case(
        name="a batch of shape (2, 3, 4)",
        inputs=_back_rows(2, 3, 4),
        shows="axes in front are carried along",
    ),
]


def _back_diagonal(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (1 - weights) * d_weights


def _back_off_diagonal(weights: NDArray, d_weights: NDArray) -> NDArray:
    return -weights * (weights * d_weights).sum(axis=-1, keepdims=True)


def _back_only_p(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * d_weights


def _back_one_jacobian(weights: NDArray, d_weights: NDArray) -> NDArray:
    return (np.diag(weights) - np.outer(weights, weights)) @ d_weights


def _back_axis_0(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights - (weights * d_weights).sum(axis=0, keepdims=True))


def _back_all_axes(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights - (weights * d_weights).sum())


def _back_unweighted(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights - d_weights.sum(axis=-1, keepdims=True))


def _back_plain_mean(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights - d_weights.mean(axis=-1, keepdims=True))


def _back_mean_of_products(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights - (weights * d_weights).mean(axis=-1, keepdims=True))


def _back_no_factor(weights: NDArray, d_weights: NDArray) -> NDArray:
    return d_weights - (weights * d_weights).sum(axis=-1, keepdims=True)


def _back_sign(weights: NDArray, d_weights: NDArray) -> NDArray:
    return -_back_multiplied_out(weights, d_weights)


def _back_added(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights + (weights * d_weights).sum(axis=-1, keepdims=True))


def _back_cross_entropy(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights - d_weights


def _back_swapped(weights: NDArray, d_weights: NDArray) -> NDArray:
    return d_weights * (weights - (weights * d_weights).sum(axis=-1, keepdims=True))


def _back_softmax_again(weights: NDArray, d_weights: NDArray) -> NDArray:
    return _back_multiplied_out(ref.softmax(weights), d_weights)


def _back_no_keepdims(weights: NDArray, d_weights: NDArray) -> NDArray:
    return weights * (d_weights - (weights * d_weights).sum(axis=-1))


def _back_in_place(weights: NDArray, d_weights: NDArray) -> NDArray:
    answer = _back_multiplied_out(weights, d_weights)
    d_weights[...] = answer
    return answer


_BACK_WRONG = [
    Misconception(
        name="only the diagonal",
        wrong=_back_diagonal,
        hint="You have p(1 − p), which says how a weight answers to its own score. But raising one "
        "score lowers all other weights as well. → Which terms does the sum over i hold for i ≠ j?",
    ),
    Misconception(
        name="only the part −p pᵀ",
        wrong=_back_off_diagonal,
        hint="The sum is there, and the term with δ is missing: a score's effect on its own "
        "weight. → What does δ contribute to the sum over i?",
    ),
    Misconception(
        name="only weights times gradient",
        wrong=_back_only_p,
        hint="You multiply by the weights and stop there. The rows of a gradient of scores sum to "
        "0, since a shift of all scores changes nothing; yours don't. → What has to be subtracted "
        "inside the brackets?",
    ),
    Misconception(
        name="the sum runs down the columns",
        wrong=_back_axis_0,
        hint="With one row all is well, with several their sums get mixed: yours run along the "
        "first axis. → Along which axis did softmax normalise?",
    ),
    Misconception(
        name="the sum runs over everything",
        wrong=_back_all_axes,
        hint="With one row all is well, with several one sum is taken from all of them. → What "
        "does `sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="an unweighted sum",
        wrong=_back_unweighted,
        hint="You subtract the plain sum of the gradients. Where they are all the same, nothing "
        "should be left, and your result isn't 0. → By what is each gradient weighted in the sum?",
    ),
    Misconception(
        name="an unweighted mean",
        wrong=_back_plain_mean,
        hint="You subtract the plain mean of the gradients: right only where all weights are "
        "equal. → In which mean does a large weight count for more?",
    ),
    Misconception(
        name="a mean of products",
        wrong=_back_mean_of_products,
        hint="You average the products p·dp over the row. The weights are shares of 1 already, so "
        "their sum of products is the mean. → By what did `mean` divide?",
    ),
    Misconception(
        name="the outer factor left out",
        wrong=_back_no_factor,
        hint="The brackets are right, but what stands in front of them is missing: a weight of 0 "
        "must get no gradient. → By what is the difference multiplied?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_back_sign,
        hint="Your result is the right one with its sign turned round. → Which of the two terms in "
        "the brackets is subtracted from which?",
    ),
    Misconception(
        name="the mean added",
        wrong=_back_added,
        hint="The right two terms, but added: the rows of your result don't sum to 0. → When all "
        "scores but one are raised, does that one's weight rise or fall?",
    ),
    Misconception(
        name="the gradient of cross-entropy",
        wrong=_back_cross_entropy,
        hint="Weights minus something is the gradient of softmax and cross-entropy together, p − "
        "y. Here the gradient that comes in can be any. → Which derivative has p − y swallowed "
        "that you have to leave out?",
    ),
    Misconception(
        name="weights and gradient swapped",
        wrong=_back_swapped,
        hint="The form is right, but weights and gradient have changed places: your result is a "
        "multiple of `d_weights`. → Which of the two arguments stands outside the brackets?",
    ),
    Misconception(
        name="softmax taken again",
        wrong=_back_softmax_again,
        hint="You take softmax of the argument first, but `weights` are what softmax returned "
        "already. → What do the rows of `weights` sum to?",
    ),
    Misconception(
        name="the Jacobian of one row",
        wrong=_back_one_jacobian,
        hint="Right for one row of weights. `np.diag` and `np.outer` know nothing of rows, so more "
        "of them don't fit. → What does the product with the table come to, in p and dp alone, so "
        "that no table is needed?",
    ),
    Misconception(
        name="the sum has lost its axis",
        wrong=_back_no_keepdims,
        hint="The sums of the rows came out as a flat array, and broadcasting set them against the "
        "columns: an error for most shapes, wrong numbers for a square one. → Which argument of "
        "`sum` keeps the summed axis, with length 1?",
    ),
    Misconception(
        name="the gradient is overwritten",
        wrong=_back_in_place,
        hint="The numbers are right, but the caller's `d_weights` is gone: your function writes "
        "its result into its argument. → Which line (perhaps with `-=` or `*=`) changes it?",
    ),
]


def _back_by_jacobian(weights: NDArray, d_weights: NDArray) -> NDArray:
    n = weights.shape[-1]
    jacobian = weights[..., :, None] * (np.eye(n) - weights[..., None, :])
    return np.einsum("...ij,...i->...j", jacobian, d_weights)


def _back_by_loops(weights: NDArray, d_weights: NDArray) -> NDArray:
    out = np.zeros_like(weights)
    for place in np.ndindex(weights.shape[:-1]):
        p, dp = weights[place], d_weights[place]
        for j in range(len(p)):
            for i in range(len(p)):
                out[(*place, j)] += dp[i] * p[i] * ((i == j) - p[j])
    return out


def _back_multiplied_out(weights: NDArray, d_weights: NDArray) -> NDArray:
    product = weights * d_weights
    return product - weights * product.sum(-1)[..., None]


def _back_torch(weights: Any, d_weights: Any) -> Any:
    import torch

    inner = torch.sum(weights * d_weights, dim=-1, keepdim=True)
    return weights * (d_weights - inner)


def _back_autograd(weights: Any, d_weights: Any) -> Any:
    """Differentiate e^s / Σ e^s at s = ln p, by autograd; a row of zeros is left alone."""
    import torch

    exps = weights.detach().clone().requires_grad_()  # e^s, so ds = e^s · d(e^s)
    total = exps.sum(dim=-1, keepdim=True)
    p = exps / torch.where(total == 0, torch.ones_like(total), total)
    (d_exps,) = torch.autograd.grad(p, exps, d_weights)
    return (exps * d_exps).detach()


_SOFTMAX_BACKWARD = Exercise(
    id="05.softmax_backward",
    function="softmax_backward",
    reference=ref.softmax_backward,
    cases=_BACK_CASES,
    returns=("d_scores",),
    misconceptions=_BACK_WRONG,
    alternatives=[
        Alternative(name="the whole Jacobian", right=_back_by_jacobian),
        Alternative(name="loops", right=_back_by_loops),
        Alternative(name="multiplied out", right=_back_multiplied_out),
        Alternative(name="torch", right=_back_torch, backend="torch"),
        Alternative(name="autograd", right=_back_autograd, backend="torch"),
    ],
    hints=[
        "Start from ∂p_i/∂s_j = p_i (δ_ij − p_j) and write the chain rule: a sum over i of dp_i "
        "times that. Then take it apart into the term with δ and the rest.",
        "The rest is p_j times a number that is the same for the whole row: the mean of the "
        "gradients, weighted by the weights.",
        "No Jacobian is needed: one product of the two arguments, one sum along the last axis with "
        "`keepdims=True`, one difference, one more product.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 05.attention_backward -------------------------------------------------------------------------


def _with_gradient(given: dict[str, Any], seed: list[int]) -> dict[str, Any]:
    """Put `d_output` in its place: after v, before the mask."""
    q, v = given["q"], given["v"]
    d_output = draw(np.random.default_rng(seed), *q.shape[:-1], v.shape[-1])
    mask = {"mask": given["mask"]} if "mask" in given else {}
    return {"q": q, "k": given["k"], "v": v, "d_output": d_output, **mask}


def _grad_one_key(seed: int) -> dict[str, Any]:
    return _with_gradient(_qkv([seed, 11], (), 3, 1, 2, 4), [seed, 21])


def _grad_equal_keys(seed: int) -> dict[str, Any]:
    """Draw keys that are all 0: equal weights, and no gradient to the queries."""
    given = _qkv([seed, 12], (), 2, 3, 4, 5)
    given["k"] = np.zeros_like(given["k"])
    return _with_gradient(given, [seed, 22])


def _grad_sizes(seed: int) -> dict[str, Any]:
    return _with_gradient(_qkv([seed, 13], (), 2, 3, 4, 5), [seed, 23])


def _grad_masked(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 14])
    given = {**_qkv([seed, 14], (), 4, 5, 3, 2), "mask": partial_mask(rng, 4, 5)}
    return _with_gradient(given, [seed, 24])


def _grad_nothing(seed: int) -> dict[str, Any]:
    return _with_gradient(_attention_nothing(seed + 1), [seed, 25])


def _grad_batch(seed: int) -> dict[str, Any]:
    return _with_gradient(_attention_batch(seed + 1), [seed, 26])


_GRAD_CASES = [
    Case(
        name="one key",
        inputs=_grad_one_key,
        shows="only its value gets a gradient, the sum over the queries",
    ),
    Case(
        name="all keys are 0",
        inputs=_grad_equal_keys,
        shows="equal weights, and no gradient to the queries",
    ),
    Case(
        name="as many queries as keys",
        inputs=lambda seed: _with_gradient(_qkv([seed, 16], (), 3, 3, 2, 3), [seed, 27]),
        shows="no shape tells you what to transpose",
    ),
    Case(
        name="2 queries, 3 keys, d_k = 4, d_v = 5",
        inputs=_grad_sizes,
        shows="softmax, scale and every axis count",
    ),
    Case(name="some keys hidden", inputs=_grad_masked, shows="no gradient through them"),
    Case(
        name="a query that may look at nothing",
        inputs=_grad_nothing,
        shows="it gets and gives no gradient",
    ),
    Case(
        name="a batch of 2 with 3 heads and padding",
        inputs=_grad_batch,
        shows="axes in front are carried along",
    ),
]

_Gradients = tuple[Any, Any, Any]


def _gradients(
    *,
    scale_q: float = -0.5,
    scale_k: float = -0.5,
    forward_scale: float = -0.5,
    through: Callable[[NDArray, NDArray], NDArray] = ref.softmax_backward,
    weigh: Callable[[NDArray, NDArray | None], NDArray] | None = None,
    finish: Callable[[NDArray, NDArray, NDArray], _Gradients] | None = None,
) -> Callable[..., _Gradients]:
    """Return attention's gradients with one step replaced; scales are exponents of the width."""

    def backward(
        q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
    ) -> _Gradients:
        width = float(q.shape[-1])
        scores = q @ k.swapaxes(-2, -1) * width**forward_scale
        p = ref.softmax(_hide(scores, mask)) if weigh is None else weigh(scores, mask)
        d_scores = through(p, d_output @ v.swapaxes(-2, -1))
        d_q = d_scores @ k * width**scale_q
        d_k = d_scores.swapaxes(-2, -1) @ q * width**scale_k
        d_v = p.swapaxes(-2, -1) @ d_output
        return (d_q, d_k, d_v) if finish is None else finish(d_q, d_k, d_v)

    return backward


def _weigh_without_mask(scores: NDArray, mask: NDArray | None) -> NDArray:
    return ref.softmax(scores)


def _weigh_mask_late(scores: NDArray, mask: NDArray | None) -> NDArray:
    weights = ref.softmax(scores)
    return weights if mask is None else weights * mask


def _weigh_inverted(scores: NDArray, mask: NDArray | None) -> NDArray:
    return ref.softmax(_hide(scores, None if mask is None else ~mask))


def _weigh_nan(scores: NDArray, mask: NDArray | None) -> NDArray:
    return _plain_softmax(_hide(scores, mask))


def _weigh_uniform(scores: NDArray, mask: NDArray | None) -> NDArray:
    return ref.softmax(_hide(scores, mask, -1e9))


def _grad_values_straight(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Forget to transpose the weights: an error unless n_q = n_k."""
    d_q, d_k, _ = _grad_einsum(q, k, v, d_output, mask)
    return d_q, d_k, ref.softmax(_hide(_scores(q, k), mask)) @ d_output


def _grad_keys_straight(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Forget to transpose the scores' gradient: an error unless n_q = n_k."""
    d_q, _, d_v = _grad_einsum(q, k, v, d_output, mask)
    p = ref.softmax(_hide(_scores(q, k), mask))
    d_s = ref.softmax_backward(p, d_output @ v.swapaxes(-2, -1)) / sqrt(q.shape[-1])
    return d_q, d_s @ q, d_v


def _grad_values_from_forward(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Take 1 for the gradient that comes in, in the values' part."""
    d_q, d_k, _ = _grad_einsum(q, k, v, d_output, mask)
    p = ref.softmax(_hide(_scores(q, k), mask))
    return d_q, d_k, p.swapaxes(-2, -1) @ np.ones_like(d_output)


def _grad_no_batch(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Turn all axes round with .T."""
    p = ref.softmax(_hide(q @ k.T / sqrt(q.shape[-1]), mask))
    d_s = ref.softmax_backward(p, d_output @ v.T) / sqrt(q.shape[-1])
    return d_s @ k, d_s.T @ q, p.T @ d_output


def _grad_hidden_again(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Hide the gradient of the scores as the scores were hidden: by −∞."""
    p = ref.softmax(_hide(_scores(q, k), mask))
    d_s = _hide(ref.softmax_backward(p, d_output @ v.swapaxes(-2, -1)), mask)
    d_s = d_s / sqrt(q.shape[-1])
    with np.errstate(all="ignore"):
        d_q, d_k = d_s @ k, d_s.swapaxes(-2, -1) @ q
    return d_q, d_k, p.swapaxes(-2, -1) @ d_output


def _through_queries(p: NDArray, d_p: NDArray) -> NDArray:
    return p * (d_p - (p * d_p).sum(axis=-2, keepdims=True))


_GRAD_WRONG = [
    Misconception(
        name="softmax's derivative left out",
        wrong=_gradients(through=lambda p, d_p: d_p),
        hint="The gradient of the weights was handed on as that of the scores: with one key the "
        "queries should get nothing, yours do. → Which step stands between P and S, and what does "
        "it do on the way back?",
    ),
    Misconception(
        name="softmax's derivative, only p·dp",
        wrong=_gradients(through=lambda p, d_p: p * d_p),
        hint="On the way back through softmax you multiply by the weights and stop there. With one "
        "key the queries should get nothing, yours do. → What has to be subtracted inside the "
        "brackets?",
    ),
    Misconception(
        name="softmax's derivative, only the diagonal",
        wrong=_gradients(through=lambda p, d_p: p * (1 - p) * d_p),
        hint="On the way back through softmax each weight answers to its own score alone, by "
        "p(1 − p). → What happens to the other weights of a row when one score is raised?",
    ),
    Misconception(
        name="softmax's derivative over the queries",
        wrong=_gradients(through=_through_queries),
        hint="On the way back through softmax your sum runs over the queries. → Along which axis "
        "did the forward pass normalise?",
    ),
    Misconception(
        name="no scale on the way back",
        wrong=_gradients(scale_q=0.0, scale_k=0.0),
        hint="d_v is right; d_q and d_k are too large by the same factor, √d_k. → S is QKᵀ divided "
        "by something. What does a constant factor do to a gradient?",
    ),
    Misconception(
        name="no scale anywhere",
        wrong=_gradients(scale_q=0.0, scale_k=0.0, forward_scale=0.0),
        hint="The weights from which you start are too sharp already, and the scale is missing on "
        "the way back too. → Where does √d_k stand in the attention formula?",
    ),
    Misconception(
        name="d_k without the scale",
        wrong=_gradients(scale_k=0.0),
        hint="d_q and d_v are right, d_k is too large by √d_k. → The scores hold Q and K in the "
        "same way. Which factor has one gradient that the other hasn't?",
    ),
    Misconception(
        name="d_q without the scale",
        wrong=_gradients(scale_q=0.0),
        hint="d_k and d_v are right, d_q is too large by √d_k. → The scores hold Q and K in the "
        "same way. Which factor has one gradient that the other hasn't?",
    ),
    Misconception(
        name="multiplied by √d_k on the way back",
        wrong=_gradients(scale_q=0.5, scale_k=0.5),
        hint="d_v is right; d_q and d_k are too large by d_k itself. → A function that divides by "
        "a constant: does its derivative divide or multiply by it?",
    ),
    Misconception(
        name="no scale on the way forward",
        wrong=_gradients(forward_scale=0.0),
        hint="The scale is there on the way back, but the weights from which you start are too "
        "sharp. → Which scores went into the softmax of the forward pass?",
    ),
    Misconception(
        name="the scale twice",
        wrong=_gradients(scale_q=-1.0, scale_k=-1.0),
        hint="d_v is right; d_q and d_k are too small by √d_k: the scale has been applied once too "
        "often. → In which lines do you divide, and is one of them fed by another?",
    ),
    Misconception(
        name="mask ignored",
        wrong=_gradients(weigh=_weigh_without_mask),
        hint="All right without a mask; with one, hidden keys and values still get gradients. "
        "→ From which weights do you start? Are they those of the forward pass?",
    ),
    Misconception(
        name="mask inverted",
        wrong=_gradients(weigh=_weigh_inverted),
        hint="`nn.MultiheadAttention` reads a mask that way round; this exercise uses True for "
        "“may look”, so your gradients go to the hidden keys. → In which entries does your code "
        "write −∞?",
        valid_variant=True,
    ),
    Misconception(
        name="mask applied after the softmax",
        wrong=_gradients(weigh=_weigh_mask_late),
        hint="The weights from which you start are 0 at hidden keys, but the others don't sum to "
        "1. → At which point does the forward pass hide a key?",
    ),
    Misconception(
        name="NaN for a query that may look at nothing",
        wrong=_gradients(weigh=_weigh_nan),
        hint="One query may look at nothing; its weights are 0/0 in your computation, and from "
        "there NaN spreads to d_k and d_v as a whole. → What are the weights of such a query, by "
        "the docstring?",
    ),
    Misconception(
        name="hidden scores set to −1e9",
        wrong=_gradients(weigh=_weigh_uniform),
        hint="A query that may look at nothing still passes gradients on: its scores are all −1e9, "
        "so its weights are all equal. → Which number is below every score, and what does softmax "
        "make of a row of it?",
    ),
    Misconception(
        name="the gradient hidden by −∞",
        wrong=_grad_hidden_again,
        hint="You write −∞ into the gradient of the scores as the forward pass does into the "
        "scores, and it spreads to d_q and d_k. → What gradient does a score have on which nothing "
        "depends?",
    ),
    Misconception(
        name="weights not transposed in d_v",
        wrong=_grad_values_straight,
        hint="d_q and d_k are right. d_v must have a row for each key, and n_q × n_k times "
        "n_q × d_v doesn't fit, or fits by accident. → Over what is summed in one row of d_v: "
        "queries or keys?",
    ),
    Misconception(
        name="scores' gradient not transposed in d_k",
        wrong=_grad_keys_straight,
        hint="d_q and d_v are right. d_k must have a row for each key, and n_q × n_k times "
        "n_q × d_k doesn't fit, or fits by accident. → Over what is summed in one row of d_k: "
        "queries or keys?",
    ),
    Misconception(
        name="d_output left out of d_v",
        wrong=_grad_values_from_forward,
        hint="d_q and d_k are right. Your d_v is the same whatever gradient comes in: all its "
        "columns are equal. → By what does the chain rule multiply?",
    ),
    Misconception(
        name=".T turns all axes round",
        wrong=_grad_no_batch,
        hint="Right for one sequence. With batch axes `.T` reverses the order of all axes, the "
        "batch included. → Which two axes change places, counted from the end?",
    ),
]


def _grad_einsum(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    scale = 1 / sqrt(q.shape[-1])
    scores = _hide(np.einsum("...ic,...jc->...ij", q, k) * scale, mask)
    p = np.nan_to_num(_plain_softmax(scores))
    d_p = np.einsum("...ic,...jc->...ij", d_output, v)
    d_s = p * d_p - p * np.einsum("...ij,...ij->...i", p, d_p)[..., None]
    return (
        scale * np.einsum("...ij,...jc->...ic", d_s, k),
        scale * np.einsum("...ij,...ic->...jc", d_s, q),
        np.einsum("...ij,...ic->...jc", p, d_output),
    )


def _grad_loops(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Go query by query, with the whole Jacobian of its softmax."""
    d_q, d_k, d_v = (np.zeros(x.shape) for x in (q, k, v))
    shape = (*q.shape[:-1], k.shape[-2])
    may = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    for place in np.ndindex(q.shape[:-1]):
        lead = place[:-1]
        seen = may[place]
        if not seen.any():
            continue
        keys, values = k[lead][seen], v[lead][seen]
        p = _plain_softmax(keys @ q[place] / sqrt(q.shape[-1]))
        jacobian = np.diag(p) - np.outer(p, p)
        d_s = jacobian @ (values @ d_output[place]) / sqrt(q.shape[-1])
        d_q[place] = d_s @ keys
        d_k[lead][seen] += np.outer(d_s, q[place])
        d_v[lead][seen] += np.outer(p, d_output[place])
    return d_q, d_k, d_v


def _grad_by_output(
    q: NDArray, k: NDArray, v: NDArray, d_output: NDArray, mask: NDArray | None = None
) -> _Gradients:
    """Take the row's sum from the output, Σ_j p_j dp_j = o · do, as FlashAttention does."""
    root = sqrt(q.shape[-1])
    output, p = ref.scaled_dot_product_attention(q, k, v, mask)
    row = (output * d_output).sum(axis=-1, keepdims=True)
    d_s = p * (d_output @ v.swapaxes(-2, -1) - row)
    return d_s @ (k / root), d_s.swapaxes(-2, -1) @ (q / root), p.swapaxes(-2, -1) @ d_output


def _grad_autograd(q: Any, k: Any, v: Any, d_output: Any, mask: Any = None) -> _Gradients:
    import torch

    q, k, v = (x.detach().clone().requires_grad_() for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) / sqrt(q.shape[-1])
    may = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * may
    total = exps.sum(dim=-1, keepdim=True)
    output = exps / torch.where(total == 0, torch.ones_like(total), total) @ v
    d_q, d_k, d_v = torch.autograd.grad(output, (q, k, v), d_output)
    return d_q, d_k, d_v


_ATTENTION_BACKWARD = Exercise(
    id="05.attention_backward",
    function="attention_backward",
    reference=ref.scaled_dot_product_attention_backward,
    cases=_GRAD_CASES,
    returns=("d_q", "d_k", "d_v"),
    misconceptions=_GRAD_WRONG,
    alternatives=[
        Alternative(name="einsum", right=_grad_einsum),
        Alternative(name="loops with the whole Jacobian", right=_grad_loops),
        Alternative(name="the row's sum from the output", right=_grad_by_output),
        Alternative(name="autograd", right=_grad_autograd, backend="torch"),
    ],
    hints=[
        "Compute the weights P again, as in the forward pass, mask included. Then go backwards: "
        "O = P V gives d_v and the gradient of P; softmax gives that of S; S = QKᵀ/√d_k gives the "
        "rest.",
        "Let the shapes tell you what to transpose: a gradient has the shape of what it belongs "
        "to. d_v is (n_k, d_v), and P is (n_q, n_k); the gradient of P is (n_q, n_k), from "
        "d_output (n_q, d_v) and v (n_k, d_v).",
        "The mask needs no line on the way back: where the weight is 0, `softmax_backward` "
        "multiplies by 0. The scale needs one, once for d_q and once for d_k.",
    ],
    points=4,
    minutes=30,
    difficulty=2,
)


# -- 05.temperature --------------------------------------------------------------------------------


def _entropy_at(scores: NDArray, temperature: float) -> float:
    return float(ref.entropy(ref.softmax(np.asarray(scores, np.float64) / temperature)))


_ROW = np.array([0.0, 1.0, 2.0, 0.5])

_TEMPERATURE_CASES = [
    Case(
        name="the entropy they have already",
        inputs={"scores": _ROW, "target": round(_entropy_at(_ROW, 1.0), 8)},
        shows="the temperature is 1",
    ),
    Case(
        name="scores three times as large",
        inputs={"scores": 3 * _ROW, "target": round(_entropy_at(_ROW, 1.0), 8)},
        shows="the temperature is 3",
    ),
    Case(
        name="sharper: 0.4 nats",
        inputs={"scores": np.array([1.2, -0.3, 0.7, 0.1, -1.1]), "target": 0.4},
        shows="a temperature below 1",
    ),
    Case(
        name="nearly even: 1.6 of ln 5 = 1.609 nats",
        inputs={"scores": np.array([1.2, -0.3, 0.7, 0.1, -1.1]), "target": 1.6},
        shows="a temperature above 1",
    ),
    Case(
        name="two scores share the maximum",
        inputs={"scores": np.array([2.0, 2.0, 1.0, -1.0]), "target": 0.8},
        shows="no temperature gets below ln 2",
    ),
    Case(
        name="scores in the thousands",
        inputs={"scores": np.array([3000.0, -1000.0, 2000.0]), "target": 0.7},
        shows="temperatures far above 10",
    ),
    Case(
        name="scores near 0",
        inputs={"scores": np.array([0.001, -0.002, 0.003, 0.0]), "target": 1.0},
        shows="temperatures far below 0.1",
    ),
]


def _bisect(
    entropy_at: Callable[[float], float],
    target: float,
    low: float = 1e-12,
    high: float = 1e12,
    steps: int = 200,
) -> float:
    """Halve the interval in log t; what isn't below the target counts as above, NaN included."""
    for _ in range(steps):
        middle = sqrt(low) * sqrt(high)
        if entropy_at(middle) < target:
            low = middle
        else:
            high = middle
    return sqrt(low) * sqrt(high)


def _temperature_right(scores: NDArray, target: float) -> float:
    return _bisect(lambda t: _entropy_at(scores, t), target)


def _temperature_bits(scores: NDArray, target: float) -> float:
    return _bisect(lambda t: _entropy_at(scores, t) / log(2), target)


def _temperature_inverse(scores: NDArray, target: float) -> float:
    return 1.0 / _temperature_right(scores, target)


def _temperature_squared(scores: NDArray, target: float) -> float:
    return _temperature_right(scores, target) ** 2


def _temperature_log(scores: NDArray, target: float) -> float:
    return log(_temperature_right(scores, target))


def _temperature_share(scores: NDArray, target: float) -> float:
    return _bisect(lambda t: _entropy_at(scores, t) / log(len(scores)), target)


def _temperature_perplexity(scores: NDArray, target: float) -> float:
    return _bisect(lambda t: exp(_entropy_at(scores, t)), target)


def _temperature_narrow(scores: NDArray, target: float) -> float:
    return _bisect(lambda t: _entropy_at(scores, t), target, low=0.1, high=10.0)


def _temperature_narrow_low(scores: NDArray, target: float) -> float:
    """Look from 0.01 to 100 only."""
    return _bisect(lambda t: _entropy_at(scores, t), target, low=0.01, high=100.0)


def _temperature_coarse(scores: NDArray, target: float) -> float:
    spread = float(scores.max() - scores.min())
    return _bisect(
        lambda t: _entropy_at(scores, t), target, low=spread * 1e-3, high=spread * 1e3, steps=10
    )


def _temperature_standardised(scores: NDArray, target: float) -> float:
    return _temperature_right((scores - scores.mean()) / scores.std(), target)


def _temperature_not_normalised(scores: NDArray, target: float) -> float:
    """Divide the weights, not the scores, by t."""
    p = ref.softmax(scores)

    def entropy_at(t: float) -> float:
        return float(-(p / t * np.log(np.maximum(p / t, 1e-300))).sum())

    return _bisect(entropy_at, target)


def _temperature_naive(scores: NDArray, target: float) -> float:
    def entropy_at(t: float) -> float:
        with np.errstate(all="ignore"):
            p = _naive_softmax(scores / t)
            return float(-(p * np.log(p)).sum())

    return _bisect(entropy_at, target)


def _temperature_backwards(scores: NDArray, target: float) -> float:
    """Keep the wrong half at every step and end at the edge: here at the lower one or the upper."""
    return 1e-12 if _entropy_at(scores, 1.0) >= target else 1e12


_TEMPERATURE_WRONG = [
    Misconception(
        name="entropy in bits",
        wrong=_temperature_bits,
        hint="Entropy may be measured in bits, with the logarithm to base 2; this exercise uses "
        "nats, so your temperatures come out too low. → Which logarithm belongs to nats?",
        valid_variant=True,
    ),
    Misconception(
        name="the inverse temperature",
        wrong=_temperature_inverse,
        hint="Physicists call 1/t the inverse temperature and multiply the scores by it; this "
        "exercise uses t itself. → Does your number stand above or below the scores?",
        valid_variant=True,
    ),
    Misconception(
        name="the root of the temperature in the softmax",
        wrong=_temperature_squared,
        hint="Your result is the square of the right one: somewhere the scores are divided by √t. "
        "→ By what does the docstring divide them?",
    ),
    Misconception(
        name="the logarithm of the temperature",
        wrong=_temperature_log,
        hint="Your result is the logarithm of the right one. Searching on the logarithm is a good "
        "idea. → What is left to do at the end of such a search?",
    ),
    Misconception(
        name="the target as a share of ln n",
        wrong=_temperature_share,
        hint="You divide the entropy by ln n, its largest value, but the target is in nats, not a "
        "share. → What are the units of `target` in the docstring?",
    ),
    Misconception(
        name="perplexity for entropy",
        wrong=_temperature_perplexity,
        hint="You compare e to the power of the entropy with the target. → What are the units of "
        "`target` in the docstring?",
    ),
    Misconception(
        name="searched between 0.1 and 10 only",
        wrong=_temperature_narrow,
        hint="Right for scores of everyday size; elsewhere you end at a border of the interval you "
        "search. → How does the right temperature change when all scores are multiplied "
        "by 1000? What could the ends of your interval depend on?",
    ),
    Misconception(
        name="searched between 0.01 and 100 only",
        wrong=_temperature_narrow_low,
        hint="Right for scores of everyday size; elsewhere you end at a border of the interval you "
        "search. → How does the right temperature change when all scores are "
        "multiplied by 1000? What could the ends of your interval depend on?",
    ),
    Misconception(
        name="stopped too early",
        wrong=_temperature_coarse,
        hint="Near, but good to two digits at most, where four are asked for. → By what factor "
        "does one halving shrink the interval, and how many does a factor of 10,000 need?",
    ),
    Misconception(
        name="scores standardised first",
        wrong=_temperature_standardised,
        hint="Your result is the same however large the scores are: they were brought to one "
        "spread first. → By what must your result be multiplied to undo that, or what should not "
        "be done at all?",
    ),
    Misconception(
        name="the weights divided, not the scores",
        wrong=_temperature_not_normalised,
        hint="The temperature comes after the softmax in your function: p/t no longer sums to 1. "
        "→ Where does t stand in softmax(scores / t)?",
    ),
    Misconception(
        name="NaN on the way",
        wrong=_temperature_naive,
        hint="At low temperatures the exponentials overflow, or a weight is 0 and 0 · ln 0 comes "
        "out as NaN. A comparison with NaN is False, and the search goes astray. → Which two "
        "functions of the chapter are safe there?",
    ),
    Misconception(
        name="the wrong half is kept",
        wrong=_temperature_backwards,
        hint="You end at one edge of your interval: the search walks away from the target. → A "
        "higher temperature makes the weights more even. Is the entropy too low or too high when "
        "the lower bound should move up?",
    ),
]


def _temperature_newton(scores: NDArray, target: float) -> float:
    """Newton's method in u = ln t, where dH/du = var_p(s)/t², kept inside a bracket."""
    s = np.asarray(scores, np.float64)
    spread = s.max() - s.min()
    low, high, u = log(spread * 1e-9), log(spread * 1e9), log(spread)
    for _ in range(300):
        p = _plain_softmax(s / exp(u))
        gap = float(ref.entropy(p)) - target
        low, high = (u, high) if gap < 0 else (low, u)
        slope = float((p * (s - (p * s).sum()) ** 2).sum()) / exp(2 * u)
        step = u - gap / slope if slope > 0 else low
        u = step if low < step < high else (low + high) / 2
    return exp(u)


def _temperature_by_beta(scores: NDArray, target: float) -> float:
    """Bisect the inverse temperature, with H = ln Σ e^(βs) − β Σ p s."""
    s = [float(x) - float(max(scores)) for x in scores]
    low, high = 0.0, 60.0 / min(-x for x in s if x < 0)
    for _ in range(120):
        beta = (low + high) / 2
        e = [exp(beta * x) for x in s]
        z = sum(e)
        value = log(z) - beta * sum(x * w for x, w in zip(s, e, strict=True)) / z
        low, high = (beta, high) if value > target else (low, beta)
    return 2.0 / (low + high)


def _temperature_by_grids(scores: NDArray, target: float) -> Any:
    """Narrow a grid of temperatures, again and again; return a 0-dimensional array."""
    spread = np.ptp(scores)
    low, high = np.log(spread * 1e-6), np.log(spread * 1e6)
    for _ in range(8):
        grid = np.linspace(low, high, 60)
        entropies = ref.entropy(ref.softmax(scores / np.exp(grid)[:, None]))
        i = int(np.clip(np.searchsorted(entropies, target), 1, len(grid) - 1))
        low, high = grid[i - 1], grid[i]
    return np.exp((low + high) / 2)


def _temperature_torch(scores: Any, target: float) -> Any:
    import torch

    s = torch.as_tensor(scores, dtype=torch.float64)
    low, high = 1e-9 * (s.max() - s.min()), 1e9 * (s.max() - s.min())
    for _ in range(150):
        middle = torch.sqrt(low * high)
        log_p = torch.log_softmax(s / middle, dim=-1)
        value = -torch.xlogy(log_p.exp(), log_p.exp()).sum()
        low, high = (middle, high) if value < target else (low, middle)
    return torch.sqrt(low * high)


_TEMPERATURE = Exercise(
    id="05.temperature",
    function="temperature_for_entropy",
    reference=ref.temperature_for_entropy,
    cases=_TEMPERATURE_CASES,
    returns=("temperature",),
    # A search stops somewhere: four digits are asked for, and all known mistakes are further off.
    tolerance={"float64": (1e-4, 0.0), "float32": (1e-3, 0.0)},
    misconceptions=_TEMPERATURE_WRONG,
    alternatives=[
        Alternative(name="Newton's method", right=_temperature_newton),
        Alternative(name="the inverse temperature, in plain Python", right=_temperature_by_beta),
        Alternative(name="finer and finer grids", right=_temperature_by_grids),
        Alternative(name="torch", right=_temperature_torch, backend="torch"),
    ],
    hints=[
        "There is no formula for it: search. The entropy never falls as the temperature rises, so "
        "a value that is too low tells you on which side to go on.",
        "Halve an interval: keep a temperature that is too cold and one that is too hot, try the "
        "middle, and replace the one or the other. Fifty halvings leave nothing to wish for.",
        "The right temperature grows with the spread of the scores, so let the ends of the "
        "interval be that spread times a very small and a very large number, and halve the "
        "logarithm: the middle of two temperatures is the root of their product.",
    ],
    points=4,
    minutes=25,
    difficulty=3,
)


# -- 05.bug_axis -----------------------------------------------------------------------------------


def biased_attention(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> tuple[NDArray, NDArray]:
    """Attend with a bias on the scores: ``softmax(Q Kᵀ / √d_k + B) V``.

    Parameters
    ----------
    q, k, v : float arrays, (..., n_q, d_k), (..., n_k, d_k) and (..., n_k, d_v)
    bias : float array that broadcasts to (..., n_q, n_k)
        Added to the scaled scores, as it is.

    Returns
    -------
    output : float array, (..., n_q, d_v)
    entropies : float array, (..., n_q)
        Entropy of each query's weights, in nats.
    """
    weights = ref.softmax(_scores(q, k) + bias)
    return weights @ v, ref.entropy(weights)


def biased_attention_broken(
    q: NDArray, k: NDArray, v: NDArray, bias: NDArray
) -> tuple[NDArray, NDArray]:
    """Attend with a bias, as the exercise's notebook shows it: with two faults."""
    d_k = q.shape[-1]
    scores = (q @ k.swapaxes(-2, -1) + bias) / np.sqrt(d_k)
    exps = np.exp(scores - scores.max(axis=-2, keepdims=True))
    weights = exps / exps.sum(axis=-2, keepdims=True)
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return weights @ v, -(weights * logs).sum(axis=-1)


def _bias_unit(seed: int) -> dict[str, Any]:
    v = draw(np.random.default_rng([seed, 31]), 3, 2)
    return {"q": 2 * np.eye(3), "k": 2 * np.eye(3), "v": v, "bias": np.zeros((3, 3))}


def _bias_one_key(seed: int) -> dict[str, Any]:
    return {**_qkv([seed, 32], (), 3, 1, 2, 4), "bias": np.zeros((3, 1))}


def _bias_none(seed: int) -> dict[str, Any]:
    return {**_qkv([seed, 33], (), 4, 3, 2, 5), "bias": np.zeros((4, 3))}


def _bias_distance(seed: int) -> dict[str, Any]:
    """Build a bias that falls with distance, half a nat a step."""
    bias = -0.5 * np.abs(np.arange(2)[:, None] - np.arange(5)[None, :])
    return {**_qkv([seed, 34], (), 2, 5, 4, 3), "bias": bias}


def _bias_large(seed: int) -> dict[str, Any]:
    given = _qkv([seed, 35], (), 2, 4, 3, 5)
    bias = np.array([[0.0, -5000.0, 0.5, 0.0], [-900.0, 900.0, 899.0, 0.0]])
    return {**given, "bias": bias}


def _bias_batch(seed: int) -> dict[str, Any]:
    bias = draw(np.random.default_rng([seed, 36]), 3, 4, 6)
    return {**_qkv([seed, 36], (2, 3), 4, 6, 5, 7), "bias": bias}


_BIAS_CASES = [
    Case(
        name="one-hot queries and keys, no bias",
        inputs=_bias_unit,
        shows="the test that the broken program was released with",
    ),
    Case(
        name="one key",
        inputs=_bias_one_key,
        shows="the output is its value, the entropy 0",
    ),
    Case(
        name="4 queries, 3 keys, no bias",
        inputs=_bias_none,
        shows="each query shares out one whole",
    ),
    Case(
        name="a bias that falls with distance, d_k = 4",
        inputs=_bias_distance,
        shows="the bias counts in full",
    ),
    Case(name="a bias in the thousands", inputs=_bias_large, shows="no overflow, no NaN"),
    Case(
        name="a batch of 2 with 3 heads and a bias a head",
        inputs=_bias_batch,
        shows="axes in front are carried along",
    ),
]

_Biased = tuple[Any, Any]


def _biased(
    weigh: Callable[[NDArray, NDArray, NDArray], NDArray],
) -> Callable[..., _Biased]:
    """Biased attention with another way to the weights."""

    def attend(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> _Biased:
        weights = weigh(q, k, bias)
        with np.errstate(all="ignore"):
            logs = np.log(np.where(weights > 0, weights, 1.0))
        return weights @ v, -(weights * logs).sum(axis=-1)

    return attend


def _bias_in_scale(q: NDArray, k: NDArray, bias: NDArray) -> NDArray:
    return (q @ k.swapaxes(-2, -1) + bias) / sqrt(q.shape[-1])


def _bias_two_shifts(scores: NDArray) -> NDArray:
    """Softmax with the maximum over the queries and the sum over the keys."""
    with np.errstate(all="ignore"):
        exps = np.exp(scores - scores.max(axis=-2, keepdims=True))
        return exps / exps.sum(axis=-1, keepdims=True)


def _bias_global_shift(scores: NDArray) -> NDArray:
    with np.errstate(all="ignore"):
        exps = np.exp(scores - scores.max())
        return exps / exps.sum(axis=-1, keepdims=True)


def _biased_entropy(q: NDArray, k: NDArray, bias: NDArray) -> NDArray:
    return ref.entropy(ref.softmax(_scores(q, k) + bias))


def _bias_again(scores: NDArray) -> NDArray:
    """Softmax over the queries, then its rows divided by their sums."""
    weights = _plain_softmax(scores, -2)
    with np.errstate(all="ignore"):
        return weights / weights.sum(axis=-1, keepdims=True)


def _bias_from_front(q: NDArray, k: NDArray, bias: NDArray) -> NDArray:
    return _plain_softmax(_scores(q, k) + bias, 1)


def _bias_after(q: NDArray, k: NDArray, bias: NDArray) -> NDArray:
    return ref.softmax(_scores(q, k)) + bias


def _bias_no_keepdims(q: NDArray, k: NDArray, bias: NDArray) -> NDArray:
    scores = _scores(q, k) + bias
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1)


def _bias_entropy_nan(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> _Biased:
    weights = ref.softmax(_scores(q, k) + bias)
    with np.errstate(all="ignore"):
        return weights @ v, -(weights * np.log(weights)).sum(axis=-1)


def _bias_entropy_of_queries(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> _Biased:
    """Move every axis of the program, the entropy's too."""
    weights = ref.softmax(_scores(q, k) + bias)
    return weights @ v, ref.entropy(weights.swapaxes(-2, -1))


_BIAS_WRONG = [
    Misconception(
        name="the program as it was",
        wrong=biased_attention_broken,
        program=as_cell(biased_attention_broken, "biased_attention"),
        hint="This is what the broken program returns. Compare the case with one key: its weight "
        "must be 1 for every query, and here the queries share it out. → Print the sums of "
        "`weights` along both of its axes. Which of them should be 1?",
    ),
    Misconception(
        name="axis repaired, bias still scaled",
        wrong=_biased(lambda q, k, b: ref.softmax(_bias_in_scale(q, k, b))),
        hint="The first fault is gone: without a bias all is right. With one your weights don't "
        "follow it as far as they should, and less the larger d_k is. → In the formula, which part "
        "of the scores does the division by √d_k belong to?",
    ),
    Misconception(
        name="bias repaired, axis still the queries'",
        wrong=_biased(lambda q, k, b: ref.softmax(_scores(q, k) + b, -2)),
        hint="The bias is in the right place now, but the queries still compete for each key. "
        "→ With one key, what must every query's weight be?",
    ),
    Misconception(
        name="only the sum repaired, bias repaired",
        wrong=_biased(lambda q, k, b: _bias_two_shifts(_scores(q, k) + b)),
        hint="The rows sum to 1 now, and still they are wrong: what you subtract differs from key "
        "to key, so it doesn't cancel. → In which two places does softmax use an axis?",
    ),
    Misconception(
        name="only the sum repaired, bias still scaled",
        wrong=_biased(lambda q, k, b: _bias_two_shifts(_bias_in_scale(q, k, b))),
        hint="The rows sum to 1 now, and still they are wrong, already without a bias: what you "
        "subtract differs from key to key, so it doesn't cancel. → In which two places does "
        "softmax use an axis?",
    ),
    Misconception(
        name="divided once more, along the rows",
        wrong=_biased(lambda q, k, b: _bias_again(_scores(q, k) + b)),
        hint="You divide the rows by their sums after a softmax over the queries. They sum to 1, "
        "but the shares are not those of e to the power of the scores. → Which division should "
        "not have happened in the first place?",
    ),
    Misconception(
        name="the axis counted from the front",
        wrong=_biased(_bias_from_front),
        hint="Right for one sequence, wrong with batch axes: axis 1 is then another one. → Which "
        "number names the last axis however many there are?",
    ),
    Misconception(
        name="the sum has lost its axis",
        wrong=_biased(_bias_no_keepdims),
        hint="The sums of the rows came out as a flat array, and broadcasting set them against the "
        "columns: an error for most shapes, wrong numbers for a square one. → Which argument of "
        "`sum` was there in the broken program?",
    ),
    Misconception(
        name="both repaired, but no maximum subtracted",
        wrong=_biased(lambda q, k, b: _naive_softmax(_scores(q, k) + b)),
        hint="The axis is right, and so is the bias. But the line that subtracted the maximum is "
        "gone, and large scores overflow. → Along which axis does the maximum have to be taken?",
    ),
    Misconception(
        name="one maximum for all",
        wrong=_biased(lambda q, k, b: _bias_global_shift(_scores(q, k) + b)),
        hint="You subtract the same number everywhere, the largest score of all. A query whose "
        "scores all lie far below it is left with nothing but zeros. → Whose maximum does each "
        "query need?",
    ),
    Misconception(
        name="the scale lost",
        wrong=_biased(lambda q, k, b: ref.softmax(q @ k.swapaxes(-2, -1) + b)),
        hint="The bias counts in full now, but so do the products: they are no longer divided by "
        "√d_k. → In the formula, which part of the scores does the division belong to?",
    ),
    Misconception(
        name="the bias subtracted",
        wrong=_biased(lambda q, k, b: ref.softmax(_scores(q, k) - b)),
        hint="Your weights go against the bias: where it's low they are high. → With which sign "
        "does B stand in the formula?",
    ),
    Misconception(
        name="the entropy's sign",
        wrong=lambda q, k, v, bias: (
            _biased_einsum(q, k, v, bias)[0],
            -_biased_entropy(q, k, bias),
        ),
        hint="The outputs are right, and your entropies have the wrong sign: no entropy is below "
        "0. → What is the sign of ln p for a weight p below 1?",
    ),
    Misconception(
        name="the bias left out",
        wrong=_biased(lambda q, k, b: ref.softmax(_scores(q, k))),
        hint="All right where the bias is 0; otherwise your result doesn't change with it. → Where "
        "in the formula does B stand?",
    ),
    Misconception(
        name="the bias added to the weights",
        wrong=_biased(_bias_after),
        hint="You add the bias after the softmax: the weights no longer sum to 1, and some are "
        "below 0. → Where in the formula does B stand?",
    ),
    Misconception(
        name="0 · ln 0",
        wrong=_bias_entropy_nan,
        hint="The outputs are right, and the entropies too, as long as no weight is 0: 0 · ln 0 "
        "comes out as NaN. → How did the broken program get round this?",
    ),
    Misconception(
        name="the entropies of the keys",
        wrong=_bias_entropy_of_queries,
        hint="The outputs are right, but your entropies are sums over the queries. Not every axis "
        "in the program was wrong. → How many entropies should there be, n_q or n_k?",
    ),
]


def _biased_einsum(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> _Biased:
    scores = np.einsum("...ic,...jc->...ij", q, k) / sqrt(q.shape[-1]) + bias
    shifted = scores - scores.max(axis=-1, keepdims=True)
    exps = np.exp(shifted)
    total = exps.sum(axis=-1)
    entropies = np.log(total) - (exps * shifted).sum(axis=-1) / total
    return np.einsum("...ij,...jc->...ic", exps, v) / total[..., None], entropies


def _biased_loops(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> _Biased:
    output = np.zeros((*q.shape[:-1], v.shape[-1]))
    entropies = np.zeros(q.shape[:-1])
    wide = np.broadcast_to(bias, (*q.shape[:-1], k.shape[-2]))
    for place in np.ndindex(q.shape[:-1]):
        keys, values = k[place[:-1]], v[place[:-1]]
        p = _plain_softmax(keys @ q[place] / sqrt(q.shape[-1]) + wide[place])
        output[place] = p @ values
        entropies[place] = -sum(x * log(x) for x in p if x > 0)
    return output, entropies


def _biased_as_a_wider_key(q: NDArray, k: NDArray, v: NDArray, bias: NDArray) -> _Biased:
    """Turn everything round: keys in rows, queries in columns, softmax over axis −2."""
    scores = k @ q.swapaxes(-2, -1) / sqrt(q.shape[-1]) + np.swapaxes(bias, -2, -1)
    weights = _plain_softmax(scores, -2)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return weights.swapaxes(-2, -1) @ v, -(weights * logs).sum(axis=-2)


def _biased_torch(q: Any, k: Any, v: Any, bias: Any) -> _Biased:
    import torch

    weights = torch.softmax(q @ k.transpose(-2, -1) / sqrt(q.shape[-1]) + bias, dim=-1)
    return weights @ v, torch.special.entr(weights).sum(dim=-1)


_BUG_AXIS = Exercise(
    id="05.bug_axis",
    function="biased_attention",
    reference=biased_attention,
    cases=_BIAS_CASES,
    returns=("output", "entropies"),
    misconceptions=_BIAS_WRONG,
    alternatives=[
        Alternative(name="einsum, entropy from the scores", right=_biased_einsum),
        Alternative(name="loops", right=_biased_loops),
        Alternative(name="keys in rows throughout", right=_biased_as_a_wider_key),
        Alternative(name="torch", right=_biased_torch, backend="torch"),
    ],
    hints=[
        "An output that lies outside the range of the values can't be a mean of them. Print the "
        "weights for two queries and three keys, and their sums along both axes.",
        "Softmax uses an axis twice, once for the maximum and once for the sum. Both must run over "
        "the keys.",
        "There is a second fault, which shows only where the bias isn't 0. Hold the line with "
        "`bias` against the formula: what is divided by √d_k there?",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 05.bug_mask -----------------------------------------------------------------------------------


def read_store(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[NDArray, NDArray]:
    """Read a store of fixed size in which some slots are empty, and some count for more.

    The weight of a filled slot j for query i is proportional to
    ``trust_j · exp(q_i · key_j / √d_k)``: a slot of trust 2 counts like two slots of trust 1.

    Parameters
    ----------
    q : float array, (..., n_q, d_k)
    keys, values : float arrays, (..., n_slots, d_k) and (..., n_slots, d_v)
        What the empty slots hold is left over from earlier and makes no difference.
    trust : float array, (n_slots,)
        Positive.
    filled : boolean array, (n_slots,)
        True where a slot holds something.

    Returns
    -------
    answers : float array, (..., n_q, d_v)
    weights : float array, (..., n_q, n_slots)
        Each row sums to 1; where no slot is filled, answers and weights are 0.
    """
    weights = ref.softmax(np.where(filled, _scores(q, keys) + np.log(trust), -np.inf))
    return weights @ values, weights


def read_store_broken(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[NDArray, NDArray]:
    """Read a store, as the exercise's notebook shows it: hides and trusts too late."""
    d_k = q.shape[-1]
    scores = q @ keys.swapaxes(-2, -1) / np.sqrt(d_k)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)
    weights = weights * trust * filled
    return weights @ values, weights


def _store(
    seed: int, lead: tuple[int, ...], n_q: int, n_slots: int, d_k: int, d_v: int
) -> dict[str, Any]:
    given = _qkv([seed, 40, n_slots], lead, n_q, n_slots, d_k, d_v)
    return {
        "q": given["q"],
        "keys": given["k"],
        "values": given["v"],
        "trust": np.ones(n_slots),
        "filled": np.ones(n_slots, bool),
    }


def _trust(seed: int, n: int) -> NDArray:
    return np.random.default_rng([seed, 41]).choice([0.25, 0.5, 1.0, 2.0, 3.0, 4.0], n, False)


def _store_full(seed: int) -> dict[str, Any]:
    return _store(seed, (), 2, 3, 4, 2)


def _store_one(seed: int) -> dict[str, Any]:
    return {**_store(seed, (), 3, 1, 2, 4), "trust": np.array([2.0])}


def _store_trust(seed: int) -> dict[str, Any]:
    return {**_store(seed, (), 2, 4, 3, 5), "trust": _trust(seed, 4)}


def _store_empty_slots(seed: int) -> dict[str, Any]:
    filled = np.array([True, False, True, True, False])
    return {**_store(seed, (), 3, 5, 2, 4), "filled": filled}


def _store_left_over(seed: int) -> dict[str, Any]:
    """Leave a huge key in an empty slot: its score is far above all others."""
    given = _store(seed, (), 2, 4, 3, 2)
    q = np.abs(given["q"]) + 0.5
    keys = given["keys"].copy()
    keys[2] = 2000.0
    return {**given, "q": q, "keys": keys, "filled": np.array([True, True, False, True])}


def _store_nothing(seed: int) -> dict[str, Any]:
    given = _store(seed + 1, (), 2, 3, 4, 5)
    return {**given, "trust": _trust(seed + 1, 3), "filled": np.zeros(3, bool)}


def _store_batch(seed: int) -> dict[str, Any]:
    filled = np.array([True, True, False, True, True, False, True])
    return {**_store(seed, (2, 3), 4, 7, 5, 6), "trust": _trust_many(seed), "filled": filled}


def _trust_many(seed: int) -> NDArray:
    return np.random.default_rng([seed, 42]).choice([0.25, 0.5, 1.0, 2.0, 3.0], 7)


_STORE_CASES = [
    Case(
        name="a full store, trust 1 throughout",
        inputs=_store_full,
        shows="the test that the broken program was released with",
    ),
    Case(
        name="one slot, trust 2",
        inputs=_store_one,
        shows="the answer is its value, whatever its trust",
    ),
    Case(
        name="two of five slots empty, trust 1 throughout",
        inputs=_store_empty_slots,
        shows="the filled ones share the whole",
    ),
    Case(
        name="a full store, different trust",
        inputs=_store_trust,
        shows="trust tips the shares, and they sum to 1",
    ),
    Case(
        name="a huge key left over in an empty slot",
        inputs=_store_left_over,
        shows="what an empty slot holds makes no difference",
    ),
    Case(name="no slot filled", inputs=_store_nothing, shows="answers and weights are 0"),
    Case(
        name="a batch of 2 with 3 heads",
        inputs=_store_batch,
        shows="axes in front are carried along",
    ),
]


def _read(
    weigh: Callable[[NDArray, NDArray, NDArray], NDArray],
) -> Callable[..., tuple[Any, Any]]:
    """Read the store with another way from scores, trust and filled to weights."""

    def read(
        q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
    ) -> tuple[Any, Any]:
        with np.errstate(all="ignore"):
            weights = weigh(_scores(q, keys), trust, filled)
        return weights @ values, weights

    return read


def _store_divided_again(s: NDArray, trust: NDArray, filled: NDArray) -> NDArray:
    w = _plain_softmax(s) * trust * filled
    return w / w.sum(axis=-1, keepdims=True)


def _store_divided_safely(s: NDArray, trust: NDArray, filled: NDArray) -> NDArray:
    w = _plain_softmax(s) * trust * filled
    total = w.sum(axis=-1, keepdims=True)
    return w / np.where(total == 0.0, 1.0, total)


def _store_values_zeroed(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[Any, Any]:
    weights = ref.softmax(_scores(q, keys) + np.log(trust))
    return weights @ np.where(filled[:, None], values, 0.0), weights


def _store_keys_zeroed(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[Any, Any]:
    scores = _scores(q, np.where(filled[:, None], keys, 0.0))
    weights = ref.softmax(scores + np.log(trust))
    return weights @ values, weights


def _store_in_scale(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[Any, Any]:
    scores = (q @ keys.swapaxes(-2, -1) + np.log(trust)) / sqrt(q.shape[-1])
    weights = ref.softmax(np.where(filled, scores, -np.inf))
    return weights @ values, weights


_STORE_WRONG = [
    Misconception(
        name="the program as it was",
        wrong=read_store_broken,
        program=as_cell(read_store_broken, "read_store"),
        hint="This is what the broken program returns: the rows of its weights don't sum to 1. The "
        "softmax has shared out one whole among all slots before it hears of trust and of empty "
        "slots. → What could be done to the scores instead, before the softmax?",
    ),
    Misconception(
        name="mask repaired, trust still after the softmax",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s, -np.inf)) * t),
        hint="Empty slots are out of the game now, but trust still comes after the softmax, and "
        "the rows don't sum to 1. → Trust multiplies the exponentials. What does it then do to the "
        "scores inside of them?",
    ),
    Misconception(
        name="trust repaired, mask still after the softmax",
        wrong=_read(lambda s, t, f: ref.softmax(s + np.log(t)) * f),
        hint="Trust is in the right place now, but the empty slots still take their share before "
        "they are hidden. → Which score has an exponential of 0?",
    ),
    Misconception(
        name="trust added to the scores",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s + t, -np.inf))),
        hint="Trust added to a score multiplies the exponential by e to the power of trust: a slot "
        "of trust 2 then counts for e times as much as one of trust 1, not twice. → What must be "
        "added so that the exponential is multiplied by trust itself?",
    ),
    Misconception(
        name="scores multiplied by trust",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s * t, -np.inf))),
        hint="You multiply the scores by trust. A slot with a score below 0 then loses by being "
        "trusted. → In the docstring's formula, what does trust multiply?",
    ),
    Misconception(
        name="divided again by the sum",
        wrong=_read(_store_divided_again),
        hint="Dividing by the new sum mends the shares as long as something is left to divide. "
        "Where an empty slot had taken everything, or none is filled, it's 0/0. → What if the "
        "empty slots never took part in the softmax, its maximum included?",
    ),
    Misconception(
        name="divided again by the sum unless that is 0",
        wrong=_read(_store_divided_safely),
        hint="Dividing by the new sum mends the shares, but one row is all 0 although slots are "
        "filled: an empty one with a huge score had taken everything. → What if the empty slots "
        "never took part in the softmax, its maximum included?",
    ),
    Misconception(
        name="NaN where no slot is filled",
        wrong=_read(lambda s, t, f: _plain_softmax(np.where(f, s + np.log(t), -np.inf))),
        hint="All right but the store without a filled slot: nothing is left to share out, and 0/0 "
        "is NaN. The broken program had no trouble there. → What does the docstring promise, and "
        "which sum is 0?",
    ),
    Misconception(
        name="empty slots set to −1e9",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s, -1e9) + np.log(t))),
        hint="With no slot filled you read what's left over in all of them: −1e9 is the same for "
        "every slot, so each gets its share. → Which number is below every score, and what must "
        "softmax make of a row of it?",
    ),
    Misconception(
        name="empty slots set to −1e9, trust and all",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s + np.log(t), -1e9))),
        hint="With no slot filled all scores are −1e9, so all are equal, and you read what's left "
        "over in every slot. → Which number is below every score, and what must softmax make of a "
        "row of it?",
    ),
    Misconception(
        name="empty slots set to 0",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s + np.log(t), 0.0))),
        hint="Empty slots still get weight, since e to the power of 0 is 1. → Which score has an "
        "exponential of 0?",
    ),
    Misconception(
        name="empty slots not hidden",
        wrong=_read(lambda s, t, f: ref.softmax(s + np.log(t))),
        hint="The empty slots take part like all others. → Where does `filled` come in now?",
    ),
    Misconception(
        name="the values of empty slots set to 0",
        wrong=_store_values_zeroed,
        hint="You blank the values of the empty slots, but these slots keep their weight, and the "
        "answers shrink towards 0. → What must an empty slot's weight be, and where is that "
        "decided?",
    ),
    Misconception(
        name="the keys of empty slots set to 0",
        wrong=_store_keys_zeroed,
        hint="You blank the keys of the empty slots: they score 0 then, and e to the power of 0 is "
        "1. → Which score has an exponential of 0?",
    ),
    Misconception(
        name="the logarithm of trust to base 2",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s + np.log2(t), -np.inf))),
        hint="A logarithm of trust is the right thing to add, but not this one: trust counts for "
        "too much. → Which logarithm undoes e to the power of something?",
    ),
    Misconception(
        name="trust left out",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, s, -np.inf))),
        hint="Empty slots are hidden as they should be, but your weights are the same whatever the "
        "trust is. → Where does `trust` come in now?",
    ),
    Misconception(
        name="the logarithm of trust is scaled as well",
        wrong=_store_in_scale,
        hint="You have found what to add, but it was divided by √d_k together with the products: "
        "trust counts for too little. → Which part of the exponent is scaled in the docstring's "
        "formula?",
    ),
    Misconception(
        name="the filled ones hidden",
        wrong=_read(lambda s, t, f: ref.softmax(np.where(f, -np.inf, s + np.log(t)))),
        hint="You hide the filled slots and read the empty ones. → Of the two values that "
        "`np.where` chooses between, which one goes where its condition is True?",
    ),
]


def _store_exps(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[Any, Any]:
    """Multiply the exponentials by trust, with the maximum over filled slots only."""
    scores = np.where(filled, _scores(q, keys), -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    parts = trust * np.exp(scores - np.where(peak == -np.inf, 0.0, peak))
    total = parts.sum(axis=-1, keepdims=True)
    weights = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    return np.einsum("...ij,...jc->...ic", weights, values), weights


def _store_leaving_out(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[Any, Any]:
    """Take the filled slots out, attend to these, and put the weights back in place."""
    weights = np.zeros((*q.shape[:-1], keys.shape[-2]))
    if filled.any():
        weights[..., filled] = _plain_softmax(
            _scores(q, keys[..., filled, :]) + np.log(trust[filled])
        )
    return weights @ values, weights


def _store_loops(
    q: NDArray, keys: NDArray, values: NDArray, trust: NDArray, filled: NDArray
) -> tuple[Any, Any]:
    weights = np.zeros((*q.shape[:-1], keys.shape[-2]))
    answers = np.zeros((*q.shape[:-1], values.shape[-1]))
    seen = [j for j in range(len(filled)) if filled[j]]
    for place in np.ndindex(q.shape[:-1]):
        lead = place[:-1]
        scores = {j: float(q[place] @ keys[(*lead, j)]) / sqrt(q.shape[-1]) for j in seen}
        peak = max(scores.values(), default=0.0)
        parts = {j: float(trust[j]) * exp(s - peak) for j, s in scores.items()}
        for j, part in parts.items():
            weights[(*place, j)] = part / sum(parts.values())
            answers[place] += weights[(*place, j)] * values[(*lead, j)]
    return answers, weights


def _store_torch(q: Any, keys: Any, values: Any, trust: Any, filled: Any) -> tuple[Any, Any]:
    import torch

    scores = q @ keys.mT / sqrt(q.shape[-1]) + torch.log(trust)
    weights = torch.softmax(scores.masked_fill(~filled, -torch.inf), dim=-1).nan_to_num(0.0)
    return weights @ values, weights


_BUG_MASK = Exercise(
    id="05.bug_mask",
    function="read_store",
    reference=read_store,
    cases=_STORE_CASES,
    returns=("answers", "weights"),
    misconceptions=_STORE_WRONG,
    alternatives=[
        Alternative(name="exponentials times trust", right=_store_exps),
        Alternative(name="empty slots left out", right=_store_leaving_out),
        Alternative(name="loops", right=_store_loops),
        Alternative(name="torch", right=_store_torch, backend="torch"),
    ],
    hints=[
        "Add up a row of the weights. Then change the key in an empty slot and look whether the "
        "answer changes: it must not.",
        "The softmax decides who gets which share. Whatever should have a say in it has to be in "
        "the scores by then: an empty slot, and trust too.",
        "e to the power of (s + ln t) is t times e to the power of s, and e to the power of −∞ is "
        "0. Mind the store in which no slot is filled: after your repair its row is all −∞.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 05.bug_batch ----------------------------------------------------------------------------------


def window_attention(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[NDArray, NDArray]:
    """Let each token see itself and the `reach` tokens before it.

    Parameters
    ----------
    q, k, v : float arrays, (..., n, d_k), (..., n, d_k) and (..., n, d_v)
        Left as they are.
    reach : int
        How far back a token sees, at least 0.

    Returns
    -------
    output : float array, (..., n, d_v)
    weights : float array, (..., n, n)
    """
    weights = ref.softmax(np.where(_window(q.shape[-2], reach), _scores(q, k), -np.inf))
    return weights @ v, weights


def window_attention_broken(
    q: NDArray, k: NDArray, v: NDArray, reach: int
) -> tuple[NDArray, NDArray]:
    """Attend in a window, as the exercise's notebook shows it: right for one sequence only."""
    q /= np.sqrt(q.shape[1])
    scores = q @ k.swapaxes(-2, -1)
    place = np.arange(q.shape[-2])
    back = place[:, None] - place[None, :]
    scores = np.where((back >= 0) & (back <= reach), scores, -np.inf)
    exps = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = exps / exps.sum(axis=1, keepdims=True)
    return weights @ v, weights


def _window(n: int, reach: int) -> NDArray:
    back = np.arange(n)[:, None] - np.arange(n)[None, :]
    return (back >= 0) & (back <= reach)


def _windowed(
    seed: int, lead: tuple[int, ...], n: int, d_k: int, d_v: int, reach: int
) -> dict[str, Any]:
    return {**_qkv([seed, 50, n, *lead], lead, n, n, d_k, d_v), "reach": reach}


_WINDOW_CASES = [
    Case(
        name="one sequence of 5 tokens, reach 1",
        inputs=lambda seed: _windowed(seed, (), 5, 3, 2, 1),
        shows="the test that the broken program was released with",
    ),
    Case(
        name="reach 0 in a batch",
        inputs=lambda seed: _windowed(seed, (2,), 3, 4, 5, 0),
        shows="every token sees itself alone",
    ),
    Case(
        name="a batch of 3 sequences of 4 tokens, reach 2",
        inputs=lambda seed: _windowed(seed, (3,), 4, 2, 5, 2),
        shows="each gets what it gets alone",
    ),
    Case(
        name="a batch of 1, reach beyond the beginning",
        inputs=lambda seed: _windowed(seed, (1,), 4, 6, 3, 9),
        shows="the causal mask",
    ),
    Case(
        name="a batch of 2 with 3 heads",
        inputs=lambda seed: _windowed(seed, (2, 3), 5, 4, 7, 2),
        shows="any number of axes in front",
    ),
]


def _windows(
    *,
    scale: Callable[[NDArray], float] = lambda q: sqrt(q.shape[-1]),
    axis: int = -1,
    window: Callable[[int, int], NDArray] = _window,
    fill: float = -np.inf,
    late: bool = False,
    transpose: Callable[[NDArray], NDArray] = lambda k: k.swapaxes(-2, -1),
    in_place: bool = False,
    weigh: Callable[[NDArray], NDArray] | None = None,
) -> Callable[..., tuple[Any, Any]]:
    """Return windowed attention with some steps replaced."""

    def attend(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[Any, Any]:
        scaled = q / scale(q)
        scores = scaled @ transpose(k)
        near = window(q.shape[-2], reach)
        with np.errstate(all="ignore"):
            if late:
                weights = _plain_softmax(scores, axis) * near
            elif weigh is not None:
                weights = weigh(np.where(near, scores, fill))
            else:
                weights = _plain_softmax(np.where(near, scores, fill), axis)
        if in_place:
            q[...] = scaled
        return weights @ v, weights

    return attend


def _scale_second_axis(q: NDArray) -> float:
    return sqrt(q.shape[1])


def _window_one_short(n: int, reach: int) -> NDArray:
    back = np.arange(n)[:, None] - np.arange(n)[None, :]
    return (back >= 0) & (back < max(reach, 1))


def _window_both_sides(n: int, reach: int) -> NDArray:
    return np.abs(np.arange(n)[:, None] - np.arange(n)[None, :]) <= reach


def _window_two_axes(scores: NDArray, shift: int, total: int) -> NDArray:
    """Softmax with its maximum along one axis and its sum along another."""
    exps = np.exp(scores - scores.max(axis=shift, keepdims=True))
    return exps / exps.sum(axis=total, keepdims=True)


def _window_of_first_axis(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[Any, Any]:
    weights = _plain_softmax(np.where(_window(len(q), reach), _scores(q, k), -np.inf))
    return weights @ v, weights


def _window_flattened(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[Any, Any]:
    """Lay all sequences end to end and cut the weights out again."""
    n = q.shape[-2]
    flat_q, flat_k = (x.reshape(-1, x.shape[-1]) for x in (q, k))
    near = _window(len(flat_q), reach)
    weights = ref.softmax(np.where(near, _scores(flat_q, flat_k), -np.inf))
    output = (weights @ v.reshape(-1, v.shape[-1])).reshape(v.shape)
    blocks = weights.reshape(-1, n, len(flat_q) // n, n)
    own = np.stack([block[:, i] for i, block in enumerate(blocks)])
    return output, own.reshape(*q.shape[:-1], n)


_WINDOW_WRONG = [
    Misconception(
        name="the program as it was",
        wrong=window_attention_broken,
        program=as_cell(window_attention_broken, "window_attention"),
        hint="This is what the broken program returns. For one sequence its numbers are right, in "
        "a batch they aren't. → Print q.shape[1] for one sequence and for a batch: which axis is "
        "it, and what else in the program is counted from the front?",
    ),
    Misconception(
        name="the program as it was, but q is copied",
        wrong=_windows(scale=_scale_second_axis, axis=1),
        hint="The caller's queries are safe now, but in a batch the numbers are still wrong. → "
        "Print q.shape[1] for one sequence and for a batch: which axis is it, and what else in the "
        "program is counted from the front?",
    ),
    Misconception(
        name="softmax repaired, scale not, q still overwritten",
        wrong=_windows(scale=_scale_second_axis, in_place=True),
        hint="Each row of weights sums to 1 now, in a batch as well, but they are sharper or more "
        "even than they should be. → By the root of which number are the queries divided in a "
        "batch?",
    ),
    Misconception(
        name="softmax repaired, scale not",
        wrong=_windows(scale=_scale_second_axis),
        hint="Each row of weights sums to 1 now, in a batch as well, but they are sharper or more "
        "even than they should be. → One axis is still counted from the front: by the root of "
        "which number are the queries divided in a batch?",
    ),
    Misconception(
        name="scale repaired, softmax not, q still overwritten",
        wrong=_windows(axis=1, in_place=True),
        hint="The scale is right now, but in a batch it's the columns of the weights that sum to "
        "1. → Which axis is axis 1 when there is a batch axis in front?",
    ),
    Misconception(
        name="scale repaired, softmax not",
        wrong=_windows(axis=1),
        hint="The scale is right now, but in a batch it's the columns of the weights that sum to "
        "1. → Which axis is axis 1 when there is a batch axis in front?",
    ),
    Misconception(
        name="only q is still overwritten",
        wrong=_windows(in_place=True),
        hint="All numbers are right, in a batch as well. One fault is left: after the call the "
        "caller's queries are smaller than before, and a second call gives another answer. "
        "→ Which line changes the array that was passed in?",
    ),
    Misconception(
        name="repaired for exactly one batch axis",
        wrong=_windows(axis=2),
        hint="Right for a batch with one axis in front, and for nothing else: axis 2 is one more "
        "number counted from the front. → Which number names the last axis however many there are?",
    ),
    Misconception(
        name="repaired for one batch axis and for none",
        wrong=lambda q, k, v, reach: _windows(axis=min(q.ndim - 1, 2))(q, k, v, reach),
        hint="Right for one sequence and for a batch with one axis in front, and for nothing else. "
        "→ Which number names the last axis however many there are, so that no case has to be "
        "told from another?",
    ),
    Misconception(
        name="only the sum repaired",
        wrong=_windows(weigh=lambda s: _window_two_axes(s, shift=1, total=-1)),
        hint="The sum runs along the right axis now. The maximum doesn't: in a batch, what you "
        "subtract differs from key to key and doesn't cancel, and where it's −∞ it gives NaN. "
        "→ In which two places does softmax use an axis?",
    ),
    Misconception(
        name="only the maximum repaired",
        wrong=_windows(weigh=lambda s: _window_two_axes(s, shift=-1, total=1)),
        hint="The maximum is taken along the right axis now, the sum isn't: in a batch it's still "
        "not the rows that sum to 1. → In which two places does softmax use an axis?",
    ),
    Misconception(
        name="the length taken from the first axis",
        wrong=_window_of_first_axis,
        hint="In a batch `len(q)` is the number of sequences, so the window comes out too small or "
        "too large. That line of the program wasn't broken. → Which axis holds the tokens, "
        "counted from the end?",
    ),
    Misconception(
        name="scaled twice",
        wrong=_windows(scale=lambda q: float(q.shape[-1])),
        hint="Your weights are more even than they should be: the scores were divided by √d_k "
        "twice. → In which lines do you divide, and is one of them fed by another?",
    ),
    Misconception(
        name="softmax over the last axis but one",
        wrong=_windows(axis=-2),
        hint="You count from the end now, and that's the way; but the axis is the queries', and "
        "even one sequence comes out wrong. → Which axis is axis 1 of (n, n), counted from the "
        "end?",
    ),
    Misconception(
        name="scaled by the length",
        wrong=_windows(scale=lambda q: sqrt(q.shape[-2])),
        hint="You count from the end now, and that's the way; but the scale is the root of the "
        "number of tokens, and even one sequence comes out wrong. → Which axis is axis 1 of "
        "(n, d_k), counted from the end?",
    ),
    Misconception(
        name="k.T turns all axes round",
        wrong=_windows(transpose=lambda k: k.T),
        hint="For one sequence that's right. With batch axes `.T` reverses the order of all axes, "
        "the batch included. That line of the program wasn't broken. → Which two axes change "
        "places, counted from the end?",
    ),
    Misconception(
        name="all sequences laid end to end",
        wrong=_window_flattened,
        hint="Laid end to end, the first tokens of a sequence look back into the one before it. "
        "→ Does anything in these steps need a loop or a reshape, if every axis is counted from "
        "the end?",
    ),
    Misconception(
        name="a window that is one short",
        wrong=_windows(window=_window_one_short),
        hint="The window is one token shorter than it was: with reach 1 a token sees itself *and* "
        "the one before it. That line of the program wasn't broken. → How many tokens does a "
        "token see with reach 2?",
    ),
    Misconception(
        name="a window to both sides",
        wrong=_windows(window=_window_both_sides),
        hint="Your tokens see what comes after them too. That line of the program wasn't broken. "
        "→ In which direction does the docstring let a token look?",
    ),
    Misconception(
        name="the window applied after the softmax",
        wrong=_windows(late=True),
        hint="Tokens outside of the window have weight 0, but the others no longer sum to 1. The "
        "broken program had this right. → At which point did it hide them?",
    ),
    Misconception(
        name="no scale",
        wrong=_windows(scale=lambda q: 1.0),
        hint="The line that changed the caller's queries is gone, and the scale with it: your "
        "weights are too sharp. → Where else can the division by √d_k be done?",
    ),
]


def _window_einsum(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[Any, Any]:
    n = q.shape[-2]
    near = np.tri(n, dtype=bool) & ~np.tri(n, k=-reach - 1, dtype=bool)
    scores = np.einsum("...ic,...jc->...ij", q, k) / sqrt(q.shape[-1])
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True)) * near
    weights = exps / exps.sum(axis=-1, keepdims=True)
    return np.einsum("...ij,...jc->...ic", weights, v), weights


def _window_token_by_token(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[Any, Any]:
    """Slice each token's window out of the keys and values: no mask at all."""
    n = q.shape[-2]
    weights = np.zeros((*q.shape[:-1], n))
    output = np.zeros(v.shape)
    for i in range(n):
        start = max(0, i - reach)
        own_q, keys = q[..., i : i + 1, :], k[..., start : i + 1, :]
        p = _plain_softmax(_scores(own_q, keys))
        weights[..., i : i + 1, start : i + 1] = p
        output[..., i : i + 1, :] = p @ v[..., start : i + 1, :]
    return output, weights


def _window_one_by_one(q: NDArray, k: NDArray, v: NDArray, reach: int) -> tuple[Any, Any]:
    """Run the old program on copies, one sequence at a time: right, if slow."""
    lead, n = q.shape[:-2], q.shape[-2]
    output, weights = np.empty(v.shape), np.empty((*lead, n, n))
    for place in np.ndindex(lead):
        parts = window_attention_broken(q[place].copy(), k[place], v[place], reach)
        output[place], weights[place] = parts
    return output, weights


def _window_torch(q: Any, k: Any, v: Any, reach: int) -> tuple[Any, Any]:
    import torch

    n = q.shape[-2]
    near = torch.ones(n, n, dtype=torch.bool).tril().triu(-reach)
    scores = (q @ k.transpose(-2, -1) / sqrt(q.shape[-1])).masked_fill(~near, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


_BUG_BATCH = Exercise(
    id="05.bug_batch",
    function="window_attention",
    reference=window_attention,
    cases=_WINDOW_CASES,
    returns=("output", "weights"),
    misconceptions=_WINDOW_WRONG,
    alternatives=[
        Alternative(name="einsum, exponentials masked", right=_window_einsum),
        Alternative(name="token by token", right=_window_token_by_token),
        Alternative(name="sequence by sequence", right=_window_one_by_one),
        Alternative(name="torch", right=_window_torch, backend="torch"),
    ],
    hints=[
        "Call the program on one sequence, and on a batch that holds this sequence twice. Where do "
        "the two differ first: in the scores, or in the weights?",
        "Go through the program and write beside every axis which one it is for one sequence, "
        "(n, d_k), and for a batch, (b, n, d_k). Counted from the end, an axis keeps its meaning.",
        "Two numbers should be counted from the end in three places. And the first line does "
        "something to its caller: call the program twice with the same arrays and compare.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES: list[Exercise] = [
    _SOFTMAX,
    _ATTENTION,
    _SOFTMAX_BACKWARD,
    _ATTENTION_BACKWARD,
    _TEMPERATURE,
    _BUG_AXIS,
    _BUG_MASK,
    _BUG_BATCH,
]

#: The broken programs as the page shows them.
BROKEN = {
    "05.bug_axis": biased_attention_broken,
    "05.bug_mask": read_store_broken,
    "05.bug_batch": window_attention_broken,
}
