"""How large an update is, and what its rows may be: what regrouping can add included.

Programs have fixed shapes, so the largest batch that a configuration can lead to
decides, and what is missing from it is padded.
"""

import math
from typing import NamedTuple

from jaxgrpo.config import Config
from jaxgrpo.host.credit.steps import MAX_STEPS


class UpdateShape(NamedTuple):
    """What fixes the shapes of an update's arrays."""

    num_prompts: int
    """P: prompts of a step, those of hints and of stored groups included."""
    num_rows: int
    """B: completions likewise."""
    has_stored_rows: bool = False
    """Whether completions of earlier policies may be among them."""
    has_factors: bool = False
    """Whether some advantages may be multiplied by a factor of their own."""
    has_focus: bool = False
    """Whether the advantage of some completions may fall on a part of them."""
    has_qualities: bool = False
    """Whether passing completions may be graded."""
    num_steps: int = 0
    """A: steps of a completion at most that have advantages; 0 where none have."""


def update_shape(config: Config) -> UpdateShape:
    """The shape of a run's updates.

    Args:
      config: Of a `grpo` run.
    """
    s, replay, o = config.sampling, config.replay, config.objective
    has_groups_of_their_own = (
        replay.most_replays > 0 and replay.normalization == "split"
    )
    prompts_per_problem = 1 + has_groups_of_their_own + bool(config.scaffold.tiers)
    rows_per_problem = s.group_size
    if replay.most_replays:  # With as many more as cut into equal parts.
        problems = s.problems_per_step // o.minibatches
        unit = o.microbatches // math.gcd(problems, o.microbatches)
        rows_per_problem = -(-(s.group_size + replay.most_replays) // unit) * unit
    return UpdateShape(
        num_prompts=s.problems_per_step * prompts_per_problem,
        num_rows=s.problems_per_step * rows_per_problem,
        has_stored_rows=replay.method != "none",
        has_factors=replay.factor != 1.0 or config.truncation_mask.probability > 0,
        has_focus=config.credit.method == "egca",
        has_qualities=bool(config.redistribution.graders),
        num_steps=MAX_STEPS if config.credit.method == "bilevel" else 0,
    )
