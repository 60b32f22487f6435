"""Checker programs: for problems that several answers solve.

A checker comes with the problem. It runs in the sandbox all the same, in a process that
the program under test never shares: it reads an answer that nobody has vetted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.results import Made, passed, shown, undecided, wrong
from jaxgrpo.host.records import (
    Call,
    CallResult,
    Execution,
    Limits,
    Program,
    TestResult,
)

CHECK = "check"
"""The function that a checker defines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """A checker and where to run it."""

    source: str
    limits: Limits
    run: Callable[[Program], Execution]

    def result(
        self, question: tuple[object, ...], execution: Execution, made: Made
    ) -> TestResult:
        """Returns the result of a test by what the checker says.

        Nothing but True accepts. If it raises, exceeds a limit or returns something
        else than a bool, that may be the answer's doing, and is CHECKER_FAILED: a
        program must not get out of being judged by an answer that is hard to read. If
        it cannot be run at all, the problem is at fault, and nothing is decided.

        Args:
          question: Arguments of `check`, the answer last.
          execution: The program's run that gave the answer.
          made: What the program printed and used.
        """
        call = Call(function=CHECK, arguments=question)
        program = Program(
            source=self.source, mode="calls", calls=(call,), limits=self.limits
        )
        checking = self.run(program)
        (said,) = checking.results
        if said.status == "OK" and isinstance(said.value, bool):
            if said.value:
                return passed(execution, made)
            detail = f"the checker refuses {shown(question[-1])}"
            return wrong(execution, made, detail)
        if _is_at_fault(checking, said):
            return undecided(f"checker: {_reason(checking, said)}")
        return wrong(
            execution,
            made,
            f"checker: {_reason(checking, said)} on {shown(question[-1])}",
            error_class=error_classes.CHECKER_FAILED,
        )


def _is_at_fault(checking: Execution, said: CallResult) -> bool:
    """Whether the checker, and not the answer it was given, is wrong."""
    if said.status in ("CE", "INFRA") or not checking.is_loaded:
        return True  # no program, no sandbox; or it never saw the answer
    found = said.exception
    # Without a line: it was raised while looking for the function.
    return found is not None and (found.type_name, found.line) == ("NameError", None)


def _reason(checking: Execution, said: CallResult) -> str:
    if said.status == "OK":
        return f"returned {shown(said.value)}, not True or False"
    if said.exception is not None:
        return f"{said.exception.type_name}: {said.exception.message}"
    return checking.reason or said.status
