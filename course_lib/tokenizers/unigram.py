"""Unigram, SentencePiece's other model: of all ways to cut a text, the most probable one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf, log

from course_lib.validation import (
    check_at_least,
    check_number,
    check_text,
    each_id,
)

__all__ = ["Unigram", "substring_log_probs", "viterbi"]

# A character that no piece spells is this much worse than the worst piece, as in SentencePiece
# and `tokenizers`.
UNKNOWN_PENALTY = 10.0


def viterbi(
    text: str, log_probs: Mapping[str, float], unknown: float | None = None
) -> tuple[list[str], float]:
    """Cut a text into the pieces whose log-probabilities have the largest sum.

    There are up to 2ⁿ⁻¹ ways to cut n characters, but the best way to reach a place doesn't depend
    on how the text goes on: best[end] = max over start of best[start] + log p(text[start:end]).
    That takes n · (length of the longest piece) steps.

    Parameters
    ----------
    text : str
    log_probs : mapping of str to float
        The pieces and their scores. A piece has the same score wherever it stands; that's what
        *unigram* means.
    unknown : float, optional
        The score of a character that isn't a piece itself. Without it every character of `text`
        must be covered by pieces.

    Returns
    -------
    pieces : list of str
        Together they are `text`. Of several best ways the one whose last piece is longest, and so
        on for what stands before it.
    score : float
        The sum of their log-probabilities, added from left to right; 0 for an empty text.

    Raises
    ------
    ValueError
        If `log_probs` isn't a mapping of strings that aren't empty to finite numbers, or the pieces
        can't spell `text` and there's no `unknown`.

    References
    ----------
    Kudo, "Subword Regularization", 2018 (arXiv:1804.10959), section 3.2. Viterbi, "Error bounds for
    convolutional codes and an asymptotically optimum decoding algorithm", 1967.

    Examples
    --------
    >>> log_probs = {"h": -3.0, "u": -2.0, "g": -2.0, "s": -3.0, "hu": -4.0, "ug": -3.0, "gs": -3.5}
    >>> viterbi("hugs", log_probs)  # h ug s has -9, as hu g s has
    (['hu', 'gs'], -7.5)
    """
    check_text("text", text)
    _check_scores("log_probs", log_probs)
    if unknown is not None:
        check_number("unknown", unknown)
    return _best_cut(text, log_probs, max(map(len, log_probs), default=1), unknown)


def substring_log_probs(
    words: Mapping[str, int], size: int, max_chars: int = 8
) -> dict[str, float]:
    """Choose pieces and score them by counting alone: the seed from which training would start.

    Every character is a piece, and the substrings of words that occur most often; the score is the
    logarithm of how often a piece occurs among all kept. Every substring of a word counts, as if it
    were used there, so that pieces inside other pieces get more than their due. Training (EM) goes
    on from here: it counts how often a piece is *used*, and drops those that are missed least.

    Parameters
    ----------
    words : mapping of str to int
        Words and how often each occurs.
    size : int
        How many pieces are wanted. There may be fewer, if `words` has no more substrings.
    max_chars : int, default 8
        The longest piece.

    Returns
    -------
    dict of str to float
        The most frequent first, equally frequent ones by name. The probabilities sum to 1.

    Raises
    ------
    ValueError
        If `words` holds anything but strings that aren't empty and counts of at least 1, or `size`
        leaves no room for all characters, or `max_chars` is less than 1.

    References
    ----------
    Kudo, "Subword Regularization", 2018 (arXiv:1804.10959), section 3.2.

    Examples
    --------
    >>> words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    >>> log_probs = substring_log_probs(words, size=12)
    >>> " ".join(log_probs)
    'u g ug p pu n un h hu hug s b'
    >>> viterbi("pug", log_probs)[0]  # as probable as pu g
    ['p', 'ug']
    """
    if not isinstance(words, Mapping) or not words:
        raise ValueError(f"words must be a mapping of words to counts, not empty; got {words!r}")
    check_at_least("max_chars", max_chars, 1)
    counts: Counter[str] = Counter()
    for word, n in words.items():
        if not isinstance(word, str) or not word:
            raise ValueError(f"words must be strings that aren't empty; got {word!r}")
        check_at_least(f"words[{word!r}]", n, 1)
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + max_chars) + 1):
                counts[word[start:end]] += int(n)
    characters = [piece for piece in counts if len(piece) == 1]
    check_at_least("size", size, len(characters))
    longer = [piece for piece in counts if len(piece) > 1]
    longer.sort(key=lambda piece: (-counts[piece], piece))
    kept = characters + longer[: size - len(characters)]
    kept.sort(key=lambda piece: (-counts[piece], piece))
    total = sum(counts[piece] for piece in kept)
    return {piece: log(counts[piece] / total) for piece in kept}


class Unigram:
    """Text to ids and back with pieces and their log-probabilities, as SentencePiece does it.

    A space is written as a visible `marker` that begins the next word, and the text's first word
    has one too, unless it has a space before it already: "a bug" is ▁a ▁bug, and " a bug" too. No
    piece reaches over a marker. So texts come back but for one leading space, and the unknown.

    A character that no piece spells costs 10 more than the worst piece, and a run of such
    characters is one unknown token: so do SentencePiece and the `tokenizers` library.

    Parameters
    ----------
    pieces : mapping of str to float
        The pieces and their log-probabilities, in the order of the ids.
    unknown : str or None, default "<unk>"
        The piece that stands for what can't be spelled; it's in `pieces`, its own score counts
        among the others when the worst is looked for, and it matches its own spelling. None:
        nothing may be unknown.
    marker : str or None, default "▁" (U+2581)
        One character. None: the text is taken as it is, and pieces may reach over spaces.

    Raises
    ------
    ValueError
        If `pieces` is empty or isn't a mapping of strings that aren't empty to finite numbers, or
        lacks `unknown`, or `marker` isn't one character.

    References
    ----------
    Kudo, "Subword Regularization", 2018 (arXiv:1804.10959). Kudo and Richardson, "SentencePiece",
    2018 (arXiv:1808.06226).

    Examples
    --------
    >>> u = Unigram({"<unk>": -9.0, "▁": -3.0, "▁b": -3.0, "ug": -2.0, "u": -4.0, "g": -4.0})
    >>> u.segment("bug ugXY")
    ['▁b', 'ug', '▁', 'ug', 'XY']
    >>> u.encode("bug ugXY")
    [2, 3, 1, 3, 0]
    >>> u.decode([2, 3, 1, 3])
    'bug ug'
    """

    def __init__(
        self,
        pieces: Mapping[str, float],
        unknown: str | None = "<unk>",
        marker: str | None = "▁",
    ) -> None:
        _check_scores("pieces", pieces)
        if not pieces:
            raise ValueError("pieces must hold at least one piece; got none")
        if unknown is not None and (not isinstance(unknown, str) or unknown not in pieces):
            raise ValueError(f"unknown must be one of the pieces, or None; got {unknown!r}")
        if marker is not None and (not isinstance(marker, str) or len(marker) != 1):
            raise ValueError(f"marker must be one character, or None; got {marker!r}")
        self.log_probs = {piece: float(score) for piece, score in pieces.items()}
        self.unknown, self.marker = unknown, marker
        self._pieces = tuple(self.log_probs)
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._longest = max(map(len, self._pieces))
        worst = min(self.log_probs.values())
        self._unknown_score = None if unknown is None else worst - UNKNOWN_PENALTY

    def __len__(self) -> int:
        """Count the pieces: ``vocab_size``."""
        return len(self._pieces)

    def segment(self, text: str) -> list[str]:
        """Return the pieces of a text, what's unknown in its own spelling.

        Raises
        ------
        ValueError
            If `text` isn't a string, or can't be spelled and there's no `unknown`.
        """
        check_text("text", text)
        found: list[str] = []
        for part in self._parts(text):
            pieces, _ = _best_cut(part, self.log_probs, self._longest, self._unknown_score)
            run = False  # whether the piece before was unknown; a marked word begins anew
            for piece in pieces:
                is_unknown = piece == self.unknown or piece not in self._ids
                if run and is_unknown:
                    found[-1] += piece
                else:
                    found.append(piece)
                run = is_unknown
        return found

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises
        ------
        ValueError
            As `segment` does.
        """
        pieces = self.segment(text)
        if self.unknown is None:
            return [self._ids[piece] for piece in pieces]
        unknown = self._ids[self.unknown]
        return [self._ids.get(piece, unknown) for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids: the pieces joined, markers made spaces, the first one dropped.

        Parameters
        ----------
        ids : iterable of int
            A list, or an array or tensor with one axis.

        Raises
        ------
        ValueError
            If `ids` can't be gone through, or an id isn't a whole number from 0 to
            ``len(self) - 1``.
        """
        text = "".join(self._pieces[i] for i in each_id(ids, len(self._pieces)))
        if self.marker is None:
            return text
        return text.removeprefix(self.marker).replace(self.marker, " ")

    def _parts(self, text: str) -> list[str]:
        """Split a text before each marker; without a marker it stays whole."""
        if self.marker is None or not text:
            return [text]
        marked = text.replace(" ", self.marker).removeprefix(self.marker)
        return [self.marker + word for word in marked.split(self.marker)]


def _check_scores(name: str, scores: Mapping[str, float]) -> None:
    """Raise unless `scores` maps strings that aren't empty to finite numbers."""
    if not isinstance(scores, Mapping):
        raise ValueError(f"{name} must be a mapping of pieces to numbers; got {scores!r}")
    for piece, score in scores.items():
        if not isinstance(piece, str) or not piece:
            raise ValueError(f"{name} must have strings that aren't empty as keys; got {piece!r}")
        check_number(f"{name}[{piece!r}]", score)


def _best_cut(
    text: str, log_probs: Mapping[str, float], longest: int, unknown: float | None
) -> tuple[list[str], float]:
    """Do what `viterbi` says, without looking through all pieces first."""
    best, begins = _best_ways(len(text), _pieces_in(text, log_probs, longest, unknown))
    if best[-1] == -inf:
        reached = max(i for i, score in enumerate(best) if score > -inf)
        far = f"they reach place {reached} of {text!r} at most"
        raise ValueError(f"text must be spelled by the pieces; {far}")
    pieces: list[str] = []
    end = len(text)
    while end > 0:
        pieces.append(text[begins[end] : end])
        end = begins[end]
    return pieces[::-1], best[-1]


def _best_ways(
    n: int,
    pieces: Iterable[tuple[int, int, float]],  # from i to j, log p
) -> tuple[list[float], list[int]]:
    """Return the best score up to each place, and where its last piece begins."""
    best, begins = [0.0] + [-inf] * n, [0] * (n + 1)
    for i, j, log_prob in pieces:  # in the order of j
        if best[i] + log_prob > best[j]:
            best[j], begins[j] = best[i] + log_prob, i
    return best, begins


def _pieces_in(
    text: str, log_probs: Mapping[str, float], longest: int, unknown: float | None
) -> Iterator[tuple[int, int, float]]:
    """Yield where each piece of a text begins and ends, and its score, in the order of the ends."""
    for end in range(1, len(text) + 1):
        for start in range(max(0, end - longest), end):
            score = log_probs.get(text[start:end])
            if score is None and end - start == 1:
                score = unknown
            if score is not None:
                yield start, end, score
