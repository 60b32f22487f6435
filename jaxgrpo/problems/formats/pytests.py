"""Tests in the form of pytest, as asserts that stand alone.

Each `test_*` function becomes one test: what stands around it, and its body. What
pytest would do is put in plain Python where that is simple:

    @pytest.mark.parametrize("a, b", [(1, 2), ...])    a loop
    with pytest.raises(ValueError): f(-1)              try, and an assert that it raised
    assert f(1) == pytest.approx(0.5)                  math.isclose, with its tolerances

What is left of pytest (fixtures, capsys, monkeypatch) cannot stand alone.

Reference:
  https://docs.pytest.org/en/stable/reference/reference.html (approx: 1e-6 relative,
  1e-12 absolute). Differs from it: `approx` is of single numbers.
"""

import ast
from collections.abc import Iterable

from jaxgrpo.host.judge.source_names import BUILTIN_NAMES, free_names

SOLUTION = "solution"
"""The module that the program under test stands for."""


class NotAloneError(ValueError):
    """A test needs more of pytest than plain Python can give it."""


def asserts_of(source: str) -> tuple[list[str], list[str]]:
    r"""Returns the tests of a module as sources, and the names of the program in them.

    Args:
      source: A module of tests.

    Raises:
      NotAloneError: A test cannot stand alone, or there is none.
      SyntaxError: It is no Python.

    Example:
      >>> asserts_of("from solution import f\ndef test_one():\n    assert f(1) == 2")
      (['assert f(1) == 2'], ['f'])
    """
    module = ast.parse(source)
    names: dict[str, str] = {}
    around: list[ast.stmt] = []
    tests: list[ast.FunctionDef] = []
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test"):
            tests.append(statement)
        elif isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            tests += _methods(statement)
        elif _is_of_solution(statement):
            names |= _imported(statement)
        elif not _is_for_pytest(statement):
            around.append(statement)
    if not tests:
        raise NotAloneError("it has no function whose name begins with test")
    called = {test.name for test in tests}
    around = [statement for statement in around if not _is_call_of(statement, called)]
    sources = [_alone(test, around, names) for test in tests]
    return sources, list(dict.fromkeys(names.values()))


def _methods(owner: ast.ClassDef) -> list[ast.FunctionDef]:
    found = [
        s
        for s in owner.body
        if isinstance(s, ast.FunctionDef) and s.name.startswith("test")
    ]
    others = [s for s in owner.body if s not in found and not _is_docstring(s)]
    if others:
        raise NotAloneError(f"class {owner.name} has more than tests")
    for method in found:
        if any(isinstance(n, ast.Name) and n.id == "self" for n in ast.walk(method)):
            raise NotAloneError(f"{owner.name}.{method.name} uses self")
        method.args.args = method.args.args[1:]
    return found


def _alone(
    test: ast.FunctionDef, around: Iterable[ast.stmt], names: dict[str, str]
) -> str:
    body: list[ast.stmt] = [s for s in test.body if not _is_docstring(s)]
    body = _looped(test, body)
    if any(isinstance(n, ast.Return | ast.Yield) for s in body for n in ast.walk(s)):
        raise NotAloneError(f"{test.name} returns")
    module = ast.fix_missing_locations(ast.Module([*around, *body], type_ignores=[]))
    plain = _Plain(names).visit(ast.parse(ast.unparse(module)))
    if any(isinstance(n, ast.Name) and n.id == "pytest" for n in ast.walk(plain)):
        raise NotAloneError(f"{test.name} needs pytest")
    source = ast.unparse(ast.fix_missing_locations(plain))
    taken = free_names(source)
    # What is imported may have the name of a builtin; of the rest, nothing is ours.
    if not (taken & set(names.values()) if names else taken - BUILTIN_NAMES):
        raise NotAloneError(f"{test.name} tests nothing of the program")
    return source


def _looped(test: ast.FunctionDef, body: list[ast.stmt]) -> list[ast.stmt]:
    """The body in a loop over its parameters, the innermost last."""
    given = {argument.arg for argument in test.args.args}
    for decorator in test.decorator_list:
        names, values = _parametrized(decorator, test.name)
        targets = [ast.Name(name, ast.Store()) for name in names]
        target = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())  # type: ignore[arg-type]
        body = [ast.For(target=target, iter=values, body=body, orelse=[])]
        given -= set(names)
    if given:
        raise NotAloneError(f"{test.name} takes the fixture {min(given)}")
    return body


def _parametrized(decorator: ast.expr, test: str) -> tuple[list[str], ast.expr]:
    is_known = (
        isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) == "pytest.mark.parametrize"
        and len(decorator.args) == 2
        and not decorator.keywords
    )
    if not is_known:
        raise NotAloneError(f"{test} is decorated by {ast.unparse(decorator)[:60]}")
    assert isinstance(decorator, ast.Call)
    try:
        names = ast.literal_eval(decorator.args[0])
    except ValueError:
        raise NotAloneError(f"{test} has parameters without names") from None
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    return list(names), decorator.args[1]


def _is_of_solution(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        if any(alias.name == SOLUTION for alias in statement.names):
            raise NotAloneError(f"it imports {SOLUTION} as a module")
        return False
    return isinstance(statement, ast.ImportFrom) and statement.module == SOLUTION


def _imported(statement: ast.stmt) -> dict[str, str]:
    """What the names that a test uses are called in the program."""
    assert isinstance(statement, ast.ImportFrom)
    if any(alias.name == "*" for alias in statement.names):
        raise NotAloneError(f"it imports everything of {SOLUTION}")
    return {alias.asname or alias.name: alias.name for alias in statement.names}


def _is_for_pytest(statement: ast.stmt) -> bool:
    """Whether a statement only serves pytest, or runs the tests."""
    if isinstance(statement, ast.Import):
        return all(alias.name == "pytest" for alias in statement.names)
    is_main = isinstance(statement, ast.If) and "__name__" in ast.unparse(
        statement.test
    )
    return is_main or _is_docstring(statement)


def _is_call_of(statement: ast.stmt, tests: set[str]) -> bool:
    """Whether a statement runs a test, which will be run anyway."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id in tests
    )


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _Plain(ast.NodeTransformer):
    """Puts what pytest does in plain Python, and calls the program by its own names."""

    def __init__(self, names: dict[str, str]):
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:  # noqa: N802
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:  # noqa: N802
        self.generic_visit(node)
        (item, *others) = node.items
        found = item.context_expr
        is_raises = (
            isinstance(found, ast.Call)
            and ast.unparse(found.func) == "pytest.raises"
            and len(found.args) == 1
            and not found.keywords
            and not others
            and item.optional_vars is None
        )
        if not is_raises:
            return node
        assert isinstance(found, ast.Call)
        # Outside the `try`: an AssertionError of ours must not be the one expected.
        return ast.parse(
            "_raised = False\n"
            f"try:\n{_indented(node.body)}\n"
            f"except {ast.unparse(found.args[0])}:\n    _raised = True\n"
            "assert _raised"
        ).body

    def visit_Compare(self, node: ast.Compare) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if len(sides) != 2 or not isinstance(node.ops[0], ast.Eq):
            return node
        for side, other in (sides, reversed(sides)):
            is_approx = (
                isinstance(side, ast.Call)
                and ast.unparse(side.func) in ("pytest.approx", "approx")
                and len(side.args) == 1
                and not _holds_several(side.args[0])
            )
            if is_approx:
                assert isinstance(side, ast.Call)
                return _close(side, other)
        return node


def _close(approx: ast.Call, other: ast.expr) -> ast.Call:
    given = {str(keyword.arg): keyword.value for keyword in approx.keywords}
    if not given.keys() <= {"rel", "abs"}:
        raise NotAloneError(f"{ast.unparse(approx)} has other options than tolerances")
    # A tolerance alone takes the other's default away only if it is the absolute one.
    relative = given.get("rel", ast.Constant(0.0 if "abs" in given else 1e-6))
    absolute = given.get("abs", ast.Constant(1e-12))
    return ast.Call(
        func=ast.Name("isclose", ast.Load()),
        args=[other, approx.args[0]],
        keywords=[
            ast.keyword("rel_tol", relative),
            ast.keyword("abs_tol", absolute),
        ],
    )


def _holds_several(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set)


def _indented(body: list[ast.stmt]) -> str:
    text = "\n".join(map(ast.unparse, body))
    return "\n".join(f"    {line}" for line in text.split("\n"))
