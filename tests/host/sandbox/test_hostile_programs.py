import hashlib
import os
import platform
from pathlib import Path

import pytest

from jaxgrpo.host.records import Program
from jaxgrpo.host.sandbox import Sandbox

from .hostile_programs import CASES, FILES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_program_ends_as_it_must(case: Case, sandbox: Sandbox):
    if case.machine and case.machine != platform.machine():
        pytest.skip(f"uses system call numbers of {case.machine}")
    program = Program(source=case.source, stdin=case.stdin, limits=case.limits)
    execution = sandbox.run(program)
    assert execution.status == case.status, execution
    assert not case.outputs or execution.stdout in case.outputs
    assert sandbox.run(Program(source="print(1)")).stdout == "1\n"


def test_host_is_untouched_by_attacks_on_its_files(sandbox: Sandbox):
    def state() -> tuple:
        folders = [sorted(os.listdir(place)) for place in ("/", "/etc", "/usr")]
        library = Path(os.__file__)
        content = hashlib.sha256(library.read_bytes()).hexdigest()
        return folders, library.stat().st_mode, content

    before = state()
    for case in FILES:
        sandbox.run(Program(source=case.source, limits=case.limits))
    assert state() == before
    for path in ("/x", "/tmp/x", "/dev/shm/x", "/tmp/d", "/tmp/s"):
        assert not Path(path).exists()
