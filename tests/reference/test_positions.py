"""The numpy half of positions: its numbers and its promises."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.reference.positions import (
    frequencies,
    learned_positions,
    shift_rotation,
    sinusoidal_positions,
)

widths = st.integers(1, 16).map(lambda half: 2 * half)
bases = st.sampled_from([10000.0, 100.0, 2.0, 500000])


@given(st.integers(1, 6), widths, bases, st.integers(0, 500))
def test_every_entry_is_the_sine_or_cosine_that_the_formula_says(
    n: int, d: int, base: float, offset: int
) -> None:
    pe = sinusoidal_positions(n, d, base, offset)
    assert pe.shape == (n, d)
    for row in range(n):
        for i in range(d // 2):
            angle = (offset + row) / base ** (2 * i / d)
            assert pe[row, 2 * i] == pytest.approx(sin(angle), abs=1e-11)
            assert pe[row, 2 * i + 1] == pytest.approx(cos(angle), abs=1e-11)


def test_position_zero_points_every_hand_the_same_way() -> None:
    assert sinusoidal_positions(1, 6).tolist() == [[0.0, 1.0] * 3]


def test_the_hands_of_width_8_turn_by_powers_of_ten() -> None:
    np.testing.assert_allclose(frequencies(8), [1.0, 0.1, 0.01, 0.001])
    pe = sinusoidal_positions(101, 8)
    # ten positions on, a hand has turned as far as the next faster one in a single position
    np.testing.assert_allclose(pe[10, 2:], pe[1, :-2], atol=1e-12)


@given(widths, bases)
def test_frequencies_fall_by_one_factor_from_1_towards_one_over_the_base(
    d: int, base: float
) -> None:
    theta = frequencies(d, base)
    assert theta[0] == 1.0
    assert theta[-1] > 1 / base
    np.testing.assert_allclose(theta[1:] / theta[:-1], base ** (-2 / d))


@given(widths, bases, st.integers(-300, 300), st.integers(0, 300))
def test_one_rotation_shifts_every_position_by_k(d: int, base: float, k: int, first: int) -> None:
    first += max(0, -k)
    rotation = shift_rotation(k, d, base)
    shifted = sinusoidal_positions(5, d, base, offset=first) @ rotation
    expected = sinusoidal_positions(5, d, base, offset=first + k)
    np.testing.assert_allclose(shifted, expected, atol=1e-11)


@given(widths, bases, st.integers(-300, 300), st.integers(-300, 300))
def test_shifts_are_rotations_that_add_up(d: int, base: float, k: int, m: int) -> None:
    r = shift_rotation(k, d, base)
    np.testing.assert_allclose(r @ r.T, np.eye(d), atol=1e-12)
    assert np.linalg.det(r) == pytest.approx(1.0)
    np.testing.assert_allclose(r.T, shift_rotation(-k, d, base), atol=1e-12)
    np.testing.assert_allclose(
        r @ shift_rotation(m, d, base), shift_rotation(k + m, d, base), atol=1e-11
    )


def test_a_shift_by_nothing_is_the_identity() -> None:
    assert (shift_rotation(0, 6) == np.eye(6)).all()


@given(widths, bases, st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_the_dot_product_of_two_positions_depends_on_their_distance_alone(
    d: int, base: float, p: int, q: int, shift: int
) -> None:
    def dot(a: int, b: int) -> float:
        one, two = (sinusoidal_positions(1, d, base, offset=x)[0] for x in (a, b))
        return float(one @ two)

    assert dot(p, q) == pytest.approx(np.cos((p - q) * frequencies(d, base)).sum(), abs=1e-10)
    assert dot(p + shift, q + shift) == pytest.approx(dot(p, q), abs=1e-10)
    assert dot(p, p) == pytest.approx(d / 2)


def test_no_two_of_ten_thousand_positions_are_alike() -> None:
    pe = sinusoidal_positions(10_000, 16)
    distances = np.linalg.norm(pe[1:] - pe[:1], axis=1)  # depends on the difference alone
    assert distances.min() > 0.5


def test_far_positions_are_as_exact_as_near_ones_in_single_precision() -> None:
    far = 10**6
    pe = sinusoidal_positions(1, 4, offset=far, dtype=np.float32)
    turns = far / (2 * pi)
    assert pe.dtype == np.float32
    assert pe[0, 0] == pytest.approx(sin(2 * pi * (turns - int(turns))), abs=1e-6)
    naive = np.sin(np.float32(far) * (np.float32(10000) ** np.float32(-0.5)))
    assert abs(float(naive) - sin(far / 100)) < 1e-2  # the naive way has the right idea …
    assert abs(float(pe[0, 2]) - sin(far / 100)) < 1e-6  # … and this the digits


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", np.float16, np.dtype("float64")]
)
def test_a_dtype_can_be_asked_for_and_is_rounded_to_once(dtype: object) -> None:
    for made, exact in (
        (frequencies(6, dtype=dtype), frequencies(6)),
        (sinusoidal_positions(400, 6, offset=3000, dtype=dtype),
         sinusoidal_positions(400, 6, offset=3000)),
        (shift_rotation(3000, 6, dtype=dtype), shift_rotation(3000, 6)),
    ):  # fmt: skip
        assert made.dtype == np.dtype(dtype)
        assert (made == exact.astype(dtype)).all()


@given(st.integers(1, 6), st.integers(0, 6), st.integers(1, 5))
def test_learned_positions_are_rows_of_the_table_up_to_its_end(n: int, offset: int, d: int) -> None:
    table = np.random.default_rng(0).standard_normal((6, d))
    if offset + n <= 6:
        assert (learned_positions(n, table, offset) == table[offset:][:n]).all()
    else:
        message = rf"offset \+ n must be at most 6, the rows of table; got {offset} \+ {n}$"
        with pytest.raises(ValueError, match=message):
            learned_positions(n, table, offset)
