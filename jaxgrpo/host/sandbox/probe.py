"""What sandbox this machine can have, for `jaxgrpo doctor`."""

import platform
from dataclasses import dataclass

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
    details: tuple[str, ...] = ()
    """What there is at the level found, in words."""


def probe() -> SandboxReport:
    """Starts a sandbox at each level, best first, until one runs a program.

    Level D (not a sandbox) is the last one tried, so that the report tells a machine
    without confinement from one where nothing runs.
    """
    missing, remedies = [], []
    machine = f"{platform.machine()}, {platform.system()} {platform.release()}"
    details: tuple[str, ...] = ()
    level: SandboxLevel | None = None
    for level in SandboxLevel:
        try:
            with Sandbox(level=level, minimum="D", allow_unsafe=True) as sandbox:
                details = details_of(sandbox.facts)
            break
        except SandboxUnavailableError as error:
            missing.append(str(error))
            remedies.append(f"level {level}: {HOW_TO_GET[level]}")
    else:
        level = None
    return SandboxReport(
        level=level,
        missing=tuple(missing),
        remedies=tuple(remedies),
        machine=machine,
        details=details,
    )


def details_of(facts: dict) -> tuple[str, ...]:
    """What a zygote says of itself, in words."""
    abi = facts["landlock_abi"]
    return (
        f"Landlock ABI {abi}" if abi else "no Landlock",
        "a user of its own" if facts["has_own_user"] else "the user who runs it",
        "exact processor time" if facts["watches_clock"] else "no processor clock",
    )
