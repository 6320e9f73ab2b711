"""Grammars as functions that make choices: walked through at random, counted, or searched.

A grammar is a function ``f(choose, ...)`` that asks `choose` whenever there are several ways to go
on. With `Choices` it makes a random sentence; `count` says how many sentences it has; with `Search`
it finds the sentences that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, TypeVar

__all__ = ["Choices", "count", "search"]

T = TypeVar("T")


class Choices:
    """How a sentence comes about: one choice after the other, here at random."""

    def __init__(self, seed: int) -> None:
        self._random = Random(int(seed)).random
        self.combinations: set[tuple[str, str]] = set()

    def one(self, options: Sequence[T]) -> T:
        """Choose one of several, each as likely as the others."""
        return options[int(self._random() * len(options))]

    def maybe(self, probability: float) -> bool:
        """Choose whether to."""
        return self._random() < probability

    def part(self, function: Callable[..., T], *arguments: Any) -> T:
        """Make the choices of a part of the sentence.

        What is chosen there must not decide which choices follow: then the number of sentences is
        a product. What does decide is chosen before, and passed on.
        """
        return function(self, *arguments)

    def note(self, *combination: str) -> None:
        """Remember which words were put together."""
        first, second = combination
        self.combinations.add((first, second))


class First(Choices):
    """Always the first option, and no extras: any one sentence."""

    def __init__(self) -> None:
        self.combinations = set()

    def one(self, options: Sequence[T]) -> T:
        return options[0]

    def maybe(self, probability: float) -> bool:
        return False


class Walk(Choices):
    """One of all walks through a function's choices; `advance` goes on to the next.

    With `expand` a part is walked through too; without, it is counted and multiplied.
    """

    def __init__(self, expand: bool) -> None:
        self._expand = expand
        self._path: list[list[int]] = []
        self.begin()

    def begin(self) -> None:
        self._at = 0
        self.factor = 1
        self.combinations = set()

    def one(self, options: Sequence[T]) -> T:
        if self._at == len(self._path):
            self._path.append([0, len(options)])
        self._at += 1
        return options[self._path[self._at - 1][0]]

    def maybe(self, probability: float) -> bool:
        return Walk.one(self, (False, True))

    def part(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._expand:
            return function(self, *arguments)
        self.factor *= count(function, *arguments)
        return function(First(), *arguments)

    def advance(self) -> bool:
        """Prepare the next walk; tell whether there is one."""
        while self._path and self._path[-1][0] == self._path[-1][1] - 1:
            self._path.pop()
        if self._path:
            self._path[-1][0] += 1
        self.begin()
        return bool(self._path)


@cache
def count(function: Callable[..., Any], *arguments: Any) -> int:
    """Count the ways through the choices of a function, exactly.

    Parts are counted once and multiplied, so that billions take no time; see `Choices.part`.

    Examples
    --------
    >>> def dish(choose):
    ...     hot = choose.maybe(0.5)
    ...     return choose.one(["soup", "fish"] if hot else ["bread", "fruit", "milk"])
    >>> count(dish)
    5
    """
    walk = Walk(expand=False)
    total, more = 0, True
    while more:
        function(walk, *arguments)
        total += walk.factor
        more = walk.advance()
    return total


class DeadEnd(Exception):
    """No option is admitted."""


class Search(Walk):
    """One of all walks that take admitted options alone, and whose parts fit."""

    def __init__(self, admits: Callable[[Any], bool], fits: Callable[[Any], bool]) -> None:
        super().__init__(expand=True)
        self._admits = admits
        self._fits = fits

    def one(self, options: Sequence[T]) -> T:
        admitted = [option for option in options if self._admits(option)]
        if not admitted:
            raise DeadEnd
        return super().one(admitted)

    def part(self, function: Callable[..., T], *arguments: Any) -> T:
        result = super().part(function, *arguments)
        if not self._fits(result):
            raise DeadEnd
        return result


def search(
    function: Callable[[Any], T],
    admits: Callable[[Any], bool],
    fits: Callable[[Any], bool] = lambda part: True,
) -> Iterator[T]:
    """Return, one after the other, the results of the walks that are wanted.

    Parameters
    ----------
    function : callable
        The grammar.
    admits : callable
        Tells of an option whether it may be taken.
    fits : callable, optional
        Tells of the result of a part whether to go on with it.

    Examples
    --------
    >>> def meal(choose):
    ...     return choose.one(["big", "small"]) + " " + choose.one(["soup", "fish"])
    >>> list(search(meal, lambda option: option != "big"))
    ['small soup', 'small fish']
    """
    walk = Search(admits, fits)
    more = True
    while more:
        with suppress(DeadEnd):
            yield function(walk)
        more = walk.advance()
