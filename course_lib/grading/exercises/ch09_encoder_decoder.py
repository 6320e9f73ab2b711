"""The exercises of chapter 09: both layers, the whole model, its parameters, a decoder that peeks.

The layers' are in `encoder_decoder_layers`, the count in `weight_counts`, the bug in `peeking`.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.encoder_decoder_layers import (
    ATTENTION_BIASES,
    DECODER,
    ENCODER,
    NO_BIAS,
    ONE_HEAD,
    ONE_SEQUENCE,
    TURNED,
    UNTURNED,
    decoder_by_blocks,
    decoder_torch,
    encoder_by_blocks,
    encoder_torch,
    inverted,
    padding,
    without_batch,
)
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.exercises.peeking import BROKEN, PEEK
from course_lib.grading.exercises.transformer_layers import (
    decoder,
    encoder,
    layer_weights,
    model,
    pre,
    stack,
)
from course_lib.grading.exercises.weight_counts import PARAMETERS
from course_lib.grading.model import Alternative, Exercise
from course_lib.reference import encoder_decoder as ref
from course_lib.reference import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BROKEN", "EXERCISES", "forward"]


# -- 09.forward ------------------------------------------------------------------------------------


def forward(
    src: NDArray,
    src_mask: NDArray | None,
    tgt: NDArray,
    weights: Mapping[str, NDArray],
    n_heads: int,
) -> NDArray:
    """Score each next token of a target: the whole model, with the norms last.

    Parameters
    ----------
    src : integer array, (..., n_src)
    src_mask : boolean array, (..., 1, 1, n_src), or None
    tgt : integer array, (..., n_tgt)
    weights : dictionary
    n_heads : int

    Returns
    -------
    float array, (..., n_tgt, V_tgt)
    """
    return ref.encoder_decoder(src, src_mask, tgt, weights, n_heads)


def _whole(
    *lead: int,
    n_src: int,
    n_tgt: int,
    d: int,
    h: int,
    layers: tuple[int, int],
    lengths: tuple[int, ...] | None = None,
    tied: bool = False,
) -> Callable[[int], dict[str, Any]]:
    """Draw a model, a source and a target. The source's vocabulary is the larger one."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 3, *lead, n_src, n_tgt, d, *layers])
        weights = {
            "src_embedding.table": draw(rng, 9, d),
            "tgt_embedding.table": draw(rng, 7, d),
        }
        for side, count, names in (
            ("encoder", layers[0], ["attention"]),
            ("decoder", layers[1], ["self_attention", "cross_attention"]),
        ):
            for i in range(count):
                layer = layer_weights(rng, d, d + 1, *names)
                weights |= {f"{side}.{i}.{name}": w for name, w in layer.items()}
        if not tied:
            weights |= {"predict.weight": draw(rng, 7, d), "predict.bias": draw(rng, 7)}
        mask = None if lengths is None else padding(lengths, n_src, batch=bool(lead))
        return {
            "src": rng.integers(3, 7, (*lead, n_src)),
            "src_mask": mask,
            "tgt": np.concatenate(
                [np.ones((*lead, 1), np.int64), rng.integers(3, 7, (*lead, n_tgt - 1))], axis=-1
            ),
            "weights": weights,
            "n_heads": h,
        }

    return build


_FORWARD_CASES = [
    case(
        "one layer each, <bos> alone | embeddings, positions, a memory, logits",
        _whole(n_src=3, n_tgt=1, d=4, h=1, layers=(1, 1)),
    ),
    case(
        "one layer each, 4 target tokens | none sees what comes after it",
        _whole(n_src=3, n_tgt=4, d=6, h=3, layers=(1, 1)),
    ),
    case(
        "3 encoder layers, 2 decoder layers | both ask the end of the encoder",
        _whole(n_src=5, n_tgt=3, d=4, h=2, layers=(3, 2)),
    ),
    case(
        "2 pairs, one source padded | nobody looks at the padding, on either side",
        _whole(2, n_src=4, n_tgt=4, d=6, h=3, layers=(2, 1), lengths=(4, 2)),
    ),
    case(
        "no `predict.weight` | the target's table makes the logits",
        _whole(n_src=3, n_tgt=3, d=4, h=2, layers=(1, 1), tied=True),
    ),
    case(
        "11 layers each | layer 10 comes after layer 9",
        _whole(n_src=3, n_tgt=2, d=4, h=2, layers=(11, 11)),
    ),
]


def _alphabetical(weights: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    layers = stack(weights, side)
    return [layers[int(i)] for i in sorted(map(str, range(len(layers))))]


def _alphabetical_on(side: str) -> Callable[[Mapping[str, Any], str], list[dict[str, Any]]]:
    """Sort one side's layers as texts."""
    return lambda weights, of: (_alphabetical if of == side else stack)(weights, of)


def _blurred(weights: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """Take for layer 1 whatever begins with its name, layer 10 too."""
    layers = stack(weights, side)
    return [layers[max(j for j in range(len(layers)) if str(j).startswith(str(i)))]
            for i in range(len(layers))]  # fmt: skip


def _count_of(side: str) -> Callable[[Mapping[str, Any], str], list[dict[str, Any]]]:
    """Use as many layers on both sides as one side has; KeyError where there are fewer."""

    def layers(weights: Mapping[str, Any], of: str) -> list[dict[str, Any]]:
        found, count = stack(weights, of), len(stack(weights, side))
        if len(found) < count:
            raise KeyError(f"{of}.{len(found)}")
        return found[:count]

    return layers


def _looking_back(x: Any, layer: Any, n_heads: int, mask: Any) -> Any:
    """Run an encoder layer under a causal mask."""
    causal = np.tri(x.shape[-2], dtype=bool)
    return encoder()(x, layer, n_heads, causal if mask is None else causal & mask)


def _log_softmax(logits: Any) -> Any:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _no_tie(x: Any, table: Any) -> Any:
    raise KeyError("predict.weight")


def _halves(n: int, d: int) -> Any:
    """Sines on the left and cosines on the right."""
    table = positions.sinusoidal_positions(n, d)
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def _from_one(n: int, d: int) -> Any:
    return positions.sinusoidal_positions(n + 1, d)[1:]


def _only_on(side: str, embed: Any, places: Any) -> Callable[..., Any]:
    """Return a model that embeds one side rightly and the other one by `embed` and `places`."""

    def wrongly(src: Any, src_mask: Any, tgt: Any, weights: Any, n_heads: int) -> Any:
        table = weights[f"{side}_embedding.table"]
        rows = table[src if side == "src" else tgt]
        n, d = rows.shape[-2:]
        meant = embed(rows, places(n, d))
        # The model itself scales by √d and adds positions: take both away beforehand.
        own = (meant - positions.sinusoidal_positions(n, d)) / sqrt(d)
        ids = np.arange(own[..., 0].size).reshape(own.shape[:-1])
        given = {**weights, f"{side}_embedding.table": own.reshape(-1, d)}
        if side == "src":
            return model()(ids, src_mask, tgt, given, n_heads)
        if "predict.weight" not in weights:
            given["predict.weight"], given["predict.bias"] = table, 0.0
        return model()(src, src_mask, ids, given, n_heads)

    return wrongly


_FORWARD_WRONG = [
    wrong(
        model(embed=lambda rows, places: rows + places),
        "embeddings not scaled | Your embeddings come in as they stand in the table. In the "
        "paper's model they're made larger before positions are added. → By which factor?",
    ),
    wrong(
        model(embed=lambda rows, places: (rows + places) * sqrt(rows.shape[-1])),
        "positions scaled as well | You scale the sum, positions and all. Only the embedding is "
        "multiplied by √d. → In which order do scale and sum come?",
    ),
    wrong(
        model(embed=lambda rows, places: rows / sqrt(rows.shape[-1]) + places),
        "embeddings divided by √d | You divide embeddings by √d, and they should be multiplied. → "
        "Which of the two makes a table of small numbers comparable with sines?",
    ),
    wrong(
        model(embed=lambda rows, places: rows * rows.shape[-1] + places),
        "embeddings times d | Your embeddings are multiplied by d, where its root belongs. → What "
        "does the text of the exercise say about the scale?",
    ),
    wrong(
        model(embed=lambda rows, places: rows * sqrt(rows.shape[-1])),
        "no positions | Nothing says where a token stands, in source and target. → What is added "
        "to scaled embeddings?",
    ),
    wrong(
        _only_on("src", lambda rows, places: rows * sqrt(rows.shape[-1]), _halves),
        "no positions in the source | Your target has positions and your source hasn't. → What is "
        "added to the scaled embeddings of the source?",
    ),
    wrong(
        _only_on("tgt", lambda rows, places: rows * sqrt(rows.shape[-1]), _halves),
        "no positions in the target | Your source has positions and your target hasn't. → What is "
        "added to the scaled embeddings of the target?",
    ),
    wrong(
        _only_on("tgt", lambda rows, places: rows + places, positions.sinusoidal_positions),
        "only the source's embeddings scaled | The target's embeddings come in as they stand in "
        "the table. → By which factor is the source's multiplied?",
    ),
    wrong(
        _only_on("src", lambda rows, places: rows + places, positions.sinusoidal_positions),
        "only the target's embeddings scaled | The source's embeddings come in as they stand in "
        "the table. → By which factor is the target's multiplied?",
    ),
    wrong(
        model(place=_from_one),
        "positions from 1 | Your first token has position 1, and positions begin with 0 on both "
        "sides. → What are sine and cosine of the first position?",
    ),
    wrong(
        model(place=_halves),
        "sines, then cosines | this exercise uses columns in which sine and cosine take turns; you "
        "have all sines on the left. → Which columns does the first frequency fill?",
        variant=True,
    ),
    wrong(
        model(tables=("tgt", "tgt")),
        "the target's table for both | Your source is looked up in the target's table. → What is "
        "the name of the source's own?",
    ),
    wrong(
        model(tables=("src", "src")),
        "the source's table for both | Your target is looked up in the source's table. → What is "
        "the name of the target's own?",
    ),
    wrong(
        model(self_mask=lambda n, mask: None),
        "a decoder that peeks | Your target tokens see those after them, which they're to "
        "predict: with <bos> alone it doesn't show. → Which mask does the decoder's self-attention "
        "need?",
    ),
    wrong(
        model(self_mask=lambda n, mask: np.tri(n, k=1, dtype=bool)),
        "a decoder that peeks one token ahead | Every target token sees the one after it, the very "
        "one to predict. → Which diagonal is the last that may be seen?",
    ),
    wrong(
        model(encoder=_looking_back),
        "a causal encoder | Source tokens of yours don't see what comes after them. A source is "
        "all there when it's read. → Which of the two stacks needs a causal mask?",
    ),
    wrong(
        model(cross_mask=lambda n, mask: None),
        "source padding forgotten in the decoder | Without padding you're right. With it, your "
        "encoder ignores the padding, and the decoder asks it all the same. → How many places use "
        "`src_mask`?",
    ),
    wrong(
        model(encoder_mask=lambda mask: None),
        "source padding forgotten in the encoder | Without padding you're right. With it, your "
        "decoder ignores the padding, and source tokens have asked it already. → How many places "
        "use `src_mask`?",
    ),
    wrong(
        model(encoder_mask=lambda mask: None, cross_mask=lambda n, mask: None),
        "source padding forgotten | Without padding you're right. With it, the padding is read as "
        "if it were words, in the encoder and in the decoder. → Which argument does your function "
        "never use?",
    ),
    wrong(
        model(encoder_mask=inverted, cross_mask=lambda n, mask: inverted(mask)),
        "the mask inverted | Without padding you're right. With it, the padding is all that is "
        "seen. → What does True mean in `src_mask`?",
    ),
    wrong(
        model(self_mask=lambda n, mask: mask, cross_mask=lambda n, mask: np.tri(n, dtype=bool)),
        "the decoder's masks exchanged | Self-attention gets the source's mask and cross-attention "
        "the causal one, which only fits where both sides have the same length. → Which mask is as "
        "wide as the source is long?",
    ),
    wrong(
        model(remembered=lambda states, i: states[min(i + 1, len(states) - 1)]),
        "each decoder layer asks the encoder layer beside it | Your decoder's first layer asks the "
        "encoder's first, the second the second. In the Transformer all of them ask the same one. "
        "→ Which of the encoder's outputs is the memory?",
    ),
    wrong(
        model(remembered=lambda states, i: states[1]),
        "the first encoder layer's output is the memory | Your decoder asks what the encoder's "
        "first layer made. → Which of the encoder's outputs is the memory?",
    ),
    wrong(
        model(remembered=lambda states, i: states[0]),
        "no encoder | Your decoder asks the source's embeddings, and the encoder's layers have no "
        "say. → What goes through the encoder before the decoder asks it?",
    ),
    wrong(
        model(layers=lambda weights, side: stack(weights, side)[:1]),
        "the first layers only | With one layer each you're right; of several you use the first. → "
        "How can you tell from the names in `weights` how many there are?",
    ),
    wrong(
        model(layers=lambda weights, side: [stack(weights, side)[0]] * len(stack(weights, side))),
        "layer 0 again and again | With one layer each you're right; with several, all of them use "
        "the weights of layer 0. → Where does a layer's number come into its weights' names?",
    ),
    wrong(
        model(layers=lambda weights, side: stack(weights, side)[::-1]),
        "from the last layer to the first | Your layers run in the opposite order, the last "
        "first. → Which number has the layer that sees the embeddings?",
    ),
    wrong(
        model(layers=_alphabetical),
        "layers in the order of the alphabet | Up to ten layers you're right. Sorted as texts, "
        '"10" comes before "2". → What has to be sorted, a text or a number?',
    ),
    wrong(
        model(layers=_alphabetical_on("encoder")),
        "the encoder's layers in the order of the alphabet | Up to ten layers you're right. In the "
        'encoder, layers are sorted as texts, and "10" comes before "2". → What has to be sorted, '
        "a text or a number?",
    ),
    wrong(
        model(layers=_alphabetical_on("decoder")),
        "the decoder's layers in the order of the alphabet | Up to ten layers you're right. In the "
        'decoder, layers are sorted as texts, and "10" comes before "2". → What has to be sorted, '
        "a text or a number?",
    ),
    wrong(
        model(layers=lambda weights, side: stack(weights, side)[:10]),
        "ten layers at most | Up to ten layers you're right. In longer stacks the last ones are "
        "never found: a number in a name may have two digits. → Where does the number in "
        '"encoder.10.attention" end?',
    ),
    wrong(
        model(layers=_blurred),
        "layer 1 takes the weights of layer 10 | Up to ten layers you're right. Then "
        '"encoder.1" is the beginning of "encoder.10" too. → Which character ends the number in a '
        "name?",
    ),
    wrong(
        model(layers=_count_of("encoder")),
        "as many decoder layers as encoder layers | Where both stacks are as long you're right; "
        "your decoder's length is taken from the encoder's. → Whose names tell how many layers the "
        "decoder has?",
    ),
    wrong(
        model(layers=_count_of("decoder")),
        "as many encoder layers as decoder layers | Where both stacks are as long you're right; "
        "your encoder's length is taken from the decoder's. → Whose names tell how many layers the "
        "encoder has?",
    ),
    wrong(
        model(tied=_no_tie),
        "no tied projection | Where there's a projection you're right. One model has none, and you "
        "look for it all the same. → Which table has a row for each token of the target?",
    ),
    wrong(
        model(tied=lambda x, table: x @ table.T * sqrt(table.shape[-1])),
        "tied logits scaled | Where there's a projection you're right. Where the table takes its "
        "place you multiply by √d as well, which is for the way in. → What does the text of the "
        "exercise say about the way out?",
    ),
    wrong(without_batch(model()), ONE_SEQUENCE),
    wrong(
        model(bias=False),
        "no bias at the end | Your logits are off by the same row at every position: a constant is "
        "missing. → Which entry of `weights` does your function never read?",
    ),
    wrong(
        model(finish=lambda logits: np.exp(_log_softmax(logits))),
        "probabilities | You return the softmax of the logits: rows that sum to 1. → Which of the "
        "two does cross-entropy take, and the docstring name?",
    ),
    wrong(
        model(finish=_log_softmax),
        "log probabilities | You return logarithms of probabilities, where logits as they come out "
        "of the projection are asked for. → What is your last step?",
    ),
    wrong(
        model(finish=lambda logits: logits[..., -1, :]),
        "the last position only | You return the logits of the last position, as one does when "
        "writing. In training all positions are scored at once. → How many rows does the docstring "
        "name?",
    ),
    wrong(
        model(
            encoder=encoder(around=(pre, pre)),
            decoder=lambda *given: decoder()(*given, norm_first=True),
        ),
        "norms first | this exercise uses layers with the norms last; yours have them first, as "
        "later models do (which need one more norm at the end of each stack). → Which default has "
        "`norm_first`?",
        variant=True,
    ),
    wrong(
        model(encoder=encoder(attention=UNTURNED), decoder=decoder(attention=UNTURNED)),
        TURNED,
    ),
    wrong(
        model(
            encoder=encoder(attention=NO_BIAS),
            decoder=decoder(attention=NO_BIAS),
        ),
        ATTENTION_BIASES,
    ),
    wrong(model(encoder=encoder(heads=lambda h: 1), decoder=decoder(heads=lambda h: 1)), ONE_HEAD),
]


def _by_recursion(src: Any, src_mask: Any, tgt: Any, weights: Any, n_heads: int) -> Any:
    """Let a layer's number decide whether there's one more."""
    d = weights["src_embedding.table"].shape[1]
    table = positions.sinusoidal_positions(max(src.shape[-1], tgt.shape[-1]), d)

    def run(x: Any, side: str, layer: Any, i: int = 0) -> Any:
        own = {
            k[len(f"{side}.{i}.") :]: w for k, w in weights.items() if k.startswith(f"{side}.{i}.")
        }
        return run(layer(x, own), side, layer, i + 1) if own else x

    memory = run(
        d**0.5 * weights["src_embedding.table"][src] + table[: src.shape[-1]],
        "encoder",
        lambda x, own: encoder_by_blocks(x, own, n_heads, src_mask),
    )
    n = tgt.shape[-1]
    causal = np.arange(n) <= np.arange(n)[:, None]
    x = run(
        d**0.5 * weights["tgt_embedding.table"][tgt] + table[:n],
        "decoder",
        lambda x, own: decoder_by_blocks(x, memory, own, n_heads, causal, src_mask),
    )
    predict = weights.get("predict.weight", weights["tgt_embedding.table"])
    return np.einsum("...d,vd->...v", x, predict) + weights.get("predict.bias", 0.0)


def _by_prefixes(src: Any, src_mask: Any, tgt: Any, weights: Any, n_heads: int) -> Any:
    """Score each position by itself, from the target up to there."""
    rows = [
        model()(src, src_mask, tgt[..., : t + 1], weights, n_heads) for t in range(tgt.shape[-1])
    ]
    return np.stack([logits[..., -1, :] for logits in rows], axis=-2)


def _forward_torch(src: Any, src_mask: Any, tgt: Any, weights: Any, n_heads: int) -> Any:
    import torch

    d = weights["src_embedding.table"].shape[1]

    def come_in(ids: Any, side: str) -> Any:
        table = torch.from_numpy(positions.sinusoidal_positions(ids.shape[-1], d))
        return (
            torch.nn.functional.embedding(ids, weights[f"{side}_embedding.table"]) * d**0.5 + table
        )

    memory = come_in(src, "src")
    for layer in stack(weights, "encoder"):
        memory = encoder_torch(memory, layer, n_heads, src_mask)
    x, n = come_in(tgt, "tgt"), tgt.shape[-1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for layer in stack(weights, "decoder"):
        x = decoder_torch(x, memory, layer, n_heads, causal, src_mask)
    predict = weights.get("predict.weight", weights["tgt_embedding.table"])
    return torch.nn.functional.linear(x, predict, weights.get("predict.bias"))


_FORWARD = Exercise(
    id="09.forward",
    function="forward",
    reference=forward,
    guarded=[ref.encode, ref.decode, ref.encoder_decoder],
    cases=_FORWARD_CASES,
    returns=("logits",),
    misconceptions=_FORWARD_WRONG,
    alternatives=[
        Alternative(name="layer after layer by recursion", right=_by_recursion),
        Alternative(name="one position after another", right=_by_prefixes),
        Alternative(name="torch", right=_forward_torch, backend="torch"),
    ],
    hints=[
        "Five steps: source in, encoder layers, target in, decoder layers, logits. The way in is "
        "the same for both sides, but for the table.",
        "A layer's weights are those whose names begin with `encoder.3.`, say, with that beginning "
        "cut off. Count i up from 0 until there are none.",
        "`src_mask` goes to every encoder layer, and to every decoder layer as its cross-mask. The "
        "decoder's own mask is `causal_mask(n_tgt)`. Without `predict.weight`, use the target's "
        "table.",
    ],
    points=5,
    minutes=30,
    difficulty=3,
)


EXERCISES = [ENCODER, DECODER, _FORWARD, PARAMETERS, PEEK]
