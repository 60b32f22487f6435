from collections.abc import Iterator

import pytest

from jaxgrpo.host.records import Execution, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.output_prediction.execution import (
    MAX_ANSWER_CHARS,
    Example,
    examples_of,
)
from jaxgrpo.problems.output_prediction.generator import Draft


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def draft(body: str, call: str = "f(1)") -> Draft:
    return Draft(f"def f(x):\n {body}", call, "easy")


def test_a_good_draft_becomes_an_example(sandbox):
    good = draft("return [x, True, None]")
    assert examples_of([good], sandbox.run) == [
        Example(good.code, good.call, "[1, True, None]", "list", "easy", 1)
    ]


def test_bad_drafts_are_dropped_and_the_others_keep_their_order(sandbox):
    drafts = [
        draft("return 'first'"),
        draft("return x[0]"),
        draft("return None"),
        draft(f"return '{'a' * (MAX_ANSWER_CHARS + 1)}'"),
        draft("return " + "+".join("x" * 200)),
        draft("return 'last'"),
    ]
    answers = [example.answer for example in examples_of(drafts, sandbox.run)]
    assert answers == ["'first'", "'last'"]


def test_a_draft_that_kills_its_batch_is_dropped_alone(sandbox):
    # Too much output for the sandbox, which ends the child: not an exception.
    flood = draft("return [print('a' * 99999) for i in range(99)]")
    drafts = [draft(f"return x + {i}") for i in range(5)]
    drafts.insert(3, flood)
    answers = [example.answer for example in examples_of(drafts, sandbox.run)]
    assert answers == ["1", "2", "3", "4", "5"]


def test_a_failing_sandbox_stops_the_build():
    def broken(program: Program) -> Execution:
        return Execution(status="INFRA", reason="no more processes")

    with pytest.raises(RuntimeError, match="no more processes"):
        examples_of([draft("return 1")], broken)
