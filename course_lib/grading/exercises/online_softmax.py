"""The exercises of chapter 14 about a softmax whose scores come in parts.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right. All is
written out: the course's own functions refuse to work while a student's are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import flash

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MERGE", "UPDATE", "merge_parts", "update_output"]

State = tuple["NDArray", "NDArray", "NDArray"]


# -- 14.update -------------------------------------------------------------------------------------


def update_output(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> State:
    """Take more scores and values into an output that is right so far.

    Parameters
    ----------
    m, l : float arrays, (..., n_q)
        Largest score so far, −∞ at the start; sum of exponentials, each of score minus m.
    o : float array, (..., n_q, d_v)
        The output so far: a weighted mean of values; 0 at the start.
    scores : float array, (..., n_q, b)
        The next b scores of each query; −∞ where it may not look.
    values : float array, (..., b, d_v)

    Returns
    -------
    m, l, o : float arrays of the same shapes
    """
    new_m, new_l, new_o = _updated()(m, l, o, scores, values)
    return new_m, new_l, new_o


def _higher(m: NDArray, scores: NDArray) -> NDArray:
    return np.maximum(m, scores.max(axis=-1))


def _fall(m: NDArray, new_m: NDArray) -> NDArray:
    return np.exp(m - new_m)


def _ones(m: NDArray, new_m: NDArray) -> NDArray:
    return np.ones_like(m)


def _rise(m: NDArray, new_m: NDArray) -> NDArray:
    y: NDArray = np.exp(new_m - m)
    return y


def _updated(
    *,
    peak: Callable[[NDArray, NDArray], NDArray] = _higher,
    shrink: Callable[[NDArray, NDArray], NDArray] = _fall,
    shrink_o: Callable[[NDArray, NDArray], NDArray] | None = None,
    exps: Callable[..., NDArray] = lambda scores, m, new_m: np.exp(scores - new_m[..., None]),
    total: Callable[..., NDArray] = lambda l, new: l + new,
    old: Callable[..., NDArray] = lambda o, l, total: o * l[..., None],
    old_first: bool = False,
    new: Callable[[NDArray, NDArray], NDArray] = lambda e, values: e @ values,
    divide: Callable[..., NDArray] = lambda o, l, total, e: o / total[..., None],
    finish: Callable[..., Any] = lambda m, l, o: (m, l, o),
) -> Callable[..., Any]:
    """Return the update with some steps replaced."""

    def update(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
        with np.errstate(all="ignore"):
            new_m = peak(m, scores)
            factor = shrink(m, new_m)
            factor_o = factor if shrink_o is None else shrink_o(m, new_m)
            e = exps(scores, m, new_m)
            new_l = total(l * factor, e.sum(axis=-1))
            new_o = old(o, l, new_l) * factor_o[..., None] + new(e, values)
            return finish(new_m, new_l, divide(new_o, l, new_l, e))

    return update


def _state(
    *lead: int,
    n_q: int,
    b: int,
    d_v: int,
    before: int,
    spread: float = 1.0,
    shift: float = 0.0,
    order: int = 0,
    hide: bool = False,
) -> Callable[[int], dict[str, Any]]:
    """Draw what is kept after some scores, and the next ones.

    Where `order` is 1, the maximum rises in every row, and where it's −1, in none.
    """

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 16, *lead, n_q, b, d_v, before])
        shape = (*lead, n_q)
        m, l, o = np.full(shape, -np.inf), np.zeros(shape), np.zeros((*shape, d_v))
        scores = spread * draw(rng, *shape, b) + shift
        if before:
            past = spread * draw(rng, *shape, before) + shift
            if order:
                gap = past.max(axis=-1, keepdims=True) - scores.max(axis=-1, keepdims=True)
                scores = (scores + gap + order * (0.3 + 0.1 * np.arange(n_q))[:, None]).round(1)
            m = past.max(axis=-1)
            e = np.exp(past - m[..., None])
            l = e.sum(axis=-1).round(3)
            o = (e / e.sum(axis=-1, keepdims=True) @ (3 * draw(rng, *lead, before, d_v))).round(2)
        if hide:
            scores[..., 0, :] = -np.inf  # a whole row
            scores[..., 1:, -1] = -np.inf
        values = 3 * draw(rng, *lead, b, d_v) + 1
        return {"m": m, "l": l, "o": o, "scores": scores, "values": values}

    return build


_UPDATE_CASES = [
    case(
        "the first score of a query | the output is its value",
        _state(n_q=1, b=1, d_v=2, before=0),
    ),
    case("the first 3 scores of 2 queries | a softmax", _state(n_q=2, b=3, d_v=4, before=0)),
    case(
        "lower scores than before | the maximum stays",
        _state(n_q=3, b=2, d_v=4, before=2, order=-1),
    ),
    case(
        "higher scores than before | what there is counts less",
        _state(n_q=3, b=2, d_v=4, before=2, order=1),
    ),
    case(
        "some that are hidden | a row of them changes nothing",
        _state(n_q=3, b=4, d_v=2, before=3, hide=True),
    ),
    case(
        "first scores near −2000 | no maximum is 0",
        _state(n_q=2, b=3, d_v=2, before=0, shift=-2000.0),
    ),
    case(
        "2 heads, scores in the thousands | rows that lie far apart",
        _state(2, n_q=4, b=3, d_v=5, before=4, spread=900.0),
    ),
]


def _in_place_update(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    new_m, new_l, new_o = _updated()(m, l, o, scores, values)
    m[...], l[...], o[...] = new_m, new_l, new_o
    return m, l, o


def _own_softmax(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    """Forget what there was."""
    with np.errstate(all="ignore"):
        new_m = scores.max(axis=-1)
        e = np.exp(scores - new_m[..., None])
        new_l = e.sum(axis=-1)
        return new_m, new_l, e @ values / new_l[..., None]


def _two_softmaxes(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    """Merge with the tile's own output, which there is none of where all is hidden."""
    tile_m, tile_l, tile_o = _own_softmax(m, l, o, scores, values)
    with np.errstate(all="ignore"):
        new_m = np.maximum(m, tile_m)
        a, b = l * np.exp(m - new_m), tile_l * np.exp(tile_m - new_m)
        new_l = a + b
        return new_m, new_l, (a[..., None] * o + b[..., None] * tile_o) / new_l[..., None]


def _not_increased(l: NDArray, new: NDArray) -> NDArray:
    y: NDArray = np.where(l == 0, new, l)
    return y


def _mean_of_exps(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    b = scores.shape[-1]
    return _updated(total=lambda l, new: l + new / b)(m, l, o, scores, values)


def _old_maximum(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    _, new_l, new_o = _updated()(m, l, o, scores, values)
    return m, new_l, new_o


def _old_sum(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    new_m, _, new_o = _updated()(m, l, o, scores, values)
    return new_m, l, new_o


def _new_part_shrinks(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    """Multiply the new sum by the factor that the old one needs."""
    with np.errstate(all="ignore"):
        new_m = _higher(m, scores)
        f, e = np.exp(m - new_m), np.exp(scores - new_m[..., None])
        new_l = l + f * e.sum(axis=-1)
        new_o = ((l * f)[..., None] * o + e @ values) / new_l[..., None]
        return new_m, new_l, new_o


def _two_halves(m: NDArray, l: NDArray, o: NDArray, scores: NDArray, values: NDArray) -> Any:
    """Give the old output and the new one half each."""
    new_m, new_l, _ = _updated()(m, l, o, scores, values)
    _, _, tile_o = _own_softmax(m, l, o, scores, values)
    return new_m, new_l, (o + tile_o) / 2


_UPDATE_WRONG = [
    wrong(
        _updated(
            old=lambda o, l, total: o,
            divide=lambda o, l, total, e: o,
        ),
        "a sum that isn't divided | Your o is the sum of values times exponentials, which is "
        "divided at the very end, as on the chapter's page. → This exercise uses the output so "
        "far: which sum is o times l?",
        variant=True,
    ),
    wrong(
        _updated(old=lambda o, l, total: o),
        "the old output not weighted | You add the output so far as if it were a sum. It was "
        "divided by l. → What do you multiply it with to have the sum back?",
    ),
    wrong(
        _updated(divide=lambda o, l, total, e: o),
        "not divided | Your new o is a sum of values times exponentials: you multiply the old "
        "output by l, rightly, and don't divide at the end. → By which l?",
    ),
    wrong(
        _updated(divide=lambda o, l, total, e: o / l[..., None]),
        "divided by the old sum | You divide by the l that came in. → How much weight is in the "
        "new output?",
    ),
    wrong(
        _updated(divide=lambda o, l, total, e: o / e.sum(axis=-1)[..., None]),
        "divided by the new part's sum | You divide by the sum of the new exponentials only. → How "
        "much weight is in the new output?",
    ),
    wrong(
        _updated(divide=lambda o, l, total, e: o / (l + e.sum(axis=-1))[..., None]),
        "divided by a sum of two maxima | You divide by the old l plus the new exponentials. Where "
        "the maximum rises, the old l has to shrink first. → Which l do you return?",
    ),
    wrong(
        _updated(
            old=lambda o, l, total: o,
            divide=lambda o, l, total, e: o,
            new=lambda e, values: e @ values / e.sum(axis=-1)[..., None],
        ),
        "two outputs added | You add the output of the new scores to the output so far. Each of "
        "them is a mean. → What do the shares of the two have to sum to?",
    ),
    wrong(
        _updated(
            old=lambda o, l, total: o * total[..., None],
        ),
        "only the new part divided | The new values are weighted rightly, and the output so far "
        "counts as if nothing had come. → By how much does its share of the whole shrink?",
    ),
    wrong(
        _updated(shrink=_ones),
        "nothing rescaled | Where the maximum rises, what there is has to shrink, and yours "
        "doesn't. → By which factor are the old exponentials too large?",
    ),
    wrong(
        _updated(shrink_o=_ones),
        "only the sum rescaled | Where the maximum rises, your l shrinks and the old output's "
        "share doesn't. → What does o times l hold, and for which maximum?",
    ),
    wrong(
        _updated(shrink=_ones, shrink_o=_fall),
        "the sum not rescaled | Where the maximum rises, the old output shrinks, and your l "
        "doesn't. → For which maximum was the old l summed?",
    ),
    wrong(
        _new_part_shrinks,
        "the new sum rescaled | Your l shrinks the new exponentials, which belong to the new "
        "maximum already, and leaves the old ones. → Which of the two were summed for another "
        "maximum?",
    ),
    wrong(
        _updated(shrink=_rise),
        "rescaled the other way | You multiply by e^(m_new − m_old), which is larger than 1. → Are "
        "the old exponentials too large or too small once the maximum rises?",
    ),
    wrong(
        _updated(
            old=lambda o, l, total: o * l[..., None],
            shrink_o=lambda m, new_m: np.exp(m - new_m) ** 2,
        ),
        "rescaled twice | Your old output is rescaled by itself and by the l that has shrunk "
        "already. → How often does the maximum rise?",
    ),
    wrong(
        _updated(peak=lambda m, scores: np.maximum(_higher(m, scores), 0.0)),
        "a maximum of at least 0 | Your maximum is never below 0. Far below, all exponentials are "
        "0 then. → What is the largest of no scores?",
    ),
    wrong(
        _updated(peak=lambda m, scores: scores.max(axis=-1)),
        "the new part's maximum | Your m is the largest of the new scores, even where an older one "
        "is larger. → What was m to be?",
    ),
    wrong(
        _updated(peak=lambda m, scores: np.where(m == -np.inf, _higher(m, scores), m)),
        "the first maximum kept | Your m stays what it was after the first scores. A later one may "
        "lie thousands above it. → What does e^1000 do?",
    ),
    wrong(
        _updated(peak=lambda m, scores: np.maximum(m, scores.mean(axis=-1))),
        "the mean for the maximum | Your m takes in the mean of the new scores. → What is m to be?",
    ),
    wrong(
        _updated(
            peak=lambda m, scores: np.broadcast_to(
                _higher(m, scores).max(axis=-1, keepdims=True), m.shape
            )
        ),
        "one maximum for all queries | You subtract the largest score of all rows. Rows that lie "
        "far below become zeros. → Along which axis is the maximum taken?",
    ),
    wrong(
        _updated(exps=lambda scores, m, new_m: np.exp(scores - m[..., None])),
        "exponentials at the old maximum | You subtract the old maximum from the new scores, and "
        "rescale the old sums to the new one. → From what is the new maximum subtracted?",
    ),
    wrong(
        _updated(
            exps=lambda scores, m, new_m: np.exp(scores - scores.max(axis=-1)[..., None])
        ),
        "exponentials at the new part's own maximum | You subtract the largest of the new scores "
        "from them, though an older one may be larger. → Which maximum do the old sums have?",
    ),
    wrong(
        _updated(exps=lambda scores, m, new_m: np.exp(scores)),
        "no maximum subtracted | You take e^score as it is. Scores in the thousands have no room "
        "then. → What is to be subtracted before?",
    ),
    wrong(
        _updated(
            exps=lambda scores, m, new_m: np.exp(
                np.where(scores == -np.inf, 0.0, scores) - new_m[..., None]
            )
        ),
        "hidden scores as 0 | You take hidden scores for 0, and they count. → Which score has the "
        "exponential 0?",
    ),
    wrong(
        _old_maximum,
        "the old maximum returned | Your l and o are right, and you return the m that came in. → "
        "Which maximum do the new l's exponentials have?",
    ),
    wrong(
        _old_sum,
        "the old sum returned | Your m and o are right, and you return the l that came in. → What "
        "does l count?",
    ),
    wrong(
        _updated(total=_not_increased),
        "the sum not increased | Your l doesn't take in the new exponentials. → What does l count?",
    ),
    wrong(
        _updated(total=lambda l, new: new),
        "the old sum forgotten | Your l is that of the new scores alone. → What does l count?",
    ),
    wrong(
        _mean_of_exps,
        "the mean of the exponentials | Your l takes in the mean of the new exponentials. → What "
        "is l, and of how many scores?",
    ),
    wrong(
        _own_softmax,
        "what there was is forgotten | You return the softmax over the new scores. → Where do m, l "
        "and o that came in have a part in it?",
    ),
    wrong(
        _two_softmaxes,
        "0 divided by 0 | You compute the new part's own output first. Where all of its scores are "
        "hidden, that's 0/0. → Which maximum makes all exponentials of such a row 0?",
    ),
    wrong(
        _two_halves,
        "half and half | You average the output so far and that of the new scores. → How much does "
        "each count, by its sum of exponentials?",
    ),
    wrong(
        _updated(finish=lambda m, l, o: (m, m + np.log(l), o)),
        "log-sum-exp for l | You return m + log l in the place of l. → Which l does the next call "
        "want?",
    ),
    wrong(
        _updated(finish=lambda m, l, o: (l, m, o)),
        "m and l changed places | You return l first and then m, and the next call mixes them up. "
        "→ In which order do they come in?",
    ),
    wrong(
        _updated(finish=lambda m, l, o: o),
        "only the output | You return the output alone, and two more things are asked for. → What "
        "will the next call need beside it?",
    ),
    wrong(
        _in_place_update,
        "the state changed in place | You write into the arrays that you were given. → How do you "
        "make new ones?",
    ),
]  # fmt: skip


def _by_lse(m: Any, l: Any, o: Any, scores: Any, values: Any) -> Any:
    """Count the old output as one more key, of score m + log l."""
    with np.errstate(divide="ignore"):
        old = m + np.log(l)
    new_m = np.maximum(m, scores.max(axis=-1))
    both = np.concatenate([old[..., None], scores], axis=-1)
    e = np.exp(both - new_m[..., None])
    new_l = e.sum(axis=-1)
    weights = e / new_l[..., None]
    return new_m, new_l, weights[..., :1] * o + weights[..., 1:] @ values


def _score_by_score(m: Any, l: Any, o: Any, scores: Any, values: Any) -> Any:
    m, l, o = m.copy(), l.copy(), o.copy()
    for row in np.ndindex(*m.shape):
        for s, value in zip(scores[row], values[row[:-1]], strict=True):
            if s == -np.inf:
                continue
            top = max(m[row], s)
            old, new = l[row] * np.exp(m[row] - top), np.exp(s - top)
            o[row] += (value - o[row]) * (new / (old + new))
            m[row], l[row] = top, old + new
    return m, l, o


def _step_by_step(m: Any, l: Any, o: Any, scores: Any, values: Any) -> Any:
    """Move the old output towards the new one."""
    top = np.maximum(m, scores.max(axis=-1))
    e = np.exp(scores - top[..., None])
    total = l * np.exp(m - top) + e.sum(axis=-1)
    weights = e / total[..., None]
    kept = 1 - weights.sum(axis=-1, keepdims=True)
    return [top, total, kept * o + weights @ values]


def _update_by_torch(m: Any, l: Any, o: Any, scores: Any, values: Any) -> Any:
    import torch

    top = torch.maximum(m, scores.amax(dim=-1))
    e = torch.exp(scores - top[..., None])
    old = l * torch.exp(m - top)
    total = old + e.sum(dim=-1)
    return top, total, (old[..., None] * o + e @ values) / total[..., None]


UPDATE = Exercise(
    id="14.update",
    function="update_output",
    reference=update_output,
    guarded=[flash.online_softmax_update, flash.merge_partials],
    cases=_UPDATE_CASES,
    returns=("m", "l", "o"),
    misconceptions=_UPDATE_WRONG,
    alternatives=[
        Alternative(name="the old output as one more key", right=_by_lse),
        Alternative(name="score by score", right=_score_by_score),
        Alternative(name="a step towards the new", right=_step_by_step),
        Alternative(name="torch", right=_update_by_torch, backend="torch"),
    ],
    hints=[
        "The output so far is a sum that was divided by l. Undo that, go on as on the chapter's "
        "page, and divide at the end, by the new l.",
        "The old sums belong to the old maximum: times e^(m_old − m_new) they belong to the new "
        "one. At the start that is e^(−∞) = 0.",
        "With f = e^(m − m_new) and e = e^(scores − m_new): l_new = l·f + Σe, and "
        "o_new = (o·l·f + e @ values) / l_new, each with the axes that are missing.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 14.merge --------------------------------------------------------------------------------------


def merge_parts(outputs: NDArray, lses: NDArray) -> tuple[NDArray, NDArray]:
    """Merge what queries got from parts of the keys into what all keys give.

    Parameters
    ----------
    outputs : float array, (p, ..., n_q, d_v)
        Of each part.
    lses : float array, (p, ..., n_q)
        Each part's log of its sum of exponentials; −∞ where a query sees no key of it, and then
        its output means nothing, and may be NaN.

    Returns
    -------
    output : float array, (..., n_q, d_v)
    lse : float array, (..., n_q)
    """
    output, lse = _merged()(outputs, lses)
    return output, lse


def _weights_of(lses: NDArray) -> NDArray:
    e = np.exp(lses - lses.max(axis=0))
    return e / e.sum(axis=0)


def _log_sum(lses: NDArray) -> NDArray:
    top = lses.max(axis=0)
    y: NDArray = top + np.log(np.exp(lses - top).sum(axis=0))
    return y


def _seen_only(weights: NDArray, outputs: NDArray) -> NDArray:
    """Leave out what counts nothing: 0 · NaN is NaN."""
    w = weights[..., None]
    y: NDArray = (w * np.where(w == 0, 0.0, outputs)).sum(axis=0)
    return y


def _merged(
    *,
    weights: Callable[[NDArray], NDArray] = _weights_of,
    lse: Callable[[NDArray], NDArray] = _log_sum,
    mix: Callable[[NDArray, NDArray], NDArray] = _seen_only,
    finish: Callable[..., Any] = lambda output, lse: (output, lse),
) -> Callable[..., Any]:
    """Return the merge with some steps replaced."""

    def merge(outputs: NDArray, lses: NDArray) -> Any:
        with np.errstate(all="ignore"):
            return finish(mix(weights(lses), outputs), lse(lses))

    return merge


def _parts(
    p: int,
    *lead: int,
    n_q: int,
    d_v: int,
    spread: float = 1.0,
    shift: float = 0.0,
    unseen: tuple[tuple[int, ...], ...] = (),
    equal: bool = False,
    garbage: float = 50.0,
) -> Callable[[int], dict[str, Any]]:
    """Draw what parts of the keys gave.

    `unseen` are, for each query, the parts of which it sees nothing; their outputs are `garbage`.
    """

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 17, p, *lead, n_q, d_v])
        outputs = 3 * draw(rng, p, *lead, n_q, d_v) + 1
        lses = spread * draw(rng, p, *lead, n_q) + shift
        if equal:
            lses[:] = lses[0]
        for row, parts in enumerate(unseen):
            lses[list(parts), ..., row] = -np.inf
        outputs[lses == -np.inf] = garbage
        return {"outputs": outputs, "lses": lses}

    return build


_MERGE_CASES = [
    case("one part | nothing changes", _parts(1, n_q=2, d_v=3)),
    case("2 parts that weigh the same | their mean", _parts(2, n_q=2, d_v=3, equal=True)),
    case("2 parts | each counts by its sum", _parts(2, n_q=3, d_v=4)),
    case("4 parts, 2 heads of 3 queries | all at once", _parts(4, 2, n_q=3, d_v=5)),
    case(
        "3 parts, of which queries see some | the others don't count",
        _parts(3, n_q=5, d_v=2, unseen=((1, 2), (1,), (2,), (0,), (0, 1))),
    ),
    case(
        "4 parts, NaN from those that aren't seen | 0 divided by 0, there",
        _parts(4, n_q=3, d_v=2, unseen=((0, 1), (), (2,)), garbage=np.nan),
    ),
    case("sums near e¹⁰⁰⁰ | logarithms have room", _parts(3, n_q=2, d_v=3, shift=1000.0)),
    case(
        "rows that lie far apart | each has its own largest",
        _parts(3, 2, n_q=4, d_v=3, spread=600.0),
    ),
]


def _sequence(carry: Callable[..., NDArray], *, guard: bool = True) -> Callable[..., Any]:
    """Merge one part after another, with `carry` for the log-sum-exp of what there is."""

    def weigh(lses: NDArray) -> NDArray:
        shift = lses.max(axis=0)
        e = np.exp(lses - (np.where(shift == -np.inf, 0.0, shift) if guard else shift))
        total = e.sum(axis=0)
        return e / (np.where(total == 0, 1.0, total) if guard else total)

    def merge(outputs: NDArray, lses: NDArray) -> Any:
        output, lse = outputs[0], lses[0]
        for other, theirs in zip(outputs[1:], lses[1:], strict=True):
            with np.errstate(all="ignore"):
                w = weigh(np.stack([lse, theirs]))
                both = np.stack([output, other])
                output = _seen_only(w, both) if guard else (w[..., None] * both).sum(axis=0)
                lse = carry(lse, theirs)
        return output, _log_sum(lses)

    return merge


def _in_pairs(outputs: NDArray, lses: NDArray) -> Any:
    """Merge one part after another, with no thought of two that aren't seen."""
    output, lse = outputs[0], lses[0]
    with np.errstate(all="ignore"):
        for other, theirs in zip(outputs[1:], lses[1:], strict=True):
            top = np.maximum(lse, theirs)
            a, b = np.exp(lse - top), np.exp(theirs - top)
            output = (a[..., None] * output + b[..., None] * other) / (a + b)[..., None]
            lse = top + np.log(a + b)
    return output, lse


def _seen_by_all(outputs: NDArray, lses: NDArray) -> Any:
    """Leave out each part of which some query sees nothing, if any is left."""
    keep = [i for i, part in enumerate(lses) if np.isfinite(part).all()]
    keep = keep or list(range(len(lses)))
    return _merged()(outputs[keep], lses[keep])


def _hidden_as_zero(outputs: NDArray, lses: NDArray) -> Any:
    return _merged()(outputs, np.where(lses == -np.inf, 0.0, lses))


def _mean_lse(lses: NDArray) -> NDArray:
    w = _weights_of(lses)
    y: NDArray = (w * np.where(w == 0, 0.0, lses)).sum(axis=0)
    return y


def _halves(outputs: NDArray, lses: NDArray) -> Any:
    """Average what there is with each part that follows."""
    output = outputs[0]
    for other in outputs[1:]:
        output = (output + other) / 2
    return output, _log_sum(lses)


def _two_only(outputs: NDArray, lses: NDArray) -> Any:
    return _merged()(outputs[:2], lses[:2])


def _over_queries(lses: NDArray) -> NDArray:
    e = np.exp(lses - lses.max(axis=-1, keepdims=True))
    y: NDArray = e / e.sum(axis=-1, keepdims=True)
    return y


def _seen_alike(lses: NDArray) -> NDArray:
    seen = lses > -np.inf
    y: NDArray = seen / seen.sum(axis=0)
    return y


def _of_largest(lses: NDArray) -> NDArray:
    e = np.exp(lses - lses.max())
    return e / e.sum(axis=0)


def _log_of_largest(lses: NDArray) -> NDArray:
    y: NDArray = lses.max() + np.log(np.exp(lses - lses.max()).sum(axis=0))
    return y


def _of_first(lses: NDArray) -> NDArray:
    e = np.exp(lses - lses[0])
    return e / e.sum(axis=0)


def _log_of_first(lses: NDArray) -> NDArray:
    y: NDArray = lses[0] + np.log(np.exp(lses - lses[0]).sum(axis=0))
    return y


def _in_place_merge(outputs: NDArray, lses: NDArray) -> Any:
    result = _merged()(outputs, lses)
    lses -= lses.max(axis=0)
    return result


def _plain_lse(lses: NDArray) -> NDArray:
    y: NDArray = np.log(np.exp(lses).sum(axis=0))
    return y


def _plain_weights(lses: NDArray) -> NDArray:
    e = np.exp(lses)
    return e / e.sum(axis=0)


_MERGE_WRONG = [
    wrong(
        _merged(weights=lambda lses: np.full(lses.shape, 1 / len(lses))),
        "a plain mean | All your parts count alike. A part with larger scores holds more of the "
        "weight. → What does e^lse say of a part?",
    ),
    wrong(
        _merged(weights=_seen_alike),
        "a mean of the parts that are seen | Your parts count alike where a query sees them. → "
        "What does e^lse say of a part?",
    ),
    wrong(
        _merged(weights=lambda lses: np.ones(lses.shape)),
        "a plain sum | You add the outputs. Each is a mean already, with weights that sum to 1. → "
        "What must the parts' shares sum to?",
    ),
    wrong(
        _merged(weights=lambda lses: lses / lses.sum(axis=0)),
        "weighted by lse itself | Your parts count by their lse, which is a logarithm and may be "
        "negative. → Of what is it the logarithm?",
    ),
    wrong(
        _merged(weights=lambda lses: np.exp(lses - lses.max(axis=0))),
        "shares that don't sum to 1 | Your parts count by e^(lse − max), and nothing is divided by "
        "their sum. → What must the shares sum to?",
    ),
    wrong(
        _merged(weights=np.exp),
        "sums that aren't divided | You weigh by e^lse, and nothing is divided by the whole sum. → "
        "What must the shares sum to?",
    ),
    wrong(
        _merged(weights=lambda lses: _weights_of(-lses)),
        "the wrong way round | The larger a part's sum, the less it counts with you. → Which part "
        "holds the keys with the larger scores?",
    ),
    wrong(
        _merged(weights=_plain_weights, lse=_plain_lse),
        "no maximum subtracted | You take e^lse as it is, and e^1000 has no room. → What is "
        "subtracted from scores before a softmax, and could be here?",
    ),
    wrong(
        _merged(lse=_plain_lse),
        "no maximum subtracted in lse | Your output is right, and in lse you take e^lse as it is: "
        "e^1000 has no room. → What may be subtracted, and added again outside of the logarithm?",
    ),
    wrong(
        _merged(weights=_of_largest, lse=_log_of_largest),
        "one maximum for all rows | You subtract the largest number of all. Rows that lie far "
        "below it become 0/0. → Along which axis is the maximum taken?",
    ),
    wrong(
        _merged(weights=_of_first, lse=_log_of_first),
        "the first part's lse subtracted | You subtract the lse of the first part, of which a "
        "query may see no key. −∞ minus −∞ is NaN. → Which part's lse is never −∞?",
    ),
    wrong(
        _merged(weights=_over_queries),
        "over the queries | Your shares sum to 1 over the queries. → What is merged, and which "
        "axis is it on?",
    ),
    wrong(
        _merged(weights=lambda lses: (lses == lses.max(axis=0)).astype(float)),
        "the largest part takes all | You take the output of the part with the largest sum. → How "
        "much does a part count whose sum is half as large?",
    ),
    wrong(
        _merged(lse=lambda lses: lses.max(axis=0)),
        "the largest lse | Your output is right, and your lse is the largest of the parts'. → "
        "What is the sum of exponentials of all keys together?",
    ),
    wrong(
        _merged(lse=lambda lses: lses.sum(axis=0)),
        "lse summed | Your output is right, and your lse adds logarithms. That multiplies what's "
        "inside. → Which numbers are to be added?",
    ),
    wrong(
        _merged(lse=lambda lses: lses.mean(axis=0)),
        "lse averaged | Your output is right, and your lse is the mean of logarithms. → What is "
        "the sum of exponentials of all keys together?",
    ),
    wrong(
        _merged(lse=_mean_lse),
        "lse averaged by shares | Your output is right, and your lse is the mean of logarithms, "
        "by the same shares. All keys together have more than any part. → Which numbers are to be "
        "added?",
    ),
    wrong(
        _merged(lse=lambda lses: lses.max(axis=0) + np.exp(lses - lses.max(axis=0)).sum(axis=0)),
        "the sum added without its logarithm | Your output is right, and your lse is the maximum "
        "plus a sum of exponentials. → What is log(e^max · Σ e^(lse − max))?",
    ),
    wrong(
        _merged(lse=lambda lses: np.log(np.exp(lses - lses.max(axis=0)).sum(axis=0))),
        "the maximum not added again | Your output is right, and in lse you subtract the maximum "
        "and don't add it again. → What is log(e^max · Σ e^(lse − max))?",
    ),
    wrong(
        _merged(lse=lambda lses: np.exp(lses - lses.max(axis=0)).sum(axis=0)),
        "the sum, without a logarithm | Your output is right, and in the place of lse stands a sum "
        "of exponentials. → What does the next merge want?",
    ),
    wrong(
        _merged(lse=lambda lses: np.exp(lses).sum(axis=0)),
        "the sum of exponentials | Your output is right, and in the place of lse stands the sum of "
        "exponentials, of which e^1000 has no room. → What does the l in lse stand for?",
    ),
    wrong(
        _merged(
            lse=lambda lses: lses.max(axis=0) * np.exp(lses - lses.max(axis=0)).sum(axis=0)
        ),
        "the maximum times the sum | Your output is right, and your lse is a product. → What is "
        "log(e^max · Σ e^(lse − max))?",
    ),
    wrong(
        _merged(lse=lambda lses: _log_sum(lses) - np.log(len(lses))),
        "the mean of the sums | Your output is right, and your lse is the logarithm of the parts' "
        "mean sum. → How many keys do all parts have together?",
    ),
    wrong(
        _merged(lse=lambda lses: np.logaddexp(lses[0], lses[-1])),
        "lse of the first and the last | Your output is right, and your lse takes in two parts. → "
        "How many are there?",
    ),
    wrong(
        _sequence(lambda lse, theirs: theirs),
        "what there is has the last part's sum | You merge one part after another, and go on with "
        "the lse of the part that came last. → What is the lse of all parts so far?",
    ),
    wrong(
        _sequence(lambda lse, theirs: lse),
        "what there is has the first part's sum | You merge one part after another, and always "
        "with the lse of the first. → What is the lse of all parts so far?",
    ),
    wrong(
        _sequence(np.maximum),
        "what there is has the largest sum | You merge one part after another, and go on with the "
        "larger lse of two. → What is the lse of both together?",
    ),
    wrong(
        _sequence(np.logaddexp, guard=False),
        "nothing and nothing | You merge one part after another. A query may have seen nothing of "
        "the first two, and −∞ minus −∞ is NaN. → What could you subtract there in the place of "
        "−∞?",
    ),
    wrong(
        _in_pairs,
        "nothing and nothing, in lse too | You merge two parts at a time. Where a query has seen "
        "nothing of either, their larger lse is −∞, and −∞ minus −∞ is NaN, in your lse as well. → "
        "What could you subtract there in its place?",
    ),
    wrong(
        _seen_by_all,
        "parts that all queries see | You leave out every part of which some query sees nothing, "
        "for all queries. → For which queries does such a part count?",
    ),
    wrong(
        _hidden_as_zero,
        "−∞ taken for 0 | You put 0 for an lse of −∞, and a part that isn't seen counts as one "
        "with the sum e⁰ = 1. → Which lse has the sum 0?",
    ),
    wrong(
        _merged(mix=lambda w, o: (w[..., None] * o).sum(axis=0)),
        "0 times NaN | Your shares are right, and a part that isn't seen has the share 0. Its "
        "output may be NaN, and 0 times NaN is NaN. → What could stand in the place of such an "
        "output before it's multiplied?",
    ),
    wrong(
        _halves,
        "half and half, again and again | You average what there is with each part that follows. "
        "The first parts shrink at every step. → How much does each count?",
    ),
    wrong(
        _two_only,
        "two parts | You merge the first two parts, and there may be one, or four. → Along which "
        "axis do you sum?",
    ),
    wrong(
        _merged(mix=lambda w, o: w[..., None] * o),
        "parts that stay apart | Your parts are weighed, rightly, and not added. → Which axis is "
        "to go?",
    ),
    wrong(
        _merged(finish=lambda output, lse: output),
        "only the output | You return the output alone, and its lse is asked for, too. → What "
        "will the next merge need?",
    ),
    wrong(
        _in_place_merge,
        "lse changed in place | You subtract from the array that you were given. → Which operator "
        "makes a new one?",
    ),
]  # fmt: skip


def _one_after_another(outputs: Any, lses: Any) -> Any:
    output, lse = outputs[0], lses[0]
    for i in range(1, len(lses)):
        both = np.logaddexp(lse, lses[i])
        safe = np.where(both == -np.inf, 0.0, both)
        a, b = np.exp(lse - safe)[..., None], np.exp(lses[i] - safe)[..., None]
        output = np.where(a > 0, a * output, 0) + np.where(b > 0, b * outputs[i], 0)
        lse = both
    return output, lse


def _by_einsum(outputs: Any, lses: Any) -> Any:
    lse = np.logaddexp.reduce(lses, axis=0)
    return np.einsum("p...,p...v->...v", np.exp(lses - lse), np.nan_to_num(outputs)), lse


def _row_by_row(outputs: Any, lses: Any) -> Any:
    output, lse = np.zeros(outputs.shape[1:]), np.zeros(lses.shape[1:])
    for row in np.ndindex(*lse.shape):
        parts = [(lses[i][row], outputs[i][row]) for i in range(len(lses))]
        parts = [(size, o) for size, o in parts if np.isfinite(size)]
        top = max(size for size, _ in parts)
        total = sum(np.exp(size - top) for size, _ in parts)
        output[row] = sum(np.exp(size - top) * o for size, o in parts) / total
        lse[row] = top + np.log(total)
    return output, lse


def _merge_by_torch(outputs: Any, lses: Any) -> Any:
    import torch

    shares = torch.softmax(lses, dim=0)[..., None]
    kept = outputs.masked_fill(shares == 0, 0.0)
    return (shares * kept).sum(dim=0), torch.logsumexp(lses, dim=0)


MERGE = Exercise(
    id="14.merge",
    function="merge_parts",
    reference=merge_parts,
    guarded=[flash.merge_partials, flash.online_softmax_update],
    cases=_MERGE_CASES,
    returns=("output", "lse"),
    misconceptions=_MERGE_WRONG,
    alternatives=[
        Alternative(name="one after another", right=_one_after_another),
        Alternative(name="einsum", right=_by_einsum),
        Alternative(name="row by row", right=_row_by_row),
        Alternative(name="torch", right=_merge_by_torch, backend="torch"),
    ],
    hints=[
        "e^lse is a part's sum of exponentials. All keys together have the sum of these, and each "
        "part counts as its share of it.",
        "The shares are a softmax of the lses over the parts, axis 0. Subtract each row's largest "
        "lse before you take exponentials.",
        "With top = lses.max(axis=0) and e = exp(lses − top): the output is the sum of "
        "e[..., None] · outputs over the parts, divided by Σe, and lse is top + log Σe. Where e is "
        "0, `np.where` puts 0 for an output, which may be NaN.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)
