"""The training tail: training problems still answered wrong, which come more often.

Not the tail of the evaluations, whose problems nothing learns from.
"""

from collections.abc import Sequence
from typing import Any

from jaxgrpo.host.harvest import right_share
from jaxgrpo.host.records import Group, Problem


class TrainingTail:
    """Gives each step a share of problems from the tail, one after the other.

        taken = min(round(share * problems of the step), problems of the tail)

    They come in the order of the tail, and from its beginning again when all had their
    turn; no problem comes twice in a step.

    Args:
      source: All training problems; read only to continue from a saved state.
      share: Of a step's problems; 0 gives none.
    """

    def __init__(self, source: Sequence[Problem], *, share: float):
        self._source = source
        self._share = share
        self._problems: list[Problem] | None = None
        self._position = 0
        self._taken: set[str] = set()

    @property
    def problem_ids(self) -> list[str]:
        """Problems of the tail; none before it is defined."""
        return [problem.id for problem in self._problems or ()]

    def define(self, problems: Sequence[Problem]) -> None:
        """Takes these as the tail from now on.

        Args:
          problems: No two of one id.
        """
        self._problems, self._position = list(problems), 0

    def take(self, number: int) -> list[Problem]:
        """The next problems of the tail for a step.

        Args:
          number: Problems of the step, these included.
        """
        tail = self._problems or []
        wanted = min(int(self._share * number + 0.5), len(tail))
        places = [(self._position + i) % len(tail) for i in range(wanted)]
        self._position = (self._position + wanted) % max(len(tail), 1)
        self._taken = {tail[place].id for place in places}
        return [tail[place] for place in places]

    def metrics(self, groups: Sequence[Group]) -> dict[str, float]:
        """Problems of the step from the tail, and how often they were answered right.

        Nothing before there is a tail, or where it has no share.

        Args:
          groups: The step's, after scoring.
        """
        if self._problems is None or not self._share:
            return {}
        own = [group for group in groups if group.problem.id in self._taken]
        return {
            "distill/from_tail": float(len(self._taken)),
            "distill/tail_exact_match": right_share(own),
        }

    def state_dict(self) -> dict[str, Any]:
        """The tail's problems, by id, and whose turn it is."""
        ids = None if self._problems is None else self.problem_ids
        return {"problem_ids": ids, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state.

        Raises:
          ValueError: A problem of the tail is not among the training problems.
        """
        ids, self._position = state["problem_ids"], state["position"]
        if not ids:
            self._problems = ids
            return
        wanted = set(ids)
        found = {
            problem.id: problem for problem in self._source if problem.id in wanted
        }
        for name in ids:
            if name not in found:
                raise ValueError(
                    f"problem {name!r} of the saved training tail is not among the "
                    "training problems. Continue with the data of the saved run."
                )
        self._problems = [found[name] for name in ids]
