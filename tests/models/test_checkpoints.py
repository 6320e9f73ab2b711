"""Checkpoints that transformers writes are read, whole or in parts, and broken ones are named."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from course_lib.models.checkpoints import load_checkpoint, read_checkpoint
from course_lib.models.decoder_only import DecoderOnly
from course_lib.models.encoder_only import EncoderOnly
from course_lib.models.weights import read_safetensors
from tests.models.decoder_peers import ROPES, randomise, texts

PEERS: dict[str, tuple[type[PreTrainedModel], Any]] = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        vocab_size=30, n_positions=16, n_embd=12, n_layer=2, n_head=3)),
    "llama": (LlamaForCausalLM, LlamaConfig(
        vocab_size=30, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, **ROPES["llama3"]})),
    "llama, tied": (LlamaForCausalLM, LlamaConfig(
        vocab_size=30, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=True)),
    "bert": (BertModel, BertConfig(
        vocab_size=30, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20, max_position_embeddings=16)),
}  # fmt: skip


def written(folder: Path, name: str, **options: Any) -> PreTrainedModel:
    """Let transformers write a model with random weights, and return the model."""
    kind, config = PEERS[name]
    model = kind(config).eval()
    randomise(model, 0)
    model.save_pretrained(folder, **options)
    return model


def assert_equal_outputs(ours: DecoderOnly | EncoderOnly, theirs: PreTrainedModel) -> None:
    ids = texts(30, [12, 12], 12, "right")
    with torch.no_grad():
        output = theirs(ids)
        expected = getattr(output, "logits", None)
        expected = output.last_hidden_state if expected is None else expected
        torch.testing.assert_close(ours(ids), expected, atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("parts", [False, True])
def test_a_checkpoint_that_transformers_writes_gives_its_outputs(
    tmp_path: Path, name: str, parts: bool
) -> None:
    theirs = written(tmp_path, name, max_shard_size="5KB" if parts else "1GB")
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == parts
    ours = load_checkpoint(tmp_path)
    assert isinstance(ours, EncoderOnly if name == "bert" else DecoderOnly)
    assert_equal_outputs(ours, theirs)
    again = load_checkpoint(str(tmp_path))
    for key, tensor in ours.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key])


def test_a_half_precision_checkpoint_stays_in_half(tmp_path: Path) -> None:
    kind, config = PEERS["llama"]
    kind(config).to(torch.bfloat16).save_pretrained(tmp_path)
    ours = load_checkpoint(tmp_path)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    assert ours(torch.tensor([[3, 4]])).isfinite().all()


def test_a_repository_of_the_hub_is_fetched_by_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = written(tmp_path, "gpt2")
    asked: list[tuple[str, list[str]]] = []

    def snapshot_download(repo_id: str, allow_patterns: list[str]) -> str:
        asked.append((repo_id, allow_patterns))
        return str(tmp_path)

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert_equal_outputs(load_checkpoint(repo_id="owner/name"), theirs)
    ((repo_id, patterns),) = asked
    assert repo_id == "owner/name"
    assert "config.json" in patterns
    assert not any("bin" in pattern or pattern == "*" for pattern in patterns)  # no pickles
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match="pip install huggingface_hub"):
        load_checkpoint(repo_id="owner/name")


def test_the_real_packages_function_takes_what_we_pass() -> None:
    import inspect

    from huggingface_hub import snapshot_download

    inspect.signature(snapshot_download).bind("owner/name", allow_patterns=["config.json"])


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
    tensors = {str(kind): (10 * torch.randn(3, 4)).abs().to(kind) for kind in kinds}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    found = read_safetensors(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


HEADER = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
BROKEN = {
    "nothing": b"",
    "a header that is longer than the file": struct.pack("<Q", 99),
    "no JSON": struct.pack("<Q", 9) + b"{nonsense",
    "cut off": struct.pack("<Q", 54)
    + b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}1234',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=r"^path must be a file of safetensors; x\.safetensors: "):
        read_safetensors(tmp_path / "x.safetensors")


def test_what_reads_the_files_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ModuleNotFoundError, match="pip install safetensors"):
        read_safetensors(tmp_path / "x.safetensors")


def test_a_folder_without_its_files_says_which(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json must be JSON"),
        ("[]", "config.json must hold a JSON object; got list"),
        ("{}", "config must say its model_type; got None"),
        ('{"model_type": "t5"}', "config.json must have a model_type among bert, gpt2, llama; got"),
    ],
)
def test_a_configuration_that_is_none_is_named(tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, "gpt2")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        load_checkpoint(tmp_path)


def test_an_index_that_does_not_fit_its_parts_is_named(tmp_path: Path) -> None:
    written(tmp_path, "gpt2", max_shard_size="5KB")
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    places = index["weight_map"]
    names = sorted(places)
    read_checkpoint(tmp_path)

    def fails(changed: Any, message: str, error: type[Exception] = ValueError) -> None:
        path.write_text(json.dumps(changed))
        with pytest.raises(error, match=message):
            read_checkpoint(tmp_path)

    fails({}, r"^model.safetensors.index.json must have a weight_map; got None")
    fails({"weight_map": {**places, "ghost": places[names[0]]}}, r"ghost isn't in model-")
    rest = {name: places[name] for name in names[1:]}
    fails({"weight_map": rest}, rf"{re.escape(names[0])} is in model-.*, not in None")
    fails({"weight_map": {**places, "x": "gone.safetensors"}}, "gone", FileNotFoundError)
    fails({"weight_map": {"x": "../x.safetensors"}}, "must name files of its own folder")


@pytest.mark.parametrize("given", [{}, {"folder": "x", "repo_id": "owner/name"}])
def test_a_folder_or_a_repository_is_given_and_not_both(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^folder or repo_id must be given, and not both; got"):
        load_checkpoint(**given)
