from __future__ import annotations

import numpy as np
import pytest
import torch

from course_lib.data.vocabulary import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary

SENTENCES = [
    ["я", "видел", "кота"],
    ["кот", "видел", "рыбу"],
    ["я", "видел", "рыбу", "и", "кота"],
]


def test_the_special_tokens_have_the_first_ids_in_their_order() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert [v.words[i] for i in (PAD, BOS, EOS, UNK)] == ["<pad>", "<bos>", "<eos>", "<unk>"]
    assert v.encode(list(SPECIAL)) == [0, 1, 2, 3]


def test_words_stand_by_falling_count_and_then_by_name() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    assert v.words[4:] == ("видел", "кота", "рыбу", "я", "и", "кот")
    assert len(v) == 10
    assert "кот" in v and "пёс" not in v


def test_the_order_of_the_sentences_does_not_matter() -> None:
    assert Vocabulary.from_sequences(SENTENCES) == Vocabulary.from_sequences(SENTENCES[::-1])


def test_what_is_encoded_comes_back() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    for sentence in SENTENCES:
        ids = v.encode(sentence)
        assert v.decode(ids) == sentence
        assert v.decode([BOS, *ids, EOS, PAD]) == sentence


def test_an_unknown_word_becomes_unk_and_an_empty_sentence_stays_empty() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    assert v.encode(["пёс", "видел"])[0] == UNK
    assert v.encode(["Кот"]) == [UNK]  # another word than кот: nothing is lowercased here
    assert v.encode([]) == []
    assert v.decode([]) == []


def test_decoding_stops_at_eos_and_drops_special_tokens() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    a, b = v.encode(["я", "видел"])
    assert v.decode([BOS, a, UNK, PAD, b, EOS, a]) == ["я", "видел"]
    kept = v.decode([BOS, a, UNK, EOS, b], keep_special=True)
    assert kept == ["<bos>", "я", "<unk>", "<eos>", "видел"]


def test_arrays_and_tensors_of_ids_decode_like_lists() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    ids = v.encode(SENTENCES[2])
    assert v.decode(np.array(ids)) == v.decode(torch.tensor(ids)) == SENTENCES[2]


def test_rare_words_and_words_beyond_the_size_are_left_out() -> None:
    v = Vocabulary.from_sequences(SENTENCES, min_count=2)
    assert v.words[4:] == ("видел", "кота", "рыбу", "я")
    v = Vocabulary.from_sequences(SENTENCES, max_size=6)
    assert v.words == (*SPECIAL, "видел", "кота")
    assert len(Vocabulary.from_sequences(SENTENCES, max_size=4)) == 4


def test_a_vocabulary_can_be_made_again_from_its_words() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    again = Vocabulary(v.words)
    assert again == v
    assert again.encode(SENTENCES[0]) == v.encode(SENTENCES[0])


def test_sentences_may_come_from_a_generator() -> None:
    v = Vocabulary.from_sequences(sentence for sentence in SENTENCES)
    assert v == Vocabulary.from_sequences(SENTENCES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequences": "кот"}, "sequences must be sequences of tokens; got 'кот'"),
        ({"sequences": None}, "sequences must be sequences of tokens; got None"),
        ({"sequences": [{"a", "b"}]}, r"sequences\[0\] must be a sequence of tokens; got {"),
        ({"sequences": ["я видел"]}, r"sequences\[0\] must be a sequence of tokens; got 'я ви"),
        ({"sequences": [["a"], 3]}, r"sequences\[1\] must be a sequence of tokens; got 3"),
        ({"sequences": [["a", 3]]}, r"sequences\[0\] must hold strings; got 3"),
        ({"sequences": [["a", "<pad>"]]}, "none empty or special; got '<pad>'"),
        ({"sequences": [["a", ""]]}, "none empty or special; got ''"),
        ({"min_count": 0}, "min_count must be a whole number of at least 1; got 0"),
        ({"min_count": 1.5}, "min_count must be a whole number of at least 1; got 1.5"),
        ({"max_size": 3}, "max_size must be a whole number of at least 4; got 3"),
        ({"max_size": True}, "max_size must be a whole number of at least 4; got True"),
    ],
)
def test_bad_sentences_are_refused_by_name(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_sequences(**({"sequences": SENTENCES} | arguments))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "b"), "words must begin with"),
        ((), "words must begin with"),
        (None, "words must be a sequence of strings; got None"),
        ((*SPECIAL, "a", "b", "a"), "words must be distinct; got 'a' more than once"),
        ((*SPECIAL, 3), "words must be strings that aren't empty; got 3"),
        ((*SPECIAL, ""), "words must be strings that aren't empty; got ''"),
    ],
)
def test_bad_words_are_refused(words: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary(words)


def test_bad_tokens_and_ids_are_refused() -> None:
    v = Vocabulary.from_sequences(SENTENCES)
    with pytest.raises(ValueError, match="tokens must be a sequence of tokens; got 'кот'"):
        v.encode("кот")
    with pytest.raises(ValueError, match="tokens must hold strings; got 4"):
        v.encode([4])  # type: ignore[list-item]
    for several in (None, 4, "кот", np.array(4), {4, 5}):
        with pytest.raises(ValueError, match="ids must be a sequence of ids; got"):
            v.decode(several)  # type: ignore[arg-type]
    for bad in (-1, 10, 4.0, "кот", None, True, torch.tensor(True), torch.tensor(4.0)):
        with pytest.raises(ValueError, match="ids must be whole numbers from 0 to 9; got"):
            v.decode([4, bad])  # type: ignore[list-item]
