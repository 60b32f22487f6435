"""Dynamic sampling: dead groups are dropped, and others are drawn in their place."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jaxgrpo.host.records import Group
from jaxgrpo.host.regroup import Ask, Turn
from jaxgrpo.host.regroup.liveness import draws_after, group_totals, is_live

_LEAST_LIVE_SHARE = 0.1


class DynamicSampling:
    """Keeps groups whose rewards differ, and draws more until the batch is full.

    A try draws as many groups as are likely to yield the missing ones, judged by the
    share of live groups so far in the step, and at most a batch. After `max_tries` the
    batch stays smaller than it could be: rows that are missing are padding, which no
    mean counts. With `fills_up` dead groups fill it instead. What is live beyond the
    batch is dropped, the last first.

    Args:
      num_groups: Q, groups of a full batch.
      group_size: G.
      max_tries: Times that a step draws more.
      fills_up: Whether dead groups take the places that stay empty.

    Reference:
      Yu et al., DAPO, 2025, https://arxiv.org/abs/2503.14476, equation 11: only prompts
      with 0 < number correct < G are kept, and sampling goes on until a batch is full.
      Differs from it: groups are live by their rewards, whatever these are, and the
      tries are bounded.
    """

    name = "dynamic_sampling"

    def __init__(
        self, *, num_groups: int, group_size: int, max_tries: int, fills_up: bool
    ):
        self._num_groups = num_groups
        self._group_size = group_size
        self._max_tries = max_tries
        self._fills_up = fills_up
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """Live groups only, at most a batch of them; dead ones behind them if asked."""
        seen = list(groups)
        live, dead = _parted(groups, turn)
        num_tries = 0
        while len(live) < self._num_groups and num_tries < self._max_tries:
            num_tries += 1
            drawn = self._draw(seen, live, turn)
            seen += drawn
            more_live, more_dead = _parted(drawn, turn)
            live, dead = live + more_live, dead + more_dead
        batch, surplus = live[: self._num_groups], live[self._num_groups :]
        missing = self._num_groups - len(batch)
        causes = Counter(_cause(group, turn) for group in dead)
        self._metrics = {
            "dynamic_sampling/num_gen_batches": float(1 + num_tries),
            "dynamic_sampling/drawn_groups": float(len(seen)),
            "dynamic_sampling/surplus_groups": float(len(surplus)),
            "dynamic_sampling/missing_groups": float(missing),
            **{
                f"dynamic_sampling/drop_{cause}": float(causes[cause])
                for cause in ("all_wrong", "all_correct", "tied", "abstained")
            },
        }
        return batch + (dead[:missing] if self._fills_up else [])

    def metrics(self) -> dict[str, float]:
        """Tries, and groups drawn, dropped by cause, and missing."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """Nothing is remembered between steps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to continue from."""
        del state

    def _draw(
        self, seen: Sequence[Group], live: Sequence[Group], turn: Turn
    ) -> list[Group]:
        share = max(len(live) / max(len(seen), 1), _LEAST_LIVE_SHARE)
        missing = self._num_groups - len(live)
        number = min(self._num_groups, math.ceil(missing / share))
        free = draws_after(seen)
        asks = []
        for problem in turn.next_problems(number):
            draw = free.get(problem.id, 0)
            free[problem.id] = draw + 1
            asks.append(Ask(problem=problem, draw=draw))
        return turn.draw(asks, self._group_size)


def _parted(groups: Sequence[Group], turn: Turn) -> tuple[list[Group], list[Group]]:
    """Live and dead groups, each in order."""
    live: list[Group] = []
    dead: list[Group] = []
    for group in groups:
        is_alive = is_live(group, turn.weights, is_decoupled=turn.is_decoupled)
        (live if is_alive else dead).append(group)
    return live, dead


def _cause(group: Group, turn: Turn) -> str:
    """Why a group is dead."""
    if not len(group_totals(group, turn.weights)):
        return "abstained"
    flags = {s.verdict.is_correct for s in group.scores if s.verdict is not None}
    if flags == {True}:
        return "all_correct"
    return "all_wrong" if flags == {False} else "tied"
