"""Keeps what the grader itself stands on as it was, whatever a notebook has patched since.

A notebook may rebind ``numpy.exp``, ``course_lib.reference.attention.softmax`` or a function of the
grader, or swap a function's code. While a check runs, the originals are back in their places;
afterwards the notebook's own are. What the student's function changes while it's being checked is
undone for good. "Original" is what was there when `course_lib.grading` was first imported: a
notebook's first cell should import it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FunctionType, ModuleType
from typing import Any

import course_lib.reference

__all__ = ["pristine", "remember", "restore"]

_ABSENT = object()
_NAMES: dict[ModuleType | type, dict[str, Any]] = {}
_CODES: dict[FunctionType, tuple[Any, ...]] = {}
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")


def remember(module: ModuleType) -> None:
    """Take down a module's names and its functions' code, once.

    Of the grader's own modules only the functions and classes: their other names may change.
    """
    if module in _NAMES:
        return
    names = {k: v for k, v in vars(module).items() if not k.startswith("__")}
    if module.__name__.startswith("course_lib.grading"):
        names = {k: v for k, v in names.items() if isinstance(v, (FunctionType, type))}
    _NAMES[module] = names
    for value in names.values() if module.__name__.startswith("course_lib.") else ():
        parts = {"": value}
        if isinstance(value, type) and value.__module__ == module.__name__:
            parts = {
                k: v for k, v in vars(value).items() if isinstance(v, (FunctionType, property))
            }
            _NAMES[value] = parts
        for function in parts.values():
            if isinstance(function, FunctionType):
                _CODES[function] = tuple(getattr(function, part) for part in _PARTS)


def restore() -> list[tuple[Any, str, Any]]:
    """Put everything back as it was; return what was there, as (owner, name, value)."""
    found: list[tuple[Any, str, Any]] = []
    for owner, names in _NAMES.items():
        now = vars(owner)
        for name, value in names.items():
            if now.get(name, _ABSENT) is not value:
                found.append((owner, name, now.get(name, _ABSENT)))
                setattr(owner, name, value)
    for function, saved in _CODES.items():
        for part, value in zip(_PARTS, saved, strict=True):
            if getattr(function, part) is not value:
                found.append((function, part, getattr(function, part)))
                setattr(function, part, value)
    return found


@contextmanager
def pristine() -> Iterator[None]:
    """Work with the remembered names and code; put the notebook's own back at the end."""
    found = restore()
    try:
        yield
    finally:
        for owner, name, value in found:
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


for _name in ("numpy", "numpy.linalg", "math", "os", "time", "signal", "resource"):
    with suppress(ImportError):  # some are not on every platform
        remember(importlib.import_module(_name))
for _info in pkgutil.iter_modules(course_lib.reference.__path__, "course_lib.reference."):
    remember(importlib.import_module(_info.name))
for _name in ("validation", "tokenizers.bpe", "tokenizers.unigram", "tokenizers.wordpiece"):
    remember(importlib.import_module(f"course_lib.{_name}"))
