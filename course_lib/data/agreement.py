"""Subject and verb at a distance: which form of the verb a sentence asks for.

Every example is the beginning of a sentence that goes on with "was" or "were". Which of the two it
is depends on one noun, the subject. Between it and the verb stand a chosen number of words, with
nouns of either number among them, and nothing in them tells the subject's number: all verbs are in
the past tense, where English has one form for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.validation import check_at_least, check_positive_int, check_seed

__all__ = ["NOUNS", "VERBS", "WORDS", "Agreement", "agreement_examples"]

VERBS = ("was", "were")
"""What is to be predicted: the form for one, and the form for several."""

NOUNS = (
    ("cat", "cats"),
    ("dog", "dogs"),
    ("mouse", "mice"),
    ("child", "children"),
    ("farmer", "farmers"),
    ("woman", "women"),
    ("bird", "birds"),
    ("teacher", "teachers"),
)
"""Singular and plural; each can be a subject, and stand between a subject and its verb."""

_ADJECTIVES = ("old", "young", "hungry", "small")
_PREPOSITIONS = ("near", "behind", "beside", "with")
_PAST_TENSE = ("saw", "followed", "liked", "heard")
_ADVERBS = ("often", "already", "once", "never")
_ONE_WORD = ("outside", "inside")
_TWO_WORDS = (("over", "there"), ("in", "town"))

WORDS = (
    "the",
    "that",
    *(noun for pair in NOUNS for noun in pair),
    *_ADJECTIVES,
    *_PREPOSITIONS,
    *_PAST_TENSE,
    *_ADVERBS,
    *_ONE_WORD,
    *(word for pair in _TWO_WORDS for word in pair),
)
"""Every word that an example can hold."""


@dataclass(frozen=True)
class Agreement:
    """The beginning of a sentence, and the number of its subject.

    Parameters
    ----------
    tokens : tuple of str
        The subject with its article, perhaps with an adjective, and what stands between it and the
        verb. The verb is left out: it is what is to be predicted.
    plural : bool
        True where the verb is "were".
    subject : int, default 1
        Where the subject stands in `tokens`, counted from 0.
    """

    tokens: tuple[str, ...]
    plural: bool
    subject: int = 1

    @property
    def verb(self) -> str:
        """The form that the subject asks for."""
        return VERBS[self.plural]

    @property
    def distance(self) -> int:
        """The number of tokens between the subject and the verb."""
        return len(self.tokens) - self.subject - 1


def agreement_examples(n: int, *, distance: int, seed: int | Sequence[int]) -> list[Agreement]:
    """Draw beginnings of sentences whose verb stands `distance` words behind its subject.

    The words between are places ("near the old dogs", "over there") and clauses ("that often saw
    the mice"), chained until they fill the distance exactly. Each noun is in the singular or in
    the plural with probability 1/2, whatever the others are: neither the nearest noun nor the
    majority tells more than chance does, but for the share that the subject has in it.

    Parameters
    ----------
    n : int
        Number of examples, at least 1.
    distance : int
        Number of words between subject and verb, at least 0.
    seed : int or sequence of ints
        The same seed gives the same examples.

    Returns
    -------
    list of `Agreement`, n long

    Raises
    ------
    ValueError
        If `n` isn't a whole number of at least 1, `distance` not one of at least 0, or `seed`
        neither such a number nor a sequence of at least one.

    References
    ----------
    Linzen, Dupoux, Goldberg, "Assessing the Ability of LSTMs to Learn Syntax-Sensitive
    Dependencies", 2016 (arXiv:1611.01368), where such sentences were taken from real text.

    Examples
    --------
    >>> for example in agreement_examples(3, distance=5, seed=2):
    ...     print(*example.tokens, "…", example.verb)
    the cats behind the children over there … were
    the small woman that often liked the dogs … was
    the woman near the farmer in town … was
    """
    check_positive_int("n", n)
    check_at_least("distance", distance, 0)
    rng = np.random.default_rng(check_seed("seed", seed))
    return [_sentence(rng, distance) for _ in range(n)]


def _sentence(rng: np.random.Generator, distance: int) -> Agreement:
    """Return one example."""
    plural = bool(rng.integers(2))
    opening = ["the"]
    if rng.integers(2):
        opening.append(_one_of(rng, _ADJECTIVES))
    opening.append(NOUNS[rng.integers(len(NOUNS))][plural])
    between: list[str] = []
    while distance - len(between) >= 3:
        between += _modifier(rng, distance - len(between))
    rest = distance - len(between)
    if rest == 1:
        between.append(_one_of(rng, _ONE_WORD))
    elif rest == 2:
        between += _TWO_WORDS[rng.integers(len(_TWO_WORDS))]
    return Agreement((*opening, *between), plural, len(opening) - 1)


def _modifier(rng: np.random.Generator, room: int) -> list[str]:
    """Return a place or a clause of three to six words, as far as there is room for them."""
    length = int(rng.integers(3, min(room, 6) + 1))
    noun = NOUNS[rng.integers(len(NOUNS))][rng.integers(2)]
    # three words are a place, five and six a clause, four can be either
    clause = length > 4 or (length == 4 and bool(rng.integers(2)))
    if not clause:
        adjective = [_one_of(rng, _ADJECTIVES)] if length == 4 else []
        return [_one_of(rng, _PREPOSITIONS), "the", *adjective, noun]
    adverb = [_one_of(rng, _ADVERBS)] if length > 4 else []
    adjective = [_one_of(rng, _ADJECTIVES)] if length > 5 else []
    return ["that", *adverb, _one_of(rng, _PAST_TENSE), "the", *adjective, noun]


def _one_of(rng: np.random.Generator, words: tuple[str, ...]) -> str:
    """Draw a word."""
    return words[rng.integers(len(words))]
