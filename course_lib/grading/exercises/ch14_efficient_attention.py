"""The exercises of chapter 14: a cache that fits, shared keys, a softmax in parts, and tiles.

Shared heads are in `shared_heads`, the softmax in `online_softmax`, tiles in `attention_tiles`.

Every misconception here is something people write; each is the right computation with one thing
wrong, so that its output can be recognised in a student's. The alternatives are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from course_lib import accounting
from course_lib.grading.exercises.attention_tiles import TILED, TILES
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.online_softmax import MERGE, UPDATE
from course_lib.grading.exercises.shared_heads import GROUPED, POOL
from course_lib.grading.model import Alternative, Exercise

__all__ = ["EXERCISES", "cache_plan"]


# -- 14.cache --------------------------------------------------------------------------------------

Config = Mapping[str, Any]


def cache_plan(
    config: Config, n_tokens: int, memory: int, n_parameters: int
) -> tuple[int, int, int]:
    """Tell how many texts fit beside a model, from what its config.json says.

    Parameters
    ----------
    config : dictionary
        By the names of transformers; some keys may be missing, or null.
    n_tokens : int
        Length of each text.
    memory : int
        Bytes that there are.
    n_parameters : int
        The model's.

    Returns
    -------
    per_token, cache, texts : int
        Bytes for a token; bytes for a text; how many texts fit.
    """
    per_token, cache, texts = _planned()(config, n_tokens, memory, n_parameters)
    return per_token, cache, texts


def _heads(config: Config) -> tuple[int, int]:
    """Return the heads of keys, and the width of a head."""
    h_kv, width = config.get("num_key_value_heads"), config.get("head_dim")
    h = config["num_attention_heads"]
    return h if h_kv is None else h_kv, config["hidden_size"] // h if width is None else width


def _query_heads(config: Config) -> tuple[int, int]:
    return config["num_attention_heads"], _heads(config)[1]


def _always_divided(config: Config) -> tuple[int, int]:
    return _heads(config)[0], config["hidden_size"] // config["num_attention_heads"]


def _divided_by_keys(config: Config) -> tuple[int, int]:
    h_kv, _ = _heads(config)
    width = config.get("head_dim")
    return h_kv, config["hidden_size"] // h_kv if width is None else width


def _one_where_missing(config: Config) -> tuple[int, int]:
    return config.get("num_key_value_heads") or 1, _heads(config)[1]


def _by_get(config: Config) -> tuple[int, int]:
    h = config["num_attention_heads"]
    return config.get("num_key_value_heads", h), config.get("head_dim", config["hidden_size"] // h)


def _width_by_get(config: Config) -> tuple[int, int]:
    d, h = config["hidden_size"], config["num_attention_heads"]
    return _heads(config)[0], config.get("head_dim", d // h)


def _by_key(config: Config) -> tuple[int, int]:
    return config["num_key_value_heads"], config["head_dim"]


def _in_window(n: int, window: int | None) -> int:
    return n if window is None else min(n, window)


def _beside(memory: int, weights: int, cache: int) -> int:
    return max(memory - weights, 0) // cache


def _planned(
    *,
    heads: Callable[[Config], tuple[int, int]] = _heads,
    token: Callable[..., Any] = lambda n_layers, h_kv, width, config: 2 * n_layers * h_kv * width,
    size: float = 2,
    kept: Callable[[int, int | None], int] = _in_window,
    window: Callable[[Config], int | None] = lambda config: config.get("sliding_window"),
    weights: Callable[[int], int] = lambda n_parameters: 2 * n_parameters,
    fit: Callable[[int, int, int], Any] = _beside,
    finish: Callable[..., Any] = lambda per_token, cache, texts: (per_token, cache, texts),
) -> Callable[..., Any]:
    """Return the plan with some lines replaced."""

    def plan(config: Config, n_tokens: int, memory: int, n_parameters: int) -> Any:
        per_token = size * token(config["num_hidden_layers"], *heads(config), config)
        cache = per_token * kept(n_tokens, window(config))
        return finish(per_token, cache, fit(memory, weights(n_parameters), cache))

    return plan


def _config(n_layers: int, d: int, h: int, **more: Any) -> dict[str, Any]:
    sizes = {"num_hidden_layers": n_layers, "hidden_size": d, "num_attention_heads": h}
    return sizes | more


def _plan(config: dict[str, Any], n_tokens: int, memory: int, n_parameters: int) -> dict[str, Any]:
    return {
        "config": config,
        "n_tokens": n_tokens,
        "memory": memory,
        "n_parameters": n_parameters,
    }


_CASES = [
    case(
        "one layer, one head of 4, 3 tokens | small enough for paper",
        _plan(_config(1, 4, 1, num_key_value_heads=1, head_dim=4), 3, 1000, 100),
    ),
    case(
        "6 layers, 8 heads on 2 of keys | what is shared is kept once",
        _plan(_config(6, 96, 8, num_key_value_heads=2, head_dim=12), 50, 200_000, 4000),
    ),
    case("keys that are missing | what they mean then", _plan(_config(3, 60, 5), 7, 30_000, 9000)),
    case(
        "keys that are null, a wide head | not d/h where it's given",
        _plan(
            _config(5, 60, 6, num_key_value_heads=None, head_dim=16, sliding_window=None),
            11, 90_000, 12_345,
        ),
    ),
    case(
        "a window of 40, 100 tokens | what is too old goes",
        _plan(_config(4, 32, 4, num_key_value_heads=2, sliding_window=40), 100, 64_000, 1000),
    ),
    case(
        "a window that is longer than the text | it cuts nothing",
        _plan(
            _config(2, 48, 6, num_key_value_heads=3, head_dim=None, sliding_window=500),
            30, 50_000, 2000,
        ),
    ),
    case(
        "weights that don't fit | no text does",
        _plan(_config(8, 128, 8, num_key_value_heads=4), 20, 1_000_000, 600_000),
    ),
    case(
        "Llama 7B, 32,768 tokens, 80 GB | 512 KiB a token, 16 GiB a text",
        _plan(
            _config(32, 4096, 32, max_position_embeddings=4096),
            32_768, 80_000_000_000, 6_738_415_616,
        ),
    ),
]  # fmt: skip


def _whole_texts(config: Config, n_tokens: int, memory: int, n_parameters: int) -> Any:
    per_token, cache, _ = _planned()(config, n_tokens, memory, n_parameters)
    return per_token, cache, _beside(memory, 2 * n_parameters, per_token * n_tokens)


def _spread_out(config: Config, n_tokens: int, memory: int, n_parameters: int) -> Any:
    _, cache, texts = _planned()(config, n_tokens, memory, n_parameters)
    return cache // n_tokens, cache, texts


def _tokens_that_fit(config: Config, n_tokens: int, memory: int, n_parameters: int) -> Any:
    per_token, cache, _ = _planned()(config, n_tokens, memory, n_parameters)
    return per_token, cache, _beside(memory, 2 * n_parameters, per_token)


def _weights_of_each_layer(config: Config, n_tokens: int, memory: int, n_parameters: int) -> Any:
    return _planned()(config, n_tokens, memory, n_parameters * config["num_hidden_layers"])


def _longest_trained(config: Config, n_tokens: int, memory: int, n_parameters: int) -> Any:
    longest = config.get("max_position_embeddings") or n_tokens
    return _planned()(config, min(n_tokens, longest), memory, n_parameters)


_WRONG = [
    wrong(
        _planned(token=lambda n_layers, h_kv, width, config: n_layers * h_kv * width),
        "half of it | Your cache is half as large as it should be. Keys and values are kept, in 2 "
        "bytes a number. → Which of the two 2s is missing?",
    ),
    wrong(
        _planned(heads=_query_heads),
        "all query heads | You count a head of keys for each query head. → Which key of the "
        "dictionary says how many heads have keys of their own?",
    ),
    wrong(
        _planned(heads=lambda config: (1, _heads(config)[1])),
        "one head of keys | You count one head of keys and values, whatever the dictionary says. → "
        "Which of its keys says how many there are?",
    ),
    wrong(
        _planned(
            heads=lambda config: (
                config["num_attention_heads"] // _heads(config)[0],
                _heads(config)[1],
            )
        ),
        "the size of a group | You count h/h_kv heads of keys: how many query heads share one. → "
        "How many are there to be shared?",
    ),
    wrong(
        _planned(
            token=lambda n_layers, h_kv, width, config: (
                n_layers * width * (config["num_attention_heads"] + h_kv)
            )
        ),
        "only one of keys and values shared | You count keys or values for all query heads, and "
        "the others for those that share. → What does a group share?",
    ),
    wrong(
        _planned(token=lambda n_layers, h_kv, width, config: 2 * n_layers * config["hidden_size"]),
        "2 d numbers a layer | You count d numbers for keys and d for values. That's right where "
        "all heads have their own and are d/h wide. → How many columns have the shared ones?",
    ),
    wrong(
        _planned(
            token=lambda n_layers, h_kv, width, config: (
                n_layers * width * (config["num_attention_heads"] + 2 * h_kv)
            )
        ),
        "queries kept | You count queries as well. No later token asks for them. → What does a new "
        "token need of the old ones?",
    ),
    wrong(
        _planned(token=lambda n_layers, h_kv, width, config: 2 * h_kv * width),
        "one layer | Your numbers are those of a single layer. → Which layers keep keys?",
    ),
    wrong(
        _planned(heads=_always_divided),
        "d/h for the width of a head | You divide d by h where the dictionary gives the width of a "
        "head. → Which key says it?",
    ),
    wrong(
        _planned(heads=_divided_by_keys),
        "d/h_kv for the width of a head | You divide d by the number of heads of keys. → Whose "
        "heads share the width d, if nothing else is said?",
    ),
    wrong(
        _planned(heads=_one_where_missing),
        "one head of keys where none are named | Where `num_key_value_heads` is missing you count "
        "one. Such files are older than sharing. → How many heads of keys has ordinary multi-head "
        "attention?",
    ),
    wrong(
        _planned(heads=_by_get),
        "null isn't missing | Where a key is there and null, your program stops. `in` finds such a "
        "key, and the default of `get` is for keys that are missing. → What does "
        "`config.get(name, default)` return where null is given?",
    ),
    wrong(
        _planned(heads=_width_by_get),
        "null for a width | Where `head_dim` is there and null, your program stops, as you treat "
        "it as a key that is either given or missing. → What is the value of a key that is null?",
    ),
    wrong(
        _planned(heads=_by_key),
        "keys that are missing | Your program stops where a key is missing. → Which method of a "
        "dictionary doesn't mind?",
    ),
    wrong(
        _planned(window=lambda config: config["sliding_window"]),
        "no window named | Your program stops where the dictionary says nothing of a window. → "
        "Which method of a dictionary doesn't mind?",
    ),
    wrong(
        _planned(size=1, weights=lambda n_parameters: n_parameters),
        "numbers for bytes | You count numbers, of the cache and of the model. → How many bytes "
        "are 16 bits?",
    ),
    wrong(
        _planned(size=4, weights=lambda n_parameters: 4 * n_parameters),
        "32 bits | You take 4 bytes for each number of the cache and of the model. → How many "
        "bytes are 16 bits?",
    ),
    wrong(
        _planned(size=4),
        "four bytes a number | You take 4 bytes for each number, as in float32. → How many bytes "
        "are 16 bits?",
    ),
    wrong(
        _planned(size=16, weights=lambda n_parameters: 16 * n_parameters),
        "bits | You count bits, of the cache and of the model. → How many bytes are 16 bits?",
    ),
    wrong(
        _planned(kept=lambda n, window: n),
        "no window | Your cache grows with the text, whatever the window. → Which tokens can no "
        "later one see?",
    ),
    wrong(
        _planned(kept=lambda n, window: n if window is None else window),
        "the whole window | You count the window even where the text is shorter. → What is kept of "
        "30 tokens where a window has room for 500?",
    ),
    wrong(
        _planned(kept=lambda n, window: n if window is None else max(n, window)),
        "the larger of the two | You take the larger of text and window. → How many tokens are "
        "kept of 100, with a window of 40?",
    ),
    wrong(
        _planned(kept=lambda n, window: n if window is None else min(n, window - 1)),
        "a window without the token itself | You keep window − 1 tokens. The newest one's keys are "
        "in the cache as well. → Whom does a token see in a window of 1?",
    ),
    wrong(
        _planned(kept=lambda n, window: n if window is None else min(n, window + 1)),
        "a window beside the token itself | You keep window + 1 tokens. The window counts the "
        "token itself. → Whom does a token see in a window of 1?",
    ),
    wrong(
        _longest_trained,
        "the length of training | You cut the text at `max_position_embeddings`, the length that "
        "the model was trained with. → How many tokens has the text that you are asked about?",
    ),
    wrong(
        _planned(weights=lambda n_parameters: 0),
        "no weights | You fill all the memory with caches, as if the model took none. → What must "
        "be there before the first text?",
    ),
    wrong(
        _planned(weights=lambda n_parameters: n_parameters),
        "one byte a parameter | You subtract the number of parameters from bytes. → How many bytes "
        "does each take?",
    ),
    wrong(
        _planned(weights=lambda n_parameters: 4 * n_parameters),
        "four bytes a parameter | You take 4 bytes for each parameter, as in float32. → How many "
        "bytes are 16 bits?",
    ),
    wrong(
        _planned(weights=lambda n_parameters: 16 * n_parameters),
        "bits of the weights | You subtract the weights, counted in bits, from bytes. → How many "
        "bytes are 16 bits?",
    ),
    wrong(
        _weights_of_each_layer,
        "weights times layers | You count the model's parameters once for each layer. → Of how "
        "many layers are they the parameters?",
    ),
    wrong(
        _tokens_that_fit,
        "tokens for texts | Your last number is how many tokens fit beside the weights. → How many "
        "bytes does a whole text take?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: memory // (weights + cache)),
        "weights for each text | You count the weights with every text. All texts share them. → "
        "What is there once, and what for each text?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: (memory - weights) // cache),
        "fewer than no texts | Where the weights don't fit, your number of texts is negative. → "
        "How many texts fit then?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: int((memory - weights) / cache)),
        "a negative quotient cut off | Where the weights don't fit, your number of texts is below "
        "0, though `int` cuts its fraction off. → Which is the smallest number that you may "
        "return?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: abs(memory - weights) // cache),
        "memory that is missing | Where the weights don't fit, you fill what is missing with "
        "texts. → How many texts fit then?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: -(-max(memory - weights, 0) // cache)),
        "rounded up | You round the number of texts up. The last one fits in part. → In which "
        "direction is it rounded?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: max(memory - weights, 0) / cache),
        "parts of texts | Your number of texts has a fraction: the last one fits in part. → How "
        "many fit as a whole?",
    ),
    wrong(
        _planned(fit=lambda memory, weights, cache: round(max(memory - weights, 0) / cache)),
        "rounded to the nearest | You round the number of texts to the nearest. → Does a text fit "
        "if there's room for nine tenths of it?",
    ),
    wrong(
        _planned(finish=lambda per_token, cache, texts: (cache, per_token, texts)),
        "the text first | You return the bytes of a text first, and those of a token second. → "
        "Which order is asked for?",
    ),
    wrong(
        _planned(finish=lambda per_token, cache, texts: (per_token, cache * texts, texts)),
        "the caches of all texts | Your second number is for all texts that fit. → For how many "
        "texts is it to be?",
    ),
    wrong(
        _whole_texts,
        "texts without a window | Your cache is right, and the number of texts is what would fit "
        "if all tokens were kept. → Which of your numbers do you divide by?",
    ),
    wrong(
        _spread_out,
        "a text's bytes by its tokens | Your first number is the cache divided by all tokens, also "
        "by those that a window has let go. → What does one more token take that is kept?",
    ),
]


def _of_shapes(config: Any, n_tokens: int, memory: int, n_parameters: int) -> Any:
    """Ask arrays of the caches' shapes, which take no memory, for their size."""
    h, d = config["num_attention_heads"], config["hidden_size"]
    h_kv = config.get("num_key_value_heads") or h
    width = config.get("head_dim") or d // h
    number = np.float16(0)

    def nbytes(n: int) -> int:
        shape = (config["num_hidden_layers"], 2, h_kv, n, width)
        return int(np.broadcast_to(number, shape).size) * number.nbytes

    cache = nbytes(min(n_tokens, config.get("sliding_window") or n_tokens))
    texts, left = 0, memory - 2 * n_parameters
    while left >= cache:
        texts, left = texts + 1, left - cache
    return nbytes(1), cache, texts


def _in_pieces(config: Any, n_tokens: int, memory: int, n_parameters: int) -> Any:
    h = config["num_attention_heads"]
    defaults = {"num_key_value_heads": h, "head_dim": config["hidden_size"] / h}
    defaults["sliding_window"] = n_tokens
    given = defaults | {name: x for name, x in config.items() if x is not None}
    a_layer = 4 * given["num_key_value_heads"] * given["head_dim"]
    a_token = sum(a_layer for _ in range(given["num_hidden_layers"]))
    cache = a_token * min(given["sliding_window"], n_tokens)
    free = memory - 2 * n_parameters
    return int(a_token), int(cache), 0 if free < cache else int(np.floor(free / cache))


def _of_torch(config: Any, n_tokens: int, memory: int, n_parameters: int) -> Any:
    import torch

    h, h_kv = config["num_attention_heads"], config.get("num_key_value_heads")
    width = config.get("head_dim") or config["hidden_size"] // h
    window = config.get("sliding_window")
    with torch.device("meta"):
        keys = torch.empty(config["num_hidden_layers"], h_kv or h, width, dtype=torch.bfloat16)
    a_token = 2 * keys.nbytes
    cache = a_token * (n_tokens if window is None else min(n_tokens, window))
    free = torch.tensor(memory - 2 * n_parameters)
    return torch.tensor(a_token), torch.tensor(cache), free.clamp(min=0) // cache


_CACHE = Exercise(
    id="14.cache",
    function="cache_plan",
    reference=cache_plan,
    guarded=[accounting.kv_cache],
    cases=_CASES,
    returns=("per_token", "cache", "texts"),
    misconceptions=_WRONG,
    alternatives=[
        Alternative(name="shapes", right=_of_shapes),
        Alternative(name="defaults", right=_in_pieces),
        Alternative(name="torch", right=_of_torch, backend="torch"),
    ],
    hints=[
        "Each layer keeps, for every token, a key and a value for each head that has keys of its "
        "own. `config.get(name)` is None where a key is missing *or* null.",
        "A token takes 2 · layers · h_kv · width numbers of 2 bytes. Of a text, min(n, window) "
        "tokens are kept.",
        "`max(memory − 2 · n_parameters, 0) // cache` texts fit: the weights are there once.",
    ],
    points=3,
    minutes=15,
    difficulty=1,
)


EXERCISES = [_CACHE, GROUPED, POOL, UPDATE, MERGE, TILES, TILED]
