from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch

from course_lib.models.language_model import WindowLanguageModel
from course_lib.reference.language_modelling import cross_entropy

SIZES = {"vocab_size": 11, "context": 3, "d_model": 4, "d_hidden": 5}


def test_it_is_the_formula_of_the_paper_in_numpy() -> None:
    torch.manual_seed(0)
    model = WindowLanguageModel(**SIZES)
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}
    ids = torch.randint(0, 11, (6, 3))
    x = w["embedding.weight"][ids.numpy()].reshape(6, 12)
    hidden = np.tanh(x @ w["hidden.weight"].T + w["hidden.bias"])
    logits = hidden @ w["output.weight"].T + w["output.bias"]
    assert np.allclose(model(ids).detach(), logits, atol=1e-6)


def test_the_order_of_the_tokens_counts() -> None:
    torch.manual_seed(0)
    model = WindowLanguageModel(**SIZES)
    a, b = model(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    assert not torch.allclose(a, b, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("vocab_size", [50, 2000])
def test_a_new_model_is_about_as_unsure_as_the_uniform_one(vocab_size: int, seed: int) -> None:
    torch.manual_seed(seed)
    model = WindowLanguageModel(vocab_size, context=5, d_model=64, d_hidden=128)
    ids, targets = torch.randint(0, vocab_size, (500, 5)), torch.randint(0, vocab_size, (500,))
    loss = cross_entropy(model(ids).detach().numpy(), targets.numpy())
    assert loss == pytest.approx(log(vocab_size), rel=0.05)


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    model = WindowLanguageModel(**SIZES, dropout=0.5)
    ids = torch.tensor([[4, 5, 6]])
    assert not torch.equal(model(ids), model(ids))
    model.eval()
    assert torch.equal(model(ids), model(ids))


def test_a_batch_gives_what_its_members_give_one_by_one() -> None:
    torch.manual_seed(0)
    model = WindowLanguageModel(**SIZES)
    ids = torch.randint(0, 11, (6, 3))
    one_by_one = torch.cat([model(row[None]) for row in ids])
    assert torch.allclose(model(ids), one_by_one, atol=1e-6)


def test_ids_of_32_bits_are_ids() -> None:
    model = WindowLanguageModel(**SIZES)
    ids = torch.randint(0, 11, (6, 3))
    assert torch.equal(model(ids), model(ids.int()))


def test_it_counts_the_parameters_that_the_text_counts() -> None:
    model = WindowLanguageModel(**SIZES)
    counted = sum(p.numel() for p in model.parameters())
    assert counted == 11 * 4 + (3 * 4 + 1) * 5 + (5 + 1) * 11


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: WindowLanguageModel(0, 3, 4, 5), "vocab_size must be a whole number"),
        (lambda: WindowLanguageModel(9, 0, 4, 5), "context must be a whole number"),
        (lambda: WindowLanguageModel(9, 3, 4, 5, dropout=1.0), "dropout must be at least 0"),
        (
            lambda: WindowLanguageModel(**SIZES)(torch.zeros(2, 4, dtype=torch.int64)),
            r"ids must have the shape \(b, 3\); got int64 of shape \(2, 4\)",
        ),
        (lambda: WindowLanguageModel(**SIZES)(torch.zeros(2, 3)), "ids must be an array of whole"),
        (
            lambda: WindowLanguageModel(**SIZES)(torch.ones(2, 3, dtype=torch.uint8)),
            r"ids must be int32 or int64 of shape \(b, context\); got uint8 of shape \(2, 3\)",
        ),
        (
            lambda: WindowLanguageModel(**SIZES)(torch.ones(2, 3, dtype=torch.int16)),
            "ids must be int32 or int64",
        ),
        (
            lambda: WindowLanguageModel(**SIZES)(torch.ones(2, 3, dtype=torch.bool)),
            "ids must be an array of whole numbers",
        ),
        (
            lambda: WindowLanguageModel(**SIZES)(torch.full((1, 3), 11)),
            "ids must be from 0 to 10; got 11",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(call, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        call()
