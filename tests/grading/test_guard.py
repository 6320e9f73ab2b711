"""What a student's function may do, and that the notebook goes on as if it hadn't."""

from __future__ import annotations

import builtins
import functools
import getpass
import io
import logging
import os
import resource
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from course_lib import grading
from course_lib.grading import Exercise, Report, run
from tests.grading.toy import ID, right, scale, words

pytestmark = pytest.mark.usefixtures("toy")
Toy = Callable[..., Exercise]


def state() -> dict[str, Any]:
    """All that a call changes meanwhile and has to put back."""
    return {
        "stdout": sys.stdout,
        "stderr": sys.stderr,
        "__stdout__": sys.__stdout__,
        "__stderr__": sys.__stderr__,
        "stdin": sys.stdin,
        "hooks": (sys.unraisablehook, threading.excepthook, sys.excepthook, sys.displayhook),
        "SIGALRM": signal.getsignal(signal.SIGALRM),
        "SIGINT": signal.getsignal(signal.SIGINT),
        "timer runs": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        "memory": resource.getrlimit(resource.RLIMIT_AS),
        "trace": sys.gettrace(),
        "numpy errors": np.geterr(),
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "logging": logging.root.manager.disable,
        "recursion": sys.getrecursionlimit(),
        "os": {k: v for k, v in vars(os).items() if callable(v)},
        "signal": dict(vars(signal)),
        "builtins": dict(vars(builtins)),
        "descriptors": [os.fstat(fd)[:2] for fd in (1, 2)],
        "reference": (scale.__code__, scale.__defaults__),
    }


def check(exercise_id: str, function: Callable[..., Any], **options: Any) -> Report:
    """Check a function and assert that everything is then as it was before."""
    before = state()
    try:
        return grading.check(exercise_id, function, **options)
    finally:
        assert state() == before


def told(function: Callable[..., Any], **options: Any) -> tuple[Report, str]:
    report = check(ID, function, **options)
    return report, words(report)


@pytest.fixture(autouse=True)
def _nothing_is_written(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No test of this module lets a function write to stderr or stdout, whichever way it tries."""
    yield
    assert capfd.readouterr() == ("", "")


def endless(x: Any, y: Any) -> Any:
    while True:
        pass


def endless_inside_a_bare_except(x: Any, y: Any) -> Any:
    while True:
        try:
            while True:
                pass
        except:  # noqa: E722
            pass


def endless_with_finally(x: Any, y: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue
        finally:
            pass


def endless_in_numpy(x: Any, y: Any) -> Any:
    while True:
        np.linalg.norm(np.ones(10))


def endless_printing(x: Any, y: Any) -> Any:
    while True:
        print("again")


def endless_message(x: Any, y: Any) -> Any:
    class Slow(Exception):
        def __str__(self) -> str:
            while True:
                pass

    raise Slow


@pytest.mark.parametrize(
    "function",
    [
        endless,
        endless_inside_a_bare_except,
        endless_with_finally,
        endless_in_numpy,
        endless_printing,
        endless_message,
    ],
)
def test_what_never_ends_is_stopped_and_the_other_cases_are_not_run(
    function: Callable[..., Any], toy: Toy
) -> None:
    toy(time_limit=0.3)
    started = time.monotonic()
    report, text = told(function)
    assert time.monotonic() - started < 10
    assert report.points == 0
    assert "Your function still ran after 0.3 seconds and was stopped." in text
    assert "✗ zeros (not run) ✗ four rows (not run)" in text


def test_a_slow_function_that_ends_in_time_passes() -> None:
    def slow(x: Any, y: Any) -> Any:
        time.sleep(0.05)
        return right(x, y)

    assert check(ID, slow).passed


def grows(x: Any, y: Any) -> Any:
    kept = []
    while True:
        kept.append(np.empty(1 << 26))


def huge(x: Any, y: Any) -> Any:
    return np.empty((1 << 40,))


def huge_list(x: Any, y: Any) -> Any:
    return [0.0] * (1 << 40)


@pytest.mark.parametrize("function", [grows, huge, huge_list])
def test_what_fills_the_memory_is_stopped_and_the_memory_is_given_back(
    function: Callable[..., Any],
) -> None:
    report, text = told(function)
    assert report.points == 0
    assert "Your function asked for more than 2 GiB of memory. In line" in text
    assert np.empty(1 << 26).nbytes == 1 << 29


def namespace_of(source: str) -> dict[str, Any]:
    """Run a student's cell."""
    namespace: dict[str, Any] = {"__name__": "a_students_notebook", "np": np, "torch": torch}
    exec(source, namespace)
    return namespace


def cell(body: str, top: str = "") -> Callable[..., Any]:
    """Return a student's function that does this before it returns the right answer."""
    source = f"{top}\ndef scale_rows(x, y):\n    {body}\n    return x * y[:, None] + 1\n"
    return namespace_of(source)["scale_rows"]


WAYS_OUT = {
    "import sys; sys.exit()": "Your function calls sys.exit(), which would end the notebook.",
    "import sys; sys.exit('done')": "Your function calls sys.exit(), which",
    "raise SystemExit(0)": "Your function calls sys.exit(), which would end the notebook.",
    "exit()": "Your function calls exit(), which would end the notebook.",
    "quit()": "Your function calls quit(), which would end the notebook.",
    "import os; os._exit(0)": "Your function calls os._exit, which a check doesn't allow.",
    "import os; os.abort()": "Your function calls os.abort, which a check doesn't allow.",
    "import os; os.kill(os.getpid(), 9)": "Your function calls os.kill, which",
    "import os; os.killpg(0, 9)": "Your function calls os.killpg, which",
    "import os; os.fork()": "Your function calls os.fork, which a check doesn't allow.",
    "import os; os.system('true')": "Your function calls os.system, which",
    "import os; os.execv('/bin/true', [''])": "Your function calls os.execv, which",
    "import posix; posix._exit(0)": "Your function calls os._exit, which",
    "import signal; signal.alarm(0)": "Your function calls signal.alarm, which",
    "import signal; signal.raise_signal(9)": "Your function calls signal.raise_signal, which",
    "import signal; signal.signal(14, print)": "Your function calls signal.signal, which",
    "import _thread; _thread.interrupt_main()": "Your function calls _thread.interrupt_main, which",
    "import resource; resource.setrlimit(9, (1, 1))": "calls resource.setrlimit, which",
    "input('Your name: ')": "Your function waits for the keyboard (input()); a check has none.",
    "import sys; sys.stdin.readline()": "Your function waits for the keyboard (sys.stdin)",
    "import sys; list(sys.stdin)": "Your function waits for the keyboard (sys.stdin)",
    "breakpoint()": "Your function waits for the keyboard (breakpoint())",
    "import getpass; getpass.getpass()": "waits for the keyboard (getpass.getpass)",
    "raise KeyboardInterrupt": "Your function raises KeyboardInterrupt.",
    "raise GeneratorExit": "Your function raised GeneratorExit. In line",
    "from course_lib.grading import check; check('98.scale', x)": "calls check()",
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_way_out_of_the_process_is_closed_and_named(way: str) -> None:
    assert getpass.getpass
    report, text = told(cell(way))
    assert report.points == 0 and report.attempted
    assert WAYS_OUT[way] in text, text


@pytest.mark.parametrize("way", ["os._exit(0)", "input()", "os.kill(os.getpid(), 9)"])
def test_a_bare_except_does_not_open_it(way: str) -> None:
    body = f"import os\n    try:\n        {way}\n    except BaseException:\n        pass"
    report, text = told(cell(body))
    assert report.points == 0
    assert "Your function" in text and ("allow" in text or "keyboard" in text)


def test_a_way_out_that_the_notebook_took_by_name_is_closed_too() -> None:
    for body, top in (
        ("_exit(0)", "from os import _exit"),
        ("leave(1)", "from os import abort\ndef leave(n): abort()"),
        ("ask()", "ask = input"),
    ):
        report, _ = told(cell(body, top))
        assert report.points == 0


TO_STDERR = {
    "warning": "import warnings; warnings.warn('careful')",
    "deprecation": "import warnings; warnings.warn('old', DeprecationWarning)",
    "numpy warning": "np.log(np.zeros(3)), np.ones(1) / np.zeros(1)",
    "warning as error": "import warnings; warnings.simplefilter('ignore')",
    "logging": "import logging; logging.error('log'); logging.getLogger('a').critical('log')",
    "logging set up": "import logging; logging.basicConfig(); logging.warning('log')",
    "print": "import sys; print('text', file=sys.stderr)",
    "write": "import sys; sys.stderr.write('text'); sys.stderr.flush()",
    "the other name": "import sys; sys.__stderr__.write('text without its line end')",
    "bytes": "import sys; sys.stderr.buffer.write(b'text')",
    "descriptor": "import os; os.write(2, b'text'); os.write(1, b'text')",
    "C": "import ctypes; ctypes.CDLL(None).perror(b'text')",
    "traceback": "import traceback; traceback.print_stack()",
    "by an old name": "old.write('text')",
    "closed": "import sys; sys.stdout.close(); sys.stderr.close()",
    "replaced": "import sys, io; sys.stdout = sys.stderr = io.StringIO()",
    "thread": ("import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()"),
    "del": "D().x",
}
DEL = "import sys\nold = sys.stderr\nclass D:\n    x = 1\n    def __del__(self): raise ValueError\n"


@pytest.mark.parametrize("name", TO_STDERR)
def test_right_work_that_writes_to_stderr_passes_and_nothing_reaches_it(name: str) -> None:
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        report, text = told(cell(TO_STDERR[name], DEL))
    finally:
        root.handlers[:] = handlers
    assert report.passed, text


def test_megabytes_of_print_are_counted_and_the_beginning_is_shown() -> None:
    report, text = told(cell("for i in range(3000): print('line', i, 'a' * 1000)\n    return 0"))
    assert report.points == 0
    assert "printed: line 0 aaa" in text
    assert "characters in all)" in text
    assert len(str(report)) < 3000
    assert len(report._repr_html_()) < 6000


def test_what_a_right_function_prints_is_left_out() -> None:
    report, text = told(cell("print('shapes', x.shape)"))
    assert report.passed and "shapes" not in text


def test_a_thread_that_goes_on_changes_nothing() -> None:
    stop = threading.Event()

    def goes_on(x: Any, y: Any) -> Any:
        answer = right(x, y)

        def work() -> None:
            while not stop.wait(0.001):
                answer[...] = np.nan
                print("still here", end="", file=io.StringIO())

        result = answer.copy()
        threading.Thread(target=work, daemon=True).start()
        return result

    try:
        assert check(ID, goes_on).passed
    finally:
        stop.set()


BAD = "class Bad(Exception):\n        def __str__(self): "
RAISES = {
    "return x[10]": "raised IndexError: index 10 is out of bounds for axis 0 with size 2. In line",
    "return x @ y": "raised ValueError: matmul:",
    "return x * z": "raised NameError: name 'z' is not defined. In line 3. → Is the name spelled",
    "q = q + 1": "raised UnboundLocalError",
    "return x.sofmax()": "raised AttributeError: 'numpy.ndarray' object has no attribute 'sofmax'.",
    "return 'a' + 1": "→ What types meet on that line?",
    "return {}['a']": "→ Which keys are there?",
    "return scale_rows(x, y)": "Your function calls itself without an end.",
    "torch.ones(2) @ torch.ones(3)": "raised RuntimeError",
    BAD + "raise Bad\n    raise Bad": "raised Bad.",
    BAD + "return 3\n    raise Bad": "raised Bad.",
    BAD + "exit()\n    raise Bad": "calls exit()",
    "raise ValueError('a' * 10_000)": "aaa …",
    "raise ValueError('two\\nlines.')": "raised ValueError: two lines. In line",
    "raise BaseException('so')": "Your function raised BaseException: so.",
    "raise ExceptionGroup('some', [ValueError()])": "raised ExceptionGroup: some",
}


@pytest.mark.parametrize("body", RAISES)
def test_an_exception_is_told_in_a_sentence_without_a_traceback(body: str) -> None:
    if "ExceptionGroup" in body and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no exception groups")
    report, text = told(cell(body), backend="numpy")
    assert report.points == 0 and report.attempted
    assert RAISES[body] in text, text
    assert "Traceback" not in text and ".py" not in text


def test_the_line_of_the_mistake_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "cell.py"
    file.write_text("def scale_rows(x, y):\n    y = y[None, None]\n    return x @ y\n")
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(), file, "exec"), namespace)
    assert "In line 3: `return x @ y` →" in told(namespace["scale_rows"])[1]


def test_other_parameters_are_named_beside_what_the_check_passes() -> None:
    for function, sentence in (
        (lambda x: x, "Your function takes (x), the check calls it with (x, y)."),
        (lambda: 0, "Your function takes (), the check calls it with (x, y)."),
        (lambda x, y, z: x, "Your function takes (x, y, z), the check calls it with (x, y)."),
        (lambda *, x, y: x, "Your function takes (x, y), the check calls it with (x, y)."),
    ):
        report, text = told(function)
        assert report.points == 0 and sentence in text, text
    assert "In line" in told(lambda x, y: right(x))[1]  # type: ignore[call-arg]


def test_a_keyboard_interrupt_of_the_student_s_user_ends_the_check(toy: Toy) -> None:
    toy(time_limit=60)
    interrupt = functools.partial(os.kill, os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.1, interrupt)
    started = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        check(ID, endless_inside_a_bare_except)
    timer.join()
    assert time.monotonic() - started < 30


def test_the_limit_of_a_timer_that_ran_before_goes_on_afterwards(toy: Toy) -> None:
    toy(time_limit=0.3)
    rang: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    before = signal.setitimer(signal.ITIMER_REAL, 0.6)
    try:
        check(ID, endless)
        deadline = time.monotonic() + 5
        while not rang and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rang
    finally:
        signal.signal(signal.SIGALRM, old)
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_settings_that_a_function_changes_are_put_back() -> None:
    body = (
        "import sys, warnings, logging\n"
        "    np.seterr(all='raise'); sys.setrecursionlimit(5000)\n"
        "    warnings.simplefilter('error'); logging.disable(5)"
    )
    assert check(ID, cell(body)).passed


@pytest.mark.parametrize("missing", ["signal", "resource", "both"])
def test_without_signals_or_limits_the_rest_holds(
    missing: str, monkeypatch: pytest.MonkeyPatch, toy: Toy
) -> None:
    """As on Windows, or in a browser's kernel."""
    for name in ("signal", "resource") if missing == "both" else (missing,):
        monkeypatch.setattr(run, name, None)
    assert check(ID, right).passed
    assert "raised ZeroDivisionError" in told(lambda x, y: 1 / 0)[1]
    assert "calls exit()" in told(cell("exit()"))[1]
    if sys.gettrace() is None:
        toy(time_limit=0.3)
        assert "still ran after 0.3 seconds" in told(endless)[1]
    assert "asked for more than 2 GiB" in told(lambda x, y: np.empty(1 << 60, "i1"))[1]


def test_the_guard_s_own_names_are_not_in_a_module_that_a_function_imports() -> None:
    """A function that keeps what it found while it was checked gets a refuser, which lets go."""
    kept: list[Any] = []

    def keeps(x: Any, y: Any) -> Any:
        kept[:] = [os.getpid, os.kill]
        return right(x, y)

    assert check(ID, keeps).passed
    assert isinstance(kept[1], types.FunctionType)
    with pytest.raises(BaseException, match="not available while the check runs"):
        kept[1](os.getpid(), 0)
