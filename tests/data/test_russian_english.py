from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from course_lib.data.choices import count, search
from course_lib.data.russian_english import (
    HELD_OUT,
    PATTERNS,
    Pair,
    count_pairs,
    derivations,
    sample_pairs,
    split,
    translate,
)
from course_lib.data.russian_english_patterns import PATTERNS as GRAMMAR
from course_lib.data.vocabulary import Vocabulary
from tests.data import russian_checker as checker

# Written and translated by hand; every pattern is among them.
GOLD = """
я видел кота на коврике | i saw a cat on a mat
я видела кота на коврике | i saw a cat on a mat
кот видел птицу | the cat saw a bird
птицу видел кот | a cat saw the bird
девочка читала книгу | the girl was reading a book
девочка прочитала книгу | the girl read a book
девочка читает книгу | the girl is reading a book
девочка часто читает книгу | the girl often reads a book
девочка часто читала книгу | the girl often read a book
дети всегда пьют молоко на кухне | the children always drink milk in a kitchen
мы никогда не видели слона | we never saw an elephant
мальчик не нашёл ключ | the boy did not find a key
кот не пьёт воды | the cat is not drinking water
кот пьёт воду | the cat is drinking water
женщина быстро съела яблоко в саду | the woman ate an apple quickly in a garden
вчера старый художник рисовал чёрного кота | the old artist was drawing a black cat yesterday
утром мужчина нашёл свой зонт | the man found his umbrella in the morning
девочка нашла свою красную шляпу | the girl found her red hat
дети видели своего кота | the children saw their cat
я читал своё письмо | i was reading my letter
собака ела свою рыбу | the dog was eating its fish
мальчик видел дом девочки | the boy saw the girl's house
мальчик видел старый дом детей | the boy saw the children's old house
три мальчика съели два яблока | three boys ate two apples
две девочки рисовали слонов | error
четыре собаки видели детей | four dogs saw children
кот и собака спали на коврике | the cat and the dog were sleeping on a mat
на столе лежала книга | a book was lying on the table
книга лежала на столе | the book was lying on a table
на стуле лежат письмо и яблоко | a letter and an apple are lying on the chair
под маленьким столом спит собака | a dog is sleeping under the small table
во дворе стоял слон | an elephant was standing in the yard
у озера сидели дети | children were sitting near the lake
за домом женщины стоят два стула | error
вечером в саду спала девочка | a girl was sleeping in the garden in the evening
мальчик бежал в сад | the boy was running into a garden
мальчик бежал из сада | the boy was running out of a garden
собака побежала к маленькому мальчику | the dog ran to a small boy
художник бежит на кухню | the artist is running into a kitchen
у кота есть рыба | the cat has a fish
у кота нет рыбы | the cat has no fish
у девочки была старая книга | the girl had an old book
у меня был зонт | i had an umbrella
у меня есть собака | i have a dog
у детей не было ключа | the children had no key
мне нравится книга | i like the book
мальчику нравится кот | the boy likes the cat
детям не нравится суп | the children do not like the soup
доброй женщине понравилось письмо | the kind woman liked the letter
им понравились старые книги | they liked the old books
женщина дала мальчику красное яблоко | the woman gave a red apple to a boy
мальчик дал мне свой мяч | the boy gave his ball to me
она не дала коту рыбу | she did not give a fish to a cat
мужчина тихо положил ключ на стол | the man put a key quietly on a table
дети играли со слоном во дворе | the children were playing with an elephant in a yard
собака играет с маленькой девочкой | the dog is playing with a small girl
мальчик думал об озере | the boy was thinking about a lake
девочка думала о большой собаке | the girl was thinking about a big dog
мальчик думал , что кот спит на коврике | the boy thought that the cat was sleeping on a mat
женщина сказала , что дети едят суп | the woman said that the children were eating soup
мальчик читал книгу , а девочка спала в саду \
| the boy was reading a book , while the girl was sleeping in a garden
собака съела рыбу , но кот выпил молоко | the dog ate a fish , but the cat drank milk
женщина читает письмо , и мужчина пьёт воду \
| the woman is reading a letter , and the man is drinking water
когда мальчик ел суп , собака нашла мяч | when the boy was eating soup , the dog found a ball
девочка , которая сидела на стуле , читала письмо \
| the girl who was sitting on a chair was reading a letter
кот , который лежал под столом , съел рыбу | the cat that was lying under a table ate a fish
мальчик видел птицу , которая спала в лесу | the boy saw a bird that was sleeping in a forest
мы нашли письмо , которое лежало под стулом | we found a letter that was lying under a chair
мужчина видел детей , которые стояли у дома \
| the man saw children who were standing near a house
"""
SENTENCES = [
    tuple(part.split() for part in line.split("|"))
    for line in GOLD.replace("\\\n", "").strip().splitlines()
]
RIGHT = [(russian, english) for russian, english in SENTENCES if english != ["error"]]
# Good Russian, but the grammar lacks these words' plural, or their number.
MISSING = [russian for russian, english in SENTENCES if english == ["error"]]
WRONG = """
я видел коту на коврике
кот видела птицу
чёрный собака спит
мальчик видел чёрный кота
дети спит в саду
в саде спит кот
в дворе спит кот
с слоном играли дети
мальчик бежал к дома
два девочки спали
две кота спали
у кота нет рыба
мне нравится книгу
девочка , который спала , читала книгу
читала девочка
"""


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return sample_pairs(30_000, seed=20)


def show(pair: Pair) -> str:
    return f"{' '.join(pair.russian)} | {' '.join(pair.english)}"


@pytest.mark.parametrize(("russian", "english"), RIGHT, ids=[" ".join(r) for r, _ in RIGHT])
def test_a_sentence_that_was_translated_by_hand_comes_out_so(
    russian: list[str], english: list[str]
) -> None:
    (pair,) = derivations(russian)
    assert list(pair.english) == english
    assert translate(russian) == pair


def test_the_sentences_by_hand_show_every_pattern() -> None:
    assert {translate(russian).pattern for russian, _ in RIGHT} == set(PATTERNS)


@pytest.mark.parametrize("russian", [*MISSING, *(line.split() for line in WRONG.split("\n"))],
                         ids=" ".join)  # fmt: skip
def test_what_is_no_sentence_of_the_grammar_is_refused(russian: list[str]) -> None:
    with pytest.raises(ValueError, match="russian must be a sentence of the grammar; got"):
        translate(russian)


def test_a_string_is_not_taken_for_words() -> None:
    with pytest.raises(ValueError, match="russian must be a sequence of words; got 'кот спит'"):
        translate("кот спит")


def test_the_checker_finds_nothing_wrong_with_any_pair(pairs: list[Pair]) -> None:
    """Agreement, government, articles, tenses, by tables and rules that were typed separately."""
    for pair in pairs:
        assert not checker.faults(pair.russian, pair.english), show(pair)


FAULTY = """
старый собака спит в саду | the old dog is sleeping in a garden
чёрного кот спит в саду | the black cat is sleeping in a garden
кот спала в саду | the cat was sleeping in a garden
дети спит в саду | the children is sleeping in a garden
кот спит в сада | the cat is sleeping in a garden
кот спит в дворе | the cat is sleeping in a yard
кот спит в саду | the cat is sleeping into a garden
кот бежит в сад | the cat is running in a garden
дети играли с слоном | the children were playing with an elephant
дети играли со слону | the children were playing with an elephant
мальчик думал об доме | the boy was thinking about a house
мальчик видел кот | the boy saw a cat
мальчик видел собака | the boy saw a dog
мальчик видел собаку | the boy saw the dog
собаку видел мальчик | a boy saw a dog
мальчик видел слона | the boy saw a elephant
мальчик видел стол | the boy saw an table
мальчик читал книгу | the boy read a book
мальчик прочитал книгу | the boy was reading a book
мальчик часто читает книгу | the boy is reading a book
мальчик читает книгу | the boy reads a book
мальчик не пил молоко | the boy was not drinking milk
мальчик пил молоко | the boy was drinking a milk
два девочки спали | two girls were sleeping
две девочки спали | two girl were sleeping
две девочки спала | two girls were sleeping
у кота нет рыба | the cat has no fish
у кот есть рыба | the cat has a fish
у кота был рыба | the cat had a fish
мальчика нравится кот | the boy likes the cat
мальчику нравятся кот | the boy likes the cat
мальчику нравится кот | the boy likes a cat
мальчику нравится кот | the boy like the cat
мне нравится кот | i likes the cat
у детей есть кот | the children has a cat
у меня есть кот | i has a cat
женщина дала мальчика яблоко | the woman gave an apple to a boy
кот , которая спал , ел рыбу | the cat that was sleeping was eating a fish
мальчик видел кота который спал | the boy saw a cat that was sleeping
вчера кот спит в саду | the cat is sleeping in a garden yesterday
кот вчера спал в саду | the cat was sleeping in a garden yesterday
вчера кот спал в саду | yesterday the cat was sleeping in a garden
кот никогда спал в саду | the cat never slept in a garden
мальчик нашёл своя шляпу | the boy found his hat
мы спали в доме | we was sleeping in a house
кот и собака спали в доме | the cat and the dog was sleeping in a house
мальчик сказал , что кот спит в саду | the boy said that the cat is sleeping in a garden
мальчик видел кота | the boy saw a cat on a mat
мальчик видел болшого кота | the boy saw a big cat
мальчик видел маленькый дом | the boy saw a small house
"""


@pytest.mark.parametrize("line", FAULTY.strip().splitlines())
def test_the_checker_finds_what_is_wrong(line: str) -> None:
    russian, english = (tuple(part.split()) for part in line.split("|"))
    assert checker.faults(russian, english)


def test_a_russian_sentence_has_one_translation() -> None:
    translations: dict[tuple[str, ...], tuple[str, ...]] = {}
    for seed in range(3):
        for pair in sample_pairs(30_000, seed=seed):
            assert translations.setdefault(pair.russian, pair.english) == pair.english, show(pair)


def test_the_grammar_makes_each_sentence_in_one_way_only(pairs: list[Pair]) -> None:
    """All derivations are searched: so none is counted twice, and none has two translations."""
    by_pattern: Counter[str] = Counter()
    for pair in pairs:
        by_pattern[pair.pattern] += 1
        if by_pattern[pair.pattern] <= 20:
            assert derivations(pair.russian) == [pair], show(pair)
    assert set(by_pattern) == set(PATTERNS)


@pytest.mark.parametrize("pattern", ["having", "liking", "thinking"])
def test_the_count_of_a_pattern_is_the_number_of_its_sentences(pattern: str) -> None:
    make = GRAMMAR[pattern].make
    sentences = [tuple(russian) for russian, _ in search(make, lambda option: True)]
    assert len(sentences) == len(set(sentences)) == count(make)


def test_there_are_far_more_than_a_hundred_thousand_pairs() -> None:
    assert count_pairs() == sum(count(pattern.make) for pattern in GRAMMAR.values())
    assert count_pairs() > 1_000_000_000
    # And not thanks to sentences of two clauses alone.
    assert sum(count(GRAMMAR[name].make) for name in ("posture", "inverted", "fronted")) > 1_000_000


def test_a_sample_is_distinct_and_as_large_as_asked(pairs: list[Pair]) -> None:
    assert len(pairs) == len({pair.russian for pair in pairs}) == 30_000


def test_a_seed_repeats_and_a_larger_sample_begins_with_the_smaller(pairs: list[Pair]) -> None:
    assert sample_pairs(500, seed=20) == pairs[:500]
    assert sample_pairs(500, seed=21) != pairs[:500]
    assert sample_pairs(0, seed=0) == []


def test_every_pattern_comes_up_often(pairs: list[Pair]) -> None:
    counts = Counter(pair.pattern for pair in pairs)
    assert set(counts) == set(PATTERNS)
    assert min(counts.values()) > 300


def test_the_vocabularies_are_small_and_no_word_is_rare(pairs: list[Pair]) -> None:
    russian = Counter(word for pair in pairs for word in pair.russian)
    english = Counter(word for pair in pairs for word in pair.english)
    assert 250 <= len(russian) <= 300
    assert 150 <= len(english) <= 200
    assert min(russian.values()) >= 5 and min(english.values()) >= 5
    assert all(word == word.lower() for word in [*russian, *english])
    assert set("".join(russian)) <= set("абвгдеёжзийклмнопрстуфхцчшщъыьэюя,")
    assert set("".join(english)) <= set("abcdefghijklmnopqrstuvwxyz,'")


def test_lengths_vary_from_three_words_to_fourteen(pairs: list[Pair]) -> None:
    lengths = Counter(len(pair.russian) for pair in pairs)
    assert all(lengths[n] > 50 for n in range(3, 14))
    assert sum(lengths[n] for n in range(3, 15)) > 0.995 * len(pairs)
    assert min(lengths) >= 2 and max(lengths) <= 17


@pytest.mark.parametrize(("least", "most"), [(3, 4), (8, 8), (11, 14), (5, None)])
def test_lengths_may_be_asked_for(least: int, most: int | None) -> None:
    parts = [sample_pairs(300, seed=1, min_length=least, max_length=most)]
    parts += split(200, 50, 50, seed=1, min_length=least, max_length=most)
    for part in parts:
        assert all(least <= len(pair.russian) <= (most or 99) for pair in part)
    assert [len(part) for part in parts] == [300, 200, 50, 50]


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Pair]]:
    return split(20_000, 2_000, 4_000, seed=5)._asdict()


def test_the_parts_are_as_large_as_asked_and_share_no_sentence(parts: dict) -> None:
    assert [len(part) for part in parts.values()] == [20_000, 2_000, 4_000]
    russian = [pair.russian for part in parts.values() for pair in part]
    assert len(russian) == len(set(russian))


def test_combinations_are_what_the_checker_reads_off_the_russian(pairs: list[Pair]) -> None:
    for pair in pairs[:5000]:
        assert checker.combinations(pair.russian) == pair.combinations, show(pair)


def test_held_out_combinations_occur_in_held_out_sentences_alone(parts: dict) -> None:
    for name in ("train", "test"):
        for pair in parts[name]:
            assert not checker.combinations(pair.russian) & HELD_OUT, show(pair)
    seen = [checker.combinations(pair.russian) & HELD_OUT for pair in parts["held_out"]]
    assert all(seen)
    assert set().union(*seen) == HELD_OUT


def test_every_word_and_pattern_of_test_and_held_out_sentences_occurs_in_training(
    parts: dict,
) -> None:
    train = parts["train"]
    for side in ("russian", "english"):
        known = Vocabulary.from_sequences(getattr(pair, side) for pair in train)
        for name in ("test", "held_out"):
            assert all(word in known for pair in parts[name] for word in getattr(pair, side))
    for part in parts.values():
        assert {pair.pattern for pair in part} == set(PATTERNS)


def test_each_half_of_a_held_out_combination_is_trained_in_other_company(parts: dict) -> None:
    trained = Counter(c for pair in parts["train"] for c in pair.combinations)
    adjectives = set(checker.ADJECTIVES.values())
    for first, second in HELD_OUT:
        company = [b for a, b in trained if a == first and trained[a, b] >= 10]
        assert len(company) >= 2, first
        same_kind = [
            a for a, b in trained if b == second and (a in adjectives) == (first in adjectives)
        ]
        assert len(same_kind) >= (2 if first in adjectives else 1), second


def test_a_split_repeats_with_its_seed() -> None:
    assert split(50, 20, 20, seed=1) == split(50, 20, 20, seed=1)
    assert split(50, 20, 20, seed=1) != split(50, 20, 20, seed=2)
    assert split(0, 0, 0, seed=0) == ([], [], [])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n": -1}, "n must be a whole number of at least 0; got -1"),
        ({"n": 2.0}, "n must be a whole number of at least 0; got 2.0"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"seed": None}, "seed must be a whole number of at least 0; got None"),
        ({"min_length": 0}, "min_length must be a whole number of at least 1; got 0"),
        ({"min_length": 7, "max_length": 6}, "max_length must be a whole number of at least 7"),
        ({"min_length": 40}, "n must be a number of pairs that the grammar has .* from 40 to"),
        ({"n": 500, "max_length": 2}, "n must be a number of pairs .* from 1 to 2; got 500"),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_refused_by_name(changed: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_pairs(**({"n": 3, "seed": 0} | changed))


@pytest.mark.parametrize("name", ["n_train", "n_test", "n_held_out"])
def test_a_split_that_cannot_be_drawn_is_refused_by_name(name: str) -> None:
    sizes = {"n_train": 1, "n_test": 1, "n_held_out": 1}
    for bad in (-1, 1.5, "3"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 0; got"):
            split(**(sizes | {name: bad}), seed=0)
    with pytest.raises(ValueError, match=f"{name} must be a number of pairs .* got 100"):
        split(**(sizes | {name: 100}), seed=0, max_length=2)


def test_what_is_no_sentence_of_words_is_refused() -> None:
    for bad in (None, 5, {"кот", "спит"}, np.array("кот")):
        with pytest.raises(ValueError, match="russian must be a sequence of words; got"):
            translate(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"russian\[1\] must be a string; got 3"):
        translate(["кот", 3])  # type: ignore[list-item]


def test_a_seed_of_numpy_draws_what_the_same_number_of_python_draws() -> None:
    assert sample_pairs(5, seed=np.int64(3)) == sample_pairs(5, seed=3)  # type: ignore[arg-type]


def test_patterns_are_drawn_as_often_as_their_weights_say() -> None:
    drawn = Counter(pair.pattern for pair in sample_pairs(6000, seed=5))
    large = {name: p for name, p in GRAMMAR.items() if count(p.make) > 10**6}  # hardly ever twice
    assert len({p.weight for p in large.values()}) > 1
    total = sum(p.weight for p in large.values())
    of_these = sum(drawn[name] for name in large)
    for name, pattern in large.items():
        expected = of_these * pattern.weight / total
        assert abs(drawn[name] - expected) < 5 * expected**0.5, name
