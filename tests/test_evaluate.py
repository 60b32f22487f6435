"""Measuring a policy: a real model on real problems, at once and in parts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.evaluate import (
    Measured,
    evaluate,
    outcomes_of,
    scored_groups,
    submit_each,
)
from jaxgrpo.evaluation.outcomes import Evaluation
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Group, Problem, Score, Verdict
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.policy import Policy, load_policy
from tests.host.conftest import group_of
from tests.problems.conftest import SIZES

# The whole

NUM_PROBLEMS = 10


@pytest.fixture(scope="module")
def scorer() -> Iterator[Scorer]:
    with Scorer(
        num_workers=1, rewards=["exact"], deadline_s=120.0, sandbox=SandboxSettings()
    ) as scorer:
        yield scorer


@pytest.fixture(scope="module")
def config(session_cache) -> Config:
    return Config.model_validate(
        {
            "model": {
                "preset": "qwen3-tiny",
                "tokenizer": "builtin:output_prediction_tokenizer",
            },
            "data": {"cache_dir": str(session_cache), "build_workers": 1} | SIZES,
            "prompt": {"max_prompt_tokens": 45},
            "sampling": {"max_new_tokens": 4},
            "rewards": {"exact": {}},
            "evaluation": {
                "samples_per_problem": 4, "pass_at": [1, 4], "batch_problems": 4,
            },
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def policy(config) -> Policy:
    # Many tokens end a completion: a random model stops early now and then.
    policy = load_policy(config.model, config.prompt)
    return replace(policy, eos_ids=(*policy.eos_ids, *range(60)))


@pytest.fixture(scope="module")
def params(policy) -> Any:
    params = initial_params(policy.architecture, jax.random.key(0))
    # Logits far from flat: samples repeat, and some of a group agree.
    return params | {"embedding_VD": 20.0 * params["embedding_VD"]}


Measure = Callable[..., Evaluation]


class Reading:
    """In place of a scorer: keeps the texts it is handed, and judges nothing."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def submit(self, group: Group, **_: Any) -> "Reading":
        self.texts[group.problem.id] = group.completions[0].text
        return self

    def result(self) -> list[Score]:
        verdict = Verdict(status="WA", error_class="unread")
        return [Score(rewards={}, verdict=verdict, error_class="unread")]


@pytest.fixture(scope="module")
def problems(config, policy, params) -> list[Problem]:
    """Real problems; the model's own greedy answer is the right one of every other."""
    problems = list(problems_of(config.data, "test", limit=NUM_PROBLEMS))
    reading: Any = Reading()
    evaluate(params, policy, problems, reading, config, step=0, with_samples=False)
    return [
        replace(problem, reference=reading.texts.get(problem.id, "too long"))
        if index % 2
        else problem
        for index, problem in enumerate(problems)
    ]


@pytest.fixture(scope="module")
def measure(config, policy, params, scorer, problems) -> Measure:
    def measure(step: int = 0, with_samples: bool = True, **fields: Any) -> Evaluation:
        e = config.evaluation.model_copy(update=fields)
        return evaluate(
            params,
            policy,
            problems,
            scorer,
            config.model_copy(update={"evaluation": e}),
            step=step,
            with_samples=with_samples,
        )

    return measure


@pytest.fixture(scope="module")
def measured(measure) -> Evaluation:
    return measure()


def test_every_problem_is_measured_or_counted_as_too_long(
    measured, problems, policy, config
):
    num_long = sum(
        len(policy.encode(p).token_ids) > config.prompt.max_prompt_tokens
        for p in problems
    )
    assert 0 < num_long < NUM_PROBLEMS
    assert measured["dropped_prompts"] == num_long
    assert measured["num_problems"] == NUM_PROBLEMS - num_long


def test_answers_that_are_right_are_found_right(measured, problems, policy, config):
    fitting = [
        index for index, problem in enumerate(problems)
        if len(policy.encode(problem).token_ids) <= config.prompt.max_prompt_tokens
    ]  # fmt: skip
    num_right = sum(index % 2 for index in fitting)
    assert 0 < num_right < len(fitting)
    assert measured["exact_match"]["value"] == pytest.approx(num_right / len(fitting))
    assert 0 < measured["pass@1"]["value"] <= measured["pass@4"]["value"] < 1
    shares = [
        measured[f"frac_reward_{name}"]["value"]
        for name in ("all_zero", "mixed", "all_one")
    ]
    assert sum(shares) == pytest.approx(1.0)


def test_an_evaluation_repeats_exactly(measure, measured):
    assert measure() == measured


def test_samples_change_with_the_step_and_greedy_answers_do_not(measure, measured):
    later = measure(step=6)
    assert later["exact_match"] == measured["exact_match"]
    assert later["mean_length"] == measured["mean_length"]
    assert later["pass@1"] != measured["pass@1"]


def test_batches_of_another_size_measure_the_same(measure, measured):
    # Other shapes round otherwise, by some 1e-6 of a logit: a draw or an argmax could
    # tip only where two tokens are that close. These do not.
    assert measure(batch_problems=3) == measured


def test_without_samples_there_is_no_pass_at_k(measure, measured):
    greedy = measure(with_samples=False)
    assert set(measured) - set(greedy) == {
        "pass@1", "pass@4", "majority@4", "frac_reward_all_zero", "frac_reward_mixed",
        "frac_reward_all_one",
    }  # fmt: skip
    assert greedy == {name: measured[name] for name in greedy}


def test_progress_is_reported_over_both_passes(
    params, policy, problems, scorer, config, measured
):
    calls = []
    evaluate(
        params, policy, problems, scorer, config, step=0, with_samples=True,
        report=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    num = measured["num_problems"]
    done = [done for done, _ in calls]
    assert done == sorted(done) and done[-1] == 2 * num and num in done
    assert {total for _, total in calls} == {2 * num}


class InterruptedHereError(Exception):
    pass


@pytest.fixture
def in_parts(config, policy, params, scorer, problems, tmp_path) -> Callable:
    """Measures with a folder for the generations, and stops where it is told to."""
    # One problem at a time: parts are written long before the end.
    e = config.evaluation.model_copy(update={"batch_problems": 1})
    config = config.model_copy(update={"evaluation": e})

    def measure(stop_at: int | None = None, folder: Path = tmp_path) -> Measured:
        def report(done: int, total: int) -> None:
            if done == stop_at:
                raise InterruptedHereError

        return outcomes_of(
            params, policy, problems, scorer, config,
            step=0, with_samples=True, keep=folder, report=report,
        )  # fmt: skip

    return measure


def test_an_interrupted_evaluation_ends_with_the_same_outcomes(
    in_parts, tmp_path, measured, config
):
    whole = in_parts(folder=tmp_path / "whole")
    assert whole.evaluation(config) == measured
    num = measured["num_problems"]
    with pytest.raises(InterruptedHereError):
        in_parts(stop_at=num)  # at the end of the greedy pass
    with pytest.raises(InterruptedHereError):
        in_parts(stop_at=2 * num)
    assert list((tmp_path / "sampled").iterdir()), "nothing was kept in time"
    assert in_parts() == whole


def test_a_finished_evaluation_draws_nothing(in_parts, monkeypatch):
    whole = in_parts()
    monkeypatch.setattr("jaxgrpo.evaluate.evaluation_engine", None)
    assert in_parts() == whole


def test_an_evaluation_of_more_problems_draws_the_others_only(
    in_parts, problems, params, policy, scorer, config, tmp_path
):
    few = outcomes_of(
        params, policy, problems[:5], scorer, config,
        step=0, with_samples=True, keep=tmp_path,
    )  # fmt: skip
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*.parquet")}
    more = in_parts()
    assert more.outcomes[: len(few.outcomes)] == few.outcomes
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_a_problem_that_occurs_twice_is_refused(
    params, policy, problems, scorer, config
):
    with pytest.raises(ValueError, match="occurs 2 times"):
        evaluate(
            params, policy, [*problems, problems[0]], scorer, config,
            step=0, with_samples=False,
        )  # fmt: skip


def test_prompts_that_are_all_too_long_are_refused(
    params, policy, problems, scorer, config
):
    prompt = config.prompt.model_copy(update={"max_prompt_tokens": 3})
    with pytest.raises(ValueError, match="all 10 prompts .*max_prompt_tokens 3"):
        evaluate(
            params, policy, problems, scorer,
            config.model_copy(update={"prompt": prompt}), step=0, with_samples=False,
        )  # fmt: skip


def test_scores_come_back_in_the_problems_order(scorer):
    groups = [group_of(str(i), str(i), "x", problem_id=f"p{i}") for i in range(9)]
    as_they_ended = [(index, groups[index]) for index in (3, 0, 8, 1, 2, 7, 4, 6, 5)]
    scored = scored_groups(submit_each(scorer, as_they_ended))
    assert [group.problem.id for group in scored] == [f"p{i}" for i in range(9)]
    for group in scored:
        assert [score.rewards["exact"] for score in group.scores] == [1.0, 0.0]


def test_a_group_is_handed_to_the_scorer_before_the_next_is_drawn():
    events = []

    class Listening:
        def submit(self, group: Group, **_: Any) -> None:
            events.append(f"submit {group.problem.id}")

    def drawn() -> Iterator[tuple[int, Group]]:
        for index in range(2):
            events.append(f"draw p{index}")
            yield index, group_of("1", "1", problem_id=f"p{index}")

    scorer: Any = Listening()
    submit_each(scorer, drawn(), report=lambda done: events.append(f"report {done}"))
    assert events == [
        "draw p0", "submit p0", "report 1", "draw p1", "submit p1", "report 2",
    ]  # fmt: skip
