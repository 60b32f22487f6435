"""Questions about what a program does on its way: the next line, a value, coverage.

    line      which line runs after line 5 has run for the 2nd time?   -1 for none
    value     what is `total` after line 5 has run for the 2nd time?   a literal
    covered   does line 8 run?                                         True or False
    output    what does the call return?                               a literal

Answers come of a trace, made in the sandbox. Asked is only what has one answer that a
reader can tell: of one function whose statements stand on lines of their own, and of
values whose literal is unique. Problems are of the kind `trace`, judged like a literal.

Reference:
  REval, Chen et al. 2024, https://arxiv.org/abs/2403.16437, its four tasks (coverage,
  state, path, output). Differs from it: a line that runs more than once is asked about
  by its turn (there, any of the right answers counts), the path's answer is the number
  of a line and not its text, a line that does not run is asked about by coverage alone.
"""

import ast
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jaxgrpo.host.judge.literal_values import NotALiteralError, read_literal
from jaxgrpo.host.records import Call, Execution, Limits, Problem, Program
from jaxgrpo.host.trace_records import TraceEvent
from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.formats.format import Workshop
from jaxgrpo.problems.formats.wording import VALUE, fenced

QUESTIONS = ("line", "value", "covered", "output")
"""Kinds of questions, in the order in which they take turns."""
NO_LINE = "-1"
MAX_EVENTS = 200
"""Statements that the call may execute; nobody follows more in the head."""
MAX_ANSWER_CHARACTERS = 100
_LIMITS = Limits(cpu_s=5.0, wall_s=30.0, trace_events=MAX_EVENTS + 1)
_UNCLEAR = (ast.Try, ast.TryStar, ast.With, ast.Match, ast.Global, ast.Nonlocal)
"""Statements of which readers may differ on when they run."""
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question with its answer."""

    kind: str
    """One of QUESTIONS."""
    text: str
    answer: str
    """`repr` of the right answer."""
    line: int = 0
    """That it is about, from 1."""
    turn: int = 0
    """Which execution of it, from 1."""
    variable: str = ""


def trace_problems(
    problem: Problem, call: Call, shown_call: str, workshop: Workshop
) -> list[Problem]:
    """Returns questions about the run of a program.

    Args:
      problem: Its column `code` is the program; its tags are kept.
      call: What is run.
      shown_call: The same, as a reader sees it.
      workshop: Of its `per_row` questions, as many as there are.

    Returns:
      None at all where the run fails, is long, or is not told apart by lines.
    """
    code = str(problem.columns["code"])
    execution = traced(code, call, workshop.run)
    dice = Dice(f"{workshop.seed}/{problem.id}")
    found = drawn(questions(code, call.function, execution), workshop.per_row, dice)
    return [
        Problem(
            id=f"{problem.id}/{index}",
            kind="trace",
            prompt=prompt_of(code, shown_call, question.text),
            reference=question.answer,
            tags=problem.tags | {"question": question.kind},
            columns={
                "code": code,
                "call": shown_call,
                "question": question.kind,
                "line": question.line,
                "turn": question.turn,
                "variable": question.variable,
            },
        )
        for index, question in enumerate(found)
    ]


def traced(code: str, call: Call, run: Callable[[Program], Execution]) -> Execution:
    """Returns the run of a call, with its trace.

    Args:
      code: The program.
      call: Of one of its functions.
      run: A sandbox's.
    """
    return run(Program(source=code, mode="trace", calls=(call,), limits=_LIMITS))


def prompt_of(code: str, call: str, question: str) -> str:
    r"""Returns the user's message.

    Args:
      code: The program.
      call: As a reader sees it.
      question: Its text.

    Example:
      >>> print(prompt_of("def f(x):\n    return x", "f(1)", "What?"))
      ```python
      1  def f(x):
      2      return x
      ```
      <BLANKLINE>
      `f(1)` is called. What?
    """
    lines = code.split("\n")
    width = len(str(len(lines)))
    numbered = [f"{n:>{width}}  {line}".rstrip() for n, line in enumerate(lines, 1)]
    return f"{fenced(chr(10).join(numbered))}\n\n`{call}` is called. {question}"


def drawn(found: Sequence[Question], count: int, dice: Dice) -> list[Question]:
    """Returns some questions, the kinds in turn, each kind in random order.

    Args:
      found: All there are.
      count: How many to take at most.
      dice: Decides which.
    """
    first = dice.between(0, len(QUESTIONS) - 1)
    kinds = QUESTIONS[first:] + QUESTIONS[:first]
    shuffled = [
        sorted((q for q in found if q.kind == kind), key=lambda _: dice.fraction())
        for kind in kinds
    ]
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*shuffled))
    return list(itertools.islice(filter(None, in_turn), count))


def questions(code: str, function: str, execution: Execution) -> list[Question]:
    """Returns every question that can be asked about the run of a function.

    Args:
      code: The program.
      function: That was called.
      execution: In mode `trace`, of one call.
    """
    if execution.status != "OK" or execution.results[0].status != "OK":
        return []
    (trace,) = execution.traces
    events = [event for event in trace.events if event.kind != "call"]
    is_whole = not trace.cut and 0 < len(events) <= MAX_EVENTS
    if not is_whole or not is_told_by_lines(code, function, events):
        return []
    lines = [event.statement.line for event in events]
    all_lines = sorted(
        {s.line for s in trace.statements if s.scope == function and s.kind}
    )
    asked = [
        *_line_questions(lines),
        *_value_questions(events),
        *_coverage_questions(lines, all_lines),
        *_output_questions(execution.results[0].value),
    ]
    return [q for q in asked if len(q.answer) <= MAX_ANSWER_CHARACTERS]


def is_told_by_lines(code: str, function: str, events: Sequence[TraceEvent]) -> bool:
    """Returns whether each line of a run is one statement of one execution.

    Args:
      code: The program.
      function: That was called.
      events: Of the run.
    """
    if any(event.activation != 0 or event.scope != function for event in events):
        return False
    nodes = list(ast.walk(ast.parse(code)))
    if any(isinstance(node, _UNCLEAR) for node in nodes):
        return False
    if any(isinstance(n, ast.While) and _is_constant(n.test) for n in nodes):
        return False
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    starts = Counter(statement.lineno for statement in statements)
    return max(starts.values()) == 1


def is_unique(text: str) -> bool:
    """Returns whether a text is the one `repr` of a value that a reader can tell.

    The order of a dictionary or a set is lost in traces.

    Args:
      text: As a trace has it.

    Example:
      >>> is_unique("[1, {2: 'a'}]"), is_unique("{1, 2}"), is_unique("<function>")
      (True, False, False)
    """
    try:
        value = read_literal(text)
    except NotALiteralError:
        return False
    return repr(value) == text and _has_order(value)


def _has_order(value: object) -> bool:
    if isinstance(value, dict | set | frozenset):
        inner = value.values() if isinstance(value, dict) else ()
        return len(value) <= 1 and all(map(_has_order, inner))
    return not isinstance(value, list | tuple) or all(map(_has_order, value))


def _is_constant(test: ast.expr) -> bool:
    return not any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(test))


def _turns(lines: Sequence[int]) -> list[int]:
    """Of each execution, which one of its line it is, from 1."""
    seen: Counter[int] = Counter()
    turns: list[int] = []
    for line in lines:
        seen[line] += 1
        turns.append(seen[line])
    return turns


def _line_questions(lines: Sequence[int]) -> Iterator[Question]:
    following = [*map(str, lines[1:]), NO_LINE]
    for line, turn, answer in zip(lines, _turns(lines), following, strict=True):
        yield Question(
            kind="line",
            text=(
                f"Which line is executed right after line {line} has been executed for "
                f"the {ordinal(turn)} time? Answer with its number alone, or with "
                f"{NO_LINE} if none is."
            ),
            answer=answer,
            line=line,
            turn=turn,
        )


def _value_questions(events: Sequence[TraceEvent]) -> Iterator[Question]:
    lines = [event.statement.line for event in events]
    for event, turn in zip(events, _turns(lines), strict=True):
        line = event.statement.line
        for name, text in event.values:
            if not name.startswith("<") and is_unique(text):
                yield Question(
                    kind="value",
                    text=(
                        f"What is the value of `{name}` right after line {line} has "
                        f"been executed for the {ordinal(turn)} time? {VALUE}"
                    ),
                    answer=text,
                    line=line,
                    turn=turn,
                    variable=name,
                )


def _coverage_questions(
    lines: Sequence[int], all_lines: Sequence[int]
) -> Iterator[Question]:
    missed = sorted(set(all_lines) - set(lines))
    # Where there is a branch that is not taken, as many questions have either answer.
    hit = sorted(set(lines))[-len(missed) :] if missed else []
    for line in [*missed, *hit]:
        yield Question(
            kind="covered",
            text=f"Is line {line} executed? Answer with True or False alone.",
            answer=str(line in lines),
            line=line,
        )


def _output_questions(value: object) -> Iterator[Question]:
    text = repr(value)
    try:
        is_literal = repr(read_literal(text)) == text
    except NotALiteralError:
        is_literal = False
    if is_literal:
        yield Question(
            kind="output",
            text=f"What does it return? {VALUE}",
            answer=text,
        )


def ordinal(number: int) -> str:
    """Returns a number as a place in an order.

    Args:
      number: From 1.

    Example:
      >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21)]
      ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st']
    """
    is_teen = 10 < number % 100 < 20
    suffix = "th" if is_teen else _SUFFIXES.get(number % 10, "th")
    return f"{number}{suffix}"
