"""Say where the course is published: what `make address REPO=owner/name` runs.

Sets the address in `_config.yml` and rewrites what is made from it. Runs no notebook.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from nbformat import NotebookNode

from tools import stored
from tools.config import Address, read_address, write_address
from tools.derive import injected_source
from tools.manuscript import fill, unfill
from tools.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ("README.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml")


def set_address(root: Path, new: Address) -> list[Path]:
    """Set the repository's address everywhere under `root`.

    Returns
    -------
    list of Path
        The files that changed, relative to `root`.
    """
    old = read_address(root)
    changed: dict[Path, str] = {}
    for name in TEXTS:
        path = root / name
        if path.is_file():
            changed[Path(name)] = readdress_text(path.read_bytes().decode("utf-8"), old, new)
    for folder in ("chapters", "solutions", "exercises"):
        for file in sorted((root / folder).glob("*.ipynb")):
            name_ = file.relative_to(root)
            notebook = stored.read_notebook(root, name_)
            if notebook is not None and stored.recorded(notebook):
                before = stored.to_text(notebook)
                readdress_notebook(root, name_, notebook, old, new)
                if stored.to_text(notebook) != before:
                    changed[name_] = stored.to_text(notebook)
    # The configuration first: if it can't be edited, nothing else has changed.
    configured = [Path("_config.yml")] if write_address(root, new) else []
    return configured + stored.write_together(root, changed)


def readdress_text(text: str, old: Address, new: Address) -> str:
    """Replace an address in a text: the repository's page, what pip takes, what Colab opens.

    Examples
    --------
    >>> old, new = Address("OWNER/REPOSITORY"), Address("ada/notes", "v2")
    >>> readdress_text("git clone https://github.com/OWNER/REPOSITORY.git", old, new)
    'git clone https://github.com/ada/notes.git'
    >>> readdress_text("git+https://github.com/OWNER/REPOSITORY@main", old, new)
    'git+https://github.com/ada/notes@v2'
    """
    name, branch = re.escape(old.name), re.escape(old.branch)
    # Not where a longer name or branch merely begins like this one.
    ends, branch_ends = r"(?![\w-])(?!\.(?!git\b)\w)", r"(?![\w.-])"
    text = re.sub(
        rf"(github\.com/){name}@{branch}{branch_ends}",
        lambda m: f"{m.group(1)}{new.name}@{new.branch}",
        text,
    )
    text = re.sub(
        rf"(github(?:\.com)?/){name}/(blob|tree|raw)/{branch}{branch_ends}",
        lambda m: f"{m.group(1)}{new.name}/{m.group(2)}/{new.branch}",
        text,
    )
    return re.sub(rf"(github\.com/){name}{ends}", lambda m: m.group(1) + new.name, text)


def readdress_notebook(
    root: Path, path: Path, notebook: NotebookNode, old: Address, new: Address
) -> None:
    """Rewrite the cells that are made from the address, in place. Outputs stay as they are.

    A notebook that was edited by hand still counts as edited afterwards.
    """
    edited = stored.is_edited(notebook)
    for cell in notebook.cells:
        record = cell.metadata.get("course", {})
        if record.get("injected"):
            cell.source = injected_source(record, path, new)
        elif record.get("template"):
            template = record["template"]
            if cell.source != fill(root, template, old):
                if cell.source == fill(root, template, new):
                    continue
                template = unfill(root, template, old, cell.source)
            cell.source = fill(root, template, new)
    if not edited:
        notebook.metadata["course"]["cells_sha256"] = stored.hash_cells(notebook)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.address", description=__doc__)
    parser.add_argument("repository", nargs="?", metavar="owner/name")
    parser.add_argument("--branch", help="the branch or tag that readers see (as it is now)")
    options = parser.parse_args(arguments)
    try:
        now = read_address(root)
        if options.repository is None:
            print(f"The address is {now.url} at {now.branch}.")
            print("To change it: make address REPO=owner/name")
            return 1
        given = re.sub(r"^https://github\.com/", "", options.repository).rstrip("/")
        new = Address(given.removesuffix(".git"), options.branch or now.branch, now.folder)
        changed = set_address(root, new)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    for path in changed:
        print(f"wrote {path.as_posix()}")
    print(f"The address is {new.url} at {new.branch}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
