"""What a student's function may return, and what the check says of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from course_lib.grading import Case, Exercise, check
from tests.grading.toy import ID, Liar, draw, right, told

pytestmark = pytest.mark.usefixtures("toy")
Toy = Callable[..., Exercise]


class AlwaysEqual:
    """Says that it equals whatever it's compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the grader must not ask")


class LyingTensor(torch.Tensor):
    """A tensor whose functions say what pleases."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.full((2, 3), 7.0)


class LyingList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise AssertionError("the grader must not ask")


async def a_coroutine(x: Any, y: Any) -> Any:
    await asyncio.sleep(0)
    return right(x, y)


async def an_async_generator(x: Any, y: Any) -> Any:
    yield right(x, y)


def a_generator(x: Any, y: Any) -> Any:
    yield from right(x, y)


def itself(x: Any, y: Any) -> Any:
    nest: list[Any] = []
    nest.append(nest)
    return nest


TURNED_DOWN: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a list of one": (lambda x, y: [1], "has the shape (1,); expected (2, 3)"),
    "None": (lambda x, y: None, "returns None."),
    "generator": (a_generator, "returns a generator, which holds no numbers yet."),
    "async generator": (an_async_generator, "returns a generator"),
    "map": (lambda x, y: map(abs, right(x, y)), "returns a `map` object, not its numbers."),
    "coroutine": (a_coroutine, "is an `async def`: calling it returns a coroutine."),
    "0-d array": (lambda x, y: np.array(1.0), "is a single number; expected an array of shape"),
    "number": (lambda x, y: 1.0, "is a single number; expected an array of shape (2, 3)."),
    "an axis too many": (
        lambda x, y: right(x, y)[None],
        "has the shape (1, 2, 3); expected (2, 3). There is an axis of length 1 too many.",
    ),
    "axes of length 1 elsewhere": (
        lambda x, y: np.ones((2, 1, 3)),
        "has the shape (2, 1, 3); expected (2, 3). There is an axis of length 1 too many.",
    ),
    "a shape that broadcasts": (
        lambda x, y: right(x, y)[:, :1],
        "has the shape (2, 1); expected (2, 3). (2, 1) would broadcast to (2, 3)",
    ),
    "transposed": (lambda x, y: right(x, y).T, "The last two axes are swapped: it's transposed."),
    "flattened": (
        lambda x, y: right(x, y).ravel(),
        "The number of elements is right, their arrangement isn't.",
    ),
    "empty": (lambda x, y: [], "has the shape (0,); expected (2, 3)"),
    "class that equals all": (lambda x, y: AlwaysEqual(), "returns an `AlwaysEqual` object."),
    "list of such": (lambda x, y: [AlwaysEqual()], "a list that holds an `AlwaysEqual` object."),
    "lying array": (lambda x, y: np.zeros((2, 3)).view(Liar), "yours 0.000 0.000 0.000"),
    "lying tensor": (
        lambda x, y: torch.zeros(2, 3).as_subclass(LyingTensor),
        "yours 0.000 0.000 0.000",
    ),
    "lying list": (lambda x, y: LyingList([1.0]), "has the shape (1,); expected (2, 3)"),
    "masked array": (
        lambda x, y: np.ma.masked_all((2, 3)),
        "returns a masked array; expected a plain one.",
    ),
    "sparse tensor": (
        lambda x, y: torch.eye(3).to_sparse(),
        "returns a tensor that can't be made an array",
    ),
    "tensor without data": (lambda x, y: torch.empty(2, 3, device="meta"), "returns a tensor that"),
    "NaN": (lambda x, y: right(x, y) * np.nan, "6 of 6 numbers are NaN, the first at result[0, 0]"),
    "infinite": (lambda x, y: right(x, y) * np.inf, "6 of 6 numbers are infinite"),
    "int": (lambda x, y: right(x, y).astype(int), "whole numbers, so every fraction was cut off"),
    "bool": (lambda x, y: right(x, y) > 0, "has dtype bool, True and False; expected numbers."),
    "complex": (lambda x, y: right(x, y) + 0j, "has dtype complex128; expected floats (float64)."),
    "object": (lambda x, y: right(x, y).astype(object), "it holds Python objects, not numbers."),
    "float16": (
        lambda x, y: right(x, y).astype(np.float16),
        "is float16, which keeps about 3 digits; expected float64.",
    ),
    "bfloat16": (
        lambda x, y: torch.as_tensor(right(x, y)).bfloat16(),
        "is bfloat16, which keeps about 2 digits; expected float64.",
    ),
    "float8": (
        lambda x, y: torch.as_tensor(right(x, y)).to(torch.float8_e4m3fn),
        "is float8_e4m3fn, which keeps about 1 digit; expected float64.",
    ),
    "dates": (lambda x, y: np.zeros((2, 3), "M8[s]"), "has dtype datetime64[s]; expected floats"),
    "text": (lambda x, y: str(right(x, y)), "returns text (str)."),
    "array of text": (lambda x, y: right(x, y).astype(str), "expected floats (float64)."),
    "dictionary": (lambda x, y: {"result": right(x, y)}, "returns a dictionary."),
    "set": (lambda x, y: {1.0, 2.0}, "returns a `set` object."),
    "function": (lambda x, y: right, "returns a function instead of its result."),
    "class": (lambda x, y: np.ndarray, "returns a class."),
    "two results for one": (
        lambda x, y: (right(x, y), 1.0),
        "returns a tuple of 2 parts of different shapes ((2, 3), ()).",
    ),
    "ragged lists": (lambda x, y: [[1.0], [1.0, 2.0]], "2 parts of different shapes ((1,), (2,))."),
    "lists without an end": (
        lambda x, y: [[[0.0] * 1000] * 1000] * 1000,
        "returns a list that holds lists of more than 1,000,000 items.",
    ),
    "list inside itself": (itself, "nested more than 16 deep"),
    "numbers one per mille off": (lambda x, y: right(x, y) * 1.001, "1.001 times the right one"),
}


@pytest.mark.parametrize("name", TURNED_DOWN)
def test_what_is_no_right_answer_gets_no_point_and_a_sentence(name: str, toy: Toy) -> None:
    toy(cases=[Case(name="two rows", inputs=draw(2))], misconceptions=[])
    function, sentence = TURNED_DOWN[name]
    backend = "torch" if "tensor" in name or name in ("bfloat16", "float8") else "numpy"
    report, text = told(lambda x, y: function(x, y), backend=backend)
    assert report.points == 0 and not report.passed and report.attempted
    assert sentence in text, text
    assert "→" in text


def written_in_place(x: Any, y: Any) -> Any:
    x = x.copy()
    x *= y[:, None]
    x += 1
    return x


_STORE: dict[tuple[int, ...], Any] = {}


def the_same_array_each_time(x: Any, y: Any) -> Any:
    out = _STORE.setdefault(x.shape, np.empty(x.shape))
    out[...] = right(x, y)
    return out


def while_printing(x: Any, y: Any) -> Any:
    print("shapes", x.shape, y.shape)
    return right(x, y)


def while_numpy_warns(x: Any, y: Any) -> Any:
    np.log(np.zeros(1))
    return right(x, y)


class Scaler:
    """A model with state, as people write them."""

    def __init__(self, more: float = 1.0) -> None:
        self.more = more

    def __call__(self, x: Any, y: Any) -> Any:
        return x * y[:, None] + self.more

    def method(self, x: Any, y: Any) -> Any:
        return self(x, y)

    @classmethod
    def of_class(cls, x: Any, y: Any) -> Any:
        return right(x, y)

    @staticmethod
    def alone(x: Any, y: Any) -> Any:
        return right(x, y)


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert type(x) is torch.Tensor
        return x * y[:, None] + 1


def with_more(more: float, x: Any, y: Any) -> Any:
    return x * y[:, None] + more


@functools.wraps(right)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return right(*args, **kwargs)


def in_torch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mul(x, y[:, None]) + 1


def with_a_gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(x) * y[:, None] + 1


RIGHT: dict[str, Callable[..., Any]] = {
    "float32": lambda x, y: right(x.astype(np.float32), y.astype(np.float32)),
    "nested lists": lambda x, y: right(x, y).tolist(),
    "tuples": lambda x, y: tuple(map(tuple, right(x, y).tolist())),
    "list of arrays": lambda x, y: list(right(x, y)),
    "list of lists of numpy scalars": lambda x, y: [list(row) for row in right(x, y)],
    "list of 0-d tensors": lambda x, y: [[torch.tensor(v) for v in r] for r in right(x, y)],
    "loops": lambda x, y: [[v * b + 1 for v in a] for a, b in zip(x, y, strict=True)],
    "Fortran order": lambda x, y: np.asfortranarray(right(x, y)),
    "a view": lambda x, y: right(x, y)[::-1][::-1],
    "byte order": lambda x, y: right(x, y).astype(">f8"),
    "a subclass that means no harm": lambda x, y: np.asmatrix(right(x, y)),
    "rounding": lambda x, y: right(x, y) * (1 + 1e-12),
    "float128": lambda x, y: right(x.astype(np.longdouble), y),
    "in place on a copy": written_in_place,
    "the same array each time": the_same_array_each_time,
    "printing": while_printing,
    "numpy warns": while_numpy_warns,
    "callable object": Scaler(),
    "method": Scaler().method,
    "class method": Scaler.of_class,
    "static method": Scaler.alone,
    "partial": functools.partial(with_more, 1.0),
    "partial of a method": functools.partial(Scaler().method),
    "wrapper": wrapped,
    "other names of the parameters": lambda a, b: right(a, b),
    "more parameters with defaults": lambda x, y, axis=-1, eps=0.0: right(x, y),
    "any arguments": lambda *args: right(*args),
    "torch": in_torch,
    "torch with a gradient": with_a_gradient,
    "module of torch": Module(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_work_passes_however_it_is_written(name: str) -> None:
    report, text = told(RIGHT[name])
    assert report.passed and report.points == 3.0, text
    assert "All cases pass." in text


def test_a_view_of_an_input_is_a_result_like_any_other(toy: Toy) -> None:
    toy(
        reference=lambda x: x.T.copy(),
        cases=[Case(name="one", inputs={"x": np.arange(6.0).reshape(2, 3)})],
        misconceptions=[],
    )
    assert told(lambda x: x.T)[0].passed
    assert told(lambda x: x.mT, backend="torch")[0].passed
    assert told(lambda x: x)[0].points == 0


@pytest.mark.parametrize("answer", [2.5, np.float64(2.5), np.float32(2.5), np.array(2.5)])
def test_a_number_may_be_python_s_or_numpy_s(toy: Toy, answer: Any) -> None:
    toy(
        reference=lambda x: x.mean(),
        cases=[Case(name="one", inputs={"x": np.array([2.0, 3.0])})],
        misconceptions=[],
    )
    assert told(lambda x: answer)[0].passed
    assert "has the shape (1,); expected a single number" in told(lambda x: [answer])[1]


def test_a_tuple_may_be_a_list_but_not_a_dictionary_or_a_part_short(toy: Toy) -> None:
    toy(
        reference=lambda x: (x + 1, x.sum()),
        returns=("moved", "total"),
        cases=[Case(name="one", inputs={"x": np.array([2.0, 3.0])})],
        misconceptions=[],
    )
    assert told(lambda x: [x + 1, x.sum()])[0].passed
    for answer, sentence in {
        "x + 1": "returns 1 array; expected 2: (moved, total).",
        "(x + 1,)": "returns 1 part; expected 2: (moved, total).",
        "(x, x, x)": "returns 3 parts; expected 2: (moved, total).",
        "{'moved': x}": "returns a dictionary; expected a tuple (moved, total).",
        "None": "returns None; expected (moved, total).",
        "(x + 1, None)": "returns None for `total`.",
        "(x.sum(), x + 1)": "Your `moved` is a single number",
        "(x + 1, 7.0)": "total yours 7.000 right 5.000",
    }.items():
        report, text = told(eval(f"lambda x: {answer}"))
        assert report.points == 0 and sentence in text, text


def test_whole_numbers_bools_and_text_are_compared_for_what_they_are(toy: Toy) -> None:
    case = [Case(name="one", inputs={"x": np.array([2, 3])})]
    for reference, answer, sentence in (
        (lambda x: x + 1, lambda x: (x + 1) * 1.0, "has dtype float64; expected whole numbers"),
        (lambda x: x > 2, lambda x: (x > 2) * 1, "has dtype int64; expected True and False"),
        (lambda x: "ab", lambda x: "ba", "yours 'ba' right 'ab'"),
        (lambda x: {"a": 1}, lambda x: {"a": 2}, "result['a'] yours 2 right 1"),
        (lambda x: "ab", lambda x: AlwaysEqual(), "returns an `AlwaysEqual` object."),
        (lambda x: [1, "a"], lambda x: [1, AlwaysEqual()], "returns an `AlwaysEqual` object."),
        (lambda x: 1, lambda x: True, "has dtype bool"),
    ):
        toy(reference=reference, cases=case, misconceptions=[])
        own = eval(f"lambda x: {reference(np.array([2, 3]))!r}", {"array": np.array})
        assert told(own)[0].passed
        report, text = told(answer)
        assert report.points == 0 and sentence in text, text


def test_a_changed_input_fails_a_case_whose_numbers_are_right() -> None:
    def in_place(x: Any, y: Any) -> Any:
        x *= y[:, None]
        x += 1
        return x.copy()

    report, text = told(in_place)
    assert not report.passed
    assert "The numbers are right, but `x` was changed" in text
    assert "Work on a copy." in text

    def both(x: Any, y: Any) -> Any:
        x *= 2
        y *= 2
        return x

    assert "Besides, `x` and `y` were changed" in told(both)[1]


def test_what_is_kept_between_calls_does_not_change_what_is_shown_of_the_first() -> None:
    kept: dict[str, Any] = {}

    def reused(x: Any, y: Any) -> Any:
        out = kept.setdefault("out", np.empty((9, 3)))[: len(x)]
        out[...] = right(x, y) + 1
        return out

    def fresh(x: Any, y: Any) -> Any:
        return right(x, y) + 1

    assert str(check(ID, reused)) == str(check(ID, fresh))


def test_a_function_that_mentions_torch_gets_tensors_and_any_other_arrays() -> None:
    seen: list[type] = []

    def helper(x: Any) -> Any:
        return torch.as_tensor(x)

    def through_a_helper(x: Any, y: Any) -> Any:
        seen.append(type(x))
        return helper(x) * y[:, None] + 1

    def plain(x: Any, y: Any) -> Any:
        seen.append(type(x))
        return right(x, y)

    for function, kind in ((through_a_helper, torch.Tensor), (plain, np.ndarray)):
        seen.clear()
        assert check(ID, function).passed
        assert set(seen) == {kind}
    seen.clear()
    check(ID, plain, backend="torch")
    assert set(seen) == {torch.Tensor}
