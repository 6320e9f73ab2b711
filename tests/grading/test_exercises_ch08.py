"""What only chapter 08's exercises promise."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check
from course_lib.grading.exercises import ch08_rotary_position_embedding as ch08
from course_lib.grading.model import OPEN_SEED, Case
from course_lib.reference import rotary
from tests.grading.course import answers, equal, manuscript, manuscript_cells, outcome

PAIRS, HALVES, CONVERT, SCORES, STRETCH, CACHE, BUG = ch08.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


# -- against the library ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", STRETCH.cases, ids=lambda case: case.name)
def test_stretched_frequencies_are_those_of_the_library(case: Case) -> None:
    inputs = case.build()
    d, factor, base = inputs["d"], inputs["factor"], inputs.get("base", 10000.0)
    if inputs["kind"] == "ntk":
        expected = rotary.ntk_frequencies(d, factor, base)
    else:
        expected = rotary.linear_frequencies(rotary.rotary_frequencies(d, base), factor)
    np.testing.assert_allclose(ch08.scaled_frequencies(**inputs), expected)


@pytest.mark.parametrize("case", SCORES.cases, ids=lambda case: case.name)
def test_scores_by_distance_are_those_of_turned_vectors_wherever_they_stand(case: Case) -> None:
    q, k, frequencies, offsets = case.build().values()
    found = ch08.relative_scores(q, k, frequencies, offsets)
    for at in (0, 3, 50):
        for m, offset in enumerate(offsets):
            turned = [
                rotary.rotate_interleaved(x[..., None, :], np.array([where]), frequencies)
                for x, where in ((q, at), (k, at + offset))
            ]
            scores = (turned[0] * turned[1]).sum(axis=(-2, -1))
            np.testing.assert_allclose(found[..., m], scores, atol=1e-12)


@pytest.mark.parametrize("case", CONVERT.cases, ids=lambda case: case.name)
def test_converted_weights_give_the_same_scores_in_the_other_layout(case: Case) -> None:
    w, n_heads = case.build().values()
    w = np.atleast_2d(w)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, w.shape[-2]))
    other = rng.normal(size=w.shape)
    theta = rotary.rotary_frequencies(w.shape[-1] // n_heads)

    def scores(w_q: Any, w_k: Any, turn: Any) -> Any:
        heads = [
            np.moveaxis((x @ each).reshape(*each.shape[:-2], 4, n_heads, -1), -3, -2)
            for each in (w_q, w_k)
        ]
        q, k = (turn(each, np.arange(4), theta) for each in heads)
        return q @ k.swapaxes(-2, -1)

    convert = ch08.to_half_split
    np.testing.assert_allclose(
        scores(convert(w, n_heads), convert(other, n_heads), rotary.rotate_half_split),
        scores(w, other, rotary.rotate_interleaved),
        atol=1e-8,
    )


# -- the cases -------------------------------------------------------------------------------------


def test_a_text_in_chunks_has_the_weights_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 6, 4))
    theta = np.array([1.0, 0.3])
    whole, keys = ch08.extend_cache(q, k, np.zeros((0, 4)), theta)
    cache, rows = np.zeros((0, 4)), []
    for start, end in pairwise([0, 3, 4, 6]):
        weights, cache = ch08.extend_cache(q[start:end], k[start:end], cache, theta)
        rows.append(np.pad(weights, ((0, 0), (0, 6 - end))))
    np.testing.assert_allclose(np.concatenate(rows), whole, atol=1e-12)
    np.testing.assert_allclose(cache, keys, atol=1e-12)


def test_positions_show_nothing_with_an_empty_cache_and_do_after_a_full_one() -> None:
    (restart,) = [m for m in CACHE.misconceptions if m.name == "positions start again"]
    hidden = [
        case.name
        for case in CACHE.cases
        if equal(
            outcome(restart.wrong, case, OPEN_SEED), outcome(CACHE.reference, case, OPEN_SEED), 1e-9
        )
    ]
    assert hidden == ["3 tokens, an empty cache"]


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
def test_the_broken_program_is_right_at_position_0_and_nowhere_else(seed: int) -> None:
    hidden = [
        equal(
            outcome(ch08.rotary_attention, case, seed),
            outcome(ch08.rotary_attention_broken, case, seed),
            1e-9,
        )
        for case in BUG.cases
    ]
    assert hidden == [True] + [False] * (len(BUG.cases) - 1)


def test_each_fault_of_the_program_can_be_the_last_one() -> None:
    names = [m.name for m in BUG.misconceptions[:7]]
    assert names == [
        "the program as it was",
        "left: stale, values",
        "left: stale, touched",
        "left: values, touched",
        "left: stale",
        "left: values",
        "left: touched",
    ]
    for mistake in BUG.misconceptions[1:7]:
        text = words(check(BUG.id, mistake.wrong))
        assert ("views of one array" in text) is ("stale" in mistake.name)
        assert ("values are turned too" in text) is ("values" in mistake.name)
        assert ("second call turns them again" in text) is ("touched" in mistake.name)


# -- what students write ---------------------------------------------------------------------------


def rotated_half(x, positions, frequencies):  # type: ignore[no-untyped-def]
    """The published code of Llama, in the exercise that asks for the paper's pairs."""
    import torch

    p = len(frequencies)
    angles = (positions[..., None] * frequencies).repeat(*[1] * positions.ndim, 2)
    half = torch.cat([-x[..., p : 2 * p], x[..., :p]], dim=-1)
    turned = x[..., : 2 * p] * angles.cos() + half * angles.sin()
    return torch.cat([turned, x[..., 2 * p :]], dim=-1)


def test_the_code_of_llama_is_a_valid_variant_of_the_papers_and_right_in_its_own_exercise() -> None:
    text = words(check(PAIRS.id, rotated_half, backend="torch"))
    assert "A valid variant: this exercise uses interleaved pairs" in text
    assert check(HALVES.id, rotated_half, backend="torch").passed


def in_views(x, positions, frequencies):  # type: ignore[no-untyped-def]
    angles = positions[..., None] * frequencies
    x = x.copy()
    even, odd = x[..., 0 : 2 * len(frequencies) : 2], x[..., 1 : 2 * len(frequencies) : 2]
    even[...] = even * np.cos(angles) - odd * np.sin(angles)
    odd[...] = even * np.sin(angles) + odd * np.cos(angles)
    return x


def test_writing_into_views_is_recognised() -> None:
    text = words(check(PAIRS.id, in_views))
    assert "computed from a first member that has been turned already" in text


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = re.sub(r"-(?=\d)", "−", manuscript("08")), answers("08")
    x, theta = np.arange(1.0, 5.0)[None], np.array([np.pi / 2, np.pi])
    turned = solved.rotate_half_split(x, np.array([1]), theta)[0].round(6)
    assert "$(" + ", ".join(f"{a:.0f}" for a in turned).replace("-", "−") + ")$" in text
    order = solved.to_half_split(np.arange(6.0), 1)
    assert f"becomes {', '.join(f'{a:.0f}' for a in order)}." in text
    linear = solved.scaled_frequencies(4, 4.0, "linear", base=100.0)
    ntk = solved.scaled_frequencies(4, 4.0, "ntk", base=100.0)
    assert "makes {:g} and {:g} of them".format(*linear.round(6)) in text
    assert "makes {:.0f} and {:g}.".format(*ntk.round(6)) in text
    east = np.array([[1.0, 0.0]])
    weights, _ = solved.extend_cache(east, east, east, np.array([np.pi / 2]))
    assert "weights {:.3f} and {:.3f}".format(*weights[0]) in text
    assert "$({1:.3f}, {0:.3f})$ and $({0:.3f}, {1:.3f})$".format(*weights[0]) in text


def test_the_symptom_on_the_page_is_one() -> None:
    (source,) = [s for m, s in manuscript_cells("08") if m.get("grade_id") == "broken_rotary"]
    namespace: dict[str, Any] = {"np": np, "print": lambda *args: None}
    exec(source, namespace)
    q, k, v, theta = (namespace[name] for name in ("q", "k", "v", "theta"))
    broken, right = (
        [
            function(q.copy(), k.copy(), v.copy(), np.arange(3) + shift, theta)[1][0]
            for shift in (0, 4)
        ]
        for function in (namespace["rotary_attention_broken"], ch08.rotary_attention)
    )
    assert np.abs(broken[0] - broken[1]).max() > 0.05
    np.testing.assert_allclose(right[0], right[1], atol=1e-12)
