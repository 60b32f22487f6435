import pytest

from jaxgrpo.config import Config
from jaxgrpo.host.rewards.gate import Gate
from jaxgrpo.reward_setup import reward_gates, reward_specs, reward_weights


def config_of(when: str = "", **tables: object) -> Config:
    schedule = {"shape": "switch", "to": 0.0, "when": when, "reaches": 0.5}
    rewards = {
        "dense": {"kind": "similarity", "schedule": schedule if when else {}},
        "exact": {"gate": "dense", "gate_at": 0.25},
    }
    model = {"checkpoint": "builtin:base"}
    return Config.model_validate({"model": model, "rewards": rewards, **tables})


def test_rewards_keep_their_order():
    rewards = config_of().rewards
    assert [spec.name for spec in reward_specs(rewards)] == ["dense", "exact"]
    assert reward_gates(rewards) == {"exact": Gate(of="dense", at=0.25)}
    assert reward_weights(config_of()).at(0) == {"dense": 1.0, "exact": 1.0}


@pytest.mark.parametrize(
    "when", ["exact_match", "rewards/exact/mean", "eval/pass@4", "user/anything/at/all"]
)
def test_weight_may_wait_for_any_metric_of_the_run(when: str):
    weights = reward_weights(config_of(when, evaluation={"every_steps": 5}))
    assert weights.observe(7, {when: 0.5}) == ["dense"]
    assert weights.at(7) == {"dense": 0.0, "exact": 1.0}


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("exact_mach", "is no metric of the log. Did you mean 'exact_match'?"),
        ("timing_s/step", "depends on the machine"),
        ("eval/exact_match", "is not measured while evaluation.every_steps is 0"),
        ("rewards/other/mean", "is of no reward of the run. There are: dense, exact."),
        (
            "error_class/passd",
            "of no class that the judge gives. Did you mean 'passed'?",
        ),
    ],
)
def test_metric_that_will_not_come_is_refused(when: str, message: str):
    with pytest.raises(ValueError, match=r"rewards\.dense\.schedule\.when") as caught:
        reward_weights(config_of(when))
    assert message in str(caught.value)
