"""The broken programs of chapter 06: heads that were cut wrongly, a mask, a chunk off by one.

Every misconception here is a repair that stopped half-way, or one that broke something else.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import (
    attend,
    by_einsum,
    by_loops,
    by_torch,
    cut,
    every_other,
    late,
    paste,
    plain_softmax,
    query_by_query,
    softmax,
    torch_attention,
)
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import attention, masks, multi_head

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "BUGS",
    "causal_heads",
    "causal_heads_broken",
    "chunk_attention",
    "chunk_attention_broken",
    "masked_attention",
    "masked_attention_broken",
]

_GUARDED: list[Callable[..., Any]] = [
    multi_head.multi_head_attention,
    attention.scaled_dot_product_attention,
]


# -- 06.bug_heads ----------------------------------------------------------------------------------


def causal_heads(x: NDArray, w_qkv: NDArray, w_o: NDArray, n_heads: int) -> NDArray:
    """Let h heads attend within a text, backwards only; queries, keys and values by one product."""
    return _causal()(x, w_qkv, w_o, n_heads)


def causal_heads_broken(x: NDArray, w_qkv: NDArray, w_o: NDArray, n_heads: int) -> NDArray:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    *lead, n, d = x.shape
    q, k, v = np.split(x @ w_qkv, 3, axis=-1)
    q, k, v = (y.reshape(*lead, n_heads, n, d // n_heads) for y in (q, k, v))
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(d)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)
    return (weights @ v).reshape(*lead, n, d) @ w_o


def _thirds(w_qkv: NDArray, n_heads: int) -> list[NDArray]:
    return np.split(w_qkv, 3, axis=-1)


def _head_by_head(w_qkv: NDArray, n_heads: int) -> list[NDArray]:
    """Read the columns as (head 0: q, k, v), (head 1: q, k, v), …."""
    d = len(w_qkv)
    return [w.reshape(d, d) for w in w_qkv.reshape(d, n_heads, 3, -1).transpose(2, 0, 1, 3)]


def _causal(
    parts: Callable[[NDArray, int], list[NDArray]] = _thirds,
    seen: Callable[[int], NDArray] = lambda n: np.tri(n, dtype=bool),
    **changes: Any,
) -> Callable[..., Any]:
    """Return causal self-attention with some steps replaced."""
    attended = attend(returns=lambda output, weights: output, **changes)

    def heads(x: NDArray, w_qkv: NDArray, w_o: NDArray, n_heads: int) -> Any:
        return attended(x, x, *parts(w_qkv, n_heads), w_o, n_heads, seen(x.shape[-2]))

    return heads


def _fused(*shape: int, h: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng, d = np.random.default_rng([seed, 7, *shape]), shape[-1]
        weights = {"w_qkv": draw(rng, d, 3 * d, spread=0.7), "w_o": draw(rng, d, d, spread=0.7)}
        return {"x": draw(rng, *shape), **weights, "n_heads": h}

    return build


_HEADS_CASES = [
    case("3 tokens, one head | attention as you know it", _fused(3, 4, h=1)),
    case("one token, 2 heads | its value, projected", _fused(1, 6, h=2)),
    case("3 tokens of width 4, 2 heads | each head sees all tokens before", _fused(3, 4, h=2)),
    case("4 tokens of width 9, 3 heads | the head's own width", _fused(4, 9, h=3)),
    case("2 texts of 5 tokens, 2 heads | a batch", _fused(2, 5, 8, h=2)),
]


def _whole(d: int, h: int) -> float:
    return sqrt(d)


_CUT_UP = "a head holds cut-up tokens, since vectors were reshaped to (h, n, d/h) in one go"
_MIXED = "a row of the merged table holds several tokens of one head"
_EVEN = "scores are divided by the root of the whole width"
_NEXT_CUT = "Which axis has to be cut first, and which two swapped then?"
_NEXT_MIXED = "Which two axes have to be neighbours before they become one?"
_NEXT_EVEN = "How many numbers does one head's product add up?"


def _without_batch(x: NDArray, w_qkv: NDArray, w_o: NDArray, n_heads: int) -> Any:
    if x.ndim > 2:
        raise ValueError
    return _causal()(x, w_qkv, w_o, n_heads)


_HEADS_WRONG = [
    wrong(
        _causal(split=cut),
        f"one left: the split | One fault is left: {_CUT_UP}. → {_NEXT_CUT}",
    ),
    wrong(
        _causal(merge=paste),
        f"one left: the merge | One fault is left: {_MIXED}. The heads themselves are right. → "
        f"{_NEXT_MIXED}",
    ),
    wrong(
        _causal(scale=_whole),
        f"one left: the scale | One fault is left, and one head hides it: {_EVEN}. → {_NEXT_EVEN}",
    ),
    wrong(
        causal_heads_broken,
        f"the program as it was | This is what the broken program returns: {_CUT_UP}; {_MIXED}; "
        f"and {_EVEN}. → {_NEXT_CUT}",
        program=as_cell(causal_heads_broken, "causal_heads"),
    ),
    wrong(
        _causal(split=cut, merge=paste),
        f"two left: split and merge | The scale is right now. Two faults are left: {_CUT_UP}, and "
        f"{_MIXED}. → {_NEXT_CUT}",
    ),
    wrong(
        _causal(merge=paste, scale=_whole),
        f"two left: merge and scale | The split is right now. Two faults are left: {_MIXED}, and "
        f"{_EVEN}. → {_NEXT_MIXED}",
    ),
    wrong(
        _causal(split=cut, scale=_whole),
        f"two left: split and scale | The merge is right now. Two faults are left: {_CUT_UP}, and "
        f"{_EVEN}. → {_NEXT_CUT}",
    ),
    wrong(
        _causal(split=every_other),
        "every h-th column | Your heads see whole tokens now, but head i has the columns i, i + h, "
        "…: neighbours were dealt out like cards. → In which order should the two new axes stand, "
        "(h, d/h) or (d/h, h)?",
    ),
    wrong(
        _causal(parts=_head_by_head),
        "a head's three side by side | this exercise uses all queries' columns, then all keys', "
        "then all values'; you read them head by head, as GPT-NeoX stores them. → Which columns of "
        "`w_qkv` make the queries?",
        variant=True,
    ),
    wrong(
        _causal(split=every_other, scale=_whole),
        f"every h-th column, and the scale | Two faults are left. Head i has the columns i, i + h, "
        f"…: neighbours were dealt out like cards. And {_EVEN}. → In which order should the two "
        "new axes stand, (h, d/h) or (d/h, h)?",
    ),
    wrong(
        _causal(scale=lambda d, h: 1.0),
        "not scaled | The heads are right now, but the scale has gone with the fault. → How many "
        "numbers does one head's product add up?",
    ),
    wrong(
        _causal(scale=lambda d, h: d / h),
        "divided by d/h | The heads are right now, but you divide scores by a head's width, not "
        "by its root. → How fast does the spread of a sum of d/h products grow?",
    ),
    wrong(
        _causal(scale=lambda d, h: sqrt(h)),
        "scaled by √h | The heads are right now, but you divide scores by the root of the *number* "
        "of heads. → How many numbers does one head's product add up?",
    ),
    wrong(
        _causal(project=lambda heads, w_o: heads @ w_o.T),
        "the output's matrix transposed | The heads are right now, but what they found is "
        "multiplied by W_O transposed. The broken program had that right. → Which of its lines "
        "used `w_o`?",
    ),
    wrong(
        _causal(project=lambda heads, w_o: heads),
        "no output projection | The heads are right now, but they only stand side by side. → Which "
        "matrix hasn't been used?",
    ),
    wrong(
        _causal(seen=lambda n: ~np.tri(n, k=-1, dtype=bool)),
        "looking ahead | The heads are right now, but tokens see what comes after them and not "
        "what came before. → What does a 1 in row i and column j of `np.tri` mean?",
    ),
    wrong(
        _causal(seen=lambda n: np.tri(n, k=-1, dtype=bool), weigh=plain_softmax),
        "the diagonal hidden | The heads are right now, but no token sees itself, and the first "
        "one sees nothing, which gives NaN. → Which tokens may token 0 see?",
    ),
    wrong(
        _causal(seen=lambda n: np.tri(n, k=-1, dtype=bool)),
        "the diagonal hidden, zeros | The heads are right now, but no token sees itself, and the "
        "first one sees nothing. → Which tokens may token 0 see?",
    ),
    wrong(
        _causal(seen=lambda n: np.tri(n, k=1, dtype=bool)),
        "one of the future visible | The heads are right now, but every token sees the one after "
        "it. → Which diagonal of `np.tri` is the last that may be seen?",
    ),
    wrong(
        _causal(hide=lambda s, mask: s, after_weights=late),
        "masked after the softmax | The heads are right now, but hidden weights are set to 0 after "
        "the softmax, so rows no longer sum to 1. → What has to be masked, the scores or the "
        "weights?",
    ),
    wrong(
        _causal(hide=lambda s, mask: np.where(mask, s, 0.0)),
        "hidden scores set to 0 | The heads are right now, but a score of 0 is an ordinary score, "
        "e⁰ = 1, and gets its share. → Which score gives the weight 0?",
    ),
    wrong(
        _causal(parts=lambda w, h: [_thirds(w, h)[i] for i in (1, 0, 2)]),
        "queries and keys exchanged | You take the first d columns for keys and the next for "
        "queries. → Which columns of `w_qkv` make the queries?",
    ),
    wrong(
        _causal(merge=lambda x: np.moveaxis(x, -3, -1).reshape(*x.shape[:-3], x.shape[-2], -1)),
        "dealt out at the merge | The heads are right now, but columns take turns where they're "
        "put together: head 0, head 1, …, head 0 again. → In which order stand the last two axes "
        "before they become one?",
    ),
    wrong(
        _causal(parts=lambda w, h: _thirds(w, h)[::-1]),
        "read from the right | You take the first d columns for values and the last for queries. "
        "→ Which columns of `w_qkv` make the queries?",
    ),
    wrong(
        _without_batch,
        "a batch has one more axis | For one text that's right. In a batch there's one more axis "
        "in front, and a line of yours doesn't reckon with it: it unpacks two lengths, or names "
        "axes counted from the front. → Which numbers name tokens and heads however many axes "
        "there are in front?",
    ),
    wrong(
        _causal(seen=lambda n: np.ones((n, n), bool)),
        "the future visible | The heads are right, but the mask has gone: tokens see what comes "
        "after them. → Which line of the broken program hid the future?",
    ),
    wrong(
        lambda x, w_qkv, w_o, n_heads: _causal()(x, w_qkv, w_o, 1),
        "one head | You return one head of the whole width, however many are asked for. → Where "
        "does `n_heads` come in?",
    ),
]


def _in_one(write: Callable[..., Any]) -> Callable[..., Any]:
    def heads(x: Any, w_qkv: Any, w_o: Any, n_heads: int) -> Any:
        n, d = x.shape[-2:]
        w_q, w_k, w_v = (w_qkv[:, i * d : (i + 1) * d] for i in range(3))
        return write(x, x, w_q, w_k, w_v, w_o, n_heads, np.tri(n, dtype=bool))[0]

    return heads


def _causal_torch(x: Any, w_qkv: Any, w_o: Any, n_heads: int) -> Any:
    import torch

    n = x.shape[-2]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    w_q, w_k, w_v = w_qkv.chunk(3, dim=-1)
    return by_torch(x, x, w_q, w_k, w_v, w_o, n_heads, mask)[0]


_BUG_HEADS = Exercise(
    id="06.bug_heads",
    function="causal_heads",
    reference=causal_heads,
    guarded=[*_GUARDED, multi_head.split_heads, multi_head.merge_heads],
    cases=_HEADS_CASES,
    returns=("output",),
    misconceptions=_HEADS_WRONG,
    alternatives=[
        Alternative(name="head by head", right=_in_one(by_loops)),
        Alternative(name="einsum", right=_in_one(by_einsum)),
        Alternative(name="torch", right=_causal_torch, backend="torch"),
    ],
    hints=[
        "Give the program two heads, and matrices that do nothing. Print `q` after the second "
        "line, and again after the third: where has the second half of token 0 gone?",
        "A reshape reads numbers in the order in which they lie in memory: token by token. So cut "
        "(…, n, d) into (…, n, h, d/h), and swap axes only then. Back in the other order.",
        "Two reshapes, two swaps. And a head's product adds up d/h numbers, not d.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 06.bug_mask -----------------------------------------------------------------------------------


def masked_attention(
    q: NDArray, k: NDArray, v: NDArray, lengths: NDArray
) -> tuple[NDArray, NDArray]:
    """Attend in a padded batch, backwards only."""
    return _masked()(q, k, v, lengths)


def masked_attention_broken(
    q: NDArray, k: NDArray, v: NDArray, lengths: NDArray
) -> tuple[NDArray, NDArray]:
    """Do the same, as the exercise's notebook shows it: with two faults."""
    n, d_head = q.shape[-2:]
    place = np.arange(n)
    later = place > place[:, None]
    padding = (place >= lengths[:, None])[:, None, None, :]
    mask = later & padding
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(d_head)
    scores = np.where(mask, scores, -1e9)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def _masked(
    allowed: Callable[[NDArray, NDArray], NDArray] = lambda later, padding: ~(later | padding),
    fill: float = -np.inf,
    scale: Callable[[int], float] = sqrt,
    masked_late: bool = False,
    weigh: Callable[[NDArray], NDArray] = plain_softmax,
) -> Callable[..., Any]:
    """Return attention under the two masks with some steps replaced."""

    def attended(q: NDArray, k: NDArray, v: NDArray, lengths: NDArray) -> Any:
        n, d_head = q.shape[-2:]
        place = np.arange(n)
        mask = allowed(place > place[:, None], (place >= lengths[:, None])[:, None, None, :])
        with np.errstate(all="ignore"):
            scores = q @ k.swapaxes(-2, -1) / scale(d_head)
            weights = weigh(scores if masked_late else np.where(mask, scores, fill))
            weights = weights * mask if masked_late else weights + np.zeros(mask.shape)
            return weights @ v, weights

    return attended


def _padded(b: int, h: int, n: int, w: int, *lengths: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 8, b, h, n, w])
        return {**{x: draw(rng, b, h, n, w) for x in "qkv"}, "lengths": np.array(lengths)}

    return build


_PADDED_CASES = [
    case("4 tokens, of which 2 are real | no future, no padding", _padded(1, 1, 4, 3, 2)),
    case("3 tokens, no padding | the future is hidden", _padded(1, 1, 3, 2, 3)),
    case("one token | its value", _padded(1, 1, 1, 2, 1)),
    case("2 heads | one mask for both", _padded(1, 2, 5, 3, 4)),
    case("3 texts of 3, 1 and 5 tokens, 2 heads | a mask a text", _padded(3, 2, 5, 4, 3, 1, 5)),
]

_OFTEN = (
    "True in `later` and `padding` means hidden, and `np.where` takes it for visible: scores stay "
    "where they should go"
)
_BOTH = (
    "a look is hidden only if the key is later *and* padding, so each of the two alone is let "
    "through (`~(a & b)` is `~a | ~b`)"
)

_NOBODY = (
    "Nobody reads what they find; it's enough that nobody sees them. → Which axis of the scores "
    "does padding have to be hidden on?"
)

_PADDED_WRONG = [
    wrong(
        _masked(lambda later, padding: ~(later & padding)),
        f"one left: both | Hidden looks are hidden now. One fault is left: {_BOTH}. → If either of "
        "the two says hidden, what is the answer?",
    ),
    wrong(
        _masked(lambda later, padding: later | padding, fill=-1e9),
        f"one left: inverted | The two are joined rightly now. One fault is left: {_OFTEN}. → "
        "Which of the branches of `np.where` belongs to a hidden look?",
    ),
    wrong(
        _masked(lambda later, padding: later | padding),
        "one left: inverted, with −∞ | The two are joined rightly now, and −∞ shows that some rows "
        f"see nothing. One fault is left: {_OFTEN}. → Which of the branches of `np.where` belongs "
        "to a hidden look?",
    ),
    wrong(
        masked_attention_broken,
        f"the program as it was | This is what the broken program returns. {_OFTEN}; and {_BOTH}. "
        "→ Which of the branches of `np.where` belongs to a hidden look?",
        program=as_cell(masked_attention_broken, "masked_attention"),
    ),
    wrong(
        _masked(lambda later, padding: later & padding),
        "as it was, with −∞ | −∞ shows what −10⁹ hid: whole rows are hidden, which gives NaN. "
        f"{_OFTEN}; and {_BOTH}. → Which of the branches of `np.where` belongs to a hidden look?",
    ),
    wrong(
        _masked(lambda later, padding: ~later | padding),
        "only one turned round, with OR | You've turned `later` round and left `padding` as it "
        "was, so padding is visible to all. → What does True mean in each of the two?",
    ),
    wrong(
        _masked(lambda later, padding: ~later & padding, fill=-1e9),
        "only one turned round, with AND | You've turned `later` round and left `padding` as it "
        "was, so that tokens look at padding alone. → What does True mean in each of the two?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later | padding | padding.swapaxes(-2, -1))),
        f"padded queries hidden as well | You hide padded *queries* too: their rows are all "
        f"hidden, which gives NaN. {_NOBODY}",
    ),
    wrong(
        _masked(
            lambda later, padding: ~(later | padding | padding.swapaxes(-2, -1)), weigh=softmax
        ),
        f"padded queries hidden as well, zeros | You hide padded *queries* too: their weights are "
        f"0. {_NOBODY}",
    ),
    wrong(
        _masked(lambda later, padding: ~(later | padding | padding.swapaxes(-2, -1)), fill=-1e9),
        "padded queries hidden as well, −10⁹ | You hide padded *queries* too: a row of nothing but "
        f"one finite number looks evenly at everything. {_NOBODY}",
    ),
    wrong(
        _masked(lambda later, padding: later | padding, weigh=softmax),
        "one left: inverted, zeros | The two are joined rightly now, and some of your rows are "
        f"all 0. One fault is left: {_OFTEN}. → Which of the branches of `np.where` belongs to a "
        "hidden look?",
    ),
    wrong(
        _masked(lambda later, padding: ~later & padding),
        "only one turned round, with −∞ | You've turned `later` round and left `padding` as it "
        "was, so that tokens look at padding alone, or at nothing: NaN. → What does True mean in "
        "each of the two?",
    ),
    wrong(
        _masked(lambda later, padding: later & ~padding),
        "the other one turned round | You've turned `padding` round and left `later` as it was, so "
        "that tokens look at the future alone, or at nothing: NaN. → What does True mean in each "
        "of the two?",
    ),
    wrong(
        _masked(lambda later, padding: later & ~padding, fill=-1e9),
        "the other one turned round, −10⁹ | You've turned `padding` round and left `later` as it "
        "was, so that tokens look at the future alone. → What does True mean in each of the two?",
    ),
    wrong(
        _masked(lambda later, padding: later | ~padding),
        "the other one turned round, with OR | You've turned `padding` round and left `later` as "
        "it was, and let either of them allow a look. → What does True mean in each of the two?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later.T | padding)),
        "looking ahead | Padding is hidden now, but tokens see what comes after them and not what "
        "came before. → Is the row of a mask the one who looks, or the one who is looked at?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later | np.eye(len(later), dtype=bool) | padding)),
        "the diagonal hidden | Your tokens don't see themselves, and the first one sees nothing, "
        "which gives NaN. → Is a token itself later than itself?",
    ),
    wrong(
        _masked(scale=lambda d: 1.0),
        "not scaled | The mask is right now, but the scale has gone. The broken program had it. → "
        "By what did it divide scores?",
    ),
    wrong(
        _masked(lambda later, padding: later & padding, weigh=softmax),
        f"as it was, zeros | Whole rows of yours are hidden. {_OFTEN}; and {_BOTH}. → Which of the "
        "branches of `np.where` belongs to a hidden look?",
    ),
    wrong(
        _masked(lambda later, padding: ~later & padding, weigh=softmax),
        "only one turned round, zeros | You've turned `later` round and left `padding` as it was, "
        "so that tokens look at padding alone, or at nothing. → What does True mean in each of "
        "the two?",
    ),
    wrong(
        _masked(lambda later, padding: later & ~padding, weigh=softmax),
        "the other one turned round, zeros | You've turned `padding` round and left `later` as it "
        "was, so that tokens look at the future alone, or at nothing. → What does True mean in "
        "each of the two?",
    ),
    wrong(
        _masked(
            lambda later, padding: ~(later | np.eye(len(later), dtype=bool) | padding),
            weigh=softmax,
        ),
        "the diagonal hidden, zeros | Your tokens don't see themselves, and the first one sees "
        "nothing. → Is a token itself later than itself?",
    ),
    wrong(
        _masked(lambda later, padding: padding | True),
        "no mask | Your tokens see everything, the padding and the future too. → Which two kinds "
        "of keys are "
        "to be hidden?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later ^ padding)),
        "joined by XOR | You hide a look if exactly *one* of the two says so: where both do, it's "
        "visible again. → If either of the two says hidden, what is the answer?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later | padding[:1])),
        "the first text's mask for all | You hide in all texts what is padding in the first. → "
        "Which axis of the mask is that of texts?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later | padding.all(axis=0, keepdims=True))),
        "one length for all | You hide what is padding in the longest text. Shorter ones show "
        "theirs. → Which axis of the mask is that of texts?",
    ),
    wrong(
        _masked(weigh=lambda s: plain_softmax(s, -2)),
        "softmax over queries | Your softmax runs along the queries. The broken program had that "
        "right. → Along which axis lie the weights of one query?",
    ),
    wrong(
        _masked(lambda later, padding: ~padding),
        "padding only | Padding is hidden now, and the future isn't. → Which of the two masks has "
        "gone?",
    ),
    wrong(
        _masked(lambda later, padding: ~(later | (padding & False))),
        "the future only | The future is hidden now, and padding isn't. → Which of the two masks "
        "has gone?",
    ),
    wrong(
        _masked(masked_late=True),
        "masked after the softmax | Hidden weights are 0, but rows no longer sum to 1. → What has "
        "to be masked, the scores or the weights?",
    ),
    wrong(
        _masked(fill=0.0),
        "hidden scores set to 0 | A score of 0 is an ordinary score, e⁰ = 1, and gets its share. → "
        "Which score gives the weight 0?",
    ),
]


def _masked_loops(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    return query_by_query(q, k, v, lambda at: 0, lambda at: min(at[-1] + 1, int(lengths[at[0]])))


def _masked_added(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    place = np.arange(q.shape[-2])
    last = np.minimum(place[:, None], lengths[:, None, None, None] - 1)  # the last visible key
    scores = np.einsum("bhie,bhje->bhij", q, k) / np.sqrt(q.shape[-1])
    weights = plain_softmax(scores + np.where(place <= last, 0.0, -1e30))
    return weights @ v, weights


def _masked_torch(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    import torch

    n = q.shape[-2]
    real = (torch.arange(n) < lengths[:, None])[:, None, None]
    return torch_attention(q, k, v, torch.ones(n, n, dtype=torch.bool).tril() & real)


_BUG_MASK = Exercise(
    id="06.bug_mask",
    function="masked_attention",
    reference=masked_attention,
    guarded=[*_GUARDED, masks.padding_mask, masks.combine_masks, attention.causal_mask],
    cases=_PADDED_CASES,
    returns=("output", "weights"),
    misconceptions=_PADDED_WRONG,
    alternatives=[
        Alternative(name="loops", right=_masked_loops),
        Alternative(name="the last visible key", right=_masked_added),
        Alternative(name="torch", right=_masked_torch, backend="torch"),
    ],
    hints=[
        "Print `mask[0, 0]` for 3 tokens of which 2 are real. Where does it say True, and what "
        "does `np.where` do there?",
        "Decide what True is to mean, and write it down beside each of the three masks. In this "
        "course it means *may look*.",
        "A look is allowed if the key isn't later and isn't padding. Beware: `~(a & b)` lets "
        "through what only one of the two hides.",
    ],
    points=4,
    minutes=15,
    difficulty=2,
)


# -- 06.bug_chunk ----------------------------------------------------------------------------------


def chunk_attention(q: NDArray, k: NDArray, v: NDArray, window: int) -> tuple[NDArray, NDArray]:
    """Let the last n_q of n_k tokens look back, at no more than `window` tokens each."""
    return _chunk()(q, k, v, window)


def chunk_attention_broken(
    q: NDArray, k: NDArray, v: NDArray, window: int
) -> tuple[NDArray, NDArray]:
    """Do the same, as the exercise's notebook shows it: with two faults."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    i, j = np.arange(n_q)[:, None], np.arange(n_k)
    back = i + n_k - n_q - j
    mask = (back >= -1) & (back <= window)
    scores = np.where(mask, q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1]), -np.inf)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def _chunk(
    seen: Callable[[NDArray, int], NDArray] = lambda back, window: (back >= 0) & (back < window),
    past: Callable[[int, int], int] = lambda n_q, n_k: n_k - n_q,
    axis: int = -1,
    scale: Callable[[int], float] = sqrt,
    fill: float = -np.inf,
    weigh: Callable[..., NDArray] = plain_softmax,
    masked_late: bool = False,
) -> Callable[..., Any]:
    """Return the chunk's attention with some steps replaced."""

    def attended(q: NDArray, k: NDArray, v: NDArray, window: int) -> Any:
        n_q, n_k = q.shape[-2], k.shape[-2]
        back = np.arange(n_q)[:, None] + past(n_q, n_k) - np.arange(n_k)
        with np.errstate(all="ignore"):
            scores = q @ k.swapaxes(-2, -1) / scale(q.shape[-1])
            mask = seen(back, window)
            weights = weigh(scores if masked_late else np.where(mask, scores, fill), axis)
            weights = weights * mask if masked_late else weights
            return weights @ v, weights

    return attended


def _chunked(n_q: int, n_k: int, w: int, window: int, *lead: int) -> Callable[[int], Any]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 9, n_q, n_k, w])
        sizes = {"q": (n_q, w), "k": (n_k, w), "v": (n_k, w)}
        return {**{x: draw(rng, *lead, *s) for x, s in sizes.items()}, "window": window}

    return build


_CHUNK_CASES = [
    case("a text at once, a wide window | nobody sees what comes after", _chunked(4, 4, 3, 9)),
    case("one new token, a wide window | it sees all", _chunked(1, 4, 3, 9)),
    case("one new token, window 2 | itself and the one before", _chunked(1, 5, 2, 2)),
    case("window 1 | everybody sees themselves alone", _chunked(3, 3, 2, 1)),
    case("2 new tokens after 5, window 3 | the first stands at position 5", _chunked(2, 7, 4, 3)),
    case("2 texts, 3 heads, 3 tokens after 2, window 4 | all together", _chunked(3, 5, 4, 4, 2, 3)),
]

_AHEAD = "every token sees the one after it, and a single new token hides that"
_WIDE = "the window is one too wide, since a token itself is one of those that it sees"
_NEXT_AHEAD = "Which is the smallest `back` that may be seen?"
_NEXT_WIDE = "With window 1, which values of `back` may be seen?"

_CHUNK_WRONG = [
    wrong(
        _chunk(lambda back, window: (back >= -1) & (back < window)),
        f"one left: ahead | The window is right now. One fault is left: {_AHEAD}. → {_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(lambda back, window: (back >= 0) & (back <= window)),
        f"one left: the window | Nobody sees the future now. One fault is left: {_WIDE}. → "
        f"{_NEXT_WIDE}",
    ),
    wrong(
        chunk_attention_broken,
        f"the program as it was | This is what the broken program returns: {_AHEAD}; and {_WIDE}. "
        f"→ {_NEXT_AHEAD}",
        program=as_cell(chunk_attention_broken, "chunk_attention"),
    ),
    wrong(
        _chunk(lambda back, window: (back > 0) & (back <= window)),
        "the diagonal hidden | Your tokens don't see themselves, as if each stood one position "
        f"earlier; the first of a text sees nothing. → {_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(lambda back, window: (back >= 0) & (back < window - 1)),
        "the window one too narrow | Nobody sees the future now, but the window has become one too "
        f"narrow: with window 1 nobody sees anything. → {_NEXT_WIDE}",
    ),
    wrong(
        _chunk(lambda back, window: (back > 0) & (back < window)),
        "the diagonal hidden, and a window | Your tokens don't see themselves; with window 1 they "
        f"see nothing. → {_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(lambda back, window: (back >= 0) | (back < window)),
        "OR for AND | Your tokens see everything: each key passes one of the two comparisons. → "
        "Which of & and | needs both?",
    ),
    wrong(
        _chunk(lambda back, window: (-back >= 0) & (-back < window)),
        "looking ahead | Your tokens see what comes after them, and not what came before: the sign "
        f"of `back` has changed. → {_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(lambda back, window: (back >= 0) & (back < window), past=lambda n_q, n_k: n_k),
        "all of the text before | You put the new tokens behind all n_k, but they're the last n_q "
        "*of* them. → At which position stands the first new token if 5 came before?",
    ),
    wrong(
        _chunk(scale=lambda d: 1.0),
        "not scaled | The mask is right now, but the scale has gone. The broken program had it. → "
        "By what did it divide scores?",
    ),
    wrong(
        _chunk(lambda back, window: back >= -1),
        f"no window, and ahead | The window has gone, and {_AHEAD}. → {_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(lambda back, window: back == 0),
        "only themselves | Your tokens see themselves and nothing else, whatever the window is. → "
        "Which values of `back` does a window of 3 hold?",
    ),
    wrong(
        _chunk(lambda back, window: (back >= 0) & (back <= window + 1)),
        f"the window two too wide | Nobody sees the future now, but the window is two too wide. → "
        f"{_NEXT_WIDE}",
    ),
    wrong(
        _chunk(lambda back, window: (back >= 0) & (np.arange(back.shape[1]) < window)),
        "a window at the beginning | Your window holds the first tokens of the text, and stays "
        f"there. It should move with the token that looks. → {_NEXT_WIDE}",
    ),
    wrong(
        _chunk(
            lambda back, window: (back >= 0) & (np.arange(back.shape[1]) >= back.shape[1] - window)
        ),
        "a window at the end | Your window holds the last tokens of the text, for all who look. It "
        f"should move with each. → {_NEXT_WIDE}",
    ),
    wrong(
        _chunk(
            lambda back, window: (back >= 0) & (np.arange(back.shape[1]) >= back.shape[1] - window),
            weigh=softmax,
        ),
        "a window at the end, zeros | Your window holds the last tokens of the text, for all who "
        f"look; some see nothing. It should move with each. → {_NEXT_WIDE}",
    ),
    wrong(
        _chunk(lambda back, window: ~((back >= 0) & (back < window)), weigh=softmax),
        "mask inverted, zeros | Your tokens look exactly where they may not, or at nothing. → "
        "Which of the branches of `np.where` is −∞?",
    ),
    wrong(
        _chunk(fill=0.0),
        "hidden scores set to 0 | A score of 0 is an ordinary score, e⁰ = 1, and gets its share. → "
        "Which score gives the weight 0?",
    ),
    wrong(
        _chunk(masked_late=True),
        "masked after the softmax | Hidden weights are 0, but rows no longer sum to 1. → What has "
        "to be masked, the scores or the weights?",
    ),
    wrong(
        _chunk(lambda back, window: back >= 0),
        f"no window | Nobody sees the future now, but the window has gone. → {_NEXT_WIDE}",
    ),
    wrong(
        _chunk(lambda back, window: back < window),
        "the future visible | The window is right now, but nothing hides the future. → "
        f"{_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(lambda back, window: np.abs(back) < window),
        "a window on both sides | Your window reaches as far ahead as it reaches back. → "
        f"{_NEXT_AHEAD}",
    ),
    wrong(
        _chunk(past=lambda n_q, n_k: 0),
        "the chunk at the beginning | You take new tokens for the first of the text: the mask is "
        "aligned at its top left. They're the last n_q of n_k. → At which position stands the "
        "first new token if 5 came before?",
    ),
    wrong(
        _chunk(past=lambda n_q, n_k: n_k - n_q + 1),
        "one position too late | It's as if all your tokens stood one position too late: each sees "
        "the one after it, and its window ends one too early. → At which position stands the last "
        "of n_k tokens?",
    ),
    wrong(
        _chunk(lambda back, window: ~((back >= 0) & (back < window))),
        "mask inverted | Your tokens look exactly where they may not. → Which of the branches of "
        "`np.where` is −∞?",
    ),
    wrong(
        _chunk(axis=-2),
        "softmax over queries | Your columns sum to 1, not your rows. The broken program had that "
        "right. → Along which axis lie the weights of one query?",
    ),
]


def _chunk_loops(q: Any, k: Any, v: Any, window: int) -> Any:
    past = k.shape[-2] - q.shape[-2]
    return query_by_query(
        q, k, v, lambda at: max(0, past + at[-1] + 1 - window), lambda at: past + at[-1] + 1
    )


def _chunk_triangles(q: Any, k: Any, v: Any, window: int) -> Any:
    n_q, n_k = q.shape[-2], k.shape[-2]
    past = n_k - n_q
    mask = np.tri(n_q, n_k, past, dtype=bool) ^ np.tri(n_q, n_k, past - window, dtype=bool)
    e = np.exp(np.einsum("...ic,...jc->...ij", q, k) / np.sqrt(q.shape[-1])) * mask
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def _chunk_torch(q: Any, k: Any, v: Any, window: int) -> Any:
    import torch

    n_q, n_k = q.shape[-2], k.shape[-2]
    ones = torch.ones(n_q, n_k, dtype=torch.bool)
    mask = ones.tril(n_k - n_q) & ones.triu(n_k - n_q - window + 1)
    return torch_attention(q, k, v, mask)


_BUG_CHUNK = Exercise(
    id="06.bug_chunk",
    function="chunk_attention",
    reference=chunk_attention,
    guarded=[*_GUARDED, attention.causal_mask],
    cases=_CHUNK_CASES,
    returns=("output", "weights"),
    misconceptions=_CHUNK_WRONG,
    alternatives=[
        Alternative(name="token by token", right=_chunk_loops),
        Alternative(name="two triangles", right=_chunk_triangles),
        Alternative(name="torch", right=_chunk_torch, backend="torch"),
    ],
    hints=[
        "Print `mask` for 3 tokens at once with window 1. Which entries should be True?",
        "`back` says how many steps behind the query a key stands: 0 is the token itself, −1 the "
        "one after it.",
        "A window of w tokens that ends with the token itself holds `back` = 0, 1, …, w − 1.",
    ],
    points=4,
    minutes=15,
    difficulty=2,
)


BUGS = [_BUG_HEADS, _BUG_MASK, _BUG_CHUNK]

BROKEN = {
    "06.bug_heads": causal_heads_broken,
    "06.bug_mask": masked_attention_broken,
    "06.bug_chunk": chunk_attention_broken,
}
