"""Runs many programs in one child process and says what they print. In the sandbox.

Reads a JSON list of [code, call] on standard input and writes a JSON list of
[repr, printed text], with null for a program that raised. The programs are known to
end. This file's text is the program: it must not import anything of the package.
"""

import contextlib
import io
import json
import sys


def outcome(code: str, call: str) -> list[str]:
    """Returns the repr of the call's value, and what the call printed."""
    namespace: dict[str, object] = {}
    printed = io.StringIO()
    exec(compile(code, "<program>", "exec"), namespace)
    with contextlib.redirect_stdout(printed):
        value = eval(call, namespace)
    return [repr(value), printed.getvalue()]


def outcome_or_none(code: str, call: str) -> list[str] | None:
    """Returns the outcome of a program, or None if it raised."""
    try:
        return outcome(code, call)
    except Exception:  # Whatever it raises only means that it is no problem.
        return None


def main() -> None:
    """Answers the request on standard input."""
    found = [outcome_or_none(*item) for item in json.load(sys.stdin)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
