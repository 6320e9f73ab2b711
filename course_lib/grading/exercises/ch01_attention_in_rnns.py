"""The exercises of chapter 01: scores, weights, contexts, a GRU step, alignments, two bugs.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, sqrt, tanh
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.inputs import as_cell, draw, weights_rows
from course_lib.grading.model import Alternative, Case, Exercise, Misconception
from course_lib.reference import attention_scores, recurrent
from course_lib.reference.attention import softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Mask = Callable[[NDArray, NDArray], Any]
    _Judge = Callable[[NDArray, NDArray, NDArray], float]
    _Picker = Callable[[NDArray, NDArray, NDArray], NDArray]

__all__ = [
    "BROKEN",
    "EXERCISES",
    "alignment_error",
    "attend_step",
    "attend_step_broken",
    "attention_weights",
    "context_vectors",
    "encode",
    "encode_broken",
    "multiplicative_scores",
]


# -- what the misconceptions share -----------------------------------------------------------------


def _plain_softmax(s: NDArray, axis: int = -1) -> NDArray:
    """Softmax that is stable but knows nothing of rows that are all −∞."""
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def _naive_softmax(s: NDArray, axis: int = -1) -> NDArray:
    """Softmax without the maximum subtracted."""
    with np.errstate(all="ignore"):
        e = np.exp(s)
        return e / e.sum(axis=axis, keepdims=True)


def _real(lengths: NDArray, n: int) -> NDArray:
    """Return where the words of a padded batch are: (b, n)."""
    return np.arange(n) < lengths[:, None]


def _sigmoid(x: NDArray) -> NDArray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


# -- 01.additive -----------------------------------------------------------------------------------


def _states(
    seed: list[int],
    lead: tuple[int, ...],
    n_q: int,
    n_k: int,
    d_q: int,
    d_k: int,
    spread: float = 1.0,
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "queries": draw(rng, *lead, n_q, d_q, spread=spread),
        "keys": draw(rng, *lead, n_k, d_k, spread=spread),
    }


def _additive(
    seed: int,
    lead: tuple[int, ...],
    n: tuple[int, int],
    d: tuple[int, int, int],
    spread: float = 1.0,
) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 10, *lead, *n, *d])
    d_q, d_k, d_a = d
    return {
        **_states([seed, 11, *lead, *n, *d], lead, *n, d_q, d_k, spread),
        "w_query": draw(rng, d_q, d_a, spread=0.7),
        "w_key": draw(rng, d_k, d_a, spread=0.7),
        "v": draw(rng, d_a, spread=1.5),
    }


_ADDITIVE_CASES = [
    Case(
        name="one decoder state, one encoder state",
        inputs=lambda seed: _additive(seed, (), (1, 1), (2, 3, 4)),
        shows="one number, v · tanh(q W_q + k W_k)",
    ),
    Case(
        name="one hidden unit",
        inputs=lambda seed: _additive(seed, (), (2, 3), (4, 5, 1)),
        shows="each decoder state meets each encoder state",
    ),
    Case(
        name="3 decoder states, 5 encoder states",
        inputs=lambda seed: _additive(seed, (), (3, 5), (2, 4, 6)),
        shows="every axis counts",
    ),
    Case(
        name="4 of everything",
        inputs=lambda seed: _additive(seed, (), (4, 4), (4, 4, 4)),
        shows="each matrix has its own states, and rows are decoder states",
    ),
    Case(
        name="large states",
        inputs=lambda seed: _additive(seed, (), (2, 4), (3, 2, 5), spread=2000.0),
        shows="tanh stays between −1 and 1",
    ),
    Case(
        name="a batch of 2",
        inputs=lambda seed: _additive(seed, (2,), (3, 4), (5, 2, 6)),
        shows="each sentence gets what it gets alone",
    ),
    Case(
        name="a batch of 3 with 3 states each",
        inputs=lambda seed: _additive(seed, (3,), (3, 3), (2, 5, 4)),
        shows="no sentence meets another one's states",
    ),
]


def _hidden(
    *,
    squash: Callable[[NDArray], NDArray] = np.tanh,
    combine: Callable[[NDArray, NDArray], NDArray] = np.add,
) -> Callable[..., NDArray]:
    """Return additive scores with another non-linearity, or another way to combine."""

    def score(queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray) -> Any:
        ask = (queries @ w_query)[..., :, None, :]
        answer = (keys @ w_key)[..., None, :, :]
        with np.errstate(all="ignore"):
            return squash(combine(ask, answer)) @ v

    return score


_additive_right = _hidden()


def _tanh_by_formula(x: NDArray) -> NDArray:
    return (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x))


def _additive_swapped(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_key, w_query, v)


def _additive_transposed_weights(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query.T, w_key.T, v)


def _additive_tanh_last(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh(_hidden(squash=lambda x: x)(queries, keys, w_query, w_key, v))


def _additive_no_v(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query, w_key, np.ones_like(v))


def _additive_not_summed(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    ask, answer = queries @ w_query, keys @ w_key
    return v * np.tanh(ask[..., :, None, :] + answer[..., None, :, :])


def _additive_turned(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query, w_key, v).swapaxes(-2, -1)


def _additive_pairs(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh(queries @ w_query + keys @ w_key) @ v


def _additive_from_front(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh((queries @ w_query)[:, None] + (keys @ w_key)[None, :]) @ v


def _additive_one_batch_axis(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh((queries @ w_query)[:, :, None, :] + (keys @ w_key)[:, None, :, :]) @ v


def _additive_last_query(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh(queries[..., -1:, :] @ w_query + keys @ w_key) @ v


def _additive_weights_first(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return v @ np.tanh(w_query @ queries + w_key @ keys)


def _additive_matrix_product(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh((queries @ w_query) @ (keys @ w_key).swapaxes(-2, -1))


def _additive_one_sentence(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.array(
        [[v @ np.tanh(q @ w_query + k @ w_key) for k in keys] for q in queries], dtype=float
    )


def _additive_softmax(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _plain_softmax(_additive_right(queries, keys, w_query, w_key, v))


def _additive_scaled(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query, w_key, v) / sqrt(len(v))


def _additive_mean(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query, w_key, v) / len(v)


def _additive_summed_keys(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query, w_key, v).sum(axis=-1)


def _additive_raw_states(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return np.tanh(queries[..., :, None, :] + keys[..., None, :, :]) @ v


def _additive_whole_numbers(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    return _additive_right(queries, keys, w_query, w_key, v).astype(np.int64)


_ADDITIVE_WRONG = [
    Misconception(
        name="no tanh",
        wrong=_hidden(squash=lambda x: x),
        hint="Your scores are a straight line in the states: decoder state and encoder state only "
        "add up and never act on each other. → What does the formula do to the sum before `v` "
        "weighs it?",
    ),
    Misconception(
        name="W_q and W_k swapped",
        wrong=_additive_swapped,
        hint="The two matrices are swapped: `w_query` meets the encoder states. Unless both kinds "
        "of states are equally wide, that can't even be multiplied. → Whose states does each "
        "matrix take, by its number of rows?",
    ),
    Misconception(
        name="weights transposed",
        wrong=_additive_transposed_weights,
        hint="You transpose the matrices before you multiply. That's how torch stores them, "
        "(out, in); here states are rows and `w_query` is (d_q, d_a). → Which axis of `w_query` "
        "fits the last axis of the queries as it stands?",
    ),
    Misconception(
        name="sigmoid for tanh",
        wrong=_hidden(squash=_sigmoid),
        hint="Your hidden units lie between 0 and 1: a sigmoid, where this score has a function "
        "between −1 and 1. → Which function stands in the formula?",
    ),
    Misconception(
        name="ReLU for tanh",
        wrong=_hidden(squash=lambda x: np.maximum(x, 0.0)),
        hint="Your hidden units are never negative and have no upper end: a ReLU, where this score "
        "has a function between −1 and 1. → Which function stands in the formula?",
    ),
    Misconception(
        name="tanh of the score",
        wrong=_additive_tanh_last,
        hint="All your scores lie between −1 and 1: tanh was taken of the finished score. → Does "
        "`v` come before or after tanh in the formula?",
    ),
    Misconception(
        name="tanh of each part",
        wrong=_hidden(combine=lambda a, b: np.tanh(a) + np.tanh(b), squash=lambda x: x),
        hint="You take tanh of each projection and add afterwards, so the two states never act on "
        "each other. → What is inside the brackets of tanh in the formula?",
    ),
    Misconception(
        name="tanh of the query's part alone",
        wrong=_hidden(combine=lambda a, b: np.tanh(a) + b, squash=lambda x: x),
        hint="Only the decoder's projection went through tanh; the encoder's was added afterwards. "
        "→ What is inside the brackets of tanh in the formula?",
    ),
    Misconception(
        name="tanh of the key's part alone",
        wrong=_hidden(combine=lambda a, b: a + np.tanh(b), squash=lambda x: x),
        hint="Only the encoder's projection went through tanh; the decoder's was added afterwards. "
        "→ What is inside the brackets of tanh in the formula?",
    ),
    Misconception(
        name="the parts multiplied",
        wrong=_hidden(combine=np.multiply),
        hint="You multiply the two projections, unit by unit. The score has its name from what "
        "happens to them instead. → How are they combined in an *additive* score?",
    ),
    Misconception(
        name="the parts subtracted",
        wrong=_hidden(combine=np.subtract),
        hint="You subtract the encoder's projection from the decoder's. A trained W_k could take "
        "the sign in, but this one is given. → Which sign stands between the two in the formula?",
    ),
    Misconception(
        name="tanh by its formula",
        wrong=_hidden(squash=_tanh_by_formula),
        hint="The formula of tanh by exponentials is right, but e to the power of a large number "
        "is beyond what a float can hold, and ∞/∞ is NaN. → Which function of numpy computes tanh "
        "without the exponentials?",
    ),
    Misconception(
        name="no v",
        wrong=_additive_no_v,
        hint="The hidden units are added up as if all counted the same. → Where does `v` come in, "
        "and what does it do to each unit?",
    ),
    Misconception(
        name="not summed over the hidden units",
        wrong=_additive_not_summed,
        hint="Each hidden unit was weighed with its entry of `v`, but the products weren't added "
        "up: one axis too many. → Which product of numpy multiplies and adds up at once?",
    ),
    Misconception(
        name="encoder states in the rows",
        wrong=_additive_turned,
        hint="The numbers are right, but your rows are encoder states. → Which of the two should "
        "the last axis run over, if each decoder state is to share out weights along it?",
    ),
    Misconception(
        name="state i with state i only",
        wrong=_additive_pairs,
        hint="Your first decoder state meets the first encoder state, the second the second: the "
        "two arrays were added row by row. → Which shapes must the projections have, a new axis "
        "of length 1 in each, so that every row meets every row?",
    ),
    Misconception(
        name="loops for one sentence",
        wrong=_additive_one_sentence,
        hint="Right for one sentence. In a batch a loop over the first axis runs over sentences, "
        "and each sentence's states are added as a whole. → How can every row meet every row "
        "without a loop, by axes of length 1 that are counted from the end?",
    ),
    Misconception(
        name="axes counted from the front",
        wrong=_additive_from_front,
        hint="Right for one sentence. With a batch in front, `[:, None]` puts the new axis beside "
        "the batch, so sentences meet each other's states. → Where do the new axes belong, "
        "counted from the end?",
    ),
    Misconception(
        name="exactly one batch axis expected",
        wrong=_additive_one_batch_axis,
        hint="Right for a batch, but a single sentence has no batch axis, and there might be two. "
        "→ Which index stands for any number of axes in front?",
    ),
    Misconception(
        name="the last decoder state only",
        wrong=_additive_last_query,
        hint="These are the scores of the last decoder state alone, without an axis for the "
        "others. → How many scores are there, if every decoder state is compared with every "
        "encoder state?",
    ),
    Misconception(
        name="softmax applied",
        wrong=_additive_softmax,
        hint="Your rows sum to 1: these are weights, what softmax makes of the scores. → Which "
        "step is one too many here?",
    ),
    Misconception(
        name="divided by √d_a",
        wrong=_additive_scaled,
        hint="Your scores are divided by the root of the number of hidden units. Some scores are "
        "scaled so, this one isn't. → What happens after `v` in the formula?",
    ),
    Misconception(
        name="the mean of the hidden units",
        wrong=_additive_mean,
        hint="You take the mean over the hidden units where the formula has a product with `v`: "
        "all scores are too small by the same factor. → Is a dot product a sum or a mean?",
    ),
    Misconception(
        name="summed over the encoder states",
        wrong=_additive_summed_keys,
        hint="One number is left for each decoder state: the scores of its encoder states were "
        "added up. → Which axis does the product with `v` take away, and is there another sum?",
    ),
    Misconception(
        name="the states are not projected",
        wrong=_additive_raw_states,
        hint="The states are added as they are, which works only if all widths agree. → What turns "
        "a state of width d_q, and one of width d_k, into d_a hidden units each?",
    ),
    Misconception(
        name="whole numbers",
        wrong=_additive_whole_numbers,
        hint="Every fraction was cut off: the scores were written into an array of whole numbers. "
        "→ With which dtype is the array made that your loop fills?",
    ),
    Misconception(
        name="matrices on the left",
        wrong=_additive_weights_first,
        hint="You multiply as papers do, matrix times column. Here the states are rows, and "
        "`w_query` is (d_q, d_a). → On which side of the matrix does a row belong?",
    ),
    Misconception(
        name="the projections multiplied as matrices",
        wrong=_additive_matrix_product,
        hint="You take the matrix product of the two projections: that sums over the hidden units "
        "before tanh, and leaves `v` out. → How are the two combined in an *additive* score?",
    ),
]


def _additive_einsum(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    ask = np.einsum("...iq,qa->...ia", queries, w_query)
    answer = np.einsum("...jk,ka->...ja", keys, w_key)
    hidden = np.tanh(np.expand_dims(ask, -2) + np.expand_dims(answer, -3))
    return np.einsum("...ija,a->...ij", hidden, v)


def _additive_loops(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    scores = np.zeros((*queries.shape[:-1], keys.shape[-2]))
    for place in np.ndindex(scores.shape):
        q, k = queries[place[:-1]], keys[(*place[:-2], place[-1])]
        for a in range(len(v)):
            inside = sum(q[i] * w_query[i, a] for i in range(len(q)))
            inside += sum(k[i] * w_key[i, a] for i in range(len(k)))
            scores[place] += v[a] * tanh(inside)
    return scores


def _additive_concatenated(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    """Lay each pair's states side by side and the two matrices on top of each other."""
    n_q, n_k = queries.shape[-2], keys.shape[-2]
    pairs = np.concatenate(
        [
            np.repeat(queries[..., :, None, :], n_k, axis=-2),
            np.repeat(keys[..., None, :, :], n_q, axis=-3),
        ],
        axis=-1,
    )
    return np.tanh(pairs @ np.concatenate([w_query, w_key])) @ v


def _additive_single(
    queries: NDArray, keys: NDArray, w_query: NDArray, w_key: NDArray, v: NDArray
) -> Any:
    single = [x.astype(np.float32) for x in (queries, keys, w_query, w_key, v)]
    return _additive_right(*single)


def _additive_torch(queries: Any, keys: Any, w_query: Any, w_key: Any, v: Any) -> Any:
    import torch

    hidden = torch.tanh((queries @ w_query).unsqueeze(-2) + (keys @ w_key).unsqueeze(-3))
    return hidden @ v


_ADDITIVE = Exercise(
    id="01.additive",
    function="additive_scores",
    reference=attention_scores.additive_scores,
    cases=_ADDITIVE_CASES,
    returns=("scores",),
    misconceptions=_ADDITIVE_WRONG,
    alternatives=[
        Alternative(name="einsum", right=_additive_einsum),
        Alternative(name="loops", right=_additive_loops),
        Alternative(name="states side by side", right=_additive_concatenated),
        Alternative(name="single precision", right=_additive_single),
        Alternative(name="torch", right=_additive_torch, backend="torch"),
    ],
    hints=[
        "Project first: `queries @ w_query` is (…, n_q, d_a), `keys @ w_key` is (…, n_k, d_a). "
        "Then every row of the one has to meet every row of the other.",
        "An axis of length 1 lets numpy do that: (…, n_q, 1, d_a) plus (…, 1, n_k, d_a) is "
        "(…, n_q, n_k, d_a). Write `...` for the axes in front, so that a batch fits as well.",
        "After tanh, a product with `v` by `@` takes the last axis away: (…, n_q, n_k).",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 01.products -----------------------------------------------------------------------------------


def multiplicative_scores(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> NDArray:
    """Score all decoder states against all encoder states by a product.

    Parameters
    ----------
    queries : float array, (..., n_q, d_q)
        Decoder states.
    keys : float array, (..., n_k, d_k)
        Encoder states; d_k = d_q where there is no `w`.
    w : float array, (d_q, d_k), optional
        With it q W kᵀ, without it q kᵀ.

    Returns
    -------
    float array, (..., n_q, n_k)
    """
    asked = queries if w is None else queries @ w
    return asked @ keys.swapaxes(-2, -1)


def _products(
    seed: int, lead: tuple[int, ...], n: tuple[int, int], d_q: int, d_k: int | None = None
) -> dict[str, Any]:
    """Draw states, and a matrix between them where both widths are given."""
    given = _states([seed, 20, *lead, *n, d_q], lead, *n, d_q, d_q if d_k is None else d_k)
    if d_k is not None:
        given["w"] = draw(np.random.default_rng([seed, 21, *n, d_q, d_k]), d_q, d_k)
    return given


_PRODUCT_CASES = [
    Case(
        name="one decoder state, no w",
        inputs=lambda seed: _products(seed, (), (1, 3), 2),
        shows="each score is a dot product",
    ),
    Case(
        name="3 decoder states, 5 encoder states, no w",
        inputs=lambda seed: _products(seed, (), (3, 5), 4),
        shows="one product for all steps",
    ),
    Case(
        name="3 decoder states, 5 encoder states, w from width 2 to width 4",
        inputs=lambda seed: _products(seed, (), (3, 5), 2, 4),
        shows="the two widths may differ",
    ),
    Case(
        name="4 of everything, no w",
        inputs=lambda seed: _products(seed, (), (4, 4), 4),
        shows="rows are decoder states",
    ),
    Case(
        name="4 of everything, with w",
        inputs=lambda seed: _products(seed, (), (4, 4), 4, 4),
        shows="w stands between the two, as it is",
    ),
    Case(
        name="a batch of 2, no w",
        inputs=lambda seed: _products(seed, (2,), (3, 4), 5),
        shows="each sentence by itself",
    ),
    Case(
        name="a batch of 3 with 3 states each, with w",
        inputs=lambda seed: _products(seed, (3,), (3, 3), 2, 4),
        shows="no sentence meets another one's states",
    ),
]


def _multiply(
    *,
    between: Callable[[NDArray], NDArray] = lambda w: w,
    turn: Callable[[NDArray], NDArray] = lambda k: k.swapaxes(-2, -1),
    then: Callable[[NDArray], NDArray] = lambda s: s,
    before: Callable[[NDArray], NDArray] = lambda x: x,
) -> Callable[..., Any]:
    """Return product scores with some steps replaced."""

    def score(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
        asked = before(queries)
        if w is not None:
            asked = asked @ between(w)
        return then(asked @ turn(before(keys)))

    return score


_multiply_right = _multiply()


def _unit(x: NDArray) -> NDArray:
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True))


def _product_turned(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    return _multiply_right(queries, keys, w).swapaxes(-2, -1)


def _product_no_w(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    return queries @ keys.swapaxes(-2, -1)


def _product_w_outside(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    scores = queries @ keys.swapaxes(-2, -1)
    return scores if w is None else scores @ w


def _product_w_both(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    if w is None:
        return queries @ keys.swapaxes(-2, -1)
    return (queries @ w) @ (keys @ w).swapaxes(-2, -1)


def _product_w_elementwise(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    scores = queries @ keys.swapaxes(-2, -1)
    return scores if w is None else scores * w


def _product_pairs(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    asked = queries if w is None else queries @ w
    return (asked * keys).sum(axis=-1)


def _product_truth(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    """Ask an array whether it's true, as `if w:` and `if w == None:` do."""
    if w is not None:
        bool(w)
    return queries @ keys.swapaxes(-2, -1)


def _product_always_w(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    """Multiply by whatever `w` is, be it None."""
    asked = queries @ w
    return asked @ keys.swapaxes(-2, -1)


def _product_w_left(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    asked = queries if w is None else w @ queries
    return asked @ keys.swapaxes(-2, -1)


def _product_one_batch_axis(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    asked = queries if w is None else queries @ w
    return asked @ keys.transpose(0, 2, 1)


def _product_np_dot(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    asked = queries if w is None else np.dot(queries, w)
    return np.dot(asked, keys.swapaxes(-2, -1))


def _product_last_query(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    return _multiply_right(queries, keys, w)[..., -1, :]


def _product_tanh_w(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    if w is None:
        return queries @ keys.swapaxes(-2, -1)
    return np.tanh(queries @ w) @ keys.swapaxes(-2, -1)


def _product_scaled(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    return _multiply_right(queries, keys, w) / sqrt(keys.shape[-1])


_PRODUCT_WRONG = [
    Misconception(
        name="encoder states in the rows",
        wrong=_product_turned,
        hint="The numbers are right, but your rows are encoder states: S Hᵀ in place of H Sᵀ. → "
        "Which of the two has to come first, so that each decoder state gets a row?",
    ),
    Misconception(
        name="keys not transposed",
        wrong=_multiply(turn=lambda k: k),
        hint="You multiply the two arrays as they stand. A matrix product pairs rows of the first "
        "with *columns* of the second, and states are rows in both. → Which of them has to be "
        "turned, along which two axes?",
    ),
    Misconception(
        name="keys.T turns all axes round",
        wrong=_multiply(turn=lambda k: k.T),
        hint="Right for one sentence, and made for no batch: with one in front, `.T` reverses the "
        "order of all axes, and an einsum of two letters has no room for a third. → Which two axes "
        "change places, counted from the end, whatever stands before them?",
    ),
    Misconception(
        name="w ignored",
        wrong=_product_no_w,
        hint="Your scores are the same with and without `w`, and can't be computed where the two "
        "widths differ. → Where does `w` come in?",
    ),
    Misconception(
        name="w transposed",
        wrong=_multiply(between=lambda w: w.T),
        hint="`w` is transposed on the way: by `w.T` (fine for a layer of torch, which stores "
        "(out, in)), or by `keys @ w`, which pairs it with the wrong side. Here `w` is (d_q, d_k). "
        "→ Which axis of `w` fits the last axis of the queries as it stands?",
    ),
    Misconception(
        name="w on both sides",
        wrong=_product_w_both,
        hint="Decoder and encoder states both went through `w`. → How often does W stand in "
        "q W kᵀ?",
    ),
    Misconception(
        name="w after both",
        wrong=_product_w_outside,
        hint="You multiply queries and keys first and `w` comes last. In q W kᵀ it stands between "
        "the two, and there it turns width d_q into width d_k. → Which product has to be done "
        "first?",
    ),
    Misconception(
        name="w entry by entry",
        wrong=_product_w_elementwise,
        hint="`*` multiplies entry by entry: the finished scores were multiplied by the entries of "
        "`w`. → Which operator is the matrix product, and between which two does W stand?",
    ),
    Misconception(
        name="the truth of an array",
        wrong=_product_truth,
        hint="`if w:` and `if w == None:` ask a whole array whether it's true, and numpy can't "
        "say. → How do you ask whether an argument *is* None?",
    ),
    Misconception(
        name="w expected always",
        wrong=_product_always_w,
        hint="Without `w` your function multiplies by None, or by a number in its place, and `@` "
        "can do neither. → What should be left out when `w is None`?",
    ),
    Misconception(
        name="state i with state i only",
        wrong=_product_pairs,
        hint="Your first decoder state meets the first encoder state, the second the second: the "
        "arrays were multiplied row by row. → Which product of matrices lets every row meet every "
        "row?",
    ),
    Misconception(
        name="np.dot pairs all sentences",
        wrong=_product_np_dot,
        hint="For one sentence np.dot is the matrix product. For a batch it pairs every sentence "
        "with every other, and an axis too many comes out. → Which operator multiplies the last "
        "two axes and keeps those in front in step?",
    ),
    Misconception(
        name="the last decoder state only",
        wrong=_product_last_query,
        hint="These are the scores of the last decoder state alone, S h. → Which matrix has all "
        "decoder states as its rows?",
    ),
    Misconception(
        name="divided by the root of the width",
        wrong=_product_scaled,
        hint="The Transformer divides dot products by the root of the width, as chapter 05 shows; "
        "this exercise uses the plain product. → Which step is one too many here?",
        valid_variant=True,
    ),
    Misconception(
        name="the cosine",
        wrong=_multiply(before=_unit),
        hint="Your states were scaled to length 1 first, so only the angle counts. → Does the "
        "formula divide by the lengths?",
    ),
    Misconception(
        name="softmax applied",
        wrong=_multiply(then=_plain_softmax),
        hint="Your rows sum to 1: these are weights, what softmax makes of the scores. → Which "
        "step is one too many here?",
    ),
    Misconception(
        name="a tanh around the product with w",
        wrong=_product_tanh_w,
        hint="A tanh has come along from the additive score: the bilinear one has none. → What is "
        "left of q W kᵀ if there are nothing but products?",
    ),
    Misconception(
        name="a tanh around the score",
        wrong=_multiply(then=np.tanh),
        hint="All your scores lie between −1 and 1: a tanh has come along from the additive score. "
        "→ What is left of q W kᵀ if there are nothing but products?",
    ),
    Misconception(
        name="w on the left",
        wrong=_product_w_left,
        hint="You multiply as papers do, matrix times column. Here the states are rows, and `w` is "
        "(d_q, d_k). → On which side of the matrix does a row belong?",
    ),
    Misconception(
        name="exactly one batch axis expected",
        wrong=_product_one_batch_axis,
        hint="Right for a batch, but a single sentence has no batch axis: `transpose(0, 2, 1)` "
        "wants three. → Which two axes change places, counted from the end, whatever stands before "
        "them?",
    ),
]


def _product_einsum(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    if w is None:
        return np.einsum("...ic,...jc->...ij", queries, keys)
    return np.einsum("...iq,qk,...jk->...ij", queries, w, keys)


def _product_loops(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    scores = np.zeros((*queries.shape[:-1], keys.shape[-2]))
    for place in np.ndindex(scores.shape):
        q, k = queries[place[:-1]], keys[(*place[:-2], place[-1])]
        if w is None:
            scores[place] = sum(a * b for a, b in zip(q, k, strict=True))
        else:
            for i, j in np.ndindex(w.shape):
                scores[place] += q[i] * w[i, j] * k[j]
    return scores


def _product_keys_first(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    """Project the encoder states, once for all decoder steps."""
    w = np.eye(keys.shape[-1]) if w is None else w
    return queries @ (keys @ w.T).swapaxes(-2, -1)


def _product_by_sums(queries: NDArray, keys: NDArray, w: NDArray | None = None) -> Any:
    asked = queries if w is None else queries @ w
    return (asked[..., :, None, :] * keys[..., None, :, :]).sum(axis=-1)


def _product_torch(queries: Any, keys: Any, w: Any = None) -> Any:
    import torch

    return torch.matmul(queries if w is None else queries @ w, keys.transpose(-2, -1))


_PRODUCTS = Exercise(
    id="01.products",
    function="multiplicative_scores",
    reference=multiplicative_scores,
    guarded=[attention_scores.dot_scores, attention_scores.bilinear_scores],
    cases=_PRODUCT_CASES,
    returns=("scores",),
    misconceptions=_PRODUCT_WRONG,
    alternatives=[
        Alternative(name="einsum", right=_product_einsum),
        Alternative(name="loops", right=_product_loops),
        Alternative(name="keys projected first", right=_product_keys_first),
        Alternative(name="multiplied and summed", right=_product_by_sums),
        Alternative(name="torch", right=_product_torch, backend="torch"),
    ],
    hints=[
        "Write the shapes down: (…, n_q, d_q) times (d_q, d_k) times (…, d_k, n_k) is "
        "(…, n_q, n_k). Without `w` the middle one is missing.",
        "Keys come as rows, (…, n_k, d_k), and are needed as columns. `.T` would turn the batch as "
        "well; `swapaxes(-2, -1)` turns the last two axes only.",
        "`@` keeps all axes in front in step, so a batch needs nothing more. Ask `if w is None`, "
        "since an array is neither true nor false.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 01.weights ------------------------------------------------------------------------------------


def attention_weights(scores: NDArray, src_lengths: NDArray) -> NDArray:
    """Share out each decoder step's attention among the words of its source sentence.

    Parameters
    ----------
    scores : float array, (b, n_tgt, n_src)
        Finite; beyond a sentence's end they mean nothing.
    src_lengths : integer array, (b,)
        How many words each source sentence has; what comes after them is padding.

    Returns
    -------
    float array, (b, n_tgt, n_src)
        Each row sums to 1, padding has weight 0; all 0 where a sentence has no words.
    """
    real = np.arange(scores.shape[-1]) < src_lengths[:, None, None]  # (b, 1, n_src)
    return softmax(np.where(real, scores, -np.inf))


def _scored(
    seed: int, n_tgt: int, n_src: int, lengths: list[int], spread: float = 1.5
) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 30, n_tgt, n_src, *lengths])
    return {
        "scores": draw(rng, len(lengths), n_tgt, n_src, spread=spread),
        "src_lengths": np.array(lengths),
    }


def _scored_large(seed: int) -> dict[str, Any]:
    """Draw scores that are thousands, some rows far below 0 and others far above."""
    given = _scored(seed, 2, 4, [4, 3])
    level = np.array([[3000.0, -2000.0], [-3000.0, 1000.0]])
    given["scores"] = given["scores"] + level[:, :, None]
    return given


def _scored_loud_padding(seed: int) -> dict[str, Any]:
    """Draw scores whose largest are in the padding."""
    given = _scored(seed, 2, 5, [2, 5, 1])
    padding = ~_real(given["src_lengths"], 5)[:, None, :]
    given["scores"] = given["scores"] + np.where(padding, 900.0, 0.0)
    return given


_WEIGHTS_CASES = [
    Case(
        name="one sentence, no padding",
        inputs=lambda seed: _scored(seed, 2, 3, [3]),
        shows="each decoder step's weights sum to 1",
    ),
    Case(
        name="2 sentences of 4 and 2 words, padded to 5",
        inputs=lambda seed: _scored(seed, 3, 5, [4, 2]),
        shows="padding has weight 0, the words share the whole",
    ),
    Case(
        name="4 sentences, 4 decoder steps, 4 source places",
        inputs=lambda seed: _scored(seed, 4, 4, [3, 4, 2, 1]),
        shows="lengths belong to sentences, padding to the source",
    ),
    Case(name="scores in the thousands", inputs=_scored_large, shows="no overflow, and no 0/0"),
    Case(
        name="the largest scores in the padding",
        inputs=_scored_loud_padding,
        shows="what stands there makes no difference",
    ),
    Case(
        name="a sentence without words",
        inputs=lambda seed: _scored(seed, 2, 3, [3, 0, 1]),
        shows="all its weights are 0",
    ),
]


def _mask_right(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _real(src_lengths, scores.shape[-1])[:, None, :]


def _weigh(
    *,
    mask: _Mask = _mask_right,
    fill: float = -np.inf,
    share: Callable[[NDArray], Any] = softmax,
) -> Callable[..., Any]:
    """Return attention weights with another mask, filling or softmax."""

    def weights(scores: NDArray, src_lengths: NDArray) -> Any:
        with np.errstate(all="ignore"):
            return share(np.where(mask(scores, src_lengths), scores, fill))

    return weights


def _mask_everything(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return np.ones(scores.shape, bool)


def _mask_inverted(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return ~_mask_right(scores, src_lengths)


def _mask_one_more(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _mask_right(scores, src_lengths + 1)


def _mask_one_less(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _mask_right(scores, src_lengths - 1)


def _mask_of_steps(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _real(src_lengths, scores.shape[-2])[:, :, None]


def _mask_both(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _mask_right(scores, src_lengths) & _mask_of_steps(scores, src_lengths)


def _mask_flat(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _real(src_lengths, scores.shape[-1])


def _mask_longest(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return np.arange(scores.shape[-1]) < src_lengths.max()


def _mask_first(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return np.arange(scores.shape[-1]) < src_lengths[0]


def _mask_left(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return _mask_right(scores, src_lengths)[..., ::-1]


def _mask_nonzero(scores: NDArray, src_lengths: NDArray) -> NDArray:
    return scores != 0.0


def _weights_late(scores: NDArray, src_lengths: NDArray) -> Any:
    return _plain_softmax(scores) * _mask_right(scores, src_lengths)


def _weights_again(scores: NDArray, src_lengths: NDArray) -> Any:
    late = _weights_late(scores, src_lengths)
    with np.errstate(all="ignore"):
        return late / late.sum(axis=-1, keepdims=True)


def _weights_again_safely(scores: NDArray, src_lengths: NDArray) -> Any:
    late = _weights_late(scores, src_lengths)
    total = late.sum(axis=-1, keepdims=True)
    return late / np.where(total == 0.0, 1.0, total)


def _weights_mask_added(scores: NDArray, src_lengths: NDArray) -> Any:
    return _plain_softmax(scores + _mask_right(scores, src_lengths))


def _weights_first_attempt(scores: NDArray, src_lengths: NDArray) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(scores) * _mask_right(scores, src_lengths)
        return e / e.sum(axis=-1, keepdims=True)


def _weights_exps_late(scores: NDArray, src_lengths: NDArray) -> Any:
    with np.errstate(all="ignore"):
        return _naive_softmax(scores) * _mask_right(scores, src_lengths)


def _weights_loop_in_place(scores: NDArray, src_lengths: NDArray) -> Any:
    for sentence, length in zip(scores, src_lengths, strict=True):
        sentence[:, length:] = -np.inf
    return softmax(scores)


def _weights_loop_in_place_nan(scores: NDArray, src_lengths: NDArray) -> Any:
    for sentence, length in zip(scores, src_lengths, strict=True):
        sentence[:, length:] = -np.inf
    return _plain_softmax(scores)


def _weights_loop_in_place_naive(scores: NDArray, src_lengths: NDArray) -> Any:
    for sentence, length in zip(scores, src_lengths, strict=True):
        sentence[:, length:] = -np.inf
    return _naive_softmax(scores)


def _weights_indexed(scores: NDArray, src_lengths: NDArray) -> Any:
    """Index the scores with a mask that lacks the axis of the decoder steps."""
    hidden = scores.copy()
    hidden[~_real(src_lengths, scores.shape[-1])] = -np.inf
    return softmax(hidden)


def _weights_indexed_unaligned(scores: NDArray, src_lengths: NDArray) -> Any:
    """Index the scores with a mask whose axis of decoder steps has length 1."""
    hidden = scores.copy()
    hidden[~_mask_right(scores, src_lengths)] = -np.inf
    return softmax(hidden)


def _weights_each_raises(scores: NDArray, src_lengths: NDArray) -> Any:
    """Cut each sentence off, and take the maximum of nothing where there are no words."""
    weights = np.zeros(scores.shape)
    for i, length in enumerate(src_lengths):
        words = scores[i, :, :length]
        e = np.exp(words - words.max(axis=-1, keepdims=True))
        weights[i, :, :length] = e / e.sum(axis=-1, keepdims=True)
    return weights


def _weights_bare_comparison(scores: NDArray, src_lengths: NDArray) -> Any:
    real = np.arange(scores.shape[-1]) < src_lengths
    return softmax(np.where(real, scores, -np.inf))


def _share_one_maximum(s: NDArray) -> NDArray:
    e = np.exp(s - s.max())
    return e / e.sum(axis=-1, keepdims=True)


def _share_one_maximum_swept(s: NDArray) -> NDArray:
    return np.nan_to_num(_share_one_maximum(s))


def _share_swept(s: NDArray) -> NDArray:
    return np.nan_to_num(_naive_softmax(s))


def _share_flat_sum(s: NDArray) -> NDArray:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1)


def _share_flat_maximum(s: NDArray) -> NDArray:
    e = np.exp(s - s.max(axis=-1))
    return e / e.sum(axis=-1, keepdims=True)


def _share_flat_both(s: NDArray) -> NDArray:
    e = np.exp(s - s.max(axis=-1))
    return e / e.sum(axis=-1)


def _share_flat_naive(s: NDArray) -> NDArray:
    return np.exp(s) / np.exp(s).sum(axis=-1)


def _share_all(s: NDArray) -> NDArray:
    return np.exp(s) / np.exp(s).sum()


def _share_undivided(s: NDArray) -> NDArray:
    peak = s.max(axis=-1, keepdims=True)
    return np.exp(s - np.where(peak == -np.inf, 0.0, peak))


def _share_linear(s: NDArray) -> NDArray:
    s = np.where(s == -np.inf, 0.0, s)
    return s / s.sum(axis=-1, keepdims=True)


_WEIGHTS_WRONG = [
    Misconception(
        name="softmax over the decoder steps",
        wrong=_weigh(share=lambda s: softmax(s, -2)),
        hint="Each source word shares itself out among the decoder steps: your columns sum to 1. "
        "→ Who shares out what here, and along which axis is that?",
    ),
    Misconception(
        name="softmax over the batch",
        wrong=_weigh(share=lambda s: softmax(s, 0)),
        hint="The sentences of the batch compete with each other: your weights sum to 1 along the "
        "first axis. → Which axis holds the words of one source sentence?",
    ),
    Misconception(
        name="no mask",
        wrong=_weigh(mask=_mask_everything),
        hint="Padding gets weight, as if it were words. → Where does `src_lengths` come in, and is "
        "the result of that step used?",
    ),
    Misconception(
        name="mask inverted",
        wrong=_weigh(mask=_mask_inverted),
        hint="You hide the words and look at the padding. → Where is your mask True, and does −∞ "
        "(or a large negative number) go there or elsewhere?",
    ),
    Misconception(
        name="one place too many",
        wrong=_weigh(mask=_mask_one_more),
        hint="The first place of the padding still gets weight: you let position j = length "
        "through. → Counted from 0, at which position does a sentence of 3 words have its last "
        "one?",
    ),
    Misconception(
        name="one place too few",
        wrong=_weigh(mask=_mask_one_less),
        hint="The last word of each sentence has weight 0. → Counted from 0, at which position "
        "does a sentence of 3 words have its last one?",
    ),
    Misconception(
        name="mask applied after the softmax",
        wrong=_weights_late,
        hint="Padding has weight 0, but the words no longer share the whole: padding took its part "
        "before it was hidden. → At which point must it be hidden so that the softmax never "
        "counts it?",
    ),
    Misconception(
        name="mask applied after the softmax, no maximum subtracted",
        wrong=_weights_exps_late,
        hint="Padding has weight 0, but the words no longer share the whole: padding took its part "
        "before it was hidden. Large scores are another matter, and can wait. → At which point "
        "must padding be hidden so that the softmax never counts it?",
    ),
    Misconception(
        name="divided again by the sum",
        wrong=_weights_again,
        hint="Dividing once more mends the shares as long as something is left to divide. Where "
        "the padding had taken everything, or there are no words, it's 0/0. → What if padding "
        "never took part in the softmax, its maximum included?",
    ),
    Misconception(
        name="divided again by the sum unless that is 0",
        wrong=_weights_again_safely,
        hint="Some rows are all 0 although their sentence has words: the padding's scores are so "
        "far above theirs that all their exponentials vanish. → Over which scores must the maximum "
        "be taken, or what if padding never took part in the softmax at all?",
    ),
    Misconception(
        name="exponentials masked, no maximum subtracted",
        wrong=_weights_first_attempt,
        hint="Padding is out of the sum, and that's the idea. But e to the power of a large score "
        "is beyond what a float can hold, and of a very negative one it is 0 for the whole row. "
        "→ Which number may be taken from all scores of a row without changing the weights?",
    ),
    Misconception(
        name="hidden scores set to 0 (or to −1e-9)",
        wrong=_weigh(fill=0.0),
        hint="Padding still gets weight, since e to the power of 0 is 1. A tiny number such as "
        "−1e-9 (for −1e9), or scores multiplied by the mask, do the same. → Which score has an "
        "exponential of 0?",
    ),
    Misconception(
        name="hidden scores set to −100",
        wrong=_weigh(fill=-100.0),
        hint="Your padding's score is low, but words can score lower still, and then padding gets "
        "it all. → Which number is below every score?",
    ),
    Misconception(
        name="hidden scores set to −1e9",
        wrong=_weigh(fill=-1e9),
        hint="A sentence without words shares its attention evenly among padding: −1e9 is the same "
        "everywhere, so none is further down than another. → Which number is below every score, "
        "and what must softmax make of a row of it?",
    ),
    Misconception(
        name="mask added to the scores",
        wrong=_weights_mask_added,
        hint="Adding the mask raises the words' scores by 1 and hides nothing: in arithmetic True "
        "is 1 and False is 0. → What must a score be for its exponential to vanish?",
    ),
    Misconception(
        name="NaN for a sentence without words",
        wrong=_weigh(share=_plain_softmax),
        hint="All right but the sentence without words: its maximum is −∞ and nothing is left to "
        "share out, so 0/0 gives NaN. → What does the docstring promise for it, and which two "
        "numbers, maximum and sum, have to be kept from doing harm there?",
    ),
    Misconception(
        name="padding applied to the decoder steps",
        wrong=_weigh(mask=_mask_of_steps),
        hint="You hide decoder steps beyond the source's length: whole rows are 0, and padding "
        "gets weight elsewhere. → Along which axis of the scores does the source sentence run?",
    ),
    Misconception(
        name="padding applied to both sides",
        wrong=_weigh(mask=_mask_both),
        hint="Padding is hidden, but so are decoder steps beyond the source's length, which have "
        "nothing to do with it. → Along which axis of the scores does the source sentence run?",
    ),
    Misconception(
        name="no words, no maximum",
        wrong=_weights_each_raises,
        hint="All right but the sentence without words: cut off, nothing is left of it, and "
        "nothing has no maximum. → What does the docstring promise for it, and what can be skipped "
        "there?",
    ),
    Misconception(
        name="the mask has no axis for the decoder steps",
        wrong=_weigh(mask=_mask_flat),
        hint="Your mask is (b, n_src), and numpy lines shapes up from the end: it takes the batch "
        "for the decoder steps. An error for most sizes, the wrong sentence's padding for the "
        "rest. → Which axis of length 1 does the mask need, and where?",
    ),
    Misconception(
        name="positions compared with lengths one to one",
        wrong=_weights_bare_comparison,
        hint="`np.arange(n_src) < src_lengths` compares position 0 with the first sentence's "
        "length, position 1 with the second's. An error for most sizes, nonsense for the rest. "
        "→ Which shape must the lengths have so that each meets all positions?",
    ),
    Misconception(
        name="scores indexed with a mask of (b, n_src)",
        wrong=_weights_indexed,
        hint="`scores[mask]` reads a mask of two axes as one for the *first* two axes of the "
        "scores, batch and decoder steps. An error for most sizes, whole hidden rows for the "
        "rest. → Which function of numpy chooses between two values by a condition, and "
        "broadcasts?",
    ),
    Misconception(
        name="scores indexed with a mask of (b, 1, n_src)",
        wrong=_weights_indexed_unaligned,
        hint="`scores[mask]` needs a mask of exactly the scores' shape; it doesn't broadcast an "
        "axis of length 1. → Which function of numpy chooses between two values by a condition, "
        "and broadcasts?",
    ),
    Misconception(
        name="the longest sentence's length for all",
        wrong=_weigh(mask=_mask_longest),
        hint="All sentences are cut at the same place, the end of the longest one. → Whose length "
        "does each sentence need?",
    ),
    Misconception(
        name="the first sentence's length for all",
        wrong=_weigh(mask=_mask_first),
        hint="All sentences are cut where the first one ends. → Whose length does each sentence "
        "need?",
    ),
    Misconception(
        name="padding expected on the left",
        wrong=_weigh(mask=_mask_left),
        hint="Some batches have their padding on the left; this exercise uses padding on the "
        "right, and you hide the beginning of each short sentence. → Which positions does a "
        "sentence of 3 words fill?",
        valid_variant=True,
    ),
    Misconception(
        name="words told by their scores",
        wrong=_weigh(mask=_mask_nonzero),
        hint="You take a score that isn't 0 for a word, but padding is scored too, and its scores "
        "can be anything. → What tells where a sentence ends?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_weigh(
            share=lambda s: np.where((s == -np.inf).all(-1, keepdims=True), 0.0, _naive_softmax(s))
        ),
        hint="e to the power of a large score is beyond what a float can hold, and of a very "
        "negative one it is 0 for the whole row. → Which number may be taken from all scores of a "
        "row without changing the weights?",
    ),
    Misconception(
        name="no maximum subtracted, NaN for a sentence without words",
        wrong=_weigh(share=_naive_softmax),
        hint="e to the power of a large score is beyond what a float can hold, and of a very "
        "negative one it is 0 for the whole row. The sentence without words can wait. → Which "
        "number may be taken from all scores of a row without changing the weights?",
    ),
    Misconception(
        name="one maximum for all",
        wrong=_weigh(share=_share_one_maximum),
        hint="You shift all rows by the same number, the largest of the whole array. A row that "
        "lies far below it becomes 0/0. → Whose maximum does each row need?",
    ),
    Misconception(
        name="the sum has lost its axis",
        wrong=_weigh(share=_share_flat_sum),
        hint="The rows' sums came out without the last axis, and broadcasting set them against the "
        "wrong one: an error for most sizes, wrong numbers for the rest. → Which argument of `sum` "
        "keeps the summed axis, with length 1?",
    ),
    Misconception(
        name="the maximum has lost its axis",
        wrong=_weigh(share=_share_flat_maximum),
        hint="The rows' maxima came out without the last axis, and broadcasting set them against "
        "the wrong one: an error for most sizes, wrong numbers for the rest. → Which argument of "
        "`max` keeps its axis, with length 1?",
    ),
    Misconception(
        name="maximum and sum have lost their axis",
        wrong=_weigh(share=_share_flat_both),
        hint="Maxima and sums came out without the last axis, and broadcasting set them against "
        "the wrong one: an error for most sizes, wrong numbers for the rest. → Which argument of "
        "`max` and `sum` keeps their axis, with length 1?",
    ),
    Misconception(
        name="the sum has lost its axis, no maximum subtracted",
        wrong=_weigh(share=_share_flat_naive),
        hint="The rows' sums came out without the last axis, and broadcasting set them against the "
        "wrong one: an error for most sizes, wrong numbers for the rest. Large scores are another "
        "matter, and can wait. → Which argument of `sum` keeps its axis, with length 1?",
    ),
    Misconception(
        name="divided by the sum of everything",
        wrong=_weigh(share=_share_all),
        hint="All your weights together sum to 1, where each row should by itself. → What does "
        "`sum()` add up when it isn't told an axis?",
    ),
    Misconception(
        name="not divided",
        wrong=_weigh(share=_share_undivided),
        hint="The largest weight of each row is exactly 1, and the rows sum to more than that. "
        "→ What makes exponentials into shares of a whole?",
    ),
    Misconception(
        name="no exponential",
        wrong=_weigh(share=_share_linear),
        hint="You divide the scores themselves by their sum. A score of 0 or below then gets no "
        "weight or a negative one. → Which function makes every score positive and keeps the "
        "order?",
    ),
    Misconception(
        name="the scores are overwritten",
        wrong=_weights_loop_in_place,
        hint="The weights are right, but the caller's scores now hold −∞: you wrote into the array "
        "that was passed in. → How do you get a copy to write into, or a new array at once?",
    ),
    Misconception(
        name="the scores are overwritten, NaN for a sentence without words",
        wrong=_weights_loop_in_place_nan,
        hint="Your weights are right where a sentence has words, but the caller's scores now hold "
        "−∞: you wrote into the array that was passed in. → How do you get a copy to write into, "
        "or a new array at once?",
    ),
    Misconception(
        name="the scores are overwritten, no maximum subtracted",
        wrong=_weights_loop_in_place_naive,
        hint="Your weights are right for small scores, but the caller's scores now hold −∞: you "
        "wrote into the array that was passed in. → How do you get a copy to write into, or a new "
        "array at once?",
    ),
    Misconception(
        name="the mask has no axis for the decoder steps, no maximum subtracted",
        wrong=_weigh(mask=_mask_flat, share=_naive_softmax),
        hint="Your mask is (b, n_src), and numpy lines shapes up from the end: it takes the batch "
        "for the decoder steps. An error for most sizes, the wrong sentence's padding for the "
        "rest. Large scores are another matter, and can wait. → Which axis of length 1 does the "
        "mask need, and where?",
    ),
    Misconception(
        name="padding applied to the decoder steps, NaN where all is hidden",
        wrong=_weigh(mask=_mask_of_steps, share=_plain_softmax),
        hint="You hide decoder steps beyond the source's length: whole rows are NaN, and padding "
        "gets weight elsewhere. → Along which axis of the scores does the source sentence run?",
    ),
    Misconception(
        name="one maximum for all, NaN swept away",
        wrong=_weigh(share=_share_one_maximum_swept),
        hint="You shift all rows by the same number, the largest of the whole array. In a row that "
        "lies far below it all exponentials are 0, and the NaN of 0/0 was swept away. → Whose "
        "maximum does each row need?",
    ),
    Misconception(
        name="NaN swept away after an overflow",
        wrong=_weigh(share=_share_swept),
        hint="Where scores are large, your exponentials overflow and give NaN; replacing it by 0 "
        "takes the weight from the very words that should have most. → What has to happen before "
        "the exponential so that there's no NaN to replace?",
    ),
]


def _weights_sentence_by_sentence(scores: NDArray, src_lengths: NDArray) -> Any:
    """Cut the padding off, share out, and put zeros in its place."""
    weights = np.zeros(scores.shape)
    for i, length in enumerate(src_lengths):
        if length > 0:
            weights[i, :, :length] = _plain_softmax(scores[i, :, :length])
    return weights


def _weights_loops(scores: NDArray, src_lengths: NDArray) -> Any:
    weights = np.zeros(scores.shape)
    for i, t in np.ndindex(scores.shape[:2]):
        words = [float(s) for s in scores[i, t, : src_lengths[i]]]
        parts = [exp(s - max(words)) for s in words]
        for j, part in enumerate(parts):
            weights[i, t, j] = part / sum(parts)
    return weights


def _weights_exps_right(scores: NDArray, src_lengths: NDArray) -> Any:
    """Mask the exponentials, with the maximum over the words."""
    real = _mask_right(scores, src_lengths)
    peak = scores.max(axis=-1, keepdims=True, where=real, initial=-1e300)
    parts = np.exp(np.where(real, scores - peak, -np.inf))
    total = parts.sum(axis=-1, keepdims=True)
    return np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)


def _weights_low_then_masked(scores: NDArray, src_lengths: NDArray) -> Any:
    """Fill with a number that is low enough, and mask once more for sentences without words."""
    real = _mask_right(scores, src_lengths)
    return _plain_softmax(np.where(real, scores, -1e9)) * real


def _weights_torch(scores: Any, src_lengths: Any) -> Any:
    import torch

    padding = torch.arange(scores.size(-1)) >= src_lengths[:, None, None]
    return torch.softmax(scores.masked_fill(padding, -torch.inf), dim=-1).nan_to_num(0.0)


_WEIGHTS = Exercise(
    id="01.weights",
    function="attention_weights",
    reference=attention_weights,
    guarded=[attention_scores.attend],
    cases=_WEIGHTS_CASES,
    returns=("weights",),
    misconceptions=_WEIGHTS_WRONG,
    alternatives=[
        Alternative(name="sentence by sentence", right=_weights_sentence_by_sentence),
        Alternative(name="loops", right=_weights_loops),
        Alternative(name="exponentials masked", right=_weights_exps_right),
        Alternative(name="−1e9, and masked once more", right=_weights_low_then_masked),
        Alternative(name="torch", right=_weights_torch, backend="torch"),
    ],
    hints=[
        "Two parts: a mask that is True at words, and a softmax along the source. For the mask, "
        "compare positions 0, 1, … n_src − 1 with each sentence's length.",
        "Lengths of shape (b, 1, 1) against positions of shape (n_src,) give a mask of shape "
        "(b, 1, n_src), which fits the scores. `np.where` puts −∞ where it is False, before the "
        "softmax.",
        "Subtract each row's maximum before the exponential. A sentence without words has only "
        "−∞: there subtract 0 and divide by 1, which `np.where` can choose.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 01.contexts -----------------------------------------------------------------------------------


def context_vectors(weights: NDArray, states: NDArray) -> NDArray:
    """Mix the encoder states, with each decoder step's own weights.

    Parameters
    ----------
    weights : float array, (..., n_tgt, n_src)
        Each row sums to 1.
    states : float array, (..., n_src, d)
        Encoder states.

    Returns
    -------
    float array, (..., n_tgt, d)
    """
    return weights @ states


def _mixed(seed: int, lead: tuple[int, ...], n_tgt: int, n_src: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 40, *lead, n_tgt, n_src, d])
    return {
        "weights": weights_rows(rng, *lead, n_tgt, n_src),
        "states": draw(rng, *lead, n_src, d),
    }


def _mixed_picked(seed: int) -> dict[str, Any]:
    """Put all weight on one word each: the second, the second again, the first."""
    given = _mixed(seed, (), 3, 2, 4)
    return {**given, "weights": np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])}


def _mixed_evenly(seed: int) -> dict[str, Any]:
    given = _mixed(seed, (), 2, 4, 3)
    return {**given, "weights": np.full((2, 4), 0.25)}


_CONTEXT_CASES = [
    Case(
        name="all weight on one word",
        inputs=_mixed_picked,
        shows="the context is that word's state",
    ),
    Case(
        name="equal weights",
        inputs=_mixed_evenly,
        shows="the context is the mean of the states",
    ),
    Case(
        name="3 decoder steps, 5 words, width 2",
        inputs=lambda seed: _mixed(seed, (), 3, 5, 2),
        shows="one context for each step",
    ),
    Case(
        name="4 of everything",
        inputs=lambda seed: _mixed(seed, (), 4, 4, 4),
        shows="weights run along rows",
    ),
    Case(
        name="a batch of 2",
        inputs=lambda seed: _mixed(seed, (2,), 3, 4, 5),
        shows="each sentence has its own states",
    ),
    Case(
        name="a batch of 3 with 3 steps, 3 words and width 3",
        inputs=lambda seed: _mixed(seed, (3,), 3, 3, 3),
        shows="axes in front are carried along",
    ),
]


def _context_columns(weights: NDArray, states: NDArray) -> Any:
    return weights.swapaxes(-2, -1) @ states


def _context_turned(weights: NDArray, states: NDArray) -> Any:
    return (weights @ states).swapaxes(-2, -1)


def _context_states_turned(weights: NDArray, states: NDArray) -> Any:
    return weights @ states.swapaxes(-2, -1)


def _context_states_first(weights: NDArray, states: NDArray) -> Any:
    return states @ weights


def _context_hard(weights: NDArray, states: NDArray) -> Any:
    return np.take_along_axis(states, weights.argmax(axis=-1)[..., None], axis=-2)


def _context_mean(weights: NDArray, states: NDArray) -> Any:
    even = np.full_like(weights, 1.0 / weights.shape[-1])
    return even @ states


def _context_sum(weights: NDArray, states: NDArray) -> Any:
    return np.ones_like(weights) @ states


def _context_last_state(weights: NDArray, states: NDArray) -> Any:
    return np.zeros((*weights.shape[:-1], 1)) + states[..., -1:, :]


def _context_not_summed(weights: NDArray, states: NDArray) -> Any:
    return weights[..., :, :, None] * states[..., None, :, :]


def _context_pieces(weights: NDArray, states: NDArray) -> Any:
    return weights * states


def _context_divided(weights: NDArray, states: NDArray) -> Any:
    return _context_not_summed(weights, states).mean(axis=-2)


def _context_steps_summed(weights: NDArray, states: NDArray) -> Any:
    return (weights @ states).sum(axis=-2)


def _context_summed_over_width(weights: NDArray, states: NDArray) -> Any:
    return _context_not_summed(weights, states).sum(axis=-1)


def _context_maximum(weights: NDArray, states: NDArray) -> Any:
    return _context_not_summed(weights, states).max(axis=-2)


def _context_softmax(weights: NDArray, states: NDArray) -> Any:
    return _plain_softmax(weights) @ states


def _context_dot_t(weights: NDArray, states: NDArray) -> Any:
    return weights.T @ states


def _context_loop(weights: NDArray, states: NDArray) -> Any:
    return np.array([w @ states for w in weights])


def _context_last_word(weights: NDArray, states: NDArray) -> Any:
    return weights[..., :, -1:] * states[..., -1:, :]


def _context_letters(weights: NDArray, states: NDArray) -> Any:
    return np.einsum("ij,jd->id", weights, states)


def _context_front_sum(weights: NDArray, states: NDArray) -> Any:
    return _context_not_summed(weights, states).sum(axis=1)


def _context_front_axes(weights: NDArray, states: NDArray) -> Any:
    return (weights[:, :, None] * states).sum(axis=1)


def _context_np_dot(weights: NDArray, states: NDArray) -> Any:
    return np.dot(weights, states)


def _context_one_sentence(weights: NDArray, states: NDArray) -> Any:
    return (weights[..., None] * states).sum(axis=-2)


def _context_last_step(weights: NDArray, states: NDArray) -> Any:
    return (weights @ states)[..., -1, :]


def _context_fixed_batch(weights: NDArray, states: NDArray) -> Any:
    return np.einsum("bij,bjd->bid", weights, states)


_CONTEXT_WRONG = [
    Misconception(
        name="weights transposed",
        wrong=_context_columns,
        hint="You mix along the columns of the weights: for most sizes that can't be multiplied, "
        "and for a square array the wrong axis is summed. → Which axis do weights and states "
        "share?",
    ),
    Misconception(
        name="contexts transposed",
        wrong=_context_turned,
        hint="The numbers are right, but your contexts stand in columns. → Which axis of the "
        "result should run over the decoder steps?",
    ),
    Misconception(
        name="states transposed",
        wrong=_context_states_turned,
        hint="You transpose the states, so each decoder step weighs the entries of a state instead "
        "of the words. It works at all only where a state is as wide as the sentence is long. "
        "→ Which axis do weights and states share as they stand?",
    ),
    Misconception(
        name="states times weights",
        wrong=_context_states_first,
        hint="The product runs the wrong way round: states @ weights pairs the width of a state "
        "with the decoder steps. → Which of the two has to come first, so that the source axis is "
        "in the middle?",
    ),
    Misconception(
        name="the word with the largest weight",
        wrong=_context_hard,
        hint="Each context is the state of one word, the one with the largest weight: hard "
        "attention. Here all words have a say. → What is a mean in which each word counts with its "
        "own weight?",
    ),
    Misconception(
        name="the plain mean",
        wrong=_context_mean,
        hint="All your contexts are the same, the plain mean of the states. → Where do the weights "
        "come in?",
    ),
    Misconception(
        name="the plain sum",
        wrong=_context_sum,
        hint="All your contexts are the same, the sum of the states. → Where do the weights come "
        "in?",
    ),
    Misconception(
        name="the last state",
        wrong=_context_last_state,
        hint="Every step gets the encoder's last state: that's the model without attention, with "
        "its bottleneck. → Which states should a step see, and how much of each?",
    ),
    Misconception(
        name="not summed over the words",
        wrong=_context_not_summed,
        hint="Each state was multiplied by its weight, but they weren't added up: one axis too "
        "many. → Over which axis does the sum in the formula run?",
    ),
    Misconception(
        name="entry by entry",
        wrong=_context_pieces,
        hint="`*` multiplies entry by entry, weight (t, j) with entry (t, j) of the states, and "
        "adds nothing up. → Which operator multiplies and sums over the words?",
    ),
    Misconception(
        name="divided by the number of words",
        wrong=_context_divided,
        hint="Your contexts are too small by a factor that is the number of words: you took the "
        "mean of what is weighed already. → Weights sum to 1: what is left to divide?",
    ),
    Misconception(
        name="summed over the decoder steps",
        wrong=_context_steps_summed,
        hint="One vector is left for the whole sentence: the contexts of all steps were added up. "
        "→ Which axis may the sum take away, and which must stay?",
    ),
    Misconception(
        name="summed over the width",
        wrong=_context_summed_over_width,
        hint="You summed over the entries of each state, so one number is left for each word. "
        "→ Over which axis does the sum in the formula run?",
    ),
    Misconception(
        name="the maximum over the words",
        wrong=_context_maximum,
        hint="You take the largest of the weighed states, entry by entry. → What does the formula "
        "do with them over all words?",
    ),
    Misconception(
        name="softmax applied again",
        wrong=_context_softmax,
        hint="The weights went through a softmax once more and became almost even. They sum to 1 "
        "already. → Which step is one too many here?",
    ),
    Misconception(
        name="np.dot pairs all sentences",
        wrong=_context_np_dot,
        hint="For one sentence np.dot is the matrix product. For a batch it pairs every sentence "
        "with every other, and an axis too many comes out. → Which operator multiplies the last "
        "two axes and keeps those in front in step?",
    ),
    Misconception(
        name="right for one sentence only",
        wrong=_context_one_sentence,
        hint="`weights[…, None] * states` is right for one sentence. In a batch the states lack "
        "the axis of the decoder steps, and numpy lines the batch up with it. → Which new axis do "
        "the states need, counted from the end?",
    ),
    Misconception(
        name="the last decoder step only",
        wrong=_context_last_step,
        hint="This is the context of the last decoder step alone. → How many contexts are there, "
        "if each step has its own?",
    ),
    Misconception(
        name="exactly one batch axis expected",
        wrong=_context_fixed_batch,
        hint="Right for a batch, but a single sentence has no batch axis. → How do you write it so "
        "that any number of axes may stand in front?",
    ),
    Misconception(
        name="weights.T",
        wrong=_context_dot_t,
        hint="You mix along the columns of the weights: for most sizes that can't be multiplied, "
        "and for a square array the wrong axis is summed. → Which axis do weights and states "
        "share, as they stand?",
    ),
    Misconception(
        name="a loop over the first axis",
        wrong=_context_loop,
        hint="Right for one sentence, where the first axis holds the decoder steps. In a batch it "
        "holds the sentences, and each one's weights are laid on all sentences' states. → Which "
        "product needs no loop, and keeps the axes in front in step?",
    ),
    Misconception(
        name="the last word only",
        wrong=_context_last_word,
        hint="Only the last word has a say: each product replaces the one before it. → How do you "
        "add up in a loop, or without one?",
    ),
    Misconception(
        name="two letters for two axes",
        wrong=_context_letters,
        hint="Right for one sentence. In a batch there is one axis more than you have named. → How "
        "do you write it so that any number of axes may stand in front?",
    ),
    Misconception(
        name="the sum's axis counted from the front",
        wrong=_context_front_sum,
        hint="Right for one sentence. In a batch, axis 1 of the products is the decoder steps', "
        "and you sum over these. → Which number names the words' axis, counted from the end?",
    ),
    Misconception(
        name="axes counted from the front",
        wrong=_context_front_axes,
        hint="Right for one sentence. In a batch, an axis that is counted from the front is "
        "another one. → Where do the new axis and the sum belong, counted from the end?",
    ),
]


def _context_einsum(weights: NDArray, states: NDArray) -> Any:
    return np.einsum("...ij,...jd->...id", weights, states)


def _context_loops(weights: NDArray, states: NDArray) -> Any:
    contexts = np.zeros((*weights.shape[:-1], states.shape[-1]))
    for place in np.ndindex(weights.shape):
        contexts[place[:-1]] += weights[place] * states[(*place[:-2], place[-1])]
    return contexts


def _context_sums(weights: NDArray, states: NDArray) -> Any:
    return (weights[..., None] * states[..., None, :, :]).sum(axis=-2)


def _context_word_by_word(weights: NDArray, states: NDArray) -> Any:
    return sum(weights[..., :, j, None] * states[..., None, j, :] for j in range(weights.shape[-1]))


def _context_torch(weights: Any, states: Any) -> Any:
    import torch

    return torch.matmul(weights, states)


_CONTEXTS = Exercise(
    id="01.contexts",
    function="context_vectors",
    reference=context_vectors,
    guarded=[attention_scores.attend],
    cases=_CONTEXT_CASES,
    returns=("contexts",),
    misconceptions=_CONTEXT_WRONG,
    alternatives=[
        Alternative(name="einsum", right=_context_einsum),
        Alternative(name="loops", right=_context_loops),
        Alternative(name="multiplied and summed", right=_context_sums),
        Alternative(name="word by word", right=_context_word_by_word),
        Alternative(name="torch", right=_context_torch, backend="torch"),
    ],
    hints=[
        "For one step: multiply each encoder state by its weight and add them up. The result is as "
        "wide as a state.",
        "For all steps at once it's a product of matrices: (…, n_tgt, n_src) times (…, n_src, d).",
        "`@` does exactly that, and carries along whatever axes stand in front.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 01.gru_step -----------------------------------------------------------------------------------


def _biases(rng: np.random.Generator, n: int) -> NDArray:
    """Draw biases, none of which is 0."""
    b = draw(rng, n, spread=0.8)
    return np.where(b == 0.0, 0.3, b)


def _gru_inputs(
    seed: int, lead: tuple[int, ...], d_in: int, d_h: int, spread: float = 1.0
) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 50, *lead, d_in, d_h])
    return {
        "x": draw(rng, *lead, d_in, spread=spread),
        "h": draw(rng, *lead, d_h, spread=0.5),
        "w_x": draw(rng, 3 * d_h, d_in, spread=0.8),
        "w_h": draw(rng, 3 * d_h, d_h, spread=0.8),
        "b_x": _biases(rng, 3 * d_h),
        "b_h": _biases(rng, 3 * d_h),
    }


def _gru_gate(seed: int, *, part: int, level: float, d_in: int, d_h: int) -> dict[str, Any]:
    """Draw inputs with one of the gates, 0 reset and 1 update, held open or shut by its bias."""
    given = _gru_inputs(seed, (), d_in, d_h)
    given["b_x"][part * d_h : (part + 1) * d_h] = level
    return given


_GRU_CASES = [
    Case(
        name="one input, one unit",
        inputs=lambda seed: _gru_inputs(seed, (), 1, 1),
        shows="three lines of arithmetic",
    ),
    Case(
        name="update gate at 1",
        inputs=lambda seed: _gru_gate(seed, part=1, level=60.0, d_in=3, d_h=2),
        shows="the state stays as it was",
    ),
    Case(
        name="reset gate at 0",
        inputs=lambda seed: _gru_gate(seed, part=0, level=-60.0, d_in=2, d_h=4),
        shows="the candidate knows nothing of the old state",
    ),
    Case(
        name="2 inputs, 3 units",
        inputs=lambda seed: _gru_inputs(seed, (), 2, 3),
        shows="three blocks of rows: r, z, n",
    ),
    Case(
        name="a batch of 3 with 5 inputs and one unit",
        inputs=lambda seed: _gru_inputs(seed, (3,), 5, 1),
        shows="each row by itself",
    ),
    Case(
        name="a batch of 3 with 3 inputs and 3 units",
        inputs=lambda seed: _gru_inputs(seed, (3,), 3, 3),
        shows="each matrix has its own vector",
    ),
    Case(
        name="inputs in the thousands",
        inputs=lambda seed: _gru_inputs(seed, (2,), 2, 5, spread=3000.0),
        shows="gates at 0 or 1, no overflow",
    ),
]


def _gru(
    *,
    order: tuple[int, int, int] = (0, 1, 2),
    candidate: Callable[..., NDArray] = lambda n_x, n_h, r, h, w, b: np.tanh(n_x + r * n_h),
    mix: Callable[[NDArray, NDArray, NDArray], NDArray] = lambda n, h, z: (1 - z) * n + z * h,
    gate: Callable[[NDArray], NDArray] = _sigmoid,
    use_b_x: bool = True,
    use_b_h: bool = True,
    axis: int = -1,
    turn: Callable[[NDArray], NDArray] = lambda w: w.T,
) -> Callable[..., Any]:
    """Return a GRU step with some parts replaced; `order` says where r, z and n stand."""

    def step(x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray) -> Any:
        d_h = h.shape[-1]
        with np.errstate(all="ignore"):
            from_x = np.split(x @ turn(w_x) + (b_x if use_b_x else 0.0), 3, axis=axis)
            from_h = np.split(h @ turn(w_h) + (b_h if use_b_h else 0.0), 3, axis=axis)
            r_x, z_x, n_x = (from_x[i] for i in order)
            r_h, z_h, n_h = (from_h[i] for i in order)
            r, z = gate(r_x + r_h), gate(z_x + z_h)
            n = candidate(n_x, n_h, r, h, w_h[2 * d_h :], b_h[2 * d_h :])
            return mix(n, h, z)

    return step


_gru_right = _gru()


def _candidate_early(n_x: NDArray, n_h: NDArray, r: NDArray, h: NDArray, w: Any, b: Any) -> NDArray:
    """Reset the state before it meets its matrix."""
    return np.tanh(n_x + (r * h) @ w.T + b)


def _mix_inverted(n: NDArray, h: NDArray, z: NDArray) -> NDArray:
    return (1 - z) * h + z * n


def _naive_sigmoid(x: NDArray) -> NDArray:
    return np.exp(x) / (1.0 + np.exp(x))


def _gru_swapped(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    return _gru_right(x, h, w_h, w_x, b_x, b_h)


def _gru_interleaved(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    """Take three rows in a run for one unit's r, z and n."""
    order = np.arange(3 * h.shape[-1]).reshape(-1, 3).T.ravel()
    return _gru_right(x, h, w_x[order], w_h[order], b_x[order], b_h[order])


def _gru_in_place(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    h[...] = _gru_right(x, h, w_x, w_h, b_x, b_h)
    return h


def _gru_weight_first(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    r_x, z_x, n_x = np.split(w_x @ x + b_x, 3)
    r_h, z_h, n_h = np.split(w_h @ h + b_h, 3)
    r, z = _sigmoid(r_x + r_h), _sigmoid(z_x + z_h)
    return (1 - z) * np.tanh(n_x + r * n_h) + z * h


def _gru_both_biases_inside(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    d_h = h.shape[-1]
    b = b_x[2 * d_h :]
    return _gru(
        candidate=lambda n_x, n_h, r, h, w, _: np.tanh(n_x - b + r * (n_h + b)),
    )(x, h, w_x, w_h, b_x, b_h)


_GRU_WRONG = [
    Misconception(
        name="update gate inverted",
        wrong=_gru(mix=_mix_inverted),
        hint="In Bahdanau et al. (2014) and Chung et al. (2014) it's mixed that way round; this "
        "exercise uses torch's formula, in which z says how much of the old state is *kept*. → "
        "What should come out when z is 1?",
        valid_variant=True,
    ),
    Misconception(
        name="the reset before the matrix",
        wrong=_gru(candidate=_candidate_early),
        hint="In Cho et al. (2014) the state is reset before it meets its matrix; this exercise "
        "uses torch's formula, in which r comes after it. → On which bracket does r act in that "
        "formula, and what is inside, bias included?",
        valid_variant=True,
    ),
    Misconception(
        name="the reset before the matrix, update gate inverted",
        wrong=_gru(candidate=_candidate_early, mix=_mix_inverted),
        hint="That's the GRU of Chung et al. (2014); this exercise uses torch's formula, which "
        "differs in two places: z says how much is *kept*, and r acts after the matrix. → What "
        "should come out when z is 1, and on which bracket does r act?",
        valid_variant=True,
    ),
    Misconception(
        name="the bias not reset",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: np.tanh(n_x + r * (n_h - b) + b)),
        hint="The reset gate takes the product W h away, but the bias beside it stays. → In the "
        "formula, is b_hn inside or outside of the bracket that r multiplies?",
    ),
    Misconception(
        name="both biases reset",
        wrong=_gru_both_biases_inside,
        hint="The reset gate acts on both biases of the candidate: they were added up before it "
        "came. → Which of the two stands beside W_xn x, outside of r's bracket?",
    ),
    Misconception(
        name="no reset gate",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: np.tanh(n_x + n_h)),
        hint="Your reset gate makes no difference: with r at 0 the candidate still sees the old "
        "state. → If all of the input and the state are added up at once, where can r still come "
        "in?",
    ),
    Misconception(
        name="everything reset",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: np.tanh(r * (n_x + n_h))),
        hint="The reset gate takes the input away as well: with r at 0 your candidate is 0. → On "
        "which of the two sums does r act?",
    ),
    Misconception(
        name="the candidate reset",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: r * np.tanh(n_x + n_h)),
        hint="The reset gate acts on the finished candidate: with r at 0 it's 0, whatever the "
        "input says. → On what does r act before the tanh?",
    ),
    Misconception(
        name="the old state reset, no matrix",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: np.tanh(n_x + r * h)),
        hint="The old state enters the candidate as it is: it hasn't met the last third of `w_h`. "
        "→ What does r multiply in the formula?",
    ),
    Misconception(
        name="z stands before r",
        wrong=_gru(order=(1, 0, 2)),
        hint="Some libraries (Keras) stack the gates in the order z, r, n; this exercise uses "
        "torch's r, z, n. → Which rows belong to the reset gate?",
        valid_variant=True,
    ),
    Misconception(
        name="n stands first",
        wrong=_gru(order=(1, 2, 0)),
        hint="You read the blocks as n, r, z. → In which order does the docstring stack them?",
    ),
    Misconception(
        name="r and n change places",
        wrong=_gru(order=(2, 1, 0)),
        hint="You read the blocks as n, z, r. → In which order does the docstring stack them?",
    ),
    Misconception(
        name="n stands second",
        wrong=_gru(order=(0, 2, 1)),
        hint="You read the blocks as r, n, z. → In which order does the docstring stack them?",
    ),
    Misconception(
        name="no b_h",
        wrong=_gru(use_b_h=False),
        hint="`b_h` makes no difference to your result. It can't be merged into the other bias, "
        "since r acts on a part of it. → Beside which product does it stand?",
    ),
    Misconception(
        name="no b_x",
        wrong=_gru(use_b_x=False),
        hint="`b_x` makes no difference to your result, whatever it holds. → Beside which product "
        "does it stand?",
    ),
    Misconception(
        name="no biases",
        wrong=_gru(use_b_x=False, use_b_h=False),
        hint="Neither of the two biases makes a difference to your result. → Beside which product "
        "does each of them stand?",
    ),
    Misconception(
        name="a sigmoid for the candidate",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: _sigmoid(n_x + r * n_h)),
        hint="Your candidate lies between 0 and 1, as a gate does: the state could never become "
        "negative. → Which function does the candidate go through?",
    ),
    Misconception(
        name="no tanh",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: n_x + r * n_h),
        hint="Your candidate can be of any size, and so can the new state. → Which function holds "
        "it between −1 and 1?",
    ),
    Misconception(
        name="tanh for the gates",
        wrong=_gru(gate=np.tanh),
        hint="Your gates lie between −1 and 1; a gate is a share, between 0 and 1. → Which "
        "function makes shares of any number?",
    ),
    Misconception(
        name="the gates not squashed",
        wrong=_gru(gate=lambda x: x),
        hint="Your gates can be of any size; a gate is a share, between 0 and 1. → Which function "
        "makes shares of any number?",
    ),
    Misconception(
        name="a sigmoid with the wrong sign",
        wrong=_gru(gate=lambda x: _sigmoid(-x)),
        hint="Both of your gates open where they should shut: they are 1 minus the right ones. "
        "→ What is the sign of x in 1 / (1 + exp(…))?",
    ),
    Misconception(
        name="a sigmoid that overflows",
        wrong=_gru(gate=_naive_sigmoid),
        hint="exp(x) / (1 + exp(x)) is ∞/∞ for a large x, and that is NaN. → Which way of writing "
        "the sigmoid has nothing in its numerator that can overflow?",
    ),
    Misconception(
        name="the candidate alone",
        wrong=_gru(mix=lambda n, h, z: n),
        hint="You return the candidate: the update gate makes no difference. → How much of the old "
        "state should be kept?",
    ),
    Misconception(
        name="the old state not kept",
        wrong=_gru(mix=lambda n, h, z: (1 - z) * n),
        hint="Your new state holds the candidate's share, and nothing of the old state. → What "
        "happens to the other share, z?",
    ),
    Misconception(
        name="the candidate whole",
        wrong=_gru(mix=lambda n, h, z: n + z * h),
        hint="The old state's share is right, but the candidate comes on top of it as a whole. "
        "→ What do the two shares of a mean add up to?",
    ),
    Misconception(
        name="the same share for both",
        wrong=_gru(mix=lambda n, h, z: z * n + z * h),
        hint="Candidate and old state are both multiplied by z. → What do the two shares of a mean "
        "add up to?",
    ),
    Misconception(
        name="weights as they are",
        wrong=_gru(turn=lambda w: w),
        hint="`x @ w_x` pairs the entries of x with the rows of `w_x`, but its rows are the units: "
        "torch stores (out, in). → What has to be done to `w_x` so that a row vector can be "
        "multiplied by it?",
    ),
    Misconception(
        name="weights first: right for one vector only",
        wrong=_gru_weight_first,
        hint="Right for one vector. In a batch the vectors are rows: `w_x @ x` would need columns, "
        "and `len(h)` or a slice `[:d_h]` counts the rows. → Which product takes a row vector, and "
        "along which axis do the blocks lie, counted from the end?",
    ),
    Misconception(
        name="split along the first axis",
        wrong=_gru(axis=0),
        hint="Right for one vector. In a batch you cut between the rows (`np.split` does so unless "
        "it's told an axis, and `[:d_h]` too), not between the gates. → Along which axis do the "
        "three blocks lie, counted from the end?",
    ),
    Misconception(
        name="w_x and w_h swapped",
        wrong=_gru_swapped,
        hint="The two matrices are swapped: `w_h` meets the input. Unless input and state are "
        "equally wide, that can't even be multiplied. → Which vector does each matrix take, by its "
        "number of columns?",
    ),
    Misconception(
        name="the state is overwritten",
        wrong=_gru_in_place,
        hint="The numbers are right, but the caller's old state is gone: you wrote the new one "
        "into `h`. → Which line (perhaps with `*=`, `+=` or `[…] =`) changes `h` itself?",
    ),
    Misconception(
        name="tanh by its formula",
        wrong=_gru(candidate=lambda n_x, n_h, r, h, w, b: _tanh_by_formula(n_x + r * n_h)),
        hint="tanh by exponentials is right on paper, but e to the power of a large number is "
        "beyond what a float can hold, and ∞/∞ is NaN. So it is with exp(x) / (1 + exp(x)), if "
        "your gates are written like that. → Which function of numpy computes tanh without the "
        "exponentials?",
    ),
    Misconception(
        name="the gates interleaved",
        wrong=_gru_interleaved,
        hint="You take three numbers in a run for r, z and n of one unit. The blocks are whole: "
        "first r of all units, then z of all, then n. → After a reshape, which axis should have "
        "length 3, and which length d_h?",
    ),
]


def _gru_three_matrices(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    """Compute each gate from its own slices."""
    d = h.shape[-1]
    r_rows, z_rows, n_rows = slice(d), slice(d, 2 * d), slice(2 * d, None)

    def both(rows: slice) -> NDArray:
        return x @ w_x[rows].T + b_x[rows] + h @ w_h[rows].T + b_h[rows]

    with np.errstate(over="ignore"):
        r = 1.0 / (1.0 + np.exp(-both(r_rows)))
        z = 1.0 / (1.0 + np.exp(-both(z_rows)))
    n = np.tanh(x @ w_x[n_rows].T + b_x[n_rows] + r * (h @ w_h[n_rows].T + b_h[n_rows]))
    return n + z * (h - n)


def _gru_loops(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    d = h.shape[-1]
    new = np.empty(h.shape)

    def row(w: NDArray, b: NDArray, i: int, vector: NDArray) -> float:
        return float(b[i]) + sum(float(a * c) for a, c in zip(w[i], vector, strict=True))

    for place in np.ndindex(h.shape):
        i = place[-1]
        own_x, own_h = x[place[:-1]], h[place[:-1]]
        r = 0.5 + 0.5 * tanh((row(w_x, b_x, i, own_x) + row(w_h, b_h, i, own_h)) / 2)
        z = 0.5 + 0.5 * tanh((row(w_x, b_x, d + i, own_x) + row(w_h, b_h, d + i, own_h)) / 2)
        n = tanh(row(w_x, b_x, 2 * d + i, own_x) + r * row(w_h, b_h, 2 * d + i, own_h))
        new[place] = (1 - z) * n + z * own_h[i]
    return new


def _gru_stacked(
    x: NDArray, h: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> Any:
    """Bring the three blocks onto an axis of their own, with einsum."""
    d = h.shape[-1]
    from_x = np.einsum("goi,...i->...go", w_x.reshape(3, d, -1), x) + b_x.reshape(3, d)
    from_h = np.einsum("goi,...i->...go", w_h.reshape(3, d, d), h) + b_h.reshape(3, d)
    shares = _sigmoid(from_x[..., :2, :] + from_h[..., :2, :])
    r, z = shares[..., 0, :], shares[..., 1, :]
    return (1 - z) * np.tanh(from_x[..., 2, :] + r * from_h[..., 2, :]) + z * h


def _gru_torch(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> Any:
    """Let torch's own cell do it, on a batch: the formula here is torch's."""
    import torch

    flat_x, flat_h = x.reshape(-1, x.size(-1)), h.reshape(-1, h.size(-1))
    return torch.gru_cell(flat_x, flat_h, w_x, w_h, b_x, b_h).reshape(h.shape)


def _gru_torch_written_out(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> Any:
    import torch

    r_x, z_x, n_x = torch.nn.functional.linear(x, w_x, b_x).chunk(3, dim=-1)
    r_h, z_h, n_h = torch.nn.functional.linear(h, w_h, b_h).chunk(3, dim=-1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return torch.lerp(torch.tanh(n_x + r * n_h), h, z)


_GRU_STEP = Exercise(
    id="01.gru_step",
    function="gru_step",
    reference=recurrent.gru_step,
    guarded=[recurrent.gru],
    cases=_GRU_CASES,
    returns=("state",),
    misconceptions=_GRU_WRONG,
    alternatives=[
        Alternative(name="each gate from its slices", right=_gru_three_matrices),
        Alternative(name="loops", right=_gru_loops),
        Alternative(name="blocks on an axis of their own", right=_gru_stacked),
        Alternative(name="torch's own cell", right=_gru_torch, backend="torch"),
        Alternative(name="torch, written out", right=_gru_torch_written_out, backend="torch"),
    ],
    hints=[
        "Two products give everything: `x @ w_x.T + b_x` and `h @ w_h.T + b_h`, each 3·d_h wide. "
        "Keep them apart, since r acts on a part of the second alone.",
        "Cut both into three along the last axis: `np.split(…, 3, axis=-1)`. The first parts "
        "together, through a sigmoid, make r; the second parts z.",
        "The third parts make the candidate: tanh(part of x + r · part of h). The new state is a "
        "mean of candidate and old state, in which the old one has the share z.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 01.alignment_error ----------------------------------------------------------------------------


def alignment_error(
    weights: NDArray, sure: NDArray, possible: NDArray, tgt_lengths: NDArray
) -> float:
    """Compare a batch's attention weights with alignments made by hand.

    Each target word is linked to the source word with its largest weight. The alignment error rate
    is 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), with links counted over the whole batch.

    Parameters
    ----------
    weights : float array, (b, n_tgt, n_src)
        Padding of the source has weight 0; no two weights of a row share the maximum.
    sure, possible : boolean arrays, (b, n_tgt, n_src)
        True at links that must be there, and at those that may be; a sure link is possible too.
        False at padding.
    tgt_lengths : integer array, (b,)
        How many words each target sentence has; rows after them are padding.

    Returns
    -------
    float
        Between 0 (every link is possible and every sure one is there) and 1.
    """
    real = np.arange(weights.shape[1]) < tgt_lengths[:, None]  # (b, n_tgt)
    links = np.arange(weights.shape[2]) == weights.argmax(axis=-1)[..., None]
    links = links & real[..., None]
    hits = np.sum(links & sure) + np.sum(links & possible)
    return float(1.0 - hits / (links.sum() + sure.sum()))


_SAW_A_CAT = np.array(
    [[0.90, 0.06, 0.04], [0.08, 0.85, 0.07], [0.02, 0.55, 0.43], [0.03, 0.07, 0.90]]
)
_SURE = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]], bool)
_POSSIBLE = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]], bool)


def _aligned(
    seed: int, tgt_lengths: list[int], src_lengths: list[int], *, hit: float = 0.6
) -> dict[str, Any]:
    """Draw weights without ties, and links that agree with them for a share of the words."""
    rng = np.random.default_rng([seed, 60, *tgt_lengths, *src_lengths])
    b, n_tgt, n_src = len(tgt_lengths), max(tgt_lengths), max(src_lengths)
    weights = np.zeros((b, n_tgt, n_src))
    sure, possible = np.zeros((2, b, n_tgt, n_src), bool)
    for i, t in np.ndindex(b, n_tgt):
        own = src_lengths[i]
        row = weights_rows(rng, own)
        while np.sum(row == row.max()) > 1:
            row = weights_rows(rng, own)
        weights[i, t, :own] = row
        if t >= tgt_lengths[i]:
            continue
        best = int(row.argmax())
        other = int((best + rng.integers(1, own)) % own)
        kind = rng.random()
        if kind < hit:
            sure[i, t, best] = True
        elif kind < hit + 0.2:
            sure[i, t, other] = True
        possible[i, t] = sure[i, t] | (rng.random(n_src) < 0.3)
        possible[i, t, own:] = False
    return {
        "weights": weights,
        "sure": sure,
        "possible": possible,
        "tgt_lengths": np.array(tgt_lengths),
    }


def _aligned_perfectly(seed: int) -> dict[str, Any]:
    """Let every link be sure, and every sure link be there."""
    given = _aligned(seed, [3, 4], [5, 5])
    best = given["weights"].argmax(axis=-1)
    links = (np.arange(5) == best[..., None]) & _real(given["tgt_lengths"], 4)[..., None]
    return {**given, "sure": links, "possible": links}


_ALIGNMENT_CASES = [
    Case(
        name="I saw a cat",
        inputs={
            "weights": _SAW_A_CAT[None],
            "sure": _SURE[None],
            "possible": _POSSIBLE[None],
            "tgt_lengths": np.array([4]),
        },
        shows="one link of four is wrong",
    ),
    Case(
        name="every link sure, every sure link there",
        inputs=_aligned_perfectly,
        shows="the error is 0",
    ),
    Case(
        name="one sentence of 7 words, from 5",
        inputs=lambda seed: _aligned(seed, [7], [5]),
        shows="sure links count twice, possible ones once",
    ),
    Case(
        name="3 sentences, padded",
        inputs=lambda seed: _aligned(seed, [6, 3, 4], [5, 7, 4]),
        shows="padding has no links",
    ),
    Case(
        name="a long sentence and a short one",
        inputs=lambda seed: _aligned(seed, [9, 2], [6, 8]),
        shows="links are counted over the batch",
    ),
    Case(
        name="6 sentences of 6 words, from 6",
        inputs=lambda seed: _aligned(seed, [6, 5, 4, 6, 2, 3], [6, 4, 6, 5, 3, 6]),
        shows="each target word has one link",
    ),
]


def _links_right(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    best = weights == weights.max(axis=-1, keepdims=True)
    return best & _real(tgt_lengths, weights.shape[1])[..., None]


def _links_unmasked(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    return weights == weights.max(axis=-1, keepdims=True)


def _links_of_source(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    best = np.arange(weights.shape[1])[:, None] == weights.argmax(axis=1)[:, None, :]
    return best & _real(tgt_lengths, weights.shape[1])[..., None]


def _links_above_half(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    return (weights > 0.5) & _real(tgt_lengths, weights.shape[1])[..., None]


def _links_one_more(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    return _links_right(weights, tgt_lengths + 1)


def _links_one_less(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    return _links_right(weights, tgt_lengths - 1)


def _links_first_length(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    return _links_right(weights, np.full_like(tgt_lengths, tgt_lengths[0]))


def _links_soft(weights: NDArray, tgt_lengths: NDArray) -> NDArray:
    return weights * _real(tgt_lengths, weights.shape[1])[..., None]


def _aer(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - ((a * s).sum() + (a * p).sum()) / (a.sum() + s.sum()))


def _align(
    *,
    links: Callable[[NDArray, NDArray], NDArray] = _links_right,
    judge: _Judge = _aer,
) -> Callable[..., Any]:
    """Return an alignment error with other links, or another count of them."""

    def error(weights: NDArray, sure: NDArray, possible: NDArray, tgt_lengths: NDArray) -> Any:
        return judge(links(weights, tgt_lengths), sure, possible)

    return error


def _judge_sentences(a: NDArray, s: NDArray, p: NDArray) -> float:
    with np.errstate(all="ignore"):
        hits = (a * s).sum(axis=(1, 2)) + (a * p).sum(axis=(1, 2))
        return float(np.mean(1.0 - hits / (a.sum(axis=(1, 2)) + s.sum(axis=(1, 2)))))


def _judge_precision(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - (a * p).sum() / a.sum())


def _judge_recall(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - (a * s).sum() / s.sum())


def _judge_mean(a: NDArray, s: NDArray, p: NDArray) -> float:
    return (_judge_precision(a, s, p) + _judge_recall(a, s, p)) / 2


def _judge_f(a: NDArray, s: NDArray, p: NDArray) -> float:
    precision, recall = 1.0 - _judge_precision(a, s, p), 1.0 - _judge_recall(a, s, p)
    return 1.0 - 2 * precision * recall / (precision + recall)


def _judge_union(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - ((a * s).sum() + (a * p).sum()) / (a | s).sum())


def _judge_sure_only(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - 2 * (a * s).sum() / (a.sum() + s.sum()))


def _judge_possible_only(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - 2 * (a * p).sum() / (a.sum() + s.sum()))


def _judge_apart(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - ((a * s).sum() + (a & p & ~s).sum()) / (a.sum() + s.sum()))


def _judge_all_three(a: NDArray, s: NDArray, p: NDArray) -> float:
    hits = (a * s).sum() + (a * p).sum()
    return float(1.0 - hits / (a.sum() + s.sum() + p.sum()))


def _judge_no_brackets(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - ((a * s).sum() + (a * p).sum()) / a.sum() + s.sum())


def _judge_entries(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - ((a == s).sum() + (a == p).sum()) / (a.size + s.size))


def _judge_len(a: NDArray, s: NDArray, p: NDArray) -> float:
    return float(1.0 - (len(a & s) + len(a & p)) / (len(a) + len(s)))


def _align_per_sentence(
    weights: NDArray, sure: NDArray, possible: NDArray, tgt_lengths: NDArray
) -> Any:
    a = _links_right(weights, tgt_lengths)
    hits = (a & sure).sum(axis=(1, 2)) + (a & possible).sum(axis=(1, 2))
    return 1.0 - hits / (a.sum(axis=(1, 2)) + sure.sum(axis=(1, 2)))


_ALIGNMENT_WRONG = [
    Misconception(
        name="each source word picks a target word",
        wrong=_align(links=_links_of_source),
        hint="You linked each *source* word to the decoder step that looks at it most. → Who picks "
        "here, and along which axis of the weights does it choose?",
    ),
    Misconception(
        name="links above one half",
        wrong=_align(links=_links_above_half),
        hint="You link where a weight is above ½ (or rounds to 1), so a word whose attention is "
        "spread has no link. → How does a word find its link, however its weights are spread?",
    ),
    Misconception(
        name="the length of an array for its links",
        wrong=_align(judge=_judge_len),
        hint="`len` of an array is the size of its first axis, here the number of sentences, "
        "whatever the array holds. → How do you count the True in a table?",
    ),
    Misconception(
        name="sure and possible swapped",
        wrong=_align(judge=lambda a, s, p: _aer(a, p, s)),
        hint="Sure and possible links have changed places: your denominator counts the possible "
        "ones. → Which of the two must be there, so that a missing one costs something?",
    ),
    Misconception(
        name="the share that is right",
        wrong=_align(judge=lambda a, s, p: 1.0 - _aer(a, s, p)),
        hint="Your result is 1 where all is well: it's the share that is right. → What is the "
        "*error*, then?",
    ),
    Misconception(
        name="sure links only",
        wrong=_align(judge=_judge_sure_only),
        hint="A link that is possible but not sure costs you as much as a wrong one. → In which of "
        "the two intersections does it count?",
    ),
    Misconception(
        name="possible links only",
        wrong=_align(judge=_judge_possible_only),
        hint="A possible link counts twice with you, as if it were sure: the error can fall below "
        "0. → Which two intersections does the formula add up?",
    ),
    Misconception(
        name="a sure link counted once",
        wrong=_align(judge=_judge_apart),
        hint="You count a sure link once, since you took it out of the possible ones; even a "
        "perfect alignment then has an error. → In how many of the two intersections is a sure "
        "link?",
    ),
    Misconception(
        name="the share of impossible links",
        wrong=_align(judge=_judge_precision),
        hint="That's 1 minus the precision, the share of your links that aren't possible: a sure "
        "link that is missing costs nothing. → What else stands in numerator and denominator?",
    ),
    Misconception(
        name="the share of missing links",
        wrong=_align(judge=_judge_recall),
        hint="That's 1 minus the recall, the share of sure links that are missing: a link that "
        "isn't even possible costs nothing. → What else stands in numerator and denominator?",
    ),
    Misconception(
        name="the mean of precision and recall",
        wrong=_align(judge=_judge_mean),
        hint="You average two fractions, of your links and of the sure ones. In the formula there "
        "is one fraction. → What are the sums above and below its line?",
    ),
    Misconception(
        name="the F-measure of precision and recall",
        wrong=_align(judge=_judge_f),
        hint="You compute the harmonic mean of precision and recall; with two kinds of links that "
        "isn't the same as this error. → What are the sums above and below the fraction's line?",
    ),
    Misconception(
        name="divided by the union",
        wrong=_align(judge=_judge_union),
        hint="Your denominator counts links of A and S once where they agree: the size of the "
        "union, not the sum of the sizes. → What is |A| + |S| when A equals S?",
    ),
    Misconception(
        name="rows of padding have links too",
        wrong=_align(links=_links_unmasked),
        hint="Rows beyond a target sentence's end were linked as well, and each of these links "
        "counts in |A|. → Where does `tgt_lengths` come in?",
    ),
    Misconception(
        name="one row too many",
        wrong=_align(links=_links_one_more),
        hint="Each short sentence has one link too many: the first row of its padding. → Counted "
        "from 0, in which row does a sentence of 3 words have its last one?",
    ),
    Misconception(
        name="one row too few",
        wrong=_align(links=_links_one_less),
        hint="The last word of each target sentence has no link. → Counted from 0, in which row "
        "does a sentence of 3 words have its last one?",
    ),
    Misconception(
        name="the first sentence's length for all",
        wrong=_align(links=_links_first_length),
        hint="All target sentences are cut where the first one ends. → Whose length does each "
        "sentence need?",
    ),
    Misconception(
        name="shares of links",
        wrong=_align(links=_links_soft),
        hint="You count the weights themselves, as shares of links. Here a word has one whole "
        "link. → Which source word gets it?",
    ),
    Misconception(
        name="the mean over sentences",
        wrong=_align(judge=_judge_sentences),
        hint="You average the errors of the sentences, so a link in a short one counts for more. "
        "→ Over what are the links counted before the division?",
    ),
    Misconception(
        name="one error for each sentence",
        wrong=_align_per_sentence,
        hint="You return one error for each sentence of the batch. → Over what are the links "
        "counted before the division?",
    ),
    Misconception(
        name="possible links below the line",
        wrong=_align(judge=_judge_all_three),
        hint="Your denominator counts the possible links as well, so one that isn't there costs "
        "something. → Which two sizes stand below the line?",
    ),
    Misconception(
        name="no brackets below the line",
        wrong=_align(judge=_judge_no_brackets),
        hint="Your result is far above 1: the division takes |A| alone, and |S| is added to the "
        "quotient. → Which brackets does the formula's fraction need in Python?",
    ),
    Misconception(
        name="entries that agree",
        wrong=_align(judge=_judge_entries),
        hint="You compare the tables entry by entry, and most places hold no link in either of "
        "them. → Where both tables say False, does that count in the formula?",
    ),
]


def _aligned_sets(weights: NDArray, sure: NDArray, possible: NDArray, tgt_lengths: NDArray) -> Any:
    """Collect links as sets of triples."""
    mine = {
        (i, t, int(weights[i, t].argmax()))
        for i in range(len(weights))
        for t in range(int(tgt_lengths[i]))
    }
    must = {tuple(map(int, place)) for place in np.argwhere(sure)}
    may = {tuple(map(int, place)) for place in np.argwhere(possible)}
    return 1 - (len(mine & must) + len(mine & may)) / (len(mine) + len(must))


def _aligned_picked(
    weights: NDArray, sure: NDArray, possible: NDArray, tgt_lengths: NDArray
) -> Any:
    """Look up what the links' places say in the two tables."""
    best = weights.argmax(axis=-1)[..., None]
    real = np.arange(weights.shape[1]) < tgt_lengths[:, None]
    hits = sum(
        np.take_along_axis(table, best, axis=-1)[..., 0][real].sum() for table in (sure, possible)
    )
    return np.float64(1 - hits / (tgt_lengths.sum() + sure.sum()))


def _aligned_loops(weights: NDArray, sure: NDArray, possible: NDArray, tgt_lengths: NDArray) -> Any:
    hits = count = 0
    for i, length in enumerate(tgt_lengths):
        for t in range(length):
            row = list(weights[i, t])
            j = row.index(max(row))
            hits += int(sure[i, t, j]) + int(possible[i, t, j])
            count += 1
    return (count + sure.sum() - hits) / (count + sure.sum())


def _aligned_torch(weights: Any, sure: Any, possible: Any, tgt_lengths: Any) -> Any:
    import torch

    links = torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).bool()
    links &= (torch.arange(weights.size(1)) < tgt_lengths[:, None])[..., None]
    hits = (links & sure).sum() + (links & possible).sum()
    return 1 - hits.double() / (links.sum() + sure.sum())


_ALIGNMENT = Exercise(
    id="01.alignment_error",
    function="alignment_error",
    reference=alignment_error,
    cases=_ALIGNMENT_CASES,
    returns=("error",),
    misconceptions=_ALIGNMENT_WRONG,
    alternatives=[
        Alternative(name="sets of triples", right=_aligned_sets),
        Alternative(name="looked up", right=_aligned_picked),
        Alternative(name="loops", right=_aligned_loops),
        Alternative(name="torch", right=_aligned_torch, backend="torch"),
    ],
    hints=[
        "Make a table of your links that looks like `sure`: boolean, (b, n_tgt, n_src), True once "
        "in each row. `argmax` along the source says where.",
        "Rows beyond a target sentence's end must hold no link: combine the table by `&` with "
        "`np.arange(n_tgt) < tgt_lengths[:, None]`, which needs one more axis at the end.",
        "`(links & sure).sum()` is |A ∩ S|, counted over the whole batch, and so on for the three "
        "others; divide once, at the end.",
    ],
    points=4,
    minutes=25,
    difficulty=3,
)


# -- 01.bug_layout ---------------------------------------------------------------------------------


def attend_step(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[NDArray, NDArray]:
    """Attend once for each sentence of a batch, with dot-product scores.

    Parameters
    ----------
    query : float array, (b, d)
        The decoder's states, one for each sentence.
    states : float array, (n_src, b, d)
        The encoder's states, position first.
    src_lengths : integer array, (b,)
        How many words each source sentence has, at least one; the rest is padding.

    Returns
    -------
    context : float array, (b, d)
    weights : float array, (b, n_src)
        Each row sums to 1; padding has weight 0.
    """
    own = states.swapaxes(0, 1)  # (b, n_src, d)
    scores = np.einsum("bjd,bd->bj", own, query)
    scores = np.where(_real(src_lengths, len(states)), scores, -np.inf)
    weights = softmax(scores)
    return np.einsum("bj,bjd->bd", weights, own), weights


def attend_step_broken(
    query: NDArray, states: NDArray, src_lengths: NDArray
) -> tuple[NDArray, NDArray]:
    """Attend once, as the exercise's notebook shows it: right for one sentence without padding."""
    n_src, b, d = states.shape
    states = states.reshape(b, n_src, d)
    scores = (states * query[:, None, :]).sum(axis=-1)
    real = np.arange(n_src) < src_lengths[:, None]
    scores = scores * real
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)
    return (weights[:, :, None] * states).sum(axis=1), weights


def _stepped(seed: int, n_src: int, lengths: list[int], d: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 70, n_src, d, *lengths])
    return {
        "query": draw(rng, len(lengths), d),
        "states": draw(rng, n_src, len(lengths), d),
        "src_lengths": np.array(lengths),
    }


def _stepped_loud(seed: int) -> dict[str, Any]:
    """Let scores be thousands: of the padding, of words far below 0, of words far above."""
    given = _stepped(seed, 5, [2, 4, 3], 4)
    side = np.where(given["query"] < 0.0, -1000.0, 1000.0)  # (b, d)
    words = _real(given["src_lengths"], 5)
    level = np.stack([~words[0], -1.0 * words[1], words[2]], axis=1)  # (n_src, b)
    return {**given, "states": given["states"] + level[:, :, None] * side}


_LAYOUT_CASES = [
    Case(
        name="one sentence of 5 words",
        inputs=lambda seed: _stepped(seed, 5, [5], 3),
        shows="the test that the broken program was released with",
    ),
    Case(
        name="one sentence of 3 words, padded to 5",
        inputs=lambda seed: _stepped(seed, 5, [3], 2),
        shows="padding has no say",
    ),
    Case(
        name="3 sentences of 4 words",
        inputs=lambda seed: _stepped(seed, 4, [4, 4, 4], 2),
        shows="each gets what it gets alone",
    ),
    Case(
        name="2 sentences of 4 and 6 words",
        inputs=lambda seed: _stepped(seed, 6, [4, 6], 3),
        shows="both at once",
    ),
    Case(
        name="4 sentences, 4 places, width 4",
        inputs=lambda seed: _stepped(seed, 4, [2, 4, 1, 3], 4),
        shows="sentences are columns of the states, not rows",
    ),
    Case(
        name="scores in the thousands, of words and of padding",
        inputs=_stepped_loud,
        shows="no overflow, no 0/0",
    ),
]


def _own_right(states: NDArray) -> NDArray:
    return states.swapaxes(0, 1)


def _own_reshaped(states: NDArray) -> NDArray:
    n_src, b, d = states.shape
    return states.reshape(b, n_src, d)


def _step(
    *,
    own: Callable[[NDArray], NDArray] = _own_right,
    hide: Callable[[NDArray, NDArray], NDArray] = lambda s, real: np.where(real, s, -np.inf),
    share: Callable[[NDArray], NDArray] = _plain_softmax,
    late: Callable[[NDArray, NDArray], NDArray] = lambda w, real: w,
    mixed: Callable[[NDArray], NDArray] | None = None,
    real: Callable[[NDArray, int], NDArray] = _real,
) -> Callable[..., tuple[Any, Any]]:
    """Return one attention step with some parts replaced."""

    def attend(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
        keys = own(states)
        words = real(src_lengths, len(states))
        with np.errstate(all="ignore"):
            scores = (keys * query[:, None, :]).sum(axis=-1)
            weights = late(share(hide(scores, words)), words)
            values = keys if mixed is None else mixed(states)
            return (weights[:, :, None] * values).sum(axis=1), weights

    return attend


def _hide_times(scores: NDArray, real: NDArray) -> NDArray:
    return scores * real


def _hide_nothing(scores: NDArray, real: NDArray) -> NDArray:
    return scores


def _divide_again(weights: NDArray, real: NDArray) -> NDArray:
    kept = weights * real
    return kept / kept.sum(axis=-1, keepdims=True)


def _step_blanked(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    words = _real(src_lengths, len(states)).T[:, :, None]
    return _step(hide=_hide_nothing)(query, states * words, src_lengths)


def _step_turned(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    context, weights = _step()(query, states, src_lengths)
    return context, weights.T


def _step_exchanged(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    context, weights = _step()(query, states, src_lengths)
    return weights, context


def _step_in_front(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    """Leave the position first, and normalise over the batch, as softmax(dim=1) did before."""
    scores = (states * query).sum(axis=-1)  # (n_src, b)
    scores = np.where(_real(src_lengths, len(states)).T, scores, -np.inf)
    weights = softmax(scores, 1)
    return (weights[:, :, None] * states).sum(axis=0), weights.T


def _step_never_moved(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    return _step(own=lambda states: states)(query, states, src_lengths)


def _step_no_axis(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    """Multiply (b, n_src, d) by (b, d): the sentences meet the positions."""
    own = _own_right(states)
    scores = (own * query).sum(axis=-1)
    weights = _plain_softmax(np.where(_real(src_lengths, len(states)), scores, -np.inf))
    return (weights[:, :, None] * own).sum(axis=1), weights


def _share_naive(scores: NDArray) -> NDArray:
    return _naive_softmax(scores)


_LAYOUT_WRONG = [
    Misconception(
        name="the program as it was",
        wrong=attend_step_broken,
        program=as_cell(attend_step_broken, "attend_step"),
        hint="This is what the broken program returns: right for one sentence without padding, and "
        "for nothing else. → Take states whose numbers say where they come from, 10 · position + "
        "sentence: what does the second line make of them, and what is e to the power of the "
        "score that padding gets?",
    ),
    Misconception(
        name="layout repaired, padding not",
        wrong=_step(hide=_hide_times),
        hint="Each sentence has its own states now. But a score times 0 is 0, and e to the power "
        "of 0 is 1, so padding still takes a share. → Which score has an exponential of 0?",
    ),
    Misconception(
        name="padding repaired, layout not",
        wrong=_step(own=_own_reshaped),
        hint="Padding has no weight now. But with more than one sentence, a reshape only cuts the "
        "same row of numbers elsewhere: it hands one sentence the states of another. → Which "
        "operation makes the second axis the first?",
    ),
    Misconception(
        name="layout repaired for the scores only",
        wrong=_step(mixed=_own_reshaped),
        hint="Your weights are right in every case, the contexts aren't: they mix states that are "
        "still reshaped. → Which array do the weights multiply?",
    ),
    Misconception(
        name="layout repaired for the contexts only",
        wrong=_step(own=_own_reshaped, mixed=_own_right),
        hint="The states that are mixed are the right ones, but those that were scored are still "
        "reshaped. → Which array does the query meet?",
    ),
    Misconception(
        name="layout repaired for the scores only, padding not",
        wrong=_step(mixed=_own_reshaped, hide=_hide_times),
        hint="The scores come from the right states now, but the contexts mix states that are "
        "still reshaped, and padding takes a share. → Which array do the weights multiply, and "
        "what is e to the power of 0?",
    ),
    Misconception(
        name="the position still in front",
        wrong=_step_never_moved,
        hint="You left the states position first, (n_src, b, d), and went on as if the sentences "
        "came first. For most sizes that's an error, for a square one it isn't. → Which axis does "
        "the query's first axis belong to?",
    ),
    Misconception(
        name="position first throughout, normalised over the batch",
        wrong=_step_in_front,
        hint="You work with the position first, which is fine; but the softmax still runs along "
        "axis 1, where the sentences are now. → Along which axis lie the words of one sentence?",
    ),
    Misconception(
        name="mask applied after the softmax",
        wrong=_step(hide=_hide_nothing, late=lambda w, real: w * real),
        hint="Padding has weight 0, but the words no longer share the whole: padding took its part "
        "before it was hidden. → At which point must it be hidden so that the softmax never "
        "counts it?",
    ),
    Misconception(
        name="divided again by the sum",
        wrong=_step(hide=_hide_nothing, late=_divide_again),
        hint="Dividing once more mends the shares as long as something is left to divide. Where "
        "the padding's scores were huge, it's 0/0. → What if padding never took part in the "
        "softmax, its maximum included?",
    ),
    Misconception(
        name="times the mask, masked again and divided again",
        wrong=_step(hide=_hide_times, late=_divide_again),
        hint="Nearly: you hide padding after the softmax and divide once more. A score of 0 can "
        "still lie so far above the words' that their exponentials vanish or lose digits. → What "
        "if padding never took part in the softmax, its maximum included?",
    ),
    Misconception(
        name="padding not hidden",
        wrong=_step(hide=_hide_nothing),
        hint="Padding takes part like every word, and gets its share. → Where does `src_lengths` "
        "come in now?",
    ),
    Misconception(
        name="padding's states set to 0",
        wrong=_step_blanked,
        hint="You blank the padding's states: they score 0 then, and e to the power of 0 is 1, so "
        "padding keeps a share and the contexts shrink. → Which score has an exponential of 0?",
    ),
    Misconception(
        name="mask inverted",
        wrong=_step(hide=lambda s, real: np.where(real, -np.inf, s)),
        hint="You hide the words and look at the padding. → Of the two values that `np.where` "
        "chooses between, which one goes where its condition is True?",
    ),
    Misconception(
        name="one place too many",
        wrong=_step(real=lambda lengths, n: _real(lengths + 1, n)),
        hint="The first place of the padding still gets weight. That line of the program wasn't "
        "broken. → Counted from 0, at which position does a sentence of 3 words have its last one?",
    ),
    Misconception(
        name="the query has no axis for the words",
        wrong=_step_no_axis,
        hint="The states are (b, n_src, d), the query is (b, d), and numpy lines shapes up from "
        "the end: the sentences meet the positions. An error for most sizes, nonsense for the "
        "rest. → Which axis of length 1 did the program give the query?",
    ),
    Misconception(
        name="all axes turned round",
        wrong=_step(own=lambda states: states.T),
        hint="`.T` reverses the order of all three axes: (d, b, n_src). → Which two of them have "
        "to change places?",
    ),
    Misconception(
        name="the last two axes swapped",
        wrong=_step(own=lambda states: states.swapaxes(1, 2)),
        hint="You swapped the last two axes, sentence and width. → Which two axes have to change "
        "places so that the sentence comes first and the position second?",
    ),
    Misconception(
        name="no maximum subtracted",
        wrong=_step(share=_share_naive),
        hint="The line that subtracts the maximum is gone, and one row is 0/0 or ∞/∞. It wasn't "
        "broken. → What does the maximum do for large scores?",
    ),
    Misconception(
        name="weights position first",
        wrong=_step_turned,
        hint="The weights are right, but the position comes first in them. → Which shape does the "
        "docstring promise?",
    ),
    Misconception(
        name="context and weights in the other order",
        wrong=_step_exchanged,
        hint="Both results are right, but they come in the other order. → What does the docstring "
        "list first under Returns?",
    ),
]


def _step_sentence_by_sentence(
    query: NDArray, states: NDArray, src_lengths: NDArray
) -> tuple[Any, Any]:
    n_src, b, d = states.shape
    context, weights = np.zeros((b, d)), np.zeros((b, n_src))
    for i, length in enumerate(src_lengths):
        words = states[:length, i]
        weights[i, :length] = _plain_softmax(words @ query[i])
        context[i] = weights[i, :length] @ words
    return context, weights


def _step_position_first(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    """Never move an axis: share out along the first."""
    scores = np.einsum("jbd,bd->jb", states, query)
    real = np.arange(len(states))[:, None] < src_lengths
    weights = _plain_softmax(np.where(real, scores, -1e9), 0)
    return np.einsum("jb,jbd->bd", weights, states), weights.T


def _step_products(query: NDArray, states: NDArray, src_lengths: NDArray) -> tuple[Any, Any]:
    own = np.transpose(states, (1, 0, 2))
    scores = (own @ query[:, :, None])[:, :, 0]
    parts = np.where(_real(src_lengths, len(states)), scores, -np.inf)
    weights = _plain_softmax(parts)
    return (weights[:, None, :] @ own)[:, 0], weights


def _step_torch(query: Any, states: Any, src_lengths: Any) -> tuple[Any, Any]:
    import torch

    own = states.transpose(0, 1)
    scores = torch.bmm(own, query.unsqueeze(-1)).squeeze(-1)
    padding = torch.arange(own.size(1)) >= src_lengths.unsqueeze(-1)
    weights = torch.softmax(scores.masked_fill(padding, -torch.inf), dim=-1)
    return torch.bmm(weights.unsqueeze(1), own).squeeze(1), weights


_BUG_LAYOUT = Exercise(
    id="01.bug_layout",
    function="attend_step",
    reference=attend_step,
    guarded=[attention_scores.attend],
    cases=_LAYOUT_CASES,
    returns=("context", "weights"),
    misconceptions=_LAYOUT_WRONG,
    alternatives=[
        Alternative(name="sentence by sentence", right=_step_sentence_by_sentence),
        Alternative(name="position first, −1e9", right=_step_position_first),
        Alternative(name="products of matrices", right=_step_products),
        Alternative(name="torch", right=_step_torch, backend="torch"),
    ],
    hints=[
        "Let each state say where it comes from, 10 · position + sentence, for 3 positions and 2 "
        "sentences. Print what the second line of the program makes of it.",
        "A reshape keeps the numbers in their order and cuts them into other rows; it never makes "
        "the second axis the first. `swapaxes(0, 1)` does.",
        "That's one fault. The other: a score times 0 is 0, and e to the power of 0 isn't. Padding "
        "has to score −∞, by `np.where`.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 01.bug_encoder --------------------------------------------------------------------------------


def encode(
    xs: NDArray, lengths: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> tuple[NDArray, NDArray]:
    """Read a padded batch with a GRU that starts from zeros, weights and formula as in torch.

    Parameters
    ----------
    xs : float array, (b, n, d_in)
        Embedded words; beyond a sentence's end any finite numbers.
    lengths : integer array, (b,)
        How many words each sentence has; may be 0.
    w_x, w_h : float arrays, (3 d_h, d_in) and (3 d_h, d_h)
    b_x, b_h : float arrays, (3 d_h,)

    Returns
    -------
    states : float array, (b, n, d_h)
        The state after each word; 0 at padding.
    last : float array, (b, d_h)
        The state after each sentence's own last word; 0 for a sentence without words.
    """
    b, n, _ = xs.shape
    states = np.zeros((b, n, w_h.shape[-1]))
    h = np.zeros((b, w_h.shape[-1]))
    for t in range(n):
        real = (t < lengths)[:, None]
        h = np.where(real, recurrent.gru_step(xs[:, t], h, w_x, w_h, b_x, b_h), h)
        states[:, t] = np.where(real, h, 0.0)
    return states, h


def encode_broken(
    xs: NDArray, lengths: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> tuple[NDArray, NDArray]:
    """Read a padded batch, as the exercise's notebook shows it."""
    b, n, _ = xs.shape
    h = np.zeros((b, w_h.shape[-1]))
    states = []
    for t in range(n):
        r_x, z_x, n_x = np.split(xs[:, t] @ w_x.T + b_x, 3, axis=-1)
        r_h, z_h, n_h = np.split(h @ w_h.T + b_h, 3, axis=-1)
        r = 1 / (1 + np.exp(-(r_x + r_h)))
        z = 1 / (1 + np.exp(-(z_x + z_h)))
        candidate = np.tanh(n_x + r * n_h)
        h = (1 - z) * h + z * candidate
        states.append(h)
    real = np.arange(n) < lengths[:, None]
    return np.where(real[:, :, None], np.stack(states, axis=1), 0.0), h


def _encoded(seed: int, n: int, lengths: list[int], d_in: int, d_h: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 80, n, d_in, d_h, *lengths])
    return {
        "xs": draw(rng, len(lengths), n, d_in),
        "lengths": np.array(lengths),
        "w_x": draw(rng, 3 * d_h, d_in, spread=0.8),
        "w_h": draw(rng, 3 * d_h, d_h, spread=0.8),
        "b_x": _biases(rng, 3 * d_h),
        "b_h": _biases(rng, 3 * d_h),
    }


def _encoded_kept(seed: int) -> dict[str, Any]:
    """Hold the update gate at 1: nothing is ever let in."""
    given = _encoded(seed, 4, [4], 3, 2)
    given["b_x"][2:4] = 60.0
    return given


_ENCODER_CASES = [
    Case(
        name="update gate at 1",
        inputs=_encoded_kept,
        shows="nothing is let in, the state stays 0",
    ),
    Case(
        name="one sentence of 3 words",
        inputs=lambda seed: _encoded(seed, 3, [3], 2, 4),
        shows="torch's formula, word by word",
    ),
    Case(
        name="one sentence of 2 words, padded to 5",
        inputs=lambda seed: _encoded(seed, 5, [2], 3, 2),
        shows="the last state is that of the second word",
    ),
    Case(
        name="3 sentences of 4, 1 and 3 words",
        inputs=lambda seed: _encoded(seed, 4, [4, 1, 3], 5, 2),
        shows="each gets what it gets alone",
    ),
    Case(
        name="4 of everything",
        inputs=lambda seed: _encoded(seed, 4, [2, 4, 3, 1], 4, 4),
        shows="lengths belong to sentences",
    ),
    Case(
        name="a sentence without words",
        inputs=lambda seed: _encoded(seed, 3, [0, 2], 2, 3),
        shows="nothing is read: all 0",
    ),
]


def _encoder(
    *,
    step: Callable[..., NDArray] = _gru_right,
    keep: Callable[[NDArray, NDArray, NDArray], NDArray] = lambda real, new, h: np.where(
        real, new, h
    ),
    blank: bool = True,
    last: _Picker = lambda states, h, lengths: h,
    real: Callable[[NDArray, int], NDArray] = _real,
    read: Callable[[NDArray, NDArray], NDArray] = lambda xs, real: xs,
) -> Callable[..., tuple[Any, Any]]:
    """Return an encoder with some parts replaced; `last` gets the states before they're blanked."""

    def encode(
        xs: NDArray, lengths: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
    ) -> tuple[Any, Any]:
        words = real(lengths, xs.shape[1])
        h = np.zeros((len(xs), w_h.shape[-1]))
        seen = read(xs, words)
        states = []
        for t in range(xs.shape[1]):
            new = step(seen[:, t], h, w_x, w_h, b_x, b_h)
            h = keep(words[:, t, None], new, h)
            states.append(h)
        every = np.stack(states, axis=1)
        shown = every * words[:, :, None] if blank else every
        return shown, last(every, h, lengths)

    return encode


def _run_on(real: NDArray, new: NDArray, h: NDArray) -> NDArray:
    return new


def _cleared(real: NDArray, new: NDArray, h: NDArray) -> NDArray:
    return np.where(real, new, 0.0)


def _kept_flat(real: NDArray, new: NDArray, h: NDArray) -> NDArray:
    return np.where(real[:, 0], new, h)


_gru_inverted = _gru(mix=_mix_inverted)
_gru_swapped_gates = _gru(order=(1, 0, 2))


def _last_unclamped(states: NDArray, h: NDArray, lengths: NDArray) -> NDArray:
    return states[np.arange(len(states)), lengths]


def _last_of_all(states: NDArray, h: NDArray, lengths: NDArray) -> NDArray:
    return states[np.arange(len(states)), lengths - 1]


def _last_of_longest(states: NDArray, h: NDArray, lengths: NDArray) -> NDArray:
    return states[:, lengths.max() - 1]


def _last_mean(states: NDArray, h: NDArray, lengths: NDArray) -> NDArray:
    shown = states * _real(lengths, states.shape[1])[:, :, None]
    return shown.sum(axis=1) / np.maximum(lengths, 1)[:, None]


def _last_sum(states: NDArray, h: NDArray, lengths: NDArray) -> NDArray:
    return (states * _real(lengths, states.shape[1])[:, :, None]).sum(axis=1)


def _last_slice(states: NDArray, h: NDArray, lengths: NDArray) -> NDArray:
    return states[:, lengths - 1]


_ENCODER_WRONG = [
    Misconception(
        name="padding repaired, update gate not",
        wrong=_encoder(step=_gru_inverted),
        hint="The update gate is still the wrong way round for these weights: some papers write it "
        "so, torch doesn't. → With an update gate of 1, what does torch's GRU do with the old "
        "state?",
    ),
    Misconception(
        name="the program as it was",
        wrong=encode_broken,
        program=as_cell(encode_broken, "encode"),
        hint="This is what the broken program returns, both of its oddities included. → With an "
        "update gate of 1 torch's GRU keeps its state: what does this one do, and what does `h` "
        "read after a sentence has ended?",
    ),
    Misconception(
        name="update gate repaired, padding not",
        wrong=_encoder(keep=_run_on),
        hint="The states of the words are right now. `last` isn't: the program reads on through "
        "the padding, which changes `h` even where xs is 0. → Which of its states is that of a "
        "sentence's own last word?",
    ),
    Misconception(
        name="padding repaired by the lengths, update gate not",
        wrong=_encoder(step=_gru_inverted, keep=_run_on, last=_last_of_all),
        hint="The update gate is still the wrong way round for these weights: some papers write it "
        "so, torch doesn't. For sentences with words `last` is taken from the right place. → With "
        "an update gate of 1, what does torch's GRU do with the old state?",
    ),
    Misconception(
        name="the gates' blocks swapped to mend the update gate",
        wrong=_encoder(step=_gru_swapped_gates),
        hint="You read the update gate from the rows of the reset gate. The program had the order "
        "right, r, z, n. → Which line mixes candidate and old state?",
    ),
    Misconception(
        name="states not blanked",
        wrong=_encoder(blank=False),
        hint="`last` is right. In `states` the padding holds the last state over and over, where "
        "the docstring promises 0. → Which line of the program took care of that?",
    ),
    Misconception(
        name="the state cleared at padding",
        wrong=_encoder(keep=_cleared),
        hint="`last` is 0 for every sentence that is padded: either it was read at the end of the "
        "row, or the state itself was set to 0 there. → What should `h` hold at a step at which a "
        "sentence has no word, and where does `last` come from?",
    ),
    Misconception(
        name="the words of the padding set to 0",
        wrong=_encoder(keep=_run_on, read=lambda xs, real: xs * real[:, :, None]),
        hint="You blank the padding's words, but a GRU moves on an input of 0 as well: its biases "
        "and its old state are still there. → What should happen to `h` at a step at which a "
        "sentence has no word?",
    ),
    Misconception(
        name="last counted one place too far",
        wrong=_encoder(keep=_run_on, last=_last_unclamped),
        hint="You take the state at position `lengths`, one after the last word; where a sentence "
        "fills its row that position doesn't exist. → Counted from 0, where does a sentence of 3 "
        "words have its last one?",
    ),
    Misconception(
        name="position −1 for a sentence without words",
        wrong=_encoder(keep=_run_on, last=_last_of_all),
        hint="All right but the sentence without words: its last position, lengths − 1, is −1, and "
        "that's the end of the row. → What does the docstring promise for it?",
    ),
    Misconception(
        name="the longest sentence's last position for all",
        wrong=_encoder(keep=_run_on, last=_last_of_longest),
        hint="You take all last states at the same position, the end of the longest sentence. "
        "→ Which position does each sentence need?",
    ),
    Misconception(
        name="all pairs of sentence and length",
        wrong=_encoder(last=_last_slice),
        hint="`states[:, lengths - 1]` takes, for each sentence, the places of *all* sentences: an "
        "axis too many. → With which index array for the first axis does each sentence get its "
        "own place?",
    ),
    Misconception(
        name="the mean of the states",
        wrong=_encoder(last=_last_mean),
        hint="`last` is the mean of a sentence's states. → What does the docstring promise?",
    ),
    Misconception(
        name="the sum of the states",
        wrong=_encoder(last=_last_sum),
        hint="`last` is the sum of a sentence's states. → Which of them does the docstring "
        "promise?",
    ),
    Misconception(
        name="frozen one word too late",
        wrong=_encoder(real=lambda lengths, n: _real(lengths + 1, n)),
        hint="The first place of the padding is still read. → Counted from 0, at which step does a "
        "sentence of 3 words have its last one?",
    ),
    Misconception(
        name="frozen one word too early",
        wrong=_encoder(real=lambda lengths, n: _real(lengths - 1, n)),
        hint="The last word of each sentence isn't read. → Counted from 0, at which step does a "
        "sentence of 3 words have its last one?",
    ),
    Misconception(
        name="words frozen, padding read",
        wrong=_encoder(keep=lambda real, new, h: np.where(real, h, new)),
        hint="You keep the old state at the words and let the padding in. → Of the two values that "
        "`np.where` chooses between, which one goes where its condition is True?",
    ),
    Misconception(
        name="the reset before the matrix",
        wrong=_encoder(step=_gru(candidate=_candidate_early)),
        hint="In Cho et al. (2014) the state is reset before it meets its matrix; this exercise "
        "uses torch's formula, and the program had that right. → Which line mixes candidate and "
        "old state?",
        valid_variant=True,
    ),
    Misconception(
        name="states and last in the other order",
        wrong=lambda *given: tuple(reversed(_encoder()(*given))),
        hint="Both results are right, but they come in the other order. → What does the docstring "
        "list first under Returns?",
    ),
    Misconception(
        name="the mask has no axis for the units",
        wrong=_encoder(keep=_kept_flat),
        hint="Your condition is (b,) and the states are (b, d_h): numpy lines shapes up from the "
        "end and takes the sentences for the units. An error for most sizes, nonsense for the "
        "rest. → Which axis of length 1 does the condition need?",
    ),
]


def _encode_one_by_one(
    xs: NDArray, lengths: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> tuple[Any, Any]:
    """Read each sentence by itself, to its end and no further."""
    states = np.zeros((*xs.shape[:2], w_h.shape[-1]))
    last = np.zeros((len(xs), w_h.shape[-1]))
    for i, length in enumerate(lengths):
        for t in range(length):
            last[i] = _gru_three_matrices(xs[i, t], last[i], w_x, w_h, b_x, b_h)
            states[i, t] = last[i]
    return states, last


def _encode_picked(
    xs: NDArray, lengths: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> tuple[Any, Any]:
    """Read on through the padding, and pick from the blanked states, in which place −1 is 0."""
    states, _ = _encoder(keep=_run_on)(xs, lengths, w_x, w_h, b_x, b_h)
    return states, states[np.arange(len(xs)), lengths - 1]


def _encode_by_gate(
    xs: NDArray, lengths: NDArray, w_x: NDArray, w_h: NDArray, b_x: NDArray, b_h: NDArray
) -> tuple[Any, Any]:
    """Hold the update gate at 1 where there is no word."""
    real = _real(lengths, xs.shape[1]).astype(float)
    h = np.zeros((len(xs), w_h.shape[-1]))
    states = np.zeros((*xs.shape[:2], w_h.shape[-1]))
    for t in range(xs.shape[1]):
        word = real[:, t, None]
        h = _gru(mix=lambda n, old, z, word=word: old + word * (1 - z) * (n - old))(  # type: ignore[misc]
            xs[:, t], h, w_x, w_h, b_x, b_h
        )
        states[:, t] = h * word
    return states, h


def _encode_torch(xs: Any, lengths: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> tuple[Any, Any]:
    """Step with torch's own cell."""
    import torch

    h = torch.zeros(xs.size(0), w_h.size(-1), dtype=xs.dtype)
    states = []
    for t in range(xs.size(1)):
        real = (t < lengths)[:, None]
        h = torch.where(real, torch.gru_cell(xs[:, t], h, w_x, w_h, b_x, b_h), h)
        states.append(h * real)
    return torch.stack(states, dim=1), h


_BUG_ENCODER = Exercise(
    id="01.bug_encoder",
    function="encode",
    reference=encode,
    cases=_ENCODER_CASES,
    returns=("states", "last"),
    misconceptions=_ENCODER_WRONG,
    alternatives=[
        Alternative(name="one by one", right=_encode_one_by_one),
        Alternative(name="picked at the end", right=_encode_picked),
        Alternative(name="by the gate", right=_encode_by_gate),
        Alternative(name="torch's own cell", right=_encode_torch, backend="torch"),
    ],
    hints=[
        "Compare one step with torch's formula, term by term: reset gate, update gate, candidate, "
        "mixture. One of them is the wrong way round.",
        "Then read a sentence alone and the same one with padding behind it. `states` agree, since "
        "they are multiplied by the mask. What happens to `h` during the padding?",
        "At step t only sentences with t < length have a word. `np.where` can choose for each "
        "between the new state and the old one; mind the shape, (b, 1).",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


BROKEN: dict[str, Callable[..., Any]] = {
    "01.bug_layout": attend_step_broken,
    "01.bug_encoder": encode_broken,
}

EXERCISES: list[Exercise] = [
    _ADDITIVE,
    _PRODUCTS,
    _WEIGHTS,
    _CONTEXTS,
    _GRU_STEP,
    _ALIGNMENT,
    _BUG_LAYOUT,
    _BUG_ENCODER,
]
