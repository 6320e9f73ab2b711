"""What only chapter 04's exercises promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from course_lib.grading import check
from course_lib.grading.exercises import ch04_embeddings_and_positions as ch04
from course_lib.grading.model import OPEN_SEED, Case, Exercise
from course_lib.reference import embeddings, positions
from tests.grading.course import answers, equal, manuscript, outcome

EMBED, GRADIENT, WAVES, TURN, LOGITS, SAVED, STREAM = ch04.EXERCISES


@pytest.fixture(autouse=True)
def _no_progress_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")


def cases(exercise: Exercise):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("case", exercise.cases, ids=lambda case: case.name)


# -- the exercises and the library say the same ----------------------------------------------------


@cases(EMBED)
def test_an_embedding_is_the_librarys_times_the_root_of_the_width(case: Case) -> None:
    ids, table = case.build().values()
    scaled = np.sqrt(table.shape[1]) * embeddings.embedding(ids, table)
    np.testing.assert_allclose(ch04.embed(ids, table), scaled, rtol=1e-12)


@cases(GRADIENT)
def test_the_gradient_is_the_librarys_and_that_of_autograd(case: Case) -> None:
    ids, d_output, n_rows = case.build().values()
    d = d_output.shape[-1]
    ours = ch04.embedding_gradient(ids, d_output, n_rows)
    theirs = embeddings.embedding_backward(ids, np.sqrt(d) * d_output, n_rows)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    table = torch.zeros(n_rows, d, dtype=torch.float64, requires_grad=True)
    (d**0.5 * table[torch.from_numpy(ids)] * torch.from_numpy(d_output)).sum().backward()
    np.testing.assert_allclose(ours, table.grad, rtol=1e-12)


@cases(WAVES)
def test_the_waves_are_the_librarys(case: Case) -> None:
    given = case.build()
    ours = ch04.sinusoidal_positions(**given)
    np.testing.assert_allclose(ours, positions.sinusoidal_positions(**given), atol=1e-12)


@cases(TURN)
def test_the_rotation_is_the_librarys_and_shifts_positions(case: Case) -> None:
    given = case.build()
    ours = ch04.shift_rotation(**given)
    np.testing.assert_allclose(ours, positions.shift_rotation(**given), atol=1e-12)
    k = given.pop("k")
    p = np.arange(max(0, -k), max(0, -k) + 20)
    waves = ch04.sinusoidal_positions(int(p[-1] + abs(k)) + 1, **given)
    np.testing.assert_allclose(waves[p] @ ours, waves[p + k], atol=1e-9)


@cases(LOGITS)
def test_tied_logits_are_the_librarys(case: Case) -> None:
    given = case.build()
    ours = ch04.tied_logits(**given)
    np.testing.assert_allclose(ours, embeddings.tied_logits(**given), rtol=1e-12)


@pytest.mark.parametrize(
    ("exercise", "function"),
    [
        (GRADIENT, embeddings.embedding_backward),
        (WAVES, positions.sinusoidal_positions),
        (TURN, positions.shift_rotation),
        (LOGITS, embeddings.tied_logits),
    ],
    ids=lambda x: getattr(x, "id", ""),
)
def test_the_librarys_function_is_no_answer(exercise: Exercise, function) -> None:  # type: ignore[no-untyped-def]
    report = check(exercise.id, function)
    assert report.points == 0
    assert "the course's own function" in str(report)


# -- what students do ------------------------------------------------------------------------------


def test_adding_to_an_index_is_called_by_its_name() -> None:
    def embedding_gradient(ids, d_output, n_rows):  # type: ignore[no-untyped-def]
        d_table = np.zeros((n_rows, d_output.shape[-1]))
        d_table[ids] += np.sqrt(d_output.shape[-1]) * d_output
        return d_table

    assert "reads all rows, adds, and writes them back" in " ".join(
        str(check(GRADIENT.id, embedding_gradient)).split()
    )


def test_without_a_repeated_token_assigning_looks_right() -> None:
    mistake = next(m for m in GRADIENT.misconceptions if m.name == "the last place wins")
    survives = [
        equal(outcome(mistake.wrong, c, OPEN_SEED), outcome(GRADIENT.reference, c, OPEN_SEED), 1e-9)
        for c in GRADIENT.cases
    ]
    assert survives == [True, True, False, False, False]


def test_width_2_hides_every_wrong_exponent_and_width_8_none() -> None:
    at_2, at_8 = (next(c for c in WAVES.cases if f"width {d}" in c.name) for d in (2, 8))
    for name in ("exponent i/d", "exponent 4i/d", "sines, then cosines"):
        mistake = next(m for m in WAVES.misconceptions if m.name == name)
        for case, hidden in ((at_2, True), (at_8, False)):
            right = outcome(WAVES.reference, case, OPEN_SEED)
            assert equal(outcome(mistake.wrong, case, OPEN_SEED), right, 1e-9) is hidden


def test_the_broken_program_is_never_right_since_it_harms_the_callers_table() -> None:
    for case in STREAM.cases:
        parts, touched = outcome(ch04.encode_broken, case, OPEN_SEED)
        assert touched
        same = np.allclose(parts[0], outcome(ch04.encode, case, OPEN_SEED)[0][0])
        assert same is (case.name in {"one token at position 0", "3 tokens, width 2"})


def test_pieces_put_end_to_end_are_the_whole() -> None:
    rng = np.random.default_rng(0)
    ids, table = rng.integers(0, 5, (2, 7)), rng.normal(size=(5, 6))
    pieces = [ch04.encode(ids[:, a:b], table, a) for a, b in ((0, 3), (3, 4), (4, 7))]
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), ch04.encode(ids, table), rtol=1e-12)


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = manuscript("04"), answers("04")
    row = np.array([[0.5, 0.0, -1.0, 0.25]])
    np.testing.assert_array_equal(solved.embed(np.array([0]), row)[0], [1, 0, -2, 0.5])
    assert "= (1, 0, -2, 0.5)$" in text
    waves = solved.sinusoidal_positions(3, 4)
    assert "({:.3f}, {:.3f}, {:.3f}, {:.3f})$".format(*waves[1]) in text
    assert "({:.3f}, {:.3f}) = (\\sin 1".format(*waves[1]) in text
    assert "({:.3f}, {:.3f}) = (\\sin 2".format(*waves[2]) in text
    (c, minus), (s, _) = solved.shift_rotation(1, 2)
    assert f"{c:.3f} & {minus:.3f} \\\\ {s:.3f} & {c:.3f}" in text
    row = solved.encode(np.array([0]), np.array([[1.0, 0.0, 0.0, 1.0]]), start=1)[0]
    assert "= ({:.3f}, {:.3f}, {:.3f}, {:.3f})$".format(*row) in text
    saved, share = solved.saved_by_tying(5, 2, 30)
    assert (saved, share) == (10, 1 / 5)
    assert "Tying saves 10, a fifth." in text
