import json
from itertools import islice

import pytest

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.stream import ProblemStream

PROBLEMS = [
    Problem(id=str(i), kind="output", prompt=f"{i}", reference="") for i in range(10)
]


def stream(batch_size: int = 4, seed: int = 0) -> ProblemStream:
    return ProblemStream(PROBLEMS, batch_size=batch_size, seed=seed)


def ids(problem_stream: ProblemStream, num_batches: int) -> list[list[str]]:
    batches = islice(problem_stream, num_batches)
    return [[problem.id for problem in batch] for batch in batches]


def test_batches_are_full_across_epochs():
    assert [len(batch) for batch in ids(stream(), 6)] == [4] * 6


def test_every_epoch_has_every_problem_once_in_a_new_order():
    drawn = [problem for batch in ids(stream(), 5) for problem in batch]
    first, second = drawn[:10], drawn[10:]
    everything = sorted(problem.id for problem in PROBLEMS)
    assert sorted(first) == sorted(second) == everything
    assert first != second and first != everything


def test_seed_decides_the_order():
    assert ids(stream(), 5) == ids(stream(), 5)
    assert ids(stream(), 5) != ids(stream(seed=1), 5)


@pytest.mark.parametrize("num_drawn", [0, 1, 2, 3, 5, 7])
def test_a_restored_position_continues_exactly(num_drawn):
    original = stream()
    ids(original, num_drawn)
    state = json.loads(json.dumps(original.state_dict()))
    expected = ids(original, 6)
    restored = stream()
    ids(restored, 1)
    restored.load_state_dict(state)
    assert ids(restored, 6) == expected


@pytest.mark.parametrize("other", [stream(batch_size=5), stream(seed=1)])
def test_the_position_of_another_stream_is_refused(other):
    with pytest.raises(ValueError, match="belongs to a stream with"):
        other.load_state_dict(stream().state_dict())


def test_no_problems_are_refused():
    with pytest.raises(ValueError, match="no problems to draw from"):
        ProblemStream([], batch_size=1, seed=0)


def test_closes():
    with_position = stream()
    ids(with_position, 1)
    with_position.close()
