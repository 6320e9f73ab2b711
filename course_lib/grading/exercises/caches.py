"""The exercises of chapter 11 about keys and values that are kept.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import (
    cut,
    every_other,
    late,
    merge,
    paste,
    plain_softmax,
    split,
)
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.rotations import torch_interleaved, turn, turning
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import attention, multi_head

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "CACHED_ATTENTION",
    "CACHED_ROTARY_STEP",
    "cached_attention",
    "cached_rotary_step",
]

Glue = Callable[["NDArray", "NDArray"], "NDArray"]


def _behind(old: NDArray, new: NDArray) -> NDArray:
    return np.concatenate([old, new], axis=-2)


def _in_front(old: NDArray, new: NDArray) -> NDArray:
    return np.concatenate([new, old], axis=-2)


# -- 11.cached_attention ---------------------------------------------------------------------------


def cached_attention(
    x: NDArray,
    w_q: NDArray,
    w_k: NDArray,
    w_v: NDArray,
    w_o: NDArray,
    n_heads: int,
    keys: NDArray,
    values: NDArray,
) -> tuple[NDArray, NDArray, NDArray]:
    """Let new tokens attend to all that came before them, which a cache holds, and themselves.

    Parameters
    ----------
    x : float array, (b, n, d)
        The new tokens, one or several.
    w_q, w_k, w_v, w_o : float arrays, (d, d)
    n_heads : int
    keys, values : float arrays, (b, h, n_past, d/h)
        Of the tokens before; n_past may be 0.

    Returns
    -------
    output : float array, (b, n, d)
    keys, values : float arrays, (b, h, n_past + n, d/h)
        The cache for the next call.
    """
    return _cached()(x, w_q, w_k, w_v, w_o, n_heads, keys, values)


def _looking_back(n: int, past: int, total: int) -> NDArray:
    return np.arange(total) <= past + np.arange(n)[:, None]


def _all_seen(n: int, past: int, total: int) -> NDArray:
    return np.ones((n, total), bool)


def _from_the_left(n: int, past: int, total: int) -> NDArray:
    return np.arange(total) <= np.arange(n)[:, None]


def _cached(
    *,
    count: Callable[[NDArray], int] = lambda keys: keys.shape[-2],
    split: Callable[[NDArray, int], NDArray] = split,
    merge: Callable[[NDArray], NDArray] = merge,
    project: Callable[..., tuple[NDArray, ...]] = lambda x, q, k, v: (x @ q, x @ k, x @ v),
    glue: Glue = _behind,
    glue_values: Glue | None = None,
    sees: Callable[[int, int, int], NDArray] = _looking_back,
    scale: Callable[[int, int], float] = lambda d, h: sqrt(d / h),
    hide: Callable[[NDArray, NDArray], NDArray] = lambda s, seen: np.where(seen, s, -np.inf),
    axis: int = -1,
    weigh: Callable[..., NDArray] = plain_softmax,
    after: Callable[[NDArray, NDArray], NDArray] = lambda weights, seen: weights,
    output: Callable[[NDArray, NDArray], NDArray] = lambda heads, w_o: heads @ w_o,
    looked_at: Callable[[NDArray, NDArray, int], NDArray] = lambda whole, new, past: whole,
    store: Callable[[NDArray, NDArray, NDArray], Any] = lambda whole, old, new: whole,
) -> Callable[..., Any]:
    """Return attention with a cache, with some steps replaced."""

    def attend(
        x: NDArray,
        w_q: NDArray,
        w_k: NDArray,
        w_v: NDArray,
        w_o: NDArray,
        n_heads: int,
        keys: NDArray,
        values: NDArray,
    ) -> Any:
        n, past = x.shape[-2], count(keys)
        q, k, v = (split(y, n_heads) for y in project(x, w_q, w_k, w_v))
        all_k, all_v = glue(keys, k), (glue_values or glue)(values, v)
        seen_k, seen_v = looked_at(all_k, k, past), looked_at(all_v, v, past)
        with np.errstate(all="ignore"):
            scores = q @ seen_k.swapaxes(-2, -1) / scale(x.shape[-1], n_heads)
            seen = sees(n, past, seen_k.shape[-2])
            weights = after(weigh(hide(scores, seen), axis), seen)
            heads = merge(weights @ seen_v)
        return output(heads, w_o), store(all_k, keys, k), store(all_v, values, v)

    return attend


def _kept(b: int, n: int, past: int, *, h: int, d: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 6, b, n, past, h])
        given: dict[str, Any] = {"x": draw(rng, b, n, d)}
        given |= {name: draw(rng, d, d, spread=0.7) for name in ("w_q", "w_k", "w_v", "w_o")}
        given |= {"n_heads": h}
        return given | {name: draw(rng, b, h, past, d // h) for name in ("keys", "values")}

    return build


_CACHED_CASES = [
    case("one token after 3, one head | it sees everything", _kept(1, 1, 3, h=1, d=2)),
    case("one token after 4, 2 heads | each head by itself", _kept(1, 1, 4, h=2, d=6)),
    case("3 tokens, an empty cache, one head | none sees a later one", _kept(1, 3, 0, h=1, d=4)),
    case("2 tokens after 3, 2 heads | the first doesn't see the second", _kept(1, 2, 3, h=2, d=4)),
    case("2 rows of one token after 5, 3 heads | a batch", _kept(2, 1, 5, h=3, d=6)),
    case("2 rows of 3 tokens after 1, 2 heads | a batch, a chunk", _kept(2, 3, 1, h=2, d=8)),
]


def _shifted_across(s: NDArray, axis: int) -> NDArray:
    e = np.exp(s - s.max(axis=-2, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def _square(n: int, past: int, total: int) -> NDArray:
    """Make a mask of the new tokens alone."""
    return np.tri(n, dtype=bool)


def _cached_cross(
    x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int, keys: Any, values: Any
) -> Any:
    """Take the cache for finished: the new tokens' keys are stored, not looked at."""
    return _cached(looked_at=lambda whole, new, past: whole[..., :past, :], sees=_all_seen)(
        x, w_q, w_k, w_v, w_o, n_heads, keys, values
    )


def _cached_overwriting(
    x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int, keys: Any, values: Any
) -> Any:
    result = _cached()(x, w_q, w_k, w_v, w_o, n_heads, keys, values)
    keys[..., :, :] = result[1][..., x.shape[-2] :, :][..., : keys.shape[-2], :]
    return result


_CACHED_WRONG = [
    wrong(
        _cached(sees=_all_seen),
        "no mask | One new token may see everything, so you're right there. Of several, yours look "
        "at later ones. → Which of the new keys may the first new token see?",
    ),
    wrong(
        _cached(sees=_from_the_left),
        "the mask begins at the left | With an empty cache you're right. Otherwise your mask "
        "belongs to tokens that begin at 0: the first new one sees a single key. → Which is the "
        "last key that new token i may see, if n_past keys come first?",
    ),
    wrong(
        _cached(sees=_square),
        "a square mask | With one new token, or with an empty cache, your mask fits. Otherwise "
        "it's n × n, and the scores have n_past columns more. → What may a new token see of the "
        "old keys, and where do they stand in a row?",
    ),
    wrong(
        _cached(sees=lambda n, past, total: np.arange(total) < past + np.arange(n)[:, None]),
        "itself hidden | Your new tokens don't see themselves, only what came before. → Does key "
        "j = n_past + i belong to what new token i sees?",
    ),
    wrong(
        _cached(sees=lambda n, past, total: np.arange(total) <= past + np.arange(n)[:, None] + 1),
        "one too many seen | One new token is right with you; of several, each sees the one after "
        "it. → Which is the last key that new token i may see?",
    ),
    wrong(
        _cached(sees=lambda n, past, total: np.arange(total) >= past + np.arange(n)[:, None]),
        "the mask upside down | Your new tokens see themselves and what comes later; the past is "
        "hidden. → On which side of itself may a token look?",
    ),
    wrong(
        _cached_cross,
        "only the cache looked at | Your new tokens look at what was there before, not at "
        "themselves: their keys get into the cache after the look. → When does a new key have to "
        "be there?",
    ),
    wrong(
        _cached(
            looked_at=lambda whole, new, past: new,
            sees=lambda n, past, total: np.tri(n, dtype=bool),
        ),
        "the cache not looked at | Your new tokens look at themselves alone, as if nothing had "
        "been before; the cache is passed on. → With which keys do the queries meet?",
    ),
    wrong(
        _cached(glue=_in_front, sees=lambda n, past, total: _looking_back(n, past, total)),
        "new keys in front | You put the new keys and values before the old ones. → At which end "
        "does a text grow?",
    ),
    wrong(
        _cached(glue_values=_in_front),
        "new values in front | Your keys are right, but the new values stand before the old ones, "
        "so that weights meet other tokens' values. → At which end does a text grow?",
    ),
    wrong(
        _cached(store=lambda whole, old, new: new),
        "only the new ones returned | Your output is right, but you hand on the new keys and "
        "values alone: the next call won't see what came before. → What does the cache hold after "
        "this call?",
    ),
    wrong(
        _cached(store=lambda whole, old, new: old),
        "the cache as it was | Your output is right, but you hand on the old cache: the next call "
        "won't see these tokens. → What does the cache hold after this call?",
    ),
    wrong(
        _cached(project=lambda x, q, k, v: (x @ q, x @ v, x @ k)),
        "keys and values changed places | Keys come from W_V with you, and values from W_K. → With "
        "which of them does a query take its products?",
    ),
    wrong(
        _cached(project=lambda x, q, k, v: (x @ k, x @ q, x @ v)),
        "queries and keys changed places | Queries come from W_K with you, and keys from W_Q. → "
        "Which of the two is kept in the cache?",
    ),
    wrong(
        _cached(project=lambda x, q, k, v: (x @ q, x @ k, x @ k)),
        "keys for values | You store keys in the place of values. → Which matrix makes values?",
    ),
    wrong(
        _cached(project=lambda x, q, k, v: (x @ q.T, x @ k.T, x @ v.T)),
        "transposed matrices | this exercise uses x W, with matrices (d_in, d_out); you multiply "
        "by the transpose, which is right for the weights of `nn.Linear`. → Which shape has "
        "`x @ w`, and which entries meet?",
        variant=True,
    ),
    wrong(
        _cached(project=lambda x, q, k, v: (x @ q, x, x)),
        "tokens not projected | You store the tokens themselves, cut into heads, in the place of "
        "keys and values. → What makes a key of a token?",
    ),
    wrong(
        _cached(split=cut),
        "cut without bringing heads forward | With one token or one head you're right. Otherwise "
        "your heads mix tokens: `reshape` went straight to (b, h, n, d/h). → Which axis has to be "
        "cut first, and which two have to change places then?",
    ),
    wrong(
        _cached(split=every_other),
        "every h-th column | Your head i has the columns i, i + h, …. Heads are blocks of "
        "neighbouring columns. → In which order should the two new axes stand when the last one is "
        "cut?",
    ),
    wrong(
        _cached(merge=paste),
        "merged without bringing tokens forward | Keys and values are right, and so is one token. "
        "Of several, the outputs of the heads are mixed up: `reshape` alone doesn't undo the "
        "split. → Which two axes have to change places before heads are put side by side?",
    ),
    wrong(
        _cached(scale=lambda d, h: sqrt(d)),
        "divided by √d | With one head you're right. With more, scores are divided by the root of "
        "the whole width. → How wide are the vectors whose product a score is?",
    ),
    wrong(
        _cached(scale=lambda d, h: 1.0),
        "not scaled | Your keys and values are right, your weights are too sharp: the scores "
        "aren't divided by anything. → What does attention divide a product by?",
    ),
    wrong(
        _cached(scale=lambda d, h: d / h),
        "divided by the width | Your weights are too even: scores are divided by d/h, not by its "
        "root. → How does the spread of a product grow with the width?",
    ),
    wrong(
        _cached(output=lambda heads, w_o: heads),
        "no output projection | Your heads are right, but they're not projected. → Which matrix "
        "haven't you used?",
    ),
    wrong(
        _cached(axis=-2),
        "normalised over the queries | Your weights sum to 1 over the queries, so that a single "
        "one gives weight 1 to every key. → Over which axis are the keys that one query chooses "
        "from?",
    ),
    wrong(
        lambda *given: (lambda output, keys, values: (output, values, keys))(*_cached()(*given)),
        "values returned as keys | Your output is right, but the new cache has values where keys "
        "belong. → In which order does the docstring's Returns name them?",
    ),
    wrong(
        _cached(count=len),
        "the batch counted for the past | Your past is as long as the batch: `len` counts the "
        "first axis, and keys have the shape (b, h, n_past, d/h). → Which axis is that of the "
        "tokens?",
    ),
    wrong(
        _cached(output=lambda heads, w_o: heads @ w_o.T),
        "W_O transposed | Keys and values are right, but the last matrix is transposed. → Is it "
        "used as x W or as x Wᵀ here?",
    ),
    wrong(
        _cached(weigh=_shifted_across),
        "the maximum over the queries | You subtract the largest score of each *key* before "
        "exponentiating, so that a single query has scores of 0 only. → Over which axis is the "
        "maximum to be taken that changes no weight?",
    ),
    wrong(
        _cached(hide=lambda s, seen: np.where(seen, s, 0.0)),
        "hidden scores set to 0 | Hidden keys still get weight with you: e⁰ is 1. → Which score "
        "has the exponential 0?",
    ),
    wrong(
        _cached(hide=lambda s, seen: s, after=late),
        "the mask after the softmax | Weights of hidden keys are 0 with you, but the others don't "
        "sum to 1. → What has to happen to a hidden key's score before the softmax?",
    ),
    wrong(
        _cached(hide=lambda s, seen: np.where(seen, -np.inf, s), after=lambda w, seen: w),
        "the mask inverted | You hide what may be seen, and show the rest. → Does True in your "
        "mask mean that a token may look?",
    ),
    wrong(
        _cached(hide=lambda s, seen: np.where(seen, -1e9, s)),
        "the mask inverted, a large number below 0 | You hide what may be seen, and show the rest. "
        "Where all is hidden, all weights are alike. → Does True in your mask mean that a token "
        "may look?",
    ),
    wrong(
        _cached_overwriting,
        "the cache overwritten | The numbers are right, but you write into the caller's keys. → "
        "Which line makes the new array?",
    ),
]


def _cached_whole(
    x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int, keys: Any, values: Any
) -> Any:
    """Give the old tokens queries as well, as if the whole text were new, and cut them off."""
    n, past = x.shape[-2], keys.shape[-2]
    q, k, v = (split(x @ w, n_heads) for w in (w_q, w_k, w_v))
    keys, values = np.concatenate([keys, k], 2), np.concatenate([values, v], 2)
    scores = np.zeros((*keys.shape[:-1], past + n))
    scores[..., past:, :] = q @ keys.swapaxes(-2, -1) * keys.shape[-1] ** -0.5
    scores += np.triu(np.full((past + n, past + n), -1e30), 1)
    return merge((plain_softmax(scores) @ values)[..., past:, :]) @ w_o, keys, values


def _cached_one_by_one(
    x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int, keys: Any, values: Any
) -> Any:
    """Feed one token at a time: then nothing needs to be hidden."""
    outputs = []
    for t in range(x.shape[1]):
        q, k, v = ((x[:, t] @ w).reshape(len(x), n_heads, 1, -1) for w in (w_q, w_k, w_v))
        keys, values = np.append(keys, k, axis=2), np.append(values, v, axis=2)
        scores = (q * keys).sum(axis=-1) / sqrt(q.shape[-1])  # (b, h, n_past + 1)
        heads = (plain_softmax(scores)[..., None] * values).sum(axis=2)  # (b, h, d/h)
        outputs.append(heads.reshape(len(x), -1) @ w_o)
    return np.stack(outputs, axis=1), keys, values


def _cached_einsum(
    x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int, keys: Any, values: Any
) -> Any:
    b, n, d = x.shape
    past, width = keys.shape[2], d // n_heads
    room = np.empty((2, b, n_heads, past + n, width))
    room[0, :, :, :past], room[1, :, :, :past] = keys, values
    for i, w in enumerate((w_k, w_v)):
        room[i, :, :, past:] = np.einsum("bnd,dhe->bhne", x, w.reshape(d, n_heads, width))
    q = np.einsum("bnd,dhe->bhne", x, w_q.reshape(d, n_heads, width))
    e = np.exp(np.einsum("bhie,bhje->bhij", q, room[0]) / width**0.5) * np.tri(n, past + n, past)
    heads = np.einsum("bhij,bhje->bihe", e / e.sum(axis=-1, keepdims=True), room[1])
    return heads.reshape(b, n, d) @ w_o, room[0], room[1]


def _cached_torch(
    x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int, keys: Any, values: Any
) -> Any:
    import torch
    from torch.nn import functional

    n, past = x.shape[1], keys.shape[2]
    q, k, v = ((x @ w).unflatten(-1, (n_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    mask = torch.ones(n, past + n, dtype=torch.bool).tril(past)
    heads = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    return heads.transpose(1, 2).flatten(-2) @ w_o, keys, values


CACHED_ATTENTION = Exercise(
    id="11.cached_attention",
    function="cached_attention",
    reference=cached_attention,
    guarded=[multi_head.multi_head_attention, attention.scaled_dot_product_attention],
    cases=_CACHED_CASES,
    returns=("output", "keys", "values"),
    misconceptions=_CACHED_WRONG,
    alternatives=[
        ("the whole table of scores", _cached_whole),
        ("one token at a time", _cached_one_by_one),
        ("einsum, room taken at once", _cached_einsum),
        Alternative(name="torch", right=_cached_torch, backend="torch"),
    ],
    hints=[
        "Queries, keys and values of the *new* tokens alone are computed, and cut into heads. The "
        "new keys and values go behind the cached ones, along the axis of the tokens.",
        "The queries then look at all keys, old and new, as in multi-head attention. New token i "
        "stands at place n_past + i of the text.",
        "It may see key j where j ≤ n_past + i: `np.arange(n_past + n) <= n_past + "
        "np.arange(n)[:, None]`. Heads are put side by side again and projected by W_O.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 11.cached_rotary_step -------------------------------------------------------------------------


def cached_rotary_step(
    q: NDArray,
    k: NDArray,
    v: NDArray,
    keys: NDArray,
    values: NDArray,
    padding: NDArray,
    frequencies: NDArray,
) -> tuple[NDArray, NDArray, NDArray]:
    """Let one new token of each row of a left-padded batch look at a cache of turned keys.

    Parameters
    ----------
    q, k, v : float arrays, (b, h, d)
        Of the new tokens; queries and keys not turned yet.
    keys, values : float arrays, (b, h, n_past, d)
        Of what came before, padding among it; keys turned already.
    padding : integer array, (b,)
        How many of each row's first cached places are padding.
    frequencies : float array, (d/2,)

    Returns
    -------
    output : float array, (b, h, d)
    keys, values : float arrays, (b, h, n_past + 1, d)
    """
    return _stepped()(q, k, v, keys, values, padding, frequencies)


At = Callable[[int, "NDArray"], Any]


def _own_place(past: int, padding: NDArray) -> NDArray:
    return past - padding


def _in_batch(past: int, padding: NDArray) -> NDArray:
    return np.full(len(padding), past)


def _real(padding: NDArray, total: int) -> NDArray:
    return np.arange(total) >= padding[:, None]


def _everything(padding: NDArray, total: int) -> NDArray:
    return np.ones((len(padding), total), bool)


def _stepped(
    *,
    layout: str = "interleaved",
    at_q: At = _own_place,
    at_k: At = _own_place,
    old: Callable[[NDArray, NDArray, NDArray], NDArray] = lambda keys, padding, f: keys,
    new_value: Callable[..., NDArray] = lambda v, turn, at, f: v,
    glue: Glue = _behind,
    sees: Callable[[NDArray, int], NDArray] = _real,
    scale: Callable[[int], float] = sqrt,
    weigh: Callable[[NDArray, NDArray], NDArray] = lambda s, seen: plain_softmax(
        np.where(seen, s, -np.inf)
    ),
    looked_at: Callable[[NDArray], NDArray] = lambda whole: whole,
    store: Callable[..., Any] = lambda whole, old, new: whole,
) -> Callable[..., Any]:
    """Return the step with some parts replaced."""
    turned = turning(layout)

    def step(
        q: NDArray,
        k: NDArray,
        v: NDArray,
        keys: NDArray,
        values: NDArray,
        padding: NDArray,
        frequencies: NDArray,
    ) -> Any:
        past = keys.shape[-2]

        def placed(x: NDArray, at: Any) -> NDArray:
            where = np.asarray(at).reshape(-1, 1, 1)
            return np.asarray(turned(x[..., None, :], where, frequencies))  # (b, h, 1, d)

        new_q, new_k = placed(q, at_q(past, padding)), placed(k, at_k(past, padding))
        new_v = new_value(v[..., None, :], placed, at_k(past, padding), frequencies)
        all_k, all_v = glue(old(keys, padding, frequencies), new_k), glue(values, new_v)
        seen_k, seen_v = looked_at(all_k), looked_at(all_v)
        scores = new_q @ seen_k.swapaxes(-2, -1) / scale(q.shape[-1])
        seen = sees(padding, seen_k.shape[-2])[:, None, None]  # (b, 1, 1, n)
        with np.errstate(all="ignore"):
            output = (weigh(scores, seen) @ seen_v)[..., 0, :]
        return output, store(all_k, keys, k[..., None, :]), store(all_v, values, new_v)

    return step


def _step_inputs(
    padding: list[int], past: int, *, h: int, d: int
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        b = len(padding)
        rng = np.random.default_rng([seed, 7, b, past, h])
        frequencies = np.array([1.0, 0.3, 0.05])[: d // 2].copy()
        where = np.arange(past) - np.array(padding)[:, None, None]  # (b, 1, n_past)
        return {
            **{name: draw(rng, b, h, d) for name in "qkv"},
            "keys": turn(draw(rng, b, h, past, d), where, frequencies),
            "values": draw(rng, b, h, past, d),
            "padding": np.array(padding),
            "frequencies": frequencies,
        }

    return build


_STEP_CASES = [
    case("one row, nothing padded, 3 cached | position 3", _step_inputs([0], 3, h=1, d=4)),
    case("one row, an empty cache | its output is its value", _step_inputs([0], 0, h=1, d=4)),
    case("2 of 5 cached are padding | position 3, hidden keys", _step_inputs([2], 5, h=1, d=4)),
    case("all of 2 cached are padding | it sees itself alone", _step_inputs([2], 2, h=2, d=6)),
    case(
        "3 rows, 0, 3 and 1 padded, 4 cached | each its own", _step_inputs([0, 3, 1], 4, h=2, d=4)
    ),
    case("2 rows, 3 heads, width 6 | all pairs turn", _step_inputs([1, 4], 6, h=3, d=6)),
]


def _turned_again(keys: NDArray, padding: NDArray, frequencies: NDArray) -> NDArray:
    where = np.arange(keys.shape[-2]) - padding[:, None, None]
    return np.asarray(turn(keys, where, frequencies))


def _right_padded(padding: NDArray, total: int) -> NDArray:
    """Hide the last cached places in place of the first; the new token is seen."""
    return (np.arange(total) < (total - 1 - padding)[:, None]) | (np.arange(total) == total - 1)


def _one_row(q: Any, k: Any, v: Any, keys: Any, values: Any, padding: Any, frequencies: Any) -> Any:
    if len(q) > 1:
        raise ValueError
    return _stepped()(q, k, v, keys, values, padding, frequencies)


_STEP_WRONG = [
    wrong(
        _stepped(at_q=_in_batch, at_k=_in_batch),
        "padding counted in positions | Where nothing is padded you're right. Your new token "
        "stands at n_past, as if padding were text: its distance to the cached keys is too large. "
        "→ How many *real* tokens came before it?",
    ),
    wrong(
        _stepped(sees=_everything),
        "padding seen | Your positions are right, but the new token looks at padding as well. → "
        "Which of the cached places hold no token?",
    ),
    wrong(
        _stepped(at_q=_in_batch, at_k=_in_batch, sees=_everything),
        "padding forgotten | Where nothing is padded you're right. Two things: your positions "
        "count padding, and the new token looks at it. → In which two lines should `padding` come "
        "in?",
    ),
    wrong(
        _stepped(at_q=lambda past, padding: 0 * padding, at_k=lambda past, padding: 0 * padding),
        "positions start again | Your new token stands at position 0, since it's the only one "
        "passed in. → How many real tokens came before it?",
    ),
    wrong(
        _stepped(
            at_q=lambda past, padding: past - padding + 1,
            at_k=lambda past, padding: past - padding + 1,
        ),
        "one position too far | Your new token stands one place too far on, as if positions began "
        "with 1. → If 3 real tokens came before it, at which position is it?",
    ),
    wrong(
        _stepped(
            at_q=lambda past, padding: past - padding - 1,
            at_k=lambda past, padding: past - padding - 1,
        ),
        "one position too near | Your new token stands where the last cached one does. → If 3 real "
        "tokens came before it, at positions 0, 1, 2, where is it?",
    ),
    wrong(
        _stepped(
            at_q=lambda past, padding: past + padding, at_k=lambda past, padding: past + padding
        ),
        "padding added | Your positions grow with the padding of the row. → Is a row with more "
        "padding nearer to its beginning or farther from it?",
    ),
    wrong(
        _stepped(
            at_q=lambda past, padding: past - padding[:1] + 0 * padding,
            at_k=lambda past, padding: past - padding[:1] + 0 * padding,
        ),
        "the first row's position | For one row you're right. With more, all stand at the first "
        "one's position. → How many positions does a batch have?",
    ),
    wrong(
        _stepped(
            at_q=lambda past, padding: past - padding.max() + 0 * padding,
            at_k=lambda past, padding: past - padding.max() + 0 * padding,
        ),
        "the shortest row's position | For one row you're right. With more, all stand where the "
        "row with most padding does. → How many positions does a batch have?",
    ),
    wrong(
        _stepped(at_q=lambda past, padding: 0 * padding),
        "the query at 0 | Your keys are right, but the query isn't turned, or turned as if it "
        "stood at position 0. → Where does a query stand, seen from its own key?",
    ),
    wrong(
        _stepped(at_k=lambda past, padding: 0 * padding),
        "the key at 0 | Your query is right, but the new key isn't turned, or turned as if it "
        "stood at position 0, and is kept so. → Which version of it does a later query need?",
    ),
    wrong(
        _stepped(at_q=_in_batch),
        "padding in the query's position | The new key stands where it should, the query at "
        "n_past, as if padding were text. → Do a token's query and key stand at one place?",
    ),
    wrong(
        _stepped(at_k=_in_batch),
        "padding in the key's position | The query stands where it should, the new key at n_past, "
        "as if padding were text. → Do a token's query and key stand at one place?",
    ),
    wrong(
        _stepped(store=lambda whole, old, new: _behind(old, new)),
        "stored before turning | Your output is right, but the new key goes into the cache as it "
        "came: a later query takes it for turned. → Which version of a key does a later query "
        "need?",
    ),
    wrong(
        _stepped(old=_turned_again),
        "cached keys turned again | You turn all keys, those of the cache too, which were turned "
        "when they were new. → Which keys still need it?",
    ),
    wrong(
        _stepped(old=_turned_again, store=lambda whole, old, new: _behind(old, whole[..., -1:, :])),
        "cached keys turned again, and kept as they were | Your cache is right, but for the scores "
        "you turn all keys, those of the cache too, which were turned when they were new. → Which "
        "keys still need it?",
    ),
    wrong(
        _stepped(new_value=lambda v, placed, at, f: placed(v[..., 0, :], at)),
        "the value turned | The new value is turned too, so that what is mixed depends on where it "
        "stood. → Which of query, key and value should know where a token stands?",
    ),
    wrong(
        _stepped(layout="half-split"),
        "half-split pairs | this exercise uses interleaved pairs, (0, 1), (2, 3), …, as "
        "`rotate_interleaved` turns them; you pair the two halves. → Which columns does the "
        "docstring pair?",
        variant=True,
    ),
    wrong(
        _stepped(sees=_right_padded),
        "the last places hidden | You hide the last cached places, which hold the nearest tokens: "
        "that would be right for padding on the right. → On which side does padding stand here?",
    ),
    wrong(
        _stepped(sees=lambda padding, total: np.arange(total) < (total - padding)[:, None]),
        "the last places hidden, itself among them | You hide the last places, the new token's "
        "own among them: that's the mask of padding on the right. → On which side does padding "
        "stand here?",
    ),
    wrong(
        _stepped(
            at_q=lambda past, padding: padding - past, at_k=lambda past, padding: padding - past
        ),
        "the sign of the position | Your positions are below 0: padding less past. → If 5 places "
        "are cached and 2 of them are padding, at which position is the new token?",
    ),
    wrong(
        _stepped(at_q=lambda past, padding: padding, at_k=lambda past, padding: padding),
        "padding for the position | Your new token stands at the position `padding`, so that "
        "what is cached plays no part. → How many real tokens came before it?",
    ),
    wrong(
        _one_row,
        "positions without axes | For one row you're right. With more, your positions, one for "
        "each row, don't fit beside (b, h, 1) tokens. → Which axes of length 1 does an array (b,) "
        "need?",
    ),
    wrong(
        _stepped(sees=lambda padding, total: np.arange(total) < padding[:, None]),
        "the mask inverted | Your token looks at the padding and at nothing else. → Does True in "
        "your mask mean that it may look?",
    ),
    wrong(
        _stepped(
            sees=lambda padding, total: (
                (np.arange(total) > padding[:, None]) | (np.arange(total) == total - 1)
            )
        ),
        "one too many hidden | You hide the first real token as well. → If 2 places are padding, "
        "which is the first that isn't, counted from 0?",
    ),
    wrong(
        _stepped(
            sees=lambda padding, total: np.arange(total) >= np.maximum(padding - 1, 0)[:, None]
        ),
        "one place of padding seen | The last place of padding is looked at. → If 2 places are "
        "padding, which is the last of them, counted from 0?",
    ),
    wrong(
        _stepped(sees=lambda padding, total: _real(np.full_like(padding, padding[0]), total)),
        "the first row's mask | For one row you're right. With more, the first row's padding is "
        "hidden in all. → How many rows does the mask of a batch have?",
    ),
    wrong(
        _stepped(weigh=lambda s, seen: plain_softmax(np.where(seen, s, 0.0))),
        "hidden scores set to 0 | Padding still gets weight with you: its keys or its scores are "
        "0, and e⁰ is 1. → Which score has the exponential 0?",
    ),
    wrong(
        _stepped(weigh=lambda s, seen: plain_softmax(s) * seen),
        "the mask after the softmax | Padding has no weight with you, but the other weights don't "
        "sum to 1. → What has to happen to a hidden key's score before the softmax?",
    ),
    wrong(
        _stepped(glue=_in_front),
        "the new key in front | You put the new key and value before the old ones. → At which end "
        "does a text grow?",
    ),
    wrong(
        _stepped(looked_at=lambda whole: whole[..., :-1, :]),
        "itself not seen | Your new token looks at the cache alone, and where that is empty there "
        "is nothing to look at. → When does its own key have to be there?",
    ),
    wrong(
        _stepped(store=lambda whole, old, new: whole[..., -1:, :]),
        "only the new ones returned | Your output is right, but you hand on the new key and value "
        "alone. → What does the cache hold after this step?",
    ),
    wrong(
        _stepped(store=lambda whole, old, new: old),
        "the cache as it was | Your output is right, but you hand on the old cache: the next step "
        "won't see this token. → What does the cache hold after this step?",
    ),
    wrong(
        _stepped(scale=lambda d: 1.0),
        "not scaled | Your keys are right, your weights are too sharp: the scores aren't divided "
        "by anything. → What does attention divide a product of d numbers by?",
    ),
    wrong(
        _stepped(scale=float),
        "divided by d | Your weights are too even: the scores are divided by d, not by its root. → "
        "How does the spread of a product grow with d?",
    ),
    wrong(
        _stepped(weigh=lambda s, seen: np.where(seen, s, 0.0)),
        "no softmax | Your cache is right, but values are mixed by the scores themselves. → What "
        "makes weights of scores?",
    ),
]


def _step_row_by_row(
    q: Any, k: Any, v: Any, keys: Any, values: Any, padding: Any, frequencies: Any
) -> Any:
    """Cut padding off: each row is as if it were alone."""
    b, h, d = q.shape
    new_k, output = np.zeros((b, h, 1, d)), np.zeros((b, h, d))
    for i in range(b):
        first = int(padding[i])
        at = np.array([keys.shape[2] - first])
        query = turn(q[i][:, None], at, frequencies)  # (h, 1, d)
        new_k[i] = turn(k[i][:, None], at, frequencies)
        seen = np.concatenate([keys[i, :, first:], new_k[i]], axis=1)
        weights = plain_softmax((query * seen).sum(axis=-1) / sqrt(d))  # (h, n)
        seen_values = np.concatenate([values[i, :, first:], v[i][:, None]], axis=1)
        output[i] = np.einsum("hn,hnd->hd", weights, seen_values)
    return (
        output,
        np.concatenate([keys, new_k], axis=2),
        np.concatenate([values, v[:, :, None]], axis=2),
    )


def _step_complex(
    q: Any, k: Any, v: Any, keys: Any, values: Any, padding: Any, frequencies: Any
) -> Any:
    past = keys.shape[2]
    turns = np.exp(1j * (past - padding)[:, None, None] * frequencies)  # (b, 1, d/2)
    query, key = ((x[..., 0::2] + 1j * x[..., 1::2]) * turns for x in (q, k))
    keys = np.append(keys, np.stack([key.real, key.imag], -1).reshape(k.shape)[:, :, None], axis=2)
    values = np.append(values, v[:, :, None], axis=2)
    flat = np.stack([query.real, query.imag], axis=-1).reshape(q.shape)
    e = np.exp(np.einsum("bhd,bhnd->bhn", flat, keys) / sqrt(q.shape[-1]))
    e *= (np.arange(past + 1) >= padding[:, None])[:, None]
    return np.einsum("bhn,bhnd->bhd", e / e.sum(-1, keepdims=True), values), keys, values


def _step_one_array(
    q: Any, k: Any, v: Any, keys: Any, values: Any, padding: Any, frequencies: Any
) -> Any:
    """Take the room at once, and add a large number below 0 for padding."""
    b, h, past, d = keys.shape
    room = np.zeros((2, b, h, past + 1, d))
    room[0, :, :, :past], room[1, :, :, :past], room[1, :, :, past] = keys, values, v
    at = np.repeat(past - padding, h).reshape(b, h)
    room[0, :, :, past] = turn(k, at, frequencies)
    scores = (room[0] @ turn(q, at, frequencies)[..., None])[..., 0] / d**0.5
    scores -= 1e30 * (np.arange(past + 1) < padding[:, None])[:, None]
    return (plain_softmax(scores)[..., None] * room[1]).sum(axis=-2), room[0], room[1]


def _step_torch(
    q: Any, k: Any, v: Any, keys: Any, values: Any, padding: Any, frequencies: Any
) -> Any:
    import torch

    past = keys.shape[2]
    at = (past - padding)[:, None, None]
    query, key = (torch_interleaved(x[:, :, None], at, frequencies) for x in (q, k))
    keys, values = torch.cat([keys, key], dim=2), torch.cat([values, v[:, :, None]], dim=2)
    hidden = torch.arange(past + 1) < padding[:, None]
    scores = query @ keys.mT / q.shape[-1] ** 0.5
    weights = scores.masked_fill(hidden[:, None, None], -torch.inf).softmax(dim=-1)
    return (weights @ values)[:, :, 0], keys, values


CACHED_ROTARY_STEP = Exercise(
    id="11.cached_rotary_step",
    function="cached_rotary_step",
    reference=cached_rotary_step,
    guarded=[attention.scaled_dot_product_attention],
    cases=_STEP_CASES,
    returns=("output", "keys", "values"),
    misconceptions=_STEP_WRONG,
    alternatives=[
        ("row by row, padding cut off", _step_row_by_row),
        ("complex numbers", _step_complex),
        ("room taken at once", _step_one_array),
        Alternative(name="torch", right=_step_torch, backend="torch"),
    ],
    hints=[
        "Give the new vectors an axis for the token, (b, h, 1, d). Where does row i's token stand? "
        "n_past places come before it, and `padding[i]` of them hold nothing.",
        "Its position is n_past − padding[i]: turn query and key by it, put key and value behind "
        "the cached ones, and score the query with all keys, divided by √d.",
        "Key j of row i is padding where j < padding[i]; its score becomes −∞. As positions, "
        "`(n_past - padding)[:, None, None]` has one for each row, for all heads alike.",
    ],
    points=4,
    minutes=25,
    difficulty=3,
)
