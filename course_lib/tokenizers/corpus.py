"""From a text, or a file of any size, to a trained tokenizer.

A trainer needs of a text only its distinct pre-tokens and how often each occurs. They are counted
chunk by chunk, in one process or several, so that neither the text nor all its pre-tokens are in
memory at once.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import regex  # type: ignore[import-untyped,unused-ignore]

from course_lib.progress_bar import progress_bar
from course_lib.tokenizers.bpe import Ties, train
from course_lib.tokenizers.byte_level import GPT2_PATTERN, ByteLevelBPE
from course_lib.validation import check_at_least, check_several, check_text

__all__ = ["count_pretokens", "train_bpe"]

# A letter or digit before white space: no pre-token of GPT-2's pattern, or of its successors,
# reaches across, and none depends on what is on the other side.
_PAUSE = regex.compile(r"(?<=[\p{L}\p{N}])(?=\s)")
# So far may a pattern look beyond the end of a match. GPT-2's longest look is 'll.
_LOOKAHEAD = 16
_TAIL = 4096  # characters in which a pause is looked for


def count_pretokens(
    source: str | os.PathLike[str],
    pattern: str = GPT2_PATTERN,
    special_tokens: Iterable[str] = (),
    processes: int = 1,
    chunk_bytes: int = 2**18,
    progress: bool = False,
) -> dict[bytes, int]:
    """Count the pre-tokens of a text or of a file: what a pattern finds between special tokens.

    Chunks end where the pattern has a border whatever follows, and are counted in their order, so
    that neither their size nor the number of processes changes the result.

    Parameters
    ----------
    source : str or os.PathLike
        A string is the text itself. A path (``pathlib.Path``) is that of a file in UTF-8, whose
        line ends are kept as they are. It is read in chunks: memory holds a few of them and the
        distinct pre-tokens.
    pattern : str, default GPT2_PATTERN
        A regular expression of the package ``regex``. It must not look back, nor more than
        16 characters beyond the end of what it matches, nor match or look across the border
        between a letter or digit and white space. GPT-2's and its successors' don't.
    special_tokens : iterable of str, default ()
        Cut out of the text first, the longest first where several fit, and not counted.
    processes : int, default 1
        How many processes count. More than one are worth it from some 10 MB on. A program that
        asks for several must start under ``if __name__ == "__main__"``.
    chunk_bytes : int, default 2**18
        How much is read at a time; for a string, in characters. A chunk grows beyond it only while
        a single pre-token does. Each process takes some 40 times as much while it counts a chunk.
    progress : bool, default False
        Show a bar over what has been counted, in bytes.

    Returns
    -------
    dict of bytes to int
        The pre-tokens in UTF-8, in the order in which the text has them.

    Raises
    ------
    ValueError
        If an argument isn't as described, or the text can't be read or written as UTF-8.
    FileNotFoundError
        If there is no file at the path.

    References
    ----------
    Radford, Wu, Child, Luan, Amodei, Sutskever: "Language Models are Unsupervised Multitask
    Learners" (2019), section 2.2, on merges that don't reach across categories of characters.

    Examples
    --------
    >>> count_pretokens("hug the pug, hug<|end|>hug", special_tokens=["<|end|>"])
    {b'hug': 2, b' the': 1, b' pug': 1, b',': 1, b' hug': 1}
    """
    specials = _check_special_tokens(special_tokens)
    compiled = _compile(pattern)
    check_at_least("processes", processes, 1)
    check_at_least("chunk_bytes", chunk_bytes, 1)
    if not isinstance(source, str | os.PathLike):
        raise ValueError(
            f"source must be a string, or the path of a file; got {type(source).__name__}"
        )
    if isinstance(source, str):
        _utf8("source", source)
        parts: Iterator[str] = (
            source[i : i + chunk_bytes] for i in range(0, len(source), chunk_bytes)
        )
        total = len(source.encode())
    else:
        parts = _read(source, chunk_bytes)
        total = os.stat(source).st_size
    chunks = _chunks(parts, compiled, specials, chunk_bytes)
    counts: Counter[str] = Counter()
    bar = progress_bar(total) if progress else None
    try:
        for chunk, found in _counted(chunks, pattern, specials, processes):
            counts.update(found)  # keeps the order in which keys came
            if bar is not None:
                bar.update(len(chunk.encode()))
    finally:
        if bar is not None:
            bar.close()
    return {pretoken.encode(): n for pretoken, n in counts.items()}


def train_bpe(
    source: str | os.PathLike[str],
    vocab_size: int,
    special_tokens: Iterable[str] = (),
    *,
    ties: Ties = "first",
    min_count: int = 1,
    processes: int = 1,
    chunk_bytes: int = 2**18,
    progress: bool = False,
) -> ByteLevelBPE:
    """Train a byte-level BPE tokenizer on a text or on a file, split by GPT-2's pattern.

    Parameters
    ----------
    source : str or os.PathLike
        A string is the text itself, a path that of a file in UTF-8, as in `count_pretokens`.
    vocab_size : int
        256 bytes, the special tokens, and merges up to this size. Where pairs run out earlier, the
        vocabulary is smaller.
    special_tokens : iterable of str, default ()
        They get the last ids, and nothing is merged across them.
    ties : {"first", "greatest"}, default "first"
        Which of several equally frequent pairs is merged: the one that is met first in the text's
        distinct pre-tokens, in the order of their first occurrence and as they are cut at that
        moment, or the lexicographically greatest pair of byte strings.
    min_count : int, default 1
        Learn no merge of a pair that is rarer than this.
    processes : int, default 1
        How many processes count pre-tokens.
    chunk_bytes : int, default 2**18
        How much of a file is read at a time.
    progress : bool, default False
        Show a bar while counting and another while merging.

    Returns
    -------
    ByteLevelBPE

    Raises
    ------
    ValueError
        If an argument isn't as described, `vocab_size` has no room for bytes and special tokens,
        or the text can't be read or written as UTF-8.
    FileNotFoundError
        If there is no file at the path.

    References
    ----------
    Radford, Wu, Child, Luan, Amodei, Sutskever: "Language Models are Unsupervised Multitask
    Learners" (2019), section 2.2.

    Examples
    --------
    >>> tokenizer = train_bpe("hug hug hugs", 259)
    >>> tokenizer.merges
    ((b'h', b'u'), (b'hu', b'g'), (b' ', b'hug'))
    """
    specials = _check_special_tokens(special_tokens)
    smallest = 256 + len(specials)
    check_at_least("vocab_size", vocab_size, smallest)
    ByteLevelBPE([], specials)  # refuses what it would refuse after all the work
    words = count_pretokens(
        source, GPT2_PATTERN, specials, processes, chunk_bytes=chunk_bytes, progress=progress
    )
    merges = train(words, vocab_size - smallest, ties=ties, min_count=min_count, progress=progress)
    return ByteLevelBPE(merges, specials)


def _read(path: os.PathLike[str], chunk_bytes: int) -> Iterator[str]:
    """Yield the text of a file piece by piece. A character cut by a border waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") as file:
        read = 0
        while True:
            data = file.read(chunk_bytes)
            try:
                yield decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"source must be a file in UTF-8; near byte {read} of {os.fspath(path)}: "
                    f"{error.reason}"
                ) from None
            if not data:
                return
            read += len(data)


def _chunks(
    parts: Iterator[str], pattern: Any, specials: tuple[str, ...], size: int
) -> Iterator[str]:
    """Glue the parts of a text and cut them again where pre-tokens end."""
    special = _special_pattern(specials)
    longest = max(map(len, specials), default=1)
    buffer = ""
    wanted = size
    for part in parts:
        buffer += part
        if len(buffer) < wanted:
            continue
        cut = _cut(buffer, pattern, special, longest)
        if cut:
            yield buffer[:cut]
            buffer = buffer[cut:]
            wanted = size
        else:  # one long pre-token: look again when there is twice as much, not at every part
            wanted = 2 * len(buffer)
    if buffer:
        yield buffer


def _cut(text: str, pattern: Any, special: Any, longest: int) -> int:
    """Return a place at which pre-tokens end whatever follows the text, or 0 where there is none.

    Up to `limit` it is known where special tokens begin: what follows the text can't add one.
    """
    limit = len(text) - (longest - 1)
    border = 0
    if special is not None:
        for match in special.finditer(text):
            if match.start() >= limit:
                break
            border = match.end()
    if border < limit:
        start = max(border, limit - _TAIL)
        pauses = [match.start() for match in _PAUSE.finditer(text, start, limit)]
        if pauses and pauses[-1] > border:
            return pauses[-1]
        return _end_of_match(text, pattern, border, limit)
    return border


def _end_of_match(text: str, pattern: Any, border: int, limit: int) -> int:
    """Return the end of a late match that is there with and without what follows, or `border`.

    A run of spaces before a word loses its last one to the word. With nothing behind it, it would
    keep it: so an end at which the last matches are others when the text is cut there won't do.
    """
    late: deque[tuple[int, int]] = deque(maxlen=4 * _LOOKAHEAD)
    for match in pattern.finditer(text, border, limit):
        if match.end() + _LOOKAHEAD > limit:
            break
        if match.group():
            late.append(match.span())
    spans = list(late)
    while spans:
        cut = spans[-1][1]
        near = [span for span in spans if span[1] + _LOOKAHEAD > cut]
        start = near[0][0]
        alone = [m.span() for m in pattern.finditer(text[start:cut]) if m.group()]
        if [(start + a, start + b) for a, b in alone] == near:
            return cut
        spans.pop()
    return border


def _counted(
    chunks: Iterator[str], pattern: str, specials: tuple[str, ...], processes: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each chunk and its pre-tokens' counts, in the order of the chunks."""
    if processes == 1:
        for chunk in chunks:
            yield chunk, _count_chunk(chunk, pattern, specials)
        return
    # Started anew rather than forked: a fork of a program with threads, as PyTorch's, may hang.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting: deque[tuple[str, Future[dict[str, int]]]] = deque()
        try:
            for chunk in chunks:
                waiting.append((chunk, pool.submit(_count_chunk, chunk, pattern, specials)))
                if len(waiting) >= 2 * processes:  # reading must not run ahead of counting
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def _count_chunk(chunk: str, pattern: str, specials: tuple[str, ...]) -> dict[str, int]:
    """Count the pre-tokens of one chunk, in the order in which it has them."""
    compiled = regex.compile(pattern)  # the package keeps what it has compiled
    special = _special_pattern(specials)
    counts: Counter[str] = Counter()
    for text in [chunk] if special is None else special.split(chunk):
        if compiled.groups:
            counts.update(match.group() for match in compiled.finditer(text))
        else:
            counts.update(compiled.findall(text))
    counts.pop("", None)
    return dict(counts)


def _special_pattern(specials: tuple[str, ...]) -> Any:
    if not specials:
        return None
    return regex.compile("|".join(map(regex.escape, sorted(specials, key=len, reverse=True))))


def _compile(pattern: Any) -> Any:
    check_text("pattern", pattern)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"pattern must be a regular expression; {error}: {pattern!r}") from None


def _check_special_tokens(special_tokens: Any) -> tuple[str, ...]:
    check_several("special_tokens", special_tokens, "an iterable of strings")
    specials = tuple(special_tokens)
    for token in specials:
        check_text("a token of special_tokens", token)
        _utf8("a token of special_tokens", token)
        if not token:
            raise ValueError("special_tokens must not hold an empty string")
    if len(set(specials)) < len(specials):
        raise ValueError(f"special_tokens must be distinct; got {specials!r}")
    return specials


def _utf8(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} must be text that UTF-8 can write; "
            f"got the lone surrogate {text[error.start]!r} at {error.start}"
        ) from None
