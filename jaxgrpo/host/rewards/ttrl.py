"""TTRL: the group's majority stands in for the right answer."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxgrpo.host.answers import Answer, decided_answers
from jaxgrpo.host.rewards.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How programs are compared."""

    num_inputs: int = 8
    """Inputs of the problem that programs are run on, to see which do the same."""

    def __post_init__(self) -> None:
        if self.num_inputs < 1:
            raise ValueError(f"num_inputs {self.num_inputs}. Set it to 1 or more.")


def ttrl(judged: Judged, settings: Settings) -> list[float]:
    """Returns 1.0 for each completion that answers as most of the group do, else 0.0.

        label = the most frequent answer (the earliest of those, where several are)
        r_i   = [answer_i == label]

    What is no answer has no vote: failing programs never win, however many there are.
    Where nobody answers all get 0. No true label is looked at.

    Args:
      judged: The completions of one group. Rows whose verdict is INFRA have no vote,
        and abstain.
      settings: How programs are compared.

    Returns:
      Each 0 or 1, or NaN to abstain.

    Reference:
      Zuo et al., TTRL: Test-Time Reinforcement Learning, 2025,
      https://arxiv.org/abs/2504.16084. Differs from it: the group that is trained on
      also votes (there 64 completions vote and 32 of them are trained on), and
      programs are equal if their execution signatures are: the outputs on the
      problem's first inputs (our reading for code).
    """
    given = decided_answers(judged, settings.num_inputs)
    label = majority(list(given.values()))
    return [
        float(given[row] is not None and given[row] == label)
        if row in given
        else math.nan
        for row in range(len(judged.verdicts))
    ]


def columns(judged: Judged, settings: Settings) -> list[Mapping[str, float]]:
    """Returns how good the label is; the source's metrics.

    `majority_ratio` is the share of the group that gave the label's answer,
    `label_accuracy` 1 if that answer is right, `reward_accuracy` 1 if the completion's
    reward is what its verdict says, and `ground_truth_ratio` 1 if it is right.

    Args:
      judged: The completions of one group. Here verdicts are looked at.
      settings: How programs are compared.
    """
    given = decided_answers(judged, settings.num_inputs)
    label = majority(list(given.values()))
    supporters = [row for row, one in given.items() if one is not None and one == label]
    is_right = [verdict.is_correct for verdict in judged.verdicts]
    of_group = {
        "majority_ratio": len(supporters) / max(len(given), 1),
        "label_accuracy": float(any(is_right[row] for row in supporters)),
    }
    return [
        of_group
        | {
            "reward_accuracy": float((row in supporters) == is_right[row]),
            "ground_truth_ratio": float(is_right[row]),
        }
        if row in given
        else {}
        for row in range(len(judged.verdicts))
    ]


def majority(given: Sequence[Answer]) -> Answer:
    """Returns the most frequent answer, or None if there is no answer.

    Args:
      given: Of the completions of one group; None is no answer and has no vote.

    Example:
      >>> majority(["b", "a", "a", "b", None, None, None])
      'b'
    """
    votes = Counter(one for one in given if one is not None)
    # Counted in the order of the first vote, which `most_common` keeps between equals.
    return votes.most_common(1)[0][0] if votes else None
