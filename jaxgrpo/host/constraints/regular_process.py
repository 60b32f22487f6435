"""Regular expressions compiled in a process of their own, so that none takes for ever.

outlines-core has no bound, and a few patterns take exponential time; what is useful
takes less than a second. The process is ended after some seconds of processor time,
which other jobs on the machine do not use up.
"""

import pickle
import resource
import subprocess
import sys
from functools import lru_cache

from jaxgrpo.host.child_environment import child_environment
from jaxgrpo.host.constraints.byte_automaton import ByteAutomaton
from jaxgrpo.host.constraints.regular import regular

MOST_CPU_S = 10
"""Processor time for one pattern; the process then holds about half a gigabyte."""


@lru_cache(maxsize=16)
def regular_in_time(pattern: str, cpu_s: int = MOST_CPU_S) -> ByteAutomaton:
    """Returns what `regular` does, if it takes no longer than it may.

    Args:
      pattern: As for `regular`.
      cpu_s: Seconds of processor time.

    Raises:
      ValueError: It cannot be compiled, takes longer, or needs too many states.
    """
    ended = subprocess.run(
        [sys.executable, "-c", f"import {__name__} as it; it.main()", str(cpu_s)],
        input=pattern.encode("utf-8", "surrogatepass"),
        stdout=subprocess.PIPE,
        env=child_environment(),
        check=False,
    )
    if ended.returncode < 0:
        raise ValueError(
            f"the pattern {pattern!r} was not compiled after {cpu_s} s: its automaton "
            "grows exponentially. Lower the counts in braces, or keep the repetition "
            "before them from matching the same text: [^a]*a.{30} for .*a.{30}."
        )
    ended.check_returncode()
    result = pickle.loads(ended.stdout)
    if isinstance(result, str):
        raise ValueError(result)
    return result


def main() -> None:
    """Reads a pattern and writes its automaton, or what is wrong with it."""
    cpu_s = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    try:
        result = regular(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    except ValueError as error:
        result = str(error)
    sys.stdout.buffer.write(pickle.dumps(result))
