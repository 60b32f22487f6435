"""Between the machines: records of the host to arrays of the device, and back."""

from collections.abc import Sequence

import jax
import numpy as np

from jaxgrpo.device.records import FINISH_REASONS, Prompts, Rollouts, Scored
from jaxgrpo.device.sampling.keys import row_keys
from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Completion, Group, Problem, Prompt
from jaxgrpo.policy import Policy


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
    return Prompts(token_ids_PS, lengths_P)


def group_keys(
    problems: Sequence[Problem],
    *,
    seed: int,
    purpose: int,
    step: int,
    num_prompts: int,
    group_size: int,
) -> jax.Array:
    """The random keys of `group_size` rows of each problem, prompt-major."""
    hashes = [stable_hash(problem.id) for problem in problems]
    hashes += [(0, 0)] * (num_prompts - len(problems))
    hash_P2 = np.array(hashes, np.uint32)
    sample_G = np.arange(group_size, dtype=np.int32)
    num_rows = num_prompts * group_size
    return row_keys(
        seed,
        purpose,
        step,
        np.repeat(hash_P2, group_size, axis=0),
        np.zeros((num_rows,), np.int32),
        np.tile(sample_G, num_prompts),
    )


def sampled_groups(
    policy: Policy,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    rollouts: Rollouts,
) -> list[Group]:
    """The completions of each problem, decoded. Rows of padding prompts are left out.

    Args:
      policy: Decodes.
      problems: One per prompt.
      prompts: As given to `prompt_arrays`.
      rollouts: From the sampler, prompt-major.
    """
    host = jax.device_get(rollouts._replace(row_key_B=None))  # type: ignore[arg-type]
    group_size = host.lengths_B.shape[0] // (int(host.prompt_index_B[-1]) + 1)
    groups = []
    for index, (problem, prompt) in enumerate(zip(problems, prompts, strict=True)):
        completions = [
            _completion(policy, problem, prompt, host, index * group_size + sample)
            for sample in range(group_size)
        ]
        groups.append(
            Group(problem=problem, prompts=(prompt,), completions=tuple(completions))
        )
    return groups


def _completion(
    policy: Policy, problem: Problem, prompt: Prompt, host: Rollouts, row: int
) -> Completion:
    length = int(host.lengths_B[row])
    token_ids = np.asarray(host.completion_BT[row, :length])
    text, offsets = policy.decode(token_ids)
    group_size = host.lengths_B.shape[0] // (int(host.prompt_index_B[-1]) + 1)
    return Completion(
        problem_id=problem.id,
        prompt_variant=prompt.variant,
        token_ids=token_ids,
        text=text,
        token_offsets=offsets,
        finish_reason=FINISH_REASONS[int(host.finish_reason_B[row])],
        sampler_logprobs=np.asarray(host.sampler_logprobs_BT[row, :length]),
        policy_step=int(host.policy_step_B[row]),
        sample=row % group_size,
    )


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
) -> tuple[Prompts, Rollouts, Scored]:
    """Scored groups as the arrays of an update, rows ordered by prompt.

    Args:
      groups: After scoring and regrouping.
      reward_names: Columns of the rewards, in config order.
      seed: Of the run; with `purpose` and `step` it gives back the rows' keys.
      purpose: As sampled.
      step: As sampled.
      num_prompts: P, at least the distinct prompts of the groups.
      num_rows: B, at least the completions of the groups.
      num_positions: S.
      num_columns: T.

    Returns:
      Prompts, rollouts and rewards; rows that only pad have `is_real_B` False.
    """
    prompts = [prompt for group in groups for prompt in group.prompts]
    place = {(p.problem_id, p.variant): index for index, p in enumerate(prompts)}
    rows = [
        (place[completion.problem_id, completion.prompt_variant], number, index)
        for number, group in enumerate(groups)
        for index, completion in enumerate(group.completions)
    ]
    rows.sort(key=lambda row: row[0])  # stable: samples stay in order
    assert len(rows) <= num_rows, f"{len(rows)} completions for {num_rows} rows"
    assert len(prompts) <= num_prompts, f"{len(prompts)} prompts for {num_prompts}"
    completion_BT = np.zeros((num_rows, num_columns), np.int32)
    logprobs_BT = np.zeros((num_rows, num_columns), np.float32)
    lengths_B, finish_B, policy_step_B, draw_B, sample_B = (
        np.zeros((num_rows,), np.int32) for _ in range(5)
    )
    prompt_index_B = np.full((num_rows,), num_prompts - 1, np.int32)
    group_id_B = np.full((num_rows,), num_rows - 1, np.int32)
    hash_B2 = np.zeros((num_rows, 2), np.uint32)
    rewards_BR = np.zeros((num_rows, len(reward_names)), np.float32)
    for row, (prompt_index, number, index) in enumerate(rows):
        completion = groups[number].completions[index]
        length = len(completion.token_ids)
        completion_BT[row, :length] = completion.token_ids
        logprobs_BT[row, :length] = completion.sampler_logprobs
        lengths_B[row] = length
        finish_B[row] = FINISH_REASONS.index(completion.finish_reason)
        policy_step_B[row] = completion.policy_step
        draw_B[row], sample_B[row] = completion.draw, completion.sample
        prompt_index_B[row], group_id_B[row] = prompt_index, number
        hash_B2[row] = stable_hash(completion.problem_id)
        score = groups[number].scores[index]
        rewards_BR[row] = [score.rewards[name] for name in reward_names]
    arrays = prompt_arrays(
        prompts, num_prompts=num_prompts, num_positions=num_positions
    )
    rollouts = Rollouts(
        completion_BT=completion_BT,
        lengths_B=lengths_B,
        sampler_logprobs_BT=logprobs_BT,
        finish_reason_B=finish_B,
        prompt_index_B=prompt_index_B,
        group_id_B=group_id_B,
        row_key_B=row_keys(seed, purpose, step, hash_B2, draw_B, sample_B),
        policy_step_B=policy_step_B,
        constraint_id_B=np.zeros((num_rows,), np.int32),
        is_real_B=np.arange(num_rows) < len(rows),
    )
    return arrays, rollouts, Scored(rewards_BR, None)
