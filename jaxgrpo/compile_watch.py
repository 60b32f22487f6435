"""How often jax compiles, and what: a program of the loop is compiled once per shape.

A training step that compiles again is slow without a word. The watch listens to jax's
own compilation events, counts them by program, and says which one exceeded the number
of shapes that it was planned for.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

import jax

_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


class CompileWatch:
    """Counts programs that jax compiles or loads from its disk cache, while open.

    Programs are counted under the name of the jitted function. Events are those of the
    whole process; `take` divides them into spans.

    Args:
      expected: Programs that each function of the loop may have in the spans that are
        taken, by the function's name: the number of its shape buckets.

    Example:
      >>> import jax.numpy as jnp
      >>> @jax.jit
      ... def double(x):
      ...     return 2 * x
      >>> with CompileWatch(expected={"double": 1}) as watch:
      ...     _ = double(jnp.ones(3)), double(jnp.zeros(3))
      ...     watch.take()["perf/compilations"] >= 1, watch.excess()
      ...     _ = double(jnp.ones(4)), watch.take()
      ...     watch.excess()
      (True, [])
      ['program double was compiled for 2 shapes, expected 1']
    """

    def __init__(self, *, expected: Mapping[str, int]) -> None:
        self._expected = dict(expected)
        self._pending: list[tuple[str, float]] = []
        self._taken: Counter[str] = Counter()
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        jax.monitoring.unregister_event_duration_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **about: Any) -> None:
        if event == _COMPILE_EVENT:
            name = str(about.get("fun_name", ""))
            name = name.removeprefix("jit(").removesuffix(")")
            self._pending.append((name, duration_secs))

    def skip(self) -> None:
        """Forgets what was compiled since the last span: it is not the loop's."""
        self._pending.clear()

    def take(self) -> dict[str, float]:
        """Ends a span: its compilations and their seconds, as metrics."""
        span, self._pending = self._pending, []
        self._taken.update(name for name, _ in span)
        return {
            "perf/compilations": float(len(span)),
            "perf/compile_s": sum(duration_s for _, duration_s in span),
        }

    def excess(self) -> list[str]:
        """Functions that have more programs than expected, a line each, once each."""
        lines = []
        for name, limit in self._expected.items():
            if self._taken[name] > limit and name not in self._told:
                self._told.add(name)
                lines.append(
                    f"program {name} was compiled for {self._taken[name]} shapes, "
                    f"expected {limit}"
                )
        return lines

    @property
    def programs(self) -> Mapping[str, int]:
        """Programs by function name, over all spans that were taken."""
        return dict(self._taken)
