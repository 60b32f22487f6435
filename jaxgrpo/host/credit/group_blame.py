"""The blame of a group's completions, and the tokens that it falls on."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace

from jaxgrpo.host.credit.blame import Blaming, Standard, blame_of, standard
from jaxgrpo.host.decoding import tokens_of_span
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.judge.votes import PROGRAM_KINDS
from jaxgrpo.host.records import Blame, Completion, Score, Verdict
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.sandbox.levels import SandboxUnavailableError

FAILED = "failed"
"""Finding out failed on a completion: our fault, or a program made to that end."""
BLAME = "blame"
"""Label of the span in scores, and the name of their column that tells the rest."""


def blames_of(
    judged: Judged, judging: JudgeSettings, how: Blaming, *, is_tied: bool = False
) -> list[Blame | None]:
    """Returns the blame of each completion; None where there is none to be found.

    That is so for answers which are no programs, and after an INFRA verdict.

    Args:
      judged: The group; its problem has its tests.
      judging: How programs are found in texts.
      how: Blame is found.
      is_tied: Whether the group's rewards are all equal.
    """
    problem, run = judged.problem, judged.run
    if problem.kind not in PROGRAM_KINDS or run is None:
        return [None] * len(judged.completions)
    is_skipped = is_tied and how.settings.skips_tied
    against = standard(problem, run, how, is_tied=is_skipped)
    pairs = zip(judged.completions, judged.verdicts, strict=True)
    return [
        None
        if verdict.status == "INFRA"
        else _timed(completion, verdict, judging, against)
        for completion, verdict in pairs
    ]


def is_tied(scores: Sequence[Score]) -> bool:
    """Returns whether each reward gave all completions of a group the same.

    Args:
      scores: Of the group.
    """
    rewards = [tuple(score.rewards.values()) for score in scores]
    return all(one == rewards[0] for one in rewards)


def with_blame(score: Score, blame: Blame | None) -> Score:
    """Returns a score that tells where its completion went wrong.

    Args:
      score: Of the completion.
      blame: From `blames_of`.
    """
    if blame is None:
        return score
    told = {
        "mode": blame.mode,
        "fallback": blame.fallback,
        "similarity": round(blame.similarity, 4),
        "broken": list(blame.broken),
        "boundaries": blame.num_boundaries,
        "detail": blame.detail,
    }
    spans = score.spans
    if blame.span is not None:
        spans = (*spans, replace(blame.span, label=BLAME))
    return replace(
        score,
        blame=blame,
        spans=spans,
        extra=score.extra | {BLAME: told},
        timings=score.timings | {BLAME: blame.seconds},
    )


def _timed(
    completion: Completion, verdict: Verdict, judging: JudgeSettings, against: Standard
) -> Blame:
    started_s = time.monotonic()
    try:
        blame = _located(completion, verdict, judging, against)
    except SandboxUnavailableError:
        raise
    except Exception as error:  # Credit must not take the rewards down.
        mode = "correct" if verdict.is_correct else "logic"
        detail = f"{type(error).__name__}: {error}"
        blame = Blame(mode=mode, fallback=FAILED, detail=detail)
    return replace(blame, seconds=time.monotonic() - started_s)


def _located(
    completion: Completion, verdict: Verdict, judging: JudgeSettings, against: Standard
) -> Blame:
    problem = against.problem
    found = extract(
        completion.text,
        judging.rule_of(problem.kind),
        markers=judging.markers,
        stop=completion.stop,
        in_thought=completion.in_thought,
    )
    # Drawn the same whichever worker is asked, and whenever.
    place = completion.policy_step, completion.draw, completion.sample
    seed = against.how.settings.seed
    generator = random.Random(
        f"{seed} {problem.id} {completion.prompt_variant} {place}"
    )
    blame = blame_of(against, found, verdict, generator)
    if blame.span is None:
        return blame
    first, end = tokens_of_span(
        completion.token_offsets, blame.span.start, blame.span.end
    )
    return replace(blame, tokens=(first, end) if end > first else None)
