"""The exercises of chapter 11: writing with a model, what may be drawn, and what is kept.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right. Filters,
beam search and caches have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import plain_softmax
from course_lib.grading.exercises.beams import BEAM_SEARCH, BEAM_STEP, beam_step_broken
from course_lib.grading.exercises.caches import CACHED_ATTENTION, CACHED_ROTARY_STEP
from course_lib.grading.exercises.decoding_models import scripted
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.nucleus import TOP_K, TOP_P
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import decoding_filters as filters

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "greedy",
    "sequence_scores",
]


# -- 11.greedy -------------------------------------------------------------------------------------

Model = Callable[[Any], Any]


def greedy(model: Model, prompt: NDArray, max_length: int, eos: int, pad: int) -> NDArray:
    """Write the likeliest token each time, for a batch, until all rows have ended.

    Parameters
    ----------
    model : callable
        From ids (b, n) to logits (b, n, V) of the token behind each.
    prompt : integer array, (b, n_prompt)
    max_length : int
        Most tokens that are written.
    eos, pad : int

    Returns
    -------
    integer array, (b, n)
        What was written, <eos> included and padding behind it; n is that of the longest row.
    """
    return _greedy()(model, prompt, max_length, eos, pad)


def _greedy(
    *,
    feed: Callable[[NDArray, int], NDArray] = lambda ids, n_prompt: ids,
    at: int = -1,
    pick: Callable[[NDArray], NDArray] = lambda logits: logits.argmax(axis=-1),
    steps: Callable[[int, int], int] = lambda max_length, n_prompt: max_length,
    begun: Callable[[NDArray, int], NDArray] = lambda prompt, eos: np.zeros(len(prompt), bool),
    fill: Callable[[NDArray, NDArray, int, int], NDArray] = lambda token, ended, eos, pad: np.where(
        ended, pad, token
    ),
    ends: Callable[[NDArray, int], NDArray] = lambda token, eos: token == eos,
    stop: Callable[[NDArray, NDArray, int], Any] = lambda ended, token, eos: ended.all(),
    early: bool = False,
    before: bool = False,
    remember: bool = True,
    result: Callable[..., Any] = lambda ids, n_prompt, max_length, eos, pad: ids[:, n_prompt:],
) -> Callable[..., Any]:
    """Return greedy decoding with some steps replaced."""

    def write(model: Model, prompt: NDArray, max_length: int, eos: int, pad: int) -> Any:
        ids, ended = prompt, begun(prompt, eos)
        n_prompt = prompt.shape[1]
        for _ in range(steps(max_length, n_prompt)):
            if before and ended.all():
                break
            token = fill(pick(model(feed(ids, n_prompt))[:, at]), ended, eos, pad)
            ended = ended & remember | ends(token, eos)
            if early and stop(ended, token, eos):
                break
            ids = np.concatenate([ids, token[:, None]], axis=1)
            if stop(ended, token, eos):
                break
        return result(ids, n_prompt, max_length, eos, pad)

    return write


def _prompts(
    lengths: list[int], max_length: int, *, eos: int = 2, pad: int = 0, turns: bool = False
) -> Callable[[int], dict[str, Any]]:
    """Return the inputs of a case where row i writes as many tokens as `lengths` says."""

    def build(seed: int) -> dict[str, Any]:
        first = 5 + np.arange(len(lengths))
        prompt = np.stack([np.full(len(lengths), 1), first], axis=1)
        if turns:  # <bos> question <eos> answer
            prompt = np.stack([prompt[:, 0], first[::-1], np.full(len(lengths), eos), first], 1)
        script = dict(zip(first.tolist(), lengths, strict=True))
        model = scripted(
            script, n_prompt=prompt.shape[1], vocab_size=10, eos=eos, pad=pad, seed=seed % 2**31
        )
        return {"model": model, "prompt": prompt, "max_length": max_length, "eos": eos, "pad": pad}

    return build


_GREEDY_CASES = [
    case("one row that ends after 4 tokens | <eos> is the last of them", _prompts([4], 6)),
    case("one row, cut off after 3 tokens | no <eos> was written", _prompts([9], 3)),
    case("3 rows that end after 2, 4 and 3 tokens | padding behind <eos>", _prompts([2, 4, 3], 7)),
    case("2 rows, one of them cut off | 5 tokens at most", _prompts([2, 9], 5)),
    case(
        "<eos> is 4, <pad> is 3 | whatever the tokens' numbers", _prompts([1, 3], 6, eos=4, pad=3)
    ),
    case("<eos> in the prompt | what counts is written", _prompts([3, 2, 5], 6, turns=True)),
]


def _to_width(ids: NDArray, n_prompt: int, max_length: int, eos: int, pad: int) -> Any:
    written = ids[:, n_prompt:]
    return np.pad(written, ((0, 0), (0, max_length - written.shape[1])), constant_values=pad)


def _without_eos(ids: NDArray, n_prompt: int, max_length: int, eos: int, pad: int) -> Any:
    written = ids[:, n_prompt:]
    kept = np.where(written == eos, pad, written)
    return kept[:, : max((kept != pad).sum(axis=1).max(), 0)]


def _pad_for_eos(ids: NDArray, n_prompt: int, max_length: int, eos: int, pad: int) -> Any:
    written = ids[:, n_prompt:]
    return np.where(written == eos, pad, written)


_GREEDY_WRONG = [
    wrong(
        _greedy(
            fill=lambda token, ended, eos, pad: token,
            ends=lambda token, eos: np.zeros(len(token), bool),
        ),
        "no end | Your rows go on behind <eos> until max_length: a model that has ended goes on "
        "with anything. → Which row has nothing more to write, and what stands in its place?",
    ),
    wrong(
        _greedy(fill=lambda token, ended, eos, pad: token),
        "ended rows go on | You stop when all rows have ended, as you should, but until then those "
        "that ended early go on writing. → What should the batch get in the place of their tokens?",
    ),
    wrong(
        _greedy(
            fill=lambda token, ended, eos, pad: token,
            stop=lambda ended, token, eos: (token == eos).all(),
        ),
        "all at the same step | With one row you're right. You stop when every row writes <eos> "
        "*at the same step*, and rows that have ended go on writing. → What has to be remembered "
        "of a row from step to step?",
    ),
    wrong(
        _greedy(stop=lambda ended, token, eos: (token == eos).any()),
        "the first end ends all | With one row you're right. With more, all stop as soon as one "
        "has ended. → Which of `any` and `all` says that nothing is left to write?",
    ),
    wrong(
        _greedy(
            fill=lambda token, ended, eos, pad: token,
            stop=lambda ended, token, eos: token[0] == eos,
        ),
        "the first row decides | With one row you're right. With more, all stop when the first "
        "one ends. → Which rows are left then?",
    ),
    wrong(
        _greedy(
            fill=lambda token, ended, eos, pad: token,
            stop=lambda ended, token, eos: bool(token == eos),
        ),
        "one row only | With one row you're right. With more, your test for <eos> stops with an "
        "error: it takes several tokens for one. → How many answers does `token == eos` give for "
        "a batch?",
    ),
    wrong(
        _greedy(fill=lambda token, ended, eos, pad: np.where(ended, eos, token)),
        "<eos> for padding | this exercise uses <pad> behind <eos>; you repeat <eos> until the "
        "longest row has ended. → Which argument says what stands behind?",
        variant=True,
    ),
    wrong(
        _greedy(stop=lambda ended, token, eos: False),
        "always max_length columns | Your tokens are right, but you go on until max_length when "
        "all rows have ended: the last columns hold nothing but padding, and cost as much as the "
        "others. → When is there nothing left to write?",
    ),
    wrong(
        _greedy(early=True),
        "stopped before the last token is kept | You break as soon as all rows have ended, before "
        "the last token gets into the result: the row that ends last has no <eos>. → Which line "
        "has to come first?",
    ),
    wrong(
        _greedy(result=_without_eos),
        "<eos> left out | this exercise uses rows that keep their <eos>; yours end before it, so "
        "that a row that has ended can't be told from one that was cut off. → What is the last "
        "token of a row that has ended?",
        variant=True,
    ),
    wrong(
        _greedy(result=lambda ids, *rest: ids),
        "the prompt returned as well | Your rows begin with the prompt. Only what was written is "
        "asked for. → How many columns has the prompt?",
    ),
    wrong(
        _greedy(steps=lambda max_length, n_prompt: max_length - n_prompt),
        "the prompt counted | You write fewer tokens than you may: max_length counts what is "
        "*written*, and you count the prompt too. → How often may the loop run?",
    ),
    wrong(
        _greedy(steps=lambda max_length, n_prompt: max_length - 1),
        "one token too few | Where a row is cut off, you write one token less than max_length. → "
        "How often does your loop run if max_length is 3?",
    ),
    wrong(
        _greedy(steps=lambda max_length, n_prompt: max_length + 1),
        "one token too many | Where a row is cut off, you write one token more than max_length. → "
        "How often does your loop run if max_length is 3?",
    ),
    wrong(
        _greedy(feed=lambda ids, n_prompt: ids[:, -1:] if ids.shape[1] > n_prompt else ids),
        "the prompt, then the last token alone | Your first token is right. From then on your "
        "model sees one token, the last, and forgets what came before: without a cache it needs "
        "all of them each time. → What has to be passed at the second step?",
    ),
    wrong(
        _greedy(feed=lambda ids, n_prompt: ids[:, -1:]),
        "the last token alone | Your model sees one token, the last, and forgets what came before: "
        "without a cache it needs all of them each time. → What has to be passed at the second "
        "step?",
    ),
    wrong(
        _greedy(at=0),
        "the first place | You take the logits at place 0, where the model says what comes behind "
        "the prompt's first token; they never change. → At which place does it say what comes "
        "behind all tokens so far?",
    ),
    wrong(
        _greedy(at=-2),
        "the last place but one | You take the logits at the last place but one, where the model "
        "says what comes behind the token *before* the last. → At which place does it say what "
        "comes behind all tokens so far?",
    ),
    wrong(
        _greedy(begun=lambda prompt, eos: (prompt == eos).any(axis=1)),
        "<eos> of the prompt counted | Where the prompt has an <eos>, your row has ended before it "
        "begins. → In which tokens should <eos> be looked for?",
    ),
    wrong(
        _greedy(begun=lambda prompt, eos: (prompt == eos).any(axis=1), before=True),
        "<eos> of the prompt counted, nothing written | Where the prompt has an <eos>, your row "
        "has ended before it begins, and where all have, nothing is written. → In which tokens "
        "should <eos> be looked for?",
    ),
    wrong(
        _greedy(remember=False),
        "forgotten after a step | A row that has ended gets one <pad>, and then goes on: you look "
        "whether its *last* token is <eos>, and then the last one is <pad>. → What has to be "
        "remembered of a row from step to step?",
    ),
    wrong(
        _greedy(
            fill=lambda token, ended, eos, pad: np.where(ended | (token == eos), pad, token),
            ends=lambda token, eos: token == -2,
            steps=lambda max_length, n_prompt: max_length,
        ),
        "<eos> overwritten, and no end | Where <eos> should stand, you write <pad>, and the row "
        "goes on behind it. → When should a token become <pad>: if it is <eos>, or if <eos> came "
        "before it?",
    ),
    wrong(
        _greedy(result=_pad_for_eos),
        "<eos> overwritten by padding | Where <eos> should stand, you write <pad>: the row counts "
        "as ended before its own <eos> is kept. → Which line has to come first, the one that fills "
        "in padding or the one that looks for <eos>?",
    ),
    wrong(
        _greedy(steps=lambda max_length, n_prompt: 50),
        "no limit | You go on until all rows have ended, however long that takes. A model need not "
        "end at all. → Which argument says when to stop at the latest?",
    ),
    wrong(
        _greedy(
            stop=lambda ended, token, eos: ended.all(),
            ends=lambda token, eos: token == 2,
        ),
        "2 for <eos> | Where <eos> isn't token 2, your rows don't end: the number is written in "
        "your function. → Which argument says which token ends a row?",
    ),
    wrong(
        _greedy(fill=lambda token, ended, eos, pad: np.where(ended, 0, token)),
        "0 for padding | Where <pad> isn't token 0, your rows end with the wrong number. → Which "
        "argument says what stands behind <eos>?",
    ),
    wrong(
        _greedy(pick=lambda logits: logits.argmin(axis=-1)),
        "the least likely token | You take the smallest logit each time, the least likely token. "
        "→ Which end of the logits is the likeliest token's?",
    ),
]


def _greedy_row_by_row(model: Model, prompt: NDArray, max_length: int, eos: int, pad: int) -> Any:
    rows = []
    for start in prompt.tolist():
        row: list[int] = []
        while len(row) < max_length and eos not in row:
            row.append(int(np.argmax(model([start + row])[0, -1])))
        rows.append(row)
    longest = max(map(len, rows))
    return [row + [pad] * (longest - len(row)) for row in rows]


def _greedy_cut(model: Model, prompt: NDArray, max_length: int, eos: int, pad: int) -> Any:
    """Write to the end, and cut behind the first <eos> afterwards."""
    ids = prompt
    for _ in range(max_length):
        probabilities = plain_softmax(model(ids)[:, -1])
        ids = np.hstack([ids, probabilities.argmax(axis=-1, keepdims=True)])
    written = ids[:, prompt.shape[1] :]
    before = np.cumsum(written == eos, axis=1) - (written == eos)
    return np.where(before > 0, pad, written)[:, : (before == 0).sum(axis=1).max()]


def _greedy_filled(model: Model, prompt: NDArray, max_length: int, eos: int, pad: int) -> Any:
    """Fill an array of full width, for the rows that are left alone."""
    b, n = prompt.shape
    ids = np.full((b, n + max_length), pad, dtype=int)
    ids[:, :n] = prompt
    alive, t = np.arange(b), n
    while len(alive) and t < n + max_length:
        ids[alive, t] = model(ids[alive, :t])[:, -1].argmax(axis=-1)
        alive = alive[ids[alive, t] != eos]
        t += 1
    return ids[:, n:t]


def _greedy_torch(model: Model, prompt: Any, max_length: int, eos: int, pad: int) -> Any:
    import torch

    ids, ended = prompt, torch.zeros(len(prompt), 1, dtype=torch.bool)
    for _ in range(max_length):
        token = model(ids)[:, -1].argmax(dim=-1, keepdim=True).masked_fill(ended, pad)
        ids, ended = torch.cat([ids, token], dim=1), ended | (token == eos)
        if ended.all():
            break
    return ids[:, prompt.shape[1] :]


_GREEDY = Exercise(
    id="11.greedy",
    function="greedy",
    reference=greedy,
    cases=_GREEDY_CASES,
    returns=("ids",),
    misconceptions=_GREEDY_WRONG,
    alternatives=[
        ("row by row", _greedy_row_by_row),
        ("cut afterwards", _greedy_cut),
        ("only the rows that are left", _greedy_filled),
        Alternative(name="torch", right=_greedy_torch, backend="torch"),
    ],
    hints=[
        "One loop, at most max_length rounds: the model sees all tokens so far, and its logits at "
        "the last place say what comes next. Put the likeliest token behind the others.",
        "Keep an array of truth values, (b,): which rows have ended. What such a row gets is "
        "<pad>, whatever the model says. A row has ended once its token is <eos>.",
        "Per round: `model(ids)[:, -1]`, `argmax` over the last axis, `np.where(ended, pad, "
        "token)`, then put the column behind `ids`, then see which rows have ended and whether all "
        "have. In the end cut the prompt off.",
    ],
    points=3,
    minutes=20,
    difficulty=1,
    if_too_slow="A loop until all rows have ended never ends where one doesn't. → Which argument "
    "says when to stop at the latest?",
)


# -- 11.sequence_scores ----------------------------------------------------------------------------


def sequence_scores(log_probs: NDArray, ids: NDArray, eos: int, alpha: float) -> NDArray:
    """Score hypotheses of different lengths: total log-probability / length^α.

    Parameters
    ----------
    log_probs : float array, (b, n, V)
        The model's, of all tokens at each step.
    ids : integer array, (b, n)
        What was written; behind the first <eos> of a row stands anything.
    eos : int
    alpha : float

    Returns
    -------
    float array, (b,)
    """
    return _scored()(log_probs, ids, eos, alpha)


def _written(ids: NDArray, eos: int) -> NDArray:
    """Return what counts: everything up to the first <eos>, and <eos> itself."""
    ends = ids == eos
    return np.cumsum(ends, axis=1) - ends == 0


def _taken(log_probs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(log_probs, ids[..., None], axis=-1)[..., 0]


def _scored(
    *,
    taken: Callable[[NDArray, NDArray], NDArray] = _taken,
    summed: Callable[[NDArray, int], NDArray] = _written,
    counted: Callable[[NDArray, int], NDArray] = _written,
    total: Callable[[NDArray, NDArray], Any] = lambda x, real: np.where(real, x, 0.0).sum(axis=1),
    score: Callable[[Any, NDArray, float], Any] = lambda total, n, alpha: total / n**alpha,
) -> Callable[..., Any]:
    """Return the score with some steps replaced."""

    def scores(log_probs: NDArray, ids: NDArray, eos: int, alpha: float) -> Any:
        sums = total(taken(log_probs, ids), summed(ids, eos))
        return score(sums, counted(ids, eos).sum(axis=1).astype(float), alpha)

    return scores


def _hypotheses(
    ends: list[int | None], n: int, alpha: float, *, v: int = 6, eos: int = 2, behind: int = 0
) -> Callable[[int], dict[str, Any]]:
    """Return hypotheses whose <eos> stands at the places given, or nowhere."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, n, len(ends)])
        logits = draw(rng, len(ends), n, v)
        log_probs = (logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))).round(2)
        words = [token for token in range(v) if token not in (0, eos)]
        ids = rng.choice(words, size=(len(ends), n))
        for row, end in zip(ids, ends, strict=True):
            if end is not None:
                row[end] = eos
                row[end + 1 :] = behind
        return {"log_probs": log_probs, "ids": ids, "eos": eos, "alpha": alpha}

    return build


_SCORED_CASES = [
    case("one hypothesis of 4 tokens, α = 0 | the sum", _hypotheses([3], 4, 0.0)),
    case("one of 4 tokens, α = 1 | the mean", _hypotheses([3], 4, 1.0)),
    case(
        "3 of 2, 5 and 4 tokens, α = 1 | nothing counts behind <eos>",
        _hypotheses([1, 4, 3], 5, 1.0, behind=5),
    ),
    case(
        "one cut off, without <eos>, α = 1 | all its tokens count", _hypotheses([2, None], 5, 1.0)
    ),
    case("4 hypotheses, α = 0.6 | the length to a power", _hypotheses([0, 2, 5, None], 6, 0.6)),
    case(
        "padded with <eos>, which is 4, α = 0.75 | the first one ends",
        _hypotheses([1, 3, 4], 6, 0.75, eos=4, behind=4),
    ),
    case("α = −0.5 | short ones preferred", _hypotheses([4, 1], 5, -0.5)),
]


def _everything(ids: NDArray, eos: int) -> NDArray:
    return np.ones(ids.shape, bool)


def _before_eos(ids: NDArray, eos: int) -> NDArray:
    return np.cumsum(ids == eos, axis=1) == 0


def _to_last(ids: NDArray, eos: int) -> NDArray:
    """Count up to the last <eos>, or all where there is none."""
    n = ids.shape[1]
    last = n - 1 - np.argmax((ids == eos)[:, ::-1], axis=1)
    last = np.where((ids == eos).any(axis=1), last, n - 1)
    return np.arange(n) <= last[:, None]


def _to_last_or_nothing(ids: NDArray, eos: int) -> NDArray:
    """Count what has an <eos> at its place or behind it: nothing, where there is none."""
    return np.cumsum((ids == eos)[:, ::-1], axis=1)[:, ::-1] > 0


def _argmax_place(ids: NDArray, eos: int) -> NDArray:
    """Find <eos> by argmax, which says 0 where there is none."""
    return np.arange(ids.shape[1]) <= np.argmax(ids == eos, axis=1)[:, None]


def _one_late(ids: NDArray, eos: int) -> NDArray:
    """Count one token behind <eos>."""
    real = _written(ids, eos)
    return real | np.pad(real, ((0, 0), (1, 0)))[:, :-1]


def _not_zero(ids: NDArray, eos: int) -> NDArray:
    return ids != 0


def _next_token(log_probs: NDArray, ids: NDArray) -> NDArray:
    """Take the probability of token t + 1 at step t, and none at the last."""
    return np.pad(_taken(log_probs[:, :-1], ids[:, 1:]), ((0, 0), (0, 1)))


_SCORED_WRONG = [
    wrong(
        _scored(summed=_everything, counted=_everything),
        "padding counted | What stands behind <eos> counts with you, in the sum and in the length. "
        "→ Which tokens were written before the hypothesis had ended?",
    ),
    wrong(
        _scored(summed=_everything),
        "padding in the sum | Your lengths are right, but what stands behind <eos> is in the sum. "
        "→ Which log-probabilities belong to the hypothesis?",
    ),
    wrong(
        _scored(counted=_everything),
        "all of the same length | Your sums are right, and all are divided by the width of the "
        "array. → How many tokens has each hypothesis?",
    ),
    wrong(
        _scored(summed=_before_eos, counted=_before_eos),
        "<eos> left out | this exercise uses <eos> as one of the tokens, in the sum and in the "
        "length; you leave it out of both, and where it's all there is, you divide 0 by 0. → Is it "
        "a choice of the model's to stop here?",
        variant=True,
    ),
    wrong(
        _scored(counted=_before_eos),
        "<eos> not in the length | Your sums are right, but your lengths are one too small where "
        "there is an <eos>. → How many log-probabilities have you added up?",
    ),
    wrong(
        _scored(summed=_before_eos),
        "<eos> not in the sum | Your lengths are right, but the log-probability of <eos> is "
        "missing in the sum. → Is it a choice of the model's to stop here?",
    ),
    wrong(
        _scored(summed=_one_late, counted=_one_late),
        "one behind <eos> | You count one token too many: what stands behind <eos> isn't part of "
        "the hypothesis. → Is a token to count if an <eos> stands *at* its place or *before* it?",
    ),
    wrong(
        _scored(summed=_to_last, counted=_to_last),
        "up to the last <eos> | Where rows are padded with <eos>, you count up to the last one. → "
        "Which <eos> ends a hypothesis?",
    ),
    wrong(
        _scored(summed=_to_last_or_nothing, counted=_to_last_or_nothing),
        "up to the last <eos>, and nothing without one | What counts with you has an <eos> at its "
        "place or behind it. Where a hypothesis was cut off, that is nothing, and you divide 0 by "
        "0; where one is padded with <eos>, it is too much. → Is a token to count if an <eos> "
        "comes *behind* it, or if none came *before* it?",
    ),
    wrong(
        _scored(summed=_not_zero, counted=_not_zero),
        "0 taken for padding | Where what stands behind <eos> isn't 0, you count it. → What tells "
        "you where a hypothesis ends, if no padding token is named?",
    ),
    wrong(
        _scored(summed=_argmax_place, counted=_argmax_place),
        "no <eos> found | Where a hypothesis was cut off and has no <eos>, yours counts its first "
        "token alone: `argmax` of a row without True is 0. → How many tokens count in such a row?",
    ),
    wrong(
        _scored(
            summed=lambda ids, eos: _written(ids, eos) & (ids == eos).any(axis=1)[:, None],
            score=lambda total, n, alpha: total / n**alpha,
        ),
        "without <eos> nothing counts | A hypothesis that was cut off and has no <eos> has the "
        "score 0 with you, the best there is. → Which of its tokens count?",
    ),
    wrong(
        _scored(taken=lambda log_probs, ids: log_probs.max(axis=-1)),
        "the likeliest tokens | You add up the largest log-probability of each step, those of "
        "greedy tokens. → Which token was written at step t?",
    ),
    wrong(
        _scored(taken=lambda log_probs, ids: log_probs.sum(axis=-1)),
        "all tokens added up | You add up the log-probabilities of the whole vocabulary. → Which "
        "one of them was written at step t?",
    ),
    wrong(
        _scored(taken=_next_token),
        "shifted by one | You take step t's log-probability of the token at t + 1. Here row t "
        "belongs to the token at t. → How many log-probabilities go into a hypothesis of 4 tokens?",
    ),
    wrong(
        _scored(total=lambda x, real: np.where(real, np.exp(x), 0.0).sum(axis=1)),
        "probabilities summed | You add up probabilities. That of a whole text is their product. → "
        "What do logarithms make of a product?",
    ),
    wrong(
        _scored(total=lambda x, real: np.where(real, np.exp(x), 1.0).prod(axis=1)),
        "the probability in place of its logarithm | You divide the probability by the length, so "
        "that your scores lie between 0 and 1. → What is to be divided by length^α?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: np.exp(total / n**alpha)),
        "exponentiated at the end | Your numbers are exp of the right ones. → Is a score a "
        "probability or a logarithm here?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: -total / n**alpha),
        "a loss | Your scores are above 0: that is a loss, where less is better. → Which sign has "
        "a log-probability?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total),
        "no penalty | You return the sums, whatever α is: nothing is divided by a length. → By "
        "what is a sum to be divided?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total / n),
        "always the mean | You divide by the length, whatever α is. → To which power is the "
        "length to be raised?",
    ),
    wrong(
        _scored(total=lambda x, real: np.where(real, x, 0.0).mean(axis=1)),
        "the mean divided once more | You take the mean over all places, and divide it by "
        "length^α then. → What stands above the line of the fraction, a sum or a mean?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total / n ** int(alpha)),
        "α cut to a whole number | For α of 0 and 1 you're right; others are cut to whole numbers "
        "before they are used. → Which division or cast does that?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total * n**alpha),
        "multiplied | You multiply by length^α, so that long hypotheses lose still more. → What "
        "does the score of a long hypothesis need, if its sum has many terms below 0?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total / (n * alpha)),
        "α times the length | You divide by α · length, and by 0 where α is 0. → What does the "
        "small raised α do with the length?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: (total / n) ** alpha),
        "the mean to a power | You raise the mean to the power α; that's no number for most α, "
        "since the mean is below 0. → Which of the two has the exponent?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total / ((5 + n) / 6) ** alpha),
        "Google's penalty | this exercise uses length^α; you divide by ((5 + length)/6)^α, as in "
        "Wu et al. (2016) and the Transformer's paper. → What does the docstring divide by?",
        variant=True,
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total - alpha * n),
        "α a token subtracted | You subtract α for every token, a penalty in the wrong direction "
        "and of another kind. → By what is a sum to be divided?",
    ),
    wrong(
        _scored(score=lambda total, n, alpha: total.sum() / n**alpha),
        "one sum for all | For one hypothesis you're right. With more you divide the sum of the "
        "whole batch by each length. → Over which axis are the tokens of one hypothesis?",
    ),
]


def _scored_loops(log_probs: NDArray, ids: NDArray, eos: int, alpha: float) -> Any:
    scores = []
    for rows, hypothesis in zip(log_probs, ids.tolist(), strict=True):
        total, n = 0.0, 0
        for row, token in zip(rows, hypothesis, strict=True):
            total, n = total + row[token], n + 1
            if token == eos:
                break
        scores.append(total / n**alpha)
    return scores


def _scored_fancy(log_probs: NDArray, ids: NDArray, eos: int, alpha: float) -> Any:
    b, n = ids.shape
    taken = log_probs[np.arange(b)[:, None], np.arange(n), ids]
    ends = np.where((ids == eos).any(axis=1), np.argmax(ids == eos, axis=1) + 1, n)
    real = np.arange(n) < ends[:, None]
    return np.einsum("bn,bn->b", taken, real) * ends.astype(float) ** -alpha


def _scored_one_hot(log_probs: NDArray, ids: NDArray, eos: int, alpha: float) -> Any:
    totals = np.cumsum((log_probs * np.eye(log_probs.shape[-1])[ids]).sum(axis=-1), axis=1)
    lengths = _written(ids, eos).sum(axis=1)
    return totals[np.arange(len(ids)), lengths - 1] / np.exp(alpha * np.log(lengths))


def _scored_torch(log_probs: Any, ids: Any, eos: int, alpha: float) -> Any:
    taken = log_probs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    ends = (ids == eos).long()
    real = ends.cumsum(dim=1) - ends == 0
    return (taken * real).sum(dim=1) / real.sum(dim=1).double() ** alpha


_SEQUENCE_SCORES = Exercise(
    id="11.sequence_scores",
    function="sequence_scores",
    reference=sequence_scores,
    guarded=[filters.length_penalty],
    cases=_SCORED_CASES,
    returns=("scores",),
    misconceptions=_SCORED_WRONG,
    alternatives=[
        ("loops", _scored_loops),
        ("places of <eos>", _scored_fancy),
        ("running sums", _scored_one_hot),
        Alternative(name="torch", right=_scored_torch, backend="torch"),
    ],
    hints=[
        "Three steps: pick the log-probability of the token that was written at each place; decide "
        "which places count; add up and divide.",
        "`np.take_along_axis(log_probs, ids[..., None], axis=-1)` picks. A place counts if no "
        "<eos> stands *before* it; a running sum over `ids == eos` says how many do.",
        "`ends = ids == eos`, and `np.cumsum(ends, axis=1) - ends == 0` is True for what counts. "
        "Its sum over a row is the length, <eos> included.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


EXERCISES = [
    _GREEDY,
    TOP_K,
    TOP_P,
    _SEQUENCE_SCORES,
    BEAM_SEARCH,
    CACHED_ATTENTION,
    CACHED_ROTARY_STEP,
    BEAM_STEP,
]

#: The broken program as the page shows it.
BROKEN = {"11.bug_beam_step": beam_step_broken}
