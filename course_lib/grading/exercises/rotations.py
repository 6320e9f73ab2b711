"""The exercises of chapter 08 that turn pairs of columns, in both layouts.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise, Misconception
from course_lib.reference import rotary as ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ROTATE_HALF_SPLIT",
    "ROTATE_INTERLEAVED",
    "glue",
    "split",
    "stale",
    "torch_interleaved",
    "turn",
    "turning",
]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


def split(x: NDArray, layout: str, pairs: int) -> tuple[NDArray, NDArray]:
    """Return the first and the second members of the pairs, as views."""
    if layout == "interleaved":
        return x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    return x[..., :pairs], x[..., pairs : 2 * pairs]


def glue(a: NDArray, b: NDArray, layout: str) -> NDArray:
    """Put first and second members back in a layout."""
    if layout == "interleaved":
        return np.stack([a, b], axis=-1).reshape(*a.shape[:-1], 2 * a.shape[-1])
    return np.concatenate([a, b], axis=-1)


def _angles(positions: NDArray, frequencies: NDArray, x: NDArray) -> NDArray:
    return positions[..., None] * frequencies


Mix = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


def _rotation(a: Any, b: Any, c: Any, s: Any) -> tuple[Any, Any]:
    return a * c - b * s, a * s + b * c


def stale(a: Any, b: Any, c: Any, s: Any) -> tuple[Any, Any]:
    """Turn the second member with a first one that has been turned already."""
    new = a * c - b * s
    return new, new * s + b * c


def turning(
    layout: str = "interleaved",
    *,
    glued: str = "",
    angles: Callable[[NDArray, NDArray, NDArray], NDArray] = _angles,
    mix: Mix = _rotation,
    rest: Callable[[NDArray], NDArray] = lambda rest: rest,
    in_place: bool = False,
) -> Callable[..., Any]:
    """Return a rotation with some steps replaced; `glued` is the layout of the result."""

    def turn(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        angle = angles(positions, frequencies, x)
        pairs = angle.shape[-1]
        a, b = mix(*split(x, layout, pairs), np.cos(angle), np.sin(angle))
        turned = np.concatenate([glue(a, b, glued or layout), rest(x[..., 2 * pairs :])], axis=-1)
        if in_place:
            x[...] = turned
            return x
        return turned

    return turn


turn = turning()


# -- 08.rotate_interleaved and 08.rotate_half_split ------------------------------------------------

_SLOWER = np.array([1.0, 0.3, 0.05, 0.01])


def _turned(
    *shape: int, pairs: int, positions: Any = None, own: bool = False
) -> Callable[[int], dict[str, Any]]:
    """Draw vectors; positions are drawn too where each sequence has its own."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 1, *shape])
        at = np.arange(shape[-2]) if positions is None else np.array(positions)
        if own:
            at = np.sort(rng.choice(20, shape[:-1], replace=False), axis=-1) + 1
        return {"x": draw(rng, *shape), "positions": at, "frequencies": _SLOWER[:pairs].copy()}

    return build


_ROTATION_CASES = [
    case(
        "positions 0 and 3 | the first vector stays as it is",
        _turned(2, 4, pairs=2, positions=[0, 3]),
    ),
    case(
        "a quarter turn a position | (2, 1), (−1, 2), (−2, −1), (1, −2)",
        {
            "x": np.array([[2.0, 1.0]] * 4),
            "positions": np.arange(4),
            "frequencies": np.array([pi / 2]),
        },
    ),
    case(
        "positions 7, 2 and 30 | not counted, but given",
        _turned(3, 4, pairs=2, positions=[7, 2, 30]),
    ),
    case(
        "one vector 1, 2, …, 8 at position 3 | four pairs, each at its own speed",
        {"x": np.arange(1.0, 9.0)[None], "positions": np.array([3]), "frequencies": _SLOWER.copy()},
    ),
    case("5 tokens of width 6 | each by its own position", _turned(5, 6, pairs=3)),
    case(
        "2 sequences, 3 heads, 4 tokens, width 6 | whatever axes stand in front",
        _turned(2, 3, 4, 6, pairs=3),
    ),
    case(
        "2 sequences with positions of their own | positions may have axes in front too",
        _turned(2, 4, 6, pairs=3, own=True),
    ),
    case(
        "3 tokens of width 6, of which 4 columns turn | the others stay as they are",
        _turned(3, 6, pairs=2, positions=[1, 2, 3]),
    ),
]

_PAIRS = {
    "interleaved": "neighbouring columns, (0, 1), (2, 3), …",
    "half-split": "a column of the first half and its like in the second",
}


def _from_the_width(positions: NDArray, frequencies: NDArray, x: NDArray) -> NDArray:
    d = x.shape[-1]
    return positions[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d)


def _all_columns(layout: str) -> Callable[..., Any]:
    """Pair all columns, however few frequencies there are."""

    def turn(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        angle = _angles(positions, frequencies, x)
        a, b = _rotation(*split(x, layout, x.shape[-1] // 2), np.cos(angle), np.sin(angle))
        return glue(a, b, layout)

    return turn


def _last_columns(layout: str) -> Callable[..., Any]:
    """Turn the last columns in the place of the first ones."""

    def turn(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        start = x.shape[-1] - 2 * len(frequencies)
        turned = turning(layout)(x[..., start:], positions, frequencies)
        return np.concatenate([x[..., :start], turned], axis=-1)

    return turn


def _partners_from(start: Callable[[int, int], int]) -> Callable[..., Any]:
    """Pair the first p columns with p others, from a column that depends on the width and p."""

    def turn(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        p, angle = len(frequencies), _angles(positions, frequencies, x)
        at = start(x.shape[-1], p)
        turned = x.copy()
        turned[..., :p], turned[..., at : at + p] = _rotation(
            x[..., :p], x[..., at : at + p], np.cos(angle), np.sin(angle)
        )
        return turned

    return turn


def _mixed_angles(layout: str) -> Callable[..., Any]:
    """Spread the angles over the columns in the other layout than the vectors."""
    other = "half-split" if layout == "interleaved" else "interleaved"

    def turn(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        angle = _angles(positions, frequencies, x)
        pairs = angle.shape[-1]
        a, b = split(x, layout, pairs)
        spread = glue(angle, angle, other)
        turned = glue(a, b, layout) * np.cos(spread) + glue(-b, a, layout) * np.sin(spread)
        return np.concatenate([turned, x[..., 2 * pairs :]], axis=-1)

    return turn


def _rotation_wrong(layout: str, other: str) -> list[Misconception]:
    """Return what goes wrong in either layout."""
    return [
        wrong(
            turning(other),
            f"{other} pairs | this exercise uses {layout} pairs, {_PAIRS[layout]}; you pair "
            f"{_PAIRS[other]}. Scores come out the same as long as queries and keys agree, but "
            "not with weights that were trained the other way. → Which columns does the docstring "
            "pair?",
            variant=True,
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * c + b * s, b * c - a * s)),
            "turned the other way | Your pairs turn clockwise: with a quarter turn, (1, 0) becomes "
            "(0, −1). → Before which of the two sines does the minus stand?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * c + b * s, a * s + b * c)),
            "no minus | Your vectors change their length, so this is no rotation: there's a plus "
            "before both sines. → What becomes of (0, 1) after a quarter turn?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * c - b * s, b * c - a * s)),
            "two minuses | Your vectors change their length, so this is no rotation: there's a "
            "minus before both sines. → What becomes of (1, 0) after a quarter turn?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * c, b * c)),
            "only the cosines | Your pairs shrink and don't turn: each member is multiplied by the "
            "cosine, and nothing of its partner comes in. → Where does (1, 0) point after a "
            "quarter turn?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * c - b * s, a * s - b * c)),
            "mirrored | At position 0 nothing should move, but your second members change their "
            "sign: you mirror the pairs. → Which sign does b cos have in the second member?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * s + b * c, a * c - b * s)),
            "the members changed places | Your numbers are right, but first and second members "
            "have changed places, even at position 0. → Which of the two comes first in the "
            "array that you put together?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a, b)),
            "nothing turned | Your vectors come back as they went in, at every position. → In "
            "which line do the turned numbers get into the array that you return?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * s - b * c, a * c + b * s)),
            "sine and cosine changed places | At position 0 nothing should move, but yours does: "
            "sine and cosine have changed places. → Which of the two is 1 at angle 0?",
        ),
        wrong(
            turning(layout, mix=stale),
            "the first member changed too early | The first member of each pair is right, the "
            "second isn't: it's computed from a first member that has been turned already. → Which "
            "value of a belongs in a sin + b cos, and is it still there?",
        ),
        wrong(
            turning(layout, mix=lambda a, b, c, s: (a * c - (a * s + b * c) * s, a * s + b * c)),
            "the second member changed too early | The second member of each pair is right, the "
            "first isn't: it's computed from a second member that has been turned already. → "
            "Which value of b belongs in a cos − b sin, and is it still there?",
        ),
        wrong(
            turning(layout, mix=stale, in_place=True),
            "the first member changed too early, in the caller's array | The second member of each "
            "pair is computed from a first one that has been turned already, and both are written "
            "into `x`: a slice of an array is a view, not a copy. → Where could the new numbers "
            "be kept until both are there?",
        ),
        wrong(
            turning(layout, in_place=True),
            "x is overwritten | The numbers are right, but the caller's vectors are gone, since "
            "the turned ones were written into `x`. → Which line makes the new array?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: (p[..., None] + 1) * f),
            "counted from 1 | Your vectors are one position too far. Scores wouldn't show it, "
            "since only differences matter there; a cache that counts from 0 would. → What "
            "happens at position 0?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: 0 * p[..., None] + f),
            "no positions | All your vectors turn by the same angles, those of position 1: the "
            "positions don't come in. → By what is a frequency to be multiplied?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: p[..., None] + f),
            "position plus frequency | Your angles are sums, m + θ, so that even at position 0 "
            "every pair turns. → What is the angle of a pair that makes θ a position, after m of "
            "them?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: p[..., None] / f),
            "divided by the frequency | Your slow pairs turn fastest: the position is divided by "
            "the frequency. → By which angle does a pair with θ = 0.01 turn in 100 positions?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: 2 * pi * p[..., None] * f),
            "turns for radians | Your angles are 2π times too large: the frequencies are taken for "
            "turns a position. → In which unit does the docstring give them?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: p[..., None] * f[::-1]),
            "the slowest pair first | The last frequency turns your first pair. With one pair that "
            "makes no difference, with more it does. → Which frequency belongs to pair 0?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: np.arange(x.shape[-2])[:, None] * f),
            "positions counted anew | You count the tokens yourself, from 0. With a cache, or with "
            "padding, they stand elsewhere. → Which argument says where?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: np.outer(p, f)),
            "positions as one list | Where each sequence has positions of its own, yours stop with "
            "an error: `np.outer` and `positions[:, None]` expect a single list of them. → With "
            "which index does the new axis come last, however many there are in front?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: np.deg2rad(p[..., None] * f)),
            "degrees | Your angles are far too small: they're taken for degrees and made radians "
            "once more. → In which unit do `np.cos` and the frequencies count?",
        ),
        wrong(
            turning(layout, angles=lambda p, f, x: p[..., None] * np.full_like(f, f[0])),
            "one speed for all pairs | All pairs turn as fast as the first one. → Which frequency "
            "belongs to pair i?",
        ),
        wrong(
            turning(layout, angles=_from_the_width),
            "frequencies from the width | You compute frequencies from the width and the base "
            "10,000, and so never use those that are handed in. → Where do the angles come from "
            "if only some of the columns turn, or the context is stretched?",
        ),
        wrong(
            turning(layout, glued=other),
            f"glued in the other layout | The right pairs are turned by the right angles, and then "
            f"put together as {_PAIRS[other]}. → To which columns does each pair have to go "
            "back?",
        ),
        wrong(
            _mixed_angles(layout),
            "angles spread in the other layout | Your pairs are right and so are the angles, but "
            "they don't meet: `np.repeat` gives each angle to neighbouring columns, "
            "`np.tile` or `np.concatenate` to the two halves. → Which of them fits the way you "
            "pair the columns?",
        ),
        wrong(
            turning(layout, rest=lambda rest: rest[..., :0]),
            "the other columns are missing | Where only some of the columns turn, the others are "
            "gone from your result. → How wide must it be?",
        ),
        wrong(
            turning(layout, rest=lambda rest: 0 * rest),
            "the other columns are zero | Where only some of the columns turn, the others are 0 in "
            "your result: nothing has been written there. → With what should the new array begin, "
            "so that they stay as they are?",
        ),
        wrong(
            _last_columns(layout),
            "the last columns turned | Where only some of the columns turn, you turn the last ones "
            "and leave the first alone. → Which columns does the docstring say turn?",
        ),
        wrong(
            _all_columns(layout),
            "all columns paired | You pair all columns, but where there are fewer frequencies than "
            "pairs only the first ones turn: two columns for each frequency. → What does "
            "`len(frequencies)` tell you about the columns that take part?",
        ),
    ]


def _rotation_loops(layout: str) -> Callable[..., Any]:
    def loops(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        turned = x.copy()
        at = np.broadcast_to(positions, x.shape[:-1])
        n = len(frequencies)
        for place in np.ndindex(x.shape[:-1]):
            for i, frequency in enumerate(frequencies):
                i, j = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + n)
                c, s = np.cos(at[place] * frequency), np.sin(at[place] * frequency)
                a, b = x[(*place, i)], x[(*place, j)]
                turned[(*place, i)], turned[(*place, j)] = a * c - b * s, a * s + b * c
        return turned

    return loops


def _rotation_complex(layout: str) -> Callable[..., Any]:
    def multiplied(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        a, b = split(x, layout, len(frequencies))
        z = (a + 1j * b) * np.exp(1j * np.asarray(positions)[..., None] * frequencies)
        rest = x[..., 2 * len(frequencies) :]
        return np.concatenate([glue(z.real, z.imag, layout), rest], axis=-1)

    return multiplied


def _rotation_matrix(layout: str) -> Callable[..., Any]:
    """Build a (d, d) matrix for each position; vectors are rows."""

    def matrices(x: NDArray, positions: NDArray, frequencies: NDArray) -> Any:
        d, n = x.shape[-1], len(frequencies)
        r = np.zeros((*positions.shape, d, d)) + np.eye(d)
        for i, frequency in enumerate(frequencies):
            i, j = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + n)
            c, s = np.cos(positions * frequency), np.sin(positions * frequency)
            r[..., i, i], r[..., i, j], r[..., j, i], r[..., j, j] = c, s, -s, c
        return (x[..., None, :] @ r)[..., 0, :]

    return matrices


def torch_interleaved(x: Any, positions: Any, frequencies: Any) -> Any:
    """Turn neighbours, as tensors."""
    import torch

    n = 2 * len(frequencies)
    angles = (positions[..., None] * frequencies).repeat_interleave(2, dim=-1)
    turned = x[..., :n].unflatten(-1, (-1, 2)).flip(-1) * torch.tensor([-1.0, 1.0], dtype=x.dtype)
    turned = x[..., :n] * angles.cos() + turned.flatten(-2) * angles.sin()
    return torch.cat([turned, x[..., n:]], dim=-1)


def _torch_half_split(x: Any, positions: Any, frequencies: Any) -> Any:
    import torch

    n = len(frequencies)
    angles = (positions[..., None] * frequencies).tile(2)
    turning = x[..., : 2 * n]
    half_turned = torch.cat([-turning[..., n:], turning[..., :n]], dim=-1)
    turned = turning * angles.cos() + half_turned * angles.sin()
    return torch.cat([turned, x[..., 2 * n :]], dim=-1)


def _rotation_alternatives(layout: str, torch: Callable[..., Any]) -> list[Any]:
    return [
        ("loops", _rotation_loops(layout)),
        ("complex numbers", _rotation_complex(layout)),
        ("matrices", _rotation_matrix(layout)),
        Alternative(name="torch", right=torch, backend="torch"),
    ]


_HALVES_WRONG = [
    wrong(
        _partners_from(lambda d, p: d // 2),
        "halves of the whole width | Where only some of the columns turn, you pair column i with "
        "d/2 + i. The halves are those of the part that turns, 2p columns wide. → Which column is "
        "the partner of column 0, if there are p frequencies?",
    ),
    wrong(
        _partners_from(lambda d, p: d - p),
        "partners at the end | Where only some of the columns turn, you pair the first p columns "
        "with the last p. Those stay as they are. → Which column is the partner of column 0, if "
        "there are p frequencies?",
    ),
]

ROTATE_INTERLEAVED = Exercise(
    id="08.rotate_interleaved",
    function="rotate_interleaved",
    reference=ref.rotate_interleaved,
    guarded=[ref.rotate_half_split],
    cases=_ROTATION_CASES,
    returns=("turned",),
    misconceptions=_rotation_wrong("interleaved", "half-split"),
    alternatives=_rotation_alternatives("interleaved", torch_interleaved),
    hints=[
        "The angle of pair i at position m is m θ_i: one table of angles, with a row for each "
        "position and a column for each pair.",
        "Of the first n = 2 · len(frequencies) columns the even ones, `x[..., 0:n:2]`, are the "
        "first members of the pairs, the odd ones the second. Turn both, each from the values "
        "that they had before.",
        "`positions[..., None] * frequencies` is the table. `np.stack([a, b], axis=-1)`, reshaped, "
        "puts two arrays together as neighbours; columns from n on follow as they were.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)

ROTATE_HALF_SPLIT = Exercise(
    id="08.rotate_half_split",
    function="rotate_half_split",
    reference=ref.rotate_half_split,
    guarded=[ref.rotate_interleaved],
    cases=_ROTATION_CASES,
    returns=("turned",),
    misconceptions=[*_rotation_wrong("half-split", "interleaved"), *_HALVES_WRONG],
    alternatives=_rotation_alternatives("half-split", _torch_half_split),
    hints=[
        "Angles and rotation are those of the first exercise; only the columns that make a pair "
        "are others.",
        "With p frequencies, the first members of the pairs are columns 0 to p − 1, the second "
        "ones columns p to 2p − 1. Columns from 2p on stay as they are.",
        "`a, b = x[..., :p], x[..., p:2 * p]`; after turning, `np.concatenate` puts both halves "
        "and the rest side by side.",
    ],
    points=2,
    minutes=10,
    difficulty=1,
)
