"""Level A: the zygote sees a machine with nothing on it but Python's libraries.

Own user, mount, network, IPC, host name and process namespaces. Loaded by the
zygote: standard library only.
"""

import ctypes
import os

from .confinement import READABLE_DEVICES, python_folders, site_folders
from .linux import libc, raise_for_errno
from .syscalls import Architecture

NEW_MOUNT, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = NEW_MOUNT | NEW_CGROUP | NEW_UTS | NEW_IPC | NEW_PID | NEW_NET
READ_ONLY, NO_SUID, NO_DEVICES, REMOUNT, BIND = 1, 2, 4, 32, 4096
RECURSIVE, PRIVATE = 16384, 1 << 18
KEPT_FLAGS = ((8, 8), (1024, 1024), (2048, 2048), (4096, 1 << 21))
"""(flag of statvfs, flag of mount): a user namespace may not take these off."""
DETACH = 2
FIRST_OWN_UID, NUM_OWN_UIDS = 62000, 2000
"""User ids that no account uses (between systemd's dynamic ones and nobody)."""
NEW_ROOT = "/proc"
"""Where the new root is put together: exists everywhere, and holds no library."""


def _unshare(flags: int) -> None:
    raise_for_errno(libc().unshare(flags), "unshare")


def enter_namespaces() -> None:
    """Leaves the host's namespaces; the next child is the new ones' first process.

    Root needs no user namespace. Anyone else gets one, with one user in it.
    """
    if os.geteuid() == 0:
        _unshare(NAMESPACES)
        return
    uid, gid = os.getuid(), os.getgid()
    _unshare(NAMESPACES | NEW_USER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{FIRST_OWN_UID} {uid} 1"),
        ("gid_map", f"{FIRST_OWN_UID} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = libc().mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    raise_for_errno(result, f"mount {target}")


def _make_read_only(path: str) -> None:
    present = os.statvfs(path).f_flag
    kept = sum(flag for seen, flag in KEPT_FLAGS if present & seen)
    flags = REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEVICES | kept
    _mount("none", path, "", flags)


def _show(path: str) -> None:
    """Puts a file or folder of the host at the same place in the new root."""
    target = NEW_ROOT + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "a", encoding="ascii"):
            pass
    _mount(path, target, "", BIND | RECURSIVE)


def build_root(architecture: Architecture, package_paths: list[str]) -> None:
    """Replaces the file system by a read-only one with Python's libraries alone."""
    _mount("none", "/", "", RECURSIVE | PRIVATE)
    _mount("tmpfs", NEW_ROOT, "tmpfs", NO_SUID | NO_DEVICES, "size=1m,mode=755")
    folders = python_folders()
    shown = []
    for folder in folders:
        if os.path.islink(folder):
            os.makedirs(os.path.dirname(NEW_ROOT + folder), exist_ok=True)
            os.symlink(os.readlink(folder), NEW_ROOT + folder)
        elif not any(folder.startswith(above + "/") for above in shown):
            _show(folder)
            shown.append(folder)
    for folder in shown:
        _make_read_only(NEW_ROOT + folder)
    hidden = [NEW_ROOT + path for path in site_folders(shown)]
    for path in hidden:
        _mount("tmpfs", path, "tmpfs", NO_SUID | NO_DEVICES, "size=1m,mode=755")
    for path in package_paths:
        _show(path)
        _make_read_only(NEW_ROOT + path)
    for path in hidden:
        _make_read_only(path)
    for path in READABLE_DEVICES:
        _show(path)
    os.chdir(NEW_ROOT)
    number = architecture.numbers["pivot_root"]
    raise_for_errno(libc().syscall(number, b".", b"."), "pivot_root")
    raise_for_errno(libc().umount2(b".", DETACH), "umount the host's files")
    os.chdir("/")
    _make_read_only("/")


def own_uid(number: int) -> int:
    """A user id that nothing else on the host is likely to use.

    Args:
      number: Distinct per zygote, so that two do not share a limit on threads.
    """
    return FIRST_OWN_UID + number % NUM_OWN_UIDS


def become_nobody(uid: int) -> None:
    """Leaves root for a user without files or privileges."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def is_readable_by(uid: int, path: str) -> bool:
    """Whether another user could read a file; only root can ask."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        with open(path, "rb"):
            return True
    except PermissionError:
        return False
    finally:
        os.seteuid(0)
        os.setegid(0)
