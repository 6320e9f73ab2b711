"""The PyTorch half of embeddings agrees with its twin and with torch.nn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import embeddings as torch_half
from course_lib.blocks.embeddings import TokenEmbedding
from course_lib.reference import embeddings as numpy_half
from tests.agreement import FLOATS, assert_close

dtypes = st.sampled_from(sorted(FLOATS))
leading = st.lists(st.integers(1, 4), max_size=3)
seeds = st.integers(0, 2**32 - 1)
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@given(leading, st.integers(1, 9), st.integers(1, 5), dtypes, seeds)
def test_a_look_up_equals_its_twin_and_pytorchs(
    lead: list[int], v: int, d: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids, table = np.asarray(rng.integers(0, v, lead)), rng.standard_normal((v, d)).astype(dtype)
    ours = torch_half.embedding(torch.from_numpy(ids), torch.from_numpy(table))
    assert_close(ours, numpy_half.embedding(ids, table), 0.0)
    assert_close(ours, F.embedding(torch.from_numpy(ids), torch.from_numpy(table)), 0.0)
    rows = torch_half.one_hot(torch.from_numpy(ids), v)
    assert rows.dtype == torch.get_default_dtype()
    assert (rows.numpy() == numpy_half.one_hot(ids, v)).all()
    assert (rows == F.one_hot(torch.from_numpy(ids), v)).all()


@given(leading, st.integers(1, 9), st.integers(1, 5), dtypes, seeds)
def test_the_tables_gradient_equals_its_twin_and_autograd(
    lead: list[int], v: int, d: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids = np.asarray(rng.integers(0, v, lead))
    d_output = np.asarray(rng.standard_normal((*lead, d))).astype(dtype)
    ours = torch_half.embedding_backward(torch.from_numpy(ids), torch.from_numpy(d_output), v)
    assert_close(ours, numpy_half.embedding_backward(ids, d_output, v), FLOATS[dtype])
    for look_up in (torch_half.embedding, F.embedding):
        table = torch.zeros(v, d, dtype=getattr(torch, dtype), requires_grad=True)
        look_up(torch.from_numpy(ids), table).backward(torch.from_numpy(d_output))
        assert_close(ours, table.grad, FLOATS[dtype])


@given(leading, st.integers(1, 9), st.integers(1, 5), dtypes, seeds)
def test_tied_logits_equal_their_twin_and_a_linear_layer_with_the_table_as_its_weight(
    lead: list[int], v: int, d: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    hidden = np.asarray(rng.standard_normal((*lead, d))).astype(dtype)
    table = rng.standard_normal((v, d)).astype(dtype)
    ours = torch_half.tied_logits(torch.from_numpy(hidden), torch.from_numpy(table))
    assert_close(ours, numpy_half.tied_logits(hidden, table), FLOATS[dtype])
    theirs = F.linear(torch.from_numpy(hidden), torch.from_numpy(table))
    assert_close(ours, theirs, FLOATS[dtype])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ids, table = torch.randint(7, (4, 300)), torch.randn(7, 5).to(dtype)
    hidden, d_output = torch.randn(4, 5).to(dtype), torch.randn(4, 300, 5).to(dtype)
    assert torch_half.embedding(ids, table).dtype == dtype
    for single, half in (
        (torch_half.tied_logits(hidden.float(), table.float()),
         torch_half.tied_logits(hidden, table)),
        (torch_half.embedding_backward(ids, d_output.float(), 7),
         torch_half.embedding_backward(ids, d_output, 7)),
    ):  # fmt: skip
        assert half.dtype == dtype
        assert torch.equal(half, single.to(dtype))


@pytest.mark.parametrize("dtype", WHOLE)
def test_ids_of_any_whole_type_mean_the_same(dtype: torch.dtype) -> None:
    ids, table = torch.tensor([[3, 0], [1, 3]]), torch.randn(4, 2)
    small, d_output = ids.to(dtype), torch.randn(2, 2, 2)
    assert torch.equal(torch_half.embedding(small, table), torch_half.embedding(ids, table))
    assert torch.equal(torch_half.one_hot(small, 4), torch_half.one_hot(ids, 4))
    expected = torch_half.embedding_backward(ids, d_output, 4)
    assert torch.equal(torch_half.embedding_backward(small, d_output, 4), expected)
    found = numpy_half.embedding_backward(small.numpy(), d_output.numpy(), 4)
    assert_close(found, expected, 1e-6)
    assert_close(numpy_half.embedding(small.numpy(), table.numpy()), table[ids], 0.0)


def test_no_ids_give_no_rows_and_no_gradient() -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    assert torch_half.embedding(none, torch.ones(3, 4)).shape == (2, 0, 4)
    assert torch_half.embedding_backward(none, torch.ones(2, 0, 4), 3).tolist() == [[0.0] * 4] * 3
    assert torch_half.tied_logits(torch.ones(2, 0, 4), torch.ones(3, 4)).shape == (2, 0, 3)
    assert torch_half.one_hot(none, 3).shape == (2, 0, 3)


# ---- The module ----------------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 6), st.booleans())
def test_the_module_equals_pytorchs_with_its_weights_times_the_root_of_the_width(
    v: int, d: int, scale: bool
) -> None:
    tokens, peer = TokenEmbedding(v, d, scale=scale), nn.Embedding(v, d)
    with torch.no_grad():
        peer.weight.copy_(tokens.table)
    ids = torch.randint(v, (3, 4))
    assert_close(tokens(ids), peer(ids) * (d**0.5 if scale else 1.0), 1e-6)
    hidden = torch.randn(3, 4, d)
    assert_close(tokens.logits(hidden), hidden @ peer.weight.T, 1e-6)


def test_scaled_embeddings_begin_with_entries_of_about_one_and_logits_as_large_as_theirs() -> None:
    torch.manual_seed(0)
    tokens = TokenEmbedding(1000, 256)
    x = tokens(torch.arange(1000))
    assert x.std().item() == pytest.approx(1.0, abs=0.02)
    logits = tokens.logits(torch.randn(100, 256))
    assert logits.std().item() == pytest.approx(1.0, abs=0.05)
    assert TokenEmbedding(1000, 256, scale=False)(torch.arange(1000)).std().item() == (
        pytest.approx(1 / 16, abs=0.002)
    )


def test_a_tied_table_is_one_parameter_with_gradients_from_both_its_uses() -> None:
    torch.manual_seed(0)
    tokens = TokenEmbedding(5, 3).double()
    assert sum(p.numel() for p in tokens.parameters()) == 15
    ids, targets = torch.tensor([0, 1, 1]), torch.tensor([1, 2, 4])

    def loss(read: torch.Tensor, scored: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(torch_half.embedding(ids, read) * tokens.factor)
        return F.cross_entropy(torch_half.tied_logits(hidden, scored), targets)

    F.cross_entropy(tokens.logits(torch.tanh(tokens(ids))), targets).backward()
    read, scored = (tokens.table.detach().clone().requires_grad_() for _ in range(2))
    loss(read, scored).backward()
    assert read.grad is not None and scored.grad is not None and tokens.table.grad is not None
    assert (read.grad != 0).any() and (scored.grad != 0).any()
    assert_close(tokens.table.grad, read.grad + scored.grad, 1e-12)
    assert torch.autograd.gradcheck(loss, (read, scored))


# ---- Bad input -----------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays."""
    if request.param == "numpy":
        return numpy_half, np.array
    return torch_half, lambda x, dtype="float64": torch.tensor(x, dtype=getattr(torch, dtype))


def test_ids_that_are_no_rows_are_named(half: Any) -> None:
    module, array = half
    table, grad = array([[0.0, 1.0], [2.0, 3.0]]), array([[1.0, 1.0]])
    for bad, message in (
        (array([2], dtype="int64"), "ids must be from 0 to 1; got 2"),
        (array([-1], dtype="int64"), "ids must be from 0 to 1; got -1"),
        (array([0.0]), r"ids must be an array of whole numbers of shape \(\.\.\.\); got float64"),
        (array([True], dtype="bool"), "ids must be an array of whole numbers .* got bool"),
        ([0], "ids must be an array of whole numbers .* got list"),
    ):
        for call in (
            lambda: module.embedding(bad, table),  # noqa: B023
            lambda: module.one_hot(bad, 2),  # noqa: B023
            lambda: module.embedding_backward(bad, grad, 2),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=message):
                call()


def test_tables_and_gradients_that_do_not_fit_are_named(half: Any) -> None:
    module, array = half
    ids = array([0, 1], dtype="int64")
    for bad, message in (
        (array([1.0, 2.0]), r"table must have a shape \(V, d\); got \(2,\)"),
        (array([[[1.0]]]), r"table must have a shape \(V, d\); got \(1, 1, 1\)"),
        (array([[], []]), r"table must not be empty: \(V, d\)"),
        (array([[1], [2]], dtype="int64"), "table must be an array of real .* got int64"),
    ):
        with pytest.raises(ValueError, match=message):
            module.embedding(ids, bad)
        with pytest.raises(ValueError, match=message):
            module.tied_logits(array([1.0, 2.0]), bad)
    for bad, message in (
        (array([1.0, 2.0]), r"d_output must have the leading axes of ids, \(2,\); got \(\)"),
        (array([[1.0], [2.0], [3.0]]), r"d_output must have the leading axes .* got \(3,\)"),
        (array([[], []]), "d_output must not be empty along d"),
        (array([[1], [2]], dtype="int64"), "d_output must be an array of real .* got int64"),
    ):
        with pytest.raises(ValueError, match=message):
            module.embedding_backward(ids, bad, 3)
    for size in (0, -1, 2.0, True, "3", None):
        with pytest.raises(ValueError, match="n_rows must be a whole number of at least 1; got"):
            module.embedding_backward(ids, array([[1.0], [2.0]]), size)
        with pytest.raises(ValueError, match="size must be a whole number of at least 1; got"):
            module.one_hot(ids, size)


def test_hidden_vectors_of_another_width_or_dtype_than_the_table_are_named(half: Any) -> None:
    module, array = half
    table = array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    for bad, message in (
        (array([[1.0, 2.0, 3.0]]), "hidden must have the width of the table's rows, d = 2; got fl"),
        (array([1.0, 2.0], dtype="float32"), "hidden must have the dtype of table, float64; got"),
        (array(1.0), "hidden must have at least one axis"),
        (array([1, 2], dtype="int64"), "hidden must be an array of real .* got int64"),
    ):
        with pytest.raises(ValueError, match=message):
            module.tied_logits(bad, table)


def test_arguments_of_the_other_library_are_named(half: Any) -> None:
    module, array = half

    def other(x: Any) -> Any:
        return torch.from_numpy(x) if isinstance(x, np.ndarray) else x.numpy()

    ids, table = array([0, 1], dtype="int64"), array([[0.0, 1.0], [2.0, 3.0]])
    for function, arguments, rest in (
        ("one_hot", {"ids": ids}, {"size": 2}),
        ("embedding", {"ids": ids, "table": table}, {}),
        ("embedding_backward", {"ids": ids, "d_output": table}, {"n_rows": 2}),
        ("tied_logits", {"hidden": table, "table": table}, {}),
    ):
        call = getattr(module, function)
        call(**arguments, **rest)
        for name, value in arguments.items():
            with pytest.raises(ValueError, match=f"^{name} must be an? .*; got a"):
                call(**{**arguments, name: other(value)}, **rest)


@pytest.mark.parametrize("bad", [0, -1, 2.0, True, "4", None])
def test_sizes_of_a_module_that_are_no_whole_positive_numbers_are_named(bad: Any) -> None:
    for name in ("vocab_size", "d_model"):
        sizes = {"vocab_size": 3, "d_model": 2, name: bad}
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1; got"):
            TokenEmbedding(**sizes)
