"""A program's statements, numbered so that Python's line events are statement events.

A tracer is told lines. Here each statement gets a line number of its own in the syntax
tree (several on one line get several, one over three lines gets one) before the tree is
compiled. Nothing else changes: no code is inserted, so what the program does is what it
does untraced, except that line numbers it asks for itself are these numbers.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO

FIRST_NUMBER = 10
"""Below are the lines that the compiler makes up, 0 and 1."""

LINE_END = re.compile(r"\r\n|\n|\r")
HEADER_START = re.compile(r"(?:async\s+)?(?:def|class)\s+\w+|except(?:\s*\*)?|try")
HEADER_TAIL = re.compile(r"(?:[ \t\f\r\n\\]|#[^\r\n]*)*\)")
"""Blanks and comments up to a bracket that closes around what ends a header."""

KINDS: dict[type[ast.AST], str] = {
    ast.Assign: "assign",
    ast.AnnAssign: "assign",
    ast.AugAssign: "assign",
    ast.Delete: "delete",
    ast.Expr: "expression",
    ast.Return: "return",
    ast.Raise: "raise",
    ast.Assert: "assert",
    ast.If: "branch",
    ast.While: "loop",
    ast.For: "loop",
    ast.AsyncFor: "loop",
    ast.With: "with",
    ast.AsyncWith: "with",
    ast.Match: "match",
    ast.ExceptHandler: "except",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.FunctionDef: "definition",
    ast.AsyncFunctionDef: "definition",
    ast.ClassDef: "definition",
    ast.Pass: "pass",
    ast.Break: "break",
    ast.Continue: "continue",
    ast.Lambda: "return",
}
"""Kinds of boundaries. What is not here (`try`, `global`) does nothing by itself."""
HEADED = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
    ast.Try,
    ast.TryStar,
)
"""Compound statements whose headers may have no part of their own in the tree."""
VARIABLE_PARTS = (
    ast.Name,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.NamedExpr,
)
"""A test without any of these is known beforehand, and left out by the compiler."""


@dataclass(slots=True)
class Statement:
    """One statement, or the header of a compound one, or a lambda's body."""

    number: int
    node: ast.AST
    kind: str
    """Empty where it is no boundary."""
    scope: str
    """Dotted names of the functions and classes around it, from `<module>` on."""
    body: range = range(0)
    """Numbers of what it runs if its test holds."""
    place: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Line from 1 and character from 0 of its beginning, and of its end."""
    shape: str = ""
    """Its syntax without names, constants and operators."""
    targets: frozenset[str] = frozenset()
    """Variables that it sets, wholly or in part, also if to the same value."""
    globals: tuple[str, ...] = ()
    """For functions: the names that they declare global."""


@dataclass(slots=True)
class Numbered:
    """A program ready to be compiled and traced."""

    tree: ast.Module
    statements: dict[int, Statement] = field(default_factory=dict)
    """By number."""

    def line_of(self, number: int) -> int | None:
        """The line of the source on which a numbered statement begins."""
        found = self.statements.get(number)
        return found.place[0] if found else None


def numbered(source: bytes) -> Numbered:
    """A program with a number for each statement.

    Args:
      source: The program, as the interpreter would read it from a file.

    Raises:
      SyntaxError, ValueError, RecursionError or MemoryError: It is none.
    """
    result = Numbered(ast.parse(source))
    places = Places(source)
    numbering = _Numbering(result, places)
    for statement in result.tree.body:
        numbering.visit_statement(statement, "<module>")
    return result


class Places:
    """From the syntax tree's places (bytes of a line) to characters of the source.

    Args:
      source: The program.
    """

    def __init__(self, source: bytes) -> None:
        encoding, _ = tokenize.detect_encoding(BytesIO(source).readline)
        self._encoding = encoding.removesuffix("-sig")
        self._bom = 1 if source.startswith(b"\xef\xbb\xbf") else 0
        self.text = source[3 * self._bom :].decode(self._encoding)
        ends = [match.end() for match in LINE_END.finditer(self.text)]
        self._starts = [0, *ends, len(self.text)]

    def offset(self, line: int, column: int) -> int:
        """Character of `text` at a place as the tree has it."""
        start, end = self._starts[line - 1], self._starts[line]
        content = self.text[start:end]
        if content.isascii():
            return start + column
        # The tree counts bytes of UTF-8, whatever the source's encoding is.
        return start + len(content.encode()[:column].decode())

    def place(self, offset: int, line: int) -> tuple[int, int]:
        """Line and character of an offset, in the source as it was handed in.

        Args:
          offset: Character of `text`.
          line: On which it lies, or a line before.
        """
        while self._starts[line] <= offset and line + 1 < len(self._starts):
            line += 1
        start = self._starts[line - 1]
        column = offset - start
        if self._encoding not in ("utf-8", "ascii"):
            # Whoever handed it in took it for UTF-8.
            passed = self.text[start:offset].encode(self._encoding)
            column = len(passed.decode("utf-8", "replace"))
        return line, column + (self._bom if line == 1 else 0)


class _Numbering:
    """Goes through a program in the order of its source."""

    def __init__(self, result: Numbered, places: Places) -> None:
        self._statements = result.statements
        self._places = places

    def visit_statement(self, node: ast.AST, scope: str) -> None:
        """Numbers a statement and all that is in it."""
        found = self._new(node, scope)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner_scope = inside(scope, node.name)
            found.globals = tuple(_global_names(node))
        else:
            inner_scope = scope
        for name, child in ast.iter_fields(node):
            children = child if isinstance(child, list) else [child]
            first = FIRST_NUMBER + len(self._statements)
            for part in children:
                self._visit_part(part, found.number, scope, inner_scope)
            if name == "body":
                found.body = range(first, FIRST_NUMBER + len(self._statements))

    def _visit_part(
        self, part: object, number: int, scope: str, inner_scope: str
    ) -> None:
        """Numbers a part: a statement anew, an expression like its statement."""
        if isinstance(part, ast.stmt | ast.ExceptHandler):
            self.visit_statement(part, inner_scope)
        elif isinstance(part, ast.match_case):
            self._mark(part.pattern, number, scope)
            if part.guard is not None:
                self._mark(part.guard, number, scope)
            for statement in part.body:
                self.visit_statement(statement, inner_scope)
        elif isinstance(part, ast.AST):
            self._mark(part, number, scope)

    def _mark(self, node: ast.AST, number: int, scope: str) -> None:
        """Gives an expression, without the lambdas in it, the number of a statement."""
        self._set_line(node, number)
        if not isinstance(node, ast.Lambda):
            for child in ast.iter_child_nodes(node):
                self._mark(child, number, scope)
            return
        for child in ast.iter_child_nodes(node.args):
            self._mark(child, number, scope)
        body = self._new(node, inside(scope, "<lambda>"), place_of=node.body)
        self._set_line(node, number)
        self._mark(node.body, body.number, body.scope)

    def _new(
        self, node: ast.AST, scope: str, place_of: ast.AST | None = None
    ) -> Statement:
        number = FIRST_NUMBER + len(self._statements)
        found = Statement(number, node, kind_of(node), scope)
        found.place = self._place(place_of or node)
        found.shape = shape_of(place_of or node)
        found.targets = frozenset(target_names(node))
        self._statements[number] = found
        self._set_line(node, number)
        return found

    def _place(self, node: ast.AST) -> tuple[int, int, int, int]:
        first_line, last_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start = self._places.offset(first_line, node.col_offset)  # type: ignore[attr-defined]
        tail = header_end(node)
        opening = HEADER_START.match(self._places.text, start)
        if tail is None and isinstance(node, HEADED) and opening is not None:
            last_line, end = first_line, opening.end()
        elif tail is None:
            end = self._places.offset(last_line, node.end_col_offset)  # type: ignore[attr-defined]
        else:
            last_line = tail.end_lineno  # type: ignore[attr-defined]
            end = self._places.offset(last_line, tail.end_col_offset)  # type: ignore[attr-defined]
            while found := HEADER_TAIL.match(self._places.text, end):
                end = found.end()
        begin = self._places.place(start, first_line)
        return (*begin, *self._places.place(end, last_line))

    @staticmethod
    def _set_line(node: ast.AST, number: int) -> None:
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = number  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]


def inside(scope: str, name: str) -> str:
    """The scope of what is in a function or class."""
    return name if scope == "<module>" else f"{scope}.{name}"


def kind_of(node: ast.AST) -> str:
    """The kind of a boundary; empty where it is none."""
    if isinstance(node, ast.If | ast.While) and not _depends_on_anything(node.test):
        return ""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return ""
    return KINDS.get(type(node), "")


def _depends_on_anything(test: ast.expr) -> bool:
    return any(isinstance(part, VARIABLE_PARTS) for part in ast.walk(test))


def header_end(node: ast.AST) -> ast.AST | None:
    """The part of the tree that ends a compound statement's header, if any does."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            return test
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
            return iterated
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return items[-1].optional_vars or items[-1].context_expr
        case ast.Match(subject=subject):
            return subject
        case ast.ExceptHandler():
            return node.type
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts = [*ast.iter_child_nodes(node.args), node.returns]
            found = [part for part in parts if hasattr(part, "end_lineno")]
            last = max(
                found,
                key=lambda part: (part.end_lineno, part.end_col_offset),  # type: ignore[union-attr]
                default=None,
            )
            return last
        case ast.ClassDef():
            parts = [*node.bases, *(keyword.value for keyword in node.keywords)]
            return parts[-1] if parts else None
    return None


def shape_of(node: ast.AST) -> str:
    """The syntax of a statement's own part, without names, constants and operators."""
    return f"{type(node).__name__}({','.join(_shapes(node))})"


def _shapes(node: ast.AST) -> Iterator[str]:
    for name, child in ast.iter_fields(node):
        children = child if isinstance(child, list) else [child]
        for part in children:
            if isinstance(part, ast.expr) and name != "decorator_list":
                yield shape_of(part)
            elif isinstance(part, ast.comprehension | ast.keyword | ast.withitem):
                yield shape_of(part)


def target_names(node: ast.AST) -> Iterator[str]:
    """Variables that a statement sets; of `a[i]` and `a.x`, the variable `a`."""
    match node:
        case ast.Assign(targets=targets):
            found = targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            found = [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            found = [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            found = [item.optional_vars for item in items]
        case _:
            return
    for target in found:
        yield from _names_in(target)


def _names_in(target: ast.AST | None) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _names_in(part)
        case ast.Starred(value=part) | ast.Subscript(value=part):
            yield from _names_in(part)
        case ast.Attribute(value=part):
            yield from _names_in(part)


def _global_names(node: ast.AST) -> Iterator[str]:
    """Names that a function declares global, not those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Global):
            yield from child.names
        elif not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
        ):
            yield from _global_names(child)
