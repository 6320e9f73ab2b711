from __future__ import annotations

import pytest

from benchmarks import encoders
from course_lib.tokenizers.byte_level import ByteLevelBPE


def test_the_benchmark_of_encoders_times_all_rivals_and_weighs_a_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = encoders.main(seconds=0.0, n_characters=500, megabytes=0.01)
    assert len(results["GPT-2"]) == 5
    assert min(results["GPT-2"].values()) > 0
    assert 0 < results["stream"]["bytes at the peak"] < 1_000_000
    printed = capsys.readouterr().out
    assert printed.count("MB/s") == 5
    assert "tiktoken" in printed


def test_a_cold_encoder_has_forgotten_what_it_met() -> None:
    tokenizer = ByteLevelBPE([])
    tokenizer.encode("before")
    assert encoders._cold(tokenizer, "after") == tokenizer.encode("after")
    assert list(tokenizer._cache.recent) == ["after"]


def test_the_peak_of_a_stream_counts_what_is_kept() -> None:
    class Hoarder(ByteLevelBPE):
        def encode_iterable(self, chunks, allowed_special="all"):  # type: ignore[no-untyped-def]
            kept = list(chunks)
            yield from map(len, kept)

    text = "many words, one a line\n" * 100
    hoarded = encoders.peak_of_stream(Hoarder([]), text, 1.0)
    assert hoarded > 1_000_000
    assert encoders.peak_of_stream(ByteLevelBPE([]), text, 1.0) < hoarded / 2
