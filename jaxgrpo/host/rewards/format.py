"""1 for an answer in the asked-for form, whether right or wrong."""

from dataclasses import dataclass

from jaxgrpo.host.judge.error_classes import NO_ANSWER
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.fences import parses
from jaxgrpo.host.judge.literal import NOT_ONE_LITERAL
from jaxgrpo.host.judge.votes import PROGRAM_KINDS
from jaxgrpo.host.records import Completion, ProblemKind, Verdict
from jaxgrpo.host.rewards.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How strict the form is."""

    only_block: bool = True
    """A program has to be the only code block of its answer. False takes any program
    that the scorer's extraction finds, if it parses. Literals have to be alone
    always."""


def format(judged: Judged, settings: Settings) -> list[float]:
    """Returns 1.0 for each answer that is found and well-formed, else 0.0.

        r = [exactly one literal]               for problems that ask for a value
        r = [exactly one code block, parsing]   for problems that ask for a program

    Thinking is skipped. It is a reward for the form alone: give it a small weight, or a
    text that is well-formed and wrong will do.

    Args:
      judged: Its texts and verdicts decide.
      settings: How strict the form is.

    Reference:
      DeepSeek-AI, DeepSeek-R1, 2025, section 2.2.2 (format rewards),
      https://arxiv.org/abs/2501.12948; the code's form is CodeScaler's, 2026,
      https://arxiv.org/abs/2602.17684. Differs from the first: no tags around thinking
      are asked for, an unfinished thinking is no answer.
    """
    kind = judged.problem.kind
    return [
        1.0 if _is_well_formed(kind, completion, verdict, settings) else 0.0
        for completion, verdict in zip(judged.completions, judged.verdicts, strict=True)
    ]


def _is_well_formed(
    kind: ProblemKind, completion: Completion, verdict: Verdict, settings: Settings
) -> bool:
    if kind not in PROGRAM_KINDS:
        return verdict.error_class not in (NOT_ONE_LITERAL, *NO_ANSWER)
    if settings.only_block:
        found = extract(
            completion.text,
            "one_block",
            stop=completion.stop,
            in_thought=completion.in_thought,
        )
        return not found.error_class
    return bool(verdict.extracted.strip()) and parses(verdict.extracted)
