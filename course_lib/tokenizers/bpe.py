"""Byte-pair encoding: which pairs to merge, learned from words and how often they occur.

Two trainers return the same list: `train_naive` reads like the definition and counts everything
again before each merge; `train` keeps the counts and touches the words that a merge changes.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice, pairwise
from typing import Any, Literal, TypeVar, get_args

from course_lib.progress_bar import progress_bar
from course_lib.validation import check_at_least

__all__ = ["Ties", "apply_merges", "count_pairs", "merge_pair", "train", "train_naive"]

Symbol = TypeVar("Symbol", str, bytes)
Pair = tuple[Symbol, Symbol]

Ties = Literal["first", "greatest"]
"""Which of several equally frequent pairs is merged.

``"first"``, the course's own rule: the pair that is met first when the words are read in their
order, each from its start, as they are cut at that moment. ``"greatest"``: the lexicographically
greatest pair, left symbols compared first; it doesn't depend on the order of the words.
"""


def count_pairs(words: Mapping[Any, int]) -> dict[tuple[Any, Any], int]:
    """Count the adjacent pairs inside words.

    Pairs that overlap count each: ``aaa`` holds the pair (a, a) twice, though it has room for one
    merge. Nothing is counted across words.

    Parameters
    ----------
    words : mapping of words to whole numbers of at least 1
        How often each word occurs. A word is a string, whose symbols are its characters; bytes,
        whose symbols are single bytes; or a tuple of such symbols of any length above 0.

    Returns
    -------
    dict of pairs to ints
        In the order in which the pairs are met.

    Raises
    ------
    ValueError
        If `words` isn't such a mapping, or mixes strings and bytes.

    References
    ----------
    Sennrich, Haddow and Birch (2016), *Neural machine translation of rare words with subword
    units*, Algorithm 1, ``get_stats``.

    Examples
    --------
    >>> count_pairs({"hug": 10, "pug": 5})
    {('h', 'u'): 10, ('u', 'g'): 15, ('p', 'u'): 5}
    >>> count_pairs({b"aaa": 1})
    {(b'a', b'a'): 2}
    """
    return _count(_cut_words(words))


def merge_pair(symbols: Sequence[Symbol], pair: Pair[Symbol]) -> tuple[Symbol, ...]:
    """Join every occurrence of a pair into one symbol, from left to right.

    Parameters
    ----------
    symbols : sequence of str or of bytes
        A plain string or bytes are taken symbol by symbol.
    pair : tuple of two symbols

    Returns
    -------
    tuple of symbols

    Raises
    ------
    ValueError
        If `symbols` or `pair` isn't of that kind.

    References
    ----------
    Sennrich, Haddow and Birch (2016), Algorithm 1, ``merge_vocab``.

    Examples
    --------
    >>> merge_pair("hugs", ("u", "g"))
    ('h', 'ug', 's')
    >>> merge_pair("aaa", ("a", "a"))
    ('aa', 'a')
    """
    cut = _symbols("symbols", symbols)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError(f"pair must be a tuple of two symbols; got {pair!r}")
    kind = type(_symbols("pair", pair)[0])
    if cut and not isinstance(cut[0], kind):
        wanted, got = type(cut[0]).__name__, kind.__name__
        raise ValueError(f"pair must hold {wanted}, as symbols does; got {got}")
    return _merge(cut, pair)


def train_naive(
    words: Mapping[Any, int],
    n_merges: int,
    *,
    ties: Ties = "first",
    min_count: int = 1,
    progress: bool = False,
) -> list[tuple[Any, Any]]:
    """Learn merges naively: count all pairs, merge the most frequent, repeat.

    Each merge reads all the words again, so the time grows with their number times `n_merges`.
    `train` returns the same list faster.

    Parameters
    ----------
    words : mapping of words to whole numbers of at least 1
        As in `count_pairs`.
    n_merges : int
        How many merges to learn. The list is shorter where pairs run out.
    ties : {"first", "greatest"}, default "first"
        Which of several equally frequent pairs is merged: the one that is met first when the words
        are read in their order, as they are cut at that moment, or the lexicographically greatest.
    min_count : int, default 1
        Stop before a pair that is rarer than this.
    progress : bool, default False
        Show a bar.

    Returns
    -------
    list of pairs
        In the order in which they were learned.

    Raises
    ------
    ValueError
        If an argument isn't as described.

    References
    ----------
    Sennrich, Haddow and Birch (2016), *Neural machine translation of rare words with subword
    units*, Algorithm 1. Their words end in a mark of their own, ours don't.

    Examples
    --------
    >>> train_naive({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 4)
    [('u', 'g'), ('u', 'n'), ('h', 'ug'), ('p', 'un')]
    """
    cut = _cut_words(words)
    _check_training(n_merges, ties, min_count)
    return _take(_learn(cut, ties), n_merges, min_count, progress)


def train(
    words: Mapping[Any, int],
    n_merges: int,
    *,
    ties: Ties = "first",
    min_count: int = 1,
    progress: bool = False,
) -> list[tuple[Any, Any]]:
    """Learn the merges that `train_naive` learns, in a fraction of its time.

    An index says which words hold a pair, so that a merge touches these alone, and of the counts
    those of the merge's neighbours. The most frequent pair is on top of a heap, whose entries are
    brought up to date only when they get there.

    Parameters
    ----------
    words : mapping of words to whole numbers of at least 1
        As in `count_pairs`.
    n_merges : int
        How many merges to learn. The list is shorter where pairs run out.
    ties : {"first", "greatest"}, default "first"
        As in `train_naive`.
    min_count : int, default 1
        Stop before a pair that is rarer than this.
    progress : bool, default False
        Show a bar.

    Returns
    -------
    list of pairs
        In the order in which they were learned.

    Raises
    ------
    ValueError
        If an argument isn't as described.

    References
    ----------
    Sennrich, Haddow and Birch (2016), *Neural machine translation of rare words with subword
    units*, section 3.2, on keeping counts and an index of pairs.

    Examples
    --------
    >>> train({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 4)
    [('u', 'g'), ('u', 'n'), ('h', 'ug'), ('p', 'un')]
    >>> train({"ab": 1, "cd": 1}, 1), train({"ab": 1, "cd": 1}, 1, ties="greatest")
    ([('a', 'b')], [('c', 'd')])
    """
    cut = _cut_words(words)
    _check_training(n_merges, ties, min_count)
    return _take(_learn_fast(cut, ties), n_merges, min_count, progress)


def apply_merges(
    symbols: Sequence[Symbol],
    merges: Sequence[Pair[Symbol]],
) -> tuple[Symbol, ...]:
    """Cut a word as the merges say: the one that was learned first comes first.

    Of the pairs that stand side by side, the one of the lowest rank is merged wherever it occurs,
    until none is left that was learned. Where a pair is in the list twice, its first place counts.

    Parameters
    ----------
    symbols : sequence of str or of bytes
        A plain string or bytes are taken symbol by symbol.
    merges : sequence of pairs
        In the order in which they were learned; a pair's place is its rank.

    Returns
    -------
    tuple of symbols

    Raises
    ------
    ValueError
        If `symbols` or `merges` isn't of that kind.

    References
    ----------
    Sennrich, Haddow and Birch (2016), *Neural machine translation of rare words with subword
    units*, section 3.2: learned operations are applied to a new word.

    Examples
    --------
    >>> merges = [("u", "g"), ("u", "n"), ("h", "ug"), ("p", "un")]
    >>> apply_merges("bugs", merges), apply_merges("hugs", merges)
    (('b', 'ug', 's'), ('hug', 's'))
    """
    cut = _symbols("symbols", symbols)
    return _apply(cut, _ranks(merges, cut))


class _Corpus:
    """Words cut into symbols, the counts of their pairs, and where each pair may be found."""

    def __init__(self, words: list[tuple[tuple[Any, ...], int]]) -> None:
        self.words = [list(symbols) for symbols, _ in words]
        self.frequencies = [n for _, n in words]
        self.counts: dict[tuple[Any, Any], int] = {}
        # Numbers of words in rising order. Those from which a pair has vanished may stay behind.
        self.where: dict[tuple[Any, Any], list[int]] = {}
        for w, (symbols, n) in enumerate(words):
            for pair in pairwise(symbols):
                if pair in self.counts:
                    self.counts[pair] += n
                    if self.where[pair][-1] != w:
                        self.where[pair].append(w)
                else:
                    self.counts[pair] = n
                    self.where[pair] = [w]

    def merge(self, pair: tuple[Any, Any]) -> list[tuple[Any, Any]]:
        """Merge a pair everywhere and return the pairs that are now where they were not before."""
        left, right = pair
        merged = left + right
        change: dict[tuple[Any, Any], int] = {}
        grown: dict[tuple[Any, Any], None] = {}  # in the order of the words

        def grow(pair: tuple[Any, Any], n: int, w: int) -> None:
            change[pair] = change.get(pair, 0) + n
            grown[pair] = None
            where = self.where.setdefault(pair, [])
            if not where or where[-1] < w:
                where.append(w)
            elif where[-1] > w:  # a second way of making one symbol: the pair was there before
                insort(where, w)

        for w in self.where.pop(pair):
            symbols, n = self.words[w], self.frequencies[w]
            kept: list[Any] = []
            i, last = 0, len(symbols) - 1
            while i <= last:
                if symbols[i] != left or i == last or symbols[i + 1] != right:
                    kept.append(symbols[i])
                    i += 1
                    continue
                if kept:
                    before = kept[-1]
                    change[before, left] = change.get((before, left), 0) - n
                    grow((before, merged), n, w)
                kept.append(merged)
                i += 2
                if i <= last:
                    after = symbols[i]
                    change[right, after] = change.get((right, after), 0) - n
                    grow((merged, after), n, w)
            self.words[w] = kept
        del self.counts[pair]
        change.pop(pair, None)  # an overlapping pair takes away from itself
        for other, n in change.items():
            count = self.counts.get(other, 0) + n
            if count:
                self.counts[other] = count
            else:
                self.counts.pop(other, None)
                self.where.pop(other, None)
        return [other for other in grown if other in self.counts]

    def first(self, pair: tuple[Any, Any]) -> tuple[int, int]:
        """Return where a pair is met first: the word's number, and how far into the word."""
        left, right = pair
        where = self.where[pair]
        for k, w in enumerate(where):
            symbols, start = self.words[w], 0
            for i in range(len(symbols) - 1):
                if symbols[i] == left and symbols[i + 1] == right:
                    del where[:k]  # where it has vanished it doesn't come back unannounced
                    return w, start
                start += len(symbols[i])
        raise AssertionError(f"{pair} is counted but not there")


class _Queue:
    """Pairs by count, then by the tie rule.

    A count can only fall, and a first place only move back, unless the pair is pushed anew. So an
    entry is never worse than what it stands for, and it is enough to look at those on top.
    Places in a word are counted in characters or bytes: merges before them don't move them.
    """

    def __init__(self, corpus: _Corpus, ties: Ties) -> None:
        self.corpus = corpus
        self.ties = ties
        self.reversed: dict[Any, tuple[int, ...]] = {}
        self.heap = [self._entry(pair, exact=False) for pair in corpus.counts]
        heapq.heapify(self.heap)

    def push(self, pair: tuple[Any, Any]) -> None:
        heapq.heappush(self.heap, self._entry(pair, exact=False))

    def pop(self) -> tuple[Any, Any] | None:
        """Return the pair to merge, or None where no pair is left."""
        while self.heap:
            entry = self.heap[0]
            pair = entry[-1]
            if pair not in self.corpus.counts:
                heapq.heappop(self.heap)
                continue
            now = self._entry(pair, exact=True)
            if now == entry:
                heapq.heappop(self.heap)
                return pair
            heapq.heapreplace(self.heap, now)
        return None

    def _entry(self, pair: tuple[Any, Any], exact: bool) -> tuple[Any, ...]:
        count = self.corpus.counts[pair]
        if self.ties == "greatest":
            return (-count, self._reverse(pair[0]), self._reverse(pair[1]), pair)
        place = self.corpus.first(pair) if exact else (self.corpus.where[pair][0], 0)
        return (-count, *place, pair)

    def _reverse(self, symbol: Any) -> tuple[int, ...]:
        """Return a key that sorts symbols from the greatest to the smallest."""
        if symbol not in self.reversed:
            codes = symbol if isinstance(symbol, bytes) else map(ord, symbol)
            self.reversed[symbol] = (*(-code for code in codes), 1)  # "ab" comes before "a"
        return self.reversed[symbol]


# ---- The algorithm itself, on words that are cut and checked; chapter 03 prints these four -------


def _count(words: list[tuple[tuple[Any, ...], int]]) -> dict[Any, int]:
    """Count the pairs of symbols that stand side by side."""
    counts: dict[Any, int] = {}
    for symbols, n in words:
        for pair in pairwise(symbols):
            counts[pair] = counts.get(pair, 0) + n
    return counts


def _merge(symbols: tuple[Any, ...], pair: tuple[Any, Any]) -> tuple[Any, ...]:
    """Join a pair wherever it stands, from left to right."""
    merged = []
    i = 0
    while i < len(symbols):
        if symbols[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def _learn(
    words: list[tuple[tuple[Any, ...], int]], ties: str = "first"
) -> Iterator[tuple[Any, int]]:
    """Yield merge after merge, and how often its pair occurred."""
    while counts := _count(words):
        pairs = counts if ties == "first" else sorted(counts, reverse=True)
        pair = max(pairs, key=lambda pair: counts[pair])  # the first of equals
        yield pair, counts[pair]
        words = [(_merge(symbols, pair), n) for symbols, n in words]


def _apply(symbols: tuple[Any, ...], ranks: dict[Any, int]) -> tuple[Any, ...]:
    """Merge the pair of the lowest rank, until no pair has one."""
    while pairs := [pair for pair in pairwise(symbols) if pair in ranks]:
        symbols = _merge(symbols, min(pairs, key=lambda pair: ranks[pair]))
    return symbols


# ---- What stands around it -----------------------------------------------------------------------


def _learn_fast(
    words: list[tuple[tuple[Any, ...], int]], ties: Ties
) -> Iterator[tuple[tuple[Any, Any], int]]:
    """Yield what `_learn` yields."""
    corpus = _Corpus(words)
    queue = _Queue(corpus, ties)
    while (pair := queue.pop()) is not None:
        yield pair, corpus.counts[pair]
        for grown in corpus.merge(pair):
            queue.push(grown)


def _take(
    learned: Iterator[tuple[tuple[Any, Any], int]], n_merges: int, min_count: int, progress: bool
) -> list[tuple[Any, Any]]:
    """Return the first merges, up to one that is too rare."""
    merges: list[tuple[Any, Any]] = []
    # without a bar tqdm isn't needed
    with progress_bar(n_merges) if progress else nullcontext() as bar:
        for pair, count in islice(learned, n_merges):
            if count < min_count:
                break
            merges.append(pair)
            if bar is not None:
                bar.update()
    return merges


def _symbols(name: str, word: Any) -> tuple[Any, ...]:
    """Cut a word into its symbols."""
    if isinstance(word, str):
        return tuple(word)
    if isinstance(word, bytes):
        return tuple(word[i : i + 1] for i in range(len(word)))
    cut = tuple(word) if isinstance(word, Sequence) else ()
    kinds = {type(symbol) for symbol in cut}
    if not isinstance(word, Sequence) or not (kinds <= {str} or kinds <= {bytes}) or not all(cut):
        raise ValueError(
            f"{name} must be a string, bytes, or a sequence of non-empty strings or of non-empty "
            f"bytes; got {word!r}"
        )
    return cut


def _cut_words(words: Mapping[Any, int]) -> list[tuple[tuple[Any, ...], int]]:
    """Check words and their frequencies, and cut them into symbols."""
    if not isinstance(words, Mapping):
        raise ValueError(
            "words must be a mapping from words to how often they occur; "
            f"got {type(words).__name__}"
        )
    cut = []
    kinds = set()
    for word, n in words.items():
        symbols = _symbols("a word of words", word)
        check_at_least(f"words[{word!r}]", n, 1)
        if symbols:
            kinds.add(type(symbols[0]))
        cut.append((symbols, int(n)))  # numpy's whole numbers may overflow
    if len(kinds) > 1:
        raise ValueError("words must hold strings alone or bytes alone; got both")
    return cut


def _ranks(merges: Any, symbols: tuple[Any, ...]) -> dict[tuple[Any, Any], int]:
    """Check merges that are to be applied to symbols, and return each pair's place in the list."""
    if isinstance(merges, str | bytes) or not isinstance(merges, Sequence):
        raise ValueError(f"merges must be a sequence of pairs; got {type(merges).__name__}")
    ranks: dict[tuple[Any, Any], int] = {}
    for rank, pair in enumerate(merges):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"merges[{rank}] must be a tuple of two symbols; got {pair!r}")
        kind = type(_symbols(f"merges[{rank}]", pair)[0])
        if symbols and not isinstance(symbols[0], kind):
            wanted = type(symbols[0]).__name__
            raise ValueError(
                f"merges[{rank}] must hold {wanted}, as symbols does; got {kind.__name__}"
            )
        ranks.setdefault(pair, rank)
    return ranks


def _check_training(n_merges: Any, ties: Any, min_count: Any) -> None:
    check_at_least("n_merges", n_merges, 0)
    check_at_least("min_count", min_count, 1)
    if ties not in get_args(Ties):
        raise ValueError(f"ties must be {' or '.join(map(repr, get_args(Ties)))}; got {ties!r}")
