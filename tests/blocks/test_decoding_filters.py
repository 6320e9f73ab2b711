"""The PyTorch half of the decoding filters agrees with its twin and with transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from course_lib.blocks import decoding_filters as torch_half
from course_lib.reference import decoding_filters as numpy_half
from tests.agreement import FLOATS, assert_close

AMOUNTS = st.one_of(
    st.tuples(st.just("top_k"), st.integers(1, 12)),
    st.tuples(st.just("top_p"), st.floats(0.01, 1.0)),
    st.tuples(st.just("min_p"), st.floats(0.01, 1.0)),
)


@given(AMOUNTS, st.lists(st.integers(1, 3), max_size=2), st.integers(1, 9),
       st.sampled_from(sorted(FLOATS)), st.integers(0, 2**32 - 1))  # fmt: skip
def test_filters_equal_their_numpy_twins(
    named: tuple[str, Any], lead: list[int], v: int, dtype: str, seed: int
) -> None:
    name, amount = named
    logits = np.random.default_rng(seed).standard_normal((*lead, v)).round(1).astype(dtype)
    before = torch.tensor(logits)
    ours = getattr(torch_half, name)(before, amount)
    np.testing.assert_array_equal(ours.numpy(), getattr(numpy_half, name)(logits, amount))
    assert torch.equal(before, torch.tensor(logits))
    assert ours.dtype == before.dtype


def test_tokens_that_reach_p_exactly_are_enough() -> None:
    assert torch_half.top_p(torch.zeros(4), 0.5).tolist() == [0.0, 0.0, -torch.inf, -torch.inf]


@given(st.lists(st.integers(1, 3), max_size=2), st.floats(-1.0, 2.0),
       st.sampled_from(sorted(FLOATS)), st.integers(0, 2**32 - 1))  # fmt: skip
def test_the_length_penalty_equals_its_numpy_twin(
    lead: list[int], alpha: float, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = -rng.random((*lead, 4)).astype(dtype)
    lengths = rng.integers(1, 50, (*lead, 4))
    theirs = numpy_half.length_penalty(scores, lengths, alpha)
    ours = torch_half.length_penalty(torch.tensor(scores), torch.tensor(lengths), alpha)
    assert_close(ours, theirs, FLOATS[dtype])


@pytest.mark.parametrize(
    ("name", "amount", "warper"),
    [
        *[("top_k", k, TopKLogitsWarper(k)) for k in (1, 3, 20)],
        *[("top_p", p, TopPLogitsWarper(p)) for p in (0.1, 0.5, 0.9)],
        *[("min_p", p, MinPLogitsWarper(p)) for p in (0.03, 0.3, 0.9)],
    ],
)
def test_filters_equal_those_of_transformers(name: str, amount: Any, warper: Any) -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(50, 17)
    assert torch.equal(getattr(torch_half, name)(logits, amount), warper(None, logits))


@pytest.mark.parametrize(("name", "amount"), [("top_k", 2), ("top_p", 0.7), ("min_p", 0.2)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_filtered_by_exact_probabilities(
    name: str, amount: Any, dtype: torch.dtype
) -> None:
    torch.manual_seed(1)
    logits = (2 * torch.randn(20, 9)).to(dtype)
    ours = getattr(torch_half, name)(logits, amount)
    assert ours.dtype == dtype
    assert torch.equal(ours.double(), getattr(torch_half, name)(logits.double(), amount))


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
def test_logits_of_the_other_library_are_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"^logits must be a tensor of PyTorch"):
        getattr(torch_half, name)(np.zeros(3), 1)
    with pytest.raises(ValueError, match=r"^logits must be an array of numpy"):
        getattr(numpy_half, name)(torch.zeros(3), 1)
