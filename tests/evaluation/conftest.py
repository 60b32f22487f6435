from collections.abc import Sequence

from jaxgrpo.evaluation.outcomes import Answer, Outcome
from jaxgrpo.host.records import ProblemKind

STATUS = {"exact": "OK", "passed": "OK", "infra": "INFRA", "syntax_error": "CE"}


def answer_of(error_class: str, vote: str = "", passed: int = 0, tests: int = 0):
    return Answer(
        status=STATUS.get(error_class, "WA"),  # type: ignore[arg-type]
        error_class=error_class,
        num_tokens=3,
        is_clipped=False,
        vote=vote,
        num_passed=passed,
        num_tests=tests,
    )


def outcome_of(
    problem_id: str,
    greedy: str,
    samples: Sequence[Answer] = (),
    kind: ProblemKind = "output",
    **tags: str,
) -> Outcome:
    return Outcome(
        problem_id=problem_id,
        kind=kind,
        tags=tags,
        greedy=answer_of(greedy),
        samples=tuple(samples),
    )
