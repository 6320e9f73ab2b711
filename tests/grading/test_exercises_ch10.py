"""What only chapter 10's exercises promise."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from course_lib.grading import check
from course_lib.grading.exercises import ch10_training as ch10
from course_lib.grading.exercises import optimizer_steps, smoothing, training_bugs
from course_lib.grading.model import OPEN_SEED, Case, Exercise
from course_lib.reference import optimization
from tests.grading.course import answers, equal, manuscript, manuscript_cells, outcome

SHIFT, LOSS, WARMUP, ADAM, CLIP, MATCH, GRADIENT, BUG = ch10.EXERCISES


@pytest.fixture(autouse=True)
def _no_progress_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")


def words(text: object) -> str:
    return " ".join(str(text).split())


def cases(exercise: Exercise):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("case", exercise.cases, ids=lambda case: case.name)


# -- against the library and torch -----------------------------------------------------------------


@cases(ADAM)
def test_a_step_of_adam_is_the_librarys(case: Case) -> None:
    ours = optimizer_steps.adam_step(**case.build())
    for a, b in zip(ours, optimization.adam_step(**case.build()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


@cases(CLIP)
def test_clipping_is_the_librarys(case: Case) -> None:
    d_weight, d_bias, max_norm = case.build().values()
    *ours, norm = optimizer_steps.clip_by_global_norm(d_weight, d_bias, max_norm)
    theirs, expected = optimization.clip_by_global_norm([d_weight, d_bias], max_norm)
    for a, b in zip([*ours, norm], [*theirs, expected], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@cases(MATCH)
def test_the_share_is_the_librarys_and_that_of_the_right_rows(case: Case) -> None:
    right, share = ch10.exact_match(**case.build())
    assert share == optimization.exact_match(**case.build())
    assert right.dtype == bool and right.mean() == share


@cases(GRADIENT)
def test_the_gradient_is_what_autograd_finds_of_the_librarys_loss(case: Case) -> None:
    from course_lib.blocks.optimization import label_smoothed_cross_entropy

    given = case.build()
    ours = smoothing.smoothing_gradient(**given)
    logits = torch.tensor(given.pop("logits"), requires_grad=True)
    targets = torch.tensor(given.pop("targets"))
    label_smoothed_cross_entropy(logits, targets, **given).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(ours, logits.grad.numpy(), atol=1e-12)


@cases(BUG)
def test_a_path_is_that_of_torchs_adam(case: Case) -> None:
    gradient, start, n_steps, lr, max_norm = case.build().values()
    theta = torch.nn.Parameter(torch.tensor(start))
    adam = torch.optim.Adam([theta], lr=lr)
    path = [start]
    for _ in range(n_steps):
        theta.grad = torch.tensor(gradient(theta.detach().numpy()))
        torch.nn.utils.clip_grad_norm_([theta], max_norm)
        adam.step()
        path.append(theta.detach().numpy().copy())
    np.testing.assert_allclose(training_bugs.train(**case.build()), np.array(path), atol=1e-5)


# -- the cases -------------------------------------------------------------------------------------


def test_at_the_floor_of_the_loss_nothing_is_left_to_learn() -> None:
    (case,) = [case for case in GRADIENT.cases if "nothing is left to learn" in case.shows]
    given = case.build()
    assert np.abs(smoothing.smoothing_gradient(**given)).max() < 0.002
    exact = {**given, "logits": np.log([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])}
    assert np.abs(smoothing.smoothing_gradient(**exact)).max() < 1e-15
    # the right token isn't certain there, and the loss isn't 0
    assert optimization.label_smoothed_cross_entropy(**given) > 0.6


def test_every_row_of_the_gradient_sums_to_0() -> None:
    for case in GRADIENT.cases:
        sums = smoothing.smoothing_gradient(**case.build()).sum(axis=-1)
        np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_some_gradients_are_clipped_and_some_are_not() -> None:
    larger = {
        case.name: optimizer_steps.clip_by_global_norm(**case.build())[2] > case.build()["max_norm"]
        for case in CLIP.cases
    }
    assert {name for name, clipped in larger.items() if not clipped} == {
        "small gradients, at most 10",
        "all numbers 0",
    }


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
def test_the_broken_program_is_right_in_its_first_step_and_with_none(seed: int) -> None:
    hidden = [
        case.name
        for case in BUG.cases
        if equal(
            outcome(training_bugs.train, case, seed),
            outcome(training_bugs.train_broken, case, seed),
            1e-9,
        )
    ]
    assert hidden == ["one step from a steep place", "no step"]


def test_each_fault_of_the_program_can_be_the_last_one() -> None:
    names = [m.name for m in BUG.misconceptions[:7]]
    assert names == [
        "the program as it was",
        "left: piled, fresh",
        "left: piled, rescaled",
        "left: fresh, rescaled",
        "left: piled",
        "left: fresh",
        "left: rescaled",
    ]
    for mistake in BUG.misconceptions[1:7]:
        text = words(check(BUG.id, mistake.wrong))
        assert ("all steps so far are added up" in text) is ("piled" in mistake.name)
        assert ("they remember nothing" in text) is ("fresh" in mistake.name)
        assert ("brought to the limit, small ones too" in text) is ("rescaled" in mistake.name)


# -- what students write ---------------------------------------------------------------------------


def test_the_report_names_the_gradient() -> None:
    text = words(check(BUG.id, lambda gradient, parameter, n_steps, *rest: np.zeros(3)))
    assert "gradient = twice the distance from 3" in text
    assert " at 0x" not in text


def noam(step, model_size, warmup):  # type: ignore[no-untyped-def]
    """The schedule as a well-known tutorial has it: for one step, and step 0 made step 1."""
    if step == 0:
        step = 1
    return model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5))


def test_a_schedule_for_one_step_is_told_what_many_steps_need() -> None:
    text = words(check(WARMUP.id, noam))
    assert "asks whether an array is true" in text
    assert "Which function of numpy compares two arrays number by number?" in text


def divergence(logits, targets, epsilon=0.1, ignore_index=-100):  # type: ignore[no-untyped-def]
    """The loss as that tutorial has it, but for its two special columns."""
    kept = targets != ignore_index
    x, ids, v = logits[kept], targets[kept], logits.shape[-1]
    log_p = x - x.max(-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    q = np.full_like(x, epsilon / v)
    q[np.arange(len(ids)), ids] += 1 - epsilon
    with np.errstate(all="ignore"):
        own = np.where(q > 0, q * np.log(q), 0.0)
    return (own - q * log_p).sum() / len(ids)


def test_the_divergence_is_a_valid_variant_of_the_cross_entropy() -> None:
    text = words(check(LOSS.id, divergence))
    assert "A valid variant: this exercise uses the cross-entropy" in text


@pytest.mark.parametrize(
    ("exercise", "name"),
    [
        (SHIFT, "the last token before padding dropped"),
        (LOSS, "ε shared among the others"),
        (WARMUP, "steps counted from 0"),
        (ADAM, "ε before the correction"),
        (CLIP, "the largest number for the norm"),
        (GRADIENT, "ε shared among the others"),
    ],
    ids=lambda x: x if isinstance(x, str) else x.id,
)
def test_other_conventions_are_called_valid_variants(exercise: Exercise, name: str) -> None:
    (mistake,) = [m for m in exercise.misconceptions if m.name == name]
    assert "A valid variant: this exercise uses" in words(check(exercise.id, mistake.wrong))


def by_torch(logits, targets, epsilon=0.1, ignore_index=-100):  # type: ignore[no-untyped-def]
    rows = logits.flatten(0, -2)
    return torch.nn.functional.cross_entropy(
        rows, targets.flatten(), ignore_index=ignore_index, label_smoothing=epsilon
    )


def test_torchs_own_loss_is_right() -> None:
    assert check(LOSS.id, by_torch, backend="torch").passed


def test_gradients_from_small_steps_are_near_enough() -> None:
    assert check(GRADIENT.id, smoothing._gradient_by_steps).passed


def as_floats(ids, bos):  # type: ignore[no-untyped-def]
    shifted = np.zeros(ids.shape)
    shifted[..., 0] = bos
    shifted[..., 1:] = ids[..., :-1]
    return shifted


def test_ids_must_stay_whole_numbers() -> None:
    text = words(check(SHIFT.id, as_floats))
    assert "has dtype float64; expected whole numbers" in text


def first_index(logits, targets, epsilon=0.1, ignore_index=-100):  # type: ignore[no-untyped-def]
    """The padding column of the tutorial's loss left at 0, which no misconception here has."""
    kept = targets != ignore_index
    q = np.full(logits.shape, epsilon / (logits.shape[-1] - 2))
    np.put_along_axis(q, np.where(kept, targets, 0)[..., None], 1 - epsilon, -1)
    q[..., 0] = 0.0
    log_p = logits - logits.max(-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    return -(q * log_p).sum(-1)[kept].mean()


def test_what_nobody_thought_of_gets_no_false_diagnosis() -> None:
    report = check(LOSS.id, first_index)
    assert not report.passed
    text = words(report)
    assert not any(words(m.hint) in text for m in LOSS.misconceptions)


# -- the text --------------------------------------------------------------------------------------


def row(values: Any, digits: int = 3) -> str:
    numbers = (f"{v + 0.0:.{digits}f}".rstrip("0").rstrip(".") for v in np.ravel(values).round(6))
    return "(" + ", ".join(numbers).replace("-", "−") + ")"


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = re.sub(r"-(?=\d)", "−", manuscript("10")), answers("10")

    shifted = solved.shift_right(np.array([[7, 5, 9, 2], [8, 2, 0, 0]]), 1)
    assert f"predicted from ${row(shifted[0])}$" in text
    assert f"${row(shifted[1])}$." in text

    p, q = np.array([[0.7, 0.2, 0.1]]), np.array([0.8, 0.1, 0.1])
    assert np.allclose(q, 0.7 * np.eye(3)[0] + 0.3 / 3)
    assert f"$-\\log p$ are ${row(-np.log(p))}$" in text
    loss = solved.label_smoothed_cross_entropy(np.log(p), np.array([0]), 0.3)
    assert abs(loss - (q * -np.log(p)).sum()) < 1e-12
    assert f"= {loss:.3f}$" in text
    gradient = solved.smoothing_gradient(np.log(p), np.array([0]), 0.3)
    assert f"Its gradient is ${row(gradient)}$" in text

    rates = solved.warmup_schedule(np.array([1, 2, 4, 16]), 16, 4)
    assert "the rates {:.3f}, {:.3f} and {:.3f}, and step 16".format(*rates[:3] - 1e-9) in text
    assert f"back at {rates[3] - 1e-9:.3f}" in text

    zero, one = np.zeros(1), np.ones(1)
    theta, m, v = solved.adam_step(one, 2 * one, zero, zero, 1, 0.1)
    assert f"$m = {m[0]:g}$ and $v = {v[0]:g}$, corrected {m[0] / 0.1:g} and {v[0] / 0.001:g}" in (
        text.replace("0.20", "0.2")
    )
    assert f"to {theta[0]:.1f}. The second gradient is −1" in text
    theta, m, v = solved.adam_step(theta, -one, m, v, 2, 0.1)
    m_hat, root = m[0] / (1 - 0.9**2), np.sqrt(v[0] / (1 - 0.999**2))
    assert f"$m = {m[0]:.2f}$, $v = {v[0]:.3f}$, $\\hat m = {m_hat:.3f}$" in text
    assert f"$\\sqrt{{\\hat v}} = {root:.3f}$, and $\\theta$ still falls, to {theta[0]:.3f}" in text

    path = solved.train(lambda x: 2 * (x - 3), np.array([4.0]), 4, 0.1, 1.0)
    assert "lead to {:.1f}, {:.1f}, {:.1f} and {:.1f}.".format(*path[1:, 0]) in text
    path = solved.train(lambda x: 2 * (x - 3), np.array([4.0]), 600, 0.1, 1.0)
    assert np.abs(path[200:] - 3.0).max() < 1e-3  # "after some 200 steps the parameter stays at 3"


def test_the_symptoms_on_the_page_are_symptoms() -> None:
    (source,) = [s for m, s in manuscript_cells("10") if m.get("grade_id") == "broken_training"]
    namespace: dict[str, Any] = {"np": np, "print": lambda *args: None}
    exec(source, namespace)
    broken, valley = namespace["train_broken"], namespace["valley"]
    steps = np.diff(broken(lambda x: np.array([5.0]), np.zeros(1), 6, 0.1, 1.0)[:, 0])
    assert (np.diff(np.abs(steps)) < -0.001).all()  # shorter and shorter
    right = np.diff(training_bugs.train(lambda x: np.array([5.0]), np.zeros(1), 6, 0.1, 1.0)[:, 0])
    np.testing.assert_allclose(right, -0.1, atol=1e-6)
    path = broken(valley, np.array([6.0]), 400, 0.1, 1.0)
    assert np.abs(path[-100:] - 3.0).max() > 1.0  # still going
    path = training_bugs.train(valley, np.array([6.0]), 400, 0.1, 1.0)
    assert np.abs(path[-100:] - 3.0).max() < 0.01
