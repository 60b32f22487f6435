"""Steps of completions: what each earns, and on exactly which tokens."""

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jaxgrpo.host.credit.step_metrics import step_metrics
from jaxgrpo.host.credit.steps import (
    MAX_STEPS,
    StepSettings,
    left_out,
    step_rewards,
    with_steps,
)
from jaxgrpo.host.judge import JudgeSettings, infra_verdict
from jaxgrpo.host.judge.output import judge_output
from jaxgrpo.host.messages import Job, SandboxSettings
from jaxgrpo.host.records import Completion, Group, Problem, Score, StepRewards
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.trace.steps import Anchor, predicted_steps
from jaxgrpo.host.worker import LazySandbox, scores_of_job
from jaxgrpo.problems.step_prediction.anchors import MAX_LINES

RECORDED = [["n", "3"], ["xs", "'é\\t→'"], ["n", "2"], ["result", "[1, 2]"]]
PROBLEM = Problem(
    id="p", kind="trace", prompt="", reference="[1, 2]", columns={"steps": RECORDED}
)
RIGHT = "n: 3\nxs: 'é\\t→'\nn: 2\nresult: [1, 2]"
PLAIN = StepSettings()


def completion(text: str, cuts: list[int] | None = None, **fields: Any) -> Completion:
    """A text cut into tokens at some characters; the last token ends it, unwritten."""
    bounds = [0, *(cuts or range(1, len(text))), len(text)]
    offsets = [*zip(bounds, bounds[1:], strict=False), (len(text), len(text))]
    return Completion(
        problem_id="p", token_ids=np.zeros(len(offsets), np.int32), text=text,
        token_offsets=np.array(offsets, np.int32), finish_reason="eos",
        sampler_logprobs=np.zeros(len(offsets), np.float32), **fields,
    )  # fmt: skip


def judged(*completions: Completion, problem: Problem = PROBLEM) -> Judged:
    verdicts = tuple(judge_output(problem, c, JudgeSettings()) for c in completions)
    return Judged(problem=problem, completions=completions, verdicts=verdicts)


def found(
    text: str, cuts: list[int] | None = None, settings: StepSettings = PLAIN
) -> StepRewards:
    (steps,) = step_rewards(judged(completion(text, cuts)), settings)
    assert steps is not None
    return steps


def texts_of(steps: StepRewards, one: Completion) -> list[str]:
    """What the tokens of each step wrote."""
    pieces = []
    for begin, end in zip([0, *steps.ends], steps.ends, strict=False):
        offsets = one.token_offsets[begin:end]
        pieces.append("".join(one.text[first:last] for first, last in offsets))
    return pieces


@pytest.mark.parametrize(
    ("text", "rewards", "num_missing"),
    [
        (RIGHT, [1, 1, 1, 1], 0),
        (RIGHT.replace("\n", "\r\n"), [1, 1, 1, 1], 0),
        (RIGHT.replace("n: 2", "\tn:\t2 "), [1, 1, 1, 1], 0),
        (RIGHT.replace("[1, 2]", "[1,2]"), [1, 1, 1, 0], 0),
        (RIGHT.replace("xs: 'é", "xs: 'e"), [1, 0, 1, 1], 0),
        ("n: 3\nn: 2\nresult: [1, 2]", [1, 0, 1, 1], 1),
        ("xs: 'é\\t→'\nn: 3\nn: 2\nresult: [1, 2]", [0, 1, 0, 1], 1),
        ("[1, 2]", [0, 0, 0, 1], 4),
        ("n: 3\nresult: [1, 2]\nresult: [1]", [1, 0, 0, 0], 2),
        ("", [0, 0, 0, 0], 4),
    ],
)
def test_rewards_by_hand(text: str, rewards: list[int], num_missing: int):
    steps = found(text)
    assert steps.rewards == tuple(map(float, rewards))
    assert steps.num_missing == num_missing


def test_tokens_of_a_step_are_those_of_its_line():
    text = "Hm.\n" + RIGHT + "\n"
    one = completion(text)
    (steps,) = step_rewards(judged(one), PLAIN)
    assert steps is not None
    assert texts_of(steps, one) == [
        "Hm.\nn: 3", "\nxs: 'é\\t→'", "\nn: 2", "\nresult: [1, 2]\n",
    ]  # fmt: skip
    assert steps.ends[-1] == len(one.token_ids)
    assert [text[first:last] for first, last in steps.spans] == texts_of(steps, one)


def test_a_token_across_a_lines_end_belongs_to_the_line_it_begins_in():
    text = "n: 3\nxs: 'é\\t→'\nn: 2\nresult: [1, 2]"
    cut = text.index("3")
    one = completion(text, [cut, cut + 3, cut + 4])  # "3\nx" is one token
    (steps,) = step_rewards(judged(one), PLAIN)
    assert steps is not None
    assert texts_of(steps, one)[:2] == ["n: 3\nx", text[cut + 3 :]]
    # All that follows is one token: the steps after have none but the last, its end.
    assert steps.ends == (2, 4, 4, 5)


def is_missing(text: str, index: int) -> bool:
    anchors = [Anchor(*pair) for pair in RECORDED]
    return predicted_steps(text, anchors)[index].is_missing


@pytest.mark.parametrize("seed", range(40))
def test_each_token_has_the_step_that_its_first_character_is_of(seed: int):
    """Against a count by character, for any cut of the text into tokens."""
    draw = random.Random(seed)
    lines = RIGHT.split("\n")
    draw.shuffle(lines)
    end = draw.choice(["\n", "\r\n"])
    text = end.join(lines[: draw.randint(1, 4)])
    cuts = sorted(draw.sample(range(1, len(text)), draw.randint(0, len(text) // 3)))
    one = completion(text, cuts)
    (steps,) = step_rewards(judged(one), PLAIN)
    assert steps is not None
    # Lines that count, by the characters at which they end; the last step has the rest.
    line_ends = [last for _, last in steps.spans]
    steps_of_lines = [i for i in range(3) if not is_missing(text, i)] + [3]
    for token, (first, _) in enumerate(one.token_offsets):
        number = sum(last <= first for last in line_ends)
        owner = next(i for i, last in enumerate(steps.ends) if token < last)
        assert owner == steps_of_lines[min(number, len(steps_of_lines) - 1)]
    assert list(steps.ends) == sorted(steps.ends)
    assert steps.ends[-1] == len(one.token_ids)


def test_what_was_thought_is_part_of_the_first_step_and_earns_nothing():
    thought = "<think>n: 9</think>"
    steps = found(thought + "\n" + RIGHT)
    assert steps.rewards == (1.0,) * 4
    assert steps.spans[0] == (0, len(thought) + len("\nn: 3"))


UNFINISHED = ["<think>" + RIGHT, "<think>Hm.\n" + RIGHT + "\n"]


@pytest.mark.parametrize(
    "one",
    [
        completion(RIGHT, in_thought=True),
        completion(RIGHT + "\n</think>", in_thought=True),
        completion(RIGHT + "\n</think>\n ", in_thought=True),
        *map(completion, UNFINISHED),
    ],
)
def test_an_answer_that_never_begins_has_no_steps(one: Completion):
    (steps,) = step_rewards(judged(one), PLAIN)
    assert steps is not None
    assert steps.rewards == (0.0,) * 4 and steps.num_missing == 4
    assert steps.spans == ()
    assert steps.ends == (0, 0, 0, len(one.token_ids))


def test_after_a_thought_that_the_prompt_began_steps_count():
    one = completion("n: 9\n</think>\n" + RIGHT, in_thought=True)
    (steps,) = step_rewards(judged(one), PLAIN)
    assert steps is not None and steps.rewards == (1.0,) * 4


# Steps whose credit is left out


def test_tokens_of_a_step_left_out_are_those_of_the_next_one():
    settings = StepSettings(dropout=0.5, seed=2)
    flags = left_out(completion(RIGHT), 4, settings)
    assert any(flags) and not all(flags[:-1])
    whole, steps = found(RIGHT), found(RIGHT, settings=settings)
    assert [math.isnan(reward) for reward in steps.rewards] == list(flags)
    before = 0
    for is_out, end, whole_end in zip(flags, steps.ends, whole.ends, strict=True):
        before = before if is_out else whole_end
        assert end == before


def test_draws_of_steps_depend_on_problem_policy_and_draw_alone():
    settings = StepSettings(dropout=0.4, seed=0)
    first = completion("a", policy_step=3)
    flags = left_out(first, 40, settings)
    assert flags == left_out(replace(first, sample=5, text="b"), 40, settings)
    others = [
        replace(first, problem_id="q"), replace(first, policy_step=4),
        replace(first, draw=1),
    ]  # fmt: skip
    assert all(left_out(other, 40, settings) != flags for other in others)
    assert left_out(first, 40, replace(settings, seed=1)) != flags


def test_as_many_are_left_out_as_is_asked_and_never_the_last():
    settings = StepSettings(dropout=0.2)
    many = [left_out(completion("", policy_step=s), 11, settings) for s in range(500)]
    assert not any(flags[-1] for flags in many)
    assert np.mean([flags[:-1] for flags in many]) == pytest.approx(0.2, abs=0.02)
    assert left_out(completion(""), 3, StepSettings(dropout=1.0)) == (True, True, False)


# Problems and completions without steps


def test_other_problems_and_infra_have_no_steps():
    one = completion(RIGHT)
    plain = replace(PROBLEM, columns={})
    long = replace(PROBLEM, columns={"steps": [["n", "1"]] * (MAX_STEPS + 1)})
    for problem in (plain, long):
        assert step_rewards(judged(one, problem=problem), PLAIN) == [None]
    lost = replace(judged(one, one), verdicts=(infra_verdict("lost"),) * 2)
    assert step_rewards(lost, PLAIN) == [None, None]
    score = Score(rewards={})
    assert with_steps(score, None) is score


def test_no_generated_problem_has_more_steps_than_an_update_takes():
    assert MAX_LINES <= MAX_STEPS


# In the scoring process


def scores(settings: StepSettings | None) -> tuple[Score, ...]:
    completions = (completion(RIGHT), completion("n: 3\nresult: [1, 2]"))
    job = Job(id=0, problem=PROBLEM, completions=completions, verdicts=(None, None))
    return scores_of_job(
        job, lambda _: {}, LazySandbox(SandboxSettings()), steps=settings
    )


def test_scores_tell_what_each_step_earned_and_where_it_stands():
    right, short = scores(PLAIN)
    assert right.steps is not None and short.steps is not None
    assert short.steps.rewards == (1.0, 0.0, 0.0, 1.0)
    assert short.extra["step_rewards"] == [1.0, 0.0, 0.0, 1.0]
    told = [(s.start, s.end) for s in short.spans if s.label == "step"]
    assert told == [(0, 4), (4, 19)]
    assert right.verdict is not None and right.verdict.is_correct
    left = scores(StepSettings(dropout=1.0))[0]
    assert left.extra["step_rewards"] == [None, None, None, 1.0]


def test_without_credit_by_steps_scores_stay_as_they_were():
    for score in scores(None):
        assert score.steps is None and "step_rewards" not in score.extra
        assert not any(span.label == "step" for span in score.spans)


def group(*of_scores: Score) -> Group:
    completions = tuple(completion("") for _ in of_scores)
    return Group(problem=PROBLEM, prompts=(), completions=completions, scores=of_scores)


def test_metrics_of_a_step():
    told = step_metrics([group(*scores(PLAIN), Score(rewards={}))])
    assert told == {
        "credit/steps": 4.0,
        "credit/step_accuracy": 6 / 8,
        "credit/steps_left_out": 0.0,
        "credit/steps_missing": 0.5,
        "credit/without_steps": pytest.approx(1 / 3),
    }
    assert step_metrics([group(*scores(None))]) == {}
    assert step_metrics([group(*scores(StepSettings(dropout=1.0)))]) == {
        "credit/steps": 4.0,
        "credit/step_accuracy": 1.0,
        "credit/steps_left_out": 0.75,
        "credit/steps_missing": 0.5,
        "credit/without_steps": 0.0,
    }
