"""How nbgrader runs with this course: copy this file into the folder that holds `source/`.

nbgrader reads it from the folder in which its commands are given. `tests/nbgrader` uses it too.
"""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import (  # type: ignore[import-untyped]
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    OverwriteCells,
    OverwriteKernelspec,
)


class DropCopies(DeduplicateIds):
    """Make a plain cell of every copy of a check cell but the last.

    nbgrader leaves a copy with empty metadata, takes that for an old format, and stops grading
    everybody.
    """

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """Drop the metadata that nbgrader has emptied."""
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.metadata.get("nbgrader") == {}:
            del cell.metadata["nbgrader"]
        return cell, resources


c = get_config()  # type: ignore[name-defined]  # noqa: F821  # nbgrader brings it
c.CourseDirectory.course_id = "transformers-from-scratch"
c.Autograde.sanitize_preprocessors = [
    ClearOutput,
    DropCopies,
    OverwriteKernelspec,
    OverwriteCells,  # a check cell that was edited is the released one again
    CheckCellMetadata,
]
# A check cell that was deleted comes back.
c.OverwriteCells.add_missing_cells = True
# Seconds that one cell may take. A check has its own, shorter limit for each call.
c.Execute.timeout = 120
