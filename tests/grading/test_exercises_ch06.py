"""What only chapter 06's exercises promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from course_lib.accounting import count_flops
from course_lib.blocks import multi_head as blocks
from course_lib.grading import check
from course_lib.grading.exercises import ch06_multi_head_attention_and_masks as ch06
from course_lib.grading.exercises import multi_head_bugs as bugs
from course_lib.grading.model import OPEN_SEED, Case, Exercise
from course_lib.reference import attention, masks, multi_head
from tests.grading.course import answers, equal, manuscript, outcome

SPLIT, MERGE, MASKS, MULTI, CROSS, FLOPS, HEADS, MASK, CHUNK = ch06.EXERCISES


@pytest.fixture(autouse=True)
def _no_progress_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_LIB_PROGRESS", "off")


def cases(exercise: Exercise):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("case", exercise.cases, ids=lambda case: case.name)


def same(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


# -- the exercises and the library say the same ----------------------------------------------------


@cases(SPLIT)
def test_heads_are_split_and_merged_as_the_library_does(case: Case) -> None:
    x, n_heads = case.build().values()
    pieces = ch06.split_heads(x, n_heads)
    np.testing.assert_array_equal(pieces, multi_head.split_heads(x, n_heads))
    np.testing.assert_array_equal(ch06.merge_heads(pieces), x)
    np.testing.assert_array_equal(multi_head.merge_heads(pieces), x)


@cases(MASKS)
def test_the_masks_are_the_librarys(case: Case) -> None:
    lengths, n = case.build().values()
    causal, padding = attention.causal_mask(n), masks.padding_mask(lengths, n)
    both = masks.combine_masks(causal, padding)
    for ours, theirs in zip(ch06.attention_masks(lengths, n), (causal, padding, both), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == bool


@cases(MULTI)
def test_self_attention_is_the_librarys(case: Case) -> None:
    given = case.build()
    x = given.pop("x")
    same(ch06.multi_head_attention(x, **given), multi_head.multi_head_attention(x, x, **given))


@cases(CROSS)
def test_cross_attention_is_the_librarys_and_that_of_pytorch(case: Case) -> None:
    given = case.build()
    ours = ch06.cross_attention(**given)
    x_q, x_kv, lengths, *w, n_heads = given.values()
    mask = masks.padding_mask(lengths, x_kv.shape[1])
    output, weights = multi_head.multi_head_attention(x_q, x_kv, *w, n_heads, mask)
    same(ours, (output, weights.mean(axis=1)))

    module = torch.nn.MultiheadAttention(
        x_q.shape[-1], n_heads, bias=False, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.from_numpy(np.hstack(w[:3]).T))
        module.out_proj.weight.copy_(torch.from_numpy(w[3].T))
        hidden = torch.from_numpy(~mask[:, 0, 0])
        source = torch.from_numpy(x_kv)
        theirs = module(torch.from_numpy(x_q), source, source, key_padding_mask=hidden)
    same(ours, tuple(part.numpy() for part in theirs))


@pytest.mark.parametrize("case", FLOPS.cases[:4], ids=lambda case: case.name)
def test_the_flops_are_those_that_pytorch_counts(case: Case) -> None:
    n_q, n_k, d, n_heads = case.build().values()
    w = torch.zeros(d, d)
    counted = count_flops(
        blocks.multi_head_attention, torch.zeros(n_q, d), torch.zeros(n_k, d), w, w, w, w, n_heads
    )
    assert sum(ch06.attention_flops(n_q, n_k, d, n_heads)) == counted


@cases(HEADS)
def test_causal_heads_are_the_librarys(case: Case) -> None:
    x, w_qkv, w_o, n_heads = case.build().values()
    mask = attention.causal_mask(x.shape[-2])
    theirs = multi_head.multi_head_attention(x, x, *np.split(w_qkv, 3, axis=-1), w_o, n_heads, mask)
    np.testing.assert_allclose(bugs.causal_heads(x, w_qkv, w_o, n_heads), theirs[0], atol=1e-12)


@cases(MASK)
def test_masked_attention_is_the_librarys(case: Case) -> None:
    q, k, v, lengths = case.build().values()
    n = q.shape[-2]
    mask = masks.combine_masks(attention.causal_mask(n), masks.padding_mask(lengths, n))
    same(
        bugs.masked_attention(q, k, v, lengths),
        attention.scaled_dot_product_attention(q, k, v, mask),
    )


@pytest.mark.parametrize("window", [1, 2, 3, 10])
def test_a_text_in_chunks_is_the_whole_text(window: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 7, 4))
    whole, _ = bugs.chunk_attention(q, k, v, window)
    for a, b in ((0, 3), (3, 4), (4, 7)):
        piece, _ = bugs.chunk_attention(q[:, a:b], k[:, :b], v[:, :b], window)
        np.testing.assert_allclose(piece, whole[:, a:b], rtol=1e-12)


@pytest.mark.parametrize(
    ("exercise", "function"),
    [(SPLIT, multi_head.split_heads), (MERGE, multi_head.merge_heads)],
    ids=lambda x: getattr(x, "id", ""),
)
def test_the_librarys_function_is_no_answer(exercise: Exercise, function) -> None:  # type: ignore[no-untyped-def]
    report = check(exercise.id, function)
    assert report.points == 0
    assert "the course's own function" in str(report)


# -- what hides what -------------------------------------------------------------------------------


def hidden(exercise: Exercise, wrong) -> list[str]:  # type: ignore[no-untyped-def]
    """The cases that a wrong answer passes."""
    return [
        case.name
        for case in exercise.cases
        if equal(
            outcome(wrong, case, OPEN_SEED), outcome(exercise.reference, case, OPEN_SEED), 1e-9
        )
    ]


def named(exercise: Exercise, name: str):  # type: ignore[no-untyped-def]
    return next(m for m in exercise.misconceptions if m.name == name).wrong


def test_one_head_or_one_token_hide_every_mix_up_of_heads() -> None:
    for name in (
        "split without a transpose",
        "merged without a transpose",
        "split and merged without a transpose",
        "scaled by √d",
    ):
        assert "3 tokens, one head" in hidden(MULTI, named(MULTI, name)), name
        assert "4 tokens of width 9, 3 heads" not in hidden(MULTI, named(MULTI, name)), name


def test_the_broken_programs_pass_what_their_authors_tried() -> None:
    assert hidden(HEADS, bugs.causal_heads_broken) == ["3 tokens, one head", "one token, 2 heads"]
    assert hidden(MASK, bugs.masked_attention_broken) == ["one token"]
    assert hidden(CHUNK, bugs.chunk_attention_broken) == ["one new token, a wide window"]


def test_minus_a_billion_fails_only_where_a_token_may_look_at_nothing() -> None:
    for name in ("−10⁹ for −∞", "NaN where all is hidden"):
        passed = hidden(MULTI, named(MULTI, name))
        assert passed == [case.name for case in MULTI.cases[:-1]]


def test_the_end_of_a_text_has_never_heard_of_its_beginning() -> None:
    """What the symptom's cell shows: with two heads the last token misses the first one."""
    rng = np.random.default_rng(0)
    x, w_qkv, w_o = rng.normal(size=(3, 4)), rng.normal(size=(4, 12)), rng.normal(size=(4, 4))
    changed = x.copy()
    changed[0] += 1
    for n_heads, heard in ((1, True), (2, False)):
        before, after = (bugs.causal_heads_broken(y, w_qkv, w_o, n_heads) for y in (x, changed))
        assert np.allclose(before[2], after[2]) is not heard
        before, after = (bugs.causal_heads(y, w_qkv, w_o, n_heads) for y in (x, changed))
        assert not np.allclose(before[2], after[2])


def test_a_finite_number_hides_no_padding_if_real_scores_are_lower_still() -> None:
    last = [case.name for case in CROSS.cases][-1]
    assert hidden(CROSS, named(CROSS, "a number for −∞")) == [c.name for c in CROSS.cases[:-1]]
    x_q, x_kv, lengths, *_ = CROSS.cases[-1].build().values()
    n = int(lengths[0])
    assert (x_q[0] @ x_kv[0, :n].T / 2 < -1e4).all() and (x_q[0] @ x_kv[0, n:].T > 1e9).all(), last


@pytest.mark.parametrize(
    ("name", "silent"),
    [
        ("a mask of two axes", "3 pairs, sources of 4, 1 and 5 tokens"),
        ("a mask of three axes", "3 pairs, 3 heads, 6 queries"),
    ],
)
def test_a_mask_with_an_axis_missing_is_wrong_without_an_error_somewhere(
    name: str, silent: str
) -> None:
    case = next(c for c in CROSS.cases if c.name == silent)
    found = outcome(named(CROSS, name), case, OPEN_SEED)
    assert not isinstance(found, str)  # no error
    assert not equal(found, outcome(CROSS.reference, case, OPEN_SEED), 1e-9)
    missing = "meet queries" if name == "a mask of two axes" else "meet heads"
    assert missing in " ".join(str(check(CROSS.id, named(CROSS, name))).split())


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = manuscript("06"), answers("06")
    one = np.eye(2)
    output, weights = solved.multi_head_attention(one, one, one, one, one, 2)
    assert "weights {:.3f} and {:.3f}, and it finds".format(*weights[0, 0]) in text
    assert f"it finds {output[0, 0]:.3f}. Token 1" in text
    found = solved.causal_heads(one, np.hstack([one] * 3), one, 2)[1, 1]
    assert f"in head 1 it scores 0 and 1, and finds {found:.3f}." in text
    source = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    given = (one[None, :1], source, np.array([2]), one, one, one, one, 2)
    assert (
        "The means are {:.3f}, {:.3f} and {:.0f}.".format(*solved.cross_attention(*given)[1][0, 0])
        in text
    )
    projections, heads, projected = solved.attention_flops(2, 2, 3, 1)
    assert f"make {projections}." in text
    assert f"as much again: {heads}." in text
    assert f"one more projection: {projected}." in text
