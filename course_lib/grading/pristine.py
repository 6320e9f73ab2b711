"""Keeps what the grader itself stands on as it was, whatever a notebook has patched since.

A notebook may rebind ``numpy.exp`` or ``course_lib.reference.attention.softmax``, or swap a
function's code. While a check runs, the originals are back in their places; afterwards the
notebook's own are, so its author sees no difference. "Original" is what was there when
`course_lib.grading` was first imported: a notebook's first cell should import it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

import course_lib.reference

__all__ = ["pristine", "remember"]

_ABSENT = object()
_NAMES: dict[ModuleType, dict[str, Any]] = {}
_CODES: dict[FunctionType, tuple[CodeType, tuple[Any, ...] | None, dict[str, Any] | None]] = {}
_depth = 0


def remember(module: ModuleType) -> None:
    """Take down a module's names and its functions' code, once."""
    if module in _NAMES:
        return
    names = {k: v for k, v in vars(module).items() if not k.startswith("__")}
    _NAMES[module] = names
    if module.__name__.startswith("course_lib."):
        for value in names.values():
            if isinstance(value, FunctionType):
                remember_function(value)


def remember_function(function: object) -> None:
    """Take down a function's code and defaults, once."""
    if isinstance(function, FunctionType) and function not in _CODES:
        _CODES[function] = (function.__code__, function.__defaults__, function.__kwdefaults__)


@contextmanager
def pristine() -> Iterator[None]:
    """Work with the remembered names and code; put the notebook's own back at the end."""
    global _depth
    if _depth:  # already inside: student code can't have run since
        yield
        return
    names, codes = [], []
    for module, saved in _NAMES.items():
        now = vars(module)
        for name, value in saved.items():
            if now.get(name, _ABSENT) is not value:
                names.append((now, name, now.get(name, _ABSENT)))
                now[name] = value
    for function, (code, defaults, kwdefaults) in _CODES.items():
        if (
            function.__code__ is not code
            or function.__defaults__ is not defaults
            or function.__kwdefaults__ is not kwdefaults
        ):
            codes.append(
                (function, function.__code__, function.__defaults__, function.__kwdefaults__)
            )
            function.__code__, function.__defaults__ = code, defaults
            function.__kwdefaults__ = kwdefaults
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        for now, name, value in names:
            if value is _ABSENT:
                now.pop(name, None)
            else:
                now[name] = value
        for function, code, defaults, kwdefaults in codes:
            function.__code__, function.__defaults__ = code, defaults
            function.__kwdefaults__ = kwdefaults


for _name in ("numpy", "numpy.linalg", "math", "os", "time", "signal", "resource"):
    with suppress(ImportError):  # some are not on every platform
        remember(importlib.import_module(_name))
for _info in pkgutil.iter_modules(course_lib.reference.__path__, "course_lib.reference."):
    remember(importlib.import_module(_info.name))
remember(importlib.import_module("course_lib.validation"))
