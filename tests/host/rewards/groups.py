"""Groups as rewards get them, made by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.records import (
    Completion,
    FinishReason,
    Problem,
    ProblemKind,
    TestResult,
    Verdict,
)
from jaxgrpo.host.rewards.judged import Judged


def completion(
    text: str = "",
    token_ids: Sequence[int] = (),
    finish_reason: FinishReason = "length",
) -> Completion:
    return Completion(
        problem_id="p",
        token_ids=np.array(token_ids, np.int32),
        text=text,
        token_offsets=np.zeros((len(token_ids), 2), np.int32),
        finish_reason=finish_reason,
        sampler_logprobs=np.zeros(len(token_ids), np.float32),
    )


def of_literals(reference: str, *texts: str) -> Judged:
    """Completions that were asked for a value, judged as they are in a run."""
    problem = Problem(id="p", kind="output", prompt="", reference=reference)
    return Judged(
        problem=problem,
        completions=tuple(map(completion, texts)),
        verdicts=tuple(judge_literal(text, reference) for text in texts),
    )


def of_tests(*rows: str) -> Judged:
    """Programs by their tests: a letter each, `+` passed, `-` failed; `!` is INFRA."""
    num_tests = max(len(row) for row in rows if row != "!")
    return Judged(
        problem=Problem(id="p", kind="stdin", prompt="", reference=""),
        completions=tuple(completion() for _ in rows),
        verdicts=tuple(_verdict(row, num_tests) for row in rows),
    )


def _verdict(row: str, num_tests: int) -> Verdict:
    if row == "!":
        return Verdict(status="INFRA", error_class="infra")
    results = tuple(
        TestResult(status="OK" if mark == "+" else "WA", error_class="") for mark in row
    )
    is_right = row.count("+") == num_tests
    return Verdict(
        status="OK" if is_right else "WA",
        error_class="",
        num_passed=row.count("+"),
        num_tests=num_tests,
        results=results,
    )


def of_programs(
    *codes: str, kind: ProblemKind = "call", infra: Sequence[int] = (), **fields: Any
) -> Judged:
    """Completions in which a program was found; empty where none was."""
    problem = Problem(id="p", kind=kind, prompt="", reference="", **fields)
    return Judged(
        problem=problem,
        completions=tuple(completion(f"```python\n{code}```\n") for code in codes),
        verdicts=tuple(
            Verdict(
                status="INFRA" if row in infra else "WA",
                error_class="",
                num_tests=1,
                extracted=code,
            )
            for row, code in enumerate(codes)
        ),
    )
