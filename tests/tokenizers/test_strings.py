from __future__ import annotations

import unicodedata

import pytest

from tests.tokenizers.strings import KINDS, SCRIPTS, strings


def script(character: str) -> str:
    """Return the first word of a letter's name: LATIN, CYRILLIC, CJK, and so on."""
    return unicodedata.name(character, "?").split()[0] if character.isalpha() else "?"


def test_there_are_ten_thousand_strings_and_all_can_be_written_as_utf8() -> None:
    found = strings()
    assert len(found) == len(set(found)) >= 10_000
    assert "" in found
    for text in found:
        assert text.encode("utf-8").decode("utf-8") == text


def test_the_strings_are_the_same_whenever_they_are_drawn() -> None:
    assert strings(2_000, seed=1) == strings.__wrapped__(2_000, seed=1)
    assert strings(2_000, seed=1) != strings(2_000, seed=2)


def test_letters_of_more_than_thirty_scripts_are_there() -> None:
    of_scripts = {script(c) for sentence in SCRIPTS.values() for c in sentence} - {"?"}
    assert len(of_scripts) > 30
    drawn = {script(c) for text in strings()[1_000:] for c in text}
    assert of_scripts <= drawn


@pytest.mark.parametrize(
    "piece",
    [
        "\u200d👧",
        "\x00",
        "\x85",
        "\r\n",
        "    ",
        "\u3000",
        "'ll",
        "’s",
        "e\u0301",
        "ÿÿ",
        "í\xa0\x80",
    ],
    ids=ascii,
)
def test_what_breaks_tokenizers_is_there(piece: str) -> None:
    assert sum(piece in text for text in strings()) >= (1 if piece == "e\u0301" else 5)


def test_long_runs_of_digits_and_every_kind_of_string_are_there() -> None:
    runs = [text for text in strings() if any(part.isdigit() and len(part) >= 200
                                              for part in text.split())]  # fmt: skip
    assert runs
    assert len(KINDS) >= 15
