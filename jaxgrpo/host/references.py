"""Which completion of its group the policy is shown to judge another by (SC-GRPO)."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from jaxgrpo.host.records import Score

Kind = Literal["mixed", "explored", "plain"]
KINDS: tuple[Kind, ...] = ("mixed", "explored", "plain")
RIGHT = "An answer that was found right:\n\n{text}"
"""What a prompt says before a verified completion. The source has its own words, which
are not published."""
WRONG = "An answer that was found wrong:\n\n{text}"
"""What it says before a failed one."""


class Route(NamedTuple):
    """What is done with a group."""

    kind: Kind
    references: tuple[int | None, ...]
    """For each completion the one that its teacher is shown; None for no teacher."""


def route_of(scores: Sequence[Score]) -> Route:
    """Returns what a group's number of right completions n_c asks for.

        2 .. G - 1   mixed: shown is the first right one, and to that one the second
        0            explored: shown is the first wrong one, to all others
        1, G         plain GRPO

    G counts the completions that were judged. None is its own reference.

    Args:
      scores: Of the group.

    Reference:
      SC-GRPO, 2026, https://arxiv.org/abs/2606.18810. Which one is shown is left open
      there.
    """
    judged = [
        (row, score.verdict.is_correct)
        for row, score in enumerate(scores)
        if score.verdict is not None and score.verdict.status != "INFRA"
    ]
    right = [row for row, is_right in judged if is_right]
    if 2 <= len(right) < len(judged):
        first, second = right[:2]
        shown = [second if row == first else first for row in range(len(scores))]
        return Route("mixed", tuple(shown))
    if judged and not right:
        first = judged[0][0]
        others = {row for row, _ in judged} - {first}
        return Route(
            "explored",
            tuple(first if row in others else None for row in range(len(scores))),
        )
    return Route("plain", (None,) * len(scores))
