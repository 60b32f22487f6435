"""Frequencies of the rotary embedding, against a slow transcription."""

import math

import numpy as np

from jaxgrpo.device.model.architecture import Llama3RopeScaling
from jaxgrpo.device.model.rope import rotary_frequencies

SCALING = Llama3RopeScaling(8.0, 1.0, 4.0, 8192)  # of Llama 3.1


def slow_frequencies(
    head_width: int, theta: float, scaling: Llama3RopeScaling
) -> list[float]:
    """One frequency at a time, in float64, case by case."""
    result = []
    for pair in range(head_width // 2):
        frequency = 1.0 / theta ** (2.0 * pair / head_width)
        wavelength = 2.0 * math.pi / frequency
        turns = scaling.original_max_positions / wavelength
        if turns < scaling.low_freq_factor:
            frequency /= scaling.factor
        elif turns <= scaling.high_freq_factor:
            share = (turns - scaling.low_freq_factor) / (
                scaling.high_freq_factor - scaling.low_freq_factor
            )
            frequency *= share + (1.0 - share) / scaling.factor
        result.append(frequency)
    return result


def test_scaled_frequencies_equal_the_slow_reference() -> None:
    scaled_X = rotary_frequencies(128, 5e5, SCALING)
    np.testing.assert_allclose(scaled_X, slow_frequencies(128, 5e5, SCALING), rtol=2e-6)


def test_fast_frequencies_stay_and_slow_ones_are_divided() -> None:
    plain_X = np.asarray(rotary_frequencies(128, 5e5))
    ratio_X = np.asarray(rotary_frequencies(128, 5e5, SCALING)) / plain_X
    turns_X = plain_X * 8192 / (2 * math.pi)
    assert (ratio_X[turns_X > 4] == 1).all() and (turns_X > 4).sum() == 29
    np.testing.assert_allclose(ratio_X[turns_X < 1], 1 / 8, rtol=1e-6)
    between_X = ratio_X[(turns_X >= 1) & (turns_X <= 4)]
    assert ((between_X > 1 / 8) & (between_X < 1)).all() and len(between_X) == 6
    assert (np.diff(ratio_X) <= 0).all()
