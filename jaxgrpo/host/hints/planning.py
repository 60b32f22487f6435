"""The plan of a program: its statements in words, in their order."""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxgrpo.host.hints.layout import in_parts
from jaxgrpo.host.hints.words import Words, listed

LONGEST_PLAN = 40
"""Lines of a plan; of longer ones the innermost statements are left out."""
_INDENT = "  "

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "Add {value} to {target}.",
    ast.Sub: "Subtract {value} from {target}.",
    ast.Mult: "Multiply {target} by {value}.",
    ast.Div: "Divide {target} by {value}.",
    ast.FloorDiv: "Floor-divide {target} by {value}.",
    ast.Mod: "Take {target} modulo {value}.",
}
_ADDING = {"append": "Append", "add": "Add", "extend": "Append each of"}


def planning(tree: ast.Module, modules: frozenset[str] = frozenset()) -> list[str]:
    r"""Returns the parts of a plan, at most four, each a line or more.

    Args:
      tree: Of the program.
      modules: Names in it that stand for what is imported.

    Example:
      >>> loop = "  for x in xs:\n    n += x\n"
      >>> tree = ast.parse(f"def f(xs):\n  n = 0\n{loop}  return n")
      >>> print(*planning(tree), sep="\n")
      - Let `n` be 0.
      - For each `x` in `xs`:
        - Add `x` to `n`.
      - Return `n`.
    """
    lines = list(_Plan(Words(modules=modules)).program(tree))
    depth = max((line.depth for line in lines), default=0)
    while len(lines) > LONGEST_PLAN and depth > 0:
        depth -= 1
        lines = [line for line in lines if line.depth <= depth]
    shown = [f"{_INDENT * line.depth}- {line.text}" for line in lines[:LONGEST_PLAN]]
    return in_parts(shown)


class _Line(NamedTuple):
    depth: int
    text: str


class _Plan:
    """Tells statements, those inside others one step deeper."""

    def __init__(self, tell: Words):
        self._tell = tell

    def program(self, tree: ast.Module) -> Iterator[_Line]:
        told = [statement for statement in tree.body if not _is_silent(statement)]
        match told:
            case [ast.FunctionDef() | ast.AsyncFunctionDef() as function]:
                # That it is to be written is what the problem says.
                yield from self.block(function.body, 0)
            case _:
                yield from self.block(told, 0)

    def block(self, body: Sequence[ast.stmt], depth: int) -> Iterator[_Line]:
        for statement in body:
            if not _is_silent(statement):
                yield from self.statement(statement, depth)

    def statement(self, node: ast.stmt, depth: int) -> Iterator[_Line]:
        match node:
            case ast.If():
                yield from self._if(node, depth, "If")
            case ast.For() | ast.AsyncFor() | ast.While():
                yield _Line(depth, self._loop(node))
                yield from self.block(node.body, depth + 1)
                if node.orelse:
                    yield _Line(depth, "If the loop was not left early:")
                    yield from self.block(node.orelse, depth + 1)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield _Line(depth, f"Write the function `{node.name}`{_of(node.args)}:")
                yield from self.block(node.body, depth + 1)
            case ast.ClassDef():
                yield _Line(depth, f"Write the class `{node.name}`:")
                yield from self.block(node.body, depth + 1)
            case ast.With() | ast.AsyncWith():
                items = [self._tell(item.context_expr) for item in node.items]
                yield _Line(depth, f"With {listed(items)}:")
                yield from self.block(node.body, depth + 1)
            case ast.Try() | ast.TryStar():
                yield from self._try(node, depth)
            case ast.Match(subject=subject, cases=cases):
                yield _Line(depth, f"Depending on {self._tell(subject)}:")
                for case in cases:
                    yield from self.block(case.body, depth + 1)
            case _:
                yield _Line(depth, self._simple(node))

    def _if(self, node: ast.If, depth: int, word: str) -> Iterator[_Line]:
        yield _Line(depth, f"{word} {self._tell(node.test)}:")
        yield from self.block(node.body, depth + 1)
        match node.orelse:
            case []:
                return
            case [ast.If() as other]:
                yield from self._if(other, depth, "Otherwise, if")
            case others:
                yield _Line(depth, "Otherwise:")
                yield from self.block(others, depth + 1)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> str:
        if not isinstance(node, ast.While):
            return f"For each {self._target(node.target)} in {self._tell(node.iter)}:"
        if isinstance(node.test, ast.Constant) and node.test.value:
            return "Repeat:"
        return f"While {self._tell(node.test)}:"

    def _try(self, node: ast.Try | ast.TryStar, depth: int) -> Iterator[_Line]:
        yield _Line(depth, "Try:")
        yield from self.block(node.body, depth + 1)
        for handler in node.handlers:
            kind = f"`{ast.unparse(handler.type)}`" if handler.type else "anything"
            yield _Line(depth, f"If {kind} is raised:")
            yield from self.block(handler.body, depth + 1)
        for word, body in (
            ("If nothing is raised", node.orelse),
            ("In any case", node.finalbody),
        ):
            if body:
                yield _Line(depth, f"{word}:")
                yield from self.block(body, depth + 1)

    def _simple(self, node: ast.stmt) -> str:
        tell = self._tell
        match node:
            case ast.Assign(targets=targets, value=value):
                return f"Let {self._target(*targets)} be {self._value(value)}."
            case ast.AnnAssign(target=target, value=value) if value is not None:
                return f"Let {self._target(target)} be {self._value(value)}."
            case ast.AugAssign(target=target, op=op, value=value):
                form = _UPDATES.get(type(op), "Update {target} with {value}.")
                return form.format(target=tell(target), value=tell(value))
            case ast.Return(value=None):
                return "Return."
            case ast.Return(value=value) if value is not None:
                whether = "whether " if _is_truth(value) else ""
                return f"Return {whether}{tell(value)}."
            case ast.Expr(value=value):
                return self._expression(value)
            case ast.Raise(exc=raised):
                return f"Raise {tell(raised)}." if raised else "Raise it again."
            case ast.Assert(test=test):
                return f"Require that {tell(test)}."
            case ast.Delete(targets=targets):
                return f"Remove {listed([tell(target) for target in targets])}."
            case ast.Break():
                return "Leave the loop."
            case ast.Continue():
                return "Go on with the next one."
        return f"Use a {type(node).__name__.lower()} statement."

    def _expression(self, node: ast.expr) -> str:
        tell = self._tell
        match node:
            case ast.Call(func=ast.Name(id="print"), args=values):
                told = [tell(value) for value in values]
                return f"Print {listed(told)}." if told else "Print an empty line."
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[value]) if (
                name in _ADDING
            ):
                return f"{_ADDING[name]} {tell(value)} to {tell(owner)}."
            case ast.Yield(value=value) if value is not None:
                return f"Yield {tell(value)}."
            case ast.YieldFrom(value=value):
                return f"Yield each of {tell(value)}."
        return f"Do {tell(node)}."

    def _target(self, *targets: ast.expr) -> str:
        return listed([self._tell.target(target) for target in targets])

    def _value(self, value: ast.expr) -> str:
        if isinstance(value, ast.Tuple) and 0 < len(value.elts) <= 3:
            return listed([self._tell(item) for item in value.elts])
        return self._tell(value)


def _is_truth(node: ast.expr) -> bool:
    """Whether an expression in words says something, rather than names a value."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_truth, node.values))
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.Compare)


def _is_silent(node: ast.stmt) -> bool:
    """Whether a statement is left out: imports, docstrings, what does nothing."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global():
            return True
        case ast.Nonlocal() | ast.Expr(value=ast.Constant()):
            return True
        case ast.AnnAssign(value=None):
            return True
    return False


def _of(arguments: ast.arguments) -> str:
    names = [f"`{a.arg}`" for a in arguments.posonlyargs + arguments.args]
    return f" of {listed(names)}" if names else ""
