"""Training of BPE: the course's two trainers against that of the package tokenizers (Rust)."""

from __future__ import annotations

import time
from functools import partial
from pydoc_data.topics import topics

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks.timing import compare, show
from course_lib.tokenizers.bpe import train_naive
from course_lib.tokenizers.corpus import count_pretokens, train_bpe


def main(
    vocab_sizes: tuple[int, ...] = (512, 4096),
    text: str | None = None,
    seconds: float = 4.0,
    naive: bool = True,
) -> dict[str, dict[str, float]]:
    """Compare from text to merges, splitting into pre-tokens included.

    Parameters
    ----------
    vocab_sizes : tuple of ints, default (512, 4096)
    text : str, optional
        Where left out, all of the standard library's ``pydoc_data.topics``.
    seconds : float, default 4.0
        How long to measure at each size.
    naive : bool, default True
        Time the naive trainer too: a single time, since it takes up to a minute.

    Returns
    -------
    dict of dicts
        Median seconds a call, by vocabulary size and by rival.
    """
    if text is None:
        text = "\n".join(topics[name] for name in sorted(topics))
    results = {}
    for size in vocab_sizes:
        result = compare(
            {
                "tokenizers, BpeTrainer": partial(_train_with_package, text, size),
                "course_lib.tokenizers, train": partial(train_bpe, text, size),
                "of which count_pretokens": partial(count_pretokens, text),
            },
            seconds,
        )
        if naive:
            start = time.perf_counter()
            train_naive(count_pretokens(text), size - 256)
            result["course_lib.tokenizers, train_naive (once)"] = time.perf_counter() - start
        show(f"training on {len(text):,} characters, vocabulary of {size:,}", result)
        results[f"vocabulary = {size}"] = result
    return results


def _train_with_package(text: str, vocab_size: int) -> Tokenizer:
    """Train byte-level BPE as GPT-2's with the package, with as many threads as it takes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer
