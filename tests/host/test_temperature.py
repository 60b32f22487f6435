"""Stages of the temperature: jumps, at times that the diversity says."""

import json
import math

import pytest

from jaxgrpo.host.temperature import TemperatureStages, calibrated_stage


def stages(**changes) -> TemperatureStages:
    settings = {"target": 0.6, "slope": 0.001, "window": 4, "min_stage_steps": 6}
    return TemperatureStages([0.6, 1.2, 1.8], **(settings | changes))


def temperatures(controller: TemperatureStages, diversities) -> list[float]:
    seen = []
    for diversity in diversities:
        controller.observe(diversity)
        seen.append(controller.current)
    return seen


def test_one_temperature_is_constant():
    constant = TemperatureStages([1.0])
    assert set(temperatures(constant, [0.9 - 0.05 * i for i in range(15)])) == {1.0}


def test_a_decline_below_the_target_begins_the_next_stage_once():
    declining = [0.7 - 0.03 * i for i in range(8)]
    assert temperatures(stages(), declining) == [0.6] * 5 + [1.2] * 3


def test_steady_or_high_diversity_changes_nothing():
    assert set(temperatures(stages(), [0.5] * 20)) == {0.6}
    assert set(temperatures(stages(), [0.99 - 0.01 * i for i in range(20)])) == {0.6}


def test_no_stage_is_shorter_than_allowed_and_the_last_stays():
    declining = [0.5 - 0.01 * i for i in range(30)]
    seen = temperatures(stages(), declining)
    assert seen == [0.6] * 5 + [1.2] * 6 + [1.8] * 19


def test_a_step_without_a_measurement_is_left_out():
    controller = stages()
    before = controller.state_dict()
    controller.observe(math.nan)
    assert controller.state_dict() == before


def test_a_saved_stage_goes_on():
    declining = [0.7 - 0.03 * i for i in range(12)]
    whole, first, second = stages(), stages(), stages()
    expected = temperatures(whole, declining)
    begun = temperatures(first, declining[:4])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert begun + temperatures(second, declining[4:]) == expected


@pytest.mark.parametrize(
    ("diversities", "stage"),
    [([0.7, 0.8], 0), ([0.5, 0.8], 1), ([0.5, 0.6], 1)],
)
def test_calibration_takes_the_lowest_that_is_enough(diversities, stage):
    assert calibrated_stage([0.6, 1.2], diversities, 0.68) == stage


def test_diversity_that_could_not_be_measured_sets_no_stage():
    with pytest.raises(ValueError, match="none has 4 tokens"):
        calibrated_stage([0.6, 1.2], [math.nan, math.nan], 0.68)
