"""What regroupers keep of groups between steps: no more than an update needs."""

from dataclasses import replace

from jaxgrpo.host.records import Group, Score


def kept_group(group: Group) -> Group:
    """The group without what only the judge and the rewards need.

    Tests, other columns, the results of single tests, the extracted answer (a copy of
    a part of the text) and what rewards logged are left out: they may be large, and
    have had their say in the scores. Texts, offsets and spans stay, which the table of
    rollouts shows, and some methods of credit read.

    Args:
      group: After scoring.
    """
    problem = replace(group.problem, tests=(), hints=(), columns={})
    scores = tuple(map(_kept_score, group.scores))
    return replace(group, problem=problem, scores=scores)


def _kept_score(score: Score) -> Score:
    verdict = score.verdict
    if verdict is not None:
        verdict = replace(verdict, results=(), extracted="", spans=(), detail="")
    return replace(
        score, verdict=verdict, extracted="", extra={}, timings={}, logged={}
    )
