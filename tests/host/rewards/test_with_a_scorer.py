"""All rewards of the host together, in a worker and over real programs."""

import math

import pytest

from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Group, Score, Test
from jaxgrpo.host.rewards import REWARDS, RewardSpec, settings_class
from jaxgrpo.host.scorer import Scorer
from tests.host.rewards.groups import of_programs

DOUBLE = "print(2 * int(input()))"
UNUSED = "import os\nprint(2 * int(input()))"
WRONG = "print(int(input()) + 1)"
BROKEN = "print(int(input())"


def spec(kind: str, **fields) -> RewardSpec:
    return RewardSpec(name=kind, kind=kind, settings=settings_class(kind)(**fields))


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    tests = (Test(kind="stdin", stdin="21\n", expected="42\n"),)
    judged = of_programs(
        *(f"{code}\n" for code in (DOUBLE, UNUSED, WRONG, BROKEN)),
        kind="stdin",
        tests=tests,
    )
    specs = [spec(kind) for kind, scope in REWARDS.items() if scope == "host"]
    with Scorer(
        num_workers=1, rewards=specs, deadline_s=120.0, sandbox=SandboxSettings()
    ) as scorer:
        group = Group(
            problem=judged.problem, prompts=(), completions=judged.completions
        )
        return scorer.submit(group).result()


EXPECTED = {
    "tests": [1, 1, 0, 0],
    "format": [1, 1, 1, 0],
    "overlong": [0, 0, 0, 0],
    "repetition": [0, 0, 0, 0],
    "ruff": [0, -0.2, 0, -1],
    "empo": [0.5, 0.5, 0.25, 0],
    "ttrl": [1, 1, 0, 0],
    "ladder": [math.nan] * 4,
    "steps": [math.nan] * 4,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_rewards_of_real_programs(scores, name: str):
    assert not any(score.failures for score in scores)
    found = [score.rewards[name] for score in scores]
    assert found == pytest.approx(EXPECTED[name], nan_ok=True)


def test_other_numbers_travel_with_the_scores(scores):
    _, unused, _, broken = (score.extra for score in scores)
    assert unused["ruff/F401"] == 1.0 and unused["ruff/serious"] == 1.0
    assert broken["ruff/unparsable"] == 1.0 and broken["ruff/F401"] == 0.0
    assert unused["ttrl/label_accuracy"] == 1.0
    assert unused["repetition/loop"] == 0.0
    assert unused["empo/answer_entropy"] == pytest.approx(1.0397, abs=1e-4)
