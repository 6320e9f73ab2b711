"""Proves an exercise: its wrong answers fail, its right ones pass, its stub counts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course_lib.grading.checks import check
from course_lib.grading.diagnose import find_misconception
from course_lib.grading.evaluate import evaluate, prepare
from course_lib.grading.model import Exercise

__all__ = ["Proof", "prove"]


@dataclass(frozen=True)
class Proof:
    """What `prove` found.

    Attributes
    ----------
    accepted : list of str
        Misconceptions that got full points: none should.
    without_hint : list of str
        Misconceptions whose feedback is another's, or nobody's.
    rejected : list of str
        Alternatives that got less than full points: none should.
    stub_points : float
        0 as it should be.
    stub_attempted : bool
        Whether the stub was called an attempt: it shouldn't.
    hint_share : float
        The share of misconceptions that get their own hint.
    """

    accepted: list[str]
    without_hint: list[str]
    rejected: list[str]
    stub_points: float
    stub_attempted: bool
    hint_share: float


def prove(exercise: Exercise) -> Proof:
    """Check all of an exercise's misconceptions and alternatives, and a stub.

    Parameters
    ----------
    exercise : Exercise

    Returns
    -------
    Proof

    Examples
    --------
    >>> import os; os.environ["COURSE_LIB_PROGRESS"] = "off"
    >>> from course_lib.grading.registry import find
    >>> proof = prove(find("05.softmax"))
    >>> proof.accepted, proof.rejected, proof.stub_points
    ([], [], 0.0)
    """
    prepared = prepare(exercise)
    accepted, without_hint = [], []
    for mistake in exercise.misconceptions:
        results = evaluate(exercise, mistake.wrong, prepared, "numpy")
        if all(result.passed for result in results):
            accepted.append(mistake.name)
        if find_misconception(exercise, results, prepared) is not mistake:
            without_hint.append(mistake.name)
    rejected = [
        other.name
        for other in exercise.alternatives
        if not check(exercise.id, other.right, backend=other.backend).passed
    ]

    def stub(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    untouched = check(exercise.id, stub)
    count = len(exercise.misconceptions)
    return Proof(
        accepted=accepted,
        without_hint=without_hint,
        rejected=rejected,
        stub_points=untouched.points,
        stub_attempted=untouched.attempted,
        hint_share=1.0 - len(without_hint) / count if count else 1.0,
    )
