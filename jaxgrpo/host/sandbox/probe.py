"""What sandbox this machine can have, for `jaxgrpo doctor`."""

import platform
from dataclasses import dataclass

from jaxgrpo.host.records import Program
from jaxgrpo.host.sandbox.levels import (
    HOW_TO_GET,
    SandboxLevel,
    SandboxUnavailableError,
)
from jaxgrpo.host.sandbox.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """The best sandbox to be had here, and what stands in the way of a better one."""

    level: SandboxLevel | None
    """Best level at which a program really ran; None where none did."""
    missing: tuple[str, ...]
    """What failed at each better level, best first; empty at level A."""
    remedies: tuple[str, ...]
    """How to get each of them."""
    machine: str
    """Processor and kernel."""


def probe() -> SandboxReport:
    """Starts a sandbox at each level, best first, until one runs a program.

    Level D (not a sandbox) is the last one tried, so that the report tells a machine
    without confinement from one where nothing runs.
    """
    missing, remedies = [], []
    machine = f"{platform.machine()}, {platform.system()} {platform.release()}"
    for level in SandboxLevel:
        try:
            reason = _reason_against(level)
        except SandboxUnavailableError as error:
            reason = str(error)
        if not reason:
            return SandboxReport(
                level=level,
                missing=tuple(missing),
                remedies=tuple(remedies),
                machine=machine,
            )
        missing.append(reason)
        remedies.append(f"level {level}: {HOW_TO_GET[level]}")
    return SandboxReport(
        level=None,
        missing=tuple(missing),
        remedies=tuple(remedies),
        machine=machine,
    )


def _reason_against(level: SandboxLevel) -> str:
    with Sandbox(level=level, minimum="D", allow_unsafe=True) as sandbox:
        execution = sandbox.run(Program(source="print(6 * 7)"))
    if execution.stdout == "42\n":
        return ""
    return f"level {level}: a program ended with {execution.status}, {execution.reason}"
