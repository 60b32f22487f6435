"""The system call filters: an allow-list in classic BPF, built once per zygote.

Whatever is not listed fails with EPERM, so that a program sees a plain
`PermissionError` and goes on. A call under a foreign architecture kills the process.
"""

import ctypes
import struct

from .syscalls import ALLOWED_CALLS, ZYGOTE_CALLS, Architecture

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


def new_process_or_thread() -> list[Instruction]:
    """Rule for clone: whatever stays in the same namespaces."""
    return [argument(0), (JUMP_ANY_BIT, 0, 1, NAMESPACE_FLAGS), DENY, answer(ALLOW)]


def open_rules(*, read_only_open: bool) -> dict[str, list[Instruction]]:
    """Rules for opening files."""
    if not read_only_open:
        return {"open": [answer(ALLOW)], "openat": [answer(ALLOW)]}
    return {
        "open": argument_has_no_bits(1, OPEN_FOR_WRITING),
        "openat": argument_has_no_bits(2, OPEN_FOR_WRITING),
    }


def zygote_rules() -> dict[str, list[Instruction]]:
    """Rules for calls whose arguments decide, in the zygote and its children."""
    rules = {
        "clone": new_process_or_thread(),
        # glibc falls back to clone, whose flags a filter can see.
        "clone3": [answer(ERRNO | ENOSYS)],
        "socketpair": unix_stream_pair(),
        "sendto": argument_is_null(4),
        "fcntl": argument_is_one_of(1, FCNTL_COMMANDS),
        "ioctl": argument_is_one_of(1, IOCTL_COMMANDS),
    }
    return rules | {name: [answer(ALLOW)] for name in ZYGOTE_CALLS}


def child_rules() -> dict[str, list[Instruction]]:
    """What a child must not do of what its zygote may."""
    rules = {
        "clone": new_thread_only(),
        "kill": signal_to_self(1),
        "tgkill": signal_to_self(2),
        "prlimit64": argument_is_null(2),
    }
    return {name: rules.get(name, [DENY]) for name in ("clone", *ZYGOTE_CALLS)}


class Filter:
    """A filter as the kernel takes it, built once.

    Args:
      program: Its instructions.
    """

    def __init__(self, program: list[Instruction]) -> None:
        code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
        self.buffer = ctypes.create_string_buffer(code, len(code))
        self._holes = [
            8 * index + 4 for index, step in enumerate(program) if step[3] == OWN_PID
        ]
        self.argument = FilterProgram(len(program), ctypes.addressof(self.buffer))

    def fill_in_pid(self, pid: int) -> None:
        """Names the process that may be signalled, which is to be the caller."""
        for hole in self._holes:
            struct.pack_into("=I", self.buffer, hole, pid)


class FilterProgram(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def zygote_filter(
    architecture: Architecture, *, read_only_open: bool = False
) -> Filter:
    """The allow-list. Children inherit it, and add `child_filter`.

    That the long one is in force before they exist spares each of them its compilation
    by the kernel.

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
    rules = zygote_rules() | open_rules(read_only_open=read_only_open)
    program += _decisions(rules, numbers)
    for name in ALLOWED_CALLS:
        if name in numbers:
            program += [(JUMP_EQUAL, 0, 1, numbers[name]), answer(ALLOW)]
    return Filter([*program, DENY])


def child_filter(architecture: Architecture) -> Filter:
    """What comes on top of the zygote's filter; it names the child's own process."""
    program = [(LOAD_WORD, 0, 0, 0), *_decisions(child_rules(), architecture.numbers)]
    return Filter([*program, answer(ALLOW)])


def _decisions(
    rules: dict[str, list[Instruction]], numbers: dict[str, int]
) -> list[Instruction]:
    program: list[Instruction] = []
    for name, rule in rules.items():
        if name in numbers:
            program += [(JUMP_EQUAL, 0, len(rule), numbers[name]), *rule]
    return program
