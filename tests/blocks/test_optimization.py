"""The PyTorch half of optimization agrees with its twin, and with PyTorch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.blocks import optimization as torch_half
from course_lib.reference import optimization as numpy_half
from tests.agreement import FLOATS, assert_close

dtypes = st.sampled_from(sorted(FLOATS))
leading = st.lists(st.integers(1, 4), max_size=3)
seeds = st.integers(0, 2**32 - 1)


@given(leading, st.integers(1, 5), st.sampled_from(["int32", "int64", "uint8"]), seeds)
def test_shifting_equals_its_twin(lead: list[int], n: int, dtype: str, seed: int) -> None:
    ids = np.random.default_rng(seed).integers(3, 9, (*lead, n)).astype(dtype)
    assert_close(torch_half.shift_right(torch.tensor(ids), 1), numpy_half.shift_right(ids, 1), 0.0)


@given(leading, st.integers(1, 6), dtypes, st.sampled_from([0, 0.0, 0.1, 0.9]),
       st.sampled_from([-100, 0, 2]), seeds)  # fmt: skip
def test_the_smoothed_loss_equals_its_twin_and_pytorchs(
    lead: list[int], v: int, dtype: str, epsilon: float, ignore_index: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = (5 * rng.standard_normal((*lead, v))).astype(dtype)
    targets = np.where(rng.random(lead) < 0.4, ignore_index, rng.integers(0, v, lead))
    tensors = torch.from_numpy(logits), torch.tensor(targets)
    if (targets == ignore_index).all():
        for half, arguments in ((numpy_half, (logits, targets)), (torch_half, tensors)):
            with pytest.raises(ValueError, match="targets must hold at least one id other than"):
                half.label_smoothed_cross_entropy(*arguments, epsilon, ignore_index)
        return
    ours = torch_half.label_smoothed_cross_entropy(*tensors, epsilon, ignore_index)
    twin = numpy_half.label_smoothed_cross_entropy(logits, targets, epsilon, ignore_index)
    assert_close(ours, twin, FLOATS[dtype])
    theirs = F.cross_entropy(
        tensors[0].reshape(-1, v), tensors[1].reshape(-1),
        label_smoothing=epsilon, ignore_index=ignore_index,
    )  # fmt: skip
    assert_close(ours, theirs, FLOATS[dtype])


def test_the_smoothed_losss_gradients_equal_finite_differences_and_skip_padding() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 4, 0], [2, 0, 0]])

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch_half.label_smoothed_cross_entropy(x, targets, 0.1, 0)

    assert torch.autograd.gradcheck(loss, (logits,))
    loss(logits).backward()
    assert logits.grad is not None
    assert (logits.grad[targets == 0] == 0).all()
    assert (logits.grad[targets != 0] != 0).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_targets_may_be_whole_numbers_of_any_size(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(3, 200), torch.tensor([156, 3, 199])  # 156 is −100 in 8 bits
    narrow = torch_half.label_smoothed_cross_entropy(logits, targets.to(dtype))
    assert torch.equal(narrow, torch_half.label_smoothed_cross_entropy(logits, targets))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_equals_single_precision_rounded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits, targets = (3 * torch.randn(4, 7)).to(dtype), torch.arange(4)
    single = torch_half.label_smoothed_cross_entropy(logits.float(), targets)
    half = torch_half.label_smoothed_cross_entropy(logits, targets)
    assert half.dtype == dtype
    assert torch.equal(half, single.to(dtype))
    arrays = [torch.rand(5).to(dtype) for _ in range(4)]
    for a, b in zip(torch_half.adam_step(*(x.float() for x in arrays), 2, 0.1),
                    torch_half.adam_step(*arrays, 2, 0.1), strict=True):  # fmt: skip
        assert b.dtype == dtype
        assert torch.equal(b, a.to(dtype))
    big = [torch.full((3,), 6e4).to(dtype)]  # their squares are beyond float16
    clipped, norm = torch_half.clip_by_global_norm(big, 1.0)
    assert clipped[0].dtype == dtype
    assert norm.item() == pytest.approx(6e4 * 3**0.5, rel=1e-2)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=5), st.integers(1, 600),
       st.integers(1, 1000))  # fmt: skip
def test_schedules_equal_their_twins_for_steps_alone_and_together(
    steps: list[int], d_model: int, n_warmup: int
) -> None:
    for name, arguments in (
        ("warmup_schedule", (d_model, n_warmup)), ("cosine_schedule", (1000, n_warmup)),
    ):  # fmt: skip
        ours, twin = getattr(torch_half, name), getattr(numpy_half, name)
        assert_close(
            ours(torch.tensor(steps), *arguments), twin(np.array(steps), *arguments), 1e-12
        )
        assert_close(ours(steps[0], *arguments), twin(steps[0], *arguments), 1e-12)


def test_the_papers_schedule_drives_pytorchs_optimiser_as_a_lambda() -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: float(numpy_half.warmup_schedule(done + 1, 64, 3))
    )
    seen = []
    for _ in range(5):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert seen == pytest.approx(numpy_half.warmup_schedule(np.arange(1, 6), 64, 3).tolist())


@given(leading, dtypes, st.integers(1, 50), st.sampled_from([0.0, 0.1]), seeds)
def test_adam_equals_its_twin(
    shape: list[int], dtype: str, step: int, weight_decay: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.standard_normal(shape)).astype(dtype) for _ in range(3)]
    arrays.append(np.asarray(rng.random(shape)).astype(dtype))
    options = {"lr": 0.1, "beta_1": 0.8, "beta_2": 0.95, "weight_decay": weight_decay}
    ours = torch_half.adam_step(*map(torch.tensor, arrays), step, **options)
    theirs = numpy_half.adam_step(*arrays, step, **options)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, FLOATS[dtype])


@given(st.sampled_from([(0.9, 0.999), (0.9, 0.98), (0.0, 0.5)]), st.sampled_from([1e-8, 1e-2]),
       st.sampled_from([0.0, 0.05]), seeds)  # fmt: skip
def test_a_run_of_steps_equals_pytorchs_adam_and_adamw(
    betas: tuple[float, float], eps: float, weight_decay: float, seed: int
) -> None:
    torch.manual_seed(seed)
    theirs = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))
    kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
    optimizer = kind([theirs], lr=0.1, betas=betas, eps=eps, weight_decay=weight_decay)
    ours = theirs.detach().clone()
    m, v = torch.zeros_like(ours), torch.zeros_like(ours)
    for step in range(1, 8):
        gradient = torch.randn_like(ours)
        theirs.grad = gradient.clone()
        optimizer.step()
        ours, m, v = torch_half.adam_step(
            ours, gradient, m, v, step, 0.1, *betas, eps=eps, weight_decay=weight_decay
        )
        assert_close(ours, theirs, 1e-12)


@given(st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=4), dtypes,
       st.sampled_from([0.01, 1, 100.0]), seeds)  # fmt: skip
def test_clipping_equals_its_twin_and_pytorchs(
    shapes: list[list[int]], dtype: str, max_norm: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.standard_normal(shape)).astype(dtype) for shape in shapes]
    tensors = [torch.tensor(a) for a in arrays]
    ours, norm = torch_half.clip_by_global_norm(tensors, max_norm)
    twins, twin_norm = numpy_half.clip_by_global_norm(arrays, max_norm)
    assert_close(norm, twin_norm, FLOATS[dtype])
    parameters = [nn.Parameter(torch.zeros_like(t)) for t in tensors]
    for parameter, t in zip(parameters, tensors, strict=True):
        parameter.grad = t.clone()
    their_norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    assert_close(norm, their_norm, FLOATS[dtype])
    for a, b, parameter in zip(ours, twins, parameters, strict=True):
        assert_close(a, b, FLOATS[dtype])
        assert parameter.grad is not None
        assert_close(a, parameter.grad, max(FLOATS[dtype], 2e-6 / max_norm))  # PyTorch adds 1e-6


@given(st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=4), seeds)
def test_the_common_norm_is_that_of_one_long_vector(shapes: list[list[int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.standard_normal(shape)) for shape in shapes]
    expected = np.linalg.norm(np.concatenate([a.ravel() for a in arrays]))
    assert_close(numpy_half.global_norm(arrays), expected, 1e-12)
    assert_close(torch_half.global_norm([torch.tensor(a) for a in arrays]), expected, 1e-12)
    big = torch.tensor([3e30, 4e30])
    assert float(torch_half.global_norm([big])) == pytest.approx(5e30)


@given(leading, st.integers(1, 4), st.integers(0, 5), seeds)
def test_exact_match_equals_its_twin(lead: list[int], n: int, n_p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 3, (*lead, n))
    targets[..., 0] = 2
    predictions = rng.integers(0, 3, (*lead, n_p))
    shared = min(n, n_p)
    alike = rng.random(lead) < 0.6
    predictions[..., :shared] = np.where(
        np.asarray(alike)[..., None], targets[..., :shared], predictions[..., :shared]
    )
    share = numpy_half.exact_match(predictions, targets, 0)
    assert torch_half.exact_match(torch.tensor(predictions), torch.tensor(targets), 0) == share
    assert isinstance(share, float)


# --- what is refused -----------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A twin: its module, and how it makes arrays."""
    if request.param == "numpy":
        return numpy_half, lambda x, dtype="float64": np.array(x, dtype=dtype)
    return torch_half, lambda x, dtype="float64": torch.tensor(x, dtype=getattr(torch, dtype))


def test_rows_that_cannot_be_shifted_are_named(half: Any) -> None:
    module, array = half
    good = array([4, 2], "int64")
    for ids, bos, message in (
        (array([4.0]), 1, r"ids must be an array of whole numbers of shape \(..., n\); got fl"),
        ([4], 1, "ids must be an array of whole numbers .* got list"),
        (array([], "int64"), 1, r"ids must have a shape \(..., n\), n ≥ 1; got \(0,\)"),
        (array(3, "int64"), 1, r"ids must have a shape \(..., n\), n ≥ 1; got \(\)"),
        (good, -1, "bos must be a whole number of at least 0; got -1"),
        (good, 1.0, "bos must be a whole number of at least 0; got 1.0"),
        (good, True, "bos must be a whole number of at least 0; got True"),
        (good, 2**63, r"bos must be below 2\*\*63; got"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            module.shift_right(ids, bos)


def test_smoothing_that_cannot_be_is_named(half: Any) -> None:
    module, array = half
    logits, targets = array([[0.0, 1.0]]), array([1], "int64")
    for bad in (1.0, -0.1, "0.1", None, True, float("nan")):
        with pytest.raises(ValueError, match=r"^epsilon must be at least 0 and below 1; got"):
            module.label_smoothed_cross_entropy(logits, targets, bad)
    with pytest.raises(ValueError, match="targets other than ignore_index = -100 must be from 0"):
        module.label_smoothed_cross_entropy(logits, array([2], "int64"))


def test_steps_that_cannot_be_are_named(half: Any) -> None:
    module, array = half
    for bad in (0, -3, 1.0, True, None, array([1, 0], "int64")):
        for call in (
            lambda bad=bad: module.warmup_schedule(bad, 8, 4),
            lambda bad=bad: module.cosine_schedule(bad, 8, 4),
        ):
            with pytest.raises(ValueError, match=r"^step must be a whole number of at least 1"):
                call()
    for arguments, message in (
        ((1, 0, 4), "d_model must be a whole number of at least 1; got 0"),
        ((1, 8, 0), "n_warmup must be a whole number of at least 1; got 0"),
        ((array([1.0]), 8, 4), "step must be an array of whole numbers"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            module.warmup_schedule(*arguments)
    for arguments, message in (
        ((9, 8, 4), "step must be at most n_steps = 8; got 9"),
        ((array([3, 9], "int64"), 8, 4), "step must be at most n_steps = 8; got 9"),
        ((1, 0, 0), "n_steps must be a whole number of at least 1; got 0"),
        ((1, 8, -1), "n_warmup must be a whole number of at least 0; got -1"),
        ((1, 8, 9), "n_warmup must be at most n_steps = 8; got 9"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            module.cosine_schedule(*arguments)


def test_a_step_of_adam_that_cannot_be_is_named(half: Any) -> None:
    module, array = half
    x = array([1.0, 2.0])

    def step(**changed: Any) -> None:
        given = {"parameter": x, "gradient": x, "m": x, "v": x, "step": 1, "lr": 0.1}
        module.adam_step(**{**given, **changed})

    for changed, message in (
        ({"gradient": array([1.0])}, r"gradient must have the shape of parameter, \(2,\); got"),
        ({"m": array([1.0, 2.0], "float32")}, "m must have the dtype of parameter, float64"),
        ({"v": array([1, 2], "int64")}, "v must be an array of real floating-point numbers; got"),
        ({"parameter": [1.0]}, "parameter must be an array of real .* got list"),
        ({"v": array([1.0, -2.0])}, "v must be a mean of squares, nowhere below 0; got -2"),
        ({"step": 0}, "step must be a whole number of at least 1; got 0"),
        ({"lr": -1.0}, "lr must be a number of at least 0; got -1.0"),
        ({"weight_decay": None}, "weight_decay must be a number of at least 0; got None"),
        ({"beta_1": 1.0}, "beta_1 must be at least 0 and below 1; got 1.0"),
        ({"beta_2": -0.1}, "beta_2 must be at least 0 and below 1; got -0.1"),
        ({"eps": 0.0}, "eps must be a number above 0; got 0.0"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            step(**changed)
    step(lr=0.0)


def test_gradients_that_cannot_be_clipped_are_named(half: Any) -> None:
    module, array = half
    for gradients, max_norm, message in (
        ([], 1.0, "gradients must be a list of at least one array; got list without any"),
        (array([1.0]), 1.0, "gradients must be a list of at least one array; got float64"),
        ([array([1], "int64")], 1.0, r"gradients\[0\] must be an array of real floating-point"),
        ([array([1.0]), None], 1.0, r"gradients\[1\] must be an array .* got NoneType"),
        ([array([1.0])], 0.0, "max_norm must be a number above 0; got 0.0"),
        ([array([1.0])], None, "max_norm must be a number above 0; got None"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            module.clip_by_global_norm(gradients, max_norm)


def test_rows_that_cannot_be_matched_are_named(half: Any) -> None:
    module, array = half
    good = array([[4, 2], [5, 2]], "int64")
    for predictions, targets, pad, message in (
        (good, array([[4.0, 2.0]]), 0, "targets must be an array of whole numbers of shape"),
        (array([[4.0]]), good, 0, "predictions must be an array of whole numbers of shape"),
        (array(3, "int64"), array(3, "int64"), 0, r"targets must have a shape \(..., n\); got"),
        (array([[4, 2]], "int64"), good, 0,
         r"predictions must have the leading axes of targets, \(2,\); got \(1,\)"),
        (good, array([[4, 2], [0, 0]], "int64"), 0,
         "targets must hold an id other than pad = 0 in every row"),
        (good, good, -1, "pad must be a whole number of at least 0; got -1"),
        (array([[]], "int64"), array([[]], "int64"), 0, "targets must not be empty"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{message}"):
            module.exact_match(predictions, targets, pad)


def test_a_half_takes_only_arrays_of_its_own_library() -> None:
    with pytest.raises(ValueError, match="ids must be an array of numpy"):
        numpy_half.shift_right(torch.tensor([3]), 1)
    with pytest.raises(ValueError, match="parameter must be a tensor of PyTorch"):
        torch_half.adam_step(*[np.ones(2)] * 4, 1, 0.1)
    with pytest.raises(ValueError, match=r"gradients\[0\] must be a tensor of PyTorch"):
        torch_half.clip_by_global_norm([np.ones(2)], 1.0)
    with pytest.raises(ValueError, match="step must be an array of numpy"):
        numpy_half.warmup_schedule(torch.tensor([3]), 8, 4)
