"""The rewards of a worker: those it computes, and the processes of the user's own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxgrpo.host.functions.messages import Returned, TrainerState
from jaxgrpo.host.functions.process import FunctionProcess
from jaxgrpo.host.rewards import (
    Columns,
    Reward,
    RewardSpec,
    load_columns,
    load_reward,
)
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.scoring import Earned, earned, failed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """A reward of the host."""

    reward: Reward
    columns: Columns | None


class WorkerRewards:
    """Gives groups what they earn. Close it, or use `with`.

    Functions of the user's are called while the worker computes the other rewards, and
    all at the same time.

    Args:
      specs: Rewards of scope `host` or `process`, in config order.
    """

    def __init__(self, specs: Sequence[RewardSpec]):
        self._names = [spec.name for spec in specs]
        self._computed = {
            spec.name: _Computed(reward=load_reward(spec), columns=load_columns(spec))
            for spec in specs
            if spec.scope == "host"
        }
        self._functions = {
            spec.name: FunctionProcess(spec.settings)
            for spec in specs
            if spec.scope == "process"
        }

    def __enter__(self) -> "WorkerRewards":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def earned(self, judged: Judged, state: TrainerState) -> dict[str, Earned]:
        """Returns what each reward gives a group, by name, in config order.

        Args:
          judged: The group. Of a row whose verdict is INFRA the user's functions are
            told nothing.
          state: How far the run is.
        """
        rows = [i for i, v in enumerate(judged.verdicts) if v.status != "INFRA"]
        completions = [judged.completions[row] for row in rows]
        given: dict[str, Earned] = {}
        begun: list[str] = []
        for name, function in self._functions.items():
            try:
                function.begin(judged.problem, completions, state)
                begun.append(name)
            except (ValueError, OSError) as error:
                given[name] = failed(str(error), len(judged.completions))
        for name, computed in self._computed.items():
            given[name] = earned(computed.reward, judged, computed.columns)
        for name in begun:
            returned = self._functions[name].returned()
            given[name] = _of_function(returned, rows, len(judged.completions))
        return {name: given[name] for name in self._names}

    def take_outputs(self) -> dict[str, str]:
        """Returns what functions have written for the first time, by reward."""
        outputs = {name: f.take_output() for name, f in self._functions.items()}
        return {name: text for name, text in outputs.items() if text}

    def close(self) -> None:
        """Ends the processes."""
        for function in self._functions.values():
            function.close()


def _of_function(
    returned: Sequence[Returned], rows: Sequence[int], num_completions: int
) -> Earned:
    """What calls gave, spread over the rows that they were about."""
    values = [value for call in returned for value in call.values]
    failures = [failure for call in returned for failure in call.failures]
    names = dict.fromkeys(name for call in returned for name in call.columns)
    columns = {
        name: [
            value
            for call in returned
            for value in call.columns.get(name, (None,) * len(call.values))
        ]
        for name in names
    }
    metrics = {name: value for call in returned for name, value in call.metrics.items()}

    def spread(items: Sequence[object], absent: object) -> tuple:
        by_row = dict(zip(rows, items, strict=True))
        return tuple(by_row.get(row, absent) for row in range(num_completions))

    return Earned(
        values=spread(values, math.nan),
        failures=spread(failures, ""),
        seconds=math.fsum(call.seconds for call in returned),
        columns={name: spread(items, None) for name, items in columns.items()},
        metrics=metrics,
    )
