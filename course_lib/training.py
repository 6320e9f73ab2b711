"""The one training loop of the course.

A step's random numbers come from the seed and the step's own number. So a run gives the same
weights whatever was computed before it, and one that is continued from a checkpoint gives, bit by
bit, the weights of one that was never interrupted.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from course_lib.blocks.optimization import (
    exact_match,
    label_smoothed_cross_entropy,
    shift_right,
)
from course_lib.data.batching import pad
from course_lib.data.vocabulary import BOS, EOS, PAD
from course_lib.progress_bar import progress_bar
from course_lib.validation import (
    check_callable,
    check_id,
    check_number,
    check_positive_int,
    check_several,
    check_whole,
    describe,
    is_number,
)

__all__ = [
    "History",
    "TeacherForced",
    "forced_exact_match",
    "forced_loss",
    "next_token_loss",
    "teacher_forced",
    "train",
]


@dataclass
class History:
    """What happened in a run.

    Parameters
    ----------
    losses : list of float
        The loss of every step, before the step.
    factors : list of float
        What the schedule made of the learning rate at every step.
    accuracies : list of float
        What `loss` returned besides at every step, if it returned two.
    metrics : list of (int, float)
        Steps taken and what `evaluate` returned after them.
    seconds : float
        Wall time, earlier parts of a continued run included.
    reached_target : bool
        Whether the last metric reached the target.
    """

    losses: list[float] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    metrics: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    reached_target: bool = False

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.losses)

    def latest(self) -> dict[str, str]:
        """Return the last loss, accuracy and metric, as a progress bar shows them."""
        accuracy = {"accuracy": f"{self.accuracies[-1]:.4g}"} if self.accuracies else {}
        metric = {"metric": f"{self.metrics[-1][1]:.4g}"} if self.metrics else {}
        return {"loss": f"{self.losses[-1]:.4g}", **accuracy, **metric}


def train(
    model: nn.Module,
    batch: Callable[[int], Any],
    loss: Callable[[nn.Module, Any], Tensor | tuple[Tensor, Any]],
    *,
    steps: int,
    lr: float = 1e-3,
    optimizer: Optimizer | None = None,
    schedule: Callable[[int], float] | None = None,
    clip_norm: float | None = 1.0,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    evaluate_every: int | None = None,
    target: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = True,
) -> History:
    """Train a model in place.

    Parameters
    ----------
    model : nn.Module
        Is in training mode while it is trained, in evaluation mode while it is evaluated, and in
        the mode it came in afterwards.
    batch : callable
        From the number of a step, 0 to ``steps − 1``, to its examples: the same ones whenever it is
        asked.
    loss : callable
        From the model and a step's examples to a tensor without axes; or to two things, that
        tensor and a number that the history and the progress bar show beside it: the accuracy.
    steps : int
        Steps in all, those of a checkpoint included.
    lr : float, default 1e-3
        Learning rate of Adam. An `optimizer` of one's own brings its own.
    optimizer : Optimizer, optional
        Holds the model's parameters. Adam by default.
    schedule : callable, optional
        From the number of a step to the factor of its learning rate, at least 0. 1 by default.
    clip_norm : float or None, default 1.0
        A gradient whose norm over all parameters is larger is scaled down to it.
    seed : int, default 0
        Of everything random in the run. The caller's random numbers go on as if nothing had been.
    evaluate : callable, optional
        From the model to a number, higher is better. Nothing in it is recorded for gradients.
    evaluate_every : int, optional
        Evaluate after so many steps, and after the last. Only after the last by default.
    target : float, optional
        Stop as soon as `evaluate` returns at least this.
    checkpoint : path, optional
        File that the run is saved in, and continued from if it exists.
    checkpoint_every : int, optional
        Save after so many steps, and after the last. Only after the last by default.
    progress : bool, default True
        Show a progress bar.

    Returns
    -------
    History

    Raises
    ------
    ValueError
        If an argument makes no sense, or what one of the functions returns, or the checkpoint is of
        a run with other settings, of another model, or of more than `steps` steps.
    FloatingPointError
        If a loss or a gradient is infinite or not a number. The parameters are then those that the
        step before left.

    Examples
    --------
    Fit y = 2x:

    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> model = nn.Linear(1, 1)
    >>> def squared_error(model, x):
    ...     return ((model(x) - 2 * x) ** 2).mean()
    >>> history = train(model, lambda step: x, squared_error, steps=300, lr=0.1, progress=False)
    >>> history.steps, history.losses[-1] < 1e-3
    (300, True)
    """
    _check(steps, lr, clip_norm, seed)
    _check_parts(model, optimizer, checkpoint)
    for name, function in (("batch", batch), ("loss", loss)):
        check_callable(name, function)
    for name, option in (("schedule", schedule), ("evaluate", evaluate)):
        if option is not None:
            check_callable(name, option)
    if target is not None:
        check_number("target", target)
    _check_needs(evaluate=evaluate, evaluate_every=evaluate_every, target=target)
    _check_needs(checkpoint=checkpoint, checkpoint_every=checkpoint_every)
    optimizer = Adam(model.parameters(), lr=lr) if optimizer is None else optimizer
    base_rates = [group["lr"] for group in optimizer.param_groups]
    planned = [_factor(schedule, step) for step in range(steps)]
    run = {"seed": seed, "clip_norm": clip_norm, **_describe(model, optimizer)}
    history = History()
    with _left_as_it_was(model, optimizer):
        if checkpoint is not None and Path(checkpoint).exists():
            history = _load(Path(checkpoint), run, planned, model, optimizer)
        history.reached_target = _reached(history, target)
        start = time.perf_counter() - history.seconds
        bar = progress_bar(steps, history.steps, shown=progress)
        try:
            while history.steps < steps and not history.reached_target:
                step = history.steps
                _seed(seed, step)
                _set_rates(optimizer, [rate * planned[step] for rate in base_rates])

                model.train()
                value, accuracy = _parts(loss(model, batch(step)))
                _check_loss(value, step)
                optimizer.zero_grad()
                value.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), clip_norm or inf)
                _check_finite("gradient's norm", norm.item(), step)
                optimizer.step()
                history.losses.append(value.item())
                history.factors.append(planned[step])
                if accuracy is not None:
                    history.accuracies.append(accuracy)

                taken = step + 1
                if evaluate and _due(taken, evaluate_every, steps):
                    model.eval()
                    with torch.no_grad():
                        history.metrics.append((taken, _number("evaluate", evaluate(model))))
                    history.reached_target = _reached(history, target)

                history.seconds = time.perf_counter() - start
                save = history.reached_target or _due(taken, checkpoint_every, steps)
                if checkpoint is not None and save:
                    _save(Path(checkpoint), run, model, optimizer, history)
                bar.set_postfix(history.latest(), refresh=False)
                bar.update()
        finally:
            bar.close()
    return history


def _parts(returned: Any) -> tuple[Any, float | None]:
    """Return the loss and the accuracy, None where `loss` gave the loss alone."""
    if not isinstance(returned, tuple):
        return returned, None
    if len(returned) != 2:
        raise ValueError(
            f"loss must return a tensor, or a tensor and a number; got {len(returned)} things"
        )
    return returned[0], _number("what loss returns second", returned[1], "be")


def _due(taken: int, every: int | None, steps: int) -> bool:
    return taken == steps or (every is not None and taken % every == 0)


def _reached(history: History, target: float | None) -> bool:
    return target is not None and bool(history.metrics) and history.metrics[-1][1] >= target


def _factor(schedule: Callable[[int], float] | None, step: int) -> float:
    factor = 1.0 if schedule is None else _number("schedule", schedule(step))
    if not 0 <= factor < inf:
        raise ValueError(f"schedule must return a factor of at least 0; got {factor} at {step=}")
    return factor


def _number(name: str, returned: Any, verb: str = "return") -> float:
    """Return as a float what a function has returned: a number, or one in an array or tensor."""
    value = returned.item() if getattr(returned, "shape", None) == () else returned
    if not is_number(value):
        raise ValueError(f"{name} must {verb} a number; got {describe(returned)}")
    return float(value)


def _set_rates(optimizer: Optimizer, rates: list[float]) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _seed(seed: int, step: int) -> None:
    """Make the random numbers of a step depend on nothing but the seed and its number."""
    a, b, c = np.random.SeedSequence([seed, step]).generate_state(3).tolist()
    random.seed(a)
    np.random.seed(b)
    torch.manual_seed(c)


@contextmanager
def _left_as_it_was(model: nn.Module, optimizer: Optimizer) -> Iterator[None]:
    """Give back, when a run ends or fails, what it changes on the side.

    Meanwhile PyTorch adds in one order: else the gradients of rows that are looked up more than
    once differ in their last bits from run to run, where several threads compute them.
    """
    order = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    if all(parameter.device.type == "cpu" for parameter in model.parameters()):
        torch.use_deterministic_algorithms(True)  # a GPU would complain about much
    modes = [(module, module.training) for module in model.modules()]
    rates = [group["lr"] for group in optimizer.param_groups]
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        _set_rates(optimizer, rates)
        torch.use_deterministic_algorithms(order, warn_only=warns)
        for module, mode in modes:
            module.training = mode


# --- checkpoints ---------------------------------------------------------------------------------


def _describe(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Return what has to be the same where a run is continued."""
    tensors = [f"{name}: {describe(x)}" for name, x in model.state_dict().items()]
    groups = [
        {name: value for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
    return {
        "model": [*repr(model).splitlines(), *tensors],
        "optimizer": [type(optimizer).__name__, *map(str, groups)],
    }


def _save(
    path: Path, run: dict[str, Any], model: nn.Module, optimizer: Optimizer, history: History
) -> None:
    """Write a checkpoint whole or not at all: who is interrupted here keeps the one before."""
    state = {
        "run": run,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "history": asdict(history),
    }
    partial = path.with_name(f"{path.name}.partial")
    try:
        torch.save(state, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _load(
    path: Path, run: dict[str, Any], planned: list[float], model: nn.Module, optimizer: Optimizer
) -> History:
    """Put a checkpoint's state into model and optimiser, once everything is known to fit."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        saved, history = state["run"], History(**state["history"])
    except Exception as error:
        raise ValueError(f"checkpoint {path} isn't one that train has written: {error}") from error
    for name, now in run.items():
        then = saved[name]
        if isinstance(now, list) and isinstance(then, list):
            pairs = zip([*then, *[None] * len(now)], [*now, *[None] * len(then)], strict=True)
            then, now = next(((a, b) for a, b in pairs if a != b), (None, None))
        if now != then:
            raise ValueError(
                f"{name} must be the one that checkpoint {path} was written with, {then!r}; "
                f"got {now!r}"
            )
    if history.steps > len(planned):
        raise ValueError(
            f"steps must be at least the {history.steps} that checkpoint {path} has behind it; "
            f"got {len(planned)}"
        )
    for step, (then, now) in enumerate(zip(history.factors, planned, strict=False)):
        if then != now:
            raise ValueError(
                f"schedule must be the one that checkpoint {path} was written with, "
                f"{then:.4g} at step {step}; got {now:.4g}"
            )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return history


# --- what is refused -----------------------------------------------------------------------------


def _check(steps: int, lr: float, clip_norm: float | None, seed: int) -> None:
    check_positive_int("steps", steps)
    for name, number in (("lr", lr), ("clip_norm", clip_norm)):
        if number is not None or name == "lr":
            check_number(name, number, above=0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0; got {seed!r}")


def _check_parts(model: Any, optimizer: Any, checkpoint: Any) -> None:
    """Raise unless model, optimiser and checkpoint are what they are called."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be an nn.Module; got {describe(model)}")
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise ValueError(f"checkpoint must be a path; got {checkpoint!r}")
    if optimizer is None:
        return
    if not isinstance(optimizer, Optimizer):
        raise ValueError(f"optimizer must be one of torch.optim; got {describe(optimizer)}")
    held = {id(x) for group in optimizer.param_groups for x in group["params"]}
    if held.isdisjoint(map(id, model.parameters())):
        raise ValueError("optimizer must hold parameters of the model; got one that holds none")


def _check_needs(**options: Any) -> None:
    """Raise if an option is given without the first one, or a number of steps is none."""
    (owner, needed), *others = options.items()
    for name, value in others:
        if value is not None and needed is None:
            raise ValueError(f"{name} needs {owner}; got {name}={value!r} without it")
        if value is not None and name.endswith("_every"):
            check_positive_int(name, value)


def _check_loss(value: Any, step: int) -> None:
    if not isinstance(value, Tensor) or value.ndim > 0 or not value.requires_grad:
        raise ValueError(
            "loss must return a tensor without axes that depends on the model's parameters; "
            f"got {describe(value)}"
        )
    _check_finite("loss", value.item(), step)


def _check_finite(what: str, number: float, step: int) -> None:
    if not isfinite(number):
        raise FloatingPointError(
            f"the {what} is {number} at step {step}: try a smaller learning rate, or look for a "
            "logarithm of 0 or a division by 0"
        )


# --- sequence to sequence ------------------------------------------------------------------------


class TeacherForced(NamedTuple):
    """A batch of pairs, as a model that is trained with teacher forcing takes it.

    The decoder reads `tgt_in`, which is <bos> and the right target, and has to predict `tgt_out`,
    which is the right target and <eos>: at every position the next token.
    """

    src: Tensor  # (b, n_src)
    src_lengths: Tensor  # (b,)
    tgt_in: Tensor  # (b, n_tgt)
    tgt_out: Tensor  # (b, n_tgt)


def teacher_forced(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> TeacherForced:
    """Make a batch of pairs of ids: padded, <eos> behind every source and target, shifted.

    Parameters
    ----------
    pairs : sequence of (source, target)
        Ids without <bos> and <eos>.

    Returns
    -------
    TeacherForced

    Raises
    ------
    ValueError
        If there is no pair, or one isn't two sequences of ids.

    Examples
    --------
    >>> batch = teacher_forced([([7, 8], [5, 6]), ([9], [4])])
    >>> batch.src.tolist(), batch.src_lengths.tolist()
    ([[7, 8, 2], [9, 2, 0]], [3, 2])
    >>> batch.tgt_in.tolist(), batch.tgt_out.tolist()
    ([[1, 5, 6], [1, 4, 2]], [[5, 6, 2], [4, 2, 0]])
    """
    listed = _checked(pairs)
    src, src_lengths = pad([[*source, EOS] for source, _ in listed])
    tgt_out = torch.from_numpy(pad([[*target, EOS] for _, target in listed])[0])
    return TeacherForced(
        torch.from_numpy(src), torch.from_numpy(src_lengths), shift_right(tgt_out, BOS), tgt_out
    )


def forced_loss(
    model: nn.Module, batch: TeacherForced, epsilon: float = 0.0
) -> tuple[Tensor, float]:
    """Return the loss under teacher forcing and the share of tokens that are predicted right.

    Parameters
    ----------
    model : nn.Module
        From `src`, `src_lengths` and `tgt_in` to logits (b, n_tgt, V).
    batch : TeacherForced
    epsilon : float, default 0
        Of label smoothing.

    Returns
    -------
    loss : float tensor without axes
        Mean over all real tokens of the batch, in nats.
    accuracy : float
        From 0 to 1, over the same tokens.

    Raises
    ------
    ValueError
        If `batch` isn't a TeacherForced, or `epsilon` isn't at least 0 and below 1.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017 (arXiv:1706.03762), section 5.4, for ε = 0.1.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> loss, accuracy = forced_loss(model, teacher_forced([([7, 8], [5, 6])]), epsilon=0.1)
    >>> loss.shape, 0 <= accuracy <= 1
    (torch.Size([]), True)
    """
    _check_forced(batch)
    logits = model(batch.src, batch.src_lengths, batch.tgt_in)
    loss = label_smoothed_cross_entropy(logits, batch.tgt_out, epsilon, ignore_index=PAD)
    real = batch.tgt_out != PAD
    right = (logits.detach().argmax(dim=-1) == batch.tgt_out) & real
    return loss, (right.sum() / real.sum()).item()


@torch.no_grad()
def forced_exact_match(
    model: nn.Module,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int = 500,
) -> float:
    """Return the share of pairs whose target the model writes without an error, greedily.

    It needn't write them: if the most likely token is the right one after every right beginning of
    the target, then greedy decoding writes the target, and only then. So one pass with teacher
    forcing tells. The model is put into evaluation mode meanwhile.

    Parameters
    ----------
    model : nn.Module
        From `src`, `src_lengths` and `tgt_in` to logits (b, n_tgt, V).
    pairs : sequence of (source, target)
        Ids without <bos> and <eos>.
    batch_size : int, default 500

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        As `teacher_forced`, and if `batch_size` isn't a whole number of at least 1.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(9, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> forced_exact_match(model, [([7, 8], [5, 6, 5, 6, 5, 6, 5, 6])])
    0.0
    """
    check_positive_int("batch_size", batch_size)
    # Those of about one length together: padding is computed, too.
    listed = sorted(_checked(pairs), key=lambda pair: (len(pair[0]), len(pair[1])))
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    right = 0.0
    try:
        for start in range(0, len(listed), batch_size):
            some = listed[start : start + batch_size]
            batch = teacher_forced(some)
            predictions = model(batch.src, batch.src_lengths, batch.tgt_in).argmax(dim=-1)
            right += exact_match(predictions, batch.tgt_out, PAD) * len(some)
    finally:
        for module, mode in modes:
            module.training = mode
    return round(right) / len(listed)


def _checked(pairs: Any) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Return pairs of sequences as a list, at least one, or raise."""
    check_several("pairs", pairs, "a sequence of pairs")
    listed = list(pairs)
    if not listed:
        raise ValueError("pairs must hold at least one pair; got none")
    for i, pair in enumerate(listed):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"pairs[{i}] must be a source and a target; got {pair!r}")
        for j, ids in enumerate(pair):
            check_several(f"pairs[{i}][{j}]", ids, "a sequence of ids")
    return listed


def _check_forced(batch: Any) -> None:
    if not isinstance(batch, TeacherForced):
        raise ValueError(
            f"batch must be a TeacherForced, as teacher_forced gives; got {describe(batch)}"
        )


def next_token_loss(
    model: nn.Module, ids: Tensor, ignore: int | None = None
) -> tuple[Tensor, float]:
    """Return a language model's loss on texts and the share of tokens that it predicts right.

    Every token but the first is predicted from all before it, in one pass.

    Parameters
    ----------
    model : nn.Module
        From ids (b, n) to logits (b, n, V), such as `DecoderOnly`.
    ids : int64 tensor, (b, n + 1)
        Texts, one token longer than what the model reads.
    ignore : int, optional
        The id of padding, on the right, whose prediction doesn't count.

    Returns
    -------
    loss : float tensor without axes
        Mean over all tokens that count, in nats.
    accuracy : float
        From 0 to 1, over the same tokens.

    Raises
    ------
    ValueError
        If `ids` isn't (b, n + 1) whole numbers with n of at least 1, or no token is left that
        counts.

    Examples
    --------
    >>> from course_lib.models.decoder_only import DecoderOnly, gpt2
    >>> model = DecoderOnly(gpt2(vocab_size=9, d_model=8, n_layers=1, n_heads=2))
    >>> loss, accuracy = next_token_loss(model, torch.tensor([[3, 4, 5], [6, 7, 0]]), ignore=0)
    >>> loss.shape, 0 <= accuracy <= 1
    (torch.Size([]), True)
    """
    check_whole("ids", ids, "(b, n + 1)")
    if ids.ndim != 2 or ids.shape[0] == 0 or ids.shape[1] < 2:
        raise ValueError(
            f"ids must have a shape (b, n + 1), b and n of at least 1; got {tuple(ids.shape)}"
        )
    if ignore is not None:
        check_id("ignore", ignore)
    inputs, targets = ids[:, :-1], ids[:, 1:]
    real = torch.ones_like(targets, dtype=torch.bool) if ignore is None else targets != ignore
    if not bool(real.any()):
        raise ValueError(f"ids must hold a token to predict other than ignore = {ignore}; got none")
    logits = model(inputs)
    loss = nn.functional.cross_entropy(logits[real], targets[real].long())
    right = (logits.detach().argmax(dim=-1) == targets) & real
    return loss, (right.sum() / real.sum()).item()
