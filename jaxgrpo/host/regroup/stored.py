"""What regroupers keep of groups between steps: no more than an update needs."""

from dataclasses import replace

from jaxgrpo.host.records import Group, Score


def kept_group(group: Group) -> Group:
    """The group without what only the judge needs.

    Tests, other columns and the results of single tests are left out: they may be
    large, and have had their say in the scores.

    Args:
      group: After scoring.
    """
    problem = replace(group.problem, tests=(), hints=(), columns={})
    scores = tuple(map(_kept_score, group.scores))
    return replace(group, problem=problem, scores=scores)


def _kept_score(score: Score) -> Score:
    verdict = score.verdict
    if verdict is not None:
        verdict = replace(verdict, results=())
    return replace(score, verdict=verdict, extra={}, timings={})
