"""The PyTorch half of tiled attention agrees with its twin, with autograd and with PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from course_lib.accounting import count_saved_bytes, live_bytes
from course_lib.blocks import flash as torch_half
from course_lib.blocks.attention import scaled_dot_product_attention
from course_lib.blocks.flash import (
    flash_attention,
    flash_attention_backward,
    merge_partials,
    online_softmax_update,
)
from course_lib.blocks.grouped_query import repeat_kv
from course_lib.reference import flash as numpy_half
from tests.agreement import TiledInputs, assert_close, tiled_inputs


def rest(x: TiledInputs) -> dict[str, Any]:
    mask = None if x.mask is None else torch.tensor(x.mask)
    return {"mask": mask, "causal": x.causal, "block_q": x.block_q, "block_k": x.block_k}


def plain(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
    """Attention with a table of all scores, heads of keys repeated."""
    groups = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    if groups > 1:
        k, v = repeat_kv(k, groups), repeat_kv(v, groups)
    return scaled_dot_product_attention(q, k, v, seen)[0]


@given(tiled_inputs())
def test_tiled_attention_equals_its_numpy_twin(x: TiledInputs) -> None:
    output, lse = flash_attention(**x.tensors())
    expected, expected_lse = numpy_half.flash_attention(**x.numpy())
    assert_close(output, expected, 10 * x.tolerance)
    seen = torch.tensor(expected_lse > -np.inf)
    assert torch.equal(lse > -torch.inf, seen)
    assert_close(lse.masked_fill(~seen, 0.0), np.where(seen, expected_lse, 0), 10 * x.tolerance)


@given(tiled_inputs(), st.integers(1, 10), st.integers(1, 16), st.booleans())
def test_the_backward_pass_equals_its_numpy_twin(
    x: TiledInputs, block_q: int, block_k: int, with_lse: bool
) -> None:
    rng = np.random.default_rng(0)
    output, lse = numpy_half.flash_attention(**x.numpy())
    given_ = [output, lse, rng.standard_normal(output.shape).astype(output.dtype)]
    d_lse = rng.standard_normal(lse.shape).astype(lse.dtype) if with_lse else None
    blocks = {"block_q": block_q, "block_k": block_k}
    expected = numpy_half.flash_attention_backward(
        x.q, x.k, x.v, *given_, x.mask, x.causal, **blocks, d_lse=d_lse
    )
    t = x.tensors()
    gradients = flash_attention_backward(
        t["q"], t["k"], t["v"], *map(torch.tensor, given_), t["mask"], x.causal, **blocks,
        d_lse=None if d_lse is None else torch.tensor(d_lse),
    )  # fmt: skip
    for a, b in zip(gradients, expected, strict=True):
        assert_close(a, b, 50 * x.tolerance)


@given(tiled_inputs())
def test_output_and_gradients_equal_those_of_plain_attention_under_autograd(
    x: TiledInputs,
) -> None:
    ours, theirs = x.tensors(requires_grad=True), x.tensors(requires_grad=True)
    output, _ = flash_attention(**ours)
    seen = None if x.seen is None else torch.tensor(x.seen)
    expected = plain(theirs["q"], theirs["k"], theirs["v"], seen)
    assert_close(output, expected, 10 * x.tolerance)
    torch.manual_seed(0)
    d_output = torch.randn_like(output)
    output.backward(d_output)
    expected.backward(d_output)
    for name in "qkv":
        assert_close(ours[name].grad, theirs[name].grad, 50 * x.tolerance)


@settings(max_examples=15)
@given(tiled_inputs())
def test_gradients_of_outputs_and_of_logarithms_equal_finite_differences(x: TiledInputs) -> None:
    q, k, v = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x.q, x.k, x.v))

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        output, lse = flash_attention(q, k, v, **rest(x))
        return output, lse.masked_fill(lse == -torch.inf, 0.0)

    assert torch.autograd.gradcheck(attend, (q, k, v), atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_it_equals_the_kernel_of_pytorch(causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 37, 8), torch.randn(2, 2, 37, 8), torch.randn(2, 2, 37, 8)
    expected = F.scaled_dot_product_attention(q, repeat_kv(k, 2), repeat_kv(v, 2), is_causal=causal)
    output, _ = flash_attention(q, k, v, causal=causal, block_q=8, block_k=16)
    assert_close(output, expected, 1e-6)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3), st.booleans())
def test_updates_and_merges_equal_their_numpy_twins(
    sizes: list[int], n_q: int, hidden: bool
) -> None:
    rng = np.random.default_rng(sum(sizes))
    states = [
        (np.full((2, n_q), -np.inf), np.zeros((2, n_q)), np.zeros((2, n_q, 3))) for _ in range(2)
    ]
    for size in sizes:
        scores, values = rng.standard_normal((2, n_q, size)), rng.standard_normal((2, size, 3))
        if hidden:
            scores[rng.random(scores.shape) < 0.5] = -np.inf
        ours = online_softmax_update(*map(torch.tensor, (*states[0], scores, values)))
        states = [states[1], numpy_half.online_softmax_update(*states[0], scores, values)]
        for a, b in zip(ours, states[1], strict=True):
            np.testing.assert_allclose(a.numpy(), b, atol=1e-12)
    parts = [(o, m) for m, _, o in states]
    merged = merge_partials(*(torch.tensor(a) for part in parts for a in part))
    for a, b in zip(merged, numpy_half.merge_partials(*parts[0], *parts[1]), strict=True):
        np.testing.assert_allclose(a.numpy(), b, atol=1e-12)


@pytest.mark.parametrize("at", [1, 3, 6])
def test_gradients_go_through_a_merge_of_parts(at: int) -> None:
    torch.manual_seed(0)
    sizes = ((2, 5, 4), (2, 7, 4), (2, 7, 3))
    q, k, v = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes)
    mask = torch.rand(2, 5, 7) < 0.5
    mask[0, 0] = False  # nothing to see on either side
    mask[0, 1, :at] = False
    parts = [
        flash_attention(q, k[:, part], v[:, part], mask[..., part], block_q=2, block_k=2)
        for part in (slice(0, at), slice(at, 7))
    ]
    merged, _ = merge_partials(*parts[0], *parts[1])
    whole = plain(q, k, v, mask)
    assert_close(merged, whole, 1e-12)
    d_output = torch.randn_like(whole)
    ours = torch.autograd.grad(merged, (q, k, v), d_output)
    for a, b in zip(ours, torch.autograd.grad(whole, (q, k, v), d_output), strict=True):
        assert_close(a, b, 1e-12)


def test_half_precision_has_gradients_in_half() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = (torch.randn(9, 4).to(dtype).requires_grad_() for _ in range(3))
        output, lse = flash_attention(q, k, v, block_q=4, block_k=2)
        assert (output.dtype, lse.dtype) == (dtype, torch.float32)
        output.sum().backward()
        assert q.grad is not None and q.grad.dtype == dtype
        wide, _ = flash_attention(q.float(), k.float(), v.float())
        assert torch.equal(output, wide.to(dtype))


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_have_gradients_of_their_own(causal: bool) -> None:
    torch.manual_seed(0)
    sizes = ((4, 3, 2), (2, 5, 2), (2, 5, 1))
    q, k, v = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return flash_attention(q, k, v, causal=causal, block_q=2, block_k=2)

    assert torch.autograd.gradgradcheck(attend, (q, k, v))


# ---- Memory --------------------------------------------------------------------------------------


def inputs(n: int, d: int = 16, h: int = 2, device: str = "cpu") -> list[Tensor]:
    return [torch.zeros(h, n, d, device=device, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("n", [64, 256, 1000])
def test_what_is_kept_for_backward_is_inputs_output_and_one_number_a_row(n: int) -> None:
    for causal in (False, True):
        kept = count_saved_bytes(lambda q, k, v, c=causal: flash_attention(q, k, v, None, c)[0],
                                 *inputs(n))  # fmt: skip
        assert kept == 4 * (2 * n * (4 * 16 + 1))


def test_memory_at_the_peak_is_linear_where_that_of_plain_attention_is_quadratic() -> None:
    def step(attend: Callable[..., tuple[Tensor, Tensor]], n: int, **sizes: Any) -> int:
        given_ = inputs(n, device="meta")  # sizes without numbers
        return max(live_bytes(lambda: attend(*given_, **sizes)[0].sum().backward()))

    lengths = (2048, 4096, 8192, 16_384)
    tiled = [step(flash_attention, n, block_q=1024, block_k=1024) for n in lengths]
    square = [step(scaled_dot_product_attention, n) for n in lengths]
    for (a, b), (c, d) in zip(pairwise(tiled), pairwise(square), strict=True):
        assert b / a < 2.05
        assert 3.9 < d / c < 4.0
    more = [b - a for a, b in pairwise(tiled)]  # a tile is what doesn't grow
    assert 1.95 < more[1] / more[0] < 2.05
    assert 1.95 < more[2] / more[1] < 2.05
    assert square[-1] > 4 * 4 * 2 * 16_384**2


CHILD = """
import json, re, sys, torch
from course_lib.blocks.attention import scaled_dot_product_attention
from course_lib.blocks.flash import flash_attention

torch.set_num_threads(1)
tiled, n = sys.argv[1] == "tiled", int(sys.argv[2])


def peak():  # getrusage would count what the process was before it became this one
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])


def step(n):
    q, k, v = (torch.zeros(n, 16, requires_grad=True) for _ in range(3))
    if tiled:
        flash_attention(q, k, v, None, True, 1024, 1024)[0].sum().backward()
    else:
        scaled_dot_product_attention(q, k, v)[0].sum().backward()


step(2048)  # code is loaded, and tiles of the full size have been made
before = peak()
step(n)
print(json.dumps(peak() - before))
"""


def grown(kind: str, n: int) -> int:
    """Return by how many bytes a process of its own grows in a step of attention."""
    command = [sys.executable, "-c", CHILD, kind, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a peak here")
def test_a_process_grows_by_less_than_one_table_of_a_fourth_of_the_length() -> None:
    n = 16_384
    table = 4 * (n // 4) ** 2
    assert grown("plain", n // 4) > 2.5 * table
    assert grown("tiled", n) < table


def test_modules_offer_the_same() -> None:
    assert torch_half.__all__ == numpy_half.__all__
