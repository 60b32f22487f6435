"""What a learned reward model thinks of the program: dense where tests are few.

    r = ln(1 + exp(s))    if the completion has an answer that parses
    r = 0                 otherwise

with s the model's score of the problem and the extracted answer alone. So every valid
program is above every invalid one. It needs a model, and is computed on the device:
`jaxgrpo/device/reward_model.py`; `jaxgrpo train-reward` makes one.

Reference:
  CodeScaler, 2026, https://arxiv.org/abs/2602.17684.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which model judges."""

    checkpoint: str
    """Run of `jaxgrpo train-reward`, or a checkpoint of one label in Hugging Face
    layout. It brings its own tokenizer."""

    def __post_init__(self) -> None:
        """Raises ValueError where there is no checkpoint."""
        if not self.checkpoint:
            raise ValueError(
                "checkpoint is empty. Name a run of `jaxgrpo train-reward`."
            )
