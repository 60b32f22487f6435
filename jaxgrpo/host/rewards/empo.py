"""EMPO: an answer earns the share of the group that agrees with it."""

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


def empo(judged: Judged, settings: Settings) -> list[float]:
    """Returns the share of the group that gives the same answer, or 0.

        p_c = n_c / G                     of each class c of equal answers
        r_i = p_c(i)                      0 if i gives no answer
        r_i = 0 for the whole group       unless H = -sum_c p_c ln p_c < ln G

    so that a group of all different answers teaches nothing. No label is looked at. The
    policy can always earn more by answering alike, right or wrong: watch lengths,
    entropy and a true pass rate beside it (`[guard]`).

    Args:
      judged: The completions of one group. Rows whose verdict is INFRA are left out,
        and abstain.
      settings: How programs are compared.

    Returns:
      Each in [0, 1], or NaN to abstain.

    Reference:
      Zhang et al., Right Question is Already Half the Answer: Fully Unsupervised LLM
      Reasoning Incentivization, 2025, https://arxiv.org/abs/2504.05812 (EMPO).
      Differs from it: answers are equal if their values are, or for programs if their
      execution signatures are (our reading for code); all that is no answer, failing
      programs among it, makes one class that counts in H and earns nothing.
    """
    given = decided_answers(judged, settings.num_inputs)
    rewards = shares_of_agreement(list(given.values()))
    by_row = dict(zip(given, rewards, strict=True))
    return [by_row.get(row, math.nan) for row in range(len(judged.verdicts))]


def columns(judged: Judged, settings: Settings) -> list[Mapping[str, float]]:
    """Returns, for each completion, the entropy of its group's answers in nats.

    Args:
      judged: The completions of one group.
      settings: How programs are compared.
    """
    given = decided_answers(judged, settings.num_inputs)
    entropy = answer_entropy(list(given.values()))
    return [{"answer_entropy": entropy}] * len(judged.verdicts)


def shares_of_agreement(given: Sequence[Answer]) -> list[float]:
    """Returns EMPO's reward of each answer of a group; None is no answer.

    Args:
      given: Of the completions of one group.

    Example:
      >>> shares_of_agreement(["a", "a", "b", None]), shares_of_agreement(["a", "b"])
      ([0.5, 0.5, 0.25, 0.0], [0.0, 0.0])
    """
    counts = Counter(given)
    # Only all different answers reach ln G, and no rounding may hide that.
    if len(counts) == len(given):
        return [0.0] * len(given)
    return [0.0 if one is None else counts[one] / len(given) for one in given]


def answer_entropy(given: Sequence[Answer]) -> float:
    """Returns the entropy of a group's answers in nats; NaN without any.

    Args:
      given: Of the completions of one group.

    Example:
      >>> round(answer_entropy(list("aaabbc")), 4)
      1.0114
    """
    if not given:
        return math.nan
    shares = [count / len(given) for count in Counter(given).values()]
    return math.fsum(-share * math.log(share) for share in shares)
