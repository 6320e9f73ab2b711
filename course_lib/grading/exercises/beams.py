"""The exercises of chapter 11 about beam search: the whole of it, and a step with faults.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.decoding_models import drawn, tree
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell
from course_lib.grading.model import Alternative, Exercise, Misconception
from course_lib.reference import decoding_filters as filters

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BEAM_SEARCH", "BEAM_STEP", "beam_search", "beam_step", "beam_step_broken"]

Model = Callable[[Any], Any]
Hypothesis = tuple[tuple[int, ...], float]  # what was written, and its total log-probability


def _log_softmax(x: NDArray) -> NDArray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


# -- 11.beam_search --------------------------------------------------------------------------------


def beam_search(
    model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
) -> tuple[NDArray, float]:
    """Keep the k likeliest hypotheses at each step, and return the best finished one.

    Parameters
    ----------
    model : callable
        From ids (b, n) to logits (b, n, V) of the token behind each.
    prompt : integer array, (n_prompt,)
    k : int
    max_length : int
        Most tokens that are written; there all hypotheses end.
    eos : int
    alpha : float

    Returns
    -------
    ids : integer array, (n,)
        What was written, <eos> included.
    score : float
        Total log-probability / length^α.
    """
    return _beam()(model, prompt, k, max_length, eos, alpha)


def _of_all(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Rank the continuations of all hypotheses together, the best first."""
    found = [
        ((*h, token), total + float(row[token]))
        for (h, total), row in zip(live, steps, strict=True)
        for token in range(len(row))
    ]
    return sorted(found, key=lambda c: -c[1])


def _of_each(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Let each hypothesis go on by its own best token."""
    if len(live) == 1:
        return _of_all(live, steps, k)
    best = [_of_all([h], row[None], k) for h, row in zip(live, steps, strict=True)]
    return [c[0] for c in best] + [c[1] for c in best]


def _by_last_step(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Rank by the last token's log-probability alone; totals go on being added up."""
    found = [
        (float(row[token]), ((*h, token), total + float(row[token])))
        for (h, total), row in zip(live, steps, strict=True)
        for token in range(len(row))
    ]
    return [c for _, c in sorted(found, key=lambda f: -f[0])]


def _forgetting(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Rank by the last token's log-probability alone, which is all that is kept."""
    return _of_all([(h, 0.0) for h, _ in live], steps, k)


def _summing(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Add up probabilities."""
    return _of_all(live, np.exp(steps), k)


def _wrong_parents(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Let the i-th best continuation go on from hypothesis i, whoever its parent is."""
    ranked = _of_all(live, steps, k)
    return [((*live[i % len(live)][0], h[-1]), total) for i, (h, total) in enumerate(ranked)]


def _multiplied(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    """Multiply log-probabilities."""
    found = [
        ((*h, token), (total if h else 1.0) * float(row[token]))
        for (h, total), row in zip(live, steps, strict=True)
        for token in range(len(row))
    ]
    return sorted(found, key=lambda c: -c[1])


def _least(live: list[Hypothesis], steps: NDArray, k: int) -> list[Hypothesis]:
    return _of_all(live, steps, k)[::-1]


Done = list[Hypothesis]


def _beam(
    *,
    width: Callable[[int], int] = lambda k: k,
    feed: Callable[[NDArray], NDArray] = lambda ids: ids,
    at: int = -1,
    logs: Callable[[NDArray], NDArray] = _log_softmax,
    rank: Callable[[list[Hypothesis], NDArray, int], list[Hypothesis]] = _of_all,
    ends: Callable[[int, int], bool] = lambda token, eos: token == eos,
    stored: Callable[[int, int, int], bool] = lambda n, max_length, k: True,
    cut_off: str = "counts",
    among: Callable[[int], int] = lambda k: k,
    goes_on: bool = False,
    carried: Callable[[float, int, float], float] = lambda total, n, alpha: total,
    refill: bool = True,
    stop: Callable[[Done, list[Hypothesis], int, float], bool] = lambda done, live, k, alpha: False,
    most: Callable[[int], int] = lambda max_length: max_length,
    first: Callable[[NDArray], int] = lambda prompt: 0,
    length: Callable[[tuple[int, ...], int], int] = lambda h, eos: len(h),
    score: Callable[[float, int, float], float] = lambda total, n, alpha: total / n**alpha,
    best: Callable[..., Any] = max,
    result: Callable[..., Any] = lambda ids, total, value, prompt: (ids, value),
) -> Callable[..., Any]:
    """Return beam search with some steps replaced."""

    def search(
        model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
    ) -> Any:
        k, max_length = width(k), most(max_length)
        live: list[Hypothesis] = [((), 0.0)]
        done: Done = []
        for n in range(1, max_length + 1):
            ids = np.array([[*prompt.tolist(), *h] for h, _ in live])
            ranked = rank(live, logs(model(feed(ids))[:, at]), k)
            ranked = [(h, carried(total, n, alpha)) for h, total in ranked]
            top = ranked[: among(k)]
            ended = [c for c in top if ends(c[0][-1], eos)]
            live = [
                c for c in (ranked if refill else ranked[:k]) if goes_on or not ends(c[0][-1], eos)
            ][:k]
            if stored(n, max_length, k):
                done += ended
            if n == max_length and (cut_off == "counts" or (cut_off == "if none" and not done)):
                done += [c for c in top if not ends(c[0][-1], eos)]
            if stop(done, live, k, alpha) or not live:
                break

        def value(h: Hypothesis) -> float:
            return score(h[1], length(h[0], eos) + first(prompt), alpha)

        ids_, total = best(done, key=value)
        return result(np.array(ids_), total, value((ids_, total)), prompt)

    return search


_ELSEWHERE = {2: 0.4, 3: 0.25, 4: 0.2, 5: 0.15}
# The likeliest first token leads to nothing; the other one ends the text nearly for certain.
_TRAP = {
    (): {3: 0.55, 4: 0.4, 5: 0.03, 2: 0.02},
    (3,): {3: 0.3, 4: 0.28, 5: 0.22, 2: 0.2},
    (4,): {2: 0.9, 3: 0.06, 5: 0.03, 4: 0.01},
    (3, 3): {2: 0.85, 4: 0.1, 5: 0.04, 3: 0.01},
    (3, 4): {2: 0.8, 4: 0.1, 5: 0.06, 3: 0.04},
    (3, 5): {2: 0.7, 4: 0.2, 5: 0.06, 3: 0.04},
}
# <eos> at once, or a long text that begins with the third-best token. When two texts have ended
# it's still behind both by its score, and wins in the end.
_LONG = {
    (): {2: 0.36, 3: 0.31, 4: 0.29, 5: 0.04},
    (3,): {2: 0.3, 5: 0.28, 3: 0.22, 4: 0.2},
    (4,): {2: 0.52, 5: 0.42, 3: 0.04, 4: 0.02},
    (4, 5): {3: 0.93, 2: 0.04, 4: 0.02, 5: 0.01},
    (4, 5, 3): {2: 0.9, 3: 0.06, 4: 0.03, 5: 0.01},
}
# At the second step <eos> is third-best; later it's hardly ever likely.
_ENDLESS = {
    (): {3: 0.6, 4: 0.3, 5: 0.06, 2: 0.04},
    (3,): {3: 0.38, 4: 0.35, 2: 0.25, 5: 0.02},
    (4,): {5: 0.4, 3: 0.3, 4: 0.25, 2: 0.05},
    (3, 3): {4: 0.4, 5: 0.35, 3: 0.2, 2: 0.05},
    (3, 4): {5: 0.46, 3: 0.3, 4: 0.2, 2: 0.04},
}


def _on_tree(
    name: str, branches: Any, *, k: int, max_length: int, alpha: float
) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {
        "model": tree(name, branches, _ELSEWHERE, n_prompt=1, vocab_size=6),
        "prompt": np.array([1]),
        "k": k,
        "max_length": max_length,
        "eos": 2,
        "alpha": alpha,
    }


def _on_drawn(
    at: int, *, k: int, max_length: int, alpha: float, eos: int = 2, v: int = 7, spread: float = 1.0
) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {
        "model": drawn(vocab_size=v, eos=eos, seed=at, spread=spread, never=(0, 1)),
        "prompt": np.array([1, 5, 3]),
        "k": k,
        "max_length": max_length,
        "eos": eos,
        "alpha": alpha,
    }


_BEAM_CASES = [
    case(
        "a tree, k = 1, α = 0 | greedy",
        _on_tree("the tree on the page", _TRAP, k=1, max_length=4, alpha=0.0),
    ),
    case(
        "the same tree, k = 2, α = 0 | what greedy misses",
        _on_tree("the tree on the page", _TRAP, k=2, max_length=4, alpha=0.0),
    ),
    case(
        "a tree with a short text and a long one, k = 2, α = 0 | the short one",
        _on_tree("a tree with a short text and a long one", _LONG, k=2, max_length=5, alpha=0.0),
    ),
    case(
        "the same, α = 1 | the long one, which wins late",
        _on_tree("a tree with a short text and a long one", _LONG, k=2, max_length=5, alpha=1.0),
    ),
    case(
        "a tree that hardly ever ends, k = 2 | cut off after 3 tokens",
        _on_tree("a tree that hardly ever ends", _ENDLESS, k=2, max_length=3, alpha=0.3),
    ),
    case(
        "more hypotheses than tokens, k = 9 | no more than there are",
        _on_drawn(379, k=9, max_length=3, alpha=0.5, spread=1.6),
    ),
    case(
        "random logits, k = 3, α = 0.6 | 6 tokens at most",
        _on_drawn(183, k=3, max_length=6, alpha=0.6),
    ),
    case(
        "random logits, k = 4, <eos> is 4 | whatever the token's number",
        _on_drawn(29, k=4, max_length=6, alpha=0.8, eos=4),
    ),
]


def _beam_staying(
    model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
) -> Any:
    """Let finished hypotheses compete with the continuations of the others."""
    live: list[Hypothesis] = [((), 0.0)]
    for _ in range(max_length):
        ended = [h for h in live if h[0][-1:] == (eos,)]
        going = [h for h in live if h[0][-1:] != (eos,)]
        if not going:
            break
        ids = np.array([[*prompt.tolist(), *h] for h, _ in going])
        ranked = _of_all(going, _log_softmax(model(ids)[:, -1]), k)
        live = sorted(ended + ranked, key=lambda c: -c[1])[:k]
    ids_, total = max(live, key=lambda h: h[1] / len(h[0]) ** alpha)
    return np.array(ids_), total / len(ids_) ** alpha


def _over_all(logits: NDArray) -> NDArray:
    x = logits - logits.max()
    return np.asarray(x - np.log(np.exp(x).sum()))


def _never_ends(token: int, eos: int) -> bool:
    return False


def _no_better_now(done: Done, live: list[Hypothesis], k: int, alpha: float) -> bool:
    """Tell whether k have ended that score as well as the best that goes on does as it is."""
    scores = sorted((total / len(h) ** alpha for h, total in done), reverse=True)
    if len(scores) < k or not live:
        return False
    (ids, total) = live[0]
    return total / len(ids) ** alpha <= scores[k - 1]


_BEAM_WRONG = [
    wrong(
        _beam(width=lambda k: 1),
        "the width ignored | For k = 1 you're right, and for larger k nothing changes: one "
        "hypothesis goes on, or k that are all alike. → After the first step, how many *different* "
        "hypotheses do you have?",
    ),
    wrong(
        _beam(stored=lambda n, max_length, k: n == max_length),
        "finished hypotheses dropped | What ended early is lost with you: you return the best of "
        "those that are left at max_length. → Where does a hypothesis go when it has written "
        "<eos>?",
    ),
    wrong(
        _beam(ends=_never_ends),
        "<eos> not looked at | Your hypotheses go on behind <eos>, all of them up to max_length. → "
        "What should happen to a continuation by <eos>?",
    ),
    wrong(
        _beam(stop=lambda done, live, k, alpha: bool(done)),
        "the first that ends is returned | You return the hypothesis that ends first. One that "
        "ends later may score better. → When can nothing better come any more?",
    ),
    wrong(
        _beam(stop=lambda done, live, k, alpha: len(done) >= k),
        "stopped after k | You stop as soon as k hypotheses have ended. → Could one that is still "
        "going on come to a better score?",
    ),
    wrong(
        _beam(stop=_no_better_now),
        "stopped too early for α > 0 | You stop when what goes on scores no better *now* than what "
        "has ended, as the chapter's search does. With α > 0 a score can still rise: the next "
        "tokens may be nearly certain, and the length grows. → What is the best score that a total "
        "can come to by max_length, if nothing more is lost?",
    ),
    wrong(
        _beam(refill=False),
        "the beam shrinks | this exercise uses k hypotheses that go on, at every step; with you "
        "those that ended leave an empty place, as in the search of the first papers on "
        "translation. → From where do the missing ones come?",
        variant=True,
    ),
    wrong(
        _beam_staying,
        "finished ones stay in the beam | Your finished hypotheses keep a place among the k, which "
        "those that go on lack, and likelier ones push them out. → Where could they be kept, so "
        "that k others go on?",
    ),
    wrong(
        _beam(goes_on=True),
        "finished, and going on | You store what ends with <eos>, and let it go on as well, where "
        "it takes the place of another. → What comes behind <eos>?",
    ),
    wrong(
        _beam(carried=lambda total, n, alpha: total / n**alpha),
        "divided at each step | You divide by length^α at each step, and add the next "
        "log-probability to what has been divided already. → When is a total to be divided, and "
        "what goes on to the next step?",
    ),
    wrong(
        _beam(among=lambda k: 1),
        "only the best may end | A continuation by <eos> is stored with you if it's the best of "
        "all. → Among how many of the best does an <eos> count?",
    ),
    wrong(
        _beam(among=lambda k: 2 * k),
        "ended without being among the best k | You store a hypothesis that ended though k "
        "continuations are likelier, such as all those among the best 2k. → Among which "
        "continuations does an <eos> count?",
    ),
    wrong(
        _beam(rank=_by_last_step),
        "ranked by the last token | Your scores are right for what you return, but hypotheses are "
        "ranked by the last token's log-probability alone. → What has to be added before they are "
        "compared?",
    ),
    wrong(
        _beam(rank=_forgetting),
        "totals forgotten | You rank by the last token's log-probability, and that is all that "
        "goes into the score. → How likely is a whole text?",
    ),
    wrong(
        _beam(rank=_of_each),
        "each goes on by itself | You take the k best first tokens, and then let every hypothesis "
        "go on by its own best token. → Which k are the best of *all* continuations of all "
        "hypotheses?",
    ),
    wrong(
        _beam(rank=_summing),
        "probabilities summed | You add up probabilities, so that your score is above 0 and grows "
        "with every token. That of a text is their product. → What do logarithms make of a "
        "product?",
    ),
    wrong(
        _beam(rank=_multiplied),
        "log-probabilities multiplied | You multiply log-probabilities, whose signs go to and fro. "
        "→ What do logarithms make of a product?",
    ),
    wrong(
        _beam(logs=lambda logits: logits),
        "logits summed | You add up logits as they come from the model. They are no "
        "log-probabilities: a number added to a whole row changes nothing for the model, but your "
        "totals. → What has to be done to a row of logits first?",
    ),
    wrong(
        _beam(logs=lambda logits: logits - logits.max(axis=-1, keepdims=True)),
        "logits shifted, not normalised | You subtract each row's maximum and stop there: the "
        "likeliest token has log-probability 0 then, in every row. → What else does a "
        "log-softmax subtract?",
    ),
    wrong(
        _beam(logs=_over_all),
        "normalised over all hypotheses | With one hypothesis you're right. With more, the "
        "log-softmax takes all their rows for one, so that the first step is right and the others "
        "aren't. → Over which axis do the probabilities of next tokens sum to 1?",
    ),
    wrong(
        _beam(rank=_wrong_parents),
        "parents mixed up | Your totals are right, but the i-th best continuation is written "
        "behind hypothesis i, not behind the one that it continues. → From an index into k · V "
        "scores, how do you find which hypothesis it belongs to?",
    ),
    wrong(
        _beam(rank=_least),
        "the least likely kept | You keep the k least likely continuations: sorting begins with "
        "the smallest. → At which end of the order are the best?",
    ),
    wrong(
        _beam(cut_off="if none"),
        "cut off only if none has ended | this exercise uses all hypotheses that are there at "
        "max_length; with you those that were cut off count only if none has ended. → Which "
        "hypotheses are compared in the end?",
        variant=True,
    ),
    wrong(
        _beam(cut_off="never"),
        "cut off and lost | What hasn't ended at max_length is lost with you, and where nothing "
        "has, there is nothing to return. → What becomes of the hypotheses that are left after "
        "the last step?",
    ),
    wrong(
        _beam(score=lambda total, n, alpha: total),
        "no length penalty | You compare and return sums, whatever α is, so that short texts win. "
        "→ By what is a total to be divided?",
    ),
    wrong(
        _beam(score=lambda total, n, alpha: total / n),
        "always the mean | You divide by the length, whatever α is. → To which power is the "
        "length to be raised?",
    ),
    wrong(
        _beam(score=lambda total, n, alpha: total * n**alpha),
        "multiplied by the length | You multiply by length^α, so that long texts lose still more. "
        "→ What does a long text need, if its sum has many terms below 0?",
    ),
    wrong(
        _beam(score=lambda total, n, alpha: total / ((5 + n) / 6) ** alpha),
        "Google's penalty | this exercise uses length^α; you divide by ((5 + length)/6)^α, as in "
        "Wu et al. (2016) and the Transformer's paper. → What does the docstring divide by?",
        variant=True,
    ),
    wrong(
        _beam(length=lambda h, eos: max(len(h) - (h[-1] == eos), 1)),
        "<eos> not in the length | Your lengths are one too small where there is an <eos>, whose "
        "log-probability is in the sum. → How many log-probabilities have been added up?",
    ),
    wrong(
        _beam(first=lambda prompt: 1),
        "one too many in the length | Your lengths are one too large, as if <bos> had been "
        "written. → How many log-probabilities have been added up?",
    ),
    wrong(
        _beam(first=len),
        "the prompt in the length | You count the tokens of the prompt as well. → How many "
        "log-probabilities have been added up?",
    ),
    wrong(
        _beam(result=lambda ids, total, value, prompt: (np.append(prompt, ids), value)),
        "the prompt returned as well | Your tokens begin with the prompt. Only what was written is "
        "asked for. → How many tokens has the prompt?",
    ),
    wrong(
        _beam(result=lambda ids, total, value, prompt: (ids, total)),
        "the sum returned | You choose by the right score, and return the total that isn't divided "
        "by anything. → Which number did you compare hypotheses by?",
    ),
    wrong(
        _beam(result=lambda ids, total, value, prompt: (ids, exp(value))),
        "exponentiated | Your tokens are right, and your score is exp of the right one. → Is a "
        "score a probability or a logarithm here?",
    ),
    wrong(
        _beam(result=lambda ids, total, value, prompt: (ids, -value)),
        "the sign turned round | Your tokens are right, but your score is above 0, as a cost would "
        "be. → Which sign has a log-probability?",
    ),
    wrong(
        _beam(best=min),
        "the worst returned | You search rightly, and return the worst of what you have found. → "
        "Is a larger score better or worse here?",
    ),
    wrong(
        _beam(best=lambda done, key: max(done, key=lambda h: h[1])),
        "chosen by the sum | You return the right score of the wrong hypothesis: the one with the "
        "largest *total* is chosen. → By which number do texts of different lengths compare?",
    ),
    wrong(
        _beam(feed=lambda ids: ids[:, -1:]),
        "the last token alone | Your model sees the last token only. Without a cache it needs all "
        "of them each time, the prompt first. → What has to be passed at the second step?",
    ),
    wrong(
        _beam(at=0),
        "the first place | You take the logits at place 0, where the model says what comes behind "
        "the prompt's first token. → At which place does it say what comes behind all tokens so "
        "far?",
    ),
    wrong(
        _beam(score=lambda total, n, alpha: float(np.float64(total) / np.float64(n - 1) ** alpha)),
        "the length counted from 0 | Your lengths are one too small: the loop's variable begins "
        "with 0, and at the first step one token has been written. → How many log-probabilities "
        "have been added up after step 0?",
    ),
    wrong(
        _beam(most=lambda max_length: max_length - 1),
        "one token too few | You write at most max_length − 1 tokens. → How often does your loop "
        "run if max_length is 3?",
    ),
    wrong(
        _beam(most=lambda max_length: max_length + 1),
        "one token too many | You write up to max_length + 1 tokens. → How often does your loop "
        "run if max_length is 3?",
    ),
    wrong(
        _beam(ends=lambda token, eos: token == 2),
        "2 for <eos> | Where <eos> isn't token 2, the wrong token ends your hypotheses. → Which "
        "argument says which one does?",
    ),
]


def _beam_arrays(
    model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
) -> Any:
    """Keep k rows all the time; those that don't count have −∞."""
    ids = np.tile(prompt, (k, 1))
    totals = np.full(k, -np.inf)
    totals[0] = 0.0
    best: tuple[float, Any] = (-np.inf, None)
    for n in range(1, max_length + 1):
        grown = totals[:, None] + _log_softmax(model(ids)[:, -1])
        v = grown.shape[1]
        order = np.argsort(-grown, axis=None)[: 2 * k]
        for rank, index in enumerate(order):
            total = grown.flat[index]
            over = index % v == eos or n == max_length
            if rank < k and over and total / n**alpha > best[0]:
                text = np.append(ids[index // v], index % v)[len(prompt) :]
                best = (total / n**alpha, text)
        order = order[order % v != eos][:k]
        ids = np.array([np.append(ids[i // v], i % v) for i in order])
        totals = grown.reshape(-1)[order]
    return best[1], best[0]


def _beam_heap(
    model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
) -> Any:
    """Take the best with a heap, out of the best k + 1 of each hypothesis."""
    live, found = [(0.0, list(prompt))], []
    for n in range(1, max_length + 1):
        offers = []
        for total, ids in live:
            row = _log_softmax(model([ids])[0, -1])
            for token in np.argsort(row)[::-1][: k + 1]:
                offers.append((total + float(row[token]), [*ids, int(token)]))
        for total, ids in heapq.nlargest(k, offers):
            if ids[-1] == eos or n == max_length:
                found.append((total / n**alpha, ids[len(prompt) :]))
        live = heapq.nlargest(k, [offer for offer in offers if offer[1][-1] != eos])
    score, ids = max(found)
    return ids, score


def _beam_recursive(
    model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
) -> Any:
    def go_on(ids: NDArray, totals: NDArray, n: int) -> tuple[float, Any]:
        scores = totals[:, None] + _log_softmax(model(ids)[:, -1])
        parents, tokens = np.unravel_index(np.argsort(-scores, axis=None), scores.shape)
        rows = np.concatenate([ids[parents], tokens[:, None]], axis=1)
        ranked = scores[parents, tokens]
        over = (tokens[:k] == eos) | (n == max_length)
        values = np.where(over, ranked[:k] / n**alpha, -np.inf)
        i = int(np.argmax(values))
        here = (float(values[i]), rows[i, len(prompt) :])
        if n == max_length:
            return here
        keep = np.flatnonzero(tokens != eos)[:k]
        return max(here, go_on(rows[keep], ranked[keep], n + 1), key=lambda found: found[0])

    score, ids = go_on(np.asarray(prompt)[None], np.zeros(1), 1)
    return ids, score


def _beam_bounded(
    model: Model, prompt: NDArray, k: int, max_length: int, eos: int, alpha: float
) -> Any:
    """Stop where nothing that goes on can win, not even with no further loss."""
    live: list[Hypothesis] = [((), 0.0)]
    best: tuple[float, Any] = (-np.inf, None)
    for n in range(1, max_length + 1):
        ids = np.array([[*prompt.tolist(), *h] for h, _ in live])
        ranked = _of_all(live, _log_softmax(model(ids)[:, -1]), k)
        for h, total in ranked[:k]:
            if (h[-1] == eos or n == max_length) and total / n**alpha > best[0]:
                best = (total / n**alpha, h)
        live = [c for c in ranked if c[0][-1] != eos][:k]
        if live[0][1] / max_length**alpha <= best[0]:
            break
    return np.array(best[1]), best[0]


def _beam_torch(model: Model, prompt: Any, k: int, max_length: int, eos: int, alpha: float) -> Any:
    import torch

    ids, totals = prompt[None], torch.zeros(1, dtype=torch.float64)
    found = []
    for n in range(1, max_length + 1):
        grown = totals[:, None] + model(ids)[:, -1].log_softmax(dim=-1)
        v = grown.shape[1]
        best, index = grown.flatten().topk(min(2 * k, grown.numel()))
        rows = torch.cat([ids[index // v], (index % v)[:, None]], dim=1)
        for row, total in zip(rows[:k], best[:k], strict=True):
            if row[-1] == eos or n == max_length:
                found.append((total / n**alpha, row[len(prompt) :]))
        goes_on = rows[:, -1] != eos
        ids, totals = rows[goes_on][:k], best[goes_on][:k]
    score, text = max(found, key=lambda each: each[0].item())
    return text, score


BEAM_SEARCH = Exercise(
    id="11.beam_search",
    function="beam_search",
    reference=beam_search,
    guarded=[filters.length_penalty],
    cases=_BEAM_CASES,
    returns=("ids", "score"),
    misconceptions=_BEAM_WRONG,
    alternatives=[
        ("arrays of k rows", _beam_arrays),
        ("a heap", _beam_heap),
        ("recursion", _beam_recursive),
        ("stops when nothing can win", _beam_bounded),
        Alternative(name="torch", right=_beam_torch, backend="torch"),
    ],
    hints=[
        "Keep two lists: hypotheses that go on, with their totals, and finished ones. Begin with a "
        "single hypothesis that has written nothing, with total 0. At most k · V continuations "
        "come of k hypotheses.",
        "Each step: log-softmax of the logits at the last place, plus the totals; sort all "
        "continuations. Of the best k, those by <eos> are finished. The best k that aren't by "
        "<eos> go on, and these may lie behind the first k in the order.",
        "With scores of shape (k, V), `np.argsort(-scores, axis=None)` gives indices of which "
        "`np.unravel_index` makes hypothesis and token. At step max_length all of the best k are "
        "finished. Return the finished one with the largest total / length^α.",
    ],
    points=5,
    minutes=40,
    difficulty=3,
)


# -- 11.bug_beam_step ------------------------------------------------------------------------------


def beam_step(
    totals: NDArray, log_probs: NDArray, cache: NDArray
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Choose the best k continuations, and let the cache follow.

    Parameters
    ----------
    totals : float array, (k,)
        Total log-probabilities of the hypotheses.
    log_probs : float array, (k, V)
        Of their next tokens.
    cache : float array, (k, n, d)
        Keys of each hypothesis. Left as it is.

    Returns
    -------
    totals : float array, (k,)
        The best first.
    parents, tokens : integer arrays, (k,)
        Which hypothesis each continues, and by which token.
    cache : float array, (k, n, d)
        Row i holds the keys of the hypothesis that the new hypothesis i continues.
    """
    return _step()(totals, log_probs, cache)


def beam_step_broken(
    totals: NDArray, log_probs: NDArray, cache: NDArray
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Take one step of beam search, as the exercise's notebook shows it: right at the first."""
    k, vocab_size = log_probs.shape
    best = np.argsort(-log_probs, axis=None)[:k]
    parents, tokens = best // vocab_size, best % vocab_size
    totals = totals[parents] + log_probs[parents, tokens]
    for row, parent in enumerate(parents):
        cache[row] = cache[parent]
    return totals, parents, tokens, cache


def _overwriting(cache: NDArray, parents: NDArray, tokens: NDArray) -> NDArray:
    moved = cache.copy()
    for row, parent in enumerate(parents):
        moved[row] = moved[parent]
    return moved


def _rows(cache: NDArray, parents: NDArray, tokens: NDArray) -> NDArray:
    return cache[parents]


def _ranked(totals: NDArray, log_probs: NDArray) -> NDArray:
    return np.argsort(-(totals[:, None] + log_probs), axis=None)


def _ranked_alone(totals: NDArray, log_probs: NDArray) -> NDArray:
    return np.argsort(-log_probs, axis=None)


def _by_sums(totals: NDArray, log_probs: NDArray) -> NDArray:
    return np.argsort(-(np.exp(totals)[:, None] + np.exp(log_probs)), axis=None)


def _ranked_each(totals: NDArray, log_probs: NDArray) -> NDArray:
    k, v = log_probs.shape
    return np.arange(k) * v + log_probs.argmax(axis=1)


def _step(
    *,
    rank: Callable[[NDArray, NDArray], NDArray] = _ranked,
    places: Callable[[NDArray, int, int], Any] = lambda best, k, v: (best // v, best % v),
    gained: Callable[[NDArray, NDArray], NDArray] = lambda totals, new: totals + new,
    move: Callable[[NDArray, NDArray, NDArray], NDArray] = _rows,
    touched: bool = False,
    order: Callable[[NDArray], NDArray] = lambda best: best,
    result: Callable[..., Any] = lambda *parts: parts,
) -> Callable[..., Any]:
    """Return the step with some parts replaced."""

    def step(totals: NDArray, log_probs: NDArray, cache: NDArray) -> Any:
        k, v = log_probs.shape
        parents, tokens = places(order(rank(totals, log_probs)[:k]), k, v)
        new = gained(totals[parents], log_probs[parents, tokens])
        moved = move(cache, parents, tokens)
        if touched:
            cache[...] = moved
            moved = cache
        return result(new, parents, tokens, moved)

    return step


def _stepping(
    parents: list[int],
    *,
    v: int,
    n: int = 2,
    d: int = 3,
    level: bool = False,
    sums: bool = False,
) -> Callable[[int], dict[str, Any]]:
    """Draw until the best continuations have these parents, and the totals matter or don't."""

    def build(seed: int) -> dict[str, Any]:
        k = len(parents)
        rng = np.random.default_rng([seed, 8, k, v, *parents])
        while True:
            totals = np.zeros(k) - 1.0 if level else -rng.uniform(1, 4, k).round(2)
            logits = rng.normal(scale=2.0, size=(k, v))
            log_probs = _log_softmax(logits).round(2)
            scores = (totals[:, None] + log_probs).ravel()
            gaps = np.diff(np.sort(scores)[::-1])[: k + 1]
            best = _ranked(totals, log_probs)[:k]
            # what mustn't come to the same by chance
            others = [
                rank(totals, log_probs)[:k]
                for rank, apart in (
                    (_ranked_alone, not level),
                    (_by_sums, sums),
                )
                if apart
            ]
            if (
                (gaps < -0.01).all()
                and (best // v).tolist() == parents
                and not any(np.array_equal(best, other) for other in others)
                and not (sums and np.array_equal(others[0], others[1]))
            ):
                break
        return {
            "totals": totals,
            "log_probs": log_probs,
            "cache": rng.normal(size=(k, n, d)).round(1),
        }

    return build


_STEP_CASES = [
    case(
        "equal totals, each goes on once | the test that the broken program was released with",
        _stepping([0, 1, 2], v=4, level=True),
    ),
    case(
        "equal totals, 2 hypotheses change places | the cache follows",
        _stepping([1, 0], v=3, level=True),
    ),
    case("totals that differ, each goes on once | they count", _stepping([0, 1], v=5)),
    case(
        "3 hypotheses, the first goes on twice | they count", _stepping([0, 0, 1], v=6, sums=True)
    ),
    case(
        "3 hypotheses, from 1, 0 and 1 | a row is read twice", _stepping([1, 0, 1], v=4, n=3, d=2)
    ),
    case(
        "4 hypotheses of 4 tokens, from 2, 0, 3 and 0 | as many as tokens",
        _stepping([2, 0, 3, 0], v=4, n=1, d=2),
    ),
]

_FAULTS = {
    "rank": "continuations are ranked by their last token's log-probability alone, as if all "
    "hypotheses had been equally likely so far",
    "rows": "a row of the cache is written into before another hypothesis has read it",
    "touched": "the caller's cache is written into",
}
_QUESTIONS = {
    "rank": "By which number should the continuations of different hypotheses be compared?",
    "rows": "If hypotheses 0 and 1 change places, what does row 0 hold when row 1 is filled?",
    "touched": "Which line writes into the array that was passed in?",
}


def _left(*faults: str) -> Misconception:
    """Return the program with some of its three faults left."""
    how_many = "One fault is left" if len(faults) == 1 else "Two faults are left"
    if len(faults) == 3:
        return wrong(
            beam_step_broken,
            "the program as it was | This is what the broken program returns, right where all "
            "totals are equal and no hypothesis changes its place. → By which number should the "
            "continuations of different hypotheses be compared?",
            program=as_cell(beam_step_broken, "beam_step"),
        )
    return wrong(
        _step(
            rank=_ranked_alone if "rank" in faults else _ranked,
            move=_overwriting if "rows" in faults else _rows,
            touched="touched" in faults,
        ),
        f"left: {', '.join(faults)} | {how_many}: {'; and '.join(_FAULTS[f] for f in faults)}. → "
        f"{_QUESTIONS[faults[0]]}",
    )


_STEP_WRONG = [
    _left("rank", "rows", "touched"),
    _left("rank", "rows"),
    _left("rank", "touched"),
    _left("rows", "touched"),
    _left("rank"),
    _left("rows"),
    _left("touched"),
    wrong(
        _step(move=lambda cache, parents, tokens: cache.copy()),
        "the cache stays where it was | Totals, parents and tokens are right, but the cache isn't "
        "put in their order: each hypothesis goes on with another one's keys. → Whose keys does "
        "new hypothesis 0 need?",
    ),
    wrong(
        _step(move=lambda cache, parents, tokens: cache[np.argsort(parents, kind="stable")]),
        "the inverse order | You put the cache in the order that undoes `parents`. → Whose keys "
        "does new hypothesis 0 need, those of `parents[0]` or those of where 0 went?",
    ),
    wrong(
        _step(move=lambda cache, parents, tokens: cache[tokens % len(cache)]),
        "by tokens | You pick rows of the cache by tokens; rows belong to hypotheses. → Which of "
        "the two results says whose keys a new hypothesis needs?",
    ),
    wrong(
        _step(gained=lambda totals, new: new),
        "the last step alone returned | You rank rightly, but your totals hold the last token's "
        "log-probability alone. → How likely is a hypothesis as a whole?",
    ),
    wrong(
        _step(gained=lambda totals, new: totals),
        "the old totals returned | You rank rightly, but your totals are those of the parents. → "
        "What does the new token add?",
    ),
    wrong(
        _step(gained=lambda totals, new: 2 * totals + new),
        "the old totals twice | You rank rightly, but the parent's total is in your totals twice: "
        "what you ranked by has it already. → Which number was compared?",
    ),
    wrong(
        _step(rank=_ranked_each, order=lambda best: best),
        "each goes on by itself | Every hypothesis goes on by its own best token with you, in the "
        "old order. → Which k are the best of all continuations together?",
    ),
    wrong(
        _step(rank=lambda totals, logs: np.argsort(totals[:, None] + logs, axis=None)),
        "the worst kept | You keep the k least likely continuations: sorting begins with the "
        "smallest. The broken program had this right. → Where has the minus gone?",
    ),
    wrong(
        _step(order=lambda best: best[::-1]),
        "the best last | You keep the right ones, in reverse order. → Which comes first in the "
        "docstring's Returns?",
    ),
    wrong(
        _step(order=np.sort),
        "in the order of the table | You keep the right ones, in the order in which they stand in "
        "the table, not the best first. → Which comes first in the docstring's Returns?",
    ),
    wrong(
        _step(places=lambda best, k, v: (best % k, best // k)),
        "the table read by columns | You find hypothesis and token as if the table had been laid "
        "out column by column, or the two had changed places. The broken program had this right. → "
        "How many entries has a row of the table?",
    ),
    wrong(
        _step(places=lambda best, k, v: (best // k % k, best % k)),
        "divided by k | You divide the index by k. A row of the table has V entries; the broken "
        "program had this right. → How many continuations has one hypothesis?",
    ),
    wrong(
        _step(rank=_by_sums),
        "probabilities added | You rank by sums of probabilities: that of a hypothesis and its "
        "token's. → What do logarithms make of a product?",
    ),
    wrong(
        _step(rank=lambda totals, logs: np.argsort(-(totals[:, None] * logs), axis=None)),
        "log-probabilities multiplied | You rank by products of log-probabilities, totals times "
        "logarithms. → What do logarithms make of a product of probabilities?",
    ),
    wrong(
        _step(result=lambda totals, parents, tokens, cache: (totals, tokens, parents, cache)),
        "parents and tokens changed places | You return tokens where parents are expected, and "
        "parents for tokens. → In which order does the docstring name them?",
    ),
    wrong(
        _step(gained=lambda totals, new: totals + new - (totals + new).max()),
        "totals shifted | You subtract the best total from all of them, which changes no ranking "
        "but what the score is in the end. → What is the total of the best one?",
    ),
]


def _step_loops(totals: NDArray, log_probs: NDArray, cache: NDArray) -> Any:
    found = [
        (totals[i] + log_probs[i, token], i, token)
        for i in range(len(totals))
        for token in range(log_probs.shape[1])
    ]
    best = sorted(found, reverse=True)[: len(totals)]
    scores, parents, tokens = zip(*best, strict=True)
    return list(scores), list(parents), list(tokens), np.stack([cache[i] for i in parents])


def _step_unravelled(totals: NDArray, log_probs: NDArray, cache: NDArray) -> Any:
    scores = (log_probs.T + totals).T
    places = np.unravel_index(np.argsort(scores, axis=None)[::-1][: len(totals)], scores.shape)
    return scores[places], places[0], places[1], np.take(cache, places[0], axis=0)


def _step_copied(totals: NDArray, log_probs: NDArray, cache: NDArray) -> Any:
    """Mend the broken program, line by line."""
    k, v = log_probs.shape
    scores = (totals.reshape(-1, 1) + log_probs).reshape(-1)
    best = heapq.nlargest(k, range(k * v), key=scores.__getitem__)
    new = np.zeros_like(cache)
    for row, index in enumerate(best):
        new[row] = cache[index // v]
    places = np.array(best)
    return scores[places], places // v, places % v, new


def _step_torch(totals: Any, log_probs: Any, cache: Any) -> Any:
    scores, index = (totals[:, None] + log_probs).flatten().topk(len(totals))
    parents = index // log_probs.shape[1]
    return scores, parents, index % log_probs.shape[1], cache.index_select(0, parents)


BEAM_STEP = Exercise(
    id="11.bug_beam_step",
    function="beam_step",
    reference=beam_step,
    cases=_STEP_CASES,
    returns=("totals", "parents", "tokens", "cache"),
    misconceptions=_STEP_WRONG,
    alternatives=[
        ("loops", _step_loops),
        ("unravelled", _step_unravelled),
        ("the broken program mended", _step_copied),
        Alternative(name="torch", right=_step_torch, backend="torch"),
    ],
    hints=[
        "Give the program two hypotheses with very different totals. Which should win, and which "
        "does? Then let the two change places and look at both rows of the cache.",
        "`argsort` should see totals and log-probabilities together. The loop reads rows that it "
        "has written into; and whose array is `cache`?",
        "Rank `totals[:, None] + log_probs`. Indexing by the whole list of parents reads all rows "
        "before any is written, into a new array.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)
