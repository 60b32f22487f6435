"""Rewards of the device, joined to the scores of the host."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.config import Config
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.reward_model import SCORE, reward_params
from jaxgrpo.host.judge import infra_verdict
from jaxgrpo.host.records import Completion, Group, Problem, Score, Verdict
from jaxgrpo.host.rewards import REWARDS
from jaxgrpo.model_rewards import VALUES, model_rewards
from jaxgrpo.policy import Policy, load_policy
from jaxgrpo.reward_model import load_reward_model
from jaxgrpo.weights.reward_model import RewardInput, save_reward_model

TEMPERATURE = 0.8
WRONG = Verdict(status="WA", error_class="wrong_value")
RNG = np.random.default_rng(3)


def config_of(**rewards: dict[str, Any]) -> Config:
    model = {"preset": "qwen3-tiny", "tokenizer": "builtin:output_prediction_tokenizer"}
    return Config.model_validate(
        {
            "model": model,
            "rewards": rewards,
            "guard": {"mode": "off"},
            "prompt": {"max_prompt_tokens": 48},
            "sampling": {"problems_per_step": 2, "group_size": 3, "max_new_tokens": 6},
        }
    )


@pytest.fixture(scope="module")
def policy() -> Policy:
    config = config_of(exact={})
    return load_policy(config.model, config.prompt)


@pytest.fixture(scope="module")
def params(policy: Policy) -> Any:
    return initial_params(policy.architecture, jax.random.key(0))


def group_of(policy: Policy, name: str, exact: list[float]) -> Group:
    problem = Problem(id=name, kind="output", prompt=f"print({name!r})", reference="")
    completions = tuple(
        Completion(
            problem_id=name,
            token_ids=RNG.integers(0, policy.num_tokens, 2 + row).astype(np.int32),
            text="",
            token_offsets=np.zeros((2 + row, 2), np.int32),
            finish_reason="length",
            sampler_logprobs=np.zeros(2 + row, np.float32),
            sample=row,
        )
        for row in range(len(exact))
    )
    scores = tuple(Score(rewards={"exact": e}, verdict=WRONG) for e in exact)
    prompts = (policy.encode(problem),)
    return Group(
        problem=problem, prompts=prompts, completions=completions, scores=scores
    )


@pytest.fixture(scope="module")
def groups(policy: Policy) -> list[Group]:
    return [group_of(policy, name, [0.0, 1.0, 0.0]) for name in "abc"]


@pytest.fixture(scope="module")
def reward_model(
    policy: Policy, params: Any, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A model whose scores are far from 0, with the policy's tokenizer."""
    fresh = reward_params(params)
    drawn = np.random.default_rng(4).normal(size=fresh[SCORE].shape)
    folder = tmp_path_factory.mktemp("reward")
    save_reward_model(
        folder,
        fresh | {SCORE: jnp.asarray(drawn, jnp.float32)},
        policy.architecture,
        RewardInput(max_tokens=24),
        tokenizer_folder=policy.tokenizer_folder,
    )
    return str(folder)


def completed(
    policy: Policy, params: Any, groups: list[Group], **rewards: Any
) -> list[Group]:
    rewarder = model_rewards(config_of(**rewards), policy)
    return rewarder.completed(groups, params, step=0, temperature=TEMPERATURE)


def values(groups: list[Group], name: str) -> list[float]:
    return [score.rewards[name] for group in groups for score in group.scores]


def test_every_reward_of_the_device_can_be_had():
    assert set(VALUES) == {name for name, scope in REWARDS.items() if scope == "device"}


def test_groups_are_as_they_are_without_such_rewards(policy, params, groups):
    assert completed(policy, params, groups, exact={}) == groups


def test_values_are_of_their_own_rows(policy, params, groups):
    """The numbers do not depend on what else is in the batch, nor on its order."""
    rewards: dict[str, Any] = {"exact": {}, "entropy": {}, "self_certainty": {}}
    # Three groups of which two fit into a batch.
    together = completed(policy, params, groups, **rewards)
    backwards = completed(policy, params, groups[::-1], **rewards)[::-1]
    for name in ("entropy", "self_certainty"):
        found = values(together, name)
        assert len(set(found)) == 9
        np.testing.assert_allclose(found, values(backwards, name), rtol=1e-5)
        for group in groups:
            alone = completed(policy, params, [group], **rewards)
            place = groups.index(group) * 3
            np.testing.assert_allclose(
                values(alone, name), found[place : place + 3], rtol=1e-5
            )
    # Both signs are those of certainty: an untrained model is nearly uniform.
    limit = math.log(policy.num_tokens)
    assert all(-limit <= value < -0.9 * limit for value in values(together, "entropy"))
    assert all(limit <= v < 1.1 * limit for v in values(together, "self_certainty"))


def test_rewards_are_in_the_order_of_the_configuration(policy, params, groups):
    found = completed(policy, params, groups, entropy={}, exact={})
    assert list(found[0].scores[0].rewards) == ["entropy", "exact"]
    assert values(found, "exact") == [0.0, 1.0, 0.0] * 3
    assert "reward/entropy" in found[0].scores[0].timings


def test_row_without_a_verdict_has_no_such_reward(policy, params, groups):
    infra = Score(rewards={"exact": math.nan}, verdict=infra_verdict("no disk"))
    broken = replace(groups[0], scores=(groups[0].scores[0], infra, infra))
    found = values(completed(policy, params, [broken], exact={}, entropy={}), "entropy")
    assert [math.isnan(value) for value in found] == [False, True, True]


def test_learned_reward_is_above_0_for_answers_that_parse(
    policy, params, groups, reward_model
):
    """The softplus of what the model says of the problem and the answer alone."""
    texts = ["1 + 1", "1 +", "'" + "a" * 60 + "'"]
    answered = replace(
        groups[0],
        scores=tuple(
            replace(score, extracted=text)
            for score, text in zip(groups[0].scores, texts, strict=True)
        ),
    )
    learned = {"checkpoint": reward_model}
    found = completed(policy, params, [answered], exact={}, learned=learned)
    scores, _ = load_reward_model(reward_model).scores(
        [(groups[0].problem, text) for text in texts]
    )
    assert np.abs(scores[[0, 2]]).min() > 0.01
    expected = [math.log1p(math.exp(scores[0])), 0.0, math.log1p(math.exp(scores[2]))]
    assert values(found, "learned") == pytest.approx(expected, rel=1e-5)
    extra = [score.extra for score in found[0].scores]
    assert [row["learned/invalid"] for row in extra] == [0.0, 1.0, 0.0]
    assert [row["learned/cut"] for row in extra] == [0.0, 0.0, 1.0]


def test_policy_is_refused_as_a_reward_model(policy, params, groups):
    learned = {"checkpoint": "builtin:output_prediction_base"}
    with pytest.raises(ValueError, match=r"rewards\.learned\.checkpoint: .* no reward"):
        completed(policy, params, groups, exact={}, learned=learned)


def test_gate_opens_for_rewards_of_either_machine(policy, params, groups):
    found = completed(
        policy, params, groups, exact={"gate": "entropy", "gate_at": -1.0},
        entropy={"gate": "exact"},
    )  # fmt: skip
    assert values(found, "exact") == [0.0] * 9  # no row is so sure
    counted = [value != 0.0 for value in values(found, "entropy")]
    assert counted == [False, True, False] * 3
