"""Dead groups are dropped, and others drawn in their place."""

from collections.abc import Sequence

from jaxgrpo.host.records import Group, Problem
from jaxgrpo.host.regroup import Ask
from jaxgrpo.host.regroup.dynamic_sampling import DynamicSampling

from .conftest import rewarded

LIVE, WRONG, RIGHT = (1.0, 0.0), (0.0, 0.0), (1.0, 1.0)


def sampling(**changes) -> DynamicSampling:
    settings = {
        "num_groups": 4, "group_size": 2, "max_tries": 3, "fills_up": False,
    }  # fmt: skip
    return DynamicSampling(**(settings | changes))


def ids(groups: Sequence[Group]) -> list[str]:
    return [group.problem.id for group in groups]


class Stream:
    """Problems that never end, whose groups are dead or live by turns."""

    def __init__(self, *rewards: tuple[float, ...]):
        self._rewards = rewards
        self.asks: list[Ask] = []

    def next_problems(self, number: int) -> list[Problem]:
        first = len(self.asks)
        return [
            Problem(id=f"n{first + i}", kind="output", prompt="", reference="")
            for i in range(number)
        ]

    def draw(self, asks: Sequence[Ask], num_samples: int) -> list[Group]:
        assert num_samples == 2
        first = len(self.asks)
        self.asks += asks
        return [
            rewarded(
                self._rewards[(first + i) % len(self._rewards)],
                ask.problem.id,
                draw=ask.draw,
            )
            for i, ask in enumerate(asks)
        ]


def test_a_full_batch_draws_nothing(turn):
    groups = [rewarded(LIVE, str(i)) for i in range(4)]
    method = sampling()
    assert method(groups, turn()) == groups
    assert method.metrics()["dynamic_sampling/num_gen_batches"] == 1.0


def test_the_batch_is_filled_from_the_stream(turn):
    stream = Stream(WRONG, LIVE)
    groups = [rewarded(LIVE, "a"), rewarded(WRONG, "b"), rewarded(RIGHT, "c"),
              rewarded(LIVE, "d")]  # fmt: skip
    method = sampling()
    changed = method(groups, turn(draw=stream.draw, next_problems=stream.next_problems))
    assert ids(changed) == ["a", "d", "n1", "n3"]
    metrics = method.metrics()
    # Half were live, so that four are drawn for the two that are missing.
    assert metrics["dynamic_sampling/num_gen_batches"] == 2.0
    assert metrics["dynamic_sampling/drawn_groups"] == 8.0
    assert metrics["dynamic_sampling/drop_all_wrong"] == 3.0
    assert metrics["dynamic_sampling/drop_all_correct"] == 1.0
    assert metrics["dynamic_sampling/missing_groups"] == 0.0


def test_tries_are_bounded_and_the_batch_stays_small(turn):
    stream = Stream(WRONG)
    method = sampling()
    groups = [rewarded(LIVE, "a"), *(rewarded(WRONG, name) for name in "bcd")]
    around = turn(draw=stream.draw, next_problems=stream.next_problems)
    assert ids(method(groups, around)) == ["a"]
    assert method.metrics()["dynamic_sampling/num_gen_batches"] == 4.0
    assert method.metrics()["dynamic_sampling/missing_groups"] == 3.0
    assert len(stream.asks) == 3 * 4


def test_dead_groups_fill_up_where_that_is_asked_for(turn):
    stream = Stream(WRONG)
    method = sampling(fills_up=True)
    groups = [rewarded(LIVE, "a"), *(rewarded(WRONG, name) for name in "bcd")]
    around = turn(draw=stream.draw, next_problems=stream.next_problems)
    assert ids(method(groups, around)) == ["a", "b", "c", "d"]


def test_what_is_live_beyond_the_batch_is_counted(turn):
    stream = Stream(LIVE)
    method = sampling()
    groups = [rewarded(LIVE, "a"), *(rewarded(WRONG, name) for name in "bcd")]
    around = turn(draw=stream.draw, next_problems=stream.next_problems)
    assert ids(method(groups, around)) == ["a", "n0", "n1", "n2"]
    assert method.metrics()["dynamic_sampling/surplus_groups"] == 1.0


def test_a_problem_that_comes_again_is_another_draw(turn):
    same = Problem(id="a", kind="output", prompt="", reference="")
    stream = Stream(LIVE)
    around = turn(draw=stream.draw, next_problems=lambda number: [same] * number)
    sampling(num_groups=2)([rewarded(WRONG, "a")], around)
    assert [ask.draw for ask in stream.asks] == [1, 2]
