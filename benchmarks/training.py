"""Training: a step against ``torch.nn.Transformer``'s, and how long two recipes take to learn.

The recipes are those of chapter 10; a slow test holds what they reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from benchmarks.timing import compare, show
from course_lib.blocks.attention import causal_mask
from course_lib.blocks.optimization import cosine_schedule
from course_lib.blocks.positions import SinusoidalPositions
from course_lib.data.batching import bucket_batches, draw_batch
from course_lib.data.reversal import reversal_pairs
from course_lib.data.russian_english import Pair, split
from course_lib.data.vocabulary import Vocabulary
from course_lib.models.encoder_decoder import EncoderDecoder
from course_lib.training import (
    History,
    TeacherForced,
    forced_exact_match,
    forced_loss,
    teacher_forced,
    train,
)

Ids = tuple[list[int], list[int]]


# --- recipes -------------------------------------------------------------------------------------


@dataclass
class Run:
    """A model that was trained, how that went, and its share of sequences without an error."""

    model: EncoderDecoder
    history: History
    exact_match: dict[str, float]


def strings(n_train: int = 50_000, n_test: int = 10_000) -> tuple[Vocabulary, list[Ids], list[Ids]]:
    """Return a vocabulary, training strings of ten digits with their reversals, and unseen ones."""
    pairs = reversal_pairs(n_train + 2 * n_test, seed=0)
    train_pairs = pairs[:n_train]
    digits = Vocabulary.from_sequences(source for source, _ in train_pairs)
    seen = {source for source, _ in train_pairs}
    unseen = [pair for pair in dict.fromkeys(pairs[n_train:]) if pair[0] not in seen][:n_test]
    return digits, _encoded(digits, digits, train_pairs), _encoded(digits, digits, unseen)


def learn_reversal(
    seed: int = 0,
    *,
    steps: int = 600,
    batch_size: int = 64,
    lr: float = 2e-3,
    n_warmup: int | None = 60,
    target: float | None = None,
    n_test: int = 10_000,
    progress: bool = True,
) -> Run:
    """Train 2 + 2 layers of width 64 to reverse strings of ten digits.

    Parameters
    ----------
    seed : int, default 0
        Of weights, batches and dropout; the strings are always the same.
    steps, batch_size, lr : default 600, 64, 2e-3
    n_warmup : int or None, default 60
        Steps of warm-up before the cosine. None for a constant rate and no clipping.
    target : float, optional
        Stop when this share of 1,000 unseen strings comes out right, looked at every 25 steps.
    n_test : int, default 10,000
        Unseen strings to judge by at the end.
    progress : bool, default True

    Returns
    -------
    Run
        With the exact match on "unseen" strings.
    """
    digits, examples, unseen = strings(n_test=n_test)
    torch.manual_seed(seed)
    model = EncoderDecoder(len(digits), len(digits), 64, 4, 2, 256, dropout=0.0)
    plain = n_warmup is None
    history = train(
        model,
        lambda step: teacher_forced(draw_batch(examples, batch_size, seed=seed, step=step)),
        forced_loss,
        steps=steps,
        optimizer=Adam(model.parameters(), lr=lr, betas=(0.9, 0.999 if plain else 0.98)),
        schedule=None if n_warmup is None else _cosine(steps, n_warmup),
        clip_norm=None if plain else 1.0,
        evaluate=partial(forced_exact_match, pairs=unseen[:1000]) if target else None,
        evaluate_every=25 if target else None,
        target=target,
        seed=seed,
        progress=progress,
    )
    return Run(model, history, {"unseen": forced_exact_match(model, unseen)})


def learn_translation(
    seed: int = 0,
    *,
    steps: int = 1050,
    batch_size: int = 128,
    n_train: int = 60_000,
    lr: float = 3e-3,
    n_warmup: int = 100,
    d_model: int = 96,
    dropout: float = 0.1,
    weight_decay: float = 0.1,
    progress: bool = True,
) -> Run:
    """Train 2 + 2 layers to translate the toy corpus from Russian into English.

    Parameters
    ----------
    seed : int, default 0
        Of weights, batches and dropout; the corpus is always the same.
    steps : int, default 1050
    batch_size : int, default 128
        Sentences of a step, of about equal lengths.
    n_train : int, default 60,000
        Sentences to learn from.
    lr : float, default 3e-3
    n_warmup : int, default 100
    d_model : int, default 96
        A multiple of 4; the feed-forward networks are twice as wide.
    dropout : float, default 0.1
    weight_decay : float, default 0.1
        As AdamW has it.
    progress : bool, default True

    Returns
    -------
    Run
        With the exact match on "unseen" sentences, and on those with a "held-out" combination.
    """
    corpus = split(n_train, 2_000, 1_000, seed=0)
    russian = Vocabulary.from_sequences(pair.russian for pair in corpus.train)
    english = Vocabulary.from_sequences(pair.english for pair in corpus.train)

    def ids(pairs: list[Pair]) -> list[Ids]:
        return _encoded(russian, english, [(pair.russian, pair.english) for pair in pairs])

    bucket = bucket_batches(
        ids(corpus.train), batch_size, length=lambda pair: (len(pair[0]), len(pair[1])), seed=seed
    )
    torch.manual_seed(seed)
    model = EncoderDecoder(
        len(russian), len(english), d_model, 4, 2, 2 * d_model, dropout=dropout, norm_first=True
    )  # fmt: skip
    history = train(
        model,
        lambda step: teacher_forced(bucket(step)),
        forced_loss,
        steps=steps,
        optimizer=AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=weight_decay),
        schedule=_cosine(steps, n_warmup),
        seed=seed,
        progress=progress,
    )
    judged = {"unseen": corpus.test, "held-out": corpus.held_out}
    shares = {name: forced_exact_match(model, ids(pairs)) for name, pairs in judged.items()}
    return Run(model, history, shares)


def _encoded(source: Vocabulary, target: Vocabulary, pairs: Iterable) -> list[Ids]:
    """Return the ids of pairs of sequences."""
    return [(source.encode(left), target.encode(right)) for left, right in pairs]


def _cosine(steps: int, n_warmup: int) -> Callable[[int], float]:
    """Return the schedule as `train` asks for it, which counts from 0."""
    n_warmup = min(n_warmup, steps)
    return lambda step: cosine_schedule(step + 1, steps, n_warmup).item()


# --- a step against PyTorch's --------------------------------------------------------------------


class Peer(nn.Module):
    """``torch.nn.Transformer`` with embeddings, sinusoidal positions and a projection around it."""

    def __init__(
        self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, d_ff: int, dropout: float
    ) -> None:
        super().__init__()
        self.src_embedding = nn.Embedding(vocab_size, d_model)
        self.tgt_embedding = nn.Embedding(vocab_size, d_model)
        self.positions = SinusoidalPositions(d_model)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            d_model, n_heads, n_layers, n_layers, d_ff, dropout, batch_first=True
        )
        self.predict = nn.Linear(d_model, vocab_size)
        self.factor = d_model**0.5

    def forward(self, src: Tensor, src_lengths: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the logits (b, n_tgt, V) under teacher forcing."""
        padding = torch.arange(src.shape[1]) >= src_lengths[:, None]
        x = self.dropout(self.positions(self.src_embedding(src) * self.factor))
        y = self.dropout(self.positions(self.tgt_embedding(tgt_in) * self.factor))
        hidden = self.transformer(
            x, y, tgt_mask=~causal_mask(tgt_in.shape[1]),
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return self.predict(hidden)


def _step(model: nn.Module, batch: TeacherForced) -> Callable[[], None]:
    optimizer = Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        loss, _ = forced_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def compare_steps(
    d_model: int, n_heads: int, n_layers: int, d_ff: int, n: int, batch_size: int, dropout: float,
    seconds: float = 2.0,
) -> dict[str, float]:  # fmt: skip
    """Time a step of both models on the same batch: loss, backward, clipping, Adam.

    Parameters
    ----------
    d_model, n_heads, n_layers, d_ff : int
    n, batch_size : int
        Tokens of source and target; a quarter of the pairs are half as long.
    dropout : float
    seconds : float, default 2.0
        How long to go on.

    Returns
    -------
    dict of floats
        Median seconds a step, of PyTorch's and of ours.
    """
    torch.manual_seed(0)
    vocab_size = 200
    ids = torch.randint(4, vocab_size, (batch_size, n)).tolist()
    rows = [row[: n if i % 4 else max(1, n // 2)] for i, row in enumerate(ids)]
    batch = teacher_forced([(row, row[::-1]) for row in rows])
    sizes = (d_model, n_heads, n_layers, d_ff)
    peer = Peer(vocab_size, *sizes, dropout)
    ours = EncoderDecoder(vocab_size, vocab_size, *sizes, dropout=dropout)
    rivals = {
        "torch.nn.Transformer": _step(peer.train(), batch),
        "course_lib.models, EncoderDecoder": _step(ours.train(), batch),
    }
    result = compare(rivals, seconds)
    show(
        f"A training step, {n_layers} + {n_layers} layers, d = {d_model}, n = {n}, "
        f"batch {batch_size}, dropout {dropout}",
        result,
    )
    return result


# Those of the reversal, of the translation, and one in which the products decide.
CONFIGURATIONS = (
    (64, 4, 2, 256, 10, 64, 0.0),
    (128, 4, 2, 256, 8, 64, 0.1),
    (256, 8, 3, 1024, 64, 16, 0.1),
)
# The source series: 2,000 steps of Adam at a constant rate, batches of 128.
RECIPES: dict[str, dict] = {
    "ours: warm-up and cosine, 2e-3, batch 64": {},
    "source series: constant 5e-4, batch 128": {
        "steps": 2000, "batch_size": 128, "lr": 5e-4, "n_warmup": None,
    },
}  # fmt: skip


# What a translator must reach: shares of sentences without an error.
GOALS = {"unseen": 0.99, "held-out": 0.95}


def hold(shares: dict[str, float], goals: dict[str, float] = GOALS) -> None:
    """Raise unless every share reaches its goal.

    Parameters
    ----------
    shares : dict of floats
        By name, as `Run.exact_match` has them.
    goals : dict of floats, default GOALS

    Raises
    ------
    RuntimeError
        Naming those that don't.
    """
    missed = [
        f"{name} {shares[name]:.2%} is below {goal:.2%}"
        for name, goal in goals.items()
        if shares[name] < goal
    ]
    if missed:
        raise RuntimeError("; ".join(missed))


def main(
    configurations: Sequence[tuple] = CONFIGURATIONS,
    seconds: float = 4.0,
    steps: int | None = None,
    n_test: int = 10_000,
    translators: Sequence[int] = (0, 1, 2),
) -> dict[str, dict[str, float]]:
    """Compare steps, and the time in which recipes learn to reverse strings and to translate.

    Parameters
    ----------
    configurations : sequence of tuples
        As `compare_steps` takes them.
    seconds : float, default 4.0
        How long to measure each.
    steps : int, optional
        Of each recipe, in place of its own.
    n_test : int, default 10,000
        Unseen strings to judge by.
    translators : sequence of int, default 0, 1, 2
        Seeds of models that learn to translate.

    Returns
    -------
    dict of dicts
        Seconds a step by configuration and rival; by recipe, seconds, steps and exact match.

    Raises
    ------
    RuntimeError
        If a translator trained by its own recipe misses `GOALS`.
    """
    results = {}
    for sizes in configurations:
        results[f"step {sizes}"] = compare_steps(*sizes, seconds=seconds)
    print("\nReversal of ten digits, until 99.9 % of 1,000 unseen strings come out right")
    for name, options in RECIPES.items():
        changed = options if steps is None else {**options, "steps": steps}
        run = learn_reversal(**changed, target=0.999, n_test=n_test)
        reached = "reached" if run.history.reached_target else "not reached"
        print(
            f"  {name:46} {run.history.seconds:7.1f} s, {run.history.steps:5d} steps, {reached}, "
            f"{100 * run.exact_match['unseen']:6.2f} % of {n_test:,}"
        )
        results[name] = {
            "seconds": run.history.seconds,
            "steps": run.history.steps,
            "exact match": run.exact_match["unseen"],
        }
    print("\nToy translation, without an error: unseen sentences, and held-out combinations")
    for seed in translators:
        run = learn_translation(seed, **({} if steps is None else {"steps": steps}))
        shares = ", ".join(f"{name} {share:.2%}" for name, share in run.exact_match.items())
        taken = f"{run.history.seconds:7.1f} s, {run.history.steps:5d} steps"
        print(f"  seed {seed:<41d} {taken}, {shares}")
        results[f"translation {seed}"] = {
            "seconds": run.history.seconds,
            "steps": run.history.steps,
            **run.exact_match,
        }
        if steps is None:  # the recipe itself
            hold(run.exact_match)
    return results
