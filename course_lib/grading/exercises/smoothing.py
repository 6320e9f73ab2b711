"""Label smoothing: the loss with padding, and its gradient by the logits.

Chapter 10's. Every misconception is the right computation with one thing wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import optimization as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LABEL_SMOOTHING", "SMOOTHING_GRADIENT", "smoothing_gradient"]


# -- what both share -------------------------------------------------------------------------------


def _log_softmax(logits: NDArray, axis: int = -1) -> NDArray:
    shifted = logits - logits.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _softmax(logits: NDArray, axis: int = -1) -> NDArray:
    return np.exp(_log_softmax(logits, axis))


def _naive_softmax(logits: NDArray) -> NDArray:
    e = np.exp(logits)
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _one_hot(targets: NDArray, v: int) -> NDArray:
    """Rows of zeros with a 1 at the target; where the target is no token, zeros alone."""
    return np.asarray(targets[..., None] == np.arange(v), dtype=float)


def _smoothed(one_hot: NDArray, epsilon: float) -> NDArray:
    return (1.0 - epsilon) * one_hot + epsilon / one_hot.shape[-1]


Smooth = Callable[[Any, float], Any]


def _to_the_others(one_hot: NDArray, epsilon: float) -> NDArray:
    """Leave 1 − ε to the right token and share ε among the others."""
    return np.where(one_hot > 0, 1.0 - epsilon, epsilon / (one_hot.shape[-1] - 1))


def _short_of_1(one_hot: NDArray, epsilon: float) -> NDArray:
    """Leave the right token 1 − ε and give ε/|V| to each other one, which is too little in sum."""
    return np.where(one_hot > 0, 1.0 - epsilon, epsilon / one_hot.shape[-1])


def _batch(lengths: list[int], n: int, v: int, pad: int = -100) -> Callable[[int], dict[str, Any]]:
    """Draw sequences of the given lengths, padded to n."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, *lengths, v])
        tokens = np.setdiff1d(np.arange(v), [pad])
        targets = rng.choice(tokens, (len(lengths), n))
        targets[np.arange(n) >= np.array(lengths)[:, None]] = pad
        return {"logits": draw(rng, len(lengths), n, v, spread=2.0), "targets": targets}

    return build


def _with(build: Callable[[int], dict[str, Any]], **more: Any) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {**build(seed), **more}


# -- 10.label_smoothing ----------------------------------------------------------------------------

_ONE = {"logits": np.array([[3.0, 0.0, 1.0, -1.0, 0.5]]), "targets": np.array([2])}
_THREE = {
    "logits": np.array([[2.0, 0.5, 1.0, 0.3], [0.5, 1.5, 0.1, 3.0], [0.2, 0.4, 2.5, 1.0]]),
    "targets": np.array([2, 1, 3]),
}

_LOSS_CASES = [
    case("3 positions, ε = 0 | the plain cross-entropy", {**_THREE, "epsilon": 0.0}),
    case(
        "one position, 5 tokens, ε = 0.1 | the right token has 0.92, each other one 0.02",
        {**_ONE, "epsilon": 0.1},
    ),
    case(
        "one sequence of 3 tokens, ε = 0.4 | the mean over its positions",
        {
            "logits": np.array([[2.0, 0.0, -1.0, 1.0], [0.0, 3.0, 1.0, 0.0], [1.0, 0.5, 0.0, 4.0]]),
            "targets": np.array([0, 2, 3]),
            "epsilon": 0.4,
        },
    ),
    case(
        "logits in the thousands | no overflow",
        {
            "logits": np.array([[1000.0, 999.0, 998.5], [-2000.0, -1999.0, -2001.0]]),
            "targets": np.array([1, 1]),
        },
    ),
    case(
        "logits far apart | a token held all but impossible costs its share of 900 nats",
        {
            "logits": np.array([[900.0, 0.0, 450.0, 5.0], [0.0, 1.0, 2.0, -700.0]]),
            "targets": np.array([0, 2]),
            "epsilon": 0.2,
        },
    ),
    case(
        "3 sequences of 4, 1 and 2 tokens, padded to 4 | padding counts in no part of the mean",
        _with(_batch([4, 1, 2], 4, 6), epsilon=0.3),
    ),
    case(
        "padding marked by 3 | `ignore_index` says which target doesn't count",
        _with(_batch([3, 2], 3, 5, pad=3), epsilon=0.2, ignore_index=3),
    ),
]


def _over_kept(costs: NDArray, kept: NDArray) -> Any:
    return costs[kept].mean()


def _loss(
    *,
    log_p: Callable[[NDArray], NDArray] = _log_softmax,
    smooth: Smooth = _smoothed,
    keep: Callable[[NDArray, int], NDArray] = lambda targets, ignore: targets != ignore,
    reduce: Callable[[NDArray, NDArray], Any] = _over_kept,
    cost: Callable[[NDArray, NDArray], NDArray] = lambda q, logp: -(q * logp).sum(axis=-1),
    share: Callable[[float], float] = lambda epsilon: epsilon,
    ids: Callable[[NDArray, int, int], NDArray] = lambda targets, ignore, v: targets,
) -> Callable[..., Any]:
    """Return the loss with some steps replaced; `cost` is a position's, from target and log p."""

    def loss(
        logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
    ) -> Any:
        with np.errstate(all="ignore"):
            v = logits.shape[-1]
            q = smooth(_one_hot(ids(targets, ignore_index, v), v), share(epsilon))
            return reduce(cost(q, log_p(logits)), keep(targets, ignore_index))

    return loss


def _entropy(q: NDArray) -> NDArray:
    return -(q * np.log(np.where(q > 0, q, 1.0))).sum(axis=-1)


def _uniform_part_everywhere(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Leave padding out of the right tokens' mean, and not out of the other."""
    surprise, kept = -_log_softmax(logits), targets != ignore_index
    right = (surprise * _one_hot(targets, logits.shape[-1])).sum(axis=-1)[kept].mean()
    return (1.0 - epsilon) * right + epsilon * surprise.mean()


def _padding_as_index(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Look −100 up among the columns before padding is dropped."""
    surprise, kept = -_log_softmax(logits), targets != ignore_index
    right = np.take_along_axis(surprise, targets[..., None], axis=-1)[..., 0]
    return ((1.0 - epsilon) * right + epsilon * surprise.mean(axis=-1))[kept].mean()


def _positions_of_one_sequence(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    surprise = -_log_softmax(logits)
    right = surprise[np.arange(len(targets)), targets]
    return ((1.0 - epsilon) * right + epsilon * surprise.mean(axis=-1))[
        targets != ignore_index
    ].mean()


def _by_sequence(costs: NDArray, kept: NDArray) -> Any:
    if costs.ndim < 2:
        return costs[kept].mean()
    return np.mean([c[k].mean() for c, k in zip(costs, kept, strict=True)])


def _even_part_of_padding_summed(costs: NDArray, kept: NDArray) -> Any:
    """Sum over all, when padding has no right token, and divide by what counts."""
    return costs.sum() / kept.sum()


def _parts(
    join: Callable[[NDArray, NDArray, NDArray, float], Any],
) -> Callable[..., Any]:
    """Return a loss from surprises (m, V), those of the right tokens (m,), logits (m, V) and ε."""

    def loss(
        logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
    ) -> Any:
        kept = targets != ignore_index
        surprise, ids = -_log_softmax(logits[kept]), targets[kept]
        right = surprise[np.arange(len(ids)), ids]
        return join(surprise, right, logits[kept], epsilon)

    return loss


def _all_pairs(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Pick every target's column at every position, which gives a table."""
    kept = targets != ignore_index
    surprise = -_log_softmax(logits)[kept]
    right = surprise[:, targets[kept]]
    return ((1.0 - epsilon) * right + epsilon * surprise.mean(axis=-1)).mean()


def _one_maximum(logits: NDArray) -> NDArray:
    x = logits - logits.max()
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _floored(least: float) -> Callable[[NDArray], NDArray]:
    return lambda logits: np.log(np.maximum(_softmax(logits), least))


def _without_keepdims(of: str) -> Callable[..., Any]:
    """Lose the axis of the maximum, of the sum, or of both."""

    def loss(
        logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
    ) -> Any:
        kept = targets != ignore_index
        x = logits[kept] - logits[kept].max(axis=-1, keepdims="maximum" not in of)
        log_total = np.log(np.exp(x).sum(axis=-1, keepdims="sum" not in of))
        q = _smoothed(_one_hot(targets[kept], logits.shape[-1]), epsilon)
        return (q * (log_total - x)).sum(axis=-1).mean()

    return loss


def _as_torch_wants_it(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Fail as torch.nn.functional.cross_entropy does, for which axis 1 is the vocabulary."""
    if logits.ndim > 2:
        raise RuntimeError("Expected target size")
    return _loss()(logits, targets, epsilon, ignore_index)


def _gathered_by_torch(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Fail as torch's gather does, with an index below 0."""
    if targets.min() < 0:
        raise RuntimeError("index -100 is out of bounds")
    return _loss()(logits, targets, epsilon, ignore_index)


_LOSS_WRONG = [
    *(
        wrong(
            _without_keepdims(of),
            f"no keepdims, {of} | Your function stops with an error, or mixes rows where there are "
            f"as many as columns: {of} of each row {'have' if ' and ' in of else 'has'} lost its "
            "axis. → Which argument keeps an axis with length 1?",
        )
        for of in ("the maximum", "the sum", "the maximum and the sum")
    ),
    wrong(
        _as_torch_wants_it,
        "axis 1 for the vocabulary | PyTorch's `cross_entropy` takes axis 1 for the vocabulary. In "
        "a batch of sequences that is the positions. → Which shape would put all positions into "
        "one axis?",
    ),
    wrong(
        _gathered_by_torch,
        "−100 as an index, in torch | `gather` stops with an error where a target is −100: padding "
        "is still there when the right token's column is looked up. → Which line should come "
        "first, the look-up or the selection of the positions that count?",
    ),
    wrong(
        _loss(reduce=lambda costs, kept: costs[kept].sum() / len(costs)),
        "divided by the number of sequences | With one sequence you're right; in a batch you "
        "divide by the number of sequences, not of real tokens. → How many positions did you add "
        "up?",
    ),
    wrong(
        _loss(smooth=lambda y, epsilon: (1.0 - epsilon) * y + epsilon / (y.shape[-1] - 1)),
        "divided by |V| − 1 | Your target sums to more than 1: every token, the right one too, "
        "gets ε/(|V| − 1). → Among how many tokens is ε shared, if the right one has a share?",
    ),
    wrong(
        _loss(reduce=_even_part_of_padding_summed),
        "the even part of padding added | Padded positions have no right token with you, but their "
        "even part is still in the sum; what you divide by leaves them out. → What should a padded "
        "position add to the sum?",
    ),
    wrong(
        _parts(lambda s, right, x, e: (1.0 - e) * right.mean() - e * s.mean()),
        "the sign of the even part | One of the two parts has the wrong sign: the even part makes "
        "your loss smaller. → Is a surprise, −log p, above or below 0?",
    ),
    wrong(
        _parts(lambda s, right, x, e: (1.0 - e) * right.mean() - e * x.mean()),
        "logits for logarithms in the even part | Your even part averages the logits themselves, "
        "before any softmax. → Of which numbers is the even part the mean?",
    ),
    wrong(
        _parts(lambda s, right, x, e: (1.0 - e) * right.mean() + e * np.log(s.shape[-1])),
        "a constant even part | Your even part is ε·log |V|, whatever the model says; so it "
        "teaches nothing. → With which probabilities are the even shares compared?",
    ),
    wrong(
        _all_pairs,
        "all columns at all positions | `surprise[:, targets]` picks every target's column at "
        "every position, and gives a table. → Which row goes with which target?",
    ),
    wrong(
        _loss(log_p=_one_maximum),
        "one maximum for all rows | You subtract the largest logit of all, so a row far below it "
        "underflows to zeros. → Which maximum belongs to a row?",
    ),
    wrong(
        _loss(log_p=lambda logits: _log_softmax(logits, axis=1)),
        "normalised over axis 1 | For one sequence you're right; in a batch, axis 1 holds the "
        "positions, not the tokens of the vocabulary. → How is the last axis counted?",
    ),
    wrong(
        _loss(log_p=np.log),
        "logits taken for probabilities | You take the logarithm of the logits themselves, which "
        "may be negative. → What makes probabilities of logits?",
    ),
    wrong(
        _loss(share=lambda epsilon: 0.0),
        "no smoothing | Your numbers are the plain cross-entropy's: only the right token has a "
        "share in your target. → Where does ε come in?",
    ),
    wrong(
        _loss(smooth=_to_the_others),
        "ε shared among the others | this exercise uses (1 − ε)·one-hot + ε/|V|; you leave exactly "
        "1 − ε to the right token and share ε among the |V| − 1 others. → Among how many tokens "
        "is ε shared here?",
        variant=True,
    ),
    wrong(
        _loss(smooth=_short_of_1),
        "the right token's share of ε forgotten | Your target sums to less than 1: the right token "
        "has 1 − ε, and ε/|V| goes to the others only. → To which tokens does ε/|V| go?",
    ),
    wrong(
        _loss(smooth=lambda y, epsilon: y + epsilon / y.shape[-1]),
        "1 − ε forgotten | Your target sums to 1 + ε: the shares are added, and nothing is taken "
        "from the right token. → By what is the one-hot part multiplied?",
    ),
    wrong(
        _loss(smooth=lambda y, epsilon: (1.0 - epsilon) * y + epsilon),
        "ε for every token | Every token gets all of ε in your target, or you sum over the tokens "
        "where a mean belongs. → Which share of ε does one of |V| tokens get?",
    ),
    wrong(
        _loss(smooth=lambda y, epsilon: (1.0 - epsilon) * y + 1.0 / y.shape[-1]),
        "1/|V| without ε | The even part of your target is 1/|V| whatever ε is; with ε = 0 your "
        "loss should be the plain cross-entropy. → By what is the even part multiplied?",
    ),
    wrong(
        _loss(share=lambda epsilon: 1.0 - epsilon),
        "ε and 1 − ε swapped | With ε = 0 you compute the mean over all tokens, and the right one "
        "doesn't matter. → Which of the two parts is the large one when ε is small?",
    ),
    wrong(
        _loss(smooth=lambda y, epsilon: (1.0 - epsilon) * y),
        "the even part forgotten | You take ε from the right token and give it to nobody, so your "
        "loss is the cross-entropy times 1 − ε. → Who gets what was taken away?",
    ),
    wrong(
        _loss(smooth=lambda y, epsilon: (1.0 - epsilon) * y + epsilon / 2),
        "two classes | You share ε between two outcomes, as with a yes or no; here it is shared "
        "among all tokens of the vocabulary. → What is the size of the last axis of `logits`?",
    ),
    wrong(
        _loss(share=lambda epsilon: 0.1),
        "ε is always 0.1 | With ε = 0.1 you're right, with another one not: the number seems to "
        "be written into your function. → Where does your function use `epsilon`?",
    ),
    wrong(
        _loss(reduce=lambda costs, kept: costs[kept].sum()),
        "the sum of the positions | Your loss grows with the number of positions: they are added "
        "up. → What makes batches of different sizes comparable?",
    ),
    wrong(
        _loss(reduce=lambda costs, kept: costs[kept].sum() / costs.size),
        "divided by the padded length | Padding is left out of your sum but not of what it's "
        "divided by, so a batch with more padding looks better. → How many positions did you add "
        "up?",
    ),
    wrong(
        _loss(
            keep=lambda targets, ignore: np.ones_like(targets, dtype=bool),
            ids=lambda targets, ignore, v: np.where(targets == ignore, 0, targets),
        ),
        "padding counted | Padded positions are in your mean, as if the first token of the "
        "vocabulary were right there. → Which positions have a target that counts?",
    ),
    wrong(
        _loss(keep=lambda targets, ignore: np.ones_like(targets, dtype=bool)),
        "padding counted for its even part | Padded positions have no right token with you, but "
        "they still count: in the even part of the target, or in the number of positions. → What "
        "should a padded position add to the sum, and to what it is divided by?",
    ),
    wrong(
        _uniform_part_everywhere,
        "the even part of padding | The right tokens' part leaves padding out, the even part "
        "doesn't: it's a mean over all positions. → On which positions should both parts be "
        "computed?",
    ),
    wrong(
        _loss(keep=lambda targets, ignore: targets != -100),
        "ignore_index is always −100 | You leave out −100, whatever is asked for. → Which argument "
        "says what marks padding?",
    ),
    wrong(
        _loss(keep=lambda targets, ignore: targets > 0),
        "padding is whatever isn't above 0 | You leave out every target that is 0 or less, but 0 "
        "is a token like any other unless `ignore_index` says so. → Which one comparison tells "
        "padding?",
    ),
    wrong(
        _padding_as_index,
        "−100 as an index | Your function stops with an error where a target is −100: padding is "
        "still there when the right token's column is looked up. → Which line should come first, "
        "the look-up or the selection of the positions that count?",
    ),
    wrong(
        _positions_of_one_sequence,
        "indexed for one sequence | `logits[np.arange(n), targets]` fits one sequence; with a "
        "batch axis in front it means something else, or is an error. → How do you pick one number "
        "from the last axis at every position, or first make one long list of positions?",
    ),
    wrong(
        _loss(reduce=_by_sequence),
        "the mean of each sequence first | You average within each sequence, then over the "
        "sequences, so a token of a short one counts more. → Over what does the definition "
        "average, once?",
    ),
    wrong(
        _loss(log_p=lambda logits: np.log(_naive_softmax(logits))),
        "no maximum subtracted | In the thousands your result is ∞ or NaN: exp overflows, or the "
        "logarithm meets a 0. → What can be subtracted from a row of logits without changing its "
        "softmax?",
    ),
    wrong(
        _loss(log_p=lambda logits: np.log(_softmax(logits))),
        "the logarithm of a softmax | Your softmax is stable, but where a probability is as small "
        "as e^(−900) it's 0 in the computer, and its logarithm −∞. → Can the logarithm be taken on "
        "paper, before any exp?",
    ),
    *(
        wrong(
            _loss(log_p=_floored(10.0**-k)),
            f"10^−{k} under the logarithm | You keep probabilities away from 0 by 10^−{k}, added "
            f"or as a lower limit, so that no token costs more than {k * 2.3026:.0f} nats or so. → "
            "Can the logarithm be taken on paper, before any exp?",
        )
        for k in (8, 9, 10, 12, 15, 16)
    ),
    wrong(
        _loss(log_p=lambda logits: _log_softmax(_softmax(logits))),
        "softmax twice | The softmax is applied to numbers that have been through one already, so "
        "that all tokens cost nearly the same. → What are logits: scores, or probabilities?",
    ),
    wrong(
        _loss(log_p=lambda logits: _log_softmax(logits, axis=0)),
        "normalised over axis 0 | Your probabilities sum to 1 over positions or sequences, not "
        "over the vocabulary. → Which axis of `logits` holds the tokens?",
    ),
    wrong(
        _loss(cost=lambda q, logp: (q * logp).sum(axis=-1)),
        "the sign | Your loss has the wrong sign: logarithms of probabilities are negative, a loss "
        "isn't. → What stands in front of the sum?",
    ),
    wrong(
        _loss(cost=lambda q, logp: -(q * logp).sum(axis=-1) / np.log(2)),
        "bits for nats | Your numbers are 1.44 times too large, which is what logarithms of base 2 "
        "do. → Which base does the course use?",
    ),
    wrong(
        _loss(cost=lambda q, logp: -(q * logp).mean(axis=-1)),
        "a mean over the vocabulary | Your loss is |V| times too small: target times surprise is "
        "averaged over the tokens, where it should be added up. → Does the formula divide by |V| "
        "once or twice?",
    ),
    wrong(
        _loss(cost=lambda q, logp: -(q * logp).sum(axis=-1) - _entropy(q)),
        "the divergence | this exercise uses the cross-entropy; yours is less by the target's "
        "own entropy, which is the KL divergence. It has the same gradient, and ends at 0. → Which "
        "part of your sum doesn't depend on the logits?",
        variant=True,
    ),
    wrong(
        _loss(reduce=lambda costs, kept: np.where(kept, costs, 0.0)),
        "a loss for each position | You return a number for each position, padding as 0; one is "
        "asked for. → What is done with the losses of the positions that count?",
    ),
    wrong(
        _loss(cost=lambda q, logp: -np.log((q * np.exp(logp)).sum(axis=-1))),
        "the logarithm of the mean | You average the probabilities by the target's shares and take "
        "one logarithm then; the cost is an average of logarithms. → What does the sum in the "
        "formula run over: p or log p?",
    ),
    wrong(
        lambda logits, targets, epsilon=0.1, ignore_index=-100: _loss()(
            np.where((targets == ignore_index)[..., None], 0.0, logits),
            np.where(targets == ignore_index, 0, targets),
            epsilon,
            -1,
        ),
        "padding's logits set to 0 | You set the logits at padding to 0, and then count those "
        "positions: each costs log |V|. → Which positions go into the mean?",
    ),
]


def _loss_loops(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    v, costs = logits.shape[-1], []
    for place in np.ndindex(targets.shape):
        if targets[place] == ignore_index:
            continue
        row = logits[place]
        top = row.max()
        log_total = top + np.log(sum(np.exp(x - top) for x in row))
        costs.append(
            sum(
                ((1 - epsilon) * (token == targets[place]) + epsilon / v) * (log_total - x)
                for token, x in enumerate(row)
            )
        )
    return sum(costs) / len(costs)


def _loss_by_logits(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Write it as log Σ exp minus the logits' own average by the target."""
    kept = targets != ignore_index
    z = logits[kept]
    top = z.max(axis=-1)
    log_total = top + np.log(np.exp(z - top[:, None]).sum(axis=-1))
    right = np.take_along_axis(z, targets[kept][:, None], axis=-1)[:, 0]
    return np.mean(log_total - (1 - epsilon) * right - epsilon * z.mean(axis=-1))


def _loss_masked_sums(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    real = (targets != ignore_index).astype(float)
    q = _smoothed(_one_hot(targets, logits.shape[-1]), epsilon)
    costs = -np.einsum("...v,...v->...", q, _log_softmax(logits))
    return (costs * real).sum() / real.sum()


def _loss_torch(logits: Any, targets: Any, epsilon: float = 0.1, ignore_index: int = -100) -> Any:
    from torch.nn import functional

    return functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        targets.reshape(-1),
        ignore_index=ignore_index,
        label_smoothing=epsilon,
    )


LABEL_SMOOTHING = Exercise(
    id="10.label_smoothing",
    function="label_smoothed_cross_entropy",
    reference=ref.label_smoothed_cross_entropy,
    cases=_LOSS_CASES,
    returns=("loss",),
    misconceptions=_LOSS_WRONG,
    alternatives=[
        ("loops", _loss_loops),
        ("by logits", _loss_by_logits),
        ("masked sums", _loss_masked_sums),
        Alternative(name="torch", right=_loss_torch, backend="torch"),
    ],
    hints=[
        "The loss of one position is a mixture: (1 − ε) times the surprise at the right token, "
        "plus ε times the mean surprise over all tokens. Surprise is −log p.",
        "Start with `kept = targets != ignore_index`. `logits[kept]` and `targets[kept]` are one "
        "long list of positions, without padding, whatever axes there were.",
        "log p is `x - log(sum(exp(x)))` over the last axis, with the row's maximum subtracted "
        "from x first. `surprise[np.arange(m), ids]` picks one column from each of m rows.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 10.smoothing_gradient -------------------------------------------------------------------------


def smoothing_gradient(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> NDArray:
    """Return the gradient of the label-smoothed cross-entropy by the logits.

    Parameters
    ----------
    logits : float array, (..., V)
    targets : integer array, (...)
    epsilon : float
    ignore_index : int
        Positions with this target have the gradient 0.

    Returns
    -------
    float array, (..., V)
    """
    return np.asarray(_gradient()(logits, targets, epsilon, ignore_index))


def _at_the_floor(seed: int) -> dict[str, Any]:
    """Give a model that holds nearly what the target says: 0.8 for one token, 0.1 for two."""
    p = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    return {"logits": np.log(p).round(2), "targets": np.array([0, 2]), "epsilon": 0.3}


_GRADIENT_CASES = [
    case(
        "3 positions, ε = 0 | a third of p, and of p less 1 at the right token",
        {**_THREE, "epsilon": 0.0},
    ),
    case("one position, ε = 0.1 | less the smoothed target", {**_ONE, "epsilon": 0.1}),
    case(
        "one sequence of 4 tokens, ε = 0.5 | each position has its part in the mean",
        _with(_batch([4], 4, 3), epsilon=0.5),
    ),
    case(
        "the right token at 0.8, ε = 0.3 of three | next to nothing is left to learn",
        _at_the_floor,
    ),
    case(
        "3 sequences of 4, 1 and 2 tokens, padded to 4 | nothing at padding",
        _with(_batch([4, 1, 2], 4, 6), epsilon=0.3),
    ),
    case(
        "padding marked by 3 | `ignore_index` says which target doesn't count",
        _with(_batch([3, 2], 3, 5, pad=3), epsilon=0.2, ignore_index=3),
    ),
    case(
        "logits in the thousands | no overflow",
        {
            "logits": np.array([[1000.0, 999.0, 10.0], [-2000.0, -1999.0, -2001.0]]),
            "targets": np.array([1, 1]),
        },
    ),
]


def _gradient(
    *,
    p: Callable[[NDArray], NDArray] = _softmax,
    smooth: Smooth = _smoothed,
    differ: Callable[[NDArray, NDArray], NDArray] = lambda p, q: p - q,
    keep: Callable[[NDArray, int], NDArray] = lambda targets, ignore: targets != ignore,
    divide: Callable[[NDArray, NDArray], Any] = lambda kept, g: kept.sum(),
    after: Callable[[NDArray, NDArray], Any] = lambda g, kept: g,
    share: Callable[[float], float] = lambda epsilon: epsilon,
) -> Callable[..., Any]:
    """Return the gradient with some steps replaced."""

    def gradient(
        logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
    ) -> Any:
        with np.errstate(all="ignore"):
            kept = keep(targets, ignore_index)
            q = smooth(_one_hot(targets, logits.shape[-1]), share(epsilon))
            g = np.where(kept[..., None], differ(p(logits), q), 0.0)
            return after(g / divide(kept, g), kept)

    return gradient


def _every_row(targets: NDArray, ignore: int) -> NDArray:
    return np.ones(targets.shape, dtype=bool)


def _touching(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Subtract the maximum in the caller's own array."""
    answer = _gradient()(logits, targets, epsilon, ignore_index)
    logits -= logits.max(axis=-1, keepdims=True)
    return answer


def _mask_without_an_axis(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    kept = targets != ignore_index
    q = _smoothed(_one_hot(targets, logits.shape[-1]), epsilon)
    return (_softmax(logits) - q) * kept / kept.sum()


def _by_parts(even: str) -> Callable[..., Any]:
    """Put the gradient together of (1 − ε)(p − y) and an even part."""

    def gradient(
        logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
    ) -> Any:
        kept, v = (targets != ignore_index)[..., None], logits.shape[-1]
        g = (1.0 - epsilon) * (_softmax(logits) - _one_hot(targets, v))
        g = g + {"none": 0.0, "constant": epsilon / v, "taken": -epsilon / v}[even]
        return np.where(kept, g, 0.0) / kept.sum()

    return gradient


def _indexed_by_padding(masked: bool) -> Callable[..., Any]:
    """Look the targets up in a table of one-hot rows, −100 among them."""

    def gradient(
        logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
    ) -> Any:
        v, kept = logits.shape[-1], targets != ignore_index
        g = _softmax(logits) - _smoothed(np.eye(v)[targets], epsilon)
        return np.where(kept[..., None], g, 0.0) / kept.sum() if masked else g / targets.size

    return gradient


def _padding_as_token_0(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    kept = targets != ignore_index
    q = _smoothed(_one_hot(np.where(kept, targets, 0), logits.shape[-1]), epsilon)
    return (_softmax(logits) - q) / kept.sum()


_GRADIENT_WRONG = [
    wrong(
        _indexed_by_padding(True),
        "−100 as an index | Your function stops with an error where a target is −100: padding is "
        "still there when one-hot rows are looked up. → Which line should come first, the look-up "
        "or the selection of the positions that count?",
    ),
    wrong(
        _indexed_by_padding(False),
        "−100 as an index, and nothing left out | Without padding you're right. With it, −100 is "
        "looked up like a token, which is an error, and other padding is learned from. → Which "
        "positions should get a gradient?",
    ),
    wrong(
        _padding_as_token_0,
        "padding taken for token 0 | Your padded positions have a gradient, towards token 0. You "
        "divide by the right number. → What should a position add to the loss if nothing is to be "
        "learned there?",
    ),
    wrong(
        _by_parts("none"),
        "the even part has no gradient | You take the even part of the loss for a constant, and "
        "return (1 − ε)(p − y). But ε times the mean surprise depends on the logits too. → What "
        "does it ask of a token that is held too improbable?",
    ),
    wrong(
        _by_parts("constant"),
        "ε/|V| added | You return (1 − ε)(p − y) + ε/|V|, whose rows don't sum to 0. → What is the "
        "derivative of the mean surprise, with its log Σ exp(x)?",
    ),
    wrong(
        _by_parts("taken"),
        "the even part without its softmax | You return (1 − ε)(p − y) − ε/|V|, whose rows don't "
        "sum to 0: the even part's own log Σ exp(x) is missing. → By what is p multiplied, if q "
        "sums to 1?",
    ),
    wrong(
        _gradient(p=lambda logits: logits, differ=lambda x, q: -q * (1.0 - _softmax(x))),
        "the other logits forgotten | You take the derivative of each log p_v by its own logit "
        "only, q_v(p_v − 1). But each logit is also in the log Σ exp(x) of the other tokens. → How "
        "many of the log p_v does one logit change?",
    ),
    wrong(
        _gradient(differ=lambda p, q: (p - q) * p * (1.0 - p)),
        "p(1 − p) too many | You multiply p − q by p(1 − p), as after a squared distance and a "
        "sigmoid. With the logarithm of the cross-entropy that factor cancels. → What is the "
        "derivative of log Σ exp(x)?",
    ),
    wrong(
        _gradient(differ=lambda p, q: -q * np.log(p)),
        "the parts of the loss | You return what each token adds to the loss, −q log p, not how "
        "the loss changes with its logit. → What is the derivative of log Σ exp(x) − Σ q x by one "
        "x?",
    ),
    wrong(
        _mask_without_an_axis,
        "a mask with an axis too few | Your function stops with an error: which positions count "
        "has the shape of `targets`, and can't be multiplied with arrays that have the "
        "vocabulary's axis too. → What adds an axis of length 1 at the end?",
    ),
    wrong(
        _gradient(differ=lambda p, q: q - p),
        "the sign | Your gradient points the other way: a step against it would make the right "
        "token less probable. → Which of the two is taken from which?",
    ),
    wrong(
        _gradient(share=lambda epsilon: 0.0),
        "no smoothing | This is the gradient of the plain cross-entropy: it pulls the right token "
        "towards probability 1. → Where does ε come in?",
    ),
    wrong(
        _gradient(smooth=_to_the_others),
        "ε shared among the others | this exercise uses (1 − ε)·one-hot + ε/|V|; you leave exactly "
        "1 − ε to the right token and share ε among the others. → Among how many tokens is ε "
        "shared here?",
        variant=True,
    ),
    wrong(
        _gradient(smooth=_short_of_1),
        "the right token's share of ε forgotten | Your rows don't sum to 0: the right token has "
        "1 − ε in your target, and ε/|V| goes to the others only. → To which tokens does ε/|V| go?",
    ),
    wrong(
        _gradient(smooth=lambda y, epsilon: (1.0 - epsilon) * y),
        "the even part forgotten | Your rows don't sum to 0, since your target sums to 1 − ε. → "
        "Who gets what was taken from the right token?",
    ),
    wrong(
        _gradient(smooth=lambda y, epsilon: y + epsilon / y.shape[-1]),
        "1 − ε forgotten | Your rows don't sum to 0, since your target sums to 1 + ε. → By what is "
        "the one-hot part multiplied?",
    ),
    wrong(
        _gradient(divide=lambda kept, g: 1.0),
        "not divided by the positions | This is the gradient of a sum over positions; the loss is "
        "their mean. → By what is the sum of the losses divided?",
    ),
    wrong(
        _gradient(divide=lambda kept, g: kept.size),
        "divided by the padded length | You divide by all positions, padding too; the loss "
        "averages over the others. → How many positions does the mean run over?",
    ),
    wrong(
        _gradient(divide=lambda kept, g: g.size),
        "divided by all numbers | You divide by the number of logits; what the loss averages are "
        "positions, not tokens of the vocabulary. → How many positions does the mean run over?",
    ),
    wrong(
        _gradient(divide=lambda kept, g: len(kept)),
        "divided by the batch size | You divide by the number of sequences, whatever their "
        "lengths. → How many positions does the mean run over?",
    ),
    wrong(
        _gradient(divide=lambda kept, g: kept.sum(axis=-1, keepdims=True)[..., None]),
        "each sequence by its own length | Each sequence is divided by its own number of tokens, "
        "so the gradient is that of a sum over sequences. → How many positions of the whole batch "
        "does the mean run over?",
    ),
    wrong(
        _gradient(keep=_every_row),
        "a gradient at padding | Your padded positions have a gradient, so the model would learn "
        "from them. → What should a position add to the loss if nothing is to be learned there?",
    ),
    wrong(
        _gradient(keep=_every_row, divide=lambda kept, g: np.float64(1.0)),
        "neither padding nor the mean | Two things: padded positions have a gradient, and nothing "
        "is divided by the number of positions. → Which positions count, and how many are they?",
    ),
    wrong(
        _gradient(keep=lambda targets, ignore: targets != -100),
        "ignore_index is always −100 | You leave out −100, whatever is asked for. → Which argument "
        "says what marks padding?",
    ),
    wrong(
        _gradient(p=_naive_softmax),
        "no maximum subtracted | In the thousands your softmax is NaN: exp of 1000 is more than a "
        "float can hold. → What can be subtracted from a row of logits without changing its "
        "softmax?",
    ),
    wrong(
        _gradient(p=lambda logits: _softmax(logits, axis=0)),
        "normalised over axis 0 | Your probabilities sum to 1 over positions or sequences, not "
        "over the vocabulary. → Which axis of `logits` holds the tokens?",
    ),
    wrong(
        _gradient(p=_log_softmax),
        "log p for p | You subtract the target from the *logarithms* of the probabilities. → What "
        "is the derivative of log Σ exp(x) by one of the x?",
    ),
    wrong(
        _gradient(p=lambda logits: logits),
        "logits for p | You subtract the target from the logits themselves, as if the loss were "
        "a squared distance. → What does a softmax make of the logits?",
    ),
    wrong(
        _gradient(differ=lambda p, q: -q / p),
        "the gradient by p | This is the derivative by the probabilities; the logits come before "
        "them. → What does the softmax between logits and probabilities do to a gradient?",
    ),
    wrong(
        _gradient(differ=lambda p, q: p - (q > q.min(axis=-1, keepdims=True)) * q),
        "only the right token's share subtracted | At the right token you're right; at the others "
        "nothing is subtracted. → What does the smoothed target hold at a wrong token?",
    ),
    wrong(
        _gradient(differ=lambda p, q: (p - q) * (q == q.max(axis=-1, keepdims=True))),
        "a gradient at the right token only | All but the right token have the gradient 0 with "
        "you. But their probabilities have to go down when its goes up. → What is the sum of a "
        "row of the gradient?",
    ),
    wrong(
        _gradient(after=lambda g, kept: g[kept]),
        "padding dropped | You return rows for the positions that count only. → What shape should "
        "a gradient have, beside what it's taken by?",
    ),
    wrong(
        _touching,
        "logits written into | The gradient is right, but the caller's logits have changed, as by "
        "`logits -= …` or `logits[…] = …`. → Which line makes a new array in its place?",
    ),
]


def _gradient_by_steps(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    """Raise and lower every logit by a little. Right to nine digits or so."""
    loss, step = _loss(), 1e-5
    gradient = np.zeros(logits.shape)
    for place in np.ndindex(logits.shape):
        sides = []
        for sign in (1, -1):
            moved = logits.copy()
            moved[place] += sign * step
            sides.append(loss(moved, targets, epsilon, ignore_index))
        gradient[place] = (sides[0] - sides[1]) / (2 * step)
    return gradient


def _gradient_rows(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    v, gradient = logits.shape[-1], np.zeros(logits.shape)
    for place in np.ndindex(targets.shape):
        if targets[place] != ignore_index:
            gradient[place] = _softmax(logits[place]) - epsilon / v
            gradient[place][targets[place]] -= 1 - epsilon
    return gradient / np.count_nonzero(targets != ignore_index)


def _gradient_of_kept(
    logits: NDArray, targets: NDArray, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    kept = targets != ignore_index
    gradient = np.zeros_like(logits)
    q = np.eye(logits.shape[-1])[targets[kept]] * (1 - epsilon) + epsilon / logits.shape[-1]
    gradient[kept] = (_softmax(logits[kept]) - q) / len(q)
    return gradient


def _gradient_torch(
    logits: Any, targets: Any, epsilon: float = 0.1, ignore_index: int = -100
) -> Any:
    import torch

    leaf = logits.clone().requires_grad_(True)
    with torch.enable_grad():
        _loss_torch(leaf, targets, epsilon, ignore_index).backward()
    return leaf.grad


SMOOTHING_GRADIENT = Exercise(
    id="10.smoothing_gradient",
    function="smoothing_gradient",
    reference=smoothing_gradient,
    cases=_GRADIENT_CASES,
    returns=("gradient",),
    misconceptions=_GRADIENT_WRONG,
    alternatives=[
        ("position by position", _gradient_rows),
        ("kept positions", _gradient_of_kept),
        Alternative(name="torch", right=_gradient_torch, backend="torch"),
    ],
    hints=[
        "Write one position's loss as log Σ exp(x) minus the average of the logits x by the "
        "target q. Its derivative by one logit has two parts.",
        "The derivative of log Σ exp(x) by x_i is the softmax p_i. So one position gives p − q. "
        "Then think of the mean over positions, and of padding.",
        "Make zeros of the logits' shape and fill the positions that count: `gradient[kept] = "
        "(p[kept] - q) / kept.sum()`.",
    ],
    points=4,
    minutes=25,
    difficulty=3,
)
