"""Results that aren't arrays: text, lists of pieces or pairs, dictionaries of counts.

What is compared here has been read by `values`: plain Python without subclasses, tuples made lists
(but for keys), so that a list for a tuple is right, and a string for bytes isn't.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["compare_kinds", "kind_of", "observe", "same", "side_by_side"]

WIDTH = 74
_SHOWN = 6  # entries of a dictionary


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are equal: whole numbers exactly, floats but for rounding."""
    if type(a) in (int, float) and type(b) in (int, float):
        if type(a) is type(b) is int:
            return bool(a == b)
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    if type(a) is not type(b):
        return False
    if type(a) is list:
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in b)
    return bool(a == b)


def kind_of(value: Any, *, within: bool = False) -> str:
    """Say what a value is: "a list of pairs"; `within` a list, in the plural: "pairs".

    Examples
    --------
    >>> kind_of([["u", "g"]]), kind_of(b"a"), kind_of({}), kind_of([])
    ('a list of pairs', 'bytes', 'a dictionary', 'an empty list')
    """
    names = {
        str: ("a string", "strings"),
        bytes: ("bytes", "bytes"),
        bool: ("True or False", "True and False"),
        int: ("a whole number", "whole numbers"),
        float: ("a number", "numbers"),
        dict: ("a dictionary", "dictionaries"),
        set: ("a set", "sets"),
        type(None): ("None", "None"),
    }
    if type(value) in names:
        return names[type(value)][within]
    if within:
        return "pairs" if len(value) == 2 else "lists"
    if not value:
        return "an empty list"
    kinds = sorted({kind_of(item, within=True) for item in value})
    return f"a list of {' and '.join(kinds)}"


def compare_kinds(yours: Any, right: Any, subject: str) -> tuple[str, str]:
    """Return a sentence and a step if two values are of different kinds, else two empty strings."""
    got, want = kind_of(yours), kind_of(right)
    alike = type(yours) is type(right) or {type(yours), type(right)} == {int, float}
    if alike and type(right) is list and yours and right and got != want:
        alike = {got, want} == {"a list of whole numbers", "a list of numbers"}
    if alike:
        return "", ""
    return f"{subject} is {got}; expected {want}.", _STEPS.get((got, want)) or _step(yours, right)


_STEPS = {
    ("a list of strings", "a list of pairs"): "A pair is a tuple of its two symbols: which line "
    "makes one string of them?",
    ("a list of pairs", "a list of strings"): "Which line should join the two symbols of a pair?",
    ("a list of bytes", "a list of strings"): "Which line turns bytes into text?",
    ("a list of strings", "a list of whole numbers"): "Where are pieces looked up to get ids?",
    ("a list of bytes", "a list of whole numbers"): "Where are pieces looked up to get ids?",
    ("a list of whole numbers", "a list of strings"): "Are ids asked for here, or the pieces?",
    ("bytes", "a string"): "What turns bytes into text?",
}


def _step(yours: Any, right: Any) -> str:
    if type(yours) is type(right) is list and " and " in kind_of(yours):
        return "Which line puts something of another kind into the list?"
    if type(yours) is list and type(right) is str:
        return "What joins the parts into one string?"
    if type(yours) is str and type(right) is list:
        return "Are the parts to be joined, or to stand one by one in a list?"
    if type(yours) is set and type(right) is list:
        return "A set has no order and holds nothing twice. Which container keeps both?"
    return "Compare your `return` with the docstring's Returns."


# -- evidence --------------------------------------------------------------------------------------


def side_by_side(name: str, yours: Any, right: Any) -> list[str]:
    """Return lines that show a value above the right one, and where they first differ.

    Examples
    --------
    >>> side_by_side("pieces", ["h", "ug"], ["hug"])[2]
    "first difference at pieces[0]: 'h', right 'hug'"
    """
    if type(yours) is dict and type(right) is dict:
        return _entries(name, yours, right)
    room = WIDTH - len(name) - len("   yours  ")
    at = _first_difference(yours, right)
    texts = [_window(value, at, room) for value in (yours, right)]
    lines = [f"{name}   yours  {texts[0]}", f"{' ' * len(name)}   right  {texts[1]}"]
    if at is not None and max(len(yours), len(right)) > 1:
        there = [
            _shown(value[at], within=True) if at < len(value) else "" for value in (yours, right)
        ]
        place = f"{name}[{at}]" if type(right) is list else f"character {at} of {name}"
        if not there[0]:
            lines.append(_cut(f"first difference at {place}: yours ends, right {there[1]}"))
        elif not there[1]:
            lines.append(_cut(f"first difference at {place}: {there[0]}, the right one ends"))
        else:
            lines.append(_cut(f"first difference at {place}: {there[0]}, right {there[1]}"))
    return lines


def _first_difference(yours: Any, right: Any) -> int | None:
    """Return the index of the first item or character that differs, in lists or in strings."""
    if type(yours) is not type(right) or type(right) not in (list, str):
        return None
    both = min(len(yours), len(right))
    return next((i for i in range(both) if not same(yours[i], right[i])), both)


def _window(value: Any, at: int | None, room: int) -> str:
    """Write a value; of one that is too long, what stands around a place."""
    whole = _shown(value)
    if len(whole) <= room or at is None:
        return whole if len(whole) <= room else whole[: room - 1] + "…"
    start, before = at, 0
    while start > 0 and before < room // 3:  # some of what stands before it is right on both sides
        start -= 1
        before += len(_shown(value[start])) + 2 if type(value) is list else 1
    if type(value) is str:
        text = ("…" if start else "") + repr(value[start : start + room])
        return text if len(text) <= room else text[: room - 1] + "…"
    text = ", ".join(_shown(x, within=True) for x in value[start : start + room])
    text = f"[… {text}]" if start else f"[{text}]"
    return text if len(text) <= room else text[: room - 1] + "…"


def _entries(name: str, yours: dict[Any, Any], right: dict[Any, Any]) -> list[str]:
    differing = [k for k in right if k not in yours or not same(yours[k], right[k])]
    differing += [k for k in yours if k not in right]
    lines = []
    if len(yours) != len(right):
        lines.append(f"{name}: yours has {_keys(len(yours))}, right {_keys(len(right))}")
    shown = differing[:_SHOWN]
    labels = [f"{name}[{_shown(key)}]"[:40] for key in shown]
    values = [_shown(yours[key]) if key in yours else "missing" for key in shown]
    wide = max(map(len, labels), default=0), max(map(len, values), default=0)
    for label, value, key in zip(labels, values, shown, strict=True):
        there = _shown(right[key]) if key in right else "not there"
        lines.append(_cut(f"{label:<{wide[0]}}  yours {value:<{wide[1]}}  right {there}"))
    if len(differing) > _SHOWN:
        lines.append(f"… and {len(differing) - _SHOWN} more that differ")
    return lines


def _keys(n: int) -> str:
    return f"{n} key{'s' * (n != 1)}"


def _shown(value: Any, within: bool = False) -> str:
    """Write a value as Python does; pairs `within` lists as the tuples that they mostly are."""
    if type(value) is set and value:  # in the same order every time
        return f"{{{', '.join(sorted(map(_shown, value)))}}}"
    if type(value) is not list:
        return repr(value)
    items = ", ".join(_shown(item, within=True) for item in value)
    return f"({items})" if within and len(value) == 2 else f"[{items}]"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


# -- what can be seen of it ------------------------------------------------------------------------


def observe(yours: Any, right: Any) -> str:
    """Say something true about how a wrong value relates to the right one, or nothing.

    Examples
    --------
    >>> observe(["u", "h"], ["h", "u"]), observe("a b ", "a b")
    ('is the right one in reverse order.', 'differs from the right one in white space only.')
    """
    if type(yours) is not type(right):
        return ""
    if type(right) is dict:
        return _observe_entries(yours, right)
    if type(right) is str:
        if "".join(yours.split()) == "".join(right.split()):
            return "differs from the right one in white space only."
        if right and yours.startswith(right):
            return "is right as far as the right one goes, and then goes on."
        if yours and right.startswith(yours):
            return "is right as far as it goes, but ends too early."
    if type(right) is list and right:
        at = _first_difference(yours, right)
        if at == len(right):
            return f"goes on after the right one's {_items(at)}."
        if at == len(yours):
            what = f"ends after {at}" if at else "holds none"
            return f"is right as far as it goes, but {what} of {_items(len(right))}."
        if same(yours[::-1], right):
            return "is the right one in reverse order."
        if sorted(map(repr, yours)) == sorted(map(repr, right)):
            return "holds the right items in another order."
        if all(type(item) is str for item in [*yours, *right]):
            a, b = "".join(yours), "".join(right)
            if a == b:
                return "spells the right text, cut at other places."
    return ""


def _observe_entries(yours: dict[Any, Any], right: dict[Any, Any]) -> str:
    less, more = right.keys() - yours.keys(), yours.keys() - right.keys()
    wrong = sum(not same(yours[k], right[k]) for k in right if k in yours)
    if less and not more and not wrong:
        return f"is right but for what it lacks: {len(less)} of {_keys(len(right))}."
    if more and not less and not wrong:
        return f"is right but for {_keys(len(more))} too many."
    if wrong and not less and not more and len(right) > 1:
        return f"has the right keys; {wrong} of {len(right)} values differ."
    return ""


def _items(n: int) -> str:
    return f"{n} item{'s' * (n != 1)}"
