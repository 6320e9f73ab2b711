"""The exercises of chapter 11 about what a token may be drawn from.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import plain_softmax as _softmax
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import decoding_filters as filters

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TOP_K", "TOP_P", "top_k_probabilities", "top_p_probabilities"]


# -- 11.top_k and 11.top_p -------------------------------------------------------------------------


def top_k_probabilities(logits: NDArray, k: int) -> NDArray:
    """Return what a token is drawn with when the k likeliest alone may be.

    Parameters
    ----------
    logits : float array, (..., V)
    k : int
        At least 1; more than V keeps all.

    Returns
    -------
    float array, (..., V)
        Probabilities, 0 where a token falls away.
    """
    return _filtered(_among_k)(logits, k)


def top_p_probabilities(logits: NDArray, p: float) -> NDArray:
    """Return what a token is drawn with when the nucleus alone may be.

    Parameters
    ----------
    logits : float array, (..., V)
    p : float
        Above 0 and below 1.

    Returns
    -------
    float array, (..., V)
        Probabilities, 0 where a token falls away.
    """
    return _filtered(_nucleus)(logits, p)


Keep = Callable[["NDArray", Any], "NDArray"]


def _ranks(x: NDArray) -> NDArray:
    """Return 0 for the largest of each row, 1 for the next, …."""
    return np.argsort(np.argsort(-x, axis=-1, kind="stable"), axis=-1)


def _among_k(logits: NDArray, k: int) -> NDArray:
    return _ranks(logits) < k


def _before(logits: NDArray) -> NDArray:
    """Return how probable the tokens are together that are likelier than each."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    p = np.take_along_axis(_softmax(logits), order, axis=-1)
    before = np.empty_like(p)
    np.put_along_axis(before, order, np.cumsum(p, axis=-1) - p, axis=-1)
    before[_ranks(logits) == 0] = 0.0
    return before


def _nucleus(logits: NDArray, p: float) -> NDArray:
    return _before(logits) < p


def _hide(logits: NDArray, kept: NDArray) -> NDArray:
    return np.where(kept, logits, -np.inf)


def _filtered(
    keep: Keep,
    *,
    finish: Callable[[NDArray, NDArray], Any] = lambda logits, kept: _softmax(_hide(logits, kept)),
) -> Callable[..., Any]:
    """Return a filter: what is kept, and what is made of it."""

    def probabilities(logits: NDArray, threshold: Any) -> Any:
        return finish(logits, keep(logits, threshold))

    return probabilities


def _named(function: Callable[[NDArray, Any], Any], name: str) -> Callable[..., Any]:
    """Return the same function with the parameters of the exercise."""
    if name == "k":
        return lambda logits, k: function(logits, k)
    return lambda logits, p: function(logits, p)


def _bare(x: NDArray) -> NDArray:
    """Take the softmax without shifting: ∞/∞ for large scores."""
    e = np.exp(x)
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _descending(logits: NDArray, kept: NDArray) -> NDArray:
    return -np.sort(-_softmax(_hide(logits, kept)), axis=-1)


def _raising(error: type[Exception], fits: Callable[..., bool], right: Callable[..., Any]) -> Any:
    def stops(logits: NDArray, threshold: Any) -> Any:
        if not fits(logits, threshold):
            raise error
        return right(logits, threshold)

    return stops


def _overflowing(keep: Keep) -> Callable[..., Any]:
    def probabilities(logits: NDArray, threshold: Any) -> Any:
        right = _softmax(_hide(logits, keep(logits, threshold)))
        overflows = np.isinf(np.exp(logits)).any(axis=-1, keepdims=True)
        return np.where(overflows, np.nan, right)

    return probabilities


def _shared(logits: NDArray, kept: NDArray) -> NDArray:
    p = np.where(kept, _softmax(logits), 0.0)
    return np.asarray(p / p.sum())


def _in_place(keep: Keep) -> Callable[..., Any]:
    def probabilities(logits: NDArray, threshold: Any) -> Any:
        logits[~keep(logits, threshold)] = -np.inf
        return _softmax(logits)

    return probabilities


def _filter_wrong(name: str, keep: Keep, what: str) -> list[Any]:
    """Return what goes wrong behind either filter."""

    def one(function: Callable[..., Any], text: str, *, variant: bool = False) -> Any:
        return wrong(_named(function, name), text, variant=variant)

    return [
        one(
            _filtered(keep, finish=lambda logits, kept: np.where(kept, _softmax(logits), 0.0)),
            "not normalised again | The right tokens are left, with the probabilities they had "
            "before, so that your rows don't sum to 1. → By what do they have to be divided?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: _softmax(np.where(kept, logits, 0.0))),
            "logits set to 0 | The tokens that should fall away still have a probability: a logit "
            "of 0 is an ordinary one, and e⁰ is 1. → Which logit has the exponential 0?",
        ),
        one(
            _filtered(
                keep, finish=lambda logits, kept: _softmax(np.where(kept, _softmax(logits), 0.0))
            ),
            "the softmax taken twice, zeros between | You make probabilities, set some to 0, and "
            "take the softmax of them, which has no zeros. → What normalises probabilities, if "
            "not a second softmax?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: _softmax(_hide(_softmax(logits), kept))),
            "the softmax taken twice | The right tokens are left, but their probabilities are too "
            "even: you take the softmax of probabilities. → What does the softmax expect, and "
            "what do you give it?",
        ),
        one(
            _filtered(keep, finish=_hide),
            "logits returned | this exercise uses probabilities; yours are logits with −∞ for what "
            "falls away, as the chapter's filters return them. → What makes probabilities of "
            "them?",
            variant=True,
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: np.log(_softmax(_hide(logits, kept)))),
            "log-probabilities | this exercise uses probabilities; you return their logarithms, −∞ "
            "for what falls away. → Between which numbers should your result lie?",
            variant=True,
        ),
        one(
            _filtered(lambda logits, t: ~keep(logits, t)),
            "what should fall away kept | The tokens that should fall away stay with you, and the "
            "others fall away: your comparison is the wrong way round. → Which side of the limit "
            "do the likeliest tokens lie on?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: _softmax(np.where(kept, logits, np.inf))),
            "∞ with the wrong sign | Where a token falls away your rows are NaN, from ∞ − ∞ or "
            "∞/∞. What falls away should have the logit −∞, and what is subtracted from a row "
            "should be its largest logit. → Which of the two is another number in your function?",
        ),
        one(
            _overflowing(keep),
            "overflow before the filter | For ordinary logits you're right; around 1000 `np.exp` "
            "overflows, so that all is NaN from there on. → What may be subtracted from all logits "
            "of a row without changing a probability?",
        ),
        one(
            _filtered(keep, finish=_shared),
            "normalised over the whole batch | For one row you're right. In a batch all rows "
            "together sum to 1 with you. → Over which axis should probabilities sum to 1?",
        ),
        one(
            _raising(IndexError, lambda x, t: x.ndim == 1, _filtered(keep)),
            "indices of one row | For one row you're right. In a batch `argsort` gives indices "
            "within each row, and `x[indices]` takes them for rows, which stops with an error. → "
            "Which function takes indices along an axis, and which one puts numbers there?",
        ),
        one(
            _filtered(
                keep,
                finish=lambda logits, kept: (
                    np.where(kept, logits, 0.0)
                    / np.where(kept, logits, 0.0).sum(axis=-1, keepdims=True)
                ),
            ),
            "logits divided by their sum | Logits can be below 0, so that dividing them by their "
            "sum gives no probabilities. → Which function makes probabilities of logits?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: kept / kept.sum(axis=-1, keepdims=True)),
            "all alike | The right tokens are left, and each is as likely as the other. → In which "
            "relation should two of them stand?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: 1.0 * kept),
            "the mask returned | You return 1 for what stays and 0 for what falls away. → What are "
            "the probabilities of those that stay?",
        ),
        one(
            _filtered(keep, finish=_descending),
            "in sorted order | Your numbers are right, but the likeliest token comes first: they "
            "no longer stand at the tokens' own places. → Which token does column 0 belong to?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: _softmax(_hide(logits, kept), 0)),
            "normalised over axis 0 | For one row you're right. In a batch your columns sum to 1, "
            "not your rows. → Which axis is that of the vocabulary?",
        ),
        one(
            _filtered(keep, finish=lambda logits, kept: _bare(_hide(logits, kept))),
            "overflow | For ordinary logits you're right; around 1000 `np.exp` overflows. → What "
            "may be subtracted from all logits of a row without changing a probability?",
        ),
        one(
            _in_place(keep),
            "logits overwritten | The numbers are right, but the caller's logits have −∞ in them "
            "now. → Which line writes into `logits`?",
        ),
        one(
            _filtered(
                keep, finish=lambda logits, kept: np.eye(logits.shape[-1])[logits.argmax(-1)]
            ),
            "the likeliest token alone | Your result has a single 1: that is greedy, whatever the "
            f"{what}. → How many tokens should stay in the third case?",
        ),
        one(
            _filtered(lambda logits, t: np.ones(logits.shape, bool)),
            "nothing falls away | You return the softmax of all logits; none is hidden. → In which "
            f"line does `{name}` come in?",
        ),
        one(
            _filtered(
                lambda logits, t: np.broadcast_to(
                    keep(logits.reshape(-1, logits.shape[-1]), t)[0], logits.shape
                )
            ),
            "the first row for all | For one row you're right. In a batch the tokens that the "
            "first row keeps are kept in all. → Which tokens are row 1's likeliest?",
        ),
    ]


def _scores(*shape: int, spread: float = 1.5, shift: float = 0.0, **more: Any) -> Any:
    """Logits with no two alike in a row."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, *shape])
        logits = draw(rng, *shape, spread=spread)
        logits += 0.01 * rng.permuted(np.arange(logits.size).reshape(shape), axis=-1)
        return {"logits": logits.round(2) + shift, **more}

    return build


def _fixed(probabilities: list[float], shift: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"logits": np.log(np.array(probabilities)).round(6) + shift, **more}


_TOP_K_CASES = [
    case("5 tokens, k = 1 | the likeliest has all", _scores(5, k=1)),
    case("5 tokens, k = 3 | logits below 0", _scores(5, shift=-6.0, k=3)),
    case("4 rows of 6 tokens, k = 2 | each row has its own", _scores(4, 6, k=2)),
    case("2 × 3 rows of 7 tokens, k = 4 | whatever axes stand in front", _scores(2, 3, 7, k=4)),
    case("logits around 1000, k = 3 | no overflow", _scores(6, shift=1000.0, k=3)),
    case("3 rows of 5 tokens, k = 5 | all stay", _scores(3, 5, k=5)),
    case("4 tokens, k = 50 | more than there are keeps all", _scores(4, k=50)),
]


def _k_of_all(logits: NDArray, k: int) -> NDArray:
    return (_ranks(logits.reshape(-1)) < k).reshape(logits.shape)


def _over_first(logits: NDArray, k: int) -> NDArray:
    if logits.ndim == 1:
        return _among_k(logits, k)
    return np.moveaxis(_among_k(np.moveaxis(logits, 0, -1), k), -1, 0)


def _values_only(logits: NDArray, k: int) -> NDArray:
    return _softmax(-np.sort(-logits, axis=-1)[..., :k])


_TOP_K_WRONG = [
    *_filter_wrong("k", _among_k, "k"),
    wrong(
        _named(_filtered(lambda logits, k: _ranks(logits) < k - 1), "k"),
        "the k-th falls away | One token less stays than should, and none for k = 1: what is as "
        "likely as the k-th falls away with you. → Should the comparison with the k-th logit be > "
        "or ≥?",
    ),
    wrong(
        _named(_filtered(lambda logits, k: _ranks(logits) <= k), "k"),
        "one too many | One token more stays than should, in every row. → Which place has the "
        "k-th largest number in a sorted row, counted from 0?",
    ),
    wrong(
        _named(_filtered(lambda logits, k: _ranks(-logits) < k), "k"),
        "the least likely kept | You keep the k smallest logits: `np.sort` and `np.argsort` begin "
        "with the smallest. → At which end of the sorted row are the likeliest tokens?",
    ),
    wrong(
        _named(_filtered(lambda logits, k: _ranks(-logits) >= k), "k"),
        "k fall away | You let the k least likely tokens fall away, and keep the others. → How "
        "many tokens should stay?",
    ),
    wrong(
        _named(
            _raising(
                ValueError,
                lambda x, k: k <= x.shape[-1],
                _filtered(lambda logits, k: _ranks(-logits) >= k - 1),
            ),
            "k",
        ),
        "the k-th smallest as the limit | Your limit is the k-th *smallest* logit: `np.sort` "
        "begins with the smallest. → Which place has the k-th largest, counted from the end?",
    ),
    wrong(
        _named(
            _raising(
                IndexError,
                lambda x, k: k <= x.shape[-1],
                _raising(ValueError, lambda x, k: x.ndim == 1, _filtered(_among_k)),
            ),
            "k",
        ),
        "limits without an axis | For one row you're right. In a batch there's a limit for each "
        "row, and they need an axis of length 1 to be compared with the rows. → Which shape has "
        "the k-th largest of each row, and which should it have?",
    ),
    wrong(
        _named(_filtered(lambda x, k: _ranks(x) >= min(k, x.shape[-1]) - 1), "k"),
        "the wrong side of the limit | What is *at most* as likely as the k-th token stays with "
        "you. → Which side of the limit do the likeliest tokens lie on?",
    ),
    wrong(
        _named(_filtered(_k_of_all), "k"),
        "k of the whole batch | For one row you're right. In a batch you keep the k largest "
        "logits of all rows together, and some rows keep none. → For which axis is the k-th "
        "largest to be found?",
    ),
    wrong(
        _named(_filtered(_over_first), "k"),
        "k over axis 0 | For one row you're right. In a batch you keep the k largest of each "
        "column. → Which axis is that of the vocabulary?",
    ),
    wrong(
        _named(_raising(IndexError, lambda x, k: k <= x.shape[-1], _filtered(_among_k)), "k"),
        "more than there are | Where k is larger than the vocabulary, yours stops with an error: "
        "a sorted row has no such place. → What is the largest k that changes anything?",
    ),
    wrong(
        _named(_raising(ValueError, lambda x, k: k <= x.shape[-1], _filtered(_among_k)), "k"),
        "more than there are, to partition | Where k is larger than the vocabulary, yours stops "
        "with an error: `np.partition` has no such place. → What is the largest k that changes "
        "anything?",
    ),
    wrong(
        _named(_values_only, "k"),
        "only k numbers | You return the k largest alone, in order. Which tokens they belong to "
        "is lost. → How many columns should the result have?",
    ),
    wrong(
        _named(_filtered(lambda logits, k: np.arange(logits.shape[-1]) < k + 0 * logits), "k"),
        "the first k columns | You keep the first k tokens of the vocabulary, whatever their "
        "logits. → Which k tokens are meant?",
    ),
]


def _top_k_loops(logits: NDArray, k: int) -> Any:
    found = np.zeros(logits.shape)
    for place in np.ndindex(logits.shape[:-1]):
        best = np.argsort(logits[place])[::-1][:k]
        exps = np.exp(logits[place][best] - logits[place][best].max())
        found[(*place, best)] = exps / exps.sum()
    return found


def _top_k_sorted(logits: NDArray, k: int) -> Any:
    """Compare with the k-th largest, which the course's own filter does too."""
    kth = np.sort(logits, axis=-1)[..., -min(k, logits.shape[-1]), None]
    exps = np.exp(logits - logits.max(axis=-1, keepdims=True)) * (logits >= kth)
    return exps / exps.sum(axis=-1, keepdims=True)


def _top_k_partition(logits: NDArray, k: int) -> Any:
    out = np.full(logits.shape, -1e9)
    places = np.argpartition(-logits, min(k, logits.shape[-1]) - 1, axis=-1)[..., :k]
    np.put_along_axis(out, places, np.take_along_axis(logits, places, axis=-1), axis=-1)
    return _softmax(out)


def _top_k_torch(logits: Any, k: int) -> Any:
    import torch

    values, places = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.zeros_like(logits).scatter(-1, places, values.softmax(dim=-1))


TOP_K = Exercise(
    id="11.top_k",
    function="top_k_probabilities",
    reference=top_k_probabilities,
    guarded=[filters.top_k],
    cases=_TOP_K_CASES,
    returns=("probabilities",),
    misconceptions=_TOP_K_WRONG,
    alternatives=[
        ("loops", _top_k_loops),
        ("compared with the k-th", _top_k_sorted),
        ("partition", _top_k_partition),
        Alternative(name="torch", right=_top_k_torch, backend="torch"),
    ],
    hints=[
        "Sort each row: the k-th largest logit is the limit. What lies below it falls away, at its "
        "own place.",
        "`np.sort(logits, axis=-1)` begins with the smallest, so the k-th largest is the k-th from "
        "the end. With k above V there's no such place: take V then.",
        "Put −∞ where a token falls away and take the softmax of the row: shift it by its maximum, "
        "exponentiate, divide by the sum.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)

_TOP_P_CASES = [
    case(
        "0.15, 0.5, 0.05, 0.3, p = 0.7 | 0.5 isn't enough, with 0.3 it is",
        _fixed([0.15, 0.5, 0.05, 0.3], p=0.7),
    ),
    case(
        "0.1, 0.2, 0.6, 0.1, p = 0.4 | the likeliest always stays",
        _fixed([0.11, 0.2, 0.6, 0.09], p=0.4),
    ),
    case(
        "a flat and a sharp row, p = 0.8 | each keeps as many as it needs",
        {
            "logits": np.log(
                [[0.05, 0.9, 0.02, 0.03], [0.27, 0.24, 0.23, 0.26], [0.1, 0.2, 0.3, 0.4]]
            ).round(4),
            "p": 0.8,
        },
    ),
    case("5 rows of 7 tokens, p = 0.6 | logits that are no logarithms", _scores(5, 7, p=0.6)),
    case(
        "2 × 3 rows of 6 tokens, p = 0.85 | whatever axes stand in front", _scores(2, 3, 6, p=0.85)
    ),
    case(
        "logits around 1000, p = 0.9 | no overflow", _fixed([0.4, 0.05, 0.35, 0.2], 1000.0, p=0.9)
    ),
    case("p = 0.99, none below 0.02 | all stay", _fixed([0.2, 0.05, 0.4, 0.03, 0.32], p=0.99)),
]


def _crossing_dropped(logits: NDArray, p: float) -> NDArray:
    return _before(logits) + _softmax(logits) <= p


def _unsorted(logits: NDArray, p: float) -> NDArray:
    q = _softmax(logits)
    return np.cumsum(q, axis=-1) - q < p


def _tail_first(logits: NDArray, p: float) -> NDArray:
    """Add from the least likely on, and keep until p is reached."""
    order = np.argsort(logits, axis=-1)
    q = np.take_along_axis(_softmax(logits), order, axis=-1)
    kept = np.empty(logits.shape, bool)
    np.put_along_axis(kept, order, np.cumsum(q, axis=-1) - q < p, axis=-1)
    return kept


def _by_order(logits: NDArray, p: float) -> NDArray:
    """Index the sorted mask by the order, the inverse of what is needed."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    in_order = np.take_along_axis(_nucleus(logits, p), order, axis=-1)
    return np.take_along_axis(in_order, order, axis=-1)


def _left_in_order(logits: NDArray, p: float) -> NDArray:
    order = np.argsort(-logits, axis=-1, kind="stable")
    return np.take_along_axis(_nucleus(logits, p), order, axis=-1)


def _all_rows(logits: NDArray, p: float) -> NDArray:
    """Sort and add the probabilities of all rows together."""
    q = _softmax(logits).reshape(-1)
    order = np.argsort(-q, kind="stable")
    kept = np.empty(q.shape, bool)
    kept[order] = np.cumsum(q[order]) - q[order] < p
    return kept.reshape(logits.shape)


def _one_more(logits: NDArray, p: float) -> NDArray:
    count = _nucleus(logits, p).sum(axis=-1, keepdims=True)
    return _ranks(logits) <= count


def _longest(logits: NDArray, p: float) -> NDArray:
    return _ranks(logits) < _nucleus(logits, p).sum(axis=-1).max()


def _of_logits(logits: NDArray, p: float) -> NDArray:
    order = np.argsort(-logits, axis=-1, kind="stable")
    x = np.take_along_axis(logits, order, axis=-1)
    kept = np.empty(logits.shape, bool)
    np.put_along_axis(kept, order, np.cumsum(x, axis=-1) - x < p, axis=-1)
    return kept


_TOP_P_WRONG = [
    *_filter_wrong("p", _nucleus, "p"),
    wrong(
        _named(_filtered(_crossing_dropped), "p"),
        "the one that crosses p dropped | You keep tokens as long as their sum stays below p. "
        "Together they have less than p then, and where the likeliest has more than p by itself "
        "none is left. → Does the token that takes the sum across p belong to the nucleus?",
    ),
    wrong(
        _named(
            _filtered(lambda x, p: _crossing_dropped(x, p) | (_ranks(x) == 0)),
            "p",
        ),
        "the one that crosses p dropped, the likeliest kept | You keep tokens as long as their sum "
        "stays below p, and the likeliest in any case. Together they have less than p. → Does the "
        "token that takes the sum across p belong to the nucleus?",
    ),
    wrong(
        lambda logits, p: np.where(_nucleus(logits, p), _softmax(logits), 0.0) / p,
        "divided by p | The right tokens are left. They have at least p together, mostly more, so "
        "that your rows sum to more than 1. → What do the kept probabilities sum to?",
    ),
    wrong(
        _named(_filtered(_one_more), "p"),
        "one too many | One token more stays than is needed: their sum has reached p without it. → "
        "Which sum decides about a token, with it or without it?",
    ),
    wrong(
        _named(_filtered(_longest), "p"),
        "the longest nucleus for all | For one row you're right. In a batch each row keeps as many "
        "tokens as the row that needs most. → How many numbers say how many tokens stay, one or "
        "one for each row?",
    ),
    wrong(
        _named(_filtered(_unsorted), "p"),
        "not sorted | You add up the probabilities in the order of the vocabulary. → Which tokens "
        "have to come first, so that the fewest reach p?",
    ),
    wrong(
        _named(_filtered(_tail_first), "p"),
        "the least likely first | You add up from the least likely token on: `np.argsort` begins "
        "with the smallest. → At which end of the order are the likeliest tokens?",
    ),
    wrong(
        _named(_filtered(lambda x, p: _before(x) < 1 - p), "p"),
        "1 − p | You keep as many tokens as have the probability 1 − p together. → Is p what stays "
        "or what falls away?",
    ),
    wrong(
        _named(_filtered(lambda x, p: _softmax(x) >= p), "p"),
        "each compared with p | You compare every token's own probability with p, so that mostly "
        "none stays. → Whose probabilities have to reach p together?",
    ),
    wrong(
        _named(_filtered(lambda x, p: _softmax(x) >= 1 - p), "p"),
        "each compared with 1 − p | You compare every token's own probability with 1 − p. Which "
        "token stays depends on the likelier ones, too. → Whose probabilities have to reach p "
        "together?",
    ),
    wrong(
        _named(
            _filtered(lambda x, p: _softmax(x) >= p * _softmax(x).max(axis=-1, keepdims=True)), "p"
        ),
        "min-p | this exercise uses top-p; you keep what has at least p times the probability of "
        "the likeliest token, which is min-p. → Which probabilities does top-p add up?",
        variant=True,
    ),
    wrong(
        _named(_filtered(lambda x, p: _ranks(x) < np.ceil(p * x.shape[-1])), "p"),
        "a share of the vocabulary | You keep the share p of the *number* of tokens, so that a "
        "flat row and a sharp one keep as many. → What do the kept tokens have to reach together?",
    ),
    wrong(
        _named(_filtered(_by_order), "p"),
        "put back by the order | You index the sorted mask by `order`, which sorts it once more. "
        "Back to the vocabulary leads the inverse. → If `order[0]` is 3, which token's place "
        "should the first entry of the mask go to?",
    ),
    wrong(
        _named(_filtered(_left_in_order), "p"),
        "not put back | You find out how many tokens stay, and keep the first ones of the "
        "vocabulary: the mask is in sorted order, the logits aren't. → Which token does the first "
        "entry of the mask belong to?",
    ),
    wrong(
        _named(_filtered(_all_rows), "p"),
        "all rows together | For one row you're right. In a batch the sum goes on from row to row, "
        "as if all were one. → Over which axis do probabilities sum to 1?",
    ),
    wrong(
        _named(_filtered(_of_logits), "p"),
        "logits added up | You add up logits, which can be anything, until they reach p. → What "
        "has to be made of them first?",
    ),
]


def _top_p_loops(logits: NDArray, p: float) -> Any:
    found = np.zeros(logits.shape)
    for place in np.ndindex(logits.shape[:-1]):
        row = _softmax(logits[place])
        total = 0.0
        for i in np.argsort(row)[::-1]:
            if total >= p:
                break
            found[(*place, i)] = row[i]
            total += row[i]
        found[place] /= total
    return found


def _top_p_counted(logits: NDArray, p: float) -> Any:
    """Find how many stay, and the probability of the last of them."""
    q = _softmax(logits)
    falling = -np.sort(-q, axis=-1)
    count = 1 + (np.cumsum(falling, axis=-1) < p).sum(axis=-1, keepdims=True)
    limit = np.take_along_axis(falling, np.minimum(count, q.shape[-1]) - 1, axis=-1)
    kept = np.where(q >= limit, q, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


def _top_p_inverse(logits: NDArray, p: float) -> Any:
    order = np.argsort(-logits, axis=-1)
    falling = np.take_along_axis(_softmax(logits), order, axis=-1)
    falls = np.cumsum(falling, axis=-1) >= p
    falls[..., 1:] = falls[..., :-1].copy()
    falls[..., 0] = False
    falling[falls] = 0.0
    back = np.take_along_axis(falling, np.argsort(order, axis=-1), axis=-1)
    return back / back.sum(axis=-1, keepdims=True)


def _top_p_torch(logits: Any, p: float) -> Any:
    import torch

    falling, order = torch.sort(logits.softmax(dim=-1), dim=-1, descending=True)
    falling = falling.masked_fill(falling.cumsum(dim=-1) - falling >= p, 0.0)
    return torch.zeros_like(logits).scatter(-1, order, falling / falling.sum(-1, keepdim=True))


TOP_P = Exercise(
    id="11.top_p",
    function="top_p_probabilities",
    reference=top_p_probabilities,
    guarded=[filters.top_p],
    cases=_TOP_P_CASES,
    returns=("probabilities",),
    misconceptions=_TOP_P_WRONG,
    alternatives=[
        ("loops", _top_p_loops),
        ("compared with the last that stays", _top_p_counted),
        ("put back by the inverse order", _top_p_inverse),
        Alternative(name="torch", right=_top_p_torch, backend="torch"),
    ],
    hints=[
        "Sort the probabilities of a row, the largest first, and add them up. A token stays as "
        "long as those *before* it haven't reached p together.",
        "The sum before a token is `np.cumsum(…) - probabilities`, in sorted order. For the "
        "likeliest it's 0, so that it always stays.",
        "`order = np.argsort(-logits, axis=-1)` and `np.take_along_axis` sort; "
        "`np.put_along_axis(kept, order, …, axis=-1)` brings a mask back to the vocabulary's "
        "order. Then −∞ and the softmax, or 0 and a division by the sum.",
    ],
    points=3,
    minutes=20,
    difficulty=2,
)
