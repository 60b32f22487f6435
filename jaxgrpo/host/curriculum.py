"""A curriculum: which kinds of problems a run is ready for, by how often it is right.

Problems are sorted into levels by one of their tags. At first only the first level is
open; the next one opens when the newest open level is solved often enough. Of the open
levels, those that are neither solved nor hopeless come more often, if asked for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgrpo.host.records import Group, Problem


class Curriculum:
    """Says which problems to take, and learns from groups how its levels are doing.

        p_l <- (1 - rate) p_l + rate * share of correct completions     for each group
        taken with probability max(floor, 4 p_l (1 - p_l))              if weighed

    Args:
      tag: Tag whose value is a problem's level, `output_type` or `difficulty`.
      order: Levels from the first on; problems of other levels are never taken. Empty
        for no curriculum.
      open_at: Share of correct completions at which the next level opens.
      min_groups: Groups of a level that must have been seen before.
      rate: Of the moving average.
      floor: Least probability to take a problem of an open level; 1 takes all.
      seed: Of the run.

    Reference:
      Bengio et al., Curriculum Learning, 2009; the weight p (1 - p) is the variance of
      a right answer, which group advantages are made of (for instance in Florensa et
      al., Reverse Curriculum Generation, 2017, as a band of success rates).
      Differs from it: levels are given, not learnt.
    """

    name = "curriculum"

    def __init__(
        self,
        *,
        tag: str,
        order: Sequence[str],
        open_at: float = 0.7,
        min_groups: int = 32,
        rate: float = 0.05,
        floor: float = 1.0,
        seed: int = 0,
    ):
        self._tag = tag
        self._order = tuple(order)
        self._open_at = open_at
        self._min_groups = min_groups
        self._rate = rate
        self._floor = floor
        self._seed = seed
        self._num_open = 1
        self._num_seen = dict.fromkeys(order, 0)
        self._success = dict.fromkeys(order, 0.0)
        self._num_asked = 0

    @property
    def restriction(self) -> str:
        """What is asked of problems besides, in words; empty without levels."""
        if not self._order:
            return ""
        levels = ", ".join(self._order[: self._num_open])
        return f" and has a tag {self._tag} that is one of: {levels}"

    def is_open(self, problem: Problem) -> bool:
        """Whether problems of this one's level may be taken now.

        Args:
          problem: Any.

        Raises:
          ValueError: If it has no such tag.
        """
        open_levels = self._order[: self._num_open]
        return not self._order or self._level(problem) in open_levels

    def takes(self, problem: Problem) -> bool:
        """Whether to take a problem of an open level: by chance, if they are weighed.

        Args:
          problem: That is open.
        """
        if not self._order:
            return True
        self._num_asked += 1
        level = self._level(problem)
        if self._floor == 1.0 or self._num_seen[level] < self._min_groups:
            return True
        success = self._success[level]
        chance = max(self._floor, 4.0 * success * (1.0 - success))
        return np.random.default_rng([self._seed, self._num_asked]).random() < chance

    def observe(self, groups: Sequence[Group]) -> None:
        """Takes down how often the completions of a step are right.

        Args:
          groups: After scoring, as sampled.
        """
        if not self._order:
            return
        for group in groups:
            verdicts = [s.verdict for s in group.scores if s.verdict is not None]
            flags = [v.is_correct for v in verdicts if v.status != "INFRA"]
            level = self._level(group.problem)
            if not flags or level not in self._success:
                continue
            self._num_seen[level] += 1
            # The first groups count alike: an average over as many as there are.
            rate = max(self._rate, 1.0 / self._num_seen[level])
            self._success[level] += rate * (
                float(np.mean(flags)) - self._success[level]
            )
        newest = self._order[self._num_open - 1]
        is_ready = self._num_seen[newest] >= self._min_groups
        if is_ready and self._success[newest] >= self._open_at:
            self._num_open = min(self._num_open + 1, len(self._order))

    def metrics(self) -> dict[str, float]:
        """Levels that are open, and the success of each; nothing without any."""
        if not self._order:
            return {}
        return {"curriculum/open_levels": float(self._num_open)} | {
            f"curriculum/success/{level}": self._success[level]
            for level in self._order[: self._num_open]
        }

    def state_dict(self) -> dict[str, Any]:
        """Open levels, success and counts."""
        return {
            "num_open": self._num_open,
            "num_seen": dict(self._num_seen),
            "success": dict(self._success),
            "num_asked": self._num_asked,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""
        self._num_open, self._num_asked = state["num_open"], state["num_asked"]
        self._num_seen, self._success = dict(state["num_seen"]), dict(state["success"])

    def _level(self, problem: Problem) -> str:
        if self._tag not in problem.tags:
            raise ValueError(
                f"problem {problem.id!r} has no tag {self._tag!r}, only "
                f"{sorted(problem.tags)}. Set curriculum.tag to one of these."
            )
        return problem.tags[self._tag]
