"""Truncated completions that were not wrong keep their tokens from being blamed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxgrpo.host.judge.error_classes import NO_ANSWER
from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Completion, Group, Score
from jaxgrpo.host.regroup import Turn
from jaxgrpo.host.regroup.liveness import total_reward

CONDITIONS = ("non_incorrect", "correct", "incorrect", "any")


class TruncationMask:
    """Sets the advantage of some truncated completions to 0.

        A_i <- A_i (1 - [cut off at L_max and condition and not repeating and u < p])

    The completion stays in its group's mean and spread. It repeats if its last m
    tokens are the m before them. u is uniform in [0, 1), one draw a completion.

    Conditions: `non_incorrect`, not judged wrong: it has a positive reward, or was cut
    off before there was an answer to judge; `correct`: the verdict is OK; `incorrect`:
    judged wrong, and not rewarded for anything; `any`.

    Args:
      probability: p.
      condition: One of CONDITIONS.
      repeat_tokens: m.
      seed: Of the run.

    Reference:
      MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777, conditional truncation
      masking; p of 0.1, m of 128.
      Differs from it: its texts disagree on the second condition, which is a choice
      here. What "non-incorrect" means is our reading.
    """

    name = "truncation_mask"

    def __init__(
        self, *, probability: float, condition: str, repeat_tokens: int, seed: int
    ):
        assert condition in CONDITIONS
        self._probability = probability
        self._condition = condition
        self._repeat_tokens = repeat_tokens
        self._seed = seed
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups, with factor 0 for completions that are masked."""
        counts: Counter[str] = Counter()
        changed = [self._masked(group, turn, counts) for group in groups]
        num_rows = max(1, sum(len(group.completions) for group in groups))
        names = ("truncated", "repeating", "masked")
        self._metrics = {
            f"truncation_mask/{name}_share": counts[name] / num_rows for name in names
        }
        return changed

    def metrics(self) -> dict[str, float]:
        """Shares of completions that were truncated, repeated and were masked."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """Nothing is remembered between steps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to continue from."""
        del state

    def _masked(self, group: Group, turn: Turn, counts: Counter[str]) -> Group:
        scores = list(group.scores)
        for row, (completion, score) in enumerate(
            zip(group.completions, group.scores, strict=True)
        ):
            # A stored completion had its chance in the step that drew it.
            is_new = completion.policy_step == turn.policy_step
            if completion.finish_reason != "length" or not is_new:
                continue
            counts["truncated"] += 1
            if repeats(completion.token_ids, self._repeat_tokens):
                counts["repeating"] += 1
            elif self._holds(score, turn) and self._draws(completion, turn.step):
                counts["masked"] += 1
                scores[row] = replace(score, advantage_factor=0.0)
        return replace(group, scores=tuple(scores))

    def _holds(self, score: Score, turn: Turn) -> bool:
        is_correct = score.verdict is not None and score.verdict.is_correct
        has_no_answer = score.error_class in NO_ANSWER
        is_rewarded = total_reward(score, turn.weights) > 0
        is_judged_wrong = not (is_correct or has_no_answer or is_rewarded)
        return {
            "any": True,
            "correct": is_correct,
            "incorrect": is_judged_wrong,
            "non_incorrect": not is_judged_wrong,
        }[self._condition]

    def _draws(self, completion: Completion, step: int) -> bool:
        problem = stable_hash(completion.problem_id)
        key = [self._seed, step, *problem, completion.draw, completion.sample]
        return float(np.random.default_rng(key).random()) < self._probability


def repeats(token_ids: Sequence[int] | np.ndarray, number: int) -> bool:
    """Whether the last tokens are the same as those before them.

        o[-m:] = o[-2m:-m]

    Args:
      token_ids: Of a completion.
      number: m. A completion of fewer than 2 m tokens does not repeat.

    Example:
      >>> repeats([7, 1, 2, 1, 2], 2), repeats([1, 2], 2)
      (True, False)
    """
    tokens = np.asarray(token_ids)
    last, before = tokens[-number:], tokens[-2 * number : -number]
    return len(tokens) >= 2 * number and bool(np.array_equal(last, before))
