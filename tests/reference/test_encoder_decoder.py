"""The layers and the whole model in numpy: who sees whom, where the norm stands, what lacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from course_lib.reference.attention import causal_mask
from course_lib.reference.encoder_decoder import (
    decode,
    decoder_layer,
    encode,
    encoder_decoder,
    encoder_layer,
)
from course_lib.reference.feed_forward import feed_forward
from course_lib.reference.masks import padding_mask
from course_lib.reference.multi_head import multi_head_attention
from course_lib.reference.normalization import layer_norm

D, H, D_FF = 6, 2, 9


def part(rng: np.random.Generator, name: str) -> dict[str, np.ndarray]:
    """Return the random weights of a residual sublayer."""
    shapes = {"norm.gamma": (D,), "norm.beta": (D,)}
    if name == "feed_forward":
        shapes |= {"sublayer.w_1.weight": (D_FF, D), "sublayer.w_1.bias": (D_FF,)}
        shapes |= {"sublayer.w_2.weight": (D, D_FF), "sublayer.w_2.bias": (D,)}
    else:
        shapes |= {f"sublayer.w_{w}.weight": (D, D) for w in "qkvo"}
        shapes |= {f"sublayer.w_{w}.bias": (D,) for w in "qkvo"}
    return {f"{name}.{key}": rng.standard_normal(shape) for key, shape in shapes.items()}


def layer(kind: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    names = ["self_attention", "cross_attention"] if kind == "decoder" else ["attention"]
    return {key: w for name in [*names, "feed_forward"] for key, w in part(rng, name).items()}


def model(n_layers: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {
        "src_embedding.table": (8, D), "tgt_embedding.table": (7, D),
        "src_positions.table": (9, D), "tgt_positions.table": (5, D),
        "predict.weight": (7, D), "predict.bias": (7,),
        **{f"{side}_norm.{w}": (D,) for side in ("encoder", "decoder") for w in ("gamma", "beta")},
    }  # fmt: skip
    weights = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    for i in range(n_layers):
        for kind in ("encoder", "decoder"):
            weights |= {f"{kind}.{i}.{k}": w for k, w in layer(kind, seed + 10 * i).items()}
    return weights


def attention(x: np.ndarray, y: np.ndarray, w: dict, name: str, mask: Any = None) -> np.ndarray:
    """Write one attention out, from the weights by their names."""
    matrices = [w[f"{name}.sublayer.w_{i}.weight"].T for i in "qkvo"]
    biases = {f"b_{i}": w[f"{name}.sublayer.w_{i}.bias"] for i in "qkvo"}
    return multi_head_attention(x, y, *matrices, H, mask, **biases)[0]


def network(x: np.ndarray, w: dict, activation: str) -> np.ndarray:
    w_1, b_1, w_2, b_2 = (
        w[f"feed_forward.sublayer.{name}"]
        for name in ("w_1.weight", "w_1.bias", "w_2.weight", "w_2.bias")
    )
    return feed_forward(x, w_1.T, b_1, w_2.T, b_2, activation)


def norm(x: np.ndarray, w: dict, name: str) -> np.ndarray:
    return layer_norm(x, w[f"{name}.norm.gamma"], w[f"{name}.norm.beta"])


X = np.random.default_rng(1).standard_normal((3, 5, D))
MEMORY = np.random.default_rng(2).standard_normal((3, 4, D))
CROSS = padding_mask(np.array([4, 1, 2]), 4)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_attention_and_a_network_each_with_its_residual_and_norm(
    activation: str,
) -> None:
    w, mask = layer("encoder"), padding_mask(np.array([5, 2, 3]), 5)
    x = norm(X + attention(X, X, w, "attention", mask), w, "attention")
    post = norm(x + network(x, w, activation), w, "feed_forward")
    np.testing.assert_allclose(encoder_layer(X, w, H, mask, activation=activation), post)
    y = norm(X, w, "attention")
    x = X + attention(y, y, w, "attention", mask)
    pre = x + network(norm(x, w, "feed_forward"), w, activation)
    np.testing.assert_allclose(encoder_layer(X, w, H, mask, True, activation), pre)


def test_a_decoder_layer_asks_itself_then_the_memory_which_is_not_normalised() -> None:
    w, causal = layer("decoder"), causal_mask(5)
    x = norm(X + attention(X, X, w, "self_attention", causal), w, "self_attention")
    x = norm(x + attention(x, MEMORY, w, "cross_attention", CROSS), w, "cross_attention")
    post = norm(x + network(x, w, "relu"), w, "feed_forward")
    np.testing.assert_allclose(decoder_layer(X, MEMORY, w, H, causal, CROSS), post)
    y = norm(X, w, "self_attention")
    x = X + attention(y, y, w, "self_attention", causal)
    x = x + attention(norm(x, w, "cross_attention"), MEMORY, w, "cross_attention", CROSS)
    pre = x + network(norm(x, w, "feed_forward"), w, "relu")
    np.testing.assert_allclose(decoder_layer(X, MEMORY, w, H, causal, CROSS, True), pre)


def test_without_a_mask_a_decoder_layer_peeks() -> None:
    w, later = layer("decoder"), X.copy()
    later[:, 4] += 1.0
    for mask, seen in ((causal_mask(5), False), (None, True)):
        a, b = (decoder_layer(x, MEMORY, w, H, mask, CROSS) for x in (X, later))
        assert (not np.allclose(a[:, :4], b[:, :4])) is seen


def test_no_input_is_changed() -> None:
    w = layer("decoder")
    before = X.copy(), MEMORY.copy(), {name: array.copy() for name, array in w.items()}
    decoder_layer(X, MEMORY, w, H, causal_mask(5), CROSS, norm_first=True)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(MEMORY, before[1])
    for name, array in w.items():
        np.testing.assert_array_equal(array, before[2][name])


SRC, TGT = np.array([[3, 4, 5, 2], [7, 2, 0, 0]]), np.array([[1, 5, 6], [1, 4, 4]])
MASK = padding_mask(np.array([4, 2]), 4)


def without(weights: dict[str, np.ndarray], *starts: str) -> dict[str, np.ndarray]:
    return {name: w for name, w in weights.items() if not name.startswith(starts)}


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_padded_batch_equals_its_members_one_by_one(norm_first: bool) -> None:
    w = model()
    together = encoder_decoder(SRC, MASK, TGT, w, H, norm_first)
    for i, n in enumerate((4, 2)):
        one = encoder_decoder(SRC[i, :n], None, TGT[i], w, H, norm_first)
        np.testing.assert_allclose(together[i], one, atol=1e-12)


def test_the_whole_is_the_decoder_after_the_encoder() -> None:
    w = model()
    memory = encode(SRC, MASK, w, H)
    expected = decode(TGT, memory, MASK, w, H)
    np.testing.assert_array_equal(encoder_decoder(SRC, MASK, TGT, w, H), expected)


def test_the_weights_say_how_many_layers_there_are() -> None:
    one, two = model(1), model(2)
    np.testing.assert_array_equal(
        encode(SRC, MASK, without(two, "encoder.1", "decoder.1"), H), encode(SRC, MASK, one, H)
    )
    assert not np.allclose(encode(SRC, MASK, two, H), encode(SRC, MASK, one, H))
    twelve = model(12)  # "encoder.1" is no prefix of "encoder.11."
    assert np.isfinite(encoder_decoder(SRC, MASK, TGT, twelve, H)).all()


def test_without_a_projection_the_target_table_scores_tokens() -> None:
    w = model()
    tied = without(w, "predict")
    equal = {**tied, "predict.weight": w["tgt_embedding.table"]}
    np.testing.assert_allclose(
        encoder_decoder(SRC, MASK, TGT, tied, H), encoder_decoder(SRC, MASK, TGT, equal, H)
    )


def test_without_tables_of_positions_they_are_sinusoidal() -> None:
    w = without(model(), "src_positions", "tgt_positions")
    long = np.full((1, 40), 3)
    assert encode(long, None, w, H).shape == (1, 40, D)
    logits = encoder_decoder(SRC, MASK, TGT, w, H)
    assert not np.allclose(logits, encoder_decoder(SRC, MASK, TGT, model(), H))


def test_biases_may_be_left_out() -> None:
    w = model()
    zero = {name: np.zeros_like(a) if name.endswith("bias") else a for name, a in w.items()}
    none = {name: a for name, a in w.items() if not name.endswith("bias")}
    np.testing.assert_allclose(
        encoder_decoder(SRC, MASK, TGT, none, H), encoder_decoder(SRC, MASK, TGT, zero, H)
    )


W = model()
FAULTS: list[tuple[Callable, str]] = [
    (lambda: encoder_layer(X, without(layer("encoder"), "attention.norm.beta"), H),
     "weights must have 'attention.norm.beta'; got the names 'attention.norm.gamma', "),
    (lambda: encoder_layer(X, [1], H), "weights must be a dictionary of arrays by name; got list"),
    (lambda: encoder_layer(X, layer("encoder"), 4), "n_heads must divide"),
    (lambda: encoder_layer(X, layer("encoder"), H, norm_first="yes"),
     "norm_first must be True or False; got 'yes'"),
    (lambda: encoder_layer(X, layer("encoder"), H, activation="tanh"),
     "activation must be one of relu, gelu, gelu_tanh, silu; got 'tanh'"),
    (lambda: encoder_layer(X[0, 0], layer("encoder"), H), "x must have a shape (..., n, d)"),
    (lambda: decoder_layer(X, MEMORY[:2], layer("decoder"), H), "x_kv must have"),
    (lambda: decoder_layer(X, MEMORY[0, 0], layer("decoder"), H),
     "memory must have a shape (..., n_src, d)"),
    (lambda: encoder_decoder(SRC, MASK, TGT, {}, H),
     "weights must have 'src_embedding.table'; got the names none"),
    (lambda: encoder_decoder(SRC, MASK, TGT, without(W, "decoder"), H),
     "weights must have 'decoder.0.feed_forward.norm.gamma'"),
    (lambda: encoder_decoder(SRC, MASK, TGT, without(W, "encoder_norm"), H, True),
     "weights must have 'encoder_norm.gamma'"),
    (lambda: encoder_decoder(SRC + 1, MASK, TGT, W, H), "src must be from 0 to 7; got 8"),
    (lambda: encoder_decoder(SRC, MASK, TGT + 1, W, H), "tgt must be from 0 to 6; got 7"),
    (lambda: encoder_decoder(SRC[:, :0], MASK, TGT, W, H),
     "src must have a shape (..., n), none of it 0; got (2, 0)"),
    (lambda: encode(np.full(10, 3), None, W, H),
     "offset + n must be at most 9, the rows of table; got 0 + 10"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS)
def test_bad_input_is_named(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
