"""Single faults are blamed on the statement that is wrong: nine in ten, and more.

Measured on 2026-11-30 with Python 3.11, of mutants that fail a test and end without an
error: 297 of 297 of `mini_programs` and 354 of 357 of MBPP. Of those that end in an
error Python's word is taken, and it names the wrong statement in 18 of 18 and 55 of 88.
"""

import random
from collections.abc import Iterator

import pytest

from jaxgrpo.host.sandbox import Sandbox
from tests.host.credit.single_faults import (
    Found,
    found_in,
    mini_programs,
    mutants,
    real_programs,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::SyntaxWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(level="B") as opened:
        yield opened


def all_found(problems, most: int, sandbox: Sandbox) -> list[Found]:
    generator = random.Random(1)
    return [
        found
        for problem in problems
        for mutant in mutants(problem, most, generator)
        if (found := found_in(problem, mutant, sandbox)) is not None
    ]


def share(found: list[Found], mode: str) -> tuple[int, int]:
    """How many of those in a mode are blamed where they are wrong, and all of them."""
    flags = [one.is_there for one in found if one.blame.mode == mode]
    return sum(flags), len(flags)


def test_faults_of_a_few_mini_programs(sandbox):
    found = all_found(mini_programs(8), 2, sandbox)
    right, total = share(found, "logic")
    assert total >= 12
    assert right >= 0.9 * total


@pytest.mark.slow
def test_faults_of_mini_programs(sandbox):
    found = all_found(mini_programs(80), 3, sandbox)
    right, total = share(found, "logic")
    print(f"mini_programs: {right} of {total}; errors {share(found, 'syntax')}")
    assert len(found) >= 200
    assert sum(one.is_there for one in found) >= 0.9 * len(found)
    assert right >= 0.99 * total


@pytest.mark.slow
def test_faults_of_real_references(sandbox):
    found = all_found(real_programs(150), 3, sandbox)
    right, total = share(found, "logic")
    print(f"MBPP: {right} of {total}; errors {share(found, 'syntax')}")
    assert total >= 200
    assert sum(one.is_there for one in found) >= 0.9 * len(found)
    assert right >= 0.95 * total
