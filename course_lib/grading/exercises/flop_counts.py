"""The exercises of chapter 12 that count FLOPs: a step, its bottleneck, a length, a training."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.model import Alternative, Exercise

__all__ = [
    "BOTTLENECK",
    "CROSSOVER",
    "TRAINING_FLOPS",
    "TRAINING_TIME",
    "bottleneck",
    "crossover_length",
    "step_flops",
    "training_time",
]


# -- 12.training_flops -----------------------------------------------------------------------------


def step_flops(
    n_src: int,
    n_tgt: int,
    d: int,
    n_heads: int,
    n_layers: int,
    d_ff: int,
    vocab_size: int,
    batch: int = 1,
) -> tuple[int, int, int]:
    """Return the FLOPs of a training step of an encoder-decoder, in matrix products.

    Parameters
    ----------
    n_src, n_tgt : int
        Tokens of a source and of a target.
    d, n_heads, d_ff : int
    n_layers : int
        Of the encoder, and of the decoder.
    vocab_size : int
        Of the target.
    batch : int, default 1
        Pairs.

    Returns
    -------
    encoder, decoder, projection : int
    """
    lines = accounting.encoder_decoder(
        n_src, n_tgt, vocab_size, vocab_size, d, n_heads, n_layers, d_ff, batch
    )

    def count(word: str) -> int:
        return 3 * sum(cost.flops for name, cost in lines.items() if word in name)

    return count("encoder"), count("decoder"), count("projection")


def _step(
    n_src: int, n_tgt: int, d: int, h: int, n_layers: int, d_ff: int, vocab: int, batch: int = 1
) -> dict[str, Any]:
    return {
        "n_src": n_src,
        "n_tgt": n_tgt,
        "d": d,
        "n_heads": h,
        "n_layers": n_layers,
        "d_ff": d_ff,
        "vocab_size": vocab,
        "batch": batch,
    }


_STEP_CASES = [
    case("5 and 2 tokens of width 10 | small enough for paper", _step(5, 2, 10, 2, 1, 7, 5)),
    case("5 and 3 tokens, 2 heads | the target asks the source", _step(5, 3, 8, 2, 1, 10, 11)),
    case("5 layers each | and one projection", _step(4, 7, 6, 3, 5, 9, 20)),
    case("a batch of 8 | everything eight times", _step(3, 5, 4, 2, 2, 7, 30, 8)),
    case(
        "the paper's base model, 50 and 40 tokens | the projection costs as much as five layers",
        _step(50, 40, 512, 8, 6, 2048, 37_000),
    ),
    case(
        "4,096 tokens each | scores and sums cost most",
        _step(4096, 4096, 512, 8, 6, 2048, 37_000, 2),
    ),
]

_Rule = Callable[..., int]


def _counted(
    asking: _Rule = lambda m, d: 4 * m * d * d,  # W_Q and W_O
    asked: _Rule = lambda n, d: 4 * n * d * d,  # W_K and W_V
    table: _Rule = lambda m, n, d, h: 4 * m * n * d,
    network: _Rule = lambda m, d, f: 4 * m * d * f,
    cross: _Rule | None = None,
    own: _Rule | None = None,
    projection: _Rule = lambda m, n, d, v: 2 * m * d * v,
    layers: _Rule = lambda n_layers: n_layers,
    passes: tuple[float, float, float] = (3, 3, 3),
    batches: _Rule = lambda batch: batch,
    shared_memory: bool = False,
    softmax: int = 0,
    networks: tuple[int, int] = (1, 1),
    embedded: bool = False,
    projection_layers: _Rule = lambda n_layers: 1,
) -> Callable[..., Any]:
    """Return the count with some lines replaced."""

    def attention(m: int, n: int, d: int, h: int) -> int:
        return asking(m, d) + asked(n, d) + table(m, n, d, h) + softmax * h * m * n

    def counted(
        n_src: int,
        n_tgt: int,
        d: int,
        n_heads: int,
        n_layers: int,
        d_ff: int,
        vocab_size: int,
        batch: int = 1,
    ) -> Any:
        n, m, h, times = n_src, n_tgt, n_heads, layers(n_layers)
        encoder = attention(n, n, d, h) + networks[0] * network(n, d, d_ff)
        decoder = (own or attention)(m, m, d, h) + networks[1] * network(m, d, d_ff)
        decoder += (cross or attention)(m, n, d, h)
        decoder *= times
        if shared_memory:
            decoder -= (times - 1) * asked(n, d)
        encoder *= times
        if embedded:
            encoder += 2 * n * d * vocab_size
            decoder += 2 * m * d * vocab_size
        last = projection_layers(n_layers) * projection(m, n, d, vocab_size)
        parts = encoder, decoder, last
        found = [batches(batch) * p * part for p, part in zip(passes, parts, strict=True)]
        return tuple(int(x) for x in found)

    return counted


def _half(rule: _Rule) -> _Rule:
    return lambda *sizes: rule(*sizes) // 2


_STEP_WRONG = [
    wrong(
        _counted(passes=(1, 1, 1)),
        "forward only | Your numbers are those of a forward pass. A training step goes back as "
        "well. → How many products does backward compute for each Y = X W?",
    ),
    wrong(
        _counted(passes=(2, 2, 2)),
        "twice the forward pass | Your numbers are two forward passes: backward alone costs that "
        "much, for each product has two gradients. → What do forward and backward cost together?",
    ),
    wrong(
        _counted(passes=(4, 4, 4)),
        "four forward passes | this exercise uses a step that keeps what backward needs; you count "
        "one more forward pass, as checkpointing does. → What do forward and backward cost "
        "together?",
        variant=True,
    ),
    wrong(
        _counted(passes=(6, 6, 6)),
        "six forward passes | The 6 of 6 P D holds the 2 of a multiplication and an addition "
        "already, and you count those once more. → How many forward passes does a step cost?",
    ),
    wrong(
        _counted(passes=(1.5, 1.5, 1.5)),
        "multiplications only | this exercise uses the count in which a multiplication and an "
        "addition are 1 FLOP each; you count the pair once. → By which factor are all your numbers "
        "too small?",
        variant=True,
    ),
    wrong(
        _counted(passes=(0.5, 0.5, 0.5)),
        "multiplications of the forward pass | Two things: you count a multiplication and its "
        "addition as one, and the forward pass alone. → How many products does backward compute "
        "for each Y = X W?",
    ),
    wrong(
        _counted(passes=(3, 3, 1)),
        "the projection forward only | Your layers are right, and the projection isn't counted on "
        "the way back. → Which two gradients does the product with the vocabulary have?",
    ),
    wrong(
        _counted(batches=lambda batch: 1),
        "one pair | With one pair you're right; you count one whatever the batch is. → Where does "
        "`batch` come in?",
    ),
    wrong(
        _counted(layers=lambda n_layers: 1),
        "one layer | With one layer each you're right; you count one however many there are. → "
        "Where does `n_layers` come in?",
    ),
    wrong(
        _counted(layers=lambda n_layers: 2 * n_layers),
        "twice the layers | Your encoder has 2 N layers, and so has your decoder. → How many does "
        "the docstring give each of them?",
    ),
    wrong(
        _counted(table=lambda m, n, d, h: 4 * h * m * n * d),
        "scores h times | You count every head's scores at the whole width. With one head that's "
        "right. → What do h heads of width d/h cost together?",
    ),
    wrong(
        _counted(
            asking=lambda m, d: 4 * m * d * d,
            table=lambda m, n, d, h: (
                4 * h * m * n * d + (h - 1) * 4 * m * d * d + (h - 1) * 4 * n * d * d
            ),
        ),
        "attention h times | You count all of attention once for each head. With one head that's "
        "right. → How wide is a head if h of them share the width d?",
    ),
    wrong(
        _counted(table=lambda m, n, d, h: 4 * m * n * d // h),
        "one head's scores | You count the scores of one head of width d/h; there are h of them. → "
        "What do all of them cost together?",
    ),
    wrong(
        _counted(table=lambda m, n, d, h: 2 * m * n * d),
        "scores without the weighted sums | The table of scores is one product, and you count no "
        "other of its size. → What are the weights multiplied with?",
    ),
    wrong(
        _counted(table=lambda m, n, d, h: 0),
        "projections only | Your attention costs nothing but its four matrices, as in 6 P D. → "
        "Which two products of attention have no parameters?",
    ),
    wrong(
        _counted(table=lambda m, n, d, h: 4 * n * d),
        "a table of one row | Your scores and sums grow with the length, where they should grow "
        "with its square. → How many scores do n tokens have among themselves?",
    ),
    wrong(
        _counted(
            own=lambda m, n, d, h: 8 * m * d * d + 2 * m * (m + 1) * d,
        ),
        "half a causal table | In the decoder's self-attention you count what the mask leaves. The "
        "product computes the whole table, and the mask hides half of it. → How many numbers "
        "has that table?",
    ),
    wrong(
        _counted(own=lambda m, n, d, h: 8 * m * d * d + 2 * m * m * d),
        "half of the decoder's own table | Of the decoder's self-attention you count half the "
        "scores and sums, as if the causal mask saved the others. Both products are computed "
        "whole, and then half of the table is hidden. → Before or after the product is a score "
        "masked?",
    ),
    wrong(
        _counted(
            own=lambda m, n, d, h: 8 * m * d * d + 2 * m * m * d,
            cross=lambda m, n, d, h: 4 * m * d * d + 4 * n * d * d + 2 * m * n * d,
        ),
        "half of both tables of the decoder | In the decoder you count half the scores and sums, "
        "as if masks saved the others. Its tables are computed whole, and cross-attention isn't "
        "even causal. → Before or after the product is a score masked?",
    ),
    wrong(
        _counted(asking=lambda m, d: 2 * m * d * d),
        "no W_O | You count three projections of each attention, to queries, keys and values. → "
        "Which matrix comes after the heads?",
    ),
    wrong(
        _counted(asked=lambda n, d: 2 * n * d * d),
        "keys without values | You count three matrices of each attention, and of what is asked "
        "only one. → Which two meet the tokens that are asked?",
    ),
    wrong(
        _counted(asking=lambda m, d: 2 * m * d * d, asked=lambda n, d: 6 * n * d * d),
        "W_O with the source's tokens | In cross-attention one of your matrices meets the wrong "
        "tokens: one product is as long as the target and three are as long as the source. → How "
        "many rows come out of the heads?",
    ),
    wrong(
        _counted(asking=lambda m, d: 6 * m * d * d, asked=lambda n, d: 2 * n * d * d),
        "one matrix for the source | In cross-attention three of your products are as long as the "
        "target and one is as long as the source. → Which two matrices meet the memory?",
    ),
    wrong(
        _counted(softmax=5),
        "softmax counted | You count softmax as well, something for each score. True, but only "
        "matrix products are asked for here. → Which two lines of attention hold one?",
    ),
    wrong(
        _counted(networks=(1, 0)),
        "no network in the decoder | Your encoder is right, and your decoder layer has two "
        "attentions and nothing else. → Which sublayer comes third?",
    ),
    wrong(
        _counted(embedded=True),
        "embeddings as products | Your layers include a product with the table of embeddings on "
        "the way in. A row is looked up. → What does a look-up multiply?",
    ),
    wrong(
        _counted(projection_layers=lambda n_layers: n_layers),
        "a projection in every layer | With one layer each you're right; else your last number is "
        "N times too large. → How often are logits computed in a step?",
    ),
    wrong(
        _counted(cross=lambda m, n, d, h: 8 * m * d * d + 4 * m * n * d),
        "the source projected at the target's length | In cross-attention you give all four "
        "matrices the target's tokens. → Which tokens meet W_K and W_V there?",
    ),
    wrong(
        _counted(cross=lambda m, n, d, h: 8 * n * d * d + 4 * m * n * d),
        "the target projected at the source's length | In cross-attention you give all four "
        "matrices the source's tokens. → Which tokens meet W_Q and W_O there?",
    ),
    wrong(
        _counted(cross=lambda m, n, d, h: 4 * n * d * d + 4 * m * d * d + 4 * m * m * d),
        "a square table in cross-attention | In cross-attention your table of scores has n_tgt² "
        "numbers. → How many rows has it, and how many columns?",
    ),
    wrong(
        _counted(cross=lambda m, n, d, h: 4 * n * d * d + 4 * m * d * d + 4 * n * n * d),
        "a square table of the source in cross-attention | In cross-attention your table of scores "
        "has n_src² numbers. → How many rows has it, and how many columns?",
    ),
    wrong(
        _counted(cross=lambda m, n, d, h: 4 * m * d * d + 4 * m * n * d),
        "no keys and values of the source | In cross-attention you project queries and heads, and "
        "nothing of the source. → What are the memory's tokens multiplied by before they're asked?",
    ),
    wrong(
        _counted(shared_memory=True),
        "the source projected once for all layers | You project the memory to keys and values in "
        "one decoder layer only. Each layer has its own W_K and W_V. → How often is the memory "
        "multiplied?",
    ),
    wrong(
        _counted(cross=lambda m, n, d, h: 0),
        "no cross-attention | Your decoder is an encoder of the target: nobody asks the source. → "
        "Which four matrices and which table are missing?",
    ),
    wrong(
        _counted(own=lambda m, n, d, h: 0),
        "no self-attention in the decoder | Your decoder asks the source and never itself. → Which "
        "sublayer of a decoder layer comes first?",
    ),
    wrong(
        _counted(network=lambda m, d, f: 2 * m * d * f),
        "one layer of the network | You count one of the network's two products. → Which one leads "
        "back from d_ff to d?",
    ),
    wrong(
        _counted(network=lambda m, d, f: 16 * m * d * d),
        "d_ff taken for 4 d | Your network is four times as wide inside as outside, whatever "
        "`d_ff` says. → Where does `d_ff` come into your count?",
    ),
    wrong(
        _counted(network=lambda m, d, f: 0),
        "no network | You count attention and the projection, and nothing between them. → Which "
        "sublayer of a layer has most of its parameters?",
    ),
    wrong(
        _counted(projection=lambda m, n, d, v: 2 * n * d * v),
        "the source projected to the vocabulary | Your last number grows with the source's length. "
        "→ For which tokens are logits computed?",
    ),
    wrong(
        _counted(projection=lambda m, n, d, v: 2 * (m + n) * d * v),
        "both sides projected to the vocabulary | Your last number counts the source's tokens too. "
        "→ For which tokens are logits computed?",
    ),
    wrong(
        _counted(projection=lambda m, n, d, v: 2 * d * v),
        "one token projected | Your last number is that of one token, as when writing with a "
        "cache. → For how many positions are logits computed in training?",
    ),
    wrong(
        lambda n_src, n_tgt, *rest, **more: _counted()(n_tgt, n_src, *rest, **more),
        "source and target exchanged | Your encoder reads n_tgt tokens and your decoder writes "
        "n_src. → Which of the two stacks reads the source?",
    ),
]


def _by_products(
    n_src: int,
    n_tgt: int,
    d: int,
    n_heads: int,
    n_layers: int,
    d_ff: int,
    vocab_size: int,
    batch: int = 1,
) -> Any:
    """Add up products of matrices, each with its two gradients."""

    def product(rows: int, inner: int, columns: int) -> int:
        forward = 2 * rows * inner * columns
        by_left = 2 * rows * columns * inner
        by_right = 2 * inner * rows * columns
        return batch * (forward + by_left + by_right)

    def attention(n_q: int, n_k: int) -> int:
        width = d // n_heads
        heads = n_heads * (product(n_q, width, n_k) + product(n_q, n_k, width))
        return 2 * product(n_q, d, d) + 2 * product(n_k, d, d) + heads

    def network(n: int) -> int:
        return product(n, d, d_ff) + product(n, d_ff, d)

    encoder = sum(attention(n_src, n_src) + network(n_src) for _ in range(n_layers))
    decoder = sum(
        attention(n_tgt, n_tgt) + attention(n_tgt, n_src) + network(n_tgt) for _ in range(n_layers)
    )
    return encoder, decoder, product(n_tgt, d, vocab_size)


def _by_arrays(
    n_src: int, n_tgt: int, d: int, h: int, n_layers: int, d_ff: int, v: int, batch: int = 1
) -> Any:
    rows = np.array([n_src, n_tgt], np.int64)
    layers = 8 * rows * d * d + 4 * rows**2 * d + 4 * rows * d * d_ff
    layers[1] += 4 * d * d * rows.sum() + 4 * d * rows.prod()
    return [*(3 * batch * n_layers * layers), 6 * batch * n_tgt * d * v]


def _step_torch(
    n_src: int,
    n_tgt: int,
    d: int,
    n_heads: int,
    n_layers: int,
    d_ff: int,
    vocab_size: int,
    batch: int = 1,
) -> Any:
    """Count what PyTorch's own counter counts, on tensors without numbers."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    def learned(*shape: int) -> Any:
        return torch.empty(*shape, device="meta", requires_grad=True)

    def counted(run: Callable[[], Any]) -> int:
        with FlopCounterMode(display=False) as counter:
            run().sum().backward()
        return counter.get_total_flops()

    def attend(x: Any, y: Any) -> Any:
        pairs = ((x, learned(d, d)), (y, learned(d, d)), (y, learned(d, d)))
        q, k, v = ((z @ w).unflatten(-1, (n_heads, -1)).transpose(1, 2) for z, w in pairs)
        heads = torch.softmax(q @ k.mT, -1) @ v
        return heads.transpose(1, 2).flatten(-2) @ learned(d, d)

    def think(x: Any) -> Any:
        return torch.relu(x @ learned(d, d_ff)) @ learned(d_ff, d)

    source, target = learned(batch, n_src, d), learned(batch, n_tgt, d)
    encoder = counted(lambda: think(attend(source, source)))
    decoder = counted(lambda: think(attend(attend(target, target), source)))
    projection = counted(lambda: target @ learned(d, vocab_size))
    return n_layers * encoder, n_layers * decoder, torch.tensor(projection)


TRAINING_FLOPS = Exercise(
    id="12.training_flops",
    function="step_flops",
    reference=step_flops,
    guarded=[
        accounting.encoder_decoder,
        accounting.encoder_layer,
        accounting.decoder_layer,
        accounting.training_flops,
    ],
    cases=_STEP_CASES,
    returns=("encoder", "decoder", "projection"),
    misconceptions=_STEP_WRONG,
    alternatives=[
        Alternative(name="product by product", right=_by_products),
        Alternative(name="both stacks at once, as a list", right=_by_arrays),
        Alternative(name="torch", right=_step_torch, backend="torch"),
    ],
    hints=[
        "Write one function for attention with n_q who ask and n_k who are asked, one for the "
        "network. A layer is a sum of those.",
        "Attention: W_Q and W_O meet n_q tokens, W_K and W_V meet n_k; scores and weighted sums "
        "are 2 n_q n_k d each, however many heads. The network is two products.",
        "Logits are for the target's tokens. Each product is computed once forward, and backward "
        "there are two as large.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 12.bottleneck ---------------------------------------------------------------------------------


def bottleneck(
    n: int, d: int, d_ff: int, n_layers: int, vocab_size: int
) -> tuple[np.ndarray[Any, Any], int]:
    """Return what share of a language model's FLOPs goes where, and the largest.

    Parameters
    ----------
    n : int
        Tokens.
    d, d_ff : int
    n_layers : int
    vocab_size : int

    Returns
    -------
    shares : float array, (4,)
        Of attention's projections, of scores and weighted sums, of the networks, and of the
        projection to the vocabulary; they sum to 1.
    largest : int
        The index of the largest share.
    """
    shares, largest = _shares()(n, d, d_ff, n_layers, vocab_size)
    return shares, largest


def _model(n: int, d: int, d_ff: int, n_layers: int, vocab_size: int) -> dict[str, Any]:
    return {"n": n, "d": d, "d_ff": d_ff, "n_layers": n_layers, "vocab_size": vocab_size}


_BOTTLENECK_CASES = [
    case("2 tokens of width 3, one layer | small enough for paper", _model(2, 3, 5, 1, 4)),
    case("a narrow network, 4 layers | projections", _model(10, 64, 64, 4, 50)),
    case("n ≫ d | scores and weighted sums", _model(32_768, 512, 2048, 6, 32_000)),
    case("n ≪ d | the networks", _model(128, 4096, 16_384, 32, 32_000)),
    case(
        "a small model, a large vocabulary | the projection to it", _model(64, 128, 512, 2, 50_000)
    ),
    case("n ≈ d | nothing alone", _model(768, 768, 3072, 12, 20_000)),
]


def _shares(
    projections: _Rule = lambda n, d, f: 8 * n * d * d,
    scores: _Rule = lambda n, d, f: 4 * n * n * d,
    network: _Rule = lambda n, d, f: 4 * n * d * f,
    vocabulary: _Rule = lambda n, d, v: 2 * n * d * v,
    layers: _Rule = lambda n_layers: n_layers,
    order: tuple[int, ...] = (0, 1, 2, 3),
    divide: Callable[[Any], Any] = lambda cost: cost / cost.sum(),
    choose: Callable[[Any], Any] = lambda shares: int(np.argmax(shares)),
) -> Callable[..., Any]:
    """Return the shares with some lines replaced."""

    def shares(n: int, d: int, d_ff: int, n_layers: int, vocab_size: int) -> Any:
        times = layers(n_layers)
        cost = np.array(
            [
                *(times * rule(n, d, d_ff) for rule in (projections, scores, network)),
                vocabulary(n, d, vocab_size),
            ],
            dtype=float,
        )
        found = divide(cost)[list(order)]
        return found, choose(found)

    return shares


def _softmax(cost: Any) -> Any:
    e = np.exp(cost - cost.max())
    return e / e.sum()


_BOTTLENECK_WRONG = [
    wrong(
        _shares(divide=lambda cost: cost),
        "FLOPs, not shares | You return the FLOPs themselves, and the largest of them is right. → "
        "What are they divided by so that they sum to 1?",
    ),
    wrong(
        _shares(divide=lambda cost: 100 * cost / cost.sum()),
        "per cent | Your shares sum to 100, and shares that sum to 1 are asked for. → Which factor "
        "is too much?",
    ),
    wrong(
        _shares(divide=lambda cost: cost / cost.max()),
        "divided by the largest | Your largest share is 1, whatever the others are. → What do "
        "shares of a whole sum to?",
    ),
    wrong(
        _shares(divide=lambda cost: np.round(cost / cost.sum(), 2)),
        "rounded | Your shares are cut to two decimals. They're numbers to go on with; printing "
        "may round them. → Which line of yours rounds?",
    ),
    wrong(
        _shares(divide=_softmax),
        "a softmax of costs | You turn costs into shares by a softmax, so that the largest takes "
        "all. → What share of 10 is 4?",
    ),
    wrong(
        _shares(divide=lambda cost: np.floor(cost / cost.sum())),
        "cut to whole numbers | Your shares are all 0: something cuts off the fraction. → What "
        "does `//` make of 4 / 10?",
    ),
    wrong(
        _shares(divide=lambda cost: np.append(cost[:3] / cost[:3].sum(), cost[3] / cost.sum())),
        "shares of the layers | Your first three shares sum to 1 without the fourth. → What is the "
        "whole that all four are shares of?",
    ),
    wrong(
        _shares(choose=lambda shares: int(np.argmin(shares))),
        "the smallest | Your shares are right, and the index is that of the smallest. → Which one "
        "is a bottleneck?",
    ),
    wrong(
        _shares(choose=lambda shares: int(np.argmax(shares)) + 1),
        "counted from 1 | Your shares are right, and your index is one too large. → Which index "
        "has the first of four in Python?",
    ),
    wrong(
        _shares(choose=lambda shares: float(shares.max())),
        "the largest share itself | Your shares are right, and the second part is the largest of "
        "them, where its place is asked for. → Which function of numpy gives that?",
    ),
    wrong(
        _shares(layers=lambda n_layers: 1),
        "one layer | With one layer you're right; else N has no effect on your shares: either you "
        "count one layer, or you multiply the vocabulary by N too. → Which of the four costs arise "
        "in each layer, and which once?",
    ),
    wrong(
        _shares(scores=lambda n, d, f: 2 * n * n * d),
        "scores without the weighted sums | Your second cost is half of what it should be. → What "
        "are the weights multiplied with?",
    ),
    wrong(
        _shares(scores=lambda n, d, f: 4 * n * d),
        "a table of one row | Your second cost grows with n, where it should grow with its square. "
        "→ How many scores do n tokens have among themselves?",
    ),
    wrong(
        _shares(scores=lambda n, d, f: 2 * n * (n + 1) * d),
        "half a causal table | You count about half of the scores, those that a causal mask "
        "leaves. The product computes them all. → How many numbers has the table?",
    ),
    wrong(
        _shares(scores=lambda n, d, f: 4 * n * n),
        "a score without its width | Your second cost is 4 FLOPs a score. A score is a product of "
        "vectors. → How many numbers do all heads' vectors have together?",
    ),
    wrong(
        _shares(projections=lambda n, d, f: 6 * n * d * d),
        "no W_O | Your first cost is that of three matrices. → Which one comes after the heads?",
    ),
    wrong(
        _shares(projections=lambda n, d, f: 2 * n * d * d),
        "one matrix | Your first cost is that of one d × d matrix. → How many has attention?",
    ),
    wrong(
        _shares(projections=lambda n, d, f: 4 * n * d * d),
        "projections at half their cost | Your first cost is half of what it should be: two "
        "matrices, or four with a multiplication and its addition counted as one. → What is "
        "2 m k p for four products (n × d) times (d × d)?",
    ),
    wrong(
        _shares(projections=lambda n, d, f: 8 * n * d),
        "one number of each token | Your first cost is d times too small: each number of the "
        "result is a sum of d products. → How many numbers has a matrix (d × d)?",
    ),
    wrong(
        _shares(network=lambda n, d, f: 2 * n * d * f),
        "one layer of the network | Your third cost is that of one product. → Which one leads back "
        "from d_ff to d?",
    ),
    wrong(
        _shares(network=lambda n, d, f: 16 * n * d * d),
        "d_ff taken for 4 d | Your third cost is that of a network four times as wide inside as "
        "outside, whatever `d_ff` says. → Where does `d_ff` come in?",
    ),
    wrong(
        _shares(vocabulary=lambda n, d, v: 4 * n * d * v),
        "the embedding as a product | Your fourth cost is twice what it should be, as if tokens "
        "were also multiplied by the table on their way in. → What does a look-up multiply?",
    ),
    wrong(
        _shares(vocabulary=lambda n, d, v: 2 * d * v),
        "one token's logits | Your fourth cost is that of one position. → For how many positions "
        "are logits computed?",
    ),
    wrong(
        _shares(vocabulary=lambda n, d, v: n * d * v),
        "the vocabulary at half its cost | Your fourth cost counts a multiplication and its "
        "addition as one, the others as two. → What is 2 m k p for (n × d) times (d × |V|)?",
    ),
    wrong(
        _shares(vocabulary=lambda n, d, v: 0),
        "no vocabulary | Your fourth share is 0, and logits are a product too. → Which sizes has "
        "the last matrix?",
    ),
    wrong(
        _shares(order=(1, 0, 2, 3)),
        "scores first | Your shares are right and come in another order: scores stand first. → In "
        "which order does the docstring name the four?",
    ),
    wrong(
        _shares(order=(0, 2, 1, 3)),
        "networks second | Your shares are right and come in another order: the networks stand "
        "second. → In which order does the docstring name the four?",
    ),
]


def _per_token(n: int, d: int, d_ff: int, n_layers: int, vocab_size: int) -> Any:
    """Count multiplications of one token."""
    parts = {
        "projections": 4 * d * d * n_layers,
        "scores": 2 * n * d * n_layers,
        "network": 2 * d * d_ff * n_layers,
        "vocabulary": d * vocab_size,
    }
    whole = sum(parts.values())
    return [x / whole for x in parts.values()], max(range(4), key=list(parts.values()).__getitem__)


def _by_ratios(n: int, d: int, d_ff: int, n_layers: int, vocab_size: int) -> Any:
    """Divide by what the projections cost: four ratios of lengths are left."""
    ratios = np.array([1.0, n / (2 * d), d_ff / (2 * d), vocab_size / (4 * d * n_layers)])
    shares = ratios / ratios.sum()
    return shares, shares.argmax()


def _shares_torch(n: int, d: int, d_ff: int, n_layers: int, vocab_size: int) -> Any:
    import torch

    cost = torch.tensor([4 * d, 2 * n, 2 * d_ff, vocab_size / n_layers], dtype=torch.float64)
    return cost / cost.sum(), cost.argmax()


BOTTLENECK = Exercise(
    id="12.bottleneck",
    function="bottleneck",
    reference=bottleneck,
    guarded=[accounting.encoder_layer, accounting.multi_head_attention, accounting.encoder_decoder],
    cases=_BOTTLENECK_CASES,
    returns=("shares", "largest"),
    misconceptions=_BOTTLENECK_WRONG,
    alternatives=[
        Alternative(name="multiplications of one token", right=_per_token),
        Alternative(name="ratios", right=_by_ratios),
        Alternative(name="torch", right=_shares_torch, backend="torch"),
    ],
    hints=[
        "Write down four costs for n tokens. Three of them arise in each of the N layers, the "
        "fourth once.",
        "Projections are four products (n × d)(d × d); scores and weighted sums two of 2 n² d; a "
        "network two products with d_ff; logits one with |V|.",
        "Divide by the sum of all four. `np.argmax` gives the index of the largest.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


# -- 12.crossover ----------------------------------------------------------------------------------


def crossover_length(d: int, d_ff: int, share: float = 0.5) -> int:
    """Return the length from which on scores and sums are at least a share of a layer's FLOPs.

    Parameters
    ----------
    d, d_ff : int
    share : float, default 0.5
        Above 0 and below 1; halves, quarters, eighths and so on, which floats hold exactly.

    Returns
    -------
    int
        The smallest such n of at least 1.
    """
    # 4 n² d ≥ share (4 n² d + 8 n d² + 4 n d d_ff), divided by 4 n d
    return ceil(share * (2 * d + d_ff) / (1 - share))


_CROSSOVER_CASES = [
    case("width 20, d_ff = 33 | as much as all the rest", {"d": 20, "d_ff": 33}),
    case("the paper's base model | longer than most texts were", {"d": 512, "d_ff": 2048}),
    case("a narrow network | d_ff counts too", {"d": 768, "d_ff": 1000}),
    case("a quarter | it lies between two lengths", {"d": 5, "d_ff": 10, "share": 0.25}),
    case("three quarters | far beyond", {"d": 10, "d_ff": 37, "share": 0.75}),
    case("an eighth | it lies between two lengths", {"d": 64, "d_ff": 251, "share": 0.125}),
]


def _crossing(
    rest: Callable[[int, int], float] = lambda d, f: 2 * d + f,
    ratio: Callable[[float], float] = lambda share: share / (1 - share),
    finish: Callable[[float], Any] = ceil,
    table: float = 1.0,
) -> Callable[..., Any]:
    """Return the length with some steps replaced."""

    def crossing(d: int, d_ff: int, share: float = 0.5) -> Any:
        return finish(ratio(share) * rest(d, d_ff) / table)

    return crossing


_CROSSOVER_WRONG = [
    wrong(
        _crossing(ratio=lambda share: 1.0),
        "always a half | With a share of a half you're right, and you return the same for every "
        "other one. → Where does `share` come into the inequality?",
    ),
    wrong(
        _crossing(ratio=lambda share: share),
        "a share of the rest | You ask when scores and sums reach `share` times what the rest "
        "costs. The whole has them in it too. → What are the two sides of the inequality?",
    ),
    wrong(
        _crossing(ratio=lambda share: 2 * share),
        "the half's length times the share | You take the length for a half and scale it with the "
        "share, as if the one grew in step with the other. → Solve n = share · (n + rest) for n: "
        "what stands below the line?",
    ),
    wrong(
        _crossing(ratio=lambda share: 1 / (1 - share)),
        "the share above the line forgotten | You divide by 1 − share and multiply by nothing, so "
        "that even a small share needs a long text. → What does n ≥ share · (n + rest) become when "
        "n stands alone?",
    ),
    wrong(
        _crossing(ratio=lambda share: (1 - share) / share),
        "the share turned round | With a half you're right. A smaller share gives you a longer "
        "text: that's where *the rest* is `share` of the whole. → Which side grows with n²?",
    ),
    wrong(
        _crossing(finish=floor),
        "rounded down | Where it comes out even you're right. Else your length is one too short: "
        "the share isn't reached yet. → Which whole number comes first at 6.67?",
    ),
    wrong(
        _crossing(finish=lambda x: floor(x) + 1),
        "beyond equality | Where it comes out even you're one too far: at least the share is asked "
        "for, not more than it. → At n = 7 of 14, is the share a half?",
    ),
    wrong(
        _crossing(finish=round),
        "rounded to the nearest | Where it comes out even you're right. Else you round to the "
        "nearest length, at which the share may not be reached. → Which whole number comes first "
        "above 3.28?",
    ),
    wrong(
        _crossing(finish=float),
        "as a float | You return where the share is reached exactly, and a length is a whole "
        "number. → Which is the first at which it's reached?",
    ),
    wrong(
        _crossing(table=0.5),
        "scores without the weighted sums | All your lengths are twice as long: you count one "
        "product of n² d, and there are two. → What are the weights multiplied with?",
    ),
    wrong(
        _crossing(rest=lambda d, f: d + f / 2),
        "the rest at half its cost | All your lengths are half as long: in the rest you count a "
        "multiplication and its addition as one, in the scores as two. → What is 2 m k p for "
        "(n × d) times (d × d)?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 2 * d),
        "projections only | You compare scores and sums with attention's own projections; the "
        "network has no say. → Which of the layer's costs does `d_ff` stand in?",
    ),
    wrong(
        _crossing(rest=lambda d, f: f),
        "the network only | You compare scores and sums with the network; attention's own "
        "projections have no say. → What do its four matrices cost?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 6 * d),
        "d_ff taken for 4 d | Your network is four times as wide inside as outside, whatever "
        "`d_ff` says; the paper's base model is so. → Where does `d_ff` come in?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 1.5 * d + f),
        "no W_O | Your layer has three projections, to queries, keys and values. → Which matrix "
        "comes after the heads?",
    ),
    wrong(
        _crossing(rest=lambda d, f: d / 2 + f),
        "one projection | Your attention has one matrix of d × d numbers. → How many d × d "
        "matrices does a token of self-attention meet?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 2 * d + f / 2),
        "one layer of the network | Your network is one product, from d to d_ff. → Which one leads "
        "back from d_ff to d?",
    ),
    wrong(
        _crossing(rest=lambda d, f: d),
        "d itself | You compare one n² d with one n d². A layer has more of either, and a network. "
        "→ What is 4 n² d to be compared with?",
    ),
    wrong(
        _crossing(rest=lambda d, f: d + f),
        "projections at half their cost | Your projections cost half of what they should: two "
        "matrices, or four with a multiplication and its addition counted as one. → What is "
        "2 m k p for four products (n × d) times (d × d), divided by 4 n d?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 2 * d + 2 * f),
        "the network twice | Your network costs twice what it should: two products of 2 n d d_ff. "
        "→ What is their sum, divided by 4 n d?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 4 * d + f),
        "the projections twice | Your projections cost twice what they should: four products of "
        "2 n d². → What is their sum, divided by 4 n d?",
    ),
    wrong(
        _crossing(rest=lambda d, f: 4 * d + 2 * f, finish=lambda x: max(1, ceil(x) - 1)),
        "a causal half | You count about half of the table, as if a causal mask saved the other "
        "half, so that lengths double. The product computes all of it. → How many numbers has the "
        "table of scores?",
    ),
]


def _search(d: int, d_ff: int, share: float = 0.5) -> Any:
    n = 1
    while 4 * n * n * d < share * (4 * n * n * d + 8 * n * d * d + 4 * n * d * d_ff):
        n += 1
    return n


def _halving(d: int, d_ff: int, share: float = 0.5) -> Any:
    low, high = 0, 1  # too short, long enough
    rest = 2 * d + d_ff

    def enough(n: int) -> bool:
        return n >= share * (n + rest)

    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return np.int64(high)


def _crossover_torch(d: int, d_ff: int, share: float = 0.5) -> Any:
    import torch

    n = torch.arange(1, 20 * (d + d_ff), dtype=torch.float64)
    reached = n / (n + 2 * d + d_ff) >= share
    return int(n[reached][0])


CROSSOVER = Exercise(
    id="12.crossover",
    function="crossover_length",
    reference=crossover_length,
    guarded=[accounting.crossover_length],
    cases=_CROSSOVER_CASES,
    returns=("length",),
    misconceptions=_CROSSOVER_WRONG,
    alternatives=[
        Alternative(name="a search", right=_search),
        Alternative(name="halving an interval", right=_halving),
        Alternative(name="torch", right=_crossover_torch, backend="torch"),
    ],
    hints=[
        "Write down what a layer costs for n tokens: 4 n² d for scores and sums, and the rest. "
        "Which inequality says that the first is at least a share of the whole?",
        "The rest is 8 n d² + 4 n d d_ff. Divided by 4 n d, the inequality is "
        "n ≥ share · (n + 2d + d_ff).",
        "Bring n to one side, or try n = 1, 2, 3, …. The first whole n at which it holds is asked "
        "for: `math.ceil` rounds up.",
    ],
    points=3,
    minutes=15,
    difficulty=2,
)


# -- 12.training_time ------------------------------------------------------------------------------


def training_time(
    parameters: float,
    tokens: float,
    devices: int,
    flops_per_second: float,
    utilisation: float = 1.0,
    checkpointing: bool = False,
) -> tuple[float, float]:
    """Return how long a training takes, by the rule of thumb.

    Parameters
    ----------
    parameters, tokens : float
        Of the model, and that it's trained on.
    devices : int
    flops_per_second : float
        Of one device at its best.
    utilisation : float, default 1
        What share of that is reached.
    checkpointing : bool, default False
        Whether the forward pass is computed once more for backward.

    Returns
    -------
    days : float
    device_hours : float
        Hours of one device, of all devices together: what is paid for.
    """
    flops = (8 if checkpointing else 6) * parameters * tokens
    days = accounting.training_time(flops, devices * flops_per_second, utilisation) / 86_400
    return days, 24 * days * devices


def _training(
    parameters: float, tokens: float, devices: int, speed: float, *rest: Any
) -> dict[str, Any]:
    names = ("utilisation", "checkpointing")
    return {
        "parameters": parameters,
        "tokens": tokens,
        "devices": devices,
        "flops_per_second": speed,
        **dict(zip(names, rest, strict=False)),
    }


_TIME_CASES = [
    case(
        "a million parameters, a billion tokens, one machine | at its best",
        _training(1e6, 1e9, 1, 1e11),
    ),
    case("the same at 40 % | it takes longer", _training(1e6, 1e9, 1, 1e11, 0.4)),
    case("the same on 5 machines | days fall, hours don't", _training(1e6, 1e9, 5, 1e11, 0.4)),
    case(
        "GPT-3 on 1,024 devices | about 25 days",
        _training(175e9, 300e9, 1024, 312e12, 0.45),
    ),
    case(
        "GPT-3 with checkpointing | about 34 days",
        _training(175e9, 300e9, 1024, 312e12, 0.45, True),
    ),
    case("70 billion parameters, 1.4 trillion tokens", _training(70e9, 1.4e12, 2048, 4e14, 0.5)),
]


def _timed(
    work: Callable[[float, float], float] = lambda p, t: 6 * p * t,
    again: float = 4 / 3,
    speed: Callable[[float, int, float], float] = lambda f, k, u: f * k * u,
    days: Callable[[float], float] = lambda seconds: seconds / 86_400,
    hours: Callable[[float, int, float], float] = lambda seconds, k, u: seconds / 3600 * k,
    split_twice: bool = False,
) -> Callable[..., Any]:
    """Return the time with some steps replaced."""

    def timed(
        parameters: float,
        tokens: float,
        devices: int,
        flops_per_second: float,
        utilisation: float = 1.0,
        checkpointing: bool = False,
    ) -> Any:
        flops = work(parameters, tokens) * (again if checkpointing else 1.0)
        seconds = flops / speed(flops_per_second, devices, utilisation)
        clock = seconds / devices if split_twice else seconds
        return days(clock), hours(seconds, devices, utilisation)

    return timed


def _time_reversed(*given: Any, **named: Any) -> Any:
    return _timed()(*given, **named)[::-1]


_TIME_WRONG = [
    wrong(
        _timed(work=lambda p, t: 2 * p * t),
        "forward only | All your times are a third of what they should be: 2 P D is the forward "
        "pass. → What does backward cost, in forward passes?",
    ),
    wrong(
        _timed(work=lambda p, t: 4 * p * t),
        "backward only | All your times are two thirds of what they should be: 4 P D is the way "
        "back, or a backward pass that costs as much as a forward one. → What do both together "
        "cost?",
    ),
    wrong(
        _timed(work=lambda p, t: 3 * p * t),
        "multiplications only | All your times are half of what they should be: a multiplication "
        "and an addition are a FLOP each, and machines are sold by that count. → How many FLOPs "
        "does a parameter cost a token on the way forward?",
    ),
    wrong(
        _timed(work=lambda p, t: 12 * p * t),
        "two counts of everything | All your times are twice as long: the 6 of 6 P D holds a "
        "multiplication *and* an addition, forward and backward. → What have you multiplied by 2 "
        "once more?",
    ),
    wrong(
        _time_reversed,
        "the two exchanged | Your numbers are right and come in another order: device hours stand "
        "first. → In which order does the docstring name the two?",
    ),
    wrong(
        _timed(split_twice=True),
        "days divided among the devices twice | With one device you're right, and your device "
        "hours are right. The time has been divided among the devices already, and your days are "
        "divided once more. → How many hours of the clock are 15 hours of 5 devices?",
    ),
    wrong(
        _timed(work=lambda p, t: p * t),
        "one FLOP a parameter and token | All your times are a sixth of what they should be. → How "
        "many FLOPs does a parameter cost a token, forward and backward?",
    ),
    wrong(
        _timed(work=lambda p, t: 6 * p),
        "one token | Your times are those of a single token. → How many tokens meet each "
        "parameter?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f * k),
        "utilisation left out | At a machine's best you're right; what is really reached has no "
        "effect on your times. → By what are FLOP/s multiplied so that they're the ones reached?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f * k / u),
        "utilisation the wrong way round | At a machine's best you're right. At 40 % your training "
        "takes less time than at 100 %. → Which is larger, what a machine could do or what it "
        "does?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f * k * u / 100),
        "utilisation in per cent | You divide utilisation by 100, and it comes as a share between "
        "0 and 1. → Which factor are all your times too large by?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f * k * ((1 - u) or 1)),
        "what is lost taken for what is reached | At a machine's best you're right, and else you "
        "reckon with 1 − utilisation. → Which share of its speed does a machine reach at 0.4?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f * u, hours=lambda s, k, u: s / 3600),
        "devices left out | With one device you're right; how many there are has no effect. → "
        "Which of your two results falls with their number?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f * u),
        "days of one device | With one device you're right. Your days don't fall with the number "
        "of devices, and your hours grow with it. → How many FLOP/s have all of them together?",
    ),
    wrong(
        _timed(speed=lambda f, k, u: f / k * u),
        "speed divided by the devices | With one device you're right. More devices make your "
        "training longer. → How many FLOP/s have all of them together?",
    ),
    wrong(
        _timed(hours=lambda s, k, u: s / 3600),
        "hours of the clock | Your days are right. Your hours are those of the clock, however many "
        "devices run in them. → How many device hours are 3 hours of 5 devices?",
    ),
    wrong(
        _timed(hours=lambda s, k, u: s / 86_400 * k),
        "device days | Your days are right, and the second result is in days of one device, not in "
        "hours. → How many hours has a day?",
    ),
    wrong(
        _timed(hours=lambda s, k, u: s * k),
        "device seconds | Your days are right, and the second result is in seconds of one device. "
        "→ How many seconds has an hour?",
    ),
    wrong(
        _timed(hours=lambda s, k, u: s / 3600 / k),
        "hours divided among the devices | Your days are right. Your hours fall with the number of "
        "devices twice: the time has been divided among them already. → How many device hours are "
        "3 hours of 5 devices?",
    ),
    wrong(
        _timed(hours=lambda s, k, u: s / 3600 * k * u),
        "only the busy part of an hour | Your days are right. Your hours count what devices were "
        "busy with; an idle device is paid for as well. → How many device hours are 3 hours of 5 "
        "devices, at any utilisation?",
    ),
    wrong(
        _timed(days=lambda s: s),
        "seconds | Your first result is in seconds, and days are asked for. → How many of them has "
        "a day?",
    ),
    wrong(
        _timed(days=lambda s: s / 3600),
        "hours for days | Your first result is in hours, and days are asked for. → How many "
        "seconds has a day?",
    ),
    wrong(
        _timed(days=lambda s: s / 60 / 24),
        "a day of 24 minutes | Your days are 60 times too many: from seconds to days there are "
        "three steps. → How many seconds has an hour?",
    ),
    wrong(
        _timed(days=lambda s: s / 86_400, again=1.0),
        "checkpointing left out | Without checkpointing you're right; with it you compute nothing "
        "again. → What is computed once more for backward, and what does it cost?",
    ),
    wrong(
        _timed(again=2.0),
        "checkpointing doubles everything | Without checkpointing you're right; with it you double "
        "the work. Only one of its three parts comes again. → Which one?",
    ),
    wrong(
        _timed(again=5 / 3),
        "the backward pass once more | Without checkpointing you're right; with it you add the "
        "cost of a backward pass. → Which pass is computed again, and what does it cost in P D?",
    ),
    wrong(
        _timed(again=3 / 2),
        "forward taken for a half | Without checkpointing you're right; with it you reckon with "
        "9 P D, as if the forward pass were half of the 6 P D. Backward computes two products for "
        "each one of it. → What share of 6 P D is the forward pass?",
    ),
    wrong(
        _timed(again=7 / 6),
        "half a forward pass more | Without checkpointing you're right; with it you add P D, half "
        "of a forward pass. → What does a forward pass cost in P D?",
    ),
    wrong(
        _timed(again=3 / 4),
        "checkpointing makes it faster | Without checkpointing you're right; with it your training "
        "gets shorter. It saves memory and pays for that. → With what?",
    ),
]


def _time_step_by_step(
    parameters: float,
    tokens: float,
    devices: int,
    flops_per_second: float,
    utilisation: float = 1.0,
    checkpointing: bool = False,
) -> Any:
    forward = 2 * parameters * tokens
    backward = 2 * forward
    flops = forward + backward + (forward if checkpointing else 0)
    device_hours = flops / (flops_per_second * utilisation) / 3600
    return [device_hours / devices / 24, device_hours]


def _time_by_logs(p: float, t: float, k: int, f: float, u: float = 1.0, again: bool = False) -> Any:
    factors = [6 + 2 * again, p, t, 1 / f, 1 / u, 1 / 3600]
    hours = np.exp(np.sum(np.log(factors)))
    return np.float64(hours / k / 24), hours


def _time_torch(p: float, t: float, k: int, f: float, u: float = 1.0, again: bool = False) -> Any:
    import torch

    hours = torch.tensor([6.0 + 2 * again, p, t], dtype=torch.float64).prod() / (f * u * 3600)
    return hours / (24 * k), hours


TRAINING_TIME = Exercise(
    id="12.training_time",
    function="training_time",
    reference=training_time,
    guarded=[accounting.training_time],
    cases=_TIME_CASES,
    returns=("days", "device_hours"),
    misconceptions=_TIME_WRONG,
    alternatives=[
        Alternative(name="forward, backward, again", right=_time_step_by_step),
        Alternative(name="logarithms", right=_time_by_logs),
        Alternative(name="torch", right=_time_torch, backend="torch"),
    ],
    hints=[
        "Count FLOPs first: 2 a parameter and token forward, twice that backward. What does "
        "checkpointing add?",
        "All devices together get through devices · flops_per_second · utilisation in a second. A "
        "day has 86,400 seconds.",
        "Device hours are hours of the clock times devices: they don't depend on how many devices "
        "share the work.",
    ],
    points=3,
    minutes=10,
    difficulty=1,
)
