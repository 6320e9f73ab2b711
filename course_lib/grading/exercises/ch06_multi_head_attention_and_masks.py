"""The exercises of chapter 06: heads, masks, attention of both kinds, and its cost.

Its three broken programs are in `multi_head_bugs`.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.attention_variants import (
    attend,
    by_einsum,
    by_loops,
    by_torch,
    cut,
    every_other,
    hide,
    late,
    merge,
    paste,
    plain_softmax,
    softmax,
    split,
)
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.multi_head_bugs import BROKEN, BUGS
from course_lib.grading.model import Alternative, Exercise, Misconception
from course_lib.reference import attention, masks, multi_head

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "attention_flops",
    "attention_masks",
    "cross_attention",
    "merge_heads",
    "multi_head_attention",
    "split_heads",
]


# -- 06.split_heads --------------------------------------------------------------------------------


def split_heads(x: NDArray, n_heads: int) -> NDArray:
    """Cut every token's vector into h pieces: (..., n, d) becomes (..., h, n, d/h)."""
    return split(x, n_heads)


def _wide(*shape: int, h: int) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {
        "x": draw(np.random.default_rng([seed, 1, *shape]), *shape),
        "n_heads": h,
    }


_SPLIT_CASES = [
    case("3 tokens of width 8, 2 heads | each head has a piece of every token", _wide(3, 8, h=2)),
    case("one head | one more axis, of length 1", _wide(3, 4, h=1)),
    case("one token, 2 heads | its two halves", _wide(1, 6, h=2)),
    case("4 tokens of width 6, 3 heads | heads first, then tokens", _wide(4, 6, h=3)),
    case("2 sentences of 5 tokens, 3 heads | the batch stays in front", _wide(2, 5, 12, h=3)),
]


def _without_batch(right: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """Return what an answer does that is right until its first argument has more axes."""

    def stops(*given: Any, **named: Any) -> Any:
        if next(iter((*given, *named.values()))).ndim > axes:
            raise ValueError
        return right(*given, **named)

    return stops


_SPLIT_WRONG = [
    wrong(
        cut,
        "reshaped without a transpose | The shape is right, but your first head has the first "
        "tokens with all their numbers, cut up: `reshape` fills axes in the order in which numbers "
        "lie in memory. → Which axis has to be cut first, that of tokens or that of numbers?",
    ),
    wrong(
        lambda x, n_heads: x.reshape(*x.shape[:-1], n_heads, -1),
        "the axis of heads left behind | Every vector is cut rightly, but heads stand behind "
        "tokens: (…, n, h, d/h). → Which two axes have to change places so that each head sees a "
        "whole sentence?",
    ),
    wrong(
        every_other,
        "every h-th column | Your head i has the columns i, i + h, i + 2h, …, so neighbours are "
        "dealt out like cards. Heads are blocks of neighbouring columns. → In which order should "
        "the two new axes stand when the last one is cut, (h, d/h) or (d/h, h)?",
    ),
    wrong(
        lambda x, n_heads: split(x, n_heads).swapaxes(-2, -1),
        "tokens as columns | Each head is transposed: (…, h, d/h, n). That's the shape of the keys "
        "in the product of scores, one step later. → Which axis should be the last one?",
    ),
    wrong(
        lambda x, n_heads: split(x, x.shape[-1] // n_heads),
        "heads of width h | You've made d/h heads of width h: the number was taken for the width. "
        "→ Of which length is the axis of heads?",
    ),
    wrong(
        lambda x, n_heads: np.stack(np.split(x, n_heads, axis=-1)),
        "heads before the batch | For one sentence that's right. With a batch your heads stand in "
        "front of it: a list of pieces becomes the *first* axis. → Between which axes should the "
        "heads come, counted from the end?",
    ),
    wrong(
        lambda x, n_heads: x.reshape(*x.shape[:-1], n_heads, -1).swapaxes(0, 1),
        "axes counted from the front | For one sentence that's right. With a batch axes 0 and 1 "
        "are sentences and tokens. → Which numbers name tokens and heads however many axes there "
        "are in front?",
    ),
    wrong(
        lambda x, n_heads: np.stack([x] * n_heads, axis=-3),
        "each head has everything | Every head gets the whole vectors. They share: each has d/h of "
        "the d numbers. → Which columns belong to head 0?",
    ),
    wrong(
        lambda x, n_heads: np.swapaxes(cut(x, n_heads), -3, -2),
        "cut as (h, n, d/h), then swapped | Two mistakes: `reshape` went straight to (h, n, d/h), "
        "which cuts tokens up, and the swap then brings heads behind tokens. → In which order are "
        "the axes right after the last one is cut in two?",
    ),
    wrong(
        lambda x, n_heads: np.flip(split(x, n_heads), axis=-3),
        "the last head first | Your heads are right and come in reverse order. → Which columns "
        "belong to head 0?",
    ),
    wrong(
        lambda x, n_heads: split(x, n_heads)[..., 0, :, :],
        "the first head alone | You return head 0 and none of the others. → How many axes should "
        "the result have more than `x`?",
    ),
    wrong(
        lambda x, n_heads: np.stack(np.array_split(x, n_heads, axis=-2), axis=-3),
        "sentences cut | You cut along the axis of tokens, so each head has a part of the "
        "sentence. A head has a part of every *vector*. → Which axis has the length d?",
    ),
    wrong(
        _without_batch(split, 2),
        "a batch has one more axis | For one sentence that's right. In a batch there's one more "
        "axis in front, and a line of yours doesn't reckon with it: it unpacks two lengths, or "
        "names axes counted from the front. → Which numbers name tokens and heads however many "
        "axes there are in front?",
    ),
    wrong(
        lambda x, n_heads: split(x, n_heads).reshape(-1, x.shape[-2], x.shape[-1] // n_heads),
        "batch and heads in one axis | this exercise uses an axis for each, (b, h, n, d/h); yours "
        "has b·h in one, as PyTorch's own attention has it inside. → Which axis is to be cut in "
        "two, and into which lengths?",
        variant=True,
    ),
]


def _split_slices(x: NDArray, n_heads: int) -> Any:
    w = x.shape[-1] // n_heads
    return np.stack([x[..., i * w : (i + 1) * w] for i in range(n_heads)], axis=-3)


def _split_loops(x: NDArray, n_heads: int) -> Any:
    *lead, n, d = x.shape
    out = np.zeros((*lead, n_heads, n, d // n_heads))
    for column in range(d):
        out[..., column // (d // n_heads), :, column % (d // n_heads)] = x[..., column]
    return out


def _split_torch(x: Any, n_heads: int) -> Any:
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


_SPLIT = Exercise(
    id="06.split_heads",
    function="split_heads",
    reference=split_heads,
    guarded=[multi_head.split_heads],
    cases=_SPLIT_CASES,
    returns=("heads",),
    misconceptions=_SPLIT_WRONG,
    alternatives=[
        Alternative(name="slices, stacked", right=_split_slices),
        Alternative(name="column by column", right=_split_loops),
        Alternative(name="torch", right=_split_torch, backend="torch"),
    ],
    hints=[
        "Write 0 to 7 into an array (2, 4): two tokens. Which four numbers belong to head 0 of 2?",
        "Cut the last axis in two, (…, n, h, d/h): that moves nothing. Only then bring the axis of "
        "heads in front of that of tokens.",
        "`x.reshape(*x.shape[:-1], n_heads, -1)` cuts; `swapaxes` with axes counted from the end "
        "works for batches too.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 06.merge_heads --------------------------------------------------------------------------------


def merge_heads(x: NDArray) -> NDArray:
    """Put the pieces of every token side by side: (..., h, n, d/h) becomes (..., n, d)."""
    return merge(x)


def _pieces(*shape: int) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {"x": draw(np.random.default_rng([seed, 2, *shape]), *shape)}


_MERGE_CASES = [
    case("one head | its axis goes", _pieces(1, 3, 4)),
    case("2 heads, one token | side by side", _pieces(2, 1, 3)),
    case("2 heads, 3 tokens, width 4 | token by token", _pieces(2, 3, 4)),
    case("3 heads, 5 tokens, width 2 | head 0 on the left", _pieces(3, 5, 2)),
    case("a batch of 2, 3 heads, 5 tokens, width 4 | each sentence by itself", _pieces(2, 3, 5, 4)),
]

_MERGE_WRONG = [
    wrong(
        paste,
        "reshaped without a transpose | The shape is right, but each of your rows holds several "
        "tokens of one head: `reshape` takes numbers in the order in which they lie in memory. → "
        "Which two axes have to be neighbours before they become one?",
    ),
    wrong(
        lambda x: x.swapaxes(-3, -2),
        "not merged yet | Heads stand behind tokens now, which is half of the way; the last two "
        "axes are still two. → What makes one axis out of two?",
    ),
    wrong(
        lambda x: merge(x.transpose(*range(x.ndim - 3), -1, -2, -3)),
        "dealt out | Your columns take turns: head 0, head 1, …, head 0 again. Heads are blocks of "
        "neighbouring columns. → In which order stand the last two axes before they become one?",
    ),
    wrong(
        lambda x: x.sum(axis=-3),
        "heads added | You add heads up, so nobody can tell any more who said what. → If h heads "
        "of width d/h are put side by side, how wide is the result?",
    ),
    wrong(
        lambda x: x.reshape(*x.shape[:-3], -1, x.shape[-1]),
        "heads under one another | You put heads one under the other, so a sentence has become h "
        "times as long. → Along which axis should they be put together?",
    ),
    wrong(
        lambda x: np.concatenate(list(x), axis=-1),
        "the first axis merged | For one sentence that's right. With a batch the first axis is "
        "that of sentences, and those were put side by side. → Which axis is that of heads, "
        "counted from the end?",
    ),
    wrong(
        lambda x: (lambda y: y.reshape(*y.shape[:-2], -1))(x.swapaxes(0, 1)),
        "axes counted from the front | For one sentence that's right. With a batch axes 0 and 1 "
        "are sentences and heads. → Which numbers name heads and tokens however many axes there "
        "are in front?",
    ),
    wrong(
        lambda x: merge(x).reshape(-1, x.shape[-3] * x.shape[-1]),
        "the batch flattened | For one sentence that's right. Of a batch you've made one long list "
        "of tokens. → Which axes should stay as they are?",
    ),
    wrong(
        lambda x: x.mean(axis=-3),
        "the mean over heads | You take the mean of the heads, so nobody can tell any more who "
        "said what. → If h heads of width d/h are put side by side, how wide is the result?",
    ),
    wrong(
        lambda x: x[..., 0, :, :],
        "the first head alone | You return what head 0 found, and lose the others. → If h heads "
        "of width d/h are put side by side, how wide is the result?",
    ),
    wrong(
        lambda x: merge(np.flip(x, axis=-3)),
        "the last head on the left | Each token's pieces stand side by side in reverse order. → "
        "Whose numbers stand in the first columns?",
    ),
    wrong(
        lambda x: paste(x.swapaxes(-2, -1)),
        "the wrong two axes swapped | The shape is right, but you've swapped tokens and numbers "
        "where heads and tokens had to change places. → Which two axes have to be neighbours "
        "before they become one?",
    ),
    wrong(
        _without_batch(merge, 3),
        "a batch has one more axis | For one sentence that's right. In a batch there's one more "
        "axis in front, and a line of yours doesn't reckon with it: it unpacks three lengths, or "
        "names axes counted from the front. → Which numbers name heads and tokens however many "
        "axes there are in front?",
    ),
    wrong(
        lambda x: merge(x).swapaxes(-2, -1),
        "tokens as columns | The numbers are right, but tokens lie in columns. → Which axis should "
        "be the last one?",
    ),
]


def _merge_concatenated(x: NDArray) -> Any:
    return np.concatenate([x[..., i, :, :] for i in range(x.shape[-3])], axis=-1)


def _merge_loops(x: NDArray) -> Any:
    *lead, h, n, w = x.shape
    out = np.zeros((*lead, n, h * w))
    for i in range(h):
        out[..., i * w : (i + 1) * w] = x[..., i, :, :]
    return out


def _merge_torch(x: Any) -> Any:
    return x.transpose(-3, -2).flatten(-2)


_MERGE = Exercise(
    id="06.merge_heads",
    function="merge_heads",
    reference=merge_heads,
    guarded=[multi_head.merge_heads],
    cases=_MERGE_CASES,
    returns=("tokens",),
    misconceptions=_MERGE_WRONG,
    alternatives=[
        Alternative(name="concatenated", right=_merge_concatenated),
        Alternative(name="filled in", right=_merge_loops),
        Alternative(name="torch", right=_merge_torch, backend="torch"),
    ],
    hints=[
        "Do what `split_heads` did, backwards and in the other order.",
        "Two axes become one by `reshape` if they're neighbours, and in the order in which they "
        "are to be read: first the head, then the number within it.",
        "Bring heads behind tokens, (…, n, h, d/h), then reshape to (…, n, h·d/h).",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 06.attention_masks ----------------------------------------------------------------------------


def attention_masks(lengths: NDArray, n: int) -> tuple[NDArray, NDArray, NDArray]:
    """Return the causal mask (n, n), the padding mask (b, 1, 1, n), and both in one."""
    return _masks()(lengths, n)


def _masks(
    causal: Callable[[NDArray, NDArray], NDArray] = lambda i, j: j <= i,
    padding: Callable[[NDArray, NDArray, int], NDArray] = lambda j, lengths, n: j < lengths,
    both: Callable[[NDArray, NDArray], NDArray] = lambda c, p: c & p,
    shape: Callable[[NDArray], NDArray] = lambda p: p[:, None, None, :],
    after: Callable[..., Any] = lambda *parts: parts,
) -> Callable[[NDArray, int], Any]:
    """Return the masks with some steps replaced."""

    def built(lengths: NDArray, n: int) -> Any:
        places = np.arange(n)
        c = causal(places[:, None], places)
        p = shape(padding(places, lengths[:, None], n))
        return after(c, p, both(c, p))

    return built


def _lengths(*lengths: int, n: int) -> dict[str, Any]:
    return {"lengths": np.array(lengths), "n": n}


_MASK_CASES = [
    case("one token | it sees itself", _lengths(1, n=1)),
    case("a full sentence of 4 | padding hides nothing", _lengths(4, n=4)),
    case("2 of 4 tokens are real | the last two keys are hidden", _lengths(2, n=4)),
    case("two sentences, of 5 and 3 tokens | each its own mask", _lengths(5, 3, n=5)),
    case("three sentences, of 1, 4 and 2 tokens | a row a sentence", _lengths(1, 4, 2, n=4)),
]


def _both_axes(lengths: NDArray, n: int) -> Any:
    """Hide padded queries as well."""
    c, p, both = _masks()(lengths, n)
    return c, p, both & p.swapaxes(-2, -1)


def _additive(*parts: NDArray) -> Any:
    return tuple(np.where(part, 0.0, -np.inf) for part in parts)


_MASK_WRONG = [
    wrong(
        _masks(lambda i, j: j > i, lambda j, lengths, n: j >= lengths, lambda c, p: c | p),
        "True where hidden | this exercise uses True for *may look*; in yours True means hidden, "
        "as in `nn.MultiheadAttention`. → What is the first entry of the causal mask, if a token "
        "sees itself?",
        variant=True,
    ),
    wrong(
        _masks(causal=lambda i, j: j < i),
        "the diagonal hidden | Your first token sees nothing, and no token sees itself. A token "
        "predicts the *next* one and may know itself. → Which of < and ≤ lets j = i through?",
    ),
    wrong(
        _masks(causal=lambda i, j: j <= i + 1),
        "one of the future visible | Every token sees the one after it: the very token it's to "
        "predict. Training would look splendid. → Which diagonal is the last that may be seen?",
    ),
    wrong(
        _masks(causal=lambda i, j: j >= i),
        "looking ahead | Your causal mask is transposed: tokens see what comes after them and not "
        "what came before. → Is the row the one who looks, or the one who is looked at?",
    ),
    wrong(
        _masks(causal=lambda i, j: j > i),
        "causal mask inverted | Your causal mask is True exactly where it should be False. The "
        "padding is right. → May a token look at what comes after it?",
    ),
    wrong(
        _masks(padding=lambda j, lengths, n: j >= lengths),
        "padding mask inverted | Your padding mask is True for the padding, which nobody should "
        "see. The causal one is right. → Which keys are real tokens?",
    ),
    wrong(
        _masks(padding=lambda j, lengths, n: j <= lengths),
        "one of the padding visible | Your sentences are one token too long: with length 2 the "
        "real tokens are 0 and 1. → Which is the last real position?",
    ),
    wrong(
        _masks(padding=lambda j, lengths, n: j >= n - lengths),
        "padding on the left | this exercise uses padding on the right; your mask hides the first "
        "keys, as for batches that are padded on the left. → At which end stand the real tokens?",
        variant=True,
    ),
    wrong(
        _masks(shape=lambda p: p[:, None, :, None]),
        "padding along queries | Your padding mask lies along the axis of queries: padded tokens "
        "can't ask, but all can see them. → Which axis of the scores is that of keys?",
    ),
    wrong(
        _both_axes,
        "padded queries hidden as well | Your third mask hides padded queries too, so their rows "
        "are all False, which gives NaN in many programs. Nobody reads their outputs; it's enough "
        "that nobody sees them. → Which two masks are combined?",
    ),
    wrong(
        _masks(both=lambda c, p: c | p),
        "combined with OR | A look is allowed in yours as soon as *one* mask allows it, so padding "
        "and future are back. → If either of two says no, what is the answer?",
    ),
    wrong(
        _masks(both=lambda c, p: np.broadcast_to(p, (len(p), 1, *c.shape))),
        "the third without the causal one | Your third mask hides the padding alone; the future is "
        "visible. → What else should a token not see?",
    ),
    wrong(
        _masks(both=lambda c, p: np.broadcast_to(c, (len(p), 1, *c.shape))),
        "the third without padding | Your third mask hides the future alone; the padding is "
        "visible. → What else should a token not see?",
    ),
    wrong(
        _masks(shape=lambda p: p, both=lambda c, p: c & p[:, None, :]),
        "no axes for heads and queries | Your padding mask is (b, n). Scores are (b, h, n_q, n_k), "
        "and shapes are matched from the *end*: sentences would meet queries. → Where do two axes "
        "of length 1 belong?",
    ),
    wrong(
        _masks(shape=lambda p: p),
        "no axes, and combined as they are | Your padding mask is (b, n). Shapes are matched from "
        "the *end*, so in the third mask its sentences meet the queries of the causal one: an "
        "error, or worse. → Where do two axes of length 1 belong?",
    ),
    wrong(
        _masks(shape=lambda p: p[:, None, :]),
        "no axis for heads | Your masks of padding are (b, 1, n) and (b, n, n). Scores are "
        "(b, h, n_q, n_k), and shapes are matched from the *end*: sentences would meet heads. → "
        "Which axis is missing, and where?",
    ),
    wrong(
        _masks(shape=lambda p: p[:, None, :], both=lambda c, p: (c & p)[:, None]),
        "padding without an axis for heads | Your third mask is right; your padding mask is "
        "(b, 1, n). Scores are (b, h, n_q, n_k), and shapes are matched from the *end*: sentences "
        "would meet heads. → Which axis is missing, and where?",
    ),
    wrong(
        _masks(padding=lambda j, lengths, n: j < lengths - 1),
        "the last real token hidden | Your sentences are one token too short: with length 2 the "
        "real tokens are 0 and 1. → Which is the last real position?",
    ),
    wrong(
        _masks(padding=lambda j, lengths, n: (j < lengths.max()) & (lengths > 0)),
        "one length for all | You hide what is padding for the longest sentence. Shorter ones "
        "show theirs. → Which shape needs `lengths` so that each sentence is compared with its "
        "own?",
    ),
    wrong(
        _masks(both=lambda c, p: c ^ p),
        "combined with XOR | Your third mask allows a look if exactly *one* of the two does. A "
        "look needs the leave of both. → If both say yes, what is the answer?",
    ),
    wrong(
        _masks(both=lambda c, p: ~(c & p)),
        "the third mask inverted | Your third mask is True exactly where it should be False; the "
        "other two are right. → May a token see itself?",
    ),
    wrong(
        _masks(padding=lambda j, lengths, n: (j < n) & (lengths > 0)),
        "nothing hidden | Your padding mask is True throughout, so padding is visible to all. → "
        "Which argument have you not used?",
    ),
    wrong(
        _masks(causal=lambda i, j: i == j),
        "only the diagonal | Your causal mask lets every token see itself and nothing else. → "
        "What about the tokens that came before it?",
    ),
    wrong(
        _masks(both=lambda c, p: p),
        "the third is the second | Your third mask is the padding mask once more: it hasn't an "
        "axis of queries. → Which two masks are combined, and by which operation?",
    ),
    wrong(
        _masks(both=lambda c, p: c),
        "the third is the first | Your third mask is the causal one once more: it's the same for "
        "all sentences. → Which two masks are combined, and by which operation?",
    ),
    wrong(
        _masks(both=lambda c, p: (c & p)[:, 0]),
        "the third without an axis for heads | Your third mask is (b, n, n). Scores are "
        "(b, h, n_q, n_k), and shapes are matched from the *end*: sentences would meet heads. → "
        "Which axis is missing, and where?",
    ),
    wrong(
        _masks(shape=lambda p: p, both=lambda c, p: c & p[:, None, None]),
        "padding without its two axes | Your third mask is right; your padding mask is (b, n). "
        "Scores are (b, h, n_q, n_k), and shapes are matched from the *end*: sentences would meet "
        "queries. → Where do two axes of length 1 belong?",
    ),
    wrong(
        _masks(shape=lambda p: p[None, :, None, :], both=lambda c, p: c & p.swapaxes(0, 1)),
        "sentences where heads belong | Your padding mask is (1, b, 1, n): its sentences stand on "
        "the axis of heads. → In which order are the axes of scores, and which of them is that of "
        "sentences?",
    ),
    wrong(
        _masks(shape=lambda p: p[None, :, None, :]),
        "sentences where heads belong, twice | Your masks of padding are (1, b, …): their "
        "sentences stand on the axis of heads. → In which order are the axes of scores, and which "
        "of them is that of sentences?",
    ),
    wrong(
        _masks(after=_additive),
        "numbers to add | this exercise uses True and False; yours hold 0 and −∞, to be added to "
        "the scores. → Which comparison gives your zeros, before it's turned into numbers?",
        variant=True,
    ),
]


def _masks_loops(lengths: NDArray, n: int) -> Any:
    b = len(lengths)
    causal, padding = np.zeros((n, n), bool), np.zeros((b, 1, 1, n), bool)
    both = np.zeros((b, 1, n, n), bool)
    for j in range(n):
        for s in range(b):
            padding[s, 0, 0, j] = j < lengths[s]
        for i in range(j, n):
            causal[i, j] = True
            both[:, 0, i, j] = j < lengths
    return causal, padding, both


def _masks_triangle(lengths: NDArray, n: int) -> Any:
    causal = np.tril(np.ones((n, n))) == 1
    padding = np.array([[[[True] * k + [False] * (n - k)]] for k in lengths.tolist()])
    return causal, padding, np.logical_and(causal, padding)


def _masks_torch(lengths: Any, n: int) -> Any:
    import torch

    causal = ~torch.ones(n, n, dtype=torch.bool).triu(1)
    padding = (torch.arange(n) < lengths[:, None])[:, None, None]
    return causal, padding, causal & padding


_MASKS = Exercise(
    id="06.attention_masks",
    function="attention_masks",
    reference=attention_masks,
    guarded=[masks.padding_mask, masks.combine_masks, attention.causal_mask],
    cases=_MASK_CASES,
    returns=("causal", "padding", "both"),
    misconceptions=_MASK_WRONG,
    alternatives=[
        Alternative(name="loops", right=_masks_loops),
        Alternative(name="a triangle and lists", right=_masks_triangle),
        Alternative(name="torch", right=_masks_torch, backend="torch"),
    ],
    hints=[
        "Begin with one sentence of 3 tokens, of which 2 are real, and write the three tables down "
        "on paper: a row for each query, a column for each key.",
        "Causal: key j is at most query i. Padding: key j is below the length. Both are "
        "comparisons of `np.arange(n)`, turned into a column or a row.",
        "`mask[:, None, None, :]` puts two axes of length 1 between sentences and keys. A look is "
        "allowed if both masks allow it.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 06.multi_head_attention -----------------------------------------------------------------------


def multi_head_attention(
    x: NDArray,
    w_q: NDArray,
    w_k: NDArray,
    w_v: NDArray,
    w_o: NDArray,
    n_heads: int,
    mask: NDArray | None = None,
) -> tuple[NDArray, NDArray]:
    """Let h heads attend within a sentence, and project what they found."""
    return attend()(x, x, w_q, w_k, w_v, w_o, n_heads, mask)


def _own(write: Callable[..., Any]) -> Callable[..., Any]:
    """Turn attention of two sequences into that of one."""
    return lambda x, w_q, w_k, w_v, w_o, n_heads, mask=None: write(
        x, x, w_q, w_k, w_v, w_o, n_heads, mask
    )


def _common(make: Callable[..., Callable[..., Any]]) -> list[Misconception]:
    """Return what goes wrong in self- and cross-attention alike."""
    return [
        wrong(
            make(split=cut),
            "split without a transpose | Your heads hold cut-up tokens: vectors were reshaped to "
            "(h, n, d/h) in one go. With one head nobody notices. → Which axis has to be cut "
            "first, and which two swapped then?",
        ),
        wrong(
            make(merge=paste),
            "merged without a transpose | Your weights are right, but what heads found is put "
            "together wrongly: reshaped from (h, n, d/h) in one go, a row holds several tokens. → "
            "Which two axes have to be neighbours before they become one?",
        ),
        wrong(
            make(split=cut, merge=paste),
            "split and merged without a transpose | Shapes come out right, but heads hold cut-up "
            "tokens: both reshapes go between (n, d) and (h, n, d/h) without a transpose. With one "
            "head nobody notices. → In which order do numbers lie in memory?",
        ),
        wrong(
            make(scale=lambda d, h: sqrt(d)),
            "scaled by √d | Where there's more than one head your weights are too even: scores are "
            "divided by the root of the *whole* width. → How many numbers does one head's product "
            "add up?",
        ),
        wrong(
            make(scale=lambda d, h: 1.0),
            "not scaled | Your weights are sharper than they should be: scores aren't divided by "
            "anything. → What was done to scores in chapter 05, and what is a head's own width?",
        ),
        wrong(
            make(project=lambda heads, w_o: heads),
            "no output projection | Your weights are right, but heads only stand side by side: "
            "nothing mixes what they found. → Which matrix hasn't been used?",
        ),
        wrong(
            make(project=lambda heads, w_o: heads @ w_o.T),
            "the output's matrix transposed | Your weights are right, but what heads found is "
            "multiplied by W_O transposed. → What stands in row 0 of w_o: what one number of a "
            "head is turned into, or what one number of the output is made of?",
        ),
        wrong(
            make(merge=lambda x: merge(np.flip(x, axis=-3))),
            "the last head on the left | Your weights are right, but heads are put side by side "
            "in reverse order. → Which rows of W_O are for head 0?",
        ),
        wrong(
            make(scale=lambda d, h: d),
            "divided by d | Your weights are much too even: scores are divided by the whole width "
            "itself. → Whose width counts, and what is to be done to it before you divide?",
        ),
        wrong(
            make(scale=lambda d, h: sqrt(h)),
            "scaled by √h | You divide scores by the root of the *number* of heads. → How many "
            "numbers does one head's product add up?",
        ),
        wrong(
            make(scale=lambda d, h: sqrt(h / d)),
            "multiplied by the root | Your weights are sharper than without any scale: scores are "
            "multiplied by √(d/h), and the formula divides. → Should a wider head have larger "
            "scores or not?",
        ),
        wrong(
            make(hide=lambda s, mask: s, after_weights=late),
            "masked after the softmax | Hidden weights are 0, but rows no longer sum to 1: hidden "
            "keys still had a share in the sum. → What has to be masked, the scores or the "
            "weights?",
        ),
        wrong(
            make(hide=lambda s, mask: hide(s, mask, 0.0)),
            "hidden scores set to 0 | A score of 0 is an ordinary score, e⁰ = 1, and gets its "
            "share. → Which score gives the weight 0?",
        ),
        wrong(
            make(hide=lambda s, mask: s if mask is None else s + mask),
            "mask added | You add the mask to the scores: True counts as 1 and False as 0, so "
            "hidden keys lose 1 and are seen all the same. → Which number has to be added, or put "
            "in place of a score, so that its weight is 0?",
        ),
        wrong(
            make(weigh=lambda s: softmax(s, axis=None)),
            "softmax over everything | All your weights together sum to 1, over all queries, heads "
            "and sentences. → Along which axis lie the weights of one query?",
        ),
    ]


def _self(**changes: Any) -> Callable[..., Any]:
    """Return self-attention with some steps replaced."""
    return _own(attend(**changes))


def _weights(rng: np.random.Generator, d: int) -> dict[str, Any]:
    return {name: draw(rng, d, d, spread=0.7) for name in ("w_q", "w_k", "w_v", "w_o")}


def _heads(
    *shape: int, h: int, mask: NDArray | None = None, unit: bool = False
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, *shape])
        given = {"x": draw(rng, *shape), **_weights(rng, shape[-1])}
        if unit:
            given.update(dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), np.eye(shape[-1])))
        given["n_heads"] = h
        return given if mask is None else {**given, "mask": mask}

    return build


_MULTI_CASES = [
    case("one token, one head | its value, projected", _heads(1, 3, h=1)),
    case("3 tokens, one head | attention as you know it", _heads(3, 4, h=1)),
    case(
        "5 tokens, 2 heads, all matrices the identity | each head by itself",
        _heads(5, 6, h=2, unit=True),
    ),
    case("4 tokens of width 9, 3 heads | everything but masks", _heads(4, 9, h=3)),
    case(
        "4 tokens, 2 heads, causal | one mask for all heads",
        _heads(4, 6, h=2, mask=np.tri(4, dtype=bool)),
    ),
    case(
        "3 sentences of 4 tokens, 2 heads, padding | each sentence by itself",
        _heads(3, 4, 10, h=2, mask=(np.arange(4) < np.array([[4], [1], [3]]))[:, None, None]),
    ),
    case(
        "a token that may look at nothing | weights 0, output 0",
        _heads(3, 4, h=2, mask=np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]], bool)),
    ),
]


def _three_axes(x: NDArray, n_heads: int) -> NDArray:
    n, d = x.shape[-2:]
    return x.reshape(n, n_heads, d // n_heads).transpose(1, 0, 2)


def _dealt(x: NDArray) -> NDArray:
    return np.moveaxis(x, -3, -1).reshape(*x.shape[:-3], x.shape[-2], -1)


def _scaled_by_length(
    x: NDArray,
    w_q: NDArray,
    w_k: NDArray,
    w_v: NDArray,
    w_o: NDArray,
    n_heads: int,
    mask: NDArray | None = None,
) -> Any:
    n = x.shape[-2]
    return _self(scale=lambda d, h: sqrt(n))(x, w_q, w_k, w_v, w_o, n_heads, mask)


def _not(mask: NDArray | None) -> NDArray | None:
    return None if mask is None else ~mask


_MULTI_WRONG = [
    *_common(_self),
    wrong(
        _self(split=every_other),
        "every h-th column | Head i has the columns i, i + h, …: neighbours were dealt out like "
        "cards when heads were split. → In which order should the two new axes stand, (h, d/h) or "
        "(d/h, h)?",
    ),
    wrong(
        _self(scale=lambda d, h: d / h),
        "divided by d/h | You divide scores by a head's width, not by its root. → How fast does "
        "the spread of a sum of d/h products grow?",
    ),
    wrong(
        _self(turn=lambda w: w.T),
        "matrices transposed | this exercise uses matrices (in, out), x @ W; you multiply by their "
        "transposes, as is right for an `nn.Linear`, whose weight is (out, in). → What stands in "
        "row 0 of w_q?",
        variant=True,
    ),
    wrong(
        _self(weigh=lambda s: np.nan_to_num(s)),
        "no softmax | Your weights are the scores themselves: they don't sum to 1, and some are "
        "negative. → Which step turns scores into weights?",
    ),
    wrong(
        _self(hide=lambda s, mask: hide(s, None if mask is None else mask.swapaxes(-2, -1))),
        "mask transposed | Your mask has its axes of queries and keys swapped. → Is the row of a "
        "mask the one who looks, or the one who is looked at?",
    ),
    wrong(
        _self(inputs=lambda a, b, q, k, v: (a @ q, b @ k, b @ k)),
        "keys for values | Your weights are right, but what they weigh are the keys. → Which "
        "matrix hasn't been used?",
    ),
    wrong(
        _self(inputs=lambda a, b, q, k, v: (a @ q, b @ q, b @ v)),
        "queries for keys | Your keys are made with W_Q, as the queries are. → Which matrix "
        "hasn't been used?",
    ),
    wrong(
        _self(hide=lambda s, mask: hide(s, _not(mask))),
        "mask inverted | Your tokens look exactly where they may not. Here True means *may look*. "
        "→ Which of the two branches of `np.where` is −∞?",
    ),
    wrong(
        _self(hide=lambda s, mask: hide(s, _not(mask)), weigh=plain_softmax),
        "mask inverted, NaN | Your tokens look exactly where they may not, and where that leaves "
        "nothing there's NaN. Here True means *may look*. → Which of the two branches of "
        "`np.where` is −∞?",
    ),
    wrong(
        _self(hide=lambda s, mask: s),
        "mask ignored | Without a mask all is right; with one nothing changes. → Where do scores "
        "become −∞?",
    ),
    wrong(
        _self(hide=lambda s, mask: hide(s, mask, -1e9)),
        "−10⁹ for −∞ | All is right but for the token that may look at nothing: its scores are all "
        "the same finite number, so it looks at everything. → What is promised for such a row?",
    ),
    wrong(
        _self(hide=lambda s, mask: s if mask is None else s + np.where(mask, 0.0, -1e9)),
        "−10⁹ added | All is right but for the token that may look at nothing: all its scores are "
        "lowered by as much, which changes nothing, so it looks at everything. → What is promised "
        "for such a row?",
    ),
    wrong(
        _self(weigh=plain_softmax),
        "NaN where all is hidden | All is right but for the token that may look at nothing: its "
        "row is all −∞, and −∞ − (−∞) is NaN. → What is promised for such a row, and what could be "
        "subtracted in place of its maximum?",
    ),
    wrong(
        _self(split=_three_axes, weigh=plain_softmax),
        "one sentence only | For one sentence your heads are right. A batch has one more axis, "
        "which neither the reshape nor the transpose knows of. → How can the axes in front be "
        "taken over, however many there are?",
    ),
    wrong(
        _self(weigh=lambda s: softmax(s, axis=-2)),
        "softmax over queries | Your columns sum to 1, not your rows. → Along which axis lie the "
        "weights of one query?",
    ),
    wrong(
        lambda x, q, k, v, o, n_heads, mask=None: _self()(x, q, k, v, o, 1, mask),
        "one head | You return one head of the whole width, however many are asked for. → Where "
        "does `n_heads` come in?",
    ),
    wrong(
        _self(inputs=lambda a, b, q, k, v: (a @ q, b @ k, b)),
        "values not projected | Your weights are right, but what they weigh are the tokens "
        "themselves. → Which matrix hasn't been used?",
    ),
    wrong(
        _self(inputs=lambda a, b, q, k, v: (a @ k, b @ q, b @ v)),
        "queries and keys swapped | Your scores are transposed: what should ask is asked. → Which "
        "of the two products is the query's, and which axis of the scores is its?",
    ),
    wrong(
        lambda x, w_q, w_k, w_v, w_o, n_heads, mask=None: _self()(
            x, w_q.T, w_k.T, w_v.T, w_o, n_heads, mask
        ),
        "three matrices transposed | You multiply by the transposes of W_Q, W_K and W_V, and by "
        "W_O as it is. → What stands in row 0 of w_q?",
    ),
    wrong(
        _scaled_by_length,
        "scaled by √n | You divide scores by the root of the number of *tokens*. → How many "
        "numbers does one head's product add up?",
    ),
    wrong(
        _self(weigh=lambda s: softmax(s, axis=-3)),
        "softmax over heads | Your heads' weights sum to 1 for each pair of tokens: heads compete "
        "with each other. → Along which axis lie the weights of one query?",
    ),
    wrong(
        _self(inputs=lambda a, b, q, k, v: (a, b @ k, b @ v)),
        "queries not projected | Your queries are the tokens themselves, as they came in. → "
        "Which matrix hasn't "
        "been used?",
    ),
    wrong(
        _self(inputs=lambda a, b, q, k, v: (a @ q, b, b @ v)),
        "keys not projected | Your keys are the tokens themselves, as they came in. → Which "
        "matrix hasn't been "
        "used?",
    ),
    wrong(
        _self(merge=_dealt),
        "dealt out at the merge | Your weights are right, but columns take turns where heads are "
        "put together: head 0, head 1, …, head 0 again. → In which order stand the last two axes "
        "before they become one?",
    ),
    wrong(
        _self(merge=lambda x: x.sum(axis=-3), project=lambda heads, w_o: heads),
        "heads added | Your weights are right, but you add up what heads found, and W_O isn't "
        "used. → If h heads of width d/h are put side by side, how wide is the result?",
    ),
    wrong(
        _self(returns=lambda output, weights: (output, weights.mean(axis=-3))),
        "weights averaged | this exercise uses the weights of every head; yours are their means, "
        "as `nn.MultiheadAttention` gives them unless it's told otherwise. → Which axis has gone?",
        variant=True,
    ),
]


_MULTI = Exercise(
    id="06.multi_head_attention",
    function="multi_head_attention",
    reference=multi_head_attention,
    guarded=[multi_head.multi_head_attention, attention.scaled_dot_product_attention],
    cases=_MULTI_CASES,
    returns=("output", "weights"),
    misconceptions=_MULTI_WRONG,
    alternatives=[
        Alternative(name="head by head", right=_own(by_loops)),
        Alternative(name="einsum", right=_own(by_einsum)),
        Alternative(name="torch", right=_own(by_torch), backend="torch"),
    ],
    hints=[
        "Five steps: project, split, attend, merge, project. You've written split and merge; which "
        "shape has each of the others?",
        "Scores are (…, h, n, n): queries (…, h, n, d/h) times keys turned to (…, h, d/h, n), "
        "divided by √(d/h). The mask broadcasts to them.",
        "A row of nothing but −∞ has no maximum to subtract: put 0 in its place, and 1 in the "
        "place of a sum that is 0.",
    ],
    points=4,
    minutes=30,
    difficulty=2,
)


# -- 06.cross_attention ----------------------------------------------------------------------------


def cross_attention(
    x_q: NDArray,
    x_kv: NDArray,
    lengths: NDArray,
    w_q: NDArray,
    w_k: NDArray,
    w_v: NDArray,
    w_o: NDArray,
    n_heads: int,
) -> tuple[NDArray, NDArray]:
    """Let the tokens of one batch look at those of another, which is padded."""
    return _cross()(x_q, x_kv, lengths, w_q, w_k, w_v, w_o, n_heads)


def _mean_over_heads(output: NDArray, weights: NDArray) -> Any:
    return output, weights.mean(axis=-3)


def _cross(
    real: Callable[..., NDArray] = lambda j, lengths, n_q: (j < lengths[:, None])[:, None, None],
    before: Callable[..., tuple[NDArray, NDArray]] = lambda a, b, lengths: (a, b),
    returns: Callable[..., Any] = _mean_over_heads,
    **changes: Any,
) -> Callable[..., Any]:
    """Return cross-attention with some steps replaced."""
    attended = attend(**{"weigh": plain_softmax, "returns": returns, **changes})

    def crossed(
        x_q: Any, x_kv: Any, lengths: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int
    ) -> Any:
        mask = real(np.arange(x_kv.shape[-2]), lengths, x_q.shape[-2])
        return attended(*before(x_q, x_kv, lengths), w_q, w_k, w_v, w_o, n_heads, mask)

    return crossed


def _sources(
    b: int, n_q: int, n_k: int, d: int, h: int, *lengths: int
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 5, b, n_q, n_k, d])
        given = {"x_q": draw(rng, b, n_q, d), "x_kv": draw(rng, b, n_k, d)}
        return {**given, "lengths": np.array(lengths), **_weights(rng, d), "n_heads": h}

    return build


def _far(seed: int) -> dict[str, Any]:
    """Real scores are below −10⁴, left-overs of padding would score above 10⁹."""
    rng = np.random.default_rng([seed, 6])
    x_q, real = rng.uniform(200, 210, (1, 2, 4)).round(), rng.uniform(-110, -100, (1, 2, 4)).round()
    one = np.eye(4)
    return {
        "x_q": x_q,
        "x_kv": np.concatenate([real, np.full((1, 1, 4), 1e8)], axis=1),
        "lengths": np.array([2]),
        **dict.fromkeys(("w_q", "w_k", "w_v"), one),
        "w_o": draw(rng, 4, 4),
        "n_heads": 2,
    }


_CROSS_CASES = [
    case("2 queries, 3 source tokens, one head | the source is asked", _sources(1, 2, 3, 4, 1, 3)),
    case("one source token, one head | its value, projected", _sources(1, 2, 1, 3, 1, 1)),
    case("3 queries, 5 source tokens, 2 heads | weights are means", _sources(1, 3, 5, 6, 2, 5)),
    case("4 source tokens, of which 2 are real | the rest is padding", _sources(1, 4, 4, 6, 2, 2)),
    case(
        "3 pairs, sources of 4, 1 and 5 tokens | each pair by itself",
        _sources(3, 3, 5, 8, 2, 4, 1, 5),
    ),
    case(
        "3 pairs, 3 heads, 6 queries | heads aren't pairs, and nothing is causal",
        _sources(3, 6, 4, 9, 3, 3, 4, 1),
    ),
    case("scores far below 0 | padding stays hidden, however large its numbers", _far),
]


def _zero_padding(a: NDArray, b: NDArray, lengths: NDArray) -> tuple[NDArray, NDArray]:
    return a, b * (np.arange(b.shape[1]) < lengths[:, None])[..., None]


def _unmasked(j: NDArray, lengths: NDArray, n_q: int) -> NDArray:
    return np.ones((1, 1, 1, 1), bool)


def _causally(j: NDArray, lengths: NDArray, n_q: int) -> NDArray:
    return (j < lengths[:, None])[:, None, None] & np.tri(n_q, len(j), dtype=bool)


def _unshifted(s: NDArray) -> NDArray:
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


_ALONG = (
    "Your mask (b, 1, n_k, 1) has its keys on the axis of queries: an error where there are more "
    "or fewer of those, and otherwise queries are hidden and padding is seen."
)

_CROSS_WRONG = [
    *_common(_cross),
    wrong(
        _cross(before=lambda a, b, lengths: (b, a), real=_unmasked),
        "the source asks | Your source asks and the target is asked: outputs have the source's "
        "length. → From which of the two come queries, if every target token wants an answer?",
    ),
    wrong(
        _cross(
            before=lambda a, b, lengths: (b, a),
            real=lambda j, lengths, n_q: (np.arange(n_q) < lengths[:, None])[:, None, None],
        ),
        "the source asks, masked | Your source asks and the target is asked, so outputs have the "
        "source's length; and the sources' lengths hide target tokens. → From which of the two "
        "come queries, if every target token wants an answer?",
    ),
    wrong(
        _cross(before=lambda a, b, lengths: (a, a), real=_unmasked),
        "the target asks itself | Your source isn't used: this is self-attention of the target. → "
        "From which of the two come keys and values?",
    ),
    wrong(
        _cross(before=lambda a, b, lengths: (a, a)),
        "the target asks itself, masked | Your source isn't used: this is self-attention of the "
        "target, under a mask that's made for the source. → From which of the two come keys and "
        "values?",
    ),
    wrong(
        _cross(weigh=lambda s: plain_softmax(s, axis=-2)),
        "softmax over queries | Your softmax runs along the queries, not along the keys. → Along "
        "which axis lie the "
        "weights of one query?",
    ),
    wrong(
        _cross(inputs=lambda a, b, q, k, v: (a @ q, b @ k, a @ v)),
        "values from the target | Your keys come from the source, your values from the target, so "
        "there isn't a value for every key. → What do weights over source tokens weigh?",
    ),
    wrong(
        _cross(real=_unmasked),
        "padding seen | Without padding all is right; with it, queries look at what isn't there. → "
        "Which argument have you not used?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j >= lengths[:, None])[:, None, None]),
        "padding mask inverted | Your queries look at the padding alone; where there's none, NaN "
        "comes out. → Which keys are real tokens?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j <= lengths[:, None])[:, None, None]),
        "one of the padding visible | Your sources are one token too long: with length 2 the real "
        "tokens are 0 and 1. → Which is the last real position?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j < lengths.max())[None, None, None]),
        "one length for all | You hide what is padding for the longest source. Shorter ones show "
        "theirs. → Which shape needs a mask so that each pair has its own?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: j < lengths[:, None]),
        "a mask of two axes | For one pair that's right. Scores are (b, h, n_q, n_k), and shapes "
        "are matched from the *end*: in a batch your mask's pairs meet queries. If there are as "
        "many of them, nobody complains. → Where do two axes of length 1 belong?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j < lengths[:, None])[:, None]),
        "a mask of three axes | For one pair that's right. Scores are (b, h, n_q, n_k), and shapes "
        "are matched from the *end*: in a batch your mask's pairs meet heads. If there are as "
        "many of them, nobody complains. → Which axis is missing, and where?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j < lengths.min())[None, None, None]),
        "the shortest length for all | You hide what is padding for the shortest source, and of "
        "longer ones real tokens. → Which shape needs a mask so that each pair has its own?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j < lengths[0])[None, None, None]),
        "the first length for all | You take the first source's length for all of them. → Which "
        "shape needs a mask so that each pair has its own?",
    ),
    wrong(
        _cross(
            real=lambda j, lengths, n_q: (j < lengths[:, None] - 1)[:, None, None], weigh=softmax
        ),
        "the last real token hidden, zeros | Your sources are one token too short: with length 2 "
        "the real tokens are 0 and 1. → Which is the last real position?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j < lengths[:, None])[:, None, :, None]),
        f"keys' mask along queries | {_ALONG} Rows of nothing but −∞ give NaN. → Where do "
        "the two axes of length 1 belong?",
    ),
    wrong(
        _cross(
            real=lambda j, lengths, n_q: (j < lengths[:, None])[:, None, :, None], weigh=softmax
        ),
        f"keys' mask along queries, zeros | {_ALONG} → Where do the two axes of length 1 belong?",
    ),
    wrong(
        _cross(hide=lambda s, mask: hide(s, mask, -1e4)),
        "a number for −∞ | All is right unless real scores are lower than your number, or, if you "
        "add it, a score of the padding is higher: then padding wins. Its left-overs may be "
        "anything finite. → What should a hidden score become, whatever it was?",
    ),
    wrong(
        _cross(weigh=_unshifted),
        "no maximum subtracted | All is right unless scores are far from 0: exp becomes 0 or ∞ for "
        "all of a row, and 0/0 is NaN. → What may be subtracted from all scores of a row without "
        "changing its weights?",
    ),
    wrong(
        _cross(
            real=lambda j, lengths, n_q: (np.arange(n_q) < lengths[:, None])[:, None, :, None],
            weigh=softmax,
        ),
        "padding along queries, zeros | You hide *queries* behind the length, so they get weights "
        "of 0, and padding is seen. → Which axis of the scores is that of keys?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j >= lengths[:, None])[:, None, None], weigh=softmax),
        "padding mask inverted, zeros | Your queries look at the padding alone, and at nothing "
        "where there's none. → Which keys are real tokens?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (j < lengths[:, None] - 1)[:, None, None]),
        "the last real token hidden | Your sources are one token too short: with length 2 the real "
        "tokens are 0 and 1. → Which is the last real position?",
    ),
    wrong(
        _cross(inputs=lambda a, b, q, k, v: (a @ q, b @ k, b)),
        "values not projected | Your weights are right, but what they weigh are the source's "
        "tokens themselves. → Which matrix hasn't been used?",
    ),
    wrong(
        _cross(inputs=lambda a, b, q, k, v: (a @ k, b @ q, b @ v)),
        "W_Q and W_K swapped | The target is multiplied by W_K and the source by W_Q. → Who asks, "
        "and which matrix makes queries?",
    ),
    wrong(
        _cross(returns=lambda output, weights: (output, weights.mean(axis=0))),
        "the mean over pairs | Your output is right; your weights are the mean over the *pairs*, "
        "a table for each head. → Which axis of (b, h, n_q, n_k) is that of heads?",
    ),
    wrong(
        _cross(returns=lambda output, weights: (output, weights.max(axis=-3))),
        "the largest weight of all heads | Your output is right; your rows sum to more than 1, "
        "since you take the largest of the heads' weights. → What is the difference between a "
        "maximum over heads and a mean?",
    ),
    wrong(
        lambda x_q, x_kv, lengths, w_q, w_k, w_v, w_o, n_heads: _cross()(
            x_q, x_kv, lengths, w_q, w_k, w_v, w_o, 1
        ),
        "one head | You let one head of the whole width attend, however many are asked for. → "
        "Where does `n_heads` come in?",
    ),
    wrong(
        _cross(real=lambda j, lengths, n_q: (np.arange(n_q) < lengths[:, None])[:, None, :, None]),
        "padding along queries | You hide *queries* behind the length, so their rows are all −∞, "
        "which gives NaN, and padding is seen. → Which axis of the scores is that of keys?",
    ),
    wrong(
        _cross(real=_unmasked, before=_zero_padding),
        "padding set to 0 | You set padded source tokens to 0. Then their keys are 0, their scores "
        "0, and e⁰ = 1: they still get a share. → What has to become −∞?",
    ),
    wrong(
        _cross(real=_causally),
        "causal as well | Your first query sees only the first source token: a causal mask has "
        "been put on top. The whole source is there before the first target token. → Which tokens "
        "of the source may a query see?",
    ),
    wrong(
        _cross(returns=lambda output, weights: (output, weights)),
        "weights of every head | Your output is right, and so are your weights, one table for each "
        "head. One table a pair is asked for. → Over which axis is the mean to be taken?",
    ),
    wrong(
        _cross(returns=lambda output, weights: (output, weights.sum(axis=-3))),
        "weights added up | Your output is right; your weights are h times too large, so rows sum "
        "to h. → What is the difference between a sum over heads and a mean?",
    ),
    wrong(
        _cross(returns=lambda output, weights: (output, weights[..., 0, :, :])),
        "the first head's weights | Your output is right; your weights are those of head 0 alone. "
        "→ Over which axis is the mean to be taken?",
    ),
]


def _paired(write: Callable[..., Any], places: Callable[..., Any]) -> Callable[..., Any]:
    def crossed(
        x_q: Any, x_kv: Any, lengths: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, n_heads: int
    ) -> Any:
        mask = (places(x_kv.shape[1]) < lengths[:, None])[:, None, None]
        output, weights = write(x_q, x_kv, w_q, w_k, w_v, w_o, n_heads, mask)
        return output, weights.mean(1)

    return crossed


def _cross_torch(*given: Any) -> Any:
    import torch

    return _paired(by_torch, torch.arange)(*given)


_CROSS = Exercise(
    id="06.cross_attention",
    function="cross_attention",
    reference=cross_attention,
    guarded=[multi_head.multi_head_attention, attention.scaled_dot_product_attention],
    cases=_CROSS_CASES,
    returns=("output", "weights"),
    misconceptions=_CROSS_WRONG,
    alternatives=[
        Alternative(name="head by head", right=_paired(by_loops, np.arange)),
        Alternative(name="einsum", right=_paired(by_einsum, np.arange)),
        Alternative(name="torch", right=_cross_torch, backend="torch"),
    ],
    hints=[
        "The target asks, the source is asked. Which of the two shapes has the output, and which "
        "shape have the scores of one head?",
        "Queries are x_q W_Q; keys and values are x_kv W_K and x_kv W_V. The mask knows keys only: "
        "(b, 1, 1, n_k).",
        "Take your multi-head attention, with two inputs in place of one, and at the end the mean "
        "of the weights over the axis of heads.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 06.attention_flops ----------------------------------------------------------------------------


def attention_flops(n_q: int, n_k: int, d: int, n_heads: int) -> tuple[int, int, int]:
    """Return the FLOPs of the products of multi-head attention, in three parts."""
    cost = {
        line: c.flops for line, c in accounting.multi_head_attention(n_q, n_k, d, n_heads).items()
    }
    projections = cost["queries"] + cost["keys"] + cost["values"]
    return projections, cost["scores"] + cost["heads"], cost["output"]


def _sizes(n_q: int, n_k: int, d: int, n_heads: int) -> dict[str, Any]:
    return {"n_q": n_q, "n_k": n_k, "d": d, "n_heads": n_heads}


_FLOPS_CASES = [
    case("2 tokens of width 3, one head | small enough for paper", _sizes(2, 2, 3, 1)),
    case("one token | it has one score a head", _sizes(1, 1, 6, 3)),
    case("5 tokens of width 8, 4 heads | heads share the width", _sizes(5, 5, 8, 4)),
    case("3 queries, 7 keys, width 6 | cross-attention", _sizes(3, 7, 6, 3)),
    case("a sentence in the paper's width | projections cost most", _sizes(30, 30, 512, 8)),
    case("a long text | scores cost most", _sizes(8192, 8192, 768, 12)),
]


def _count(
    projections: Callable[..., Any] = lambda q, k, d, h: 2 * q * d * d + 4 * k * d * d,
    attention: Callable[..., Any] = lambda q, k, d, h: 4 * q * k * d,
    output: Callable[..., Any] = lambda q, k, d, h: 2 * q * d * d,
) -> Callable[..., Any]:
    def counted(n_q: int, n_k: int, d: int, n_heads: int) -> Any:
        given = (n_q, n_k, d, n_heads)
        return projections(*given), attention(*given), output(*given)

    return counted


def _halved(n_q: int, n_k: int, d: int, n_heads: int) -> Any:
    return tuple(part // 2 for part in _count()(n_q, n_k, d, n_heads))


_NARROW = (
    "every head was given the whole width d. They share it: a head's matrices are (d × d/h), its "
    "queries and keys d/h wide. → What do h heads of width d/h cost together?"
)

_FLOPS_WRONG = [
    wrong(
        _halved,
        "multiplications only | this exercise uses the count in which a multiplication and an "
        "addition are 1 FLOP each, 2 m k p for a product of (m × k) and (k × p); you count the "
        "pair once. → By which factor are all your numbers too small?",
        variant=True,
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * h * q * k * d),
        "h times the scores | You count every head at the whole width. A head's queries and keys "
        "are d/h wide. → What do h heads of width d/h cost together?",
    ),
    wrong(
        _count(
            lambda q, k, d, h: h * (2 * q + 4 * k) * d * d,
            lambda q, k, d, h: 4 * h * q * k * d,
            lambda q, k, d, h: 2 * h * q * d * d,
        ),
        f"everything h times | All three numbers are h times too large: {_NARROW}",
    ),
    wrong(
        _count(
            lambda q, k, d, h: h * (2 * q + 4 * k) * d * d, lambda q, k, d, h: 4 * h * q * k * d
        ),
        f"all but the output h times | The first two numbers are h times too large: {_NARROW}",
    ),
    wrong(
        _count(lambda q, k, d, h: h * (2 * q + 4 * k) * d * d),
        f"the first number h times | The first number is h times too large: {_NARROW}",
    ),
    wrong(
        _count(output=lambda q, k, d, h: 2 * h * q * d * d),
        "the output h times | The last number is h times too large. Heads are put side by side "
        "first, then projected at once. → How wide is what W_O is multiplied with?",
    ),
    wrong(
        _count(output=lambda q, k, d, h: 2 * q * d * d // h),
        "the output of one head | The last number is h times too small. Heads are put side by "
        "side first, then projected at once. → How wide is what W_O is multiplied with?",
    ),
    wrong(
        _count(lambda q, k, d, h: 4 * q * d * d + 2 * k * d * d),
        "n_q and n_k exchanged | In the first number you take n_q for n_k and the other way round. "
        "One of the three matrices meets those who ask, two meet those who are asked. → Which?",
    ),
    wrong(
        _count(lambda q, k, d, h: 6 * k * d * d),
        "queries as many as keys | For self-attention that's right. In cross-attention queries "
        "come from another sequence, with a length of its own. → Which tokens are multiplied by "
        "W_Q?",
    ),
    wrong(
        _count(lambda q, k, d, h: 4 * k * d * d),
        "no queries | The first number is that of keys and values alone. → Which matrix do those "
        "who ask meet?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * q * q * d),
        "n_q squared | For self-attention that's right. In cross-attention the table of scores "
        "isn't square. → How many rows has it, and how many columns?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * k * k * d),
        "n_k squared | For self-attention that's right. In cross-attention the table of scores "
        "isn't square. → How many rows has it, and how many columns?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * h * q * k),
        "a product counted as one | You count 4 FLOPs for each score of each head. A score is a "
        "product of two vectors. → How many numbers do they have?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * (q + k) * d),
        "a sum for a product | You add the numbers of queries and keys, as if each were looked at "
        "once. Each query meets each key. → How many scores do 3 queries and 7 keys have?",
    ),
    wrong(
        _count(
            attention=lambda q, k, d, h: 4 * h * q * k * d,
            output=lambda q, k, d, h: 2 * h * q * d * d,
        ),
        f"all but the projections h times | The last two numbers are h times too large: {_NARROW}",
    ),
    wrong(
        _count(lambda q, k, d, h: 3 * (q + k) * d * d),
        "half the rows for each | For self-attention that's right. In cross-attention one of three "
        "matrices meets n_q tokens and two meet n_k. → Which tokens are multiplied by which "
        "matrix?",
    ),
    wrong(
        _count(lambda q, k, d, h: (q + 2 * k) * d * d),
        "half of the projections | In the first number you count a multiplication and an addition "
        "as 1 FLOP, elsewhere as 2. → What does a product of (m × k) and (k × p) cost here?",
    ),
    wrong(
        _count(output=lambda q, k, d, h: q * d * d),
        "half of the output | In the last number you count a multiplication and an addition as 1 "
        "FLOP, elsewhere as 2. → What does a product of (m × k) and (k × p) cost here?",
    ),
    wrong(
        _count(lambda q, k, d, h: (4 * q + 4 * k) * d * d),
        "the output counted twice | The first number holds the output projection too, which is the "
        "third one. → Which matrices does a token meet before the scores?",
    ),
    wrong(
        _count(lambda q, k, d, h: 4 * q * k * d, lambda q, k, d, h: 2 * q * d * d + 4 * k * d * d),
        "the first two exchanged | Your numbers are right and come in another order: that of "
        "attention stands first. → In which order does the docstring name them?",
    ),
    wrong(
        _count(lambda q, k, d, h: (2 * q + 4 * k) * d, output=lambda q, k, d, h: 2 * q * d),
        "one number of each token | Your projections are d times too small: each number of the "
        "result is a sum of d products. → How many numbers has a matrix (d × d)?",
    ),
    wrong(
        _count(
            lambda q, k, d, h: (q + 2 * k) * d * d,
            lambda q, k, d, h: 4 * q * k * d,
            lambda q, k, d, h: q * d * d,
        ),
        "two counts | In the middle you count a multiplication and an addition as 2 FLOPs, in the "
        "projections as 1. → What does a product of (m × k) and (k × p) cost here?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * q * k * d // h),
        "one head | You count one head of width d/h; there are h of them. → What do all of them "
        "cost together?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 2 * q * k * d),
        "scores only | The middle number is half of what it should be: scores are one product, the "
        "weighted sum of values is another. → Which two tables meet in the second one?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 4 * q * k * d + 5 * h * q * k),
        "softmax counted | You count softmax as well, something for each score. True, but only "
        "matrix products are asked for here. → Which two lines of attention hold one?",
    ),
    wrong(
        _count(lambda q, k, d, h: 2 * q * d * d),
        "one projection | The first number is that of the queries alone. → How many matrices does "
        "a token of self-attention meet before the scores?",
    ),
    wrong(
        _count(lambda q, k, d, h: 2 * q * d * d + 2 * k * d * d),
        "two projections | The first number is that of two matrices. Queries, keys *and values* "
        "are projected. → Whose length do values have, that of queries or that of keys?",
    ),
    wrong(
        _count(lambda q, k, d, h: 6 * q * d * d),
        "keys as many as queries | For self-attention that's right. In cross-attention keys and "
        "values come from another sequence, with a length of its own. → Which tokens are "
        "multiplied by W_K and W_V?",
    ),
    wrong(
        _count(
            lambda q, k, d, h: (2 * q + 4 * k) * d * d * h,
            output=lambda q, k, d, h: 2 * q * d * d * h,
        ),
        "h times the projections | You count every head with matrices (d × d) of its own. A head's "
        "matrix is (d × d/h): side by side they make one (d × d). → What do h of them cost "
        "together?",
    ),
    wrong(
        _count(lambda q, k, d, h: (2 * q + 4 * k) * d * d // h),
        "projections of one head | The first number is that of one head's matrices, d × d/h. There "
        "are h heads. → Side by side, how wide are their matrices?",
    ),
    wrong(
        _count(output=lambda q, k, d, h: 2 * k * d * d),
        "output for keys | The last number has the length of the keys. → How many outputs are "
        "there, one for each who asks or for each who is asked?",
    ),
    wrong(
        _count(output=lambda q, k, d, h: 0),
        "no output projection | The last number is 0, but what heads found is projected once more. "
        "→ Which matrix comes after the merge?",
    ),
    wrong(
        _count(
            lambda q, k, d, h: (2 * q + 4 * k) * d * d + (q + 2 * k) * d,
            output=lambda q, k, d, h: 2 * q * d * d + q * d,
        ),
        "biases counted | You count biases as well, an addition for each number. Only matrix "
        "products are asked for here. → What is left of x W + b?",
    ),
    wrong(
        _count(attention=lambda q, k, d, h: 2 * q * (k + 1) * d),
        "only the half that looks back | You count about half of the scores, as if a causal mask "
        "saved the others. The product computes them all and hides them afterwards. → How many "
        "numbers has the table of scores?",
    ),
]


def _flops_by_products(n_q: int, n_k: int, d: int, n_heads: int) -> Any:
    def product(m: int, k: int, p: int) -> int:
        return 2 * m * k * p

    w = d // n_heads
    heads = sum(product(n_q, w, n_k) + product(n_q, n_k, w) for _ in range(n_heads))
    return product(n_q, d, d) + 2 * product(n_k, d, d), heads, product(n_q, d, d)


def _flops_array(n_q: int, n_k: int, d: int, n_heads: int) -> Any:
    return list(np.array([(n_q + 2 * n_k) * d, 2 * n_q * n_k, n_q * d], np.int64) * 2 * d)


def _flops_torch(n_q: int, n_k: int, d: int, n_heads: int) -> Any:
    """Count what PyTorch's own counter counts, on tensors without numbers."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    def counted(*products: tuple[tuple[int, ...], tuple[int, ...]]) -> int:
        with FlopCounterMode(display=False) as counter:
            for a, b in products:
                torch.empty(a, device="meta") @ torch.empty(b, device="meta")
        return counter.get_total_flops()

    h, w = n_heads, d // n_heads
    return (
        counted(((n_q, d), (d, d)), ((n_k, d), (d, 2 * d))),
        counted(((h, n_q, w), (h, w, n_k)), ((h, n_q, n_k), (h, n_k, w))),
        counted(((n_q, d), (d, d))),
    )


_FLOPS = Exercise(
    id="06.attention_flops",
    function="attention_flops",
    reference=attention_flops,
    guarded=[accounting.multi_head_attention, accounting.scaled_dot_product_attention],
    cases=_FLOPS_CASES,
    returns=("projections", "attention", "output"),
    misconceptions=_FLOPS_WRONG,
    alternatives=[
        Alternative(name="product by product", right=_flops_by_products),
        Alternative(name="all at once, as a list", right=_flops_array),
        Alternative(name="torch", right=_flops_torch, backend="torch"),
    ],
    hints=[
        "Write down the six products with the shapes of their factors: three projections, scores, "
        "weighted sums, the output.",
        "Of h heads each multiplies (n_q × d/h) by (d/h × n_k), then (n_q × n_k) by (n_k × d/h). "
        "What is left of h when all of them are added up?",
        "Queries and outputs are n_q rows; keys and values are n_k rows. A product of (m × k) and "
        "(k × p) costs 2 m k p.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


EXERCISES = [
    _SPLIT,
    _MERGE,
    _MASKS,
    _MULTI,
    _CROSS,
    _FLOPS,
    *BUGS,
]
