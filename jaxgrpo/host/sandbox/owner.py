"""The owner's side of a zygote: start it, send it a program, get rid of it."""

import array
import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxgrpo.host.sandbox.levels import SandboxLevel, SandboxUnavailableError
from jaxgrpo.host.sandbox.protocol import (
    KILL,
    MESSAGE_BYTES,
    Reply,
    Request,
    unpacked_reply,
)

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    # Sets of strings print in the same order in every run.
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that a zygote, and so a program, sees of the environment."""
# Not -I: it would also ignore PYTHONHASHSEED. The rest of it is -s and -P, and the
# environment holds nothing of the owner's.
INTERPRETER_FLAGS = ("-S", "-s", "-P", "-X", "utf8")
START_TIMEOUT_S = 60.0


class ZygoteDiedError(RuntimeError):
    """The zygote ended, fell silent, or answered out of turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteOptions:
    """How a zygote is started."""

    level: SandboxLevel
    preload: tuple[str, ...]
    """Modules imported once, before any program."""
    packages: tuple[str, ...] = ()
    """Installed packages that programs may import."""
    search_paths: tuple[str, ...] = ()
    """Folders in which the preloaded packages are found."""
    package_paths: tuple[str, ...] = ()
    """Files and folders of packages that programs may read."""
    cpu: int | None = None
    """Processor core to stay on; None leaves it to the scheduler."""


class Zygote:
    """A running zygote process. Close it, or use it in a `with`.

    Raises:
      SandboxUnavailableError: The level cannot be had here.
      ZygoteDiedError: It ended while starting.
    """

    def __init__(self, options: ZygoteOptions) -> None:
        self.is_portable = options.level == SandboxLevel.D
        """Whether to use only what every Unix has."""
        kind = socket.SOCK_STREAM if self.is_portable else socket.SOCK_SEQPACKET
        self.control, theirs = socket.socketpair(socket.AF_UNIX, kind)
        script = Path(__file__).with_name("zygote.py")
        arguments = {
            "control": theirs.fileno(),
            "level": options.level.value,
            "preload": options.preload,
            "packages": options.packages,
            "search_paths": options.search_paths,
            "package_paths": options.package_paths,
            "cpu": options.cpu,
            "number": secrets.randbelow(1 << 16),
        }
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *INTERPRETER_FLAGS, script, json.dumps(arguments)],
                pass_fds=[theirs.fileno()],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                # A Ctrl-C in the terminal is the owner's to handle.
                start_new_session=True,
            )
        try:
            facts = json.loads(self._receive(START_TIMEOUT_S))
            if "error" in facts:
                raise SandboxUnavailableError(facts["error"])
            self.facts: dict = facts
            """What the zygote says of itself: `has_own_user`, `landlock_abi` ..."""
            self.watches_clock: bool = facts["watches_clock"]
            """Whether it stops a program at its exact processor time."""
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills the zygote and whatever it runs, and waits for its end."""
        self.control.close()
        self.process.kill()
        self.process.wait()

    def send(self, request: Request, files: list[int]) -> None:
        """Sends a request with the descriptors that go with it."""
        payload = array.array("i", files)
        self._send(request.packed(), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, payload)])

    def kill_program(self) -> None:
        """Has the running program ended. It may have ended by itself."""
        self._send(KILL, [])

    def _send(self, message: bytes, ancillary: list) -> None:
        try:
            self.control.sendmsg([message], ancillary)
        except OSError as error:
            raise ZygoteDiedError(f"sandbox zygote does not listen: {error}") from error

    def receive(self, timeout_s: float) -> Reply:
        """Waits for the reply to a request."""
        return unpacked_reply(self._receive(timeout_s))

    def _receive(self, timeout_s: float) -> bytes:
        if not is_readable(self.control, timeout_s):
            raise ZygoteDiedError(f"sandbox zygote silent for {timeout_s:.0f} s")
        try:
            message = self.control.recv(MESSAGE_BYTES)
        except OSError as error:
            raise ZygoteDiedError(f"sandbox zygote broke off: {error}") from error
        if not message:
            raise ZygoteDiedError("sandbox zygote ended")
        return message


class ZygoteKeeper:
    """Has a zygote ready: starts it when first asked for one, and again after its end.

    Args:
      options: How it is started.
    """

    def __init__(self, options: ZygoteOptions) -> None:
        self.options = options
        self._zygote: Zygote | None = None

    def zygote(self) -> Zygote:
        """The zygote that runs.

        Raises:
          SandboxUnavailableError: The level cannot be had here.
          ZygoteDiedError: It ended while starting.
        """
        if self._zygote is None:
            self._zygote = Zygote(self.options)
        return self._zygote

    def close(self) -> None:
        """Ends the zygote and whatever it runs."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()


def is_readable(channel: socket.socket, timeout_s: float) -> bool:
    """Whether something (or the end) arrives in time."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


class RunFiles:
    """The files of one run, in memory (at level D: unnamed temporary files)."""

    def __init__(self, contents: dict[str, bytes], *, in_memory: bool) -> None:
        self.descriptors: dict[str, int] = {}
        try:
            for name, content in contents.items():
                self.descriptors[name] = descriptor = _new_file(name, in_memory)
                _write_all(descriptor, content)
        except BaseException:
            self.close()
            raise

    def size(self, name: str) -> int:
        """Bytes in a file now."""
        return os.fstat(self.descriptors[name]).st_size

    def resize(self, name: str, size: int) -> None:
        """Makes a file so many bytes long; new ones are zero and take no memory."""
        os.ftruncate(self.descriptors[name], size)

    def content(self, name: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` of a file; shorter where the file is."""
        descriptor = self.descriptors[name]
        content = b""
        while len(content) < end - start:
            missing = end - start - len(content)
            piece = os.pread(descriptor, missing, start + len(content))
            if not piece:
                break
            content += piece
        return content

    def close(self) -> None:
        """Gives the files back."""
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.descriptors = {}


def _new_file(name: str, in_memory: bool) -> int:
    if in_memory:
        return os.memfd_create(name, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)


@contextlib.contextmanager
def run_files(contents: dict[str, bytes], *, in_memory: bool) -> Iterator[RunFiles]:
    """`RunFiles` that are closed at the end."""
    files = RunFiles(contents, in_memory=in_memory)
    try:
        yield files
    finally:
        files.close()
