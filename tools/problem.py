"""What an authoring command says when it must stop: one sentence and the place to mend."""

from __future__ import annotations


class Problem(Exception):
    """A fault in what an author wrote; its text is all that a command prints about it."""


class Problems(Problem):
    """Several faults at once, so that one run shows all there is to mend."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems
