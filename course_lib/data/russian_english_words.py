"""The words of the toy corpus in both languages: who can be what, do what, and where.

The grammar that puts them together is `course_lib.data.russian_english_patterns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from course_lib.data.russian import adjective_forms, noun_forms, past_forms


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun, with its Russian form for each case and number."""

    english: str
    plural_english: str
    gender: str
    animate: bool
    human: bool
    countable: bool
    forms: dict[tuple[str, str], str]


def noun(
    lemma: str,
    english: str,
    gender: str,
    kind: str = "thing",
    *,
    plural: str | None = None,
    countable: bool = True,
    **exceptions: str,
) -> Noun:
    """Make a noun; an exception is named ``prep_sg`` or the like."""
    irregular = {(key[:-3], key[-2:]): form for key, form in exceptions.items()}
    animate = kind != "thing"
    forms = noun_forms(lemma, gender, animate=animate, exceptions=irregular)
    return Noun(
        english, plural or english + "s", gender, animate, kind == "person", countable, forms
    )


BOY = noun("мальчик", "boy", "m", "person")
GIRL = noun("девочка", "girl", "f", "person", gen_pl="девочек")
WOMAN = noun("женщина", "woman", "f", "person", plural="women")
MAN = noun("мужчина", "man", "m", "person", plural="men")
ARTIST = noun("художник", "artist", "m", "person")
# дети has no singular; that of ребёнок, which English has the word of, is never used.
CHILDREN = Noun(
    "child", "children", "pl", True, True, True,
    {("nom", "pl"): "дети", ("gen", "pl"): "детей", ("dat", "pl"): "детям",
     ("acc", "pl"): "детей", ("ins", "pl"): "детьми", ("prep", "pl"): "детях"},
)  # fmt: skip
CAT = noun("кот", "cat", "m", "animal")
DOG = noun("собака", "dog", "f", "animal")
BIRD = noun("птица", "bird", "f", "animal", ins_sg="птицей")
ELEPHANT = noun("слон", "elephant", "m", "animal")

APPLE = noun("яблоко", "apple", "n", nom_pl="яблоки")
FISH = noun("рыба", "fish", "f", "animal", plural="fish")
SOUP = noun("суп", "soup", "m", countable=False)
BREAD = noun("хлеб", "bread", "m", countable=False)
MILK = noun("молоко", "milk", "n", countable=False)
WATER = noun("вода", "water", "f", countable=False)

BOOK = noun("книга", "book", "f")
LETTER = noun("письмо", "letter", "n", gen_pl="писем")
BALL = noun("мяч", "ball", "m")
KEY = noun("ключ", "key", "m")
HAT = noun("шляпа", "hat", "f")
UMBRELLA = noun("зонт", "umbrella", "m")

TABLE = noun("стол", "table", "m")
CHAIR = noun("стул", "chair", "m", nom_pl="стулья", gen_pl="стульев")
MAT = noun("коврик", "mat", "m")
HOUSE = noun("дом", "house", "m", nom_pl="дома")
GARDEN = noun("сад", "garden", "m", prep_sg="саду")
FOREST = noun("лес", "forest", "m", prep_sg="лесу", nom_pl="леса")
YARD = noun("двор", "yard", "m")
KITCHEN = noun("кухня", "kitchen", "f", gen_pl="кухонь")
LAKE = noun("озеро", "lake", "n", nom_pl="озёра", gen_pl="озёр")

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
class Adjective:
    """An adjective, with its Russian form for each case and gender, or the plural."""

    english: str
    forms: dict[tuple[str, str], str]


def adjective(lemma: str, english: str) -> Adjective:
    """Return an adjective with all its forms."""
    return Adjective(english, adjective_forms(lemma))


OLD = adjective("старый", "old")
BIG = adjective("большой", "big")
SMALL = adjective("маленький", "small")
KIND = adjective("добрый", "kind")
BLACK = adjective("чёрный", "black")
RED = adjective("красный", "red")

ADJECTIVES: dict[Noun, tuple[Adjective, ...]] = {
    BOY: (BIG, SMALL, KIND),
    GIRL: (SMALL, KIND),
    WOMAN: (SMALL, KIND, OLD),
    MAN: (BIG, KIND, OLD),
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
OWN = {("nom", "m"): "свой", ("gen", "m"): "своего", ("acc", "f"): "свою", ("nom", "n"): "своё"}
WHICH = adjective_forms("который")


@dataclass(frozen=True, eq=False)
class Verb:
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

    def russian_forms(self) -> set[str]:
        """Return all forms that the corpus has."""
        tenses = [tense for tense in (self.imperfective, self.perfective) if tense is not None]
        return {*(self.present or ()), *(form for tense in tenses for form in tense.values())}


QUICKLY, SLOWLY, QUIETLY = ("быстро", "quickly"), ("медленно", "slowly"), ("тихо", "quietly")

READ = Verb("read", "reads", "read", "reading", past_forms("читал"), past_forms("прочитал"),
             ("читает", "читают"), manners=(QUICKLY, SLOWLY, QUIETLY))  # fmt: skip
EAT = Verb("eat", "eats", "ate", "eating", past_forms("ел"), past_forms("съел"),
            ("ест", "едят"), manners=(QUICKLY, SLOWLY))  # fmt: skip
DRINK = Verb("drink", "drinks", "drank", "drinking", past_forms("пил"), past_forms("выпил"),
              ("пьёт", "пьют"), manners=(QUICKLY, SLOWLY))  # fmt: skip
DRAW = Verb("draw", "draws", "drew", "drawing", past_forms("рисовал"), past_forms("нарисовал"),
             ("рисует", "рисуют"), manners=(QUICKLY, SLOWLY))  # fmt: skip
SEE = Verb("see", "sees", "saw", "seeing", past_forms("видел"), stative=True)
FIND = Verb("find", "finds", "found", "finding", perfective=past_forms("нашёл", "нашл"),
             manners=(QUICKLY,))  # fmt: skip
GIVE = Verb("give", "gives", "gave", "giving", perfective=past_forms("дал"))
PUT = Verb("put", "puts", "put", "putting", perfective=past_forms("положил"),
            manners=(QUICKLY, QUIETLY))  # fmt: skip
SLEEP = Verb("sleep", "sleeps", "slept", "sleeping", past_forms("спал"), present=("спит", "спят"))
SIT = Verb("sit", "sits", "sat", "sitting", past_forms("сидел"), present=("сидит", "сидят"),
            manners=(QUIETLY,))  # fmt: skip
STAND = Verb("stand", "stands", "stood", "standing", past_forms("стоял"),
              present=("стоит", "стоят"))  # fmt: skip
LIE = Verb("lie", "lies", "lay", "lying", past_forms("лежал"), present=("лежит", "лежат"))
RUN = Verb("run", "runs", "ran", "running", past_forms("бежал"), past_forms("побежал"),
            ("бежит", "бегут"), manners=(QUICKLY,))  # fmt: skip
PLAY = Verb("play", "plays", "played", "playing", past_forms("играл"),
             present=("играет", "играют"), manners=(QUIETLY,))  # fmt: skip
THINK = Verb("think", "thinks", "thought", "thinking", past_forms("думал"))
THINK_THAT = Verb("think", "thinks", "thought", "thinking", past_forms("думал"), stative=True)
KNOW = Verb("know", "knows", "knew", "knowing", past_forms("знал"), stative=True)
SAY = Verb("say", "says", "said", "saying", perfective=past_forms("сказал"))

# Who can do what to what. Persons and animals can see one another; nobody acts on their own kind.
FOOD = (APPLE, FISH, SOUP, BREAD)
OBJECTS: dict[Verb, dict[Noun, tuple[Noun, ...]]] = {
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


class Place(NamedTuple):
    """A preposition, the case it asks for, a noun it stands with, and both in English."""

    preposition: str
    case: str
    noun: Noun
    english: tuple[str, ...]


def places(word: str, case: str, english: str, *nouns: Noun) -> tuple[Place, ...]:
    """Return the places that one preposition makes of several nouns."""
    return tuple(Place(word, case, noun, tuple(english.split())) for noun in nouns)


OUTSIDE = (
    *places("в", "prep", "in", GARDEN, FOREST, YARD),
    *places("у", "gen", "near", HOUSE, LAKE),
    *places("за", "ins", "behind", HOUSE),
)
INSIDE = (*places("в", "prep", "in", HOUSE), *places("на", "prep", "in", KITCHEN))
ON = places("на", "prep", "on", TABLE, CHAIR, MAT)
UNDER = places("под", "ins", "under", TABLE, CHAIR)
GOALS = (
    *places("в", "acc", "into", HOUSE, GARDEN, FOREST, YARD),
    *places("на", "acc", "into", KITCHEN),
    *places("к", "dat", "to", HOUSE, LAKE),
    *places("из", "gen", "out of", HOUSE, GARDEN, FOREST),
)
SURFACES = places("на", "acc", "on", TABLE, CHAIR, MAT)
SEATS = places("на", "prep", "on", CHAIR, MAT)

# Where each noun is found.
PLACES: dict[Noun, tuple[Place, ...]] = {
    **dict.fromkeys(PERSONS, (*OUTSIDE, *INSIDE)),
    CAT: (*OUTSIDE, *INSIDE, *ON, *UNDER),
    DOG: (*OUTSIDE, *INSIDE, *places("на", "prep", "on", MAT), *UNDER),
    BIRD: (*OUTSIDE, *ON),
    ELEPHANT: OUTSIDE,
    **dict.fromkeys(LYING, (*ON, *UNDER, *places("в", "prep", "in", GARDEN, YARD), *INSIDE)),
    **dict.fromkeys((TABLE, CHAIR), (*INSIDE, *places("в", "prep", "in", GARDEN, YARD))),
    **dict.fromkeys((FISH, SOUP, BREAD, MILK, WATER), (*INSIDE,)),
    **dict.fromkeys((HOUSE, LAKE), places("в", "prep", "in", FOREST)),
    **dict.fromkeys((GARDEN, FOREST), places("у", "gen", "near", LAKE)),
}
# Who takes which posture.
POSTURES: dict[Verb, tuple[Noun, ...]] = {
    SLEEP: (*PERSONS, *ANIMALS),
    SIT: (*PERSONS, CAT, DOG, BIRD),
    STAND: (*PERSONS, ELEPHANT, TABLE, CHAIR),
    LIE: (CAT, DOG, *LYING),
}


def where_is(verb: Verb, noun: Noun) -> tuple[Place, ...]:
    """Return the places where someone is while doing something."""
    if verb is SIT and noun.human:
        return (*PLACES[noun], *SEATS)
    return PLACES[noun]


NUMERALS = (("два", "две", "two"), ("три", "три", "three"), ("четыре", "четыре", "four"))


@dataclass(frozen=True, eq=False)
class Pronoun:
    """A pronoun, with its Russian forms: nominative, genitive after у, dative."""

    forms: dict[str, str]
    word: str
    object_word: str
    gender: str
    possessive: str

    def russian(self, case: str) -> list[str]:
        return [self.forms[case]]

    def english(self, definite: bool) -> list[str]:
        return [self.word]


_I_FORMS = {"nom": "я", "gen": "меня", "dat": "мне"}
I_M = Pronoun(_I_FORMS, "i", "me", "m", "my")
I_F = Pronoun(_I_FORMS, "i", "me", "f", "my")
HE = Pronoun({"nom": "он", "gen": "него", "dat": "ему"}, "he", "him", "m", "his")
SHE = Pronoun({"nom": "она", "gen": "неё", "dat": "ей"}, "she", "her", "f", "her")
WE = Pronoun({"nom": "мы", "gen": "нас", "dat": "нам"}, "we", "us", "pl", "our")
THEY = Pronoun({"nom": "они", "gen": "них", "dat": "им"}, "they", "them", "pl", "their")
# The present tense is there in the third person only.
PRONOUNS = {
    "imperfective": (I_M, I_F, HE, SHE, WE, THEY),
    "perfective": (I_M, I_F, HE, SHE, WE, THEY),
    "present": (HE, SHE, THEY),
}
OBLIQUE = (I_M, HE, SHE, THEY)
