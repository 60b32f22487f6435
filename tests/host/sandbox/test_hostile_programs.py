import hashlib
import os
import platform
from pathlib import Path

import pytest

from jaxgrpo.host.records import Program
from jaxgrpo.host.sandbox import Sandbox

from .hostile_programs import CASES, FILES, LEGITIMATE, Case
from .other_user import RemoteSandbox

AnySandbox = Sandbox | RemoteSandbox
NEXT = Program(source="print(int(input()) + 1)", stdin="1")


def test_corpus_is_large_and_told_apart_by_name():
    assert len(CASES) - len(LEGITIMATE) >= 100
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_program_ends_as_it_must(case: Case, corpus_sandbox: AnySandbox):
    if case.machine and case.machine != platform.machine():
        pytest.skip(f"uses system call numbers of {case.machine}")
    program = Program(source=case.source, stdin=case.stdin, limits=case.limits)
    execution = corpus_sandbox.run(program)
    assert execution.status == case.status, execution
    assert not case.outputs or execution.stdout in case.outputs, execution
    assert corpus_sandbox.run(NEXT).stdout == "2\n"


def test_host_is_untouched_by_attacks_on_its_files(corpus_sandbox: AnySandbox):
    def state() -> tuple:
        folders = [sorted(os.listdir(place)) for place in ("/", "/etc", "/usr")]
        library = Path(os.__file__)
        content = hashlib.sha256(library.read_bytes()).hexdigest()
        found = library.stat()
        return folders, found.st_mode, found.st_mtime_ns, content

    before = state()
    for case in FILES:
        corpus_sandbox.run(Program(source=case.source, limits=case.limits))
    assert state() == before
    for path in ("/x", "/tmp/jaxgrpo-attack", "/dev/shm/x", "/tmp/d", "/tmp/s"):
        assert not Path(path).exists()
