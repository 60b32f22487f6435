"""Executes many drafts in one child process. Runs inside the sandbox.

Reads a JSON list of [code, call] on standard input and writes a JSON list of
[repr, type name, executed statements], with null for a draft that raised. This file's
text is the program: it must not import anything of the package.
"""

import ast
import json
import sys

MAX_STATEMENTS = 1000
TICK = "__tick"


def instrumented(code: str) -> ast.Module:
    """Returns the program with a call of `TICK` before each statement of a function.

    A loop's header counts once, its body once per round. Counting in the syntax tree
    gives the same number on every version of Python, unlike its tracing hooks.
    """
    module = ast.parse(code)
    for node in list(ast.walk(module)):
        if node is module:
            continue
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, [line for s in block for line in (tick(), s)])
    return ast.fix_missing_locations(module)


def tick() -> ast.Expr:
    """Returns the statement that counts."""
    call = ast.Call(ast.Name(TICK, ast.Load()), [], [])
    return ast.Expr(call)


def outcome(code: str, call: str) -> list[object]:
    """Returns the repr and type name of the call's value, and what it took."""
    executed = 0

    def count() -> None:
        nonlocal executed
        executed += 1
        if executed > MAX_STATEMENTS:
            raise RuntimeError(f"more than {MAX_STATEMENTS} statements")

    namespace: dict[str, object] = {TICK: count}
    exec(compile(instrumented(code), "<draft>", "exec"), namespace)
    value = eval(call, namespace)
    return [repr(value), type(value).__name__, executed]


def outcome_or_none(code: str, call: str) -> list[object] | None:
    """Returns the outcome of a draft, or None if it raised."""
    try:
        return outcome(code, call)
    except Exception:  # Whatever a draft raises only means that it is no problem.
        return None


def main() -> None:
    """Answers the request on standard input."""
    json.dump([outcome_or_none(*draft) for draft in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
