from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import attention, decoding, recurrent
from benchmarks.timing import compare


def test_the_benchmark_of_attention_times_all_three_at_each_length(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = attention.main(lengths=(2, 3), n_heads=1, d_head=2, seconds=0.0)
    assert list(results) == ["n = 2", "n = 3"]
    for result in results.values():
        assert len(result) == 3
        assert min(result.values()) > 0
    assert capsys.readouterr().out.count("course_lib.blocks") == 2


def test_the_benchmark_of_recurrence_times_all_four_at_each_length(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = recurrent.main(lengths=(2, 3), d=2, seconds=0.0)
    assert list(results) == ["n = 2", "n = 3"]
    for result in results.values():
        assert len(result) == 4
        assert min(result.values()) > 0
    assert capsys.readouterr().out.count("torch.nn.GRU") == 2


def test_the_benchmark_of_decoding_times_both_ways_and_the_peer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = decoding.main(
        lengths=(2, 4), d_model=16, n_layers=1, vocab_size=99, peer_length=3, seconds=0.0
    )
    assert list(results) == ["T = 2", "T = 4", "exponents", "beam 1", "beam 4"]
    assert list(results["exponents"]) == ["with a cache, 2 to 4", "without, 2 to 4"]
    assert all(min(results[name].values()) > 0 for name in results if name != "exponents")
    assert capsys.readouterr().out.count("transformers, generate") == 2


def test_rivals_are_called_in_turns() -> None:
    calls: list[str] = []
    compare({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, seconds=0.0)
    assert calls == ["a", "b"] * (len(calls) // 2)
    assert len(calls) >= 12  # one to warm up, five to measure


def test_the_command_writes_only_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(attention, "main", lambda: {"n = 2": {"one": 0.5}})
    command.run(["attention"])
    assert list(tmp_path.iterdir()) == []
    command.run(["attention", "--json", "out.json"])
    assert json.loads((tmp_path / "out.json").read_text()) == {"attention": {"n = 2": {"one": 0.5}}}


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.run(["atention"])
    assert "no benchmark is called atention; there are attention" in capsys.readouterr().err
