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
- **One word, several translations.** свой is my, our, his, her, its or their, by the subject; у is
  near or has; думал is thought or was thinking; на is on, and with кухня in or into.
- **Commas** stand before every Russian clause, in English only between main clauses.

Patterns (the field `pattern` of a pair): `PATTERNS` lists them with what they are.

The grammar is a set of functions that make choices. One walk through them at random is a sentence;
all walks, counted, are `count_pairs`.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, TypeVar

from course_lib.data.russian import adjective_forms, noun_forms, past_forms, preposition
from course_lib.validation import check_at_least

__all__ = ["HELD_OUT", "PATTERNS", "Pair", "Split", "count_pairs", "sample_pairs", "split"]

Words = list[str]
T = TypeVar("T")


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


# ---------------------------------------------------------------------------------------- the words


@dataclass(frozen=True, eq=False)
class _Noun:
    english: str
    plural_english: str
    gender: str
    animate: bool
    human: bool
    countable: bool
    forms: dict[tuple[str, str], str]


def _noun(
    lemma: str,
    english: str,
    gender: str,
    kind: str = "thing",
    *,
    plural: str | None = None,
    countable: bool = True,
    **exceptions: str,
) -> _Noun:
    """Make a noun; an exception is named ``prep_sg`` or the like."""
    irregular = {(key[:-3], key[-2:]): form for key, form in exceptions.items()}
    animate = kind != "thing"
    forms = noun_forms(lemma, gender, animate=animate, exceptions=irregular)
    return _Noun(
        english, plural or english + "s", gender, animate, kind == "person", countable, forms
    )


BOY = _noun("мальчик", "boy", "m", "person")
GIRL = _noun("девочка", "girl", "f", "person", gen_pl="девочек")
WOMAN = _noun("женщина", "woman", "f", "person", plural="women")
MAN = _noun("мужчина", "man", "m", "person", plural="men")
ARTIST = _noun("художник", "artist", "m", "person")
# дети has no singular; that of ребёнок, which English has the word of, is never used.
CHILDREN = _Noun(
    "child", "children", "pl", True, True, True,
    {("nom", "pl"): "дети", ("gen", "pl"): "детей", ("dat", "pl"): "детям",
     ("acc", "pl"): "детей", ("ins", "pl"): "детьми", ("prep", "pl"): "детях"},
)  # fmt: skip
CAT = _noun("кот", "cat", "m", "animal")
DOG = _noun("собака", "dog", "f", "animal")
BIRD = _noun("птица", "bird", "f", "animal", ins_sg="птицей")
ELEPHANT = _noun("слон", "elephant", "m", "animal")

APPLE = _noun("яблоко", "apple", "n", nom_pl="яблоки")
# Fish on a plate is animate in the singular as well as in the river: рыбу either way.
FISH = _noun("рыба", "fish", "f", plural="fish")
SOUP = _noun("суп", "soup", "m", countable=False)
BREAD = _noun("хлеб", "bread", "m", countable=False)
MILK = _noun("молоко", "milk", "n", countable=False)
WATER = _noun("вода", "water", "f", countable=False)

BOOK = _noun("книга", "book", "f")
LETTER = _noun("письмо", "letter", "n", gen_pl="писем")
BALL = _noun("мяч", "ball", "m")
KEY = _noun("ключ", "key", "m")
HAT = _noun("шляпа", "hat", "f")
UMBRELLA = _noun("зонт", "umbrella", "m")

TABLE = _noun("стол", "table", "m")
CHAIR = _noun("стул", "chair", "m", nom_pl="стулья", gen_pl="стульев")
MAT = _noun("коврик", "mat", "m")
HOUSE = _noun("дом", "house", "m", nom_pl="дома")
GARDEN = _noun("сад", "garden", "m", prep_sg="саду")
FOREST = _noun("лес", "forest", "m", prep_sg="лесу", nom_pl="леса")
YARD = _noun("двор", "yard", "m")
KITCHEN = _noun("кухня", "kitchen", "f", gen_pl="кухонь")
LAKE = _noun("озеро", "lake", "n", nom_pl="озёра", gen_pl="озёр")

PERSONS = (BOY, GIRL, WOMAN, MAN, ARTIST, CHILDREN)
ANIMALS = (CAT, DOG, BIRD, ELEPHANT)
THINGS = (BOOK, LETTER, BALL, KEY, HAT, UMBRELLA)
# What lies on a table or under a chair.
LYING = (*THINGS, APPLE)
# Nouns that occur in the plural without a number before it.
PLURAL = (CAT, DOG, APPLE, BOOK, LETTER, HAT)
# Nouns that are counted.
COUNTED = (BOY, GIRL, WOMAN, MAN, ARTIST, *ANIMALS, APPLE, *THINGS)
OWNED = (CAT, DOG, HOUSE, GARDEN, *THINGS)
OWNERS = PERSONS


@dataclass(frozen=True, eq=False)
class _Adjective:
    english: str
    forms: dict[tuple[str, str], str]


def _adjective(lemma: str, english: str) -> _Adjective:
    return _Adjective(english, adjective_forms(lemma))


OLD = _adjective("старый", "old")
BIG = _adjective("большой", "big")
SMALL = _adjective("маленький", "small")
KIND = _adjective("добрый", "kind")
BLACK = _adjective("чёрный", "black")
RED = _adjective("красный", "red")

ADJECTIVES: dict[_Noun, tuple[_Adjective, ...]] = {
    BOY: (SMALL, KIND),
    GIRL: (SMALL, KIND),
    WOMAN: (KIND, OLD),
    MAN: (KIND, OLD),
    ARTIST: (KIND, OLD),
    CHILDREN: (SMALL, KIND),
    CAT: (OLD, BIG, SMALL, BLACK),
    DOG: (OLD, BIG, SMALL, KIND, BLACK),
    BIRD: (BIG, SMALL, BLACK),
    ELEPHANT: (OLD, BIG, SMALL, KIND),
    APPLE: (BIG, SMALL, RED),
    FISH: (BIG, SMALL, RED),
    BOOK: (OLD, BIG, SMALL, RED),
    LETTER: (OLD,),
    BALL: (OLD, BIG, SMALL, RED),
    KEY: (OLD, BIG, SMALL),
    HAT: (OLD, BIG, BLACK, RED),
    UMBRELLA: (OLD, BIG, BLACK, RED),
    TABLE: (OLD, BIG, SMALL),
    CHAIR: (OLD, SMALL),
    MAT: (OLD, SMALL),
    HOUSE: (OLD, BIG, SMALL),
    GARDEN: (OLD, BIG, SMALL),
    FOREST: (OLD, BIG),
    YARD: (OLD, BIG, SMALL),
    KITCHEN: (BIG, SMALL),
    LAKE: (BIG, SMALL),
}

# свой is soft, and stands before objects alone.
_OWN = {("nom", "m"): "свой", ("gen", "m"): "своего", ("acc", "f"): "свою", ("nom", "n"): "своё"}
_WHICH = adjective_forms("который")


@dataclass(frozen=True, eq=False)
class _Verb:
    """A verb of both aspects: a form that the corpus doesn't use is missing.

    `imperfective` and `perfective` are the past tenses, `present` the third persons.
    """

    base: str
    third: str
    past: str
    ing: str
    imperfective: dict[str, str] | None = None
    perfective: dict[str, str] | None = None
    present: tuple[str, str] | None = None
    stative: bool = False
    manners: tuple[tuple[str, str], ...] = ()


QUICKLY, SLOWLY, QUIETLY = ("быстро", "quickly"), ("медленно", "slowly"), ("тихо", "quietly")

READ = _Verb("read", "reads", "read", "reading", past_forms("читал"), past_forms("прочитал"),
             ("читает", "читают"), manners=(QUICKLY, SLOWLY, QUIETLY))  # fmt: skip
EAT = _Verb("eat", "eats", "ate", "eating", past_forms("ел"), past_forms("съел"),
            ("ест", "едят"), manners=(QUICKLY, SLOWLY))  # fmt: skip
DRINK = _Verb("drink", "drinks", "drank", "drinking", past_forms("пил"), past_forms("выпил"),
              ("пьёт", "пьют"), manners=(QUICKLY, SLOWLY))  # fmt: skip
DRAW = _Verb("draw", "draws", "drew", "drawing", past_forms("рисовал"), past_forms("нарисовал"),
             ("рисует", "рисуют"), manners=(QUICKLY, SLOWLY))  # fmt: skip
SEE = _Verb("see", "sees", "saw", "seeing", past_forms("видел"), stative=True)
FIND = _Verb("find", "finds", "found", "finding", perfective=past_forms("нашёл", "нашл"),
             manners=(QUICKLY,))  # fmt: skip
GIVE = _Verb("give", "gives", "gave", "giving", perfective=past_forms("дал"))
PUT = _Verb("put", "puts", "put", "putting", perfective=past_forms("положил"),
            manners=(QUICKLY, QUIETLY))  # fmt: skip
SLEEP = _Verb("sleep", "sleeps", "slept", "sleeping", past_forms("спал"), present=("спит", "спят"))
SIT = _Verb("sit", "sits", "sat", "sitting", past_forms("сидел"), present=("сидит", "сидят"),
            manners=(QUIETLY,))  # fmt: skip
STAND = _Verb("stand", "stands", "stood", "standing", past_forms("стоял"),
              present=("стоит", "стоят"))  # fmt: skip
LIE = _Verb("lie", "lies", "lay", "lying", past_forms("лежал"), present=("лежит", "лежат"))
RUN = _Verb("run", "runs", "ran", "running", past_forms("бежал"), past_forms("побежал"),
            ("бежит", "бегут"), manners=(QUICKLY,))  # fmt: skip
PLAY = _Verb("play", "plays", "played", "playing", past_forms("играл"),
             present=("играет", "играют"), manners=(QUIETLY,))  # fmt: skip
THINK = _Verb("think", "thinks", "thought", "thinking", past_forms("думал"))
THINK_THAT = _Verb("think", "thinks", "thought", "thinking", past_forms("думал"), stative=True)
KNOW = _Verb("know", "knows", "knew", "knowing", past_forms("знал"), stative=True)
SAY = _Verb("say", "says", "said", "saying", perfective=past_forms("сказал"))

# Who can do what to what. Persons and animals can see one another; nobody acts on their own kind.
FOOD = (APPLE, FISH, SOUP, BREAD)
OBJECTS: dict[_Verb, dict[_Noun, tuple[_Noun, ...]]] = {
    READ: dict.fromkeys(PERSONS, (BOOK, LETTER)),
    EAT: {
        **dict.fromkeys(PERSONS, FOOD),
        CAT: (FISH, SOUP),
        DOG: (FISH, SOUP, BREAD),
        BIRD: (APPLE, BREAD, FISH),
        ELEPHANT: (APPLE, BREAD),
    },
    DRINK: {
        **dict.fromkeys(PERSONS, (MILK, WATER)),
        **dict.fromkeys((CAT, DOG), (MILK, WATER)),
        **dict.fromkeys((BIRD, ELEPHANT), (WATER,)),
    },
    DRAW: dict.fromkeys(PERSONS, (*ANIMALS, APPLE, HOUSE, GARDEN, FOREST, LAKE)),
    SEE: {
        **dict.fromkeys(PERSONS, (*PERSONS, *ANIMALS, *THINGS, HOUSE, GARDEN, FOREST, LAKE)),
        **dict.fromkeys(ANIMALS, (*PERSONS, *ANIMALS, FISH, BALL, HOUSE, LAKE)),
    },
    FIND: {
        **dict.fromkeys(PERSONS, (CAT, DOG, APPLE, *THINGS)),
        DOG: (CAT, BALL, HAT, KEY, FISH),
    },
}
ACTIONS = tuple(OBJECTS)


class _Place(NamedTuple):
    preposition: str
    case: str
    noun: _Noun
    english: tuple[str, ...]


def _places(word: str, case: str, english: str, *nouns: _Noun) -> tuple[_Place, ...]:
    return tuple(_Place(word, case, noun, tuple(english.split())) for noun in nouns)


OUTSIDE = (
    *_places("в", "prep", "in", GARDEN, FOREST, YARD),
    *_places("у", "gen", "near", HOUSE, LAKE),
    *_places("за", "ins", "behind", HOUSE),
)
INSIDE = (*_places("в", "prep", "in", HOUSE), *_places("на", "prep", "in", KITCHEN))
ON = _places("на", "prep", "on", TABLE, CHAIR, MAT)
UNDER = _places("под", "ins", "under", TABLE, CHAIR)
GOALS = (
    *_places("в", "acc", "into", HOUSE, GARDEN, FOREST, YARD),
    *_places("на", "acc", "into", KITCHEN),
    *_places("к", "dat", "to", HOUSE, LAKE),
    *_places("из", "gen", "out of", HOUSE, GARDEN, FOREST),
)
SURFACES = _places("на", "acc", "on", TABLE, CHAIR, MAT)
SEATS = _places("на", "prep", "on", CHAIR, MAT)

# Where each noun is found.
PLACES: dict[_Noun, tuple[_Place, ...]] = {
    **dict.fromkeys(PERSONS, (*OUTSIDE, *INSIDE)),
    **dict.fromkeys((CAT, DOG), (*OUTSIDE, *INSIDE, *ON, *UNDER)),
    BIRD: (*OUTSIDE, *ON),
    ELEPHANT: OUTSIDE,
    **dict.fromkeys(LYING, (*ON, *UNDER, *_places("в", "prep", "in", GARDEN, YARD), *INSIDE)),
    **dict.fromkeys((TABLE, CHAIR), (*INSIDE, *_places("в", "prep", "in", GARDEN, YARD))),
    **dict.fromkeys((FISH, SOUP, BREAD, MILK, WATER), (*INSIDE,)),
    **dict.fromkeys((HOUSE, LAKE), _places("в", "prep", "in", FOREST)),
    **dict.fromkeys((GARDEN, FOREST), _places("у", "gen", "near", LAKE)),
}
# Who takes which posture.
POSTURES: dict[_Verb, tuple[_Noun, ...]] = {
    SLEEP: (*PERSONS, *ANIMALS),
    SIT: (*PERSONS, CAT, DOG, BIRD),
    STAND: (*PERSONS, ELEPHANT, TABLE, CHAIR),
    LIE: (CAT, DOG, *LYING),
}


def _where(verb: _Verb, noun: _Noun) -> tuple[_Place, ...]:
    """Return the places where someone is while doing something."""
    if verb is SIT and noun.human:
        return (*PLACES[noun], *SEATS)
    return PLACES[noun]


# Combinations that neither training nor test sentences hold. Each of these words occurs in other
# combinations there.
HELD_OUT: frozenset[tuple[str, str]] = frozenset(
    {
        ("old", "cat"), ("big", "dog"), ("small", "bird"), ("kind", "elephant"),
        ("kind", "artist"), ("small", "girl"), ("red", "apple"), ("red", "book"),
        ("big", "hat"), ("black", "umbrella"), ("old", "key"), ("big", "house"),
        ("small", "garden"), ("big", "table"),
        ("eat", "soup"), ("draw", "bird"), ("draw", "house"), ("see", "elephant"),
        ("see", "book"), ("find", "key"), ("find", "cat"), ("give", "ball"), ("put", "letter"),
    }
)  # fmt: skip


# -------------------------------------------------------------------------------------- the choices


class _Choices:
    """How a sentence comes about: one choice after the other, here at random."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random
        self.combinations: set[tuple[str, str]] = set()

    def one(self, options: Sequence[T]) -> T:
        """Choose one of several, each as likely as the others."""
        return options[int(self._random() * len(options))]

    def maybe(self, probability: float) -> bool:
        """Choose whether to."""
        return self._random() < probability

    def part(self, function: Callable[..., T], *arguments: Any) -> T:
        """Make the choices of a part of the sentence.

        What is chosen there must not decide which choices follow: then the number of sentences is
        a product. What does decide is chosen before, and passed on.
        """
        return function(self, *arguments)

    def note(self, *combination: str) -> None:
        """Remember which words were put together."""
        first, second = combination
        self.combinations.add((first, second))


class _First(_Choices):
    """Always the first option, and no extras: any one sentence."""

    def __init__(self) -> None:
        self.combinations = set()

    def one(self, options: Sequence[T]) -> T:
        return options[0]

    def maybe(self, probability: float) -> bool:
        return False


class _Walk(_Choices):
    """One of all walks through a function's choices; `advance` goes on to the next.

    With `expand` a part is walked through too; without, it is counted and multiplied.
    """

    def __init__(self, expand: bool) -> None:
        self._expand = expand
        self._path: list[list[int]] = []
        self.begin()

    def begin(self) -> None:
        self._at = 0
        self.factor = 1
        self.combinations = set()

    def one(self, options: Sequence[T]) -> T:
        if self._at == len(self._path):
            self._path.append([0, len(options)])
        self._at += 1
        return options[self._path[self._at - 1][0]]

    def maybe(self, probability: float) -> bool:
        return self.one((False, True))

    def part(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._expand:
            return function(self, *arguments)
        self.factor *= _count(function, *arguments)
        return function(_First(), *arguments)

    def advance(self) -> bool:
        """Prepare the next walk; tell whether there is one."""
        while self._path and self._path[-1][0] == self._path[-1][1] - 1:
            self._path.pop()
        if self._path:
            self._path[-1][0] += 1
        self.begin()
        return bool(self._path)


@cache
def _count(function: Callable[..., Any], *arguments: Any) -> int:
    """Count the ways through the choices of a function."""
    walk = _Walk(expand=False)
    total, more = 0, True
    while more:
        function(walk, *arguments)
        total += walk.factor
        more = walk.advance()
    return total


# -------------------------------------------------------------------------------------- the phrases

NUMERALS = (("два", "две", "two"), ("три", "три", "three"), ("четыре", "четыре", "four"))


class _Phrase(NamedTuple):
    """A noun with what belongs to it."""

    noun: _Noun
    number: str = "sg"
    adjective: _Adjective | None = None
    numeral: tuple[str, str, str] | None = None
    owner: _Noun | None = None
    own: bool = False

    @property
    def gender(self) -> str:
        """What the verb agrees with: a gender or the plural."""
        return "pl" if self.numeral or self.number == "pl" else self.noun.gender

    @property
    def possessive(self) -> str:
        """The English word for свой with this subject."""
        if self.gender == "pl":
            return "their"
        return ("his" if self.gender == "m" else "her") if self.noun.human else "its"

    def russian(self, case: str) -> Words:
        noun = self.noun
        if self.numeral:
            word = self.numeral[1 if noun.gender == "f" else 0]
            return [word, noun.forms["gen", "sg"]]
        gender = "pl" if self.number == "pl" else noun.gender
        words = []
        if self.own:
            words.append(_agree(_OWN, noun, case, gender))
        if self.adjective:
            words.append(_agree(self.adjective.forms, noun, case, gender))
        words.append(noun.forms[case, self.number])
        if self.owner:
            words.append(self.owner.forms["gen", "pl" if self.owner.gender == "pl" else "sg"])
        return words

    def english(self, definite: bool, possessive: str = "") -> Words:
        """Return the English phrase; `possessive` is what свой means here."""
        plural = self.numeral is not None or self.number == "pl"
        words = [self.adjective.english] if self.adjective else []
        words.append(self.noun.plural_english if plural else self.noun.english)
        if self.numeral:
            return [self.numeral[2], *words]
        if self.own:
            return [possessive, *words]
        if self.owner:
            name = self.owner.plural_english if self.owner.gender == "pl" else self.owner.english
            return ["the", name + "'s", *words]
        if definite:
            return ["the", *words]
        if plural or not self.noun.countable:
            return words
        return ["an" if words[0][0] in "aeiou" else "a", *words]


class _Both(NamedTuple):
    """Two nouns joined by and."""

    first: _Noun
    second: _Noun
    gender: str = "pl"
    possessive: str = "their"

    def russian(self, case: str) -> Words:
        return [*_Phrase(self.first, _number(self.first)).russian(case), "и",
                *_Phrase(self.second, _number(self.second)).russian(case)]  # fmt: skip

    def english(self, definite: bool) -> Words:
        return [*_Phrase(self.first, _number(self.first)).english(definite), "and",
                *_Phrase(self.second, _number(self.second)).english(definite)]  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Pronoun:
    """A pronoun, with its Russian forms: nominative, genitive after у, dative."""

    forms: dict[str, str]
    word: str
    object_word: str
    gender: str
    possessive: str

    def russian(self, case: str) -> Words:
        return [self.forms[case]]

    def english(self, definite: bool) -> Words:
        return [self.word]


_Subject = _Phrase | _Both | _Pronoun

_I_FORMS = {"nom": "я", "gen": "меня", "dat": "мне"}
I_M = _Pronoun(_I_FORMS, "i", "me", "m", "my")
I_F = _Pronoun(_I_FORMS, "i", "me", "f", "my")
HE = _Pronoun({"nom": "он", "gen": "него", "dat": "ему"}, "he", "him", "m", "his")
SHE = _Pronoun({"nom": "она", "gen": "неё", "dat": "ей"}, "she", "her", "f", "her")
WE = _Pronoun({"nom": "мы", "gen": "нас", "dat": "нам"}, "we", "us", "pl", "our")
THEY = _Pronoun({"nom": "они", "gen": "них", "dat": "им"}, "they", "them", "pl", "their")
# The present tense is there in the third person only.
PRONOUNS = {
    "imperfective": (I_M, I_F, HE, SHE, WE, THEY),
    "perfective": (I_M, I_F, HE, SHE, WE, THEY),
    "present": (HE, SHE, THEY),
}
OBLIQUE = (I_M, HE, SHE, THEY)


def _number(noun: _Noun) -> str:
    """Return the number of a noun that is in none by choice."""
    return "pl" if noun.gender == "pl" else "sg"


def _agree(forms: dict[tuple[str, str], str], noun: _Noun, case: str, gender: str) -> str:
    """Return the form of an adjective that agrees with a noun."""
    if case == "acc" and gender != "f":
        case = "gen" if noun.animate and gender != "n" else "nom"
    return forms[case, gender]


def _phrase(
    choose: _Choices, noun: _Noun, case: str, extras: str = "", without: tuple[_Noun, ...] = ()
) -> _Phrase:
    """Choose what belongs to a noun.

    `extras` says what may: n(umeral), p(lural), g(enitive of an owner), o(wn). An adjective always
    may, but for the oblique cases of the plural. The nouns `without` are not the owner.
    """
    number = _number(noun)
    plain = case == "nom" or (case == "acc" and not noun.animate)
    if number == "sg" and noun.countable:
        if "n" in extras and plain and noun in COUNTED and choose.maybe(0.1):
            return _Phrase(noun, numeral=choose.one(NUMERALS))
        if "p" in extras and noun in PLURAL and choose.maybe(0.1):
            number = "pl"
    own, owner = False, None
    if "o" in extras and number == "sg" and choose.maybe(0.15):
        own = True
    elif "g" in extras and noun in OWNED and choose.maybe(0.15):
        owner = choose.one(tuple(person for person in OWNERS if person not in without))
    adjective = None
    fitting = _fitting(noun, case, number)
    if fitting and choose.maybe(0.35):
        adjective = choose.one(fitting)
        choose.note(adjective.english, noun.english)
    return _Phrase(noun, number, adjective, None, owner, own)


@cache
def _fitting(noun: _Noun, case: str, number: str) -> tuple[_Adjective, ...]:
    """Return the adjectives of a noun that the corpus has in a case and number.

    Rare forms are left out, so that a model sees each of the others often enough: colours in the
    plural and in the oblique cases, kind in the prepositional, all in the plural's oblique cases.
    """
    straight = case == "nom" or case == "acc"
    if number == "pl" and (case != "nom" and (case != "acc" or noun.animate)):
        return ()
    return tuple(
        adjective
        for adjective in ADJECTIVES.get(noun, ())
        if not (adjective in (BLACK, RED) and (number == "pl" or not straight))
        and not (adjective is KIND and case == "prep")
    )


def _subject(
    choose: _Choices, noun: _Noun | _Pronoun, case: str = "nom", extras: str = "npg"
) -> _Phrase | _Pronoun:
    """Choose what belongs to a subject, unless it is a pronoun."""
    if isinstance(noun, _Pronoun):
        return noun
    return choose.part(_phrase, noun, case, extras)


def _doer(choose: _Choices, nouns: Iterable[_Noun], form: str = "imperfective") -> _Noun | _Pronoun:
    """Choose who does something: one of several nouns, or a pronoun where persons may."""
    options = tuple(nouns)
    if options[0].human and choose.maybe(0.15):
        return choose.one(PRONOUNS[form])
    return choose.one(options)


def _known(noun: _Noun | _Pronoun) -> tuple[_Noun, ...]:
    """Return the noun that must not come back as the owner or the object; none for a pronoun."""
    return () if isinstance(noun, _Pronoun) else (noun,)


def _like(noun: _Noun | _Pronoun) -> _Noun:
    """Return a noun that can do the same: a person for a pronoun."""
    return BOY if isinstance(noun, _Pronoun) else noun


def _at(
    choose: _Choices, place: _Place, definite: bool, without: tuple[_Noun, ...] = ()
) -> tuple[Words, Words]:
    """Return a place in both languages."""
    phrase = _phrase(choose, place.noun, place.case, "g", without)
    russian = phrase.russian(place.case)
    word = preposition(place.preposition, russian[0])
    return [word, *russian], [*place.english, *phrase.english(definite)]


# ---------------------------------------------------------------------------------------- the verbs


class _Adverb(NamedTuple):
    """What stands before the Russian verb; `kind` is manner, habit or not."""

    kind: str
    russian: tuple[str, ...]
    english: tuple[str, ...]


NOT = _Adverb("not", ("не",), ())
HABITS = (
    _Adverb("habit", ("всегда",), ("always",)),
    _Adverb("habit", ("часто",), ("often",)),
    _Adverb("habit", ("никогда", "не"), ("never",)),
)
_PAST_TIMES = (
    (("вчера",), ("yesterday",)),
    (("утром",), ("in", "the", "morning")),
    (("вечером",), ("in", "the", "evening")),
)
TIMES = {
    "imperfective": _PAST_TIMES,
    "perfective": _PAST_TIMES,
    "present": ((("сейчас",), ("now",)),),
}
_Time = tuple[tuple[str, ...], tuple[str, ...]]
_NO_TIME: _Time = ((), ())


def _case(thing: _Phrase, adverb: _Adverb | None) -> str:
    """Return the case of an object: under negation, what can't be counted is in the genitive."""
    negated = adverb is not None and "не" in adverb.russian
    return "gen" if negated and not thing.noun.countable else "acc"


def _forms(verb: _Verb) -> tuple[str, ...]:
    """Return the names of the forms that a verb has."""
    return tuple(
        form
        for form in ("imperfective", "perfective", "present")
        if getattr(verb, form) is not None
    )


def _adverb(choose: _Choices, verb: _Verb, form: str, habits: bool) -> _Adverb | None:
    """Choose an adverb of manner or habit, or a negation, or none."""
    if not choose.maybe(0.35):
        return None
    options = [NOT, *(_Adverb("manner", (r,), (e,)) for r, e in verb.manners)]
    if habits and form != "perfective" and verb is not RUN:
        options += HABITS[1:] if verb is SEE else HABITS
    return choose.one(options)


def _setting(choose: _Choices, verb: _Verb, form: str) -> tuple[_Time, _Adverb | None]:
    """Choose when and how: a habit has no time."""
    if choose.maybe(0.25):
        return choose.one(TIMES[form]), _adverb(choose, verb, form, False)
    return _NO_TIME, _adverb(choose, verb, form, True)


def _verb(
    verb: _Verb,
    form: str,
    subject: _Subject,
    adverb: _Adverb | None = None,
    backshift: bool = False,
) -> tuple[Words, Words, Words]:
    """Return the verb with its adverb in Russian, in English, and what follows the English object.

    With `backshift` a Russian present is an English past.
    """
    plural = subject.gender == "pl"
    russian = [*adverb.russian] if adverb else []
    if form == "present":
        assert verb.present is not None
        russian.append(verb.present[plural])
    else:
        russian.append(getattr(verb, form)[subject.gender])
    kind = adverb.kind if adverb else ""
    after = list(adverb.english) if adverb and kind == "manner" else []
    past = form != "present" or backshift
    if form == "perfective" or verb.stative or kind == "habit":
        if kind == "not":
            english = ["did", "not", verb.base]
        else:
            before = adverb.english if adverb and kind == "habit" else ()
            english = [*before, verb.past if past else verb.base if plural else verb.third]
    else:
        be = ("were" if plural else "was") if past else ("are" if plural else "is")
        english = [be, *(["not"] if kind == "not" else []), verb.ing]
    return russian, english, after


# ------------------------------------------------------------------------------------- the patterns

_Sentence = tuple[Words, Words]


def _object(
    choose: _Choices, verb: _Verb, noun: _Noun | _Pronoun
) -> tuple[_Phrase, tuple[Words, Words]]:
    """Choose what is acted on, and perhaps where. `noun` acts."""
    known = _known(noun)
    options = OBJECTS[verb][_like(noun)]
    thing = choose.one(tuple(option for option in options if option not in known))
    choose.note(verb.base, thing.english)
    extras = "np"
    if _like(noun).human:
        extras += "g" if verb in (READ, SEE, FIND, DRAW) else ""
        extras += "o" if verb is not DRAW and thing in (*OWNED, APPLE, FISH) else ""
    elif thing in (FISH, BALL):
        extras += "o"
    phrase = choose.part(_phrase, thing, "acc", extras, known)
    # What is seen or found is somewhere; otherwise the one who acts is.
    where = PLACES.get(thing, ()) if verb in (SEE, FIND) else PLACES[_like(noun)]
    where = tuple(place for place in where if place.noun is not thing)
    if where and choose.maybe(0.45):
        return phrase, choose.part(_at, choose.one(where), False, known)
    return phrase, ([], [])


def _transitive(choose: _Choices) -> _Sentence:
    verb = choose.one(ACTIONS)
    form = choose.one(_forms(verb))
    time, adverb = choose.part(_setting, verb, form)
    noun = _doer(choose, OBJECTS[verb], form)
    # An owner of the subject might be what is seen.
    subject = _subject(choose, noun, "nom", "np" if verb is SEE else "npg")
    thing, (where_ru, where_en) = choose.part(_object, verb, noun)
    verb_ru, verb_en, after = _verb(verb, form, subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, *thing.russian(_case(thing, adverb)),
         *where_ru],
        [*subject.english(True), *verb_en, *thing.english(False, subject.possessive), *after,
         *where_en, *time[1]],
    )  # fmt: skip


def _fronted(choose: _Choices) -> _Sentence:
    verb = choose.one(ACTIONS)
    form = choose.one(_forms(verb))
    time = choose.one(TIMES[form]) if choose.maybe(0.2) else _NO_TIME
    noun = _doer(choose, OBJECTS[verb], form)
    known = _known(noun)
    subject = _subject(choose, noun, "nom", "np" if verb is SEE else "npg")
    options = OBJECTS[verb][_like(noun)]
    thing = choose.one(tuple(option for option in options if option not in known))
    choose.note(verb.base, thing.english)
    phrase = choose.part(_phrase, thing, "acc", "npg", known)
    verb_ru, verb_en, _ = _verb(verb, form, subject)
    return (
        [*time[0], *phrase.russian("acc"), *verb_ru, *subject.russian("nom")],
        [*subject.english(False), *verb_en, *phrase.english(True), *time[1]],
    )


def _shared(verb: _Verb, first: _Noun, second: _Noun) -> tuple[_Place, ...]:
    """Return the places where both are."""
    theirs = _where(verb, second)
    return tuple(place for place in _where(verb, first) if place in theirs)


def _some(
    choose: _Choices, verb: _Verb, nouns: Sequence[_Noun]
) -> tuple[_Phrase | _Both, tuple[_Place, ...], tuple[_Noun, ...]]:
    """Choose one noun or two for a posture; return places where they can be, and the nouns."""
    noun = choose.one(nouns)
    if choose.maybe(0.15):
        others = tuple(
            other
            for other in nouns
            if other is not noun
            and other.human == noun.human
            and other.animate == noun.animate
            and _shared(verb, noun, other)
        )
        if others:
            other = choose.one(others)
            return _Both(noun, other), _shared(verb, noun, other), (noun, other)
    return choose.part(_phrase, noun, "nom", "npg"), _where(verb, noun), (noun,)


def _posture(choose: _Choices) -> _Sentence:
    verb = choose.one(tuple(POSTURES))
    form = choose.one(_forms(verb))
    time, adverb = choose.part(_setting, verb, form)
    subject: _Subject
    known: tuple[_Noun, ...]
    if verb is not LIE and choose.maybe(0.12):
        subject, where, known = choose.one(PRONOUNS[form]), _where(verb, BOY), ()
    else:
        subject, where, known = _some(choose, verb, POSTURES[verb])
    place: tuple[Words, Words] = ([], [])
    if verb is not SLEEP or choose.maybe(0.75):
        place = choose.part(_at, choose.one(where), False, known)
    verb_ru, verb_en, after = _verb(verb, form, subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, *place[0]],
        [*subject.english(True), *verb_en, *after, *place[1], *time[1]],
    )


def _inverted(choose: _Choices) -> _Sentence:
    verb = choose.one(tuple(POSTURES))
    form = choose.one(_forms(verb))
    time = choose.one(TIMES[form]) if choose.maybe(0.2) else _NO_TIME
    subject, where, known = _some(choose, verb, POSTURES[verb])
    place_ru, place_en = choose.part(_at, choose.one(where), True, known)
    verb_ru, verb_en, _ = _verb(verb, form, subject)
    return (
        [*time[0], *place_ru, *verb_ru, *subject.russian("nom")],
        [*subject.english(False), *verb_en, *place_en, *time[1]],
    )


def _motion(choose: _Choices) -> _Sentence:
    form = choose.one(_forms(RUN))
    time, adverb = choose.part(_setting, RUN, form)
    noun = _doer(choose, (*PERSONS, CAT, DOG, ELEPHANT), form)
    subject = _subject(choose, noun, "nom", "np")
    goals = GOALS
    if noun is ELEPHANT:
        goals = tuple(goal for goal in goals if goal.noun in (GARDEN, FOREST, YARD, LAKE))
    others = tuple(other for other in (*PERSONS, *ANIMALS) if other is not noun)
    goal = choose.one((*goals, *(_to(other) for other in others)))
    goal_ru, goal_en = choose.part(_at, goal, False, _known(noun))
    verb_ru, verb_en, after = _verb(RUN, form, subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, *goal_ru],
        [*subject.english(True), *verb_en, *after, *goal_en, *time[1]],
    )


@cache
def _to(noun: _Noun) -> _Place:
    return _Place("к", "dat", noun, ("to",))


POSSESSIONS = {
    **dict.fromkeys(PERSONS, (CAT, DOG, HOUSE, GARDEN, APPLE, *FOOD[1:], MILK, *THINGS)),
    CAT: (FISH, MILK, BALL),
    DOG: (FISH, BREAD, BALL),
    ELEPHANT: (APPLE, BALL, BREAD),
}


def _having(choose: _Choices) -> _Sentence:
    owner: _Noun | _Pronoun
    owner = choose.one(OBLIQUE[:3]) if choose.maybe(0.2) else choose.one(tuple(POSSESSIONS))
    thing = choose.one(POSSESSIONS[_like(owner)])
    owner_phrase = _subject(choose, owner, "gen", "")
    many = owner_phrase.gender == "pl" or owner_phrase.english(True) == ["i"]
    kind = choose.one(("есть", "был", "нет", "не было"))
    if kind in ("есть", "был"):
        phrase = choose.part(_phrase, thing, "nom", "p")
        verb = [kind if kind == "есть" else past_forms("был")[phrase.gender]]
        thing_ru, thing_en = phrase.russian("nom"), phrase.english(False)
    else:
        phrase = choose.part(_phrase, thing, "gen", "")
        verb = kind.split()
        thing_ru, thing_en = phrase.russian("gen"), ["no", *phrase.english(True)[1:]]
    have = ("have" if many else "has") if kind in ("есть", "нет") else "had"
    return (
        ["у", *owner_phrase.russian("gen"), *verb, *thing_ru],
        [*owner_phrase.english(True), have, *thing_en],
    )


LIKED = (*ANIMALS, APPLE, *FOOD[1:], MILK, *THINGS, HOUSE, GARDEN, FOREST, LAKE)
_LIKED_PAST = {"m": "понравился", "f": "понравилась", "n": "понравилось", "pl": "понравились"}


def _liking(choose: _Choices) -> _Sentence:
    fan: _Noun | _Pronoun
    fan = choose.one(OBLIQUE) if choose.maybe(0.25) else choose.one(PERSONS)
    fan_phrase = _subject(choose, fan, "dat", "")
    known = _known(fan)
    phrase = choose.part(_phrase, choose.one(LIKED), "nom", "pg", known)
    plural = phrase.gender == "pl"
    many = fan_phrase.gender == "pl" or fan_phrase.english(True) == ["i"]
    past, negated = choose.maybe(0.4), choose.maybe(0.2)
    if past:
        verb, do, like = _LIKED_PAST[phrase.gender], "did", "liked"
    else:
        verb = "нравятся" if plural else "нравится"
        do, like = ("do", "like") if many else ("does", "likes")
    return (
        [*fan_phrase.russian("dat"), *(["не"] if negated else []), verb, *phrase.russian("nom")],
        [*fan_phrase.english(True), *([do, "not", "like"] if negated else [like]),
         *phrase.english(True)],
    )  # fmt: skip


GIFTS = {
    **dict.fromkeys(PERSONS, (CAT, DOG, APPLE, FISH, *THINGS)),
    CAT: (FISH, MILK),
    DOG: (FISH, BREAD, WATER, BALL),
    BIRD: (BREAD, WATER),
    ELEPHANT: (APPLE, BREAD, WATER),
}


def _giving(choose: _Choices) -> _Sentence:
    time, adverb = choose.part(_setting, GIVE, "perfective")
    noun = _doer(choose, PERSONS, "perfective")
    subject = _subject(choose, noun)
    if choose.maybe(0.2):
        # To give something to oneself takes another pronoun.
        receiver = choose.one(tuple(p for p in OBLIQUE if p.word != subject.english(True)[0]))
        to_ru, to_en, options = receiver.russian("dat"), [receiver.object_word], GIFTS[BOY]
    else:
        other = choose.one(tuple(o for o in GIFTS if o is not noun))
        phrase = choose.part(_phrase, other, "dat", "")
        to_ru, to_en, options = phrase.russian("dat"), phrase.english(False), GIFTS[other]
    thing = choose.one(options)
    choose.note("give", thing.english)
    known = _known(noun)
    gift = choose.part(_phrase, thing, "acc", "npo" if thing in OWNED else "np", known)
    verb_ru, verb_en, _ = _verb(GIVE, "perfective", subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, *to_ru, *gift.russian(_case(gift, adverb))],
        [*subject.english(True), *verb_en, *gift.english(False, subject.possessive), "to", *to_en,
         *time[1]],
    )  # fmt: skip


def _putting(choose: _Choices) -> _Sentence:
    time, adverb = choose.part(_setting, PUT, "perfective")
    noun = _doer(choose, PERSONS, "perfective")
    subject = _subject(choose, noun)
    known = _known(noun)
    thing = choose.one(LYING)
    choose.note("put", thing.english)
    phrase = choose.part(_phrase, thing, "acc", "npgo", known)
    place_ru, place_en = choose.part(_at, choose.one(SURFACES), False, known)
    verb_ru, verb_en, after = _verb(PUT, "perfective", subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, *phrase.russian("acc"), *place_ru],
        [*subject.english(True), *verb_en, *phrase.english(False, subject.possessive), *after,
         *place_en, *time[1]],
    )  # fmt: skip


def _companion(choose: _Choices, noun: _Noun | _Pronoun) -> _Sentence:
    """Choose whom someone plays with."""
    human = _like(noun).human
    options = (*PERSONS, *ANIMALS) if human else (*PERSONS, CAT, DOG)
    other = choose.one(tuple(o for o in options if o is not noun))
    phrase = choose.part(_phrase, other, "ins", "g" if human else "", _known(noun))
    russian = phrase.russian("ins")
    return [preposition("с", russian[0]), *russian], ["with", *phrase.english(False)]


def _playing(choose: _Choices) -> _Sentence:
    form = choose.one(_forms(PLAY))
    time, adverb = choose.part(_setting, PLAY, form)
    noun = _doer(choose, (*PERSONS, CAT, DOG), form)
    subject = _subject(choose, noun, "nom", "np")
    with_ru, with_en = choose.part(_companion, noun)
    place: tuple[Words, Words] = ([], [])
    if choose.maybe(0.4):
        place = choose.part(_at, choose.one((*OUTSIDE, *INSIDE)), False, _known(noun))
    verb_ru, verb_en, after = _verb(PLAY, form, subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, *with_ru, *place[0]],
        [*subject.english(True), *verb_en, *after, *with_en, *place[1], *time[1]],
    )


TOPICS = (GIRL, WOMAN, MAN, DOG, BIRD, HOUSE, LAKE)


def _thinking(choose: _Choices) -> _Sentence:
    time, adverb = choose.part(_setting, THINK, "imperfective")
    noun = _doer(choose, PERSONS)
    subject = _subject(choose, noun)
    topics = tuple(o for o in TOPICS if o is not noun)
    known = _known(noun)
    phrase = choose.part(_phrase, choose.one(topics), "prep", "g", known)
    topic = phrase.russian("prep")
    verb_ru, verb_en, _ = _verb(THINK, "imperfective", subject, adverb)
    return (
        [*time[0], *subject.russian("nom"), *verb_ru, preposition("о", topic[0]), *topic],
        [*subject.english(True), *verb_en, "about", *phrase.english(False), *time[1]],
    )


def _can(noun: _Noun, form: str, verbs: Iterable[_Verb]) -> tuple[_Verb, ...]:
    """Return the verbs, of several, that a noun can be the subject of in a form."""
    return tuple(
        verb
        for verb in verbs
        if getattr(verb, form) is not None and noun in (OBJECTS.get(verb) or POSTURES[verb])
    )


def _predicate(
    choose: _Choices,
    verb: _Verb,
    form: str,
    noun: _Noun,
    subject: _Subject,
    adverb: _Adverb | None = None,
    backshift: bool = False,
) -> _Sentence:
    """Return verb and object, or verb and place: short, for a sentence with two of them."""
    verb_ru, verb_en, _ = _verb(verb, form, subject, adverb, backshift)
    if verb in POSTURES:
        ru, en = choose.part(_at, choose.one(_where(verb, noun)), False, (noun,))
        return [*verb_ru, *ru], [*verb_en, *en]
    thing = choose.one(tuple(option for option in OBJECTS[verb][noun] if option is not noun))
    choose.note(verb.base, thing.english)
    phrase = choose.part(_phrase, thing, "acc")
    return [*verb_ru, *phrase.russian(_case(phrase, adverb))], [*verb_en, *phrase.english(False)]


LIVING = (*PERSONS, *ANIMALS)
_TWO = tuple((a, b) for a in LIVING for b in LIVING if a is not b)


def _clause(
    choose: _Choices, noun: _Noun, form: str, lasts: bool = False, backshift: bool = False
) -> _Sentence:
    """Return a short main or subordinate clause with a given subject.

    What `lasts`, while something else happens, isn't negated, nor is it seeing.
    """
    verbs = (*(verb for verb in ACTIONS if not (lasts and verb is SEE)), *POSTURES)
    verb = choose.one(_can(noun, form, verbs))
    subject = choose.part(_phrase, noun, "nom")
    adverb = NOT if not lasts and choose.maybe(0.15) else None
    ru, en = choose.part(_predicate, verb, form, noun, subject, adverb, backshift)
    return [*subject.russian("nom"), *ru], [*subject.english(True), *en]


CONJUNCTIONS = (
    ("и", "and", "imperfective"), ("и", "and", "perfective"), ("и", "and", "present"),
    ("но", "but", "imperfective"), ("но", "but", "perfective"), ("но", "but", "present"),
    ("а", "while", "imperfective"), ("а", "while", "present"),
)  # fmt: skip


def _joined(choose: _Choices) -> _Sentence:
    conjunction_ru, conjunction_en, form = choose.one(CONJUNCTIONS)
    first, second = choose.one(_TWO)
    lasts = conjunction_ru == "а"
    ru_1, en_1 = choose.part(_clause, first, form, lasts)
    ru_2, en_2 = choose.part(_clause, second, form, lasts)
    return [*ru_1, ",", conjunction_ru, *ru_2], [*en_1, ",", conjunction_en, *en_2]


def _when(choose: _Choices) -> _Sentence:
    first, second = choose.one(_TWO)
    ru_1, en_1 = choose.part(_clause, first, "imperfective", True)
    ru_2, en_2 = choose.part(_clause, second, choose.one(("imperfective", "perfective")), True)
    return ["когда", *ru_1, ",", *ru_2], ["when", *en_1, ",", *en_2]


def _reported(choose: _Choices) -> _Sentence:
    verb = choose.one((KNOW, SAY, THINK_THAT))
    form = _forms(verb)[0]
    speaker = _doer(choose, PERSONS)
    subject = _subject(choose, speaker, "nom", "")
    noun = choose.one(tuple(other for other in LIVING if other is not speaker))
    ru, en = choose.part(_clause, noun, "present", False, True)
    verb_ru, verb_en, _ = _verb(verb, form, subject)
    return (
        [*subject.russian("nom"), *verb_ru, ",", "что", *ru],
        [*subject.english(True), *verb_en, "that", *en],
    )


def _relative(noun: _Noun) -> tuple[str, str]:
    """Return the relative pronoun, nominative, of a noun."""
    return _WHICH["nom", noun.gender], "who" if noun.human else "that"


def _relative_subject(choose: _Choices) -> _Sentence:
    noun = choose.one(LIVING)
    subject = choose.part(_phrase, noun, "nom")
    stays = _can(noun, "imperfective", (SIT, STAND, LIE))
    form = choose.one(("imperfective", "perfective"))
    acts = _can(noun, form, (READ, EAT, DRINK, DRAW))
    which_ru, which_en = _relative(noun)
    ru_1, en_1 = choose.part(_predicate, choose.one(stays), "imperfective", noun, subject)
    ru_2, en_2 = choose.part(_predicate, choose.one(acts), form, noun, subject)
    return (
        [*subject.russian("nom"), ",", which_ru, *ru_1, ",", *ru_2],
        [*subject.english(True), which_en, *en_1, *en_2],
    )


def _relative_object(choose: _Choices) -> _Sentence:
    verb = choose.one((SEE, FIND))
    form = _forms(verb)[0]
    noun = _doer(choose, OBJECTS[verb], form)
    subject = _subject(choose, noun)
    known = _known(noun)
    options = tuple(
        other
        for other in OBJECTS[verb][_like(noun)]
        if other not in known and _can(other, "imperfective", POSTURES)
    )
    thing = choose.one(options)
    choose.note(verb.base, thing.english)
    phrase = choose.part(_phrase, thing, "acc")
    stay = choose.one(_can(thing, "imperfective", POSTURES))
    plain = _Phrase(thing, _number(thing))
    which_ru, which_en = _relative(thing)
    ru, en = choose.part(_predicate, stay, "imperfective", thing, plain)
    verb_ru, verb_en, _ = _verb(verb, form, subject)
    return (
        [*subject.russian("nom"), *verb_ru, *phrase.russian("acc"), ",", which_ru, *ru],
        [*subject.english(True), *verb_en, *phrase.english(False), which_en, *en],
    )


class _Pattern(NamedTuple):
    make: Callable[[_Choices], _Sentence]
    weight: int
    meaning: str


_PATTERNS = {
    "transitive": _Pattern(_transitive, 22, "subject, verb, object, perhaps a place"),
    "posture": _Pattern(_posture, 12, "someone or something sleeps, sits, stands or lies"),
    "inverted": _Pattern(_inverted, 9, "place, verb, subject: на столе лежала книга"),
    "fronted": _Pattern(_fronted, 8, "object, verb, subject: птицу видел кот"),
    "motion": _Pattern(_motion, 6, "someone runs into, to or out of"),
    "having": _Pattern(_having, 7, "у кота есть, был, нет, не было …"),
    "liking": _Pattern(_liking, 6, "мальчику нравится or понравился …"),
    "giving": _Pattern(_giving, 5, "someone gave someone something"),
    "putting": _Pattern(_putting, 4, "someone put something on something"),
    "playing": _Pattern(_playing, 4, "someone plays with someone"),
    "thinking": _Pattern(_thinking, 3, "someone was thinking about something"),
    "joined": _Pattern(_joined, 5, "two clauses with и, но or а"),
    "when": _Pattern(_when, 3, "когда and two clauses"),
    "reported": _Pattern(_reported, 3, "someone knew, said or thought that …"),
    "relative_subject": _Pattern(_relative_subject, 2, "the subject has a relative clause"),
    "relative_object": _Pattern(_relative_object, 3, "the object has a relative clause"),
}
PATTERNS = {name: pattern.meaning for name, pattern in _PATTERNS.items()}


# ------------------------------------------------------------------------------------- the sampling

_NAMES = tuple(_PATTERNS)
_CUMULATIVE = tuple(accumulate(pattern.weight for pattern in _PATTERNS.values()))


def _draw(choose: _Choices) -> Pair:
    """Draw one sentence."""
    name = _NAMES[bisect(_CUMULATIVE, choose.one(range(_CUMULATIVE[-1])))]
    choose.combinations = set()
    russian, english = _PATTERNS[name].make(choose)
    return Pair(tuple(russian), tuple(english), name, frozenset(choose.combinations))


def count_pairs() -> int:
    """Count the distinct pairs of the grammar, exactly.

    Examples
    --------
    >>> count_pairs() > 100_000
    True
    """
    return sum(_count(pattern.make) for pattern in _PATTERNS.values())


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
    ("old cat", "eat soup"). Every held-out sentence has at least one of these: each of its words
    is known from training, the combination is not.

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


class _Source:
    """A stream of distinct pairs within a range of lengths."""

    def __init__(self, seed: int, min_length: int, max_length: int | None) -> None:
        check_at_least("seed", seed, 0)
        check_at_least("min_length", min_length, 1)
        if max_length is not None:
            check_at_least("max_length", max_length, min_length)
        self._choose = _Choices(seed)
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
