"""Imports go one way, so that a newcomer can read the library from the bottom up."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.layout import MODULES, ROOT, module_name, relative

# What both halves stand on. It looks at shapes and dtypes alone.
SHARED = {"course_lib.validation", "course_lib.precision"}
# What trains, or is trained, needs PyTorch.
TORCH = ("course_lib.blocks", "course_lib.models", "course_lib.training", "course_lib.decoding")


def imports(path: Path, everywhere: bool) -> set[str]:
    """Return the modules that a file imports: at its top level, or inside functions too.

    What stands under ``if TYPE_CHECKING`` is never run and doesn't count.
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not everywhere:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)} has a relative import"
            module = node.module or ""
            submodules = {f"{module}.{alias.name}" for alias in node.names}
            files = {module_name(p) for p in MODULES}
            found.update(submodules & files)
            if submodules - files:
                found.add(module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def outside(names: set[str]) -> set[str]:
    """Return the packages among the names that are neither Python's own nor the course's."""
    tops = {name.split(".")[0] for name in names}
    return tops - set(sys.stdlib_module_names) - {"course_lib"}


def inside(names: set[str]) -> set[str]:
    """Return the names that are the course's own."""
    return {name for name in names if name.split(".")[0] == "course_lib"}


def files(package: str) -> list[Path]:
    found = [p for p in MODULES if f"{module_name(p)}.".startswith(f"course_lib.{package}.")]
    assert found, f"course_lib.{package} is gone"
    return found


def test_the_shared_modules_import_nothing_but_python() -> None:
    for name in sorted(SHARED):
        (path,) = [p for p in MODULES if module_name(p) == name]
        names = imports(path, everywhere=True)
        assert outside(names) == set()
        assert inside(names) <= SHARED


def test_the_reference_imports_numpy_and_nothing_else() -> None:
    for path in files("reference"):
        names = imports(path, everywhere=True)
        assert outside(names) <= {"numpy"}, relative(path)
        allowed = SHARED | {module_name(p) for p in files("reference")}
        assert inside(names) <= allowed, relative(path)


def test_the_blocks_import_torch_and_not_numpy() -> None:
    for path in files("blocks"):
        names = imports(path, everywhere=True)
        assert outside(names) <= {"torch"}, relative(path)
        allowed = SHARED | {module_name(p) for p in files("blocks")}
        assert inside(names) <= allowed, relative(path)


def test_models_training_and_decoding_stand_on_the_blocks() -> None:
    alone = [p for p in MODULES if module_name(p) in TORCH]
    for path in [*files("models"), *alone]:
        names = imports(path, everywhere=True)
        assert outside(names) <= {"numpy", "torch", "tqdm"}, relative(path)
        assert not any(n.startswith(("course_lib.grading", "course_lib.figures")) for n in names)


def test_data_needs_numpy_alone() -> None:
    for path in files("data"):
        names = imports(path, everywhere=True)
        assert outside(names) <= {"numpy"}, relative(path)
        allowed = SHARED | {module_name(p) for p in files("data")}
        assert inside(names) <= allowed, relative(path)


def test_tokenizers_need_numpy_and_regex_alone() -> None:
    for path in files("tokenizers"):
        names = imports(path, everywhere=True)
        assert outside(names) <= {"numpy", "regex"}, relative(path)
        assert not any(n.startswith(("course_lib.grading", "course_lib.figures")) for n in names)


def test_figures_do_not_import_torch() -> None:
    for path in files("figures"):
        assert outside(imports(path, everywhere=True)) <= {"numpy", "matplotlib"}, relative(path)


def test_the_grader_imports_torch_only_where_a_function_needs_it() -> None:
    for path in files("grading"):
        names = imports(path, everywhere=False)
        assert "torch" not in outside(names), relative(path)
        assert not any(n.startswith("course_lib.blocks") for n in names), relative(path)


@pytest.mark.parametrize("path", MODULES, ids=[relative(p) for p in MODULES])
def test_a_module_needs_only_what_the_wheel_asks_for_and_never_the_tools(path: Path) -> None:
    names = outside(imports(path, everywhere=True))
    # IPython is there wherever a notebook runs; the library must not need it at import.
    assert names <= {"numpy", "matplotlib", "torch", "tqdm", "regex", "IPython"}
    assert "IPython" not in outside(imports(path, everywhere=False))


def test_nothing_outside_tools_and_tests_imports_tools() -> None:
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        if parts[0] in ("tools", "tests") or parts[0].startswith((".", "_build")):
            continue
        assert "tools" not in {n.split(".")[0] for n in imports(path, everywhere=True)}, path


def test_the_grader_and_the_figures_work_where_torch_is_absent() -> None:
    names = [module_name(p) for p in MODULES if not module_name(p).startswith(TORCH)]
    program = f"""
import importlib, sys
sys.modules["torch"] = None  # importing it raises, as where it isn't installed
for name in {names!r}:
    importlib.import_module(name)
from course_lib.grading import check
from course_lib.grading.registry import find
(right, *_) = [a.right for a in find("05.softmax").alternatives if a.name == "loops"]
report = check("05.softmax", right)
assert report.points == report.max_points, str(report)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"COURSE_LIB_PROGRESS": "off", "PATH": "", "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
