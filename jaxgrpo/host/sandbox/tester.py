"""The tester: a child that runs a problem's own tests against a program elsewhere.

Loaded by the zygote: standard library only. The program runs in another child. Here its
functions are stubs, which hand their arguments to the owner as plain data and get plain
data back, so expected values and asserts stay out of the program's reach, and objects
of the program's classes (and their `__eq__`) stay out of the asserts'.
"""

import ast
import builtins
import json
import types
from typing import NoReturn

from . import candidate, plain_data


class InexpressibleError(BaseException):
    """A test wants to hand the program more than plain data.

    Not an Exception, so that tests which expect some exception do not take it for one.
    """


class Stub:
    """Stands for one function of the program."""

    def __init__(self, name: str, line: "Line") -> None:
        self.__name__ = self.__qualname__ = name
        self._line = line

    def __call__(self, *arguments: object, **keywords: object) -> object:
        """What the program's function returns."""
        return self._line.ask(self.__name__, list(arguments), keywords)

    def __getattr__(self, name: str) -> object:
        self._line.refuse(f"attribute {name!r} of {self.__name__}")


class Line:
    """This side of the channel over which stubs ask."""

    def __init__(self, channel: int, max_bytes: int) -> None:
        self.channel = channel
        self.max_bytes = max_bytes
        self.num_calls = 0
        self.refusal = ""
        """Why the test cannot be expressed, even if it caught the exception."""
        self.last_error: Exception | None = None
        """What the program's function raised last."""

    def refuse(self, reason: str) -> NoReturn:
        """Gives the test up."""
        self.refusal = self.refusal or reason
        raise InexpressibleError(reason)

    def ask(self, function: str, arguments: list, keywords: dict) -> object:
        """The value that the program's function gives.

        What the function does to its arguments is done to the test's own, and what it
        raises is raised, as the builtin exception of that name or as a new one.
        """
        self.num_calls += 1
        try:
            sent = plain_data.to_bytes(arguments, self.max_bytes).decode()
            named = plain_data.to_bytes(keywords, self.max_bytes).decode()
        except plain_data.TooMuchDataError:
            # Plain all the same; and the program may have had a hand in its size.
            raise
        except plain_data.NotPlainDataError as error:
            self.refuse(f"argument of {function}: {error}")
        name = json.dumps(function)
        frame = f'{{"ask": {name}, "arguments": {sent}, "keywords": {named}}}'
        candidate.write_frame(self.channel, frame.encode())
        answer = candidate.read_frame(self.channel)
        if answer is None:
            candidate.leave(0)  # The program is gone, and this test with it.
        found = json.loads(answer)
        if "error" in found:
            self.last_error = exception_like(found["error"])
            raise self.last_error
        if "arguments" in found:
            copy_into(arguments, plain_data.untagged(found["arguments"]))
        return plain_data.untagged(found["value"])


def exception_like(found: dict) -> Exception:
    """The exception that the program's note describes."""
    known = getattr(builtins, found["type"], None)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        known = type(found["type"], (Exception,), {})
    message = found["message"]
    if issubclass(known, KeyError):
        message = key_of(message)
    try:
        return known(message)
    except TypeError:
        # Some, such as UnicodeDecodeError, are made of more than a message.
        return known.__new__(known)


def key_of(message: str) -> object:
    """The key of a KeyError, whose message is how the key is written."""
    try:
        return ast.literal_eval(message)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return message


def copy_into(mine: object, theirs: object) -> None:
    """Makes a test's data equal to what the program has made of it, in place."""
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list) and isinstance(theirs, list):
        for index, (inner, other) in enumerate(zip(mine, theirs, strict=False)):
            mine[index] = merged(inner, other)
        mine[len(theirs) :] = theirs[len(mine) :]
    elif isinstance(mine, dict) and isinstance(theirs, dict):
        items = {key: merged(mine.get(key), other) for key, other in theirs.items()}
        mine.clear()
        mine.update(items)
    elif isinstance(mine, set) and isinstance(theirs, set):
        mine.clear()
        mine.update(theirs)
    elif isinstance(mine, tuple) and isinstance(theirs, tuple):
        for inner, other in zip(mine, theirs, strict=False):
            copy_into(inner, other)


def merged(mine: object, theirs: object) -> object:
    """One item afterwards: the test's own object where it can be made equal."""
    if type(mine) is not type(theirs):
        return theirs
    if isinstance(mine, (list, dict, set)):
        copy_into(mine, theirs)
        return mine
    if isinstance(mine, tuple):
        copy_into(mine, theirs)
        return mine if mine == theirs else theirs
    return theirs


def run_tests(report: candidate.Report, channel: int, max_bytes: int) -> NoReturn:
    """Runs one test after the other as the owner sends them."""
    candidate.write_frame(channel, b"{}")
    while (frame := candidate.read_frame(channel)) is not None:
        candidate.write_frame(channel, run_test(report, frame, channel, max_bytes))
    candidate.leave(0)


def run_test(
    report: candidate.Report, frame: bytes, channel: int, max_bytes: int
) -> bytes:
    """The finding of one test, in a module of its own."""
    request = json.loads(frame)
    line = Line(channel, max_bytes)
    module: types.ModuleType = candidate.fresh_main_module()
    candidate.seed_random()
    for name in request["names"]:
        module.__dict__[name] = Stub(name, line)
    found: dict[str, object] = {"status": "passed"}
    try:
        exec(compile(request["setup"], "setup.py", "exec"), module.__dict__)
        # Under the name by which the report finds the line that raised.
        code = compile(request["test"], candidate.FILENAME, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except BaseException as error:
        report.ballast = None
        found = {"status": "failed", "error": candidate.describe("test", error)}
        found["is_programs"] = error is line.last_error
    if line.refusal:
        found = {"status": "inexpressible", "reason": line.refusal}
    found["num_calls"] = line.num_calls
    candidate.flush_output()
    return json.dumps(found).encode()
