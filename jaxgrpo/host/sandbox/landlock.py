"""Landlock: which files a confined program may read. Needs no privilege.

Whatever is not listed cannot be opened, and nothing can be written but `/dev/null`.
From Linux 5.13 on; newer kernels also refuse TCP, device calls and signals to
processes outside.
"""

import ctypes
import os
import struct

from .linux import libc, raise_for_errno
from .syscalls import Architecture

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
FIRST_RIGHTS = (1 << 13) - 1
LATER_RIGHTS = ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
"""(ABI, right): refer, truncate, device ioctl."""
BIND_AND_CONNECT_TCP = 0b11
SOCKET_AND_SIGNAL_SCOPES = 0b11
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1


def landlock_abi(architecture: Architecture) -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    number = architecture.numbers["landlock_create_ruleset"]
    return max(0, libc().syscall(number, None, ctypes.c_size_t(0), VERSION_FLAG))


def covering_paths(folder: str, excluded: tuple[str, ...]) -> list[str]:
    """The fewest paths that cover `folder` except what is excluded below it.

    A rule covers all that lies below its path, so a folder that contains something
    excluded is replaced by its children.
    """
    if folder in excluded:
        return []
    if not any(path.startswith(folder + "/") for path in excluded):
        return [folder]
    children = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    return [path for child in children for path in covering_paths(child, excluded)]


def read_only_ruleset(
    architecture: Architecture,
    *,
    readable: list[str],
    listable: list[str],
    writable: list[str],
) -> int:
    """A descriptor of rules that allow reading some paths and nothing else.

    Args:
      architecture: Whose call numbers to use.
      readable: Files, and folders with all that lies below; missing ones are skipped.
      listable: Folders whose names may be listed, without reading the files.
      writable: Files that may also be written.
    """
    abi = landlock_abi(architecture)
    handled = FIRST_RIGHTS
    for since, right in LATER_RIGHTS:
        handled |= right if abi >= since else 0
    fields = [handled]
    fields += [BIND_AND_CONNECT_TCP] if abi >= 4 else []
    fields += [SOCKET_AND_SIGNAL_SCOPES] if abi >= 6 else []
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    numbers = architecture.numbers
    ruleset = libc().syscall(
        numbers["landlock_create_ruleset"],
        attributes,
        ctypes.c_size_t(len(attributes)),
        0,
    )
    raise_for_errno(ruleset, "landlock_create_ruleset")
    rules = [(path, READ_FILE | READ_DIR) for path in readable]
    rules += [(path, READ_DIR) for path in listable]
    rules += [(path, READ_FILE | WRITE_FILE) for path in writable]
    for path, rights in rules:
        _add_rule(numbers["landlock_add_rule"], ruleset, path, rights)
    return ruleset


def _add_rule(number: int, ruleset: int, path: str, rights: int) -> None:
    try:
        folder_or_file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # The kernel refuses a folder's right on a file.
        if not os.path.isdir(path):
            rights &= ~READ_DIR
        rule = struct.pack("=Qi", rights, folder_or_file)
        result = libc().syscall(number, ruleset, RULE_PATH_BENEATH, rule, 0)
        raise_for_errno(result, f"landlock_add_rule {path}")
    finally:
        os.close(folder_or_file)


def enforce_ruleset(architecture: Architecture, ruleset: int) -> None:
    """Confines the calling thread for good; needs no_new_privs."""
    number = architecture.numbers["landlock_restrict_self"]
    raise_for_errno(libc().syscall(number, ruleset, 0), "landlock_restrict_self")
