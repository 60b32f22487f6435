import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.problems.output_prediction.assembly import (
    assemble,
    build_splits,
    split_of,
)
from jaxgrpo.problems.output_prediction.execution import Example
from jaxgrpo.problems.output_prediction.generator import drafts

SIZES = {"train": 300, "validation": 5, "test": 20}


def ignore(done: int, wanted: int) -> None:
    pass


def example(code: str, call: str = "f(1)") -> Example:
    return Example(code, call, "1", "int", "easy", 1)


def test_worker_processes_do_not_change_the_result():
    one = build_splits(3, SIZES, num_workers=1, report=ignore)
    three = build_splits(3, SIZES, num_workers=3, report=ignore)
    assert one == three
    assert {name: len(examples) for name, examples in one.items()} == SIZES


def test_splits_have_the_intended_shares():
    codes = {draft.code for draft in drafts(0, 0, 8000)}
    names = [split_of(code) for code in codes]
    assert names.count("validation") / len(names) == pytest.approx(1 / 32, abs=0.01)
    assert names.count("test") / len(names) == pytest.approx(1 / 10, abs=0.015)


@given(st.lists(st.integers(0, 60)))
def test_nothing_repeats_and_every_example_is_in_its_own_split(numbers):
    chunks = [[example(f"def f(x):\n return {n % 30}", f"f({n})")] for n in numbers]
    enough = [[example(f"def f(x):\n return {n}")] for n in range(100, 400)]
    sizes = {"train": 40, "validation": 1, "test": 3}
    splits = assemble([*chunks, *enough], sizes, report=ignore)
    keys = [(e.code, e.call) for examples in splits.values() for e in examples]
    assert len(set(keys)) == len(keys) == 44
    for name, examples in splits.items():
        assert all(split_of(e.code) == name for e in examples)


def test_progress_is_reported_up_to_the_end():
    codes = [f"def f(x):\n return {n}" for n in range(30)]
    chunk = [example(code) for code in codes if split_of(code) == "train"][:10]
    seen = []
    sizes = {"train": 10, "validation": 0, "test": 0}
    assemble(
        [chunk[:4], chunk[4:]],
        sizes,
        report=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(4, 10), (10, 10)]


def test_too_few_chunks_are_an_error():
    with pytest.raises(RuntimeError, match="ended with 0 of 2 examples"):
        assemble([[]], {"train": 2}, report=ignore)
