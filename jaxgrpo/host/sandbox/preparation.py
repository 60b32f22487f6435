"""What a zygote does once, before it serves: modules, namespaces, another user.

Loaded by the zygote: standard library only.
"""

import errno
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
from importlib.machinery import ModuleSpec

from . import confinement, linux, namespaces
from .confinement import Confinement
from .syscalls import Architecture, this_architecture


def prepare(options: dict) -> Confinement:
    """Everything that is done once; gives what every child is confined by.

    Raises:
      OSError: The level cannot be had here.
      ImportError: A module to preload is missing.
    """
    level = options["level"]
    if level == "D":
        preload(options)
        return confinement.limits_only()
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"needs Linux, not {sys.platform}")
    architecture = this_architecture()
    if architecture is None:
        raise OSError(errno.ENOSYS, f"no system call table for {os.uname().machine}")
    confinement.require_filters(architecture)
    if level == "A":
        fork_into_namespaces()
    linux.use_one_malloc_arena()
    preload(options)
    base_bytes = confinement.address_space_bytes()
    if level == "A":
        settle_in_namespaces(architecture, options)
        has_own_user = True
    else:
        has_own_user = leave_root_if_possible(options)
    return confinement.full_confinement(
        architecture,
        has_landlock=level in "AB",
        has_own_root=level == "A",
        package_paths=options["package_paths"],
        base_bytes=base_bytes,
        has_own_user=has_own_user,
    )


class PackageFinder:
    """Finds packages in a folder that programs may not list: it has looked before.

    Args:
      names: Packages that can be found now.
    """

    def __init__(self, names: list[str]) -> None:
        self._specs = {name: importlib.util.find_spec(name) for name in names}

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """What the import system asks; None for everything else."""
        return self._specs.get(name)


def preload(options: dict) -> None:
    """Imports modules once, so that no child has to."""
    sys.path += options["search_paths"]
    sys.meta_path.append(PackageFinder(options["packages"]))
    for name in options["preload"]:
        importlib.import_module(name)
    # `exit`, `quit` and `help`, which -S leaves out.
    site.setquit()
    site.sethelper()


def raise_oom_score() -> None:
    """Makes the kernel's out-of-memory killer take this process first."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        return


def fork_into_namespaces() -> None:
    """Goes on as the first process of new namespaces; this one waits for it."""
    namespaces.enter_namespaces()
    first = os.fork()
    if first:
        os.closerange(3, 256)
        _, status = os.waitpid(first, 0)
        os._exit(0 if status == 0 else 1)
    linux.die_with_parent()


def settle_in_namespaces(architecture: Architecture, options: dict) -> None:
    """Gives up the host's files and all privileges."""
    namespaces.build_root(architecture, options["package_paths"])
    if os.geteuid() == 0:
        namespaces.become_nobody(namespaces.own_uid(options["number"]))
    linux.drop_capabilities(architecture.numbers["capset"])
    linux.die_with_parent()  # Changing the user has cleared it.


def leave_root_if_possible(options: dict) -> bool:
    """Drops root for a user of its own; False where it must stay who it is.

    A Python below root's home folder could not be read by anyone else; then only the
    capabilities go.
    """
    if os.geteuid() != 0:
        return False
    uid = namespaces.own_uid(options["number"])
    library = os.path.join(sysconfig.get_path("stdlib"), "os.py")
    try:
        if not namespaces.is_readable_by(uid, library):
            return False
        namespaces.become_nobody(uid)
    except PermissionError:
        return False
    return True
