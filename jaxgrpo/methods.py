"""From the tables of methods to the regroupers of a run."""

from collections.abc import Callable
from functools import partial

from jaxgrpo.config import Config
from jaxgrpo.config_credit import blame_settings
from jaxgrpo.host.credit.blame import blaming
from jaxgrpo.host.credit.told_constraints import with_constraints
from jaxgrpo.host.curriculum import Curriculum
from jaxgrpo.host.records import Problem
from jaxgrpo.host.regroup import Regrouper
from jaxgrpo.host.regroup.dynamic_sampling import DynamicSampling
from jaxgrpo.host.regroup.group_replay import GroupReplay
from jaxgrpo.host.regroup.repo import SampleReplay
from jaxgrpo.host.regroup.scaffold import Scaffold
from jaxgrpo.host.regroup.truncation_mask import TruncationMask
from jaxgrpo.host.temperature import TemperatureStages


def build_regroupers(config: Config) -> tuple[Regrouper, ...]:
    """The regroupers that are turned on, in the order in which they act.

    Args:
      config: Of a `grpo` run.
    """
    return tuple(
        regrouper
        for regrouper in (
            _scaffold(config),
            _dynamic_sampling(config),
            # Before storage: what is spared now is spared when it comes again.
            _truncation_mask(config),
            _replay(config),
        )
        if regrouper is not None
    )


def asked_problem(config: Config) -> Callable[[Problem], Problem]:
    """How training asks a problem: as it is, or with its constraints.

    Args:
      config: Of a `grpo` run.
    """
    settings = blame_settings(config)
    if settings is None or not config.credit.prompt_constraints:
        return lambda problem: problem
    return partial(with_constraints, how=blaming(settings))


def build_curriculum(config: Config) -> Curriculum:
    """Which problems a run takes when.

    Args:
      config: Of a `grpo` run.
    """
    c = config.curriculum
    return Curriculum(
        tag=c.tag,
        order=c.order,
        open_at=c.open_at,
        min_groups=c.min_groups,
        rate=c.rate,
        floor=c.floor,
        seed=config.run.seed,
    )


def build_temperature(config: Config) -> TemperatureStages:
    """The sampling temperature of a run.

    Args:
      config: Of a `grpo` run.
    """
    t = config.temperature
    return TemperatureStages(
        (config.sampling.temperature, *t.then),
        target=t.target,
        slope=t.slope,
        window=t.window,
        min_stage_steps=t.min_stage_steps,
    )


def _scaffold(config: Config) -> Regrouper | None:
    table = config.scaffold
    if not table.tiers:
        return None
    return Scaffold(
        exempt_share=table.exempt_share,
        after_failures=table.after_failures,
        tiers=table.tiers,
        source=table.source,
    )


def _truncation_mask(config: Config) -> Regrouper | None:
    table = config.truncation_mask
    if not table.probability:
        return None
    return TruncationMask(
        probability=table.probability,
        condition=table.condition,
        repeat_tokens=table.repeat_tokens,
        seed=config.run.seed,
    )


def _dynamic_sampling(config: Config) -> Regrouper | None:
    table = config.dynamic_sampling
    if not table.max_tries:
        return None
    return DynamicSampling(
        num_groups=config.sampling.problems_per_step,
        group_size=config.sampling.group_size,
        max_tries=table.max_tries,
        fills_up=table.when_short == "fill",
    )


def _replay(config: Config) -> Regrouper | None:
    r = config.replay
    if r.method == "none":
        return None
    common = {"max_staleness": r.max_staleness, "seed": config.run.seed}
    if r.method == "groups":
        return GroupReplay(capacity=r.capacity, **common)
    return SampleReplay(
        strategy=r.strategy,
        num_replays=r.num_replays,
        min_stored=r.min_stored,
        max_stored=r.max_stored,
        is_mixed=r.normalization == "mixed",
        factor=r.factor,
        **common,
    )
