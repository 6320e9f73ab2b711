from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from benchmarks import training
from course_lib.accounting import count_flops
from course_lib.data.russian_english import split
from course_lib.data.vocabulary import BOS
from course_lib.models.encoder_decoder import EncoderDecoder
from course_lib.training import forced_exact_match, teacher_forced

SIZES = (16, 2, 1, 32)


def test_the_benchmark_of_training_times_both_steps_and_runs_both_recipes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = training.main([(*SIZES, 5, 4, 0.1)], seconds=0.0, steps=60, n_test=20, translators=())
    (step, *recipes) = results
    assert len(results[step]) == 2
    assert min(results[step].values()) > 0
    assert len(recipes) == 2
    for name in recipes:
        assert results[name]["steps"] == 60
        assert results[name]["seconds"] > 0
    printed = capsys.readouterr().out
    assert printed.count("torch.nn.Transformer") == 1
    assert printed.count("not reached") == 2


def test_the_benchmark_trains_a_translator_from_each_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "split", lambda *numbers, seed: split(500, 20, 20, seed=seed))
    monkeypatch.setattr(training, "RECIPES", {})
    results = training.main([], steps=2, translators=(3, 5))
    assert list(results) == ["translation 3", "translation 5"]
    for result in results.values():
        assert result["steps"] == 2
        assert {"unseen", "held-out"} <= set(result)
    assert capsys.readouterr().out.count("held-out 0.00%") == 2


def test_the_peer_does_the_work_that_ours_does_and_normalises_twice_more() -> None:
    peer, ours = training.Peer(9, *SIZES, 0.0), EncoderDecoder(9, 9, *SIZES, dropout=0.0)
    src, lengths = torch.randint(3, 9, (3, 5)), torch.tensor([5, 2, 3])
    tgt_in = torch.randint(3, 9, (3, 4))
    tgt_in[:, 0] = BOS
    logits = peer(src, lengths, tgt_in)
    assert logits.shape == ours(src, lengths, tgt_in).shape
    assert count_flops(peer, src, lengths, tgt_in) == count_flops(ours, src, lengths, tgt_in)
    numbers = [sum(p.numel() for p in m.parameters()) for m in (peer, ours)]
    assert numbers[0] - numbers[1] == 4 * SIZES[0]
    # What stands behind a source's length, or later in a target, changes nothing.
    other, later = src.clone(), tgt_in.clone()
    other[1, 2:] = 3
    later[:, 3] = 4
    torch.testing.assert_close(peer(other, lengths, tgt_in), logits)
    torch.testing.assert_close(peer(src, lengths, later)[:, :3], logits[:, :3])


def test_no_string_to_judge_by_was_trained_on() -> None:
    _, examples, unseen = training.strings(n_train=500, n_test=300)
    assert (len(examples), len(unseen)) == (500, 300)
    assert all(target == source[::-1] for source, target in examples + unseen)
    known = {tuple(source) for source, _ in examples}
    assert len(known | {tuple(source) for source, _ in unseen}) == len(known) + 300


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ten_thousand_unseen_strings_are_reversed_without_an_error(seed: int) -> None:
    run = training.learn_reversal(seed, progress=False)
    assert run.history.steps == 600
    assert run.exact_match == {"unseen": 1.0}


@pytest.mark.slow
def test_unseen_sentences_and_new_combinations_are_translated_nearly_all() -> None:
    run = training.learn_translation(seed=0, progress=False)
    assert run.history.steps == 1050
    assert run.exact_match["unseen"] >= 0.99
    assert run.exact_match["held-out"] >= 0.95


def test_a_translator_that_misses_a_goal_is_told_by_name() -> None:
    training.hold({"unseen": 0.99, "held-out": 0.95})
    with pytest.raises(RuntimeError, match=r"^held-out 94\.90% is below 95\.00%$"):
        training.hold({"unseen": 1.0, "held-out": 0.949})


def test_the_recipe_is_held_to_its_goals_with_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    history = training.History([1.0], [], 1, 0.1, False)
    run = SimpleNamespace(history=history, exact_match={"unseen": 1.0, "held-out": 0.5})
    monkeypatch.setattr(training, "RECIPES", {})
    monkeypatch.setattr(training, "learn_translation", lambda seed, **_: run)
    with pytest.raises(RuntimeError, match="held-out"):
        training.main((), translators=[2])
    training.main((), translators=[2], steps=1)


@pytest.mark.slow
def test_a_model_that_writes_on_its_own_writes_what_teacher_forcing_says() -> None:
    run = training.learn_reversal(seed=3, steps=250, n_test=200, progress=False)
    run.model.eval()
    _, _, unseen = training.strings(n_test=200)
    batch = teacher_forced(unseen)
    ids = torch.full((200, 1), BOS)
    with torch.no_grad():
        for _ in range(batch.tgt_out.shape[1]):
            logits = run.model(batch.src, batch.src_lengths, ids)
            ids = torch.cat((ids, logits[:, -1:].argmax(dim=-1)), dim=1)
    right = (ids[:, 1:] == batch.tgt_out).all(dim=1).double().mean().item()
    assert forced_exact_match(run.model, unseen) == pytest.approx(right)
    assert right > 0.5
