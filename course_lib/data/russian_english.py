"""Russian sentences and their English translations, from one grammar that speaks both languages.

«я видел кота на коврике» → "i saw a cat on a mat". Everything is lower case, the comma is a word of
its own, no sentence has a full stop. Every Russian sentence has exactly one translation.

What the languages do differently, and a model has to find out:

- **Articles.** Russian has none; word order does their work. What stands before the verb is known
  (the), what stands after it is new (a, an, or nothing in the plural and for milk, soup …):
  «кот видел птицу» "the cat saw a bird", «на столе лежала книга» "a book was lying on the table",
  «птицу видел кот» "a cat saw the bird". What is owned is definite ("the girl's house"), what is
  counted has no article ("two cats"), what is liked is definite («мне нравится книга»).
- **Case** says who does what, and where to: «в саду» "in a garden", «в сад» "into a garden".
- **Agreement.** Adjectives agree in gender, number and case, the past tense in gender and number,
  the present in number; два/две agree in gender, and the counted noun is a genitive singular.
- **Aspect.** Imperfective past → past progressive (читал "was reading"), perfective past → simple
  past (прочитал "read"), present → present progressive. With часто, всегда or никогда the
  imperfective is a habit: simple past or present. видел, знал and думал что are simple too.
- **Sequence of tenses.** «сказал , что кот спит» "said that the cat was sleeping".
- **Word order.** Adverbs of time open the Russian sentence and close the English one; adverbs of
  manner stand before the Russian verb and behind the English object; the owner follows in Russian
  («дом девочки») and leads in English; the recipient changes places with the gift.
- **Having and liking.** «у кота есть рыба» "the cat has a fish", «у кота нет рыбы» (genitive) "the
  cat has no fish", «мальчику нравится кот» (dative) "the boy likes the cat".
- **Negation.** не stands before the verb; никогда не is never. The object stays in the accusative,
  but what can't be counted goes into the genitive: «кот не пьёт воды» "the cat is not drinking
  water".
- **One word, several translations.** свой is my, our, his, her, its or their, by the subject; у is
  near or has; думал is thought or was thinking; на is on, and with кухня in or into.
- **Commas** set off every Russian clause; in English they stand between main clauses and behind a
  clause with when.

What is said is not absurd where that is cheap: people read, cats don't; an elephant eats apples and
doesn't lie on tables. `PATTERNS` lists the patterns (the field `pattern` of a pair).

The words are in `course_lib.data.russian_english_words`, their declension in
`course_lib.data.russian`, the patterns in `course_lib.data.russian_english_patterns`: functions
that make choices. One walk through them at random is a sentence; all walks, counted, are
`count_pairs`; the walk that gives a certain sentence is how `translate` finds its translation.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from course_lib.data.choices import Choices, count, search
from course_lib.data.russian import CASES
from course_lib.data.russian_english_patterns import PATTERNS as GRAMMAR
from course_lib.data.russian_english_patterns import Adverb, Phrase
from course_lib.data.russian_english_words import Adjective, Noun, Place, Pronoun, Verb
from course_lib.validation import check_at_least, check_several, check_text

__all__ = [
    "HELD_OUT",
    "PATTERNS",
    "Pair",
    "Split",
    "count_pairs",
    "sample_pairs",
    "split",
    "translate",
]


@dataclass(frozen=True)
class Pair:
    """A sentence in both languages, as tuples of words.

    `pattern` names the pattern that made it; `combinations` holds its (adjective, noun) and (verb,
    object) pairs as English base forms, such as ("old", "cat") or ("eat", "apple").
    """

    russian: tuple[str, ...]
    english: tuple[str, ...]
    pattern: str
    combinations: frozenset[tuple[str, str]] = field(default=frozenset(), compare=False, repr=False)


class Split(NamedTuple):
    """Three lists of pairs that share no sentence; see `split`."""

    train: list[Pair]
    test: list[Pair]
    held_out: list[Pair]


# Combinations that neither training nor test sentences hold. Each of their nouns keeps at least two
# other adjectives, each verb two other objects: or a model could take the noun for its adjective.
HELD_OUT: frozenset[tuple[str, str]] = frozenset(
    {
        ("old", "cat"), ("big", "dog"), ("small", "bird"), ("kind", "elephant"), ("kind", "boy"),
        ("old", "man"), ("small", "apple"), ("red", "book"), ("small", "ball"), ("big", "hat"),
        ("black", "umbrella"), ("big", "house"), ("small", "garden"), ("eat", "apple"),
        ("draw", "bird"), ("draw", "house"), ("see", "elephant"), ("see", "book"), ("find", "key"),
        ("find", "cat"), ("give", "ball"), ("put", "letter"),
    }
)  # fmt: skip


PATTERNS = {name: pattern.meaning for name, pattern in GRAMMAR.items()}
_NAMES = tuple(GRAMMAR)
_CUMULATIVE = tuple(accumulate(pattern.weight for pattern in GRAMMAR.values()))


def _draw(choose: Choices) -> Pair:
    """Draw one sentence."""
    return _make(_NAMES[bisect(_CUMULATIVE, choose.one(range(_CUMULATIVE[-1])))], choose)


def _make(name: str, choose: Choices) -> Pair:
    """Make a sentence of a pattern."""
    choose.combinations = set()
    russian, english = GRAMMAR[name].make(choose)
    return Pair(tuple(russian), tuple(english), name, frozenset(choose.combinations))


def count_pairs() -> int:
    """Count the distinct pairs of the grammar, exactly.

    Examples
    --------
    >>> count_pairs() > 100_000
    True
    """
    return sum(count(pattern.make) for pattern in GRAMMAR.values())


def sample_pairs(
    n: int, *, seed: int, min_length: int = 1, max_length: int | None = None
) -> list[Pair]:
    """Draw distinct pairs.

    Parameters
    ----------
    n : int
        How many. The first of a larger sample with the same seed are those of a smaller one.
    seed : int
        The same seed gives the same pairs.
    min_length, max_length : int, optional
        The range of lengths of the Russian sentence, in words (a comma is one), both included.

    Returns
    -------
    list of n `Pair`

    Raises
    ------
    ValueError
        If an argument is too small, or the grammar can't be made to give n such pairs.

    Examples
    --------
    >>> pairs = sample_pairs(100, seed=0, min_length=4, max_length=6)
    >>> len(set(pairs)), sorted({len(pair.russian) for pair in pairs})
    (100, [4, 5, 6])
    """
    check_at_least("n", n, 0)
    source = _Source(seed, min_length, max_length)
    return source.take("n", n)


def split(
    n_train: int,
    n_test: int,
    n_held_out: int,
    *,
    seed: int,
    min_length: int = 1,
    max_length: int | None = None,
) -> Split:
    """Draw three sets of distinct pairs that share no sentence.

    Train and test sentences come from one distribution, without the combinations of `HELD_OUT`
    ("old cat", "eat apple"). Every held-out sentence has at least one of these. From some thousands
    of training sentences on each of its words is known from training, the combination is not.

    Parameters
    ----------
    n_train, n_test, n_held_out : int
        How many of each.
    seed : int
        The same seed and arguments give the same split.
    min_length, max_length : int, optional
        As for `sample_pairs`.

    Returns
    -------
    Split
        ``train``, ``test`` and ``held_out``, lists of `Pair`.

    Raises
    ------
    ValueError
        If an argument is too small, or the grammar can't be made to give so many pairs.

    Examples
    --------
    >>> train, test, held_out = split(200, 50, 50, seed=0)
    >>> any(pair.combinations & HELD_OUT for pair in train + test)
    False
    >>> all(pair.combinations & HELD_OUT for pair in held_out)
    True
    """
    check_at_least("n_train", n_train, 0)
    check_at_least("n_test", n_test, 0)
    check_at_least("n_held_out", n_held_out, 0)
    source = _Source(seed, min_length, max_length)
    train = source.take("n_train", n_train, held_out=False)
    test = source.take("n_test", n_test, held_out=False)
    return Split(train, test, source.take("n_held_out", n_held_out, held_out=True))


def translate(russian: Sequence[str]) -> Pair:
    """Return the pair of a Russian sentence of the grammar.

    Raises
    ------
    ValueError
        If `russian` isn't a sequence of strings, or the grammar doesn't have the sentence.

    Examples
    --------
    >>> pair = translate("я видел кота на коврике".split())
    >>> " ".join(pair.english), pair.pattern
    ('i saw a cat on a mat', 'transitive')
    """
    check_several("russian", russian, "a sequence of words")
    russian = tuple(russian)
    for i, word in enumerate(russian):
        check_text(f"russian[{i}]", word)
    found = derivations(russian)
    if not found:
        raise ValueError(f"russian must be a sentence of the grammar; got {' '.join(russian)!r}")
    return found[0]


def derivations(russian: Sequence[str]) -> list[Pair]:
    """Return one pair for each way in which the grammar makes a Russian sentence.

    There is one way or none: that is how the tests prove that every sentence has one translation
    and is counted once.
    """
    words, line = frozenset(russian), f" {' '.join(russian)} "

    def occurs(option: Any) -> bool:
        """Tell whether an option can be part of the sentence."""
        if isinstance(option, Noun | Adjective | Pronoun):
            return not words.isdisjoint(option.forms.values())
        if isinstance(option, Verb):
            return not words.isdisjoint(option.russian_forms())
        if isinstance(option, Place):
            return occurs(option.noun)
        if isinstance(option, Adverb):
            return words.issuperset(option.russian)
        if isinstance(option, tuple) and isinstance(option[0], Noun):
            return all(occurs(noun) for noun in option)
        if isinstance(option, tuple) and isinstance(option[0], tuple):  # a time
            return words.issuperset(option[0])
        if isinstance(option, tuple):  # a numeral or a conjunction
            return not words.isdisjoint(option[:2])
        return True

    def stand(some: Sequence[str]) -> bool:
        """Tell whether words stand together in the sentence."""
        return f" {' '.join(some)} " in line

    def fits(part: Any) -> bool:
        """Tell whether a phrase, or the Russian words of a part, stand in the sentence."""
        if isinstance(part, Phrase):
            cases = ("acc",) if part.own else ("nom",) if part.numeral else CASES
            return any(stand(part.russian(case)) for case in cases)
        if isinstance(part, tuple) and isinstance(part[0], list):
            return not part[0] or stand(part[0])
        return True

    return [
        pair
        for name in GRAMMAR
        for pair in search(partial(_make, name), occurs, fits)
        if pair.russian == tuple(russian)
    ]


class _Source:
    """A stream of distinct pairs within a range of lengths."""

    def __init__(self, seed: int, min_length: int, max_length: int | None) -> None:
        check_at_least("seed", seed, 0)
        check_at_least("min_length", min_length, 1)
        if max_length is not None:
            check_at_least("max_length", max_length, min_length)
        self._choose = Choices(seed)
        self._lengths = range(min_length, (max_length or 99) + 1)
        self._seen: set[tuple[str, ...]] = set()

    def take(self, name: str, n: int, held_out: bool | None = None) -> list[Pair]:
        """Return the next n pairs, or those of them with, or without, a held-out combination."""
        pairs: list[Pair] = []
        failures = 0
        while len(pairs) < n:
            pair = _draw(self._choose)
            if (
                len(pair.russian) in self._lengths
                and (held_out is None or held_out == bool(pair.combinations & HELD_OUT))
                and pair.russian not in self._seen
            ):
                self._seen.add(pair.russian)
                pairs.append(pair)
                failures = 0
            else:
                failures += 1
            if failures == _PATIENCE:
                raise ValueError(
                    f"{name} must be a number of pairs that the grammar has with lengths from "
                    f"{self._lengths.start} to {self._lengths.stop - 1}; got {n}, and after "
                    f"{len(pairs)} no more were found"
                )
        return pairs


# How many draws in a row may bring nothing new.
_PATIENCE = 20_000
