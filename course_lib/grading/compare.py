"""Decides whether a result is right, and says what is wrong with it when it isn't.

Right work in another order of operations differs from the reference by rounding; wrong work differs
by more. The tolerances lie between: for float64 and float32 well below 1e-2, so that an error of
one per cent never passes, and well above what reordering sums costs at these sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from course_lib.grading import plain
from course_lib.grading.values import Part

__all__ = ["TOLERANCE", "Problem", "agree", "differing", "judge"]

#: dtype → (rtol, atol): relative to the number, and relative to the largest one in its row.
TOLERANCE: dict[str, tuple[float, float]] = {
    "float64": (1e-6, 1e-8),
    "float32": (1e-3, 1e-4),
    "float16": (4e-3, 2e-3),
    "bfloat16": (2e-2, 1e-2),
}
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_HALF = ("float16", "bfloat16")
_ORDER = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Problem:
    """What is wrong with one part: a kind, a sentence, and where the numbers differ, if they do."""

    kind: str
    sentence: str = ""
    step: str = ""
    part: int = 0
    where: NDArray[np.bool_] | None = None


def precision(yours: Part, right: Part) -> str:
    """Return the coarser of two dtypes, as the name of a tolerance."""
    return max((_name(yours.dtype), _name(right.dtype)), key=_ORDER.index)


def _name(dtype: str) -> str:
    return dtype if dtype in _ORDER else "float64"


def differing(
    yours: Part,
    right: Part,
    tolerance: Mapping[str, tuple[float, float]],
    noise_of: float = 1.0,
) -> NDArray[np.bool_]:
    """Return where two arrays of one shape differ by more than rounding.

    Parameters
    ----------
    yours, right : Part
        With arrays of one shape.
    tolerance : mapping
        The exercise's own, over `TOLERANCE`.
    noise_of : float, default 1
        The size of the inputs. Where the right result is nothing but the rounding of numbers of
        this size, any result of that order is right.

    Returns
    -------
    boolean array of their shape
    """
    assert yours.array is not None and right.array is not None
    if right.array.dtype.kind != "f" or yours.array.dtype.kind not in "fiu":
        return np.asarray(yours.array != right.array)
    a, b = yours.array.astype(np.float64), right.array.astype(np.float64)
    dtype = precision(yours, right)
    rtol, atol = {**TOLERANCE, **tolerance}[dtype]
    rounding = min(64 * _EPS[dtype], TOLERANCE[dtype][1])
    size = np.where(np.isfinite(b), np.abs(b), 0.0)
    scale = float(size.max(initial=0.0))
    noise = 64 * min(max(1.0, noise_of), 10.0)
    # Whether the right result is mere rounding is a matter of its own dtype, not of the student's:
    # what is small in float32 may be meant in float64.
    if dtype not in _HALF and scale <= noise * _EPS[_name(right.dtype)]:
        allowed: Any = noise * _EPS[dtype]
    else:
        row = size.max(axis=-1, keepdims=True, initial=0.0) if size.ndim else size
        allowed = rtol * size + atol * row + rounding * scale
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= allowed
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.asarray(~(same | (near & np.isfinite(a) & np.isfinite(b))))


def agree(
    yours: list[Part],
    theirs: list[Part],
    tolerance: Mapping[str, tuple[float, float]],
    noise_of: float = 1.0,
) -> bool:
    """Tell whether two results are the same in shape and value: the diagnosis's question."""
    return len(yours) == len(theirs) and all(
        same_part(a, b, tolerance, noise_of) for a, b in zip(yours, theirs, strict=True)
    )


def same_part(
    a: Part, b: Part, tolerance: Mapping[str, tuple[float, float]], noise_of: float = 1.0
) -> bool:
    """Tell whether two parts are the same in shape and value."""
    if a.array is None or b.array is None:
        return a.array is None and b.array is None and plain.same(a.plain, b.plain)
    if a.array.shape != b.array.shape or {a.array.dtype.kind, b.array.dtype.kind} & set("OUSVMm"):
        return False
    if (a.array.dtype.kind == "b") != (b.array.dtype.kind == "b"):
        return False
    if (a.array.dtype.kind in "iu") and not a.python and b.array.dtype.kind == "f" and not b.python:
        return False
    return not differing(a, b, tolerance, noise_of).any()


def judge(
    yours: list[Part],
    right: list[Part],
    tolerance: Mapping[str, tuple[float, float]],
    noise_of: float = 1.0,
) -> Problem | None:
    """Return the first problem of a result, or None where it's right.

    Shapes are looked at first in every part, then dtypes, then values.
    """
    alone = len(right) == 1
    for look in (_shape, _dtype):
        for i, (a, b) in enumerate(zip(yours, right, strict=True)):
            if b.array is not None:
                problem = look(a, b, _subject(b, alone), i)
                if problem is not None:
                    return _in_order(problem, yours, right)
    for i, (a, b) in enumerate(zip(yours, right, strict=True)):
        if b.array is None:
            if not plain.same(a.plain, b.plain):
                sentence, step = plain.compare_kinds(a.plain, b.plain, _subject(b, alone))
                return Problem("form" if sentence else "plain", sentence, step, i)
            continue
        problem = _values(a, b, _subject(b, alone), i, tolerance, noise_of)
        if problem is not None:
            return problem
    return None


def _in_order(problem: Problem, yours: list[Part], right: list[Part]) -> Problem:
    """Say so where a part of the wrong shape has that of another, and so do all together."""
    if problem.kind != "shape" or len(right) == 1:
        return problem
    if sorted(part.shape for part in yours) != sorted(part.shape for part in right):
        return problem
    got, want = yours[problem.part].shape, right[problem.part].shape
    other = next(part.name for part in right if part.shape == got)
    name = right[problem.part].name
    return Problem(
        "shape",
        f"Your `{name}` has the shape {got}, which is that of `{other}`; expected {want}.",
        "Are your results in the order of the docstring's Returns?",
        problem.part,
    )


def _subject(part: Part, alone: bool) -> str:
    return "Your result" if alone else f"Your `{part.name}`"


def _shape(a: Part, b: Part, subject: str, i: int) -> Problem | None:
    assert a.array is not None and b.array is not None
    got, want = a.array.shape, b.array.shape
    if got == want:
        return None
    if got == ():
        return Problem(
            "scalar",
            f"{subject} is a single number; expected an array of shape {want}.",
            "Which axis should remain after the last sum or maximum?",
            i,
        )
    if want == ():
        return Problem(
            "shape",
            f"{subject} has the shape {got}; expected a single number.",
            "What has to be summed or picked so that one number is left?",
            i,
        )
    more = ""
    step = (
        "Write the shape at the end of each line of your function; which is the first to be wrong?"
    )
    if len(got) == len(want) >= 2 and got == (*want[:-2], want[-1], want[-2]):
        more = " The last two axes are swapped: it's transposed."
        step = "Which product or transpose puts rows where columns belong?"
    elif _broadcasts(got, want) and not _listed(b.array, got):
        more = f" {got} would broadcast to {want}, which hides the mistake."
        if len(got) < len(want):
            step = "Which axis is missing, and what took it away or never made it?"
        else:
            step = "Which axis was kept with length 1?"
    elif len(got) != len(want) and [n for n in got if n != 1] == [n for n in want if n != 1]:
        more = f" There is an axis of length 1 too {'many' if len(got) > len(want) else 'few'}."
        step = "Which line adds or takes away an axis?"
    elif a.array.size == b.array.size:
        more = " The number of elements is right, their arrangement isn't."
    return Problem("shape", f"{subject} has the shape {got}; expected {want}.{more}", step, i)


def _listed(right: NDArray, got: tuple[int, ...]) -> bool:
    """Tell whether a row of whole numbers is asked for, such as tokens: nobody adds to them."""
    return right.ndim == len(got) == 1 and right.dtype.kind in "iu"


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False)
    )


def _dtype(a: Part, b: Part, subject: str, i: int) -> Problem | None:
    assert a.array is not None and b.array is not None
    kind, want = a.array.dtype.kind, b.array.dtype.kind
    if kind == "O":
        return Problem(
            "dtype",
            f"{subject} has dtype object: it holds Python objects, not numbers.",
            "Build it from numbers of one type, such as np.zeros(shape) that you fill.",
            i,
        )
    if want == "f":
        if kind == "f":
            if (a.dtype in _HALF or a.dtype.startswith("float8")) and b.dtype not in _HALF:
                digits = {"float16": "3 digits", "bfloat16": "2 digits"}.get(a.dtype, "1 digit")
                return Problem(
                    "precision",
                    f"{subject} is {a.dtype}, which keeps about {digits}; expected {b.dtype}.",
                    "Where does your function leave the dtype of its inputs?",
                    i,
                )
            return None
        if kind in "iu":
            if a.python:
                return None  # plain Python whole numbers: nothing was cut off
            return Problem(
                "dtype",
                f"{subject} has dtype {a.dtype}: whole numbers, so every fraction was cut off.",
                "Where is an array of whole numbers made that should hold floats?",
                i,
            )
        if kind == "b":
            return Problem(
                "dtype",
                f"{subject} has dtype bool, True and False; expected numbers.",
                "Is that the result of a comparison?",
                i,
            )
    elif (want in "iu" and kind in "iu") or want == kind:
        return None
    names = {"f": "floats", "i": "whole numbers", "u": "whole numbers", "b": "True and False"}
    wanted = names.get(want, b.dtype)
    has = "is made of Python floats" if a.python and kind == "f" else f"has dtype {a.dtype}"
    return Problem(
        "dtype",
        f"{subject} {has}; expected {wanted} ({b.dtype}).",
        "Did you divide? `/` makes floats, and `//` keeps whole numbers."
        if kind == "f" and want in "iu"
        else "Which operation changes the dtype?",
        i,
    )


def _values(
    a: Part,
    b: Part,
    subject: str,
    i: int,
    tolerance: Mapping[str, tuple[float, float]],
    noise_of: float,
) -> Problem | None:
    assert a.array is not None and b.array is not None
    where = differing(a, b, tolerance, noise_of)
    if not where.any():
        return None
    if a.array.dtype.kind == "f":
        for word, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            odd = test(a.array) & where
            if odd.any():
                count = int(odd.sum())
                place = index_name(b.name, np.argwhere(odd)[0])
                n = f"{count} of {odd.size} numbers are" if odd.size > 1 else "The number is"
                first = f", the first at {place}" if odd.size > 1 else ""
                return Problem(
                    "nan" if word == "NaN" else "inf", f"{n} {word}{first}.", _ODD[word], i, where
                )
    return Problem("values", part=i, where=where)


_ODD = {
    "NaN": "NaN comes from 0/0, ∞ − ∞ or 0·∞. Which line makes the first one, from what?",
    "infinite": "∞ comes from a division by 0 or from exp of a large number. Which line makes it?",
}


def index_name(name: str, index: Any) -> str:
    """Return the name of an element: weights[0, 2]."""
    return f"{name}[{', '.join(str(int(i)) for i in index)}]" if len(index) else name
