"""The few calls of Linux that Python does not offer, through the C library.

Loaded by the zygote: standard library only.
"""

import ctypes
import functools
import os
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
SIGKILL = 9
MALLOPT_ARENA_MAX = -8
CAPABILITY_VERSION_3 = 0x20080522


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process, with `errno` kept per thread."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def raise_for_errno(result: int, what: str) -> None:
    """Raises OSError where a C call returned less than 0."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@functools.cache
def _fork_of_libc() -> Callable[[], int]:
    # `PyDLL` keeps the interpreter's lock: the child holds it, as its parent did.
    return ctypes.PyDLL(None, use_errno=True).fork


def fork_plainly() -> int:
    """Forks as `os.fork` does, without the interpreter's own work around it.

    That work mends locks which other threads might hold at the moment of the fork. For
    a process of one thread it only writes to pages which the child must then copy: more
    than the fork itself costs. Not to be used where there are other threads.
    """
    pid = _fork_of_libc()()
    raise_for_errno(pid, "fork")
    return pid


def prctl(option: int, value: int) -> None:
    """Changes an attribute of this process."""
    raise_for_errno(libc().prctl(option, value, 0, 0, 0), f"prctl {option}")


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)


def forbid_new_privileges() -> None:
    """No set-uid program or file capability works any more from here on."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def forbid_dumps() -> None:
    """No core dump, not even to a handler on the host, and no debugger."""
    prctl(PR_SET_DUMPABLE, 0)


def use_one_malloc_arena() -> None:
    """Keeps threads from reserving 64 MiB of address space each."""
    if hasattr(libc(), "mallopt"):
        libc().mallopt(MALLOPT_ARENA_MAX, 1)


def drop_capabilities(capset_number: int) -> None:
    """Clears the permitted, effective and inheritable capabilities."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    result = libc().syscall(capset_number, header, nothing)
    raise_for_errno(result, "capset")
