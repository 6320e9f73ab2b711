from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from course_lib import accounting
from course_lib.blocks import attention

size = st.integers(1, 9)


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
