"""Questions about runs: their answers are those of Python's own tracing."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from jaxgrpo.host.records import Call, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.output_prediction.execution import examples_of
from jaxgrpo.problems.output_prediction.generator import drafts
from jaxgrpo.problems.trace_prediction.questions import (
    NO_LINE,
    QUESTIONS,
    Question,
    drawn,
    questions,
    traced,
)
from jaxgrpo.problems.trace_prediction.worker import asked_about

CODE = '''\
def f(xs, k):
    """Doc."""
    total = 0
    for x in xs:
        if x > k:
            total += x
        else:
            total -= 1
    while total > 10:
        total //= 2
    return {"total": [total]}'''
AUTHORITY = '''
import json, sys

def watched(function, arguments):
    """Lines of a call in their order, with the variables after each."""
    code, seen = function.__code__, []

    def local(frame, event, argument):
        if event in ("line", "return") and seen:
            seen[-1][1] = {k: repr(v) for k, v in frame.f_locals.items()}
        if event == "line":
            seen.append([frame.f_lineno, {}])
        return local

    sys.settrace(lambda frame, event, _: local if frame.f_code is code else None)
    try:
        function(*arguments)
    finally:
        sys.settrace(None)
    return json.dumps(seen)

def watched_f(*arguments):
    return watched(f, arguments)
'''
"""`sys.settrace` in the sandbox: knows nothing of the tracer that is tested."""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def asked(code: str, arguments: tuple[object, ...], box: Sandbox) -> list[Question]:
    call = Call(function="f", arguments=arguments)
    return questions(code, "f", traced(code, call, box.run))


def seen_by_python(
    code: str, arguments: tuple[object, ...], box: Sandbox
) -> list[tuple[int, dict[str, str]]]:
    call = Call(function="watched_f", arguments=arguments)
    program = Program(source=code + "\n" + AUTHORITY, mode="calls", calls=(call,))
    (result,) = box.run(program).results
    assert result.status == "OK", result
    return [(line, values) for line, values in json.loads(str(result.value))]


def check_against_python(
    code: str, arguments: tuple[object, ...], box: Sandbox
) -> Counter[str]:
    """Checks every question about a call; returns how many there are of each kind."""
    found = asked(code, arguments, box)
    seen = seen_by_python(code, arguments, box)
    places = {}
    turns: Counter[int] = Counter()
    for index, (line, _) in enumerate(seen):
        turns[line] += 1
        places[line, turns[line]] = index
    for question in found:
        if question.kind == "covered":
            assert question.answer == str(question.line in turns), (code, question)
        if question.kind not in ("line", "value"):
            continue
        index = places[question.line, question.turn]
        if question.kind == "value":
            values = seen[index][1]
            assert question.answer == values[question.variable], (code, question)
        elif index + 1 < len(seen):
            assert question.answer == str(seen[index + 1][0]), (code, question)
        else:
            assert question.answer == NO_LINE, (code, question)
    return Counter(question.kind for question in found)


def test_questions_about_a_run(box: Sandbox):
    found = asked(CODE, ([1, 20, 3], 2), box)
    by_key = {(q.kind, q.line, q.turn, q.variable): q.answer for q in found}
    assert by_key["line", 3, 1, ""] == "4"
    assert by_key["line", 5, 1, ""] == "8"
    assert by_key["line", 5, 2, ""] == "6"
    assert by_key["line", 4, 4, ""] == "9"
    assert by_key["line", 11, 1, ""] == NO_LINE
    assert by_key["value", 8, 1, "total"] == "-1"
    assert by_key["value", 4, 2, "x"] == "20"
    assert by_key["value", 10, 2, "total"] == "5"
    assert by_key["output", 0, 0, ""] == "{'total': [5]}"
    assert not [q for q in found if q.kind == "covered"]  # Every line is executed.


def test_coverage_is_asked_with_either_answer_as_often(box: Sandbox):
    answers = Counter(
        q.answer for q in asked(CODE, ([1], 2), box) if q.kind == "covered"
    )
    assert answers == {"False": 2, "True": 2}


def test_answers_are_those_of_settrace(box: Sandbox):
    counts = check_against_python(CODE, ([1, 20, 3], 2), box)
    counts += check_against_python(CODE, ([1], 2), box)
    assert {*counts} == {*QUESTIONS}


def test_answers_about_generated_functions_are_those_of_settrace(box: Sandbox):
    counts: Counter[str] = Counter()
    for example in examples_of(drafts(0, 0, 60), box.run):
        arguments = eval(f"(lambda *args: args){example.call[1:]}")
        counts += check_against_python(example.code, arguments, box)
    assert {*counts} == {*QUESTIONS}
    assert min(counts.values()) >= 10


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def f(x):\n    a = 1; b = 2\n    return a", "two statements on a line"),
        ("def f(x):\n    if x: return 1\n    return 2", "a header with its body"),
        ("def f(x):\n    return g(x)\ndef g(x):\n    return x", "two functions"),
        ("def f(x):\n    return sorted([x], key=lambda y: y)", "a lambda"),
        ("def f(x):\n    try:\n        return 1\n    finally:\n        x = 2", "try"),
        ("def f(x):\n    while True:\n        return x", "a test known beforehand"),
        ("def f(x):\n    return 1 / 0", "an error"),
        ("def f(x):\n    for i in range(10**4):\n        x += i\n    return x", "long"),
        ("def f(x):\n    yield x", "a generator"),
    ],
)
def test_what_is_not_told_apart_by_lines_is_not_asked(
    code: str, why: str, box: Sandbox
):
    assert asked(code, (1,), box) == [], why


def test_values_whose_literal_is_not_unique_are_not_asked(box: Sandbox):
    code = (
        "def f(x):\n    a = {2, 1}\n    b = {'k': 1, 'j': 2}\n    c = print\n"
        "    d = {'k': [1]}\n    e = 'x' * 500\n    return 0"
    )
    names = {q.variable for q in asked(code, (1,), box) if q.kind == "value"}
    assert names == {"d"}


def test_draws_take_kinds_in_turn_and_follow_the_dice(box: Sandbox):
    found = asked(CODE, ([1], 2), box)
    few = drawn(found, 4, Dice("seed"))
    assert {q.kind for q in few} == {*QUESTIONS}
    assert drawn(found, 4, Dice("seed")) == few
    assert {q.text for q in drawn(found, 1000, Dice("seed"))} == {q.text for q in found}


def test_worker_asks_about_generated_functions(box: Sandbox):
    examples = examples_of(drafts(0, 0, 20), box.run)
    found = [a for e in examples for a in asked_about(e, box.run, Dice("seed"))]
    again = [a for e in examples for a in asked_about(e, box.run, Dice("seed"))]
    assert found == again
    assert len(found) > len(examples)
    assert {asked.question for asked in found} <= {*QUESTIONS}
