"""Names of the ways to ask a problem, as rollouts keep them.

    (empty)            the plain prompt
    hint-K             with the K-th hint, from 1
    trace              asks for the values of variables first, then for the answer
    two_stage-trace    asks for these values alone
    two_stage-CHECKSUM shows values that the model wrote so, and asks for the answer

The same name and problem mean the same prompt, in every step of a run.
"""

import hashlib

HINT = "hint-"
TRACE = "trace"
FIRST_STAGE = "two_stage-trace"
_SECOND_STAGE = "two_stage-"


def hint_variant(level: int) -> str:
    """Returns the name of the prompt with a hint.

    Args:
      level: Of the hint, from 1.
    """
    return f"{HINT}{level}"


def hint_level(variant: str) -> int:
    """Returns which hint a prompt shows, from 1; 0 if it is another kind of prompt.

    Args:
      variant: Its name.

    Example:
      >>> hint_level("hint-3"), hint_level("trace")
      (3, 0)
    """
    number = variant.removeprefix(HINT)
    is_hint = variant.startswith(HINT) and number.isascii() and number.isdigit()
    return int(number) if is_hint else 0


def second_stage_variant(shown: str) -> str:
    """Returns the name of the prompt that shows a trace.

    Args:
      shown: The trace.

    Example:
      >>> second_stage_variant("x = 1")
      'two_stage-26df36cb'
    """
    digest = hashlib.blake2b(shown.encode("utf-8", "surrogatepass"), digest_size=4)
    return f"{_SECOND_STAGE}{digest.hexdigest()}"
