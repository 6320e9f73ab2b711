"""Cases and misconceptions, each written as one text and a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from course_lib.grading.model import Case, Misconception

__all__ = ["case", "wrong"]


def case(
    text: str,
    inputs: Mapping[str, Any] | Callable[[int], Mapping[str, Any]],
    *,
    memory: int | None = None,
) -> Case:
    """Make a case of "name | what it shows".

    Examples
    --------
    >>> case("one score | its weight is 1", {"x": [0.0]}).title
    'one score: its weight is 1'
    """
    name, _, shows = text.partition(" | ")
    return Case(name=name, inputs=inputs, shows=shows, memory=memory)


def wrong(
    function: Callable[..., Any], text: str, *, variant: bool = False, program: str | None = None
) -> Misconception:
    """Make a misconception of "name | cause → step?".

    Examples
    --------
    >>> wrong(lambda x: x, "not doubled | You return x as it is. → Twice what?").name
    'not doubled'
    """
    name, _, hint = text.partition(" | ")
    return Misconception(
        name=name, wrong=function, hint=hint, valid_variant=variant, program=program
    )
