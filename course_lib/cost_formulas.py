"""The costs of the whole series as formulas, one row for each block and for what is done with it.

A formula is text that Python could compute, such as ``8*n*d**2 + 4*n**2*d``. `to_html` writes it
for a page and `evaluate` computes it, so the formula that is read is the one that is checked.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

__all__ = ["BLOCKS", "MODEL", "Formulas", "evaluate", "to_html", "to_text"]

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """What a row of the table says, as formulas of n, d, h, d_ff, N and V; empty for no claim.

    Parameters
    ----------
    flops : str
        Of products of matrices.
    parameters : str
        Numbers learned.
    kept : str
        Bytes in float32 that are kept: for backward, or in a cache.
    steps : str
        Steps that wait for one another.
    path : str
        Links between the two ends of a sequence.
    """

    flops: str
    parameters: str = ""
    kept: str = ""
    steps: str = ""
    path: str = ""


# Of one sequence of n tokens (of a source and a target of n tokens each), float32, no dropout.
_ENCODER_KEEPS = "8*h*n**2 + 40*n*d + 4*n*d_ff + 5*h*n + 8*n"
_DECODER_KEEPS = "16*h*n**2 + n**2 + 72*n*d + 4*n*d_ff + 10*h*n + 12*n"
_MODEL_FLOPS = "N*(24*n*d**2 + 12*n**2*d + 8*n*d*d_ff) + 2*n*d*V"
_MODEL_HOLDS = "N*(12*d**2 + 4*d*d_ff + 24*d + 2*d_ff) + 3*V*d + V"
_MODEL_KEEPS = (
    "N*(24*h*n**2 + n**2 + 108*n*d + 8*n*d_ff + 15*h*n + 21*n) + 8*n*d + 16*n"
)  # fmt: skip

BLOCKS: dict[str, Formulas] = {
    "embedding": Formulas(flops="0", parameters="V*d", kept="8*n", steps="0"),
    "sinusoidal positions": Formulas(flops="0", parameters="0", kept="0", steps="0"),
    "self-attention": Formulas(
        flops="8*n*d**2 + 4*n**2*d", parameters="4*d**2 + 4*d",
        kept="8*h*n**2 + 20*n*d + 5*h*n", steps="5", path="1",
    ),
    "cross-attention": Formulas(
        flops="8*n*d**2 + 4*n**2*d", parameters="4*d**2 + 4*d",
        kept="8*h*n**2 + 24*n*d + 5*h*n", steps="5", path="1",
    ),
    "feed-forward": Formulas(
        flops="4*n*d*d_ff", parameters="2*d*d_ff + d_ff + d",
        kept="4*n*d + 4*n*d_ff", steps="2",
    ),
    "layer norm": Formulas(flops="0", parameters="2*d", kept="8*n*d + 4*n", steps="2"),
    "encoder layer": Formulas(
        flops="8*n*d**2 + 4*n**2*d + 4*n*d*d_ff",
        parameters="4*d**2 + 2*d*d_ff + 9*d + d_ff", kept=_ENCODER_KEEPS, steps="11", path="1",
    ),
    "decoder layer": Formulas(
        flops="16*n*d**2 + 8*n**2*d + 4*n*d*d_ff",
        parameters="8*d**2 + 2*d*d_ff + 15*d + d_ff", kept=_DECODER_KEEPS, steps="18", path="1",
    ),
    "projection": Formulas(flops="2*n*d*V", parameters="V*d + V", kept="4*n*d", steps="1"),
    "RNN layer": Formulas(
        flops="4*n*d**2", parameters="2*d**2 + 2*d", kept="8*n*d + 4*d", steps="n", path="n - 1"
    ),
    "LSTM layer": Formulas(
        flops="16*n*d**2", parameters="8*d**2 + 8*d", kept="32*n*d", steps="n", path="n - 1"
    ),
}  # fmt: skip

MODEL: dict[str, Formulas] = {
    "forward, all at once": Formulas(
        flops=_MODEL_FLOPS, parameters=_MODEL_HOLDS, kept=_MODEL_KEEPS, steps="29*N - 6"
    ),
    "training step": Formulas(
        flops=f"3*({_MODEL_FLOPS})",
        # parameters, gradients and Adam; what the model keeps, and what the loss does
        kept=f"16*({_MODEL_HOLDS}) + {_MODEL_KEEPS} + 4*n*V + 8*n + 4",
    ),
    "writing with a cache": Formulas(
        flops="N*(16*n*d**2 + 6*n**2*d + 2*n*d + 4*n*d*d_ff) + 2*n*d*V",
        kept="16*N*n*d", steps="n*(18*N + 1)",
    ),
    "writing without": Formulas(
        flops=(
            "N*(n*(10*n + 6)*d**2 + n*(n + 1)*(10*n + 2)*d//3 + 2*n*(n + 1)*d*d_ff)"
            " + n*(n + 1)*d*V"
        ),
        kept="0", steps="n*(18*N + 1)",
    ),
}  # fmt: skip


def evaluate(formula: str, sizes: Mapping[str, int]) -> int:
    """Compute a formula.

    Parameters
    ----------
    formula : str
    sizes : mapping of names to int
        A number for each name in the formula.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the formula isn't made of whole numbers, sizes and + − * // **, or a size is missing.

    Examples
    --------
    >>> evaluate("8*n*d**2 + 4*n**2*d", {"n": 10, "d": 64})
    353280
    """

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return int(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            if node.id not in sizes:
                raise ValueError(f"sizes must have {node.id}; got {', '.join(sizes) or 'none'}")
            return sizes[node.id]
        assert isinstance(node, ast.BinOp)
        result: int = _OPERATORS[type(node.op)](value(node.left), value(node.right))
        return result

    return value(_parsed(formula))


def to_html(formula: str) -> str:
    """Write a formula as one reads it, for a page.

    Parameters
    ----------
    formula : str

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the formula isn't made of whole numbers, sizes and + - * // **.

    Examples
    --------
    >>> to_html("N*(8*n*d**2 + 2*d*d_ff)")
    '<i>N</i>(8<i>n</i><i>d</i>² + 2<i>d</i>\u202f<i>d</i><sub>ff</sub>)'
    """
    return _written(_parsed(formula), html=True).replace(" \u202f", " ")


def to_text(formula: str) -> str:
    """Write a formula as one reads it, without marks.

    Parameters
    ----------
    formula : str

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the formula isn't made of whole numbers, sizes and + - * // **.

    Examples
    --------
    >>> to_text("N*(8*n*d**2 + 2*d*d_ff)")
    'N(8nd² + 2d d_ff)'
    """
    return _written(_parsed(formula), html=False).replace("  ", " ").replace("( ", "(").strip()


def _written(node: ast.expr, html: bool, inside: bool = False) -> str:
    """Write a part of a formula, in brackets if it is a sum inside a product."""
    if isinstance(node, ast.Constant):
        return str(node.value)  # at most two digits
    if isinstance(node, ast.Name):
        if not html:
            return {"d_ff": " d_ff", "V": "|V|"}.get(node.id, node.id)
        named = {"d_ff": "\u202f<i>d</i><sub>ff</sub>", "V": "|<i>V</i>|"}
        return named.get(node.id, f"<i>{node.id}</i>")
    assert isinstance(node, ast.BinOp)
    if isinstance(node.op, ast.Pow):
        assert isinstance(node.right, ast.Constant)
        base = _written(node.left, html, inside=True)
        return base + str(node.right.value).translate(_SUPERSCRIPTS)
    if isinstance(node.op, ast.Add | ast.Sub):
        sign = "+" if isinstance(node.op, ast.Add) else "−"
        text = f"{_written(node.left, html)} {sign} {_written(node.right, html)}"
        return f"({text})" if inside else text
    left, right = (_written(side, html, inside=True) for side in (node.left, node.right))
    return f"{left}/{right}" if isinstance(node.op, ast.FloorDiv) else left + right


@cache
def _parsed(formula: str) -> ast.expr:
    """Return the formula as a tree, or raise if it holds anything but sizes and arithmetic."""
    try:
        tree = ast.parse(formula, mode="eval").body
        parts = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
        fits = all(
            isinstance(part, ast.Name)
            or (isinstance(part, ast.Constant) and type(part.value) is int)
            or (isinstance(part, ast.BinOp) and type(part.op) in _OPERATORS)
            for part in parts
        )
    except SyntaxError:
        fits = False
    if not fits:
        raise ValueError(
            f"formula must be made of whole numbers, sizes, + - * // **; got {formula!r}"
        )
    return tree
