import ast

import pytest

from jaxgrpo.host.sandbox.tracing.statements import Statement, numbered


def texts(source: str) -> list[tuple[str, str]]:
    """Kind and text of each statement, cut out of the source by its place."""
    return [
        (found.kind, cut(source, found))
        for found in numbered(source.encode()).statements.values()
    ]


def cut(source: str, found: Statement) -> str:
    line, column, end_line, end_column = found.place
    starts = [0]
    for index, character in enumerate(source):
        is_pair = source[index : index + 2] == "\r\n"
        if character == "\n" or (character == "\r" and not is_pair):
            starts.append(index + 1)
    return source[starts[line - 1] + column : starts[end_line - 1] + end_column]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = 1; b = 2", ["a = 1", "b = 2"]),
        ("a = [\n  1,\n]", ["a = [\n  1,\n]"]),
        ("if a: b = 1\nelif c: d = 2\nelse: e = 3",
         ["if a", "b = 1", "elif c", "d = 2", "e = 3"]),
        ("while (a\n   < b):\n\tpass", ["while (a\n   < b)", "pass"]),
        ("if ((a)  # b: )\n  ): pass", ["if ((a)  # b: )\n  )", "pass"]),
        ("for i in (1, 2): print(i)", ["for i in (1, 2)", "print(i)"]),
        ("for i in \\\n  a: pass", ["for i in \\\n  a", "pass"]),
        ("with a as b, c as (d, e): pass", ["with a as b, c as (d, e)", "pass"]),
        ("with (a): pass", ["with (a)", "pass"]),
        ("def f(a, *b, c=(1)) -> int: return a",
         ["def f(a, *b, c=(1)) -> int", "return a"]),
        ("def f(): pass", ["def f", "pass"]),
        ("@d\ndef f(a): pass", ["def f(a)", "pass"]),
        ("class A(B, metaclass=C): x = 1", ["class A(B, metaclass=C)", "x = 1"]),
        ("class A: x = 1", ["class A", "x = 1"]),
        ("try: a()\nexcept (B, C) as e: d()\nfinally: f()",
         ["try", "a()", "except (B, C)", "d()", "f()"]),
        ("try: a()\nexcept: pass", ["try", "a()", "except", "pass"]),
        ("match a:\n  case 1: b = 2\n  case _: c = 3", ["match a", "b = 2", "c = 3"]),
        ("f = lambda x: x + 1", ["f = lambda x: x + 1", "x + 1"]),
        ("x = [i for i in y if i]", ["x = [i for i in y if i]"]),
        ("async def f():\n  async for a in b: await c",
         ["async def f", "async for a in b", "await c"]),
    ],
)  # fmt: skip
def test_place_of_a_statement_is_its_text(source: str, expected: list[str]):
    assert [text for _, text in texts(source)] == expected


@pytest.mark.parametrize(
    "source",
    [
        "\tif True:\n".replace("\t", "") + "\tx = 'é'; y = 'ß'\n\tz = 1",
        "if x:\n \t y = 'ü' ; z = 2",
        "s = 'a😀b'; t = s\nu = (s, 'é😀',\n  t)",
        "é = 1; ñ = é; 变量 = ñ",
        "x = 1\r\ny = 'é'; z = 2\r\n",
        "x = 1\ry = 2\rz = 3",
        "x = 1\n\x0cy = 'é'; z = 2",
        "x = 'a\x0cb\x0bc\u2028d'; y = 2",
        "x = '''\n```python\n'''; y = 1\n```".replace("\n```", "\n# ```", 2),
        'x = """é\r\n\tü"""; y = 2',
    ],
)
def test_places_are_exact_whatever_the_characters(source: str):
    for found in numbered(source.encode()).statements.values():
        if not found.kind.startswith(("branch", "")) or found.kind == "":
            continue
        if found.kind == "branch":
            assert cut(source, found).startswith("if")
            continue
        text = cut(source, found)
        (again,) = ast.parse(text.replace("\r\n", "\n")).body
        assert ast.unparse(again) == ast.unparse(ast.parse(text).body[0])
        assert text.strip() == text


def test_byte_order_mark_counts_as_the_character_it_is():
    source = "\ufeffx = 'é'; y = 2\nz = 3"
    assert [text for _, text in texts(source)] == ["x = 'é'", "y = 2", "z = 3"]


def test_places_are_those_of_the_text_where_it_declares_another_encoding():
    # The interpreter reads each byte as a character; the places are of our text.
    source = "# -*- coding: latin-1 -*-\nx = 'é😀'; y = 2"
    assert [text for _, text in texts(source)] == ["x = 'é😀'", "y = 2"]


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("if 1: x = 2", ["", "assign"]),
        ("while True: break", ["", "break"]),
        ("while not 0: break", ["", "break"]),
        ("if x: pass", ["branch", "pass"]),
        ("'a text'", [""]),
        ("global x", [""]),
        ("x: int", ["assign"]),
        ("f()", ["expression"]),
        ("import a", ["import"]),
        ("del a", ["delete"]),
        ("assert a", ["assert"]),
        ("raise a", ["raise"]),
        ("try: pass\nfinally: pass", ["", "pass", "pass"]),
    ],
)
def test_kind_is_empty_where_nothing_happens(source: str, kinds: list[str]):
    assert [kind for kind, _ in texts(source)] == kinds


def test_scopes_are_the_functions_and_classes_around():
    source = "def f():\n  def g(): x = 1\nclass A:\n  def m(self): return lambda: 2\n"
    found = numbered(source.encode()).statements.values()
    assert [one.scope for one in found] == [
        "<module>",
        "f",
        "f.g",
        "<module>",
        "A",
        "A.m",
        "A.m.<lambda>",
    ]


def test_shape_knows_no_names_constants_or_operators():
    one, other = "x = a + b[1] < f(2)", "y = c * d[7] >= g(0)"
    first, second = (
        next(iter(numbered(source.encode()).statements.values()))
        for source in (one, other)
    )
    assert first.shape == second.shape
    third = next(iter(numbered(b"y = c * d >= g(0)").statements.values()))
    assert third.shape != first.shape


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = b = 1", {"a", "b"}),
        ("(a, [b, *c]), d.e, f[0].g = x", {"a", "b", "c", "d", "f"}),
        ("a[b] += c", {"a"}),
        ("a: int = 1", {"a"}),
        ("for a, b in c: pass", {"a", "b"}),
        ("with a as b, c: pass", {"b"}),
        ("f(a)", set()),
    ],
)
def test_targets_are_the_variables_that_are_set(source: str, names: set[str]):
    first = next(iter(numbered(source.encode()).statements.values()))
    assert first.targets == names


@pytest.mark.parametrize("source", ["x =", "\0", "(" * 500, "x = '\ud800'", "return ("])
def test_what_is_no_program_is_refused(source: str):
    with pytest.raises((SyntaxError, ValueError, MemoryError)):
        numbered(source.encode("utf-8", "surrogatepass"))
