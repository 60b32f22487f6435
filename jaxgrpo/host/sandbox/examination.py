"""A tester and a program, each in a child of its own, and the owner between them.

The owner passes questions on and answers back. Whatever crosses is rebuilt as plain
data on the way: neither child can send the other anything else.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jaxgrpo.host.records import (
    Call,
    CallResult,
    Examination,
    Execution,
    Finding,
    Program,
)
from jaxgrpo.host.sandbox import plain_data
from jaxgrpo.host.sandbox.calls import (
    MAX_ARGUMENT_BYTES,
    BrokenFrameError,
    ChannelEndedError,
    Exchange,
    encoded_call,
    plain_value,
)
from jaxgrpo.host.sandbox.outcome import exception_of

if TYPE_CHECKING:
    from jaxgrpo.host.sandbox.sandbox import Sandbox

MAX_QUESTION_BYTES = 16 * 2**20
"""Largest arguments of a call that a test makes."""
STATUSES = ("passed", "failed", "inexpressible")


@dataclass(frozen=True, slots=True, kw_only=True)
class TesterTask:
    """One test for a tester to run."""

    __test__ = False

    source: str
    """Statements; they end in an exception where the test fails."""
    names: tuple[str, ...]
    """The program's functions that they call."""
    setup: str = ""
    """Statements to run before, such as imports."""


def examine(
    sandbox: "Sandbox",
    testers: "Sandbox",
    program: Program,
    tasks: Sequence[TesterTask],
) -> Examination:
    """Runs a program, and tests of it beside it, until one of the two ends.

    Args:
      sandbox: Runs the program.
      testers: Runs the tests; another sandbox, since both live at the same time.
      program: In mode `calls`, without calls of its own.
      tasks: Tests, each in a module of its own.

    Returns:
      The findings, and how the program fared. Where the tester ended early, its end
      counts as the program's: in one process, it would have been.
    """
    talk = _Talk(tasks)
    questions_bytes = max(program.limits.output_bytes, MAX_QUESTION_BYTES)
    limits = replace(program.limits, output_bytes=questions_bytes)
    tester = Program(source="", mode="tests", limits=limits)
    ends: list[Execution] = []

    def with_program(to_program: Exchange) -> None:
        talk.to_program = to_program
        ends.append(testers.follow(tester, talk.with_tester))

    execution = sandbox.follow(program, with_program)
    is_complete = len(talk.findings) == len(tasks)
    if execution.status == "OK" and not is_complete:
        # The program went on living, so it was the tester that did not.
        execution = replace(ends[0], stdout=execution.stdout, is_loaded=True)
    return Examination(execution=execution, findings=tuple(talk.findings))


@dataclass
class _Talk:
    """What passes between a tester and a program."""

    tasks: Sequence[TesterTask]
    findings: list[Finding] = field(default_factory=list)
    to_program: Exchange | None = None
    results: list[CallResult] = field(default_factory=list)
    """Of the calls that the test at hand has made."""

    def with_tester(self, to_tester: Exchange) -> None:
        for task in self.tasks:
            message = {
                "test": task.source,
                "names": task.names,
                "setup": task.setup,
            }
            to_tester.send(json.dumps(message).encode())
            reply = to_tester.receive()
            while "ask" in reply:
                answer = self._answer(reply)
                if answer is None:
                    return
                to_tester.send(answer)
                reply = to_tester.receive()
            self.findings.append(_finding(reply, self.results))
            self.results = []

    def _answer(self, question: dict) -> bytes | None:
        """The program's answer; None where it is gone or has broken the rules."""
        assert self.to_program is not None, "the program is loaded first"
        try:
            result = self.to_program.call(encoded_call(_call(question)))
            self.results.append(result)
        except BrokenFrameError:
            self.to_program.is_broken = True
            return None
        except ChannelEndedError:
            return None
        return _encoded_answer(result)


def _call(question: dict) -> Call:
    arguments = plain_value(question, "arguments")
    keywords = plain_value(question, "keywords")
    function = question["ask"]
    if not (
        isinstance(arguments, list)
        and isinstance(keywords, dict)
        and isinstance(function, str)
    ):
        raise BrokenFrameError("a question that is no call")
    named = {str(name): value for name, value in keywords.items()}
    return Call(
        function=function,
        arguments=tuple(arguments),
        keywords=named,
        returns_arguments=True,
    )


def _encoded_answer(result: CallResult) -> bytes:
    if result.status != "OK":
        found = result.exception
        error = {
            "type": found.type_name if found else result.status,
            "message": found.message if found else "",
        }
        return json.dumps({"error": error}).encode()
    fields = (
        f'"value": {plain_data.to_bytes(result.value, MAX_ARGUMENT_BYTES).decode()}'
    )
    if result.arguments is not None:
        changed = plain_data.to_bytes(list(result.arguments), MAX_ARGUMENT_BYTES)
        fields += f', "arguments": {changed.decode()}'
    return f"{{{fields}}}".encode()


def _finding(reply: dict, results: list[CallResult]) -> Finding:
    status, num_calls = reply.get("status"), reply.get("num_calls")
    if status not in STATUSES or type(num_calls) is not int:
        raise BrokenFrameError("not a finding")
    error = reply.get("error")
    has_failed = bool(results) and results[-1].status != "OK"
    is_programs = reply.get("is_programs") is True and has_failed
    return Finding(
        status=status,
        num_calls=num_calls,
        exception=exception_of(error) if isinstance(error, dict) else None,
        cause=results[-1] if is_programs else None,
        cpu_s=sum(result.cpu_s for result in results),
        reason=str(reply.get("reason", "")),
    )
