"""What every block costs, as formulas in one place.

A function here has the name of the block that it describes and takes the sizes as numbers. It
returns the block's lines of code in order, each with its `Cost`; `total` adds them up.

Conventions
-----------
- A multiplication and an addition are 1 FLOP each, so a product of matrices (n × m) (m × p) is
  2 n m p. PyTorch's counter says the same, and counts nothing but such products.
- What is done element by element is kept apart: 1 FLOP for each addition, multiplication,
  division, comparison or exponential. Scaling is 1 an element; softmax is 5 (maximum, difference,
  exponential, sum, division). A tanh or a sigmoid is 1, as an exponential is. A mask is free.
- Activations are the numbers that a line writes, whether they are kept or not.
- Steps are those that have to wait for one another, however many processors there are: products
  of matrices and sums over a row. What is done to each element alone comes with the step before it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from course_lib.validation import (
    check_at_least,
    check_callable,
    check_choice,
    check_divides,
    check_even,
    check_flag,
    check_number,
    check_positive_int,
    describe,
)

__all__ = [
    "Cost",
    "activation_memory",
    "convolution",
    "count_flops",
    "count_saved_bytes",
    "crossover_length",
    "decoder_block",
    "decoder_layer",
    "decoder_only",
    "decoding",
    "embedding",
    "encoder_decoder",
    "encoder_layer",
    "feed_forward",
    "grouped_query_attention",
    "gru",
    "kv_cache",
    "layer_norm",
    "live_bytes",
    "longest_path",
    "lstm",
    "memory",
    "multi_head_attention",
    "output_projection",
    "plain_self_attention",
    "positions",
    "rms_norm",
    "rnn",
    "rotary",
    "scaled_dot_product_attention",
    "swiglu",
    "tied_logits",
    "total",
    "training_flops",
    "training_memory",
    "training_time",
    "watch_live_bytes",
]

_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "bool": 1}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a line of code, a block or a model costs. Costs add up by ``+``.

    Parameters
    ----------
    flops : int, default 0
        Of products of matrices.
    elementwise_flops : int, default 0
        Of everything else.
    activations : int, default 0
        Numbers written.
    parameters : int, default 0
        Numbers learned.
    steps : int, default 0
        Steps that follow one another.

    Raises
    ------
    ValueError
        If a number isn't a whole one of at least 0.

    Examples
    --------
    >>> Cost(flops=6, steps=1) + Cost(flops=4, steps=1)
    Cost(flops=10, elementwise_flops=0, activations=0, parameters=0, steps=2)
    """

    flops: int = 0
    elementwise_flops: int = 0
    activations: int = 0
    parameters: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            check_at_least(name, number, 0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            flops=self.flops + other.flops,
            elementwise_flops=self.elementwise_flops + other.elementwise_flops,
            activations=self.activations + other.activations,
            parameters=self.parameters + other.parameters,
            steps=self.steps + other.steps,
        )


def total(lines: Mapping[str, Cost]) -> Cost:
    """Add up the lines of a block.

    Parameters
    ----------
    lines : mapping of names to costs

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If `lines` isn't a mapping of costs.

    Examples
    --------
    >>> total(scaled_dot_product_attention(10, 10, 64, 64)).flops
    25600
    """
    if not isinstance(lines, Mapping):
        raise ValueError(f"lines must be a mapping of names to costs; got {lines!r}")
    for name, cost in lines.items():
        if not isinstance(cost, Cost):
            raise ValueError(f"lines[{name!r}] must be a Cost; got {cost!r}")
    return sum(lines.values(), Cost())


def scaled_dot_product_attention(
    n_q: int, n_k: int, d_k: int, d_v: int, batch: int = 1
) -> dict[str, Cost]:
    """Return what the lines of scaled dot-product attention cost.

    ``2 n_q n_k d_k`` FLOPs for the scores and ``2 n_q n_k d_v`` for the output, whatever the mask.

    Parameters
    ----------
    n_q, n_k : int
        Numbers of queries and of keys.
    d_k, d_v : int
        Widths of keys and of values.
    batch : int, default 1
        Product of the leading axes: sequences times heads.

    Returns
    -------
    dict of costs by line: "scores", "scale", "softmax", "output"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), table 1.

    Examples
    --------
    >>> lines = scaled_dot_product_attention(n_q=2, n_k=5, d_k=8, d_v=3)
    >>> {name: cost.flops for name, cost in lines.items()}
    {'scores': 160, 'scale': 0, 'softmax': 0, 'output': 60}
    >>> total(lines).parameters, lines["softmax"].elementwise_flops
    (0, 50)
    """
    _check_sizes(n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v, batch=batch)
    table = batch * n_q * n_k
    answer = batch * n_q * d_v
    return {
        "scores": Cost(flops=2 * table * d_k, activations=table, steps=1),
        # a factor of the scores: it waits for nothing that the product didn't wait for
        "scale": Cost(elementwise_flops=table, activations=table),
        "softmax": Cost(elementwise_flops=5 * table, activations=table, steps=1),
        "output": Cost(flops=2 * table * d_v, activations=answer, steps=1),
    }


def plain_self_attention(n: int, d: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of self-attention without projections and scaling cost.

    ``4 n² d`` FLOPs: quadratic in the length, and three steps however long the sequence is.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "scores", "softmax", "output"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), table 1.

    Examples
    --------
    >>> cost = total(plain_self_attention(n=10, d=64))
    >>> cost.flops, cost.steps, cost.parameters
    (25600, 3, 0)
    """
    _check_sizes(n=n, d=d, batch=batch)
    lines = scaled_dot_product_attention(n, n, d, d, batch)
    del lines["scale"]
    return lines


def rnn(n: int, d: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of a plain recurrent layer cost, states as wide as tokens.

    ``4 n d²`` FLOPs: linear in the length, and as many steps as there are tokens.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Width of tokens and states.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "input" (all of W_x x), "state" (all of W_h h), "tanh" (sums included)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), table 1.

    Examples
    --------
    >>> cost = total(rnn(n=10, d=64))
    >>> cost.flops, cost.steps, cost.parameters
    (163840, 10, 8320)
    """
    _check_sizes(n=n, d=d, batch=batch)
    numbers = batch * n * d
    return {
        **_recurrent_products(n, d, batch, n_gates=1),
        # three sums and the tanh
        "tanh": Cost(elementwise_flops=4 * numbers, activations=numbers, parameters=2 * d),
    }


def gru(n: int, d: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of a layer of gated recurrent units cost, states as wide as tokens.

    ``12 n d²`` FLOPs, three times those of a plain recurrent layer, in as many steps as there are
    tokens. Cho et al. reset the state before its product, which makes it two steps a token.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Width of tokens and states.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "input" (all of W_x x), "state" (all of W_h h), "gates" (the rest)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
    Translation", 2014 (arXiv:1406.1078).

    Examples
    --------
    >>> cost = total(gru(n=10, d=64))
    >>> cost.flops, cost.steps, cost.parameters
    (491520, 10, 24960)
    """
    _check_sizes(n=n, d=d, batch=batch)
    numbers = batch * n * d
    return {
        **_recurrent_products(n, d, batch, n_gates=3),
        # 6 for the biases, 2 for r, 2 for z, 3 for n, 4 for h; r, z, n and h are written
        "gates": Cost(elementwise_flops=17 * numbers, activations=4 * numbers, parameters=6 * d),
    }


def lstm(n: int, d: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of a layer of long short-term memory cost, states as wide as tokens.

    ``16 n d²`` FLOPs, four times those of a plain recurrent layer, in as many steps as there are
    tokens.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Width of tokens, states and cells.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "input" (all of W_x x), "state" (all of W_h h), "gates" (the rest)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    Examples
    --------
    >>> cost = total(lstm(n=10, d=64))
    >>> cost.flops, cost.steps, cost.parameters
    (655360, 10, 33280)
    """
    _check_sizes(n=n, d=d, batch=batch)
    numbers = batch * n * d
    return {
        **_recurrent_products(n, d, batch, n_gates=4),
        # 12 for sums, 4 for i, f, g and o, 3 for c, 2 for h; these six are written
        "gates": Cost(elementwise_flops=21 * numbers, activations=6 * numbers, parameters=8 * d),
    }


def convolution(n: int, d: int, width: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of a convolution over a sequence cost, as many channels out as in.

    ``2 n w d²`` FLOPs: every token is computed from the w tokens around it by one product of
    matrices. Zeros beyond the ends are multiplied too.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width, the channels.
    width : int
        How many neighbouring tokens are seen, w: odd, as many to the left as to the right.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "convolution", "bias"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `width` isn't odd.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), table 1.

    Examples
    --------
    >>> cost = total(convolution(n=10, d=64, width=3))
    >>> cost.flops, cost.steps, cost.parameters
    (245760, 1, 12352)
    """
    _check_sizes(n=n, d=d, batch=batch)
    _check_width(width)
    numbers, weights = batch * n * d, width * d * d
    return {
        "convolution": Cost(
            flops=2 * batch * n * weights, activations=numbers, parameters=weights, steps=1
        ),
        "bias": Cost(elementwise_flops=numbers, activations=numbers, parameters=d),
    }


def longest_path(layer: str, n: int, width: int | None = None) -> int:
    """Return how many links lie between the two ends of a sequence.

    A link is what a layer connects directly. Self-attention connects any two tokens, so all are one
    link apart. A recurrence connects each state with the next: n − 1 links. A convolution of width
    w connects tokens at most (w − 1) / 2 apart, and farther ones by a stack of ⌈(n − 1) / ((w − 1)
    / 2)⌉ layers.

    Parameters
    ----------
    layer : str
        "plain_self_attention", "rnn", "gru", "lstm" or "convolution".
    n : int
        Tokens. One token alone is 0 links from itself.
    width : int, optional
        Of a convolution, odd and at least 3; not for other layers.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the layer is none of these, `n` isn't a whole number of at least 1, or `width` is missing
        where it is needed, given where it isn't, even, or too narrow to connect anything.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), table 1. They give
    O(log n) for convolutions, whose layers then look farther and farther apart (dilation).

    Examples
    --------
    >>> longest_path("plain_self_attention", 50), longest_path("gru", 50)
    (1, 49)
    >>> longest_path("convolution", 50, width=5)
    25
    """
    recurrent = ("rnn", "gru", "lstm")
    layers = ("plain_self_attention", "convolution", *recurrent)
    if not isinstance(layer, str) or layer not in layers:
        raise ValueError(
            f"layer must be one of plain_self_attention, rnn, gru, lstm, convolution; got {layer!r}"
        )
    check_positive_int("n", n)
    if layer == "convolution":
        reach = (_check_width(width) - 1) // 2
        if reach == 0:
            raise ValueError("width must be at least 3 for tokens to be connected; got 1")
        return ceil((n - 1) / reach)
    if width is not None:
        raise ValueError(f"width must be left out for {layer}; got {width!r}")
    return n - 1 if layer in recurrent else min(n - 1, 1)


def multi_head_attention(
    n_q: int, n_k: int, d: int, n_heads: int, batch: int = 1, bias: bool = True
) -> dict[str, Cost]:
    """Return what the lines of multi-head attention cost, heads d/h wide and all matrices (d, d).

    ``4 n_q d² + 4 n_k d² + 4 n_q n_k d`` FLOPs, for self-attention ``8 n d² + 4 n² d``, whatever
    the number of heads. A fused projection costs the same.

    Parameters
    ----------
    n_q, n_k : int
        Numbers of tokens that ask and that are asked.
    d : int
        Their width.
    n_heads : int
        h, which divides `d`.
    batch : int, default 1
        Sequences.
    bias : bool, default True
        Whether the four projections have biases.

    Returns
    -------
    dict of costs by line
        "queries", "keys", "values", "scores", "scale", "softmax", "heads" (the weighted sums),
        "merge" (a copy) and "output" (the projection by W_O).

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `n_heads` doesn't divide `d`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.2.2.

    Examples
    --------
    >>> cost = total(multi_head_attention(n_q=10, n_k=10, d=64, n_heads=8))
    >>> cost.flops, cost.steps, cost.parameters
    (353280, 5, 16640)
    """
    _check_sizes(n_q=n_q, n_k=n_k, d=d, n_heads=n_heads, batch=batch)
    check_divides("n_heads", n_heads, "d", d)
    d_head = d // n_heads
    attention = scaled_dot_product_attention(n_q, n_k, d_head, d_head, batch * n_heads)

    def projection(n: int, steps: int) -> Cost:
        numbers = batch * n * d
        return Cost(
            flops=2 * numbers * d,
            elementwise_flops=numbers if bias else 0,
            activations=numbers,
            parameters=d * d + (d if bias else 0),
            steps=steps,
        )

    return {
        # the three wait for nothing: one step; splitting into heads moves no number
        "queries": projection(n_q, steps=1),
        "keys": projection(n_k, steps=0),
        "values": projection(n_k, steps=0),
        "scores": attention["scores"],
        "scale": attention["scale"],
        "softmax": attention["softmax"],
        "heads": attention["output"],
        "merge": Cost(activations=batch * n_q * d),  # a copy
        "output": projection(n_q, steps=1),
    }


def embedding(
    n: int, vocab_size: int, d: int, batch: int = 1, scale: bool = True
) -> dict[str, Cost]:
    """Return what the lines of an embedding cost: a row of the table for each token, times √d.

    No product: ``n d`` numbers are copied. What it costs is parameters, ``|V| d``.

    Parameters
    ----------
    n : int
        Tokens.
    vocab_size : int
        Rows of the table, |V|.
    d : int
        Their width.
    batch : int, default 1
        Sequences.
    scale : bool, default True
        Whether what is looked up is multiplied by √d.

    Returns
    -------
    dict of costs by line: "look-up", "scale"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.4.

    Examples
    --------
    >>> cost = total(embedding(n=10, vocab_size=32_000, d=512))
    >>> cost.flops, cost.parameters
    (0, 16384000)
    """
    _check_sizes(n=n, vocab_size=vocab_size, d=d, batch=batch)
    numbers = batch * n * d
    return {
        "look-up": Cost(activations=numbers, parameters=vocab_size * d),
        "scale": Cost(elementwise_flops=numbers, activations=numbers) if scale else Cost(),
    }


def positions(n: int, d: int, batch: int = 1, max_length: int | None = None) -> dict[str, Cost]:
    """Return what adding positions to embeddings costs: ``n d`` additions a sequence.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width; even where positions are sinusoidal.
    batch : int, default 1
        Sequences. All share one table.
    max_length : int, optional
        Rows of a learned table, at least `n`. Where left out, positions are sinusoidal: computed,
        not learned.

    Returns
    -------
    dict of costs by line: "table" (n d/2 angles, each with a sine and a cosine; for a learned one
    a look-up), "sum"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, `d` is odd where it mustn't be, or
        `max_length` is below `n`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.5.

    Examples
    --------
    >>> total(positions(n=10, d=512)).parameters
    0
    >>> total(positions(n=10, d=768, max_length=1024)).parameters  # GPT-2
    786432
    """
    _check_sizes(n=n, d=d, batch=batch)
    if max_length is None:
        check_even("d", d)
        table = Cost(elementwise_flops=3 * n * (d // 2), activations=3 * n * (d // 2))
    else:
        check_at_least("max_length", max_length, n)
        table = Cost(parameters=max_length * d)
    numbers = batch * n * d
    return {"table": table, "sum": Cost(elementwise_flops=numbers, activations=numbers)}


def output_projection(
    n: int, d: int, vocab_size: int, batch: int = 1, bias: bool = True, tied: bool = False
) -> dict[str, Cost]:
    """Return what the lines of the projection onto the vocabulary cost.

    ``2 n d |V|`` FLOPs; tied to the embedding or not makes no difference to them.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width.
    vocab_size : int
        Scores a token, |V|.
    batch : int, default 1
        Sequences.
    bias : bool, default True
    tied : bool, default False
        Whether the matrix is the embedding's, and so counted there.

    Returns
    -------
    dict of costs by line: "product", "bias"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.4.

    Examples
    --------
    >>> total(output_projection(n=1, d=512, vocab_size=32_000)).parameters
    16416000
    """
    _check_sizes(n=n, d=d, vocab_size=vocab_size, batch=batch)
    numbers = batch * n * vocab_size
    return {
        "product": Cost(
            flops=2 * numbers * d,
            activations=numbers,
            parameters=0 if tied else vocab_size * d,
            steps=1,
        ),
        "bias": (
            Cost(elementwise_flops=numbers, activations=numbers, parameters=vocab_size)
            if bias
            else Cost()
        ),
    }


def tied_logits(n: int, d: int, vocab_size: int, batch: int = 1) -> dict[str, Cost]:
    """Return what scoring the vocabulary by its own embeddings costs: no parameters.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width.
    vocab_size : int
        Scores a token, |V|.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "product"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Press and Wolf, "Using the Output Embedding to Improve Language Models", 2017
    (arXiv:1608.05859).

    Examples
    --------
    >>> cost = total(tied_logits(n=1, d=512, vocab_size=32_000))
    >>> cost.flops // 2, cost.parameters
    (16384000, 0)
    """
    lines = output_projection(n, d, vocab_size, batch, bias=False, tied=True)
    del lines["bias"]
    return lines


def feed_forward(n: int, d: int, d_ff: int, batch: int = 1, bias: bool = True) -> dict[str, Cost]:
    """Return what the lines of a feed-forward network with ReLU cost.

    ``4 n d d_ff`` FLOPs: linear in the length, since each token goes through alone. At the usual
    d_ff = 4 d that is ``16 n d²``, or 8 n d² multiplications.

    Parameters
    ----------
    n : int
        Tokens.
    d, d_ff : int
        Their width, and the width in between.
    batch : int, default 1
        Sequences.
    bias : bool, default True
        Whether the two layers have biases.

    Returns
    -------
    dict of costs by line: "inner" (x W_1 + b_1), "relu", "outer" (h W_2 + b_2)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `bias` isn't a boolean.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.3.

    Examples
    --------
    >>> cost = total(feed_forward(n=10, d=64, d_ff=256))
    >>> cost.flops, cost.steps, cost.parameters
    (655360, 2, 33088)
    """
    _check_sizes(n=n, d=d, d_ff=d_ff, batch=batch)
    check_flag("bias", bias)
    hidden, numbers = batch * n * d_ff, batch * n * d

    def layer(width: int, written: int) -> Cost:
        return Cost(
            flops=2 * hidden * d,
            elementwise_flops=written if bias else 0,
            activations=written,
            parameters=d * d_ff + (width if bias else 0),
            steps=1,
        )

    return {
        "inner": layer(d_ff, hidden),
        "relu": Cost(elementwise_flops=hidden, activations=hidden),
        "outer": layer(d, numbers),
    }


def swiglu(n: int, d: int, d_ff: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of a gated feed-forward network cost: three matrices, no biases.

    ``6 n d d_ff`` FLOPs; at d_ff = 8/3 d as many as a plain network of d_ff = 4 d.

    Parameters
    ----------
    n : int
        Tokens.
    d, d_ff : int
        Their width, and the width in between.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "gate" (x W_1), "silu", "values" (x W_3), "product", "outer"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv:2002.05202), equation 6.

    Examples
    --------
    >>> cost = total(swiglu(n=10, d=6, d_ff=16))
    >>> cost.flops, cost.steps, cost.parameters
    (5760, 2, 288)
    >>> cost.flops == total(feed_forward(n=10, d=6, d_ff=24)).flops
    True
    """
    _check_sizes(n=n, d=d, d_ff=d_ff, batch=batch)
    hidden, weights = batch * n * d_ff, d * d_ff
    product = Cost(flops=2 * hidden * d, activations=hidden, parameters=weights)
    return {
        "gate": product,
        # the sigmoid, and the product with it
        "silu": Cost(elementwise_flops=2 * hidden, activations=hidden),
        "values": product + Cost(steps=1),  # taken at once with the gate's
        "product": Cost(elementwise_flops=hidden, activations=hidden),
        "outer": Cost(flops=2 * hidden * d, activations=batch * n * d, parameters=weights, steps=1),
    }


def layer_norm(n: int, d: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of layer norm cost: nothing but elementwise work and sums over rows.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "mean", "variance" (of x − μ), "normalise", "scale and shift"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450).

    Examples
    --------
    >>> cost = total(layer_norm(n=10, d=64))
    >>> cost.flops, cost.elementwise_flops, cost.steps, cost.parameters
    (0, 4520, 2, 128)
    """
    _check_sizes(n=n, d=d, batch=batch)
    tokens = batch * n
    numbers = tokens * d
    return {
        # a sum over the row, and its division by d
        "mean": Cost(elementwise_flops=numbers + tokens, activations=tokens, steps=1),
        # difference, square, sum, division by d; the difference is written too
        "variance": Cost(
            elementwise_flops=3 * numbers + tokens, activations=numbers + tokens, steps=1
        ),
        # ε, the root, and the division by it
        "normalise": Cost(elementwise_flops=numbers + 2 * tokens, activations=numbers),
        "scale and shift": Cost(
            elementwise_flops=2 * numbers, activations=numbers, parameters=2 * d
        ),
    }


def rms_norm(n: int, d: int, batch: int = 1) -> dict[str, Cost]:
    """Return what the lines of RMS norm cost: layer norm without the mean and the shift.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Their width.
    batch : int, default 1
        Sequences.

    Returns
    -------
    dict of costs by line: "mean square", "normalise", "scale"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    References
    ----------
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).

    Examples
    --------
    >>> cost = total(rms_norm(n=10, d=64))
    >>> cost.flops, cost.elementwise_flops, cost.steps, cost.parameters
    (0, 2590, 1, 64)
    """
    _check_sizes(n=n, d=d, batch=batch)
    tokens = batch * n
    numbers = tokens * d
    return {
        # square, sum, division by d
        "mean square": Cost(elementwise_flops=2 * numbers + tokens, activations=tokens, steps=1),
        # ε, the root, and the division by it
        "normalise": Cost(elementwise_flops=numbers + 2 * tokens, activations=numbers),
        "scale": Cost(elementwise_flops=numbers, activations=numbers, parameters=d),
    }


def rotary(
    n: int, d: int, batch: int = 1, n_heads: int = 1, d_rotated: int | None = None
) -> dict[str, Cost]:
    """Return what turning queries or keys costs: nothing but elementwise work.

    ``3 n d_rotated`` FLOPs a head: 4 multiplications and 2 additions for each pair of columns.
    Queries and keys are each turned once; they share the angles.

    Parameters
    ----------
    n : int
        Tokens.
    d : int
        Width of a head.
    batch : int, default 1
        Sequences. All share one table of angles.
    n_heads : int, default 1
    d_rotated : int, optional
        How many columns turn, even and at most `d`; all of them where left out.

    Returns
    -------
    dict of costs by line: "angles" (each with a sine and a cosine), "rotation"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `d_rotated` is odd or above `d`.

    References
    ----------
    Su et al., "RoFormer", 2021 (arXiv:2104.09864), section 3.4.2.

    Examples
    --------
    >>> cost = total(rotary(n=10, d=64, n_heads=8))
    >>> cost.flops, cost.elementwise_flops, cost.parameters
    (0, 16320, 0)
    """
    _check_sizes(n=n, d=d, batch=batch, n_heads=n_heads)
    d_rotated = d if d_rotated is None else d_rotated
    check_even("d_rotated", d_rotated)
    if d_rotated > d:
        raise ValueError(f"d_rotated must be at most d = {d}; got {d_rotated}")
    angles, heads = n * d_rotated // 2, batch * n_heads
    return {
        "angles": Cost(elementwise_flops=3 * angles, activations=3 * angles),
        "rotation": Cost(elementwise_flops=6 * heads * angles, activations=heads * n * d),
    }


def encoder_layer(
    n: int,
    d: int,
    n_heads: int,
    d_ff: int,
    batch: int = 1,
    attention_bias: bool = True,
) -> dict[str, Cost]:
    """Return what the parts of an encoder layer cost.

    ``8 n d² + 4 n² d + 4 n d d_ff`` FLOPs; before or after, the norms cost the same. Parameters:
    ``4d² + 2 d d_ff + d_ff + d + 4d``, and 4d more where the projections of attention have biases.

    Parameters
    ----------
    n : int
        Tokens.
    d, n_heads, d_ff : int
        Width, heads, width inside the feed-forward network.
    batch : int, default 1
        Sequences.
    attention_bias : bool, default True
        Whether the four projections have biases; the paper's formulas have none.

    Returns
    -------
    dict of costs by part: "attention", "feed-forward", "norms", "residuals" (the two sums)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `n_heads` doesn't divide `d`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.1.

    Examples
    --------
    >>> cost = total(encoder_layer(n=50, d=512, n_heads=8, d_ff=2048))
    >>> cost.parameters, cost.flops // 2 // 50  # multiplications a token: 12 d² + 2 n d
    (3152384, 3196928)
    """
    check_flag("attention_bias", attention_bias)
    attention = multi_head_attention(n, n, d, n_heads, batch, attention_bias)
    return {
        "attention": total(attention),
        "feed-forward": total(feed_forward(n, d, d_ff, batch)),
        **_around(n, d, batch, sublayers=2),
    }


def decoder_layer(
    n_tgt: int,
    n_src: int,
    d: int,
    n_heads: int,
    d_ff: int,
    batch: int = 1,
    attention_bias: bool = True,
) -> dict[str, Cost]:
    """Return what the parts of a decoder layer cost, all positions at once.

    Parameters: ``8d² + 2 d d_ff + d_ff + d + 6d``, and 8d more where attention has biases.

    Parameters
    ----------
    n_tgt, n_src : int
        Tokens of the target and of the source.
    d, n_heads, d_ff : int
        Width, heads, width inside the feed-forward network.
    batch : int, default 1
        Pairs.
    attention_bias : bool, default True

    Returns
    -------
    dict of costs by part
        "self-attention", "cross-attention", "feed-forward", "norms", "residuals" (three sums)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `n_heads` doesn't divide `d`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 3.1.

    Examples
    --------
    >>> total(decoder_layer(n_tgt=50, n_src=50, d=512, n_heads=8, d_ff=2048)).parameters
    4204032
    """
    check_flag("attention_bias", attention_bias)
    own = multi_head_attention(n_tgt, n_tgt, d, n_heads, batch, attention_bias)
    cross = multi_head_attention(n_tgt, n_src, d, n_heads, batch, attention_bias)
    return {
        "self-attention": total(own),
        "cross-attention": total(cross),
        "feed-forward": total(feed_forward(n_tgt, d, d_ff, batch)),
        **_around(n_tgt, d, batch, sublayers=3),
    }


def crossover_length(d: int, d_ff: int) -> int:
    """Return the length at which the two parts of an encoder layer cost the same.

    Scores and weighted sums take ``4 n² d`` FLOPs, projections and the feed-forward network
    ``8 n d² + 4 n d d_ff``: equal at n = 2 d + d_ff. Shorter texts are cheap because attention is;
    longer ones cost what attention costs.

    Parameters
    ----------
    d, d_ff : int
        Width, and width inside the feed-forward network.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1.

    Examples
    --------
    >>> crossover_length(d=512, d_ff=2048)
    3072
    """
    _check_sizes(d=d, d_ff=d_ff)
    return 2 * d + d_ff


def _around(n: int, d: int, batch: int, sublayers: int) -> dict[str, Cost]:
    """Return what norms and sums around the sublayers of a layer cost."""
    numbers = sublayers * batch * n * d
    return {
        "norms": sum([total(layer_norm(n, d, batch))] * sublayers, Cost()),
        "residuals": Cost(elementwise_flops=numbers, activations=numbers),
    }


def encoder_decoder(
    n_src: int,
    n_tgt: int,
    src_vocab_size: int,
    tgt_vocab_size: int,
    d: int = 512,
    n_heads: int = 8,
    n_layers: int = 6,
    d_ff: int = 2048,
    batch: int = 1,
    *,
    norm_first: bool = False,
    tie: str = "none",
    max_length: int | None = None,
    attention_bias: bool = True,
) -> dict[str, Cost]:
    """Return what the blocks of a whole encoder-decoder cost, forward, all positions at once.

    The model is `course_lib.models.encoder_decoder.EncoderDecoder`.

    Parameters
    ----------
    n_src, n_tgt : int
        Tokens of a source and of a target.
    src_vocab_size, tgt_vocab_size : int
    d, n_heads, n_layers, d_ff : int, default 512, 8, 6, 2048
        The paper's base model where left out. `n_layers` are in the encoder, as many in the
        decoder.
    batch : int, default 1
        Pairs.
    norm_first : bool, default False
        Whether encoder and decoder end in a norm of their own.
    tie : str, default "none"
        "output": the projection is the table of target embeddings, without a bias. "all": source
        and target share that table, too. No FLOP is saved.
    max_length : int, optional
        Rows of each of two learned tables of positions; sinusoidal where left out.
    attention_bias : bool, default True

    Returns
    -------
    dict of costs by block
        "source embedding" and "target embedding" (with positions), "encoder 1", …, "encoder norm"
        where there is one, "decoder 1", …, "decoder norm", "projection"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, `n_heads` doesn't divide `d`, `tie` is none of
        the three, or all is to be tied between vocabularies of two sizes.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), table 3: 65 million
    parameters for the base model with a shared vocabulary of "about 37000 tokens".

    Examples
    --------
    >>> base = encoder_decoder(50, 50, 37_000, 37_000, tie="all")
    >>> total(base).parameters
    63082496
    >>> base["projection"].flops // base["encoder 1"].flops
    5
    """
    _check_sizes(n_layers=n_layers)
    check_flag("norm_first", norm_first)
    check_choice("tie", tie, ("none", "output", "all"))
    if tie == "all" and src_vocab_size != tgt_vocab_size:
        raise ValueError(
            f"tie must not be 'all' for vocabularies of {src_vocab_size} and {tgt_vocab_size} "
            "tokens, which can't share a table"
        )
    untied = tie == "none"

    def inputs(n: int, vocab_size: int) -> Cost:
        where = total(positions(n, d, batch, max_length))
        return total(embedding(n, vocab_size, d, batch)) + where

    source, target = inputs(n_src, src_vocab_size), inputs(n_tgt, tgt_vocab_size)
    if tie == "all":  # one table, counted with the source
        target = replace(target, parameters=target.parameters - tgt_vocab_size * d)
    encoder = total(encoder_layer(n_src, d, n_heads, d_ff, batch, attention_bias))
    decoder = total(decoder_layer(n_tgt, n_src, d, n_heads, d_ff, batch, attention_bias))
    lines = {"source embedding": source, "target embedding": target}
    lines |= {f"encoder {i}": encoder for i in range(1, n_layers + 1)}
    if norm_first:
        lines["encoder norm"] = total(layer_norm(n_src, d, batch))
    lines |= {f"decoder {i}": decoder for i in range(1, n_layers + 1)}
    if norm_first:
        lines["decoder norm"] = total(layer_norm(n_tgt, d, batch))
    head = output_projection(n_tgt, d, tgt_vocab_size, batch, bias=untied, tied=not untied)
    lines["projection"] = total(head)
    return lines


def decoding(
    n_src: int,
    n_tgt: int,
    tgt_vocab_size: int,
    d: int = 512,
    n_heads: int = 8,
    n_layers: int = 6,
    d_ff: int = 2048,
    batch: int = 1,
    *,
    cached: bool = True,
) -> dict[str, int]:
    """Return the FLOPs of writing a target token by token, by what they're spent on.

    With a cache, step t projects one new token and looks at the t keys that there are:
    ``O(T² d + T d²)`` for T tokens. Without, everything so far is computed again at each step, the
    source's keys and values included: ``O(T³ d + T² d²)``. The encoder, which runs once either
    way, is left out.

    Parameters
    ----------
    n_src, n_tgt : int
        Tokens of the source, and T: tokens that are written, <eos> included.
    tgt_vocab_size : int
    d, n_heads, n_layers, d_ff : int, default 512, 8, 6, 2048
    batch : int, default 1
        Targets written at once.
    cached : bool, default True
        Whether keys and values are kept.

    Returns
    -------
    dict of int
        "projections" (of queries, keys, values and heads), "scores and sums", "feed-forward",
        "vocabulary"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, or `n_heads` doesn't divide `d`.

    References
    ----------
    Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019 (arXiv:1911.02150),
    section 2.4.

    Examples
    --------
    >>> sizes = (100, 100, 32_000)
    >>> round(sum(decoding(*sizes, cached=False).values()) / sum(decoding(*sizes).values()))
    54
    """
    _check_sizes(n_src=n_src, n_tgt=n_tgt, tgt_vocab_size=tgt_vocab_size, d=d, d_ff=d_ff)
    _check_sizes(n_heads=n_heads, n_layers=n_layers, batch=batch)
    check_divides("n_heads", n_heads, "d", d)
    check_flag("cached", cached)
    steps = n_tgt
    so_far = steps * (steps + 1) // 2  # 1 + 2 + … + T
    if cached:
        new, looks = steps, so_far  # tokens computed; pairs of a query and a key of the target
        sources = n_src  # tokens of the source projected to keys and values
    else:
        new, looks = so_far, steps * (steps + 1) * (2 * steps + 1) // 6  # 1 + 4 + … + T²
        sources = steps * n_src
    layers = batch * n_layers
    return {
        # four matrices for what asks itself; of cross-attention W_Q and W_O, and W_K and W_V
        "projections": layers * 2 * d * d * (4 * new + 2 * new + 2 * sources),
        "scores and sums": layers * 4 * d * (looks + new * n_src),
        "feed-forward": layers * 4 * d * d_ff * new,
        "vocabulary": batch * 2 * d * tgt_vocab_size * new,
    }


def kv_cache(
    n: int, n_layers: int, n_heads: int, d_head: int, batch: int = 1, n_src: int = 0
) -> dict[str, int]:
    """Return how many numbers the keys and values of a decoder are.

    ``2 N n h d_head`` a sequence: 2 N n d where all heads have keys of their own.

    Parameters
    ----------
    n : int
        Tokens of the target that there is room for.
    n_layers : int
        N.
    n_heads : int
        Heads with keys of their own.
    d_head : int
        Their width.
    batch : int, default 1
        Sequences; each beam is one.
    n_src : int, default 0
        Tokens of the source; 0 where there is no cross-attention.

    Returns
    -------
    dict of int: "self-attention", "cross-attention"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1 (0 for `n_src`).

    References
    ----------
    Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019 (arXiv:1911.02150).

    Examples
    --------
    The 6.7 billion parameter model of 32 layers and 32 heads of 128, 4,096 tokens, in GiB of half
    precision:

    >>> memory(kv_cache(4096, 32, 32, 128)["self-attention"], "float16") / 2**30
    2.0
    """
    _check_sizes(n=n, n_layers=n_layers, n_heads=n_heads, d_head=d_head, batch=batch)
    check_at_least("n_src", n_src, 0)
    row = 2 * n_layers * batch * n_heads * d_head
    return {"self-attention": row * n, "cross-attention": row * n_src}


def training_flops(lines: Mapping[str, Cost], checkpointing: bool = False) -> int:
    """Return the FLOPs of a training step, from the costs of a forward pass.

    Backward takes twice the forward pass: for a product Y = X W there is one product for the
    gradient of X and one for that of W, each as large as the product itself.

    Parameters
    ----------
    lines : mapping of names to costs
        Of the forward pass.
    checkpointing : bool, default False
        Whether the forward pass is computed once more for backward, instead of being kept.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `lines` isn't a mapping of costs, or `checkpointing` no boolean.

    References
    ----------
    Kaplan et al., "Scaling Laws for Neural Language Models", 2020 (arXiv:2001.08361), section 2.1;
    checkpointing: Chen et al., 2016 (arXiv:1604.06174).

    Examples
    --------
    >>> lines = feed_forward(n=10, d=64, d_ff=256)
    >>> training_flops(lines) == 3 * total(lines).flops
    True
    """
    check_flag("checkpointing", checkpointing)
    return (4 if checkpointing else 3) * total(lines).flops


def training_time(flops: float, flops_per_second: float, utilisation: float = 1.0) -> float:
    """Return the seconds that some FLOPs take.

    For a whole training, ``6 · parameters · tokens`` FLOPs is the rule of thumb: 2 a parameter and
    token forward (a multiplication and an addition), 4 backward.

    Parameters
    ----------
    flops : number
    flops_per_second : number
        Of the machine at its best; of all devices together.
    utilisation : float, default 1
        What share of that is reached, above 0 and at most 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a number isn't above 0, or `utilisation` is above 1.

    References
    ----------
    Kaplan et al., "Scaling Laws for Neural Language Models", 2020 (arXiv:2001.08361), section 2.1.

    Examples
    --------
    GPT-3: 175 billion parameters, 300 billion tokens, 1,024 devices of 312 TFLOP/s at 45 %, in
    days:

    >>> round(training_time(6 * 175e9 * 300e9, 1024 * 312e12, 0.45) / 86_400)
    25
    """
    for name, number in (("flops", flops), ("flops_per_second", flops_per_second),
                         ("utilisation", utilisation)):  # fmt: skip
        check_number(name, number, above=0)
    if utilisation > 1:
        raise ValueError(f"utilisation must be at most 1; got {utilisation!r}")
    return flops / flops_per_second / utilisation


def activation_memory(
    n_src: int,
    n_tgt: int,
    tgt_vocab_size: int,
    d: int = 512,
    n_heads: int = 8,
    n_layers: int = 6,
    d_ff: int = 2048,
    batch: int = 1,
    *,
    norm_first: bool = False,
    dropout: bool = True,
    padded: bool = True,
    dtype: str = "float32",
) -> dict[str, int]:
    """Return how many bytes autograd keeps of a forward pass of an encoder-decoder, by kind.

    What a product keeps is what it multiplied. Exact for the course's own blocks, whose softmax
    is written out and keeps two tables for each head (exponentials and weights) where a fused one
    keeps a single one, or none.

    Parameters
    ----------
    n_src, n_tgt : int
        Tokens of source and target, padding included: it is kept, too.
    tgt_vocab_size : int
    d, n_heads, n_layers, d_ff : int, default 512, 8, 6, 2048
    batch : int, default 1
        Pairs.
    norm_first : bool, default False
        Whether encoder and decoder end in a norm of their own.
    dropout : bool, default True
        Whether anything is dropped: what was is kept as a table of factors.
    padded : bool, default True
        Whether a source is shorter than the others: cross-attention needs a mask only then.
    dtype : str, default "float32"

    Returns
    -------
    dict of int
        "attention tables" (grows with n²), "attention" (the rest of it), "feed-forward", "norms",
        "dropout", "masks", "ids", "vocabulary" (what the projection reads)

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1, `n_heads` doesn't divide `d`, or the dtype is
        unknown.

    References
    ----------
    Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022
    (arXiv:2205.05198), section 4.1, who count a fused implementation in half precision.

    Examples
    --------
    >>> kept = activation_memory(4096, 1, 32_000, n_layers=12, dropout=False)
    >>> round(kept["attention tables"] / 2**30, 2)  # two tables of 6 GiB
    12.0
    """
    _check_sizes(n_src=n_src, n_tgt=n_tgt, tgt_vocab_size=tgt_vocab_size, d=d, d_ff=d_ff)
    _check_sizes(n_heads=n_heads, n_layers=n_layers, batch=batch)
    check_divides("n_heads", n_heads, "d", d)
    check_flag("norm_first", norm_first)
    check_flag("dropout", dropout)
    check_flag("padded", padded)
    size = memory(1, dtype)
    source, target = batch * n_src, batch * n_tgt  # tokens

    # Encoder self-attention, decoder self-attention, cross-attention: queries and keys of each.
    pairs = ((n_src, n_src), (n_tgt, n_tgt), (n_tgt, n_src))
    tables = sum(2 * batch * n_heads * n_q * n_k for n_q, n_k in pairs)
    # The sum of each row, and whether it was 0.
    rows = batch * n_heads * (n_src + 2 * n_tgt)
    # What is projected, queries, keys, values, and the heads before W_O: five of each token, but
    # cross-attention reads the encoder's output, which all layers share.
    own = 5 * (source + target)
    cross = 3 * target + 2 * source
    # Centred and normalised numbers, and the deviation.
    norms = n_layers * (2 * source + 3 * target) + (source + target if norm_first else 0)
    dropped = (1 + 2 * n_layers) * source + (1 + 3 * n_layers) * target
    causal = n_tgt * n_tgt if n_tgt > 1 else 0
    return {
        "attention tables": n_layers * tables * size,
        "attention": n_layers * ((own + cross) * d * size + rows * (size + 1)) + source * d * size,
        "feed-forward": n_layers * (source + target) * (d + d_ff) * size,
        "norms": norms * (2 * d + 1) * size,
        "dropout": dropped * d * size if dropout else 0,
        "masks": n_layers * ((2 if padded else 1) * source + causal),
        "ids": 8 * (source + target),
        "vocabulary": target * d * size,
    }


def training_memory(
    parameters: int, activations: int, dtype: str = "float32", states: int = 2
) -> dict[str, int]:
    """Return the bytes that a training step needs, by what they hold.

    Parameters
    ----------
    parameters : int
        Numbers learned.
    activations : int
        Bytes kept for backward, from `activation_memory`.
    dtype : str, default "float32"
        Of parameters, gradients and the optimiser's state.
    states : int, default 2
        Numbers that the optimiser keeps a parameter: 2 for Adam, 1 for momentum, 0 for plain
        gradient descent.

    Returns
    -------
    dict of int: "parameters", "gradients", "optimiser", "activations"

    Raises
    ------
    ValueError
        If a number isn't whole, or too small, or the dtype is unknown.

    References
    ----------
    Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020
    (arXiv:1910.02054), section 3.

    Examples
    --------
    >>> training_memory(1000, activations=500)
    {'parameters': 4000, 'gradients': 4000, 'optimiser': 8000, 'activations': 500}
    """
    check_at_least("activations", activations, 0)
    check_at_least("states", states, 0)
    held = memory(parameters, dtype)
    return {
        "parameters": held,
        "gradients": held,
        "optimiser": states * held,
        "activations": int(activations),
    }


def memory(numbers: int, dtype: str = "float32") -> int:
    """Return how many bytes some numbers take.

    Parameters
    ----------
    numbers : int
    dtype : str, default "float32"
        float64, float32, float16, bfloat16 or bool.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `numbers` isn't a whole number of at least 1, or the dtype is none of these.

    Examples
    --------
    The weights of 8 heads over 4,096 tokens, in MiB:

    >>> memory(scaled_dot_product_attention(4096, 4096, 64, 64, batch=8)["softmax"].activations) >> 20
    512
    """  # noqa: E501
    check_positive_int("numbers", numbers)
    if not isinstance(dtype, str) or dtype not in _BYTES:
        raise ValueError(f"dtype must be one of {', '.join(_BYTES)}; got {dtype!r}")
    return numbers * _BYTES[dtype]


def count_flops(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Call a function and return the FLOPs of its matrix products, as PyTorch counts them.

    Attention in one kernel, whose products PyTorch's counter doesn't see on a CPU, is computed in
    steps meanwhile.

    Parameters
    ----------
    function : callable
        Anything that computes with tensors.
    *args, **kwargs
        What it is called with.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `function` can't be called.

    Examples
    --------
    >>> import torch
    >>> count_flops(torch.matmul, torch.ones(3, 4), torch.ones(4, 5))
    120
    """
    check_callable("function", function)
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, _attention_in_steps():
        function(*args, **kwargs)
    return int(counter.get_total_flops())


def _attention_in_steps() -> AbstractContextManager[None]:
    """Keep PyTorch from computing attention in one kernel, where it can be told to (from 2.3)."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return nullcontext()
    return sdpa_kernel(SDPBackend.MATH)


def count_saved_bytes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Call a function and return the bytes that autograd keeps of it for backward.

    Memory that several operations keep is counted once. Parameters, which are there anyway, don't
    count; inputs do where an operation keeps them.

    Parameters
    ----------
    function : callable
        Returns one tensor that gradients can be taken of.
    *args, **kwargs
        What it is called with.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If `function` can't be called, or doesn't return a tensor.

    Examples
    --------
    The exponential's gradient needs its result, five numbers of 4 bytes:

    >>> import torch
    >>> count_saved_bytes(torch.exp, torch.zeros(5, requires_grad=True))
    20
    """
    check_callable("function", function)
    from torch import Tensor
    from torch.autograd.graph import saved_tensors_hooks
    from torch.nn import Parameter

    kept: list[weakref.ref[_Kept]] = []
    learned: set[int] = set()

    def pack(tensor: Tensor) -> _Kept:
        base = tensor._base if tensor._base is not None else tensor
        if isinstance(base, Parameter):
            learned.add(tensor.untyped_storage().data_ptr())
        # Detached: with its history it would keep alive the operation that keeps it.
        packed = _Kept(tensor.detach())
        kept.append(weakref.ref(packed))
        return packed

    with saved_tensors_hooks(pack, lambda packed: packed.tensor):
        output = function(*args, **kwargs)
    if not isinstance(output, Tensor):
        raise ValueError(f"function must return a tensor; got {describe(output)}")
    # What a branch without use has kept is gone by now.
    tensors = [packed.tensor for ref in kept if (packed := ref()) is not None]
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}
    return sum(nbytes for where, nbytes in storages.items() if where not in learned)


def live_bytes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[int]:
    """Call a function and return how many bytes are alive after each of its operations.

    What was there before doesn't count, and neither does what an operation needs while it runs.
    The largest of the numbers is what the call needs at its peak.

    Parameters
    ----------
    function : callable
        Anything that computes with tensors, a backward pass included.
    *args, **kwargs
        What it is called with.

    Returns
    -------
    list of int, one for each operation

    Raises
    ------
    ValueError
        If `function` can't be called.

    Examples
    --------
    The first result is gone when the third has been computed:

    >>> import torch
    >>> live_bytes(lambda: torch.ones(5).exp().exp())
    [20, 40, 40]
    """
    check_callable("function", function)
    after_each: list[int] = []
    with watch_live_bytes(after_each.append):
        function(*args, **kwargs)
    return after_each


def watch_live_bytes(tell: Callable[[int], object]) -> AbstractContextManager[Any]:
    """Return a context in which `tell` learns after each operation how many bytes are alive.

    Parameters
    ----------
    tell : callable
        Called with what `live_bytes` returns for the operation.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        If `tell` can't be called.

    Examples
    --------
    >>> import torch
    >>> with watch_live_bytes(print):
    ...     x = torch.ones(5)
    20
    """
    check_callable("tell", tell)
    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    alive: dict[int, int] = {}

    def meet(tensors: Any, new: bool) -> None:
        for tensor in tree_flatten(tensors)[0]:
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if (where := storage._cdata) not in alive:
                    alive[where] = storage.nbytes() if new else 0
                    weakref.finalize(storage, alive.pop, where, None).atexit = False

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            meet((args, kwargs), new=False)
            result = func(*args, **(kwargs or {}))
            meet(result, new=True)
            tell(sum(alive.values()))
            return result

    return Watch()


class _Kept:
    """A tensor that an operation keeps, in something that a weak reference can point to."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _recurrent_products(n: int, d: int, batch: int, n_gates: int) -> dict[str, Cost]:
    """Return what a recurrent layer's two products cost, over all tokens and gates."""
    numbers, weights = n_gates * batch * n * d, n_gates * d * d
    product = Cost(flops=2 * numbers * d, activations=numbers, parameters=weights)
    # The tokens' products wait for nothing: all of them are done beside the first state's.
    return {"input": product, "state": product + Cost(steps=n)}


def _check_sizes(**sizes: Any) -> None:
    for name, size in sizes.items():
        check_positive_int(name, size)


def _check_width(width: Any) -> int:
    check_positive_int("width", width)
    if width % 2 == 0:
        raise ValueError(f"width must be odd, so that a token stands in its middle; got {width}")
    return int(width)


# What an activation's formula computes for each number.
_ACTIVATION_FLOPS = {"relu": 1, "silu": 2, "gelu": 5, "gelu_tanh": 9}


def grouped_query_attention(
    n_q: int,
    n_k: int,
    d: int,
    n_heads: int,
    n_kv_heads: int,
    batch: int = 1,
    bias: bool = False,
    d_head: int | None = None,
    cached: int = 0,
) -> dict[str, Cost]:
    """Return what the lines of attention with shared keys and values cost.

    Scores and sums cost what they cost with a head of keys for each query head; the projections to
    keys and values, and what is kept of them, shrink by ``n_heads / n_kv_heads``.

    Parameters
    ----------
    n_q, n_k : int
        Numbers of tokens that ask and that are asked.
    d : int
        Their width.
    n_heads : int
        h, heads of queries.
    n_kv_heads : int
        h_kv, heads of keys and values, which divides `n_heads`.
    batch : int, default 1
        Sequences.
    bias : bool, default False
        Whether the four projections have biases.
    d_head : int, optional
        Width of a head; d/h where left out.
    cached : int, default 0
        How many of the keys and values were kept from before, fewer than `n_k`.

    Returns
    -------
    dict of costs by line
        "queries", "keys", "values", "repeat" (copies of shared heads), "scores", "scale",
        "softmax", "heads" (the weighted sums), "merge" (a copy) and "output".

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1 or doesn't divide what it must, or `cached`
        isn't from 0 to n_k − 1.

    References
    ----------
    Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
    Checkpoints", 2023 (arXiv:2305.13245); Shazeer, 2019 (arXiv:1911.02150).

    Examples
    --------
    The attention of a 7 billion parameter model, with 32 heads of keys and with 8:

    >>> sizes = {"n_q": 1, "n_k": 1, "d": 4096, "n_heads": 32}
    >>> [total(grouped_query_attention(**sizes, n_kv_heads=h)).parameters for h in (32, 8)]
    [67108864, 41943040]
    """
    _check_sizes(n_q=n_q, n_k=n_k, d=d, n_heads=n_heads, batch=batch)
    check_divides("n_kv_heads", n_kv_heads, "n_heads", n_heads)
    check_flag("bias", bias)
    if d_head is None:
        check_divides("n_heads", n_heads, "d", d)
        d_head = d // n_heads
    _check_sizes(d_head=d_head)
    check_at_least("cached", cached, 0)
    if cached >= n_k:
        raise ValueError(f"cached must be below n_k = {n_k}; got {cached}")

    def projection(n: int, d_in: int, d_out: int, steps: int) -> Cost:
        numbers = batch * n * d_out
        return Cost(
            flops=2 * numbers * d_in,
            elementwise_flops=numbers if bias else 0,
            activations=numbers,
            parameters=d_in * d_out + (d_out if bias else 0),
            steps=steps,
        )

    wide, narrow = n_heads * d_head, n_kv_heads * d_head
    copied = 2 * batch * n_k * wide if n_kv_heads < n_heads else 0
    attention = scaled_dot_product_attention(n_q, n_k, d_head, d_head, batch * n_heads)
    return {
        "queries": projection(n_q, d, wide, steps=1),
        "keys": projection(n_k - cached, d, narrow, steps=0),
        "values": projection(n_k - cached, d, narrow, steps=0),
        "repeat": Cost(activations=copied),
        "scores": attention["scores"],
        "scale": attention["scale"],
        "softmax": attention["softmax"],
        "heads": attention["output"],
        "merge": Cost(activations=batch * n_q * wide),
        "output": projection(n_q, wide, d, steps=1),
    }


def decoder_block(
    n: int,
    d: int,
    n_heads: int,
    d_ff: int,
    batch: int = 1,
    *,
    n_kv_heads: int | None = None,
    d_head: int | None = None,
    positions: str = "rotary",
    norm: str = "rms",
    activation: str = "swiglu",
    bias: bool = False,
    past: int = 0,
) -> dict[str, Cost]:
    """Return what the parts of a block of a decoder alone cost.

    With biases, LayerNorm and two layers of 4 d it holds about ``12 d²`` parameters; with SwiGLU of
    8/3 d and no biases, too.

    Parameters
    ----------
    n : int
        Tokens that are new.
    d, n_heads, d_ff : int
        Width, heads of queries, width inside the feed-forward network.
    batch : int, default 1
        Sequences.
    n_kv_heads : int, optional
        Heads of keys and values; `n_heads` where left out.
    d_head : int, optional
        Width of a head; d/h where left out.
    positions : {"rotary", "learned"}, default "rotary"
        Whether queries and keys are turned; learned ones are added before the first block.
    norm : {"rms", "layer"}, default "rms"
    activation : str, default "swiglu"
        "swiglu", "gelu", "gelu_tanh", "relu" or "silu".
    bias : bool, default False
        Whether the projections of attention, and two layers, have biases; a gated network has none.
    past : int, default 0
        Tokens whose keys and values were kept from before.

    Returns
    -------
    dict of costs by part: "attention", "rotation", "feed-forward", "norms", "residuals"

    Raises
    ------
    ValueError
        If a size isn't a whole number of at least 1 or doesn't divide what it must, or a choice is
        none of those named.

    References
    ----------
    Touvron et al., "LLaMA", 2023 (arXiv:2302.13971), section 2.2; Radford et al., 2019 (GPT-2),
    section 2.3.

    Examples
    --------
    >>> parts = decoder_block(n=1, d=4096, n_heads=32, d_ff=11_008)
    >>> {name: cost.parameters for name, cost in parts.items() if cost.parameters}
    {'attention': 67108864, 'feed-forward': 135266304, 'norms': 8192}
    """
    check_choice("positions", positions, ("rotary", "learned"))
    check_choice("norm", norm, ("rms", "layer"))
    check_choice("activation", activation, ("swiglu", *_ACTIVATION_FLOPS))
    check_at_least("past", past, 0)
    _check_sizes(n=n, n_heads=n_heads)
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    attention = grouped_query_attention(
        n, past + n, d, n_heads, n_kv_heads, batch, bias, d_head, cached=past
    )
    d_head = d // n_heads if d_head is None else d_head
    if activation == "swiglu":
        network = swiglu(n, d, d_ff, batch)
    else:
        network = feed_forward(n, d, d_ff, batch, bias)
        each = network["relu"].elementwise_flops * _ACTIVATION_FLOPS[activation]
        network["relu"] = replace(network["relu"], elementwise_flops=each)
    turned = Cost()
    if positions == "rotary":  # queries and keys; the angles are the same in all blocks
        turned = rotary(n, d_head, batch, n_heads + n_kv_heads)["rotation"]
    normed = total((rms_norm if norm == "rms" else layer_norm)(n, d, batch))
    numbers = 2 * batch * n * d
    return {
        "attention": total(attention),
        "rotation": turned,
        "feed-forward": total(network),
        "norms": normed + normed,
        "residuals": Cost(elementwise_flops=numbers, activations=numbers),
    }


def decoder_only(
    n: int,
    vocab_size: int,
    d: int,
    n_heads: int,
    n_layers: int,
    d_ff: int,
    batch: int = 1,
    *,
    n_kv_heads: int | None = None,
    d_head: int | None = None,
    positions: str = "rotary",
    max_length: int | None = None,
    norm: str = "rms",
    activation: str = "swiglu",
    bias: bool = False,
    tied: bool = False,
    past: int = 0,
) -> dict[str, Cost]:
    """Return what the parts of a decoder alone cost, forward, all new positions at once.

    The model is `course_lib.models.decoder_only.DecoderOnly`. With ``n = 1`` and `past` tokens in
    the cache it is what one more token costs.

    Parameters
    ----------
    n : int
        Tokens that are new.
    vocab_size : int
    d, n_heads, n_layers, d_ff : int
        Width, heads of queries, blocks, width inside the feed-forward networks.
    batch : int, default 1
        Sequences.
    n_kv_heads, d_head, positions, norm, activation, bias
        As `decoder_block` takes them.
    max_length : int, optional
        Rows of the table of learned positions, which they need and rotary ones don't.
    tied : bool, default False
        Whether the table of embeddings scores the vocabulary, too. No FLOP is saved.
    past : int, default 0
        Tokens whose keys and values were kept from before.

    Returns
    -------
    dict of costs by part
        "embedding" (with learned positions), "angles" (of rotary ones), "block 1", …, "norm",
        "projection"

    Raises
    ------
    ValueError
        As `decoder_block`, and if `max_length` is missing, given without need, or too small.

    References
    ----------
    Touvron et al., "LLaMA", 2023 (arXiv:2302.13971), table 2: 6.7 billion parameters.

    Examples
    --------
    >>> sizes = {"vocab_size": 32_000, "d": 4096, "n_heads": 32, "n_layers": 32, "d_ff": 11_008}
    >>> model = decoder_only(n=1, **sizes)
    >>> total(model).parameters
    6738415616
    >>> grouped = decoder_only(n=1, **sizes, n_kv_heads=8)
    >>> total(grouped).parameters
    5933109248
    """
    _check_sizes(n_layers=n_layers)
    check_flag("tied", tied)
    block = total(
        decoder_block(
            n, d, n_heads, d_ff, batch, n_kv_heads=n_kv_heads, d_head=d_head, positions=positions,
            norm=norm, activation=activation, bias=bias, past=past,
        )
    )  # fmt: skip
    if (max_length is None) == (positions == "learned"):
        need = "a whole number for" if max_length is None else "left out but for"
        raise ValueError(f"max_length must be {need} learned positions; got {max_length!r}")
    tokens = total(embedding(n, vocab_size, d, batch, scale=False))
    angles = Cost()
    if max_length is None:
        angles = rotary(n, d // n_heads if d_head is None else d_head)["angles"]
    else:
        check_at_least("max_length", max_length, past + n)
        rows = Cost(parameters=max_length * d)
        numbers = batch * n * d
        tokens = tokens + rows + Cost(elementwise_flops=numbers, activations=numbers)
    lines = {"embedding": tokens, "angles": angles}
    lines |= {f"block {i}": block for i in range(1, n_layers + 1)}
    lines["norm"] = total((rms_norm if norm == "rms" else layer_norm)(n, d, batch))
    lines["projection"] = total(output_projection(n, d, vocab_size, batch, bias=False, tied=tied))
    return lines
