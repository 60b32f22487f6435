"""How the hints of a tier are laid out: a heading, and its first parts."""

from collections.abc import Sequence

from jaxgrpo.host.records import HintTier

ITEMS = 4
"""Most parts of a tier."""
HEADINGS: dict[HintTier, str] = {
    "knowledge": "Knowledge:",
    "planning": "Plan:",
    "solution": "Solution:",
}


def cumulated(tier: HintTier, parts: Sequence[str]) -> list[str]:
    r"""Returns the hints of a tier: level l shows its first l parts.

    Args:
      tier: Gives the heading.
      parts: A line or more each.

    Example:
      >>> cumulated("planning", ["- Sort.", "- Return."])
      ['Plan:\n- Sort.', 'Plan:\n- Sort.\n- Return.']
    """
    return [
        "\n".join([HEADINGS[tier], *parts[:level]])
        for level in range(1, len(parts) + 1)
    ]


def in_parts(lines: Sequence[str]) -> list[str]:
    r"""Returns lines in at most ITEMS parts of nearly the same number of lines.

    Args:
      lines: Any number.

    Example:
      >>> in_parts(list("abcde"))
      ['a', 'b', 'c', 'd\ne']
    """
    count = min(ITEMS, len(lines))
    cuts = [len(lines) * index // count for index in range(count + 1)] if count else []
    return [
        "\n".join(lines[start:end]) for start, end in zip(cuts, cuts[1:], strict=False)
    ]
