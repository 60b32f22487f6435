"""What a child gives up for good before it runs a program.

Loaded by the zygote: standard library only. The order matters: limits and Landlock
need calls that the seccomp filter takes away, so the filter comes last.
"""

import contextlib
import ctypes
import fcntl
import math
import os
import resource
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from glob import glob

from . import landlock, seccomp
from .linux import (
    die_with_parent,
    drop_capabilities,
    forbid_dumps,
    forbid_new_privileges,
    fork_plainly,
    libc,
    raise_for_errno,
)
from .syscalls import Architecture

LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")
READABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
WRITABLE_DEVICES = ("/dev/null",)
SECCOMP_SET_MODE_FILTER, SECCOMP_GET_ACTION_AVAIL = 1, 2
MAX_OPEN_FILES = 64
MAX_THREADS = 128
MAX_DESCRIPTORS = 1 << 12
FIRST_KEPT_DESCRIPTOR = 16
STACK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What every child of one zygote is confined by; prepared once."""

    architecture: Architecture | None
    """None where no table of call numbers exists: no Landlock and no filter."""
    ruleset: int | None
    """Descriptor of the Landlock rules; None below level B."""
    filters: tuple[seccomp.Filter, ...]
    """The zygote's seccomp filter and each child's; none at level D."""
    base_bytes: int
    """Address space of the idle zygote; a program's budget comes on top. 0 where the
    system does not tell (macOS): then memory is not limited."""
    has_own_user: bool
    """Whether the user id is the sandbox's own, so that RLIMIT_NPROC counts only us."""

    @property
    def landlock_abi(self) -> int:
        """Version of the Landlock rules that hold; 0 where none do."""
        if self.architecture is None or self.ruleset is None:
            return 0
        return landlock.landlock_abi(self.architecture)

    @property
    def fork(self) -> Callable[[], int]:
        """How a process of one thread makes a child."""
        return os.fork if self.architecture is None else fork_plainly

    @property
    def max_watched_threads(self) -> float:
        """Threads a child may have; infinite where the kernel counts them."""
        return math.inf if self.has_own_user else MAX_THREADS


def require_filters(architecture: Architecture) -> None:
    """Raises OSError where the kernel or a container forbids system call filters."""
    action = ctypes.c_uint32(seccomp.KILL_PROCESS)
    number = architecture.numbers["seccomp"]
    result = libc().syscall(number, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action))
    raise_for_errno(result, "seccomp")


def limits_only() -> Confinement:
    """Level D: nothing but resource limits."""
    return Confinement(
        architecture=None,
        ruleset=None,
        filters=(),
        base_bytes=address_space_bytes(),
        has_own_user=False,
    )


def full_confinement(
    architecture: Architecture,
    *,
    has_landlock: bool,
    has_own_root: bool,
    package_paths: list[str],
    base_bytes: int,
    has_own_user: bool,
) -> Confinement:
    """Levels A to C: Landlock where asked for, and the system call filter.

    Args:
      architecture: Whose call numbers to use.
      has_landlock: Whether to have Landlock rules.
      has_own_root: Whether the file system holds nothing that is to be hidden.
      package_paths: Of packages that programs may read.
      base_bytes: Address space of the idle zygote.
      has_own_user: Whether the user id is the sandbox's own.
    """
    folders = python_folders()
    # What a folder of libraries contains beyond them takes a rule for each other file
    # in it, and each child's rules are merged anew.
    excluded = () if has_own_root else site_folders(folders)
    ruleset = None
    if has_landlock:
        ruleset = landlock_rules(architecture, folders, excluded, package_paths)
    allow_list = seccomp.zygote_filter(architecture, read_only_open=not has_landlock)
    return Confinement(
        architecture=architecture,
        ruleset=ruleset,
        filters=(allow_list, seccomp.child_filter(architecture)),
        base_bytes=base_bytes,
        has_own_user=has_own_user,
    )


def python_folders() -> list[str]:
    """Folders a Python program needs to read: libraries and the standard library."""
    stdlib = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    prefix = os.path.join(sys.base_prefix, "lib")
    folders = [*LIBRARY_FOLDERS, prefix, *sorted(stdlib)]
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def site_folders(folders: list[str]) -> tuple[str, ...]:
    """Folders of installed packages below the given ones; never shown to a program."""
    patterns = [
        os.path.join(folder, *middle, name)
        for folder in folders
        for middle in ((), ("python*",))
        for name in ("site-packages", "dist-packages")
    ]
    return tuple(sorted({path for pattern in patterns for path in glob(pattern)}))


def address_space_bytes() -> int:
    """Address space of this process now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except FileNotFoundError:
        return 0


def landlock_rules(
    architecture: Architecture,
    folders: list[str],
    excluded: tuple[str, ...],
    package_paths: list[str],
) -> int:
    """Rules for the standard library, the allowed packages and harmless devices."""
    readable = [
        path
        for folder in folders
        if not os.path.islink(folder)
        for path in landlock.covering_paths(folder, excluded)
    ]
    ruleset = landlock.read_only_ruleset(
        architecture,
        readable=[*readable, *package_paths, *READABLE_DEVICES],
        listable=folders,
        writable=list(WRITABLE_DEVICES),
    )
    # Out of the way of the child's own descriptors, which are put at fixed places.
    moved = fcntl.fcntl(ruleset, fcntl.F_DUPFD_CLOEXEC, FIRST_KEPT_DESCRIPTOR)
    os.close(ruleset)
    return moved


def set_limit(kind: int, value: int) -> None:
    """Sets a resource limit, soft and hard alike, never above the present hard one."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def set_lasting_limits(confinement: Confinement) -> None:
    """Sets the limits that are the same for every program; children inherit them."""
    with contextlib.suppress(ValueError):  # A lower hard limit stands.
        set_limit(resource.RLIMIT_STACK, STACK_BYTES)
    set_limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    set_limit(resource.RLIMIT_CORE, 0)
    if confinement.has_own_user:
        set_limit(resource.RLIMIT_NPROC, MAX_THREADS)
    for name in ("RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"):
        if hasattr(resource, name):
            set_limit(getattr(resource, name), 0)


def set_limits(
    confinement: Confinement, *, cpu_s: int, memory_bytes: int, file_bytes: int
) -> None:
    """Sets the limits of one program's process for good.

    Args:
      confinement: Supplies the address space that comes free.
      cpu_s: Processor seconds after which the kernel kills the process.
      memory_bytes: Address space beyond that of the idle zygote.
      file_bytes: Largest size a file can grow to: bounds the output.
    """
    if confinement.base_bytes:
        set_limit(resource.RLIMIT_AS, confinement.base_bytes + memory_bytes)
    set_limit(resource.RLIMIT_CPU, cpu_s)
    set_limit(resource.RLIMIT_FSIZE, file_bytes)


def give_up_privileges(confinement: Confinement) -> None:
    """Takes from this process and its children what neither need have."""
    set_lasting_limits(confinement)
    architecture = confinement.architecture
    if architecture is None:
        return
    forbid_dumps()
    forbid_new_privileges()
    drop_capabilities(architecture.numbers["capset"])
    _install_filter(architecture, confinement.filters[0])


def confine(confinement: Confinement, *, first_closed: int) -> None:
    """Takes files and system calls from this process for good.

    Its parent has given up privileges before.

    Args:
      confinement: What to be confined by.
      first_closed: This descriptor and all above it are closed.
    """
    architecture = confinement.architecture
    if architecture is None:
        os.closerange(first_closed, MAX_DESCRIPTORS)
        return
    die_with_parent()
    if confinement.ruleset is not None:
        landlock.enforce_ruleset(architecture, confinement.ruleset)
    os.closerange(first_closed, MAX_DESCRIPTORS)
    confinement.filters[1].fill_in_pid(os.getpid())
    _install_filter(architecture, confinement.filters[1])


def _install_filter(architecture: Architecture, built: seccomp.Filter) -> None:
    number = architecture.numbers["seccomp"]
    argument = ctypes.byref(built.argument)
    result = libc().syscall(number, SECCOMP_SET_MODE_FILTER, 0, argument)
    raise_for_errno(result, "seccomp")
