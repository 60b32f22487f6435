"""A function of the user's own, called in a process of its own.

`host/functions` has the process; here is only what a configuration says about it. It
computes whatever it likes, so it has no formula.

Reference:
  The two conventions: reward functions of TRL's GRPOTrainer,
  https://huggingface.co/docs/trl/grpo_trainer, and verl's `compute_score`,
  https://verl.readthedocs.io/en/latest/preparation/reward_function.html. Departures:
  docs/rewards.md.
"""

from jaxgrpo.host.functions.settings import FunctionSettings as Settings

__all__ = ["Settings"]
