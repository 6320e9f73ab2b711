"""What only chapter 00's exercises promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check
from course_lib.grading.exercises import ch00_language_models as ch00
from course_lib.grading.model import OPEN_SEED
from tests.grading.course import answers

EXERCISES = {exercise.id: exercise for exercise in ch00.EXERCISES}


@pytest.fixture(autouse=True)
def _no_progress_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")


def judged(*mended: str) -> Callable[..., Any]:
    """Return the broken evaluation with some of its faults mended."""
    if "shift" not in mended:
        return ch00._judged(
            surprise=ch00._not_shifted,
            real=ch00._real_positions,
            size=ch00._same_size,
            **({} if "weights" in mended else {"total": ch00._mean_of_losses}),
        )
    steps: dict[str, Any] = {}
    if "mask" not in mended:
        steps["real"] = ch00._real_readers
    if "number" not in mended:
        steps["size"] = ch00._same_size
    if "weights" not in mended:
        steps["total"] = ch00._mean_of_losses
    return ch00._judged(**steps)


PATHS = [
    ("shift", "number", "mask", "weights"),
    ("shift", "mask", "weights", "number"),
    ("weights", "shift", "mask", "number"),
    ("shift", "weights", "number", "mask"),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ", ".join(path))
def test_the_points_never_fall_when_a_fault_is_mended(path: tuple[str, ...]) -> None:
    points = [check("00.bug_shift", judged(*path[:n])).points for n in range(len(path) + 1)]
    assert points == sorted(points)
    assert points[0] == check("00.bug_shift", ch00.next_token_losses_broken).points == 0.0
    assert points[-1] == EXERCISES["00.bug_shift"].points


def test_mending_the_shift_alone_earns_something() -> None:
    assert check("00.bug_shift", judged("shift")).points > 0.0


def test_the_case_that_fails_is_about_the_fault_that_is_left() -> None:
    titles = {case.name: case.shows for case in EXERCISES["00.bug_shift"].cases}
    for left, shows in (
        ("number", "a high loss, since the next token is always another"),
        ("mask", "nothing is predicted after a sequence's last token"),
        ("weights", "in the perplexity every token counts the same"),
    ):
        mended = {"shift", "number", "mask", "weights"} - {left}
        cases = check("00.bug_shift", judged(*mended)).cases
        first = next(name for name, passed in cases.items() if not passed)
        assert titles[first] == shows


def test_trying_all_sequences_passes_but_for_one_case_and_is_told_how_many_there_are() -> None:
    report = check("00.best", ch00._best_by_trying_all)
    assert list(report.cases.values()) == [True] * 5 + [False]
    given = EXERCISES["00.best"].cases[-1].build(OPEN_SEED)
    many = float(len(given["first"])) ** (len(given["tables"]) + 1)
    exponent = int(np.log10(many))
    power = str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    words = " ".join(str(report).split())
    assert f"{many / 10**exponent:.1f} · 10{power} sequences" in words
    assert "never ends" not in words


def test_a_number_just_below_1_is_not_shown_as_1() -> None:
    assert "uniforms = [0.9999999999999999]" in str(
        check("00.sample", ch00._sampled(pick=ch00._count))
    )


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2, 3])
def test_two_tokens_of_the_vocabulary_are_missing_in_the_text_with_new_pairs(seed: int) -> None:
    given = EXERCISES["00.bug_smoothing"].cases[3].build(seed)
    assert len(np.unique(given["train"])) == given["vocab_size"] - 2


def test_a_variant_that_is_valid_elsewhere_is_named_in_a_sentence_with_one_colon() -> None:
    for exercise in ch00.EXERCISES:
        for mistake in exercise.misconceptions:
            if mistake.valid_variant:
                assert ":" not in mistake.hint.partition(". ")[0], mistake.name


def test_the_answers_score_in_full_for_other_seeds_too() -> None:
    module = answers("00")
    for exercise in ch00.EXERCISES:
        for seed in (1, 2):
            for case in exercise.cases:
                given = case.build(seed)
                ours = getattr(module, exercise.function)(**given)
                right = exercise.reference(**given)
                several = isinstance(right, tuple)
                for a, b in zip(ours, right, strict=True) if several else [(ours, right)]:
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
