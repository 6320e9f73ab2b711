"""Real English that every Python brings along: the reference manual behind ``help()``.

``pydoc_data.topics`` holds the text that ``help("if")`` and the like show. Each release of Python
has its own edition, so lengths, and whatever is learned from the text, differ a little between
versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

__all__ = [
    "TEST",
    "VALIDATION",
    "Split",
    "TextSplit",
    "python_docs",
    "sentences",
    "text_split",
    "word_split",
    "words",
]

# Whole topics, so that what is held out is text about something else. All have been there since
# Python 3.8 at least; together each list is about a tenth of the text.
VALIDATION = ("calls", "execmodel", "numeric-types", "slicings", "try", "typesmapping", "yield")
TEST = ("comparisons", "exprlists", "for", "function", "import", "objects", "return", "strings")

Sentence = tuple[str, ...]

_ITEM = re.compile(r"^(?:[*•-]|\d+\.|\(\d+\)) +")
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*?)([\w(][^*]*?)\1(?![\w*])")  # *so* or **so**
_PLAIN = re.compile(r"[(“\"]*[A-Za-z’'-]+[)”\".,:;?]*")
_END = re.compile(r"(?<=[.:;?!])[\"”)]?\s+(?=[(“\"]*[A-Z])")
_WORD = re.compile(r"\w+(?:’\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Split:
    """Sentences to learn from, to choose settings by, and to judge by.

    Parameters
    ----------
    train, validation, test : tuple of sentences
        A sentence is a tuple of words.
    """

    train: tuple[Sentence, ...]
    validation: tuple[Sentence, ...]
    test: tuple[Sentence, ...]


@dataclass(frozen=True)
class TextSplit:
    """Text to learn from, to choose settings by, and to judge by.

    Parameters
    ----------
    train, validation, test : str
        A paragraph a line, each line ended.
    """

    train: str
    validation: str
    test: str


def python_docs() -> str:
    """Return the prose of Python's reference manual: a paragraph a line, each only once.

    The topics overlap: the one on compound statements contains those on ``if``, ``for``, ``while``
    word for word. Repeated paragraphs are dropped, as are headings, grammar rules, tables and
    programs. About 270,000 characters, depending on the version of Python.

    Returns
    -------
    str

    Examples
    --------
    >>> text = python_docs()
    >>> 'The "if" statement is used for conditional execution:' in text.splitlines()
    True
    >>> len(text.splitlines()) == len(set(text.splitlines()))
    True
    """
    return "\n".join(paragraph for part in _parts() for paragraph in part)


def words(text: str) -> list[str]:
    """Cut text into words and punctuation marks, in lower case.

    Names with underscores stay whole, and so do contractions.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If `text` isn't a string.

    Examples
    --------
    >>> words('It doesn’t call "x.__len__()".')
    ['it', 'doesn’t', 'call', '"', 'x', '.', '__len__', '(', ')', '"', '.']
    """
    if not isinstance(text, str):
        raise ValueError(f"text must be a string; got {type(text).__name__}")
    return _WORD.findall(text.replace("'", "’").lower())


def sentences(text: str) -> list[list[str]]:
    """Cut text into sentences, and each of them into words.

    A sentence ends at a full stop, colon, semicolon, question or exclamation mark that a capital
    letter follows, and at the end of a line.

    Parameters
    ----------
    text : str
        A paragraph a line.

    Returns
    -------
    list of lists of str

    Raises
    ------
    ValueError
        If `text` isn't a string.

    Examples
    --------
    >>> sentences("Names refer to objects. Names are introduced by binding.")
    [['names', 'refer', 'to', 'objects', '.'], ['names', 'are', 'introduced', 'by', 'binding', '.']]
    """
    if not isinstance(text, str):
        raise ValueError(f"text must be a string; got {type(text).__name__}")
    found = (words(part) for line in text.splitlines() for part in _END.split(line))
    return [sentence for sentence in found if sentence]


@cache
def word_split() -> Split:
    """Return the sentences of the manual, split by topic.

    The topics in `TEST` and `VALIDATION` are held out whole, and no sentence is in two parts, or
    twice in one.

    Returns
    -------
    Split

    Examples
    --------
    >>> split = word_split()
    >>> len(split.train) > 5 * len(split.test)
    True
    >>> set(split.train) & set(split.test)
    set()
    """
    seen: set[Sentence] = set()
    parts = []
    for part in _parts():
        found = [tuple(s) for paragraph in part for s in sentences(paragraph)]
        parts.append(tuple(s for s in dict.fromkeys(found) if s not in seen))
        seen.update(found)
    test, validation, train = parts
    return Split(train, validation, test)


def text_split() -> TextSplit:
    """Return the text of the manual as it is written, split by topic as in `word_split`.

    Capitals, spaces and punctuation stay, so that a model has to predict every byte. No paragraph
    is in two parts; a sentence may be, where a training topic says it in another paragraph.

    Returns
    -------
    TextSplit

    Examples
    --------
    >>> split = text_split()
    >>> '"return" may only occur' in split.test, split.test[-1].isspace()
    (True, True)
    """
    test, validation, train = ("".join(f"{line}\n" for line in part) for part in _parts())
    return TextSplit(train, validation, test)


@cache
def _parts() -> tuple[tuple[str, ...], ...]:
    """Return the paragraphs of test, validation and training text, none twice.

    Held-out topics come first: what a training topic shares with them is theirs. Among the
    training topics the longest come first, so that what they share with others stays in one piece.
    """
    from pydoc_data.topics import topics  # 0.5 MB that only this function needs

    rest = sorted(set(topics) - {*TEST, *VALIDATION}, key=lambda name: (-len(topics[name]), name))
    seen: set[str] = set()
    parts = []
    for names in (TEST, VALIDATION, rest):
        part = []
        for name in names:
            for block in re.split(r"\n\s*\n", topics.get(name, "")):
                paragraph = _ITEM.sub("", " ".join(block.split()))
                paragraph = _EMPHASIS.sub(r"\2", paragraph)
                if _is_prose(paragraph) and paragraph not in seen:
                    seen.add(paragraph)
                    part.append(paragraph)
        parts.append(tuple(part))
    return tuple(parts)


def _is_prose(paragraph: str) -> bool:
    """Tell a paragraph of sentences from a heading, a program, a grammar rule or a table."""
    if (
        "::=" in paragraph
        or ">>>" in paragraph
        or not paragraph.endswith((".", ":", "?", "!", ")"))
    ):
        return False
    pieces = paragraph.split()
    plain = sum(_PLAIN.fullmatch(piece) is not None for piece in pieces)
    return len(pieces) >= 5 and plain > 0.6 * len(pieces)
