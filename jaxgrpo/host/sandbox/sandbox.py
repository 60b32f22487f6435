"""Runs programs that nobody trusts: `run(program) -> execution`."""

import math
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxgrpo.host.records import CallResult, Examination, Execution, Program
from jaxgrpo.host.sandbox.calls import Exchange, encoded_calls, with_results
from jaxgrpo.host.sandbox.examination import TesterTask, examine
from jaxgrpo.host.sandbox.levels import (
    HOW_TO_GET,
    SandboxLevel,
    SandboxUnavailableError,
)
from jaxgrpo.host.sandbox.outcome import REPORT_BYTES, execution_of
from jaxgrpo.host.sandbox.owner import (
    RunFiles,
    Zygote,
    ZygoteDiedError,
    ZygoteKeeper,
    ZygoteOptions,
    run_files,
)
from jaxgrpo.host.sandbox.packages import find_packages
from jaxgrpo.host.sandbox.protocol import FILES, MODES, TRACE, Reply, Request
from jaxgrpo.host.sandbox.traces import traces_of

PRELOADED = (
    "abc array bisect cmath collections contextlib copy dataclasses datetime "
    "decimal enum fractions functools heapq io itertools json math numbers "
    "operator queue random re statistics string textwrap threading traceback types "
    "typing"
).split()
"""Modules of the standard library that programs often import."""
EMPTY_PROGRAM = Program(source="")
Script = Callable[[Exchange], None]
"""What the owner does with a channel while the child at its other end lives."""
GRACE_S = 5.0
"""Beyond a program's wall limit, until a silent zygote is taken for dead."""


class Sandbox:
    r"""Runs one program at a time, each in a confined process of its own.

    One sandbox owns one zygote process, a preloaded interpreter that forks for each
    program, and a second one once a program mentions one of the packages. Threads that
    share a sandbox wait for each other; give each worker its own.

    Args:
      level: `auto` takes the best level to be had, a letter that level or none.
      minimum: Refuse to start below this level.
      packages: Installed packages (import names) that programs may import, loaded
        once for all that mention one. Name their dependencies too.
      allow_unsafe: Permits level D, which stops accidents but no attack.
      cpu: Processor core to run on; None leaves it to the scheduler.

    Raises:
      SandboxUnavailableError: No permitted level can be had; says what is missing.

    Example:
      >>> with Sandbox() as sandbox:
      ...     sandbox.run(Program(source="print(int(input()) * 2)", stdin="21")).stdout
      '42\n'
    """

    def __init__(
        self,
        *,
        level: str = "auto",
        minimum: str = "B",
        packages: tuple[str, ...] = (),
        allow_unsafe: bool = False,
        cpu: int | None = None,
    ) -> None:
        search_paths, package_paths = find_packages(packages)
        self._packages = packages
        self._options = ZygoteOptions(
            level=SandboxLevel.A,
            preload=tuple(PRELOADED),
            packages=packages,
            search_paths=search_paths,
            package_paths=package_paths,
            cpu=cpu,
        )
        self._lock = threading.Lock()
        self._is_closed = False
        self._testers: Sandbox | None = None
        self._start(permitted_levels(level, minimum, allow_unsafe=allow_unsafe))

    def _start(self, levels: list[SandboxLevel]) -> None:
        """Starts at the first level at which a program really runs."""
        reasons = []
        for level in levels:
            self._options = replace(self._options, level=level)
            self._plain = ZygoteKeeper(self._options)
            preload = (*self._options.preload, *self._packages)
            self._loaded = ZygoteKeeper(replace(self._options, preload=preload))
            execution = self._attempt(EMPTY_PROGRAM, lambda exchange: None)
            if execution.status == "OK":
                self.level = level
                return
            self._plain.close()
            reasons.append(f"level {level}: {execution.reason}")
        raise SandboxUnavailableError(
            f"no permitted sandbox level can be had here: {'; '.join(reasons)}. "
            f"For level {levels[-1]}, {HOW_TO_GET[levels[-1]]}."
        )

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the zygote and whatever it runs."""
        self._is_closed = True
        self._plain.close()
        self._loaded.close()
        if self._testers is not None:
            self._testers.close()

    @property
    def facts(self) -> dict:
        """What there is here: `landlock_abi`, `has_own_user`, `watches_clock`."""
        return self._plain.zygote().facts

    def run(self, program: Program) -> Execution:
        """Runs a program once and tells how it ended.

        The limits hold for the whole run, all calls included. What the sandbox itself
        fails at (a dead zygote, no memory to fork) is tried once more, then reported
        as INFRA with its reason.

        Args:
          program: In mode `main` it runs as a script. In mode `calls` its top level
            runs once, then each call; a call that raises does not end the others. In
            mode `trace` it runs as a script if it has no calls, and what it does, or
            what each call does, is written down.

        Returns:
          The execution. In mode `calls` it is OK where all calls were made, whatever
          they gave, and has one result per call in any case.
        """
        check_program(program)
        frames = encoded_calls(program.calls)

        def script(exchange: Exchange) -> None:
            exchange.make_calls(frames)

        with self._lock:
            self._check_open()
            execution = self._attempt(program, script)
            if execution.status == "INFRA":
                execution = self._attempt(program, script)
            return execution

    def follow(self, program: Program, script: Script) -> Execution:
        """Runs a program whose calls are not known beforehand.

        Args:
          program: In a mode with a channel, without calls of its own.
          script: Called with the owner's end of the channel once the program's top
            level has run; the program ends when it returns. Not repeated.
        """
        check_program(program)
        assert not program.calls, "the script makes the calls"
        with self._lock:
            self._check_open()
            return self._attempt(program, script)

    def examine(self, program: Program, tasks: Sequence[TesterTask]) -> Examination:
        """Runs tests of a program in a second process, which asks the first.

        What the sandbox itself fails at is tried once more, like a run.

        Args:
          program: In mode `calls`, without calls of its own.
          tasks: Tests, each run in a module of its own. The limits hold for all of
            them together, in each of the two processes.
        """
        with self._lock:
            if self._testers is None:
                self._testers = self._another()
        examination = examine(self, self._testers, program, tasks)
        if examination.execution.status == "INFRA":
            examination = examine(self, self._testers, program, tasks)
        return examination

    def _another(self) -> "Sandbox":
        """A sandbox with the same settings."""
        self._check_open()
        return Sandbox(
            level=self.level,
            minimum=self.level,
            packages=self._packages,
            allow_unsafe=self.level == SandboxLevel.D,
            cpu=self._options.cpu,
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("the sandbox is closed. Run programs inside its `with`.")

    def _attempt(self, program: Program, script: Script) -> Execution:
        keeper = self._keeper_for(program)
        try:
            return self._run_once(keeper.zygote(), program, script)
        except (ZygoteDiedError, SandboxUnavailableError, OSError) as error:
            keeper.close()
            return without_results(program, str(error))
        except BaseException:
            # Interrupted: what the zygote answers next would belong to this run.
            keeper.close()
            raise

    def _keeper_for(self, program: Program) -> ZygoteKeeper:
        """The zygote that has loaded what the program is likely to import.

        A large package makes every fork of its zygote slower, so only programs that
        mention one are run there. The others could import it too, if slowly.
        """
        is_mentioned = any(name in program.source for name in self._packages)
        return self._loaded if is_mentioned else self._plain

    def _run_once(self, zygote: Zygote, program: Program, script: Script) -> Execution:
        in_memory = not zygote.is_portable
        is_traced = program.mode == "trace"
        contents = dict.fromkeys(FILES if is_traced else FILES[:TRACE], b"")
        contents["program"] = program.source.encode("utf-8", "surrogatepass")
        contents["stdin"] = program.stdin.encode("utf-8", "surrogateescape")
        with run_files(contents, in_memory=in_memory) as files:
            files.resize("report", REPORT_BYTES)
            if is_traced:
                files.resize("trace", program.limits.trace_bytes)
            if program.mode == "main" or (is_traced and not program.calls):
                reply = self._run_main(zygote, program, files)
                execution = execution_of(program.limits, reply, files)
            else:
                exchange, reply = self._run_with_channel(zygote, program, files, script)
                execution = execution_of(program.limits, reply, files)
                execution = with_results(execution, program, exchange)
            return with_traces(execution, program, files) if is_traced else execution

    def _run_main(self, zygote: Zygote, program: Program, files: RunFiles) -> Reply:
        zygote.send(request_of(zygote, program), list(files.descriptors.values()))
        return zygote.receive(program.limits.wall_s + GRACE_S)

    def _run_with_channel(
        self, zygote: Zygote, program: Program, files: RunFiles, script: Script
    ) -> tuple[Exchange, Reply]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                descriptors = [*files.descriptors.values(), theirs.fileno()]
                zygote.send(request_of(zygote, program), descriptors)
            exchange = Exchange(ours, files, program.limits, GRACE_S)
            exchange.run(script)
            if exchange.is_broken:
                zygote.kill_program()
        return exchange, zygote.receive(program.limits.wall_s + GRACE_S)


def request_of(zygote: Zygote, program: Program) -> Request:
    """What a zygote is told of a program."""
    limits = program.limits
    return Request(
        mode=program.mode,
        watches_clock=zygote.watches_clock,
        cpu_s=limits.cpu_s,
        wall_s=limits.wall_s,
        # The exact limit is the zygote's to watch; the kernel's own, in whole
        # seconds, stands behind it.
        cpu_limit_s=math.ceil(limits.cpu_s) + (1 if zygote.watches_clock else 0),
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.output_bytes + 1,
        value_bytes=limits.output_bytes,
        trace_bytes=limits.trace_bytes if program.mode == "trace" else 0,
        trace_events=limits.trace_events,
    )


def check_program(program: Program) -> None:
    """Raises ValueError where a program cannot be run as it is described."""
    if program.mode not in MODES[1:]:
        raise ValueError(f"program mode {program.mode!r}. Use {', '.join(MODES[1:])}.")
    if program.mode == "main" and program.calls:
        raise ValueError(
            f"{len(program.calls)} calls in a program of mode main. Use mode calls."
        )
    for name in (
        "cpu_s",
        "wall_s",
        "memory_bytes",
        "output_bytes",
        "trace_events",
        "trace_bytes",
    ):
        value = getattr(program.limits, name)
        if not 0 < value < math.inf:
            raise ValueError(f"limit {name}: {value}. Use a positive, finite number.")


def with_traces(execution: Execution, program: Program, files: RunFiles) -> Execution:
    """The execution with what its child wrote of it."""
    if execution.status in ("INFRA", "CE"):
        return execution
    content = files.content("trace", 0, program.limits.trace_bytes)
    return replace(execution, traces=traces_of(content, max(1, len(program.calls))))


def without_results(program: Program, reason: str) -> Execution:
    """An execution that says nothing of the program."""
    lost = CallResult(status="INFRA")
    return Execution(
        status="INFRA",
        results=(lost,) * len(program.calls),
        is_loaded=False,
        reason=reason,
    )


def permitted_levels(
    level: str, minimum: str, *, allow_unsafe: bool
) -> list[SandboxLevel]:
    """Levels to try, best first."""
    names = [member.value for member in SandboxLevel]
    if level not in ("auto", *names):
        raise ValueError(f"sandbox level {level!r}. Use auto, A, B, C or D.")
    if minimum not in names:
        raise ValueError(f"sandbox minimum {minimum!r}. Use A, B, C or D.")
    wanted = list(SandboxLevel) if level == "auto" else [SandboxLevel(level)]
    lowest = SandboxLevel(minimum)
    if level != "auto" and not wanted[0].is_at_least(lowest):
        raise SandboxUnavailableError(
            f"sandbox level {level} is below the minimum, {minimum}. "
            f"Lower the minimum or raise the level."
        )
    permitted = [member for member in wanted if member.is_at_least(lowest)]
    if SandboxLevel.D in permitted and not allow_unsafe:
        permitted.remove(SandboxLevel.D)
        if not permitted:
            raise SandboxUnavailableError(
                "sandbox level D stops accidents but no attack. "
                "Set allow_unsafe=True to accept that, or use level C or better."
            )
    return permitted
