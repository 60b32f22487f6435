"""Programs through the whole host: problem and text to scores, in a worker process."""

import math

import pytest

from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Group, Problem, ProblemKind, Score, Test
from jaxgrpo.host.scorer import Scorer

CODE = "```python\ndef f(x):\n    return x + 1\n```"
TESTS: dict[ProblemKind, tuple[Test, ...]] = {
    "stdin": (Test(kind="stdin", stdin="1", expected="2"),),
    "call": (Test(kind="call", function="f", arguments=(1,), expected=2),),
    "assert": (
        Test(kind="assert", source="assert f(1) == 2"),
        Test(kind="assert", source="x = f(2)\nassert x == 3"),
    ),
}
RIGHT: dict[ProblemKind, str] = {
    "stdin": "```\nprint(int(input()) + 1)\n```",
    "call": CODE,
    "assert": CODE,
}


def problem_of(kind: ProblemKind, *tests: Test) -> Problem:
    return Problem(id=kind, kind=kind, prompt="", reference="", tests=tests)


def group_of(problem: Problem, *texts: str) -> Group:
    completions = tuple(completion_of(problem.id, text) for text in texts)
    return Group(problem=problem, prompts=(), completions=completions)


@pytest.fixture(scope="module")
def scores() -> dict[str, list[Score]]:
    """Of a right, a wrong and an empty completion of each kind of problem."""
    settings = {"num_workers": 1, "rewards": ["exact"], "deadline_s": 60.0}
    with Scorer(**settings, sandbox=SandboxSettings(cpu_s=1.0)) as scorer:
        futures = {
            kind: scorer.submit(
                group_of(problem_of(kind, *tests), RIGHT[kind], "```\nx = 1\n```", "")
            )
            for kind, tests in TESTS.items()
        }
        futures["none"] = scorer.submit(group_of(problem_of("call"), CODE))
        return {name: future.result() for name, future in futures.items()}


@pytest.mark.parametrize("kind", TESTS)
def test_exact_reward_is_for_passing_every_test(
    kind: ProblemKind, scores: dict[str, list[Score]]
):
    assert [score.rewards["exact"] for score in scores[kind]] == [1.0, 0.0, 0.0]
    assert scores[kind][0].error_class == "passed"
    assert scores[kind][2].error_class == "no_code_block"


@pytest.mark.parametrize("kind", TESTS)
def test_score_tells_the_code_and_where_it_stands(
    kind: ProblemKind, scores: dict[str, list[Score]]
):
    score = scores[kind][0]
    (span,) = score.spans
    assert RIGHT[kind][span.start : span.end] == score.extracted
    assert score.verdict is not None
    assert score.verdict.num_passed == score.verdict.num_tests == len(TESTS[kind])
    assert all(result.peak_bytes > 2**20 for result in score.verdict.results)


def test_problem_without_tests_abstains(scores: dict[str, list[Score]]):
    (score,) = scores["none"]
    assert math.isnan(score.rewards["exact"])
    assert score.verdict is not None and score.verdict.status == "INFRA"
    assert score.error_class == "no_tests"
    assert score.abstain_reason == "the problem has no tests"


def test_settings_of_the_judge_reach_the_worker():
    problem = problem_of(
        "call", *(Test(kind="call", function="f", expected=n) for n in range(3))
    )
    with Scorer(
        num_workers=1,
        rewards=["exact"],
        deadline_s=60.0,
        sandbox=SandboxSettings(),
        extraction="raw",
        stops_at_failure=True,
    ) as scorer:
        group = group_of(problem, "def f(): return 0", CODE)
        raw, fenced = scorer.submit(group).result()
    assert raw.verdict is not None and fenced.verdict is not None
    assert raw.verdict.test_statuses == ("OK", "WA")
    assert fenced.error_class == "syntax_error"


def test_unknown_rule_of_extraction_is_refused():
    with pytest.raises(ValueError, match="extraction rule 'first'"):
        Scorer(
            num_workers=1,
            rewards=[],
            deadline_s=1.0,
            sandbox=SandboxSettings(),
            extraction="first",
        )
