"""The exercises of chapter 13 about parts of a block: a gated network, a normalised sum.

Every misconception here is the right computation with one step wrong. All is written out: the
course's own functions refuse to work while a student's are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import feed_forward as ref_ffn
from course_lib.reference import normalization as ref_norm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ADD_NORM", "GATED", "add_and_normalise", "gated_network", "gelu_tanh", "silu"]

_erf = np.vectorize(erf, otypes=[float])


def silu(x: NDArray) -> NDArray:
    """Weigh each number by its sigmoid."""
    with np.errstate(over="ignore"):
        return x / (1.0 + np.exp(-x))


def _gelu(x: NDArray) -> NDArray:
    return 0.5 * x * (1.0 + _erf(x / sqrt(2.0)))


def gelu_tanh(x: NDArray) -> NDArray:
    """Weigh each number as GPT-2 does."""
    return 0.5 * x * (1.0 + np.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: NDArray) -> NDArray:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


# -- 13.gated --------------------------------------------------------------------------------------


def gated_network(x: NDArray, w_gate_up: NDArray, w_down: NDArray, gate: str = "silu") -> NDArray:
    """Run a gated feed-forward network whose first two matrices are one.

    Parameters
    ----------
    x : float array, (..., d)
    w_gate_up : float array, (d, 2 d_ff)
        The gate's columns, then those of what is gated.
    w_down : float array, (d_ff, d)
    gate : {"silu", "gelu", "gelu_tanh"}, default "silu"

    Returns
    -------
    float array, (..., d)
    """
    return _gated()(x, w_gate_up, w_down, gate)


def _halves(y: NDArray) -> tuple[NDArray, NDArray]:
    middle = y.shape[-1] // 2
    return y[..., :middle], y[..., middle:]


_BENDS: dict[str, Callable[[NDArray], NDArray]] = {
    "silu": silu,
    "gelu": _gelu,
    "gelu_tanh": gelu_tanh,
}


def _gated(
    *,
    bends: dict[str, Callable[[NDArray], NDArray]] = _BENDS,
    cut: Callable[[NDArray], tuple[NDArray, NDArray]] = _halves,
    join: Callable[[Any, NDArray, NDArray], NDArray] = lambda bend, g, up: bend(g) * up,
    down: Callable[[NDArray, NDArray], NDArray] = lambda h, w: h @ w,
    up: Callable[[NDArray, NDArray], NDArray] = lambda x, w: x @ w,
    choose: Callable[[str], str] = lambda gate: gate,
    after: Callable[[NDArray, NDArray], NDArray] = lambda y, x: y,
    **changed: Callable[[NDArray], NDArray],
) -> Callable[..., Any]:
    """Return the network with some steps replaced; further names are activations."""

    def network(x: NDArray, w_gate_up: NDArray, w_down: NDArray, gate: str = "silu") -> Any:
        bend = {**bends, **changed}[choose(gate)]
        return after(down(join(bend, *cut(up(x, w_gate_up))), w_down), x)

    return network


def _drawn(
    lead: tuple[int, ...], d: int, d_ff: int, **more: Any
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 1, d, d_ff, *lead])
        return {
            "x": draw(rng, *lead, d) + 0.2,
            "w_gate_up": draw(rng, d, 2 * d_ff),
            "w_down": draw(rng, d_ff, d),
            **more,
        }

    return build


def _ramp(gate: str) -> dict[str, Any]:
    """Gates from −3 to 3, set against 1."""
    return {
        "x": np.stack([np.arange(-3.0, 4.0), np.ones(7)], axis=1),
        "w_gate_up": np.eye(2),
        "w_down": np.array([[1.0, 10.0]]),
        "gate": gate,
    }


_GATED_CASES = [
    case("gates from −3 to 3, SiLU | what is gated is 1", _ramp("silu")),
    case("5 tokens of width 3, d_ff = 4 | two halves of 8 columns", _drawn((5,), 3, 4)),
    case("2 sequences of 3 tokens, d_ff = 5 | any number of axes in front", _drawn((2, 3), 4, 5)),
    case("gates from −3 to 3, exact GELU | the approximation is too far off", _ramp("gelu")),
    case("gates from −3 to 3, GELU by tanh | as Gemma has it", _ramp("gelu_tanh")),
    case(
        "4 tokens of width 4, d_ff = 4, exact GELU | square matrices",
        _drawn((4,), 4, 4, gate="gelu"),
    ),
    case("4 tokens, GELU by tanh | the same network", _drawn((4,), 2, 6, gate="gelu_tanh")),
]


def _alternate(y: NDArray) -> tuple[NDArray, NDArray]:
    return y[..., ::2], y[..., 1::2]


def _by_token(y: NDArray) -> tuple[NDArray, NDArray]:
    middle = y.shape[-1] // 2
    return y[:, :middle], y[:, middle:]


def _first_axis(y: NDArray) -> tuple[NDArray, NDArray]:
    a, b = np.split(y, 2)
    return a, b


def _cut_at_d(x: NDArray, w_gate_up: NDArray, w_down: NDArray, gate: str = "silu") -> Any:
    d, y = x.shape[-1], x @ w_gate_up
    return (_BENDS[gate](y[..., :d]) * y[..., d:]) @ w_down


def _before(x: NDArray, w_gate_up: NDArray, w_down: NDArray, gate: str = "silu") -> Any:
    g, up = _halves(_BENDS[gate](x) @ w_gate_up)
    return (g * up) @ w_down


def _by_math(x: NDArray) -> NDArray:
    raise TypeError("only 0-dimensional arrays can be converted to Python scalars")  # by math.erf


def _tanh(inner: Callable[[NDArray], NDArray]) -> Callable[[NDArray], NDArray]:
    return lambda x: 0.5 * x * (1.0 + np.tanh(inner(x)))


_GATED_WRONG = [
    wrong(
        _gated(cut=lambda y: _halves(y)[::-1]),
        "the halves changed places | You apply the activation to the second half of the columns "
        "and leave the first as it is. Nothing stops you, since both are equally wide. → Which "
        "half does the text call the gate's?",
    ),
    wrong(
        _gated(cut=_alternate),
        "every other column | You take every other column for the gate. Here the matrices lie side "
        "by side, not column by column. → Which columns are the first d_ff?",
    ),
    wrong(
        _gated(cut=_by_token),
        "cut along axis 1 | For one sequence you're right. In a batch axis 1 is that of the "
        "tokens, and you cut them in two. → Which number names the last axis, however many come "
        "before it?",
    ),
    wrong(
        _gated(cut=_first_axis),
        "cut along the first axis | What you've cut doesn't fit together: `np.split` cuts along "
        "the first axis if it isn't told another, which divides the tokens, or the rows of the "
        "matrix. → Which axis holds the 2·d_ff columns?",
    ),
    wrong(
        _cut_at_d,
        "cut at column d | Only where d = d_ff do your halves fit together: you cut the product "
        "after d columns, the width of a token. → How wide is the gate's half, and which matrix's "
        "shape tells you?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: bend(g)),
        "nothing gated | You use the gate's half only, which makes an ordinary network of two "
        "layers. → By what is the gate multiplied?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: g * up),
        "no activation | You multiply the two halves as they are. That's bilinear, and a gate "
        "of −3 lets through as much as one of 3. → What happens to the gate before it's "
        "multiplied?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: bend(g) * g),
        "the gate gates itself | You multiply the activated gate by the gate itself, and never "
        "use the other half. → Which two halves does the formula multiply?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: bend(up) * up),
        "the other half gates itself | You apply the activation to the second half of the "
        "columns and multiply by the same half, so that the gate has no part in it. → Which "
        "half does the text call the gate's?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: g * _sigmoid(up)),
        "the sigmoid of the other half | You multiply the gate by the sigmoid of the other "
        "half, as torch's `glu` does. → Which number goes into the sigmoid in g·σ(g)?",
    ),
    wrong(
        _before,
        "the token bent | You apply the activation to the token, before the product. → What "
        "stands in the activation's brackets in the formula?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: bend(g) + up),
        "added | You add the activated gate to the other half. A sum lets everything through. → "
        "By which operation does a gate near 0 shut something off?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: bend(g * up)),
        "bent after the product | You multiply both halves first and apply the activation to "
        "the product. → To which of the two does the formula apply it?",
    ),
    wrong(
        _gated(join=lambda bend, g, up: bend(g) * bend(up)),
        "both halves bent | You apply the activation to both halves. What is gated goes through "
        "as it is, below 0 too. → How often does the activation appear in the formula?",
    ),
    wrong(
        _gated(silu=_sigmoid, gelu=lambda x: 0.5 * (1.0 + _erf(x / sqrt(2.0)))),
        "the share without its number | Your gates stay between 0 and 1, as in an LSTM or a "
        "GLU: the factor g is missing. → By what are these shares multiplied in SiLU and GELU?",
    ),
    wrong(
        _gated(silu=_sigmoid),
        'sigmoid for SiLU | With GELU you\'re right. For "silu" you gate with σ(g), which is a '
        "GLU; SwiGLU gates with g·σ(g). → What is missing in front of the sigmoid?",
    ),
    wrong(
        _gated(choose=lambda gate: "silu"),
        "SiLU whatever is asked for | With SiLU you're right, but you return SiLU where GELU is "
        "asked for as well. → Where does your function look at `gate`?",
    ),
    wrong(
        _gated(choose=lambda gate: gate.split("_")[0]),
        'the exact GELU for both | For "gelu_tanh" you return the exact GELU. They differ by '
        "up to 5·10⁻⁴, which adds up over 32 layers. → How does the text write GELU by tanh?",
    ),
    wrong(
        _gated(choose=lambda gate: "gelu_tanh" if gate == "gelu" else gate),
        'GELU by tanh for both | For "gelu" you return the approximation by tanh. It\'s off by '
        "up to 5·10⁻⁴. → Which function does the exact formula use in place of tanh?",
    ),
    wrong(
        _gated(choose=lambda g: {"gelu": "gelu_tanh", "gelu_tanh": "gelu"}.get(g, g)),
        "the GELUs changed places | You return the approximation where the exact GELU is asked "
        "for, and the other way round. → Which of them needs `erf`?",
    ),
    wrong(
        _gated(gelu_tanh=_tanh(lambda x: sqrt(2 / pi) * (x + 0.044715 * x**2))),
        "a square for the cube | In GELU by tanh you have a square in place of the cube, so "
        "that it's off by different amounts left and right of 0. → Which power of g changes "
        "sign with g?",
    ),
    wrong(
        _gated(gelu_tanh=_tanh(lambda x: sqrt(2 / pi) * x + 0.044715 * x**3)),
        "√(2/π) on the first term only | In GELU by tanh √(2/π) multiplies g alone, and not the "
        "cube. → Where does the bracket open in the formula of t?",
    ),
    wrong(
        _gated(gelu_tanh=_tanh(lambda x: 2 / pi * (x + 0.044715 * x**3))),
        "2/π without the root | In GELU by tanh you multiply by 2/π and not by its root. → "
        "Which number stands before the bracket in the formula of t?",
    ),
    wrong(
        _gated(gelu_tanh=lambda x: x * _sigmoid(1.702 * x)),
        "GELU from a sigmoid | this exercise uses the approximation by tanh; yours is x·σ(1.702x), "
        "which OpenAI's CLIP uses and which is off by up to 0.02. → Which formula stands in the "
        "text?",
        variant=True,
    ),
    wrong(
        _gated(gelu=lambda x: 0.5 * x * (1.0 + _erf(x))),
        "√2 forgotten | Your exact GELU is too steep: the error function belongs to a normal "
        "distribution of variance ½. → By what must g be divided inside `erf`?",
    ),
    wrong(
        _gated(gelu=_by_math),
        "math.erf of an array | Your exact GELU stops with a TypeError: `math.erf` takes one "
        "number. → Which function on the page takes arrays?",
    ),
    wrong(
        _gated(gelu=lambda x: 0.5 * x * (1.0 + _erf(x) / sqrt(2.0))),
        "√2 outside of erf | In the exact GELU you divide the error function by √2, and not its "
        "argument. → Where does the bracket of `erf` close in the formula?",
    ),
    wrong(
        _gated(gelu=lambda x: 0.5 * x + _erf(x / sqrt(2.0))),
        "a bracket lost in the exact GELU | In the exact GELU g/2 multiplies the 1 alone, and the "
        "error function is added to it. → What does the outer bracket of the formula hold?",
    ),
    wrong(
        _gated(gelu_tanh=lambda x: 0.5 * x + np.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x**3))),
        "a bracket lost in GELU by tanh | In GELU by tanh g/2 multiplies the 1 alone, and the "
        "tanh is added to it. → What does the outer bracket of the formula hold?",
    ),
    wrong(
        _gated(gelu_tanh=lambda x: 0.5 * x * (1.0 + sqrt(2.0 / pi) * np.tanh(x + 0.044715 * x**3))),
        "√(2/π) outside of tanh | In GELU by tanh you multiply the tanh by √(2/π), and not its "
        "argument. → Does the factor belong to t or to tanh(t)?",
    ),
    wrong(
        _gated(gelu_tanh=_tanh(lambda x: np.sqrt(2.0 / pi * (x + 0.044715 * x**3)))),
        "the root of everything | In GELU by tanh you take the root of the whole product, which "
        "is NaN below 0. → Where does the root end in the formula of t?",
    ),
    wrong(
        _gated(down=lambda h, w: h @ w.T),
        "W_d turned | Only where d = d_ff does your last product run: you multiply by the "
        "transpose of `w_down`. → Which of its two sizes meets the d_ff columns?",
    ),
    wrong(
        _gated(down=lambda h, w: h),
        "not brought down | You return what is inside, of width d_ff. → Which argument does "
        "your function never use?",
    ),
    wrong(
        _gated(after=lambda y, x: x + y),
        "the token added | Your output is the network's plus the token. That sum belongs to the "
        "block around it. → What does the formula end with?",
    ),
    wrong(
        _gated(silu=lambda x: np.maximum(x, 0), gelu=lambda x: np.maximum(x, 0)),
        "ReLU gates | Your gates are cut off at 0, except in GELU by tanh. That's ReGLU. → What "
        "do SiLU and GELU do with a gate of −1?",
    ),
    wrong(
        _gated(silu=lambda x: x / (1.0 + np.exp(x))),
        "the sign in the exponent | Your SiLU lets through what is below 0 and shuts off what "
        "is above. → Near which number is σ(3), and near which exp(−3)?",
    ),
    wrong(
        _gated(gelu=lambda x: 0.5 * x * (1.0 + _erf(x * sqrt(2.0)))),
        "√2 multiplied | Your exact GELU is too steep: inside `erf` you multiply by √2. → Which "
        "operation stands between g and √2 in the formula?",
    ),
    wrong(
        _gated(gelu=lambda x: 2.0 * _gelu(x)),
        "½ forgotten in the exact GELU | Your exact GELU is twice as large as it should be. → What "
        "are the smallest and largest values of 1 + erf?",
    ),
    wrong(
        _gated(gelu=lambda x: 2.0 * _gelu(x), gelu_tanh=lambda x: 2.0 * gelu_tanh(x)),
        "½ forgotten in both | Both your GELUs are twice as large as they should be. → What are "
        "the smallest and largest values of 1 + erf and of 1 + tanh?",
    ),
    wrong(
        _gated(gelu=lambda x: x * (1.0 + _erf(x / sqrt(2.0)) / 2.0)),
        "1 not halved in the exact GELU | In the exact GELU you halve the error function and not "
        "the 1, so that a gate of −3 lets through −1.5 in place of almost nothing. → What are the "
        "smallest and largest values of 1 + erf/2?",
    ),
    wrong(
        _gated(
            gelu_tanh=lambda x: x * (1.0 + np.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x**3)) / 2.0)
        ),
        "1 not halved in GELU by tanh | In GELU by tanh you halve the tanh and not the 1, so that "
        "a gate of −3 lets through −1.5 in place of almost nothing. → What are the smallest and "
        "largest values of 1 + tanh/2?",
    ),
    wrong(
        _gated(gelu_tanh=lambda x: 2.0 * gelu_tanh(x)),
        "½ forgotten in GELU by tanh | Your GELU by tanh is twice as large as it should be. → "
        "What are the smallest and largest values of 1 + tanh?",
    ),
    wrong(
        _gated(gelu_tanh=lambda x: 0.5 * x * (2.0 * gelu_tanh(x) / np.where(x == 0, 1, x) - 1.0)),
        "1 forgotten in GELU by tanh | Your GELU by tanh is the same left and right of 0: "
        "without the 1 the bracket goes from −1 to 1. → Between which numbers must a share "
        "stay?",
    ),
    wrong(
        _gated(gelu_tanh=_tanh(lambda x: sqrt(2 / pi) * (x + 0.44715 * x**3))),
        "a digit lost | In GELU by tanh the cube counts ten times as much as it should. → How "
        "many zeros follow the point?",
    ),
    wrong(
        _gated(gelu_tanh=_tanh(lambda x: sqrt(pi / 2) * (x + 0.044715 * x**3))),
        "√(π/2) | In GELU by tanh the fraction under the root is upside down, so that it's too "
        "steep. → Is the factor above or below 1?",
    ),
]


def _gated_loops(x: Any, w_gate_up: Any, w_down: Any, gate: str = "silu") -> Any:
    d_ff = len(w_down)
    bend = {
        "silu": lambda g: g * (1 + np.tanh(g / 2)) / 2,
        "gelu": lambda g: g * (1 + erf(g / sqrt(2))) / 2,
        "gelu_tanh": lambda g: g / (1 + np.exp(-sqrt(8 / pi) * (g + 0.044715 * g * g * g))),
    }[gate]
    output = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        for i in range(d_ff):
            inner = bend(x[place] @ w_gate_up[:, i]) * (x[place] @ w_gate_up[:, d_ff + i])
            output[place] += inner * w_down[i]
    return output


def _gated_two(x: Any, w_gate_up: Any, w_down: Any, gate: str = "silu") -> Any:
    """Cut the matrix, and not what comes out of it."""
    w_gate, w_up = np.hsplit(w_gate_up, 2)
    g = x @ w_gate
    return np.einsum("...f,...f,fd->...d", _BENDS[gate](g), x @ w_up, w_down)


def _gated_torch(x: Any, w_gate_up: Any, w_down: Any, gate: str = "silu") -> Any:
    from torch.nn import functional

    g, up = (x @ w_gate_up).chunk(2, dim=-1)
    if gate == "silu":
        return (functional.silu(g) * up) @ w_down
    return (functional.gelu(g, approximate="tanh" if gate == "gelu_tanh" else "none") * up) @ w_down


GATED = Exercise(
    id="13.gated",
    function="gated_network",
    reference=gated_network,
    guarded=[ref_ffn.swiglu, ref_ffn.gelu, ref_ffn.silu],
    cases=_GATED_CASES,
    returns=("output",),
    misconceptions=_GATED_WRONG,
    alternatives=[
        ("loops", _gated_loops),
        ("two matrices", _gated_two),
        Alternative(name="torch", right=_gated_torch, backend="torch"),
    ],
    hints=[
        "One product gives both halves. Cut it in the middle of its last axis, apply the "
        "activation to the first half, multiply, and bring it down to width d.",
        "`g, up = np.split(x @ w_gate_up, 2, axis=-1)`. For the exact GELU use the page's `erf`, "
        "which takes arrays.",
        "SiLU is `g / (1 + np.exp(-g))`, GELU `g * (1 + erf(g / √2)) / 2`, the one by tanh "
        "`g * (1 + np.tanh(√(2/π) * (g + 0.044715 * g**3))) / 2`. Then `(act * up) @ w_down`.",
    ],
    points=3,
    minutes=20,
    difficulty=1,
)


# -- 13.add_norm -----------------------------------------------------------------------------------


def add_and_normalise(
    stream: NDArray, update: NDArray, gamma: NDArray, eps: float = 1e-6
) -> tuple[NDArray, NDArray]:
    """Add what a sublayer says to the stream, and normalise the sum for the next one.

    Parameters
    ----------
    stream, update : float arrays, (..., d)
    gamma : float array, (d,)
    eps : float, default 1e-6

    Returns
    -------
    normed, stream : float arrays, (..., d)
        In float32 where only float16 comes in.
    """
    normed, total = _added()(stream, update, gamma, eps)
    return normed, total


def _widened(x: NDArray) -> NDArray:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _root(x: NDArray, eps: float) -> NDArray:
    return np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


def _added(
    *,
    wide: Callable[[NDArray], NDArray] = _widened,
    widen_sum: Callable[[NDArray], NDArray] = lambda total: total,
    add: Callable[[NDArray, NDArray], NDArray] = lambda stream, update: stream + update,
    of: Callable[[NDArray, NDArray, NDArray], NDArray] = lambda total, stream, update: total,
    before: Callable[[NDArray], NDArray] = lambda x: x,
    size: Callable[[NDArray, float], Any] = _root,
    finish: Callable[[NDArray, NDArray], NDArray] = lambda h, gamma: gamma * h,
    returns: Callable[..., Any] = lambda normed, total, stream: (normed, total),
) -> Callable[..., Any]:
    """Return the step with some parts of it replaced."""

    def step(stream: NDArray, update: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
        with np.errstate(all="ignore"):
            s, u, g = wide(stream), wide(update), wide(gamma)
            total = add(s, u)
            x = before(of(widen_sum(total), s, u))
            return returns(finish(x / size(x, eps), g), total, stream)

    return step


def _stream(
    *shape: int,
    spread: float = 100.0,
    dtype: str = "float64",
    of_update: str | None = None,
    **more: Any,
) -> Callable[[int], dict[str, Any]]:
    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 2, *shape])
        update = spread * (draw(rng, *shape, spread=0.6) - 0.3)
        return {
            "stream": (spread * (draw(rng, *shape) + 0.7)).astype(dtype),
            "update": update.astype(of_update or dtype),
            "gamma": (draw(rng, shape[-1], spread=0.4) + 1.5).astype(dtype),
            **more,
        }

    return build


_ADDED_CASES = [
    case(
        "100, 0 and 200, 400 | the sum is 300, 400, of size 353.6",
        {
            "stream": np.array([[100.0, 0.0]]),
            "update": np.array([[200.0, 400.0]]),
            "gamma": np.ones(2),
        },
    ),
    case(
        "4 tokens in float32, an update in float16 | the stream stays in float32",
        _stream(4, 3, dtype="float32", of_update="float16"),
    ),
    case(
        "2 sequences of 3 tokens, ε = 0.1 | each token alone", _stream(2, 3, 5, spread=1.0, eps=0.1)
    ),
    case(
        "an update that cancels the stream | zeros stay zeros",
        {
            "stream": np.array([[5.0, -2.0, 1.0], [3.0, 0.0, 4.0]]),
            "update": np.array([[-5.0, 2.0, -1.0], [0.0, 1.0, 2.0]]),
            "gamma": np.array([1.0, 2.0, 3.0]),
        },
    ),
    case("tiny numbers, ε by default | ε is 10⁻⁶", _stream(2, 4, spread=0.002)),
    case(
        "float16, numbers near 500 | their squares have no room in float16",
        _stream(3, 4, spread=500.0, dtype="float16"),
    ),
    case(
        "float16, tiny numbers, ε = 10⁻⁹ | nor have these",
        _stream(3, 4, spread=0.0002, dtype="float16", eps=1e-9),
    ),
    case(
        "float16, 40,000 + 40,000 | nor has the sum",
        {
            "stream": np.array([[40_000, 0], [-60_000, 300]], dtype=np.float16),
            "update": np.array([[40_000, 0], [-20_000, 100]], dtype=np.float16),
            "gamma": np.array([1.0, 2.0], dtype=np.float16),
        },
    ),
]


def _in_place(stream: NDArray, update: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
    normed, total = _added()(stream, update, gamma, eps)
    stream[...] = total
    return normed, stream


def _update_alone(stream: NDArray, update: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
    normed, total = _added()(stream, update, gamma, eps)
    return normed, update.astype(total.dtype)


def _eps_in_half(stream: NDArray, update: NDArray, gamma: NDArray, eps: float = 1e-6) -> Any:
    return _added()(stream, update, gamma, stream.dtype.type(eps))


_ADDED_WRONG = [
    wrong(
        _added(wide=lambda x: x),
        "all in float16 | In float64 and float32 you're right. In float16 300² is above the "
        "largest number, 65,504, and small squares become 0. → Before which line do stream and "
        "update have to become float32?",
    ),
    wrong(
        _added(
            wide=lambda x: x,
            widen_sum=_widened,
            returns=lambda normed, total, stream: (normed.astype(stream.dtype), total),
        ),
        "added in float16 | You widen the sum, to square it in float32. The sum itself was made in "
        "float16, where 40,000 + 40,000 is infinite. → Before which line do stream and update have "
        "to become float32?",
    ),
    wrong(
        _added(
            wide=lambda x: x,
            size=lambda x, eps: np.sqrt(
                np.mean(x**2, axis=-1, keepdims=True, dtype=np.float32) + eps
            ),
        ),
        "squared in float16, averaged in float32 | Your mean is taken in float32, but of "
        "squares made in float16: there 300² is infinite, and 0.0001² is 0. → Which line has to "
        "come before the one that squares?",
    ),
    wrong(
        _added(wide=lambda x: x, add=lambda stream, update: _widened(stream + update)),
        "added in float16, then widened | Your results are float32, but the sum was made in "
        "float16, where 40,000 + 40,000 is infinite. → Which is widened: stream and update, or "
        "their sum?",
    ),
    wrong(
        _added(
            returns=lambda normed, total, stream: (
                normed.astype(stream.dtype),
                total.astype(stream.dtype),
            )
        ),
        "brought back to float16 | You compute in float32, as you should, and bring the stream "
        "back to float16, where 40,000 + 40,000 is infinite. → In which dtype does the text return "
        "both results?",
    ),
    wrong(
        _added(returns=lambda normed, total, stream: (normed.astype(stream.dtype), total)),
        "what is read in float16 | this exercise uses float32 for both results; you bring the "
        "next sublayer's input back to float16, as fast kernels do. → In which dtype does the "
        "text return it?",
        variant=True,
    ),
    wrong(
        _added(of=lambda total, stream, update: update),
        "the update normalised | You normalise the update alone, without the stream it's added "
        "to. → What does the next sublayer read?",
    ),
    wrong(
        _added(of=lambda total, stream, update: stream),
        "normalised before the sum | You normalise the stream as it came, so that the next "
        "sublayer knows nothing of the update. → What is added first?",
    ),
    wrong(
        _added(returns=lambda normed, total, stream: (normed, stream)),
        "the old stream handed on | Your `normed` is right, but you return the stream without "
        "the update, so that the sublayer's output is lost. → What do later blocks add to?",
    ),
    wrong(
        _update_alone,
        "the update handed on | Your `normed` is right, but you return the update without the "
        "stream. → What is the new stream the sum of?",
    ),
    wrong(
        _added(returns=lambda normed, total, stream: (normed, normed)),
        "the stream normalised | You return the normalised sum as the stream, which makes a "
        "block with the norm last. → Which of the two results is never divided by anything?",
    ),
    wrong(
        _added(returns=lambda normed, total, stream: (total, normed)),
        "results changed places | Both results are right, in the other order. → Which one does the "
        "docstring name first?",
    ),
    wrong(
        _added(returns=lambda normed, total, stream: (normed, total + normed)),
        "the normed sum added once more | Your stream is the sum plus the normalised sum. The "
        "next sublayer reads the latter, and only its output is added, later. → What is added "
        "here?",
    ),
    wrong(
        _added(returns=lambda normed, total, stream: normed),
        "one result | You return what is normalised, and the new stream is lost. → What does "
        "the next sum need?",
    ),
    wrong(
        _added(before=lambda x: x - x.mean(axis=-1, keepdims=True)),
        "the mean taken away | That's layer norm: your tokens have mean 0. → Which line isn't "
        "in the formula?",
    ),
    wrong(
        _added(size=lambda x, eps: np.sqrt((x**2).sum(axis=-1, keepdims=True) + eps)),
        "the sum of squares | Your tokens have length 1, so that their numbers shrink as d "
        "grows. → What does the M in RMS stand for?",
    ),
    wrong(
        _added(size=lambda x, eps: _root(x, 0.0) + eps),
        "ε outside the root | With large tokens it can't be seen; with ε = 0.1, or tiny tokens, "
        "it can. → To what is ε added?",
    ),
    wrong(
        _added(size=lambda x, eps: _root(x, 0.0)),
        "no ε | Where the update cancels the stream you get 0/0. → What is added to the mean "
        "square so that this can't happen?",
    ),
    wrong(
        _added(size=lambda x, eps: np.maximum(_root(x, 0.0), eps)),
        "ε as a lower bound | You divide by the larger of the root and ε, so that ε changes no "
        "ordinary token. → To what is ε added in the formula?",
    ),
    wrong(
        _added(size=lambda x, eps: _root(x, 1e-6)),
        "ε ignored | With the default you're right; with ε = 0.1 you use a constant. → Where does "
        "your function use `eps`?",
    ),
    wrong(
        _added(size=lambda x, eps: (x**2).mean(axis=-1, keepdims=True) + eps),
        "no root | You divide by the mean square, so a token twice as large comes out half as "
        "large. → Which letter of RMS is missing?",
    ),
    wrong(
        _added(size=lambda x, eps: np.sqrt((x**2).mean(axis=0, keepdims=True) + eps)),
        "along axis 0 | You take the mean square over the tokens, or over the batch. → Which axis "
        "holds the numbers of one token?",
    ),
    wrong(
        _added(size=lambda x, eps: np.sqrt((x**2).mean() + eps)),
        "over everything | One mean square serves all tokens, so that each depends on the others. "
        "→ What does `mean()` cover when it isn't told an axis?",
    ),
    wrong(
        _added(size=lambda x, eps: np.sqrt((x**2).mean(axis=-1) + eps)),
        "keepdims forgotten | Your mean squares have lost their last axis. One token hides it. "
        "With as many tokens as numbers in each, the wrong ones are divided; otherwise the "
        "shapes don't fit. → What keeps an axis of length 1?",
    ),
    wrong(
        _eps_in_half,
        "ε in float16 | You bring ε to the dtype of the stream. In float16 10⁻⁹ is 0. → In "
        "which dtype is it to be added?",
    ),
    wrong(
        _added(finish=lambda h, gamma: h / gamma),
        "divided by γ | With γ = 1 you're right; otherwise you divide by it. → By which "
        "operation does γ enter the formula?",
    ),
    wrong(
        _added(add=lambda stream, update: stream + update / _root(update, 1e-6)),
        "the update normalised, then added | You normalise the update before it's added to the "
        "stream. → Of what does the formula take the mean square?",
    ),
    wrong(
        _added(finish=lambda h, gamma: h),
        "γ left out | With γ = 1 you're right; otherwise what the model has learned is missing. "
        "→ Which argument does your function never use?",
    ),
    wrong(
        _added(finish=lambda h, gamma: (1.0 + gamma) * h),
        "1 + γ | this exercise uses γ as it is; you multiply by 1 + γ, which is Gemma's way of "
        "storing it. → By what does the text multiply?",
        variant=True,
    ),
    wrong(
        _added(returns=lambda normed, total, stream: (normed + stream, total)),
        "the stream added after the norm | You add the stream to the normalised sum, so that "
        "the next sublayer reads numbers of any size again. → What is the norm there for?",
    ),
    wrong(
        _in_place,
        "the stream overwritten | The numbers are right, but the caller's stream has been changed. "
        "→ Which line writes into `stream` itself: is it `+=`?",
    ),
    wrong(
        _added(size=lambda x, eps: np.sqrt(x.var(axis=-1, keepdims=True) + eps)),
        "divided by the standard deviation | You divide by the standard deviation, which takes "
        "the mean away first. → Of which numbers does the root *mean square* take the squares?",
    ),
    wrong(
        _added(size=lambda x, eps: np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)),
        "along axis 1 | For one sequence that's right. In a batch axis 1 is that of the tokens. "
        "→ Which number names the last axis, however many come before it?",
    ),
    wrong(
        _added(add=lambda stream, update: stream - update),
        "subtracted | You subtract the update from the stream, and normalise the difference. → "
        "With which sign does a sublayer's output enter the stream?",
    ),
    wrong(
        _added(
            size=lambda x, eps: np.sqrt(
                (x**2).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1) + eps
            ),
        ),
        "divided by d − 1 | You divide the sum of squares by d − 1, as for the variance of a "
        "sample. → How many squares are there in a token of width d?",
    ),
]


def _added_loops(stream: Any, update: Any, gamma: Any, eps: float = 1e-6) -> Any:
    total = stream.astype(float) + update.astype(float)
    normed = np.zeros(stream.shape)
    for place in np.ndindex(stream.shape[:-1]):
        square = sum(float(a) ** 2 for a in total[place]) / stream.shape[-1]
        normed[place] = total[place] * gamma.astype(float) / sqrt(square + eps)
    return normed, total


def _added_by_type(stream: Any, update: Any, gamma: Any, eps: float = 1e-6) -> Any:
    """Find the type that has room for all, and let numpy add in it; divide by a length."""
    room = np.result_type(stream, update, np.float32)
    total = np.add(stream, update, dtype=room)
    length = np.linalg.norm(total, axis=-1, keepdims=True)
    d = stream.shape[-1]
    return (total * sqrt(d) / np.hypot(length, sqrt(d * eps)) * gamma).astype(room), total


def _added_torch(stream: Any, update: Any, gamma: Any, eps: float = 1e-6) -> Any:
    import torch

    room = torch.promote_types(stream.dtype, torch.float32)
    total = stream.to(room) + update.to(room)
    normed = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * gamma
    return normed, total


ADD_NORM = Exercise(
    id="13.add_norm",
    function="add_and_normalise",
    reference=add_and_normalise,
    guarded=[ref_norm.rms_norm],
    cases=_ADDED_CASES,
    returns=("normed", "stream"),
    misconceptions=_ADDED_WRONG,
    alternatives=[
        ("loops", _added_loops),
        ("a type with room", _added_by_type),
        Alternative(name="torch", right=_added_torch, backend="torch"),
    ],
    hints=[
        "Add first. The sum is the new stream; a copy of it is normalised for the next sublayer, "
        "and the stream itself never is.",
        "The sum needs room too. Where float16 comes in, use `x.astype(np.float32)` before you "
        "add, and bring nothing back to float16.",
        "`total = wide(stream) + wide(update)`, `normed = gamma * total / np.sqrt((total**2)"
        ".mean(axis=-1, keepdims=True) + eps)`, where `wide` leaves float64 alone.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)
