"""A decoder alone is GPT-2 and Llama as transformers has them, padded, cached and all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, LlamaConfig

from course_lib.data.vocabulary import EOS
from course_lib.decoding import beam_search, generate
from course_lib.models.decoder_only import (
    GPT2_SMALL,
    LLAMA_3_8B,
    LLAMA_7B,
    DecoderBlock,
    DecoderConfig,
    DecoderOnly,
    RotaryScaling,
    decoder_config,
    gpt2,
    llama,
)
from tests.models.decoder_peers import (
    ROPES,
    configs,
    llama_configs,
    peer,
    real,
    texts,
)

KINDS: dict[str, DecoderConfig] = {
    "llama": llama(11, 16, 2, 4, 20, 12, n_kv_heads=2),
    "gpt2": gpt2(11, 12, 2, 4, 16),
    "mixed": llama(11, 12, 2, 2, 20, 12, norm="layer", activation="relu", bias=True, tied=True,
                   rotary_scaling=RotaryScaling(kind="ntk", factor=2.0)),
}  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


def model(kind: str, seed: int = 0, **changes: Any) -> DecoderOnly:
    """Return a model all of whose weights are random: norms and biases are no identities."""
    torch.manual_seed(seed)
    made = DecoderOnly(replace(KINDS[kind], **changes)).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(torch.randn_like(parameter) / 2 + name.endswith("gamma"))
    return made


# --- against transformers -------------------------------------------------------------------------


@settings(max_examples=80)
@given(configs, st.lists(st.integers(1, 12), min_size=1, max_size=4),
       st.sampled_from(["none", "right", "left"]), st.integers(0, 999))  # fmt: skip
def test_logits_equal_those_of_transformers_on_padded_batches(
    config: LlamaConfig | GPT2Config, lengths: list[int], side: str, seed: int
) -> None:
    theirs = peer(config, seed)
    ours = DecoderOnly.from_transformers(theirs.state_dict(), config)
    n = max(lengths)
    lengths = [n] * len(lengths) if side == "none" else lengths
    ids, where = texts(config.vocab_size, lengths, n, side, seed), torch.tensor(lengths)
    mask = real(where, n, side) if side != "none" else torch.ones(ids.shape, dtype=torch.bool)
    positions = (mask.cumsum(1) - 1).clamp(min=0) if side == "left" else torch.arange(n)[None]
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask.long(), position_ids=positions).logits
        logits = ours(ids) if side == "none" else ours(ids, where, side)
    assert logits.shape == (*ids.shape, config.vocab_size)
    scale = max(1.0, expected[mask].abs().max().item())
    torch.testing.assert_close(logits[mask], expected[mask], atol=1e-4 * scale, rtol=0.0)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("rope", ROPES)
def test_positions_of_every_kind_follow_the_longest_text_of_a_batch(rope: str, side: str) -> None:
    row = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0]} if rope == "longrope" else {}
    config = LlamaConfig(
        vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=8,
        rope_parameters={"rope_type": rope, "rope_theta": 100.0, **ROPES[rope], **row},
    )  # fmt: skip
    theirs = peer(config)
    ours = DecoderOnly.from_transformers(theirs.state_dict(), config)
    for lengths in ([12, 3], [5, 2]):
        n, where = max(lengths), torch.tensor(lengths)
        ids, mask = texts(9, lengths, n, side), real(torch.tensor(lengths), n, side)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            expected = theirs(ids, attention_mask=mask.long(), position_ids=positions).logits
        logits = ours(ids, where, side)
        torch.testing.assert_close(logits[mask], expected[mask], atol=1e-4, rtol=0.0)


@settings(max_examples=40)
@given(configs, st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 999),
       st.integers(1, 10), st.sampled_from([None, 1, 2, 4]))  # fmt: skip
def test_what_is_written_greedily_with_a_cache_is_what_transformers_writes(
    config: LlamaConfig | GPT2Config, lengths: list[int], seed: int, room: int, chunk: int | None
) -> None:
    theirs = peer(config, seed)
    ours = DecoderOnly.from_transformers(theirs.state_dict(), config)
    n, where = max(lengths), torch.tensor(lengths)
    ids = texts(config.vocab_size, lengths, n, "left", seed)
    expected = theirs.generate(
        ids, attention_mask=real(where, n, "left").long(), do_sample=False, max_new_tokens=room,
        pad_token_id=0, eos_token_id=EOS,
    )[:, n:]  # fmt: skip
    # In chunks a growing base turns the first keys less than all at once: not so there, nor here.
    chunk = None if getattr(ours.config.rotary_scaling, "kind", "") in GROWING else chunk
    written = generate(ours, ids, where, max_length=room, chunk=chunk)
    assert written.tolist() == expected.tolist()


GROWING = ("dynamic", "longrope")


@pytest.mark.parametrize("beam_width", [2, 4])
@pytest.mark.parametrize("kind", [LlamaConfig, GPT2Config])
def test_a_beam_search_finds_what_that_of_transformers_finds(kind: type, beam_width: int) -> None:
    sizes = (
        {"hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}
        if kind is LlamaConfig
        else {"n_embd": 12, "n_layer": 2, "n_head": 4}
    )  # fmt: skip
    for seed in range(5):
        theirs = peer(
            kind(vocab_size=9, **sizes, bos_token_id=1, eos_token_id=2, pad_token_id=0), seed
        )
        ours = DecoderOnly.from_transformers(theirs.state_dict(), theirs.config)
        where = torch.tensor([4, 2, 3])
        ids = texts(9, [4, 2, 3], 4, "left", seed)
        expected = theirs.generate(
            ids, attention_mask=real(where, 4, "left").long(), max_new_tokens=6, do_sample=False,
            num_beams=beam_width, pad_token_id=0, eos_token_id=EOS,
        )[:, 4:]  # fmt: skip
        written = generate(ours, ids, where, max_length=6, method="beam", beam_width=beam_width)
        behind = (expected == EOS).cumsum(1).cumsum(1) > 1  # theirs repeats <eos> there
        assert written.tolist() == expected.masked_fill(behind, 0).tolist()


@settings(max_examples=30)
@given(configs, st.integers(0, 999))
def test_a_configuration_and_its_dictionary_say_the_same(
    config: LlamaConfig | GPT2Config, seed: int
) -> None:
    ours = decoder_config(config)
    assert decoder_config(config.to_dict()) == ours
    theirs = peer(config, seed)
    counted = sum(p.numel() for p in theirs.parameters())  # a tied table counts once
    assert sum(p.numel() for p in DecoderOnly(ours).parameters()) == counted


@pytest.mark.parametrize("rope", [name for name in ROPES if name != "default"])
def test_older_configurations_keep_base_and_scaling_apart(rope: str) -> None:
    row = {"short_factor": [1.0, 2.0], "long_factor": [2.0, 3.0]} if rope == "longrope" else {}
    scaling = {**ROPES[rope], **row}
    sizes = {
        "model_type": "llama", "vocab_size": 9, "hidden_size": 8, "intermediate_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32,
    }  # fmt: skip
    old = sizes | {"rope_theta": 500.0, "rope_scaling": {"type": rope, **scaling}}
    new = sizes | {"rope_parameters": {"rope_theta": 500.0, "rope_type": rope, **scaling}}
    assert decoder_config(old) == decoder_config(new)
    assert decoder_config(old).rotary_base == 500.0
    assert decoder_config(old).n_kv_heads == 2


def test_yarn_takes_its_attention_factor_from_where_transformers_does() -> None:
    kept = {"factor": 4.0, "original_max_position_embeddings": 8}
    for more in ({}, {"attention_factor": 1.5}, {"mscale": 0.7, "mscale_all_dim": 1.3},
                 {"factor": None}, {"beta_fast": 4, "beta_slow": 2}):  # fmt: skip
        rope = {"rope_type": "yarn", "rope_theta": 100.0, **kept, **more}
        config = LlamaConfig(
            vocab_size=9, hidden_size=12, intermediate_size=8, num_hidden_layers=2,
            num_attention_heads=2, head_dim=8, max_position_embeddings=64, rope_parameters=rope,
        )  # fmt: skip
        theirs = peer(config)
        ours = DecoderOnly.from_transformers(theirs.state_dict(), config)
        ids = texts(9, [20], 20, "right")
        with torch.no_grad():
            torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=0.0)


@settings(max_examples=20)
@given(configs, st.integers(0, 99))
def test_a_checkpoint_of_the_body_alone_and_one_with_old_buffers_load_too(
    config: LlamaConfig | GPT2Config, seed: int
) -> None:
    theirs = peer(config, seed)
    state = theirs.state_dict()
    whole = DecoderOnly.from_transformers(state, config)
    prefix = "model." if isinstance(config, LlamaConfig) else "transformer."
    bare = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    bare |= {"h.0.attn.bias": torch.ones(1, 1, 4, 4), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    bare["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    if config.tie_word_embeddings:
        del bare["lm_head.weight"]
    again = DecoderOnly.from_transformers(bare, config)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_the_weights_are_copies_of_their_dtype_and_can_be_trained() -> None:
    config = LlamaConfig(
        vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1,
    )  # fmt: skip
    theirs = peer(config).to(torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    ours = DecoderOnly.from_transformers(theirs.state_dict(), config)
    assert not ours.training
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    ours(torch.tensor([[3, 4]])).sum().backward()
    with torch.no_grad():
        for p in ours.parameters():
            assert p.grad is not None
            assert p.device.type == "cpu"
            p.zero_()  # theirs would be 0, too, if it were the same memory
    assert all(torch.equal(theirs.state_dict()[name], tensor) for name, tensor in before.items())


SMALL = {
    LlamaConfig: LlamaConfig(
        vocab_size=9, hidden_size=8, intermediate_size=6, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    ),
    GPT2Config: GPT2Config(vocab_size=9, n_positions=12, n_embd=8, n_layer=2, n_head=2),
}  # fmt: skip


@pytest.mark.parametrize("kind", SMALL)
def test_every_missing_surplus_or_misshapen_tensor_is_named(kind: type) -> None:
    config = SMALL[kind]
    state = peer(config).state_dict()
    tied = config.tie_word_embeddings
    for name in state:
        if tied and name == "lm_head.weight":
            continue
        rest = {key: tensor for key, tensor in state.items() if key != name}
        with pytest.raises(ValueError, match=rf"^state_dict must .*; {re.escape(name)} is missing"):
            DecoderOnly.from_transformers(rest, config)
        shape = tuple(state[name].shape)
        wrong = state | {name: torch.ones(shape[0] + 1, *shape[1:])}
        with pytest.raises(ValueError, match=rf"{re.escape(name)} has a shape \({shape[0] + 1},"):
            DecoderOnly.from_transformers(wrong, config)
    extra = state | {
        "model.layers.7.mlp.up_proj.weight": torch.ones(2),
        "score.weight": torch.ones(1),
    }
    with pytest.raises(ValueError, match=r"up_proj\.weight is one too many; score\.weight is one "):
        DecoderOnly.from_transformers(extra, config)
    ints = {name: torch.ones(tensor.shape, dtype=torch.int64) for name, tensor in state.items()}
    with pytest.raises(ValueError, match=r"holds int64 of shape .*, no floating-point numbers"):
        DecoderOnly.from_transformers(ints, config)


def test_the_matrix_of_gpt2_that_is_not_turned_is_refused_where_it_is_not_square() -> None:
    config = SMALL[GPT2Config]
    state = peer(config).state_dict()
    name = "transformer.h.0.attn.c_attn.weight"
    with pytest.raises(ValueError, match=r"c_attn.weight has a shape \(24, 8\), not \(8, 24\)"):
        DecoderOnly.from_transformers(state | {name: state[name].T}, config)


def test_a_head_that_differs_from_the_table_it_is_tied_to_is_refused() -> None:
    config = SMALL[GPT2Config]
    state = peer(config).state_dict()
    state["lm_head.weight"] = state["lm_head.weight"] + 1.0
    with pytest.raises(ValueError, match=r"lm_head.weight is not equal to transformer.wte.weight"):
        DecoderOnly.from_transformers(state, config)


LLAMA = LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=6, num_attention_heads=2)
ODD: list[tuple[Any, str]] = [
    (3, "config must be a configuration of transformers, or the dictionary that its config.json"),
    ({"vocab_size": 3}, "config must say its model_type; got None"),
    ({"model_type": "mamba"}, "config must have a model_type among gpt2, llama; got 'mamba'"),
    ({"model_type": "llama"}, "config must have vocab_size; got none"),
    ({"model_type": "gpt2", "vocab_size": 4}, "config must have n_embd; got none"),
    ({**LLAMA.to_dict(), "hidden_act": "gelu"}, "config must have hidden_act = 'silu', for there "),
    ({**LLAMA.to_dict(), "mlp_bias": True}, "config must have mlp_bias = False, for there is no"),
    ({**LLAMA.to_dict(), "rope_parameters": {"rope_type": "axial"}}, "rope_type must be one of"),
    ({**LLAMA.to_dict(), "rope_parameters": {"rope_type": "linear"}},
     "config must give a factor for rope_type 'linear'; got none"),
    ({**LLAMA.to_dict(), "rope_parameters": {"rope_type": "longrope"}}, "factors must have the sh"),
    ({**LLAMA.to_dict(), "rope_parameters":
      {"rope_type": "yarn", "factor": 2.0, "truncate": False}}, "config must have truncate = True"),
    ({**LLAMA.to_dict(), "num_key_value_heads": 3}, "n_kv_heads must divide n_heads, 2; got 3"),
    ({**SMALL[GPT2Config].to_dict(), "activation_function": "x"}, "activation_function must be on"),
    ({**SMALL[GPT2Config].to_dict(), "scale_attn_weights": False}, "config must have scale_attn_w"),
    ({**SMALL[GPT2Config].to_dict(), "add_cross_attention": True}, "config must have add_cross_at"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), ODD)
def test_a_configuration_of_another_model_is_named(config: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        DecoderOnly.from_transformers({}, config)


@pytest.mark.parametrize("state", [3, {"wte.weight": 3}, {3: torch.ones(2)}])
def test_what_is_no_dictionary_of_tensors_is_named(state: Any) -> None:
    with pytest.raises(ValueError, match=r"^state_dict must be a dictionary of tensors by name"):
        DecoderOnly.from_transformers(state, SMALL[GPT2Config])


# --- the model by itself --------------------------------------------------------------------------


@every_kind
def test_no_logit_answers_to_a_later_token(kind: str) -> None:
    m, ids = model(kind), texts(11, [7, 7], 7, "right")
    other = ids.clone()
    other[:, 4] = (other[:, 4] + 1) % 11
    one, two = m(ids), m(other)
    assert torch.equal(one[:, :4], two[:, :4])
    assert (one[:, 4:] - two[:, 4:]).abs().amax(dim=-1).gt(1e-4).all()


@every_kind
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_padded_batch_equals_its_members_one_by_one_whatever_the_padding_is(
    kind: str, side: str
) -> None:
    m, lengths, n = model(kind), [3, 7, 1, 5], 7
    ids, where = texts(11, lengths, n, side), torch.tensor(lengths)
    seen = real(where, n, side)
    for filler in (0, 9):
        logits = m(ids.masked_fill(~seen, filler), where, side)
        assert logits.isfinite().all()
        for row, text, keep in zip(logits, ids, seen, strict=True):
            torch.testing.assert_close(row[keep], m(text[keep][None])[0], atol=1e-5, rtol=1e-5)


@every_kind
def test_weights_are_given_where_they_are_asked_for(kind: str) -> None:
    m, ids = model(kind), texts(11, [5, 5], 5, "right")
    logits, weights = m(ids, return_weights=True)
    torch.testing.assert_close(logits, m(ids))
    assert weights.shape == (2, 2, KINDS[kind].n_heads, 5, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (weights.triu(1) == 0).all()
    _, hidden = m(ids, torch.tensor([5, 3]), "left", return_weights=True)
    assert (hidden[:, 1, :, :, :2] == 0).all()


@every_kind
@settings(max_examples=15)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), seed=st.integers(0, 99),
       chunk=st.sampled_from([None, 1, 2, 3]),
       method=st.sampled_from(["greedy", "sample", "beam"]))  # fmt: skip
def test_with_a_cache_or_without_in_one_piece_or_many_the_same_is_written(
    kind: str, lengths: list[int], seed: int, chunk: int | None, method: Any
) -> None:
    m, n, where = model(kind, seed), max(lengths), torch.tensor(lengths)
    ids = texts(11, lengths, n, "left", seed)
    options: dict[str, Any] = {"max_length": 6, "method": method, "return_scores": True}
    one, scores = generate(m, ids, where, use_cache=False, **options)
    two, same = generate(m, ids, where, chunk=chunk, **options)
    assert one.tolist() == two.tolist()
    torch.testing.assert_close(scores, same, atol=1e-4, rtol=1e-4)


@every_kind
def test_what_is_written_has_the_score_that_one_pass_over_it_gives(kind: str) -> None:
    m, where = model(kind), torch.tensor([4, 2])
    ids = texts(11, [4, 2], 4, "left")
    found = beam_search(m, ids, where, max_length=5, beam_width=3, length_penalty=0.0)
    for row in range(2):
        written = found.ids[row, 0, : int(found.lengths[row, 0])]
        text = torch.cat((ids[row, 4 - where[row] :], written))
        log_p = m(text[None])[0].log_softmax(-1)[where[row] - 1 : -1]
        total = log_p.gather(-1, written[:, None]).sum()
        torch.testing.assert_close(found.scores[row, 0], total, atol=1e-4, rtol=1e-4)


def test_the_cache_holds_the_heads_of_keys_and_values_alone() -> None:
    grouped, full = (model("llama", n_kv_heads=h).new_cache(3, 10) for h in (2, 4))
    assert grouped.n_bytes == 2 * 2 * 3 * 2 * 10 * 4 * 4
    assert full.n_bytes == 2 * grouped.n_bytes


def test_the_named_configurations_have_the_published_sizes() -> None:
    def count(config: DecoderConfig) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in DecoderOnly(config).parameters())

    assert count(LLAMA_7B) == 6_738_415_616
    assert count(GPT2_SMALL) == 124_439_808
    assert count(LLAMA_3_8B) == 8_030_261_248


def test_a_rotary_model_may_go_beyond_its_length_and_one_with_a_table_may_not() -> None:
    ids = texts(11, [40], 40, "right")
    assert model("llama")(ids).isfinite().all()
    with pytest.raises(ValueError, match=r"^ids must have at most max_length = 16 tokens; got 40"):
        model("gpt2")(ids)
    with pytest.raises(
        ValueError, match=r"^src and what is written must have at most max_length ="
    ):
        model("gpt2").start(ids[:, :10], max_length=8)
    with pytest.raises(
        ValueError, match=r"^ids must have at most max_length = 16 tokens; got 3 af"
    ):
        m = model("gpt2")
        first, state = m.start(ids[:, :10], max_length=7)
        _, state = m.step(torch.cat((first, first[:, :4]), dim=1), state)
        m.step(ids[:, :3], state)


def test_dropout_drops_in_training_alone() -> None:
    m, ids = model("llama", dropout=0.5), texts(11, [5], 5, "right")
    assert torch.equal(m(ids), m(ids))
    m.train()
    assert not torch.equal(m(ids), m(ids))
    m.generator_was_training = m.training
    generate(m, ids, torch.tensor([5]), max_length=2)
    assert m.training


def test_weights_start_as_gpt2s_do() -> None:
    torch.manual_seed(0)
    m = DecoderOnly(gpt2(50, 64, 8, 4, 32))
    for name, p in m.named_parameters():
        if name.endswith(("bias", "beta")):
            assert (p == 0).all()
        elif name.endswith("gamma"):
            assert (p == 1).all()
        else:
            last = name.endswith(("w_o.weight", "w_2.weight"))
            assert p.std().item() == pytest.approx(0.02 / (4 if last else 1), rel=0.1), name


def test_gradients_reach_every_weight_and_padding_gives_no_nan() -> None:
    for kind in KINDS:
        m, where = model(kind).train(), torch.tensor([2, 5])
        ids = texts(11, [2, 5], 5, "left")
        logits = m(ids, where, "left")[real(where, 5, "left")]
        logits.logsumexp(-1).sum().backward()
        for name, p in m.named_parameters():
            assert p.grad is not None, name
            assert p.grad.isfinite().all(), name


def test_in_half_precision_it_is_about_the_same() -> None:
    m, ids = model("llama"), texts(11, [6], 6, "right")
    single = m(ids)
    half = m.to(torch.bfloat16)(ids)
    assert half.dtype == torch.bfloat16
    assert (half.float() - single).abs().max() < 0.1 * single.abs().max()


def started(kind: str = "llama", **options: Any) -> tuple[DecoderOnly, Any]:
    m = model(kind)
    return m, m.start(texts(11, [3, 3], 3, "right"), max_length=2, **options)[1]


FAULTS: list[tuple[Callable, str]] = [
    (lambda: DecoderOnly({"vocab_size": 3}), "config must be a DecoderConfig; got dict"),
    (lambda: model("llama")(torch.tensor([[11]])), "ids must be from 0 to 10; got 11"),
    (lambda: model("llama")(torch.tensor([1, 2])), "ids must have a shape (b, n), none of it 0"),
    (lambda: model("llama")(torch.ones(1, 2)), "ids must be an array of whole numbers"),
    (lambda: model("llama")(torch.tensor([[1, 2]]), torch.tensor([3])), "lengths must be whole nu"),
    (lambda: model("llama")(torch.tensor([[1, 2]]), torch.tensor([2]), "top"), "side must be one "),
    (lambda: model("llama").start(torch.tensor([[1]]), max_length=0), "max_length must be a whole"),
    (lambda: model("llama").start(torch.tensor([[1]]), max_length=1, use_cache=2), "use_cache mus"),
    (lambda: generate(model("llama"), torch.tensor([[4]]), torch.tensor([1]), max_length=1,
                      prompt=torch.tensor([[1]])),
     "prompt must be left out: a decoder alone continues src itself"),
    (lambda: model("llama").step(torch.tensor([[1]]), None), "state must be a DecoderOnlyState"),
    (lambda: model("llama").step(torch.tensor([[1]]), started()[1]),
     "cache must be of batch size 1, that of what is decoded; got one of 2"),
    (lambda: model("llama").step(torch.tensor([[1]]), started(use_cache=False)[1]),
     "ids must have as many rows as state, 2; got 1"),
    (lambda: model("llama").reorder(started()[1], torch.tensor([2])), "rows must be from 0 to 1"),
    (lambda: DecoderBlock(KINDS["llama"])(torch.ones(1, 2, 5)), "x must have rows of width d = 1"),
    (lambda: RotaryScaling(kind="cubic"), "kind must be one of"),
    (lambda: RotaryScaling(kind="yarn", attention_factor=0), "attention_factor must be a number a"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS)
def test_bad_input_is_named(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 0}, "n_layers must be a whole number of at least 1; got 0"),
        ({"d_model": 13}, "n_heads must divide d_model, 13; got 4"),
        ({"n_kv_heads": 3}, "n_kv_heads must divide n_heads, 4; got 3"),
        ({"d_head": 3}, "d_head must be an even whole number of at least 2; got 3"),
        ({"positions": "alibi"}, "positions must be one of"),
        ({"rotary_base": 1}, "base must be a number above 1; got 1"),
        ({"rotary_scaling": "linear"}, "rotary_scaling must be a RotaryScaling, or None"),
        ({"rotary_scaling": RotaryScaling(kind="linear", factor=0.5)}, "factor must be a number o"),
        ({"rotary_scaling": RotaryScaling(kind="yarn", factor=2.0)}, "original_length must be giv"),
        ({"rotary_scaling": RotaryScaling(kind="longrope", factor=2.0, original_length=4)},
         "short_factors must be given for kind 'longrope'; got None"),
        ({"positions": "learned", "rotary_scaling": RotaryScaling(kind="linear")},
         "rotary_scaling must be left out where positions are learned"),
        ({"norm": "batch"}, "norm must be one of"),
        ({"eps": 0.0}, "eps must be a number above 0"),
        ({"activation": "tanh"}, "activation must be one of"),
        ({"bias": 1}, "bias must be True or False; got 1"),
        ({"tied": None}, "tied must be True or False; got None"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1; got 1.0"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_is_named(changes: dict[str, Any], message: str) -> None:
    sizes = {"vocab_size": 9, "d_model": 16, "n_layers": 1, "n_heads": 4, "d_ff": 8}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        DecoderConfig(**{**sizes, "max_length": 12, **changes})


@settings(max_examples=10)
@given(llama_configs(("dynamic", "longrope")), st.integers(0, 99))
def test_frequencies_that_follow_the_length_follow_that_of_the_text(
    config: LlamaConfig, seed: int
) -> None:
    ours = decoder_config(config)
    short, long = (ours.frequencies(length)[0] for length in (3, 20))
    assert torch.equal(short, ours.frequencies(8)[0])
    assert not torch.equal(short, long)


@pytest.mark.parametrize("method", ["greedy", "beam"])
@pytest.mark.parametrize("eos", [7, None])
def test_another_token_may_end_a_text_or_none(method: Any, eos: int | None) -> None:
    options: dict[str, Any] = {} if method == "greedy" else {"num_beams": 3}
    ours_options: dict[str, Any] = {} if method == "greedy" else {"beam_width": 3}
    ended = 0
    for seed in range(8):
        config = GPT2Config(
            vocab_size=9, n_embd=12, n_layer=2, n_head=4, bos_token_id=eos, eos_token_id=eos
        )
        theirs = peer(config, seed)
        ours = DecoderOnly.from_transformers(theirs.state_dict(), config)
        ids, where = texts(9, [4, 4], 4, "left", seed), torch.tensor([4, 4])
        expected = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False,
            pad_token_id=0, eos_token_id=eos, **options,
        )[:, 4:]  # fmt: skip
        written = generate(
            ours, ids, where, max_length=8, method=method, eos=eos, **ours_options
        )  # fmt: skip
        if eos is not None:
            behind = (expected == eos).cumsum(1).cumsum(1) > 1
            expected = expected.masked_fill(behind, 0)
            ended += int((written == eos).any(dim=1).sum())
        assert written.tolist() == expected.tolist()
    assert (ended > 1) == (eos is not None)


def test_an_end_that_is_no_id_is_named() -> None:
    m, ids, where = model("llama"), torch.tensor([[4, 5]]), torch.tensor([2])
    for method in ("greedy", "beam"):
        with pytest.raises(ValueError, match=r"^eos must be a whole number of at least 0; got -2"):
            generate(m, ids, where, max_length=2, method=method, eos=-2)
