"""What students do to a grader: each has one outcome, and the next student isn't harmed by it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from course_lib.grading import Case, Exercise, Misconception, check, progress, registry
from course_lib.grading import run as guarded
from tests.grading.toy import Liar

Function = Callable[..., Any]


def centre(x: Any, axis: int = -1) -> Any:
    """Subtract the mean along an axis: the course's own function here."""
    return x - x.mean(axis=axis, keepdims=True)


def centre_and_mean(x: Any) -> Any:
    mean = x.mean(axis=-1)
    return x - mean[..., None], mean


def _rows(seed: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=(3, 5)), "axis": -1}


CENTRE = Exercise(
    id="99.centre",
    function="centre",
    reference=centre,
    cases=[
        Case(name="two numbers", inputs={"x": np.array([1.0, 4.0]), "axis": -1}),
        Case(name="3 rows of 5", inputs=_rows),
        Case(name="the first axis", inputs=lambda seed: {**_rows(seed), "axis": 0}),
        Case(name="large numbers", inputs={"x": np.array([[3e4, 1e4, 2e4]]), "axis": -1}),
    ],
    misconceptions=[
        Misconception(
            name="mean of everything",
            wrong=lambda x, axis=-1: x - x.mean(),
            hint="One mean was taken of all. → Which axis should each mean run along?",
        ),
    ],
    points=2,
    time_limit=0.4,
)
PARTS = Exercise(
    id="99.parts",
    function="centre_and_mean",
    reference=centre_and_mean,
    returns=("centred", "mean"),
    cases=[Case(name="3 rows of 5", inputs=lambda seed: {"x": _rows(seed)["x"]})],
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")
    for exercise in (CENTRE, PARTS):
        registry.register(exercise)
    yield
    for exercise in (CENTRE, PARTS):
        registry.unregister(exercise.id)
    progress.forget()


def words(report: object) -> str:
    """A report's text on one line, so that a wrapped sentence is found."""
    return " ".join(str(report).split())


def right(x: Any, axis: int = -1) -> Any:
    return x - x.sum(axis=axis, keepdims=True) / x.shape[axis]


def fails_with(function: Function, *sentences: str) -> str:
    """Check that a function gets no point, hears these sentences and one next step at the end."""
    text = str(check("99.centre", function))
    report = check("99.centre", function)
    assert report.points == 0.0
    assert not report.passed
    assert str(report) == text, "the same function reads the same feedback twice"
    for sentence in sentences:
        assert sentence in words(report), text
    *_, last = text.split("\n\n")
    assert last.startswith("→ ") and last.rstrip().endswith(("?", ".", "…"))
    assert max(map(len, text.splitlines())) <= 80
    assert check("99.centre", right).passed, "what one function did must not harm the next"
    return text


# -- odd results -----------------------------------------------------------------------------------


class EqualToAll:
    """Equal to everything, and an array to whoever asks."""

    shape = (2,)
    dtype = np.dtype("float64")

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return np.ndarray

    def __eq__(self, other: object) -> bool:
        return True

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the student's own code ran")


class EqualFloat(float):
    def __eq__(self, other: object) -> bool:
        return True

    def __float__(self) -> float:
        raise AssertionError("the student's own code ran")

    __hash__ = float.__hash__


class Endless(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        while True:
            yield 0.0

    def __len__(self) -> int:
        return 2


async def coroutine(x: Any, axis: int = -1) -> Any:
    return x


ODD_RESULTS: dict[str, tuple[Function, tuple[str, ...]]] = {
    "none": (lambda x, axis: None, ("returns None", "return")),
    "a list of one": (
        lambda x, axis: [1],
        ("(1,)", "expected (2,)", "would broadcast to (2,), which hides the mistake"),
    ),
    "a generator": (lambda x, axis: (v for v in x), ("returns a generator",)),
    "a map": (lambda x, axis: map(float, x), ("returns a `map` object",)),
    "a coroutine": (coroutine, ("async def",)),
    "a function": (lambda x, axis: right, ("returns a function",)),
    "a class": (lambda x, axis: EqualToAll, ("returns a class",)),
    "text": (lambda x, axis: str(x), ("returns text",)),
    "a dictionary": (lambda x, axis: {"result": x}, ("returns a dictionary",)),
    "one number": (lambda x, axis: x.mean(), ("is a single number; expected an array",)),
    "an array without axes": (lambda x, axis: np.array(1.0), ("is a single number",)),
    "the right numbers as a column": (
        lambda x, axis: right(x, axis)[..., None],
        ("(2, 1)", "expected (2,)"),
    ),
    "an object equal to all": (lambda x, axis: EqualToAll(), ("returns an `EqualToAll` object",)),
    "an array equal to all": (
        lambda x, axis: x.view(Liar),
        ("yours", "right", "differs from the right one by"),
    ),
    "numbers equal to all": (
        lambda x, axis: [EqualFloat(7), EqualFloat(7)] if x.ndim == 1 else None,
        ("7.000 7.000",),
    ),
    "a list without an end": (lambda x, axis: Endless([1.0]), ("(1,)",)),
    "true and false": (lambda x, axis: x > 0, ("dtype bool",)),
    "objects": (lambda x, axis: right(x, axis).astype(object), ("dtype object",)),
    "complex numbers": (lambda x, axis: right(x, axis) + 0j, ("dtype complex128",)),
    "whole numbers": (
        lambda x, axis: right(x, axis).astype(int),
        ("dtype int64", "every fraction was cut off"),
    ),
    "half precision": (
        lambda x, axis: right(x, axis).astype(np.float16),
        ("float16, which keeps about 3 digits; expected float64",),
    ),
    "NaN": (lambda x, axis: right(x, axis) * np.nan, ("are NaN, the first at result[0]",)),
    "infinity": (lambda x, axis: right(x, axis) / 0, ("infinite, the first at result[0]",)),
    "a ragged list": (lambda x, axis: [[1.0], [1.0, 2.0]], ("parts of different shapes",)),
    "an array as large as the machine": (
        lambda x, axis: np.broadcast_to(1.0, (10**6, 10**6)),
        ("(1000000, 1000000)",),
    ),
    "an error of one per cent": (lambda x, axis: 1.01 * right(x, axis), ("is 1.01 times",)),
}


@pytest.mark.parametrize("name", ODD_RESULTS)
def test_an_odd_result_fails_with_its_own_sentence(name: str) -> None:
    function, sentences = ODD_RESULTS[name]
    fails_with(function, *sentences)


def test_one_part_where_two_are_asked_is_counted() -> None:
    report = check("99.parts", lambda x: x)
    assert "returns 1 array; expected 2: (centred, mean)" in words(report)
    report = check("99.parts", lambda x: (x, x, x))
    assert "returns 3 parts; expected 2: (centred, mean)" in words(report)


def test_a_part_that_is_wrong_is_named() -> None:
    assert "returns None for `mean`" in words(check("99.parts", lambda x: (x, None)))

    def doubled(x: Any) -> Any:
        mean = x.mean(axis=-1)
        return x - mean[..., None], 2 * mean

    text = words(check("99.parts", doubled))
    assert "Your `mean` is 2 times the right one throughout" in text


# -- errors ----------------------------------------------------------------------------------------


def test_an_exception_shows_its_type_its_message_and_the_line() -> None:
    def broken(x: Any, axis: int = -1) -> Any:
        return x @ np.ones(7)

    text = fails_with(broken, "ValueError: matmul", "`return x @ np.ones(7)`")
    assert "Traceback" not in text


def test_an_exception_in_a_helper_shows_the_helpers_line() -> None:
    namespace: dict[str, Any] = {}
    exec(
        "def helper(x):\n    return x['a']\n\ndef centre(x, axis):\n    return helper(x)", namespace
    )
    fails_with(namespace["centre"], "IndexError", "In line 2")


def test_an_exception_that_cannot_be_printed_is_still_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def raises(x: Any, axis: int = -1) -> Any:
        raise Mute

    fails_with(raises, "raised Mute")


def test_another_number_of_parameters_is_told_from_an_error_inside() -> None:
    fails_with(lambda x: x, "takes (x), the check calls it with (x, axis)")


def test_recursion_without_an_end_has_its_own_sentence() -> None:
    def again(x: Any, axis: int = -1) -> Any:
        return again(x, axis)

    fails_with(again, "calls itself without an end")


def test_a_stub_is_not_attempted() -> None:
    def stub(x: Any, axis: int = -1) -> Any:
        raise NotImplementedError()

    report = check("99.centre", stub)
    assert (report.points, report.attempted, report.passed) == (0.0, False, False)
    assert str(report).startswith("99.centre · not attempted · 0 of 2 points")
    assert "NotImplementedError" not in report._repr_html_().replace(
        "raise NotImplementedError()", ""
    )


def test_a_helper_that_is_still_a_stub_is_an_attempt() -> None:
    def helper(x: Any) -> Any:
        raise NotImplementedError

    def centre(x: Any, axis: int = -1) -> Any:
        return helper(x)

    report = check("99.centre", centre)
    assert report.attempted
    assert "isn't written yet" in words(report)


# -- names -----------------------------------------------------------------------------------------


def test_a_renamed_function_gets_a_sentence_and_no_error() -> None:
    namespace: dict[str, Any] = {"check": check, "center": right}
    exec("report = check('99.centre')", namespace)
    report = namespace["report"]
    assert report.points == 0.0
    assert not report.attempted
    assert "There is no function `centre`" in words(report)
    assert "There is a `center`: was it renamed?" in words(report)


def test_the_function_is_found_in_the_notebook_that_calls_check() -> None:
    namespace: dict[str, Any] = {"check": check, "centre": right}
    exec("report = check('99.centre')", namespace)
    assert namespace["report"].points == 2.0


def test_a_name_that_holds_something_else_gets_a_sentence() -> None:
    namespace: dict[str, Any] = {"check": check, "centre": np.zeros(3)}
    exec("report = check('99.centre')", namespace)
    assert namespace["report"].points == 0.0
    assert "isn't a function here but a ndarray" in words(namespace["report"])


def test_only_an_unknown_exercise_is_an_error_and_it_names_near_ones() -> None:
    with pytest.raises(ValueError, match=r"'99\.center'.*'99\.centre'"):
        check("99.center", right)
    with pytest.raises(ValueError, match="backend"):
        check("99.centre", right, backend="jax")


# -- time and memory -------------------------------------------------------------------------------


def for_ever(x: Any, axis: int = -1) -> Any:
    while True:
        pass


def for_ever_behind_a_bare_except(x: Any, axis: int = -1) -> Any:
    while True:
        try:  # noqa: SIM105
            time.sleep(0.2)
        except:  # noqa: E722
            pass


def for_ever_behind_two(x: Any, axis: int = -1) -> Any:
    while True:
        try:
            with contextlib.suppress(BaseException):
                for_ever(x)
        except BaseException:
            continue


def for_ever_printing(x: Any, axis: int = -1) -> Any:
    while True:
        print("y" * 10_000)


@pytest.mark.parametrize(
    "loop", [for_ever, for_ever_behind_a_bare_except, for_ever_behind_two, for_ever_printing]
)
def test_an_endless_loop_is_stopped_and_the_other_cases_are_not_run(loop: Function) -> None:
    start = time.monotonic()
    report = check("99.centre", loop)
    assert time.monotonic() - start < 5
    assert report.points == 0.0
    assert "still ran after 0.4 seconds and was stopped" in words(report)
    with pytest.raises(KeyError) as later:
        {}["the student's next mistake"]
    assert later.value.__context__ is None
    assert "3 rows of 5 (not run)" in words(report)
    assert sys.gettrace() is None
    assert check("99.centre", right).passed


def test_an_endless_loop_is_stopped_where_there_are_no_signals() -> None:
    """Also off the main thread, where Python takes none."""
    reports: list[Any] = []
    thread = threading.Thread(
        target=lambda: reports.append(check("99.centre", for_ever)), daemon=True
    )
    thread.start()
    thread.join(20)
    assert len(reports) == 1, "still running"
    assert "was stopped" in words(reports[0])


def test_the_timer_and_the_handlers_of_the_notebook_are_put_back() -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 30)
        handlers = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)
        check("99.centre", right)
        check("99.centre", for_ever)
        assert (signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)) == handlers
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 20 < left < 30
        assert seen == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no memory limit here")
def test_allocating_without_an_end_has_its_own_sentence() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)

    def hoard(x: Any, axis: int = -1) -> Any:
        return [np.empty(2**28) for _ in range(1000)]  # 2 GiB each; never touched

    fails_with(hoard, "more than 2 GiB of memory", "`return [np.empty(2**28)")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_the_users_own_interrupt_goes_through() -> None:
    """Ctrl-C while a check runs stops the cell, also where the function swallows it."""

    for loop in (for_ever, for_ever_behind_a_bare_except):
        finger = threading.Thread(target=lambda: _press_from_outside(0.15))
        finger.start()
        with pytest.raises(KeyboardInterrupt):
            check("99.centre", loop)
        finger.join()


def _press_from_outside(after: float) -> None:
    """Send SIGINT as a kernel's manager does: from another process."""
    code = f"import os, time; time.sleep({after}); os.kill({os.getpid()}, 2)"
    subprocess.Popen([sys.executable, "-S", "-c", code]).wait()


# -- ways out --------------------------------------------------------------------------------------


def swallows(function: Function) -> Function:
    """The same, with right numbers after it: getting caught mustn't be worth a try."""

    def tries(x: Any, axis: int = -1) -> Any:
        with contextlib.suppress(BaseException):
            function(x, axis)
        return right(x, axis)

    return tries


WAYS_OUT: dict[str, tuple[Function, str]] = {
    "input": (lambda x, axis: input("? "), "waits for the keyboard (input())"),
    "stdin": (lambda x, axis: sys.stdin.readline(), "waits for the keyboard (sys.stdin)"),
    "breakpoint": (lambda x, axis: breakpoint(), "waits for the keyboard (breakpoint())"),
    "kill": (lambda x, axis: os.kill(os.getpid(), 9), "calls os.kill"),
    "_exit": (lambda x, axis: os._exit(0), "calls os._exit"),
    "abort": (lambda x, axis: os.abort(), "calls os.abort"),
    "fork": (lambda x, axis: os.fork(), "calls os.fork"),
    "system": (lambda x, axis: os.system("true"), "calls os.system"),
    "execv": (lambda x, axis: os.execv(sys.executable, ["python"]), "calls os.execv"),
    "no timer": (lambda x, axis: signal.setitimer(signal.ITIMER_REAL, 0), "calls signal.setitimer"),
    "no alarm": (lambda x, axis: signal.alarm(0), "calls signal.alarm"),
    "own handler": (lambda x, axis: signal.signal(signal.SIGALRM, print), "calls signal.signal"),
    "raise a signal": (lambda x, axis: signal.raise_signal(9), "calls signal.raise_signal"),
}


@pytest.mark.parametrize("name", WAYS_OUT)
def test_a_way_out_of_the_process_is_refused(name: str) -> None:
    function, sentence = WAYS_OUT[name]
    fails_with(function, sentence)


@pytest.mark.parametrize("name", WAYS_OUT)
def test_swallowing_the_refusal_earns_nothing(name: str) -> None:
    function, sentence = WAYS_OUT[name]
    fails_with(swallows(function), sentence)


def test_a_way_out_under_another_name_is_refused_too() -> None:
    namespace: dict[str, Any] = {}
    exec(
        "from os import _exit as leave\nimport posix\n"
        "def one(x, axis): leave(0)\ndef two(x, axis): posix._exit(0)",
        namespace,
    )
    fails_with(namespace["one"], "calls os._exit")
    fails_with(namespace["two"], "calls os._exit")
    assert namespace["leave"] is os._exit


@pytest.mark.parametrize(
    ("leave", "sentence"),
    [
        (lambda x, axis: sys.exit(3), "calls sys.exit(), which would end the notebook"),
        (lambda x, axis: exec("raise SystemExit"), "which would end the notebook"),
        (lambda x, axis: exec("raise KeyboardInterrupt"), "raises KeyboardInterrupt"),
        (lambda x, axis: exec("raise GeneratorExit"), "raised GeneratorExit"),
    ],
)
def test_an_exception_that_would_end_the_notebook_ends_the_case(
    leave: Function, sentence: str
) -> None:
    fails_with(leave, sentence)


# -- output ----------------------------------------------------------------------------------------


def noisy(x: Any, axis: int = -1) -> Any:
    print("looked at", x.shape)
    print("to stderr", file=sys.stderr)
    sys.__stderr__.write("to the first stderr\n")  # type: ignore[union-attr]
    os.write(2, b"to the descriptor\n")
    warnings.warn("a warning", stacklevel=1)
    logging.getLogger("anything").error("logged")
    np.exp(np.array([1e6]))
    return right(x, axis)


def test_nothing_that_a_function_prints_reaches_the_notebook(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert check("99.centre", noisy).passed
    assert capfd.readouterr() == ("", "")
    print("mine")
    print("mine too", file=sys.stderr)
    assert capfd.readouterr() == ("mine\n", "mine too\n"), "the streams are back"


def test_warnings_logging_and_streams_are_as_before() -> None:
    before = sys.stdout, sys.stderr, sys.stdin, warnings.showwarning, logging.root.manager.disable
    filters = list(warnings.filters)
    check("99.centre", noisy)
    after = sys.stdout, sys.stderr, sys.stdin, warnings.showwarning, logging.root.manager.disable
    assert all(a is b or a == b for a, b in zip(before, after, strict=True))
    assert list(warnings.filters) == filters


def test_what_a_wrong_function_prints_is_shown_back() -> None:
    def prints(x: Any, axis: int = -1) -> Any:
        print("mean is", float(x.mean()))
        return x

    text = str(check("99.centre", prints))
    assert "printed:" in text
    assert "mean is 2.5" in text


def test_megabytes_are_cut_and_not_kept() -> None:
    import tracemalloc

    def shouts(x: Any, axis: int = -1) -> Any:
        for _ in range(5_000):
            print("z" * 10_000)
        return x

    tracemalloc.start()
    report = check("99.centre", shouts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6, "200 MB were printed"
    assert len(str(report)) < 3_000
    assert "characters in all" in words(report) or "was stopped" in words(report)


def test_numpys_warning_is_shown_as_a_clue_of_a_failing_case() -> None:
    text = words(check("99.centre", lambda x, axis: np.exp(x * 1e6)))
    assert "warned: overflow encountered in exp" in text


def test_a_filter_that_makes_warnings_errors_does_not_fail_right_work() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        old = np.seterr(all="raise")
        try:
            assert check("99.centre", noisy).passed
        finally:
            np.seterr(**old)


# -- fooling the comparison ------------------------------------------------------------------------


def test_patching_what_compares_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("allclose", "isclose", "array_equal", "abs", "isnan", "any", "all", "asarray"):
        monkeypatch.setattr(np, name, lambda *args, **kwargs: True)
    report = check("99.centre", lambda x, axis: x)
    monkeypatch.undo()
    assert report.points == 0.0


def test_patching_what_compares_from_inside_the_function_has_no_effect() -> None:
    true = np.allclose

    def patches(x: Any, axis: int = -1) -> Any:
        np.allclose = np.isclose = lambda *args, **kwargs: True
        np.abs = lambda x: np.zeros(np.shape(x))
        return x

    assert check("99.centre", patches).points == 0.0
    assert np.allclose is true


def test_patching_the_reference_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    from course_lib.reference import attention

    def flat(x: Any, axis: int = -1) -> Any:
        return x * 0

    right_points = check("05.softmax", flat).points
    monkeypatch.setattr(attention, "softmax", flat)
    assert check("05.softmax", flat).points == right_points == 0.0
    monkeypatch.undo()
    code = attention.softmax.__code__
    monkeypatch.setattr(attention.softmax, "__code__", flat.__code__)
    assert check("05.softmax", flat).points == 0.0
    monkeypatch.undo()
    assert attention.softmax.__code__ is code


def test_patching_the_graders_own_functions_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    from course_lib.grading import compare, evaluate

    monkeypatch.setattr(compare, "judge", lambda *args: None)
    monkeypatch.setattr(compare, "differing", lambda *args: np.zeros(1, bool))
    monkeypatch.setattr(evaluate.compare, "agree", lambda *args: True)
    assert check("99.centre", lambda x, axis: x).points == 0.0


def test_a_check_of_ones_own_is_replaced_by_the_check_cells_import() -> None:
    namespace: dict[str, Any] = {"check": lambda *args: 2.0, "centre": lambda x, axis: x}
    exec("from course_lib.grading import check\nreport = check('99.centre')", namespace)
    assert namespace["report"].points == 0.0


def softmax_by_the_course(x: Any, axis: int = -1) -> Any:
    from course_lib.reference.attention import softmax

    return softmax(x, axis)


def softmax_by_the_twin(x: Any, axis: int = -1) -> Any:
    import torch

    from course_lib.blocks.attention import softmax

    return softmax(torch.as_tensor(x), axis)


@pytest.mark.parametrize("by", [softmax_by_the_course, softmax_by_the_twin, swallows])
def test_returning_what_the_course_computes_earns_nothing(by: Function) -> None:
    function = swallows(softmax_by_the_course) if by is swallows else by
    report = check("05.softmax", function)
    assert report.points == 0.0
    assert "the course's own function" in words(report)


def test_handing_in_the_reference_itself_earns_nothing_and_leaves_it_whole() -> None:
    from course_lib.reference.attention import scaled_dot_product_attention, softmax

    for function in (softmax, centre):
        exercise = "05.softmax" if function is softmax else "99.centre"
        report = check(exercise, function)
        assert report.points == 0.0
        assert "the course's own function" in words(report)
    assert softmax(np.zeros(2)).tolist() == [0.5, 0.5]

    def calls_another(x: Any, axis: int = -1) -> Any:
        q = np.ones((1, 2))
        scaled_dot_product_attention(q, q, q)
        return x

    assert "the course's own function" in words(check("05.softmax", calls_another))


def test_other_functions_of_the_course_may_be_used() -> None:
    from course_lib.reference.attention import softmax

    def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        hidden = False if mask is None else ~mask
        scores = np.einsum("...ic,...jc->...ij", q, k) * k.shape[-1] ** -0.5
        weights = softmax(np.where(hidden, -np.inf, scores))
        return weights @ v, weights

    report = check("05.attention", attention)
    assert report.points == report.max_points, str(report)


# -- inputs ----------------------------------------------------------------------------------------


def test_changing_an_input_fails_the_case_and_names_the_argument() -> None:
    def in_place(x: Any, axis: int = -1) -> Any:
        x -= x.mean(axis=axis, keepdims=True)
        return x

    fails_with(in_place, "The numbers are right, but `x` was changed", "Work on a copy")


def test_a_case_is_not_harmed_by_what_another_did_to_its_inputs() -> None:
    def once(x: Any, axis: int = -1) -> Any:
        result = right(x, axis)
        if x.shape == (2,):
            x[:] = 0
        return result

    for _ in range(2):
        report = check("99.centre", once)
        assert report.points == 1.5
        assert [name for name, ok in report.cases.items() if not ok] == ["two numbers"]


def test_the_guard_needs_no_signal_module_and_no_resource_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows and in a browser's kernel."""
    monkeypatch.setattr(guarded, "signal", None)
    monkeypatch.setattr(guarded, "resource", None)
    assert check("99.centre", right).passed
    assert "was stopped" in words(check("99.centre", for_ever))
    assert "calls os.kill" in words(check("99.centre", WAYS_OUT["kill"][0]))
