"""Runs programs that nobody trusts: `run(program) -> execution`."""

import importlib.util
import math
import socket
import threading
from dataclasses import replace
from pathlib import Path

from jaxgrpo.host.records import CallResult, Execution, Limits, Program
from jaxgrpo.host.sandbox.calls import Exchange, encoded_calls, with_results
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
    ZygoteOptions,
    run_files,
)

PRELOADED = (
    "abc array asyncio bisect cmath collections contextlib copy dataclasses datetime "
    "decimal enum fractions functools hashlib heapq io itertools json math numbers "
    "operator queue random re statistics string textwrap threading traceback types "
    "typing"
).split()
"""Modules of the standard library that programs often import."""
EMPTY_PROGRAM = Program(source="")
GRACE_S = 5.0
"""Beyond a program's wall limit, until a silent zygote is taken for dead."""


class Sandbox:
    r"""Runs one program at a time, each in a confined process of its own.

    One sandbox owns one zygote process: a preloaded interpreter that forks for each
    program. Threads that share one wait for each other; give each worker its own.

    Args:
      level: `auto` takes the best level to be had, a letter that level or none.
      minimum: Refuse to start below this level.
      packages: Installed packages (import names) that programs may import, loaded
        once. Name their dependencies too.
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
        self._options = ZygoteOptions(
            level=SandboxLevel.A,
            preload=(*PRELOADED, *packages),
            search_paths=search_paths,
            package_paths=package_paths,
            cpu=cpu,
        )
        self._lock = threading.Lock()
        self._is_closed = False
        self._start(permitted_levels(level, minimum, allow_unsafe=allow_unsafe))

    def _start(self, levels: list[SandboxLevel]) -> None:
        """Starts at the first level at which a program really runs."""
        reasons = []
        for level in levels:
            self._options = replace(self._options, level=level)
            try:
                self._zygote = Zygote(self._options)
            except (SandboxUnavailableError, ZygoteDiedError) as error:
                reasons.append(f"level {level}: {error}")
                continue
            execution = self._attempt(EMPTY_PROGRAM, [])
            if execution.status == "OK":
                self.level = level
                return
            self._zygote.close()
            reasons.append(f"level {level}: {execution.status}, {execution.reason}")
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
        self._zygote.close()

    def run(self, program: Program) -> Execution:
        """Runs a program once and tells how it ended.

        The limits hold for the whole run, all calls included. What the sandbox itself
        fails at (a dead zygote, no memory to fork) is tried once more, then reported
        as INFRA with its reason.

        Args:
          program: In mode `main` it runs as a script. In mode `calls` its top level
            runs once, then each call; a call that raises does not end the others.

        Returns:
          The execution. In mode `calls` it is OK where all calls were made, whatever
          they gave, and has one result per call in any case.
        """
        check_program(program)
        frames = encoded_calls(program.calls)
        with self._lock:
            if self._is_closed:
                raise ValueError(
                    "the sandbox is closed. Run programs inside its `with`."
                )
            execution = self._attempt(program, frames)
            if execution.status == "INFRA":
                execution = self._attempt(program, frames)
            return execution

    def _attempt(self, program: Program, frames: list[bytes]) -> Execution:
        try:
            return self._run_once(program, frames)
        except ZygoteDiedError as error:
            return without_results(program, f"{error}{self._restart()}")
        except BaseException:
            # Interrupted: what the zygote answers next would belong to this run.
            self._zygote.close()
            raise

    def _restart(self) -> str:
        """Starts another zygote; where that fails, says why (the next run tries)."""
        self._zygote.close()
        try:
            self._zygote = Zygote(self._options)
        except (SandboxUnavailableError, ZygoteDiedError, OSError) as error:
            return f"; restart failed: {error}"
        return ""

    def _run_once(self, program: Program, frames: list[bytes]) -> Execution:
        in_memory = not self._zygote.is_portable
        contents = {
            "program": program.source.encode("utf-8", "surrogatepass"),
            "stdin": program.stdin.encode("utf-8", "surrogateescape"),
            "stdout": b"",
            "stderr": b"",
            "report": bytes(REPORT_BYTES),
        }
        with run_files(contents, in_memory=in_memory) as files:
            if program.mode == "main":
                reply = self._run_main(program, files)
                return execution_of(program.limits, reply, files)
            exchange, reply = self._run_calls(program, files, frames)
            execution = execution_of(program.limits, reply, files)
            return with_results(execution, program, exchange)

    def _run_main(self, program: Program, files: RunFiles) -> dict:
        names, descriptors = list(files.descriptors), list(files.descriptors.values())
        self._zygote.send(self._request(program.limits, names), descriptors)
        return self._zygote.receive(program.limits.wall_s + GRACE_S)

    def _run_calls(
        self, program: Program, files: RunFiles, frames: list[bytes]
    ) -> tuple[Exchange, dict]:
        names = [*files.descriptors, "channel"]
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                descriptors = [*files.descriptors.values(), theirs.fileno()]
                self._zygote.send(self._request(program.limits, names), descriptors)
            exchange = Exchange(ours, files, program.limits, GRACE_S)
            exchange.run(frames)
            if exchange.is_broken:
                self._zygote.send({}, [])
        return exchange, self._zygote.receive(program.limits.wall_s + GRACE_S)

    def _request(self, limits: Limits, names: list[str]) -> dict:
        watches_clock = self._zygote.watches_clock
        return {
            "files": names,
            "watches_clock": watches_clock,
            "cpu_s": limits.cpu_s,
            "wall_s": limits.wall_s,
            # The exact limit is the zygote's to watch; the kernel's own, in whole
            # seconds, stands behind it.
            "cpu_limit_s": math.ceil(limits.cpu_s) + (1 if watches_clock else 0),
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.output_bytes + 1,
            "value_bytes": limits.output_bytes,
        }


def check_program(program: Program) -> None:
    """Raises ValueError where a program cannot be run as it is described."""
    if program.mode not in ("main", "calls"):
        raise ValueError(
            f"program mode {program.mode!r} is not available yet. Use main or calls."
        )
    if program.mode == "main" and program.calls:
        raise ValueError(
            f"{len(program.calls)} calls in a program of mode main. Use mode calls."
        )
    for name in ("cpu_s", "wall_s", "memory_bytes", "output_bytes"):
        value = getattr(program.limits, name)
        if not 0 < value < math.inf:
            raise ValueError(f"limit {name}: {value}. Use a positive, finite number.")


def without_results(program: Program, reason: str) -> Execution:
    """An execution that says nothing of the program."""
    lost = CallResult(status="INFRA")
    return Execution(
        status="INFRA", results=(lost,) * len(program.calls), reason=reason
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


def find_packages(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where installed packages lie: (folders to search, paths to show)."""
    folders, shown = [], []
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ValueError(f"sandbox package {name!r} is not installed. Install it.")
        origin = Path(spec.origin)
        place = origin.parent if spec.submodule_search_locations else origin
        folders.append(str(place.parent))
        libraries = place.parent / f"{name}.libs"
        shown += [str(path) for path in (place, libraries) if path.exists()]
    return tuple(dict.fromkeys(folders)), tuple(shown)
