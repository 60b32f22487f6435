"""S-trace in the fused step: which tokens are traced, however the rows are cut."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.device.objective.presets import resolve_objective
from jaxgrpo.device.records import Scored, TrainState
from jaxgrpo.device.update import UpdateSettings, update
from tests.device.test_influence import LENGTHS, NUM_TOKENS, prompts, rollouts

__all__ = ["prompts"]  # a fixture

TRACE = UpdateSettings(
    objective=resolve_objective("grpo", ratio_level="trace", trace_decay=0.9),
    num_tokens=NUM_TOKENS,
    logprob_chunk=8,
    trace_share=0.25,
)
SLOPES = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params),
    lambda updates, state, params=None: (
        jax.tree.map(jnp.zeros_like, updates),
        updates,
    ),
)
"""Moves nothing, and keeps the gradient as its state."""
TO_ZERO = optax.GradientTransformation(
    lambda params: (),
    lambda updates, state, params=None: (jax.tree.map(jnp.negative, params), state),
)
"""Leaves weights of 0: every token is then as likely as any other."""


def size_of(tree: Any) -> float:
    return float(np.sqrt(sum(np.square(leaf).sum() for leaf in jax.tree.leaves(tree))))


@pytest.fixture(scope="module")
def made(tiny, tiny_params, prompts) -> Any:
    """Returns the gradient and the metrics of an update."""

    def made(settings: UpdateSettings) -> tuple[Any, dict[str, float]]:
        params = jax.tree.map(jnp.copy, tiny_params)
        scored = Scored(jnp.array([[1.0], [0.0], [0.0], [1.0]]), None)
        state, metrics, _ = update(
            TrainState(jnp.int32(0), params, SLOPES.init(params), None), prompts,
            rollouts(), scored, jnp.float32(1.0), architecture=tiny, optimizer=SLOPES,
            settings=settings,
        )  # fmt: skip
        return state.opt_state, {name: float(x) for name, x in metrics.items()}

    return made


@pytest.fixture(scope="module")
def whole(made) -> Any:
    return made(TRACE)


def test_parts_trace_the_same_tokens(made, whole):
    (ours, metrics), (theirs, expected) = made(TRACE._replace(microbatches=2)), whole
    for name in ("entropy_threshold", "traced_share"):
        name = f"experimental/s_trace/{name}"
        assert metrics[name] == pytest.approx(expected[name], rel=1e-5)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("minibatches", "microbatches"), [(1, 2), (2, 1)])
def test_later_updates_trace_the_tokens_of_the_first(
    minibatches, microbatches, tiny, tiny_params, prompts
):
    """After the first update all entropies are alike, and above the threshold."""
    params = jax.tree.map(jnp.copy, tiny_params)
    settings = TRACE._replace(
        updates_per_rollout=2, minibatches=minibatches, microbatches=microbatches
    )
    _, metrics, outputs = update(
        TrainState(jnp.int32(0), params, (), None), prompts, rollouts(),
        Scored(jnp.array([[1.0], [0.0], [0.0], [1.0]]), None), jnp.float32(1.0),
        architecture=tiny, optimizer=TO_ZERO, settings=settings,
    )  # fmt: skip
    mask_BT = np.arange(outputs.logprobs_BT.shape[1]) < LENGTHS[:, None]
    entropies_BT = np.asarray(outputs.entropies_BT, np.float64)
    num_traced = int(np.ceil(0.25 * LENGTHS.sum()))
    threshold = np.sort(entropies_BT[mask_BT])[-num_traced]
    assert threshold < np.log(NUM_TOKENS)
    # The trace of each token, written out.
    gains_BT = -np.log(NUM_TOKENS) - np.asarray(outputs.logprobs_BT, np.float64)
    ratios_BT = np.ones(mask_BT.shape)
    for row, end in np.argwhere(mask_BT):
        at = [t for t in range(end + 1) if entropies_BT[row, t] >= threshold]
        powers = [0.9 ** (end - t) for t in at]
        if at:
            ratios_BT[row, end] = np.exp(powers @ gains_BT[row, at] / sum(powers))
    later = ratios_BT[mask_BT]
    share = metrics["experimental/s_trace/traced_share"]
    assert share == pytest.approx(num_traced / LENGTHS.sum())
    assert metrics["ratio/min"] == pytest.approx(min(1.0, later.min()), rel=1e-4)
    assert metrics["ratio/max"] == pytest.approx(max(1.0, later.max()), rel=1e-4)
    # The first minibatch of the first pass alone is learned from by the first policy.
    size = len(LENGTHS) // minibatches
    means = [
        ratios_BT[rows : rows + size][mask_BT[rows : rows + size]].mean()
        for rows in range(0, len(LENGTHS), size)
    ]
    mean = np.mean([1.0, *means[1:], *means])
    assert metrics["ratio/mean"] == pytest.approx(mean, rel=1e-4)


def test_a_share_of_the_tokens_is_traced_and_moves_more_than_itself(made, whole):
    _, metrics = whole
    # The share of the highest, to the token.
    share = np.ceil(0.25 * LENGTHS.sum()) / LENGTHS.sum()
    assert metrics["experimental/s_trace/traced_share"] == pytest.approx(share)
    # One update: every ratio is 1, and yet the gradient is not that of token ratios.
    assert metrics["ratio/min"] == metrics["ratio/max"] == 1.0
    plain, _ = made(TRACE._replace(objective=resolve_objective("grpo")))
    gap = jax.tree.map(jnp.subtract, whole[0], plain)
    assert size_of(gap) > 0.1 * size_of(plain) > 0
