"""A progress bar that leaves nothing behind, wherever it is shown."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from course_lib.validation import check_at_least

if TYPE_CHECKING:
    from tqdm import tqdm  # type: ignore[import-untyped]

__all__ = ["progress_bar"]


def progress_bar(total: int, done: int = 0, *, shown: bool = True) -> tqdm:
    """Return a bar of tqdm's that vanishes when it is closed.

    In a notebook tqdm's own bar is a widget, whose state would be stored with the notebook and is
    dead when it is opened again. This one is a line of text there that ends empty. ``TQDM_DISABLE``
    in the environment turns it off.

    Parameters
    ----------
    total : int
        Steps in all.
    done : int, default 0
        Steps that an earlier run has taken.
    shown : bool, default True
        False turns the bar off.

    Returns
    -------
    tqdm

    Raises
    ------
    ValueError
        If `total` or `done` isn't a whole number of at least 0.
    """
    check_at_least("total", total, 0)
    check_at_least("done", done, 0)
    from tqdm import tqdm  # comes with torch; what needs none of the two can import this module

    kernel = getattr(_shell(), "kernel", None)
    options: dict[str, Any] = {} if kernel is None else {"file": _CellOutput(), "ncols": 100}
    if not shown:  # `disable=False` would overrule the environment
        options["disable"] = True
    return tqdm(total=total, initial=done, leave=False, **options)


def _shell() -> Any:
    """Return IPython's shell, or None outside of one. Nobody is made to import IPython."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


class _CellOutput(io.StringIO):
    """A text file whose last line is shown in the output of the notebook's running cell."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None

    def write(self, text: str) -> int:
        from IPython.display import display

        data = {"text/plain": text.strip()}
        if self._handle is not None:
            self._handle.update(data, raw=True)
        elif data["text/plain"]:
            self._handle = display(data, raw=True, display_id=True)
        return len(text)
