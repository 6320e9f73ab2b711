"""The PyTorch half of encoder and decoder agrees with its twin and with PyTorch's layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.blocks import encoder_decoder as torch_half
from course_lib.blocks.attention import causal_mask
from course_lib.blocks.encoder_decoder import DecoderLayer, EncoderLayer
from course_lib.blocks.masks import padding_mask
from course_lib.reference import encoder_decoder as numpy_half
from tests.agreement import FLOATS, assert_close


def randomised(module: nn.Module, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    for name, parameter in module.named_parameters():
        parameter.data = torch.randn_like(parameter) / 2 + name.endswith("gamma")
    return module


def arrays(weights: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: w.detach().numpy() for name, w in weights.items()}


SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))


@settings(max_examples=30)
@given(SIZES, st.lists(st.integers(1, 3), max_size=2), st.booleans(),
       st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"]), st.sampled_from(sorted(FLOATS)),
       st.booleans(), st.integers(0, 2**31 - 1))  # fmt: skip
def test_layers_equal_their_numpy_twins(
    sizes: tuple[int, int, int, int], lead: list[int], norm_first: bool, activation: str,
    dtype: str, masked: bool, seed: int,
) -> None:  # fmt: skip
    h, d_head, n_src, n_tgt = sizes
    d = h * d_head
    rng = np.random.default_rng(seed)
    memory = rng.standard_normal((*lead, n_src, d)).astype(dtype)
    x = rng.standard_normal((*lead, n_tgt, d)).astype(dtype)
    self_mask = np.tril(np.ones((n_tgt, n_tgt), dtype=bool)) if masked else None
    cross_mask = rng.random((n_tgt, n_src)) < 0.7 if masked else None
    tolerance = 200 * FLOATS[dtype]
    options = {"norm_first": norm_first, "activation": activation}
    encoder = randomised(EncoderLayer(d, h, 7, **options), seed).to(getattr(torch, dtype))
    decoder = randomised(DecoderLayer(d, h, 7, **options), seed).to(getattr(torch, dtype))
    masks = [None if m is None else torch.tensor(m) for m in (self_mask, cross_mask)]

    w = encoder.state_dict()
    theirs = numpy_half.encoder_layer(x, arrays(w), h, self_mask, **options)
    assert_close(torch_half.encoder_layer(torch.tensor(x), w, h, masks[0], **options), theirs,
                 tolerance)  # fmt: skip
    assert_close(encoder(torch.tensor(x), masks[0]), theirs, tolerance)

    w = decoder.state_dict()
    theirs = numpy_half.decoder_layer(x, memory, arrays(w), h, self_mask, cross_mask, **options)
    tensors = torch.tensor(x), torch.tensor(memory)
    assert_close(torch_half.decoder_layer(*tensors, w, h, *masks, **options), theirs, tolerance)
    assert_close(decoder(*tensors, *masks), theirs, tolerance)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_module_gives_the_weights_over_the_source_where_they_are_asked_for(
    norm_first: bool,
) -> None:
    layer = randomised(DecoderLayer(8, 2, 12, norm_first=norm_first))
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    mask = padding_mask(torch.tensor([5, 2, 1]), 5)
    collected: list[Tensor] = []
    y = layer(x, memory, causal_mask(4), mask, collect=collected)
    (weights,) = collected
    assert torch.equal(y, layer(x, memory, causal_mask(4), mask))
    assert weights.shape == (3, 2, 4, 5)
    assert weights[1, :, :, 2:].eq(0.0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 2, 4))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_whole_model_equals_its_numpy_twin(norm_first: bool, activation: str) -> None:
    from course_lib.models.encoder_decoder import EncoderDecoder

    model = randomised(EncoderDecoder(9, 8, 8, 2, 2, 12, norm_first=norm_first)).double()
    w = model.state_dict()
    src, tgt = torch.tensor([[4, 5, 6, 2], [8, 2, 0, 0]]), torch.tensor([[1, 5, 6], [1, 7, 3]])
    mask = padding_mask(torch.tensor([4, 2]), 4)
    kind = (2, norm_first, activation)
    theirs = numpy_half.encoder_decoder(src.numpy(), mask.numpy(), tgt.numpy(), arrays(w), *kind)
    assert_close(torch_half.encoder_decoder(src, mask, tgt, w, *kind), theirs, 1e-10)
    memory = torch_half.encode(src, mask, w, *kind)
    theirs = numpy_half.encode(src.numpy(), mask.numpy(), arrays(w), *kind)
    assert_close(memory, theirs, 1e-10)
    decoded = torch_half.decode(tgt, memory, mask, w, *kind)
    assert_close(decoded, torch_half.encoder_decoder(src, mask, tgt, w, *kind), 1e-12)


@pytest.mark.parametrize(
    "options", [{"dropout": 1.0}, {"norm_first": 1}, {"activation": "tanh"}, {"n_heads": 3}]
)
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_bad_input_is_named(kind: type, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=rf"^{name} must "):
        kind(**{"d_model": 8, "n_heads": 2, "d_ff": 8, **options})
