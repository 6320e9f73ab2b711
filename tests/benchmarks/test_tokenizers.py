from __future__ import annotations

import pytest

from benchmarks import tokenizers


def test_the_benchmark_of_training_times_all_rivals_at_each_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = tokenizers.main(vocab_sizes=(258, 260), text="hug the pug, hugs", seconds=0.0)
    assert list(results) == ["vocabulary = 258", "vocabulary = 260"]
    for result in results.values():
        assert len(result) == 4
        assert min(result.values()) > 0
    assert capsys.readouterr().out.count("train_naive (once)") == 2


def test_the_benchmark_leaves_the_slow_trainer_out_where_it_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (result,) = tokenizers.main((258,), "hug the pug", 0.0, naive=False).values()
    assert len(result) == 3
    assert "naive" not in capsys.readouterr().out


def test_the_rivals_of_the_benchmark_learn_equally_many_merges() -> None:
    text = "hug the pug, hugs and more hugs"
    ours = tokenizers.train_bpe(text, 262)
    assert tokenizers._train_with_package(text, 262).get_vocab_size() == len(ours) == 262
