"""Calls a student's function inside the notebook's own process, and survives what it does.

What holds on every platform: exceptions of all kinds, ``sys.exit``, ``input()``, printing without
end, warnings and logging, calls that would end the process, the course's own function returned as
one's own. What needs more:

- The time limit uses ``SIGALRM`` (Linux, macOS; main thread). Elsewhere (Windows, a browser's
  kernel, another thread) a trace function looks at the clock at every line of Python, which slows
  loops, and a bare ``except`` inside the loop can swallow it once and for all. Neither can stop one
  long call into C, such as ``sum(range(10**15))``.
- The memory limit uses ``RLIMIT_AS`` where ``/proc`` tells the present use (Linux). Elsewhere the
  machine's own limit is the only one.

This is a guard against accidents, and against cheating that a student would see through as such; a
notebook can always fool its own kernel. Class grading runs the code in another process, where
neither the reference nor the expected values are.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import logging
import os
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from course_lib.grading.held import Held
from course_lib.grading.output import NoKeyboard, Sink
from course_lib.grading.values import innermost, is_tensor

try:
    import signal
except ImportError:  # pragma: no cover - some browser kernels
    signal = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # pragma: no cover - Windows
    resource = None  # type: ignore[assignment]

__all__ = ["MEMORY_LIMIT", "Mistake", "Outcome", "call", "own_functions"]

#: How much memory a call may take on top of what is in use, in bytes.
MEMORY_LIMIT = 2 << 30
_MESSAGE_KEPT = 300


@dataclass(frozen=True)
class Mistake:
    """An exception of the student's function, and where in the student's code it happened."""

    type: str
    message: str = ""
    line: int | None = None
    code: str = ""


@dataclass
class Outcome:
    """What came of one call.

    `kind` is "value", or what happened instead: "raised", "stub", "time", "memory", "exit",
    "interrupt", "recursion", "arguments", "keyboard", "refused", "own". `held` are the bytes that
    it held at once, where that was measured.
    """

    kind: str = "value"
    value: Any = None
    mistake: Mistake | None = None
    detail: str = ""
    printed: str = ""
    printed_total: int = 0
    held: int = 0
    warned: list[str] = field(default_factory=list)


class _Stop(BaseException):
    """Raised inside the student's function to end it; flags in `_Guard` say why."""


class _Guard:
    """The call that is running."""

    def __init__(self) -> None:
        self.armed = False
        self.timed_out = False
        self.interrupted = False
        self.refused: tuple[str, str] | None = None  # (kind, what)
        self.fired = 0

    def refuse(self, kind: str, what: str) -> NoReturn:
        if self.refused is None:
            self.refused = (kind, what)
        raise _Stop(f"{what} is not available while the check runs")


_current: _Guard | None = None


def call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    names: Sequence[str] = (),
    time_limit: float = 10.0,
    memory_limit: int = MEMORY_LIMIT,
    measured: bool = False,
    own: Sequence[types.FunctionType] = (),
) -> Outcome:
    """Call a function that can't be trusted to return.

    Parameters
    ----------
    function : callable
    args, kwargs
        What it's called with. Copies: it may change them.
    names : sequence of str
        The names under which an error about the number of arguments lists them.
    time_limit : float
        In seconds.
    memory_limit : int
        In bytes, on top of what the process uses.
    measured : bool
        Whether to find out how many bytes it held at once.
    own : sequence of functions
        The course's functions that refuse to work meanwhile (`own_functions`).

    Returns
    -------
    Outcome

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts the kernel; nothing else is raised.
    """
    global _current
    guard, outcome = _Guard(), Outcome()
    sink, errors = Sink(), Sink(0)
    before = _current
    streams = [
        (sys.stdout, sink), (sys.stderr, errors), (sys.__stdout__, sink), (sys.__stderr__, errors),
    ]  # fmt: skip
    held = Held(tensors=any(is_tensor(x) for x in args)) if measured else None
    with ExitStack() as stack:
        stack.enter_context(_quiet(sink, errors, outcome.warned))
        stack.enter_context(_own_refuses(own))
        stack.enter_context(_memory(memory_limit))
        stack.enter_context(_interrupts(guard))
        stack.enter_context(_time(guard, time_limit))
        stack.enter_context(_no_way_out(guard, globals_of(function), streams))
        if held is not None:
            stack.enter_context(held)
        _current = guard
        try:
            next(_apart(lambda: _attempt(guard, outcome, function, args, kwargs or {}, names)))
        except _Stop:
            outcome.kind = "stopped"
        finally:
            guard.armed = False
            _current = before
    if guard.interrupted:
        raise KeyboardInterrupt
    outcome.printed, outcome.printed_total = sink.text, sink.total
    if held is not None:
        outcome.held = held.most
    if guard.refused is not None:
        outcome.kind, outcome.detail = guard.refused
    elif guard.timed_out:
        outcome.kind = "time"
    elif outcome.kind == "stopped":  # a leftover of an earlier call's machinery
        outcome.kind, outcome.mistake = "raised", Mistake("BaseException")
    if outcome.kind != "value":
        outcome.value = None
    return outcome


def _apart(do: Callable[[], None]) -> Iterator[None]:
    """Do something where exceptions that are being handled end with it.

    A function stopped in the middle of an ``except`` can leave its exception "being handled", and
    each traceback that comes later in the notebook would begin with it. A generator has a state of
    its own for that.
    """
    do()
    yield


def _attempt(
    guard: _Guard,
    outcome: Outcome,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    names: Sequence[str],
) -> None:
    """Call, and say what happened; only `_Stop` leaves it."""
    guard.armed = True
    try:
        complaint = _wrong_arguments(function, args, kwargs, names)
        if complaint:
            outcome.kind, outcome.detail = "arguments", complaint
        else:
            outcome.value = function(*args, **kwargs)
    except _Stop:
        raise
    except BaseException as error:
        outcome.kind, outcome.mistake = _describe(error, function)
        with contextlib.suppress(Exception):
            traceback.clear_frames(error.__traceback__)  # lets go of what filled the memory
    guard.armed = False


def _describe(error: BaseException, function: Callable[..., Any]) -> tuple[str, Mistake]:
    """Return the outcome's kind for an exception, and what is worth showing of it."""
    kind = "raised"
    if isinstance(error, NotImplementedError):
        kind = "stub"
    elif isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, RecursionError):
        kind = "recursion"
    elif isinstance(error, SystemExit):
        kind = "exit"
    elif isinstance(error, KeyboardInterrupt):
        kind = "interrupt"
    try:
        message = str(error)
    except _Stop:
        raise
    except BaseException:
        message = ""
    if "DefaultCPUAllocator" in message:
        kind = "memory"
    message = " ".join(message.split())
    if len(message) > _MESSAGE_KEPT:
        message = message[:_MESSAGE_KEPT] + " …"
    line, code = _place(error.__traceback__, globals_of(function))
    return kind, Mistake(type(error).__name__, message, line, code)


def _place(
    trace: types.TracebackType | None, namespace: dict[str, Any] | None
) -> tuple[int | None, str]:
    """Return the last line of the student's own code in a traceback: its number and its text."""
    line, code = None, ""
    while trace is not None:
        if namespace is not None and trace.tb_frame.f_globals is namespace:
            line = trace.tb_lineno
            code = linecache.getline(trace.tb_frame.f_code.co_filename, line).strip()
        trace = trace.tb_next
    return line, code


def _wrong_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[str]
) -> str:
    """Say how the function's parameters differ from what it's given; nothing where they fit."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        takes = ", ".join(signature.parameters)
        return f"Your function takes ({takes}), the check calls it with ({', '.join(names)})."
    return ""


def globals_of(function: object) -> dict[str, Any] | None:
    """Return the namespace in which a function was defined, through wrappers and methods."""
    inner = innermost(function)
    return None if inner is None else inner.__globals__


# -- output ----------------------------------------------------------------------------------------


@contextmanager
def _quiet(sink: Sink, errors: Sink, warned: list[str]) -> Iterator[None]:
    """Send prints to `sink`, warnings to `warned`, and everything meant for stderr nowhere."""

    def note(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        text = " ".join(str(message).split())[:_MESSAGE_KEPT]
        if len(warned) < 5 and text not in warned:
            warned.append(text)

    streams = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    hooks = sys.unraisablehook, threading.excepthook
    logging_was = logging.root.manager.disable
    recursion = sys.getrecursionlimit()
    with (
        warnings.catch_warnings(),
        np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"),
        _no_file_descriptors(),
    ):
        warnings.simplefilter("always")
        warnings.showwarning = note
        sys.stdout, sys.stderr = sink, errors
        sys.__stdout__, sys.__stderr__ = sink, errors  # type: ignore[misc, assignment]
        sys.unraisablehook, threading.excepthook = _nothing, _nothing
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
            sys.unraisablehook, threading.excepthook = hooks
            logging.disable(logging_was)
            sys.setrecursionlimit(recursion)


def _nothing(*_: Any) -> None:
    """Stand in for a hook that prints."""


@contextmanager
def _no_file_descriptors() -> Iterator[None]:
    """Point descriptors 1 and 2 nowhere: a kernel forwards what C code or os.write sends there."""
    saved: list[tuple[int, int]] = []
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:
        yield
        return
    try:
        for descriptor in (1, 2):
            try:
                copy = os.dup(descriptor)
            except OSError:
                continue
            saved.append((descriptor, copy))
            os.dup2(nowhere, descriptor)
        yield
    finally:
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(nowhere)


# -- ways out of the process -----------------------------------------------------------------------

_OUT = "refused"
_KEYBOARD = "keyboard"
_REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    ("builtins", ("input", "breakpoint"), _KEYBOARD),
    ("getpass", ("getpass",), _KEYBOARD),
    ("builtins", ("exit", "quit"), "exit"),
    (
        "os",
        ("_exit", "abort", "kill", "killpg", "fork", "forkpty", "system", "posix_spawn",
         "posix_spawnp", "execv", "execve", "execl", "execle", "execlp", "execlpe", "execvp",
         "execvpe", "startfile"),
        _OUT,
    ),
    (
        "signal",
        ("signal", "setitimer", "alarm", "raise_signal", "pthread_kill", "pthread_sigmask",
         "siginterrupt", "sigwait", "sigwaitinfo", "sigtimedwait", "pause"),
        _OUT,
    ),
    ("resource", ("setrlimit", "prlimit"), _OUT),
    ("_thread", ("interrupt_main",), _OUT),
    ("tracemalloc", ("stop", "clear_traces", "reset_peak"), _OUT),
]  # fmt: skip
_SAME = {"os": ("posix", "nt"), "signal": ("_signal",)}


@contextmanager
def _no_way_out(
    guard: _Guard, namespace: dict[str, Any] | None, streams: Sequence[tuple[Any, Sink]]
) -> Iterator[None]:
    """Replace what would end the process, undo the guard or wait for a keyboard.

    Names that the notebook took from these modules (``from os import _exit``), and its own names
    for the two output streams, are replaced as well.
    """
    swaps: dict[int, tuple[Any, Any]] = {}
    undo: list[tuple[dict[str, Any], str, Any]] = []

    def put(place: dict[str, Any], name: str, new: Any) -> None:
        undo.append((place, name, place[name]))
        place[name] = new

    for module_name, names, kind in _REFUSED:
        for same in (module_name, *_SAME.get(module_name, ())):
            module = sys.modules.get(same)
            for name in names if module is not None else ():
                old = vars(module).get(name)
                if old is not None:
                    label = f"{name}()" if module_name == "builtins" else f"{module_name}.{name}"
                    new = _refuser(guard, kind, label)
                    swaps[id(old)] = (old, new)
                    put(vars(module), name, new)
    for stream, stand_in in streams:
        swaps[id(stream)] = (stream, stand_in)
    stdin = sys.stdin
    sys.stdin = NoKeyboard(lambda: guard.refuse(_KEYBOARD, "sys.stdin"))
    if namespace is not None:
        for name, value in list(namespace.items()):
            if id(value) in swaps:
                put(namespace, name, swaps[id(value)][1])
            elif name in ("exit", "quit") and type(value).__name__ in (
                "ExitAutocall", "ZMQExitAutocall", "Quitter",
            ):  # fmt: skip
                put(namespace, name, _refuser(guard, "exit", f"{name}()"))
    try:
        yield
    finally:
        for place, name, old in reversed(undo):
            place[name] = old
        sys.stdin = stdin


def _refuser(guard: _Guard, kind: str, what: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        guard.refuse(kind, what)

    return refused


# -- the course's own function ---------------------------------------------------------------------


def own_functions(functions: Sequence[Callable[..., Any]]) -> list[types.FunctionType]:
    """Return the Python functions among these, each with its PyTorch twin where that is loaded."""
    own: list[types.FunctionType] = []
    for function in functions:
        if not isinstance(function, types.FunctionType):
            continue
        own.append(function)
        twin_module = sys.modules.get(
            (function.__module__ or "").replace("course_lib.reference.", "course_lib.blocks.")
        )
        twin = vars(twin_module).get(function.__name__) if twin_module is not None else None
        if isinstance(twin, types.FunctionType) and twin is not function:
            own.append(twin)
    return own


def _refusing_code(*args: Any, **kwargs: Any) -> None:
    from course_lib.grading.run import refuse_own

    refuse_own()


def refuse_own() -> None:
    """Do what a function of the course does instead of its work while a student's is checked."""
    if _current is not None:
        _current.refuse("own", "the course's own function")


def refuse_nested() -> None:
    """Refuse a check that is called by a function that is being checked."""
    if _current is not None:
        _current.refuse("refused", "check()")


@contextmanager
def _own_refuses(functions: Sequence[types.FunctionType]) -> Iterator[None]:
    """Swap the functions' code, so that every alias of them refuses."""
    saved = [(function, function.__code__) for function in functions]
    try:
        for function, code in saved:
            # A function's free variables are bound to cells; new code must ask for the same ones.
            function.__code__ = _refusing_code.__code__.replace(co_freevars=code.co_freevars)
        yield
    finally:
        for function, code in saved:
            function.__code__ = code


# -- limits ----------------------------------------------------------------------------------------


@contextmanager
def _memory(limit: int) -> Iterator[None]:
    """Let the process grow by `limit` bytes at most, where its size can be told."""
    in_use = _address_space()
    if resource is None or in_use is None:
        yield
        return
    # Libraries may start one thread a core at their first use; each reserves room for its stack.
    room = in_use + limit + (os.cpu_count() or 1) * (160 << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for ceiling in (soft, hard):
        if ceiling != resource.RLIM_INFINITY:
            room = min(room, ceiling)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (room, hard))
    except (OSError, ValueError):  # pragma: no cover - a platform that has the name only
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int | None:
    """Return the size of the process's address space in bytes, or None."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def _interrupts(guard: _Guard) -> Iterator[None]:
    """Tell the user's interrupt from a KeyboardInterrupt that the student's code raises."""
    if signal is None or not _in_main_thread() or not callable(signal.getsignal(signal.SIGINT)):
        yield
        return

    setitimer = getattr(signal, "setitimer", None)

    def interrupted(number: int, frame: types.FrameType | None) -> None:
        guard.interrupted = True
        if guard.armed:
            if setitimer is not None:  # should a bare except swallow it, the time limit insists
                setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            raise _Stop("interrupted")

    old = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


@contextmanager
def _time(guard: _Guard, seconds: float) -> Iterator[None]:
    """Stop the call after some seconds, again and again until it gives in."""
    if signal is None or not hasattr(signal, "setitimer") or not _in_main_thread():
        with _time_by_trace(guard, seconds):
            yield
        return
    tracer, setitimer = sys.gettrace(), signal.setitimer  # the name refuses during the call

    def ring(number: int, frame: types.FrameType | None) -> None:
        if not guard.armed or frame is None or frame.f_code.co_filename == __file__:
            return  # the grader's own lines are not to be interrupted; the next tick will do
        guard.timed_out = True
        guard.fired += 1
        if guard.fired > 1:  # swallowed by a bare except: its body is next
            _insist(frame)
        raise _Stop("time limit")

    def _insist(frame: types.FrameType | None) -> None:
        # Raising inside the try again would be swallowed again. Raising at the next line of a frame
        # that is on the stack now hits the except's own body, which that try doesn't cover. An
        # exception in a trace function ends tracing, so a tick right after it catches what
        # an outer except swallows.
        def stop(frame: types.FrameType, event: str, arg: Any) -> Any:
            if guard.armed and event == "line":
                setitimer(signal.ITIMER_REAL, 2e-5, 0.01)
                raise _Stop("time limit")
            return stop

        sys.settrace(lambda frame, event, arg: None)
        while frame is not None and frame.f_code.co_filename != __file__:
            frame.f_trace = stop
            frame = frame.f_back

    started = time.monotonic()
    old = signal.signal(signal.SIGALRM, ring)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if sys.gettrace() is not tracer:
            sys.settrace(tracer)
        signal.signal(signal.SIGALRM, old)
        if remaining:
            left = max(remaining - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


@contextmanager
def _time_by_trace(guard: _Guard, seconds: float) -> Iterator[None]:
    """Without signals: look at the clock at every line of Python."""
    tracer = sys.gettrace()
    if tracer is not None:  # a debugger or a coverage tool has the place
        yield
        return
    end = time.monotonic() + seconds

    def look(frame: types.FrameType, event: str, arg: Any) -> Any:
        if guard.armed and time.monotonic() > end and frame.f_code.co_filename != __file__:
            guard.timed_out = True
            raise _Stop("time limit")
        frame.f_trace_opcodes = True  # ``while True: pass`` has no second line to look at
        return look

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
