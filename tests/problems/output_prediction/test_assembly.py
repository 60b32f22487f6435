import pytest

from jaxgrpo.problems.generation import split_of_text
from jaxgrpo.problems.output_prediction.assembly import build_splits
from jaxgrpo.problems.output_prediction.generator import drafts

SIZES = {"train": 300, "validation": 5, "test": 20}


def ignore(done: int, wanted: int) -> None:
    pass


def test_worker_processes_do_not_change_the_result():
    one = build_splits(3, SIZES, num_workers=1, report=ignore)
    three = build_splits(3, SIZES, num_workers=3, report=ignore)
    assert one == three
    assert {name: len(examples) for name, examples in one.items()} == SIZES


def test_splits_have_the_intended_shares():
    codes = {draft.code for draft in drafts(0, 0, 8000)}
    names = [split_of_text(code) for code in codes]
    assert names.count("validation") / len(names) == pytest.approx(1 / 32, abs=0.01)
    assert names.count("test") / len(names) == pytest.approx(1 / 10, abs=0.015)
