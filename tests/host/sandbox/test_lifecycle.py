import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jaxgrpo.host.records import Call, Limits, Program
from jaxgrpo.host.sandbox import Sandbox

from .processes import (
    becomes_true,
    children_of,
    descendants_of,
    is_alive,
    new_children,
    num_descriptors,
)

HELLO = Program(source="print(1)")
SLEEP = Program(source="import time\ntime.sleep(60)", limits=Limits(wall_s=30.0))


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_hundreds_of_runs_leave_nothing_behind(plain_sandbox: Sandbox):
    calls = Program(
        source="def f(): return 1", mode="calls", calls=(Call(function="f"),)
    )
    broken = Program(source="x =")
    plain_sandbox.run(HELLO)
    pids = [os.getpid(), *descendants_of(os.getpid())]
    before = [num_descriptors(pid) for pid in pids]
    for _ in range(67):
        for program in (HELLO, calls, broken):
            plain_sandbox.run(program)
    assert [os.getpid(), *descendants_of(os.getpid())] == pids
    assert [num_descriptors(pid) for pid in pids] == before


def test_no_zombie_is_left_by_a_killed_program(plain_sandbox: Sandbox):
    program = Program(source="while True: pass", limits=Limits(cpu_s=0.05))
    assert plain_sandbox.run(program).status == "TLE"
    assert "Z" not in descendants_of(os.getpid()).values()


def test_closing_ends_every_process(sandbox: Sandbox):
    before = children_of(os.getpid())
    with Sandbox(level=sandbox.level) as fresh:
        fresh.run(HELLO)
        (zygote,) = new_children(before)
        started = [zygote, *descendants_of(zygote)]
    assert becomes_true(lambda: not any(map(is_alive, started)))
    assert new_children(before) == []


def test_closed_sandbox_refuses_to_run():
    sandbox = Sandbox(level="B")
    sandbox.close()
    sandbox.close()
    with pytest.raises(ValueError, match="the sandbox is closed"):
        sandbox.run(HELLO)


def test_dead_zygote_is_replaced(sandbox: Sandbox):
    before = children_of(os.getpid())
    with Sandbox(level=sandbox.level) as fresh:
        (zygote,) = new_children(before)
        os.kill(zygote, signal.SIGKILL)
        execution = fresh.run(HELLO)
        assert (execution.status, execution.stdout) == ("OK", "1\n")
        assert fresh.level == sandbox.level


def test_zygote_that_dies_in_a_run_is_replaced_and_the_run_repeated():
    before = children_of(os.getpid())
    program = Program(
        source="import time\ntime.sleep(1)\nprint(1)", limits=Limits(wall_s=30.0)
    )
    with Sandbox(level="B") as sandbox:
        (zygote,) = new_children(before)
        orphans: list[int] = []

        def kill_zygote() -> None:
            orphans.extend(children_of(zygote))
            os.kill(zygote, signal.SIGKILL)

        killer = threading.Timer(0.4, kill_zygote)
        killer.start()
        execution = sandbox.run(program)
        killer.join()
        assert (execution.status, execution.stdout) == ("OK", "1\n")
        assert orphans
        assert not any(map(is_alive, orphans))


def test_zygote_that_dies_twice_is_an_infrastructure_error():
    before = children_of(os.getpid())
    is_done = threading.Event()

    def kill_every_zygote() -> None:
        while not is_done.wait(0.05):
            for pid in new_children(before):
                kill(pid)

    with Sandbox(level="B") as sandbox:
        killer = threading.Thread(target=kill_every_zygote)
        killer.start()
        program = Program(
            source="import time\ndef f(): time.sleep(10)",
            mode="calls",
            calls=(Call(function="f"),) * 2,
            limits=SLEEP.limits,
        )
        executions = sandbox.run(SLEEP), sandbox.run(program)
        is_done.set()
        killer.join()
        assert [execution.status for execution in executions] == ["INFRA", "INFRA"]
        assert executions[0].reason.startswith("sandbox zygote")
        assert [result.status for result in executions[1].results] == ["INFRA"] * 2
        assert sandbox.run(HELLO).status == "OK"


def test_program_killed_from_outside_is_an_infrastructure_error():
    before = children_of(os.getpid())
    killed = []

    def kill_programs() -> None:
        (zygote,) = new_children(before)
        while len(killed) < 2:
            for pid in children_of(zygote):
                kill(pid)
                killed.append(pid)
                becomes_true(lambda pid=pid: not is_alive(pid))

    with Sandbox(level="B") as sandbox:
        killer = threading.Thread(target=kill_programs)
        killer.start()
        execution = sandbox.run(SLEEP)
        killer.join()
        assert execution.status == "INFRA"
        assert execution.reason.startswith(("killed from outside", "the child did not"))
        assert sandbox.run(HELLO).status == "OK"


OWNER = """
import sys
from jaxgrpo.host.records import Limits, Program
from jaxgrpo.host.sandbox import Sandbox

with Sandbox(level=sys.argv[1]) as sandbox:
    print("ready", flush=True)
    source = "import time, signal\\nsignal.signal(15, signal.SIG_IGN)\\ntime.sleep(60)"
    sandbox.run(Program(source=source, limits=Limits(wall_s=60.0)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_its_owner(number: signal.Signals, sandbox: Sandbox):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, sandbox.level],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        expected = 3 if sandbox.level == "A" else 2
        assert becomes_true(lambda: len(descendants_of(owner.pid)) == expected)
        started = descendants_of(owner.pid)
        owner.send_signal(number)
        owner.wait()
    assert becomes_true(lambda: not any(map(is_alive, started)))


def test_interrupted_run_does_not_answer_the_next(plain_sandbox: Sandbox):
    main = threading.get_ident()
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        plain_sandbox.run(SLEEP)
    timer.join()
    assert plain_sandbox.run(HELLO).stdout == "1\n"


def test_threads_that_share_a_sandbox_wait_for_each_other(plain_sandbox: Sandbox):
    found: dict[int, str] = {}

    def run(number: int) -> None:
        found[number] = plain_sandbox.run(Program(source=f"print({number})")).stdout

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n" for number in range(4)}


def test_zygote_files_do_not_import_the_package():
    folder = Path(__file__).parents[3] / "jaxgrpo/host/sandbox"
    source = (
        "import sys; import zygote; zygote.load_siblings(); import sandbox.serving; "
        "print([m for m in sys.modules if m.startswith(('jaxgrpo', 'numpy'))])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", source], cwd=folder, capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr
