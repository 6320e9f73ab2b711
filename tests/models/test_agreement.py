from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from course_lib.blocks.attention_scores import plain_self_attention
from course_lib.models.agreement import AttentionClassifier, GruClassifier

IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 8, 0, 0], [5, 0, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 1])


def models() -> dict[str, nn.Module]:
    torch.manual_seed(3)
    return {
        "GRU": GruClassifier(12, 6),
        "attention": AttentionClassifier(12, 6, max_length=5),
        "attention without positions": AttentionClassifier(12, 6, max_length=5, positions=False),
    }


@pytest.mark.parametrize("name", models())
def test_a_padded_batch_equals_its_members_one_by_one(name: str) -> None:
    model = models()[name]
    together = model(IDS, LENGTHS)
    for row, ids, length in zip(together, IDS, LENGTHS, strict=True):
        alone = model(ids[None, :length], length[None])
        assert torch.allclose(row, alone[0], atol=1e-6)
    assert together.shape == (3, 2)


@pytest.mark.parametrize("name", models())
def test_what_stands_behind_the_length_is_never_looked_at(name: str) -> None:
    model = models()[name]
    real = torch.arange(5) < LENGTHS[:, None]
    other = torch.where(real, IDS, torch.tensor(11))
    assert torch.allclose(model(IDS, LENGTHS), model(other, LENGTHS), atol=1e-6)


@pytest.mark.parametrize("name", models())
def test_every_real_token_counts(name: str) -> None:
    model = models()[name].double()
    for row, length in enumerate(LENGTHS.tolist()):
        for column in range(length):
            other = IDS.clone()
            other[row, column] = 10
            moved = (model(IDS, LENGTHS) - model(other, LENGTHS)).abs().amax(dim=1)
            assert moved[row] > 1e-9
            assert moved.sum() == moved[row], "only the sentence that was changed answers"


def test_only_positions_show_the_attention_model_the_order() -> None:
    blind, seeing, recurrent = (
        models()[name] for name in ("attention without positions", "attention", "GRU")
    )
    swapped = IDS[:1, [1, 0, 3, 2, 4]]  # the last token, which asks, stays the last

    def moves(model: nn.Module) -> float:
        five = torch.tensor([5])
        return float((model(IDS[:1], five) - model(swapped, five)).detach().abs().max())

    assert moves(blind) < 1e-6
    assert moves(seeing) > 1e-4
    assert moves(recurrent) > 1e-4


def test_the_attention_model_is_one_plain_layer_over_embeddings_and_positions() -> None:
    model = models()["attention"]
    assert isinstance(model, AttentionClassifier) and model.positions is not None
    logits, weights = model(IDS, LENGTHS, return_weights=True)
    for i, n in enumerate(LENGTHS.tolist()):
        x = model.embedding(IDS[i, :n]) + model.positions.weight[:n]
        output, table = plain_self_attention(x)
        assert torch.allclose(weights[i, :n], table[-1], atol=1e-6)
        assert torch.allclose(logits[i], model.head(output[-1]), atol=1e-6)
    assert torch.allclose(weights.sum(dim=1), torch.ones(3))
    assert torch.equal(weights > 0, torch.arange(5) < LENGTHS[:, None])


def test_at_the_start_every_token_looks_at_all_nearly_evenly() -> None:
    torch.manual_seed(0)
    model = AttentionClassifier(50, 32, max_length=40)
    ids = torch.randint(4, 50, (16, 40))
    _, weights = model(ids, torch.full((16,), 40), return_weights=True)
    assert weights.min() > 1 / 80 and weights.max() < 1 / 15


@pytest.mark.parametrize(
    ("ids", "lengths", "said"),
    [
        (
            torch.zeros(3, dtype=torch.long),
            LENGTHS,
            r"ids must have a shape \(b, n\), .*; got \(3,",
        ),
        (torch.zeros(3, 0, dtype=torch.long), LENGTHS, r"ids must have a shape \(b, n\)"),
        (torch.zeros(3, 5), LENGTHS, r"ids must be an array of whole numbers of shape \(b, n\)"),
        (IDS.bool(), LENGTHS, "ids must be an array of whole numbers .*; got bool"),
        (IDS.to(torch.complex64), LENGTHS, "ids must be an array of whole .*; got complex64"),
        ([[4, 5]], LENGTHS, "ids must be an array of whole numbers .* got list"),
        (IDS.numpy(), LENGTHS, "ids must be a tensor of PyTorch"),
        (IDS.to(torch.uint8), LENGTHS, r"ids must be int32 or int64 of shape \(b, n\); got uint8"),
        (IDS + 3, LENGTHS, "ids must be from 0 to 11; got 12"),
        (IDS - 1, LENGTHS, "ids must be from 0 to 11; got -1"),
        (IDS, torch.tensor([5, 3]), "lengths must have one entry for each of the 3 rows"),
        (IDS, torch.tensor(5), "lengths must have one entry for each of the 3 rows"),
        (IDS, [5, 3, 1], r"lengths must be an array of whole numbers of shape \(b,\); got list"),
        (IDS, LENGTHS.bool(), "lengths must be an array of whole numbers .*; got bool"),
        (IDS, LENGTHS.to(torch.complex64), "lengths must be an array of whole .*; got complex64"),
        (
            IDS,
            LENGTHS.to(torch.uint8),
            r"lengths must be int32 or int64 of shape \(b,\); got uint8",
        ),
        (IDS, torch.tensor([5, 3, 0]), r"lengths must be whole numbers from 1 to 5; got \[5, 3, 0"),
        (IDS, torch.tensor([6, 3, 1]), r"lengths must be whole numbers from 1 to 5; got \[6, 3, 1"),
        (IDS, torch.tensor([5.0, 3.0, 1.0]), "lengths must be an array of whole numbers"),
    ],
)
def test_a_batch_that_does_not_fit_says_what_is_wrong(ids: Any, lengths: Any, said: str) -> None:
    for model in models().values():
        with pytest.raises(ValueError, match=f"^{said}"):
            model(ids, lengths)


@pytest.mark.parametrize("name", models())
def test_ids_and_lengths_of_32_bits_will_do(name: str) -> None:
    model = models()[name]
    assert torch.equal(model(IDS, LENGTHS), model(IDS.int(), LENGTHS.int()))


def test_a_sentence_longer_than_the_learned_positions_is_refused() -> None:
    ids: Tensor = torch.ones(1, 6, dtype=torch.long)
    with pytest.raises(ValueError, match=r"^ids must have at most 5 tokens a row; got 6$"):
        models()["attention"](ids, torch.tensor([6]))


@pytest.mark.parametrize("name", ["vocab_size", "d_model", "max_length"])
def test_a_size_below_one_is_named(name: str) -> None:
    sizes = {"vocab_size": 5, "d_model": 4, "max_length": 3, name: 0}
    with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1; got 0$"):
        AttentionClassifier(**sizes)
    sizes.pop("max_length")
    if 0 in sizes.values():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            GruClassifier(**sizes)
