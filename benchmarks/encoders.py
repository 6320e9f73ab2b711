"""Encoding with GPT-2's vocabulary: the course's pure Python, tiktoken and tokenizers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import partial

from benchmarks.timing import compare, show
from course_lib.data.python_docs import python_docs
from course_lib.tokenizers.byte_level import ByteLevelBPE
from course_lib.tokenizers.gpt2 import gpt2
from tests.tokenizers import gpt2_files


def main(
    seconds: float = 10.0, n_characters: int | None = None, megabytes: float = 100.0
) -> dict[str, dict[str, float]]:
    """Compare on Python's reference manual, and measure the memory of a stream.

    Parameters
    ----------
    seconds : float, default 10.0
        How long to measure.
    n_characters : int, optional
        How much of the text is encoded; all of it where left out.
    megabytes : float, default 100.0
        How much is streamed. It takes about two seconds a megabyte, most of them for counting
        memory.

    Returns
    -------
    dict of dicts
        Median seconds a call, by rival; and of the stream, bytes at the peak above the vocabulary.
    """
    text = python_docs()[:n_characters]
    size = len(text.encode()) / 1e6
    ours = gpt2()
    expected = ours.encode(text)
    assert expected == gpt2_files.peer().encode(text).ids
    assert expected == gpt2_files.tiktoken_peer().encode_ordinary(text)
    rivals = {
        "tiktoken": partial(gpt2_files.tiktoken_peer().encode_ordinary, text),
        "tokenizers": lambda: gpt2_files.peer().encode(text).ids,
        "course_lib, warm": partial(ours.encode, text),
        "course_lib, cold": partial(_cold, ours, text),
        "course_lib, a stream of lines": lambda: sum(
            1 for _ in ours.encode_iterable(text.splitlines(keepends=True))
        ),
    }
    result = compare(rivals, seconds)
    show(f"Encoding {size:.2f} MB with GPT-2's vocabulary", result)
    for name, value in result.items():
        print(f"  {name:46} {size / value:9.2f} MB/s")
    peak = peak_of_stream(ours, text, megabytes)
    print(f"\nStreaming {megabytes:g} MB: {peak / 1e6:.2f} MB at the peak above the vocabulary")
    return {"GPT-2": result, "stream": {"bytes at the peak": float(peak)}}


def peak_of_stream(tokenizer: ByteLevelBPE, text: str, megabytes: float) -> int:
    """Return the bytes that a stream takes at its peak, above what was there before.

    Parameters
    ----------
    tokenizer : ByteLevelBPE
    text : str
        Repeated, its words changed each time: a cache without a bound would show.
    megabytes : float
        How much of UTF-8 is streamed.

    Returns
    -------
    int
    """
    lines = text.splitlines(keepends=True)

    def changing() -> Iterator[str]:
        done, turn = 0.0, 0
        while True:
            for line in lines:
                changed = line.replace("e", chr(0x4E00 + turn % 0x5000))
                yield changed
                done += len(changed.encode())
                if done >= 1e6 * megabytes:
                    return
            turn += 1

    tracemalloc.start()
    try:
        for _ in tokenizer.encode_iterable(changing()):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _cold(tokenizer: ByteLevelBPE, text: str) -> list[int]:
    """Encode as if no pre-token had been met yet; building a tokenizer is not in the time."""
    tokenizer.forget()
    return tokenizer.encode(text)
