"""GAR's grades: a group by hand, who is graded, and what a failure leaves."""

import json
import subprocess

import numpy as np
import pytest

from jaxgrpo.host import quality
from jaxgrpo.host.linting import ruff_path
from jaxgrpo.host.quality import (
    QUALITY,
    QualitySettings,
    complexity,
    graded,
    passing_rows,
    quality_metrics,
)
from jaxgrpo.host.records import (
    Completion,
    Group,
    Problem,
    Score,
    Verdict,
    VerdictStatus,
)
from jaxgrpo.host.rewards.judged import Judged

ALL = QualitySettings(graders=("ruff", "length", "complexity"), floor=0.5)
PLAIN = "def f(x):\n    return x + 1\n"
CLUMSY = (
    "import os\n\n\ndef f(x):\n    if x > 0:\n        return x + 1\n    return x + 1\n"
)
WRONG = "def f(x):\n    return x\n"
Row = tuple[VerdictStatus, str]
RIGHT: Row = ("OK", "passed")
FAILED: Row = ("WA", "wrong_value")


def group(*rows: tuple[Row, str, int]) -> Judged:
    """Returns completions: their verdict, program and number of tokens."""
    completions, verdicts = [], []
    for (status, error_class), source, length in rows:
        completions.append(
            Completion(
                problem_id="p",
                token_ids=np.arange(length),
                text=source,
                token_offsets=np.zeros((length, 2), np.int32),
                finish_reason="eos",
                sampler_logprobs=np.zeros(length, np.float32),
            )
        )
        verdicts.append(
            Verdict(status=status, error_class=error_class, extracted=source)
        )
    problem = Problem(id="p", kind="call", prompt="", reference="")
    return Judged(
        problem=problem, completions=tuple(completions), verdicts=tuple(verdicts)
    )


def scores_of(judged: Judged) -> tuple[Score, ...]:
    return tuple(
        Score(rewards={}, verdict=verdict, extracted=verdict.extracted)
        for verdict in judged.verdicts
    )


MIXED = group((RIGHT, PLAIN, 10), (FAILED, WRONG, 5), (RIGHT, CLUMSY, 25))


def test_a_group_by_hand():
    first, failed, second = graded(MIXED, scores_of(MIXED), ALL)
    # An unused import (F401) weighs 2 of 10; 10 of 25 tokens; one decision more.
    assert first.quality == 1.0 and failed.quality is None
    assert second.extra[QUALITY] == {"ruff": 0.8, "length": 0.4, "complexity": 0.5}
    assert second.quality == pytest.approx(0.5 + 0.5 * (0.8 + 0.4 + 0.5) / 3)
    assert QUALITY not in failed.extra


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([RIGHT, FAILED, RIGHT], [0, 2]),
        ([RIGHT, RIGHT], []),
        ([RIGHT, FAILED, FAILED], []),
        ([FAILED, FAILED], []),
        ([RIGHT, RIGHT, ("INFRA", "infra")], []),
    ],
    ids=["mixed", "all pass", "one passes", "none passes", "one is not judged"],
)
def test_only_groups_with_something_to_move_are_graded(rows, expected):
    judged = group(*[(row, PLAIN, 5) for row in rows])
    scores = scores_of(judged)
    assert passing_rows(scores) == expected
    grades = [score.quality for score in graded(judged, scores, ALL)]
    assert [row for row, grade in enumerate(grades) if grade is not None] == expected


def test_a_grader_that_fails_leaves_the_group_ungraded(monkeypatch):
    def fails(passing):
        raise RuntimeError("no")

    monkeypatch.setitem(quality.GRADERS, "complexity", fails)
    scores = graded(MIXED, scores_of(MIXED), ALL)
    assert [score.quality for score in scores] == [None] * 3
    assert scores[0].extra[QUALITY] == {"failed": "RuntimeError: no"}
    whole = Group(
        problem=MIXED.problem,
        prompts=(),
        completions=MIXED.completions,
        scores=scores,
    )
    metrics = quality_metrics([whole])
    assert metrics["redistribution/ungraded"] == 1.0
    assert metrics["redistribution/graded_groups"] == 0.0
    monkeypatch.undo()
    graded_too = Group(
        problem=MIXED.problem,
        prompts=(),
        completions=MIXED.completions,
        scores=graded(MIXED, scores_of(MIXED), ALL),
    )
    metrics = quality_metrics([whole, graded_too])
    assert metrics["redistribution/ungraded"] == 1.0
    assert metrics["redistribution/graded_groups"] == 1.0
    assert 0.5 < metrics["redistribution/quality_mean"] < 1.0


SOURCES = {
    "def f(x):\n    return x\n": 1,
    "def f(x):\n    for y in x:\n        if y:\n            return y\n": 3,
    "def f(x):\n    while x:\n        x -= 1\n    for y in x:\n        print(y)\n": 3,
    "def f(x):\n    try:\n        return 1\n    except ValueError:\n        return 2\n"
    "    except KeyError:\n        return 3\n": 3,
    "def f(x):\n    if x:\n        return 1\n    elif x > 1:\n        return 2\n"
    "    else:\n        return 3\n": 3,
}


@pytest.mark.parametrize("source", SOURCES)
def test_complexity_is_that_of_ruff_where_both_count(source, tmp_path):
    # Ruff (C901) counts no `and`, conditional expression or comprehension.
    assert complexity(source) == SOURCES[source]
    (tmp_path / "f.py").write_text(source)
    command = [
        ruff_path(), "check", "--isolated", "--no-cache", "--select=C901",
        "--config=lint.mccabe.max-complexity=0", "--output-format=json", "f.py",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    (finding,) = json.loads(done.stdout)
    assert f"({SOURCES[source]} > 0)" in finding["message"]


def test_every_and_and_or_is_a_decision():
    assert complexity("a = x and y and z or w") == 4
    assert complexity("a = [y for y in x if y if not z]") == 4
    with pytest.raises(SyntaxError):
        complexity("def f(:")
