"""Between the machines: records of the host to arrays of the device, and back."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.device.records import (
    FINISH_REASONS,
    Prompts,
    Rollouts,
    Scored,
    Steps,
)
from jaxgrpo.device.sampling.keys import row_keys
from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Completion, Group, Problem, Prompt, Score


def prompt_arrays(
    prompts: Sequence[Prompt], *, num_prompts: int, num_positions: int
) -> Prompts:
    """Right-padded token ids and lengths.

    Args:
      prompts: At most `num_prompts`; the rest is padded with one-token prompts.
      num_prompts: P.
      num_positions: S; no prompt may be longer.
    """
    token_ids_PS = np.zeros((num_prompts, num_positions), np.int32)
    lengths_P = np.ones((num_prompts,), np.int32)
    for row, prompt in enumerate(prompts):
        length = len(prompt.token_ids)
        assert length <= num_positions, f"{length} tokens in {num_positions} positions"
        token_ids_PS[row, :length] = prompt.token_ids
        lengths_P[row] = length
    return Prompts(jnp.asarray(token_ids_PS), jnp.asarray(lengths_P))


def draws_of(problems: Sequence[Problem]) -> list[int]:
    """How often each problem came before in the list.

    A problem that occurs twice, as at the seam of two epochs, is another draw the
    second time: its completions differ.
    """
    seen: Counter[str] = Counter()
    draws = []
    for problem in problems:
        draws.append(seen[problem.id])
        seen[problem.id] += 1
    return draws


def rows_of_completions(groups: Sequence[Group]) -> np.ndarray:
    """The row of `update_arrays` that holds each completion, group after group.

    Rows are ordered by prompt. Groups stay together, but in a group of several prompt
    variants the completions of one variant come before those of the next.

    Args:
      groups: As given to `update_arrays`.

    Example:
      >>> outputs.advantages_B[rows_of_completions(groups)]  # doctest: +SKIP
    """
    order = np.argsort(_prompt_indices(groups), kind="stable")
    rows = np.empty_like(order)
    rows[order] = np.arange(len(order))
    return rows


def _prompt_indices(groups: Sequence[Group]) -> np.ndarray:
    """Each completion's prompt among all prompts of all groups.

    A problem may stand in two groups; each has prompts of its own.
    """
    indices: list[int] = []
    num_before = 0
    for group in groups:
        place = {prompt.variant: i for i, prompt in enumerate(group.prompts)}
        indices += [num_before + place[c.prompt_variant] for c in group.completions]
        num_before += len(group.prompts)
    return np.array(indices, np.int32)


def is_prompt_major(rollouts: Rollouts, num_prompts: int) -> bool:
    """Whether row b continues prompt b // (B / P): no gather is needed then.

    Args:
      rollouts: From `update_arrays`.
      num_prompts: P.
    """
    index_B = np.asarray(rollouts.prompt_index_B)
    group_size, rest = divmod(len(index_B), num_prompts)
    if rest:
        return False
    return np.array_equal(index_B, np.arange(len(index_B)) // group_size)


def update_arrays(
    groups: Sequence[Group],
    reward_names: Sequence[str],
    *,
    seed: int,
    purpose: int,
    step: int,
    num_prompts: int,
    num_rows: int,
    num_positions: int,
    num_columns: int,
    has_factors: bool = False,
    has_focus: bool = False,
    has_qualities: bool = False,
    num_steps: int = 0,
) -> tuple[Prompts, Rollouts, Scored]:
    """Scored groups as the arrays of an update, rows ordered by prompt.

    `rows_of_completions` says which row is whose.

    Args:
      groups: After scoring and regrouping.
      reward_names: Columns of the rewards, in config order.
      seed: Of the run; with `purpose` and `step` it gives back the rows' keys.
      purpose: As sampled.
      step: As sampled.
      num_prompts: P, at least the prompts of the groups.
      num_rows: B, at least the completions of the groups.
      num_positions: S.
      num_columns: T.
      has_factors: Whether to pass the factors of advantages on, as credit.
      has_focus: Whether to pass on which tokens the blame falls on.
      has_qualities: Whether to pass on the grades of passing completions.
      num_steps: A, at least the steps of any completion; 0 where they have none.

    Returns:
      Prompts, rollouts and rewards; rows that only pad have `is_real_B` False.
    """
    prompts = [prompt for group in groups for prompt in group.prompts]
    rows = rows_of_completions(groups)
    assert len(rows) <= num_rows, f"{len(rows)} completions, {num_rows} rows"
    assert len(prompts) <= num_prompts, f"{len(prompts)} prompts for {num_prompts}"
    arrays = prompt_arrays(
        prompts, num_prompts=num_prompts, num_positions=num_positions
    )
    rollouts = _rollouts(
        groups, rows, num_prompts=num_prompts, num_rows=num_rows,
        num_columns=num_columns, key_of=partial(row_keys, seed, purpose, step),
    )  # fmt: skip
    credit_BT = _factors(groups, rows, (num_rows, num_columns), has_factors)
    scored = Scored(
        rewards_BR=_rewards(groups, rows, reward_names, num_rows),
        credit_BT=credit_BT,
        focus_B2=_focus(groups, rows, num_rows) if has_focus else None,
        steps=_steps(groups, rows, (num_rows, num_steps)) if num_steps else None,
        qualities_B=_qualities(groups, rows, num_rows) if has_qualities else None,
    )
    return arrays, rollouts, scored


def _rollouts(
    groups: Sequence[Group],
    rows: np.ndarray,
    *,
    num_prompts: int,
    num_rows: int,
    num_columns: int,
    key_of: Callable[..., jax.Array],
) -> Rollouts:
    """What was sampled; rows that only pad belong to the last prompt and group."""
    completion_BT = np.zeros((num_rows, num_columns), np.int32)
    logprobs_BT = np.zeros((num_rows, num_columns), np.float32)
    lengths_B, finish_B, policy_step_B, draw_B, sample_B, constraint_id_B, budget_B = (
        np.zeros((num_rows,), np.int32) for _ in range(7)
    )
    prompt_index_B = np.full((num_rows,), num_prompts - 1, np.int32)
    prompt_index_B[rows] = _prompt_indices(groups)
    group_id_B = np.full((num_rows,), num_rows - 1, np.int32)
    hash_B2 = np.zeros((num_rows, 2), np.uint32)
    members = [
        (number, completion)
        for number, group in enumerate(groups)
        for completion in group.completions
    ]
    for row, (number, completion) in zip(rows, members, strict=True):
        _check_completion(completion)
        length = len(completion.token_ids)
        completion_BT[row, :length] = completion.token_ids
        logprobs_BT[row, :length] = completion.sampler_logprobs
        lengths_B[row], budget_B[row] = length, completion.budget
        finish_B[row] = FINISH_REASONS.index(completion.finish_reason)
        policy_step_B[row] = completion.policy_step
        draw_B[row], sample_B[row] = completion.draw, completion.sample
        constraint_id_B[row] = completion.constraint_id
        group_id_B[row] = number
        hash_B2[row] = stable_hash(completion.problem_id)
    return Rollouts(
        completion_BT=jnp.asarray(completion_BT),
        lengths_B=jnp.asarray(lengths_B),
        budget_B=jnp.asarray(budget_B),
        sampler_logprobs_BT=jnp.asarray(logprobs_BT),
        finish_reason_B=jnp.asarray(finish_B),
        prompt_index_B=jnp.asarray(prompt_index_B),
        group_id_B=jnp.asarray(group_id_B),
        row_key_B=key_of(*map(jnp.asarray, (hash_B2, draw_B, sample_B))),
        policy_step_B=jnp.asarray(policy_step_B),
        constraint_id_B=jnp.asarray(constraint_id_B),
        is_real_B=jnp.arange(num_rows) < len(members),
        kept_BTk=_kept_ids(groups, rows, num_rows, num_columns),
    )


def _scores_in(groups: Sequence[Group]) -> list[Score]:
    """Of all completions; every one has a score."""
    for group in groups:
        assert len(group.scores) == len(group.completions), group.problem.id
    return [score for group in groups for score in group.scores]


def _rewards(
    groups: Sequence[Group], rows: np.ndarray, names: Sequence[str], num_rows: int
) -> jax.Array:
    rewards_BR = np.zeros((num_rows, len(names)), np.float32)
    for row, score in zip(rows, _scores_in(groups), strict=True):
        rewards_BR[row] = [score.rewards[name] for name in names]
    return jnp.asarray(rewards_BR)


def _factors(
    groups: Sequence[Group], rows: np.ndarray, shape: tuple[int, int], has_factors: bool
) -> jax.Array | None:
    """Factors of the advantages as credit, [B, T]."""
    factor_B = np.ones(shape[0], np.float32)
    factor_B[rows] = [score.advantage_factor for score in _scores_in(groups)]
    if not has_factors:
        assert (factor_B == 1.0).all(), "factors of advantages would be lost"
        return None
    return jnp.broadcast_to(factor_B[:, None], shape)


def _focus(groups: Sequence[Group], rows: np.ndarray, num_rows: int) -> jax.Array:
    """Tokens that the blame falls on, [B, 2]; equal ends for none."""
    focus_B2 = np.zeros((num_rows, 2), np.int32)
    for row, score in zip(rows, _scores_in(groups), strict=True):
        if score.blame is not None and score.blame.tokens is not None:
            focus_B2[row] = score.blame.tokens
    return jnp.asarray(focus_B2)


def _steps(groups: Sequence[Group], rows: np.ndarray, shape: tuple[int, int]) -> Steps:
    """Rewards and ends of steps, [B, A]; steps that a row lacks end with its last."""
    rewards_BA = np.full(shape, np.nan, np.float32)
    ends_BA = np.zeros(shape, np.int32)
    for row, score in zip(rows, _scores_in(groups), strict=True):
        if score.steps is None:
            continue
        number = len(score.steps.rewards)
        assert number <= shape[1], f"{number} steps for {shape[1]} columns"
        rewards_BA[row, :number] = score.steps.rewards
        ends_BA[row, :number] = score.steps.ends
        ends_BA[row, number:] = max(score.steps.ends, default=0)
    return Steps(jnp.asarray(rewards_BA), jnp.asarray(ends_BA))


def _qualities(groups: Sequence[Group], rows: np.ndarray, num_rows: int) -> jax.Array:
    """Grades of passing rows, [B]: NaN without one, -inf for rows that do not pass."""
    quality_B = np.full(num_rows, -np.inf, np.float32)
    for row, score in zip(rows, _scores_in(groups), strict=True):
        if score.verdict is not None and score.verdict.is_correct:
            quality_B[row] = np.nan if score.quality is None else score.quality
    return jnp.asarray(quality_B)


def _check_completion(completion: Completion) -> None:
    number, length = len(completion.sampler_logprobs), len(completion.token_ids)
    # One log-prob would be broadcast to all tokens, none is not zero.
    assert number == length, (
        f"{number} log-probs for {length} tokens of problem {completion.problem_id!r}"
    )
    assert completion.budget or not completion.constraint_id, (
        f"a completion of problem {completion.problem_id!r} was drawn under a "
        "constraint, but its budget is not known"
    )


def _kept_ids(
    groups: Sequence[Group], place_of: np.ndarray, num_rows: int, num_columns: int
) -> jax.Array | None:
    """The ids that tokens were drawn from, [B, T, k]; None without truncation."""
    completions = [c for group in groups for c in group.completions]
    kept = [c.kept_ids for c in completions if c.kept_ids is not None]
    if not kept:
        return None
    widths = {ids_Tk.shape[1] for ids_Tk in kept}
    assert len(kept) == len(completions) and len(widths) == 1, (
        f"{len(kept)} of {len(completions)} completions are truncated, to {widths} ids"
    )
    kept_BTk = np.zeros((num_rows, num_columns, widths.pop()), np.int32)
    for row, ids_Tk in zip(place_of, kept, strict=True):
        kept_BTk[row, : len(ids_Tk)] = ids_Tk
    return jnp.asarray(kept_BTk)
