"""Forms typed by hand, from knowledge of Russian, against the rules that make them."""

from __future__ import annotations

import pytest

from course_lib.data import russian_english_words as words
from course_lib.data.russian import (
    CASES,
    adjective_forms,
    noun_forms,
    past_forms,
    preposition,
)
from tests.data import russian_checker as hand

LEXICON = {noun.forms["nom", "sg"]: noun for noun in words.ADJECTIVES if noun.gender != "pl"}
LEXICON |= {noun.forms["nom", "sg"]: noun for noun in (words.SOUP, words.BREAD, words.MILK)}
LEXICON[words.WATER.forms["nom", "sg"]] = words.WATER


@pytest.mark.parametrize("line", hand.NOUNS.replace("\\\n", "").strip().splitlines())
def test_a_noun_has_the_forms_that_were_written_down_by_hand(line: str) -> None:
    head, singular, plural, english = (part.split() for part in line.split("|"))
    lemma, gender, animacy = head
    noun = LEXICON[lemma]
    assert [noun.forms[case, "sg"] for case in CASES] == singular
    if plural[0] != "-":
        assert [noun.forms["nom", "pl"], noun.forms["acc", "pl"]] == plural
    assert noun.gender == gender
    assert noun.animate == (animacy == "a")
    assert noun.english == english[0]
    assert noun.plural_english == english[1] or english[1] == "-"


def test_every_noun_of_the_corpus_was_written_down() -> None:
    assert set(LEXICON) | {"дети"} == set(hand.ENGLISH)
    assert {c: words.CHILDREN.forms[c, "pl"] for c in CASES} == hand.CHILDREN


def test_children_have_no_singular() -> None:
    assert {number for _, number in words.CHILDREN.forms} == {"pl"}


# Genitive plurals and other plural cases, where exceptions abound.
@pytest.mark.parametrize(
    ("lemma", "case", "form"),
    [
        ("девочка", "gen", "девочек"), ("женщина", "gen", "женщин"), ("мужчина", "gen", "мужчин"),
        ("мальчик", "gen", "мальчиков"), ("кот", "gen", "котов"), ("собака", "gen", "собак"),
        ("птица", "gen", "птиц"), ("яблоко", "gen", "яблок"), ("книга", "gen", "книг"),
        ("письмо", "gen", "писем"), ("мяч", "gen", "мячей"), ("ключ", "gen", "ключей"),
        ("шляпа", "gen", "шляп"), ("зонт", "gen", "зонтов"), ("стол", "gen", "столов"),
        ("стул", "gen", "стульев"), ("кухня", "gen", "кухонь"), ("озеро", "gen", "озёр"),
        ("сад", "gen", "садов"), ("двор", "gen", "дворов"), ("слон", "dat", "слонам"),
        ("книга", "ins", "книгами"), ("кухня", "prep", "кухнях"), ("мяч", "dat", "мячам"),
    ],
)  # fmt: skip
def test_a_noun_has_its_plural_cases(lemma: str, case: str, form: str) -> None:
    assert LEXICON[lemma].forms[case, "pl"] == form


@pytest.mark.parametrize(
    ("lemma", "case", "gender", "form"),
    [
        ("старый", "nom", "m", "старый"), ("старый", "nom", "f", "старая"),
        ("старый", "nom", "n", "старое"), ("старый", "nom", "pl", "старые"),
        ("старый", "gen", "m", "старого"), ("старый", "gen", "f", "старой"),
        ("старый", "dat", "m", "старому"), ("старый", "acc", "f", "старую"),
        ("старый", "ins", "m", "старым"), ("старый", "prep", "n", "старом"),
        ("большой", "nom", "m", "большой"), ("большой", "nom", "f", "большая"),
        ("большой", "nom", "n", "большое"), ("большой", "nom", "pl", "большие"),
        ("большой", "gen", "m", "большого"), ("большой", "dat", "n", "большому"),
        ("большой", "acc", "f", "большую"), ("большой", "ins", "m", "большим"),
        ("большой", "prep", "m", "большом"), ("большой", "gen", "pl", "больших"),
        ("маленький", "nom", "f", "маленькая"), ("маленький", "nom", "n", "маленькое"),
        ("маленький", "nom", "pl", "маленькие"), ("маленький", "gen", "m", "маленького"),
        ("маленький", "dat", "m", "маленькому"), ("маленький", "acc", "f", "маленькую"),
        ("маленький", "ins", "m", "маленьким"), ("маленький", "prep", "n", "маленьком"),
        ("добрый", "nom", "pl", "добрые"), ("добрый", "gen", "m", "доброго"),
        ("добрый", "ins", "f", "доброй"), ("чёрный", "acc", "f", "чёрную"),
        ("чёрный", "gen", "m", "чёрного"), ("чёрный", "ins", "pl", "чёрными"),
        ("красный", "nom", "n", "красное"), ("красный", "prep", "m", "красном"),
        ("который", "nom", "f", "которая"), ("который", "nom", "n", "которое"),
        ("который", "nom", "pl", "которые"),
    ],
)  # fmt: skip
def test_an_adjective_has_the_form_that_agrees(
    lemma: str, case: str, gender: str, form: str
) -> None:
    assert adjective_forms(lemma)[case, gender] == form


@pytest.mark.parametrize(
    ("verb", "imperfective", "perfective", "present"),
    [
        (words.READ, "читал читала читало читали", "прочитал прочитала прочитало прочитали",
         "читает читают"),
        (words.EAT, "ел ела ело ели", "съел съела съело съели", "ест едят"),
        (words.DRINK, "пил пила пило пили", "выпил выпила выпило выпили", "пьёт пьют"),
        (words.DRAW, "рисовал рисовала рисовало рисовали",
         "нарисовал нарисовала нарисовало нарисовали", "рисует рисуют"),
        (words.SEE, "видел видела видело видели", "", ""),
        (words.FIND, "", "нашёл нашла нашло нашли", ""),
        (words.GIVE, "", "дал дала дало дали", ""),
        (words.PUT, "", "положил положила положило положили", ""),
        (words.SLEEP, "спал спала спало спали", "", "спит спят"),
        (words.SIT, "сидел сидела сидело сидели", "", "сидит сидят"),
        (words.STAND, "стоял стояла стояло стояли", "", "стоит стоят"),
        (words.LIE, "лежал лежала лежало лежали", "", "лежит лежат"),
        (words.RUN, "бежал бежала бежало бежали", "побежал побежала побежало побежали",
         "бежит бегут"),
        (words.PLAY, "играл играла играло играли", "", "играет играют"),
        (words.THINK, "думал думала думало думали", "", ""),
        (words.KNOW, "знал знала знало знали", "", ""),
        (words.SAY, "", "сказал сказала сказало сказали", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else value.base,
)  # fmt: skip
def test_a_verb_has_its_forms(
    verb: words.Verb, imperfective: str, perfective: str, present: str
) -> None:
    for tense, forms in ((verb.imperfective, imperfective), (verb.perfective, perfective)):
        assert tense == (
            dict(zip(("m", "f", "n", "pl"), forms.split(), strict=True)) if forms else None
        )
    assert verb.present == (tuple(present.split()) if present else None)


@pytest.mark.parametrize(
    ("word", "following", "spoken"),
    [
        ("в", "саду", "в"), ("в", "дворе", "во"), ("в", "двор", "во"), ("в", "доме", "в"),
        ("в", "воде", "в"), ("в", "вторник", "во"), ("в", "Франции".lower(), "во"),
        ("в", "большом", "в"), ("с", "собакой", "с"), ("с", "слоном", "со"),
        ("с", "старым", "со"), ("с", "женщиной", "с"), ("с", "столом", "со"),
        ("с", "художником", "с"), ("о", "озере", "об"), ("о", "яблоке", "о"), ("о", "доме", "о"),
        ("о", "умном", "об"), ("к", "дому", "к"), ("под", "столом", "под"),
    ],
)  # fmt: skip
def test_a_preposition_is_spoken_as_the_next_word_wants(
    word: str, following: str, spoken: str
) -> None:
    assert preposition(word, following) == spoken


def test_an_exception_changes_one_form_and_the_accusative_that_follows_it() -> None:
    rule = noun_forms("стул", "m", animate=False)
    forms = noun_forms("стул", "m", animate=False, exceptions={("nom", "pl"): "стулья"})
    assert {key for key in forms if forms[key] != rule[key]} == {("nom", "pl"), ("acc", "pl")}
    assert forms["acc", "pl"] == "стулья"


def test_the_accusative_is_the_genitive_of_what_lives() -> None:
    cat, table = noun_forms("кот", "m", animate=True), noun_forms("стол", "m", animate=False)
    for number in ("sg", "pl"):
        assert cat["acc", number] == cat["gen", number]
        assert table["acc", number] == table["nom", number]


def test_what_no_rule_covers_is_refused() -> None:
    with pytest.raises(ValueError, match="gender must be one of"):
        noun_forms("кот", "x", animate=True)
    for lemma in ("лошадь", "музей", "кафе", "я", ""):
        with pytest.raises(ValueError, match="lemma must end in"):
            noun_forms(lemma, "f", animate=True)
    for lemma in ("старая", "ый", ""):
        with pytest.raises(ValueError, match="lemma must end in -ый, -ой or -ий"):
            adjective_forms(lemma)
    with pytest.raises(ValueError, match="lemma must not have a soft stem"):
        adjective_forms("синий")
    with pytest.raises(ValueError, match="masculine must end in -л"):
        past_forms("шла")


def test_an_exception_for_the_accusative_counts_too() -> None:
    rule = noun_forms("кот", "m", animate=True)
    for number in ("sg", "pl"):
        forms = noun_forms("кот", "m", animate=True, exceptions={("acc", number): "кого"})
        assert forms == rule | {("acc", number): "кого"}


def test_what_is_no_word_and_an_exception_for_no_form_are_refused() -> None:
    for bad in (None, 3, ["кот"], b"cat"):
        with pytest.raises(ValueError, match="lemma must be a string; got"):
            noun_forms(bad, "m", animate=True)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="lemma must be a string; got"):
            adjective_forms(bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="masculine must be a string; got"):
            past_forms(bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="following must be a string; got"):
            preposition("в", bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="word must be a string; got"):
            preposition(bad, "доме")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stem must be a string; got 3"):
        past_forms("нашёл", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gender must be one of"):
        noun_forms("кот", ["m"], animate=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="exceptions must be a dict; got"):
        noun_forms("кот", "m", animate=True, exceptions=["коты"])  # type: ignore[arg-type]
    for key in (("acc", "plural"), ("akk", "pl"), "nom"):
        with pytest.raises(ValueError, match=r"exceptions must have keys of a case, .*; got"):
            noun_forms("кот", "m", animate=True, exceptions={key: "x"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"exceptions.*nom.* must be a string; got 3"):
        noun_forms("кот", "m", animate=True, exceptions={("nom", "pl"): 3})  # type: ignore[dict-item]
