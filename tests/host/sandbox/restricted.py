"""A process that some system calls are taken from, as in a container."""

import ctypes
import platform

from jaxgrpo.host.sandbox import linux, seccomp
from jaxgrpo.host.sandbox.syscalls import this_architecture

NUMBERS = {
    "x86_64": {"unshare": 272, "seccomp": 317, "landlock_create_ruleset": 444},
    "aarch64": {"unshare": 97, "seccomp": 277, "landlock_create_ruleset": 444},
}


def deny_calls(names: list[str]) -> None:
    """Makes calls fail with EPERM in this process and all that it starts."""
    program = [(seccomp.LOAD_WORD, 0, 0, 0)]
    for name in names:
        number = NUMBERS[platform.machine()][name]
        program += [(seccomp.JUMP_EQUAL, 0, 1, number), seccomp.DENY]
    built = seccomp.Filter([*program, seccomp.answer(seccomp.ALLOW)])
    architecture = this_architecture()
    assert architecture is not None
    linux.forbid_new_privileges()
    # Not by the call itself, which may be among those that are denied later.
    result = linux.libc().syscall(
        architecture.numbers["seccomp"], 1, 0, ctypes.byref(built.argument)
    )
    linux.raise_for_errno(result, "seccomp")
