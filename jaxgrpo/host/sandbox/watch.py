"""How the zygote waits for a child: until it ends, or must be killed at a limit.

Loaded by the zygote: standard library only.
"""

import math
import os
import select
import socket
import time

from .protocol import MESSAGE_BYTES, Request

CPU_TICK_S = 0.001
"""Shortest pause between two looks at a child's processor clock."""
THREAD_TICK_S = 0.02
"""Longest pause between two looks at its threads, where no limit counts them."""
ASKING_TICK_S = 0.002
SIGKILL = 9


def cpu_clock_s(pid: int) -> float:
    """Processor seconds used so far by a child and its threads."""
    # The kernel's encoding of a process's scheduler clock.
    return time.clock_gettime((~pid << 3) | 2)


def num_threads(pid: int) -> int:
    """Threads of a child; 0 where the system does not show its processes."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        # The fields after the name, which may hold anything in parentheses.
        fields = os.read(descriptor, MESSAGE_BYTES).rpartition(b")")[2].split()
    except ProcessLookupError:
        return 0
    finally:
        os.close(descriptor)
    return int(fields[17])


def can_watch_clock() -> bool:
    """Whether the kernel offers what `end_under_watch` needs."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        cpu_clock_s(os.getpid())
    except (OSError, AttributeError):
        return False
    return True


def end_under_watch(
    pid: int, control: socket.socket, request: Request, max_threads: float
) -> tuple:
    """Waits for a child's end and kills it at its limits.

    Returns:
      (what it was killed for, wait status, resources used).
    """
    descriptor = os.pidfd_open(pid)
    try:
        killed = reason_to_kill(descriptor, pid, control, request, max_threads)
    finally:
        os.close(descriptor)
    if killed:
        os.kill(pid, SIGKILL)
    return killed, *os.wait4(pid, 0)[1:]


def reason_to_kill(
    descriptor: int,
    pid: int,
    control: socket.socket,
    request: Request,
    max_threads: float,
) -> str:
    """Waits until a child has ended (nothing is returned) or must be killed."""
    deadline = time.monotonic() + request.wall_s
    counts_threads = max_threads < math.inf
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        cpu_left = request.cpu_s - cpu_clock_s(pid)
        wall_left = deadline - time.monotonic()
        if cpu_left <= 0 or wall_left <= 0:
            return "cpu" if cpu_left <= 0 else "wall"
        pause_s = max(CPU_TICK_S, min(cpu_left, wall_left))
        if counts_threads:
            pause_s = min(pause_s, THREAD_TICK_S)
        events = {fd for fd, _ in poll.poll(math.ceil(pause_s * 1000))}
        if descriptor in events:
            return ""
        if control.fileno() in events:
            control.recv(MESSAGE_BYTES)
            return "owner"
        if counts_threads and num_threads(pid) > max_threads:
            return "threads"


def end_by_asking(pid: int, control: socket.socket, request: Request) -> tuple:
    """As `end_under_watch`, where there is only the wall clock to watch."""
    deadline = time.monotonic() + request.wall_s
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return "", status, usage
        readable, _, _ = select.select([control], [], [], ASKING_TICK_S)
        if readable:
            control.recv(MESSAGE_BYTES)
        if readable or time.monotonic() > deadline:
            os.kill(pid, SIGKILL)
            return "owner" if readable else "wall", *os.wait4(pid, 0)[1:]
