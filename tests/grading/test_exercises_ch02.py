"""What only chapter 02's exercises promise."""

from __future__ import annotations

import copy
from itertools import permutations

import numpy as np
import pytest
import torch

from course_lib.accounting import count_flops
from course_lib.blocks import attention_scores
from course_lib.grading import check
from course_lib.grading.exercises import ch02_why_transformers as ch02
from course_lib.grading.model import OPEN_SEED, Case
from tests.grading.course import answers, equal, manuscript, outcome

GAP, FLOPS, PATH, ORDER = (
    next(e for e in ch02.EXERCISES if e.id == f"02.{name}")
    for name in ("equivariance_gap", "layer_flops", "steps_and_path", "bug_order")
)


# -- functions as inputs ---------------------------------------------------------------------------

LAYERS = [case.build()["function"] for case in GAP.cases]
each_layer = pytest.mark.parametrize("layer", LAYERS, ids=repr)


@each_layer
def test_a_layer_is_printed_by_its_name_and_survives_being_copied(layer: ch02.Layer) -> None:
    x = np.random.default_rng(0).normal(size=(4, 4))
    for other in (layer, copy.deepcopy(layer)):
        assert repr(other) == repr(layer)
        assert "object at" not in repr(other)
        np.testing.assert_array_equal(other(x), layer(x))


@each_layer
def test_a_layer_leaves_its_argument_and_gives_tensors_for_tensors(layer: ch02.Layer) -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    before = x.copy()
    answer = layer(torch.from_numpy(x.copy()))
    assert isinstance(answer, torch.Tensor)
    np.testing.assert_allclose(answer.numpy(), layer(x))
    np.testing.assert_array_equal(x, before)
    assert len(answer) == 5


def test_the_report_names_the_function_that_a_tester_was_fed() -> None:
    text = str(check(GAP.id, lambda function, x: 0.0))
    assert "function = something else where first numbers only fall" in text
    assert " at 0x" not in text


def test_of_the_layers_those_that_should_be_equivariant_are_and_the_others_are_not() -> None:
    gaps = {case.name: ch02.equivariance_gap(**case.build()) for case in GAP.cases}
    fine = {name for name, gap in gaps.items() if gap < 1e-12}
    assert fine == {"self-attention", "one number a token"} and len(gaps) == 8


ONE_ORDER = [case for case in GAP.cases if "one order of 120" in case.name + case.shows]


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
@pytest.mark.parametrize("case", ONE_ORDER, ids=lambda case: case.name)
def test_where_one_order_shows_the_gap_no_other_one_does(case: Case, seed: int) -> None:
    function, x = case.build(seed).values()
    y = function(x)
    gaps = [np.abs(function(x[list(p)]) - y[list(p)]).max() for p in permutations(range(len(x)))]
    assert sum(gap > 1e-12 for gap in gaps) == 1
    assert len(gaps) == 120 and len(ONE_ORDER) == 5


def at_random(count: int, seed: int | None):  # type: ignore[no-untyped-def]
    """What students write first: a few orders drawn at random, with a seed or without one."""
    fresh = np.random.default_rng(seed)

    def equivariance_gap(function, x):  # type: ignore[no-untyped-def]
        rng = fresh if seed is None else np.random.default_rng(seed)
        orders = [rng.permutation(len(x)) for _ in range(count)]
        return max(np.abs(function(x[p]) - function(x)[p]).max() for p in orders)

    return equivariance_gap


@pytest.mark.parametrize("count", [1, 5, 20, 50])
def test_orders_drawn_at_random_are_called_so_and_never_get_full_points(count: int) -> None:
    named = 0
    for seed in range(20):
        report = check(GAP.id, at_random(count, seed))
        named += "orders drawn at random" in " ".join(str(report).split())
        assert not report.passed, seed
    # a draw may hit upon the one order of a case, and then looks like another mistake
    assert named >= {1: 18, 5: 14, 20: 8, 50: 3}[count], named


@pytest.mark.parametrize("verdict", [lambda gap: gap < 1e-6, lambda gap: gap > 1e-6])
def test_who_answers_yes_or_no_is_asked_for_a_size(verdict) -> None:  # type: ignore[no-untyped-def]
    report = check(GAP.id, lambda f, x: bool(verdict(np.abs(f(x[::-1]) - f(x)[::-1]).max())))
    assert "a size is wanted" in " ".join(str(report).split())


def test_an_answer_that_is_different_at_each_call_is_called_a_draw_too() -> None:
    report = " ".join(str(check(GAP.id, at_random(1, None))).split())
    assert "orders drawn at random" in report and "at each call" in report


# -- costs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", FLOPS.cases[:5], ids=lambda case: case.name)
def test_the_flops_are_those_that_pytorch_counts(case: Case) -> None:
    n, d = case.build().values()
    x = torch.zeros(n, d)
    attention = count_flops(attention_scores.plain_self_attention, x)
    w, h = torch.zeros(d, d), torch.zeros(1, d)
    step = count_flops(lambda: torch.tanh(h @ w + h @ w))
    assert ch02.layer_flops(n, d) == (attention, n * step)


@pytest.mark.parametrize("projections", range(6))
@pytest.mark.parametrize("gates", range(1, 5))
@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_at_the_crossover_attention_needs_more_and_before_it_does_not(
    d: int, gates: int, projections: int
) -> None:
    def more(n: int) -> bool:
        attention, step = ch02.layer_flops(n, d)
        return attention + projections * 2 * n * d * d > gates * step

    n = ch02.crossover(d, gates, projections)
    assert more(n)
    assert not any(more(k) for k in range(1, n))


def test_whole_numbers_are_reported_as_whole_numbers() -> None:
    text = str(check(FLOPS.id, lambda n, d: (n * n * d, n * d * d)))
    assert "yours  18\n" in text
    assert "right  72\n" in text


def test_the_shortest_chain_is_never_longer_than_the_longest() -> None:
    for case in PATH.cases:
        steps, path = ch02.steps_and_path(**case.build())
        assert path == -1 or 1 <= path <= steps


# -- the bug ---------------------------------------------------------------------------------------


def test_the_broken_program_is_right_only_where_nothing_moves() -> None:
    hidden = [
        equal(
            outcome(ch02.gather, case, OPEN_SEED),
            outcome(ch02.gather_broken, case, OPEN_SEED),
            1e-9,
        )
        for case in ORDER.cases
    ]
    assert hidden == [True] + [False] * (len(ORDER.cases) - 1)


def test_the_tester_finds_the_broken_program_and_clears_the_right_one() -> None:
    x = np.array([[0.0], [1.0], [3.0]])
    assert ch02.equivariance_gap(lambda x: ch02.gather(x, 3), x) < 1e-12
    assert ch02.equivariance_gap(lambda x: ch02.gather_broken(x.copy(), 3), x) > 0.01


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = manuscript("02"), answers("02")
    _, weights = solved.self_attention(np.eye(2))
    assert "makes {:.3f} and {:.3f} of it".format(*weights[0]) in text
    attention, recurrence = solved.layer_flops(3, 2)
    assert f"each: {attention}." in text
    assert f"three steps make {recurrence}." in text
    for n in (3, 4):
        attention, recurrence = solved.layer_flops(n, 6)
        assert str(attention + 2 * n * 6 * 6) in text
        assert str(recurrence) in text
    two = np.array([[0.0], [2.0]])
    for rounds in (1, 2):
        assert "{:.3f}".format(*solved.gather(two, rounds)[0]) in text
        assert "{:.3f}".format(*solved.gather(two, rounds)[1]) in text
