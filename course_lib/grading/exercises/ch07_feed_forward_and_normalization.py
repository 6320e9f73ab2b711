"""The exercises of chapter 07: the feed-forward network, norms, residual blocks, and a leak.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.ch02_why_transformers import Layer
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.norms import (
    LAYER_NORM,
    LAYER_NORM_BACKWARD,
    RMS_NORM,
    WHICH_AXIS,
    standard,
)
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import feed_forward as ref_ffn
from course_lib.reference import residual as ref_residual

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXERCISES", "leak", "residual_stack"]


# -- what the misconceptions share -----------------------------------------------------------------
# Written out: the course's own functions refuse to work while a student's are checked.


_erf = np.vectorize(erf, otypes=[float])


def _relu(x: NDArray) -> NDArray:
    return np.maximum(x, 0.0)


def _gelu(x: NDArray) -> NDArray:
    return 0.5 * x * (1.0 + _erf(x / sqrt(2.0)))


def _same(x: NDArray) -> NDArray:
    return x


# -- 07.feed_forward -------------------------------------------------------------------------------


def _network(rng: np.random.Generator, lead: tuple[int, ...], d: int, d_ff: int) -> dict[str, Any]:
    return {
        "x": draw(rng, *lead, d),
        "w_1": draw(rng, d, d_ff),
        "b_1": draw(rng, d_ff),
        "w_2": draw(rng, d_ff, d),
        "b_2": draw(rng, d),
    }


def _drawn_network(
    lead: tuple[int, ...], d: int, d_ff: int, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        return {**_network(np.random.default_rng([seed, 1, *lead]), lead, d, d_ff), **more}

    return build


def _nothing_comes_in(seed: int) -> dict[str, Any]:
    return {**_drawn_network((2,), 3, 4)(seed), "x": np.zeros((2, 3))}


_FFN_CASES = [
    case(
        "one token, weights 1 | what is below 0 is cut off",
        {
            "x": np.array([[2.0, -3.0]]),
            "w_1": np.eye(2),
            "b_1": np.zeros(2),
            "w_2": np.eye(2),
            "b_2": np.zeros(2),
        },
    ),
    case(
        "5 tokens of width 3, inner width 7 | wider inside, and as wide as before outside",
        _drawn_network((5,), 3, 7),
    ),
    case("tokens of zeros | what the biases do alone", _nothing_comes_in),
    case(
        "2 sequences of 4 tokens, width 3, inner width 6 | each token alone, whatever axes stand "
        "in front",
        _drawn_network((2, 4), 3, 6),
    ),
    case(
        "GELU from −4 to 4 | the exact one, to four decimals and more",
        {
            "x": np.arange(-4.0, 5.0)[:, None],
            "w_1": np.eye(1),
            "b_1": np.zeros(1),
            "w_2": np.eye(1),
            "b_2": np.zeros(1),
            "activation": "gelu",
        },
    ),
    case(
        "GELU, 4 tokens of width 2, inner width 5 | the same network with the other bend",
        _drawn_network((4,), 2, 5, activation="gelu"),
    ),
]


def _ffn(
    *,
    relu: Callable[[NDArray], NDArray] = _relu,
    gelu: Callable[[NDArray], NDArray] = _gelu,
    inner: Callable[..., NDArray] = lambda x, w, b, act: act(x @ w + b),
    outer: Callable[..., NDArray] = lambda h, w, b, act: h @ w + b,
    after: Callable[[NDArray, NDArray], NDArray] = lambda y, x: y,
    choose: Callable[[str], str] = lambda activation: activation,
) -> Callable[..., Any]:
    """Return the network with some steps replaced."""

    def network(
        x: NDArray, w_1: NDArray, b_1: NDArray, w_2: NDArray, b_2: NDArray, activation: str = "relu"
    ) -> Any:
        act = {"relu": relu, "gelu": gelu}[choose(activation)]
        return after(outer(inner(x, w_1, b_1, act), w_2, b_2, act), x)

    return network


def _gelu_tanh(power: int) -> Callable[[NDArray], NDArray]:
    return lambda x: 0.5 * x * (1.0 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**power)))


def _sigmoid(x: NDArray) -> NDArray:
    return 1.0 / (1.0 + np.exp(-x))


def _gelu_by_number(x: NDArray) -> NDArray:
    raise TypeError("only 0-dimensional arrays can be converted to Python scalars")  # by math.erf


_FFN_WRONG = [
    wrong(
        _ffn(relu=_same, gelu=_same),
        "no non-linearity | Your numbers are those of two matrix products with nothing between "
        "them, and two linear layers in a row are one linear layer. → What happens to the inner "
        "numbers before W_2 sees them?",
    ),
    wrong(
        _ffn(gelu=_relu),
        "ReLU whatever is asked for | With ReLU you're right; where GELU is asked for you still "
        "cut off at 0. → Where does your function look at `activation`?",
    ),
    wrong(
        _ffn(choose=lambda activation: "gelu"),
        "GELU whatever is asked for | With GELU you're right; where ReLU is asked for, numbers "
        "just below 0 aren't cut off. → Where does your function look at `activation`?",
    ),
    wrong(
        _ffn(choose=lambda activation: "gelu" if activation == "relu" else "relu"),
        'the activations changed places | You bend with GELU for "relu" and with ReLU for '
        '"gelu". → Which of the two cuts off everything below 0?',
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x @ w) + b),
        "the first bias after the bend | You bend x W_1 and add b_1 then, so that every bend sits "
        "at 0, and b_1 only shifts the output. → What stands inside the brackets of act(…)?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x) @ w + b),
        "bent before the first layer | You bend the tokens themselves, and then come two linear "
        "layers with nothing between them. → Which numbers are to be bent, those of x or those of "
        "x W_1 + b_1?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: x @ w + b, outer=lambda h, w, b, act: act(h @ w + b)),
        "ReLU at the end | The bend comes after the second layer, so no output is ever clearly "
        "below 0, and the two products in front of it are one. → Between which two steps does the "
        "formula bend?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x @ w)),
        "the first bias left out | Your tokens of zeros come out as b_2 alone: every bend sits at "
        "0, as if there were no b_1. → What is added to x W_1 before the activation?",
    ),
    wrong(
        _ffn(outer=lambda h, w, b, act: h @ w),
        "the second bias left out | Your outputs are off by the same row for every token, wherever "
        "it stands: something constant is missing at the end. → What is added after W_2?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x @ w), outer=lambda h, w, b, act: h @ w),
        "both biases left out | Tokens of zeros come out as zeros, which is what a network without "
        "biases does. → Which two arguments does your function never use?",
    ),
    wrong(
        _ffn(relu=lambda h: np.max(h, 0)),
        "np.max in the place of np.maximum | An axis is gone: `np.max(h, 0)` takes the largest "
        "number along axis 0, which mixes the tokens. → Which function of numpy compares number by "
        "number with 0?",
    ),
    wrong(
        _ffn(gelu=_gelu_by_number),
        "math.erf of an array | Your GELU stops with a TypeError: `math.erf` takes one number, and "
        "the inner numbers come as an array. → Which function of numpy makes one that takes "
        "arrays out of it?",
    ),
    wrong(
        _ffn(gelu=_gelu_tanh(3)),
        "the tanh form of GELU | this exercise uses the exact GELU, x·Φ(x); yours is the "
        "approximation with tanh, which GPT-2 uses and which is off by up to 5·10⁻⁴. → How is Φ "
        "written with the error function?",
        variant=True,
    ),
    wrong(
        _ffn(gelu=_gelu_tanh(2)),
        "a square for the cube in GELU's tanh form | This is the tanh form of GELU with a square "
        "where a cube belongs, so left and right of 0 it's off by different amounts. And the exact "
        "one is asked for. → How is Φ written with the error function, which `math.erf` computes?",
    ),
    wrong(
        _ffn(gelu=lambda x: x * _sigmoid(1.702 * x)),
        "GELU from a sigmoid | this exercise uses the exact GELU, x·Φ(x); yours is the quick "
        "approximation x·σ(1.702x), off by up to 0.02. → How is Φ written with the error function?",
        variant=True,
    ),
    wrong(
        _ffn(gelu=lambda x: 0.5 * (1.0 + _erf(x / sqrt(2.0)))),
        "Φ alone | Your GELU stays between 0 and 1: that's Φ(x), the share that is let through. → "
        "What is it a share of?",
    ),
    wrong(
        _ffn(outer=lambda h, w, b, act: act(h @ w + b)),
        "bent twice | You bend after both layers; a block that may only add positive numbers "
        "couldn't correct anything downwards. → How often does the activation stand in the "
        "formula?",
    ),
    wrong(
        _ffn(gelu=lambda x: x * _sigmoid(x)),
        "SiLU | Your curve is x·σ(x), which is called SiLU or Swish. It dips deeper on the left "
        "than GELU, and further out. → Which function multiplies x in GELU, if it isn't the "
        "sigmoid?",
    ),
    wrong(
        _ffn(gelu=lambda x: 0.5 * x * (1.0 + _erf(x))),
        "√2 forgotten in GELU | Your GELU is too steep: the error function belongs to a bell "
        "curve of variance ½, Φ to one of variance 1. → By what must x be divided inside `erf`?",
    ),
    wrong(
        _ffn(gelu=lambda x: 0.5 * x * (1.0 + _erf(x * sqrt(2.0)))),
        "√2 multiplied in GELU | Your GELU is too steep: inside `erf` you multiply by √2. → Which "
        "operation stands between h and √2 in the formula?",
    ),
    wrong(
        _ffn(gelu=lambda x: 0.5 * x * _erf(x / sqrt(2.0))),
        "1 forgotten in GELU | Your GELU is the same left and right of 0: without the 1 the "
        "bracket goes from −1 to 1. → Between which numbers must a share stay?",
    ),
    wrong(
        _ffn(gelu=lambda x: x * (1.0 + _erf(x / sqrt(2.0)))),
        "½ forgotten in GELU | Your GELU is twice as large as it should be: for large x it must "
        "go like x. → What are the smallest and largest values of 1 + erf?",
    ),
    wrong(
        _ffn(inner=lambda x, w, b, act: act(x @ w.T + b), outer=lambda h, w, b, act: h @ w.T + b),
        "weights transposed | You multiply by transposed weights, as for a layout (d_out, d_in). "
        "Here W_1 is (d, d_ff) and rows are tokens. → Which product of x and W_1 has matching "
        "inner sizes as they stand?",
    ),
    wrong(
        _ffn(after=lambda y, x: x + y),
        "the token added | Your output is the network's plus the token itself. That sum is the "
        "residual connection around the network, which is another exercise. → What does the "
        "formula add up?",
    ),
]


def _ffn_loops(
    x: NDArray, w_1: NDArray, b_1: NDArray, w_2: NDArray, b_2: NDArray, activation: str = "relu"
) -> Any:
    bend: dict[str, Callable[[float], float]] = {
        "relu": lambda s: max(s, 0.0),
        "gelu": lambda s: s * (1 + erf(s / sqrt(2))) / 2,
    }
    output = np.zeros((*x.shape[:-1], w_2.shape[1]))
    for place in np.ndindex(x.shape[:-1]):
        inner = [bend[activation](float(x[place] @ w) + b) for w, b in zip(w_1.T, b_1, strict=True)]
        output[place] = b_2 + sum(h * row for h, row in zip(inner, w_2, strict=True))
    return output


def _ffn_einsum(
    x: NDArray, w_1: NDArray, b_1: NDArray, w_2: NDArray, b_2: NDArray, activation: str = "relu"
) -> Any:
    h = np.einsum("...d,df->...f", x, w_1) + b_1
    h = np.where(h > 0, h, 0.0) if activation == "relu" else h - h * _erf_complement(h)
    return np.einsum("...f,fd->...d", h, w_2) + b_2


def _erf_complement(h: NDArray) -> NDArray:
    """1 − Φ."""
    return (1.0 - _erf(h / sqrt(2.0))) / 2.0


def _ffn_torch(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any, activation: str = "relu") -> Any:
    from torch.nn import functional

    act: Any = {"relu": functional.relu, "gelu": functional.gelu}[activation]
    return functional.linear(act(functional.linear(x, w_1.T, b_1)), w_2.T, b_2)


_FEED_FORWARD = Exercise(
    id="07.feed_forward",
    function="feed_forward",
    reference=ref_ffn.feed_forward,
    guarded=[ref_ffn.gelu],
    cases=_FFN_CASES,
    returns=("output",),
    misconceptions=_FFN_WRONG,
    alternatives=[
        ("loops", _ffn_loops),
        ("einsum", _ffn_einsum),
        Alternative(name="torch", right=_ffn_torch, backend="torch"),
    ],
    hints=[
        "Three steps: out to the inner width, bend every number by itself, back to the token's "
        "width. Both matrix products add their bias.",
        "`x @ w_1` leaves all axes in front alone. ReLU is `np.maximum(h, 0)`; look at "
        "`activation` to tell which bend is wanted.",
        "GELU is h·Φ(h) with Φ(h) = (1 + erf(h/√2))/2. `math.erf` takes one number; "
        "`np.vectorize(math.erf)` takes an array.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 07.residual_stack -----------------------------------------------------------------------------


def residual_stack(
    x: NDArray,
    sublayers: Sequence[Callable[[NDArray], NDArray]],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> NDArray:
    """Run tokens through sublayers, each with a residual connection and a layer norm.

    Parameters
    ----------
    x : float array, (..., n, d)
    sublayers : sequence of callables
        Each from (..., n, d) to (..., n, d).
    gammas, betas : float arrays, (N + 1, d) where the norm comes first, else (N, d)
        Of the sublayers' norms, in order; where the norm comes first, the last row is that of a
        norm at the very end.
    norm_first : bool
        x + f(LN(x)) and a last norm, in the place of LN(x + f(x)).
    eps : float

    Returns
    -------
    float array, (..., n, d)
    """
    return _stack()(x, sublayers, gammas, betas, norm_first, eps)


def _pre(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return x + f(norm(x))


def _post(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return norm(x + f(x))


def _stack(
    pre: Callable[..., NDArray] = _pre,
    post: Callable[..., NDArray] = _post,
    *,
    which: Callable[[int], int] = lambda i: i,
    last: Callable[..., NDArray] = lambda y, norms, norm_first: norms[-1](y) if norm_first else y,
    choose: Callable[[bool], bool] = lambda norm_first: norm_first,
    own_eps: float | None = None,
) -> Callable[..., Any]:
    """Return the stack with some steps replaced."""

    def stack(
        x: NDArray,
        sublayers: Sequence[Any],
        gammas: NDArray,
        betas: NDArray,
        norm_first: bool = True,
        eps: float = 1e-5,
    ) -> Any:
        eps = eps if own_eps is None else own_eps

        def norm(i: int) -> Callable[[NDArray], NDArray]:
            return lambda y: gammas[i] * standard(y, eps=eps) + betas[i]

        y = x
        for i, f in enumerate(sublayers):
            y = (pre if choose(norm_first) else post)(y, f, norm(which(i)), x)
        return last(y, [norm(i) for i in range(len(gammas))], norm_first)

    return stack


_MIX = Layer(
    "half the mean of the tokens so far",
    lambda x: np.cumsum(x, axis=-2) / (2.0 * np.arange(1, x.shape[-2] + 1)[:, None]),
)
_BEND = Layer("three times ReLU", lambda x: 3.0 * np.maximum(x, 0.0))
_TURN = Layer("each token's numbers in reverse, plus 1", lambda x: x[..., ::-1] + 1.0)
_NOTHING = Layer("zeros", np.zeros_like)


def _stacked(
    sublayers: list[Layer], *shape: int, norm_first: bool, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 5, *shape])
        rows = len(sublayers) + norm_first
        return {
            "x": draw(rng, *shape, spread=3.0) + 1.2,
            "sublayers": sublayers,
            "gammas": draw(rng, rows, shape[-1], spread=0.3) + 1.5,
            "betas": draw(rng, rows, shape[-1]) + 0.15,
            "norm_first": norm_first,
            **more,
        }

    return build


_STACK_CASES = [
    case(
        "norm last, one sublayer | the sum is normalised", _stacked([_TURN], 2, 3, norm_first=False)
    ),
    case(
        "norm last, a sublayer that adds nothing | the tokens, normalised",
        _stacked([_NOTHING], 2, 4, norm_first=False),
    ),
    case(
        "norm last, 3 sublayers | each has its own γ and β",
        _stacked([_MIX, _BEND, _TURN], 4, 3, norm_first=False),
    ),
    case(
        "norm first, one sublayer | the sublayer sees normalised tokens, the sum has them as they "
        "are",
        _stacked([_TURN], 3, 5, norm_first=True),
    ),
    case(
        "norm first, a sublayer that adds nothing | what is left is the norm at the end",
        _stacked([_NOTHING], 3, 4, norm_first=True),
    ),
    case(
        "norm first, a batch of 2, 3 sublayers | each has its own γ and β, and so has the end",
        _stacked([_MIX, _BEND, _TURN], 2, 4, 3, norm_first=True),
    ),
    case(
        "norm first, 2 sublayers, ε = 0.5 | ε in every norm",
        _stacked([_BEND, _MIX], 4, 2, norm_first=True, eps=0.5),
    ),
]


def _stack_in_place(
    x: NDArray,
    sublayers: Sequence[Any],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    def norm(y: NDArray, i: int) -> NDArray:
        return gammas[i] * standard(y, eps=eps) + betas[i]

    for i, f in enumerate(sublayers):
        if norm_first:
            x += f(norm(x, i))
        else:
            x += f(x)
            x = norm(x, i)
    return norm(x, -1) if norm_first else x


def _no_end(y: NDArray, norms: list[Any], norm_first: bool) -> NDArray:
    return y


def _norm_goes_round(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return norm(x) + f(norm(x))


def _nothing_goes_round(x: NDArray, f: Any, norm: Any, first: NDArray) -> NDArray:
    return f(norm(x))


_STACK_WRONG = [
    wrong(
        _stack(pre=_post, last=lambda y, norms, norm_first: y),
        "the norm always last | this exercise uses `norm_first` to choose; you normalise the sum "
        "in either case, as the first Transformer does. → What does a sublayer see if the norm "
        "comes first, and what is added to its output?",
        variant=True,
    ),
    wrong(
        _stack(post=_pre),
        "the norm always first | this exercise uses `norm_first` to choose; you normalise the "
        "sublayer's input in either case, as GPT-2 and all later decoders do. → What is normalised "
        "if the norm comes last: the sublayer's input, its output, or the sum?",
        variant=True,
    ),
    wrong(
        _stack(choose=lambda norm_first: not norm_first),
        "first and last changed places | You have both kinds of blocks, and each stands where the "
        "other belongs. → Which of the two is x + f(LN(x))?",
    ),
    wrong(
        _stack(last=_no_end),
        "no norm at the end | With the norm last you're right. With the norm first nothing has "
        "normalised the last sum, and one row of γ and β is left over. → Where does the last row "
        "belong?",
    ),
    wrong(
        _stack(last=lambda y, norms, norm_first: norms[-1](y)),
        "a norm at the end in either case | With the norm first you're right. With the norm last, "
        "the last sum has been normalised already, and you do it again. → How many rows of γ are "
        "there in each case?",
    ),
    wrong(
        _stack(last=lambda y, norms, norm_first: norms[0](y) if norm_first else y),
        "the first row at the end | Where the norm comes first, your norm at the end uses the "
        "first row of γ and β. → Which row is left over when every sublayer has had its own?",
    ),
    wrong(
        _stack(last=lambda y, norms, norm_first: norms[-2](y) if norm_first else y),
        "the last sublayer's row at the end | Where the norm comes first, your norm at the end "
        "uses the row of the last sublayer once more (is it what the loop's variables still "
        "hold?). → Which row is left over when every sublayer has had its own?",
    ),
    wrong(
        _stack(pre=lambda x, f, norm, first: x + f(x)),
        "no norm before the sublayers | Where the norm comes first, your sublayers see the tokens "
        "as they are; only the end is normalised. → What goes into f in x + f(LN(x))?",
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: x + f(x),
            post=lambda x, f, norm, first: x + f(x),
            last=lambda y, norms, norm_first: norms[-1](y),
        ),
        "one norm, at the end | You normalise once, when all sublayers are through, and "
        "`norm_first` makes no difference. → How many norms has a stack of N sublayers in each of "
        "the two orders?",
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: x + f(x),
            post=lambda x, f, norm, first: x + f(x),
            last=lambda y, norms, norm_first: y,
        ),
        "no norm at all | You add up the sublayers' outputs, and nothing is normalised anywhere. → "
        "Where in the two formulas does LN stand?",
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: norm(x + f(norm(x))),
            last=lambda y, norms, norm_first: y,
        ),
        "norms on both sides | Where the norm comes first, you normalise the sum as well, with the "
        "sublayer's own row, and the end not at all. → How many norms stand in x + f(LN(x))?",
    ),
    wrong(
        _stack(which=lambda i: 0),
        "one γ and β for all | With one sublayer you're right. With several, all of their norms "
        "use the first row. → Which row belongs to sublayer i?",
    ),
    wrong(
        _stack(pre=lambda x, f, norm, first: f(norm(x)), post=lambda x, f, norm, first: norm(f(x))),
        "no residual connection | A sublayer that adds nothing leaves nothing at all: only its "
        "output goes on, and the tokens themselves are lost. → What is f's output added to?",
    ),
    wrong(
        _stack(pre=_norm_goes_round),
        "the normalised tokens are added, norm first | With the norm first, you add the sublayer's "
        "output to the *normalised* tokens (does a variable `x` get overwritten by its norm?). "
        "Then no path from the end to the beginning is free of norms. → Which x does the formula x "
        "+ f(LN(x)) begin with?",
    ),
    wrong(
        _stack(pre=_norm_goes_round, last=_no_end),
        "the normalised tokens are added, norm first, and no norm at the end | Two things, with "
        "the norm first: you add the sublayer's output to the *normalised* tokens (does a variable "
        "`x` get overwritten by its norm?), and nothing normalises the last sum. → Which x does "
        "the formula x + f(LN(x)) begin with?",
    ),
    wrong(
        _stack(pre=_nothing_goes_round, last=_no_end),
        "no residual connection, norm first, and no norm at the end | Two things, with the norm "
        "first: only the sublayer's output goes on, and nothing normalises it at the end. → What "
        "is f's output added to?",
    ),
    wrong(
        _stack(pre=lambda x, f, norm, first: x + norm(f(x))),
        "the sublayer's output normalised | this exercise uses x + f(LN(x)) where the norm comes "
        "first; you have x + LN(f(x)), which normalises what comes out of the sublayer (Swin v2 "
        "and OLMo 2 do so). → What does the sublayer see here?",
        variant=True,
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: first + f(norm(x)),
            post=lambda x, f, norm, first: norm(first + f(x)),
        ),
        "the input added each time | With one sublayer you're right. From the second on you add "
        "the stack's very first tokens, where those belong that went into this sublayer. → Which x "
        "goes round sublayer i?",
    ),
    wrong(
        _stack(
            pre=lambda x, f, norm, first: x + f(norm(first)),
            post=lambda x, f, norm, first: norm(x + f(first)),
        ),
        "all sublayers see the input | this exercise uses sublayers one after another; yours all "
        "see the first tokens, side by side, as attention and feed-forward do in GPT-J's parallel "
        "blocks. → What goes into the second sublayer?",
        variant=True,
    ),
    wrong(
        _stack(own_eps=1e-5),
        "ε ignored | With the usual ε you're right; with ε = 0.5 it shows that it doesn't reach "
        "your norms. → Where do you hand `eps` on?",
    ),
    wrong(
        _stack(post=lambda x, f, norm, first: norm(x + f(norm(x)))),
        "normalised before and after, norm last | With the norm last, your sublayers see "
        "normalised tokens as well. → What goes into f in LN(x + f(x))?",
    ),
    wrong(
        lambda x, sublayers, gammas, betas, norm_first=True, eps=1e-5: _stack()(
            x, sublayers[:-1], gammas, betas, norm_first, eps
        ),
        "the last sublayer left out | Your stack ends one sublayer early, and the last one "
        "is never called. → Up to which number does your loop count, and is that one included?",
    ),
    wrong(
        lambda x, sublayers, gammas, betas, norm_first=True, eps=1e-5: _stack()(
            x, sublayers[:1], gammas, betas, norm_first, eps
        ),
        "only the first sublayer | With one sublayer you're right; of several only the first "
        "takes part. → Is there a `return` inside of your loop?",
    ),
    wrong(
        _stack(pre=lambda x, f, norm, first: norm(x) + f(x)),
        "normalised beside the sublayer, not before it | With the norm first, you normalise the "
        "tokens that go round the sublayer, and those that go in stay as they are. → Which of the "
        "two does the formula x + f(LN(x)) normalise?",
    ),
    wrong(
        _stack(post=lambda x, f, norm, first: x + norm(f(x))),
        "only the sublayer's output normalised, norm last | With the norm last, you normalise the "
        "sublayer's output and add then, so that a sublayer that adds nothing gives x + β. → In "
        "LN(x + f(x)), what is done first?",
    ),
    wrong(
        _stack_in_place,
        "x is overwritten | All numbers are right, but the caller's tokens have been added to. `x "
        "+= …` writes into the array that was passed in. → How is the sum written so that it's a "
        "new array?",
    ),
]


def _norm_row(x: NDArray, gamma: NDArray, beta: NDArray, eps: float) -> NDArray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + beta


def _stack_streams(
    x: NDArray,
    sublayers: Sequence[Any],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    """Keep the stream and its norm beside each other."""
    stream = x
    for f, gamma, beta in zip(sublayers, gammas, betas, strict=False):
        seen = _norm_row(stream, gamma, beta, eps) if norm_first else stream
        stream = stream + f(seen)
        if not norm_first:
            stream = _norm_row(stream, gamma, beta, eps)
    return _norm_row(stream, gammas[-1], betas[-1], eps) if norm_first else stream


def _stack_recursive(
    x: NDArray,
    sublayers: Sequence[Any],
    gammas: NDArray,
    betas: NDArray,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    if not sublayers:
        return _norm_row(x, gammas[0], betas[0], eps) if norm_first else x
    if norm_first:
        x = x + sublayers[0](_norm_row(x, gammas[0], betas[0], eps))
    else:
        x = _norm_row(x + sublayers[0](x), gammas[0], betas[0], eps)
    return _stack_recursive(x, sublayers[1:], gammas[1:], betas[1:], norm_first, eps)


def _stack_torch(
    x: Any,
    sublayers: Sequence[Any],
    gammas: Any,
    betas: Any,
    norm_first: bool = True,
    eps: float = 1e-5,
) -> Any:
    from torch.nn.functional import layer_norm

    for i, f in enumerate(sublayers):
        if norm_first:
            x = x + f(layer_norm(x, x.shape[-1:], gammas[i], betas[i], eps))
        else:
            x = layer_norm(x + f(x), x.shape[-1:], gammas[i], betas[i], eps)
    return layer_norm(x, x.shape[-1:], gammas[-1], betas[-1], eps) if norm_first else x


_RESIDUAL_STACK = Exercise(
    id="07.residual_stack",
    function="residual_stack",
    reference=residual_stack,
    guarded=[ref_residual.post_norm, ref_residual.pre_norm],
    cases=_STACK_CASES,
    returns=("output",),
    misconceptions=_STACK_WRONG,
    alternatives=[
        ("a stream", _stack_streams),
        ("recursion", _stack_recursive),
        Alternative(name="torch", right=_stack_torch, backend="torch"),
    ],
    hints=[
        "Write the loop for one kind first: x becomes LN(x + f(x)), with row i of γ and β for "
        "sublayer i. A sublayer is called like any function.",
        "With the norm first, the *input* of f is normalised and x itself is added: x + f(LN(x)). "
        "Keep x apart from its norm.",
        "With the norm first there is one norm more than there are sublayers: after the loop, with "
        "the last row. `x = x + …` makes a new array, `x += …` doesn't.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 07.leak ---------------------------------------------------------------------------------------


def leak(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> NDArray:
    """Measure how much each token's output depends on a single later token.

    Parameters
    ----------
    function : callable
        From an array (n, d) to an array whose first axis has length n.
    x : float array, (n, d)
    other : float array, (n, d)
        What tokens are replaced by, one at a time.

    Returns
    -------
    float array, (n,)
        Entry t is the largest change of a number in output row t when one token s > t is replaced
        by ``other[s]``; 0 for the last token.
    """
    return _leaks()(function, x, other)


def _leaks(
    *,
    later: Callable[[int, int], bool] = lambda s, t: s > t,
    size: Callable[[NDArray], Any] = lambda change: np.abs(change).max(),
    swap: Callable[[NDArray, NDArray, int], NDArray] | None = None,
    gather: Callable[[NDArray], Any] = lambda table: table.max(axis=1, initial=0.0),
) -> Callable[..., Any]:
    """Return the measurement with some steps replaced.

    `later` says which tokens s are changed for the sake of token t, `swap` how, and `gather` makes
    an entry of each row of the table [t, s] of sizes.
    """

    def one(x: NDArray, other: NDArray, s: int) -> NDArray:
        changed = x.copy()
        changed[s] = other[s]
        return changed

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        before, n = function(x), len(x)
        table = np.zeros((n, n))
        for s in range(n):
            after = function((swap or one)(x, other, s))
            for t in range(n):
                if later(s, t):
                    table[t, s] = size(after[t] - before[t])
        return gather(table)

    return measure


def _so_far_rule(x: NDArray) -> NDArray:
    return np.tanh(np.cumsum(x, axis=0))


def _next_rule(x: NDArray) -> NDArray:
    none = np.zeros_like(x[:1])
    return x + 0.5 * np.concatenate([x[1:], none]) - 0.25 * np.concatenate([none, x[:-1]])


def _last_rule(x: NDArray) -> NDArray:
    return np.concatenate([x, np.tanh(x[:, :1] * x[-1, :1])], axis=1)


def _all_rule(x: NDArray) -> NDArray:
    return x - x.mean(axis=0)


def _sequence_rule(x: NDArray) -> NDArray:
    return standard(x, None)


_TOKENWISE = Layer("layer norm of each token", standard)
_SO_FAR = Layer("tanh of the sum of the tokens so far", _so_far_rule)
_NEXT = Layer("each token plus half the next one, less a quarter of the last", _next_rule)
_LAST = Layer("each token with what it makes of the last one beside it", _last_rule)
_CENTRED = Layer("each token less the mean of all", _all_rule)
_SEQUENCE = Layer("one norm over the whole sequence", _sequence_rule)


def _probed(layer: Layer, n: int, d: int) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 6, n, d])
        return {
            "function": layer,
            "x": draw(rng, n, d),
            "other": draw(rng, n, d) + np.where(rng.random((n, d)) < 0.5, -1.5, 1.5),
        }

    return build


def _opposite(seed: int) -> dict[str, Any]:
    """Draw tokens; the replacements of the last two, together, change no mean."""
    x = draw(np.random.default_rng([seed, 7]), 4, 2)
    change = np.array([[0.5, 1.0], [0.0, 0.0], [-2.0, 3.0], [2.0, -3.0]])
    return {"function": _CENTRED, "x": x, "other": x + change}


_LEAK_CASES = [
    case(
        "layer norm, 4 tokens of width 3 | no token sees another: 0 everywhere",
        _probed(_TOKENWISE, 4, 3),
    ),
    case(
        "tanh of the sum so far, 5 tokens | earlier tokens may have a say", _probed(_SO_FAR, 5, 2)
    ),
    case(
        "each token with its two neighbours, 4 tokens | a leak of one place", _probed(_NEXT, 4, 2)
    ),
    case(
        "each token with the last one, 5 tokens | a leak from the end, in a column of its own",
        _probed(_LAST, 5, 3),
    ),
    case("each token less the mean, changes that cancel | one token at a time", _opposite),
    case(
        "one norm over the sequence, 4 tokens of width 3 | all but the last know the future",
        _probed(_SEQUENCE, 4, 3),
    ),
    case(
        "one norm over the sequence, a single token | there's nothing after it",
        _probed(_SEQUENCE, 1, 3),
    ),
]


def _leak_from(changed: Callable[[NDArray, NDArray, int], NDArray]) -> Callable[..., Any]:
    """Change several tokens at once for the sake of token t, and compare its output."""

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        before = function(x)
        after = [function(changed(x.copy(), other, t)) for t in range(len(x))]
        return np.array([np.abs(after[t][t] - before[t]).max() for t in range(len(x))])

    return measure


def _all_after(x: NDArray, other: NDArray, t: int) -> NDArray:
    x[t + 1 :] = other[t + 1 :]
    return x


def _just_the_last(x: NDArray, other: NDArray, t: int) -> NDArray:
    if t < len(x) - 1:
        x[-1] = other[-1]
    return x


def _whole_outputs(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
    """Compare all rows for the sake of one."""
    before, found = function(x), np.zeros(len(x))
    for s in range(1, len(x)):
        changed = x.copy()
        changed[s] = other[s]
        found[:s] = np.maximum(found[:s], np.abs(function(changed) - before).max())
    return found


def _cut_off(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
    """Call the function on the tokens up to t alone."""
    before = function(x)
    return np.array([np.abs(function(x[: t + 1])[t] - before[t]).max() for t in range(len(x))])


def _compared_anew(copy: bool) -> Callable[..., Any]:
    """Pile replacements up, and compare each trial with the one before."""

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        now, found = (x.copy() if copy else x), np.zeros(len(x))
        for t in range(len(x)):
            for s in range(t + 1, len(x)):
                before = function(now)
                now[s] = other[s]
                found[t] = max(found[t], np.abs(function(now)[t] - before[t]).max())
        return found

    return measure


def _piled_up(copy: bool, by_token: bool) -> Callable[..., Any]:
    """Replace one token after another and never put one back; t or s is the outer loop."""

    def measure(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
        now = x.copy() if copy else x
        before = function(now)
        found = np.zeros(len(x))
        pairs = [(t, s) for t in range(len(x)) for s in range(t + 1, len(x))]
        for t, s in pairs if by_token else sorted(pairs, key=lambda pair: pair[1]):
            now[s] = other[s]
            found[t] = max(found[t], np.abs(function(now)[t] - before[t]).max())
        return found

    return measure


def _copied_once_a_token(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
    """Make a copy for each t, in which the later tokens are replaced one after another."""
    before, found = function(x), np.zeros(len(x))
    for t in range(len(x)):
        now = x.copy()
        for s in range(t + 1, len(x)):
            now[s] = other[s]
            found[t] = max(found[t], np.abs(function(now)[t] - before[t]).max())
    return found


def _leak_overwriting(function: Callable[[NDArray], NDArray], x: NDArray, other: NDArray) -> Any:
    found = _leaks()(function, x, other)
    x[1:] = other[1:]
    return found


def _zeroed(x: NDArray, other: NDArray, s: int) -> NDArray:
    changed = x.copy()
    changed[s] = 0.0
    return changed


_LEAK_WRONG = [
    wrong(
        _leak_from(_all_after),
        "all later tokens at once | You replace all later tokens together. Their effects may "
        "cancel, and then a leak isn't seen at all. → How many tokens may differ from `x` in one "
        "call of the function?",
    ),
    wrong(
        _leaks(later=lambda s, t: s == t + 1),
        "only the next token | You try the next token only; a leak may come from further away, "
        "such as the end. → Which tokens are later than token t?",
    ),
    wrong(
        _leak_from(_just_the_last),
        "only the last token | You replace the last token only, or keep only what it does "
        "(does each trial overwrite the entry of the one before?). What leaks from one place to "
        "the one before it isn't seen. → Which tokens are later than token t?",
    ),
    wrong(
        _leaks(later=lambda s, t: s >= t),
        "the token itself too | You replace token t itself as well, and of course its output "
        "changes then. → With which s does your inner loop begin?",
    ),
    wrong(
        _leaks(later=lambda s, t: s != t),
        "any other token | You replace earlier tokens too, but those may have a say: that's what a "
        "causal function is. → Which side of t is the future?",
    ),
    wrong(
        _leaks(later=lambda s, t: s < t),
        "earlier tokens | You replace the tokens *before* t, which may have a say. Is the first "
        "index the one that is changed or the one that is looked at? → Which side of t is the "
        "future?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(axis=0, initial=0.0)),
        "listed by the token that was changed | Your entry s says how far a change of token s "
        "reaches back; asked for is, for each token t, what reaches *it*. Your first entry is "
        "always 0, where the last one should be. → Over which of the two tokens is the maximum "
        "taken?",
    ),
    wrong(
        _leaks(size=np.max),
        "with its sign | You take the largest difference, sign and all: an output that only falls "
        "is counted as 0 or less. → How large is a change of −3?",
    ),
    wrong(
        _leaks(gather=lambda table: 0.0 * table[:, 0]),
        "no change found | All your leaks are 0, even those of functions that look ahead: either "
        "what you compare is the same, or nothing of it is kept. → Is the function called once "
        "more after a token has been replaced, on the array in which it was?",
    ),
    wrong(
        _leaks(gather=lambda table: table.sum(axis=1)),
        "the sum over later tokens | You add up the changes that each later token makes. → Which "
        "one of them is the leak?",
    ),
    wrong(
        _leaks(
            gather=lambda table: (
                table.sum(axis=1) / np.maximum(np.arange(len(table) - 1, -1, -1), 1)
            )
        ),
        "the mean over later tokens | You average over the changes that the later tokens make. → "
        "Which one of the changes is the leak?",
    ),
    wrong(
        _leaks(size=lambda change: np.abs(np.ravel(change)[0])),
        "the first number of a row | You look at the first number of an output row, and a leak may "
        "show in another one. → Over which numbers of the row is the largest change taken?",
    ),
    wrong(
        _leaks(size=lambda change: np.sqrt((change**2).sum())),
        "the length of the change | You return the length of an output row's change, in which all "
        "of its numbers add up. → Which one of them is asked for?",
    ),
    wrong(
        _whole_outputs,
        "whole outputs compared | You compare whole outputs, or the row of the token that was "
        "replaced; that row changes, of course. → Which row of the output belongs to token t?",
    ),
    wrong(
        _cut_off,
        "later tokens cut off | You call the function on the first t + 1 tokens. Then all later "
        "ones are gone at once, and the length has changed too. → How many tokens may differ from "
        "`x` in one call of the function?",
    ),
    wrong(
        lambda function, x, other: np.abs(function(other) - function(x)).max(axis=-1),
        "all tokens replaced | You compare the outputs of `x` and of `other`, in which every token "
        "is another one, token t too. → How many tokens may differ from `x` in one call of the "
        "function?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(initial=0.0)),
        "one number for all | You return the worst leak of all as one number. → For how many "
        "tokens is one asked?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(axis=1, initial=0.0) > 1e-9),
        "yes or no | You say whether a token leaks; asked for is by how much, so that a small leak "
        "can be told from a large one. → What do you compare with a threshold?",
    ),
    wrong(
        _leaks(swap=_zeroed),
        "replaced by zeros | You replace a token by zeros, which some functions treat in a special "
        "way. → What does the docstring replace it by?",
    ),
    wrong(
        _leaks(gather=lambda table: table.max(axis=1, initial=0.0)[:-1]),
        "the last token left out | Your result is one entry short: the last token has nothing "
        "after it, but it has an entry all the same. → What is it?",
    ),
    wrong(
        _copied_once_a_token,
        "tokens put back for the next t only | Every t starts from a new copy, but within it "
        "replacements pile up: when the next s is tried, the ones tried before it are still "
        "replaced. → How many tokens may differ from `x` in one call of the function?",
    ),
    *(
        wrong(
            _compared_anew(copy),
            f"compared anew, {where} | Two things: replacements pile up{how}, and what you compare "
            "with is computed anew after some of them. → Which call of the function needs to be "
            "made only once, and before all others?",
        )
        for copy, where, how in (
            (True, "in one copy", ""),
            (False, "in x", ", in the caller's array too, since `changed = x` is no copy"),
        )
    ),
    *(
        wrong(
            _piled_up(copy, by_token),
            f"tokens never put back, {where}, {loop} | Replacements pile up{how}: when the next "
            "token is tried, the ones tried before it are still replaced. → From which array "
            "should each trial start?",
        )
        for copy, where, how in (
            (True, "in one copy", ""),
            (False, "in x", ", and in the caller's array, since `changed = x` is no copy"),
        )
        for by_token, loop in ((True, "t by t"), (False, "s by s"))
    ),
    wrong(
        _leaks(size=lambda change: np.abs(change).sum()),
        "the sum of the changes | You add the changes of all numbers of an output row. → Which "
        "one of them is asked for?",
    ),
    wrong(
        _leaks(size=lambda change: np.abs(change).mean()),
        "the mean of the changes | You average over the numbers of an output row, which hides a "
        "leak in one column behind the others. → Which number of the row is asked for?",
    ),
    wrong(
        _leaks(later=lambda s, t: True),
        "any token at all | You replace every token in turn, token t and earlier ones among them. "
        "Only later ones must not matter. → Which s are left then, for a given t?",
    ),
    wrong(
        _leak_overwriting,
        "x is overwritten | After the call the caller's tokens are the replaced ones: `changed = "
        "x` only gives the same array a second name. → Which line makes a copy to write into?",
    ),
]


def _leak_lists(function: Any, x: NDArray, other: NDArray) -> Any:
    before = function(x)
    worst = [0.0] * len(x)
    for s in range(1, len(x)):
        after = function(np.concatenate([x[:s], other[s : s + 1], x[s + 1 :]]))
        for t in range(s):
            worst[t] = max(worst[t], max(abs(float(c)) for c in after[t] - before[t]))
    return worst


def _leak_at_once(function: Any, x: NDArray, other: NDArray) -> Any:
    """All trials as one table [s, t], of which the part above the diagonal is dropped."""
    n = len(x)
    trials = np.where(np.eye(n, dtype=bool)[:, :, None], other, x)  # (s, token, d)
    after = np.stack([function(trial) for trial in trials])
    size = np.abs(after - function(x)).reshape(n, n, -1).max(axis=-1)
    return np.tril(size, k=-1).max(axis=0)


def _leak_torch(function: Any, x: Any, other: Any) -> Any:
    import torch

    before, found = function(x), torch.zeros(len(x), dtype=x.dtype)
    for s in range(1, len(x)):
        changed = x.clone()
        changed[s] = other[s]
        size = (function(changed) - before)[:s].abs().amax(dim=-1)
        found[:s] = torch.maximum(found[:s], size)
    return found


_LEAK = Exercise(
    id="07.leak",
    function="leak",
    reference=leak,
    cases=_LEAK_CASES,
    returns=("leaks",),
    misconceptions=_LEAK_WRONG,
    alternatives=[
        ("lists", _leak_lists),
        ("all trials in a table", _leak_at_once),
        Alternative(name="torch", right=_leak_torch, backend="torch"),
    ],
    hints=[
        "Call the function once on x. Then, for one later token s, call it on a copy of x in which "
        "only row s is replaced, and compare row t of both outputs.",
        "For token t, do so for every s from t + 1 on and keep the largest of all |differences|. "
        "Each trial starts from x as it was.",
        "`changed = x.copy(); changed[s] = other[s]` is one trial, and `np.abs(a - b).max()` is "
        "the size of a change. With no later token the largest is 0.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


EXERCISES = [
    _FEED_FORWARD,
    LAYER_NORM,
    LAYER_NORM_BACKWARD,
    RMS_NORM,
    WHICH_AXIS,
    _RESIDUAL_STACK,
    _LEAK,
]
