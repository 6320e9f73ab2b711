"""The PyTorch half of language modelling agrees with its twin and with torch.nn.functional."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from course_lib.blocks import language_modelling as torch_half
from course_lib.reference import language_modelling as numpy_half
from tests.agreement import FLOATS, assert_close

HALVES = [torch.float16, torch.bfloat16]
dtypes = st.sampled_from(sorted(FLOATS))
leading = st.lists(st.integers(1, 4), max_size=3)
seeds = st.integers(0, 2**32 - 1)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), dtypes, seeds)
def test_log_softmax_equals_its_twin_and_pytorchs_along_every_axis(
    shape: list[int], dtype: str, seed: int
) -> None:
    x = (5 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)
    for axis in range(-len(shape), len(shape)):
        ours = torch_half.log_softmax(torch.from_numpy(x), axis)
        assert_close(ours, numpy_half.log_softmax(x, axis), FLOATS[dtype])
        assert_close(ours, F.log_softmax(torch.from_numpy(x), axis), FLOATS[dtype])


@given(leading, st.integers(1, 6), dtypes, st.sampled_from([-100, 0, 2]), seeds)
def test_cross_entropy_equals_its_twin_and_pytorchs_padding_included(
    lead: list[int], v: int, dtype: str, ignore_index: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = (5 * rng.standard_normal((*lead, v))).astype(dtype)
    targets = np.where(rng.random(lead) < 0.4, ignore_index, rng.integers(0, v, lead))
    tensors = torch.from_numpy(logits), torch.tensor(targets)
    if (targets == ignore_index).all():
        for half, arguments in ((numpy_half, (logits, targets)), (torch_half, tensors)):
            with pytest.raises(ValueError, match="targets must hold at least one id other than"):
                half.cross_entropy(*arguments, ignore_index)
        return
    ours = torch_half.cross_entropy(*tensors, ignore_index)
    assert ours.shape == ()
    assert_close(ours, numpy_half.cross_entropy(logits, targets, ignore_index), FLOATS[dtype])
    theirs = F.cross_entropy(
        tensors[0].reshape(-1, v), tensors[1].reshape(-1), ignore_index=ignore_index
    )
    assert_close(ours, theirs, FLOATS[dtype])


@given(st.integers(1, 8), dtypes, seeds)
def test_perplexity_equals_its_twin(k: int, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses, n_tokens = rng.exponential(size=k).astype(dtype), rng.integers(1, 50, k)
    ours = torch_half.perplexity(torch.from_numpy(losses), torch.from_numpy(n_tokens))
    assert_close(ours, numpy_half.perplexity(losses, n_tokens), FLOATS[dtype])


@given(leading, st.integers(1, 6), st.integers(1, 6), dtypes, seeds)
def test_the_chain_rule_equals_its_twin(
    lead: list[int], n: int, v: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(v), (*lead, n)).astype(dtype)
    tokens = rng.integers(0, v, (*lead, n))
    ours = torch_half.chain_log_probability(torch.from_numpy(p), torch.from_numpy(tokens))
    assert ours.shape == tuple(lead)
    assert_close(ours, numpy_half.chain_log_probability(p, tokens), FLOATS[dtype])


@given(leading, st.integers(1, 9), dtypes, st.sampled_from([0.1, 1, 3.0]), seeds)
def test_sampling_equals_its_twin_id_by_id(
    lead: list[int], v: int, dtype: str, temperature: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = (3 * rng.standard_normal((*lead, v))).astype(dtype)
    uniforms = np.array(rng.random(lead)).astype(dtype)
    uniforms = np.minimum(uniforms, np.nextafter(np.ones((), dtype), 0))
    ours = torch_half.sample(torch.from_numpy(logits), torch.tensor(uniforms), temperature)
    theirs = numpy_half.sample(logits, uniforms, temperature)
    assert ours.dtype == torch.int64
    assert ours.shape == tuple(lead)
    assert np.array_equal(ours.numpy(), theirs)


def test_rounding_decides_no_draw_a_hair_beside_a_boundary_in_single_precision() -> None:
    rng = np.random.default_rng(0)
    row = rng.standard_normal(5000).astype(np.float32)
    p = np.exp(row.astype(np.float64))
    ids = rng.integers(0, 4999, 100)
    boundaries = (p.cumsum() / p.sum())[ids]  # where token i ends and i + 1 begins
    logits = np.tile(row, (100, 1))
    for shift, expected in ((-1e-10, ids), (1e-10, ids + 1)):
        uniforms = boundaries + shift
        ours = torch_half.sample(torch.tensor(logits), torch.tensor(uniforms))
        assert np.array_equal(ours.numpy(), expected)
        assert np.array_equal(numpy_half.sample(logits, uniforms), expected)


def test_one_row_is_drawn_from_by_a_plain_number() -> None:
    logits = np.log([0.2, 0.5, 0.3])
    for u in (0.0, 0.1, 0.3, 0.65, 0.8, 0.999):
        assert numpy_half.sample(logits, u) == torch_half.sample(torch.from_numpy(logits), u)


def test_the_losses_gradients_equal_finite_differences_and_skip_what_is_ignored() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 4, -100], [0, -100, -100]])
    assert torch.autograd.gradcheck(torch_half.log_softmax, (logits,))
    assert torch.autograd.gradcheck(torch_half.cross_entropy, (logits, targets))
    torch_half.cross_entropy(logits, targets).backward()
    assert logits.grad is not None
    assert (logits.grad[targets == -100] == 0).all()
    losses = torch.rand(4, dtype=torch.float64, requires_grad=True)
    n_tokens = torch.arange(1, 5)
    assert torch.autograd.gradcheck(torch_half.perplexity, (losses, n_tokens))
    p = torch.softmax(logits.detach(), -1).requires_grad_()
    assert torch.autograd.gradcheck(
        torch_half.chain_log_probability, (p, targets.clamp(min=0)), eps=1e-7
    )


def test_autograd_gives_no_nan_through_scores_that_are_hidden() -> None:
    x = torch.tensor([[0.0, -torch.inf, 1.0], [-torch.inf] * 3], requires_grad=True)
    torch_half.log_softmax(x)[0, 0].backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits, targets = (3 * torch.randn(4, 7)).to(dtype), torch.arange(4)
    for single, half in (
        (torch_half.log_softmax(logits.float()), torch_half.log_softmax(logits)),
        (torch_half.cross_entropy(logits.float(), targets),
         torch_half.cross_entropy(logits, targets)),
    ):  # fmt: skip
        assert half.dtype == dtype
        assert torch.equal(half, single.to(dtype))
    losses = torch.full((5000,), 8.0, dtype=dtype)  # float16 can't hold their sum
    assert torch_half.perplexity(losses, torch.full((5000,), 3)).item() == pytest.approx(
        2981, rel=1e-2
    )
    p = torch.softmax(logits, -1)
    half = torch_half.chain_log_probability(p, targets)
    assert half.dtype == dtype
    assert torch.equal(half, torch_half.chain_log_probability(p.float(), targets).to(dtype))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_ids_of_any_whole_type_mean_the_same(dtype: torch.dtype) -> None:
    logits, targets = torch.randn(3, 200), torch.tensor([3, 156, 0])  # −100 is 156 in eight bits
    p = torch.softmax(logits, -1)
    small = targets.to(dtype)
    assert torch.equal(
        torch_half.cross_entropy(logits, small), torch_half.cross_entropy(logits, targets)
    )
    assert torch.equal(
        torch_half.chain_log_probability(p, small), torch_half.chain_log_probability(p, targets)
    )
    numpy_small = small.numpy()
    assert_close(
        numpy_half.cross_entropy(logits.numpy(), numpy_small),
        torch_half.cross_entropy(logits, targets),
        1e-6,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_half.perplexity(torch.ones(2), torch.ones(2, dtype=dtype))


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays."""
    if request.param == "numpy":
        return numpy_half, np.array
    return torch_half, lambda x, dtype="float64": torch.tensor(
        x, dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype
    )


def test_scores_that_are_not_floats_and_axes_that_are_not_there_are_named(half: Any) -> None:
    module, array = half
    with pytest.raises(ValueError, match="x must be an array of real floating-point numbers; got"):
        module.log_softmax([1.0])
    with pytest.raises(ValueError, match="got int64 of shape"):
        module.log_softmax(array([1], dtype="int64"))
    with pytest.raises(ValueError, match="axis must be a whole number from -1 to 0 for x"):
        module.log_softmax(array([1.0]), 1)
    with pytest.raises(ValueError, match="x must not be empty along axis -1"):
        module.log_softmax(array([[]]))


def test_targets_that_do_not_fit_are_named(half: Any) -> None:
    module, array = half
    logits = array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])

    def ids(*values: int) -> Any:
        return array(values, dtype="int64")

    for targets, message in (
        (ids(0, 3), r"targets other than ignore_index = -100 must be from 0 to 2; got 3"),
        (ids(0, -1), r"targets other than ignore_index = -100 must be from 0 to 2; got -1"),
        (ids(-100, -100), r"targets must hold at least one id other than ignore_index = -100"),
        (ids(1), r"targets must have the leading axes of logits, \(2,\); got \(1,\)"),
        (array([0.0, 1.0]), r"targets must be an array of whole numbers of shape \(...\); got fl"),
        ([0, 1], r"targets must be an array of whole numbers of shape \(...\); got list"),
        (array([True, False], dtype="bool"), r"got bool of shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            module.cross_entropy(logits, targets)
    for bad in (True, 0.5, None, 10**30):
        with pytest.raises(ValueError, match="ignore_index must be a whole number of 64 bits; got"):
            module.cross_entropy(logits, ids(0, 1), bad)
    with pytest.raises(ValueError, match=r"logits must be .* of shape \(..., V\); got int64"):
        module.cross_entropy(ids(1, 2), array(1, dtype="int64"))
    with pytest.raises(ValueError, match=r"logits must not be empty: \(..., V\)"):
        module.cross_entropy(array([[]]), ids(0))


def test_batches_that_do_not_fit_are_named(half: Any) -> None:
    module, array = half
    losses, n_tokens = array([1.0, 2.0]), array([3, 4], dtype="int64")
    for bad_losses, message in (
        (1.0, "losses must be an array .* got float"),
        (array([[1.0, 2.0]]), r"losses must have a shape \(k,\), k ≥ 1; got \(1, 2\)"),
        (array([1.0]), r"n_tokens must have the shape of losses, \(1,\); got \(2,\)"),
        (array([]), r"losses must have a shape \(k,\), k ≥ 1; got \(0,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            module.perplexity(bad_losses, n_tokens)
    for bad_tokens, message in (
        (array([3, 0], dtype="int64"), "n_tokens must be at least 1 for every batch; got 0"),
        (array([3.0, 4.0]), r"n_tokens must be an array of whole numbers of shape \(k,\); got fl"),
    ):
        with pytest.raises(ValueError, match=message):
            module.perplexity(losses, bad_tokens)


def test_tables_that_are_no_distributions_are_named(half: Any) -> None:
    module, array = half
    table, tokens = array([[0.5, 0.5], [0.1, 0.9]]), array([0, 1], dtype="int64")
    for bad, message in (
        (array([[0.5, 0.5], [1.0, 3.0]]), "rows of probabilities that sum to 1; .* sums to 4"),
        (array([[0.5, 0.5], [-1.0, 2.0]]), "rows of probabilities .* got an entry of -1"),
        (array([[0.5, 0.5], [float("nan"), 1.0]]), "rows of probabilities that sum to 1"),
        (array([[0.5, 0.5]]), r"tokens must have the leading axes of conditionals, \(1,\)"),
        ([[0.5, 0.5]], "conditionals must be an array .* got list"),
    ):
        with pytest.raises(ValueError, match=message):
            module.chain_log_probability(bad, tokens)
    with pytest.raises(ValueError, match=r"conditionals must have a shape \(..., T, V\)"):
        module.chain_log_probability(array([0.5, 0.5]), array(0, dtype="int64"))
    with pytest.raises(ValueError, match="tokens must be from 0 to 1; got 2"):
        module.chain_log_probability(table, array([0, 2], dtype="int64"))
    with pytest.raises(ValueError, match="tokens must be an array of whole numbers"):
        module.chain_log_probability(table, array([0.0, 1.0]))


def test_draws_that_cannot_be_made_are_named(half: Any) -> None:
    module, array = half
    logits, uniforms = array([[0.0, 1.0], [0.0, 1.0]]), array([0.1, 0.9])
    infinity, nan = float("inf"), float("nan")
    for bad, came in (([[-infinity, -infinity], [0.0, 1.0]], "a row of −∞"),
                      ([[infinity, 0.0], [0.0, 0.0]], "∞"),
                      ([[nan, 0.0], [0.0, 0.0]], "NaN")):  # fmt: skip
        message = f"logits must be below ∞, no NaN, and above −∞ for a .*; got {came}$"
        with pytest.raises(ValueError, match=message):
            module.sample(array(bad), uniforms)
    with pytest.raises(ValueError, match="logits must be an array of real"):
        module.sample([[0.0, 1.0]], uniforms)
    with pytest.raises(ValueError, match="logits must not be empty"):
        module.sample(array([[], []]), uniforms)
    for values, came in (([0.1, 1.0], "1"), ([-0.1, 0.5], "-0.1"), ([nan, 0.5], "nan")):
        with pytest.raises(ValueError, match=f"uniforms must be .* 0 and below 1; got {came}$"):
            module.sample(logits, array(values))
    with pytest.raises(ValueError, match=r"uniforms must be at least 0 and below 1; got 1$"):
        module.sample(logits[0], 1.0)
    for bad in (array([0.5]), array([0, 0], dtype="int64"), 0.5, [0.1, 0.2], 0):
        with pytest.raises(ValueError, match=r"uniforms must be real .* of shape \(2,\)"):
            module.sample(logits, bad)
    for temperature in (0.0, -1.0, nan, infinity, True, "1", None, 10**30):
        with pytest.raises(ValueError, match="temperature must be a number above 0; got"):
            module.sample(logits, uniforms, temperature)


def test_a_temperature_that_logits_cannot_be_divided_by_is_named(half: Any) -> None:
    module, array = half
    hidden = array([-float("inf"), 3.0, 5.0])
    assert int(module.sample(hidden, 0.5, 1e-290)) == 2
    with pytest.raises(ValueError, match="temperature must be large enough that logits of 5 can"):
        module.sample(hidden, 0.5, 1e-305)


def test_arguments_of_the_other_library_are_named(half: Any) -> None:
    module, array = half

    def other(x: Any) -> Any:
        return torch.from_numpy(x) if isinstance(x, np.ndarray) else x.numpy()

    logits, ids = array([[0.5, 0.5], [0.1, 0.9]]), array([0, 1], dtype="int64")
    counts = array([2, 1], dtype="int64")
    for function, arguments in (
        ("log_softmax", {"x": logits}),
        ("cross_entropy", {"logits": logits, "targets": ids}),
        ("perplexity", {"losses": logits[0], "n_tokens": counts}),
        ("chain_log_probability", {"conditionals": logits, "tokens": ids}),
        ("sample", {"logits": logits, "uniforms": logits[0]}),
    ):
        call = getattr(module, function)
        call(**arguments)
        for name, value in arguments.items():
            with pytest.raises(ValueError, match=f"^{name} must be an? .*; got a"):
                call(**{**arguments, name: other(value)})
    assert int(module.sample(logits[0], np.float64(0.9))) == 1  # which is a float of Python, too


def test_a_number_on_a_boundary_draws_the_token_above_it_and_never_an_impossible_one(
    half: Any,
) -> None:
    module, array = half
    even = array([[0.0] * 4] * 4)
    assert module.sample(even, array([0.0, 0.25, 0.5, 0.75])).tolist() == [0, 1, 2, 3]
    infinity = float("inf")
    some = array([[-infinity, 0.0, -infinity, 0.0, -infinity]] * 3)
    last = float(np.nextafter(1.0, 0.0))
    assert module.sample(some, array([0.0, 0.5, last])).tolist() == [1, 3, 3]


def test_the_largest_number_below_one_draws_a_token_though_sums_are_rounded(half: Any) -> None:
    module, array = half
    logits = np.random.default_rng(0).standard_normal((200, 300))
    totals = np.exp(logits - logits.max(-1, keepdims=True))
    totals = (totals / totals.sum(-1, keepdims=True)).cumsum(-1)[:, -1]
    last = float(np.nextafter(1.0, 0.0))
    assert (totals < last).any()  # rows whose probabilities add up to too little
    ids = module.sample(array(logits), array([last] * 200))
    assert int(ids.max()) < 300
