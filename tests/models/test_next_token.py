"""A language model's loss is that of its single predictions, and training on it teaches a text."""

from __future__ import annotations

import pytest
import torch

from course_lib.models.decoder_only import DecoderOnly, gpt2, llama
from course_lib.training import next_token_loss, train


def model(seed: int = 0) -> DecoderOnly:
    torch.manual_seed(seed)
    return DecoderOnly(llama(11, 16, 2, 4, 40, 12, n_kv_heads=2))


@pytest.mark.parametrize("ignore", [None, 0])
def test_the_loss_is_the_mean_over_predictions_one_by_one(ignore: int | None) -> None:
    m, ids = model().double(), torch.tensor([[3, 5, 4, 7], [6, 6, 0, 0]])
    loss, accuracy = next_token_loss(m, ids, ignore)
    losses, hits = [], []
    for row in ids:
        for t in range(1, 4):
            if ignore is None or row[t] != ignore:
                log_p = m(row[None, :t])[0, -1].log_softmax(-1)
                losses.append(-log_p[row[t]])
                hits.append(float(log_p.argmax() == row[t]))
    torch.testing.assert_close(loss, torch.stack(losses).mean())
    assert accuracy == pytest.approx(sum(hits) / len(hits))
    assert len(hits) == (6 if ignore is None else 4)


def test_a_model_learns_a_text_by_heart() -> None:
    text = torch.tensor([[3, 4, 3, 5, 3, 6, 3, 7]])
    for config in (llama(11, 16, 1, 4, 40, 12), gpt2(11, 16, 1, 4, 12)):
        torch.manual_seed(0)
        m = DecoderOnly(config)
        history = train(
            m, lambda step: text, next_token_loss, steps=150, lr=1e-2, progress=False
        )  # fmt: skip
        assert history.losses[-1] < 0.1 < 2.0 < history.losses[0]
        assert history.accuracies[-1] == 1.0


@pytest.mark.parametrize(
    ("ids", "ignore", "message"),
    [
        (torch.ones(2, 3), None, "ids must be an array of whole numbers"),
        (torch.tensor([1, 2]), None, r"ids must have a shape \(b, n \+ 1\)"),
        (torch.tensor([[1], [2]]), None, r"ids must have a shape .* got \(2, 1\)"),
        (torch.tensor([[1, 0], [2, 0]]), 0, "ids must hold a token to predict other than ignore ="),
        (torch.tensor([[1, 2]]), -1, "ignore must be a whole number of at least 0; got -1"),
    ],
)
def test_bad_input_is_named(ids: torch.Tensor, ignore: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        next_token_loss(model(), ids, ignore)
