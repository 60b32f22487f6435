"""From the table `scorer` of a configuration to the scorer. Loads no jax."""

from collections.abc import Sequence

from jaxgrpo.config import Config, ScorerConfig
from jaxgrpo.config_credit import blame_settings, step_settings
from jaxgrpo.config_redistribution import quality_settings
from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.credit.steps import StepSettings
from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.quality import QualitySettings
from jaxgrpo.host.rewards import RewardSpec
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.reward_setup import reward_specs


def build_scorer(
    s: ScorerConfig,
    rewards: Sequence[str | RewardSpec],
    *,
    blame: BlameSettings | None = None,
    steps: StepSettings | None = None,
    quality: QualitySettings | None = None,
    num_steps: int = 0,
) -> Scorer:
    """The scorer. Build it before jax is first used.

    Args:
      s: How it judges.
      rewards: As for `Scorer`.
      blame: Likewise.
      steps: Likewise.
      quality: Likewise.
      num_steps: Of the run; 0 where there is none.
    """
    box = s.sandbox
    return Scorer(
        num_workers=s.num_workers,
        rewards=rewards,
        blame=blame,
        steps=steps,
        quality=quality,
        num_steps=num_steps,
        deadline_s=s.deadline_s,
        extraction=s.extraction,
        literal_extraction=s.literal_extraction,
        markers=Markers(s.answer_opening, s.answer_closing),
        stops_at_failure=s.stop_at_failure,
        sandbox=SandboxSettings(
            level=box.level,
            minimum_level=box.minimum_level,
            allow_unsafe=box.allow_unsafe,
            cpu_s=box.cpu_s,
            wall_s=box.wall_s,
            memory_bytes=box.memory_mb * 2**20,
            output_bytes=box.output_kb * 2**10,
            packages=box.packages,
        ),
    )


def training_scorer(config: Config) -> Scorer:
    """The scorer of a `grpo` run. Build it before jax is first used."""
    return build_scorer(
        config.scorer,
        reward_specs(config.rewards),
        blame=blame_settings(config),
        steps=step_settings(config),
        quality=quality_settings(config),
        num_steps=config.run.num_steps,
    )
