"""Ruff, run on many programs at once: which rules each of them violates."""

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_S = 30.0
"""Wall-clock seconds for one run, of which a group of programs takes hundredths."""
MAX_KNOWN = 4096
"""Programs whose violations a linter remembers."""
SYNTAX_ERROR = "invalid-syntax"
"""The code that Ruff gives to what is no Python."""
_OF_PLACES = ("INP001", "N999", "CPY001", "EXE")
"""Rules about files and where they lie: the programs have none of their own."""


class LinterMissingError(ValueError):
    """Ruff is not installed."""


@functools.cache
def ruff_path() -> str:
    """Returns the path of the program Ruff, that of this Python's environment first.

    Raises:
      LinterMissingError: There is none.
    """
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("ruff", path=scripts) or shutil.which("ruff")
    if found is None:
        raise LinterMissingError(
            f"the program ruff is neither in {scripts} nor on the PATH. Install it: "
            "pip install 'jaxgrpo[lint]'."
        )
    return found


class Linter:
    r"""Runs Ruff, and remembers what it said of a program.

    No configuration file and no environment variable plays a part, and neither does
    what a program says about Ruff: a `# noqa` suppresses nothing.

    Args:
      select: Rules, by their codes or the beginnings of these.

    Example:
      >>> Linter(("E", "F")).violations(["import os\n", "print(1)\n"])
      [('F401',), ()]
    """

    def __init__(self, select: Sequence[str]) -> None:
        self._select = tuple(select)
        self._known: OrderedDict[str, tuple[str, ...] | None] = OrderedDict()

    def violations(self, sources: Sequence[str]) -> list[tuple[str, ...] | None]:
        """Returns the codes of the rules that each program violates, in their order.

        A code stands there as often as its rule is violated. None where Ruff itself
        fails on a program, as it does where expressions nest too deeply for it.

        Args:
          sources: Programs that can be encoded.

        Raises:
          LinterMissingError: Ruff is not installed.
          ValueError: Ruff does not know one of the rules.
        """
        new = [source for source in dict.fromkeys(sources) if source not in self._known]
        found = {source: self._known.get(source) for source in sources}
        found |= zip(new, self._checked(new), strict=True)
        for source in new:
            self._known[source] = found[source]
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return [found[source] for source in sources]

    def _checked(self, sources: Sequence[str]) -> list[tuple[str, ...] | None]:
        """All in one process; halved where that fails, until it is known by which."""
        if not sources:
            return []
        found = self._run(sources)
        if found is not None:
            return list(found)
        if len(sources) == 1:
            return [None]
        middle = len(sources) // 2
        return [*self._checked(sources[:middle]), *self._checked(sources[middle:])]

    def _run(self, sources: Sequence[str]) -> list[tuple[str, ...]] | None:
        with tempfile.TemporaryDirectory(prefix="jaxgrpo-lint-") as folder:
            for index, source in enumerate(sources):
                text = source if source.endswith("\n") else f"{source}\n"
                (Path(folder) / f"program_{index}.py").write_bytes(text.encode())
            try:
                done = subprocess.run(
                    self._command(),
                    cwd=folder,
                    env={"RAYON_NUM_THREADS": "1", "HOME": folder},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TIMEOUT_S,
                )
            except subprocess.TimeoutExpired:
                return None
        if done.returncode == 2:
            message = done.stderr.decode(errors="replace").strip().splitlines()
            raise ValueError(
                f"ruff refuses the rules {', '.join(self._select)}: "
                f"{' '.join(message[:3])}"
            )
        if done.returncode not in (0, 1):
            return None
        return _by_program(json.loads(done.stdout), len(sources))

    def _command(self) -> list[str]:
        version = sys.version_info
        return [
            ruff_path(),
            "check",
            "--isolated",
            "--no-cache",
            "--ignore-noqa",
            "--no-respect-gitignore",
            "--no-fix",
            "--output-format=json",
            f"--target-version=py{version.major}{version.minor}",
            f"--select={','.join(self._select)}",
            f"--ignore={','.join(_OF_PLACES)}",
            ".",
        ]


def _by_program(reports: list[dict], num_programs: int) -> list[tuple[str, ...]]:
    found: list[list[tuple[int, int, str]]] = [[] for _ in range(num_programs)]
    for report in reports:
        stem = os.path.splitext(os.path.basename(report["filename"]))[0]
        place = report["location"]
        # Versions before 0.12 name no code where the syntax is wrong.
        code = report["code"] or SYNTAX_ERROR
        found[int(stem.removeprefix("program_"))].append(
            (place["row"], place["column"], code)
        )
    return [tuple([code for _, _, code in sorted(codes)]) for codes in found]
