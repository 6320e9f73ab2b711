from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from course_lib import accounting
from course_lib.blocks import (
    attention,
    attention_scores,
    embeddings,
    feed_forward,
    multi_head,
    normalization,
    positions,
    recurrent,
)
from course_lib.blocks import encoder_decoder as layers
from course_lib.data.vocabulary import BOS
from course_lib.models.encoder_decoder import EncoderDecoder

size = st.integers(1, 9)
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


class ElementwiseCounter(TorchDispatchMode):
    """Counts the numbers that additions, multiplications, tanhs and sigmoids write."""

    COUNTED = ("add", "sub", "rsub", "mul", "tanh", "sigmoid")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in self.COUNTED:
            self.count += result.numel()
        return result


def recurrent_arguments(kind: str, n: int, d: int, leading: list[int]) -> list[torch.Tensor]:
    g = GATES[kind]
    shapes = [(*leading, n, d), *[(*leading, d)] * (1 + (kind == "lstm"))]
    return [torch.zeros(s) for s in (*shapes, (g * d, d), (g * d, d), (g * d,), (g * d,))]


@settings(max_examples=60, deadline=None)
@given(size, size, size, size, st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_attention_costs_the_flops_that_pytorch_counts(
    n_q: int, n_k: int, d_k: int, d_v: int, leading: list[int], masked: bool
) -> None:
    q, k, v = (torch.zeros(*leading, *shape) for shape in ((n_q, d_k), (n_k, d_k), (n_k, d_v)))
    mask = torch.ones(n_q, n_k, dtype=torch.bool) if masked else None
    counted = accounting.count_flops(attention.scaled_dot_product_attention, q, k, v, mask)
    lines = accounting.scaled_dot_product_attention(n_q, n_k, d_k, d_v, batch=prod(leading))
    assert accounting.total(lines).flops == counted
    assert counted > 0


def test_each_line_of_attention_costs_what_its_own_product_is_counted_at() -> None:
    q, k, v = torch.zeros(2, 3, 4, 8), torch.zeros(2, 3, 5, 8), torch.zeros(2, 3, 5, 7)
    lines = accounting.scaled_dot_product_attention(4, 5, 8, 7, batch=6)
    scores = q @ k.mT
    assert lines["scores"].flops == accounting.count_flops(torch.matmul, q, k.mT)
    assert lines["output"].flops == accounting.count_flops(torch.matmul, scores, v)
    assert lines["scores"].activations == scores.numel()
    assert lines["output"].activations == (scores @ v).numel()


def test_the_cost_of_attention_is_quadratic_in_the_length_and_linear_in_the_width() -> None:
    def flops(n: int, d: int) -> int:
        return accounting.total(accounting.scaled_dot_product_attention(n, n, d, d)).flops

    assert flops(20, 8) == 4 * flops(10, 8)
    assert flops(10, 16) == 2 * flops(10, 8)
    assert flops(10, 8) == 4 * 10**2 * 8


def test_attention_has_no_parameters_and_three_steps_at_any_length() -> None:
    for n in (1, 7, 1000):
        cost = accounting.total(accounting.scaled_dot_product_attention(n, n, 8, 8))
        assert (cost.parameters, cost.steps) == (0, 3)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "bool"])
def test_memory_is_what_a_tensor_takes(dtype: str) -> None:
    x = torch.zeros(3, 5, dtype=getattr(torch, dtype))
    assert accounting.memory(x.numel(), dtype) == x.numel() * x.element_size()


def test_the_tables_of_twelve_layers_at_length_4096_take_six_gibibytes() -> None:
    lines = accounting.scaled_dot_product_attention(4096, 4096, 64, 64, batch=12 * 8)
    assert accounting.memory(lines["softmax"].activations) == 6 * 2**30


def test_attention_in_one_kernel_is_counted_as_in_steps() -> None:
    q = k = v = torch.zeros(2, 3, 5, 4)
    lines = accounting.scaled_dot_product_attention(5, 5, 4, 4, batch=6)
    counted = accounting.count_flops(F.scaled_dot_product_attention, q, k, v)
    assert counted == accounting.total(lines).flops


def test_counting_passes_on_keyword_arguments() -> None:
    x, w = torch.zeros(2, 3), torch.zeros(4, 3)
    assert accounting.count_flops(F.linear, x, weight=w) == 2 * 2 * 3 * 4


@pytest.mark.parametrize("name", ["n_q", "n_k", "d_k", "d_v", "batch"])
@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "4"])
def test_a_size_that_is_not_a_whole_positive_number_is_named(name: str, bad: object) -> None:
    sizes: dict = {"n_q": 2, "n_k": 3, "d_k": 4, "d_v": 5, "batch": 1, name: bad}
    with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1; got"):
        accounting.scaled_dot_product_attention(**sizes)


def test_an_unknown_dtype_is_named() -> None:
    with pytest.raises(ValueError, match=r"dtype must be one of .*; got 'int4'"):
        accounting.memory(3, "int4")


@given(size, size, st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_plain_self_attention_costs_the_flops_that_pytorch_counts(
    n: int, d: int, leading: list[int], masked: bool
) -> None:
    x = torch.zeros(*leading, n, d)
    mask = torch.ones(n, n, dtype=torch.bool) if masked else None
    counted = accounting.count_flops(attention_scores.plain_self_attention, x, mask)
    lines = accounting.plain_self_attention(n, d, batch=prod(leading))
    assert accounting.total(lines).flops == counted == 4 * prod(leading) * n**2 * d
    scores, weights = x @ x.mT, attention_scores.plain_self_attention(x)[1]
    assert lines["scores"].activations == scores.numel()
    assert lines["softmax"].activations == weights.numel()
    assert lines["output"].activations == x.numel()


@given(st.sampled_from(sorted(GATES)), size, size, st.lists(st.integers(1, 3), min_size=1,
                                                           max_size=2))  # fmt: skip
def test_recurrent_layers_cost_what_pytorch_counts_ours_and_its_own(
    kind: str, n: int, d: int, leading: list[int]
) -> None:
    layer, batch = getattr(recurrent, kind), prod(leading)
    arguments = recurrent_arguments(kind, n, d, leading)
    cost = accounting.total(getattr(accounting, kind)(n, d, batch))
    assert cost.flops == accounting.count_flops(layer, *arguments)
    with ElementwiseCounter() as counter:
        layer(*arguments)
    assert cost.elementwise_flops == counter.count

    # A cell of PyTorch's, a token at a time: on a CPU its LSTM is one kernel that it doesn't count.
    cell = CELLS[kind](d, d)
    assert cost.flops == n * accounting.count_flops(cell, torch.zeros(batch, d))
    assert cost.parameters == sum(p.numel() for p in cell.parameters())


@pytest.mark.parametrize("kind", GATES)
def test_each_product_of_a_recurrent_layer_costs_what_it_is_counted_at(kind: str) -> None:
    xs, h, *_, w_x, w_h, b_x, b_h = recurrent_arguments(kind, 5, 4, [3])
    lines = getattr(accounting, kind)(5, 4, batch=3)
    assert lines["input"].flops == accounting.count_flops(torch.matmul, xs, w_x.T)
    assert lines["input"].activations == (xs @ w_x.T).numel()
    assert lines["state"].flops == 5 * accounting.count_flops(torch.matmul, h, w_h.T)
    assert lines["state"].activations == 5 * (h @ w_h.T).numel()
    assert lines["input"].parameters == w_x.numel()
    assert lines["state"].parameters == w_h.numel()
    (rest,) = [cost for name, cost in lines.items() if name not in ("input", "state")]
    assert rest.parameters == b_x.numel() + b_h.numel()
    # h of a plain layer; r, z, n and h of a GRU; i, f, g, o, c and h of an LSTM
    written = {"rnn": 1, "gru": 4, "lstm": 6}[kind]
    assert rest.activations == written * 5 * h.numel()


@given(size, size, st.integers(0, 3), st.integers(1, 3))
def test_convolution_costs_the_flops_and_parameters_that_pytorch_counts(
    n: int, d: int, reach: int, batch: int
) -> None:
    width = 2 * reach + 1
    module = nn.Conv1d(d, d, width, padding=reach)
    x = torch.zeros(batch, d, n)
    lines = accounting.convolution(n, d, width, batch)
    cost = accounting.total(lines)
    assert cost.flops == accounting.count_flops(module, x)
    assert cost.parameters == sum(p.numel() for p in module.parameters())
    assert lines["convolution"].parameters == module.weight.numel()
    assert lines["convolution"].activations == module(x).numel()
    assert lines["bias"].elementwise_flops == module(x).numel()


@given(size, size)
def test_recurrent_layers_take_a_step_a_token_and_the_others_as_many_at_any_length(
    n: int, d: int
) -> None:
    for kind in GATES:
        assert accounting.total(getattr(accounting, kind)(n, d)).steps == n
    assert accounting.total(accounting.plain_self_attention(n, d)).steps == 3
    assert accounting.total(accounting.convolution(n, d, 3)).steps == 1


class LongestChain(TorchDispatchMode):
    """Finds how many products of matrices wait for one another, from what is computed of what."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, int] = {}
        self.kept: list[torch.Tensor] = []  # so that no id is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        flat = [a for b in args for a in (b if isinstance(b, list | tuple) else [b])]
        depth = max((self.depths.get(id(a), 0) for a in flat), default=0)
        depth += func.overloadpacket.__name__ in ("mm", "bmm", "addmm")
        for out in result if isinstance(result, list | tuple) else [result]:
            if isinstance(out, torch.Tensor):
                self.depths[id(out)] = depth
                self.kept.append(out)
        return result

    @property
    def longest(self) -> int:
        return max(self.depths.values())


@given(st.sampled_from(sorted(GATES)), st.integers(1, 6))
def test_as_many_products_of_a_recurrent_layer_wait_for_one_another_as_it_has_steps(
    kind: str, n: int
) -> None:
    arguments = recurrent_arguments(kind, n, 3, [2])
    with LongestChain() as chain:
        getattr(recurrent, kind)(*arguments)
    assert chain.longest == accounting.total(getattr(accounting, kind)(n, 3)).steps


def test_two_products_of_self_attention_wait_for_one_another_with_the_softmax_between() -> None:
    for n in (1, 4, 9):
        with LongestChain() as chain:
            attention_scores.plain_self_attention(torch.zeros(n, 3))
        assert chain.longest + 1 == accounting.total(accounting.plain_self_attention(n, 3)).steps


def test_attention_and_a_plain_recurrent_layer_cost_the_same_where_length_is_width() -> None:
    def flops(function: Callable[..., dict], n: int) -> int:
        return accounting.total(function(n, 512)).flops

    assert flops(accounting.plain_self_attention, 512) == flops(accounting.rnn, 512)
    assert flops(accounting.plain_self_attention, 511) < flops(accounting.rnn, 511)
    assert flops(accounting.plain_self_attention, 513) > flops(accounting.rnn, 513)


def links(graph: torch.Tensor) -> int:
    """Walk a graph of positions until every pair that is ever connected is; count the rounds."""
    reached = torch.eye(len(graph), dtype=torch.bool)
    for rounds in range(len(graph) + 1):
        further = reached | (graph.float() @ reached.float() > 0)
        if torch.equal(further, reached):
            return rounds
        reached = further
    raise AssertionError("unreachable")


@given(st.integers(1, 12), st.integers(1, 4))
def test_the_longest_path_is_the_one_that_walking_all_connections_finds(n: int, reach: int) -> None:
    position = torch.arange(n)
    distance = position[:, None] - position[None, :]
    everything = torch.ones(n, n, dtype=torch.bool)
    assert accounting.longest_path("plain_self_attention", n) == links(everything)
    for kind in GATES:
        assert accounting.longest_path(kind, n) == links(distance == 1)
    window = distance.abs() <= reach
    assert accounting.longest_path("convolution", n, 2 * reach + 1) == links(window)


@given(st.integers(2, 9), st.integers(1, 3))
def test_a_stack_of_as_many_convolutions_as_the_longest_path_lets_the_ends_meet(
    n: int, reach: int
) -> None:
    def first_feels_last(layers: int) -> bool:
        x = torch.zeros(1, 1, n, dtype=torch.float64, requires_grad=True)
        y = x
        for _ in range(layers):
            kernel = torch.ones(1, 1, 2 * reach + 1, dtype=torch.float64)
            y = F.conv1d(y, kernel, padding=reach)
        y[0, 0, 0].backward()
        assert x.grad is not None
        return bool(x.grad[0, 0, -1] != 0)

    needed = accounting.longest_path("convolution", n, 2 * reach + 1)
    assert first_feels_last(needed)
    assert needed == 1 or not first_feels_last(needed - 1)


@pytest.mark.parametrize("function", ["plain_self_attention", *GATES, "convolution"])
@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "4", None])
def test_sizes_of_layers_that_are_not_whole_positive_numbers_are_named(
    function: str, bad: object
) -> None:
    sizes: dict = {"n": 2, "d": 3, "batch": 1}
    if function == "convolution":
        sizes["width"] = 3
    for name in sizes:
        with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1; got"):
            getattr(accounting, function)(**{**sizes, name: bad})


def test_a_width_that_has_no_middle_or_connects_nothing_is_named() -> None:
    with pytest.raises(ValueError, match="width must be odd, so that a token stands in its middle"):
        accounting.convolution(5, 4, width=4)
    for width, message in (
        (4, "width must be odd"),
        (1, "width must be at least 3 for tokens to be connected; got 1"),
        (None, "width must be a whole number of at least 1; got None"),
    ):
        with pytest.raises(ValueError, match=message):
            accounting.longest_path("convolution", 5, width)
    with pytest.raises(ValueError, match="width must be left out for gru; got 3"):
        accounting.longest_path("gru", 5, 3)
    with pytest.raises(ValueError, match="n must be a whole number of at least 1; got 0"):
        accounting.longest_path("rnn", 0)
    with pytest.raises(ValueError, match=r"layer must be one of .*; got 'transformer'"):
        accounting.longest_path("transformer", 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accounting.Cost(flops=-1), "flops must be a whole number of at least 0; got -1"),
        (lambda: accounting.Cost(steps=1.5), "steps must be a whole number .*; got 1.5"),
        (lambda: accounting.Cost(parameters=None), "parameters must be a whole number"),
        (lambda: accounting.total([accounting.Cost()]), "lines must be a mapping of names to cos"),
        (lambda: accounting.total({"a": 3}), r"lines\['a'\] must be a Cost; got 3"),
        (lambda: accounting.memory(3, ["bool"]), "dtype must be one of"),
        (lambda: accounting.longest_path(["rnn"], 3), "layer must be one of"),
        (lambda: accounting.count_flops(3), "function must be a function; got 3"),
    ],
)
def test_what_cannot_be_a_cost_or_have_one_is_named(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


# --- rotary positions ----------------------------------------------------------------------------


class RotationCounter(ElementwiseCounter):
    """Counts sines and cosines as well."""

    COUNTED = (*ElementwiseCounter.COUNTED, "cos", "sin")


@given(size, st.integers(1, 5), st.integers(0, 3), st.integers(1, 3), st.integers(1, 3),
       st.sampled_from(["rotate_interleaved", "rotate_half_split"]))  # fmt: skip
def test_a_rotation_costs_the_operations_that_are_counted(
    n: int, half: int, rest: int, n_heads: int, batch: int, name: str
) -> None:
    from course_lib.blocks import rotary

    d = 2 * half + rest
    x = torch.zeros(batch, n_heads, n, d)
    args = (x, torch.arange(n), rotary.rotary_frequencies(2 * half))
    cost = accounting.total(accounting.rotary(n, d, batch, n_heads, d_rotated=2 * half))
    with RotationCounter() as counter:
        turned = getattr(rotary, name)(*args)
    assert cost.elementwise_flops == counter.count
    assert cost.flops == accounting.count_flops(getattr(rotary, name), *args) == 0
    assert cost.parameters == 0
    assert accounting.rotary(n, d, batch, n_heads, 2 * half)["rotation"].activations == (
        turned.numel()
    )


def test_a_rotation_of_no_pairs_or_too_many_is_named() -> None:
    for bad in (3, 0, True, 2.0):
        with pytest.raises(
            ValueError, match="d_rotated must be an even whole number of at least 2"
        ):
            accounting.rotary(4, 8, d_rotated=bad)
    with pytest.raises(ValueError, match="d_rotated must be an even whole number of at least 2"):
        accounting.rotary(4, 5)
    with pytest.raises(ValueError, match="d_rotated must be at most d = 8; got 10"):
        accounting.rotary(4, 8, d_rotated=10)
    with pytest.raises(ValueError, match="n_heads must be a whole number of at least 1; got 0"):
        accounting.rotary(4, 8, n_heads=0)


@settings(max_examples=60, deadline=None)
@given(size, size, st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(1, 3), max_size=2),
       st.booleans(), st.booleans())  # fmt: skip
def test_multi_head_attention_costs_what_pytorch_counts_ours_and_its_own(
    n_q: int, n_k: int, h: int, d_head: int, leading: list[int], bias: bool, fused: bool
) -> None:
    d, batch = h * d_head, prod(leading)
    cost = accounting.total(accounting.multi_head_attention(n_q, n_k, d, h, batch, bias))
    x_q, x_kv = torch.zeros(*leading, n_q, d), torch.zeros(*leading, n_k, d)
    module = multi_head.MultiHeadAttention(d, h, bias=bias, fused=fused)
    assert cost.flops == accounting.count_flops(module, x_q, x_kv)
    assert cost.flops == 4 * batch * d * (n_q * d + n_k * d + n_q * n_k)
    assert cost.parameters == sum(p.numel() for p in module.parameters())

    theirs = nn.MultiheadAttention(d, h, bias=bias, batch_first=True)
    rows_q, rows_kv = x_q.reshape(batch, n_q, d), x_kv.reshape(batch, n_k, d)
    assert cost.flops == accounting.count_flops(theirs, rows_q, rows_kv, rows_kv)
    assert cost.parameters == sum(p.numel() for p in theirs.parameters())

    w, b = torch.zeros(d, d), torch.zeros(d) if bias else None
    arguments = (x_q, x_kv, w, w, w, w, h, None, b, b, b, b)
    assert cost.flops == accounting.count_flops(multi_head.multi_head_attention, *arguments)
    assert cost.steps == 5


def test_self_attention_costs_the_same_fused_and_not() -> None:
    x = torch.zeros(3, 5, 8)
    cost = accounting.total(accounting.multi_head_attention(5, 5, 8, 2, batch=3))
    for fused in (False, True):
        module = multi_head.MultiHeadAttention(8, 2, fused=fused)
        assert accounting.count_flops(module, x) == cost.flops


def test_each_line_of_multi_head_attention_costs_what_its_own_product_is_counted_at() -> None:
    b, n_q, n_k, d, h = 3, 4, 5, 8, 2
    lines = accounting.multi_head_attention(n_q, n_k, d, h, batch=b)
    x_q, x_kv, w = torch.zeros(b, n_q, d), torch.zeros(b, n_k, d), torch.zeros(d, d)
    q, k = multi_head.split_heads(x_q @ w, h), multi_head.split_heads(x_kv @ w, h)
    products = {
        "queries": (x_q, w), "keys": (x_kv, w), "values": (x_kv, w),
        "scores": (q, k.mT), "heads": (q @ k.mT, k), "output": (x_q, w),
    }  # fmt: skip
    for name, (left, right) in products.items():
        assert lines[name].flops == accounting.count_flops(torch.matmul, left, right), name
        assert lines[name].activations == (left @ right).numel(), name
    for name in ("scale", "softmax"):
        assert lines[name].activations == b * h * n_q * n_k
    assert lines["merge"].activations == b * n_q * d
    for name in ("queries", "keys", "values", "output"):
        assert lines[name].parameters == d * d + d
        # the bias: one addition a number
        assert lines[name].elementwise_flops == lines[name].activations


def test_the_number_of_heads_changes_no_flops_and_no_parameters_but_the_tables() -> None:
    costs = [accounting.multi_head_attention(10, 10, 12, h) for h in (1, 2, 3, 12)]
    assert len({accounting.total(lines).flops for lines in costs}) == 1
    assert len({accounting.total(lines).parameters for lines in costs}) == 1
    assert [lines["softmax"].activations for lines in costs] == [100, 200, 300, 1200]


@pytest.mark.parametrize("name", ["n_q", "n_k", "d", "n_heads", "batch"])
@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "4"])
def test_a_size_of_multi_head_attention_that_cannot_be_is_named(name: str, bad: object) -> None:
    sizes: dict = {"n_q": 2, "n_k": 3, "d": 4, "n_heads": 2, "batch": 1, name: bad}
    with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1; got"):
        accounting.multi_head_attention(**sizes)


def test_heads_that_do_not_divide_the_width_are_named() -> None:
    with pytest.raises(ValueError, match=r"^n_heads must divide d, 8; got 3"):
        accounting.multi_head_attention(2, 3, 8, 3)


@given(size, size, size, st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_an_embedding_costs_no_product_and_the_parameters_that_the_module_has(
    n: int, v: int, d: int, leading: list[int], scale: bool
) -> None:
    tokens = embeddings.TokenEmbedding(v, d, scale=scale)
    ids = torch.zeros(*leading, n, dtype=torch.int64)
    cost = accounting.total(accounting.embedding(n, v, d, batch=prod(leading), scale=scale))
    assert cost.flops == accounting.count_flops(tokens, ids) == 0
    assert cost.parameters == sum(p.numel() for p in tokens.parameters())
    assert cost.activations == (2 if scale else 1) * tokens(ids).numel()
    assert cost.elementwise_flops == (tokens(ids).numel() if scale else 0)


@given(size, size, size, st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_a_projection_onto_the_vocabulary_costs_what_pytorch_counts_and_holds_tied_or_not(
    n: int, d: int, v: int, leading: list[int], bias: bool
) -> None:
    hidden, head = torch.zeros(*leading, n, d), nn.Linear(d, v, bias=bias)
    batch = prod(leading)
    cost = accounting.total(accounting.output_projection(n, d, v, batch, bias=bias))
    assert cost.flops == accounting.count_flops(head, hidden) == 2 * batch * n * d * v
    assert cost.parameters == sum(p.numel() for p in head.parameters())
    tied = accounting.total(accounting.tied_logits(n, d, v, batch))
    counted = accounting.count_flops(embeddings.tied_logits, hidden, head.weight)
    assert (tied.flops, tied.parameters) == (counted, 0)
    assert tied.flops == cost.flops
    assert tied.activations == hidden.numel() // d * v
    shared = accounting.output_projection(n, d, v, batch, bias=bias, tied=True)
    assert accounting.total(shared).parameters == (v if bias else 0)


@given(size, size, size, st.lists(st.integers(1, 3), max_size=2))
def test_positions_cost_no_product_and_parameters_where_they_are_learned_alone(
    n: int, half: int, spare: int, leading: list[int]
) -> None:
    x, batch = torch.zeros(*leading, n, 2 * half), prod(leading)
    learned = positions.LearnedPositions(n + spare, 2 * half)
    for module, cost in (
        (positions.SinusoidalPositions(2 * half), accounting.positions(n, 2 * half, batch)),
        (learned, accounting.positions(n, 2 * half, batch, max_length=n + spare)),
    ):
        assert accounting.total(cost).flops == accounting.count_flops(module, x) == 0
        held = sum(p.numel() for p in module.parameters())
        assert accounting.total(cost).parameters == held
        assert cost["sum"].elementwise_flops == cost["sum"].activations == x.numel()


def test_the_embeddings_of_32000_tokens_are_counted_once_where_they_are_tied() -> None:
    table = accounting.total(accounting.embedding(1, 32_000, 512)).parameters
    head = accounting.total(accounting.output_projection(1, 512, 32_000, bias=False)).parameters
    assert table == head == 16_384_000


@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "4", None])
def test_sizes_of_embeddings_and_projections_that_are_no_whole_positive_numbers_are_named(
    bad: object,
) -> None:
    for function, sizes in (
        ("embedding", {"n": 2, "vocab_size": 3, "d": 4, "batch": 1}),
        ("output_projection", {"n": 2, "d": 4, "vocab_size": 3, "batch": 1}),
        ("tied_logits", {"n": 2, "d": 4, "vocab_size": 3, "batch": 1}),
        ("positions", {"n": 2, "d": 4, "batch": 1}),
    ):
        for name in sizes:
            message = f"^{name} must be a whole number of at least 1; got"
            with pytest.raises(ValueError, match=message):
                getattr(accounting, function)(**{**sizes, name: bad})


def test_positions_that_cannot_be_are_named() -> None:
    with pytest.raises(ValueError, match="d must be an even whole number of at least 2; got 5"):
        accounting.positions(3, 5)
    with pytest.raises(ValueError, match="max_length must be a whole number of at least 3; got 2"):
        accounting.positions(3, 5, max_length=2)
    assert accounting.total(accounting.positions(3, 5, max_length=3)).parameters == 15


class NumberCounter(ElementwiseCounter):
    """Counts besides what roots, squares and ReLUs write, and the sums and divisions of means."""

    COUNTED = (*ElementwiseCounter.COUNTED, "div", "pow", "relu", "sqrt")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func.overloadpacket.__name__ == "mean":
            self.count += args[0].numel() + result.numel()
        return result


def count_numbers(function: Callable[..., Any], *args: Any) -> int:
    with torch.no_grad(), NumberCounter() as counter:
        function(*args)
    return counter.count


@given(size, size, size, st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_a_feed_forward_network_costs_what_pytorch_counts_ours_and_its_own(
    n: int, d: int, d_ff: int, leading: list[int], bias: bool
) -> None:
    cost = accounting.total(accounting.feed_forward(n, d, d_ff, prod(leading), bias))
    network = feed_forward.FeedForward(d, d_ff, bias=bias)
    own = nn.Sequential(nn.Linear(d, d_ff, bias), nn.ReLU(), nn.Linear(d_ff, d, bias))
    x = torch.zeros(*leading, n, d)
    assert cost.flops == accounting.count_flops(network, x) == accounting.count_flops(own, x)
    assert cost.parameters == sum(p.numel() for p in network.parameters())
    assert cost.parameters == sum(p.numel() for p in own.parameters())
    w_1, b_1, w_2, b_2 = (torch.zeros(s) for s in ((d, d_ff), (d_ff,), (d_ff, d), (d,)))
    biases = (b_1, b_2) if bias else (None, None)
    arguments = (x, w_1, biases[0], w_2, biases[1])
    assert cost.elementwise_flops == count_numbers(feed_forward.feed_forward, *arguments)
    assert cost.activations == prod(leading) * n * (2 * d_ff + d)


@given(size, size, size, st.lists(st.integers(1, 3), max_size=2))
def test_a_gated_network_costs_what_pytorch_counts(
    n: int, d: int, d_ff: int, leading: list[int]
) -> None:
    lines = accounting.swiglu(n, d, d_ff, prod(leading))
    cost = accounting.total(lines)
    network = feed_forward.SwiGLU(d, d_ff)
    x = torch.zeros(*leading, n, d)
    assert cost.flops == accounting.count_flops(network, x)
    assert cost.parameters == sum(p.numel() for p in network.parameters())
    assert cost.elementwise_flops == count_numbers(network, x)
    hidden = network.w_1(x)
    for name, line in lines.items():
        assert line.activations == (x if name == "outer" else hidden).numel()
    assert cost.activations == 4 * hidden.numel() + x.numel()


@given(size, size, st.lists(st.integers(1, 3), max_size=2))
def test_norms_cost_no_product_and_the_elementwise_work_that_is_counted(
    n: int, d: int, leading: list[int]
) -> None:
    x = torch.zeros(*leading, n, d)
    for name, module in (
        ("layer_norm", normalization.LayerNorm(d)),
        ("rms_norm", normalization.RMSNorm(d)),
    ):
        cost = accounting.total(getattr(accounting, name)(n, d, prod(leading)))
        assert cost.flops == accounting.count_flops(module, x) == 0
        assert cost.elementwise_flops == count_numbers(module, x)
        assert cost.parameters == sum(p.numel() for p in module.parameters())
    assert accounting.total(accounting.layer_norm(n, d)).activations == 3 * n * d + 2 * n
    assert accounting.total(accounting.rms_norm(n, d)).activations == 2 * n * d + n


def test_at_four_times_the_width_a_token_costs_eight_square_widths_of_multiplications() -> None:
    for d in (8, 64, 512):
        flops = accounting.total(accounting.feed_forward(1, d, 4 * d)).flops
        assert flops // 2 == 8 * d**2  # a FLOP is a multiplication or an addition
        three = accounting.total(accounting.swiglu(1, 3 * d, 8 * d)).flops
        assert three == accounting.total(accounting.feed_forward(1, 3 * d, 12 * d)).flops


def test_two_products_of_a_network_wait_for_one_another_with_a_gate_or_without() -> None:
    x = torch.zeros(5, 3)
    for name, network in (
        ("feed_forward", feed_forward.FeedForward(3, 4)),
        ("swiglu", feed_forward.SwiGLU(3, 4)),
    ):
        with torch.no_grad(), LongestChain() as chain:
            network(x)
        assert chain.longest == accounting.total(getattr(accounting, name)(5, 3, 4)).steps == 2


@pytest.mark.parametrize("function", ["feed_forward", "swiglu", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "4", None])
def test_sizes_of_networks_and_norms_that_are_not_whole_positive_numbers_are_named(
    function: str, bad: object
) -> None:
    sizes: dict = {"n": 2, "d": 3, "batch": 1}
    if function in ("feed_forward", "swiglu"):
        sizes["d_ff"] = 5
    for name in sizes:
        with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1; got"):
            getattr(accounting, function)(**{**sizes, name: bad})


def test_a_bias_that_is_neither_true_nor_false_is_named() -> None:
    for bad in (None, 1, "no"):
        with pytest.raises(ValueError, match=r"^bias must be True or False; got"):
            accounting.feed_forward(2, 3, 4, bias=bad)


# --- whole models --------------------------------------------------------------------------------


@st.composite
def transformers(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the configuration of a small encoder-decoder and the sizes of a batch."""
    n_heads = draw(st.integers(1, 3))
    tie = draw(st.sampled_from(["none", "output", "all"]))
    v = draw(st.integers(5, 9))
    return {
        "n_src": draw(st.integers(1, 5)),
        "n_tgt": draw(st.integers(1, 5)),
        "src_vocab_size": v if tie == "all" else draw(st.integers(5, 9)),
        "tgt_vocab_size": v,
        "d": 2 * n_heads * draw(st.integers(1, 3)),
        "n_heads": n_heads,
        "n_layers": draw(st.integers(1, 3)),
        "d_ff": draw(st.integers(1, 9)),
        "batch": draw(st.integers(1, 3)),
        "norm_first": draw(st.booleans()),
        "tie": tie,
        "max_length": draw(st.sampled_from([None, 7])),
    }


def build(sizes: dict[str, Any], dropout: float = 0.0) -> EncoderDecoder:
    learned = sizes["max_length"] is not None
    return EncoderDecoder(
        sizes["src_vocab_size"], sizes["tgt_vocab_size"], sizes["d"], sizes["n_heads"],
        sizes["n_layers"], sizes["d_ff"], dropout=dropout, norm_first=sizes["norm_first"],
        tie=sizes["tie"], positions="learned" if learned else "sinusoidal",
        max_length=sizes["max_length"] if learned else 64,
    )  # fmt: skip


def inputs(sizes: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    b, n_src, n_tgt = sizes["batch"], sizes["n_src"], sizes["n_tgt"]
    src = torch.randint(3, sizes["src_vocab_size"], (b, n_src))
    tgt_in = torch.randint(3, sizes["tgt_vocab_size"], (b, n_tgt))
    tgt_in[:, 0] = BOS
    return src, torch.full((b,), n_src), tgt_in


@settings(max_examples=40)
@given(transformers())
def test_a_whole_model_costs_the_flops_and_parameters_that_pytorch_counts(
    sizes: dict[str, Any],
) -> None:
    model = build(sizes)
    cost = accounting.total(accounting.encoder_decoder(**sizes))
    assert cost.parameters == sum(p.numel() for p in model.parameters())
    assert cost.flops == accounting.count_flops(model, *inputs(sizes))


@settings(max_examples=40)
@given(transformers())
def test_a_training_step_costs_three_times_the_forward_pass(sizes: dict[str, Any]) -> None:
    model, batch = build(sizes), inputs(sizes)
    lines = accounting.encoder_decoder(**sizes)
    counted = accounting.count_flops(lambda: model(*batch).sum().backward())
    assert accounting.training_flops(lines) == counted == 3 * accounting.total(lines).flops


@settings(max_examples=25)
@given(transformers())
def test_each_block_is_charged_for_the_side_that_it_works_on(sizes: dict[str, Any]) -> None:
    model, lines = build(sizes), accounting.encoder_decoder(**sizes)
    b, d = sizes["batch"], sizes["d"]
    sides = {"source": "n_src", "target": "n_tgt"}
    for side, n in sides.items():  # the product with √d, and the sum with positions
        table = 0 if sizes["max_length"] else 3 * sizes[n] * d // 2
        assert lines[f"{side} embedding"].elementwise_flops == 2 * b * sizes[n] * d + table
    if sizes["norm_first"]:
        for name, norm, n in (
            ("encoder norm", model.encoder_norm, "n_src"),
            ("decoder norm", model.decoder_norm, "n_tgt"),
        ):
            work = count_numbers(norm, torch.zeros(b, sizes[n], d))
            assert lines[name].elementwise_flops == work
    n_src, n_tgt, h = sizes["n_src"], sizes["n_tgt"], sizes["n_heads"]
    cross = accounting.decoder_layer(n_tgt, n_src, d, h, 3, b)["cross-attention"]
    # Queries, their heads, these side by side, and the output; keys and values; three tables.
    assert cross.activations == b * (4 * n_tgt * d + 2 * n_src * d + 3 * h * n_tgt * n_src)


@settings(max_examples=15)
@given(transformers())
def test_what_a_layer_adds_beside_its_sublayers_and_norms_are_its_residuals(
    sizes: dict[str, Any],
) -> None:
    d, h, d_ff, b = (sizes[name] for name in ("d", "n_heads", "d_ff", "batch"))
    n_src, n_tgt = sizes["n_src"], sizes["n_tgt"]
    x, memory = torch.zeros(b, n_tgt, d), torch.zeros(b, n_src, d)
    encoder, decoder = layers.EncoderLayer(d, h, d_ff), layers.DecoderLayer(d, h, d_ff)
    for lines, layer, parts in (
        (accounting.encoder_layer(n_tgt, d, h, d_ff, b), encoder,
         (encoder.attention, encoder.feed_forward)),
        (accounting.decoder_layer(n_tgt, n_src, d, h, d_ff, b), decoder,
         (decoder.self_attention, decoder.cross_attention, decoder.feed_forward)),
    ):  # fmt: skip
        given = (x,) if layer is encoder else (x, memory)
        added = count_numbers(layer, *given)
        for part in parts:
            asked = (x, memory) if part is getattr(layer, "cross_attention", None) else (x,)
            added -= count_numbers(part.sublayer, *asked) + count_numbers(part.norm, x)
        assert lines["residuals"].elementwise_flops == added == len(parts) * x.numel()
        assert lines["residuals"].activations == added
        assert lines["norms"].elementwise_flops == len(parts) * count_numbers(parts[0].norm, x)


def test_a_checkpointed_forward_pass_is_computed_once_more() -> None:
    network, x = feed_forward.FeedForward(4, 8), torch.zeros(3, 4, requires_grad=True)
    lines = accounting.feed_forward(3, 4, 8)

    def step() -> None:
        checkpoint(network, x, use_reentrant=False).sum().backward()

    # The last product of the forward pass needn't be repeated: nothing has to be kept of it.
    counted = accounting.count_flops(step)
    assert counted <= accounting.training_flops(lines, checkpointing=True)
    assert counted >= accounting.training_flops(lines) + lines["inner"].flops
    assert accounting.training_flops(lines, True) == 4 * accounting.total(lines).flops


@settings(max_examples=40)
@given(transformers(), st.booleans())
def test_layers_cost_what_pytorch_counts_with_biases_in_attention_or_without(
    sizes: dict[str, Any], bias: bool
) -> None:
    d, h, d_ff, b = (sizes[name] for name in ("d", "n_heads", "d_ff", "batch"))
    n_src, n_tgt = sizes["n_src"], sizes["n_tgt"]
    encoder, decoder = layers.EncoderLayer(d, h, d_ff), layers.DecoderLayer(d, h, d_ff)
    x, memory = torch.zeros(b, n_tgt, d), torch.zeros(b, n_src, d)
    for lines, layer, arguments, formula in (
        (accounting.encoder_layer(n_tgt, d, h, d_ff, b, bias), encoder, (x,),
         4 * d**2 + 2 * d * d_ff + d_ff + d + 4 * d),
        (accounting.decoder_layer(n_tgt, n_src, d, h, d_ff, b, bias), decoder, (x, memory),
         8 * d**2 + 2 * d * d_ff + d_ff + d + 6 * d),
    ):  # fmt: skip
        cost = accounting.total(lines)
        assert cost.flops == accounting.count_flops(layer, *arguments)
        biases = [p.numel() for name, p in layer.named_parameters() if ".w_" in name
                  and "attention" in name and name.endswith("bias")]  # fmt: skip
        held = sum(p.numel() for p in layer.parameters())
        assert cost.parameters == held - (0 if bias else sum(biases))
        assert cost.parameters == formula + (sum(biases) if bias else 0)
        with torch.no_grad(), LongestChain() as chain:
            layer(*arguments)
        # Softmax, and each norm's two sums over rows, wait for one another between the products.
        waits = {"attention": 1, "self-attention": 1, "cross-attention": 1, "norms": None}
        between = sum(lines[k].steps if w is None else w for k, w in waits.items() if k in lines)
        assert cost.steps == chain.longest + between


@given(st.integers(1, 4), size, size)
def test_scores_and_sums_cost_what_the_rest_of_a_layer_costs_at_the_crossover(
    n_heads: int, d_head: int, d_ff: int
) -> None:
    d = n_heads * d_head

    def parts(n: int) -> tuple[int, int]:
        lines = accounting.multi_head_attention(n, n, d, n_heads)
        quadratic = lines["scores"].flops + lines["heads"].flops
        return quadratic, accounting.total(
            accounting.encoder_layer(n, d, n_heads, d_ff)
        ).flops - quadratic

    n = accounting.crossover_length(d, d_ff)
    assert parts(n)[0] == parts(n)[1]
    assert parts(n + 1)[0] > parts(n + 1)[1]
    for bad in (0, 1.0, None):
        with pytest.raises(ValueError, match="d_ff must be a whole number of at least 1; got"):
            accounting.crossover_length(4, bad)


def test_the_papers_base_model_has_63_million_parameters_with_37000_shared_tokens() -> None:
    lines = accounting.encoder_decoder(50, 50, 37_000, 37_000, tie="all")
    with torch.device("meta"):
        model = EncoderDecoder(37_000, 37_000, tie="all")
    counted = sum(p.numel() for p in model.parameters())
    assert accounting.total(lines).parameters == counted == 63_082_496
    assert abs(counted / 65e6 - 1) < 0.04  # "65 million" in the paper's table 3


def test_projecting_onto_32000_tokens_costs_what_five_encoder_layers_cost() -> None:
    lines = accounting.encoder_decoder(50, 50, 32_000, 32_000)
    head, layer = lines["projection"].flops / 50 / 2, lines["encoder 1"].flops / 50 / 2
    assert head == 16_384_000
    assert layer == 12 * 512**2 + 2 * 50 * 512
    assert 5 < head / layer < 5.5


@settings(max_examples=40)
@given(transformers(), st.booleans())
def test_writing_a_target_costs_what_pytorch_counts_with_a_cache_and_without(
    sizes: dict[str, Any], cached: bool
) -> None:
    model = build(sizes).eval()
    src, src_lengths, tgt = inputs(sizes)
    n = sizes["n_tgt"]
    first, state = model.start(src, src_lengths, max_length=n, use_cache=cached)

    def write() -> None:
        now = state
        for t in range(n):
            _, now = model.step(tgt[:, t : t + 1], now)

    assert first.tolist() == tgt[:, :1].tolist()
    names = ("n_src", "n_tgt", "tgt_vocab_size", "d", "n_heads", "n_layers", "d_ff", "batch")
    costs = accounting.decoding(**{name: sizes[name] for name in names}, cached=cached)
    with torch.no_grad():
        assert sum(costs.values()) == accounting.count_flops(write)


def test_without_a_cache_twice_the_length_costs_eight_times_the_scores_and_four_the_rest() -> None:
    def costs(n: int, cached: bool) -> dict[str, int]:
        return accounting.decoding(1, n, 10, n_layers=1, cached=cached)

    for cached, power in ((True, 2), (False, 3)):
        one, two = costs(2000, cached), costs(4000, cached)
        assert two["scores and sums"] / one["scores and sums"] == pytest.approx(2**power, rel=1e-2)
        for name in ("projections", "feed-forward", "vocabulary"):
            assert two[name] / one[name] == pytest.approx(2 ** (power - 1), rel=1e-2)


@given(transformers(), st.integers(1, 5))
def test_a_cache_has_room_for_as_many_numbers_as_are_counted(
    sizes: dict[str, Any], room: int
) -> None:
    cache = build(sizes).new_cache(sizes["batch"], sizes["n_src"], room)
    counted = accounting.kv_cache(
        room, sizes["n_layers"], sizes["n_heads"], sizes["d"] // sizes["n_heads"],
        sizes["batch"], sizes["n_src"],
    )  # fmt: skip
    for name, parts in (
        ("self-attention", cache.self_attention), ("cross-attention", cache.cross_attention),
    ):  # fmt: skip
        held = [x for part in parts for x in vars(part).values() if isinstance(x, torch.Tensor)]
        assert sum(x.numel() for x in held) == counted[name]
    assert counted["self-attention"] == 2 * sizes["n_layers"] * room * sizes["d"] * sizes["batch"]


@settings(max_examples=40)
@given(transformers(), st.sampled_from([0.0, 0.3]), st.sampled_from(["float32", "float64"]),
       st.booleans())  # fmt: skip
def test_autograd_keeps_the_bytes_that_are_counted(
    sizes: dict[str, Any], dropout: float, dtype: str, padded: bool
) -> None:
    model = build(sizes, dropout).to(getattr(torch, dtype))
    src, src_lengths, tgt_in = inputs(sizes)
    padded = padded and sizes["n_src"] > 1
    if padded:
        src_lengths[-1] -= 1
    counted = accounting.count_saved_bytes(model, src, src_lengths, tgt_in)
    left_out = ("src_vocab_size", "tie", "max_length")
    arguments = {name: size for name, size in sizes.items() if name not in left_out}
    kept = accounting.activation_memory(
        **arguments, dropout=dropout > 0, padded=padded, dtype=dtype
    )
    assert sum(kept.values()) == counted


def test_what_several_operations_keep_is_counted_once_and_what_none_needs_not_at_all() -> None:
    x = torch.zeros(6, requires_grad=True)
    assert accounting.count_saved_bytes(lambda: x.exp().sin()) == 24  # one tensor, for both
    assert accounting.count_saved_bytes(lambda: x.exp() + x) == 24
    assert accounting.count_saved_bytes(lambda: x + 1) == 0
    assert accounting.count_saved_bytes(lambda: x + x.exp().sin().detach()) == 0
    layer, y = nn.Linear(4, 5), torch.zeros(3, 4)
    assert accounting.count_saved_bytes(layer, y) == 3 * 4 * 4  # its input; not its weights


def test_what_is_alive_is_counted_from_its_operation_on_until_it_is_dropped() -> None:
    x = torch.zeros(6)
    assert accounting.live_bytes(lambda: x + 1) == [24]
    assert accounting.live_bytes(lambda: (x + 1).exp().sin()) == [24, 48, 48]
    kept = []
    assert accounting.live_bytes(lambda: kept.extend([x + 1, x + 2, x + 3])) == [24, 48, 72]
    assert accounting.live_bytes(lambda: [x * i for i in range(3)]) == [24, 48, 72]
    assert accounting.live_bytes(lambda: None) == []


def test_what_was_there_before_is_not_counted_and_a_view_of_it_neither() -> None:
    x = torch.zeros(6)
    assert accounting.live_bytes(lambda: x.view(2, 3).transpose(0, 1)) == [0, 0]
    assert accounting.live_bytes(lambda: x.add_(1)) == [0]
    assert accounting.live_bytes(lambda: (x + 1).view(3, 2)) == [24, 24]
    assert accounting.live_bytes(torch.cat, [x, x]) == [48]
    assert accounting.live_bytes(torch.clamp, x, min=torch.zeros(6)) == [24]


def test_memory_that_is_used_again_is_counted_again() -> None:
    def passing() -> None:
        for _ in range(50):
            torch.zeros(1000).exp()

    alive = accounting.live_bytes(passing)
    assert alive == [4000, 8000] * 50


@settings(max_examples=10, deadline=None)
@given(transformers())
def test_after_a_forward_pass_what_autograd_keeps_is_alive_and_after_backward_the_gradients(
    sizes: dict[str, Any],
) -> None:
    model, batch = build(sizes), inputs(sizes)
    logits: list[torch.Tensor] = []
    alive = accounting.live_bytes(lambda: logits.append(model(*batch)))
    # Kept are ids and such as well, which were there before.
    given = sum(x.nbytes for x in batch)
    kept = accounting.count_saved_bytes(model, *batch) + logits[0].nbytes
    assert kept - given <= alive[-1] <= 1.1 * kept + 200
    after = accounting.live_bytes(lambda: model(*batch).sum().backward())
    gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    assert after[-1] >= gradients and max(after) > after[-1]


def test_a_checkpoint_before_each_layer_lowers_the_peak_and_one_around_all_does_not() -> None:
    made = nn.Sequential(*[layers.EncoderLayer(8, 2, 16) for _ in range(6)])
    x = torch.zeros(2, 32, 8, requires_grad=True)

    def peak(step: Callable[[], torch.Tensor]) -> int:
        made.zero_grad()
        return max(accounting.live_bytes(lambda: step().sum().backward()))

    def one_by_one() -> torch.Tensor:
        y = x
        for layer in made:
            y = checkpoint(layer, y, use_reentrant=False)
        return y

    kept = peak(lambda: made(x))
    assert peak(one_by_one) < 0.4 * kept
    assert peak(lambda: checkpoint(made, x, use_reentrant=False)) > 0.95 * kept


def test_the_memory_of_a_step_is_what_parameters_gradients_and_adam_hold() -> None:
    layer = nn.Linear(3, 4)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.zeros(2, 3)).sum().backward()
    optimizer.step()
    numbers = sum(p.numel() for p in layer.parameters())
    states = [x for s in optimizer.state.values() for n, x in s.items() if n != "step"]
    counted = accounting.training_memory(numbers, activations=24)
    assert counted == {
        "parameters": sum(p.nbytes for p in layer.parameters()),
        "gradients": sum(p.grad.nbytes for p in layer.parameters() if p.grad is not None),
        "optimiser": sum(x.nbytes for x in states),
        "activations": 24,
    }
    assert accounting.training_memory(numbers, 0, states=0)["optimiser"] == 0


def test_six_flops_a_parameter_and_token_are_what_a_wide_model_with_short_texts_costs() -> None:
    n, v, d = 16, 100, 1024
    lines = accounting.encoder_decoder(n, n, v, v, d, 8, 6, 4 * d)
    parameters = accounting.total(lines).parameters
    # Each parameter of the layers sees n tokens, of the source or of the target.
    assert accounting.training_flops(lines) / (6 * parameters * n) == pytest.approx(1.0, rel=0.03)
    assert accounting.training_time(6 * parameters * n, 1e12) == 6 * parameters * n / 1e12
    assert accounting.training_time(10, 5, 0.5) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.encoder_layer(2, 4, 3, 5), "n_heads must divide d, 4; got 3"),
        (lambda a: a.encoder_layer(2, 4, 2, 0), "d_ff must be a whole number of at least 1; got 0"),
        (lambda a: a.encoder_layer(2, 4, 2, 5, 1, 1), "attention_bias must be True or False"),
        (lambda a: a.decoder_layer(2, 0, 4, 2, 5), "n_k must be a whole number of at least 1"),
        (lambda a: a.decoder_layer(2, 2, 4, 2, 5, 1, None), "attention_bias must be True or Fal"),
        (lambda a: a.encoder_decoder(2, 2, 5, 5, tie="yes"), "tie must be one of none, output, al"),
        (lambda a: a.encoder_decoder(2, 2, 5, 6, tie="all"), "tie must not be 'all' for vocabul"),
        (lambda a: a.encoder_decoder(2, 2, 5, 5, n_layers=0), "n_layers must be a whole number"),
        (lambda a: a.encoder_decoder(2, 2, 5, 5, norm_first=1), "norm_first must be True or Fals"),
        (lambda a: a.encoder_decoder(2, 2, 5, 5, max_length=1), "max_length must be a whole numb"),
        (lambda a: a.decoding(2, 0, 5), "n_tgt must be a whole number of at least 1; got 0"),
        (lambda a: a.decoding(2, 2, 5, d=9), "n_heads must divide d, 9; got 8"),
        (lambda a: a.decoding(2, 2, 5, cached="no"), "cached must be True or False; got 'no'"),
        (lambda a: a.kv_cache(0, 1, 1, 1), "n must be a whole number of at least 1; got 0"),
        (lambda a: a.kv_cache(1, 1, 1, 1, n_src=-1), "n_src must be a whole number of at least 0"),
        (lambda a: a.training_flops([]), "lines must be a mapping of names to costs"),
        (lambda a: a.training_flops({}, 1), "checkpointing must be True or False; got 1"),
        (lambda a: a.training_time(0, 1), "flops must be a number above 0; got 0"),
        (lambda a: a.training_time(1, "x"), "flops_per_second must be a number above 0; got 'x'"),
        (lambda a: a.training_time(1, 1, 1.5), "utilisation must be at most 1; got 1.5"),
        (lambda a: a.activation_memory(2, 2, 0), "tgt_vocab_size must be a whole number of at le"),
        (lambda a: a.activation_memory(2, 2, 5, dropout=0.1), "dropout must be True or False"),
        (lambda a: a.activation_memory(2, 2, 5, padded=3), "padded must be True or False; got 3"),
        (lambda a: a.activation_memory(2, 2, 5, dtype="int4"), "dtype must be one of"),
        (lambda a: a.training_memory(1, -1), "activations must be a whole number of at least 0"),
        (lambda a: a.training_memory(1, 1, states=0.5), "states must be a whole number of at leas"),
        (lambda a: a.training_memory(0, 1), "numbers must be a whole number of at least 1; got 0"),
        (lambda a: a.count_saved_bytes(3), "function must be a function; got 3"),
        (lambda a: a.count_saved_bytes(list), "function must return a tensor; got list"),
        (lambda a: a.live_bytes("f"), "function must be a function; got 'f'"),
    ],
)
def test_models_and_machines_that_cannot_be_are_named(
    call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(accounting)
