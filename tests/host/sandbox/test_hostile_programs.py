import platform

import pytest

from jaxgrpo.host.records import Program
from jaxgrpo.host.sandbox import Sandbox

from .hostile_programs import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_program_ends_as_it_must(case: Case, sandbox: Sandbox):
    if case.machine and case.machine != platform.machine():
        pytest.skip(f"uses system call numbers of {case.machine}")
    program = Program(source=case.source, stdin=case.stdin, limits=case.limits)
    execution = sandbox.run(program)
    assert execution.status == case.status, execution
    assert not case.outputs or execution.stdout in case.outputs
    assert sandbox.run(Program(source="print(1)")).stdout == "1\n"
