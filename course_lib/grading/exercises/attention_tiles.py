"""The exercises of chapter 14 about the tiles of a table of scores that is never there.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right. All is
written out: the course's own functions refuse to work while a student's are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import flash

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TILED", "TILES", "tile_kinds", "tiled_attention"]


# -- 14.tiles --------------------------------------------------------------------------------------


def tile_kinds(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> NDArray:
    """Tell which tiles may be skipped, which need a mask, and which are seen whole.

    Parameters
    ----------
    n_q, n_k : int
        Queries and keys; the queries are the last n_q of n_k tokens.
    block_q, block_k : int
        Rows and columns of a tile. The last tiles may be smaller.
    window : int, optional
        How many tokens a query sees, itself among them; None for all up to itself.

    Returns
    -------
    int array, a row for each strip of queries, a column for each strip of keys
        0 hidden whole, 1 in part, 2 seen whole.
    """
    y: NDArray = _kinds()(n_q, n_k, block_q, block_k, window)
    return y


Span = tuple[int, int]


def _span(i: int, block: int, n: int) -> Span:
    """Return the first and the last of a strip."""
    return i * block, min((i + 1) * block, n) - 1


def _uncut(i: int, block: int, n: int) -> Span:
    return i * block, (i + 1) * block - 1


def _one_more(i: int, block: int, n: int) -> Span:
    return i * block, min((i + 1) * block, n)


def _up(n: int, block: int) -> int:
    return -(-n // block)


def _kind(back_least: int, back_most: int, window: int | None) -> int:
    """Tell from how far back a tile's keys lie, at least and at most."""
    far = np.inf if window is None else window - 1
    if back_most < 0 or back_least > far:
        return 0
    return 2 if back_least >= 0 and back_most <= far else 1


def _kinds(
    *,
    past: Callable[[int, int], int] = lambda n_q, n_k: n_k - n_q,
    rows: Callable[[int, int, int], Span] = _span,
    columns: Callable[[int, int, int], Span] = _span,
    count: Callable[[int, int], int] = _up,
    kind: Callable[[int, int, int | None], int] = _kind,
    judge: Callable[[Span, Span, int | None], int] | None = None,
    window_of: Callable[[int | None], int | None] = lambda window: window,
    swap: bool = False,
    finish: Callable[[NDArray], Any] = lambda table: table,
) -> Callable[..., Any]:
    """Return the table of kinds with some steps replaced."""

    def kinds(n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None) -> Any:
        if swap:
            block_q, block_k = block_k, block_q
        table = np.zeros((count(n_q, block_q), count(n_k, block_k)), int)
        for i, j in np.ndindex(*table.shape):
            first, last = (x + past(n_q, n_k) for x in rows(i, block_q, n_q))
            low, high = columns(j, block_k, n_k)
            if judge is None:
                table[i, j] = kind(first - high, last - low, window_of(window))
            else:
                table[i, j] = judge((first, last), (low, high), window_of(window))
        return finish(table)

    return kinds


def _sizes(n_q: int, n_k: int, block_q: int, block_k: int, **more: Any) -> dict[str, Any]:
    return {"n_q": n_q, "n_k": n_k, "block_q": block_q, "block_k": block_k, **more}


_TILES_CASES = [
    case("4 tokens in tiles of 2 × 2 | what is above the diagonal is hidden", _sizes(4, 4, 2, 2)),
    case("12 tokens in tiles of 2 × 4 | they needn't be square", _sizes(12, 12, 2, 4)),
    case("11 tokens in tiles of 4 × 3 | the last ones are smaller", _sizes(11, 11, 4, 3)),
    case("5 queries behind 9 tokens | the first query sees ten keys", _sizes(5, 14, 2, 3)),
    case(
        "14 tokens in tiles of 6 × 2, a window of 2 | old keys are hidden, too",
        _sizes(14, 14, 6, 2, window=2),
    ),
    case("9 queries behind 5 tokens, a window of 6 | all of it", _sizes(9, 14, 4, 3, window=6)),
    case(
        "12 tokens in tiles of 2 × 6, a window of 1 | each sees itself",
        _sizes(12, 12, 2, 6, window=1),
    ),
    case(
        "65,536 tokens in tiles of 4,096 | without a table of them",
        _sizes(65_536, 65_536, 4096, 4096, window=16_384),
    ),
]


def _by_rule(
    hidden: Callable[..., bool], whole: Callable[..., bool]
) -> Callable[[int, int, int | None], int]:
    """Return a kind from rules on how far back the keys lie and how far one may look."""

    def kind(least: int, most: int, window: int | None) -> int:
        far = np.inf if window is None else window - 1
        if hidden(least, most, far):
            return 0
        return 2 if whole(least, most, far) else 1

    return kind


def _usual(least: int, most: int, far: float) -> bool:
    return most < 0 or least > far


def _inside(least: int, most: int, far: float) -> bool:
    return least >= 0 and most <= far


Pair = tuple[int, int]
_NEAREST, _FURTHEST, _FIRSTS, _LASTS = (0, 1), (1, 0), (0, 0), (1, 1)  # of (queries, keys)


def _by_pairs(
    *,
    ahead: Pair = _FURTHEST,
    old: Pair = _NEAREST,
    none_ahead: Pair = _NEAREST,
    none_old: Pair = _FURTHEST,
) -> Callable[[Span, Span, int | None], int]:
    """Return a kind for which a single pair decides each of four questions."""

    def judge(queries: Span, keys: Span, window: int | None) -> int:
        far = np.inf if window is None else window - 1
        back = {(i, j): queries[i] - keys[j] for i, j in np.ndindex(2, 2)}
        if back[ahead] < 0 or back[old] > far:
            return 0
        return 2 if back[none_ahead] >= 0 and back[none_old] <= far else 1

    return judge


def _four_corners(queries: Span, keys: Span, window: int | None) -> int:
    """Look at the four corners of a tile, and at nothing between them."""
    far = np.inf if window is None else window - 1
    seen = [0 <= query - key <= far for query in queries for key in keys]
    return 2 if all(seen) else int(any(seen))


def _two_queries(queries: Span, keys: Span, window: int | None) -> int:
    """Ask the first and the last query of a strip what they see, and none between them."""
    far = np.inf if window is None else window - 1
    if not any(keys[0] <= query and query - keys[1] <= far for query in queries):
        return 0
    return _kind(queries[0] - keys[1], queries[1] - keys[0], window)


def _first_moved(n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None) -> Any:
    """Move a strip's first query to its place, and forget its last."""
    rows = lambda i, block, n: (i * block + n_k - n_q, _span(i, block, n)[1])  # noqa: E731
    return _kinds(past=lambda n_q, n_k: 0, rows=rows)(n_q, n_k, block_q, block_k, window)


def _one_more_and_cut_off(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Take all keys for the window where there is none, and one query too many."""
    far = n_k if window is None else window
    return _kinds(rows=_one_more)(n_q, n_k, block_q, block_k, far)


def _by_numbers(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> NDArray:
    """Compare the numbers of the strips, as if tiles were square."""
    i, j = np.ogrid[: _up(n_q, block_q), : _up(n_k, block_k)]
    table = np.where(j < i, 2, np.where(j == i, 1, 0))
    if window is not None:
        far = _up(window, block_k)
        table = np.where(i - j > far, 0, np.where((i - j == far) & (table > 0), 1, table))
    return table


def _uncut_and_cut_off(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Take all keys for the window where there is none."""
    far = n_k if window is None else window
    return _kinds(rows=_uncut)(n_q, n_k, block_q, block_k, far)


_TILES_WRONG = [
    wrong(
        _kinds(past=lambda n_q, n_k: 0),
        "queries that begin at 0 | Your queries are the first tokens, not the last. → At which "
        "place does query 0 stand, behind n_k − n_q tokens?",
    ),
    wrong(
        _kinds(past=lambda n_q, n_k: n_q - n_k),
        "moved the other way | You move the queries by n_q − n_k, which is negative, in front of "
        "all keys. → At which place does query 0 stand, behind n_k − n_q tokens?",
    ),
    wrong(
        _kinds(past=lambda n_q, n_k: n_k - n_q + 1),
        "one place too far | Your queries stand one place behind their own keys. → At which place "
        "does the last of all queries stand, among n_k keys?",
    ),
    wrong(
        _first_moved,
        "only the first query moved | You add n_k − n_q to the first query of a strip, and not to "
        "its last. → At which place does the last query of all stand?",
    ),
    wrong(
        _kinds(past=lambda n_q, n_k: n_k),
        "all keys before the queries | Your queries stand behind all keys. Their own keys are "
        "among these. → At which place does the last query stand?",
    ),
    wrong(
        _kinds(swap=True),
        "rows and columns of a tile swapped | You cut queries by `block_k` and keys by `block_q`. "
        "→ Which of them is the height of a tile?",
    ),
    wrong(
        _by_numbers,
        "strips compared by number | You compare the numbers of the strips, which is right for "
        "square tiles and as many queries as keys. → Which tokens are in strip i, and which in "
        "strip j?",
    ),
    wrong(
        _kinds(count=lambda n, block: n // block),
        "smaller tiles left out | You leave the last tiles out where a block doesn't divide the "
        "length. → How many strips do 11 tokens need, 4 in each?",
    ),
    wrong(
        _kinds(count=lambda n, block: n // block + 1),
        "one strip too many | You have a strip more than needed where a block divides the length. "
        "→ How is a quotient rounded up?",
    ),
    wrong(
        _kinds(rows=_uncut),
        "queries that aren't there | Your last strip of queries is as high as all others, though "
        "fewer are left. → What is the last query of the last strip?",
    ),
    wrong(
        _uncut_and_cut_off,
        "a strip that is higher than it is | Your last strip of queries is as high as all others, "
        "and its last query, which isn't there, is too far from the first keys. → What is the last "
        "query of the last strip?",
    ),
    wrong(
        _kinds(columns=_uncut),
        "keys that aren't there | Your last strip of keys is as wide as all others, though fewer "
        "are left. → What is the last key of the last strip?",
    ),
    wrong(
        _kinds(rows=_uncut, columns=_uncut),
        "all tiles of one size | Your last tiles are as large as all others, though fewer queries "
        "and keys are left. → Where do the last strips end?",
    ),
    wrong(
        _kinds(columns=_one_more),
        "the last key one too far | Your strips of keys end one place too far, at the first key of "
        "the next. → What is the last of the keys from 0 on, if there are 3?",
    ),
    wrong(
        _kinds(rows=_one_more),
        "the last query one too far | Your strips of queries end one place too far, at the first "
        "query of the next. → What is the last of the queries from 0 on, if there are 2?",
    ),
    wrong(
        _one_more_and_cut_off,
        "the last query one too far, and cut off | Your strips of queries end one place too far, "
        "and the query there is too far from the first keys, even without a window. → What is the "
        "last of the queries from 0 on, if there are 2?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: a > far, _inside)),
        "nothing ahead skipped | You skip what is too old, and tiles that lie ahead of every query "
        "get a 1. → When is a tile's first key ahead of all queries of a strip?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: a < 0 or a > far, _inside)),
        "judged by the first query | You skip tiles as soon as their first query doesn't see the "
        "last key. A later one may see something. → Which query and which key are nearest to each "
        "other, with respect to the diagonal?",
    ),
    wrong(
        _kinds(judge=_by_pairs(ahead=_FIRSTS)),
        "judged by the first query and key | You skip a tile whose first key is ahead of its first "
        "query. A later query of the strip may see it. → Which query of a strip sees furthest "
        "ahead?",
    ),
    wrong(
        _kinds(judge=_by_pairs(ahead=_LASTS)),
        "judged by the last query and key | You skip a tile whose last key is ahead of its last "
        "query. Keys before that one may be seen. → Which key of a tile comes into sight first?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: b <= 0 or a > far, _inside)),
        "the diagonal's corner hidden | You skip a tile where the only pair to be seen is a query "
        "and its own key. → Is it `<` or `<=`?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: b < -1 or a > far, _inside)),
        "one beyond the diagonal | You keep a tile whose first key is the one behind its last "
        "query. → Up to which key does a query see?",
    ),
    wrong(
        _kinds(kind=_by_rule(_usual, lambda a, b, far: a > 0 and b <= far)),
        "whole tiles that touch the diagonal | You want a mask for tiles whose first query sees "
        "just all of the keys. → Is it `>` or `>=`?",
    ),
    wrong(
        _kinds(kind=_by_rule(_usual, lambda a, b, far: a >= -1 and b <= far)),
        "whole one too early | You call a tile whole whose first query doesn't see the last key. → "
        "Which pair of a tile is hidden first?",
    ),
    wrong(
        _kinds(kind=_by_rule(_usual, lambda a, b, far: b >= 0 and b <= far)),
        "whole by the last query | You call a tile whole if its last query sees the first key. → "
        "Which pair of a tile is hidden first?",
    ),
    wrong(
        _kinds(judge=_by_pairs(none_ahead=_FIRSTS)),
        "whole by the first query and key | You call a tile whole if its first query sees its "
        "first key. → Which pair of a tile is hidden first?",
    ),
    wrong(
        _kinds(judge=_by_pairs(none_ahead=_LASTS)),
        "whole by the last query and key | You call a tile whole if its last query sees its last "
        "key. → What does the first query of such a tile see of it?",
    ),
    wrong(
        _kinds(judge=_two_queries),
        "the first and the last query | You ask what the first and the last query of a strip see. "
        "With a narrow window, only those between them may see a tile. → How far back are a tile's "
        "keys, at least and at most?",
    ),
    wrong(
        _kinds(judge=_four_corners),
        "four corners | You look at the four corners of a tile. The band that a window leaves may "
        "run through a tile and touch none of them. → How far back are a tile's keys, at least and "
        "at most?",
    ),
    wrong(
        _kinds(window_of=lambda window: None),
        "no window | You never use the window, so that nothing is too old. → How far back may a "
        "key lie?",
    ),
    wrong(
        _kinds(window_of=lambda window: window or 0),
        "None for 0 | Without a window, your program takes it for 0 wide: no tile is seen whole. → "
        "How far back may a key lie where `window` is None?",
    ),
    wrong(
        _kinds(window_of=lambda window: None if window is None else window + 1),
        "a window one too wide | Your queries see `window` tokens beside themselves. The query is "
        "one of the tokens that `window` counts. → How far back does a window of 1 reach?",
    ),
    wrong(
        _kinds(window_of=lambda window: None if window is None else max(window - 1, 1)),
        "a window one too narrow | Your queries see `window − 1` tokens, with themselves. → How "
        "far back does a window of 1 reach, and of 2?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: b < 0, _inside)),
        "old tiles not skipped | You skip what lies ahead, and tiles that are too old for every "
        "query get a 1. → When is a tile's newest key too old for its first query?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: b < 0 or a > far + 1, _inside)),
        "old tiles skipped one too late | You keep a tile whose newest key has just left the "
        "window of its first query. → How far back does a window of 1 reach?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: b < 0 or b > far, _inside)),
        "skipped once something is too old | You skip a tile as soon as its last query no longer "
        "sees its first key. → When does nobody see anything of it?",
    ),
    wrong(
        _kinds(judge=_by_pairs(old=_LASTS)),
        "too old for the last query | You skip a tile whose newest key is too old for the strip's "
        "last query. The queries before it see further back. → Which query of a strip loses sight "
        "of a key last?",
    ),
    wrong(
        _kinds(judge=_by_pairs(old=_FIRSTS)),
        "the oldest key too old | You skip a tile whose oldest key is too old for the strip's "
        "first query. → Which key of a tile stays in sight longest?",
    ),
    wrong(
        _kinds(judge=_by_pairs(none_old=_FIRSTS)),
        "whole by the first query's window | You call a tile whole if its oldest key is in the "
        "window of its first query. The window moves on with each query. → Which query is the "
        "first to lose sight of that key?",
    ),
    wrong(
        _kinds(judge=_by_pairs(none_old=_LASTS)),
        "whole by the newest key | You call a tile whole if its newest key is in the window of its "
        "last query. → Which key of a tile leaves a window first?",
    ),
    wrong(
        _kinds(kind=_by_rule(_usual, lambda a, b, far: a >= 0)),
        "a window that cuts nothing | You call tiles whole that the window cuts. → Which pair of a "
        "tile is the first to be too far apart?",
    ),
    wrong(
        _kinds(kind=_by_rule(_usual, lambda a, b, far: a >= 0 and b <= far + 1)),
        "whole one too late | You call a tile whole whose oldest key has just left the window of "
        "its last query. → How far back does a window of 1 reach?",
    ),
    wrong(
        _kinds(kind=_by_rule(lambda a, b, far: a > far or b < -far, lambda a, b, far: b <= far)),
        "not causal | Your queries see what comes after them, up to the end. → Up to which key "
        "may a query see, with a window or without?",
    ),
    wrong(
        _kinds(finish=lambda table: np.where(table > 0, 3 - table, 0)),
        "1 and 2 changed places | You write 1 for whole tiles and 2 for those in part. → Which "
        "number says that a mask is needed?",
    ),
    wrong(
        _kinds(finish=lambda table: 2 - table),
        "0 and 2 changed places | You write 0 for whole tiles and 2 for those that are hidden. → "
        "Which tiles may be skipped?",
    ),
    wrong(
        _kinds(finish=lambda table: table > 0),
        "seen or not | You tell tiles apart that are seen or aren't. → Which of the visible ones "
        "need no mask?",
    ),
    wrong(
        _kinds(finish=lambda table: table.T),
        "the other way round | Your table has a row for each strip of keys. → Which strips are the "
        "rows to be?",
    ),
    wrong(
        _kinds(finish=lambda table: np.argwhere(table > 0)),
        "a list of tiles | You list the visible tiles, as `visible_tiles` does. → What is to stand "
        "in row i and column j of a table?",
    ),
]  # fmt: skip


def _by_corners(n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None) -> Any:
    """Say whether each of a tile's two extreme pairs is seen."""
    first = np.arange(0, n_q, block_q)
    last = np.minimum(first + block_q, n_q) - 1 + n_k - n_q
    first = first + n_k - n_q
    low = np.arange(0, n_k, block_k)
    high = np.minimum(low + block_k, n_k) - 1
    some = low <= last[:, None]
    whole = high <= first[:, None]
    if window is not None:
        some &= high > first[:, None] - window
        whole &= low > last[:, None] - window
    return some.astype(int) + whole


def _query_by_query(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Count each tile's visible pairs, one query after another."""
    tops = np.arange(0, n_k, block_k)
    ends = np.minimum(tops + block_k, n_k)
    table = []
    for start in range(0, n_q, block_q):
        own = np.arange(start, min(start + block_q, n_q))[:, None] + n_k - n_q
        since = 0 if window is None else np.maximum(own - window + 1, 0)
        seen = (np.minimum(ends, own + 1) - np.maximum(tops, since)).clip(0).sum(axis=0)
        table.append(np.where(seen == 0, 0, np.where(seen == len(own) * (ends - tops), 2, 1)))
    return np.stack(table)


def _kinds_in_lists(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> Any:
    table = []
    for first in range(n_k - n_q, n_k, block_q):
        row = []
        for low in range(0, n_k, block_k):
            last, high = min(first + block_q, n_k) - 1, min(low + block_k, n_k) - 1
            far = n_k if window is None else window
            if low > last or high <= first - far:
                row.append(0)
            else:
                row.append(2 if high <= first and low > last - far else 1)
        table.append(row)
    return table


def _kinds_by_torch(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None = None
) -> Any:
    import torch

    first = torch.arange(n_k - n_q, n_k, block_q)[:, None]
    last = (first + block_q).clamp(max=n_k) - 1
    low = torch.arange(0, n_k, block_k)
    high = (low + block_k).clamp(max=n_k) - 1
    far = n_k if window is None else window
    some = (low <= last) & (high > first - far)
    return some.long() + ((high <= first) & (low > last - far))


TILES = Exercise(
    id="14.tiles",
    function="tile_kinds",
    reference=tile_kinds,
    guarded=[flash.visible_tiles],
    cases=_TILES_CASES,
    misconceptions=_TILES_WRONG,
    alternatives=[
        Alternative(name="two corners, all tiles at once", right=_by_corners),
        Alternative(name="pairs counted", right=_query_by_query),
        Alternative(name="lists", right=_kinds_in_lists),
        Alternative(name="torch", right=_kinds_by_torch, backend="torch"),
    ],
    hints=[
        "A pair of a query and a key is seen if the key is 0 to window − 1 places back. In a tile "
        "the distances are all whole numbers from a least to a greatest.",
        "The least distance is that of the first query and the last key, the greatest that of the "
        "last query and the first key. Mind that query i stands at place i + n_k − n_q.",
        "Hidden whole: greatest < 0 or least ≥ window. Seen whole: least ≥ 0 and greatest < "
        "window. All others in part. The last of a strip is min(start + block, n) − 1.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 14.tiled --------------------------------------------------------------------------------------


def tiled_attention(
    q: NDArray,
    k: NDArray,
    v: NDArray,
    block_q: int,
    block_k: int,
    window: int | None = None,
) -> tuple[NDArray, NDArray]:
    """Attend causally, within a window, one tile at a time.

    Parameters
    ----------
    q : float array, (..., n_q, d)
        Of the last n_q tokens.
    k, v : float arrays, (..., n_k, d) and (..., n_k, d_v)
    block_q, block_k : int
        Rows and columns of a tile.
    window : int, optional
        How many tokens a query sees, itself among them; None for all up to itself.

    Returns
    -------
    output : float array, (..., n_q, d_v)
    lse : float array, (..., n_q)
        Logarithm of the sum of exponentials of each query's scores.
    """
    output, lse = _tiled()(q, k, v, block_q, block_k, window)
    return output, lse


def _needed(own: NDArray, n_k: int, block_k: int, window: int | None) -> range:
    """Return where the tiles begin of which some query of a strip sees something."""
    first = 0 if window is None else max(own[0] - window + 1, 0)
    return range(first // block_k * block_k, min(own[-1] + 1, n_k), block_k)


def _within(place: NDArray, own: NDArray, window: int | None) -> NDArray:
    return (place <= own) & (place > own - (np.inf if window is None else window))


def _step(
    state: tuple[NDArray, NDArray, NDArray], scores: NDArray, values: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    m, l, o = state
    new_m = np.maximum(m, scores.max(axis=-1))
    shift = np.where(new_m == -np.inf, 0.0, new_m)
    shrink, e = np.exp(m - shift), np.exp(scores - shift[..., None])
    return new_m, l * shrink + e.sum(axis=-1), o * shrink[..., None] + e @ values


def _stepping(
    *,
    peak: Callable[[NDArray, NDArray], NDArray] = lambda m, scores: np.maximum(
        m, scores.max(axis=-1)
    ),
    shrink_l: Callable[[NDArray], NDArray] = lambda f: f,
    shrink_o: Callable[[NDArray], NDArray] = lambda f: f,
    guard: bool = True,
) -> Callable[..., Any]:
    """Return the step with something replaced."""

    def step(state: Any, scores: NDArray, values: NDArray) -> Any:
        m, l, o = state
        new_m = peak(m, scores)
        shift = np.where(new_m == -np.inf, 0.0, new_m) if guard else new_m
        factor, e = np.exp(m - shift), np.exp(scores - shift[..., None])
        return (
            new_m,
            l * shrink_l(factor) + e.sum(axis=-1),
            o * shrink_o(factor)[..., None] + e @ values,
        )

    return step


def _tiled(
    *,
    past: Callable[[int, int], int] = lambda n_q, n_k: n_k - n_q,
    visits: Callable[..., Iterable[int]] = _needed,
    sees: Callable[[NDArray, NDArray, int | None], NDArray] = _within,
    scale: Callable[[int], float] = sqrt,
    hidden: float = -np.inf,
    step: Callable[..., Any] = _step,
    start_m: float = -np.inf,
    finish: Callable[[NDArray, NDArray], NDArray] = lambda o, l: o / l[..., None],
    lse: Callable[[NDArray, NDArray], NDArray] = lambda m, l: m + np.log(l),
    strips: Callable[[int, int], range] = lambda n_q, block_q: range(0, n_q, block_q),
    returns: Callable[..., Any] = lambda output, lse: (output, lse),
) -> Callable[..., Any]:
    """Return the two loops with something replaced."""

    def attend(
        q: NDArray, k: NDArray, v: NDArray, block_q: int, block_k: int, window: int | None = None
    ) -> Any:
        n_q, n_k = q.shape[-2], k.shape[-2]
        output, sums = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(q.shape[:-1])
        for start in strips(n_q, block_q):
            rows = slice(start, min(start + block_q, n_q))
            queries = q[..., rows, :]
            own = np.arange(rows.start, rows.stop) + past(n_q, n_k)
            m = np.full(queries.shape[:-1], start_m)
            state = m, np.zeros_like(m), np.zeros((*m.shape, v.shape[-1]))
            with np.errstate(all="ignore"):
                for at in visits(own, n_k, block_k, window):
                    place = np.arange(at, min(at + block_k, n_k))
                    keys, values = k[..., place, :], v[..., place, :]
                    scores = queries @ keys.swapaxes(-2, -1) / scale(q.shape[-1])
                    seen = sees(place, own[:, None], window)
                    state = step(state, np.where(seen, scores, hidden), values)
                m, l, o = state
                output[..., rows, :], sums[..., rows] = finish(o, l), lse(m, l)
        return returns(output, sums)

    return attend


def _given(
    *lead: int,
    n_q: int,
    n_k: int,
    d: int,
    d_v: int,
    blocks: tuple[int, int],
    far: bool = False,
    **more: Any,
) -> Callable[[int], dict[str, Any]]:
    """Draw tokens; `far`, with scores near 2000 in the first head and −2000 in the others."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 18, *lead, n_q, n_k, d])
        given: dict[str, Any] = {"q": draw(rng, *lead, n_q, d), "k": draw(rng, *lead, n_k, d)}
        if far:
            given |= {"q": given["q"] + 20, "k": given["k"] - 50}
            given["q"][0] *= -1
        given["v"] = draw(rng, *lead, n_k, d_v) + 0.5
        return given | {"block_q": blocks[0], "block_k": blocks[1], **more}

    return build


_TILED_CASES = [
    case(
        "3 tokens in one tile | plain causal attention",
        _given(n_q=3, n_k=3, d=4, d_v=2, blocks=(4, 4)),
    ),
    case(
        "6 tokens in tiles of 2 × 2 | strip by strip",
        _given(n_q=6, n_k=6, d=3, d_v=4, blocks=(2, 2)),
    ),
    case(
        "7 tokens in tiles of 4 × 3 | they don't divide it",
        _given(n_q=7, n_k=7, d=4, d_v=3, blocks=(4, 3)),
    ),
    case(
        "3 queries behind 6 tokens, 2 heads | the last of the tokens",
        _given(2, n_q=3, n_k=9, d=4, d_v=3, blocks=(2, 2)),
    ),
    case(
        "9 tokens, a window of 3 | a query's first tile may be hidden from it",
        _given(n_q=9, n_k=9, d=3, d_v=2, blocks=(3, 2), window=3),
    ),
    case(
        "scores near 2000 and −2000, a window of 6 | nothing overflows",
        _given(2, 3, n_q=8, n_k=11, d=4, d_v=5, blocks=(3, 4), far=True, window=6),
    ),
    case(
        "8,000 queries behind 292,000 tokens, a window of 64 | no table has room",
        _given(n_q=8000, n_k=300_000, d=2, d_v=1, blocks=(64, 64), window=64),
    ),
    case(
        "12 queries of 2 heads, 120,000 tokens, 2 MB | room for a few tiles",
        _given(2, n_q=12, n_k=120_000, d=2, d_v=1, blocks=(8, 512)),
        memory=2_000_000,
    ),
]


def _without_last(own: NDArray, n_k: int, block_k: int, window: int | None) -> Iterable[int]:
    """Stop in front of the last query's own key."""
    return range(_needed(own, n_k, block_k, window).start, own[-1], block_k)


def _up_to_first(own: NDArray, n_k: int, block_k: int, window: int | None) -> Iterable[int]:
    return range(_needed(own, n_k, block_k, window).start, own[0] + 1, block_k)


def _since_last(own: NDArray, n_k: int, block_k: int, window: int | None) -> Iterable[int]:
    return _needed(own[-1:], n_k, block_k, window)


def _unaligned(own: NDArray, n_k: int, block_k: int, window: int | None) -> Iterable[int]:
    """Leave out keys that fill no whole tile."""
    starts = _needed(own, n_k, block_k, window)
    whole = [at for at in starts if at + block_k <= n_k]
    return whole or starts


def _all_in_reach(place: NDArray, own: NDArray, window: int | None) -> NDArray:
    return np.ones(np.broadcast_shapes(place.shape, own.shape), bool)


def _within_tile(place: NDArray, own: NDArray, window: int | None) -> NDArray:
    """Compare places inside of the tile."""
    return np.arange(place.size) <= np.arange(own.size)[:, None]


def _seen(low: int, high: int) -> Callable[[NDArray, NDArray, int | None], NDArray]:
    """Shift the oldest and the newest key that a query sees."""

    def sees(place: NDArray, own: NDArray, window: int | None) -> NDArray:
        far = np.inf if window is None else window
        return (place <= own + high) & (place > own - far + low)

    return sees


def _without_peak(state: Any, scores: NDArray, values: NDArray) -> Any:
    m, l, o = state
    e = np.exp(scores)
    return m, l + e.sum(axis=-1), o + e @ values


def _mean_of_tiles(state: Any, scores: NDArray, values: NDArray) -> Any:
    """Add up tiles' own softmaxes, and count them."""
    m, l, o = state
    top = scores.max(axis=-1)
    safe = np.where(top == -np.inf, 0.0, top)
    e = np.exp(scores - safe[..., None])
    total = e.sum(axis=-1)
    some = total > 0
    own = np.where(some[..., None], e @ values / np.where(some, total, 1.0)[..., None], 0.0)
    return np.logaddexp(m, safe + np.log(total)), l + some, o + own


def _divided_each_time(state: Any, scores: NDArray, values: NDArray) -> Any:
    """Divide by l at each tile, and go on as if it were a sum."""
    m, l, o = _step(state, scores, values)
    return m, l, np.where((l > 0)[..., None], o / np.where(l > 0, l, 1.0)[..., None], o)


def _last_tile(state: Any, scores: NDArray, values: NDArray) -> Any:
    """Keep what the last tile gives of which anything is seen."""
    m = np.full(scores.shape[:-1], -np.inf)
    new = _step((m, np.zeros_like(m), np.zeros_like(state[2])), scores, values)
    none = new[0] == -np.inf
    return tuple(
        np.where(none[(..., *[None] * (a.ndim - none.ndim))], a, b)
        for a, b in zip(state, new, strict=True)
    )


def _never_anew(
    q: NDArray, k: NDArray, v: NDArray, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Go on with m, l and o of the strip before, where that has the same shape."""
    kept: dict[tuple[int, ...], Any] = {}

    def step(state: Any, scores: NDArray, values: NDArray) -> Any:
        shape = state[0].shape
        fresh = not state[1].any() and np.all(state[0] == -np.inf)
        new = _step(kept.get(shape, state) if fresh else state, scores, values)
        if scores.shape[-2] != block_q:  # a smaller strip has no state to go on with
            new = _step(state, scores, values)
        else:
            kept[shape] = new
        return new

    return _tiled(step=step)(q, k, v, block_q, block_k, window)


def _if_all_see(state: Any, scores: NDArray, values: NDArray) -> Any:
    """Skip a tile of which some query sees nothing."""
    if (scores == -np.inf).all(axis=-1).any():
        return state
    return _step(state, scores, values)


def _if_whole(state: Any, scores: NDArray, values: NDArray) -> Any:
    """Skip a tile of which anything is hidden."""
    return state if (scores == -np.inf).any() else _step(state, scores, values)


def _one_late(own: NDArray, n_k: int, block_k: int, window: int | None) -> Iterable[int]:
    """Begin a key after the oldest that is seen."""
    first = 0 if window is None else max(own[0] - window + 2, 0)
    return range(first // block_k * block_k, min(own[-1] + 1, n_k), block_k)


def _by_width_of_values(
    q: NDArray, k: NDArray, v: NDArray, block_q: int, block_k: int, window: int | None = None
) -> Any:
    return _tiled(scale=lambda d: sqrt(v.shape[-1]))(q, k, v, block_q, block_k, window)


def _both_sides(place: NDArray, own: NDArray, window: int | None) -> NDArray:
    y: NDArray = np.abs(own - place) < (np.inf if window is None else window)
    return y


def _in_place(
    q: NDArray, k: NDArray, v: NDArray, block_q: int, block_k: int, window: int | None = None
) -> Any:
    result = _tiled()(q, k, v, block_q, block_k, window)
    q /= sqrt(q.shape[-1])
    return result


def _two_axes(
    q: NDArray, k: NDArray, v: NDArray, block_q: int, block_k: int, window: int | None = None
) -> Any:
    if q.ndim > 2:
        raise ValueError("not enough values to unpack")
    return _tiled()(q, k, v, block_q, block_k, window)


def _whole_only(
    q: NDArray, k: NDArray, v: NDArray, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Leave the last queries out where a block doesn't divide them."""
    if q.shape[-2] < block_q:
        return np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(q.shape[:-1])
    strips = lambda n_q, block: range(0, n_q // block * block, block)  # noqa: E731
    return _tiled(strips=strips)(q, k, v, block_q, block_k, window)


_TILED_WRONG = [
    wrong(
        _tiled(step=_stepping(shrink_l=np.ones_like, shrink_o=np.ones_like)),
        "nothing rescaled | Where a tile has a larger score than those before, what was summed has "
        "to shrink, and yours doesn't. → By which factor are the old exponentials too large?",
    ),
    wrong(
        _tiled(step=_stepping(shrink_o=np.ones_like)),
        "only the sum rescaled | Where the maximum rises, your l shrinks, and your o doesn't. → "
        "For which maximum were the values summed?",
    ),
    wrong(
        _tiled(step=_stepping(shrink_l=np.ones_like)),
        "the sum not rescaled | Where the maximum rises, your o shrinks, and your l doesn't. → For "
        "which maximum were the exponentials summed?",
    ),
    wrong(
        _tiled(step=_stepping(peak=lambda m, scores: scores.max(axis=-1))),
        "each tile's own maximum | Your m is that of the present tile, even where an earlier one "
        "had a larger score. → What is m to be?",
    ),
    wrong(
        _tiled(step=_stepping(guard=False)),
        "−∞ minus −∞ | A query that sees nothing of its first tile has the maximum −∞, and −∞ "
        "minus −∞ is NaN. → What could you subtract in its place, so that e^(−∞ − …) is 0?",
    ),
    wrong(
        _tiled(step=_without_peak, start_m=0.0),
        "no maximum subtracted | You take e^score as it is. At 2000 there's no room, and at −2000 "
        "nothing is left. → What is to be subtracted, and what happens when it rises?",
    ),
    wrong(
        _tiled(step=lambda state, scores, values: (state[0], *_step(state, scores, values)[1:])),
        "the new maximum not kept | You compute a new maximum for each tile, and m stays −∞. → "
        "Which three things go from tile to tile?",
    ),
    wrong(
        _tiled(start_m=0.0),
        "a maximum that starts at 0 | Your m lies far above all the scores of a query, whose "
        "exponentials become 0: it starts at a number that isn't low enough, or takes in other "
        "queries. → Of which scores is m the largest, and what is it before the first?",
    ),
    wrong(
        _tiled(step=_mean_of_tiles, lse=lambda m, l: m),
        "the mean of the tiles | You take each tile's own softmax and average the outputs. → How "
        "much does each tile count?",
    ),
    wrong(
        _tiled(step=_divided_each_time, finish=lambda o, l: o),
        "divided at every tile | You divide o by l at every tile and go on as if it were a sum. → "
        "When is the division due, if o is a sum?",
    ),
    wrong(
        _tiled(step=_stepping(shrink_l=lambda f: 1 / f, shrink_o=lambda f: 1 / f)),
        "rescaled the other way | You multiply by e^(m_new − m_old), which is larger than 1, and "
        "infinite at the start. → Are the old exponentials too large or too small once the maximum "
        "rises?",
    ),
    wrong(
        _never_anew,
        "never begun anew | Your second strip goes on with m, l and o of the first. → Whose sums "
        "are they?",
    ),
    wrong(
        _tiled(step=_if_all_see),
        "skipped for all | You skip a tile of which some query sees nothing. Other queries of the "
        "strip may see it. → What could you subtract from the scores of a query that has seen "
        "nothing yet?",
    ),
    wrong(
        _tiled(step=_if_whole),
        "whole tiles alone | You skip each tile of which anything is hidden, and those on the "
        "diagonal are. → What does a tile need that is seen in part?",
    ),
    wrong(
        _tiled(step=_last_tile),
        "the last tile alone | Your output is that of the last tile: m, l and o begin anew at each "
        "tile. → When do they begin anew?",
    ),
    wrong(
        _tiled(finish=lambda o, l: o),
        "never divided | Your output is a sum of values times exponentials. → By what is it to be "
        "divided, when a strip is through?",
    ),
    wrong(
        _tiled(scale=lambda d: 1.0),
        "no scale | You don't divide the scores by anything before the softmax. → What grows with "
        "d?",
    ),
    wrong(
        _tiled(scale=lambda d: 1 / sqrt(d)),
        "times the root | You multiply the scores by the root of d where they should become "
        "smaller. → What grows with d?",
    ),
    wrong(
        _tiled(scale=float),
        "divided by d | You divide the scores by d, not by its root. → How large is a dot product "
        "of d numbers of size 1, as a rule?",
    ),
    wrong(
        _by_width_of_values,
        "the width of values | You divide by the root of the values' width. They have no part in a "
        "score. → Over how many columns does one dot product go?",
    ),
    wrong(
        _tiled(sees=_both_sides),
        "a window to both sides | Your window reaches as far ahead as back, and without one all "
        "that you visit is seen. → Which keys may nobody see, with a window or without?",
    ),
    wrong(
        _tiled(
            sees=lambda place, own, window: _within(place, own, window or 0),
            visits=lambda own, n_k, block_k, window: _needed(own, n_k, block_k, window or 0),
        ),
        "None for 0 | Without a window, your program takes it for 0 wide, and nobody sees "
        "anything. → How far back may a query look where `window` is None?",
    ),
    wrong(
        _tiled(sees=_all_in_reach),
        "no mask inside of tiles | You skip the right tiles, and what you visit is seen whole. → "
        "Which tiles are seen in part?",
    ),
    wrong(
        _tiled(sees=_within_tile),
        "places inside of the tile | You compare rows and columns inside of each tile, as if every "
        "tile lay on the diagonal. → At which place does row r of strip i stand?",
    ),
    wrong(
        _tiled(past=lambda n_q, n_k: 0),
        "queries that begin at 0 | Your queries are the first tokens, not the last. → At which "
        "place does query 0 stand, behind n_k − n_q tokens?",
    ),
    wrong(
        _tiled(sees=_seen(0, 1), visits=lambda own, n_k, block_k, window: _needed(
            own + (own == own[-1]), n_k, block_k, window
        )),
        "one key of the future | Each of your queries sees the key behind its own. → Which places "
        "are at most its own?",
    ),
    wrong(
        _tiled(sees=lambda place, own, window: _within(place, own, window) & (place < own)),
        "its own key hidden | Your queries see what came before them, and not themselves, so that "
        "the first token sees nothing. → Is it `<` or `<=`?",
    ),
    wrong(
        _tiled(sees=lambda place, own, window: place <= own),
        "a window made of tiles | You skip tiles that are too old, and in those that you visit "
        "your queries see keys from before their window. → Which tiles does the window cut?",
    ),
    wrong(
        _tiled(
            sees=_seen(-1, 0),
            visits=lambda own, n_k, block_k, window: _needed(
                own, n_k, block_k, None if window is None else window + 1
            ),
        ),
        "a window one too wide | Your queries see `window` tokens beside themselves. The query is "
        "one of the tokens that `window` counts. → How far back does a window of 1 reach?",
    ),
    wrong(
        _tiled(sees=_seen(-1, 0)),
        "a window one too wide inside of tiles | Your mask shows `window` tokens beside the query "
        "itself, where the tile that holds the oldest is visited. → How far back does a window of "
        "1 reach?",
    ),
    wrong(
        _tiled(sees=_seen(1, 0)),
        "a window one too narrow | Your queries see `window − 1` tokens, with themselves. → How "
        "far back does a window of 1 reach, and of 2?",
    ),
    wrong(
        _tiled(visits=_without_last),
        "the last key left out | Your inner loop ends in front of the last query's own key, which "
        "may be the first of a tile. → Up to which key does the last query of a strip see?",
    ),
    wrong(
        _tiled(visits=_up_to_first),
        "tiles up to the first query | Your inner loop ends at the first query of a strip. → Which "
        "query of a strip sees furthest?",
    ),
    wrong(
        _tiled(visits=_since_last),
        "tiles since the last query's window | Your inner loop begins where the last query's "
        "window does. → Which query of a strip sees furthest back?",
    ),
    wrong(
        _tiled(visits=_one_late),
        "a tile too late | Your inner loop leaves a tile out whose last key is the oldest that the "
        "first query sees. → How far back does a window of 1 reach?",
    ),
    wrong(
        _tiled(visits=_unaligned),
        "whole tiles of keys only | You leave the last keys out where a block doesn't divide them. "
        "→ Where does the last tile end?",
    ),
    wrong(
        _whole_only,
        "whole strips only | You leave the last queries out where a block doesn't divide them. → "
        "Where does the last strip end?",
    ),
    wrong(
        _tiled(hidden=0.0),
        "hidden by 0 | You put 0 for hidden scores, and e⁰ is 1. → Which score has the weight 0?",
    ),
    wrong(
        _tiled(hidden=-1000.0),
        "hidden by a number that isn't low enough | You put −1,000 for hidden scores. Scores near "
        "−2,000 are below that. → Which score has the weight 0, whatever the others are?",
    ),
    wrong(
        _tiled(lse=lambda m, l: np.log(l) - m),
        "the maximum subtracted in lse | Your output is right, and your lse is log l − m. → What "
        "is the logarithm of e^m · l?",
    ),
    wrong(
        _tiled(lse=lambda m, l: np.log(l)),
        "lse without the maximum | Your output is right, and your lse is log l. The exponentials "
        "in l are those of score minus m. → What has to be added?",
    ),
    wrong(
        _tiled(lse=lambda m, l: m),
        "the maximum for lse | Your output is right, and in the place of lse stands m. → What is "
        "the logarithm of e^m · l?",
    ),
    wrong(
        _tiled(lse=lambda m, l: l),
        "l for lse | Your output is right, and in the place of lse stands l. → What is the "
        "logarithm of e^m · l?",
    ),
    wrong(
        _tiled(lse=lambda m, l: m + l),
        "l without its logarithm | Your output is right, and your lse is m + l. → What is the "
        "logarithm of e^m · l?",
    ),
    wrong(
        _tiled(returns=lambda output, lse: output),
        "only the output | You return the output alone, without the logarithms of the sums. → "
        "What do merges and the backward pass need beside it?",
    ),
    wrong(
        _two_axes,
        "no heads | Your program stops where there are axes before the last two. → How do you "
        "name the last two axes, whatever stands before them?",
    ),
    wrong(
        _in_place,
        "the queries changed | You scale the queries in place, with `/=`, and whoever called you "
        "has others now. → Which operator makes a new array?",
    ),
]  # fmt: skip


def _parts_of_a_strip(
    q: Any, k: Any, v: Any, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Finish every tile by itself, and merge all of a strip at once."""
    n_q, n_k, d = q.shape[-2], k.shape[-2], q.shape[-1]
    output, lse = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(q.shape[:-1])
    for start in range(0, n_q, block_q):
        own = np.arange(start, min(start + block_q, n_q)) + n_k - n_q
        low = 0 if window is None else max(0, own[0] - window + 1)
        sums, tops, totals = [], [], []
        for at in range(low, own[-1] + 1, block_k):  # such tiles begin with a window, at any place
            place = np.arange(at, min(at + block_k, own[-1] + 1))
            scores = q[..., start : start + block_q, :] @ k[..., place, :].swapaxes(-2, -1)
            back = own[:, None] - place
            hidden = (back < 0) | (back >= (n_k if window is None else window))
            scores = np.where(hidden, -np.inf, scores / d**0.5)
            tops.append(scores.max(axis=-1))
            e = np.exp(scores - np.maximum(tops[-1], -1e300)[..., None])
            sums.append(e @ v[..., place, :])
            totals.append(e.sum(axis=-1))
        top = np.max(tops, axis=0)
        shares = np.exp(np.array(tops) - top)
        total = (shares * totals).sum(axis=0)
        rows = slice(start, start + block_q)
        output[..., rows, :] = (shares[..., None] * sums).sum(axis=0) / total[..., None]
        lse[..., rows] = top + np.log(total)
    return output, lse


def _all_places(
    q: Any, k: Any, v: Any, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Give all tokens their numbers once, and compare these."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    places = np.arange(n_k)
    outputs, sums = [], []
    for start in range(0, n_q, block_q):
        rows = q[..., start : start + block_q, :] * q.shape[-1] ** -0.5
        own = places[n_k - n_q :][start : start + block_q, None]
        m, l = np.full(rows.shape[:-1], -1e30), np.zeros(rows.shape[:-1])
        o = np.zeros((*m.shape, v.shape[-1]))
        first = 0 if window is None else max(own[0, 0] - window + 1, 0) // block_k * block_k
        for at in range(first, n_k, block_k):
            tile = slice(at, at + block_k)
            if places[at] > own[-1, 0]:
                break
            seen = places[tile] <= own
            if window is not None:
                seen &= places[tile] > own - window
            scores = np.where(seen, rows @ k[..., tile, :].swapaxes(-2, -1), -np.inf)
            top = np.maximum(m, scores.max(axis=-1))
            e, f = np.exp(scores - top[..., None]), np.exp(m - top)
            m, l, o = top, l * f + e.sum(axis=-1), o * f[..., None] + e @ v[..., tile, :]
        outputs.append(o / l[..., None])
        sums.append(m + np.log(l))
    return np.concatenate(outputs, axis=-2), np.concatenate(sums, axis=-1)


def _by_merging(
    q: Any, k: Any, v: Any, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Merge finished tiles; a very low score in the place of −∞."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    output, lse = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(q.shape[:-1])
    for start in range(0, n_q, block_q):
        own = np.arange(start, min(start + block_q, n_q)) + n_k - n_q
        o: Any = None
        total: Any = None
        for at in range(0, own[-1] + 1, block_k):
            if window is not None and at + block_k - 1 <= own[0] - window:
                continue
            place = np.arange(at, min(at + block_k, n_k))
            scores = q[..., start : start + block_q, :] @ k[..., place, :].swapaxes(-1, -2)
            scores = scores / np.sqrt(q.shape[-1])
            back = own[:, None] - place
            bad = back < 0 if window is None else (back < 0) | (back >= window)
            scores[..., bad] = -1e12
            top = scores.max(axis=-1, keepdims=True)
            e = np.exp(scores - top)
            size = e.sum(axis=-1, keepdims=True)
            mine, its = e @ v[..., place, :] / size, top + np.log(size)
            if o is None:
                o, total = mine, its
                continue
            both = np.logaddexp(total, its)
            o = np.exp(total - both) * o + np.exp(its - both) * mine
            total = both
        output[..., start : start + block_q, :] = o
        lse[..., start : start + block_q] = total[..., 0]
    return output, lse


def _keys_outside(
    q: Any, k: Any, v: Any, block_q: int, block_k: int, window: int | None = None
) -> Any:
    """Let the outer loop go over keys, as the first FlashAttention did."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    m, l = np.full(q.shape[:-1], -np.inf), np.zeros(q.shape[:-1])
    o = np.zeros((*q.shape[:-1], v.shape[-1]))
    for at in range(0, n_k, block_k):
        stop = min(at + block_k, n_k)
        for start in range(0, n_q, block_q):
            end = min(start + block_q, n_q)
            first, last = start + n_k - n_q, end - 1 + n_k - n_q
            if at > last or (window is not None and stop - 1 <= first - window):
                continue
            back = np.arange(first, last + 1)[:, None] - np.arange(at, stop)
            seen = (back >= 0) & (back < (n_k if window is None else window))
            scores = q[..., start:end, :] @ k[..., at:stop, :].swapaxes(-1, -2)
            scores = np.where(seen, scores / q.shape[-1] ** 0.5, -np.inf)
            state = m[..., start:end], l[..., start:end], o[..., start:end, :]
            new = _step(state, scores, v[..., at:stop, :])
            m[..., start:end], l[..., start:end], o[..., start:end, :] = new
    return o / l[..., None], m + np.log(l)


def _tiled_by_torch(
    q: Any, k: Any, v: Any, block_q: int, block_k: int, window: int | None = None
) -> Any:
    import torch

    n_q, n_k = q.shape[-2], k.shape[-2]
    outputs, sums = [], []
    for start, rows in zip(range(0, n_q, block_q), q.split(block_q, dim=-2), strict=True):
        own = torch.arange(rows.shape[-2])[:, None] + start + n_k - n_q
        m = rows.new_full(rows.shape[:-1], -torch.inf)
        l, o = torch.zeros_like(m), rows.new_zeros(*m.shape, v.shape[-1])
        low = 0 if window is None else max(0, int(own[0]) - window + 1) // block_k * block_k
        for at in range(low, int(own[-1]) + 1, block_k):
            keys, values = k[..., at : at + block_k, :], v[..., at : at + block_k, :]
            place = at + torch.arange(keys.shape[-2])
            hidden = place > own
            if window is not None:
                hidden = hidden | (place <= own - window)
            scores = (rows @ keys.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
            top = torch.maximum(m, scores.amax(dim=-1))
            shift = top.nan_to_num(neginf=0.0)
            shrink, e = torch.exp(m - shift), torch.exp(scores - shift[..., None])
            l, o = l * shrink + e.sum(dim=-1), o * shrink[..., None] + e @ values
            m = top
        outputs.append(o / l[..., None])
        sums.append(m + l.log())
    return torch.cat(outputs, dim=-2), torch.cat(sums, dim=-1)


TILED = Exercise(
    id="14.tiled",
    function="tiled_attention",
    reference=tiled_attention,
    guarded=[
        flash.flash_attention,
        flash.online_softmax_update,
        flash.merge_partials,
        flash.visible_tiles,
    ],
    cases=_TILED_CASES,
    returns=("output", "lse"),
    misconceptions=_TILED_WRONG,
    alternatives=[
        Alternative(name="a strip's tiles merged at once", right=_parts_of_a_strip),
        Alternative(name="all places numbered", right=_all_places),
        Alternative(name="merging tiles", right=_by_merging),
        Alternative(name="keys in the outer loop", right=_keys_outside),
        Alternative(name="torch", right=_tiled_by_torch, backend="torch"),
    ],
    hints=[
        "Two loops: over strips of queries, and inside over tiles of keys. m, l and o begin anew "
        "with each strip; at its end, o is divided by l.",
        "A strip's queries stand at `own = np.arange(start, stop) + n_k − n_q`. It needs keys from "
        "own[0] − window + 1 to own[-1], so begin at that tile and end with the last one's.",
        "A query that has seen nothing yet has m = −∞. Subtract 0 there: `shift = np.where(m == "
        "-np.inf, 0, m)`, then e^(scores − shift) is 0, and so is e^(m_old − shift).",
    ],
    points=5,
    minutes=40,
    difficulty=3,
    if_too_slow="With a window, most tiles are hidden whole. Whoever visits them all, or makes a "
    "mask for all, is busy with pairs that nobody sees. → Which keys can the first query of a "
    "strip see at the earliest?",
    if_too_large="A tile's scores take 0.07, a whole strip's 15, a copy of all keys 4 and one of "
    "all values 2. So either you copy or change keys or values as a whole, or you hold scores or "
    "masks of many tiles at once. Cut the tile first, and keep only m, l and o of it. → Which of "
    "your arrays grows with the number of keys?",
)
