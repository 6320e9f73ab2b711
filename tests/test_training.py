"""The training loop is repeatable, can be continued, and leaves everything else alone."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from course_lib import training
from course_lib.blocks.optimization import cosine_schedule
from course_lib.data.batching import bucket_batches
from course_lib.data.vocabulary import BOS, EOS
from course_lib.models.encoder_decoder import EncoderDecoder
from course_lib.progress_bar import progress_bar
from course_lib.training import (
    History,
    TeacherForced,
    forced_exact_match,
    forced_loss,
    teacher_forced,
    train,
)

ROOT = Path(__file__).resolve().parents[1]


class Interrupted(Exception):
    """What stands in for a lost connection."""


def make_model(seed: int = 3, width: int = 8, dropout: float = 0.3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, 1))


def batch(step: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([11, step])
    x = torch.from_numpy(rng.normal(size=(16, 4))).float()
    return x, x.sum(-1, keepdim=True) + 5


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return ((model(x) - y) ** 2).mean()


def minus_error(model: nn.Module) -> float:
    return -squared_error(model, batch(10_000)).item()


def warm_up(step: int) -> float:
    return min(1.0, (step + 1) / 20)


def run(model: nn.Module, **options: Any) -> History:
    given: dict[str, Any] = {"steps": 30, "lr": 1e-2, "progress": False, **options}
    return train(model, given.pop("batch", batch), given.pop("loss", squared_error), **given)


def parameters(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# --- what a run does -----------------------------------------------------------------------------


def test_a_run_learns_and_tells_what_happened() -> None:
    model = make_model(dropout=0.0)
    before = minus_error(model)
    history = run(model, steps=200, evaluate=minus_error, evaluate_every=80)
    assert history.steps == len(history.losses) == len(history.factors) == 200
    assert [step for step, _ in history.metrics] == [80, 160, 200]
    assert history.metrics[-1][1] == minus_error(model)
    assert minus_error(model) > before / 4
    assert history.seconds > 0
    assert not history.reached_target


def test_the_first_loss_is_that_of_the_untrained_model() -> None:
    model = make_model(dropout=0.0)
    untrained = squared_error(model, batch(0)).item()
    assert run(model, steps=1).losses == [untrained]


def test_without_evaluate_every_only_the_end_is_evaluated() -> None:
    assert [s for s, _ in run(make_model(), evaluate=minus_error).metrics] == [30]


def test_a_run_equals_the_same_lines_written_out() -> None:
    ours, plain = make_model(dropout=0.0), make_model(dropout=0.0)
    run(ours, schedule=warm_up, clip_norm=0.5)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-2)
    for step in range(30):
        optimizer.param_groups[0]["lr"] = 1e-2 * warm_up(step)
        optimizer.zero_grad()
        squared_error(plain, batch(step)).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
    assert equal(parameters(ours), parameters(plain))


@pytest.mark.parametrize("clip_norm", [0.01, 1.0, 1e9, None])
def test_a_gradient_is_clipped_to_the_norm_only_if_it_is_larger(clip_norm: float | None) -> None:
    model = make_model(dropout=0.0)
    before = parameters(model)
    squared_error(model, batch(0)).backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
    factor = 1.0 if clip_norm is None or clip_norm > norm else clip_norm / norm
    run(model, steps=1, clip_norm=clip_norm, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    for now, then, gradient in zip(parameters(model), before, gradients, strict=True):
        torch.testing.assert_close(then - now, factor * gradient, rtol=1e-4, atol=1e-6)


def test_the_schedule_multiplies_every_groups_own_rate_and_the_rates_come_back() -> None:
    model = make_model()
    seen = []
    optimizer = torch.optim.SGD(
        [
            {"params": model[0].parameters(), "lr": 0.1},
            {"params": model[3].parameters(), "lr": 0.01},
        ]
    )

    def loss(model: nn.Module, b: Any) -> Tensor:
        seen.append([group["lr"] for group in optimizer.param_groups])
        return squared_error(model, b)

    history = run(model, steps=3, optimizer=optimizer, loss=loss, schedule=lambda s: 1 / (s + 1))
    np.testing.assert_allclose(seen, [[0.1, 0.01], [0.05, 0.005], [0.1 / 3, 0.01 / 3]])
    assert history.factors == [1, 1 / 2, 1 / 3]
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]


def test_a_run_stops_as_soon_as_the_metric_reaches_the_target() -> None:
    values = iter([0.2, 0.5, 0.9, 1.0])
    history = run(make_model(), evaluate=lambda model: next(values), evaluate_every=5, target=0.9)
    assert history.reached_target
    assert history.steps == 15
    assert history.metrics == [(5, 0.2), (10, 0.5), (15, 0.9)]


def test_a_target_that_is_never_reached_is_told() -> None:
    history = run(make_model(), evaluate=lambda model: 0.5, evaluate_every=5, target=0.9)
    assert not history.reached_target
    assert history.steps == 30


# --- randomness ----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_whatever_was_drawn_before() -> None:
    a, b, c = make_model(), make_model(), make_model()
    first = run(a, seed=5)
    torch.rand(17)
    assert run(b, seed=5).losses == first.losses
    assert equal(parameters(a), parameters(b))
    assert run(c, seed=6).losses != first.losses


def test_what_a_step_draws_comes_from_the_seed_whoever_draws_it() -> None:
    def drawn(seed: int) -> list[tuple[float, float, float]]:
        numbers = []

        def loss(model: nn.Module, b: Any) -> Tensor:
            numbers.append((torch.rand(()).item(), np.random.random(), random.random()))
            return squared_error(model, b)

        run(make_model(), steps=3, loss=loss, seed=seed)
        return numbers

    first = drawn(5)
    torch.rand(1), np.random.random(), random.random()
    assert drawn(5) == first
    for a, b in zip(first, drawn(6), strict=True):
        assert all(x != y for x, y in zip(a, b, strict=True))


def test_steps_draw_different_random_numbers() -> None:
    drawn = []

    def loss(model: nn.Module, b: Any) -> Tensor:
        drawn.append((torch.rand(()).item(), np.random.random(), random.random()))
        return squared_error(model, b)

    run(make_model(), steps=10, loss=loss)
    for numbers in zip(*drawn, strict=True):
        assert len(set(numbers)) == 10


def test_evaluating_changes_nothing_in_training_even_if_it_draws() -> None:
    def drawing(model: nn.Module) -> float:
        return torch.rand(()).item() + np.random.random() + random.random()

    a, b = make_model(), make_model()
    assert run(a).losses == run(b, evaluate=drawing, evaluate_every=3).losses
    assert equal(parameters(a), parameters(b))


def test_the_callers_random_numbers_go_on_as_if_nothing_had_been() -> None:
    def draw() -> tuple[float, float, float]:
        return torch.rand(()).item(), np.random.random(), random.random()

    def seed() -> None:
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)

    model = make_model()
    seed()
    expected = draw()
    seed()
    run(model)
    assert draw() == expected
    seed()
    with pytest.raises(Interrupted):
        run(model, batch=failing_at(3))
    assert draw() == expected


# --- modes ---------------------------------------------------------------------------------------


def test_a_model_trains_in_training_mode_and_is_evaluated_in_evaluation_mode() -> None:
    model = make_model()
    modes, evaluated = [], []

    def loss(model: nn.Module, b: Any) -> Tensor:
        modes.append(all(m.training for m in model.modules()))
        return squared_error(model, b)

    def evaluate(model: nn.Module) -> float:
        evaluated.append(any(m.training for m in model.modules()))
        assert not torch.is_grad_enabled()
        return 0.0

    run(model, loss=loss, evaluate=evaluate, evaluate_every=10)
    assert modes == [True] * 30
    assert evaluated == [False] * 3


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("training_mode", [False, True])
def test_every_part_of_a_model_gets_back_the_mode_it_came_in(
    training_mode: bool, fails: bool
) -> None:
    model = make_model().train(training_mode)
    model[2].train(not training_mode)
    if fails:
        with pytest.raises(Interrupted):
            run(model, batch=failing_at(4), evaluate=minus_error, evaluate_every=1)
    else:
        run(model, evaluate=minus_error)
    assert [m.training for m in model] == [training_mode] * 2 + [not training_mode, training_mode]


# --- checkpoints ---------------------------------------------------------------------------------


def failing_at(bad: int) -> Callable[[int], Any]:
    def interrupted(step: int) -> Any:
        if step == bad:
            raise Interrupted
        return batch(step)

    return interrupted


OPTIONS: dict[str, Any] = {
    "evaluate": minus_error,
    "evaluate_every": 7,
    "schedule": warm_up,
    "seed": 4,
}


def test_an_interrupted_run_continues_bit_by_bit(tmp_path: Path) -> None:
    whole, again = make_model(), make_model(seed=99)  # whose weights come from the checkpoint
    expected = run(whole, **OPTIONS)
    saved = {"checkpoint": tmp_path / "run", "checkpoint_every": 8}
    with pytest.raises(Interrupted):
        run(make_model(), batch=failing_at(19), **saved, **OPTIONS)
    torch.rand(5)
    history = run(again, **saved, **OPTIONS)
    assert equal(parameters(whole), parameters(again))
    assert history.losses == expected.losses
    assert history.metrics == expected.metrics
    assert history.factors == expected.factors


def test_the_continuation_starts_at_the_checkpoint_and_not_at_the_beginning(
    tmp_path: Path,
) -> None:
    with pytest.raises(Interrupted):
        run(make_model(), batch=failing_at(19), checkpoint=tmp_path / "run", checkpoint_every=8)
    asked = []

    def noted(step: int) -> Any:
        asked.append(step)
        return batch(step)

    run(make_model(), batch=noted, checkpoint=tmp_path / "run")
    assert asked == list(range(16, 30))


def test_several_threads_give_the_same_weights_each_time() -> None:
    """Rows that are looked up more than once get the sum of several gradients."""

    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(14, 64, generator=torch.manual_seed(0)))

    ids = torch.randint(0, 14, (64, 11), generator=torch.manual_seed(1))
    weights = torch.randn(64, 11, 64, generator=torch.manual_seed(2))

    def loss(model: Lookup, ids: Tensor) -> Tensor:
        assert torch.are_deterministic_algorithms_enabled()  # luck hides what happens without
        return (8.0 * model.table[ids] * weights).sin().sum()

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        models = [Lookup() for _ in range(20)]
        for model in models:
            train(model, lambda step: ids, loss, steps=10, progress=False)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(model.table, models[0].table) for model in models)
    assert not torch.are_deterministic_algorithms_enabled()


def test_an_optimiser_of_ones_own_continues_bit_by_bit(tmp_path: Path) -> None:
    def go(model: nn.Module, **options: Any) -> History:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        return run(model, optimizer=optimizer, **OPTIONS, **options)

    whole, again = make_model(), make_model(seed=99)
    go(whole)
    with pytest.raises(Interrupted):
        go(make_model(), batch=failing_at(11), checkpoint=tmp_path / "run", checkpoint_every=5)
    go(again, checkpoint=tmp_path / "run")
    assert equal(parameters(whole), parameters(again))


def test_a_run_goes_on_bit_by_bit_with_more_steps(tmp_path: Path) -> None:
    whole, part = make_model(), make_model()
    run(whole, schedule=warm_up)
    run(part, schedule=warm_up, steps=12, checkpoint=tmp_path / "run")
    run(part, schedule=warm_up, checkpoint=tmp_path / "run")
    assert equal(parameters(whole), parameters(part))


def test_a_finished_run_is_loaded_and_not_repeated(tmp_path: Path) -> None:
    done, loaded = make_model(), make_model(seed=99)
    history = run(done, checkpoint=tmp_path / "run")
    again = run(loaded, checkpoint=tmp_path / "run", batch=failing_at(0))
    assert again == history
    assert equal(parameters(done), parameters(loaded))


def test_a_run_that_reached_its_target_is_loaded_and_not_continued(tmp_path: Path) -> None:
    options = {"evaluate": lambda model: 1.0, "evaluate_every": 5, "checkpoint": tmp_path / "run"}
    assert run(make_model(), target=0.9, **options).steps == 5
    again = run(make_model(), target=0.9, batch=failing_at(0), **options)
    assert again.reached_target
    assert again.steps == 5


def test_the_time_of_the_parts_adds_up(tmp_path: Path) -> None:
    run(make_model(), steps=10, checkpoint=tmp_path / "run")
    state = torch.load(tmp_path / "run", weights_only=True)
    state["history"]["seconds"] = 1000.0
    torch.save(state, tmp_path / "run")
    assert run(make_model(), checkpoint=tmp_path / "run").seconds > 1000


@pytest.mark.parametrize("part", ["torch.save", "os.replace"])
def test_a_failure_while_writing_keeps_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    path = tmp_path / "run"
    run(make_model(), steps=10, checkpoint=path)
    before = path.read_bytes()

    def breaks_off(state: Any, file: Any) -> None:
        if part == "torch.save":
            Path(file).write_bytes(b"half")
        raise OSError("disk full")

    module, name = part.split(".")
    monkeypatch.setattr(getattr(training, module), name, breaks_off)
    with pytest.raises(OSError, match="disk full"):
        run(make_model(), checkpoint=path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


class Trap:
    """Runs code when it's unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    run(make_model(), checkpoint=tmp_path / "run")
    state = torch.load(tmp_path / "run", weights_only=True)
    torch.save({**state, "trap": Trap(tmp_path / "sprung")}, tmp_path / "run")
    with pytest.raises(ValueError, match=r"^checkpoint .*run isn't one that train has written"):
        run(make_model(), checkpoint=tmp_path / "run")
    assert not (tmp_path / "sprung").exists()


def adam(model: nn.Module) -> dict[str, Any]:
    return {"optimizer": torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.98))}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, "^seed must be the one .* 0; got 1"),
        ({"clip_norm": None}, "^clip_norm must be the one .* 1.0; got None"),
        ({"lr": 0.5}, "^optimizer must be the one .*'lr': 0.01.*; got .*'lr': 0.5"),
        ({"steps": 9}, "^steps must be at least the 10 that checkpoint .*; got 9"),
        ({"schedule": warm_up}, "^schedule must be the one .* 1 at step 0; got 0.05"),
        ({"model": make_model(width=9)}, r"^model must be the one .*=8.*; got .*=9"),
        ({"model": make_model(dropout=0.1)}, r"^model must be the one .*p=0.3.*; got .*p=0.1"),
        ({"model": make_model().double()}, "^model must be the one .*float32.*; got .*float64"),
        ({"model": make_model()[:3]}, r"^model must be the one .*Linear.*; got "),
        (adam, "^optimizer must be the one .*0.999.*; got .*0.98"),
    ],
)
def test_other_settings_than_the_checkpoints_are_refused_and_change_nothing(
    tmp_path: Path, options: Any, message: str
) -> None:
    run(make_model(), steps=10, checkpoint=tmp_path / "run")
    model = make_model(seed=99)
    options = dict(options(model)) if callable(options) else dict(options)
    model = options.pop("model", model)
    before = parameters(model)
    with pytest.raises(ValueError, match=message):
        run(model, checkpoint=tmp_path / "run", **options)
    assert equal(before, parameters(model))


@pytest.mark.parametrize("content", [b"", b"no checkpoint", "weights"])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / "other"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(make_model().state_dict(), path)
    with pytest.raises(ValueError, match=r"^checkpoint .*other isn't one that train has written"):
        run(make_model(), checkpoint=path)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_before_it_spoils_the_model(bad: float) -> None:
    model, two = make_model(dropout=0.0), make_model(dropout=0.0)
    third = batch(2)[0]

    def loss(model: nn.Module, b: Any) -> Tensor:
        return squared_error(model, b) * (bad if torch.equal(b[0], third) else 1)

    with pytest.raises(FloatingPointError, match=rf"^the loss is {bad} at step 2: try"):
        run(model, loss=loss)
    run(two, steps=2)
    assert equal(parameters(model), parameters(two))


def test_a_gradient_that_is_no_number_stops_the_run_too() -> None:
    model = make_model(dropout=0.0)

    def loss(model: nn.Module, b: Any) -> Tensor:
        return torch.sqrt((model(b[0]) * 0).abs().sum())  # 0, with an infinite slope

    with pytest.raises(FloatingPointError, match=r"^the gradient's norm is nan at step 0"):
        run(model, loss=loss)
    assert all(torch.isfinite(p).all() for p in model.parameters())


@pytest.mark.parametrize(
    ("value", "came"),
    [
        (lambda model: 0.5, "float$"),
        (lambda model: torch.tensor(0.5), r"float32 of shape \(\)$"),
        (lambda model: model(batch(0)[0]), r"float32 of shape \(16, 1\)$"),
    ],
)
def test_a_loss_that_cannot_be_trained_on_is_refused(
    value: Callable[[nn.Module], Any], came: str
) -> None:
    with pytest.raises(ValueError, match=f"^loss must return a tensor without axes .*{came}"):
        run(make_model(), loss=lambda model, b: value(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "^steps must be a whole number of at least 1; got 0"),
        ({"lr": 0.0}, "^lr must be a number above 0; got 0.0"),
        ({"lr": math.nan}, "^lr must be a number above 0; got nan"),
        ({"clip_norm": -1.0}, "^clip_norm must be a number above 0; got -1.0"),
        ({"seed": -1}, "^seed must be a whole number of at least 0; got -1"),
        ({"seed": 0.5}, "^seed must be a whole number of at least 0; got 0.5"),
        ({"lr": None}, "^lr must be a number above 0; got None"),
        ({"lr": True}, "^lr must be a number above 0; got True"),
        ({"lr": math.inf}, "^lr must be a number above 0; got inf"),
        ({"clip_norm": "1"}, "^clip_norm must be a number above 0; got '1'"),
        ({"model": len}, "^model must be an nn.Module; got builtin_function_or_method"),
        ({"batch": None}, "^batch must be a function; got None"),
        ({"loss": 3}, "^loss must be a function; got 3"),
        ({"schedule": 0.5}, "^schedule must be a function; got 0.5"),
        ({"schedule": lambda s: "1"}, "^schedule must return a number; got str"),
        ({"schedule": lambda s: -s}, "^schedule must return a factor of at least 0; got -1.0 at"),
        ({"schedule": lambda s: math.nan}, "^schedule must return a factor .*; got nan at step=0"),
        ({"evaluate": {}}, "^evaluate must be a function; got {}"),
        ({"evaluate": lambda m: None}, "^evaluate must return a number; got NoneType"),
        ({"evaluate": lambda m: torch.ones(2)}, "^evaluate must return a number; got float32 of"),
        ({"evaluate": minus_error, "target": "0.9"}, "^target must be a finite number; got '0.9'"),
        ({"optimizer": "adam"}, "^optimizer must be one of torch.optim; got str"),
        (
            {"optimizer": torch.optim.SGD(make_model().parameters(), lr=0.1)},
            "^optimizer must hold parameters of the model; got one that holds none",
        ),
        ({"checkpoint": 3}, "^checkpoint must be a path; got 3"),
        ({"target": 0.5}, "^target needs evaluate; got target=0.5 without it"),
        ({"evaluate_every": 5}, "^evaluate_every needs evaluate; got"),
        ({"checkpoint_every": 5}, "^checkpoint_every needs checkpoint; got"),
        (
            {"evaluate": minus_error, "evaluate_every": 0},
            "^evaluate_every must be a whole number of at least 1; got 0",
        ),
        (
            {"checkpoint": "never_written", "checkpoint_every": 2.5},
            "^checkpoint_every must be a whole number of at least 1; got 2.5",
        ),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**{"model": make_model(), **options})


def test_a_metric_and_a_factor_may_be_numbers_of_numpy_or_pytorch() -> None:
    for one in (np.float32(1.0), np.array(1.0), torch.tensor(1.0), 1):
        history = run(
            make_model(), steps=2, schedule=lambda s, x=one: x, evaluate=lambda m, x=one: x
        )
        assert history.factors == [1.0, 1.0]
        assert history.metrics == [(2, 1.0)]


# --- the progress bar ----------------------------------------------------------------------------

PROGRAM = """
import torch
from torch import nn
from course_lib.training import train
x = torch.ones(2, 3)
train(nn.Linear(3, 1), lambda step: x, lambda m, x: (m(x) ** 2).mean(), steps=40,
      evaluate=lambda m: 0.75 if m(x).sum() else 1.0, evaluate_every=1{options})
print("after")
"""


def in_a_process(options: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {k: v for k, v in os.environ.items() if k != "TQDM_DISABLE"} | environment
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(options=options)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        check=True,
    )


def test_the_bar_shows_loss_and_metric_and_wipes_itself_out() -> None:
    done = in_a_process(TQDM_MININTERVAL="0")
    shown = done.stderr.decode()  # as bytes, since reading as text makes \n of \r
    assert "loss=" in shown
    assert "metric=0.75" in shown
    assert "\n" not in shown
    *_, wiped, rest = shown.split("\r")
    assert (wiped.strip(), rest) == ("", "")
    assert done.stdout.decode() == "after\n"


def test_the_bar_of_a_run_that_fails_is_wiped_out_at_once() -> None:
    program = textwrap.dedent(
        """
        import sys
        import torch
        from torch import nn
        from course_lib.training import train
        xs = [torch.ones(2, 3)] * 3
        try:
            train(nn.Linear(3, 1), lambda i: xs[i], lambda m, x: m(x).mean(), steps=40)
        except IndexError as error:
            kept = error  # and with it all that the failed call held
            print("after", file=sys.stderr)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "TQDM_DISABLE"},
        capture_output=True,
        check=True,
    )
    *_, wiped, rest = done.stderr.decode().split("\r")
    assert wiped.strip() == ""
    assert rest == "after\n"


@pytest.mark.parametrize(
    ("options", "environment"), [("", {"TQDM_DISABLE": "1"}), (", progress=False", {})]
)
def test_a_bar_that_is_turned_off_writes_nothing(options: str, environment: dict[str, str]) -> None:
    assert in_a_process(options, **environment).stderr == b""


def executed(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Any:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cell = nbformat.v4.new_code_cell(textwrap.dedent(PROGRAM.format(options="")))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    return notebook


def test_in_a_notebook_the_bar_ends_empty_without_stderr_and_without_a_widget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = executed(monkeypatch)
    bar, after = notebook.cells[0].outputs
    assert bar.data == {"text/plain": ""}
    assert (after.name, after.text) == ("stdout", "after\n")
    assert "widgets" not in notebook.metadata


def test_in_a_notebook_that_is_stored_the_bar_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = executed(monkeypatch, TQDM_DISABLE="1")
    (after,) = notebook.cells[0].outputs
    assert after.text == "after\n"


def test_a_bar_goes_on_where_an_earlier_run_stopped() -> None:
    with progress_bar(10, 4, shown=False) as bar:
        assert (bar.n, bar.total) == (4, 10)
    for total, done, name in ((-1, 0, "total"), (2.5, 0, "total"), (3, None, "done")):
        with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 0; got"):
            progress_bar(total, done)  # type: ignore[arg-type]


# --- accuracy and teacher forcing ----------------------------------------------------------------


def with_accuracy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    value = squared_error(model, batch)
    return value, (value.detach() < 27.0).float()


def test_an_accuracy_beside_the_loss_is_kept_and_shown_and_changes_nothing(
    tmp_path: Path,
) -> None:
    a, b = make_model(), make_model()
    plain = run(a)
    history = run(b, loss=with_accuracy, checkpoint=tmp_path / "run")
    assert plain.accuracies == []
    assert history.losses == plain.losses
    assert history.accuracies == [float(value < 27.0) for value in history.losses]
    assert 0 < sum(history.accuracies) < 30
    assert history.latest()["accuracy"] == f"{history.accuracies[-1]:.4g}"
    assert "accuracy" not in plain.latest()
    loaded = run(make_model(), loss=with_accuracy, checkpoint=tmp_path / "run")
    assert loaded.accuracies == history.accuracies


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((1,), "loss must return a tensor, or a tensor and a number; got 1 things"),
        ((1, 2, 3), "loss must return a tensor, or a tensor and a number; got 3 things"),
        ((1.0, 0.5), "loss must return a tensor without axes"),
        (("loss", None), "what loss returns second must be a number; got NoneType"),
    ],
)
def test_two_things_that_are_no_loss_and_number_are_refused(returned: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        run(make_model(), loss=lambda model, b: returned)


PAIRS = [([7, 8, 9], [9, 8, 7]), ([5], [5]), ([6, 4], [4, 6])]


def translator(seed: int = 0, dropout: float = 0.0) -> EncoderDecoder:
    torch.manual_seed(seed)
    return EncoderDecoder(10, 10, d_model=16, n_heads=2, n_layers=1, d_ff=32, dropout=dropout)


def test_a_teacher_forced_batch_has_the_next_token_at_every_place() -> None:
    batch = teacher_forced(PAIRS)
    assert batch.src.tolist() == [[7, 8, 9, 2], [5, 2, 0, 0], [6, 4, 2, 0]]
    assert batch.src_lengths.tolist() == [4, 2, 3]
    assert batch.tgt_in.tolist() == [[1, 9, 8, 7], [1, 5, 2, 0], [1, 4, 6, 2]]
    assert batch.tgt_out.tolist() == [[9, 8, 7, 2], [5, 2, 0, 0], [4, 6, 2, 0]]
    assert {x.dtype for x in batch} == {torch.int64}


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_forced_loss_is_the_mean_over_real_tokens_of_single_pairs(epsilon: float) -> None:
    model = translator().double()
    loss, accuracy = forced_loss(model, teacher_forced(PAIRS), epsilon)
    counts = [len(target) + 1 for _, target in PAIRS]
    alone = [forced_loss(model, teacher_forced([pair]), epsilon) for pair in PAIRS]
    losses, shares = zip(*alone, strict=True)
    mean = sum(n * value for n, value in zip(counts, losses, strict=True)) / sum(counts)
    torch.testing.assert_close(loss, mean)
    hits = sum(n * share for n, share in zip(counts, shares, strict=True))
    assert accuracy == pytest.approx(hits / sum(counts))


def test_padding_that_is_predicted_counts_for_nothing() -> None:
    class Fixed(nn.Module):
        def forward(self, src: Tensor, src_lengths: Tensor, tgt_in: Tensor) -> Tensor:
            predictions = torch.tensor([[5, 9, 9, 9], [4, 9, 0, 0]])
            return nn.functional.one_hot(predictions, 10).double()

    batch = teacher_forced([([7], [5, 6, 7]), ([9], [4])])
    assert batch.tgt_out.tolist() == [[5, 6, 7, EOS], [4, EOS, 0, 0]]
    assert forced_loss(Fixed(), batch)[1] == pytest.approx(2 / 6)


def test_a_model_learns_its_pairs_and_the_accuracy_says_so() -> None:
    model = translator()
    before = forced_exact_match(model, PAIRS)
    history = run(model, batch=lambda s: teacher_forced(PAIRS), loss=forced_loss, steps=150)
    assert before < 1.0
    assert forced_exact_match(model, PAIRS) == 1.0
    assert history.accuracies[0] < 1.0
    assert history.accuracies[-1] == 1.0


def greedy(model: EncoderDecoder, source: list[int], most: int) -> list[int]:
    """Write a target token by token, from nothing but what the model wrote itself."""
    ids = [BOS]
    src = torch.tensor([[*source, EOS]])
    with torch.no_grad():
        while len(ids) <= most and ids[-1] != EOS:
            logits = model(src, torch.tensor([src.shape[1]]), torch.tensor([ids]))
            ids.append(int(logits[0, -1].argmax()))
    return ids[1:]


def test_forced_exact_match_is_the_share_that_greedy_decoding_gets_right() -> None:
    torch.manual_seed(1)
    pairs = [(s.tolist(), s.flip(0).tolist()) for s in torch.randint(4, 10, (40, 3))]
    model = translator()
    run(model, batch=lambda s: teacher_forced(pairs), loss=forced_loss, steps=25)
    model.eval()
    right = [greedy(model, source, 6) == [*target, EOS] for source, target in pairs]
    assert 0 < sum(right) < len(pairs)
    for batch_size in (7, 40, 500):
        share = forced_exact_match(model, pairs, batch_size)
        assert share == pytest.approx(sum(right) / len(pairs))


def test_judging_leaves_the_mode_and_drops_nothing_out_meanwhile() -> None:
    model = translator(dropout=0.9)
    run(model, batch=lambda step: teacher_forced(PAIRS), loss=forced_loss, steps=2)
    model.train()
    first = forced_exact_match(model, PAIRS * 5)
    assert all(forced_exact_match(model, PAIRS * 5) == first for _ in range(3))
    assert all(m.training for m in model.modules())


def test_a_whole_recipe_continues_bit_by_bit(tmp_path: Path) -> None:
    """AdamW, cosine, label smoothing, dropout and buckets, stopped in the middle of an epoch."""
    rng = np.random.default_rng(0)
    pairs = [(ids, ids[::-1]) for ids in (rng.integers(4, 10, n).tolist() for n in [2, 5, 3] * 9)]

    def go(model: nn.Module, stop: int | None = None, **options: Any) -> History:
        bucket = bucket_batches(pairs, 4, length=lambda pair: len(pair[0]), seed=2, pool=3)

        def drawn(step: int) -> TeacherForced:
            if step == stop:
                raise Interrupted
            return teacher_forced(bucket(step))

        return run(
            model,
            batch=drawn,
            loss=partial(forced_loss, epsilon=0.1),
            optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98)),
            schedule=lambda step: cosine_schedule(step + 1, 30, 5),
            evaluate=lambda model: forced_exact_match(model, pairs),
            evaluate_every=10,
            **options,
        )

    whole, again = translator(dropout=0.3), translator(seed=9, dropout=0.3)
    expected = go(whole)
    saved = {"checkpoint": tmp_path / "run", "checkpoint_every": 4}
    with pytest.raises(Interrupted):
        go(translator(dropout=0.3), stop=18, **saved)
    torch.rand(5)
    history = go(again, **saved)
    assert equal(parameters(whole), parameters(again))
    assert history.losses == expected.losses
    assert history.accuracies == expected.accuracies
    assert history.metrics == expected.metrics
    assert history.factors == expected.factors == [
        cosine_schedule(step, 30, 5).item() for step in range(1, 31)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "pairs must hold at least one pair; got none"),
        (3, "pairs must be a sequence of pairs; got 3"),
        ([([4], [5]), [4]], r"pairs\[1\] must be a source and a target; got \[4\]"),
        ([([4], 5)], r"pairs\[0\]\[1\] must be a sequence of ids; got 5"),
        ([("45", [5])], r"pairs\[0\]\[0\] must be a sequence of ids; got '45'"),
        ([([4.5], [5])], r"sequences\[0\] must hold whole numbers; got 4.5"),
    ],
)
def test_pairs_that_are_none_are_named(pairs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        teacher_forced(pairs)
    with pytest.raises(ValueError, match=f"^{message}"):
        forced_exact_match(translator(), pairs)


def test_a_batch_and_a_size_that_are_none_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"^batch must be a TeacherForced, as teacher_forced gives"
    ):
        forced_loss(translator(), PAIRS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^epsilon must be at least 0 and below 1; got 1"):
        forced_loss(translator(), teacher_forced(PAIRS), 1)
    with pytest.raises(
        ValueError, match=r"^batch_size must be a whole number of at least 1; got 0"
    ):
        forced_exact_match(translator(), PAIRS, 0)
