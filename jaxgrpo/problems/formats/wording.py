"""The user's message: a problem's statement, and what an answer has to look like."""

import re
from collections.abc import Sequence

_FENCED = re.compile(r"```\w*\n(?P<code>.*?)\n?```", re.DOTALL)
PROGRAM = "Answer with the whole program, imports included, in one fenced Python block."
ARGUMENTS = (
    "Answer with the arguments alone, as Python literals separated by commas, the way "
    "they stand between the parentheses of the call."
)

VALUE = "Answer with the value alone, as a Python literal."


def fenced(code: str) -> str:
    """Returns code in a fence of Markdown.

    Args:
      code: Python.
    """
    return f"```python\n{code.strip(chr(10))}\n```"


def completing(stub: str) -> str:
    """Returns the message that asks for a function of which the beginning is given.

    Args:
      stub: Imports, helpers, signature and docstring.
    """
    return f"Complete the last function of this program.\n\n{fenced(stub)}\n\n{PROGRAM}"


def passing(task: str, tests: Sequence[str]) -> str:
    """Returns the message that asks for functions which pass tests that are shown.

    Args:
      task: What is asked.
      tests: Asserts; they also tell the functions' names.
    """
    shown = fenced("\n".join(tests))
    return f"{task.strip()}\n\nThese tests have to pass:\n\n{shown}\n\n{PROGRAM}"


def reading(task: str) -> str:
    """Returns the message that asks for a program of standard input and output.

    Args:
      task: The problem's statement.
    """
    how = "Read from standard input and write to standard output."
    return f"{task.strip()}\n\n{how} {PROGRAM}"


def starting(task: str, starter: str, function: str) -> str:
    """Returns the message that asks for a function, with the code it begins from.

    Args:
      task: The problem's statement.
      starter: Code that the answer begins with; may be empty.
      function: Its name, or `Class.method`.
    """
    owner, _, name = function.rpartition(".")
    if not starter.strip():
        what = f"a method `{name}` of a class `{owner}`" if owner else f"`{name}`"
        return f"{task.strip()}\n\nThe function to write is {what}. {PROGRAM}"
    return f"{task.strip()}\n\nBegin from this code.\n\n{fenced(starter)}\n\n{PROGRAM}"


def calling_for_arguments(code: str, function: str, output: str) -> str:
    """Returns the message that asks what a function is to be called with.

    Args:
      code: The program.
      function: Its function.
      output: `repr` of what the call has to return.
    """
    return (
        f"{fenced(code)}\n\nFind arguments with which `{function}(...)` returns "
        f"`{output}`. Any will do. {ARGUMENTS}"
    )


def calling(code: str, call: str) -> str:
    """Returns the message that asks what a call returns.

    Args:
      code: The program.
      call: Of one of its functions.
    """
    return f"{fenced(code)}\n\nWhat does `{call}` return? {VALUE}"


def unfenced(text: str) -> str:
    """Returns code without the fence of Markdown that some sets put around it.

    Args:
      text: Code, or one fenced block.
    """
    match = _FENCED.fullmatch(text.strip())
    return match["code"] if match else text
