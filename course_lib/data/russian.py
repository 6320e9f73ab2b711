"""How Russian words change: declension, agreement, the past tense, prepositions before clusters.

Rules, not lists. A noun's declension follows from its last letter, gender and animacy; what the
rule doesn't give (в саду, девочек, дети) is passed as an exception. Only what the toy corpus
`course_lib.data.russian_english` needs is here: hard stems, and the soft stem in -я.

Cases are named nom, gen, dat, acc, ins and prep; genders m, f and n; the plural has no gender.

References
----------
Wade, "A Comprehensive Russian Grammar", 3rd edition, 2011.
"""

from __future__ import annotations

from course_lib.validation import check_text

__all__ = ["CASES", "GENDERS", "adjective_forms", "noun_forms", "past_forms", "preposition"]

CASES = ("nom", "gen", "dat", "acc", "ins", "prep")
GENDERS = ("m", "f", "n")

_VELARS = "гкх"
_HUSHERS = "жчшщ"
_VOWELS = "аеёиоуыэюя"

# Endings by the last letter of the nominative; a consonant is the empty string.
_SINGULAR = {
    "": dict(zip(CASES, ("", "а", "у", "", "ом", "е"), strict=True)),
    "а": dict(zip(CASES, ("а", "ы", "е", "у", "ой", "е"), strict=True)),
    "я": dict(zip(CASES, ("я", "и", "е", "ю", "ей", "е"), strict=True)),
    "о": dict(zip(CASES, ("о", "а", "у", "о", "ом", "е"), strict=True)),
}
_PLURAL = {
    "": dict(zip(CASES, ("ы", "ов", "ам", "", "ами", "ах"), strict=True)),
    "а": dict(zip(CASES, ("ы", "", "ам", "", "ами", "ах"), strict=True)),
    "я": dict(zip(CASES, ("и", "ь", "ям", "", "ями", "ях"), strict=True)),
    "о": dict(zip(CASES, ("а", "", "ам", "", "ами", "ах"), strict=True)),
}


def noun_forms(
    lemma: str, gender: str, *, animate: bool, exceptions: dict[tuple[str, str], str] | None = None
) -> dict[tuple[str, str], str]:
    """Decline a noun.

    Parameters
    ----------
    lemma : str
        The nominative singular, in -а, -я, -о or a hard consonant.
    gender : {"m", "f", "n"}
        A noun in -а may be masculine (дедушка): it declines all the same.
    animate : bool
        Decides the accusative: of a masculine in a consonant, and of every plural, it is the
        genitive of what lives and the nominative of what doesn't.
    exceptions : dict, optional
        (case, number) → form, where the rule is wrong.

    Returns
    -------
    dict
        (case, "sg" or "pl") → form, for the six cases.

    Raises
    ------
    ValueError
        If the gender isn't one of the three, the lemma has an ending without a rule, or an
        exception is for none of the twelve forms.

    Examples
    --------
    >>> forms = noun_forms("кот", "m", animate=True)
    >>> forms["acc", "sg"], forms["ins", "sg"], forms["nom", "pl"]
    ('кота', 'котом', 'коты')
    >>> noun_forms("книга", "f", animate=False)["gen", "sg"]
    'книги'
    """
    check_text("lemma", lemma)
    _check_gender(gender)
    irregular = _check_exceptions(exceptions)
    ending = lemma[-1:] if lemma[-1:] in ("а", "я", "о") else ""
    stem = lemma.removesuffix(ending) if ending else lemma
    if not stem or (ending == "" and (lemma[-1] in _VOWELS or lemma[-1] in "йь")):
        raise ValueError(f"lemma must end in -а, -я, -о or a hard consonant; got {lemma!r}")
    forms = {}
    for number, endings in (("sg", _SINGULAR[ending]), ("pl", _PLURAL[ending])):
        for case in CASES:
            tail = "ей" if endings[case] == "ов" and stem[-1] in _HUSHERS else endings[case]
            forms[case, number] = _spell(stem + tail, len(stem))
        forms |= {key: form for key, form in irregular.items() if key[1] == number}
        if (number == "pl" or ending == "") and ("acc", number) not in irregular:
            forms["acc", number] = forms["gen" if animate else "nom", number]
    return forms


def adjective_forms(lemma: str) -> dict[tuple[str, str], str]:
    """Decline an adjective in -ый, -ой or -ий (after a velar or husher), the accusative left out.

    Parameters
    ----------
    lemma : str
        The nominative singular masculine.

    Returns
    -------
    dict
        (case, "m", "f", "n" or "pl") → form. The accusative is there for "f" alone: otherwise it is
        the genitive or the nominative, as the noun is animate or not (a neuter: the nominative).

    Raises
    ------
    ValueError
        If the lemma isn't a string, or has another ending.

    Examples
    --------
    >>> forms = adjective_forms("маленький")
    >>> forms["gen", "m"], forms["acc", "f"], forms["ins", "n"]
    ('маленького', 'маленькую', 'маленьким')
    """
    check_text("lemma", lemma)
    stem = lemma[:-2]
    if not stem or lemma[-2:] not in ("ый", "ой", "ий"):
        raise ValueError(f"lemma must end in -ый, -ой or -ий; got {lemma!r}")
    if lemma.endswith("ий") and stem[-1] not in _VELARS + _HUSHERS:
        raise ValueError(f"lemma must not have a soft stem; got {lemma!r}")
    endings = {
        ("nom", "f"): "ая", ("acc", "f"): "ую", ("nom", "n"): "ое",
        ("nom", "pl"): "ые", ("gen", "pl"): "ых", ("dat", "pl"): "ым",
        ("ins", "pl"): "ыми", ("prep", "pl"): "ых",
    }  # fmt: skip
    for case, ending in (("gen", "ого"), ("dat", "ому"), ("ins", "ым"), ("prep", "ом")):
        endings |= {(case, "m"): ending, (case, "n"): ending, (case, "f"): "ой"}
    forms = {key: _spell(stem + ending, len(stem)) for key, ending in endings.items()}
    forms["nom", "m"] = lemma
    return forms


def past_forms(masculine: str, stem: str | None = None) -> dict[str, str]:
    """Return the past tense: it agrees in gender, or is plural, and knows no person.

    Parameters
    ----------
    masculine : str
        The masculine, in -л.
    stem : str, optional
        What -а, -о and -и are put to, where the masculine has a vowel of its own (нашёл, нашл-).

    Returns
    -------
    dict
        "m", "f", "n", "pl" → form.

    Raises
    ------
    ValueError
        If the masculine doesn't end in -л.

    Examples
    --------
    >>> past_forms("нашёл", "нашл")
    {'m': 'нашёл', 'f': 'нашла', 'n': 'нашло', 'pl': 'нашли'}
    """
    check_text("masculine", masculine)
    if not masculine.endswith("л"):
        raise ValueError(f"masculine must end in -л; got {masculine!r}")
    stem = masculine if stem is None else stem
    check_text("stem", stem)
    return {"m": masculine, "f": stem + "а", "n": stem + "о", "pl": stem + "и"}


def preposition(word: str, following: str) -> str:
    """Return a preposition as it is spoken before a word: в or во, с or со, о or об.

    Parameters
    ----------
    word : str
        The preposition; one that doesn't vary is returned as it is.
    following : str
        The next word.

    Raises
    ------
    ValueError
        If one of the two isn't a string.

    Examples
    --------
    >>> preposition("в", "дворе"), preposition("в", "доме")
    ('во', 'в')
    >>> preposition("с", "слоном"), preposition("с", "собакой")
    ('со', 'с')
    >>> preposition("о", "озере"), preposition("о", "яблоке")
    ('об', 'о')
    """
    check_text("word", word)
    check_text("following", following)
    first, second = following[:1], following[1:2]
    if word == "в" and ((first in "вф" and second not in _VOWELS) or following.startswith("двор")):
        return "во"
    if word == "с" and first in "сзшж" and second not in _VOWELS:
        return "со"
    if word == "о" and first in "аиоуэ":
        return "об"
    return word


def _spell(word: str, at: int) -> str:
    """Mend ы to и after velars and hushers, where the ending begins at index `at`."""
    if word[at : at + 1] == "ы" and word[at - 1] in _VELARS + _HUSHERS:
        return word[:at] + "и" + word[at + 1 :]
    return word


def _check_gender(gender: str) -> None:
    """Raise unless a gender is one of the three."""
    if not isinstance(gender, str) or gender not in GENDERS:
        raise ValueError(f"gender must be one of {GENDERS}; got {gender!r}")


def _check_exceptions(
    exceptions: dict[tuple[str, str], str] | None,
) -> dict[tuple[str, str], str]:
    """Return the exceptions, or raise where one would never be looked up."""
    if exceptions is None:
        return {}
    if not isinstance(exceptions, dict):
        raise ValueError(f"exceptions must be a dict; got {exceptions!r}")
    known = {(case, number) for case in CASES for number in ("sg", "pl")}
    for key, form in exceptions.items():
        if key not in known:
            raise ValueError(
                f'exceptions must have keys of a case, {CASES}, and "sg" or "pl"; got {key!r}'
            )
        check_text(f"exceptions[{key}]", form)
    return exceptions
