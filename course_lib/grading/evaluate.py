"""Runs a student's function on an exercise's cases and says of each what came of it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course_lib.grading import compare, run, values
from course_lib.grading.model import OPEN_SEED, Case, Exercise
from course_lib.grading.pristine import pristine, restore
from course_lib.grading.run import Outcome

__all__ = ["CaseResult", "Prepared", "behaviour", "evaluate", "prepare", "size_of"]


@dataclass
class Prepared:
    """A case with its inputs and what the reference makes of them."""

    case: Case
    inputs: dict[str, Any]
    right: list[values.Part]


@dataclass
class CaseResult:
    """What a function did with a case.

    `kind` is "right" or what is wrong: a kind of `run.Outcome`, of `values.Unreadable` or of
    `compare.Problem`, "touched" (right, but an input was changed) or "skipped".
    """

    prepared: Prepared
    kind: str
    sentence: str = ""
    step: str = ""
    outcome: Outcome = field(default_factory=Outcome)
    yours: list[values.Part] | None = None
    touched: tuple[str, ...] = ()
    problem: compare.Problem | None = None

    @property
    def passed(self) -> bool:
        """Whether the case counts."""
        return self.kind == "right"


def prepare(exercise: Exercise, seed: int = OPEN_SEED) -> list[Prepared]:
    """Build the inputs of all cases and compute what is right, before any student's code runs."""
    with pristine(), _silence():
        prepared = []
        for case in exercise.cases:
            inputs = case.build(seed)
            answer = exercise.reference(*map(values.clone, inputs.values()))
            prepared.append(Prepared(case, inputs, values.expected_parts(answer, exercise.returns)))
    return prepared


def evaluate(
    exercise: Exercise, function: Callable[..., Any], prepared: list[Prepared], backend: str
) -> list[CaseResult]:
    """Run a function on all cases. After one that never ends, the others are skipped."""
    results: list[CaseResult] = []
    with pristine():
        for each in prepared:
            if results and results[-1].kind in ("time", "skipped"):
                results.append(CaseResult(each, "skipped", "Not run: an earlier case never ended."))
            else:
                results.append(_evaluate_one(exercise, function, each, backend))
    return results


def _evaluate_one(
    exercise: Exercise, function: Callable[..., Any], prepared: Prepared, backend: str
) -> CaseResult:
    names = list(prepared.inputs)
    hand_over = values.to_tensors if backend == "torch" else values.clone
    given = [hand_over(x) for x in prepared.inputs.values()]
    known = -1
    own = run.own_functions([exercise.reference, *exercise.guarded])
    while len(own) > known:  # again, if the call itself loaded the course's twin of the function
        args = [values.clone(x) for x in given]
        outcome = run.call(
            function,
            args,
            names=names,
            time_limit=exercise.time_limit,
            measured=prepared.case.memory is not None,
            own=own,
        )
        restore()
        known, own = len(own), run.own_functions([exercise.reference, *exercise.guarded])
    result = CaseResult(prepared, "right", outcome=outcome)
    if outcome.kind != "value":
        result.kind = outcome.kind
        result.sentence, result.step = _say(outcome, function, exercise, prepared)
        return result
    try:
        _judge(exercise, result, outcome.value, given, args)
    except values.Unreadable as problem:
        result.sentence = f"Your function {problem.what}."
        result.step = problem.step or _STEPS.get(problem.kind, _STEPS["type"])
        return result
    if result.problem is not None:
        result.sentence, result.step = result.problem.sentence, result.problem.step
    limit = prepared.case.memory
    if result.kind == "right" and limit is not None and outcome.held > limit:
        result.kind = "memory"
        result.sentence, result.step = _say_held(outcome.held, limit, exercise)
    if result.touched:
        which = " and ".join(f"`{name}`" for name in result.touched)
        verb = "was" if len(result.touched) == 1 else "were"
        what = "result is" if any(p.array is None for p in prepared.right) else "numbers are"
        start = f"The {what} right, but" if result.kind == "touched" else "Besides,"
        changed = f"{start} {which} {verb} changed: the caller still needs what was passed in."
        result.sentence = " ".join(filter(None, [result.sentence, changed]))
        how = "`-=`, `/=`, `[…] =`, `out=`"
        if not any(isinstance(prepared.inputs[name], np.ndarray) for name in result.touched):
            how = "`[…] =`, `append`, `pop`, `del`"
        result.step = result.step or (
            f"Which line writes into its argument ({how})? Work on a copy."
        )
    return result


def _judge(
    exercise: Exercise, result: CaseResult, answer: Any, given: list[Any], args: list[Any]
) -> None:
    """Take down what an answer is, and what has become of the arguments."""
    prepared = result.prepared
    pairs = zip(prepared.inputs, given, args, strict=True)
    result.touched = tuple(name for name, a, b in pairs if values.changed(a, b))
    try:
        result.yours = values.read(answer, prepared.right)
    except values.Unreadable as problem:
        result.kind = problem.kind
        raise
    result.problem = compare.judge(
        result.yours, prepared.right, exercise.tolerance, size_of(prepared.inputs)
    )
    if result.problem is not None:
        result.kind = result.problem.kind
    elif result.touched:
        result.kind = "touched"


def behaviour(
    exercise: Exercise, function: Callable[..., Any], prepared: list[Prepared]
) -> list[CaseResult]:
    """Run one of the course's own wrong answers, which needs no guard, on all cases."""
    results = []
    with pristine(), _silence():
        for each in prepared:
            given = [values.clone(x) for x in each.inputs.values()]
            args = [values.clone(x) for x in given]
            result = CaseResult(each, "right")
            try:
                _judge(exercise, result, function(*args), given, args)
            except values.Unreadable:
                pass
            except Exception as error:
                result.kind = "raised"
                result.outcome = Outcome("raised", mistake=run.Mistake(type(error).__name__))
            results.append(result)
    return results


def size_of(inputs: dict[str, Any]) -> float:
    """Return the largest finite number among the inputs' floats, and 1 at least."""
    sizes = [1.0]
    for x in inputs.values():
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            finite = np.where(np.isfinite(x), np.abs(x.astype(np.float64)), 0.0)
            sizes.append(float(finite.max(initial=0.0)))
    return max(sizes)


class _silence:
    """Without warnings: the course's own code runs, and what it warns of is no one's concern."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._errors = np.errstate(all="ignore")
        self._warnings.__enter__()
        self._errors.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *exc: Any) -> None:
        self._errors.__exit__(*exc)
        self._warnings.__exit__(*exc)


# -- sentences -------------------------------------------------------------------------------------

_STEPS = {
    "none": "Is there a `return` at the end of every path through your function?",
    "generator": "Collect the numbers first: np.array(list(…)), and return that.",
    "coroutine": "Write `def` in place of `async def`.",
    "callable": "Call it, and return what it gives.",
    "text": "Return the numbers themselves, not a text about them.",
    "parts": "Compare your `return` with the docstring's Returns.",
    "type": "Return an array of numbers, as the docstring's Returns says.",
}

_RAISED = {
    "NameError": "Is the name spelled as where it's defined, and was that cell run?",
    "UnboundLocalError": "Which path through your function gives that name no value?",
    "AttributeError": "What is the object before the dot? `print(type(…))` shows it.",
    "TypeError": "What types meet on that line? Print them just before it.",
    "KeyError": "Which keys are there? Print them just before that line.",
    "": "Print the shapes just before that line. Are they what the line expects?",
}
# Where no argument is an array, what can be looked at isn't a shape.
_RAISED_PLAIN = {
    **_RAISED,
    "IndexError": "How long is it at that moment, and which index is asked for? Print both.",
    "": "What does that line work on at that moment? Print it just before.",
}

# What Python says, and what helps.
_MESSAGES = {
    "NoneType": "One of the things on that line is None. Where does it come from: a key that is "
    "null, a function without `return`, a default?",
    "changed during iteration": "The loop's own dictionary changes under it. Which new one could "
    "be filled in its place?",
    "changed size during iteration": "The loop's own dictionary or set changes under it. Which "
    "new one could be filled in its place?",
    "inhomogeneous shape": "The parts of an array must have one shape. Are these rows of different "
    "lengths, or is it a pair, such as an output and its weights?",
    "w_1 must have a shape": "Which way round does the function take a matrix, and which way round "
    "is it kept? `.T` turns it.",
    "unhashable type": "What can change can't be a key. Which kind of sequence can't change?",
    "'tuple' object does not support item": "A tuple can't be changed. Which new one should be "
    "built in its place?",
    "'str' object does not support item": "A string can't be changed. Which new one should be "
    "built in its place?",
    "expected str instance, bytes found": "Text and bytes can't be joined. Which of the two is "
    "there, and when should it become the other?",
}


def _say(
    outcome: Outcome, function: Callable[..., Any], exercise: Exercise, prepared: Prepared
) -> tuple[str, str]:
    """Return the sentence and the next step for a call that gave no value."""
    kind, mistake, detail = outcome.kind, outcome.mistake, outcome.detail
    place = ""
    if mistake is not None and mistake.line is not None:
        code = mistake.code.replace("`", "'")
        place = f" In line {mistake.line}" + (f": `{code}`" if code else ".")
    if kind == "raised" and mistake is not None:
        message = mistake.message.replace("`", "'").rstrip(".")
        message = f": {message}" if message else ""
        arrays = any(isinstance(x, np.ndarray) for x in prepared.inputs.values())
        steps = _RAISED if arrays else _RAISED_PLAIN
        step = steps.get(mistake.type, steps[""])
        step = next((s for text, s in _MESSAGES.items() if text in message), step)
        return f"Your function raised {mistake.type}{message}.{place}", step
    if kind == "stub":
        if writes_stub(function):
            return "Your function raises NotImplementedError.", "Take that line out."
        return (
            f"A function that yours calls isn't written yet: it raises NotImplementedError.{place}",
            "Write that one first, or do its work here.",
        )
    if kind == "time":
        stopped = f"Your function still ran after {exercise.time_limit:g} seconds and was stopped."
        cause, _, step = exercise.if_too_slow.partition("→")
        return (
            f"{stopped} {cause}".strip(),
            step.strip() or "Which loop takes far more rounds than it needs, or never ends?",
        )
    if kind == "memory":
        gib = run.MEMORY_LIMIT / 2**30
        return (
            f"Your function asked for more than {gib:g} GiB of memory.{place}",
            "Which array or list grows without an end, or has an axis too many?",
        )
    if kind == "recursion":
        return (
            f"Your function calls itself without an end.{place}",
            "Which call should be the last one, and what tells it so?",
        )
    if kind == "exit":
        return (
            f"Your function calls {detail or 'sys.exit()'}, which would end the notebook.",
            "Return the result in its place.",
        )
    if kind == "interrupt":
        return "Your function raises KeyboardInterrupt.", "Return the result in its place."
    if kind == "keyboard":
        return (
            f"Your function waits for the keyboard ({detail}); a check has none.",
            "Everything that it needs is in its arguments.",
        )
    if kind == "own":
        return (
            "That's the course's own function, so there is nothing to check.",
            "Write the steps yourself, then compare.",
        )
    if kind == "arguments":
        return detail, "Give your function the parameters of the docstring, in that order."
    return (
        f"Your function calls {detail}, which a check doesn't allow.",
        "It needs nothing but its arguments and numpy or torch.",
    )


def _say_held(held: int, limit: int, exercise: Exercise) -> tuple[str, str]:
    """Return the sentence and the next step for a right result that took too much room."""
    cause, _, step = exercise.if_too_large.partition("→")
    said = (
        f"The numbers are right, but your function held {held / 1e6:.3g} MB at once beside its "
        f"arguments, and here it may hold {limit / 1e6:.3g}. {cause}"
    )
    return said.strip(), step.strip() or "Which of its arrays is the largest, and need it be whole?"


def writes_stub(function: Callable[..., Any]) -> bool:
    """Tell whether a function raises NotImplementedError itself, as an untouched exercise does."""
    inner = values.innermost(function)
    return inner is None or "NotImplementedError" in inner.__code__.co_names


def torch_is_there() -> bool:
    """Tell whether torch can be imported, and import it."""
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    return True
