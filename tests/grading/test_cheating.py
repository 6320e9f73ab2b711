"""What a notebook may patch or borrow, and that no point comes of it."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import course_lib.blocks.attention as blocks
import course_lib.reference.attention as reference
from course_lib.grading import Exercise, check, checks, compare, evaluate, registry, run, values
from course_lib.grading.pristine import pristine, remember
from course_lib.grading.report import Report
from tests.grading.toy import ID, minus, right, told, words

pytestmark = pytest.mark.usefixtures("toy")
Toy = Callable[..., Exercise]

ALWAYS = {
    "numpy.allclose": (np, "allclose", lambda *a, **k: True),
    "numpy.isclose": (np, "isclose", lambda a, b, **k: np.ones(np.shape(a), bool)),
    "numpy.abs": (np, "abs", lambda a: np.zeros(np.shape(a))),
    "numpy.isnan": (np, "isnan", lambda a: np.zeros(np.shape(a), bool)),
    "numpy.exp": (np, "exp", lambda x, **k: np.ones(np.shape(x))),
    "numpy.where": (np, "where", lambda *a: np.zeros(np.shape(a[0]))),
    "numpy.array": (np, "array", lambda *a, **k: None),
    "compare.judge": (compare, "judge", lambda *a, **k: None),
    "compare.differing": (compare, "differing", lambda a, *k, **q: np.zeros(a.shape, bool)),
    "evaluate.evaluate": (evaluate, "evaluate", lambda *a, **k: []),
    "checks.evaluate": (checks, "evaluate", lambda *a, **k: []),
    "checks.make_report": (
        checks,
        "make_report",
        lambda e, *a: Report(e.id, 3.0, 3.0, True, {"all": True}, None),  # type: ignore[arg-type]
    ),
    "values.read": (values, "read", lambda value, expected: list(expected)),
    "run.call": (run, "call", lambda *a, **k: run.Outcome(value=1.0)),
    "CaseResult.passed": (evaluate.CaseResult, "passed", True),
    "Report.points": (Report, "points", 3.0),
}


@pytest.fixture(params=ALWAYS)
def patched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A notebook in which a cell above has patched one of these."""
    owner, name, value = ALWAYS[request.param]
    monkeypatch.setattr(owner, name, value, raising=False)
    yield
    assert getattr(owner, name) is value  # the notebook's own is left alone


def test_patching_before_a_check_earns_nothing(patched: None) -> None:
    report = check(ID, minus)
    assert repr(report) == "0.75"
    assert not report.passed
    assert repr(check(ID, right)) == "3.0"


@pytest.mark.parametrize("name", ALWAYS)
def test_patching_during_a_check_earns_nothing_and_is_undone(name: str) -> None:
    owner, attribute, value = ALWAYS[name]
    missing = object()
    before = vars(owner).get(attribute, missing)

    def patches(x: Any, y: Any) -> Any:
        setattr(owner, attribute, value)
        return minus(x, y)

    try:
        assert repr(check(ID, patches)) == "0.75"
        if owner is not Report:
            assert vars(owner).get(attribute, missing) is before
    finally:
        if before is missing:
            if attribute in vars(owner):
                delattr(owner, attribute)
        else:
            setattr(owner, attribute, before)


def test_swapping_the_code_of_the_grader_s_functions_earns_nothing() -> None:
    def always(*args: Any, **kwargs: Any) -> None:
        return None

    code = compare.judge.__code__
    for when in ("before", "during"):

        def swaps(x: Any, y: Any) -> Any:
            compare.judge.__code__ = always.__code__
            return minus(x, y)

        try:
            if when == "before":
                compare.judge.__code__ = always.__code__
            assert check(ID, swaps if when == "during" else minus).points == 0.75
            if when == "during":
                assert compare.judge.__code__ is code
        finally:
            compare.judge.__code__ = code


def test_patching_the_reference_earns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a new kernel: the chapter's exercises are loaded by the first check.
    monkeypatch.delitem(registry._BY_CHAPTER, "05", raising=False)
    exercises = "course_lib.grading.exercises.ch05_scaled_dot_product_attention"
    monkeypatch.delitem(sys.modules, exercises, raising=False)
    monkeypatch.setattr(reference, "softmax", lambda x, axis=-1: x)
    assert check("05.softmax", lambda x, axis=-1: x).points == 0
    monkeypatch.undo()

    def patches(x: Any, axis: int = -1) -> Any:
        reference.softmax = lambda x, axis=-1: x  # type: ignore[assignment]
        return x

    original = reference.softmax
    assert check("05.softmax", patches).points == 0
    assert reference.softmax is original


def test_pristine_puts_the_notebook_s_own_back_also_after_an_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, original = (lambda x: x), np.exp
    monkeypatch.setattr(np, "exp", own)
    monkeypatch.delattr(np, "allclose")
    with pytest.raises(KeyError), pristine():
        assert np.exp is original
        assert np.allclose(1, 1)
        raise KeyError
    assert np.exp is own
    assert not hasattr(np, "allclose")


def test_pristine_leaves_names_alone_that_came_later() -> None:
    module = types.ModuleType("a_module")
    module.kept = 1  # type: ignore[attr-defined]
    remember(module)
    module.kept, module.new = 2, 3  # type: ignore[attr-defined]
    with pristine():
        assert (module.kept, module.new) == (1, 3)  # type: ignore[attr-defined]
    assert (module.kept, module.new) == (2, 3)  # type: ignore[attr-defined]


alias = reference.softmax
BORROWED: dict[str, Callable[..., Any]] = {
    "itself": reference.softmax,
    "alias": alias,
    "wrapper": lambda x, axis=-1: reference.softmax(x, axis),
    "inside a bare except": functools.wraps(alias)(lambda x, axis=-1: _tries(x, axis)),
    "lambda of an alias": lambda x, axis=-1: alias(x, axis),
    "partial": functools.partial(reference.softmax, axis=-1),
    "import inside": lambda x, axis=-1: importlib.import_module(
        "course_lib.reference.attention"
    ).softmax(x, axis),
    "default argument": lambda x, axis=-1, f=reference.softmax: f(x, axis),
    "torch twin": lambda x, axis=-1: blocks.softmax(blocks.torch.as_tensor(x), axis),
}


def _tries(x: Any, axis: int) -> Any:
    try:
        return alias(x, axis)
    except BaseException:
        return np.full(x.shape, 1 / x.shape[axis])


@pytest.mark.parametrize("name", BORROWED)
def test_the_course_s_own_function_is_no_answer(name: str) -> None:
    report, text = check("05.softmax", BORROWED[name]), ""
    text = words(report)
    assert report.points == 0
    assert "That's the course's own function, so there is nothing to check." in text, text
    assert "Write the steps yourself" in text
    assert reference.softmax(np.zeros(2)).tolist() == [0.5, 0.5]
    assert blocks.softmax(blocks.torch.zeros(2)).tolist() == [0.5, 0.5]


def test_a_twin_that_the_function_itself_loads_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "course_lib.blocks.attention")

    def loads(x: Any, axis: int = -1) -> Any:
        twin = importlib.import_module("course_lib.blocks.attention")
        return twin.softmax(twin.torch.as_tensor(x), axis)

    report = check("05.softmax", loads)
    assert report.points == 0
    assert "the course's own function" in words(report)


def test_what_an_exercise_guards_besides_refuses_too(toy: Toy) -> None:
    def gives_it_away(x: Any) -> Any:
        return x * 2

    toy(guarded=[gives_it_away])
    report, text = told(lambda x, y: gives_it_away(x))
    assert report.points == 0 and "the course's own function" in text
    assert gives_it_away(2) == 4


def test_the_reference_closes_over_what_it_likes(toy: Toy) -> None:
    more = 1.0

    def closed(x: Any, y: Any) -> Any:
        return x * y[:, None] + more

    toy(reference=closed)
    assert check(ID, right).passed
    assert "the course's own function" in told(closed)[1]
    assert closed(np.ones((1, 1)), np.ones(1)) == 2.0


def test_a_report_can_not_be_had_by_its_parts() -> None:
    """Nothing of the right answer is in what a function can see of its arguments or frames."""
    seen: list[str] = []

    def looks(x: Any, y: Any) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            found = frame.f_locals.get("prepared")
            if isinstance(found, evaluate.Prepared):
                seen.append(type(found.right).__name__)
            frame = frame.f_back  # type: ignore[assignment]
        return right(x, y)

    # In the notebook's own process that can't be hidden; class grading doesn't have it there.
    assert check(ID, looks).passed
    assert seen
