"""Credit that needs passes of the policy over its rollouts, before it learns from them.

One call between the arrays of an update and the update. The method is chosen by name;
without one nothing is computed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.batching import is_prompt_major, prompt_arrays, rows_of_completions
from jaxgrpo.config import Config
from jaxgrpo.device.influence import InfluenceSettings, token_influence
from jaxgrpo.device.mesh import placed_like
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.records import Prompts, Rollouts, Scored
from jaxgrpo.device.self_conditioning import (
    SelfConditioningSettings,
    Teachers,
    self_conditioned,
)
from jaxgrpo.host.decoding import tokens_of_span
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.records import Completion, Group, Prompt
from jaxgrpo.host.references import KINDS, RIGHT, WRONG, Route, route_of
from jaxgrpo.policy import Policy

_SHOWN = "reference"
"""Name of the prompts that show a completion."""
_TOO_LONG = "too_long"

Arrays = tuple[Prompts, Rollouts, Scored]


class CreditPass(NamedTuple):
    """What is added to the arrays of an update."""

    scored: Scored
    metrics: dict[str, float]


Compute = Callable[[Weights, Arrays, Sequence[Group], float], CreditPass]
"""From the policy's weights as it learns, the arrays, the groups behind them and the
sampling temperature."""


def credit_pass(config: Config, policy: Policy) -> Compute:
    """Returns what a run adds to the credit of its rollouts.

    Args:
      config: Of a `grpo` run.
      policy: The model.

    Raises:
      ValueError: The model is not made for prompts as long as the method's.
    """
    return PASSES[config.experimental.method](config, policy)


def _nothing(config: Config, policy: Policy) -> Compute:
    return lambda weights, arrays, groups, temperature: CreditPass(arrays[2], {})


def _times(credit_BT: jax.Array | None, factor_BT: jax.Array) -> jax.Array:
    return factor_BT if credit_BT is None else credit_BT * factor_BT


def _oar(config: Config, policy: Policy) -> Compute:
    """OAR: the influence of each token on the answer."""
    e, o = config.experimental, config.objective
    plain = InfluenceSettings(
        num_tokens=policy.num_tokens,
        form=e.form,
        threshold=e.threshold,
        boost=e.boost,
        within_answer=e.within_answer,
        noise=e.noise,
        mask_id=masking_token(policy),
        at_once=e.masked_at_once,
        num_parts=o.minibatches * o.microbatches,
        forward=policy.forward,
        logprob_chunk=o.logprob_chunk,
    )
    judging = _judging(config)

    def compute(
        weights: Weights, arrays: Arrays, groups: Sequence[Group], temperature: float
    ) -> CreditPass:
        prompts, rollouts, scored = arrays
        answers_B2 = answer_tokens(groups, judging, len(rollouts.lengths_B))
        found = token_influence(
            weights,
            prompts,
            rollouts,
            placed_like(jnp.asarray(answers_B2), weights),
            jnp.float32(temperature),
            architecture=policy.architecture,
            settings=plain._replace(
                is_prompt_major=is_prompt_major(rollouts, prompts.lengths_P.shape[0])
            ),
        )
        importances_BT, is_weighed_BT, credit_BT = jax.device_get(found)
        real_B = np.asarray(rollouts.is_real_B)
        has_any_B = is_weighed_BT.any(axis=1)
        credit = _times(scored.credit_BT, found.credit_BT)
        return CreditPass(
            scored._replace(credit_BT=credit),
            {
                "experimental/oar/uniform_share": _mean(~has_any_B[real_B]),
                "experimental/oar/importance_mean": _mean(
                    importances_BT[is_weighed_BT]
                ),
                "experimental/oar/credit_max": float(credit_BT.max()),
            },
        )

    return compute


def masking_token(policy: Policy) -> int:
    """Returns the token that stands for a masked one: padding, or the first end token.

    The families have no mask token of their own.

    Args:
      policy: The model.
    """
    pad_id = policy.tokenizer.pad_token_id
    return pad_id if isinstance(pad_id, int) else policy.eos_ids[0]


def _judging(config: Config) -> JudgeSettings:
    s = config.scorer
    return JudgeSettings(
        extraction=s.extraction,
        literal_extraction=s.literal_extraction,
        markers=Markers(s.answer_opening, s.answer_closing),
    )


def answer_tokens(
    groups: Sequence[Group], judging: JudgeSettings, num_rows: int
) -> np.ndarray:
    """Returns the tokens that wrote each row's answer, int32 [B, 2].

    The first and the one after the last, of the answer that the judge takes from the
    text, without the white space around it; equal where there is none.

    Args:
      groups: As given to `update_arrays`.
      judging: How answers are found.
      num_rows: B.
    """
    answers_B2 = np.zeros((num_rows, 2), np.int32)
    pairs = [
        (group, completion) for group in groups for completion in group.completions
    ]
    for row, (group, completion) in zip(
        rows_of_completions(groups), pairs, strict=True
    ):
        answers_B2[row] = _answer_of(group, completion, judging)
    return answers_B2


def _answer_of(
    group: Group, completion: Completion, judging: JudgeSettings
) -> tuple[int, int]:
    found = extract(
        completion.text,
        judging.rule_of(group.problem.kind, completion.prompt_variant),
        markers=judging.markers,
        stop=completion.stop,
        in_thought=completion.in_thought,
    ).stripped()
    if found.error_class:
        return 0, 0
    return tokens_of_span(completion.token_offsets, found.start, found.end)


def _sc_grpo(config: Config, policy: Policy) -> Compute:
    """SC-GRPO: the policy against itself, shown a completion of the group."""
    e, o = config.experimental, config.objective
    check_reference_length(config, policy)
    plain = SelfConditioningSettings(
        num_tokens=policy.num_tokens,
        scale_floor=e.scale_floor,
        exploration=e.exploration,
        num_parts=o.minibatches * o.microbatches,
        forward=policy.forward,
        logprob_chunk=o.logprob_chunk,
    )

    def compute(
        weights: Weights, arrays: Arrays, groups: Sequence[Group], temperature: float
    ) -> CreditPass:
        prompts, rollouts, scored = arrays
        teachers, metrics = teachers_of(
            groups,
            policy,
            num_rows=len(rollouts.lengths_B),
            num_positions=e.reference_tokens,
            explores=e.exploration > 0,
        )
        found = self_conditioned(
            weights,
            prompts,
            rollouts,
            placed_like(teachers, weights),
            jnp.float32(temperature),
            architecture=policy.architecture,
            settings=plain._replace(
                is_prompt_major=is_prompt_major(rollouts, prompts.lengths_P.shape[0])
            ),
        )
        divergences_BT, scale, credit_BT, _ = jax.device_get(found)
        num_columns = credit_BT.shape[1]
        counts_BT = np.asarray(completion_mask(rollouts.lengths_B, num_columns))
        is_mixed_BT = counts_BT & np.asarray(teachers.is_mixed_B)[:, None]
        return CreditPass(
            scored._replace(
                credit_BT=_times(scored.credit_BT, found.credit_BT),
                added_advantages_B=found.added_advantages_B,
            ),
            metrics
            | {
                "experimental/sc_grpo/divergence_mean": _mean(
                    divergences_BT[is_mixed_BT]
                ),
                "experimental/sc_grpo/scale": float(scale),
                "experimental/sc_grpo/weight_mean": _mean(credit_BT[is_mixed_BT]),
            },
        )

    return compute


def check_reference_length(config: Config, policy: Policy) -> None:
    """Refuses prompts of the teacher that the model was not made for.

    Args:
      config: Of a `grpo` run.
      policy: The model.

    Raises:
      ValueError: Prompt and completion may exceed the model's positions.
    """
    shown = config.experimental.reference_tokens
    new, limit = config.sampling.max_new_tokens, policy.architecture.max_positions
    if shown + new > limit:
        raise ValueError(
            f"experimental.reference_tokens {shown} + sampling.max_new_tokens {new} = "
            f"{shown + new} exceeds the model's {limit} positions. Lower one of them."
        )


def teachers_of(
    groups: Sequence[Group],
    policy: Policy,
    *,
    num_rows: int,
    num_positions: int,
    explores: bool = True,
) -> tuple[Teachers, dict[str, float]]:
    """Returns what the teacher of each row reads, and the shares of the routes.

    Args:
      groups: As given to `update_arrays`.
      policy: Encodes the prompts, by the run's template.
      num_rows: B.
      num_positions: S of the teacher; a group with a longer prompt is plain.
      explores: Whether all-wrong groups have advantages.
    """
    prompts: list[Prompt | None] = []
    kinds: list[str] = []
    per_group: list[str] = []
    for group in groups:
        route = route_of(group.scores)
        if route.kind == "explored" and not explores:
            route = Route("plain", (None,) * len(group.scores))
        shown = _shown(group, route, policy)
        is_long = any(len(p.token_ids) > num_positions for p in shown.values())
        per_group.append(_TOO_LONG if is_long else route.kind)
        kinds += [per_group[-1]] * len(group.scores)
        prompts += [
            None if is_long or row is None else shown[row] for row in route.references
        ]
    rows = rows_of_completions(groups)
    kind_B, is_taught_B = np.full(num_rows, "", object), np.zeros(num_rows, bool)
    kind_B[rows], is_taught_B[rows] = kinds, [p is not None for p in prompts]
    # Rows without a teacher read one token, and nothing comes of it.
    in_order: list[Prompt | None] = [None] * num_rows
    for row, prompt in zip(rows, prompts, strict=True):
        in_order[row] = prompt
    blank = Prompt(problem_id="", text="", token_ids=np.zeros(1, np.int32))
    arrays = prompt_arrays(
        [prompt or blank for prompt in in_order],
        num_prompts=num_rows,
        num_positions=num_positions,
    )
    teachers = Teachers(
        token_ids_BS=arrays.token_ids_PS,
        lengths_B=arrays.lengths_P,
        is_mixed_B=jnp.asarray(is_taught_B & (kind_B == "mixed")),
        is_explored_B=jnp.asarray(is_taught_B & (kind_B == "explored")),
    )
    shares = {
        f"experimental/sc_grpo/{kind}": per_group.count(kind) / max(len(per_group), 1)
        for kind in (*KINDS, _TOO_LONG)
    }
    return teachers, shares


def _shown(group: Group, route: Route, policy: Policy) -> dict[int, Prompt]:
    """The prompt that shows each completion which is a reference."""
    wording = RIGHT if route.kind == "mixed" else WRONG
    return {
        row: policy.encode(
            group.problem, _SHOWN, wording.format(text=group.completions[row].text)
        )
        for row in sorted({row for row in route.references if row is not None})
    }


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if values.size else 0.0


PASSES: Mapping[str, Callable[[Config, Policy], Compute]] = {
    "none": _nothing,
    "oar": _oar,
    "sc_grpo": _sc_grpo,
    "s_trace": _nothing,  # its traces are in the loss
}
"""By the method's name."""
