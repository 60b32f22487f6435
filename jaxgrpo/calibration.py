"""Which sampling temperature to begin with: the lowest that is diverse enough."""

from collections.abc import Sequence

from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.sampling.keys import PURPOSE_CALIBRATE
from jaxgrpo.drawing import Drawing
from jaxgrpo.host.diversity import NGRAM, diversity_metrics
from jaxgrpo.host.prompts import split_by_length
from jaxgrpo.host.records import Problem
from jaxgrpo.host.temperature import calibrated_stage
from jaxgrpo.sampling import drawn_groups


def diversities_of(
    drawing: Drawing,
    params: Weights,
    problems: Sequence[Problem],
    temperatures: Sequence[float],
) -> list[float]:
    """Diversity of completions at each temperature: mean distinct-4 of the groups.

    Args:
      drawing: Of the run.
      params: Weights of the policy.
      problems: To sample; those whose prompt is too long are left out.
      temperatures: Above 0.

    Raises:
      ValueError: If no prompt fits.
    """
    limit = drawing.config.prompt.max_prompt_tokens
    encode = drawing.policy.encode
    prompts, _ = split_by_length([encode(drawing.asked(p)) for p in problems], limit)
    if not prompts:
        raise ValueError(
            f"none of {len(problems)} prompts for temperature.calibration_problems "
            f"fits in prompt.max_prompt_tokens {limit}. Raise it."
        )
    by_id = {problem.id: problem for problem in problems}
    found = []
    for temperature in temperatures:
        drawn = drawn_groups(
            drawing.engine,
            params,
            drawing.policy,
            [by_id[prompt.problem_id] for prompt in prompts],
            prompts,
            seed=drawing.config.run.seed,
            purpose=PURPOSE_CALIBRATE,
            step=0,
            temperature=temperature,
            policy_step=0,
            budget=drawing.config.sampling.budget_at(0),
        )
        groups = [group for _, group in sorted(drawn, key=lambda pair: pair[0])]
        found.append(diversity_metrics(groups)[f"diversity/distinct_{NGRAM}"])
    return found


def calibrate(drawing: Drawing, params: Weights, problems: Sequence[Problem]) -> str:
    """Sets the stage to begin with, and says what was measured.

    Args:
      drawing: Of the run.
      params: Weights of the policy.
      problems: To sample.
    """
    table = drawing.config.temperature
    temperatures = (drawing.config.sampling.temperature, *table.then)
    diversities = diversities_of(drawing, params, problems, temperatures)
    stage = calibrated_stage(temperatures, diversities, table.target)
    drawing.temperature.start_at(stage)
    measured = ", ".join(
        f"{diversity:.3f} at {temperature:g}"
        for temperature, diversity in zip(temperatures, diversities, strict=True)
    )
    return (
        f"diversity is {measured}; beginning with temperature "
        f"{temperatures[stage]:g} for a target of {table.target:g}."
    )
