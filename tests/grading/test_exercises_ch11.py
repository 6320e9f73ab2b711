"""What only chapter 11's exercises promise."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from course_lib import decoding
from course_lib.blocks import cache as caching
from course_lib.grading import check
from course_lib.grading.exercises import beams, caches, nucleus
from course_lib.grading.exercises import ch11_decoding as ch11
from course_lib.grading.exercises.decoding_models import drawn
from course_lib.grading.model import OPEN_SEED, Case
from course_lib.reference import decoding_filters, rotary
from tests.grading.course import answers, equal, manuscript, manuscript_cells, outcome

GREEDY, TOP_K, TOP_P, SCORES, BEAM, CACHED, ROTARY, BUG = ch11.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


def chapter() -> str:
    root = Path(__file__).resolve().parents[2]
    return (root / "manuscript/chapters/11_decoding.md").read_text(encoding="utf-8")


# -- against the library ---------------------------------------------------------------------------


class Decodable:
    """One of the exercises' models as the library wants it: its state is what was fed."""

    def __init__(self, model: Any, prompt: Any) -> None:
        self.model, self.prompt = model, torch.as_tensor(prompt)

    def start(self, src: Any, src_lengths: Any, *, max_length: int, use_cache: bool) -> Any:
        return self.prompt, self.prompt[:, :0]

    def step(self, ids: Any, state: Any) -> Any:
        fed = torch.cat([state, ids], dim=1)
        return self.model(fed)[:, -ids.shape[1] :], fed

    def reorder(self, state: Any, rows: Any) -> Any:
        return state[rows]


@pytest.mark.parametrize("case", BEAM.cases, ids=lambda case: case.name)
def test_beam_search_finds_what_the_librarys_finds(case: Case) -> None:
    inputs = case.build()
    if inputs["eos"] != 2:
        inputs["model"] = drawn(vocab_size=7, eos=2, seed=7, never=(0, 1))
        inputs["eos"] = 2
    ids, score = beams.beam_search(**inputs)
    found = decoding.beam_search(
        Decodable(inputs["model"], inputs["prompt"][None]),
        torch.zeros(1, 1, dtype=torch.int64),
        torch.ones(1, dtype=torch.int64),
        max_length=inputs["max_length"],
        beam_width=inputs["k"],
        length_penalty=inputs["alpha"],
        early_stopping="never",
    )
    assert found.ids[0, 0, : found.lengths[0, 0]].tolist() == ids.tolist()
    assert abs(float(found.scores[0, 0]) - score) < 1e-9


@pytest.mark.parametrize(
    "case", [c for c in GREEDY.cases if c.build()["eos"] == 2], ids=lambda case: case.name
)
def test_greedy_writes_what_the_library_writes(case: Case) -> None:
    inputs = case.build()
    b = len(inputs["prompt"])
    found = decoding.generate(
        Decodable(inputs["model"], inputs["prompt"]),
        torch.zeros(b, 1, dtype=torch.int64),
        torch.ones(b, dtype=torch.int64),
        max_length=inputs["max_length"],
    )
    assert found.tolist() == ch11.greedy(**inputs).tolist()


def softmax(x: Any) -> Any:
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("case", [*TOP_K.cases, *TOP_P.cases], ids=lambda case: case.name)
def test_probabilities_are_those_of_the_librarys_filtered_logits(case: Case) -> None:
    inputs = case.build()
    ours, theirs = (
        (nucleus.top_k_probabilities, decoding_filters.top_k)
        if "k" in inputs
        else (nucleus.top_p_probabilities, decoding_filters.top_p)
    )
    np.testing.assert_allclose(ours(**inputs), softmax(theirs(**inputs)), atol=1e-12)


@pytest.mark.parametrize("case", CACHED.cases, ids=lambda case: case.name)
def test_attention_with_a_cache_is_the_librarys(case: Case) -> None:
    inputs = case.build()
    x = torch.as_tensor(inputs["x"])
    (b, n, d), h, past = x.shape, inputs["n_heads"], inputs["keys"].shape[2]
    attention = caching.CachedAttention(d, h, bias=False, fused=False).double()
    with torch.no_grad():
        for name in ("w_q", "w_k", "w_v", "w_o"):
            getattr(attention, name).weight.copy_(torch.as_tensor(inputs[name].T))
    kept = caching.KeyValueCache(b, h, past + n, d // h, dtype=torch.float64)
    if past:
        kept.append(torch.as_tensor(inputs["keys"]), torch.as_tensor(inputs["values"]))
    mask = torch.ones(n, past + n, dtype=torch.bool).tril(past)
    with torch.no_grad():
        expected = attention(x, mask=mask, cache=kept)
    for found, right in zip(
        caches.cached_attention(**inputs), (expected, *kept.read()), strict=True
    ):
        np.testing.assert_allclose(found, right.numpy(), atol=1e-12)


def test_a_text_in_chunks_has_the_outputs_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 4))
    weights = rng.normal(size=(4, 4, 4))
    empty = np.zeros((2, 2, 0, 2))
    whole, *_ = caches.cached_attention(x, *weights, 2, empty, empty)
    keys = values = empty
    parts = []
    for start, end in pairwise([0, 3, 4, 6]):
        part, keys, values = caches.cached_attention(x[:, start:end], *weights, 2, keys, values)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-12)


@pytest.mark.parametrize("case", ROTARY.cases, ids=lambda case: case.name)
def test_a_padded_row_equals_the_row_alone(case: Case) -> None:
    q, k, v, keys, values, padding, frequencies = case.build().values()
    output, *_ = caches.cached_rotary_step(q, k, v, keys, values, padding, frequencies)
    for i, first in enumerate(padding):
        real = [a[i : i + 1, :, first:] for a in (keys, values)]
        one = slice(i, i + 1)
        alone, *_ = caches.cached_rotary_step(
            q[one], k[one], v[one], *real, np.array([0]), frequencies
        )
        np.testing.assert_allclose(output[i], alone[0], atol=1e-12)
        at = np.array([keys.shape[2] - first])
        turned = rotary.rotate_interleaved(k[i][:, None], at, frequencies)
        _, new_keys, _ = caches.cached_rotary_step(q, k, v, keys, values, padding, frequencies)
        np.testing.assert_allclose(new_keys[i, :, -1:], turned, atol=1e-12)


# -- the cases -------------------------------------------------------------------------------------


def test_the_chapters_search_is_told_that_it_may_stop_too_early() -> None:
    """With α > 0 something longer can still win; at α = 0 its rule loses nothing."""
    cells = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", chapter(), re.DOTALL)
    (source,) = [cell for cell in cells if cell.startswith("def beam_search(")]
    namespace: dict[str, Any] = {}
    exec(source.partition("\n\n\n")[0], namespace)

    def searched(model, prompt, k, max_length, eos, alpha):  # type: ignore[no-untyped-def]
        def next_log_p(tokens: tuple[int, ...]) -> list[tuple[int, float]]:
            row = softmax(model(np.array([[*prompt, *tokens]]))[0, -1])
            return list(enumerate(np.log(row).tolist()))

        score, tokens = namespace["beam_search"](next_log_p, k, max_length, eos, alpha)[0]
        return np.array(tokens), score

    report = check(BEAM.id, searched)
    assert "With α > 0 a score can still rise" in words(report), str(report)
    for case in BEAM.cases:
        inputs = case.build() | {"alpha": 0.0}
        assert searched(**inputs)[0].tolist() == beams.beam_search(**inputs)[0].tolist()


def test_too_few_tokens_are_not_said_to_broadcast() -> None:
    solved = answers("11").beam_search

    def last_alone(model, prompt, k, max_length, eos, alpha):  # type: ignore[no-untyped-def]
        ids, score = solved(model, prompt, k, max_length, eos, alpha)
        return ids[-1:], score

    said = words(check(BEAM.id, last_alone))
    assert "has the shape (1,); expected (3,)." in said, said
    assert "broadcast" not in said


def test_counting_to_the_last_eos_is_named_though_it_divides_by_0() -> None:
    for mistake in SCORES.misconceptions:
        if mistake.name.startswith("up to the last"):
            said = words(check(SCORES.id, mistake.wrong))
            assert words(mistake.hint).split("→")[0] in said, said


def test_greedy_misses_what_a_beam_of_two_finds_on_the_tree_of_the_page() -> None:
    narrow, wide = (case.build() for case in BEAM.cases[:2])
    assert beams.beam_search(**narrow)[0].tolist() == [3, 3, 2]
    assert beams.beam_search(**wide)[0].tolist() == [4, 2]
    ids = ch11.greedy(narrow["model"], narrow["prompt"][None], 4, 2, 0)
    assert ids.tolist() == [[3, 3, 2]]


def test_the_page_has_the_tree_of_the_case() -> None:
    solved = answers("11")
    case = BEAM.cases[1].build()
    prefixes = [(), (3,), (4,), (5,), (3, 3), (3, 4), (3, 5), (4, 2), (3, 3, 2)]
    for prefix in prefixes:
        ids = np.array([[1, *prefix]])
        ours, theirs = softmax(case["model"](ids)[0, -1]), softmax(solved.tree_model(ids)[0, -1])
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_length_penalty_decides_between_the_short_text_and_the_long_one() -> None:
    short, long = (beams.beam_search(**case.build())[0] for case in BEAM.cases[2:4])
    assert len(short) == 1 and len(long) == 4


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
def test_a_row_that_has_ended_would_go_on_with_other_tokens(seed: int) -> None:
    """Else a program that never stops could pass."""
    for case in GREEDY.cases:
        inputs = case.build(seed)
        right = ch11.greedy(**inputs)
        for row, start in zip(right, inputs["prompt"], strict=True):
            written = row[row != inputs["pad"]]
            if written[-1] == inputs["eos"]:
                ids = np.concatenate([start, written])[None]
                likeliest = inputs["model"](ids)[0, -1].argmax()
                assert likeliest not in (inputs["eos"], inputs["pad"])


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
def test_no_sum_of_probabilities_lies_so_near_to_p_that_rounding_decides(seed: int) -> None:
    for case in TOP_P.cases:
        logits, p = case.build(seed).values()
        sums = np.cumsum(-np.sort(-softmax(logits), axis=-1), axis=-1)
        assert np.abs(sums - p).min() > 1e-6, case.name
    for case in [*TOP_K.cases, *TOP_P.cases]:
        logits, _ = case.build(seed).values()
        assert np.diff(np.sort(logits, axis=-1), axis=-1).min() > 1e-3, case.name


@pytest.mark.parametrize("seed", [OPEN_SEED, 1, 2])
def test_the_broken_program_is_right_where_it_was_released_and_nowhere_else(seed: int) -> None:
    hidden = [
        equal(
            outcome(beams.beam_step, case, seed), outcome(beams.beam_step_broken, case, seed), 1e-9
        )
        for case in BUG.cases
    ]
    assert hidden == [True] + [False] * (len(BUG.cases) - 1)


def test_each_fault_of_the_program_can_be_the_last_one() -> None:
    for mistake in BUG.misconceptions[1:7]:
        text = words(check(BUG.id, mistake.wrong))
        assert ("by their last token's log-probability alone" in text) is ("rank" in mistake.name)
        assert ("before another hypothesis has read it" in text) is ("rows" in mistake.name)
        assert ("the caller's cache is written into" in text) is ("touched" in mistake.name)


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = re.sub(r"-(?=\d)", "−", manuscript("11")), answers("11")
    kept = solved.top_k_probabilities(np.array([1.0, 3.0, 2.0]), 2)
    assert f"{kept[1]:.3f} and {kept[2]:.3f}." in text
    kept = solved.top_p_probabilities(np.log(np.array([0.1, 0.6, 0.3])), 0.8)
    assert f"= {kept[1]:.3f}$" in text and f"= {kept[2]:.3f}$" in text
    for k in (1, 2):
        _, score = solved.beam_search(solved.tree_model, np.array([1]), k, 4, eos=2, alpha=0.0)
        assert f"= {np.exp(score):.3g}" in text
    one, cached = np.eye(2), np.array([[[[1.0, 0.0]]]])
    output, *_ = solved.cached_attention(
        np.array([[[0.0, 1.0]]]), one, one, one, one, 1, cached, cached
    )
    assert "({:.3f}, {:.3f})".format(*output[0, 0]) in text
    totals, *_ = solved.beam_step(
        np.array([-1.0, -9.0]), np.log([[0.7, 0.1, 0.2], [0.3, 0.6, 0.1]]), np.zeros((2, 1, 1))
    )
    for total in totals:
        assert f"= {total:.3f}$".replace("-", "−") in text


def test_the_symptom_on_the_page_is_one() -> None:
    sources = {m.get("grade_id"): s for m, s in manuscript_cells("11") if m}
    said: list[str] = []
    namespace: dict[str, Any] = {
        "np": np,
        "print": lambda *args: said.append(" ".join(map(str, args))),
    }
    exec(sources["broken_beam_step"], namespace)
    exec(sources["symptom_beam_step"], namespace)
    assert said[0].endswith("keys [0. 1.]")
    assert said[2].startswith("parents [1 0]") and said[2].endswith("keys [1. 1.]")
    assert namespace["totals"][1] < -1.0 + np.log(0.2)
