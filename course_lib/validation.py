"""Checks of arguments that the numpy and the PyTorch half share.

Everything here works on arrays and tensors alike and imports neither numpy nor torch. It looks at
``.shape`` and ``.dtype`` alone, unless it says that it looks at values. Every failure is a
``ValueError`` that names the argument, what came and what was expected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache, wraps
from numbers import Integral, Real
from operator import index
from types import FrameType
from typing import Any, TypeVar, cast

_INFINITY = float("inf")
_Check = TypeVar("_Check", bound=Callable[..., None])
_trusting = False


@contextmanager
def trusted() -> Iterator[None]:
    """Let arrays pass unchecked meanwhile.

    For loops whose every round computes with the same shapes and dtypes, once a round has been
    checked: a small model spends a third of a step on checks. Whether there is room is asked still.

    Examples
    --------
    >>> with trusted():
    ...     check_float("x", "no array")
    """
    global _trusting
    before, _trusting = _trusting, True
    try:
        yield
    finally:
        _trusting = before


def _skippable(check: _Check) -> _Check:
    """Let a check of arrays do nothing where they are trusted."""

    @wraps(check)
    def checked(*args: Any, **kwargs: Any) -> None:
        if not _trusting:
            check(*args, **kwargs)

    return cast("_Check", checked)


def dtype_name(x: Any) -> str:
    """Return the name of an array's or a tensor's dtype, without the library's prefix.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_name(np.zeros(2, dtype=np.float32))
    'float32'
    """
    try:
        return _last_name(x.dtype)
    except TypeError:  # a dtype that can't be a key, such as a list
        return str(x.dtype).rsplit(".", 1)[-1]


@lru_cache(maxsize=256)
def _last_name(dtype: Any) -> str:
    """Return a dtype's name without its library. Kept, for checks are made at every step."""
    return str(dtype).rsplit(".", 1)[-1]


def describe(x: Any) -> str:
    """Say in a few words what a value is: dtype and shape of an array, or its type.

    Examples
    --------
    >>> import numpy as np
    >>> describe(np.zeros((2, 3)))
    'float64 of shape (2, 3)'
    >>> describe([1, 2])
    'list'
    """
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{dtype_name(x)} of shape {tuple(x.shape)}"
    return type(x).__name__


@_skippable
def check_float(name: str, x: Any, axes: str = "") -> None:
    """Raise unless `x` is an array or tensor of real floats with at least one axis."""
    wanted = f"an array of real floating-point numbers{f' of shape {axes}' if axes else ''}"
    if not (hasattr(x, "dtype") and hasattr(x, "shape")):
        raise ValueError(f"{name} must be {wanted}; got {describe(x)}")
    if "float" not in dtype_name(x):
        raise ValueError(f"{name} must be {wanted}; got {describe(x)}")
    check_library(name, x)
    if len(x.shape) == 0:
        raise ValueError(f"{name} must have at least one axis; got {describe(x)}")


@_skippable
def check_axis(name: str, x: Any, axis: int) -> None:
    """Raise unless `axis` is an axis of `x` that holds at least one element."""
    n_axes = len(x.shape)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -n_axes <= axis < n_axes:
        raise ValueError(
            f"axis must be a whole number from {-n_axes} to {n_axes - 1} "
            f"for {name} of shape {tuple(x.shape)}; got {axis!r}"
        )
    if x.shape[axis] == 0:
        raise ValueError(f"{name} must not be empty along axis {axis}; got shape {tuple(x.shape)}")


@_skippable
def check_shape(name: str, x: Any, owner: str, shape: tuple[int, ...]) -> None:
    """Raise unless `x` has the shape of `owner`, which is `shape`."""
    if tuple(x.shape) != tuple(shape):
        raise ValueError(
            f"{name} must have the shape of {owner}, {tuple(shape)}; got {tuple(x.shape)}"
        )


@_skippable
def check_same_dtype(**arrays: Any) -> None:
    """Raise unless all arrays have the dtype of the first."""
    (first, x), *rest = arrays.items()
    for name, other in rest:
        if dtype_name(other) != dtype_name(x):
            raise ValueError(
                f"{name} must have the dtype of {first}, {dtype_name(x)}; got {dtype_name(other)}"
            )


def check_positive_int(name: str, value: Any) -> None:
    """Raise unless `value` is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")


@_skippable
def check_mask(mask: Any, scores_shape: tuple[int, ...]) -> None:
    """Raise unless `mask` is boolean and broadcasts to the shape of the scores."""
    if (
        not hasattr(mask, "shape")
        or dtype_name(mask) != "bool"
        or not _broadcasts(tuple(mask.shape), scores_shape)
    ):
        raise ValueError(
            f"mask must be boolean with a shape that broadcasts to {scores_shape}; "
            f"got {describe(mask)}"
        )
    check_library("mask", mask)


@_skippable
def check_attention_inputs(q: Any, k: Any, v: Any, mask: Any = None) -> None:
    """Raise unless queries, keys, values and mask fit together.

    Parameters
    ----------
    q, k, v : array or tensor, (..., n_q, d_k), (..., n_k, d_k) and (..., n_k, d_v)
        One floating dtype, the same leading axes, no empty sequence.
    mask : boolean array or tensor, optional
        Broadcasts to (..., n_q, n_k).

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    _check_rows(q, k, v)
    for name, x in (("k", k), ("v", v)):
        check_leading(name, x, "q", tuple(q.shape[:-2]), 2)
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))


def _check_rows(q: Any, k: Any, v: Any) -> None:
    """Raise unless q, k and v fit together, their leading axes aside."""
    for name, x, axes in (("q", q, "(..., n_q, d_k)"), ("k", k, "(..., n_k, d_k)"),
                          ("v", v, "(..., n_k, d_v)")):  # fmt: skip
        check_sequence(name, x, axes)
    check_same_dtype(q=q, k=k, v=v)
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"k must have the width of q, d_k = {q.shape[-1]}; got shape {tuple(k.shape)}"
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"v must have one row for each of the {k.shape[-2]} keys; got shape {tuple(v.shape)}"
        )


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Tell whether `shape` broadcasts to `target` without enlarging it."""
    return len(shape) <= len(target) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False)
    )


def check_at_least(name: str, value: Any, least: int) -> None:
    """Raise unless `value` is a whole number of at least `least`.

    Whole numbers of numpy count; booleans don't.

    Examples
    --------
    >>> check_at_least("seed", -1, 0)
    Traceback (most recent call last):
    ...
    ValueError: seed must be a whole number of at least 0; got -1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")


@_skippable
def check_whole(name: str, x: Any, axes: str = "") -> None:
    """Raise unless `x` is an array or tensor of whole numbers; one without axes will do."""
    if not (hasattr(x, "dtype") and hasattr(x, "shape")) or "int" not in dtype_name(x):
        raise ValueError(
            f"{name} must be an array of whole numbers{f' of shape {axes}' if axes else ''}; "
            f"got {describe(x)}"
        )
    check_library(name, x)


@_skippable
def check_ids(name: str, ids: Any, size: int) -> None:
    """Raise unless every id is one of 0, 1, …, size − 1. Looks at values."""
    ids = _roomy(ids)
    wrong = (ids < 0) | (ids >= size)
    if bool(wrong.any()):
        raise ValueError(f"{name} must be from 0 to {size - 1}; got {int(ids[wrong][0])}")


def check_token_scores(name: str, scores: Any, ids_name: str, ids: Any) -> None:
    """Raise unless `scores` is (..., V) of floats and `ids` (...) of whole numbers."""
    check_float(name, scores, "(..., V)")
    if 0 in scores.shape:
        raise ValueError(f"{name} must not be empty: (..., V); got shape {tuple(scores.shape)}")
    check_whole(ids_name, ids, "(...)")
    if tuple(ids.shape) != tuple(scores.shape[:-1]):
        raise ValueError(
            f"{ids_name} must have the leading axes of {name}, {tuple(scores.shape[:-1])}; "
            f"got {tuple(ids.shape)}"
        )


def check_targets(logits: Any, targets: Any, ignore_index: Any) -> None:
    """Raise unless targets are ids of the vocabulary or ignored, and one at least is not.

    Parameters
    ----------
    logits, targets : array or tensor, (..., V) and (...)
    ignore_index : int

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check_token_scores("logits", logits, "targets", targets)
    whole = isinstance(ignore_index, int) and not isinstance(ignore_index, bool)
    if not whole or not -(2**63) <= ignore_index < 2**63:
        raise ValueError(f"ignore_index must be a whole number of 64 bits; got {ignore_index!r}")
    targets = _roomy(targets)
    kept = targets != ignore_index
    if not bool(kept.any()):
        raise ValueError(
            f"targets must hold at least one id other than ignore_index = {ignore_index}"
        )
    check_ids(f"targets other than ignore_index = {ignore_index}", targets[kept], logits.shape[-1])


def check_batch_losses(losses: Any, n_tokens: Any) -> None:
    """Raise unless both have one entry a batch, and every batch has a token. Looks at values."""
    check_float("losses", losses, "(k,)")
    if len(losses.shape) != 1 or losses.shape[0] == 0:
        raise ValueError(f"losses must have a shape (k,), k ≥ 1; got {tuple(losses.shape)}")
    check_whole("n_tokens", n_tokens, "(k,)")
    check_shape("n_tokens", n_tokens, "losses", losses.shape)
    if bool((n_tokens < 1).any()):
        raise ValueError(f"n_tokens must be at least 1 for every batch; got {int(n_tokens.min())}")


def check_conditionals(conditionals: Any, tokens: Any) -> None:
    """Raise unless rows are distributions over the vocabulary and tokens are its ids.

    Parameters
    ----------
    conditionals, tokens : array or tensor, (..., T, V) and (..., T)

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check_token_scores("conditionals", conditionals, "tokens", tokens)
    if len(conditionals.shape) < 2:
        raise ValueError(
            f"conditionals must have a shape (..., T, V); got {tuple(conditionals.shape)}"
        )
    check_ids("tokens", tokens, conditionals.shape[-1])
    # Half precision keeps 3 digits of each entry. Logits taken for probabilities are far off.
    off = abs(conditionals.sum(-1) - 1)
    if bool((conditionals < 0).any()) or not bool((off < 0.01).all()):
        raise ValueError(
            "conditionals must have rows of probabilities that sum to 1; "
            f"got an entry of {float(conditionals.min()):g} and a row "
            f"that sums to {float(conditionals.sum(-1).reshape(-1)[off.argmax()]):g}"
        )


def check_draw(logits: Any, uniforms: Any, temperature: Any) -> None:
    """Raise unless one token can be drawn from each row of logits. Looks at values.

    Parameters
    ----------
    logits : array or tensor, (..., V)
    uniforms : array or tensor, (...), or a float where logits is one row
    temperature : float

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check_logits("logits", logits)
    leading = tuple(logits.shape[:-1])
    plain = isinstance(uniforms, float)
    floats = plain or (hasattr(uniforms, "dtype") and "float" in dtype_name(uniforms))
    if not floats or tuple(getattr(uniforms, "shape", ())) != leading:
        raise ValueError(
            f"uniforms must be real floating-point numbers of shape {leading}, the leading axes "
            f"of logits; got {describe(uniforms)}"
        )
    if not plain:
        check_library("uniforms", uniforms)
    inside = (uniforms >= 0) & (uniforms < 1)
    if not bool(inside if plain else inside.all()):
        came = uniforms if plain else uniforms.reshape(-1)[~inside.reshape(-1)][0]
        raise ValueError(f"uniforms must be at least 0 and below 1; got {float(came):g}")
    check_number("temperature", temperature, above=0.0)
    largest = abs(logits)[logits > -_INFINITY].max().item()
    if temperature < 1 and largest / 1e300 > temperature:
        raise ValueError(
            f"temperature must be large enough that logits of {largest:g} can be divided by it; "
            f"got {temperature!r}"
        )


@_skippable
def check_sequence(name: str, x: Any, axes: str) -> None:
    """Raise unless `x` is an array of floats with two axes or more, none of them empty."""
    check_float(name, x, axes)
    if len(x.shape) < 2:
        raise ValueError(f"{name} must have a shape {axes}; got {tuple(x.shape)}")
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty: {axes}; got shape {tuple(x.shape)}")


@_skippable
def check_leading(name: str, x: Any, owner: str, leading: tuple[int, ...], kept: int) -> None:
    """Raise unless the axes of `x` before its last `kept` are `leading`, those of `owner`."""
    got = tuple(x.shape[: len(x.shape) - kept])
    if got != tuple(leading):
        raise ValueError(
            f"{name} must have the leading axes of {owner}, {tuple(leading)}; got {got}"
        )


@_skippable
def check_weight(name: str, w: Any, axes: str, shape: tuple[int, ...]) -> None:
    """Raise unless `w` is an array of floats of the shape that `axes` names."""
    check_float(name, w, axes)
    if tuple(w.shape) != shape:
        raise ValueError(f"{name} must have the shape {axes} = {shape}; got {tuple(w.shape)}")


def check_queries_and_keys(queries: Any, keys: Any) -> None:
    """Raise unless both are sequences of one dtype with the same leading axes."""
    check_sequence("queries", queries, "(..., n_q, d_q)")
    check_sequence("keys", keys, "(..., n_k, d_k)")
    check_leading("keys", keys, "queries", tuple(queries.shape[:-2]), 2)
    check_same_dtype(queries=queries, keys=keys)


def check_additive_inputs(queries: Any, keys: Any, w_query: Any, w_key: Any, v: Any) -> None:
    """Raise unless the arguments of additive scores fit together."""
    check_queries_and_keys(queries, keys)
    check_float("v", v, "(d_a,)")
    if len(v.shape) != 1 or v.shape[0] == 0:
        raise ValueError(f"v must have a shape (d_a,), d_a ≥ 1; got {tuple(v.shape)}")
    d_a = v.shape[0]
    check_weight("w_query", w_query, "(d_q, d_a)", (queries.shape[-1], d_a))
    check_weight("w_key", w_key, "(d_k, d_a)", (keys.shape[-1], d_a))
    check_same_dtype(queries=queries, w_query=w_query, w_key=w_key, v=v)


def check_dot_inputs(queries: Any, keys: Any) -> None:
    """Raise unless the arguments of dot-product scores fit together."""
    check_queries_and_keys(queries, keys)
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"keys must have the width of queries, {queries.shape[-1]}; "
            f"got shape {tuple(keys.shape)}"
        )


def check_bilinear_inputs(queries: Any, keys: Any, w: Any) -> None:
    """Raise unless the arguments of bilinear scores fit together."""
    check_queries_and_keys(queries, keys)
    check_weight("w", w, "(d_q, d_k)", (queries.shape[-1], keys.shape[-1]))
    check_same_dtype(queries=queries, w=w)


def check_attend_inputs(scores: Any, values: Any, mask: Any = None) -> None:
    """Raise unless scores, values and mask fit together."""
    check_sequence("scores", scores, "(..., n_q, n_k)")
    check_sequence("values", values, "(..., n_k, d_v)")
    check_leading("values", values, "scores", tuple(scores.shape[:-2]), 2)
    if values.shape[-2] != scores.shape[-1]:
        raise ValueError(
            f"values must have one row for each of the {scores.shape[-1]} keys; "
            f"got shape {tuple(values.shape)}"
        )
    check_same_dtype(scores=scores, values=values)
    if mask is not None:
        check_mask(mask, tuple(scores.shape))


def check_self_attention_inputs(x: Any, mask: Any = None) -> None:
    """Raise unless a sequence and the mask over its pairs fit together."""
    check_sequence("x", x, "(..., n, d)")
    if mask is not None:
        check_mask(mask, (*x.shape[:-1], x.shape[-2]))


def check_step(
    x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any, n_gates: int, token: str = "x"
) -> None:
    """Raise unless a token, a state and the weights of a recurrent layer fit together.

    Parameters
    ----------
    x, h : array or tensor, (..., d_in) and (..., d_h)
    w_x, w_h : array or tensor, (n_gates d_h, d_in) and (n_gates d_h, d_h)
    b_x, b_h : array or tensor, (n_gates d_h,)
    n_gates : int
    token : str, default "x"
        What the caller calls `x`.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    for name, array, axes in ((token, x, "(..., d_in)"), ("h", h, "(..., d_h)")):
        check_float(name, array, axes)
        if 0 in array.shape:
            raise ValueError(f"{name} must not be empty: {axes}; got shape {tuple(array.shape)}")
    check_leading("h", h, f"the tokens in {token}", tuple(x.shape[:-1]), 1)
    d_in, d_h = x.shape[-1], h.shape[-1]
    gates = "d_h" if n_gates == 1 else f"{n_gates} d_h"
    check_weight("w_x", w_x, f"({gates}, d_in)", (n_gates * d_h, d_in))
    check_weight("w_h", w_h, f"({gates}, d_h)", (n_gates * d_h, d_h))
    check_weight("b_x", b_x, f"({gates},)", (n_gates * d_h,))
    check_weight("b_h", b_h, f"({gates},)", (n_gates * d_h,))
    check_same_dtype(**{"h": h, token: x, "w_x": w_x, "w_h": w_h, "b_x": b_x, "b_h": b_h})


def check_recurrence(xs: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any, n_gates: int) -> None:
    """Raise unless a sequence, a state and the weights of a recurrent layer fit together."""
    check_sequence("xs", xs, "(..., n, d_in)")
    check_step(xs[..., 0, :], h, w_x, w_h, b_x, b_h, n_gates, token="xs")


def check_cell(c: Any, h: Any) -> None:
    """Raise unless a cell has the shape and dtype of its state."""
    check_float("c", c, "(..., d_h)")
    check_shape("c", c, "h", tuple(h.shape))
    check_same_dtype(h=h, c=c)


def check_sizes(**sizes: Any) -> None:
    """Raise unless every size is a whole number of at least 1."""
    for name, size in sizes.items():
        check_at_least(name, size, 1)


def check_dropout(dropout: Any) -> None:
    """Raise unless a share of dropped entries is at least 0 and below 1."""
    check_share("dropout", dropout)


def check_windows(ids: Any, context: int, vocab_size: int) -> None:
    """Raise unless every row holds `context` ids of the vocabulary. Looks at values."""
    check_embedded("ids", ids, "(b, context)")
    if len(ids.shape) != 2 or ids.shape[1] != context:
        raise ValueError(f"ids must have the shape (b, {context}); got {describe(ids)}")
    check_ids("ids", ids, vocab_size)


def _roomy(ids: Any) -> Any:
    """Return ids in 64 bits. In PyTorch's eight, −100 is 156: it takes the number to the ids."""
    return ids.long() if hasattr(ids, "long") else ids


# Whose arrays a half of the course computes with.
_LIBRARIES = {
    "course_lib.reference": "numpy",
    "course_lib.blocks": "torch",
    "course_lib.models": "torch",
}


def check_library(name: str, x: Any) -> None:
    """Raise where numpy's half of the course gets a tensor, or PyTorch's half an array."""
    library = _asking()
    if library is not None and library not in _packages(x.__class__):
        wanted = {"numpy": "an array of numpy", "torch": "a tensor of PyTorch"}[library]
        raise ValueError(f"{name} must be {wanted}; got a {type(x).__module__}.{type(x).__name__}")


@lru_cache(maxsize=256)
def _packages(kind: type) -> frozenset[str]:
    """Return the packages that a type and what it is made from come from."""
    return frozenset(base.__module__.partition(".")[0] for base in kind.__mro__)


def _asking() -> str | None:
    """Return the library of the half that calls a check.

    Which half asks is read off the call stack, so that none of its lines has to say it. A check
    that is called from elsewhere takes both, and gets None.
    """
    frame: FrameType | None = sys._getframe(1)
    here = globals()
    while frame is not None and frame.f_globals is here:
        frame = frame.f_back
    caller = "" if frame is None else str(frame.f_globals.get("__name__"))
    return _LIBRARIES.get(caller.rpartition(".")[0])


def is_number(x: Any) -> bool:
    """Tell a real number, Python's or numpy's, from all else; booleans are none."""
    return isinstance(x, Real) and not isinstance(x, bool)


def check_number(name: str, value: Any, above: float = -_INFINITY) -> None:
    """Raise unless `value` is a finite real number above `above`.

    Examples
    --------
    >>> check_number("lr", "0.1", above=0)
    Traceback (most recent call last):
    ...
    ValueError: lr must be a number above 0; got '0.1'
    """
    # From 2**63 on PyTorch doesn't take a whole number, and no use of it makes sense.
    if not is_number(value) or not above < value < (2**63 if isinstance(value, int) else _INFINITY):
        limit = "finite number" if above == -_INFINITY else f"number above {above:g}"
        raise ValueError(f"{name} must be a {limit}; got {value!r}")


def check_text(name: str, value: Any) -> None:
    """Raise unless `value` is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string; got {value!r}")


def check_callable(name: str, value: Any) -> None:
    """Raise unless `value` can be called."""
    if not callable(value):
        raise ValueError(f"{name} must be a function; got {value!r}")


def check_several(name: str, value: Any, wanted: str) -> None:
    """Raise unless `value` can be gone through in an order of its own. A string falls apart.

    Examples
    --------
    >>> check_several("tokens", "cat", "a sequence of words")
    Traceback (most recent call last):
    ...
    ValueError: tokens must be a sequence of words; got 'cat'
    """
    unordered = isinstance(value, str | Set | Mapping)
    if unordered or not isinstance(value, Iterable) or getattr(value, "shape", None) == ():
        raise ValueError(f"{name} must be {wanted}; got {value!r}")


def whole_number(x: Any) -> int | None:
    """Return a whole number of Python, numpy or PyTorch as Python's, and None for all else.

    Examples
    --------
    >>> whole_number(3), whole_number(3.0), whole_number(True)
    (3, None, None)
    """
    if isinstance(x, bool) or (hasattr(x, "dtype") and "int" not in dtype_name(x)):
        return None
    try:
        return index(x)
    except TypeError:
        return None


def each_id(ids: Any, size: int) -> Iterator[int]:
    """Yield ids one by one as Python's whole numbers, or raise at one that isn't below `size`.

    What a ``decode`` reads: a list, or an array or tensor with one axis, as far as it is read.

    Examples
    --------
    >>> list(each_id([4, 9], size=9))
    Traceback (most recent call last):
    ...
    ValueError: ids must be whole numbers from 0 to 8; got 9
    """
    check_several("ids", ids, "a sequence of ids")
    for item in ids:
        i = whole_number(item)
        if i is None or not 0 <= i < size:
            raise ValueError(f"ids must be whole numbers from 0 to {size - 1}; got {item!r}")
        yield i


def check_embedded(name: str, ids: Any, axes: str) -> None:
    """Raise unless `ids` has a dtype that embeddings are looked up by, 32 or 64 bits with a sign.

    PyTorch takes neither eight bits nor sixteen, and as an index a uint8 tensor is a mask.
    """
    check_whole(name, ids, axes)
    if dtype_name(ids) not in ("int32", "int64"):
        raise ValueError(f"{name} must be int32 or int64 of shape {axes}; got {describe(ids)}")


def check_id_list(name: str, ids: Any, size: int = 2**63) -> list[int]:
    """Return a sequence of ids, a list or an array with one axis, as a list of int, or raise.

    Parameters
    ----------
    name : str
    ids : iterable of whole numbers
    size : int, default 2**63
        Every id is below it. Looks at values.

    Returns
    -------
    list of int

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.

    Examples
    --------
    >>> check_id_list("ids", [4, 5.0], size=9)
    Traceback (most recent call last):
    ...
    ValueError: ids must hold whole numbers from 0 to 8; got 5.0
    """
    check_several(name, ids, "a sequence of ids")
    found = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    wanted = f"{name} must hold whole numbers from 0 to {size - 1}"
    # One look at all types at once: most lists hold nothing but int, and may be long.
    if not set(map(type, found)) <= {int}:
        numbers = [whole_number(item) for item in found]
        if None in numbers:
            raise ValueError(f"{wanted}; got {found[numbers.index(None)]!r}")
        found = numbers
    if found and (min(found) < 0 or max(found) >= size):
        raise ValueError(f"{wanted}; got {next(i for i in found if not 0 <= i < size)}")
    return found


def check_sequences(name: str, sequences: Any, size: int = 2**63) -> list[list[int]]:
    """Return sequences of ids as lists of int, or raise: see `check_id_list`.

    Examples
    --------
    >>> check_sequences("sequences", [[4], 5])
    Traceback (most recent call last):
    ...
    ValueError: sequences[1] must be a sequence of ids; got 5
    """
    check_several(name, sequences, "sequences of ids")
    return [check_id_list(f"{name}[{i}]", ids, size) for i, ids in enumerate(sequences)]


def check_seed(name: str, seed: Any) -> int | list[int]:
    """Return a seed, one whole number or several, as numpy takes it, or raise.

    None is refused: numpy would draw something else every time.

    Examples
    --------
    >>> check_seed("seed", (7, 9))
    [7, 9]
    >>> check_seed("seed", None)
    Traceback (most recent call last):
    ...
    ValueError: seed must be a whole number of at least 0, or a sequence of such; got None
    """
    listed = isinstance(seed, Sequence) and not isinstance(seed, str | bytes)
    several = listed or len(getattr(seed, "shape", ())) == 1
    numbers = [whole_number(item) for item in (seed if several else [seed])]
    kept = [number for number in numbers if number is not None and number >= 0]
    if not numbers or len(kept) < len(numbers):
        raise ValueError(
            f"{name} must be a whole number of at least 0, or a sequence of such; got {seed!r}"
        )
    return kept if several else kept[0]


@_skippable
def check_lengths(lengths: Any, n: int) -> None:
    """Raise unless every length is a whole number from 0 to `n`. Looks at values.

    Examples
    --------
    >>> import numpy as np
    >>> check_lengths(np.array([2, 4]), n=3)
    Traceback (most recent call last):
    ...
    ValueError: lengths must be from 0 to n = 3; got 4
    """
    check_positive_int("n", n)
    check_whole("lengths", lengths, "(b,)")
    lengths = _roomy(lengths)
    wrong = (lengths < 0) | (lengths > n)
    if bool(wrong.any()):
        raise ValueError(f"lengths must be from 0 to n = {n}; got {int(lengths[wrong][0])}")


@_skippable
def check_masks(masks: Sequence[Any]) -> None:
    """Raise unless all masks that aren't None are boolean and broadcast with one another."""
    shape: tuple[int, ...] = ()
    for i, mask in enumerate(masks):
        if mask is None:
            continue
        if not hasattr(mask, "shape") or dtype_name(mask) != "bool":
            raise ValueError(f"masks[{i}] must be boolean, or None; got {describe(mask)}")
        check_library(f"masks[{i}]", mask)
        other = tuple(mask.shape)
        n_axes = max(len(shape), len(other))
        pairs = list(
            zip((1,) * (n_axes - len(shape)) + shape, (1,) * (n_axes - len(other)) + other,
                strict=True)
        )  # fmt: skip
        if any(a != b and 1 not in (a, b) for a, b in pairs):
            raise ValueError(
                f"masks[{i}] must have a shape that broadcasts with {shape}, that of those before "
                f"it; got {other}"
            )
        shape = tuple(b if a == 1 else a for a, b in pairs)


def check_divides(name: str, part: Any, owner: str, whole: int) -> None:
    """Raise unless `part` is a whole number of at least 1 that divides `whole`, that of `owner`.

    Examples
    --------
    >>> check_divides("n_heads", 3, "the width of x", 8)
    Traceback (most recent call last):
    ...
    ValueError: n_heads must divide the width of x, 8; got 3
    """
    check_positive_int(name, part)
    if whole % part:
        raise ValueError(f"{name} must divide {owner}, {whole}; got {part}")


@_skippable
def check_projection(
    x_name: str, x: Any, w_name: str, w: Any, b_name: str, b: Any, axes: str = "(..., d_in)"
) -> None:
    """Raise unless ``x @ w + b`` can be computed; `b` may be None.

    Parameters
    ----------
    x_name, w_name, b_name : str
        What the caller calls them.
    x : array or tensor, (..., d_in)
    w : array or tensor, (d_in, d_out)
    b : array or tensor, (d_out,), or None
    axes : str, default "(..., d_in)"
        What is said of the shape of `x`.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check_float(x_name, x, axes)
    if 0 in x.shape:
        raise ValueError(f"{x_name} must not be empty: {axes}; got shape {tuple(x.shape)}")
    check_float(w_name, w, "(d_in, d_out)")
    if len(w.shape) != 2 or w.shape[0] != x.shape[-1] or w.shape[1] == 0:
        raise ValueError(
            f"{w_name} must have a shape (d_in, d_out) with d_in = {x.shape[-1]}, the width of "
            f"{x_name}; got {tuple(w.shape)}"
        )
    check_same_dtype(**{x_name: x, w_name: w})
    if b is not None:
        check_weight(b_name, b, "(d_out,)", (w.shape[1],))
        check_same_dtype(**{x_name: x, b_name: b})


def check_fused(w_q: Any, w_k: Any, w_v: Any) -> None:
    """Raise unless three matrices, or three biases, can be put side by side."""
    check_float("w_q", w_q, "(d_in, d_out)")
    if len(w_q.shape) > 2 or 0 in w_q.shape:
        raise ValueError(
            f"w_q must have a shape (d_in, d_out), or (d_out,) if it's a bias, and not be empty; "
            f"got {tuple(w_q.shape)}"
        )
    for name, w in (("w_k", w_k), ("w_v", w_v)):
        check_float(name, w, "(d_in, d_out)")
        check_shape(name, w, "w_q", tuple(w_q.shape))
    check_same_dtype(w_q=w_q, w_k=w_k, w_v=w_v)


@_skippable
def check_heads(name: str, x: Any) -> None:
    """Raise unless `x` has an axis of heads, one of tokens and one of their pieces."""
    check_sequence(name, x, "(..., h, n, d/h)")
    if len(x.shape) < 3:
        raise ValueError(f"{name} must have a shape (..., h, n, d/h); got {tuple(x.shape)}")


def check_three(name: str, w: Any) -> None:
    """Raise unless a matrix can be cut into three of one width."""
    if w.shape[-1] % 3:
        raise ValueError(f"{name} must have columns for three; got {w.shape[-1]}")


def check_multi_head_inputs(
    x_q: Any, x_kv: Any, matrices: Sequence[Any], n_heads: Any, biases: Sequence[Any]
) -> None:
    """Raise unless the arguments of multi-head attention fit together, the mask aside.

    Parameters
    ----------
    x_q, x_kv : array or tensor, (..., n_q, d) and (..., n_k, d_kv)
    matrices : four arrays or tensors
        w_q, w_k, w_v and w_o: (d, h d_k), (d_kv, h d_k), (d_kv, h d_v) and (h d_v, d_out).
    n_heads : int
        h.
    biases : four arrays or tensors, or None for some
        b_q, b_k, b_v and b_o.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    (w_q, w_k, w_v, w_o), (b_q, b_k, b_v, b_o) = matrices, biases
    check_sequence("x_q", x_q, "(..., n_q, d)")
    check_sequence("x_kv", x_kv, "(..., n_k, d_kv)")
    check_leading("x_kv", x_kv, "x_q", tuple(x_q.shape[:-2]), 2)
    check_same_dtype(x_q=x_q, x_kv=x_kv)
    check_projection("x_q", x_q, "w_q", w_q, "b_q", b_q)
    check_projection("x_kv", x_kv, "w_k", w_k, "b_k", b_k)
    check_projection("x_kv", x_kv, "w_v", w_v, "b_v", b_v)
    if w_k.shape[1] != w_q.shape[1]:
        raise ValueError(
            f"w_k must have as many columns as w_q, {w_q.shape[1]}; got shape {tuple(w_k.shape)}"
        )
    check_float("w_o", w_o, "(h d_v, d_out)")
    if len(w_o.shape) != 2 or w_o.shape[0] != w_v.shape[1] or w_o.shape[1] == 0:
        raise ValueError(
            f"w_o must have a row for each of the {w_v.shape[1]} columns of w_v; "
            f"got shape {tuple(w_o.shape)}"
        )
    check_same_dtype(x_q=x_q, w_o=w_o)
    if b_o is not None:
        check_weight("b_o", b_o, "(d_out,)", (w_o.shape[1],))
        check_same_dtype(x_q=x_q, b_o=b_o)
    check_divides("n_heads", n_heads, "the columns of w_q", w_q.shape[1])
    check_divides("n_heads", n_heads, "the columns of w_v", w_v.shape[1])


def check_even(name: str, value: Any) -> None:
    """Raise unless `value` is an even whole number of at least 2.

    Examples
    --------
    >>> check_even("d", 5)
    Traceback (most recent call last):
    ...
    ValueError: d must be an even whole number of at least 2; got 5
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 2 or value % 2:
        raise ValueError(f"{name} must be an even whole number of at least 2; got {value!r}")


def check_factor(name: str, value: Any) -> None:
    """Raise unless `value` is a finite real number of at least 1.

    Examples
    --------
    >>> check_factor("factor", 0.25)
    Traceback (most recent call last):
    ...
    ValueError: factor must be a number of at least 1; got 0.25
    """
    if not is_number(value) or not 1 <= value < _INFINITY:
        raise ValueError(f"{name} must be a number of at least 1; got {value!r}")


def check_frequencies(frequencies: Any) -> None:
    """Raise unless `frequencies` is one row of floats, at least one."""
    check_float("frequencies", frequencies, "(d/2,)")
    if len(frequencies.shape) != 1 or frequencies.shape[0] == 0:
        raise ValueError(
            f"frequencies must have a shape (d/2,), d ≥ 2; got {tuple(frequencies.shape)}"
        )


def check_rotation(x: Any, positions: Any, frequencies: Any) -> None:
    """Raise unless tokens, their positions and the frequencies of their pairs fit together.

    Parameters
    ----------
    x : array or tensor, (..., n, d)
    positions : array or tensor of real numbers that broadcasts to (..., n)
    frequencies : array or tensor, (d_rotated / 2,), d_rotated at most d

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check_sequence("x", x, "(..., n, d)")
    check_frequencies(frequencies)
    if 2 * frequencies.shape[0] > x.shape[-1]:
        raise ValueError(
            f"frequencies must have at most one for each pair of columns of x, "
            f"{x.shape[-1] // 2}; got {frequencies.shape[0]}"
        )
    numbers = hasattr(positions, "dtype") and hasattr(positions, "shape")
    kind = dtype_name(positions) if numbers else ""
    # A positions axis of 1 against n tokens would give all tokens one position: nobody means it.
    fits = numbers and tuple(positions.shape[-1:]) == (x.shape[-2],)
    if not ("int" in kind or "float" in kind) or not (
        fits and _broadcasts(tuple(positions.shape), tuple(x.shape[:-1]))
    ):
        raise ValueError(
            f"positions must be an array of real numbers, one for each of the {x.shape[-2]} "
            f"tokens, that broadcasts to {tuple(x.shape[:-1])}; got {describe(positions)}"
        )
    check_library("positions", positions)


@_skippable
def check_filled(name: str, x: Any, axes: str) -> None:
    """Raise unless `x` is an array of floats in which no axis is empty."""
    check_float(name, x, axes)
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty: {axes}; got shape {tuple(x.shape)}")


@_skippable
def check_features(name: str, x: Any, d: int) -> None:
    """Raise unless `x` is an array of floats whose rows, none of them missing, have the width d."""
    check_filled(name, x, "(..., d)")
    if x.shape[-1] != d:
        raise ValueError(f"{name} must have rows of width d = {d}; got shape {tuple(x.shape)}")


@_skippable
def check_feed_forward_inputs(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> None:
    """Raise unless tokens and the weights of two layers fit together.

    Parameters
    ----------
    x : array or tensor, (..., d)
    w_1, b_1 : array or tensor, (d, d_ff) and (d_ff,)
    w_2, b_2 : array or tensor, (d_ff, d) and (d,)
        Either bias may be None.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    d, d_ff = _check_first_layer(x, w_1)
    check_weight("w_2", w_2, "(d_ff, d)", (d_ff, d))
    biases = {}
    for name, b, axis, size in (("b_1", b_1, "d_ff", d_ff), ("b_2", b_2, "d", d)):
        if b is not None:
            check_weight(name, b, f"({axis},)", (size,))
            biases[name] = b
    check_same_dtype(x=x, w_1=w_1, w_2=w_2, **biases)


def check_swiglu_inputs(x: Any, w_1: Any, w_2: Any, w_3: Any) -> None:
    """Raise unless tokens and the three matrices of a gated feed-forward network fit together."""
    d, d_ff = _check_first_layer(x, w_1)
    check_weight("w_2", w_2, "(d_ff, d)", (d_ff, d))
    check_weight("w_3", w_3, "(d, d_ff)", (d, d_ff))
    check_same_dtype(x=x, w_1=w_1, w_2=w_2, w_3=w_3)


def _check_first_layer(x: Any, w_1: Any) -> tuple[int, int]:
    """Return d and d_ff of tokens (..., d) and a matrix (d, d_ff) that takes them, or raise."""
    check_filled("x", x, "(..., d)")
    check_filled("w_1", w_1, "(d, d_ff)")
    d = x.shape[-1]
    if len(w_1.shape) != 2 or w_1.shape[0] != d:
        raise ValueError(
            f"w_1 must have a shape (d, d_ff) with d = {d}, the width of x; got {tuple(w_1.shape)}"
        )
    return d, w_1.shape[1]


@_skippable
def check_scale_inputs(x: Any, gamma: Any, eps: Any, axes: str = "(..., d)") -> None:
    """Raise unless what is to be normalised and its scale fit together.

    Parameters
    ----------
    x : array or tensor, (..., d)
    gamma : array or tensor, (d,)
    eps : float
    axes : str, default "(..., d)"
        The axes that `x` must have: "(..., n, d)" asks for two.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check = check_sequence if axes == "(..., n, d)" else check_filled
    check("x", x, axes)
    check_weight("gamma", gamma, "(d,)", (x.shape[-1],))
    check_same_dtype(x=x, gamma=gamma)
    check_number("eps", eps, above=0.0)


@_skippable
def check_norm_inputs(x: Any, gamma: Any, beta: Any, eps: Any, axes: str = "(..., d)") -> None:
    """Raise unless what is to be normalised, its scale and its shift fit together."""
    check_scale_inputs(x, gamma, eps, axes)
    check_weight("beta", beta, "(d,)", (x.shape[-1],))
    check_same_dtype(x=x, beta=beta)


@_skippable
def check_correction(y: Any, x: Any) -> None:
    """Raise unless what a sublayer made of x can be added to it."""
    check_float("what sublayer returns", y, "(..., d)")
    check_shape("what sublayer returns", y, "x", tuple(x.shape))
    check_same_dtype(**{"x": x, "what sublayer returns": y})


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless `value` is one of a few words.

    Examples
    --------
    >>> check_choice("activation", "tanh", ("relu", "gelu"))
    Traceback (most recent call last):
    ...
    ValueError: activation must be one of relu, gelu; got 'tanh'
    """
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}; got {value!r}")


def check_table(name: str, table: Any, axes: str = "(V, d)") -> None:
    """Raise unless `table` is an array of floats with two axes, none of them empty."""
    check_sequence(name, table, axes)
    if len(table.shape) != 2:
        raise ValueError(f"{name} must have a shape {axes}; got {tuple(table.shape)}")


@_skippable
def check_lookup(ids: Any, table: Any) -> None:
    """Raise unless every id is a row of the table. Looks at values."""
    check_table("table", table)
    check_whole("ids", ids, "(...)")
    check_ids("ids", ids, table.shape[0])


def check_lookup_gradient(ids: Any, d_output: Any, n_rows: Any) -> None:
    """Raise unless there is one gradient an id, and every id is a row. Looks at values."""
    check_at_least("n_rows", n_rows, 1)
    check_whole("ids", ids, "(...)")
    check_float("d_output", d_output, "(..., d)")
    check_leading("d_output", d_output, "ids", tuple(ids.shape), 1)
    if d_output.shape[-1] == 0:
        raise ValueError(f"d_output must not be empty along d; got {describe(d_output)}")
    check_ids("ids", ids, n_rows)


@_skippable
def check_tied(hidden: Any, table: Any) -> None:
    """Raise unless `hidden` has the width and the dtype of the table's rows."""
    check_float("hidden", hidden, "(..., d)")
    check_table("table", table)
    if hidden.shape[-1] != table.shape[1]:
        raise ValueError(
            f"hidden must have the width of the table's rows, d = {table.shape[1]}; "
            f"got {describe(hidden)}"
        )
    check_same_dtype(table=table, hidden=hidden)


def check_float_dtype(dtype: Any) -> None:
    """Raise unless `dtype` is None or a floating dtype of the half that asks.

    Examples
    --------
    >>> check_float_dtype("int64")
    Traceback (most recent call last):
    ...
    ValueError: dtype must be one of float64, float32, float16, bfloat16; got 'int64'
    """
    library = _asking()
    known = ["float64", "float32", "float16"] + ["bfloat16"] * (library != "numpy")
    name = dtype.__name__ if isinstance(dtype, type) else str(dtype).rpartition(".")[2]
    ours = (type(dtype).__module__ == "torch") == (library == "torch") or library is None
    if dtype is not None and not (ours and name in known):
        of = {"torch": " of PyTorch", "numpy": " of numpy"}.get(library or "", "")
        raise ValueError(f"dtype must be one of {', '.join(known)}{of}; got {dtype!r}")


def check_hands(d: Any, base: Any, dtype: Any) -> None:
    """Raise unless frequencies for d columns can be computed."""
    check_even("d", d)
    check_number("base", base, above=1)
    check_float_dtype(dtype)


@_skippable
def check_sinusoids(n: Any, d: Any, base: Any, offset: Any, dtype: Any = None) -> None:
    """Raise unless sinusoidal positions can be computed."""
    check_at_least("n", n, 1)
    check_hands(d, base, dtype)
    check_at_least("offset", offset, 0)


def check_shift(k: Any, d: Any, base: Any, dtype: Any) -> None:
    """Raise unless sinusoidal positions of width d can be shifted by k."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise ValueError(f"k must be a whole number; got {k!r}")
    check_hands(d, base, dtype)


@_skippable
def check_position_rows(n: Any, table: Any, offset: Any) -> None:
    """Raise unless a table of positions has rows for n tokens from `offset` on."""
    check_at_least("n", n, 1)
    check_at_least("offset", offset, 0)
    check_table("table", table, "(max_length, d)")
    if offset + n > table.shape[0]:
        raise ValueError(
            f"offset + n must be at most {table.shape[0]}, the rows of table; got {offset} + {n}"
        )


def check_axes(name: str, x: Any, axes: Any) -> None:
    """Raise unless `axes` is a tuple of axes of `x`, one at least and none twice.

    Examples
    --------
    >>> import numpy as np
    >>> check_axes("x", np.zeros((2, 3)), (1, -1))
    Traceback (most recent call last):
    ...
    ValueError: axes must name each axis of x once; got (1, -1)
    """
    if not isinstance(axes, tuple) or not axes:
        raise ValueError(f"axes must be a tuple of one axis of {name} at least; got {axes!r}")
    for axis in axes:
        check_axis(name, x, axis)
    if len({axis % len(x.shape) for axis in axes}) < len(axes):
        raise ValueError(f"axes must name each axis of {name} once; got {axes!r}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False; got {value!r}")


def check_module(name: str, value: Any) -> None:
    """Raise unless `value` is an nn.Module, as far as can be told without PyTorch."""
    if "torch.nn.modules.module" not in {base.__module__ for base in type(value).__mro__}:
        raise ValueError(f"{name} must be an nn.Module; got {describe(value)}")


def check_share(name: str, value: Any) -> None:
    """Raise unless `value` is a number of at least 0 and below 1.

    Examples
    --------
    >>> check_share("epsilon", 1.0)
    Traceback (most recent call last):
    ...
    ValueError: epsilon must be at least 0 and below 1; got 1.0
    """
    if not is_number(value) or not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must be at least 0 and below 1; got {value!r}")


def check_right_shift(ids: Any, bos: Any) -> None:
    """Raise unless rows of ids, none of them empty, can be shifted to make room for `bos`."""
    check_whole("ids", ids, "(..., n)")
    if len(ids.shape) == 0 or ids.shape[-1] == 0:
        raise ValueError(f"ids must have a shape (..., n), n ≥ 1; got {tuple(ids.shape)}")
    check_id("bos", bos)


def check_id(name: str, value: Any) -> None:
    """Raise unless `value` is one id: a whole number of at least 0 that 63 bits hold."""
    check_at_least(name, value, 0)
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2**63; got {value!r}")


def check_step_number(name: str, value: Any, last: int | None = None) -> None:
    """Raise unless `value` numbers a step, or is an array of such, from 1 on. Looks at values.

    Examples
    --------
    >>> check_step_number("step", 0)
    Traceback (most recent call last):
    ...
    ValueError: step must be a whole number of at least 1, for steps are counted from 1; got 0
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        check_whole(name, value, "(...)")
        low = int(value.min()) if 0 not in value.shape else 1
        high = int(value.max()) if 0 not in value.shape else 1
    else:
        number = whole_number(value)
        low, high = (0, 0) if number is None else (number, number)
    if low < 1:
        came = low if hasattr(value, "shape") else value
        raise ValueError(
            f"{name} must be a whole number of at least 1, for steps are counted from 1; "
            f"got {came!r}"
        )
    if last is not None and high > last:
        raise ValueError(f"{name} must be at most n_steps = {last}; got {high}")


def check_adam(
    parameter: Any, gradient: Any, m: Any, v: Any, step: Any, rates: Mapping[str, Any]
) -> None:
    """Raise unless a parameter, its gradient and its moments fit together. Looks at values of v.

    Parameters
    ----------
    parameter, gradient, m, v : array or tensor of one shape and dtype
    step : int
        From 1.
    rates : mapping
        "lr", "beta_1", "beta_2", "eps" and "weight_decay".

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    arrays = {"parameter": parameter, "gradient": gradient, "m": m, "v": v}
    for name, x in arrays.items():
        check_real(name, x)
        check_shape(name, x, "parameter", tuple(parameter.shape))
    check_same_dtype(**arrays)
    if bool((v < 0).any()):
        raise ValueError(f"v must be a mean of squares, nowhere below 0; got {float(v.min()):g}")
    check_at_least("step", step, 1)
    for name in ("lr", "weight_decay"):
        if not is_number(rates[name]) or not 0 <= rates[name] < _INFINITY:
            raise ValueError(f"{name} must be a number of at least 0; got {rates[name]!r}")
    for name in ("beta_1", "beta_2"):
        check_share(name, rates[name])
    check_number("eps", rates["eps"], above=0)


def check_real(name: str, x: Any) -> None:
    """Raise unless `x` is an array or tensor of real floats; one without axes will do."""
    if not (hasattr(x, "dtype") and hasattr(x, "shape")) or "float" not in dtype_name(x):
        raise ValueError(
            f"{name} must be an array of real floating-point numbers; got {describe(x)}"
        )
    check_library(name, x)


def check_gradients(gradients: Any, max_norm: Any) -> None:
    """Raise unless `gradients` are several arrays of floats that can be clipped to one norm."""
    check_several("gradients", gradients, "a list of arrays")
    if not isinstance(gradients, Sequence) or not gradients:
        raise ValueError(
            f"gradients must be a list of at least one array; got {describe(gradients)}"
            f"{' without any' if isinstance(gradients, Sequence) else ''}"
        )
    for i, gradient in enumerate(gradients):
        check_real(f"gradients[{i}]", gradient)
    check_number("max_norm", max_norm, above=0)


def check_match(predictions: Any, targets: Any, pad: Any) -> None:
    """Raise unless rows of ids can be compared, and each target has a real token.

    Parameters
    ----------
    predictions, targets : array or tensor, (..., n_p) and (..., n)
    pad : int

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    for name, ids, axes in (("targets", targets, "(..., n)"),
                            ("predictions", predictions, "(..., n_p)")):  # fmt: skip
        check_whole(name, ids, axes)
        if len(ids.shape) == 0:
            raise ValueError(f"{name} must have a shape {axes}; got {tuple(ids.shape)}")
    if 0 in targets.shape:
        raise ValueError(f"targets must not be empty: (..., n); got shape {tuple(targets.shape)}")
    check_leading("predictions", predictions, "targets", tuple(targets.shape[:-1]), 1)
    check_id("pad", pad)
    if not bool((targets != pad).any(-1).all()):
        raise ValueError(f"targets must hold an id other than pad = {pad} in every row")


def check_weights(weights: Any, needed: Iterable[str]) -> None:
    """Raise unless `weights` is a dictionary that has every name that is needed.

    Examples
    --------
    >>> check_weights({"norm.gamma": 1.0}, ["norm.gamma", "norm.beta"])
    Traceback (most recent call last):
    ...
    ValueError: weights must have 'norm.beta'; got the names 'norm.gamma'
    """
    if not isinstance(weights, Mapping):
        raise ValueError(f"weights must be a dictionary of arrays by name; got {describe(weights)}")
    for name in needed:
        if name not in weights:
            names = ", ".join(repr(n) for n in list(weights)[:4]) or "none"
            more = ", …" if len(weights) > 4 else ""
            raise ValueError(f"weights must have {name!r}; got the names {names}{more}")


@_skippable
def check_token_ids(name: str, ids: Any, axes: str, size: int) -> None:
    """Raise unless `ids` are rows of at least one id of the vocabulary each. Looks at values.

    Examples
    --------
    >>> import numpy as np
    >>> check_token_ids("src", np.array([[3, 9]]), "(b, n_src)", 8)
    Traceback (most recent call last):
    ...
    ValueError: src must be from 0 to 7; got 9
    """
    check_whole(name, ids, axes)
    n_axes = axes.count(",") + 1
    if 0 in ids.shape or (len(ids.shape) != n_axes if "..." not in axes else len(ids.shape) < 1):
        raise ValueError(f"{name} must have a shape {axes}, none of it 0; got {tuple(ids.shape)}")
    check_ids(name, ids, size)


@_skippable
def check_token_lengths(name: str, lengths: Any, owner: str, ids: Any) -> None:
    """Raise unless each of a batch's rows has a length from 1 to their width. Looks at values.

    Parameters
    ----------
    name : str
    lengths : array or tensor, (b,)
    owner : str
        What `ids` is called.
    ids : array or tensor, (b, n)
    """
    b, n = ids.shape
    wanted = f"{name} must be whole numbers from 1 to {n}, the width of {owner}, of shape ({b},)"
    if not hasattr(lengths, "shape") or tuple(lengths.shape) != (b,):
        raise ValueError(f"{wanted}; got {describe(lengths)}")
    check_whole(name, lengths, "(b,)")
    lengths = _roomy(lengths)
    wrong = (lengths < 1) | (lengths > n)
    if bool(wrong.any()):
        raise ValueError(f"{wanted}; got {int(lengths[wrong][0])}")


@_skippable
def check_first_tokens(name: str, ids: Any, bos: int) -> None:
    """Raise unless every row begins with <bos>. Looks at values.

    Examples
    --------
    >>> import numpy as np
    >>> check_first_tokens("tgt_in", np.array([[1, 5], [7, 5]]), bos=1)
    Traceback (most recent call last):
    ...
    ValueError: tgt_in must begin with <bos>, the id 1, in every row; got 7
    """
    first = ids[..., 0].reshape(-1)
    wrong = first != bos
    if bool(wrong.any()):
        raise ValueError(
            f"{name} must begin with <bos>, the id {bos}, in every row; got {int(first[wrong][0])}"
        )


def check_room(name: str, n: int, max_length: int, past: int = 0) -> None:
    """Raise unless a sequence fits into a table of positions.

    Examples
    --------
    >>> check_room("src", 9, 8)
    Traceback (most recent call last):
    ...
    ValueError: src must have at most max_length = 8 tokens; got 9
    """
    if past + n > max_length:
        came = f"{n} after {past}" if past else f"{n}"
        raise ValueError(f"{name} must have at most max_length = {max_length} tokens; got {came}")


def check_logits(name: str, logits: Any) -> None:
    """Raise unless a token can be drawn from each row of logits. Looks at values.

    Examples
    --------
    >>> import numpy as np
    >>> check_logits("logits", np.array([np.nan, 0.0]))
    Traceback (most recent call last):
    ...
    ValueError: logits must be below ∞, no NaN, and above −∞ for a token of each row; got NaN
    """
    check_float(name, logits, "(..., V)")
    if 0 in logits.shape:
        raise ValueError(f"{name} must not be empty: (..., V); got shape {tuple(logits.shape)}")
    if not bool((logits < _INFINITY).all()) or not bool((logits > -_INFINITY).any(-1).all()):
        nan = bool((logits != logits).any())
        came = "NaN" if nan else "∞" if bool((logits == _INFINITY).any()) else "a row of −∞"
        raise ValueError(
            f"{name} must be below ∞, no NaN, and above −∞ for a token of each row; got {came}"
        )


def check_probability(name: str, value: Any) -> None:
    """Raise unless `value` is a number above 0 and at most 1.

    Examples
    --------
    >>> check_probability("top_p", 1.5)
    Traceback (most recent call last):
    ...
    ValueError: top_p must be above 0 and at most 1; got 1.5
    """
    if not is_number(value) or not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1; got {value!r}")


def check_finished(scores: Any, lengths: Any) -> None:
    """Raise unless every score is that of a hypothesis of at least one token. Looks at values."""
    check_float("scores", scores, "(...)")
    check_whole("lengths", lengths, "(...)")
    check_shape("lengths", lengths, "scores", tuple(scores.shape))
    if bool((_roomy(lengths) < 1).any()):
        raise ValueError(f"lengths must be at least 1; got {int(lengths.min())}")


def check_ntk(d: Any, factor: Any, base: Any) -> None:
    """Raise unless the base of d rotated columns can be raised for a longer context."""
    check_even("d", d)
    check_at_least("d", d, 4)
    check_factor("factor", factor)
    check_number("base", base, above=1)


def check_yarn(factor: Any, original_length: Any, beta_fast: Any, beta_slow: Any) -> None:
    """Raise unless YaRN's ramp runs from more turns to fewer within a length."""
    check_factor("factor", factor)
    check_positive_int("original_length", original_length)
    check_number("beta_slow", beta_slow, above=0)
    check_number("beta_fast", beta_fast, above=beta_slow)


def check_last_queries(n_q: Any, n_k: Any) -> None:
    """Raise unless n_q queries can be the last ones of n_k tokens."""
    check_positive_int("n_q", n_q)
    check_positive_int("n_k", n_k)
    if n_k < n_q:
        raise ValueError(f"n_k must be at least n_q = {n_q}; got {n_k}")


def check_kv_heads(n_heads: Any, n_kv_heads: Any) -> None:
    """Raise unless each head of keys and values can serve as many query heads as every other.

    Examples
    --------
    >>> check_kv_heads(6, 4)
    Traceback (most recent call last):
    ...
    ValueError: n_kv_heads must divide n_heads, 6; got 4
    """
    check_positive_int("n_heads", n_heads)
    check_divides("n_kv_heads", n_kv_heads, "n_heads", n_heads)


def check_repeated(x: Any, group_size: Any) -> None:
    """Raise unless every head of `x` can be repeated `group_size` times."""
    check_heads("x", x)
    check_positive_int("group_size", group_size)


def check_grouped_query_inputs(
    x_q: Any, x_kv: Any, matrices: Sequence[Any], n_heads: Any, n_kv_heads: Any
) -> None:
    """Raise unless the arguments of grouped-query attention fit together, the mask aside.

    Parameters
    ----------
    x_q, x_kv : array or tensor, (..., n_q, d) and (..., n_k, d_kv)
    matrices : four arrays or tensors
        w_q, w_k, w_v and w_o: (d, h d_k), (d_kv, h_kv d_k), (d_kv, h_kv d_v) and (h d_v, d_out).
    n_heads, n_kv_heads : int
        h and h_kv.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    w_q, w_k, w_v, w_o = matrices
    check_sequence("x_q", x_q, "(..., n_q, d)")
    check_sequence("x_kv", x_kv, "(..., n_k, d_kv)")
    check_leading("x_kv", x_kv, "x_q", tuple(x_q.shape[:-2]), 2)
    check_same_dtype(x_q=x_q, x_kv=x_kv)
    check_projection("x_q", x_q, "w_q", w_q, "b_q", None)
    check_projection("x_kv", x_kv, "w_k", w_k, "b_k", None)
    check_projection("x_kv", x_kv, "w_v", w_v, "b_v", None)
    check_kv_heads(n_heads, n_kv_heads)
    check_divides("n_heads", n_heads, "the columns of w_q", w_q.shape[1])
    d_k = w_q.shape[1] // n_heads
    if w_k.shape[1] != n_kv_heads * d_k:
        raise ValueError(
            f"w_k must have n_kv_heads · d_k = {n_kv_heads} · {d_k} columns; "
            f"got shape {tuple(w_k.shape)}"
        )
    check_divides("n_kv_heads", n_kv_heads, "the columns of w_v", w_v.shape[1])
    rows = n_heads * (w_v.shape[1] // n_kv_heads)
    check_float("w_o", w_o, "(h d_v, d_out)")
    if len(w_o.shape) != 2 or w_o.shape[0] != rows or w_o.shape[1] == 0:
        raise ValueError(
            f"w_o must have a row for each of the {rows} columns of all n_heads = {n_heads} heads; "
            f"got shape {tuple(w_o.shape)}"
        )
    check_same_dtype(x_q=x_q, w_o=w_o)


def check_pooled(w: Any, n_heads: Any, n_kv_heads: Any) -> None:
    """Raise unless the columns of `w` are those of `n_heads` heads that can be pooled."""
    check_filled("w", w, "(d, h d_k)")
    check_kv_heads(n_heads, n_kv_heads)
    check_divides("n_heads", n_heads, "the columns of w", w.shape[-1])


def check_llama3(
    factor: Any, original_length: Any, low_freq_factor: Any, high_freq_factor: Any
) -> None:
    """Raise unless Llama 3's ramp runs from fewer turns to more within a length."""
    check_factor("factor", factor)
    check_positive_int("original_length", original_length)
    check_number("low_freq_factor", low_freq_factor, above=0)
    check_number("high_freq_factor", high_freq_factor, above=low_freq_factor)


def check_longrope(frequencies: Any, factors: Any, factor: Any, original_length: Any) -> None:
    """Raise unless there is a factor above 0 for each frequency. Looks at values."""
    check_frequencies(frequencies)
    check_float("factors", factors, "(d/2,)")
    check_shape("factors", factors, "frequencies", tuple(frequencies.shape))
    if not bool((factors > 0).all()):
        raise ValueError(f"factors must be above 0; got {float(factors.min()):g}")
    check_factor("factor", factor)
    check_at_least("original_length", original_length, 2)


def check_pooling(hidden: Any, mask: Any) -> None:
    """Raise unless each token of `hidden` has an entry of the boolean `mask`."""
    check_sequence("hidden", hidden, "(..., n, d)")
    if not hasattr(mask, "shape") or not hasattr(mask, "dtype") or dtype_name(mask) != "bool":
        raise ValueError(f"mask must be boolean; got {describe(mask)}")
    check_library("mask", mask)
    check_shape("mask", mask, "hidden without its last axis", tuple(hidden.shape[:-1]))


def check_vectors(a_name: str, a: Any, b_name: str, b: Any) -> None:
    """Raise unless two collections hold vectors, as rows, of one width and dtype."""
    check_sequence(a_name, a, "(..., m, d)")
    check_sequence(b_name, b, "(..., n, d)")
    check_leading(b_name, b, a_name, tuple(a.shape[:-2]), 2)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"{b_name} must have the width of {a_name}, {a.shape[-1]}; got shape {tuple(b.shape)}"
        )
    check_same_dtype(**{a_name: a, b_name: b})


def check_search(query: Any, documents: Any, k: Any) -> None:
    """Raise unless the `k` rows of `documents` that are nearest to vectors can be found."""
    check_filled("query", query, "(..., d)")
    check_filled("documents", documents, "(n, d)")
    if len(documents.shape) != 2:
        raise ValueError(f"documents must have a shape (n, d); got {tuple(documents.shape)}")
    if documents.shape[1] != query.shape[-1]:
        raise ValueError(
            f"documents must have the width of query, {query.shape[-1]}; "
            f"got shape {tuple(documents.shape)}"
        )
    check_same_dtype(query=query, documents=documents)
    check_positive_int("k", k)
    if k > documents.shape[0]:
        raise ValueError(f"k must be at most {documents.shape[0]}, all documents; got {k}")


def check_past(x: Any, matrices: Sequence[Any], n_heads: Any, past: Any) -> None:
    """Raise unless new tokens, weights and what was kept of the tokens before fit together.

    Parameters
    ----------
    x : array or tensor, (..., n, d)
    matrices : four arrays or tensors
        w_q, w_k, w_v and w_o.
    n_heads : int
        h.
    past : (keys, values) or None
        (..., h, n_past, d/h) each.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    check_multi_head_inputs(x, x, matrices, n_heads, (None,) * 4)
    if past is None:
        return
    if not isinstance(past, tuple | list) or len(past) != 2:
        raise ValueError(f"past must be two arrays, keys and values; got {describe(past)}")
    for name, kept, w in zip(("keys", "values"), past, matrices[1:3], strict=True):
        name = f"past's {name}"
        check_heads(name, kept)
        check_same_dtype(**{"x": x, name: kept})
        *leading, heads, _, width = kept.shape
        expected = (*x.shape[:-2], n_heads, w.shape[1] // n_heads)
        if (*leading, heads, width) != expected:
            *leading, heads, width = expected
            axes = ", ".join(map(str, (*leading, heads, "n_past", width)))
            raise ValueError(f"{name} must have a shape ({axes}); got {tuple(kept.shape)}")
    if past[0].shape[-2] != past[1].shape[-2]:
        raise ValueError(
            f"past must hold as many values as keys, {past[0].shape[-2]}; got {past[1].shape[-2]}"
        )


def check_tiles(n_q: Any, n_k: Any, block_q: Any, block_k: Any, causal: Any) -> None:
    """Raise unless a table of n_q rows and n_k columns can be cut into tiles."""
    for name, size in (("n_q", n_q), ("n_k", n_k), ("block_q", block_q), ("block_k", block_k)):
        check_positive_int(name, size)
    check_flag("causal", causal)
    if causal:
        check_last_queries(n_q, n_k)


def check_tiled_inputs(
    q: Any, k: Any, v: Any, mask: Any, causal: Any, block_q: Any, block_k: Any
) -> None:
    """Raise unless the arguments of tiled attention fit together.

    As `check_attention_inputs`, but keys and values may have fewer heads, on the axis before the
    last two, if they divide those of the queries.

    Examples
    --------
    >>> import numpy as np
    >>> q, k = np.ones((3, 2, 4)), np.ones((2, 2, 4))
    >>> check_tiled_inputs(q, k, k, None, False, 2, 2)
    Traceback (most recent call last):
    ...
    ValueError: k must have the leading axes of q, (3,), the last a divisor of it; got (2,)
    """
    _check_rows(q, k, v)
    check_leading("v", v, "k", tuple(k.shape[:-2]), 2)
    ours, theirs = tuple(q.shape[:-2]), tuple(k.shape[:-2])
    if ours != theirs and (
        not ours or len(ours) != len(theirs) or ours[:-1] != theirs[:-1] or ours[-1] % theirs[-1]
    ):
        raise ValueError(
            f"k must have the leading axes of q, {ours}, the last a divisor of it; got {theirs}"
        )
    check_tiles(q.shape[-2], k.shape[-2], block_q, block_k, causal)
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))


def check_softmax_state(m: Any, l: Any, o: Any, scores: Any, values: Any) -> None:
    """Raise unless a running softmax can take in more scores and values."""
    check_sequence("scores", scores, "(..., n_q, b)")
    check_sequence("values", values, "(..., b, d_v)")
    check_leading("values", values, "scores", tuple(scores.shape[:-2]), 2)
    if values.shape[-2] != scores.shape[-1]:
        raise ValueError(
            f"values must have one row for each of the {scores.shape[-1]} scores; "
            f"got shape {tuple(values.shape)}"
        )
    rows = tuple(scores.shape[:-1])
    check_weight("m", m, "(..., n_q)", rows)
    check_weight("l", l, "(..., n_q)", rows)
    check_weight("o", o, "(..., n_q, d_v)", (*rows, values.shape[-1]))
    check_same_dtype(scores=scores, values=values, m=m, l=l, o=o)


def check_partials(output_a: Any, lse_a: Any, output_b: Any, lse_b: Any) -> None:
    """Raise unless two partial results belong to the same queries."""
    check_sequence("output_a", output_a, "(..., n_q, d_v)")
    shape = tuple(output_a.shape)
    check_weight("output_b", output_b, "(..., n_q, d_v)", shape)
    check_weight("lse_a", lse_a, "(..., n_q)", shape[:-1])
    check_weight("lse_b", lse_b, "(..., n_q)", shape[:-1])
    check_same_dtype(output_a=output_a, output_b=output_b)
    check_same_dtype(lse_a=lse_a, lse_b=lse_b)


def check_tiled_gradient(q: Any, v: Any, output: Any, lse: Any, d_output: Any, d_lse: Any) -> None:
    """Raise unless a result of tiled attention and its gradients have the right shapes."""
    shape = (*q.shape[:-1], v.shape[-1])
    check_weight("output", output, "(..., n_q, d_v)", shape)
    check_weight("lse", lse, "(..., n_q)", shape[:-1])
    check_weight("d_output", d_output, "(..., n_q, d_v)", shape)
    if d_lse is not None:
        check_weight("d_lse", d_lse, "(..., n_q)", shape[:-1])
