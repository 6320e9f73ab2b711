"""Streams that stand in for a notebook's while a student's function runs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["KEPT", "NoKeyboard", "Sink"]

#: How many characters of what a function prints are kept.
KEPT = 2000


class Sink(io.TextIOBase):
    """A text stream that keeps the beginning of what is written and counts the rest."""

    def __init__(self, kept: int = KEPT) -> None:
        self._limit = kept
        self._parts: list[str] = []
        self._held = 0
        self.total = 0
        self.buffer = _ByteSink(self)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.total += len(text)
        if self._held < self._limit:
            part = text[: self._limit - self._held]
            self._parts.append(str(part))
            self._held += len(part)
        return len(text)

    def close(self) -> None:
        """Stay open: a student may close ``sys.stdout``."""

    @property
    def text(self) -> str:
        """The beginning of what was written."""
        return "".join(self._parts)


class _ByteSink(io.RawIOBase):
    """What ``sys.stdout.buffer`` is: bytes go to the same place as text."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._sink.write(raw.decode("utf-8", "replace"))
        return len(raw)

    def close(self) -> None:
        """Stay open."""


class NoKeyboard(io.TextIOBase):
    """A standard input that refuses to be read."""

    def __init__(self, refuse: Callable[[], NoReturn]) -> None:
        self._refuse = refuse

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> str:
        self._refuse()

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        self._refuse()

    def close(self) -> None:
        """Stay open."""
