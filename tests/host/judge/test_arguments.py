"""Input prediction: any arguments that give the output, and no code among them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.judge.arguments import read_arguments
from jaxgrpo.host.judge.literal_values import NotALiteralError
from jaxgrpo.host.judge.programs import check_problem
from jaxgrpo.host.records import Limits, Problem, Test, Verdict
from jaxgrpo.host.sandbox import Sandbox

TEST = Test(
    kind="call",
    function="f",
    source="def f(text, times=1):\n    return text.strip() * times",
    expected="aa",
    compare="python",
)
PROBLEM = Problem(id="p", kind="input", prompt="", reference="'aa'", tests=(TEST,))
LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def verdict_on(
    answer: str,
    box: Sandbox,
    problem: Problem = PROBLEM,
    settings: JudgeSettings = JudgeSettings(),  # noqa: B008
) -> Verdict:
    return judge(problem, completion_of("p", answer), box, settings)


@pytest.mark.parametrize(
    "answer",
    [
        "'aa'",
        "' aa '",
        "'a', 2",
        "'a', times=2",
        "times=2, text='a'",
        "f('a', 2)",
        "f( 'a', 2, )",
        "'a',\n2",
        "  'a', 2  ",
        '"a", True + 1'.replace("True + 1", "2"),
        "'aa', True",
    ],
)
def test_whatever_gives_the_output_is_right(answer: str, box: Sandbox):
    verdict = verdict_on(answer, box)
    assert (verdict.status, verdict.error_class) == ("OK", "passed")
    assert verdict.extracted == answer


@pytest.mark.parametrize(
    ("answer", "status", "error_class"),
    [
        ("'ab'", "WA", "wrong_answer"),
        ("'a'", "WA", "wrong_answer"),
        ("('a', 2)", "RE", "exception"),
        ("", "RE", "exception"),
        ("'a', 2, 3", "RE", "exception"),
        ("'a', tmes=2", "RE", "exception"),
        ("'a' * 2", "WA", "not_one_literal"),
        ("str('aa')", "WA", "not_one_literal"),
        ("g('aa')", "WA", "not_one_literal"),
        ("*['aa']", "WA", "not_one_literal"),
        ("**{'text': 'aa'}", "WA", "not_one_literal"),
        ("times=2, 'a'", "WA", "not_one_literal"),
        ("times=2, times=2", "WA", "not_one_literal"),
        ("if=2", "WA", "not_one_literal"),
        ("'a', times==2", "WA", "not_one_literal"),
        ("'aa') or f('aa'", "WA", "not_one_literal"),
        ("'aa', ]", "WA", "not_one_literal"),
        ("[('aa')", "WA", "not_one_literal"),
        (",", "WA", "not_one_literal"),
        ("'a',, 2", "WA", "not_one_literal"),
        ("The answer is 'aa'.", "WA", "not_one_literal"),
        ("'aa'  # right", "WA", "not_one_literal"),
        ("'" + "a" * 30_000 + "'", "WA", "not_one_literal"),
        ("[" * 5000 + "]" * 5000, "WA", "not_one_literal"),
    ],
)
def test_everything_else_is_wrong_in_its_way(
    answer: str, status: str, error_class: str, box: Sandbox
):
    verdict = verdict_on(answer, box)
    assert (verdict.status, verdict.error_class) == (status, error_class)
    assert not verdict.is_correct
    assert (verdict.num_passed, verdict.num_tests) == (0, 1)


def with_source(source: str) -> Problem:
    return replace(PROBLEM, tests=(replace(TEST, source=source),))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def g(text): pass", "defines no f"),
        ("def f(", "does not run"),
        ("1 / 0", "does not run"),
    ],
)
def test_program_that_is_at_fault_decides_nothing(
    source: str, message: str, box: Sandbox
):
    verdict = verdict_on("'aa'", box, with_source(source))
    assert verdict.status == "INFRA"
    assert message in verdict.detail


def test_answer_that_takes_too_long_is_a_time_out(box: Sandbox):
    problem = with_source("def f(n):\n    while n:\n        pass\n    return 'aa'")
    problem = replace(problem, limits=Limits(cpu_s=0.2))
    assert verdict_on("0", box, problem).is_correct
    assert verdict_on("1", box, problem).status == "TLE"


def test_answer_may_follow_reasoning(box: Sandbox):
    settings = JudgeSettings(literal_extraction="markers")
    text = "f doubles.\n[ANSWER] 'a', 2 [/ANSWER]"
    verdict = verdict_on(text, box, settings=settings)
    assert verdict.is_correct
    assert verdict.extracted == "'a', 2"
    (span,) = verdict.spans
    assert text[span.start : span.end] == "'a', 2"
    lost = verdict_on("'a', 2", box, settings=settings)
    assert (lost.status, lost.error_class) == ("WA", "no_answer_marker")


@given(positional=st.lists(LITERALS, max_size=3), named=LITERALS)
def test_what_python_writes_is_read(positional: list[object], named: object):
    text = ", ".join([*map(repr, positional), f"key={named!r}"])
    for same in (text, f"f({text})", f" {text}, "):
        assert read_arguments(same, "f") == (tuple(positional), {"key": named})


@given(text=st.text(alphabet="f(1,)[]{}'\"=* \\a", max_size=30))
def test_any_text_is_arguments_or_refused(text: str):
    try:
        positional, named = read_arguments(text, "f")
    except NotALiteralError:
        return

    # What is read is what Python itself would pass.
    def f(*args: object, **names: object) -> tuple[tuple[object, ...], dict]:
        return args, names

    inner = text.strip()
    call = inner if inner.startswith("f(") else f"f({inner})"
    assert eval(call, {"f": f}) == (positional, named)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": ""}, "no source to call"),
        ({"function": ""}, "no function to call"),
        ({"arguments": (1,)}, "where the answer is the arguments"),
        ({"kind": "stdin"}, "Make it 'call'"),
        ({"compare": "equal"}, "no comparator"),
    ],
)
def test_problem_is_checked(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        check_problem(replace(PROBLEM, tests=(replace(TEST, **changes),)))


def test_source_belongs_to_problems_of_kind_input():
    check_problem(PROBLEM)
    with pytest.raises(ValueError, match="source in a call"):
        check_problem(replace(PROBLEM, kind="call"))
