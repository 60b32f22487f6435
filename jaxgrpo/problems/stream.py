"""Batches of problems in random order, with a position that can be saved."""

from collections.abc import Iterator, Sequence
from typing import Any, Self, cast

import grain

from jaxgrpo.host.records import Problem


class ProblemStream(Iterator[tuple[Problem, ...]]):
    """An endless iterator over batches of problems.

    Every epoch is a new shuffle of all problems. Epochs follow each other without a
    gap: a batch may hold the last problems of one and the first of the next. The same
    arguments give the same batches, and a restored position continues exactly.

    Args:
      problems: What to draw from; read on demand.
      batch_size: Problems of a batch.
      seed: Decides the order, in [0, 2^32).

    Example:
      >>> stream = ProblemStream(problems, batch_size=64, seed=0)  # doctest: +SKIP
      >>> position = stream.state_dict()  # doctest: +SKIP
      >>> batch = next(stream)  # doctest: +SKIP
    """

    def __init__(self, problems: Sequence[Problem], *, batch_size: int, seed: int):
        if not problems:
            raise ValueError(
                "there are no problems to draw from. Take another split, or raise "
                "prompt.max_prompt_tokens if all prompts were too long."
            )
        self._identity = {
            "num_problems": len(problems),
            "batch_size": batch_size,
            "seed": seed,
        }
        source = cast("grain.sources.RandomAccessDataSource[Problem]", problems)
        dataset = (
            grain.MapDataset.source(source)
            .seed(seed)
            .shuffle()
            .repeat()
            # The repetition never ends, so there is no remainder; without this grain
            # counts batches in floating point, which overflows at a batch of one.
            .batch(batch_size, drop_remainder=True, batch_fn=tuple)
        )
        # No threads and no worker processes: reading a problem takes microseconds.
        self._batches = iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=0)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __next__(self) -> tuple[Problem, ...]:
        return next(self._batches)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, as JSON can hold it."""
        return {**self._identity, "position": self._batches.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes to a position of a stream that was made with the same arguments.

        Raises:
          ValueError: The other stream had other arguments.
        """
        identity = {name: state.get(name) for name in self._identity}
        if identity != self._identity:
            raise ValueError(
                f"the saved position belongs to a stream with {identity}, this one has "
                f"{self._identity}. Continue with the data settings of the saved run."
            )
        self._batches.set_state(state["position"])

    def close(self) -> None:
        """Releases the iterator."""
        self._batches.close()
