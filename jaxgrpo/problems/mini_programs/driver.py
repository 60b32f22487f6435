"""Runs many functions on many arguments in one child process. Runs inside the sandbox.

Reads a JSON list of [sources, inputs, probes] on standard input: texts that define
`f`, and texts of two lists of argument tuples. Writes for each of them [results,
digest]: the `repr`s of what each source returns for the inputs, with null for a call
that raised, and what names the results of the first source for the probes. This file's
text is the program: it must not import anything of the package.
"""

import ast
import hashlib
import json
import sys


def results(source: str, arguments: str) -> list[str | None]:
    """Returns the `repr` of each call's value, or None where it raised."""
    namespace: dict[str, object] = {}
    exec(source, namespace)
    # Read anew for every program: a call may change what it is given.
    return [result(namespace["f"], one) for one in ast.literal_eval(arguments)]


def result(function: object, arguments: tuple[object, ...]) -> str | None:
    """Returns the `repr` of one call's value, or None if it raised."""
    assert callable(function)
    try:
        return repr(function(*arguments))
    except Exception:  # Whatever it raises only says that it is no answer.
        return None


def digest(results: list[str | None]) -> str:
    """Returns what names a list of results; empty if any call raised."""
    if None in results:
        return ""
    text = json.dumps(results)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def main() -> None:
    """Answers the request on standard input."""
    answers = [
        [[results(f, inputs) for f in sources], digest(results(sources[0], probes))]
        for sources, inputs, probes in json.load(sys.stdin)
    ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
