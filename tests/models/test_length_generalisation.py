"""The small model with positions of four kinds: what it sees, what it is told, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from course_lib.blocks.attention import causal_mask
from course_lib.blocks.rotary import linear_frequencies, rotary_frequencies, rotate_half_split
from course_lib.models.length_generalisation import (
    POSITIONS,
    PositionedAttention,
    PositionedLanguageModel,
    loss_by_position,
)

all_kinds = pytest.mark.parametrize("positions", POSITIONS)


def build(positions: str, n_layers: int = 2) -> PositionedLanguageModel:
    torch.manual_seed(0)
    max_length = 40 if positions == "learned" else None
    return PositionedLanguageModel(11, 16, 2, n_layers, positions, max_length).double()


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(1))


@all_kinds
def test_no_token_sees_a_later_one(positions: str) -> None:
    model, text = build(positions), ids(2, 9)
    changed = text.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 11
    before, after = model(text), model(changed)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@all_kinds
def test_the_order_of_earlier_tokens_matters(positions: str) -> None:
    # One layer: two would tell the order of tokens by the causal mask alone.
    model, text = build(positions, n_layers=1), torch.arange(9)[None]
    swapped = text[:, [3, 1, 2, 0, 4, 5, 6, 7, 8]]
    assert (model(text)[:, -1] - model(swapped)[:, -1]).abs().max() > 1e-6


def test_the_attention_equals_pytorchs_with_rotated_queries_and_biased_scores() -> None:
    torch.manual_seed(0)
    attention = PositionedAttention(16, 2).double()
    x = torch.randn(3, 6, 16, dtype=torch.float64)
    theta, bias = rotary_frequencies(8), torch.randn(2, 6, 6, dtype=torch.float64)
    q, k, v = (
        layer(x).view(3, 6, 2, 8).transpose(1, 2)
        for layer in (attention.w_q, attention.w_k, attention.w_v)
    )
    q, k = (1.1 * rotate_half_split(y, torch.arange(6), theta) for y in (q, k))
    mask = bias.masked_fill(~causal_mask(6), -torch.inf)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    expected = attention.w_o(heads.transpose(1, 2).reshape(3, 6, 16))
    torch.testing.assert_close(attention(x, theta, 1.1, bias), expected)


def test_other_frequencies_change_what_a_rotary_model_says() -> None:
    model, text = build("rotary"), ids(2, 9)
    assert model.frequencies is not None
    as_trained = model(text)
    torch.testing.assert_close(model(text, frequencies=model.frequencies), as_trained)
    slower = model(text, frequencies=linear_frequencies(model.frequencies, 4))
    sharper = model(text, frequencies=model.frequencies, attention_factor=1.2)
    for changed in (slower, sharper):
        assert (changed - as_trained).abs().max() > 1e-4
    assert model(text[:, :1]).sub(model(text[:, :1], model.frequencies / 4)).abs().max() < 1e-12


@all_kinds
def test_the_loss_at_a_position_is_that_of_the_token_after_it(positions: str) -> None:
    model, text = build(positions), ids(50)
    got = loss_by_position(model, text, 12)
    assert got.shape == (12,)
    pieces = torch.stack([text[i : i + 13] for i in (0, 12, 24, 36)])
    expected = F.cross_entropy(
        model(pieces[:, :-1]).transpose(1, 2), pieces[:, 1:], reduction="none"
    ).mean(0)
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=0.0)
    assert not got.requires_grad


@all_kinds
def test_every_parameter_is_trained(positions: str) -> None:
    model = build(positions)
    F.cross_entropy(model(ids(2, 40)).flatten(0, 1), ids(80)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_only_learned_positions_have_parameters_and_an_end() -> None:
    counts = {kind: sum(p.numel() for p in build(kind).parameters()) for kind in POSITIONS}
    assert counts["learned"] - counts["rotary"] == 40 * 16
    assert counts["rotary"] == counts["alibi"] == counts["sinusoidal"]
    with pytest.raises(ValueError, match="offset \\+ n must be at most 40"):
        build("learned")(ids(1, 41))


def test_what_makes_no_model_is_named() -> None:
    def model(**changes: Any) -> PositionedLanguageModel:
        sizes: dict[str, Any] = {
            "vocab_size": 11, "d_model": 16, "n_heads": 2, "n_layers": 1, "positions": "rotary",
        }  # fmt: skip
        return PositionedLanguageModel(**{**sizes, **changes})

    for changes, message in (
        ({"vocab_size": 0}, "vocab_size must be a whole number of at least 1"),
        ({"n_layers": 1.5}, "n_layers must be a whole number of at least 1"),
        ({"n_heads": 3}, "n_heads must divide d_model"),
        ({"n_heads": 16}, "d_model / n_heads must be an even whole number"),
        ({"positions": "rope"}, "positions must be one of"),
        ({"positions": "learned"}, "max_length must be a whole number for learned positions"),
        ({"max_length": 9}, "max_length must be left out but for learned positions; got 9"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**changes)


def test_what_is_no_text_is_named() -> None:
    model = build("alibi")
    for wrong in (ids(9), torch.zeros(0, 3, dtype=torch.int64), torch.zeros(2, 0).long()):
        with pytest.raises(ValueError, match=r"ids must have a shape \(b, n\)"):
            model(wrong)
    with pytest.raises(ValueError, match=r"ids must be from 0 to 10; got 11"):
        model(torch.tensor([[11]]))
    with pytest.raises(ValueError, match="ids must be"):
        model(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="frequencies must be left out where positions are alibi"):
        model(ids(1, 3), rotary_frequencies(8))
    with pytest.raises(ValueError, match="ids must be one row of more than 9"):
        loss_by_position(model, ids(9), 9)
    with pytest.raises(ValueError, match="length must be a whole number of at least 1; got 0"):
        loss_by_position(model, ids(9), 0)


@all_kinds
def test_a_window_hides_what_lies_farther_back_and_nothing_else(positions: str) -> None:
    model, text = build(positions, n_layers=1), ids(2, 9)
    changed = text.clone()
    changed[:, :3] = (changed[:, :3] + 1) % 11
    before, after = (model(x, window=4) for x in (text, changed))
    assert torch.equal(before[:, 6:], after[:, 6:])
    assert not torch.allclose(before[:, 5], after[:, 5])
    assert torch.equal(model(text, window=9), model(text))
    assert not torch.allclose(model(text, window=8), model(text))


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_what_looks_as_far_as_a_window_can_tell_no_more_than_from_that_window(
    positions: str,
) -> None:
    model, text = build(positions, n_layers=1), ids(2, 9)
    assert torch.allclose(model(text, window=4)[:, -1], model(text[:, -4:])[:, -1])


def test_a_window_of_no_token_is_refused() -> None:
    with pytest.raises(ValueError, match="window"):
        build("rotary")(ids(1, 4), window=0)
