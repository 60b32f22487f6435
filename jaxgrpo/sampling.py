"""From problems to groups of completions: what the engine is asked, and what it says.

Training, evaluation and `jaxgrpo sample` draw through the same functions, with the same
end tokens, stop strings and truncation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.batching import draws_of
from jaxgrpo.config import Config
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.sampling.choose import Choice
from jaxgrpo.device.sampling.constraint import ConstraintTables
from jaxgrpo.device.sampling.keys import run_key
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.engine import Engine, Request, Sample
from jaxgrpo.host.constraints import (
    compile_constraints,
    parse_constraint,
    vocabulary_of,
)
from jaxgrpo.host.decoding import token_bytes
from jaxgrpo.host.prompts import ends_in_thought, stable_hash
from jaxgrpo.host.records import Completion, Group, Problem, Prompt
from jaxgrpo.host.stop_strings import StopStrings
from jaxgrpo.policy import Policy

_PREFILL_TOKENS = {"cpu": 128}
"""Positions that fill the machine in one program of prefill, by platform."""
_PREFILL_TOKENS_ELSEWHERE = 512


def training_engine(
    config: Config,
    policy: Policy,
    *,
    group_size: int | None = None,
    platform: str | None = None,
) -> Engine:
    """The engine of the training steps.

    Args:
      config: Of a `grpo` run.
      policy: The model.
      group_size: Completions of each prompt; G, if not given.
      platform: As for `build_engine`.

    Raises:
      ValueError: If the configuration does not fit the tokenizer.
    """
    s = config.sampling
    group_size = group_size or s.group_size
    return build_engine(
        config,
        policy,
        group_size=group_size,
        num_slots=s.slots or s.problems_per_step,
        rows_per_slot=min(s.rows_per_problem or group_size, group_size),
        cache_dtype=s.cache_dtype,
        platform=platform,
    )


def build_engine(
    config: Config,
    policy: Policy,
    *,
    group_size: int,
    num_slots: int,
    rows_per_slot: int | None = None,
    is_greedy: bool = False,
    cache_dtype: str = "auto",
    platform: str | None = None,
) -> Engine:
    """An engine with the configured end tokens, stop strings, truncation and budgets.

    Args:
      config: Of the run.
      policy: The model.
      group_size: Completions of each prompt.
      num_slots: Prompts in flight.
      rows_per_slot: Completions of a prompt drawn at a time; all, if not given.
      is_greedy: The likeliest token each time, whatever the truncation.
      cache_dtype: As `sampling.cache_dtype`.
      platform: "cpu", "gpu" or "tpu": that of the devices that will sample; of those
        present, if not given.
    """
    s, platform = config.sampling, platform or jax.default_backend()
    choice = Choice(top_k=s.top_k, top_p=s.top_p, min_p=s.min_p)
    settings = SamplerSettings(
        group_size=group_size,
        num_slots=num_slots,
        rows_per_slot=rows_per_slot or group_size,
        max_prompt_tokens=config.prompt.max_prompt_tokens,
        max_new_tokens=s.max_new_tokens,
        segment_steps=s.segment_tokens,
        eos_ids=policy.eos_ids,
        num_tokens=policy.num_tokens,
        choice=Choice(is_greedy=True) if is_greedy else choice,
        cache_dtype=policy.forward.dtype if cache_dtype == "auto" else cache_dtype,
        prefill_tokens=_PREFILL_TOKENS.get(platform, _PREFILL_TOKENS_ELSEWHERE),
        attends_side_by_side=platform == "gpu",
        gathers_weights=s.gather_weights,
        forward=policy.forward._replace(remat="none"),
    )
    return Engine(
        policy.architecture,
        settings,
        stop_strings(s.stop, policy),
        constraint_tables(config, policy),
    )


def stop_strings(texts: Sequence[str], policy: Policy) -> StopStrings | None:
    """Where to look for texts that end a completion; None without any."""
    return StopStrings(texts, token_bytes(policy.tokenizer)) if texts else None


def constraint_tables(config: Config, policy: Policy) -> ConstraintTables | None:
    """The tables of the configured constraint, which has index 1; None without one.

    Compiled tables are kept in the folder of prepared data.

    Raises:
      ValueError: If the constraint cannot be read or compiled.
    """
    s = config.sampling
    if not s.constraint:
        return None
    constraint = parse_constraint(
        s.constraint, after=s.constraint_after, until=s.constraint_until
    )
    tables = compile_constraints(
        [constraint],
        vocabulary_of(policy.tokenizer, policy.eos_ids),
        num_logits=policy.architecture.vocab_size,
        cache_folder=Path(config.data.cache_dir).expanduser() / "constraints",
    )
    return ConstraintTables(*map(jnp.asarray, tables))


def drawn_groups(
    engine: Engine,
    params: Weights,
    policy: Policy,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    *,
    seed: int,
    purpose: int,
    step: int,
    temperature: float,
    policy_step: int,
    draws: Sequence[int] | None = None,
    budget: int | None = None,
) -> Iterator[tuple[int, Group]]:
    """Groups of completions as they are completed, each with its problem's place.

    Args:
      engine: Draws.
      params: Weights of the policy.
      policy: Decodes.
      problems: One per prompt.
      prompts: What the completions continue.
      seed: With purpose and step, what all random keys derive from (`keys.run_key`).
      purpose: One of the PURPOSE constants.
      step: Training step, or number of the evaluation.
      temperature: Softmax temperature.
      policy_step: Updates the policy has seen; recorded.
      draws: Tells each group from others of its problem and step; if not given, how
        often the problem came before in the list.
      budget: Most tokens of each completion; the engine's own, if not given.
    """
    draws = draws_of(problems) if draws is None else draws
    constraint_id = int(engine.settings.is_constrained)
    budgets = () if budget is None else (budget,) * engine.settings.group_size
    requests = [
        Request(
            token_ids=prompt.token_ids,
            problem_hash=stable_hash(problem.id),
            draw=draw,
            budgets=budgets,
            constraint_id=constraint_id,
        )
        for problem, prompt, draw in zip(problems, prompts, draws, strict=True)
    ]
    drawn = engine.sample(
        params,
        requests,
        run_key=run_key(seed, purpose, step),
        temperature=temperature,
    )
    for group in drawn:
        index = group.index
        completions = [
            replace(
                _completion(policy, engine.stop, prompts[index], sample),
                policy_step=policy_step,
                draw=draws[index],
                sample=number,
                constraint_id=constraint_id,
            )
            for number, sample in enumerate(group.samples)
        ]
        yield (
            index,
            Group(
                problem=problems[index],
                prompts=(prompts[index],),
                completions=tuple(completions),
            ),
        )


def _completion(
    policy: Policy, stop: StopStrings | None, prompt: Prompt, sample: Sample
) -> Completion:
    """What a sample says, apart from which one it is."""
    token_ids = np.array(sample.token_ids, np.int32)
    text, offsets = policy.decode(token_ids)
    assert sample.finish_reason is not None
    stop_text = ""
    if sample.finish_reason == "stop":
        assert stop is not None
        stop_text = stop.found_in(text)
        text, offsets = stop.trimmed(text, offsets)
    return Completion(
        problem_id=prompt.problem_id,
        prompt_variant=prompt.variant,
        token_ids=token_ids,
        text=text,
        token_offsets=offsets,
        finish_reason=sample.finish_reason,
        stop=stop_text,
        in_thought=ends_in_thought(prompt),
        budget=sample.budget,
        sampler_logprobs=np.array(sample.logprobs, np.float32),
        kept_ids=np.stack(sample.kept_ids) if sample.kept_ids else None,
    )
