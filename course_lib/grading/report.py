"""What a student reads: the same content as plain text and as HTML.

A text is a list of blocks. Both forms are made from them alone, so that they can't differ, and both
are the same whenever the same function is checked: no times, no addresses.
"""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from course_lib.grading import compare, plain
from course_lib.grading.diagnose import observe
from course_lib.grading.evaluate import CaseResult
from course_lib.grading.model import Exercise, Misconception
from course_lib.grading.values import Part

__all__ = ["Block", "Message", "Report", "make_report"]

WIDTH = 80
_PRINTED = 8  # lines
_COLUMNS = 8
_INPUT_LINES = 6

Kind = Literal["head", "right", "wrong", "evidence", "cause", "step"]


@dataclass(frozen=True)
class Block:
    """A piece of a message; `evidence` keeps its line breaks, all others are one paragraph."""

    kind: Kind
    text: str


class Message:
    """Blocks with a text and an HTML form. Shown in a notebook as HTML, by ``print`` as text."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = [Block(block.kind, _printable(block.text)) for block in blocks]

    def __str__(self) -> str:
        lines: list[str] = []
        before = ""
        for block in self.blocks:
            if before and not {block.kind, before} <= _CLOSE:
                lines.append("")
            before = block.kind
            if block.kind == "evidence":
                lines += [f"    {line}".rstrip() for line in block.text.split("\n")]
            else:
                start = _START[block.kind]
                lines += textwrap.wrap(
                    block.text,
                    WIDTH,
                    initial_indent=start,
                    subsequent_indent=" " * len(start),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        parts = [_HTML[block.kind].format(_marked_up(block)) for block in self.blocks]
        return f'<div style="line-height:1.5;max-width:46em">{"".join(parts)}</div>'


def _printable(text: str) -> str:
    """Return a text without what a terminal or a page would act on, or couldn't encode."""
    return "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)


_CLOSE = {"right", "wrong", "evidence"}
_START = {"head": "", "right": "✓ ", "wrong": "✗ ", "cause": "", "step": "→ "}
# Colours come from the page, which may be light or dark. The two that carry meaning have a contrast
# of at least 3:1 to white and to a near-black page, and stand beside a sign that says the same.
_RIGHT, _WRONG = "#2f8f5b", "#d2552b"
_HTML = {
    "head": '<div style="font-weight:600;margin:0 0 .5em">{}</div>',
    "right": '<div style="padding-left:1.5em;text-indent:-1.5em">'
    f'<span style="color:{_RIGHT};font-weight:700;display:inline-block;width:1.5em;'
    'text-indent:0">✓</span>{}</div>',
    "wrong": '<div style="padding-left:1.5em;text-indent:-1.5em">'
    f'<span style="color:{_WRONG};font-weight:700;display:inline-block;width:1.5em;'
    'text-indent:0">✗</span>{}</div>',
    "evidence": '<pre tabindex="0" role="group" aria-label="Details" style="margin:.4em 0 '
    ".6em;padding:.5em .7em;overflow-x:auto;color:inherit;background:rgba(127,127,127,.12);"
    'border:0;border-radius:4px;line-height:1.4;font-size:.92em">{}</pre>',
    "cause": '<div style="margin:.6em 0 0">{}</div>',
    "step": f'<div style="margin:.4em 0 0;padding-left:.8em;border-left:3px solid {_WRONG}">'
    "→ {}</div>",
}


# A word between asterisks; a product such as ``a * b`` isn't one.
_EMPHASIS = re.compile(r"(?<![\w*])\*(\S(?:[^*\n]*\S)?)\*(?![\w*])")


def _marked_up(block: Block) -> str:
    """Escape a text; what stands between backticks becomes code, between asterisks emphasis."""
    text = html.escape(block.text)
    if block.kind == "evidence":
        return text
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a backtick without its other half
        return text
    return "".join(
        f'<code style="color:inherit;background:rgba(127,127,127,.12);border:0">{piece}</code>'
        if i % 2
        else _EMPHASIS.sub(r"<em>\1</em>", piece)
        for i, piece in enumerate(pieces)
    )


@dataclass(repr=False)
class Report:
    """What a check found.

    In a notebook it shows as feedback; ``print`` gives the same as text. Its ``repr`` is the points
    as a float, since that is where nbgrader reads partial credit.

    Attributes
    ----------
    exercise_id : str
    points, max_points : float
    passed : bool
        Whether all cases are right.
    attempted : bool
        Whether there was something to check.
    cases : dict of case name to bool
    """

    exercise_id: str
    points: float
    max_points: float
    attempted: bool
    cases: dict[str, bool]
    message: Message = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether all cases are right."""
        return bool(self.cases) and all(self.cases.values())

    def __repr__(self) -> str:
        return repr(float(self.points))

    def __str__(self) -> str:
        return str(self.message)

    def __float__(self) -> float:
        return float(self.points)

    def _repr_html_(self) -> str:
        return self.message._repr_html_()


def not_attempted(exercise: Exercise, sentence: str, step: str) -> Report:
    """Return the report where there was nothing to check."""
    head = f"{exercise.id} · not attempted · 0 of {exercise.points:g} points"
    blocks = [Block("head", head), Block("cause", sentence), Block("step", step)]
    cases = {case.name: False for case in exercise.cases}
    return Report(exercise.id, 0.0, exercise.points, False, cases, Message(blocks))


def make_report(
    exercise: Exercise, results: list[CaseResult], misconception: Misconception | None
) -> Report:
    """Put what came of the cases into words.

    The first case that fails is shown in full, the others in a line each; the likely cause and one
    next step close the message.
    """
    whole = sum(r.prepared.case.weight for r in results)
    share = sum(r.prepared.case.weight for r in results if r.passed) / whole
    points = round(share * exercise.points, 2)
    if not all(r.passed for r in results):  # full points are never a matter of rounding
        points = max(0.0, min(points, round(exercise.points - 0.01, 2)))
    n = sum(r.passed for r in results)
    head = f"{exercise.id} · {n} of {len(results)} cases · {points:g} of {exercise.points:g} points"
    blocks = [Block("head", head)]
    failed = [r for r in results if not r.passed]
    if not failed:
        blocks.append(Block("right", "All cases pass."))
    for result in results if failed else ():
        title = result.prepared.case.title
        if result.passed:
            blocks.append(Block("right", title))
        elif result is failed[0]:
            blocks += [Block("wrong", title), Block("evidence", _evidence(result))]
        else:
            blocks.append(Block("wrong", f"{result.prepared.case.name} ({_in_brief(result)})"))
    if failed:
        blocks += _cause_and_step(exercise, failed[0], misconception)
    cases = {r.prepared.case.name: r.passed for r in results}
    return Report(exercise.id, points, exercise.points, True, cases, Message(blocks))


def _cause_and_step(
    exercise: Exercise, result: CaseResult, misconception: Misconception | None
) -> list[Block]:
    if misconception is not None:
        cause, _, step = misconception.hint.partition("→")
        if misconception.valid_variant:
            cause = f"A valid variant: {cause}"
        own = [result.sentence] if result.kind in ("raised", "nan", "inf", "shape") else []
        texts = [*own, cause.strip()]
    else:
        step = result.step
        texts = [text for text in (result.sentence, observe(result)) if text]
    if not step.strip():
        step = f'Compare yours with right, above. `hint("{exercise.id}")` gives a first idea.'
    return [*(Block("cause", text) for text in texts), Block("step", step.strip())]


_BRIEF = {
    "values": "other numbers",
    "raised": "an error",
    "stub": "not written",
    "time": "no end",
    "skipped": "not run",
    "touched": "an input was changed",
    "shape": "another shape",
    "scalar": "a single number",
    "nan": "NaN",
    "inf": "∞",
    "dtype": "another dtype",
    "precision": "too few digits",
    "parts": "other parts",
    "none": "None",
    "own": "the course's own function",
    "arguments": "other arguments",
    "memory": "too much memory",
    "generator": "a generator",
    "coroutine": "a coroutine",
    "callable": "a function",
    "text": "text",
    "type": "no numbers",
    "plain": "another result",
    "form": "another type",
    "object": "another type",
    "recursion": "no end",
    "exit": "an exit",
    "interrupt": "an interrupt",
    "keyboard": "waits for the keyboard",
    "refused": "not allowed",
}


def _in_brief(result: CaseResult) -> str:
    if result.kind == "raised" and result.outcome.mistake is not None:
        return result.outcome.mistake.type
    return _BRIEF.get(result.kind, "other numbers")


# -- evidence --------------------------------------------------------------------------------------


def _evidence(result: CaseResult) -> str:
    """Show the inputs, the first row that differs, and what was printed or warned of."""
    lines = [line for name, x in result.prepared.inputs.items() for line in _input(name, x)]
    if result.kind == "touched":
        changed = " and ".join(result.touched)
        lines.append(f"the result is right, but {changed} changed on the way")
    elif result.problem is not None and result.yours is not None:
        i = result.problem.part
        lines += _side_by_side(result.yours[i], result.prepared.right[i], result.problem)
    outcome = result.outcome
    lines += [_cut(f"warned: {text}") for text in outcome.warned[:2]]
    if outcome.printed.strip():
        printed = outcome.printed.strip("\n").expandtabs(4).splitlines()
        lines.append("printed:")
        lines += [f"  {_cut(line)}" for line in printed[:_PRINTED]]
        if len(printed) > _PRINTED or outcome.printed_total > len(outcome.printed):
            lines.append(f"  … ({outcome.printed_total:,} characters in all)")
    return "\n".join(lines)


def _cut(line: str) -> str:
    """Return a line short enough to stand in the evidence."""
    return line if len(line) <= WIDTH - 6 else line[: WIDTH - 7] + "…"


def _input(name: str, value: Any) -> list[str]:
    if isinstance(value, np.ndarray):
        if value.size <= 9 and value.ndim <= 2:
            return [_cut(f"{name} = {_listed(value.tolist())}")]
        return [f"{name}: {value.dtype.name} of shape {value.shape}"]
    if type(value) is dict and any(isinstance(x, np.ndarray) for x in value.values()):
        return [f"{name}: a dictionary of {len(value)}, such as", *_input(*_example(value))]
    return _wrapped(f"{name} = {_listed(value)}")


def _example(named: dict[str, Any]) -> tuple[str, Any]:
    """Return the first entry of a dictionary, its key written as it's looked up."""
    key, value = next(iter(named.items()))
    return f"  [{key!r}]", value


def _wrapped(text: str) -> list[str]:
    """Break a line after commas, so that what it lists can be copied; cut what is longer still."""
    lines: list[str] = []
    while len(text) > WIDTH - 6 and len(lines) < _INPUT_LINES - 1:
        end = text.rfind(", ", 0, WIDTH - 6) + 1
        if end <= 2:
            break
        lines.append(text[:end])
        text = f"  {text[end:].lstrip()}"
    return [*lines, _cut(text)]


def _listed(value: Any) -> str:
    """Write a value as Python would, but floats short: 2, not 2.0, nor -0.0."""
    if type(value) is list:
        return f"[{', '.join(map(_listed, value))}]"
    if type(value) is not float:
        return repr(value)
    short = round(value, 3) + 0.0
    hidden = short.is_integer() and 0.0 < abs(value - short) < 1e-9  # a hair off a whole number
    return repr(value) if hidden else f"{short:.10g}"


def _side_by_side(yours: Part, right: Part, problem: compare.Problem) -> list[str]:
    """Return the first row that differs, the student's above the right one."""
    if yours.array is None or right.array is None:
        return plain.side_by_side(right.name, yours.plain, right.plain)
    if problem.where is None:
        return [
            f"{right.name}   yours  {yours.dtype or 'numbers'} of shape {yours.shape}",
            f"{' ' * len(right.name)}   right  {right.dtype} of shape {right.shape}",
        ]
    index = tuple(int(i) for i in np.argwhere(problem.where)[0])
    row, column = index[:-1], (index[-1] if index else 0)
    start = max(0, min(column - _COLUMNS // 2, right.array.shape[-1] - _COLUMNS)) if index else 0
    a = np.atleast_1d(yours.array[row])[start : start + _COLUMNS]
    b = np.atleast_1d(right.array[row])[start : start + _COLUMNS]
    name = compare.index_name(right.name, row)
    if index and right.array.shape[-1] > _COLUMNS:
        name += f", {start} to {start + len(b) - 1}"
    above, below = _aligned(a, b)
    return [f"{name}   yours  {above}", f"{' ' * len(name)}   right  {below}"]


def _aligned(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[str, str]:
    """Write two rows with as many decimals as it takes to see where they differ."""
    numbers = [*a.tolist(), *b.tolist()]
    finite = [abs(x) for x in numbers if isinstance(x, (int, float)) and np.isfinite(x) and x]
    scientific = bool(finite) and (max(finite) >= 1e6 or max(finite) < 1e-3)
    texts: list[list[str]] = []
    for digits in range(3, 10):
        spec = f".{digits}{'e' if scientific else 'f'}"
        texts = [[_number(x, spec) for x in row.tolist()] for row in (a, b)]
        if texts[0] != texts[1]:
            break
    width = max(len(text) for row in texts for text in row)
    above, below = ("  ".join(text.rjust(width) for text in row) for row in texts)
    return above, below


def _number(x: Any, spec: str) -> str:
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return str(x)
    if isinstance(x, int):  # a count is no measurement
        return str(x).replace("-", "−")
    if np.isnan(x):
        return "NaN"
    if np.isinf(x):
        return "∞" if x > 0 else "−∞"
    return format(x, spec).replace("-", "−")
