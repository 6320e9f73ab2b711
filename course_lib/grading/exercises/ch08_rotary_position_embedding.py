"""The exercises of chapter 08: rotations in both layouts, what follows from them, and a bug.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.exercises.rotations import (
    ROTATE_HALF_SPLIT,
    ROTATE_INTERLEAVED,
    glue,
    split,
    stale,
    torch_interleaved,
    turn,
    turning,
)
from course_lib.grading.model import Alternative, Exercise, Misconception
from course_lib.reference import rotary as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BROKEN",
    "EXERCISES",
    "extend_cache",
    "relative_scores",
    "rotary_attention",
    "rotary_attention_broken",
    "scaled_frequencies",
    "to_half_split",
]


# Written out: the course's own functions refuse to work while a student's are checked.


def _softmax(s: NDArray, axis: int = -1) -> NDArray:
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


# -- 08.to_half_split ------------------------------------------------------------------------------


def to_half_split(w: NDArray, n_heads: int) -> NDArray:
    """Bring a query or key projection from interleaved to half-split pairs.

    Parameters
    ----------
    w : float array, (..., n_heads · d_head)
        Weights (d, n_heads · d_head) or a bias. Columns of a head are neighbours.
    n_heads : int

    Returns
    -------
    float array of the shape of w
        The columns of each head in another order.
    """
    heads = w.reshape(*w.shape[:-1], n_heads, -1)
    return heads[..., ref.half_split_permutation(heads.shape[-1])].reshape(w.shape)


def _columns(n_heads: int, d_head: int, *lead: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        width = n_heads * d_head
        w = np.arange(float(width))
        if lead:
            w = (
                w
                + 100 * np.random.default_rng([seed, 3, width]).integers(1, 9, (*lead, 1))
                + (1000.0 * np.arange(1, lead[-1] + 1)[:, None])
            )
        return {"w": w, "n_heads": n_heads}

    return build


_CONVERT_CASES = [
    case("weights (8, 8), one head of width 8 | columns, not rows", _columns(1, 8, 8)),
    case("a bias, one head of width 2 | one pair is the same in both layouts", _columns(1, 2)),
    case("a bias, one head of width 6 | each number is the column's own", _columns(1, 6)),
    case("a bias, 2 heads of width 6 | each head by itself", _columns(2, 6)),
    case("weights (5, 12), 2 heads of width 6 | columns, not rows", _columns(2, 6, 5)),
    case("weights (12, 12), 2 heads of width 6 | columns, not rows", _columns(2, 6, 12)),
    case("3 layers of weights (4, 16), 2 heads of width 8 | the last axis", _columns(2, 8, 3, 4)),
]


def _reordered(
    order: Callable[[int], Any], *, heads: Callable[[int], int] = lambda n: n, axis: int = -1
) -> Callable[..., Any]:
    """Put the columns of each head, or the rows, in some order."""

    def convert(w: NDArray, n_heads: int) -> Any:
        moved = np.moveaxis(w, axis, -1)
        split = moved.reshape(*moved.shape[:-1], heads(n_heads), -1)
        new = split[..., order(split.shape[-1])].reshape(moved.shape)
        return np.moveaxis(new, -1, axis)

    return convert


def _even_odd(d: int) -> NDArray:
    return np.r_[0:d:2, 1:d:2]


def _convert_heads_inside(w: NDArray, n_heads: int) -> Any:
    """Take the columns of a head for every n_heads-th one."""
    split = w.reshape(*w.shape[:-1], -1, n_heads)
    return split[..., _even_odd(split.shape[-2]), :].reshape(w.shape)


def _convert_axes(first: int, second: int) -> Callable[..., Any]:
    """Exchange two of the axes (heads, pairs, members)."""

    def convert(w: NDArray, n_heads: int) -> Any:
        split = w.reshape(*w.shape[:-1], n_heads, -1, 2)
        return split.swapaxes(first, second).reshape(w.shape)

    return convert


def _convert_first_head(w: NDArray, n_heads: int) -> Any:
    """Reorder the columns of the first head alone."""
    d = w.shape[-1] // n_heads
    return np.concatenate([w[..., _even_odd(d)], w[..., d:]], axis=-1)


def _convert_repeating(w: NDArray, n_heads: int) -> Any:
    """Take the first head's columns for every head."""
    return w[..., np.tile(_even_odd(w.shape[-1] // n_heads), n_heads)]


def _convert_in_place(w: NDArray, n_heads: int) -> Any:
    w[...] = _reordered(_even_odd)(w, n_heads)
    return w


def _convert_to_order(w: NDArray, n_heads: int) -> Any:
    order = _reordered(_even_odd)(np.arange(w.shape[-1]), n_heads)
    return order.astype(float)


_CONVERT_WRONG = [
    wrong(
        _reordered(lambda d: np.argsort(_even_odd(d))),
        "the way back | This is the order that leads from half-split pairs back to interleaved "
        "ones. With width 4 both are the same; from 6 on they aren't. → Which two columns of the "
        "interleaved layout have to end up d_head/2 apart?",
    ),
    wrong(
        _reordered(_even_odd, heads=lambda n: 1),
        "across the heads | With one head you're right. With two, columns leave their head: you "
        "reorder the whole width at once. → How wide is the piece in which pairs are made?",
    ),
    wrong(
        _convert_heads_inside,
        "every n-th column taken for a head | With one head you're right. With two, you take "
        "columns 0, 2, 4, … for one head; a head's columns are neighbours. → Which of the two axes "
        "comes first when the width is split in (heads, columns of a head)?",
    ),
    wrong(
        _reordered(_even_odd, axis=-2),
        "rows, as torch stores them | this exercise uses weights (d_in, d_out), as in x W: a "
        "head's numbers are columns. You reorder rows, which is right for the (d_out, d_in) of "
        "`nn.Linear`. → Which axis of w has n_heads · d_head entries?",
        variant=True,
    ),
    wrong(
        _reordered(_even_odd, heads=lambda n: 1, axis=0),
        "rows, across the heads | Two things: you reorder rows, while a head's numbers are columns "
        "of w, and you take all heads for one. → Which axis of w has n_heads · d_head entries?",
    ),
    wrong(
        _convert_axes(-3, -2),
        "heads and pairs changed places | With one head nothing moves in your result, and with two "
        "the pairs leave their heads: the two axes that changed places are heads and pairs. → "
        "Which axis has to come before that of the pairs, so that first members stand together?",
    ),
    wrong(
        _convert_axes(-3, -1),
        "heads and members changed places | With one head you're right. With two, the axis of the "
        "members has gone in front of the heads. → Between which two axes does it belong?",
    ),
    wrong(
        _convert_first_head,
        "the first head alone | Your first head is right, and the others are as they were. → What "
        "has to be added to the order of the first head to reach the next one?",
    ),
    wrong(
        _convert_repeating,
        "the first head everywhere | Your first head is right, and then its columns come again "
        "where the other heads should be. → What has to be added to the order of the first head "
        "to reach the next one?",
    ),
    wrong(
        _reordered(lambda d: np.roll(_even_odd(d), d // 2)),
        "odd columns first | You put the odd columns in the first half. They are the second "
        "members of the pairs. → Which member does `rotate_half_split` expect in the first half?",
    ),
    wrong(
        lambda w, n_heads: w.copy(),
        "nothing moved | Your result has its columns in the old order. A reshape to pairs and back "
        "moves nothing. → Between the two reshapes, which axes have to change places?",
    ),
    wrong(
        _reordered(lambda d: np.roll(np.arange(d), d // 2)),
        "the halves changed places | You exchange the two halves of a head; neighbours are still "
        "neighbours. → Where does column 1 have to go, if column 0 stays?",
    ),
    wrong(
        _reordered(lambda d: np.arange(d).reshape(-1, 2)[:, ::-1].reshape(-1)),
        "the members of a pair changed places | You exchange the two columns of each pair, and "
        "they are still neighbours. → How far apart must the members of a pair be in the "
        "half-split layout?",
    ),
    wrong(
        _reordered(lambda d: np.r_[0:d:2, d - 1 : 0 : -2]),
        "odd columns in reverse | Even columns come first, as they should; the odd ones then run "
        "backwards, so that pairs no longer meet. → Where does the partner of column 0 have to "
        "stand?",
    ),
    wrong(
        _convert_to_order,
        "the order itself | Your function returns the order of the columns, not weights in that "
        "order. → What do you get when you index the columns of w by it?",
    ),
    wrong(
        _convert_in_place,
        "w is overwritten | The numbers are right, but the caller's weights are in the new order "
        "too; a second call would mix them up. → Which line writes into `w`?",
    ),
]


def _convert_loops(w: NDArray, n_heads: int) -> Any:
    new, d = np.zeros(w.shape), w.shape[-1] // n_heads
    for h in range(n_heads):
        for i in range(d // 2):
            new[..., h * d + i] = w[..., h * d + 2 * i]
            new[..., h * d + d // 2 + i] = w[..., h * d + 2 * i + 1]
    return new


def _convert_transposed(w: NDArray, n_heads: int) -> Any:
    """Split the width in heads, pairs and members, and exchange the last two."""
    return w.reshape(*w.shape[:-1], n_heads, -1, 2).swapaxes(-2, -1).reshape(w.shape)


def _convert_matrix(w: NDArray, n_heads: int) -> Any:
    """Multiply by a permutation matrix with a block for each head."""
    d = w.shape[-1] // n_heads
    return w @ np.kron(np.eye(n_heads), np.eye(d)[:, _even_odd(d)])


def _convert_torch(w: Any, n_heads: int) -> Any:
    return w.unflatten(-1, (n_heads, -1, 2)).transpose(-2, -1).flatten(-3)


_TO_HALF_SPLIT = Exercise(
    id="08.to_half_split",
    function="to_half_split",
    reference=to_half_split,
    guarded=[ref.half_split_permutation],
    cases=_CONVERT_CASES,
    returns=("converted",),
    misconceptions=_CONVERT_WRONG,
    alternatives=[
        ("loops", _convert_loops),
        ("reshaped and transposed", _convert_transposed),
        ("a permutation matrix", _convert_matrix),
        Alternative(name="torch", right=_convert_torch, backend="torch"),
    ],
    hints=[
        "Write down the columns of one head of width 6. Interleaved, the pairs are (0, 1), (2, 3), "
        "(4, 5). Which order puts 0, 2, 4 in the first half and their partners below them?",
        "Even columns first, then the odd ones, within each head. Split the last axis in (n_heads, "
        "d_head) first, reorder, and put it together again.",
        "Or without an index: split the last axis in (n_heads, d_head/2, 2), swap the last two "
        "axes, and reshape back.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 08.relative_scores ----------------------------------------------------------------------------


def relative_scores(q: NDArray, k: NDArray, frequencies: NDArray, offsets: NDArray) -> NDArray:
    """Score a query with a key at several distances, as rotary positions do.

    Parameters
    ----------
    q, k : float arrays, (..., d)
        Before any rotation; pairs are interleaved.
    frequencies : float array, (d/2,)
    offsets : integer array, (n_offsets,)
        The key's position less the query's.

    Returns
    -------
    float array, (..., n_offsets)
    """
    return _scores()(q, k, frequencies, offsets)


def _scores(
    *,
    layout: str = "interleaved",
    even: Callable[[Any, Any, Any, Any], Any] = lambda a, b, u, v: a * u + b * v,
    odd: Callable[[Any, Any, Any, Any], Any] = lambda a, b, u, v: b * u - a * v,
    angles: Callable[[NDArray, NDArray], NDArray] = lambda o, f: o[:, None] * f,
    scale: Callable[[int], float] = lambda d: 1.0,
) -> Callable[..., Any]:
    """Return the scores, Σ even cos + odd sin over the pairs (a, b) of q and (u, v) of k."""

    def scores(q: NDArray, k: NDArray, frequencies: NDArray, offsets: NDArray) -> Any:
        pairs = (*split(q, layout, len(frequencies)), *split(k, layout, len(frequencies)))
        a, b, u, v = (x[..., None, :] for x in pairs)  # (..., 1, d/2)
        angle = angles(offsets, frequencies)  # (n_offsets, d/2)
        terms = even(a, b, u, v) * np.cos(angle) + odd(a, b, u, v) * np.sin(angle)
        return terms.sum(axis=-1) * scale(q.shape[-1])

    return scores


def _met(*lead: int, d: int, offsets: list[int]) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 4, *lead, d])
        return {
            "q": draw(rng, *lead, d),
            "k": draw(rng, *lead, d),
            "frequencies": np.array([1.0, 0.3, 0.05, 0.01])[: d // 2],
            "offsets": np.array(offsets),
        }

    return build


_SCORE_CASES = [
    case(
        "q = k = (1, 0), 30° a position | cos 0°, cos 60°, cos 60°",
        {
            "q": np.array([1.0, 0.0]),
            "k": np.array([1.0, 0.0]),
            "frequencies": np.array([pi / 6]),
            "offsets": np.array([0, 2, -2]),
        },
    ),
    case("offset 0, width 6 | the plain product", _met(d=6, offsets=[0])),
    case(
        "q = (2, 1), k = (1, 2), 30° a position | earlier and later aren't the same",
        {
            "q": np.array([2.0, 1.0]),
            "k": np.array([1.0, 2.0]),
            "frequencies": np.array([pi / 6]),
            "offsets": np.array([1, 3, -1, -3]),
        },
    ),
    case("width 8, 5 offsets | all pairs add up", _met(d=8, offsets=[-1, -2, -5, -20, 3])),
    case(
        "3 queries and keys of width 4 | one row of scores each",
        _met(3, d=4, offsets=[0, -1, -4, 2, 7]),
    ),
    case(
        "a batch (2, 3) of width 6 | whatever axes stand in front",
        _met(2, 3, d=6, offsets=[-3, -2, -1, 1]),
    ),
]


def _spread(x: NDArray, offsets: NDArray) -> NDArray:
    return np.repeat(x, len(offsets), axis=-2)


def _scores_length(q: NDArray, k: NDArray, frequencies: NDArray, offsets: NDArray) -> Any:
    """Take the absolute value where the real part belongs."""
    z = (q[..., 0::2] - 1j * q[..., 1::2]) * (k[..., 0::2] + 1j * k[..., 1::2])
    return np.abs(z @ np.exp(1j * np.outer(frequencies, offsets)))


_SCORE_WRONG = [
    wrong(
        _scores(odd=lambda a, b, u, v: 0.0),
        "only the cosines | With q = k along one axis you're right. In general a pair also has a "
        "sine: without it, earlier and later couldn't be told apart. → What is the product of "
        "(a, b) with (u, v) turned by 90°?",
    ),
    wrong(
        _scores(odd=lambda a, b, u, v: a * v - b * u),
        "the sine's sign | Your scores are those of the opposite offsets: yours is the query's "
        "position less the key's, or the query turned in the key's place. → In ⟨q, R k⟩, which of "
        "the two is turned, and which way?",
    ),
    wrong(
        _scores(odd=lambda a, b, u, v: b * u + a * v),
        "a sum before the sine | At offset 0 you're right; before the sine stands bu + av, where "
        "a difference belongs. → Which sign has v in u cos δθ − v sin δθ, and with which member "
        "of q does it meet?",
    ),
    wrong(
        _scores(odd=lambda a, b, u, v: b * u),
        "half of the sine's terms, bu | Before the sine stands bu alone with you. There are two "
        "such terms, one for each member of the turned key. → What does (u cos δθ − v sin δθ) "
        "add, multiplied by a?",
    ),
    wrong(
        _scores(odd=lambda a, b, u, v: -a * v),
        "half of the sine's terms, av | Before the sine stands −av alone with you. There are two "
        "such terms, one for each member of the turned key. → What does (u sin δθ + v cos δθ) "
        "add, multiplied by b?",
    ),
    wrong(
        _scores(even=lambda a, b, u, v: a * u, odd=lambda a, b, u, v: -a * v),
        "only the first members | You multiply the first member of the query with the turned "
        "key's first. A product of two vectors has the second members too. → What do b and the "
        "turned key's second member add?",
    ),
    wrong(
        _scores(even=lambda a, b, u, v: b * u - a * v, odd=lambda a, b, u, v: a * u + b * v),
        "sine and cosine changed places | At offset 0 your scores should be the plain product, and "
        "aren't: sine and cosine have changed places, or it's the imaginary part of a complex "
        "product. → Which of the two is 1 at angle 0?",
    ),
    wrong(
        _scores_length,
        "the length of a complex number | Your scores are never below 0, and with one pair they're "
        "the same at all offsets: you take the absolute value of the complex sum. → Which part of "
        "conj(q)·k is the product of two vectors?",
    ),
    wrong(
        _scores(scale=lambda d: 2 / d),
        "the mean over pairs | With one pair you're right. With more you take the mean of their "
        "products; a score is the sum. → What does a product of two vectors do with its terms?",
    ),
    wrong(
        _scores(even=lambda a, b, u, v: a * u - b * v, odd=lambda a, b, u, v: -(a * v + b * u)),
        "no conjugate | This is the real part of q·k·e^(iδθ): as complex numbers, one of the two "
        "has to be conjugated, or angles add up where their difference is wanted. → What is the "
        "real part of conj(q)·k at offset 0?",
    ),
    wrong(
        _scores(layout="half-split"),
        "half-split pairs | this exercise uses interleaved pairs, (0, 1), (2, 3), …; you pair the "
        "two halves, as the code of Llama does. → Which columns does the docstring pair?",
        variant=True,
    ),
    wrong(
        _scores(scale=lambda d: 1 / sqrt(d)),
        "divided by √d | this exercise uses the plain product; you divide by √d, as attention does "
        "afterwards. → What does the docstring's formula return at offset 0?",
        variant=True,
    ),
    wrong(
        _scores(angles=lambda o, f: np.abs(o)[:, None] * f),
        "the offset's size alone | A key 3 before the query scores with you as one 3 after it. → "
        "Which sign does an offset have when the key comes first?",
    ),
    wrong(
        _scores(angles=lambda o, f: 0.0 * o[:, None] * f),
        "no rotation | Your scores are the same at all offsets: nothing is turned, or query and "
        "key are turned by the same angle, which changes nothing. → If the query stays at "
        "position 0, where is the key?",
    ),
    wrong(
        _scores(angles=lambda o, f: np.deg2rad(o[:, None] * f)),
        "degrees | Your angles are taken for degrees and made radians once more, so that scores "
        "hardly move. → In which unit do `np.cos` and the frequencies count?",
    ),
    wrong(
        _scores(angles=lambda o, f: 2 * pi * o[:, None] * f),
        "turns for radians | Your angles are 2π times too large: the frequencies are taken for "
        "turns a position. → By how many radians does a pair with θ = π/6 turn in one position?",
    ),
    wrong(
        _scores(angles=lambda o, f: o[:, None] / f),
        "divided by the frequency | Your slow pairs turn fastest: the offset is divided by the "
        "frequency. → By which angle does a pair with θ = 0.01 turn in 100 positions?",
    ),
    wrong(
        _scores(angles=lambda o, f: (o[:, None] + 1) * f),
        "one position too far | At offset 0 your scores should be the plain product, but your key "
        "is turned by one position there. → Where is the key, if its offset is 0?",
    ),
    wrong(
        _scores(angles=lambda o, f: o[:, None] * f[::-1]),
        "the slowest pair first | The pairs turn with each other's speed: the last frequency "
        "belongs to the first pair with you. → Which one is the fastest?",
    ),
    wrong(
        _scores(angles=lambda o, f: o[:, None] * np.full_like(f, f[0])),
        "one speed for all pairs | All pairs turn as fast as the first one. → Which frequency "
        "belongs to pair i?",
    ),
    wrong(
        _scores(
            even=lambda a, b, u, v: np.hypot(a, b) * np.hypot(u, v), odd=lambda a, b, u, v: 0.0
        ),
        "lengths times the cosine | You multiply the lengths of both pairs by cos δθ, as if they "
        "pointed the same way to begin with. → At offset 0, what is the product of (1, 0) and "
        "(0, 1)?",
    ),
]


def _scores_rotating(q: NDArray, k: NDArray, frequencies: NDArray, offsets: NDArray) -> Any:
    """Put the query at position 40 and the keys around it."""
    at = np.full(len(offsets), 40)
    left, right = (_spread(x[..., None, :], offsets) for x in (q, k))
    return (turn(left, at, frequencies) * turn(right, at + offsets, frequencies)).sum(axis=-1)


def _scores_complex(q: NDArray, k: NDArray, frequencies: NDArray, offsets: NDArray) -> Any:
    z = (q[..., 0::2] - 1j * q[..., 1::2]) * (k[..., 0::2] + 1j * k[..., 1::2])
    return (z @ np.exp(1j * np.outer(frequencies, offsets))).real


def _scores_loops(q: NDArray, k: NDArray, frequencies: NDArray, offsets: NDArray) -> Any:
    found = np.zeros((*q.shape[:-1], len(offsets)))
    for place in np.ndindex(q.shape[:-1]):
        for m, offset in enumerate(offsets):
            for i, frequency in enumerate(frequencies):
                pair, angle = slice(2 * i, 2 * i + 2), offset * frequency
                c, s = np.cos(angle), np.sin(angle)
                turned = np.array([[c, -s], [s, c]]) @ k[(*place, pair)]
                found[(*place, m)] += q[(*place, pair)] @ turned
    return found


def _scores_torch(q: Any, k: Any, frequencies: Any, offsets: Any) -> Any:
    import torch

    angles = torch.outer(frequencies, offsets.to(frequencies.dtype))
    (a, b), (u, v) = (x.unflatten(-1, (-1, 2)).unbind(-1) for x in (q, k))
    return (a * u + b * v) @ angles.cos() + (b * u - a * v) @ angles.sin()


_RELATIVE_SCORES = Exercise(
    id="08.relative_scores",
    function="relative_scores",
    reference=relative_scores,
    guarded=[ref.rotate_interleaved, ref.rotate_half_split],
    cases=_SCORE_CASES,
    returns=("scores",),
    misconceptions=_SCORE_WRONG,
    alternatives=[
        ("query and keys turned", _scores_rotating),
        ("complex numbers", _scores_complex),
        ("loops over pairs", _scores_loops),
        Alternative(name="torch", right=_scores_torch, backend="torch"),
    ],
    hints=[
        "Only the difference of positions matters, so put the query at position 0: then it isn't "
        "turned at all, and the key is turned by offset · θ_i.",
        "For one pair, write out (a, b) · (u cos δθ − v sin δθ, u sin δθ + v cos δθ) and collect "
        "the terms with the cosine and those with the sine.",
        "Per pair it's (au + bv) cos δθ + (bu − av) sin δθ. With the offsets on an axis of their "
        "own, `offsets[:, None] * frequencies`, the sum over pairs leaves (…, n_offsets).",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 08.scaled_frequencies -------------------------------------------------------------------------


def scaled_frequencies(d: int, factor: float, kind: str, base: float = 10000.0) -> NDArray:
    """Return rotary frequencies for a context that is longer than the one trained.

    Parameters
    ----------
    d : int
        Width that is rotated, even and at least 4.
    factor : float
        How many times longer, at least 1.
    kind : {"linear", "ntk"}
        All pairs slow down by `factor`; or the base grows so that the slowest pair does and the
        fastest doesn't change.
    base : float, default 10000.0

    Returns
    -------
    float array, (d/2,)
    """
    return _stretched()(d, factor, kind, base)


def _frequencies(d: int, base: float) -> NDArray:
    return base ** (-np.arange(0, d, 2) / d)


def _stretched(
    *,
    plain: Callable[[int, float], NDArray] = _frequencies,
    linear: Callable[[NDArray, float], NDArray] = lambda f, factor: f / factor,
    grown: Callable[[float, float, int], float] = lambda base, s, d: base * s ** (d / (d - 2)),
    after: Callable[[NDArray, float], NDArray] = lambda f, factor: f,
    choose: Callable[[str], str] = lambda kind: kind,
    own_base: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Return the frequencies with some steps replaced."""

    def stretched(d: int, factor: float, kind: str, base: float = 10000.0) -> Any:
        base = 10000.0 if kind in own_base else base
        if choose(kind) == "linear":
            return linear(plain(d, base), factor)
        return after(plain(d, grown(base, factor, d)), factor)

    return stretched


_FREQUENCY_CASES = [
    case(
        "linear, width 8, base 16, factor 4 | all pairs at a quarter of their speed",
        {"d": 8, "factor": 4.0, "kind": "linear", "base": 16.0},
    ),
    case(
        "NTK, width 8, base 16, factor 3 | from the same speed to a third",
        {"d": 8, "factor": 3.0, "kind": "ntk", "base": 16.0},
    ),
    case(
        "linear, width 6, factor 2 | base 10,000, where none is given",
        {"d": 6, "factor": 2.0, "kind": "linear"},
    ),
    case(
        "NTK, width 6, base 50, factor 2.5 | the caller's base",
        {"d": 6, "factor": 2.5, "kind": "ntk", "base": 50.0},
    ),
    case(
        "NTK, width 4, factor 3 | the exponent depends on the width",
        {"d": 4, "factor": 3.0, "kind": "ntk"},
    ),
    case("NTK, width 12, factor 1 | nothing changes", {"d": 12, "factor": 1.0, "kind": "ntk"}),
]

_FREQUENCY_WRONG = [
    wrong(
        _stretched(linear=lambda f, s: f * s),
        "multiplied, linear | You make the pairs turn *faster* by the factor. A context that is "
        "four times as long has to turn them no farther than the short one did. → At which "
        "frequency does position 4m have the angle that m had?",
    ),
    wrong(
        _stretched(linear=lambda f, s: f),
        "nothing done, linear | With NTK you're right; linear frequencies are the plain ones. → "
        "What happens to a pair's speed when positions are squeezed by the factor?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s),
        "the base times the factor | You multiply the base by the factor itself, or, which is the "
        "same, divide pair i by factor^(2i/d). Then the slowest pair slows down by "
        "factor^((d−2)/d), not quite enough. → To which power has the factor "
        "to be raised so that the last pair gets exactly 1/factor?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s ** (d // (d - 2))),
        "whole numbers in the exponent | With width 4 you're right. For the others your exponent "
        "is a whole number, as d // (d − 2) is, and d/(d−2) isn't. → "
        "Which division keeps 8/6 as it is?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s**d / (d - 2)),
        "the power before the division | `factor ** d / (d - 2)` raises to d first and divides the "
        "result. → Where do brackets belong, so that the whole quotient is the exponent?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s * d / (d - 2)),
        "a product for the power | With factor 1 nothing should change, but your base does: you "
        "multiply the factor by d/(d−2). → What does the small raised d/(d−2) do with the factor?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base),
        "nothing done, NTK | Linear scaling is right; NTK gives the plain frequencies: either the "
        "base didn't grow, or the grown one isn't used. → Which base do your NTK frequencies have?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base, after=lambda f, s: np.append(f[:-1], f[-1] / s)),
        "the last pair alone, NTK | Your first and last pairs are right, but those between them "
        "keep their speed. With a larger base each slows down a little more than the one before. "
        "→ What is left to do by hand, once the base has grown?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s ** ((d - 2) / d)),
        "the exponent upside down | Your exponent is (d−2)/d, below 1, so the slowest pair slows "
        "down too little. → Solve (factor^p)^((d−2)/d) = factor for p: what comes out?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s ** (d / d - 2)),
        "brackets missing in the exponent | `d / d - 2` is 1 − 2, so that your base is divided by "
        "the factor. → Where do the brackets belong in d/(d−2)?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base * s**d),
        "the factor to the power of d | Your base is far too large: the exponent isn't d. → Solve "
        "(factor^p)^((d−2)/d) = factor for p: what comes out?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: (base * s) ** (d / (d - 2))),
        "the base raised as well | With factor 1 nothing should change, but your base does: the "
        "power takes it in as well. → To what does the exponent d/(d−2) belong?",
    ),
    wrong(
        _stretched(grown=lambda base, s, d: base / s ** (d / (d - 2))),
        "the base divided | Your pairs turn faster than before. A longer context needs slower "
        "ones. → Does a larger base make θ = base^(−2i/d) larger or smaller?",
    ),
    wrong(
        _stretched(after=lambda f, s: f / s),
        "stretched twice, NTK | With NTK you raise the base and divide by the factor as well, so "
        "that the fastest pair, too, slows down. → By how much should the first frequency change?",
    ),
    wrong(
        _stretched(choose=lambda kind: "ntk" if kind == "linear" else "linear"),
        'the kinds changed places | You raise the base for "linear" and divide the frequencies '
        'for "ntk". → Which of the two leaves the first pair as fast as it was?',
    ),
    wrong(
        _stretched(choose=lambda kind: "linear"),
        "always linear | Whatever is asked for, you divide all frequencies. → Where does your "
        "function look at `kind`, and which spelling does it wait for?",
    ),
    wrong(
        _stretched(choose=lambda kind: "ntk"),
        "always NTK | Whatever is asked for, you raise the base. → Where does your function look "
        "at `kind`?",
    ),
    wrong(
        _stretched(own_base=("linear", "ntk")),
        "the base ignored | With a base of 10,000 you're right, and any other changes nothing. → "
        "Where does your function use its argument `base`?",
    ),
    wrong(
        _stretched(own_base=("linear",)),
        "the base ignored, linear | With NTK you're right, whatever the base; linear frequencies "
        "are always those of base 10,000. → Where does linear scaling use `base`?",
    ),
    wrong(
        _stretched(own_base=("ntk",)),
        "the base ignored, NTK | With linear scaling you're right, whatever the base; NTK always "
        "raises 10,000. → Which base is to be raised?",
    ),
    wrong(
        _stretched(plain=lambda d, base: _frequencies(d, 10000.0)),
        "10,000 in the formula | Your plain frequencies have a fixed 10,000 in them, so that "
        "neither the caller's base nor the one that NTK raises comes in. → Which name belongs in "
        "the place of that number?",
    ),
    wrong(
        _stretched(plain=lambda d, base: base ** (-np.arange(d // 2) / d)),
        "i for 2i | Your frequencies fall too slowly: the last one should be near 1/base, and "
        "yours is near its root. → Which exponent has pair i?",
    ),
    wrong(
        _stretched(plain=lambda d, base: base ** -np.linspace(0.0, 1.0, d // 2)),
        "up to 1/base | Your exponents go from 0 to −1. Those of the formula stop before: the last "
        "pair has i = d/2 − 1. → What is −2i/d for the last pair?",
    ),
    wrong(
        _stretched(plain=lambda d, base: base ** (-np.arange(1, d, 2) / d)),
        "odd exponents | Your first pair doesn't turn by 1 radian a position: the exponents are "
        "those of the second members, 1, 3, 5, …. → What is 2i for the first pair?",
    ),
    wrong(
        _stretched(plain=lambda d, base: base ** (-2 * np.arange(0, d, 2) / d)),
        "4i for 2i | Your frequencies fall too fast: the factor 2 is there twice, once in the "
        "steps of the range and once before it. → Which exponent has pair 1 if d is 8?",
    ),
    wrong(
        _stretched(plain=lambda d, base: base ** (-2 * np.arange(1, d // 2 + 1) / d)),
        "pairs counted from 1 | Your first pair doesn't turn by 1 radian a position: pairs are "
        "counted from 1 with you. → What is i for the first pair?",
    ),
    wrong(
        _stretched(plain=lambda d, base: np.repeat(_frequencies(d, base), 2)),
        "each frequency twice | You list every frequency twice, once for each column. → How many "
        "pairs has a vector of width d?",
    ),
    wrong(
        _stretched(plain=lambda d, base: base ** (np.arange(0, d, 2) / d)),
        "the sign of the exponent | Your numbers grow from 1 up to nearly the base: these would be "
        "1/θ. → Which sign has the exponent of θ?",
    ),
]


def _stretched_by_pair(d: int, factor: float, kind: str, base: float = 10000.0) -> Any:
    """Say for each pair by how much it slows down."""
    found = []
    for i in range(d // 2):
        slower = factor if kind == "linear" else factor ** (2 * i / (d - 2))
        found.append(base ** (-2 * i / d) / slower)
    return found


def _stretched_logarithms(d: int, factor: float, kind: str, base: float = 10000.0) -> Any:
    i = np.linspace(0.0, 1.0, d // 2)
    logs = -np.log(base) * i * (d - 2) / d
    return np.exp(logs - np.log(factor) * (1.0 if kind == "linear" else i))


def _stretched_products(d: int, factor: float, kind: str, base: float = 10000.0) -> Any:
    """Multiply from pair to pair."""
    step = base ** (-2 / d)
    if kind == "ntk":
        step /= factor ** (2 / (d - 2))
    return np.cumprod([1.0 / (factor if kind == "linear" else 1.0)] + [step] * (d // 2 - 1))


def _stretched_torch(d: int, factor: float, kind: str, base: float = 10000.0) -> Any:
    import torch

    if kind == "ntk":
        base, factor = base * factor ** (d / (d - 2)), 1.0
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    return 1.0 / (base**exponents) / factor


_SCALED_FREQUENCIES = Exercise(
    id="08.scaled_frequencies",
    function="scaled_frequencies",
    reference=scaled_frequencies,
    guarded=[ref.linear_frequencies, ref.ntk_frequencies],
    cases=_FREQUENCY_CASES,
    returns=("frequencies",),
    misconceptions=_FREQUENCY_WRONG,
    alternatives=[
        ("pair by pair", _stretched_by_pair),
        ("logarithms", _stretched_logarithms),
        ("products from pair to pair", _stretched_products),
        Alternative(name="torch", right=_stretched_torch, backend="torch"),
    ],
    hints=[
        "Begin with the plain frequencies, base^(−2i/d) for i = 0, …, d/2 − 1. Linear scaling "
        "divides all of them.",
        "NTK leaves the formula and raises the base: base · factor^p. The last pair has i = d/2 − "
        "1, so its exponent is −(d−2)/d. Which p slows it down by the factor?",
        "p = d/(d−2). `np.arange(0, d, 2) / d` are the exponents without their sign.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 08.cached_positions ---------------------------------------------------------------------------


def extend_cache(
    q: NDArray, k: NDArray, cached_keys: NDArray, frequencies: NDArray
) -> tuple[NDArray, NDArray]:
    """Let new tokens look at a cache of turned keys and at themselves.

    Parameters
    ----------
    q, k : float arrays, (..., n, d)
        Of the new tokens, not turned yet; pairs are interleaved.
    cached_keys : float array, (..., n_past, d)
        Of the tokens before them, turned already.
    frequencies : float array, (d/2,)

    Returns
    -------
    weights : float array, (..., n, n_past + n)
        Softmax of the scaled scores; a token sees the past, itself, and no later token.
    keys : float array, (..., n_past + n, d)
        The cache with the new keys, turned.
    """
    return _cache()(q, k, cached_keys, frequencies)


Shift = Callable[[int, int], Any]


def _go_on(n: int, past: int) -> NDArray:
    return past + np.arange(n)


def _start_again(n: int, past: int) -> NDArray:
    return np.arange(n)


def _looking_back(n: int, past: int, total: int) -> NDArray:
    return np.arange(total) <= past + np.arange(n)[:, None]


def _all_seen(n: int, past: int, total: int) -> NDArray:
    return np.ones((n, total), dtype=bool)


def _cache(
    *,
    layout: str = "interleaved",
    count: Callable[[NDArray], int] = lambda cached: cached.shape[-2],
    at_q: Shift = _go_on,
    at_k: Shift = _go_on,
    old: Callable[[NDArray, NDArray], NDArray] = lambda past, frequencies: past,
    glue: Callable[[NDArray, NDArray], NDArray] = lambda a, b: np.concatenate([a, b], axis=-2),
    sees: Callable[[int, int, int], NDArray] = _looking_back,
    scale: Callable[[int], float] = sqrt,
    weigh: Callable[[NDArray, NDArray], NDArray] = lambda s, seen: _softmax(
        np.where(seen, s, -np.inf)
    ),
    store: Callable[[NDArray, NDArray, NDArray], Any] = lambda keys, past, k: keys,
) -> Callable[..., tuple[Any, Any]]:
    """Return the extension with some steps replaced."""
    turn = turning(layout)

    def extend(q: NDArray, k: NDArray, cached_keys: NDArray, frequencies: NDArray) -> Any:
        n, past = q.shape[-2], count(cached_keys)
        new_q = turn(q, at_q(n, past), frequencies)
        new_k = turn(k, at_k(n, past), frequencies)
        keys = glue(old(cached_keys, frequencies), new_k)
        scores = new_q @ keys.swapaxes(-2, -1) / scale(q.shape[-1])
        visible = sees(n, past, keys.shape[-2])
        return weigh(scores, visible), store(keys, cached_keys, k)

    return extend


def _filled(*lead: int, past: int, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 6, *lead, past, n])
        frequencies = np.array([1.0, 0.3, 0.05])[: d // 2].copy()
        keys = turn(draw(rng, *lead, past, d), np.arange(past), frequencies)
        return {
            "q": draw(rng, *lead, n, d),
            "k": draw(rng, *lead, n, d),
            "cached_keys": keys,
            "frequencies": frequencies,
        }

    return build


_CACHE_CASES = [
    case(
        "one token after 3 | it stands at position 3 and sees everything", _filled(past=3, n=1, d=4)
    ),
    case("3 tokens, an empty cache | positions 0, 1, 2", _filled(past=0, n=3, d=4)),
    case(
        "2 tokens after 4, width 6 | the first of them doesn't see the second",
        _filled(past=4, n=2, d=6),
    ),
    case("3 tokens after one | the mask goes on from the past", _filled(past=1, n=3, d=4)),
    case(
        "2 sequences, 3 heads, 2 tokens after 5 | whatever axes stand in front",
        _filled(2, 3, past=5, n=2, d=4),
    ),
]


def _cache_overwriting(q: NDArray, k: NDArray, cached_keys: NDArray, frequencies: NDArray) -> Any:
    weights, keys = _cache()(q, k, cached_keys, frequencies)
    k[...] = keys[..., cached_keys.shape[-2] :, :]
    return weights, keys


def _anew(past: NDArray, frequencies: NDArray) -> NDArray:
    return np.asarray(turn(past, np.arange(past.shape[-2]), frequencies))


def _from_the_left(n: int, past: int, total: int) -> NDArray:
    return np.arange(total) <= np.arange(n)[:, None]


_CACHE_WRONG = [
    wrong(
        _cache(at_q=_start_again, at_k=_start_again),
        "positions start again | With an empty cache you're right. After a cache your new tokens "
        "stand at 0, 1, … again, on top of the old ones. → How many tokens came before the first "
        "new one?",
    ),
    wrong(
        _cache(at_q=_start_again),
        "queries start again | Your keys are right, but the new queries are turned as if they "
        "stood at the beginning. → Where does a query stand, seen from its own key?",
    ),
    wrong(
        _cache(at_k=_start_again),
        "keys start again | Your queries are right, but the new keys are turned as if they stood "
        "at the beginning, and the cache keeps them so. → At which position is the first new key?",
    ),
    wrong(
        _cache(old=_anew),
        "cached keys turned again | You turn all keys, those of the cache too, which have been "
        "turned when they were new. → Which keys still need it?",
    ),
    wrong(
        _cache(old=_anew, sees=_all_seen),
        "cached keys turned again, and no mask | Two things: you turn all keys, those of the "
        "cache too, which have been turned when they were new; and of several new tokens the "
        "first looks at the later ones. → Which keys still need to be turned?",
    ),
    wrong(
        _cache(old=_anew, at_q=_start_again),
        "cached keys turned again, queries start again | Two things: you turn all keys, those of "
        "the cache too, which have been turned when they were new; and your queries stand at 0, 1, "
        "… again. → Which keys still need to be turned, and where do the new tokens stand?",
    ),
    wrong(
        _cache(sees=lambda n, past, total: np.tri(n, dtype=bool)),
        "a square mask | With one new token, or with an empty cache, your mask fits. Otherwise "
        "it's n × n, and the scores have n_past columns more: that's the error. → What may a new "
        "token see of the n_past old keys, and where do they stand in a row?",
    ),
    wrong(
        _cache(weigh=lambda s, seen: np.exp(s) * seen),
        "not normalised | Your keys are right, and hidden ones get no weight, but the rows don't "
        "sum to 1. → By what does the softmax divide the exponentials?",
    ),
    wrong(
        _cache(count=len),
        "the batch counted for the past | For one sequence that's right. With axes in front, "
        "`len` counts sequences, not cached tokens. → Which axis of the cache is that of the "
        "tokens, counted from the end?",
    ),
    wrong(
        _cache(glue=lambda a, b: np.concatenate([a, b], axis=-2 if a.ndim == 2 else 0)),
        "axes counted from the front | For one sequence you're right. With axes in front yours "
        "stops with an error: `len`, `shape[0]`, `axis=0` and `.T` count axes from the front. → "
        "Which axis is that of the tokens, counted from the end?",
    ),
    wrong(
        _cache(store=lambda keys, past, k: np.concatenate([past, k], axis=-2)),
        "stored before turning | Your weights are right, but the new keys go into the cache as "
        "they came: the next call takes them for turned. → Which version of the new keys does a "
        "later token need?",
    ),
    wrong(
        _cache(
            at_q=lambda n, past: _go_on(n, past) + 1,
            at_k=lambda n, past: _go_on(n, past) + 1,
        ),
        "one position too far | Your new tokens stand one place too far on, as if counting began "
        "with 1; the cached ones began with 0. → If 3 tokens are cached, what is the position of "
        "the next?",
    ),
    wrong(
        _cache(
            at_q=lambda n, past: np.full(n, past),
            at_k=lambda n, past: np.full(n, past),
        ),
        "all new tokens at one place | With one new token you're right. Of several, all stand at "
        "the position of the first. → How far is the second from it?",
    ),
    wrong(
        _cache(sees=_all_seen),
        "no mask | Of several new tokens, your first one looks at the later ones, which a causal "
        "model must not see. → Which of the new keys may it see?",
    ),
    wrong(
        _cache(
            at_q=_start_again,
            at_k=_start_again,
            sees=_all_seen,
        ),
        "positions start again, and no mask | Two things: after a cache your new tokens stand at "
        "0, 1, … again, and they look at later ones. → How many tokens came before the first new "
        "one?",
    ),
    wrong(
        _cache(sees=_from_the_left),
        "the mask begins at the left | With an empty cache you're right. Otherwise your mask "
        "belongs to tokens that begin at 0: the first new one sees a single key. → Which key is "
        "the last that new token i may see, if the past comes first?",
    ),
    wrong(
        _cache(at_q=_start_again, at_k=_start_again, sees=_from_the_left),
        "positions and mask start again | With an empty cache you're right. Otherwise both your "
        "positions and your mask take the new tokens for the first ones. → How many tokens came "
        "before them?",
    ),
    wrong(
        _cache(weigh=lambda s, seen: s),
        "scores in the place of weights | Your keys are right, but the first result holds scores: "
        "its rows don't sum to 1, and later tokens aren't hidden. → Which function makes weights "
        "of scores, and what hides a key from it?",
    ),
    wrong(
        _cache(weigh=lambda s, seen: _softmax(np.where(seen, s, 0.0))),
        "hidden scores set to 0 | Your hidden keys still get weight: a score of 0 is an ordinary "
        "score, and e⁰ is 1. → Which score has the exponential 0?",
    ),
    wrong(
        _cache(weigh=lambda s, seen: _softmax(s + seen)),
        "the mask added | You add the mask to the scores, where True counts 1: hidden keys get a "
        "little less weight, not none. → Which number, added to a score, leaves it no weight?",
    ),
    wrong(
        _cache(weigh=lambda s, seen: _softmax(np.where(seen, s, -np.inf), -2)),
        "normalised over the queries | Your columns sum to 1, not your rows. → Over which axis are "
        "the keys that one query chooses from?",
    ),
    wrong(
        _cache(weigh=lambda s, seen: _softmax(s) * seen),
        "the mask after the softmax | Your weights of hidden keys are 0, but the others don't sum "
        "to 1: the hidden ones took their share before. → What has to happen to a hidden key's "
        "score before the softmax?",
    ),
    wrong(
        _cache(sees=lambda n, past, total: np.arange(total) < past),
        "only the past | Your new tokens look at the cache alone, and where that is empty nothing "
        "is left to look at. → Does a token see itself?",
    ),
    wrong(
        _cache(sees=lambda n, past, total: np.arange(total) < past + np.arange(n)[:, None]),
        "itself hidden | Your new tokens don't see themselves, and where the cache is empty the "
        "first has nothing to look at. → Does key j = n_past + i belong to what token i sees?",
    ),
    wrong(
        _cache(sees=lambda n, past, total: np.arange(total) <= past + np.arange(n)[:, None] + 1),
        "one too many seen | With a single new token you're right. Of several, each sees the one "
        "after it. → Which key is the last that new token i may see?",
    ),
    wrong(
        _cache(sees=lambda n, past, total: np.arange(total) >= past),
        "the past hidden | Your new tokens look at the new keys alone, and the cache has no "
        "weight. → What is a cache kept for?",
    ),
    wrong(
        _cache(sees=lambda n, past, total: np.arange(total) >= past + np.arange(n)[:, None]),
        "the mask upside down | Your new tokens see themselves and what comes later; the past is "
        "hidden. → On which side of itself may a token look?",
    ),
    wrong(
        _cache(glue=lambda a, b: np.concatenate([b, a], axis=-2)),
        "new keys in front | You put the new keys before the old ones, so that neither mask nor "
        "next position fits. → At which end does a text grow?",
    ),
    wrong(
        _cache(store=lambda keys, past, k: keys[..., past.shape[-2] :, :]),
        "only the new keys returned | Your weights are right, but you hand back the new keys "
        "alone, and the next call wouldn't see the past. → What does the cache hold after this "
        "call?",
    ),
    wrong(
        _cache(scale=lambda d: 1.0),
        "not scaled | Your keys are right, your weights are too sharp: the scores aren't divided "
        "by anything. → What does attention divide a product of d numbers by?",
    ),
    wrong(
        _cache(scale=lambda d: float(d)),
        "divided by d | Your keys are right, your weights are too even: the scores are divided by "
        "d. → How does the size of a product of d random numbers grow with d?",
    ),
    wrong(
        _cache(at_k=lambda n, past: np.zeros(n)),
        "keys not turned | Your queries are right, but the new keys go into scores and cache as "
        "they came, as if all stood at position 0. → Which two of queries, keys and values are "
        "turned?",
    ),
    wrong(
        _cache(at_q=lambda n, past: np.zeros(n), at_k=lambda n, past: np.zeros(n)),
        "nothing turned | Neither your new queries nor your new keys are turned; the cached keys "
        "are. → At which positions do the new tokens stand?",
    ),
    wrong(
        _cache(at_q=lambda n, past: np.zeros(n)),
        "queries not turned | Your keys are right, but the queries are as they came, as if all "
        "stood at position 0. → Which two of queries, keys and values are turned?",
    ),
    wrong(
        _cache(layout="half-split"),
        "half-split pairs | this exercise uses interleaved pairs, in which the cache was turned "
        "too; you pair the two halves. → Which columns does the docstring pair?",
        variant=True,
    ),
    wrong(
        _cache_overwriting,
        "k is overwritten | The numbers are right, but the caller's `k` has been turned: it was "
        "written into. → Which line makes the array of the turned keys?",
    ),
]


def _cache_whole(q: NDArray, k: NDArray, cached_keys: NDArray, frequencies: NDArray) -> Any:
    """Turn the cache back, and the whole text anew."""
    past, n = cached_keys.shape[-2], q.shape[-2]
    plain = turn(cached_keys, -np.arange(past), frequencies)
    keys = turn(np.concatenate([plain, k], axis=-2), np.arange(past + n), frequencies)
    scores = turn(q, np.arange(past, past + n), frequencies) @ keys.swapaxes(-2, -1)
    hidden = ~np.tri(past + n, dtype=bool)[past:]
    return _softmax(scores / sqrt(q.shape[-1]) - np.where(hidden, np.inf, 0.0)), keys


def _cache_one_by_one(q: NDArray, k: NDArray, cached_keys: NDArray, frequencies: NDArray) -> Any:
    past, n = cached_keys.shape[-2], q.shape[-2]
    weights, keys = np.zeros((*q.shape[:-1], past + n)), cached_keys
    for i in range(n):
        at = np.array([past + i])
        keys = np.concatenate([keys, turn(k[..., i : i + 1, :], at, frequencies)], axis=-2)
        query = turn(q[..., i : i + 1, :], at, frequencies)
        scores = (query * keys).sum(axis=-1) / sqrt(q.shape[-1])
        weights[..., i, : past + i + 1] = _softmax(scores)
    return weights, keys


def _cache_complex(q: NDArray, k: NDArray, cached_keys: NDArray, frequencies: NDArray) -> Any:
    past, n = cached_keys.shape[-2], q.shape[-2]
    turn = np.exp(1j * np.outer(np.arange(past, past + n), frequencies))
    new_q, new_k = ((x[..., 0::2] + 1j * x[..., 1::2]) * turn for x in (q, k))
    keys = np.concatenate([cached_keys[..., 0::2] + 1j * cached_keys[..., 1::2], new_k], axis=-2)
    scores = (new_q @ keys.conj().swapaxes(-2, -1)).real / sqrt(q.shape[-1])
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True)) * np.tri(n, past + n, past)
    return exps / exps.sum(axis=-1, keepdims=True), glue(keys.real, keys.imag, "interleaved")


def _cache_torch(q: Any, k: Any, cached_keys: Any, frequencies: Any) -> Any:
    import torch

    past, n = cached_keys.shape[-2], q.shape[-2]
    at = torch.arange(past, past + n)
    keys = torch.cat([cached_keys, torch_interleaved(k, at, frequencies)], dim=-2)
    scores = torch_interleaved(q, at, frequencies) @ keys.mT / sqrt(q.shape[-1])
    visible = torch.ones(n, past + n, dtype=torch.bool).tril(past)
    return torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1), keys


_CACHED_POSITIONS = Exercise(
    id="08.cached_positions",
    function="extend_cache",
    reference=extend_cache,
    cases=_CACHE_CASES,
    returns=("weights", "keys"),
    misconceptions=_CACHE_WRONG,
    alternatives=[
        ("the whole text anew", _cache_whole),
        ("token by token", _cache_one_by_one),
        ("complex numbers", _cache_complex),
        Alternative(name="torch", right=_cache_torch, backend="torch"),
    ],
    hints=[
        "How many keys the cache holds is where the new tokens begin: their positions go on from "
        "there, for queries and keys alike.",
        "Turn the new keys, put them after the cached ones, and score the turned queries with "
        "all of them. Cached keys have been turned already.",
        "New token i may see key j where j ≤ n_past + i. Divide by √d and hide the others before "
        "the softmax. `rotate_interleaved` may be called.",
    ],
    points=4,
    minutes=25,
    difficulty=2,
)


# -- 08.bug_rotary ---------------------------------------------------------------------------------


def rotary_attention(
    q: NDArray, k: NDArray, v: NDArray, positions: NDArray, frequencies: NDArray
) -> tuple[NDArray, NDArray]:
    """Attend with queries and keys that are turned by their positions.

    Parameters
    ----------
    q, k, v : float arrays, (..., n, d)
        Left as they are; pairs are interleaved.
    positions : integer array, (n,)
    frequencies : float array, (d/2,)

    Returns
    -------
    output : float array, (..., n, d)
    weights : float array, (..., n, n)
    """
    return _rotary()(q, k, v, positions, frequencies)


def rotary_attention_broken(
    q: NDArray, k: NDArray, v: NDArray, positions: NDArray, frequencies: NDArray
) -> tuple[NDArray, NDArray]:
    """Attend with rotary positions, as the exercise's notebook shows it: right at position 0."""
    angles = positions[:, None] * frequencies
    cos, sin = np.cos(angles), np.sin(angles)
    for x in (q, k, v):
        even, odd = x[..., 0::2], x[..., 1::2]
        even[...] = even * cos - odd * sin
        odd[...] = even * sin + odd * cos
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exps / exps.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def _rotary(
    *,
    turn: Callable[..., Any] = turn,
    turned: str = "qk",
    touched: str = "",
    scale: Callable[[int], float] = sqrt,
    axis: int = -1,
    back: bool = False,
    weigh: Callable[[NDArray, int], NDArray] = _softmax,
    across: Callable[[NDArray], NDArray] = lambda k: k.swapaxes(-2, -1),
) -> Callable[..., Any]:
    """Return rotary attention with some steps replaced: what is turned, and what is overwritten."""

    def attend(q: NDArray, k: NDArray, v: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        given = {"q": q, "k": k, "v": v}
        now = {
            name: turn(x, positions, frequencies) if name in turned else x
            for name, x in given.items()
        }
        for name in touched:
            given[name][...] = now[name]
        scores = now["q"] @ across(now["k"]) / scale(q.shape[-1])
        weights = weigh(scores, axis)
        output = weights @ now["v"]
        return (turn(output, -positions, frequencies) if back else output), weights

    return attend


def _attending(*lead: int, n: int, d: int, positions: list[int]) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 7, *lead, n, d])
        return {
            **{name: draw(rng, *lead, n, d) for name in "qkv"},
            "positions": np.array(positions),
            "frequencies": np.array([1.0, 0.3, 0.05])[: d // 2].copy(),
        }

    return build


_ROTARY_CASES = [
    case(
        "all at position 0 | the test that the broken program was released with",
        _attending(n=3, d=4, positions=[0, 0, 0]),
    ),
    case(
        "5 tokens of width 6 | each by its own position",
        _attending(n=5, d=6, positions=[0, 1, 2, 3, 4]),
    ),
    case("3 tokens of width 2 | one pair", _attending(n=3, d=2, positions=[0, 1, 2])),
    case(
        "positions 9, 2 and 30 | not counted, but given", _attending(n=3, d=4, positions=[9, 2, 30])
    ),
    case("one token at position 5 | its output is its value", _attending(n=1, d=4, positions=[5])),
    case(
        "2 sequences, 3 heads, 4 tokens of width 6 | whatever axes stand in front",
        _attending(2, 3, n=4, d=6, positions=[3, 4, 5, 6]),
    ),
]

_STALE = turning(mix=stale)


def _causal(s: NDArray, axis: int) -> NDArray:
    return _softmax(np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf), axis)


def _second_first(a: Any, b: Any, c: Any, s: Any) -> tuple[Any, Any]:
    """Turn the first member with a second one that has been turned already."""
    new = a * s + b * c
    return a * c - new * s, new


_FAULTS = {
    "stale": "the second member of a pair is computed from a first one that has been turned "
    "already, since `even` and `odd` are views of one array",
    "values": "the values are turned too, so that what is mixed depends on where it stood",
    "touched": "the caller's arrays are written into, so that a second call turns them again",
}
_QUESTIONS = {
    "stale": "What does `even` hold when the line for `odd` runs?",
    "values": "Which of queries, keys and values should know where a token stands?",
    "touched": "Which lines write into the arrays that were passed in?",
}


def _left(*faults: str) -> Misconception:
    """Return the program with some of its three faults left."""
    turned = "qkv" if "values" in faults else "qk"
    how_many = "One fault is left" if len(faults) == 1 else "Two faults are left"
    if len(faults) == 3:
        return wrong(
            rotary_attention_broken,
            "the program as it was | This is what the broken program returns. Two rows of weights "
            "at the same distances should be alike, wherever they stand. → Turn one pair by hand: "
            f"{_QUESTIONS['stale'][0].lower()}{_QUESTIONS['stale'][1:]}",
            program=as_cell(rotary_attention_broken, "rotary_attention"),
        )
    return wrong(
        _rotary(
            turn=_STALE if "stale" in faults else turn,
            turned=turned,
            touched=turned if "touched" in faults else "",
        ),
        f"left: {', '.join(faults)} | {how_many}: {'; and '.join(_FAULTS[f] for f in faults)}. → "
        f"{_QUESTIONS[faults[0]]}",
    )


_ROTARY_WRONG = [
    _left("stale", "values", "touched"),
    _left("stale", "values"),
    _left("stale", "touched"),
    _left("values", "touched"),
    _left("stale"),
    _left("values"),
    _left("touched"),
    wrong(
        _rotary(weigh=_causal),
        "a causal mask | Your first token looks at itself alone: you've added a causal mask. The "
        "broken program has none, and no fault there. → Which line hides later tokens?",
    ),
    wrong(
        _rotary(turn=turning(mix=_second_first)),
        "the second member first | You've changed the order of the two lines, and now the first "
        "member of a pair is computed from a second one that has been turned already. → Where "
        "could both new members be kept until both are there?",
    ),
    wrong(
        _rotary(turned="v"),
        "only the values turned | It's the other way round with you: the values are turned, and "
        "queries and keys aren't. → Which of the three should know where a token stands?",
    ),
    wrong(
        _rotary(turned="qv"),
        "queries and values turned | You turn queries and values. The keys aren't turned, so that "
        "scores depend on where the query stands. → Which two meet in a score?",
    ),
    wrong(
        _rotary(turned="kv"),
        "keys and values turned | You turn keys and values. The queries aren't turned, so that "
        "scores depend on where the key stands. → Which two meet in a score?",
    ),
    wrong(
        _rotary(axis=-2),
        "normalised over the queries | Your columns sum to 1, not your rows. The broken program "
        "had this right. → Over which axis are the keys that one query chooses from?",
    ),
    wrong(
        _rotary(scale=float),
        "divided by d | Your weights are too even: the scores are divided by d, not by its root. "
        "→ Which line of the broken program did it?",
    ),
    wrong(
        _rotary(across=lambda k: k.T),
        "axes counted from the front | For one sequence you're right. With axes in front yours "
        "stops with an error: `.T` turns the order of *all* axes round. → Which two axes of the "
        "keys have to change places, counted from the end?",
    ),
    wrong(
        _rotary(turned="q"),
        "only queries turned | Your keys aren't turned, so that scores depend on where the query "
        "stands, not on the distance. → Which two have to be turned so that only the difference of "
        "positions is left?",
    ),
    wrong(
        _rotary(turned="k"),
        "only keys turned | Your queries aren't turned, so that scores depend on where the key "
        "stands, not on the distance. → Which two have to be turned so that only the difference of "
        "positions is left?",
    ),
    wrong(
        _rotary(turned=""),
        "nothing turned | Your weights are those of attention without positions. → Where are the "
        "queries and keys turned now?",
    ),
    wrong(
        _rotary(turned="qkv", back=True),
        "the output turned back | The values are turned, mixed, and the mixture turned back by the "
        "query's position: a value still depends on how far away it was. → What should a value "
        "know of its position?",
    ),
    wrong(
        _rotary(turn=turning("half-split")),
        "half-split pairs | this exercise uses interleaved pairs, as the broken program does; you "
        "pair the two halves. → Which columns does the docstring pair?",
        variant=True,
    ),
    wrong(
        _rotary(turn=turning(mix=lambda a, b, c, s: (a * c + b * s, b * c - a * s))),
        "turned the other way | Queries and keys are turned clockwise, so earlier and later have "
        "changed places. The broken program had the signs right. → Before which sine does the "
        "minus stand?",
    ),
    wrong(
        _rotary(turn=turning(angles=lambda p, f, x: np.arange(x.shape[-2])[:, None] * f)),
        "positions counted anew | You count the tokens yourself, from 0. The broken program had "
        "this right. → Which argument says where they stand?",
    ),
    wrong(
        _rotary(scale=lambda d: 1.0),
        "not scaled | Your weights are too sharp: the scores aren't divided by √d any more. → "
        "Which line of the broken program did it?",
    ),
]


def _rotary_complex(
    q: NDArray, k: NDArray, v: NDArray, positions: NDArray, frequencies: NDArray
) -> Any:
    turns = np.exp(1j * positions[:, None] * frequencies)
    new_q, new_k = ((x[..., 0::2] + 1j * x[..., 1::2]) * turns for x in (q, k))
    scores = (new_q @ new_k.conj().swapaxes(-2, -1)).real / sqrt(q.shape[-1])
    weights = _softmax(scores)
    return weights @ v, weights


def _rotary_shifted(
    q: NDArray, k: NDArray, v: NDArray, positions: NDArray, frequencies: NDArray
) -> Any:
    """Count from 1: only differences matter."""
    return _rotary()(q, k, v, positions + 1, frequencies)


def _rotary_offsets(
    q: NDArray, k: NDArray, v: NDArray, positions: NDArray, frequencies: NDArray
) -> Any:
    """Score every query with every key at their distance, turning neither."""
    scores = np.zeros((*q.shape[:-1], k.shape[-2]))
    for i, at in enumerate(positions):
        for j, there in enumerate(positions):
            one = _scores()(q[..., i, :], k[..., j, :], frequencies, np.array([there - at]))
            scores[..., i, j] = one[..., 0] / sqrt(q.shape[-1])
    weights = _softmax(scores)
    return np.einsum("...ij,...jd->...id", weights, v), weights


def _rotary_torch(q: Any, k: Any, v: Any, positions: Any, frequencies: Any) -> Any:
    import torch

    new_q, new_k = (torch_interleaved(x, positions, frequencies) for x in (q, k))
    weights = torch.softmax(new_q @ new_k.mT / sqrt(q.shape[-1]), dim=-1)
    return weights @ v, weights


_BUG_ROTARY = Exercise(
    id="08.bug_rotary",
    function="rotary_attention",
    reference=rotary_attention,
    cases=_ROTARY_CASES,
    returns=("output", "weights"),
    misconceptions=_ROTARY_WRONG,
    alternatives=[
        ("complex numbers", _rotary_complex),
        ("counted from 1", _rotary_shifted),
        ("scores by distance", _rotary_offsets),
        Alternative(name="torch", right=_rotary_torch, backend="torch"),
    ],
    hints=[
        "Give the program one token at position 5. Its weight is 1 whatever happens, so its output "
        "must be its value. Then look at the length of a turned pair: it should stay the same.",
        "`x[..., 0::2]` is a view: writing into `even` changes `x`. What does the next line read? "
        "And whose array is `x`?",
        "Turn queries and keys in a helper that returns a new array, both members computed from "
        "the old ones. Leave the values alone.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [
    ROTATE_INTERLEAVED,
    ROTATE_HALF_SPLIT,
    _TO_HALF_SPLIT,
    _RELATIVE_SCORES,
    _SCALED_FREQUENCIES,
    _CACHED_POSITIONS,
    _BUG_ROTARY,
]

#: The broken program as the page shows it.
BROKEN = {"08.bug_rotary": rotary_attention_broken}
