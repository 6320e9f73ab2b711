from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.project import (
    CHAPTER,
    CONFIG,
    EXERCISES,
    NOTEBOOK,
    SOLUTIONS,
    edit,
    load,
    replace,
    snapshot,
    source,
    write,
)
from tools import address, notebooks
from tools.address import readdress_text
from tools.config import Address, read_address, write_address
from tools.drift import find_drift
from tools.problem import Problem


def test_the_address_is_read_from_the_configuration(project: Path) -> None:
    assert read_address(project) == Address("OWNER/REPOSITORY", "main", "")
    assert read_address(project).is_placeholder
    assert not Address("ada/notes").is_placeholder


@pytest.mark.parametrize(
    "url", ["https://github.com/ada/notes.git", "https://github.com/ada/notes/"]
)
def test_an_address_with_an_ending_is_the_same_address(project: Path, url: str) -> None:
    replace(project, "_config.yml", "https://github.com/OWNER/REPOSITORY", url)
    assert read_address(project).name == "ada/notes"


def test_a_course_in_a_folder_of_its_repository_is_found_there(project: Path) -> None:
    replace(project, "_config.yml", 'path_to_book: ""', "path_to_book: teaching/course")
    there = read_address(project)
    assert there.colab("chapters/05_x").endswith("/blob/main/teaching/course/chapters/05_x.ipynb")
    assert there.pip.endswith("@main#subdirectory=teaching/course")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("title: x\n", "no repository.url"),
        ("repository: x\n", "no repository.url"),
        ("repository: {url: https://elsewhere.org/a/b}\n", "must be https://github.com/owner/name"),
        ("repository: {url: https://github.com/ada}\n", "not a repository's address"),
        ("repository: [\n", "can't be read"),
    ],
)
def test_a_configuration_without_a_usable_address_is_told(
    project: Path, config: str, said: str
) -> None:
    write(project, "_config.yml", config)
    with pytest.raises(Problem) as caught:
        read_address(project)
    assert said in str(caught.value)


def test_a_missing_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"_config\.yml is missing"):
        read_address(tmp_path)


def test_only_the_values_change_in_the_configuration(project: Path) -> None:
    assert write_address(project, Address("ada/notes", "v1.2"))
    expected = CONFIG.replace("OWNER/REPOSITORY", "ada/notes").replace("main", "v1.2")
    assert (project / "_config.yml").read_text(encoding="utf-8") == expected
    assert not write_address(project, Address("ada/notes", "v1.2"))


@pytest.mark.parametrize(
    "config",
    [
        "repository: {url: https://github.com/OWNER/REPOSITORY, branch: main}\nother: 1\n",
        'repository:\n  branch: "main"\n  url: "https://github.com/OWNER/REPOSITORY"\n',
        "repository:\n  url: https://github.com/OWNER/REPOSITORY\n",
        "url: x\nrepository:\r\n\r\n  # here\r\n  url: https://github.com/OWNER/REPOSITORY\r\n",
    ],
)
def test_every_layout_of_the_configuration_is_kept(project: Path, config: str) -> None:
    (project / "_config.yml").write_bytes(config.encode())
    write_address(project, Address("ada/notes", "next"))
    assert read_address(project) == Address("ada/notes", "next")
    new = (project / "_config.yml").read_bytes().decode()
    assert ("\r\n" in new) == ("\r\n" in config)
    assert ("# here" in new) == ("# here" in config)
    assert ("other: 1" in new) == ("other: 1" in config)
    assert new.startswith(config[:5])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://github.com/old/home", "https://github.com/new/place"),
        ("see https://github.com/old/home.", "see https://github.com/new/place."),
        ("https://github.com/old/home.git", "https://github.com/new/place.git"),
        ("https://github.com/old/home/issues", "https://github.com/new/place/issues"),
        ("git+https://github.com/old/home@v1", "git+https://github.com/new/place@v2"),
        ("/github/old/home/blob/v1/a.ipynb", "/github/new/place/blob/v2/a.ipynb"),
        ("https://github.com/old/home-page", "https://github.com/old/home-page"),
        ("https://github.com/old/home.page", "https://github.com/old/home.page"),
        ("make address REPO=old/home", "make address REPO=old/home"),
    ],
)
def test_an_address_in_a_text_is_replaced_whole_or_not_at_all(before: str, after: str) -> None:
    assert readdress_text(before, Address("old/home", "v1"), Address("new/place", "v2")) == after


@pytest.mark.parametrize(
    "given", ["ada", "ada/", "/notes", "a/b/c", "ada/no tes", "ada/..", "https://gitlab.com/a/b"]
)
def test_what_is_no_address_is_refused_and_changes_nothing(
    project: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(project)
    assert address.main([given], project) == 1
    assert "give it as owner/name" in capsys.readouterr().err
    assert snapshot(project) == before


def test_without_an_argument_the_address_is_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert address.main([], project) == 1
    assert "The address is https://github.com/OWNER/REPOSITORY at main." in capsys.readouterr().out


def test_a_new_address_reaches_everything_and_runs_nothing(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.execute.run", None)  # calling it would fail
    write(generated, "README.md", "git clone https://github.com/OWNER/REPOSITORY\n")
    outputs = [load(generated, path)["metadata"]["course"] for path in (NOTEBOOK, SOLUTIONS)]

    assert address.main(["https://github.com/ada/notes.git", "--branch", "v1"], generated) == 0

    for path in (NOTEBOOK, SOLUTIONS, EXERCISES):
        text = (generated / path).read_text(encoding="utf-8")
        assert "OWNER/REPOSITORY" not in text
        assert "github/ada/notes/blob/v1/exercises/05_doubling.ipynb" in text
        assert "git+https://github.com/ada/notes@v1" in text
    assert "The code is at https://github.com/ada/notes," in source(
        load(generated, NOTEBOOK)["cells"][0]
    )
    assert (generated / "README.md").read_text(encoding="utf-8").endswith("/ada/notes\n")
    for path, old in zip((NOTEBOOK, SOLUTIONS), outputs, strict=True):
        new = load(generated, path)["metadata"]["course"]
        assert new["outputs_sha256"] == old["outputs_sha256"]
        assert new["cells_sha256"] != old["cells_sha256"]
    assert (generated / "manuscript/chapters/05_doubling.md").read_text(encoding="utf-8") == CHAPTER

    # All hashes are right, so nothing is left to do, and doing it again changes nothing.
    assert find_drift(generated) == []
    after = snapshot(generated)
    assert notebooks.main([], generated) == 0
    assert address.main(["ada/notes"], generated) == 0
    assert snapshot(generated) == after


def test_an_address_set_by_hand_is_taken_over_without_running(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.execute.run", None)
    replace(generated, "_config.yml", "OWNER/REPOSITORY", "ada/notes")
    assert any("another source" in line for line in find_drift(generated))
    assert notebooks.main([], generated) == 0
    assert find_drift(generated) == []
    assert b"OWNER" not in (generated / NOTEBOOK).read_bytes()


def test_a_new_address_keeps_edits_by_hand_and_does_not_hide_them(generated: Path) -> None:
    edit(generated, NOTEBOOK, "How much is twice?", "How much is two times?")
    assert address.main(["ada/notes"], generated) == 0
    first = source(load(generated, NOTEBOOK)["cells"][0])
    assert "How much is two times? The code is at https://github.com/ada/notes," in first
    assert notebooks.main([], generated) == 1
