"""Whether a run is long enough for what its methods wait for.

Some methods act only once a problem has come round, or enough groups were seen. A short
run, as when a method is tried out, is warned of; what no length would help is refused.
"""

import math

from jaxgrpo.config import Config


def unreached(config: Config, num_problems: int) -> list[str]:
    """What the run will seldom or never come to, a line each.

    Args:
      config: Of a `grpo` run.
      num_problems: That it draws from.

    Raises:
      ValueError: Stored samples are dropped before their problem comes round again.
    """
    found = [
        _levels(config),
        *(_rounds(config, num_problems) if _is_dealt_evenly(config) else ()),
    ]
    return [text for text in found if text]


def _is_dealt_evenly(config: Config) -> bool:
    """Whether every problem comes once an epoch, and a step has so many of them."""
    return not (
        config.curriculum.order
        or config.dynamic_sampling.max_tries
        or config.distill.at_steps
    )


def _levels(config: Config) -> str:
    table = config.curriculum
    num_groups = config.num_steps * config.sampling.problems_per_step
    if len(table.order) < 2 or table.min_groups < num_groups:
        return ""
    return (
        f"curriculum.min_groups {table.min_groups} is not less than the {num_groups} "
        f"groups of {config.num_steps} steps: no level after the first opens."
    )


def _rounds(config: Config, num_problems: int) -> tuple[str, str]:
    per_step = config.sampling.problems_per_step
    return _failures(config, num_problems, per_step), _replay(
        config, num_problems / per_step
    )


def _failures(config: Config, num_problems: int, per_step: int) -> str:
    most = math.ceil(config.num_steps * per_step / num_problems)
    wanted = config.scaffold.after_failures
    if not config.scaffold.tiers or wanted <= most:
        return ""
    return (
        f"scaffold.after_failures {wanted}: each of the {num_problems} problems comes "
        f"{most} times at most in {config.num_steps} steps: none is asked with a hint."
    )


def _replay(config: Config, epoch_steps: float) -> str:
    """Samples of V = min_stored / G earlier visits, each an epoch after the other."""
    replay = config.replay
    if replay.method != "samples":
        return ""
    visits = math.ceil(replay.min_stored / config.sampling.group_size)
    rounds = f"a problem comes round every {epoch_steps:.0f} steps"
    if visits > 1:
        rounds += (
            f", and replay.min_stored {replay.min_stored} takes {visits} visits of "
            f"{config.sampling.group_size} samples before"
        )
    per_step = config.objective.updates_per_rollout * config.objective.minibatches
    # Problems are shuffled anew in every epoch.
    least, usual = ((v * epoch_steps * per_step) for v in (visits - 1, visits))
    if least > replay.max_staleness:
        raise ValueError(
            f"{rounds}: samples are then at least {least:.0f} updates old, and "
            f"replay.max_staleness {replay.max_staleness} drops them. Raise it, lower "
            "replay.min_stored, or train on fewer problems "
            f"(data.num_{config.data.split})."
        )
    if config.num_steps <= visits * epoch_steps:
        return f"{rounds}: nothing is replayed in {config.num_steps} steps."
    if usual > replay.max_staleness:
        return (
            f"{rounds}: samples are then some {usual:.0f} updates old, and "
            f"replay.max_staleness is {replay.max_staleness}. Few are replayed."
        )
    return ""
