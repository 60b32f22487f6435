"""What this machine offers a run, what is missing, and how to get it."""

import importlib.metadata
import os
import platform
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mark = Literal["ok", "warn", "missing"]

PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "transformers",
    "tokenizers",
    "jinja2",
    "grain",
    "array-record",
    "tensorflow-datasets",
    "wandb",
    "pyarrow",
    "matplotlib",
)
NEEDED_MEMORY_GIB = 4.0
NEEDED_DISK_GIB = 2.0
"""The quickstart's, with room to spare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    mark: Mark
    """`warn`: a run works with less; `missing`: no run can work."""
    value: str
    advice: str = ""
    """What to do about it; empty where all is well."""


def examine() -> list[Finding]:
    """Returns everything that a run depends on, looked up now."""
    return [
        Finding(subject="python", mark="ok", value=platform.python_version()),
        *(_package(name) for name in PACKAGES),
        *_devices(),
        _sandbox(),
        _cores(),
        _memory(),
        _disk("disk for runs", Path.cwd()),
        _disk("disk for data", _cache_folder()),
        _compilation_cache(),
        _wandb_login(),
    ]


def report_lines(findings: list[Finding]) -> Iterator[str]:
    """Yields the findings as lines for the terminal, advice below its finding."""
    width = 2 + max(len(finding.subject) for finding in findings)
    margin = " " * (8 + width)
    for finding in findings:
        yield f"{finding.mark:<8}{finding.subject:<{width}}{finding.value}"
        yield from textwrap.wrap(
            finding.advice,
            width=88,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )


def _package(name: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            subject=name,
            mark="missing",
            value="not installed",
            advice=f"pip install {name}",
        )
    return Finding(subject=name, mark="ok", value=version)


def _devices() -> list[Finding]:
    import jax

    try:
        devices = jax.devices()
    except RuntimeError as error:
        return [
            Finding(
                subject="devices",
                mark="missing",
                value=" ".join(str(error).split()),
                advice="Set JAX_PLATFORMS=cpu, or install the plugin for the device.",
            )
        ]
    kinds = ", ".join(sorted({device.device_kind for device in devices}))
    backend = jax.default_backend()
    extra = _unused_accelerator() if backend == "cpu" else ""
    return [
        Finding(
            subject="devices",
            mark="warn" if extra else "ok",
            value=f"{len(devices)} x {kinds} ({backend})",
            advice=f"There is an accelerator jax does not use. {extra}"
            if extra
            else "",
        )
    ]


def _unused_accelerator() -> str:
    """Returns how to make use of an accelerator that the machine has; empty if none."""
    if Path("/dev/nvidiactl").exists():
        return "pip install 'jaxgrpo[cuda13]' (or cuda12 for older drivers)"
    if list(Path("/dev").glob("accel[0-9]*")):
        return "pip install 'jaxgrpo[tpu]'"
    return ""


def _sandbox() -> Finding:
    from jaxgrpo.host.sandbox import probe

    report = probe()
    reasons = [*report.missing, *(f"To get {text}." for text in report.remedies)]
    if report.level is None:
        mark, value = "missing", "no program runs"
    else:
        details = ", ".join(report.details)
        mark, value = "ok", f"level {report.level} ({report.machine}; {details})"
    if report.level in ("C", "D"):
        mark = "warn"
        reasons.append(
            f"To run as it is, set scorer.sandbox.minimum_level = {report.level.value}"
            + (" and allow_unsafe = true." if report.level == "D" else ".")
        )
    return Finding(subject="sandbox", mark=mark, value=value, advice=" ".join(reasons))


def _cores() -> Finding:
    is_linux = hasattr(os, "sched_getaffinity")
    usable = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count()
    return Finding(subject="cpu cores", mark="ok", value=f"{usable} usable")


def _memory() -> Finding:
    if not Path("/proc/meminfo").exists():
        return Finding(subject="memory", mark="ok", value="not known on this system")
    gib = _available_memory_bytes() / 2**30
    enough = gib >= NEEDED_MEMORY_GIB
    return Finding(
        subject="memory",
        mark="ok" if enough else "warn",
        value=f"{gib:.1f} GiB available",
        advice="" if enough else f"The quickstart wants {NEEDED_MEMORY_GIB:g} GiB.",
    )


def _available_memory_bytes() -> int:
    """Returns what the kernel offers, or less where a container is limited."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    for limit, used in (
        (group / "memory.max", group / "memory.current"),
        (
            group / "memory/memory.limit_in_bytes",
            group / "memory/memory.usage_in_bytes",
        ),
    ):
        if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
            left = int(limit.read_text()) - int(used.read_text())
            available = min(available, max(left, 0))
    return available


def _disk(subject: str, folder: Path) -> Finding:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    gib = shutil.disk_usage(existing).free / 2**30
    problem = ""
    if not os.access(existing, os.W_OK):
        problem = f"{existing} cannot be written. Choose another folder."
    elif gib < NEEDED_DISK_GIB:
        problem = f"The quickstart wants {NEEDED_DISK_GIB:g} GiB."
    return Finding(
        subject=subject,
        mark="warn" if problem else "ok",
        value=f"{gib:.1f} GiB free at {folder}",
        advice=problem,
    )


def _cache_folder() -> Path:
    from jaxgrpo.process import CACHE_FOLDER

    return CACHE_FOLDER


def _compilation_cache() -> Finding:
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR", "")
    return Finding(
        subject="jax cache",
        mark="ok" if folder else "warn",
        value=folder or "off",
        advice="" if folder else "Every run compiles. Set JAX_COMPILATION_CACHE_DIR.",
    )


def _wandb_login() -> Finding:
    import wandb

    wandb.setup(settings=wandb.Settings(silent=True, console="off"))
    try:
        has_login = wandb.login(prompt=False, verify=False)
    except wandb.Error:
        has_login = False
    return Finding(
        subject="wandb login",
        mark="ok" if has_login else "warn",
        value="yes: runs are online" if has_login else "none: runs are kept offline",
        advice="" if has_login else "wandb login, if you want them online.",
    )
