"""A sandbox in a process of another, unprivileged user, for tests that run as root.

    python -m tests.host.sandbox.other_user LEVEL

Gives up root, opens a sandbox and answers pickled programs with pickled executions.
"""

import ctypes
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from jaxgrpo.host.records import Execution, Program
from jaxgrpo.host.sandbox import Sandbox, SandboxLevel, SandboxUnavailableError

REPOSITORY = Path(__file__).parents[3]
NOBODY = 65534
NEW_MOUNTS, PRIVATE, RECURSIVE, BIND = 0x20000, 1 << 18, 16384, 4096


class RemoteSandbox:
    """Runs programs in the sandbox of another user, by the same name as `Sandbox`.

    Args:
      level: Of the sandbox.

    Raises:
      SandboxUnavailableError: That user cannot have it.
    """

    def __init__(self, level: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.host.sandbox.other_user", level],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        greeting = self._receive()
        if greeting != "ready":
            self.close()
            raise SandboxUnavailableError(greeting)
        self.level = SandboxLevel(level)

    def run(self, program: Program) -> Execution:
        """Runs a program once."""
        pickle.dump(program, self._requests)
        self._requests.flush()
        return self._receive()

    def close(self) -> None:
        """Ends the process."""
        self._requests.close()
        self._answers.close()
        self._process.wait()

    def _receive(self) -> Any:
        try:
            return pickle.load(self._answers)
        except EOFError:
            return "the process of the other user ended"


def show_to_everyone(paths: list[Path]) -> None:
    """Lets other users reach folders that lie below a private one, in this process.

    A Python below root's home, say. Nothing outside of this process changes.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: Path, kind: str, flags: int, data: str = "") -> None:
        arguments = (source, str(target), kind, data)
        texts = [text.encode() or None for text in arguments]
        flag = ctypes.c_ulong(flags)
        if libc.mount(texts[0], texts[1], texts[2], flag, texts[3]) < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"mount {target}: {os.strerror(number)}")

    if libc.unshare(NEW_MOUNTS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", Path("/"), "", PRIVATE | RECURSIVE)
    opened = {path: os.open(path, os.O_PATH) for path in paths}
    covered: set[Path] = set()
    for path, descriptor in opened.items():
        private = [
            folder
            for folder in reversed(path.parents)
            if not (covered & {folder, *folder.parents} or is_open(folder))
        ]
        if private:
            mount("tmpfs", private[0], "tmpfs", 0, "mode=755")
            covered.add(private[0])
        if covered & set(path.parents) and not path.exists():
            path.mkdir(parents=True)
            mount(f"/proc/self/fd/{descriptor}", path, "", BIND | RECURSIVE)


def is_open(folder: Path) -> bool:
    """Whether everyone may pass through a folder."""
    return bool(folder.stat().st_mode & 0o001)


def become_nobody() -> None:
    """Leaves root for good and starts this program anew."""
    paths = {sys.base_prefix, sys.prefix, sys.exec_prefix, str(REPOSITORY)}
    show_to_everyone([Path(path).resolve() for path in sorted(paths)])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    module = ["-m", "tests.host.sandbox.other_user", *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *module])


def main() -> None:
    """Serves until standard input ends."""
    answers = sys.stdout.buffer
    try:
        if os.geteuid() == 0:
            become_nobody()
        sandbox = Sandbox(level=sys.argv[1])
    except (OSError, SandboxUnavailableError) as error:
        pickle.dump(str(error), answers)
        return
    with sandbox:
        pickle.dump("ready", answers)
        answers.flush()
        while True:
            try:
                program = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            pickle.dump(sandbox.run(program), answers)
            answers.flush()


if __name__ == "__main__":
    main()
