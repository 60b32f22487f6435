"""Whether two programs are built alike enough to compare what they do, step by step."""

import ast
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from jaxgrpo.host.judge.source_names import parsed

_LABELS: dict[type[ast.AST], str] = {
    ast.FunctionDef: "def", ast.AsyncFunctionDef: "def", ast.ClassDef: "class",
    ast.Assign: "assign", ast.AnnAssign: "assign", ast.AugAssign: "augassign",
    ast.For: "for", ast.AsyncFor: "for", ast.While: "while", ast.If: "if",
    ast.Return: "return", ast.Break: "break", ast.Continue: "continue",
    ast.Raise: "raise", ast.Try: "try", ast.TryStar: "try", ast.With: "with",
    ast.AsyncWith: "with", ast.Assert: "assert", ast.Expr: "expr",
    ast.Delete: "delete", ast.Match: "match",
}  # fmt: skip
"""Imports, `pass` and docstrings do nothing by themselves and have no label."""


def control_flow(source: str) -> list[str]:
    r"""Returns the kinds of a program's statements, nested ones in brackets.

    Names, constants and operators play no part: programs that differ in these alone
    have the same control flow.

    Args:
      source: A program.

    Raises:
      SyntaxError: If it is not Python.

    Example:
      >>> control_flow("for x in y:\n  if x: break")
      ['for', '(', 'if', '(', 'break', ')', ')']
    """
    return list(_labels(parsed(source).body))


def similarity(candidate: str, reference: str) -> float:
    """Returns how alike the control flows of two programs are.

        2 M / (|a| + |b|),    M the labels in matching blocks

    Args:
      candidate: A program.
      reference: Another.

    Returns:
      In [0, 1]; 1 for the same control flow.

    Raises:
      SyntaxError: If one of them is not Python.

    Reference:
      EGCA, 2026, https://arxiv.org/abs/2603.16158: a normalised control-flow graph, a
      structural similarity and a threshold, none of which are published. This is our
      reading of them.
    """
    return likeness(control_flow(candidate), control_flow(reference))


def likeness(candidate: Sequence[str], reference: Sequence[str]) -> float:
    """Returns how alike two control flows are, as `similarity` does.

    Args:
      candidate: From `control_flow`.
      reference: Another.
    """
    return SequenceMatcher(None, candidate, reference, autojunk=False).ratio()


def _labels(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        label = _LABELS.get(type(statement))
        if label is None or _is_text(statement):
            continue
        yield label
        for inner in ("body", "orelse", "finalbody"):
            nested = getattr(statement, inner, [])
            if nested:
                yield "("
                yield from _labels(nested)
                yield ")"
        for handler in getattr(statement, "handlers", []):
            yield "except"
            yield from _labels(handler.body)
        for case in getattr(statement, "cases", []):
            yield from ("case", "(")
            yield from _labels(case.body)
            yield ")"


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
