"""Which names a scope of a program binds, and what it calls by a name from outside.

Read off the syntax tree, as Python has it: what a block binds (an `if`, a loop, a
`with`) is bound around it, what a function, a class or a comprehension binds is not.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = Function | ast.ClassDef | ast.Lambda
"""What has a scope of its own in its `body`."""
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def bindings(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    r"""Yields the names that parts of one scope bind in it, with what binds them.

    Args:
      nodes: Statements or expressions.

    Example:
      >>> tree = ast.parse("if a:\n  def f(x): y = 1\nelse:\n  f, *g = 1, 2")
      >>> [name for name, _ in bindings(tree.body)]
      ['f', 'f', 'g']
    """
    for node in _of_scope(nodes):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id, node
            case ast.alias():
                yield node.asname or node.name.partition(".")[0], node
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield name, node


def calls_itself(function: Function) -> bool:
    """Returns whether a function calls what it knows by its own name from outside.

    Args:
      function: Of a module or of another function; a method's name means nothing
        inside it.
    """
    name = function.name
    waiting: list[Sequence[ast.AST]] = []
    _enter(function, name, waiting)
    while waiting:
        for node in _of_scope(waiting.pop()):
            match node:
                case ast.Call(func=ast.Name(id=called)) if called == name:
                    return True
            _enter(node, name, waiting)
    return False


def _enter(node: ast.AST, name: str, waiting: list[Sequence[ast.AST]]) -> None:
    """Adds a scope that a node has, as far as the name still comes from outside."""
    inner = _inner_scope(node)
    if name in _bound_inside(node):
        # What a class binds is not known in its methods.
        is_class = isinstance(node, ast.ClassDef)
        inner = [part for part in inner if is_class and isinstance(part, Function)]
    if inner:
        waiting.append(inner)


def _bound_inside(node: ast.AST) -> set[str]:
    """Names that a node's own scope binds."""
    if isinstance(node, _Comprehension):
        targets = [generator.target for generator in node.generators]
        return {name for name, _ in bindings(targets)}
    inner = _inner_scope(node)
    bound = {name for name, _ in bindings(inner)}
    for part in _of_scope(inner):
        if isinstance(part, ast.Global | ast.Nonlocal):
            bound -= set(part.names)
    if isinstance(node, Function | ast.Lambda):
        bound |= {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    return bound


def _of_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and all parts of theirs in the same scope, in the source's order."""
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += list(_in_same_scope(node))[::-1]


def _in_same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The next parts of a node that belong to the scope around it."""
    if isinstance(node, _Comprehension):
        yield node.generators[0].iter
        # The one thing in a comprehension that binds around it.
        named = (part for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        yield from (part.target for part in named)
        return
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(node, _Scope):
            continue
        parts = value if isinstance(value, list) else [value]
        yield from (part for part in parts if isinstance(part, ast.AST))


def _inner_scope(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that have a scope of their own; none for most."""
    if isinstance(node, ast.Lambda):
        return [node.body]
    if isinstance(node, Function | ast.ClassDef):
        return list(node.body)
    if not isinstance(node, _Comprehension):
        return []
    first, *others = node.generators
    parts = [part for part in ast.iter_child_nodes(node) if part not in node.generators]
    parts += [first.target, *first.ifs]
    return [*parts, *(p for other in others for p in ast.iter_child_nodes(other))]
