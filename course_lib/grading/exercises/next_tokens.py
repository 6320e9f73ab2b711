"""The exercises of chapter 13 about what a decoder is trained on, and about what looks at what.

Every misconception here is the right computation with one step wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import softmax
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.grading.values import is_tensor, to_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LOSS", "PROBE", "Probed", "next_token_loss", "probe"]


# -- 13.next_token_loss ----------------------------------------------------------------------------


def next_token_loss(
    logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray
) -> tuple[Any, Any]:
    """Return the loss of a decoder on packed texts, and what that is in bits per byte.

    Parameters
    ----------
    logits : float array, (b, n, V)
    ids : integer array, (b, n)
    documents : integer array, (b, n)
        Which text a token belongs to; −1 for padding.
    n_bytes : integer array, (V,)
        Of each token's text; 0 for what stands for none.

    Returns
    -------
    loss, bits_per_byte : float
    """
    loss, bits = _loss()(logits, ids, documents, n_bytes)
    return loss, bits


def _log_softmax(x: NDArray, axis: int = -1) -> NDArray:
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _taken(logs: NDArray, ids: NDArray) -> NDArray:
    return np.take_along_axis(logs, ids[..., None], axis=-1)[..., 0]


def _inside(documents: NDArray) -> NDArray:
    """Tell where a token and the next one belong to one text."""
    return (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] != -1)


def _mean(losses: NDArray, counts: NDArray) -> Any:
    return losses[counts].sum() / counts.sum()


def _of_targets(ids: NDArray, counts: NDArray, n_bytes: NDArray) -> Any:
    return n_bytes[ids[:, 1:][counts]].sum()


def _loss(
    *,
    logs: Callable[[NDArray], NDArray] = _log_softmax,
    pick: Callable[[NDArray, NDArray], NDArray] = lambda logs, ids: _taken(
        logs[:, :-1], ids[:, 1:]
    ),
    counted: Callable[[NDArray], NDArray] = _inside,
    mean: Callable[[NDArray, NDArray], Any] = _mean,
    size: Callable[[NDArray, NDArray, NDArray], Any] = _of_targets,
    bits: Callable[[Any, Any, Any], Any] = lambda loss, tokens, size: loss * tokens / log(2) / size,
    without: bool = False,
    returns: Callable[[Any, Any], Any] = lambda loss, bits: (loss, bits),
) -> Callable[..., Any]:
    """Return the loss with some steps replaced."""

    def computed(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
        with np.errstate(all="ignore"):
            losses, counts = -pick(logs(logits), ids), counted(documents)
            if without:
                counts = counts & (n_bytes[ids[:, 1:]] > 0)
            loss = mean(losses, counts)
            total = bits(loss, counts.sum(), size(ids, counts, n_bytes))
            return returns(loss, total)

    return computed


_V = 9
_BYTES = np.array([0, 1, 1, 3, 2, 5, 4, 2, 7])  # the first is <eos>


def _packed(
    *rows: str, spread: float = 1.0, shift: float = 0.0, plain: bool = False
) -> Callable[[int], dict[str, Any]]:
    """Draw texts from rows such as "AAAbb..": a letter for each text, dots for padding.

    The last token of a text that another one follows is <eos>, but for plain ones.
    """

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 5, len(rows), len(rows[0])])
        names = sorted(set("".join(rows)) - {"."})
        documents = np.array([[-1 if c == "." else names.index(c) for c in row] for row in rows])
        ids = rng.integers(1, _V, documents.shape)
        ends = documents[:, 1:] != documents[:, :-1]
        if not plain:
            ids[:, :-1][ends & (documents[:, :-1] >= 0)] = 0
        ids[documents < 0] = 0
        logits = (draw(rng, *ids.shape, _V, spread=spread) + shift).round(1)
        return {"logits": logits, "ids": ids, "documents": documents, "n_bytes": _BYTES}

    return build


_LOSS_CASES = [
    case("one text of 2 tokens | one token is predicted", _packed("AA")),
    case(
        "one text of 10 tokens in 2 rows | the first token of a row isn't predicted",
        _packed("AAAAA", "AAAAA"),
    ),
    case(
        "2 texts in one row | the first token of a text isn't predicted",
        _packed("AAAABBB", plain=True),
    ),
    case(
        "texts of 6, 4 and 2 tokens, padded | padding isn't predicted",
        _packed("AAAAAA", "BBBB..", "CC...."),
    ),
    case(
        "packed and padded, <eos> between | a token without bytes",
        _packed("AAABBBB.", "CCDDDDDD", "FFFFFEEE"),
    ),
    case("padding in front | padding predicts nothing", _packed("..AAAA", "BBBBBB")),
    case("a text that is one token long | it adds nothing", _packed("AAABCC")),
    case("logits near 1,000 | no overflow", _packed("AAAA", "BBB.", spread=20.0, shift=1000.0)),
]


def _plain_log(x: NDArray) -> NDArray:
    e = np.exp(x)
    return np.log(e / e.sum(axis=-1, keepdims=True))


def _not_padding(documents: NDArray) -> NDArray:
    return documents[:, 1:] != -1


def _same_text(documents: NDArray) -> NDArray:
    return documents[:, 1:] == documents[:, :-1]


def _all(documents: NDArray) -> NDArray:
    return np.ones((documents.shape[0], documents.shape[1] - 1), dtype=bool)


def _source_real(documents: NDArray) -> NDArray:
    return documents[:, :-1] != -1


def _one_early(documents: NDArray) -> NDArray:
    """Leave out the last prediction of each text, and keep the one across the border."""
    inside = _inside(documents)
    return np.concatenate([inside[:, 1:], inside[:, -1:]], axis=1)


def _by_rows(losses: NDArray, counts: NDArray) -> Any:
    return (np.where(counts, losses, 0.0).sum(axis=1) / counts.sum(axis=1)).mean()


def _unshifted(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    with np.errstate(all="ignore"):
        losses, counts = -_taken(_log_softmax(logits), ids), documents != -1
        loss = losses[counts].mean()
        return loss, losses[counts].sum() / log(2) / n_bytes[ids[counts]].sum()


def _flattened(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    flat = logits.reshape(1, -1, logits.shape[-1]), ids.reshape(1, -1), documents.reshape(1, -1)
    return _loss()(*flat, n_bytes)


def _twice(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    with np.errstate(all="ignore"):
        losses, targets = -_taken(_log_softmax(logits[:, :-2]), ids[:, 2:]), ids[:, 2:]
        counts = (documents[:, 2:] == documents[:, :-2]) & (documents[:, 2:] != -1)
        loss = losses[counts].sum() / counts.sum()
        return loss, losses[counts].sum() / log(2) / n_bytes[targets[counts]].sum()


def _rolled(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    """Shift with np.roll, so that the last place predicts the first token."""
    targets, others = np.roll(ids, -1, axis=1), np.roll(documents, -1, axis=1)
    losses = -_taken(_log_softmax(logits), targets)
    counts = (others == documents) & (documents != -1)
    return losses[counts].mean(), losses[counts].sum() / log(2) / n_bytes[targets[counts]].sum()


def _of_all_places(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    with np.errstate(all="ignore"):
        loss, bits = _loss()(logits, ids, documents, n_bytes)
    return loss * _inside(documents).mean(), bits


def _by_texts(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    losses = -_taken(_log_softmax(logits[:, :-1]), ids[:, 1:])
    counts = _inside(documents)
    texts = [losses[counts & (documents[:, 1:] == k)] for k in np.unique(documents[:, 1:][counts])]
    bits = losses[counts].sum() / log(2) / n_bytes[ids[:, 1:][counts]].sum()
    return np.mean([text.mean() for text in texts]), bits


def _only_loss_by_rows(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    return (
        _loss(mean=_by_rows)(logits, ids, documents, n_bytes)[0],
        _loss()(logits, ids, documents, n_bytes)[1],
    )


def _bits_by_mean_bytes(of: Callable[[NDArray, NDArray], NDArray]) -> Callable[..., Any]:
    """Return the loss, with its bits divided by the mean number of bytes of some tokens."""

    def computed(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
        loss, _ = _loss()(logits, ids, documents, n_bytes)
        return loss, loss / log(2) / n_bytes[of(ids, documents)].mean()

    return computed


def _by_real_tokens(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    loss, bits = _loss()(logits, ids, documents, n_bytes)
    return loss * _inside(documents).sum() / (documents != -1).sum(), bits


def _bits_by(tokens: Callable[[NDArray], Any]) -> Callable[..., Any]:
    """Return the loss, with its bits for another number of tokens."""

    def computed(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
        loss, bits = _loss()(logits, ids, documents, n_bytes)
        return loss, bits * tokens(documents) / _inside(documents).sum()

    return computed


def _bits_of_rows(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    loss, _ = _loss()(logits, ids, documents, n_bytes)
    rows = zip(logits, ids, documents, strict=True)
    return loss, np.mean([_loss()(*(x[None] for x in row), n_bytes)[1] for row in rows])


def _without_free_bits(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    return (
        _loss()(logits, ids, documents, n_bytes)[0],
        _loss(without=True)(logits, ids, documents, n_bytes)[1],
    )


def _mean_of_ratios(logits: NDArray, ids: NDArray, documents: NDArray, n_bytes: NDArray) -> Any:
    targets, counts = ids[:, 1:], _inside(documents)
    losses = -_taken(_log_softmax(logits[:, :-1]), targets)
    each = losses / log(2) / np.maximum(n_bytes[targets], 1)
    return losses[counts].mean(), each[counts].mean()


_LOSS_WRONG = [
    wrong(
        _unshifted,
        "not shifted | You score each token with the logits at its own place, where the model "
        "has already read it. → At which place is the token at t + 1 predicted?",
    ),
    wrong(
        _loss(
            pick=lambda logs, ids: _taken(logs[:, :-1], ids[:, :-1]),
            size=lambda ids, counts, n_bytes: n_bytes[ids[:, :-1][counts]].sum(),
        ),
        "the last place of both dropped | You've dropped the last place of `logits` and of `ids`, "
        "so that each token is still scored with the logits at its own place, where the model has "
        "already read it. → Which of the two loses its last place, and which its first?",
    ),
    wrong(
        _loss(pick=lambda logs, ids: _taken(logs[:, :-1], ids[:, :-1])),
        "the last place of both dropped, bytes of the next | You score each token with the logits "
        "at its own place, where the model has already read it; only its bytes are those of the "
        "next. → Which of `logits` and `ids` loses its last place, and which its first?",
    ),
    wrong(
        _loss(pick=lambda logs, ids: _taken(logs[:, 1:], ids[:, 1:])),
        "the first place of both dropped | You've dropped the first place of `logits` and of "
        "`ids`, so that each token is still scored with the logits at its own place, where the "
        "model has already read it. → Which of the two loses its last place, and which its first?",
    ),
    wrong(
        _flattened,
        "rows put end to end | You flatten the batch before you shift, so that the last token of a "
        "row predicts the first of the next row. The model reads each row alone. → Along which "
        "axis is shifted, and when may the batch be flattened?",
    ),
    wrong(
        _twice,
        "shifted twice | You score the token at t + 2 with the logits at t. That happens if ids "
        "that are shifted already are shifted once more. → How far behind its logits is the token "
        "that's predicted?",
    ),
    wrong(
        _loss(counted=lambda documents: _inside(documents) & (documents[:, 1:] > 0)),
        "text 0 taken for padding | You leave out the text with the number 0. Padding is −1. → "
        "Does your comparison with 0 hold for 0 itself?",
    ),
    wrong(
        _loss(pick=lambda logs, ids: _taken(logs[:, 1:], ids[:, :-1])),
        "shifted backwards | You score the token at t with the logits at t + 1: the model would "
        "have to tell what came before. → Which of the two arrays loses its last place, and "
        "which its first?",
    ),
    wrong(
        _rolled,
        "rolled | `np.roll` brings the first token to the end of the row, so that the last "
        "place predicts it if both are of the same text. → How many predictions are there in a "
        "text of n tokens?",
    ),
    wrong(
        _loss(counted=_not_padding),
        "across the border | You let the last token of a text predict the first of the next, "
        "which is another text. → Which two entries of `documents` must be equal?",
    ),
    wrong(
        _loss(
            counted=lambda documents: (
                (documents[:, 1:] <= documents[:, :-1]) & (documents[:, 1:] != -1)
            )
        ),
        "numbers that may fall | Where the numbers of texts grow along a row you're right. Where a "
        "smaller number follows, you take it for the same text. → What must hold for two numbers "
        "of one text?",
    ),
    wrong(
        _loss(counted=_same_text),
        "padding predicted | Padding next to padding has the same number, −1, so that you score "
        "it like a text. → Which places never count?",
    ),
    wrong(
        _loss(counted=_all),
        "everything counts | You score all places: padding, and the first token of each text. → "
        "What does your function use `documents` for?",
    ),
    wrong(
        _loss(counted=_source_real),
        "padding looked for at the wrong place | You leave out places whose *own* token is "
        "padding. What matters is the token that's predicted. → Whose number has to be that of "
        "a text?",
    ),
    wrong(
        _loss(counted=_one_early),
        "the mask not shifted | Your mask is off by one place: it leaves out the last "
        "prediction of a text and keeps the one across the border. → Does it belong to the "
        "token at t, or to the pair of t and t + 1?",
    ),
    wrong(
        _loss(mean=_by_rows),
        "a mean of rows | You take the mean of each row first, so that a token counts for more in "
        "a row with few predictions. → How many predictions are there in the whole batch?",
    ),
    wrong(
        _by_texts,
        "a mean of texts | Your bits per byte are right. For the loss you take the mean of each "
        "text first, so that a token of a short text counts for more. → How many predictions are "
        "there in the whole batch?",
    ),
    wrong(
        _only_loss_by_rows,
        "a mean of rows, for the loss | Your bits per byte are right. For the loss you take the "
        "mean of each row first, so that a token counts for more in a row with few predictions. "
        "→ How many predictions are there in the whole batch?",
    ),
    wrong(
        _of_all_places,
        "a mean over all places | Your bits per byte are right. For the loss you divide by the "
        "number of all places, whether they count or not. → How many predictions count?",
    ),
    wrong(
        _loss(mean=lambda losses, counts: losses[counts].mean(), without=True),
        "<eos> not counted | You leave out tokens without bytes, or with id 0. `<eos>` has to "
        "be predicted like any other: it's how a text ends. → What alone tells you which places "
        "count?",
    ),
    wrong(
        _without_free_bits,
        "the bits of <eos> left out | Your loss is right. From the bits you leave out tokens "
        "without bytes, but they cost something too. → Which predictions does the total cover?",
    ),
    wrong(
        _mean_of_ratios,
        "a mean of ratios | Your loss is right. You divide the bits of each token by its own bytes "
        "and average that, so that a byte of a long token counts for less. → What is divided by "
        "what, and how often?",
    ),
    wrong(
        _by_real_tokens,
        "a mean over all tokens | Your bits per byte are right, and for the loss you divide by the "
        "number of tokens that aren't padding. The first of a text isn't predicted. → How many "
        "predictions count?",
    ),
    wrong(
        _bits_by(lambda documents: (documents != -1).sum()),
        "bits of all tokens | Your loss is right. For the bits you multiply it by the number of "
        "tokens, the first of a text among them, which isn't predicted. → How many predictions "
        "count?",
    ),
    wrong(
        _bits_by(lambda documents: documents.size),
        "bits of all places | Your loss is right. For the bits you multiply it by the number of "
        "all places, padding among them. → How many predictions count?",
    ),
    wrong(
        _bits_by_mean_bytes(lambda ids, documents: ids),
        "the mean bytes of all places | Your loss is right. For bits per byte you divide it by "
        "the mean number of bytes of all places. Some of them aren't predicted: the first of "
        "each text, and padding. → Over which tokens is the loss a mean?",
    ),
    wrong(
        _bits_by_mean_bytes(lambda ids, documents: ids[documents != -1]),
        "the mean bytes of all tokens | Your loss is right. For bits per byte you divide it by "
        "the mean number of bytes of all tokens but padding. The first of each text isn't "
        "predicted. → Over which tokens is the loss a mean?",
    ),
    wrong(
        _bits_by_mean_bytes(lambda ids, documents: ids[:, 1:]),
        "the mean bytes of all targets | Your loss is right. For bits per byte you divide it by "
        "the mean number of bytes of all tokens but the first of each row, whether they count or "
        "not. → Over which tokens is the loss a mean?",
    ),
    wrong(
        _bits_of_rows,
        "bits of rows averaged | Your loss is right. You divide the bits of each row by its bytes "
        "and average that, so that a byte in a short row counts for more. → What is divided by "
        "what, and how often?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: size / (loss * tokens / log(2))),
        "bytes per bit | Your loss is right, and the other number is upside down. → Which of bits "
        "and bytes stands below the line?",
    ),
    wrong(
        _loss(returns=lambda loss, bits: (bits, loss)),
        "results changed places | Both results are right, in the other order. → Which one does the "
        "docstring name first?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss * tokens / log(2, 10) / size),
        "the decimal logarithm of 2 | Your loss is right. You divide nats by the decimal logarithm "
        "of 2. → Which logarithm is the loss made of?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss * tokens / log(10) / size),
        "log 10 | Your loss is right, and the other number is in decimal digits. → By which "
        "logarithm is a nat divided to give bits?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss * tokens / log(2) / size / 8),
        "8 bits to a byte | Your loss is right, and you divide by 8 as well: that's bits per *bit* "
        "of the text. → Per what are they to be?",
    ),
    wrong(
        _loss(pick=lambda logs, ids: logs[:, :-1].max(axis=-1)),
        "the likeliest token | You score the likeliest token at each place. → Which token "
        "really comes next?",
    ),
    wrong(
        _loss(
            mean=lambda losses, counts: np.where(counts, losses, 0.0).sum(),
            bits=lambda loss, tokens, size: loss / log(2) / size,
        ),
        "a sum | Your bits per byte are right, and your loss is the sum of the losses. → By what "
        "is a sum divided to be a mean?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss * tokens / size),
        "nats per byte | Your loss is right, and the other number is in nats. → How many bits has "
        "a nat?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss * tokens * log(2) / size),
        "multiplied by log 2 | Your loss is right. A nat is more than a bit, so there are more "
        "bits than nats; you get fewer. → Do you multiply or divide by log 2?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss / log(2)),
        "bits per token | Your loss is right, and the other number is in bits per token. "
        "Another tokenizer cuts other tokens. → How many bytes have been predicted?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: loss / log(2) / size),
        "the mean by all bytes | Your loss is right. For the other number you divide the *mean* "
        "loss by the bytes of all tokens. → What has to be divided by all bytes?",
    ),
    wrong(
        _loss(
            size=lambda ids, counts, n_bytes: n_bytes[ids[:, 1:][counts]].mean(),
            bits=lambda loss, tokens, size: loss * tokens / log(2) / size,
        ),
        "the sum by a mean | Your loss is right. For the other number you divide the *total* loss "
        "by the *mean* number of bytes. → Are both to be sums, or both means?",
    ),
    wrong(
        _loss(size=lambda ids, counts, n_bytes: n_bytes[ids].sum()),
        "bytes of all tokens | Your loss is right. You divide by the bytes of all tokens, with "
        "the first of each text among them, which isn't predicted. → Whose bytes belong to "
        "these bits?",
    ),
    wrong(
        _loss(size=lambda ids, counts, n_bytes: n_bytes[ids[:, :-1][counts]].sum()),
        "bytes of the tokens before | Your loss is right. You count the bytes of the tokens at "
        "t, and those at t + 1 are predicted. → Whose bytes belong to these bits?",
    ),
    wrong(
        _loss(
            size=lambda ids, counts, n_bytes: np.maximum(n_bytes, 1)[ids[:, 1:][counts]].sum(),
        ),
        "a byte at least | Your loss is right. You count one byte for a token that stands for "
        "no text. → What does `n_bytes` hold for token 0?",
    ),
    wrong(
        _loss(size=lambda ids, counts, n_bytes: n_bytes.mean() * counts.sum()),
        "bytes of the vocabulary | Your loss is right. You take the vocabulary's mean number of "
        "bytes, whatever the text is. → Which tokens have been predicted?",
    ),
    wrong(
        _loss(bits=lambda loss, tokens, size: np.exp(loss)),
        "a perplexity | Your loss is right, and the other number is its exponential, the "
        "perplexity per token. → How many bits does a byte cost?",
    ),
    wrong(
        _loss(logs=lambda x: x),
        "no log-softmax | You take the logits as they are for log-probabilities. → What turns "
        "logits into probabilities that sum to 1?",
    ),
    wrong(
        _loss(logs=_plain_log),
        "overflow | For moderate logits you're right; exp(1000) is infinite. → What may be "
        "subtracted from all logits of a place?",
    ),
    wrong(
        _loss(logs=lambda x: softmax(x)),
        "probabilities averaged | You average probabilities, and not their logarithms, so that "
        "your loss is below 0. → What is a loss the negative of?",
    ),
    wrong(
        _loss(logs=lambda x: _log_softmax(x, axis=1)),
        "softmax along the text | Your probabilities sum to 1 along the text. → Which axis is "
        "that of the vocabulary?",
    ),
    wrong(
        _loss(returns=lambda loss, bits: (-loss, -bits)),
        "the sign | Your numbers are below 0: they are log-probabilities. → Is a larger loss "
        "better or worse?",
    ),
    wrong(
        _loss(logs=lambda x: _log_softmax(x) / log(2), bits=lambda loss, n, size: loss * n / size),
        "the loss in bits | Your bits per byte are right, and your loss is in bits too. → Which "
        "logarithm does the text take for the loss?",
    ),
]


def _loss_loops(logits: Any, ids: Any, documents: Any, n_bytes: Any) -> Any:
    total, tokens, size = 0.0, 0, 0
    for rows, text, numbers in zip(logits, ids.tolist(), documents.tolist(), strict=True):
        for t in range(len(text) - 1):
            if numbers[t] == numbers[t + 1] >= 0:
                scores = rows[t] - rows[t].max()
                total += np.log(np.exp(scores).sum()) - scores[text[t + 1]]
                tokens, size = tokens + 1, size + int(n_bytes[text[t + 1]])
    return total / tokens, total / log(2) / size


def _loss_flat(logits: Any, ids: Any, documents: Any, n_bytes: Any) -> Any:
    """Take the counted places out first."""
    where = np.nonzero((np.diff(documents, axis=1) == 0) & (documents[:, 1:] >= 0))
    targets = ids[where[0], where[1] + 1]
    scores = logits[where]
    peak = scores.max(axis=-1)
    losses = np.log2(np.exp(scores - peak[:, None]).sum(axis=-1))
    losses += (peak - scores[np.arange(len(targets)), targets]) / log(2)
    return np.mean(losses) * log(2), losses.sum() / n_bytes[targets].sum()


def _loss_torch(logits: Any, ids: Any, documents: Any, n_bytes: Any) -> Any:
    from torch.nn import functional

    targets = ids[:, 1:].clone()
    counts = (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] != -1)
    targets[~counts] = -100
    total = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), targets.flatten(), reduction="sum"
    )
    return total / counts.sum(), total / log(2) / n_bytes[targets[counts]].sum()


LOSS = Exercise(
    id="13.next_token_loss",
    function="next_token_loss",
    reference=next_token_loss,
    cases=_LOSS_CASES,
    returns=("loss", "bits_per_byte"),
    misconceptions=_LOSS_WRONG,
    alternatives=[
        ("loops", _loss_loops),
        ("counted places alone", _loss_flat),
        Alternative(name="torch", right=_loss_torch, backend="torch"),
    ],
    hints=[
        "The logits at place t predict the token at t + 1: drop the last place of `logits` and the "
        "first of `ids`, and pick. Then decide which of these predictions count.",
        "A prediction counts where `documents[:, 1:] == documents[:, :-1]` and that number isn't "
        "−1. The loss is the mean over these, in nats.",
        "The total of the losses that count, divided by log 2, is in bits. Divide it by the sum of "
        "`n_bytes` over the predicted tokens: `n_bytes[ids[:, 1:][counts]].sum()`.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 13.probe --------------------------------------------------------------------------------------


class Probed:
    """A small model that looks as a table says, and hides the table.

    Parameters
    ----------
    name : str
        What a report prints of it.
    seen : boolean array, (n, n)
        True in row i and column j where place i looks at place j.
    vocab_size, seed : int
    alike : bool, default False
        Whether all tokens but one are the same to a place: but number 2 to even places, and
        number 4 to odd ones.
    noise : float, default 0
        Rounding: how far any token moves all outputs.
    weak : float, default 1
        By which factor the first token moves outputs less than the others do.
    width : int, default 4
        Of the outputs: 1, or 4 numbers whose sum is 0, of which two are moved by the tokens at
        even places, and two by those at odd ones.

    Examples
    --------
    >>> model = Probed("a decoder", np.tri(3, dtype=bool), vocab_size=5, seed=0)
    >>> model
    a decoder
    >>> model(np.array([1, 2, 3])).shape
    (3, 4)
    """

    def __init__(
        self,
        name: str,
        seen: NDArray,
        *,
        vocab_size: int,
        seed: int,
        alike: bool = False,
        noise: float = 0.0,
        weak: float = 1.0,
        width: int = 4,
    ) -> None:
        rng = np.random.default_rng([seed, 6])
        self._name, self._seen, self._noise, self._width = name, seen, noise, width
        n = len(seen)
        self._tokens = np.tile(rng.permutation(np.linspace(-1.5, 1.5, vocab_size)), (n, 1))
        if alike:
            special = np.where(np.arange(n) % 2 == 0, 2, 4)
            self._tokens = np.where(np.arange(vocab_size) == special[:, None], 1.0, -0.5)  # (n, V)
        signs = np.where(np.add.outer(*(np.arange(len(seen)),) * 2) % 3 == 0, -1.0, 1.0)
        self._places = signs * rng.uniform(0.5, 1.5, seen.shape)
        self._places[:, 0] *= weak

    def __repr__(self) -> str:
        return self._name

    def __call__(self, ids: Any) -> Any:
        """Return outputs (n, 4), whose means are 0, for ids (n,)."""
        if is_tensor(ids):
            return to_tensors(self(ids.detach().cpu().numpy()))
        ids = np.asarray(ids)
        n = len(self._seen)
        if ids.shape != (n,):
            raise ValueError(f"the model takes ids of shape ({n},); got {ids.shape}")
        if ids.dtype.kind not in "iu":
            raise ValueError(f"the model takes whole numbers as ids; got {ids.dtype}")
        vocab_size = self._tokens.shape[1]
        if ids.min() < 0 or ids.max() >= vocab_size:
            raise IndexError(f"the model has tokens 0 to {vocab_size - 1}; got {ids}")
        moved = np.where(self._seen, np.tanh(self._places * self._tokens[:, ids]), 0.0)  # (n, n)
        even, odd = moved[:, ::2].sum(axis=1), moved[:, 1::2].sum(axis=1)
        columns = [even + odd] if self._width == 1 else [even, odd, -odd, -even]
        output = np.stack(columns, axis=1)
        return output + self._noise * np.sin(ids @ np.arange(1.0, n + 1.0))


def probe(
    model: Callable[[Any], Any], ids: NDArray, vocab_size: int
) -> tuple[NDArray, NDArray, int]:
    """Find out who looks at whom in a model, and of which family it is.

    Parameters
    ----------
    model : callable
        From ids (n,) to outputs (n, d).
    ids : integer array, (n,)
    vocab_size : int

    Returns
    -------
    seen : boolean array, (n, n)
        Whether output i depends on token j.
    predicts : boolean array, (n,)
        Whether output i depends on no token behind i.
    family : int
        0 encoder-only, 1 decoder-only, 2 an encoder's part and then a decoder's.
    """
    seen, predicts, family = _probe()(model, ids, vocab_size)
    return seen, predicts, family


def _other_tokens(token: int, vocab_size: int) -> list[int]:
    return [other for other in range(vocab_size) if other != token]


def _moved(a: NDArray, b: NDArray) -> NDArray:
    return (np.abs(a - b) > 1e-6).any(axis=-1)


def _no_later(seen: NDArray) -> NDArray:
    return np.asarray(~np.triu(seen, k=1).any(axis=1))


def _family(predicts: NDArray, seen: NDArray) -> int:
    if predicts.all():
        return 1
    return 2 if predicts[:-1].any() else 0


def _probe(
    *,
    others: Callable[[int, int], list[int]] = _other_tokens,
    moved: Callable[[NDArray, NDArray], NDArray] = _moved,
    keep: bool = False,
    touch: bool = False,
    table: Callable[[NDArray], NDArray] = lambda seen: seen,
    predicts: Callable[[NDArray], NDArray] = _no_later,
    family: Callable[[NDArray, NDArray], int] = _family,
) -> Callable[..., Any]:
    """Return the probe with some steps replaced."""

    def probed(model: Any, ids: NDArray, vocab_size: int) -> Any:
        before = model(ids)
        n = len(ids)
        seen = np.zeros((n, n), dtype=bool)
        now = ids if touch else ids.copy()
        for j in range(n):
            token = int(now[j])
            for other in others(token, vocab_size):
                now[j] = other
                seen[:, j] |= moved(model(now), before)
            if not keep:
                now[j] = token
        seen = table(seen)
        found = predicts(seen)
        return seen, found, family(found, seen)

    return probed


def _full(n: int) -> NDArray:
    return np.ones((n, n), dtype=bool)


def _prefix(n: int, first: int) -> NDArray:
    seen = np.tri(n, dtype=bool)
    seen[:first, :first] = True
    return seen


def _window(n: int, width: int) -> NDArray:
    return np.tri(n, dtype=bool) & ~np.tri(n, k=-width, dtype=bool)


def _short(n: int) -> NDArray:
    """Let places see their neighbours; the first one sees the third in the place of the second."""
    seen = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    seen[0, 1:3] = [False, True]
    return seen


def _subject(
    name: str, seen: NDArray, *, vocab_size: int = 7, zeros: bool = False, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 6, *seen.shape, int(seen.sum())])
        ids = rng.integers(0, vocab_size, len(seen))
        ids[:2] = [0, vocab_size - 1]
        if zeros:
            ids[:] = 0
        model = Probed(name, seen, vocab_size=vocab_size, seed=seed % 1000 + 1, **more)
        return {"model": model, "ids": ids, "vocab_size": vocab_size}

    return build


_SECRET = "a model that doesn't say how it looks"
_PROBE_CASES = [
    case("3 tokens, all look at all | an encoder", _subject(_SECRET, _full(3))),
    case(
        "4 tokens, 2 kinds, none looks ahead | a decoder",
        _subject(_SECRET, np.tri(4, dtype=bool), vocab_size=2, width=1),
    ),
    case(
        "5 tokens, 3 that look at each other | an encoder's part and a decoder's",
        _subject(_SECRET, _prefix(5, 3)),
    ),
    case(
        "5 tokens, a window of 2 | a decoder with a short view",
        _subject(_SECRET, _window(5, 2), zeros=True),
    ),
    case("5 tokens, short views | an encoder that looks at few", _subject(_SECRET, _short(5))),
    case(
        "tokens that are alike to the model | another change shows it",
        _subject(_SECRET, np.tri(5, dtype=bool), vocab_size=6, alike=True),
    ),
    case(
        "rounding, and a weak first token | 10⁻¹⁰ is no influence, and 10⁻⁴ is one",
        _subject(_SECRET, _prefix(6, 5), noise=1e-10, weak=1e-4),
    ),
]


def _by_table(seen: NDArray, wrong: Callable[[NDArray], bool]) -> int:
    return 1 if not np.triu(seen, 1).any() else (0 if wrong(seen) else 2)


def _stops_early(model: Any, ids: NDArray, vocab_size: int) -> Any:
    before, n = model(ids), len(ids)
    seen = np.zeros((n, n), dtype=bool)
    for j in range(n):
        for other in range(vocab_size):
            seen[:, j] = _moved(model(np.where(np.arange(n) == j, other, ids)), before)
            if seen[:, j].any():
                break
    return seen, _no_later(seen), _family(_no_later(seen), seen)


def _to_the_last_try(model: Any, ids: NDArray, vocab_size: int) -> Any:
    before, n = model(ids), len(ids)
    seen = np.zeros((n, n), dtype=bool)
    for j in range(n):
        for other in range(vocab_size):
            now = model(np.where(np.arange(n) == j, other, ids))
            seen[:, j] |= _moved(now, before)
            before = now
    return seen, _no_later(seen), _family(_no_later(seen), seen)


_PROBE_WRONG = [
    wrong(
        _probe(others=lambda token, v: [(token + 1) % v]),
        "one other token | You miss an influence that only some tokens show: either you try too "
        "few others, such as the next one alone, or you ask of *all* tries that they move the "
        "output. → How many of all other tokens have to move it?",
    ),
    wrong(
        _probe(others=lambda token, v: [0]),
        "replaced by 0 | You put token 0 everywhere. Where it stood already nothing changes. → "
        "What if the token *is* 0?",
    ),
    wrong(
        _probe(others=lambda token, v: [v - 1]),
        "replaced by the last token | Only the last token of the vocabulary counts with you: "
        "either you try no other, or each try overwrites what the one before has found. → What if "
        "the token *is* that one?",
    ),
    wrong(
        _probe(others=lambda token, v: list(range(1, v + 1))),
        "past the vocabulary | You ask the model about a token that it doesn't have: the ids go "
        "from 0 to `vocab_size` − 1. → At which number does your loop end?",
    ),
    wrong(
        _probe(others=lambda token, v: [token + 1]),
        "the token after the last | You try the next token, and after the last one there is none. "
        "A single try isn't enough, either. → Which numbers are token ids?",
    ),
    wrong(
        _stops_early,
        "stopped at the first success | You stop at the first token that moves any output. Another "
        "one may move others. → When can you be sure that an output doesn't depend on token j?",
    ),
    wrong(
        _to_the_last_try,
        "compared with the try before | You compare each try with the one before, so that putting "
        "a token back looks like an influence of the next. → With which outputs is every try to be "
        "compared?",
    ),
    wrong(
        _probe(moved=lambda a, b: (np.abs(a - b) > 1e-2).any(axis=-1)),
        "too coarse | You miss an influence of 10⁻⁴: what you compare with is too large. → From "
        "which size on does the text count a difference?",
    ),
    wrong(
        _probe(table=np.tril),
        "only later outputs | Your table is False above its diagonal, as if only later outputs "
        "could move. In an encoder earlier ones do, too. → Which rows of a column do you fill?",
    ),
    wrong(
        _probe(moved=lambda a, b: (a != b).any(axis=-1)),
        "to the last digit | You compare outputs to the last digit, so that rounding looks like "
        "influence. → How large must a difference be to count?",
    ),
    wrong(
        _probe(moved=lambda a, b: np.abs((a - b).sum(axis=-1)) > 1e-6),
        "differences that cancel | Nothing moves in your table where outputs have four numbers. "
        "Their sum never changes, and no token moves all four. → How many of an output's "
        "numbers have to move?",
    ),
    wrong(
        _probe(moved=lambda a, b: np.zeros(len(a), dtype=bool)),
        "nothing moves at all | Your table is False throughout. The token that was there moves "
        "nothing, so *every* try can't be asked to; and an array compared with itself never "
        "differs. → How many tries have to move an output?",
    ),
    wrong(
        _probe(moved=lambda a, b: np.abs(a - b)[:, 0] > 1e-6),
        "the first number | You look only at the first number of each output. Some tokens move "
        "others. → Over which axis does `any` go?",
    ),
    wrong(
        _probe(moved=lambda a, b: (a - b > 1e-6).any(axis=-1)),
        "only upwards | You see only what raises an output's numbers, and miss what lowers "
        "them. → What does `abs` do with a difference?",
    ),
    wrong(
        _probe(others=lambda token, v: [other for other in range(1, v) if other != token]),
        "never token 0 | You try all other tokens but 0. With two kinds of tokens nothing is "
        "left to try in place of 1. → At which number does `range(1, n)` begin?",
    ),
    wrong(
        _probe(predicts=lambda seen: np.append(~np.diagonal(seen, 1), True)),
        "the next token alone | You ask whether a place sees the token right behind it. One "
        "that sees a later token has seen too much as well. → Which tokens are *behind* place "
        "0?",
    ),
    wrong(
        _probe(predicts=lambda seen: np.asarray(~np.triu(seen, 2).any(axis=1))),
        "the next token allowed | With you a place may see the token right behind it. That's the "
        "one it is to predict. → On which diagonal does what is *behind* a place begin?",
    ),
    wrong(
        _probe(predicts=lambda seen: ~_no_later(seen)),
        "turned round, and what follows | Your `predicts` is True where a later token is seen, and "
        "the family follows from that. → May a place that has seen the next token be trained to "
        "predict it?",
    ),
    wrong(
        _probe(predicts=lambda seen: np.asarray(~np.tril(seen, -1).any(axis=1))),
        "earlier for later, and what follows | You ask whether a place sees tokens *before* it, "
        "and the family follows from that. → On which side of the diagonal are the tokens "
        "behind it?",
    ),
    wrong(
        _probe(predicts=lambda seen: np.asarray(~np.triu(seen, 1).any(axis=0))),
        "columns for rows | Your table is right. For `predicts` you go along the wrong axis: "
        "you ask who is seen by earlier places, and not who sees later ones. → Which axis is "
        "that of the tokens seen?",
    ),
    wrong(
        _probe(moved=lambda a, b: np.full(len(a), (np.abs(a - b) > 1e-6).any())),
        "any output at all | You ask whether anything has moved, once for all outputs. → Over "
        "which axis does `any` go, so that one truth value for each place is left?",
    ),
    wrong(
        _probe(keep=True),
        "changes pile up | You don't put the token back before you change the next one, so that "
        "outputs stay moved by the first change. → Which tokens differ in the second call?",
    ),
    wrong(
        _probe(touch=True, keep=True),
        "the caller's ids changed | You change `ids` itself, and don't put the tokens back. → On "
        "what should the changes be made?",
    ),
    wrong(
        _probe(
            table=lambda seen: seen.T,
            predicts=lambda seen: _no_later(seen.T),
            family=lambda p, seen: _family(p, seen.T),
        ),
        "rows and columns changed places | Your table is transposed, and the rest is right. → "
        "Which index of `seen` is that of the output?",
    ),
    wrong(
        _probe(table=lambda seen: seen.T),
        "rows and columns changed places, and what follows | Your table is transposed, so that "
        "a decoder seems to see the future. → Which index of `seen` is that of the output?",
    ),
    wrong(
        _probe(table=lambda seen: seen & ~np.eye(len(seen), dtype=bool)),
        "not itself | Your table is False along its whole diagonal. → Does output i depend on "
        "token i?",
    ),
    wrong(
        _probe(predicts=lambda seen: np.tril(seen).sum(axis=1) == np.arange(1, len(seen) + 1)),
        "sees all before it | You ask whether a place sees *all* tokens up to its own. → What "
        "must a place *not* have seen to predict the next token?",
    ),
    wrong(
        _probe(predicts=lambda seen: (seen == np.tri(len(seen), dtype=bool)).all(axis=1)),
        "exactly a causal row | You ask for a row of a causal mask. A model with a short view "
        "can be trained to predict as well. → What must a place *not* have seen?",
    ),
    wrong(
        _probe(
            predicts=lambda seen: np.asarray(~np.triu(seen).any(axis=1)),
            family=lambda p, seen: _family(_no_later(seen), seen),
        ),
        "itself counted as later | No place predicts with you, since each sees its own token. "
        "The token at i isn't the one predicted at i. → Which one is?",
    ),
    wrong(
        _probe(predicts=lambda seen: ~_no_later(seen), family=lambda p, seen: _family(~p, seen)),
        "turned round | Your `predicts` is True where a later token is seen, and False "
        "elsewhere. → May a place that has seen the next token be trained to predict it?",
    ),
    wrong(
        _probe(
            predicts=lambda seen: np.asarray(~np.tril(seen, -1).any(axis=1)),
            family=lambda p, seen: _family(_no_later(seen), seen),
        ),
        "earlier for later | You ask whether a place sees tokens *before* it. → On which side "
        "of the diagonal are the tokens behind it?",
    ),
    wrong(
        _probe(
            predicts=lambda seen: np.append(_no_later(seen)[:-1], False),
            family=lambda p, seen: _family(_no_later(seen), seen),
        ),
        "the last place left out | Your last place is False. Nothing is behind it, so it has "
        "seen nothing too early. → From which place does a model write on?",
    ),
    wrong(
        _probe(family=lambda p, seen: {0: 1, 1: 0}.get(_family(p, seen), 2)),
        "encoder and decoder changed places | Table and places are right; 0 and 1 have changed "
        "places. → Which family does the docstring call 0?",
    ),
    wrong(
        _probe(family=lambda p, seen: {2: 1, 1: 2}.get(_family(p, seen), 0)),
        "1 and 2 changed places | Table and places are right; 1 and 2 have changed places. → Which "
        "family is it where no place looks ahead?",
    ),
    wrong(
        _probe(family=lambda p, seen: 1 if p.all() else 0),
        "two families | Table and places are right. You say 0 where some places before the last "
        "can be trained. → How many places can in an encoder?",
    ),
    wrong(
        _probe(family=lambda p, seen: 1 if p.all() else (2 if p.any() else 0)),
        "the last place always predicts | Table and places are right. In an encoder, too, the "
        "last place can be trained, since nothing is behind it; so you never say 0. → Which "
        "places tell an encoder from family 2?",
    ),
    wrong(
        _probe(family=lambda p, seen: _by_table(seen, lambda s: bool(s.all()))),
        "an encoder must see everything | Table and places are right. You call a model an "
        "encoder only if every place, or the first one, sees the whole text. Some have a short "
        "view. → How many of an encoder's places can predict?",
    ),
    wrong(
        _probe(
            family=lambda p, seen: (
                1
                if np.array_equal(seen, np.tri(len(seen), dtype=bool))
                else (2 if p[:-1].any() else 0)
            )
        ),
        "a decoder must see all before it | Table and places are right. You call a model a "
        "decoder only with a full triangle. → What do all places of a decoder with a short view "
        "have in common?",
    ),
]


def _probe_vectorised(model: Any, ids: Any, vocab_size: int) -> Any:
    n, before = len(ids), model(ids)
    changed = np.array(
        [[model(np.where(np.arange(n) == j, v, ids)) for v in range(vocab_size)] for j in range(n)]
    )  # (j, v, i, d)
    seen = (np.abs(changed - before).max(axis=(1, 3)) > 1e-7).T
    last = np.array([row.nonzero()[0].max() for row in seen])
    predicts = last <= np.arange(n)
    return seen, predicts, [0, 2][int(predicts.sum() > 1)] if not predicts.all() else 1


def _probe_lists(model: Any, ids: Any, vocab_size: int) -> Any:
    before, n = model(ids), len(ids)
    seen = [[False] * n for _ in range(n)]
    for j in range(n):
        for step in range(1, vocab_size):
            other = np.array(ids)
            other[j] = (ids[j] + step) % vocab_size
            after = model(other)
            for i in range(n):
                seen[i][j] = seen[i][j] or not np.allclose(after[i], before[i])
    predicts = [not any(row[i + 1 :]) for i, row in enumerate(seen)]
    family = 1 if predicts[0] and all(predicts) else 2 if any(predicts[:-1]) else 0
    return seen, predicts, family


def _probe_torch(model: Any, ids: Any, vocab_size: int) -> Any:
    import torch

    before = model(ids)
    columns = []
    for j in range(len(ids)):
        moved = torch.zeros(len(ids), dtype=torch.bool)
        for v in range(vocab_size):
            other = ids.clone()
            other[j] = v
            moved |= ((model(other) - before).abs() > 1e-6).any(dim=-1)
        columns.append(moved)
    seen = torch.stack(columns, dim=1)
    predicts = ~seen.triu(1).any(dim=1)
    family = 1 if predicts.all() else 2 if predicts[:-1].any() else 0
    return seen, predicts, family


PROBE = Exercise(
    id="13.probe",
    function="probe",
    reference=probe,
    cases=_PROBE_CASES,
    returns=("seen", "predicts", "family"),
    misconceptions=_PROBE_WRONG,
    alternatives=[
        ("all changes first", _probe_vectorised),
        ("lists", _probe_lists),
        Alternative(name="torch", right=_probe_torch, backend="torch"),
    ],
    hints=[
        "Change one token and see which outputs move: that's one column of the table. Change a "
        "copy, so that the next change begins with the text as it was.",
        "A model may treat two tokens alike, so try all others: output i depends on token j if any "
        "of them moves it by more than 10⁻⁶, in any of its numbers.",
        "`predicts` is `~np.triu(seen, k=1).any(axis=1)`. All True: family 1. Some True besides "
        "the last: family 2. The last alone: family 0.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)
