"""What the tests of twins share: random inputs of any leading shape, and the comparison."""

from __future__ import annotations

from dataclasses import dataclass

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
