"""Seconds of the stages of a step, under verl's names, and what was done in them."""

import time

STAGES = (
    "prompt",
    "gen",
    "reward",
    "regroup",
    "update_actor",
    "dump_rollout_generations",
)
"""Of a step of GRPO, in order. All names but `prompt` and `regroup` are verl's. What
methods draw after scoring is drawn and scored in `regroup`."""
_PER_TOKEN = ("gen", "update_actor")


class Stopwatch:
    """Splits the time since it was made into named stages.

    Example:
      >>> watch = Stopwatch()
      >>> watch.lap("gen")
      >>> names = watch.metrics(num_sampled=10, num_tokens=30, num_devices=2)
      >>> [name for name in sorted(names) if "gen" in name]
      ['timing_per_token_ms/gen', 'timing_s/gen']
    """

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._begun

    def lap(self, stage: str) -> None:
        """Ends a stage; the next one begins."""
        now = time.monotonic()
        self._laps[stage] = now - self._last
        self._last = now

    def metrics(
        self,
        *,
        num_sampled: int,
        num_tokens: int,
        num_devices: int,
        num_requested: int = 0,
    ) -> dict[str, float]:
        """The stages' seconds until the last lap, and tokens per second.

        Args:
          num_sampled: Completion tokens of the stage `gen`.
          num_tokens: All tokens of the step, those of the prompts too.
          num_devices: That computed.
          num_requested: Completion tokens that were drawn later in the step.
        """
        total = self._last - self._begun
        metrics = {f"timing_s/{name}": seconds for name, seconds in self._laps.items()}
        metrics |= {
            "timing_s/step": total,
            "perf/time_per_step": total,
            "perf/total_num_tokens": num_tokens,
            "perf/throughput": num_tokens / total / num_devices,
            "perf/tokens_per_s": (num_sampled + num_requested) / total,
        }
        if "gen" in self._laps:
            metrics["perf/sampled_tokens_per_s"] = num_sampled / self._laps["gen"]
        for name in _PER_TOKEN:
            if name in self._laps and num_sampled:
                per_token = 1e3 * self._laps[name] / num_sampled
                metrics[f"timing_per_token_ms/{name}"] = per_token
        return metrics
