"""Anchors change nothing that a program returns, and print what Python itself sees."""

import ast
from collections.abc import Iterator

import pytest

from jaxgrpo.host.records import Call, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.trace.steps import Anchor
from jaxgrpo.problems.output_prediction.execution import examples_of
from jaxgrpo.problems.output_prediction.generator import drafts
from jaxgrpo.problems.step_prediction.anchors import (
    MAX_LINES,
    UnanchoredError,
    anchored,
    printed_anchors,
    written,
)
from jaxgrpo.problems.step_prediction.worker import stepped_examples

CASES: dict[str, tuple[str, tuple[object, ...], list[str]]] = {
    "assignments": (
        "def f(x):\n    y: int = x + 1\n    y += 2\n    z: int\n    return y",
        (1,),
        ["y: 2", "y: 4", "result: 4"],
    ),
    "chained and not plain": (
        "def f(x):\n a = b = x\n c, d = 1, 2\n l = [0]\n l[0] = 5\n return a + d",
        (3,),
        ["a: 3", "b: 3", "l: [0]", "result: 5"],
    ),
    "nested branches and early returns": (
        "def f(x):\n"
        "    if x > 0:\n"
        "        if x > 5:\n"
        "            y = 'big'\n"
        "            return y * 2\n"
        "        else:\n"
        "            y = 'small'\n"
        "    elif x < -5:\n"
        "        return -1\n"
        "    else:\n"
        "        y = None\n"
        "    return y, x",
        (2,),
        ["y: 'small'", "result: ('small', 2)"],
    ),
    "no loops, no inner scopes": (
        "def f(xs):\n"
        "    total = 0\n"
        "    for x in xs:\n"
        "        total = total + x\n"
        "        k = 1\n"
        "    else:\n"
        "        k = 2\n"
        "    while total > 9:\n"
        "        total -= 1\n"
        "    def g(a):\n"
        "        b = a\n"
        "        return b\n"
        "    class C:\n"
        "        d = 1\n"
        "    h = [i for i in xs]\n"
        "    return g(total)",
        ([3, 9],),
        ["total: 0", "h: [3, 9]", "result: 9"],
    ),
    "the result has another name": (
        "def f(result, result_1):\n    y = result\n    return result_1",
        (1, 2),
        ["y: 1", "result_2: 2"],
    ),
    "unicode": (
        "def f(größe):\n    変数 = 'é' * größe; # ü\n    return '→' + 変数  # fin é",
        (2,),
        ["変数: 'éé'", "result: '→éé'"],
    ),
    "tabs and line ends": (
        "def f(x):\r\n\tif x:\r\n\t\ty = x\r\n\t\treturn y\r\n\treturn 0",
        (7,),
        ["y: 7", "result: 7"],
    ),
    "statements that share a line": (
        "def f(x):\n    if x: y = 1; z = 2\n    return y + z",
        (1,),
        ["y: 1", "z: 2", "result: 3"],
    ),
    "statements of several lines": (
        "def f(x):\n"
        "    y = [\n        x,  # one\n        '''a\n# b'''\n    ]  # two\n"
        "    return (\n        y,\n        [x]\n    )\n",
        (1,),
        ["y: [1, 'a\\n# b']", "result: ([1, 'a\\n# b'], [1])"],
    ),
    "returns of every form": (
        "def f(x):\n    y = x\n    if y == 1:\n        return\n"
        "    if y == 2:\n        return(y)\n    return *[y], 0",
        (1,),
        ["y: 1", "result: None"],
    ),
    "parentheses alone": (
        "def f(x):\n    y = x\n    return(y,)",
        (2,),
        ["y: 2", "result: (2,)"],
    ),
    "a star": ("def f(x):\n    y = x\n    return *y, 0", ([1],), ["y: [1]",
        "result: (1, 0)"]),
    "with, try and match": (
        "import contextlib\n"
        "def f(x):\n"
        "    with contextlib.suppress(KeyError):\n        a = 1\n"
        "    try:\n        b = 1 // x\n"
        "    except ZeroDivisionError:\n        b = 2\n"
        "    finally:\n        c = 3\n"
        "    match x:\n        case 0:\n            d = 4\n"
        "        case _:\n            d = 5\n"
        "    return a + b + c + d",
        (0,),
        ["a: 1", "b: 2", "c: 3", "d: 4", "result: 10"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def outcome(code: str, arguments: tuple[object, ...], box: Sandbox) -> tuple[str, str]:
    """Returns `repr` of the call's value, and what it printed."""
    call = Call(function="f", arguments=arguments)
    execution = box.run(Program(source=code, mode="calls", calls=(call,)))
    (result,) = execution.results
    assert result.status == "OK", (code, result)
    return repr(result.value), result.stdout


@pytest.mark.parametrize("name", CASES)
def test_anchors_print_the_steps_and_keep_the_value(name: str, box: Sandbox):
    code, arguments, expected = CASES[name]
    value, silence = outcome(code, arguments, box)
    same, printed = outcome(anchored(code, "f"), arguments, box)
    assert silence == ""
    assert same == value
    assert printed.splitlines() == expected


def test_generated_functions_return_the_same_and_print_it_last(box: Sandbox):
    """Over hundreds, by the repr that the sandbox computed without anchors."""
    num_seen = 0
    for index in range(2):
        examples = examples_of(drafts(7, index, 256), box.run)
        # Raises where a value differs.
        found = {e.code: e for e in stepped_examples(examples, box.run)}
        for example in examples:
            if example.code in found and found[example.code].call == example.call:
                last = found[example.code].printed.splitlines()[-1]
                assert last == f"result: {example.answer}"
                num_seen += 1
    assert num_seen > 200


def test_values_are_those_that_pythons_own_tracing_sees(box: Sandbox):
    """`sys.settrace` after each line that assigns, of programs without loops."""
    for example in examples_of(drafts(3, 0, 120), box.run):
        tree = ast.parse(example.code)
        if any(isinstance(n, ast.For | ast.While) for n in ast.walk(tree)):
            continue
        code = anchored(example.code, "f")
        arguments = eval(f"(lambda *args: args){example.call[1:]}")
        _, printed = outcome(code, arguments, box)
        assert printed.splitlines()[:-1] == _assigned_by_tracing(
            example.code, example.call
        )


def _assigned_by_tracing(code: str, call: str) -> list[str]:
    """Lines of a small program of our own generator, whose loops are left out."""
    import sys

    names: dict[int, str] = {}
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                names[node.lineno] = name
            case ast.AugAssign(target=ast.Name(id=name)):
                names[node.lineno] = name
    namespace: dict[str, object] = {}
    exec(compile(code, "<traced>", "exec"), namespace)
    seen: list[str] = []
    line_before: list[int] = []

    def local(frame, event, argument):
        if event in ("line", "return") and line_before:
            name = names.get(line_before.pop())
            if name is not None:
                seen.append(f"{name}: {frame.f_locals[name]!r}")
        if event == "line":
            line_before.append(frame.f_lineno)
        return local

    sys.settrace(lambda frame, event, _: local if frame.f_code.co_name == "f" else None)
    try:
        eval(call, namespace)
    finally:
        sys.settrace(None)
    return seen


def test_the_rest_of_the_text_stays_as_it_is():
    code = (
        '"""Doc."""\n\ndef f( x ):\n    # why\n    y = x+1   # odd\n\n    return  y\n'
    )
    lines = anchored(code, "f").splitlines()
    kept = [line for line in lines if "print" not in line and "result" not in line]
    assert kept == [line for line in code.splitlines() if "return" not in line]


def test_it_is_deterministic_and_only_the_last_definition_counts():
    code = "def f(x):\n a = 1\n return a\ndef g(x):\n b = x\n return b\n" + (
        "def f(x):\n c = g(x)\n return c"
    )
    found = anchored(code, "f")
    assert found == anchored(code, "f")
    assert found.count("print(") == 2 and 'print(f"c: {c!r}")' in found


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    print(x)\n    return x",
        "def f(print):\n    y = print\n    return y",
        "def f(x):\n    print = x\n    return x",
        "from os import *\ndef f(x):\n    return x",
        "import pprint as print\ndef f(x):\n    return x",
        "def g(x):\n    return x",
        "async def f(x):\n    return x",
        "def f(x):\n    yield x",
        "def f(x):\n    y = yield\n    return y",
        "f = lambda x: x",
        "def f(x:\n",
        "def f(x):\n    return '\0'",
    ],
)
def test_programs_that_cannot_be_trusted_with_anchors_have_none(code: str):
    with pytest.raises(UnanchoredError):
        anchored(code, "f")


def test_a_generator_within_is_no_reason():
    code = "def f(x):\n    def g():\n        yield x\n    return list(g())"
    assert "print(" in anchored(code, "f")


@pytest.mark.parametrize(
    ("printed", "answer"),
    [
        ("result: 1\n", "1"),  # no step before it
        ("x: 1\nresult: 2\n", "1"),
        ("x: 1\ny: 1\n", "1"),  # it returned from within a loop
        ("x: <map object at 0x7f>\nresult: 1\n", "1"),
        ("x: {1, 2}\nresult: 1\n", "1"),  # in whose order?
        ("x: [{1: {1, 2}}]\nresult: 1\n", "1"),
        ("x: 1\nloose\nresult: 1\n", "1"),
        ("x: 1\n" * MAX_LINES + "result: 1\n", "1"),
        ("", "1"),
    ],
)
def test_runs_that_are_no_good_problem_are_left_out(printed: str, answer: str):
    assert printed_anchors(printed, answer) == ()


def test_as_many_lines_as_allowed_are_taken():
    printed = "x: {'b': 1, 'a': {2}}\n" * (MAX_LINES - 1) + "result: ': '\n"
    anchors = printed_anchors(printed, "': '")
    assert len(anchors) == MAX_LINES
    assert anchors[-1] == Anchor("result", "': '")
    assert written(anchors) + "\n" == printed
