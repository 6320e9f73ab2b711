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
from safetensors.torch import load_file, save_file
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


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8",
              "uint8", "bool"]
)  # fmt: skip
def test_every_dtype_and_shape_is_read_as_by_the_package(tmp_path: Path, dtype: str) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    tensors = {
        name: (10 * torch.randn(shape)).abs().to(kind)
        for name, shape in {"a": (3, 4), "b": (), "c": (0, 2), "d": (5,), "e": (1, 2, 3)}.items()
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    ours, theirs = (
        read_safetensors(tmp_path / "x.safetensors"),
        load_file(tmp_path / "x.safetensors"),
    )
    assert set(ours) == set(theirs)
    for name, tensor in theirs.items():
        assert ours[name].dtype == kind
        assert torch.equal(ours[name], tensor)
        ours[name].zero_()  # a copy that may be written to
    assert torch.equal(load_file(tmp_path / "x.safetensors")["a"], tensors["a"])


def file_of(header: Any, numbers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def entry(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


BROKEN = {
    "nothing": (b"", "x.safetensors has no header"),
    "a few bytes": (b"\x05\x00", "x.safetensors has no header"),
    "a header that is longer than the file": (struct.pack("<Q", 99), "x.safetensors has no header"),
    "no JSON": (file_of(b"{nonsense"), "the header of x.safetensors is no JSON object"),
    "a list": (file_of([1, 2]), "the header of x.safetensors is no JSON object"),
    "no dtype": (file_of({"x": {"shape": [2]}}), "its entry of x must have a dtype, a shape and"),
    "no entry": (file_of({"x": 3}), "its entry of x must have a dtype, a shape and data_offsets"),
    "cut off": (file_of(entry(), b"1234"), "the numbers of x, F32 of shape (2,), aren't where"),
    "too few": (file_of(entry(data_offsets=[0, 4]), bytes(8)), "the numbers of x, F32 of shape ("),
    "backwards": (file_of(entry(data_offsets=[8, 0]), bytes(8)), "the numbers of x, F32 of shape "),
    "before the start": (
        file_of(entry(data_offsets=[-8, 0]), bytes(8)), "the numbers of x, F32 of shape (2,)"
    ),
    "a strange dtype": (file_of(entry(dtype="F8_E5M2"), bytes(8)), "got 'F8_E5M2' of x"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=f"^path must be a file .*{re.escape(message)}"):
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
