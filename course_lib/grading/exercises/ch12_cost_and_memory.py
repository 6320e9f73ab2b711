"""The exercises of chapter 12: memory, FLOPs, bottlenecks, time, and a sheet that miscounts.

Memory is in `memory_counts`, what counts FLOPs in `flop_counts`.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.flop_counts import (
    BOTTLENECK,
    CROSSOVER,
    TRAINING_FLOPS,
    TRAINING_TIME,
)
from course_lib.grading.exercises.inputs import as_cell
from course_lib.grading.exercises.memory_counts import ACTIVATION_BYTES
from course_lib.grading.model import Alternative, Exercise, Misconception

__all__ = ["BROKEN", "EXERCISES", "cost_sheet", "cost_sheet_broken"]


# -- 12.bug_sheet ----------------------------------------------------------------------------------


def cost_sheet(
    n: int, d: int, n_heads: int, d_ff: int, n_layers: int, vocab_size: int, batch: int = 1
) -> tuple[int, int, int]:
    """Return what a small language model costs in training.

    Parameters
    ----------
    n : int
        Tokens.
    d, n_heads, d_ff, n_layers, vocab_size : int
        Layers without biases, with two norms each; one table of embeddings, which makes the logits
        as well.
    batch : int, default 1

    Returns
    -------
    parameters : int
    flops : int
        Of a training step.
    memory : int
        Bytes of parameters, gradients, Adam's state and tables of attention, in float32.
    """
    parameters, flops, memory = _sheet()(n, d, n_heads, d_ff, n_layers, vocab_size, batch)
    return parameters, flops, memory


def cost_sheet_broken(
    n: int, d: int, n_heads: int, d_ff: int, n_layers: int, vocab_size: int, batch: int = 1
) -> tuple[int, int, int]:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    table = vocab_size * d
    layer = 4 * d * d + 2 * d * d_ff + 2 * 2 * d
    parameters = 2 * table + n_layers * layer

    projections = 8 * n * d * d
    scores_and_sums = 4 * n_heads * n * n * d
    network = 4 * n * d * d_ff
    logits = 2 * n * d * vocab_size
    forward = n_layers * (projections + scores_and_sums + network) + logits
    flops = 3 * batch * forward

    learning = parameters + parameters + parameters  # and gradients, and Adam's
    tables = batch * n_layers * n_heads * n * n
    return parameters, flops, 4 * (learning + tables)


def _sizes(
    n: int, d: int, h: int, d_ff: int, n_layers: int, vocab: int, *rest: int
) -> dict[str, Any]:
    names = ("n", "d", "n_heads", "d_ff", "n_layers", "vocab_size", "batch")
    return dict(zip(names, (n, d, h, d_ff, n_layers, vocab, *rest), strict=False))


_CASES = [
    case("2 tokens of width 2, 2 heads | small enough for paper", _sizes(2, 2, 2, 3, 1, 4)),
    case("one token | one score a head", _sizes(1, 6, 3, 10, 1, 7)),
    case("5 tokens, 4 heads | heads share the width", _sizes(5, 8, 4, 20, 1, 11)),
    case(
        "3 layers, a batch of 6 | what grows with them, and what doesn't",
        _sizes(7, 6, 2, 9, 3, 13, 6),
    ),
    case(
        "a small GPT, 1,024 tokens | 12 layers of width 768",
        _sizes(1024, 768, 12, 3072, 12, 50_257, 8),
    ),
]

_Rule = Callable[..., int]


def _sheet(
    tables: _Rule = lambda v, d: v * d,
    norms: _Rule = lambda d: 4 * d,
    biases: _Rule = lambda d, d_ff: 0,
    scores: _Rule = lambda n, d, h: 4 * n * n * d,
    logits: _Rule = lambda n, d, v: 2 * n * d * v,
    logit_layers: _Rule = lambda n_layers: 1,
    passes: int = 3,
    learning: _Rule = lambda parameters, learned: 4 * parameters,
    kept: _Rule = lambda n, h, n_layers, batch: batch * n_layers * h * n * n,
    size: int = 4,
    table_size: int | None = None,
) -> Callable[..., Any]:
    """Return the sheet with some lines replaced."""

    def sheet(
        n: int, d: int, n_heads: int, d_ff: int, n_layers: int, vocab_size: int, batch: int = 1
    ) -> Any:
        h, v = n_heads, vocab_size
        layers = n_layers * (4 * d * d + 2 * d * d_ff + norms(d) + biases(d, d_ff))
        parameters = tables(v, d) + layers
        forward = n_layers * (8 * n * d * d + scores(n, d, h) + 4 * n * d * d_ff)
        forward += logit_layers(n_layers) * logits(n, d, v)
        tables_of = size if table_size is None else table_size
        memory = size * learning(parameters, layers) + tables_of * kept(n, h, n_layers, batch)
        return parameters, passes * batch * forward, memory

    return sheet


# What a repaired, or half repaired, line does: (name, function, what is said of it, next step).
# No name says that the line is right.
_Step = tuple[str, Any, str, str]
_TABLES: list[_Step] = [
    ("", lambda v, d: v * d, "", ""),
    (
        "the table twice",
        lambda v, d: 2 * v * d,
        "the table of embeddings is counted twice, in the parameters and so in the memory",
        "How often is a table learned that embeds tokens and makes logits?",
    ),
    (
        "no table",
        lambda v, d: 0,
        "the table of embeddings isn't counted at all",
        "How often is a table learned that embeds tokens and makes logits?",
    ),
]
_SCORES: list[_Step] = [
    ("", lambda n, d, h: 4 * n * n * d, "", ""),
    (
        "scores h times",
        lambda n, d, h: 4 * h * n * n * d,
        "each head's scores and sums are counted at the whole width",
        "What do h heads of width d/h cost together?",
    ),
    (
        "one head's scores",
        lambda n, d, h: 4 * n * n * d // h,
        "scores and sums are those of one head",
        "What do h heads of width d/h cost together?",
    ),
    (
        "a score of one multiplication",
        lambda n, d, h: 4 * h * n * n,
        "a score costs as little as one product of two numbers",
        "How many numbers do a query and a key have in one head?",
    ),
    (
        "scores without sums",
        lambda n, d, h: 2 * n * n * d,
        "scores are counted and the weighted sums aren't",
        "Which two products of a head have n² as a factor?",
    ),
]
_LEARNING: list[_Step] = [
    ("", lambda p, learned: 4 * p, "", ""),
    (
        "Adam with one number",
        lambda p, learned: 3 * p,
        "of Adam's state only one number is kept for each parameter",
        "Which two averages does Adam keep of each gradient?",
    ),
    (
        "no gradients",
        lambda p, learned: 3 * p - p,
        "two numbers are kept for each parameter",
        "Which four numbers belong to a parameter while it's being learned with Adam?",
    ),
    (
        "five numbers a parameter",
        lambda p, learned: 5 * p,
        "five numbers are kept for each parameter",
        "Which four numbers belong to a parameter while it's being learned with Adam?",
    ),
]
_FAULTS = {"the table twice", "scores h times", "Adam with one number"}


def _half_repaired() -> list[Misconception]:
    """Return one misconception for each way in which three lines can be left, but the right one."""
    found = []
    for steps in product(_TABLES, _SCORES, _LEARNING):
        tables, scores, learning = (step[1] for step in steps)
        bad = [step for step in steps if step[0]]
        names = [step[0] for step in bad]
        if not bad or set(names) == _FAULTS:
            continue
        left = set(names) <= _FAULTS
        start = "Still wrong in this sheet: "
        if left:
            start = "One fault is left: " if len(bad) == 1 else "Two faults are left: "
        found.append(
            wrong(
                _sheet(tables=tables, scores=scores, learning=learning),
                f"{', '.join(names)} | {start}{'; '.join(step[2] for step in bad)}. → {bad[0][3]}",
            )
        )
    return found


_WRONG = [
    wrong(
        cost_sheet_broken,
        "the sheet as it was | This is what the broken sheet returns: one fault is in each of its "
        "three results. → Which of them change if the number of heads doubles and the width "
        "stays, and which should?",
        program=as_cell(cost_sheet_broken, "cost_sheet"),
    ),
    *_half_repaired(),
    wrong(
        _sheet(learning=lambda p, layers: 4 * layers),
        "the table has no gradient | Parameters and FLOPs are right. In the memory the table of "
        "embeddings is missing: it's learned like everything else. → What does Adam keep for a "
        "row of it?",
    ),
    wrong(
        _sheet(learning=lambda p, layers: 2 * p + 2 * layers),
        "Adam without the table | Parameters and FLOPs are right. In the memory Adam keeps nothing "
        "for the table of embeddings. → Is it learned?",
    ),
    wrong(
        _sheet(kept=lambda n, h, n_layers, batch: batch * n_layers * n * n),
        "one table of attention a layer | Parameters and FLOPs are right. In the memory you've "
        "taken the heads out of the tables, too, where they belong. → How many tables has "
        "attention with h heads?",
    ),
    wrong(
        _sheet(
            scores=lambda n, d, h: 4 * h * n * n * d,
            kept=lambda n, h, n_layers, batch: batch * n_layers * n * n,
        ),
        "heads taken out of the wrong line | You've taken the heads out of the tables in memory, "
        "where each head has one. In the FLOPs, where heads share the width, they're still there. "
        "→ What do h heads of width d/h cost together?",
    ),
    wrong(
        _sheet(logits=lambda n, d, v: 0),
        "logits for free | Parameters are right, and the projection to the vocabulary has gone "
        "from the FLOPs. A shared table saves memory, not products. → What is multiplied with it "
        "at the end?",
    ),
    wrong(
        _sheet(logits=lambda n, d, v: 4 * n * d * v),
        "the embedding as a product | Parameters are right, and the FLOPs have a product with the "
        "table on the way in as well. A row is looked up. → What does a look-up multiply?",
    ),
    wrong(
        _sheet(norms=lambda d: 2 * d),
        "one norm a layer | The three faults are mended, and a norm has gone with them. → How "
        "many norms does the text give a layer, and which two vectors has each?",
    ),
    wrong(
        _sheet(biases=lambda d, d_ff: 5 * d + d_ff),
        "biases counted | The three faults are mended, and the layers have got biases. The text "
        "says that they've none. → Which line of the broken sheet was right as it stood?",
    ),
    wrong(
        _sheet(scores=lambda n, d, h: 2 * n * (n + 1) * d),
        "half a causal table | Parameters and memory are right. Of the scores you count what a "
        "causal mask leaves, and the product computes them all. → How many numbers has a head's "
        "table?",
    ),
    wrong(
        _sheet(logit_layers=lambda n_layers: n_layers),
        "logits in every layer | With one layer you're right; else the FLOPs have a projection to "
        "the vocabulary for each layer. → How often are logits computed?",
    ),
    wrong(
        _sheet(passes=6),
        "six forward passes | The three faults are mended, and a training step has become six "
        "forward passes. The 6 of 6 P D holds the 2 of a multiplication and an addition. → What do "
        "forward and backward cost together, in forward passes?",
    ),
    wrong(
        _sheet(kept=lambda n, h, n_layers, batch: 2 * batch * n_layers * h * n * n),
        "two tables a head | this exercise uses one table for each head, that of the weights; you "
        "keep two, as the course's own softmax does. → What does the text count of activations?",
        variant=True,
    ),
    wrong(
        _sheet(passes=1),
        "forward only | The three faults are mended, and the way back has gone from the FLOPs. → "
        "How many products does backward compute for each Y = X W?",
    ),
    wrong(
        _sheet(passes=2),
        "twice the forward pass | The three faults are mended, and a training step has become two "
        "forward passes. The broken sheet had three. → What does backward alone cost?",
    ),
    wrong(
        _sheet(kept=lambda n, h, n_layers, batch: n_layers * h * n * n),
        "tables of one sequence | The three faults are mended, and the batch has gone from the "
        "tables of attention. → Do two sequences share a table?",
    ),
    wrong(
        _sheet(table_size=1),
        "tables in numbers | Parameters and FLOPs are right. In the memory, what belongs to "
        "parameters is in bytes, and the tables of attention are in numbers. → How many bytes "
        "has a weight of attention in float32?",
    ),
    wrong(
        _sheet(table_size=16),
        "tables of 16 bytes a number | Parameters and FLOPs are right. In the memory you give a "
        "weight of attention the 16 bytes of a parameter. Nobody learns it. → Which of a "
        "parameter's four numbers does it have?",
    ),
    wrong(
        _sheet(norms=lambda d: 2 * d, biases=lambda d, d_ff: 5 * d + d_ff),
        "one norm, and biases | The three faults are mended. But a norm has gone from the layers, "
        "and biases have come. → What does the text say of both?",
    ),
    wrong(
        _sheet(norms=lambda d: 0),
        "no norms | The three faults are mended, and both norms have gone with them. → Which two "
        "vectors does a norm learn?",
    ),
    wrong(
        _sheet(learning=lambda p, layers: 4 * p, size=1),
        "numbers, not bytes | Parameters and FLOPs are right, and the memory is in numbers. → "
        "How many bytes has one in float32?",
    ),
]


def _of_lists(
    n: int, d: int, n_heads: int, d_ff: int, n_layers: int, vocab_size: int, batch: int = 1
) -> Any:
    """Take sizes of matrices, and of the products that they're in."""
    matrices = [(d, d)] * 4 + [(d, d_ff), (d_ff, d)]
    parameters = vocab_size * d + n_layers * (sum(a * b for a, b in matrices) + 4 * d)
    with_weights = [(n, a, b) for a, b in matrices] * n_layers + [(n, d, vocab_size)]
    width = d // n_heads
    heads = [(n, width, n), (n, n, width)] * n_heads * n_layers
    flops = sum(6 * batch * a * b * c for a, b, c in with_weights + heads)
    learning = {"parameters": 1, "gradients": 1, "means": 1, "squares": 1}
    tables = sum(n * n for _ in range(batch * n_layers * n_heads))
    return [parameters, flops, 4 * (sum(learning.values()) * parameters + tables)]


def _of_arrays(n: int, d: int, h: int, f: int, n_layers: int, v: int, batch: int = 1) -> Any:
    matrices = np.array([v * d, n_layers * 2 * d * (2 * d + f)], np.int64)
    parameters = matrices.sum() + 4 * d * n_layers
    flops = 6 * batch * n * (matrices.sum() + 2 * n_layers * n * d)
    return parameters, flops, 16 * parameters + 4 * batch * n_layers * h * n**2


def _of_torch(n: int, d: int, h: int, f: int, n_layers: int, v: int, batch: int = 1) -> Any:
    import torch

    with torch.device("meta"):
        table = torch.empty(v, d)
        layer = [torch.empty(d, d)] * 4 + [torch.empty(f, d)] * 2 + [torch.empty(d)] * 4
        attention = torch.empty(batch, n_layers, h, n, n)
    learned = table.numel() + n_layers * sum(w.numel() for w in layer)
    multiplied = learned - 4 * d * n_layers
    flops = 6 * batch * n * multiplied + 12 * attention.numel() * (d // h)
    return torch.tensor(learned), flops, torch.tensor(16 * learned + 4 * attention.numel())


_SHEET = Exercise(
    id="12.bug_sheet",
    function="cost_sheet",
    reference=cost_sheet,
    guarded=[accounting.training_memory, accounting.training_flops],
    cases=_CASES,
    returns=("parameters", "flops", "memory"),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="lists of products", right=_of_lists),
        Alternative(name="arrays", right=_of_arrays),
        Alternative(name="torch", right=_of_torch, backend="torch"),
    ],
    hints=[
        "Work out the first case on paper, line by line, and compare. Then ask of each line what "
        "it does when the number of heads doubles and d stays.",
        "There's one fault in each of the three results: one says how often something is learned, "
        "one how wide a head is, one what Adam remembers.",
        "The table is learned once. h heads of width d/h cost what one of width d does. And "
        "besides its gradient a parameter has two averages.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [ACTIVATION_BYTES, TRAINING_FLOPS, BOTTLENECK, CROSSOVER, TRAINING_TIME, _SHEET]

#: The program that the debugging exercise begins with.
BROKEN: dict[str, Callable[..., Any]] = {"12.bug_sheet": cost_sheet_broken}
