from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from course_lib.blocks.attention_scores import additive_scores, bilinear_scores, dot_scores
from course_lib.blocks.recurrent import gru
from course_lib.data.vocabulary import BOS, EOS, PAD
from course_lib.models.recurrent_seq2seq import RecurrentSeq2Seq

KINDS = [None, "dot", "bilinear", "additive"]
ATTENDING = ["dot", "bilinear", "additive"]
LENGTHS = [5, 1, 7, 3]
SOURCES = [[4, 9, 5, 7, 2], [2], [8, 8, 6, 4, 5, 10, 2], [11, 4, 2]]
TARGETS = [[1, 6, 4, 8], [1, 4, 4, 5], [1, 8, 7, 6], [1, 5, 8, 4]]


def model(attention: str | None, seed: int = 0, d_model: int = 8) -> RecurrentSeq2Seq:
    torch.manual_seed(seed)
    return RecurrentSeq2Seq(12, 9, d_model, attention)  # type: ignore[arg-type]


def batch(filler: int = PAD, width: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    rows = [s + [filler] * (width - len(s)) for s in SOURCES]
    return torch.tensor(rows), torch.tensor(LENGTHS), torch.tensor(TARGETS)


def alone(i: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.tensor([SOURCES[i]]), torch.tensor([LENGTHS[i]]), torch.tensor([TARGETS[i]])


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("width", [7, 10])
def test_a_padded_batch_equals_its_members_one_by_one(attention: str | None, width: int) -> None:
    m = model(attention)
    together = m(*batch(width=width))
    for i in range(4):
        assert torch.allclose(together[i], m(*alone(i))[0], atol=1e-6)


@pytest.mark.parametrize("attention", KINDS)
def test_a_padded_batch_is_written_as_its_members_one_by_one(attention: str | None) -> None:
    ended = 0
    for seed in range(8):
        m = model(attention, seed)
        src, lengths, _ = batch()
        together = m.generate(src, lengths, max_length=6)
        for i in range(4):
            one = m.generate(*alone(i)[:2], max_length=6)[0]
            assert together[i, : len(one)].tolist() == one.tolist()
            assert together[i, len(one) :].eq(PAD).all()
            ended += one[-1].item() == EOS
    assert 0 < ended < 32  # some end by themselves, some are cut off


@pytest.mark.parametrize("attention", ATTENDING)
def test_the_weights_of_a_padded_batch_are_those_of_its_members(attention: str) -> None:
    m = model(attention)
    _, weights = m(*batch(), return_weights=True)
    for i, n in enumerate(LENGTHS):
        _, one = m(*alone(i), return_weights=True)
        assert torch.allclose(weights[i, :, :n], one[0], atol=1e-6)
        assert weights[i, :, n:].eq(0.0).all()
    assert torch.allclose(weights.sum(dim=-1), torch.ones(4, 4))


@pytest.mark.parametrize("attention", KINDS)
def test_what_stands_at_padding_changes_nothing(attention: str | None) -> None:
    m = model(attention)
    zeros, others = batch(filler=PAD), batch(filler=7)
    assert torch.equal(m(*zeros), m(*others))
    a, b = (m.generate(*x[:2], max_length=5) for x in (zeros, others))
    assert torch.equal(a, b)


@pytest.mark.parametrize("attention", KINDS)
def test_the_gradient_does_not_reach_padding(attention: str | None) -> None:
    m = model(attention)
    src, lengths, tgt = batch(filler=3)  # no source has a 3
    m(src, lengths, tgt).square().sum().backward()
    gradient = m.src_embedding.weight.grad
    assert gradient is not None
    assert gradient[3].eq(0.0).all()
    assert gradient[4].ne(0.0).any()


@pytest.mark.parametrize("attention", KINDS)
def test_every_parameter_gets_a_gradient(attention: str | None) -> None:
    m = model(attention)
    m(*batch()).square().sum().backward()
    for name, parameter in m.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.ne(0.0).any(), name


@pytest.mark.parametrize("attention", KINDS)
def test_a_prediction_does_not_see_later_target_tokens(attention: str | None) -> None:
    m = model(attention)
    src, lengths, tgt = batch()
    changed = tgt.clone()
    changed[:, 2:] = 3
    before, after = m(src, lengths, tgt), m(src, lengths, changed)
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2:], after[:, 2:])


@pytest.mark.parametrize("attention", KINDS)
def test_generating_takes_the_likeliest_token_of_the_teacher_forced_pass(
    attention: str | None,
) -> None:
    for seed in range(4):
        m = model(attention, seed)
        src, lengths, _ = batch()
        ids = m.generate(src, lengths, max_length=5)
        tgt_in = torch.cat([torch.full((4, 1), BOS), ids[:, :-1]], dim=1)
        likeliest = m(src, lengths, tgt_in).argmax(dim=-1)
        ended = (tgt_in == EOS).cumsum(dim=1) > 0
        assert torch.equal(ids, likeliest.masked_fill(ended, PAD))


@pytest.mark.parametrize("attention", ATTENDING)
def test_generating_returns_the_weights_of_the_teacher_forced_pass(attention: str) -> None:
    m = model(attention)
    src, lengths, _ = batch()
    ids, weights = m.generate(src, lengths, max_length=5, return_weights=True)
    assert weights.shape == (4, ids.shape[1], 7)
    assert not weights.requires_grad and weights.grad_fn is None
    tgt_in = torch.cat([torch.full((4, 1), BOS), ids[:, :-1]], dim=1)
    _, forced = m(src, lengths, tgt_in, return_weights=True)
    assert forced.requires_grad
    ended = (tgt_in == EOS).cumsum(dim=1) > 0
    assert torch.allclose(weights, forced.masked_fill(ended[:, :, None], 0.0), atol=1e-6)


@pytest.mark.parametrize("attention", ATTENDING)
def test_the_scores_are_those_of_the_blocks(attention: str) -> None:
    m = model(attention)
    queries, states = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    block: dict[str, Callable[[], Tensor]] = {
        "dot": lambda: dot_scores(queries, states),
        "bilinear": lambda: bilinear_scores(queries, states, m.w),
        "additive": lambda: additive_scores(queries, states, m.w_query, m.w_key, m.v),
    }
    assert torch.allclose(m.scores(queries, m.keys(states)), block[attention](), atol=1e-6)


def test_the_decoder_is_the_gru_of_the_blocks() -> None:
    m = model("dot")
    source = m.encode(*batch()[:2])
    start = m.first_state(source)
    xs = m.tgt_embedding(batch()[2])
    weights = [
        getattr(m.decoder, f"{name}_l0")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    assert torch.allclose(m.decoder(xs, start)[0], gru(xs, start[0], *weights), atol=1e-6)


def test_the_summary_holds_the_state_after_the_last_token_and_the_one_before_the_first() -> None:
    source = model(None).encode(*batch()[:2])
    for i, n in enumerate(LENGTHS):
        assert torch.equal(source.summary[i, :4], source.states[i, n - 1, :4])
        assert torch.equal(source.summary[i, 4:], source.states[i, 0, 4:])
        assert source.states[i, n:].eq(0.0).all()


def test_with_dot_scores_there_is_no_parameter_more_than_without_attention() -> None:
    count = {a: sum(p.numel() for p in model(a).parameters()) for a in KINDS}
    assert count["dot"] == count[None]
    assert count["bilinear"] - count["dot"] == 8 * 8
    assert count["additive"] - count["dot"] == 2 * 8 * 8 + 8


def test_models_of_one_seed_start_alike_but_for_the_scores() -> None:
    plain = dict(model(None).named_parameters())
    for attention in ATTENDING:
        found = dict(model(attention).named_parameters())
        for name, parameter in plain.items():
            assert torch.equal(parameter, found[name])


def test_without_attention_every_step_gets_the_same_context() -> None:
    m = model(None)
    seen: list[Tensor] = []
    m.combine.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0]))
    src, lengths, tgt = batch()
    m(src, lengths, tgt)
    context = seen[0][:, :, :8]
    assert torch.equal(context, context[:, :1].expand_as(context))
    assert torch.equal(context[:, 0], m.encode(src, lengths).summary)


def test_writing_stops_as_soon_as_all_targets_have_ended() -> None:
    m = model(None)
    with torch.no_grad():
        m.predict.bias[EOS] = 100.0
    src, lengths, _ = batch()
    assert m.generate(src, lengths, max_length=50).tolist() == [[EOS]] * 4


@pytest.mark.parametrize("attention", KINDS)
def test_decoding_step_by_step_gives_what_the_teacher_forced_pass_gives(
    attention: str | None,
) -> None:
    m = model(attention)
    src, lengths, tgt = batch()
    source = m.encode(src, lengths)
    state = m.first_state(source)
    for t in range(4):
        logits, state, _ = m.decode(tgt[:, t : t + 1], state, source)
        assert torch.allclose(logits[:, 0], m(src, lengths, tgt)[:, t], atol=1e-6)


def test_a_target_vocabulary_with_nothing_but_the_special_tokens_will_do() -> None:
    src, lengths, _ = batch()
    torch.manual_seed(0)
    ids = RecurrentSeq2Seq(12, 3, 8, "dot").generate(src, lengths, max_length=4)
    assert ids.min() >= 0 and ids.max() < 3


def wrong_parts(attention: str | None) -> list[tuple[Callable[[], object], str]]:
    m = model(attention)
    src, lengths, tgt = batch()
    source = m.encode(src, lengths)
    state = m.first_state(source)
    rows, fewer = source.states, source.states[:2]

    def decode(**parts: object) -> Callable[[], object]:
        return lambda: m.decode(tgt, state, source._replace(**parts))  # type: ignore[arg-type]

    return [
        (lambda: m.keys(rows[0]), "states must have a shape (b, n, 8), b and n ≥ 1; got (7, 8)"),
        (lambda: m.keys(rows[..., :6]), "states must have a shape (b, n, 8)"),
        (lambda: m.keys(rows[:, :0]), "states must have a shape (b, n, 8)"),
        (lambda: m.keys(rows.double()), "states must have the dtype of the model, float32; got"),
        (lambda: m.keys(rows.long()), "states must be an array of real floating-point numbers"),
        (lambda: m.keys(rows.tolist()), "states must be an array of real"),
        (lambda: m.keys(rows.detach().numpy()), "states must be a tensor of PyTorch"),
        (lambda: m.scores(rows[0], rows), "queries must have a shape (b, n, 8)"),
        (lambda: m.scores(rows, rows[0]), "keys must have a shape (b, n, 8)"),
        (lambda: m.scores(rows, fewer), "keys must have the leading axes of queries, (4,); got"),
        (lambda: m.scores(rows[..., :1], rows), "queries must have a shape (b, n, 8)"),
        (lambda: m.scores(rows, rows.double()), "keys must have the dtype of the model"),
        (lambda: m.first_state(tuple(source)), "source must be a Source, as encode gives; got"),
        (lambda: m.first_state(rows), "source must be a Source"),
        (
            lambda: m.first_state(source._replace(summary=source.summary[:2])),
            "source.summary must have the shape (4, 8) for this source; got (2, 8)",
        ),
        (lambda: m.decode(tgt, state, None), "source must be a Source"),  # type: ignore[arg-type]
        (lambda: m.decode(tgt.int(), state, source), "tgt_in must be int64 ids from 0 to 8"),
        (lambda: m.decode(tgt + 5, state, source), "tgt_in must be int64 ids from 0 to 8"),
        (lambda: m.decode(tgt[0], state, source), "tgt_in must be int64 ids"),
        (lambda: m.decode(tgt[:1], state, source), "tgt_in must have as many rows as source, 4"),
        (
            lambda: m.decode(tgt, state[0], source),
            "state must have the shape (1, 4, 8) for this source; got (4, 8)",
        ),
        (lambda: m.decode(tgt, state[:, :1], source), "state must have the shape (1, 4, 8)"),
        (lambda: m.decode(tgt, state.double(), source), "state must have the dtype of the model"),
        (lambda: m.decode(tgt, None, source), "state must be an array"),  # type: ignore[arg-type]
        (decode(states=fewer), "source.keys must have the shape (2, 7, 8)"),
        (decode(states=None), "source.states must be an array"),
        (decode(keys=rows[:, :3]), "source.keys must have the shape (4, 7, 8)"),
        (decode(summary=source.summary.double()), "source.summary must have the dtype of"),
        (
            decode(mask=source.mask[:, 0]),
            "source.mask must be boolean of shape (4, 1, 7); got bool of shape (4, 7)",
        ),
        (decode(mask=source.mask.float()), "source.mask must be boolean of shape (4, 1, 7)"),
        (decode(mask=None), "source.mask must be boolean"),
    ]


@pytest.mark.parametrize("attention", KINDS)
def test_bad_input_to_a_part_of_the_model_is_named(attention: str | None) -> None:
    for call, said in wrong_parts(attention):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
            call()


def test_bad_input_is_named() -> None:
    m = model("dot")
    src, lengths, tgt = batch()
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: RecurrentSeq2Seq(0, 9, 8), "src_vocab_size must be a whole number"),
        (lambda: RecurrentSeq2Seq(12, -1, 8), "tgt_vocab_size must be a whole number"),
        (
            lambda: RecurrentSeq2Seq(12, 2, 8),
            "tgt_vocab_size must be a whole number of at least 3; got 2",
        ),
        (lambda: RecurrentSeq2Seq(12, 1, 8), "tgt_vocab_size must be a whole number"),
        (lambda: RecurrentSeq2Seq(12, 9, 0), "d_model must be a whole number"),
        (lambda: RecurrentSeq2Seq(12, 9, 7), "d_model must be even"),
        (
            lambda: RecurrentSeq2Seq(12, 9, 8, "luong"),  # type: ignore[arg-type]
            "attention must be one of (None, 'dot', 'bilinear', 'additive'); got 'luong'",
        ),
        (lambda: m(src.float(), lengths, tgt), "src must be int64 ids from 0 to 11"),
        (lambda: m(src[0], lengths, tgt), "src must be int64 ids"),
        (
            lambda: m(src + 2, lengths, tgt),
            "src must be int64 ids from 0 to 11 of shape (b, n_src); got 2 to 13",
        ),
        (lambda: m(src, lengths[:2], tgt), "src_lengths must be int64 from 1 to 7 of shape (4,)"),
        (lambda: m(src, lengths * 0, tgt), "src_lengths must be int64 from 1 to 7"),
        (lambda: m(src, lengths + 1, tgt), "src_lengths must be int64 from 1 to 7"),
        (lambda: m(src, lengths.tolist(), tgt), "src_lengths must be int64"),
        (lambda: m(src, lengths, tgt + 5), "tgt_in must be int64 ids from 0 to 8"),
        (lambda: m(src, lengths, tgt[:2]), "tgt_in must have as many rows as src, 4; got 2"),
        (lambda: m(src, lengths, tgt[:, :0]), "tgt_in must be int64 ids"),
        (lambda: m.generate(src, lengths, 0), "max_length must be a whole number"),
        (lambda: m.generate(src[:, :3], lengths, 5), "src_lengths must be int64 from 1 to 3"),
        (
            lambda: model(None)(src, lengths, tgt, return_weights=True),
            "return_weights must be False for a model without attention; got True",
        ),
        (
            lambda: model(None).generate(src, lengths, 5, return_weights=True),
            "return_weights must be False",
        ),
    ]
    for call, said in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
            call()
