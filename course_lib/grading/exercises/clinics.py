"""What the clinic's exercises share: the misconceptions of a program that is half repaired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

from course_lib.grading.exercises.entries import wrong
from course_lib.grading.model import Misconception

__all__ = ["Step", "half_repaired", "right"]


class Step(NamedTuple):
    """What a line of the program does: whether it's right, a fault, or a repair that isn't one.

    Parameters
    ----------
    name : str
        Of the mistake; empty for the right line.
    does : Any
        What the program is built with.
    said : str
        Of the line, as part of a sentence.
    step : str
        One question.
    fault : bool, default False
        Whether the line stands so in the broken program.
    """

    name: str
    does: Any
    said: str = ""
    step: str = ""
    fault: bool = False


def right(does: Any) -> Step:
    """Return a line that is right.

    Examples
    --------
    >>> right(3).name
    ''
    """
    return Step("", does)


def half_repaired(
    build: Callable[..., Callable[..., Any]], **lines: Sequence[Step]
) -> list[Misconception]:
    """Return a misconception for each way to leave the lines, but the right one and the first.

    Parameters
    ----------
    build : callable
        From what each line does, by name, to the program.
    **lines : sequences of Step
        What a line can be; one is right.

    Returns
    -------
    list of Misconception
        Those in which one line is wrong stand first.

    Examples
    --------
    >>> lines = [right(2), Step("tripled", 3, "it is tripled", "Twice what?", fault=True)]
    >>> half_repaired(lambda by, plus: lambda x: by * x + plus, by=lines, plus=[right(0)])
    []
    """
    found = []
    for chosen in product(*lines.values()):
        bad = [step for step in chosen if step.name]
        faults = [step for step in bad if step.fault]
        broken = all(
            step.fault or not any(s.fault for s in line)
            for step, line in zip(chosen, lines.values(), strict=True)
        )
        if not bad or (broken and len(bad) == len(faults)):
            continue
        start = "Still wrong here: "
        if len(faults) == len(bad):
            start = "One fault is left: " if len(bad) == 1 else "Two faults are left: "
        program = build(**{n: step.does for n, step in zip(lines, chosen, strict=True)})
        text = "; ".join(step.said for step in bad)
        name = ", ".join(step.name for step in bad)
        found.append((len(bad), wrong(program, f"{name} | {start}{text}. → {bad[0].step}")))
    return [mistake for _, mistake in sorted(found, key=lambda each: each[0])]
