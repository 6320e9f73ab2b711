"""The PyTorch half of masks agrees with its twin; both refuse the same things."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.blocks import masks as torch_half
from course_lib.blocks.attention import causal_mask
from course_lib.reference import masks as numpy_half


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.sampled_from(["left", "right"]))
def test_padding_masks_equal_their_numpy_twins(lengths: list[int], side: str) -> None:
    for dtype in ("uint8", "int32", "int64"):
        array = np.array(lengths, dtype=dtype)
        ours = torch_half.padding_mask(torch.tensor(array), 6, side)
        assert ours.dtype == torch.bool
        assert np.array_equal(ours.numpy(), numpy_half.padding_mask(array, 6, side))


def test_lengths_of_eight_bits_do_not_wrap_around() -> None:
    lengths = torch.tensor([0, 200], dtype=torch.uint8)
    for side in ("right", "left"):
        assert torch_half.padding_mask(lengths, 300, side).sum(-1).flatten().tolist() == [0, 200]


@given(st.data())
def test_combined_masks_equal_their_numpy_twins(data: st.DataObject) -> None:
    shapes = st.sampled_from([(2, 1, 1, 5), (4, 5), (2, 3, 4, 5), (4, 1), (5,)])
    chosen = data.draw(st.lists(shapes, min_size=1, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    arrays = [rng.random(shape) < 0.7 for shape in chosen]
    ours = torch_half.combine_masks(None, *map(torch.tensor, arrays))
    assert np.array_equal(ours.numpy(), numpy_half.combine_masks(None, *arrays))
    assert torch_half.combine_masks(None) is None


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest):
    """A twin: its module, and how it makes arrays of a list."""
    if request.param == "numpy":
        return numpy_half, lambda values, dtype="int64": np.array(values, dtype=dtype)
    return torch_half, lambda values, dtype="int64": torch.tensor(
        values, dtype=getattr(torch, dtype)
    )


def test_lengths_that_cannot_be_are_named(half) -> None:
    module, array = half
    for lengths, said in (
        (array([2, 5]), r"lengths must be from 0 to n = 4; got 5"),
        (array([2, -1]), r"lengths must be from 0 to n = 4; got -1"),
        (array([2.0], "float32"), r"lengths must be an array of whole numbers of shape \(b,\)"),
        (array([True], "bool"), r"lengths must be an array of whole numbers"),
        ([2, 3], r"lengths must be an array of whole numbers .* got list"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            module.padding_mask(lengths, 4)
    for n in (0, 2.0, True, None):
        with pytest.raises(ValueError, match=r"^n must be a whole number of at least 1"):
            module.padding_mask(array([0]), n)
    for side in ("middle", None, 0):
        with pytest.raises(ValueError, match=r"^side must be one of left, right; got"):
            module.padding_mask(array([1]), 4, side)


def test_masks_that_cannot_be_combined_are_named(half) -> None:
    module, array = half
    good = array([[True, False, True]] * 2, "bool")
    with pytest.raises(ValueError, match=r"^masks\[1\] must be boolean, or None; got float32"):
        module.combine_masks(good, array([0.0], "float32"))
    with pytest.raises(ValueError, match=r"^masks\[0\] must be boolean, or None; got list"):
        module.combine_masks([True], good)
    with pytest.raises(
        ValueError,
        match=r"^masks\[2\] must have a shape that broadcasts with \(2, 3\), that of those before "
        r"it; got \(3, 3\)",
    ):
        module.combine_masks(good, None, array([[True] * 3] * 3, "bool"))


def test_arrays_of_the_other_library_are_named() -> None:
    with pytest.raises(ValueError, match=r"^lengths must be a tensor of PyTorch"):
        torch_half.padding_mask(np.array([1]), 2)
    with pytest.raises(ValueError, match=r"^masks\[0\] must be an array of numpy"):
        numpy_half.combine_masks(causal_mask(2))
