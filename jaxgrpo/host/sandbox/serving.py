"""The zygote's loop: a request comes, a child runs it, its end is told.

Loaded by the zygote: standard library only.
"""

import array
import contextlib
import fcntl
import gc
import json
import mmap
import os
import socket
import time
from typing import NoReturn

from . import candidate, confinement, preparation, protocol, tester, watch
from .confinement import Confinement
from .protocol import Reply, Request
from .tracing.tracer import Tracer

MAX_DESCRIPTORS = 8
CONTROL, READY = 3, 4
"""The zygote's own descriptors, so that those it receives come after them."""
CHANNEL = 3
"""The child's descriptor of calls, in the place of the control socket."""
FIRST_FREE = 5
FIRST_HIGH_DESCRIPTOR = 32
FAILED_START_CODE = 99


def main(options: dict) -> None:
    """Starts up as told, then serves."""
    control, ready = take_places(options["control"])
    preparation.raise_oom_score()
    if options["cpu"] is not None:
        stay_on(options["cpu"])
    try:
        plan = preparation.prepare(options)
    except (OSError, ImportError) as error:
        text = getattr(error, "strerror", None) or str(error)
        control.sendall(json.dumps({"error": text}).encode())
        return
    facts = {
        "watches_clock": options["level"] != "D" and watch.can_watch_clock(),
        "has_own_user": plan.has_own_user,
        "landlock_abi": plan.landlock_abi,
    }
    candidate.prepare()
    confinement.give_up_privileges(plan)
    server = Server(control, ready, plan, candidate.Report())
    gc.collect()
    gc.freeze()
    control.sendall(json.dumps(facts).encode())
    try:
        server.serve()
    except ConnectionError:
        return


def stay_on(cpu: int) -> None:
    """Stays on one processor core, if it is (still) there for us."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(0, {cpu})


def take_places(control: int) -> tuple[socket.socket, int]:
    """The control socket, and the end at which children say that they are ready.

    Both are put where no descriptor that comes with a request can be in the way.
    """
    ready, write_end = os.pipe()
    os.set_blocking(ready, False)
    high = [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_HIGH_DESCRIPTOR)
        for descriptor in (control, write_end, ready)
    ]
    for descriptor in (control, write_end, ready):
        os.close(descriptor)
    os.dup2(high[0], CONTROL, inheritable=False)
    os.dup2(high[1], READY, inheritable=False)
    os.closerange(high[0], high[1] + 1)
    return socket.socket(fileno=CONTROL), high[2]


class Server:
    """Runs one program after the other, each in a child.

    Args:
      control: Brings requests and takes replies.
      ready: Where a child says that it begins to run its program.
      plan: What children are confined by.
      report: Where they note how the program ended.
    """

    def __init__(
        self,
        control: socket.socket,
        ready: int,
        plan: Confinement,
        report: candidate.Report,
    ) -> None:
        self.control = control
        self.ready = ready
        self.plan = plan
        self.report = report

    def serve(self) -> None:
        """Runs programs until the owner closes its end."""
        ancillary_bytes = socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)
        while True:
            message, ancillary, _, _ = self.control.recvmsg(
                protocol.MESSAGE_BYTES, ancillary_bytes
            )
            if not message:
                return
            if not ancillary:
                continue  # A kill that came too late.
            # Where messages are not kept apart, one may stand before the request.
            request = protocol.unpacked_request(message.lstrip(protocol.KILL))
            descriptors = array.array("i", ancillary[0][2])
            reply = self.run_one(request, descriptors)
            self.control.sendall(reply.packed())

    def run_one(self, request: Request, descriptors: array.array) -> Reply:
        """Forks a child for one program and tells how it ended."""
        started = time.perf_counter()
        parent = os.getpid()
        try:
            pid = self.plan.fork()
            if pid == 0:
                self.child_main(request, descriptors, parent)
        except OSError as error:
            return Reply(error=f"fork: {error}")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if request.watches_clock:
            killer, status, usage = watch.end_under_watch(
                pid, self.control, request, self.plan.max_watched_threads
            )
        else:
            killer, status, usage = watch.end_by_asking(pid, self.control, request)
        try:
            was_started = os.read(self.ready, protocol.MESSAGE_BYTES) != b""
        except BlockingIOError:
            was_started = False
        return Reply(
            killer,
            was_started,
            status,
            usage.ru_utime + usage.ru_stime,
            time.perf_counter() - started,
            usage.ru_maxrss,
        )

    def child_main(
        self, request: Request, descriptors: array.array, parent: int
    ) -> NoReturn:
        """Confines this process and runs the program; never returns."""
        try:
            source = candidate.read_all(descriptors[protocol.PROGRAM])
            self.report.open(descriptors[protocol.REPORT])
            watcher = candidate.UNTRACED
            if request.trace_bytes:
                memory = mmap.mmap(descriptors[protocol.TRACE], request.trace_bytes)
                watcher = Tracer(source, memory, request.trace_events)
                self.report.line_of = watcher.line_of
            has_channel = arrange_descriptors(request, descriptors)
            own_bytes = candidate.BALLAST_BYTES + request.trace_bytes
            confinement.set_limits(
                self.plan,
                cpu_s=request.cpu_limit_s,
                memory_bytes=request.memory_bytes + own_bytes,
                file_bytes=request.file_bytes,
            )
            confinement.confine(self.plan, first_closed=FIRST_FREE)
            if os.getppid() != parent:
                candidate.leave(FAILED_START_CODE)  # It died before we followed it.
            # From here on whatever happens is the program's doing.
            os.write(READY, b"r")
            os.close(READY)
            if request.mode == "tests":
                tester.run_tests(self.report, CHANNEL, request.value_bytes)
            if has_channel:
                candidate.run_calls(
                    source, self.report, CHANNEL, request.value_bytes, watcher
                )
            candidate.run_main(source, self.report, watcher)
        except BaseException as error:
            os.write(2, f"sandbox: {type(error).__name__}: {error}".encode())
        finally:
            candidate.leave(FAILED_START_CODE)


def arrange_descriptors(request: Request, descriptors: array.array) -> bool:
    """Puts the passed files where the child wants them; whether there is a channel."""
    os.dup2(descriptors[protocol.STDIN], 0)
    os.dup2(descriptors[protocol.STDOUT], 1)
    os.dup2(descriptors[protocol.STDERR], 2)
    place = protocol.TRACE + bool(request.trace_bytes)
    if len(descriptors) <= place:
        os.close(CHANNEL)
        return False
    os.dup2(descriptors[place], CHANNEL)
    return True
