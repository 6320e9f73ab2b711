"""What only chapter 09's exercises promise."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from course_lib.grading import check
from course_lib.grading.exercises import ch07_feed_forward_and_normalization as ch07
from course_lib.grading.exercises import ch09_encoder_decoder as ch09
from course_lib.grading.exercises import peeking, transformer_layers
from course_lib.grading.model import OPEN_SEED, Case
from course_lib.reference.feed_forward import feed_forward
from course_lib.reference.multi_head import multi_head_attention
from course_lib.reference.normalization import layer_norm
from tests.grading.course import answers, manuscript

ENCODER, DECODER, FORWARD, PARAMETERS, PEEK = ch09.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


# -- against the library ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exercise", "written_out"),
    [
        (ENCODER, transformer_layers.encoder()),
        (DECODER, transformer_layers.decoder()),
        (FORWARD, transformer_layers.model()),
    ],
    ids=["encoder", "decoder", "model"],
)
def test_what_wrong_answers_are_made_of_is_right_as_long_as_nothing_is_replaced(
    exercise: Any, written_out: Any
) -> None:
    for seed in (OPEN_SEED, 1):
        for case in exercise.cases:
            given = case.build(seed)
            np.testing.assert_allclose(
                written_out(*given.values()), exercise.reference(*given.values()), atol=1e-10
            )


def test_weights_have_the_names_of_the_courses_modules() -> None:
    torch = pytest.importorskip("torch")
    from course_lib.models.encoder_decoder import EncoderDecoder

    shapes = {"d_model": 6, "n_heads": 3, "n_layers": 1, "d_ff": 7}
    model = EncoderDecoder(9, 7, **shapes)
    parts = {
        ENCODER: model.encoder[0].state_dict(),
        DECODER: model.decoder[0].state_dict(),
        FORWARD: model.state_dict(),
    }
    for exercise, state in parts.items():
        names = {
            frozenset((name, w.shape) for name, w in given["weights"].items())
            for given in (case.build() for case in exercise.cases)
        }
        assert frozenset((name, tuple(w.shape)) for name, w in state.items()) in names
    assert torch.is_tensor(state["predict.weight"])


@pytest.mark.parametrize("tie", ["none", "output", "all"])
def test_counts_are_those_of_a_model_that_is_really_there(tie: Any) -> None:
    pytest.importorskip("torch")
    from course_lib.models.encoder_decoder import EncoderDecoder

    model = EncoderDecoder(11, 11, d_model=6, n_heads=3, n_layers=2, d_ff=10, tie=tie)
    counts = PARAMETERS.reference(11, 11, 6, 3, 2, 10, tie)
    assert sum(counts) == sum(p.numel() for p in model.parameters())
    assert counts[1] == sum(p.numel() for p in model.encoder.parameters())
    assert counts[2] == sum(p.numel() for p in model.decoder.parameters())


# -- the decoder that peeks ------------------------------------------------------------------------


def leaks(block: Any, case: Case) -> Any:
    """What each output knows of later tokens."""
    x, *rest = case.build().values()
    return ch07.leak(
        lambda y: block(y, *rest), x, x + 1.5 * np.arange(1, 1 + x.size).reshape(x.shape)
    )


def test_the_broken_program_peeks_in_each_of_three_ways_and_the_repaired_one_in_none() -> None:
    (case,) = [case for case in PEEK.cases if case.name.startswith("4 target tokens")]
    assert not leaks(peeking.decoder_block, case).any()
    assert (leaks(peeking.decoder_block_broken, case)[:-1] > 1e-3).all()
    by_name = {m.name: m.wrong for m in PEEK.misconceptions}
    for fault in ("one token ahead", "masked after the softmax", "a norm over all tokens"):
        assert (leaks(by_name[fault], case)[:-1] > 1e-6).all(), fault


def test_each_case_of_the_decoder_that_peeks_shows_one_mechanism() -> None:
    by_name = {m.name: m.wrong for m in PEEK.misconceptions}
    one, padded, two, *_ = PEEK.cases
    assert check(PEEK.id, by_name["one token ahead"]).cases[padded.name]
    assert check(PEEK.id, by_name["a norm over all tokens"]).cases[padded.name]
    late = check(PEEK.id, by_name["masked after the softmax"])
    assert late.cases[one.name] and not late.cases[padded.name] and not late.cases[two.name]


# -- what students write ---------------------------------------------------------------------------


def network_before_cross(
    x, memory, weights, n_heads, self_mask=None, cross_mask=None, norm_first=False
):  # type: ignore[no-untyped-def]
    """A decoder layer of the course's blocks, with the last two sublayers exchanged."""

    def part(name, y):  # type: ignore[no-untyped-def]
        w = [weights[f"{name}.sublayer.w_{a}.weight"].T for a in "qkvo"]
        b = [weights[f"{name}.sublayer.w_{a}.bias"] for a in "qkvo"]
        asked, mask = (y, self_mask) if name == "self_attention" else (memory, cross_mask)
        return multi_head_attention(y, asked, *w, n_heads, mask, *b)[0]

    def think(y):  # type: ignore[no-untyped-def]
        names = ("w_1.weight", "w_1.bias", "w_2.weight", "w_2.bias")
        return feed_forward(y, *(weights[f"feed_forward.sublayer.{a}"].T for a in names))

    for name in ("self_attention", "feed_forward", "cross_attention"):
        gamma, beta = weights[f"{name}.norm.gamma"], weights[f"{name}.norm.beta"]

        def f(y, name=name):  # type: ignore[no-untyped-def]
            return think(y) if name == "feed_forward" else part(name, y)

        x = x + f(layer_norm(x, gamma, beta)) if norm_first else layer_norm(x + f(x), gamma, beta)
    return x


def test_sublayers_in_another_order_arent_taken_for_norms_that_have_changed_places() -> None:
    text = words(check(DECODER.id, network_before_cross))
    assert "before they've asked the source" in text


def test_the_blocks_of_the_course_may_be_called_and_its_layers_may_not() -> None:
    from course_lib.reference import encoder_decoder as course

    report = check(ENCODER.id, lambda *given: course.encoder_layer(*given))
    assert not report.passed and "course's own function" in words(report)
    report = check(FORWARD.id, lambda *given: course.encoder_decoder(*given))
    assert not report.passed and "course's own function" in words(report)


def test_the_courses_layers_may_be_called_where_the_whole_model_is_asked_for() -> None:
    from course_lib.reference import encoder_decoder as course

    def forward(src, src_mask, tgt, weights, n_heads):  # type: ignore[no-untyped-def]
        return transformer_layers.model(encoder=course.encoder_layer, decoder=course.decoder_layer)(
            src, src_mask, tgt, weights, n_heads
        )

    assert check(FORWARD.id, forward).passed


def test_the_evidence_names_what_a_dictionary_holds_and_doesnt_print_it() -> None:
    text = str(check(ENCODER.id, lambda x, *rest: x * 0.0))
    assert "weights: a dictionary of 16, such as" in text
    assert "['attention.norm.gamma'] = [" in text
    assert "array(" not in text and max(map(len, text.splitlines())) <= 80


def test_a_length_taken_from_the_first_axis_is_called_by_its_name() -> None:
    def forward(src, src_mask, tgt, weights, n_heads):  # type: ignore[no-untyped-def]
        lengths = {ids.shape[-1]: len(ids) for ids in (src, tgt)}
        model = transformer_layers.model(
            place=lambda n, d: transformer_layers.sinusoidal_positions(lengths[n], d)
        )
        return model(src, src_mask, tgt, weights, n_heads)

    assert "one more axis in front" in words(check(FORWARD.id, forward))


# -- the text --------------------------------------------------------------------------------------


def row(values: Any, digits: int = 3) -> str:
    return "(" + ", ".join(f"{round(float(v), digits) + 0.0:g}" for v in np.ravel(values)) + ")"


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = manuscript("09").replace("−", "-"), answers("09")
    token, ones, zeros = np.array([[1.0, 2.0, 6.0]]), np.ones(3), np.zeros(3)
    first = layer_norm(2 * token, ones, zeros)
    bent = np.maximum(first, 0.0)
    for values in (2 * token, first, bent, first + bent):
        assert row(values) in text
    weights = solved.identity_layer(3, "attention")
    assert row(solved.encoder_layer(token, weights, 1)) in text

    asked = first + np.array([[0.0, 3.0, 0.0]])
    second = layer_norm(asked, ones, zeros)
    for values in (asked, second, np.maximum(second, 0.0)):
        assert row(values) in text
    weights = solved.identity_layer(3, "self_attention", "cross_attention")
    memory = np.array([[0.0, 3.0, 0.0], [9.0, 0.0, 0.0]])
    seen = np.array([[True, False]])
    assert row(solved.decoder_layer(token, memory, weights, 1, None, seen)) in text

    parts = solved.count_parameters(6, 5, 2, 1, 1, 3)
    attention, network, norms = 4 * (4 + 2), 6 + 3 + 6 + 2, 2 * 4
    assert parts == (12 + 10, attention + network + norms, 77, 10 + 5)
    assert re.search(r"4 · \(4 \+ 2\), the network 6 \+ 3 \+ 6 \+ 2, two norms 8: 49\.", text)
    assert f"In the decoder it's {parts[2]}." in text
