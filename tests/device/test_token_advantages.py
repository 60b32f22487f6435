"""From rewards to the advantage of every token: each part, and what it leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.objective.advantages import group_advantages
from jaxgrpo.device.objective.credit import intra_advantages
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.records import Rollouts, Scored, Steps
from jaxgrpo.device.token_advantages import (
    AdvantageSettings,
    TokenAdvantages,
    token_advantages,
)

B, T, A = 7, 6, 3
GROUPS = jnp.array([0, 0, 0, 1, 1, 1, 6])
LENGTHS = jnp.array([6, 4, 5, 3, 6, 2, 1])
IS_REAL = jnp.array([True] * 6 + [False])
REWARDS = jnp.array([[1.0], [0.0], [1.0], [1.0], [1.0], [1.0], [0.0]])
WEIGHTS = jnp.ones(1)
_find = jax.jit(token_advantages, static_argnames="settings")


def rollouts() -> Rollouts:
    """Two groups of three, and a row that only pads."""
    return Rollouts(
        completion_BT=jnp.zeros((B, T), jnp.int32),
        lengths_B=LENGTHS,
        budget_B=LENGTHS,
        sampler_logprobs_BT=jnp.zeros((B, T)),
        finish_reason_B=jnp.zeros(B, jnp.int32),
        prompt_index_B=jnp.zeros(B, jnp.int32),
        group_id_B=GROUPS,
        row_key_B=jax.random.split(jax.random.key(0), B),
        policy_step_B=jnp.zeros(B, jnp.int32),
        constraint_id_B=jnp.zeros(B, jnp.int32),
        is_real_B=IS_REAL,
    )


def found(
    settings: AdvantageSettings | None = None, **parts: object
) -> TokenAdvantages:
    scored = Scored(rewards_BR=REWARDS, credit_BT=None)._replace(**parts)
    return _find(rollouts(), scored, WEIGHTS, settings=settings or AdvantageSettings())


def test_uniform_advantages_are_those_of_the_group_at_every_token() -> None:
    plain = found()
    expected_B = group_advantages(REWARDS, GROUPS, is_real_B=IS_REAL)
    np.testing.assert_array_equal(plain.advantages_B, expected_B)
    np.testing.assert_array_equal(
        plain.advantages_BT, np.broadcast_to(expected_B[:, None], (B, T))
    )
    np.testing.assert_array_equal(
        plain.mask_BT, completion_mask(LENGTHS, T) & IS_REAL[:, None]
    )
    assert plain.credit_BT is None
    assert not [n for n in plain.metrics if not n.startswith("advantages/")]


def test_dead_groups_leave_the_mask_where_they_are_to() -> None:
    masked = found(AdvantageSettings(masks_dead_groups=True))
    np.testing.assert_array_equal(masked.mask_BT.any(axis=1), [True] * 3 + [False] * 4)


STEPS = Steps(
    rewards_BA=jnp.array(
        [[1, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, np.nan], [1, 1, np.nan],
         [1, 1, np.nan], [0, 0, 0]], jnp.float32
    ),
    ends_BA=jnp.array(
        [[2, 4, 6], [1, 1, 4], [1, 3, 5], [1, 3, 3], [4, 6, 6], [1, 2, 2], [1, 1, 1]]
    ),
)  # fmt: skip


def test_each_step_has_its_own_advantage_at_its_own_tokens() -> None:
    stepwise = found(steps=STEPS)
    rewards_BA = np.asarray(STEPS.rewards_BA, np.float64)
    intra_BA = np.asarray(intra_advantages(STEPS.rewards_BA))
    expected_BT = np.zeros((B, T))
    for row in range(6):
        start = 0
        for step, end in enumerate(np.asarray(STEPS.ends_BA)[row]):
            peers = rewards_BA[np.asarray(GROUPS) == GROUPS[row], step]
            if np.isnan(peers).all():
                continue
            spread = peers.std(ddof=1)
            inter = (rewards_BA[row, step] - peers.mean()) / (spread + 1e-4)
            inter = inter if spread else 0.0
            expected_BT[row, start:end] = inter + 0.3 * intra_BA[row, step]
            start = max(start, end)
    expected_BT[np.arange(T)[None, :] >= np.asarray(LENGTHS)[:, None]] = 0.0
    np.testing.assert_allclose(stepwise.advantages_BT, expected_BT, atol=1e-5)
    np.testing.assert_allclose(
        stepwise.advantages_B, expected_BT.sum(1) / np.asarray(LENGTHS), atol=1e-5
    )
    # The second group is right in every step: no baseline tells them apart, but the
    # steps keep their push, so that the group is not dead.
    alive = found(AdvantageSettings(masks_dead_groups=True), steps=STEPS)
    np.testing.assert_array_equal(alive.mask_BT.any(axis=1), [True] * 6 + [False])


def test_a_group_without_a_right_step_is_dead() -> None:
    wrong = STEPS._replace(rewards_BA=STEPS.rewards_BA.at[3:6, :2].set(0.0))
    masked = found(AdvantageSettings(masks_dead_groups=True), steps=wrong)
    np.testing.assert_array_equal(masked.mask_BT.any(axis=1), [True] * 3 + [False] * 4)


def test_grades_move_advantage_among_passing_rows() -> None:
    no = -jnp.inf
    graded = found(qualities_B=jnp.array([1.0, no, 0.5, 1.0, 1.0, 1.0, no]))
    a = np.asarray(group_advantages(REWARDS, GROUPS, is_real_B=IS_REAL), np.float64)
    scale = min(2.0, (a[0] + a[2]) / (a[0] + 0.5 * a[2]))
    moved = np.array([scale * a[0], a[1], scale * 0.5 * a[2]])
    np.testing.assert_allclose(graded.advantages_B[:3], moved - moved.mean(), rtol=1e-5)
    np.testing.assert_array_equal(graded.advantages_B[3:], a[3:])
    assert graded.metrics["redistribution/moved_advantage"] == pytest.approx(
        np.abs(graded.advantages_B - a).sum() / 6, rel=1e-5
    )


def test_an_abstaining_row_is_as_if_it_had_not_been_drawn() -> None:
    """Rewards 1, 1, 0 and one that abstains, against the three alone."""
    no = -jnp.inf
    settings = AdvantageSettings(quality_cap=1.0)
    pads_B = jnp.zeros(3)
    rewards_B = jnp.array([1.0, 1.0, 0.0, jnp.nan])
    both = [
        _find(
            rollouts()._replace(
                group_id_B=jnp.array([0, 0, 0, 0, 4, 5, 6]), is_real_B=is_real_B
            ),
            Scored(jnp.concatenate([rewards_B, pads_B])[:, None], None)._replace(
                qualities_B=jnp.array([1.0, 0.5, no, no, no, no, no])
            ),
            WEIGHTS, settings=settings,
        )
        for is_real_B in (jnp.arange(B) < 4, jnp.arange(B) < 3)
    ]  # fmt: skip
    four_B, three_B = (np.asarray(one.advantages_B) for one in both)
    np.testing.assert_allclose(four_B, three_B, atol=1e-6)
    assert four_B[3] == 0 and not np.asarray(both[0].mask_BT)[3].any()
    # The cap bit, so that centring had something to do.
    assert three_B[0] > three_B[1] and abs(three_B.sum()) < 1e-6


def test_nothing_is_added_to_a_group_that_has_advantages() -> None:
    """All wrong, but their pass rates tell the first group apart."""
    rates = jnp.array([[0.5], [0.0], [0.25], [0.0], [0.0], [0.0], [0.0]])
    added_B = jnp.array([0.7, -0.7, 0.0, 0.5, -0.5, 0.0, 0.0])
    more, plain = (
        found(rewards_BR=rates, added_advantages_B=added_B),
        found(rewards_BR=rates),
    )
    np.testing.assert_array_equal(more.advantages_B[:3], plain.advantages_B[:3])
    np.testing.assert_array_equal(more.advantages_B[3:], added_B[3:])


def test_what_is_added_reaches_every_token() -> None:
    added_B = jnp.array([0.0, 0.0, 0.0, 0.5, -0.5, 0.0, 0.0])
    more, plain = found(added_advantages_B=added_B), found()
    np.testing.assert_allclose(
        more.advantages_BT - plain.advantages_BT,
        np.broadcast_to(np.asarray(added_B)[:, None], (B, T)),
        atol=1e-6,
    )
