"""Anchors: lines that print what a function assigns and returns.

    total = len(xs)         ->  total = len(xs)
                                print(f"total: {total!r}")
    return total + k        ->  result = total + k
                                print(f"result: {result!r}")
                                return result

One stands after each assignment to a plain name, and before each return, of the
function that is called: never inside a loop, nor in a function, class or comprehension
within it. What the function returns is the last that it prints, and stays the same.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from jaxgrpo.host.judge.literal_values import NotALiteralError, read_literal
from jaxgrpo.host.trace.spans import LINE_END
from jaxgrpo.host.trace.steps import Anchor

MAX_LINES = 10
"""Lines that a run may print; programs that print more are left out."""
_RESULT = "result"
_RETURN = len(b"return")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_YIELDS = (ast.Yield, ast.YieldFrom)


class UnanchoredError(ValueError):
    """A program that cannot have anchors. The message says why."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A statement that gets an anchor."""

    statement: ast.stmt
    names: tuple[str, ...]
    """What to print after it; none before a return."""


def anchored(source: str, function: str) -> str:
    r"""Returns a program that prints the anchors of a function and does the same.

    The text of the program stays as it is, but where statements share a line: there the
    whole program is written anew, each statement on a line of its own.

    Args:
      source: The program.
      function: Of its top level; the one that is called.

    Raises:
      UnanchoredError: The program mentions `print`, or has no such function that
        simply returns.

    Example:
      >>> print(anchored("def f(x):\n    y = x + 1\n    return [y]", "f"))
      def f(x):
          y = x + 1
          print(f"y: {y!r}")
          result = [y]
          print(f"result: {result!r}")
          return result

    Reference:
      StepCodeReasoner, 2026, https://arxiv.org/abs/2605.11922. Differs from it: a
      language model inserts them there, and may unroll a line or choose what matters;
      here the syntax tree alone decides.
    """
    tree = _parsed(source)
    names = _identifiers(tree)
    if "print" in names or "*" in names:
        raise UnanchoredError("it prints, or may give print another meaning")
    places = _places(_body_of(tree, function))
    if not all(_stands_alone(place.statement, source) for place in places):
        source = ast.unparse(tree)
        places = _places(_body_of(_parsed(source), function))
    return _with_anchors(source, places, _fresh_name(names))


def printed_anchors(printed: str, answer: str) -> tuple[Anchor, ...]:
    r"""Returns what a run printed at its anchors; nothing where it is no good problem.

    A good one has at least an assignment and the result, at most MAX_LINES, and values
    that a reader can write down: literals as `repr` writes them, the last of them the
    answer.

    Args:
      printed: By the program with anchors.
      answer: `repr` of what the call returned, without anchors.

    Example:
      >>> printed_anchors("y: 2\nresult: [2]\n", "[2]")
      (Anchor(name='y', value='2'), Anchor(name='result', value='[2]'))
      >>> printed_anchors("y: <map object>\nresult: [2]\n", "[2]")
      ()
    """
    pairs = [line.split(": ", 1) for line in printed.removesuffix("\n").split("\n")]
    if not 1 < len(pairs) <= MAX_LINES or any(len(pair) != 2 for pair in pairs):
        return ()
    anchors = tuple(Anchor(*pair) for pair in pairs)
    if anchors[-1].value != answer or not anchors[-1].name.startswith(_RESULT):
        return ()
    return anchors if all(_is_told(anchor.value) for anchor in anchors) else ()


def written(anchors: Sequence[Anchor]) -> str:
    r"""Returns what a run printed, without the last line's end.

    Args:
      anchors: In their order.

    Example:
      >>> written([Anchor("y", "2"), Anchor("result", "[2]")])
      'y: 2\nresult: [2]'
    """
    return "\n".join(f"{anchor.name}: {anchor.value}" for anchor in anchors)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnanchoredError(f"it cannot be read: {error}") from None


def _body_of(tree: ast.Module, function: str) -> list[ast.stmt]:
    """The body of the last definition of a function; it alone is called."""
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    if not found or any(isinstance(n, _YIELDS) for n in _own_nodes(found[-1].body)):
        raise UnanchoredError(f"it has no function {function} that simply returns")
    return found[-1].body


def _own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a function that are not of one within it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _places(body: Sequence[ast.stmt]) -> list[_Place]:
    """In the order of the text."""
    places: list[_Place] = []
    for statement in body:
        if isinstance(statement, (*_LOOPS, *_SCOPES)):
            continue
        names = tuple(_assigned_names(statement))
        if names or isinstance(statement, ast.Return):
            places.append(_Place(statement, names))
        for block in _blocks(statement):
            places += _places(block)
    return places


def _assigned_names(statement: ast.stmt) -> Iterator[str]:
    """Plain names, each once: `a = b = 1` has two."""
    match statement:
        case ast.Assign(targets=targets):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from dict.fromkeys(names)
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """What a compound statement holds: branches, handlers, cases."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        parts = getattr(statement, field, [])
        if field in ("handlers", "cases"):
            yield from (part.body for part in parts)
        else:
            yield parts


def _identifiers(tree: ast.Module) -> set[str]:
    """Every name that the program mentions; `*` where it imports unknown ones."""
    names: set[str] = set()
    for node in ast.walk(tree):
        for field in ("id", "arg", "name", "asname", "rest"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names |= {value, value.partition(".")[0]}
        if isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
    return names


def _fresh_name(names: set[str]) -> str:
    if _RESULT not in names:
        return _RESULT
    numbered = (f"{_RESULT}_{number}" for number in count(1))
    return next(name for name in numbered if name not in names)


def _is_told(value: str) -> bool:
    """Whether a value is the literal of one thing, in the order in which it is."""
    try:
        read = read_literal(value)
    except NotALiteralError:
        return False
    return repr(read) == value and not _has_large_set(read)


def _has_large_set(value: object) -> bool:
    """The order of a set's items is nobody's to know."""
    if isinstance(value, set | frozenset):
        return len(value) > 1
    if isinstance(value, dict):
        return any(map(_has_large_set, [*value.keys(), *value.values()]))
    return isinstance(value, list | tuple) and any(map(_has_large_set, value))


def _lines(source: str) -> list[bytes]:
    """With their ends. Columns of syntax trees count bytes."""
    starts = [0, *(match.end() for match in LINE_END.finditer(source)), len(source)]
    return [
        source[start:end].encode()
        for start, end in zip(starts, starts[1:], strict=False)
    ]


def _stands_alone(statement: ast.stmt, source: str) -> bool:
    """Whether nothing but a comment shares the lines of a statement."""
    lines = _lines(source)
    first, last = lines[statement.lineno - 1], lines[statement.end_lineno - 1]  # type: ignore[operator]
    before, after = first[: statement.col_offset], last[statement.end_col_offset :]
    return not before.strip() and not after.split(b"#")[0].strip()


def _with_anchors(source: str, places: Sequence[_Place], result: str) -> str:
    lines = _lines(source)
    # From the end on, so that the lines before keep their numbers.
    for place in reversed(places):
        statement = place.statement
        first, column = statement.lineno - 1, statement.col_offset
        last: int = statement.end_lineno  # type: ignore[assignment]
        indent = lines[first][:column]
        names, following = place.names, b""
        if isinstance(statement, ast.Return):
            value = b"" if statement.value else b" None"
            rest = lines[first][column + _RETURN :]
            lines[first] = indent + f"{result} =".encode() + value + rest
            names, following = (result,), f"return {result}".encode()
        added = [f'print(f"{name}: {{{name}!r}}")'.encode() for name in names]
        end = b"\n" if lines[last - 1].endswith((b"\n", b"\r")) else b""
        block = [indent + line + b"\n" for line in [*added, *filter(None, [following])]]
        if not end:
            lines[last - 1] += b"\n"
            block[-1] = block[-1].removesuffix(b"\n")
        lines[last:last] = block
    return b"".join(lines).decode()
