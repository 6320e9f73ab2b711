"""The exercises of chapter 00: the chain rule, the loss, perplexity, sampling, and two bugs.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise, product
from math import exp, log, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.inputs import as_cell, draw, weights_rows
from course_lib.grading.model import Alternative, Case, Exercise, Misconception
from course_lib.reference import language_modelling as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "bigram_model",
    "bigram_model_broken",
    "bits_per_byte",
    "most_probable",
    "next_token_losses",
    "next_token_losses_broken",
]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


def _softmax(x: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def _naive_softmax(x: NDArray, axis: int = -1) -> NDArray:
    """Softmax without the maximum subtracted."""
    with np.errstate(all="ignore"):
        e = np.exp(x)
        return e / e.sum(axis=axis, keepdims=True)


def _log_softmax(x: NDArray, axis: int = -1) -> NDArray:
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _log(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.log(x)


def _at(values: NDArray, ids: NDArray) -> NDArray:
    """Pick one number of each row: (..., V) and (...) give (...)."""
    return np.take_along_axis(values, ids[..., None], axis=-1)[..., 0]


#: What people add to a probability so that its logarithm isn't −∞.
_EPSILONS = {
    "10⁻⁵": 1e-5,
    "10⁻⁶": 1e-6,
    "10⁻⁷": 1e-7,
    "10⁻⁸": 1e-8,
    "10⁻⁹": 1e-9,
    "10⁻¹⁰": 1e-10,
    "10⁻¹²": 1e-12,
    "10⁻¹⁵": 1e-15,
    "the smallest step from 1, 2.2 · 10⁻¹⁶,": 2.0**-52,
}


def _each_epsilon(build: Callable[[float], Any]) -> list[tuple[str, Any]]:
    """Return what `build` makes of each of these numbers, with its name."""
    return [(text, build(epsilon)) for text, epsilon in _EPSILONS.items()]


# -- 00.chain --------------------------------------------------------------------------------------


def _chain_inputs(n: int, vocab_size: int) -> Callable[[int], dict[str, Any]]:
    """Draw a table and tokens, of which neither the first, the last nor all are the likeliest."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 1, n, vocab_size])
        while True:
            table = weights_rows(rng, n, vocab_size)
            tokens = rng.integers(0, vocab_size, n)
            likeliest = table.argmax(axis=-1)
            if n == 1 or (len({*tokens.tolist()}) > 1 and (tokens != likeliest)[[0, -1]].all()):
                return {"conditionals": table, "tokens": tokens}

    return build


_CHAIN_CASES = [
    Case(
        name="one token",
        inputs={"conditionals": np.array([[0.2, 0.5, 0.3]]), "tokens": np.array([1])},
        shows="the logarithm of its probability",
    ),
    Case(
        name="2 tokens of a vocabulary of 4",
        inputs=_chain_inputs(2, 4),
        shows="logarithms add up",
    ),
    Case(
        name="6 tokens of a vocabulary of 3",
        inputs=_chain_inputs(6, 3),
        shows="one row for every position",
    ),
    Case(
        name="4 tokens of a vocabulary of 4",
        inputs=_chain_inputs(4, 4),
        shows="positions are rows, tokens are columns",
    ),
    Case(
        name="zeros beside a probability of 10⁻²⁰",
        inputs={
            "conditionals": np.array([[0.5, 0.5, 0.0], [1e-20, 1.0, 0.0], [0.0, 0.25, 0.75]]),
            "tokens": np.array([0, 0, 2]),
        },
        shows="only the token that came counts, and it counts in full",
    ),
    Case(
        name="800 tokens of a vocabulary of 5",
        inputs=_chain_inputs(800, 5),
        shows="a sum of logarithms stays within a float's range",
    ),
]


def _chain(combine: Callable[[NDArray], Any]) -> Callable[..., Any]:
    """Return a function of the probabilities of the tokens that came, rightly looked up."""

    def wrong(conditionals: NDArray, tokens: NDArray) -> Any:
        with np.errstate(all="ignore"):
            return combine(conditionals[np.arange(len(tokens)), tokens])

    return wrong


def _chain_one_hot(conditionals: NDArray, tokens: NDArray) -> Any:
    one_hot = np.eye(conditionals.shape[-1])[tokens]
    with np.errstate(all="ignore"):
        return (one_hot * np.log(conditionals)).sum()


def _chain_next(conditionals: NDArray, tokens: NDArray) -> Any:
    """Read row t for token t + 1; the last row is left over."""
    return _log(conditionals[np.arange(len(tokens) - 1), tokens[1:]]).sum()


def _chain_late(conditionals: NDArray, tokens: NDArray) -> Any:
    """Read row t for token t − 1; the first row and the last token are left over."""
    return _log(conditionals[np.arange(1, len(tokens)), tokens[:-1]]).sum()


def _chain_bigram(conditionals: NDArray, tokens: NDArray) -> Any:
    """Take the token before for the row, as in a bigram table."""
    first = _log(conditionals[0, tokens[0]])
    return first + _log(conditionals[tokens[:-1], tokens[1:]]).sum()


def _chain_all_but_columns(conditionals: NDArray, tokens: NDArray) -> Any:
    return _log(conditionals[tokens]).sum()


_CHAIN_WRONG = [
    Misconception(
        name="the logarithm of the product",
        wrong=_chain(lambda p: _log(np.prod(p))),
        hint="Right as long as the product is a number above 0. That of 800 probabilities is too "
        "small for a float and becomes 0, whose logarithm is −∞. → In which order do logarithm "
        "and multiplication have to come so that nothing tiny is ever formed?",
    ),
    Misconception(
        name="the logarithm of the product, from `math`",
        wrong=lambda conditionals, tokens: log(
            np.prod(conditionals[np.arange(len(tokens)), tokens])
        ),
        hint="Right as long as the product is a number above 0. That of 800 probabilities is too "
        "small for a float and becomes 0, which has no logarithm. → In which order do logarithm "
        "and multiplication have to come so that nothing tiny is ever formed?",
    ),
    *(
        Misconception(
            name=f"{text} added before the logarithm",
            wrong=_chain(raised),
            hint=f"Adding {text} (or cutting off there) keeps the logarithm from −∞, but 10⁻²⁰ "
            "then counts as something far more probable. → Do you take logarithms of numbers that "
            "no token asked for?",
        )
        for text, raised in _each_epsilon(lambda epsilon: lambda p: np.log(p + epsilon).sum())
    ),
    Misconception(
        name="one-hot times the whole table's logarithm",
        wrong=_chain_one_hot,
        hint="Multiplying by a one-hot row is right on paper, but where the table holds a 0 you "
        "form 0 · log 0, which is 0 · (−∞) and NaN. → Can you pick the probabilities first and "
        "take only their logarithms?",
    ),
    Misconception(
        name="the logarithm of the sum",
        wrong=_chain(lambda p: np.log(np.sum(p))),
        hint="You take the logarithm of the sum of the probabilities, but what becomes a sum is "
        "the logarithm of a product. → Which comes first here, the logarithm or the sum?",
    ),
    Misconception(
        name="the logarithm of the mean probability",
        wrong=_chain(lambda p: np.log(p.mean())),
        hint="You average the probabilities and take the logarithm of that. → The chain rule "
        "multiplies probabilities; what does its logarithm do with their logarithms?",
    ),
    Misconception(
        name="the logarithms multiplied",
        wrong=_chain(lambda p: np.log(p).prod()),
        hint="You multiply the logarithms, as if they were probabilities still. → What does the "
        "logarithm turn a product into?",
    ),
    Misconception(
        name="the mean of the logarithms",
        wrong=_chain(lambda p: np.log(p).mean()),
        hint="You return the mean over the tokens. That's the way to the loss and to perplexity; "
        "the probability of the whole sequence isn't divided by its length. → What does the chain "
        "rule do with the T logarithms?",
    ),
    Misconception(
        name="the first row for every position",
        wrong=lambda conditionals, tokens: _log(conditionals[0, tokens]).sum(),
        hint="You read all tokens' probabilities from the first row, as `np.take` without an axis "
        "does. → Which row is the distribution of token t?",
    ),
    Misconception(
        name="every position with every token",
        wrong=lambda conditionals, tokens: _log(conditionals[:, tokens]).sum(),
        hint="`conditionals[:, tokens]` is a square: every position with every token of the "
        "sequence. You need one number a position. → What has to stand in place of the colon so "
        "that position t meets token t only?",
    ),
    Misconception(
        name="the likeliest token of each row",
        wrong=lambda conditionals, tokens: _log(conditionals.max(axis=-1)).sum(),
        hint="You take the largest probability of each row, which is that of the likeliest token, "
        "not of the one that came. → Which column of row t does `tokens[t]` name?",
    ),
    Misconception(
        name="the token before names the row",
        wrong=_chain_bigram,
        hint="You use the token before as the row's index, which is how a bigram table is read. "
        "Here the rows are positions: row t already knows all that came before. → Which index of "
        "the table is t?",
    ),
    Misconception(
        name="only the first token",
        wrong=_chain(lambda p: np.log(p[0])),
        hint="Your result is the first token's log-probability alone. In a loop, that happens "
        "when `return` stands inside of it. → How far is your `return` indented?",
    ),
    Misconception(
        name="only the last token",
        wrong=_chain(lambda p: np.log(p[-1])),
        hint="Your result is the last token's log-probability alone. In a loop, that happens when "
        "each round replaces the total. → Is there an `=` where `+=` should be?",
    ),
    Misconception(
        name="tokens counted from 1",
        wrong=lambda conditionals, tokens: _log(
            conditionals[np.arange(len(tokens)), tokens - 1]
        ).sum(),
        hint="You look one column too far to the left, as if ids began at 1. → Which column of "
        "the table does id 0 name?",
    ),
    Misconception(
        name="the probability itself",
        wrong=_chain(np.prod),
        hint="That's the probability of the sequence: the product. For 800 tokens it's smaller "
        "than any float. → What becomes of a product of probabilities once you take its logarithm?",
    ),
    Misconception(
        name="a product that starts at 0",
        wrong=_chain(lambda p: _log(0.0 * np.prod(p))),
        hint="The running product starts at 0 and stays there, and the logarithm of 0 is −∞. → "
        "With which number does a product begin, with which a sum?",
    ),
    Misconception(
        name="a sum that starts at 1",
        wrong=_chain(lambda p: 1.0 + np.log(p).sum()),
        hint="Your result is too large by exactly 1: the running sum starts at 1, as a product "
        "would. → With which number does a sum begin?",
    ),
    Misconception(
        name="the probabilities added",
        wrong=_chain(np.sum),
        hint="You add the probabilities themselves. A longer sequence then seems ever likelier, "
        "even likelier than 1. → The chain rule multiplies; what does its logarithm add up?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_chain(lambda p: -np.log(p).sum()),
        hint="Your result is positive, but a probability is at most 1 and its logarithm at most "
        "0. The minus belongs to the loss. → Which of the two does the docstring ask for?",
    ),
    Misconception(
        name="the mean loss",
        wrong=_chain(lambda p: -np.log(p).mean()),
        hint="That's the mean of −log p, the loss a token. Here the log-probability of the whole "
        "sequence is wanted. → Which two things does the loss do to the sum of the logarithms?",
    ),
    Misconception(
        name="the perplexity",
        wrong=_chain(lambda p: np.exp(-np.log(p).mean())),
        hint="That's the perplexity: the loss a token, and e to the power of it. → At which of "
        "your steps do you already have the logarithm of the sequence's probability?",
    ),
    Misconception(
        name="base 2",
        wrong=_chain(lambda p: np.log2(p).sum()),
        hint="your result is in bits, which makes it 1 / ln 2 = 1.4427 times the right one. "
        "This exercise uses nats. → Which of numpy's logarithms has the base e?",
        valid_variant=True,
    ),
    Misconception(
        name="base 10",
        wrong=_chain(lambda p: np.log10(p).sum()),
        hint="your logarithm has the base 10, which makes the result 1 / ln 10 = 0.4343 times the "
        "right one. This exercise uses the natural one. → Which of numpy's logarithms has the "
        "base e?",
        valid_variant=True,
    ),
    Misconception(
        name="log1p",
        wrong=_chain(lambda p: np.log1p(p).sum()),
        hint="`log1p` adds 1 before it takes the logarithm, so your sum is positive. → What "
        "should be the logarithm of a probability of 1?",
    ),
    Misconception(
        name="rows and columns swapped",
        wrong=lambda conditionals, tokens: _log(conditionals[tokens, np.arange(len(tokens))]).sum(),
        hint="You look up row `tokens[t]`, column t. The rows of the table are positions and its "
        "columns are tokens. → Which of the two indices comes first?",
    ),
    Misconception(
        name="whole rows picked by token",
        wrong=_chain_all_but_columns,
        hint="`conditionals[tokens]` picks whole rows, and by token where rows are positions; all "
        "their logarithms are then added up. → Which two indices together name one number, one "
        "for each t?",
    ),
    Misconception(
        name="whole rows picked by token, one sum a column",
        wrong=lambda conditionals, tokens: _log(conditionals[tokens]).sum(axis=0),
        hint="`conditionals[t]` with a token for t picks a whole row, and rows are positions: "
        "where there is no such row it's an IndexError. → Which two indices together name one "
        "number, the position's and the token's?",
    ),
    Misconception(
        name="whole rows picked by token and multiplied",
        wrong=lambda conditionals, tokens: _log(conditionals[tokens].prod(axis=0)),
        hint="`conditionals[t]` with a token for t picks a whole row, and rows are positions: "
        "where there is no such row it's an IndexError. (A product of 800 numbers is 0 to a "
        "float, too.) → Which two indices together name one number, the position's and the "
        "token's?",
    ),
    Misconception(
        name="the whole table",
        wrong=lambda conditionals, tokens: _log(conditionals).sum(),
        hint="You add up the logarithms of the whole table: your result is the same whichever "
        "tokens came. → Where does `tokens` come into your function?",
    ),
    Misconception(
        name="row t read for token t + 1",
        wrong=_chain_next,
        hint="You read row t for token t + 1, as a network's output would need it. In this table "
        "row t already is p(· | x_<t), for token t itself. → What does the docstring say row t is?",
    ),
    Misconception(
        name="row t read for the token before",
        wrong=_chain_late,
        hint="You read row t for token t − 1, which it is conditioned on. → For which token is "
        "row t the distribution?",
    ),
    Misconception(
        name="the first token left out",
        wrong=_chain(lambda p: np.log(p[1:]).sum()),
        hint="The first token's probability is missing. It has nothing before it, and still a "
        "distribution of its own: row 0. → Where does your loop or slice begin?",
    ),
    Misconception(
        name="the last token left out",
        wrong=_chain(lambda p: np.log(p[:-1]).sum()),
        hint="The last token's probability is missing from your result. → Where does your loop or "
        "slice end, and what does `range(n)` or `[:-1]` leave out?",
    ),
    Misconception(
        name="not added up",
        wrong=_chain(np.log),
        hint="These are the logarithms of all tokens, one each. The sequence has one "
        "log-probability. → How does the chain rule put them together?",
    ),
    Misconception(
        name="running sums",
        wrong=_chain(lambda p: np.log(p).cumsum()),
        hint="`cumsum` returns every sum on the way: the log-probabilities of all beginnings of "
        "the sequence. → Which of them is that of the whole sequence?",
    ),
    Misconception(
        name="the table taken for logits",
        wrong=lambda conditionals, tokens: _at(_log_softmax(conditionals), tokens).sum(),
        hint="You apply a softmax to the table. Its rows are probabilities already and sum to 1. "
        "→ Which step of your function is for logits?",
    ),
]


def _chain_by_loop(conditionals: NDArray, tokens: NDArray) -> float:
    total = 0.0
    for t, token in enumerate(tokens):
        total += log(conditionals[t][token])
    return total


def _chain_by_take(conditionals: NDArray, tokens: NDArray) -> Any:
    return np.log(np.take_along_axis(conditionals, tokens[:, None], axis=1)).sum()


def _chain_rescaled(conditionals: NDArray, tokens: NDArray) -> float:
    """Multiply after all, and take the powers of 2 out before the product underflows."""
    mantissa, exponent = 1.0, 0
    for t, token in enumerate(tokens):
        m, e = np.frexp(mantissa * conditionals[t, token])
        mantissa, exponent = float(m), exponent + int(e)
    return log(mantissa) + exponent * log(2)


def _chain_torch(conditionals: Any, tokens: Any) -> Any:
    import torch

    return conditionals[torch.arange(len(tokens)), tokens].log().sum()


_CHAIN = Exercise(
    id="00.chain",
    function="chain_log_probability",
    reference=ref.chain_log_probability,
    cases=_CHAIN_CASES,
    returns=("log_probability",),
    misconceptions=_CHAIN_WRONG,
    alternatives=[
        Alternative(name="a loop in plain Python", right=_chain_by_loop),
        Alternative(name="take_along_axis", right=_chain_by_take),
        Alternative(name="a product with its exponent kept apart", right=_chain_rescaled),
        Alternative(name="torch", right=_chain_torch, backend="torch"),
    ],
    hints=[
        "By the chain rule the probability of the sequence is a product of T numbers, one from "
        "each row of the table: the one in the column of the token that came.",
        "The logarithm of a product is the sum of the logarithms. Take the logarithms first: the "
        "product of many probabilities is 0 to a float.",
        "`conditionals[t, tokens[t]]` is the number for position t. For all positions at once, "
        "index with `np.arange(len(tokens))` and `tokens` together.",
    ],
    points=3,
    minutes=10,
    difficulty=1,
)


# -- 00.log_softmax --------------------------------------------------------------------------------


def _logits_rows(n_rows: int, n: int) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {"x": draw(np.random.default_rng([seed, 2, n_rows, n]), n_rows, n)}


def _logits_other_axis(seed: int) -> dict[str, Any]:
    return {"x": draw(np.random.default_rng([seed, 2]), 2, 3, 4), "axis": 1}


_LOG_SOFTMAX_CASES = [
    Case(
        name="one row of three scores",
        inputs={"x": np.array([1.0, 0.0, 2.0])},
        shows="e to the power of the result sums to 1",
    ),
    Case(name="3 rows of 5 scores", inputs=_logits_rows(3, 5), shows="each row by itself"),
    Case(
        name="4 rows of 4 scores",
        inputs=_logits_rows(4, 4),
        shows="rows sum to 1, columns don't",
    ),
    Case(
        name="axis = 1 of shape (2, 3, 4)",
        inputs=_logits_other_axis,
        shows="the sum runs along the axis asked for",
    ),
    Case(
        name="scores in the thousands",
        inputs={"x": np.array([[2001.0, 2000.0, 2003.0], [-3002.0, -3001.0, -3001.5]])},
        shows="no overflow, and no logarithm of 0",
    ),
    Case(
        name="scores far apart",
        inputs={"x": np.array([[0.0, -900.0, 100.0], [-50.0, -40.0, 3000.0]])},
        shows="what is improbable has a finite logarithm",
    ),
]


def _softmax_shifted_at_once(x: NDArray, axis: int = -1) -> NDArray:
    """Compute softmax with the maximum of the whole array subtracted."""
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max())
        return np.asarray(e / e.sum(axis=axis, keepdims=True))


def _log_of(softmax: Callable[[NDArray, int], NDArray]) -> Callable[..., NDArray]:
    def wrong(x: NDArray, axis: int = -1) -> NDArray:
        return np.asarray(_log(softmax(x, axis)))

    return wrong


def _raised(epsilon: float) -> Callable[..., NDArray]:
    """Return softmax plus a small number."""
    return lambda x, axis=-1: _softmax(x, axis) + epsilon


def _log_softmax_shifted_by(
    shift: Callable[[NDArray, int], Any],
) -> Callable[..., NDArray]:
    """Log-softmax that is right on paper, with another number subtracted."""

    def wrong(x: NDArray, axis: int = -1) -> NDArray:
        with np.errstate(all="ignore"):
            shifted = x - shift(x, axis)
            return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))

    return wrong


def _peak(x: NDArray, axis: int) -> NDArray:
    return np.asarray(x.max(axis=axis, keepdims=True))


def _log_sum(x: NDArray, axis: int) -> NDArray:
    """Return the logarithm of Σ e^(x − max)."""
    return np.asarray(np.log(np.exp(x - _peak(x, axis)).sum(axis=axis, keepdims=True)))


def _log_softmax_in_place(x: NDArray, axis: int = -1) -> NDArray:
    x -= x.max(axis=axis, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis=axis, keepdims=True)))


def _log_softmax_wrong(compute: Callable[[NDArray, int], Any]) -> Callable[..., Any]:
    def wrong(x: NDArray, axis: int = -1) -> Any:
        with np.errstate(all="ignore"):
            return compute(x, axis)

    return wrong


_LOST_AXIS = (
    "came out as a flat array, and broadcasting set them against the columns: an error for most "
    "shapes, wrong numbers for a square one. "
)

_LOG_SOFTMAX_WRONG = [
    Misconception(
        name="0 in place of −∞",
        wrong=_log_softmax_wrong(
            lambda x, axis: np.where(_softmax(x, axis) > 0, np.log(_softmax(x, axis)), 0.0)
        ),
        hint="Where a probability was rounded to 0 you return 0 for its logarithm, which stands "
        "for a probability of 1. → Can you write log(e^a / S) so that nothing that is 0 ever "
        "reaches the logarithm?",
    ),
    Misconception(
        name="the most negative float in place of −∞",
        wrong=_log_softmax_wrong(lambda x, axis: np.nan_to_num(np.log(_softmax(x, axis)))),
        hint="Where a probability was rounded to 0 you replace −∞ by a float, but which one isn't "
        "known any more. → Can you write log(e^a / S) so that nothing that is 0 ever reaches the "
        "logarithm?",
    ),
    Misconception(
        name="10⁻³⁰⁰ in place of 0",
        wrong=_log_of(lambda x, axis: np.maximum(_softmax(x, axis), 1e-300)),
        hint="Where a probability was rounded to 0 you put 10⁻³⁰⁰ in its place, so that "
        "everything less probable gets the same logarithm. → Can you write log(e^a / S) so that "
        "nothing that is 0 ever reaches the logarithm?",
    ),
    Misconception(
        name="the logarithm of a stable softmax",
        wrong=_log_of(_softmax),
        hint="No overflow any more. But a probability such as e⁻⁹⁰⁰ is 0 to a float, and once it "
        "is, its logarithm is −∞. → Can you write log(e^a / S) so that the exponential of `a` is "
        "never taken?",
    ),
    *(
        Misconception(
            name=f"{text} added to the probabilities",
            wrong=_log_of(raised),
            hint=f"Adding {text} to probabilities (or cutting them off there) keeps the logarithm "
            "from −∞, but everything improbable gets the same one. → Can you write log(e^a / S) so "
            "that nothing that is 0 ever reaches the logarithm?",
        )
        for text, raised in _each_epsilon(_raised)
    ),
    Misconception(
        name="the mean subtracted",
        wrong=_log_softmax_shifted_by(lambda x, axis: x.mean(axis=axis, keepdims=True)),
        hint="Taking the mean away changes nothing on paper, but the largest score can still lie "
        "far above it. → After which shift is no exponent above 0?",
    ),
    Misconception(
        name="the minimum subtracted",
        wrong=_log_softmax_shifted_by(lambda x, axis: x.min(axis=axis, keepdims=True)),
        hint="Taking the minimum away makes every exponent positive, and a row that spans 1000 "
        "overflows. → After which shift is no exponent above 0?",
    ),
    Misconception(
        name="the logarithm of a softmax without the maximum subtracted",
        wrong=_log_of(_naive_softmax),
        hint="Right on paper. e to the power of 2000 is more than a float holds, and of −3000 "
        "it's 0, so that you end at ∞/∞ or at log 0. → What is the logarithm of the fraction, "
        "written as a difference, before any exponential is taken?",
    ),
    Misconception(
        name="the logarithm of a softmax with one maximum for all rows",
        wrong=_log_of(_softmax_shifted_at_once),
        hint="You shift all rows by the largest score of the whole array. In a row that lies far "
        "below it all exponentials are 0, and 0/0 is NaN. → Whose maximum does each row need?",
    ),
    Misconception(
        name="NaN and ∞ swept away before the logarithm",
        wrong=_log_of(lambda x, axis: np.nan_to_num(_naive_softmax(x, axis))),
        hint="Where scores are large your exponentials overflow and give NaN; with 0 in its place "
        "the logarithm is −∞, for the very scores that should have most. → What has to happen "
        "before the exponential so that there's no NaN to replace?",
    ),
    Misconception(
        name="scores clipped to ±500",
        wrong=_log_of(lambda x, axis: _softmax(np.clip(x, -500.0, 500.0), axis)),
        hint="You cut scores off at ±500: those beyond become equal, and so do their "
        "probabilities. → Which change leaves all differences between scores as they are?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_log_softmax_shifted_by(lambda x, axis: 0.0),
        hint="x − log Σ eˣ is the formula, but e to the power of 2000 is more than a float holds, "
        "and of −3000 it's 0. → Which number may be taken from all scores of a row without "
        "changing the result?",
    ),
    Misconception(
        name="one maximum for all rows",
        wrong=_log_softmax_shifted_by(lambda x, axis: x.max()),
        hint="You shift all rows by the largest score of the whole array. In a row that lies far "
        "below it all exponentials are 0, and so is their sum. → Whose maximum does each row need?",
    ),
    Misconception(
        name="always over the last axis",
        wrong=_log_softmax_wrong(lambda x, axis: _log_softmax(x, -1)),
        hint="Right along the last axis, but the argument `axis` makes no difference to your "
        "function. → Where in your code are sums and maxima taken, and along what?",
    ),
    Misconception(
        name="over the first axis",
        wrong=_log_softmax_wrong(lambda x, axis: _log_softmax(x, 0)),
        hint="e to the power of your result sums to 1 down the columns, whatever `axis` says. "
        "With one row nobody can tell. → Which axis does your sum run along, and where does "
        "`axis` come in?",
    ),
    Misconception(
        name="the sum of everything",
        wrong=_log_softmax_wrong(
            lambda x, axis: x - _peak(x, axis) - np.log(np.exp(x - _peak(x, axis)).sum())
        ),
        hint="One sum for the whole array: e to the power of your result sums to 1 over all rows "
        "together. → What does `sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="the sum of everything, no maximum subtracted",
        wrong=_log_softmax_wrong(lambda x, axis: x - np.log(np.exp(x).sum())),
        hint="One sum for the whole array: e to the power of your result sums to 1 over all rows "
        "together. Large scores are another matter, and can wait. → What does `sum()` add up when "
        "it isn't told an axis?",
    ),
    Misconception(
        name="maximum and sum of everything",
        wrong=_log_softmax_wrong(lambda x, axis: x - x.max() - np.log(np.exp(x - x.max()).sum())),
        hint="One maximum and one sum for the whole array: e to the power of your result sums to "
        "1 over all rows together. → What do `max()` and `sum()` run over when they aren't told "
        "an axis?",
    ),
    Misconception(
        name="the logarithm of a softmax over everything",
        wrong=_log_of(lambda x, axis: np.exp(x - x.max()) / np.exp(x - x.max()).sum()),
        hint="One maximum and one sum for the whole array, so that all your probabilities "
        "together sum to 1; and those too small for a float end at −∞. → What do `max()` and "
        "`sum()` run over when they aren't told an axis?",
    ),
    Misconception(
        name="written for one row, with `math`",
        wrong=_log_softmax_wrong(lambda x, axis: x - log(sum(exp(score) for score in x))),
        hint="Functions of `math` take one number, and a row of an array with several rows isn't "
        "one. → Which functions of numpy work on whole arrays, along an axis?",
    ),
    Misconception(
        name="the sum has lost its axis, no maximum subtracted",
        wrong=_log_softmax_wrong(lambda x, axis: x - np.log(np.exp(x).sum(axis=axis))),
        hint=f"The sums of the rows {_LOST_AXIS}Large scores are another matter, and can wait. "
        "→ Which argument of `sum` keeps the summed axis, with length 1?",
    ),
    Misconception(
        name="the sum has lost its axis",
        wrong=_log_softmax_wrong(
            lambda x, axis: x - _peak(x, axis) - np.log(np.exp(x - _peak(x, axis)).sum(axis=axis))
        ),
        hint=f"The sums of the rows {_LOST_AXIS}→ Which argument of `sum` keeps the summed "
        "axis, with length 1?",
    ),
    Misconception(
        name="maximum and sum have lost their axis",
        wrong=_log_softmax_wrong(
            lambda x, axis: (
                x - x.max(axis=axis) - np.log(np.exp(x - x.max(axis=axis)).sum(axis=axis))
            )
        ),
        hint=f"Maxima and sums of the rows {_LOST_AXIS}→ Which argument of `max` and `sum` keeps "
        "their axis, with length 1?",
    ),
    Misconception(
        name="the maximum has lost its axis",
        wrong=_log_softmax_wrong(
            lambda x, axis: (
                x
                - x.max(axis=axis)
                - np.log(np.exp(x - x.max(axis=axis)).sum(axis=axis, keepdims=True))
            )
        ),
        hint=f"The maxima of the rows {_LOST_AXIS}→ Which argument of `max` keeps its axis, with "
        "length 1?",
    ),
    Misconception(
        name="no sum",
        wrong=_log_softmax_wrong(lambda x, axis: x - _peak(x, axis)),
        hint="The largest score of each row gives exactly 0, which would be a probability of 1. "
        "Subtracting the maximum is only the first step. → By the logarithm of what do all scores "
        "of a row still have to be lowered?",
    ),
    Misconception(
        name="base 2 for the sum only",
        wrong=_log_softmax_wrong(lambda x, axis: x - _peak(x, axis) - _log_sum(x, axis) / log(2)),
        hint="The logarithm of the sum has the base 2 (or is divided by ln 2), the exponential "
        "has the base e: they don't undo each other. → Which of numpy's logarithms has the base e?",
    ),
    Misconception(
        name="base 10 for the sum only",
        wrong=_log_softmax_wrong(lambda x, axis: x - _peak(x, axis) - _log_sum(x, axis) / log(10)),
        hint="The logarithm of the sum has the base 10, the exponential has the base e: they "
        "don't undo each other. → Which of numpy's logarithms has the base e?",
    ),
    Misconception(
        name="softmax",
        wrong=_log_softmax_wrong(_softmax),
        hint="These are the probabilities, between 0 and 1; wanted are their logarithms, none "
        "above 0. → What is log-softmax of a row whose probabilities you know, and what becomes "
        "of a probability too small for a float?",
    ),
    Misconception(
        name="softmax, no maximum subtracted",
        wrong=_log_softmax_wrong(_naive_softmax),
        hint="These are the probabilities, between 0 and 1; wanted are their logarithms, none "
        "above 0. (Large scores overflow as well, which can wait.) → What does the logarithm turn "
        "the division in softmax into?",
    ),
    Misconception(
        name="the maximum not taken from the score itself",
        wrong=_log_softmax_wrong(lambda x, axis: x - _log_sum(x, axis)),
        hint="Your sum is that of shifted scores, but the score in front isn't shifted, so your "
        "result is off by the maximum of the row. → From how many of the two x in x − log Σ eˣ "
        "did you take the maximum?",
    ),
    Misconception(
        name="the maximum taken away twice",
        wrong=_log_softmax_wrong(lambda x, axis: x - 2 * _peak(x, axis) - _log_sum(x, axis)),
        hint="Your result is off by the maximum of the row, which is taken away once too often: "
        "from the score, and again with the sum. → If both scores in x − log Σ eˣ are shifted, "
        "what is left to add or take away?",
    ),
    Misconception(
        name="the maximum added back to the score",
        wrong=_log_softmax_wrong(lambda x, axis: x + _peak(x, axis) - _log_sum(x, axis)),
        hint="log Σ eˣ = m + log Σ e^(x − m), and all of it is taken away; yours takes away the "
        "logarithm and adds m. → What does the minus in front of a bracket do to what is inside?",
    ),
    Misconception(
        name="the log-sum-exp alone",
        wrong=_log_softmax_wrong(
            lambda x, axis: (_peak(x, axis) + _log_sum(x, axis)).squeeze(axis)
        ),
        hint="That's log Σ eˣ, one number a row: the logarithm of softmax's denominator. → What "
        "becomes of the fraction's numerator when you take the logarithm?",
    ),
    Misconception(
        name="divided in place of subtracted",
        wrong=_log_softmax_wrong(lambda x, axis: x / (_peak(x, axis) + _log_sum(x, axis))),
        hint="You divide the score by log Σ eˣ. → What does the logarithm turn a division into?",
    ),
    Misconception(
        name="shifted, then divided in place of subtracted",
        wrong=_log_softmax_wrong(lambda x, axis: (x - _peak(x, axis)) / _log_sum(x, axis)),
        hint="You divide the shifted score by the logarithm of the sum. → What does the logarithm "
        "turn a division into?",
    ),
    Misconception(
        name="the logarithm of the scores",
        wrong=_log_softmax_wrong(
            lambda x, axis: np.log(x) - np.log(np.exp(x).sum(axis=axis, keepdims=True))
        ),
        hint="You take the logarithm of the score itself, which is NaN for a negative one. In "
        "softmax the numerator is eˣ. → What is the logarithm of eˣ?",
    ),
    Misconception(
        name="the sum of the logarithms",
        wrong=_log_softmax_wrong(lambda x, axis: x - x.sum(axis=axis, keepdims=True)),
        hint="log and Σ have changed places: the sum of log eˣ is the sum of the scores. → Which "
        "of exponential, sum and logarithm comes first, second and last?",
    ),
    Misconception(
        name="the mean of the exponentials",
        wrong=_log_softmax_wrong(
            lambda x, axis: (
                x
                - _peak(x, axis)
                - np.log(np.exp(x - _peak(x, axis)).mean(axis=axis, keepdims=True))
            )
        ),
        hint="Your results are too large by the logarithm of the row's length: the exponentials "
        "are averaged where they should be added up. → What does softmax divide by?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_log_softmax_wrong(lambda x, axis: -_log_softmax(x, axis)),
        hint="Your numbers are all positive: they are −log p, the surprise. → What is the sign of "
        "the logarithm of a number between 0 and 1?",
    ),
    Misconception(
        name="base 2",
        wrong=_log_softmax_wrong(lambda x, axis: _log_softmax(x, axis) / log(2)),
        hint="your numbers are in bits, which makes them 1 / ln 2 = 1.4427 times the right ones. "
        "This exercise uses nats. → Which of numpy's logarithms has the base e?",
        valid_variant=True,
    ),
    Misconception(
        name="softmax first",
        wrong=_log_softmax_wrong(lambda x, axis: _log_softmax(_softmax(x, axis), axis)),
        hint="You take the log-softmax of probabilities: all rows come out much too even. → How "
        "often is an exponential divided by a sum on the way to your result?",
    ),
    Misconception(
        name="the scores are overwritten",
        wrong=_log_softmax_in_place,
        hint="The numbers are right, but the caller's scores are gone: your function changes its "
        "argument. → Which line (perhaps with `-=` or `out=`) writes into `x` itself?",
    ),
]


def _log_softmax_by_logaddexp(x: NDArray, axis: int = -1) -> NDArray:
    return np.asarray(x - np.expand_dims(np.logaddexp.reduce(x, axis=axis), axis))


def _log_softmax_by_loops(x: NDArray, axis: int = -1) -> NDArray:
    rows = np.moveaxis(x, axis, -1)
    out = np.empty(rows.shape)
    for place in np.ndindex(rows.shape[:-1]):
        peak = max(rows[place])
        total = sum(exp(score - peak) for score in rows[place])
        for i, score in enumerate(rows[place]):
            out[(*place, i)] = (score - peak) - log(total)
    return np.moveaxis(out, -1, axis)


def _log_softmax_by_pairs(x: NDArray, axis: int = -1) -> NDArray:
    """Return −log Σ_j e^(x_j − x_i), term by term with the largest difference in front."""
    rows = np.moveaxis(x, axis, -1)
    apart = rows[..., None, :] - rows[..., :, None]
    largest = apart.max(axis=-1)
    total = np.exp(apart - largest[..., None]).sum(axis=-1)
    return np.moveaxis(-(largest + np.log(total)), -1, axis)


def _log_softmax_twice(x: NDArray, axis: int = -1) -> NDArray:
    """Apply it twice: log-probabilities are logits of the same distribution."""
    return _log_softmax(_log_softmax(x, axis), axis)


def _log_softmax_torch(x: Any, axis: int = -1) -> Any:
    import torch

    return x - torch.logsumexp(x, dim=axis, keepdim=True)


_LOG_SOFTMAX = Exercise(
    id="00.log_softmax",
    function="log_softmax",
    reference=ref.log_softmax,
    cases=_LOG_SOFTMAX_CASES,
    returns=("log_p",),
    misconceptions=_LOG_SOFTMAX_WRONG,
    alternatives=[
        Alternative(name="logaddexp", right=_log_softmax_by_logaddexp),
        Alternative(name="loops in plain Python", right=_log_softmax_by_loops),
        Alternative(name="sum over pairs", right=_log_softmax_by_pairs),
        Alternative(name="applied twice", right=_log_softmax_twice),
        Alternative(name="torch", right=_log_softmax_torch, backend="torch"),
    ],
    hints=[
        "The logarithm of a fraction is a difference: log(eˣ / Σ eˣ) = x − log Σ eˣ. With "
        "`keepdims=True` in the sum the first four cases pass.",
        "Taking one number from all scores of a row changes nothing in the result. Take the row's "
        "maximum: then no exponential overflows, and the sum is at least 1.",
        "Let `shifted` be x minus its row's maximum, and use `shifted` in both places of "
        "x − log Σ eˣ. No probability is ever formed, so none becomes 0.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 00.cross_entropy ------------------------------------------------------------------------------


def _loss_inputs(lead: tuple[int, ...], vocab_size: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 3, *lead, vocab_size])
        logits = draw(rng, *lead, vocab_size, spread=2.0)
        return {"logits": logits, "targets": rng.integers(0, vocab_size, lead)}

    return build


def _loss_padded(seed: int) -> dict[str, Any]:
    """Draw three sequences of 4, 1 and 2 tokens, padded to 4."""
    given = _loss_inputs((3, 4), 5)(seed)
    given["targets"][np.arange(4) >= np.array([[4], [1], [2]])] = -100
    return given


def _loss_padded_by_0(seed: int) -> dict[str, Any]:
    """Draw two sequences of 3 and 2 tokens; token 0 is padding, and stands for nothing else."""
    rng = np.random.default_rng([seed, 3, 0])
    targets = rng.integers(1, 6, (2, 3))
    targets[1, 2] = 0
    return {"logits": draw(rng, 2, 3, 6, spread=2.0), "targets": targets, "ignore_index": 0}


_LOSS_CASES = [
    Case(
        name="one token",
        inputs={"logits": np.array([[1.0, 0.0, 2.0]]), "targets": np.array([1])},
        shows="the loss is −log p of the right one",
    ),
    Case(
        name="equal logits",
        inputs={"logits": np.zeros((2, 3)), "targets": np.array([2, 0])},
        shows="the loss is log |V|",
    ),
    Case(
        name="5 tokens of a vocabulary of 4",
        inputs=_loss_inputs((5,), 4),
        shows="the mean over the tokens",
    ),
    Case(
        name="logits in the thousands",
        inputs={
            "logits": np.array([[2000.0, 1999.0, 2001.0], [-3000.0, -3002.0, -3001.0]]),
            "targets": np.array([1, 2]),
        },
        shows="no overflow",
    ),
    Case(
        name="logits far apart",
        inputs={
            "logits": np.array([[100.0, -900.0, 0.0], [-800.0, 3.0, 1.0]]),
            "targets": np.array([1, 1]),
        },
        shows="a confident mistake costs 1000 nats, not ∞",
    ),
    Case(
        name="a batch of 2 sequences of 3 tokens",
        inputs=_loss_inputs((2, 3), 4),
        shows="any number of axes in front",
    ),
    Case(
        name="a batch with padding",
        inputs=_loss_padded,
        shows="the mean over the real tokens of all sequences together",
    ),
    Case(
        name="padding marked by 0",
        inputs=_loss_padded_by_0,
        shows="`ignore_index` says which target doesn't count",
    ),
]


def _loss(
    *,
    log_p: Callable[[NDArray], NDArray] = _log_softmax,
    kept: Callable[[NDArray, int], NDArray] = lambda targets, ignore: targets != ignore,
    reduce: Callable[[NDArray, NDArray], Any] = lambda losses, kept: losses[kept].mean(),
    divide: bool = False,
) -> Callable[..., Any]:
    """Return cross-entropy with one step replaced; losses are 0 where a position isn't kept."""

    def wrong(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
        with np.errstate(all="ignore"):
            real = kept(targets, ignore_index)
            ids = np.where((targets >= 0) & (targets < logits.shape[-1]), targets, 0)
            losses = np.where(real, -_at(log_p(logits), ids), 0.0)
            return reduce(losses, real) / ((targets != ignore_index).sum() if divide else 1)

    return wrong


def _loss_by_positions(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """Index with arange(len(targets)), which fits a single sequence."""
    log_p = _log_softmax(logits)[np.arange(len(targets)), targets]
    return -log_p[targets != ignore_index].mean()


def _loss_padding_as_index(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    losses = -_at(_log_softmax(logits), targets)
    return losses[targets != ignore_index].mean()


def _loss_padding_not_known(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    return -_at(_log_softmax(logits), targets).mean()


def _loss_first_attempt(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """One sequence, no padding, no shift."""
    return -_log(_naive_softmax(logits)[np.arange(len(targets)), targets]).mean()


def _loss_loop(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    losses = []
    for i in range(len(targets)):
        if targets[i] != ignore_index:
            losses.append(-_log_softmax(logits[i])[targets[i]])
    return np.mean(losses)


def _loss_two_loops(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    losses = []
    for i in range(targets.shape[0]):
        for j in range(targets.shape[1]):
            if targets[i, j] != ignore_index:
                losses.append(-_log_softmax(logits[i, j])[targets[i, j]])
    return np.mean(losses)


def _loss_rows(log_p: Callable[[NDArray], NDArray]) -> Callable[..., Any]:
    return lambda logits, targets, ignore_index=-100: -log_p(logits)[targets].mean()


def _loss_last_token(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    ids = np.where(targets == ignore_index, logits.shape[-1] - 1, targets)
    return -_at(_log_softmax(logits), ids).mean()


def _loss_as_pytorch(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """Fail as torch.nn.functional.cross_entropy does, for which axis 1 is the vocabulary."""
    if logits.ndim > 2:
        raise RuntimeError("Expected target size")
    return _loss()(logits, targets, ignore_index)


def _loss_pairs(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """Index the vocabulary axis with all targets at every position."""
    kept = targets[targets != ignore_index]
    return -_log_softmax(logits)[..., kept].mean()


def _loss_logits_hidden(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """Set the padding's logits to 0, and count it: each costs log |V|."""
    real = targets != ignore_index
    log_p = _log_softmax(logits * real[..., None])
    return -_at(log_p, np.where(real, targets, 0)).mean()


def _loss_one_hot(
    of: Callable[[NDArray, NDArray], Any],
    softmax: Callable[[NDArray], NDArray] = _softmax,
) -> Callable[..., Any]:
    """Return a function of the kept positions' probabilities and one-hot targets."""

    def wrong(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
        real = targets != ignore_index
        with np.errstate(all="ignore"):
            y = np.eye(logits.shape[-1])[targets[real]]
            return of(y, softmax(logits[real]))

    return wrong


def _loss_touches(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """Write 0 over the padding's targets, in the caller's array."""
    real = targets != ignore_index
    targets[~real] = 0
    return -_at(_log_softmax(logits), targets)[real].mean()


def _loss_touches_logits(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    logits -= logits.max(axis=-1, keepdims=True)
    real = targets != ignore_index
    return -_at(_log_softmax(logits), np.where(real, targets, 0))[real].mean()


def _loss_no_padding(losses: NDArray, kept: NDArray) -> Any:
    return losses.sum() / losses.size


def _everything(targets: NDArray, ignore: int) -> NDArray:
    return np.ones(targets.shape, bool)


def _row_mean(values: NDArray) -> NDArray:
    return np.asarray(values.mean(axis=-1))


_LOSS_WRONG = [
    Misconception(
        name="ignore_index fixed at −100",
        wrong=_loss(kept=lambda targets, ignore: targets != -100),
        hint="Right for padding marked by −100, but the argument `ignore_index` makes no "
        "difference to your function. → Which number should the targets be compared with?",
    ),
    Misconception(
        name="padding used as an index",
        wrong=_loss_padding_as_index,
        hint="The loss is looked up at every position before the padding is left out, and −100 is "
        "no column of the table. → Can you leave out these positions, or give them a harmless "
        "target, before you look anything up?",
    ),
    Misconception(
        name="the caller's targets overwritten",
        wrong=_loss_touches,
        hint="The loss is right, but the caller's targets have lost their padding: your function "
        "writes into its argument. → Which line changes `targets` itself, and what could make a "
        "new array (`np.where`)?",
    ),
    Misconception(
        name="padding counted as the last token",
        wrong=_loss_last_token,
        hint="Positions of padding are in your mean, as if the last token of the vocabulary had "
        "come there. → Which positions does `targets != ignore_index` select, and where do you "
        "use that?",
    ),
    Misconception(
        name="padding counted as token 0",
        wrong=_loss(kept=_everything),
        hint="Positions of padding are in your mean, as if token 0 had come there. → Which "
        "positions does `targets != ignore_index` select, and where do you use that?",
    ),
    Misconception(
        name="padding counted as token 0, divided by the number of real tokens",
        wrong=_loss(
            kept=_everything,
            reduce=lambda losses, kept: losses.sum(),
            divide=True,
        ),
        hint="You divide by the number of real tokens, but the sum above it holds the positions "
        "of padding too, as if token 0 had come there. → In which line does a position of padding "
        "still cost something?",
    ),
    Misconception(
        name="NaN for padding",
        wrong=_loss(reduce=lambda losses, kept: np.where(kept, losses, np.nan).mean()),
        hint="You mark padding by NaN, and a mean that meets one NaN is NaN. → How can these "
        "positions be left out before the mean is taken?",
    ),
    Misconception(
        name="divided by the padded length",
        wrong=_loss(reduce=_loss_no_padding),
        hint="Your sum leaves the padding out, but it's divided by the number of all positions, "
        "so more padding seems to mean a better model. → How many real tokens are there?",
    ),
    Misconception(
        name="padding's logits set to 0",
        wrong=_loss_logits_hidden,
        hint="Setting the logits of padding to 0 doesn't take it out: equal logits cost log |V| "
        "each, and the position is still counted. → Which numbers should not enter the mean at "
        "all?",
    ),
    Misconception(
        name="the mean of the sequences' means",
        wrong=_loss(reduce=lambda losses, kept: (losses.sum(axis=-1) / kept.sum(axis=-1)).mean()),
        hint="You average each sequence, and then the sequences, so that a sequence of one token "
        "counts as much as one of four. → How many tokens are there in all, and should each count "
        "the same?",
    ),
    Misconception(
        name="padding used as an index, and counted",
        wrong=_loss_padding_not_known,
        hint="`ignore_index` makes no difference to your function: −100 is used as a column, and "
        "where padding is marked by 0 it's counted as token 0. → Which positions should be looked "
        "up at all?",
    ),
    Misconception(
        name="the vocabulary not on PyTorch's axis",
        wrong=_loss_as_pytorch,
        hint="PyTorch's `cross_entropy` takes axis 1 for the vocabulary. In a batch of sequences "
        "that's the axis of the positions. → How can all axes in front be made one (`flatten`) "
        "before it's called?",
    ),
    Misconception(
        name="the sum a sequence",
        wrong=_loss(reduce=lambda losses, kept: losses.sum() / len(losses)),
        hint="You divide by the number of sequences. With a single sequence of tokens nobody can "
        "tell; in a batch the loss grows with their length. → How many real tokens does the whole "
        "batch have?",
    ),
    Misconception(
        name="written for one sequence",
        wrong=_loss_by_positions,
        hint="Indexing with `np.arange(len(targets))` fits one sequence. In a batch `len` counts "
        "sequences, and the two indices no longer fit together. → How can all axes in front be "
        "made one (`reshape`), or the lookup follow the last axis (`np.take_along_axis`)?",
    ),
    Misconception(
        name="a loop along one axis",
        wrong=_loss_loop,
        hint="Your loop takes one axis in front for granted. In a batch `targets[i]` is a row of "
        "several targets, which can't be compared with one number. → How can all axes in front be "
        "made one before the loop (`reshape`), or the lookup follow the last axis "
        "(`np.take_along_axis`)?",
    ),
    Misconception(
        name="softmax over axis 1",
        wrong=_loss(log_p=lambda logits: _log_softmax(logits, 1)),
        hint="Axis 1 is the vocabulary's for one sequence; in a batch it's the positions'. → "
        "Which number names the last axis, however many there are?",
    ),
    Misconception(
        name="the logarithm of a stable softmax",
        wrong=_loss(log_p=lambda logits: _log(_softmax(logits))),
        hint="A probability such as e⁻¹⁰⁰⁰ is 0 to a float, and its logarithm −∞. → Which "
        "function from above gives log-probabilities without forming probabilities first?",
    ),
    *(
        Misconception(
            name=f"{text} added to the probabilities",
            wrong=_loss(log_p=_log_of(raised)),
            hint=f"Adding {text} to probabilities (or cutting them off there) hides that one was "
            "rounded to 0, and makes the loss of a confident mistake far too small. → Which "
            "function from above gives log-probabilities without forming probabilities first?",
        )
        for text, raised in _each_epsilon(_raised)
    ),
    Misconception(
        name="NaN of one-hot times −∞",
        wrong=_loss_one_hot(lambda y, p: -(y * _log(p)).sum() / len(y)),
        hint="Multiplying by a one-hot row is right on paper, but a probability of 0 makes 0 · "
        "log 0, which is 0 · (−∞) and NaN. → Which function from above gives log-probabilities "
        "that are finite?",
    ),
    Misconception(
        name="no maximum subtracted in the log-sum-exp",
        wrong=_loss(log_p=lambda logits: logits - _log(np.exp(logits).sum(axis=-1, keepdims=True))),
        hint="x − log Σ eˣ is the formula, but e to the power of 2000 is more than a float holds, "
        "and of −3000 it's 0. → Which number may be taken from all logits of a row without "
        "changing the result?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_loss(log_p=lambda logits: _log(_naive_softmax(logits))),
        hint="With large logits your exponentials are ∞, or all of a row's are 0 (as when the "
        "maximum of the whole array is taken from a row that lies far below it). The formula is "
        "right; the numbers on the way aren't. → Which function from above gives "
        "log-probabilities without forming such numbers?",
    ),
    Misconception(
        name="NaN of one-hot times −∞, no maximum subtracted",
        wrong=_loss_one_hot(lambda y, p: -(y * _log(p)).sum() / len(y), _naive_softmax),
        hint="Where logits are large your softmax overflows or gives 0, and 0 · log 0 is NaN. → "
        "Which function from above gives log-probabilities that are finite?",
    ),
    Misconception(
        name="written for one sequence, no maximum subtracted",
        wrong=_loss_first_attempt,
        hint="Indexing with `np.arange(len(targets))` fits one sequence. In a batch `len` counts "
        "sequences, and the two indices no longer fit together. (Padding and large logits come "
        "next.) → How can all axes in front be made one (`reshape`), or the lookup follow the "
        "last axis (`np.take_along_axis`)?",
    ),
    Misconception(
        name="token 0 never counted",
        wrong=_loss(kept=lambda targets, ignore: targets > 0),
        hint="You leave out every target that isn't above 0, and 0 is a token like any other, "
        "unless `ignore_index` says so. → Which one number should the targets be compared with?",
    ),
    Misconception(
        name="every position with every target",
        wrong=_loss_pairs,
        hint="Your index pairs every position with the targets of all positions, and the mean "
        "runs over all pairs. → How is one column picked for each row?",
    ),
    Misconception(
        name="the logarithm of the mean probability",
        wrong=_loss_one_hot(lambda y, p: -_log((y * p).sum(axis=-1).mean())),
        hint="You take the mean of the probabilities and then the logarithm, which forgives a "
        "confident mistake. → Which of the two comes first, the logarithm or the mean?",
    ),
    Misconception(
        name="sum, not mean",
        wrong=_loss(reduce=lambda losses, kept: losses.sum()),
        hint="That's the sum over the tokens: right for one, and larger the more there are. → "
        "What is the loss divided by, so that batches of any size compare?",
    ),
    Misconception(
        name="one sum for all positions",
        wrong=_loss(
            log_p=lambda logits: logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        ),
        hint="One sum of exponentials for the whole array: the probabilities of all positions "
        "together sum to 1. → What does `sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="loops along two axes",
        wrong=_loss_two_loops,
        hint="Your loops take two axes in front for granted, a batch and its positions. Some "
        "cases have only one. → How can all axes in front be made one before the loop (`reshape`)?",
    ),
    Misconception(
        name="softmax applied twice",
        wrong=_loss(log_p=lambda logits: _log_softmax(_softmax(logits))),
        hint="Your losses are what comes out when log-softmax is given probabilities: near log "
        "|V| even where the model is sure. → What does your log-softmax or softmax get, logits or "
        "the result of another softmax?",
    ),
    Misconception(
        name="the likeliest token's loss",
        wrong=_loss_one_hot(lambda y, p: -np.log(p.max(axis=-1)).mean()),
        hint="You take the probability of the likeliest token, whatever came: a model that is "
        "sure and wrong looks perfect. → Which column does the target name?",
    ),
    Misconception(
        name="the entropy of the prediction",
        wrong=_loss_one_hot(lambda y, p: -(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1).mean()),
        hint="You weigh log p with the model's own p: that's the entropy of the prediction, and "
        "the targets don't come in. → With which distribution is log p weighed in a "
        "*cross*-entropy?",
    ),
    Misconception(
        name="the caller's logits overwritten",
        wrong=_loss_touches_logits,
        hint="The loss is right, but the caller's logits were changed on the way. → Which line "
        "(perhaps with `-=`) writes into `logits` itself?",
    ),
    Misconception(
        name="only the padding kept",
        wrong=_loss(kept=lambda targets, ignore: targets == ignore),
        hint="Your mask is turned round: it keeps the padding, and where there is none you take "
        "the mean of nothing, which is NaN. → What is True in your mask, the positions that count "
        "or the others?",
    ),
    Misconception(
        name="rows picked by the targets",
        wrong=_loss_rows(_log_softmax),
        hint="`log_p[targets]` picks whole rows, and the rows are positions: their mean runs over "
        "all tokens of the vocabulary. → Which axis do the targets index, and what has to stand "
        "on the other?",
    ),
    Misconception(
        name="rows picked by the targets, no maximum subtracted",
        wrong=_loss_rows(lambda logits: _log(_naive_softmax(logits))),
        hint="`p[targets]` picks whole rows, and the rows are positions: the mean runs over all "
        "tokens of the vocabulary. (Large logits can wait.) → Which axis do the targets index, "
        "and what has to stand on the other?",
    ),
    Misconception(
        name="not reduced",
        wrong=_loss(reduce=lambda losses, kept: losses),
        hint="These are the losses of all positions, each by itself. → What one number do they "
        "come to, and which of them must not enter it?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_loss(reduce=lambda losses, kept: -losses[kept].mean()),
        hint="Your loss is negative. The logarithm of a probability is at most 0, and a loss "
        "should be smallest where the model is right. → Which sign has −log p?",
    ),
    Misconception(
        name="base 2",
        wrong=_loss(reduce=lambda losses, kept: losses[kept].mean() / log(2)),
        hint="your loss is in bits, which makes it 1 / ln 2 = 1.4427 times the right one. This "
        "exercise uses nats. → Which of numpy's logarithms has the base e?",
        valid_variant=True,
    ),
    Misconception(
        name="base 10",
        wrong=_loss(reduce=lambda losses, kept: losses[kept].mean() / log(10)),
        hint="your logarithm has the base 10, which makes the loss 1 / ln 10 = 0.4343 times the "
        "right one. This exercise uses the natural one. → Which of numpy's logarithms has the base "
        "e?",
        valid_variant=True,
    ),
    Misconception(
        name="the perplexity",
        wrong=_loss(reduce=lambda losses, kept: np.exp(losses[kept].mean())),
        hint="That's e to the power of the loss: the perplexity. → Which of your steps is one too "
        "many?",
    ),
    Misconception(
        name="no softmax",
        wrong=_loss(log_p=lambda logits: logits),
        hint="You average the logits of the right tokens with a minus, and never turn them into "
        "log-probabilities. Adding 10 to every logit would change your loss. → What has to be "
        "taken from the logits of a row?",
    ),
    Misconception(
        name="the logarithm of the logits",
        wrong=_loss(log_p=np.log),
        hint="You take the logarithm of the logits themselves, as if they were probabilities. "
        "They may be 0 or negative. → Which function makes probabilities of them?",
    ),
    Misconception(
        name="divided by the size of the vocabulary too",
        wrong=_loss_one_hot(lambda y, p: -(y * np.log(np.maximum(p, 1e-300))).mean()),
        hint="Your mean runs over the vocabulary as well: all the zeros beside the right token "
        "count as losses. → Over how many tokens is the mean?",
    ),
    Misconception(
        name="the wrong tokens counted too",
        wrong=_loss_one_hot(
            lambda y, p: (
                -(
                    y * np.log(np.maximum(p, 1e-300)) + (1 - y) * np.log(np.maximum(1 - p, 1e-300))
                ).sum()
                / len(y)
            )
        ),
        hint="You add log(1 − p) of every token that didn't come: that's the loss of separate "
        "yes-or-no questions. With softmax one term is left. → What does Σ y log p collapse to "
        "when y is one-hot?",
    ),
    Misconception(
        name="1 − p",
        wrong=_loss_one_hot(lambda y, p: (1 - (y * p).sum(axis=-1)).mean()),
        hint="You average 1 − p of the right tokens, without any logarithm: a confident mistake "
        "costs no more than 1. → Which function of p is 0 at 1 and grows without bound towards 0?",
    ),
    Misconception(
        name="−p",
        wrong=_loss_one_hot(lambda y, p: -(y * p).sum(axis=-1).mean()),
        hint="You average the probabilities of the right tokens, with a minus and without a "
        "logarithm. → Which function of p is 0 at 1 and grows without bound towards 0?",
    ),
    Misconception(
        name="squared errors",
        wrong=_loss_one_hot(lambda y, p: ((y - p) ** 2).sum(axis=-1).mean()),
        hint="You add up squared differences from the one-hot target: the Brier score, which has "
        "no logarithm. → Which term of −Σ y log p is left when y is one-hot?",
    ),
    Misconception(
        name="softmax over the positions",
        wrong=_loss(log_p=lambda logits: _log_softmax(logits, -2)),
        hint="Your probabilities sum to 1 over the positions, so that tokens of one vocabulary "
        "don't compete but moments do. → Along which axis do the probabilities of the next token "
        "lie?",
    ),
    Misconception(
        name="softmax over the first axis",
        wrong=_loss(log_p=lambda logits: _log_softmax(logits, 0)),
        hint="Your softmax runs down the first axis, whatever that is. → Along which axis do the "
        "probabilities of the next token lie?",
    ),
]


def _loss_by_log_sum_exp(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    real = targets != ignore_index
    given = _at(logits, np.where(real, targets, 0))
    losses = np.logaddexp.reduce(logits, axis=-1) - given
    return (losses * real).sum() / real.sum()


def _loss_by_loops(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> float:
    losses = []
    for place in np.ndindex(targets.shape):
        if targets[place] == ignore_index:
            continue
        row = logits[place]
        peak = max(row)
        losses.append(log(sum(exp(s - peak) for s in row)) + peak - row[targets[place]])
    return float(sum(losses) / len(losses))


def _loss_flattened(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    rows, ids = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    rows, ids = rows[ids != ignore_index], ids[ids != ignore_index]
    return -np.average(_log_softmax(rows)[np.arange(len(ids)), ids])


def _loss_by_one_hot(logits: NDArray, targets: NDArray, ignore_index: int = -100) -> Any:
    """Compare every target with every id: padding matches none and its row is all 0."""
    y = (np.arange(logits.shape[-1]) == targets[..., None]) & (targets != ignore_index)[..., None]
    return -(y * _log_softmax(logits)).sum() / y.sum()


def _loss_torch(logits: Any, targets: Any, ignore_index: int = -100) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=ignore_index
    )


_CROSS_ENTROPY = Exercise(
    id="00.cross_entropy",
    function="cross_entropy",
    reference=ref.cross_entropy,
    cases=_LOSS_CASES,
    returns=("loss",),
    misconceptions=_LOSS_WRONG,
    alternatives=[
        Alternative(name="log-sum-exp minus the given logit", right=_loss_by_log_sum_exp),
        Alternative(name="loops in plain Python", right=_loss_by_loops),
        Alternative(name="flattened", right=_loss_flattened),
        Alternative(name="one-hot rows", right=_loss_by_one_hot),
        Alternative(name="torch", right=_loss_torch, backend="torch"),
    ],
    hints=[
        "Take the log-softmax along the last axis, pick in every row the column that the target "
        "names, and average with a minus. The first three cases pass with that.",
        "`keep = targets != ignore_index` says which positions count. `logits[keep]` and "
        "`targets[keep]` hold only these, one row each, whatever axes there were in front.",
        "With m rows left, `log_p[np.arange(m), targets[keep]]` picks one number a row. Where "
        "there is no padding, and however many axes, these are the same lines.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 00.perplexity ---------------------------------------------------------------------------------


def _batches(sizes: list[int], low: float, high: float) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, len(sizes)])
        return {
            "losses": rng.uniform(low, high, len(sizes)).round(2),
            "n_tokens": np.array(sizes),
        }

    return build


_PERPLEXITY_CASES = [
    Case(
        name="one batch",
        inputs={"losses": np.array([1.5]), "n_tokens": np.array([8])},
        shows="e to the power of its loss",
    ),
    Case(
        name="a model that gives 7 tokens equal chances",
        inputs={"losses": np.log([7.0, 7.0, 7.0]), "n_tokens": np.array([4, 4, 2])},
        shows="the perplexity is 7",
    ),
    Case(
        name="3 batches of 10 tokens",
        inputs=_batches([10, 10, 10], 0.5, 4.0),
        shows="the losses are averaged, not the perplexities",
    ),
    Case(
        name="a last batch of 3 tokens",
        inputs={"losses": np.array([2.0, 2.2, 1.9, 5.0]), "n_tokens": np.array([32, 32, 32, 3])},
        shows="it counts for 3 tokens",
    ),
    Case(
        name="12 batches of unequal length",
        inputs=_batches([5, 1, 40, 7, 2, 19, 64, 3, 11, 30, 8, 23], 0.5, 6.0),
        shows="every token counts the same",
    ),
    Case(
        name="thousands of tokens",
        inputs=_batches([3000, 5000, 1200], 6.0, 9.0),
        shows="no overflow",
    ),
]


def _perplexed(compute: Callable[[NDArray, NDArray], Any]) -> Callable[..., Any]:
    def wrong(losses: NDArray, n_tokens: NDArray) -> Any:
        with np.errstate(all="ignore"):
            return compute(losses, n_tokens)

    return wrong


def _token_mean(losses: NDArray, n_tokens: NDArray) -> Any:
    return (losses * n_tokens).sum() / n_tokens.sum()


_PERPLEXITY_WRONG = [
    Misconception(
        name="the product first, then its root",
        wrong=_perplexed(lambda losses, n: np.exp((losses * n).sum()) ** (1 / n.sum())),
        hint="Right on paper, and for short tests. One over the probability of thousands of "
        "tokens is more than a float holds, so there is no root to take any more. → What do the "
        "logarithms, which you are given, add up to, and when can you divide?",
    ),
    Misconception(
        name="the mean of the batches' means",
        wrong=_perplexed(lambda losses, n: np.exp(losses.mean())),
        hint="You average the batches' losses, so that a batch of 3 tokens counts as much as one "
        "of 32. → Of how many tokens is each loss the mean, and how do you get the sum back?",
    ),
    Misconception(
        name="short batches weighted more",
        wrong=_perplexed(lambda losses, n: np.exp((losses / n).sum() / (1 / n).sum())),
        hint="Your weights are one over the number of tokens, so that short batches count most. → "
        "Should a batch of 3 tokens count less or more than one of 32?",
    ),
    Misconception(
        name="the mean of the batches' perplexities",
        wrong=_perplexed(lambda losses, n: np.exp(losses).mean()),
        hint="You average perplexities: one hard batch lifts that mean far more than it should, "
        "and every batch counts the same whatever its length. → Which comes last, the exponential "
        "or the mean?",
    ),
    Misconception(
        name="the weighted mean of the batches' perplexities",
        wrong=_perplexed(lambda losses, n: _token_mean(np.exp(losses), n)),
        hint="The weights are right, but you average perplexities where losses should be "
        "averaged. → Which comes last, the exponential or the mean?",
    ),
    Misconception(
        name="the last batch left out",
        wrong=_perplexed(
            lambda losses, n: np.exp(
                _token_mean(losses[:-1], n[:-1]) if len(n) > 1 else _token_mean(losses, n)
            )
        ),
        hint="The last batch is missing from your mean. It's shorter, not wrong: its tokens count "
        "like all others. → Where does your loop or slice end?",
    ),
    Misconception(
        name="the median batch",
        wrong=_perplexed(lambda losses, n: np.exp(np.median(losses))),
        hint="You take the median of the batches' losses; the others make no difference. → Which "
        "mean counts every token the same?",
    ),
    Misconception(
        name="the number of tokens multiplied in at the end",
        wrong=_perplexed(lambda losses, n: np.exp(losses.mean()) * n.sum() / (len(n) * n.max())),
        hint="You scale a perplexity by a share of tokens. Numbers of tokens belong into the mean "
        "of the losses. → How much should each loss count there?",
    ),
    Misconception(
        name="the sum of the losses, divided after the exponential",
        wrong=_perplexed(lambda losses, n: np.exp(losses.sum()) / len(losses)),
        hint="You add the losses, take the exponential and then divide by the number of batches. "
        "→ Which comes last, the exponential or the division, and over what is the mean?",
    ),
    Misconception(
        name="the sum of the losses",
        wrong=_perplexed(lambda losses, n: np.exp(losses.sum())),
        hint="You add the batches' losses and never divide: the perplexity multiplies with every "
        "batch. → What is the mean loss of a single token?",
    ),
    Misconception(
        name="the root left out of the product",
        wrong=_perplexed(lambda losses, n: np.prod(np.exp(losses) ** (n / n.max()))),
        hint="You multiply powers of the batches' perplexities, and the exponents don't sum to 1: "
        "you divide by the largest batch. → By the number of what must the exponents be divided?",
    ),
    Misconception(
        name="shares that are whole numbers",
        wrong=_perplexed(lambda losses, n: np.exp((losses * (n // n.sum())).sum())),
        hint="`//` cuts a share down to a whole number, which is 0 for every batch but a single "
        "one. → Which division keeps the fraction?",
    ),
    Misconception(
        name="weighted, and divided by the number of batches",
        wrong=_perplexed(lambda losses, n: np.exp((losses * n / n.sum()).mean())),
        hint="The weights sum to 1 already, and then `mean` divides by the number of batches once "
        "more. → Which of the two makes a weighted mean out of weights that sum to 1, `sum` or "
        "`mean`?",
    ),
    Misconception(
        name="each loss divided by its tokens, and added",
        wrong=_perplexed(lambda losses, n: np.exp((losses / n).sum())),
        hint="You divide each loss by its number of tokens, but it's a mean over these tokens "
        "already. → How do you get a batch's sum from its mean?",
    ),
    Misconception(
        name="no exponential",
        wrong=_perplexed(_token_mean),
        hint="That's the mean loss of a token, in nats. → Which function of it is the perplexity?",
    ),
    Misconception(
        name="no exponential, batches averaged",
        wrong=_perplexed(lambda losses, n: losses.mean()),
        hint="That's the mean of the batches' losses, in nats. → Which function of a mean loss is "
        "the perplexity, and how much should each batch count in that mean?",
    ),
    Misconception(
        name="2 to the power of nats",
        wrong=_perplexed(lambda losses, n: 2 ** _token_mean(losses, n)),
        hint="You raise 2 to the power of a loss that is in nats: a model that gives 7 tokens "
        "equal chances then has less than 7. → Which base belongs to the natural logarithm?",
    ),
    Misconception(
        name="2 to the power of nats, batches averaged",
        wrong=_perplexed(lambda losses, n: 2 ** losses.mean()),
        hint="You raise 2 to the power of a loss that is in nats: a model that gives 7 tokens "
        "equal chances then has less than 7. → Which base belongs to the natural logarithm, and "
        "how much should each batch count in the mean?",
    ),
    Misconception(
        name="e to the power of bits",
        wrong=_perplexed(lambda losses, n: np.exp(_token_mean(losses, n) / log(2))),
        hint="You turn the loss into bits and then raise e to that power. → Which base belongs to "
        "bits, and which to nats?",
    ),
    Misconception(
        name="10 to the power of nats",
        wrong=_perplexed(lambda losses, n: 10 ** _token_mean(losses, n)),
        hint="You raise 10 to the power of a loss that is in nats. → Which base belongs to the "
        "natural logarithm?",
    ),
    Misconception(
        name="the bits of a token",
        wrong=_perplexed(lambda losses, n: _token_mean(losses, n) / log(2)),
        hint="That's the mean loss of a token in bits. → Which function of the loss in nats is "
        "the perplexity?",
    ),
    Misconception(
        name="the sum over all tokens",
        wrong=_perplexed(lambda losses, n: np.exp((losses * n).sum())),
        hint="losses · n_tokens adds up what all tokens cost, and you raise e to the power of "
        "that sum: one over the whole text's probability. → By what should the sum be divided?",
    ),
    Misconception(
        name="the sum over all tokens, divided by the number of batches",
        wrong=_perplexed(lambda losses, n: np.exp((losses * n).mean())),
        hint="losses · n_tokens adds up what all tokens cost, and you divide by the number of "
        "batches. → By the number of what should it be divided?",
    ),
    Misconception(
        name="divided after the exponential",
        wrong=_perplexed(lambda losses, n: np.exp((losses * n).sum()) / n.sum()),
        hint="You divide by the number of tokens after the exponential, where a root would be "
        "due. → Which comes first, the division or the exponential?",
    ),
    Misconception(
        name="the perplexities added, divided by the number of tokens",
        wrong=_perplexed(lambda losses, n: np.exp(losses).sum() / n.sum()),
        hint="You add the batches' perplexities and divide by the number of tokens. → What do all "
        "tokens cost together, in nats, and which comes last?",
    ),
    Misconception(
        name="losses taken for sums",
        wrong=_perplexed(lambda losses, n: np.exp(losses.sum() / n.sum())),
        hint="You divide the sum of the losses by the number of tokens, as if each loss were a "
        "batch's sum. They are means. → How do you get a batch's sum from its mean?",
    ),
    Misconception(
        name="each loss divided by its tokens",
        wrong=_perplexed(lambda losses, n: np.exp((losses / n).mean())),
        hint="You divide each loss by its number of tokens, but it's a mean over these tokens "
        "already. → How do you get a batch's sum from its mean?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_perplexed(lambda losses, n: np.exp(-_token_mean(losses, n))),
        hint="Your result is below 1: it's the typical probability of a token, and the perplexity "
        "is one over it. → Is the loss log p, or −log p?",
    ),
    Misconception(
        name="the logarithm",
        wrong=_perplexed(lambda losses, n: np.log(_token_mean(losses, n))),
        hint="You take the logarithm of the loss, which is a logarithm already. → Which function "
        "undoes a logarithm?",
    ),
    Misconception(
        name="1 less",
        wrong=_perplexed(lambda losses, n: np.expm1(_token_mean(losses, n))),
        hint="Your result is too small by exactly 1, as `expm1` does it. → What is the perplexity "
        "of a model that is always certain and right?",
    ),
    Misconception(
        name="one for every batch",
        wrong=_perplexed(lambda losses, n: np.exp(losses)),
        hint="These are the perplexities of the batches, each by itself. The whole test has one. "
        "→ Into which one number do the losses go before the exponential?",
    ),
]


def _perplexity_by_average(losses: NDArray, n_tokens: NDArray) -> Any:
    return np.exp(np.average(losses, weights=n_tokens))


def _perplexity_by_loop(losses: NDArray, n_tokens: NDArray) -> float:
    total = count = 0.0
    for loss, n in zip(losses, n_tokens, strict=True):
        total += loss * n
        count += n
    return exp(total / count)


def _perplexity_by_product(losses: NDArray, n_tokens: NDArray) -> Any:
    """Take the geometric mean of the batches' perplexities, weighted by their shares."""
    return np.prod(np.exp(losses) ** (n_tokens / n_tokens.sum()))


def _perplexity_token_by_token(losses: NDArray, n_tokens: NDArray) -> Any:
    return np.exp(np.repeat(losses, n_tokens).mean())


def _perplexity_in_bits(losses: NDArray, n_tokens: NDArray) -> Any:
    return 2 ** ((losses @ n_tokens / n_tokens.sum()) / np.log(2))


def _perplexity_torch(losses: Any, n_tokens: Any) -> Any:
    return ((losses * n_tokens).sum() / n_tokens.sum()).exp()


_PERPLEXITY = Exercise(
    id="00.perplexity",
    function="perplexity",
    reference=ref.perplexity,
    cases=_PERPLEXITY_CASES,
    returns=("perplexity",),
    misconceptions=_PERPLEXITY_WRONG,
    alternatives=[
        Alternative(name="np.average", right=_perplexity_by_average),
        Alternative(name="a loop", right=_perplexity_by_loop),
        Alternative(name="a geometric mean", right=_perplexity_by_product),
        Alternative(name="every token's loss written out", right=_perplexity_token_by_token),
        Alternative(name="by way of bits", right=_perplexity_in_bits),
        Alternative(name="torch", right=_perplexity_torch, backend="torch"),
    ],
    hints=[
        "Perplexity is e to the power of the mean loss of a token. The mean is over all tokens of "
        "all batches, and it's taken before the exponential.",
        "A batch's loss is the mean over its tokens, so loss times number of tokens is their sum. "
        "Add up these sums.",
        "Divide the sum of all tokens' losses by the number of all tokens; e to the power of that "
        "is the result.",
    ],
    points=3,
    minutes=10,
    difficulty=1,
)


# -- 00.sample -------------------------------------------------------------------------------------

_JUST_BELOW_1 = 1.0 - 2.0**-53


def _draws(
    lead: tuple[int, ...], vocab_size: int, temperature: float | None = None
) -> Callable[[int], dict[str, Any]]:
    """Draw logits, and uniform numbers that keep away from where one token ends."""

    def build(seed: int) -> dict[str, Any]:
        t = 1.0 if temperature is None else temperature
        rng = np.random.default_rng([seed, 5, *lead, vocab_size, round(100 * t)])
        logits = draw(rng, *lead, vocab_size, spread=1.5)
        edges = _softmax(logits / t).cumsum(axis=-1)
        uniforms = np.full(lead, np.inf)
        while True:
            near = ~(np.abs(edges - uniforms[..., None]).min(axis=-1) > 2e-3)
            near |= ~(uniforms < 1.0)
            if not near.any():
                break
            uniforms = np.where(near, rng.random(lead).round(3), uniforms)
        given = {"logits": logits, "uniforms": uniforms}
        return given if temperature is None else {**given, "temperature": temperature}

    return build


def _draws_thousands(seed: int) -> dict[str, Any]:
    """Draw rows of which those far below 0 give neither the first nor the last token."""
    while True:
        given = _draws((6,), 4)(seed)
        ids = _count(_softmax(given["logits"]).cumsum(axis=-1), given["uniforms"])
        if set(ids[1::2].tolist()) == {1, 2}:
            return {**given, "logits": given["logits"] + np.array([[3000.0], [-3000.0]] * 3)}
        seed += 1


_SAMPLE_CASES = [
    Case(
        name="3 rows of 3 logits",
        inputs={
            "logits": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
            "uniforms": np.array([0.9, 0.7, 0.1]),
        },
        shows="each uniform number falls on one token's piece",
    ),
    Case(
        name="30 rows of 5 logits",
        inputs=_draws((30,), 5),
        shows="each row has its own probabilities",
    ),
    Case(name="temperature ½", inputs=_draws((30,), 5, 0.5), shows="sharper"),
    Case(name="temperature 3", inputs=_draws((30,), 5, 3.0), shows="flatter"),
    Case(
        name="u = 0 and a first token that can't come",
        inputs={"logits": np.array([[-np.inf, 0.5, 1.0]]), "uniforms": np.array([0.0])},
        shows="probability 0 is never drawn",
    ),
    Case(
        name="u = 1 − 2⁻⁵³, just below 1",
        inputs={"logits": np.zeros((1, 7)), "uniforms": np.array([_JUST_BELOW_1])},
        shows="the last token, although seven sevenths add up to a little less than 1",
    ),
    Case(name="logits in the thousands", inputs=_draws_thousands, shows="no overflow"),
    Case(
        name="4 × 3 rows, temperature 2",
        inputs=_draws((4, 3), 6, 2.0),
        shows="any number of axes in front",
    ),
]


def _count(cdf: NDArray, u: NDArray) -> NDArray:
    """Return how many heights lie at or below u: the right token but for rounding at the top."""
    return np.asarray((cdf <= u[..., None]).sum(axis=-1))


def _kept_in(ids: NDArray, cdf: NDArray) -> NDArray:
    return np.minimum(ids, cdf.shape[-1] - 1)


def _sampled(
    *,
    p: Callable[[NDArray, float], NDArray] = lambda x, t: _softmax(x / t),
    cdf: Callable[[NDArray], NDArray] = lambda p: p.cumsum(axis=-1),
    pick: Callable[[NDArray, NDArray], Any] = lambda c, u: _kept_in(_count(c, u), c),
) -> Callable[..., Any]:
    """Return sampling with one of its three steps replaced."""

    def wrong(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
        with np.errstate(all="ignore"):
            return pick(cdf(p(logits, temperature)), uniforms)

    return wrong


def _powers(p: NDArray, exponent: float) -> NDArray:
    powers = p**exponent
    return powers / powers.sum(axis=-1, keepdims=True)


def _sample_sorted(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    """Lay the tokens out from the likeliest to the least likely, and return the ids."""
    p = _softmax(logits / temperature)
    order = np.argsort(-p, axis=-1, kind="stable")
    cdf = np.take_along_axis(p, order, axis=-1).cumsum(axis=-1)
    return _at(order, _kept_in(_count(cdf, uniforms), cdf))


def _sample_ranks(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    """Lay them out by probability, and return the place instead of the id."""
    cdf = np.sort(_softmax(logits / temperature), axis=-1)[..., ::-1].cumsum(axis=-1)
    return _kept_in(_count(cdf, uniforms), cdf)


def _sample_ranks_up(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    cdf = np.sort(_softmax(logits / temperature), axis=-1).cumsum(axis=-1)
    return _kept_in(_count(cdf, uniforms), cdf)


def _sample_first_true(cdf: NDArray, u: NDArray) -> Any:
    """Find the first height above u; argmax gives 0 where there is none."""
    return (cdf > u[..., None]).argmax(axis=-1)


def _sample_first_reached(cdf: NDArray, u: NDArray) -> Any:
    return _kept_in(np.asarray((cdf < u[..., None]).sum(axis=-1)), cdf)


def _sample_searchsorted(cdf: NDArray, u: NDArray) -> Any:
    return np.searchsorted(cdf, u)


def _sample_one_row(cdf: NDArray, u: NDArray) -> Any:
    """Look all uniform numbers up in the first row's heights."""
    row = cdf.reshape(-1, cdf.shape[-1])[0]
    return np.minimum(np.searchsorted(row, u, side="right"), len(row) - 1)


def _sample_flat(cdf: NDArray, u: NDArray) -> Any:
    """Add up over all rows: `cumsum` without an axis flattens."""
    return (cdf <= u[..., None]).sum(axis=-1)


def _sample_rows(cdf: NDArray, u: NDArray) -> Any:
    """Go through the first axis only."""
    return np.array([int((row <= x).sum()) for row, x in zip(cdf, u, strict=True)])


def _sample_append(cdf: NDArray, u: NDArray, *, reached: bool = False) -> Any:
    """Walk along each row and append the first id that fits, if there is one."""
    ids = []
    for row, x in zip(cdf, u, strict=True):
        for i in range(len(row)):
            if x < row[i] or (reached and x == row[i]):
                ids.append(i)
                break
    return np.array(ids)


def _sample_no_break(cdf: NDArray, u: NDArray) -> Any:
    """Walk along each row and append every id that fits."""
    return np.array([i for row, x in zip(cdf, u, strict=True) for i in np.flatnonzero(row > x)])


_FLAT_COMPARISONS: dict[str, Callable[[NDArray, NDArray], Any]] = {
    "counted": lambda c, u: (c <= u).sum(axis=-1),
    "counted without equals": lambda c, u: (c < u).sum(axis=-1),
    "the first above": lambda c, u: (c > u).argmax(axis=-1),
    "the first reached": lambda c, u: (c >= u).argmax(axis=-1),
}


def _over_everything(x: NDArray, t: float) -> NDArray:
    """Take one softmax over all numbers of all rows."""
    powers = np.exp(x / t - (x / t).max())
    return np.asarray(powers / powers.sum())


_ALL_AS_ONE: list[tuple[str, Callable[[NDArray, float], NDArray], Callable[..., Any]]] = [
    ("softmax too", _over_everything, np.searchsorted),
    (
        "softmax too, heights counted",
        _over_everything,
        lambda c, u: (c <= u[..., None]).sum(axis=-1),
    ),
    ("from the running sums on", lambda x, t: _softmax(x / t), np.searchsorted),
]


def _sample_last_row_wins(cdf: NDArray, u: NDArray) -> Any:
    return _kept_in(_count(cdf, u), cdf) * 0 + _kept_in(_count(cdf[-1:], u[-1:]), cdf)[-1]


_SAMPLE_WRONG = [
    Misconception(
        name="the loop goes along one axis only",
        wrong=_sampled(pick=lambda c, u: _sample_rows(c / c[..., -1:], u)),
        hint="Your loop takes one axis in front for granted. In a batch with two, a round of it "
        "meets several rows at once. → How can all axes in front be made one (`reshape`), or the "
        "comparison work without a loop?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_sampled(
            p=lambda x, t: _naive_softmax(x / t),
        ),
        hint="e to the power of 3000 is more than a float holds, and of −3000 it's 0, so your "
        "probabilities are NaN and no comparison with them is True. → Which number may be taken "
        "from all logits of a row without changing the probabilities?",
    ),
    Misconception(
        name="an id beyond the vocabulary",
        wrong=_sampled(pick=_count),
        hint="The heights should end at 1, but rounding left the last one a little below, and the "
        "uniform number fell above it: your id is |V|, which no token has. → What could you "
        "divide the heights by, or do to the ids, so that this can't happen?",
    ),
    Misconception(
        name="token 0 where none is found",
        wrong=_sampled(pick=_sample_first_true),
        hint="Rounding left the last height a little below 1, the uniform number fell above it, "
        "and `argmax` of nothing but False is 0: the first token in place of the last. → What "
        "could you divide the heights by so that the last is exactly 1?",
    ),
    Misconception(
        name="no id where none is found",
        wrong=_sampled(pick=_sample_append),
        hint="Rounding left the last height a little below 1, the uniform number fell above it, "
        "and your walk along the row found nothing to append. → If no height before the last one "
        "exceeds the number, which token must it be?",
    ),
    Misconception(
        name="no maximum subtracted, an id beyond the vocabulary",
        wrong=_sampled(p=lambda x, t: _naive_softmax(x / t), pick=_count),
        hint="Two things are left. Rounding can leave the last height below u, which makes your "
        "id |V|; and logits in the thousands overflow. → What could you divide the heights by, or "
        "do to the ids, so that none is |V|?",
    ),
    Misconception(
        name="no maximum subtracted, token 0 where none is found",
        wrong=_sampled(p=lambda x, t: _naive_softmax(x / t), pick=_sample_first_true),
        hint="Two things are left. Where rounding left the last height below u, `argmax` of "
        "nothing but False is 0; and logits in the thousands overflow. → What could you divide "
        "the heights by so that the last is exactly 1?",
    ),
    Misconception(
        name="the height reached, not exceeded",
        wrong=_sampled(pick=_sample_first_reached),
        hint="One edge is on the wrong side: u = 0 gives you token 0 even where its probability "
        "is 0. A uniform number can be 0 and can't be 1, so token i owns its lower edge and not "
        "its upper one. → Should a height that equals u count as passed (`<=`, or `side=` of "
        "`searchsorted`)?",
    ),
    Misconception(
        name="token 0 where none is found, the height reached, not exceeded",
        wrong=_sampled(pick=lambda c, u: (c >= u[..., None]).argmax(axis=-1)),
        hint="Two edges need care. u = 0 must not give a token of probability 0; and where "
        "rounding left the last height below u, `argmax` of nothing but False is 0. → For u = 0, "
        "should a height that equals u be taken (`>=`) or passed (`>`)?",
    ),
    Misconception(
        name="an id beyond the vocabulary, the height reached, not exceeded",
        wrong=_sampled(pick=lambda c, u: (c < u[..., None]).sum(axis=-1)),
        hint="Two edges need care. u = 0 must not give a token of probability 0; and rounding can "
        "leave the last height below u, which makes your id |V|. → For u = 0, should a height "
        "that equals u count as passed (`<=`) or not (`<`)?",
    ),
    Misconception(
        name="no id where none is found, the height reached, not exceeded",
        wrong=_sampled(pick=lambda c, u: _sample_append(c, u, reached=True)),
        hint="Two edges need care. u = 0 must not give a token of probability 0; and where "
        "rounding left the last height below u, your walk finds nothing. → For u = 0, should a "
        "height that equals u end the walk (`<=`) or not (`<`)?",
    ),
    Misconception(
        name="no maximum subtracted, an id beyond the vocabulary, the height reached",
        wrong=_sampled(
            p=lambda x, t: _naive_softmax(x / t), pick=lambda c, u: (c < u[..., None]).sum(axis=-1)
        ),
        hint="Three edges need care: u = 0 must not give a token of probability 0, rounding can "
        "leave the last height below u, and logits in the thousands overflow. → For u = 0, should "
        "a height that equals u count as passed (`<=`) or not (`<`)?",
    ),
    Misconception(
        name="no maximum subtracted, token 0 where none is found, the height reached",
        wrong=_sampled(
            p=lambda x, t: _naive_softmax(x / t), pick=lambda c, u: (c >= u[..., None]).argmax(-1)
        ),
        hint="Three edges need care: u = 0 must not give a token of probability 0, `argmax` of "
        "nothing but False is 0, and logits in the thousands overflow. → For u = 0, should a "
        "height that equals u be taken (`>=`) or passed (`>`)?",
    ),
    Misconception(
        name="the root of the temperature",
        wrong=_sampled(p=lambda x, t: _softmax(x / t**0.5)),
        hint="Right at temperature 1; elsewhere the logits are divided by the root of the "
        "temperature. → By what are they divided in softmax(logits / temperature)?",
    ),
    Misconception(
        name="the temperature multiplied",
        wrong=_sampled(p=lambda x, t: _softmax(x * t)),
        hint="Your tokens are those of softmax(logits · temperature): at ½ it's flatter where it "
        "should be sharper. → Does a high temperature bring the logits closer together or further "
        "apart?",
    ),
    Misconception(
        name="the temperature left out",
        wrong=_sampled(p=lambda x, t: _softmax(x)),
        hint="Right at temperature 1, and the same at any other: `temperature` makes no "
        "difference to your function. (Dividing probabilities by it and normalising again undoes "
        "it.) → Where does it stand in softmax(logits / temperature)?",
    ),
    Misconception(
        name="the probabilities divided by the temperature",
        wrong=_sampled(p=lambda x, t: _softmax(x) / t),
        hint="You divide the probabilities by the temperature, and they no longer sum to 1. At 1 "
        "nobody can tell. → What is divided by the temperature, and before which step?",
    ),
    Misconception(
        name="the probabilities multiplied by the temperature",
        wrong=_sampled(p=lambda x, t: _softmax(x) * t),
        hint="You multiply the probabilities by the temperature, and they no longer sum to 1. At "
        "1 nobody can tell. → What is divided by the temperature, and before which step?",
    ),
    Misconception(
        name="powers that aren't normalised",
        wrong=_sampled(p=lambda x, t: _softmax(x) ** (1 / t)),
        hint="p to the power of 1/t is a good way, but these powers don't sum to 1 unless t is 1. "
        "→ What has to be done to them before they can share out the interval from 0 to 1?",
    ),
    Misconception(
        name="the square of the temperature",
        wrong=_sampled(p=lambda x, t: _softmax(x / t**2)),
        hint="Right at temperature 1; elsewhere the logits are divided by the temperature twice. "
        "→ In which lines does `temperature` occur?",
    ),
    Misconception(
        name="powers that aren't normalised, an id beyond the vocabulary",
        wrong=_sampled(p=lambda x, t: _softmax(x) ** (1 / t), pick=_count),
        hint="Dividing log-probabilities by t makes p to the power of 1/t: a good way, but these "
        "powers don't sum to 1 unless t is 1. → What has to be done to them before they can share "
        "out the interval from 0 to 1?",
    ),
    Misconception(
        name="the first row's heights for all",
        wrong=_sampled(pick=_sample_one_row),
        hint="All uniform numbers are looked up in the heights of the first row, or in one long "
        "row of all heights (`cumsum` without an axis). → Which row belongs to which uniform "
        "number?",
    ),
    Misconception(
        name="running sums along the first axis",
        wrong=_sampled(cdf=lambda p: p.cumsum(axis=0)),
        hint="Your running sums go from draw to draw, not from token to token. → Along which axis "
        "do the probabilities of one draw lie?",
    ),
    Misconception(
        name="all tokens equally often, rounded",
        wrong=lambda logits, uniforms, temperature=1.0: np.rint(
            uniforms * (logits.shape[-1] - 1)
        ).astype(int),
        hint="You stretch the uniform number to the range of the ids and round it, so that the "
        "probabilities make no difference. → How wide should the piece of a token be?",
    ),
    Misconception(
        name="softmax twice",
        wrong=_sampled(p=lambda x, t: _softmax(_softmax(x) / t)),
        hint="You apply a softmax to probabilities, so that all tokens come nearly equally often. "
        "→ What does your last softmax get, logits or probabilities?",
    ),
    Misconception(
        name="softmax twice, also at temperature 1",
        wrong=_sampled(p=lambda x, t: _softmax(_softmax(x / t))),
        hint="You apply softmax to probabilities, so that all tokens come nearly equally often. → "
        "How often is softmax applied on the way to your result?",
    ),
    Misconception(
        name="the nearest height",
        wrong=_sampled(pick=lambda c, u: np.abs(c - u[..., None]).argmin(axis=-1)),
        hint="You take the token whose height is nearest to the uniform number, above or below. → "
        "Between which two heights lies token i?",
    ),
    Misconception(
        name="ranks in place of ids",
        wrong=_sample_ranks,
        hint="You sort the probabilities and return a place in the sorted order: 0 is then the "
        "likeliest token, whichever that is. → How do you get from a rank back to an id, or do "
        "without sorting?",
    ),
    Misconception(
        name="running sums over all rows",
        wrong=_sampled(cdf=lambda p: p.cumsum(), pick=_sample_flat),
        hint="`cumsum` without an axis runs through all rows as one: only the first row's heights "
        "end at 1. → Along which axis do the probabilities of one draw lie?",
    ),
    Misconception(
        name="softmax over the first axis, an id beyond the vocabulary",
        wrong=_sampled(p=lambda x, t: _softmax(x / t, 0), pick=_count),
        hint="Your softmax runs over the draws: the probabilities of one row don't sum to 1, and "
        "some uniform numbers lie above all heights. → Along which axis do the logits of one draw "
        "lie?",
    ),
    Misconception(
        name="softmax over the first axis",
        wrong=_sampled(p=lambda x, t: _softmax(x / t, 0)),
        hint="Your softmax runs over the draws: the probabilities of one row don't sum to 1. → "
        "Along which axis do the logits of one draw lie?",
    ),
    Misconception(
        name="no heights",
        wrong=_sampled(cdf=lambda p: p),
        hint="You compare the uniform number with the probabilities themselves, not with their "
        "running sums. → Where does the piece of token 2 begin, and where does it end?",
    ),
    Misconception(
        name="ranks from the least likely",
        wrong=_sample_ranks_up,
        hint="You sort the probabilities and return a place in the sorted order, which isn't the "
        "id. Running sums rise without any sorting. → Is there a reason to sort?",
    ),
    Misconception(
        name="the last row's token for all",
        wrong=_sampled(pick=_sample_last_row_wins),
        hint="All your rows get the token of the last one. In a loop, that happens when each "
        "round fills the whole result. → Into which place does a round write?",
    ),
    Misconception(
        name="one sum for all rows",
        wrong=_sampled(
            p=lambda x, t: np.exp(x / t - (x / t).max()) / np.exp(x / t - (x / t).max()).sum()
        ),
        hint="You divide by the sum over all rows, so that a row's heights end far below 1. → "
        "What does `sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="no heights, an id beyond the vocabulary",
        wrong=_sampled(cdf=lambda p: p, pick=_count),
        hint="You count the probabilities that lie below the uniform number, not their running "
        "sums. → Where does the piece of token 2 begin, and where does it end?",
    ),
    *(
        Misconception(
            name=f"all rows as one array, {name}",
            wrong=_sampled(p=p, cdf=lambda p: p.cumsum(), pick=pick),
            hint="You treat all rows as one long array: without an axis, `sum()` and `cumsum()` "
            "run through every number there is, so your ids count tokens of all rows. → Which "
            "axis holds the tokens of one draw, and does each of your steps name it?",
        )
        for name, p, pick in _ALL_AS_ONE
    ),
    Misconception(
        name="one sum for all rows, an id beyond the vocabulary",
        wrong=_sampled(p=lambda x, t: np.exp(x / t) / np.exp(x / t).sum(), pick=_count),
        hint="You divide by the sum over all rows, so that a row's heights end far below 1, and "
        "many a uniform number lies above them all. → What does `sum()` add up when it isn't told "
        "an axis?",
    ),
    Misconception(
        name="all tokens equally often",
        wrong=lambda logits, uniforms, temperature=1.0: (uniforms * logits.shape[-1]).astype(int),
        hint="You cut the interval from 0 to 1 into equal pieces, so that every token comes "
        "equally often. → How wide should the piece of a token be?",
    ),
    Misconception(
        name="one id too low",
        wrong=_sampled(pick=lambda c, u: np.maximum(_count(c, u) - 1, 0)),
        hint="Your ids are one too low, as if the heights began with a 0 in front. → Which id has "
        "a uniform number that lies above one height and below all others?",
    ),
    Misconception(
        name="the heights not divided by the sum",
        wrong=_sampled(p=lambda x, t: np.exp(x / t - (x / t).max(axis=-1, keepdims=True))),
        hint="Your heights are sums of exponentials that weren't divided by their total, so they "
        "don't end at 1. → What makes exponentials into shares of a whole?",
    ),
    Misconception(
        name="exponentials not divided, no maximum subtracted",
        wrong=_sampled(p=lambda x, t: np.exp(x / t)),
        hint="Your heights are sums of exponentials that weren't divided by their total, so they "
        "don't end at 1. → What makes exponentials into shares of a whole?",
    ),
    Misconception(
        name="heights of logits",
        wrong=_sampled(p=lambda x, t: x / t),
        hint="You add up the logits themselves, which may be negative. → Which function makes "
        "shares of one whole of them?",
    ),
    Misconception(
        name="the first probability above the uniform number",
        wrong=_sampled(cdf=lambda p: p, pick=_sample_first_true),
        hint="You take the first token whose own probability exceeds the uniform number. → Where "
        "does the piece of token 2 begin, and where does it end?",
    ),
    Misconception(
        name="laid out from the likeliest",
        wrong=_sample_sorted,
        hint="the tokens lie side by side in the order of their probabilities, which gives every "
        "token as often. This exercise uses the order of the ids, so that a given uniform number "
        "always means the same. → What is the sort for?",
        valid_variant=True,
    ),
    *(
        Misconception(
            name=f"uniform numbers set against the tokens, {name}",
            wrong=_sampled(pick=pick),
            hint="Comparing heights (…, |V|) with uniform numbers (…) sets the last axis of each "
            "against the other: tokens against rows. → What shape do the uniform numbers need so "
            "that each is compared with all heights of its own row?",
        )
        for name, pick in _FLAT_COMPARISONS.items()
    ),
    Misconception(
        name="one noise for all tokens",
        wrong=lambda logits, uniforms, temperature=1.0: (
            logits / temperature - np.log(-np.log(uniforms))[..., None]
        ).argmax(axis=-1),
        hint="Adding noise to the logits and taking the largest is a way to sample, but every "
        "token needs a noise of its own: the same for all changes nothing. With one uniform "
        "number a row another way is asked for. → If the tokens lie side by side between 0 and 1, "
        "each as wide as it is probable, on which one does the number fall?",
    ),
    Misconception(
        name="the likeliest token",
        wrong=lambda logits, uniforms, temperature=1.0: logits.argmax(axis=-1),
        hint="You return the likeliest token of each row, whatever the uniform number is: that's "
        "greedy decoding. → Where does `uniforms` come into your function?",
    ),
    Misconception(
        name="one id too high",
        wrong=_sampled(pick=lambda c, u: _count(c, u) + 1),
        hint="Your ids are all one too high, as if tokens were numbered from 1. → Which id has a "
        "uniform number that lies below the first token's height?",
    ),
    Misconception(
        name="the number of heights above",
        wrong=_sampled(pick=lambda c, u: (c > u[..., None]).sum(axis=-1)),
        hint="You count the heights above the uniform number: |V| for token 0, and fewer for "
        "later ones. → For token 2, how many heights lie at or below the uniform number?",
    ),
    Misconception(
        name="the number of heights above, kept in the vocabulary",
        wrong=_sampled(pick=lambda c, u: _kept_in((c > u[..., None]).sum(axis=-1), c)),
        hint="You count the heights above the uniform number, and cut off what exceeds the "
        "vocabulary: late tokens get small ids. → For token 2, how many heights lie at or below "
        "the uniform number?",
    ),
    Misconception(
        name="every token from there on",
        wrong=_sampled(pick=_sample_no_break),
        hint="Your result holds more ids than there are rows: for each row not only the first id "
        "whose height exceeds the uniform number, but all that follow it too. → What keeps only "
        "the first (a `break` in a loop, or `argmax`)?",
    ),
    Misconception(
        name="the nearest probability",
        wrong=_sampled(cdf=lambda p: p, pick=lambda c, u: np.abs(c - u[..., None]).argmin(axis=-1)),
        hint="You take the token whose probability is nearest to the uniform number. → If all "
        "tokens lie side by side between 0 and 1, each as wide as it is probable, on which one "
        "does the number fall?",
    ),
    Misconception(
        name="laid out from the top",
        wrong=lambda logits, uniforms, temperature=1.0: _sampled()(
            logits, 1.0 - uniforms, temperature
        ),
        hint="the tokens lie in the other direction, token 0 on top (or 1 − u in place of u), "
        "which gives every token as often. This exercise uses token 0 at the bottom. → Which "
        "token should a uniform number near 0 give?",
        valid_variant=True,
    ),
    Misconception(
        name="searchsorted on several rows",
        wrong=_sampled(pick=_sample_searchsorted),
        hint="`np.searchsorted` looks into one sorted row, and the heights have one row for each "
        "draw. → Can you go through the rows in a loop, or count how many heights of each row the "
        "uniform number has passed?",
    ),
    Misconception(
        name="the probability of the token",
        wrong=_sampled(
            pick=lambda c, u: _at(np.diff(c, axis=-1, prepend=0.0), _kept_in(_count(c, u), c))
        ),
        hint="You return the probability of the token that is drawn. → Which number names the "
        "token itself?",
    ),
]


def _sample_by_loop(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    """Walk along each row until the running sum exceeds u; the last token needs no test."""
    ids = np.zeros(uniforms.shape, dtype=int)
    for place in np.ndindex(uniforms.shape):
        p = _softmax(logits[place] / temperature)
        height = 0.0
        for i in range(len(p)):
            height += p[i]
            ids[place] = i
            if uniforms[place] < height:
                break
    return ids


def _sample_by_searchsorted(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    flat = _softmax(logits / temperature).reshape(-1, logits.shape[-1])
    ids = [
        min(int(np.searchsorted(row.cumsum(), u, side="right")), len(row) - 1)
        for row, u in zip(flat, uniforms.ravel(), strict=True)
    ]
    return np.array(ids).reshape(uniforms.shape)


def _sample_unnormalised(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    """Stretch the uniform number to the sum of the exponentials in place of dividing by it."""
    scaled = logits / temperature
    heights = np.exp(scaled - scaled.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    ids = (heights <= (uniforms * heights[..., -1])[..., None]).sum(axis=-1)
    return np.minimum(ids, logits.shape[-1] - 1)


def _sample_by_powers(logits: NDArray, uniforms: NDArray, temperature: float = 1.0) -> Any:
    powers = _softmax(logits) ** (1 / temperature)
    heights = powers.cumsum(axis=-1)
    heights[..., :-1] /= heights[..., -1:]
    heights[..., -1] = 1.0
    return (heights > uniforms[..., None]).argmax(axis=-1)


def _sample_torch(logits: Any, uniforms: Any, temperature: float = 1.0) -> Any:
    import torch

    heights = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
    ids = torch.searchsorted(heights, uniforms[..., None].contiguous(), right=True)
    return ids[..., 0].clamp(max=logits.shape[-1] - 1)


_SAMPLE = Exercise(
    id="00.sample",
    function="sample",
    reference=ref.sample,
    cases=_SAMPLE_CASES,
    returns=("ids",),
    misconceptions=_SAMPLE_WRONG,
    alternatives=[
        Alternative(name="a walk along each row", right=_sample_by_loop),
        Alternative(name="searchsorted row by row", right=_sample_by_searchsorted),
        Alternative(name="the uniform number stretched", right=_sample_unnormalised),
        Alternative(name="powers of the probabilities", right=_sample_by_powers),
        Alternative(name="torch", right=_sample_torch, backend="torch"),
    ],
    hints=[
        "Lay the tokens side by side between 0 and 1, each as wide as it is probable: the upper "
        "edges are the running sums of softmax(logits / temperature). A uniform number falls on "
        "one of the pieces.",
        "Its id is the number of upper edges that lie at or below the uniform number. Comparing "
        "the edges (…, |V|) with `uniforms[..., None]` does that for all rows at once.",
        "Subtract each row's maximum before the exponential. And since running sums are rounded, "
        "the last edge may fall short of 1: divide all edges by the last one, or let no id exceed "
        "|V| − 1.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 00.bits ---------------------------------------------------------------------------------------


def bits_per_byte(log_probabilities: NDArray, pieces: list[str]) -> Any:
    """Return how many bits a model needs for a byte of a text, whatever its tokens are.

    Parameters
    ----------
    log_probabilities : float array, (n,)
        Natural logarithm of each token's probability given those before it.
    pieces : list of n strings
        The text of each token; joined, they are the whole text.

    Returns
    -------
    float
        Bits a byte of the text in UTF-8.
    """
    n_bytes = len("".join(pieces).encode("utf-8"))
    return -log_probabilities.sum() / log(2) / n_bytes


def _priced(pieces: list[str]) -> Callable[[int], dict[str, Any]]:
    """Draw a log-probability for each piece."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 6, len(pieces)])
        return {
            "log_probabilities": -rng.uniform(0.2, 6.0, len(pieces)).round(2),
            "pieces": list(pieces),
        }

    return build


def _long_text(seed: int) -> dict[str, Any]:
    words = ["the", " cat", " sat", " on", " a", " mat", ".", " é", "\n", " naïve", " 10 €"]
    rng = np.random.default_rng([seed, 6, 400])
    return _priced([words[i] for i in rng.integers(0, len(words), 400)])(seed)


_BITS_CASES = [
    Case(
        name="a token of 5 letters and probability ¼",
        inputs={"log_probabilities": np.array([-1.3862943611198906]), "pieces": ["house"]},
        shows="2 bits for 5 bytes",
    ),
    Case(
        name="an English sentence",
        inputs=_priced(["The", " cat", " sat", " on", " a", " mat", "."]),
        shows="spaces are bytes too",
    ),
    Case(
        name="the same sentence in two tokens",
        inputs=_priced(["The cat sat", " on a mat."]),
        shows="other tokens, the same number of bytes",
    ),
    Case(
        name="a Russian sentence",
        inputs=_priced(["Кот", " с", "ид", "ел", "."]),
        shows="a Cyrillic letter takes two bytes",
    ),
    Case(
        name="accents and an emoji",
        inputs=_priced(["caf", "é", " naïve ", "🙂"]),
        shows="a character takes 1 to 4 bytes",
    ),
    Case(name="400 tokens", inputs=_long_text, shows="the sum runs over the whole text"),
]


def _bits(
    *,
    cost: Callable[[NDArray], Any] = lambda lp: -lp.sum() / log(2),
    size: Callable[[list[str]], Any] = lambda pieces: len("".join(pieces).encode()),
    join: Callable[[Any, Any], Any] = lambda cost, size: cost / size,
) -> Callable[..., Any]:
    """Bits a byte with one of its steps replaced."""

    def wrong(log_probabilities: NDArray, pieces: list[str]) -> Any:
        with np.errstate(all="ignore"):
            return join(cost(log_probabilities), size(pieces))

    return wrong


def _sizes(pieces: list[str]) -> NDArray:
    return np.array([len(piece.encode()) for piece in pieces])


_BITS_WRONG = [
    Misconception(
        name="the product of the probabilities first",
        wrong=_bits(cost=lambda lp: -np.log2(np.prod(np.exp(lp)))),
        hint="Right for short texts. The probability of a long one is too small for a float and "
        "becomes 0, whose logarithm is −∞. → What do the logarithms that you are given add up to?",
    ),
    Misconception(
        name="characters in place of bytes",
        wrong=_bits(size=lambda pieces: len("".join(pieces))),
        hint="you divide by the number of characters, which gives bits per character. This "
        "exercise uses bytes. A letter with an accent has two, an emoji four. → Which method of a "
        "string gives its bytes?",
        valid_variant=True,
    ),
    Misconception(
        name="what isn't ASCII left out",
        wrong=_bits(size=lambda pieces: max(1, len("".join(pieces).encode("ascii", "ignore")))),
        hint="Your bytes leave out every letter that isn't ASCII. → Which encoding does the "
        "docstring name?",
    ),
    Misconception(
        name="the first piece for the whole text",
        wrong=_bits(size=lambda pieces: len(pieces[0].encode())),
        hint="You divide by the bytes of the first piece alone, but the costs are those of all. → "
        "How many bytes does the whole text have?",
    ),
    Misconception(
        name="the mean loss by the number of bytes",
        wrong=_bits(cost=lambda lp: -lp.mean() / log(2)),
        hint="You divide the mean over the tokens by the number of bytes, so it's divided twice. "
        "→ What did the whole text cost, all tokens together?",
    ),
    Misconception(
        name="the mean of the tokens' own bits per byte",
        wrong=_bits(
            cost=lambda lp: -lp / log(2), size=_sizes, join=lambda bits, size: (bits / size).mean()
        ),
        hint="You average the bits per byte of the tokens, so that a token of one byte counts as "
        "much as one of eight. → What do all bits and all bytes add up to, before anything is "
        "divided?",
    ),
    Misconception(
        name="the sum of the tokens' own bits per byte",
        wrong=_bits(
            cost=lambda lp: -lp / log(2), size=_sizes, join=lambda bits, size: (bits / size).sum()
        ),
        hint="You add up the bits per byte of the tokens, which grows with their number. → What "
        "do all bits and all bytes add up to, before anything is divided?",
    ),
    Misconception(
        name="the mean bits of a token by the mean bytes of a piece's characters",
        wrong=_bits(
            cost=lambda lp: -lp / log(2),
            size=lambda pieces: np.array([len(piece) for piece in pieces]),
            join=lambda bits, size: (bits / size).mean(),
        ),
        hint="You average the bits per character of the tokens, so that a token of one character "
        "counts as much as one of eight, and you count characters. → What do all bits and all "
        "bytes of the text add up to?",
    ),
    Misconception(
        name="spaces left out",
        wrong=_bits(size=lambda pieces: sum(len(p.strip().encode()) for p in pieces)),
        hint="You divide by the bytes without the spaces at the pieces' ends, but the model had "
        "to predict those too. → Which text do the pieces make when they're joined as they are?",
    ),
    Misconception(
        name="all white space left out",
        wrong=_bits(size=lambda pieces: len("".join("".join(pieces).split()).encode())),
        hint="You divide by the bytes without white space, but the model had to predict that too. "
        "→ Which text do the pieces make when they're joined as they are?",
    ),
    Misconception(
        name="spaces put in",
        wrong=_bits(size=lambda pieces: len(" ".join(pieces).encode())),
        hint="You join the pieces with spaces between them, which the text doesn't have: the "
        "pieces bring their own. → What stands between two pieces of a text?",
    ),
    Misconception(
        name="the list as it prints",
        wrong=_bits(size=lambda pieces: len(str(pieces).encode())),
        hint="You count the bytes of the list as it prints, brackets, quotes and commas included. "
        "→ What joins a list of strings into one text?",
    ),
    Misconception(
        name="the perplexity of a token",
        wrong=_bits(cost=lambda lp: np.exp(-lp.mean()), join=lambda cost, size: cost),
        hint="That's the perplexity of a token, which depends on how the text was cut into "
        "tokens. → What did the whole text cost in bits, and how many bytes has it?",
    ),
    Misconception(
        name="nats",
        wrong=_bits(cost=lambda lp: -lp.sum()),
        hint="Your result is 0.6931 times the right one, which is ln 2: it's in nats a byte. → "
        "How many bits is one nat, more than 1 or fewer?",
    ),
    Misconception(
        name="nats, characters in place of bytes",
        wrong=_bits(cost=lambda lp: -lp.sum(), size=lambda pieces: len("".join(pieces))),
        hint="Your result is in nats, and for each character. → What has a logarithm with base e "
        "to be divided by to become one with base 2, and which method of a string gives its bytes?",
    ),
    Misconception(
        name="multiplied by ln 2",
        wrong=_bits(cost=lambda lp: -lp.sum() * log(2)),
        hint="You multiply by ln 2. A probability of ½ is 1 bit and 0.693 nats. → Which of the "
        "two numbers has to grow into the other, and by which factor?",
    ),
    Misconception(
        name="divided by ln 2 twice",
        wrong=_bits(cost=lambda lp: -lp.sum() / log(2) ** 2),
        hint="Your result is 1.4427 times the right one, which is 1 / ln 2: nats are turned into "
        "bits twice. → In which two lines does it happen?",
    ),
    Misconception(
        name="divided by 2",
        wrong=_bits(cost=lambda lp: -lp.sum() / 2),
        hint="You divide the nats by 2 to get bits. → By the logarithm of which number are "
        "natural logarithms divided to get those with base 2?",
    ),
    Misconception(
        name="base 10",
        wrong=_bits(cost=lambda lp: -lp.sum() / log(10)),
        hint="You divide by ln 10, so your unit is the decimal digit. → How many values can a bit "
        "have?",
    ),
    Misconception(
        name="the logarithm of logarithms",
        wrong=_bits(cost=lambda lp: -np.log2(lp).sum()),
        hint="You take the logarithm of log-probabilities, which are logarithms already, and "
        "negative: NaN. → How is a logarithm brought to another base without taking it again?",
    ),
    Misconception(
        name="the logarithm of losses",
        wrong=_bits(cost=lambda lp: np.log2(-lp).sum()),
        hint="You take the logarithm of the losses, which are logarithms already. → How is a "
        "logarithm brought to another base without taking it again?",
    ),
    Misconception(
        name="the logarithm of the whole loss",
        wrong=_bits(cost=lambda lp: np.log2(-lp.sum())),
        hint="You take the logarithm of the text's whole loss, which is a sum of logarithms "
        "already. → How is a logarithm brought to another base without taking it again?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_bits(cost=lambda lp: lp.sum() / log(2)),
        hint="Your result is negative, but a text costs bits. → What is the sign of the logarithm "
        "of a probability, and what of its cost?",
    ),
    Misconception(
        name="bits a token",
        wrong=_bits(size=len),
        hint="You divide by the number of tokens: that's bits a token, and a model with longer "
        "tokens would look worse for it. → How many bytes do all pieces have together?",
    ),
    Misconception(
        name="nats a token",
        wrong=_bits(cost=lambda lp: -lp.sum(), size=len),
        hint="That's the mean loss of a token, in nats. → How many bytes do all pieces have "
        "together, and how many bits is one nat?",
    ),
    Misconception(
        name="the mean loss by the number of bytes, in nats",
        wrong=_bits(cost=lambda lp: -lp.mean()),
        hint="You divide the mean over the tokens by the number of bytes, so it's divided twice; "
        "and it's in nats. → What did the whole text cost, all tokens together?",
    ),
    Misconception(
        name="one for every token",
        wrong=_bits(cost=lambda lp: -lp / log(2), size=_sizes),
        hint="These are the bits per byte of each token. The text has one number. → What do all "
        "bits and all bytes add up to, before anything is divided?",
    ),
    Misconception(
        name="turned round",
        wrong=_bits(join=lambda cost, size: size / cost),
        hint="You divide bytes by bits: how much text one bit pays for. → Which of the two is per "
        "which?",
    ),
    Misconception(
        name="not divided by the bytes",
        wrong=_bits(join=lambda cost, size: cost),
        hint="These are the bits of the whole text. → How many bytes has it?",
    ),
    Misconception(
        name="UTF-16",
        wrong=_bits(size=lambda pieces: len("".join(pieces).encode("utf-16-le"))),
        hint="Your bytes are those of UTF-16, two for an English letter. → Which encoding does "
        "the docstring name?",
    ),
    Misconception(
        name="UTF-32",
        wrong=_bits(size=lambda pieces: 4 * len("".join(pieces))),
        hint="You count four bytes for every character, whatever it is. → How many bytes does "
        "UTF-8 take for an English letter?",
    ),
    Misconception(
        name="bits for a bit",
        wrong=_bits(join=lambda cost, size: cost / (8 * size)),
        hint="Your result is an eighth of the right one: you divide by the number of bits of the "
        "text, which gives the share that is left after compression. → How many bytes has it?",
    ),
    Misconception(
        name="the perplexity of a byte",
        wrong=_bits(join=lambda cost, size: 2 ** (cost / size)),
        hint="You raise 2 to the power of the result: that's the perplexity of a byte. → Which of "
        "your steps is one too many?",
    ),
    Misconception(
        name="2 to the power of nats a byte",
        wrong=_bits(cost=lambda lp: -lp.sum(), join=lambda cost, size: 2 ** (cost / size)),
        hint="You raise 2 to the power of the nats a byte. Bits are themselves a logarithm, with "
        "base 2: no power is taken. → By what is a natural logarithm divided to get one with base "
        "2?",
    ),
    Misconception(
        name="the perplexity of a token by its bytes",
        wrong=_bits(cost=lambda lp: np.exp(-lp.mean())),
        hint="You divide a perplexity by a number of bytes. Costs add up and may be divided; "
        "perplexities multiply. → What did the whole text cost, all tokens together?",
    ),
    Misconception(
        name="probabilities, not their logarithms",
        wrong=_bits(cost=lambda lp: -np.exp(lp).sum() / log(2)),
        hint="You add up the tokens' probabilities, with a minus in front. → Of what is "
        "`log_probabilities` the logarithm already, and what do costs add up from?",
    ),
]


def _bits_by_loop(log_probabilities: NDArray, pieces: list[str]) -> float:
    bits = n_bytes = 0.0
    for lp, piece in zip(log_probabilities, pieces, strict=True):
        bits += -float(lp) * log2(np.e)
        n_bytes += len(bytes(piece, "utf-8"))
    return bits / n_bytes


def _bits_by_perplexity(log_probabilities: NDArray, pieces: list[str]) -> Any:
    """Turn the perplexity of a token into bits, and tokens into bytes."""
    bits_per_token = np.log2(np.exp(-log_probabilities.mean()))
    return bits_per_token * len(pieces) / _sizes(pieces).sum()


def _bits_weighted(log_probabilities: NDArray, pieces: list[str]) -> Any:
    """Average the tokens' own bits per byte, weighted by their bytes."""
    sizes = _sizes(pieces)
    return np.average(-log_probabilities / np.log(2) / sizes, weights=sizes)


def _bits_torch(log_probabilities: Any, pieces: list[str]) -> Any:
    import torch

    n_bytes = sum(len(piece.encode()) for piece in pieces)
    return -log_probabilities.sum() / torch.log(torch.tensor(2.0, dtype=torch.float64)) / n_bytes


_BITS = Exercise(
    id="00.bits",
    function="bits_per_byte",
    reference=bits_per_byte,
    cases=_BITS_CASES,
    returns=("bits",),
    misconceptions=_BITS_WRONG,
    alternatives=[
        Alternative(name="a loop", right=_bits_by_loop),
        Alternative(name="by way of the perplexity", right=_bits_by_perplexity),
        Alternative(name="a weighted mean", right=_bits_weighted),
        Alternative(name="torch", right=_bits_torch, backend="torch"),
    ],
    hints=[
        "Two sums and a division: what the whole text costs in bits, and how many bytes it has. "
        "Neither is a mean over the tokens.",
        "A natural logarithm divided by ln 2 is a logarithm with base 2. The cost is minus the sum "
        "of the log-probabilities.",
        '`"".join(pieces)` is the text, `text.encode("utf-8")` its bytes, and `len` counts them.',
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 00.best ---------------------------------------------------------------------------------------


def most_probable(first: NDArray, tables: NDArray) -> tuple[NDArray, float]:
    """Find the most probable sequence of T tokens when each depends on the one before it.

    Parameters
    ----------
    first : float array, (V,)
        Probabilities of the first token.
    tables : float array, (T − 1, V, V)
        ``tables[t, i, j]`` is the probability that j comes at position t + 1 if i came at t.

    Returns
    -------
    tokens : int array, (T,)
    log_probability : float
    """
    with np.errstate(divide="ignore"):  # log 0 = −∞: an impossible step
        score, steps = np.log(first), np.log(tables)
    came_from = []
    for step in steps:
        paths = score[:, None] + step  # (V before, V now)
        came_from.append(paths.argmax(axis=0))
        score = paths.max(axis=0)
    tokens = [int(score.argmax())]
    for back in reversed(came_from):
        tokens.append(int(back[tokens[-1]]))
    return np.array(tokens[::-1]), float(score.max())


def _chances(rng: np.random.Generator, *shape: int, spread: float = 0.7) -> NDArray:
    """Draw rows of probabilities; not rounded, so that no two sequences are equally likely."""
    return rng.dirichlet(np.full(shape[-1], spread), shape[:-1])


def _sequence_inputs(n: int, vocab_size: int, spread: float) -> Callable[[int], dict[str, Any]]:
    """Draw tables for which the likeliest next token doesn't lead to the best sequence."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 7, n, vocab_size])
        while True:
            given = {
                "first": _chances(rng, vocab_size, spread=spread),
                "tables": _chances(rng, n - 1, vocab_size, vocab_size, spread=spread),
            }
            best = most_probable(**given)[0]
            others = (_best_greedy, _best_at_each_place, _best_two_kept)
            if all((other(**given)[0] != best).any() for other in others[: 2 if n < 6 else 3]):
                return given

    return build


def _dead_end(seed: int) -> dict[str, Any]:
    """Draw tables in which the likeliest first token has only improbable successors' successors."""
    rng = np.random.default_rng([seed, 7, 0])
    low, high = sorted(rng.uniform(0.2, 0.45, 2).round(2))
    return {
        "first": np.array([0.05, 0.65, 0.3]),
        "tables": np.array(
            [
                [[0.2, 0.7, 0.1], [0.9, 0.0, 0.1], [0.0, low, 1.0 - low]],
                [[0.34, 0.33, 0.33], [0.6, 0.3, 0.1], [1.0 - high, high, 0.0]],
            ]
        ),
    }


_BEST_CASES = [
    Case(
        name="one token",
        inputs={"first": np.array([0.2, 0.5, 0.3]), "tables": np.zeros((0, 3, 3))},
        shows="the likeliest",
    ),
    Case(
        name="2 tokens of a vocabulary of 2",
        inputs={
            "first": np.array([0.6, 0.4]),
            "tables": np.array([[[0.5, 0.5], [0.1, 0.9]]]),
        },
        shows="the likeliest first token isn't part of it",
    ),
    Case(
        name="3 tokens of a vocabulary of 4",
        inputs=_sequence_inputs(3, 4, 1.0),
        shows="rows are the token before, columns the next",
    ),
    Case(
        name="steps that can't be taken",
        inputs=_dead_end,
        shows="a probability of 0 rules a sequence out",
    ),
    Case(
        name="8 tokens of a vocabulary of 3",
        inputs=_sequence_inputs(8, 3, 1.0),
        shows="3⁸ = 6,561 sequences",
    ),
    Case(
        name="40 tokens of a vocabulary of 8",
        inputs=_sequence_inputs(40, 8, 1.0),
        shows="8⁴⁰ sequences are too many to try, and the best is found all the same",
        weight=2.0,
    ),
]

_Sequence = tuple[Any, Any]


def _log_of_path(first: NDArray, tables: NDArray, tokens: list[int]) -> Any:
    """Return the log-probability of a sequence."""
    total = _log(first[tokens[0]])
    for table, before, after in zip(tables, tokens[:-1], tokens[1:], strict=True):
        total = total + _log(table[before, after])
    return total


def _best_greedy(first: NDArray, tables: NDArray) -> _Sequence:
    tokens = [int(first.argmax())]
    for table in tables:
        tokens.append(int(table[tokens[-1]].argmax()))
    return np.array(tokens), _log_of_path(first, tables, tokens)


def _best_at_each_place(first: NDArray, tables: NDArray) -> _Sequence:
    """Take the likeliest token of every position by itself, over all sequences."""
    p, ps = first, [first]
    for table in tables:
        p = p @ table
        ps.append(p)
    tokens = [int(p.argmax()) for p in ps]
    return np.array(tokens), _log_of_path(first, tables, tokens)


def _best_marginals(first: NDArray, tables: NDArray) -> _Sequence:
    """Take the same tokens, and the last one's own probability for that of the sequence."""
    p = first
    for table in tables:
        p = p @ table
    return _best_at_each_place(first, tables)[0], np.log(p.max())


def _best_greedy_starts(first: NDArray, tables: NDArray) -> _Sequence:
    begun = [np.where(np.arange(len(first)) == i, first, 0.0) for i in range(len(first))]
    return max((_best_greedy(p, tables) for p in begun), key=lambda found: found[1])


def _best_two_kept(first: NDArray, tables: NDArray) -> _Sequence:
    return _best_kept(first, tables, 2)


def _best_kept(first: NDArray, tables: NDArray, width: int) -> _Sequence:
    """Keep the best beginnings at every step: a beam."""
    beam = [([i], _log(p)) for i, p in enumerate(first)]
    beam = sorted(beam, key=lambda x: -x[1])[:width]
    for table in tables:
        beam = [
            ([*tokens, j], score + _log(table[tokens[-1], j]))
            for tokens, score in beam
            for j in range(len(first))
        ]
        beam = sorted(beam, key=lambda x: -x[1])[:width]
    return np.array(beam[0][0]), beam[0][1]


def _searched(
    *,
    start: Callable[[NDArray], NDArray] = lambda first: np.asarray(_log(first)),
    steps: Callable[[NDArray], NDArray] = lambda tables: np.asarray(_log(tables)),
    join: Callable[[NDArray, NDArray], NDArray] = lambda score, step: score[:, None] + step,
    best: Callable[..., NDArray] = np.max,
    which: Callable[..., NDArray] = np.argmax,
    result: Callable[[list[int], NDArray], _Sequence] = lambda tokens, score: (
        np.array(tokens),
        score.max(),
    ),
) -> Callable[..., _Sequence]:
    """Dynamic programming with one of its steps replaced."""

    def wrong(first: NDArray, tables: NDArray) -> _Sequence:
        with np.errstate(all="ignore"):
            score, backs = start(first), []
            for step in steps(tables):
                paths = join(score, step)
                backs.append(which(paths, axis=0))
                score = best(paths, axis=0)
            tokens = [int(which(score, axis=0))]
            for back in reversed(backs):
                tokens.append(int(back[tokens[-1]]))
            return result(tokens[::-1], score)

    return wrong


def _best_no_way_back(first: NDArray, tables: NDArray) -> _Sequence:
    """Collect, at every step, the token on which the best beginning ends."""
    score = _log(first)
    tokens = [int(score.argmax())]
    for table in tables:
        score = (score[:, None] + _log(table)).max(axis=0)
        tokens.append(int(score.argmax()))
    return np.array(tokens), score.max()


def _best_pointers_forward(first: NDArray, tables: NDArray) -> _Sequence:
    """Collect, at every step, the token before the one on which the best beginning ends."""
    score = _log(first)
    tokens = []
    for table in tables:
        paths = score[:, None] + _log(table)
        tokens.append(int(np.unravel_index(paths.argmax(), paths.shape)[0]))
        score = paths.max(axis=0)
    return np.array([*tokens, int(score.argmax())]), score.max()


def _best_forward_walk(first: NDArray, tables: NDArray) -> _Sequence:
    """Begin with the best last token, and follow what was noted from the first step on."""
    score, backs = _log(first), []
    for table in tables:
        paths = score[:, None] + _log(table)
        backs.append(paths.argmax(axis=0))
        score = paths.max(axis=0)
    tokens = [int(score.argmax())]
    for back in backs:
        tokens.append(int(back[tokens[-1]]))
    return np.array(tokens), score.max()


def _best_pairs(first: NDArray, tables: NDArray) -> _Sequence:
    """Take the best pair of every table, whether or not it goes on where the last one ended."""
    tokens = [int(first.argmax())]
    total = _log(first.max())
    for table in tables:
        tokens.append(int(np.unravel_index(table.argmax(), table.shape)[1]))
        total = total + _log(table.max())
    return np.array(tokens), total


def _best_backwards(first: NDArray, tables: NDArray) -> _Sequence:
    """Choose the best last token, and then always the likeliest way into it."""
    score = _log(first)
    for table in tables:
        score = (score[:, None] + _log(table)).max(axis=0)
    tokens = [int(score.argmax())]
    for table in tables[::-1]:
        tokens.insert(0, int(table[:, tokens[0]].argmax()))
    return np.array(tokens), score.max()


def _best_first_forced(first: NDArray, tables: NDArray) -> _Sequence:
    """Begin with the likeliest first token, and search from there."""
    begun = np.where(np.arange(len(first)) == first.argmax(), first, 0.0)
    return _searched()(begun, tables)


_BEST_WRONG = [
    Misconception(
        name="the way noted forward",
        wrong=_best_pointers_forward,
        hint="The log-probability is right, the tokens aren't: at every step you note one "
        "predecessor, that of the best beginning so far. → How many tokens need a predecessor at "
        "every step, if you don't know yet which one the best sequence passes through?",
    ),
    Misconception(
        name="greedy from every first token",
        wrong=_best_greedy_starts,
        hint="You try every first token and go on greedily from there: what was wrong with the "
        "first step is still wrong with the second. → Of all beginnings that end in the same "
        "token, which one alone can be part of the best sequence?",
    ),
    Misconception(
        name="the two best beginnings kept",
        wrong=_best_two_kept,
        hint="You keep the two best beginnings at every step: a beam search of width 2, which "
        "finds better sequences than a greedy one and can still lose the best. → Of all "
        "beginnings that end in the same token, which one alone can be part of the best sequence?",
    ),
    Misconception(
        name="the three best beginnings kept",
        wrong=lambda first, tables: _best_kept(first, tables, 3),
        hint="You keep the three best beginnings at every step: a beam search of width 3, which "
        "finds better sequences than a greedy one and can still lose the best. → Of all "
        "beginnings that end in the same token, which one alone can be part of the best sequence?",
    ),
    Misconception(
        name="back along the likeliest step",
        wrong=_best_backwards,
        hint="The log-probability is right. On the way back you take the likeliest step into each "
        "token and forget how probable its own beginning was. → What was compared on the way "
        "forward, and can the answer be noted then?",
    ),
    Misconception(
        name="rows and columns swapped",
        wrong=_searched(steps=lambda tables: np.asarray(_log(tables.swapaxes(-2, -1)))),
        hint="You read a table's rows as the next token and its columns as the one before. → "
        "Which of the two does the docstring name first?",
    ),
    Misconception(
        name="the scores set against the columns",
        wrong=_searched(join=lambda score, step: score[None, :] + step),
        hint="`score + step` adds the score of a beginning to the columns, which are the next "
        "tokens. → Along which axis of the table do the tokens before lie?",
    ),
    Misconception(
        name="the best next token for every token",
        wrong=_searched(
            best=lambda paths, axis: paths.max(axis=-1),
            which=lambda paths, axis: paths.argmax(axis=-1),
        ),
        hint="You take the maximum along the rows: for every token the best *next* one, and its "
        "score then stands at the place of the token before. → Over which of the two tokens "
        "should the maximum be taken, so that one score is left for each next token?",
    ),
    Misconception(
        name="the way back walked forward",
        wrong=_best_forward_walk,
        hint="The log-probability is right. What you noted says where each token came *from*, and "
        "you follow it from the first step to the last. → At which end of the sequence is the "
        "best token known, and in which direction do the notes lead?",
    ),
    Misconception(
        name="from the last to the first",
        wrong=_searched(result=lambda tokens, score: (np.array(tokens[::-1]), score.max())),
        hint="These are the right tokens from the last to the first, in the order in which you "
        "found them on the way back. → What is left to do with the list?",
    ),
    Misconception(
        name="one table for all steps",
        wrong=_searched(steps=lambda tables: np.asarray(_log(tables[:1].repeat(len(tables), 0)))),
        hint="You use the first table at every step. → Which axis of `tables` says which step it "
        "is for?",
    ),
    Misconception(
        name="the tables from the last to the first",
        wrong=_searched(steps=lambda tables: np.asarray(_log(tables[::-1]))),
        hint="You go through the tables from the last to the first, but begin with the "
        "probabilities of the first token. → Which table leads from the first token to the second?",
    ),
    Misconception(
        name="the likeliest first token forced",
        wrong=_best_first_forced,
        hint="You settle the first token before you look at what follows, and search from there. "
        "→ Can a sequence that begins with a less likely token be the best?",
    ),
    Misconception(
        name="greedy",
        wrong=_best_greedy,
        hint="You take the likeliest next token at every step. A good beginning may have no good "
        "continuation: in the case with 2 tokens, 0.6 · 0.5 is less than 0.4 · 0.9. → What would "
        "you have to keep besides the one best beginning, so that a late surprise can still be "
        "answered?",
    ),
    Misconception(
        name="the likeliest token at every position by itself",
        wrong=_best_at_each_place,
        hint="You add up over all beginnings and take the likeliest token of each position by "
        "itself. Tokens chosen so need not follow each other well. → Should a token's score add "
        "up all the ways into it, or keep the best?",
    ),
    Misconception(
        name="no way back",
        wrong=_best_no_way_back,
        hint="The log-probability is right, the tokens aren't: at every step you note where the "
        "best beginning of that length ends, and a later one may not be its continuation. → What "
        "has to be noted at every step so that you can walk back from the last token?",
    ),
    Misconception(
        name="the likeliest token at every position, and the last one's probability",
        wrong=_best_marginals,
        hint="You add up over all beginnings, and take the likeliest token of each position by "
        "itself. Tokens chosen so need not follow each other well. → Should a token's score add "
        "up all the ways into it, or keep the best?",
    ),
    Misconception(
        name="the best pair of every table",
        wrong=_best_pairs,
        hint="You take the largest number of every table, but a step has to start where the one "
        "before it ended. → Which row of the next table may be used?",
    ),
    Misconception(
        name="all ways added up",
        wrong=_searched(best=lambda paths, axis: _log(np.exp(paths).sum(axis=axis))),
        hint="You add up the probabilities of all ways into a token. That's how probable the "
        "token is; the best sequence goes one way. → Which of the ways into a token should its "
        "score be?",
    ),
    Misconception(
        name="the mean a token",
        wrong=_searched(result=lambda tokens, score: (np.array(tokens), score.max() / len(tokens))),
        hint="The tokens are right; the second result is a mean over them. → What does the chain "
        "rule do with the logarithms of all tokens?",
    ),
    Misconception(
        name="probabilities added, not multiplied",
        wrong=_searched(start=lambda first: first, steps=lambda tables: tables),
        hint="You add probabilities where they should be multiplied, so that one impossible step "
        "hardly hurts. → What can be added in their place?",
    ),
    Misconception(
        name="the probability itself",
        wrong=_searched(result=lambda tokens, score: (np.array(tokens), np.exp(score.max()))),
        hint="The tokens are right; the second result is their probability, not its logarithm. → "
        "What does the docstring's Returns ask for?",
    ),
    Misconception(
        name="the loss",
        wrong=_searched(result=lambda tokens, score: (np.array(tokens), -score.max())),
        hint="The tokens are right; the second result has the wrong sign. → Is the logarithm of a "
        "probability above or below 0?",
    ),
    Misconception(
        name="base 2",
        wrong=_searched(result=lambda tokens, score: (np.array(tokens), score.max() / log(2))),
        hint="the tokens are right; the second result is in bits. This exercise uses nats. → "
        "Which of numpy's logarithms has the base e?",
        valid_variant=True,
    ),
    Misconception(
        name="the parts turned round",
        wrong=_searched(result=lambda tokens, score: (score.max(), np.array(tokens))),
        hint="Your two results stand in the other order. → Which one does the docstring's Returns "
        "name first?",
    ),
    Misconception(
        name="the first token's probabilities left out",
        wrong=_searched(start=lambda first: np.zeros(len(first))),
        hint="Your scores begin at 0 for every token, as if all first tokens were certain. → "
        "Where does `first` come into your function?",
    ),
    Misconception(
        name="the least probable",
        wrong=_searched(best=np.min, which=np.argmin),
        hint="You look for the least probable sequence: log-probabilities are negative, and the "
        "best is the one nearest to 0. → Minimum or maximum?",
    ),
]


def _best_by_trying_all(first: NDArray, tables: NDArray) -> _Sequence:
    """Try all sequences: right, and possible for a few tokens only."""
    tries = product(range(len(first)), repeat=len(tables) + 1)
    best = max(tries, key=lambda tokens: _log_of_path(first, tables, list(tokens)))
    return np.array(best), _log_of_path(first, tables, list(best))


def _best_by_beginnings(first: NDArray, tables: NDArray) -> _Sequence:
    """Keep, for every last token, the best beginning as a list; no way back is needed."""
    best = {i: ([i], float(_log(p))) for i, p in enumerate(first)}
    for table in tables:
        best = {
            j: max(
                (([*tokens, j], score + float(_log(table[i, j]))) for i, (tokens, score) in
                 best.items()),
                key=lambda found: found[1],
            )
            for j in range(len(first))
        }  # fmt: skip
    tokens, score = max(best.values(), key=lambda found: found[1])
    return tokens, score


def _best_by_recursion(first: NDArray, tables: NDArray) -> _Sequence:
    """Ask for the best continuation from every token on, from the end; remember the answers."""

    @cache
    def rest(t: int, before: int) -> tuple[float, tuple[int, ...]]:
        if t == len(tables):
            return 0.0, ()
        ways = []
        for j in range(len(first)):
            value, tokens = rest(t + 1, j)
            ways.append((float(_log(tables[t, before, j])) + value, (j, *tokens)))
        return max(ways)

    begun = [(float(_log(p)) + rest(0, i)[0], (i, *rest(0, i)[1])) for i, p in enumerate(first)]
    value, tokens = max(begun)
    return np.array(tokens), value


def _best_by_products(first: NDArray, tables: NDArray) -> _Sequence:
    """Multiply probabilities, and take the logarithm at the end: 40 of them aren't too many."""
    p, backs = first, []
    for table in tables:
        paths = p[:, None] * table
        backs.append(paths.argmax(axis=0))
        p = paths.max(axis=0)
    tokens = [p.argmax()]
    for back in backs[::-1]:
        tokens.insert(0, back[tokens[0]])
    return np.array(tokens), np.log(p.max())


def _best_torch(first: Any, tables: Any) -> _Sequence:
    import torch

    score, backs = first.log(), []
    for table in tables:
        score, back = (score[:, None] + table.log()).max(dim=0)
        backs.append(back)
    tokens = [score.argmax()]
    for back in reversed(backs):
        tokens.append(back[tokens[-1]])
    return torch.stack(tokens[::-1]), score.max()


_BEST = Exercise(
    id="00.best",
    function="most_probable",
    reference=most_probable,
    cases=_BEST_CASES,
    returns=("tokens", "log_probability"),
    misconceptions=_BEST_WRONG,
    alternatives=[
        Alternative(name="the best beginning for every last token", right=_best_by_beginnings),
        Alternative(name="recursion with a memory", right=_best_by_recursion),
        Alternative(name="products, the logarithm at the end", right=_best_by_products),
        Alternative(name="torch", right=_best_torch, backend="torch"),
    ],
    hints=[
        "Trying all sequences (`itertools.product`) is a good start: it passes all cases but the "
        "last. For that one, think of all beginnings that end in the same token: what follows "
        "doesn't care which of them it was.",
        "So keep one beginning for each of the |V| tokens that it can end in: the best one. From "
        "step to step there are |V| · |V| ways, of which |V| are kept.",
        "With logarithms, `score[:, None] + np.log(tables[t])` holds all ways; its maximum and "
        "argmax along axis 0 are the new scores and where they came from. At the end walk back "
        "from the best last token.",
    ],
    points=4,
    minutes=30,
    difficulty=3,
    time_limit=5,
    if_too_slow="40 tokens of a vocabulary of 8 make 8⁴⁰ ≈ 1.3 · 10³⁶ sequences, more than any "
    "machine can go through. → Which beginnings can be dropped on the way, because another one "
    "that ends in the same token is better?",
)


# -- 00.bug_smoothing ------------------------------------------------------------------------------


def bigram_model(
    train: NDArray, test: NDArray, vocab_size: int, k: float
) -> tuple[NDArray, NDArray]:
    """Fit a bigram model with add-k smoothing, and return its perplexity on a test text.

    Parameters
    ----------
    train, test : int arrays, (n_train,) and (n_test,)
        Token ids; every token but the first is predicted from the one before it.
    vocab_size : int
    k : float
        Added to the count of every pair, at least 0.

    Returns
    -------
    probabilities : float array, (V, V)
        Row i is the distribution of what follows token i; it sums to 1.
    perplexity : float
        Of the tokens of `test` after its first.
    """
    counts = np.zeros((vocab_size, vocab_size))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    seen = counts.sum(axis=1, keepdims=True)
    probabilities = (counts + k) / (seen + k * vocab_size)
    return probabilities, np.exp(-np.log(probabilities[test[:-1], test[1:]]).mean())


def bigram_model_broken(
    train: NDArray, test: NDArray, vocab_size: int, k: float
) -> tuple[NDArray, NDArray]:
    """Fit a bigram model, as the exercise's notebook shows it: with two faults."""
    counts = np.zeros((vocab_size, vocab_size))
    counts[train[:-1], train[1:]] += 1
    seen = counts.sum(axis=1, keepdims=True)
    probabilities = (counts + k) / (seen + k)
    surprise = -np.log(probabilities[test[:-1], test[1:]])
    return probabilities, np.exp(surprise.mean())


def _texts(
    seed: int, vocab_size: int, n_train: int, n_test: int, k: float, unseen: bool = False
) -> dict[str, Any]:
    """Draw two texts; without `unseen` every token has a successor, and no test pair is new.

    With it two tokens of the vocabulary don't occur in the training text at all.
    """
    rng = np.random.default_rng([seed, 8, vocab_size, n_train])
    while True:
        # Uneven, so that pairs repeat and rows differ.
        p = 1.0 / np.arange(1, vocab_size + 1)
        train = rng.choice(vocab_size, n_train, p=p / p.sum())
        test = rng.choice(vocab_size, n_test, p=p / p.sum())
        known = set(zip(train[:-1].tolist(), train[1:].tolist(), strict=True))
        asked = set(zip(test[:-1].tolist(), test[1:].tolist(), strict=True))
        followed = len({before for before, _ in known}) == vocab_size
        if unseen and not asked <= known and len(set(train.tolist())) == vocab_size - 2:
            break
        if not unseen and asked <= known and followed and len(asked) > 2:
            break
    return {"train": train, "test": test, "vocab_size": vocab_size, "k": k}


_SMOOTHING_CASES = [
    Case(
        name="no pair twice, k = 0",
        inputs={
            "train": np.array([0, 1, 2, 0, 2, 1, 0]),
            "test": np.array([0, 2, 1, 0]),
            "vocab_size": 3,
            "k": 0.0,
        },
        shows="the test that the broken program was released with",
    ),
    Case(
        name="no pair twice, k = 1",
        inputs={
            "train": np.array([0, 1, 2, 0, 2, 1, 3]),
            "test": np.array([1, 3, 0, 2]),
            "vocab_size": 4,
            "k": 1.0,
        },
        shows="every row sums to 1, and that of a token without a successor is even",
    ),
    Case(
        name="pairs that come again and again, k = 0",
        inputs=lambda seed: _texts(seed, 3, 24, 7, 0.0),
        shows="a pair counts as often as it comes",
    ),
    Case(
        name="k = ½, with pairs that are new",
        inputs=lambda seed: _texts(seed, 7, 30, 9, 0.5, unseen=True),
        shows="both at once",
    ),
    Case(
        name="k = 1000",
        inputs=lambda seed: _texts(seed, 5, 40, 12, 1000.0),
        shows="nearly even rows, and a perplexity near |V|",
    ),
]

_Bigrams = tuple[Any, Any]


def _counts(train: NDArray, vocab_size: int) -> NDArray:
    counts = np.zeros((vocab_size, vocab_size))
    for before, after in pairwise(train):
        counts[before, after] += 1
    return counts


def _counts_once(train: NDArray, vocab_size: int) -> NDArray:
    return np.minimum(_counts(train, vocab_size), 1.0)


def _smoothed(counts: NDArray, k: float) -> NDArray:
    smoothed = counts + k
    return np.asarray(smoothed / smoothed.sum(axis=1, keepdims=True))


def _smoothed_by(
    below: Callable[[NDArray, float], Any],
) -> Callable[[NDArray, float], NDArray]:
    """Return add-k smoothing with another number below the line, beside the row's count."""
    return lambda counts, k: np.asarray(
        (counts + k) / (counts.sum(axis=1, keepdims=True) + below(counts, k))
    )


def _perplexity_of(p: NDArray, test: NDArray) -> Any:
    return np.exp(-np.log(p[test[:-1], test[1:]]).mean())


def _bigrams(
    *,
    count: Callable[[NDArray, int], NDArray] = _counts,
    smooth: Callable[[NDArray, float], NDArray] = _smoothed,
    score: Callable[[NDArray, NDArray], Any] = _perplexity_of,
) -> Callable[..., _Bigrams]:
    """Return the bigram model with one of its steps replaced."""

    def wrong(train: NDArray, test: NDArray, vocab_size: int, k: float) -> _Bigrams:
        with np.errstate(all="ignore"):
            p = smooth(count(train, vocab_size), k)
            return p, score(p, test)

    return wrong


def _smoothed_where_zero(counts: NDArray, k: float) -> NDArray:
    filled = np.where(counts == 0, k, counts)
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))


def _smoothed_after(counts: NDArray, k: float) -> NDArray:
    """Divide first, then add k to the shares and divide again."""
    seen = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, seen, out=np.zeros_like(counts), where=seen > 0) + k
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _smoothed_above_only(counts: NDArray, k: float) -> NDArray:
    return np.asarray((counts + k) / counts.sum(axis=1, keepdims=True))


def _with_test(train: NDArray, test: NDArray, vocab_size: int, k: float) -> _Bigrams:
    """Count the pairs of the test too."""
    p = _smoothed(_counts(train, vocab_size) + _counts(test, vocab_size), k)
    return p, _perplexity_of(p, test)


def _on_train(train: NDArray, test: NDArray, vocab_size: int, k: float) -> _Bigrams:
    p = _smoothed(_counts(train, vocab_size), k)
    return p, _perplexity_of(p, train)


_BELOW_THE_LINE = (
    "→ k is added to how many counts of a row, and by how much does the row's sum grow for it?"
)

_SMOOTHING_WRONG = [
    Misconception(
        name="1 in place of k",
        wrong=_bigrams(smooth=lambda counts, k: _smoothed(counts, 1.0 if k else 0.0)),
        hint="The rows sum to 1, but every count is raised by 1, whatever k is. → Where does `k` "
        "come into your function?",
    ),
    Misconception(
        name="smoothing repaired, a pair still counted once",
        wrong=_bigrams(count=_counts_once),
        hint="The rows sum to 1 now. But a pair that comes five times counts once: numpy reads "
        "`counts[…, …] += 1` once for each place, however often the place is named. → What do "
        "`counts` hold after the text 0 1 0 1 0 1, and what could count one pair at a time?",
    ),
    Misconception(
        name="rows without counts left at 0",
        wrong=_bigrams(
            smooth=lambda counts, k: _smoothed(counts, k) * (counts.sum(axis=1, keepdims=True) > 0)
        ),
        hint="The row of a token that nothing was seen to follow is all 0 in your table, which is "
        "no distribution. With k above 0 there's no division by 0 to be afraid of. → What does "
        "the docstring's k make of a row whose counts are all 0?",
    ),
    Misconception(
        name="rows without counts set to 1",
        wrong=_bigrams(
            smooth=lambda counts, k: np.where(
                counts.sum(axis=1, keepdims=True) > 0, _smoothed(counts, k), 1.0
            )
        ),
        hint="The row of a token that nothing was seen to follow is all 1 in your table, which is "
        "no distribution. → What does the docstring's k make of a row whose counts are all 0?",
    ),
    Misconception(
        name="counting repaired, the smoothing not",
        wrong=_bigrams(smooth=_smoothed_by(lambda counts, k: k)),
        hint="Every pair counts as often as it comes now. With k above 0 the rows still don't sum "
        f"to 1. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="nothing added below the line",
        wrong=_bigrams(smooth=_smoothed_above_only),
        hint="You add k to the counts and nothing to the row's sum: rows sum to more than 1, and "
        f"that of a token without a successor is infinite. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="k times the successors that were seen",
        wrong=_bigrams(
            smooth=_smoothed_by(lambda counts, k: k * (counts > 0).sum(axis=1, keepdims=True))
        ),
        hint="Below the line you add k once for every successor that was seen, but above it every "
        f"count gets k, those that are 0 too. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="k times one less than the vocabulary",
        wrong=_bigrams(smooth=_smoothed_by(lambda counts, k: k * (len(counts) - 1))),
        hint="Below the line you add k once for every token but one, but every token of the "
        f"vocabulary can follow, the same one again too. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="k times the tokens of the training text",
        wrong=lambda train, test, vocab_size, k: _bigrams(
            smooth=_smoothed_by(lambda counts, k: k * len(np.unique(train)))
        )(train, test, vocab_size, k),
        hint="Below the line you add k once for every token that the training text holds, but a "
        "row has a count for every token of the vocabulary, those that never came too. "
        f"{_BELOW_THE_LINE}",
    ),
    Misconception(
        name="k added to the row's sum twice",
        wrong=_bigrams(smooth=_smoothed_by(lambda counts, k: 2 * k * len(counts))),
        hint="The rows sum to less than 1: the counts hold k already when you sum them, and then "
        "k is added below the line once more. → Which of the two sums do you divide by, and what "
        "is in it?",
    ),
    Misconception(
        name="k squared times the vocabulary",
        wrong=_bigrams(smooth=_smoothed_by(lambda counts, k: k * counts.size)),
        hint="You add k for every entry of the whole table, |V|² in number, but only |V| stand in "
        f"one row. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="k where the count is 0",
        wrong=_bigrams(smooth=_smoothed_where_zero),
        hint="Your rows sum to 1, but k is put only where nothing was counted. With a large k "
        "what never came then seems likelier than what came. → To which counts does the docstring "
        "add k?",
    ),
    Misconception(
        name="k added to the shares",
        wrong=_bigrams(smooth=_smoothed_after),
        hint="Your rows sum to 1, but k is added after the division, to shares: it then counts "
        "for more the more a token was seen. → Is k added to counts or to shares?",
    ),
    Misconception(
        name="k added to the shares, not divided again",
        wrong=_bigrams(smooth=lambda counts, k: counts / counts.sum(axis=1, keepdims=True) + k),
        hint="You add k to the shares, after the division: the rows no longer sum to 1, and that "
        "of a token without a successor is 0/0. → Is k added to counts or to shares?",
    ),
    Misconception(
        name="the token after names the row",
        wrong=_bigrams(count=lambda train, v: _counts(train, v).T),
        hint="Your rows are the token that comes after, your columns the one before. That line of "
        "the program wasn't broken. → Which index of `counts` comes first?",
    ),
    Misconception(
        name="the program as it was",
        wrong=bigram_model_broken,
        program=as_cell(bigram_model_broken, "bigram_model"),
        hint="This is what the broken program returns. With k = 1 its rows don't sum to 1, so "
        "they are no distributions and the perplexity means nothing. → k is added to how many "
        "counts of a row, and by how much does the row's sum grow for it?",
    ),
    Misconception(
        name="nothing added below the line, a pair still counted once",
        wrong=_bigrams(count=_counts_once, smooth=_smoothed_above_only),
        hint="You add k to the counts and nothing to the row's sum, and a pair that comes five "
        f"times still counts once. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="columns that sum to 1",
        wrong=_bigrams(
            smooth=lambda counts, k: (counts + k) / (counts + k).sum(axis=0, keepdims=True)
        ),
        hint="Your columns sum to 1: what came before a token, not what comes after. That line of "
        "the program wasn't broken. → Row i is the distribution of what?",
    ),
    Misconception(
        name="the sums have lost their axis",
        wrong=_bigrams(
            smooth=lambda counts, k: (counts + k) / (counts.sum(axis=1) + k * len(counts))
        ),
        hint="The sums of the rows came out as a flat array, and broadcasting set them against "
        "the columns. → Which argument of `sum` keeps the summed axis, with length 1?",
    ),
    Misconception(
        name="tested on the training text",
        wrong=_on_train,
        hint="The table is right; the perplexity is that of the training text. → On which text "
        "should the model be judged?",
    ),
    Misconception(
        name="the mean of 1 / p",
        wrong=_bigrams(score=lambda p, test: (1 / p[test[:-1], test[1:]]).mean()),
        hint="The table is right; you average 1 / p, where the logarithms should be averaged. "
        "That line of the program wasn't broken. → Which comes last, the exponential or the mean?",
    ),
    Misconception(
        name="the size of the vocabulary without k",
        wrong=_bigrams(smooth=_smoothed_by(lambda counts, k: len(counts))),
        hint="You add |V| below the line, which is right for k = 1 and for no other. "
        f"{_BELOW_THE_LINE}",
    ),
    Misconception(
        name="the size of the vocabulary without k, a pair still counted once",
        wrong=_bigrams(count=_counts_once, smooth=_smoothed_by(lambda counts, k: len(counts))),
        hint="You add |V| below the line, which is right for k = 1 and for no other; and a pair "
        f"that comes five times still counts once. {_BELOW_THE_LINE}",
    ),
    Misconception(
        name="the whole table sums to 1",
        wrong=_bigrams(smooth=lambda counts, k: (counts + k) / (counts + k).sum()),
        hint="Your whole table sums to 1: these are the probabilities of pairs. → Given the token "
        "before, what do the probabilities of the next one sum to?",
    ),
    Misconception(
        name="one token alone",
        wrong=_bigrams(
            count=lambda train, v: np.tile(np.bincount(train[1:], minlength=v), (v, 1)).astype(
                float
            )
        ),
        hint="All your rows are the same: how often a token comes, whatever came before it. → "
        "Which two tokens make one count?",
    ),
    Misconception(
        name="a pair two apart",
        wrong=_bigrams(count=lambda train, v: _counts_apart(train, v, 2)),
        hint="You count tokens that are two places apart. That line of the program wasn't broken. "
        "→ What do `train[:-1]` and `train[1:]` pair?",
    ),
    Misconception(
        name="every second pair",
        wrong=_bigrams(count=lambda train, v: _counts_of(train[:-1:2], train[1::2], v)),
        hint="You cut the text into pairs that don't overlap, so that every second pair is "
        "missed. → In 0 1 2, how many times does a token follow another?",
    ),
    Misconception(
        name="the last pair left out",
        wrong=_bigrams(count=lambda train, v: _counts(train[:-1], v)),
        hint="The last pair of the training text isn't counted. → Where does your loop end, and "
        "how many pairs do n tokens make?",
    ),
    Misconception(
        name="the end joined to the beginning",
        wrong=_bigrams(count=lambda train, v: _counts(np.append(train, train[0]), v)),
        hint="You count one pair too many: the last token followed by the first, as `np.roll` "
        "would have it. → What follows the last token of the text?",
    ),
    Misconception(
        name="test pairs counted",
        wrong=_with_test,
        hint="You count the pairs of the test text as well: the model has seen what it's tested "
        "on. → Which of the two texts may the counts come from?",
    ),
    Misconception(
        name="base 2 in the logarithm, e in the power",
        wrong=_bigrams(score=lambda p, test: np.exp(-np.log2(p[test[:-1], test[1:]]).mean())),
        hint="The table is right; in the perplexity the logarithm has the base 2 and the power "
        "the base e. That line of the program wasn't broken. → Which base undoes which logarithm?",
    ),
    Misconception(
        name="the sum of the surprises",
        wrong=_bigrams(score=lambda p, test: np.exp(-np.log(p[test[:-1], test[1:]]).sum())),
        hint="The table is right; you raise e to the power of the whole text's surprise, not that "
        "of a token. That line of the program wasn't broken. → Sum or mean?",
    ),
    Misconception(
        name="divided by one token too many",
        wrong=_bigrams(
            score=lambda p, test: np.exp(-np.log(p[test[:-1], test[1:]]).sum() / len(test))
        ),
        hint="The table is right; the surprise is divided by the number of all tokens, but the "
        "first one isn't predicted. → How many predictions does a text of n tokens have?",
    ),
    Misconception(
        name="the loss",
        wrong=_bigrams(score=lambda p, test: -np.log(p[test[:-1], test[1:]]).mean()),
        hint="The table is right; the second result is the mean surprise, in nats. → Which "
        "function of it is the perplexity?",
    ),
]


def _counts_of(before: NDArray, after: NDArray, vocab_size: int) -> NDArray:
    counts = np.zeros((vocab_size, vocab_size))
    np.add.at(counts, (before[: len(after)], after[: len(before)]), 1)
    return counts


def _counts_apart(train: NDArray, vocab_size: int, apart: int) -> NDArray:
    return _counts_of(train[:-apart], train[apart:], vocab_size)


def _bigrams_by_bincount(train: NDArray, test: NDArray, vocab_size: int, k: float) -> _Bigrams:
    """Give every pair a number and count the numbers."""
    pairs = train[:-1] * vocab_size + train[1:]
    smoothed = np.bincount(pairs, minlength=vocab_size**2).reshape(vocab_size, vocab_size) + k
    p = smoothed / smoothed.sum(axis=1, keepdims=True)
    return p, np.exp(-np.log(p[test[:-1], test[1:]]).mean())


def _bigrams_by_dictionary(train: NDArray, test: NDArray, vocab_size: int, k: float) -> _Bigrams:
    counts: dict[tuple[int, int], int] = {}
    for pair in zip(train.tolist(), train.tolist()[1:], strict=False):
        counts[pair] = counts.get(pair, 0) + 1
    table = []
    for i in range(vocab_size):
        row = [counts.get((i, j), 0) + k for j in range(vocab_size)]
        table.append([x / sum(row) for x in row])
    surprise = [-log(table[i][j]) for i, j in pairwise(test)]
    return table, exp(sum(surprise) / len(surprise))


def _bigrams_by_one_hot(train: NDArray, test: NDArray, vocab_size: int, k: float) -> _Bigrams:
    """Count by a product of one-hot rows; the perplexity as a geometric mean."""
    eye = np.eye(vocab_size)
    counts = eye[train[:-1]].T @ eye[train[1:]] + k
    p = counts / (counts @ np.ones((vocab_size, 1)))
    given = p[test[:-1], test[1:]]
    return p, np.prod(given ** (-1 / len(given)))


def _bigrams_torch(train: Any, test: Any, vocab_size: int, k: float) -> _Bigrams:
    import torch

    counts = torch.full((vocab_size, vocab_size), float(k), dtype=torch.float64)
    ones = torch.ones(len(train) - 1, dtype=torch.float64)
    counts.index_put_((train[:-1], train[1:]), ones, accumulate=True)
    p = counts / counts.sum(dim=1, keepdim=True)
    return p, (-p[test[:-1], test[1:]].log().mean()).exp()


_BUG_SMOOTHING = Exercise(
    id="00.bug_smoothing",
    function="bigram_model",
    reference=bigram_model,
    cases=_SMOOTHING_CASES,
    returns=("probabilities", "perplexity"),
    misconceptions=_SMOOTHING_WRONG,
    alternatives=[
        Alternative(name="pairs numbered and counted", right=_bigrams_by_bincount),
        Alternative(name="a dictionary", right=_bigrams_by_dictionary),
        Alternative(name="one-hot rows", right=_bigrams_by_one_hot),
        Alternative(name="torch", right=_bigrams_torch, backend="torch"),
    ],
    hints=[
        "Print the sums of the rows, for k = 0 and for k = 1. Then print `counts` for the text "
        "0 1 0 1 0 1, in which one pair comes three times.",
        "If every one of the |V| counts of a row grows by k, what does the row's sum grow by? A "
        "distribution needs exactly that below the line.",
        "`counts[rows, columns] += 1` reads, adds and writes each place once, even if it's named "
        "five times. A loop over the pairs, or `np.add.at`, adds again and again.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 00.bug_shift ----------------------------------------------------------------------------------


def next_token_losses(logits: NDArray, ids: NDArray, lengths: NDArray) -> tuple[NDArray, NDArray]:
    """Judge a language model's logits by the tokens that came next.

    Parameters
    ----------
    logits : float array, (b, n, V)
        At position t, scores for the token at position t + 1.
    ids : int array, (b, n)
        Each sequence from its first token, then padding: any ids.
    lengths : int array, (b,)
        How many tokens each sequence has, at least 2.

    Returns
    -------
    losses : float array, (b,)
        Mean loss of each sequence, in nats, over all its tokens but the first.
    perplexity : float
        Over all these tokens of the batch, each counting the same.
    """
    surprise = -_at(_log_softmax(logits[:, :-1]), ids[:, 1:])  # (b, n − 1)
    real = np.arange(1, ids.shape[1]) < lengths[:, None]
    sums = (surprise * real).sum(axis=1)
    return sums / (lengths - 1), np.exp(sums.sum() / (lengths - 1).sum())


def next_token_losses_broken(
    logits: NDArray, ids: NDArray, lengths: NDArray
) -> tuple[NDArray, NDArray]:
    """Judge a language model's logits, as the exercise's notebook shows it: with three faults."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    surprise = -np.take_along_axis(log_p, ids[..., None], axis=-1)[..., 0]
    real = np.arange(ids.shape[1]) < lengths[:, None]
    losses = (surprise * real).sum(axis=1) / lengths
    return losses, np.exp(losses.mean())


def _model_output(
    lengths: list[int], vocab_size: int, n: int | None = None
) -> Callable[[int], dict[str, Any]]:
    """Draw logits and ids; no token comes twice in a row, and the padding is 0."""
    n_padded = n or max(lengths)

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 9, *lengths, vocab_size])
        steps = rng.integers(1, vocab_size, (len(lengths), n_padded))
        ids = steps.cumsum(axis=1) % vocab_size
        ids[np.arange(n_padded) >= np.array(lengths)[:, None]] = 0
        logits = draw(rng, len(lengths), n_padded, vocab_size, spread=2.0)
        return {"logits": logits, "ids": ids, "lengths": np.array(lengths)}

    return build


def _prophet(seed: int) -> dict[str, Any]:
    """Build the output of a model that is sure of the token that comes next, and right."""
    ids = np.array([[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]])
    return {"logits": 60.0 * np.eye(3)[(ids + 1) % 3], "ids": ids, "lengths": np.array([5, 5])}


def _parrot(seed: int) -> dict[str, Any]:
    """Build the output of a model that predicts the token it has just read."""
    ids = np.array([[0, 1, 2, 0, 1, 2]])
    return {"logits": 4.0 * np.eye(3)[ids], "ids": ids, "lengths": np.array([6])}


def _thousands(seed: int) -> dict[str, Any]:
    given = _model_output([5, 3], 4)(seed)
    return {**given, "logits": given["logits"] + np.array([[[2000.0]], [[-2000.0]]])}


# The faults one by one: the first case needs the shift alone, the next two the number of
# predictions too, the fourth the mask, the fifth the weights. So whoever mends one loses nothing.
_SHIFT_CASES = [
    Case(
        name="a model that knows what comes next",
        inputs=_prophet,
        shows="no loss, and a perplexity of 1",
    ),
    Case(
        name="a model that repeats what it reads",
        inputs=_parrot,
        shows="a high loss, since the next token is always another",
    ),
    Case(
        name="one sequence of 5 tokens",
        inputs=_model_output([5], 3),
        shows="4 predictions",
    ),
    Case(
        name="two sequences of 4 tokens, padded to 7",
        inputs=_model_output([4, 4], 5, n=7),
        shows="nothing is predicted after a sequence's last token",
    ),
    Case(
        name="three sequences, of 2, 9 and 5 tokens",
        inputs=_model_output([2, 9, 5], 4),
        shows="in the perplexity every token counts the same",
    ),
    Case(name="logits in the thousands", inputs=_thousands, shows="no overflow"),
]

_Judged = tuple[Any, Any]


def _judged(
    *,
    surprise: Callable[[NDArray, NDArray], NDArray] = lambda log_p, ids: (
        -_at(log_p[:, :-1], ids[:, 1:])
    ),
    log_p: Callable[[NDArray], NDArray] = _log_softmax,
    real: Callable[[NDArray, int], NDArray] = lambda lengths, n: np.arange(1, n) < lengths[:, None],
    size: Callable[[NDArray], NDArray] = lambda lengths: lengths - 1,
    total: Callable[[NDArray, NDArray, NDArray], Any] = lambda losses, size, lengths: np.exp(
        (losses * size).sum() / size.sum()
    ),
) -> Callable[..., _Judged]:
    """Return the evaluation with some of its steps replaced."""

    def wrong(logits: NDArray, ids: NDArray, lengths: NDArray) -> _Judged:
        with np.errstate(all="ignore"):
            costs = surprise(log_p(logits), ids)
            mask = real(lengths, ids.shape[1])
            sizes = size(lengths)
            losses = np.where(mask, costs, 0.0).sum(axis=1) / sizes
            return losses, total(losses, sizes, lengths)

    return wrong


def _not_shifted(log_p: NDArray, ids: NDArray) -> NDArray:
    return -_at(log_p, ids)


def _wrapped(log_p: NDArray, ids: NDArray) -> NDArray:
    """Shift with np.roll: the last position's target is the first token."""
    return -_at(log_p, np.roll(ids, -1, axis=1))


def _real_positions(lengths: NDArray, n: int) -> NDArray:
    return np.asarray(np.arange(n) < lengths[:, None])


def _real_readers(lengths: NDArray, n: int) -> NDArray:
    """Keep where a real token was read, the sequence's last among them."""
    return np.asarray(np.arange(n - 1) < lengths[:, None])


def _mean_of_losses(losses: NDArray, size: NDArray, lengths: NDArray) -> Any:
    return np.exp(losses.mean())


def _judged_kept(logits: NDArray, ids: NDArray, lengths: NDArray) -> _Judged:
    """Shift, keep where a real token was read, and divide by how many those are."""
    costs = -_at(_log_softmax(logits[:, :-1]), ids[:, 1:])
    real = _real_readers(lengths, ids.shape[1])
    sums = (costs * real).sum(axis=1)
    return sums / real.sum(axis=1), np.exp(sums.sum() / real.sum())


def _judged_beyond(logits: NDArray, ids: NDArray, lengths: NDArray) -> _Judged:
    """Ask for a token after the last one."""
    log_p = _log_softmax(logits)
    losses = [
        -sum(log_p[b, t, ids[b, t + 1]] for t in range(lengths[b])) / lengths[b]
        for b in range(len(ids))
    ]
    return np.array(losses), np.exp(np.mean(losses))


def _same_size(lengths: NDArray) -> NDArray:
    return lengths


_AFTER_THE_END = (
    "→ After reading the last token of a shorter sequence, what would the model have to predict, "
    "and does that count?"
)

_SHIFT_WRONG = [
    Misconception(
        name="no maximum subtracted",
        wrong=_judged(log_p=lambda logits: _log(_naive_softmax(logits))),
        hint="Right but for large logits, which overflow: the program subtracted each row's "
        "maximum, and that line wasn't broken. → What does subtracting the maximum prevent?",
    ),
    Misconception(
        name="shifted, the mask not",
        wrong=_judged(real=_real_readers),
        hint="The shift is right. The mask still says where a real token was read, and that of a "
        f"shorter sequence's last one is among them. {_AFTER_THE_END}",
    ),
    Misconception(
        name="shifted, the mask not, and what it keeps counted",
        wrong=_judged_kept,
        hint="The shift is right, and you divide by what the mask keeps. But the mask still says "
        "where a real token was read, and that of a shorter sequence's last one is among them. "
        f"{_AFTER_THE_END}",
    ),
    Misconception(
        name="shifted, the mask and the perplexity not",
        wrong=_judged(real=_real_readers, total=_mean_of_losses),
        hint="Shift and number of predictions are right. The mask still says where a real token "
        "was read, and that of a shorter sequence's last one is among them; and in the perplexity "
        f"every sequence counts the same. {_AFTER_THE_END}",
    ),
    Misconception(
        name="only the perplexity still averages sequences",
        wrong=_judged(total=_mean_of_losses),
        hint="The losses are right. In the perplexity every sequence counts the same, whether it "
        "has 1 prediction or 8. → How many predictions does each loss stand for?",
    ),
    Misconception(
        name="weighted by the lengths",
        wrong=_judged(
            total=lambda losses, size, lengths: np.exp((losses * lengths).sum() / lengths.sum())
        ),
        hint="The losses are right. In the perplexity you weigh them with the number of tokens, "
        "but each is a mean over one fewer. → How many predictions does a sequence of 5 tokens "
        "have?",
    ),
    Misconception(
        name="no mask",
        wrong=_judged(real=lambda lengths, n: np.ones((len(lengths), n - 1), bool)),
        hint="Your sums run over the padding too: without a mask, what stands there counts as if "
        "it had been said. → Up to which position does a sequence have real tokens to predict?",
    ),
    Misconception(
        name="no mask, divided by the padded length",
        wrong=_judged(
            real=lambda lengths, n: np.ones((len(lengths), n - 1), bool),
            size=lambda lengths: np.full(len(lengths), lengths.max() - 1),
        ),
        hint="You average over the padding too: what stands there counts as if it had been said. "
        "→ Up to which position does a sequence have real tokens to predict?",
    ),
    Misconception(
        name="divided by the padded length",
        wrong=_judged(size=lambda lengths: np.full(len(lengths), lengths.max() - 1)),
        hint="The sums are right, but you divide by the longest sequence's number of predictions. "
        "A shorter one then seems easier than it is. → By what should each sequence's sum be "
        "divided?",
    ),
    Misconception(
        name="the mean of the sequences' perplexities",
        wrong=_judged(total=lambda losses, size, lengths: np.exp(losses).mean()),
        hint="The losses are right. You average the perplexities of the sequences. → Which comes "
        "last, the exponential or the mean, and what is the mean over?",
    ),
    Misconception(
        name="shifted the other way",
        wrong=_judged(surprise=lambda log_p, ids: -_at(log_p[:, 1:], ids[:, :-1])),
        hint="You compare the logits at t + 1 with the token at t, which the model has read by "
        "then. → Which of the two comes later, the prediction's position or the token's?",
    ),
    Misconception(
        name="shifted the other way, sequences averaged",
        wrong=_judged(
            surprise=lambda log_p, ids: -_at(log_p[:, 1:], ids[:, :-1]), total=_mean_of_losses
        ),
        hint="You compare the logits at t + 1 with the token at t, which the model has read by "
        "then; and in the perplexity every sequence counts the same. → Which of the two comes "
        "later, the prediction's position or the token's?",
    ),
    Misconception(
        name="the last position predicts the first token",
        wrong=_judged(surprise=_wrapped, real=_real_positions, size=_same_size),
        hint="`np.roll` brings the first token to the end, where nothing comes any more, and you "
        "count it. → How many predictions does a sequence of 5 tokens have, and where is the last "
        "one?",
    ),
    Misconception(
        name="the last position predicts the first token, sequences averaged",
        wrong=_judged(
            surprise=_wrapped, real=_real_positions, size=_same_size, total=_mean_of_losses
        ),
        hint="`np.roll` brings the first token to the end, where nothing comes any more, and you "
        "count it; and in the perplexity every sequence counts the same. → How many predictions "
        "does a sequence of 5 tokens have, and where is the last one?",
    ),
    Misconception(
        name="rolled the other way",
        wrong=_judged(
            surprise=lambda log_p, ids: -_at(log_p, np.roll(ids, 1, axis=1)),
            real=_real_positions,
            size=_same_size,
        ),
        hint="`np.roll` by +1 brings the token *before* to each position, and the last one to the "
        "front. → Which way does the text have to move so that the next token stands at position "
        "t, and which position has none then?",
    ),
    Misconception(
        name="rolled the other way, sequences averaged",
        wrong=_judged(
            surprise=lambda log_p, ids: -_at(log_p, np.roll(ids, 1, axis=1)),
            real=_real_positions,
            size=_same_size,
            total=_mean_of_losses,
        ),
        hint="`np.roll` by +1 brings the token *before* to each position, and the last one to the "
        "front; and in the perplexity every sequence counts the same. → Which way does the text "
        "have to move so that the next token stands at position t?",
    ),
    Misconception(
        name="shifted by two",
        wrong=_judged(
            surprise=lambda log_p, ids: -_at(log_p[:, :-2], ids[:, 2:]),
            real=lambda lengths, n: np.arange(2, n) < lengths[:, None],
            size=lambda lengths: np.maximum(lengths - 2, 1),
        ),
        hint="You compare the logits at t with the token at t + 2. Cutting an array that is cut "
        "already makes two steps. → By how many places do logits and targets differ in your code?",
    ),
    Misconception(
        name="padding told by its id",
        wrong=lambda logits, ids, lengths: _judged(
            real=lambda lengths, n: ids[:, 1:] != 0,
            size=lambda lengths: np.maximum((ids[:, 1:] != 0).sum(axis=1), 1),
        )(logits, ids, lengths),
        hint="You leave out every target that is 0, but 0 is a token like any other here; what is "
        "padding, the lengths say. → Which positions lie before a sequence's length?",
    ),
    Misconception(
        name="the program as it was",
        wrong=next_token_losses_broken,
        program=as_cell(next_token_losses_broken, "next_token_losses"),
        hint="This is what the broken program returns. It rewards a model that repeats the token "
        "it has just read. → Which token should the logits at position t be compared with, that "
        "at t or another one?",
    ),
    Misconception(
        name="only the perplexity repaired",
        wrong=_judged(surprise=_not_shifted, real=_real_positions, size=_same_size),
        hint="In the perplexity every token counts the same now. But the program still rewards a "
        "model that repeats the token it has just read. → Which token should the logits at "
        "position t be compared with?",
    ),
    Misconception(
        name="both cut at the front",
        wrong=_judged(surprise=lambda log_p, ids: -_at(log_p[:, 1:], ids[:, 1:])),
        hint="You cut the first position from logits and from targets, so that they still stand "
        "side by side unshifted. → Which end has to be cut from each, so that position t meets "
        "token t + 1?",
    ),
    Misconception(
        name="both cut at the front, sequences averaged",
        wrong=_judged(
            surprise=lambda log_p, ids: -_at(log_p[:, 1:], ids[:, 1:]), total=_mean_of_losses
        ),
        hint="You cut the first position from logits and from targets, so that they still stand "
        "side by side unshifted. → Which end has to be cut from each, so that position t meets "
        "token t + 1? ".strip(),
    ),
    Misconception(
        name="both cut at the end",
        wrong=_judged(surprise=lambda log_p, ids: -_at(log_p[:, :-1], ids[:, :-1])),
        hint="You cut the last position from logits and from targets, so that they still stand "
        "side by side unshifted. → Which end has to be cut from each, so that position t meets "
        "token t + 1?",
    ),
    Misconception(
        name="shifted, the mask not cut",
        wrong=_judged(real=_real_positions),
        hint="The shift is right, so there is one prediction fewer than there are positions, and "
        "the mask has still a column for each. → To which tokens does the mask belong now, and "
        "which of its columns has to go?",
    ),
    Misconception(
        name="a prediction after the last token",
        wrong=_judged_beyond,
        hint="An index runs out of its axis. A full sequence has no token after its last "
        "position; and the next token is that at the next position, not the id that is one "
        "larger. → How many predictions does a sequence of 5 tokens have, and at which positions?",
    ),
    Misconception(
        name="shifted, the mask and the length not",
        wrong=_judged(real=_real_readers, size=_same_size),
        hint="The shift is right. Mask and number are still those of the tokens that were "
        f"read. {_AFTER_THE_END}",
    ),
    Misconception(
        name="shifted, mask, length and perplexity not",
        wrong=_judged(real=_real_readers, size=_same_size, total=_mean_of_losses),
        hint="The shift is right. Mask, number of predictions and perplexity are still the old "
        f"ones. {_AFTER_THE_END}",
    ),
    Misconception(
        name="shifted, the length not",
        wrong=_judged(size=_same_size),
        hint="Shift and mask are right, but you divide by the number of tokens. → How many "
        "predictions does a sequence of 5 tokens have?",
    ),
    Misconception(
        name="shifted, the length and the perplexity not",
        wrong=_judged(size=_same_size, total=_mean_of_losses),
        hint="Shift and mask are right, but you divide by the number of tokens, and in the "
        "perplexity every sequence counts the same. → How many predictions does a sequence of 5 "
        "tokens have?",
    ),
    Misconception(
        name="not divided",
        wrong=_judged(size=lambda lengths: np.ones(len(lengths), int)),
        hint="You return each sequence's sum, which grows with its length. → By how many "
        "predictions should it be divided?",
    ),
    Misconception(
        name="the perplexity of the sum",
        wrong=_judged(total=lambda losses, size, lengths: np.exp((losses * size).sum())),
        hint="The losses are right. You raise e to the power of the whole batch's loss. → What "
        "has that sum to be divided by?",
    ),
    Misconception(
        name="no exponential",
        wrong=_judged(total=lambda losses, size, lengths: (losses * size).sum() / size.sum()),
        hint="The losses are right; the second result is the mean loss of all tokens. → Which "
        "function of it is the perplexity?",
    ),
    Misconception(
        name="the sign turned",
        wrong=_judged(surprise=lambda log_p, ids: _at(log_p[:, :-1], ids[:, 1:])),
        hint="Your losses are negative: a minus was lost on the way. → What is the sign of the "
        "logarithm of a probability?",
    ),
]


def _judged_one_by_one(logits: NDArray, ids: NDArray, lengths: NDArray) -> _Judged:
    """Cut each sequence out of its padding and treat it alone."""
    losses, costs = [], []
    for rows, tokens, n in zip(logits, ids, lengths, strict=True):
        log_p = _log_softmax(rows[: n - 1])
        surprise = -log_p[np.arange(n - 1), tokens[1:n]]
        losses.append(surprise.mean())
        costs.extend(surprise)
    return np.array(losses), np.exp(np.mean(costs))


def _judged_rolled(logits: NDArray, ids: NDArray, lengths: NDArray) -> _Judged:
    """Shift with np.roll after all, and leave the last position out by the mask."""
    surprise = -_at(_log_softmax(logits), np.roll(ids, -1, axis=1))
    real = np.arange(ids.shape[1]) < lengths[:, None] - 1
    losses = (surprise * real).sum(axis=1) / real.sum(axis=1)
    return losses, np.exp((surprise * real).sum() / real.sum())


def _judged_by_loops(logits: NDArray, ids: NDArray, lengths: NDArray) -> _Judged:
    losses, total, count = [], 0.0, 0
    for b in range(len(ids)):
        cost = 0.0
        for t in range(1, lengths[b]):
            row = logits[b, t - 1] - logits[b, t - 1].max()
            cost -= row[ids[b, t]] - log(np.exp(row).sum())
        losses.append(cost / (lengths[b] - 1))
        total, count = total + cost, count + lengths[b] - 1
    return losses, exp(total / count)


def _judged_torch(logits: Any, ids: Any, lengths: Any) -> _Judged:
    import torch

    targets = ids[:, 1:].clone()
    targets[torch.arange(1, ids.shape[1]) >= lengths[:, None]] = -100
    costs = torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2), targets, ignore_index=-100, reduction="none"
    )
    return costs.sum(dim=1) / (lengths - 1), (costs.sum() / (lengths - 1).sum()).exp()


_BUG_SHIFT = Exercise(
    id="00.bug_shift",
    function="next_token_losses",
    reference=next_token_losses,
    cases=_SHIFT_CASES,
    returns=("losses", "perplexity"),
    misconceptions=_SHIFT_WRONG,
    alternatives=[
        Alternative(name="sequence by sequence", right=_judged_one_by_one),
        Alternative(name="rolled and masked", right=_judged_rolled),
        Alternative(name="loops", right=_judged_by_loops),
        Alternative(name="torch", right=_judged_torch, backend="torch"),
    ],
    hints=[
        "Write the text 7 8 9 and its positions 0 1 2 under each other. What has the model read "
        "when it gives the logits at position 0, and which token is it asked for?",
        "Cut the last position off the logits and the first off the targets: they then stand side "
        "by side. The mask belongs to the targets, so it's cut like them.",
        "A sequence of n tokens has n − 1 predictions: divide by that. The perplexity needs the "
        "sum over all sequences, divided by the number of all predictions.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES: list[Exercise] = [
    _CHAIN,
    _LOG_SOFTMAX,
    _CROSS_ENTROPY,
    _PERPLEXITY,
    _SAMPLE,
    _BITS,
    _BEST,
    _BUG_SMOOTHING,
    _BUG_SHIFT,
]

#: The programs that the debugging exercises begin with.
BROKEN: dict[str, Callable[..., Any]] = {
    "00.bug_smoothing": bigram_model_broken,
    "00.bug_shift": next_token_losses_broken,
}
