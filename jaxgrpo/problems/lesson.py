"""What the supervised mode shows to a model: a prompt and what to answer."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxgrpo.host.records import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A problem, how it is put, and the completion to imitate."""

    problem: Problem
    target: str
    variant: str = ""
    """Of the prompt: empty for the plain one, `hint-K` for one with a hint."""


TargetStyle = Callable[[Problem, float], Lesson]
"""Makes a lesson of a problem; the number is the share of targets that it writes in
its own way. What is random depends on the problem's id alone."""
