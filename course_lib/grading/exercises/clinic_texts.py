"""Two patients of chapter 15 that are ill before the model begins: in the batch, in the tokens.

Every misconception here is a repair that stopped half-way, or one that broke something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.exercises.attention_variants import softmax
from course_lib.grading.exercises.clinics import Step, half_repaired, right
from course_lib.grading.exercises.entries import case, wrong
from course_lib.grading.exercises.inputs import as_cell
from course_lib.grading.model import Alternative, Exercise
from course_lib.grading.values import is_tensor, to_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BROKEN", "SIDES", "TOKENS", "SmallDecoder", "next_logits", "word_ids"]


# -- 15.bug_sides ----------------------------------------------------------------------------------


class BatchError(ValueError):
    """Of ids that aren't all prompts at once; by its name the grader knows it from others."""


class PositionError(ValueError):
    """Of a negative position; by its name the grader knows it from others."""


class SmallDecoder:
    """A decoder of one layer, which is right: ids, mask and positions in, logits out.

    Parameters
    ----------
    vocab_size, max_length, seed : int
    rows : int
        How many prompts there are: it wants them all at once.

    Examples
    --------
    >>> model = SmallDecoder(vocab_size=5, max_length=8, seed=0, rows=1)
    >>> ids = np.array([[3, 1, 4]])
    >>> model(ids, np.ones((1, 3), dtype=bool), np.array([[0, 1, 2]])).shape
    (1, 3, 5)
    """

    def __init__(
        self, *, vocab_size: int, max_length: int, seed: int, rows: int, width: int = 6
    ) -> None:
        self._rows = rows
        rng = np.random.default_rng([seed, 18])
        self._tokens = rng.normal(size=(vocab_size, width))
        self._places = rng.normal(size=(max_length, width))
        self._keys, self._values = rng.normal(size=(2, width, width)) / 1.5
        self._out = rng.normal(size=(width, vocab_size))

    def __repr__(self) -> str:
        return "a decoder that does what it should"

    def __call__(self, ids: Any, mask: Any, positions: Any) -> Any:
        """Return logits (b, n, V).

        Parameters
        ----------
        ids : integer array, (b, n)
        mask : boolean array, (b, n)
            True at real tokens: nobody looks at the others. It's causal without being told.
        positions : integer array, (b, n)
            Counted from 0 at the first real token; of others any that aren't negative.
        """
        if any(map(is_tensor, (ids, mask, positions))):
            return to_tensors(self(*(np.asarray(x) for x in (ids, mask, positions))))
        ids, mask, positions = np.asarray(ids), np.asarray(mask), np.asarray(positions)
        if ids.ndim != 2:
            raise ValueError(f"ids must be (b, n); got {ids.shape}")
        if len(ids) != self._rows:
            raise BatchError(
                f"ids must have a row for each prompt, {self._rows} in all; got {len(ids)}"
            )
        if mask.shape != ids.shape or mask.dtype != bool:
            raise ValueError(
                f"mask must be boolean and {ids.shape}, as ids; got {mask.dtype} {mask.shape}"
            )
        positions = np.broadcast_to(positions, ids.shape).astype(int)
        if positions.max() >= len(self._places):
            raise ValueError(f"positions must be below {len(self._places)}; got {positions.max()}")
        if positions.min() < 0:
            raise PositionError(f"positions must be at least 0; got {positions.min()}")
        n = ids.shape[1]
        x = self._tokens[ids] + self._places[positions]
        scores = x @ self._keys @ x.swapaxes(-2, -1)
        seen = mask[:, None, :] & np.tri(n, dtype=bool)
        return (x + softmax(np.where(seen, scores, -np.inf)) @ (x @ self._values)) @ self._out


Model = Callable[[Any, Any, Any], Any]


def next_logits(model: Model, prompts: Sequence[NDArray], pad: int) -> NDArray:
    """Return the logits of what follows each prompt, in one call of the model.

    Parameters
    ----------
    model : callable
        From ids, mask and positions, each (b, n), to logits (b, n, V).
    prompts : sequence of int64 arrays
        Of any lengths, at least 1.
    pad : int
        The id that fills a row up; prompts may hold it as well.

    Returns
    -------
    float array, (b, V)
        In the order of the prompts.
    """
    y: NDArray = _sides()(model, prompts, pad)
    return y


def next_logits_broken(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    prompts = sorted(prompts, key=len)  # similar lengths side by side
    lengths = np.array([len(prompt) for prompt in prompts])
    n = lengths.max()
    ids = np.full((len(prompts), n), pad)
    for i, prompt in enumerate(prompts):
        ids[i, n - len(prompt) :] = prompt  # the padding is on the left
    mask = np.arange(n) < lengths[:, None]
    positions = np.broadcast_to(np.arange(n), ids.shape)
    return model(ids, mask, positions)[:, -1]


def _mask_left(n: int, lengths: NDArray) -> NDArray:
    return np.asarray(np.arange(n) >= n - lengths[:, None])


def _counted(n: int, lengths: NDArray) -> NDArray:
    return np.maximum(np.arange(n) - (n - lengths[:, None]), 0)


def _sides(
    *,
    mask: Callable[[int, NDArray], NDArray] = _mask_left,
    positions: Callable[[int, NDArray], NDArray] = _counted,
    order: str = "kept",
    at: Callable[[int, NDArray], Any] = lambda n, lengths: n - 1,
    side: str = "left",
    turn: int = 1,
) -> Callable[..., Any]:
    """Return the program with some steps replaced."""

    def logits_of(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
        if order == "sorted":
            prompts = sorted(prompts, key=len)
        elif order == "longest first":
            prompts = sorted(prompts, key=lambda prompt: -len(prompt))
        lengths = np.array([len(prompt) for prompt in prompts])
        n = int(lengths.max())
        ids = np.full((len(prompts), n), pad)
        for row, prompt in zip(ids, prompts, strict=True):
            if side == "left":
                row[n - len(prompt) :] = np.asarray(prompt)[::turn]
            else:
                row[: len(prompt)] = np.asarray(prompt)
        places = np.broadcast_to(positions(n, lengths), ids.shape)
        found = model(ids, np.broadcast_to(mask(n, lengths), ids.shape), places)
        return found[np.arange(len(ids)), at(n, lengths)]

    return logits_of


def _put_back_wrongly(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
    order = np.argsort([len(prompt) for prompt in prompts], kind="stable")
    return _sides()(model, [prompts[i] for i in order], pad)[order]


def _by_id(
    *, side: str = "left", counted: bool = False, lengths_of: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return the program that takes every `pad` for padding, also inside a prompt."""

    def logits_of(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
        lengths = np.array([len(prompt) for prompt in prompts])
        n = int(lengths.max())
        ids = np.full((len(prompts), n), pad)
        for row, prompt in zip(ids, prompts, strict=True):
            start = n - len(prompt) if side == "left" else 0
            row[start : start + len(prompt)] = np.asarray(prompt)
        mask = ids != pad
        if side == "left":
            places = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
            return model(ids, mask, places if counted else _counted(n, lengths))[:, -1]
        if lengths_of is None:
            found = lengths
        else:
            found, mask = lengths_of(mask), np.arange(n) < lengths[:, None]
        places = np.broadcast_to(np.arange(n), ids.shape)
        return model(ids, mask, places)[np.arange(len(ids)), found - 1]

    return logits_of


def _up_to_the_first(mask: NDArray) -> NDArray:
    return np.where(mask.all(axis=1), mask.shape[1], np.argmin(mask, axis=1))


def _sorted_in_place(model: Model, prompts: list[NDArray], pad: int) -> Any:
    prompts.sort(key=len)
    return _sides()(model, prompts, pad)


def _cut_to_the_shortest(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
    n = min(map(len, prompts))
    return _sides()(model, [prompt[-n:] for prompt in prompts], pad)


def _probabilities(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
    return softmax(_sides()(model, prompts, pad))


def _one_by_one(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
    return np.concatenate([_sides()(model, [prompt], pad) for prompt in prompts])


def _length_by_length(model: Model, prompts: Sequence[NDArray], pad: int) -> Any:
    lengths = np.array([len(prompt) for prompt in prompts])
    found: dict[int, Any] = {}
    for n in np.unique(lengths):
        rows = np.flatnonzero(lengths == n).tolist()
        found |= dict(zip(rows, _sides()(model, [prompts[i] for i in rows], pad), strict=True))
    return np.stack([found[i] for i in range(len(prompts))])


def _prompts(*lengths: int, v: int = 6, pad: int = 0) -> Callable[[int], dict[str, Any]]:
    """Draw prompts and their model; where `pad` isn't 0 every other token of theirs is that."""

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([seed, 19, *lengths])
        prompts = [rng.integers(1, v, n) for n in lengths]
        for prompt in prompts if pad else ():
            prompt[prompt == pad] = 1 if pad != 1 else 2
            prompt[1::2] = pad
        model = SmallDecoder(
            vocab_size=v, max_length=sum(lengths) + 4, seed=seed % 1000, rows=len(lengths)
        )
        return {"model": model, "prompts": prompts, "pad": pad}

    return build


_SIDES_CASES = [
    case("one prompt of 3 tokens | no padding, nothing to go wrong", _prompts(3)),
    case("2 prompts of 4 tokens | nor here", _prompts(4, 4)),
    case("prompts of 2 and 3 tokens | the first is padded", _prompts(2, 3)),
    case("prompts of 5 and 1 tokens | the longer one stands first", _prompts(5, 1)),
    case("prompts of 3, 6, 2 and 4 tokens | each as if it were alone", _prompts(3, 6, 2, 4)),
    case("prompts that hold the id of padding | there it's a token", _prompts(4, 2, 5, pad=3)),
]

_SIDE_MASKS = [
    right(_mask_left),
    Step(
        "the mask of the right side",
        lambda n, lengths: np.arange(n) < lengths[:, None],
        "the model sees padding, and doesn't see the end of a short prompt",
        "In which columns do the real tokens stand?",
        fault=True,
    ),
    Step(
        "no mask",
        lambda n, lengths: np.ones((len(lengths), n), dtype=bool),
        "padding isn't hidden, and what stands before a token isn't hidden by causality",
        "In which columns do the real tokens stand?",
    ),
    Step(
        "the mask turned round",
        lambda n, lengths: np.arange(n) < n - lengths[:, None],
        "the mask is True at padding",
        "What does True mean to the model?",
    ),
    Step(
        "one place too few",
        lambda n, lengths: np.arange(n) > n - lengths[:, None],
        "the mask hides each prompt's first token as well",
        "In which column does a prompt of all n tokens begin?",
    ),
]
_PLACES = [
    right(_counted),
    Step(
        "positions of columns",
        lambda n, lengths: np.arange(n)[None],
        "the first token of a prompt is told another place when a longer one stands beside it",
        "From where does the model want positions to be counted?",
        fault=True,
    ),
    Step(
        "positions from 1",
        lambda n, lengths: _counted(n, lengths) + 1,
        "positions begin with 1 at the first real token",
        "Which position has the first real token?",
    ),
    Step(
        "positions from the end",
        lambda n, lengths: n - 1 - np.arange(n)[None],
        "positions are counted from the end",
        "Which position has the first real token?",
    ),
]
_ORDERS = [
    right("kept"),
    Step(
        "sorted by length",
        "sorted",
        "every answer is right, and some stand in another prompt's row",
        "Which prompt's answer does each row hold?",
        fault=True,
    ),
    Step(
        "the longest first",
        "longest first",
        "answers come with the longest prompt first",
        "In which order are the answers wanted?",
    ),
]

_SIDES_WRONG = [
    wrong(
        next_logits_broken,
        "the program as it was | This is what the broken program returns. Only the longest prompts "
        "get what they get alone, and not always in their own row. → What do ids, mask and "
        "positions look like, one below the other, for prompts of 2 and 3 tokens?",
        program=as_cell(next_logits_broken, "next_logits"),
    ),
    *half_repaired(_sides, mask=_SIDE_MASKS, positions=_PLACES, order=_ORDERS),
    wrong(
        _sides(side="right", mask=_SIDE_MASKS[1].does, positions=lambda n, lengths: np.arange(n)),
        "right, and the last column | You put the padding on the right, which is fine, and read "
        "the last column still: that's padding. → In which column is a prompt's last token, then?",
    ),
    wrong(
        _sides(
            side="right", mask=_SIDE_MASKS[1].does, positions=lambda n, lengths: np.arange(n),
            order="sorted",
        ),
        "right, the last column, and sorted | You put the padding on the right, which is fine, and "
        "read the last column still: that's padding. And the answers are in the order of the "
        "lengths. → In which column is a prompt's last token, then?",
    ),
    wrong(
        _sides(
            side="right", mask=_SIDE_MASKS[1].does, positions=lambda n, lengths: np.arange(n),
            at=lambda n, lengths: np.minimum(lengths, n - 1),
        ),
        "right, one too late | You put the padding on the right and read one place behind each "
        "prompt's last token. → What number has the last of three?",
    ),
    wrong(
        _sides(at=lambda n, lengths: lengths - 1),
        "left, read as if right | Mask and positions are mended, and you read at `length - 1`, "
        "which is where a prompt ends if the padding is on the *right*. → In which column do all "
        "prompts end here?",
    ),
    wrong(
        _sides(side="right"),
        "ids on the right, mask on the left | You put the padding on the right, and mask and "
        "positions are those of padding on the left. → In which columns do the real tokens stand?",
    ),
    wrong(
        _sides(side="right", at=lambda n, lengths: lengths - 1,
               positions=lambda n, lengths: np.arange(n)),
        "right, the mask of the left | You put the padding on the right, and the mask is that of "
        "padding on the left: it hides the beginning of short prompts. → In which columns do the "
        "real tokens stand?",
    ),
    wrong(
        _sides(side="right", mask=_SIDE_MASKS[1].does, at=lambda n, lengths: lengths - 1),
        "right, positions of the left | You put the padding on the right, and positions count as "
        "if it were on the left. → Which position has the first real token?",
    ),
    wrong(
        _sides(side="right", mask=_SIDE_MASKS[1].does, at=lambda n, lengths: lengths - 2,
               positions=lambda n, lengths: np.arange(n)),
        "right, one too early | You put the padding on the right and read one place before each "
        "prompt's last token. → What number has the last of three?",
    ),
    wrong(
        _sides(side="right", mask=lambda n, lengths: np.arange(n) < lengths[:, None] - 1,
               at=lambda n, lengths: lengths - 1, positions=lambda n, lengths: np.arange(n)),
        "right, the last token hidden | You put the padding on the right, and the mask hides each "
        "prompt's last token as well. → For which columns j is j < length?",
    ),
    wrong(
        _by_id(),
        "padding known by its id | Your mask hides every token that has the id `pad`, also those "
        "that belong to a prompt. → What tells padding from tokens, if the id doesn't?",
    ),
    wrong(
        _by_id(counted=True),
        "padding known by its id, and counted so | Your mask hides every token that has the id "
        "`pad`, also those of a prompt, and positions leave them out. → What tells padding from "
        "tokens, if the id doesn't?",
    ),
    wrong(
        _by_id(side="right", lengths_of=lambda mask: mask.sum(axis=1)),
        "right, lengths counted by the id | You put the padding on the right and count the tokens "
        "that aren't `pad`. A prompt may hold that id as well. → What does `len` say of a prompt?",
    ),
    wrong(
        _by_id(side="right", lengths_of=_up_to_the_first),
        "right, up to the first pad | You put the padding on the right and take the first `pad` "
        "for a prompt's end. A prompt may hold that id as well. → What does `len` say of a prompt?",
    ),
    wrong(
        _cut_to_the_shortest,
        "cut to the shortest | You keep as many tokens of each prompt as the shortest has. There's "
        "no padding then, and the beginnings of the others are lost. → What does the model know of "
        "a prompt's first token?",
    ),
    wrong(
        _sorted_in_place,
        "sorted in place | You sort the caller's own list, and the answers come in the new order. "
        "→ Which prompt's answer does each row hold?",
    ),
    wrong(
        _sides(positions=lambda n, lengths: np.arange(n) - (n - lengths[:, None])),
        "negative positions | Padding gets negative positions with you. Nobody looks at it, but a "
        "table of positions has no such rows. → Which position could all padding have, whatever "
        "its column?",
    ),
    wrong(
        _one_by_one,
        "one by one | You call the model for one prompt after the other, which needs no padding, "
        "and one call for each prompt. Here all prompts go into one call. → What fills a short "
        "prompt's row up to the length of the longest?",
    ),
    wrong(
        _length_by_length,
        "length by length | You call the model for the prompts of one length after those of "
        "another, which needs no padding, and several calls. Here all prompts go into one. → What "
        "fills a short prompt's row up to the length of the longest?",
    ),
    wrong(
        _probabilities,
        "probabilities | You return probabilities. Each row is a softmax of the logits that are "
        "asked for. → What did the broken program do with what the model returned?",
    ),
    wrong(
        _put_back_wrongly,
        "put back the wrong way | You sort and index the answers by the same order once more. That "
        "undoes it for two prompts only. → What does `argsort` of an order give?",
    ),
    wrong(
        _sides(at=lambda n, lengths: n - lengths),
        "the first token's | You read the logits of each prompt's first token. → Which token has "
        "seen the whole prompt?",
    ),
    wrong(
        _sides(turn=-1),
        "prompts turned round | The tokens of each prompt are in reverse order. → Which way was "
        "the broken program putting them?",
    ),
]  # fmt: skip


def _sides_right(model: Any, prompts: Any, pad: int) -> Any:
    lengths = [len(prompt) for prompt in prompts]
    n = max(lengths)
    ids = np.array([[*prompt, *[pad] * (n - len(prompt))] for prompt in prompts])
    mask = np.array([[j < length for j in range(n)] for length in lengths])
    logits = model(ids, mask, np.tile(np.arange(n), (len(ids), 1)))
    return np.stack([row[length - 1] for row, length in zip(logits, lengths, strict=True)])


def _sides_sorted(model: Any, prompts: Any, pad: int) -> Any:
    """Sort, and put the answers back; positions are counted along the mask."""
    order = np.argsort([len(prompt) for prompt in prompts], kind="stable")
    lengths = np.array([len(prompts[i]) for i in order])
    n = lengths.max()
    ids = np.full((len(prompts), n), pad)
    for row, i in zip(ids, order, strict=True):
        row[n - len(prompts[i]) :] = prompts[i]
    mask = np.arange(n)[::-1] < lengths[:, None]
    logits = model(ids, mask, np.maximum(np.cumsum(mask, axis=1) - 1, 0))[:, -1]
    return logits[np.argsort(order)]


def _sides_torch(model: Any, prompts: Any, pad: int) -> Any:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    lengths = torch.tensor([len(prompt) for prompt in prompts])
    ids = pad_sequence(list(prompts), batch_first=True, padding_value=pad)
    places = torch.arange(ids.shape[1]).expand_as(ids)
    logits = model(ids, places < lengths[:, None], places)
    return logits[torch.arange(len(ids)), lengths - 1]


SIDES = Exercise(
    id="15.bug_sides",
    function="next_logits",
    reference=next_logits,
    cases=_SIDES_CASES,
    misconceptions=_SIDES_WRONG,
    alternatives=[
        ("padding on the right", _sides_right),
        ("sorted and put back", _sides_sorted),
        Alternative(name="torch", right=_sides_torch, backend="torch"),
    ],
    hints=[
        "The right program gives each prompt what it gets alone. Print ids, mask and positions for "
        "prompts of 2 and 3 tokens, one below the other.",
        "Column by column: where the ids are a prompt's the mask has to be True, and positions "
        "count from 0 where it begins. With the padding on the other side other lines are right.",
        "Padded on the left, a prompt begins in column n − length; padded on the right, it ends in "
        "column length − 1. Which lines have to know that number? And row i answers prompt i.",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)


# -- 15.bug_tokens ---------------------------------------------------------------------------------


def word_ids(text: str, vocab: Sequence[str]) -> NDArray:
    """Return the ids of a text: WordPiece, as the encoder was trained with.

    Parameters
    ----------
    text : str
        Words and spaces.
    vocab : list of str
        Piece i has the id i.

    Returns
    -------
    int64 array, (n,)
    """
    ids: NDArray = _words()(text, vocab)
    return ids


def word_ids_broken(text: str, vocab: Sequence[str]) -> Any:
    """Do the same, as the exercise's notebook shows it: with three faults."""
    index = {piece: i for i, piece in enumerate(vocab[1:])}  # padding is no piece
    ids = [index["[CLS]"]]
    for word in text.split():
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):  # the longest first
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in index:
                    ids.append(index[piece])
                    start = end
                    break
            else:
                ids.append(index["[UNK]"])
                start += 1
    return np.array([*ids, index["[SEP]"]])


def _unknown_word(pieces: list[str]) -> list[str]:
    return ["[UNK]"] if "[UNK]" in pieces else pieces


def _unknown_letters(pieces: list[str]) -> list[str]:
    return pieces


def _rest_unknown(pieces: list[str]) -> list[str]:
    """Keep what was found and stop at the first letter that isn't known."""
    return pieces[: pieces.index("[UNK]") + 1] if "[UNK]" in pieces else pieces


def _without_unknown(pieces: list[str]) -> list[str]:
    return [piece for piece in pieces if piece != "[UNK]"]


def _from_unknown(pieces: list[str]) -> list[str]:
    if "[UNK]" not in pieces:
        return pieces
    return pieces[len(pieces) - 1 - pieces[::-1].index("[UNK]") :]


def _word_left_out(pieces: list[str]) -> list[str]:
    return [] if "[UNK]" in pieces else pieces


def _words(
    *,
    first: int = 0,
    letters: Callable[[str], str] = str.lower,
    unknown: Callable[[list[str]], list[str]] = _unknown_word,
    mark: Callable[[int], str] = lambda start: "##" if start else "",
    stops: Callable[[int, int], Any] = lambda start, n: range(n, start, -1),
    ends: tuple[str, str] = ("[CLS]", "[SEP]"),
) -> Callable[..., Any]:
    """Return the program with some steps replaced."""

    def ids_of(text: str, vocab: Sequence[str]) -> Any:
        index = {piece: i - first for i, piece in enumerate(vocab) if i >= first}
        found = [end for end in ends[:1] if end]
        for word in letters(text).split():
            pieces, start = [], 0
            while start < len(word):
                for end in stops(start, len(word)):
                    piece = mark(start) + word[start:end]
                    if piece in index:
                        pieces.append(piece)
                        start = end
                        break
                else:
                    pieces.append("[UNK]")
                    start += 1
            found += unknown(pieces)
        found += [end for end in ends[1:] if end]
        return np.array([index[piece] for piece in found])

    return ids_of


_VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "n", "o", "r", "s", "t", "an", "be", "bo"),
    *("on", "to", "ann", "cat", "tom", "anna", "bert", "near", "rome", "##a", "##b", "##i", "##n"),
    *("##o", "##r", "##s", "##t", "##at", "##on", "##ma", "##na", "##me", "##rn", "##rt", "##ss"),
    *("##to", "##ris"),
]


def _taken_back(text: str, vocab: Sequence[str]) -> Any:
    def cut(word: str, mark: str) -> list[str] | None:
        if not word:
            return []
        for end in range(len(word), 0, -1):
            if mark + word[:end] in vocab:
                rest = cut(word[end:], "##")
                if rest is not None:
                    return [mark + word[:end], *rest]
        return None

    pieces = ["[CLS]"]
    for word in text.lower().split():
        pieces += cut(word, "") or ["[UNK]"]
    return np.array([vocab.index(piece) for piece in [*pieces, "[SEP]"]])


def _whole_words(text: str, vocab: Sequence[str]) -> Any:
    words = [word if word in vocab else "[UNK]" for word in text.lower().split()]
    return np.array([vocab.index(p) for p in ["[CLS]", *words, "[SEP]"]])


def _text(text: str) -> dict[str, Any]:
    return {"text": text, "vocab": _VOCAB}


def _other_vocab(seed: int) -> dict[str, Any]:
    pieces = ["on", "cat", "##at", "[SEP]", "##s", "[CLS]", "s", "[PAD]", "at", "[UNK]"]
    order = np.random.default_rng([seed, 22]).permutation(len(pieces) - 2)
    shuffled = [pieces[i] for i in order]
    return {"text": "cats on xs", "vocab": [*shuffled[:3], "##x", *shuffled[3:], *pieces[-2:]]}


def _right_to_left(text: str, vocab: Sequence[str]) -> Any:
    pieces = ["[CLS]"]
    for word in text.lower().split():
        own: list[str] = []
        end = len(word)
        while end:
            starts = (i for i in range(end) if ("##" if i else "") + word[i:end] in vocab)
            start = next(starts, None)
            if start is None:
                own = ["[UNK]"]
                break
            own.insert(0, ("##" if start else "") + word[start:end])
            end = start
        pieces += own
    return np.array([vocab.index(piece) for piece in [*pieces, "[SEP]"]])


def _mark_optional(text: str, vocab: Sequence[str]) -> Any:
    pieces = ["[CLS]"]
    for word in text.lower().split():
        own, start = [], 0
        while start < len(word):
            fits = (
                mark + word[start:end]
                for end in range(len(word), start, -1)
                for mark in (("##", "") if start else ("",))
                if mark + word[start:end] in vocab
            )
            piece = next(fits, None)
            if piece is None:
                own = ["[UNK]"]
                break
            own.append(piece)
            start += len(piece.removeprefix("##"))
        pieces += own
    return np.array([vocab.index(piece) for piece in [*pieces, "[SEP]"]])


def _by_heart(unknown: int, cls: int, sep: int) -> Callable[..., Any]:
    def ids_of(text: str, vocab: Sequence[str]) -> Any:
        known = {"[UNK]": unknown, "[CLS]": cls, "[SEP]": sep}
        ids = _words()(text, vocab)
        return np.array([known.get(vocab[i], i) for i in ids])

    return ids_of


def _an_end_for_each_word(text: str, vocab: Sequence[str]) -> Any:
    cls, sep = vocab.index("[CLS]"), vocab.index("[SEP]")
    words = [_words()(word, vocab)[1:].tolist() for word in text.split()]
    return np.array([cls, *(i for word in words for i in word), sep])


def _small_firsts(text: str) -> str:
    return " ".join(word[:1].lower() + word[1:] for word in text.split())


_TOKENS_CASES = [
    case("a word that is a piece | its line in the file is its id", _text("near")),
    case("2 words, several pieces | the longest first", _text("cats boston")),
    case("capitals | the vocabulary has none", _text("Anna Near ROME")),
    case("a letter that isn't known | the whole word is unknown", _text("a bronze cat")),
    case("a word that begins unknown | as a whole, too", _text("xcat on boris")),
    case("a piece that leads nowhere | it isn't taken back", _text("tome near annbert")),
    case("no word at all | two marks", _text(" ")),
    case("another vocabulary | every piece has another id", _other_vocab),
]

_FIRSTS = [
    right(0),
    Step(
        "a line lost",
        1,
        "written as pieces, every id is the neighbour of the one that's meant",
        "Which id has the first piece of the vocabulary?",
        fault=True,
    ),
]
_LETTERS = [
    right(str.lower),
    Step(
        "capitals kept",
        str,
        "whatever is written with a capital is `[UNK]`",
        "Which letters do the vocabulary's pieces have?",
        fault=True,
    ),
    Step(
        "the first letter alone",
        lambda text: text[:1].lower() + text[1:],
        "only the text's first letter is made small",
        "What did the model's own tokenizer do with capitals?",
    ),
]
_UNKNOWN = [
    right(_unknown_word),
    Step(
        "a letter unknown",
        _unknown_letters,
        "a word with a letter that isn't known gets several ids",
        "What stands for a word that can't be cut to its end?",
        fault=True,
    ),
    Step(
        "the rest unknown",
        _rest_unknown,
        "what was found of a word stays, and its rest is `[UNK]`",
        "Which part of a word becomes `[UNK]` if it can't be cut to its end?",
    ),
    Step(
        "unknown letters left out",
        _without_unknown,
        "letters that aren't known are left out",
        "What stands for a word that can't be cut to its end?",
    ),
    Step(
        "unknown words left out",
        _word_left_out,
        "words that can't be cut to their end are left out",
        "What stands for such a word?",
    ),
]

_TOKENS_WRONG = [
    wrong(
        word_ids_broken,
        "the program as it was | This is what the broken program returns. Its ids name other "
        "pieces than the text's; what has a capital is `[UNK]`; and a word with a letter that "
        "isn't known gets several ids. → Which piece does the id of `[CLS]` name?",
        program=as_cell(word_ids_broken, "word_ids"),
    ),
    *half_repaired(_words, first=_FIRSTS, letters=_LETTERS, unknown=_UNKNOWN),
    wrong(
        _words(letters=_small_firsts),
        "the first letter of each word alone | You make the first letter of each word small, and a "
        "word can have more capitals than that. → Which letters do the vocabulary's pieces have?",
    ),
    wrong(
        _right_to_left,
        "from the right | You cut words from their end, the longest piece first. → At which end "
        "does WordPiece begin?",
    ),
    wrong(
        _mark_optional,
        "marks optional | Inside a word you take pieces without `##` as well, where one with it "
        "isn't there. These only begin words. → What becomes of a word of which no piece fits the "
        "rest?",
    ),
    wrong(
        _by_heart(1, 2, 3),
        "marks by heart | You know the ids of the three marks by heart, from the example. Another "
        "vocabulary has them elsewhere. → Where does a piece's id stand?",
    ),
    wrong(
        _by_heart(100, 101, 102),
        "marks of BERT's | 100, 101 and 102 are the marks' ids in BERT's own vocabulary. The one "
        "here is another. → Where does a piece's id stand?",
    ),
    wrong(
        _an_end_for_each_word,
        "an end for each word | You put `[SEP]` behind every word. It stands once, at the end of "
        "the text. → What did the broken program put round the pieces?",
    ),
    wrong(
        _words(first=-1),
        "one too large | Your ids are one too large: they're counted from 1. → Which id has the "
        "first piece of the vocabulary?",
    ),
    wrong(
        _words(letters=str.upper),
        "every word unknown | Every word is `[UNK]` with you. That happens if letters are made "
        "large, or if no piece is tried that goes to the end of a word. → Which pieces does your "
        'program look up for "near"?',
    ),
    wrong(
        _words(mark=lambda start: ""),
        "no marks inside | The three faults are mended, and pieces inside a word are looked for "
        "without `##`. → How does the vocabulary write a piece that doesn't begin a word?",
    ),
    wrong(
        _words(stops=lambda start, n: range(start + 1, n + 1)),
        "the shortest first | The three faults are mended, and you take the shortest piece first. "
        "→ In which direction did the broken program go through the ends?",
    ),
    wrong(
        _taken_back,
        "taken back | Where the longest piece leads nowhere you try a shorter one. WordPiece "
        "doesn't look ahead, and nothing is taken back. → What is left of `tome` once `tom` is "
        "taken?",
    ),
    wrong(
        _whole_words,
        "whole words alone | You look up whole words, and what isn't a piece by itself is `[UNK]`. "
        "→ What does WordPiece do with a word that is no piece?",
    ),
    wrong(
        _words(mark=lambda start: "##"),
        "marks everywhere | You look for all pieces with `##`, a word's first one, too. → Which of "
        "a word's pieces begin with it?",
    ),
    wrong(
        _words(stops=lambda start, n: range(n, start + 1, -1)),
        "never a single letter | You never try a piece of one letter: the loop ends one too early. "
        "→ Which number does a `range` leave out?",
    ),
    wrong(
        _words(letters=str.capitalize),
        "the first letter made large | You make a capital of the text's first letter, and the "
        "vocabulary has none. → What did the model's own tokenizer do with capitals?",
    ),
    wrong(
        _words(unknown=_from_unknown),
        "cut on behind [UNK] | What was found before an unknown letter becomes `[UNK]`, and then "
        "the rest of the word is cut on. → What is to happen with the rest?",
    ),
    wrong(
        _words(ends=("", "")),
        "no marks at the ends | The pieces are right, and `[CLS]` and `[SEP]` are missing. → What "
        "did the broken program put round them?",
    ),
    wrong(
        _words(ends=("[CLS]", "")),
        "no [SEP] | The pieces are right, and `[SEP]` is missing at the end. → What did the broken "
        "program put round them?",
    ),
    wrong(
        _words(ends=("", "[SEP]")),
        "no [CLS] | The pieces are right, and `[CLS]` is missing in front. → What did the broken "
        "program put round them?",
    ),
    wrong(
        _words(ends=("[SEP]", "[CLS]")),
        "the ends changed places | The pieces are right; `[CLS]` and `[SEP]` have changed places. "
        "→ Which stands in front?",
    ),
]


def _tokens_recursive(text: Any, vocab: Any) -> Any:
    def cut(word: str, mark: str = "") -> Any:
        if not word:
            return []
        for end in range(len(word), 0, -1):
            if mark + word[:end] in vocab:
                rest = cut(word[end:], "##")
                return None if rest is None else [mark + word[:end], *rest]
        return None

    pieces = ["[CLS]"]
    for word in text.lower().split():
        pieces += cut(word) or ["[UNK]"]
    return [vocab.index(piece) for piece in [*pieces, "[SEP]"]]


def _tokens_prefixes(text: Any, vocab: Any) -> Any:
    """Look for the longest piece that a word begins with."""
    ids = [vocab.index("[CLS]")]
    for word in text.casefold().split():
        rest, own = word, []
        while rest:
            fits = [i for i, piece in enumerate(vocab) if rest.startswith(piece)]
            if not fits:
                own = [vocab.index("[UNK]")]
                break
            best = max(fits, key=lambda i: len(vocab[i]))
            own.append(best)
            rest = rest[len(vocab[best]) :]
            rest = "##" + rest if rest else ""
        ids += own
    return np.array([*ids, vocab.index("[SEP]")])


def _tokens_torch(text: Any, vocab: Any) -> Any:
    import torch

    return torch.tensor(_tokens_recursive(text, vocab))


TOKENS = Exercise(
    id="15.bug_tokens",
    function="word_ids",
    reference=word_ids,
    cases=_TOKENS_CASES,
    misconceptions=_TOKENS_WRONG,
    alternatives=[
        ("recursion", _tokens_recursive),
        ("beginnings", _tokens_prefixes),
        Alternative(name="torch", right=_tokens_torch, backend="torch"),
    ],
    hints=[
        "Print pieces, not ids: `[vocab[i] for i in ids]`. Then try words of other kinds, and "
        "compare with what chapter 03's rules make of them by hand.",
        "The three are in three places: how pieces get their ids, what is done with a text before "
        "it's cut, and what happens where no piece fits.",
        "A word's pieces count only once it's cut to its end. Where could they wait until then, "
        "and what takes their place if that fails?",
    ],
    points=4,
    minutes=20,
    difficulty=2,
)

#: The programs that the debugging exercises begin with.
BROKEN: dict[str, Callable[..., Any]] = {
    "15.bug_sides": next_logits_broken,
    "15.bug_tokens": word_ids_broken,
}
