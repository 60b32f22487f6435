"""`jaxgrpo sample`: completions of one prompt, for a person."""

import jax
import jax.numpy as jnp

from jaxgrpo.batching import group_keys, prompt_arrays, sampled_groups
from jaxgrpo.device.sampling.keys import PURPOSE_SAMPLE
from jaxgrpo.device.sampling.sample import sample
from jaxgrpo.host.records import Problem
from jaxgrpo.source import open_source

_WIDTH_STEP = 64
"""Prompt widths are multiples of this, so that other prompts need no new program."""


def sample_text(
    source: str,
    prompt: str,
    *,
    num_samples: int,
    temperature: float,
    max_new_tokens: int,
    seed: int,
) -> list[str]:
    """Completions of one user message.

    Args:
      source: Run folder, checkpoint folder, or `builtin:NAME`.
      prompt: The user's message.
      num_samples: Completions to draw.
      temperature: Softmax temperature; 0 is greedy.
      max_new_tokens: Token budget of each.
      seed: The same seed draws the same completions.

    Raises:
      ValueError: If prompt and budget exceed what the model was made for.
    """
    loaded = open_source(source, [])
    policy = loaded.policy
    problem = Problem(id="prompt", kind="output", prompt=prompt, reference="")
    encoded = policy.encode(problem)
    length, limit = len(encoded.token_ids), policy.architecture.max_positions
    if length + max_new_tokens > limit:
        raise ValueError(
            f"the prompt has {length} tokens and --max-new-tokens is {max_new_tokens}, "
            f"together more than the model's {limit}. Shorten one of them."
        )
    rollouts = sample(
        loaded.params,
        prompt_arrays(
            [encoded],
            num_prompts=1,
            num_positions=-(-length // _WIDTH_STEP) * _WIDTH_STEP,
        ),
        group_keys(
            [problem],
            seed=seed,
            purpose=PURPOSE_SAMPLE,
            step=0,
            num_prompts=1,
            group_size=num_samples,
        ),
        jnp.float32(temperature or 1.0),
        jnp.int32(loaded.step),
        architecture=policy.architecture,
        settings=policy.sampler(
            group_size=num_samples,
            max_new_tokens=max_new_tokens,
            is_greedy=temperature == 0.0,
        ),
    )
    (group,) = sampled_groups(policy, [problem], [encoded], jax.device_get(rollouts))
    return [completion.text for completion in group.completions]
