"""What the kernel knows of this test's processes and descriptors."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def children_of(pid: int) -> dict[int, str]:
    """Direct children, by process id, with their state (Z is a zombie)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found[int(folder.name)] = fields[0]
    return found


def descendants_of(pid: int) -> dict[int, str]:
    """Children, their children and so on."""
    found = children_of(pid)
    for child in list(found):
        found |= descendants_of(child)
    return found


def num_descriptors(pid: int) -> int:
    """Open descriptors of a process; -1 of one that lets nobody look."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except PermissionError:
        return -1


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def becomes_true(fact: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    """Waits for a fact."""
    deadline = time.monotonic() + timeout_s
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def new_children(before: dict[int, str]) -> list[int]:
    """This process's children that were not there before."""
    return [pid for pid in children_of(os.getpid()) if pid not in before]
