"""What the tests of twins share: random inputs of any leading shape, and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

FLOATS = {"float32": 1e-5, "float64": 1e-12}


@dataclass(frozen=True)
class AttentionInputs:
    """Arguments of attention, as arrays, with an output gradient; `tensors` gives the twins."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    d_output: np.ndarray
    mask: np.ndarray | None

    @property
    def tolerance(self) -> float:
        return FLOATS[self.q.dtype.name]

    def tensors(self, requires_grad: bool = False) -> tuple[torch.Tensor, ...]:
        q, k, v = (torch.tensor(x, requires_grad=requires_grad) for x in (self.q, self.k, self.v))
        mask = None if self.mask is None else torch.tensor(self.mask)
        return q, k, v, torch.tensor(self.d_output), mask


@st.composite
def attention_inputs(draw: st.DrawFn, dtypes: tuple[str, ...] = tuple(FLOATS)) -> AttentionInputs:
    """Draw inputs with 0 to 3 leading axes, all sizes free, and no, a full or a broadcast mask."""
    lead = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    n_q, n_k, d_k, d_v = (draw(st.integers(1, 6)) for _ in range(4))
    dtype = draw(st.sampled_from(dtypes))
    spread = draw(st.sampled_from([0.1, 1.0, 5.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape: int) -> np.ndarray:
        return (spread * rng.standard_normal(shape)).astype(dtype)

    mask_shape = draw(
        st.sampled_from([None, (*lead, n_q, n_k), (n_q, n_k), (1, n_k), (n_k,), (n_q, 1)])
    )
    mask = None if mask_shape is None else rng.random(mask_shape) < 0.6
    return AttentionInputs(
        q=normal(*lead, n_q, d_k),
        k=normal(*lead, n_k, d_k),
        v=normal(*lead, n_k, d_v),
        d_output=normal(*lead, n_q, d_v),
        mask=mask,
    )


def assert_close(actual: object, expected: object, tolerance: float) -> None:
    """Compare shape, dtype and values, relative to the size of what is expected."""
    a = actual.detach().numpy() if isinstance(actual, torch.Tensor) else np.asarray(actual)
    b = expected.detach().numpy() if isinstance(expected, torch.Tensor) else np.asarray(expected)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    scale = max(1.0, float(np.abs(b).max()))
    np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance * scale)


@dataclass(frozen=True)
class MultiHeadInputs:
    """Arguments of multi-head attention by name, as arrays; `tensors` gives the twins."""

    arrays: dict[str, np.ndarray | None]
    n_heads: int

    @property
    def tolerance(self) -> float:
        assert self.arrays["x_q"] is not None
        return FLOATS[self.arrays["x_q"].dtype.name]

    def numpy(self) -> dict[str, object]:
        return {**self.arrays, "n_heads": self.n_heads}

    def tensors(self) -> dict[str, object]:
        tensors = {n: None if a is None else torch.tensor(a) for n, a in self.arrays.items()}
        return {**tensors, "n_heads": self.n_heads}


@st.composite
def multi_head_inputs(draw: st.DrawFn, square: bool = False) -> MultiHeadInputs:
    """Draw inputs with 0 to 2 leading axes, biases or none, and no, a full or a broadcast mask.

    Where `square`, every matrix is (d, d), as ``nn.MultiheadAttention`` has them; there is a batch
    axis and every query may look at a key at least.
    """
    lead = (draw(st.integers(1, 3)),) if square else tuple(
        draw(st.lists(st.integers(1, 3), max_size=2))
    )  # fmt: skip
    n_q, n_k, h, d_k, d_v, d, d_kv, d_out = (draw(st.integers(1, 5)) for _ in range(8))
    if square:
        d_v, d, d_kv, d_out = d_k, h * d_k, h * d_k, h * d_k
    dtype = draw(st.sampled_from(tuple(FLOATS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    shapes = [None, (*lead, h, n_q, n_k), (n_q, n_k), (h, 1, n_k), (n_k,)]
    if len(lead) == 1:
        shapes.append((*lead, 1, 1, n_k))
    mask_shape = draw(st.sampled_from(shapes))
    mask = None if mask_shape is None else rng.random(mask_shape) < 0.6
    if mask is not None and square:
        mask[..., 0] = True
    arrays = {
        "x_q": normal(*lead, n_q, d), "x_kv": normal(*lead, n_k, d_kv),
        "w_q": normal(d, h * d_k), "w_k": normal(d_kv, h * d_k),
        "w_v": normal(d_kv, h * d_v), "w_o": normal(h * d_v, d_out), "mask": mask,
    }  # fmt: skip
    if draw(st.booleans()):
        widths = {"b_q": h * d_k, "b_k": h * d_k, "b_v": h * d_v, "b_o": d_out}
        arrays |= {name: normal(width) for name, width in widths.items()}
    return MultiHeadInputs(arrays, h)


def numerical_gradient(loss: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Central differences of a scalar function, one element at a time."""
    step = 1e-6
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (loss(up) - loss(down)) / (2 * step)
    return gradient


@dataclass(frozen=True)
class GroupedInputs:
    """Arguments of grouped-query attention by name, as arrays; `tensors` gives the twins."""

    arrays: dict[str, np.ndarray]
    n_heads: int
    n_kv_heads: int

    @property
    def tolerance(self) -> float:
        return FLOATS[self.arrays["x_q"].dtype.name]

    def numpy(self) -> dict[str, object]:
        return {**self.arrays, "n_heads": self.n_heads, "n_kv_heads": self.n_kv_heads}

    def tensors(self) -> dict[str, object]:
        tensors = {n: None if a is None else torch.tensor(a) for n, a in self.arrays.items()}
        return {**self.numpy(), **tensors}


@st.composite
def grouped_inputs(draw: st.DrawFn) -> GroupedInputs:
    """Draw inputs with 0 to 2 leading axes, all sizes free, and no, a full or a broadcast mask."""
    lead = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    n_q, n_k, h_kv, group_size, d_k, d_v, d, d_kv, d_out = (
        draw(st.integers(1, 4)) for _ in range(9)
    )
    h = h_kv * group_size
    dtype = draw(st.sampled_from(tuple(FLOATS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = {
        "x_q": (*lead, n_q, d), "x_kv": (*lead, n_k, d_kv), "w_q": (d, h * d_k),
        "w_k": (d_kv, h_kv * d_k), "w_v": (d_kv, h_kv * d_v), "w_o": (h * d_v, d_out),
    }  # fmt: skip
    arrays = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    mask_shape = draw(st.sampled_from([None, (*lead, h, n_q, n_k), (n_q, n_k), (h, 1, n_k)]))
    mask = None if mask_shape is None else rng.random(mask_shape) < 0.6
    return GroupedInputs({**arrays, "mask": mask}, h, h_kv)


@dataclass(frozen=True)
class TiledInputs:
    """Arguments of tiled attention by name, as arrays; `tensors` gives the twins."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray | None
    causal: bool
    block_q: int
    block_k: int

    @property
    def tolerance(self) -> float:
        return FLOATS[self.q.dtype.name]

    @property
    def seen(self) -> np.ndarray | None:
        """The mask and the causal one together."""
        n_q, n_k = self.q.shape[-2], self.k.shape[-2]
        if not self.causal:
            return self.mask
        past = np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q
        return past if self.mask is None else past & self.mask

    def numpy(self) -> dict[str, Any]:
        return dict(vars(self))

    def tensors(self, requires_grad: bool = False) -> dict[str, Any]:
        arrays = {n: torch.tensor(vars(self)[n], requires_grad=requires_grad) for n in "qkv"}
        mask = None if self.mask is None else torch.tensor(self.mask)
        return {**self.numpy(), **arrays, "mask": mask}


@st.composite
def tiled_inputs(draw: st.DrawFn) -> TiledInputs:
    """Draw tiles of any size, shared heads or none, causal or not, with any kind of mask."""
    lead = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    groups = draw(st.integers(1, 3)) if lead else 1
    heads = (*lead[:-1], lead[-1] * groups) if lead else ()
    n_q, more, d_k, d_v = draw(st.integers(1, 9)), draw(st.integers(0, 6)), *(
        draw(st.integers(1, 4)) for _ in range(2)
    )  # fmt: skip
    causal = draw(st.booleans())
    n_k = n_q + more if causal else more + 1
    dtype, spread = draw(st.sampled_from(tuple(FLOATS))), draw(st.sampled_from([0.1, 1.0, 5.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def normal(*shape: int) -> np.ndarray:
        return (spread * rng.standard_normal(shape)).astype(dtype)

    shapes = [None, (*heads, n_q, n_k), (n_q, n_k), (1, n_k), (n_k,), (n_q, 1), ()]
    mask_shape = draw(st.sampled_from(shapes))
    mask = None if mask_shape is None else np.asarray(rng.random(mask_shape) < 0.6)
    return TiledInputs(
        q=normal(*heads, n_q, d_k), k=normal(*lead, n_k, d_k), v=normal(*lead, n_k, d_v),
        mask=mask, causal=causal,
        block_q=draw(st.integers(1, 10)), block_k=draw(st.integers(1, 16)),
    )  # fmt: skip
