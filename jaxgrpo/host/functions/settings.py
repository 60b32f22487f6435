"""What a configuration says about a function of the user's."""

from dataclasses import dataclass
from typing import Literal

VERL_NAME = "compute_score"
"""What the function is called where verl's style gives no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """Which function, and how it is called."""

    function: str
    """`path/to/file.py:name` or `package.module:name`. What the name stands for can be
    called: a function, an async function, a partial, an object."""
    style: Literal["trl", "verl"] = "trl"
    """`trl` gives a group in one call, by keyword: prompts, completions,
    completion_ids, every column, and what else the function asks for. `verl` gives one
    completion in a call: data_source, solution_str, ground_truth, extra_info."""
    conversational: bool = False
    """Give prompts and completions as lists of messages, as TRL does for conversations;
    without it they are texts."""
    timeout_s: float = 10.0
    """Seconds that one call may take. Then its process is ended, and its completions
    abstain."""

    def __post_init__(self) -> None:
        place, colon, name = self.function.rpartition(":")
        if not (place and name) and not (self.style == "verl" and not colon and name):
            raise ValueError(
                f"function {self.function!r} names no function. Write "
                '"path/to/file.py:name" or "package.module:name".'
            )
        if self.style == "verl" and self.conversational:
            raise ValueError(
                "conversational has no effect with style 'verl', which gives texts. "
                "Remove it."
            )
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s is {self.timeout_s}. Set it above 0.")

    @property
    def place(self) -> str:
        """The file or the module."""
        return self.function.rpartition(":")[0] or self.function

    @property
    def name(self) -> str:
        """What is called in it."""
        _, colon, name = self.function.rpartition(":")
        return name if colon else VERL_NAME
