"""The PyTorch half of sentence embeddings agrees with its twin."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from course_lib.blocks import sentence_embeddings as torch_half
from course_lib.reference import sentence_embeddings as numpy_half
from tests.agreement import FLOATS, assert_close


@given(st.lists(st.integers(1, 3), max_size=2), *[st.integers(1, 5)] * 3,
       st.sampled_from(sorted(FLOATS)), st.integers(0, 9999))  # fmt: skip
def test_the_two_halves_agree(
    lead: list[int], n: int, m: int, d: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((*lead, rows, d)).astype(dtype) for rows in (n, m))
    mask = rng.random((*lead, n)) < 0.6
    t, tolerance = torch.tensor, FLOATS[dtype]
    pooled = torch_half.mean_pooling(t(a), t(mask))
    assert_close(pooled, numpy_half.mean_pooling(a, mask), tolerance)
    assert_close(torch_half.unit_length(t(a)), numpy_half.unit_length(a), tolerance)
    similarity = torch_half.cosine_similarity(t(a), t(b))
    assert_close(similarity, numpy_half.cosine_similarity(a, b), tolerance)
    documents = rng.integers(-1, 2, (m, d)).astype(dtype)
    k = int(rng.integers(1, m + 1))
    ours = torch_half.cosine_search(t(a), t(documents), k)
    theirs = numpy_half.cosine_search(a, documents, k)
    assert_close(ours[1], theirs[1], tolerance)
    assert ours[0].dtype == torch.int64
    assert ours[0].shape == theirs[0].shape


def test_equal_documents_are_found_in_their_order() -> None:
    documents = torch.ones(50, 3)
    indices, scores = torch_half.cosine_search(torch.tensor([[1.0, 2.0, 3.0]]), documents, 50)
    assert indices[0].tolist() == list(range(50))
    assert scores.unique().numel() == 1


def test_cosines_equal_pytorchs_own_and_gradients_are_finite() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(4, 5, requires_grad=True), torch.randn(3, 5)
    ours = torch_half.cosine_similarity(a, b)
    theirs = F.cosine_similarity(a[:, None], b[None], dim=-1)
    torch.testing.assert_close(ours, theirs)
    (mine,) = torch.autograd.grad(ours.sum(), a, retain_graph=True)
    (other,) = torch.autograd.grad(theirs.sum(), a)
    torch.testing.assert_close(mine, other)
    zeros = torch.zeros(2, 5, requires_grad=True)
    torch_half.unit_length(zeros).sum().backward()
    assert zeros.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_and_stays_half(dtype: torch.dtype) -> None:
    x = (300 * torch.ones(2, 4, 8)).to(dtype)  # whose squares float16 doesn't hold
    assert torch_half.unit_length(x).dtype == dtype
    torch.testing.assert_close(torch_half.unit_length(x).float(), torch.full((2, 4, 8), 8**-0.5),
                               atol=2e-3, rtol=0.0)  # fmt: skip
    pooled = torch_half.mean_pooling(x.repeat(1, 99, 1), torch.ones(2, 396, dtype=torch.bool))
    assert (pooled == 300).all()
    assert torch_half.cosine_similarity(x, x).isfinite().all()


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[ModuleType, Callable]:
    """A twin: its module, and how it makes arrays of ones."""
    if request.param == "numpy":
        return numpy_half, lambda *s, dtype="float64": np.ones(s, dtype=dtype)
    return torch_half, lambda *s, dtype="float64": torch.ones(s, dtype=getattr(torch, dtype))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, o: m.mean_pooling(o(3), o(3, dtype="bool")), "hidden must have a shape"),
        (lambda m, o: m.mean_pooling(o(2, 3, 4), o(2, 3)), "mask must be boolean; got float64 of"),
        (
            lambda m, o: m.mean_pooling(o(2, 3, 4), o(2, 4, dtype="bool")),
            "mask must have the shape",
        ),
        (
            lambda m, o: m.mean_pooling(o(2, 0, 4), o(2, 0, dtype="bool")),
            "hidden must not be empty",
        ),
        (lambda m, o: m.mean_pooling(o(2, 3, 4), [True]), "mask must be boolean; got list"),
        (lambda m, o: m.unit_length(o(2, 0)), "x must not be empty"),
        (lambda m, o: m.unit_length(o(2, dtype="int64")), "x must be an array of real floating-po"),
        (lambda m, o: m.cosine_similarity(o(2, 3), o(2, 4)), "b must have the width of a, 3"),
        (lambda m, o: m.cosine_similarity(o(3), o(3)), "a must have a shape"),
        (
            lambda m, o: m.cosine_similarity(o(2, 3), o(5, 2, 3)),
            "b must have the leading axes of a",
        ),
        (lambda m, o: m.cosine_search(o(3), o(4, 3), 5), "k must be at most 4, all documents; got"),
        (lambda m, o: m.cosine_search(o(3), o(4, 3), 0), "k must be a whole number of at least 1"),
        (lambda m, o: m.cosine_search(o(3), o(4, 2), 1), "documents must have the width of query"),
        (lambda m, o: m.cosine_search(o(3), o(4), 1), r"documents must have a shape \(n, d\)"),
        (lambda m, o: m.cosine_search(o(3), o(0, 3), 1), "documents must not be empty"),
        (
            lambda m, o: m.cosine_search(o(3), o(4, 3, dtype="float32"), 1),
            "documents must have the",
        ),
    ],
)
def test_bad_input_is_named(
    half: tuple[ModuleType, Callable], call: Callable, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(*half)
