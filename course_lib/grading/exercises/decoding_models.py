"""Small language models that the exercises of decoding write with: rules, not networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.grading.values import is_tensor, to_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LanguageModel", "drawn", "scripted", "tree"]

Prefix = tuple[int, ...]


class LanguageModel:
    """A rule from the tokens so far to the logits of the next one, called as a decoder is.

    Parameters
    ----------
    name : str
        What a report prints of it.
    rule : callable
        From a tuple of token ids, one at least, to an array (V,).

    Examples
    --------
    >>> model = LanguageModel("twice the last token", lambda prefix: np.eye(9)[2 * prefix[-1]])
    >>> model
    twice the last token
    >>> model(np.array([[1, 2, 4]])).argmax(axis=-1)
    array([[2, 4, 8]])
    """

    def __init__(self, name: str, rule: Callable[[Prefix], NDArray]) -> None:
        self._name = name
        self._rule = rule

    def __repr__(self) -> str:
        return self._name

    def __call__(self, ids: Any) -> Any:
        """Return logits (b, n, V) for ids (b, n): at each place those of the token behind it."""
        if is_tensor(ids):
            return to_tensors(self(ids.detach().cpu().numpy()))
        ids = np.asarray(ids)
        if ids.ndim != 2 or ids.size == 0:
            raise ValueError(f"the model takes ids of shape (b, n); got {ids.shape}")
        if ids.dtype.kind not in "iu":
            raise ValueError(f"the model takes whole numbers as ids; got {ids.dtype}")
        if ids.min() < 0:
            raise IndexError(f"no token has the id {ids.min()}")
        rows = [[self._rule((*row[: t + 1],)) for t in range(len(row))] for row in ids.tolist()]
        return np.array(rows)


def _noise(seed: int, prefix: Prefix, size: int) -> NDArray:
    return np.random.default_rng([seed, *prefix]).normal(size=size).round(2)


def scripted(
    lengths: Mapping[int, int], *, n_prompt: int, vocab_size: int, eos: int, pad: int, seed: int
) -> LanguageModel:
    """Make a model that writes as many tokens as the prompt's last one says, then <eos>.

    Parameters
    ----------
    lengths : mapping
        From the last token of a prompt to how many tokens are written, <eos> included.
    n_prompt, vocab_size, eos, pad, seed : int

    Returns
    -------
    LanguageModel
        Behind <eos> it goes on with other tokens, as trained models do.
    """
    words = [token for token in range(vocab_size) if token not in (eos, pad, 1)]

    @lru_cache(maxsize=4096)
    def rule(prefix: Prefix) -> NDArray:
        logits = _noise(seed, prefix, vocab_size) - 3.0
        written = len(prefix) - n_prompt
        if written >= 0:
            last = written + 1 == lengths.get(prefix[n_prompt - 1], 0)
            best = eos if last else words[sum(prefix) % len(words)]
            logits[best] = logits.max() + 1.0
        return logits

    return LanguageModel("a model that looks at all tokens so far", rule)


def tree(
    name: str,
    branches: Mapping[Prefix, Mapping[int, float]],
    elsewhere: Mapping[int, float],
    *,
    n_prompt: int,
    vocab_size: int,
) -> LanguageModel:
    """Make a model of a hand-made tree.

    Parameters
    ----------
    name : str
    branches : mapping
        From what has been written to the probabilities of the next tokens; those left out are
        next to impossible.
    elsewhere : mapping
        The probabilities where a prefix isn't in the tree.
    n_prompt, vocab_size : int

    Returns
    -------
    LanguageModel
        Its logits are log-probabilities and a number that depends on the prefix.
    """

    def rule(prefix: Prefix) -> NDArray:
        p = np.full(vocab_size, 1e-6)
        for token, probability in branches.get(prefix[n_prompt:], elsewhere).items():
            p[token] = probability
        return np.asarray(np.log(p) + 2.0 * len(prefix) - prefix[-1])

    return LanguageModel(name, rule)


def drawn(
    *, vocab_size: int, eos: int, seed: int, spread: float = 1.5, never: Sequence[int] = ()
) -> LanguageModel:
    """Make a model with random logits for every prefix.

    Parameters
    ----------
    vocab_size, eos, seed : int
    spread : float, default 1.5
        Standard deviation of the logits.
    never : sequence of int
        Tokens that are never likely: <pad> and <bos>.

    Returns
    -------
    LanguageModel
    """

    @lru_cache(maxsize=65536)
    def rule(prefix: Prefix) -> NDArray:
        logits = spread * _noise(seed, prefix, vocab_size)
        logits[list(never)] = -15.0
        return logits + 2.0 * len(prefix) - prefix[-1]

    return LanguageModel("a model that looks at all tokens so far", rule)
