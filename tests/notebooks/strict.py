"""What nbval lets pass and this course doesn't: a pytest plugin (`-p tests.notebooks.strict`).

nbval compares what a cell gives with what is stored, unless the cell is tagged
`nbval-ignore-output`. Such a cell may still not write to stderr: a warning there is 0 points under
nbgrader and a red box in front of a reader. And a cell that was never run is not compared at all.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest
from nbval.plugin import IPyNbCell, NbCellError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a cell that writes to stderr, whatever its tags say, and one that was never run."""
    yield
    if not isinstance(item, IPyNbCell):
        return
    if item.cell.source.strip() and item.cell.execution_count is None:
        raise NbCellError(item.cell_num, "The stored cell was never run", item.cell.source)
    noise = "".join(
        out.text
        for out in item.test_outputs or []
        if out.output_type == "stream" and out.name == "stderr"
    )
    if noise:
        raise NbCellError(
            item.cell_num, "The cell writes to stderr", item.cell.source, traceback=noise
        )
