"""Tokens to ids and back: the four special tokens first, then words by how often they occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from course_lib.validation import check_at_least, check_several, each_id

__all__ = ["BOS", "EOS", "PAD", "SPECIAL", "UNK", "Vocabulary"]

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """The words that a model knows; the id of a word is its place in `words`.

    Parameters
    ----------
    words : tuple of str
        `SPECIAL`, then the words, each once.

    Raises
    ------
    ValueError
        If `words` doesn't begin with `SPECIAL`, or names a word twice, or holds anything but
        strings that aren't empty.

    Examples
    --------
    >>> v = Vocabulary.from_sequences([["a", "cat", "saw", "a", "fish"], ["a", "fish"]])
    >>> v.words
    ('<pad>', '<bos>', '<eos>', '<unk>', 'a', 'fish', 'cat', 'saw')
    >>> v.encode(["a", "dog", "saw", "a", "cat"])
    [4, 3, 7, 4, 6]
    >>> v.decode([BOS, 4, 6, EOS, PAD, PAD])
    ['a', 'cat']
    """

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_several("words", self.words, "a sequence of strings")
        object.__setattr__(self, "words", tuple(self.words))
        for word in self.words:
            if not isinstance(word, str) or not word:
                raise ValueError(f"words must be strings that aren't empty; got {word!r}")
        if self.words[: len(SPECIAL)] != SPECIAL:
            raise ValueError(f"words must begin with {SPECIAL}; got {self.words[: len(SPECIAL)]}")
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) < len(self.words):
            (twice, _), *_ = Counter(self.words).most_common(1)
            raise ValueError(f"words must be distinct; got {twice!r} more than once")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def from_sequences(
        cls, sequences: Iterable[Sequence[str]], min_count: int = 1, max_size: int | None = None
    ) -> Vocabulary:
        """Collect the words of sentences, the most frequent first, equally frequent ones by name.

        Parameters
        ----------
        sequences : iterable of sequences of str
            Sentences, already split into tokens.
        min_count : int, default 1
            A word that occurs less often is left out, and so becomes ``<unk>``.
        max_size : int, optional
            The largest ``len`` of the vocabulary, special tokens included.

        Raises
        ------
        ValueError
            If a sentence isn't a sequence of strings that aren't empty, or holds a special token,
            or `min_count` is less than 1, or `max_size` leaves no room for the special tokens.
        """
        check_at_least("min_count", min_count, 1)
        if max_size is not None:
            check_at_least("max_size", max_size, len(SPECIAL))
        check_several("sequences", sequences, "sequences of tokens")
        counts: Counter[str] = Counter()
        for i, sequence in enumerate(sequences):
            counts.update(_tokens(f"sequences[{i}]", sequence))
        for token in counts:
            if not token or token in SPECIAL:
                raise ValueError(f"sequences must hold words, none empty or special; got {token!r}")
        kept = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
        return cls((*SPECIAL, *kept)[:max_size])

    def __len__(self) -> int:
        """Count the entries, special tokens included: ``vocab_size``."""
        return len(self.words)

    def __contains__(self, token: object) -> bool:
        """Tell whether a token has an id of its own."""
        return token in self._ids

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of tokens; what isn't in the vocabulary gets `UNK`. Nothing is added.

        Raises
        ------
        ValueError
            If `tokens` is one string, or holds anything but strings.
        """
        return [self._ids.get(token, UNK) for token in _tokens("tokens", tokens)]

    def decode(self, ids: Iterable[int], keep_special: bool = False) -> list[str]:
        """Return the words of ids up to the first `EOS`, without special tokens.

        Parameters
        ----------
        ids : iterable of int
            A list, or an array or tensor with one axis.
        keep_special : bool, default False
            Return every token instead, special ones too, and don't stop at `EOS`.

        Raises
        ------
        ValueError
            If `ids` can't be gone through, or an id isn't a whole number from 0 to
            ``len(self) - 1``.
        """
        words = []
        for i in each_id(ids, len(self.words)):
            if i == EOS and not keep_special:
                break
            if keep_special or i >= len(SPECIAL):
                words.append(self.words[i])
        return words


def _tokens(name: str, tokens: Sequence[str]) -> list[str]:
    """Return tokens as a list, or raise: a string would fall apart into its characters."""
    check_several(name, tokens, "a sequence of tokens")
    found = list(tokens)
    for token in found:
        if not isinstance(token, str):
            raise ValueError(f"{name} must hold strings; got {token!r}")
    return found
