"""The grammar of the toy corpus: phrases, verbs and sentence patterns, in both languages at once.

What it says is described in `course_lib.data.russian_english`. Every function takes `choose`, a
`course_lib.data.choices.Choices`, and asks it wherever there is more than one way to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from course_lib.data.choices import Choices
from course_lib.data.russian import past_forms, preposition
from course_lib.data.russian_english_words import (
    ACTIONS,
    ADJECTIVES,
    ANIMALS,
    APPLE,
    BALL,
    BIRD,
    BLACK,
    BOY,
    BREAD,
    CAT,
    COUNTED,
    DOG,
    DRAW,
    DRINK,
    EAT,
    ELEPHANT,
    FIND,
    FISH,
    FOOD,
    FOREST,
    GARDEN,
    GIRL,
    GIVE,
    GOALS,
    HOUSE,
    INSIDE,
    KIND,
    KNOW,
    LAKE,
    LIE,
    LYING,
    MAN,
    MILK,
    NUMERALS,
    OBJECTS,
    OBLIQUE,
    OUTSIDE,
    OWN,
    OWNED,
    OWNERS,
    PERSONS,
    PLACES,
    PLAY,
    PLURAL,
    POSTURES,
    PRONOUNS,
    PUT,
    READ,
    RED,
    RUN,
    SAY,
    SEE,
    SIT,
    SLEEP,
    STAND,
    SURFACES,
    THINGS,
    THINK,
    THINK_THAT,
    WATER,
    WHICH,
    WOMAN,
    YARD,
    Adjective,
    Noun,
    Place,
    Pronoun,
    Verb,
    where_is,
)

Words = list[str]

# -------------------------------------------------------------------------------------- the phrases


class Phrase(NamedTuple):
    """A noun with what belongs to it."""

    noun: Noun
    number: str = "sg"
    adjective: Adjective | None = None
    numeral: tuple[str, str, str] | None = None
    owner: Noun | None = None
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
            words.append(_agree(OWN, noun, case, gender))
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


class Both(NamedTuple):
    """Two nouns joined by and."""

    first: Noun
    second: Noun
    gender: str = "pl"
    possessive: str = "their"

    def russian(self, case: str) -> Words:
        return [*Phrase(self.first, _number(self.first)).russian(case), "и",
                *Phrase(self.second, _number(self.second)).russian(case)]  # fmt: skip

    def english(self, definite: bool) -> Words:
        return [*Phrase(self.first, _number(self.first)).english(definite), "and",
                *Phrase(self.second, _number(self.second)).english(definite)]  # fmt: skip


_Subject = Phrase | Both | Pronoun


def _number(noun: Noun) -> str:
    """Return the number of a noun that is in none by choice."""
    return "pl" if noun.gender == "pl" else "sg"


def _agree(forms: dict[tuple[str, str], str], noun: Noun, case: str, gender: str) -> str:
    """Return the form of an adjective that agrees with a noun."""
    if case == "acc" and gender != "f":
        case = "gen" if noun.animate and gender != "n" else "nom"
    return forms[case, gender]


def _phrase(
    choose: Choices, noun: Noun, case: str, extras: str = "", without: tuple[Noun, ...] = ()
) -> Phrase:
    """Choose what belongs to a noun.

    `extras` says what may: n(umeral), p(lural), g(enitive of an owner), o(wn). An adjective always
    may, but for the oblique cases of the plural. The nouns `without` are not the owner.
    """
    number = _number(noun)
    plain = case == "nom" or (case == "acc" and not noun.animate)
    if number == "sg" and noun.countable:
        if "n" in extras and plain and noun in COUNTED and choose.maybe(0.1):
            return Phrase(noun, numeral=choose.one(NUMERALS))
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
    return Phrase(noun, number, adjective, None, owner, own)


@cache
def _fitting(noun: Noun, case: str, number: str) -> tuple[Adjective, ...]:
    """Return the adjectives of a noun that the corpus has in a case and number.

    Rare forms are left out, so that a model sees each of the others often enough: colours in the
    plural and in the oblique cases, kind in the prepositional, all in the plural's oblique cases.
    """
    straight = case in ("nom", "acc")
    if number == "pl" and not (case == "nom" or (case == "acc" and not noun.animate)):
        return ()
    return tuple(
        adjective
        for adjective in ADJECTIVES.get(noun, ())
        if not (adjective in (BLACK, RED) and (number == "pl" or not straight))
        and not (adjective is KIND and case == "prep")
    )


def _subject(
    choose: Choices, noun: Noun | Pronoun, case: str = "nom", extras: str = "npg"
) -> Phrase | Pronoun:
    """Choose what belongs to a subject, unless it is a pronoun."""
    if isinstance(noun, Pronoun):
        return noun
    return choose.part(_phrase, noun, case, extras)


def _doer(choose: Choices, nouns: Iterable[Noun], form: str = "imperfective") -> Noun | Pronoun:
    """Choose who does something: one of several nouns, or a pronoun where persons may."""
    options = tuple(nouns)
    if options[0].human and choose.maybe(0.15):
        return choose.one(PRONOUNS[form])
    return choose.one(options)


def _known(noun: Noun | Pronoun) -> tuple[Noun, ...]:
    """Return the noun that must not come back as the owner or the object; none for a pronoun."""
    return () if isinstance(noun, Pronoun) else (noun,)


def _like(noun: Noun | Pronoun) -> Noun:
    """Return a noun that can do the same: a person for a pronoun."""
    return BOY if isinstance(noun, Pronoun) else noun


def _at(
    choose: Choices, place: Place, definite: bool, without: tuple[Noun, ...] = ()
) -> tuple[Words, Words]:
    """Return a place in both languages."""
    phrase = _phrase(choose, place.noun, place.case, "g", without)
    russian = phrase.russian(place.case)
    word = preposition(place.preposition, russian[0])
    return [word, *russian], [*place.english, *phrase.english(definite)]


# ---------------------------------------------------------------------------------------- the verbs


class Adverb(NamedTuple):
    """What stands before the Russian verb; `kind` is manner, habit or not."""

    kind: str
    russian: tuple[str, ...]
    english: tuple[str, ...]


NOT = Adverb("not", ("не",), ())
HABITS = (
    Adverb("habit", ("всегда",), ("always",)),
    Adverb("habit", ("часто",), ("often",)),
    Adverb("habit", ("никогда", "не"), ("never",)),
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


def _case(thing: Phrase, adverb: Adverb | None) -> str:
    """Return the case of an object: under negation, what can't be counted is in the genitive."""
    negated = adverb is not None and "не" in adverb.russian
    return "gen" if negated and not thing.noun.countable else "acc"


def _forms(verb: Verb) -> tuple[str, ...]:
    """Return the names of the forms that a verb has."""
    return tuple(
        form
        for form in ("imperfective", "perfective", "present")
        if getattr(verb, form) is not None
    )


def _adverb(choose: Choices, verb: Verb, form: str, habits: bool) -> Adverb | None:
    """Choose an adverb of manner or habit, or a negation, or none."""
    if not choose.maybe(0.35):
        return None
    options = [NOT, *(Adverb("manner", (r,), (e,)) for r, e in verb.manners)]
    if habits and form != "perfective" and verb is not RUN:
        options += HABITS[1:] if verb is SEE else HABITS
    return choose.one(options)


def _setting(choose: Choices, verb: Verb, form: str) -> tuple[_Time, Adverb | None]:
    """Choose when and how: a habit has no time."""
    if choose.maybe(0.25):
        return choose.one(TIMES[form]), _adverb(choose, verb, form, False)
    return _NO_TIME, _adverb(choose, verb, form, True)


def _verb(
    verb: Verb,
    form: str,
    subject: _Subject,
    adverb: Adverb | None = None,
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
    choose: Choices, verb: Verb, noun: Noun | Pronoun
) -> tuple[Phrase, tuple[Words, Words]]:
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


def _transitive(choose: Choices) -> _Sentence:
    """«вчера девочка медленно читала свою книгу в саду»."""
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


def _fronted(choose: Choices) -> _Sentence:
    """«птицу видел кот»: known object, new subject."""
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


@cache
def _shared(verb: Verb, first: Noun, second: Noun) -> tuple[Place, ...]:
    """Return the places where both are."""
    theirs = where_is(verb, second)
    return tuple(place for place in where_is(verb, first) if place in theirs)


def _some(
    choose: Choices, verb: Verb, nouns: Sequence[Noun]
) -> tuple[Phrase | Both, tuple[Place, ...], tuple[Noun, ...]]:
    """Choose one noun or two for a posture; return places where they can be, and the nouns."""
    noun = choose.one(nouns)
    others = tuple(
        other
        for other in nouns
        if other is not noun
        and other.human == noun.human
        and other.animate == noun.animate
        and _shared(verb, noun, other)
    )
    if others and choose.maybe(0.15):
        other = choose.one(others)
        return Both(noun, other), _shared(verb, noun, other), (noun, other)
    return choose.part(_phrase, noun, "nom", "npg"), where_is(verb, noun), (noun,)


def _posture(choose: Choices) -> _Sentence:
    """«кот и собака спали на коврике»."""
    verb = choose.one(tuple(POSTURES))
    form = choose.one(_forms(verb))
    time, adverb = choose.part(_setting, verb, form)
    subject: _Subject
    known: tuple[Noun, ...]
    if verb is not LIE and choose.maybe(0.12):
        subject, where, known = choose.one(PRONOUNS[form]), where_is(verb, BOY), ()
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


def _inverted(choose: Choices) -> _Sentence:
    """«на столе лежала книга»: known place, new subject."""
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


def _motion(choose: Choices) -> _Sentence:
    """«мальчик бежал в сад»."""
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
def _to(noun: Noun) -> Place:
    """Return the place to which one runs, to meet someone."""
    return Place("к", "dat", noun, ("to",))


POSSESSIONS = {
    **dict.fromkeys(PERSONS, (CAT, DOG, HOUSE, GARDEN, APPLE, *FOOD[1:], MILK, *THINGS)),
    CAT: (FISH, MILK, BALL),
    DOG: (FISH, BREAD, BALL),
    ELEPHANT: (APPLE, BALL, BREAD),
}


def _having(choose: Choices) -> _Sentence:
    """«у кота есть рыба», «у кота не было рыбы»."""
    owner: Noun | Pronoun
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


def _liking(choose: Choices) -> _Sentence:
    """«мальчику не нравится суп»."""
    fan: Noun | Pronoun
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


def _giving(choose: Choices) -> _Sentence:
    """«женщина дала мальчику яблоко»."""
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


def _putting(choose: Choices) -> _Sentence:
    """«дети положили ключ на стол»."""
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


def _companion(choose: Choices, noun: Noun | Pronoun) -> _Sentence:
    """Choose whom someone plays with."""
    human = _like(noun).human
    options = (*PERSONS, *ANIMALS) if human else (*PERSONS, CAT, DOG)
    other = choose.one(tuple(o for o in options if o is not noun))
    phrase = choose.part(_phrase, other, "ins", "g" if human else "", _known(noun))
    russian = phrase.russian("ins")
    return [preposition("с", russian[0]), *russian], ["with", *phrase.english(False)]


def _playing(choose: Choices) -> _Sentence:
    """«дети играли со слоном во дворе»."""
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


def _thinking(choose: Choices) -> _Sentence:
    """«мальчик думал об озере»."""
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


def _can(noun: Noun, form: str, verbs: Iterable[Verb]) -> tuple[Verb, ...]:
    """Return the verbs, of several, that a noun can be the subject of in a form."""
    return tuple(
        verb
        for verb in verbs
        if getattr(verb, form) is not None and noun in (OBJECTS.get(verb) or POSTURES[verb])
    )


def _predicate(
    choose: Choices,
    verb: Verb,
    form: str,
    noun: Noun,
    subject: _Subject,
    adverb: Adverb | None = None,
    backshift: bool = False,
) -> _Sentence:
    """Return verb and object, or verb and place: short, for a sentence with two of them."""
    verb_ru, verb_en, _ = _verb(verb, form, subject, adverb, backshift)
    if verb in POSTURES:
        ru, en = choose.part(_at, choose.one(where_is(verb, noun)), False, (noun,))
        return [*verb_ru, *ru], [*verb_en, *en]
    thing = choose.one(tuple(option for option in OBJECTS[verb][noun] if option is not noun))
    choose.note(verb.base, thing.english)
    phrase = choose.part(_phrase, thing, "acc")
    return [*verb_ru, *phrase.russian(_case(phrase, adverb))], [*verb_en, *phrase.english(False)]


LIVING = (*PERSONS, *ANIMALS)
_TWO = tuple((a, b) for a in LIVING for b in LIVING if a is not b)


def _clause(
    choose: Choices, noun: Noun, form: str, lasts: bool = False, backshift: bool = False
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


def _joined(choose: Choices) -> _Sentence:
    """«кот съел рыбу , но собака выпила молоко»."""
    conjunction_ru, conjunction_en, form = choose.one(CONJUNCTIONS)
    first, second = choose.one(_TWO)
    lasts = conjunction_ru == "а"
    ru_1, en_1 = choose.part(_clause, first, form, lasts)
    ru_2, en_2 = choose.part(_clause, second, form, lasts)
    return [*ru_1, ",", conjunction_ru, *ru_2], [*en_1, ",", conjunction_en, *en_2]


def _when(choose: Choices) -> _Sentence:
    """«когда мальчик спал , собака нашла мяч»."""
    first, second = choose.one(_TWO)
    ru_1, en_1 = choose.part(_clause, first, "imperfective", True)
    ru_2, en_2 = choose.part(_clause, second, choose.one(("imperfective", "perfective")), True)
    return ["когда", *ru_1, ",", *ru_2], ["when", *en_1, ",", *en_2]


def _reported(choose: Choices) -> _Sentence:
    """«женщина сказала , что дети едят суп»."""
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


def _relative(noun: Noun) -> tuple[str, str]:
    """Return the relative pronoun, nominative, of a noun."""
    return WHICH["nom", noun.gender], "who" if noun.human else "that"


def _relative_subject(choose: Choices) -> _Sentence:
    """«девочка , которая сидела на стуле , читала письмо»."""
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


def _relative_object(choose: Choices) -> _Sentence:
    """«мальчик видел птицу , которая спала в лесу»."""
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
    plain = Phrase(thing, _number(thing))
    which_ru, which_en = _relative(thing)
    ru, en = choose.part(_predicate, stay, "imperfective", thing, plain)
    verb_ru, verb_en, _ = _verb(verb, form, subject)
    return (
        [*subject.russian("nom"), *verb_ru, *phrase.russian("acc"), ",", which_ru, *ru],
        [*subject.english(True), *verb_en, *phrase.english(False), which_en, *en],
    )


class Pattern(NamedTuple):
    """What makes a sentence, how often it is drawn, and what it is."""

    make: Callable[[Choices], _Sentence]
    weight: int
    meaning: str


PATTERNS = {
    "transitive": Pattern(_transitive, 22, "subject, verb, object, perhaps a place"),
    "posture": Pattern(_posture, 12, "someone or something sleeps, sits, stands or lies"),
    "inverted": Pattern(_inverted, 9, "place, verb, subject: на столе лежала книга"),
    "fronted": Pattern(_fronted, 8, "object, verb, subject: птицу видел кот"),
    "motion": Pattern(_motion, 6, "someone runs into, to or out of"),
    "having": Pattern(_having, 7, "у кота есть, был, нет, не было …"),
    "liking": Pattern(_liking, 6, "мальчику нравится or понравился …"),
    "giving": Pattern(_giving, 5, "someone gave someone something"),
    "putting": Pattern(_putting, 4, "someone put something on something"),
    "playing": Pattern(_playing, 4, "someone plays with someone"),
    "thinking": Pattern(_thinking, 3, "someone was thinking about something"),
    "joined": Pattern(_joined, 5, "two clauses with и, но or а"),
    "when": Pattern(_when, 3, "когда and two clauses"),
    "reported": Pattern(_reported, 3, "someone knew, said or thought that …"),
    "relative_subject": Pattern(_relative_subject, 2, "the subject has a relative clause"),
    "relative_object": Pattern(_relative_object, 3, "the object has a relative clause"),
}
