"""What Llama's configurations do to the frequencies is what ours do, in both halves."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from course_lib.blocks import rotary as torch_half
from course_lib.reference import rotary as numpy_half
from tests.agreement import assert_close

widths = st.integers(2, 40).map(lambda half: 2 * half)
bases = st.sampled_from([100.0, 10000.0, 500000.0])
factors = st.sampled_from([1.0, 2.0, 7.5, 32.0])
lengths = st.sampled_from([8, 100, 2048, 8192])


def theirs(
    d: int, base: float, trained: int, length: int | None = None, **rope: Any
) -> tuple[torch.Tensor, float]:
    """Return the frequencies and the attention factor of transformers."""
    config = LlamaConfig(
        hidden_size=d, num_attention_heads=1, max_position_embeddings=trained,
        rope_parameters={"rope_theta": base, **rope},
    )  # fmt: skip
    if rope["rope_type"] == "default":
        return LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, None, seq_len=length)


@given(d=widths, base=bases, factor=factors, trained=lengths, length=st.integers(1, 20000))
def test_frequencies_equal_those_of_transformers_for_every_type(
    d: int, base: float, factor: float, trained: int, length: int
) -> None:
    original = torch_half.rotary_frequencies(d, base)
    kept = {"factor": factor, "original_max_position_embeddings": trained}
    expected = {
        "default": (original, 1.0),
        "linear": (torch_half.linear_frequencies(original, factor), 1.0),
        "dynamic": (torch_half.dynamic_ntk_frequencies(d, factor, length, trained, base), 1.0),
        "yarn": torch_half.yarn_frequencies(d, factor, trained, base),
        "llama3": (torch_half.llama3_frequencies(d, factor, trained, base), 1.0),
    }
    for name, (frequencies, scale) in expected.items():
        rope: dict[str, Any] = {"rope_type": name}
        if name != "default":
            rope |= {"factor": factor} if name in ("linear", "dynamic") else kept
        if name == "llama3":
            rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        other, other_scale = theirs(d, base, trained, length, **rope)
        np.testing.assert_allclose(frequencies.float(), other, rtol=2e-5, err_msg=name)
        assert scale == pytest.approx(other_scale), name


@given(d=widths, base=bases, factor=factors, trained=lengths, seed=st.integers(0, 999),
       long=st.booleans())  # fmt: skip
def test_factors_for_each_pair_equal_those_of_transformers(
    d: int, base: float, factor: float, trained: int, seed: int, long: bool
) -> None:
    rng = np.random.default_rng(seed)
    short_row, long_row = (1.0 + rng.random((2, d // 2))).tolist()
    other, other_scale = theirs(
        d, base, trained, trained + 1 if long else trained, rope_type="longrope", factor=factor,
        original_max_position_embeddings=trained, short_factor=short_row, long_factor=long_row,
    )  # fmt: skip
    row = torch.tensor(long_row if long else short_row, dtype=torch.float64)
    original = torch_half.rotary_frequencies(d, base)
    ours, scale = torch_half.longrope_frequencies(original, row, factor, trained)
    np.testing.assert_allclose(ours.float(), other, rtol=2e-6)
    assert scale == pytest.approx(other_scale)


@given(d=widths, base=st.floats(2, 1e6), factor=st.floats(1, 40), trained=st.integers(2, 9000),
       low=st.floats(0.1, 4), more=st.floats(0.1, 8))  # fmt: skip
def test_the_two_halves_agree(
    d: int, base: float, factor: float, trained: int, low: float, more: float
) -> None:
    args = (d, factor, trained, base, low, low + more)
    ours, theirs = torch_half.llama3_frequencies(*args), numpy_half.llama3_frequencies(*args)
    assert_close(ours, theirs, 1e-12)
    original, row = numpy_half.rotary_frequencies(d, base), np.linspace(0.5, 8, d // 2)
    by_torch = torch_half.longrope_frequencies(*map(torch.tensor, (original, row)), factor, trained)
    by_numpy = numpy_half.longrope_frequencies(original, row, factor, trained)
    assert_close(by_torch[0], by_numpy[0], 1e-12)
    assert by_torch[1] == by_numpy[1]


@given(d=widths, base=bases, factor=factors, trained=lengths)
def test_fast_pairs_are_left_alone_slow_ones_slowed_down_and_the_order_is_kept(
    d: int, base: float, factor: float, trained: int
) -> None:
    original = numpy_half.rotary_frequencies(d, base)
    ours = numpy_half.llama3_frequencies(d, factor, trained, base)
    turns = trained * original / (2 * pi)
    np.testing.assert_allclose(ours[turns > 4], original[turns > 4])
    np.testing.assert_allclose(ours[turns < 1], original[turns < 1] / factor)
    assert (np.diff(ours) < 0).all()
    assert ((original / factor <= ours * (1 + 1e-12)) & (ours <= original * (1 + 1e-12))).all()


@pytest.fixture(params=["numpy", "torch"])
def half(request: pytest.FixtureRequest) -> tuple[ModuleType, Callable]:
    """A twin: its module, and how it makes arrays of ones."""
    return (numpy_half, np.ones) if request.param == "numpy" else (torch_half, torch.ones)


FAULTS: list[tuple[Callable, str]] = [
    (lambda m, o: m.llama3_frequencies(5, 2.0, 64), "d must be an even whole number"),
    (lambda m, o: m.llama3_frequencies(8, 0.5, 64), "factor must be a number of at least 1; got"),
    (lambda m, o: m.llama3_frequencies(8, 2.0, 0), "original_length must be a whole number of at"),
    (lambda m, o: m.llama3_frequencies(8, 2.0, 64, 1), "base must be a number above 1; got 1"),
    (lambda m, o: m.llama3_frequencies(8, 2.0, 64, low_freq_factor=0), "low_freq_factor must be a"),
    (lambda m, o: m.llama3_frequencies(8, 2.0, 64, low_freq_factor=4), "high_freq_factor must be "
     "a number above 4; got 4.0"),
    (lambda m, o: m.longrope_frequencies(o(3), o(2), 2.0, 64), "factors must have the shape of fr"),
    (lambda m, o: m.longrope_frequencies(o(3), -o(3), 2.0, 64), "factors must be above 0; got -1"),
    (lambda m, o: m.longrope_frequencies(o(3), [1.0], 2.0, 64), "factors must be an array of real"),
    (lambda m, o: m.longrope_frequencies(o((3, 1)), o((3, 1)), 2.0, 64), "frequencies must have a"),
    (lambda m, o: m.longrope_frequencies(o(3), o(3), 0.5, 64), "factor must be a number of at lea"),
    (lambda m, o: m.longrope_frequencies(o(3), o(3), 2.0, 1), "original_length must be a whole nu"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS)
def test_bad_input_is_named(
    half: tuple[ModuleType, Callable], call: Callable, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(*half)
