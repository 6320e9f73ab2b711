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


def said(exercise: Exercise, function) -> str:  # type: ignore[no-untyped-def]
    report = check(exercise.id, function)
    assert not report.passed
    return " ".join(str(report).split())


def test_a_loop_that_takes_the_width_from_axis_1_isnt_called_one_hot() -> None:
    def embedding_gradient(ids, d_output, n_rows):  # type: ignore[no-untyped-def]
        d_table = np.zeros((n_rows, d_output.shape[1]))
        for i, g in zip(ids, d_output, strict=True):
            d_table[i] += g * np.sqrt(d_output.shape[1])
        return d_table

    feedback = said(GRADIENT, embedding_gradient)
    assert "`shape[1]` is the length then" in feedback
    assert "one-hot" not in feedback


def test_the_width_itself_isnt_taken_for_the_root_of_the_rows() -> None:
    def embedding_gradient(ids, d_output, n_rows):  # type: ignore[no-untyped-def]
        d_table = np.zeros((n_rows, d_output.shape[-1]))
        np.add.at(d_table, ids, d_output.shape[-1] * d_output)
        return d_table

    assert "multiplied by the width itself" in said(GRADIENT, embedding_gradient)


def test_tensors_of_another_dtype_are_spoken_of() -> None:
    def embedding_gradient(ids, d_output, n_rows):  # type: ignore[no-untyped-def]
        d = d_output.shape[-1]
        d_table = torch.zeros(n_rows, d)
        return d_table.index_add(0, ids.reshape(-1), d**0.5 * d_output.reshape(-1, d))

    assert "your tensors are float64" in said(GRADIENT, embedding_gradient)


def test_a_table_that_is_put_back_has_only_this_fault() -> None:
    def encode(ids, table, start=0):  # type: ignore[no-untyped-def]
        n, d = ids.shape[-1], table.shape[-1]
        places = start + np.arange(n)
        angles = places[:, None] / 10000 ** (np.arange(d) // 2 * 2 / d)
        waves = np.where(np.arange(d) % 2 == 0, np.sin(angles), np.cos(angles))
        table *= np.sqrt(d)
        vectors = table[ids] + waves
        table /= np.sqrt(d)
        return vectors

    feedback = said(STREAM, encode)
    assert "you divide the caller's table by √d again" in feedback
    assert "every piece begins at position 0" not in feedback


def test_angles_in_float32_are_good_enough() -> None:
    def sinusoidal_positions(n, d, base=10000.0):  # type: ignore[no-untyped-def]
        speeds = np.float32(base) ** (-np.arange(0, d, 2, dtype=np.float32) / np.float32(d))
        angles = np.arange(n, dtype=np.float32)[:, None] * speeds
        waves = np.zeros((n, d))
        waves[:, 0::2], waves[:, 1::2] = np.sin(angles), np.cos(angles)
        return waves

    assert check(WAVES.id, sinusoidal_positions).passed


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
