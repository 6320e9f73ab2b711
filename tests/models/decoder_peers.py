"""Decoders of transformers with random weights, of every kind that ours can be."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

# What Llama's configurations say of positions beyond 8, which the drawn texts reach.
TRAINED = 8
ROPES: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": TRAINED},
    "llama3": {
        "factor": 8.0, "original_max_position_embeddings": TRAINED, "low_freq_factor": 0.5,
        "high_freq_factor": 1.5,
    },
    "longrope": {"factor": 3.0, "original_max_position_embeddings": TRAINED},
}  # fmt: skip


@st.composite
def llama_configs(draw: st.DrawFn, ropes: tuple[str, ...] = tuple(ROPES)) -> LlamaConfig:
    """Draw a small Llama: MHA, GQA or MQA, biases or none, tied or not, any positions."""
    n_kv_heads, group_size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n_heads, half = n_kv_heads * group_size, draw(st.integers(2, 4))
    kind = draw(st.sampled_from(ropes))
    rope = {"rope_type": kind, "rope_theta": draw(st.sampled_from([100.0, 10000.0])), **ROPES[kind]}
    if kind == "longrope":
        rope |= {"short_factor": [1.0 + i / 9 for i in range(half)]}
        rope |= {"long_factor": [1.5 + i for i in range(half)]}
    return LlamaConfig(
        vocab_size=draw(st.integers(4, 20)), hidden_size=n_heads * draw(st.integers(1, 6)),
        intermediate_size=draw(st.integers(1, 20)), num_hidden_layers=draw(st.integers(1, 3)),
        num_attention_heads=n_heads, num_key_value_heads=n_kv_heads, head_dim=2 * half,
        max_position_embeddings=TRAINED if kind == "dynamic" else 32, rope_parameters=rope,
        rms_norm_eps=draw(st.sampled_from([1e-6, 1e-5, 1e-2])), attention_bias=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()), pad_token_id=0,
    )  # fmt: skip


@st.composite
def gpt2_configs(draw: st.DrawFn) -> GPT2Config:
    """Draw a small GPT-2, with any of its activations, tied or not."""
    n_heads = draw(st.integers(1, 4))
    return GPT2Config(
        vocab_size=draw(st.integers(4, 20)), n_positions=draw(st.integers(24, 40)),
        n_embd=n_heads * draw(st.integers(1, 6)), n_layer=draw(st.integers(1, 3)), n_head=n_heads,
        n_inner=draw(st.sampled_from([None, 5, 17])),
        activation_function=draw(st.sampled_from(["gelu_new", "gelu", "relu", "silu"])),
        layer_norm_epsilon=draw(st.sampled_from([1e-5, 1e-2])),
        tie_word_embeddings=draw(st.booleans()), bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


configs = st.one_of(llama_configs(), gpt2_configs())


def randomise(model: nn.Module, seed: int) -> None:
    """Draw all weights so that nothing stays near its start: neither norms nor biases."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.copy_(1.0 + 0.5 * drawn)
            else:
                parameter.copy_(drawn / parameter.shape[-1] ** 0.5)


def peer(config: LlamaConfig | GPT2Config, seed: int = 0) -> nn.Module:
    """Return transformers' model of a configuration, random throughout, in evaluation mode."""
    kind = LlamaForCausalLM if isinstance(config, LlamaConfig) else GPT2LMHeadModel
    model = kind(config).eval()
    randomise(model, seed)
    return model


def texts(vocab_size: int, lengths: list[int], n: int, side: str, seed: int = 0) -> Tensor:
    """Return random texts without specials, (b, n), padded on a side."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, vocab_size, (len(lengths), n), generator=generator)
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = row[length:] if side == "left" else 0
        if side == "left":
            row[: n - length] = 0
    return ids


def real(lengths: Tensor, n: int, side: str) -> Tensor:
    """Return where the real tokens are, (b, n)."""
    places = torch.arange(n) if side == "right" else torch.arange(n).flip(0)
    return places < lengths[:, None]
