"""How a run learns: scored groups to arrays, an update, and its word on each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.assembly import Optimizer, update_settings
from jaxgrpo.batching import is_prompt_major, rows_of_completions, update_arrays
from jaxgrpo.config import Config
from jaxgrpo.credit_passes import Compute, credit_pass
from jaxgrpo.device.mesh import placed_like, replicated_like
from jaxgrpo.device.model.lora import policy_weights
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.device.update import UpdateOutputs, UpdateSettings, update
from jaxgrpo.engine import Engine
from jaxgrpo.host.quality import quality_metrics
from jaxgrpo.host.records import Group
from jaxgrpo.policy import Policy
from jaxgrpo.update_shape import update_shape


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What fixes the updates of a run."""

    config: Config
    policy: Policy
    optimizer: Optimizer
    settings: UpdateSettings
    constraints: Any
    """Tables that completions were sampled under; None without any."""
    credit_pass: Compute
    """Credit that needs the policy itself (`[experimental]`)."""

    def updated(
        self,
        state: TrainState,
        step: int,
        groups: Sequence[Group],
        *,
        weights: Mapping[str, float],
        temperature: float,
    ) -> tuple[TrainState, dict[str, float], UpdateOutputs]:
        """The state after learning from scored groups; metrics, values per completion.

        The values stand in the order of the groups' completions.

        Args:
          state: Donated.
          step: Steps made before.
          groups: After regrouping.
          weights: Factor of each reward in this step, in config order.
          temperature: Of the sampling.
        """
        config, o, shape = self.config, self.config.objective, update_shape(self.config)
        batch = update_arrays(
            groups,
            list(weights),
            seed=config.run.seed,
            purpose=PURPOSE_TRAIN,
            step=step,
            num_prompts=shape.num_prompts,
            num_rows=shape.num_rows,
            num_positions=config.prompt.max_prompt_tokens,
            num_columns=config.sampling.max_new_tokens,
            has_factors=shape.has_factors,
            has_focus=shape.has_focus,
            has_qualities=shape.has_qualities,
            num_steps=shape.num_steps,
        )
        updates_made = step * o.updates_per_rollout * o.minibatches
        learning_rate = self.optimizer.learning_rate_at(updates_made)
        is_plain = is_prompt_major(batch[1], shape.num_prompts)
        prompts, rollouts, scored = placed_like(batch, state.params)
        scored, found = self.credit_pass(
            policy_weights(state), (prompts, rollouts, scored), groups, temperature
        )
        if shape.has_qualities:
            found |= quality_metrics(groups)
        state, metrics, outputs = update(
            state,
            prompts,
            rollouts,
            scored,
            jnp.float32(temperature),
            replicated_like(self.constraints, state.params),
            np.array(list(weights.values()), np.float32),
            architecture=self.policy.architecture,
            optimizer=self.optimizer.transformation,
            settings=self.settings._replace(is_prompt_major=is_plain),
        )
        rows = rows_of_completions(groups)
        metrics, outputs = jax.device_get((metrics, outputs))
        outputs = jax.tree.map(lambda values: values[rows], outputs)
        numbers = {name: float(value) for name, value in metrics.items()}
        return state, numbers | found | {"learning_rate": learning_rate}, outputs


def build_learning(
    config: Config, policy: Policy, optimizer: Optimizer, engine: Engine
) -> Learning:
    """What fixes the updates of a run.

    Args:
      config: Of a `grpo` run.
      policy: The model.
      optimizer: Of what is trained.
      engine: What draws the completions.
    """
    return Learning(
        config=config,
        policy=policy,
        optimizer=optimizer,
        settings=update_settings(config, policy),
        constraints=engine.constraints,
        credit_pass=credit_pass(config, policy),
    )
