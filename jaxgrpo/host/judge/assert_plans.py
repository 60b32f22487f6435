"""How a test by asserts is going to be run: rewritten, by a tester, or not at all."""

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from jaxgrpo.host.judge.batches import Case
from jaxgrpo.host.judge.conditions import NotEvaluableError, is_singleton
from jaxgrpo.host.judge.rewriting import rewritten_cases
from jaxgrpo.host.judge.source_names import (
    BUILTIN_NAMES,
    CHECK,
    LIBRARY_NAMES,
    SolutionNames,
    free_names,
    import_statement,
    is_standard,
    names_of_solution,
    parsed,
)
from jaxgrpo.host.sandbox import TesterTask


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertPlan:
    """How one test by asserts is going to be run."""

    cases: tuple[Case, ...] | None = None
    """Its asserts as calls; None where they could not be rewritten."""
    task: TesterTask | None = None
    """The test for a tester; None where there are cases, or it cannot be expressed."""
    inside: str = ""
    """Source to append to the program; empty unless the test asks for it."""
    untrusted_reason: str = ""
    """Why the test cannot be run outside the program's process."""

    @property
    def num_tests(self) -> int:
        """Tests that it counts as."""
        return 1 if self.cases is None else len(self.cases)


@functools.lru_cache(maxsize=512)
def plan_of(source: str, function: str, reference: str, is_inside: bool) -> AssertPlan:
    """Returns how a test is run.

    Args:
      source: Of the test.
      function: The program's function that the test is about, or empty.
      reference: A solution, which tells the program's names from others; or empty.
      is_inside: Whether the test asks to run in the program's process.

    Raises:
      ValueError: The test is no Python, or has no function to check.
    """
    try:
        tree = parsed(source)
    except ValueError as error:
        raise ValueError(f"a test is {error}. Correct it: {source[:60]!r}") from None
    called = with_check_called(tree, source, function)
    if is_inside:
        return AssertPlan(inside=called)
    solution = names_of_solution(reference)
    try:
        return AssertPlan(cases=tuple(rewritten_cases(tree, function, solution)))
    except NotEvaluableError:
        pass
    used = free_names(called)
    whole = parsed(called)
    imports = implied_imports(whole, used - {function}, solution)
    names = programs_names(used, function, solution) - imports.keys()
    reason = inexpressible_reason(whole, names, imports, solution)
    if reason:
        return AssertPlan(untrusted_reason=reason)
    lines = [import_statement(name, target) for name, target in imports.items()]
    return AssertPlan(
        task=TesterTask(
            setup="\n".join(lines), source=called, names=tuple(sorted(names))
        )
    )


def with_check_called(tree: ast.Module, source: str, function: str) -> str:
    """Returns a test that calls its `check`, if it defines one and does not call it.

    Args:
      tree: The test.
      source: Its source.
      function: What `check` is to be given.

    Raises:
      ValueError: There is nothing to give it.
    """
    defines = any(isinstance(s, ast.FunctionDef) and s.name == CHECK for s in tree.body)
    calls = any(
        isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and isinstance(s.value.func, ast.Name)
        and s.value.func.id == CHECK
        for s in tree.body
    )
    if not defines or calls:
        return source
    if not function:
        raise ValueError(
            f"a test defines {CHECK}(candidate) and there is no function to give it. "
            "Name it in the test's `function`."
        )
    return f"{source}\n{CHECK}({function})\n"


def programs_names(
    used: frozenset[str], function: str, solution: SolutionNames
) -> set[str]:
    """Returns those of a test's names that are the program's to define.

    Args:
      used: Names that the test uses and does not define.
      function: The function that the test is about, or empty.
      solution: Names of the reference solution.
    """
    own = {name for name in used if name == function or name in solution.defined}
    return own | {name for name in used if name not in BUILTIN_NAMES}


def implied_imports(
    tree: ast.Module, used: frozenset[str], solution: SolutionNames
) -> dict[str, str]:
    """Returns what a test uses as if it were imported: its names, and what they mean.

    That is what the solution imports, and `isclose`: a program must not bring its own
    idea of closeness along. And it is modules of the standard library, by their names.

    Args:
      tree: The test.
      used: Names that it uses and does not define.
      solution: Names of the reference solution.
    """
    modules = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    standard = {
        name: name
        for name in sorted(used & modules - solution.defined)
        if is_standard(name)
    }
    imported = {n: t for n, t in LIBRARY_NAMES.items() if n not in solution.defined}
    imported |= solution.imports
    return standard | {n: t for n, t in imported.items() if n in used}


def inexpressible_reason(
    tree: ast.Module,
    names: set[str],
    imports: Mapping[str, str],
    solution: SolutionNames,
) -> str:
    """Returns why a test cannot run in a tester; empty if it can, for all we know.

    Args:
      tree: The test, its `check` called.
      names: Those of its names that are the program's.
      imports: From `implied_imports`.
      solution: Names of the reference solution.
    """
    for name in sorted(names):
        if solution.is_class(name):
            return f"{name} is a class, whose objects cannot leave the program"
        if name in solution.generators:
            return f"{name} is a generator, which cannot leave the program"
    for target in sorted({*_imported(tree), *imports.values()}):
        if not is_standard(target):
            return f"{target.split('.')[0]} is not in the standard library"
    for node in ast.walk(tree):
        reason = _reason_at(node, names)
        if reason:
            return reason
    return ""


def _imported(tree: ast.Module) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


def _reason_at(node: ast.AST, names: set[str]) -> str:
    """Why one node stands in the way, or nothing."""

    def is_programs(part: ast.AST | None) -> bool:
        return isinstance(part, ast.Name) and part.id in names

    if any(map(is_programs, _read_parts(node))):
        return f"{ast.unparse(node)} reads a name of the program, and calls no function"
    if isinstance(node, ast.Compare) and _compares_identity(node):
        return f"{ast.unparse(node)} asks for identity, which data does not keep"
    if isinstance(node, ast.ExceptHandler) and is_programs(node.type):
        return f"{ast.unparse(node.type or node)} is a class of the program"
    if isinstance(node, ast.ClassDef) and any(map(is_programs, node.bases)):
        return f"{node.name} derives from a class of the program"
    if isinstance(node, ast.Call) and is_programs(node.func):
        for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if _is_function(part):
                return f"{ast.unparse(node.func)} is given {ast.unparse(part)}"
    return ""


def _read_parts(node: ast.AST) -> list[ast.expr]:
    """Parts of an expression whose value it looks at, other than by calling it."""
    match node:
        case ast.Attribute() | ast.Subscript() | ast.FormattedValue():
            return [node.value]
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.BinOp():
            return [node.left, node.right]
        case ast.UnaryOp():
            return [node.operand]
        case ast.BoolOp():
            return node.values
        case ast.For() | ast.comprehension():
            return [node.iter]
        case ast.Assert():
            return [node.test]
    return []


def _compares_identity(node: ast.Compare) -> bool:
    """Whether `is` stands between two values neither of which is None or a bool."""
    sides = [node.left, *node.comparators]
    return any(
        isinstance(operator, ast.Is | ast.IsNot)
        and not (is_singleton(left) or is_singleton(right))
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False)
    )


def _is_function(node: ast.expr) -> bool:
    """Whether an argument is a function or type, as far as its notation tells."""
    is_builtin = isinstance(node, ast.Name) and node.id in BUILTIN_NAMES
    return is_builtin or isinstance(node, ast.Lambda | ast.GeneratorExp)
