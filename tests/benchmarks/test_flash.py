from __future__ import annotations

import pytest

from benchmarks import flash


def test_the_benchmark_of_tiles_times_and_weighs_every_rival(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = flash.main(lengths=(2, 3), n_heads=1, d_head=2, blocks=(1, 2), seconds=0.0)
    assert list(results) == ["n = 2", "n = 2, bytes", "n = 3", "n = 3, bytes"]
    for result in results.values():
        assert len(result) == 4
        assert min(result.values()) > 0
    assert capsys.readouterr().out.count("tiles of 2") == 2
