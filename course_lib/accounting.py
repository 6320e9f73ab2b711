"""What every block costs, as formulas in one place.

A function here has the name of the block that it describes and takes the sizes as numbers. It
returns the block's lines of code in order, each with its `Cost`; `total` adds them up.

Conventions
-----------
- A multiplication and an addition are 1 FLOP each, so a product of matrices (n × m) (m × p) is
  2 n m p. PyTorch's counter says the same, and counts nothing but such products.
- What is done element by element is kept apart: 1 FLOP for each addition, multiplication,
  division, comparison or exponential. Scaling is 1 an element; softmax is 5 (maximum, difference,
  exponential, sum, division). A mask is free.
- Activations are the numbers that a line writes, whether they are kept or not.
- Steps are those that have to wait for one another, however many processors there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.validation import check_positive_int

__all__ = ["Cost", "count_flops", "memory", "scaled_dot_product_attention", "total"]

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

    Examples
    --------
    >>> total(scaled_dot_product_attention(10, 10, 64, 64)).flops
    25600
    """
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
    sizes = {"n_q": n_q, "n_k": n_k, "d_k": d_k, "d_v": d_v, "batch": batch}
    for name, size in sizes.items():
        check_positive_int(name, size)
    table = batch * n_q * n_k
    answer = batch * n_q * d_v
    return {
        "scores": Cost(flops=2 * table * d_k, activations=table, steps=1),
        # a factor of the scores: it waits for nothing that the product didn't wait for
        "scale": Cost(elementwise_flops=table, activations=table),
        "softmax": Cost(elementwise_flops=5 * table, activations=table, steps=1),
        "output": Cost(flops=2 * table * d_v, activations=answer, steps=1),
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
    if dtype not in _BYTES:
        raise ValueError(f"dtype must be one of {', '.join(_BYTES)}; got {dtype!r}")
    return numbers * _BYTES[dtype]


def count_flops(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Call a function and return the FLOPs of its matrix products, as PyTorch counts them.

    Parameters
    ----------
    function : callable
        Anything that computes with tensors.
    *args, **kwargs
        What it is called with.

    Returns
    -------
    int

    Examples
    --------
    >>> import torch
    >>> count_flops(torch.matmul, torch.ones(3, 4), torch.ones(4, 5))
    120
    """
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function(*args, **kwargs)
    return int(counter.get_total_flops())
