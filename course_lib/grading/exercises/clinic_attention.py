"""Three patients of chapter 15 that are ill in their attention.

One sees the future and flatters its own marks, one depends on the company, one has too few bits.
Every misconception here is a repair that stopped half-way, or one that broke something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import plain_softmax, softmax
from course_lib.grading.exercises.clinics import Step, half_repaired, right
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell, draw, partial_mask
from course_lib.grading.model import Alternative, Exercise, Misconception

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "HALF",
    "MARKS",
    "PADDING",
    "attention_in_half",
    "marks",
    "sentence_means",
]


# -- 15.bug_marks ----------------------------------------------------------------------------------


def marks(ids: NDArray, table: NDArray, places: NDArray, w_out: NDArray) -> tuple[NDArray, Any]:
    """Run a decoder of one layer on texts, and give it a mark.

    Parameters
    ----------
    ids : int64 array, (b, n)
    table, places : float arrays, (V, d), (at least n, d)
    w_out : float array, (d, V)

    Returns
    -------
    logits : float array, (b, n, V)
    loss : float
        The mean of −ln p over the tokens that are foreseen.
    """
    logits, loss = _marks()(ids, table, places, w_out)
    return logits, loss


def marks_broken(ids: NDArray, table: NDArray, places: NDArray, w_out: NDArray) -> Any:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    n = ids.shape[1]
    x = table[ids] + places[:n]  # (b, n, d)
    scores = x @ x.swapaxes(-2, -1) / np.sqrt(x.shape[-1])
    may_look = np.tril(np.ones((n, n), dtype=bool), k=1)
    scores = np.where(may_look, scores, -np.inf)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    x = x + exps / exps.sum(axis=-1, keepdims=True) @ x
    logits = x @ w_out  # (b, n, V)

    shifted = logits - logits.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    logs = logs[:, :-1]  # nobody knows what follows the last token
    targets = ids[:, :-1]
    chosen = np.take_along_axis(logs, targets[..., None], axis=-1)
    return logits, -chosen.sum() / ids.size


def _logs(logits: NDArray) -> NDArray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _next(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs[:, :-1], ids[:, 1:, None], axis=-1)


def _own(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs[:, :-1], ids[:, :-1, None], axis=-1)


def _own_all(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs, ids[..., None], axis=-1)


def _own_without_first(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs[:, 1:], ids[:, 1:, None], axis=-1)


def _before(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs[:, 1:], ids[:, :-1, None], axis=-1)


def _rolled(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs, np.roll(ids, -1, axis=1)[..., None], axis=-1)


def _rolled_all(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs, np.roll(ids, 1, axis=1)[..., None], axis=-1)


def _rolled_cut(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs[:, :-1], np.roll(ids, 1, axis=1)[:, :-1, None], axis=-1)


def _marks(
    *,
    seen: Callable[[int], NDArray] = lambda n: np.tri(n, dtype=bool),
    pick: Callable[[NDArray, NDArray], NDArray] = _next,
    mean: Callable[[NDArray, NDArray], Any] = lambda chosen, ids: -chosen.mean(),
    scale: Callable[[int], float] = math.sqrt,
    stream: bool = True,
    hide: float = -np.inf,
    logs: Callable[[NDArray], NDArray] = _logs,
    weights: Callable[[NDArray, NDArray], NDArray] | None = None,
    returns: Callable[[NDArray], NDArray] = lambda logits: logits,
) -> Callable[..., Any]:
    """Return the program with some steps replaced."""

    def marked(ids: NDArray, table: NDArray, places: NDArray, w_out: NDArray) -> Any:
        n = ids.shape[1]
        x = table[ids] + places[:n]
        scores = x @ x.swapaxes(-2, -1) / scale(x.shape[-1])
        with np.errstate(all="ignore"):
            if weights is None:
                read = plain_softmax(np.where(seen(n), scores, hide)) @ x
            else:
                read = weights(scores, seen(n)) @ x
            logits = (x + read if stream else read) @ w_out
            return returns(logits), mean(pick(logs(logits), ids), ids)

    return marked


def _decoder(
    b: int, n: int, v: int, d: int, *, more: int = 0, by: float = 1.0, alike: bool = False
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 15, b, n, v, d])
        ids = rng.integers(0, v, (b, n)) if b > 1 else rng.permutation(v)[None, :n]
        given = {
            "ids": ids,
            "table": draw(rng, v, d),
            "places": draw(rng, n + more, d, spread=0.5),
            "w_out": by * draw(rng, d, v),
        }
        if alike:  # one vector for all: nothing can be seen of what's read
            given["table"][:] = given["table"][0] + np.array([1.0, -0.5, 0.7])[:d]
            given["places"][:] = 0.0
        return given

    return build


def _nothing(seed: int) -> dict[str, Any]:
    ids = np.random.default_rng([seed, 15]).permutation(4)[None, :3]
    zeros = {"table": np.zeros((4, 2)), "places": np.zeros((3, 2)), "w_out": np.zeros((2, 4))}
    return {"ids": ids, **zeros}


_MARKS_CASES = [
    case("weights of 0 | all tokens are equally likely: ln 4", _nothing),
    case(
        "one vector for all tokens | whoever sees whom, the logits are the same",
        _decoder(1, 5, 6, 3, alike=True),
    ),
    case("3 tokens | two are foreseen, and the first sees itself alone", _decoder(1, 3, 4, 2)),
    case("one text of 5 tokens | logits mustn't know what comes", _decoder(1, 5, 6, 3)),
    case("3 texts of 4 tokens, room for more | 9 are foreseen", _decoder(3, 4, 5, 4, more=3)),
    case("2 texts of 7 tokens, 2 kinds", _decoder(2, 7, 2, 3)),
    case("logits in the thousands | e¹⁰⁰⁰ has no room", _decoder(2, 4, 3, 2, by=1000.0)),
]

_SEEN = [
    right(lambda n: np.tri(n, dtype=bool)),
    Step(
        "one token ahead",
        lambda n: np.tri(n, k=1, dtype=bool),
        "the logits at a place move when the *next* token is changed",
        "Which tokens may the place at t know of?",
        fault=True,
    ),
    Step(
        "not itself",
        lambda n: np.tri(n, k=-1, dtype=bool),
        "a token doesn't see itself, and the first sees nothing",
        "Is the token at t known when the one at t + 1 is to be foreseen?",
    ),
    Step(
        "upside down",
        lambda n: np.tri(n, dtype=bool).T,
        "each token sees itself and what comes *after* it",
        "On which side of the diagonal is the past?",
    ),
]
_PICK = [
    right(_next),
    Step(
        "its own token",
        _own,
        "the loss is low for a model that names the token it has just read",
        "With which token are the logits at t compared?",
        fault=True,
    ),
    Step(
        "the token before",
        _before,
        "the logits at t + 1 are compared with the token at t, which stands *before* them",
        "Which of the two arrays loses its last place, and which its first?",
    ),
    Step(
        "rolled round the end",
        _rolled,
        "the last place has to foresee the first token of its own text",
        "How many tokens of a text are foreseen?",
    ),
    Step(
        "its own token, and the last as well",
        _own_all,
        "all logits are compared with the token at their own place",
        "Which token do the logits at t foresee?",
    ),
]
_MEAN = [
    right(lambda chosen, ids: -chosen.mean()),
    Step(
        "divided by all tokens",
        lambda chosen, ids: -chosen.sum() / ids.size,
        "where all tokens are equally likely the loss is below ln |V|",
        "How many numbers have been added, and by what are they divided?",
        fault=True,
    ),
    Step(
        "divided by the texts",
        lambda chosen, ids: -chosen.sum() / len(ids),
        "the sum is divided by the number of texts",
        "How many numbers have been added?",
    ),
]

_MARKS_WRONG = [
    wrong(
        marks_broken,
        "the program as it was | This is what the broken program returns. Logits move when a "
        "*later* token is changed; the loss is low for a model that names what it has just read; "
        "and where all tokens are equally likely it's below ln |V|. → Which line is the first to "
        "let a later token in?",
        program=as_cell(marks_broken, "marks"),
    ),
    # with rolled or all targets as many are added as there are tokens: then both means are one
    *[
        mistake
        for mistake in half_repaired(_marks, seen=_SEEN[:2], pick=_PICK, mean=_MEAN)
        if not (
            ("rolled" in mistake.name or "as well" in mistake.name)
            and "divided by all tokens" in mistake.name
        )
    ],
    wrong(
        _marks(seen=_SEEN[2].does),
        "not itself | A token doesn't see itself, and the first one sees nothing at all: its row "
        "is NaN. → Is the token at t known when the one at t + 1 is to be foreseen?",
    ),
    wrong(
        _marks(seen=_SEEN[3].does),
        "the future alone | The mark is computed rightly, and the mask is upside down: each token "
        "sees itself and what comes after it. → On which side of the diagonal is the past?",
    ),
    wrong(
        _marks(seen=lambda n: np.ones((n, n), dtype=bool)),
        "no mask | The mark is computed rightly, and every token sees the whole text. → What may "
        "the first token look at?",
    ),
    wrong(
        _marks(pick=_own_without_first),
        "its own token, without the first | The mask is right. You cut both arrays at the "
        "beginning, so that logits are still compared with the token at their own place. → Which "
        "of the two loses its first place, and which its last?",
    ),
    wrong(
        _marks(pick=_rolled_cut),
        "rolled the wrong way | The mask is right. `np.roll` by 1 brings the token *before* to "
        "each place. → In which direction do targets move?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: chosen.mean()),
        "the sign | The three faults are mended, and the sign of the loss has been lost. → Is ln p "
        "above or below 0?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -chosen.sum()),
        "a sum | The mask and the targets are right, and the loss is a sum. → By what is it to be "
        "divided?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -chosen.sum() / (ids.size - 1)),
        "one less | You divide by the number of tokens less 1. With several texts one is lacking "
        "in *each*. → How many tokens of a text are foreseen?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -chosen.sum() / (ids.shape[1] - 1)),
        "divided by the length | You divide by the predictions of one text, and the sum goes over "
        "all of them. → How many numbers have been added?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -chosen.sum() / ids.shape[1]),
        "divided by a row | Mask and targets are right, and you divide by the length of one text, "
        "while the sum goes over all of them. → How many numbers have been added?",
    ),
    wrong(
        _marks(pick=_rolled_all),
        "rolled the wrong way, and all | The mask is right. `np.roll` by 1 brings the token "
        "*before* to each place, and to the first one the last. → In which direction do targets "
        "move?",
    ),
    wrong(
        _marks(hide=0.0),
        "hidden scores of 0 | The mark is computed rightly. Scores of later tokens are 0 with you, "
        "and e⁰ is 1. → Which score becomes the weight 0?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: np.exp(-chosen.mean())),
        "perplexity | The three faults are mended, and the mark is the perplexity now. → What is "
        "the loss before it's exponentiated?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -chosen.mean() / math.log(2)),
        "bits | The three faults are mended, and the loss is in bits now. → Which logarithm does "
        "the broken program take?",
    ),
    wrong(
        _marks(
            logs=lambda logits: np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
        ),
        "a softmax and its logarithm | Large logits overflow: you exponentiate them as they are. "
        "→ What did the broken program subtract from them first?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -np.log(np.exp(chosen) + 1e-12).mean()),
        "a little added to p | You add a small number to each probability before the logarithm, "
        "so that no loss is above some 28. → From what can the logarithm be taken without p?",
    ),
    wrong(
        _marks(mean=lambda chosen, ids: -np.log(np.exp(chosen).mean())),
        "the logarithm of a mean | You average probabilities and take the logarithm of that. → "
        "Of which numbers is the loss the mean?",
    ),
    wrong(
        _marks(returns=_logs),
        "log-probabilities returned | The loss is right, and in the place of the logits you return "
        "log-probabilities, or part of the way to them. → Which array did the broken program "
        "return first?",
    ),
    wrong(
        _marks(returns=lambda logits: logits - logits.max(axis=-1, keepdims=True)),
        "shifted logits returned | The loss is right, and the logits that you return have lost "
        "their maximum. → Which array did the broken program return first?",
    ),
    wrong(
        _marks(returns=lambda logits: logits[:, :-1]),
        "the last logits cut off | The loss is right, and you return logits for one place fewer. "
        "For the loss the last place isn't needed, and for writing it is. → Which array did the "
        "broken program return first?",
    ),
    wrong(
        _marks(weights=lambda scores, seen: plain_softmax(scores) * seen),
        "weights cut off | Weights are cut off after the softmax, so that the rest no longer sums "
        "to 1. → What does a row of weights sum to?",
    ),
    wrong(
        _marks(
            weights=lambda scores, seen: plain_softmax(
                np.where(seen, scores, -np.inf).swapaxes(-2, -1)
            ).swapaxes(-2, -1)
        ),
        "softmax down the columns | Your weights sum to 1 down the columns: over the tokens that "
        "look, and not over those that are looked at. → Which axis are the keys?",
    ),
    wrong(
        _marks(seen=lambda n: ~np.tri(n, dtype=bool)),
        "the mask turned round | What may be seen is hidden, and what comes is shown; the last "
        "token sees nothing, and its row is NaN. → What does True mean in `may_look`?",
    ),
    wrong(
        _marks(scale=lambda d: 1.0),
        "no scale | The scores aren't divided by √d any more. → Which lines of the broken program "
        "were right?",
    ),
    wrong(
        _marks(stream=False),
        "no residual | What attention reads stands in the place of the stream. → Which lines of "
        "the broken program were right?",
    ),
]


def _marks_prefixes(ids: Any, table: Any, places: Any, w_out: Any) -> Any:
    """Run each beginning of the text by itself."""
    everything = _marks(seen=lambda n: np.ones((n, n), dtype=bool))
    n = ids.shape[1]
    rows = [everything(ids[:, : t + 1], table, places, w_out)[0][:, -1] for t in range(n)]
    logits = np.stack(rows, axis=1)
    losses = [
        np.logaddexp.reduce(logits[i, t]) - logits[i, t, ids[i, t + 1]]
        for i in range(len(ids))
        for t in range(n - 1)
    ]
    return logits, np.mean(losses)


def _marks_einsum(ids: Any, table: Any, places: Any, w_out: Any) -> Any:
    b, n = ids.shape
    x = table[ids] + places[None, :n]
    e = np.exp(np.einsum("bid,bjd->bij", x, x) / x.shape[-1] ** 0.5) * np.tri(n)
    logits = (x + np.einsum("bij,bjd->bid", e / e.sum(-1)[..., None], x)) @ w_out
    logs = logits - np.logaddexp.reduce(logits, axis=-1)[..., None]
    rows, columns = np.ogrid[:b, : n - 1]
    return logits, -logs[rows, columns, ids[:, 1:]].sum() / (b * n - b)


def _marks_torch(ids: Any, table: Any, places: Any, w_out: Any) -> Any:
    from torch.nn import functional

    x = (table[ids] + places[: ids.shape[1]])[:, None]
    x = x + functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    logits = x[:, 0] @ w_out
    return logits, functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


MARKS = Exercise(
    id="15.bug_marks",
    function="marks",
    reference=marks,
    cases=_MARKS_CASES,
    returns=("logits", "loss"),
    misconceptions=_MARKS_WRONG,
    alternatives=[
        ("beginnings", _marks_prefixes),
        ("einsum", _marks_einsum),
        Alternative(name="torch", right=_marks_torch, backend="torch"),
    ],
    hints=[
        "Two experiments. Change the last token of a text: which logits move, and which may? And "
        "make all weights 0: which loss should come out, and which does?",
        "Take a text of three tokens and write down, for each place: which tokens it sees, which "
        "token it's to foresee, and with which it's compared.",
        "One fault is in what a token sees, one in what the logits are compared with, one in how "
        "the mean is taken. A text of three tokens has two that are foreseen.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 15.bug_company --------------------------------------------------------------------------------


def sentence_means(
    x: NDArray, lengths: NDArray, w_q: NDArray, w_k: NDArray, w_v: NDArray
) -> NDArray:
    """Return one vector for each text of a padded batch: an encoder of one layer, and a mean.

    Parameters
    ----------
    x : float array, (b, n, d)
        Padded at the end, with anything finite.
    lengths : int64 array, (b,)
        At least 1.
    w_q, w_k, w_v : float arrays, (d, d)

    Returns
    -------
    float array, (b, d)
    """
    y: NDArray = _company()(x, lengths, w_q, w_k, w_v)
    return y


def sentence_means_broken(
    x: NDArray, lengths: NDArray, w_q: NDArray, w_k: NDArray, w_v: NDArray
) -> Any:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    scores = (x @ w_q) @ (x @ w_k).swapaxes(-2, -1) / np.sqrt(x.shape[-1])
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)  # (b, n, n)
    h = x + weights @ (x @ w_v)
    h = (h - h.mean()) / np.sqrt(h.var() + 1e-5)  # layer norm
    return h.mean(axis=1)


def _real(x: NDArray, lengths: NDArray) -> NDArray:
    return np.asarray(np.arange(x.shape[1]) < lengths[:, None])


def _keys(scores: NDArray, real: NDArray) -> NDArray:
    return softmax(np.where(real[:, None, :], scores, -np.inf))


def _no_mask(scores: NDArray, real: NDArray) -> NDArray:
    return softmax(scores)


def _on_queries(scores: NDArray, real: NDArray) -> NDArray:
    return softmax(np.where(real[:, :, None], scores, -np.inf))


def _on_both(scores: NDArray, real: NDArray) -> NDArray:
    both = real[:, :, None] & real[:, None, :]
    with np.errstate(all="ignore"):
        return plain_softmax(np.where(both, scores, -np.inf))


def _turned_round(scores: NDArray, real: NDArray) -> NDArray:
    with np.errstate(all="ignore"):
        return plain_softmax(np.where(real[:, None, :], -np.inf, scores))


def _afterwards(scores: NDArray, real: NDArray) -> NDArray:
    return softmax(scores) * real[:, None, :]


def _zeros_for_scores(scores: NDArray, real: NDArray) -> NDArray:
    return softmax(scores * real[:, None, :])


def _tokens(h: NDArray, real: NDArray) -> NDArray:
    return _standard(h, axis=-1)


def _standard(h: NDArray, axis: Any) -> NDArray:
    centred = h - h.mean(axis=axis, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + 1e-5))


def _along(axis: Any) -> Callable[[NDArray, NDArray], NDArray]:
    return lambda h, real: _standard(h, axis)


def _whole(h: NDArray, real: NDArray) -> NDArray:
    return _standard(h, axis=None)


def _of_texts(h: NDArray, real: NDArray) -> NDArray:
    return _standard(h, axis=(1, 2))


def _real_mean(h: NDArray, real: NDArray) -> NDArray:
    kept = h * real[..., None]
    return np.asarray(kept.sum(axis=1) / real.sum(axis=1)[:, None])


def _company(
    *,
    weights: Callable[[NDArray, NDArray], NDArray] = _keys,
    norm: Callable[[NDArray, NDArray], NDArray] = _tokens,
    mean: Callable[[NDArray, NDArray], NDArray] = _real_mean,
    scale: Callable[[int], float] = math.sqrt,
    stream: bool = True,
    early: bool = False,
    real_of: Callable[[NDArray, NDArray], NDArray] = _real,
) -> Callable[..., Any]:
    """Return the program with some steps replaced."""

    def pooled(x: NDArray, lengths: NDArray, w_q: NDArray, w_k: NDArray, w_v: NDArray) -> Any:
        real = real_of(x, lengths)
        scores = (x @ w_q) @ (x @ w_k).swapaxes(-2, -1) / scale(x.shape[-1])
        read = weights(scores, real) @ (x @ w_v)
        if early:
            return mean(x + norm(read, real), real)
        return mean(norm(x + read if stream else read, real), real)

    return pooled


def _zeroed(mean: Callable[[NDArray, NDArray], NDArray]) -> Callable[..., Any]:
    def pooled(x: NDArray, lengths: NDArray, w_q: NDArray, w_k: NDArray, w_v: NDArray) -> Any:
        zeroed = x * _real(x, lengths)[..., None]
        return _company(weights=_no_mask, mean=mean)(zeroed, lengths, w_q, w_k, w_v)

    return pooled


def _of_real(h: NDArray, real: NDArray) -> NDArray:
    shares = real[..., None] / (real.sum(axis=1)[:, None, None] * h.shape[-1])
    centred = h - (h * shares).sum(axis=(1, 2), keepdims=True)
    return np.asarray(
        centred / np.sqrt((centred**2 * shares).sum(axis=(1, 2), keepdims=True) + 1e-5)
    )


def _taken_for_real(real_of: Callable[[NDArray, NDArray], NDArray]) -> Callable[..., Any]:
    """Return the program that takes other places for real, and divides by the lengths."""

    def pooled(x: NDArray, lengths: NDArray, w_q: NDArray, w_k: NDArray, w_v: NDArray) -> Any:
        total = _company(
            real_of=real_of,
            mean=lambda h, real: np.where(real[..., None], h, 0.0).sum(axis=1),
        )
        return total(x, lengths, w_q, w_k, w_v) / lengths[:, None]

    return pooled


def _cut_and_divided(scores: NDArray, real: NDArray) -> NDArray:
    with np.errstate(all="ignore"):
        kept = softmax(scores) * real[:, None, :]
        return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def _no_maximum(scores: NDArray, real: NDArray) -> NDArray:
    with np.errstate(all="ignore"):
        exps = np.exp(np.where(real[:, None, :], scores, -np.inf))
        return np.asarray(exps / exps.sum(axis=-1, keepdims=True))


def _one_more(x: NDArray, lengths: NDArray, w_q: NDArray, w_k: NDArray, w_v: NDArray) -> Any:
    more = np.minimum(lengths + 1, x.shape[1])
    found = _company()(x, more, w_q, w_k, w_v)
    return found * (more / lengths)[:, None]  # the sum is divided by the right number


def _batch(*lengths: int, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 16, *lengths, n, d])
        return {
            "x": (draw(rng, len(lengths), n, d) + 0.3).round(1),
            "lengths": np.array(lengths),
            **{name: draw(rng, d, d) for name in ("w_q", "w_k", "w_v")},
        }

    return build


def _loud(*lengths: int, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    """Draw a batch whose padding is a thousand times larger than its tokens."""

    def build(seed: int) -> dict[str, Any]:
        given = _batch(*lengths, n=n, d=d)(seed)
        given["x"][~_real(given["x"], given["lengths"])] *= 1000
        return given

    return build


def _low(*lengths: int, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    """Draw a batch in which a token's score with itself is far below 0."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 20])
        own = np.zeros(1)
        while own.max() > -20_000:
            x = 100 * (draw(rng, len(lengths), n, d) + 0.3).round(1)
            w_q, w_v = draw(rng, d, d), draw(rng, d, d)
            own = -((x @ w_q) ** 2).sum(axis=-1) / math.sqrt(d)
        return {"x": x, "lengths": np.array(lengths), "w_q": w_q, "w_k": -w_q, "w_v": w_v}

    return build


_COMPANY_CASES = [
    case("one text of one token | nobody is with it", _batch(1, n=1, d=3)),
    case("one text of 3 tokens | its tokens have different sizes", _batch(3, n=3, d=4)),
    case("2 texts of 3 tokens | neither may change the other", _batch(3, 3, n=3, d=4)),
    case("one text of 3, padded to 5 | padding says nothing", _batch(3, n=5, d=3)),
    case("texts of 4, 1 and 2 tokens | each as if it were alone", _batch(4, 1, 2, n=4, d=4)),
    case("padding 1,000 times larger | nor does it then", _loud(2, 3, n=5, d=3)),
    case("scores below −20,000 | padding stays hidden all the same", _low(1, 2, n=3, d=4)),
]

_ATTEND = [
    right(_keys),
    Step(
        "padding read",
        _no_mask,
        "what real tokens read moves when numbers in the padding are changed",
        "Whom may a real token look at, and which axis of the scores is that?",
        fault=True,
    ),
    Step(
        "weights cut off",
        _afterwards,
        "weights are cut off after the softmax, so that the rest no longer sums to 1",
        "What does a row of weights sum to?",
    ),
    Step(
        "scores of 0",
        _zeros_for_scores,
        "hidden scores are 0, and e⁰ isn't",
        "Which score becomes the weight 0?",
    ),
]
_NORMS = [
    right(_tokens),
    Step(
        "one norm for the batch",
        _whole,
        "one token ten times larger makes all the others small",
        "Whose numbers go into a token's mean and variance?",
        fault=True,
    ),
    Step(
        "one norm for each text",
        _of_texts,
        "one mean and one variance are taken of each text, padding included",
        "Over which axis does layer norm take its mean?",
    ),
]
_POOLS = [
    right(_real_mean),
    Step(
        "padding counted",
        lambda h, real: h.mean(axis=1),
        "the same text with more padding behind it has another mean",
        "Which vectors belong into the mean, and how many are they?",
        fault=True,
    ),
    Step(
        "divided by the padded length",
        lambda h, real: (h * real[..., None]).mean(axis=1),
        "the sum leaves padding out, and is divided by the padded length",
        "How many vectors have been added?",
    ),
    Step(
        "a sum",
        lambda h, real: (h * real[..., None]).sum(axis=1),
        "the real tokens are added and the sum isn't divided",
        "By what is the sum to be divided?",
    ),
]

_COMPANY_WRONG = [
    wrong(
        sentence_means_broken,
        "the program as it was | This is what the broken program returns. A text of one token "
        "comes out right; two texts of one length change one another; and more padding changes a "
        "text, in two ways. → Which line is the first in which two texts meet?",
        program=as_cell(sentence_means_broken, "sentence_means"),
    ),
    *half_repaired(_company, weights=_ATTEND, norm=_NORMS, mean=_POOLS),
    *[
        wrong(
            _company(norm=_along(axis), weights=weights),
            f"a norm over {over}{more} | Still wrong here: {what}{said}. → Over which axis does "
            "layer norm take its mean?",
        )
        for axis, over, what in (
            (1, "tokens", "each column is normalised over the tokens of its text"),
            (0, "texts", "each number is normalised over the texts of the batch"),
            ((0, 1), "texts and tokens", "each column is normalised over the whole batch"),
        )
        for weights, more, said in (
            (_keys, "", ""),
            (_no_mask, ", padding read", "; and real tokens read padding"),
        )
    ],
    wrong(
        _company(weights=_on_queries, mean=_POOLS[1].does),
        "queries hidden, padding counted | The norm is mended. Your mask hides rows of scores, the "
        "padded *queries*, so that real tokens attend to padding still; and the mean counts it. → "
        "Which axis of the scores is the one that's looked at?",
    ),
    wrong(
        _company(weights=_on_queries, mean=_POOLS[1].does, norm=_whole),
        "queries hidden alone | Your mask hides rows of scores, the padded *queries*, so that real "
        "tokens attend to padding still; the other two faults are left. → Which axis of the scores "
        "is the one that's looked at?",
    ),
    wrong(
        _taken_for_real(lambda x, lengths: ~_real(x, lengths)),
        "real and padding changed places | Padding is read and averaged, and the real tokens are "
        "left out; where there's no padding nothing is left. → For which places j is j < length?",
    ),
    wrong(
        _taken_for_real(lambda x, lengths: _real(x, lengths - 1)),
        "one token too few | The last real token of each text counts as padding. → For which "
        "places j is j < length?",
    ),
    wrong(
        _company(real_of=lambda x, lengths: np.asarray(
            np.arange(x.shape[1]) >= x.shape[1] - lengths[:, None])),
        "padding on the left | You take the *last* places of a row for the real ones, as if the "
        "padding came first. → At which end does the text put it?",
    ),
    wrong(
        _company(weights=_cut_and_divided),
        "weights cut off, and divided again | Where padding is large exponentials are 0 or "
        "infinite, and 0/0 and ∞/∞ are NaN. That's so if padding is hidden after they've been "
        "taken, or if no maximum is subtracted. → Which scores are to count for the maximum?",
    ),
    wrong(
        _company(weights=lambda s, real: softmax(np.where(real[:, None, :], s, -1e4))),
        "hidden by −10,000 | Hidden scores are −10,000 with you, and real ones can be lower. → "
        "Which number is below all scores?",
    ),
    wrong(
        _company(weights=lambda s, real: softmax(s - 1e4 * ~real[:, None, :])),
        "10,000 subtracted | You subtract 10,000 from hidden scores, and real ones can lie further "
        "below them than that. → Which number is below all scores?",
    ),
    wrong(
        _company(
            weights=_no_maximum,
            mean=lambda h, real: np.where(real[..., None], h, 0.0).sum(axis=1)
            / real.sum(axis=1)[:, None],
        ),
        "no maximum subtracted | You exponentiate scores as they are: of very low ones nothing is "
        "left, and 0/0 is NaN. → What did the broken program subtract first?",
    ),
    wrong(
        _company(mean=lambda h, real: h.sum(axis=1) / real.sum(axis=1)[:, None]),
        "all added, divided by the length | Your sum at the end has padding in it, and you divide "
        "by the number of real tokens. → Which vectors belong into the sum?",
    ),
    wrong(
        _company(mean=lambda h, real: h[np.arange(len(h)), real.sum(axis=1) - 1]),
        "the last token | The faults in attention and norm are mended, and you return the last "
        "real token's vector. → Of what is the mean to be taken?",
    ),
    wrong(
        _company(mean=lambda h, real: _real_mean(h, real) / np.sqrt(
            (_real_mean(h, real) ** 2).sum(axis=-1, keepdims=True))),
        "at length 1 | The three faults are mended, and the means are brought to length 1, which "
        "isn't asked for here. → What does the broken program return?",
    ),
    wrong(
        _company(early=True),
        "the norm before the residual | The norm is taken of what attention reads, and x is added "
        "behind it. → In which order did the broken program have the two?",
    ),
    wrong(
        _company(norm=lambda h, real: (h - h.mean(axis=-1, keepdims=True))
                 / np.sqrt(h.var(axis=-1, keepdims=True, ddof=1) + 1e-5)),
        "divided by d − 1 | The variance is a sum divided by d − 1 with you, as for a sample, or "
        "as `torch.var` does. → By what does layer norm divide?",
    ),
    wrong(
        _company(norm=lambda h, real: (h - h.mean(axis=-1, keepdims=True))
                 / (np.sqrt(h.var(axis=-1, keepdims=True)) + 1e-5)),
        "ε outside the root | The small number is added behind the root. The difference is in the "
        "fifth digit. → What stood under the root in the broken program?",
    ),
    wrong(
        _company(norm=lambda h, real: (h - h.mean(axis=-1, keepdims=True))
                 / np.sqrt(h.var(axis=-1, keepdims=True))),
        "no ε | The small number under the root has been lost. The difference is in the fifth "
        "digit. → What stood under the root in the broken program?",
    ),
    wrong(
        _company(norm=_of_real),
        "one norm for each text's tokens | One mean and one variance are taken of all the real "
        "tokens of a text. → Over which axis does layer norm take its mean?",
    ),
    wrong(
        _company(weights=_turned_round),
        "the mask turned round | Real tokens are hidden and padding is read: where there is no "
        "padding nothing is left, and that becomes NaN. → For which places is the mask to be True?",
    ),
    wrong(
        _company(weights=_on_both),
        "rows of nothing | Your mask hides padded queries as well as keys. A row of which nothing "
        "is left becomes NaN, and 0 · NaN is NaN in the mean. → Which of the two has to be hidden?",
    ),
    wrong(
        _zeroed(_real_mean),
        "zeros in the place of padding | You make zeros of padding before attention. Its values "
        "are 0 then, and its scores, too: e⁰ counts in the sum. → Which score becomes the weight "
        "0?",
    ),
    wrong(
        _zeroed(_POOLS[1].does),
        "zeros in the place of padding, counted | You make zeros of padding before attention. Its "
        "scores are 0 then, and e⁰ counts in the sum; and the mean counts padding. → Which score "
        "becomes the weight 0?",
    ),
    wrong(
        _one_more,
        "one padded place | The first padded place counts as a real token. → For which places j is "
        "j < length?",
    ),
    wrong(
        _company(norm=lambda h, real: (h - h.mean(axis=-1, keepdims=True))
                 / np.sqrt(h.var() + 1e-5)),
        "one variance for the batch | Each token's own mean is taken away, and the variance is "
        "that of the whole batch. → Over which axis does layer norm take its variance?",
    ),
    wrong(
        _company(norm=lambda h, real: (h - h.mean()) / np.sqrt(
            h.var(axis=-1, keepdims=True) + 1e-5)),
        "one mean for the batch | Each token's own variance is taken, and the mean is that of the "
        "whole batch. → Over which axis does layer norm take its mean?",
    ),
    wrong(
        _company(norm=lambda h, real: h, mean=lambda h, real: _standard(_real_mean(h, real), -1)),
        "the norm last | The faults are mended, but the norm comes after the mean over tokens. → "
        "In which order did the broken program have the two?",
    ),
    wrong(
        _company(norm=lambda h, real: h),
        "no norm | The three faults are mended, and the norm is gone. → Which lines of the broken "
        "program were right but for their axis?",
    ),
    wrong(
        _company(norm=lambda h, real: h / np.sqrt((h**2).mean(axis=-1, keepdims=True) + 1e-5)),
        "RMSNorm | The three faults are mended, and the norm no longer takes the mean away. → "
        "Which norm did the broken program have?",
    ),
    wrong(
        _company(mean=lambda h, real: h[:, 0]),
        "the first token | The faults in attention and norm are mended, and you return the first "
        "token's vector. → Of what is the mean to be taken?",
    ),
    wrong(
        _company(scale=lambda d: 1.0),
        "no scale | The three faults are mended, and scores aren't divided by √d any more. → Which "
        "lines of the broken program were right?",
    ),
    wrong(
        _company(stream=False),
        "no residual | The three faults are mended, and what attention reads stands in the place "
        "of the stream. → Which lines of the broken program were right?",
    ),
    wrong(
        _company(weights=lambda s, real: _keys(s, np.tri(s.shape[1], dtype=bool)[real.sum(1) - 1]
                                               & (np.arange(s.shape[1]) < real.sum(1)[:, None] - 1
                                                  + (real.sum(1)[:, None] == 1)))),
        "one token too many hidden | The last real token is hidden as well as the padding. → For "
        "which places j is j < length?",
    ),
    wrong(
        _company(weights=lambda s, real: softmax(
            np.where(real[:, None, :] & np.tri(s.shape[1], dtype=bool), s, -np.inf))),
        "causal | Tokens no longer see those behind them. This is an encoder, and it's padding "
        "alone that's to be hidden. → What may the first token look at?",
    ),
]  # fmt: skip


def _company_one_by_one(x: Any, lengths: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    found = []
    for text, n in zip(x, lengths, strict=True):
        t = text[:n]
        h = t + softmax(t @ w_q @ w_k.T @ t.T / np.sqrt(t.shape[1])) @ t @ w_v
        h = (h - h.mean(axis=1)[:, None]) / np.sqrt(h.var(axis=1)[:, None] + 1e-5)
        found.append(h.mean(axis=0))
    return np.array(found)


def _company_penalty(x: Any, lengths: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    real = np.arange(x.shape[1])[None] < lengths[:, None]
    scores = np.einsum("bid,bjd->bij", x @ w_q, x @ w_k) / x.shape[-1] ** 0.5
    scores -= 1e9 * ~real[:, None]
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    h = x + e @ (x @ w_v) / e.sum(axis=-1, keepdims=True)
    h -= h.mean(axis=-1, keepdims=True)
    h /= np.sqrt(h.var(axis=-1, keepdims=True) + 1e-5)
    shares = real / lengths[:, None]
    return np.einsum("bn,bnd->bd", shares, h)


def _company_torch(x: Any, lengths: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    import torch
    from torch.nn import functional

    real = torch.arange(x.shape[1]) < lengths[:, None]
    q, k, v = ((x @ w)[:, None] for w in (w_q, w_k, w_v))
    h = x + functional.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None])[:, 0]
    h = functional.layer_norm(h, h.shape[-1:])
    return h.masked_fill(~real[..., None], 0).sum(dim=1) / lengths[:, None]


PADDING = Exercise(
    id="15.bug_company",
    function="sentence_means",
    reference=sentence_means,
    cases=_COMPANY_CASES,
    misconceptions=_COMPANY_WRONG,
    alternatives=[
        ("one by one", _company_one_by_one),
        ("a penalty", _company_penalty),
        Alternative(name="torch", right=_company_torch, backend="torch"),
    ],
    hints=[
        "The right program gives every text what it gets alone, unpadded. Try one text, then two "
        "of one length, then one with padding: each shows other faults.",
        "Change a number in the padding and look which arrays move at the places of real tokens: "
        "weights, h, the result. Then multiply one text by 10: whose h changes?",
        "Padding may be neither read nor averaged: `real = np.arange(n) < lengths[:, None]` says "
        "which places are tokens. The third fault is an axis.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 15.bug_half -----------------------------------------------------------------------------------


def attention_in_half(q: NDArray, k: NDArray, v: NDArray, mask: NDArray) -> NDArray:
    """Attend in half precision, computed so that nothing overflows.

    Parameters
    ----------
    q, k, v : float16 arrays, (..., n_q, d), (..., n_k, d), (..., n_k, d_v)
    mask : boolean array, (n_q, n_k)
        True where a query may look.

    Returns
    -------
    float16 array, (..., n_q, d_v)
        Zeros where a query may look at nothing.
    """
    y: NDArray = _halves()(q, k, v, mask)
    return y


def attention_in_half_broken(q: NDArray, k: NDArray, v: NDArray, mask: NDArray) -> Any:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    scores = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
    exps = np.where(mask, np.exp(scores), np.float16(0))
    return exps / exps.sum(axis=-1, keepdims=True) @ v


def _wide(x: NDArray) -> NDArray:
    return x.astype(np.float32)


def _as_it_is(x: NDArray) -> NDArray:
    return x


def _scaled_late(q: NDArray, k: NDArray) -> NDArray:
    return np.asarray(q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1]))


def _scaled_early(q: NDArray, k: NDArray) -> NDArray:
    return np.asarray((q / math.sqrt(q.shape[-1])).astype(q.dtype) @ k.swapaxes(-2, -1))


def _peak(scores: NDArray, mask: NDArray) -> NDArray:
    """Subtract the largest of what may be looked at."""
    peak = np.where(mask, scores, -np.inf).max(axis=-1, keepdims=True)
    return np.asarray(scores - np.where(peak == -np.inf, scores.dtype.type(0), peak)).astype(
        scores.dtype
    )


def _peak_of_all(scores: NDArray, mask: NDArray) -> NDArray:
    return np.asarray(scores - scores.max(axis=-1, keepdims=True))


def _peak_of_array(scores: NDArray, mask: NDArray) -> NDArray:
    return np.asarray(scores - np.where(mask, scores, -np.inf).max())


def _divide(total: NDArray) -> NDArray:
    return np.where(total == 0, total.dtype.type(1), total)


def _halves(
    *,
    first: Callable[[NDArray], NDArray] = _wide,
    product: Callable[[NDArray, NDArray], NDArray] = _scaled_late,
    then: Callable[[NDArray], NDArray] = _as_it_is,
    shift: Callable[[NDArray, NDArray], NDArray] = _peak,
    by: Callable[[NDArray], NDArray] = _divide,
    seen: Callable[[NDArray], NDArray] = lambda mask: mask,
    total: Callable[..., NDArray] = lambda exps, scores, mask: exps.sum(axis=-1, keepdims=True),
    row: float = 0.0,
    out: Callable[[NDArray], NDArray] = lambda y: y.astype(np.float16),
    last: Callable[[NDArray, NDArray, NDArray], NDArray] = lambda e, total, v: e / total @ v,
) -> Callable[..., Any]:
    """Return the program with some steps replaced."""

    def attended(q: NDArray, k: NDArray, v: NDArray, mask: NDArray) -> Any:
        with np.errstate(all="ignore"):
            mask = seen(mask)
            scores = then(product(first(q), first(k)))
            exps = np.exp(np.where(mask, shift(scores, mask), scores.dtype.type(-np.inf)))
            if row:  # what a query that may look at nothing gets
                exps = np.where(mask.any(axis=-1, keepdims=True), exps, exps.dtype.type(row))
            return out(last(exps, by(total(exps, scores, mask)), v.astype(exps.dtype)))

    return attended


def _half_case(
    n_q: int, n_k: int, d: int, *, top: float, hidden: str = "", lead: tuple[int, ...] = (),
    even: bool = False, near: bool = False,
) -> Callable[[int], dict[str, Any]]:  # fmt: skip
    """Draw queries and keys whose largest score is about `top`."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 17, n_q, n_k, d, int(top)])
        q, k = draw(rng, *lead, n_q, d), draw(rng, *lead, n_k, d)
        if even:
            q, k = np.ones_like(q), np.ones_like(k)
        while (q @ k.swapaxes(-2, -1)).max() < 0.5:
            q, k = draw(rng, *lead, n_q, d), draw(rng, *lead, n_k, d)
        largest = (q @ k.swapaxes(-2, -1)).max() / math.sqrt(d)
        q = q * math.sqrt(top / largest)
        k = k * math.sqrt(top / largest)
        if near:  # scores that differ by less than what float16 rounds
            best = (q @ k.swapaxes(-2, -1)).max(axis=-2).argmax()
            k = k[best] + draw(rng, n_k, d, spread=3.0) / 100
        scores = q @ k.swapaxes(-2, -1) / math.sqrt(d)
        mask = np.ones((n_q, n_k), dtype=bool)
        if "some" in hidden:
            mask = partial_mask(rng, n_q, n_k)
            row = scores.max(axis=1).argmax()  # what's large in it is hidden
            mask[row] = scores[row] <= np.sort(scores[row])[1]
        if "row" in hidden:
            mask[1] = False
        return {
            "q": q.astype(np.float16),
            "k": k.astype(np.float16),
            "v": draw(rng, *lead, n_k, 3).astype(np.float16),
            "mask": mask,
        }

    return build


def _many_keys(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 21])
    n = 70_000
    return {
        "q": np.zeros((1, 1), dtype=np.float16),
        "k": draw(rng, n, 1).astype(np.float16),
        "v": (2 + draw(rng, n, 2)).astype(np.float16),
        "mask": np.ones((1, n), dtype=bool),
    }


_HALF_CASES = [
    case("scores near 1 | nothing overflows", _half_case(2, 3, 4, top=1.0)),
    case("8 scores of 9.5 | each exponential has room, their sum hasn't",
         _half_case(1, 8, 4, top=9.5, even=True)),
    case("a score of 20 | e²⁰ has no room in 16 bits", _half_case(2, 4, 4, top=20.0, lead=(2,))),
    case("scores near 300 | nor has e³⁰⁰ in 32", _half_case(3, 4, 4, top=300.0, near=True)),
    case("a product of 160,000 | it has no room, and the score of 20,000 has",
         _half_case(3, 3, 64, top=20_000.0)),
    case("some hidden | the largest score may be among them",
         _half_case(4, 6, 4, top=400.0, hidden="some")),
    case("a query that may look at nothing | zeros", _half_case(3, 4, 4, top=2.0, hidden="row")),
    case("70,000 equal scores | 16 bits can't count so far", _many_keys),
]  # fmt: skip

_BITS = [
    right({"first": _wide}),
    Step(
        "the product in 16 bits",
        {"first": _as_it_is},
        "scores near 300 have an error of up to 0.125, and a score of 20,000 is infinite",
        "Which is the first array that can't hold what's computed?",
        fault=True,
    ),
    Step(
        "scaled first, in 16 bits",
        {"first": _as_it_is, "product": _scaled_early},
        "products have room, as you scale before them, and they're rounded to float16 still: near "
        "300 one is off by up to 0.125, and its exponential by an eighth",
        "Which arrays have to be in float32 before they're multiplied?",
    ),
]
_SHIFTS = [
    right(_peak),
    Step(
        "no maximum subtracted",
        lambda scores, mask: scores,
        "exponentials of large scores are infinite, in every type of number",
        "Which change of a row's scores leaves its weights as they are?",
        fault=True,
    ),
    Step(
        "one maximum for all rows",
        _peak_of_array,
        "the largest score of the whole array is subtracted from every row, so that a row of small "
        "ones becomes zeros",
        "Along which axis do weights sum to 1?",
    ),
    Step(
        "the maximum of hidden ones too",
        _peak_of_all,
        "hidden scores count for the maximum, so that a row whose largest is hidden can become "
        "zeros",
        "What is to be hidden before the maximum is taken?",
    ),
]
_TOTALS = [
    right(_divide),
    Step(
        "divided by 0",
        _as_it_is,
        "a query that may look at nothing gets NaN",
        "What are its largest score, and the sum of its exponentials?",
        fault=True,
    ),
]


def _cut_off(at: float, *, wide: bool, zeros: bool) -> Misconception:
    """Return the mistake that cuts scores off where exponentials would leave a type of number."""
    where = f"cut off at {at:g} in {32 if wide else 16} bits{'' if zeros else ', divided by 0'}"
    said = "You cut scores off, so that exponentials have room. What lies above is all alike, then"
    said += "" if wide else ", and in 16 bits their sum may have no room still"
    said += "." if zeros else ". And a query that may look at nothing gets NaN."
    program = _halves(
        first=_wide if wide else _as_it_is,
        then=lambda scores: np.minimum(scores, scores.dtype.type(at)),
        shift=lambda scores, mask: scores,
        by=_divide if zeros else _as_it_is,
    )
    return wrong(program, f"{where} | {said} → What can be subtracted from all scores of a row?")


_CUT_OFF = [
    _cut_off(at, wide=wide, zeros=zeros)
    for zeros in (True, False)
    for at, wide in ((11, True), (88, True), (11, False))
]


def _built(bits: dict[str, Any], shift: Any, by: Any) -> Callable[..., Any]:
    return _halves(**bits, shift=shift, by=by)


_HALF_WRONG = [
    wrong(
        attention_in_half_broken,
        "the program as it was | This is what the broken program returns. Scores near 1 come out "
        "right; eight of 9.5 give zeros; larger ones NaN, and so does a query that may look at "
        "nothing. → Which is the first array in which ∞ stands?",
        program=as_cell(attention_in_half_broken, "attention_in_half"),
    ),
    # without a maximum subtracted it's all one how the product overflows
    *[
        mistake
        for mistake in half_repaired(_built, bits=_BITS, shift=_SHIFTS, by=_TOTALS)
        if not ("scaled first" in mistake.name and "no maximum" in mistake.name)
    ],
    wrong(
        _halves(seen=lambda mask: np.ones_like(mask)),
        "nothing hidden | Nothing overflows any more, and queries look at everything. → Which line "
        "uses the mask?",
    ),
    wrong(
        _halves(seen=lambda mask: ~mask),
        "the mask turned round | Nothing overflows any more, and queries look at what they may "
        "not. → What does True mean in the mask?",
    ),
    wrong(
        _halves(product=lambda q, k: q @ k.swapaxes(-2, -1)),
        "no scale | Nothing overflows any more, and scores aren't divided by √d. → Which lines of "
        "the broken program were right?",
    ),
    wrong(
        _halves(row=1.0),
        "all weights alike | A query that may look at nothing gets the mean of all values: hidden "
        "scores are large negative numbers with you, all the same. → What becomes of a number that "
        "is far below 0 if the largest of its row is subtracted?",
    ),
    wrong(
        _halves(
            total=lambda exps, scores, mask: np.exp(_peak_of_all(scores, mask)).sum(
                axis=-1, keepdims=True
            ),
            shift=_peak_of_all,
        ),
        "hidden ones in the sum | Weights are cut off after they've been made, so that the rest no "
        "longer sums to 1. → What is to be hidden before anything is added?",
    ),
    wrong(
        _halves(shift=lambda scores, mask: scores - (scores * mask).mean(axis=-1, keepdims=True)),
        "too little subtracted | You subtract something from each row, perhaps its mean or its "
        "smallest score, and what lies far above that is too large still. → After which "
        "subtraction is no exponential above 1?",
    ),
    wrong(
        _halves(
            shift=lambda scores, mask: (
                scores - np.maximum(np.where(mask, scores, -np.inf).max(axis=-1, keepdims=True), 0)
            )
        ),
        "a maximum of at least 0 | Your maximum can't be below 0: a row of very low scores becomes "
        "zeros. → With which number does a search for a maximum begin?",
    ),
    wrong(
        _halves(then=lambda scores: np.minimum(scores, scores.dtype.type(80))),
        "cut off at 80 | You cut scores off where float32 ends, so that exponentials have room. "
        "All above are the same to you, then. → What can be subtracted from all scores of a row?",
    ),
    *_CUT_OFF,
    wrong(
        _halves(shift=lambda scores, mask: scores, out=lambda y: np.nan_to_num(y).astype(y.dtype)),
        "NaN made 0 | You make zeros of NaN at the end. A query that may look at nothing is right "
        "then, and rows that have overflowed are zeros, too. → Where does the first ∞ come from?",
    ),
    wrong(
        _halves(
            shift=lambda scores, mask: (
                scores - np.where(mask, scores, -np.inf).max(axis=-2, keepdims=True)
            )
        ),
        "the maximum of a column | You subtract from each *column* its largest score, which "
        "changes the weights. → Along which axis do weights sum to 1?",
    ),
    wrong(
        _halves(product=lambda q, k: q @ k.swapaxes(-2, -1) / q.shape[-1]),
        "divided by d | Nothing overflows any more, and scores are divided by d. → Which lines of "
        "the broken program were right?",
    ),
    wrong(
        _halves(
            total=lambda exps, scores, mask: exps.astype(np.float16).sum(axis=-1, keepdims=True)
        ),
        "the sum in 16 bits | Your exponentials are right, and their sum is made, or kept, in "
        "float16, where one of 70,000 ones is infinite. → Which type of number has the sum?",
    ),
    wrong(
        _halves(last=lambda e, total, v: (e @ v).astype(np.float16) / total.astype(np.float16)),
        "divided in 16 bits | You round to float16 before you divide, and the sum of many values "
        "has no room there. → Which line is the last that may be rounded?",
    ),
    wrong(
        _halves(then=lambda s: s / np.maximum(np.abs(s).max(axis=-1, keepdims=True), 1e-9)),
        "divided by the maximum | You *divide* by the largest score, which makes weights nearly "
        "even. → What changes all exponentials by the same factor?",
    ),
]


def _half_wide(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Compute everything in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
    return (softmax(np.where(mask, scores, -np.inf)) @ v).astype(np.float16)


def _half_rows(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Go query by query over the keys that may be looked at."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]), dtype=np.float16)
    for i, row in enumerate(mask):
        if row.any():
            keys = k[..., row, :].astype(np.float32)
            scores = (keys @ q[..., i, :, None].astype(np.float32))[..., 0] / q.shape[-1] ** 0.5
            e = np.exp(scores - scores.max(axis=-1, keepdims=True)).astype(np.float32)
            shares = e / e.sum(axis=-1, keepdims=True)
            out[..., i, :] = (shares[..., None, :] @ v[..., row, :].astype(np.float32))[..., 0, :]
    return out


def _half_torch(q: Any, k: Any, v: Any, mask: Any) -> Any:
    import torch

    scores = q.float() @ k.float().mT / q.shape[-1] ** 0.5
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1).nan_to_num(0.0)
    return (weights @ v.float()).half()


HALF = Exercise(
    id="15.bug_half",
    function="attention_in_half",
    reference=attention_in_half,
    cases=_HALF_CASES,
    misconceptions=_HALF_WRONG,
    alternatives=[
        ("float64", _half_wide),
        ("query by query", _half_rows),
        Alternative(name="torch", right=_half_torch, backend="torch"),
    ],
    hints=[
        "Print the scores, the exponentials and their sums, case by case: where is the first that "
        "is infinite, or 0?",
        "float16 has three digits and ends at 65,504; float32 has seven and ends after e⁸⁸. Which "
        "of products, exponentials and sums can leave which of them?",
        "A row's weights stay the same if one number is subtracted from all its scores: which one "
        "leaves no exponential above 1, hidden ones left out? And what if all are hidden?",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)

#: The programs that the debugging exercises begin with.
BROKEN: dict[str, Callable[..., Any]] = {
    "15.bug_marks": marks_broken,
    "15.bug_company": sentence_means_broken,
    "15.bug_half": attention_in_half_broken,
}
