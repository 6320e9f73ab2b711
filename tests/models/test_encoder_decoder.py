"""The encoder-decoder is the numpy reference, torch.nn.Transformer and its own batch members."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.blocks.positions import sinusoidal_positions
from course_lib.data.vocabulary import PAD
from course_lib.models.encoder_decoder import EncoderDecoder
from course_lib.reference import encoder_decoder as reference
from course_lib.reference.masks import padding_mask
from tests.models.peers import peers, their_mask

KINDS = [
    {"norm_first": norm_first, "tie": tie, "positions": positions}
    for norm_first, tie, positions in (
        (False, "none", "sinusoidal"), (True, "none", "learned"), (False, "all", "learned"),
        (True, "all", "sinusoidal"), (False, "output", "sinusoidal"),
    )
]  # fmt: skip
LENGTHS = [5, 1, 7, 3]
SOURCES = [[4, 9, 5, 7, 2], [2], [8, 8, 6, 4, 5, 10, 2], [11, 4, 2]]
TARGETS = [[1, 6, 4, 8], [1, 4], [1, 8, 7], [1, 5, 8, 4]]


def model(seed: int = 0, **options: Any) -> EncoderDecoder:
    """Return a model all of whose weights are random: norms and biases are no identities."""
    torch.manual_seed(seed)
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 3, "d_ff": 12, "max_length": 12}
    made = EncoderDecoder(12, 12, **{**sizes, **options}).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(torch.randn_like(parameter) / 2 + name.endswith("gamma"))
    return made


def batch(filler: int = PAD, width: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    rows = [s + [filler] * (width - len(s)) for s in SOURCES]
    targets = [t + [filler] * (4 - len(t)) for t in TARGETS]
    return torch.tensor(rows), torch.tensor(LENGTHS), torch.tensor(targets)


def alone(i: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.tensor([SOURCES[i]]), torch.tensor([LENGTHS[i]]), torch.tensor([TARGETS[i]])


def weights_of(m: nn.Module) -> dict[str, np.ndarray]:
    return {name: w.detach().numpy() for name, w in m.state_dict().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_equals_the_numpy_reference_on_a_padded_batch(kind: dict[str, Any]) -> None:
    m = model(**kind).double()
    src, lengths, tgt = batch()
    mask = padding_mask(lengths.numpy(), 7)
    theirs = reference.encoder_decoder(
        src.numpy(), mask, tgt.numpy(), weights_of(m), 2, norm_first=kind["norm_first"]
    )
    np.testing.assert_allclose(m(src, lengths, tgt).detach().numpy(), theirs, atol=1e-10)


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9),
       st.booleans(), st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"]),
       st.integers(0, 2**31 - 1))  # fmt: skip
def test_the_model_equals_the_reference_at_any_size(
    n_layers: int, n_heads: int, half: int, d_ff: int, norm_first: bool, activation: str, seed: int
) -> None:
    m = model(
        seed, d_model=2 * half * n_heads, n_heads=n_heads, n_layers=n_layers, d_ff=d_ff,
        norm_first=norm_first, activation=activation,
    ).double()  # fmt: skip
    src, lengths, tgt = batch()
    theirs = reference.encoder_decoder(
        src.numpy(), padding_mask(lengths.numpy(), 7), tgt.numpy(), weights_of(m), n_heads,
        norm_first, activation,
    )  # fmt: skip
    scale = max(1.0, float(np.abs(theirs).max()))
    ours = m(src, lengths, tgt).detach().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-9 * scale)


def pytorchs(m: EncoderDecoder, norm_first: bool) -> nn.Transformer:
    """Return torch.nn.Transformer with the weights of our layers."""
    d_ff = m.encoder[0].feed_forward.sublayer.w_1.out_features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no nested tensors where the norm comes first
        theirs = nn.Transformer(
            m.d_model, m.n_heads, len(m.encoder), len(m.decoder), d_ff,
            batch_first=True, norm_first=norm_first,
        )  # fmt: skip

    def copy_norm(to: nn.LayerNorm, norm: nn.Module) -> None:
        to.weight.data, to.bias.data = norm.gamma.data, norm.beta.data

    def copy_attention(to: nn.MultiheadAttention, attention: nn.Module) -> None:
        parts = (attention.w_q, attention.w_k, attention.w_v)
        to.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
        to.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
        to.out_proj.load_state_dict(attention.w_o.state_dict())

    for to, layer in zip(theirs.encoder.layers, m.encoder, strict=True):
        copy_attention(to.self_attn, layer.attention.sublayer)
        copy_norm(to.norm1, layer.attention.norm)
        copy_norm(to.norm2, layer.feed_forward.norm)
        to.linear1.load_state_dict(layer.feed_forward.sublayer.w_1.state_dict())
        to.linear2.load_state_dict(layer.feed_forward.sublayer.w_2.state_dict())
    for to, layer in zip(theirs.decoder.layers, m.decoder, strict=True):
        copy_attention(to.self_attn, layer.self_attention.sublayer)
        copy_attention(to.multihead_attn, layer.cross_attention.sublayer)
        copy_norm(to.norm1, layer.self_attention.norm)
        copy_norm(to.norm2, layer.cross_attention.norm)
        copy_norm(to.norm3, layer.feed_forward.norm)
        to.linear1.load_state_dict(layer.feed_forward.sublayer.w_1.state_dict())
        to.linear2.load_state_dict(layer.feed_forward.sublayer.w_2.state_dict())
    if norm_first:
        copy_norm(theirs.encoder.norm, m.encoder_norm)
        copy_norm(theirs.decoder.norm, m.decoder_norm)
    else:  # PyTorch ends both stacks by one more norm; the paper doesn't
        theirs.encoder.norm = theirs.decoder.norm = None
    return theirs.eval()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_the_model_equals_pytorchs_transformer_with_the_same_weights(
    norm_first: bool, training: bool
) -> None:
    m = model(norm_first=norm_first, dropout=0.0)
    theirs = pytorchs(m, norm_first).train(training)
    for part in theirs.modules():  # in training mode PyTorch takes its other path
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    src, lengths, tgt = batch()
    padding = torch.arange(7) >= lengths[:, None]

    def embedded(table: Tensor, ids: Tensor) -> Tensor:
        return table[ids] * 8**0.5 + sinusoidal_positions(ids.shape[1], 8)

    x = theirs(
        embedded(m.src_embedding.table, src), embedded(m.tgt_embedding.table, tgt),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4).isinf(),
        src_key_padding_mask=padding, memory_key_padding_mask=padding,
    )  # fmt: skip
    assert m.predict is not None
    torch.testing.assert_close(m(src, lengths, tgt), m.predict(x), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_model_equals_marian_and_pegasus_of_transformers(norm_first: bool) -> None:
    ours, theirs = peers(norm_first=norm_first)
    src, lengths, tgt = batch()
    with torch.no_grad():
        expected = theirs(
            input_ids=src, attention_mask=their_mask(lengths, 7), decoder_input_ids=tgt
        ).logits
        torch.testing.assert_close(ours(src, lengths, tgt), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [7, 10])
def test_a_padded_batch_equals_its_members_one_by_one(kind: dict[str, Any], width: int) -> None:
    m = model(**kind)
    together = m(*batch(width=width))
    for i, target in enumerate(TARGETS):
        one = m(*alone(i))[0]
        torch.testing.assert_close(together[i, : len(target)], one, atol=1e-4, rtol=1e-4)


def test_what_stands_at_padding_changes_nothing() -> None:
    m = model()
    zeros, others = m(*batch(filler=PAD)), m(*batch(filler=7))
    for i, target in enumerate(TARGETS):
        assert torch.equal(zeros[i, : len(target)], others[i, : len(target)])


def test_the_gradient_does_not_reach_padding() -> None:
    m = model()
    src, lengths, tgt = batch(filler=3)
    m(src, lengths, tgt).sum().backward()
    assert m.src_embedding.table.grad is not None
    assert m.src_embedding.table.grad[3].eq(0.0).all()  # 3 stands at padding alone
    assert m.src_embedding.table.grad[9].ne(0.0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_a_gradient(kind: dict[str, Any]) -> None:
    m = model(**kind)
    m(*batch()).square().sum().backward()
    for name, parameter in m.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys moves all scores of a row alike: softmax doesn't see it.
        if not name.endswith("w_k.bias"):
            assert parameter.grad.ne(0.0).any(), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_does_not_see_later_target_tokens(kind: dict[str, Any]) -> None:
    m = model(**kind)
    src, lengths, tgt = batch()
    for t in range(1, 4):
        changed = tgt.clone()
        changed[:, t:] = (changed[:, t:] + 3) % 12
        a, b = m(src, lengths, tgt), m(src, lengths, changed)
        assert torch.equal(a[:, :t], b[:, :t])
        assert (a[:, t] != b[:, t]).any(dim=-1).all()


def test_every_prediction_sees_every_token_of_its_source() -> None:
    m = model()
    src, lengths, tgt = alone(2)
    before = m(src, lengths, tgt)
    for i in range(7):
        changed = src.clone()
        changed[0, i] = 11
        assert (m(changed, lengths, tgt) != before).any(dim=-1).all()


def test_the_order_of_the_source_matters() -> None:
    m = model()
    src, lengths, tgt = alone(2)
    assert not torch.allclose(m(src, lengths, tgt), m(src.flip(1), lengths, tgt), atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_parameters_are_as_many_as_the_formula_says(
    kind: dict[str, Any], n_layers: int
) -> None:
    d, d_ff, v_src, v_tgt, n = 8, 12, 12, 12 if kind["tie"] == "all" else 9, n_layers
    m = EncoderDecoder(v_src, v_tgt, d, 2, n, d_ff, max_length=6, **kind)
    feed_forward = 2 * d * d_ff + d_ff + d
    attention = 4 * d * d + 4 * d
    layers = n * (attention + feed_forward + 2 * 2 * d)
    layers += n * (2 * attention + feed_forward + 3 * 2 * d)
    tables = v_tgt * d if kind["tie"] == "all" else (v_src + v_tgt) * d
    projection = d * v_tgt + v_tgt if kind["tie"] == "none" else 0
    positions = 2 * 6 * d if kind["positions"] == "learned" else 0
    norms = 2 * 2 * d if kind["norm_first"] else 0
    counted = sum(p.numel() for p in m.parameters())
    assert counted == tables + positions + layers + norms + projection


def test_tied_tables_are_one_parameter_after_loading_too() -> None:
    m = model(tie="all")
    assert m.src_embedding.table is m.tgt_embedding.table
    other = model(1, tie="all")
    other.load_state_dict(m.state_dict())
    assert other.src_embedding.table is other.tgt_embedding.table
    torch.testing.assert_close(other(*batch()), m(*batch()))


def test_the_weights_over_the_source_are_those_of_every_layer_and_head() -> None:
    m = model()
    src, lengths, tgt = batch()
    logits, weights = m(src, lengths, tgt, return_weights=True)
    assert torch.equal(logits, m(src, lengths, tgt))
    assert weights.shape == (3, 4, 2, 4, 7)  # layers, batch, heads, target, source
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 4, 2, 4))
    for i, n in enumerate(LENGTHS):
        assert weights[:, i, :, :, n:].eq(0.0).all()
        one = m(*alone(i), return_weights=True)[1][:, 0]
        mine = weights[:, i, :, : one.shape[2], :n]
        torch.testing.assert_close(mine, one, atol=1e-5, rtol=1e-4)


def test_dropout_is_where_the_paper_has_it() -> None:
    m = model(dropout=0.25)
    places = [name for name, part in m.named_modules() if isinstance(part, nn.Dropout) and part.p]
    layers = [f"encoder.{i}.{p}.dropout" for i in range(3) for p in ("attention", "feed_forward")]
    names = ("self_attention", "cross_attention", "feed_forward")
    layers += [f"decoder.{i}.{name}.dropout" for i in range(3) for name in names]
    assert sorted(places) == sorted(["dropout", *layers])
    src, lengths, tgt = batch()
    assert torch.equal(m(src, lengths, tgt), m(src, lengths, tgt))
    m.train()
    assert not torch.equal(m(src, lengths, tgt), m(src, lengths, tgt))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunks", [[6], [1] * 6, [3, 1, 2], [3, 3], [2, 4], [5, 1]])
@pytest.mark.parametrize("use_cache", [True, False])
def test_decoding_in_chunks_equals_the_whole(
    kind: dict[str, Any], chunks: list[int], use_cache: bool
) -> None:
    m = model(**kind)
    src, lengths, _ = batch()
    tgt = torch.cat((torch.ones(4, 1, dtype=torch.int64), torch.randint(3, 12, (4, 5))), dim=1)
    _, state = m.start(src, lengths, max_length=6, use_cache=use_cache)
    pieces = []
    for piece in tgt.split(chunks, dim=1):
        logits, state = m.step(piece, state)
        pieces.append(logits)
    whole = m(src, lengths, tgt)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("use_cache", [True, False])
def test_prompts_padded_on_the_left_equal_single_ones(
    kind: dict[str, Any], chunk: int, use_cache: bool
) -> None:
    m = model(**kind)
    src, lengths, _ = batch()
    padded = torch.tensor([[7] * (4 - len(t)) + t for t in TARGETS])
    n = torch.tensor([len(t) for t in TARGETS])
    ids, state = m.start(
        src, lengths, max_length=3, use_cache=use_cache, prompt=padded, prompt_lengths=n
    )
    following = torch.tensor([[5, 6], [9, 4], [3, 8], [11, 10]])
    pieces = []
    for piece in torch.cat((ids, following), dim=1).split(chunk, dim=1):
        logits, state = m.step(piece, state)
        pieces.append(logits)
    together = torch.cat(pieces, dim=1)
    assert together.isfinite().all()
    for i, target in enumerate(TARGETS):
        one_src, one_length, one = alone(i)
        expected = m(one_src, one_length, torch.cat((one, following[i : i + 1]), dim=1))[0]
        torch.testing.assert_close(together[i, 4 - len(target) :], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("rows", [[2, 0, 1, 3], [1, 1, 3, 3], [2], [0, 0, 1, 1, 2, 2, 3, 3]])
def test_a_reordered_state_goes_on_as_the_rows_it_was_made_of(
    use_cache: bool, rows: list[int]
) -> None:
    m, chosen = model(), torch.tensor(rows)
    src, lengths, _ = batch()
    padded = torch.tensor([[7] * (4 - len(t)) + t for t in TARGETS])
    n = torch.tensor([len(t) for t in TARGETS])
    ids, state = m.start(
        src, lengths, max_length=3, use_cache=use_cache, prompt=padded, prompt_lengths=n
    )
    _, state = m.step(ids, state)
    state = m.reorder(state, chosen)
    new = torch.arange(len(rows))[:, None] + 3
    logits, _ = m.step(new, state)
    for i, row in enumerate(rows):
        one_src, one_length, one = alone(row)
        expected = m(one_src, one_length, torch.cat((one, new[i : i + 1]), dim=1))[0, -1:]
        torch.testing.assert_close(logits[i], expected, atol=1e-4, rtol=1e-4)


def test_what_is_kept_of_the_sources_stays_where_it_is_while_rows_keep_theirs() -> None:
    m = model()
    ids, state = m.start(*batch()[:2], max_length=4)
    _, state = m.step(ids, state)
    state = m.reorder(state, torch.arange(4).repeat_interleave(2))
    _, state = m.step(torch.arange(8)[:, None] + 3, state)
    assert state.cache is not None
    places = [cache.keys.data_ptr() for cache in state.cache.cross_attention]
    within = torch.tensor([1, 0, 2, 2, 5, 4, 7, 7])
    state = m.reorder(state, within)
    assert [cache.keys.data_ptr() for cache in state.cache.cross_attention] == places
    logits, _ = m.step(torch.full((8, 1), 5), state)
    src, lengths, _ = batch()
    for i, row in enumerate(within.tolist()):
        target = torch.tensor([[1, row + 3, 5]])
        one = m(src[i // 2, None], lengths[i // 2, None], target)[0, -1:]
        torch.testing.assert_close(logits[i], one, atol=1e-4, rtol=1e-4)


def test_two_prompts_share_no_state() -> None:
    m = model()
    first, again = [], []
    for out in (first, again):
        ids, state = m.start(*alone(2)[:2], max_length=4)
        out.append(m.step(ids, state)[0])
        ids, state = m.start(*alone(0)[:2], max_length=4)
        out.append(m.step(ids, state)[0])
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)


def test_cross_attention_projects_the_source_once() -> None:
    m = model()
    calls = []
    for layer in m.decoder:
        layer.cross_attention.sublayer.w_k.register_forward_hook(lambda *_: calls.append(1))
    ids, state = m.start(*batch()[:2], max_length=4)
    for _ in range(4):
        _, state = m.step(ids, state)
    assert len(calls) == 3  # once in each layer


def test_a_target_vocabulary_with_nothing_but_the_special_tokens_will_do() -> None:
    m = EncoderDecoder(5, 3, 4, 1, 1, 4)
    src, lengths = torch.tensor([[4, 2]]), torch.tensor([2])
    assert m(src, lengths, torch.tensor([[1]])).shape == (1, 1, 3)


def started(**options: Any) -> tuple[EncoderDecoder, Any]:
    m = model()
    _, state = m.start(*batch()[:2], max_length=4, **options)
    return m, state


def faulty_calls() -> list[tuple[Callable[[], Any], str]]:
    m = model()
    src, lengths, tgt = batch()
    memory = m.encode(src, lengths).detach()
    learned = model(positions="learned", max_length=6)
    long = torch.full((1, 13), 5)
    bos_long = torch.cat((torch.tensor([[1]]), long), dim=1)
    cache = m.new_cache(3, 7, 5)
    return [
        (lambda: m(long, torch.tensor([13]), tgt[:1]),
         "src must have at most max_length = 12 tokens; got 13"),
        (lambda: learned(src, lengths, tgt),
         "src must have at most max_length = 6 tokens; got 7"),
        (lambda: m(src[:1], lengths[:1], bos_long),
         "tgt_in must have at most max_length = 12 tokens; got 14"),
        (lambda: m(src, lengths, tgt[:, 1:]),
         "tgt_in must begin with <bos>, the id 1, in every row; got 6"),
        (lambda: m.start(src, lengths, max_length=3, prompt=tgt[:, 1:]),
         "prompt must begin with <bos>, the id 1, in every row; got 6"),
        (lambda: m.start(src, lengths, max_length=3, prompt=tgt, prompt_lengths=lengths),
         "prompt_lengths must be whole numbers from 1 to 4, the width of prompt, of shape (4,); "
         "got 5"),
        (lambda: m.start(src, lengths, max_length=3, prompt=tgt[:2]),
         "prompt must have as many rows as src, 4; got 2"),
        (lambda: m.start(src, lengths, max_length=10, prompt=tgt),
         "prompt and what is written must have at most max_length = 12 tokens; got 13"),
        (lambda: m.decode(tgt, memory, lengths, cache),
         "cache must be of batch size 4, that of what is decoded; got one of 3"),
        (lambda: m.decode(tgt[:2], memory, lengths),
         "memory must have a shape (2, n_src, 8), a row for each of tgt_in; got (4, 7, 8)"),
        (lambda: m.decode(tgt, memory.double(), lengths),
         "memory must have the dtype of the model, float32; got float64"),
        (lambda: m.decode(tgt, memory, lengths, padding=lengths[:2]),
         "padding must have a shape (4,), one number for each row of tgt_in; got int64 of shape "
         "(2,)"),
        (lambda: m(src, lengths + 3, tgt),
         "src_lengths must be whole numbers from 1 to 7, the width of src, of shape (4,); got 8"),
        (lambda: m(src, lengths - 1, tgt),
         "src_lengths must be whole numbers from 1 to 7, the width of src, of shape (4,); got 0"),
        (lambda: m(src + 1, lengths, tgt), "src must be from 0 to 11; got 12"),
        (lambda: m(src, lengths, tgt - 1), "tgt_in must be from 0 to 11; got -1"),
        (lambda: m(src[0], lengths, tgt),
         "src must have a shape (b, n_src), none of it 0; got (7,)"),
        (lambda: m(src.float(), lengths, tgt),
         "src must be an array of whole numbers of shape (b, n_src); got float32 of shape (4, 7)"),
        (lambda: m.step(tgt[:, :1], None), "state must be a DecoderState, as start gives; got "
         "NoneType"),
        (lambda: m.step(tgt[:3], started(use_cache=False)[1]),
         "ids must have as many rows as state, 4; got 3"),
        (lambda: m.reorder(started()[1], torch.tensor([0, 4])), "rows must be from 0 to 3; got 4"),
        (lambda: EncoderDecoder(9, 8, 8, 2, 1, 8, tie="all"),
         "tie must not be 'all' for vocabularies of 9 and 8 tokens, which can't share a table"),
        (lambda: EncoderDecoder(9, 2, 8, 2, 1, 8),
         "tgt_vocab_size must be a whole number of at least 3; got 2"),
        (lambda: EncoderDecoder(9, 8, 8, 3, 1, 8), "n_heads must divide d_model, 8; got 3"),
        (lambda: EncoderDecoder(9, 8, 9, 3, 1, 8), "d_model must be"),
        (lambda: EncoderDecoder(9, 8, 8, 2, 0, 8),
         "n_layers must be a whole number of at least 1; got 0"),
        (lambda: EncoderDecoder(9, 8, 8, 2, 1, 8, dropout=1.0), "dropout must be"),
        (lambda: EncoderDecoder(9, 8, 8, 2, 1, 8, tie="both"),  # type: ignore[arg-type]
         "tie must be one of none, output, all; got 'both'"),
        (lambda: EncoderDecoder(9, 8, 8, 2, 1, 8, norm_first=1),  # type: ignore[arg-type]
         "norm_first must be True or False; got 1"),
        (lambda: EncoderDecoder(9, 8, 8, 2, 1, 8, positions="rotary"),  # type: ignore[arg-type]
         "positions must be one of sinusoidal, learned; got 'rotary'"),
    ]  # fmt: skip


@pytest.mark.parametrize("i", range(len(faulty_calls())))
def test_bad_input_is_named(i: int) -> None:
    call, message = faulty_calls()[i]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
