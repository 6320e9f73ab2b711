"""Every formula exists twice under one name, and every public function says what it promises."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from tests.house.layout import MODULES, ROOT, module_name, relative

REFERENCE = [p for p in MODULES if p.parent.name == "reference" and p.name != "__init__.py"]
BLOCKS = [p for p in MODULES if p.parent.name == "blocks" and p.name != "__init__.py"]
TWINS = [(p, ROOT / "course_lib" / "blocks" / p.name) for p in REFERENCE]


def public(module: ModuleType) -> dict[str, Callable]:
    """Return the functions and classes that a module offers as its own."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }


FUNCTIONS = [
    pytest.param(function, id=f"{module_name(path)}.{name}")
    for path in REFERENCE + BLOCKS
    for name, function in public(importlib.import_module(module_name(path))).items()
]


def sections(docstring: str) -> set[str]:
    """Return the titles of a numpydoc docstring's sections."""
    return set(re.findall(r"^([A-Z][A-Za-z ]+)\n-{3,}$", inspect.cleandoc(docstring), re.MULTILINE))


def documented(docstring: str) -> list[str]:
    """Return the names that the section Parameters explains, in order."""
    text = inspect.cleandoc(docstring)
    match = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n[A-Z][A-Za-z ]+\n-{3,}|\Z)", text, re.M | re.S)
    if match is None:
        return []
    heads = re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", match.group(1), re.MULTILINE)
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def raises_value_error(function: Callable) -> bool:
    """Tell whether a function raises ValueError, or calls one of the shared checks that do."""
    for node in ast.walk(ast.parse(dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Raise) and node.exc and "ValueError" in ast.unparse(node.exc):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("check_"):
            return True
    return False


@pytest.mark.parametrize(("reference", "block"), TWINS, ids=[p.stem for p in REFERENCE])
def test_twins_have_the_same_functions_with_the_same_arguments_in_the_same_order(
    reference: Path, block: Path
) -> None:
    assert block.is_file(), f"{relative(reference)} has no twin"
    ours = public(importlib.import_module(module_name(reference)))
    theirs = public(importlib.import_module(module_name(block)))
    missing = set(ours) - set(theirs)
    assert not missing, f"{relative(block)} lacks {', '.join(sorted(missing))}"
    for name, function in ours.items():
        a, b = inspect.signature(function), inspect.signature(theirs[name])
        assert list(a.parameters) == list(b.parameters), name
        defaults = [p.default for p in a.parameters.values()]
        assert defaults == [p.default for p in b.parameters.values()], name


def test_every_file_of_blocks_with_functions_has_a_twin() -> None:
    names = {p.name for p in REFERENCE}
    for path in BLOCKS:
        functions = [
            f for f in public(importlib.import_module(module_name(path))).values()
            if inspect.isfunction(f)
        ]  # fmt: skip
        assert path.name in names or not functions, f"{relative(path)} has no numpy twin"


@pytest.mark.parametrize("path", REFERENCE + BLOCKS, ids=[relative(p) for p in REFERENCE + BLOCKS])
def test_a_module_names_what_it_offers(path: Path) -> None:
    module = importlib.import_module(module_name(path))
    assert sorted(module.__all__) == sorted(public(module))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_public_function_is_documented_in_numpydoc(function: Callable) -> None:
    text = function.__doc__
    assert text, "no docstring"
    has = sections(text)
    parameters = [n for n in inspect.signature(function).parameters if n != "self"]
    assert sorted(documented(text)) == sorted(parameters)
    if inspect.isfunction(function) and function.__annotations__.get("return") not in (
        None,
        "None",
    ):
        assert "Returns" in has or "Yields" in has
    assert "Examples" in has
    assert ">>> " in text
    if raises_value_error(function):
        assert "Raises" in has
        assert "ValueError" in text


@pytest.mark.parametrize("path", MODULES, ids=[relative(p) for p in MODULES])
def test_everything_public_in_the_library_has_a_docstring_and_types(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.read_text(encoding="utf-8").strip():
        assert ast.get_docstring(tree), f"{relative(path)} doesn't say what it is"
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if "overload" in map(ast.unparse, node.decorator_list):
            continue  # the one that it stands for has it
        assert ast.get_docstring(node), f"{node.name} has no docstring"
        if isinstance(node, ast.FunctionDef):
            assert node.returns is not None, f"{node.name} doesn't say what it returns"
