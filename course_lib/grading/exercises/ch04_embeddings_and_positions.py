"""The exercises of chapter 04: tables of embeddings, waves of positions, tying, and a bug.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, log, pi, sin, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import embeddings, positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "embed",
    "embedding_gradient",
    "encode",
    "encode_broken",
    "saved_by_tying",
    "shift_rotation",
    "sinusoidal_positions",
    "tied_logits",
]


def _raising(error: type[Exception]) -> Callable[..., Any]:
    """Return what an answer does that stops with an error on every case."""

    def stops(*given: Any, **named: Any) -> Any:
        raise error

    return stops


def _without_batch(
    right: Callable[..., Any], axes: int, error: type[Exception] = ValueError
) -> Callable[..., Any]:
    """Return what an answer does that is right until its first argument has more axes."""

    def stops(*given: Any, **named: Any) -> Any:
        if next(iter((*given, *named.values()))).ndim > axes:
            raise error
        return right(*given, **named)

    return stops


_IN_TORCH = (
    "What PyTorch says stands above. If it speaks of dtypes: your tensors are float64, and "
    "`torch.zeros`, `.float()` and the like make float32. If it speaks of sizes: print the shapes "
    "just before that line. → Which tensor of yours should get its dtype, or its shape, from an "
    "argument?"
)


# -- 04.embed --------------------------------------------------------------------------------------


def embed(ids: NDArray, table: NDArray) -> NDArray:
    """Return each token's row of the table, times the root of the width."""
    return table[ids] * sqrt(table.shape[1])


def _sentence(
    *shape: int, rows: int, width: int, ids: Any = None
) -> Callable[[int], dict[str, Any]]:
    """Draw token ids of a shape, and a table."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 1, rows, width])
        drawn = rng.integers(0, rows, shape)
        return {"ids": np.array(drawn if ids is None else ids), "table": draw(rng, rows, width)}

    return build


_EMBED_CASES = [
    case("2 tokens, width 4 | twice their rows", _sentence(rows=6, width=4, ids=[3, 1])),
    case(
        "one token, width 1 | √1 = 1, so it's the row as it is", _sentence(rows=6, width=1, ids=[2])
    ),
    case("the first and the last row | ids begin at 0", _sentence(rows=5, width=3, ids=[0, 4])),
    case(
        "a token that comes twice | the same row both times",
        _sentence(rows=7, width=2, ids=[5, 1, 5, 6]),
    ),
    case(
        "a batch of 2 sentences of 3 tokens | one more axis, at the end",
        _sentence(2, 3, rows=8, width=5),
    ),
]


def _look(
    rows: Callable[[NDArray, NDArray], NDArray] = lambda ids, table: table[ids],
    factor: Callable[[NDArray, NDArray], float] = lambda ids, table: sqrt(table.shape[1]),
    after: Callable[[NDArray], Any] = lambda x: x,
) -> Callable[[NDArray, NDArray], Any]:
    """Return the look-up with some steps replaced."""
    return lambda ids, table: after(rows(ids, table) * factor(ids, table))


def _embed_in_place(ids: NDArray, table: NDArray) -> Any:
    table *= sqrt(table.shape[1])
    return table[ids]


def _embed_put_back(ids: NDArray, table: NDArray) -> Any:
    table *= sqrt(table.shape[1])
    vectors = table[ids]
    table /= sqrt(table.shape[1])
    return vectors


def _unit(x: NDArray) -> NDArray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


_EMBED_WRONG = [
    wrong(
        _look(factor=lambda ids, table: 1.0),
        "not scaled | this exercise uses rows times √d, as the original Transformer does; yours "
        "are the rows as they are, as in BERT and GPT-2. → What is d here, and where does it come "
        "in?",
        variant=True,
    ),
    wrong(
        _look(factor=lambda ids, table: 1 / sqrt(table.shape[1])),
        "divided by √d | Your rows are divided by √d, so they're d times too small. They're to "
        "become larger. → Which way does the formula scale?",
    ),
    wrong(
        _look(factor=lambda ids, table: table.shape[1] / 2),
        "half of d | You multiply by d/2: in Python `d ** 1 / 2` is (d ** 1) / 2. At width 4 it "
        "looks right. → Which brackets are missing, or which function takes a root?",
    ),
    wrong(
        _look(factor=lambda ids, table: sqrt(table.size)),
        "times the root of the whole table | You scale by the root of *all* the table's numbers, "
        "since `size` counts them all. → Which axis of the table holds the d numbers of a token?",
    ),
    wrong(
        _look(factor=lambda ids, table: table.shape[1]),
        "times d | Your rows are √d times too large: they're multiplied by the width itself. → "
        "What stands under the root in the formula?",
    ),
    wrong(
        _look(factor=lambda ids, table: sqrt(len(table))),
        "times the root of the vocabulary | You scale by the root of the number of *rows*: `len` "
        "of a table, or its `shape[0]`, is the size of the vocabulary. → Which axis of the table "
        "holds the d numbers of a token?",
    ),
    wrong(
        _look(factor=lambda ids, table: sqrt(ids.shape[-1])),
        "times the root of the length | You scale by the root of the number of tokens, so that a "
        "word's vector depends on how long its sentence is. → Whose axis has the length d: that of "
        "`ids` or that of `table`?",
    ),
    wrong(
        _look(rows=lambda ids, table: table[ids - 1]),
        "ids counted from 1 | Every token has the row before its own, and token 0 the last one, "
        "since numpy counts −1 from the end. → Which row belongs to id 0?",
    ),
    wrong(
        _look(rows=lambda ids, table: table[ids + 1]),
        "one row too far | Every token has the row after its own, and the last one has none. → "
        "Which row belongs to id 0?",
    ),
    wrong(
        _look(rows=lambda ids, table: table.T[ids]),
        "the table turned | You turn the table, so that an id picks a column. → In a table "
        "(vocab_size, d), along which axis does a token's vector lie?",
    ),
    wrong(
        _look(factor=lambda ids, table: sqrt((*ids.shape, table.shape[1])[1])),
        "the width read off axis 1 | For one sentence that's right. In a batch axis 1 of what you "
        "looked up is the length. → Which number names the last axis however many there are in "
        "front?",
    ),
    wrong(
        lambda ids, table: _look()(ids if ids.ndim == 1 else ids[0], table),
        "the first sentence alone | For one sentence that's right. Of a batch you return the first "
        "sentence and lose the others. → Which axes of `ids` should the result keep?",
    ),
    wrong(
        lambda ids, table: _look()(ids, table).sum(axis=-2),
        "a sentence in one vector | You add the vectors of a sentence up. Every token keeps its "
        "own. → How many vectors should 4 tokens become?",
    ),
    wrong(
        lambda ids, table: _look()(ids, table).mean(axis=0),
        "the mean over the first axis | You take the mean over the first axis. Every token keeps "
        "a vector of its own. → How many vectors should 4 tokens become?",
    ),
    wrong(
        lambda ids, table: _unit(table[ids]) * sqrt(table.shape[1]),
        "length √d | Your rows all have the length √d: you divide each by its own length first. → "
        "By which *one* number, the same for all tokens, does the formula multiply?",
    ),
    wrong(
        _look(rows=lambda ids, table: table[:, ids]),
        "columns of the table | You pick columns, and there are as many of them as a token has "
        "numbers, not as there are tokens. → In a table (vocab_size, d), along which axis does a "
        "token's vector lie?",
    ),
    wrong(
        _look(rows=lambda ids, table: np.eye(len(table))[ids], factor=lambda ids, table: 1.0),
        "one-hot vectors | What you return are one-hot vectors: as long as the vocabulary, all 0 "
        "but for a 1. That's half of the way. → By which matrix does a one-hot row have to be "
        "multiplied so that one row is left of it?",
    ),
    wrong(
        _look(after=lambda x: x.swapaxes(-2, -1)),
        "tokens as columns | The numbers are right, but a token's vector stands in a column, where "
        "this course has tokens as rows. → Is it the one-hot matrix or the table that has to stand "
        "on the left?",
    ),
    wrong(
        _look(after=lambda x: x.reshape(-1, x.shape[-1])),
        "the batch flattened | For one sentence that's right. Of a batch you've made one long list "
        "of tokens. → Which shape does `ids` have, and what comes to it?",
    ),
    wrong(
        _embed_in_place,
        "the table is overwritten | All numbers are right, once. But the caller's table has been "
        "multiplied, so that a second call multiplies again. → Which operation multiplies an array "
        "in place, and what could be multiplied instead?",
    ),
    wrong(
        _embed_put_back,
        "the table is put back | Your numbers are right, and you divide the caller's table by √d "
        "again. But x · √d / √d isn't always x: it's rounded twice. → What, other than the table, "
        "could be multiplied by √d?",
    ),
    wrong(
        _look(factor=lambda ids, table: float(int(sqrt(table.shape[1])))),
        "the root cut to a whole number | At widths 1 and 4 that's right; elsewhere your rows are "
        "too small, since the root was cut to a whole number. → Which function or `//` drops "
        "what comes after the point?",
    ),
    wrong(
        _look(after=_unit, factor=lambda ids, table: 1.0),
        "length 1 | Your rows have length 1: you divide each by its own length. A token's "
        "length is its own affair. → By which *one* number, the same for all tokens, does the "
        "formula multiply?",
    ),
    wrong(
        lambda ids, table: table[ids] + sqrt(table.shape[1]),
        "√d added | You add √d to each number, where the formula multiplies. → What becomes of a "
        "number that is 0?",
    ),
    wrong(
        _look(factor=lambda ids, table: table.shape[1] ** 2),
        "times d² | You multiply by the square of d, and should by its root. → Which power is a "
        "root?",
    ),
    wrong(
        lambda ids, table: np.take(table, ids) * sqrt(table.shape[1]),
        "single numbers | You get one number for each token: `take` without an `axis` reads the "
        "table as one long list. → Along which axis do whole rows lie?",
    ),
    wrong(
        _without_batch(_look(), 1),
        "a batch has one more axis | For one sentence that's right. In a batch there's one more "
        "axis in front, and a line of yours doesn't reckon with it: `ids[i]` is a whole sentence "
        "then, `len(ids)` their number. → Which shape has `ids`, and which has your result?",
    ),
    wrong(
        _without_batch(_look(), 1, TypeError),
        "a row of ids taken for one id | For one sentence that's right. In a batch a loop over "
        "`ids` hands you whole sentences, and those can't be made one number. → What could index "
        "the table all at once, however many axes `ids` has?",
    ),
    wrong(_raising(RuntimeError), f"a RuntimeError | {_IN_TORCH}"),
]


def _embed_one_hot(ids: NDArray, table: NDArray) -> Any:
    hot = np.zeros((*ids.shape, len(table)))
    np.put_along_axis(hot, ids[..., None], 1.0, axis=-1)
    return hot @ (sqrt(table.shape[1]) * table)


def _embed_loops(ids: NDArray, table: NDArray) -> Any:
    d = table.shape[1]
    out = np.zeros((*ids.shape, d))
    for place in np.ndindex(ids.shape):
        for j in range(d):
            out[(*place, j)] = table[ids[place], j] * d**0.5
    return out


def _embed_torch(ids: Any, table: Any) -> Any:
    import torch

    return torch.nn.functional.embedding(ids, table) * table.shape[1] ** 0.5


_EMBED = Exercise(
    id="04.embed",
    function="embed",
    reference=embed,
    guarded=[embeddings.embedding],
    cases=_EMBED_CASES,
    returns=("vectors",),
    misconceptions=_EMBED_WRONG,
    alternatives=[
        Alternative(name="one-hot times table", right=_embed_one_hot),
        Alternative(name="loops", right=_embed_loops),
        Alternative(name="torch", right=_embed_torch, backend="torch"),
    ],
    hints=[
        "A one-hot row times the table is a row of the table. What does numpy do with "
        "`table[3]`, and with `table[[3, 1]]`?",
        "An array may be indexed by an array of whole numbers: the result has the index's shape, "
        "and behind it the axes of a row. It's a new array.",
        "`table.shape` is (vocab_size, d). Multiply what you've looked up, not the table itself, "
        "by the root of d.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 04.embedding_gradient -------------------------------------------------------------------------


def embedding_gradient(ids: NDArray, d_output: NDArray, n_rows: int) -> NDArray:
    """Carry a gradient from the vectors that `embed` returned back to its table."""
    d = d_output.shape[-1]
    d_table = np.zeros((n_rows, d))
    np.add.at(d_table, ids, sqrt(d) * d_output)
    return d_table


def _flowing(*ids: Any, width: int, rows: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, rows, width])
        where = np.array(ids)
        return {"ids": where, "d_output": draw(rng, *where.shape, width), "n_rows": rows}

    return build


_GRADIENT_CASES = [
    case(
        "different tokens, width 2 | each row gets one gradient, times √2",
        _flowing(3, 0, 2, width=2, rows=5),
    ),
    case(
        "one token, width 1 | its row gets the gradient, the others 0", _flowing(1, width=1, rows=3)
    ),
    case(
        "one token three times | what comes from all places adds up",
        _flowing(2, 2, 2, width=4, rows=5),
    ),
    case(
        "tokens that nobody used | their rows are 0, and they're there",
        _flowing(1, 0, 1, 3, width=3, rows=7),
    ),
    case(
        "2 sentences of 4 tokens | all sentences share the table",
        _flowing([4, 4, 1, 0], [2, 4, 5, 1], width=3, rows=6),
    ),
]


def _back(
    factor: Callable[[NDArray, int], float] = lambda g, n_rows: sqrt(g.shape[-1]),
    scatter: Callable[[NDArray, NDArray, NDArray], None] = np.add.at,
    after: Callable[[NDArray, NDArray], Any] = lambda d_table, ids: d_table,
) -> Callable[[NDArray, NDArray, int], Any]:
    """Return the gradient with some steps replaced."""

    def backward(ids: NDArray, d_output: NDArray, n_rows: int) -> Any:
        d_table = np.zeros((n_rows, d_output.shape[-1]))
        scatter(d_table, ids, factor(d_output, n_rows) * d_output)
        return after(d_table, ids)

    return backward


def _assign(d_table: NDArray, ids: NDArray, g: NDArray) -> None:
    d_table[ids] = g


def _first_wins(d_table: NDArray, ids: NDArray, g: NDArray) -> None:
    flat, rows = ids.ravel(), g.reshape(-1, g.shape[-1])
    d_table[flat[::-1]] = rows[::-1]


def _sentence_by_sentence(d_table: NDArray, ids: NDArray, g: NDArray) -> None:
    if ids.ndim == 1:
        for i, row in zip(ids, g, strict=True):
            d_table[i] += row
        return
    for some, rows in zip(ids, g, strict=True):
        d_table[some] += rows


def _means(d_table: NDArray, ids: NDArray) -> Any:
    counts = np.bincount(ids.ravel(), minlength=len(d_table))
    return d_table / np.maximum(counts, 1)[:, None]


def _per_sentence(ids: NDArray, d_output: NDArray, n_rows: int) -> Any:
    hot = np.eye(n_rows)[ids]
    return sqrt(d_output.shape[-1]) * (hot.swapaxes(-2, -1) @ d_output)


def _gradient_in_place(ids: NDArray, d_output: NDArray, n_rows: int) -> Any:
    d_output *= sqrt(d_output.shape[-1])
    d_table = np.zeros((n_rows, d_output.shape[-1]))
    np.add.at(d_table, ids, d_output)
    return d_table


def _length_back(ids: NDArray, d_output: NDArray, n_rows: int) -> Any:
    return _back(factor=lambda g, n_rows: sqrt(ids.shape[-1]))(ids, d_output, n_rows)


def _unscaled(g: NDArray, n_rows: int) -> float:
    return 1.0


_LAST = (
    "a repeated token keeps the gradient of one of its places and loses the others. `=` does that, "
    "and so does `d_table[ids] += …`, which reads all rows, adds, and writes them back."
)

_GRADIENT_WRONG = [
    wrong(
        _back(scatter=_assign),
        f"the last place wins | {_LAST[0].upper()}{_LAST[1:]} → What does numpy's `ufunc.at`, or a "
        "plain loop over tokens, do otherwise?",
    ),
    wrong(
        _back(scatter=_assign, factor=_unscaled),
        "the last place wins, no √d | Two things. The factor of the forward pass is missing, and "
        f"{_LAST} → If a row was used at three places, which three numbers make up its gradient?",
    ),
    wrong(
        _back(factor=_unscaled),
        "no √d | Your numbers are √d times too small: this is the gradient of a look-up that "
        "doesn't scale, as `nn.Embedding` has it. `embed` multiplied each row. → What is the "
        "derivative of √d · x by x?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: 1 / sqrt(g.shape[-1])),
        "divided by √d | You undo the scale of the forward pass. A gradient isn't an inverse: it's "
        "multiplied by what the value was multiplied by. → What is the derivative of √d · x by x?",
    ),
    wrong(
        _length_back,
        "the root of the length | You scale by the root of the number of tokens, and `embed` took "
        "the width of a row. → Which axis of `d_output` has the length d?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: sqrt(g.shape[-1]) / len(g)),
        "divided by the first axis | Your numbers are too small: they're divided by the number of "
        "tokens, or of sentences. A mean is the loss's affair, and in `d_output` already. → Which "
        "factor did `embed` multiply by?",
    ),
    wrong(
        lambda ids, d_output, n_rows: (
            _back()(ids, d_output, n_rows)
            if ids.ndim == 1
            else _back()(ids[0], d_output[0], n_rows)
        ),
        "the first sentence alone | For one sentence that's right. Of a batch only the first one "
        "reaches your table. → How many places in the batch used the table?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: sqrt(n_rows)),
        "the root of the vocabulary | You scale by the root of the number of rows. `embed` took "
        "the width of a row. → Which axis of `d_output` has the length d?",
    ),
    wrong(
        _back(after=_means),
        "the mean over a token's places | A token that comes three times gets a third of its "
        "gradient: you divide by how often it comes. The loss depends on the row through every "
        "place. → What does the chain rule do with several ways from a parameter to the loss?",
    ),
    wrong(
        _back(scatter=_first_wins),
        "the first place wins | A repeated token keeps the gradient of its first place; the later "
        "ones are lost. → If a row was used at three places, which three numbers make up its "
        "gradient?",
    ),
    wrong(
        _back(scatter=_sentence_by_sentence),
        "sentence by sentence | For one sentence that's right. In a batch each pass of your loop "
        "hands numpy a whole sentence, and of a token that comes twice in it only one place "
        "counts. → Over what does a loop over `ids` run if it has two axes?",
    ),
    wrong(
        _back(scatter=_sentence_by_sentence, factor=lambda g, n_rows: sqrt(g.shape[1])),
        "sentence by sentence, and the width read off axis 1 | For one sentence that's right. In a "
        "batch axis 1 of `d_output` is no longer the width, and each pass of your loop hands numpy "
        "a whole sentence, of which a token that comes twice counts once. → Over what does a loop "
        "over `ids` run if it has two axes?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: sqrt(g.shape[1])),
        "the width read off axis 1 | For one sentence that's right. In a batch axis 1 of "
        "`d_output` is the length. → Which number names the last axis however many there are in "
        "front?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: g.shape[-1]),
        "times d | Your numbers are √d times too large: they're multiplied by the width itself. → "
        "What did `embed` multiply each row by?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: g.shape[-1] / 2),
        "half of d | You multiply by d/2: in Python `d ** 1 / 2` is (d ** 1) / 2. At width 4 it "
        "looks right. → Which brackets are missing, or which function takes a root?",
    ),
    wrong(
        _back(factor=lambda g, n_rows: -sqrt(g.shape[-1])),
        "a step taken | Your gradient has the wrong sign, as if it were to be subtracted already. "
        "→ Who takes the step against the gradient, this function or the optimiser?",
    ),
    wrong(
        _back(scatter=lambda d_table, ids, g: np.add.at(d_table, ids - 1, g)),
        "ids counted from 1 | Every gradient lands in the row before its own, and that of token 0 "
        "in the last one. → Which row belongs to id 0?",
    ),
    wrong(
        _back(scatter=lambda d_table, ids, g: np.multiply.at(d_table, ids, g)),
        "nothing but zeros | Your table is 0 throughout. What was multiplied into zeros, or "
        "written to a copy, is lost. → Which line changes `d_table`, and what stood in it "
        "before?",
    ),
    wrong(
        lambda ids, d_output, n_rows: sqrt(d_output.shape[-1]) * d_output,
        "a row for each token | You return a gradient for every *place* in the text. The table "
        "has a row for every token of the vocabulary. → To which row of the table does the "
        "gradient of place t belong?",
    ),
    wrong(
        _without_batch(_back(), 1),
        "a batch has one more axis | For one sentence that's right. In a batch there's one more "
        "axis in front, and a line of yours doesn't reckon with it: `shape[1]` is the length "
        "then, `len(ids)` the number of sentences, and `.T` reverses all axes. → How could the "
        "batch be made one long list of tokens first?",
    ),
    wrong(
        _without_batch(_back(), 1, TypeError),
        "a row of ids taken for one id | For one sentence that's right. In a batch a loop over "
        "`ids` hands you whole sentences, and those can't be made one number. → How could the "
        "batch be made one long list of tokens first?",
    ),
    wrong(_raising(RuntimeError), f"a RuntimeError | {_IN_TORCH}"),
    wrong(
        _per_sentence,
        "one gradient a sentence | For one sentence that's right. Of a batch you return one "
        "gradient a sentence, though all of them share one table. → Which axis has still to be "
        "summed?",
    ),
    wrong(
        _back(after=lambda d_table, ids: d_table[np.unique(ids)]),
        "rows of unused tokens left out | You return rows only for tokens that came up, so nobody "
        "knows whose they are. A gradient has the shape of its parameter. → What is the gradient "
        "of a row that nobody looked at?",
    ),
    wrong(
        _back(after=lambda d_table, ids: d_table[: ids.max() + 1]),
        "no rows after the largest id | Your table ends at the largest id that came up. A gradient "
        "has the shape of its parameter. → Which argument says how many rows there are?",
    ),
    wrong(
        _back(after=lambda d_table, ids: d_table.T),
        "tokens as columns | Your gradient is transposed: tokens lie in columns. A gradient has "
        "the shape of its parameter. → Which of the two stands on the left, the one-hot vectors or "
        "their gradient?",
    ),
    wrong(
        _gradient_in_place,
        "the gradient is overwritten | All numbers are right, but the caller's `d_output` has been "
        "multiplied. Others still need it: it flows on to the positions as well. → Which operation "
        "multiplies an array in place?",
    ),
]


def _gradient_one_hot(ids: NDArray, d_output: NDArray, n_rows: int) -> Any:
    hot = np.eye(n_rows)[ids.ravel()]  # (tokens, n_rows)
    d = d_output.shape[-1]
    return np.sqrt(d) * (hot.T @ d_output.reshape(-1, d))


def _gradient_loops(ids: NDArray, d_output: NDArray, n_rows: int) -> Any:
    d = d_output.shape[-1]
    d_table = np.zeros((n_rows, d))
    for place in np.ndindex(ids.shape):
        d_table[ids[place]] += d_output[place]
    return d_table * d**0.5


def _gradient_torch(ids: Any, d_output: Any, n_rows: int) -> Any:
    import torch

    d = d_output.shape[-1]
    table = torch.zeros(n_rows, d, dtype=d_output.dtype, requires_grad=True)
    (table[ids] * d**0.5).backward(d_output)
    return table.grad


_EMBEDDING_GRADIENT = Exercise(
    id="04.embedding_gradient",
    function="embedding_gradient",
    reference=embedding_gradient,
    guarded=[embeddings.embedding_backward],
    cases=_GRADIENT_CASES,
    returns=("d_table",),
    misconceptions=_GRADIENT_WRONG,
    alternatives=[
        Alternative(name="one-hot, transposed", right=_gradient_one_hot),
        Alternative(name="a loop over tokens", right=_gradient_loops),
        Alternative(name="torch", right=_gradient_torch, backend="torch"),
    ],
    hints=[
        "Take two tokens of the same id. The loss depends on their row by two ways. What does the "
        "chain rule say?",
        "The look-up is one-hot times table, so its gradient is the transposed one-hot matrix "
        "times `d_output`. In words: add each token's gradient to its row of a table of zeros.",
        "`d_table[ids] += g` reads, adds and writes once a row, however often the id comes. "
        "`np.add.at` doesn't; nor does a loop over single tokens. And don't forget √d.",
    ],
    points=3,
    minutes=20,
    difficulty=2,
)


# Angles in float32 are good enough, whatever dtype the result has.
_COARSE = {"float64": (1e-5, 2e-4)}


# -- 04.sinusoidal_positions -----------------------------------------------------------------------


def sinusoidal_positions(n: int, d: int, base: float = 10000.0) -> NDArray:
    """Return the sinusoidal encoding of positions 0 to n − 1."""
    return _waves()(n, d, base)


def _interleave(sines: NDArray, cosines: NDArray) -> NDArray:
    return np.stack([sines, cosines], axis=-1).reshape(len(sines), -1)


def _beside(sines: NDArray, cosines: NDArray) -> NDArray:
    return np.concatenate([sines, cosines], axis=-1)


def _pair(i: NDArray, d: int) -> NDArray:
    return 2 * i / d


def _quotient(p: NDArray, speed: NDArray) -> NDArray:
    return p[:, None] * speed


def _waves(
    exponent: Callable[[NDArray, int], NDArray] = _pair,
    odd: Callable[[NDArray, int], NDArray] | None = None,
    angle: Callable[[NDArray, NDArray], NDArray] = _quotient,
    layout: Callable[[NDArray, NDArray], NDArray] = _interleave,
    functions: tuple[Any, Any] = (np.sin, np.cos),
    fixed: bool = False,
    places: Callable[[int], NDArray] = np.arange,
) -> Callable[..., NDArray]:
    """Return the encoding with some steps replaced; `odd` is the exponent of the cosines."""

    def encoded(n: int, d: int, base: float = 10000.0) -> NDArray:
        i, p, b = np.arange(d // 2), places(n), 10000.0 if fixed else base
        halves = [
            f(angle(p, b ** -np.asarray(power(i, d), dtype=float)))
            for f, power in zip(functions, (exponent, odd or exponent), strict=True)
        ]
        return layout(*halves)

    return encoded


_WAVE_CASES = [
    case("3 positions, width 6 | at position 0, 0 and 1 take turns", {"n": 3, "d": 6}),
    case("5 positions, width 2 | one hand, a radian a position", {"n": 5, "d": 2}),
    case(
        "6 positions, width 8 | four hands, each 10 times slower than the one before",
        {"n": 6, "d": 8},
    ),
    case(
        "5 positions, width 6, base 100 | the base is an argument", {"n": 5, "d": 6, "base": 100.0}
    ),
    case("3 positions, width 10 | wider than long", {"n": 3, "d": 10}),
    case(
        "200 positions, width 4 | the slow hand has gone a third of its round", {"n": 200, "d": 4}
    ),
]


def _waves_by(angles: Callable[[NDArray, NDArray, int, float], NDArray]) -> Callable[..., Any]:
    def encoded(n: int, d: int, base: float = 10000.0) -> Any:
        a = angles(np.arange(n)[:, None], np.arange(d // 2), d, base)
        return _interleave(np.sin(a), np.cos(a))

    return encoded


def _by_position(n: int, d: int, base: float = 10000.0) -> Any:
    a = np.arange(n)[:, None] / base ** (np.arange(d) // 2 * 2 / d)
    return np.where(np.arange(n)[:, None] % 2 == 0, np.sin(a), np.cos(a))


_WAVE_WRONG = [
    wrong(
        _waves(layout=_beside),
        "sines, then cosines | this exercise uses columns in which sine and cosine take turns, as "
        "the paper's formula has it; you have all sines on the left, as much code has it. → Which "
        "columns does an index like `[:, 0::2]` name?",
        variant=True,
    ),
    wrong(
        _waves(exponent=lambda i, d: i / d),
        "exponent i/d | Your hands slow down half as fast as they should: the last pair still "
        "turns quickly. The paper's 2i is the *column*, and you number pairs. → For pair i, what "
        "is the exponent?",
    ),
    wrong(
        _waves(exponent=lambda i, d: 4 * i / d),
        "exponent 4i/d | Your hands slow down twice as fast as they should. If your i counts 0, 2, "
        "4, …, it's the column already, the 2i of the formula. → What is the exponent of columns 2 "
        "and 3?",
    ),
    wrong(
        _waves(exponent=lambda i, d: 4 * i / d, odd=lambda i, d: (4 * i + 2) / d),
        "the column doubled | You put the column's number in for i, so every column has a speed of "
        "its own, and hands slow down twice as fast. In the formula 2i and 2i + 1 are columns of "
        "*one* i. → Which i belongs to columns 2 and 3?",
    ),
    wrong(
        _waves(odd=lambda i, d: (2 * i + 1) / d),
        "a speed for each column | Your sines are right, the cosines turn more slowly than their "
        "sines. A sine and its cosine are two coordinates of one hand. → Which exponent do columns "
        "2i and 2i + 1 share?",
    ),
    wrong(
        _waves(exponent=lambda i, d: i / max(d // 2 - 1, 1), layout=_beside),
        "the last speed is 1/base | this exercise uses the paper's formula; yours spreads speeds "
        "from 1 down to exactly 1/base, and puts sines on the left, as the authors' program "
        "(tensor2tensor) does. → For pair i, what is the exponent in the formula, and where do its "
        "columns stand?",
        variant=True,
    ),
    wrong(
        _waves(exponent=lambda i, d: i / max(d // 2 - 1, 1)),
        "the last speed is 1/base, interleaved | Your speeds go from 1 down to exactly 1/base: you "
        "divide by one pair fewer than there are, or use a `linspace` with its end. → What is the "
        "exponent of the last pair if d is 8?",
    ),
    wrong(
        _waves(exponent=lambda i, d: 2 * i // d),
        "the exponent cut to a whole number | All your hands turn at the same speed, a radian a "
        "position: the exponent is 0 for every pair. → What does `//` make of 2 / 8?",
    ),
    wrong(
        _waves(exponent=lambda i, d: -2 * i / d),
        "multiplied by base | Later pairs turn faster and faster: positions are multiplied by the "
        "power of the base. → Should the last hand be the fastest or the slowest?",
    ),
    wrong(
        _waves(angle=lambda p, speed: pi * p[:, None] * speed),
        "half turns | You multiply angles by π. The first hand turns by one radian a position, not "
        "by half a turn. → Where does π stand in the formula?",
    ),
    wrong(
        _waves(angle=lambda p, speed: p[:, None] / len(p) * speed),
        "positions as shares | You divide positions by n, so that a text of another length gives "
        "the same place another row. → By how many radians does the first hand turn a position?",
    ),
    wrong(
        _waves(exponent=lambda i, d: (2 * i + 1) / d),
        "exponent (2i + 1)/d | Your first hand is too slow already: every pair has the odd "
        "column's number in its exponent. → What is the exponent of the first pair?",
    ),
    wrong(
        _waves(odd=lambda i, d: 2 * (i + 1) / d),
        "a cosine with the next sine's speed | Your sines are right; each cosine turns as slowly "
        "as the *next* sine. → Which exponent do columns 2i and 2i + 1 share?",
    ),
    wrong(
        lambda n, d, base=10000.0: _waves()(n, d, np.e),
        "e for the base | Your hands slow down far too little: e is raised to the power of −2i/d. "
        "→ By what must the exponent be multiplied so that e to its power is the base's power?",
    ),
    wrong(
        lambda n, d, base=10000.0: _waves()(n, d, np.exp(np.log10(base))),
        "the wrong logarithm | Your hands slow down too little: the logarithm to base 10 stands in "
        "an `exp`, which takes the natural one. → Which function undoes `np.exp`?",
    ),
    wrong(
        _waves(layout=lambda sines, cosines: _beside(cosines, sines)),
        "cosines, then sines | All your cosines stand on the left and all sines on the right. In "
        "the formula they take turns, beginning with a sine. → Which columns does an index like "
        "`[:, 0::2]` name?",
    ),
    wrong(
        lambda n, d, base=10000.0: np.array(
            [_waves()(n, d, base)[:, 0::2], _waves()(n, d, base)[:, 1::2]]
        ).reshape(n, d),
        "reshaped, not interleaved | All sines come first, then all cosines, cut anew into rows: "
        "`reshape` fills rows in the order in which numbers lie in memory. → Along which axis "
        "must sines and cosines be stacked, so that they're neighbours?",
    ),
    wrong(
        _waves(layout=lambda sines, cosines: _beside(sines, 0 * cosines)),
        "half filled | The left half holds sines, the right half is empty. Sines belong into every "
        "other column. → Which columns does an index like `[:, 0::2]` name?",
    ),
    wrong(
        _waves(functions=(lambda a: a, lambda a: a)),
        "angles alone | You return the angles themselves. Without sine and cosine they grow "
        "without end. → Which two functions make coordinates of an angle?",
    ),
    wrong(
        _waves_by(lambda p, i, d, base: p / base**2 * i / d),
        "brackets missing | Your first hand stands still: in Python `base ** 2 * i / d` squares "
        "the base, and multiplies by what should be in its exponent. → Which brackets does the "
        "exponent need?",
    ),
    wrong(
        _waves_by(lambda p, i, d, base: p / base ** (2.0 * i) / d),
        "the power first, then / d | Your first hand turns d times too slowly, and the others "
        "hardly at all: in Python `base ** (2 * i) / d` is a power divided by d. → Which brackets "
        "does the exponent need?",
    ),
    wrong(
        _waves_by(lambda p, i, d, base: p / (base ** (2.0 * i) / d)),
        "the power first, then / d, below the line | Your first hand turns d times too fast: in "
        "Python `base ** (2 * i) / d` is a power divided by d. → Which brackets does the exponent "
        "need?",
    ),
    wrong(
        _waves_by(lambda p, i, d, base: p / base ** (2.0 * i)),
        "d left out | Your first hand is right and the others stand nearly still: their exponent "
        "is much too large. → What should be the exponent of the last pair, roughly?",
    ),
    wrong(
        _waves_by(lambda p, i, d, base: p / base * (2 * i / d)),
        "no power | Your first hand stands still: the base is multiplied with 2i/d where it should "
        "be raised to the power of it. → Which operator is a power in Python?",
    ),
    wrong(
        _waves(angle=lambda p, speed: np.deg2rad(p[:, None] * speed)),
        "degrees | Your angles are π/180 of what they should be: they were taken for degrees. → In "
        "what does the formula measure angles, and in what does `np.sin`?",
    ),
    wrong(
        _waves(angle=lambda p, speed: 2 * pi * p[:, None] * speed),
        "whole turns | You multiply angles by 2π, so that the first hand comes back to its start "
        "at each position and says nothing. → By how many radians does the first hand turn a "
        "position?",
    ),
    wrong(
        _waves(places=lambda n: np.arange(1, n + 1)),
        "positions from 1 | Your first row is that of position 1. → What are sin 0 and cos 0, and "
        "which row should hold them?",
    ),
    wrong(
        _waves(functions=(np.cos, np.sin)),
        "cosine first | Sine and cosine have changed places: your first column starts at 1. → "
        "Which of the two stands in the even columns, 0, 2, 4, …?",
    ),
    wrong(
        _waves(functions=(np.sin, np.sin)),
        "only sines | Your odd columns repeat the even ones: both are sines. From a sine alone "
        "nobody can tell whether the hand is on its way up or down. → Which function stands in "
        "columns 1, 3, 5, …?",
    ),
    wrong(
        _waves(exponent=lambda i, d: 2 * (i + 1) / d),
        "pairs counted from 1 | Your first hand has the speed of the second one, and the others "
        "follow: pairs are counted from 1. → What is the exponent of the first pair?",
    ),
    wrong(
        _waves(functions=(np.cos, np.cos)),
        "only cosines | Your even columns repeat the odd ones: both are cosines. → Which function "
        "stands in columns 0, 2, 4, …?",
    ),
    wrong(
        lambda n, d, base=10000.0: _interleave(_waves()(n, d, base)[:, ::2], np.zeros((n, d // 2))),
        "odd columns left empty | Your even columns are right; the odd ones hold 0. → Which line "
        "fills columns 1, 3, 5, …?",
    ),
    wrong(
        _waves(layout=lambda sines, cosines: _interleave(sines[:, ::-1], cosines[:, ::-1])),
        "the slowest hand first | Your hands come in reverse order: the slowest stands on the "
        "left. → What is the exponent of pair 0, and how fast is that hand?",
    ),
    wrong(
        _by_position,
        "one function a position | Whole rows of yours are sines, the next ones cosines. Sine "
        "and cosine take turns from column to column. → Is it p or the column that has to be even "
        "for a sine?",
    ),
    wrong(
        _waves(fixed=True),
        "10,000 whatever the base | With the base 10,000 all is right; with another one nothing "
        "changes. → Which line holds a number where an argument belongs?",
    ),
    wrong(
        lambda n, d, base=10000.0: _waves()(n, d, base).T,
        "positions as columns | Your table is transposed: positions lie in columns, where this "
        "course has them as rows. → Which of positions and speeds should get the new axis at its "
        "end?",
    ),
]


def _waves_loops(n: int, d: int, base: float = 10000.0) -> Any:
    rows = []
    for p in range(n):
        row = []
        for j in range(d):
            angle = p / base ** ((j - j % 2) / d)
            row.append(cos(angle) if j % 2 else sin(angle))
        rows.append(row)
    return np.array(rows)


def _waves_by_log(n: int, d: int, base: float = 10000.0) -> Any:
    speeds = np.exp(np.arange(0, d, 2) * (-log(base) / d))
    table = np.zeros((n, d))
    table[:, 0::2] = np.sin(np.outer(np.arange(n), speeds))
    table[:, 1::2] = np.cos(np.outer(np.arange(n), speeds))
    return table


def _waves_complex(n: int, d: int, base: float = 10000.0) -> Any:
    """e^(iθ) = cos θ + i sin θ, its two parts side by side."""
    hands = np.exp(1j * np.arange(n)[:, None] / base ** (np.arange(d // 2) / (d // 2)))
    return np.stack([hands.imag, hands.real], axis=2).reshape(n, d)


def _waves_torch(n: int, d: int, base: float = 10000.0) -> Any:
    import torch

    i = torch.arange(0, d, 2, dtype=torch.float64)
    angles = torch.arange(n, dtype=torch.float64)[:, None] / base ** (i / d)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


_SINUSOIDAL = Exercise(
    id="04.sinusoidal_positions",
    function="sinusoidal_positions",
    reference=sinusoidal_positions,
    guarded=[positions.sinusoidal_positions],
    cases=_WAVE_CASES,
    returns=("waves",),
    tolerance=_COARSE,
    misconceptions=_WAVE_WRONG,
    alternatives=[
        Alternative(name="loops", right=_waves_loops),
        Alternative(name="speeds by a logarithm", right=_waves_by_log),
        Alternative(name="complex numbers", right=_waves_complex),
        Alternative(name="torch", right=_waves_torch, backend="torch"),
    ],
    hints=[
        "Begin with one row: position 1, width 4. Which two angles are there, and which four "
        "numbers come of them?",
        "There are d/2 speeds, base^(−2i/d) for i = 0, 1, …. All angles at once are positions as "
        "a column times speeds as a row: (n, d/2).",
        "Make an array of zeros (n, d), and fill `[:, 0::2]` with the sines and `[:, 1::2]` with "
        "the cosines of the same angles.",
    ],
    points=3,
    minutes=20,
    difficulty=2,
)


# -- 04.shift_rotation -----------------------------------------------------------------------------


def shift_rotation(k: int, d: int, base: float = 10000.0) -> NDArray:
    """Return the matrix R with PE(p + k) = PE(p) @ R for every position p."""
    return _turn()(k, d, base)


def _rotation(c: float, s: float) -> list[list[float]]:
    """For rows (sin, cos): sin(p + k) = sin p cos k + cos p sin k, and so on."""
    return [[c, -s], [s, c]]


def _turn(
    exponent: Callable[[int, int], float] = lambda i, d: 2 * i / d,
    angle: Callable[[float], float] = lambda a: a,
    block: Callable[[float, float], list[list[float]]] = _rotation,
    beside: bool = False,
    fixed: bool = False,
    steps: Callable[[int], int] = lambda k: k,
    after: Callable[[NDArray], Any] = lambda r: r,
) -> Callable[..., Any]:
    """Return the matrix with some steps replaced."""

    def matrix(k: int, d: int, base: float = 10000.0) -> Any:
        out, half = np.zeros((d, d)), d // 2
        for i in range(half):
            a = angle(steps(k) * (10000.0 if fixed else base) ** -exponent(i, d))
            where = [i, half + i] if beside else [2 * i, 2 * i + 1]
            out[np.ix_(where, where)] = block(cos(a), sin(a))
        return after(out)

    return matrix


def _turn_times(k: int, d: int, base: float = 10000.0) -> Any:
    return k * _turn()(1, d, base)


def _turn_entrywise(k: int, d: int, base: float = 10000.0) -> Any:
    return _turn()(1, d, base) ** k


def _turn_fitted(count: Callable[[int], int]) -> Callable[..., Any]:
    """Fit the matrix to some positions by least squares."""

    def matrix(k: int, d: int, base: float = 10000.0) -> Any:
        p = np.arange(count(d))
        here = _waves(places=lambda n: p)(0, d, base)
        there = _waves(places=lambda n: p + k)(0, d, base)
        return np.linalg.lstsq(here, there, rcond=None)[0]

    return matrix


def _turn_by(angle: Callable[[int, int, int, float], float]) -> Callable[..., Any]:
    """Return the matrix with an angle of k, i, d and the base."""

    def matrix(k: int, d: int, base: float = 10000.0) -> Any:
        out = np.zeros((d, d))
        for i in range(d // 2):
            a = angle(k, i, d, base)
            out[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = _rotation(cos(a), sin(a))
        return out

    return matrix


def _turn_overlapping(k: int, d: int, base: float = 10000.0) -> Any:
    out = np.zeros((d, d))
    for i in range(d // 2):
        a = k / base ** (2 * i / d)
        out[i : i + 2, i : i + 2] = _rotation(cos(a), sin(a))
    return out


def _turn_short(k: int, d: int, base: float = 10000.0) -> Any:
    out = _turn()(k, d, base)
    out[-2:] = 0.0
    return out


def _first_hand(k: int, d: int, out: NDArray) -> Any:
    out[:2, :2] = _rotation(cos(k), sin(k))
    return out


_TURN_CASES = [
    case("by 3, width 6 | three hands, each by an angle of its own", {"k": 3, "d": 6}),
    case("no shift, width 4 | the identity", {"k": 0, "d": 4}),
    case("by 1, width 2 | one hand, turned by a radian", {"k": 1, "d": 2}),
    case("back by 2, width 4 | the other way round", {"k": -2, "d": 4}),
    case("by 5, width 8, base 100 | the base is an argument", {"k": 5, "d": 8, "base": 100.0}),
    case("by 1,000, width 4 | one matrix, however far", {"k": 1000, "d": 4}),
]

_TURN_WRONG = [
    wrong(
        _turn(after=lambda r: r.T),
        "for columns | this exercise uses positions as rows, PE(p) @ R; yours is the transposed "
        "matrix, which stands to the left of a column. It turns a row back by k. → In PE(p) @ R, "
        "what becomes of sin p in the column of the new sine?",
        variant=True,
    ),
    wrong(
        _turn(beside=True),
        "sines, then cosines | this exercise uses columns in which sine and cosine take turns; "
        "yours is the right matrix for all sines on the left and all cosines on the right. → Which "
        "two columns of the encoding belong to hand i?",
        variant=True,
    ),
    wrong(
        _turn(beside=True, after=lambda r: r.T),
        "sines, then cosines, for columns | this exercise uses rows, PE(p) @ R, in which sine and "
        "cosine take turns; yours is right for columns with all sines on top. → Which two columns "
        "of the encoding belong to hand i?",
        variant=True,
    ),
    wrong(
        _turn(exponent=lambda i, d: i / d),
        "exponent i/d | Your first hand is right, the others turn too fast: the exponent grows "
        "half as fast as that of the encoding. → What is the speed of pair i in exercise 3?",
    ),
    wrong(
        _turn(exponent=lambda i, d: 4 * i / d),
        "exponent 4i/d | Your first hand is right, the others turn too slowly: the exponent grows "
        "twice as fast as that of the encoding. → If your i counts 0, 2, 4, …, which part of 2i/d "
        "is it?",
    ),
    wrong(
        _turn(exponent=lambda i, d: 0.0),
        "one angle for all hands | You turn all hands by k radians. Only the first one is that "
        "fast. → By how much does the hand of pair i turn in k positions?",
    ),
    wrong(
        _turn(angle=lambda a: 2 * pi * a),
        "whole turns | You multiply angles by 2π, so that the first hand comes back to its start "
        "whatever k is. → By how many radians does the first hand turn a position?",
    ),
    wrong(
        _turn(exponent=lambda i, d: -(-2 * i // d)),
        "the exponent cut to a whole number | Your first hand is right, and the others hardly "
        "turn: `//` rounds their exponents to a whole number. → What does `//` make of −2 / 6?",
    ),
    wrong(
        _turn_by(lambda k, i, d, base: base ** (-2 * i * k / d)),
        "k in the exponent | You put k into the exponent, so that the first hand turns by 1 "
        "whatever k is. → By how much does the hand of pair i turn in k positions, if it turns by "
        "base^(−2i/d) in one?",
    ),
    wrong(
        _turn(exponent=lambda i, d: i / max(d // 2 - 1, 1)),
        "the last speed is 1/base | Your speeds go from 1 down to exactly 1/base; those of the "
        "encoding stop before. → What is the speed of pair i in exercise 3?",
    ),
    wrong(
        _turn_by(lambda k, i, d, base: k + base ** (-2 * i / d)),
        "k added | You add k to the speed of a hand, where k positions take k times the angle. → "
        "By how much does a hand turn for k = 0?",
    ),
    wrong(
        _turn_short,
        "the last hand forgotten | The last two rows and columns of your matrix are 0, so the last "
        "hand is lost. → How many hands has a row of width d?",
    ),
    wrong(
        _turn(block=lambda c, s: [[0.0, -s], [s, 0.0]]),
        "only the corners | You've filled in the sines and left the diagonal empty: with k = 0 "
        "nothing would be left. → What is sin(a + b)?",
    ),
    wrong(
        _turn(angle=lambda a: a * pi / 180),
        "degrees | Your angles are π/180 of what they should be: they were taken for degrees. → In "
        "what do `np.sin` and `np.cos` measure angles?",
    ),
    wrong(
        _turn(fixed=True),
        "10,000 whatever the base | With the base 10,000 all is right; with another one nothing "
        "changes. → Which line holds a number where an argument belongs?",
    ),
    wrong(
        _turn(block=lambda c, s: [[c, s], [s, c]]),
        "no minus | Your new sine is right, the cosine isn't: both sines have the same sign, so "
        "this doesn't turn, it stretches. → What is cos(a + b)?",
    ),
    wrong(
        _turn(block=lambda c, s: [[c, s], [s, -c]]),
        "a mirror | Your matrix mirrors where it should turn: twice in a row it gives the "
        "identity. → In which corner of a rotation does the minus stand?",
    ),
    wrong(
        _turn(block=lambda c, s: [[s, -c], [c, s]]),
        "sine on the diagonal | Your sines and cosines have changed places: with k = 0 your hands "
        "are a quarter turn off. → Which matrix has it to be for k = 0?",
    ),
    wrong(
        _turn(block=lambda c, s: [[s, c], [-c, s]]),
        "sine on the diagonal, the other way round | Your sines and cosines have changed places, "
        "and the minus stands below: with k = 0 your hands are a quarter turn off. → Which matrix "
        "has it to be for k = 0?",
    ),
    wrong(
        _turn(block=lambda c, s: [[s, c], [c, -s]]),
        "sine on the diagonal, mirrored | Your sines and cosines have changed places: with k = 0 "
        "your matrix swaps the two coordinates. → Which matrix has it to be for k = 0?",
    ),
    wrong(
        _turn(block=lambda c, s: [[s, c], [c, s]]),
        "sine on the diagonal, no minus | Your sines and cosines have changed places, and no "
        "minus is there: with k = 0 your matrix swaps the two coordinates. → What is "
        "cos(a + b)?",
    ),
    wrong(
        _turn(block=lambda c, s: [[c, -s], [-s, c]]),
        "two minuses | Your new cosine is right, the new sine isn't: both sines have a minus, so "
        "this doesn't turn, it stretches. → What is sin(a + b)?",
    ),
    wrong(
        _turn(block=lambda c, s: [[-c, s], [s, c]]),
        "a mirror, the minus in front | Your matrix mirrors where it should turn: with k = 0 it "
        "changes the sine's sign. → In which corner of a rotation does the minus stand?",
    ),
    wrong(
        _turn(block=lambda c, s: [[c, -s], [s, -c]]),
        "a minus too many | Your first column is that of the new sine, and right; in the second "
        "one both numbers have a minus. → What is cos(a + b)?",
    ),
    wrong(
        _turn(block=lambda c, s: [[c, -s], [0.0, 0.0]]),
        "half of each block | Of each 2 × 2 block only the upper row is filled. The new sine and "
        "cosine need the old cosine as well. → What is sin(a + b)?",
    ),
    wrong(
        _turn_overlapping,
        "blocks at i | Your blocks lie one row and column apart, so each overwrites a part of the "
        "one before. They're 2 wide. → Where does the second block begin, if the first one fills "
        "rows and columns 0 and 1?",
    ),
    wrong(
        lambda k, d, base=10000.0: _first_hand(k, d, np.zeros((d, d))),
        "one block only | Only the first hand is turned; the rest of your matrix is 0, so the "
        "other hands are lost. → How many hands has a row of width d?",
    ),
    wrong(
        lambda k, d, base=10000.0: _first_hand(k, d, np.eye(d)),
        "the first hand only | Only the first hand is turned; the others stay where they are. → By "
        "how much does the hand of pair i turn in k positions?",
    ),
    wrong(
        _turn(exponent=lambda i, d: 2 * (i + 1) / d),
        "pairs counted from 1 | Your first hand has the speed of the second one, and the others "
        "follow: pairs are counted from 1. → What is the exponent of the first pair?",
    ),
    wrong(
        _turn(exponent=lambda i, d: -2 * i / d),
        "multiplied by base | Later hands turn faster and faster: k is multiplied by the power of "
        "the base. → Should the last hand be the fastest or the slowest?",
    ),
    wrong(
        _turn(exponent=lambda i, d: 2 * i),
        "d left out | Your first hand is right and the others stand nearly still: the exponent is "
        "2i, whatever the width. → What is the speed of pair i in exercise 3?",
    ),
    wrong(
        _turn_by(lambda k, i, d, base: k / base ** (2 * i) / d),
        "the power first, then / d | Your first hand turns d times too slowly: in Python "
        "`base ** (2 * i) / d` is a power divided by d. → Which brackets does the exponent need?",
    ),
    wrong(
        _turn_by(lambda k, i, d, base: k * d / base ** (2 * i)),
        "the power first, then / d, below the line | Your first hand turns d times too fast: in "
        "Python `base ** (2 * i) / d` is a power divided by d. → Which brackets does the exponent "
        "need?",
    ),
    wrong(
        _turn_by(lambda k, i, d, base: k / base**2 * i / d),
        "brackets missing | Your first hand stands still: in Python `base ** 2 * i / d` squares "
        "the base, and multiplies by what should be in its exponent. → Which brackets does the "
        "exponent need?",
    ),
    wrong(
        _turn(steps=lambda k: 1),
        "one step, however many | Your matrix moves by one position, whatever k is. → Where does "
        "k come in?",
    ),
    wrong(
        _turn(block=lambda c, s: [[c, 0.0], [0.0, c]]),
        "only the diagonal | You multiply each number by cos. But the new sine needs the old "
        "cosine as well. → What is sin(a + b)?",
    ),
    wrong(
        _turn(steps=abs),
        "the way forgotten | Forward all is right; a negative shift turns forward as well. → Which "
        "function drops the sign of k?",
    ),
    wrong(
        _turn(steps=lambda k: max(k, 0)),
        "only forward | Forward all is right; for a negative shift you return the identity. A loop "
        "over `range(k)` does nothing if k is negative. → What can be multiplied by k without a "
        "loop?",
    ),
    wrong(
        _turn_times,
        "k times one step | You multiply the matrix of one step by the number k, which makes hands "
        "longer. Steps follow one another as matrices do: by their product. → What is to be "
        "multiplied by k, the matrix or the angle?",
    ),
    wrong(
        _turn_entrywise,
        "entries raised to the power of k | `**` raises every entry by itself to the power of k. k "
        "steps are the matrix, multiplied with itself. → What is to be multiplied by k inside of "
        "sin and cos?",
    ),
    wrong(
        _turn_fitted(lambda d: d // 2),
        "fitted to too few positions | A fit to so few positions has many solutions, and takes one "
        "that fits *them* and no others. → How many unknowns has a column of R, and how many "
        "equations did you give?",
    ),
]


def _turn_power(k: int, d: int, base: float = 10000.0) -> Any:
    """One step, as often as is asked; a negative power is that of the inverse."""
    one = np.zeros((d, d))
    even, speeds = np.arange(0, d, 2), base ** (-np.arange(0, d, 2) / d)
    one[even, even] = one[even + 1, even + 1] = np.cos(speeds)
    one[even + 1, even] = np.sin(speeds)
    one[even, even + 1] = -np.sin(speeds)
    return np.linalg.matrix_power(one, k)


def _turn_torch(k: int, d: int, base: float = 10000.0) -> Any:
    import torch

    angles = k / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    c, s = angles.cos(), angles.sin()
    blocks = torch.stack([torch.stack([c, -s], dim=-1), torch.stack([s, c], dim=-1)], dim=-2)
    return torch.block_diag(*blocks)


_SHIFT = Exercise(
    id="04.shift_rotation",
    function="shift_rotation",
    reference=shift_rotation,
    guarded=[positions.shift_rotation],
    cases=_TURN_CASES,
    returns=("rotation",),
    tolerance=_COARSE,
    misconceptions=_TURN_WRONG,
    alternatives=[
        Alternative(name="a power of one step", right=_turn_power),
        Alternative(name="fitted to many positions", right=_turn_fitted(lambda d: 3000)),
        Alternative(name="torch", right=_turn_torch, backend="torch"),
    ],
    hints=[
        "Look at one hand: the row (sin a, cos a) is to become (sin(a + b), cos(a + b)). Write "
        "down the two addition formulas.",
        "sin(a + b) = sin a cos b + cos a sin b makes the first *column* of a 2 × 2 matrix, since "
        "the row stands on its left. cos(a + b) makes the second one.",
        "Hand i turns by b = k · base^(−2i/d), and its small matrix begins at row and column 2i "
        "of an array of zeros.",
    ],
    points=4,
    minutes=25,
    difficulty=3,
)


# -- 04.tied_logits --------------------------------------------------------------------------------


def tied_logits(hidden: NDArray, table: NDArray) -> NDArray:
    """Score every token of the vocabulary with the table that tokens come in by."""
    return hidden @ table.T


def _states(*shape: int, rows: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 5, rows, *shape])
        return {"hidden": draw(rng, *shape), "table": draw(rng, rows, shape[-1])}

    return build


_LOGIT_CASES = [
    case("2 states, width 3, 5 tokens | a row a state, a column a token", _states(2, 3, rows=5)),
    case("one state, width 1 | each token's number times the state's", _states(1, 1, rows=3)),
    case(
        "a state that is 1 in one place | a column of the table",
        {
            "hidden": np.array([[0.0, 1.0, 0.0]]),
            "table": np.array([[0.5, -2.0, 1.0], [1.5, 3.0, 0.0], [0.0, 0.25, 4.0], [1.0, 1.0, 1]]),
        },
    ),
    case(
        "as many tokens as they are wide | a square table hides what isn't turned",
        _states(3, 4, rows=4),
    ),
    case("2 sentences of 3 states, width 4 | a batch", _states(2, 3, 4, rows=6)),
]


def _score(
    turn: Callable[[NDArray], NDArray] = lambda table: table.T,
    before: Callable[[NDArray], NDArray] = lambda hidden: hidden,
    after: Callable[[NDArray], Any] = lambda logits: logits,
) -> Callable[[NDArray, NDArray], Any]:
    """Return the logits with some steps replaced."""
    return lambda hidden, table: after(before(hidden) @ turn(table))


def _softmax(s: NDArray) -> NDArray:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _sigmoid(s: NDArray) -> NDArray:
    return 1 / (1 + np.exp(-s))


_LOGIT_WRONG = [
    wrong(
        _score(turn=lambda table: table),
        "the table isn't turned | The table goes in as it is: an error, or, where it's square, "
        "numbers that compare a state with *columns*. A token is a row. → Which two shapes have to "
        "meet so that the axis of length d is summed?",
    ),
    wrong(
        _score(turn=lambda table: table.reshape(table.shape[::-1])),
        "reshaped, not turned | The shape is right and the numbers are in the wrong places: "
        "`reshape` reads the table along its rows and cuts it anew. → Which operation swaps two "
        "axes and takes every number along?",
    ),
    wrong(
        _score(after=_softmax),
        "probabilities | Your rows sum to 1: a softmax has been applied. Logits are what goes "
        "*into* it; the loss applies its own. → Which step comes after the logits?",
    ),
    wrong(
        _score(after=lambda s: np.log(_softmax(s))),
        "log-probabilities | Your rows are logarithms of probabilities. They differ from the "
        "logits by one number a row, but it's the loss that takes it away. → Which step comes "
        "after the logits?",
    ),
    wrong(
        lambda hidden, table: hidden @ table.T / sqrt(table.shape[1]),
        "divided by √d | this exercise uses the products as they are, as the Transformer's paper "
        "does; you divide by √d, as T5 does. → What does the docstring's formula do after the "
        "product?",
        variant=True,
    ),
    wrong(
        lambda hidden, table: hidden @ table.T * sqrt(table.shape[1]),
        "times √d | Your logits are √d times too large: that scale belongs to tokens on their way "
        "*in*. → What does the docstring's formula do after the product?",
    ),
    wrong(
        _score(turn=lambda table: _unit(table).T, before=_unit),
        "cosines | All your numbers lie between −1 and 1: these are cosines, without the lengths "
        "of state and row. → Does the docstring's formula divide by anything?",
    ),
    wrong(
        _score(before=lambda hidden: _unit(hidden)),
        "states of length 1 | Your states are brought to length 1 before the product. → Does the "
        "docstring's formula divide by anything?",
    ),
    wrong(
        _score(turn=lambda table: _unit(table).T),
        "rows of length 1 | The table's rows are brought to length 1 before the product. → Does "
        "the docstring's formula divide by anything?",
    ),
    wrong(
        _score(after=np.exp),
        "exp of the logits | Your numbers are all positive: an exp has been applied, the first "
        "half of a softmax. → Which step comes after the logits?",
    ),
    wrong(
        _score(after=lambda s: _softmax(s.swapaxes(-2, -1)).swapaxes(-2, -1)),
        "probabilities down the columns | Your columns sum to 1: a softmax has been applied, and "
        "along the axis of states at that. → Which step comes after the logits?",
    ),
    wrong(
        _score(before=lambda hidden: hidden[..., -1, :]),
        "only the last state, without its axis | You return logits for the last state only. That's "
        "all one needs to write on, but in training every place predicts its next token. → Where "
        "do you pick a state, and need you?",
    ),
    wrong(
        _score(before=lambda hidden: hidden.mean(axis=-2)),
        "the mean state, without its axis | You score the mean of a text's states. In training "
        "every place predicts its own next token. → How many rows of logits has a text of n "
        "states?",
    ),
    wrong(
        _score(after=lambda s: s.argmax(axis=-1)),
        "the best token | You return which token wins. Training needs the numbers of all of them. "
        "→ How many numbers should a state get?",
    ),
    wrong(
        _score(before=lambda hidden: hidden[..., -1:, :]),
        "only the last state | You return logits for the last state only. That's all one needs to "
        "write on, but in training every place predicts its next token. → Where do you pick a "
        "state, and need you?",
    ),
    wrong(
        _score(after=lambda s: s.swapaxes(-2, -1)),
        "tokens as rows | The numbers are right, but states lie in columns: the table stood on the "
        "left. → In (n, d) times (d, vocab_size), which factor is the state?",
    ),
    wrong(
        lambda hidden, table: hidden @ table.T / table.shape[1],
        "a mean for a sum | Your logits are d times too small: you take the mean of the products, "
        "and the formula their sum. → What does the docstring's formula do after the product?",
    ),
    wrong(
        lambda hidden, table: -((hidden[..., None, :] - table) ** 2).sum(axis=-1),
        "distances | Your numbers are squared distances with a minus: they say how far a state is "
        "from each row. → Which product of state and row is a logit here?",
    ),
    wrong(
        _score(after=lambda s: s - s.max(axis=-1, keepdims=True)),
        "the maximum subtracted | The largest of each of your rows is 0: its maximum has been "
        "subtracted, as in a stable softmax. That belongs to the loss. → Which step comes after "
        "the logits?",
    ),
    wrong(
        _score(after=_sigmoid),
        "squeezed | All your numbers lie between 0 and 1: a sigmoid has been applied. Logits are "
        "what goes *into* such a function. → Which step comes after the logits?",
    ),
    wrong(
        _score(before=lambda hidden: hidden.mean(axis=-2, keepdims=True)),
        "the mean state | You score the mean of a text's states. In training every place predicts "
        "its own next token. → How many rows of logits has a text of n states?",
    ),
    wrong(
        _without_batch(_score(), 2),
        "a batch has one more axis | For one text that's right. In a batch there's one more axis "
        "in front, and a line of yours doesn't reckon with it: `.T` reverses all axes, and "
        "`len(hidden)` is the number of texts. → Which of the two, state or table, has always "
        "two axes?",
    ),
    wrong(
        lambda hidden, table: hidden[..., None, :] * table,
        "number by number | You multiply each state with each row, number by number, and leave it "
        "at that. → Over which axis has a product of two vectors to be summed?",
    ),
]


def _logits_loops(hidden: NDArray, table: NDArray) -> Any:
    out = np.zeros((*hidden.shape[:-1], len(table)))
    for place in np.ndindex(hidden.shape[:-1]):
        out[place] = [float((hidden[place] * row).sum()) for row in table]
    return out


def _logits_einsum(hidden: NDArray, table: NDArray) -> Any:
    return np.einsum("...d,vd->...v", hidden, table)


def _logits_torch(hidden: Any, table: Any) -> Any:
    import torch

    return torch.nn.functional.linear(hidden, table)


_TIED_LOGITS = Exercise(
    id="04.tied_logits",
    function="tied_logits",
    reference=tied_logits,
    guarded=[embeddings.tied_logits],
    cases=_LOGIT_CASES,
    returns=("logits",),
    misconceptions=_LOGIT_WRONG,
    alternatives=[
        Alternative(name="loops", right=_logits_loops),
        Alternative(name="einsum", right=_logits_einsum),
        Alternative(name="torch", right=_logits_torch, backend="torch"),
    ],
    hints=[
        "The logit of token v is the product of the state with row v of the table. Begin with one "
        "state and one row.",
        "All rows at once: (…, n, d) times (d, vocab_size). In which shape is the table?",
        "`table.T` turns the table without moving a number. Nothing comes after the product: no "
        "softmax, no scale.",
    ],
    points=2,
    minutes=5,
    difficulty=1,
)


# -- 04.saved_by_tying -----------------------------------------------------------------------------


def saved_by_tying(
    vocab_size: int, d_model: int, rest: int, n_matrices: int = 2
) -> tuple[int, float]:
    """Return how many parameters a model saves if its |V| × d matrices are one."""
    saved = (n_matrices - 1) * vocab_size * d_model
    return saved, saved / (n_matrices * vocab_size * d_model + rest)


_SAVED_CASES = [
    case(
        "5 tokens of width 2 | small enough for paper", {"vocab_size": 5, "d_model": 2, "rest": 30}
    ),
    case(
        "nothing but the two matrices | half of it goes", {"vocab_size": 7, "d_model": 3, "rest": 0}
    ),
    case(
        "one matrix | there's nothing to tie",
        {"vocab_size": 6, "d_model": 4, "rest": 11, "n_matrices": 1},
    ),
    case(
        "three matrices, a small model | one of three is left",
        {"vocab_size": 8, "d_model": 5, "rest": 60, "n_matrices": 3},
    ),
    case(
        "a decoder of GPT-2's size | about a quarter",
        {"vocab_size": 50257, "d_model": 768, "rest": 85_842_432},
    ),
    case(
        "an encoder-decoder of the paper's size | more than a third",
        {"vocab_size": 37_000, "d_model": 512, "rest": 44_138_496, "n_matrices": 3},
    ),
]


def _saving(
    saved: Callable[[int, int, int, int], Any] = lambda v, d, rest, n: (n - 1) * v * d,
    whole: Callable[[int, int, int, int], Any] = lambda v, d, rest, n: n * v * d + rest,
    after: Callable[[Any, Any], Any] = lambda saved, whole: (saved, saved / whole),
) -> Callable[..., Any]:
    """Return the count with some steps replaced."""

    def count(vocab_size: int, d_model: int, rest: int, n_matrices: int = 2) -> Any:
        given = (vocab_size, d_model, rest, n_matrices)
        return after(saved(*given), whole(*given))

    return count


def _tied(v: int, d: int, rest: int, n: int) -> int:
    return v * d + rest


_SAVED_WRONG = [
    wrong(
        _saving(whole=_tied),
        "a share of the tied model | Your saving is right; the share is taken of what is left. "
        "It's asked of the model as it was before. → How many parameters has the model with all "
        "its matrices?",
    ),
    wrong(
        _saving(saved=lambda v, d, rest, n: n * v * d),
        "all matrices go | You count all matrices as saved. One of them stays: it's the one that "
        "all share. → Of n equal matrices, how many are still needed?",
    ),
    wrong(
        _saving(saved=lambda v, d, rest, n: v * d),
        "one matrix, however many | With two matrices you're right: one goes. With another number "
        "of them another number goes. → Of n equal matrices, how many are no longer needed?",
    ),
    wrong(
        _saving(lambda v, d, rest, n: v * d, lambda v, d, rest, n: 2 * v * d + rest),
        "always two matrices | With two matrices you're right. How many there are is an argument, "
        "and you don't use it. → Where does `n_matrices` come in, in the saving and in the whole?",
    ),
    wrong(
        _saving(whole=lambda v, d, rest, n: 2 * v * d + rest),
        "two matrices in the whole | Your saving is right; of what it's a share, you count two "
        "matrices, whatever their number is. → Where does `n_matrices` come in, in the saving and "
        "in the whole?",
    ),
    wrong(
        _saving(lambda v, d, rest, n: (n - 1) * v * d, lambda v, d, rest, n: v * d),
        "a share of one matrix | Your saving is right; you divide it by one matrix, which tells "
        "how many go. → What is the share of, by the docstring?",
    ),
    wrong(
        _saving(lambda v, d, rest, n: (n - 1) * v * d + rest),
        "the rest saved as well | You count the rest as saved. It stays as it is. → What becomes "
        "one when matrices are tied?",
    ),
    wrong(
        _saving(lambda v, d, rest, n: (n - 1) * v),
        "rows saved | You count the rows that go. A row has d numbers. → How many numbers are in "
        "a table of 5 rows of 2?",
    ),
    wrong(
        _saving(lambda v, d, rest, n: v * d // n),
        "a part of one matrix | You divide one matrix among all. Tied matrices aren't cut: one is "
        "kept and the others go. → Of n equal matrices, how many are no longer needed?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved, whole / saved if saved else 0.0)),
        "the share turned round | Your saving is right; your share is the whole divided by what "
        "is saved. → Can a share be larger than 1?",
    ),
    wrong(
        _saving(whole=lambda v, d, rest, n: n * v * d),
        "a share of the matrices | Your saving is right; the share is that of the matrices alone. "
        "The rest of the model counts too. → What is the share of, by the docstring?",
    ),
    wrong(
        _saving(whole=lambda v, d, rest, n: (n - 1) * v * d + rest),
        "a share of saving and rest | Your saving is right; in what you divide by, the matrix that "
        "stays is missing. → How many parameters has the model with all its matrices?",
    ),
    wrong(
        _saving(saved=lambda v, d, rest, n: n * v * d + rest),
        "all there is | You return how many parameters the untied model *has*. → How many of them "
        "are gone once the matrices are one?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved, round(saved / whole, 3))),
        "rounded to 3 places | Your saving is right; your share is rounded, which only printing "
        "should do. → Where does a `round` stand that isn't asked for?",
    ),
    wrong(
        _saving(whole=lambda v, d, rest, n: rest or 1),
        "a share of the rest | Your saving is right; you divide it by the rest, in which the "
        "matrices aren't. → What is the share of, by the docstring?",
    ),
    wrong(
        _saving(saved=_tied),
        "what is left | You return what the tied model *has*, and its share. What it saves is the "
        "difference to before. → How many parameters does the untied model have more?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved, 1 - saved / whole)),
        "the share that is left | Your saving is right; the share is that of what stays. → If "
        "nothing is saved, what should the share be?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved, 100 * saved / whole)),
        "per cent | Your saving is right; your share is in per cent. The whole is 1 here, not "
        "100. → What would the share be if half of it went?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved, saved // whole)),
        "the share cut to a whole number | Your saving is right; your share is 0 throughout, since "
        "the quotient was cut to a whole number. → What does `//` make of 1 / 2?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved, round(saved / whole, 2))),
        "rounded | Your saving is right; your share is rounded, which only printing should do. → "
        "Where does a `round` stand that isn't asked for?",
    ),
    wrong(
        _saving(after=lambda saved, whole: (saved / whole, saved)),
        "share first | Both numbers are right and come in the other order. → Which one does the "
        "docstring's Returns name first?",
    ),
    wrong(
        _saving(lambda v, d, rest, n: (n - 1) * (v + d), lambda v, d, rest, n: n * (v + d) + rest),
        "rows and columns added | You count a matrix as rows plus columns. It has a number for "
        "each row *and* column. → How many numbers are in a table of 5 rows of 2?",
    ),
]


def _saved_difference(
    vocab_size: int, d_model: int, rest: int, n_matrices: int = 2
) -> tuple[Any, Any]:
    untied = rest + sum(vocab_size * d_model for _ in range(n_matrices))
    tied = rest + vocab_size * d_model
    return untied - tied, 1 - tied / untied


def _saved_array(vocab_size: int, d_model: int, rest: int, n_matrices: int = 2) -> Any:
    sizes = np.array([vocab_size * d_model] * n_matrices + [rest], dtype=np.int64)
    saved = sizes[1:-1].sum()
    return [saved, saved / sizes.sum()]


def _saved_torch(vocab_size: int, d_model: int, rest: int, n_matrices: int = 2) -> Any:
    import torch

    def count(tie: bool) -> Any:
        tables = [torch.nn.Embedding(vocab_size, d_model, device="meta") for _ in range(n_matrices)]
        for table in tables[1:]:
            table.weight = tables[0].weight if tie else table.weight
        return sum(p.numel() for p in torch.nn.ModuleList(tables).parameters()) + rest

    untied, tied = count(False), count(True)
    return untied - tied, (untied - tied) / untied


_SAVED = Exercise(
    id="04.saved_by_tying",
    function="saved_by_tying",
    reference=saved_by_tying,
    cases=_SAVED_CASES,
    returns=("saved", "share"),
    misconceptions=_SAVED_WRONG,
    alternatives=[
        Alternative(name="the difference of two models", right=_saved_difference),
        Alternative(name="a list of sizes", right=_saved_array),
        Alternative(name="torch", right=_saved_torch, backend="torch"),
    ],
    hints=[
        "Write down what the model has before any matrix is shared, and what it has after.",
        "A matrix has vocab_size · d_model numbers. Of n_matrices of them one stays.",
        "The share is what goes, divided by all that there was: n_matrices matrices and the rest.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 04.bug_stream ---------------------------------------------------------------------------------


def encode(ids: NDArray, table: NDArray, start: int = 0) -> NDArray:
    """Turn tokens into a model's input: scaled embeddings plus sinusoidal positions."""
    return _encode()(ids, table, start)


def encode_broken(ids: NDArray, table: NDArray, start: int = 0) -> NDArray:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    n, d = ids.shape[-1], table.shape[-1]
    table *= np.sqrt(d)
    columns = np.arange(d)
    angles = np.arange(n)[:, None] / 10000 ** (columns // 2 / d)
    waves = np.where(columns % 2 == 0, np.sin(angles), np.cos(angles))
    return table[ids] + waves


def _stream(
    *shape: int, rows: int, width: int, start: int | None = None
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 7, rows, width, *shape])
        given = {"ids": rng.integers(0, rows, shape), "table": draw(rng, rows, width)}
        return given if start is None else {**given, "start": start}

    return build


_ENCODE_CASES = [
    case("3 tokens, width 2 | one hand", _stream(3, rows=5, width=2)),
    case(
        "one token at position 0 | its scaled row, and 1 on the cosine", _stream(1, rows=3, width=2)
    ),
    case("4 tokens, width 6 | three hands of different speeds", _stream(4, rows=5, width=6)),
    case(
        "3 tokens from position 5 on, width 2 | positions go on where the last piece ended",
        _stream(3, rows=4, width=2, start=5),
    ),
    case(
        "2 sentences of 3 tokens, width 4, from position 2 on | everything together",
        _stream(2, 3, rows=6, width=4, start=2),
    ),
]


def _encode(
    first: Callable[[int], int] = lambda start: start,
    scaled: bool = True,
    in_place: bool = False,
    put_back: bool = False,
    both: bool = False,
    rescaled: Callable[[int], float] = sqrt,
    count: Callable[[NDArray], int] = lambda ids: ids.shape[-1],
    **changes: Any,
) -> Callable[..., Any]:
    """Return the input with some steps replaced; `changes` are those of the waves."""

    def encoded(ids: NDArray, table: NDArray, start: int = 0) -> Any:
        n, d = count(ids), table.shape[1]
        pe = _waves(places=lambda n: first(start) + np.arange(n), **changes)(n, d)
        scale = rescaled(d) if scaled else 1.0
        if in_place or put_back:
            table *= scale
            vectors = table[ids]
            table /= scale if put_back else 1.0
            return vectors + pe
        return scale * (table[ids] + pe) if both else scale * table[ids] + pe

    return encoded


def _encode_by(factor: Callable[[NDArray, NDArray], float]) -> Callable[..., Any]:
    return lambda ids, table, start=0: _encode(rescaled=lambda d: factor(ids, table))(
        ids, table, start
    )


def _encode_no_waves(ids: NDArray, table: NDArray, start: int = 0) -> Any:
    return sqrt(table.shape[1]) * table[ids]


def _encode_too_short(ids: NDArray, table: NDArray, start: int = 0) -> Any:
    n, d = ids.shape[-1], table.shape[1]
    return sqrt(d) * table[ids] + _waves(places=lambda n: np.arange(start, n))(n, d)


def _encode_moved(ids: NDArray, table: NDArray, start: int = 0) -> Any:
    n, d = ids.shape[-1], table.shape[1]
    return sqrt(d) * table[ids] + _waves(angle=lambda p, speed: p[:, None] * speed + start)(n, d)


def _half(i: NDArray, d: int) -> NDArray:
    return i / d


def _restart(start: int) -> int:
    return 0


_OVERWRITES = "the caller's table is multiplied anew at every call"
_RESTARTS = "every piece begins at position 0"
_SPEEDS = "from width 4 on the later hands turn too fast"
_NEXT_SPEED = "Which exponent do columns 2 and 3 share in the formula?"
_NEXT_START = "Which argument does no line of the program use?"
_NEXT_TABLE = "Which line changes an array that was passed in?"

_ENCODE_WRONG = [
    wrong(
        _encode(exponent=_half),
        f"one left: the speeds | One fault is left, and width 2 hides it: {_SPEEDS}. → "
        f"{_NEXT_SPEED}",
    ),
    wrong(
        _encode(first=_restart),
        f"one left: the start | One fault is left: {_RESTARTS}, wherever in the text it stands. → "
        f"{_NEXT_START}",
    ),
    wrong(
        _encode(in_place=True),
        f"one left: the table | All numbers are right. One fault is left: {_OVERWRITES}. → "
        f"{_NEXT_TABLE}",
    ),
    wrong(
        encode_broken,
        f"the program as it was | This is what the broken program returns: {_OVERWRITES}, "
        f"{_RESTARTS}, and {_SPEEDS}. → {_NEXT_TABLE}",
        program=as_cell(encode_broken, "encode"),
    ),
    wrong(
        _encode(first=_restart, exponent=_half),
        "two left: start and speeds | The caller's table is safe now. Two faults are left: "
        f"{_RESTARTS}, and {_SPEEDS}. → {_NEXT_START}",
    ),
    wrong(
        _encode(in_place=True, exponent=_half),
        f"two left: table and speeds | Positions go on now. Two faults are left: {_OVERWRITES}, "
        f"and {_SPEEDS}. → {_NEXT_TABLE}",
    ),
    wrong(
        _encode(in_place=True, first=_restart),
        "two left: table and start | The hands have the right speeds now. Two faults are left: "
        f"{_OVERWRITES}, and {_RESTARTS}. → {_NEXT_TABLE}",
    ),
    wrong(
        _encode(scaled=False),
        "the scale is gone | Your table is safe, but the scale went with the line that harmed it: "
        "rows come in as they are. → What, other than the table, could be multiplied by √d?",
    ),
    wrong(
        _encode(scaled=False, first=_restart, exponent=_half),
        "the scale is gone, and two are left | Your table is safe, but the scale went with the "
        f"line that harmed it. And two faults are left: {_RESTARTS}, and {_SPEEDS}. → What, "
        "other than the table, could be multiplied by √d?",
    ),
    wrong(
        _encode(both=True),
        "positions scaled as well | You scale the sum, positions and all. Only the embedding is "
        "multiplied by √d. → In which order do scale and sum come in the formula?",
    ),
    wrong(
        _encode(both=True, first=_restart, exponent=_half),
        "positions scaled as well, and two are left | You scale the sum, positions and all, where "
        f"only the embedding is multiplied by √d. And two faults are left: {_RESTARTS}, and "
        f"{_SPEEDS}. → In which order do scale and sum come in the formula?",
    ),
    wrong(
        _encode(put_back=True),
        "the table is put back | All numbers are right, and you divide the caller's table by √d "
        "again. But x · √d / √d isn't always x: it's rounded twice. → What, other than the table, "
        "could be multiplied by √d?",
    ),
    wrong(
        _encode(first=lambda start: start + 1),
        "positions from start + 1 | Your first token stands at position start + 1. `start` is "
        "the position of the first token itself. → If a piece of 3 tokens begins at position 5, "
        "which are its positions?",
    ),
    wrong(
        _encode(first=lambda start: max(start - 1, 0)),
        "positions from start − 1 | Where `start` isn't 0 your first token stands at position "
        "start − 1, the last one of the piece before. → If a piece of 3 tokens begins at position "
        "5, which are its positions?",
    ),
    wrong(
        _encode(count=len),
        "a batch has one more axis | For one text that's right. In a batch there's one more axis "
        "in front: `len(ids)` is the number of texts then, and `ids.size` counts all tokens. → "
        "Which axis of `ids` is that of positions?",
    ),
    wrong(
        _encode(rescaled=lambda d: 1 / sqrt(d)),
        "divided by √d | You divide the rows by √d, and the formula multiplies. → Which way does "
        "the formula scale?",
    ),
    wrong(
        _encode(rescaled=lambda d: d),
        "times d | Your rows are multiplied by d, and the formula takes its root. → Which "
        "operation did the broken program's `np.sqrt` stand for?",
    ),
    wrong(
        _encode_by(lambda ids, table: sqrt(ids.shape[-1])),
        "times the root of the length | You scale by the root of the number of tokens, so that a "
        "word's vector depends on how long its text is. → Whose axis has the length d: that of "
        "`ids` or that of `table`?",
    ),
    wrong(
        _encode_by(lambda ids, table: sqrt(len(table))),
        "times the root of the vocabulary | You scale by the root of the number of *rows*: `len` "
        "of a table is the size of the vocabulary. → Which axis of the table holds the d numbers "
        "of a token?",
    ),
    wrong(
        _encode_no_waves,
        "no positions | You return scaled rows alone: nothing says where a token stands. → Which "
        "two things does the formula add?",
    ),
    wrong(
        _encode(exponent=lambda i, d: 2 * i // d),
        "the exponent cut to a whole number | All your hands turn at the same speed: the exponent "
        "is 0 for every pair. → What does `//` make of 2 / 4?",
    ),
    wrong(
        _encode(functions=(np.cos, np.sin)),
        "cosine first | Sine and cosine have changed places. The broken program had them right. → "
        "Which of the two stands in the even columns?",
    ),
    wrong(
        _encode_too_short,
        "positions end at n | Your positions run from start to n, so there are fewer of them than "
        "tokens, or none. → If a piece of 3 tokens begins at position 5, which are its positions?",
    ),
    wrong(
        _encode_moved,
        "the start added to the angle | You add `start` to the angles, so that all hands turn by "
        "as much. The slow ones turn less. → What has to be moved before it's multiplied by the "
        "speeds?",
    ),
    wrong(
        _encode(exponent=lambda i, d: 4 * i / d, odd=lambda i, d: (4 * i + 2) / d),
        "the column doubled | Every column has a speed of its own now, and later ones are too "
        "slow: `columns` is doubled where the formula's 2i is the even column itself. → Which "
        "exponent do columns 2 and 3 share in the formula?",
    ),
    wrong(
        _encode(odd=lambda i, d: (2 * i + 1) / d),
        "a speed for each column | Your even columns are right now; in the odd ones the hands turn "
        f"too slowly. A sine and its cosine are two coordinates of one hand. → {_NEXT_SPEED}",
    ),
    wrong(
        _encode(layout=_beside),
        "sines, then cosines | this exercise uses columns in which sine and cosine take turns, as "
        "the broken program does; you have all sines on the left. → Which columns did `columns % 2 "
        "== 0` name?",
        variant=True,
    ),
]


def _encode_loops(ids: NDArray, table: NDArray, start: int = 0) -> Any:
    d = table.shape[1]
    out = np.zeros((*ids.shape, d))
    for place in np.ndindex(ids.shape):
        for j in range(d):
            angle = (start + place[-1]) / 10000 ** (j // 2 * 2 / d)
            out[(*place, j)] = d**0.5 * table[ids[place], j] + (cos if j % 2 else sin)(angle)
    return out


def _encode_on_a_copy(ids: NDArray, table: NDArray, start: int = 0) -> Any:
    table = table.copy()
    table *= np.sqrt(table.shape[1])
    return table[ids] + _waves_by_log(start + ids.shape[-1], table.shape[1])[start:]


def _encode_torch(ids: Any, table: Any, start: int = 0) -> Any:
    n, d = ids.shape[-1], table.shape[1]
    return table[ids] * d**0.5 + _waves_torch(start + n, d)[start:]


_BUG_STREAM = Exercise(
    id="04.bug_stream",
    function="encode",
    reference=encode,
    guarded=[embeddings.embedding, positions.sinusoidal_positions, positions.shift_rotation],
    cases=_ENCODE_CASES,
    returns=("inputs",),
    tolerance=_COARSE,
    misconceptions=_ENCODE_WRONG,
    alternatives=[
        Alternative(name="loops", right=_encode_loops),
        Alternative(name="on a copy, cut from a longer table", right=_encode_on_a_copy),
        Alternative(name="torch", right=_encode_torch, backend="torch"),
    ],
    hints=[
        "Call the program twice with the same arguments. Then print what it gives for a piece with "
        "start 3. Then compare the columns at width 4 with the formula.",
        "Three questions: whose array is `table`; which line should know of `start`; which "
        "exponent does the formula give columns 2 and 3?",
        "`table[ids]` is a new array, and may be multiplied. Positions run from start to "
        "start + n − 1. And `columns // 2` is i, where the formula has 2i.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [
    _EMBED,
    _EMBEDDING_GRADIENT,
    _SINUSOIDAL,
    _SHIFT,
    _TIED_LOGITS,
    _SAVED,
    _BUG_STREAM,
]

BROKEN = {"04.bug_stream": encode_broken}
