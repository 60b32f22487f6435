"""From the table `scorer` of a configuration to the scorer. Loads no jax."""

from collections.abc import Sequence

from jaxgrpo.config import ScorerConfig
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.scorer import Scorer


def build_scorer(s: ScorerConfig, reward_names: Sequence[str]) -> Scorer:
    """The scorer. Build it before jax is first used."""
    box = s.sandbox
    return Scorer(
        num_workers=s.num_workers,
        rewards=list(reward_names),
        deadline_s=s.deadline_s,
        extraction=s.extraction,
        stops_at_failure=s.stop_at_failure,
        sandbox=SandboxSettings(
            level=box.level,
            minimum_level=box.minimum_level,
            allow_unsafe=box.allow_unsafe,
            cpu_s=box.cpu_s,
            wall_s=box.wall_s,
            memory_bytes=box.memory_mb * 2**20,
            output_bytes=box.output_kb * 2**10,
        ),
    )
