"""The zygote: a clean, preloaded interpreter that forks once per program.

Started by the owner as `python -S -s -P zygote.py OPTIONS` with an environment of its
own, never forked from the trainer. It needs the standard library alone and does not
import jaxgrpo: its siblings are loaded under the package name `sandbox`. It runs no
program itself, reads none, and never learns an expected value.
"""

import array
import errno
import fcntl
import gc
import importlib
import json
import math
import os
import select
import socket
import sys
import sysconfig
import time
import types
from typing import NoReturn

MESSAGE_BYTES = 1 << 16
MAX_DESCRIPTORS = 8
CHANNEL, READY = 3, 4
"""Descriptors of the child, beside 0, 1 and 2; both closed when `main` mode runs."""
FIRST_HIGH_DESCRIPTOR = 32
CPU_TICK_S = 0.001
"""Shortest pause between two looks at a child's processor clock."""
THREAD_TICK_S = 0.02
"""Longest pause between two looks at its threads, where no limit counts them."""
ASKING_TICK_S = 0.002
FAILED_START_CODE = 99
SIGKILL = 9


def load_siblings() -> None:
    """Makes the modules beside this file importable as the package `sandbox`."""
    package = types.ModuleType("sandbox")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["sandbox"] = package
    globals()["__package__"] = "sandbox"


def preload(options: dict) -> None:
    """Imports modules once, so that no child has to."""
    importlib.import_module("sandbox.candidate")
    sys.path += options["search_paths"]
    for name in options["preload"]:
        importlib.import_module(name)
    # `exit`, `quit` and `help`, which -S leaves out.
    site = importlib.import_module("site")
    site.setquit()
    site.sethelper()


def raise_oom_score() -> None:
    """Makes the kernel's out-of-memory killer take this process first."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        return


def fork_into_namespaces() -> None:
    """Goes on as the first process of new namespaces; this one waits for it."""
    from . import linux, namespaces

    namespaces.enter_namespaces()
    first = os.fork()
    if first:
        os.closerange(3, 256)
        _, status = os.waitpid(first, 0)
        os._exit(0 if status == 0 else 1)
    linux.die_with_parent()


def settle_in_namespaces(architecture, options: dict) -> None:
    """Gives up the host's files and all privileges."""
    from . import linux, namespaces

    namespaces.build_root(architecture, options["package_paths"])
    if os.geteuid() == 0:
        namespaces.become_nobody(namespaces.own_uid(options["number"]))
    linux.drop_capabilities(architecture.numbers["capset"])
    linux.die_with_parent()  # Changing the user has cleared it.


def leave_root_if_possible(options: dict) -> bool:
    """Drops root for a user of its own; False where it must stay who it is.

    A Python below root's home folder could not be read by anyone else; then only the
    capabilities go (in the child).
    """
    from . import namespaces

    if os.geteuid() != 0:
        return False
    uid = namespaces.own_uid(options["number"])
    library = os.path.join(sysconfig.get_path("stdlib"), "os.py")
    try:
        if not namespaces.is_readable_by(uid, library):
            return False
        namespaces.become_nobody(uid)
    except PermissionError:
        return False
    return True


def prepare(options: dict):
    """Everything that is done once; gives what every child is confined by."""
    from . import confinement, linux
    from .syscalls import this_architecture

    level = options["level"]
    if level == "D":
        preload(options)
        return confinement.limits_only()
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"needs Linux, not {sys.platform}")
    architecture = this_architecture()
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no system call table for {os.uname().machine}")
    confinement.require_filters(architecture)
    if level == "A":
        fork_into_namespaces()
    linux.use_one_malloc_arena()
    preload(options)
    base_bytes = confinement.address_space_bytes()
    if level == "A":
        settle_in_namespaces(architecture, options)
        has_own_user = True
    else:
        has_own_user = leave_root_if_possible(options)
    return confinement.full_confinement(
        architecture,
        has_landlock=level in "AB",
        package_paths=options["package_paths"],
        base_bytes=base_bytes,
        has_own_user=has_own_user,
    )


def receive(control: socket.socket) -> tuple[dict, list[int]] | None:
    """The next request and its descriptors; None when the owner is gone."""
    ancillary_bytes = socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)
    try:
        message, ancillary, _, _ = control.recvmsg(MESSAGE_BYTES, ancillary_bytes)
    except ConnectionError:
        return None
    if not message:
        return None
    descriptors = array.array("i")
    for _, _, payload in ancillary:
        descriptors.frombytes(payload)
    return json.loads(message), list(descriptors)


def arrange_descriptors(files: dict[str, int], ready: int) -> None:
    """Puts the passed files where the child wants them, whatever they were."""
    high = {
        name: fcntl.fcntl(descriptor, fcntl.F_DUPFD, FIRST_HIGH_DESCRIPTOR)
        for name, descriptor in (files | {"ready": ready}).items()
    }
    for name, place in (("stdin", 0), ("stdout", 1), ("stderr", 2), ("ready", READY)):
        os.dup2(high[name], place)
    os.dup2(high.get("channel", high["ready"]), CHANNEL)


def child_main(
    request: dict, files: dict[str, int], plan, ready: int, parent: int
) -> NoReturn:
    """Confines this process and runs the program; never returns."""
    from . import candidate, confinement

    try:
        os.setsid()
        source = candidate.read_all(files["program"])
        report = candidate.Report(files["report"])
        arrange_descriptors(files, ready)
        candidate.settle()
        confinement.set_limits(
            plan,
            cpu_s=request["cpu_limit_s"],
            memory_bytes=request["memory_bytes"] + candidate.BALLAST_BYTES,
            file_bytes=request["file_bytes"],
        )
        confinement.confine(plan, first_closed=READY + 1)
        if os.getppid() != parent:
            candidate.leave(FAILED_START_CODE)  # It died before we asked to follow.
        # From here on whatever happens is the program's doing.
        os.write(READY, b"r")
        os.close(READY)
        if "channel" in files:
            candidate.run_calls(source, report, CHANNEL, request["value_bytes"])
        os.close(CHANNEL)
        candidate.run_main(source, report)
    except BaseException as error:
        os.write(2, f"sandbox: {type(error).__name__}: {error}".encode())
    finally:
        candidate.leave(FAILED_START_CODE)


def cpu_clock_s(pid: int) -> float:
    """Processor seconds used so far by a child and its threads."""
    # The kernel's encoding of a process's scheduler clock.
    return time.clock_gettime((~pid << 3) | 2)


def num_threads(pid: int) -> int:
    """Threads of a child; 0 where the system does not show its processes."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The fields after the name, which may hold anything in parentheses.
            return int(file.read().rpartition(b")")[2].split()[17])
    except FileNotFoundError:
        return 0


def can_watch_clock() -> bool:
    """Whether the kernel offers what `end_under_watch` needs."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        cpu_clock_s(os.getpid())
    except (OSError, AttributeError):
        return False
    return True


def end_under_watch(
    pid: int, control: socket.socket, request: dict, max_threads: float
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
    request: dict,
    max_threads: float,
) -> str:
    """Waits until a child has ended (nothing is returned) or must be killed."""
    deadline = time.monotonic() + request["wall_s"]
    counts_threads = max_threads < math.inf
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        cpu_left = request["cpu_s"] - cpu_clock_s(pid)
        wall_left = deadline - time.monotonic()
        if cpu_left <= 0 or wall_left <= 0:
            return "cpu" if cpu_left <= 0 else "wall"
        if counts_threads and num_threads(pid) > max_threads:
            return "threads"
        pause_s = max(CPU_TICK_S, min(cpu_left, wall_left))
        if counts_threads:
            pause_s = min(pause_s, THREAD_TICK_S)
        events = {fd for fd, _ in poll.poll(math.ceil(pause_s * 1000))}
        if descriptor in events:
            return ""
        if control.fileno() in events:
            control.recv(MESSAGE_BYTES)
            return "owner"


def end_by_asking(pid: int, control: socket.socket, request: dict) -> tuple:
    """As `end_under_watch`, where there is only the wall clock to watch."""
    deadline = time.monotonic() + request["wall_s"]
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


def run_one(
    request: dict, descriptors: list[int], control: socket.socket, plan, ready
) -> dict:
    """Forks a child for one program and tells how it ended."""
    files = dict(zip(request["files"], descriptors, strict=True))
    started = time.perf_counter()
    read_end, write_end = ready
    parent = os.getpid()
    try:
        pid = os.fork()
        if pid == 0:
            child_main(request, files, plan, write_end, parent)
    except OSError as error:
        return {"error": f"fork: {error}"}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    if request["watches_clock"]:
        max_threads = plan.max_watched_threads
        killed, status, usage = end_under_watch(pid, control, request, max_threads)
    else:
        killed, status, usage = end_by_asking(pid, control, request)
    try:
        was_started = os.read(read_end, MESSAGE_BYTES) != b""
    except BlockingIOError:
        was_started = False
    return {
        "wait_status": status,
        "killed": killed,
        "was_started": was_started,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": time.perf_counter() - started,
        "max_rss": usage.ru_maxrss,
    }


def serve(control: socket.socket, plan) -> None:
    """Runs programs until the owner closes its end."""
    ready = os.pipe()
    os.set_blocking(ready[0], False)
    while (message := receive(control)) is not None:
        request, descriptors = message
        if not descriptors:
            continue  # A kill that came too late.
        reply = run_one(request, descriptors, control, plan, ready)
        control.sendall(json.dumps(reply).encode())


def main() -> None:
    """Starts up as told by the first argument, then serves."""
    options = json.loads(sys.argv[1])
    control = socket.socket(fileno=options["control"])
    load_siblings()
    raise_oom_score()
    if options["cpu"] is not None:
        os.sched_setaffinity(0, {options["cpu"]})
    try:
        plan = prepare(options)
    except (OSError, ImportError) as error:
        text = getattr(error, "strerror", None) or str(error)
        control.sendall(json.dumps({"error": text}).encode())
        return
    gc.collect()
    gc.freeze()
    watches_clock = options["level"] != "D" and can_watch_clock()
    control.sendall(json.dumps({"watches_clock": watches_clock}).encode())
    try:
        serve(control, plan)
    except ConnectionError:
        return


if __name__ == "__main__":
    main()
