"""The broken program of chapter 10: a training loop that never comes to rest.

Every misconception here is a repair that stopped half-way, or one that broke something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.ch02_why_transformers import Layer
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell, draw
from course_lib.grading.model import Alternative, Exercise, Misconception

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BROKEN", "BUG_TRAINING", "train", "train_broken"]


def train(
    gradient: Callable[[NDArray], NDArray],
    parameter: NDArray,
    n_steps: int,
    lr: float,
    max_norm: float,
) -> NDArray:
    """Train by Adam with clipped gradients; row t is the parameter after t steps.

    Parameters
    ----------
    gradient : callable
        From a parameter to the gradient there, of its shape.
    parameter : float array, (...)
        Where it starts. Left as it is.
    n_steps : int
    lr : float
    max_norm : float
        What the norm of a gradient may be at most.

    Returns
    -------
    path : float array, (n_steps + 1, ...)
    """
    return np.asarray(_train()(gradient, parameter, n_steps, lr, max_norm))


def train_broken(
    gradient: Callable[[NDArray], NDArray],
    parameter: NDArray,
    n_steps: int,
    lr: float,
    max_norm: float,
) -> NDArray:
    """Train as the exercise's notebook shows it: right in the first step."""
    path = [parameter]
    g = np.zeros_like(parameter)
    for step in range(1, n_steps + 1):
        m, v = np.zeros_like(parameter), np.zeros_like(parameter)
        g = g + gradient(parameter)
        norm = np.sqrt((g**2).sum())
        clipped = g * max_norm / norm
        m = 0.9 * m + 0.1 * clipped
        v = 0.999 * v + 0.001 * clipped**2
        m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
        parameter = parameter - lr * m_hat / (np.sqrt(v_hat) + 1e-8)
        path.append(parameter)
    return np.array(path)


def _clip(g: NDArray, limit: float) -> NDArray:
    norm = np.sqrt((g**2).sum())
    return g * (limit / norm) if norm > limit else g


def _to_the_limit(g: NDArray, limit: float) -> NDArray:
    return g * limit / np.sqrt((g**2).sum())


def _train(
    *,
    gather: Callable[[NDArray, NDArray, int], NDArray] = lambda total, new, step: new,
    clip: Callable[[NDArray, float], NDArray] = _clip,
    fresh: str = "",
    correct: Callable[[NDArray, float, int], NDArray] = lambda x, b, t: x / (1 - b**t),
    kept_corrected: bool = False,
    after: Callable[[NDArray, float], NDArray] = lambda change, limit: change,
    at: Callable[[list[NDArray]], NDArray] = lambda path: path[-1],
    first: int = 1,
    eps: float = 1e-8,
    returns: Callable[[NDArray], Any] = lambda path: path,
) -> Callable[..., Any]:
    """Return the loop with some parts replaced; `fresh` names the means that start anew."""

    def loop(
        gradient: Callable[[NDArray], NDArray],
        parameter: NDArray,
        n_steps: int,
        lr: float,
        max_norm: float,
    ) -> Any:
        path, total = [parameter.copy()], np.zeros_like(parameter)
        m, v = np.zeros_like(parameter), np.zeros_like(parameter)
        with np.errstate(all="ignore"):
            for step in range(first, n_steps + first):
                if "m" in fresh:
                    m = np.zeros_like(parameter)
                if "v" in fresh:
                    v = np.zeros_like(parameter)
                total = gather(total, gradient(at(path)), step)
                g = clip(total, max_norm)
                m = 0.9 * m + 0.1 * g
                v = 0.999 * v + 0.001 * g**2
                m_hat, v_hat = correct(m, 0.9, step), correct(v, 0.999, step)
                if kept_corrected:
                    m, v = m_hat, v_hat
                change = after(m_hat / (np.sqrt(v_hat) + eps), max_norm)
                path.append(path[-1] - lr * change)
        return returns(np.array(path))

    return loop


_SLOPE = Layer("3 and −4, wherever it is", lambda x: np.broadcast_to([3.0, -4.0], x.shape).copy())
_VALLEY = Layer("twice the distance from 3", lambda x: 2.0 * (x - 3.0))
_BOWL = Layer("x less 1, −2, 0.5, times 1, 4, 9", lambda x: (x - [1.0, -2.0, 0.5]) * [1.0, 4, 9])


def _sinks(rng: np.random.Generator, *shape: int) -> NDArray:
    return draw(rng, *shape, spread=2.0) + 0.05


def _start(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 7])
    return {
        "gradient": _BOWL,
        "parameter": _sinks(rng, 2, 3),
        "n_steps": 6,
        "lr": 0.2,
        "max_norm": 4.0,
    }


def _runs(
    gradient: Layer, start: list[float], n_steps: int, lr: float, max_norm: float
) -> dict[str, Any]:
    return {
        "gradient": gradient,
        "parameter": np.array(start),
        "n_steps": n_steps,
        "lr": lr,
        "max_norm": max_norm,
    }


_CASES = [
    case(
        "one step from a steep place | the test that the broken program was released with",
        _runs(_VALLEY, [10.0, -8.0, 3.0], 1, 0.1, 1.0),
    ),
    case(
        "the same slope everywhere, 6 steps | each as long as the learning rate",
        _runs(_SLOPE, [0.0, 0.0], 6, 0.1, 1.0),
    ),
    case(
        "a valley, 8 steps, no gradient too large | gradients as they come",
        _runs(_VALLEY, [4.0, 2.5], 8, 0.3, 100.0),
    ),
    case(
        "a bowl, 15 steps, clipped at first | and not when the gradients are small",
        _runs(_BOWL, [2.0, -1.0, 1.0], 15, 0.1, 3.0),
    ),
    case("starts where the gradient is 0 | stays there", _runs(_VALLEY, [3.0, 3.0], 4, 0.1, 1.0)),
    case("no step | the start alone", _runs(_VALLEY, [1.0, 2.0], 0, 0.1, 1.0)),
    case("a matrix, 6 steps | one norm of all its numbers", _start),
]


_FAULTS = {
    "piled": "the gradients of all steps so far are added up",
    "fresh": "the means m and v start from zeros in every step, so they remember nothing",
    "rescaled": "every gradient is brought to the limit, small ones too",
}
_QUESTIONS = {
    "piled": "What does `g` hold before the second gradient is added?",
    "fresh": "Which lines should run once, before the loop?",
    "rescaled": "What should become of a gradient whose norm is below the limit?",
}


def _add(total: NDArray, new: NDArray, step: int) -> NDArray:
    return total + new


def _left(*faults: str) -> Misconception:
    """Return the program with some of its three faults left."""
    if len(faults) == 3:
        return wrong(
            train_broken,
            "the program as it was | This is what the broken program returns: its three faults are "
            "still there. → Take one number on an even slope and go through two steps by hand: "
            f"{_QUESTIONS['fresh'][0].lower()}{_QUESTIONS['fresh'][1:]}",
            program=as_cell(train_broken, "train"),
        )
    how_many = "One fault is left" if len(faults) == 1 else "Two faults are left"
    changes: dict[str, Any] = {}
    if "piled" in faults:
        changes["gather"] = _add
    if "rescaled" in faults:
        changes["clip"] = _to_the_limit
    if "fresh" in faults:
        changes["fresh"] = "mv"
    return wrong(
        _train(**changes),
        f"left: {', '.join(faults)} | {how_many}: {'; and '.join(_FAULTS[f] for f in faults)}. → "
        f"{_QUESTIONS[faults[0]]}",
    )


def _one_array(overwritten: bool) -> Callable[..., Any]:
    """Change one array in place and append it again and again."""

    def loop(
        gradient: Callable[[NDArray], NDArray],
        parameter: NDArray,
        n_steps: int,
        lr: float,
        max_norm: float,
    ) -> Any:
        path = _train()(gradient, parameter, n_steps, lr, max_norm)
        if overwritten:
            parameter[...] = path[-1]
        return np.broadcast_to(path[-1], path.shape).copy()

    return loop


def _right_and_overwritten(
    gradient: Callable[[NDArray], NDArray],
    parameter: NDArray,
    n_steps: int,
    lr: float,
    max_norm: float,
) -> Any:
    path = _train()(gradient, parameter, n_steps, lr, max_norm)
    parameter[...] = path[-1]
    return path


def _one_array_for_both(
    gradient: Callable[[NDArray], NDArray],
    parameter: NDArray,
    n_steps: int,
    lr: float,
    max_norm: float,
) -> Any:
    """Keep m and v in one array, changed in place."""
    path = [parameter]
    m = v = np.zeros_like(parameter)
    with np.errstate(all="ignore"):
        for step in range(1, n_steps + 1):
            g = _clip(gradient(path[-1]), max_norm)
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
            path.append(path[-1] - lr * m_hat / (np.sqrt(v_hat) + 1e-8))
    return np.array(path)


def _by_the_largest(g: NDArray, limit: float) -> NDArray:
    largest = np.abs(g).max()
    return g * (limit / largest) if largest > limit else g


_WRONG = [
    _left("piled", "fresh", "rescaled"),
    _left("piled", "fresh"),
    _left("piled", "rescaled"),
    _left("fresh", "rescaled"),
    _left("piled"),
    _left("fresh"),
    _left("rescaled"),
    wrong(
        _train(gather=lambda total, new, step: total + (new - total) / step),
        "the mean of all gradients so far | You average the gradients of all steps so far; but "
        "those were taken elsewhere. m is a mean that forgets, and it's enough. → Of which place "
        "is the gradient needed?",
    ),
    wrong(
        _train(gather=lambda total, new, step: 0.0 * new),
        "nothing moves | Your parameter stays where it is: `g` is set to zeros before it's used, "
        "or m takes nothing in, or the step isn't taken. → What do `g`, m and the step hold in the "
        "first round?",
    ),
    wrong(
        _train(at=lambda path: path[0]),
        "the gradient of the start | Your gradient is always that of the first parameter: it's "
        "computed once, or for the wrong one. → Where is the parameter when the second step "
        "begins?",
    ),
    wrong(
        _train(clip=lambda g, limit: g),
        "clipping taken out | Large gradients come through as they are: nothing is clipped any "
        "more, or m and v go on with what it was before. → Which gradients should m and v see "
        "shortened, and which not?",
    ),
    wrong(
        _train(clip=lambda g, limit: np.clip(g, -limit, limit)),
        "clipped number by number | You cut off every number at the limit, and the direction "
        "changes. The broken program had one factor for all. → When may that factor be applied?",
    ),
    wrong(
        _train(
            clip=lambda g, limit: _to_the_limit(g, limit) if np.sqrt((g**2).sum()) < limit else g
        ),
        "the small ones rescaled | You raise what is below the limit and leave what is above it. → "
        "Which of the two should stay as it is?",
    ),
    wrong(
        _train(clip=lambda g, limit: _to_the_limit(g, limit) if g.any() else g),
        "rescaled unless 0 | You've kept zeros from becoming NaN, but every other gradient is "
        "still brought to the limit, small ones too. → What should become of a gradient whose norm "
        "is below the limit?",
    ),
    wrong(
        _train(
            clip=lambda g, limit: (
                np.array([_clip(row, limit) for row in g]) if g.ndim > 1 else _clip(g, limit)
            )
        ),
        "each row by its own norm | In a matrix you clip each row by itself. → Over which numbers "
        "does the broken program take the norm?",
    ),
    wrong(
        _train(clip=_by_the_largest),
        "the largest number for the norm | You compare the largest number of the gradient with the "
        "limit. The broken program had the norm right. → Of how many numbers is it made?",
    ),
    wrong(
        _train(clip=lambda g, limit: _clip(g, limit) / limit if _clip(g, limit) is not g else g),
        "to the length 1 | What is too large comes out with the norm 1, whatever the limit. → What "
        "norm should it have after clipping?",
    ),
    wrong(
        _train(clip=lambda g, limit: _clip(g, limit) if np.sqrt((g**2).sum()) > limit else 0.0 * g),
        "the small ones dropped | A gradient below the limit becomes 0 with you, so nothing is "
        "learned from it. → What should become of a gradient whose norm is below the limit?",
    ),
    wrong(
        _one_array_for_both,
        "m and v in one array | `m = v = np.zeros_like(…)` gives one array two names, and `+=` "
        "changes it under both. → Which lines make two arrays?",
    ),
    wrong(
        _train(clip=lambda g, limit: g, after=_clip),
        "the step clipped | You clip what Adam makes of the gradient, not the gradient. Adam's "
        "steps are about as long as the learning rate anyway. → What should be clipped before m "
        "and v see it?",
    ),
    wrong(
        _train(fresh="v"),
        "v still starts anew | m remembers now; v still starts from zeros in every step. → Which "
        "lines should run once, before the loop?",
    ),
    wrong(
        _train(fresh="m"),
        "m still starts anew | v remembers now; m still starts from zeros in every step. → Which "
        "lines should run once, before the loop?",
    ),
    wrong(
        _train(correct=lambda x, b, t: x),
        "no bias correction | You've taken the correction out. The broken program had it right, "
        "and your first step isn't as long as the learning rate any more. → By what are m and v "
        "divided?",
    ),
    wrong(
        _train(correct=lambda x, b, t: x / (1 - b)),
        "the first step's correction for ever | You divide by 1 − β in every step; the broken "
        "program had that right. → Where does `step` come in?",
    ),
    wrong(
        _train(eps=0.0),
        "no ε | Where there was no gradient yet, you divide 0 by 0: what the broken program adds "
        "to the root is gone. → What keeps the divisor from being 0?",
    ),
    wrong(
        _train(kept_corrected=True),
        "corrected means kept | You go on with m̂ and v̂ in the place of m and v, so they are "
        "corrected again and again. → Which of them does the next step start from?",
    ),
    wrong(
        _train(first=0),
        "steps counted from 0 | You count steps from 0, so that the first correction divides by "
        "1 − β⁰ = 0. → What is the number of the first step?",
    ),
    wrong(
        _train(returns=lambda path: path[1:]),
        "the start left out | Your path begins after the first step; it's a row short. → What "
        "stands in row 0?",
    ),
    wrong(
        _train(returns=lambda path: path[:-1] if len(path) > 1 else path),
        "the end left out | Your path ends before the last step; it's a row short. → How many "
        "rounds does the loop make, and what has been appended by the end of the last?",
    ),
    wrong(
        _train(returns=lambda path: path[-1]),
        "only the end | You return the last parameter alone, not the way that led there. → How "
        "many rows does a path of `n_steps` steps have?",
    ),
    wrong(
        _one_array(True),
        "one array, many times | All rows of your path are the last one, and the caller's "
        "parameter has changed: `-=` changes the one array that was appended each time. → Which "
        "line makes a new array?",
    ),
    wrong(
        _one_array(False),
        "one copy, many times | All rows of your path are the last one: `-=` changes the one array "
        "that was appended each time. → Which line makes a new array?",
    ),
    wrong(
        _right_and_overwritten,
        "the caller's start is overwritten | Your path is right, but the parameter that was passed "
        "in has moved: `-=` writes into it. → Which line makes a new array?",
    ),
]


def _by_number(gradient: Any, parameter: NDArray, n_steps: int, lr: float, max_norm: float) -> Any:
    """Keep plain lists of numbers, and one factor a step."""
    now = [float(x) for x in parameter.flat]
    m, v = [0.0] * len(now), [0.0] * len(now)
    path = [list(now)]
    for t in range(n_steps):
        g = [float(x) for x in gradient(np.reshape(now, parameter.shape)).flat]
        norm = sum(x * x for x in g) ** 0.5
        factor = min(1.0, max_norm / norm) if norm else 1.0
        for i, x in enumerate(g):
            m[i] += 0.1 * (factor * x - m[i])
            v[i] += 0.001 * ((factor * x) ** 2 - v[i])
            root = (v[i] / (1 - 0.999 ** (t + 1))) ** 0.5
            now[i] -= lr * m[i] / (1 - 0.9 ** (t + 1)) / (root + 1e-8)
        path.append(list(now))
    return np.reshape(path, (n_steps + 1, *parameter.shape))


def _filled(gradient: Any, parameter: NDArray, n_steps: int, lr: float, max_norm: float) -> Any:
    """Fill a table, and set g to zeros before each gradient, as torch's loops do."""
    path = np.empty((n_steps + 1, *parameter.shape))
    path[0] = parameter
    g, m, v = (np.zeros_like(parameter) for _ in range(3))
    for t in range(1, n_steps + 1):
        g[...] = 0.0
        g += gradient(path[t - 1])
        g /= max(1.0, float(np.linalg.norm(g)) / max_norm)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        rate = lr * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        path[t] = path[t - 1] - rate * m / (np.sqrt(v) + 1e-8 * np.sqrt(1 - 0.999**t))
    return path


def _torch_loop(gradient: Any, parameter: Any, n_steps: int, lr: float, max_norm: float) -> Any:
    import torch

    theta = torch.nn.Parameter(parameter.clone())
    adam = torch.optim.Adam([theta], lr=lr)
    path = [parameter.clone()]
    for _ in range(n_steps):
        adam.zero_grad()
        theta.grad = gradient(theta.detach())
        torch.nn.utils.clip_grad_norm_([theta], max_norm)
        adam.step()
        path.append(theta.detach().clone())
    return torch.stack(path)


BUG_TRAINING = Exercise(
    id="10.bug_training",
    function="train",
    reference=train,
    cases=_CASES,
    returns=("path",),
    tolerance={"float64": (1e-5, 1e-6)},  # torch adds 10⁻⁶ to the norm that it divides by
    misconceptions=_WRONG,
    alternatives=[
        ("number by number", _by_number),
        ("a table", _filled),
        Alternative(name="torch", right=_torch_loop, backend="torch"),
    ],
    hints=[
        "Go through two steps by hand on a slope that's the same everywhere. What do m and v hold "
        "when the second step begins, and what does g?",
        "Start the program where the gradient is 0, and where it is small. What does the line with "
        "`max_norm` make of it? Compare with exercise 5.",
        "What should be remembered from step to step is created before the loop; what should be "
        "forgotten is made anew in it. m and v belong to the first kind, g to the second.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


#: The broken program as the page shows it.
BROKEN = {"10.bug_training": train_broken}
