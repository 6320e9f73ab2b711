"""What only chapter 13's exercises promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from course_lib import accounting
from course_lib.grading import check
from course_lib.grading.exercises import ch13_decoder_only as ch13
from course_lib.grading.exercises import gated_networks, gpt2_bugs, llama_blocks, next_tokens
from course_lib.grading.model import Case
from course_lib.reference import feed_forward, language_modelling, normalization
from tests.grading.course import answers, manuscript, manuscript_cells

GATED, ADD_NORM, LLAMA, PARAMETERS, LOSS, PROBE, BUG = ch13.EXERCISES


def words(text: object) -> str:
    return " ".join(str(text).split())


# -- against the library ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", GATED.cases, ids=lambda case: case.name)
def test_a_network_gated_by_silu_is_the_librarys(case: Case) -> None:
    x, w_gate_up, w_down, *_ = case.build().values()
    w_gate, w_up = np.split(w_gate_up, 2, axis=1)
    np.testing.assert_allclose(
        gated_networks.gated_network(x, w_gate_up, w_down),
        feed_forward.swiglu(x, w_gate, w_down, w_up),
        atol=1e-12,
    )
    one = np.array([[1.0]])
    pairs = np.concatenate([x[..., :1], np.ones_like(x[..., :1])], axis=-1)
    for gate, form in (("gelu", "none"), ("gelu_tanh", "tanh")):
        np.testing.assert_allclose(
            gated_networks.gated_network(pairs, np.eye(2), one, gate),
            feed_forward.gelu(x[..., :1], form),
            atol=1e-12,
        )


@pytest.mark.parametrize("case", ADD_NORM.cases, ids=lambda case: case.name)
def test_a_sum_is_normalised_as_the_library_does(case: Case) -> None:
    stream, update, gamma, *eps = case.build().values()
    normed, total = gated_networks.add_and_normalise(stream, update, gamma, *eps)
    wide = stream.astype(float) + update.astype(float)
    expected = np.result_type(stream, update, np.float32)
    rtol = {"float64": 1e-12, "float32": 1e-5}[str(expected)]
    np.testing.assert_allclose(
        normed, normalization.rms_norm(wide, gamma.astype(float), *eps), rtol=rtol, atol=1e-12
    )
    np.testing.assert_allclose(total, wide, rtol=rtol)
    assert normed.dtype == total.dtype == expected


def test_float16_has_no_room_in_three_cases_for_squares_large_or_small_and_for_a_sum() -> None:
    narrow = [case for case in ADD_NORM.cases if case.build()["stream"].dtype == np.float16]
    large, small, sums = [case.build() for case in narrow]
    with np.errstate(over="ignore", under="ignore"):
        total = large["stream"] + large["update"]
        assert np.isfinite(total).all() and np.isinf(total**2).any()
        total = small["stream"] + small["update"]
        assert ((total != 0) & (total**2 == 0)).any()
        assert np.isinf(sums["stream"] + sums["update"]).any()
        assert np.float16(3.1e-8) > 0 and np.float16(2.9e-8) == 0  # what the text says
    assert any(
        given["stream"].dtype == np.float32 and given["update"].dtype == np.float16
        for given in (case.build() for case in ADD_NORM.cases)
    )


def states_of(model: Any, x: Any) -> list[Any]:
    """What stands in the stream before and after each block of transformers' model."""
    import torch

    with torch.no_grad():
        return list(model(inputs_embeds=torch.as_tensor(x), output_hidden_states=True)[-1])


def stir(model: Any) -> Any:
    """Give a model random weights throughout, norms and biases too."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model.double().eval()


def of_block(model: Any, prefix: str) -> dict[str, Any]:
    """The weights of a block by their names in the checkpoint."""
    return {
        name.removeprefix(prefix): w.numpy()
        for name, w in model.state_dict().items()
        if name.startswith(prefix)
    }


@pytest.mark.parametrize(("h", "h_kv", "width"), [(4, 4, None), (4, 2, 6), (4, 1, 2)])
def test_a_block_is_that_of_transformers(h: int, h_kv: int, width: int | None) -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=h, num_key_value_heads=h_kv, head_dim=width, rms_norm_eps=1e-4,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
    )  # fmt: skip
    model = stir(LlamaModel(config))
    x = np.random.default_rng(0).normal(size=(2, 7, 16))
    before, after, *_ = states_of(model, x)
    weights = of_block(model, "layers.0.")
    assert set(weights) == set(LLAMA.cases[0].build()["weights"])
    found = llama_blocks.llama_block(before.numpy(), weights, h, h_kv, base=300.0, eps=1e-4)
    # transformers makes its cosines in float32
    np.testing.assert_allclose(found, after.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("h", [1, 4])
def test_the_repaired_block_is_that_of_transformers(h: int) -> None:
    pytest.importorskip("transformers")
    from transformers import GPT2Config, GPT2Model

    model = stir(GPT2Model(GPT2Config(vocab_size=11, n_positions=9, n_embd=8, n_layer=2, n_head=h)))
    x = np.random.default_rng(0).normal(size=(2, 7, 8))
    before, after, *_ = states_of(model, x)
    weights = of_block(model, "h.0.")
    assert set(BUG.cases[0].build()["weights"]) == set(weights)
    found = gpt2_bugs.gpt2_block(before.numpy(), weights, h)
    np.testing.assert_allclose(found, after.numpy(), atol=1e-9)
    broken = gpt2_bugs.gpt2_block_broken(before.numpy(), weights, h)
    assert np.abs(broken - after.numpy()).max() > 0.1


@pytest.mark.parametrize("case", PARAMETERS.cases, ids=lambda case: case.name)
def test_parameters_are_those_of_the_library(case: Case) -> None:
    config = case.build()["config"]
    embeddings, attention, mlp, norms, total = ch13.llama_parameters(config)
    sizes = {
        "n_kv_heads": config.get("num_key_value_heads"),
        "d_head": config.get("head_dim"),
    }
    d, h, d_ff = (
        config[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size")
    )
    n_layers, v = config["num_hidden_layers"], config["vocab_size"]
    parts = accounting.decoder_block(1, d, h, d_ff, **sizes)
    assert attention == n_layers * parts["attention"].parameters
    assert mlp == n_layers * parts["feed-forward"].parameters
    assert norms == n_layers * parts["norms"].parameters + d
    tied = bool(config.get("tie_word_embeddings"))
    assert embeddings == v * d * (1 if tied else 2)
    whole = accounting.decoder_only(1, v, d, h, n_layers, d_ff, **sizes, tied=tied)
    assert total == accounting.total(whole).parameters


def test_the_numbers_of_the_7b_model_are_the_syllabuss() -> None:
    (case,) = [case for case in PARAMETERS.cases if case.name == "Llama 7B"]
    embeddings, attention, mlp, norms, total = ch13.llama_parameters(**case.build())
    assert (embeddings, total) == (262_144_000, 6_738_415_616)
    assert (attention // 32, mlp // 32, (norms - 4096) // 32) == (67_108_864, 135_266_304, 8_192)
    assert f"{total:,}" == case.shows


def test_a_loss_on_one_text_is_the_librarys_cross_entropy() -> None:
    given = LOSS.cases[0].build()
    loss, bits = next_tokens.next_token_loss(**given)
    expected = language_modelling.cross_entropy(given["logits"][:, :-1], given["ids"][:, 1:])
    np.testing.assert_allclose(loss, expected)
    size = given["n_bytes"][given["ids"][:, 1:]].sum()
    np.testing.assert_allclose(bits, expected / np.log(2) / size)


def test_a_packed_row_has_the_loss_of_its_texts_in_rows_of_their_own() -> None:
    rng = np.random.default_rng(0)
    logits, ids = rng.normal(size=(1, 7, 5)), rng.integers(0, 5, (1, 7))
    n_bytes = np.array([0, 1, 2, 3, 4])
    packed = next_tokens.next_token_loss(logits, ids, np.array([[0, 0, 0, 0, 1, 1, 1]]), n_bytes)
    rows = [np.concatenate([x[:, :4], np.pad(x[:, 4:], ((0, 0), (0, 1), *rest))])
            for x, rest in ((logits, [(0, 0)]), (ids, []))]  # fmt: skip
    documents = np.array([[0, 0, 0, 0], [1, 1, 1, -1]])
    np.testing.assert_allclose(next_tokens.next_token_loss(*rows, documents, n_bytes), packed)


@pytest.mark.parametrize("case", PROBE.cases, ids=lambda case: case.name)
def test_what_a_probe_sees_is_what_the_model_hides(case: Case) -> None:
    given = case.build()
    seen, *_ = next_tokens.probe(**given)
    np.testing.assert_array_equal(seen, given["model"]._seen)


def test_families_of_the_cases_and_of_the_librarys_models() -> None:
    torch = pytest.importorskip("torch")
    from course_lib.models.decoder_only import DecoderOnly, llama

    families = [next_tokens.probe(**case.build())[2] for case in PROBE.cases]
    assert families == [0, 1, 2, 1, 0, 1, 2]

    torch.manual_seed(0)
    config = llama(vocab_size=9, d_model=8, n_layers=2, n_heads=2, d_ff=12, max_length=6)
    decoder = DecoderOnly(config).double().eval()

    def model(ids: Any) -> Any:
        with torch.no_grad():
            lengths = torch.tensor([len(ids)])
            return decoder(torch.as_tensor(ids)[None], lengths)[0].numpy()

    seen, predicts, family = next_tokens.probe(model, np.array([3, 4, 5, 6, 7]), 9)
    np.testing.assert_array_equal(seen, np.tri(5, dtype=bool))
    assert predicts.all() and family == 1


# -- what students write ---------------------------------------------------------------------------


def test_a_block_with_one_repair_is_told_which_two_faults_are_left() -> None:
    by_name = {m.name: m.wrong for m in BUG.misconceptions}
    text = words(check(BUG.id, by_name["the bracket of GELU, the stream normalised"]))
    assert "Two faults are left: in GELU" in text
    text = words(check(BUG.id, by_name["queries, keys and values head by head"]))
    assert "One fault is left: the columns of c_attn" in text


def test_the_librarys_own_functions_refuse() -> None:
    def gated(x, w_gate_up, w_down, gate="silu"):  # type: ignore[no-untyped-def]
        w_gate, w_up = np.split(w_gate_up, 2, axis=1)
        return feed_forward.swiglu(x, w_gate, w_down, w_up)

    def added(stream, update, gamma, eps=1e-6):  # type: ignore[no-untyped-def]
        total = stream + update
        return normalization.rms_norm(total, gamma, eps), total

    assert check(GATED.id, gated).points == 0
    assert check(ADD_NORM.id, added).points == 0


def named(exercise: Any, function: Any, name: str) -> None:
    """Assert that a program fails, and is told the hint of one misconception."""
    (mistake,) = [m for m in exercise.misconceptions if m.name == name]
    report = check(exercise.id, function)
    assert not report.passed
    assert words(mistake.hint) in words(report)


def edited(function: str, *edits: tuple[str, str]) -> Any:
    """Return the page's answer with some of its text replaced, as a student would have it."""
    (source,) = [source for _, source in manuscript_cells("13") if f"def {function}(" in source]
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    namespace = dict(vars(answers("13")))
    exec(source, namespace)
    return namespace[function]


CUT = "np.split(x @ w_gate_up, 2, axis=-1)"
WIDENED = "stream.astype(room) + update"
RETURNED = "return gamma * total / size, total"
INSIDE = "(documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] != -1)"
TURNED = "q, k = (rotate_half_split(z, *angles) for z in (q, k))"
OTHERS = "for other in range(vocab_size):"
EXACT = "(1 + erf(g / np.sqrt(2))) / 2"
BY_TANH = "(1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))) / 2"
PER_BYTE = "bits / n_bytes[targets[counts]].sum()"


@pytest.mark.parametrize(
    ("exercise", "function", "edits", "name"),
    [
        (
            GATED,
            "gated_network",
            [(CUT, "np.split(x @ w_gate_up, [x.shape[-1]], axis=-1)")],
            "cut at column d",
        ),
        (
            GATED,
            "gated_network",
            [(CUT, "np.split(x @ w_gate_up, 2)")],
            "cut along the first axis",
        ),
        (
            ADD_NORM,
            "add_and_normalise",
            [(WIDENED, "(stream + update).astype(room)")],
            "added in float16, then widened",
        ),
        (
            ADD_NORM,
            "add_and_normalise",
            [
                (WIDENED, "stream + update"),
                ("(total**2)", "(total.astype(room)**2)"),
            ],
            "added in float16",
        ),
        (
            ADD_NORM,
            "add_and_normalise",
            [(WIDENED, "stream + update")],
            "all in float16",
        ),
        (
            ADD_NORM,
            "add_and_normalise",
            [(RETURNED, f"{RETURNED}.astype(stream.dtype)")],
            "brought back to float16",
        ),
        (
            ADD_NORM,
            "add_and_normalise",
            [(RETURNED, "return (gamma * total / size).astype(stream.dtype), total")],
            "what is read in float16",
        ),
        (
            ADD_NORM,
            "add_and_normalise",
            [("keepdims=True", "keepdims=False")],
            "keepdims forgotten",
        ),
        (
            LLAMA,
            "llama_block",
            [
                (
                    'return y @ weights[f"{name}_proj.weight"].T',
                    'z = y @ weights[f"{name}_proj.weight"].T\n'
                    "        if name not in ('self_attn.q', 'self_attn.k'):\n"
                    "            return z\n"
                    "        wide = rotary_frequencies(z.shape[-1], base)\n"
                    "        return rotate_half_split(z, np.arange(n), wide)",
                ),
                (TURNED, "pass"),
            ],
            "turned before cut into heads",
        ),
        (
            LLAMA,
            "llama_block",
            [("rotary_frequencies(q.shape[-1]", "rotary_frequencies(x.shape[-1]")],
            "frequencies for the width d",
        ),
        (
            PARAMETERS,
            "llama_parameters",
            [('if config.get("tie_word_embeddings")', 'if config.get("tie_word_embeddings", 1)')],
            "tied where nothing is said",
        ),
        (
            LOSS,
            "next_token_loss",
            [
                (
                    "targets = ids[:, 1:]",
                    "logs, ids, documents = (\n"
                    "        a.reshape(1, -1, *a.shape[2:]) for a in (logs, ids, documents)\n"
                    "    )\n"
                    "    targets = ids[:, 1:]",
                )
            ],
            "rows put end to end",
        ),
        (
            LOSS,
            "next_token_loss",
            [("targets = ids[:, 1:]", "targets = ids[:, :-1]")],
            "the last place of both dropped",
        ),
        (
            LOSS,
            "next_token_loss",
            [("logs[:, :-1]", "logs[:, 1:]")],
            "the first place of both dropped",
        ),
        (
            LOSS,
            "next_token_loss",
            [(INSIDE, INSIDE.replace("!= -1", "> 0"))],
            "text 0 taken for padding",
        ),
        (
            PROBE,
            "probe",
            [("1e-6", "1e-2")],
            "too coarse",
        ),
        (
            PROBE,
            "probe",
            [(OTHERS, "for other in range(1, vocab_size + 1):")],
            "past the vocabulary",
        ),
        (
            PROBE,
            "probe",
            [(OTHERS, "for other in range(2):")],
            "one other token",
        ),
        (
            PROBE,
            "probe",
            [("|= moved.any(axis=-1)", "= moved.any(axis=-1)\n            if moved.any(): break")],
            "stopped at the first success",
        ),
        (
            LOSS,
            "next_token_loss",
            [("documents[:, 1:] == ", "documents[:, 1:] <= ")],
            "numbers that may fall",
        ),
        (
            GATED,
            "gated_network",
            [(EXACT, EXACT.replace("(1 + ", "1 + ").replace(")) / 2", ") / 2"))],
            "1 not halved in the exact GELU",
        ),
        (
            GATED,
            "gated_network",
            [(EXACT, EXACT.removesuffix(" / 2")), (BY_TANH, BY_TANH.removesuffix(" / 2"))],
            "½ forgotten in both",
        ),
        (
            LLAMA,
            "llama_block",
            [
                (
                    TURNED,
                    "turn = rotate_half_split\n"
                    "    q = turn(q, np.arange(1, n + 1), angles[1])\n"
                    "    k = turn(k, *angles)",
                )
            ],
            "queries one place ahead",
        ),
        (
            LLAMA,
            "llama_block",
            [("+ eps)", '+ (eps if name[0] == "i" else 0))')],
            "no ε in the second norm",
        ),
        (
            LLAMA,
            "llama_block",
            [("+ eps)", '+ (eps if name[0] == "i" else 1e-6))')],
            "no ε in the second norm",
        ),
        (LLAMA, "llama_block", [("+ eps)", ")")], "no ε"),
        (
            LLAMA,
            "llama_block",
            [("x = x + linear(out", "z = x + linear(out"), ("return x +", "return z +")],
            "both sublayers at once",
        ),
        (
            LLAMA,
            "llama_block",
            [('    y = norm(x, "post_attention_layernorm")', "")],
            "one norm for both sublayers",
        ),
        (
            PARAMETERS,
            "llama_parameters",
            [("2 * d * width * (h + h_kv)", "d * (width * (h + 2 * h_kv) + d)")],
            "o_proj of width d",
        ),
        (
            LOSS,
            "next_token_loss",
            [
                (
                    "return losses[counts].mean()",
                    "rows = [a[b].mean() for a, b in zip(losses, counts)]\n"
                    "    return np.mean(rows)",
                )
            ],
            "a mean of rows, for the loss",
        ),
        (
            LOSS,
            "next_token_loss",
            [(PER_BYTE, "losses[counts].mean() / np.log(2) / n_bytes[ids].mean()")],
            "the mean bytes of all places",
        ),
        (
            LOSS,
            "next_token_loss",
            [(PER_BYTE, "losses[counts].mean() / np.log(2) / n_bytes[ids[documents >= 0]].mean()")],
            "the mean bytes of all tokens",
        ),
        (BUG, "gpt2_block", [("1e-5", "1e-6")], "ε = 10⁻⁶"),
        (BUG, "gpt2_block", [("1e-5", "1e-12")], "no ε"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_program_of_a_first_reader_is_told_its_own_fault(
    exercise: Any, function: str, edits: list[tuple[str, str]], name: str
) -> None:
    named(exercise, edited(function, *edits), name)


@pytest.mark.parametrize("room", ["np.float32", "np.float64", "np.result_type(stream, 'f4')"])
def test_any_type_with_room_passes(room: str) -> None:
    text = "np.promote_types(stream.dtype, np.float32)"
    assert check(ADD_NORM.id, edited("add_and_normalise", (text, room))).passed


def test_rows_of_a_batch_may_share_a_text() -> None:
    """Else a batch that's flattened before the shift would pass."""
    shared = [
        case.name
        for case in LOSS.cases
        for documents in [case.build()["documents"]]
        if len(documents) > 1 and documents[0, -1] == documents[1, 0] >= 0
    ]
    assert shared == ["one text of 10 tokens in 2 rows"]


# -- the text --------------------------------------------------------------------------------------


def test_numbers_in_the_text_are_those_that_come_out() -> None:
    text, solved = words(manuscript("13")), answers("13")
    normed, _ = solved.add_and_normalise(
        np.array([[100.0, 0.0]]), np.array([[200.0, 400.0]]), np.ones(2)
    )
    assert "so $({:.3f}, {:.3f})$ is read next".format(*normed[0]) in text
    assert "125,000 with a root of {:.1f}".format(np.sqrt(125_000)) in text  # noqa: UP032
    assert f"the largest number is {np.finfo(np.float16).max:,.0f}, and" in text
    assert r"numbers below $2.9 \cdot 10^{-8}$ become 0" in text

    silu = 1 / (1 + np.exp(-1.0))
    assert f"SiLU(1) is {silu:.3f}, so {3 * silu:.3f} goes into" in text

    embeddings, attention, mlp, norms, total = solved.llama_parameters(solved.tiny)
    assert f"Two tables have {embeddings} numbers" in text
    assert rf"$16 + 8 + 8 + 16 = {attention}$; the network $3 \cdot 24 = {mlp}$" in text
    assert f"three norms {norms}. That's {total} in all." in text

    broken = solved.gpt2_block_broken(np.array([[1.0, 5.0]]), solved.silent, 1)
    np.testing.assert_allclose(broken, [[0.0, 2.0]], atol=1e-4)  # normalised, times 1, plus 1
