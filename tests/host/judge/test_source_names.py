import pytest

from jaxgrpo.host.judge.source_names import (
    free_names,
    import_statement,
    is_standard,
    names_of_solution,
)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("assert f(x)", "f x"),
        ("x = 1\nassert f(x)", "f"),
        ("import math as m\nassert m.pi == f()", "f"),
        ("from math import pi\nassert pi == f()", "f"),
        ("def g(a):\n    b = a\n    return f(b)\ng(1)", "f"),
        ("def g():\n    global y\n    y = 1\ng()\nassert f(y)", "f"),
        ("assert [f(i) for i in range(3)]", "f range"),
        ("for i in (1, 2):\n    assert f(i)", "f"),
        ("try:\n    f()\nexcept E as e:\n    assert e", "E f"),
        ("with f() as g:\n    assert g", "f"),
        ("class A(B):\n    def m(self): return f(self)\nassert A()", "B f"),
        ("assert (lambda a: f(a))(1)", "f"),
        ("assert (y := f()) == y", "f"),
        (
            "def outer():\n    a = 1\n    def inner(): return f(a)\n    return inner",
            "f",
        ),
    ],
)
def test_free_names(source: str, names: str):
    assert sorted(free_names(source)) == names.split()


def test_names_of_a_solution():
    names = names_of_solution(
        "import os.path\nimport numpy as np\nfrom math import pi as circle\n"
        "LIMIT, other = 1, 2\ndouble = lambda x: 2 * x\n"
        "class Node:\n    def walk(self): yield 1\n"
        "def gen():\n    for i in range(3):\n        yield i\n"
        "def outer():\n    def inner(): yield 1\n    return inner\n"
    )
    assert names.is_known
    assert names.classes == {"Node"}
    assert names.generators == {"gen"}
    assert names.defined == {"LIMIT", "other", "double", "Node", "gen", "outer"}
    assert names.imports == {"os": "os", "np": "numpy", "circle": "math.pi"}


@pytest.mark.parametrize("source", ["", "def f(", "x = '\0'", "(" * 1000])
def test_unreadable_solution_tells_nothing(source: str):
    names = names_of_solution(source)
    assert not names.is_known
    assert names.is_class("Node")
    assert not names.is_class("node")


def test_warnings_of_foreign_source_are_not_ours():
    source = "import re\nx = '\\w' is 'a'"
    assert free_names(source) == set()
    assert names_of_solution(source).defined == {"x"}


def test_imports_are_written_and_known():
    assert import_statement("np", "numpy") == "import numpy as np"
    assert import_statement("near", "math.isclose") == (
        "from math import isclose as near"
    )
    assert is_standard("math.isclose")
    assert not is_standard("numpy")
