"""The exercises of chapter 13: a decoder's parts, its block, its size, its loss, and its family.

The parts are in `gated_networks`, the block in `llama_blocks`, the loss and the families in
`next_tokens`, the program with faults in `gpt2_bugs`.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from course_lib import accounting
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.gated_networks import ADD_NORM, GATED
from course_lib.grading.exercises.gpt2_bugs import BROKEN, GPT2_BLOCK
from course_lib.grading.exercises.llama_blocks import LLAMA_BLOCK
from course_lib.grading.exercises.next_tokens import LOSS, PROBE
from course_lib.grading.model import Alternative, Exercise

__all__ = ["BROKEN", "EXERCISES", "llama_parameters"]


# -- 13.parameters ---------------------------------------------------------------------------------

Config = Mapping[str, Any]


def llama_parameters(config: Config) -> tuple[int, int, int, int, int]:
    """Count what a checkpoint of Llama's kind holds, from what its config.json says.

    Parameters
    ----------
    config : dictionary
        By the names of transformers; some keys may be missing.

    Returns
    -------
    embeddings, attention, mlp, norms, total : int
        Of the whole model.
    """
    embeddings, attention, mlp, norms, total = _counted()(config)
    return embeddings, attention, mlp, norms, total


def _heads(config: Config) -> tuple[int, int, int, int]:
    """Return the width, heads of queries and of keys, and the width of a head."""
    d, h = config["hidden_size"], config["num_attention_heads"]
    h_kv = config.get("num_key_value_heads")
    width = config.get("head_dim")
    return d, h, h if h_kv is None else h_kv, d // h if width is None else width


def _no_groups(config: Config) -> tuple[int, int, int, int]:
    d, h, _, width = _heads(config)
    return d, h, h, width


def _always_divided(config: Config) -> tuple[int, int, int, int]:
    d, h, h_kv, _ = _heads(config)
    return d, h, h_kv, d // h


def _one_missing(config: Config) -> tuple[int, int, int, int]:
    d, h, _, width = _heads(config)
    h_kv = config.get("num_key_value_heads")
    return d, h, 1 if h_kv is None else h_kv, width


def _by_get(config: Config) -> tuple[int, int, int, int]:
    d, h = config["hidden_size"], config["num_attention_heads"]
    return d, h, config.get("num_key_value_heads", h), config.get("head_dim", d // h)


def _by_keys(config: Config) -> tuple[int, int, int, int]:
    d, h, h_kv, _ = _heads(config)
    width = config.get("head_dim")
    return d, h, h_kv, d // h_kv if width is None else width


def _by_key(config: Config) -> tuple[int, int, int, int]:
    d, h = config["hidden_size"], config["num_attention_heads"]
    return d, h, config["num_key_value_heads"], config["head_dim"]


_Rule = Callable[..., int]


def _counted(
    *,
    heads: Callable[[Config], tuple[int, int, int, int]] = _heads,
    tables: _Rule = lambda v, d, tied: v * d if tied else 2 * v * d,
    attention: _Rule = lambda d, h, h_kv, width: 2 * d * h * width + 2 * d * h_kv * width,
    mlp: _Rule = lambda d, d_ff: 3 * d * d_ff,
    norms: _Rule = lambda d, n_layers: (2 * n_layers + 1) * d,
    layers: _Rule = lambda n_layers: n_layers,
    total: Callable[..., int] = lambda *parts: sum(parts),
    tied_of: Callable[[Config], bool] = lambda config: bool(config.get("tie_word_embeddings")),
) -> Callable[..., Any]:
    """Return the count with some lines replaced."""

    def count(config: Config) -> Any:
        d, h, h_kv, width = heads(config)
        n = layers(config["num_hidden_layers"])
        parts = (
            tables(config["vocab_size"], d, tied_of(config)),
            n * attention(d, h, h_kv, width),
            n * mlp(d, config["intermediate_size"]),
            norms(d, config["num_hidden_layers"]),
        )
        return (*parts, total(*parts))

    return count


def _one_layer_of(part: int) -> Callable[[Config], Any]:
    """Count one of the parts for a single layer, and sum up."""

    def count(config: Config) -> Any:
        parts = list(_counted()(config)[:4])
        parts[part] //= config["num_hidden_layers"]
        return (*parts, sum(parts))

    return count


def _of_one_layer(config: Config) -> Any:
    embeddings, attention, mlp, norms, total = _counted()(config)
    n_layers = config["num_hidden_layers"]
    return embeddings, attention // n_layers, mlp // n_layers, norms, total


def _positions_learned(config: Config) -> Any:
    embeddings, *parts, total = _counted()(config)
    table = (config.get("max_position_embeddings") or 0) * config["hidden_size"]
    return (embeddings + table, *parts, total + table)


def _head_in_total(config: Config) -> Any:
    return (config["vocab_size"] * config["hidden_size"], *_counted()(config)[1:])


def _config(v: int, d: int, n_layers: int, h: int, d_ff: int, **more: Any) -> dict[str, Any]:
    return {
        "config": {
            "vocab_size": v,
            "hidden_size": d,
            "num_hidden_layers": n_layers,
            "num_attention_heads": h,
            "intermediate_size": d_ff,
            **more,
        }
    }


_CASES = [
    case(
        "5 tokens, one layer of width 4 | small enough for paper",
        _config(5, 4, 1, 2, 6, num_key_value_heads=2, tie_word_embeddings=False),
    ),
    case(
        "one table for both | it's counted once",
        _config(7, 6, 2, 3, 10, num_key_value_heads=3, tie_word_embeddings=True),
    ),
    case(
        "grouped keys, 8 heads on 2 | two matrices become narrower",
        _config(11, 16, 3, 8, 20, num_key_value_heads=2, tie_word_embeddings=False),
    ),
    case(
        "keys that are missing | what they mean then",
        _config(9, 16, 2, 4, 15),
    ),
    case(
        "heads of a width of their own | d/h isn't asked",
        _config(13, 20, 3, 4, 24, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True),
    ),
    case(
        "keys that are null | as if they were missing",
        _config(
            10, 24, 4, 6, 30, num_key_value_heads=None, head_dim=None, tie_word_embeddings=None
        ),
    ),
    case(
        "Llama 7B | 6,738,415,616",
        _config(32_000, 4096, 32, 32, 11_008, max_position_embeddings=2048),
    ),
    case(
        "Llama 3 8B | 8 heads of keys, a larger vocabulary",
        _config(128_256, 4096, 32, 32, 14_336, num_key_value_heads=8, tie_word_embeddings=False),
    ),
]


_WRONG = [
    wrong(
        _counted(heads=_no_groups),
        "no groups | You count as many heads of keys as of queries. → Which key of the dictionary "
        "does your function never use?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: 3 * d * h * width + d * h_kv * width),
        "only one of keys and values grouped | You make one matrix narrower where keys are "
        "grouped. → Which two matrices make what a group shares?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: d * h * width + 3 * d * h_kv * width),
        "one of the wide matrices grouped | You make three matrices narrower where keys are "
        "grouped. → How wide is what `o_proj` reads?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: 4 * d * h_kv * width),
        "everything grouped | You make all four matrices narrower where keys are grouped. → How "
        "many heads of queries are left?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: 2 * d * h * width + 2 * d * width),
        "one head of keys | You count one head of keys and values, whatever the dictionary says. → "
        "How many groups are there?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: (2 * d * h + 2 * d * (h // h_kv)) * width),
        "the size of a group | You count h/h_kv heads of keys. That's how many query heads "
        "share one. → How many are there to share?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: 2 * d * d + 2 * d * h_kv * width),
        "queries of width d | Your matrices of queries and outputs are d × d. Heads with a "
        "width of their own make them wider or narrower. → How many columns do h heads have?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: d * h * width + d * d + 2 * d * h_kv * width),
        "o_proj of width d | One of your matrices `q_proj` and `o_proj` is d × d. Where heads have "
        "a width of their own, neither is. → How many numbers do all heads together hand to "
        "`o_proj`?",
    ),
    wrong(
        _counted(attention=lambda d, h, h_kv, width: d * h * width + 2 * d * h_kv * width),
        "no output matrix | You count three matrices of attention in each layer, and there are "
        "four. → What mixes the heads at the end?",
    ),
    wrong(
        _counted(heads=_always_divided),
        "d/h for the width of a head | You divide d by h where the dictionary gives the width of a "
        "head. → Which key says it?",
    ),
    wrong(
        _counted(heads=_one_missing),
        "one head of keys where none are named | Where `num_key_value_heads` is missing you "
        "count one. Such checkpoints are older than grouping. → How many heads of keys has "
        "ordinary multi-head attention?",
    ),
    wrong(
        _counted(heads=_by_get),
        "null isn't missing | Where a value is null your program stops: `get` returns its "
        "default for missing keys only. → What does `config.get(name, default)` return if the "
        "value is None?",
    ),
    wrong(
        _counted(heads=_by_key),
        "keys that are missing | Your program stops where a key is missing. → Which method of a "
        "dictionary returns None then?",
    ),
    wrong(
        _counted(tied_of=lambda config: bool(config.get("tie_word_embeddings", True))),
        "tied where nothing is said | Where `tie_word_embeddings` is missing you count one "
        "table. The text means two by that. → What does its table list under missing keys?",
    ),
    wrong(
        _counted(tied_of=lambda config: config.get("tie_word_embeddings", False) is not False),
        "null taken for tied | Where `tie_word_embeddings` is null you count one table. Null "
        "means the same as a missing key. → What is `None is not False`?",
    ),
    wrong(
        _counted(tied_of=lambda config: config.get("tie_word_embeddings") is not False),
        "tied unless it says false | Where `tie_word_embeddings` is missing or null you count "
        "one table. The text's table means two by that. → What does `config.get(name)` return "
        "for a missing key, and is that False?",
    ),
    wrong(
        _positions_learned,
        "a table of positions | You count a table for `max_position_embeddings`. Llama rotates "
        "queries and keys by their positions and learns nothing for them. → Which keys does the "
        "text list?",
    ),
    wrong(
        _head_in_total,
        "the head in the total only | Your total is right. In `embeddings` the head's table is "
        "missing. → What does the text count under embeddings?",
    ),
    wrong(
        _counted(tables=lambda v, d, tied: v * d),
        "one table | You count one table of embeddings, whether it's tied or not. → What are "
        "logits made with in a model that isn't tied?",
    ),
    wrong(
        _counted(tables=lambda v, d, tied: 2 * v * d),
        "two tables | You count two tables of embeddings, whether they're tied or not. → How "
        "often is a table stored that both embeds tokens and makes logits?",
    ),
    wrong(
        _counted(tables=lambda v, d, tied: 2 * v * d if tied else v * d),
        "tied and untied changed places | You count two tables where embeddings are tied, and "
        "one where they aren't. → What does tying save?",
    ),
    wrong(
        _counted(tables=lambda v, d, tied: v * d if tied else 2 * v * d + v),
        "a bias for the logits | Your head has a bias. Llama has none anywhere. → What would a "
        "tied head do with it?",
    ),
    wrong(
        _counted(mlp=lambda d, d_ff: 2 * d * d_ff),
        "two matrices in the network | You count two matrices for the network in each layer, as "
        "GPT-2 has. → Which third one does a gate need?",
    ),
    wrong(
        _counted(mlp=lambda d, d_ff: 3 * d * d_ff + 2 * d_ff + d),
        "biases in the network | Your count of the network has biases in it. Llama has none. → "
        "What is learned in a gated network?",
    ),
    wrong(
        _counted(mlp=lambda d, d_ff: 8 * d * d),
        "8 d² for the network | You count 8 d² for the network, which holds for d_ff = 4 d and "
        "two matrices. → Which key gives its width?",
    ),
    wrong(
        _counted(
            attention=lambda d, h, h_kv, width: 2 * (d + 1) * h * width + 2 * (d + 1) * h_kv * width
        ),
        "biases in attention | Your count of attention's projections has biases in it. Llama's "
        "have none. → What is learned in a projection?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: 2 * n_layers * d),
        "no last norm | You count two norms in each layer and nothing at the end. → What stands "
        "between the last block and the logits?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: 2 * n_layers + 1),
        "norms counted, not their numbers | You count how many norms there are, and not how many "
        "numbers they hold. → How long is the γ of one norm?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: (n_layers + 1) * d),
        "one norm a layer | You count one norm in each layer, and the last one. → How many "
        "sublayers read through a norm?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: 2 * (2 * n_layers + 1) * d),
        "γ and β | You count two vectors for each norm, as layer norm has. → Which one does "
        "RMSNorm have?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: 3 * n_layers * d),
        "a last norm in each layer | You count three norms in each layer. The last norm comes "
        "once, after all of them. → What changes with a second layer?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: 0),
        "norms left out | You count no norms. They're few numbers, but a checkpoint holds them. "
        "→ What is learned in RMSNorm?",
    ),
    wrong(
        _counted(layers=lambda n_layers: 1),
        "one layer | You count attention and network for a single layer. → How many layers has "
        "the model?",
    ),
    wrong(
        _counted(heads=_by_keys),
        "d/h_kv for the width of a head | You divide d by the number of heads of keys. → Whose "
        "heads share the width d, if nothing else is said?",
    ),
    wrong(
        _one_layer_of(1),
        "attention of one layer | Your networks are those of the whole model, and attention is "
        "that of one layer. → How many layers has the model?",
    ),
    wrong(
        _one_layer_of(2),
        "the network of one layer | Your attention is that of the whole model, and the network is "
        "that of one layer. → How many layers has the model?",
    ),
    wrong(
        _of_one_layer,
        "parts of one layer | Your total is right, but attention and network are those of one "
        "layer. → For what are all five numbers to be?",
    ),
    wrong(
        _counted(norms=lambda d, n_layers: d),
        "the last norm alone | You count the norm after the last block, but none inside the "
        "blocks. → How many does a block have?",
    ),
    wrong(
        _counted(total=lambda tables, attention, mlp, norms: attention + mlp + norms),
        "a total without embeddings | The parts are right, but the total leaves the tables out. "
        "→ Are the tables learned?",
    ),
    wrong(
        _counted(total=lambda tables, attention, mlp, norms: tables + attention + mlp),
        "a total without norms | The parts are right, but the total leaves the norms out. → "
        "What does `norms` hold?",
    ),
]


def _of_shapes(config: Any) -> Any:
    """List the tensors of the checkpoint."""
    d, h, h_kv, width = _heads(config)
    d_ff, v = config["intermediate_size"], config["vocab_size"]
    shapes = {"embeddings": [(v, d)], "attention": [], "mlp": [], "norms": [(d, 1)]}
    if not config.get("tie_word_embeddings"):
        shapes["embeddings"].append((d, v))
    for _ in range(config["num_hidden_layers"]):
        shapes["attention"] += [(h * width, d), (h_kv * width, d), (h_kv * width, d)]
        shapes["attention"].append((d, h * width))
        shapes["mlp"] += [(d_ff, d), (d_ff, d), (d, d_ff)]
        shapes["norms"] += [(d, 1)] * 2
    parts = [sum(a * b for a, b in tensors) for tensors in shapes.values()]
    return [*parts, sum(parts)]


def _of_ratios(config: Any) -> Any:
    """Take grouped matrices for a share of the others."""
    d, n = config["hidden_size"], config["num_hidden_layers"]
    h = config["num_attention_heads"]
    h_kv, width = config.get("num_key_value_heads") or h, config.get("head_dim") or d / h
    tables = config["vocab_size"] * d * (2 - bool(config.get("tie_word_embeddings")))
    attention = n * 2 * d * h * width * (1 + h_kv / h)
    mlp, norms = 3 * n * d * config["intermediate_size"], n * 2 * d + d
    return tables, round(attention), mlp, norms, tables + round(attention) + mlp + norms


def _of_torch(config: Any) -> Any:
    import torch

    d, h, h_kv, width = _heads(config)
    d_ff, n = config["intermediate_size"], config["num_hidden_layers"]
    with torch.device("meta"):
        table = torch.empty(config["vocab_size"], d)
        linear = [torch.empty(h * width, d)] * 2 + [torch.empty(h_kv * width, d)] * 2
        network = [torch.empty(d_ff, d)] * 3
    tables = table.numel() * (1 if config.get("tie_word_embeddings") else 2)
    attention, mlp = (n * sum(w.numel() for w in part) for part in (linear, network))
    norms = d * (2 * n + 1)
    return torch.tensor(tables), attention, mlp, norms, tables + attention + mlp + norms


_PARAMETERS = Exercise(
    id="13.parameters",
    function="llama_parameters",
    reference=llama_parameters,
    guarded=[
        accounting.decoder_only,
        accounting.decoder_block,
        accounting.grouped_query_attention,
        accounting.swiglu,
    ],
    cases=_CASES,
    returns=("embeddings", "attention", "mlp", "norms", "total"),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="the shapes of all tensors", right=_of_shapes),
        Alternative(name="shares", right=_of_ratios),
        Alternative(name="torch", right=_of_torch, backend="torch"),
    ],
    hints=[
        "List the tensors of one layer with their shapes: four of attention, three of the network, "
        "two norms. Then what there is once: tables, and a last norm.",
        "Queries have h heads and keys h_kv, all of one width. `config.get(name)` is None where a "
        "key is missing *or* null.",
        "With w for the width of a head, a layer has 2·d·h·w + 2·d·h_kv·w numbers in attention, "
        "3·d·d_ff in the network, and 2·d in norms.",
    ],
    points=3,
    minutes=20,
    difficulty=1,
)


EXERCISES = [GATED, ADD_NORM, LLAMA_BLOCK, _PARAMETERS, LOSS, PROBE, GPT2_BLOCK]
