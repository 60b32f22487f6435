"""Seconds of the stages of a step."""

import time


class Stopwatch:
    """Splits the time since it was made into named stages.

    Example:
      >>> watch = Stopwatch()
      >>> watch.lap("sample")
      >>> sorted(watch.metrics(num_tokens=0))[-2:]
      ['timing_s/sample', 'timing_s/step']
    """

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """Ends a stage; the next one begins."""
        now = time.monotonic()
        self._laps[stage] = now - self._last
        self._last = now

    def metrics(self, num_tokens: int) -> dict[str, float]:
        """The stages' seconds, and completion tokens per second.

        Args:
          num_tokens: Completion tokens of the step.
        """
        total = self._last - self._begun
        metrics = {f"timing_s/{name}": seconds for name, seconds in self._laps.items()}
        metrics["timing_s/step"] = total
        metrics["perf/tokens_per_s"] = num_tokens / total
        if "sample" in self._laps:
            metrics["perf/sampled_tokens_per_s"] = num_tokens / self._laps["sample"]
        return metrics
