"""Copies inputs, hands them over as arrays or tensors, and reads what came back.

Reading runs none of the student's code: types are told by ``type(x)``, never by attributes that a
class may fake, and subclasses of arrays and numbers are stripped to what they hold.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import inspect
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Part",
    "Unreadable",
    "changed",
    "clone",
    "expected_parts",
    "innermost",
    "is_tensor",
    "read",
    "refers_to_torch",
    "to_tensors",
]

_MOST_ITEMS = 1_000_000


@dataclass(frozen=True)
class Part:
    """One part of a result: an array, its dtype's name, and whether plain Python numbers made it.

    `plain` holds the value instead where it isn't made of numbers (text, a dictionary, …).
    """

    name: str
    array: NDArray[Any] | None
    dtype: str = ""
    python: bool = False
    plain: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape; () for what isn't an array."""
        return () if self.array is None else self.array.shape


class Unreadable(Exception):
    """A value that can't be compared: `kind`, what it is in the student's words, what to do."""

    def __init__(self, kind: str, what: str, step: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.step = step


# -- inputs ----------------------------------------------------------------------------------------


def _torch() -> Any:
    """Return torch if something has imported it, else None."""
    return sys.modules.get("torch")


def is_tensor(value: object) -> bool:
    """Tell whether a value is a torch tensor, without importing torch."""
    torch = _torch()
    tensor = getattr(torch, "Tensor", None)
    return isinstance(tensor, type) and issubclass(type(value), tensor)


def clone(value: Any) -> Any:
    """Return a deep copy; arrays and tensors keep dtype and values and share no memory."""
    if type(value) is np.ndarray:
        return value.copy()
    if is_tensor(value):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(clone(x) for x in value)
    if type(value) is dict:
        return {k: clone(x) for k, x in value.items()}
    return copy.deepcopy(value)


def to_tensors(value: Any) -> Any:
    """Return a deep copy with tensors in the place of arrays."""
    if type(value) is np.ndarray:
        return _torch().from_numpy(value.copy())
    if type(value) in (list, tuple):
        return type(value)(to_tensors(x) for x in value)
    if type(value) is dict:
        return {k: to_tensors(x) for k, x in value.items()}
    return clone(value)


def changed(before: Any, after: Any) -> bool:
    """Tell whether an input differs from what was handed over, in shape, dtype or any bit."""
    if type(before) is not type(after):
        return True
    if is_tensor(before):
        torch = _torch()
        if before.dtype != after.dtype or before.shape != after.shape:
            return True
        same = (before == after) | ((before != before) & (after != after))
        return not bool(torch.all(same))
    if type(before) is np.ndarray:
        if before.dtype != after.dtype or before.shape != after.shape:
            return True
        if before.dtype == object:
            return any(changed(a, b) for a, b in zip(before.flat, after.flat, strict=True))
        return before.tobytes() != after.tobytes()
    if type(before) in (list, tuple):
        return len(before) != len(after) or any(map(changed, before, after))
    if type(before) is dict:
        return list(before) != list(after) or any(changed(before[k], after[k]) for k in before)
    if type(before) in (int, float, bool, str, bytes, set, frozenset, complex):
        return bool(before != after) and before == before
    return False


def refers_to_torch(function: object) -> bool:
    """Tell whether a function's code, or a helper's beside it, mentions something of torch."""
    todo: list[Any] = [function]
    seen: set[int] = set()
    while todo and len(seen) < 200:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        if _of_torch(f):
            return True
        if type(f) is not types.FunctionType:
            todo += [inner for inner in [inside(f)] if inner is not None]
            continue
        for cell in f.__closure__ or ():
            with contextlib.suppress(ValueError):  # a cell that is still empty
                todo.append(cell.cell_contents)
        for name in _names(f.__code__):
            if name in f.__globals__:
                value = f.__globals__[name]
                if _of_torch(value):
                    return True
                if type(value) is types.FunctionType and value.__globals__ is f.__globals__:
                    todo.append(value)
            elif name == "torch":
                return True  # imported inside the function
    return False


def inside(callable_: object) -> Any:
    """Return what a method, a partial, a wrapper or a callable object calls; None if it's neither.

    None of the object's own code runs.
    """
    kind = type(callable_)
    if kind is types.MethodType:
        return callable_.__func__  # type: ignore[attr-defined]
    if issubclass(kind, functools.partial):
        return functools.partial.func.__get__(callable_)
    wrapped = inspect.getattr_static(callable_, "__wrapped__", None)
    if wrapped is not None or kind is types.FunctionType or issubclass(kind, type):
        return wrapped
    for name in ("forward", "__call__"):  # forward: a module of torch
        method = inspect.getattr_static(kind, name, None)
        if type(method) is types.FunctionType:
            return method
    return None


def innermost(callable_: object) -> types.FunctionType | None:
    """Return the Python function that a callable comes down to, if it does."""
    for _ in range(10):
        inner = inside(callable_)
        if inner is None:
            break
        callable_ = inner
    return callable_ if isinstance(callable_, types.FunctionType) else None


def _names(code: types.CodeType) -> Iterable[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _of_torch(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        names = [value.__name__]
    elif isinstance(value, type):
        names = [value.__module__]
    else:
        names = [kind.__module__ for kind in type(value).__mro__]
        if type(value) in (types.BuiltinFunctionType, types.FunctionType):
            names = [value.__module__]
    return any(isinstance(n, str) and (n == "torch" or n.startswith("torch.")) for n in names)


# -- results ---------------------------------------------------------------------------------------


def expected_parts(value: Any, returns: tuple[str, ...] | None) -> list[Part]:
    """Read what the reference returned."""
    if returns is not None and len(returns) > 1:
        if type(value) not in (tuple, list) or len(value) != len(returns):
            raise ValueError(f"the reference must return {len(returns)} parts: {returns}")
        return [_expected(name, x) for name, x in zip(returns, value, strict=True)]
    if returns is None and type(value) is tuple and any(type(x) is np.ndarray for x in value):
        raise ValueError("the reference returns a tuple of arrays: name its parts in `returns`")
    return [_expected(returns[0] if returns else "result", value)]


def _expected(name: str, value: Any) -> Part:
    if type(value) is np.ndarray or issubclass(type(value), np.generic) or is_tensor(value):
        part = _numbers(name, value)
    elif type(value) in (bool, int, float, complex):
        part = Part(name, np.array(value), python=True)
    else:
        return Part(name, None, plain=_plain(value, 0))
    assert part.array is not None
    return Part(name, part.array, part.dtype or str(part.array.dtype), part.python)


def read(value: Any, expected: list[Part]) -> list[Part]:
    """Read what a student's function returned, in as many parts as are expected.

    Shapes and dtypes are as they came: comparing them is another step.

    Raises
    ------
    Unreadable
        If there are too few or too many parts, or one isn't made of numbers.
    """
    if len(expected) == 1:
        return [_kept(_read(value, expected[0], alone=True), expected[0])]
    wanted = f"({', '.join(part.name for part in expected)})"
    kind = type(value)
    if value is None or not issubclass(kind, (tuple, list)):
        if value is not None and (issubclass(kind, (np.ndarray, np.generic)) or is_tensor(value)):
            raise Unreadable("parts", f"returns 1 array; expected {len(expected)}: {wanted}")
        if issubclass(kind, dict):
            raise Unreadable("parts", f"returns a dictionary; expected a tuple {wanted}")
        what = _name_odd(value)
        kind_of = "parts" if what.kind == "type" else what.kind
        raise Unreadable(kind_of, f"{what.what}; expected {wanted}")
    items = list((tuple if issubclass(kind, tuple) else list).__iter__(value))
    if len(items) != len(expected):
        raise Unreadable(
            "parts",
            f"returns {len(items)} part{'s' * (len(items) != 1)}; "
            f"expected {len(expected)}: {wanted}",
        )
    try:
        return [_kept(_read(x, p, alone=False), p) for x, p in zip(items, expected, strict=True)]
    except Unreadable:
        if _in_reverse(items, expected):
            order = f"returns `{expected[1].name}` first; expected {wanted}"
            raise Unreadable("parts", order) from None
        raise


def _in_reverse(items: list[Any], expected: list[Part]) -> bool:
    """Tell whether two parts, of numbers and of something else, have changed places."""
    if len(expected) != 2:
        return False
    try:
        parts = [_read(x, p, alone=False) for x, p in zip(items[::-1], expected, strict=True)]
    except Unreadable:
        return False
    return all(type(a.plain) is type(b.plain) for a, b in zip(parts, expected, strict=True))


def _kept(part: Part, like: Part) -> Part:
    """Return a part with an array of its own: a function may write the next result into this one.

    What has another shape is wrong already, and may be too large to copy.
    """
    if part.array is None or part.shape != like.shape:
        return part
    return replace(part, array=part.array.copy())


def _read(value: Any, like: Part, *, alone: bool) -> Part:
    if like.array is None:
        return Part(like.name, None, plain=_read_plain(value, like, alone=alone))
    try:
        return _numbers(like.name, value)
    except Unreadable as problem:
        if alone:
            raise
        raise Unreadable(problem.kind, f"{problem.what} for `{like.name}`") from None


def _read_plain(value: Any, like: Part, *, alone: bool) -> Any:
    """Read what should be text, a list, a dictionary, …: anything but an array."""
    try:
        if value is None and like.plain is not None:
            raise _name_odd(None)
        return _plain(value, 0)
    except Unreadable as problem:
        kind, what, step = problem.kind, problem.what, problem.step
        if kind == "generator":
            what = what.replace("no numbers yet", "nothing yet").replace("its numbers", "its items")
            containers: dict[type, str] = {dict: "dict(…)", str: '"".join(…)'}
            how = containers.get(type(like.plain), "list(…)")
            step = f"Collect what it gives, as in {how}, and return that."
        elif kind == "type":
            kind = "object"
            step = "Compare your `return` with the docstring's Returns."
        what = what if alone else f"{what} for `{like.name}`"
        raise Unreadable(kind, what, step) from None


def _numbers(name: str, value: Any, depth: int = 0, room: list[int] | None = None) -> Part:
    """Return a value made of numbers as a part; `room` is how many more items lists may hold."""
    kind = type(value)
    room = [_MOST_ITEMS] if room is None else room
    if is_tensor(value):
        return _tensor(name, value)
    if issubclass(kind, np.ma.MaskedArray):
        raise Unreadable("type", "returns a masked array; expected a plain one")
    if issubclass(kind, np.ndarray):
        plain = value if kind is np.ndarray else np.ndarray.view(value, np.ndarray)
        return Part(name, plain, str(plain.dtype))
    if issubclass(kind, np.generic) and kind.__module__ == "numpy":
        array = np.asarray(value)
        return Part(name, array, str(array.dtype))
    if issubclass(kind, bool):
        return Part(name, np.array(value), "bool")
    if issubclass(kind, (int, float)):
        number = int.__add__(value, 0) if issubclass(kind, int) else float.__add__(value, 0.0)
        try:
            array = np.array(float(number)) if abs(number) > 2**62 else np.array(number)
        except OverflowError:
            array = np.array(np.inf)
        return Part(name, array, str(array.dtype), python=True)
    if issubclass(kind, complex):
        return Part(name, np.array(complex.__add__(value, 0)), "complex128")
    if issubclass(kind, (list, tuple)):
        if depth > 16:
            raise Unreadable("type", "returns lists nested more than 16 deep")
        items = list((list if issubclass(kind, list) else tuple).__iter__(value))
        room[0] -= len(items)
        if room[0] < 0:
            raise Unreadable("type", f"returns lists of more than {_MOST_ITEMS:,} items")
        if not items:
            return Part(name, np.zeros(0), "float64", python=True)
        try:
            parts = [_numbers(name, x, depth + 1, room) for x in items]
        except Unreadable as problem:
            if depth:
                raise
            word = "list" if issubclass(kind, list) else "tuple"
            inside = problem.what.replace("returns ", "", 1)
            raise Unreadable(problem.kind, f"returns a {word} that holds {inside}") from None
        shapes = {part.shape for part in parts}
        if len(shapes) > 1:
            word = "list" if issubclass(kind, list) else "tuple"
            listed = ", ".join(map(str, [part.shape for part in parts][:4]))
            raise Unreadable(
                "parts", f"returns a {word} of {len(items)} parts of different shapes ({listed})"
            )
        dtypes = {part.dtype for part in parts}
        python = all(part.python for part in parts)
        array = np.array([part.array for part in parts])
        dtype = dtypes.pop() if len(dtypes) == 1 else str(array.dtype)
        return Part(name, array, dtype, python)
    raise _name_odd(value)


def _tensor(name: str, value: Any) -> Part:
    torch = _torch()
    with torch._C.DisableTorchFunctionSubclass():  # a subclass's own operators stay out of it
        try:
            plain = torch.Tensor.as_subclass(value, torch.Tensor).detach()
            dtype = str(plain.dtype).rsplit(".", 1)[-1]
            if dtype == "bfloat16" or dtype.startswith("float8"):
                plain = plain.float()
            array = np.array(plain.cpu().resolve_conj().resolve_neg().numpy())
        except Exception:  # sparse, quantised, nested, without data, …
            what = "returns a tensor that can't be made an array (sparse, quantised, …)"
            raise Unreadable("type", what) from None
    return Part(name, array, dtype)


_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


def _name_odd(value: Any) -> Unreadable:
    """Say what a value is that isn't made of numbers."""
    kind = type(value)
    if value is None:
        return Unreadable("none", "returns None")
    if kind is types.CoroutineType:
        types.CoroutineType.close(value)  # else Python complains on stderr that nobody awaited it
        return Unreadable("coroutine", "is an `async def`: calling it returns a coroutine")
    if kind in (types.GeneratorType, types.AsyncGeneratorType):
        return Unreadable("generator", "returns a generator, which holds no numbers yet")
    if issubclass(kind, (map, filter, zip, range, enumerate, reversed, *_VIEWS)):
        return Unreadable("generator", f"returns a `{kind.__name__}` object, not its numbers")
    if issubclass(kind, (str, bytes)):
        return Unreadable("text", f"returns text ({kind.__name__})")
    if issubclass(kind, type):
        return Unreadable("callable", "returns a class")
    if issubclass(kind, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return Unreadable("callable", "returns a function instead of its result")
    if issubclass(kind, dict):
        return Unreadable("type", "returns a dictionary")
    article = "an" if kind.__name__[:1].lower() in "aeiou" else "a"
    return Unreadable("type", f"returns {article} `{kind.__name__[:60]}` object")


def _plain(value: Any, depth: int, room: list[int] | None = None) -> Any:
    """Return what isn't made of numbers as plain Python: subclasses stripped, arrays as lists.

    `room` is how many more items containers may hold.
    """
    kind = type(value)
    room = [_MOST_ITEMS] if room is None else room
    if depth > 16:
        raise Unreadable("type", "returns containers nested more than 16 deep")
    if value is None or kind in (bool, int, float, str, bytes):
        return value
    if issubclass(kind, str):
        return str.__add__(value, "")
    if issubclass(kind, (bytes, bytearray)):
        return bytes((bytes if issubclass(kind, bytes) else bytearray).__add__(value, b""))
    if issubclass(kind, int):
        return int.__add__(value, 0)
    if issubclass(kind, float) and not issubclass(kind, np.generic):
        return float.__add__(value, 0.0)
    if issubclass(kind, (np.ndarray, np.generic)) or is_tensor(value):
        array = _numbers("", value).array
        assert array is not None
        return _plain(array.tolist(), depth + 1, room)
    for container in (list, tuple, collections.deque):
        if issubclass(kind, container):
            _take(room, container.__len__(value))
            return [_plain(x, depth + 1, room) for x in container.__iter__(value)]
    if issubclass(kind, dict):
        _take(room, dict.__len__(value))
        return {_key(k, depth + 1, room): _plain(x, depth + 1, room) for k, x in dict.items(value)}
    if issubclass(kind, (set, frozenset)):
        members = set if issubclass(kind, set) else frozenset
        _take(room, members.__len__(value))
        return {_key(x, depth + 1, room) for x in members.__iter__(value)}
    raise _name_odd(value)


def _take(room: list[int], count: int) -> None:
    room[0] -= count
    if room[0] < 0:
        raise Unreadable("type", f"returns containers of more than {_MOST_ITEMS:,} items")


def _key(value: Any, depth: int, room: list[int]) -> Any:
    """Return a key of a dictionary, or a member of a set: lists made tuples again, sets frozen."""
    return _hashable(_plain(value, depth, room))


def _hashable(plain: Any) -> Any:
    if type(plain) is list:
        return tuple(map(_hashable, plain))
    if type(plain) is set:
        return frozenset(plain)
    if type(plain) is dict:
        raise Unreadable("type", "returns a dictionary with keys that can't be read")
    return plain
