"""The repeat curse: completions that end in a loop, or say everything again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxgrpo.host.records import Completion
from jaxgrpo.host.rewards.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What counts as a repetition, and what it costs."""

    tail_tokens: int = 128
    """m: the last m tokens are compared with those before them."""
    ngram_tokens: int = 4
    """Length of the pieces whose repetition is measured."""
    loop_penalty: float = 1.0
    """Taken from a completion that ends in a loop."""
    share_penalty: float = 0.0
    """Taken from every completion, times its repeated share. Code repeats itself for
    good reasons, so nothing is taken unless asked for."""

    def __post_init__(self) -> None:
        for name in ("tail_tokens", "ngram_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} {getattr(self, name)}. Set it to 1 or more tokens."
                )
        for name in ("loop_penalty", "share_penalty"):
            if not getattr(self, name) >= 0:
                raise ValueError(
                    f"{name} {getattr(self, name)} would pay for repetitions. Set it "
                    "to 0 or more."
                )


def repetition(judged: Judged, settings: Settings) -> list[float]:
    """Returns minus what a completion's repetitions cost; 0 without any.

        r = -loop_penalty [ends in a loop] - share_penalty * share

        ends in a loop   the last 2 m tokens have a period of at most m
        share            1 - (distinct n-grams) / (all n-grams)

    With weight 0 nothing is taken, and both are logged all the same.

    Args:
      judged: Its completions' tokens decide, without the end token.
      settings: What counts, and what it costs.

    Reference:
      MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777, for the loop: there the
      last m = 128 tokens equal the m before them. Differs from it: any period up to m
      counts, for a loop of 7 tokens does not come round in 128. Yeo et al.,
      Demystifying Long Chain-of-Thought Reasoning, 2025,
      https://arxiv.org/abs/2502.03373, for a penalty on n-grams that were said before;
      there it is put on the repeating tokens, here on the row.
    """
    return [
        -(settings.loop_penalty * row["loop"] + settings.share_penalty * row["share"])
        for row in columns(judged, settings)
    ]


def columns(judged: Judged, settings: Settings) -> list[Mapping[str, float]]:
    """Returns, for each completion, whether it ends in a loop and its repeated share.

    Args:
      judged: Its completions' tokens decide.
      settings: What counts.
    """
    found = []
    for completion in judged.completions:
        token_ids = _tokens_of_text(completion)
        is_loop = ends_in_loop(token_ids, settings.tail_tokens)
        share = repeated_share(token_ids, settings.ngram_tokens)
        found.append({"loop": float(is_loop), "share": share})
    return found


def ends_in_loop(token_ids: Sequence[int], tail: int) -> bool:
    """Returns whether the last 2 m tokens repeat with a period of at most m.

    Args:
      token_ids: Of a completion.
      tail: m, at least 1.

    Example:
      >>> ends_in_loop([9, 1, 2, 1, 2], 2), ends_in_loop([1, 2, 1, 2, 1], 2)
      (True, True)
      >>> ends_in_loop([1, 2, 3], 2), ends_in_loop([1, 2, 3, 4], 2)
      (False, False)
    """
    if len(token_ids) < 2 * tail:
        return False
    end = list(token_ids[-2 * tail :])
    # The longest border of the end: its smallest period is what the border leaves.
    borders = [0] * len(end)
    length = 0
    for place in range(1, len(end)):
        while length and end[place] != end[length]:
            length = borders[length - 1]
        length += end[place] == end[length]
        borders[place] = length
    return len(end) - borders[-1] <= tail


def repeated_share(token_ids: Sequence[int], size: int) -> float:
    """Returns the share of n-grams that stood there before; 0 for too short texts.

    Args:
      token_ids: Of a completion.
      size: n, at least 1.

    Example:
      >>> repeated_share([1, 2, 1, 2, 1], 2)  # 12 21 12 21
      0.5
    """
    total = len(token_ids) - size + 1
    if total < 1:
        return 0.0
    grams = {tuple(token_ids[start : start + size]) for start in range(total)}
    return 1.0 - len(grams) / total


def _tokens_of_text(completion: Completion) -> list[int]:
    """The tokens before the end token, which belongs to no loop."""
    token_ids = completion.token_ids.tolist()
    return token_ids[:-1] if completion.finish_reason == "eos" else token_ids
