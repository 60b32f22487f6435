"""What a reference solution says of how a problem is to be solved.

Read off the reference's syntax tree, without a language model: the function that is
called, what is imported, which containers are built, whether it recurses, how deep its
loops are nested, whether it sorts. A candidate keeps a constraint if it does no more
than the reference of it.
"""

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxgrpo.host.credit.scopes import Function, bindings, calls_itself
from jaxgrpo.host.judge.source_names import parsed
from jaxgrpo.host.records import Problem
from jaxgrpo.host.stored_tests import tests_of

_CONTAINERS: dict[str, tuple[type[ast.AST], ...]] = {
    "list": (ast.List, ast.ListComp),
    "dict": (ast.Dict, ast.DictComp),
    "set": (ast.Set, ast.SetComp),
}
_CONTAINER_CALLS = {
    "list": "list", "dict": "dict", "set": "set", "frozenset": "set",
    "deque": "deque", "defaultdict": "dict", "Counter": "dict", "OrderedDict": "dict",
    "heapify": "heap", "heappush": "heap", "heappop": "heap",
}  # fmt: skip
_SORTS = {"sort", "sorted"}
_TYPE_MODULES = {"typing", "__future__", "collections.abc"}
"""Modules for annotations: whoever imports them does not solve a problem otherwise."""


class Arity(NamedTuple):
    """How many arguments something may be called with, by place or by name."""

    fewest: int
    most: float


ANY_ARITY = Arity(0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What constraints are about, of one program."""

    source: str
    functions: dict[str, Arity]
    """What is defined at the top level, by name: functions, and with any number of
    arguments what else may be one."""
    imports: frozenset[str]
    """Top-level packages, without modules for annotations."""
    containers: frozenset[str]
    is_recursive: bool
    loop_depth: int
    """Loops inside one another, comprehensions included. What a loop goes over is
    worked out once, outside of it."""
    sorts: bool


def features_of(source: str) -> Features:
    r"""Returns what constraints are about.

    Args:
      source: A program.

    Raises:
      SyntaxError: If it is not Python.

    Example:
      >>> found = features_of("def f(xs):\n  return sorted(x for x in xs)")
      >>> found.functions, found.sorts, found.loop_depth
      ({'f': Arity(fewest=1, most=1)}, True, 1)
    """
    tree = parsed(source)
    nodes = list(ast.walk(tree))
    calls = {_called_name(node) for node in nodes if isinstance(node, ast.Call)}
    # Targets may stand in brackets too.
    built = [n for n in nodes if isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]
    displays = {
        name
        for name, kinds in _CONTAINERS.items()
        if any(isinstance(node, kinds) for node in built)
    }
    called = {_CONTAINER_CALLS[name] for name in calls if name in _CONTAINER_CALLS}
    return Features(
        source=source,
        functions=_defined(tree),
        imports=frozenset(_imported(nodes)),
        containers=frozenset(displays | called),
        is_recursive=_is_recursive(nodes),
        loop_depth=_loop_depth(tree),
        sorts=bool(calls & _SORTS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One thing that a program has to keep to."""

    kind: str
    sentence: str
    """As it may stand in the prompt."""
    is_kept: Callable[[Features], bool]


def constraints_of(
    reference: Features, kinds: Sequence[str], entry_point: str = ""
) -> list[Constraint]:
    """Returns what a reference asks of other solutions.

    Args:
      reference: Of the reference solution.
      kinds: Some of KINDS.
      entry_point: The function that tests call; without one the constraint of that
        name is left out.
    """
    constraints = [
        _CONSTRAINTS[kind](reference) for kind in kinds if kind in _CONSTRAINTS
    ]
    if ENTRY_POINT in kinds and entry_point in reference.functions:
        constraints.insert(0, _entry_point(reference, entry_point))
    return constraints


def entry_point_of(problem: Problem) -> str:
    """Returns the function that a problem's tests call; empty where none is.

    Args:
      problem: Of a kind with programs.
    """
    if problem.kind == "stdin":
        return ""
    tests = tests_of(problem)
    named = next((test.function for test in tests if test.function), "")
    if named or problem.kind != "assert" or not tests:
        return named
    try:
        functions = _called_names(parsed(tests[0].source))
        defined = features_of(problem.reference).functions
    except (ValueError, SyntaxError, RecursionError):
        return ""
    return next((name for name in functions if name in defined), "")


def broken_constraints(
    candidate: Features, constraints: Sequence[Constraint]
) -> tuple[str, ...]:
    """Returns the kinds of the constraints that a program does not keep to.

    Args:
      candidate: Of the program.
      constraints: Of its problem.
    """
    return tuple(c.kind for c in constraints if not c.is_kept(candidate))


def _entry_point(reference: Features, name: str) -> Constraint:
    wanted = reference.functions[name]
    plural = "" if wanted.fewest == 1 else "s"
    told = "" if wanted == ANY_ARITY else f" with {wanted.fewest} argument{plural}"

    def is_kept(candidate: Features) -> bool:
        found = candidate.functions.get(name)
        if found is None:
            return False
        # Tests call it in some way that the reference takes.
        return found.fewest <= wanted.most and wanted.fewest <= found.most

    return Constraint(
        kind=ENTRY_POINT,
        sentence=f"Define the function {name}{told}.",
        is_kept=is_kept,
    )


def _imports(reference: Features) -> Constraint:
    allowed = ", ".join(sorted(reference.imports))
    told = f"nothing but {allowed}" if allowed else "nothing"
    return Constraint(
        kind="imports",
        sentence=f"Import {told}.",
        is_kept=lambda candidate: candidate.imports <= reference.imports,
    )


def _containers(reference: Features) -> Constraint:
    allowed = ", ".join(sorted(reference.containers))
    told = f"no containers but {allowed}" if allowed else "no containers"
    return Constraint(
        kind="containers",
        sentence=f"Build {told}.",
        is_kept=lambda candidate: candidate.containers <= reference.containers,
    )


def _recursion(reference: Features) -> Constraint:
    return Constraint(
        kind="recursion",
        sentence=(
            "Recursion is fine." if reference.is_recursive else "Do not use recursion."
        ),
        is_kept=lambda c: reference.is_recursive or not c.is_recursive,
    )


def _loop_nesting(reference: Features) -> Constraint:
    return Constraint(
        kind="loop_nesting",
        sentence=f"Nest loops at most {reference.loop_depth} deep.",
        is_kept=lambda candidate: candidate.loop_depth <= reference.loop_depth,
    )


def _sorting(reference: Features) -> Constraint:
    return Constraint(
        kind="sorting",
        sentence="Sorting is fine." if reference.sorts else "Do not sort.",
        is_kept=lambda candidate: reference.sorts or not candidate.sorts,
    )


_CONSTRAINTS: dict[str, Callable[[Features], Constraint]] = {
    "imports": _imports,
    "containers": _containers,
    "recursion": _recursion,
    "loop_nesting": _loop_nesting,
    "sorting": _sorting,
}
ENTRY_POINT = "entry_point"
KINDS = (ENTRY_POINT, *_CONSTRAINTS)


def _called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _called_names(tree: ast.AST) -> list[str]:
    """Names that are called, in the order of the source."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    return [call.func.id for call in calls if isinstance(call.func, ast.Name)]


def _defined(tree: ast.Module) -> dict[str, Arity]:
    """Names of the top level, blocks on it included; of several meanings the last."""
    found: dict[str, Arity] = {}
    for statement in tree.body:
        for name, node in bindings([statement]):
            arity = _arity(node.args) if isinstance(node, Function) else ANY_ARITY
            if node is not statement and found.get(name, arity) != arity:
                arity = ANY_ARITY  # Either, as a condition may have it.
            found[name] = arity
    return found


def _arity(arguments: ast.arguments) -> Arity:
    number = len(arguments.posonlyargs) + len(arguments.args)
    is_open = arguments.vararg or arguments.kwarg
    most = math.inf if is_open else number + len(arguments.kwonlyargs)
    return Arity(number - len(arguments.defaults), most)


def _imported(nodes: Sequence[ast.AST]) -> set[str]:
    modules: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules.update({node.module or ""} if names - _TYPE_MODULES else names)
    return {module.partition(".")[0] for module in modules - _TYPE_MODULES}


def _is_recursive(nodes: Sequence[ast.AST]) -> bool:
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    owners = {id(inner): node.name for node in classes for inner in node.body}
    return any(
        _method_calls_itself(node, owners[id(node)])
        if id(node) in owners
        else calls_itself(node)
        for node in nodes
        if isinstance(node, Function)
    )


def _method_calls_itself(method: Function, owner: str) -> bool:
    """Whether a method calls itself; its plain name is not known inside it."""
    called = [node.func for node in ast.walk(method) if isinstance(node, ast.Call)]
    return any(
        isinstance(func, ast.Attribute)
        and func.attr == method.name
        and isinstance(func.value, ast.Name)
        and func.value.id in {"self", "cls", owner}
        for func in called
    )


def _loop_depth(tree: ast.AST) -> int:
    deepest, waiting = 0, [(0, tree)]
    while waiting:
        around, node = waiting.pop()
        deepest = max(deepest, around)
        waiting += [(around + loops, part) for loops, part in _parts(node)]
    return deepest


def _parts(node: ast.AST) -> Iterator[tuple[int, ast.AST]]:
    """The parts of a node, and in how many of the node's own loops each stands."""
    match node:
        case ast.For() | ast.AsyncFor():
            inside, outside = node.body, [node.target, node.iter, *node.orelse]
        case ast.While():
            inside, outside = [node.test, *node.body], node.orelse
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            yield from _parts_of_generators(node.generators, [node.elt])
            return
        case ast.DictComp():
            yield from _parts_of_generators(node.generators, [node.key, node.value])
            return
        case _:
            inside, outside = [], ast.iter_child_nodes(node)
    yield from ((1, part) for part in inside)
    yield from ((0, part) for part in outside)


def _parts_of_generators(
    generators: Sequence[ast.comprehension], results: Sequence[ast.expr]
) -> Iterator[tuple[int, ast.AST]]:
    """As `_parts`: each `for` of a comprehension is a loop inside the one before it."""
    for before, generator in enumerate(generators):
        yield before, generator.iter
        yield from ((before + 1, condition) for condition in generator.ifs)
    yield from ((len(generators), result) for result in results)
