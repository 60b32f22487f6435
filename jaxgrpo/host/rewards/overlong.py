"""A soft punishment of completions that come close to the length limit."""

from dataclasses import dataclass

from jaxgrpo.host.rewards.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the punishment begins and ends."""

    max_tokens: int = 20480
    """Length, in tokens, from which on the punishment is whole."""
    buffer_tokens: int = 4096
    """Stretch before it over which the punishment grows from 0."""

    def __post_init__(self) -> None:
        if not 1 <= self.buffer_tokens <= self.max_tokens:
            raise ValueError(
                f"buffer_tokens {self.buffer_tokens} with max_tokens "
                f"{self.max_tokens}. Set buffer_tokens between 1 and max_tokens."
            )


def overlong(judged: Judged, settings: Settings) -> list[float]:
    """Returns DAPO's soft punishment of length, between -1 and 0.

        r = 0                             if L <= max - buffer
        r = ((max - buffer) - L) / buffer if max - buffer < L <= max
        r = -1                            if L > max

    with L the tokens of the completion, the end token included.

    Args:
      judged: Its completions' lengths decide.
      settings: Where the punishment begins and ends. Without effect where
        max_tokens - buffer_tokens is not below sampling.max_new_tokens.

    Reference:
      Yu et al., DAPO, 2025, equation 13, https://arxiv.org/abs/2503.14476.
    """
    start = settings.max_tokens - settings.buffer_tokens
    return [
        -min(max(len(completion.token_ids) - start, 0) / settings.buffer_tokens, 1.0)
        for completion in judged.completions
    ]
