"""Branches whose test is the negation of the reference's, with the other way round."""

from collections.abc import Iterator, Sequence
from itertools import islice

from jaxgrpo.host.trace.equality import folded
from jaxgrpo.host.trace.matching import Activation
from jaxgrpo.host.trace.rounds import EMPTY_KINDS
from jaxgrpo.host.trace_records import Trace


def negated_branches(
    candidate: Trace,
    reference: Trace,
    pairs: Sequence[tuple[Activation, Activation]],
    matched: dict[int, int],
) -> set[int]:
    """Returns the candidate's branches that are negated and yet do the same.

    The first time that both come to them their outcomes are opposite, and what follows
    is the same: a statement of the same shape with the same effect. A test that is
    wrongly negated is followed by something else; what goes wrong later on is not its
    fault.

    Args:
      candidate: On some input.
      reference: On the same input.
      pairs: Executions of one function of the candidate, with the reference's.
      matched: Indices of the reference's deciding statements for the candidate's.
    """
    are_negated: dict[int, bool] = {}
    for ours, theirs in pairs:
        expected = {
            index: (outcome, following)
            for index, outcome, following in _taken(reference, theirs)
        }
        for index, outcome, following in _taken(candidate, ours):
            if index in are_negated or matched.get(index) not in expected:
                continue
            other = expected[matched[index]]
            are_negated[index] = other == (not outcome, following)
    return {index for index, is_negated in are_negated.items() if is_negated}


def _taken(trace: Trace, activation: Activation) -> Iterator[tuple[int, bool, object]]:
    """Branches in an execution: their first outcome, and what is done next."""
    events = [trace.events[step] for step in activation.events]
    seen: set[int] = set()
    for place, event in enumerate(events):
        index = event.statement.index
        if event.kind != "branch" or event.branch is None or index in seen:
            continue
        seen.add(index)
        after = islice(events, place + 1, None)
        following = next((one for one in after if one.kind not in EMPTY_KINDS), None)
        effect: object = None
        if following is not None:
            values = sorted(folded(text) for _, text in following.values)
            effect = following.statement.shape, following.branch, values
        yield index, event.branch, effect
