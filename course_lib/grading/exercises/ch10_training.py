"""The exercises of chapter 10: what training needs besides a model, and a loop that's broken.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.optimizer_steps import ADAM, CLIP
from course_lib.grading.exercises.smoothing import LABEL_SMOOTHING, SMOOTHING_GRADIENT
from course_lib.grading.exercises.training_bugs import BROKEN, BUG_TRAINING
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import optimization as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BROKEN", "EXERCISES", "exact_match"]


# -- 10.shift_right --------------------------------------------------------------------------------


def _texts(lengths: list[int], n: int, bos: int = 1) -> Callable[[int], dict[str, Any]]:
    """Draw targets that end with 2, padded with 0."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 1, *lengths])
        ids = np.stack([rng.permutation(np.arange(3, 3 + n)) for _ in lengths])
        for row, length in zip(ids, lengths, strict=True):
            row[length - 1] = 2
            row[length:] = 0
        return {"ids": ids, "bos": bos}

    return build


def _two_lists(seed: int) -> dict[str, Any]:
    """Draw two lists of three targets."""
    rng = np.random.default_rng([seed, 1, 0])
    return {"ids": rng.permutation(np.arange(3, 27)).reshape(2, 3, 4), "bos": 1}


_SHIFT_CASES = [
    case(
        "2 targets of 4 tokens | the first is predicted from <bos>, the last is read by nobody",
        {"ids": np.array([[7, 5, 9, 2], [6, 3, 8, 2]]), "bos": 1},
    ),
    case("3 targets of 5 tokens | each row by itself", _texts([5, 5, 5], 5)),
    case(
        "3 targets of 6, 4 and 2 tokens, padded | the last column goes, whatever it holds",
        _texts([6, 4, 2], 6),
    ),
    case("a row without a batch | (n)", {"ids": np.array([6, 3, 8, 4, 2]), "bos": 1}),
    case("one token | <bos> alone", {"ids": np.array([[2], [5]]), "bos": 1}),
    case("<bos> is 50 | as it's given", _texts([4, 4], 4, bos=50)),
    case("2 lists of 3 targets | any axes in front", _two_lists),
]

Ids = Callable[[Any, int], Any]


def _bos_like(ids: NDArray, bos: int) -> NDArray:
    return np.full_like(ids[..., :1], bos)


def _shift(ids: NDArray, bos: int) -> NDArray:
    return np.concatenate([_bos_like(ids, bos), ids[..., :-1]], axis=-1)


def _shift_in_place(ids: NDArray, bos: int) -> Any:
    ids[..., 1:] = ids[..., :-1].copy()
    ids[..., 0] = bos
    return ids


def _first_replaced(ids: NDArray, bos: int) -> Any:
    new = ids.copy()
    new[..., 0] = bos
    return new


def _rolled(by: int, put: bool) -> Ids:
    def shift(ids: NDArray, bos: int) -> Any:
        new = np.roll(ids, by, axis=-1)
        if put:
            new[..., 0 if by > 0 else -1] = bos
        return new

    return shift


def _over_the_rows(ids: NDArray, bos: int) -> Any:
    """Shift along the first axis."""
    new = np.full_like(ids, bos)
    new[1:] = ids[:-1]
    return new


def _flattened(ids: NDArray, bos: int) -> Any:
    return np.concatenate([[bos], ids.ravel()[:-1]]).reshape(ids.shape)


def _second_axis(ids: NDArray, bos: int) -> Any:
    """Take the second axis for the tokens."""
    new = np.full_like(ids, bos)
    new[:, 1:] = ids[:, :-1]
    return new


def _last_real_dropped(ids: NDArray, bos: int) -> Any:
    """Take 0 for padding, and drop the last token before it."""
    new = _shift(ids, bos)
    ends = (ids != 0).sum(axis=-1, keepdims=True)
    return np.where(np.arange(ids.shape[-1]) < ends, new, 0)


def _by_two(ids: NDArray, bos: int) -> Any:
    return _shift(_shift(ids, bos), bos)


def _smeared(ids: NDArray, bos: int) -> Any:
    """Go from left to right in one copy, so that a token overwrites the next before it's moved."""
    new = ids.copy()
    for i in range(1, ids.shape[-1]):
        new[..., i] = new[..., i - 1]
    new[..., 0] = bos
    return new


def _hstacked(ids: NDArray, bos: int) -> Any:
    return np.hstack([np.full((len(ids), 1), bos), ids[:, :-1]])


def _rolled_rows(ids: NDArray, bos: int) -> Any:
    new = np.roll(ids, 1, axis=-1)
    new[:, 0] = bos
    return new


def _first_row_replaced(ids: NDArray, bos: int) -> Any:
    new = ids.copy()
    new[0] = bos
    return new


_TWO_AXES = (
    "Your function takes for granted that there are two axes, so a single row stops it, and "
    "more axes in front lead it astray. → How is the last axis named, however many there are?"
)

_SHIFT_WRONG = [
    wrong(
        lambda ids, bos: ids.copy(),
        "not shifted | Where the decoder is to predict a token, it reads that very token: it would "
        "learn to copy. → What should it have read before the first token?",
    ),
    wrong(
        lambda ids, bos: np.concatenate([_bos_like(ids, bos), ids], axis=-1),
        "nothing dropped | Your rows are one token longer than the targets, so positions no "
        "longer match. → Which token does nobody have to read, since nothing is predicted from "
        "it?",
    ),
    wrong(
        _first_replaced,
        "<bos> in the place of the first token | You overwrite the first token; the others stay "
        "where they were, so each is predicted from itself. → To which column does the first token "
        "go?",
    ),
    wrong(
        _rolled(1, put=False),
        "the last token comes round | The last token of a row has come round to its front, as "
        "`np.roll` does it. → What should stand there?",
    ),
    wrong(
        _rolled(-1, put=True),
        "shifted the other way | You drop the first token and put <bos> at the end, so a token is "
        "read before it should be predicted. → Which end does <bos> belong to?",
    ),
    wrong(
        _rolled(-1, put=False),
        "shifted the other way, and round | You move tokens to the left, and the first comes round "
        "to the end. → What does the decoder read when it has to predict the first token?",
    ),
    wrong(
        lambda ids, bos: np.concatenate([ids, _bos_like(ids, bos)], axis=-1),
        "<bos> at the end | You add <bos> behind the last token, so your rows are longer than the "
        "targets. → What does the decoder read when "
        "it has to predict the first token?",
    ),
    wrong(
        lambda ids, bos: (
            np.concatenate([_bos_like(ids, bos), ids[..., 1:-1]], axis=-1)
            if ids.shape[-1] > 1
            else ids.copy()
        ),
        "a token lost at both ends | Your rows are one token too short: <bos> takes the place of "
        "the first token, and the last is dropped as well. → How many tokens go, if one comes?",
    ),
    wrong(
        lambda ids, bos: ids[..., :-1].copy(),
        "nothing put in front | You drop the last token, and put nothing in front. → What does the "
        "decoder read when it has to predict the first token?",
    ),
    wrong(
        _over_the_rows,
        "shifted along the rows | You move whole targets down by one, so each sentence is "
        "predicted from the one before. → Along which axis do tokens follow one another?",
    ),
    wrong(
        _flattened,
        "across the rows | You shift one long list: the last token of a row goes to the front of "
        "the next one. → With what does every row begin?",
    ),
    wrong(
        lambda ids, bos: np.insert(ids, 0, bos)[:-1],
        "np.insert without an axis | `np.insert` without an axis makes one long list first, so "
        "the rows are gone. → Which argument says along which axis to insert?",
    ),
    wrong(
        _second_axis,
        "the second axis for the last | You shift along axis 1. With a single row, or more axes in "
        "front, that's not where the tokens are. → How is an axis counted from the end?",
    ),
    wrong(_hstacked, f"a column in front of two axes | {_TWO_AXES}"),
    wrong(_rolled_rows, f"rolled, with two axes | {_TWO_AXES}"),
    wrong(
        _first_row_replaced,
        "the first row overwritten | `new[0] = bos` overwrites the whole first row; nothing is "
        "shifted. → How is the first *column* named, whatever axes stand in front?",
    ),
    wrong(
        lambda ids, bos: np.pad(ids, (1, 0), constant_values=bos)[..., :-1],
        "padded on all axes | `np.pad(ids, (1, 0))` puts <bos> in front along *every* axis, so you "
        "get a row more as well. → Which axes need the widths (0, 0)?",
    ),
    wrong(
        _last_real_dropped,
        "the last token before padding dropped | this exercise uses the plain shift, which drops "
        "the last column; you take 0 for padding and drop <eos> in each row. No loss is computed "
        "there, so both train alike. → How would the function know what padding is?",
        variant=True,
    ),
    wrong(
        _by_two,
        "shifted by two | Your rows begin with <bos> twice: each token is predicted without the "
        "one before it. → How many tokens before the one that it predicts does the decoder read up "
        "to?",
    ),
    wrong(
        _smeared,
        "overwritten on the way | After <bos> your rows hold the first token again and again: "
        "going from left to right, each token overwrites the next before that has been moved. → "
        "From which array should the moved tokens be read?",
    ),
    wrong(
        lambda ids, bos: np.full_like(ids, bos),
        "<bos> everywhere | All your tokens are <bos>: it is carried on from column to column, or "
        "the others are never filled in. → From which array should the moved tokens be read?",
    ),
    wrong(
        lambda ids, bos: _shift(ids, 0),
        "0 for <bos> | A 0 stands in front, whatever <bos> is; here 0 would be padding. → Which "
        "argument says what comes first?",
    ),
    wrong(
        lambda ids, bos: _shift(ids, 1),
        "<bos> is always 1 | You put 1 in front, whatever is asked for. → Which argument says what "
        "comes first?",
    ),
    wrong(
        _shift_in_place,
        "ids overwritten | The result is right, but the caller's targets have been shifted too, "
        "and they're needed for the loss. → Which line writes into `ids`?",
    ),
]


def _shift_loops(ids: NDArray, bos: int) -> Any:
    shifted = ids.copy()
    for place in np.ndindex(ids.shape):
        shifted[place] = bos if place[-1] == 0 else ids[(*place[:-1], place[-1] - 1)]
    return shifted


def _shift_padded(ids: NDArray, bos: int) -> Any:
    widths = [(0, 0)] * (ids.ndim - 1) + [(1, 0)]
    return np.pad(ids, widths, constant_values=bos)[..., :-1]


def _shift_rolled(ids: NDArray, bos: int) -> Any:
    return _rolled(1, put=True)(ids, bos)


def _shift_torch(ids: Any, bos: int) -> Any:
    shifted = ids.new_full(ids.shape, bos)
    shifted[..., 1:] = ids[..., :-1]
    return shifted


_SHIFT_RIGHT = Exercise(
    id="10.shift_right",
    function="shift_right",
    reference=ref.shift_right,
    cases=_SHIFT_CASES,
    returns=("decoder_input",),
    misconceptions=_SHIFT_WRONG,
    alternatives=[
        ("loops", _shift_loops),
        ("padded", _shift_padded),
        ("rolled", _shift_rolled),
        Alternative(name="torch", right=_shift_torch, backend="torch"),
    ],
    hints=[
        "Write the target below what the decoder reads, column by column. In which column does "
        "the decoder read the target's first token?",
        "The result has the shape of `ids`: a column of <bos>, then all columns but the last.",
        "`ids[..., :-1]` is all but the last column whatever axes stand in front. `np.full_like` "
        "makes an array of the same shape and dtype that can be filled.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 10.warmup -------------------------------------------------------------------------------------

_WARMUP_CASES = [
    case(
        "step 2000 of 4000, d = 512 | half of the top, which is 1/√(d · n_warmup)",
        {"step": 2000, "d_model": 512, "n_warmup": 4000},
    ),
    case(
        "steps 1 to 9, d = 16, 4 of them warm-up | up, then down",
        {"step": np.arange(1, 10), "d_model": 16, "n_warmup": 4},
    ),
    case(
        "the same steps, d = 64 | half as fast",
        {"step": np.arange(1, 10), "d_model": 64, "n_warmup": 4},
    ),
    case(
        "long after the rise | four times the steps, half the rate",
        {"step": np.array([1000, 4000, 16000]), "d_model": 100, "n_warmup": 10},
    ),
    case(
        "a warm-up of one step | down from the start",
        {"step": np.array([1, 2, 4, 9]), "d_model": 25, "n_warmup": 1},
    ),
    case(
        "before the top | in a straight line from 0",
        {"step": np.array([[10, 20], [40, 80]]), "d_model": 128, "n_warmup": 100},
    ),
    case("the first step of 400 | a single number", {"step": 1, "d_model": 64, "n_warmup": 400}),
]


def _warmup(
    *,
    rise: Callable[..., Any] = lambda t, w: t * w**-1.5,
    fall: Callable[..., Any] = lambda t, w: t**-0.5,
    width: Callable[[float], float] = lambda d: d**-0.5,
    which: Callable[[Any, Any], Any] = np.minimum,
    count: Callable[[Any], Any] = lambda t: t,
    after: Callable[..., Any] = lambda rate, d, w: rate,
) -> Callable[..., Any]:
    """Return the schedule with some parts replaced."""

    def schedule(step: Any, d_model: int, n_warmup: int) -> Any:
        t, d, w = count(np.asarray(step, dtype=float)), float(d_model), float(n_warmup)
        with np.errstate(all="ignore"):
            return after(width(d) * which(rise(t, w), fall(t, w)), d, w)

    return schedule


def _plain_min(step: Any, d_model: int, n_warmup: int) -> Any:
    return d_model**-0.5 * min(step**-0.5, step * n_warmup**-1.5)


def _into_integers(step: Any, d_model: int, n_warmup: int) -> Any:
    rates = np.zeros_like(step)
    rates[...] = _warmup()(step, d_model, n_warmup)
    return rates if rates.ndim else float(_warmup()(step, d_model, n_warmup))


def _integer_powers(step: Any, d_model: int, n_warmup: int) -> Any:
    return d_model**-0.5 * np.minimum(np.asarray(step) ** -1, step * n_warmup**-1.5)


def _min_of_two(step: Any, d_model: int, n_warmup: int) -> Any:
    return d_model**-0.5 * np.min(step**-0.5, step * n_warmup**-1.5)


def _min_of_all(step: Any, d_model: int, n_warmup: int) -> Any:
    return d_model**-0.5 * np.min([step**-0.5, step * n_warmup**-1.5])


def _no_brackets(step: Any, d_model: int, n_warmup: int) -> Any:
    return d_model**-1 / 2 * np.minimum(step**-1 / 2, step * n_warmup**-3 / 2)


_WARMUP_WRONG = [
    wrong(
        _min_of_two,
        "np.min of two things | Your function stops with a TypeError: `np.min(a, b)` takes b for "
        "an axis, and functions of torch want tensors. → What compares two things number by "
        "number, be they arrays or single numbers?",
    ),
    wrong(
        _min_of_all,
        "one minimum of all | For one step you're right; of many steps at once you take the "
        "smallest number of all. → Which function of numpy compares two arrays number by number?",
    ),
    wrong(
        _no_brackets,
        "−1/2 without brackets | `x**-1/2` is (1/x)/2 in Python: the power comes before the "
        "division. → Where do brackets have to stand around −1/2 and −3/2?",
    ),
    wrong(
        _warmup(rise=lambda t, w: t * w**-3 / 2),
        "−3/2 without brackets | `n_warmup**-3/2` is n_warmup⁻³ divided by 2: the power comes "
        "before the division. → Where do brackets have to stand?",
    ),
    wrong(
        _warmup(width=lambda d: d**-1 / 2),
        "−1/2 without brackets, for the width | `d_model**-1/2` is half of 1/d_model: the power "
        "comes before the division. → Where do brackets have to stand?",
    ),
    wrong(
        _warmup(rise=lambda t, w: t * w**-0.5, fall=lambda t, w: t**-1.5),
        "the two exponents swapped | The exponent of the step and that of n_warmup have changed "
        "places. → With which power of the step should the rate fall?",
    ),
    wrong(
        _warmup(rise=lambda t, w: w**-0.5 + 0.0 * t, fall=lambda t, w: w * t**-1.5),
        "step and n_warmup swapped | `step` and `n_warmup` have changed places, so the rate is "
        "constant at first. → Which of the two should grow inside the minimum from step to step?",
    ),
    wrong(
        _warmup(which=lambda rise, fall: rise * fall, rise=lambda t, w: np.minimum(1.0, t / w)),
        "the rise times the fall | After the warm-up you're right; in it you multiply a rise to 1 "
        "by a fall that has begun already, so you start too high. → Which one of the two counts "
        "in a step?",
    ),
    wrong(
        _warmup(fall=lambda t, w: w**-0.5 * np.maximum(0.0, 2.0 - t / w)),
        "a straight fall | After the top your rate falls in a straight line, as fast as it rose. → "
        "With which power of the step should it fall?",
    ),
    wrong(
        _warmup(which=np.maximum),
        "the larger one | You take the larger of rise and fall: the rate starts high, falls, and "
        "rises without an end. → Which of the two is smaller in the first step, and which after "
        "many?",
    ),
    wrong(
        _plain_min,
        "min or if of an array | With several steps at once your function stops with a "
        "ValueError: `min` or `if` asks whether an array is true. → Which function of numpy "
        "compares two arrays number by number?",
    ),
    wrong(
        _warmup(width=lambda d: d**0.5),
        "times √d | You multiply by √d_model, so wider models get larger rates. → Which sign does "
        "the exponent of d_model have?",
    ),
    wrong(
        _warmup(width=lambda d: 1.0),
        "d_model left out | Your rate is the same for all widths, and √d_model times too large. → "
        "By what is the minimum multiplied?",
    ),
    wrong(
        _warmup(width=lambda d: 1.0 / d),
        "divided by d | You divide by d_model, not by its root. → What is the exponent of d_model?",
    ),
    wrong(
        _warmup(which=lambda rise, fall: fall),
        "no rise | Your rate falls from the first step on: there is no warm-up, or it's so steep "
        "that it's never the smaller part. → What is t·n_warmup^p at t = n_warmup, and what should "
        "it be?",
    ),
    wrong(
        _warmup(which=lambda rise, fall: rise),
        "no fall | Your rate rises without an end: only the first part of the formula is there. → "
        "From which step on should it fall?",
    ),
    wrong(
        _warmup(fall=lambda t, w: 0.0 * t + w**-0.5),
        "constant after the rise | After the warm-up your rate stays where it is. → With which "
        "power of the step should it fall?",
    ),
    wrong(
        _warmup(fall=lambda t, w: w**0.5 / t),
        "falls with 1/step | After the top your rate falls with the step itself: four times the "
        "steps, a quarter of the rate. → With which power of the step should it fall?",
    ),
    wrong(
        _warmup(rise=lambda t, w: t / w, fall=lambda t, w: t**-0.5),
        "the rise to 1 | Your rise is step/n_warmup, which meets the fall far too early and too "
        "high. → What must the rise be at step n_warmup, so that both meet there?",
    ),
    wrong(
        _warmup(rise=lambda t, w: t * w**-0.5),
        "the exponent −½ for n_warmup | Your rise is n_warmup times too steep, so it's hardly one: "
        "it meets the fall at once. → What is t·n_warmup^p at t = n_warmup, and what should it be?",
    ),
    wrong(
        _warmup(rise=lambda t, w: t**1.5 * w**-2.0),
        "a curved rise | Your rate rises, but not in a straight line: at half the warm-up it "
        "should be half of the top. → With which power of the step should it rise?",
    ),
    wrong(
        _warmup(rise=lambda t, w: t * w**-2 / w**0.5),
        "the exponent −2½ for n_warmup | Your rise is too flat: at step n_warmup it hasn't met the "
        "fall. → What is t·n_warmup^p at t = n_warmup, and what should it be?",
    ),
    wrong(
        _warmup(fall=lambda t, w: t**0.5),
        "the sign of the step's exponent | Your second part grows with the step, where it should "
        "fall. → What is step^(−½), written with a root?",
    ),
    wrong(
        _warmup(which=np.add),
        "added | You add rise and fall, so your rate is too high everywhere. → Which of the two "
        "counts in a step?",
    ),
    wrong(
        _warmup(which=np.multiply),
        "multiplied | You multiply rise and fall; the commas of the formula stand between two "
        "things to choose from. → Which of the two counts in a step?",
    ),
    wrong(
        _warmup(count=lambda t: t + 1.0),
        "steps counted from 0 | this exercise uses steps counted from 1; yours adds 1 to them, as "
        "one needs where the first step is called 0. → What is `step` in the first step?",
        variant=True,
    ),
    wrong(
        _warmup(count=lambda t: t - 1.0),
        "a step behind | You use step − 1, so the first step has the rate 0, and nothing is "
        "learned in it. → What is `step` in the first step?",
    ),
    wrong(
        _warmup(after=lambda rate, d, w: rate * d**0.5 * w**0.5),
        "a factor with the top at 1 | this exercise uses the rate itself; yours is a factor "
        "that reaches 1 at the top, to be multiplied by a rate of one's own choice. → What should "
        "the value at step n_warmup be?",
        variant=True,
    ),
    wrong(
        _warmup(after=lambda rate, d, w: rate * w**0.5),
        "the top at 1/√d | Your curve has the right form, and is √n_warmup times too high: it goes "
        "up to 1/√d_model. → What are both parts at step n_warmup?",
    ),
    wrong(
        _warmup(width=lambda d: 1.0 / 512**0.5),
        "d_model is always 512 | You have the paper's width in your function. → Where does it use "
        "`d_model`?",
    ),
    wrong(
        _warmup(
            rise=lambda t, w: t * 4000**-1.5,
        ),
        "n_warmup is always 4000 | You have the paper's warm-up in your function. → Where does it "
        "use `n_warmup`?",
    ),
    wrong(
        _into_integers,
        "rates cut to whole numbers | Your rates are put into an array of whole numbers, as "
        "`np.zeros_like(step)` is one, and all become 0. → Which dtype should the result have?",
    ),
    wrong(
        _integer_powers,
        "a whole power of whole numbers | numpy refuses to raise whole numbers to the power −1, "
        "and the exponent is another one. → With which power of the step should the rate fall?",
    ),
]


def _warmup_branches(step: Any, d_model: int, n_warmup: int) -> Any:
    top = 1 / np.sqrt(d_model * n_warmup)
    t = np.asarray(step)
    return np.where(t < n_warmup, top * t / n_warmup, top * np.sqrt(n_warmup / t))


def _warmup_one_by_one(step: Any, d_model: int, n_warmup: int) -> Any:
    rates = [
        d_model ** (-1 / 2) * min(int(t) ** (-1 / 2), int(t) * n_warmup ** (-3 / 2))
        for t in np.ravel(step)
    ]
    return np.reshape(rates, np.shape(step))


def _warmup_logs(step: Any, d_model: int, n_warmup: int) -> Any:
    log_t, log_w = np.log(step), np.log(n_warmup)
    return np.exp(-np.log(d_model) / 2 + np.minimum(-log_t / 2, log_t - 1.5 * log_w))


def _warmup_torch(step: Any, d_model: int, n_warmup: int) -> Any:
    import torch

    t = torch.as_tensor(step, dtype=torch.float64)
    return d_model**-0.5 * torch.minimum(t.rsqrt(), t * n_warmup**-1.5)


_WARMUP = Exercise(
    id="10.warmup",
    function="warmup_schedule",
    reference=ref.warmup_schedule,
    cases=_WARMUP_CASES,
    returns=("rate",),
    misconceptions=_WARMUP_WRONG,
    alternatives=[
        ("two branches", _warmup_branches),
        ("one by one", _warmup_one_by_one),
        ("logarithms", _warmup_logs),
        Alternative(name="torch", right=_warmup_torch, backend="torch"),
    ],
    hints=[
        "Two curves: one rises in a straight line, one falls with the root of the step. In every "
        "step the smaller one counts. They meet at step n_warmup.",
        "`min` of Python takes single numbers. `np.minimum` compares arrays number by number, and "
        "takes single numbers too.",
        "`d_model**-0.5` is one over the root. The two parts are `step**-0.5` and "
        "`step * n_warmup**-1.5`.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 10.exact_match --------------------------------------------------------------------------------


def exact_match(predictions: NDArray, targets: NDArray, pad: int) -> tuple[NDArray, float]:
    """Return which rows are predicted without an error, and their share.

    Parameters
    ----------
    predictions : integer array, (..., n_p)
        A row that is shorter than its target's real tokens is wrong.
    targets : integer array, (..., n)
    pad : int
        The id of padding in `targets`.

    Returns
    -------
    right : boolean array, (...)
    share : float
    """
    right: NDArray = _match()(predictions, targets, pad)[0]
    return right, ref.exact_match(predictions, targets, pad)


_TARGETS = np.array(
    [
        [5, 3, 8, 4, 2],
        [7, 6, 2, 0, 0],
        [9, 2, 0, 0, 0],
        [4, 4, 6, 2, 0],
        [8, 3, 2, 0, 0],
        [6, 5, 2, 0, 0],
        [3, 9, 7, 2, 0],
    ]
)
_STOPPED = np.array(  # padded after <eos>, as a generator that knows when to stop does it
    [
        [5, 3, 8, 4, 2],
        [7, 6, 2, 0, 0],
        [9, 2, 0, 0, 0],
        [4, 6, 4, 2, 0],  # the right tokens in another order
        [8, 2, 0, 0, 0],  # stopped early
        [6, 5, 5, 2, 0],  # a token twice
        [0, 0, 0, 0, 0],  # nothing said
    ]
)
_WENT_ON = np.array(  # what comes after <eos> is anything
    [
        [5, 3, 8, 4, 2],
        [7, 6, 2, 7, 6],
        [9, 2, 2, 2, 2],
        [4, 4, 6, 3, 2],
        [8, 0, 2, 0, 0],  # a gap
        [6, 5, 0, 2, 0],
        [3, 9, 7, 2, 0],
    ]
)

_MATCH_CASES = [
    case(
        "5 rows of 3 tokens, nothing padded | one wrong token makes a row wrong",
        {
            "predictions": np.array([[5, 6, 2], [7, 8, 2], [8, 9, 9], [3, 4, 2], [6, 6, 6]]),
            "targets": np.array([[5, 6, 2], [7, 9, 2], [8, 9, 2], [3, 4, 2], [7, 3, 2]]),
            "pad": 0,
        },
    ),
    case(
        "7 padded rows, predictions that stop | a row that stopped early isn't right",
        {"predictions": _STOPPED, "targets": _TARGETS, "pad": 0},
    ),
    case(
        "predictions that go on after <eos> | beyond the target nothing is looked at",
        {"predictions": _WENT_ON, "targets": _TARGETS, "pad": 0},
    ),
    case(
        "predictions of 7 tokens for targets of 5 | nor is what is longer",
        {
            "predictions": np.concatenate([_WENT_ON, _WENT_ON[:, ::-1][:, :2]], axis=1),
            "targets": _TARGETS,
            "pad": 0,
        },
    ),
    case(
        "predictions of 3 tokens for targets of 5 | enough for a short target only",
        {"predictions": _STOPPED[:, :3].copy(), "targets": _TARGETS, "pad": 0},
    ),
    case(
        "padding is 9, and 0 a token like any other | as it's given",
        {
            "predictions": np.array([[0, 4, 2, 1], [3, 0, 2, 2], [0, 0, 0, 2], [5, 0, 0, 1]]),
            "targets": np.array([[0, 4, 2, 9], [3, 2, 9, 9], [0, 0, 0, 2], [5, 0, 2, 9]]),
            "pad": 9,
        },
    ),
    case(
        "2 lists of 3 rows | any axes in front",
        {
            "predictions": np.stack([_STOPPED[:3], _WENT_ON[3:6]]),
            "targets": np.stack([_TARGETS[:3], _TARGETS[3:6]]),
            "pad": 0,
        },
    ),
]


def _widened(predictions: NDArray, targets: NDArray) -> NDArray:
    """Cut predictions to the targets' length, or fill up with an id that no target has."""
    n = targets.shape[-1]
    missing = max(0, n - predictions.shape[-1])
    widths = [(0, 0)] * (predictions.ndim - 1) + [(0, missing)]
    return np.pad(predictions, widths, constant_values=-1)[..., :n]


def _match(
    *,
    fit: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]] = lambda p, t: (_widened(p, t), t),
    real: Callable[[NDArray, NDArray, int], NDArray] = lambda p, t, pad: t != pad,
    equal: Callable[[NDArray, NDArray, int], NDArray] = lambda p, t, pad: p == t,
    row: Callable[[NDArray, NDArray], NDArray] = lambda hit, real: (hit | ~real).all(axis=-1),
    share: Callable[[NDArray, NDArray, NDArray], Any] = lambda right, hit, real: right.mean(),
    returns: Callable[[Any, Any], Any] = lambda right, share: (right, share),
) -> Callable[..., Any]:
    """Return exact match with some parts replaced."""

    def match(predictions: NDArray, targets: NDArray, pad: int) -> Any:
        p, t = fit(predictions, targets)
        looked_at, hit = real(p, t, pad), equal(p, t, pad)
        right = row(hit, looked_at)
        return returns(right, share(right, hit, looked_at))

    return match


def _shorter(p: NDArray, t: NDArray) -> tuple[NDArray, NDArray]:
    n = min(p.shape[-1], t.shape[-1])
    return p[..., :n], t[..., :n]


def _as_they_are(p: NDArray, t: NDArray) -> tuple[NDArray, NDArray]:
    return p, t


def _stripped(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Drop padding from both, then compare."""
    right = np.zeros(targets.shape[:-1], dtype=bool)
    for place in np.ndindex(right.shape):
        p, t = predictions[place], targets[place]
        right[place] = list(p[p != pad]) == list(t[t != pad])
    return right, right.mean()


def _first_axis(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    pairs = zip(_widened(predictions, targets), targets, strict=True)
    right = np.array([((p == t) | (t == pad)).all() for p, t in pairs])
    return right, right.mean()


def _filled(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Fill what is too short with padding, and compare everything."""
    n = max(predictions.shape[-1], targets.shape[-1])
    p, t = (
        np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])], constant_values=pad)
        for x in (predictions, targets)
    )
    right = (p == t).all(axis=-1)
    return right, right.mean()


def _padding_written(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Blank out what is beyond the target, in the caller's own array."""
    answer = _match()(predictions, targets, pad)
    n = min(predictions.shape[-1], targets.shape[-1])
    predictions[..., :n][targets[..., :n] == pad] = pad
    return answer


def _last_real(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Overwrite the verdict column by column, so that the last one decides."""
    p = _widened(predictions, targets)
    last = np.maximum((targets != pad).cumsum(axis=-1).argmax(axis=-1), 0)[..., None]
    right = (np.take_along_axis(p, last, -1) == np.take_along_axis(targets, last, -1))[..., 0]
    return right, right.mean()


def _first_axis_flat(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Take what is real of an entry of the first axis, whatever that is."""
    right = []
    for p, t in zip(predictions, targets, strict=True):
        real = t[t != pad]
        right.append(np.array_equal(p[: len(real)], real))
    return np.array(right), np.mean(right)


def _nothing_left_out(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Compare all columns that both have; a real token that is cut off makes a row wrong."""
    p, t = _shorter(predictions, targets)
    right = (p == t).all(axis=-1) & (targets[..., t.shape[-1] :] == pad).all(axis=-1)
    return right, right.mean()


def _two_axes(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Cut and compare along axis 1."""
    n = min(predictions.shape[1], targets.shape[1])
    right = ((predictions[:, :n] == targets[:, :n]) | (targets[:, :n] == pad)).all(axis=1)
    right = right & (targets[:, n:] == pad).all(axis=1)
    return right, right.mean()


def _other_lengths_wrong(too: Callable[[int, int], bool]) -> Callable[..., Any]:
    def match(predictions: NDArray, targets: NDArray, pad: int) -> Any:
        right = _match()(predictions, targets, pad)[0]
        if too(predictions.shape[-1], targets.shape[-1]):
            right = np.zeros_like(right)
        return right, right.mean()

    return match


_MATCH_WRONG = [
    wrong(
        _last_real,
        "the last token decides | A row's verdict is that of its last real token: what was found "
        "wrong before is overwritten. → What may change a row from right to wrong, and what back?",
    ),
    wrong(
        _first_axis_flat,
        "an entry of the first axis for a row | You go over the first axis; with a list of lists "
        "that takes a whole list for a row. → Which axis holds the tokens of one row, counted from "
        "the end?",
    ),
    wrong(
        _two_axes,
        "axis 1 for the last | For one list of rows you're right. In a list of lists, axis 1 holds "
        "the rows, not the tokens. → How is the last axis named, however many there are?",
    ),
    wrong(
        _match(share=lambda right, hit, real: np.round(right.mean(), 2)),
        "rounded | Your rows are right, but the share is rounded. → Who should round a number: "
        "what computes it, or what prints it?",
    ),
    wrong(
        _other_lengths_wrong(lambda n_p, n: n_p != n),
        "another length is always wrong | Where predictions have another length than the targets "
        "you call all rows wrong. But targets are padded, and what is beyond them counts for "
        "nothing. → Which columns of a row have to be there?",
    ),
    wrong(
        _other_lengths_wrong(lambda n_p, n: n_p < n),
        "too short is always wrong | Where predictions are shorter than the padded targets you "
        "call all rows wrong, also those whose own target is short enough. → Which columns of a "
        "row have to be there?",
    ),
    wrong(
        _match(share=lambda right, hit, real: right.sum() / len(right)),
        "divided by the first axis | Your rows are right, and for one list of them the share too. "
        "In a list of lists you divide by the number of lists. → How many rows are there, if "
        "`right` has two axes?",
    ),
    wrong(
        _match(share=lambda right, hit, real: (hit & real).sum() / real.sum()),
        "the share of tokens | Your rows are right, but the share is that of the tokens. Ten "
        "tokens at 97 % are a right row in three cases of four. → Of what is the share asked?",
    ),
    wrong(
        _match(
            row=lambda hit, real: (hit & real).sum(axis=-1) / real.sum(axis=-1),
        ),
        "a share for each row | You return how much of each row is right; asked for is whether all "
        "of it is. → What is left of 0.8, if a row is either right or wrong?",
    ),
    wrong(
        _match(fit=_as_they_are, real=lambda p, t, pad: np.ones_like(t, dtype=bool)),
        "padding compared too | You compare all columns, as they are. What stands beyond a "
        "target's end should count for nothing, and rows may have another length. → Which columns "
        "of a target are real tokens?",
    ),
    wrong(
        _filled,
        "filled with padding, and compared | You bring both to one length by padding, and compare "
        "everything. What stands beyond a target's end should count for nothing. → Which columns "
        "of a target are real tokens?",
    ),
    wrong(
        _nothing_left_out,
        "padding compared too, as far as both go | Lengths are no trouble, but you compare padded "
        "columns of a target too. What stands there should count for nothing. → Which columns of a "
        "target are real tokens?",
    ),
    wrong(
        _match(real=lambda p, t, pad: t == pad),
        "padding alone compared | Where nothing is padded, every row is right with you: you look "
        "at padded columns only, or at none. → What does `targets != pad` say of a column?",
    ),
    wrong(
        _match(fit=_as_they_are),
        "lengths must be equal | Padding is left out as it should be, but your function stops "
        "where predictions are longer or shorter than the targets. → Which columns can be "
        "compared, and which targets are lost if predictions are too short?",
    ),
    wrong(
        _match(fit=_shorter),
        "cut to the shorter one | You look at as many columns as both have. A prediction that "
        "ends in the middle of its target counts as right with you. → What about real tokens that "
        "nothing is compared with?",
    ),
    wrong(
        _match(row=lambda hit, real: (hit & real).any(axis=-1)),
        "one right token is enough | A row counts as right with you if any of its tokens is. → "
        "How many of them have to be?",
    ),
    wrong(
        _match(fit=_shorter, real=lambda p, t, pad: p != pad),
        "the prediction's padding left out | You leave out what is padding in the *prediction*. "
        "One that stops early, or says nothing, is right with you. → Which of the two says what "
        "should have been there?",
    ),
    wrong(
        _match(fit=_shorter, real=lambda p, t, pad: (p != pad) & (t != pad)),
        "the padding of both left out | You look only where neither is padding. One that stops "
        "early is right with you. → Which of the two says what should have been there?",
    ),
    wrong(
        _stripped,
        "padding stripped from both | You drop padding from both and compare what is left. Then a "
        "prediction that goes on after its target's end is wrong, and a gap in one isn't seen. → "
        "Up to where is a row compared?",
    ),
    wrong(
        _match(row=lambda hit, real: (hit & real).all(axis=-1)),
        "padding counts as wrong | You ask that every column be right *and* real, so a row with "
        "padding is never right. → What should a padded column say, so that `all` isn't spoilt?",
    ),
    wrong(
        _match(fit=lambda p, t: (np.sort(_widened(p, t)), np.sort(t))),
        "in any order | You compare what tokens are there, not where. → What about a row with the "
        "right tokens in another order?",
    ),
    wrong(
        _match(row=lambda hit, real: (hit | ~real)[..., :-1].all(axis=-1)),
        "the last column left out | You don't look at the last column, where the <eos> of the "
        "longest targets stands. → Is a target over before its <eos>?",
    ),
    wrong(
        _match(row=lambda hit, real: (hit | ~real).all(axis=0)),
        "by column | You ask whether a *column* is right in all rows. → Which axis holds the "
        "tokens of one row?",
    ),
    wrong(
        _match(row=lambda hit, real: (hit | ~real).all()),
        "the whole batch or nothing | You ask whether everything is right, and get one answer for "
        "all rows. → For how many rows is one asked?",
    ),
    wrong(
        _match(share=lambda right, hit, real: right.sum()),
        "the number of rows | Your rows are right, but you count them. → By what is the count to "
        "be divided?",
    ),
    wrong(
        _match(share=lambda right, hit, real: 100.0 * right.mean()),
        "per cent | Your rows are right; your share is in per cent. → Between which numbers does a "
        "share lie?",
    ),
    wrong(
        _match(share=lambda right, hit, real: 1.0 - right.mean()),
        "the share of wrong rows | Your rows are right, but you return the share of the others. → "
        "What should a perfect model get?",
    ),
    wrong(
        _match(
            row=lambda hit, real: ~(hit | ~real).all(axis=-1),
        ),
        "wrong for right | You mark the rows that have an error. → What should a perfect model "
        "get?",
    ),
    wrong(
        _match(share=lambda right, hit, real: (hit | ~real).mean()),
        "the share of columns | Your rows are right, but the share is that of all columns, and "
        "padding counts as right in it. → Of what is the share asked?",
    ),
    wrong(
        _match(real=lambda p, t, pad: t != 0),
        "padding is always 0 | You leave out 0, whatever is asked for. → Which argument says what "
        "padding is?",
    ),
    wrong(
        _match(real=lambda p, t, pad: t > pad),
        "padding is whatever isn't larger | You leave out all ids up to `pad`, but smaller ones "
        "are tokens like any other. → Which one comparison tells padding?",
    ),
    wrong(
        _first_axis,
        "row after row of the first axis | You go over the first axis; with a list of lists that "
        "takes a whole list for a row. → Which axis holds the tokens of one row, counted from the "
        "end?",
    ),
    wrong(
        _match(returns=lambda right, share: share),
        "only the share | You return the share alone, one number where two things are asked for. → "
        "What is the first thing that the docstring returns?",
    ),
    wrong(
        _match(returns=lambda right, share: (share, right)),
        "the share first | The right two things are there, in the other order. → In which order "
        "does the docstring return them?",
    ),
    wrong(
        _padding_written,
        "predictions overwritten | The results are right, but the caller's predictions have been "
        "changed: something was written over them where targets are padded. → Which line writes "
        "into an argument?",
    ),
]


def _match_loops(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    right = np.ones(targets.shape[:-1], dtype=bool)
    for place in np.ndindex(right.shape):
        for i, token in enumerate(targets[place]):
            if token != pad and (i >= predictions.shape[-1] or predictions[(*place, i)] != token):
                right[place] = False
    return right, np.count_nonzero(right) / right.size


def _match_errors(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    """Count errors, those of missing columns among them."""
    n = min(predictions.shape[-1], targets.shape[-1])
    real = targets != pad
    errors = ((predictions[..., :n] != targets[..., :n]) & real[..., :n]).sum(axis=-1)
    errors += real[..., n:].sum(axis=-1)
    return errors == 0, (errors == 0).mean()


def _match_lists(predictions: NDArray, targets: NDArray, pad: int) -> Any:
    right = []
    for p, t in zip(
        predictions.reshape(-1, predictions.shape[-1]),
        targets.reshape(-1, targets.shape[-1]),
        strict=True,
    ):
        places = np.flatnonzero(t != pad)
        right.append(places[-1] < len(p) and list(p[places]) == list(t[places]))
    return np.array(right).reshape(targets.shape[:-1]), sum(right) / len(right)


def _match_torch(predictions: Any, targets: Any, pad: int) -> Any:
    from torch.nn import functional

    missing = targets.shape[-1] - predictions.shape[-1]
    p = functional.pad(predictions, (0, missing), value=-1)  # cuts where it's negative
    right = ((p == targets) | (targets == pad)).all(dim=-1)
    return right, right.double().mean()


_EXACT_MATCH = Exercise(
    id="10.exact_match",
    function="exact_match",
    reference=exact_match,
    guarded=[ref.exact_match],
    cases=_MATCH_CASES,
    returns=("right", "share"),
    misconceptions=_MATCH_WRONG,
    alternatives=[
        ("loops", _match_loops),
        ("errors counted", _match_errors),
        ("lists", _match_lists),
        Alternative(name="torch", right=_match_torch, backend="torch"),
    ],
    hints=[
        "Compare column by column. A padded column of the target counts as right, whatever was "
        "predicted; then ask whether all columns of a row are.",
        "`(predictions == targets) | (targets == pad)` says for each column whether it's all "
        "right, and `.all(axis=-1)` says it of a row. Cut both to the shorter length first.",
        "If predictions are shorter, look at the columns of the targets that were cut off: a row "
        "with a real token among them, `(targets[..., n:] != pad).any(axis=-1)`, is wrong.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


EXERCISES = [
    _SHIFT_RIGHT,
    LABEL_SMOOTHING,
    _WARMUP,
    ADAM,
    CLIP,
    _EXACT_MATCH,
    SMOOTHING_GRADIENT,
    BUG_TRAINING,
]
