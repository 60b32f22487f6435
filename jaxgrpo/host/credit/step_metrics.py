"""What a step's completions tell of their predicted steps."""

import math
from collections.abc import Sequence

from jaxgrpo.host.records import Group


def step_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Returns how many steps there are, how many are right, and how many are missing.

    Nothing where no completion has steps, as with uniform credit. Shares of steps are
    of those whose credit is not left out; `credit/without_steps` is the share of the
    completions that have none.

    Args:
      groups: After scoring, before regrouping.
    """
    scores = [score for group in groups for score in group.scores]
    found = [score.steps for score in scores if score.steps is not None]
    if not found:
        return {}
    rewards = [reward for steps in found for reward in steps.rewards]
    kept = [reward for reward in rewards if not math.isnan(reward)]
    num_incomplete = sum(steps.num_missing > 0 for steps in found)
    return {
        "credit/steps": len(rewards) / len(found),
        "credit/step_accuracy": math.fsum(kept) / len(kept),
        "credit/steps_left_out": 1.0 - len(kept) / len(rewards),
        "credit/steps_missing": num_incomplete / len(found),
        "credit/without_steps": 1.0 - len(found) / len(scores),
    }
