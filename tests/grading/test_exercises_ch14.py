"""What only chapter 14's exercises promise."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from course_lib import accounting
from course_lib.grading import check, run, values
from course_lib.grading.exercises import attention_tiles, online_softmax, shared_heads
from course_lib.grading.exercises import ch14_efficient_attention as ch14
from course_lib.grading.model import Case
from course_lib.reference import flash, grouped_query
from course_lib.reference.attention import causal_mask, scaled_dot_product_attention
from tests.grading.course import answers, manuscript

CACHE, GROUPED, POOL, UPDATE, MERGE, TILES, TILED = ch14.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


def seen(n_q: int, n_k: int, window: int | None) -> Any:
    mask = causal_mask(n_q, n_k)
    if window is None:
        return mask
    back = np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)
    return mask & (back < window)


def small(case: Case) -> bool:
    return not case.name.startswith(("8,000", "12 queries of", "65,536"))


# -- against the library ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", CACHE.cases, ids=lambda case: case.name)
def test_a_cache_takes_what_the_library_counts(case: Case) -> None:
    config, n, memory, n_parameters = case.build().values()
    h = config["num_attention_heads"]
    h_kv = config.get("num_key_value_heads") or h
    width = config.get("head_dim") or config["hidden_size"] // h
    per_token, cache, texts = ch14.cache_plan(config, n, memory, n_parameters)
    kept = min(n, config.get("sliding_window") or n)
    for found, tokens in ((per_token, 1), (cache, kept)):
        numbers = accounting.kv_cache(tokens, config["num_hidden_layers"], h_kv, width)
        assert found == accounting.memory(numbers["self-attention"], "float16")
    weights = accounting.memory(n_parameters, "float16")
    if texts:
        assert weights + texts * cache <= memory < weights + (texts + 1) * cache
    else:
        assert weights + cache > memory


def test_the_numbers_of_the_7b_model_are_the_syllabuss() -> None:
    (case,) = [case for case in CACHE.cases if case.name.startswith("Llama 7B")]
    config, n, memory, n_parameters = case.build().values()
    assert ch14.cache_plan(config, n, memory, n_parameters) == (524_288, 16 * 2**30, 3)
    shared = config | {"num_key_value_heads": 8}
    assert ch14.cache_plan(shared, n, memory, n_parameters)[:2] == (128 * 2**10, 4 * 2**30)


@pytest.mark.parametrize("case", GROUPED.cases, ids=lambda case: case.name)
def test_a_text_alone_gets_what_it_gets_in_a_batch(case: Case) -> None:
    q, keys, values, lengths = case.build().values()
    found = shared_heads.grouped_attention(q, keys, values, lengths)
    for text, n in enumerate(lengths):
        k, v = (x[text, :, :n] for x in (keys, values))
        alone, _ = flash.flash_attention(q[text], k, v, causal=True)
        np.testing.assert_allclose(found[text], alone, atol=1e-12)


@pytest.mark.parametrize("case", POOL.cases, ids=lambda case: case.name)
def test_pooled_heads_are_the_librarys(case: Case) -> None:
    w, h, h_kv, groups = case.build().values()
    width = w.shape[-1] // (h + 2 * h_kv)
    q, k, v = np.split(w, [h * width, (h + h_kv) * width], axis=-1)
    k, v = (grouped_query.pool_kv_heads(x, h_kv, groups) for x in (k, v))
    found = shared_heads.group_heads(w, h, h_kv, groups)
    np.testing.assert_allclose(found, np.concatenate([q, k, v], axis=-1), atol=1e-12)


@pytest.mark.parametrize("case", UPDATE.cases, ids=lambda case: case.name)
def test_an_output_so_far_times_l_is_the_librarys_sum(case: Case) -> None:
    m, l, o, scores, values = case.build().values()
    found = online_softmax.update_output(m, l, o, scores, values)
    new_m, new_l, total = flash.online_softmax_update(m, l, o * l[..., None], scores, values)
    for mine, its in zip(found, (new_m, new_l, total / new_l[..., None]), strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-12)


@pytest.mark.parametrize("case", MERGE.cases, ids=lambda case: case.name)
def test_merging_all_parts_is_merging_one_after_another(case: Case) -> None:
    outputs, lses = case.build().values()
    outputs = np.where(lses[..., None] == -np.inf, 7.0, outputs)
    output, lse = outputs[0], lses[0]
    for part in zip(outputs[1:], lses[1:], strict=True):
        output, lse = flash.merge_partials(output, lse, *part)
    found = online_softmax.merge_parts(*case.build().values())
    np.testing.assert_allclose(found[0], output, atol=1e-12)
    np.testing.assert_allclose(found[1], lse, atol=1e-12)


@pytest.mark.parametrize("case", [c for c in TILES.cases if small(c)], ids=lambda case: case.name)
def test_kinds_of_tiles_are_those_of_the_masks_pieces(case: Case) -> None:
    given = case.build()
    n_q, n_k, block_q, block_k = list(given.values())[:4]
    mask = seen(n_q, n_k, given.get("window"))
    found = attention_tiles.tile_kinds(**given)
    for i, j in np.ndindex(*found.shape):
        tile = mask[i * block_q : (i + 1) * block_q, j * block_k : (j + 1) * block_k]
        assert found[i, j] == int(tile.any()) + int(tile.all())
    if given.get("window") is None:
        visible = [(int(i), int(j)) for i, j in np.argwhere(found)]
        assert visible == flash.visible_tiles(n_q, n_k, block_q, block_k, causal=True)


@pytest.mark.parametrize("case", [c for c in TILED.cases if small(c)], ids=lambda case: case.name)
def test_tiles_give_what_a_table_gives(case: Case) -> None:
    given = case.build()
    q, k, v = (given[name] for name in "qkv")
    mask = seen(q.shape[-2], k.shape[-2], given.get("window"))
    output, lse = attention_tiles.tiled_attention(**given)
    np.testing.assert_allclose(output, scaled_dot_product_attention(q, k, v, mask)[0], atol=1e-12)
    np.testing.assert_allclose(lse, flash.flash_attention(q, k, v, mask)[1], atol=1e-12)


# -- what students write ---------------------------------------------------------------------------


def plain(q, k, v, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    """One table for all."""
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])
    scores = np.where(seen(q.shape[-2], k.shape[-2], window), scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    exps = np.exp(scores - top)
    total = exps.sum(axis=-1, keepdims=True)
    return exps / total @ v, (top + np.log(total))[..., 0]


def strip_by_strip(q, k, v, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    """One table for each strip, of the keys that some query of it sees."""
    n_q, n_k, found = q.shape[-2], k.shape[-2], []
    for start in range(0, n_q, block_q):
        stop = min(start + block_q, n_q)
        end = stop + n_k - n_q
        first = 0 if window is None else max(start + n_k - n_q - window + 1, 0)
        keys, values = k[..., first:end, :], v[..., first:end, :]
        found.append(plain(q[..., start:stop, :], keys, values, block_q, block_k, window))
    outputs, sums = zip(*found, strict=True)
    return np.concatenate(outputs, axis=-2), np.concatenate(sums, axis=-1)


def query_by_query(q, k, v, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    """One row of scores at a time, and one head."""
    if q.ndim == 2:
        return strip_by_strip(q, k, v, 1, block_k, window)
    heads = [query_by_query(*head, block_q, block_k, window) for head in zip(q, k, v, strict=True)]
    return tuple(np.stack(part) for part in zip(*heads, strict=True))


def strips_by_torch(q, k, v, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    import torch

    n_q, n_k, outputs, sums = q.shape[-2], k.shape[-2], [], []
    for start, rows in zip(range(0, n_q, block_q), q.split(block_q, dim=-2), strict=True):
        own = torch.arange(start, start + rows.shape[-2])[:, None] + n_k - n_q
        first = 0 if window is None else max(int(own[0]) - window + 1, 0)
        back = own - torch.arange(first, int(own[-1]) + 1)
        hidden = (back < 0) | (back >= (n_k if window is None else window))
        near = slice(first, int(own[-1]) + 1)
        scores = rows @ k[..., near, :].mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(hidden, -torch.inf)
        outputs.append(scores.softmax(dim=-1) @ v[..., near, :])
        sums.append(scores.logsumexp(dim=-1))
    return torch.cat(outputs, dim=-2), torch.cat(sums, dim=-1)


def test_a_table_of_scores_has_no_room() -> None:
    report = check(TILED.id, plain)
    assert "6 of 8 cases" in words(report)
    assert "more than 2 GiB of memory" in words(report)


@pytest.mark.parametrize("function", [strip_by_strip, query_by_query, strips_by_torch])
def test_a_softmax_for_each_strip_holds_too_much(function: Any) -> None:
    report = check(TILED.id, function)
    assert "7 of 8 cases" in words(report)
    assert "The numbers are right, but your function held" in words(report)
    assert words(TILED.if_too_large.partition("→")[0]) in words(report)
    assert words(TILED.if_too_large.partition("→")[2]) in words(report)


@pytest.mark.parametrize("which", ["k", "v", "kv"])
def test_a_copy_of_all_keys_or_values_is_named_as_a_cause(which: str) -> None:
    def copied(q, k, v, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
        k, v = (x.copy() if name in which else x for name, x in (("k", k), ("v", v)))
        return attention_tiles._tiled()(q, k, v, block_q, block_k, window)

    report = check(TILED.id, copied)
    assert "7 of 8 cases" in words(report)
    assert "a copy of all keys 4 and one of all values 2" in words(report)
    assert "So either you copy or change keys or values as a whole" in words(report)


@pytest.mark.parametrize("other", TILED.alternatives, ids=lambda other: other.name)
def test_who_goes_tile_by_tile_stays_well_below_the_limit(other: Any) -> None:
    (long,) = [case for case in TILED.cases if case.memory is not None]
    assert long.memory is not None
    given = list(long.build().values())
    if other.backend == "torch":
        given = [values.to_tensors(x) for x in given]
    held = run.call(other.right, given, measured=True).held
    assert 0 < held < 0.65 * long.memory  # who numbers all tokens has 1 MB of places


def test_a_table_of_the_mask_has_no_room() -> None:
    def kinds(n_q, n_k, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
        mask = seen(n_q, n_k, window)
        rows, columns = np.arange(0, n_q, block_q), np.arange(0, n_k, block_k)
        some, whole = (
            of.reduceat(of.reduceat(mask, rows, axis=0), columns, axis=1)
            for of in (np.logical_or, np.logical_and)
        )
        return some.astype(int) + whole

    report = check(TILES.id, kinds)
    assert "7 of 8 cases" in words(report)
    assert "more than 2 GiB of memory" in words(report)


def by_corners(n_q, n_k, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    mask = seen(n_q, n_k, window) if n_k < 1000 else np.ones((1, 1), bool)
    table = np.zeros((-(-n_q // block_q), -(-n_k // block_k)), int)
    for i, j in np.ndindex(*table.shape):
        rows = [i * block_q, min((i + 1) * block_q, n_q) - 1]
        columns = [j * block_k, min((j + 1) * block_k, n_k) - 1]
        corners = [mask[x % len(mask), y % len(mask[0])] for x in rows for y in columns]
        table[i, j] = 2 if all(corners) else int(any(corners))
    return table


def judged(
    n_q: int, n_k: int, block_q: int, block_k: int, window: int | None, *, hidden: Any, whole: Any
) -> Any:
    """Return the table from two rules on the places of a tile's first and last tokens."""
    far = n_k if window is None else window
    table = []
    for first in range(n_k - n_q, n_k, block_q):
        last = min(first + block_q, n_k) - 1
        spans = [(low, min(low + block_k, n_k) - 1) for low in range(0, n_k, block_k)]
        table.append(
            [
                0 if hidden(first, last, *span, far) else 1 + whole(first, last, *span, far)
                for span in spans
            ]
        )
    return np.array(table)


def hidden(first: int, last: int, low: int, high: int, far: int) -> bool:
    return low > last or high <= first - far


def whole(first: int, last: int, low: int, high: int, far: int) -> bool:
    return high <= first and low > last - far


def hidden_by_the_last(n_q, n_k, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    rule = lambda first, last, low, high, far: low > last or high <= last - far  # noqa: E731
    return judged(n_q, n_k, block_q, block_k, window, hidden=rule, whole=whole)


def whole_by_the_first(n_q, n_k, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    rule = lambda first, last, low, high, far: high <= first and low > first - far  # noqa: E731
    return judged(n_q, n_k, block_q, block_k, window, hidden=hidden, whole=rule)


def first_and_last(n_q, n_k, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
    def rule(first: int, last: int, low: int, high: int, far: int) -> bool:
        return not any(low <= own and high > own - far for own in (first, last))

    return judged(n_q, n_k, block_q, block_k, window, hidden=rule, whole=whole)


def pair_by_pair(outputs, lses):  # type: ignore[no-untyped-def]
    output, lse = outputs[0], lses[0]
    for other, theirs in zip(outputs[1:], lses[1:], strict=True):
        top = np.maximum(lse, theirs)
        a, b = np.exp(lse - top), np.exp(theirs - top)
        output = (a[..., None] * output + b[..., None] * other) / (a + b)[..., None]
        lse = top + np.log(a + b)
    return output, lse


def with_zero_times_nan(outputs, lses):  # type: ignore[no-untyped-def]
    lse = np.logaddexp.reduce(lses, axis=0)
    return (np.exp(lses - lse)[..., None] * outputs).sum(axis=0), lse


def asked_by_get(config, n_tokens, memory, n_parameters):  # type: ignore[no-untyped-def]
    h = config["num_attention_heads"]
    h_kv = config.get("num_key_value_heads", h)
    width = config.get("head_dim") or config["hidden_size"] // h
    per_token = 4 * config["num_hidden_layers"] * h_kv * width
    cache = per_token * min(n_tokens, config.get("sliding_window") or n_tokens)
    return per_token, cache, max(memory - 2 * n_parameters, 0) // cache


def groups_of_that_size(w_qkv, n_heads, n_kv_heads, new_kv_heads):  # type: ignore[no-untyped-def]
    width = w_qkv.shape[-1] // (n_heads + 2 * n_kv_heads)
    q, kv = np.split(w_qkv, [n_heads * width], axis=-1)
    pooled = kv.reshape(*kv.shape[:-1], -1, new_kv_heads, width).mean(axis=-2)
    return np.concatenate([q, pooled.reshape(*kv.shape[:-1], -1)], axis=-1)


def by_count(q, keys, values, lengths):  # type: ignore[no-untyped-def]
    b, h, n_q, d = q.shape
    output = np.zeros((b, h, n_q, values.shape[-1]))
    for text, head, i in np.ndindex(b, h, n_q):
        n, asked = lengths[text] - n_q + i + 1, head // keys.shape[1]
        scores = keys[text, asked, :n] @ q[text, head, i] / np.sqrt(d)
        e = np.exp(scores - scores.max())
        output[text, head, i] = e / e.sum() @ values[text, asked, :n]
    return output


def counted_from(end: Any) -> Any:
    """Return attention that hides free places, and counts those of new tokens from one end."""

    def attend(q, keys, values, lengths):  # type: ignore[no-untyped-def]
        n_q, n_max, g = q.shape[2], keys.shape[2], q.shape[1] // keys.shape[1]
        k, v = keys.repeat(g, axis=1), values.repeat(g, axis=1)
        mask = np.tril(np.ones((n_q, n_max), bool), k=end(lengths, n_max) - n_q)
        mask = mask & (np.arange(n_max) < lengths[:, None, None])
        scores = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])
        e = np.exp(np.where(mask[:, None], scores, -np.inf))
        return e / e.sum(axis=-1, keepdims=True) @ v

    return attend


def as_if_h(cut: str, group: str) -> Any:
    """Return pooling that takes h for the number of heads of keys where it cuts and groups."""

    def convert(w_qkv, n_heads, n_kv_heads, new_kv_heads):  # type: ignore[no-untyped-def]
        h, h_kv, total = n_heads, n_kv_heads, w_qkv.shape[-1]
        width = total // (3 * h) if cut in ("thirds", "3h", "first 3h") else total // (h + 2 * h_kv)
        ends = {"2h": [h, 2 * h], "h_kv": [h, h + h_kv], "first 3h": [h, 2 * h, 3 * h]}
        ends["3h"] = ends["2h"]
        parts = np.split(w_qkv, 3 if cut == "thirds" else [width * n for n in ends[cut]], axis=-1)
        shape = {
            "by new": (new_kv_heads, -1, width),
            "by both": (new_kv_heads, h // new_kv_heads, width),
            "by size": (-1, h // new_kv_heads, width),
            "width open": (new_kv_heads, h // new_kv_heads, -1),
            "right, width open": (new_kv_heads, h_kv // new_kv_heads, -1),
        }[group]
        q, *kv = parts[:3]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kv = [x.reshape(*x.shape[:-1], *shape).mean(axis=-2) for x in kv]
        return np.concatenate([q, *(x.reshape(*q.shape[:-1], -1) for x in kv)], axis=-1)

    return convert


_GROUPS = ["by new", "by both", "by size", "width open", "right, width open"]


@pytest.mark.parametrize("cut", ["thirds", "3h", "first 3h", "2h", "h_kv"])
@pytest.mark.parametrize("group", _GROUPS)
def test_who_counts_h_heads_of_keys_is_told_of_h_kv(cut: str, group: str) -> None:
    report = check(POOL.id, as_if_h(cut, group))
    if (cut, group) in (("h_kv", "by new"), ("h_kv", "right, width open")):
        assert report.passed
        return
    assert not report.passed
    (cause,) = {
        m.hint.partition("→")[0]
        for m in POOL.misconceptions
        if words(m.hint.partition("→")[0]) in words(report)
    }
    assert "h_kv" in cause


@pytest.mark.parametrize(
    ("exercise", "function", "name"),
    [
        (TILES, by_corners, "four corners"),
        (TILES, hidden_by_the_last, "too old for the last query"),
        (TILES, whole_by_the_first, "whole by the first query's window"),
        (TILES, first_and_last, "the first and the last query"),
        (MERGE, pair_by_pair, "nothing and nothing, in lse too"),
        (MERGE, with_zero_times_nan, "0 times NaN"),
        (CACHE, asked_by_get, "null isn't missing"),
        (POOL, groups_of_that_size, "the size of a group"),
        (GROUPED, by_count, "divided by the number of heads of keys"),
        (GROUPED, counted_from(lambda _, n: n), "places from the end of the cache"),
        (GROUPED, counted_from(lambda n, _: n.max()), "places from the end of the longest text"),
    ],
    ids=lambda x: x.replace(" ", "_") if isinstance(x, str) else "",
)
def test_what_a_reader_wrote_is_recognised(exercise: Any, function: Any, name: str) -> None:
    report = check(exercise.id, function)
    (mistake,) = [m for m in exercise.misconceptions if m.name == name]
    assert not report.passed
    assert words(mistake.hint.partition("→")[0]) in words(report)


def test_the_librarys_own_functions_refuse() -> None:
    def tiled(q, k, v, block_q, block_k, window=None):  # type: ignore[no-untyped-def]
        return flash.flash_attention(q, k, v, None, True, block_q, block_k)

    def grouped(q, keys, values, lengths):  # type: ignore[no-untyped-def]
        return flash.flash_attention(q, keys, values, causal=True)[0]

    assert check(TILED.id, tiled).points == 0
    assert check(GROUPED.id, grouped).points == 0


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = words(manuscript("14")), answers("14")
    per_token, cache, texts = solved.cache_plan(solved.tiny, 3, 1000, 100)
    assert f"{per_token} bytes, so 3 tokens {cache}" in text
    assert f"room for 800 more: {texts} texts." in text

    m, l, o = np.zeros(1), np.ones(1), np.ones((1, 1))
    m, l, o = solved.update_output(m, l, o, np.log([[3.0]]), np.array([[5.0]]))
    assert rf"a score of $\ln 3 = {m.item():.3f}$" in text
    assert f"$(1 + 3 \\cdot 5)/4 = {o.item():g}$" in text
    np.testing.assert_allclose(l, 1 / 3 + 1)

    case, long = [case for case in TILED.cases if not small(case)]
    q, k, _, block_q, block_k, window = case.build().values()
    n_q, n_k = len(q), len(k)
    assert f"{n_q:,} new tokens of {n_k:,}, tile by tile" in text
    size = 8 * n_q * n_k // 10**9
    assert rf"${n_q:,} \times {n_k:,}$ numbers takes {size} GB".replace(",", "{,}") in text
    assert f"with a window of {window}, fewer than one in a thousand matter" in text
    kinds = attention_tiles.tile_kinds(n_q, n_k, block_q, block_k, window)
    assert 1 / 2000 < (kinds > 0).mean() < 1 / 1000

    assert long.memory is not None
    q, k, v, block_q, block_k = long.build().values()
    h, n_q, _ = q.shape
    n_k = k.shape[1]
    said = f"{n_q} queries of {h} heads see {n_k:,} tokens, in tiles of "
    assert said + rf"${block_q} \times {block_k}$ and without a window" in text
    assert f"may hold {long.memory / 1e6:g} MB at once" in text
    tile, strip = (8 * h * block_q * n / 1e6 for n in (block_k, n_k))
    keys, values = k.nbytes / 1e6, v.nbytes / 1e6
    assert f"tile take {tile:.2f} MB, those of a strip {strip:.0f}, and" in text
    assert f"copy of the keys takes {keys:.0f} and one of the values {values:.0f}." in text
    assert TILED.if_too_large.startswith(
        f"A tile's scores take {tile:.2f}, a whole strip's {strip:.0f}, a copy of all keys "
        f"{keys:.0f} and one of all values {values:.0f}."
    )
