"""1 for a right answer, 0 for every other: the sparse reward."""

from dataclasses import dataclass

from jaxgrpo.host.rewards.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """There is nothing to set."""


def exact(judged: Judged, settings: Settings) -> list[float]:
    """Returns 1.0 for each completion that the judge found right, else 0.0.

        r = [verdict is OK]

    For output prediction this is exact match; for programs, all tests passed.

    Args:
      judged: Its verdicts decide.
      settings: None.

    Reference:
      The verifiable reward of DeepSeek-AI, DeepSeek-R1, 2025, section 2.2.2 (accuracy
      rewards), https://arxiv.org/abs/2501.12948. Differs from it: no format reward is
      added.
    """
    return [1.0 if verdict.is_correct else 0.0 for verdict in judged.verdicts]
