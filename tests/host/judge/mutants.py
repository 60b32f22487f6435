"""Seeded mutants of programs, and what plain Python says of them.

A mutant differs from its program in one place: another operator, another constant, a
bound that is off by one, or a statement that is gone.
"""

import ast
import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = Callable[[], None]
"""Changes one place of a tree."""

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
BLOCKS = ("body", "orelse", "finalbody")
KINDS = ("operator", "constant", "off_by_one", "dropped")


@dataclass(frozen=True)
class Mutant:
    """A changed program."""

    kind: str
    source: str


def mutants_of(source: str, seed: str, wanted: int) -> list[Mutant]:
    """Up to `wanted` different mutants of a program, the same ones for a seed."""
    draw = random.Random(seed)
    original = ast.unparse(ast.parse(source))
    num_places = {kind: len(_changes(ast.parse(source), kind)) for kind in KINDS}
    places = [(kind, place) for kind, n in num_places.items() for place in range(n)]
    draw.shuffle(places)
    # Kinds take turns, as far as a program has places for them; returned values, which
    # even the shortest has, are last.
    turn = {kind: 0 for kind in KINDS}
    ordered = []
    for kind, place in places:
        ordered.append((turn[kind], kind, place))
        turn[kind] += 1
    ordered.sort()
    num_returns = len(_changes(ast.parse(source), "returned"))
    ordered += [(0, "returned", place) for place in range(num_returns)]
    found: dict[str, Mutant] = {}
    for _, kind, place in ordered:
        tree = ast.parse(source)
        _changes(tree, kind)[place]()
        text = ast.unparse(ast.fix_missing_locations(tree))
        if text != original and _compiles(text):
            found.setdefault(text, Mutant(kind, text))
        if len(found) == wanted:
            break
    return list(found.values())


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _changes(tree: ast.Module, kind: str) -> list[Change]:
    """Every change of a kind that a tree offers, in a fixed order."""
    makers = {
        "operator": _operator_changes,
        "constant": _constant_changes,
        "off_by_one": _off_by_one_changes,
        "dropped": _dropped_changes,
        "returned": _returned_changes,
    }
    return [change for node in ast.walk(tree) for change in makers[kind](node)]


def _operator_changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        if type(node.op) in SWAPS:
            yield _setter(node, "op", SWAPS[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            if type(operator) in SWAPS:
                yield _item_setter(node.ops, place, SWAPS[type(operator)]())


def _constant_changes(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield _setter(node, "value", not value)
    elif isinstance(value, int):
        yield _setter(node, "value", value + 7)
    elif isinstance(value, float):
        yield _setter(node, "value", value * 2 + 1)
    elif isinstance(value, str) and len(value) < 20:
        yield _setter(node, "value", value + "x")


def _off_by_one_changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
        for place, argument in enumerate(node.args[:2]):
            yield _item_setter(node.args, place, _plus(argument, 1))
            yield _item_setter(node.args, place, _plus(argument, -1))
    elif isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            bound = getattr(node, name)
            if bound is not None:
                yield _setter(node, name, _plus(bound, 1))
    elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        yield _setter(node, "slice", _plus(node.slice, -1))


def _dropped_changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Module):
        return
    for name in BLOCKS:
        found = getattr(node, name, None)
        block = found if isinstance(found, list) else []
        for place, statement in enumerate(block):
            is_text = isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Constant
            )
            if not is_text and not isinstance(statement, ast.Pass):
                yield _item_setter(block, place, ast.Pass())


def _returned_changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield _setter(node, "value", _plus(node.value, 1))
        yield _setter(node, "value", ast.UnaryOp(ast.Not(), node.value))
        yield _setter(node, "value", ast.Constant(0))


def _setter(node: ast.AST, name: str, value: object) -> Change:
    return lambda: setattr(node, name, value)


def _item_setter(items: list, place: int, value: object) -> Change:
    def change() -> None:
        items[place] = value

    return change


def _plus(node: ast.expr, step: int) -> ast.expr:
    return ast.BinOp(copy.deepcopy(node), ast.Add(), ast.Constant(step))


PLAIN_RUN = """
import contextlib, io, json, random, signal, sys

def first_failure(program, tests):
    for test in tests:
        names = {"__name__": "__main__"}
        random.seed(0)
        try:
            exec(program, names)
            exec(test, dict(names))  # its helpers are not the program's
        except BaseException as error:
            return f"{type(error).__name__}: {error}"[:200] or "?"
    return ""

def stop(*_):
    raise TimeoutError("alarm")

signal.signal(signal.SIGALRM, stop)
sys.setrecursionlimit(1000)
for line in sys.stdin:
    program, tests = json.loads(line)
    signal.setitimer(signal.ITIMER_REAL, 20.0)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = first_failure(program, tests)
    except TimeoutError:
        found = "TimeoutError"
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    print(json.dumps(found), flush=True)
"""


def plain_failures(runs: list[tuple[str, list[str]]]) -> list[str]:
    """What plain Python says: for each program, why its first test fails, or "".

    Programs run as they are, in one process, without protection: only for mutants of
    programs that are known.
    """
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_RUN],
        input="".join(json.dumps(run) + "\n" for run in runs),
        # As in the sandbox, so that sets have their items in the same order.
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
