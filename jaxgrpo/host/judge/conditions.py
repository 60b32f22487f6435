"""Expressions of asserts, evaluated on plain data without running anybody's code.

An assert such as `sorted(f([2, 1])) == [1, 2]` is decided on this side of the sandbox's
border: the calls of the program's functions are made over there, and the rest of the
expression is evaluated here, by a reader of syntax trees that knows literals,
operators, and a few functions. What it does not know it refuses, beforehand.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxgrpo.host.judge.operations import (
    BINARY,
    COMPARISONS,
    CONSTANTS,
    FUNCTIONS,
    UNARY,
)

MODULES = ("math", "copy", "collections")
TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set)
}
"""Allowed as the second argument of `isinstance`."""
METHODS = ("lower", "upper", "strip", "startswith", "endswith", "split", "count")
"""Of strings."""


class NotEvaluableError(Exception):
    """The expression holds something that is not evaluated here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the names of an expression stand for."""

    names: Mapping[str, object] = field(default_factory=dict)
    """Values of variables."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Imported names: what each stands for, such as `math.isclose`."""
    call: Callable[[ast.Call], object] | None = None
    """Value of a call of the program's function; None where there is none yet."""
    functions: Callable[[ast.expr], str] = lambda node: ""
    """Name of the program's function that an expression refers to, or nothing."""

    def dotted_name(self, node: ast.expr) -> str:
        """Returns the Python name of a function or constant that is known here."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            base = node.value.id
            module = self.aliases.get(base, base if base in MODULES else "")
            is_module = module in MODULES and base not in self.names
            return f"{module}.{node.attr}" if is_module else ""
        if isinstance(node, ast.Name) and node.id not in self.names:
            name = self.aliases.get(node.id, node.id)
            return name if name in FUNCTIONS or name in CONSTANTS else ""
        return ""


def evaluate(node: ast.expr, scope: Scope) -> Any:
    """Returns the value of an expression.

    Args:
      node: The expression.
      scope: What its names and calls stand for.

    Raises:
      NotEvaluableError: A part that was come to is not evaluated here.
      Exception: Whatever Python's operators raise on the values.
    """
    evaluator = _EVALUATORS.get(type(node))
    if evaluator is None:
        raise NotEvaluableError(f"{type(node).__name__}: {ast.unparse(node)}")
    return evaluator(node, scope)


def check_evaluable(node: ast.expr, scope: Scope) -> None:
    """Raises NotEvaluableError if any part of an expression is not evaluated here.

    Args:
      node: The expression.
      scope: As for `evaluate`; its `functions` say which calls are the program's.
    """
    if type(node) not in _EVALUATORS:
        raise NotEvaluableError(f"{type(node).__name__}: {ast.unparse(node)}")
    if isinstance(node, ast.Call) and scope.functions(node.func):
        return  # Its arguments are evaluated on their own.
    if isinstance(node, ast.Call):
        _check_call(node, scope)
    elif isinstance(node, ast.Attribute) and scope.dotted_name(node) not in CONSTANTS:
        raise NotEvaluableError(f"attribute {ast.unparse(node)}")
    elif isinstance(node, ast.Name):
        _check_name(node, scope)
    elif isinstance(node, ast.Compare):
        _check_identity(node)
    elif isinstance(node, ast.Dict) and None in node.keys:
        raise NotEvaluableError(f"** in {ast.unparse(node)}")
    parts = node.args if isinstance(node, ast.Call) else _parts(node)
    for part in parts:
        is_type = isinstance(node, ast.Call) and _is_type(part, node, scope)
        if not is_type:
            check_evaluable(part, scope)


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Attribute):
        return []
    return [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]


def _check_name(node: ast.Name, scope: Scope) -> None:
    if node.id not in scope.names and scope.dotted_name(node) not in CONSTANTS:
        raise NotEvaluableError(f"name {node.id}")


def _check_identity(node: ast.Compare) -> None:
    """Identity survives the border for None, True and False only."""
    sides = [node.left, *node.comparators]
    for left, comparison, right in zip(sides, node.ops, sides[1:], strict=False):
        if not isinstance(comparison, ast.Is | ast.IsNot):
            continue
        if not (is_singleton(left) or is_singleton(right)):
            raise NotEvaluableError(f"identity of {ast.unparse(node)}")


def is_singleton(node: ast.expr) -> bool:
    """Returns whether an expression is None, True or False.

    Args:
      node: The expression.
    """
    return isinstance(node, ast.Constant) and (
        node.value is None or isinstance(node.value, bool)
    )


def _check_call(node: ast.Call, scope: Scope) -> None:
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
    name = scope.dotted_name(node.func)
    if name not in FUNCTIONS and not is_method:
        raise NotEvaluableError(f"call of {ast.unparse(node.func)}")
    if name not in FUNCTIONS:
        check_evaluable(node.func.value, scope)  # type: ignore[attr-defined]
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg == "key":
            raise NotEvaluableError(f"arguments of {ast.unparse(node)}")
        check_evaluable(keyword.value, scope)


def _is_type(node: ast.expr, call: ast.Call, scope: Scope) -> bool:
    """Whether an argument of `isinstance` is a type, or a tuple of types."""
    if scope.dotted_name(call.func) != "isinstance" or node is call.args[0]:
        return False
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(kind, ast.Name) and kind.id in TYPES for kind in kinds)


def _name(node: ast.Name, scope: Scope) -> object:
    if node.id in scope.names:
        return scope.names[node.id]
    return _constant(node, scope)


def _constant(node: ast.expr, scope: Scope) -> object:
    name = scope.dotted_name(node)
    if name not in CONSTANTS:
        raise NotEvaluableError(f"name {ast.unparse(node)}")
    return CONSTANTS[name]


def _call(node: ast.Call, scope: Scope) -> object:
    if scope.functions(node.func):
        if scope.call is None:
            raise NotEvaluableError(f"call of {ast.unparse(node.func)}")
        return scope.call(node)
    keywords = {str(k.arg): evaluate(k.value, scope) for k in node.keywords}
    name = scope.dotted_name(node.func)
    if name == "isinstance":
        return isinstance(evaluate(node.args[0], scope), _types(node.args[1]))
    arguments = evaluated_items(node.args, scope)
    if name in FUNCTIONS:
        return FUNCTIONS[name](*arguments, **keywords)
    assert isinstance(node.func, ast.Attribute), "checked beforehand"
    owner = evaluate(node.func.value, scope)
    if not isinstance(owner, str):
        raise TypeError(f"{type(owner).__name__} where the assert expects a string")
    return getattr(owner, node.func.attr)(*arguments, **keywords)


def _types(node: ast.expr) -> tuple[type, ...]:
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(TYPES[kind.id] for kind in kinds if isinstance(kind, ast.Name))


def evaluated_items(nodes: list[ast.expr], scope: Scope) -> list:
    """Values of the items of a display or call; `*items` are spread.

    Args:
      nodes: The items.
      scope: As for `evaluate`.
    """
    items: list[object] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items.extend(evaluate(node.value, scope))
        else:
            items.append(evaluate(node, scope))
    return items


def _compare(node: ast.Compare, scope: Scope) -> object:
    left = evaluate(node.left, scope)
    outcome: object = True
    for comparison, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(right_node, scope)
        outcome = COMPARISONS[type(comparison)](left, right)
        if not outcome:
            break
        left = right
    return outcome


def _bool_op(node: ast.BoolOp, scope: Scope) -> object:
    is_or = isinstance(node.op, ast.Or)
    value: object = None
    for part in node.values:
        value = evaluate(part, scope)
        if bool(value) == is_or:
            break
    return value


def _dict(node: ast.Dict, scope: Scope) -> dict:
    keys = [evaluate(key, scope) for key in node.keys if key is not None]
    return dict(zip(keys, evaluated_items(node.values, scope), strict=True))


def _subscript(node: ast.Subscript, scope: Scope) -> object:
    return evaluate(node.value, scope)[evaluate(node.slice, scope)]


def _slice(node: ast.Slice, scope: Scope) -> slice:
    bounds = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else evaluate(part, scope) for part in bounds))


_EVALUATORS: dict[type[ast.expr], Callable[[Any, Scope], Any]] = {
    ast.Attribute: _constant,
    ast.BinOp: lambda node, scope: BINARY[type(node.op)](
        evaluate(node.left, scope), evaluate(node.right, scope)
    ),
    ast.BoolOp: _bool_op,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: lambda node, scope: node.value,
    ast.Dict: _dict,
    ast.IfExp: lambda node, scope: evaluate(
        node.body if evaluate(node.test, scope) else node.orelse, scope
    ),
    ast.List: lambda node, scope: evaluated_items(node.elts, scope),
    ast.Name: _name,
    ast.Set: lambda node, scope: FUNCTIONS["set"](evaluated_items(node.elts, scope)),
    ast.Slice: _slice,
    ast.Starred: lambda node, scope: evaluate(node.value, scope),
    ast.Subscript: _subscript,
    ast.Tuple: lambda node, scope: tuple(evaluated_items(node.elts, scope)),
    ast.UnaryOp: lambda node, scope: UNARY[type(node.op)](
        evaluate(node.operand, scope)
    ),
}
