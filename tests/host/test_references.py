"""SC-GRPO's routes by the number of right completions."""

import pytest

from jaxgrpo.host.records import Score, Verdict
from jaxgrpo.host.references import route_of

OK = Verdict(status="OK", error_class="exact")
WA = Verdict(status="WA", error_class="wrong_value")
INFRA = Verdict(status="INFRA", error_class="infra")


@pytest.mark.parametrize(
    ("verdicts", "kind", "references"),
    [
        ([WA, WA, WA, WA], "explored", (None, 0, 0, 0)),
        ([WA, OK, WA, WA], "plain", (None,) * 4),
        ([WA, OK, OK, WA], "mixed", (1, 2, 1, 1)),
        ([OK, OK, OK, WA], "mixed", (1, 0, 0, 0)),
        ([OK, OK, OK, OK], "plain", (None,) * 4),
        ([OK, OK, OK, INFRA], "plain", (None,) * 4),
        ([INFRA, WA, WA, WA], "explored", (None, None, 1, 1)),
        ([INFRA, INFRA], "plain", (None,) * 2),
    ],
    ids=["n=0", "n=1", "n=2", "n=G-1", "n=G", "n=G of judged", "0 of judged", "none"],
)
def test_the_route_is_that_of_the_right_completions(verdicts, kind, references):
    route = route_of([Score(rewards={}, verdict=verdict) for verdict in verdicts])
    assert route == (kind, references)
    assert all(row != shown for row, shown in enumerate(route.references))
