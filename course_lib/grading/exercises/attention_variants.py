"""Multi-head attention with its steps to be replaced, and written in other ways.

Exercises build wrong answers and right ones from it. Everything is written out: the course's own
functions refuse to work while a student's are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "attend",
    "by_einsum",
    "by_loops",
    "by_torch",
    "cut",
    "every_other",
    "hide",
    "late",
    "merge",
    "paste",
    "plain_softmax",
    "query_by_query",
    "softmax",
    "split",
    "torch_attention",
]


def softmax(s: NDArray, axis: Any = -1) -> NDArray:
    """Turn scores into weights; a row of nothing but −∞ becomes zeros."""
    peak = s.max(axis=axis, keepdims=True)
    e = np.exp(s - np.where(peak == -np.inf, 0.0, peak))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0.0, 1.0, total)


def plain_softmax(s: NDArray, axis: Any = -1) -> NDArray:
    """Turn scores into weights; a row of nothing but −∞ becomes NaN."""
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def split(x: NDArray, n_heads: int) -> NDArray:
    """Cut every vector into heads, rightly: (..., n, d) becomes (..., h, n, d/h)."""
    return x.reshape(*x.shape[:-1], n_heads, -1).swapaxes(-3, -2)


def merge(x: NDArray) -> NDArray:
    """Undo `split`."""
    y = x.swapaxes(-3, -2)
    return y.reshape(*y.shape[:-2], -1)


def cut(x: NDArray, n_heads: int) -> NDArray:
    """Cut into heads without bringing their axis forward first."""
    *lead, n, d = x.shape
    return x.reshape(*lead, n_heads, n, d // n_heads)


def paste(x: NDArray) -> NDArray:
    """Undo `cut`."""
    *lead, h, n, d_head = x.shape
    return x.reshape(*lead, n, h * d_head)


def every_other(x: NDArray, n_heads: int) -> NDArray:
    """Give head i the columns i, i + h, i + 2h, …."""
    return np.stack([x[..., i::n_heads] for i in range(n_heads)], axis=-3)


def hide(scores: NDArray, mask: NDArray | None, fill: float = -np.inf) -> NDArray:
    """Put `fill` in the place of scores that the mask hides."""
    return scores if mask is None else np.where(mask, scores, fill)


def late(weights: NDArray, mask: NDArray | None) -> NDArray:
    """Hide weights after the softmax, which is too late."""
    return weights if mask is None else weights * mask


def attend(
    split: Callable[[NDArray, int], NDArray] = split,
    merge: Callable[[NDArray], NDArray] = merge,
    scale: Callable[[int, int], float] = lambda d, h: sqrt(d / h),
    turn: Callable[[NDArray], NDArray] = lambda w: w,
    hide: Callable[[NDArray, NDArray | None], NDArray] = hide,
    weigh: Callable[[NDArray], NDArray] = softmax,
    after_weights: Callable[[NDArray, NDArray | None], NDArray] = lambda p, mask: p,
    project: Callable[[NDArray, NDArray], NDArray] = lambda heads, w_o: heads @ w_o,
    inputs: Callable[..., tuple[NDArray, NDArray, NDArray]] = lambda a, b, q, k, v: (
        a @ q,
        b @ k,
        b @ v,
    ),
    returns: Callable[..., Any] = lambda output, weights: (output, weights),
) -> Callable[..., Any]:
    """Return multi-head attention with some steps replaced."""

    def attended(
        x_q: NDArray,
        x_kv: NDArray,
        w_q: NDArray,
        w_k: NDArray,
        w_v: NDArray,
        w_o: NDArray,
        n_heads: int,
        mask: NDArray | None,
    ) -> Any:
        w_q, w_k, w_v, w_o = map(turn, (w_q, w_k, w_v, w_o))
        q, k, v = (split(y, n_heads) for y in inputs(x_q, x_kv, w_q, w_k, w_v))
        with np.errstate(all="ignore"):
            scores = q @ k.swapaxes(-2, -1) / scale(w_q.shape[0], n_heads)
            weights = after_weights(weigh(hide(scores, mask)), mask)
            return returns(project(merge(weights @ v), w_o), weights)

    return attended


# -- attention, written in other ways --------------------------------------------------------------


def by_loops(a: Any, b: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, h: int, mask: Any) -> Any:
    """One head after another, each with its own columns of the matrices and rows of W_O."""
    width = a.shape[-1] // h
    allowed = np.ones((*a.shape[:-2], h, a.shape[-2], b.shape[-2]), bool)
    allowed &= True if mask is None else mask
    weights, output = np.zeros(allowed.shape), np.zeros(a.shape)
    for i in range(h):
        own = slice(i * width, (i + 1) * width)
        scores = (a @ w_q[:, own]) @ (b @ w_k[:, own]).swapaxes(-2, -1) / width**0.5
        weights[..., i, :, :] = softmax(np.where(allowed[..., i, :, :], scores, -np.inf))
        output += weights[..., i, :, :] @ (b @ w_v[:, own]) @ w_o[own]
    return output, weights


def by_einsum(a: Any, b: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, h: int, mask: Any) -> Any:
    """Do the same with each matrix cut into heads before it's used."""
    d = a.shape[-1]
    q, k, v = (
        np.einsum("...nd,dhe->...hne", x, w.reshape(d, h, -1))
        for x, w in ((a, w_q), (b, w_k), (b, w_v))
    )
    scores = np.einsum("...ie,...je->...ij", q, k) * (d // h) ** -0.5
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    weights = np.nan_to_num(plain_softmax(scores))
    return np.einsum("...hij,...hje,hef->...if", weights, v, w_o.reshape(h, -1, d)), weights


def by_torch(a: Any, b: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, h: int, mask: Any) -> Any:
    """Do the same with tensors."""
    pairs = ((a, w_q), (b, w_k), (b, w_v))
    q, k, v = ((x @ w).unflatten(-1, (h, -1)).transpose(-3, -2) for x, w in pairs)
    heads, weights = torch_attention(q, k, v, mask)
    return heads.transpose(-3, -2).flatten(-2) @ w_o, weights


def torch_attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attend with tensors; where all is hidden, weights are 0."""
    import torch

    scores = q @ k.mT / q.shape[-1] ** 0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num()
    return weights @ v, weights


def query_by_query(q: Any, k: Any, v: Any, first: Any, end: Any) -> Any:
    """Let each query see the keys from `first` to before `end`, two functions of its index."""
    output, weights = np.zeros(q.shape), np.zeros((*q.shape[:-1], k.shape[-2]))
    for place in np.ndindex(q.shape[:-1]):
        lead, near = place[:-1], slice(first(place), end(place))
        e = np.exp(k[lead][near] @ q[place] / q.shape[-1] ** 0.5)
        weights[(*place, near)] = e / e.sum()
        output[place] = weights[(*place, near)] @ v[lead][near]
    return output, weights
