"""Linear biases in PyTorch agree with their twin and with transformers' Bloom."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from course_lib.blocks import alibi as torch_half
from course_lib.reference import alibi as numpy_half
from tests.agreement import assert_close


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 5))
def test_slopes_and_biases_equal_their_numpy_twins(n_heads: int, n_q: int, past: int) -> None:
    slopes, bias = torch_half.alibi_slopes(n_heads), torch_half.alibi_bias(n_heads, n_q, n_q + past)
    assert slopes.dtype == bias.dtype == torch.float32
    assert_close(slopes.double(), numpy_half.alibi_slopes(n_heads), 1e-6)
    assert_close(bias.double(), numpy_half.alibi_bias(n_heads, n_q, n_q + past), 1e-5)


@given(st.integers(1, 40), st.integers(1, 8))
def test_weights_under_a_causal_mask_equal_those_of_bloom(n_heads: int, n: int) -> None:
    # Bloom adds slope · j: less by slope · i in every row, to which softmax is blind.
    theirs = build_alibi_tensor(torch.ones(1, n), n_heads, torch.float32).view(n_heads, 1, n)
    future = ~torch.ones(n, n, dtype=torch.bool).tril()
    ours = torch_half.alibi_bias(n_heads, n).masked_fill(future, -torch.inf).softmax(-1)
    assert_close(ours, theirs.expand(-1, n, n).masked_fill(future, -torch.inf).softmax(-1), 1e-6)


@pytest.mark.parametrize("module", [torch_half, numpy_half])
def test_numbers_that_make_no_sense_are_named(module: Any) -> None:
    for bad in (0, -1, 2.0, True, "2", None):
        with pytest.raises(ValueError, match="n_heads must be a whole number of at least 1; got"):
            module.alibi_slopes(bad)
        with pytest.raises(ValueError, match="n_q must be a whole number of at least 1; got"):
            module.alibi_bias(4, bad)
    with pytest.raises(ValueError, match="n_k must be at least n_q = 3; got 2"):
        module.alibi_bias(4, 3, 2)
