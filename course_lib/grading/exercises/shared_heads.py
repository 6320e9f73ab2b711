"""The exercises of chapter 14 about heads of keys that several query heads share.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right. All is
written out: the course's own functions refuse to work while a student's are checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import plain_softmax, softmax
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import cache, flash, grouped_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GROUPED", "POOL", "group_heads", "grouped_attention"]


# -- 14.grouped ------------------------------------------------------------------------------------


def grouped_attention(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> NDArray:
    """Let a batch of texts attend to caches that are not equally full.

    Parameters
    ----------
    q : float array, (b, h, n_q, d)
        Of the newest tokens of each text.
    keys, values : float arrays, (b, h_kv, n_max, d) and (b, h_kv, n_max, d_v)
        The caches, with the newest tokens' own; h_kv divides h.
    lengths : int array, (b,)
        Places of each cache that are filled. What stands behind them means nothing.

    Returns
    -------
    float array, (b, h, n_q, d_v)
    """
    y: NDArray = _grouped()(q, keys, values, lengths)
    return y


def _next_to_itself(x: NDArray, times: int) -> NDArray:
    return x.repeat(times, axis=1)


def _one_after_another(x: NDArray, times: int) -> NDArray:
    return np.concatenate([x] * times, axis=1)


def _first_head(x: NDArray, times: int) -> NDArray:
    return np.concatenate([x[:, :1]] * (times * x.shape[1]), axis=1)


def _mean_head(x: NDArray, times: int) -> NDArray:
    return np.concatenate([x.mean(axis=1, keepdims=True)] * (times * x.shape[1]), axis=1)


def _own(lengths: NDArray, n_q: int) -> NDArray:
    return lengths[:, None] - n_q + np.arange(n_q)  # (b, n_q)


def _own_place(lengths: NDArray, n_q: int, n_max: int) -> NDArray:
    return np.arange(n_max) <= _own(lengths, n_q)[..., None]


def _places(own: Callable[[NDArray, int, int], NDArray]) -> Callable[..., NDArray]:
    """Return a mask: what stands up to a place that is computed for each text and query."""
    return lambda lengths, n_q, n_max: np.arange(n_max) <= own(lengths, n_q, n_max)[..., None]


def _filled(lengths: NDArray, n_q: int, n_max: int) -> NDArray:
    return np.arange(n_max) < np.broadcast_to(lengths[:, None, None], (len(lengths), n_q, 1))


def _new_alone(lengths: NDArray, n_q: int, n_max: int) -> NDArray:
    since = (lengths - n_q)[:, None, None]
    return _own_place(lengths, n_q, n_max) & (np.arange(n_max) >= since)


def _filled_up_to(
    end: Callable[[NDArray, int], NDArray],
) -> Callable[[NDArray, int, int], NDArray]:
    """Return a mask of filled places, up to a new token's own as counted from one end for all."""

    def sees(lengths: NDArray, n_q: int, n_max: int) -> NDArray:
        y: NDArray = _filled(lengths, n_q, n_max) & _own_place(end(lengths, n_max), n_q, n_max)
        return y

    return sees


def _last_places(lengths: NDArray, n_q: int, n_max: int) -> NDArray:
    own = n_max - n_q + np.arange(n_q)[:, None]
    place = np.arange(n_max)
    return (place <= own) & (place >= n_max - lengths[:, None, None])


def _grouped(
    *,
    share: Callable[[NDArray, int], NDArray] = _next_to_itself,
    share_values: Callable[[NDArray, int], NDArray] | None = None,
    sees: Callable[[NDArray, int, int], NDArray] = _own_place,
    scale: Callable[[int, int, int], float] = lambda d, h, h_kv: sqrt(d),
    hidden: float = -np.inf,
    weigh: Callable[..., NDArray] = softmax,
    axis: int = -1,
    late: bool = False,
    finish: Callable[..., Any] = lambda y, h_kv: y,
) -> Callable[..., Any]:
    """Return the attention with some steps replaced."""

    def attend(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
        h, h_kv = q.shape[1], keys.shape[1]
        k, v = share(keys, h // h_kv), (share_values or share)(values, h // h_kv)
        with np.errstate(all="ignore"):
            scores = q @ k.swapaxes(-2, -1) / scale(q.shape[-1], h, h_kv)
            seen = sees(lengths, q.shape[-2], keys.shape[-2])[:, None]  # (b, 1, n_q, n_max)
            if late:
                return finish(weigh(scores, axis) * seen @ v, h_kv)
            return finish(weigh(np.where(seen, scores, hidden), axis) @ v, h_kv)

    return attend


def _drawn(
    b: int, h: int, h_kv: int, n_q: int, n_max: int, d: int, d_v: int, lengths: list[int]
) -> Callable[[int], dict[str, Any]]:
    """Draw caches; behind what is filled stand large numbers."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 14, b, h, h_kv, n_q, n_max])
        given: dict[str, Any] = {"q": draw(rng, b, h, n_q, d)}
        given |= {"keys": draw(rng, b, h_kv, n_max, d), "values": draw(rng, b, h_kv, n_max, d_v)}
        for text, length in enumerate(lengths):
            given["keys"][text, :, length:] = 3 * draw(rng, h_kv, n_max - length, d)
            given["values"][text, :, length:] = 9 + 3 * draw(rng, h_kv, n_max - length, d_v)
        return given | {"lengths": np.array(lengths)}

    return build


_CASES = [
    case("one token, one head | it gets its own value", _drawn(1, 1, 1, 1, 1, 3, 2, [1])),
    case(
        "3 heads, a full cache of 5 | the newest token sees all", _drawn(1, 3, 3, 1, 5, 4, 3, [5])
    ),
    case(
        "4 heads on 2 of keys | heads 0 and 1 share the first",
        _drawn(1, 4, 2, 1, 5, 4, 3, [5]),
    ),
    case("3 places filled of 6 | what stands behind isn't seen", _drawn(1, 2, 1, 1, 6, 4, 3, [3])),
    case("3 new tokens behind 2 | each sees up to itself", _drawn(1, 4, 2, 3, 5, 2, 3, [5])),
    case(
        "3 texts of different lengths | each has a cache of its own",
        _drawn(3, 4, 2, 1, 7, 4, 5, [5, 7, 2]),
    ),
    case("2 texts, 9 heads on 3, 2 new tokens | all of it", _drawn(2, 9, 3, 2, 8, 4, 5, [6, 3])),
]


def _stops(where: Callable[..., bool], message: str) -> Callable[..., Any]:
    def attend(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
        if where(q, keys, values, lengths):
            raise ValueError(message)
        return _grouped()(q, keys, values, lengths)

    return attend


def _in_place(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    y = _grouped()(q, keys, values, lengths)
    q /= sqrt(q.shape[-1])
    return y


def _zeroed(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    """Make zeros of what stands behind, and let it be seen."""
    keys, values = keys.copy(), values.copy()
    for text, length in enumerate(lengths):
        keys[text, :, length:] = 0
        values[text, :, length:] = 0
    sees = _places(lambda lengths, n_q, n_max: np.full((len(lengths), n_q), n_max))
    return _grouped(sees=sees)(q, keys, values, lengths)


def _cut_to_longest(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    return _grouped()(q, keys, values, np.full_like(lengths, lengths.max()))


def _mean_of_queries(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    """Let the mean query of a group ask for all of the group."""
    b, h, n_q, d = q.shape
    h_kv = keys.shape[1]
    mean = q.reshape(b, h_kv, -1, n_q, d).mean(axis=2)
    return _grouped(finish=lambda y, h_kv: y.repeat(h // h_kv, axis=1))(mean, keys, values, lengths)


def _mixed_rows(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    """Put a group's queries together as rows, and forget which token each is of."""
    b, h, n_q, d = q.shape
    h_kv = keys.shape[1]
    rows = q.reshape(b, h_kv, -1, d)  # a group's queries, head by head
    own = np.minimum(np.arange(rows.shape[2]) + lengths[:, None] - n_q, lengths[:, None] - 1)
    y = _grouped(sees=_places(lambda *_: own))(rows, keys, values, lengths)
    return y.reshape(b, h, n_q, -1)


def _rows_in_wrong_order(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    """Take a group's rows apart as tokens of heads where they are heads of tokens."""
    b, h, n_q, _ = q.shape
    h_kv = keys.shape[1]
    y = _grouped()(q, keys, values, lengths)
    y = y.reshape(b, h_kv, h // h_kv, n_q, -1).swapaxes(2, 3)
    return y.reshape(b, h, n_q, -1)


def _by_width_of_values(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    scale = sqrt(values.shape[-1])
    return _grouped(scale=lambda d, h, h_kv: scale)(q, keys, values, lengths)


def _by_number_of_places(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    scale = sqrt(keys.shape[-2])
    return _grouped(scale=lambda d, h, h_kv: scale)(q, keys, values, lengths)


def _exponentials(scores: NDArray, axis: int = -1) -> NDArray:
    y: NDArray = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return y


def _one_sum(scores: NDArray, axis: int = -1) -> NDArray:
    e = _exponentials(scores, axis)
    y: NDArray = e / e.sum()
    return y


def _taken_in_turns(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
    """Put heads i and i + h_kv into a group, and take groups apart as neighbours."""
    b, h, n_q, _ = q.shape
    y = _grouped(share=_one_after_another)(q, keys, values, lengths)
    y = y.reshape(b, -1, keys.shape[1], n_q, y.shape[-1]).swapaxes(1, 2)
    return y.reshape(b, h, n_q, -1)


def _rows_first(y: NDArray, h_kv: int) -> NDArray:
    b, h, n_q, d_v = y.shape
    return y.swapaxes(1, 2).reshape(b, n_q, h * d_v)


def _of_head(which: Callable[[NDArray, int], NDArray]) -> Callable[..., Any]:
    """Look up each query head's keys by a number that may be too large."""

    def attend(q: NDArray, keys: NDArray, values: NDArray, lengths: NDArray) -> Any:
        h, h_kv = q.shape[1], keys.shape[1]
        asked = which(np.arange(h), h_kv if which is _by_count else h // h_kv)
        return _grouped()(q, keys[:, asked], values[:, asked], lengths)

    return attend


def _by_count(heads: NDArray, h_kv: int) -> NDArray:
    return heads // h_kv


def _by_rest(heads: NDArray, group_size: int) -> NDArray:
    return heads % group_size


_FULL = _places(lambda lengths, n_q, n_max: np.full((len(lengths), n_q), n_max))

_WRONG = [
    wrong(
        _grouped(share=_one_after_another),
        "heads tiled, not repeated | You put the heads of keys one after another: 0, 1, 0, 1. "
        "Neighbours share, so it's 0, 0, 1, 1. → Which head of keys does query head 1 ask?",
    ),
    wrong(
        _grouped(share_values=_one_after_another),
        "values tiled | Your keys are repeated head by head, 0, 0, 1, 1, and your values in turns, "
        "0, 1, 0, 1. → Whose values belong to the keys that were asked?",
    ),
    wrong(
        _grouped(share_values=_next_to_itself, share=_one_after_another),
        "keys tiled | Your values are repeated head by head, 0, 0, 1, 1, and your keys in turns, "
        "0, 1, 0, 1. → Whose keys belong to the values that are summed?",
    ),
    wrong(
        _grouped(share=_first_head),
        "the first head of keys for all | All your query heads ask the first head of keys. → Which "
        "one does head i ask, with g query heads in a group?",
    ),
    wrong(
        _of_head(_by_count),
        "divided by the number of heads of keys | Your query head i asks head i // h_kv. That is "
        "right where a group has as many query heads as there are groups. → How many query heads "
        "ask one head of keys?",
    ),
    wrong(
        _of_head(_by_rest),
        "the place in a group | Your query head i asks head i % g, which says where in its group "
        "it stands. → Which group is it in?",
    ),
    wrong(
        _grouped(share=_mean_head),
        "the mean of the heads of keys | You take the mean over the heads of keys, and all ask "
        "that. Here the heads are what they are, and each group has one. → Which one does head i "
        "ask?",
    ),
    wrong(
        _mean_of_queries,
        "the mean query of a group | You average the queries of a group. They share keys, not "
        "questions. → How many outputs that differ are there for h heads?",
    ),
    wrong(
        _grouped(sees=_FULL),
        "no mask | You let every query look at the whole cache, at places that aren't filled as "
        "well. → What does `lengths` say?",
    ),
    wrong(
        _grouped(sees=_new_alone),
        "the new tokens alone | Your new tokens see each other, and nothing that was in the cache "
        "before. → Which places stand before the first new token?",
    ),
    wrong(
        _grouped(sees=_filled),
        "all new tokens see each other | You hide what stands behind the last token, but the new "
        "tokens see those that come after them. → At which place does new token i stand?",
    ),
    wrong(
        _grouped(sees=_places(lambda lengths, n_q, n_max: np.arange(n_q) + 0 * lengths[:, None])),
        "a mask from the upper left | New token i sees places up to i with you, as if there were "
        "nothing before it. → At which place does the first new token stand?",
    ),
    wrong(
        _grouped(sees=_places(lambda lengths, n_q, n_max: np.arange(n_q) + lengths[:, None])),
        "the new tokens counted twice | Your token i stands at `lengths + i`. The lengths count "
        "the new tokens already. → At which place does the last new token stand?",
    ),
    wrong(
        _grouped(
            sees=_places(lambda lengths, n_q, n_max: np.arange(n_q) + lengths[:, None] - n_q + 1)
        ),
        "one place too many | Each of your queries sees one place behind its own. → Is the place "
        "`lengths` filled, if you count from 0?",
    ),
    wrong(
        _grouped(
            sees=_places(lambda lengths, n_q, n_max: lengths[:, None] - 1 - np.arange(n_q))
        ),
        "the newest first | Your first new token sees the whole text, and the last the least. → "
        "Which of the new tokens stands at place `lengths − 1`?",
    ),
    wrong(
        _grouped(
            sees=lambda lengths, n_q, n_max: (
                np.arange(n_max) < _own(lengths, n_q)[..., None]
            ),
            weigh=plain_softmax,
        ),
        "its own place hidden | Your queries see what stands before them, and not themselves, so "
        "that the first token of all sees nothing. → Is it `<` or `<=`?",
    ),
    wrong(
        _grouped(
            sees=lambda lengths, n_q, n_max: ~_own_place(lengths, n_q, n_max), weigh=plain_softmax
        ),
        "the mask upside down | You hide what may be seen, and show what may not. → What does "
        "True mean in your mask, and which of the two does `np.where` take then?",
    ),
    wrong(
        _grouped(
            sees=lambda lengths, n_q, n_max: _filled(
                np.full_like(lengths, lengths.max()), n_q, n_max
            )
        ),
        "all up to the longest | Your queries see everything up to the end of the longest text. → "
        "At which place does each of them stand?",
    ),
    wrong(
        _grouped(
            sees=_places(
                lambda lengths, n_q, n_max: np.arange(n_q) + n_max - n_q + 0 * lengths[:, None]
            )
        ),
        "the cache's size for the length | Your mask is causal with respect to the last place of "
        "the cache, filled or not. → How full is the cache of each text?",
    ),
    wrong(
        _grouped(sees=_filled_up_to(lambda lengths, n_max: np.full_like(lengths, n_max))),
        "places from the end of the cache | You hide what isn't filled, but count the new tokens' "
        "places from the end of the cache, `n_max − n_q + i`, as if every cache were full. → At "
        "which place does the last new token of a text stand?",
    ),
    wrong(
        _grouped(sees=_filled_up_to(lambda lengths, _: np.full_like(lengths, lengths.max()))),
        "places from the end of the longest text | You hide what isn't filled, but count the new "
        "tokens' places from the end of the longest text, `lengths.max() − n_q + i`, in shorter "
        "ones as well. → At which place does the last new token of each text stand?",
    ),
    wrong(
        _grouped(sees=lambda lengths, n_q, n_max: _own_place(lengths[:1], n_q, n_max)),
        "the first text's length for all | All your texts have the length of the first. → Which "
        "axis of the mask is that of the texts?",
    ),
    wrong(
        _grouped(
            sees=lambda lengths, n_q, n_max: _own_place(
                np.full_like(lengths, lengths.min()), n_q, n_max
            )
        ),
        "the shortest text's length for all | Your longer texts see no more than the shortest. → "
        "What has to differ from text to text?",
    ),
    wrong(
        _cut_to_longest,
        "the longest text's length for all | You cut the caches to the longest text, and shorter "
        "ones see what stands behind them. → What has to differ from text to text?",
    ),
    wrong(
        _grouped(sees=_last_places),
        "filled from the right | Your mask shows the last places of each cache. Here texts begin "
        "at place 0, and what is free stands behind. → Which places are the first `lengths`?",
    ),
    wrong(
        _zeroed,
        "zeros in free places | You put zeros into places that aren't filled. A key of zeros has "
        "the score 0, and that isn't no weight. → Which score has the weight 0?",
    ),
    wrong(
        _grouped(hidden=0.0),
        "hidden by 0 | You put 0 for hidden scores, and e⁰ is 1. → Which score has the weight 0?",
    ),
    wrong(
        _grouped(late=True),
        "the mask too late | You take hidden weights away after the softmax, so that the rest no "
        "longer sums to 1. → Where does the mask belong?",
    ),
    wrong(
        _grouped(scale=lambda d, h, h_kv: 1.0),
        "no scale | You don't divide the scores by anything before the softmax. → What grows with "
        "the width of a head?",
    ),
    wrong(
        _grouped(scale=lambda d, h, h_kv: 1 / sqrt(d)),
        "times the root | You multiply the scores by the root of d where they should become "
        "smaller. → What grows with the width of a head?",
    ),
    wrong(
        _grouped(scale=lambda d, h, h_kv: float(d)),
        "divided by d | You divide the scores by d, not by its root. → How large is a dot product "
        "of d numbers of size 1, as a rule?",
    ),
    wrong(
        _grouped(scale=lambda d, h, h_kv: sqrt(d * h)),
        "the width of all heads | You divide by the root of h · d, the width of all query heads. → "
        "Over how many columns does one dot product go?",
    ),
    wrong(
        _grouped(scale=lambda d, h, h_kv: sqrt(d * h // h_kv)),
        "the width of a group | You divide by the root of a group's width. Each query is a vector "
        "of its own. → Over how many columns does one dot product go?",
    ),
    wrong(
        _by_width_of_values,
        "the width of values | You divide by the root of the values' width. They have no part in a "
        "score. → Over how many columns does one dot product go?",
    ),
    wrong(
        _by_number_of_places,
        "the number of keys | You divide by the root of the number of keys. How many there are has "
        "no part in a single score. → Over how many columns does one dot product go?",
    ),
    wrong(
        _grouped(weigh=_exponentials),
        "nothing divided | You sum values times exponentials, and divide by nothing. → What must "
        "a query's weights sum to?",
    ),
    wrong(
        _grouped(weigh=_one_sum),
        "one sum for all | You divide by the sum of all exponentials, of every text, head and "
        "query. → Over which axis must the weights sum to 1?",
    ),
    wrong(
        _grouped(axis=-2),
        "softmax over the queries | Your weights sum to 1 over the queries. → Over what does a "
        "query's mean go?",
    ),
    wrong(
        _mixed_rows,
        "rows of a group as tokens | You put a group's queries into one product, rightly, but your "
        "mask takes its rows for tokens that follow one another. → Which token is row r of?",
    ),
    wrong(
        _rows_in_wrong_order,
        "rows of a group in another order | All results are there, and heads and tokens of a group "
        "have changed places where you take its rows apart. → In which order did you put them "
        "together?",
    ),
    wrong(
        _taken_in_turns,
        "queries grouped in turns | You put heads i and i + h_kv into one group, and take the "
        "groups apart again as if neighbours had been in them. → Which axis comes first when "
        "neighbours share, the group's or that within it?",
    ),
    wrong(
        _grouped(finish=_rows_first),
        "heads merged | You merge the heads at the end, and nobody asked for it. → Which shape is "
        "asked for?",
    ),
    wrong(
        _grouped(finish=lambda y, h_kv: y.reshape(len(y), h_kv, -1, *y.shape[2:])),
        "an axis of groups | Your output has the heads by groups, on two axes. → Which shape is "
        "asked for?",
    ),
    wrong(
        _stops(lambda q, keys, values, lengths: q.shape[1] != keys.shape[1], "broadcast"),
        "as many heads of keys | Your program stops where there are fewer heads of keys than of "
        "queries. → How do you give each query head its keys?",
    ),
    wrong(
        _stops(lambda q, keys, values, lengths: len(q) > 1, "broadcast"),
        "one text | Your program stops where there are several texts. → Which axes has your mask, "
        "and where is that of the heads?",
    ),
    wrong(
        _in_place,
        "the queries changed | You divide the queries in place, with `/=`, and whoever called you "
        "has others now. → Which operator makes a new array?",
    ),
]  # fmt: skip


def _as_rows(q: Any, keys: Any, values: Any, lengths: Any) -> Any:
    """Put a group's queries into one product; no key is copied."""
    b, h, n_q, d = q.shape
    h_kv, n_max = keys.shape[1:3]
    rows = q.reshape(b, h_kv, h // h_kv * n_q, d)
    scores = rows @ keys.swapaxes(-2, -1) / d**0.5
    own = np.tile(np.arange(n_q), h // h_kv) + (lengths - n_q)[:, None]
    scores[np.broadcast_to((np.arange(n_max) > own[..., None])[:, None], scores.shape)] = -1e30
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (exps @ values / exps.sum(axis=-1, keepdims=True)).reshape(b, h, n_q, -1)


def _one_by_one(q: Any, keys: Any, values: Any, lengths: Any) -> Any:
    b, h, n_q, d = q.shape
    group = h // keys.shape[1]
    output = np.zeros((b, h, n_q, values.shape[-1]))
    for text in range(b):
        for head in range(h):
            for i in range(n_q):
                n = lengths[text] - n_q + i + 1
                scores = keys[text, head // group, :n] @ q[text, head, i] / np.sqrt(d)
                exps = np.exp(scores - scores.max())
                output[text, head, i] = exps / exps.sum() @ values[text, head // group, :n]
    return output


def _by_einsum(q: Any, keys: Any, values: Any, lengths: Any) -> Any:
    b, h, n_q, d = q.shape
    q = q.reshape(b, keys.shape[1], -1, n_q, d)
    scores = np.einsum("bgrid,bgjd->bgrij", q, keys) / np.sqrt(d)
    seen = np.arange(keys.shape[2]) <= (lengths[:, None] - n_q + np.arange(n_q))[..., None]
    weights = softmax(np.where(seen[:, None, None], scores, -np.inf))
    return np.einsum("bgrij,bgjv->bgriv", weights, values).reshape(b, h, n_q, -1)


def _by_torch(q: Any, keys: Any, values: Any, lengths: Any) -> Any:
    import torch

    n_q, n_max = q.shape[2], keys.shape[2]
    own = lengths[:, None] - n_q + torch.arange(n_q)
    seen = torch.arange(n_max) <= own[..., None]
    return torch.nn.functional.scaled_dot_product_attention(
        q, keys, values, attn_mask=seen[:, None], enable_gqa=True
    )


GROUPED = Exercise(
    id="14.grouped",
    function="grouped_attention",
    reference=grouped_attention,
    guarded=[
        grouped_query.grouped_query_attention,
        grouped_query.repeat_kv,
        cache.cached_attention,
        flash.flash_attention,
    ],
    cases=_CASES,
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="a group's queries as rows", right=_as_rows),
        Alternative(name="loops", right=_one_by_one),
        Alternative(name="einsum", right=_by_einsum),
        Alternative(name="torch", right=_by_torch, backend="torch"),
    ],
    hints=[
        "First one text, as many heads of keys as of queries: scores, a mask, softmax, sum. Then "
        "let heads share, and give the mask an axis for the texts.",
        "`np.repeat(keys, g, axis=1)` gives each query head its keys. New token i of a text "
        "stands at place `lengths − n_q + i` and sees that place and those before it.",
        "`own = lengths[:, None] - n_q + np.arange(n_q)` is (b, n_q), so that `np.arange(n_max) <= "
        "own[..., None]` is (b, n_q, n_max). The axis of heads is missing: `[:, None]`.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 14.pool ---------------------------------------------------------------------------------------


def group_heads(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> NDArray:
    """Make a layer's fused matrix one of fewer heads of keys and values.

    Parameters
    ----------
    w_qkv : float array, (d, (h + 2 h_kv) w) or ((h + 2 h_kv) w,)
        Heads of queries, of keys, of values, side by side; or their bias.
    n_heads, n_kv_heads : int
        h and h_kv that there are.
    new_kv_heads : int
        How many heads of keys there shall be, each the mean of a group; divides h_kv.

    Returns
    -------
    float array, (d, (h + 2 new) w) or ((h + 2 new) w,)
    """
    y: NDArray = _pooled()(w_qkv, n_heads, n_kv_heads, new_kv_heads)
    return y


def _neighbours(heads: NDArray, new_kv_heads: int) -> NDArray:
    """Bring groups' heads onto an axis of their own: (..., groups, heads in it, width)."""
    *lead, h, width = heads.shape
    return heads.reshape(*lead, new_kv_heads, h // new_kv_heads, width)


def _in_turns(heads: NDArray, new_kv_heads: int) -> NDArray:
    *lead, h, width = heads.shape
    return heads.reshape(*lead, h // new_kv_heads, new_kv_heads, width).swapaxes(-3, -2)


def _mean(groups: NDArray) -> NDArray:
    return groups.mean(axis=-2)


def _contiguous(x: NDArray, n: int) -> NDArray:
    return x.reshape(*x.shape[:-1], n, -1)


def _strided(x: NDArray, n: int) -> NDArray:
    return x.reshape(*x.shape[:-1], -1, n).swapaxes(-2, -1)


def _flat(heads: NDArray) -> NDArray:
    return heads.reshape(*heads.shape[:-2], -1)


def _flat_strided(heads: NDArray) -> NDArray:
    return heads.swapaxes(-2, -1).reshape(*heads.shape[:-2], -1)


def _one_head(heads: NDArray, new_kv_heads: int) -> NDArray:
    return _neighbours(
        heads.mean(axis=-2, keepdims=True).repeat(new_kv_heads, axis=-2), new_kv_heads
    )


def _pooled(
    *,
    width: Callable[[int, int, int], int] = lambda total, h, h_kv: total // (h + 2 * h_kv),
    cut: Callable[[NDArray, int], NDArray] = _contiguous,
    group: Callable[[NDArray, int], NDArray] = _neighbours,
    pool: Callable[[NDArray], NDArray] = _mean,
    pool_values: Callable[[NDArray], NDArray] | None = None,
    flat: Callable[[NDArray], NDArray] = _flat,
    put: Callable[..., Any] = lambda q, k, v: np.concatenate([q, k, v], axis=-1),
    which: str = "kv",
    repeated: bool = False,
    order: str = "qkv",
) -> Callable[..., Any]:
    """Return the pooling with some steps replaced."""

    def convert(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
        each = width(w_qkv.shape[-1], n_heads, n_kv_heads)
        counts = {"q": n_heads, "k": n_kv_heads, "v": n_kv_heads}
        parts, start = {}, 0
        for letter in order:
            parts[letter] = w_qkv[..., start : start + counts[letter] * each]
            start += counts[letter] * each
        for letter in which:
            groups = group(cut(parts[letter], counts[letter]), new_kv_heads)
            means = (pool_values or pool)(groups) if letter == "v" else pool(groups)
            if repeated:
                means = means.repeat(counts[letter] // new_kv_heads, axis=-2)
            parts[letter] = flat(means)
        return put(parts["q"], parts["k"], parts["v"])

    return convert


def _layer(d: int | None, h: int, h_kv: int, width: int, groups: int) -> Callable[..., Any]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 15, d or 0, h, h_kv, width, groups])
        shape = ((h + 2 * h_kv) * width,) if d is None else (d, (h + 2 * h_kv) * width)
        names = {"n_heads": h, "n_kv_heads": h_kv, "new_kv_heads": groups}
        return {"w_qkv": draw(rng, *shape) + 0.1} | names

    return build


_POOL_CASES = [
    case("2 heads of width 1 become one | the means of two columns", _layer(1, 2, 2, 1, 1)),
    case("2 heads of width 3 become one | head by head", _layer(2, 2, 2, 3, 1)),
    case("4 heads become 2 | neighbours form a group", _layer(3, 4, 4, 2, 2)),
    case("6 heads become 2 | three in a group", _layer(5, 6, 6, 2, 2)),
    case("6 heads of queries, 4 of keys become 2 | it was grouped before", _layer(4, 6, 4, 3, 2)),
    case("8 heads, 4 of keys stay 4 | nothing is lost", _layer(3, 8, 4, 2, 4)),
    case("a bias | one axis only", _layer(None, 4, 4, 3, 2)),
    case("12 heads, 6 of keys become one | for multi-query attention", _layer(7, 12, 6, 2, 1)),
]


def _by_thirds(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    """Cut into thirds, whatever the numbers of heads."""
    q, k, v = np.split(w_qkv, 3, axis=-1)
    k, v = (_flat(_mean(_neighbours(_contiguous(x, n_kv_heads), new_kv_heads))) for x in (k, v))
    return np.concatenate([q, k, v], axis=-1)


def _width_by_3h(w_qkv: NDArray, h: int, h_kv: int) -> int:
    return w_qkv.shape[-1] // (3 * h)


def _by_reshape(
    *,
    width: Callable[[NDArray, int, int], int] = lambda w_qkv, h, h_kv: (
        w_qkv.shape[-1] // (h + 2 * h_kv)
    ),
    ends: Callable[[int, int], list[int]] = lambda h, h_kv: [h, h + h_kv],
    thirds: bool = False,
    shape: Callable[[int, int, int, int], tuple[int, int, int]] = lambda w, h, h_kv, new: (
        new,
        -1,
        w,
    ),
) -> Callable[..., Any]:
    """Cut by a width or by ends that aren't right, and group by a reshape, as far as that goes."""

    def convert(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
        w = width(w_qkv, n_heads, n_kv_heads)
        cuts: Any = 3 if thirds else [w * end for end in ends(n_heads, n_kv_heads)]
        q, k, v, *_ = np.split(w_qkv, cuts, axis=-1)
        groups = shape(w, n_heads, n_kv_heads, new_kv_heads)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of no heads
            k, v = (_flat(x.reshape(*x.shape[:-1], *groups).mean(axis=-2)) for x in (k, v))
        return np.concatenate([q, k, v], axis=-1)

    return convert


def _matrix_only(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    if w_qkv.ndim == 1:
        raise ValueError("not enough values to unpack")
    return _pooled()(w_qkv, n_heads, n_kv_heads, new_kv_heads)


def _within_heads(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    """Give every column of a group the mean over all of the group's columns."""
    return _pooled(
        pool=lambda groups: np.broadcast_to(
            groups.mean(axis=(-2, -1), keepdims=True)[..., 0, :],
            (*groups.shape[:-2], groups.shape[-1]),
        )
    )(w_qkv, n_heads, n_kv_heads, new_kv_heads)


def _of_rows(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    """Take each head's columns row by row, as a matrix (d_out, d_in) would have them."""
    if w_qkv.ndim == 1:
        return _pooled()(w_qkv, n_heads, n_kv_heads, new_kv_heads)
    d, total = w_qkv.shape
    width = total // (n_heads + 2 * n_kv_heads)
    q, k, v = np.split(w_qkv, [n_heads * width, (n_heads + n_kv_heads) * width], axis=-1)
    k, v = (
        x.reshape(new_kv_heads, n_kv_heads // new_kv_heads, width, d).mean(axis=1).reshape(d, -1)
        for x in (k, v)
    )
    return np.concatenate([q, k, v], axis=-1)


def _together(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    """Pool keys and values as if they were heads of one kind."""
    width = w_qkv.shape[-1] // (n_heads + 2 * n_kv_heads)
    q, kv = w_qkv[..., : n_heads * width], w_qkv[..., n_heads * width :]
    pooled = _flat(_mean(_neighbours(_contiguous(kv, 2 * n_kv_heads), new_kv_heads)))
    return np.concatenate([q, pooled], axis=-1)


def _sharing_before(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    return _pooled()(w_qkv, n_heads, n_kv_heads, n_heads // n_kv_heads)


def _sharing_queries(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    return _pooled()(w_qkv, n_heads, n_kv_heads, n_heads // new_kv_heads)


def _over_groups(heads: NDArray) -> NDArray:
    return heads.mean(axis=-3)


def _over_columns(heads: NDArray) -> NDArray:
    return heads.mean(axis=-1)


def _by_number_of_groups(heads: NDArray) -> NDArray:
    y: NDArray = heads.sum(axis=-2) / heads.shape[-3]
    return y


def _size_of_groups(w_qkv: NDArray, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    return _pooled()(w_qkv, n_heads, n_kv_heads, n_kv_heads // new_kv_heads)


_POOL_WRONG = [
    wrong(
        _size_of_groups,
        "the size of a group | Your groups have `new_kv_heads` heads each. That's how many heads "
        "of keys are to be left. → How many of the h_kv heads go into each of these?",
    ),
    wrong(
        _pooled(pool=lambda groups: groups.sum(axis=-2)),
        "the sum of a group | You add the heads of a group. Keys twice as large make scores twice "
        "as large. → What are heads to become that are alike?",
    ),
    wrong(
        _pooled(pool=_by_number_of_groups),
        "divided by the number of groups | You add the heads of a group and divide by the number "
        "of groups. → How many heads have you added?",
    ),
    wrong(
        _pooled(pool=_over_groups),
        "the mean of the groups | You take the mean over the groups, and keep the heads of a group "
        "apart. → Which axis is that of the heads within a group?",
    ),
    wrong(
        _pooled(pool=_over_columns),
        "one number a head | You take the mean over each head's columns, and keep all the heads. → "
        "Which axis is that of the heads within a group?",
    ),
    wrong(
        _together,
        "keys and values in one group | You pool keys and values as one row of heads, and get half "
        "as many as asked for. → Which heads of the result are to be keys, and which values?",
    ),
    wrong(
        _sharing_queries,
        "groups of query heads | You make h / `new_kv_heads` groups. So many query heads will "
        "share a head of keys. → How many heads of keys are to be left?",
    ),
    wrong(
        _sharing_before,
        "as many groups as a group had | You make h / h_kv groups. So many query heads have shared "
        "a head of keys until now. → How many heads of keys are to be left?",
    ),
    wrong(
        _by_reshape(width=_width_by_3h),
        "the width by three times h | Your width of a head is that of a layer with as many heads "
        "of keys as of queries. → How many heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(width=lambda w_qkv, h, h_kv: w_qkv.shape[-1] // (h + h_kv)),
        "the width by h + h_kv | Your width of a head leaves out the keys or the values when it "
        "counts the heads. → How many heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(width=lambda w_qkv, h, h_kv: w_qkv.shape[0] // h),
        "the width from the rows | You take d / h for the width of a head, from the number of "
        "rows. It isn't given that heads are d / h wide, and a bias has no rows. → What do the "
        "columns tell you?",
    ),
    wrong(
        _pooled(pool=lambda groups: groups[..., 0, :]),
        "the first head of a group | You keep the first head of each group and throw the others "
        "away. → What did better in the paper's comparison?",
    ),
    wrong(
        _pooled(pool=lambda groups: groups[..., -1, :]),
        "the last head of a group | You keep the last head of each group and throw the others "
        "away. → What did better in the paper's comparison?",
    ),
    wrong(
        _pooled(pool=lambda groups: np.median(groups, axis=-2)),
        "the median of a group | You take the median of a group's heads. → Which of its heads has "
        "no part in it, where there are three?",
    ),
    wrong(
        _pooled(pool=lambda groups: groups.sum(axis=-2) / sqrt(groups.shape[-2])),
        "divided by a root | You divide the sum by the root of the number of heads. → What are "
        "heads to become that are alike?",
    ),
    wrong(
        _pooled(group=_in_turns),
        "groups in turns | Your groups hold every second (third, …) head. Query heads that are "
        "neighbours will ask one head of keys. → Which heads of keys did these ask before?",
    ),
    wrong(
        _pooled(cut=_strided, flat=_flat_strided),
        "means of neighbouring columns | You take means of columns that lie next to each other, as "
        "if a head were every other column. Here a head's columns lie side by side. → How far "
        "apart are the first columns of two heads?",
    ),
    wrong(
        _within_heads,
        "one number for a whole group | You average over the columns of a head as well, and all "
        "its columns become alike. → Which axis is that of the group's heads?",
    ),
    wrong(
        _of_rows,
        "reshaped as rows | You take the heads from rows, as if the matrix were (d_out, d_in). "
        "Heads are columns here. → Which axis of the matrix do you have to cut?",
    ),
    wrong(
        _pooled(group=_one_head),
        "one head for all groups | Your groups all get the same: the mean over all heads. → Which "
        "heads belong to the second group?",
    ),
    wrong(
        _pooled(which="k"),
        "values as they were | You pool the keys and leave the values as they are. → What does a "
        "group share beside its keys?",
    ),
    wrong(
        _pooled(which="v"),
        "keys as they were | You pool the values and leave the keys as they are. → What does a "
        "group share beside its values?",
    ),
    wrong(
        _pooled(which="qkv"),
        "queries pooled | You pool the queries as well. Heads of a group share keys, not "
        "questions. → How many heads of queries has the model afterwards?",
    ),
    wrong(
        _pooled(pool_values=lambda groups: groups[..., 0, :]),
        "the first head's values | Your keys are means, and your values those of the first head of "
        "each group. → What is done with keys, and is it done with values?",
    ),
    wrong(
        _pooled(pool_values=lambda groups: groups.sum(axis=-2)),
        "values summed | Your keys are means of a group's heads, and your values sums. → What are "
        "values to become that are alike?",
    ),
    wrong(
        _pooled(repeated=True),
        "pooled and repeated | You pool, and then repeat the mean for each head of its group: as "
        "large a matrix as before. → What is to be kept in the cache?",
    ),
    wrong(
        _pooled(put=lambda q, k, v: np.concatenate([q, v, k], axis=-1)),
        "values in front of keys | Your matrix has values where keys belong, and keys where "
        "values do. → In which order does the matrix come in?",
    ),
    wrong(
        _pooled(put=lambda q, k, v: np.concatenate([k, v, q], axis=-1)),
        "queries last | Your matrix has the queries behind keys and values. → In which order does "
        "the matrix come in?",
    ),
    wrong(
        _pooled(put=lambda q, k, v: np.concatenate([k, v], axis=-1)),
        "without the queries | You return keys and values only, without the columns of queries. → "
        "What did the matrix hold that came in?",
    ),
    wrong(
        _pooled(put=lambda q, k, v: (q, k, v)),
        "three matrices | You return queries, keys and values in three parts. → How many matrices "
        "is the result to be?",
    ),
    wrong(
        _by_thirds,
        "fewer heads of keys | Your program stops where there are fewer heads of keys than of "
        "queries, h_kv < h: it counts h heads of keys, or cuts into thirds. → Which of its lines "
        "are right only if `n_kv_heads` is `n_heads`?",
    ),
    wrong(
        _by_reshape(ends=lambda h, h_kv: [h, 2 * h]),
        "as many heads of keys as of queries | You cut the matrix after h and after 2h heads. "
        "There are h_kv heads of keys. → Where do the values begin?",
    ),
    wrong(
        _by_reshape(width=_width_by_3h, thirds=True),
        "thirds | You cut the matrix into thirds, as if keys and values had h heads each, like "
        "queries. They have h_kv. → Where do the keys end?",
    ),
    wrong(
        _by_reshape(width=_width_by_3h, ends=lambda h, h_kv: [h, 2 * h]),
        "h heads of each | You cut the matrix as if keys and values had h heads each, like "
        "queries. They have h_kv. → How many heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(width=_width_by_3h, ends=lambda h, h_kv: [h, 2 * h, 3 * h]),
        "h heads of each, up to 3h | You cut three times h heads out of the matrix, and leave the "
        "last columns out. Keys and values have h_kv heads each. → How many heads lie side by side "
        "in all?",
    ),
    wrong(
        _by_reshape(
            width=_width_by_3h,
            ends=lambda h, h_kv: [h, 2 * h],
            shape=lambda w, h, h_kv, new: (new, h // new, -1),
        ),
        "h heads of each, and in groups | You cut and group as if keys and values had h heads "
        "each, like queries. They have h_kv. → How many heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(
            ends=lambda h, h_kv: [h, 2 * h], shape=lambda w, h, h_kv, new: (new, h // new, -1)
        ),
        "cut after 2h, h heads in groups | Your width of a head is right, and then you cut and "
        "group as if there were h heads of keys. There are h_kv. → Where do the values begin?",
    ),
    wrong(
        _by_reshape(
            width=_width_by_3h,
            ends=lambda h, h_kv: [h, 2 * h],
            shape=lambda w, h, h_kv, new: (-1, h // new, w),
        ),
        "h heads of each, h / new_kv_heads in a group | You cut and group as if there were h heads "
        "of keys and h of values, as there are of queries. There are h_kv of each. → How many "
        "heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(
            ends=lambda h, h_kv: [h, 2 * h], shape=lambda w, h, h_kv, new: (-1, h // new, w)
        ),
        "cut after 2h, h / new_kv_heads in a group | Your width of a head is right, but you cut "
        "after h and 2h heads, and put h / `new_kv_heads` into a group. There are h_kv heads of "
        "keys. → Where do the values begin?",
    ),
    wrong(
        _by_reshape(
            ends=lambda h, h_kv: [h, 2 * h], shape=lambda w, h, h_kv, new: (new, h_kv // new, -1)
        ),
        "cut after 2h, whatever is there in groups | Your groups have h_kv / `new_kv_heads` heads, "
        "but you cut the matrix after h and after 2h, and there are h_kv heads of keys. → Where do "
        "the values begin?",
    ),
    wrong(
        _by_reshape(
            width=_width_by_3h,
            ends=lambda h, h_kv: [h, 2 * h],
            shape=lambda w, h, h_kv, new: (new, h_kv // new, -1),
        ),
        "h heads of each, whatever is there in groups | Your groups have h_kv / `new_kv_heads` "
        "heads, but you cut the matrix as if keys and values had h each. They have h_kv. → How "
        "many heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(
            width=_width_by_3h,
            ends=lambda h, h_kv: [h, 2 * h, 3 * h],
            shape=lambda w, h, h_kv, new: (new, h_kv // new, -1),
        ),
        "h heads of each, up to 3h, whatever is there in groups | Your groups have h_kv / "
        "`new_kv_heads` heads, but you cut three times h heads out of the matrix. Keys and values "
        "have h_kv each. → How many heads lie side by side in all?",
    ),
    wrong(
        _by_reshape(shape=lambda w, h, h_kv, new: (new, h // new, -1)),
        "h heads in groups | Your cuts are right, and then you form groups of h / `new_kv_heads` "
        "heads, as if there were h heads of keys. There are h_kv. → How many of these go into each "
        "group?",
    ),
    wrong(
        _by_reshape(shape=lambda w, h, h_kv, new: (-1, h // new, w)),
        "h / new_kv_heads in a group | You put h / `new_kv_heads` heads of keys into a group. So "
        "many query heads will share one, and there are h_kv heads of keys, not h. → How many of "
        "these go into each group?",
    ),
    wrong(
        _matrix_only,
        "no bias | Your program stops at a bias, which has a single axis. → How do you name the "
        "last axis, whatever stands before it?",
    ),
]  # fmt: skip


def _by_a_matrix(w_qkv: Any, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    """Multiply by a matrix that averages."""
    width = w_qkv.shape[-1] // (n_heads + 2 * n_kv_heads)
    size = n_kv_heads // new_kv_heads
    average = np.kron(np.eye(new_kv_heads), np.full((size, 1), 1 / size))  # heads to groups
    pool = np.zeros((n_heads + 2 * n_kv_heads, n_heads + 2 * new_kv_heads))
    pool[:n_heads, :n_heads] = np.eye(n_heads)
    pool[n_heads:-n_kv_heads, n_heads:-new_kv_heads] = average
    pool[-n_kv_heads:, -new_kv_heads:] = average
    return w_qkv @ np.kron(pool, np.eye(width))


def _head_by_head(w_qkv: Any, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    heads = np.split(w_qkv, n_heads + 2 * n_kv_heads, axis=-1)
    size = n_kv_heads // new_kv_heads
    kept = heads[:n_heads]
    for i in range(n_heads, len(heads), size):
        kept.append(np.add.reduce(heads[i : i + size]) / size)
    return np.concatenate(kept, axis=-1)


def _all_at_once(w_qkv: Any, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    width = w_qkv.shape[-1] // (n_heads + 2 * n_kv_heads)
    w = w_qkv.reshape(-1, n_heads + 2 * n_kv_heads, width)
    shared = w[:, n_heads:].reshape(len(w), 2 * new_kv_heads, -1, width).mean(axis=2)
    return np.concatenate([w[:, :n_heads], shared], axis=1).reshape(*w_qkv.shape[:-1], -1)


def _pooled_by_torch(w_qkv: Any, n_heads: int, n_kv_heads: int, new_kv_heads: int) -> Any:
    import torch

    width = w_qkv.shape[-1] // (n_heads + 2 * n_kv_heads)
    q, kv = w_qkv.split([n_heads * width, 2 * n_kv_heads * width], dim=-1)
    pooled = kv.unflatten(-1, (2 * new_kv_heads, n_kv_heads // new_kv_heads, width)).mean(dim=-2)
    return torch.cat([q, pooled.flatten(-2)], dim=-1)


POOL = Exercise(
    id="14.pool",
    function="group_heads",
    reference=group_heads,
    guarded=[grouped_query.pool_kv_heads],
    cases=_POOL_CASES,
    misconceptions=_POOL_WRONG,
    alternatives=[
        Alternative(name="a matrix that averages", right=_by_a_matrix),
        Alternative(name="head by head", right=_head_by_head),
        Alternative(name="keys and values at once", right=_all_at_once),
        Alternative(name="torch", right=_pooled_by_torch, backend="torch"),
    ],
    hints=[
        "Three steps: cut the last axis into queries, keys and values, pool the last two, and put "
        "the three together again.",
        "h + 2·h_kv heads lie side by side, so one of them is `w_qkv.shape[-1] // (n_heads + 2 * "
        "n_kv_heads)` columns wide.",
        "`x.reshape(*x.shape[:-1], new_kv_heads, n_kv_heads // new_kv_heads, width)` brings the "
        "heads of a group onto the last axis but one. It works for a bias, too.",
    ],
    points=3,
    minutes=20,
    difficulty=2,
)
