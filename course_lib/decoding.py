"""Writing with a trained model: greedy, by sampling, and by beam search; with a cache or without.

One function, `generate`, for every model that can `start`, `step` and `reorder` (`Decodable`): the
encoder-decoder here, and models that have a decoder alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol, overload

import torch
from torch import Tensor, nn

from course_lib.blocks import decoding_filters
from course_lib.blocks.language_modelling import log_softmax, sample
from course_lib.data.vocabulary import EOS, PAD
from course_lib.validation import (
    check_at_least,
    check_choice,
    check_flag,
    check_id,
    check_number,
    check_probability,
    check_sizes,
    trusted,
)

__all__ = ["BeamStep", "Decodable", "Hypotheses", "beam_search", "generate"]

Filter = Callable[[Tensor], Tensor]


class Decodable(Protocol):
    """What a model must offer to be written with."""

    def start(
        self, src: Tensor, src_lengths: Tensor, *, max_length: int, use_cache: bool, **prompt: Any
    ) -> tuple[Tensor, Any]:
        """Return the tokens that each row begins with, (b, n), and the state before them.

        Rows of different lengths are padded on the left, and the state knows by how much.
        `max_length` is the number of tokens that will be written behind them at most.
        """
        ...

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Feed the next tokens, (b, n); return the logits behind each, (b, n, V), and the state."""
        ...

    def reorder(self, state: Any, rows: Tensor) -> Any:
        """Return the state whose row i is row ``rows[i]``; there may be more rows or fewer."""
        ...


class BeamStep(NamedTuple):
    """One step of beam search: all hypotheses that were considered, the best first.

    Parameters
    ----------
    parents : int64 tensor, (b, 2k)
        Which of the k hypotheses of the step before each continues.
    tokens : int64 tensor, (b, 2k)
        By which token.
    scores : float tensor, (b, 2k)
        Total log-probability, −∞ where there are fewer.
    kept : int64 tensor, (b, k)
        Which of them go on: places in the rows above.
    finished : boolean tensor, (b, 2k)
        Which of them ended, and were stored as finished if they are among the best k so far.
    """

    parents: Tensor
    tokens: Tensor
    scores: Tensor
    kept: Tensor
    finished: Tensor


class Hypotheses(NamedTuple):
    """What beam search found: k finished hypotheses for each source, the best first.

    Parameters
    ----------
    ids : int64 tensor, (b, k, n)
        Padded behind <eos>.
    lengths : int64 tensor, (b, k)
        Tokens written, <eos> included; 0 where fewer than k were found.
    scores : float tensor, (b, k)
        Total log-probability divided by length^α; −∞ where fewer were found.
    """

    ids: Tensor
    lengths: Tensor
    scores: Tensor


@overload
def generate(
    model: Decodable, src: Tensor, src_lengths: Tensor, *, max_length: int,
    method: Literal["greedy", "sample", "beam"] = "greedy", temperature: float = 1.0,
    top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
    beam_width: int = 4, length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False, use_cache: bool = True, seed: int = 0,
    prompt: Tensor | None = None, prompt_lengths: Tensor | None = None, chunk: int | None = None,
    eos: int | None = EOS,
    return_scores: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def generate(
    model: Decodable, src: Tensor, src_lengths: Tensor, *, max_length: int,
    method: Literal["greedy", "sample", "beam"] = "greedy", temperature: float = 1.0,
    top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
    beam_width: int = 4, length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False, use_cache: bool = True, seed: int = 0,
    prompt: Tensor | None = None, prompt_lengths: Tensor | None = None, chunk: int | None = None,
    eos: int | None = EOS,
    return_scores: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


def generate(
    model: Decodable,
    src: Tensor,
    src_lengths: Tensor,
    *,
    max_length: int,
    method: Literal["greedy", "sample", "beam"] = "greedy",
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    beam_width: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    use_cache: bool = True,
    seed: int = 0,
    prompt: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    chunk: int | None = None,
    eos: int | None = EOS,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Write a target for each source of a batch, up to <eos>.

    Parameters
    ----------
    model : Decodable
        Such as `EncoderDecoder`. It is put in evaluation mode meanwhile: nothing is dropped.
    src : int64 tensor, (b, n_src)
    src_lengths : int64 tensor, (b,)
    max_length : int
        Most tokens of a target, <eos> included, the prompt not.
    method : {"greedy", "sample", "beam"}, default "greedy"
        "greedy" takes the likeliest token each time, "sample" draws one, "beam" keeps the
        `beam_width` likeliest hypotheses and returns the best finished one (see `beam_search`).
    temperature : float, default 1.0
        Logits are divided by it before tokens are drawn.
    top_k, top_p, min_p : int, float, float, optional
        Which tokens may be drawn, as `course_lib.blocks.decoding_filters` says. Where several are
        given, they filter in this order, after the division by `temperature`.
    beam_width : int, default 4
        k.
    length_penalty : float, default 1.0
        α: a finished hypothesis counts as its total log-probability / length^α.
    early_stopping : bool or "never", default False
        When a beam search ends, see `beam_search`.
    use_cache : bool, default True
        Whether keys and values are kept between steps. What is written is the same.
    seed : int, default 0
        Of the draws.
    prompt : int64 tensor, (b, n_prompt), optional
        What targets begin with, <bos> first; padded on the left.
    prompt_lengths : int64 tensor, (b,), optional
    chunk : int, optional
        Most tokens of the prompt that are fed at once; all of them where left out.
    eos : int or None, default 2
        The id that ends a target; None where only `max_length` does.
    return_scores : bool, default False
        Return a score for each target as well.

    Returns
    -------
    ids : int64 tensor, (b, n)
        What was written, without <bos> or the prompt; padding behind <eos>. n is that of the
        longest.
    scores : float tensor, (b,), if asked for
        Total log-probability of what was written under the model (whatever the temperature and the
        filters); with "beam", divided by length^α.

    Raises
    ------
    ValueError
        If an argument is out of its range, an option is given that `method` has no use for, or the
        model finds fault with the sources or prompts.

    References
    ----------
    Beam search for translation: Sutskever, Vinyals and Le 2014 (arXiv:1409.3215), section 3.2;
    length penalty and beam width of the Transformer: Vaswani et al. 2017 (arXiv:1706.03762),
    section 6.1. The stopping rule is that of ``transformers``.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(12, 9, d_model=16, n_heads=2, n_layers=2, d_ff=32)
    >>> src, src_lengths = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]]), torch.tensor([4, 2])
    >>> ids = generate(model, src, src_lengths, max_length=5)
    >>> again = generate(model, src, src_lengths, max_length=5, use_cache=False)
    >>> torch.equal(ids, again)
    True
    """
    check_choice("method", method, ("greedy", "sample", "beam"))
    check_sizes(max_length=max_length)
    check_flag("use_cache", use_cache)
    check_flag("return_scores", return_scores)
    check_at_least("seed", seed, 0)
    check_number("temperature", temperature, above=0.0)
    filters = _filters(top_k, top_p, min_p)
    _check_beam(beam_width, length_penalty, early_stopping)
    if method != "sample" and (filters or temperature != 1.0):
        raise ValueError(
            f"temperature, top_k, top_p and min_p must be left out where method is {method!r}: "
            "they are for 'sample'"
        )
    last = _check_eos(eos)
    begin: dict[str, Any] = {"prompt": prompt, "prompt_lengths": prompt_lengths, "chunk": chunk}
    if method == "beam":
        best = beam_search(
            model, src, src_lengths, max_length=max_length, beam_width=beam_width,
            length_penalty=length_penalty, early_stopping=early_stopping, use_cache=use_cache,
            eos=eos, **begin,
        )  # fmt: skip
        ids = best.ids[:, 0, : int(best.lengths[:, 0].max())]
        return (ids, best.scores[:, 0]) if return_scores else ids

    generator = torch.Generator().manual_seed(seed)

    def choose(logits: Tensor) -> Tensor:
        if method == "greedy":
            return logits.argmax(dim=-1)
        logits = logits / temperature
        for keep in filters:
            logits = keep(logits)
        uniforms = torch.rand(len(logits), generator=generator, dtype=torch.float64)
        return sample(logits, uniforms.to(logits.device))

    with _evaluation(model):
        logits, state = _begin(model, src, src_lengths, max_length, use_cache, **begin)  # (b, V)
        ended = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
        scores = logits.new_zeros(len(logits))
        written: list[Tensor] = []
        while True:
            token = choose(logits)  # (b,)
            if return_scores:
                gained = log_softmax(logits).gather(-1, token[:, None])[:, 0]
                scores = scores + gained.masked_fill(ended, 0.0)
            token = token.masked_fill(ended, PAD)
            written.append(token)
            ended = ended | (token == last)
            if len(written) == max_length or bool(ended.all()):
                break
            with trusted():  # as the first step, which was checked
                logits, state = _step(model, token[:, None], state)
    ids = torch.stack(written, dim=1)  # (b, n)
    return (ids, scores) if return_scores else ids


def beam_search(
    model: Decodable,
    src: Tensor,
    src_lengths: Tensor,
    *,
    max_length: int,
    beam_width: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    use_cache: bool = True,
    prompt: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    chunk: int | None = None,
    eos: int | None = EOS,
    on_step: Callable[[BeamStep], None] | None = None,
) -> Hypotheses:
    """Keep the k likeliest hypotheses at each step, and those that have ended.

    At each step the continuations of all k hypotheses by all tokens are ranked by their total
    log-probability. Those of the best k that end with <eos> are finished: they are stored, and the
    k best finished ones by total / length^α are kept. The best k that don't end go on. At
    `max_length` everything ends.

    A source is done with as soon as k hypotheses are finished and (`early_stopping`)

    - True: at once;
    - False: the best that goes on, at the length that it has, scores no better than the worst
      finished one. With α > 0 it might still have become better;
    - "never": nor would it at `max_length`, with no further loss.

    Parameters
    ----------
    model, src, src_lengths, max_length, use_cache, prompt, prompt_lengths, chunk, eos
        As `generate` takes them.
    beam_width : int, default 4
        k; the paper's is 4.
    length_penalty : float, default 1.0
        α. The paper's 0.6 belongs to another formula.
    early_stopping : bool or "never", default False
    on_step : callable, optional
        Called with the `BeamStep` of every step.

    Returns
    -------
    Hypotheses

    Raises
    ------
    ValueError
        As `generate`.

    Examples
    --------
    >>> from course_lib.models.encoder_decoder import EncoderDecoder
    >>> model = EncoderDecoder(12, 9, d_model=16, n_heads=2, n_layers=2, d_ff=32)
    >>> src, src_lengths = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]]), torch.tensor([4, 2])
    >>> found = beam_search(model, src, src_lengths, max_length=5, beam_width=3)
    >>> found.scores.shape, bool((found.scores.diff(dim=1) <= 0).all())
    (torch.Size([2, 3]), True)
    """
    check_sizes(max_length=max_length)
    check_flag("use_cache", use_cache)
    _check_beam(beam_width, length_penalty, early_stopping)
    k, alpha, last = beam_width, length_penalty, _check_eos(eos)
    with _evaluation(model):
        logits, state = _begin(
            model, src, src_lengths, max_length, use_cache, prompt, prompt_lengths, chunk
        )
        (b, v), device = logits.shape, logits.device
        first_rows = torch.arange(b, device=device)[:, None] * k  # of each source's beams
        # All beams begin alike: the first alone counts, or they would stay alike.
        state = model.reorder(state, torch.arange(b, device=device).repeat_interleave(k))
        logits = logits.repeat_interleave(k, dim=0)  # (b k, V)
        live_scores = logits.new_full((b, k), -torch.inf)
        live_scores[:, 0] = 0.0
        live_ids = torch.zeros(b, k, 0, dtype=torch.int64, device=device)
        done_scores = logits.new_full((b, k), -torch.inf)
        done_ids = torch.full((b, k, max_length), PAD, dtype=torch.int64, device=device)
        done_lengths = torch.zeros(b, k, dtype=torch.int64, device=device)
        closed = torch.zeros(b, 1, dtype=torch.bool, device=device)

        for n in range(1, max_length + 1):  # n tokens with the one to come
            # Each hypothesis has one continuation by <eos>: k of 2k at least don't end.
            best, parents, tokens = _best_continuations(
                live_scores, log_softmax(logits).view(b, k, v), min(2 * k, k * v)
            )  # (b, 2k)
            ids = torch.cat((_rows(live_ids, parents), tokens[:, :, None]), dim=2)  # (b, 2k, n)
            ends = (tokens == last) | (n == max_length)

            finished = ends & (best > -torch.inf) & ~closed
            finished[:, k:] = False
            lengths = torch.full_like(tokens, n)
            scores = decoding_filters.length_penalty(best, lengths, alpha)
            merged = torch.cat((done_scores, scores.masked_fill(~finished, -torch.inf)), dim=1)
            done_scores, places = merged.topk(k)
            padded = nn.functional.pad(ids, (0, max_length - n), value=PAD)
            done_ids = _rows(torch.cat((done_ids, padded), dim=1), places)
            lengths = lengths.masked_fill(~finished, 0)
            done_lengths = torch.cat((done_lengths, lengths), dim=1).gather(1, places)

            live_scores, kept = best.masked_fill(ends, -torch.inf).topk(k)
            if on_step is not None:
                on_step(BeamStep(parents, tokens, best, kept, finished))
            live_ids = _rows(ids, kept)
            reachable = max_length if early_stopping == "never" and alpha > 0 else n
            hope = live_scores[:, :1] / reachable**alpha
            full = done_scores[:, -1:] > -torch.inf
            better = hope > done_scores[:, -1:]
            closed = closed | full & (~better | (early_stopping is True)) | (hope == -torch.inf)
            if n == max_length or bool(closed.all()):
                break
            rows = (parents.gather(1, kept) + first_rows).flatten()  # (b k,)
            if not torch.equal(rows, torch.arange(b * k, device=device)):
                state = model.reorder(state, rows)
            with trusted():  # as the first step, which was checked
                logits, state = _step(model, live_ids[:, :, -1].reshape(-1, 1), state)

    done_ids = done_ids.masked_fill(done_lengths[:, :, None] == 0, PAD)
    return Hypotheses(done_ids[:, :, : int(done_lengths.max())], done_lengths, done_scores)


def _begin(
    model: Decodable,
    src: Tensor,
    src_lengths: Tensor,
    max_length: int,
    use_cache: bool,
    prompt: Tensor | None,
    prompt_lengths: Tensor | None,
    chunk: int | None,
) -> tuple[Tensor, Any]:
    """Feed what targets begin with, in pieces of `chunk`; return the logits behind it, (b, V)."""
    if chunk is not None:
        check_sizes(chunk=chunk)
    given = {"prompt": prompt, "prompt_lengths": prompt_lengths}
    options = {name: value for name, value in given.items() if value is not None}
    ids, state = model.start(
        src, src_lengths, max_length=max_length, use_cache=use_cache, **options
    )
    for piece in ids.split(chunk or ids.shape[1], dim=1):
        logits, state = _step(model, piece, state)
    return logits, state


def _step(model: Decodable, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Feed tokens; return the logits behind the last of them, (b, V)."""
    logits, state = model.step(ids, state)
    return logits[:, -1], state


def _best_continuations(
    scores: Tensor,  # (b, k)
    log_p: Tensor,  # (b, k, V)
    m: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rank the k · V ways in which k hypotheses may go on; return the best m."""
    vocab_size = log_p.shape[-1]
    totals = scores[:, :, None] + log_p  # (b, k, V)
    best, index = totals.flatten(1).topk(m)  # (b, m)
    return best, index // vocab_size, index % vocab_size


def _rows(x: Tensor, places: Tensor) -> Tensor:
    """Return rows of hypotheses (b, m, n) by their places (b, k): (b, k, n)."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


def _filters(top_k: int | None, top_p: float | None, min_p: float | None) -> list[Filter]:
    """Return the filters that were asked for, in the order in which they are applied."""
    filters: list[Filter] = []
    if top_k is not None:
        check_at_least("top_k", top_k, 1)
        filters.append(lambda logits: decoding_filters.top_k(logits, top_k))
    if top_p is not None:
        check_probability("top_p", top_p)
        filters.append(lambda logits: decoding_filters.top_p(logits, top_p))
    if min_p is not None:
        check_probability("min_p", min_p)
        filters.append(lambda logits: decoding_filters.min_p(logits, min_p))
    return filters


def _check_beam(beam_width: Any, length_penalty: Any, early_stopping: Any) -> None:
    """Raise unless the options of beam search are in their ranges."""
    check_at_least("beam_width", beam_width, 1)
    check_number("length_penalty", length_penalty)
    if not isinstance(early_stopping, bool) and early_stopping != "never":
        raise ValueError(f"early_stopping must be True, False or 'never'; got {early_stopping!r}")


@contextmanager
def _evaluation(model: Any) -> Iterator[None]:
    """Let nothing be dropped and no gradient be kept meanwhile."""
    training = getattr(model, "training", False)
    if training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            model.train()


def _check_eos(eos: Any) -> int:
    """Return the id that ends a target: −1, which no token is, where there is none."""
    if eos is None:
        return -1
    check_id("eos", eos)
    return int(eos)
