"""What a program makes use of: algorithms, data structures, functions by name."""

import ast
import builtins
from collections.abc import Iterator, Sequence

from jaxgrpo.host.credit.constraints import features_of
from jaxgrpo.host.hints.layout import ITEMS
from jaxgrpo.host.hints.words import listed

MOST_NAMES = 4
"""Names in one sentence."""
MOST_PACKAGES = 2
_NOT_TOLD_PACKAGES = {"typing", "__future__", "sys", "collections.abc"}
_CACHES = {"lru_cache", "cache"}
_SORTS = {"sort", "sorted"}
# Said by other sentences, or no help.
_NOT_TOLD = set(
    "print input range sorted list dict set frozenset int str float super object "
    "isinstance open".split()
)
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Mod: "%", ast.FloorDiv: "//", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


def knowledge(source: str, tree: ast.Module) -> list[str]:
    r"""Returns what a program makes use of, the most telling first, at most four items.

    Args:
      source: The program.
      tree: Of it.

    Raises:
      ValueError: It is nested too deeply to be read.

    Example:
      >>> source = "def f(xs):\n    return sorted(set(xs))[:3]"
      >>> print(*knowledge(source, ast.parse(source)), sep="\n")
      - Of use as a data structure is a set.
      - Sorting is of use.
      - No loop is needed.
      - Slices are of use.
    """
    nodes = _in_order(tree)
    features = features_of(source)
    found = [
        *_recursion(nodes, features.is_recursive),
        *_packages(nodes),
        *_containers(features.containers),
        *(["Sorting is of use."] if features.sorts else []),
        *_loops(features.loop_depth, features.is_recursive),
        *_functions(nodes),
        *_methods(nodes),
        *_notation(nodes),
    ]
    return [f"- {sentence}" for sentence in found[:ITEMS]]


def modules_of(tree: ast.Module) -> frozenset[str]:
    """Returns the names in a program that stand for imported modules.

    Args:
      tree: Of the program.
    """
    return frozenset(
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    )


def _in_order(tree: ast.Module) -> list[ast.AST]:
    """Nodes in the order of the source; those without a place first."""

    def place(node: ast.AST) -> tuple[int, int]:
        return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)

    return sorted(ast.walk(tree), key=place)


def _recursion(nodes: Sequence[ast.AST], is_recursive: bool) -> Iterator[str]:
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    kept = sorted(names & _CACHES)
    if is_recursive and kept:
        yield f"Recursion is of use, with results that `{kept[0]}` keeps."
    elif is_recursive:
        yield "Recursion is of use."


def _packages(nodes: Sequence[ast.AST]) -> Iterator[str]:
    used: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = alias.name
                used.setdefault(alias.name, [])
        elif isinstance(node, ast.ImportFrom) and node.module:
            used.setdefault(node.module, []).extend(
                alias.name for alias in node.names if alias.name != "*"
            )
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = names.get(node.value.id)
            if package:
                used[package].append(node.attr)
    told = [package for package in used if package not in _NOT_TOLD_PACKAGES]
    for package in told[:MOST_PACKAGES]:
        functions = _some(used[package])
        what = f"{functions} of the package" if functions else "The package"
        yield f"{what} `{package}` {_is(functions)} of use."


def _containers(found: frozenset[str]) -> Iterator[str]:
    # Lists are everywhere: they are told only where nothing else is.
    told = sorted(found - {"list"}) or sorted(found)
    if told:
        names = listed([f"a {name}" for name in told])
        yield f"Of use as a data structure {_is(names)} {names}."


def _loops(depth: int, is_recursive: bool) -> Iterator[str]:
    if depth > 1:
        yield f"Loops are nested {depth} deep."
    elif depth == 1:
        yield "Loops need not be nested."
    elif not is_recursive:
        yield "No loop is needed."


def _functions(nodes: Sequence[ast.AST]) -> Iterator[str]:
    calls = [n.func.id for n in nodes if isinstance(n, ast.Call)
             and isinstance(n.func, ast.Name)]  # fmt: skip
    own = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names = _some(
        name
        for name in calls
        if hasattr(builtins, name) and name not in _NOT_TOLD | own and name.islower()
    )
    if names:
        yield f"Of use {_is(names)} {names}."


def _methods(nodes: Sequence[ast.AST]) -> Iterator[str]:
    modules = {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names = _some(
        node.func.attr
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not (isinstance(node.func.value, ast.Name)
                 and node.func.value.id in modules)
        and node.func.attr not in _SORTS
    )  # fmt: skip
    if names:
        yield f"Of the methods, {names} {_is(names)} of use."


def _notation(nodes: Sequence[ast.AST]) -> Iterator[str]:
    if any(isinstance(node, ast.Slice) for node in nodes):
        yield "Slices are of use."
    operations = [n.op for n in nodes if isinstance(n, ast.BinOp | ast.AugAssign)]
    names = _some(_OPERATORS[type(op)] for op in operations if type(op) in _OPERATORS)
    if names:
        yield f"Of the operators, {names} {_is(names)} of use."


def _some(names: Sequence[str] | Iterator[str]) -> str:
    """The first few different names, as a sentence lists them."""
    shown = [f"`{name}`" for name in dict.fromkeys(names)][:MOST_NAMES]
    return listed(shown) if shown else ""


def _is(names: str) -> str:
    return "are" if " and " in names else "is"
