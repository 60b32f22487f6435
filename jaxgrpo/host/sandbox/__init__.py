"""Runs model-written programs: `Sandbox.run(program) -> execution`."""

from jaxgrpo.host.sandbox.examination import TesterTask
from jaxgrpo.host.sandbox.levels import SandboxLevel, SandboxUnavailableError
from jaxgrpo.host.sandbox.probe import SandboxReport, probe
from jaxgrpo.host.sandbox.sandbox import Sandbox

__all__ = [
    "Sandbox",
    "SandboxLevel",
    "SandboxReport",
    "SandboxUnavailableError",
    "TesterTask",
    "probe",
]
