"""The exercises of chapter 03: pairs, merges, a trainer, an encoder, decoding, two rivals, a bug.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations, pairwise
from math import exp, inf
from typing import Any

import numpy as np

from course_lib.grading.exercises.inputs import as_cell
from course_lib.grading.model import Alternative, Case, Exercise, Misconception
from course_lib.tokenizers import bpe
from course_lib.tokenizers import unigram as unigram_module
from course_lib.tokenizers import wordpiece as wordpiece_module

__all__ = [
    "BROKEN",
    "EXERCISES",
    "decode",
    "encode_ids",
    "encode_ids_broken",
    "longest_match",
    "segment",
    "train_bpe",
    "viterbi",
]

Symbols = tuple[str, ...]
Pair = tuple[Any, Any]

CORPUS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
MERGES = [("u", "g"), ("u", "n"), ("h", "ug"), ("p", "un")]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


def _adjacent(symbols: Sequence[Any]) -> list[Pair]:
    return list(pairwise(symbols))


def _without_overlap(symbols: Sequence[Any]) -> list[Pair]:
    pairs, i = [], 0
    while i < len(symbols) - 1:
        pair = (symbols[i], symbols[i + 1])
        pairs.append(pair)
        # of a run of equal symbols every second pair is left out
        i += 2 if pair == tuple(symbols[i + 1 : i + 3]) else 1
    return pairs


def _merge(symbols: Sequence[Any], pair: Pair) -> tuple[Any, ...]:
    merged: list[Any] = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == tuple(pair):
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _merge_from_the_right(symbols: Sequence[Any], pair: Pair) -> tuple[Any, ...]:
    merged: list[Any] = []
    i = len(symbols) - 1
    while i >= 0:
        if i > 0 and (symbols[i - 1], symbols[i]) == pair:
            merged.insert(0, pair[0] + pair[1])
            i -= 2
        else:
            merged.insert(0, symbols[i])
            i -= 1
    return tuple(merged)


def _merge_first(symbols: Sequence[Any], pair: Pair) -> tuple[Any, ...]:
    for i in range(len(symbols) - 1):
        if (symbols[i], symbols[i + 1]) == pair:
            return (*symbols[:i], pair[0] + pair[1], *symbols[i + 2 :])
    return tuple(symbols)


def _merge_step_of_one(symbols: Sequence[Any], pair: Pair) -> tuple[Any, ...]:
    """Go on with the second half of the pair, as `i += 1` in a for loop does."""
    merged: list[Any] = []
    for i, symbol in enumerate(symbols):
        found = tuple(symbols[i : i + 2]) == pair
        merged.append(pair[0] + pair[1] if found else symbol)
    return tuple(merged)


def _merge_by_replace(symbols: Sequence[str], pair: Pair) -> tuple[str, ...]:
    return tuple(" ".join(symbols).replace(" ".join(pair), "".join(pair)).split())


def _merge_spelled(symbols: Sequence[Any], pair: Pair) -> tuple[Any, ...]:
    """Join any two symbols that spell what the pair spells."""
    merged: list[Any] = []
    i = 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] + symbols[i + 1] == pair[0] + pair[1]:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _letters(rng: np.random.Generator, longest: int, letters: str = "abc") -> str:
    return "".join(rng.choice(list(letters), size=int(rng.integers(2, longest + 1))))


# -- 03.count_pairs --------------------------------------------------------------------------------


def _random_cut(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 31])
    words: dict[Symbols, int] = {}
    while len(words) < 5:
        word = _merge(_letters(rng, 6), ("a", "b"))
        words[word] = int(rng.integers(2, 9))
    words["a", "b", "a", "a", "ab"] = int(rng.integers(2, 9))
    return {"words": words}


_COUNT_CASES = [
    Case(
        name="a word that occurs once",
        inputs={"words": {("h", "u", "g"): 1}},
        shows="three symbols make two pairs",
    ),
    Case(
        name="the chapter's words",
        inputs={"words": {tuple(word): n for word, n in CORPUS.items()}},
        shows="u g leads, with 20",
    ),
    Case(
        name="a pair twice in a word",
        inputs={"words": {tuple("banana"): 3}},
        shows="it counts twice, and n a isn't a n",
    ),
    Case(
        name="pairs that overlap",
        inputs={"words": {tuple("aaa"): 2, tuple("aaaab"): 1}},
        shows="aaa holds a a twice",
    ),
    Case(
        name="words after some merges",
        inputs={
            "words": {("h", "ug"): 10, ("p", "ug"): 5, ("hu", "g"): 2, ("h", "ug", "s"): 5},
        },
        shows="h ug isn't hu g",
    ),
    Case(
        name="words of one symbol",
        inputs={"words": {("a",): 5, ("b", "a"): 2, ("hug",): 7}},
        shows="they have no pair",
    ),
    Case(name="six drawn words", inputs=_random_cut),
]


def _counted(
    pairs_of: Callable[[Sequence[Any]], Iterable[Any]] = _adjacent,
    add: Callable[[int | None, int], int] = lambda old, n: (old or 0) + n,
    finish: Callable[[dict[Any, int]], Any] = lambda counts: counts,
) -> Callable[[dict[Symbols, int]], Any]:
    """Return the count with some steps replaced."""

    def count(words: dict[Symbols, int]) -> Any:
        counts: dict[Any, int] = {}
        for symbols, n in words.items():
            for pair in pairs_of(symbols):
                counts[pair] = add(counts.get(pair), n)
        return finish(counts)

    return count


def _across(words: dict[Symbols, int]) -> dict[Pair, int]:
    """Count in the running text, each word as often as it occurs."""
    text = [symbol for symbols, n in words.items() for _ in range(n) for symbol in symbols]
    return dict(Counter(pairwise(text)))


def _across_once(words: dict[Symbols, int]) -> dict[Pair, int]:
    return dict(Counter(pairwise(symbol for symbols in words for symbol in symbols)))


def _no_end(symbols: Sequence[Any]) -> list[Pair]:
    return [(symbols[i], symbols[i + 1]) for i in range(len(symbols))]


def _count_key_error(words: dict[Symbols, int]) -> dict[Pair, int]:
    counts: dict[Pair, int] = {}
    for symbols, n in words.items():
        for pair in pairwise(symbols):
            counts[pair] += n
    return counts


def _count_emptying(words: dict[Symbols, int]) -> dict[Pair, int]:
    counts: dict[Pair, int] = {}
    while words:
        symbols = next(iter(words))
        n = words.pop(symbols)
        for pair in pairwise(symbols):
            counts[pair] = counts.get(pair, 0) + n
    return counts


def _count_by_text(words: dict[Symbols, int]) -> dict[Pair, int]:
    counts: dict[Pair, int] = {}
    for symbols, n in words.items():
        text = "".join(symbols)
        for a, b in pairwise(symbols):
            counts[a, b] = counts.get((a, b), 0) + n * text.count(a + b)
    return counts


def _words_in_a_row(words: dict[Symbols, int], times: bool) -> list[str]:
    return ["".join(word) for word, n in words.items() for _ in range(n if times else 1)]


def _in_text_once(words: dict[Symbols, int]) -> dict[Pair, int]:
    return dict(Counter(pairwise(" ".join(_words_in_a_row(words, times=False)))))


def _in_text(words: dict[Symbols, int]) -> dict[Pair, int]:
    return dict(Counter(pairwise(" ".join(_words_in_a_row(words, times=True)))))


def _space_between(words: dict[Symbols, int]) -> dict[Pair, int]:
    """Put a space as a symbol between words that are cut as they were."""
    row = [symbol for word, n in words.items() for _ in range(n) for symbol in (" ", *word)]
    return dict(Counter(pairwise(row[1:])))


def _count_some(chosen: slice) -> Callable[[dict[Symbols, int]], dict[Pair, int]]:
    return lambda words: _counted()(dict(list(words.items())[chosen]))


def _count_one_pair(words: dict[Symbols, int]) -> dict[Pair, int]:
    return {pair: n for word, n in words.items() for pair in pairwise(word)} and next(
        {pair: n} for word, n in words.items() for pair in pairwise(word)
    )


def _count_zeros(words: dict[Symbols, int]) -> dict[Pair, int]:
    counts, known = _counted()(words), [s for word in words for s in word]
    return {(a, b): counts.get((a, b), 0) for a in known for b in known}


def _count_spelled(words: dict[Symbols, int]) -> dict[Pair, int]:
    """Look for every pair's text in every word's text."""
    pairs = dict.fromkeys(pair for word in words for pair in pairwise(word))
    return {
        pair: sum(n * "".join(word).count("".join(pair)) for word, n in words.items())
        for pair in pairs
    }


def _by_first_place(symbols: Sequence[Any]) -> list[Pair]:
    """Look each symbol up with `index`, which finds the first one that is equal."""
    places = [list(symbols).index(symbol) for symbol in symbols]
    return [(symbols[i], symbols[i + 1]) for i in places if i + 1 < len(symbols)]


_COUNT_WRONG = [
    Misconception(
        name="every word counts once",
        wrong=_counted(add=lambda old, n: (old or 0) + 1),
        hint="You count every word once, however often it occurs: hug stands for ten words of the "
        "text. → By how much does a pair's count grow when a word that occurs n times holds it?",
    ),
    Misconception(
        name="joined strings for pairs",
        wrong=_counted(lambda symbols: [a + b for a, b in pairwise(symbols)]),
        hint="Your keys are strings, the two symbols run together. Then h ug and hu g share a "
        "key, and where the cut was is lost. → Which kind of key keeps two symbols apart?",
    ),
    Misconception(
        name="joined strings for pairs, and every word counts once",
        wrong=_counted(
            lambda symbols: [a + b for a, b in pairwise(symbols)], lambda old, n: (old or 0) + 1
        ),
        hint="Your keys are strings, the two symbols run together, so that h ug and hu g share "
        "one; and how often a word occurs plays no part yet. → Which kind of key keeps two "
        "symbols apart?",
    ),
    Misconception(
        name="pairs across words",
        wrong=_across,
        hint="You count in the running text, so that the end of a word and the beginning of the "
        "next make pairs as well. → Which symbols may the last symbol of a word be paired with?",
    ),
    Misconception(
        name="pairs across words, and every word once",
        wrong=_across_once,
        hint="You run all words together: the end of each and the beginning of the next make "
        "pairs, and how often a word occurs plays no part. → What should the loop over pairs run "
        "over, the whole list or one word at a time?",
    ),
    Misconception(
        name="each pair once a word",
        wrong=_counted(lambda symbols: dict.fromkeys(pairwise(symbols))),
        hint="A pair that stands twice in a word counts once with you; banana holds a n two "
        "times. → Does a set of pairs know how often each was there?",
    ),
    Misconception(
        name="every occurrence brings all of them",
        wrong=_count_by_text,
        hint="At each place you ask how often the pair occurs in the whole word, so that a pair "
        "which stands there twice brings four. → By how much should a single place raise the "
        "count?",
    ),
    Misconception(
        name="overlapping pairs once",
        wrong=_counted(_without_overlap),
        valid_variant=True,
        hint="this exercise uses every place where two symbols stand side by side, so that aaa "
        "holds a a twice; you count the merges that there would be room for. → How many "
        "neighbours are there in a word of three symbols?",
    ),
    Misconception(
        name="characters in the place of symbols",
        wrong=_counted(lambda symbols: pairwise("".join(symbols))),
        hint="You cut the words into characters again, so that earlier merges are undone: a word "
        "h ug has one pair. → What does a loop over the tuple itself give, before it's joined?",
    ),
    Misconception(
        name="without regard to order",
        wrong=_counted(lambda symbols: [tuple(sorted(pair)) for pair in pairwise(symbols)]),
        hint="You count a n and n a as one pair. Merging them would make different symbols. → "
        "Should the two symbols of a pair be sorted?",
    ),
    Misconception(
        name="the last pair left out",
        wrong=_counted(lambda symbols: list(pairwise(symbols))[:-1]),
        hint="The last pair of every word is missing: your loop ends one place too early. → Which "
        "is the last place at which a pair can begin in a word of n symbols?",
    ),
    Misconception(
        name="the first pair left out",
        wrong=_counted(lambda symbols: list(pairwise(symbols))[1:]),
        hint="The first pair of every word is missing: your loop starts one place too late. → At "
        "which place does the first pair of a word begin?",
    ),
    Misconception(
        name="any two symbols of a word",
        wrong=_counted(lambda symbols: combinations(symbols, 2)),
        hint="You count any two symbols of a word, whatever stands between them: h and g of hug "
        "too. Only neighbours can be merged. → How many pairs of neighbours do n symbols have?",
    ),
    Misconception(
        name="round in a circle",
        wrong=_counted(lambda symbols: [(symbols[i - 1], s) for i, s in enumerate(symbols)]),
        hint="You pair the last symbol of a word with its first one: index −1 is the end of a "
        "tuple in Python. → At which index should the loop start if it looks back by one?",
    ),
    Misconception(
        name="pairs side by side",
        wrong=_counted(
            lambda symbols: [(symbols[i], symbols[i + 1]) for i in range(0, len(symbols) - 1, 2)]
        ),
        hint="Your loop goes on by two, so that every second pair is skipped: in hug you see h u "
        "and not u g. → May one symbol belong to two pairs?",
    ),
    Misconception(
        name="the last word's count only",
        wrong=_counted(add=lambda old, n: n),
        hint="Where a pair occurs in several places, you keep the last one's number and forget "
        "the ones before. → What should become of the count that is there already?",
    ),
    Misconception(
        name="the first sighting counts 1",
        wrong=_counted(add=lambda old, n: 1 if old is None else old + n),
        hint="When a pair is met for the first time you set its count to 1, though the word that "
        "holds it occurs n times. → With what should a new pair's count begin?",
    ),
    Misconception(
        name="a list of pairs with counts",
        wrong=_counted(finish=lambda counts: Counter(counts).most_common()),
        hint="You return a list of pairs and counts, where a dictionary from pairs to counts is "
        "asked for. → What does the docstring say that the function returns?",
    ),
    Misconception(
        name="the most frequent pair only",
        wrong=_counted(finish=lambda counts: max(counts, key=counts.__getitem__)),
        hint="You return the most frequent pair. That's the trainer's next step; here the counts "
        "of all pairs are asked for. → What does the docstring say that the function returns?",
    ),
    Misconception(
        name="past the end of the word",
        wrong=_counted(_no_end),
        hint="Your loop asks for the symbol after the last one. Two symbols make one pair, not "
        "two. → Which is the last place at which a pair can begin in a word of n symbols?",
    ),
    Misconception(
        name="a new pair has no count to add to",
        wrong=_count_key_error,
        hint="`+=` wants a number that is there already, and a new pair isn't in the dictionary "
        "yet. → What does `counts.get(pair, 0)` give for a pair that isn't there?",
    ),
    Misconception(
        name="the words are used up",
        wrong=_count_emptying,
        hint="The counts are right, but the caller's dictionary is empty afterwards: the trainer "
        "needs its words again for the next merge. → How can a loop read a dictionary without "
        "taking anything out?",
    ),
    Misconception(
        name="one text with spaces",
        wrong=_in_text,
        hint="You count in one text, with a space between words: pairs with the space are among "
        "them, and symbols of more than one character are cut up. No pair reaches across "
        "words. → What should the loop over pairs run over, a text or one word at a time?",
    ),
    Misconception(
        name="one text with spaces, every word once",
        wrong=_in_text_once,
        hint="You join the words to one text with spaces and count in that. Then the space makes "
        "pairs, longer symbols are cut up, and how often a word occurs plays no part. → What "
        "should the loop over pairs run over, and where does a word's count come in?",
    ),
    Misconception(
        name="a space as a symbol between words",
        wrong=_space_between,
        hint="You put a space between words and count its pairs as well. Words have no symbol "
        "between them here. → What should the loop over pairs run over, the whole list or "
        "one word at a time?",
    ),
    Misconception(
        name="the first word only",
        wrong=_count_some(slice(0, 1)),
        hint="You count the first word alone: the function returns before it has seen the others. "
        "→ How far must `return` be indented to come after both loops?",
    ),
    Misconception(
        name="the first pair only",
        wrong=_count_one_pair,
        hint="Your result holds a single pair: the function returns inside the inner loop. → How "
        "far must `return` be indented to come after both loops?",
    ),
    Misconception(
        name="the last word only",
        wrong=_count_some(slice(-1, None)),
        hint="Only the last word's pairs are in your result: the dictionary begins anew with "
        "every word. → Before which loop should the empty dictionary be made?",
    ),
    Misconception(
        name="pairs that don't occur",
        wrong=_count_zeros,
        hint="Your dictionary also holds pairs that no word has, with a count of 0. A trainer "
        "that picks from it may never notice that no pair is left. → From where do your "
        "pairs come, from the words or from all symbols that there are?",
    ),
    Misconception(
        name="text looked for in the joined word",
        wrong=_count_spelled,
        hint="You look for a pair's text in the joined word, so that borders between symbols play "
        "no part: in the word h ug you also find hu g. And `count` leaves out what overlaps. "
        "→ Which two things stand side by side in a tuple of symbols?",
    ),
    Misconception(
        name="counts begin at 1",
        wrong=_counted(add=lambda old, n: (1 if old is None else old) + n),
        hint="Every count is too large by 1: a new pair begins at 1, and then its word's count is "
        "added. → With which number should a pair begin that hasn't been met yet?",
    ),
    Misconception(
        name="a new pair counts twice",
        wrong=_counted(add=lambda old, n: (n if old is None else old) + n),
        hint="The word in which a pair is met first counts twice: once as the start and once as "
        "it's added. → With which number should a pair begin that hasn't been met yet?",
    ),
    Misconception(
        name="the first sighting only",
        wrong=_counted(add=lambda old, n: n if old is None else old),
        hint="You write down the first place at which you meet a pair, and nothing is added at "
        "the others. → What should become of the count when the pair is met again?",
    ),
    Misconception(
        name="the largest in the place of the sum",
        wrong=_counted(add=lambda old, n: max(old or 0, n)),
        hint="Of all words with a pair you keep the largest count, where they should be added. → "
        "How often is a pair in the text if it's in ten words and in five others?",
    ),
    Misconception(
        name="an end-of-word mark",
        wrong=_counted(lambda symbols: pairwise((*symbols, "</w>"))),
        valid_variant=True,
        hint="this exercise uses the words as they are; you put a mark at their end, which makes "
        "pairs of its own. → How many pairs does a word of three symbols have?",
    ),
    Misconception(
        name="both orders",
        wrong=_counted(lambda symbols: [p for a, b in pairwise(symbols) for p in ((a, b), (b, a))]),
        hint="You count every pair in both orders, u g as well as g u. → Which of the two stands "
        "on the left in the word?",
    ),
    Misconception(
        name="single symbols",
        wrong=_counted(lambda symbols: symbols),
        hint="You count single symbols, where pairs of neighbours are asked for. → What is at the "
        "places i and i + 1?",
    ),
    Misconception(
        name="a key of one symbol at the end",
        wrong=_counted(lambda symbols: [tuple(symbols[i : i + 2]) for i in range(len(symbols))]),
        hint="Among your keys are tuples of one symbol: the slice at a word's last place has "
        "nothing behind it. → Which is the last place at which a pair can begin in a word of "
        "n symbols?",
    ),
    Misconception(
        name="strings with a space for pairs",
        wrong=_counted(lambda symbols: [f"{a} {b}" for a, b in pairwise(symbols)]),
        hint="Your keys are strings with a space in the middle. A pair is a tuple of two symbols "
        "here: a space may be a symbol itself. → What does the docstring say that a pair is?",
    ),
    Misconception(
        name="sets for pairs",
        wrong=_counted(lambda symbols: [frozenset(pair) for pair in pairwise(symbols)]),
        hint="Your keys are sets. A set has no order and holds equal symbols once, so that a n is "
        "n a, and a a only a. → What does the docstring say that a pair is?",
    ),
    Misconception(
        name="looked up with index",
        wrong=_counted(_by_first_place),
        hint="You look a symbol's place up with `index`, which gives the first one that is equal: "
        "in banana every a is then the one at place 1. → How does a loop know its place "
        "without a search?",
    ),
]


def _count_indices(words: dict[Symbols, int]) -> Any:
    counts: dict[Pair, int] = {}
    for symbols in words:
        for i in range(len(symbols) - 1):
            pair = (symbols[i], symbols[i + 1])
            if pair not in counts:
                counts[pair] = 0
            counts[pair] += words[symbols]
    return counts


def _count_counter(words: dict[Symbols, int]) -> Any:
    counts: Counter[Pair] = Counter()
    for symbols, n in words.items():
        for pair in list(pairwise(symbols)):
            counts[pair] += n
    return counts


def _count_backwards(words: dict[Symbols, int]) -> Any:
    """In another order, with numpy's numbers: a dictionary's order and such don't matter."""
    counts: dict[Pair, Any] = {}
    for symbols, n in reversed(words.items()):
        for i in range(len(symbols) - 1, 0, -1):
            pair = symbols[i - 1], symbols[i]
            counts[pair] = counts.get(pair, np.int64(0)) + np.int64(n)
    return counts


_COUNT_PAIRS = Exercise(
    id="03.count_pairs",
    function="count_pairs",
    reference=bpe.count_pairs,
    cases=_COUNT_CASES,
    returns=("counts",),
    misconceptions=_COUNT_WRONG,
    alternatives=[
        Alternative(name="indices", right=_count_indices),
        Alternative(name="a Counter", right=_count_counter),
        Alternative(name="backwards, numbers of numpy", right=_count_backwards),
    ],
    hints=[
        "Take one word by itself, hug. Which pairs does it hold? Now it occurs ten times.",
        "Two loops: over the words with how often each occurs, and over the places of a word at "
        "which a pair can begin.",
        "A word of n symbols has n − 1 pairs, `(symbols[i], symbols[i + 1])`. `counts.get(pair, 0)`"
        " is what a pair has so far.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)


# -- 03.merge_pair ---------------------------------------------------------------------------------


def _random_merge(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 32])
    symbols = ["ab", "a", "b", "b", "a", "b", *rng.choice(["a", "b", "ab", "c"], size=6).tolist()]
    return {"symbols": (*symbols, "a", "b"), "pair": ("a", "b")}


_MERGE_CASES = [
    Case(
        name="the pair stands in the middle",
        inputs={"symbols": tuple("hugs"), "pair": ("u", "g")},
        shows="its two symbols become one",
    ),
    Case(
        name="the pair stands at the end",
        inputs={"symbols": tuple("pug"), "pair": ("u", "g")},
        shows="nothing is lost behind it",
    ),
    Case(
        name="the pair isn't there",
        inputs={"symbols": tuple("ggun"), "pair": ("u", "g")},
        shows="g u isn't u g",
    ),
    Case(
        name="the pair stands there twice",
        inputs={"symbols": tuple("banana"), "pair": ("a", "n")},
        shows="both are merged",
    ),
    Case(
        name="five equal symbols",
        inputs={"symbols": tuple("aaaaa"), "pair": ("a", "a")},
        shows="from left to right, and a symbol is used once",
    ),
    Case(
        name="longer symbols around it",
        inputs={
            "symbols": ("hu", "gs", "u", "hu", "g", "h", "ug", "chu", "g"),
            "pair": ("hu", "g"),
        },
        shows="whole symbols are compared, not what they spell",
    ),
    Case(
        name="one symbol",
        inputs={"symbols": ("hug",), "pair": ("hu", "g")},
        shows="it stays",
    ),
    Case(name="fourteen drawn symbols", inputs=_random_merge),
]


def _merge_recut(symbols: Symbols, pair: Pair) -> Symbols:
    return _merge("".join(symbols), pair)


def _merge_text_recut(symbols: Symbols, pair: Pair) -> list[str]:
    """Look for the pair's text in the word's text."""
    text, new = "".join(symbols), "".join(pair)
    merged, i = [], 0
    while i < len(text):
        step = len(new) if text.startswith(new, i) else 1
        merged.append(text[i : i + step])
        i += step
    return merged


def _merge_tail_lost(symbols: Symbols, pair: Pair) -> Symbols:
    merged = []
    i = 0
    while i < len(symbols) - 1:
        if symbols[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _merge_tail_doubled(symbols: Symbols, pair: Pair) -> Symbols:
    merged = _merge_tail_lost(symbols, pair)
    return (*merged, symbols[-1])


def _merge_past_the_end(symbols: Symbols, pair: Pair) -> Symbols:
    merged = []
    i = 0
    while i < len(symbols):
        if symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _merge_either(symbols: Symbols, pair: Pair) -> Symbols:
    merged = []
    i = 0
    while i < len(symbols):
        if symbols[i : i + 2] in (pair, pair[::-1]):
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _merge_members(symbols: Symbols, pair: Pair) -> Symbols:
    merged = []
    i = 0
    while i < len(symbols):
        two = symbols[i : i + 2]
        if len(two) == 2 and set(two) <= set(pair):
            merged.append(two[0] + two[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _merge_kept(symbols: Symbols, pair: Pair) -> list[Any]:
    """Put the pair itself into the list in the place of one symbol."""
    merged: list[Any] = []
    i = 0
    while i < len(symbols):
        found = symbols[i : i + 2] == pair
        merged.append(pair if found else symbols[i])
        i += 2 if found else 1
    return merged


def _merge_spaced(symbols: Symbols, pair: Pair) -> list[str]:
    joined = "".join(pair)
    return [" ".join(pair) if symbol == joined else symbol for symbol in _merge(symbols, pair)]


def _merge_pairs_only(symbols: Symbols, pair: Pair) -> list[str]:
    new = pair[0] + pair[1]
    return [new for two in pairwise(symbols) if two == pair]


def _merge_spaced_and_split(symbols: Symbols, pair: Pair) -> list[str]:
    new = "".join(pair)
    return "".join(symbols).replace(new, f" {new} ").split()


def _merge_shrinking(symbols: Symbols, pair: Pair) -> list[str]:
    """Take places out of a list whose length the loop has asked for before."""
    merged = list(symbols)
    for i in range(len(merged) - 1):
        if (merged[i], merged[i + 1]) == pair:
            merged[i] += merged[i + 1]
            del merged[i + 1]
    return merged


def _merge_neighbours(symbols: Symbols, pair: Pair) -> list[str]:
    """Go through pairs, of which there is one fewer than symbols."""
    return [a + b if (a, b) == pair else a for a, b in pairwise(symbols)]


def _merge_looking_back(symbols: Symbols, pair: Pair) -> list[str]:
    """Compare with the symbol before, though it may be used up."""
    merged: list[str] = []
    before = ""
    for symbol in symbols:
        if (before, symbol) == pair:
            merged[-1] = pair[0] + pair[1]
        else:
            merged.append(symbol)
        before = symbol
    return merged


def _merge_by_index(symbols: Symbols, pair: Pair) -> list[str]:
    """Look for the pair's first symbol with `index`, and stop where it stands alone."""
    merged = list(symbols)
    while pair[0] in merged:
        i = merged.index(pair[0])
        if merged[i + 1 : i + 2] != [pair[1]]:
            break
        merged[i : i + 2] = [pair[0] + pair[1]]
    return merged


def _merge_beginning(symbols: Symbols, pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        step = 1
        if i + 1 < len(symbols) and symbols[i] == pair[0] and symbols[i + 1].startswith(pair[1]):
            step = 2
        merged.append("".join(symbols[i : i + step]))
        i += step
    return merged


def _merge_on_one_symbol(symbols: Symbols, pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        found = symbols[i] == pair[0]
        merged.append(pair[0] + pair[1] if found else symbols[i])
        i += 2 if found else 1
    return merged


def _merge_without_else(symbols: Symbols, pair: Pair, error: bool = False) -> list[str]:
    """After a merge put the next symbol in as well, whatever it is."""
    merged, i = [], 0
    while i < len(symbols):
        if symbols[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        if error or i < len(symbols):
            merged.append(symbols[i])
        i += 1
    return merged


def _merge_dropping_the_second(symbols: Symbols, pair: Pair) -> list[str]:
    """Leave out every symbol that ends a pair, though it may begin another."""
    merged = []
    for i, symbol in enumerate(symbols):
        if symbols[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
        elif i == 0 or (symbols[i - 1], symbol) != pair:
            merged.append(symbol)
    return merged


def _merge_every_second(symbols: Symbols, pair: Pair) -> list[str]:
    merged: list[str] = []
    for i in range(0, len(symbols), 2):
        two = symbols[i : i + 2]
        merged += ["".join(two)] if two == pair else two
    return merged


def _merge_not_the_last(symbols: Symbols, pair: Pair) -> list[str]:
    if len(symbols) < 2:
        return list(symbols)
    return [*_merge(symbols[:-1], pair), symbols[-1]]


def _merge_last(symbols: Symbols, pair: Pair) -> list[str]:
    places = [i for i in range(len(symbols) - 1) if symbols[i : i + 2] == pair]
    if not places:
        return list(symbols)
    return [*symbols[: places[-1]], pair[0] + pair[1], *symbols[places[-1] + 2 :]]


def _merge_with_remove(symbols: Symbols, pair: Pair) -> list[str]:
    """Take the second symbol out with `remove`, which finds the first that is equal."""
    merged = list(symbols)
    for i, symbol in enumerate(merged):
        if i + 1 < len(merged) and (symbol, merged[i + 1]) == pair:
            merged.remove(pair[1])
            merged[i] = pair[0] + pair[1]
    return merged


_MERGE_WRONG = [
    Misconception(
        name="the second half stays",
        wrong=_merge_step_of_one,
        hint="After a merge your loop goes on with the second symbol of the pair, which is part "
        "of the new one by then. In a `for` loop an `i += 1` changes nothing. → By how many "
        "places should the loop go on after a merge, and which kind of loop can do so?",
    ),
    Misconception(
        name="only the first one",
        wrong=_merge_first,
        hint="You merge the first occurrence and leave the others as they are. → What should "
        "the function do after a merge, in place of returning?",
    ),
    Misconception(
        name="from right to left",
        wrong=_merge_from_the_right,
        valid_variant=True,
        hint="this exercise uses left to right where pairs overlap: a a a a a becomes aa aa a, "
        "and you make a aa aa of it. → At which end should the search begin?",
    ),
    Misconception(
        name="replaced in text with spaces",
        wrong=_merge_by_replace,
        hint="You join the symbols with something between them and replace text. But hu and g "
        "are also found where hu is followed by gs, or chu by g, whose symbols are others. → Which "
        "comparison sees where a symbol begins and ends?",
    ),
    Misconception(
        name="spaces put around it in the joined text",
        wrong=_merge_spaced_and_split,
        hint="You join the symbols to one text, set the new symbol apart in it and split there, so "
        "that all others run together: g g u n becomes ggun. → How would the borders between the "
        "other symbols survive?",
    ),
    Misconception(
        name="the list shrinks under the loop",
        wrong=_merge_shrinking,
        hint="Your list gets shorter with every merge, but `range` was told its length before "
        "the first one: near the end there's nothing left at that index. → Which kind of loop "
        "asks for the length anew at every step?",
    ),
    Misconception(
        name="found in the joined text",
        wrong=_merge_text_recut,
        hint="You look for the pair's text in the word's text, and cut all the rest into "
        "characters again: earlier merges are undone. → What should be compared with the pair, "
        "characters or symbols?",
    ),
    Misconception(
        name="cut into characters again",
        wrong=_merge_recut,
        hint="You join the symbols and go through single characters, so that longer symbols are "
        "cut up again, and a pair of longer ones is never found. → What does a loop over the "
        "tuple itself give?",
    ),
    Misconception(
        name="whatever spells the same",
        wrong=_merge_spelled,
        hint="You merge any two symbols that spell what the pair spells: h ug in place of hu g. → "
        "With what should each of the two symbols be compared?",
    ),
    Misconception(
        name="the last symbol is lost",
        wrong=_merge_tail_lost,
        hint="Your loop stops before the last symbol, since no pair can begin there. But it still "
        "belongs to the word. → What happens to a last symbol that wasn't merged?",
    ),
    Misconception(
        name="the last symbol always added",
        wrong=_merge_tail_doubled,
        hint="After the loop you always add the last symbol, even if it was merged just before. → "
        "When is the last symbol still missing after your loop?",
    ),
    Misconception(
        name="past the end",
        wrong=_merge_past_the_end,
        hint="You ask for the symbol after the last one: that happens where a word ends with the "
        "pair's first symbol. → What does a slice of two symbols give at the end of a tuple, in "
        "place of an error?",
    ),
    Misconception(
        name="a symbol for each pair of neighbours",
        wrong=_merge_neighbours,
        hint="You go through pairs of neighbours and keep one symbol for each. There is one pair "
        "fewer than symbols, and the second half of a merged pair begins the next one. → Which "
        "symbols of the word does your result hold twice, and which not at all?",
    ),
    Misconception(
        name="looking back at what is used up",
        wrong=_merge_looking_back,
        hint="You compare each symbol with the one before it in the word. In a a a the second a "
        "is used up by the first merge, and can't be half of another. → What stands last in your "
        "*result* when the next symbol comes?",
    ),
    Misconception(
        name="looked for with index",
        wrong=_merge_by_index,
        hint="You look for the pair's first symbol, and end where it isn't followed by the second. "
        "Behind that place there may be more. → Where should the search go on after a symbol that "
        "stands alone?",
    ),
    Misconception(
        name="in either order",
        wrong=_merge_either,
        hint="You merge the two symbols in either order, g u as well as u g. → Which of the two "
        "has to stand on the left?",
    ),
    Misconception(
        name="both are members",
        wrong=_merge_members,
        hint="You ask whether both symbols occur in the pair, so that u u, g g and g u are merged "
        "as well. → Which symbol of the pair has to equal the left one, and which the right one?",
    ),
    Misconception(
        name="the pair put in as a tuple",
        wrong=_merge_kept,
        hint="You put the pair itself, a tuple, in the place of its two symbols. → What does `+` "
        "make of two strings?",
    ),
    Misconception(
        name="joined with a space",
        wrong=_merge_spaced,
        hint="Your new symbol has a space inside. A symbol is a piece of the text, and there's no "
        "space in it here. → What does `+` make of two strings?",
    ),
    Misconception(
        name="joined into one string",
        wrong=lambda symbols, pair: " ".join(_merge(symbols, pair)),
        hint="You return one string with spaces in it, where the symbols are asked for one by "
        "one. → What does the docstring say that the function returns?",
    ),
    Misconception(
        name="only the new symbols",
        wrong=_merge_pairs_only,
        hint="You return only what was merged, and the word's other symbols are gone. → What "
        "should happen to a symbol that isn't part of the pair?",
    ),
    Misconception(
        name="nothing is kept",
        wrong=lambda symbols, pair: symbols,
        hint="The word comes back as it was, and no merge is in your result. Usual causes: a list "
        "is compared with a tuple, and they're never equal; the place isn't looked at; the new "
        "symbol isn't kept, or both halves are put back. → What do you compare with `pair` at the "
        "place where it stands, and what is kept there?",
    ),
    Misconception(
        name="single characters come out",
        wrong=lambda symbols, pair: list("".join(symbols)),
        hint="Your result is the word's single characters. `+=` with a string puts its characters "
        "into a list one by one, and `tuple` or `list` of a string takes it apart. → What "
        "does `append` do with a string, as against `+=`?",
    ),
    Misconception(
        name="what only begins like the second symbol",
        wrong=_merge_beginning,
        hint="You also merge where the symbol on the right only begins with the pair's second "
        "one: hu gs. → With what should the whole symbol on the right be equal?",
    ),
    Misconception(
        name="the first symbol decides",
        wrong=_merge_on_one_symbol,
        hint="You merge wherever the pair's first symbol stands, whatever comes behind it. → What "
        "must be true of the second symbol as well?",
    ),
    Misconception(
        name="no look at the symbol behind a merge",
        wrong=_merge_without_else,
        hint="The symbol behind a merge isn't looked at, though it may begin the next pair: "
        "banana. Either it goes into the result in the same round, or, where text is "
        "replaced, the space that two occurrences share is used up by the first. → Which "
        "symbols has your loop looked at when it goes on behind a merge?",
    ),
    Misconception(
        name="no look at the symbol behind a merge, past the end",
        wrong=lambda symbols, pair: _merge_without_else(symbols, pair, error=True),
        hint="After a merge you go on to add the next symbol in the same round, and at the end of "
        "the word there's none. → What belongs into an `else`?",
    ),
    Misconception(
        name="what ends a pair left out",
        wrong=_merge_dropping_the_second,
        hint="You decide for each symbol by itself whether it begins or ends a pair. In a a a a a "
        "the second one does both, so that you merge it twice. → How does your loop know "
        "that a symbol is used up?",
    ),
    Misconception(
        name="every second place",
        wrong=_merge_every_second,
        hint="You look at places 0, 2, 4 … only, so that a pair which begins at an odd place "
        "isn't seen. → By how many places should the loop go on where there was no merge?",
    ),
    Misconception(
        name="the last two symbols not looked at",
        wrong=_merge_not_the_last,
        hint="A pair that ends the word isn't merged: your loop stops one place too early. → "
        "Which is the last place at which a pair can begin in a word of n symbols?",
    ),
    Misconception(
        name="only the last one",
        wrong=_merge_last,
        hint="You merge the last occurrence and leave the others as they are. → How many places "
        "does your function keep in mind?",
    ),
    Misconception(
        name="taken out with remove",
        wrong=_merge_with_remove,
        hint="You take the pair's second symbol out with `remove`, which takes the first that is "
        "equal, wherever it stands. → How is a symbol deleted by its place?",
    ),
    Misconception(
        name="joined in the wrong order",
        wrong=lambda symbols, pair: [
            pair[1] + pair[0] if s == pair[0] + pair[1] and s not in symbols else s
            for s in _merge(symbols, pair)
        ],
        hint="Your new symbol has its halves in the wrong order. → Which of the two stands on the "
        "left in the word?",
    ),
    Misconception(
        name="each symbol of the pair replaced",
        wrong=lambda symbols, pair: [pair[0] + pair[1] if s in pair else s for s in symbols],
        hint="You put the new symbol in the place of every symbol that occurs in the pair, alone "
        "or not: u g gives ug ug. → How many symbols should become one?",
    ),
]


def _merge_slices(symbols: Symbols, pair: Pair) -> Any:
    out = list(symbols)
    i = 0
    while i < len(out) - 1:
        if (out[i], out[i + 1]) == pair:
            out[i : i + 2] = ["".join(pair)]
        i += 1
    return out


def _merge_recursive(symbols: Symbols, pair: Pair) -> Any:
    if len(symbols) < 2:
        return list(symbols)
    if symbols[:2] == pair:
        return [symbols[0] + symbols[1], *_merge_recursive(symbols[2:], pair)]
    return [symbols[0], *_merge_recursive(symbols[1:], pair)]


def _merge_skip(symbols: Symbols, pair: Pair) -> Any:
    out: list[str] = []
    skip = False
    for i, symbol in enumerate(symbols):
        if skip:
            skip = False
        elif i + 1 < len(symbols) and symbol == pair[0] and symbols[i + 1] == pair[1]:
            out.append(symbol + symbols[i + 1])
            skip = True
        else:
            out.append(symbol)
    return np.array(out)


_MERGE_PAIR = Exercise(
    id="03.merge_pair",
    function="merge_pair",
    reference=bpe.merge_pair,
    cases=_MERGE_CASES,
    returns=("symbols",),
    misconceptions=_MERGE_WRONG,
    alternatives=[
        Alternative(name="slices of a list", right=_merge_slices),
        Alternative(name="recursion", right=_merge_recursive),
        Alternative(name="a flag, as an array of text", right=_merge_skip),
    ],
    hints=[
        "Walk through the symbols with a place `i`. There are two things that can be there: the "
        "pair, or any other symbol. What is kept, and how far do you go on, in each of the two?",
        "A `while` loop lets you go on by two after a merge and by one otherwise. `symbols[i:i + "
        "2]` is shorter at the end, and raises nothing.",
        "Collect in a new list: `pair[0] + pair[1]` where `symbols[i:i + 2] == pair`, else "
        "`symbols[i]`. A tuple equals a tuple.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
    time_limit=5.0,
    if_too_slow="A `while` loop over places ends only if every round moves on. → By how many "
    "places does yours move on after a merge, and by how many otherwise?",
)


# -- 03.train --------------------------------------------------------------------------------------


def train_bpe(words: dict[str, int], n_merges: int) -> list[tuple[str, str]]:
    """Learn merges from words and how often they occur; of equals, the pair that is met first.

    Parameters
    ----------
    words : dict of str to int
    n_merges : int

    Returns
    -------
    list of pairs of str
        In the order in which they are learned; fewer than `n_merges` where pairs run out.
    """
    return bpe.train_naive(words, n_merges)


def _random_words(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 33])
    words: dict[str, int] = {"cabab": 3, "abcab": 3, "aabb": 2, "bcaabc": 2}
    while len(words) < 16:
        words[_letters(rng, 7)] = int(rng.integers(1, 9))
    return {"words": words, "n_merges": 14}


_TRAIN_CASES = [
    Case(
        name="the chapter's words, one merge",
        inputs={"words": CORPUS, "n_merges": 1},
        shows="the most frequent pair",
    ),
    Case(
        name="the chapter's words, four merges",
        inputs={"words": CORPUS, "n_merges": 4},
        shows="a merge changes the counts",
    ),
    Case(
        name="equally frequent pairs",
        inputs={"words": {"pq": 3, "mn": 3, "zab": 3, "zy": 3}, "n_merges": 2},
        shows="the one that is met first wins",
    ),
    Case(
        name="xa by za bw",
        inputs={"words": {"xa": 1, "by": 1, "za": 1, "bw": 1}, "n_merges": 1},
        shows="no pair reaches across words",
    ),
    Case(
        name="pairs that overlap, and pairs twice in a word",
        inputs={"words": {"bc": 2, "aaaa": 1, "aaad": 2, "xyxyzxy": 2}, "n_merges": 4},
        shows="every place counts; merges go from left to right",
    ),
    Case(
        name="more merges than pairs",
        inputs={"words": {"ca": 9, "bc": 8, "ab": 5, "cabc": 1, "c": 4}, "n_merges": 9},
        shows="training ends early",
    ),
    Case(name="sixteen drawn words, 14 merges", inputs=_random_words),
]


def _characters(words: dict[str, int]) -> list[tuple[Any, int]]:
    return [(tuple(word), n) for word, n in words.items()]


Counting = Callable[[list[tuple[Any, int]]], dict[Any, int]]


def _count_in(
    pairs_of: Callable[[Sequence[Any]], Iterable[Any]] = _adjacent,
    amount: Callable[[int], int] = lambda n: n,
) -> Counting:
    def count(cut: list[tuple[Any, int]]) -> dict[Any, int]:
        counts: dict[Any, int] = {}
        for symbols, n in cut:
            for pair in pairs_of(symbols):
                counts[pair] = counts.get(pair, 0) + amount(n)
        return counts

    return count


_count_all = _count_in()


def _count_across(cut: list[tuple[Any, int]]) -> dict[Any, int]:
    text = [symbol for symbols, n in cut for _ in range(n) for symbol in symbols]
    return dict(Counter(pairwise(text)))


def _first(counts: dict[Any, int]) -> Any:
    return max(counts, key=lambda pair: counts[pair])


def _last(counts: dict[Any, int]) -> Any:
    best = None
    for pair, n in counts.items():
        if best is None or n >= counts[best]:
            best = pair
    return best


def _trained(
    *,
    count: Counting = _count_all,
    pick: Callable[[dict[Any, int]], Any] = _first,
    merge: Callable[[Any, Pair], Any] = _merge,
    cut: Callable[[dict[str, int]], list[tuple[Any, int]]] = _characters,
    least: int = 1,
    total: Callable[[dict[str, int], int], int] = lambda words, n_merges: n_merges,
    ends: bool = True,
    finish: Callable[[list[Pair], Any], Any] = lambda merges, cut: merges,
) -> Callable[[dict[str, int], int], Any]:
    """Return the trainer with some steps replaced."""

    def train(words: dict[str, int], n_merges: int) -> Any:
        pieces = cut(words)
        merges: list[Pair] = []
        for _ in range(total(words, n_merges)):
            counts = count(pieces)
            if ends and not counts:
                break
            pair = pick(counts)
            if counts[pair] < least:
                break
            pieces = [(merge(symbols, pair), n) for symbols, n in pieces]
            merges.append(pair)
        return finish(merges, pieces)

    return train


def _counted_once(words: dict[str, int], n_merges: int) -> list[Pair]:
    counts = _count_in()([(tuple(word), n) for word, n in words.items()])
    return sorted(counts, key=lambda pair: -counts[pair])[:n_merges]


def _of_running_text(words: dict[str, int], n_merges: int) -> list[Pair]:
    text = " ".join(words)
    return [pair for pair, _ in Counter(pairwise(text)).most_common(n_merges)]


def _with_characters(merges: list[Pair], cut: list[tuple[Symbols, int]]) -> list[str]:
    return sorted({symbol for symbols, _ in cut for symbol in symbols})


def _best_and_count(words: dict[str, int], n_merges: int) -> list[Any]:
    cut: list[tuple[Any, int]] = [(tuple(word), n) for word, n in words.items()]
    learned = []
    for _ in range(n_merges):
        counts = _count_in()(cut)
        if not counts:
            break
        pair = _first(counts)
        learned.append((pair, counts[pair]))
        cut = [(_merge(symbols, pair), n) for symbols, n in cut]
    return learned


def _train_changing(words: dict[str, int], n_merges: int) -> list[Pair]:
    merges = _trained()(words, n_merges)
    for word in list(words):
        cut: Any = tuple(word)
        for pair in merges:
            cut = _merge(cut, pair)
        words[cut] = words.pop(word)
    return merges


def _train_adding_up(words: dict[str, int], n_merges: int) -> list[Pair]:
    cut: list[tuple[Any, int]] = _characters(words)
    counts: dict[Pair, int] = {}
    merges: list[Pair] = []
    for _ in range(n_merges):
        for pair, n in _count_all(cut).items():
            counts[pair] = counts.get(pair, 0) + n
        if not counts:
            break
        merges.append(_first(counts))
        cut = [(_merge(symbols, merges[-1]), n) for symbols, n in cut]
    return merges


def _train_empty_at_the_end(words: dict[str, int], n_merges: int) -> list[Pair]:
    merges = _trained()(words, n_merges)
    return merges if len(merges) == n_merges else []


def _train_by_text(words: dict[str, int], n_merges: int) -> list[Pair]:
    """Count all that the known symbols can spell, in words that are never cut."""
    known, merges = list(dict.fromkeys("".join(words))), []
    for _ in range(n_merges):
        counts = {
            (a, b): sum(n * word.count(a + b) for word, n in words.items())
            for a in known
            for b in known
            if a + b not in known
        }
        if not any(counts.values()):
            break
        merges.append(_first(counts))
        known.append("".join(merges[-1]))
    return merges


_TRAIN_WRONG = [
    Misconception(
        name="of equals, the greatest",
        wrong=_trained(pick=lambda counts: max(counts, key=lambda p: (counts[p], p))),
        valid_variant=True,
        hint="this exercise uses the pair that is met first among equally frequent ones; you take "
        "the one that comes last in the alphabet. → Does your `max` compare anything but the "
        "counts?",
    ),
    Misconception(
        name="of equals, the smallest",
        wrong=_trained(pick=lambda counts: min(counts, key=lambda p: (-counts[p], p))),
        valid_variant=True,
        hint="this exercise uses the pair that is met first among equally frequent ones; you take "
        "the one that comes first in the alphabet. → What are the pairs compared by, but their "
        "counts?",
    ),
    Misconception(
        name="of equals, the last met",
        wrong=_trained(pick=_last),
        valid_variant=True,
        hint="this exercise uses the pair that is met first among equally frequent ones; you take "
        "the last, as `>=` or a sort that isn't reversed does. → When should a later pair "
        "replace the best one so far?",
    ),
    Misconception(
        name="words sorted first",
        wrong=_trained(cut=lambda words: [(tuple(word), n) for word, n in sorted(words.items())]),
        valid_variant=True,
        hint="this exercise uses the words in the order of the dictionary; you sort them first, "
        "so that another pair is met first. → Which line changes the order of the words?",
    ),
    Misconception(
        name="every word counts once",
        wrong=_trained(count=_count_in(amount=lambda n: 1)),
        hint="You learn from the words as if each occurred once: hug stands for ten words of the "
        "text. → By how much does a pair's count grow when a word that occurs n times holds it?",
    ),
    Misconception(
        name="pairs across words",
        wrong=_trained(count=_count_across),
        hint="You count pairs across the words' borders, and they win: in xa by za bw that's a b. "
        "No merge may reach from one word into the next. → What should the loop over pairs run "
        "over?",
    ),
    Misconception(
        name="overlapping pairs counted once",
        wrong=_trained(count=_count_in(_without_overlap)),
        valid_variant=True,
        hint="this exercise uses every place where two symbols stand side by side, so that aaaa "
        "holds a a three times; you count the merges that there is room for. → How many "
        "neighbours are there in a word of four symbols?",
    ),
    Misconception(
        name="each pair once a word",
        wrong=_trained(count=_count_in(lambda symbols: dict.fromkeys(pairwise(symbols)))),
        hint="A pair that stands in a word more than once is counted once: aaaa holds a a at "
        "three places. → Does a set of pairs know how often each was there?",
    ),
    Misconception(
        name="counted at the start only",
        wrong=_counted_once,
        hint="Your merges are the most frequent pairs of the words as they were at the start. But "
        "a merge makes new pairs, such as h ug, and takes from others. → What has to be done "
        "again before each merge, and with which words?",
    ),
    Misconception(
        name="the most frequent pairs of a text, spaces and all",
        wrong=_of_running_text,
        hint="You count the pairs of one text once, spaces among them, and take the most frequent. "
        "That leaves out how often a word occurs, and that every merge changes the counts. → What "
        "are the words after the first merge, and which pairs do they hold then?",
    ),
    Misconception(
        name="the greatest pair in the place of the most frequent",
        wrong=_trained(pick=max),
        hint="You take the pair that comes last in the alphabet: `max` of a dictionary compares "
        "its keys. → How can `max` be told to compare the counts?",
    ),
    Misconception(
        name="the words are never merged",
        wrong=_trained(merge=lambda symbols, pair: symbols),
        hint="You find the same pair again and again: the words are still cut as they were at the "
        "start. → Where does the result of a merge go?",
    ),
    Misconception(
        name="the rarest pair",
        wrong=_trained(pick=lambda counts: min(counts, key=lambda p: counts[p])),
        hint="You merge the rarest pair first. Pieces are to stand for what is frequent, so that "
        "text gets short. → Which pair has the largest count?",
    ),
    Misconception(
        name="joined strings",
        wrong=_trained(finish=lambda merges, cut: [a + b for a, b in merges]),
        hint="You return the new symbols, two symbols run together. An encoder needs to know of "
        "what two each was made: hug could be h ug or hu g. → What stands in the list that the "
        "docstring shows?",
    ),
    Misconception(
        name="the vocabulary",
        wrong=_trained(finish=_with_characters),
        hint="You return symbols that are in use at the end. The merges are asked for, in the "
        "order in which they were learned: that order is the model. → What should be added to "
        "the result at each round?",
    ),
    Misconception(
        name="pairs with their counts",
        wrong=_best_and_count,
        hint="You return each pair with its count. Only the pairs are asked for; an encoder needs "
        "their order alone. → What stands in the list that the docstring shows?",
    ),
    Misconception(
        name="one merge too few",
        wrong=_trained(total=lambda words, n_merges: n_merges - 1),
        hint="One merge is missing at the end, wherever there are enough pairs. → How often does "
        "your loop run if n_merges is 1?",
    ),
    Misconception(
        name="one merge too many",
        wrong=_trained(total=lambda words, n_merges: n_merges + 1),
        hint="You learn one merge more than asked for, wherever there are enough pairs. → How "
        "often does your loop run if n_merges is 1?",
    ),
    Misconception(
        name="until no pair is left",
        wrong=_trained(total=lambda words, n_merges: 10**6),
        hint="You go on until no pair is left, however many merges were asked for: every word ends "
        "as one symbol. → What should your loop count?",
    ),
    Misconception(
        name="n_merges as the size of the vocabulary",
        wrong=_trained(total=lambda words, n_merges: n_merges - len(set("".join(words)))),
        hint="You stop when the characters and the merges together are n_merges: that's the size "
        "of a vocabulary. Here it is the number of merges. → What should your loop count?",
    ),
    Misconception(
        name="no merge of what occurs once",
        wrong=_trained(least=2),
        valid_variant=True,
        hint="this exercise uses every pair, even one that occurs once, until there's none left; "
        "you stop before pairs with a count of 1. → When does the docstring let training end "
        "early?",
    ),
    Misconception(
        name="no end where pairs run out",
        wrong=_trained(ends=False),
        hint="When every word is one symbol there are no pairs left, and the largest of no counts "
        "is an error. → What should the loop do when the counts are empty?",
    ),
    Misconception(
        name="only the first one in a word merged",
        wrong=_trained(merge=_merge_first),
        hint="In each word you merge the pair's first occurrence only, so that it may come up "
        "again in the next round. → What does your merge do with a second occurrence?",
    ),
    Misconception(
        name="the second half stays",
        wrong=_trained(merge=_merge_step_of_one),
        hint="After a merge the pair's second symbol is still there as well: words grow where "
        "they should get shorter. → By how many places should the loop go on after a merge?",
    ),
    Misconception(
        name="replaced in text with spaces",
        wrong=_trained(merge=_merge_by_replace),
        hint="You merge by replacing text in symbols that are joined with spaces. Then the pair "
        'is also found across the borders of longer symbols: "a b" in "ca bc". → Which comparison '
        "sees where a symbol begins and ends?",
    ),
    Misconception(
        name="from right to left",
        wrong=_trained(merge=_merge_from_the_right),
        valid_variant=True,
        hint="this exercise uses left to right where pairs overlap: a a a becomes aa a, and you "
        "make a aa of it. → At which end of a word should a merge begin?",
    ),
    Misconception(
        name="an end-of-word mark",
        wrong=_trained(
            cut=lambda words: [((*word, "</w>"), n) for word, n in words.items()],
        ),
        valid_variant=True,
        hint="this exercise uses words without a mark at their end. You add one, as the paper of "
        "2015 does, and it's counted and merged like a letter. → What are the symbols of hug "
        "before the first merge?",
    ),
    Misconception(
        name="the caller's words are changed",
        wrong=_train_changing,
        hint="The merges are right, but the caller's dictionary holds other keys afterwards: you "
        "keep the cut words in it. → Which line changes `words` itself?",
    ),
    Misconception(
        name="one text with spaces",
        wrong=_trained(
            cut=lambda words: [(tuple(" ".join(w for w, n in words.items() for _ in range(n))), 1)]
        ),
        hint="You learn from one text with spaces in it, so that the space is counted and merged "
        "like a letter, and pairs reach across words. → Over what should the loop that "
        "counts pairs run, and does the result hold a pair with a space?",
    ),
    Misconception(
        name="one text with spaces, every word once",
        wrong=_trained(cut=lambda words: [(tuple(" ".join(words)), 1)]),
        hint="You join the words to one text with spaces and learn from that: the space is merged "
        "like a letter, and how often a word occurs plays no part. → Over what should the "
        "loop that counts pairs run, and where does a word's count come in?",
    ),
    Misconception(
        name="one text without spaces, every word once",
        wrong=_trained(cut=lambda words: [(tuple("".join(words)), 1)]),
        hint="You run all words together, each once: pairs reach from one word into the next, and "
        "how often a word occurs plays no part. → Over what should the loop that counts "
        "pairs run?",
    ),
    Misconception(
        name="a space at the end of each word",
        wrong=_trained(cut=lambda words: [((*word, " "), n) for word, n in words.items()]),
        valid_variant=True,
        hint="this exercise uses the words as they are; you put a space behind each, and it's "
        "counted and merged like a letter. → What are the symbols of hug before the first "
        "merge?",
    ),
    Misconception(
        name="a space before each word",
        wrong=_trained(cut=lambda words: [((" ", *word), n) for word, n in words.items()]),
        valid_variant=True,
        hint="this exercise uses the words as they are; you put a space before each, as "
        "byte-level tokenizers have it, and it's counted and merged like a letter. → What "
        "are the symbols of hug before the first merge?",
    ),
    Misconception(
        name="an end-of-word mark on the last letter",
        wrong=_trained(
            cut=lambda words: [((*word[:-1], word[-1] + "</w>"), n) for word, n in words.items()]
        ),
        valid_variant=True,
        hint="this exercise uses words without a mark at their end. You add one to the last "
        "letter. → What are the symbols of hug before the first merge?",
    ),
    Misconception(
        name="from the last to the first",
        wrong=_trained(finish=lambda merges, cut: merges[::-1]),
        hint="Your merges are in reverse order, the last learned first. → At which end of the "
        "list should a new pair be added?",
    ),
    Misconception(
        name="cut into characters again",
        wrong=_trained(merge=lambda symbols, pair: _merge("".join(symbols), pair)),
        hint="Every round begins with single characters again, so that only the last merge is in "
        "the words. → From what should a round go on, from characters or from what the "
        "merges before have made?",
    ),
    Misconception(
        name="counts that go on",
        wrong=_train_adding_up,
        hint="Your counts are never cleared: the pairs of earlier rounds are still in them, with "
        "symbols that are merged by now. → Where should the empty dictionary of counts be "
        "made, before the loop or in it?",
    ),
    Misconception(
        name="nothing where pairs run out",
        wrong=_train_empty_at_the_end,
        hint="Where the pairs run out, your function returns an empty list, and what it had "
        "learned is lost. → What should happen when the counts are empty, `return []` or the "
        "end of the loop?",
    ),
    Misconception(
        name="one round only",
        wrong=_trained(total=lambda words, n_merges: min(n_merges, 1)),
        hint="You learn one merge, however many were asked for. → How far must `return` be "
        "indented to come after the loop?",
    ),
    Misconception(
        name="text counted in the words",
        wrong=_train_by_text,
        hint="You count how often a pair's text occurs in the words, so that symbols which a "
        "merge has used up are counted on. → Of which symbols does a word consist after the "
        "first merge?",
    ),
    Misconception(
        name="of equals, the longest",
        wrong=_trained(
            pick=lambda counts: max(counts, key=lambda p: (counts[p], len(p[0] + p[1])))
        ),
        valid_variant=True,
        hint="this exercise uses the pair that is met first among equally frequent ones; you take "
        "the longest of them. → What are the pairs compared by, but their counts?",
    ),
    Misconception(
        name="of equals, the shortest",
        wrong=_trained(
            pick=lambda counts: max(counts, key=lambda p: (counts[p], -len(p[0] + p[1])))
        ),
        valid_variant=True,
        hint="this exercise uses the pair that is met first among equally frequent ones; you take "
        "the shortest of them. → What are the pairs compared by, but their counts?",
    ),
]


def _train_tuples(words: dict[str, int], n_merges: int) -> Any:
    cut = {tuple(word): n for word, n in words.items()}
    merges: list[Pair] = []
    while len(merges) < n_merges:
        counts: Counter[Pair] = Counter()
        for symbols, n in cut.items():
            for pair in pairwise(symbols):
                counts[pair] += n
        if not counts:
            break
        best = counts.most_common(1)[0][0]
        cut = {_merge(symbols, best): n for symbols, n in cut.items()}
        merges.append(best)
    return tuple(merges)


def _train_lists(words: dict[str, int], n_merges: int) -> Any:
    """Sort stably, merge in place, and return lists for pairs."""
    cut = [(list(word), n) for word, n in words.items()]
    merges: list[Any] = []
    for _ in range(n_merges):
        met: list[Pair] = []
        counts: dict[Pair, int] = {}
        for symbols, n in cut:
            for pair in pairwise(symbols):
                if pair not in counts:
                    met.append(pair)
                    counts[pair] = 0
                counts[pair] += n
        if not met:
            return merges
        left, right = sorted(met, key=lambda pair: counts[pair], reverse=True)[0]
        for symbols, _n in cut:
            i = 0
            while i + 1 < len(symbols):
                if symbols[i] == left and symbols[i + 1] == right:
                    symbols[i] += symbols.pop(i + 1)
                i += 1
        merges.append([left, right])
    return merges


def _train_kept_counts(words: dict[str, int], n_merges: int) -> Any:
    """Look for the best pair with a loop and `>`."""
    cut = [(tuple(word), n) for word, n in words.items()]
    merges: list[Pair] = []
    for _ in range(n_merges):
        counts: dict[Pair, int] = {}
        for symbols, n in cut:
            for i in range(len(symbols) - 1):
                pair = (symbols[i], symbols[i + 1])
                counts[pair] = counts.get(pair, 0) + n
        best, most = None, 0
        for pair, n in counts.items():
            if n > most:
                best, most = pair, n
        if best is None:
            break
        merges.append(best)
        cut = [(tuple(_merge_slices(symbols, best)), n) for symbols, n in cut]
    return merges


_TRAIN = Exercise(
    id="03.train",
    function="train_bpe",
    reference=train_bpe,
    guarded=(bpe.train, bpe.train_naive),
    cases=_TRAIN_CASES,
    returns=("merges",),
    misconceptions=_TRAIN_WRONG,
    alternatives=[
        Alternative(name="a dictionary of tuples", right=_train_tuples),
        Alternative(name="lists, merged in place", right=_train_lists),
        Alternative(name="a loop for the best", right=_train_kept_counts),
    ],
    hints=[
        "Cut every word into its characters. One round is: count all pairs, take the most "
        "frequent, merge it in every word, write it down. Your two functions from above do most "
        "of it.",
        "Keep the words as a list of (symbols, count) in their order, and make a new list at each "
        "round. Count anew after each merge, and stop when the counts are empty.",
        "A dictionary keeps the order in which its keys came, and `max(counts, key=counts.get)` "
        "gives the first of equals: that is the rule for ties.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
    time_limit=5.0,
    if_too_slow="The checks need few rounds, so one of your loops doesn't notice that its work is "
    "done. → What should happen in a round in which no word has a pair left?",
)


# -- 03.segment ------------------------------------------------------------------------------------


def segment(word: str, merges: list[Pair]) -> list[str]:
    """Cut a word as merges say, the lowest rank first, until no learned pair is left.

    Parameters
    ----------
    word : str
    merges : list of pairs of str
        In the order in which they were learned.

    Returns
    -------
    list of str
    """
    return list(bpe.apply_merges(word, merges))


# In abc and klm the pair on the right was learned first, in fed and ghi the one on the left. Which
# of these go wrong tells apart the leftmost pair, the rightmost, the first of the alphabet, the
# most frequent and so on.
_SHARED = [
    *[("b", "c"), ("f", "e"), ("g", "h"), ("a", "b"), ("e", "d"), ("h", "i")],
    *[("l", "m"), ("k", "lm"), ("k", "l"), ("n", "o"), ("p", "q"), ("no", "p")],
]


def _random_segment(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 34])
    words = {_letters(rng, 8): int(rng.integers(1, 9)) for _ in range(20)}
    word = "".join(rng.choice(list("abc"), size=14)) + "aaacbab"
    return {"word": word, "merges": bpe.train_naive(words, 9)}


_SEGMENT_CASES = [
    Case(
        name="hugs",
        inputs={"word": "hugs", "merges": MERGES},
        shows="a merge may use what another has made",
    ),
    Case(
        name="bugs, a new word",
        inputs={"word": "bugs", "merges": MERGES},
        shows="pieces of known words",
    ),
    Case(
        name="pairs that share a symbol",
        inputs={"word": "abc-fed-ghi-hi-klm-nopq", "merges": _SHARED},
        shows="the rank decides: not the place, not the alphabet",
    ),
    Case(
        name="a space, a hyphen, unknown letters",
        inputs={
            "word": " hug-gnugs",
            "merges": [*MERGES, ("g", "n"), (" ", "hug"), ("n", "ug")],
        },
        shows="all are symbols like any other",
    ),
    Case(
        name="seven equal characters",
        inputs={"word": "aaaaaaa", "merges": [("a", "a"), ("aa", "a")]},
        shows="the same pair at several places, from left to right",
    ),
    Case(
        name="two symbols that would spell a known piece",
        inputs={"word": "cab", "merges": [("a", "b"), ("c", "a"), ("ca", "b")]},
        shows="c ab isn't a pair of the list",
    ),
    Case(
        name="an early pair that comes late, in a list that no training makes",
        inputs={
            "word": "abcd-abcde",
            "merges": [("b", "c"), ("a", "b"), ("abc", "d"), ("a", "bc"), ("d", "e")],
        },
        shows="after each merge all of the list counts, until no pair of it is left",
    ),
    Case(name="a long drawn word", inputs=_random_segment),
]


def _by_rank(
    *,
    choose: Callable[[list[Pair], dict[Pair, int]], Pair] = lambda pairs, ranks: min(
        pairs, key=lambda pair: ranks[pair]
    ),
    merge: Callable[[Any, Pair], Any] = _merge,
    start: Callable[[str], Any] = tuple,
    rounds: int = 10**6,
    finish: Callable[[Any, list[Pair]], Any] = lambda symbols, merges: list(symbols),
) -> Callable[[str, list[Pair]], Any]:
    """Return the encoder with some steps replaced."""

    def cut(word: str, merges: list[Pair]) -> Any:
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        symbols = start(word)
        for _ in range(min(rounds, 40)):
            pairs = [pair for pair in pairwise(symbols) if pair in ranks]
            if not pairs:
                break
            symbols = merge(symbols, choose(pairs, ranks))
        return finish(symbols, merges)

    return cut


def _one_walk(word: str, merges: list[Pair]) -> list[str]:
    """Walk once from left to right and merge what can be merged on the way."""
    pieces: list[str] = []
    for character in word:
        pieces.append(character)
        if len(pieces) > 1 and (pieces[-2], pieces[-1]) in merges:
            pieces[-2:] = [pieces[-2] + pieces[-1]]
    return pieces


def _one_sweep(word: str, merges: list[Pair]) -> list[str]:
    """Walk once, join the pairs that are there at the start."""
    pieces, i = [], 0
    while i < len(word):
        if tuple(word[i : i + 2]) in merges:
            pieces.append(word[i : i + 2])
            i += 2
        else:
            pieces.append(word[i])
            i += 1
    return pieces


def _one_pass(word: str, merges: list[Pair]) -> list[str]:
    symbols: tuple[Any, ...] = tuple(word)
    for pair in merges:
        symbols = _merge(symbols, pair)
    return list(symbols)


def _shrinking_from_the_left(word: str, merges: list[Pair]) -> list[str]:
    pieces, again = list(word), True
    while again:
        again = False
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) in merges:
                pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
                again = True
    return pieces


def _shrinking_by_rank(word: str, merges: list[Pair]) -> list[str]:
    pieces = list(word)
    for pair in merges:
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) == pair:
                pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
    return pieces


def _one_pass_using_up(word: str, merges: list[Pair]) -> list[str]:
    symbols: tuple[Any, ...] = tuple(word)
    while merges:
        symbols = _merge(symbols, merges.pop(0))
    return list(symbols)


def _one_pass_backwards(word: str, merges: list[Pair]) -> list[str]:
    return _one_pass(word, merges[::-1])


def _one_pass_replacing(word: str, merges: list[Pair]) -> list[str]:
    symbols: Any = tuple(word)
    for pair in merges:
        symbols = _merge_by_replace(symbols, pair)
    return list(symbols)


def _longest_piece(word: str, merges: list[Pair]) -> list[str]:
    """Look up the longest known piece, as WordPiece does."""
    known = {a + b for a, b in merges}
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start + 1 and word[start:end] not in known:
            end -= 1
        pieces.append(word[start:end])
        start = end
    return pieces


def _by_spelling(word: str, merges: list[Pair]) -> list[str]:
    """Merge two symbols if what they spell together is a token."""
    ranks: dict[str, int] = {}
    for rank, (a, b) in enumerate(merges):
        ranks.setdefault(a + b, rank)
    symbols: Any = tuple(word)
    while True:
        pairs = [pair for pair in pairwise(symbols) if pair[0] + pair[1] in ranks]
        if not pairs:
            return list(symbols)
        symbols = _merge(symbols, min(pairs, key=lambda pair: ranks[pair[0] + pair[1]]))


def _unknown_first(word: str, merges: list[Pair]) -> list[str]:
    """Give a pair that was never learned the rank 0."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    symbols: Any = tuple(word)
    while len(symbols) > 1:
        symbols = _merge(symbols, min(pairwise(symbols), key=lambda pair: ranks.get(pair, 0)))
    return list(symbols)


def _not_in_list(word: str, merges: list[Pair]) -> list[str]:
    symbols: Any = tuple(word)
    while len(symbols) > 1:
        symbols = _merge(symbols, min(pairwise(symbols), key=merges.index))
    return list(symbols)


def _only_known(symbols: Any, merges: list[Pair]) -> list[str]:
    known = {part for pair in merges for part in (*pair, pair[0] + pair[1])}
    return [symbol for symbol in symbols if symbol in known]


def _learned_last(pairs: list[Pair], ranks: dict[Pair, int]) -> Pair:
    return max(pairs, key=lambda pair: ranks[pair])


def _replacing(before: str, between: str, until: bool = False) -> Callable[..., list[str]]:
    """Replace text in symbols with something between them, and maybe around each."""

    def cut(word: str, merges: list[Pair]) -> list[str]:
        text, last = before + between.join(word) + before, ""
        while text != last:
            last = text
            for a, b in merges:
                old = before + a + between + b + before
                text = text.replace(old, before + a + b + before)
            if not until:
                break
        return text.removeprefix(before).removesuffix(before).split(between)

    return cut


def _text_set_apart(word: str, merges: list[Pair]) -> list[str]:
    """Put spaces around what a merge makes, in the word's text."""
    for a, b in merges:
        word = word.replace(a + b, f" {a + b} ")
    return word.split()


def _pass_after_pass(word: str, merges: list[Pair]) -> list[str]:
    symbols: tuple[Any, ...] = tuple(word)
    last: tuple[Any, ...] | None = None
    while symbols != last:
        last = symbols
        for pair in merges:
            symbols = _merge(symbols, pair)
    return list(symbols)


def _one_pass_first_only(word: str, merges: list[Pair]) -> list[str]:
    symbols: tuple[Any, ...] = tuple(word)
    for pair in merges:
        symbols = _merge_first(symbols, pair)
    return list(symbols)


def _first_token_of_the_list(word: str, merges: list[Pair]) -> list[str]:
    """Take at each place the first token of the list that fits."""
    pieces, start = [], 0
    while start < len(word):
        fitting = [a + b for a, b in merges if word.startswith(a + b, start)]
        pieces.append(fitting[0] if fitting else word[start])
        start += len(pieces[-1])
    return pieces


def _pairs_of_the_start(word: str, merges: list[Pair]) -> list[str]:
    symbols: tuple[Any, ...] = tuple(word)
    for pair in merges:
        if pair in list(pairwise(word)):
            symbols = _merge(symbols, pair)
    return list(symbols)


def _last_token_of_the_list(word: str, merges: list[Pair]) -> list[str]:
    return _first_token_of_the_list(word, merges[::-1])


def _ends_with_one_pair(word: str, merges: list[Pair]) -> list[str]:
    symbols: tuple[Any, ...] = tuple(word)
    while True:
        found = [pair for pair in pairwise(symbols) if pair in merges]
        if len(found) < 2:
            return list(symbols)
        symbols = _merge(symbols, min(found, key=merges.index))


_SEGMENT_WRONG = [
    Misconception(
        name="from left to right",
        wrong=_by_rank(choose=lambda pairs, ranks: pairs[0], merge=_merge_first),
        hint="You merge the leftmost pair that was learned, whenever it was. The text was "
        "compressed in the order of the list, and a new word has to be cut likewise. → Which of "
        "the pairs in the word was learned first?",
    ),
    Misconception(
        name="the leftmost pair, wherever it stands",
        wrong=_by_rank(choose=lambda pairs, ranks: pairs[0]),
        hint="You take the leftmost pair that was learned and merge it in the whole word. Which "
        "one comes next is decided by the place, not by the list's order. → Which of the pairs in "
        "the word was learned first?",
    ),
    Misconception(
        name="one walk from left to right",
        wrong=_one_walk,
        hint="You walk through the word once and merge each character with what stands before it, "
        "if you can. Then the place decides, not the list's order. → Which of the pairs in the "
        "word was learned first?",
    ),
    Misconception(
        name="one walk over pairs of characters",
        wrong=_one_sweep,
        hint="You join pairs of characters on one walk through the word, and no merge ever uses "
        "what another one has made. → After u g has become ug, which pairs does the word have?",
    ),
    Misconception(
        name="the list once through",
        wrong=_one_pass,
        hint="You go through the list of merges once. With a list from training that's enough: a "
        "pair stands behind the merges that make its symbols. This one case has another list, in "
        "which an earlier pair waits for what a later one makes. → What tells you that no pair of "
        "the list is left in the word?",
    ),
    Misconception(
        name="the list shrinks under the loop",
        wrong=_shrinking_by_rank,
        hint="Your list of pieces gets shorter with every merge, but `range` was told its length "
        "before: near the end there's nothing left at that index. → Which kind of loop asks for "
        "the length anew at every step?",
    ),
    Misconception(
        name="the list shrinks under the loop, from left to right",
        wrong=_shrinking_from_the_left,
        hint="Your list of pieces gets shorter under a loop that was told its length before, and "
        "what it merges first is what stands on the left. → Which loop asks for the length anew "
        "at every step, or which list could be filled instead?",
    ),
    Misconception(
        name="the list is used up",
        wrong=_one_pass_using_up,
        hint="You take the merges out of the caller's list, so that the next word finds none. → "
        "How can a loop read a list without taking anything out?",
    ),
    Misconception(
        name="the list from its end",
        wrong=_one_pass_backwards,
        hint="You go through the merges from the last to the first. The last ones are made of "
        "what the first ones make. → In which order were the merges learned?",
    ),
    Misconception(
        name="the highest rank first",
        wrong=_by_rank(choose=_learned_last),
        hint="Of the pairs in the word you merge the one that was learned last. → Is the pair "
        "that was learned first that of the largest or of the smallest rank?",
    ),
    Misconception(
        name="the longest piece first",
        wrong=_longest_piece,
        hint="You look up the longest piece that the merges make. That's how WordPiece cuts; with "
        "BPE a piece comes about by its merges, one after another. → Which pairs of neighbours "
        "does the word have at the start, and which of them was learned first?",
    ),
    Misconception(
        name="one merge only",
        wrong=_by_rank(rounds=1),
        hint="What a merge has made is never part of another one with you: hugs stays h ug s. You "
        "look for pairs once, and not again after a merge. → Which pairs does the word have after "
        "u g has become ug?",
    ),
    Misconception(
        name="by spelling",
        wrong=_by_spelling,
        valid_variant=True,
        hint="this exercise uses the pairs of the list; you merge any two symbols that together "
        "spell a token, as tiktoken does. It's the same for most words, but not where a pair of "
        "the list isn't the one that spells it. → Is c ab a pair of the list?",
    ),
    Misconception(
        name="overlapping pairs from the right",
        wrong=_by_rank(merge=_merge_from_the_right),
        valid_variant=True,
        hint="this exercise uses left to right where a pair overlaps itself; you merge the "
        "rightmost of them first. → Of a a a, which two should become one?",
    ),
    Misconception(
        name="the second half stays",
        wrong=_by_rank(merge=_merge_step_of_one),
        hint="After a merge the pair's second symbol is still there: your pieces spell more than "
        "the word. → By how many places should the loop go on after a merge?",
    ),
    Misconception(
        name="replaced in text with spaces",
        wrong=_one_pass_replacing,
        hint="You merge by replacing text in symbols that are joined with spaces, so that a space "
        "of the word itself gets lost, and pairs are found across borders: a b in a bc. → Which "
        "comparison sees where a symbol begins and ends?",
    ),
    Misconception(
        name="unknown characters dropped",
        wrong=_by_rank(finish=_only_known),
        hint="Characters that no merge knows are missing from your pieces. Together the pieces "
        "have to spell the word. → What should happen to a symbol that is in no pair?",
    ),
    Misconception(
        name="the space stripped",
        wrong=_by_rank(start=lambda word: tuple(word.strip())),
        hint="The word's space is gone. It's part of the word: ' hug' and 'hug' are different "
        "pieces. → Which line takes white space away?",
    ),
    Misconception(
        name="an end-of-word mark",
        wrong=_by_rank(start=lambda word: (*word, "</w>")),
        valid_variant=True,
        hint="this exercise uses words without a mark at their end, and you add one. → Of which "
        "symbols does hugs consist before the first merge?",
    ),
    Misconception(
        name="joined into one string",
        wrong=_by_rank(finish=lambda symbols, merges: " ".join(symbols)),
        hint="You return one string with spaces between the pieces, where the pieces are asked "
        "for one by one. → What does the docstring say that the function returns?",
    ),
    Misconception(
        name="a rank for what was never learned",
        wrong=_unknown_first,
        hint="Your word ends as one piece, though not all of its pairs are in the list. If a pair "
        "that was never learned gets a rank, any number lets it win in the end. → What should end "
        "the loop, though there's more than one symbol left?",
    ),
    Misconception(
        name="what was never learned looked up",
        wrong=_not_in_list,
        hint="You ask for the rank of a pair that isn't in the list, and that's an error. → Which "
        "of the word's pairs have a rank at all?",
    ),
    Misconception(
        name="the first in the alphabet",
        wrong=_by_rank(choose=lambda pairs, ranks: min(pairs)),
        hint="Of the pairs in the word you merge the one that comes first in the alphabet: `min` "
        "without a key compares the pairs themselves. → By what should `min` compare them, "
        "so that the one learned first wins?",
    ),
    Misconception(
        name="the last in the alphabet",
        wrong=_by_rank(choose=lambda pairs, ranks: max(pairs)),
        hint="Of the pairs in the word you merge the one that comes last in the alphabet: `max` "
        "without a key compares the pairs themselves. → Which of the pairs was learned "
        "first?",
    ),
    Misconception(
        name="the rightmost pair",
        wrong=_by_rank(choose=lambda pairs, ranks: pairs[-1]),
        hint="You merge the rightmost pair that is in the list, whenever it was learned. → Which "
        "of the pairs in the word was learned first?",
    ),
    Misconception(
        name="the longest pair first",
        wrong=_by_rank(choose=lambda pairs, ranks: max(pairs, key=lambda p: len(p[0] + p[1]))),
        hint="Of the pairs in the word you merge the one that makes the longest symbol. How long "
        "it is plays no part. → Which of the pairs was learned first?",
    ),
    Misconception(
        name="the shortest pair first",
        wrong=_by_rank(choose=lambda pairs, ranks: min(pairs, key=lambda p: len(p[0] + p[1]))),
        hint="Of the pairs in the word you merge the one that makes the shortest symbol, and of "
        "equals the leftmost. How long it is plays no part. → Which of the pairs was learned "
        "first?",
    ),
    Misconception(
        name="replaced in text with a separator",
        wrong=_replacing("", "|"),
        hint="You merge by replacing text in symbols with something between them. Then a pair is "
        "also found where a symbol only begins or ends like it: a b in a bc. → Which "
        "comparison sees where a symbol begins and ends?",
    ),
    Misconception(
        name="replaced in text, pass after pass",
        wrong=_replacing("", "|", until=True),
        hint="You replace text in symbols with something between them, until nothing changes. "
        "Then a pair is also found where a symbol only begins or ends like it: a b in a bc. "
        "→ Which comparison sees where a symbol begins and ends?",
    ),
    Misconception(
        name="replaced in text with separators on both sides",
        wrong=_replacing("|", "|"),
        hint="You replace text that has a separator on each side. Two occurrences side by side "
        "share one, and `replace` uses it up for the first, so that the next one isn't "
        "found. → Which of your functions from above merges a pair wherever it stands?",
    ),
    Misconception(
        name="spaces put around it in the word's text",
        wrong=_text_set_apart,
        hint="You look for what a merge makes in the word's text and set it apart with spaces. "
        "After that, hug isn't found in h ug any more, and the word's own space is lost. → "
        "Of which symbols does the word consist after u g has become ug?",
    ),
    Misconception(
        name="pass after pass",
        wrong=_pass_after_pass,
        hint="You go through the whole list again and again. With a list from training that's as "
        "good; this one case has another, in which a merge makes a pair that stands earlier, "
        "and your pass goes on to later ones first. → After each merge, where in the list "
        "should the search begin?",
    ),
    Misconception(
        name="the first of each pair, once through",
        wrong=_one_pass_first_only,
        hint="You go through the list once, and each merge is done at one place of the word only. "
        "→ What becomes of the same pair further to the right?",
    ),
    Misconception(
        name="the first token of the list that fits",
        wrong=_first_token_of_the_list,
        hint="You look at each place for a token that the merges make, the first of the list that "
        "fits. A piece comes about by its merges, one after another. → Which pairs of "
        "neighbours does the word have at the start, and which of them was learned first?",
    ),
    Misconception(
        name="no merge at all",
        wrong=lambda word, merges: list(word),
        hint="Your pieces are the word's single characters: no merge was done. Usual causes: a "
        "list is compared with a tuple, and they're never equal; the result of a merge isn't "
        "kept; a rank of 0 counts as False in an `if`. → Which pairs does your function find "
        "in hugs, and what becomes of them?",
    ),
    Misconception(
        name="an end with one pair left",
        wrong=_ends_with_one_pair,
        hint="Your loop ends while one pair of the list is still in the word. → How many pairs "
        "must be left for a merge to be possible?",
    ),
    Misconception(
        name="the most frequent pair of the word",
        wrong=_by_rank(choose=lambda pairs, ranks: max(pairs, key=pairs.count)),
        hint="You merge the pair that is most frequent in the word, as if you trained anew. What "
        "was frequent is settled: it's in the list's order. → Which of the pairs in the word "
        "was learned first?",
    ),
    Misconception(
        name="the pairs of the start",
        wrong=_pairs_of_the_start,
        hint="You look for pairs once, before the first merge, and apply those in their order. "
        "What a merge makes is never looked at. → Which pairs does the word have after u g "
        "has become ug?",
    ),
    Misconception(
        name="the last token of the list that fits",
        wrong=_last_token_of_the_list,
        hint="You look at each place for a token that the merges make, the last of the list that "
        "fits. A piece comes about by its merges, one after another. → Which pairs of "
        "neighbours does the word have at the start, and which of them was learned first?",
    ),
]


def _segment_one_at_a_time(word: str, merges: list[Pair]) -> Any:
    """Merge a single occurrence at a time, the leftmost of the lowest rank."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    pieces = list(word)
    while len(pieces) > 1:
        best = min(range(len(pieces) - 1), key=lambda i: ranks.get((pieces[i], pieces[i + 1]), inf))
        if (pieces[best], pieces[best + 1]) not in ranks:
            break
        pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
    return pieces


def _segment_restarting(word: str, merges: list[Pair]) -> Any:
    """Look through the list from its start, and begin again after every merge."""
    symbols: tuple[Any, ...] = tuple(word)
    done = False
    while not done:
        done = True
        for pair in merges:
            if pair in list(pairwise(symbols)):
                symbols = _merge(symbols, pair)
                done = False
                break
    return symbols


def _segment_recursive(word: str, merges: list[Pair]) -> Any:
    def further(symbols: list[str]) -> list[str]:
        found = [pair for pair in merges if pair in set(pairwise(symbols))]
        return further(_merge_slices(tuple(symbols), found[0])) if found else symbols

    return further([*word])


_SEGMENT = Exercise(
    id="03.segment",
    function="segment",
    reference=segment,
    guarded=(bpe.apply_merges,),
    cases=_SEGMENT_CASES,
    returns=("pieces",),
    misconceptions=_SEGMENT_WRONG,
    alternatives=[
        Alternative(name="one occurrence at a time", right=_segment_one_at_a_time),
        Alternative(name="the list from its start again and again", right=_segment_restarting),
        Alternative(name="recursion", right=_segment_recursive),
    ],
    hints=[
        "Write down the pairs of neighbours in the word. Which of them are in the list, and which "
        "one comes first there? Merge it. Then look again.",
        "A dictionary from pair to place in the list, `enumerate(merges)`, gives ranks. Repeat: "
        "the pairs that have a rank, the smallest rank of them, merge.",
        "`min(pairs, key=ranks.get)` is the pair that was learned first. When none of the word's "
        "pairs has a rank, the symbols are the answer.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
    time_limit=5.0,
    if_too_slow="A loop that repeats until something is done has to notice when nothing is left "
    "to do. → What does yours do in a round in which no pair of the word is in the list?",
)


# -- 03.decode -------------------------------------------------------------------------------------


def decode(ids: list[int], tokens: list[bytes]) -> str:
    """Return the text that ids stand for; what isn't UTF-8 becomes the replacement character.

    Parameters
    ----------
    ids : list of int
    tokens : list of bytes
        The token of each id.

    Returns
    -------
    str
    """
    return b"".join([tokens[i] for i in ids]).decode("utf-8", errors="replace")


_ENGLISH = [b"s", b"hug", b" pug", b"."]
_PARTS = [b"caf", b"\xc3", b"\xa9", b" na", b"\xaf", b"ve"]
_EMOJI = [b"\xf0\x9f", b"\xa4", b"\x97", b"a ", b"\xe2\x82", b"\xac"]


def _random_ids(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 35])
    tokens = [*_PARTS, *_EMOJI, b"\xd0", b"\xb6", b"\n"]
    ids = [
        0,
        1,
        2,
        6,
        7,
        8,
        12,
        13,
        *rng.integers(0, len(tokens), size=6).tolist(),
        9,
        1,
        1,
        10,
        14,
    ]
    return {"ids": ids, "tokens": tokens}


_DECODE_CASES = [
    Case(
        name="tokens of plain letters",
        inputs={"ids": [1, 2, 0, 3], "tokens": _ENGLISH},
        shows="they are joined as they are",
    ),
    Case(
        name="a space at the start, a newline at the end",
        inputs={"ids": [1, 0, 2], "tokens": [b"hug", b" pug", b"s\n"]},
        shows="both belong to the text",
    ),
    Case(
        name="é cut in two",
        inputs={"ids": [0, 1, 2, 3, 1, 4, 5], "tokens": _PARTS},
        shows="one character, two tokens",
    ),
    Case(
        name="an emoji cut in three",
        inputs={"ids": [3, 0, 1, 2], "tokens": _EMOJI},
        shows="one character, three tokens",
    ),
    Case(
        name="the last character isn't complete",
        inputs={"ids": [0, 1], "tokens": _PARTS},
        shows="text that a model is still writing; no error, but a replacement character",
    ),
    Case(
        name="two of three bytes",
        inputs={"ids": [3, 4], "tokens": _EMOJI},
        shows="one replacement character for the beginning of one character",
    ),
    Case(
        name="a stray byte in the middle",
        inputs={"ids": [0, 2, 3, 4, 5], "tokens": _PARTS},
        shows="what stands around it is safe",
    ),
    Case(name="drawn ids", inputs=_random_ids),
]

Bytes = Callable[[bytes], str]


def _each(one: Bytes, between: str = "") -> Callable[[list[int], list[bytes]], str]:
    return lambda ids, tokens: between.join([one(tokens[i]) for i in ids])


def _joined(
    whole: Callable[[bytes], Any], between: bytes = b""
) -> Callable[[list[int], list[bytes]], Any]:
    return lambda ids, tokens: whole(between.join([tokens[i] for i in ids]))


def _with(errors: str) -> Bytes:
    return lambda data: data.decode("utf-8", errors=errors)


def _a_mark_a_byte(data: bytes) -> str:
    return "".join(
        "\ufffd" if "\udc80" <= c <= "\udcff" else c
        for c in data.decode("utf-8", errors="surrogateescape")
    )


def _up_to_the_fault(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()


def _empty_on_a_fault(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _one_mark_on_a_fault(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "\ufffd"


def _a_mark_and_no_more(data: bytes) -> str:
    text = _up_to_the_fault(data)
    return text if text.encode() == data else text + "\ufffd"


def _latin_on_a_fault(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _each_token_on_a_fault(ids: list[int], tokens: list[bytes]) -> str:
    try:
        return b"".join(tokens[i] for i in ids).decode()
    except UnicodeDecodeError:
        return "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)


_DECODE_WRONG = [
    Misconception(
        name="each token by itself",
        wrong=_each(_with("replace")),
        hint="You decode token by token. A token can hold a part of a character, and a part can't "
        "be decoded. → What should be joined first, bytes or texts?",
    ),
    Misconception(
        name="each token by itself, faults dropped",
        wrong=_each(_with("ignore")),
        hint="Every character that isn't ASCII vanishes from your text, é as well, though both of "
        "its bytes are there. Either you decode token by token and drop what isn't a whole "
        "character, or you decode ASCII. → What should be joined first, bytes or texts, and "
        "which encoding is it?",
    ),
    Misconception(
        name="each token by itself, faults raised",
        wrong=_each(_with("strict")),
        hint="You decode token by token. A token can hold a part of a character, and decoding a "
        "part is an error. → What should be joined first, bytes or texts?",
    ),
    Misconception(
        name="faults raised",
        wrong=_joined(_with("strict")),
        hint="The bytes are joined first, which is right. But ids needn't be whole text: a model "
        "may stop in the middle of a character. → Which argument of `decode` says what becomes of "
        "bytes that aren't text?",
    ),
    Misconception(
        name="faults dropped",
        wrong=_joined(_with("ignore")),
        hint="Bytes that aren't text vanish from your result, so that nobody sees that something "
        "is missing. → Which value of `errors` puts a replacement character there?",
    ),
    Misconception(
        name="faults written as numbers",
        wrong=_joined(_with("backslashreplace")),
        hint="Bytes that aren't text are written as \\x and a number. Four letters of text stand "
        "then where one character is missing. → Which value of `errors` puts a replacement "
        "character there?",
    ),
    Misconception(
        name="a mark for every byte",
        wrong=_joined(_a_mark_a_byte),
        valid_variant=True,
        hint="this exercise uses one replacement character for the beginning of one character, as "
        'Python and the web do; you put one for every byte. → What does `errors="replace"` make '
        "of the two bytes?",
    ),
    Misconception(
        name="a question mark",
        wrong=_joined(lambda data: data.decode("utf-8", errors="replace").replace("\ufffd", "?")),
        valid_variant=True,
        hint="this exercise uses the replacement character U+FFFD; you put a question mark, which "
        'can\'t be told from one that was written. → What does `errors="replace"` put there?',
    ),
    Misconception(
        name="everything after the fault is lost",
        wrong=_joined(_up_to_the_fault),
        hint="Your text ends before the first byte that can't be read, and what stands behind it "
        "is lost. → How much of the text is damaged by one stray byte?",
    ),
    Misconception(
        name="no text on a fault",
        wrong=_joined(_empty_on_a_fault),
        hint="Where a byte can't be read you return no text at all. → How much of the text is "
        "damaged by one stray byte?",
    ),
    Misconception(
        name="one mark for all on a fault",
        wrong=_joined(_one_mark_on_a_fault),
        hint="Where a byte can't be read you return a single replacement character for the whole "
        "text. → How much of the text is damaged by one stray byte?",
    ),
    Misconception(
        name="Latin-1",
        wrong=_joined(lambda data: data.decode("latin-1")),
        hint="You make a character of every byte (Latin-1, or `chr`): é becomes Ã©. → In which "
        "encoding does é have the two bytes C3 A9?",
    ),
    Misconception(
        name="ASCII",
        wrong=_joined(lambda data: data.decode("ascii", errors="replace")),
        hint="You decode ASCII, which knows 128 characters: every byte of é becomes a mark. → In "
        "which encoding does é have the two bytes C3 A9?",
    ),
    Misconception(
        name="how Python writes bytes",
        wrong=_joined(str),
        hint="`str` of bytes gives what Python would print, with a b and quotes. → Which method "
        "of bytes reads them as text?",
    ),
    Misconception(
        name="how Python writes each token",
        wrong=_each(str),
        hint="`str` of bytes gives what Python would print, with a b and quotes, and that for "
        "each token. → Which method of bytes reads them as text?",
    ),
    Misconception(
        name="surrogates for faults",
        wrong=_joined(_with("surrogateescape")),
        hint="Bytes that aren't text become surrogates with you: a way to smuggle bytes through "
        "text, which can't be printed or saved. → Which value of `errors` puts a replacement "
        "character there?",
    ),
    Misconception(
        name="bytes returned",
        wrong=_joined(lambda data: data),
        hint="You return bytes, where text is asked for: the last step is missing. → Which method "
        "of bytes reads them as text?",
    ),
    Misconception(
        name="a list of texts",
        wrong=lambda ids, tokens: [tokens[i].decode("utf-8", errors="replace") for i in ids],
        hint="You return a list, one text for each token. One text is asked for, and a token can "
        "hold a part of a character. → What should be joined first, bytes or texts?",
    ),
    Misconception(
        name="a space between tokens",
        wrong=_joined(_with("replace"), b" "),
        hint="You put a space between tokens. A token isn't a word: where a space belongs, it's "
        "in the token. → What stands between two tokens in the text?",
    ),
    Misconception(
        name="stripped",
        wrong=_joined(lambda data: data.decode("utf-8", errors="replace").strip()),
        hint="White space at the ends of the text is gone: decoding has to give back what was "
        "encoded, a first space and a last newline too. → Which line takes it away?",
    ),
    Misconception(
        name="ids taken for bytes",
        wrong=lambda ids, tokens: bytes(ids).decode("utf-8", errors="replace"),
        hint="You take the ids themselves for bytes. An id is a place in the list of tokens. → "
        "What does `tokens[i]` give?",
    ),
    Misconception(
        name="ids sorted",
        wrong=lambda ids, tokens: b"".join(
            token for i, token in enumerate(tokens) if i in set(ids)
        ).decode("utf-8", errors="replace"),
        hint="Your tokens come in the order of the list, each once. The ids say what comes when, "
        "and may repeat. → Over what should the loop run, the ids or the tokens?",
    ),
    Misconception(
        name="Latin-1 on a fault",
        wrong=_joined(_latin_on_a_fault),
        hint="Where a byte can't be read you decode the whole text anew as Latin-1, which makes a "
        "character of every byte: all that was right is lost. → How much of the text is "
        "damaged by one stray byte?",
    ),
    Misconception(
        name="each token by itself on a fault",
        wrong=_each_token_on_a_fault,
        hint="Where a byte can't be read you go on token by token, and characters that are cut in "
        "two, which could be read, get lost. → What does `errors` do for the bytes of the "
        "whole text?",
    ),
    Misconception(
        name="a mark, and the end",
        wrong=_joined(_a_mark_and_no_more),
        hint="Your text ends with a replacement character at the first byte that can't be read, "
        "and what stands behind it is lost, as if it might still become text. → How much of "
        "the text is damaged by one stray byte?",
    ),
    Misconception(
        name="one mark for several",
        wrong=_joined(
            lambda data: re.sub("\ufffd+", "\ufffd", data.decode("utf-8", errors="replace"))
        ),
        valid_variant=True,
        hint="this exercise uses a replacement character for each stray byte or beginning of a "
        'character; you put one for several side by side. → What does `errors="replace"` '
        "give for two beginnings, one behind the other?",
    ),
    Misconception(
        name="each id once",
        wrong=lambda ids, tokens: b"".join(tokens[i] for i in dict.fromkeys(ids)).decode(
            "utf-8", errors="replace"
        ),
        hint="An id that comes again is left out. The ids say what comes when, and may repeat. → "
        "Over what should the loop run?",
    ),
    Misconception(
        name="backwards",
        wrong=lambda ids, tokens: b"".join(tokens[i] for i in ids[::-1]).decode(
            "utf-8", errors="replace"
        ),
        hint="Your tokens come from the last to the first. → On which side of what is there "
        "should the next token be added?",
    ),
    Misconception(
        name="stripped at the end",
        wrong=_joined(lambda data: data.decode("utf-8", errors="replace").rstrip()),
        hint="White space at the end of the text is gone: decoding has to give back what was "
        "encoded, a last newline too. → Which line takes it away?",
    ),
    Misconception(
        name="what Python writes, without the quotes",
        wrong=_joined(lambda data: str(data)[2:-1]),
        hint="You take what Python would print for bytes and cut off the b and the quotes: é "
        "stays \\xc3\\xa9, a newline a backslash and n. → Which method of bytes reads them as "
        "text?",
    ),
    Misconception(
        name="all tokens",
        wrong=lambda ids, tokens: b"".join(tokens).decode("utf-8", errors="replace"),
        hint="You join the whole list of tokens, whatever the ids are. → Over what should the "
        "loop run, the ids or the tokens?",
    ),
    Misconception(
        name="ids from 1",
        wrong=lambda ids, tokens: b"".join(tokens[i - 1] for i in ids).decode(
            "utf-8", errors="replace"
        ),
        hint="You look up the token before the right one: ids begin at 0, as places in a list do. "
        "→ What does `tokens[i]` give?",
    ),
]


def _decode_incremental(ids: list[int], tokens: list[bytes]) -> Any:
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return "".join([decoder.decode(tokens[i]) for i in ids]) + decoder.decode(b"", final=True)


def _decode_bytearray(ids: list[int], tokens: list[bytes]) -> Any:
    data = bytearray()
    for i in ids:
        data += tokens[i]
    return str(data, "utf-8", "replace")


def _decode_marks(ids: list[int], tokens: list[bytes]) -> Any:
    """Try, and put a mark where it fails."""
    data, text = b"".join(map(tokens.__getitem__, ids)), ""
    while True:
        try:
            return text + data.decode("utf-8")
        except UnicodeDecodeError as error:
            text += data[: error.start].decode("utf-8") + "\ufffd"
            data = data[error.end :]


_DECODE = Exercise(
    id="03.decode",
    function="decode",
    reference=decode,
    cases=_DECODE_CASES,
    returns=("text",),
    misconceptions=_DECODE_WRONG,
    alternatives=[
        Alternative(name="an incremental decoder", right=_decode_incremental),
        Alternative(name="a bytearray", right=_decode_bytearray),
        Alternative(name="a mark for each fault", right=_decode_marks),
    ],
    hints=[
        "é is the two bytes C3 A9 in UTF-8. If they come as two tokens, what can be said of the "
        "first one by itself?",
        "First look up all tokens and join them, still as bytes. Then make text of the whole, "
        "once.",
        '`b"".join(…)` joins bytes. `decode` of bytes takes `errors`, which says what becomes of '
        "bytes that are no text: print what each of its values gives.",
    ],
    points=3,
    minutes=10,
    difficulty=1,
)


# -- 03.longest_match ------------------------------------------------------------------------------


def longest_match(word: str, vocab: list[str]) -> list[str]:
    """Cut a word into the longest pieces of a vocabulary, from left to right, as WordPiece does.

    Parameters
    ----------
    word : str
    vocab : list of str
        Pieces that begin a word, and with ## before them those that go on in it.

    Returns
    -------
    list of str
        ``["[UNK]"]`` if at some place no piece matches.
    """
    return wordpiece_module.longest_match(word, vocab)


_VOCAB = ["[UNK]", "b", "hug", "##s", "##u", "##ug", "un", "unab", "##able"]


def _random_vocab(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 36])
    inside = {"##" + _letters(rng, 4, "ab") for _ in range(9)}
    word = "".join(rng.choice(list("ab"), size=16))
    return {"word": word, "vocab": ["ba", "a", "b", "##b", *sorted(inside), "##a", "ab"]}


_MATCH_CASES = [
    Case(
        name="hugs",
        inputs={
            "word": "hugs",
            "vocab": ["[UNK]", "h", "s", "g", "hug", "##h", "##u", "##g", "##ug", "##s"],
        },
        shows="the longest at each place; a piece inside the word has ## before it",
    ),
    Case(
        name="long pieces",
        inputs={
            "word": "unthinkable",
            "vocab": ["un", "unthi", "unthin", "##t", "##k", "##able", "##nkable", "##hinkable"],
        },
        shows="no other way counts, though it has fewer pieces",
    ),
    Case(
        name="the first match of the list isn't the longest",
        inputs={"word": "pugs", "vocab": ["[UNK]", "p", "pu", "##g", "##s", "pug", "##gs"]},
        shows="the length decides",
    ),
    Case(
        name="unable",
        inputs={"word": "unable", "vocab": _VOCAB},
        shows="no piece is given back, so it's unknown, though un ##able would spell it",
    ),
    Case(
        name="a character in the middle that no piece has",
        inputs={"word": "bugxs", "vocab": _VOCAB},
        shows="the whole word is unknown",
    ),
    Case(
        name="pieces at the wrong place",
        inputs={"word": "sun", "vocab": ["[UNK]", "un", "##s", "s", "u", "n", "##n"]},
        shows="un begins a word, and can't go on in one",
    ),
    Case(name="nothing", inputs={"word": "", "vocab": _VOCAB}, shows="no pieces"),
    Case(name="a long drawn word", inputs=_random_vocab),
]


def _matched(
    *,
    ends: Callable[[str, int, list[str], str], Iterable[int]] = lambda word, start, vocab, prefix: (
        range(len(word), start, -1)
    ),
    inside: str = "##",
    first: str = "",
    fail: Callable[[list[str], str, int], Any] = lambda pieces, word, start: ["[UNK]"],
    shown: Callable[[str], str] = lambda piece: piece,
) -> Callable[[str, list[str]], Any]:
    """Return the search with some steps replaced."""

    def cut(word: str, vocab: list[str]) -> Any:
        pieces: list[str] = []
        start = 0
        while start < len(word):
            prefix = inside if start else first
            for end in ends(word, start, vocab, prefix):
                if prefix + word[start:end] in vocab:
                    pieces.append(shown(prefix + word[start:end]))
                    start = end
                    break
            else:
                return fail(pieces, word, start)
        return pieces

    return cut


def _in_list_order(word: str, start: int, vocab: list[str], prefix: str) -> list[int]:
    found = []
    for piece in vocab:
        if piece.startswith(prefix):
            text = piece[len(prefix) :]
            if text and word.startswith(text, start):
                found.append(start + len(text))
    return found


def _going_on(word: str, vocab: list[str]) -> list[str]:
    """Put an unknown token for a character and go on."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                pieces.append(piece)
                start = end
                break
        else:
            pieces.append("[UNK]")
            start += 1
    return pieces


def _skipping(word: str, vocab: list[str]) -> list[str]:
    return [piece for piece in _going_on(word, vocab) if piece != "[UNK]"]


def _given_back(word: str, vocab: list[str]) -> list[str]:
    """Try shorter pieces if the longest leads nowhere."""

    @cache
    def rest(start: int) -> list[str] | None:
        if start == len(word):
            return []
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            after = rest(end) if piece in vocab else None
            if after is not None:
                return [piece, *after]
        return None

    found = rest(0)
    return ["[UNK]"] if found is None else found


def _from_the_end(word: str, vocab: list[str]) -> list[str]:
    pieces: list[str] = []
    end = len(word)
    while end > 0:
        for start in range(end):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                pieces.insert(0, piece)
                end = start
                break
        else:
            return ["[UNK]"]
    return pieces


def _whole_or_nothing(word: str, vocab: list[str]) -> list[str]:
    return [word] if word in vocab else ["[UNK]"]


def _unknown_if_empty(word: str, vocab: list[str]) -> list[str]:
    return _matched()(word, vocab) or ["[UNK]"]


def _one_too_short(word: str, start: int, vocab: list[str], prefix: str) -> range:
    return range(len(word) - 1, start, -1)


def _either_form(word: str, vocab: list[str]) -> list[str]:
    """Take a piece inside the word with or without the mark."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            text = word[start:end]
            found = [p for p in (["##" + text] if start else []) + [text] if p in vocab]
            if found:
                pieces.append(found[0])
                start = end
                break
        else:
            return ["[UNK]"]
    return pieces


def _marks_ignored(word: str, vocab: list[str]) -> list[str]:
    pieces: list[str] = []
    start = 0
    while start < len(word):
        best = ""
        for piece in vocab:
            if word.startswith(piece.removeprefix("##"), start) and len(piece) > len(best):
                best = piece
        if not best:
            return ["[UNK]"]
        pieces.append(best)
        start += len(best.removeprefix("##"))
    return pieces


def _all_that_occur(word: str, vocab: list[str]) -> list[str]:
    return [p for p in sorted(vocab, key=len, reverse=True) if p.removeprefix("##") in word]


def _grown(word: str, vocab: list[str]) -> list[str]:
    """Make a piece longer as long as it's in the vocabulary."""
    pieces, start = [], 0
    while start < len(word):
        prefix, end = "##" if start else "", start + 1
        if prefix + word[start:end] not in vocab:
            return ["[UNK]"]
        while end < len(word) and prefix + word[start : end + 1] in vocab:
            end += 1
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def _two_at_most(word: str, vocab: list[str]) -> list[str]:
    pieces = _matched()(word, vocab)
    return pieces if len(pieces) < 3 else ["[UNK]"]


def _fewest_pieces(word: str, vocab: list[str]) -> list[str]:
    best: list[list[str] | None] = [[]] + [None] * len(word)
    for end in range(1, len(word) + 1):
        for start in range(end):
            before, piece = best[start], ("##" if start else "") + word[start:end]
            old = best[end]
            if before is None or piece not in vocab:
                continue
            if old is None or len(before) + 1 < len(old):
                best[end] = [*before, piece]
    return best[-1] or (["[UNK]"] if word else [])


def _marks_counted(word: str, vocab: list[str]) -> list[str]:
    """Go on by the length of the piece with its mark."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in vocab:
                pieces.append(prefix + word[start:end])
                start += len(pieces[-1])
                break
        else:
            return ["[UNK]"]
    return pieces


def _marks_put_back(word: str, vocab: list[str]) -> list[str]:
    """Take all marks off the vocabulary, and put them on what was found."""
    found = _matched(inside="")(word, [piece.removeprefix("##") for piece in vocab])
    return [("##" if i else "") + piece for i, piece in enumerate(found)]


_MATCH_WRONG = [
    Misconception(
        name="all pieces that occur",
        wrong=_all_that_occur,
        hint="You return every piece that occurs anywhere in the word, the longest first. "
        "Together the pieces have to spell the word, from its start to its end. → Where does the "
        "second piece begin?",
    ),
    Misconception(
        name="the shortest piece",
        wrong=_matched(ends=lambda word, start, vocab, prefix: range(start + 1, len(word) + 1)),
        hint="You take the shortest piece that matches, and so the word falls into small ones. → "
        "From which end should the search for a piece begin?",
    ),
    Misconception(
        name="the first of the vocabulary",
        wrong=_matched(ends=_in_list_order),
        hint="You take the first piece in the order of the vocabulary that matches. The order of "
        "the list means nothing here. → Which of the pieces that match is the longest?",
    ),
    Misconception(
        name="no mark inside the word",
        wrong=_matched(inside=""),
        hint="You look for pieces without ## inside the word as well. In this vocabulary ##ug "
        "goes on in a word, and ug would begin one. → What stands before a piece that doesn't "
        "begin at place 0?",
    ),
    Misconception(
        name="with the mark or without",
        wrong=_either_form,
        hint="Inside the word you also take pieces without ##, which may only begin one: un in "
        "sun. → Under which name alone is a piece looked up that doesn't begin at place 0?",
    ),
    Misconception(
        name="the mark at the start too",
        wrong=_matched(first="##"),
        hint="You look for ## before the word's first piece as well. → Which pieces can stand at "
        "place 0?",
    ),
    Misconception(
        name="marks taken off",
        wrong=_matched(shown=lambda piece: piece.removeprefix("##")),
        hint="You return pieces without their ##. With it a piece is another token, with another "
        "id. → Under which name was the piece found in the vocabulary?",
    ),
    Misconception(
        name="pieces given back",
        wrong=_given_back,
        hint="You try a shorter piece where the longest leads nowhere, and so you find un ##able. "
        "WordPiece is greedy: what is taken stays taken. → What should happen as soon as nothing "
        "matches at some place?",
    ),
    Misconception(
        name="unknown only from the fault on",
        wrong=_matched(fail=lambda pieces, word, start: [*pieces, "[UNK]"]),
        hint="You keep the pieces found before the place where nothing matches. WordPiece gives up "
        "the whole word. → What is returned for a word that can't be spelled?",
    ),
    Misconception(
        name="an unknown character and on",
        wrong=_going_on,
        hint="You put [UNK] for one character and go on behind it. WordPiece gives up the whole "
        "word, however much of it could be spelled. → What is returned for a word that can't be "
        "spelled?",
    ),
    Misconception(
        name="unknown characters skipped",
        wrong=_skipping,
        hint="You skip characters that no piece has, so that another word is spelled. → What does "
        "the docstring say is returned where nothing matches?",
    ),
    Misconception(
        name="what was found so far",
        wrong=_matched(fail=lambda pieces, word, start: pieces),
        hint="Where nothing matches you return the pieces found so far, as if the word ended "
        "there. → What does the docstring say is returned where nothing matches?",
    ),
    Misconception(
        name="the unknown token without a list",
        wrong=_matched(fail=lambda pieces, word, start: "[UNK]"),
        hint="For an unknown word you return the token itself, a string, where all other words "
        "give a list of pieces. → What is a list that holds one string?",
    ),
    Misconception(
        name="marks left out of account",
        wrong=_marks_ignored,
        hint="You compare without regard to ##, so that a piece from inside of words begins one, "
        "or the other way round: ##s un. → What must a piece at place 0 not have, and all others "
        "have?",
    ),
    Misconception(
        name="no pieces for an unknown word",
        wrong=_matched(fail=lambda pieces, word, start: []),
        hint="You return no pieces for a word that can't be spelled: it vanishes from the text. → "
        "Which token stands for such a word?",
    ),
    Misconception(
        name="the word itself",
        wrong=_matched(fail=lambda pieces, word, start: [word]),
        hint="You return the word itself where it can't be spelled, and that's no token: it has "
        "no id. → Which token stands for such a word?",
    ),
    Misconception(
        name="from the end",
        wrong=_from_the_end,
        hint="You look for the longest piece at the end of the word first. That gives other "
        "pieces, and un ##able. → At which end of the word does the search begin?",
    ),
    Misconception(
        name="whole words only",
        wrong=_whole_or_nothing,
        hint="You look up whole words only, so that every word that isn't a token is unknown. → "
        "If the whole word isn't in the vocabulary, what is the next shorter beginning of it?",
    ),
    Misconception(
        name="never to the end of the word",
        wrong=_matched(ends=_one_too_short),
        hint="A word is unknown with you that can be spelled: behind a piece nothing is found, or "
        "something is left over at the end. Usual causes: the last character is never tried, "
        "the search isn't begun anew behind a piece, or a ## with nothing behind it is left. "
        "→ What exactly does your function look up after hug?",
    ),
    Misconception(
        name="an empty word is unknown",
        wrong=_unknown_if_empty,
        valid_variant=True,
        hint="this exercise uses no pieces for an empty word, since nothing in it is unknown; you "
        "return [UNK]. → What is left to be matched in an empty word?",
    ),
    Misconception(
        name="joined into one string",
        wrong=lambda word, vocab: " ".join(_matched()(word, vocab)),
        hint="You return one string with spaces between the pieces, where the pieces are asked "
        "for one by one. → What does the docstring say that the function returns?",
    ),
    Misconception(
        name="longer as long as it matches",
        wrong=_grown,
        hint="You start with one character and add more as long as the result is in the "
        "vocabulary. A long piece can be in it without its shorter beginnings. → From which "
        "end should the search for a piece begin?",
    ),
    Misconception(
        name="two pieces at most",
        wrong=_two_at_most,
        hint="You cut a word into two pieces at most, a beginning and all the rest. → What should "
        "happen to a rest that isn't a piece as a whole?",
    ),
    Misconception(
        name="fewest pieces",
        wrong=_fewest_pieces,
        hint="You look for the way with the fewest pieces. WordPiece takes the longest piece at "
        "each place and never looks ahead. → Which piece is the longest at the start of the "
        "word?",
    ),
    Misconception(
        name="the mark counts as text",
        wrong=_marks_counted,
        hint="You go on by the length of the piece with its ##, two characters too far. → How "
        "many characters of the word does ##s stand for?",
    ),
    Misconception(
        name="marks put on what had none",
        wrong=_marks_put_back,
        hint="You look for pieces without regard to ##, and put marks on what you found. So you "
        "return pieces that aren't in the vocabulary, or begin a word with what only goes on "
        "in one. → Under which name is a piece inside the word looked up?",
    ),
    Misconception(
        name="the characters of the unknown token",
        wrong=_matched(fail=lambda pieces, word, start: list("[UNK]")),
        hint="For an unknown word you return the characters of the unknown token: `list` of a "
        "string takes it apart. → What is a list that holds one string?",
    ),
    Misconception(
        name="an unknown token for each character",
        wrong=_matched(fail=lambda pieces, word, start: ["[UNK]"] * len(word)),
        hint="You return an unknown token for each character of the word; WordPiece gives one for "
        "the whole. → What does the docstring say is returned where nothing matches?",
    ),
    Misconception(
        name="the rest as it is",
        wrong=_matched(fail=lambda pieces, word, start: [*pieces, word[start:]]),
        hint="Where nothing matches you return the rest of the word as if it were a piece. It "
        "isn't in the vocabulary and has no id. → What is returned for a word that can't be "
        "spelled?",
    ),
    Misconception(
        name="the unknown token without brackets",
        wrong=_matched(fail=lambda pieces, word, start: ["UNK"]),
        hint="Your unknown token has no brackets. As a token it's a string of its own. → How does "
        "the docstring write it?",
    ),
    Misconception(
        name="long pieces never tried",
        wrong=_matched(
            ends=lambda word, start, vocab, prefix: range(min(len(word), start + 4), start, -1)
        ),
        hint="Long pieces are never tried with you: unthin is one. → How long may a piece be that "
        "begins at place `start`?",
    ),
]


def _match_shrinking(word: str, vocab: list[str]) -> Any:
    pieces: list[str] = []
    rest = word
    while rest:
        mark = "##" if pieces else ""
        head = rest
        while head and mark + head not in vocab:
            head = head[:-1]
        if not head:
            return ["[UNK]"]
        pieces.append(mark + head)
        rest = rest[len(head) :]
    return pieces


def _match_max(word: str, vocab: list[str]) -> Any:
    """Ask every piece whether it fits, and take the longest."""
    pieces: tuple[str, ...] = ()
    start = 0
    while start < len(word):
        rest = f"##{word[start:]}" if start else word
        fitting = [piece for piece in vocab if rest.startswith(piece) and piece != "##"]
        if not fitting:
            return ("[UNK]",)
        best = max(fitting, key=len)
        pieces += (best,)
        start += len(best) - (2 if start else 0)
    return pieces


def _match_recursive(word: str, vocab: list[str]) -> Any:
    known = set(vocab)

    def further(rest: str, mark: str) -> list[str] | None:
        if not rest:
            return []
        n = next((n for n in range(len(rest), 0, -1) if mark + rest[:n] in known), 0)
        after = further(rest[n:], "##") if n else None
        return None if after is None else [mark + rest[:n], *after]

    found = further(word, "")
    return ["[UNK]"] if found is None else found


_LONGEST_MATCH = Exercise(
    id="03.longest_match",
    function="longest_match",
    reference=longest_match,
    guarded=(wordpiece_module.longest_match,),
    cases=_MATCH_CASES,
    returns=("pieces",),
    misconceptions=_MATCH_WRONG,
    alternatives=[
        Alternative(name="a head that shrinks", right=_match_shrinking),
        Alternative(name="the longest that fits, as a tuple", right=_match_max),
        Alternative(name="recursion", right=_match_recursive),
    ],
    hints=[
        "Try the whole word, then the word without its last character, and so on: the first that "
        "is in the vocabulary is the longest. Then go on behind it.",
        "Two loops: one over where a piece starts, one over where it ends, from the word's end "
        "downwards. A piece that doesn't start at 0 is looked up with ## before it.",
        "A `for` loop in Python may have an `else`, which runs if no `break` ended it: there "
        "nothing matched, and the whole word is unknown.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
    time_limit=5.0,
    if_too_slow="Your search for a piece doesn't end where nothing matches. → What should happen "
    "when even a single character is no piece?",
)


# -- 03.viterbi ------------------------------------------------------------------------------------


def viterbi(text: str, log_probs: dict[str, float]) -> tuple[list[str], float]:
    """Cut a text into the pieces whose log-probabilities have the largest sum.

    Parameters
    ----------
    text : str
    log_probs : dict of str to float

    Returns
    -------
    pieces : list of str
    score : float
        The sum of their log-probabilities.
    """
    return unigram_module.viterbi(text, log_probs)


_SCORES = {"h": -3.0, "u": -2.0, "g": -2.0, "s": -3.0, "hu": -4.0, "ug": -3.0, "gs": -3.5}


def _random_scores(size: int, length: int, longest: int) -> Callable[[int], dict[str, Any]]:
    def inputs(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 37, size])
        while True:
            pieces = ["a", "b", "c", "ab", "bc", "abc"]
            pieces += [_letters(rng, longest) for _ in range(size)]
            scores = {p: -round(float(rng.uniform(0.8, 2.0) * (2 + len(p))), 3) for p in pieces}
            text = "".join(rng.choice(list("abc"), size=length))
            best, second = _two_best(text, scores)
            short = [cut(text, scores)[1] for cut in _SHORT_CUTS]
            if best - second < 0.01 or any(abs(score - best) < 0.01 for score in short):
                continue
            if longest > 4:  # then such a piece is needed, and the greedy ways differ as well
                pieces, _ = viterbi(text, scores)
                if max(map(len, pieces)) <= 4 or len({round(x, 2) for x in short}) < len(short):
                    continue
            return {"text": text, "log_probs": scores}

    return inputs


def _two_best(text: str, log_probs: dict[str, float]) -> tuple[float, float]:
    """Return the scores of the two best ways: a check can't tell ways that are equally good."""
    best = [[0.0, -inf]]
    for end in range(1, len(text) + 1):
        ways = [
            score + log_probs[text[start:end]]
            for start in range(end)
            if text[start:end] in log_probs
            for score in best[start]
        ]
        best.append([*sorted(ways, reverse=True), -inf, -inf][:2])
    return best[-1][0], best[-1][1]


_VITERBI_CASES = [
    Case(
        name="hugs",
        inputs={"text": "hugs", "log_probs": _SCORES},
        shows="hu gs has the largest sum",
    ),
    Case(
        name="a whole word is a piece",
        inputs={"text": "hug", "log_probs": {**_SCORES, "hug": -4.5}},
        shows="one piece, one score",
    ),
    Case(
        name="a word that is rare as a whole",
        inputs={"text": "gugs", "log_probs": {**_SCORES, "gug": -20.0, "gugs": -30.0}},
        shows="the longest piece isn't the best",
    ),
    Case(
        name="a good beginning with a bad end",
        inputs={
            "text": "unable",
            "log_probs": {
                "un": -4.0,
                "unab": -3.0,
                "able": -5.0,
                "le": -12.0,
                "u": -9.0,
                "n": -9.0,
                "a": -1.0,
                "b": -9.0,
                "l": -9.0,
                "e": -9.0,
            },
        },
        shows="what comes first is chosen by what comes after",
    ),
    Case(
        name="a character that is no piece by itself",
        inputs={
            "text": "aqub",
            "log_probs": {"a": -2.0, "qu": -6.0, "u": -1.0, "b": -2.0, "aqu": -11.0, "ub": -1.5},
        },
        shows="the text can't be cut before u",
    ),
    Case(
        name="eleven drawn characters",
        inputs=_random_scores(8, 11, 4),
        shows="shorter and longer pieces, and their sum",
    ),
    Case(
        name="60 drawn characters",
        inputs=_random_scores(14, 60, 6),
        shows="there are up to 2⁵⁹ ways",
    ),
]


def _ways(text: str, log_probs: dict[str, float]) -> list[list[str]]:
    """Return all ways to cut a text."""
    if not text:
        return [[]]
    return [
        [text[:n], *rest]
        for n in range(1, len(text) + 1)
        if text[:n] in log_probs
        for rest in _ways(text[n:], log_probs)
    ]


State = tuple[float, list[str]]


def _table(
    *,
    join: Callable[[float, float], float] = lambda before, own: before + own,
    rank: Callable[[float, int], float] = lambda score, n: score,
    longest: int = 100,
    unreached: float = -inf,
    shift: int = 0,
    finish: Callable[[list[str], float], Any] = lambda pieces, score: (pieces, score),
) -> Callable[[str, dict[str, float]], Any]:
    """Return the table's last row, with some steps replaced."""

    def cut(text: str, log_probs: dict[str, float]) -> Any:
        best: list[State | None] = [(0.0, [])] + [None] * len(text)
        for end in range(1, len(text) + 1):
            for start in range(max(0, end - longest), end):
                piece = text[start:end]
                before = best[start]
                if before is None and unreached > -inf:
                    before = (unreached, [])
                if before is None or piece not in log_probs:
                    continue
                new = (join(before[0], log_probs[piece]), [*before[1], piece])
                old = best[end]
                if old is None or rank(new[0], len(new[1])) > rank(old[0], len(old[1])):
                    best[end] = new
        last = best[-1]
        assert last is not None
        return finish(last[1], last[0])

    return cut


def _scored(pieces: list[str], log_probs: dict[str, float]) -> tuple[list[str], float]:
    return pieces, float(sum(log_probs[piece] for piece in pieces))


def _greedy(
    key: Callable[[str, dict[str, float]], float],
) -> Callable[[str, dict[str, float]], Any]:
    """Take the best piece at each place, by some measure, and never look back."""

    def cut(text: str, log_probs: dict[str, float]) -> Any:
        pieces, start = [], 0
        while start < len(text):
            ends = [e for e in range(start + 1, len(text) + 1) if text[start:e] in log_probs]
            end = max(ends, key=lambda e: key(text[start:e], log_probs))
            pieces.append(text[start:end])
            start = end
        return _scored(pieces, log_probs)

    return cut


def _greedy_from_the_end(text: str, log_probs: dict[str, float]) -> Any:
    pieces: list[str] = []
    end = len(text)
    while end > 0:
        start = min(s for s in range(end) if text[s:end] in log_probs)
        pieces.append(text[start:end])
        end = start
    return _scored(pieces[::-1], log_probs)


def _own_score_only(text: str, log_probs: dict[str, float]) -> Any:
    """Choose for each end the most probable piece that ends there."""
    pieces, end = [], len(text)
    while end > 0:
        starts = [s for s in range(end) if text[s:end] in log_probs]
        start = max(starts, key=lambda s: log_probs[text[s:end]])
        pieces.append(text[start:end])
        end = start
    return _scored(pieces[::-1], log_probs)


def _summed_probabilities(text: str, log_probs: dict[str, float]) -> Any:
    pieces, _ = _table(join=lambda before, own: before + exp(own))(text, log_probs)
    return _scored(pieces, log_probs)


def _fewest(text: str, log_probs: dict[str, float]) -> Any:
    pieces, _ = _table(join=lambda before, own: before - 1000.0 + own)(text, log_probs)
    return _scored(pieces, log_probs)


def _most(text: str, log_probs: dict[str, float]) -> Any:
    pieces, _ = _table(join=lambda before, own: before + 1000.0 + own)(text, log_probs)
    return _scored(pieces, log_probs)


def _by_mean(text: str, log_probs: dict[str, float]) -> Any:
    pieces, score = _table(rank=lambda score, n: score / n)(text, log_probs)
    return pieces, score


def _filled(start: float, first: float, missing: float | None = None) -> Callable[..., Any]:
    """Fill the table with a number of its own, or give a score to what is no piece."""

    def cut(text: str, log_probs: dict[str, float]) -> Any:
        best = [first] + [start] * len(text)
        came_from = [0] * (len(text) + 1)
        for end in range(1, len(text) + 1):
            for begin in range(end):
                own = log_probs.get(text[begin:end], missing)
                if own is not None and best[begin] + own > best[end]:
                    best[end], came_from[end] = best[begin] + own, begin
        pieces = []
        end = len(text)
        while end > 0:
            pieces.append(text[came_from[end] : end])
            end = came_from[end]
        return pieces[::-1], best[-1]

    return cut


def _no_single(text: str, log_probs: dict[str, float]) -> Any:
    return _filled(-inf, 0.0)(text, {p: score for p, score in log_probs.items() if len(p) > 1})


def _every_stretch(text: str, log_probs: dict[str, float]) -> Any:
    best = [0.0] + [-inf] * len(text)
    came_from = [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for start in range(end):
            if best[start] + log_probs[text[start:end]] > best[end]:
                best[end] = best[start] + log_probs[text[start:end]]
                came_from[end] = start
    pieces = []
    end = len(text)
    while end > 0:
        pieces.append(text[came_from[end] : end])
        end = came_from[end]
    return pieces[::-1], best[-1]


def _one_step_short(text: str, log_probs: dict[str, float]) -> Any:
    """Leave the last piece's score out."""
    pieces, score = _table()(text, log_probs)
    return pieces, score - log_probs[pieces[-1]]


def _merging(text: str, log_probs: dict[str, float]) -> Any:
    """Begin with characters and join two neighbours as long as that makes the sum larger."""
    pieces = list(text)

    def gain(i: int) -> float:
        own = [log_probs.get(piece, -100.0) for piece in pieces[i : i + 2]]
        return log_probs.get(pieces[i] + pieces[i + 1], -inf) - sum(own)

    while len(pieces) > 1:
        i = max(range(len(pieces) - 1), key=gain)
        if gain(i) <= 0:
            break
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
    return pieces, float(sum(log_probs.get(piece, -100.0) for piece in pieces))


def _longest_anywhere(text: str, log_probs: dict[str, float]) -> Any:
    """Take the longest piece that there is in the text, then do the same on both sides of it."""

    def cut(part: str) -> list[str]:
        found = [piece for piece in log_probs if piece in part]
        if not found:
            return [part] if part else []
        piece = max(found, key=len)
        before, _, behind = part.partition(piece)
        return [*cut(before), piece, *cut(behind)]

    pieces = cut(text)
    return pieces, float(sum(log_probs.get(piece, -100.0) for piece in pieces))


def _beam(width: int) -> Callable[[str, dict[str, float]], Any]:
    """Keep only the best few beginnings, however long each of them is."""

    def cut(text: str, log_probs: dict[str, float]) -> Any:
        kept: list[tuple[float, int, list[str]]] = [(0.0, 0, [])]
        done: list[State] = []
        while kept:
            longer = [
                (score + own, at + len(piece), [*pieces, piece])
                for score, at, pieces in kept
                for piece, own in log_probs.items()
                if text.startswith(piece, at)
            ]
            done += [(score, pieces) for score, at, pieces in longer if at == len(text)]
            kept = sorted((way for way in longer if way[1] < len(text)), reverse=True)[:width]
        if not done:
            return [], -inf
        score, pieces = max(done)
        return pieces, score

    return cut


def _a_piece_for_each_place(text: str, log_probs: dict[str, float]) -> Any:
    """Return the last piece of the best way to every place, without a walk back."""
    table = [_table()] * len(text)
    pieces = []
    for end in range(1, len(text) + 1):
        try:
            pieces.append(table[0](text[:end], log_probs)[0][-1])
        except AssertionError:
            continue
    return pieces, _table()(text, log_probs)[1]


# No drawn case has a text that one of these cuts in the best way.
_SHORT_CUTS = (
    _greedy(lambda piece, log_probs: len(piece)),
    _greedy(lambda piece, log_probs: log_probs[piece]),
    _greedy(lambda piece, log_probs: log_probs[piece] / len(piece)),
    _greedy_from_the_end,
    _longest_anywhere,
    _merging,
    _beam(1),
    _beam(2),
)

_VITERBI_WRONG = [
    Misconception(
        name="a table of zeros",
        wrong=_filled(0.0, 0.0),
        hint="Your table begins with 0 at every place. Log-probabilities are negative, so that no "
        "way is ever better than that, and the text stays whole. → With what should the best "
        "score of a place begin before any way to it is known?",
    ),
    Misconception(
        name="a table of −∞, from the start to the end",
        wrong=_filled(-inf, -inf),
        hint="No way reaches the end of the text with you: it's still at the −∞ with which it "
        "began. Usual causes: the start has no score to add to, no piece may begin at place "
        "0, or your loop ends before the last place. → What are the first and the last entry "
        "of your table when the loop is done?",
    ),
    Misconception(
        name="0 for what is no piece",
        wrong=_filled(-inf, 0.0, missing=0.0),
        hint="A stretch of text that isn't a piece has the score 0 with you, the best there can "
        "be: its probability would be 1. → What should happen to a stretch that isn't in "
        "`log_probs`?",
    ),
    Misconception(
        name="every stretch taken for a piece",
        wrong=_every_stretch,
        hint="You ask for the score of every stretch of the text, and not every one is a piece. → "
        "What should happen to a stretch that isn't in `log_probs`?",
    ),
    Misconception(
        name="the longest piece at each place",
        wrong=_greedy(lambda piece, log_probs: len(piece)),
        hint="You take the longest piece at each place, as WordPiece does. Unigram looks for the "
        "best sum over the whole text, and a long piece can be rare. → Which ways to reach the "
        "end of the text are there, and what does each sum to?",
    ),
    Misconception(
        name="the most probable piece at each place",
        wrong=_greedy(lambda piece, log_probs: log_probs[piece]),
        hint="You take the most probable piece at each place and never look back. A good "
        "beginning can leave a bad rest. → What is the best way to reach each place of the text, "
        "not only the next one?",
    ),
    Misconception(
        name="the longest piece from the end",
        wrong=_greedy_from_the_end,
        hint="You take the longest piece at the end of the text, then the longest before it. The "
        "largest sum can need a shorter one. → What is the best way to reach the place where "
        "that last piece begins?",
    ),
    Misconception(
        name="the piece's own score only",
        wrong=_own_score_only,
        hint="For each end you choose the piece with the best score of its own, and leave out "
        "what the way to its start has cost. → Which two numbers add up to the score of a way "
        "that ends with this piece?",
    ),
    Misconception(
        name="fewest pieces",
        wrong=_fewest,
        hint="You choose the way with the fewest pieces, whatever their scores. → Can two likely "
        "pieces together be more probable than a rare one?",
    ),
    Misconception(
        name="most pieces",
        wrong=_most,
        hint="Your way has as many pieces as can be, the shortest that there are. Either that is "
        "what you look for, or the last way found replaces the one before even if it's "
        "worse. Scores are negative, so that every piece costs something. → Which sum is the "
        "larger one, −7.5 or −10, and when should a new way replace the one that is there?",
    ),
    Misconception(
        name="the lowest score",
        wrong=lambda text, log_probs: (
            (found := _table(join=lambda b, o: b - o)(text, log_probs))[0],
            -found[1],
        ),
        hint="You take the way with the lowest sum, the least probable of all. A cost would be "
        "minimised, a log-probability is as good as it's large. → Which of −7.5 and −10 is the "
        "more probable?",
    ),
    Misconception(
        name="probabilities added",
        wrong=_summed_probabilities,
        hint="You choose by the sum of probabilities. Those of independent pieces are multiplied, "
        "and it's their logarithms that are added. → What would exp do to the numbers in "
        "`log_probs`, and is it needed?",
    ),
    Misconception(
        name="the best mean",
        wrong=_by_mean,
        hint="You choose by the mean score of a piece, so that ways with more pieces cost nothing. "
        "The probability of a cut is the product over all its pieces. → Is anything divided by "
        "the number of pieces?",
    ),
    Misconception(
        name="no piece of one character",
        wrong=_no_single,
        hint="You never try a piece of a single character: your last start is too early by one. "
        "→ Where does a piece of one character begin that ends at place `end`?",
    ),
    Misconception(
        name="no piece longer than two",
        wrong=_table(longest=2),
        hint="Pieces of more than two characters are never tried. → Where can a piece begin that "
        "ends at place `end`?",
    ),
    Misconception(
        name="places that can't be reached",
        wrong=_table(unreached=0.0),
        hint="Your score is too good, or pieces are missing: a place that no way leads to has the "
        "score 0, which beats every real one. → With what should the best score of a place begin "
        "before any way to it is known?",
    ),
    Misconception(
        name="the probability for a score",
        wrong=_table(finish=lambda pieces, score: (pieces, exp(score))),
        hint="Your pieces are right. The score is the probability, where its logarithm is asked "
        "for: a long text's probability soon is 0 in floats. → Which line undoes the logarithm?",
    ),
    Misconception(
        name="the score as a cost",
        wrong=_table(finish=lambda pieces, score: (pieces, -score)),
        valid_variant=True,
        hint="this exercise uses the sum of log-probabilities, which is negative; your pieces are "
        "right, and your score is its opposite. → Which sign does the docstring's example have?",
    ),
    Misconception(
        name="the mean for a score",
        wrong=_table(finish=lambda pieces, score: (pieces, score / len(pieces))),
        hint="Your pieces are right, but the score is their mean, not their sum. → Is anything "
        "divided by the number of pieces?",
    ),
    Misconception(
        name="the last piece doesn't count",
        wrong=_one_step_short,
        hint="Your pieces are right, but the score lacks that of the last one. → Which entry of "
        "your table belongs to the end of the text?",
    ),
    Misconception(
        name="from the last piece to the first",
        wrong=_table(finish=lambda pieces, score: (pieces[::-1], score)),
        hint="Your pieces come from the last to the first: that's the order in which one walks "
        "back through the table. → What's left to be done with the list after the walk?",
    ),
    Misconception(
        name="score first",
        wrong=_table(finish=lambda pieces, score: (score, pieces)),
        hint="What you return isn't the pieces first and the score second, as two results. → In "
        "which order does the docstring's Returns name them?",
    ),
    Misconception(
        name="joined into one string",
        wrong=_table(finish=lambda pieces, score: (" ".join(pieces), score)),
        hint="You return the pieces as one string with spaces, where a list is asked for. → What "
        "does the docstring say that the function returns?",
    ),
    Misconception(
        name="pieces only",
        wrong=_table(finish=lambda pieces, score: pieces),
        hint="You return the pieces and leave out the score. → Which two results does the "
        "docstring name?",
    ),
    Misconception(
        name="joined like BPE",
        wrong=_merging,
        hint="You begin with characters and join neighbours as long as that makes the sum larger, "
        "as BPE would. A step that first makes it smaller can lead to the best way. → What "
        "is the best way to reach each place of the text?",
    ),
    Misconception(
        name="the longest piece anywhere",
        wrong=_longest_anywhere,
        hint="You take the longest piece that is in the text, then go on at both sides of it. A "
        "long piece can be rare, or leave a bad rest. → Which ways to reach the end of the "
        "text are there, and what does each sum to?",
    ),
    Misconception(
        name="the best for each character",
        wrong=_greedy(lambda piece, log_probs: log_probs[piece] / len(piece)),
        hint="You take at each place the piece with the best score per character, and never look "
        "back. A good beginning can leave a bad rest. → What is the best way to reach each "
        "place of the text, not only the next one?",
    ),
    Misconception(
        name="two beginnings kept",
        wrong=_beam(2),
        hint="You keep a few of the best beginnings. Longer ones have smaller sums, so that a "
        "good long one is thrown away for short ones. → For which of the beginnings that end "
        "at the same place is one enough?",
    ),
    Misconception(
        name="a table of −100",
        wrong=_filled(-100.0, 0.0),
        hint="A fixed number such as −100 stands for what isn't reached yet, or for what is no "
        "piece. The best sum of a long text is lower than that, so that it stays whole. → "
        "Which number is smaller than any score?",
    ),
    Misconception(
        name="a piece for each place",
        wrong=_a_piece_for_each_place,
        hint="You return the last piece of the best way to every place. Only those count that lie "
        "on the best way to the end. → At which place does the walk back begin, and where "
        "does it go from there?",
    ),
    Misconception(
        name="no piece longer than three",
        wrong=_table(longest=3),
        hint="Pieces of more than three characters are never tried. → Where can a piece begin "
        "that ends at place `end`?",
    ),
    Misconception(
        name="no piece longer than four",
        wrong=_table(longest=4),
        hint="The longest pieces are never tried, those of more than four characters. → Where can "
        "a piece begin that ends at place `end`?",
    ),
]


def _viterbi_memo(text: str, log_probs: dict[str, float]) -> Any:
    @cache
    def best(end: int) -> tuple[float, tuple[str, ...]]:
        if end == 0:
            return 0.0, ()
        found = (-inf, ())
        for start in range(end):
            piece = text[start:end]
            if piece in log_probs:
                score, pieces = best(start)
                if score + log_probs[piece] > found[0]:
                    found = (score + log_probs[piece], (*pieces, piece))  # type: ignore[assignment]
        return found

    score, pieces = best(len(text))
    return list(pieces), score


def _viterbi_forward(text: str, log_probs: dict[str, float]) -> Any:
    """Go on from each place to all that can be reached from it, with costs."""
    costs = np.full(len(text) + 1, np.inf)
    costs[0] = 0.0
    before: dict[int, str] = {}
    for start in range(len(text)):
        for piece, score in log_probs.items():
            end = start + len(piece)
            if text.startswith(piece, start) and costs[start] - score < costs[end]:
                costs[end] = costs[start] - score
                before[end] = piece
    pieces: list[str] = []
    end = len(text)
    while end:
        pieces = [before[end], *pieces]
        end -= len(before[end])
    return tuple(pieces), -costs[-1]


def _viterbi_from_the_end(text: str, log_probs: dict[str, float]) -> Any:
    best: dict[int, State] = {len(text): (0.0, [])}
    for start in reversed(range(len(text))):
        ways = [
            (log_probs[text[start:end]] + best[end][0], [text[start:end], *best[end][1]])
            for end in range(start + 1, len(text) + 1)
            if text[start:end] in log_probs and end in best
        ]
        if ways:
            best[start] = max(ways)
    return best[0][1], best[0][0]


_VITERBI = Exercise(
    id="03.viterbi",
    function="viterbi",
    reference=viterbi,
    guarded=(unigram_module.viterbi,),
    cases=_VITERBI_CASES,
    returns=("pieces", "score"),
    misconceptions=_VITERBI_WRONG,
    alternatives=[
        Alternative(name="recursion with a memory", right=_viterbi_memo),
        Alternative(name="forwards, with costs in an array", right=_viterbi_forward),
        Alternative(name="from the end of the text", right=_viterbi_from_the_end),
    ],
    hints=[
        "Forget the rest of the text for a moment: what is the best way to cut its first one, two, "
        "three characters? How does the answer for three follow from those before it?",
        "Keep a list `best` with one score for each place, from 0 to len(text). The best way to "
        "`end` has a last piece text[start:end], and before it the best way to `start`.",
        "best[end] is the largest best[start] + log_probs[text[start:end]]; places that can't be "
        "reached have −∞. Write down the start that won, and walk back from the end.",
    ],
    points=4,
    minutes=25,
    difficulty=3,
    time_limit=5.0,
    if_too_slow="With 60 characters there are up to 2⁵⁹ ways to cut, too many to try all. → Which "
    "question do you answer again and again that could be answered once and written down?",
)


# -- 03.bug_encoder --------------------------------------------------------------------------------


def encode_ids(text: str, merges: list[tuple[bytes, bytes]]) -> list[int]:
    """Return the ids of a text: byte-level BPE, and a pre-token begins at every space.

    Parameters
    ----------
    text : str
    merges : list of pairs of bytes
        In the order in which they were learned.

    Returns
    -------
    list of int
        0 to 255 for single bytes, 256 and so on for what the merges make.
    """
    return _encoded()(text, merges)


def encode_ids_broken(text: str, merges: list[tuple[bytes, bytes]]) -> list[int]:
    """Return ids, with three faults."""
    id_of = {bytes([b]): b for b in range(256)}
    for left, right in merges:
        id_of[left + right] = len(id_of)
    ids = []
    for word in text.split():
        symbols = [bytes([ord(character)]) for character in word]
        i = 0
        while i < len(symbols) - 1:
            if (symbols[i], symbols[i + 1]) in merges:
                symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
                i = max(i - 1, 0)
            else:
                i += 1
        ids += [id_of[symbol] for symbol in symbols]
    return ids


def _at_spaces(text: str) -> list[str]:
    """Split before every space."""
    head, *rest = text.split(" ")
    return [head, *(f" {word}" for word in rest)]


def _utf8(word: str) -> list[bytes]:
    return [bytes([b]) for b in word.encode("utf-8")]


def _code_points(word: str) -> list[bytes]:
    return [bytes([ord(character)]) for character in word]


def _ranked(symbols: Sequence[bytes], merges: list[tuple[bytes, bytes]]) -> list[bytes]:
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    now: tuple[Any, ...] = tuple(symbols)
    while True:
        pairs = [pair for pair in pairwise(now) if pair in ranks]
        if not pairs:
            return list(now)
        now = _merge(now, min(pairs, key=lambda pair: ranks[pair]))


def _leftmost(symbols: Sequence[bytes], merges: list[tuple[bytes, bytes]]) -> list[bytes]:
    now = list(symbols)
    i = 0
    while i < len(now) - 1:
        if (now[i], now[i + 1]) in merges:
            now[i : i + 2] = [now[i] + now[i + 1]]
            i = max(i - 1, 0)
        else:
            i += 1
    return now


def _highest(symbols: Sequence[bytes], merges: list[tuple[bytes, bytes]]) -> list[bytes]:
    return _ranked(symbols, merges[::-1])


def _encoded(
    *,
    split: Callable[[str], list[str]] = _at_spaces,
    cut: Callable[[str], list[bytes]] = _utf8,
    merge: Callable[[Sequence[bytes], list[tuple[bytes, bytes]]], list[bytes]] = _ranked,
    first_id: int = 256,
    finish: Callable[[list[int]], Any] = lambda ids: ids,
) -> Callable[[str, list[tuple[bytes, bytes]]], Any]:
    """Return the encoder with some steps replaced."""

    def encode(text: str, merges: list[tuple[bytes, bytes]]) -> Any:
        id_of = {bytes([b]): b for b in range(256)}
        for i, (left, right) in enumerate(merges):
            id_of[left + right] = first_id + i
        return finish([id_of[s] for word in split(text) if word for s in merge(cut(word), merges)])

    return encode


def _apart(text: str) -> list[str]:
    """Make every space a piece of its own."""
    head, *rest = text.split(" ")
    return [head, *(part for word in rest for part in (" ", word))]


def _after_spaces(text: str) -> list[str]:
    """Let a space end a piece."""
    *rest, tail = text.split(" ")
    return [*(f"{word} " for word in rest), tail]


def _space_before_all(text: str) -> list[str]:
    return [f" {word}" for word in text.split(" ")]


def _one_space_before(text: str) -> list[str]:
    """Put one space before every word but the first, however many there were."""
    head, *rest = text.split() or [""]
    return [head, *(f" {word}" for word in rest)]


def _one_space_kept(text: str) -> list[str]:
    return re.findall(r" ?\S+", text)


def _white_space_before(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+", text)


def _runs_kept(text: str) -> list[str]:
    """Split as GPT-2 does, but for letters and digits: all but the last space are one part."""
    return re.findall(r" ?\S+|\s+(?!\S)|\s+", text)


def _spaces_dropped(text: str) -> list[str]:
    return text.split(" ")


def _characters_as_bytes(word: str) -> list[bytes]:
    return [character.encode("utf-8") for character in word]


def _latin_or_mark(word: str) -> list[bytes]:
    return [bytes([b]) for b in word.encode("latin-1", errors="replace")]


def _ascii_only(word: str) -> list[bytes]:
    return [bytes([b]) for b in word.encode("ascii", errors="ignore")]


def _random_bytes(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 38])
    merges = [
        (b"b", b"c"),
        (b"a", b"b"),
        (b" ", b"a"),
        (b"ab", b"a"),
        (b"c", b" "),
        (b"\xc3", b"\xa9"),
    ]
    words = ["".join(rng.choice(list("abcé"), size=int(rng.integers(2, 6)))) for _ in range(4)]
    return {"text": f"abc {'  '.join(words)} bcé ab ", "merges": merges}


_IDS_CASES = [
    Case(
        name="a word",
        inputs={"text": "bugs", "merges": [(b"u", b"g"), (b"b", b"ug")]},
        shows="the broken program can do this one",
    ),
    Case(
        name="pairs that share a byte",
        inputs={
            "text": "abc-fed-ghi-hi-klm-nopq",
            "merges": [(a.encode(), b.encode()) for a, b in _SHARED],
        },
        shows="the rank decides: not the place, not the alphabet",
    ),
    Case(
        name="two words",
        inputs={"text": "bug bug", "merges": [(b"b", b"u"), (b"bu", b"g"), (b"bug", b" ")]},
        shows="a space begins a pre-token, and no merge reaches across",
    ),
    Case(
        name="a newline and a hyphen",
        inputs={
            "text": "b\nB-b",
            "merges": [(b"b", b"\n"), (b"b\n", b"B"), (b"\n", b"B"), (b"B", b"-")],
        },
        shows="characters like any other: no pre-token begins or ends there",
    ),
    Case(
        name="more than one space",
        inputs={
            "text": " a   b\n c ",
            "merges": [(b" ", b" "), (b"\n", b" "), (b" ", b"b")],
        },
        shows="every one of them is in the text",
    ),
    Case(
        name="é",
        inputs={"text": "été", "merges": [(b"\xc3", b"\xa9"), (b"t", b"\xc3\xa9")]},
        shows="two bytes in UTF-8, which a merge can join",
    ),
    Case(
        name="€",
        inputs={"text": "5€", "merges": [(b"\xe2", b"\x82")]},
        shows="three bytes",
    ),
    Case(name="all of it, drawn", inputs=_random_bytes),
]


def _numbers_as_symbols(text: str, merges: list[tuple[bytes, bytes]]) -> list[int]:
    """Go through bytes, which gives numbers, and look these up among bytes."""
    id_of: dict[Any, int] = {bytes([b]): b for b in range(256)}
    return [id_of[symbol] for word in _at_spaces(text) for symbol in word.encode("utf-8")]


_split_up: Callable[[str], list[str]] = str.split


def _longest(symbols: Sequence[bytes], merges: list[tuple[bytes, bytes]]) -> list[bytes]:
    return _longest_first(b"".join(symbols), {a + b for a, b in merges})


def _longest_first(data: bytes, known: set[bytes]) -> list[bytes]:
    pieces, start = [], 0
    while start < len(data):
        end = len(data)
        while end > start + 1 and data[start:end] not in known:
            end -= 1
        pieces.append(data[start:end])
        start = end
    return pieces


def _chosen(
    choose: Callable[[list[Pair]], Pair], rounds: int = 100
) -> Callable[[Sequence[bytes], list[tuple[bytes, bytes]]], list[bytes]]:
    """Merge the pair that is chosen among those in the list, round after round."""

    def merge(symbols: Sequence[bytes], merges: list[tuple[bytes, bytes]]) -> list[bytes]:
        now: tuple[Any, ...] = tuple(symbols)
        for _ in range(rounds):
            found = [pair for pair in pairwise(now) if pair in merges]
            if not found:
                break
            now = _merge(now, choose(found))
        return list(now)

    return merge


def _lowest_once(symbols: Sequence[bytes], merges: list[tuple[bytes, bytes]]) -> list[bytes]:
    return _chosen(lambda found: min(found, key=merges.index), rounds=1)(symbols, merges)


_IDS_WRONG = [
    Misconception(
        name="the program as it was",
        wrong=encode_ids_broken,
        program=as_cell(encode_ids_broken, "encode_ids"),
        hint="This is what the broken program returns. One fault at a time: it merges the leftmost "
        "pair that it finds in the list. → In abc, with b c learned before a b, which pair has to "
        "be merged first?",
    ),
    Misconception(
        name="spaces are mended",
        wrong=_encoded(cut=_code_points, merge=_leftmost),
        hint="Spaces are where they belong now. Two faults are left, and one is the order of "
        "merges. → In abc, with b c learned before a b, which pair has to be merged first?",
    ),
    Misconception(
        name="bytes are mended",
        wrong=_encoded(split=_split_up, merge=_leftmost),
        hint="The bytes are those of UTF-8 now. Two faults are left, and one is the order of "
        "merges. → In abc, with b c learned before a b, which pair has to be merged first?",
    ),
    Misconception(
        name="the order is mended",
        wrong=_encoded(split=_split_up, cut=_code_points),
        hint="The rank decides now. Two faults are left. The first one that shows: your ids lack "
        "the space, and decoded they aren't the text. → What does `split()` do with the white "
        "space that it splits at?",
    ),
    Misconception(
        name="only spaces are lost",
        wrong=_encoded(split=_split_up),
        hint="Spaces and newlines are lost, so that decoded ids aren't the text. → What does "
        "`split()` do with the white space that it splits at?",
    ),
    Misconception(
        name="only the bytes are wrong",
        wrong=_encoded(cut=_code_points),
        hint="You make one byte of each character, by its number in Unicode. For é that's not "
        "what UTF-8 has, and € has a number too large. → Which method of a string gives its "
        "bytes?",
    ),
    Misconception(
        name="only the order is wrong",
        wrong=_encoded(merge=_leftmost),
        hint="You merge the leftmost pair that is in the list, whenever it was learned. → In abc, "
        "with b c learned before a b, which pair has to be merged first?",
    ),
    Misconception(
        name="only the spaces themselves are lost",
        wrong=_encoded(split=_spaces_dropped),
        hint="You split at spaces, and the spaces are gone, so that decoded ids aren't the text. "
        "→ To which pre-token does each space belong?",
    ),
    Misconception(
        name="a symbol for each character",
        wrong=_encoded(cut=_characters_as_bytes),
        hint="Your symbols are whole characters, of one byte or more. € has an id only if merges "
        "have made it of its three bytes. → Of how many symbols does é consist before the first "
        "merge?",
    ),
    Misconception(
        name="a symbol for each character, spaces lost",
        wrong=_encoded(split=_split_up, cut=_characters_as_bytes),
        hint="Your ids lack the white space at which `split()` splits; and your symbols are whole "
        "characters, where € has three bytes. → What does `split()` do with the white space that "
        "it splits at?",
    ),
    Misconception(
        name="numbers in the place of bytes",
        wrong=_numbers_as_symbols,
        hint="Your symbols aren't bytes of length 1: a loop over bytes gives whole numbers, and "
        "so does `tuple` of bytes; a loop over a string gives strings. Neither `merges` nor "
        "`id_of` know these. → What makes bytes of length 1 of a number?",
    ),
    Misconception(
        name="no merges",
        wrong=_encoded(merge=lambda symbols, merges: list(symbols)),
        hint="Your ids are those of single bytes: the text would come back, but nothing was "
        "merged, and it's as long as it can be. → Where do the merges come in, once the bytes are "
        "right?",
    ),
    Misconception(
        name="the text not split",
        wrong=_encoded(split=lambda text: [text]),
        hint="No space is lost, but the text isn't split any more, so that a merge reaches from "
        "one word into the next: bug and the space behind it. → Where does each pre-token begin?",
    ),
    Misconception(
        name="the text not split, the order still wrong",
        wrong=_encoded(split=lambda text: [text], merge=_leftmost),
        hint="No space is lost, but merges now reach across words, and the leftmost one is still "
        "applied first. → In abc, with b c learned before a b, which pair has to be merged first?",
    ),
    Misconception(
        name="one space for many",
        wrong=_encoded(split=_one_space_before),
        hint="Between two words you put one space, whatever white space there was, and at the "
        'ends of the text it\'s lost. → What does `split(" ")` give for two spaces, as against '
        "`split()`?",
    ),
    Misconception(
        name="one space for many, the order still wrong",
        wrong=_encoded(split=_one_space_before, merge=_leftmost),
        hint="Between two words you put one space, whatever white space there was; and the "
        "leftmost merge is still applied first. → In abc, with b c learned before a b, which pair "
        "has to be merged first?",
    ),
    Misconception(
        name="a space before the first word",
        wrong=_encoded(split=_space_before_all),
        hint="You put a space before the first word as well, where the text has none. → How does "
        "the first pre-token differ from the others?",
    ),
    Misconception(
        name="a word with one space",
        wrong=_encoded(split=_one_space_kept),
        hint="You look for words with a space before them, and what is neither is lost: newlines, "
        "and all but one of several spaces. → Which characters of the text are in none of your "
        "pre-tokens?",
    ),
    Misconception(
        name="a word with all white space before it",
        wrong=_encoded(split=_white_space_before),
        hint="Nothing is lost, but all white space before a word is in one pre-token with it, so "
        "that merges join spaces of different ones. → Where does a pre-token begin, by the "
        "docstring?",
    ),
    Misconception(
        name="runs of spaces",
        wrong=_encoded(split=_runs_kept),
        valid_variant=True,
        hint="this exercise uses a pre-token for every space; you keep spaces together up to the "
        "last one, and newlines apart from words, as GPT-2's pattern does. → Where does a "
        "pre-token begin, by the docstring?",
    ),
    Misconception(
        name="a space is a pre-token of its own",
        wrong=_encoded(split=_apart),
        hint="No space is lost, but each is a pre-token by itself, so that no merge joins it to "
        "its word. → Which pre-token does a space belong to, by the docstring?",
    ),
    Misconception(
        name="a space ends a pre-token",
        wrong=_encoded(split=_after_spaces),
        hint="No space is lost, but you let it end a pre-token, where it should begin the next. → "
        "Of which pre-tokens does 'bug bug' consist?",
    ),
    Misconception(
        name="Latin-1 and a question mark",
        wrong=_encoded(cut=_latin_or_mark),
        hint="You encode as Latin-1 and put a question mark for what it doesn't have: € can't be "
        "decoded any more. → Which encoding has every character?",
    ),
    Misconception(
        name="ASCII and nothing else",
        wrong=_encoded(cut=_ascii_only),
        hint="You drop characters that aren't ASCII, and nobody gets them back. → Which encoding "
        "has every character?",
    ),
    Misconception(
        name="the highest rank first",
        wrong=_encoded(merge=_highest),
        hint="Now the pair that was learned last is merged first. → Is the pair that was "
        "learned first that of the largest or of the smallest rank?",
    ),
    Misconception(
        name="ids from 0",
        wrong=_encoded(first_id=0),
        hint="The merges' ids begin at 0 and are also those of bytes: ids 0 to 255 are taken. The "
        "broken program had this right. → Which id is the first that is free?",
    ),
    Misconception(
        name="ids from 257",
        wrong=_encoded(first_id=257),
        hint="The ids of what the merges make are too large by 1. The broken program had this "
        "right. → With ids 0 to 255 taken, which is the first that is free?",
    ),
    Misconception(
        name="split at all white space",
        wrong=_encoded(split=lambda text: re.findall(r"\s?\S+|\s", text)),
        hint="No character is lost, but a pre-token also begins at a newline, and here only a "
        "space begins one: in b, newline, B all three are one pre-token. → Which characters "
        "does `\\\\s` stand for, and `\\\\S`?",
    ),
    Misconception(
        name="newlines apart",
        wrong=_encoded(split=lambda text: re.findall(r" ?\S+|\s", text)),
        hint="No character is lost, but a newline is a pre-token by itself, where it's a "
        "character like any other here. → Which characters does `\\s` stand for, and `\\S`?",
    ),
    Misconception(
        name="lines first",
        wrong=_encoded(
            split=lambda text: [
                p for line in text.splitlines(keepends=True) for p in _at_spaces(line)
            ]
        ),
        hint="No character is lost, but a pre-token ends after a newline, where it's a character "
        "like any other here. → What begins a pre-token, by the docstring?",
    ),
    Misconception(
        name="lines first, newlines lost",
        wrong=_encoded(
            split=lambda text: [p for line in text.split("\n") for p in _at_spaces(line)]
        ),
        hint="Newlines are lost, because you split the text into lines. → What begins a "
        "pre-token, by the docstring?",
    ),
    Misconception(
        name="split at punctuation too",
        wrong=_encoded(split=lambda text: re.findall(r" ?\w+|\W", text)),
        hint="No character is lost, but newlines and hyphens are pre-tokens by themselves. → What "
        "begins a pre-token, by the docstring?",
    ),
    Misconception(
        name="a space only before a word",
        wrong=_encoded(split=lambda text: re.findall(" ?[^ ]+", text)),
        hint="Of several spaces only the last is in your pre-tokens, and one at the end is lost. "
        'The empty strings that `split(" ")` gives stand for spaces, and so do places where '
        "a regular expression asks for something that isn't one. → Of which pre-tokens does "
        "a text of two spaces consist?",
    ),
    Misconception(
        name="all spaces before a word",
        wrong=_encoded(split=lambda text: re.findall(" *[^ ]+| +", text)),
        hint="No character is lost, but all spaces before a word are in one pre-token with it; "
        "every space begins a new one here. → Which pre-tokens does a text of two spaces "
        "have?",
    ),
    Misconception(
        name="runs of spaces, and one before a word",
        wrong=_encoded(split=lambda text: re.findall(r" ?\S+|\s+", text)),
        hint="No character is lost, but a run of white space is one pre-token with you, and the "
        "word behind it gets none of it. → Which pre-tokens does a text of two spaces have?",
    ),
    Misconception(
        name="stripped",
        wrong=_encoded(split=lambda text: _at_spaces(text.strip())),
        hint="White space at the ends of the text is gone. → Which line takes it away?",
    ),
    Misconception(
        name="small letters",
        wrong=lambda text, merges: _encoded()(text.lower(), merges),
        hint="Capitals come back as small letters: an encoder loses nothing. → Which line changes "
        "the text?",
    ),
    Misconception(
        name="the last pre-token only",
        wrong=_encoded(split=lambda text: _at_spaces(text)[-1:]),
        hint="Only the last pre-token's ids are in your result: the list begins anew with each. → "
        "Before which loop should the empty list be made?",
    ),
    Misconception(
        name="the first pre-token only",
        wrong=_encoded(split=lambda text: [next(p for p in _at_spaces(text) if p)]),
        hint="Only the first pre-token's ids are in your result: the function returns before it "
        "has seen the others. → How far must `return` be indented to come after the loop?",
    ),
    Misconception(
        name="the rightmost pair",
        wrong=_encoded(merge=_chosen(lambda found: found[-1])),
        hint="You merge the rightmost pair that is in the list, whenever it was learned. → In "
        "abc, with b c learned before a b, which pair has to be merged first? And in ghi, "
        "with g h before h i?",
    ),
    Misconception(
        name="the first in the alphabet",
        wrong=_encoded(merge=_chosen(min)),
        hint="You merge the pair that comes first in the alphabet: `min` without a key compares "
        "the pairs themselves. → By what should `min` compare them, so that the one learned "
        "first wins?",
    ),
    Misconception(
        name="the last in the alphabet",
        wrong=_encoded(merge=_chosen(max)),
        hint="You merge the pair that comes last in the alphabet: `max` without a key compares "
        "the pairs themselves. → By what should pairs be compared, so that the one learned "
        "first wins?",
    ),
    Misconception(
        name="the longest piece first",
        wrong=_encoded(merge=_longest),
        hint="You look up the longest piece that the merges make, as WordPiece does. With BPE a "
        "piece comes about by its merges, one after another. → In abc, with b c learned "
        "before a b, which pair has to be merged first?",
    ),
    Misconception(
        name="one merge a pre-token",
        wrong=_encoded(merge=_lowest_once),
        hint="You merge one pair in each pre-token and stop, or look for pairs only once. → Which "
        "pairs does bugs have after u g has become ug?",
    ),
    Misconception(
        name="code points modulo 256",
        wrong=_encoded(cut=lambda word: [bytes([ord(c) % 256]) for c in word]),
        hint="You make one byte of each character's number, and what doesn't fit into a byte is "
        "cut off. → Which method of a string gives its bytes?",
    ),
    Misconception(
        name="UTF-16",
        wrong=_encoded(cut=lambda word: [bytes([b]) for b in word.encode("utf-16-le")]),
        hint="Your bytes are those of UTF-16: two for every letter, one of them 0. → Which "
        "encoding does the exercise name?",
    ),
    Misconception(
        name="GPT-2's pattern, nearly",
        wrong=_encoded(split=lambda text: re.findall(r" ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+", text)),
        valid_variant=True,
        hint="this exercise uses a simpler rule than GPT-2: only a space begins a pre-token; you "
        "also split at punctuation and newlines, and keep runs of spaces together. → Where "
        "does a pre-token begin, by the docstring?",
    ),
    Misconception(
        name="one white space before a word",
        wrong=_encoded(split=lambda text: re.findall(r"\s?\S+", text)),
        hint="You look for words with one white space before them. All the rest is lost, such as "
        "one of two spaces, and a newline begins a pre-token as a space does. → Which "
        "characters of the text are in none of your pre-tokens?",
    ),
    Misconception(
        name="all white space apart",
        wrong=_encoded(split=lambda text: re.split(r"(\s)", text)),
        hint="No character is lost, but spaces and newlines are pre-tokens by themselves, so that "
        "no merge joins them to a word. → To which pre-token does a space belong, and to "
        "which a newline?",
    ),
    Misconception(
        name="the most frequent pair",
        wrong=_encoded(merge=_chosen(lambda found: max(found, key=found.count))),
        hint="You merge the pair that is most frequent in the pre-token, as if you trained anew. "
        "→ In abc, with b c learned before a b, which pair has to be merged first?",
    ),
]


def _ids_regex(text: str, merges: list[tuple[bytes, bytes]]) -> Any:
    ids: list[int] = []
    for word in re.findall(r" [^ ]*|[^ ]+", text):
        symbols = [bytes((b,)) for b in word.encode()]
        while True:
            found = [(merges.index(p), p) for p in pairwise(symbols) if p in merges]
            if not found:
                break
            pair = min(found)[1]
            symbols = _merge_slices_of_bytes(symbols, pair)
        ids.extend(s[0] if len(s) == 1 else 256 + _index(merges, s) for s in symbols)
    return ids


def _merge_slices_of_bytes(symbols: list[bytes], pair: Pair) -> list[bytes]:
    out = list(symbols)
    i = 0
    while i < len(out) - 1:
        if (out[i], out[i + 1]) == pair:
            out[i : i + 2] = [b"".join(pair)]
        i += 1
    return out


def _index(merges: list[tuple[bytes, bytes]], token: bytes) -> int:
    return [a + b for a, b in merges].index(token)


def _ids_of_ids(text: str, merges: list[tuple[bytes, bytes]]) -> Any:
    """Merge ids in the place of bytes, all as one array with borders."""
    tokens = [bytes([b]) for b in range(256)]
    pairs: dict[tuple[int, int], int] = {}
    for a, b in merges:
        pairs[tokens.index(a), tokens.index(b)] = len(tokens)
        tokens.append(a + b)
    out: list[int] = []
    piece: list[int] = []

    def close() -> None:
        now = list(piece)
        while True:
            found = [pairs[p] for p in pairwise(now) if p in pairs]
            if not found:
                break
            new = min(found)
            i = 0
            while i < len(now) - 1:
                if pairs.get((now[i], now[i + 1])) == new:
                    now[i : i + 2] = [new]
                i += 1
        out.extend(now)
        piece.clear()

    for byte in text.encode("utf-8"):
        if byte == ord(" "):
            close()
        piece.append(byte)
    close()
    return np.array(out)


def _ids_one_at_a_time(text: str, merges: list[tuple[bytes, bytes]]) -> Any:
    words = text.replace(" ", "\0 ").split("\0")
    ids: tuple[int, ...] = ()
    for word in words:
        now = _utf8(word)
        while pairs := [p for p in pairwise(now) if p in merges]:
            best = min(pairs, key=merges.index)
            at = list(pairwise(now)).index(best)
            now[at : at + 2] = [best[0] + best[1]]
        ids += tuple(
            symbol[0] if len(symbol) == 1 else 256 + _index(merges, symbol) for symbol in now
        )
    return ids


_BUG_ENCODER = Exercise(
    id="03.bug_encoder",
    function="encode_ids",
    reference=encode_ids,
    cases=_IDS_CASES,
    returns=("ids",),
    misconceptions=_IDS_WRONG,
    alternatives=[
        Alternative(name="a regular expression", right=_ids_regex),
        Alternative(name="ids merged in the place of bytes", right=_ids_of_ids),
        Alternative(name="one merge at a time, as a tuple", right=_ids_one_at_a_time),
    ],
    hints=[
        "Ids must give back the text. Decode what the program returns for two words, for two "
        "spaces, for é: what is missing, what is another?",
        "Three questions, one for each line that makes symbols: where do spaces go in `split()`; "
        "what is `ord` of é, and what are its bytes; which of two pairs that are in the list is "
        "merged?",
        'Split so that every space begins a pre-token. Take its bytes from `encode("utf-8")`. Of '
        "all its pairs that are in the list, merge the one that stands first there, until none is "
        "left. Your `segment` does that, given a list of bytes of length 1; of bytes themselves "
        "`tuple` would make numbers.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [
    _COUNT_PAIRS,
    _MERGE_PAIR,
    _TRAIN,
    _SEGMENT,
    _DECODE,
    _LONGEST_MATCH,
    _VITERBI,
    _BUG_ENCODER,
]

BROKEN = {"03.bug_encoder": encode_ids_broken}
