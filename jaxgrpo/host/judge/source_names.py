"""Where the names in a test come from: the test, Python, a library, or the program."""

import ast
import builtins
import functools
import symtable
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CHECK = "check"
"""The function that tests in the form of HumanEval define."""
BUILTIN_NAMES = frozenset(dir(builtins))
LIBRARY_NAMES = {"isclose": "math.isclose"}
"""What a test means by a name that nobody defines or imports: nobody is asked to write
such a function, and a program that did could make it agree to anything."""


def parsed(source: str) -> ast.Module:
    """Returns the syntax tree of somebody else's source.

    What Python would warn of (an escape it does not know) is theirs to mend.

    Args:
      source: Any text.

    Raises:
      ValueError: It is no Python, or nested too deeply to be read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            # MemoryError is how the parser says that brackets nest too deeply.
            raise ValueError(
                f"no Python: {str(error) or 'too deeply nested'}"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionNames:
    """What a reference solution has at its top level."""

    is_known: bool = False
    """False where there is no solution to look at."""
    classes: frozenset[str] = frozenset()
    generators: frozenset[str] = frozenset()
    """Functions whose value can only be iterated over, once."""
    defined: frozenset[str] = frozenset()
    """All names that are given a value, imports apart."""
    imports: Mapping[str, str] = field(default_factory=dict)
    """Imported names: what each stands for, such as `math.isclose`."""

    def is_class(self, name: str) -> bool:
        """Returns whether a name is that of a class, for all we know."""
        return name in self.classes if self.is_known else name[:1].isupper()


@functools.lru_cache(maxsize=4096)
def names_of_solution(source: str) -> SolutionNames:
    """Returns the names of a reference solution; nothing where it does not parse.

    Args:
      source: Of the solution; may be empty.
    """
    try:
        body = parsed(source).body
    except ValueError:
        body = []
    if not body:
        return SolutionNames()
    functions = [s for s in body if isinstance(s, ast.FunctionDef)]
    classes = [s.name for s in body if isinstance(s, ast.ClassDef)]
    targets = [
        node.id
        for statement in body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return SolutionNames(
        is_known=True,
        classes=frozenset(classes),
        generators=frozenset(f.name for f in functions if _is_generator(f)),
        defined=frozenset([*classes, *targets, *(f.name for f in functions)]),
        imports=_imports(body),
    )


def _is_generator(function: ast.FunctionDef) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _imports(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in body:
        if isinstance(statement, ast.Import):
            # `import os.path` binds `os`.
            for alias in statement.names:
                name = alias.asname or alias.name.split(".")[0]
                found[name] = alias.name if alias.asname else name
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                found[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return found


def free_names(source: str) -> frozenset[str]:
    r"""Returns the names that a test uses and does not define itself.

    Args:
      source: A test that parses.

    Example:
      >>> sorted(free_names("x = 1\nassert f(x) == len(y)"))
      ['f', 'len', 'y']
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = symtable.symtable(source, "test", "exec")
    bound = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    used: set[str] = set()
    for table in _tables(top):
        for symbol in table.get_symbols():
            is_outer = table is top or symbol.is_global()
            if is_outer and symbol.is_referenced():
                used.add(symbol.get_name())
            if symbol.is_declared_global() and symbol.is_assigned():
                bound.add(symbol.get_name())
    return frozenset(used - bound)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def import_statement(name: str, target: str) -> str:
    """Returns the statement that gives a name the meaning it has in a solution.

    Args:
      name: As it is used.
      target: What it stands for: a module, or a name in one.

    Example:
      >>> import_statement("near", "math.isclose"), import_statement("sys", "sys")
      ('from math import isclose as near', 'import sys as sys')
    """
    module, _, inner = target.rpartition(".")
    if module:
        return f"from {module} import {inner} as {name}"
    return f"import {target} as {name}"


def is_standard(target: str) -> bool:
    """Returns whether a module, or a name in one, is of the standard library.

    Args:
      target: Dotted name.
    """
    return target.split(".")[0] in sys.stdlib_module_names
