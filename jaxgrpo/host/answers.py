"""Which completions of a problem give the same answer, without knowing the right one.

A value is compared by value. A program is compared by what it does: its execution
signature is the vector of its outputs on a few of the problem's inputs. Expected
outputs are not looked at.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice

from jaxgrpo.host.judge.assert_plans import plan_of
from jaxgrpo.host.judge.literal_values import readings, value_key
from jaxgrpo.host.judge.votes import PROGRAM_KINDS, key_of_calls, key_of_output
from jaxgrpo.host.records import Call, Execution, Limits, Program, Test
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.stored_tests import tests_of

Answer = Hashable
"""Equal where two completions give the same answer; None where there is none."""


def answers(judged: Judged, num_inputs: int) -> list[Answer]:
    """Returns one key per completion, equal where the answers are; None for no answer.

    None stands for all that cannot be an answer: no literal, no program, a program
    that fails or meets a limit on any of the inputs, one that returns objects. Where
    no test of a problem is one or more calls (asserts that a process of their own
    decides), there is nothing to compare programs by, and none is an answer.

    Args:
      judged: What its verdicts extracted is compared, and nothing else of them.
      num_inputs: Inputs that programs are compared on: the first distinct ones of the
        problem's tests.

    Raises:
      RuntimeError: A program could not be run, through no fault of its own.
    """
    texts = [verdict.extracted for verdict in judged.verdicts]
    answer_of = _answers_by(judged, num_inputs)
    known = {text: answer_of(text) if text.strip() else None for text in set(texts)}
    return [known[text] for text in texts]


def decided_answers(judged: Judged, num_inputs: int) -> dict[int, Answer]:
    """Returns the answers by row, of the rows whose verdict is not INFRA.

    Args:
      judged: As for `answers`.
      num_inputs: Likewise.
    """
    found = answers(judged, num_inputs)
    return {
        row: found[row]
        for row, verdict in enumerate(judged.verdicts)
        if verdict.status != "INFRA"
    }


def _answers_by(judged: Judged, num_inputs: int) -> Callable[[str], Answer]:
    """How the answers to a problem are told apart."""
    problem = judged.problem
    if problem.kind not in PROGRAM_KINDS:
        return _value
    assert judged.run is not None, "programs need a sandbox"
    run, limits = _decided(judged.run), problem.limits or judged.limits
    tests = tests_of(problem)
    if problem.kind == "stdin":
        stdins = list(islice(dict.fromkeys(test.stdin for test in tests), num_inputs))
        return lambda code: _printed(code, stdins, limits, run)
    calls = tuple(islice(_distinct_calls(tests, problem.reference), num_inputs))
    return lambda code: _returned(code, calls, limits, run)


Run = Callable[[Program], Execution]


def _decided(run: Run) -> Run:
    """The same, but a failure of ours is no answer of the program's."""

    def run_decided(program: Program) -> Execution:
        execution = run(program)
        if execution.status == "INFRA":
            raise RuntimeError(f"a program could not be run: {execution.reason}")
        return execution

    return run_decided


def _value(text: str) -> Answer:
    values = readings(text)
    return value_key(values[0]) if values else None


def _distinct_calls(tests: Sequence[Test], reference: str) -> Iterator[Call]:
    """The calls that the tests make, in their order."""
    seen: set[str] = set()
    for test in tests:
        for call in _calls_of(test, reference):
            written = repr(call)
            if written not in seen:
                seen.add(written)
                yield call


def _calls_of(test: Test, reference: str) -> list[Call]:
    if test.kind == "call":
        return [
            Call(
                function=test.function,
                arguments=test.arguments,
                keywords=test.keywords,
            )
        ]
    plan = plan_of(test.source, test.function, reference, test.is_inside)
    return [call for case in plan.cases or () for call in case.calls]


def _printed(code: str, stdins: list[str], limits: Limits, run: Run) -> Answer:
    printed = []
    for stdin in stdins:
        execution = run(Program(source=code, stdin=stdin, limits=limits))
        if execution.status != "OK":
            return None
        printed.append(key_of_output(execution.stdout))
    return tuple(printed) or None


def _returned(code: str, calls: tuple[Call, ...], limits: Limits, run: Run) -> Answer:
    if not calls:
        return None
    execution = run(Program(source=code, mode="calls", calls=calls, limits=limits))
    if execution.num_answered < len(calls):
        return None
    return key_of_calls(execution.results) or None
