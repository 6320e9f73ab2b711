"""What only chapter 01's exercises promise."""

from __future__ import annotations

from math import tanh

import numpy as np
import pytest

from course_lib.grading.exercises import ch01_attention_in_rnns as ch01
from course_lib.grading.model import OPEN_SEED
from tests.grading.course import answers, equal, manuscript, outcome

EXERCISES = {exercise.id: exercise for exercise in ch01.EXERCISES}


def test_the_first_program_is_right_for_one_sentence_without_padding_and_for_nothing_else() -> None:
    for place, case in enumerate(EXERCISES["01.bug_layout"].cases):
        right = outcome(ch01.attend_step, case, OPEN_SEED)
        assert equal(outcome(ch01.attend_step_broken, case, OPEN_SEED), right, 1e-9) is (place == 0)


def test_the_second_program_is_wrong_in_every_case() -> None:
    for case in EXERCISES["01.bug_encoder"].cases:
        right = outcome(ch01.encode, case, OPEN_SEED)
        assert not equal(outcome(ch01.encode_broken, case, OPEN_SEED), right, 1e-9), case.name


@pytest.mark.parametrize("case", EXERCISES["01.bug_encoder"].cases[:-1], ids=lambda c: c.name)
def test_the_encoder_returns_what_torchs_layer_makes_of_a_packed_batch(case: object) -> None:
    """The last case is left out: torch packs no sentence without words."""
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    given = case.build(OPEN_SEED)  # type: ignore[attr-defined]
    layer = torch.nn.GRU(given["xs"].shape[-1], given["w_h"].shape[-1], batch_first=True).double()
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    layer.load_state_dict(
        {
            name: torch.from_numpy(given[key])
            for name, key in zip(names, ("w_x", "w_h", "b_x", "b_h"), strict=True)
        }
    )
    packed = pack_padded_sequence(
        torch.from_numpy(given["xs"]), given["lengths"], batch_first=True, enforce_sorted=False
    )
    with torch.no_grad():
        out, last = layer(packed)
    states, _ = pad_packed_sequence(out, batch_first=True, total_length=given["xs"].shape[1])
    ours = ch01.encode(**given)
    np.testing.assert_allclose(ours[0], states.numpy(), atol=1e-12)
    np.testing.assert_allclose(ours[1], last[0].numpy(), atol=1e-12)


def test_a_padded_batch_equals_its_sentences_one_by_one() -> None:
    given = EXERCISES["01.bug_encoder"].cases[3].build(OPEN_SEED)
    xs, lengths = given.pop("xs"), given.pop("lengths")
    _, together = ch01.encode(xs, lengths, **given)
    for i, length in enumerate(lengths):
        _, alone = ch01.encode(xs[i : i + 1, :length], lengths[i : i + 1], **given)
        np.testing.assert_allclose(together[i], alone[0], atol=1e-12)


def test_the_alignment_error_lies_between_0_and_1_whatever_the_seed() -> None:
    for case in EXERCISES["01.alignment_error"].cases:
        for seed in range(20):
            assert 0.0 <= ch01.alignment_error(**case.build(seed)) <= 1.0


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text = manuscript("01")
    solved = answers("01")
    assert rf"$\tanh 1 - \tanh(-1) = {2 * tanh(1):.3f}$" in text
    assert rf"$\tanh 3 - \tanh 1 = {tanh(3) - tanh(1):.3f}$" in text
    assert rf"$\tanh(1 + \tfrac12) = {tanh(1.5):.3f}$" in text
    assert (
        rf"$\tfrac12 \cdot {tanh(1.5):.3f} + \tfrac12 \cdot 1 = {(tanh(1.5) + 1) / 2:.3f}$" in text
    )
    assert rf"$\tanh 1 = {tanh(1):.3f}$" in text
    assert rf"$\tfrac12 \cdot {tanh(1):.3f} + \tfrac12 \cdot 0 = {tanh(1) / 2:.3f}$" in text
    given = EXERCISES["01.alignment_error"].cases[0].build()
    assert rf"$1 - \frac{{3 + 3}}{{4 + 3}} = {solved.alignment_error(**given):.3f}$" in text
