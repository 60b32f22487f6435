"""Extremes of an update, against NumPy on the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.objective.presets import resolve_objective
from jaxgrpo.device.update_metrics import (
    advantage_metrics,
    over_updates,
    ratio_extremes,
    sampler_extremes,
)

LOGPROBS = np.log([[0.5, 0.9, 0.2, 0.7], [0.3, 0.3, 0.6, 0.1], [0.5, 0.5, 0.5, 0.5]])
RATIOS = np.array([[1.5, 1.0, 0.5, 9.0], [1.1, 0.7, 9.0, 9.0], [9.0] * 4])
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
ADVANTAGES = np.array([[1.0] * 4, [-1.0] * 4, [1.0] * 4])


def arrays(*values):
    return [jnp.asarray(v, bool if v.dtype == bool else jnp.float32) for v in values]


def numbers(metrics):
    return {name: pytest.approx(float(v), rel=1e-5) for name, v in metrics.items()}


def test_extremes_of_ratios_and_the_most_clipped_completion():
    objective = resolve_objective("grpo", clip_low=0.2, clip_high=0.2)
    found = ratio_extremes(
        objective, *arrays(LOGPROBS, LOGPROBS - np.log(RATIOS), ADVANTAGES, MASK)
    )
    # Row 0 has A > 0: one of its three tokens is above 1.2. Row 1 has A < 0: one of its
    # two is below 0.8. The masked nines count nowhere.
    assert numbers(found) == {
        "ratio/min": 0.5,
        "ratio/max": 1.5,
        "clip_ratio/low_min": 0.0,
        "clip_ratio/high_max": 1 / 3,
    }


def test_other_surrogates_have_ratios_only():
    found = ratio_extremes(
        resolve_objective("cispo"), *arrays(LOGPROBS, LOGPROBS, ADVANTAGES, MASK)
    )
    assert numbers(found) == {"ratio/min": 1.0, "ratio/max": 1.0}


@pytest.mark.parametrize("correction", ["none", "token_truncate", "sequence_mask"])
def test_extremes_of_sampler_weights(correction):
    parts = {} if correction == "none" else {"correction": correction}
    objective = resolve_objective("grpo", **parts)
    found = sampler_extremes(
        objective, *arrays(LOGPROBS, LOGPROBS - np.log(RATIOS), MASK)
    )
    gaps = np.abs(np.log(RATIOS))[MASK]
    raw = RATIOS[MASK]
    if correction == "sequence_mask":
        raw = np.array([1.5 * 0.5, 1.1 * 0.7])
    name = "sampling/importance_sampling_ratio"
    expected = {
        "sampling/sampling_logp_difference/max": gaps.max(),
        f"{name}_raw/min": raw.min(),
        f"{name}_raw/max": raw.max(),
    }
    if parts:
        low, high = objective.correction_min, objective.correction_max
        applied = np.clip(raw, low, high)
        if correction == "sequence_mask":
            applied = np.where((raw >= low) & (raw <= high), raw, 0.0)
        expected |= {f"{name}/min": applied.min(), f"{name}/max": applied.max()}
    assert numbers(found) == expected


def test_advantages_of_real_rows_only():
    found = advantage_metrics(*arrays(np.array([2.0, -1.0, 7.0]),
                                      np.array([True, True, False])))  # fmt: skip
    assert numbers(found) == {
        "advantages/mean": 0.5, "advantages/abs_mean": 1.5, "advantages/max": 2.0,
        "advantages/min": -1.0,
    }  # fmt: skip


def test_a_batch_without_tokens_has_finite_metrics():
    nothing = np.zeros_like(MASK)
    objective = resolve_objective("grpo", correction="token_truncate")
    found = ratio_extremes(objective, *arrays(LOGPROBS, LOGPROBS, ADVANTAGES, nothing))
    found |= sampler_extremes(objective, *arrays(LOGPROBS, LOGPROBS, nothing))
    found |= advantage_metrics(*arrays(np.ones(3), np.zeros(3, bool)))
    assert jax.tree.all(jax.tree.map(lambda x: bool(jnp.isfinite(x)), found))
    assert float(found["ratio/max"]) == 1.0 and float(found["advantages/max"]) == 0.0


def test_several_updates_give_means_extremes_and_a_count():
    stacked = {
        name: jnp.array([1.0, 2.0, 6.0])
        for name in ("loss", "ratio/min", "ratio/max", "clip_ratio/low_min",
                     "clip_ratio/high_max", "update_skipped")
    }  # fmt: skip
    assert numbers(over_updates(stacked)) == {
        "loss": 3.0, "ratio/min": 1.0, "ratio/max": 6.0, "clip_ratio/low_min": 1.0,
        "clip_ratio/high_max": 6.0, "update_skipped": 9.0,
    }  # fmt: skip
