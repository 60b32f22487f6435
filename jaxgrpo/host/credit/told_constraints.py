"""The constraints of a problem told in its prompt, as the paper does while it samples.

Only prompts that are trained on tell them: they come from the reference, which nobody
has who asks a trained model.
"""

from dataclasses import replace

from jaxgrpo.host.credit.blame import Blaming, asked_constraints
from jaxgrpo.host.credit.constraints import Constraint
from jaxgrpo.host.credit.user_functions import UserFunctionError
from jaxgrpo.host.records import Problem

HEADING = "Keep to this:"


def with_constraints(problem: Problem, how: Blaming) -> Problem:
    """Returns a problem whose prompt ends with its constraints; itself without any.

    Args:
      problem: With its reference.
      how: Constraints are found.

    Raises:
      ValueError: A function of the user's fails; in one line.
    """
    try:
        constraints = asked_constraints(problem, how)
    except UserFunctionError as error:
        raise ValueError(f"credit.extractor: problem {problem.id!r}: {error}") from None
    except (SyntaxError, ValueError, RecursionError):
        return problem  # Its programs are not held against the reference either.
    if not constraints:
        return problem
    return replace(problem, prompt=f"{problem.prompt}\n\n{told(constraints)}")


def told(constraints: list[Constraint]) -> str:
    r"""Returns constraints as a prompt tells them.

    Args:
      constraints: At least one.

    Example:
      >>> from jaxgrpo.host.credit.constraints import constraints_of, features_of
      >>> reference = features_of("def f(x): return x")
      >>> told(constraints_of(reference, ["imports", "recursion"]))
      'Keep to this:\n- Import nothing.\n- Do not use recursion.'
    """
    return "\n".join([HEADING, *(f"- {one.sentence}" for one in constraints)])
