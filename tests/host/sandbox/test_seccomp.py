import struct

import pytest

from jaxgrpo.host.sandbox.seccomp import (
    ALLOW,
    EPERM,
    ERRNO,
    KILL_PROCESS,
    Filter,
    child_filter,
    zygote_filter,
)
from jaxgrpo.host.sandbox.syscalls import (
    ALLOWED_CALLS,
    ARCHITECTURES,
    ZYGOTE_CALLS,
    Architecture,
)

OWN_PID = 1234
DENIED = ERRNO | EPERM


def outcome(
    one: Filter, number: int, arguments: tuple[int, ...] = (), arch: int = 0
) -> int:
    """Runs a filter on one call, as the kernel does."""
    padded = (*arguments, *[0] * 6)[:6]
    data = struct.pack("<iIQ6Q", number, arch, 0, *padded)
    program = list(struct.iter_unpack("<HBBI", one.buffer.raw))
    position = accumulator = 0
    while True:
        opcode, if_true, if_false, constant = program[position]
        if opcode == 0x06:
            return constant
        position += 1
        if opcode == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, constant)
            continue
        holds = {
            0x15: accumulator == constant,
            0x35: accumulator >= constant,
            0x45: bool(accumulator & constant),
        }[opcode]
        position += if_true if holds else if_false


@pytest.fixture(params=sorted(ARCHITECTURES))
def architecture(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]


def outcome_in_child(
    architecture: Architecture,
    number: int,
    arguments: tuple[int, ...] = (),
    arch: int = 0,
    **options: bool,
) -> int:
    """The outcome under both filters: the stricter one decides."""
    own = child_filter(architecture)
    own.fill_in_pid(OWN_PID)
    filters = (zygote_filter(architecture, **options), own)
    arch = arch or architecture.audit_arch
    outcomes = [outcome(one, number, arguments, arch) for one in filters]
    # The kernel's order: killing first, allowing last.
    strictness = {KILL_PROCESS: 0, ERRNO | 38: 1, DENIED: 1, ALLOW: 2}
    return min(outcomes, key=strictness.__getitem__)


def judge(architecture: Architecture, name: str, *arguments: int, **options) -> int:
    number = architecture.numbers[name]
    return outcome_in_child(architecture, number, arguments, **options)


def test_numbers_are_distinct(architecture: Architecture):
    numbers = list(architecture.numbers.values())
    assert len(set(numbers)) == len(numbers)


def test_every_listed_call_is_allowed(architecture: Architecture):
    for name in ALLOWED_CALLS:
        if name in architecture.numbers:
            assert judge(architecture, name) == ALLOW, name


def test_every_allowed_call_has_a_number_on_x86_64():
    assert set(ALLOWED_CALLS) <= set(ARCHITECTURES["x86_64"].numbers)


def test_calls_that_only_x86_64_has_are_all_that_aarch64_lacks():
    missing = set(ALLOWED_CALLS) - set(ARCHITECTURES["aarch64"].numbers)
    assert missing == set(
        "access alarm dup2 epoll_create epoll_wait getpgrp lstat pause pipe poll "
        "readlink select stat time".split()
    )


def test_every_number_not_listed_is_denied(architecture: Architecture):
    listed = {
        architecture.numbers[n] for n in ALLOWED_CALLS if n in architecture.numbers
    }
    ruled = (
        "clone clone3 kill tgkill socketpair sendto prlimit64 fcntl ioctl open openat"
    )
    listed |= {architecture.numbers.get(name, -1) for name in ruled.split()}
    for number in set(range(600)) - listed:
        assert outcome_in_child(architecture, number) == DENIED, number


def test_foreign_architecture_is_killed(architecture: Architecture):
    i386 = 0x40000003
    read = architecture.numbers["read"]
    assert outcome_in_child(architecture, read, arch=i386) == KILL_PROCESS


def test_x32_numbers_are_killed():
    x86_64 = ARCHITECTURES["x86_64"]
    assert outcome_in_child(x86_64, 0x40000000) == KILL_PROCESS


def test_zygote_may_fork_watch_and_kill(architecture: Architecture):
    for name in ZYGOTE_CALLS:
        number = architecture.numbers[name]
        allowed = outcome(
            zygote_filter(architecture), number, (), architecture.audit_arch
        )
        assert allowed == ALLOW, name
    clone = architecture.numbers["clone"]
    fork_flags = (0x01200011,)
    zygotes = zygote_filter(architecture)
    assert outcome(zygotes, clone, fork_flags, architecture.audit_arch) == ALLOW


def test_what_only_the_zygote_may_is_denied_in_its_children(
    architecture: Architecture,
):
    by_argument = {"kill", "tgkill", "prlimit64"}
    for name in set(ZYGOTE_CALLS) - by_argument:
        assert judge(architecture, name) == DENIED, name


THREAD = 0x00010000 | 0x00000100 | 0x00000800 | 0x003D0000


@pytest.mark.parametrize(
    ("flags", "action"),
    [
        (THREAD, ALLOW),
        (THREAD & ~0x00010000, DENIED),
        (THREAD & ~0x00000100, DENIED),
        (17, DENIED),
        (0x01200011, DENIED),
        (THREAD | 0x10000000, DENIED),
        (THREAD | 0x00020000, DENIED),
        (THREAD | 0x02000000, DENIED),
        (THREAD | 0x00000080, DENIED),
    ],
    ids=hex,
)
def test_clone_makes_threads_alone(flags: int, action: int, architecture: Architecture):
    assert judge(architecture, "clone", flags) == action


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("kill", (OWN_PID, 15), ALLOW),
        ("kill", (OWN_PID, 9), DENIED),
        ("kill", (1, 15), DENIED),
        ("kill", (0, 15), DENIED),
        ("kill", (2**32 - 1, 15), DENIED),
        ("tgkill", (OWN_PID, 5, 6), ALLOW),
        ("tgkill", (OWN_PID, 5, 9), DENIED),
        ("tgkill", (5, OWN_PID, 6), DENIED),
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 1 | 0o2000000 | 0o4000), ALLOW),
        ("socketpair", (1, 2), DENIED),
        ("socketpair", (2, 1), DENIED),
        ("sendto", (3, 0, 0, 0, 0), ALLOW),
        ("sendto", (3, 0, 0, 0, 2**32), DENIED),
        ("sendto", (3, 0, 0, 0, 8), DENIED),
        ("prlimit64", (0, 7, 0), ALLOW),
        ("prlimit64", (0, 7, 2**40), DENIED),
        ("fcntl", (1, 3), ALLOW),
        ("fcntl", (1, 8), DENIED),
        ("fcntl", (1, 1033), DENIED),
        ("ioctl", (1, 0x5401), ALLOW),
        ("ioctl", (1, 0x5412), DENIED),
        ("openat", (0, 0, 0o2), ALLOW),
    ],
)
def test_arguments_decide(
    name: str, arguments: tuple[int, ...], action: int, architecture: Architecture
):
    assert judge(architecture, name, *arguments) == action


@pytest.mark.parametrize(
    ("flags", "action"),
    [
        (0, ALLOW),
        (0o2000000, ALLOW),
        (0o1, DENIED),
        (0o2, DENIED),
        (0o100, DENIED),
        (0o1000, DENIED),
        (0o20200000, DENIED),
    ],
    ids=oct,
)
def test_files_open_for_reading_alone_where_landlock_is_missing(
    flags: int, action: int, architecture: Architecture
):
    assert judge(architecture, "openat", 0, 0, flags, read_only_open=True) == action
