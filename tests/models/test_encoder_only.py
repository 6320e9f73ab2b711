"""An encoder alone is BERT as transformers has it, padded batches, types and pooler included."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig, BertForMaskedLM, BertModel

from course_lib.models.encoder_only import (
    BERT_BASE,
    EncoderConfig,
    EncoderOnly,
    bert,
    embed_sentences,
    encoder_config,
)
from tests.models.decoder_peers import randomise, real, texts


@st.composite
def bert_configs(draw: st.DrawFn) -> BertConfig:
    """Draw a small BERT with any of its activations."""
    n_heads = draw(st.integers(1, 4))
    return BertConfig(
        vocab_size=draw(st.integers(4, 20)), hidden_size=n_heads * draw(st.integers(1, 5)),
        num_hidden_layers=draw(st.integers(1, 3)), num_attention_heads=n_heads,
        intermediate_size=draw(st.integers(1, 20)),
        max_position_embeddings=draw(st.integers(8, 14)), type_vocab_size=draw(st.integers(1, 3)),
        hidden_act=draw(st.sampled_from(["gelu", "gelu_new", "relu", "silu"])),
        layer_norm_eps=draw(st.sampled_from([1e-12, 1e-5, 1e-2])),
    )  # fmt: skip


def peer(config: BertConfig, seed: int = 0, pooler: bool = True) -> BertModel:
    theirs = BertModel(config, add_pooling_layer=pooler).eval()
    randomise(theirs, seed)
    return theirs


def model(seed: int = 0, **changes: Any) -> EncoderOnly:
    """Return a model all of whose weights are random."""
    torch.manual_seed(seed)
    made = EncoderOnly(bert(11, 12, 2, 3, 16, **changes)).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(torch.randn_like(parameter) / 2 + name.endswith("gamma"))
    return made


@settings(max_examples=60)
@given(bert_configs(), st.lists(st.integers(1, 8), min_size=1, max_size=4), st.booleans(),
       st.booleans(), st.booleans(), st.integers(0, 999))  # fmt: skip
def test_vectors_equal_those_of_transformers_on_padded_batches(
    config: BertConfig, lengths: list[int], padded: bool, typed: bool, pooler: bool, seed: int
) -> None:
    theirs = peer(config, seed, pooler)
    ours = EncoderOnly.from_transformers(theirs.state_dict(), config)
    n = max(lengths)
    lengths = lengths if padded else [n] * len(lengths)
    ids, where = texts(config.vocab_size, lengths, n, "right", seed), torch.tensor(lengths)
    mask = real(where, n, "right")
    types = torch.randint(0, config.type_vocab_size, ids.shape) if typed else None
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask.long(), token_type_ids=types)
        hidden = ours(ids, where if padded else None, types)
        scale = max(1.0, expected.last_hidden_state[mask].abs().max().item())
        torch.testing.assert_close(
            hidden[mask], expected.last_hidden_state[mask], atol=1e-4 * scale, rtol=0.0
        )
        assert (ours.pooler is None) == (not pooler)
        if pooler:
            torch.testing.assert_close(
                ours.pool(hidden), expected.pooler_output, atol=1e-4, rtol=0.0
            )


@settings(max_examples=20)
@given(bert_configs())
def test_a_configuration_and_its_dictionary_say_the_same(config: BertConfig) -> None:
    ours = encoder_config(config)
    assert encoder_config(config.to_dict()) == ours
    counted = sum(p.numel() for p in BertModel(config).parameters())
    assert sum(p.numel() for p in EncoderOnly(ours).parameters()) == counted


def test_the_base_model_has_the_published_size() -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in EncoderOnly(BERT_BASE).parameters()) == 109_482_240


def test_checkpoints_of_larger_models_old_names_and_buffers_load_too() -> None:
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=12, max_position_embeddings=6,
    )  # fmt: skip
    theirs = BertForMaskedLM(config).eval()
    randomise(theirs, 0)
    state = {"bert.embeddings.position_ids": torch.arange(6)[None]}
    for name, tensor in theirs.state_dict().items():
        for new, old in (("weight", "gamma"), ("bias", "beta")):
            name = name.replace(f"LayerNorm.{new}", f"LayerNorm.{old}")
        state[name] = tensor
    assert any(name.startswith("cls.") for name in state)
    ours = EncoderOnly.from_transformers(state, config)
    ids = texts(9, [6, 6], 6, "right")
    with torch.no_grad():
        expected = theirs.bert(ids).last_hidden_state
    torch.testing.assert_close(ours(ids), expected, atol=1e-4, rtol=0.0)
    assert not ours.training
    for p in ours.parameters():
        p.data.zero_()
    assert theirs.bert.embeddings.word_embeddings.weight.abs().sum() > 0


CONFIG = BertConfig(
    vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=6,
)  # fmt: skip


def test_every_missing_surplus_or_misshapen_tensor_is_named() -> None:
    state = peer(CONFIG).state_dict()
    for name in state:
        rest = {key: tensor for key, tensor in state.items() if key != name}
        with pytest.raises(ValueError, match=rf"^state_dict must .*; {re.escape(name)} is missing"):
            EncoderOnly.from_transformers(rest, CONFIG)
        wrong = state | {name: torch.ones(len(state[name]), 7, 7)}
        with pytest.raises(ValueError, match=rf"{re.escape(name)} has a shape \("):
            EncoderOnly.from_transformers(wrong, CONFIG)
    for name in ("cls.predictions.bias", "encoder.layer.1.output.dense.bias"):
        with pytest.raises(ValueError, match=rf"{re.escape(name)} is one too many"):
            EncoderOnly.from_transformers(state | {name: torch.ones(2)}, CONFIG)


@pytest.mark.parametrize("filler", [0, 9])
def test_a_padded_batch_equals_its_members_one_by_one_whatever_the_padding_is(filler: int) -> None:
    m, lengths = model(), [3, 7, 1, 5]
    ids, where = texts(11, lengths, 7, "right"), torch.tensor(lengths)
    hidden = m(ids.masked_fill(~real(where, 7, "right"), filler), where)
    for row, text, n in zip(hidden, ids, lengths, strict=True):
        torch.testing.assert_close(row[:n], m(text[None, :n])[0], atol=1e-5, rtol=1e-5)


def test_every_token_knows_of_those_behind_it() -> None:
    m, ids = model(), texts(11, [6], 6, "right")
    other = ids.clone()
    other[0, 5] = (other[0, 5] + 1) % 11
    assert ((m(ids) - m(other)).abs().amax(dim=-1) > 1e-4).all()


def test_dropout_drops_in_training_alone_and_weights_start_as_berts_do() -> None:
    torch.manual_seed(0)
    m, ids = EncoderOnly(bert(50, 64, 2, 4, 32, dropout=0.5)), texts(11, [5], 5, "right")
    assert not torch.equal(m(ids), m(ids))
    m.eval()
    assert torch.equal(m(ids), m(ids))
    for name, p in m.named_parameters():
        if p.ndim == 2 and p.numel() > 1000:
            assert p.std().item() == pytest.approx(0.02, rel=0.1), name
    assert {layer.attention.norm.eps for layer in m.layers} == {1e-12}


class Letters:
    """A tokenizer of letters, with ends 1 and 2."""

    def encode(self, text: str, *, ends: bool) -> list[int]:
        ids = [3 + ord(letter) % 8 for letter in text]
        return [1, *ids, 2] if ends else ids


def test_sentences_in_batches_equal_single_ones_in_their_order() -> None:
    m = model()
    sentences = ["abc", "a", "", "abcdefgh", "bb", "abcdefghijklmnopqrstuvw", "ab"]
    vectors = embed_sentences(m, Letters(), sentences, batch_size=3)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(7))
    for sentence, vector in zip(sentences, vectors, strict=True):
        alone = embed_sentences(m, Letters(), [sentence])[0]
        torch.testing.assert_close(vector, alone, atol=1e-6, rtol=1e-5)
        ids = Letters().encode(sentence, ends=True)
        ids = ids if len(ids) <= 16 else [*ids[:15], 2]
        mean = m(torch.tensor([ids]))[0].mean(dim=0)
        torch.testing.assert_close(vector, mean / mean.norm(), atol=1e-6, rtol=1e-5)
    cut = embed_sentences(m, Letters(), ["abcdef"], max_length=4)
    assert torch.allclose(cut, embed_sentences(m, Letters(), ["ab"]), atol=1e-6)
    assert not vectors.requires_grad


def test_embedding_leaves_the_mode_and_drops_nothing_meanwhile() -> None:
    m = model(dropout=0.5).train()
    one, two = (embed_sentences(m, Letters(), ["abc", "de"]) for _ in range(2))
    assert torch.equal(one, two)
    assert m.training


SIZES = CONFIG.to_dict()
FAULTS: list[tuple[Callable, str]] = [
    (lambda: EncoderOnly(BertConfig()), "config must be an EncoderConfig; got BertConfig"),
    (lambda: model()(torch.tensor([[11]])), "ids must be from 0 to 10; got 11"),
    (lambda: model()(torch.ones(1, 17, dtype=torch.int64)), "ids must have at most max_length = 1"),
    (lambda: model()(torch.tensor([[1, 2]]), torch.tensor([0])), "lengths must be whole numbers f"),
    (lambda: model()(torch.tensor([[1]]), types=torch.tensor([[2]])), "types must be from 0 to 1"),
    (lambda: model()(torch.tensor([[1, 2]]), types=torch.tensor([[1]])), "types must have the sha"),
    (lambda: model(pooler=False).pool(torch.ones(1, 2, 12)), "the model must have a pooler"),
    (lambda: bert(d_model=13), "n_heads must divide d_model, 13; got 12"),
    (lambda: bert(pooler=1), "pooler must be True or False; got 1"),
    (lambda: bert(eps=0), "eps must be a number above 0"),
    (lambda: bert(n_types=0), "n_types must be a whole number of at least 1"),
    (lambda: bert(activation="swiglu"), "activation must be one of"),
    (lambda: bert(dropout=1.0), "dropout must be at least 0 and below 1"),
    (lambda: EncoderConfig(**{**vars(BERT_BASE), "d_ff": 0}), "d_ff must be a whole number of at"),
    (lambda: encoder_config({"model_type": "gpt2"}), "config must have model_type 'bert'; got 'gp"),
    (lambda: encoder_config({"model_type": "bert"}), "config must have vocab_size; got none"),
    (lambda: encoder_config({**SIZES, "position_embedding_type": "relative_key"}),
     "config must have position_embedding_type = 'absolute', for there is no other here"),
    (lambda: encoder_config({**SIZES, "is_decoder": True}), "config must have is_decoder = False"),
    (lambda: encoder_config({**SIZES, "hidden_act": "tanh"}), "hidden_act must be one of"),
    (lambda: EncoderOnly.from_transformers([], CONFIG), "state_dict must be a dictionary of tenso"),
    (lambda: embed_sentences(model(), Letters(), []), "sentences must hold at least one sentence"),
    (lambda: embed_sentences(model(), Letters(), "abc"), "sentences must be a sequence of strings"),
    (lambda: embed_sentences(model(), Letters(), ["a", 3]), "sentences[1] must be"),
    (lambda: embed_sentences(model(), Letters(), ["a"], batch_size=0), "batch_size must be a whol"),
    (lambda: embed_sentences(model(), Letters(), ["a"], max_length=1), "max_length must be a whol"),
    (lambda: embed_sentences(model(), Letters(), ["a"], max_length=17), "a sentence cut to max_le"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS)
def test_bad_input_is_named(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
