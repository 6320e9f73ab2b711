"""The PyTorch half of positions agrees with its twin."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import positions as torch_half
from course_lib.blocks.positions import LearnedPositions, SinusoidalPositions
from course_lib.reference import positions as numpy_half
from tests.agreement import FLOATS, assert_close

widths = st.integers(1, 16).map(lambda half: 2 * half)
bases = st.sampled_from([10000.0, 100.0, 2.0, 500000])
dtypes = st.sampled_from(sorted(FLOATS))


@given(st.integers(1, 9), widths, bases, st.integers(0, 2000), dtypes)
def test_sinusoidal_positions_equal_their_twin(
    n: int, d: int, base: float, offset: int, dtype: str
) -> None:
    ours = torch_half.sinusoidal_positions(n, d, base, offset, dtype=getattr(torch, dtype))
    theirs = numpy_half.sinusoidal_positions(n, d, base, offset, dtype=dtype)
    assert_close(ours, theirs, FLOATS[dtype])
    ours = torch_half.frequencies(d, base, dtype=getattr(torch, dtype))
    assert_close(ours, numpy_half.frequencies(d, base, dtype=dtype), FLOATS[dtype])


@given(st.integers(-2000, 2000), widths, bases, dtypes)
def test_the_rotation_that_shifts_equals_its_twin(k: int, d: int, base: float, dtype: str) -> None:
    ours = torch_half.shift_rotation(k, d, base, dtype=getattr(torch, dtype))
    assert_close(ours, numpy_half.shift_rotation(k, d, base, dtype=dtype), FLOATS[dtype])


@given(st.integers(1, 4), st.integers(0, 4), st.integers(1, 5), dtypes)
def test_learned_positions_equal_their_twin_and_pytorchs_embedding(
    n: int, offset: int, d: int, dtype: str
) -> None:
    table = np.random.default_rng(0).standard_normal((8, d)).astype(dtype)
    ours = torch_half.learned_positions(n, torch.from_numpy(table), offset)
    assert_close(ours, numpy_half.learned_positions(n, table, offset), 0.0)
    peer = nn.Embedding.from_pretrained(torch.from_numpy(table))
    assert_close(ours, peer(torch.arange(offset, offset + n)), 0.0)


def test_without_a_dtype_pytorchs_default_is_used() -> None:
    made = (
        torch_half.frequencies(4),
        torch_half.sinusoidal_positions(2, 4),
        torch_half.shift_rotation(1, 4),
    )
    assert {x.dtype for x in made} == {torch.get_default_dtype()}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_far_positions_are_rounded_once_whatever_the_dtype(dtype: torch.dtype) -> None:
    exact = numpy_half.sinusoidal_positions(7, 8, offset=10**6)
    found = torch_half.sinusoidal_positions(7, 8, offset=10**6, dtype=dtype)
    assert torch.equal(found, torch.from_numpy(exact).to(dtype))


# ---- The modules ---------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 3), max_size=2), st.integers(1, 9), widths, st.integers(0, 50))
def test_the_module_adds_sinusoids_to_any_batch_from_any_offset(
    lead: list[int], n: int, d: int, offset: int
) -> None:
    x = torch.randn(*lead, n, d)
    expected = x + torch_half.sinusoidal_positions(n, d, offset=offset)
    assert torch.equal(SinusoidalPositions(d)(x, offset), expected)


def test_a_sequence_in_two_pieces_gets_the_positions_of_the_whole() -> None:
    x = torch.randn(2, 7, 4)
    for add in (SinusoidalPositions(4), LearnedPositions(7, 4)):
        pieces = [add(x[:, :3]), add(x[:, 3:], offset=3)]
        assert torch.equal(torch.cat(pieces, dim=1), add(x))


def test_sinusoids_follow_the_dtype_of_what_they_are_added_to_and_lose_no_digit_of_it() -> None:
    add = SinusoidalPositions(6)
    add(torch.zeros(3, 6))
    x = torch.zeros(20, 6, dtype=torch.float64)
    for module in (add, add.double(), deepcopy(add)):
        found = module(x)
        assert_close(found, numpy_half.sinusoidal_positions(20, 6), 1e-14)
    assert add(x.to(torch.bfloat16)).dtype == torch.bfloat16
    assert torch.equal(add(x.float()), torch_half.sinusoidal_positions(20, 6))


def test_sinusoids_are_neither_trained_nor_stored_and_learned_positions_are_both() -> None:
    assert list(SinusoidalPositions(4).parameters()) == []
    assert dict(SinusoidalPositions(4).state_dict()) == {}
    learned = LearnedPositions(5, 4)
    assert [p.shape for p in learned.parameters()] == [(5, 4)]
    learned(torch.zeros(2, 3, 4)).sum().backward()
    assert learned.table.grad is not None
    assert learned.table.grad[:, 0].tolist() == [2.0, 2.0, 2.0, 0.0, 0.0]


def test_learned_positions_begin_small() -> None:
    torch.manual_seed(0)
    assert LearnedPositions(500, 64).table.std().item() == pytest.approx(0.02, abs=0.001)


# ---- Bad input -----------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays."""
    if request.param == "numpy":
        return numpy_half, np.array
    return torch_half, lambda x: torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("bad", [0, -2, 3, 1, 4.0, True, "4", None])
def test_widths_that_have_no_pairs_are_named(half: Any, bad: Any) -> None:
    module, _ = half
    message = "d must be an even whole number of at least 2; got"
    for call in (
        lambda: module.frequencies(bad),
        lambda: module.sinusoidal_positions(3, bad),
        lambda: module.shift_rotation(1, bad),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_numbers_that_make_no_positions_are_named(half: Any) -> None:
    module, _ = half
    for bad in (0, -1, 1.5, True, "2", None):
        with pytest.raises(ValueError, match=r"^n must be a whole number of at least 1; got"):
            module.sinusoidal_positions(bad, 4)
    for bad in (-1, 1.5, True, "2", None):
        with pytest.raises(ValueError, match=r"^offset must be a whole number of at least 0; got"):
            module.sinusoidal_positions(2, 4, offset=bad)
    for bad in (1.5, True, "2", None):
        with pytest.raises(ValueError, match=r"^k must be a whole number; got"):
            module.shift_rotation(bad, 4)
    for bad in (0, 1, -3.0, float("inf"), float("nan"), True, "10", None):
        for call in (
            lambda: module.frequencies(4, bad),  # noqa: B023
            lambda: module.sinusoidal_positions(2, 4, bad),  # noqa: B023
            lambda: module.shift_rotation(2, 4, bad),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=r"^base must be a number above 1; got"):
                call()


@pytest.mark.parametrize("bad", ["int64", int, "floaty", torch.int64, 3])
def test_dtypes_that_are_not_floating_are_named(half: Any, bad: Any) -> None:
    module, _ = half
    for call in (
        lambda: module.frequencies(4, dtype=bad),
        lambda: module.sinusoidal_positions(2, 4, dtype=bad),
        lambda: module.shift_rotation(2, 4, dtype=bad),
    ):
        with pytest.raises(ValueError, match=r"^dtype must be one of float64, "):
            call()


def test_a_dtype_of_the_other_library_is_named() -> None:
    with pytest.raises(ValueError, match=r"float16 of numpy; got torch\.float32"):
        numpy_half.sinusoidal_positions(2, 4, dtype=torch.float32)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bfloat16 of PyTorch; got <class"):
        torch_half.sinusoidal_positions(2, 4, dtype=np.float32)  # type: ignore[arg-type]


def test_tables_of_positions_that_end_too_early_or_are_none_are_named(half: Any) -> None:
    module, array = half
    table = array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    with pytest.raises(ValueError, match=r"offset \+ n must be at most 3, .* table; got 0 \+ 4"):
        module.learned_positions(4, table)
    with pytest.raises(ValueError, match=r"offset \+ n must be at most 3, .* table; got 2 \+ 2"):
        module.learned_positions(2, table, offset=2)
    for bad, message in (
        (array([1.0]), r"table must have a shape \(max_length, d\); got \(1,\)"),
        (array([[[1.0]]]), r"table must have a shape \(max_length, d\); got \(1, 1, 1\)"),
        ([[1.0]], "table must be an array of real .* got list"),
    ):
        with pytest.raises(ValueError, match=message):
            module.learned_positions(1, bad)
    for bad in (0, 1.0, True, None):
        with pytest.raises(ValueError, match=r"^n must be a whole number of at least 1; got"):
            module.learned_positions(bad, table)
    for bad in (-1, 1.0, True, None):
        with pytest.raises(ValueError, match=r"^offset must be a whole number of at least 0; got"):
            module.learned_positions(1, table, bad)


def test_a_table_of_the_other_library_is_named(half: Any) -> None:
    module, _ = half
    other = np.zeros((3, 2)) if module is torch_half else torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"^table must be an? .*; got a"):
        module.learned_positions(1, other)


@pytest.mark.parametrize("make", [lambda: SinusoidalPositions(4), lambda: LearnedPositions(5, 4)])
def test_vectors_that_a_module_cannot_add_to_are_named(make: Any) -> None:
    add = make()
    for bad, message in (
        (torch.zeros(3, 6), "x must have the width d_model = 4; got float32 of shape"),
        (torch.zeros(4), r"x must have a shape \(..., n, d_model\); got \(4,\)"),
        (torch.zeros(2, 3, 4).long(), "x must be an array of real floating-point numbers"),
        (np.zeros((3, 4)), "x must be a tensor of PyTorch; got a numpy.ndarray"),
    ):
        with pytest.raises(ValueError, match=message):
            add(bad)
    with pytest.raises(ValueError, match="offset must be a whole number of at least 0; got -1"):
        add(torch.zeros(3, 4), offset=-1)


def test_a_sequence_longer_than_the_learned_table_is_named() -> None:
    with pytest.raises(ValueError, match=r"offset \+ n must be at most 5, .* got 3 \+ 3"):
        LearnedPositions(5, 4)(torch.zeros(3, 4), offset=3)


def test_sizes_of_modules_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="d_model must be an even whole number of at least 2"):
        SinusoidalPositions(5)
    with pytest.raises(ValueError, match="base must be a number above 1; got 1"):
        SinusoidalPositions(4, base=1)
    for name in ("max_length", "d_model"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1; got"):
            LearnedPositions(**{"max_length": 3, "d_model": 2, name: 0})
