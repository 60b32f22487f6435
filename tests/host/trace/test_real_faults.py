"""Single faults in the references of MBPP. Needs JAXGRPO_TEST_DATA, and minutes."""

import ast
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from jaxgrpo.host.records import Call, CallResult, Execution, Limits, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.trace import earliest

from .faults import faulty

NUM_PROBLEMS = 200
FAULTS_PER_PROBLEM = 3


def problems() -> Iterator[tuple[str, tuple[Call, ...]]]:
    """References with the calls that their tests make of them."""
    folder = os.environ.get("JAXGRPO_TEST_DATA", "")
    path = Path(folder) / "mbpp.jsonl"
    if not folder or not path.exists():
        pytest.skip("needs mbpp.jsonl in JAXGRPO_TEST_DATA")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    random.Random(0).shuffle(rows)
    for row in rows:
        calls = [call for test in row["test_list"] if (call := called(test))]
        try:
            reference = ast.unparse(ast.parse(row["code"]))
        except SyntaxError:
            continue  # One is written for Python 2.
        if len(calls) == len(row["test_list"]):
            yield reference, tuple(calls)


def called(test: str) -> Call | None:
    """The call in an assert of the form `assert f(...) == ...`."""
    match ast.parse(test).body[0]:
        case ast.Assert(
            test=ast.Compare(
                left=ast.Call(func=ast.Name(id=name), args=arguments, keywords=[])
            )
        ):
            try:
                values = tuple(ast.literal_eval(argument) for argument in arguments)
            except ValueError:
                return None
            return Call(function=name, arguments=values)
    return None


def is_other(one: CallResult, other: CallResult) -> bool:
    return repr(one.value) != repr(other.value) or one.status != other.status


@pytest.mark.slow
def test_nine_in_ten_faults_in_real_references_are_found_in_their_line():
    generator = random.Random(1)
    outcomes: list[bool] = []
    with Sandbox(level="B") as sandbox:

        def run(source: str, mode: str, *calls: Call) -> Execution:
            limits = Limits(cpu_s=0.5)
            return sandbox.run(
                Program(source=source, mode=mode, calls=calls, limits=limits)  # type: ignore[arg-type]
            )

        for index, (reference, calls) in enumerate(problems()):
            if index == NUM_PROBLEMS:
                break
            right = run(reference, "calls", *calls)
            wrongs = list(faulty(reference, generator))
            generator.shuffle(wrongs)
            for wrong, line in wrongs[:FAULTS_PER_PROBLEM]:
                results = run(wrong, "calls", *calls).results
                pairs = zip(calls, right.results, results, strict=True)
                failing = [call for call, one, other in pairs if is_other(one, other)]
                if not failing:
                    continue
                candidate, other = (
                    run(source, "trace", failing[0]).traces[0]
                    for source in (wrong, reference)
                )
                found = earliest(candidate, other)
                place = found.event.statement if found else None
                is_found = place is not None and place.line <= line <= place.end_line
                outcomes.append(is_found)
    assert len(outcomes) >= NUM_PROBLEMS
    assert sum(outcomes) / len(outcomes) >= 0.9
