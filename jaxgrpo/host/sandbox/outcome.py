"""From how a child ended to an execution. Nothing the child wrote is trusted."""

import json
import os
import signal
import sys

from jaxgrpo.host.records import ExceptionInfo, Execution, ExecutionStatus, Limits
from jaxgrpo.host.sandbox.owner import RunFiles
from jaxgrpo.host.sandbox.protocol import Reply

REPORT_BYTES = 1 << 16
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
NOTE_CHARACTERS = 500
CLOCK_SLACK_S = 0.1


def execution_of(limits: Limits, reply: Reply, files: RunFiles) -> Execution:
    """What the zygote's reply and the files left behind say of a run.

    Args:
      limits: Of the program.
      reply: The zygote's: wait status, who killed the child, resources used.
      files: The child's output and its report.
    """
    if reply.error:
        return Execution(status="INFRA", reason=reply.error)
    if not reply.was_started:
        note = text_of(files.content("stderr", 0, REPORT_BYTES))
        reason = f"the child did not start (wait status {reply.wait_status}): {note}"
        return Execution(status="INFRA", reason=reason)
    # What ended as it should has nothing to report.
    found = {}
    if reply.wait_status:
        found = read_report(files.content("report", 0, REPORT_BYTES))
    status, reason = status_of(reply, limits.cpu_s, found)
    overflowed = overflowed_file(limits, files)
    if overflowed and status != "INFRA":
        status, reason = "OLE", f"{overflowed} grew beyond {limits.output_bytes} bytes"
    return Execution(
        status=status,
        stdout=text_of(files.content("stdout", 0, limits.output_bytes)),
        stderr=text_of(files.content("stderr", 0, limits.output_bytes)),
        cpu_s=reply.cpu_s,
        wall_s=reply.wall_s,
        peak_bytes=reply.max_rss * RSS_UNIT_BYTES,
        exception=exception_of(found) if status in ("RE", "CE", "MLE") else None,
        reason=reason,
    )


def text_of(content: bytes) -> str:
    """Output as text; what is not UTF-8 becomes replacement characters."""
    return content.decode("utf-8", "replace")


def overflowed_file(limits: Limits, files: RunFiles) -> str:
    """Name of an output that grew beyond the limit, or nothing."""
    for name in ("stdout", "stderr"):
        if files.size(name) > limits.output_bytes:
            return name
    return ""


def status_of(
    reply: Reply, cpu_limit_s: float, found: dict
) -> tuple[ExecutionStatus, str]:
    """Status and reason from how the process ended; its output is not looked at."""
    if reply.killer == "wall":
        return "TLE", "wall-clock limit"
    if reply.killer == "cpu" or reply.cpu_s >= cpu_limit_s:
        return "TLE", "processor time limit"
    if reply.killer == "threads":
        return "RE", "started too many threads"
    if reply.killer == "owner":
        return "RE", "broke the protocol of calls"
    wait_status = reply.wait_status
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        # The kernel's limit is kept by another clock than the usage is told by.
        if number == signal.SIGKILL and reply.cpu_s >= cpu_limit_s - CLOCK_SLACK_S:
            return "TLE", "processor time limit"
        # The filter keeps a program from sending itself SIGKILL.
        if number == signal.SIGKILL:
            return "INFRA", "killed from outside (out of memory on the host?)"
        return "RE", f"killed by {signal.Signals(number).name}"
    code = os.WEXITSTATUS(wait_status)
    if code == 0:
        return "OK", ""
    if found.get("stage") == "compile":
        return "CE", "not a Python program"
    if found.get("is_memory") is True:
        return "MLE", "memory limit"
    return "RE", f"exit status {code}"


def read_report(content: bytes) -> dict:
    """The child's note on its exception; empty where there is none or it is forged."""
    try:
        found = json.loads(content.rstrip(b"\0") or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def exception_of(found: dict) -> ExceptionInfo | None:
    """The exception in a child's note, or None where it holds none.

    A forged note may hold anything in any size; no more is taken over than an honest
    one has.
    """
    if not isinstance(found.get("type"), str):
        return None

    def text(name: str) -> str:
        value = found.get(name)
        return value[:NOTE_CHARACTERS] if isinstance(value, str) else ""

    def number(name: str) -> int | None:
        value = found.get(name)
        return value if type(value) is int and 0 <= value < 2**31 else None

    return ExceptionInfo(
        type_name=text("type"),
        message=text("message"),
        line=number("line"),
        end_line=number("end_line"),
        column=number("column"),
        end_column=number("end_column"),
    )
