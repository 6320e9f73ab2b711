"""A second opinion on the toy corpus, which shares nothing with the grammar that generates it.

Everything here was written down by hand: paradigms of the nouns, endings of adjectives, cases after
prepositions, valencies of verbs. `faults` reads a pair as a teacher would and says what is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import permutations

# lemma: gender, animacy | singular nom gen dat acc ins prep | plural nom acc | English
NOUNS = """
мальчик  m a | мальчик мальчика мальчику мальчика мальчиком мальчике | мальчики мальчиков | boy boys
девочка  f a | девочка девочки девочке девочку девочкой девочке | девочки девочек | girl girls
женщина  f a | женщина женщины женщине женщину женщиной женщине | женщины женщин | woman women
мужчина  m a | мужчина мужчины мужчине мужчину мужчиной мужчине | мужчины мужчин | man men
художник m a | художник художника художнику художника художником художнике \
| художники художников | artist artists
кот      m a | кот кота коту кота котом коте | коты котов | cat cats
собака   f a | собака собаки собаке собаку собакой собаке | собаки собак | dog dogs
птица    f a | птица птицы птице птицу птицей птице | птицы птиц | bird birds
слон     m a | слон слона слону слона слоном слоне | слоны слонов | elephant elephants
яблоко   n i | яблоко яблока яблоку яблоко яблоком яблоке | яблоки яблоки | apple apples
рыба     f a | рыба рыбы рыбе рыбу рыбой рыбе | рыбы рыб | fish fish
суп      m i | суп супа супу суп супом супе | супы супы | soup -
хлеб     m i | хлеб хлеба хлебу хлеб хлебом хлебе | - - | bread -
молоко   n i | молоко молока молоку молоко молоком молоке | - - | milk -
вода     f i | вода воды воде воду водой воде | - - | water -
книга    f i | книга книги книге книгу книгой книге | книги книги | book books
письмо   n i | письмо письма письму письмо письмом письме | письма письма | letter letters
мяч      m i | мяч мяча мячу мяч мячом мяче | мячи мячи | ball balls
ключ     m i | ключ ключа ключу ключ ключом ключе | ключи ключи | key keys
шляпа    f i | шляпа шляпы шляпе шляпу шляпой шляпе | шляпы шляпы | hat hats
зонт     m i | зонт зонта зонту зонт зонтом зонте | зонты зонты | umbrella umbrellas
стол     m i | стол стола столу стол столом столе | столы столы | table tables
стул     m i | стул стула стулу стул стулом стуле | стулья стулья | chair chairs
коврик   m i | коврик коврика коврику коврик ковриком коврике | коврики коврики | mat mats
дом      m i | дом дома дому дом домом доме | дома дома | house houses
сад      m i | сад сада саду сад садом саду | сады сады | garden gardens
лес      m i | лес леса лесу лес лесом лесу | леса леса | forest forests
двор     m i | двор двора двору двор двором дворе | дворы дворы | yard yards
кухня    f i | кухня кухни кухне кухню кухней кухне | кухни кухни | kitchen kitchens
озеро    n i | озеро озера озеру озеро озером озере | озёра озёра | lake lakes
"""
CASES = ("nom", "gen", "dat", "acc", "ins", "prep")
CHILDREN = dict(zip(CASES, ("дети", "детей", "детям", "детей", "детьми", "детях"), strict=True))
PERSONS = {"мальчик", "девочка", "женщина", "мужчина", "художник", "дети"}
MASS = {"суп", "хлеб", "молоко", "вода"}

ADJECTIVES = {"стар": "old", "больш": "big", "маленьк": "small", "добр": "kind", "чёрн": "black",
              "красн": "red"}  # fmt: skip
# What an ending can be: (case, m f n or pl, animacy where it matters).
ENDINGS = {
    "ый": [("nom", "m", ""), ("acc", "m", "i")],
    "ий": [("nom", "m", ""), ("acc", "m", "i")],
    "ая": [("nom", "f", "")],
    "ую": [("acc", "f", "")],
    "ое": [("nom", "n", ""), ("acc", "n", "")],
    "ого": [("gen", "m", ""), ("gen", "n", ""), ("acc", "m", "a")],
    "ому": [("dat", "m", ""), ("dat", "n", "")],
    "ым": [("ins", "m", ""), ("ins", "n", "")],
    "им": [("ins", "m", ""), ("ins", "n", "")],
    "ом": [("prep", "m", ""), ("prep", "n", "")],
    "ой": [(case, "f", "") for case in ("gen", "dat", "ins", "prep")],
    "ые": [("nom", "pl", ""), ("acc", "pl", "i")],
    "ие": [("nom", "pl", ""), ("acc", "pl", "i")],
}
OWN = {"свой": ("acc", "m", "i"), "своего": ("acc", "m", "a"), "свою": ("acc", "f", ""),
       "своё": ("acc", "n", "")}  # fmt: skip
NUMERALS = {"два": "two", "две": "two", "три": "three", "четыре": "four"}
PRONOUNS = {
    "я": ("nom", "mf", "i"), "он": ("nom", "m", "he"), "она": ("nom", "f", "she"),
    "мы": ("nom", "pl", "we"), "они": ("nom", "pl", "they"), "мне": ("dat", "", ""),
    "ему": ("dat", "", ""), "ей": ("dat", "", ""), "им": ("dat", "", ""),
    "меня": ("gen", "", ""), "него": ("gen", "", ""), "неё": ("gen", "", ""),
}  # fmt: skip
PREPOSITIONS = {
    "в": {"prep": "in", "acc": "into"}, "во": {"prep": "in", "acc": "into"},
    "на": {"prep": "on", "acc": "on"}, "у": {"gen": "near"}, "из": {"gen": "out of"},
    "к": {"dat": "to"}, "с": {"ins": "with"}, "со": {"ins": "with"}, "за": {"ins": "behind"},
    "под": {"ins": "under"}, "о": {"prep": "about"}, "об": {"prep": "about"},
}  # fmt: skip
# Verb forms, the objects they want besides the subject, and their English: base past ing.
VERBS = """
читал прочитал читает читают | acc | read read reading
ел съел ест едят | acc | eat ate eating
пил выпил пьёт пьют | acc | drink drank drinking
рисовал нарисовал рисует рисуют | acc | draw drew drawing
видел - - - | acc | see saw -
- нашёл - - | acc | find found -
- дал - - | dat acc | give gave -
- положил - - | acc | put put -
спал - спит спят | | sleep slept sleeping
сидел - сидит сидят | | sit sat sitting
стоял - стоит стоят | | stand stood standing
лежал - лежит лежат | | lie lay lying
бежал побежал бежит бегут | | run ran running
играл - играет играют | | play played playing
думал - - - | | think thought thinking
знал - - - | | know knew -
- сказал - - | | say said -
"""
THIRD = {
    "read": "reads", "eat": "eats", "drink": "drinks", "draw": "draws", "sleep": "sleeps",
    "sit": "sits", "stand": "stands", "lie": "lies", "run": "runs", "play": "plays",
}  # fmt: skip
ADVERBS = {"быстро": "quickly", "медленно": "slowly", "тихо": "quietly", "часто": "often",
           "всегда": "always", "никогда": "never"}  # fmt: skip
TIMES = {"вчера": "yesterday", "утром": "in the morning", "вечером": "in the evening",
         "сейчас": "now"}  # fmt: skip
CONJUNCTIONS = {"и": "and", "а": "while", "но": "but", "когда": "when", "что": "that"}
WHICH = {"который": "m", "которая": "f", "которое": "n", "которые": "pl"}
VOWELS = "aeiou"


@dataclass(frozen=True)
class Reading:
    """One way to read a noun form."""

    lemma: str
    gender: str  # m, f, n or pl
    animacy: str
    case: str


@dataclass
class Noun:
    english: str
    plural: str
    readings: dict[str, list[Reading]] = field(default_factory=dict)


def _read_nouns() -> tuple[dict[str, list[Reading]], dict[str, tuple[str, str]]]:
    readings: dict[str, list[Reading]] = {}
    english = {"дети": ("child", "children")}
    for line in NOUNS.replace("\\\n", "").strip().splitlines():
        head, singular, plural, words = (part.split() for part in line.split("|"))
        lemma, gender, animacy = head
        english[lemma] = (words[0], words[1])
        for case, form in zip(CASES, singular, strict=True):
            readings.setdefault(form, []).append(Reading(lemma, gender, animacy, case))
        for case, form in zip(("nom", "acc"), plural, strict=True):
            readings.setdefault(form, []).append(Reading(lemma, "pl", animacy, case))
    for case, form in CHILDREN.items():
        readings.setdefault(form, []).append(Reading("дети", "pl", "a", case))
    return readings, english


READINGS, ENGLISH = _read_nouns()


@dataclass(frozen=True)
class VerbForm:
    aspect: str  # imperfective, perfective, present
    gender: str  # m f n pl; sg for the present singular
    objects: tuple[str, ...]
    english: tuple[str, str, str]


def _read_verbs() -> dict[str, VerbForm]:
    found = {}
    for line in VERBS.strip().splitlines():
        forms, objects, english = (part.split() for part in line.split("|"))
        base, past, ing = english
        for aspect, word in zip(("imperfective", "perfective"), forms, strict=False):
            if word == "-":
                continue
            stem = "нашл" if word == "нашёл" else word
            for gender, form in (("m", word), ("f", stem + "а"), ("n", stem + "о"),
                                 ("pl", stem + "и")):  # fmt: skip
                found[form] = VerbForm(aspect, gender, tuple(objects), (base, past, ing))
        for gender, word in zip(("sg", "pl"), forms[2:], strict=True):
            if word != "-":
                found[word] = VerbForm("present", gender, tuple(objects), (base, past, ing))
    return found


FORMS = _read_verbs()
LIKING = {
    "нравится": ("sg", "present"), "нравятся": ("pl", "present"), "понравился": ("m", "past"),
    "понравилась": ("f", "past"), "понравилось": ("n", "past"), "понравились": ("pl", "past"),
}  # fmt: skip
WAS = {"был": "m", "была": "f", "было": "n", "были": "pl"}


@dataclass
class Phrase:
    """A noun with what belongs to it, as it stands in the sentence."""

    start: int
    readings: list[Reading]
    preposition: str = ""
    adjective: str = ""
    own: bool = False
    numeral: str = ""
    owner: str = ""
    both: Phrase | None = None
    pronoun: str = ""


class Fault(Exception):
    """What is wrong."""


def adjective(word: str) -> tuple[str, list[tuple[str, str, str]]] | None:
    """Return an adjective's English and what its form can be."""
    for stem, english in ADJECTIVES.items():
        ending = word.removeprefix(stem)
        if word.startswith(stem) and ending in ENDINGS:
            soft = stem in ("больш", "маленьк")
            if ending[0] == ("ы" if soft else "и"):
                raise Fault(f"{word} is misspelt")
            found = list(ENDINGS[ending])
            if word == "большой":
                found += ENDINGS["ый"]
            elif ending == ("ий" if stem == "больш" else "-"):
                raise Fault(f"{word} is misspelt")
            return english, found
    return None


def _agrees(reading: Reading, options: list[tuple[str, str, str]]) -> bool:
    return any(
        case == reading.case and gender == reading.gender and animacy in ("", reading.animacy)
        for case, gender, animacy in options
    )


def _phrase(words: list[str], at: int) -> tuple[Phrase, int]:
    """Read the phrase that begins at a word; return it and where it ends."""
    start = at
    options: list[list[tuple[str, str, str]]] = []
    phrase = Phrase(start, [])
    if words[at] in PRONOUNS:
        phrase.pronoun = words[at]
        return phrase, at + 1
    if words[at] in NUMERALS:
        phrase.numeral = words[at]
        at += 1
        readings = [r for r in READINGS.get(words[at], []) if r.case == "gen" and r.gender != "pl"]
        if words[start] in ("два", "две"):
            wanted = "f" if words[start] == "две" else "mn"
            readings = [r for r in readings if r.gender in wanted]
        if not readings:
            raise Fault(f"{words[start]} {words[at]}: not a genitive singular, or another gender")
        (r,) = {(r.lemma, r.animacy) for r in readings}
        phrase.readings = [Reading(r[0], "pl", r[1], "nom")]
        if r[1] == "i":
            phrase.readings.append(Reading(r[0], "pl", r[1], "acc"))
        return phrase, at + 1
    if words[at] in OWN:
        phrase.own = True
        options.append([OWN[words[at]]])
        at += 1
    found = adjective(words[at]) if at < len(words) else None
    if found:
        phrase.adjective = found[0]
        options.append(found[1])
        at += 1
    if at == len(words) or words[at] not in READINGS:
        raise Fault(f"a noun is missing after {words[at - 1]}")
    phrase.readings = [r for r in READINGS[words[at]] if all(_agrees(r, o) for o in options)]
    if not phrase.readings:
        raise Fault(f"{' '.join(words[start : at + 1])} doesn't agree")
    at += 1
    if at < len(words):
        for reading in READINGS.get(words[at], []):
            genitive = (reading.case == "gen" and reading.gender != "pl") or words[at] == "детей"
            if genitive and reading.lemma in PERSONS:
                phrase.owner = reading.lemma
                return phrase, at + 1
    return phrase, at


def _form_before(word: str, following: str) -> str:
    """Return how a preposition must look before a word, by lists of words."""
    if word in ("в", "во"):
        return "во" if following in ("двор", "дворе") else "в"
    if word in ("с", "со"):
        return "со" if following in ("слоном", "старым", "старой") else "с"
    if word in ("о", "об"):
        return "об" if following == "озере" else "о"
    return word


@dataclass
class Clause:
    words: list[str]
    verb: str = ""
    verb_at: int = -1
    negated: bool = False
    adverb: str = ""
    time: str = ""
    phrases: list[Phrase] = field(default_factory=list)
    which: str = ""


def _clause(words: list[str]) -> Clause:
    """Read a clause into its verb, phrases and adverbs."""
    clause = Clause(words)
    at = 0
    while at < len(words):
        word = words[at]
        if word in WHICH:
            clause.which = word
        elif word in TIMES:
            if at:
                raise Fault(f"{word} isn't first")
            clause.time = word
        elif word in ADVERBS:
            clause.adverb = word
        elif word == "не":
            clause.negated = True
        elif word in FORMS or word in LIKING or word in WAS or word in ("есть", "нет"):
            if clause.verb:
                raise Fault(f"two verbs: {clause.verb}, {word}")
            clause.verb, clause.verb_at = word, at
        elif word in PREPOSITIONS:
            if word != _form_before(word, words[at + 1]):
                raise Fault(f"{word} {words[at + 1]}")
            phrase, end = _phrase(words, at + 1)
            phrase.preposition = word
            clause.phrases.append(phrase)
            at = end
            continue
        elif word == "и":
            if not clause.phrases or clause.phrases[-1].preposition:
                raise Fault("и joins nothing")
            second, end = _phrase(words, at + 1)
            clause.phrases[-1].both = second
            at = end
            continue
        else:
            phrase, end = _phrase(words, at)
            clause.phrases.append(phrase)
            at = end
            continue
        at += 1
    if not clause.verb:
        raise Fault("no verb")
    if clause.negated and words[clause.verb_at - 1] != "не":
        raise Fault("не isn't before the verb")
    if clause.adverb == "никогда" and not clause.negated:
        raise Fault("никогда without не")
    return clause


def _cases(phrase: Phrase) -> set[tuple[str, str]]:
    """Return what a phrase without a preposition can be: (case, gender)."""
    if phrase.pronoun:
        case, genders, _ = PRONOUNS[phrase.pronoun]
        return {(case, g) for g in (("pl",) if genders == "pl" else genders or "-")}
    if phrase.both:
        mine = {r.case for r in phrase.readings} & {r.case for r in phrase.both.readings}
        return {(case, "pl") for case in mine}
    return {(r.case, r.gender) for r in phrase.readings}


def _govern(clause: Clause) -> None:
    """Check the case after each preposition."""
    for phrase in clause.phrases:
        if phrase.preposition:
            if phrase.pronoun:
                fits = PRONOUNS[phrase.pronoun][0] in PREPOSITIONS[phrase.preposition]
            else:
                wanted = set(PREPOSITIONS[phrase.preposition])
                phrase.readings = [r for r in phrase.readings if r.case in wanted]
                fits = bool(phrase.readings)
            if not fits:
                raise Fault(f"the case after {phrase.preposition} in {' '.join(clause.words)}")


def _roles(clause: Clause) -> dict[str, Phrase]:
    """Assign subject and objects, or raise."""
    bare = [p for p in clause.phrases if not p.preposition]
    verb = clause.verb
    if verb in ("есть", "нет") or verb in WAS:
        (thing,) = bare
        if clause.phrases[0].preposition != "у":
            raise Fault("nobody has it")
        if verb == "нет" or clause.negated:
            wanted = {("gen", g) for g in ("m", "f", "n", "pl")}
            if clause.negated and verb != "было":
                raise Fault(f"не {verb}")
        else:
            wanted = {("nom", g) for g in ("m", "f", "n", "pl") if verb in ("есть", _was(g))}
        if not _cases(thing) & wanted:
            raise Fault(f"the case or agreement of what one has: {' '.join(clause.words)}")
        return {"thing": thing}
    if verb in LIKING:
        gender, _ = LIKING[verb]
        wants: tuple[str, ...] = ("nom", "dat")
    else:
        gender = FORMS[verb].gender
        wants = ("nom", *FORMS[verb].objects)
        mass = clause.negated and any(r.lemma in MASS for p in bare for r in p.readings)
        wants = tuple("gen" if mass and w == "acc" else w for w in wants)
    if clause.which:
        if not _matches(WHICH[clause.which], gender):
            raise Fault(f"{clause.which} {verb}")
        wants = wants[1:]
    if len(bare) != len(wants):
        raise Fault(f"{verb} wants {wants}: {' '.join(clause.words)}")
    for order in permutations(bare):
        if all(
            any(c == case and (case != "nom" or _matches(g, gender)) for c, g in _cases(p))
            for case, p in zip(wants, order, strict=True)
        ):
            return dict(zip(wants, order, strict=True))
    raise Fault(f"no subject agrees, or no object has its case: {' '.join(clause.words)}")


def _was(gender: str) -> str:
    return {"m": "был", "f": "была", "n": "было", "pl": "были"}[gender]


def _matches(subject: str, verb: str) -> bool:
    return subject == verb or (verb == "sg" and subject != "pl")


def clauses(russian: tuple[str, ...]) -> list[Clause]:
    """Read a sentence into clauses, and check what must agree within and between them."""
    parts: list[list[str]] = [[]]
    for word in russian:
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    main: list[list[str]] = []
    relative: list[list[str]] = []
    for i, part in enumerate(parts):
        if not part:
            raise Fault("an empty clause")
        if part[0] in WHICH:
            before = READINGS.get(parts[i - 1][-1], [])
            if not any(r.gender == WHICH[part[0]] for r in before):
                raise Fault(f"{parts[i - 1][-1]} , {part[0]}")
            relative.append(part)
        elif relative and i == 2:
            main[0] = main[0] + part
        else:
            if i and part[0] not in CONJUNCTIONS and parts[0][0] != "когда":
                raise Fault("two clauses without a conjunction")
            main.append(part[1:] if part[0] in CONJUNCTIONS else part)
    found = [_clause(part) for part in main + relative]
    for clause in found:
        _govern(clause)
        _roles(clause)
    return found


def _english_phrase(phrase: Phrase, definite: bool) -> str:
    """Return the English that a phrase must have."""
    lemma = phrase.readings[0].lemma
    singular, plural_word = ENGLISH[lemma]
    plural = bool(phrase.numeral) or all(r.gender == "pl" for r in phrase.readings)
    noun = plural_word if plural else singular
    words = f"{phrase.adjective} {noun}".strip()
    if phrase.numeral:
        return f"{NUMERALS[phrase.numeral]} {words}"
    if phrase.own:
        return words
    if phrase.owner:
        who = ENGLISH[phrase.owner]
        return f"the {who[1] if phrase.owner == 'дети' else who[0]}'s {words}"
    if definite:
        return f"the {words}"
    if plural or lemma in MASS:
        return words
    return f"{'an' if words[0] in VOWELS else 'a'} {words}"


def _expect(english: str, wanted: str) -> None:
    if f" {wanted} " not in f" {english} ":
        raise Fault(f"{wanted!r} isn't in {english!r}")


def _check_articles(clause: Clause, english: str) -> None:
    """What stands before the verb is definite, what stands after it is not."""
    roles = _roles(clause)
    for phrase in clause.phrases:
        for part in (phrase, phrase.both):
            if part is None or part.pronoun:
                continue
            if not phrase.preposition:
                case = next(role for role, p in roles.items() if p is phrase)
                if case == "thing":
                    case = "gen" if clause.verb == "нет" or clause.negated else "nom"
                if case in CASES and not part.numeral:
                    kept = [r for r in part.readings if r.case == case]
                    part.readings = kept or part.readings
            definite = part.start < clause.verb_at or clause.verb in LIKING
            wanted = _english_phrase(part, definite)
            lacking = clause.verb == "нет" or (clause.negated and clause.verb in WAS)
            if lacking and not part.preposition:
                wanted = "no " + re.sub(r"^(an?|the) ", "", wanted)
            _expect(english, wanted)
            if phrase.preposition and clause.verb in FORMS:
                case = phrase.readings[0].case
                word = PREPOSITIONS[phrase.preposition][case]
                if phrase.preposition == "на" and phrase.readings[0].lemma == "кухня":
                    word = {"prep": "in", "acc": "into"}[case]
                _expect(english, f"{word} {wanted}")


def _check_tense(clause: Clause, english: str, reported: bool) -> None:
    """Check the English verb: tense, aspect, number, negation."""
    if clause.verb not in FORMS:
        return
    form = FORMS[clause.verb]
    base, past, ing = form.english
    subject = _roles(clause).get("nom")
    plural = form.gender == "pl"
    first = subject is not None and subject.pronoun == "я"
    habit = clause.adverb in ("часто", "всегда", "никогда")
    stative = ing == "-" or (base == "think" and not any(p.preposition for p in clause.phrases))
    if habit or form.aspect == "perfective" or stative:
        if clause.negated and clause.adverb != "никогда":
            wanted = f"did not {base}"
        else:
            present = form.aspect == "present" and not reported
            verb = (base if plural else THIRD[base]) if present else past
            wanted = f"{ADVERBS[clause.adverb]} {verb}" if habit else verb
    else:
        now = form.aspect == "present" and not reported
        be = ("are" if plural else "is") if now else ("were" if plural and not first else "was")
        wanted = f"{be} {'not ' if clause.negated else ''}{ing}"
    _expect(english, wanted)
    if clause.time:
        if not english.endswith(TIMES[clause.time]):
            raise Fault(f"{english!r} doesn't end in {TIMES[clause.time]!r}")
        if (clause.time == "сейчас") != (form.aspect == "present"):
            raise Fault(f"{clause.time} {clause.verb}")
    if clause.adverb and not habit:
        _expect(english, ADVERBS[clause.adverb])


COUNTABLE = {s for lemma, (s, _) in ENGLISH.items() if lemma not in MASS} - {"child", "fish"}
PLURALS = {p for _, p in ENGLISH.values()} - {"-", "fish"}
DETERMINERS = {"a", "an", "the", "my", "our", "his", "her", "its", "their", "no"}
ENGLISH_ADJECTIVES = set(ADJECTIVES.values())
KNOWN = (
    COUNTABLE | PLURALS | DETERMINERS | ENGLISH_ADJECTIVES | set(THIRD.values())
    | {w for form in FORMS.values() for w in form.english} | set(NUMERALS.values())
    | {ENGLISH[lemma][0] for lemma in MASS} | set(ADVERBS.values())
    | {w for t in TIMES.values() for w in t.split()} | set(CONJUNCTIONS.values())
    | {w for p in PREPOSITIONS.values() for e in p.values() for w in e.split()}
    | {"fish", "i", "he", "she", "we", "they", "me", "him", "her", "them", "who", "that", ","}
    | {"was", "were", "is", "are", "not", "did", "do", "does", "has", "have", "had", "to"}
    | {"like", "likes", "liked"}
)  # fmt: skip


FINITE = {"was": "sg", "is": "sg", "has": "sg", "does": "sg", "likes": "sg",
          "were": "pl", "are": "pl", "have": "pl", "do": "pl", "like": "pl"}  # fmt: skip


def english_faults(english: tuple[str, ...]) -> list[str]:
    """Return what is wrong with an English sentence by itself."""
    found = []
    for i, word in enumerate(english):
        after = english[i + 1] if i + 1 < len(english) else ""
        if word not in KNOWN and not (word.endswith("'s") and word[:-2] in COUNTABLE | PLURALS):
            found.append(f"{word} is no word of the corpus")
        if word in ("a", "an") and (word == "an") != (after[:1] in VOWELS):
            found.append(f"{word} {after}")
        head = next((w for w in english[i + 1 :] if w not in ENGLISH_ADJECTIVES), "")
        if word in ("a", "an") and head not in COUNTABLE | {"fish"}:
            found.append(f"{word} … {head}")
        if word in NUMERALS.values() and head not in PLURALS:
            found.append(f"{word} … {head}")
        before = next((w for w in english[:i][::-1] if w not in ENGLISH_ADJECTIVES), "")
        if word in COUNTABLE and before not in DETERMINERS and not before.endswith("'s"):
            found.append(f"{word} without an article")
        if word in FINITE and i and english[i - 1] != "not":
            number = _english_number(english, i)
            wanted = FINITE[word]
            first = english[i - 1] == "i"
            if first and (word == "were" or (wanted == "sg" and word != "was")):
                found.append(f"i {word}")
            if not first and number and number != wanted:
                found.append(f"{' '.join(english[:i])} / {word}")
    return found


def _english_number(english: tuple[str, ...], at: int) -> str:
    """Return the number of the subject of the verb at an index; nothing if that can't be told."""
    segment = 0
    for i in range(at):
        reports = english[i] == "that" and english[i + 1] in DETERMINERS
        if reports or english[i] in (",", "while", "but", "when"):
            segment = i + 1
    words = english[segment:at]
    for i, word in enumerate(words):
        if i and (word == "who" or (word == "that" and words[i - 1] in COUNTABLE | PLURALS)):
            # Of two verbs with one subject, the relative one follows who, the main one later.
            words = words[:i]
            break
    if "and" in words[1:]:
        return "pl"
    subjects = [w for w in words if w in COUNTABLE | PLURALS | {"he", "she", "we", "they", "fish"}]
    if not subjects or subjects[-1] == "fish":
        return ""
    return "pl" if subjects[-1] in PLURALS | {"we", "they"} else "sg"


def faults(russian: tuple[str, ...], english: tuple[str, ...]) -> list[str]:
    """Return what is wrong with a pair; nothing, when all is well."""
    found = english_faults(english)
    text = " ".join(english)
    try:
        parts = clauses(russian)
        for clause in parts:
            reported = clause is parts[1] if "что" in russian else False
            _check_articles(clause, text)
            _check_tense(clause, text, reported)
    except Fault as fault:
        found.append(str(fault))
    nouns = sum(
        1 + (p.both is not None) + (p.owner != "")
        for clause in parts for p in clause.phrases if not p.pronoun
    ) if not found else 0  # fmt: skip
    if not found:
        named = COUNTABLE | PLURALS | {"fish"} | {ENGLISH[m][0] for m in MASS}
        total = sum(w in named or w.removesuffix("'s") in named for w in english)
        if total != nouns:
            found.append(f"{nouns} nouns in Russian, {total} in English: {text}")
    return found


def combinations(russian: tuple[str, ...]) -> set[tuple[str, str]]:
    """Return (adjective, noun) and (verb, object) in English, read off the Russian alone."""
    found = set()
    for clause in clauses(russian):
        roles = _roles(clause)
        for phrase in clause.phrases:
            if phrase.adjective:
                found.add((phrase.adjective, _name(phrase.readings[0].lemma)))
        if clause.verb in FORMS:
            base = FORMS[clause.verb].english[0]
            for role in ("acc", "gen"):
                if role in roles:
                    found.add((base, _name(roles[role].readings[0].lemma)))
    return found


def _name(lemma: str) -> str:
    return ENGLISH[lemma][0]
