"""Byte-level BPE as in GPT-2: any string to ids and back without a loss.

A text is split three times: at its special tokens, then by a pattern into pre-tokens (a word with
the space before it, a number, punctuation, white space), and each pre-token into its bytes, which
merges glue together again. No merge reaches across pre-tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex  # type: ignore[import-untyped]

from course_lib.validation import check_several, check_text, each_id, whole_number

__all__ = [
    "ENCODER_JSON_SHA256",
    "END_OF_TEXT",
    "GPT2_PATTERN",
    "VOCAB_BPE_SHA256",
    "ByteLevelBPE",
    "bytes_to_unicode",
    "verified",
]

# The pattern of Radford et al. (2019): endings after an apostrophe; letters, digits or other signs,
# each with at most one space before; white space, without its last character where a word follows.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

END_OF_TEXT = "<|endoftext|>"  # GPT-2's one special token

# What OpenAI published as GPT-2's tokenizer.
VOCAB_BPE_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
ENCODER_JSON_SHA256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"

_PRETOKEN = regex.compile(GPT2_PATTERN)
# How far the pattern looks: the longest ending has three characters ('re), and all that is longer
# is a run that ends where one character of another kind is seen.
_LONGEST_ENDING = 3

_VERSION = "#version: 0.2"
# What the JSON of the tokenizers library says of a plain model, and of a plain special token.
_PLAIN_MODEL = {
    "dropout": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "byte_fallback": False,
    "ignore_merges": False,
}
_PLAIN_TOKEN = {"single_word": False, "lstrip": False, "rstrip": False}
_CACHE_BYTES = 2**24
_STREAM_CACHE_BYTES = 250_000
_BLOCK = 2**12  # characters that a stream gathers before it encodes
_LONG = 64  # bytes from which on a heap is faster than looking at every pair again


def bytes_to_unicode() -> dict[int, str]:
    """Return a printable character for each of the 256 bytes, in the order of GPT-2's ids.

    The files of a tokenizer are text, and not every byte is a character that can be seen there.
    Bytes that are printable in Latin-1 stand for themselves; the other 68, the space among them,
    get the characters from U+0100 on.

    Returns
    -------
    dict of int to str
        256 entries, distinct characters.

    References
    ----------
    Radford, Wu, Child, Luan, Amodei, Sutskever: "Language Models are Unsupervised Multitask
    Learners" (2019), section 2.2.

    Examples
    --------
    >>> table = bytes_to_unicode()
    >>> "".join(table[b] for b in " naïve".encode())
    'ĠnaÃ¯ve'
    >>> list(table.items())[:2], len(table)
    ([(33, '!'), (34, '"')], 256)
    """
    themselves = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(themselves)]
    return {byte: chr(byte) for byte in themselves} | {
        byte: chr(0x100 + i) for i, byte in enumerate(others)
    }


_CHARACTER = bytes_to_unicode()
_BYTE = {character: byte for byte, character in _CHARACTER.items()}


def verified(path: str | Path, sha256: str) -> Path:
    """Return the path of a file whose content is the one expected, or raise.

    Parameters
    ----------
    path : str or Path
    sha256 : str
        The hash that the content must have, 64 hexadecimal digits.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the file has another hash.
    FileNotFoundError
        If there is no file.

    Examples
    --------
    >>> import os
    >>> verified(os.devnull, hashlib.sha256(b"").hexdigest()) == Path(os.devnull)
    True
    """
    check_text("sha256", sha256)
    found = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if found != sha256.lower():
        raise ValueError(f"{path} must have the SHA-256 {sha256}; got {found}")
    return Path(path)


class ByteLevelBPE:
    """Byte-level byte-pair encoding: 256 bytes, merges by rank, special tokens.

    Parameters
    ----------
    merges : sequence of pairs of bytes
        In the order learned. Each part is one byte or what an earlier merge makes.
    special_tokens : iterable of str, optional
        Found in a text before all else, and never merged with what is around them.
    vocab : mapping of bytes and str to int, optional
        The id of every token (bytes) and special token (str). Where left out, ids are numbered as
        GPT-2's: bytes in the order of `bytes_to_unicode`, merges, special tokens.

    Attributes
    ----------
    merges : tuple of pairs of bytes
    special_tokens : dict of str to int
        With their ids.
    tokens : tuple of bytes
        What each id stands for.

    Raises
    ------
    ValueError
        If a part of a merge is neither a byte nor made by an earlier merge, or a merge is there
        twice; if a special token is empty, there twice, no Unicode, or written as a token is; if
        `vocab` lacks a token, has one that nothing makes, or its ids aren't 0, 1, …,
        ``len(vocab) - 1``.

    Notes
    -----
    Which characters are letters, digits and white space, Unicode says, and `regex` has its tables.
    A character that was assigned after the tables of another library may be split otherwise there.

    References
    ----------
    Sennrich, Haddow, Birch: "Neural Machine Translation of Rare Words with Subword Units" (2016),
    section 3.2. Radford et al.: "Language Models are Unsupervised Multitask Learners" (2019),
    section 2.2.

    Examples
    --------
    >>> merges = [(b"u", b"g"), (b"u", b"n"), (b"h", b"ug"), (b"p", b"un")]
    >>> tokenizer = ByteLevelBPE(merges, ["<|endoftext|>"])
    >>> ids = tokenizer.encode("hugs<|endoftext|>bugs")
    >>> [tokenizer.tokens[i] for i in ids]
    [b'hug', b's', b'<|endoftext|>', b'b', b'ug', b's']
    >>> tokenizer.decode(ids)
    'hugs<|endoftext|>bugs'
    >>> len(tokenizer)
    261
    """

    def __init__(
        self,
        merges: Sequence[tuple[bytes, bytes]],
        special_tokens: Iterable[str] = (),
        *,
        vocab: Mapping[bytes | str, int] | None = None,
    ) -> None:
        pairs = _checked_merges(merges)
        # Two merges may make the same bytes: one token, one id.
        made = dict.fromkeys([bytes([b]) for b in _CHARACTER] + [a + b for a, b in pairs])
        specials = _checked_specials(special_tokens, made)
        everything: list[bytes | str] = [*made, *specials]
        if vocab is None:
            ids = {token: i for i, token in enumerate(everything)}
        else:
            ids = _checked_vocab(vocab, everything)
        tokens = [b""] * len(ids)
        for token, i in ids.items():
            tokens[i] = token if isinstance(token, bytes) else token.encode()
        self.merges = pairs
        self.special_tokens: dict[str, int] = {token: ids[token] for token in specials}
        self.tokens = tuple(tokens)
        self._vocab = ids
        self._of_byte = [ids[bytes([b])] for b in range(256)]
        self._table = {
            (ids[a], ids[b]): (rank, ids[a + b]) for rank, (a, b) in enumerate(pairs)
        }  # fmt: skip
        self._cache = _Cache(_CACHE_BYTES)

    def __len__(self) -> int:
        """Count the tokens, special ones included: ``vocab_size``."""
        return len(self.tokens)

    def __repr__(self) -> str:
        """Say how many merges and special tokens there are."""
        return f"ByteLevelBPE({len(self.merges)} merges, {len(self.special_tokens)} special tokens)"

    def encode(self, text: str, allowed_special: str | Collection[str] = "all") -> list[int]:
        """Return the ids of a text.

        Parameters
        ----------
        text : str
        allowed_special : "all" or collection of str, default "all"
            The special tokens that become their id where the text holds them, the longest first.
            The others are text like any other: what users write should be encoded with ``()``.

        Returns
        -------
        list of int, (n,)

        Raises
        ------
        ValueError
            If `text` isn't a string or holds half of a surrogate pair, which no UTF-8 can write,
            or `allowed_special` names what isn't a special token.

        Examples
        --------
        >>> tokenizer = ByteLevelBPE([(b"u", b"n")], ["<s>"])
        >>> tokenizer.encode("<s>un"), tokenizer.encode("<s>un", allowed_special=())
        ([257, 256], [27, 82, 29, 256])
        """
        check_text("text", text)
        special = self._special_pattern(allowed_special)
        ids: list[int] = []
        at = 0
        for found in [] if special is None else special.finditer(text):
            self._extend(ids, _PRETOKEN.findall(text, at, found.start()), self._cache)
            ids.append(self.special_tokens[found[0]])
            at = found.end()
        self._extend(ids, _PRETOKEN.findall(text, at), self._cache)
        return ids

    def encode_iterable(
        self, chunks: Iterable[str], allowed_special: str | Collection[str] = "all"
    ) -> Iterator[int]:
        """Return the ids of a text that comes in pieces, such as an open file, one by one.

        They are those of the whole text, wherever it was cut. Memory doesn't grow with the text:
        what is kept is a block of characters, as much of the text as can't be split yet (the
        pre-token that is being read) and a small cache.

        Parameters
        ----------
        chunks : iterable of str
        allowed_special : "all" or collection of str, default "all"
            As for `encode`.

        Returns
        -------
        iterator of int

        Raises
        ------
        ValueError
            As `encode` does: at once for the arguments, on the way for a chunk.

        Examples
        --------
        >>> tokenizer = ByteLevelBPE([(b"u", b"n")], ["<s>"])
        >>> list(tokenizer.encode_iterable(["u", "n<", "s>u"]))
        [256, 257, 84]
        """
        check_several("chunks", chunks, "an iterable of strings")
        return self._stream(iter(chunks), self._special_pattern(allowed_special))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids: their bytes are joined first, and then read as UTF-8.

        A character may be spread over several tokens. Bytes that are no UTF-8, as where a model
        stopped within a character, become U+FFFD, the replacement character.

        Parameters
        ----------
        ids : iterable of int
            A list, or an array or tensor with one axis, (n,).

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If `ids` can't be gone through, or an id isn't a whole number from 0 to
            ``len(self) - 1``.

        Examples
        --------
        >>> tokenizer = ByteLevelBPE([])
        >>> ids = tokenizer.encode("é")
        >>> tokenizer.decode(ids), tokenizer.decode(ids[:1])
        ('é', '�')
        """
        return self.decode_bytes(ids).decode(errors="replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids, whether they are UTF-8 or not.

        Raises
        ------
        ValueError
            As `decode` does.
        """
        return b"".join(self.tokens[i] for i in each_id(ids, len(self.tokens)))

    def forget(self) -> None:
        """Empty the cache of pre-tokens, which changes the speed of `encode` and nothing else."""
        self._cache = _Cache(_CACHE_BYTES)

    def save_gpt2(self, folder: str | Path) -> None:
        """Write ``vocab.bpe`` (the merges) and ``encoder.json`` (the ids) into a folder.

        Parameters
        ----------
        folder : str or Path
            Made where it is missing.
        """
        merges = "".join(f"{_written(a)} {_written(b)}\n" for a, b in self.merges)
        ids = json.dumps(self._written_vocab())
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "vocab.bpe").write_bytes(f"{_VERSION}\n{merges}".encode())
        (Path(folder) / "encoder.json").write_bytes(ids.encode())

    @classmethod
    def from_gpt2(
        cls,
        vocab_bpe: str | Path,
        encoder_json: str | Path,
        special_tokens: Iterable[str] = (END_OF_TEXT,),
    ) -> ByteLevelBPE:
        """Read a tokenizer in the two files of GPT-2.

        Parameters
        ----------
        vocab_bpe, encoder_json : str or Path
        special_tokens : iterable of str, default ("<|endoftext|>",)
            The files don't say which of the tokens in ``encoder.json`` are special.

        Raises
        ------
        ValueError
            If a file isn't of its format, or what they say doesn't fit together.
        """
        check_several("special_tokens", special_tokens, "a sequence of strings")
        lines = _text(vocab_bpe).split("\n")
        if lines[0].startswith("#version"):
            lines = lines[1:]
        if lines and not lines[-1]:
            lines.pop()
        merges = _read_merges(str(vocab_bpe), lines)
        written = _object(str(encoder_json), _json(encoder_json))
        return cls._from_written(merges, written, list(special_tokens))

    def save_json(self, path: str | Path) -> None:
        """Write the one file that ``tokenizers.Tokenizer.from_file`` reads.

        Parameters
        ----------
        path : str or Path
            By custom ``tokenizer.json``.
        """
        byte_level = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        content = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": i, "content": token, **_PLAIN_TOKEN, "normalized": False, "special": True}
                for token, i in sorted(self.special_tokens.items(), key=lambda item: item[1])
            ],
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", **byte_level},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", **byte_level},
            "model": {
                "type": "BPE",
                **_PLAIN_MODEL,
                "vocab": self._written_vocab(),
                # As one string each, which old releases read too.
                "merges": [f"{_written(a)} {_written(b)}" for a, b in self.merges],
            },
        }
        Path(path).write_bytes(json.dumps(content, ensure_ascii=False, indent=1).encode())

    @classmethod
    def from_json(cls, path: str | Path) -> ByteLevelBPE:
        """Read a file of the ``tokenizers`` library that holds a tokenizer of this kind.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        ValueError
            If the file holds another kind of tokenizer, or one whose ids this class would not
            give (another pattern, a normaliser, an added space), or doesn't fit together.
        """
        name = str(path)
        content = _object(name, _json(path))
        model = _object(f"model of {name}", content.get("model"))
        _demand(f"model of {name}", model, {"type": "BPE"} | _PLAIN_MODEL)
        split = _object(f"pre_tokenizer of {name}", content.get("pre_tokenizer"))
        plain = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
        _demand(f"pre_tokenizer of {name}", {"use_regex": True} | split, plain)
        _demand(name, content, {"normalizer": None, "truncation": None, "padding": None})
        if content.get("post_processor") is not None:
            after = _object(f"post_processor of {name}", content["post_processor"])
            _demand(f"post_processor of {name}", after, {"type": "ByteLevel"})
        merges = _read_merges(f"merges of {name}", model.get("merges"))
        vocab = _object(f"vocab of {name}", model.get("vocab"))
        added = content.get("added_tokens") or []
        check_several(f"added_tokens of {name}", added, "a list")
        specials = []
        for entry in added:
            token = _object(f"added_tokens of {name}", entry)
            _demand(f"added_tokens of {name}", token, {"special": True} | _PLAIN_TOKEN)
            check_text(f"content of added_tokens of {name}", token.get("content"))
            specials.append(token["content"])
            if vocab.setdefault(token["content"], token.get("id")) != token.get("id"):
                raise ValueError(
                    f"added_tokens of {name} must have the ids of vocab; got {token['content']!r} "
                    f"with {token.get('id')} and {vocab[token['content']]}"
                )
        return cls._from_written(merges, vocab, specials)

    @classmethod
    def _from_written(
        cls, merges: list[tuple[bytes, bytes]], written: dict[str, Any], specials: list[str]
    ) -> ByteLevelBPE:
        """Build a tokenizer from ids of tokens that are written as the files do."""
        vocab: dict[bytes | str, int] = {}
        for token, i in written.items():
            vocab[token if token in specials else _read("vocab", token)] = i
        return cls(merges, specials, vocab=vocab)

    def _written_vocab(self) -> dict[str, int]:
        """Return ids as files have them, in order."""
        items = sorted(self._vocab.items(), key=lambda item: item[1])
        return {t if isinstance(t, str) else _written(t): i for t, i in items}

    def _special_pattern(self, allowed_special: str | Collection[str]) -> Any:
        """Return a pattern that finds the allowed special tokens, or None where there are none."""
        if allowed_special == "all":
            allowed = list(self.special_tokens)
        elif isinstance(allowed_special, str) or not isinstance(allowed_special, Collection):
            raise ValueError(
                f'allowed_special must be "all" or a collection of special tokens; '
                f"got {allowed_special!r}"
            )
        else:
            allowed = list(allowed_special)
        for token in allowed:
            if not isinstance(token, str) or token not in self.special_tokens:
                raise ValueError(
                    f"allowed_special must name tokens of {list(self.special_tokens)}; "
                    f"got {token!r}"
                )
        if not allowed:
            return None
        # Of the alternatives that match at a place, a pattern takes the first.
        longest_first = sorted(allowed, key=lambda token: (-len(token), token))
        return regex.compile("|".join(regex.escape(token) for token in longest_first))

    def _extend(self, ids: list[int], pretokens: Iterable[str], cache: _Cache) -> None:
        """Append the ids of pre-tokens."""
        recent = cache.recent
        for pretoken in pretokens:
            found = recent.get(pretoken)
            if found is None:
                found = cache.older.get(pretoken) or self._encode_pretoken(pretoken)
                cache.add(pretoken, found)
                recent = cache.recent
            ids += found

    def _encode_pretoken(self, pretoken: str) -> tuple[int, ...]:
        """Merge the bytes of one pre-token, the pair of the lowest rank first."""
        try:
            data = pretoken.encode()
        except UnicodeEncodeError as error:
            lone = pretoken[error.start]
            raise ValueError(
                f"text must be Unicode; got {lone!r}, half of a surrogate pair, in {pretoken!r}"
            ) from None
        ids = [self._of_byte[byte] for byte in data]
        return tuple(_merge_long(ids, self._table) if len(ids) > _LONG
                     else _merge_short(ids, self._table))  # fmt: skip

    def _stream(self, chunks: Iterator[str], special: Any) -> Iterator[int]:
        """Yield the ids of the text that chunks make together."""
        cache = _Cache(_STREAM_CACHE_BYTES)
        held = 1 if special is None else max(len(token) for token in self.special_tokens)
        text, wanted = "", _BLOCK
        for chunk in chunks:
            if not isinstance(chunk, str):
                raise ValueError(f"chunks must hold strings; got {chunk!r}")
            for start in range(0, len(chunk), _BLOCK):
                text += chunk[start : start + _BLOCK]
                if len(text) < wanted:
                    continue
                # A special token that begins before `limit` is there in full, a longer one too.
                limit = len(text) - held + 1
                at = 0
                while special is not None and (found := special.search(text, at)) is not None:
                    if found.start() >= limit:
                        break
                    yield from self._plain(_PRETOKEN.findall(text, at, found.start()), cache)
                    yield self.special_tokens[found[0]]
                    at = found.end()
                if at < limit:
                    pretokens = _settled(text[at:limit])
                    yield from self._plain(pretokens, cache)
                    at += sum(map(len, pretokens))
                text = text[at:]
                # A long pre-token is gone through again only when it is twice as long.
                wanted = max(_BLOCK, 2 * len(text))
        at = 0
        for found in [] if special is None else special.finditer(text):
            yield from self._plain(_PRETOKEN.findall(text, at, found.start()), cache)
            yield self.special_tokens[found[0]]
            at = found.end()
        yield from self._plain(_PRETOKEN.findall(text, at), cache)

    def _plain(self, pretokens: Iterable[str], cache: _Cache) -> list[int]:
        """Return the ids of pre-tokens."""
        ids: list[int] = []
        self._extend(ids, pretokens, cache)
        return ids


class _Cache:
    """The ids of pre-tokens met before, in at most about `room` bytes.

    Two generations: what is used moves to the recent one, and when that is half of the room, it
    becomes the older one. What was not used for so long is forgotten.
    """

    def __init__(self, room: int) -> None:
        self.recent: dict[str, tuple[int, ...]] = {}
        self.older: dict[str, tuple[int, ...]] = {}
        self._half = room // 2
        self._left = self._half

    def add(self, pretoken: str, ids: tuple[int, ...]) -> None:
        """Remember the ids of a pre-token, unless it is too long to come again."""
        # A string, a tuple and an entry of a dictionary; the numbers are those of the vocabulary.
        size = 250 + 4 * len(pretoken) + 8 * len(ids)
        if 64 * size > self._half:
            return
        self._left -= size
        if self._left < 0:
            self.older, self.recent = self.recent, {}
            self._left = self._half - size
        self.recent[pretoken] = ids


def _settled(text: str) -> list[str]:
    """Return the first pre-tokens of a text, those that are the same whatever follows it.

    Examples
    --------
    >>> _settled("one two'l")  # 'll could follow
    ['one', ' two']
    >>> _settled("one   ")  # and of three spaces the last may belong to a word
    ['one']
    """
    pretokens = _PRETOKEN.findall(text)
    end = len(text)
    # The last one may grow; one that stands near the end may be the beginning of an 'll.
    while pretokens:
        start = end - len(pretokens[-1])
        if end < len(text) and start + _LONGEST_ENDING <= len(text):
            break
        pretokens.pop()
        end = start
    return pretokens


_Table = Mapping[tuple[int, int], tuple[int, int]]


def _merge_short(ids: list[int], table: _Table) -> list[int]:
    """Merge the leftmost pair of the lowest rank until none is left, looking at all each time.

    `table` holds the rank and the new id of each pair. Work grows with the square of the length.
    """
    while True:
        best, at = None, -1
        for i, pair in enumerate(pairwise(ids)):
            found = table.get(pair)
            if found is not None and (best is None or found < best):
                best, at = found, i
        if best is None:
            return ids
        ids[at : at + 2] = [best[1]]


def _merge_long(ids: list[int], table: _Table) -> list[int]:
    """Return what `_merge_short` does, in n log n steps: a heap of pairs over a linked list."""
    n = len(ids)
    after = list(range(1, n + 1))
    before = list(range(-1, n - 1))
    heap = [  # by rank, then by place
        (found[0], i, found[1], pair)
        for i, pair in enumerate(pairwise(ids))
        if (found := table.get(pair)) is not None
    ]
    heapify(heap)
    while heap:
        _, i, new, pair = heappop(heap)
        j = after[i]
        if j >= n or (ids[i], ids[j]) != pair:
            continue  # one of the two has been merged since
        ids[i], ids[j] = new, -1
        after[i] = k = after[j]
        if k < n:
            before[k] = i
            if (found := table.get((new, ids[k]))) is not None:
                heappush(heap, (found[0], i, found[1], (new, ids[k])))
        if (h := before[i]) >= 0 and (found := table.get((ids[h], new))) is not None:
            heappush(heap, (found[0], h, found[1], (ids[h], new)))
    return [i for i in ids if i >= 0]


def _checked_merges(merges: Any) -> tuple[tuple[bytes, bytes], ...]:
    """Return merges as a tuple, or raise unless each is made of what is there before it."""
    check_several("merges", merges, "a sequence of pairs of bytes")
    known = {bytes([b]) for b in range(256)}
    pairs: dict[tuple[bytes, bytes], None] = {}
    for rank, pair in enumerate(merges):
        if not isinstance(pair, tuple | list) or [type(part) for part in pair] != [bytes, bytes]:
            raise ValueError(f"merges must be pairs of bytes; got {pair!r} at rank {rank}")
        first, second = pair
        for part in (first, second):
            if part not in known:
                raise ValueError(
                    "merges must be made of bytes and of what earlier merges make; "
                    f"got {part!r} at rank {rank}"
                )
        if (first, second) in pairs:
            raise ValueError(f"merges must be distinct; got {pair!r} again at rank {rank}")
        pairs[first, second] = None
        known.add(first + second)
    return tuple(pairs)


def _checked_specials(special_tokens: Any, made: Collection[bytes]) -> list[str]:
    """Return special tokens as a list, or raise unless they can be told from all else."""
    check_several("special_tokens", special_tokens, "a sequence of strings")
    specials = list(special_tokens)
    written = {_written(token) for token in made} if specials else set()
    for i, token in enumerate(specials):
        if not isinstance(token, str) or not token:
            raise ValueError(f"special_tokens must be strings that aren't empty; got {token!r}")
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ValueError(f"special_tokens must be Unicode; got {token!r}") from None
        if token in specials[:i]:
            raise ValueError(f"special_tokens must be distinct; got {token!r} more than once")
        if token in written:
            raise ValueError(
                "special_tokens must differ from tokens of the vocabulary as files write them; "
                f"got {token!r}"
            )
    return specials


def _checked_vocab(vocab: Any, needed: list[bytes | str]) -> dict[bytes | str, int]:
    """Return ids, or raise unless they are 0, 1, … and those of exactly the tokens needed."""
    if not isinstance(vocab, Mapping):
        raise ValueError(f"vocab must be a mapping of tokens to ids; got {vocab!r}")
    for token in needed:
        if token not in vocab:
            raise ValueError(f"vocab must have an id for every token; got none for {token!r}")
    surplus = vocab.keys() - set(needed)
    if surplus:
        raise ValueError(
            "vocab must hold bytes, what merges make, and special tokens; "
            f"got {min(surplus, key=repr)!r}"
        )
    ids: dict[bytes | str, int] = {}
    for token in needed:
        i = whole_number(vocab[token])
        if i is None or not 0 <= i < len(vocab):
            raise ValueError(
                f"vocab must have ids from 0 to {len(vocab) - 1} without a hole; "
                f"got {vocab[token]!r} for {token!r}"
            )
        ids[token] = i
    if len(set(ids.values())) < len(ids):
        hole = min(set(range(len(ids))) - set(ids.values()))
        raise ValueError(f"vocab must have every id once; got none that is {hole}")
    return ids


def _written(token: bytes) -> str:
    """Return a token as the files write it.

    Examples
    --------
    >>> _written(b" hug")
    'Ġhug'
    """
    return "".join([_CHARACTER[byte] for byte in token])


def _read(name: str, token: Any) -> bytes:
    """Return the bytes of a token that a file has, or raise."""
    try:
        return bytes([_BYTE[character] for character in token])
    except (KeyError, TypeError):
        raise ValueError(
            f"{name} must be written in the 256 characters that stand for bytes; got {token!r}"
        ) from None


def _read_merges(name: str, merges: Any) -> list[tuple[bytes, bytes]]:
    """Return the merges of a file: strings of two parts, or pairs of strings."""
    check_several(name, merges, "a list of merges")
    pairs = []
    for i, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or "" in parts:
            raise ValueError(f"{name} must have two parts in each merge; got {merge!r} at rank {i}")
        pairs.append((_read(name, parts[0]), _read(name, parts[1])))
    return pairs


def _json(path: str | Path) -> Any:
    """Return what a file of JSON says, or raise."""
    try:
        return json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} must hold JSON; {error}") from None


def _text(path: str | Path) -> str:
    """Return a file's text, or raise."""
    try:
        return Path(path).read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8; {error}") from None


def _object(name: str, value: Any) -> dict[str, Any]:
    """Return an object of JSON, or raise."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object of JSON; got {value!r}")
    return value


def _demand(name: str, value: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise unless entries are as wanted; what means nothing may be left out, or empty."""
    for key, right in wanted.items():
        if value.get(key) != right and (right or value.get(key)):
            raise ValueError(f"{name} must have {key} {right!r}; got {value.get(key)!r}")
