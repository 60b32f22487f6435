"""Rollouts that the engine drew, as the arrays of an update."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.records import FINISH_REASONS, Prompts, Rollouts
from jaxgrpo.device.sampling.constraint import ConstraintTables
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN, row_keys, run_key
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.engine import Engine, Request


def drawn_rollouts(
    architecture: Architecture,
    params: Any,
    prompts: Prompts,
    settings: SamplerSettings,
    temperature: float = 1.0,
    *,
    budgets: Sequence[int] = (),
    constraints: ConstraintTables | None = None,
) -> Rollouts:
    """G completions of each prompt, prompt-major; NumPy arrays, but for their keys.

    Given constraints, all are drawn under the first one.
    """
    token_ids_PS, lengths_P = np.asarray(prompts.token_ids_PS), prompts.lengths_P
    P, G, T = len(lengths_P), settings.group_size, settings.max_new_tokens
    constraint_id = int(constraints is not None)
    requests = [
        Request(
            token_ids=token_ids_PS[p, : int(lengths_P[p])],
            problem_hash=(p, 0),
            budgets=budgets,
            constraint_id=constraint_id,
        )
        for p in range(P)
    ]
    groups = Engine(architecture, settings, constraints=constraints).sample(
        params, requests, run_key=run_key(0, PURPOSE_TRAIN, 0), temperature=temperature
    )
    ordered = sorted(groups, key=lambda group: group.index)
    samples = [sample for group in ordered for sample in group.samples]
    completion_BT = np.zeros((P * G, T), np.int32)
    logprobs_BT = np.zeros((P * G, T), np.float32)
    for row, sample in enumerate(samples):
        completion_BT[row, : len(sample.token_ids)] = sample.token_ids
        logprobs_BT[row, : len(sample.token_ids)] = sample.logprobs
    prompt_index_B = np.repeat(np.arange(P, dtype=np.int32), G)
    hash_B2 = np.stack([prompt_index_B, 0 * prompt_index_B], axis=1).astype(np.uint32)
    sample_B = jnp.asarray(np.tile(np.arange(G), P))
    arrays = Rollouts(
        completion_BT=completion_BT,  # type: ignore[arg-type]
        lengths_B=np.array([len(s.token_ids) for s in samples], np.int32),  # type: ignore[arg-type]
        budget_B=np.array([s.budget for s in samples], np.int32),  # type: ignore[arg-type]
        sampler_logprobs_BT=logprobs_BT,  # type: ignore[arg-type]
        finish_reason_B=np.array(  # type: ignore[arg-type]
            [FINISH_REASONS.index(s.finish_reason or "") for s in samples], np.int32
        ),
        prompt_index_B=prompt_index_B,  # type: ignore[arg-type]
        group_id_B=prompt_index_B,  # type: ignore[arg-type]
        row_key_B=row_keys(
            0, PURPOSE_TRAIN, 0, jnp.asarray(hash_B2), 0 * sample_B, sample_B
        ),
        policy_step_B=np.zeros(P * G, np.int32),  # type: ignore[arg-type]
        constraint_id_B=np.full(P * G, constraint_id, np.int32),  # type: ignore[arg-type]
        is_real_B=np.ones(P * G, bool),  # type: ignore[arg-type]
    )
    if settings.choice.num_kept:
        kept_BTk = np.zeros((P * G, T, settings.choice.num_kept), np.int32)
        for row, sample in enumerate(samples):
            kept_BTk[row, : len(sample.kept_ids)] = sample.kept_ids
        arrays = arrays._replace(kept_BTk=kept_BTk)  # type: ignore[arg-type]
    return arrays
