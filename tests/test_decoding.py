"""Decoding equals transformers', with a cache and without, in a batch and alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from math import log
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.blocks.attention import causal_mask
from course_lib.blocks.cache import DecoderCache
from course_lib.blocks.embeddings import TokenEmbedding
from course_lib.blocks.encoder_decoder import EncoderLayer
from course_lib.blocks.language_modelling import log_softmax
from course_lib.blocks.masks import combine_masks, padding_mask
from course_lib.blocks.positions import SinusoidalPositions
from course_lib.data.vocabulary import BOS, EOS, PAD
from course_lib.decoding import BeamStep, beam_search, generate
from course_lib.models.encoder_decoder import EncoderDecoder
from course_lib.validation import check_float
from tests.models.peers import peers, their_mask

V = 7
LENGTHS = torch.tensor([7, 3, 1, 5])
METHODS: list[dict[str, Any]] = [
    {"method": "greedy"},
    {"method": "sample", "seed": 3},
    {"method": "sample", "temperature": 0.7, "top_k": 4, "top_p": 0.9, "min_p": 0.05, "seed": 4},
    {"method": "beam", "beam_width": 3},
    {"method": "beam", "beam_width": 4, "length_penalty": 0.6, "early_stopping": True},
    {"method": "beam", "beam_width": 2, "length_penalty": 1.5, "early_stopping": "never"},
]


def sources(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(3, V, (4, 7), generator=generator)
    return src.masked_fill(torch.arange(7) >= LENGTHS[:, None], PAD), LENGTHS


def model(seed: int = 0, norm_first: bool = False) -> EncoderDecoder:
    return peers(vocab_size=V, spread=1.5, ending=3.0, seed=seed, norm_first=norm_first)[0]


def same_padding(ids: Tensor) -> Tensor:
    """Return ids with <pad> behind <eos>: transformers takes an id of 0 for none, and pads by 2."""
    ended = (ids == EOS).cumsum(dim=1) - (ids == EOS).long() > 0
    return ids.masked_fill(ended, PAD)


@pytest.mark.parametrize("norm_first", [False, True])
def test_greedy_equals_transformers(norm_first: bool) -> None:
    ended = 0
    for seed in range(6):
        ours, theirs = peers(vocab_size=V, spread=1.5, ending=3.0, seed=seed, norm_first=norm_first)
        src, lengths = sources(seed)
        expected = theirs.generate(
            input_ids=src, attention_mask=their_mask(lengths, 7), max_new_tokens=12,
            do_sample=False, num_beams=1,
        )[:, 1:]  # fmt: skip
        for use_cache in (True, False):
            ids = generate(ours, src, lengths, max_length=12, use_cache=use_cache)
            assert torch.equal(ids, expected)
        ended += int((ids == EOS).sum())
    assert 0 < ended < 24  # some end by themselves, some are cut off


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_beam_search_equals_transformers(early_stopping: Any, norm_first: bool) -> None:
    ended = cut = 0
    for seed, (alpha, k) in product(range(5), ((0.0, 2), (0.6, 4), (1.0, 5), (2.0, 3), (-0.5, 4))):
        ours, theirs = peers(vocab_size=V, spread=1.5, ending=3.0, seed=seed, norm_first=norm_first)
        src, lengths = sources(seed)
        expected = theirs.generate(
            input_ids=src, attention_mask=their_mask(lengths, 7), max_new_tokens=12, num_beams=k,
            do_sample=False, length_penalty=alpha, early_stopping=early_stopping,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        ids, scores = generate(
            ours, src, lengths, max_length=12, method="beam", beam_width=k, length_penalty=alpha,
            early_stopping=early_stopping, return_scores=True,
        )  # fmt: skip
        assert torch.equal(ids, same_padding(expected.sequences[:, 1:]))
        torch.testing.assert_close(scores, expected.sequences_scores, atol=1e-4, rtol=1e-4)
        ends = (ids == EOS).any(dim=1)
        ended, cut = ended + int(ends.sum()), cut + int((~ends).sum())
    assert ended > 20
    assert cut > 0


@pytest.mark.parametrize("k", [2, 4])
def test_all_finished_hypotheses_of_a_beam_equal_transformers(k: int) -> None:
    ours, theirs = peers(vocab_size=V, spread=1.5, ending=3.0, seed=2)
    src, lengths = sources(2)
    expected = theirs.generate(
        input_ids=src, attention_mask=their_mask(lengths, 7), max_new_tokens=8, num_beams=k,
        num_return_sequences=k, do_sample=False, return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    found = beam_search(ours, src, lengths, max_length=8, beam_width=k)
    assert torch.equal(found.ids.flatten(0, 1), same_padding(expected.sequences[:, 1:]))
    torch.testing.assert_close(found.scores.flatten(), expected.sequences_scores)


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_what_is_written_is_the_same_without_a_cache(
    options: dict[str, Any], norm_first: bool
) -> None:
    for seed in range(3):
        m, (src, lengths) = model(seed, norm_first), sources(seed)
        cached, plain = (
            generate(m, src, lengths, max_length=9, use_cache=c, return_scores=True, **options)
            for c in (True, False)
        )
        assert torch.equal(cached[0], plain[0])
        torch.testing.assert_close(cached[1], plain[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [o for o in METHODS if o["method"] != "sample"])
def test_a_batch_is_written_as_its_members_one_by_one(options: dict[str, Any]) -> None:
    for seed in range(3):
        m, (src, lengths) = model(seed), sources(seed)
        together, scores = generate(m, src, lengths, max_length=9, return_scores=True, **options)
        for i, n in enumerate(LENGTHS):
            one, score = generate(
                m, src[i : i + 1, :n], lengths[i : i + 1], max_length=9, return_scores=True,
                **options,
            )  # fmt: skip
            assert together[i, : one.shape[1]].tolist() == one[0].tolist()
            assert together[i, one.shape[1] :].eq(PAD).all()
            torch.testing.assert_close(scores[i], score[0], atol=1e-4, rtol=1e-4)


PROMPTS = [[1, 4, 3, 5], [1], [1, 6, 6], [1, 3]]


@pytest.mark.parametrize("options", [o for o in METHODS if o["method"] != "sample"])
@pytest.mark.parametrize("chunk", [None, 1, 3])
@pytest.mark.parametrize("use_cache", [True, False])
def test_prompts_padded_on_the_left_are_continued_as_single_ones(
    options: dict[str, Any], chunk: int | None, use_cache: bool
) -> None:
    m, (src, lengths) = model(1), sources(1)
    padded = torch.tensor([[PAD] * (4 - len(p)) + p for p in PROMPTS])
    together = generate(
        m, src, lengths, max_length=8, prompt=padded, chunk=chunk, use_cache=use_cache,
        prompt_lengths=torch.tensor([len(p) for p in PROMPTS]), **options,
    )  # fmt: skip
    for i, n in enumerate(LENGTHS):
        one = generate(
            m, src[i : i + 1, :n], lengths[i : i + 1], max_length=8,
            prompt=torch.tensor([PROMPTS[i]]), **options,
        )  # fmt: skip
        assert together[i, : one.shape[1]].tolist() == one[0].tolist()
        assert together[i, one.shape[1] :].eq(PAD).all()


def test_greedy_takes_the_likeliest_token_of_the_teacher_forced_pass() -> None:
    m, (src, lengths) = model(), sources(0)
    ids, scores = generate(m, src, lengths, max_length=9, return_scores=True)
    shifted = torch.cat((torch.full((4, 1), BOS), ids[:, :-1]), dim=1)
    log_p = log_softmax(m(src, lengths, shifted)).detach()
    written = (ids != PAD).cumprod(dim=1).bool()
    assert torch.equal(log_p.argmax(dim=-1)[written], ids[written])
    total = log_p.gather(2, ids[:, :, None])[:, :, 0].masked_fill(~written, 0.0).sum(dim=1)
    torch.testing.assert_close(scores, total, atol=1e-5, rtol=1e-5)


def test_a_beam_of_one_is_greedy() -> None:
    for seed in range(6):
        m, (src, lengths) = model(seed), sources(seed)
        greedy = generate(m, src, lengths, max_length=9)
        for alpha in (0.0, 1.0):
            beam = generate(
                m, src, lengths, max_length=9, method="beam", beam_width=1, length_penalty=alpha,
                early_stopping=True,
            )  # fmt: skip
            assert torch.equal(beam, greedy)


def test_sampling_among_one_token_is_greedy() -> None:
    m, (src, lengths) = model(), sources(0)
    greedy = generate(m, src, lengths, max_length=9)
    options: list[dict[str, Any]] = [
        {"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}, {"temperature": 1e-4}
    ]  # fmt: skip
    for option in options:
        drawn = generate(m, src, lengths, max_length=9, method="sample", **option)
        assert torch.equal(drawn, greedy), option


def test_a_seed_gives_the_same_draws_and_another_seed_others() -> None:
    m, (src, lengths) = model(), sources(0)

    def drawn(seed: int) -> Tensor:
        torch.rand(seed + 1)  # what was drawn elsewhere plays no part
        return generate(m, src, lengths, max_length=9, method="sample", seed=seed)

    assert torch.equal(drawn(0), drawn(0))
    assert drawn(0).tolist() != drawn(1).tolist()


def test_first_tokens_are_drawn_as_often_as_the_model_says() -> None:
    m, (src, lengths) = model(), sources(0)
    many = src[:1].expand(4000, -1)
    ids = generate(m, many, lengths[:1].expand(4000), max_length=1, method="sample", seed=5)
    p = m(src[:1], lengths[:1], torch.tensor([[BOS]])).softmax(dim=-1)[0, 0].detach()
    observed = torch.bincount(ids[:, 0], minlength=V)
    expected = 4000 * p
    chi_squared = float(((observed - expected) ** 2 / expected).sum())
    assert chi_squared < 30.0  # of 6 degrees of freedom: passed by chance once in 25,000 seeds


def test_a_model_in_training_is_written_with_in_evaluation_and_left_in_training() -> None:
    m, (src, lengths) = model(), sources(0)
    expected = generate(m, src, lengths, max_length=9)
    m.train()
    m.dropout.p = 0.5
    for options in ({}, {"method": "beam", "beam_width": 1, "early_stopping": True}):
        assert torch.equal(generate(m, src, lengths, max_length=9, **options), expected)
        assert m.training
        assert m.encoder[0].training


def test_no_gradient_is_kept() -> None:
    m, (src, lengths) = model(), sources(0)
    _, scores = generate(m, src, lengths, max_length=3, return_scores=True)
    assert not scores.requires_grad


class Table(nn.Module):
    """A model of which the conditional probabilities are given: by the tokens written so far."""

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]], vocab_size: int) -> None:
        super().__init__()
        self.table, self.vocab_size = table, vocab_size
        self.steps = 0

    def start(
        self, src: Tensor, src_lengths: Tensor, *, max_length: int, use_cache: bool
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        return torch.full((len(src), 1), BOS), [()] * len(src)

    def step(
        self, ids: Tensor, state: list[tuple[int, ...]]
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        assert ids.shape[1] == 1
        self.steps += 1
        state = [s if i == BOS else (*s, i) for s, i in zip(state, ids[:, 0].tolist(), strict=True)]
        logits = torch.full((len(state), 1, self.vocab_size), -torch.inf)
        for row, written in enumerate(state):
            for token, p in self.table.get(written, {EOS: 1.0}).items():
                logits[row, 0, token] = log(p)
        return logits, state

    def reorder(self, state: list[tuple[int, ...]], rows: Tensor) -> list[tuple[int, ...]]:
        return [state[i] for i in rows.tolist()]


A, B = 3, 4
# Greedy begins with A (0.6), behind which nothing is likely; B (0.4) leads to a sure ending.
TRAP = {
    (): {A: 0.6, B: 0.4},
    (A,): {A: 0.35, B: 0.35, EOS: 0.3},
    (B,): {EOS: 0.9, A: 0.1},
}
ONE = (torch.ones(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64))


def test_beam_search_finds_what_greedy_misses() -> None:
    model = Table(TRAP, 5)
    greedy, greedy_score = generate(model, *ONE, max_length=4, return_scores=True)
    beam, score = generate(
        model, *ONE, max_length=4, method="beam", beam_width=2, length_penalty=0.0,
        return_scores=True,
    )  # fmt: skip
    assert greedy.tolist() == [[A, A, EOS]]
    assert beam.tolist() == [[B, EOS]]
    assert greedy_score.exp().item() == pytest.approx(0.6 * 0.35)
    assert score.exp().item() == pytest.approx(0.4 * 0.9)


def test_without_a_length_penalty_the_short_hypothesis_wins_and_with_it_the_long_one() -> None:
    table = {(): {EOS: 0.3, A: 0.7}, (A,): {A: 0.8, EOS: 0.2}, (A, A): {A: 0.5, EOS: 0.5}}
    model = Table(table, 5)
    short, long = (
        generate(
            model, *ONE, max_length=5, method="beam", beam_width=3, length_penalty=alpha,
            early_stopping="never",
        )[0].tolist()
        for alpha in (0.0, 1.0)
    )  # fmt: skip
    assert short == [EOS]
    assert long == [A, A, A, EOS]


def test_a_finished_hypothesis_is_kept_though_all_beams_go_on() -> None:
    # After step 1 all hypotheses that go on are better than the finished one, and end badly.
    table = {
        (): {A: 0.4, B: 0.35, EOS: 0.25},
        (A,): {A: 0.5, B: 0.5}, (B,): {A: 0.5, B: 0.5},
        **{two: {A: 0.5, B: 0.5} for two in product((A, B), (A, B))},
    }  # fmt: skip
    found = generate(
        Table(table, 5), *ONE, max_length=3, method="beam", beam_width=3, length_penalty=0.0
    )
    assert found.tolist() == [[EOS]]


def test_the_first_step_does_not_fill_the_beam_with_copies() -> None:
    found = beam_search(Table(TRAP, 5), *ONE, max_length=3, beam_width=2, length_penalty=0.0)
    rows = [tuple(ids[:n]) for ids, n in zip(found.ids[0].tolist(), found.lengths[0], strict=True)]
    assert rows[0] == (B, EOS)
    assert len(set(rows)) == 2


@settings(max_examples=40)
@given(st.integers(0, 2**31 - 1), st.sampled_from([0.0, 0.7, 1.0]), st.integers(1, 4))
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all(
    seed: int, alpha: float, max_length: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    table: dict[tuple[int, ...], dict[int, float]] = {}
    everything: dict[tuple[int, ...], float] = {}

    def grow(written: tuple[int, ...], total: float) -> None:
        if written and (written[-1] == EOS or len(written) == max_length):
            everything[written] = total / len(written) ** alpha
            return
        p = torch.rand(3, generator=generator, dtype=torch.float64) + 0.05
        p /= p.sum()
        table[written] = dict(zip((EOS, A, B), p.tolist(), strict=True))
        for token, q in table[written].items():
            grow((*written, token), total + log(q))

    grow((), 0.0)
    found = beam_search(
        Table(table, 5), *ONE, max_length=max_length, beam_width=40, length_penalty=alpha,
        early_stopping="never",
    )  # fmt: skip
    ranked = sorted(everything, key=everything.__getitem__, reverse=True)
    assert len(ranked) <= 40
    assert tuple(found.ids[0, 0, : found.lengths[0, 0]].tolist()) == ranked[0]
    for i, hypothesis in enumerate(ranked):
        assert found.scores[0, i].item() == pytest.approx(everything[hypothesis], abs=1e-5)
    assert found.scores[0, len(ranked) :].eq(-torch.inf).all()
    assert found.lengths[0, len(ranked) :].eq(0).all()
    assert found.ids[0, len(ranked) :].eq(PAD).all()


def test_early_stopping_ends_a_search_sooner() -> None:
    # Two hypotheses are finished after two steps; a long one would be better a token.
    table = {
        (): {A: 0.9, EOS: 0.1}, (A,): {A: 0.9, EOS: 0.1}, (A, A): {A: 0.99, EOS: 0.01},
        (A, A, A): {A: 0.99, EOS: 0.01}, (A, A, A, A): {EOS: 1.0},
    }  # fmt: skip
    steps, found = {}, {}
    for rule in (True, False, "never"):
        model = Table(table, 5)
        found[rule] = generate(
            model, *ONE, max_length=8, method="beam", beam_width=2, early_stopping=rule
        )[0].tolist()
        steps[rule] = model.steps
    assert steps[True] == 2
    assert steps[True] < steps[False] <= steps["never"]
    assert found[True] == [A, EOS]
    assert found[False] == found["never"] == [A, A, A, A, EOS]


def test_a_negative_length_penalty_does_not_end_a_search_too_soon() -> None:
    # Longer ones lose by it, but the next step's isn't as long as max_length.
    table = {(): {EOS: 0.3, A: 0.7}, (A,): {A: 0.9, EOS: 0.1}, (A, A): {EOS: 1.0}}
    found = beam_search(
        Table(table, 5), *ONE, max_length=20, beam_width=2, length_penalty=-1.0,
        early_stopping="never",
    )  # fmt: skip
    assert found.lengths[0].tolist() == [1, 3]
    assert found.scores[0].tolist() == pytest.approx([log(0.3), 3 * log(0.63)])


def test_writing_stops_as_soon_as_all_targets_have_ended() -> None:
    model = Table({(): {A: 1.0}, (A,): {EOS: 1.0}}, 5)
    ids = generate(model, *ONE, max_length=50)
    assert ids.tolist() == [[A, EOS]]
    assert model.steps == 2


def test_the_steps_of_a_beam_can_be_watched() -> None:
    steps: list[BeamStep] = []
    model = Table(TRAP, 5)
    beam_search(
        model, *ONE, max_length=3, beam_width=2, length_penalty=0.0, on_step=steps.append
    )  # fmt: skip
    first, second = steps[:2]
    assert first.tokens[0, first.kept[0]].tolist() == [A, B]
    assert first.scores[0, :2].exp().tolist() == pytest.approx([0.6, 0.4])
    assert second.parents[0, 0].item() == 1  # B goes on to <eos>
    assert second.tokens[0, 0].item() == EOS
    assert second.scores[0, 0].exp().item() == pytest.approx(0.36)
    assert second.finished[0].tolist() == [True, False, False, False]


class DecoderOnly(nn.Module):
    """A decoder without an encoder, as small as can be, that offers the same three methods."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = TokenEmbedding(V, 8), SinusoidalPositions(8)
        self.layers = nn.ModuleList(EncoderLayer(8, 2, 16, norm_first=True) for _ in range(2))

    def forward(self, ids: Tensor, padding: Tensor, cache: DecoderCache | None = None) -> Tensor:
        past = 0 if cache is None else len(cache)
        n = ids.shape[1]
        lengths = (past + n - padding).clamp(min=0)
        mask = combine_masks(causal_mask(n, past + n), padding_mask(lengths, past + n, "left"))
        x = self.positions(self.tokens(ids), past - padding)
        for i, layer in enumerate(self.layers):
            own = None if cache is None else cache.self_attention[i]
            x = layer(x, mask, own)
        return self.tokens.logits(x)

    def start(
        self, src: Tensor, src_lengths: Tensor, *, max_length: int, use_cache: bool
    ) -> tuple[Tensor, tuple]:
        (b, n), padding = src.shape, src.shape[1] - src_lengths
        cache = DecoderCache(2, b, 2, n + max_length, 4) if use_cache else None
        return src, (src[:, :0], padding, cache)

    def step(self, ids: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        seen, padding, cache = state
        if cache is not None:
            return self(ids, padding, cache), state
        seen = torch.cat((seen, ids), dim=1)
        return self(seen, padding)[:, -ids.shape[1] :], (seen, padding, None)

    def reorder(self, state: tuple, rows: Tensor) -> tuple:
        seen, padding, cache = state
        if cache is not None:
            cache.reorder(rows)
        return seen[rows], padding[rows], cache


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("chunk", [None, 2])
def test_a_decoder_without_an_encoder_fits_the_same_interface(
    options: dict[str, Any], chunk: int | None
) -> None:
    torch.manual_seed(0)
    m = DecoderOnly()
    for parameter in m.parameters():
        parameter.data.add_(torch.randn_like(parameter) / 3)
    padded = torch.tensor([[PAD] * (4 - len(p)) + p for p in PROMPTS])
    n = torch.tensor([len(p) for p in PROMPTS])
    cached = generate(m, padded, n, max_length=6, chunk=chunk, **options)
    assert torch.equal(cached, generate(m, padded, n, max_length=6, use_cache=False, **options))
    if options["method"] != "sample":
        for i, prompt in enumerate(PROMPTS):
            one = generate(
                m, torch.tensor([prompt]), torch.tensor([len(prompt)]), max_length=6, **options
            )[0].tolist()
            assert cached[i, : len(one)].tolist() == one


def test_checks_are_left_out_of_later_steps_alone() -> None:
    m, (src, lengths) = peers(vocab_size=V, spread=1.5)[0], sources(0)  # never ends
    seen = []

    def note(*_: Any) -> None:
        try:
            check_float("x", "no array")
        except ValueError:
            seen.append("checked")
        else:
            seen.append("trusted")

    hook = m.decoder[0].register_forward_hook(note)
    for options in ({}, {"method": "beam"}):
        seen.clear()
        generate(m, src, lengths, max_length=3, **options)
        assert seen == ["checked", "trusted", "trusted"]
        with pytest.raises(ValueError, match=r"^x must be"):
            check_float("x", "no array")
    hook.remove()

    def fail(*_: Any) -> None:
        if seen:
            raise RuntimeError("on the way")
        seen.append("once")

    seen.clear()
    m.decoder[0].register_forward_hook(fail)
    with pytest.raises(RuntimeError, match=r"^on the way"):
        generate(m, src, lengths, max_length=3)
    with pytest.raises(ValueError, match=r"^x must be"):
        check_float("x", "no array")


def test_a_cache_that_is_full_is_refused_in_later_steps_too() -> None:
    class Longer(EncoderDecoder):
        def start(self, *args: Any, **options: Any) -> Any:
            return super().start(*args, **{**options, "max_length": 2})

    m = Longer(V, V, 8, 2, 1, 8, max_length=40).eval()
    m.predict.bias.data[EOS] = -1e9  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"^keys must fit into the cache's max_length = 2"):
        generate(m, *sources(0), max_length=9)


def faulty_calls() -> list[tuple[Callable[[], Any], str]]:
    m, (src, lengths) = model(), sources(0)

    def call(**options: Any) -> Callable[[], Any]:
        return lambda: generate(m, src, lengths, **{"max_length": 5, **options})

    no_use = "temperature, top_k, top_p and min_p must be left out where method is"
    return [
        (call(method="beam", beam_width=0), "beam_width must be a whole number of at least 1; "
         "got 0"),
        (call(method="sample", top_p=0.0), "top_p must be above 0 and at most 1; got 0.0"),
        (call(method="sample", top_p=1.01), "top_p must be above 0 and at most 1; got 1.01"),
        (call(method="sample", min_p=-0.1), "min_p must be above 0 and at most 1; got -0.1"),
        (call(method="sample", top_k=0), "top_k must be a whole number of at least 1; got 0"),
        (call(method="sample", temperature=0.0), "temperature must be a number above 0; got 0.0"),
        (call(method="viterbi"), "method must be one of greedy, sample, beam; got 'viterbi'"),
        (call(top_k=3), f"{no_use} 'greedy': they are for 'sample'"),
        (call(method="beam", temperature=2.0), f"{no_use} 'beam': they are for 'sample'"),
        (call(max_length=0), "max_length must be a whole number of at least 1; got 0"),
        (call(max_length=41), "prompt and what is written must have at most max_length = 40 "
         "tokens; got 41"),
        (call(chunk=0), "chunk must be a whole number of at least 1; got 0"),
        (call(seed=-1), "seed must be a whole number of at least 0; got -1"),
        (call(use_cache=1), "use_cache must be True or False; got 1"),
        (call(return_scores="yes"), "return_scores must be True or False; got 'yes'"),
        (call(method="beam", early_stopping=1), "early_stopping must be True, False or 'never'; "
         "got 1"),
        (call(method="beam", length_penalty="1"),
         "length_penalty must be a finite number; got '1'"),
        (call(prompt=torch.full((4, 2), 3)), "prompt must begin with <bos>, the id 1, in every "
         "row; got 3"),
        (lambda: beam_search(m, src, lengths, max_length=5, beam_width=0),
         "beam_width must be a whole number of at least 1; got 0"),
        (lambda: generate(m, src.repeat(1, 6), lengths, max_length=5),
         "src must have at most max_length = 40 tokens; got 42"),
    ]  # fmt: skip


@pytest.mark.parametrize("i", range(len(faulty_calls())))
def test_bad_input_is_named(i: int) -> None:
    call, message = faulty_calls()[i]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
