"""The broken program of chapter 09: a decoder whose outputs know of later tokens in three ways.

Every misconception here is a repair that stopped half-way, or one that broke something else.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.exercises.norms import standard
from course_lib.grading.model import Alternative, Exercise, Misconception

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BROKEN", "PEEK", "decoder_block", "decoder_block_broken"]


def decoder_block(
    x: NDArray, memory: NDArray, src_mask: NDArray, w_self: NDArray, w_cross: NDArray
) -> NDArray:
    """Let target tokens ask those before them, then the source: one head, the norms first.

    Parameters
    ----------
    x : float array, (..., n_tgt, d)
    memory : float array, (..., n_src, d)
    src_mask : boolean array, (..., 1, n_src)
        True at the source's tokens, False at padding.
    w_self, w_cross : float arrays, (4, d, d)
        W_Q, W_K, W_V and W_O, each (d_in, d_out).

    Returns
    -------
    float array, (..., n_tgt, d)
    """
    return _block()(x, memory, src_mask, w_self, w_cross)


def decoder_block_broken(
    x: NDArray, memory: NDArray, src_mask: NDArray, w_self: NDArray, w_cross: NDArray
) -> NDArray:
    """Do the same, as the exercise's notebook shows it: with three faults."""

    def norm(y):  # type: ignore[no-untyped-def]
        centred = y - y.mean(axis=(-2, -1), keepdims=True)
        variance = (centred**2).mean(axis=(-2, -1), keepdims=True)
        return centred / np.sqrt(variance + 1e-5)

    def attend(asking, asked, mask, w):  # type: ignore[no-untyped-def]
        q, k, v = asking @ w[0], asked @ w[1], asked @ w[2]
        scores = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = exps / exps.sum(axis=-1, keepdims=True)
        return np.where(mask, weights, 0.0) @ v @ w[3]

    causal = np.tri(x.shape[-2], k=1, dtype=bool)
    x = x + attend(norm(x), norm(x), causal, w_self)
    return x + attend(norm(x), memory, src_mask, w_cross)


def _softmax(scores: NDArray) -> NDArray:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _late(scores: NDArray, mask: NDArray) -> NDArray:
    return np.where(mask, _softmax(scores), 0.0)


def _right(scores: NDArray, mask: NDArray) -> NDArray:
    return _softmax(np.where(mask, scores, -np.inf))


def _zero(scores: NDArray, mask: NDArray) -> NDArray:
    return _softmax(np.where(mask, scores, 0.0))


def _block(
    seen: Callable[[int], NDArray] = lambda n: np.tri(n, dtype=bool),
    weigh: Callable[[NDArray, NDArray], NDArray] = _right,
    norm: Callable[[NDArray], NDArray] = standard,
    of_memory: Callable[[NDArray], NDArray] = lambda memory: memory,
    source: Callable[[NDArray], NDArray] = lambda src_mask: src_mask,
    cross_norm: Callable[[NDArray], NDArray] | None = None,
    scale: Callable[[int], float] = lambda d: float(np.sqrt(d)),
    cross_weigh: Callable[[NDArray, NDArray], NDArray] | None = None,
) -> Callable[..., Any]:
    """Return the block with some steps replaced."""

    def block(
        x: NDArray, memory: NDArray, src_mask: NDArray, w_self: NDArray, w_cross: NDArray
    ) -> Any:
        def attend(a: NDArray, b: NDArray, mask: NDArray, w: NDArray, rule: Any) -> NDArray:
            scores = (a @ w[0]) @ (b @ w[1]).swapaxes(-2, -1) / scale(a.shape[-1])
            return rule(scores, mask) @ (b @ w[2]) @ w[3]

        with np.errstate(all="ignore"):
            y = x + attend(norm(x), norm(x), seen(x.shape[-2]), w_self, weigh)
            asking = (cross_norm or norm)(y)
            rule = cross_weigh or weigh
            return y + attend(asking, of_memory(memory), source(src_mask), w_cross, rule)

    return block


def _drawn(
    *lead: int, n_tgt: int, n_src: int, d: int, lengths: tuple[int, ...]
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, *lead, n_tgt, n_src])
        real = (np.arange(n_src) < np.array(lengths)[:, None])[:, None, :]  # (b, 1, n_src)
        return {
            "x": draw(rng, *lead, n_tgt, d) + 0.3,
            "memory": draw(rng, *lead, n_src, d),
            "src_mask": real if lead else real[0],
            "w_self": draw(rng, 4, d, d, spread=0.7),
            "w_cross": draw(rng, 4, d, d, spread=0.7),
        }

    return build


_CASES = [
    case(
        "one target token, 2 source tokens | nothing to peek at",
        _drawn(n_tgt=1, n_src=2, d=3, lengths=(2,)),
    ),
    case(
        "one target token, a source of 2 with padding | the padding has no say",
        _drawn(n_tgt=1, n_src=4, d=3, lengths=(2,)),
    ),
    case(
        "2 target tokens | the first knows nothing of the second",
        _drawn(n_tgt=2, n_src=3, d=4, lengths=(3,)),
    ),
    case(
        "4 target tokens, a source with padding | everything together",
        _drawn(n_tgt=4, n_src=5, d=3, lengths=(3,)),
    ),
    case(
        "2 pairs, one source padded | a batch",
        _drawn(2, n_tgt=3, n_src=4, d=6, lengths=(4, 2)),
    ),
]


def _no_diagonal(n: int) -> NDArray:
    return np.tri(n, k=-1, dtype=bool)


def _only_later(n: int) -> NDArray:
    return ~np.tri(n, dtype=bool)


def _over_all(y: NDArray) -> NDArray:
    return standard(y, axis=(-2, -1))


def _mean_of_all(y: NDArray) -> NDArray:
    centred = y - y.mean(axis=(-2, -1), keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def _deviation_of_all(y: NDArray) -> NDArray:
    centred = y - y.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=(-2, -1), keepdims=True) + 1e-5)


def _norms_last(x: NDArray, memory: NDArray, src_mask: NDArray, w_self: Any, w_cross: Any) -> Any:
    causal = np.tri(x.shape[-2], dtype=bool)

    def attend(a: NDArray, b: NDArray, mask: NDArray, w: NDArray) -> NDArray:
        scores = (a @ w[0]) @ (b @ w[1]).swapaxes(-2, -1) / np.sqrt(a.shape[-1])
        return _right(scores, mask) @ (b @ w[2]) @ w[3]

    y = standard(x + attend(x, x, causal, w_self))
    return standard(y + attend(y, memory, src_mask, w_cross))


def _one_pair(x: Any, memory: Any, src_mask: Any, w_self: Any, w_cross: Any) -> Any:
    if x.ndim > 2:
        raise ValueError("too many values to unpack (expected 2)")
    return _block()(x, memory, src_mask, w_self, w_cross)


def _source_causal(x: Any, memory: Any, src_mask: Any, w_self: Any, w_cross: Any) -> Any:
    seen = src_mask & np.tri(x.shape[-2], memory.shape[-2], dtype=bool)
    return _block()(x, memory, seen, w_self, w_cross)


def _by_feature(y: NDArray) -> NDArray:
    return standard(y, axis=-2)


# What a repaired, or half repaired, line does: (name, function, what is said of it, next step).
# None says that the line is right.
_Step = tuple[str, Any, str, str]
_MASKS: list[_Step] = [
    ("", lambda n: np.tri(n, dtype=bool), "", ""),
    (
        "one token ahead",
        lambda n: np.tri(n, k=1, dtype=bool),
        "every target token sees the one after it",
        "Which diagonal is the last that a token may see?",
    ),
    (
        "the diagonal hidden",
        _no_diagonal,
        "no target token sees itself, and the first one sees nothing at all",
        "Which tokens may token 0 see?",
    ),
    (
        "the mask turned",
        lambda n: ~np.tri(n, k=-1, dtype=bool),
        "target tokens see what comes after them and not what came before",
        "What does a 1 in row i and column j of `np.tri` mean?",
    ),
    (
        "only later tokens",
        _only_later,
        "target tokens see what comes after them and nothing else, so the last one sees nothing",
        "What does a 1 in row i and column j of `np.triu` mean?",
    ),
    (
        "all visible",
        lambda n: np.ones((n, n), dtype=bool),
        "every target token sees the whole target",
        "Which tokens may token 0 see?",
    ),
]
_HIDING: list[_Step] = [
    ("", _right, "", ""),
    (
        "masked after the softmax",
        _late,
        "weights are hidden after the softmax, so that what is hidden still has its share of the "
        "sum that they're divided by",
        "What has to be hidden, and by which score, so that the sum doesn't know of it?",
    ),
    (
        "hidden scores of 0",
        _zero,
        "hidden scores are set to 0, which is an ordinary score and gets its share",
        "Which score becomes a weight of 0?",
    ),
]
_NORMS: list[_Step] = [
    ("", standard, "", ""),
    (
        "a norm over all tokens",
        _over_all,
        "the norm takes mean and variance over all target tokens, later ones among them",
        "Over which axis does layer norm go?",
    ),
    (
        "a norm over tokens, for each feature",
        _by_feature,
        "the norm compares tokens with one another, feature by feature",
        "Which axis holds the numbers of one token?",
    ),
    (
        "no norm",
        lambda y: y,
        "the norm has gone with its fault",
        "What does a sublayer see in x + f(LN(x))?",
    ),
]
_FAULTS = {"one token ahead", "masked after the softmax", "a norm over all tokens"}


def _half_repaired() -> list[Misconception]:
    """Return one misconception for each way in which three lines can be left, but the right one."""
    found = []
    for steps in product(_MASKS, _HIDING, _NORMS):
        (_, seen, *_), (_, weigh, *_), (_, norm, *_) = steps
        bad = [step for step in steps if step[0]]
        if not bad or {step[0] for step in bad} == _FAULTS:
            continue
        spreading = norm in (_over_all, _by_feature)
        if seen is _no_diagonal and norm is _by_feature:  # both norms spread the same NaN
            continue
        if seen is _only_later and weigh is _right and spreading:  # and the same once more
            continue
        names, said = [step[0] for step in bad], [step[2] for step in bad]
        if len(bad) == 1 and names[0] in _FAULTS:
            start = "One fault is left: "
        elif set(names) <= _FAULTS:
            start = "Two faults are left: "
        else:
            start = "Something is still wrong here: " if len(bad) == 1 else "Still wrong here: "
        text = f"{'; '.join(said)}"
        found.append(
            wrong(
                _block(seen=seen, weigh=weigh, norm=norm),
                f"{', '.join(names)} | {start}{text}. → {bad[0][3]}",
            )
        )
    return found


_WRONG = [
    wrong(
        decoder_block_broken,
        "the program as it was | This is what the broken program returns: every target token sees "
        "the one after it; weights are hidden after the softmax, so that what is hidden still has "
        "its share of the sum; and the norm takes mean and variance over all target tokens. → "
        "Which of the three shows if you change the last token and look at the one before?",
        program=as_cell(decoder_block_broken, "decoder_block"),
    ),
    *_half_repaired(),
    wrong(
        _block(source=lambda src_mask: np.ones_like(src_mask)),
        "the source's mask is gone | The target no longer peeks, but it sees the source's padding "
        "now, which the broken program's mask was for. → Which mask belongs to cross-attention?",
    ),
    wrong(
        _block(norm=_mean_of_all),
        "the mean of all tokens | One half of a fault is left: the norm's variance is that of one "
        "token now, and its mean is still taken over all of them. → Over which axis is each of the "
        "two taken?",
    ),
    wrong(
        _block(norm=_deviation_of_all),
        "the variance of all tokens | One half of a fault is left: the norm's mean is that of one "
        "token now, and its variance is still taken over all of them. → Over which axis is each of "
        "the two taken?",
    ),
    wrong(
        _one_pair,
        "a batch has one more axis | For one pair you're right. In a batch there's one more axis "
        "in front, and a line of yours doesn't reckon with it: it unpacks two lengths, takes "
        "`len`, or counts axes from the front. → Which numbers name tokens and widths however many "
        "axes there are in front?",
    ),
    wrong(
        _source_causal,
        "a causal mask in cross-attention | The target no longer peeks, but it doesn't see all of "
        "the source either: token t sees the source's first t + 1 tokens. → Is the source there "
        "before the target is written?",
    ),
    wrong(
        _norms_last,
        "the norms last | this exercise uses norms before the sublayers, as the broken program "
        "does; you normalise the sums. → What does a sublayer see in x + f(LN(x))?",
        variant=True,
    ),
    wrong(
        _block(of_memory=standard),
        "the memory normalised | The target no longer peeks, but you normalise the memory too. The "
        "broken program left it alone. → Which of cross-attention's two inputs has just been added "
        "to?",
    ),
    wrong(
        _block(cross_norm=lambda y: y),
        "no norm before cross-attention | The target no longer peeks, but what asks the source is "
        "not normalised. → What did the broken program pass to its second `attend`?",
    ),
    wrong(
        _block(scale=lambda d: 1.0),
        "not scaled | The target no longer peeks, but scores aren't divided by anything now. → "
        "What did the broken program divide them by?",
    ),
    wrong(
        _block(cross_weigh=_late),
        "masked too late in cross-attention | The target no longer peeks. In cross-attention the "
        "source's padding is still hidden after the softmax, so that weights don't sum to 1. → Do "
        "both attentions hide scores in the same way?",
    ),
    wrong(
        _block(norm=lambda y: standard(y, ddof=1)),
        "variance over d − 1 | The target no longer peeks, but your norm divides by d − 1 when it "
        "averages squares. → By what did the broken program divide?",
    ),
]


def _renormalised(x: Any, memory: Any, src_mask: Any, w_self: Any, w_cross: Any) -> Any:
    """Hide weights, then divide by the sum of those that are left."""

    def rule(scores: Any, mask: Any) -> Any:
        e = np.exp(scores) * mask
        return e / e.sum(axis=-1, keepdims=True)

    return _block(weigh=rule)(x, memory, src_mask, w_self, w_cross)


def _prefix_by_prefix(x: Any, memory: Any, src_mask: Any, w_self: Any, w_cross: Any) -> Any:
    """Run the block on each beginning of the target, where there's no future to see."""
    everything = _block(seen=lambda n: np.ones((n, n), bool))
    rows = [
        everything(x[..., : t + 1, :], memory, src_mask, w_self, w_cross)[..., -1, :]
        for t in range(x.shape[-2])
    ]
    return np.stack(rows, axis=-2)


def _by_torch(x: Any, memory: Any, src_mask: Any, w_self: Any, w_cross: Any) -> Any:
    from torch.nn import functional

    def norm(y: Any) -> Any:
        return functional.layer_norm(y, y.shape[-1:])

    def attend(a: Any, b: Any, w: Any, **mask: Any) -> Any:
        return functional.scaled_dot_product_attention(a @ w[0], b @ w[1], b @ w[2], **mask) @ w[3]

    x = x + attend(norm(x), norm(x), w_self, is_causal=True)
    mask = src_mask.expand(*x.shape[:-1], memory.shape[-2])
    return x + attend(norm(x), memory, w_cross, attn_mask=mask)


PEEK = Exercise(
    id="09.bug_peek",
    function="decoder_block",
    reference=decoder_block,
    cases=_CASES,
    returns=("output",),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="hidden weights, and a new sum", right=_renormalised),
        Alternative(name="one beginning after another", right=_prefix_by_prefix),
        Alternative(name="torch", right=_by_torch, backend="torch"),
    ],
    hints=[
        "Replace the last target token and see which outputs change. Then put `np.eye(n)` in the "
        "place of the causal mask, so that tokens see only themselves: what still changes?",
        "Three lines let the future in: one says who sees whom, one divides by a sum over "
        "everybody, one takes a mean over everybody.",
        "The mask's last diagonal is k = 0. Hidden scores become −∞ before the softmax. And each "
        "token is normalised by its own numbers, along the last axis.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)

#: The program that the debugging exercise begins with.
BROKEN: dict[str, Callable[..., Any]] = {"09.bug_peek": decoder_block_broken}
