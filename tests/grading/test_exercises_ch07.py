"""What only chapter 07's exercises promise."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check
from course_lib.grading.exercises import ch07_feed_forward_and_normalization as ch07
from course_lib.grading.exercises import norms
from course_lib.grading.model import OPEN_SEED, Case
from course_lib.reference import normalization, residual
from tests.grading.course import answers, manuscript

FFN, LAYER, BACKWARD, RMS, AXIS, STACK, LEAK = ch07.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


# -- against the library ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", AXIS.cases, ids=lambda case: case.name)
def test_the_three_norms_are_those_of_the_library(case: Case) -> None:
    inputs = case.build()
    x, eps = inputs["x"], inputs.get("eps", 1e-5)
    norm = getattr(normalization, f"{inputs['kind']}_norm")
    expected = norm(x, np.ones(x.shape[-1]), np.zeros(x.shape[-1]), eps)
    np.testing.assert_allclose(norms.normalize(**inputs), expected, atol=1e-12)


@pytest.mark.parametrize("case", STACK.cases, ids=lambda case: case.name)
def test_a_stack_is_made_of_the_librarys_blocks(case: Case) -> None:
    inputs = case.build()
    eps = inputs.get("eps", 1e-5)
    block = residual.pre_norm if inputs["norm_first"] else residual.post_norm
    y = inputs["x"]
    for f, gamma, beta in zip(
        inputs["sublayers"], inputs["gammas"], inputs["betas"], strict=not inputs["norm_first"]
    ):
        y = block(y, f, gamma, beta, eps)
    if inputs["norm_first"]:
        y = normalization.layer_norm(y, inputs["gammas"][-1], inputs["betas"][-1], eps)
    np.testing.assert_allclose(ch07.residual_stack(**inputs), y, atol=1e-12)


# -- the cases -------------------------------------------------------------------------------------


def test_leaks_are_0_where_no_token_sees_a_later_one_and_nowhere_else() -> None:
    found = {case.name: ch07.leak(**case.build()) for case in LEAK.cases}
    tight = {name for name, leaks in found.items() if not leaks.any()}
    assert tight == {
        "layer norm, 4 tokens of width 3",
        "tanh of the sum so far, 5 tokens",
        "one norm over the sequence, a single token",
    }
    assert all(leaks[-1] == 0.0 for leaks in found.values())
    # in the others no token but the last is left out
    assert all((leaks[:-1] > 0.01).all() for name, leaks in found.items() if name not in tight)


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
def test_changes_of_all_later_tokens_at_once_cancel_where_the_case_says_so(seed: int) -> None:
    (case,) = [case for case in LEAK.cases if "cancel" in case.name]
    function, x, other = case.build(seed).values()
    together = np.concatenate([x[:1], other[1:]])
    assert np.abs(function(together)[0] - function(x)[0]).max() < 1e-12
    assert ch07.leak(function, x, other)[0] > 0.1


def test_both_forms_of_gelu_differ_by_more_than_the_check_forgives_and_by_less_than_it_says() -> (
    None
):
    (case,) = [case for case in FFN.cases if case.name == "GELU from −4 to 4"]
    inputs = case.build()
    exact = FFN.reference(**inputs)
    tanh, quick = (
        next(m for m in FFN.misconceptions if m.name == name)
        for name in ("the tanh form of GELU", "GELU from a sigmoid")
    )
    x = np.linspace(-8.0, 8.0, 4001)[:, None]
    for mistake, least, most in ((tanh, 1e-4, 5e-4), (quick, 5e-3, 0.021)):
        off = np.abs(mistake.wrong(**{**inputs, "x": x}) - FFN.reference(**{**inputs, "x": x}))
        assert off.max() <= most
        assert np.abs(mistake.wrong(**inputs) - exact).max() > least


def test_gradients_of_the_cases_are_those_of_finite_differences() -> None:
    for case in BACKWARD.cases:
        x, gamma, d_output, *eps = case.build().values()

        def loss(x: Any, gamma: Any, beta: Any, d_output: Any = d_output, eps: Any = eps) -> float:
            return float((normalization.layer_norm(x, gamma, beta, *eps) * d_output).sum())

        inputs = [x, gamma, np.zeros_like(gamma)]
        for part, gradient in enumerate(BACKWARD.reference(x, gamma, d_output, *eps)):
            for place in np.ndindex(gradient.shape):
                values = []
                for step in (1e-5, -1e-5):
                    moved = [a.copy() for a in inputs]
                    moved[part][place] += step
                    values.append(loss(*moved))
                slope = (values[0] - values[1]) / 2e-5
                assert abs(slope - gradient[place]) < 1e-6, (case.name, part, place)


# -- what students write ---------------------------------------------------------------------------


def test_the_report_names_the_sublayers_and_the_function() -> None:
    text = words(check(STACK.id, lambda x, *rest: x * 0.0))
    assert "sublayers = [each token's numbers in reverse, plus 1]" in text
    text = words(check(LEAK.id, lambda function, x, other: np.ones(len(x))))
    assert "function = layer norm of each token" in text
    assert " at 0x" not in text


def annotated(x, gamma, beta, eps=1e-5):  # type: ignore[no-untyped-def]
    """Layer norm as a well-known tutorial has it, in torch: std divides by d − 1, ε outside."""
    return gamma * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + beta


def test_torchs_std_is_recognised() -> None:
    text = words(check(LAYER.id, annotated, backend="torch"))
    assert "divides by d − 1, as `torch.std` does" in text


def by_differences(x, gamma, d_output, eps=1e-5):  # type: ignore[no-untyped-def]
    """Gradients from small steps: right to nine digits or so, and never exactly 0."""

    def loss(*inputs):  # type: ignore[no-untyped-def]
        x, gamma, beta = inputs
        centred = x - x.mean(-1, keepdims=True)
        root = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return ((gamma * centred / root + beta) * d_output).sum()

    inputs = [x, gamma, np.zeros_like(gamma)]
    gradients = [np.zeros_like(a) for a in inputs]
    for part, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            up, down = ([a.copy() for a in inputs] for _ in range(2))
            up[part][place] += 1e-5
            down[part][place] -= 1e-5
            gradient[place] = (loss(*up) - loss(*down)) / 2e-5
    return tuple(gradients)


def test_gradients_from_small_steps_are_near_enough() -> None:
    assert check(BACKWARD.id, by_differences).passed


def test_an_epsilon_outside_the_root_costs_no_more_than_the_cases_where_it_shows() -> None:
    for exercise in (LAYER, RMS):
        (mistake,) = [m for m in exercise.misconceptions if m.name == "ε outside the root"]
        report = check(exercise.id, mistake.wrong)
        assert exercise.points / 2 < report.points < exercise.points


@pytest.mark.parametrize(
    "name", ["the norm always last", "the norm always first", "the sublayer's output normalised"]
)
def test_the_other_places_for_a_norm_are_called_valid_variants(name: str) -> None:
    (mistake,) = [m for m in STACK.misconceptions if m.name == name]
    assert "A valid variant" in str(check(STACK.id, mistake.wrong))


# -- the text --------------------------------------------------------------------------------------


def row(values: Any, digits: int = 3) -> str:
    return "(" + ", ".join(f"{v:.{digits}f}".replace("-", "−") for v in np.ravel(values)) + ")"


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = re.sub(r"-(?=\d)", "−", manuscript("07")), answers("07")
    h = solved.layer_norm(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4), np.zeros(4))
    assert row(h)[1:-1] in text
    token = np.array([3.0, 4.0])
    assert row(solved.rms_norm(token, np.ones(2))) in text
    assert f"{(token**2).mean():.1f}, whose root is {np.sqrt((token**2).mean()):.3f}" in text

    x, ones = np.array([[1.0, 3.0]]), np.ones(2)
    dx, dgamma, _ = solved.layer_norm_backward(x, ones, np.array([[1.0, 0.0]]), eps=1.0)
    assert f"comes back as ${row(dx)}$" in text
    assert f"γ gets $({dgamma[0]:.3f}, 0)$".replace("-", "−") in text
    up = solved.layer_norm(x + np.array([[0.001, 0.0]]), ones, 0 * ones, 1.0)
    grown = (up - solved.layer_norm(x, ones, 0 * ones, 1.0))[0, 0]
    assert f"grows by {grown:.5f}" in text

    x = np.array([[[1.0, 3.0], [5.0, 7.0]]])
    first, second = solved.normalize(x, "sequence")[0]
    assert f"${row(first)}$ and ${row(second)}$" in text

    token = np.array([[1.0, 2.0, 6.0]])
    normed = solved.layer_norm(token, np.ones(3), np.zeros(3))
    corrected = token + np.maximum(normed, 0.0)
    assert f"makes ${row(normed)}$ of it" in text
    assert f"the sum is $(1, 2, {corrected[0, 2]:.3f})$" in text.lower()
    assert f"makes ${row(solved.layer_norm(corrected, np.ones(3), np.zeros(3)))}$ of it" in text
