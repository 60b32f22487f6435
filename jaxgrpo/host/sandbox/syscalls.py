"""System call numbers and the list of calls a confined program may make.

Loaded by the zygote, so it needs the standard library alone. The numbers are those
of the kernel's own headers: `asm/unistd_64.h` for x86_64, `asm-generic/unistd.h` for
aarch64 (which has no old calls such as `open`, only `openat`).
"""

import platform
from dataclasses import dataclass

ALLOWED_CALLS = (
    # Files that are already open, or that Landlock lets be opened.
    "read write close fstat lseek pread64 pwrite64 readv writev preadv pwritev "
    "ftruncate fsync fdatasync dup dup2 dup3 pipe pipe2 access faccessat faccessat2 "
    "stat lstat newfstatat statx readlink readlinkat getdents64 getcwd chdir umask "
    # Memory.
    "mmap mprotect munmap mremap msync madvise brk "
    # Signals that stay inside the process.
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait "
    "sigaltstack pause alarm getitimer setitimer restart_syscall "
    # Waiting and clocks.
    "select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait "
    "epoll_pwait eventfd2 nanosleep clock_nanosleep clock_gettime clock_getres "
    "gettimeofday time times sched_yield "
    # Threads of this process (creating one is a rule of its own).
    "futex set_tid_address set_robust_list rseq sched_getaffinity getcpu "
    # Questions about oneself.
    "getpid getppid gettid getuid getgid geteuid getegid getresuid getresgid "
    "getgroups getpgrp getpgid getsid uname sysinfo getrusage getrlimit getrandom "
    # Both ends of an unnamed socket pair (making one is a rule of its own).
    "recvfrom shutdown exit exit_group"
).split()
"""Allowed whatever their arguments. Rules on arguments are in `seccomp.py`."""
ZYGOTE_CALLS = (
    "recvmsg pidfd_open kill tgkill wait4 prctl prlimit64 close_range seccomp "
    "landlock_restrict_self"
).split()
"""What the zygote needs beyond that, to watch its children and for them to begin."""

# fmt: off
X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6,
    "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
    "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22,
    "select": 23, "sched_yield": 24, "mremap": 25, "msync": 26, "madvise": 28,
    "dup": 32, "dup2": 33, "pause": 34, "nanosleep": 35, "getitimer": 36, "alarm": 37,
    "setitimer": 38, "getpid": 39, "sendto": 44, "recvfrom": 45, "recvmsg": 47,
    "shutdown": 48, "socketpair": 53, "clone": 56, "exit": 60, "wait4": 61, "kill": 62,
    "uname": 63, "fcntl": 72,
    "fsync": 74, "fdatasync": 75, "ftruncate": 77, "getcwd": 79, "chdir": 80,
    "readlink": 89, "umask": 95, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98,
    "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "getppid": 110, "getpgrp": 111, "getgroups": 115, "getresuid": 118,
    "getresgid": 120, "getpgid": 121, "getsid": 124, "capset": 126,
    "rt_sigpending": 127, "rt_sigtimedwait": 128, "sigaltstack": 131,
    "pivot_root": 155, "prctl": 157, "gettid": 186, "time": 201, "futex": 202,
    "sched_getaffinity": 204, "epoll_create": 213, "getdents64": 217,
    "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228,
    "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232,
    "epoll_ctl": 233, "tgkill": 234, "openat": 257, "newfstatat": 262,
    "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271,
    "set_robust_list": 273, "epoll_pwait": 281, "eventfd2": 290, "epoll_create1": 291,
    "dup3": 292, "pipe2": 293, "preadv": 295, "pwritev": 296, "prlimit64": 302,
    "getcpu": 309, "seccomp": 317, "getrandom": 318, "statx": 332, "rseq": 334,
    "pidfd_open": 434, "clone3": 435, "close_range": 436, "faccessat2": 439,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
AARCH64 = {
    "getcwd": 17, "eventfd2": 19, "epoll_create1": 20, "epoll_ctl": 21,
    "epoll_pwait": 22, "dup": 23, "dup3": 24, "fcntl": 25, "ioctl": 29,
    "pivot_root": 41, "ftruncate": 46, "faccessat": 48, "chdir": 49, "openat": 56,
    "close": 57, "pipe2": 59, "getdents64": 61, "lseek": 62, "read": 63, "write": 64,
    "readv": 65, "writev": 66, "pread64": 67, "pwrite64": 68, "preadv": 69,
    "pwritev": 70, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79,
    "fstat": 80, "fsync": 82, "fdatasync": 83, "capset": 91, "exit": 93,
    "exit_group": 94, "set_tid_address": 96, "futex": 98, "set_robust_list": 99,
    "nanosleep": 101, "getitimer": 102, "setitimer": 103, "clock_gettime": 113,
    "clock_getres": 114, "clock_nanosleep": 115, "sched_getaffinity": 123,
    "sched_yield": 124, "restart_syscall": 128, "kill": 129, "tgkill": 131,
    "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
    "rt_sigpending": 136, "rt_sigtimedwait": 137, "rt_sigreturn": 139, "getresuid": 148,
    "getresgid": 150, "times": 153, "getpgid": 155, "getsid": 156, "getgroups": 158,
    "uname": 160, "getrlimit": 163, "getrusage": 165, "umask": 166, "prctl": 167,
    "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174,
    "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178, "sysinfo": 179,
    "socketpair": 199, "sendto": 206, "recvfrom": 207, "shutdown": 210, "recvmsg": 212,
    "brk": 214, "munmap": 215, "mremap": 216, "clone": 220, "mmap": 222,
    "mprotect": 226, "msync": 227, "madvise": 233, "wait4": 260, "prlimit64": 261,
    "seccomp": 277, "getrandom": 278, "statx": 291, "rseq": 293, "pidfd_open": 434,
    "clone3": 435, "close_range": 436, "faccessat2": 439,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What the confinement must know of a processor family."""

    name: str
    audit_arch: int
    """The value seccomp filters see; a call made under another one is refused."""
    numbers: dict[str, int]
    has_x32: bool = False
    """Whether a second set of numbers exists behind bit 30 (x32 on x86_64)."""


ARCHITECTURES = {
    "x86_64": Architecture(
        name="x86_64", audit_arch=0xC000003E, numbers=X86_64, has_x32=True
    ),
    "aarch64": Architecture(name="aarch64", audit_arch=0xC00000B7, numbers=AARCH64),
}


def this_architecture(machine: str = "") -> Architecture | None:
    """The running machine's architecture, or None where no table exists for it.

    Args:
      machine: Name as in `platform.machine()`; empty asks the running system.

    Example:
      >>> this_architecture("aarch64").numbers["openat"]
      56
      >>> this_architecture("sparc64") is None
      True
    """
    return ARCHITECTURES.get(machine or platform.machine())
