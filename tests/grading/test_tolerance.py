"""Right work passes in another precision and another order; one per cent off never does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.grading.compare import TOLERANCE, agree, differing, judge
from course_lib.grading.values import expected_parts, read


def right_or_wrong(yours: Any, right: Any, **tolerance: tuple[float, float]) -> str:
    """The kind of the first problem, or "right"."""
    expected = expected_parts(right, None)
    problem = judge(read(yours, expected), expected, tolerance)
    return "right" if problem is None else problem.kind


shapes = st.sampled_from([(7,), (3, 5), (2, 3, 4), (1, 64)])
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([1e-6, 1e-2, 1.0, 1e3, 1e6])


@given(shapes, seeds, scales)
def test_single_precision_of_the_right_numbers_is_right(
    shape: tuple[int, ...], seed: int, scale: float
) -> None:
    right = scale * np.random.default_rng(seed).normal(size=shape)
    assert right_or_wrong(right.astype(np.float32), right) == "right"


@given(shapes, seeds, scales)
def test_another_order_of_the_sums_is_right(
    shape: tuple[int, ...], seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    a, b = scale * rng.normal(size=(*shape[:-1], 4, 300)), rng.normal(size=(300, 5))
    one, other = a @ b, np.flip(a, -1) @ np.flip(b, 0)
    for dtype in (np.float64, np.float32):
        slow = np.zeros(one.shape, dtype)
        for i in range(300):
            slow += a[..., i, None].astype(dtype) * b[i].astype(dtype)
        assert right_or_wrong(slow, one) == "right"
    assert right_or_wrong(other, one) == "right"


@given(shapes, seeds, scales, st.sampled_from([np.float64, np.float32]), st.booleans())
def test_one_number_that_is_one_per_cent_off_is_wrong(
    shape: tuple[int, ...], seed: int, scale: float, dtype: Any, more: bool
) -> None:
    """The largest of its row: what is small beside others may be their rounding."""
    rng = np.random.default_rng(seed)
    right = scale * rng.normal(size=shape)
    row = tuple(int(rng.integers(n)) for n in shape[:-1])
    index = (*row, int(np.abs(right[row]).argmax()))
    wrong = right.copy()
    wrong[index] *= 1.01 if more else 0.99
    assert right_or_wrong(wrong.astype(dtype), right) == "values"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_tolerances_are_far_below_one_per_cent(dtype: str) -> None:
    assert all(0 < x <= 1e-3 for x in TOLERANCE[dtype])


def test_an_exercises_own_tolerance_is_what_counts() -> None:
    right = np.array([1.0, 2.0])
    near = right * (1 + 1e-4)
    assert right_or_wrong(near, right) == "values"
    assert right_or_wrong(near, right, float64=(1e-3, 0.0)) == "right"
    assert right_or_wrong(near.astype(np.float32), right, float32=(1e-6, 0.0)) == "values"


def test_small_rows_beside_large_ones_are_compared_by_their_own_size() -> None:
    right = np.array([[1e3, 2e3], [1e-1, 2e-1]])
    wrong = right.copy()
    wrong[1, 1] *= 1.01
    assert right_or_wrong(wrong, right) == "values"


@pytest.mark.parametrize(
    ("yours", "right", "kind"),
    [
        ([0.0, -np.inf], [0.0, -np.inf], "right"),
        ([0.0, -1e9], [0.0, -np.inf], "values"),
        ([0.0, np.inf], [0.0, -np.inf], "inf"),
        ([0.0, np.nan], [0.0, 0.0], "nan"),
        ([0.0, np.nan], [0.0, np.nan], "right"),
        ([0.0, 0.0], [0.0, np.nan], "values"),
    ],
)
def test_infinities_and_nan_are_right_only_where_they_belong(
    yours: list[float], right: list[float], kind: str
) -> None:
    assert right_or_wrong(np.array(yours), np.array(right)) == kind


def test_a_result_that_is_nothing_but_rounding_need_not_be_the_same_rounding() -> None:
    right = np.array([1e-17, -3e-17])
    assert right_or_wrong(np.zeros(2), right) == "right"
    assert right_or_wrong(np.array([0.0, 1e-5]), right) == "values"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_half_precision_is_right_only_where_half_is_asked(dtype: str) -> None:
    right = np.linspace(0.1, 1, 5).astype(dtype)
    kind = right_or_wrong(right.astype(np.float16), right)
    assert kind == ("right" if dtype == "float16" else "precision")


def test_more_digits_than_asked_are_right() -> None:
    exact = np.linspace(0.1, 1, 5)
    assert right_or_wrong(exact, exact.astype(np.float16)) == "right"
    assert right_or_wrong(exact, exact.astype(np.float32)) == "right"
    assert right_or_wrong(exact.astype(np.longdouble), exact) == "right"


@pytest.mark.parametrize(
    "yours",
    [
        [[0.5, 0.5], [0, 1]],
        ([0.5, 0.5], [0, 1]),
        [np.array([0.5, 0.5]), np.array([0.0, 1.0])],
        np.asfortranarray([[0.5, 0.5], [0.0, 1.0]]),
        np.array([[0.5, 0.5], [0.0, 1.0]])[::-1][::-1],
    ],
)
def test_the_container_does_not_matter(yours: Any) -> None:
    assert right_or_wrong(yours, np.array([[0.5, 0.5], [0.0, 1.0]])) == "right"


@pytest.mark.parametrize("yours", [2.5, np.float64(2.5), np.float32(2.5), np.array(2.5)])
def test_a_single_number_may_be_of_any_kind(yours: Any) -> None:
    assert right_or_wrong(yours, 2.5) == "right"
    assert right_or_wrong(yours, np.float64(2.5)) == "right"
    assert right_or_wrong([yours], 2.5) == "shape"


def test_tensors_are_read_whatever_they_are() -> None:
    torch = pytest.importorskip("torch")
    right = np.array([0.5, 0.25])
    for tensor in (
        torch.tensor([0.5, 0.25]),
        torch.tensor([0.5, 0.25], requires_grad=True),
        torch.tensor([0.5, 0.25], requires_grad=True).double() * 1,
        torch.nn.Parameter(torch.tensor([0.5, 0.25])),
    ):
        assert right_or_wrong(tensor, right) == "right"
    assert right_or_wrong(torch.tensor([0.5, 0.25]).bfloat16(), right) == "precision"
    assert right_or_wrong(torch.tensor([0, 0]), right) == "dtype"
    assert right_or_wrong([torch.tensor(0.5), torch.tensor(0.25)], right) == "right"


def test_shape_comes_before_values_so_that_broadcasting_hides_nothing() -> None:
    right = np.ones((4, 3))
    for shape in [(4, 1), (1, 3), (3,), (1,), (1, 1), (1, 4, 3)]:
        assert right_or_wrong(np.ones(shape), right) == "shape"
    assert right_or_wrong(1.0, right) == "scalar"


@given(shapes, seeds)
def test_agreement_is_symmetric_and_needs_one_shape(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    (a,), (b,) = (expected_parts(rng.normal(size=shape), None) for _ in range(2))
    (c,) = expected_parts(rng.normal(size=(*shape, 1)), None)
    assert agree([a], [a], {})
    assert not agree([a], [b], {})
    assert not agree([b], [a], {})
    assert not agree([a], [c], {})
    assert not differing(a, a, {}).any()
