"""Run a notebook in a fresh kernel of this environment, and tidy what it gives."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools.problem import Problem

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
RAISES = "raises-exception"

Where = Callable[[int], str]
"""Returns the place of a cell, given its index: what a message begins with."""


class _OwnSpecs(KernelSpecManager):
    """Knows one kernel: the interpreter that runs this. A user's kernels are of no account."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        launch.append("--log-level=ERROR")  # it warns that its sockets aren't encrypted
        return KernelSpec(argv=launch, display_name="Python 3", language="python")


class _OwnKernel(AsyncKernelManager):
    """A kernel of the interpreter that runs this."""

    def _kernel_spec_manager_default(self) -> KernelSpecManager:
        return _OwnSpecs()


async def run(
    notebook: NotebookNode, path: Path, root: Path, where: Where, time_limit: int
) -> None:
    """Run all cells of a notebook in place.

    Parameters
    ----------
    notebook : NotebookNode
        Gets outputs and execution counts.
    path : Path
        Where the notebook will lie, relative to `root`. Its folder is the working directory.
    root : Path
        The project; its `course_lib` is the one that is imported.
    where : callable
        From a cell's index to its place in the manuscript.
    time_limit : int
        Seconds that a cell may take.

    Raises
    ------
    Problem
        If a cell raises that isn't tagged ``raises-exception``, or doesn't that is; writes to
        stderr; takes too long; kills its kernel.
    """
    folder = root / path.parent
    folder.mkdir(parents=True, exist_ok=True)
    client = NotebookClient(
        notebook,
        timeout=time_limit,
        allow_errors=True,  # judged here, with the place in the manuscript
        coalesce_streams=True,
        record_timing=False,
        store_widget_state=False,
        kernel_name="python3",
        kernel_manager_class=_OwnKernel,
        resources={"metadata": {"path": str(folder)}},
    )
    with tempfile.TemporaryDirectory() as settings:
        paths = [str(root), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "COURSE_LIB_PROGRESS": "off",
            "TQDM_DISABLE": "1",  # a progress bar is for who waits, not for a page
            "IPYTHONDIR": settings,  # an author's own start-up files change no output
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        try:
            # By hand, since nbclient's own context takes Ctrl-C for itself and then fails.
            client.create_kernel_manager()
            await client.async_start_new_kernel(env=environment)
            await client.async_start_new_kernel_client()
            count = 0
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type != "code" or not cell.source.strip():
                    continue
                cell.outputs = []
                count += 1
                try:
                    await client.async_execute_cell(cell, index)
                except CellTimeoutError:
                    raise Problem(f"{where(index)} takes more than {time_limit} s") from None
                except DeadKernelError:
                    raise Problem(f"{where(index)} killed its kernel") from None
                cell.execution_count = count
                _judge(cell, where(index))
        finally:
            if client.kc is not None:
                client.kc.stop_channels()
            if client.km is not None and client.km.has_kernel:
                await ensure_async(client.km.shutdown_kernel(now=True))
    for index, cell in enumerate(notebook.cells):
        _tidy(cell, root, where(index))


def _judge(cell: NotebookNode, place: str) -> None:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    allowed = RAISES in cell.metadata.get("tags", [])
    if errors and not allowed:
        error = errors[0]
        lines = _COLOUR.sub("", "\n".join(error.traceback)).strip().splitlines()
        tail = "\n".join(f"    {line}" for line in lines[-12:])
        raise Problem(f"{place} raised {error.ename}: {error.evalue}\n{tail}")
    if allowed and not errors:
        raise Problem(f"{place} is tagged {RAISES} but raises nothing")
    noise = stderr_of(cell)
    if noise:
        raise Problem(f"{place} writes to stderr: {noise.strip().splitlines()[-1]}")


def stderr_of(cell: NotebookNode) -> str:
    """Return what a cell wrote to stderr."""
    streams = [output for output in cell.outputs if output.output_type == "stream"]
    return "".join(output.text for output in streams if output.name == "stderr")


def _tidy(cell: NotebookNode, root: Path, place: str) -> None:
    """Leave in a cell only what is the same on every run and every machine."""
    for key in ("execution", "collapsed", "scrolled"):
        cell.metadata.pop(key, None)
    if cell.cell_type != "code":
        return
    homes = [str(root), *(path for path in sys.path if path.endswith("site-packages"))]
    for output in cell.outputs:
        if "execution_count" in output:
            output["execution_count"] = cell.execution_count
        if output.output_type == "error":
            # Tracebacks name files. Of ours the reader needs the part below the root.
            for home in sorted(homes, key=len, reverse=True):
                output.traceback = [
                    line.replace(f"{home}{os.sep}", "") for line in output.traceback
                ]
    if any(
        home in nbformat.from_dict(output).__repr__()
        for home in homes[:1]
        for output in cell.outputs
    ):
        raise Problem(f"{place} shows a path of this machine: {homes[0]}")
    describe_pictures(cell, place)


def describe_pictures(cell: NotebookNode, place: str) -> None:
    """Copy the alt text of a cell's picture to where the site looks for it.

    Raises
    ------
    Problem
        If a picture has none: a raster image's stands beside it as plain text, an SVG says its own.
    """
    for output in cell.outputs:
        data: dict[str, Any] = output.get("data", {})
        alt = str(data.get("text/plain", "")).strip()
        if any(kind.startswith("image/") for kind in data):
            if not alt or alt.startswith("<"):
                raise Problem(
                    f"{place} shows a picture without alt text; return a figure of "
                    "course_lib.figures, which brings its own"
                )
            mystnb = cell.metadata.setdefault("mystnb", {})
            mystnb.setdefault("image", {})["alt"] = " ".join(alt.split())
        html = str(data.get("text/html", ""))
        for svg in re.findall(r"<svg\b.*?</svg>", html, re.DOTALL):
            opening = svg[: svg.index(">")]
            if "aria-hidden" in opening or "aria-label" in opening or "<title" in svg:
                continue
            raise Problem(f"{place} shows an SVG without <title> or aria-label")
