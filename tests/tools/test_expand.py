from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.project import LIBRARY, replace, write
from tools.expand import Expander, is_expansion
from tools.problem import Problem


def test_a_function_comes_with_the_first_line_of_its_docstring(project: Path) -> None:
    assert Expander(project).expand("tiny:double") == (
        'def double(x: int) -> int:\n    """Double a number."""\n    return FACTOR * x'
    )


def test_a_constant_comes_with_the_comment_above_it(project: Path) -> None:
    assert Expander(project).expand("tiny:FACTOR") == (
        "# The factor,\n# as everybody knows.\nFACTOR = 2"
    )


def test_a_class_has_all_its_docstrings_shortened(project: Path) -> None:
    assert Expander(project).expand("tiny:Doubler") == (
        'class Doubler:\n    """Doubles on demand."""\n\n'
        "    def __call__(self, x: int) -> int:\n"
        '        """Double it."""\n        return double(x)'
    )


def test_several_names_stand_apart_as_the_formatter_wants(project: Path) -> None:
    text = Expander(project).expand("tiny:double, Doubler")
    assert "return FACTOR * x\n\n\nclass Doubler:" in text


def test_a_decorator_belongs_to_its_function(project: Path) -> None:
    write(project, "course_lib/wrapped.py", "def w(f):\n    return f\n\n\n@w\ndef g():\n    pass\n")
    assert Expander(project).expand("wrapped:g") == "@w\ndef g():\n    pass"


def test_a_docstring_that_begins_on_its_second_line_keeps_its_text(project: Path) -> None:
    write(project, "course_lib/late.py", 'def f():\n    """\n    Late.\n\n    More.\n    """\n')
    assert Expander(project).expand("late:f") == 'def f():\n    """Late."""'


def test_a_renamed_function_is_called_by_its_new_name_in_every_later_cell(project: Path) -> None:
    expander = Expander(project)
    first = expander.expand("tiny:double as twice")
    assert first.startswith("def twice(x: int)")
    second = expander.expand("tiny:quadruple")
    # Columns are counted in bytes, hence the é; an argument and a comment keep their words.
    assert "return twice(twice(x)) if é else twice.__call__(x)  # double" in second
    assert "double_first: bool" in second


def test_a_renaming_holds_for_its_own_module_only(project: Path) -> None:
    write(project, "course_lib/other.py", LIBRARY)
    expander = Expander(project)
    expander.expand("tiny:double as twice")
    assert "return double(double(x))" in expander.expand("other:quadruple")


def test_a_local_name_is_not_taken_for_the_renamed_function(project: Path) -> None:
    write(project, "course_lib/own.py", "def f(double):\n    return double\n\n\ndouble = 1\n")
    assert (
        Expander(project)
        .expand("own:f, double as twice")
        .startswith("def f(double):\n    return double")
    )


def test_a_line_that_a_longer_name_makes_too_long_is_broken(project: Path) -> None:
    longer = "a_name_that_is_so_long_that_the_line_no_longer_fits_into_the_width_of_the_page_at_all"
    text = Expander(project).expand(f"tiny:double as {longer}")
    assert f"def {longer}(\n    x: int,\n) -> int:" in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tiny:treble", "course_lib.tiny has no treble; it defines Doubler, FACTOR, double"),
        ("nowhere:double", "there is no module course_lib.nowhere"),
    ],
)
def test_an_unknown_name_is_named_together_with_what_there_is(
    project: Path, line: str, said: str
) -> None:
    with pytest.raises(Problem) as caught:
        Expander(project).expand(line)
    assert said in str(caught.value)


def test_a_module_that_does_not_parse_is_named_with_its_line(project: Path) -> None:
    replace(project, "course_lib/tiny.py", "FACTOR = 2", "FACTOR = = 2")
    with pytest.raises(Problem, match=r"course_lib/tiny\.py:7: "):
        Expander(project).expand("tiny:double")


@pytest.mark.parametrize("source", ["x: int", "print('a:b')", "a.b:c\nd", "a:b c", "lambda: x"])
def test_ordinary_code_is_not_taken_for_an_expansion(source: str) -> None:
    assert not is_expansion(source)
