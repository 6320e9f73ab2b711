"""Build the site as it is published: from nothing, and a warning is an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = Path("_build", "html")


def build(root: Path = ROOT) -> int:
    """Build the book in a folder into its `_build/html` and return the exit code of the build.

    `_build` is removed first: an incremental build after a failed one forgets the earlier page's
    warnings and passes.
    """
    shutil.rmtree(root / "_build", ignore_errors=True)
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    options = ["--warningiserror", "--nitpick", "--keep-going", "--quiet"]
    # The programs that the build calls (Node, for the math) are those of this environment.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [*program, "build", *options, "."], cwd=root, env={**os.environ, "PATH": path}
    )
    if done.returncode == 0 and not (root / SITE / "index.html").is_file():
        print(f"The build said that all is well, but {SITE / 'index.html'} isn't there.")
        return 1
    return done.returncode


def main() -> int:
    """Build, and say in one line what to do next."""
    code = build()
    if code == 0:
        print(f"The book is built. Open {SITE / 'index.html'} in a browser.")
    else:
        print("The book was not built: the warnings above are errors.")
    return code


if __name__ == "__main__":
    sys.exit(main())
