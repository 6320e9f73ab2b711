"""Every cell of the course's table of costs against counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib import accounting
from course_lib.blocks import embeddings, feed_forward, multi_head, normalization, positions
from course_lib.blocks import encoder_decoder as layers
from course_lib.blocks import recurrent as recurrence
from course_lib.cost_formulas import BLOCKS, MODEL, Formulas, evaluate, to_html, to_text
from course_lib.data.vocabulary import BOS
from course_lib.models.encoder_decoder import EncoderDecoder

ROWS = BLOCKS | MODEL
COLUMNS = tuple(field.name for field in fields(Formulas))
# Operations that wait for what they are given: products, and sums over rows (`sum` besides).
STEPS = ("mm", "bmm", "addmm", "baddbmm", "mean", "_softmax", "_safe_softmax")


@st.composite
def all_sizes(draw: st.DrawFn) -> dict[str, int]:
    h = draw(st.integers(1, 3))
    return {
        "n": draw(st.integers(2, 6)),
        "d": 2 * h * draw(st.integers(1, 3)),
        "h": h,
        "d_ff": draw(st.integers(1, 9)),
        "N": draw(st.integers(1, 3)),
        "V": draw(st.integers(5, 9)),
    }


class Recurrent(nn.Module):
    """A recurrent layer of the course with PyTorch's parameters."""

    def __init__(self, kind: str, d: int) -> None:
        super().__init__()
        self.layer = getattr(recurrence, kind)
        self.own = {"rnn": nn.RNN, "lstm": nn.LSTM}[kind](d, d)
        # Two tensors: what is kept of one and the same would count once.
        self.states = [torch.zeros(1, d) for _ in range(1 + (kind == "lstm"))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x, *self.states, *self.own.parameters())
        states: torch.Tensor = out[0] if isinstance(out, tuple) else out
        return states


def block(name: str, sizes: dict[str, int]) -> tuple[nn.Module, list[torch.Tensor]]:
    """Return the block of a row, and what it is run on."""
    n, d, h, d_ff, v = (sizes[key] for key in ("n", "d", "h", "d_ff", "V"))
    x, memory = (torch.randn(1, n, d, requires_grad=True) for _ in range(2))
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    made: dict[str, Callable[[], tuple[nn.Module, list[torch.Tensor]]]] = {
        "embedding": lambda: (embeddings.TokenEmbedding(v, d), [torch.randint(v, (1, n))]),
        "sinusoidal positions": lambda: (positions.SinusoidalPositions(d), [x]),
        "self-attention": lambda: (multi_head.MultiHeadAttention(d, h), [x]),
        "cross-attention": lambda: (multi_head.MultiHeadAttention(d, h), [x, memory]),
        "feed-forward": lambda: (feed_forward.FeedForward(d, d_ff), [x]),
        "layer norm": lambda: (normalization.LayerNorm(d), [x]),
        "encoder layer": lambda: (layers.EncoderLayer(d, h, d_ff), [x]),
        "decoder layer": lambda: (layers.DecoderLayer(d, h, d_ff), [x, memory, causal]),
        "projection": lambda: (nn.Linear(d, v), [x]),
        "RNN layer": lambda: (Recurrent("rnn", d), [x]),
        "LSTM layer": lambda: (Recurrent("lstm", d), [x]),
    }
    return made[name]()


def model(sizes: dict[str, int]) -> EncoderDecoder:
    return EncoderDecoder(
        sizes["V"], sizes["V"], sizes["d"], sizes["h"], sizes["N"], sizes["d_ff"], dropout=0.0
    )


def pair(sizes: dict[str, int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    src, tgt = torch.randint(3, sizes["V"], (2, 1, sizes["n"]))
    tgt[:, 0] = BOS
    return src, torch.tensor([sizes["n"]]), tgt


class Waiting(TorchDispatchMode):
    """Finds how many products, and sums over rows, wait for one another.

    What softmax does along a row, its maximum and its sum, is one step, as in the course's count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        flat = [a for b in args for a in (b if isinstance(b, list | tuple) else [b])]
        depth = max((self.depths.get(id(a), 0) for a in flat), default=0)
        name = func.overloadpacket.__name__
        depth += name in STEPS or (name == "sum" and len(args) > 1)
        for out in result if isinstance(result, list | tuple) else [result]:
            if isinstance(out, torch.Tensor):
                # In place, as masks are combined: what was waited for is still waited for.
                self.depths[id(out)] = max(depth, self.depths.get(id(out), 0))
                self.kept.append(out)
        return result


@contextmanager
def waiting() -> Iterator[Waiting]:
    with torch.no_grad(), accounting._attention_in_steps(), Waiting() as chain:
        yield chain


@pytest.mark.parametrize("name", BLOCKS)
@settings(max_examples=4, deadline=None)
@given(all_sizes())
def test_a_block_takes_the_flops_parameters_and_bytes_of_its_row(
    name: str, sizes: dict[str, int]
) -> None:
    made, given = block(name, sizes)
    row = BLOCKS[name]
    assert evaluate(row.flops, sizes) == accounting.count_flops(made, *given)
    assert evaluate(row.parameters, sizes) == sum(p.numel() for p in made.parameters())
    assert evaluate(row.kept, sizes) == accounting.count_saved_bytes(made, *given)


@pytest.mark.parametrize("name", BLOCKS)
@settings(max_examples=3, deadline=None)
@given(all_sizes())
def test_as_many_products_and_sums_of_a_block_wait_for_one_another_as_its_row_says(
    name: str, sizes: dict[str, int]
) -> None:
    made, given = block(name, sizes)
    with waiting() as chain:
        made(*given)
    assert max(chain.depths.values(), default=0) == evaluate(BLOCKS[name].steps, sizes)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_path_is_as_long_as_walking_the_connections_of_a_block_is(name: str) -> None:
    torch.manual_seed(0)
    sizes = {"n": 5, "d": 8, "h": 2, "d_ff": 64, "N": 1, "V": 9}
    n, row = sizes["n"], BLOCKS[name]
    made, given = block(name, sizes)
    given = [x.detach() if x.is_floating_point() else x for x in given]
    asked = 1 if name in ("cross-attention", "decoder layer") else 0
    if not given[asked].is_floating_point():
        assert not row.path  # token ids, each looked up alone
        return
    given[asked].requires_grad_()
    connected = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        out = made(*given)[0, i]
        # Of no sum or sum of squares: behind a norm these don't depend on anything.
        (gradient,) = torch.autograd.grad(out @ torch.randn(out.shape), given[asked])
        connected[i] = (gradient[0] != 0).any(dim=-1)
    if name.startswith(("RNN", "LSTM")):
        # Each state knows all before it, by way of the states between: one link each.
        assert torch.equal(connected, torch.ones(n, n).tril().bool())
        assert evaluate(row.path, sizes) == accounting.longest_path("rnn", n) == n - 1
    elif row.path:
        assert connected.all()
        assert evaluate(row.path, sizes) == accounting.longest_path("plain_self_attention", n) == 1
    else:
        assert torch.equal(connected, torch.eye(n, dtype=torch.bool)), "each token for itself"


@settings(max_examples=10, deadline=None)
@given(all_sizes())
def test_a_whole_forward_pass_takes_what_its_row_says(sizes: dict[str, int]) -> None:
    row, made, given = MODEL["forward, all at once"], model(sizes), pair(sizes)
    assert evaluate(row.flops, sizes) == accounting.count_flops(made, *given)
    assert evaluate(row.parameters, sizes) == sum(p.numel() for p in made.parameters())
    assert evaluate(row.kept, sizes) == accounting.count_saved_bytes(made, *given)
    with waiting() as chain:
        made(*given)
    assert max(chain.depths.values()) == evaluate(row.steps, sizes)


@settings(max_examples=10, deadline=None)
@given(all_sizes())
def test_a_training_step_takes_what_its_row_says(sizes: dict[str, int]) -> None:
    row, made, given = MODEL["training step"], model(sizes), pair(sizes)
    optimizer = torch.optim.Adam(made.parameters())
    right = given[-1].flatten().clone()  # memory of its own, as a target shifted by one has

    def loss() -> torch.Tensor:
        return functional.cross_entropy(made(*given).flatten(0, 1), right)

    kept = accounting.count_saved_bytes(loss)
    counted = accounting.count_flops(lambda: loss().backward())
    optimizer.step()
    assert evaluate(row.flops, sizes) == counted
    held = [p.detach() for p in made.parameters()]
    held += [p.grad for p in made.parameters() if p.grad is not None]
    held += [s[name] for s in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert evaluate(row.kept, sizes) == kept + sum(x.nbytes for x in held)


@settings(max_examples=10, deadline=None)
@given(all_sizes(), st.booleans())
def test_writing_token_by_token_takes_what_its_row_says(
    sizes: dict[str, int], cached: bool
) -> None:
    row = MODEL["writing with a cache" if cached else "writing without"]
    made, (src, src_lengths, tgt), n = model(sizes).eval(), pair(sizes), sizes["n"]
    with torch.no_grad():
        _, state = made.start(src, src_lengths, max_length=n, use_cache=cached)
    held = 0
    if cached:
        assert state.cache is not None
        parts = (*state.cache.self_attention, *state.cache.cross_attention)
        numbers = [x for part in parts for x in vars(part).values() if torch.is_tensor(x)]
        held = sum(x.nbytes for x in numbers)
    longest = []

    def write() -> None:
        now = state
        for t in range(n):
            with waiting() as chain:
                _, now = made.step(tgt[:, t : t + 1], now)
            longest.append(max(chain.depths.values()))

    with torch.no_grad():
        assert evaluate(row.flops, sizes) == accounting.count_flops(write)
    assert evaluate(row.kept, sizes) == held
    # A token can't be chosen before the one before it is: steps add up.
    assert evaluate(row.steps, sizes) == sum(longest)


def test_no_cell_is_without_a_test() -> None:
    """What is left empty is left empty on purpose, and all else is counted above."""
    empty = {(name, column) for name, row in ROWS.items() for column in COLUMNS
             if not getattr(row, column)}  # fmt: skip
    mixes = {"self-attention", "cross-attention", "encoder layer", "decoder layer",
             "RNN layer", "LSTM layer"}  # fmt: skip
    expected = {(name, "path") for name in ROWS if name not in mixes}
    expected |= {(name, "parameters") for name in MODEL if name != "forward, all at once"}
    expected |= {("training step", "steps")}
    assert empty == expected


@settings(max_examples=10)
@given(all_sizes())
def test_the_rows_say_what_the_accounting_says(sizes: dict[str, int]) -> None:
    n, d, h, d_ff, v = (sizes[key] for key in ("n", "d", "h", "d_ff", "V"))
    for name, lines in (
        ("embedding", accounting.embedding(n, v, d)),
        ("sinusoidal positions", accounting.positions(n, d)),
        ("self-attention", accounting.multi_head_attention(n, n, d, h)),
        ("cross-attention", accounting.multi_head_attention(n, n, d, h)),
        ("feed-forward", accounting.feed_forward(n, d, d_ff)),
        ("layer norm", accounting.layer_norm(n, d)),
        ("encoder layer", accounting.encoder_layer(n, d, h, d_ff)),
        ("decoder layer", accounting.decoder_layer(n, n, d, h, d_ff)),
        ("projection", accounting.output_projection(n, d, v)),
        ("RNN layer", accounting.rnn(n, d)),
        ("LSTM layer", accounting.lstm(n, d)),
        ("forward, all at once", accounting.encoder_decoder(n, n, v, v, d, h, sizes["N"], d_ff)),
    ):
        cost, row = accounting.total(lines), ROWS[name]
        assert evaluate(row.flops, sizes) == cost.flops, name
        assert evaluate(row.parameters, sizes) == cost.parameters, name
        # The first decoder layer's self-attention and its norm, 5 + 2, don't wait for the encoder.
        beside = 7 if name == "forward, all at once" else 0
        assert evaluate(row.steps, sizes) == cost.steps - beside, name


@pytest.mark.parametrize("name", ROWS)
def test_what_is_read_computes_to_the_same_as_what_is_checked(name: str) -> None:
    """The written form is turned back into a formula, by other rules than those that wrote it."""
    sizes = {"n": 7, "d": 11, "h": 3, "d_ff": 13, "N": 2, "V": 17}
    for column in COLUMNS:
        if not (formula := getattr(ROWS[name], column)):
            continue
        text = to_text(formula).replace("|V|", "V").replace("d_ff", "f").replace("−", "-")
        html = to_html(formula)
        assert "*" not in html
        spelled = ""
        for sign in text.replace(" ", ""):
            if sign in "²³":
                spelled += "**" + {"²": "2", "³": "3"}[sign]
            else:
                ends = spelled[-1:].isalnum() or spelled.endswith(")")
                digit = sign.isdigit() and spelled[-1:].isdigit()
                begins = sign.isalnum() or sign == "("
                spelled += "*" + sign if ends and begins and not digit else sign
        value = eval(spelled.replace("/", "//"), {}, {**sizes, "f": sizes["d_ff"]})
        assert value == evaluate(formula, sizes), (text, spelled)


@pytest.mark.parametrize("formula", ["", "n +", "n**0.5", "f(n)", "n.d", "__import__('os')", "n/2",
                                     "'a'", "True", "-n", "n < d", "[n]"])  # fmt: skip
def test_what_is_no_formula_is_named(formula: str) -> None:
    for function in (to_html, to_text, lambda text: evaluate(text, {"n": 1, "d": 2})):
        with pytest.raises(ValueError, match=r"^formula must be made of whole numbers, sizes, "):
            function(formula)


def test_a_size_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match=r"^sizes must have d; got n"):
        evaluate("n*d", {"n": 3})
    with pytest.raises(ValueError, match=r"^sizes must have n; got none"):
        evaluate("n", {})
