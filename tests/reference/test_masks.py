"""The numpy half of masks: what they hide, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.attention import causal_mask, scaled_dot_product_attention
from course_lib.reference.masks import combine_masks, padding_mask


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(7, 9))
def test_a_padding_mask_shows_as_many_keys_as_there_are_tokens_on_their_side(
    lengths: list[int], n: int
) -> None:
    right = padding_mask(np.array(lengths), n)
    left = padding_mask(np.array(lengths), n, side="left")
    assert right.shape == left.shape == (len(lengths), 1, 1, n)
    assert right.dtype == left.dtype == np.bool_
    for i, length in enumerate(lengths):
        assert right[i, 0, 0].tolist() == [True] * length + [False] * (n - length)
        assert left[i, 0, 0].tolist() == [False] * (n - length) + [True] * length


def test_lengths_of_eight_bits_do_not_wrap_around() -> None:
    lengths = np.array([0, 200], dtype=np.uint8)
    for side in ("right", "left"):
        assert padding_mask(lengths, 300, side).sum(axis=-1).ravel().tolist() == [0, 200]


def test_lengths_of_any_shape_stand_for_as_many_leading_axes() -> None:
    assert padding_mask(np.array([[1, 2, 3], [3, 2, 1]]), 3).shape == (2, 3, 1, 1, 3)
    assert padding_mask(np.array(2), 3).astype(int).tolist() == [[[1, 1, 0]]]


@given(st.data())
def test_a_combined_mask_allows_what_every_mask_allows(data: st.DataObject) -> None:
    shapes = [(2, 1, 1, 5), (4, 5), (2, 3, 4, 5), (4, 1), (5,), (1, 1, 4, 5)]
    chosen = data.draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    masks = [rng.random(shape) < 0.7 for shape in chosen]
    combined = combine_masks(*masks)
    assert combined.shape == np.broadcast_shapes(*chosen)
    assert (combined == np.array(np.broadcast_arrays(*masks)).all(axis=0)).all()
    assert (combine_masks(None, *masks, None) == combined).all()


def test_where_no_mask_is_given_none_comes_back() -> None:
    assert combine_masks() is None
    assert combine_masks(None, None) is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_stands_in_padding_changes_no_real_tokens_output(side: str) -> None:
    rng = np.random.default_rng(0)
    lengths, n = np.array([3, 5]), 5
    x = rng.standard_normal((2, 1, n, 4))
    real = padding_mask(lengths, n, side)[:, 0, 0]
    other = np.where(real[:, None, :, None], x, 1e3 * rng.standard_normal(x.shape))
    mask = combine_masks(padding_mask(lengths, n, side), causal_mask(n))
    one = scaled_dot_product_attention(x, x, x, mask)[0][:, 0]
    two = scaled_dot_product_attention(other, other, other, mask)[0][:, 0]
    np.testing.assert_array_equal(one[real], two[real])


def test_left_padding_and_a_causal_mask_leave_the_first_queries_without_a_key() -> None:
    mask = combine_masks(padding_mask(np.array([2]), 4, side="left"), causal_mask(4))
    assert mask[0, 0].any(axis=-1).tolist() == [False, False, True, True]
    mask = combine_masks(padding_mask(np.array([2]), 4), causal_mask(4))
    assert mask[0, 0].any(axis=-1).all()


def test_masks_given_are_left_as_they_were() -> None:
    first, second = causal_mask(3), np.ones((1, 1, 1, 3), bool)
    combine_masks(first, second)
    result = combine_masks(first)
    assert (first == causal_mask(3)).all()
    assert second.all()
    assert (result == first).all()
