"""The exercise of chapter 12 that counts what a training step has to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.model import Alternative, Exercise

__all__ = ["ACTIVATION_BYTES", "activation_bytes"]


def activation_bytes(
    n: int,
    d: int,
    n_heads: int,
    d_ff: int,
    n_layers: int,
    batch: int = 1,
    bytes_each: int = 4,
    checkpointing: bool = False,
) -> tuple[int, int]:
    """Return the bytes that encoder layers keep for backward.

    Parameters
    ----------
    n : int
        Tokens.
    d, n_heads, d_ff, n_layers : int
    batch : int, default 1
    bytes_each : int, default 4
        Of a number.
    checkpointing : bool, default False
        Whether layers keep their inputs only, but for the one that is being computed again.

    Returns
    -------
    tables, others : int
        Of attention's weights, and of everything else.
    """
    tables, others = _kept()(n, d, n_heads, d_ff, n_layers, batch, bytes_each, checkpointing)
    return tables, others


def _layers(n: int, d: int, h: int, d_ff: int, n_layers: int, *rest: Any) -> dict[str, Any]:
    names = ("batch", "bytes_each", "checkpointing")
    return {
        "n": n,
        "d": d,
        "n_heads": h,
        "d_ff": d_ff,
        "n_layers": n_layers,
        **dict(zip(names, rest, strict=False)),
    }


_CASES = [
    case("one layer, 3 tokens of width 5 | small enough for paper", _layers(3, 5, 1, 8, 1)),
    case("one layer, 4 heads | each head has a table", _layers(5, 8, 4, 11, 1)),
    case("3 layers, a batch of 2, half precision", _layers(7, 6, 3, 10, 3, 2, 2)),
    case(
        "the paper's width, 4,096 tokens, 12 layers | 6 GiB of tables",
        _layers(4096, 512, 8, 2048, 12),
    ),
    case(
        "checkpointing, one layer | it's computed again, and nothing is saved",
        _layers(5, 8, 2, 20, 1, 3, 4, True),
    ),
    case(
        "checkpointing, 12 layers | the inputs of 11, and everything of one",
        _layers(64, 16, 4, 50, 12, 2, 4, True),
    ),
]

_Rule = Callable[..., int]


def _others(n: int, d: int, h: int, f: int) -> int:
    return n * (8 * d + f + 4)


def _kept(
    table: _Rule = lambda n, d, h: h * n * n,
    other: _Rule = _others,
    layers: _Rule = lambda n_layers: n_layers,
    batches: tuple[_Rule, _Rule] = (lambda batch: batch, lambda batch: batch),
    size: _Rule = lambda bytes_each: bytes_each,
    saving: Callable[..., tuple[int, int]] | None = None,
    obeys: bool = True,
) -> Callable[..., Any]:
    """Return the count with some lines replaced. `saving` is what checkpointing leaves."""

    def left(tables: int, others: int, given: int, n_layers: int) -> tuple[int, int]:
        return tables, others + (n_layers - 1) * given

    def kept(
        n: int,
        d: int,
        n_heads: int,
        d_ff: int,
        n_layers: int,
        batch: int = 1,
        bytes_each: int = 4,
        checkpointing: bool = False,
    ) -> Any:
        tables, others, given = table(n, d, n_heads), other(n, d, n_heads, d_ff), n * d
        if checkpointing and obeys:
            found = (saving or left)(tables, others, given, layers(n_layers))
        else:
            found = layers(n_layers) * tables, layers(n_layers) * others
        return tuple(
            size(bytes_each) * times(batch) * x for times, x in zip(batches, found, strict=True)
        )

    return kept


def _of(change: Callable[[int, int, int, int], int]) -> _Rule:
    """Return what a layer keeps besides tables, changed for one token."""
    return lambda n, d, h, f: _others(n, d, h, f) + n * change(n, d, h, f)


def _second_first(*given: Any, **named: Any) -> Any:
    return _kept()(*given, **named)[::-1]


_WRONG = [
    wrong(
        _kept(table=lambda n, d, h: n * n),
        "one table for all heads | With one head you're right; you count one table however many "
        "heads there are. → How many tables of weights does attention with h heads have?",
    ),
    wrong(
        _kept(table=lambda n, d, h: h * n),
        "a table of one row | Your tables grow with n, where they should grow with its square. → "
        "How many weights has each of n tokens, in each head?",
    ),
    wrong(
        _kept(table=lambda n, d, h: h * n * n * d),
        "a vector in each cell of the table | Your tables are d times too large. A weight is one "
        "number. → Which axis is summed away when a query meets a key?",
    ),
    wrong(
        _kept(table=lambda n, d, h: n * n * d),
        "tables as wide as tokens | Your tables have n² d numbers: that's how many "
        "multiplications they take. → How many numbers does a head's table have?",
    ),
    wrong(
        _kept(table=lambda n, d, h: n * n * d // h),
        "tables as wide as a head | Your tables have n² numbers for each of the d/h of a head. → "
        "How many numbers has one head's table, and how many heads are there?",
    ),
    wrong(
        _kept(table=lambda n, d, h: 2 * h * n * n),
        "two tables a head | this exercise uses a softmax that keeps nothing but its result; you "
        "keep two tables a head, as the course's own softmax does (exponentials and weights). → "
        "What does the table on the page list?",
        variant=True,
    ),
    wrong(
        _kept(table=lambda n, d, h: h * n * (n + 1) // 2),
        "half a table | You keep half of each table, as if a causal mask saved the rest. An "
        "encoder has no such mask, and a hidden weight is a number, too. → How many numbers has "
        "the table?",
    ),
    wrong(
        _kept(batches=(lambda batch: 1, lambda batch: batch)),
        "tables of one sequence | With one sequence you're right. In a batch your tables are those "
        "of one. → Do two sequences share a table of weights?",
    ),
    wrong(
        _kept(batches=(lambda batch: 1, lambda batch: 1)),
        "the batch left out | With one sequence you're right; you keep those of one whatever the "
        "batch is. → Where does `batch` come in?",
    ),
    wrong(
        _kept(batches=(lambda batch: batch, lambda batch: 1)),
        "everything else of one sequence | With one sequence you're right. In a batch your second "
        "number is that of one. → Which of the listed tensors don't have a batch axis?",
    ),
    wrong(
        _kept(layers=lambda n_layers: 1),
        "one layer | With one layer you're right; you keep what one layer keeps however many there "
        "are. → What is still needed of layer 0 when backward reaches it?",
    ),
    wrong(
        _kept(size=lambda bytes_each: 1),
        "numbers, not bytes | You count numbers, and bytes are asked for. → Which argument says "
        "what one takes?",
    ),
    wrong(
        _kept(size=lambda bytes_each: 4),
        "always 4 bytes | In float32 you're right; in half precision a number takes less. → Which "
        "argument does your function never use?",
    ),
    wrong(
        _kept(size=lambda bytes_each: 8 * bytes_each),
        "bits | Your numbers are eight times as large: that many bits. → How many bits has a byte?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -3 * d)),
        "no queries, keys and values | Your second number lacks 3 d numbers a token. → Which three "
        "tensors do the products of attention multiply?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: 2 * d)),
        "the input three times | You keep the layer's input once for each of W_Q, W_K and W_V. "
        "It's one tensor, which all three point to. → How often does it stand in memory?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -d)),
        "one tensor of width d left out | Your second number lacks d numbers a token: one of the "
        "tensors of that width is missing. → Which products and norms of the list have you got?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: d)),
        "one tensor of width d too many | Your second number has d numbers a token more than it "
        "should. The layer's output, for one, is the next layer's input and is counted there. → "
        "Which lines of the list have you counted twice?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -2 * d)),
        "two tensors of width d left out | Your second number lacks 2 d numbers a token. → Have "
        "you counted what both norms read?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -2 * d - 4)),
        "no norms | Your second number lacks what the two norms keep. → What does a norm's row in "
        "the list say, and how many norms has a layer?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -d - 2)),
        "one norm | Your second number lacks what one norm keeps. → How many norms has an encoder "
        "layer?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -4)),
        "no mean and deviation | Your second number lacks what the norms keep besides their input. "
        "→ Which two numbers of each token does a norm need on the way back?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -2)),
        "one number a token and norm | Your norms keep one number of each token besides their "
        "input. → Which two does the list name?",
    ),
    wrong(
        _kept(other=lambda n, d, h, f: n * (8 * d + f) + 4),
        "one mean for all tokens | Your norms keep one mean and one deviation for the whole "
        "sequence. → Over which numbers does layer norm take a mean?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: 4 * d - 4)),
        "means as wide as tokens | Your norms keep a mean and a deviation for each *number* of a "
        "token. → Over which numbers are they taken?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: f)),
        "the inner numbers twice | You keep what the network's first layer makes and what ReLU "
        "leaves of it. ReLU needs only its result: where that's 0, nothing comes back. → How many "
        "tensors of width d_ff are in the list?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: -f)),
        "no inner numbers | Your second number lacks what ReLU leaves, d_ff numbers a token. → "
        "What does W_2 multiply?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: 4 * d - f)),
        "d_ff taken for 4 d | Your network is four times as wide inside as outside, whatever "
        "`d_ff` says. → Where does `d_ff` come in?",
    ),
    wrong(
        _kept(other=_of(lambda n, d, h, f: (h - 1) * 3 * d)),
        "queries, keys and values h times | With one head you're right; you give each head "
        "queries, keys and values of width d. → How wide is a head if h of them share d?",
    ),
    wrong(
        _kept(other=lambda n, d, h, f: _others(n, d, h, f) + 4 * d * d + 2 * d * f),
        "weights counted too | Your second number has the layer's matrices in it. They're there "
        "anyway, and don't grow with the batch. → What is an activation?",
    ),
    wrong(
        _kept(other=lambda n, d, h, f: _others(n, d, h, f) + h * n * n),
        "tables counted twice | Your second number has the tables of weights in it, which are the "
        "first. → Which line of the list belongs to neither a token's width nor its norms?",
    ),
    wrong(
        _second_first,
        "the two exchanged | Your numbers are right and come in another order: everything else "
        "stands first. → In which order does the docstring name the two?",
    ),
    wrong(
        lambda n, d, n_heads, d_ff, n_layers, batch=1, bytes_each=4, checkpointing=False: _kept()(
            n, d, n_heads, d_ff, n_layers, batch, bytes_each, not checkpointing
        ),
        "checkpointing the wrong way round | You keep little where there's no checkpointing, and "
        "everything where there is. → Which of your two branches belongs to which?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (n_layers * t, n_layers * given)),
        "tables and inputs kept | With checkpointing you keep all layers' inputs and tables. "
        "Tables are what one would like to be rid of. → What does a layer keep until it's computed "
        "again?",
    ),
    wrong(
        _kept(obeys=False),
        "checkpointing left out | Without checkpointing you're right; with it you keep everything "
        "all the same. → What does a layer keep until it's computed again?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (0, n_layers * given)),
        "nothing is computed again | With checkpointing you keep all inputs, but nothing of the "
        "layer that is being computed again: while its gradients are computed, all of it is there. "
        "→ How many layers keep everything at one moment?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (t, o + n_layers * given)),
        "an input counted twice | With checkpointing you keep N inputs and everything of one "
        "layer, whose input is in that already. → How many other layers are there?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (t, o)),
        "one layer alone | With checkpointing you keep everything of one layer, and of the others "
        "nothing. → From what are they computed again?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (n_layers * t, o + (n_layers - 1) * given)),
        "all tables kept | With checkpointing your second number is right, and the tables are "
        "those of all layers. → Whose tables are there while one layer is computed again?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (t, n_layers * o)),
        "only tables dropped | With checkpointing you drop the tables of all layers but one, and "
        "keep all the rest. → What does a layer keep until it's computed again?",
    ),
    wrong(
        _kept(saving=lambda t, o, given, n_layers: (0, o + (n_layers - 1) * given)),
        "no table at all | With checkpointing your second number is right. The layer that is being "
        "computed again has its tables as well. → How many layers keep everything at one moment?",
    ),
]


def _line_by_line(
    n: int,
    d: int,
    n_heads: int,
    d_ff: int,
    n_layers: int,
    batch: int = 1,
    bytes_each: int = 4,
    checkpointing: bool = False,
) -> Any:
    """List a layer's tensors by their shapes."""
    shapes = {
        "input": (batch, n, d),
        "queries": (batch, n_heads, n, d // n_heads),
        "keys": (batch, n_heads, n, d // n_heads),
        "values": (batch, n_heads, n, d // n_heads),
        "weights": (batch, n_heads, n, n),
        "heads": (batch, n, d),
        "first sum": (batch, n, d),
        "first mean": (batch, n),
        "first deviation": (batch, n),
        "network's input": (batch, n, d),
        "inner": (batch, n, d_ff),
        "second sum": (batch, n, d),
        "second mean": (batch, n),
        "second deviation": (batch, n),
    }
    size = {name: bytes_each * int(np.prod(shape)) for name, shape in shapes.items()}
    whole = [1] * n_layers if not checkpointing else [1] + [0] * (n_layers - 1)
    tables = sum(size["weights"] for full in whole if full)
    one = sum(size.values()) - size["weights"]
    return [tables, sum(one if full else size["input"] for full in whole)]


def _arrays(
    n: int,
    d: int,
    h: int,
    f: int,
    n_layers: int,
    batch: int = 1,
    bytes_each: int = 4,
    checkpointing: bool = False,
) -> Any:
    layer = np.array([h * n, 8 * d + f + 4], np.int64)
    light = np.array([0, d], np.int64)
    full = 1 if checkpointing else n_layers
    return tuple(bytes_each * batch * n * (full * layer + (n_layers - full) * light))


def _torch(
    n: int,
    d: int,
    h: int,
    f: int,
    n_layers: int,
    batch: int = 1,
    bytes_each: int = 4,
    checkpointing: bool = False,
) -> Any:
    """Take the sizes of tensors without numbers."""
    import torch

    with torch.device("meta"):
        x, inner, row = torch.empty(batch, n, d), torch.empty(batch, n, f), torch.empty(batch, n)
        table = torch.empty(batch, h, n, n)
    one = 8 * x.numel() + inner.numel() + 4 * row.numel()
    full = 1 if checkpointing else n_layers
    others = full * one + (n_layers - full) * x.numel()
    return bytes_each * full * table.numel(), torch.tensor(bytes_each * others)


ACTIVATION_BYTES = Exercise(
    id="12.activation_bytes",
    function="activation_bytes",
    reference=activation_bytes,
    guarded=[accounting.activation_memory],
    cases=_CASES,
    returns=("tables", "others"),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="a list of shapes", right=_line_by_line),
        Alternative(name="both at once", right=_arrays),
        Alternative(name="torch", right=_torch, backend="torch"),
    ],
    hints=[
        "Count numbers of one layer and one sequence first: the tables, then all else, line by "
        "line of the list. Bytes, batch and layers are factors.",
        "Of width d there are eight tensors: the input, queries, keys, values, the heads side by "
        "side, what each of two norms reads, and what the network reads.",
        "With checkpointing, one layer keeps all of that, its tables as well, and each of the "
        "other N − 1 its input.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)
