"""Calls the user's function, in the process that is there for it."""

import inspect
import math
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from jaxgrpo.host.functions.loading import NoFunctionError, described
from jaxgrpo.host.functions.messages import Call, Calls, Returned, TrainerState
from jaxgrpo.host.functions.outcomes import (
    Outcome,
    failed_outcome,
    outcome_of,
    plain_column,
)

Send = Callable[[Returned], None]


class Caller:
    """Knows what a function asks for, and calls it with that.

    Args:
      function: The user's.
      style: Its convention.

    Raises:
      NoFunctionError: It takes arguments without names.
    """

    def __init__(self, function: Callable[..., Any], style: Literal["trl", "verl"]):
        self._function = function
        self._style: Literal["trl", "verl"] = style
        self._parameters = _parameters(function)
        nameless = [
            parameter.name
            for parameter in self._parameters or ()
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        ]
        if nameless:
            raise NoFunctionError(
                f"the function takes {', '.join(nameless)} by position only. Arguments "
                "are given by name; remove the slash from its signature."
            )

    @property
    def is_async(self) -> bool:
        """Whether calls run at the same time."""
        of_object = type(self._function).__dict__.get("__call__")
        return any(map(inspect.iscoroutinefunction, (self._function, of_object)))

    def make(self, calls: Calls, send: Send) -> None:
        """Makes calls, and sends what each gave as soon as it is there.

        Args:
          calls: What to call with.
          send: Takes what a call gave.
        """
        if self.is_async:
            import asyncio  # As slow to load as all the rest here.

            asyncio.run(self._make_together(calls, send))
            return
        # Outside of any event loop: the function may want one of its own.
        for call in calls.calls:
            notes = _Notes(call.num_rows)
            started_s = time.monotonic()
            try:
                result = self._function(
                    **self._arguments(call, calls.trainer_state, notes)
                )
                if inspect.isawaitable(result):
                    result = _run(result)
                outcome = outcome_of(result, self._style, call.num_rows)
            except (Exception, SystemExit) as error:
                outcome = _failure(error, call)
            send(_returned(call, outcome, notes, started_s))

    async def _make_together(self, calls: Calls, send: Send) -> None:
        async def make(call: Call) -> None:
            notes = _Notes(call.num_rows)
            started_s = time.monotonic()
            try:
                arguments = self._arguments(call, calls.trainer_state, notes)
                result = await self._function(**arguments)
                outcome = outcome_of(result, self._style, call.num_rows)
            except (Exception, SystemExit) as error:
                outcome = _failure(error, call)
            send(_returned(call, outcome, notes, started_s))

        import asyncio

        await asyncio.gather(*map(make, calls.calls))

    def _arguments(
        self, call: Call, state: TrainerState, notes: "_Notes"
    ) -> dict[str, object]:
        """What the function accepts of all there is; all, where it takes anything."""
        offered = dict(call.arguments)
        if self._style == "trl":
            offered |= {
                "trainer_state": state,
                "log_extra": notes.log_extra,
                "log_metric": notes.log_metric,
            }
        if self._parameters is None:
            return offered
        kinds = {parameter.kind for parameter in self._parameters}
        names = {parameter.name for parameter in self._parameters}
        absent = [
            parameter.name
            for parameter in self._parameters
            if parameter.default is parameter.empty
            and parameter.kind not in _VARIADIC
            and parameter.name not in offered
        ]
        if absent:
            raise TypeError(
                f"it asks for {', '.join(absent)}, and the problem has no such column. "
                f"There are: {', '.join(sorted(offered))}"
            )
        if inspect.Parameter.VAR_KEYWORD in kinds:
            return offered
        return {name: value for name, value in offered.items() if name in names}


_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


class _Notes:
    """What a function logs during one call."""

    def __init__(self, num_rows: int):
        self._num_rows = num_rows
        self.columns: dict[str, tuple[object, ...]] = {}
        self._numbers: dict[str, list[float]] = {}

    def log_extra(self, column: str, values: Sequence[object]) -> None:
        """Adds a column to the table of rollouts, one value per completion."""
        values = plain_column(values)
        if len(values) != self._num_rows:
            raise ValueError(
                f"log_extra({column!r}) got {len(values)} values for {self._num_rows} "
                "completions"
            )
        self.columns[str(column)] = values

    def log_metric(self, name: str, value: float) -> None:
        """Adds a number to the metrics of the step."""
        self._numbers.setdefault(str(name), []).append(float(value))

    @property
    def metrics(self) -> dict[str, float]:
        """Means of the numbers logged, by name."""
        return {
            name: math.fsum(values) / len(values)
            for name, values in self._numbers.items()
        }


def _run(awaitable: Awaitable[Any]) -> Any:
    import asyncio

    async def awaited() -> Any:
        return await awaitable

    return asyncio.run(awaited())


def _failure(error: BaseException, call: Call) -> Outcome:
    traceback.print_exc()
    return failed_outcome(described(error), call.num_rows)


def _returned(
    call: Call, outcome: Outcome, notes: "_Notes", started_s: float
) -> Returned:
    now_s = time.monotonic()
    return Returned(
        id=call.id,
        values=outcome.values,
        failures=outcome.failures,
        columns={**notes.columns, **outcome.columns},
        metrics=notes.metrics,
        seconds=now_s - started_s,
        at_s=now_s,
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Some functions written in C have none.
        return None
