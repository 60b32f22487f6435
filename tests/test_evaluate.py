"""Measuring a policy: estimates against enumeration, and the whole on a real model."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import jax
import pytest

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config, EvaluationConfig
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.evaluate import (
    Evaluation,
    evaluate,
    greedy_results,
    pass_at_k,
    sampled_results,
    scored_groups,
    submit_each,
)
from jaxgrpo.host.judge.results import infra_verdict
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Group, Problem, Score, Verdict
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.host.scoring import abstaining_score
from jaxgrpo.policy import Policy, load_policy
from tests.host.conftest import group_of
from tests.problems.conftest import SIZES

# Estimates


@pytest.mark.parametrize("n", [1, 4, 7])
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(n):
    for c in range(n + 1):
        is_correct = [index < c for index in range(n)]
        for k in range(1, n + 1):
            hits = [any(chosen) for chosen in combinations(is_correct, k)]
            assert pass_at_k(n, c, k) == pytest.approx(sum(hits) / len(hits))


@pytest.mark.parametrize(
    ("n", "c", "k"), [(200, 3, 1), (200, 3, 100), (200, 100, 100), (10, 5, 6)]
)
def test_pass_at_k_is_what_the_paper_computes(n, c, k):
    # Figure 3 of the paper: a product, for numerical stability.
    expected = 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
    assert pass_at_k(n, c, k) == pytest.approx(1.0 if n - c < k else expected)


def test_pass_at_k_beyond_the_samples_is_refused():
    with pytest.raises(AssertionError, match="pass@5 from 4 samples"):
        pass_at_k(4, 2, 5)


def judged(group: Group, classes: Sequence[str]) -> Group:
    scores = [
        Score(
            rewards={},
            verdict=Verdict(status="OK" if c == "exact" else "WA", error_class=c),
            error_class=c,
        )
        for c in classes
    ]
    return replace(group, scores=tuple(scores))


def test_greedy_results_are_means_over_problems_with_their_errors():
    groups = [
        judged(group_of("1", "1"), ["exact"]),
        judged(group_of("1", "01"), ["wrong_value"]),
        judged(group_of("1", "1.0"), ["wrong_value"]),
        judged(group_of("1", "one"), ["not_one_literal"]),
    ]
    (cut,) = groups[3].completions
    groups[3] = replace(groups[3], completions=(replace(cut, finish_reason="length"),))
    results = greedy_results(groups)
    # Standard error of a share of 1 in 4: sqrt(0.25 * 0.75 / (4 - 1)).
    quarter = {"value": 0.25, "se": pytest.approx(0.25)}
    assert results["exact_match"] == results["taxonomy/exact"] == quarter
    assert results["taxonomy/not_one_literal"] == quarter
    assert results["taxonomy/wrong_value"]["value"] == 0.5
    assert results["taxonomy/wrong_repr"] == {"value": 0.0, "se": 0.0}
    assert results["clipped_ratio"] == quarter
    assert results["mean_length"]["value"] == (1 + 2 + 3 + 3) / 4


def test_sampled_results_count_correct_samples_of_each_problem():
    texts = ["1", "2", "3", "4"]
    groups = [
        judged(group_of("1", *texts), ["exact"] * count + ["wrong_value"] * (4 - count))
        for count in (0, 1, 4, 0)
    ]
    e = EvaluationConfig(samples_per_problem=4, pass_at=(1, 2, 4))
    results = sampled_results(groups, e)
    assert results["pass@1"]["value"] == (0 + 0.25 + 1 + 0) / 4
    assert results["pass@2"]["value"] == (0 + 0.5 + 1 + 0) / 4
    assert results["pass@4"]["value"] == 0.5
    values = [0.0, 0.25, 1.0, 0.0]
    variance = sum((value - 0.3125) ** 2 for value in values) / 3
    assert results["pass@1"]["se"] == pytest.approx(math.sqrt(variance / 4))
    shares = {name: results[f"groups/{name}"]["value"] for name in
              ("all_wrong", "mixed", "all_correct")}  # fmt: skip
    assert shares == {"all_wrong": 0.5, "mixed": 0.25, "all_correct": 0.25}


def test_one_problem_has_no_standard_error():
    results = greedy_results([judged(group_of("1", "1"), ["exact"])])
    assert results["exact_match"] == {"value": 1.0, "se": 0.0}


def test_what_could_not_be_judged_is_shown():
    group = group_of("1", "1")
    infra = abstaining_score(["exact"], infra_verdict("worker died"), "worker died")
    results = greedy_results(
        [judged(group, ["exact"]), replace(group, scores=(infra,))]
    )
    assert results["errored"]["value"] == 0.5
    assert results["exact_match"]["value"] == 0.5


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

    def submit(self, group: Group) -> "Reading":
        self.texts[group.problem.id] = group.completions[0].text
        return self

    def result(self) -> list[Score]:
        return [Score(rewards={}, error_class="unread")]


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
    shares = [measured[f"groups/{n}"]["value"] for n in ("all_wrong", "mixed")]
    assert sum(shares) + measured["groups/all_correct"]["value"] == pytest.approx(1.0)


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
        "pass@1", "pass@4", "groups/all_wrong", "groups/mixed", "groups/all_correct",
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
        def submit(self, group: Group) -> None:
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
