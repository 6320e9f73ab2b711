"""What only chapter 05's exercises promise."""

from __future__ import annotations

import numpy as np

from course_lib.grading.exercises import ch05_scaled_dot_product_attention as ch05
from course_lib.grading.model import OPEN_SEED
from tests.grading.course import answers, equal, manuscript, outcome


def test_softmax_over_the_wrong_axis_survives_only_where_all_rows_and_columns_agree() -> None:
    """The case that hides the first bug hides it, and the next one shows it."""
    first, second = ch05.EXERCISES[5].cases[:2]
    for case, hidden in ((first, True), (second, False)):
        right = outcome(ch05.biased_attention, case, OPEN_SEED)
        assert equal(outcome(ch05.biased_attention_broken, case, OPEN_SEED), right, 1e-9) is hidden


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text = manuscript("05")
    shares = answers("05").softmax(np.array([1.0, 0.0, 2.0]))
    assert "become {:.3f}, {:.3f}, {:.3f}.".format(*shares) in text
    for p in (np.array([1, 3]) / 4, np.array([1, 2]) / 3):
        assert f"{-(p * np.log(p)).sum():.3f}" in text
    assert f"= {np.log(3) / np.log(2):.3f}$" in text
