"""How well a program is confined: levels A (best) to D (not a sandbox)."""

from enum import StrEnum


class SandboxLevel(StrEnum):
    """What confines a program, best first. Compare with `is_at_least`."""

    A = "A"
    """B, inside namespaces: no network, no processes, no files but Python's own."""
    B = "B"
    """Landlock, a system call filter and resource limits. Needs no privilege."""
    C = "C"
    """A system call filter and resource limits: files of the user can be read."""
    D = "D"
    """Resource limits alone: stops accidents, not attacks."""

    def is_at_least(self, other: "SandboxLevel") -> bool:
        """Whether this level confines as well as the other, or better.

        Example:
          >>> SandboxLevel.A.is_at_least(SandboxLevel.B)
          True
        """
        return self.value <= other.value


class SandboxUnavailableError(RuntimeError):
    """The level asked for cannot be had here; the message says how to get it."""


HOW_TO_GET = {
    SandboxLevel.A: (
        "run as root, or let users make user namespaces "
        "(sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, "
        "user.max_user_namespaces above 0, docker run --security-opt seccomp=... "
        "that allows unshare)"
    ),
    SandboxLevel.B: (
        "use Linux 5.13 or newer with Landlock switched on (lsm=landlock,... on the "
        "kernel's command line) in a container whose seccomp profile allows it"
    ),
    SandboxLevel.C: "use Linux on x86_64 or aarch64 with seccomp filters",
    SandboxLevel.D: "use a Unix system",
}
