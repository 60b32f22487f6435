"""Asking a model to write down the run of a program before it says what comes of it.

In one stage the answer follows what is written. In two, a first completion is the run
alone, and a second prompt shows it and asks for nothing but the answer.
"""

from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.prompt_variants import second_stage_variant
from jaxgrpo.host.records import Completion

_NOTES = (
    "Follow the run step by step: whenever a variable gets a value, write a line of "
    "the form `name = value`."
)
TRACE_TEXT = f"{_NOTES} Write the answer last, alone on its line."
"""What a prompt adds that asks for the values and then for the answer."""
FIRST_STAGE_TEXT = f"{_NOTES} Write these lines only; the answer is asked for later."
"""What a prompt adds that asks for the values alone."""
_SECOND_STAGE_TEXT = (
    "These notes were made of the run, and may be wrong:\n\n{notes}\n\nNow answer as "
    "asked, and write nothing else."
)


def notes_of(first: Completion) -> str:
    """Returns what a completion of the first stage noted, its thinking left out.

    Args:
      first: May have been cut off, and then ends where it does.

    Returns:
      Empty where there is nothing, and no second stage either.
    """
    found = extract(first.text, "raw", in_thought=first.in_thought)
    return found.answer.strip()


def second_stage(notes: str) -> tuple[str, str]:
    """Returns the name of a prompt of the second stage, and what it adds.

    Args:
      notes: What the model wrote in the first.
    """
    return second_stage_variant(notes), _SECOND_STAGE_TEXT.format(notes=notes)
