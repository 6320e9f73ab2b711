"""The repository's address: read from `_config.yml`, the only place where it stands by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from tools.problem import Problem

FILE = "_config.yml"
PLACEHOLDER = "OWNER/REPOSITORY"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]+")
_BRANCH = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._/-]*")
_VALUE = r"""("[^"\n]*"|'[^'\n]*'|[^\s,}#]+)"""


@dataclass(frozen=True)
class Address:
    """Where the course is published on GitHub, and what follows from it.

    Parameters
    ----------
    name : str
        ``owner/name``.
    branch : str, default "main"
        The branch or tag that readers see.
    folder : str, default ""
        The course's folder in the repository, where it isn't the root.

    Examples
    --------
    >>> Address("ada/notes").colab("chapters/05_attention")
    'https://colab.research.google.com/github/ada/notes/blob/main/chapters/05_attention.ipynb'
    """

    name: str
    branch: str = "main"
    folder: str = ""

    def __post_init__(self) -> None:
        """Refuse what can't be an address on GitHub."""
        if not _NAME.fullmatch(self.name) or self.name.endswith("/.."):
            raise Problem(
                f"{self.name!r} is not a repository's address: give it as owner/name, "
                "as in ada/transformers-from-scratch"
            )
        if not _BRANCH.fullmatch(self.branch) or ".." in self.branch:
            raise Problem(f"{self.branch!r} is not the name of a branch or tag")

    @property
    def url(self) -> str:
        """The repository's page."""
        return f"https://github.com/{self.name}"

    @property
    def is_placeholder(self) -> bool:
        """Whether nobody has said yet where the course is published."""
        return self.name == PLACEHOLDER

    @property
    def pip(self) -> str:
        """What pip installs `course_lib` from."""
        inside = f"#subdirectory={self.folder}" if self.folder else ""
        return f"git+{self.url}@{self.branch}{inside}"

    def colab(self, notebook: str) -> str:
        """Return the address that opens a notebook, such as ``chapters/05_name``, in Colab."""
        path = f"{self.folder}/{notebook}" if self.folder else notebook
        return (
            f"https://colab.research.google.com/github/{self.name}/blob/{self.branch}/{path}.ipynb"
        )


def read_address(root: Path) -> Address:
    """Read the address from ``_config.yml`` under `root`.

    Raises
    ------
    Problem
        If the file is missing, isn't YAML, or names no repository on GitHub.
    """
    path = root / FILE
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        repository = config["repository"]
        url = str(repository["url"])
    except FileNotFoundError:
        raise Problem(f"{FILE} is missing: it says where the course is published") from None
    except yaml.YAMLError as error:
        raise Problem(f"{FILE} can't be read: {error}") from None
    except (KeyError, TypeError):
        raise Problem(f"{FILE} has no repository.url") from None
    match = re.fullmatch(r"https://github\.com/(.+?)(?:\.git)?/?", url)
    if match is None:
        raise Problem(
            f"{FILE}: repository.url is {url!r}; it must be https://github.com/owner/name, "
            "since Colab opens notebooks from GitHub"
        )
    return Address(
        match.group(1),
        str(repository.get("branch") or "main"),
        str(repository.get("path_to_book") or "").strip("/"),
    )


def write_address(root: Path, address: Address) -> bool:
    """Set the address in ``_config.yml`` and leave the rest of the file as it is, to the byte.

    Returns
    -------
    bool
        Whether the file changed.
    """
    if read_address(root) == address:
        return False
    path = root / FILE
    old = path.read_bytes().decode("utf-8")
    section = re.search(r"^repository:.*(?:\r?\n(?:[ \t].*|[ \t]*(?=\r?\n)))*", old, re.MULTILINE)
    if section is None:
        raise Problem(f"{FILE}: the key repository isn't at the start of a line; set it by hand")
    text = re.sub(
        rf"^(\s*|.*[{{,]\s*)\burl:\s*{_VALUE}",
        lambda m: m.group(0)[: m.start(2) - m.start(0)] + address.url,
        section.group(0),
        count=1,
        flags=re.MULTILINE,
    )
    text, found = re.subn(
        rf"^(\s*|.*[{{,]\s*)\bbranch:\s*{_VALUE}",
        lambda m: m.group(0)[: m.start(2) - m.start(0)] + address.branch,
        text,
        count=1,
        flags=re.MULTILINE,
    )
    if not found and address.branch != "main":
        text = re.sub(
            r"^([ \t]+)url:.*$",
            lambda m: f"{m.group(0)}\n{m.group(1)}branch: {address.branch}",
            text,
            count=1,
            flags=re.MULTILINE,
        )
    new = old[: section.start()] + text + old[section.end() :]
    path.write_bytes(new.encode("utf-8"))
    if read_address(root) != address:
        path.write_bytes(old.encode("utf-8"))
        raise Problem(f"{FILE}: repository has a layout that can't be edited; set it by hand")
    return True
