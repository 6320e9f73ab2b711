"""Encoder-decoders of transformers whose weights are those of ours: Marian's and Pegasus'."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn
from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from course_lib.blocks.positions import sinusoidal_positions
from course_lib.data.vocabulary import BOS, EOS, PAD
from course_lib.models.encoder_decoder import EncoderDecoder

# Our names for theirs, applied in this order.
NAMES = [
    (r"^shared\.weight", "src_embedding.table"),
    (r"\.layers\.", "."),
    (r"^(\w+)\.layer_norm", r"\1_norm"),
    (r"self_attn_layer_norm", "self_attention.norm"),
    (r"encoder_attn_layer_norm", "cross_attention.norm"),
    (r"final_layer_norm", "feed_forward.norm"),
    (r"self_attn\.", "self_attention.sublayer."),
    (r"encoder_attn\.", "cross_attention.sublayer."),
    (r"([qkv])_proj", r"w_\1"),
    (r"out_proj", "w_o"),
    (r"fc([12])", r"feed_forward.sublayer.w_\1"),
    (r"norm\.weight", "norm.gamma"),
    (r"norm\.bias", "norm.beta"),
    (r"^(encoder\.\d+\.)self_", r"\1"),
]


def peers(
    *,
    vocab_size: int = 13,
    d_model: int = 16,
    n_heads: int = 2,
    n_layers: int = 2,
    d_ff: int = 24,
    max_length: int = 40,
    norm_first: bool = False,
    seed: int = 0,
    spread: float = 1.0,
    ending: float | None = 0.0,
) -> tuple[EncoderDecoder, nn.Module]:
    """Return our model and theirs with the same random weights, in evaluation mode.

    Marian has the norm after each sublayer and Pegasus before; both tie all three tables. Marian's
    fixed positions have all sines first, Pegasus' too: ours take their place. `spread` multiplies
    all weights, so that the likeliest token is not always the same one; `ending` is about how much
    is added to the logit of <eos>, which is 0 where it is None: in a large vocabulary never chosen.
    """
    torch.manual_seed(seed)
    kind, configuration = (
        (PegasusForConditionalGeneration, PegasusConfig)
        if norm_first
        else (MarianMTModel, MarianConfig)
    )
    theirs = kind(
        configuration(
            vocab_size=vocab_size, d_model=d_model, max_position_embeddings=max_length,
            encoder_layers=n_layers, decoder_layers=n_layers,
            encoder_attention_heads=n_heads, decoder_attention_heads=n_heads,
            encoder_ffn_dim=d_ff, decoder_ffn_dim=d_ff, activation_function="relu",
            scale_embedding=True, dropout=0.0, pad_token_id=PAD, bos_token_id=BOS,
            eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None,
        )
    ).eval()  # fmt: skip
    ours = EncoderDecoder(
        vocab_size, vocab_size, d_model, n_heads, n_layers, d_ff,
        norm_first=norm_first, tie="all", max_length=max_length,
    ).eval()  # fmt: skip
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            parameter.copy_(spread * torch.randn_like(parameter) / d_model**0.5)
            parameter.add_(float(name.endswith("gamma")))
        last = ours.decoder_norm if norm_first else ours.decoder[-1].feed_forward.norm
        if ending is None:
            ours.tgt_embedding.table[EOS] = 0.0
        else:
            ours.tgt_embedding.table[EOS] += ending * last.beta / last.beta.square().sum()
        state = ours.state_dict()
        for name, tensor in theirs.model.state_dict().items():
            if "embed_positions" in name:
                tensor.copy_(sinusoidal_positions(max_length, d_model))
            elif "embed_tokens" not in name:
                tensor.copy_(state.pop(our_name(name)))
    assert set(state) <= {"tgt_embedding.table"}  # all were copied; that one is tied
    return ours, theirs


def our_name(name: str) -> str:
    """Return the name in our state_dict of a weight in theirs."""
    for theirs, ours in NAMES:
        name = re.sub(theirs, ours, name)
    return name


def their_mask(lengths: Tensor, n: int) -> Tensor:
    """Return the attention mask that transformers takes, 1 at real tokens: (b, n)."""
    return (torch.arange(n) < lengths[:, None]).long()
