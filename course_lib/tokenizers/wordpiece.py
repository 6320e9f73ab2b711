"""WordPiece, BERT's tokenizer: split at spaces and punctuation, then the longest piece first."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from course_lib.validation import check_at_least, check_several, check_text, each_id, whole_number

__all__ = ["WordPiece", "basic_split", "longest_match"]

# The blocks of Chinese characters for which BERT's authors put spaces around each character. Words
# of Japanese kana and Korean hangul are left whole.
CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class _Rule(dict[int, str]):
    """What becomes of each character: a table for ``str.translate``, filled as characters come."""

    def __init__(self, becomes: Callable[[str], str]) -> None:
        super().__init__()
        self._becomes = becomes

    def __missing__(self, code: int) -> str:
        self[code] = replacement = self._becomes(chr(code))
        return replacement


def _clean(c: str) -> str:
    """Drop what can't be seen, but for spaces, and put spaces around Chinese."""
    if c in "\t\n\r":  # control characters, as Unicode sees it
        return c
    # Cn, characters that Unicode hasn't assigned (yet), stay: they make a word unknown.
    if c == "\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    return f" {c} " if any(first <= ord(c) <= last for first, last in CHINESE) else c


def _without_mark(c: str) -> str:
    return "" if unicodedata.category(c) == "Mn" else c


def _apart(c: str) -> str:
    """Put spaces around punctuation; in ASCII everything but letters, digits and space is it."""
    in_ascii = c < "\x7f" and not c.isalnum() and not c.isspace()
    return f" {c} " if in_ascii or unicodedata.category(c).startswith("P") else c


_CLEAN, _WITHOUT_MARKS, _APART = _Rule(_clean), _Rule(_without_mark), _Rule(_apart)


def basic_split(text: str, lower_case: bool = True) -> list[str]:
    """Split a text into words and punctuation marks as BERT does before it looks for pieces.

    Control and formatting characters are dropped (a zero-width joiner too), words end at every kind
    of space, and each Chinese character and each punctuation mark stands alone.

    Parameters
    ----------
    text : str
    lower_case : bool, default True
        Take accents (nonspacing marks) off, and make all letters small, as the uncased models want.

    Returns
    -------
    list of str
        None is empty or holds a space.

    Raises
    ------
    ValueError
        If `text` isn't a string.

    Notes
    -----
    What a character *is* says Python's own Unicode table. The `tokenizers` library knows
    punctuation and marks from a table of about 2015, and a few hundred characters that came later,
    or were reclassified, are split otherwise there; so are the 256 Chinese characters from U+2B820
    on, which BERT's code sets apart and `tokenizers` doesn't.

    References
    ----------
    Devlin et al., "BERT", 2019 (arXiv:1810.04805), and the code published with it.

    Examples
    --------
    >>> basic_split("Café-Crème, 你好!")
    ['cafe', '-', 'creme', ',', '你', '好', '!']
    >>> basic_split("Café-Crème", lower_case=False)
    ['Café', '-', 'Crème']
    """
    check_text("text", text)
    text = text.translate(_CLEAN)
    if lower_case:
        # Taken apart first, é is e and a mark: then the mark can go.
        text = unicodedata.normalize("NFD", text).translate(_WITHOUT_MARKS)
        # Letter by letter: str.lower alone would make ς of a word's last Σ.
        text = text.replace("Σ", "σ").lower()
    return text.translate(_APART).split()


def longest_match(
    word: str,
    vocab: Container[str],
    unknown: str = "[UNK]",
    prefix: str = "##",
    max_chars: int = 100,
) -> list[str]:
    """Cut a word into pieces, always the longest that the vocabulary has, from left to right.

    Greedy: no piece is given back. If at some place nothing matches, the whole word is unknown,
    even if other pieces would have spelled it.

    Parameters
    ----------
    word : str
    vocab : container of str
        A set or a dictionary, for its fast ``in``. A piece that goes on inside a word has the
        prefix there.
    unknown : str, default "[UNK]"
        Stands for a word that can't be spelled.
    prefix : str, default "##"
    max_chars : int, default 100
        A longer word is unknown: at worst the time grows with the square of the length.

    Returns
    -------
    list of str
        The pieces, the prefix included; nothing for an empty word.

    Raises
    ------
    ValueError
        If `word`, `unknown` or `prefix` isn't a string, or `max_chars` is less than 1.

    References
    ----------
    Wu et al., "Google's Neural Machine Translation System", 2016 (arXiv:1609.08144), section 4.1.
    Song et al., "Fast WordPiece Tokenization", 2021 (arXiv:2012.15524), do the same in linear time.

    Examples
    --------
    >>> vocab = {"hug", "b", "##ug", "##s", "##u", "un", "##able", "unab"}
    >>> longest_match("hugs", vocab)
    ['hug', '##s']
    >>> longest_match("bugs", vocab)
    ['b', '##ug', '##s']
    >>> longest_match("unable", vocab)  # un ##able would do, but unab is longer than un
    ['[UNK]']
    """
    check_text("word", word)
    check_text("unknown", unknown)
    check_text("prefix", prefix)
    check_at_least("max_chars", max_chars, 1)
    if len(word) > max_chars:
        return [unknown]
    pieces: list[str] = []
    start = 0
    while start < len(word):
        inside = prefix if start else ""
        for end in range(len(word), start, -1):
            piece = inside + word[start:end]
            if piece in vocab:
                pieces.append(piece)
                start = end
                break
        else:
            return [unknown]
    return pieces


class WordPiece:
    """Text to ids and back with a WordPiece vocabulary, as BERT and its descendants do it.

    Parameters
    ----------
    vocab : sequence of str, or mapping of str to int
        The tokens in the order of their ids, or the id of each.
    unknown : str, default "[UNK]"
        The token for a word that can't be spelled; it's in the vocabulary.
    prefix : str, default "##"
        Marks a piece that goes on inside a word.
    max_chars : int, default 100
        A word of more characters is unknown.
    lower_case : bool, default True
        Take accents off and make all letters small.

    Attributes
    ----------
    tokens : tuple of str
        The vocabulary in the order of the ids.

    Raises
    ------
    ValueError
        If the vocabulary holds anything but distinct strings that aren't empty, if its ids aren't
        0, 1, 2 … without a hole, if it lacks `unknown`, or another argument is out of range.

    References
    ----------
    Devlin et al., "BERT", 2019 (arXiv:1810.04805), section 3. Wu et al., "Google's Neural Machine
    Translation System", 2016 (arXiv:1609.08144), section 4.1.

    Examples
    --------
    >>> w = WordPiece(["[UNK]", "[CLS]", "[SEP]", "hug", "b", "##ug", "##s", "!"])
    >>> w.pieces("Hugs, bugs!")
    ['hug', '##s', '[UNK]', 'b', '##ug', '##s', '!']
    >>> w.encode("Bug!", ends=True)
    [1, 4, 5, 7, 2]
    >>> w.decode([1, 4, 5, 7, 2], skip=["[CLS]", "[SEP]"])
    'bug !'
    """

    def __init__(
        self,
        vocab: Sequence[str] | Mapping[str, int],
        unknown: str = "[UNK]",
        prefix: str = "##",
        max_chars: int = 100,
        lower_case: bool = True,
    ) -> None:
        self.tokens = _in_order(vocab)
        self._ids = {token: i for i, token in enumerate(self.tokens)}
        check_text("unknown", unknown)
        if unknown not in self._ids:
            raise ValueError(f"unknown must be a token of the vocabulary; got {unknown!r}")
        check_text("prefix", prefix)
        check_at_least("max_chars", max_chars, 1)
        if not isinstance(lower_case, bool):
            raise ValueError(f"lower_case must be True or False; got {lower_case!r}")
        self.unknown, self.prefix = unknown, prefix
        self.max_chars, self.lower_case = max_chars, lower_case

    @classmethod
    def from_file(cls, path: str | PathLike[str], lower_case: bool = True) -> WordPiece:
        """Read a vocabulary in BERT's own format, ``vocab.txt``: one token a line, in UTF-8.

        Raises
        ------
        ValueError
            If the file isn't UTF-8, or doesn't hold a vocabulary.
        """
        try:
            text = Path(path).read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"path must be a file in UTF-8; got {path!s}: {error}") from None
        # Not splitlines: that would also split at a token that is a line separator of Unicode.
        lines = text.removesuffix("\n").split("\n")
        return cls([line.removesuffix("\r") for line in lines], lower_case=lower_case)

    def __len__(self) -> int:
        """Count the tokens: ``vocab_size``."""
        return len(self.tokens)

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text; special tokens in it are text like any other.

        Raises
        ------
        ValueError
            If `text` isn't a string.
        """
        return [
            piece
            for word in basic_split(text, self.lower_case)
            for piece in longest_match(word, self._ids, self.unknown, self.prefix, self.max_chars)
        ]

    def encode(
        self, text: str, *, allowed_special: Collection[str] = (), ends: bool = False
    ) -> list[int]:
        """Return the ids of a text.

        Parameters
        ----------
        text : str
        allowed_special : collection of str
            Tokens such as "[MASK]" that are kept whole where the text holds them, spelled exactly
            so; the longest goes first. All others are split like any text, which keeps what a user
            types from ending a sentence with "[SEP]".
        ends : bool, default False
            Put the ids of "[CLS]" before and of "[SEP]" after, as BERT wants one sentence.

        Raises
        ------
        ValueError
            If `text` isn't a string, or an allowed token is empty or not in the vocabulary, or
            `ends` asks for tokens that aren't.
        """
        check_text("text", text)
        if isinstance(allowed_special, str):
            raise ValueError(
                f"allowed_special must be a collection of tokens; got {allowed_special!r}"
            )
        special = [self._known("allowed_special", token) for token in allowed_special]
        before, after = [], []
        if ends:
            before = [self._ids[self._known("ends", "[CLS]")]]
            after = [self._ids[self._known("ends", "[SEP]")]]
        ids: list[int] = []
        for i, part in enumerate(_split_at(special, text)):
            ids.extend(self._ids[piece] for piece in ([part] if i % 2 else self.pieces(part)))
        return before + ids + after

    def decode(self, ids: Iterable[int], *, skip: Collection[str] = ()) -> str:
        """Return a text for ids: pieces with the prefix joined to what stands before them.

        The spaces, capitals and accents that encoding dropped don't come back, and an unknown word
        comes back as `unknown`: WordPiece isn't lossless.

        Parameters
        ----------
        ids : iterable of int
            A list, or an array or tensor with one axis.
        skip : collection of str
            Tokens that are left out, such as "[CLS]".

        Raises
        ------
        ValueError
            If `ids` can't be gone through, or an id isn't a whole number from 0 to
            ``len(self) - 1``.
        """
        words: list[str] = []
        for i in each_id(ids, len(self.tokens)):
            token = self.tokens[i]
            if token in skip:
                continue
            if words and token.startswith(self.prefix):
                words[-1] += token.removeprefix(self.prefix)
            else:
                words.append(token)
        return " ".join(words)

    def _known(self, name: str, token: str) -> str:
        if not isinstance(token, str) or token not in self._ids:
            raise ValueError(f"{name} needs tokens of the vocabulary; got {token!r}")
        return token


def _in_order(vocab: Sequence[str] | Mapping[str, int]) -> tuple[str, ...]:
    """Return the tokens of a vocabulary by id, or raise if it isn't one."""
    if isinstance(vocab, Mapping):
        places = {whole_number(i): token for token, i in vocab.items()}
        missing = next((i for i in range(len(vocab)) if i not in places), None)
        if missing is not None:
            raise ValueError(
                f"vocab must have the ids 0 to {len(vocab) - 1}, each once; {missing} is missing"
            )
        vocab = [places[i] for i in range(len(vocab))]
    check_several("vocab", vocab, "a sequence of tokens, or a mapping of tokens to ids")
    tokens = tuple(vocab)
    seen: set[str] = set()
    for token in tokens:
        if not isinstance(token, str) or not token:
            raise ValueError(f"vocab must hold strings that aren't empty; got {token!r}")
        if token in seen:
            raise ValueError(f"vocab must hold distinct tokens; got {token!r} more than once")
        seen.add(token)
    return tokens


def _split_at(special: Iterable[str], text: str) -> list[str]:
    """Split a text at special tokens: text and token take turns, text first and last.

    Examples
    --------
    >>> _split_at(["[SEP]"], "a[SEP]b")
    ['a', '[SEP]', 'b']
    """
    longest_first = sorted(special, key=len, reverse=True)
    if not longest_first:
        return [text]
    return re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
