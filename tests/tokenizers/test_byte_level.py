from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from course_lib.tokenizers import byte_level
from course_lib.tokenizers.byte_level import ByteLevelBPE, bytes_to_unicode, verified

UG, UN, HUG, PUN = (b"u", b"g"), (b"u", b"n"), (b"h", b"ug"), (b"p", b"un")
WORKED = [UG, UN, HUG, PUN]


def pieces(tokenizer: ByteLevelBPE, text: str, **options: Any) -> list[bytes]:
    return [tokenizer.tokens[i] for i in tokenizer.encode(text, **options)]


@st.composite
def merge_lists(draw: st.DrawFn, letters: str = "ab ", distinct: bool = False) -> list[Any]:
    """Draw merges that chain; unless distinct, two of them may make the same bytes."""
    known = [bytes([b]) for b in letters.encode()]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(draw(st.integers(0, 12))):
        pair = (draw(st.sampled_from(known)), draw(st.sampled_from(known)))
        made = pair[0] + pair[1]
        if pair in merges or (distinct and made in known):
            continue
        merges.append(pair)
        if made not in known:
            known.append(made)
    return merges


def test_the_worked_example_splits_bugs_and_hugs() -> None:
    tokenizer = ByteLevelBPE(WORKED)
    assert pieces(tokenizer, "bugs") == [b"b", b"ug", b"s"]
    assert pieces(tokenizer, "hugs") == [b"hug", b"s"]
    assert pieces(tokenizer, "pun") == [b"pun"]


def test_the_lowest_rank_goes_first_not_the_leftmost_pair() -> None:
    assert pieces(ByteLevelBPE([(b"b", b"c"), (b"a", b"b")]), "abc") == [b"a", b"bc"]
    assert pieces(ByteLevelBPE([(b"a", b"b"), (b"b", b"c")]), "abc") == [b"ab", b"c"]


def test_of_equal_pairs_that_overlap_the_left_one_is_merged() -> None:
    assert pieces(ByteLevelBPE([(b"a", b"a")]), "aaa") == [b"aa", b"a"]


def test_no_merge_reaches_over_a_space_before_a_word() -> None:
    tokenizer = ByteLevelBPE([(b"a", b" "), (b" ", b"a")])
    assert pieces(tokenizer, "a a") == [b"a", b" a"]


@given(merge_lists(distinct=True), st.text("ab", max_size=150))
def test_encoding_applies_the_merges_one_after_the_other(merges: list[Any], word: str) -> None:
    symbols = [bytes([b]) for b in word.encode()]
    for first, second in merges:
        i = 0
        while i < len(symbols) - 1:
            if (symbols[i], symbols[i + 1]) == (first, second):
                symbols[i : i + 2] = [first + second]
            i += 1
    assert pieces(ByteLevelBPE(merges), word) == symbols


@given(merge_lists(), st.text("ab", max_size=150))
def test_the_heap_merges_as_looking_at_all_pairs_does(merges: list[Any], word: str) -> None:
    tokenizer = ByteLevelBPE(merges)
    ids = [tokenizer.tokens.index(bytes([b])) for b in word.encode()]
    long = byte_level._merge_long(ids.copy(), tokenizer._table)
    assert long == byte_level._merge_short(ids.copy(), tokenizer._table)


@given(merge_lists(), st.text("ab é", max_size=100))
@example([(b"a", b"b"), (b"ab", b"a"), (b"b", b"a"), (b"a", b"ba")], "ababab")
@settings(max_examples=300)
def test_any_merges_saved_as_json_give_the_ids_of_tokenizers(
    tmp_path_factory: pytest.TempPathFactory, merges: list[Any], text: str
) -> None:
    path = tmp_path_factory.mktemp("json") / "tokenizer.json"
    tokenizer = ByteLevelBPE(merges, ["<s>", "é<s>"])
    tokenizer.save_json(path)
    theirs = Tokenizer.from_file(str(path))
    text += "é<s>" + text + "<s>"
    assert tokenizer.encode(text) == theirs.encode(text).ids
    assert ByteLevelBPE.from_json(path).encode(text) == tokenizer.encode(text)


@given(merge_lists(), st.lists(st.text("ab", min_size=2, max_size=4), unique=True), st.data())
def test_both_formats_give_the_same_tokenizer_back(
    tmp_path_factory: pytest.TempPathFactory, merges: list[Any], names: list[str], data: Any
) -> None:
    folder = tmp_path_factory.mktemp("files")
    specials = [f"<{name}>" for name in names]
    numbered = list(ByteLevelBPE(merges, specials)._vocab)
    order = data.draw(st.permutations(range(len(numbered))))
    vocab = dict(zip(numbered, order, strict=True))
    tokenizer = ByteLevelBPE(merges, specials, vocab=vocab)
    tokenizer.save_gpt2(folder)
    tokenizer.save_json(folder / "t.json")
    for read in (
        ByteLevelBPE.from_gpt2(folder / "vocab.bpe", folder / "encoder.json", specials),
        ByteLevelBPE.from_json(folder / "t.json"),
    ):
        assert read.tokens == tokenizer.tokens
        assert read.merges == tokenizer.merges
        assert read.special_tokens == tokenizer.special_tokens


def test_a_pretoken_met_before_has_the_same_ids() -> None:
    tokenizer = ByteLevelBPE(WORKED)
    first = tokenizer.encode("hugs hugs hugs")
    assert tokenizer._cache.recent.keys() == {"hugs", " hugs"}
    assert tokenizer.encode("hugs hugs hugs") == first
    assert tokenizer.encode("hugs") == ByteLevelBPE(WORKED).encode("hugs")


@given(st.lists(st.text("abc", min_size=1, max_size=3), max_size=200), st.integers(16_000, 60_000))
def test_a_cache_forgets_without_being_wrong(words: list[str], room: int) -> None:
    tokenizer, text = ByteLevelBPE([(b"a", b"b"), (b"ab", b"c")]), " ".join(words)
    fresh = [i for word in byte_level._PRETOKEN.findall(text) for i in tokenizer.encode(word)]
    tokenizer._cache = byte_level._Cache(room)
    assert tokenizer.encode(text) == fresh


def test_a_cache_holds_no_more_than_its_room() -> None:
    cache = byte_level._Cache(100_000)
    for i in range(10_000):
        cache.add(str(i), (i,))
        assert 250 * (len(cache.recent) + len(cache.older)) < 100_000
    assert "9999" in cache.recent
    assert "0" not in cache.recent | cache.older
    before = dict(cache.recent)
    cache.add("x" * 100_000, (1,))
    assert cache.recent == before


def test_the_longest_special_token_is_found_first() -> None:
    tokenizer = ByteLevelBPE([], ["<a>", "<a><b>", "<a"])
    assert pieces(tokenizer, "<a><b><a><a") == [b"<a><b>", b"<a>", b"<a"]
    assert tokenizer.encode("<a><b>", ["<a>", "<a"])[0] == tokenizer.special_tokens["<a>"]


def test_a_special_token_cuts_the_text_before_pretokens_are_made() -> None:
    tokenizer = ByteLevelBPE([(b"u", b"n"), (b" ", b" ")], ["<s>", "(.)"])
    assert pieces(tokenizer, "u<s>n") == [b"u", b"<s>", b"n"]
    # Before a word the second space would be the word's.
    assert pieces(tokenizer, "a  <s>") == [b"a", b"  ", b"<s>"]
    assert pieces(tokenizer, "u(.)un") == [b"u", b"(.)", b"un"]
    assert pieces(tokenizer, "n") == [b"n"]  # "(.)" isn't taken for a pattern


def test_special_tokens_that_are_not_allowed_are_text() -> None:
    tokenizer = ByteLevelBPE([], ["<s>", "<e>"])
    assert pieces(tokenizer, "<s><e>", allowed_special={"<e>"}) == [b"<", b"s", b">", b"<e>"]
    assert pieces(tokenizer, "<s>", allowed_special=()) == [b"<", b"s", b">"]
    assert list(tokenizer.encode_iterable(["<s", ">"], ())) == tokenizer.encode("<s>", ())


PARTS = [*"'srelv  \n\tab1!<>|é😀", "<|a|>", "<|", "<|a|><|b|>", "<|a|><|b|", "!!"]
TEXT = st.lists(st.sampled_from(PARTS), max_size=60).map("".join)


@given(merge_lists("ab "), TEXT, st.lists(st.integers(0, 80)), st.integers(1, 20))
@settings(max_examples=500)
@example([], "a'r<|a|>e  b", [2, 3, 5, 10], 1)
@example([], "a'l l  'l", [3], 1)
@example([], "<|a|><|b|>", [9], 9)
@example([], "ab<|b<|" + "c" * 40, [], 1)
def test_a_stream_gives_the_ids_of_the_whole_however_it_is_cut(
    merges: list[Any], text: str, cuts: list[int], block: int
) -> None:
    tokenizer = ByteLevelBPE(merges, ["<|a|>", "<|", "<|a|><|b|>", "!!", "  "])
    places = [0, *sorted(cuts), len(text)]
    chunks = [text[i:j] for i, j in pairwise(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_level, "_BLOCK", block)
        assert list(tokenizer.encode_iterable(chunks)) == tokenizer.encode(text)
        assert list(tokenizer.encode_iterable(chunks, ["<|"])) == tokenizer.encode(text, ["<|"])


@given(TEXT, TEXT)
@settings(max_examples=500)
@example("it'", "ll")
@example("it'l", "l")
@example("a  ", "b")
def test_settled_pretokens_stay_whatever_follows(text: str, more: str) -> None:
    settled = byte_level._settled(text)
    assert byte_level._PRETOKEN.findall(text + more)[: len(settled)] == settled


def test_a_stream_does_not_wait_for_the_end() -> None:
    def endless() -> Any:
        while True:
            yield "hugs and puns, "

    stream = ByteLevelBPE(WORKED).encode_iterable(endless())
    assert [next(stream) for _ in range(10_000)]


def test_a_stream_with_a_long_pretoken_goes_through_it_a_few_times_only() -> None:
    tokenizer = ByteLevelBPE([(b"a", b"a")])
    n = 40 * byte_level._BLOCK
    found = 0
    original = byte_level._settled

    def counted(text: str) -> list[str]:
        nonlocal found
        found += len(text)
        return original(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_level, "_settled", counted)
        assert len(list(tokenizer.encode_iterable("a" for _ in range(n)))) == n // 2
    assert found <= 3 * n


def test_a_character_split_between_tokens_comes_back_and_half_of_it_is_replaced() -> None:
    tokenizer = ByteLevelBPE([])
    ids = tokenizer.encode("né")
    assert len(ids) == 3
    assert tokenizer.decode(ids) == "né"
    assert tokenizer.decode(ids[:2]) == "n\ufffd"
    assert tokenizer.decode([]) == ""


def test_ids_are_decoded_from_arrays_and_tensors_too() -> None:
    tokenizer = ByteLevelBPE(WORKED)
    ids = tokenizer.encode("hugs")
    assert tokenizer.decode(np.array(ids)) == "hugs"
    assert tokenizer.decode(torch.tensor(ids)) == "hugs"


def test_the_characters_of_bytes_are_distinct_and_none_is_a_space() -> None:
    table = bytes_to_unicode()
    assert sorted(table) == list(range(256))
    assert len(set(table.values())) == 256
    assert all(c.isprintable() and not c.isspace() for c in table.values())


def test_the_package_is_imported_without_regex_and_byte_level_says_what_is_missing() -> None:
    program = """
import sys
sys.modules["regex"] = None  # importing it raises, as where it isn't installed
import course_lib.tokenizers
try:
    import course_lib.tokenizers.byte_level
except ImportError as error:
    print(error.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("regex\n", "")


# Bad input


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("bad", [-1, 260, 10**30, 1.0, True, "a", None])
def test_an_id_that_is_none_is_refused(bad: Any) -> None:
    tokenizer = ByteLevelBPE(WORKED)
    message = error_of(lambda: tokenizer.decode([0, bad]))
    assert message == f"ids must be whole numbers from 0 to 259; got {bad!r}"


def test_ids_that_are_no_sequence_are_refused() -> None:
    assert "ids must be a sequence of ids; got 3" in error_of(lambda: ByteLevelBPE([]).decode(3))  # type: ignore[arg-type]
    assert "ids must be" in error_of(lambda: ByteLevelBPE([]).decode("12"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("merges", "says"),
    [
        ([(b"u", b"ng")], "what earlier merges make; got b'ng' at rank 0"),
        ([(b"h", b"ug"), (b"u", b"g")], "what earlier merges make; got b'ug' at rank 0"),
        ([(b"", b"g")], "what earlier merges make; got b'' at rank 0"),
        ([(b"u", b"g"), (b"u", b"g")], "must be distinct; got (b'u', b'g') again at rank 1"),
        ([("u", "g")], "must be pairs of bytes; got ('u', 'g') at rank 0"),
        ([(b"u", b"g", b"s")], "must be pairs of bytes"),
        ([b"ug"], "must be pairs of bytes; got b'ug'"),
        ("ug", "must be a sequence of pairs of bytes; got 'ug'"),
        ({(b"u", b"g")}, "must be a sequence of pairs of bytes"),
        (None, "must be a sequence of pairs of bytes; got None"),
    ],
)
def test_merges_that_do_not_chain_are_refused(merges: Any, says: str) -> None:
    message = error_of(lambda: ByteLevelBPE(merges))
    assert message.startswith("merges must")
    assert says in message


@pytest.mark.parametrize(
    ("specials", "says"),
    [
        ([""], "aren't empty; got ''"),
        (["<s>", ""], "aren't empty; got ''"),
        (["<s>", "<s>"], "must be distinct; got '<s>' more than once"),
        ([b"<s>"], "must be strings that aren't empty; got b'<s>'"),
        (["\ud800"], "must be Unicode; got '\\ud800'"),
        (["ug"], "as files write them; got 'ug'"),
        (["Ġ"], "as files write them; got 'Ġ'"),
        ("<s>", "must be a sequence of strings; got '<s>'"),
    ],
)
def test_special_tokens_that_are_none_are_refused(specials: Any, says: str) -> None:
    message = error_of(lambda: ByteLevelBPE(WORKED, specials))
    assert message.startswith("special_tokens must")
    assert says in message


def changed(**entries: Any) -> dict[Any, Any]:
    vocab: dict[Any, Any] = dict(ByteLevelBPE([UG], ["<s>"])._vocab)
    return vocab | {b"ug" if name == "ug" else f"<{name}>": i for name, i in entries.items()}


@pytest.mark.parametrize(
    ("vocab", "says"),
    [
        (changed(ug=258), "without a hole; got 258 for b'ug'"),
        (changed(ug=-1), "without a hole; got -1 for b'ug'"),
        (changed(ug=257), "every id once; got none that is 256"),
        (changed(ug=256.0), "got 256.0 for b'ug'"),
        (changed(ug=True), "got True for b'ug'"),
        (changed(e=258), "bytes, what merges make, and special tokens; got '<e>'"),
        ({t: i for t, i in changed().items() if t != b"ug"}, "got none for b'ug'"),
        ({t: i for t, i in changed().items() if t != b"a"}, "got none for b'a'"),
        ({t: i for t, i in changed().items() if t != "<s>"}, "got none for '<s>'"),
        ([b"ug"], "must be a mapping of tokens to ids"),
    ],
)
def test_a_vocabulary_with_holes_is_refused(vocab: Any, says: str) -> None:
    message = error_of(lambda: ByteLevelBPE([UG], ["<s>"], vocab=vocab))
    assert message.startswith("vocab must")
    assert says in message


def test_text_that_is_none_is_refused() -> None:
    tokenizer = ByteLevelBPE([], ["<s>"])
    assert "text must be a string; got b'a'" in error_of(lambda: tokenizer.encode(b"a"))  # type: ignore[arg-type]
    half = "got '\\ud83d', half of a surrogate pair"
    assert half in error_of(lambda: tokenizer.encode("a \ud83d"))
    assert half in error_of(lambda: list(tokenizer.encode_iterable(["a \ud83d"])))
    assert "chunks must hold strings; got 3" in error_of(
        lambda: list(tokenizer.encode_iterable(["a", 3]))  # type: ignore[list-item]
    )


def test_arguments_of_a_stream_are_refused_before_it_is_read() -> None:
    tokenizer = ByteLevelBPE([], ["<s>"])
    assert "chunks must be" in error_of(lambda: tokenizer.encode_iterable("text"))
    assert "allowed_special" in error_of(lambda: tokenizer.encode_iterable([], ["<e>"]))


@pytest.mark.parametrize("allowed", ["<s>", "none", None, 3, ["<e>"], [""], [["<s>"]]])
def test_allowed_special_tokens_that_are_none_are_refused(allowed: Any) -> None:
    message = error_of(lambda: ByteLevelBPE([], ["<s>"]).encode("a", allowed))
    assert message.startswith("allowed_special must")


def saved(tmp_path: Path) -> tuple[Path, Path, Path]:
    ByteLevelBPE(WORKED, ["<s>"]).save_gpt2(tmp_path)
    ByteLevelBPE(WORKED, ["<s>"]).save_json(tmp_path / "t.json")
    return tmp_path / "vocab.bpe", tmp_path / "encoder.json", tmp_path / "t.json"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("u g\nh ugs\n", "earlier merges make; got b'ugs' at rank 1"),
        ("u\n", "two parts in each merge; got 'u' at rank 0"),
        ("u g s\n", "two parts in each merge; got 'u g s'"),
        ("u g\n\nu n\n", "two parts in each merge; got '' at rank 1"),
        ("u €\n", "256 characters that stand for bytes; got '€'"),
        # Its merge is missing: "pun" must not be taken for a special token.
        ("u g\nu n\nh ug\n", "what merges make, and special tokens; got b'pun'"),
    ],
)
def test_a_broken_file_of_merges_is_refused(tmp_path: Path, lines: str, says: str) -> None:
    vocab_bpe, encoder_json, _ = saved(tmp_path)
    vocab_bpe.write_text(f"#version: 0.2\n{lines}", encoding="utf-8")
    assert says in error_of(lambda: ByteLevelBPE.from_gpt2(vocab_bpe, encoder_json, ["<s>"]))


def test_a_file_that_lacks_the_special_token_is_refused(tmp_path: Path) -> None:
    vocab_bpe, encoder_json, _ = saved(tmp_path)
    message = error_of(lambda: ByteLevelBPE.from_gpt2(vocab_bpe, encoder_json))
    assert "got none for '<|endoftext|>'" in message
    message = error_of(lambda: ByteLevelBPE.from_gpt2(vocab_bpe, encoder_json, "<s>"))
    assert message == "special_tokens must be a sequence of strings; got '<s>'"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 0}', '{"a": null}', b"\xff"])
def test_a_broken_file_of_ids_is_refused(tmp_path: Path, content: Any) -> None:
    vocab_bpe, encoder_json, path = saved(tmp_path)
    data = content if isinstance(content, bytes) else content.encode()
    for broken in (encoder_json, path):
        broken.write_bytes(data)
    error_of(lambda: ByteLevelBPE.from_gpt2(vocab_bpe, encoder_json, ["<s>"]))
    error_of(lambda: ByteLevelBPE.from_json(path))


def edit(*keys: str, to: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[int(key) if isinstance(content, list) else key]
        content[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (edit("model", "type", to="WordPiece"), "must have type 'BPE'; got 'WordPiece'"),
        (edit("model", "dropout", to=0.1), "must have dropout None; got 0.1"),
        (edit("model", "byte_fallback", to=True), "must have byte_fallback False"),
        (edit("model", "end_of_word_suffix", to="</w>"), "got '</w>'"),
        (edit("model", to=None), "must be an object of JSON; got None"),
        (edit("model", "vocab", to=["a"]), "must be an object of JSON; got ['a']"),
        (edit("model", "merges", to=None), "must be a list of merges"),
        (edit("model", "merges", to=[["u"]]), "two parts"),
        (edit("model", "merges", to=[["u", 3]]), "256 characters"),
        (edit("model", "vocab", "ug", to=1000), "without a hole"),
        (edit("model", "vocab", "ugh", to=261), "got b'ugh'"),
        (edit("pre_tokenizer", to=None), "must be an object of JSON"),
        (edit("pre_tokenizer", "type", to="Whitespace"), "must have type 'ByteLevel'"),
        (edit("pre_tokenizer", "add_prefix_space", to=True), "add_prefix_space False"),
        (edit("pre_tokenizer", "use_regex", to=False), "use_regex True"),
        (edit("normalizer", to={"type": "NFC"}), "must have normalizer None"),
        (edit("post_processor", to={"type": "TemplateProcessing"}), "'ByteLevel'"),
        (edit("added_tokens", to=3), "must be a list"),
        (edit("added_tokens", "0", "lstrip", to=True), "must have lstrip False"),
        (edit("added_tokens", "0", "special", to=False), "must have special True"),
        (edit("added_tokens", "0", "content", to=None), "must be a string"),
        (edit("added_tokens", "0", "id", to=3), "ids of vocab; got '<s>' with 3 and 260"),
        (edit("added_tokens", "0", "content", to=""), "aren't empty; got ''"),
    ],
)  # fmt: skip
def test_a_json_of_another_kind_is_refused(
    tmp_path: Path, change: Callable[[Any], None], says: str
) -> None:
    *_, path = saved(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    ByteLevelBPE.from_json(path)
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert says in error_of(lambda: ByteLevelBPE.from_json(path))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    for call in (
        lambda: ByteLevelBPE.from_json(tmp_path / "t.json"),
        lambda: ByteLevelBPE.from_gpt2(tmp_path / "vocab.bpe", tmp_path / "encoder.json"),
        lambda: verified(tmp_path / "t.json", "0" * 64),
    ):
        with pytest.raises(FileNotFoundError):
            call()
