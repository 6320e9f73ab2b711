"""What an exercise is: named inputs, a reference, known wrong answers and hints.

Everything here is data that checks itself when it's made, so that a slip of an author is a
``ValueError`` at import and never a puzzle in a student's notebook.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Alternative", "Case", "Exercise", "Misconception"]

#: The seed of the inputs in a student's notebook. Class grading brings its own.
OPEN_SEED = 20170612

#: Dtypes for which a tolerance can be given.
DTYPES = ("float64", "float32", "float16", "bfloat16")

_ID = re.compile(r"\d\d\.[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One named set of inputs on which the student's function is compared with the reference.

    Parameters
    ----------
    name : str
        What is special about it, in a few words: "one key", "fully masked row".
    inputs : mapping, or callable from a seed to a mapping
        The arguments by the reference's parameter names, in the reference's order; names that are
        left out keep the function's defaults. A callable gets a whole number and returns the
        mapping, so that class grading can draw other numbers of the same kind.
    shows : str, optional
        What a right function does with it: "the output is its value". Printed after the name.
    weight : float, default 1
        Its share of the points, relative to the other cases.
    memory : int, optional
        Bytes that a call may hold at once beside its arguments, its result among them. A right
        result doesn't pass if more was held. Left out, only the general limit holds.

    Examples
    --------
    >>> Case(name="one score", inputs={"x": [0.0]}, shows="its weight is 1").build()
    {'x': [0.0]}
    """

    name: str
    inputs: Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
    shows: str = ""
    weight: float = 1.0
    memory: int | None = None

    def __post_init__(self) -> None:
        _text("a case's name", self.name)
        if not (callable(self.inputs) or isinstance(self.inputs, Mapping)):
            raise ValueError(
                f"inputs of case {self.name!r} must be a mapping or a callable from a seed to one; "
                f"got {type(self.inputs).__name__}"
            )
        if isinstance(self.inputs, Mapping) and not self.inputs:
            raise ValueError(f"inputs of case {self.name!r} must name at least one argument")
        _positive(f"weight of case {self.name!r}", self.weight)
        if self.memory is not None:
            _positive(f"memory of case {self.name!r}", self.memory)

    @property
    def title(self) -> str:
        """The name, with what the case shows after it."""
        return f"{self.name}: {self.shows}" if self.shows else self.name

    def build(self, seed: int = OPEN_SEED) -> dict[str, Any]:
        """Return the arguments by name, in the order in which they are passed.

        Parameters
        ----------
        seed : int, optional
            Given to `inputs` where that is a callable.

        Returns
        -------
        dict
            The objects are the case's own where `inputs` is a mapping: copy before use.
        """
        return dict(self.inputs(seed) if callable(self.inputs) else self.inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Misconception:
    """A wrong answer that people give, and what helps them out of it.

    Parameters
    ----------
    name : str
        The mistake in a few words: "no scaling".
    wrong : callable
        A small implementation with this mistake and no other. It takes what the reference takes.
        It may call reference functions, the exercise's own among them.
    hint : str
        What to say to a student whose outputs equal those of `wrong`: the likely cause in a
        sentence or two, then ``→`` and one next step or question. Never the solution.
    valid_variant : bool, default False
        Whether this is a convention that is right elsewhere. The feedback then starts with
        "A valid variant"; let `hint` go on with "this exercise uses …".
    program : str, optional
        The same mistake as a student's cell would have it (source text that defines the exercise's
        function), where tests should run that as well: an exercise about a broken program has one.
    """

    name: str
    wrong: Callable[..., Any]
    hint: str
    valid_variant: bool = False
    program: str | None = None

    def __post_init__(self) -> None:
        _text("a misconception's name", self.name)
        _callable(f"wrong of misconception {self.name!r}", self.wrong)
        _text(f"hint of misconception {self.name!r}", self.hint)


@dataclass(frozen=True, kw_only=True, eq=False)
class Alternative:
    """A right answer written otherwise than the reference; the tests prove that it passes.

    Parameters
    ----------
    name : str
        How it differs: "einsum", "loops", "torch".
    right : callable
        The implementation; import torch inside of it, not on top of the module.
    backend : {"numpy", "torch"}, optional
        What it's given, as for `course_lib.grading.check`; left out, the grader decides.
    """

    name: str
    right: Callable[..., Any]
    backend: str | None = None

    def __post_init__(self) -> None:
        _text("an alternative's name", self.name)
        _callable(f"right of alternative {self.name!r}", self.right)
        if self.backend not in (None, "numpy", "torch"):
            raise ValueError(
                f"backend of alternative {self.name!r} must be 'numpy' or 'torch'; "
                f"got {self.backend!r}"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """One graded function, as data.

    Parameters
    ----------
    id : str
        Chapter and name: "05.softmax".
    function : str
        The name under which the student defines it.
    reference : callable
        The right answer. While a student's function runs, this very function refuses to work (as do
        its twin in ``course_lib.blocks`` and `guarded`), and the other reference functions work.
    cases : sequence of Case
        In the order in which a reader should meet them: one mechanism at a time.
    returns : tuple of str, optional
        Names of the parts where the reference returns a tuple; a tuple of one name names a single
        result. Left out, a single result is called "result".
    tolerance : mapping of dtype name to (rtol, atol), optional
        Replaces the grader's tolerance for "float64", "float32", "float16" or "bfloat16"; both are
        relative, `atol` to the largest number in the row.
    misconceptions : sequence of Misconception
        Known wrong answers: mutants for the tests, hints for the student.
    alternatives : sequence of Alternative, of (name, callable), or of named functions
        Right answers for the tests. All become `Alternative`.
    hints : sequence of str
        What `course_lib.grading.hint` gives, one a call, each stronger than the one before.
    points : float, default 3
        For all cases; partial credit by case.
    time_limit : float, default 10
        Seconds a single call may take.
    minutes : float, default 10
        How long a student is expected to need.
    difficulty : int, default 1
        1, 2 or 3.
    if_too_slow : str, optional
        What to say, in place of a general sentence, where a call took longer: as a hint, with
        ``→`` and one next step.
    if_too_large : str, optional
        The same for a right result on whose way more was held than the case's `memory`.
    guarded : sequence of callables, optional
        Further functions of the course that give the answer away: they refuse while the student's
        function runs, as `reference` does. Needed where `reference` is a wrapper.

    Raises
    ------
    ValueError
        If there is no case, two cases or misconceptions share a name, points, limits or difficulty
        make no sense, or something that must be callable isn't.

    Examples
    --------
    >>> double = Exercise(
    ...     id="99.double",
    ...     function="double",
    ...     reference=lambda x: 2 * x,
    ...     cases=[Case(name="one number", inputs={"x": 1.0})],
    ... )
    >>> double.chapter, double.points
    ('99', 3.0)
    """

    id: str
    function: str
    reference: Callable[..., Any]
    cases: Sequence[Case]
    returns: tuple[str, ...] | None = None
    tolerance: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    misconceptions: Sequence[Misconception] = ()
    alternatives: Sequence[Any] = ()
    hints: Sequence[str] = ()
    points: float = 3.0
    time_limit: float = 10.0
    minutes: float = 10.0
    difficulty: int = 1
    if_too_slow: str = ""
    if_too_large: str = ""
    guarded: Sequence[Callable[..., Any]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ValueError(f"id must be of the form '05.softmax'; got {self.id!r}")
        where = f"of exercise {self.id}"
        if not isinstance(self.function, str) or not self.function.isidentifier():
            raise ValueError(f"function {where} must be a name in Python; got {self.function!r}")
        _callable(f"reference {where}", self.reference)

        _set(self, "cases", _all_of(Case, f"cases {where}", self.cases))
        if not self.cases:
            raise ValueError(f"cases {where} must hold at least one case")
        _distinct(f"cases {where}", [case.name for case in self.cases])
        _set(
            self,
            "misconceptions",
            _all_of(Misconception, f"misconceptions {where}", self.misconceptions),
        )
        _distinct(f"misconceptions {where}", [wrong.name for wrong in self.misconceptions])
        _set(self, "alternatives", tuple(_alternative(where, each) for each in self.alternatives))
        _distinct(f"alternatives {where}", [right.name for right in self.alternatives])

        if isinstance(self.hints, str):
            raise ValueError(f"hints {where} must be a sequence of strings; got one string")
        _set(self, "hints", tuple(self.hints))
        for text in self.hints:
            _text(f"a hint {where}", text)
        if self.returns is not None:
            if isinstance(self.returns, str) or not self.returns:
                raise ValueError(
                    f"returns {where} must be a tuple of names or None; got {self.returns!r}"
                )
            _set(self, "returns", tuple(self.returns))
            _distinct(f"returns {where}", list(self.returns))
        for dtype, pair in self.tolerance.items():
            if dtype not in DTYPES:
                raise ValueError(
                    f"tolerance {where} must be keyed by {', '.join(DTYPES)}; got {dtype!r}"
                )
            if len(pair) != 2 or not all(0 <= x < 1 for x in pair):
                raise ValueError(
                    f"tolerance {where} must be pairs (rtol, atol) in [0, 1); got {pair!r}"
                )

        _positive(f"points {where}", self.points)
        _set(self, "points", float(self.points))
        _positive(f"time_limit {where}", self.time_limit)
        _positive(f"minutes {where}", self.minutes)
        if self.difficulty not in (1, 2, 3):
            raise ValueError(f"difficulty {where} must be 1, 2 or 3; got {self.difficulty!r}")
        _set(self, "guarded", tuple(self.guarded))
        for function in self.guarded:
            _callable(f"guarded {where}", function)

    @property
    def chapter(self) -> str:
        """The chapter's number, as the id begins."""
        return self.id.split(".")[0]

    def parameters(self) -> list[inspect.Parameter]:
        """Return the reference's parameters, in order."""
        return list(inspect.signature(self.reference).parameters.values())


def _set(owner: object, name: str, value: object) -> None:
    """Normalise a field of a frozen dataclass while it's being made."""
    object.__setattr__(owner, name, value)


def _text(what: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be a text; got {value!r}")


def _callable(what: str, value: object) -> None:
    if not callable(value):
        raise ValueError(f"{what} must be callable; got {type(value).__name__}")


def _positive(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{what} must be a number above 0; got {value!r}")


def _all_of(kind: type, what: str, values: Sequence[Any]) -> tuple[Any, ...]:
    for value in values:
        if not isinstance(value, kind):
            raise ValueError(
                f"{what} must all be of type {kind.__name__}; got {type(value).__name__}"
            )
    return tuple(values)


def _distinct(what: str, names: list[str]) -> None:
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise ValueError(f"{what} must have distinct names; twice: {', '.join(double)}")


def _alternative(where: str, value: Any) -> Alternative:
    if isinstance(value, Alternative):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Alternative(name=value[0], right=value[1])
    name = getattr(value, "__name__", "<lambda>")
    if not callable(value) or name == "<lambda>":
        raise ValueError(
            f"alternatives {where} must be Alternative, (name, callable) or named functions; "
            f"got {value!r}"
        )
    return Alternative(name=name.strip("_").replace("_", " "), right=value)
