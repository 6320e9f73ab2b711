"""Language models that count: n-grams with three kinds of smoothing, in numpy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from course_lib.data.vocabulary import BOS
from course_lib.validation import (
    check_at_least,
    check_id_list,
    check_number,
    check_sequences,
    check_several,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NGram", "back_off", "continuation_counts", "count", "windows"]

Ids: TypeAlias = "Sequence[int] | NDArray"
SMOOTHINGS = ("add-k", "backoff", "kneser-ney")


def windows(
    sequences: Iterable[Sequence[int]], context: int, start: int = BOS
) -> tuple[NDArray, NDArray]:
    """Return every token of some sequences, and the `context` tokens before it.

    Parameters
    ----------
    sequences : iterable of sequences of ids
        None holds `start`.
    context : int
        How many tokens back a model looks; it may be 0.
    start : int, default `BOS`
        Stands where the context reaches beyond a sequence's beginning.

    Returns
    -------
    contexts : int64 array, (n, context)
    targets : int64 array, (n,)

    Raises
    ------
    ValueError
        If `context` or `start` isn't a whole number of at least 0, or `sequences`
        holds what isn't a sequence of such.

    Examples
    --------
    >>> contexts, targets = windows([[5, 6, 2]], context=2)
    >>> contexts.tolist()
    [[1, 1], [1, 5], [5, 6]]
    >>> targets.tolist()
    [5, 6, 2]
    """
    check_at_least("context", context, 0)
    check_at_least("start", start, 0)
    rows, targets = [], []
    for sequence in check_sequences("sequences", sequences):
        padded = [start] * context + sequence
        for t in range(context, len(padded)):
            rows.append(padded[t - context : t])
            targets.append(padded[t])
    contexts = np.array(rows, dtype=np.int64).reshape(len(targets), context)
    return contexts, np.array(targets, dtype=np.int64)


class NGram:
    """Predicts a token from the `order` − 1 tokens before it, by how often that was seen.

    Write c(h) for how often the context h was seen, c(hw) for how often w followed it, h′ for h
    without its first token, and p(w | h′) for the model of the next lower order; below order 1 it
    is uniform. A context that was never seen takes p(w | h′) as it is. For the others:

    - ``"add-k"``: (c(hw) + k) / (c(h) + k |V|), with nothing from lower orders.
    - ``"backoff"``: (c(hw) − k) / c(h) where w was seen after h; what the discount has freed goes
      to all other tokens in proportion to p(w | h′). That is Katz' backoff with the absolute
      discount of Ney, Essen and Kneser.
    - ``"kneser-ney"``: max(c(hw) − k, 0) / c(h) plus p(w | h′) times what was freed. In lower
      orders c(hw) is the number of different tokens seen before hw.

    Parameters
    ----------
    order : int
        1 looks at no context, 3 (a trigram) at two tokens.
    vocab_size : int
        At least 2, since `BOS` is a token.
    smoothing : {"backoff", "add-k", "kneser-ney"}
    k : float, default 0.5
        What is added to each count, at least 0, or taken from it: then below 1.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Katz, "Estimation of probabilities from sparse data for the language model component of a speech
    recognizer", 1987. Ney, Essen and Kneser, "On structuring probabilistic dependences in
    stochastic language modelling", 1994. Kneser and Ney, "Improved backing-off for m-gram language
    modeling", 1995. Chen and Goodman, "An empirical study of smoothing techniques for language
    modeling", 1998, compare them.

    Examples
    --------
    >>> model = NGram(order=2, vocab_size=6, k=0.5).fit([[4, 5, 4, 5, 2]])
    >>> np.exp(model.log_probabilities([5])).round(3)  # 5 was followed once by 4 and once by 2
    array([0.083, 0.083, 0.25 , 0.083, 0.25 , 0.25 ])
    """

    def __init__(
        self, order: int, vocab_size: int, *, smoothing: str = "backoff", k: float = 0.5
    ) -> None:
        check_at_least("order", order, 1)
        check_at_least("vocab_size", vocab_size, 2)
        if not isinstance(smoothing, str) or smoothing not in SMOOTHINGS:
            raise ValueError(f"smoothing must be one of {SMOOTHINGS}; got {smoothing!r}")
        check_number("k", k)
        if smoothing == "add-k" and k < 0.0:
            raise ValueError(f"k must be at least 0 to be added to counts; got {k!r}")
        if smoothing != "add-k" and not 0.0 < k < 1.0:
            raise ValueError(f"k must be between 0 and 1 to be taken from counts; got {k!r}")
        self.order, self.vocab_size = int(order), int(vocab_size)
        self.smoothing, self.k = smoothing, float(k)
        self._tables: dict[tuple[int, ...], tuple[NDArray, NDArray]] = {}

    def fit(self, sequences: Iterable[Ids] | Ids) -> NGram:
        """Count, from nothing, and return the model itself.

        Parameters
        ----------
        sequences : iterable of sequences of ids, or one sequence
            Without `BOS`: that is put before each.

        Returns
        -------
        NGram

        Raises
        ------
        ValueError
            If there is no token, or one that isn't a whole number from 0 to `vocab_size` − 1.
        """
        check_several("sequences", sequences, "sequences of ids, or one sequence of ids")
        several: list[Any] = list(sequences)
        if several and _is_single(several[0]):
            ids = [check_id_list("sequences", several, self.vocab_size)]
        else:
            ids = check_sequences("sequences", several, self.vocab_size)
        if not any(ids):
            raise ValueError("sequences must hold at least one token; got none")
        counts = count(*windows(ids, self.order - 1))
        if self.smoothing == "kneser-ney":
            counts = continuation_counts(counts, self.order)
        self._tables = {
            context: (np.array(list(after)), np.array(list(after.values()), dtype=np.float64))
            for context, after in counts.items()
        }
        return self

    def probabilities(self, context: Ids) -> NDArray[np.float64]:
        """Return p(· | context).

        Parameters
        ----------
        context : sequence of ids
            The tokens so far, from the sequence's beginning, or at least `order` − 1 of them.

        Returns
        -------
        float64 array, (vocab_size,)
            The sum is 1.

        Raises
        ------
        ValueError
            If the model hasn't been fitted, or `context` isn't a sequence of whole numbers from 0
            to `vocab_size` − 1.
        """
        self._check_fitted()
        seen = [BOS] * (self.order - 1) + check_id_list("context", context, self.vocab_size)
        return self._probabilities(seen[len(seen) - self.order + 1 :])

    def _probabilities(self, seen: list[int]) -> NDArray[np.float64]:
        """Return p(· | the last `order` − 1 tokens)."""
        if self.smoothing == "add-k":
            return self._add_k(tuple(seen))
        p = np.full(self.vocab_size, 1.0 / self.vocab_size)
        for start in range(len(seen), -1, -1):  # from no context to the whole
            if tuple(seen[start:]) not in self._tables:
                break
            tokens, counts = self._tables[tuple(seen[start:])]
            kept = (counts - self.k) / counts.sum()
            freed = self.k * len(counts) / counts.sum()
            if self.smoothing == "backoff":
                p = back_off(p, tokens, kept, freed)
            else:
                p = freed * p
                p[tokens] += kept
        return p

    def log_probabilities(self, context: Ids) -> NDArray[np.float64]:
        """Return log p(· | context), −∞ where the probability is 0: see `probabilities`."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(context))

    def score(self, ids: Ids) -> NDArray[np.float64]:
        """Return the log-probability of each token of a sequence, given those before it.

        Parameters
        ----------
        ids : sequence of ids, (n,)
            Without `BOS`.

        Returns
        -------
        float64 array, (n,)

        Raises
        ------
        ValueError
            If there is no token, one that isn't a whole number from 0 to `vocab_size` − 1, or the
            model hasn't been fitted.
        """
        self._check_fitted()
        tokens = check_id_list("ids", ids, self.vocab_size)
        if not tokens:
            raise ValueError("ids must hold at least one token; got none")
        contexts, _ = windows([tokens], self.order - 1)
        pairs = zip(contexts.tolist(), tokens, strict=True)
        with np.errstate(divide="ignore"):
            return np.log([self._probabilities(context)[token] for context, token in pairs])

    def n_parameters(self) -> int:
        """Return how many counts the model has stored."""
        return sum(len(tokens) for tokens, _ in self._tables.values())

    def _add_k(self, context: tuple[int, ...]) -> NDArray[np.float64]:
        counts = np.full(self.vocab_size, self.k, dtype=np.float64)
        if context in self._tables:
            tokens, seen = self._tables[context]
            counts[tokens] += seen
        # With k = 0 a context that was never seen says nothing.
        uniform = np.full(self.vocab_size, 1.0 / self.vocab_size)
        return counts / counts.sum() if counts.any() else uniform

    def _check_fitted(self) -> None:
        if not self._tables:
            raise ValueError("the model must be fitted before it is asked; call fit first")


def _is_single(x: Any) -> bool:
    """Tell one id, or what stands in the place of one, from a sequence."""
    return not isinstance(x, Iterable) or getattr(x, "shape", None) == ()


def count(contexts: NDArray, targets: NDArray) -> dict[tuple[int, ...], Counter]:
    """Count which tokens followed each context, and each shorter end of it.

    Parameters
    ----------
    contexts : int array, (n, context)
    targets : int array, (n,)

    Returns
    -------
    dict from a context to a Counter of the tokens after it

    Examples
    --------
    >>> counts = count(np.array([[4], [5], [4]]), np.array([5, 4, 5]))
    >>> counts[4,], counts[()]
    (Counter({5: 2}), Counter({5: 2, 4: 1}))
    """
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for context, token in zip(contexts.tolist(), targets.tolist(), strict=True):
        for start in range(len(context) + 1):
            counts[tuple(context[start:])][token] += 1
    return dict(counts)


def back_off(p: NDArray, tokens: NDArray, kept: NDArray, freed: float) -> NDArray:
    """Give seen tokens what they kept, and all others a share of what was freed.

    Parameters
    ----------
    p : float array, (vocab_size,)
        What a shorter context says.
    tokens : int array, (m,)
        Those seen after the context.
    kept : float array, (m,)
        Their probabilities, discounted.
    freed : float
        What the discount has left over, 1 − the sum of `kept`: shared in proportion to `p`.

    Returns
    -------
    float64 array, (vocab_size,)

    Examples
    --------
    >>> back_off(np.array([0.5, 0.25, 0.25]), np.array([0]), np.array([0.75]), 0.25)
    array([0.75 , 0.125, 0.125])
    """
    rest = p.copy()
    rest[tokens] = 0.0
    if rest.sum() == 0.0:  # every token was seen: what was freed goes back
        kept = kept / kept.sum()
    else:
        rest *= freed / rest.sum()
    rest[tokens] = kept
    return rest


def continuation_counts(
    counts: dict[tuple[int, ...], Counter[int]], order: int
) -> dict[tuple[int, ...], Counter[int]]:
    """Replace the counts of shorter contexts by how many different tokens stood before them.

    Contexts of full length keep their counts.

    Parameters
    ----------
    counts : dict
        From `count`.
    order : int
        One more than the length of the longest contexts.

    Returns
    -------
    dict from a context to a Counter of the tokens after it

    Examples
    --------
    >>> counts = count(np.array([[4], [5], [4]]), np.array([5, 4, 5]))
    >>> continuation_counts(counts, order=2)[()]  # 5 came after 4 alone, 4 after 5 alone
    Counter({5: 1, 4: 1})
    """
    kept: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for context, after in counts.items():
        if len(context) == order - 1:
            kept[context].update(after)
        if context:
            kept[context[1:]].update(dict.fromkeys(after, 1))
    return dict(kept)
