"""The exercise of chapter 15 about names: attention's weights out of anybody's checkpoint.

Every misconception here reads a checkpoint rightly but for one thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import draw
from course_lib.grading.model import Alternative, Exercise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NAMES", "attention_weights"]

Checkpoint = Mapping[str, Any]


def attention_weights(
    checkpoint: Checkpoint, layer: int
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Return a layer's attention from a checkpoint of BERT's, GPT-2's or Llama's kind.

    Parameters
    ----------
    checkpoint : dictionary of names to arrays
    layer : int
        Counted from 0.

    Returns
    -------
    w_q, w_k, w_v, w_o : float arrays, (d, d)
        Each (d_out, d_in).
    biases : float array, (4, d)
        Of the four, in this order; 0 where there is none.
    """
    w_q, w_k, w_v, w_o, biases = _read()(checkpoint, layer)
    return w_q, w_k, w_v, w_o, biases


_BERT = ("attention.self.query", "attention.self.key", "attention.self.value")
_LLAMA = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_OUT = {"bert": "attention.output.dense", "gpt2": "attn.c_proj", "llama": "self_attn.o_proj"}
_STEM = {"bert": "encoder.layer.{}.", "gpt2": "h.{}.", "llama": "layers.{}."}


def _family(checkpoint: Checkpoint) -> str:
    text = " ".join(checkpoint)
    return "gpt2" if "c_attn" in text else "llama" if "self_attn" in text else "bert"


def _named(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    """Find a tensor, whatever stands before its name; None if there is none."""
    end = f".{stem}{tail}"
    found = [w for name, w in checkpoint.items() if f".{name}".endswith(end)]
    return found[0] if found else None


def _alone(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    return checkpoint.get(stem + tail)


def _always_prefixed(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    return next((w for name, w in checkpoint.items() if name.endswith(f".{stem}{tail}")), None)


def _loose(stem: str, tail: str) -> re.Pattern[str]:
    """Match layers whose number only *begins* with the wanted one."""
    return re.compile(re.escape(stem[:-1]) + r"\d*\." + re.escape(tail) + "$")


def _begins_first(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    found = [w for name, w in checkpoint.items() if _loose(stem, tail).search(name)]
    return found[0] if found else None


def _begins_last(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    found = [w for name, w in checkpoint.items() if _loose(stem, tail).search(name)]
    return found[-1] if found else None


def _ends_first(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    """Match layers whose number only *ends* with the wanted one."""
    end = stem.split(".", stem.count(".") - 1)[-1] + tail  # "1.attn…"
    found = [w for name, w in checkpoint.items() if name.endswith(end)]
    return found[0] if found else None


def _ends_last(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    end = stem.split(".", stem.count(".") - 1)[-1] + tail
    found = [w for name, w in checkpoint.items() if name.endswith(end)]
    return found[-1] if found else None


_MARKS = ("", "bert.", "model.", "transformer.")


def _few_prefixes(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
    names = (mark + stem + tail for mark in _MARKS)
    return next((checkpoint[name] for name in names if name in checkpoint), None)


def _pick(fits: Callable[[str, str, str], bool], which: int) -> Callable[..., Any]:
    """Return what takes the first (0) or the last (−1) tensor whose name fits."""

    def find(checkpoint: Checkpoint, stem: str, tail: str) -> Any:
        found = [w for name, w in checkpoint.items() if fits(name, stem, tail)]
        return found[which] if found else None

    return find


def _ends(name: str, stem: str, tail: str) -> bool:
    return name.endswith(stem + tail)


def _holds(name: str, stem: str, tail: str) -> bool:
    return stem + tail in name


def _holds_after_a_dot(name: str, stem: str, tail: str) -> bool:
    return f".{stem}{tail}" in f".{name}"


def _has_the_word(name: str, stem: str, tail: str) -> bool:
    """Match a layer's tensors by their last words alone."""
    words = tail.removeprefix("attn.") if "c_attn" in tail else tail
    return f".{stem}" in f".{name}" and name.endswith(words)


def _without(*tails: str) -> Callable[[Checkpoint, str, str], Any]:
    """Return what overlooks some tensors."""
    return lambda checkpoint, stem, tail: None if tail in tails else _named(checkpoint, stem, tail)


def _by_place(checkpoint: Checkpoint, layer: int) -> Any:
    """Take a layer's matrices in the order of the file."""
    dot = f".{layer}."
    own = [w for name, w in checkpoint.items() if dot in f".{name}" and "att" in name]
    weights = [w for w in own if w.ndim == 2]
    biases = [b for b in own if b.ndim == 1]
    if _family(checkpoint) == "gpt2":
        return _read()(checkpoint, layer)
    biases += [np.zeros(len(weights[0]))] * (4 - len(biases))
    return (*weights[:4], np.stack(biases[:4]))


def _thirds(w: NDArray) -> Any:
    """Take queries, keys, values: side by side in the columns."""
    return np.split(w, 3, axis=-1)


def _zeros(biases: list[Any], like: NDArray) -> Any:
    return [np.zeros(len(like), like.dtype) if b is None else b for b in biases]


def _read(
    *,
    find: Callable[[Checkpoint, str, str], Any] = _named,
    count: Callable[[int], int] = lambda layer: layer,
    cut: Callable[[NDArray], Any] = _thirds,
    cut_bias: Callable[[NDArray], Any] | None = None,
    turn_in: Callable[[str, NDArray], NDArray] = lambda family, w: w.T if family == "gpt2" else w,
    turn_out: Callable[[str, NDArray], NDArray] = lambda family, w: w.T if family == "gpt2" else w,
    out: Mapping[str, str] = _OUT,
    order: tuple[int, ...] = (0, 1, 2),
    missing: Callable[[list[Any], NDArray], Any] = _zeros,
    absent: type[Exception] = KeyError,
    returns: Callable[[list[Any], NDArray], Any] = lambda weights, biases: (*weights, biases),
) -> Callable[..., Any]:
    """Return the reader with some steps replaced."""

    def read(checkpoint: Checkpoint, layer: int) -> Any:
        family = _family(checkpoint)
        stem = _STEM[family].format(count(layer))

        def get(tail: str, required: bool = True) -> Any:
            found = find(checkpoint, stem, tail)
            if found is None and required:
                raise absent(stem + tail)
            return found

        if family == "gpt2":
            weights = list(cut(get("attn.c_attn.weight")))
            bias = get("attn.c_attn.bias", required=False)
            biases = [None] * 3 if bias is None else list((cut_bias or cut)(bias))
        else:
            names = _BERT if family == "bert" else _LLAMA
            weights = [get(f"{name}.weight") for name in names]
            biases = [get(f"{name}.bias", required=False) for name in names]
        weights = [turn_in(family, weights[i]) for i in order]
        biases = [biases[i] for i in order]
        weights.append(turn_out(family, get(f"{out[family]}.weight")))
        biases.append(get(f"{out[family]}.bias", required=False))
        return returns(weights, np.stack(missing(biases, weights[0])))

    return read


def _checkpoint(
    family: str, n_layers: int, layer: int, d: int, *, prefix: str = "", biases: str = "qkvo",
    order: str = "", also: str = "",
) -> Callable[[int], dict[str, Any]]:  # fmt: skip
    """Draw a checkpoint: everything of attention, and something of what stands beside it.

    `also` adds names that look much the same: "cross" attention to another text, or a second,
    smaller stack of "draft" layers and the scales of "quantised" matrices.
    """

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 3, n_layers, layer, d])
        tensors: dict[str, NDArray] = {}

        def add(name: str, *shape: int, bias: bool = True) -> None:
            tensors[f"{prefix}{name}.weight"] = draw(rng, *shape)
            if bias:
                width = shape[-1] if family == "gpt2" else shape[0]
                tensors[f"{prefix}{name}.bias"] = draw(rng, width) + 0.05

        def draft(names: tuple[str, ...]) -> None:
            for name in names if "draft" in also else ():
                add(f"draft_layers.{layer}.self_attn.{name}", d, d, bias=False)

        draft(("q_proj", "k_proj"))
        for i in range(n_layers):
            stem = _STEM[family].format(i)
            if family == "gpt2":
                tensors[f"{prefix}{stem}attn.bias"] = np.tri(4)[None, None]  # no bias: a mask
                add(f"{stem}attn.c_attn", d, 3 * d)
                add(f"{stem}attn.c_proj", d, d)
                if "cross" in also:
                    add(f"{stem}crossattention.c_attn", d, 2 * d)
                    add(f"{stem}crossattention.c_proj", d, d)
                add(f"{stem}mlp.c_proj", 2 * d, d)
                continue
            for letter, name in zip("qkv", _BERT if family == "bert" else _LLAMA, strict=True):
                if "quantised" in also and letter != "k":
                    tensors[f"{prefix}{stem}{name}.weight_scale"] = draw(rng, d, 1)
                add(stem + name, d, d, bias=letter in biases)
                if "quantised" in also and letter == "k":
                    tensors[f"{prefix}{stem}{name}.weight_scale"] = draw(rng, d, 1)
            add(stem + _OUT[family], d, d, bias="o" in biases)
            if "cross" in also:
                for name in (*_BERT, _OUT["bert"]):
                    add(f"{stem}cross{name}", d, d)
            if family == "bert":
                add(f"{stem}attention.output.LayerNorm", d)
                add(f"{stem}output.dense", d, 2 * d)
            else:
                add(f"{stem}mlp.down_proj", d, 2 * d, bias=False)
        draft(("v_proj", "o_proj"))
        if order == "backwards":
            tensors = dict(reversed(tensors.items()))
        elif order == "by name":
            tensors = dict(sorted(tensors.items()))
        return {"checkpoint": tensors, "layer": layer}

    return build


_CASES = [
    case("BERT, one layer of width 2 | four matrices, as they lie", _checkpoint("bert", 1, 0, 2)),
    case(
        "GPT-2, layer 0 of width 3 | one matrix for three, the other way round",
        _checkpoint("gpt2", 1, 0, 3),
    ),
    case(
        "Llama, layer 2 of 3 | no biases",
        _checkpoint("llama", 3, 2, 2, prefix="model.", biases=""),
    ),
    case(
        "Qwen, layer 0 of 2, sorted by name | names of Llama's, biases for three of four",
        _checkpoint("llama", 2, 0, 3, prefix="model.", biases="qkv", order="by name"),
    ),
    case(
        "BERT in a larger model, layer 1 of 13 | 10, 11 and 12 are others",
        _checkpoint("bert", 13, 1, 2, prefix="bert.", also="cross"),
    ),
    case(
        "GPT-2, layer 1 of 13, the last name first | the order in a file says nothing",
        _checkpoint("gpt2", 13, 1, 2, prefix="transformer.", order="backwards", also="cross"),
    ),
    case(
        "Llama that sees pictures, layer 1 of 2 | other words in front, and names that go on",
        _checkpoint(
            "llama", 2, 1, 3, prefix="model.language_model.", biases="", also="draft, quantised"
        ),
    ),
]


def _reshaped(w: NDArray) -> Any:
    """Cut the numbers in three as they lie, row after row."""
    return list(w.reshape(3, *w.shape[:-1], w.shape[-1] // 3))


def _every_third(w: NDArray) -> Any:
    return [w[..., i::3] for i in range(3)]


def _refused(biases: list[Any], like: NDArray) -> Any:
    if any(b is None for b in biases):
        raise KeyError("bias")
    return biases


def _all_or_none(biases: list[Any], like: NDArray) -> Any:
    zeros = np.zeros(len(like), like.dtype)
    return biases if all(b is not None for b in biases) else [zeros] * 4


def _wider(biases: list[Any], like: NDArray) -> Any:
    return [np.ones(len(like), like.dtype) if b is None else b for b in biases]


def _with_gpt2(name: str, weight: str) -> dict[str, str]:
    return {**_OUT, name: weight}


_WRONG = [
    wrong(
        _read(turn_in=lambda family, w: w, turn_out=lambda family, w: w),
        "not transposed | GPT-2's matrices are (d_in, d_out), and you return them so. Square ones "
        "fit either way, and nothing complains. → Which way round are yours to be?",
    ),
    wrong(
        _read(turn_out=lambda family, w: w),
        "c_proj not transposed | Queries, keys and values are right, and GPT-2's `c_proj` lies the "
        "other way round. → Which of GPT-2's matrices are (d_in, d_out)?",
    ),
    wrong(
        _read(turn_in=lambda family, w: w),
        "c_attn not transposed | GPT-2's `c_proj` is right, and the three parts of `c_attn` lie "
        "the other way round. → Which of GPT-2's matrices are (d_in, d_out)?",
    ),
    wrong(
        _read(turn_in=lambda family, w: w.T, turn_out=lambda family, w: w.T),
        "everything transposed | You transpose the matrices of all three families. → In whose "
        "files do they lie the other way round?",
    ),
    wrong(
        _read(
            turn_in=lambda family, w: w if family == "gpt2" else w.T,
            turn_out=lambda family, w: w if family == "gpt2" else w.T,
        ),
        "the others transposed | You transpose BERT's and Llama's matrices and leave GPT-2's as "
        "they lie. → In whose files are they (d_out, d_in) already?",
    ),
    wrong(
        _read(cut=_reshaped, cut_bias=_thirds),
        "cut by a reshape | You reshape `c_attn` to three parts, which takes its numbers row after "
        "row. The parts lie side by side in each row. → Along which axis is it to be cut?",
    ),
    wrong(
        _read(cut=_every_third),
        "every third column | You take every third column of `c_attn` for the queries. → Which "
        "columns does the text call queries?",
    ),
    wrong(
        _read(cut=lambda w: np.split(w, 3, axis=-1)[::-1]),
        "values first | With GPT-2 your queries are its values, and your values its queries. → In "
        "which order do they lie in `c_attn`?",
    ),
    wrong(
        _read(cut=lambda w: [np.split(w, 3, axis=-1)[i] for i in (0, 2, 1)]),
        "keys last | With GPT-2 keys and values have changed places. → In which order do they lie "
        "in `c_attn`?",
    ),
    wrong(
        _read(order=(1, 0, 2)),
        "keys for queries | Queries and keys have changed places, in every family. Scores come out "
        "transposed, which no shape shows. → Which comes first in what you return?",
    ),
    wrong(
        _read(order=(0, 2, 1)),
        "values for keys | Keys and values have changed places, in every family. → Which comes "
        "second in what you return?",
    ),
    wrong(
        _read(find=_alone),
        "nothing before the name | Your program looks for a name exactly as the table has it, and "
        "stops where a file has something in front. → What stands before `layers.2` in the third "
        "case?",
    ),
    wrong(
        _read(find=_few_prefixes),
        "a few prefixes | Your program knows a few words that may stand in front, or one of any "
        "kind, and the last file has others. → Which part of a name is the same, whatever stands "
        "before it?",
    ),
    *[  # what None does is told by the error that it ends in
        mistake
        for error in (AttributeError, TypeError)
        for mistake in (
            wrong(
                _read(find=_alone, absent=error),
                f"nothing before the name, and None: {error.__name__} | Your program looks for a "
                "name exactly as the table has it. Where a file has something in front it finds "
                "None, and works on. → What stands before `layers.2` in the third case?",
            ),
            wrong(
                _read(find=_few_prefixes, absent=error),
                f"a few prefixes, and None: {error.__name__} | Your program knows a few words that "
                "may stand in front, or one of any kind. The last file has others, and what you "
                "look for there is None. → Which part of a name is the same, whatever stands "
                "before it?",
            ),
        )
    ],
    *[
        wrong(
            _read(find=_pick(fits, which)),
            f"{name}, {word} one found | {cause}, and {more}. → {step}",
        )
        for which, word, more in (
            (0, "the first", "you take the first name that fits"),
            (-1, "the last", "the last one found stays"),
        )
        for fits, name, cause, step in (
            (
                _ends,
                "ends alike",
                "`draft_layers.1` ends with `layers.1`, and is another stack of layers",
                "Which sign stands before `layers` in the name that's meant?",
            ),
            (
                _holds_after_a_dot,
                "goes on",
                "A name can go on behind `.weight`: `.weight_scale` is another tensor",
                "With what does the name that's meant end?",
            ),
            (
                _holds,
                "anywhere in a name",
                "You look for the table's name anywhere inside a file's: it stands in "
                "`draft_layers…` and in `….weight_scale`, too",
                "What may stand before it, and what behind it?",
            ),
            (
                _has_the_word,
                "the last words alone",
                "`crossattention` has matrices with the same last words. They read another text",
                "What stands before those words in attention to the text itself?",
            ),
        )
    ],
    wrong(
        _by_place,
        "in the file's order | You take matrices in the order in which the file has them. Sorted "
        "by name, a file of Qwen's has keys first and the output second. → What does the text say "
        "of the order?",
    ),
    wrong(
        _read(find=_always_prefixed),
        "always something before the name | Your program expects a prefix, and finds nothing where "
        "the names begin as the table has them. → Where does a BERT of its own have a prefix?",
    ),
    wrong(
        _read(find=_begins_last),
        "10 begins with 1 | For layer 1 you find layers 10 to 12 as well, as their numbers begin "
        "with it, and the last one found stays. → What stands behind the number in a name?",
    ),
    wrong(
        _read(find=_begins_first),
        "12 begins with 1 | For layer 1 you take the first name whose number begins with 1. Where "
        "layer 12 stands first in the file that's layer 12. → What stands behind the number in a "
        "name?",
    ),
    wrong(
        _read(find=_ends_last),
        "11 ends with 1 | For layer 1 you find layer 11 as well, whose number ends with it, and "
        "the last one found stays. → What stands before the number in a name?",
    ),
    wrong(
        _read(find=_ends_first),
        "the first that ends with 1 | For layer 1 you take the first name whose number ends with "
        "1. Where layer 11 stands first in the file that's layer 11. → What stands before the "
        "number in a name?",
    ),
    wrong(
        _read(count=lambda layer: 0),
        "always layer 0 | You return layer 0, whichever is asked for. → Where does `layer` occur "
        "in your names?",
    ),
    wrong(
        _read(count=lambda layer: max(layer - 1, 0)),
        "counted from 1 | You return the layer before the one that's asked for. → What number has "
        "the first layer?",
    ),
    wrong(
        _read(count=lambda layer: layer + 1),
        "one layer further | You look for the layer behind the one that's asked for, and stop "
        "where there is none. → What number has the first layer?",
    ),
    wrong(
        _read(missing=_refused),
        "biases that aren't there | With names of Llama's your program looks for a key that isn't "
        "there: another family's name, or a bias, and Llama has none. → Which name does the error "
        "give?",
    ),
    wrong(
        _read(missing=_all_or_none),
        "all biases or none | Where one bias is missing you return zeros for all four. → Which of "
        "the four does the fourth case have?",
    ),
    wrong(
        _read(missing=_wider),
        "ones for missing biases | Where a bias is missing you have ones. → What does a layer "
        "without a bias add?",
    ),
    wrong(
        _read(missing=lambda biases, like: [0.0 * like[0] if b is None else b for b in biases[:3]]),
        "three biases | You return three biases, and the last matrix has one, too. → How many rows "
        "is `biases` to have?",
    ),
    wrong(
        _read(returns=lambda weights, biases: (*weights, np.roll(biases, 1, axis=0))),
        "the output's bias first | The matrices are right, and the bias of the output stands "
        "before the others. → In which order are the four rows?",
    ),
    wrong(
        _read(returns=lambda weights, biases: (*weights, 0 * biases)),
        "no biases at all | The matrices are right, and all biases are 0. → What stands "
        "behind each name in the place of `.weight`?",
    ),
    wrong(
        _read(
            find=_without(
                *(
                    f"{name}.bias"
                    for name in (*_BERT, *_LLAMA, *_OUT.values())
                    if name != _OUT["gpt2"]
                )
            )
        ),
        "GPT-2's biases alone | The matrices are right. GPT-2's biases are there, and those of the "
        "other families are 0 with you. → Under which names do BERT and Qwen keep theirs?",
    ),
    wrong(
        _read(find=_without("attn.c_attn.bias")),
        "c_attn's bias left out | The matrices are right. With GPT-2 the biases of queries, keys "
        "and values are 0. → What is the tensor of 3d numbers for?",
    ),
    wrong(
        _read(find=_without("attn.c_attn.bias", "attn.c_proj.bias")),
        "GPT-2's biases left out | The matrices are right, and with GPT-2 all biases are 0. → "
        "Under which names does it keep them?",
    ),
    wrong(
        _read(find=_without("attn.c_proj.bias")),
        "c_proj's bias left out | The matrices are right. With GPT-2 the bias of the output is 0. "
        "→ Which tensor stands beside `attn.c_proj.weight`?",
    ),
    wrong(
        _read(find=_without(*(f"{name}.bias" for name in _OUT.values()))),
        "the output's bias left out | The matrices are right, and the fourth bias is 0 in every "
        "family. → Which tensor stands beside the output's matrix?",
    ),
    wrong(
        _read(cut_bias=_every_third),
        "every third bias | The matrices are right. Of GPT-2's bias you take every third number "
        "for the queries. → How did you cut the columns of the matrix?",
    ),
    wrong(
        _read(out=_with_gpt2("bert", "output.dense")),
        "the network's output for attention's | With BERT you find `output.dense`, which is the "
        "network's last matrix. Attention's has a longer name. → What stands before "
        "`output.dense` in attention's?",
    ),
    wrong(
        _read(out=_with_gpt2("gpt2", "mlp.c_proj")),
        "the network's c_proj | With GPT-2 you take the `c_proj` of the network. There are two of "
        "that name in a layer. → What stands before attention's?",
    ),
]


def _by_regex(checkpoint: Any, layer: int) -> Any:
    """Collect the layer's tensors by a pattern first."""
    pattern = re.compile(rf"(?:^|\.)(?:layer|layers|h)\.{layer}\.(.*)$")
    own = {}
    for name, w in checkpoint.items():
        match = pattern.search(name)
        if match:
            own[match[1]] = w
    if "attn.c_attn.weight" in own:
        w_q, w_k, w_v = np.split(own["attn.c_attn.weight"].T, 3)
        biases = [*np.split(own["attn.c_attn.bias"], 3), own["attn.c_proj.bias"]]
        return w_q, w_k, w_v, own["attn.c_proj.weight"].T, np.array(biases)
    names = [*_BERT, _OUT["bert"]]
    if "self_attn.q_proj.weight" in own:
        names = [*_LLAMA, _OUT["llama"]]
    weights = [own[f"{name}.weight"] for name in names]
    biases = [own.get(f"{name}.bias", np.zeros(len(weights[0]))) for name in names]
    return [*weights, biases]


def _by_prefix(checkpoint: Any, layer: int) -> Any:
    """Find out what stands in front, then look names up."""
    for stem, names in (
        ("encoder.layer", [*_BERT, _OUT["bert"]]),
        ("layers", [*_LLAMA, _OUT["llama"]]),
        ("h", ["attn.c_attn", "attn.c_proj"]),
    ):
        end = f".{stem}.{layer}.{names[0]}.weight"
        for known in checkpoint:
            if f".{known}".endswith(end):
                begin = known[: len(known) - len(f"{names[0]}.weight")]
                ws = [checkpoint[f"{begin}{name}.weight"] for name in names]
                d = ws[-1].shape[0]
                bs = [checkpoint.get(f"{begin}{name}.bias", np.zeros(d)) for name in names]
    if len(ws) == 2:
        ws = [ws[0][:, i * d : (i + 1) * d].T for i in range(3)] + [ws[1].T]
        return (*ws, np.concatenate(bs).reshape(4, d))
    return (*ws, np.stack(bs))


def _by_torch(checkpoint: Any, layer: int) -> Any:
    import torch

    family = _family(checkpoint)
    stem = _STEM[family].format(layer)
    own = {name.split(stem, 1)[1]: w for name, w in checkpoint.items() if f".{stem}" in f".{name}"}
    if family == "gpt2":
        weights = [*own["attn.c_attn.weight"].chunk(3, dim=1), own["attn.c_proj.weight"]]
        biases = torch.cat([own["attn.c_attn.bias"], own["attn.c_proj.bias"]]).view(4, -1)
        return (*[w.mT for w in weights], biases)
    names = [*(_BERT if family == "bert" else _LLAMA), _OUT[family]]
    weights = [own[f"{name}.weight"] for name in names]
    zeros = torch.zeros_like(weights[0][0])
    return (*weights, torch.stack([own.get(f"{name}.bias", zeros) for name in names]))


NAMES = Exercise(
    id="15.names",
    function="attention_weights",
    reference=attention_weights,
    cases=_CASES,
    returns=("w_q", "w_k", "w_v", "w_o", "biases"),
    misconceptions=_WRONG,
    alternatives=[
        ("a pattern", _by_regex),
        ("prefixes tried", _by_prefix),
        Alternative(name="torch", right=_by_torch, backend="torch"),
    ],
    hints=[
        "Tell the family by a name that only it has. Then collect what belongs to the layer, by "
        "what stands behind its number, and read from that.",
        'A layer\'s names hold `".layer.1."` or the like, with a dot on either side of the number: '
        "put a dot before each name, too, and a prefix doesn't matter.",
        "GPT-2: `np.split(w.T, 3)` gives the three matrices, and `np.split(b, 3)` their biases. "
        'Others: `own.get(f"{name}.bias", np.zeros(d))`.',
    ],
    points=4,
    minutes=30,
    difficulty=2,
)
