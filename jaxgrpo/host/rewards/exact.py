"""1 for a right answer, 0 for every other: the sparse reward."""

from jaxgrpo.host.records import Completion, Problem, Verdict


def exact(problem: Problem, completion: Completion, verdict: Verdict) -> float:
    """Returns 1.0 if the judge found the completion right, else 0.0.

        r = [verdict is OK]

    For output prediction this is exact match; for programs, all tests passed.

    Args:
      problem: Not used: the verdict has taken it into account.
      completion: Likewise.
      verdict: The judge's.

    Reference:
      The verifiable reward of DeepSeek-AI, DeepSeek-R1, 2025, section 2.2.2 (accuracy
      rewards), https://arxiv.org/abs/2501.12948. Differs from it: no format reward is
      added.
    """
    return 1.0 if verdict.is_correct else 0.0
