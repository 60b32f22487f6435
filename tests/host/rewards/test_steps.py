import math
from dataclasses import replace

from jaxgrpo.host.records import Problem
from jaxgrpo.host.rewards.steps import Settings, steps
from tests.host.rewards.groups import of_literals

RECORDED = [["n", "3"], ["xs", "[1, 2]"]]


def judged(*texts: str, recorded: object = RECORDED):
    problem = Problem(
        id="p", kind="trace", prompt="", reference="6", columns={"steps": recorded}
    )
    return replace(of_literals("6", *texts), problem=problem)


def test_reward_is_the_share_of_exact_steps():
    group = judged("n: 3\nxs: [1, 2]\n6", "n: 3\nxs: [2]\n6", "6")
    assert steps(group, Settings()) == [1.0, 0.5, 0.0]


def test_thinking_does_not_count():
    group = judged("n: 3\n</think>xs: [1, 2]\n", "n: 3\n</think>\nxs: [1, 2]\n")
    assert steps(group, Settings()) == [0.0, 0.5]


def test_an_answer_that_never_begins_has_no_steps():
    text = "n: 3\nxs: [1, 2]\n6"
    group = judged(text, "<think>" + text, text + "</think>", "n: 3\n</think>\n" + text)
    in_thought = tuple(replace(one, in_thought=True) for one in group.completions)
    group = replace(group, completions=in_thought)
    assert steps(group, Settings()) == [0.0, 0.0, 0.0, 1.0]


def test_problem_without_recorded_steps_abstains():
    assert all(math.isnan(r) for r in steps(judged("6", recorded=None), Settings()))
    assert math.isnan(steps(of_literals("6", "6"), Settings())[0])
