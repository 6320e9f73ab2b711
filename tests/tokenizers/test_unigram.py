from __future__ import annotations

import json
import math
import pydoc_data.topics
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from course_lib.tokenizers.unigram import Unigram, substring_log_probs, viterbi
from tests.tokenizers.strings import strings

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
TEXT = "\n".join(pydoc_data.topics.topics.values())

pieces_of_ab = st.text("ab", min_size=1, max_size=4)
log_probs_of_ab = st.dictionaries(pieces_of_ab, st.floats(-9, 0), max_size=12)
# Few different whole numbers: sums are exact, and ties are frequent.
tied_log_probs = st.dictionaries(pieces_of_ab, st.integers(-4, -1).map(float), max_size=12)


def ways(text: str, pieces: set[str]) -> Iterator[list[str]]:
    """Yield every way to cut a text into pieces."""
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in pieces:
            for rest in ways(text[end:], pieces):
                yield [text[:end], *rest]


def total(pieces: list[str], log_probs: dict[str, float]) -> float:
    score = 0.0
    for piece in pieces:
        score += log_probs[piece]
    return score


@cache
def counted() -> dict[str, float]:
    """Return 4,000 pieces of English, scored by counting."""
    words = Counter("▁" + word for word in TEXT.split())
    return {"<unk>": -20.0, **substring_log_probs(words, 4_000)}


@cache
def trained() -> dict[str, float]:
    """Return pieces and scores that the `tokenizers` library has trained on the same text."""
    peer = Tokenizer(models.Unigram())
    peer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1_500, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
    )
    peer.train_from_iterator(TEXT[:200_000].splitlines(), trainer)
    return dict(json.loads(peer.to_str())["model"]["vocab"])


def theirs(pieces: dict[str, float], marker: bool = True) -> Tokenizer:
    peer = Tokenizer(models.Unigram(list(pieces.items()), [*pieces].index("<unk>"), False))
    if marker:
        peer.pre_tokenizer = pre_tokenizers.Metaspace()
        peer.decoder = decoders.Metaspace()
    return peer


@settings(deadline=None)
@given(st.text("ab", max_size=9), log_probs_of_ab)
def test_no_way_to_cut_a_text_is_better(text: str, log_probs: dict[str, float]) -> None:
    scores = [total(way, log_probs) for way in ways(text, set(log_probs))]
    if not scores:
        with pytest.raises(ValueError, match="text must be spelled by the pieces"):
            viterbi(text, log_probs)
        return
    pieces, score = viterbi(text, log_probs)
    assert "".join(pieces) == text
    assert score == total(pieces, log_probs)
    assert score == pytest.approx(max(scores), abs=1e-12)


@settings(deadline=None)
@given(st.text("ab", max_size=9), tied_log_probs)
def test_of_equally_good_ways_the_one_whose_last_pieces_are_longest_is_taken(
    text: str, log_probs: dict[str, float]
) -> None:
    all_ways = list(ways(text, set(log_probs)))
    if not all_ways:
        return
    best = max(total(way, log_probs) for way in all_ways)
    equally_good = [way for way in all_ways if total(way, log_probs) == best]
    wanted = max(equally_good, key=lambda way: [len(piece) for piece in reversed(way)])
    assert viterbi(text, log_probs) == (wanted, best)


@settings(deadline=None)
@given(st.text("abc", max_size=9), log_probs_of_ab, st.floats(-30, 0))
def test_an_unknown_character_is_a_piece_with_the_score_of_the_unknown(
    text: str, log_probs: dict[str, float], unknown: float
) -> None:
    with_unknown = {**dict.fromkeys("abc", unknown), **log_probs}
    assert viterbi(text, log_probs, unknown) == viterbi(text, with_unknown)


def test_the_best_way_is_neither_the_greedy_one_nor_the_shortest() -> None:
    log_probs = {"ab": -1.0, "c": -9.0, "a": -2.0, "bc": -2.0, "abc": -5.0}
    assert viterbi("abc", log_probs) == (["a", "bc"], -4.0)
    assert viterbi("ab", log_probs) == (["ab"], -1.0)


def test_the_example_of_the_hugs() -> None:
    log_probs = substring_log_probs(HUGS, 14)
    counts = {"u": 36, "g": 20, "ug": 20, "p": 17, "pu": 17, "n": 16, "un": 16, "h": 15, "s": 5}
    for piece, n in counts.items():
        assert log_probs[piece] - log_probs["u"] == pytest.approx(math.log(n / 36))
    assert viterbi("pug", log_probs)[0] == ["p", "ug"]  # pu g is as probable: 17 · 20
    assert viterbi("hugs", log_probs)[0] == ["hu", "gs"]  # hug s is as probable: 15 · 5
    assert viterbi("hug", log_probs)[0] == ["hug"]


def test_nothing_is_cut_into_nothing() -> None:
    assert viterbi("", {}) == ([], 0.0)
    assert Unigram({"a": 0.0}, unknown=None).encode("") == []


def test_a_text_of_fifty_thousand_characters_is_no_harder_than_its_parts() -> None:
    pieces, score = viterbi("ab" * 25_000, {"a": -1.0, "b": -1.0, "ab": -1.5})
    assert pieces == ["ab"] * 25_000
    assert score == -37_500.0


@pytest.mark.parametrize("pieces", [counted, trained], ids=["counted", "trained"])
def test_ids_are_those_of_the_tokenizers_library_on_ten_thousand_strings(pieces: object) -> None:
    mine, peer = Unigram(pieces()), theirs(pieces())
    assert len(mine) == len(pieces()) > 1_000
    unknown = 0
    for text in strings():
        encoding = peer.encode(text)
        assert mine.encode(text) == encoding.ids, text
        assert mine.segment(text) == encoding.tokens, text
        decoded = peer.decode(encoding.ids, skip_special_tokens=False)
        assert mine.decode(encoding.ids) == decoded, text
        unknown += mine.encode("<unk>")[-1] in encoding.ids
    assert 1_000 < unknown < len(strings()) - 1_000  # both kinds are many


@pytest.mark.parametrize("pieces", [counted, trained], ids=["counted", "trained"])
def test_real_text_gets_the_ids_of_the_tokenizers_library(pieces: object) -> None:
    text = TEXT[:100_000]
    assert Unigram(pieces()).encode(text) == theirs(pieces()).encode(text).ids


@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(
        st.text("ab▁", min_size=1, max_size=4), st.integers(-4, 3).map(float), max_size=9
    ),
    st.floats(-9, 0),
    st.lists(st.sampled_from(["a", "b", "X", "é", " ", "▁", "<unk>", "  "]), max_size=9),
    st.booleans(),
)
def test_any_pieces_give_the_ids_of_the_tokenizers_library(
    pieces: dict[str, float], score: float, parts: list[str], marker: bool
) -> None:
    everything = {**pieces, "<unk>": score}
    mine = Unigram(everything, marker="▁" if marker else None)
    text = "".join(parts)
    assert mine.encode(text) == theirs(everything, marker).encode(text).ids
    assert mine.segment(text) == theirs(everything, marker).encode(text).tokens


def test_a_run_of_unknown_characters_is_one_token_and_ends_at_a_space() -> None:
    u = Unigram({"<unk>": -1.0, "▁": -1.0, "a": -1.0})
    assert u.segment("XYaZ XX") == ["▁", "XY", "a", "Z", "▁", "XX"]
    assert u.encode("XYaZ XX") == [1, 0, 2, 0, 1, 0]
    assert u.decode([1, 0, 2, 1, 0]) == "<unk>a <unk>"
    # The marker itself unknown: it joins the run, but the next word begins a new one.
    assert Unigram({"<unk>": -1.0, "a": -1.0}).segment("XY Z") == ["▁XY", "▁Z"]


def test_an_unknown_character_costs_ten_more_than_the_worst_piece() -> None:
    # The worst piece has −3, so X b has −13 and the score of b, against Xb's −3.
    for score, wanted in ((10.1, ["X", "b"]), (9.9, ["Xb"])):
        pieces = {"<unk>": -3.0, "b": score, "Xb": -3.0}
        assert Unigram(pieces, marker=None).segment("Xb") == wanted


@given(st.text("ab ", max_size=20))
def test_what_the_pieces_can_spell_comes_back_but_for_one_space_in_front(text: str) -> None:
    u = Unigram({"▁": -1.0, "a": -1.0, "b": -1.0, "ab": -1.5, "▁b": -1.2}, unknown=None)
    assert u.decode(u.encode(text)) == text.removeprefix(" ")
    whole = Unigram({" ": -1.0, "a": -1.0, "b": -1.0, "a b": -1.5}, unknown=None, marker=None)
    assert whole.decode(whole.encode(text)) == text
    assert whole.segment("a ba") == ["a b", "a"]


def test_without_an_unknown_piece_what_cannot_be_spelled_is_refused() -> None:
    u = Unigram({"▁": -1.0, "a": -1.0}, unknown=None)
    assert u.encode("aa") == [0, 1, 1]
    with pytest.raises(ValueError, match="they reach place 2 of '▁aXa' at most"):
        u.encode("aXa")


def test_arrays_and_tensors_of_ids_decode_like_lists() -> None:
    u = Unigram({"a": -1.0, "b": -1.0}, unknown=None, marker=None)
    assert u.decode(np.array([0, 1])) == u.decode(torch.tensor([0, 1])) == u.decode([0, 1]) == "ab"


def test_later_changes_of_the_mapping_do_not_change_the_tokenizer() -> None:
    pieces = {"<unk>": -5.0, "a": -1.0, "b": -1.0, "ab": -3.0}
    u = Unigram(pieces, marker=None)
    pieces["ab"] = 0.0
    assert u.segment("ab") == ["a", "b"]


@settings(deadline=None)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 50), min_size=1),
    st.integers(3, 40),
    st.integers(1, 5),
)
def test_pieces_are_scored_by_how_often_they_occur_among_all_that_are_kept(
    words: dict[str, int], size: int, max_chars: int
) -> None:
    log_probs = substring_log_probs(words, size, max_chars)
    counts: Counter[str] = Counter()
    for word, n in words.items():
        for length in range(1, max_chars + 1):
            for start in range(len(word) - length + 1):
                counts[word[start : start + length]] += n
    assert len(log_probs) == min(size, len(counts))
    assert {c for word in words for c in word} <= set(log_probs)
    kept = sum(counts[piece] for piece in log_probs)
    for piece, score in log_probs.items():
        assert math.exp(score) == pytest.approx(counts[piece] / kept)
    left_out = [counts[piece] for piece in counts if piece not in log_probs]
    longer = [counts[piece] for piece in log_probs if len(piece) > 1]
    assert not left_out or not longer or max(left_out) <= min(longer)
    order = [(-counts[piece], piece) for piece in log_probs]
    assert order == sorted(order)
    assert sum(map(math.exp, log_probs.values())) == pytest.approx(1.0)
    for word in words:
        assert "".join(viterbi(word, log_probs)[0]) == word


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: viterbi(b"a", {"a": 0.0}), "text must be a string; got b'a'"),
        (lambda: viterbi("a", ["a"]), "log_probs must be a mapping"),
        (lambda: viterbi("a", {"": 0.0}), "log_probs must have strings that aren't empty"),
        (lambda: viterbi("a", {1: 0.0}), "log_probs must have strings that aren't empty"),
        (lambda: viterbi("a", {"a": math.nan}), r"log_probs\['a'\] must be a finite number"),
        (lambda: viterbi("a", {"a": -math.inf}), r"log_probs\['a'\] must be a finite number"),
        (lambda: viterbi("a", {"a": "0"}), r"log_probs\['a'\] must be a finite number; got '0'"),
        (lambda: viterbi("a", {}, unknown=math.inf), "unknown must be a finite number"),
        (lambda: viterbi("ab", {"a": 0.0}), "they reach place 1 of 'ab' at most"),
        (lambda: Unigram({}, unknown=None), "pieces must hold at least one piece"),
        (lambda: Unigram(["a"]), "pieces must be a mapping"),
        (lambda: Unigram({"<unk>": math.nan}), r"pieces\['<unk>'\] must be a finite number"),
        (lambda: Unigram({"a": 0.0}), "unknown must be one of the pieces, or None; got '<unk>'"),
        (lambda: Unigram({"a": 0.0}, unknown=["a"]), "unknown must be one of the pieces"),
        (lambda: Unigram({"a": 0.0}, None, ""), "marker must be one character, or None; got ''"),
        (lambda: Unigram({"a": 0.0}, None, "__"), "marker must be one character, or None"),
        (lambda: Unigram({"a": 0.0}, None).encode(None), "text must be a string; got None"),
        (lambda: Unigram({"a": 0.0}, None).segment(3), "text must be a string; got 3"),
        (lambda: Unigram({"a": 0.0}, None).decode([1]), "ids must be whole .* 0 to 0; got 1"),
        (lambda: Unigram({"a": 0.0}, None).decode([-1]), "ids must be whole .* 0 to 0; got -1"),
        (lambda: Unigram({"a": 0.0}, None).decode([0.0]), "ids must be whole .*; got 0.0"),
        (lambda: Unigram({"a": 0.0}, None).decode(0), "ids must be a sequence of ids; got 0"),
        (lambda: substring_log_probs({}, 3), "words must be a mapping of words to counts"),
        (lambda: substring_log_probs(["a"], 3), "words must be a mapping of words to counts"),
        (lambda: substring_log_probs({"": 1}, 3), "words must be strings that aren't empty"),
        (lambda: substring_log_probs({"a": 0}, 3), r"words\['a'\] must be a whole number"),
        (lambda: substring_log_probs({"ab": 1}, 1), "size must be .* at least 2; got 1"),
        (lambda: substring_log_probs({"ab": 1}, 3, 0), "max_chars must be .* at least 1; got 0"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
