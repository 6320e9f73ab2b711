"""A check in a real kernel: what the notebook keeps of it, and what nbgrader reads from that."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade

SETUP = "import numpy as np\nfrom course_lib.grading import check, hint, status"
RIGHT = """
def softmax(x, axis=-1):
    peak = np.max(x, axis=axis, keepdims=True)
    exps = np.exp(x - np.where(np.isfinite(peak), peak, 0))
    total = exps.sum(axis=axis, keepdims=True)
    return exps / np.where(total == 0, 1, total)
"""
HALF_RIGHT = """
def softmax(x, axis=-1):
    exps = np.exp(x)
    return exps / exps.sum(axis=axis, keepdims=True)
"""
NOISY = (
    RIGHT.replace("    peak", "    noise()\n    peak", 1)
    + """
import logging, os, sys, warnings
logging.basicConfig()
err = sys.stderr
def noise():
    print("to stderr", file=sys.stderr)
    print("to stderr by another name", file=err)
    print("to the first stderr", file=sys.__stderr__)
    os.write(2, b"to descriptor 2")
    warnings.warn("a warning")
    logging.error("logged")
    np.log(np.zeros(1))
"""
)
LEAVES = "def softmax(x, axis=-1):\n    {}\n    return x"
HOOK = """
import ast
class NoChecks(ast.NodeTransformer):
    def visit_Assert(self, node):
        return None
    def visit_Raise(self, node):
        return None
get_ipython().ast_transformers.append(NoChecks())
"""
#: What stands before the check cell, and the points that nbgrader reads.
CELLS: dict[str, tuple[str, float]] = {
    "right": (RIGHT, 3.0),
    "half right": (HALF_RIGHT, 2.14),
    "untouched": ("def softmax(x, axis=-1):\n    raise NotImplementedError()", 0.0),
    "missing": ("del softmax", 0.0),
    "right but noisy": (NOISY, 3.0),
    "exit()": (LEAVES.format("exit()"), 0.0),
    "quit()": (LEAVES.format("quit()"), 0.0),
    "sys.exit()": ("import sys\n" + LEAVES.format("sys.exit()"), 0.0),
    "input()": (LEAVES.format("input()"), 0.0),
    "os._exit": ("from os import _exit\n" + LEAVES.format("_exit(0)"), 0.0),
    "a hook for what follows": (HOOK + RIGHT, 3.0),
    "wrong where asserts are taken out": (LEAVES.format("assert False"), 0.0),
    "right where asserts are taken out": (RIGHT, 3.0),
}


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NotebookNode]:
    """Run all of it as one notebook, in one kernel; return the check cells by name."""
    cells = [new_code_cell(SETUP)]
    for source, _ in CELLS.values():
        cells += [new_code_cell(source), new_code_cell('check("05.softmax")')]
    notebook = new_notebook(cells=cells)
    for cell, n in zip(cells[2::2], range(len(CELLS)), strict=True):
        cell.metadata["nbgrader"] = {
            "grade": True, "solution": False, "locked": True, "task": False,
            "grade_id": f"check_{n}", "points": 3, "schema_version": 3,
        }  # fmt: skip
    folder: Path = tmp_path_factory.mktemp("notebook")
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "COURSE_LIB_PROGRESS")}
    os.environ["COURSE_LIB_PROGRESS"] = "off"
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    try:
        client = NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    nbformat.validate(notebook)
    return dict(zip(CELLS, notebook.cells[2::2], strict=True))


def only_result(cell: NotebookNode) -> Any:
    """The one output of a check cell; anything beside it, such as stderr, is a fault."""
    assert [output.output_type for output in cell.outputs] == ["execute_result"], cell.outputs
    return cell.outputs[0].data


@pytest.mark.parametrize("name", CELLS)
def test_a_check_leaves_points_as_text_and_feedback_as_html_and_nothing_else(
    name: str, executed: dict[str, NotebookNode]
) -> None:
    data = only_result(executed[name])
    assert set(data) == {"text/plain", "text/html"}
    assert float(data["text/plain"]) == CELLS[name][1]
    assert "05.softmax · " in data["text/html"]
    for never in ("ipykernel", "0x", "/tmp", "Traceback", "<script"):
        assert never not in data["text/html"]


@pytest.mark.parametrize("name", CELLS)
def test_nbgrader_reads_the_points(name: str, executed: dict[str, NotebookNode]) -> None:
    assert determine_grade(executed[name]) == (CELLS[name][1], 3.0)


def test_a_hook_that_takes_asserts_out_took_the_students_own(
    executed: dict[str, NotebookNode],
) -> None:
    html = only_result(executed["wrong where asserts are taken out"])["text/html"]
    assert "AssertionError" not in html
    assert "weights" in html


def test_no_torch_is_loaded_for_a_numpy_exercise() -> None:
    """A browser's kernel has none."""
    import subprocess

    program = (
        SETUP + RIGHT + "import sys\nr = check('05.softmax')\nprint(r, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "COURSE_LIB_PROGRESS": "off"},
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    assert "3 of 3 points" in done.stdout
    assert done.stdout.strip().endswith("False")
