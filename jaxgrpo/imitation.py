"""Batches of examples for the supervised mode, sorted by length without bias.

Problems come in windows of several batches; within a window they are sorted by
length, cut into batches, and the batches shuffled. Padding shrinks to a few per cent,
few widths are compiled, and every problem of the stream is seen once per epoch.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from jaxgrpo.device.supervised import Examples
from jaxgrpo.host.records import Problem
from jaxgrpo.policy import Policy
from jaxgrpo.problems.lesson import TargetStyle
from jaxgrpo.problems.stream import ProblemStream

WINDOW_BATCHES = 16
"""Batches that are sorted together."""
WIDTH_STEP = 16
"""Widths are multiples of this: few shapes to compile, little padding."""


class ExampleStream(Iterator[Examples]):
    """An endless iterator over batches of examples, with a position.

    Args:
      problems: What to imitate the references of.
      policy: Encodes.
      style: How answers are written.
      share: Of the answers that the style writes in its own way.
      batch_size: Examples of a batch.
      max_prompt_tokens: Longer prompts are left out, and counted.
      seed: Decides the order.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        policy: Policy,
        style: TargetStyle,
        *,
        share: float,
        batch_size: int,
        max_prompt_tokens: int,
        seed: int,
    ):
        self._stream = ProblemStream(
            problems, batch_size=batch_size * WINDOW_BATCHES, seed=seed
        )
        self._policy = policy
        self._style = style
        self._share = share
        self._batch_size = batch_size
        self._max_prompt_tokens = max_prompt_tokens
        self._seed = seed
        self._window = 0
        self._window_start = self._stream.state_dict()
        self._batches: list[Examples] = []
        self._num_used = 0
        self.num_dropped = 0
        """Examples left out so far because their prompt is too long."""
        self.num_tokens = 0
        """Prompt and completion tokens handed out so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __next__(self) -> Examples:
        if self._num_used == len(self._batches):
            self._window_start = self._stream.state_dict()
            self._open_window()
            self._num_used = 0
        self._num_used += 1
        batch = self._batches[self._num_used - 1]
        self.num_tokens += int(np.asarray(batch.lengths_B).sum())
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The position, as JSON can hold it."""
        return {
            "stream": self._window_start,
            "window": self._window,
            "used": self._num_used,
            "dropped": self.num_dropped,
            "tokens": self.num_tokens,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes to a position of a stream made with the same arguments."""
        self._stream.load_state_dict(state["stream"])
        self._window_start = state["stream"]
        self._window = state["window"]
        self._batches, self._num_used = [], 0
        if state["used"]:
            self._window -= 1  # opening the window again counts it again
            self._open_window()
            self._num_used = state["used"]
        self.num_dropped, self.num_tokens = state["dropped"], state["tokens"]

    def close(self) -> None:
        """Releases the iterator."""
        self._stream.close()

    def _open_window(self) -> None:
        examples = [self._example(problem) for problem in next(self._stream)]
        kept = [e for e in examples if e[0] <= self._max_prompt_tokens]
        if not kept:
            raise ValueError(
                f"all {len(examples)} prompts of a window are longer than "
                f"prompt.max_prompt_tokens {self._max_prompt_tokens}. Raise it."
            )
        self.num_dropped += len(examples) - len(kept)
        kept.sort(key=lambda example: len(example[1]))
        parts = [
            kept[start : start + self._batch_size]
            for start in range(0, len(kept), self._batch_size)
        ]
        order = np.random.default_rng((self._seed, self._window)).permutation(
            len(parts)
        )
        self._batches = [padded_examples(parts[i], self._batch_size) for i in order]
        self._window += 1

    def _example(self, problem: Problem) -> tuple[int, np.ndarray]:
        """Length of the prompt, and the ids of prompt and completion."""
        lesson = self._style(problem, self._share)
        prompt_ids = self._policy.encode(lesson.problem, lesson.variant).token_ids
        target_ids = self._policy.tokenizer(lesson.target, add_special_tokens=False)
        end = [self._policy.eos_ids[0]]
        ids = np.concatenate([prompt_ids, target_ids["input_ids"], end])
        return len(prompt_ids), ids.astype(np.int32)


def padded_examples(
    examples: Sequence[tuple[int, np.ndarray]], num_rows: int, *, longest: int = 0
) -> Examples:
    """Rows to imitate, padded on the right; their width is a multiple of WIDTH_STEP.

    Args:
      examples: Length of the prompt, and the ids of prompt and completion, of each.
      num_rows: B; rows that are missing have length 0.
      longest: Tokens that the rows are wide enough for, beyond the examples' own.
    """
    longest = max(longest, *(len(ids) for _, ids in examples))
    width = -(-longest // WIDTH_STEP) * WIDTH_STEP
    token_ids_BS = np.zeros((num_rows, width), np.int32)
    prompt_lengths_B = np.zeros((num_rows,), np.int32)
    lengths_B = np.zeros((num_rows,), np.int32)
    for row, (prompt_length, ids) in enumerate(examples):
        token_ids_BS[row, : len(ids)] = ids
        prompt_lengths_B[row], lengths_B[row] = prompt_length, len(ids)
    return Examples(*map(jnp.asarray, (token_ids_BS, prompt_lengths_B, lengths_B)))
