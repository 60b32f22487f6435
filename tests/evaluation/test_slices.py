from jaxgrpo.evaluation.slices import ABSENT, RARE, slices_by_tag


def places(tags, rare=1):
    return {
        name: {value: found.tolist() for value, found in values.items()}
        for name, values in slices_by_tag(tags, rare).items()
    }


def test_every_problem_is_in_one_slice_of_each_tag():
    tags = [{"a": "x", "b": "1"}, {"a": "y", "b": "2"}, {"a": "x", "b": "1"}]
    assert places(tags) == {
        "a": {"x": [0, 2], "y": [1]},
        "b": {"1": [0, 2], "2": [1]},
    }


def test_problems_without_a_tag_are_a_slice_of_their_own():
    assert places([{"a": "x"}, {}]) == {"a": {ABSENT: [1], "x": [0]}}


def test_rare_values_are_pooled():
    tags = [{"a": value} for value in "xxxyzz"]
    assert places(tags, rare=2) == {"a": {"x": [0, 1, 2], "z": [4, 5], RARE: [3]}}


def test_tags_that_tell_nothing_apart_are_left_out():
    tags = [{"same": "x", "own": str(number)} for number in range(4)]
    assert places(tags, rare=2) == {}


def test_values_that_are_numbers_are_in_their_order():
    tags = [{"level": value} for value in ("10", "9", "hard")]
    assert list(places(tags)["level"]) == ["9", "10", "hard"]
