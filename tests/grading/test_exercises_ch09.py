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


def with_masks(choose: Any) -> Any:
    """Return a decoder layer of the course's blocks that chooses its masks itself."""

    def layer(x, memory, weights, n_heads, self_mask=None, cross_mask=None, norm_first=False):  # type: ignore[no-untyped-def]
        own, cross = choose(self_mask, cross_mask, x.shape[-2], norm_first)
        return transformer_layers.decoder()(x, memory, weights, n_heads, own, cross, norm_first)

    return layer


def test_a_decoder_layer_uses_the_targets_mask_that_it_is_given() -> None:
    report = check(DECODER.id, with_masks(lambda own, cross, n, first: (np.tri(n) > 0, cross)))
    assert not report.passed and "makes a causal mask itself" in words(report)
    given = with_masks(lambda own, cross, n, first: (own, cross))
    assert check(DECODER.id, given).passed


@pytest.mark.parametrize("exchanged", [True, False])
def test_masks_mistaken_with_the_norm_first_alone_are_said_to_be_right_with_the_norm_last(
    exchanged: bool,
) -> None:
    def choose(own: Any, cross: Any, n: int, first: bool) -> Any:
        return (cross if exchanged else own, own) if first else (own, cross)

    text = words(check(DECODER.id, with_masks(choose)))
    assert "With the norm last you're right." in text
    assert "cross-attention gets the target's mask" in text


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_layers_of_one_side_sorted_as_texts_are_found(side: str) -> None:
    def layers(weights: Any, of: str) -> Any:
        found = transformer_layers.stack(weights, of)
        order = sorted(range(len(found)), key=str if of == side else int)
        return [found[i] for i in order]

    text = words(check(FORWARD.id, transformer_layers.model(layers=layers)))
    assert f"In the {side}, layers are sorted as texts" in text


def without_turn(first: bool) -> Any:
    """Return an encoder layer of blocks: no matrix transposed, or attention's pair not opened."""

    def encoder_layer(x, weights, n_heads, mask=None):  # type: ignore[no-untyped-def]
        def weight(name: str) -> Any:
            return weights[name].T if not first else weights[name]

        def norm(name: str, y: Any) -> Any:
            return layer_norm(y, weights[f"{name}.norm.gamma"], weights[f"{name}.norm.beta"])

        w = [weight(f"attention.sublayer.w_{a}.weight") for a in "qkvo"]
        b = [weights[f"attention.sublayer.w_{a}.bias"] for a in "qkvo"]
        attended = multi_head_attention(x, x, *w, n_heads, mask, *b)
        x = norm("attention", x + (attended[0] if first else attended))
        names = ("w_1.weight", "w_1.bias", "w_2.weight", "w_2.bias")
        network = [weight(f"feed_forward.sublayer.{a}") for a in names]
        return norm("feed_forward", x + feed_forward(x, *network))

    return encoder_layer


def test_a_matrix_not_turned_and_a_pair_not_opened_get_questions_of_their_own() -> None:
    assert "`.T` turns it" in words(check(ENCODER.id, without_turn(first=True)))
    assert "such as an output and its weights?" in words(
        check(ENCODER.id, without_turn(first=False))
    )


def counted(
    attention: Any = lambda d, h: 4 * d * d + 4 * d,
    end: Any = lambda t, d, tie: (d + 1) * t if tie == "none" else 0,
) -> Any:
    """Return a count of a model's numbers, right as long as neither part is replaced."""

    def count_parameters(s, t, d, h, n, f, tie="none"):  # type: ignore[no-untyped-def]
        a, network = attention(d, h), 2 * d * f + f + d
        tables = (t if tie == "all" else s + t) * d
        layers = n * (a + network + 4 * d), n * (2 * a + network + 6 * d)
        return tables, *layers, end(t, d, tie)

    return count_parameters


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        (
            lambda d, h: h * 4 * d * d + 4 * d,
            "attention's four matrices (d × d) once for each head",
        ),
        (lambda d, h: h * 4 * d * d, "and none of its biases"),
        (lambda d, h: 3 * h * d * d + d * d + 4 * d, "and W_O once"),
    ],
)
def test_matrices_multiplied_by_the_heads_are_found_with_and_without_biases(
    attention: Any, said: str
) -> None:
    assert check(PARAMETERS.id, counted()).passed
    count_parameters = counted(attention)
    assert said in words(check(PARAMETERS.id, count_parameters))


def test_a_tied_projection_counted_twice_is_found_without_its_bias_too() -> None:
    count_parameters = counted(end=lambda t, d, tie: t * d + (t if tie == "none" else 0))
    text = words(check(PARAMETERS.id, count_parameters))
    assert "with the embeddings and at the end" in text


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
