"""The exercise of chapter 09 that counts what an encoder-decoder learns."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.model import Alternative, Exercise

__all__ = ["PARAMETERS", "count_parameters"]


def count_parameters(
    src_vocab_size: int,
    tgt_vocab_size: int,
    d: int,
    n_heads: int,
    n_layers: int,
    d_ff: int,
    tie: str = "none",
) -> tuple[int, int, int, int]:
    """Return how many numbers the parts of an encoder-decoder learn.

    Parameters
    ----------
    src_vocab_size, tgt_vocab_size : int
    d, n_heads, n_layers, d_ff : int
        `n_layers` are in the encoder, as many in the decoder.
    tie : {"none", "output", "all"}
        "output": the projection is the target's table. "all": the source's is the same, too.

    Returns
    -------
    embeddings, encoder, decoder, projection : int
    """
    lines = accounting.encoder_decoder(
        1, 1, src_vocab_size, tgt_vocab_size, d, n_heads, n_layers, d_ff, tie=tie
    )

    def count(word: str) -> int:
        return sum(cost.parameters for name, cost in lines.items() if word in name)

    return count("embedding"), count("encoder"), count("decoder"), count("projection")


def _sizes(
    src: int, tgt: int, d: int, h: int, n_layers: int, d_ff: int, **more: Any
) -> dict[str, Any]:
    return {
        "src_vocab_size": src,
        "tgt_vocab_size": tgt,
        "d": d,
        "n_heads": h,
        "n_layers": n_layers,
        "d_ff": d_ff,
        **more,
    }


_CASES = [
    case("width 4, 2 heads, 2 layers each | small enough for paper", _sizes(6, 5, 4, 2, 2, 3)),
    case("width 6, 3 heads | heads share the width", _sizes(11, 7, 6, 3, 1, 10)),
    case("4 layers | in each of the two stacks", _sizes(30, 40, 8, 2, 4, 12)),
    case(
        'tie = "output" | the target\'s table is the projection',
        _sizes(50, 60, 8, 4, 2, 20, tie="output"),
    ),
    case('tie = "all" | one table in three places', _sizes(70, 70, 10, 5, 3, 16, tie="all")),
    case(
        "the paper's base model | 63 million numbers",
        _sizes(37_000, 37_000, 512, 8, 6, 2048, tie="all"),
    ),
]

_Attention = Callable[[int, int], int]


def _embeddings(src: int, tgt: int, d: int, tie: str) -> int:
    return (src if tie == "all" else src + tgt) * d


def _projection(src: int, tgt: int, d: int, tie: str) -> int:
    return tgt * d + tgt if tie == "none" else 0


def _count(
    attention: _Attention = lambda d, h: 4 * d * d + 4 * d,
    network: Callable[[int, int], int] = lambda d, f: 2 * d * f + f + d,
    norm: Callable[[int], int] = lambda d: 2 * d,
    norms: tuple[int, int] = (2, 3),
    attentions: tuple[int, int] = (1, 2),
    networks: tuple[int, int] = (1, 1),
    layers: Callable[[int], int] = lambda n: n,
    end: Callable[[int], int] = lambda d: 0,
    embeddings: Callable[[int, int, int, str], int] = _embeddings,
    projection: Callable[[int, int, int, str], int] = _projection,
    factor: int = 1,
) -> Callable[..., Any]:
    """Return the count with some lines replaced."""

    def counted(
        src_vocab_size: int,
        tgt_vocab_size: int,
        d: int,
        n_heads: int,
        n_layers: int,
        d_ff: int,
        tie: str = "none",
    ) -> Any:
        given = (src_vocab_size, tgt_vocab_size, d, tie)
        stacks = [
            layers(n_layers) * (a * attention(d, n_heads) + f * network(d, d_ff) + c * norm(d))
            + end(d)
            for a, f, c in zip(attentions, networks, norms, strict=True)
        ]
        parts = embeddings(*given), *stacks, projection(*given)
        return tuple(factor * part for part in parts)

    return counted


def _two_matrices(d: int, d_ff: int) -> int:
    return 2 * d * d_ff


_MATRICES: _Attention = lambda d, h: 4 * d * d  # noqa: E731

_WRONG = [
    wrong(
        _count(attention=_MATRICES),
        "attention without biases | this exercise uses the course's modules, whose four "
        "projections of attention have biases; your count is that of the paper's formulas, which "
        "have none there. → How many numbers are added after four products of width d?",
        variant=True,
    ),
    wrong(
        _count(
            attention=_MATRICES,
            network=lambda d, f: 2 * d * f,
            projection=lambda s, t, d, tie: t * d if tie == "none" else 0,
        ),
        "no biases | You count matrices and norms, and no biases: those of attention, of the "
        "network and of the projection are missing. → What is added after each product?",
    ),
    wrong(
        _count(attention=_MATRICES, network=lambda d, f: 2 * d * f),
        "no biases in the layers | Your embeddings and projection are right. In the layers you "
        "count matrices and norms, and no biases. → What is added after each product, and how wide "
        "is it?",
    ),
    wrong(
        _count(network=lambda d, f: 2 * d * f),
        "the network without biases | The biases of the network's two layers are missing. → How "
        "wide is what comes out of the first, and of the second?",
    ),
    wrong(
        _count(network=lambda d, f: 2 * d * f + f),
        "the network without its second bias | You count the inner bias of the network, and not "
        "the one after W_2. → How wide is what comes out of W_2?",
    ),
    wrong(
        _count(network=lambda d, f: 2 * d * f + 2 * d),
        "the network's biases both of width d | You count two biases of width d in the network. → "
        "How wide is what comes out of W_1?",
    ),
    wrong(
        _count(network=lambda d, f: 2 * d * f + 2 * f),
        "the network's biases both of width d_ff | You count two biases of width d_ff in the "
        "network. → How wide is what comes out of W_2?",
    ),
    wrong(
        _count(network=lambda d, f: d * f + f + d),
        "one matrix in the network | You count one matrix of the network's two. → Which one leads "
        "back from d_ff to d?",
    ),
    wrong(
        _count(network=lambda d, f: d * f + f),
        "one layer in the network | You count the network's first layer alone, with its bias. → "
        "Which layer leads back from d_ff to d?",
    ),
    wrong(
        _count(network=lambda d, f: 8 * d * d + 5 * d),
        "d_ff taken for 4 d | Your network is four times as wide inside as outside, whatever "
        "`d_ff` says; the paper's base model is so. → Where does `d_ff` come into your count?",
    ),
    wrong(
        _count(norms=(0, 0)),
        "no norms | You count what multiplies and adds in the sublayers, and no norms. → Which two "
        "vectors does a layer norm learn?",
    ),
    wrong(
        _count(
            attention=_MATRICES,
            network=_two_matrices,
            norms=(0, 0),
            projection=lambda s, t, d, tie: t * d if tie == "none" else 0,
        ),
        "matrices only | You count matrices: every bias is missing, and so are the norms. → What "
        "is added after each product, and which two vectors does a norm learn?",
    ),
    wrong(
        _count(attention=_MATRICES, network=_two_matrices, norms=(0, 0)),
        "matrices only in the layers | Your embeddings and projection are right. Of the layers you "
        "count matrices: biases and norms are missing. → What is added after each product, and "
        "which two vectors does a norm learn?",
    ),
    wrong(
        _count(attention=_MATRICES, norms=(0, 0)),
        "attention without biases, and no norms | The network is right. The biases of attention's "
        "four projections are missing, and so are the norms. → What is added after each product, "
        "and which two vectors does a norm learn?",
    ),
    wrong(
        _count(network=_two_matrices, norms=(0, 0)),
        "the network without biases, and no norms | Attention is right. The biases of the "
        "network's two layers are missing, and so are the norms. → What is added after each "
        "product, and which two vectors does a norm learn?",
    ),
    wrong(
        _count(attention=_MATRICES, norms=(1, 1)),
        "attention without biases, and one norm a layer | The network is right. The biases of "
        "attention's four projections are missing, and each layer has a single norm. → What is "
        "added after each product, and what stands around each sublayer?",
    ),
    wrong(
        _count(attention=_MATRICES, norms=(2, 2)),
        "attention without biases, and two norms in the decoder | The biases of attention's four "
        "projections are missing, and a decoder layer has fewer norms than sublayers. → What is "
        "added after each product, and what stands around each sublayer?",
    ),
    wrong(
        _count(norms=(1, 1)),
        "one norm a layer | You count one norm for each layer, of the encoder and of the decoder. "
        "→ How many sublayers has each kind of layer, and what stands around each?",
    ),
    wrong(
        _count(norms=(2, 2)),
        "two norms in the decoder | Your encoder is right. A decoder layer has as many norms as "
        "sublayers. → How many are that?",
    ),
    wrong(
        _count(norm=lambda d: d),
        "norms of one vector | Your norms learn d numbers each, as RMSNorm does. → Which two "
        "vectors does a layer norm learn?",
    ),
    wrong(
        _count(norm=lambda d: 2),
        "norms of two numbers | You count two numbers a norm, one scale and one shift. → How wide "
        "are γ and β?",
    ),
    wrong(
        _count(attentions=(1, 1)),
        "no cross-attention | Your decoder layer has one attention, and its norms are three. → "
        "Which matrices does cross-attention have of its own?",
    ),
    wrong(
        _count(attentions=(1, 1), norms=(2, 2)),
        "the decoder counted like the encoder | Your decoder layer has as many parameters as an "
        "encoder layer. → Which sublayer does it have besides?",
    ),
    wrong(
        _count(attention=lambda d, h: 3 * d * d + 3 * d),
        "no W_O | You count three projections of attention, to queries, keys and values. → Which "
        "matrix comes after the heads?",
    ),
    wrong(
        _count(attention=lambda d, h: 3 * h * (d * d + d) + d * d + d),
        "every head as wide as a token | You give each head matrices (d × d) of its own. With one "
        "head that's right. → How wide is a head if h of them share the width d?",
    ),
    wrong(
        _count(attention=lambda d, h: h * (4 * d * d + 4 * d)),
        "attention h times | You count attention once for each head. With one head that's right. → "
        "How wide is a head if h of them share the width d?",
    ),
    wrong(
        _count(attention=lambda d, h: 3 * (d * d // h + d // h) + d * d + d),
        "one head's projections | You count the matrices of one head, d × d/h. With one head "
        "that's right. → How many heads have such matrices?",
    ),
    wrong(
        _count(attention=lambda d, h: h * 4 * d * d + 4 * d),
        "attention's matrices h times | You count attention's four matrices (d × d) once for each "
        "head. With one head that's right. → How wide is a head if h of them share the width d?",
    ),
    wrong(
        _count(attention=lambda d, h: h * 4 * d * d),
        "attention's matrices h times, and no biases | You count attention's four matrices (d × d) "
        "once for each head, and none of its biases. → How wide is a head if h of them share the "
        "width d?",
    ),
    wrong(
        _count(attention=lambda d, h: (3 * h + 1) * d * d + 4 * d),
        "queries, keys and values h times | You count W_Q, W_K and W_V (d × d) once for each head, "
        "and W_O once. With one head that's right. → How wide is a head if h of them share the "
        "width d?",
    ),
    wrong(
        _count(attention=lambda d, h: 3 * d * d // h + d * d + 4 * d),
        "one head's matrices | You count W_Q, W_K and W_V of one head, d × d/h, beside all the "
        "biases. With one head that's right. → How many heads have such matrices?",
    ),
    wrong(
        _count(layers=lambda n: 1),
        "one layer | With one layer each you're right; you count one layer however many there are. "
        "→ Where does `n_layers` come in?",
    ),
    wrong(
        _count(end=lambda d: 2 * d),
        "a norm at the end of each stack | You count one more norm for each stack. Models with the "
        "norm first have it; here each layer ends in a norm already. → What does the text of the "
        "exercise say about the norms?",
    ),
    wrong(
        _count(embeddings=lambda s, t, d, tie: s * d),
        "one table of embeddings | Your embeddings are those of the source's table alone. → Where "
        "are the target's tokens looked up if nothing is shared?",
    ),
    wrong(
        _count(embeddings=lambda s, t, d, tie: s if tie == "all" else s + t),
        "a number for each token | Your embeddings have one number for each token of a vocabulary. "
        "→ How many numbers has a row of the table?",
    ),
    wrong(
        _count(
            embeddings=lambda s, t, d, tie: (s + t) * d,
            projection=lambda s, t, d, tie: t * d + t,
        ),
        "nothing is shared | Where nothing is tied you're right. Where `tie` says so, a table "
        "stands in several places, and it's learned once. → Which parts change with `tie`?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: t * d + t),
        "the projection counted again | Where nothing is tied you're right. Where the projection "
        "is the target's table, you count it with the embeddings and again at the end. → How often "
        "is a shared matrix learned?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: t * d + (t if tie == "none" else 0)),
        "the projection's matrix counted again | Where nothing is tied you're right. Where the "
        "projection is the target's table, its bias is gone, rightly, and its matrix is counted "
        "twice: with the embeddings and at the end. → How often is a shared matrix learned?",
    ),
    wrong(
        _count(
            embeddings=lambda s, t, d, tie: (s + t) * d,
            projection=lambda s, t, d, tie: t * d + (t if tie == "none" else 0),
        ),
        "all matrices counted, shared or not | Where nothing is tied you're right. With `tie`, "
        "only the bias at the end goes away in your count; a table that stands in several places "
        "is learned once. → Which parts change with `tie`?",
    ),
    wrong(
        _count(embeddings=lambda s, t, d, tie: (s + t) * d),
        'only the projection shared | With tie = "output" you\'re right. With "all", source and '
        "target have one table, and you count two. → How often is a shared matrix learned?",
    ),
    wrong(
        _count(embeddings=lambda s, t, d, tie: (s + t if tie == "none" else s) * d),
        'the source\'s table alone | With tie = "all" you\'re right. With "output", the target\'s '
        "table is missing: it's the projection too, and counted with the embeddings. → How many "
        "different tables are there then?",
    ),
    wrong(
        _count(embeddings=lambda s, t, d, tie: (s + t if tie == "none" else t) * d),
        'all shared in either case | With tie = "all" you\'re right. With "output", the source has '
        "a table of its own. → Which two of three matrices are the same then?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: t * d + t if tie == "none" else t),
        "a bias for a tied projection | Where the projection is the target's table, you keep a "
        "bias for it. In the course's modules it has none then. → What does the exercise's table "
        'say of the end if `tie` isn\'t "none"?',
    ),
    wrong(
        _count(
            embeddings=lambda s, t, d, tie: {"none": s + t, "output": s, "all": 0}[tie] * d,
            projection=lambda s, t, d, tie: t * d + (t if tie == "none" else 0),
        ),
        "the shared table counted at the end | Your sum is right; a shared table is counted with "
        "the projection. Here it belongs to the embeddings. → What is left of the projection "
        "then?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: t * d if tie == "none" else 0),
        "the projection without its bias | Your projection has a matrix and no bias. → How many "
        "logits are there to add to?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: t * d + d if tie == "none" else 0),
        "the projection's bias of width d | Your projection adds d numbers at its end. → How wide "
        "is what comes out of it?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: s * d + s if tie == "none" else 0),
        "the projection to the source's vocabulary | Your projection makes a logit for each token "
        "of the *source's* vocabulary. → Which language is written?",
    ),
    wrong(
        _count(projection=lambda s, t, d, tie: 0),
        "no projection | Where nothing is tied, the projection is a matrix of its own, and you "
        "count none. → Which sizes has it?",
    ),
    wrong(
        _count(factor=4),
        "bytes | All your numbers are four times as large as they should be: that's what they take "
        "in float32. → What is counted, numbers or bytes?",
    ),
]


def _by_shapes(
    src_vocab_size: int,
    tgt_vocab_size: int,
    d: int,
    n_heads: int,
    n_layers: int,
    d_ff: int,
    tie: str = "none",
) -> Any:
    """List the shapes of all tensors."""
    norm: list[tuple[int, ...]] = [(d,), (d,)]
    attention = [(d, d), (d,)] * 4 + norm
    network = [(d_ff, d), (d_ff,), (d, d_ff), (d,), *norm]
    tables: list[tuple[int, ...]] = [(tgt_vocab_size, d)]
    tables += [] if tie == "all" else [(src_vocab_size, d)]
    end = [(tgt_vocab_size, d), (tgt_vocab_size,)] if tie == "none" else []
    stacks = [(attention + network) * n_layers, (attention * 2 + network) * n_layers]
    return [sum(map(prod, shapes)) for shapes in (tables, *stacks, end)]


def _by_formula(src: int, tgt: int, d: int, h: int, n: int, f: int, tie: str = "none") -> Any:
    layer = np.array([4, 8]) * d * (d + 1) + 2 * d * f + f + d + np.array([4, 6]) * d
    tables = {"none": 2, "output": 2, "all": 1}[tie]
    return (
        np.int64(d) * (src * (tables - 1) + tgt),
        *(n * layer),
        (tie == "none") * tgt * (d + 1),
    )


def _by_modules(src: int, tgt: int, d: int, h: int, n: int, f: int, tie: str = "none") -> Any:
    """Build it of PyTorch's own modules, without numbers in them."""
    import torch
    from torch import nn

    def size(module: Any) -> int:
        return sum(w.numel() for w in module.parameters())

    with torch.device("meta"):
        encoder = nn.TransformerEncoderLayer(d, h, f)
        decoder = nn.TransformerDecoderLayer(d, h, f)
        tables = [nn.Embedding(tgt, d)] + [nn.Embedding(src, d)] * (tie != "all")
        end = nn.Linear(d, tgt) if tie == "none" else nn.Identity()
    return sum(map(size, tables)), n * size(encoder), n * size(decoder), torch.tensor(size(end))


PARAMETERS = Exercise(
    id="09.parameters",
    function="count_parameters",
    reference=count_parameters,
    guarded=[accounting.encoder_decoder, accounting.encoder_layer, accounting.decoder_layer],
    cases=_CASES,
    returns=("embeddings", "encoder", "decoder", "projection"),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="shapes in a list", right=_by_shapes),
        Alternative(name="one formula", right=_by_formula),
        Alternative(name="torch", right=_by_modules, backend="torch"),
    ],
    hints=[
        "Count one attention, one network and one norm first. An encoder layer is 1, 1 and 2 of "
        "them, and a decoder layer?",
        "Attention: four matrices and four biases, however many heads. The network: two matrices, "
        "and biases of two widths. A norm: γ and β.",
        "With `tie`, the projection is 0: it has no bias then, and its matrix is counted with the "
        'embeddings, which are one table with "all" and two otherwise.',
    ],
    points=3,
    minutes=15,
    difficulty=2,
)
