import os
import signal
from collections.abc import Iterator

import pytest

from jaxgrpo.host.records import Program
from jaxgrpo.host.sandbox import Sandbox

from .processes import children_of, new_children

LOADED = Program(source="import sys\nprint('numpy' in sys.modules)\nimport numpy")
UNLOADED = Program(source="import sys\nprint('num' + 'py' in sys.modules)")


@pytest.fixture(scope="module")
def sandbox_with_numpy() -> Iterator[Sandbox]:
    with Sandbox(level="B", packages=("numpy",)) as opened:
        yield opened


def test_program_that_names_a_package_finds_it_loaded(sandbox_with_numpy: Sandbox):
    execution = sandbox_with_numpy.run(LOADED)
    assert (execution.status, execution.stdout) == ("OK", "True\n")


def test_program_that_names_none_does_not_pay_for_it(sandbox_with_numpy: Sandbox):
    assert sandbox_with_numpy.run(UNLOADED).stdout == "False\n"


def test_package_can_be_imported_without_being_named(sandbox_with_numpy: Sandbox):
    source = "a = __import__('num' + 'py').arange(4)\nprint(a.sum())"
    execution = sandbox_with_numpy.run(Program(source=source))
    assert execution.stdout == "6\n", execution.stderr


def test_random_numbers_of_numpy_repeat(sandbox_with_numpy: Sandbox):
    program = Program(source="import numpy\nprint(numpy.random.random())")
    runs = {sandbox_with_numpy.run(program).stdout for _ in range(3)}
    assert len(runs) == 1


def test_zygote_with_packages_starts_when_first_needed_and_again_when_dead():
    before = children_of(os.getpid())
    with Sandbox(level="B", packages=("numpy",)) as sandbox:
        sandbox.run(UNLOADED)
        (plain,) = new_children(before)
        sandbox.run(LOADED)
        (loaded,) = set(new_children(before)) - {plain}
        os.kill(loaded, signal.SIGKILL)
        execution = sandbox.run(LOADED)
        assert (execution.status, execution.stdout) == ("OK", "True\n")
        (again,) = set(new_children(before)) - {plain}
        assert again != loaded
    assert new_children(before) == []
