"""The system call filter: an allow-list in classic BPF, built once per zygote.

Whatever is not listed fails with EPERM, so that a program sees a plain
`PermissionError` and goes on. A call under a foreign architecture kills the process.
"""

import ctypes
import struct

from .syscalls import ALLOWED_CALLS, Architecture

LOAD_WORD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 6
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
OWN_PID = 0xFFFFFFFF
"""Stands in the built filter where the child's own process id goes."""

THREAD_FLAGS = 0x00010000 | 0x00000100
"""CLONE_THREAD and CLONE_VM: both must be set."""
NAMESPACE_FLAGS = 0x7E020080
"""CLONE_NEW*: none may be set."""
OPEN_FOR_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_TMPFILE (without O_DIRECTORY)."""
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 1032)
"""Duplicate, descriptor flags, status flags, pipe size. Not F_SETOWN or F_SETSIG,
which would send signals to other processes, nor locks and seals."""
IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS (isatty), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
UNIX, STREAM, SOCKET_TYPE_MASK = 1, 1, 0xF
SIGKILL = 9

Instruction = tuple[int, int, int, int]


def argument(index: int, *, high: bool = False) -> Instruction:
    """Instruction that loads one half of a call's argument (little-endian)."""
    return (LOAD_WORD, 0, 0, 16 + 8 * index + (4 if high else 0))


def answer(action: int) -> Instruction:
    """Instruction that ends the filter."""
    return (RETURN, 0, 0, action)


DENY = answer(ERRNO | EPERM)


def argument_is_one_of(index: int, values: tuple[int, ...]) -> list[Instruction]:
    """Rule: allow if the low word of an argument equals one of `values`."""
    rule = [argument(index)]
    for value in values:
        rule += [(JUMP_EQUAL, 0, 1, value), answer(ALLOW)]
    return [*rule, DENY]


def argument_is_null(index: int) -> list[Instruction]:
    """Rule: allow if a pointer argument is NULL."""
    return [
        argument(index),
        (JUMP_EQUAL, 0, 3, 0),
        argument(index, high=True),
        (JUMP_EQUAL, 0, 1, 0),
        answer(ALLOW),
        DENY,
    ]


def argument_has_no_bits(index: int, bits: int) -> list[Instruction]:
    """Rule: allow if none of `bits` is set in the low word of an argument."""
    return [argument(index), (JUMP_ANY_BIT, 1, 0, bits), answer(ALLOW), DENY]


def new_thread_only() -> list[Instruction]:
    """Rule for clone: a thread of this process in the same namespaces."""
    rule = [argument(0), (JUMP_ANY_BIT, 0, 1, NAMESPACE_FLAGS), DENY]
    for bit in (0x00010000, 0x00000100):
        rule += [(JUMP_ANY_BIT, 1, 0, bit), DENY]
    return [*rule, answer(ALLOW)]


def signal_to_self(signal_index: int) -> list[Instruction]:
    """Rule for kill and tgkill: to this process, and not SIGKILL.

    A SIGKILL that the sandbox did not send then always comes from outside, e.g. from
    the out-of-memory killer, and can be told from the program's own doing.
    """
    return [
        argument(signal_index),
        (JUMP_EQUAL, 0, 1, SIGKILL),
        DENY,
        *argument_is_one_of(0, (OWN_PID,)),
    ]


def unix_stream_pair() -> list[Instruction]:
    """Rule for socketpair: unnamed stream sockets, which cannot address others."""
    plain = [STREAM | flags for flags in (0, 0o4000, 0o2000000, 0o2004000)]
    return [
        argument(0),
        (JUMP_EQUAL, 1, 0, UNIX),
        DENY,
        *argument_is_one_of(1, tuple(plain)),
    ]


def call_rules(*, read_only_open: bool) -> dict[str, list[Instruction]]:
    """Rules for the calls that are allowed depending on their arguments."""
    rules = {
        "clone": new_thread_only(),
        # glibc falls back to clone, whose flags a filter can see.
        "clone3": [answer(ERRNO | ENOSYS)],
        "kill": signal_to_self(1),
        "tgkill": signal_to_self(2),
        "socketpair": unix_stream_pair(),
        "sendto": argument_is_null(4),
        "prlimit64": argument_is_null(2),
        "fcntl": argument_is_one_of(1, FCNTL_COMMANDS),
        "ioctl": argument_is_one_of(1, IOCTL_COMMANDS),
    }
    open_rules = {"open": [answer(ALLOW)], "openat": [answer(ALLOW)]}
    if read_only_open:
        open_rules = {
            "open": argument_has_no_bits(1, OPEN_FOR_WRITING),
            "openat": argument_has_no_bits(2, OPEN_FOR_WRITING),
        }
    return rules | open_rules


def build_filter(
    architecture: Architecture, *, read_only_open: bool = False
) -> tuple[bytes, tuple[int, ...]]:
    """The filter's bytes, and the offsets at which the own process id is to be put.

    Args:
      architecture: Whose numbers to use.
      read_only_open: Also refuse to open anything for writing (where Landlock, which
        would decide it by path, is missing).
    """
    numbers = architecture.numbers
    program = [(LOAD_WORD, 0, 0, 4), (JUMP_EQUAL, 1, 0, architecture.audit_arch)]
    program += [answer(KILL_PROCESS), (LOAD_WORD, 0, 0, 0)]
    if architecture.has_x32:
        program += [(JUMP_AT_LEAST, 0, 1, 0x40000000), answer(KILL_PROCESS)]
    for name, rule in call_rules(read_only_open=read_only_open).items():
        if name in numbers:
            program += [(JUMP_EQUAL, 0, len(rule), numbers[name]), *rule]
    for name in ALLOWED_CALLS:
        if name in numbers:
            program += [(JUMP_EQUAL, 0, 1, numbers[name]), answer(ALLOW)]
    program.append(DENY)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    holes = [8 * i + 4 for i, step in enumerate(program) if step[3] == OWN_PID]
    return code, tuple(holes)


def fill_in_pid(code: bytes, holes: tuple[int, ...], pid: int) -> bytes:
    """The filter with the process id of its own process in every hole."""
    filled = bytearray(code)
    for hole in holes:
        struct.pack_into("=I", filled, hole, pid)
    return bytes(filled)


class FilterProgram(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def filter_program(code: bytes) -> FilterProgram:
    """A filter as the kernel takes it."""
    return FilterProgram(len(code) // 8, code)
