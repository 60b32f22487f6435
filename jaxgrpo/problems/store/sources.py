"""Where the files of a data set are, and what tells them from others."""

import hashlib
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from jaxgrpo.problems.formats.format import Format

_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of a data set, as it was published."""

    path: Path
    split: str
    """The published split that it holds; empty where it holds any."""


def find_sources(data_set: Format, path: str, cache_dir: Path) -> list[SourceFile]:
    """Returns the files of a data set, by split and name.

    Without a path they are looked for in the folder for such files, then in the
    installed package that carries them.

    Args:
      data_set: Says what they are called.
      path: File or folder; may be empty.
      cache_dir: Folder of all data sets.

    Raises:
      ValueError: There are none; the message says where to get them.
    """
    if path:
        return _at_path(data_set, Path(path).expanduser())
    folder = files_folder(data_set, cache_dir)
    found = _among(data_set, partial(_in_folder, folder)) or _in_package(data_set)
    if not found:
        raise ValueError(_missing(data_set, folder))
    return found


def files_folder(data_set: Format, cache_dir: Path) -> Path:
    """Returns the folder in which files are looked for if no path is given."""
    return cache_dir.expanduser() / "files" / data_set.name


def sources_digest(sources: Sequence[SourceFile]) -> tuple[str, int]:
    """Returns what tells files from all others, and their number of lines.

    Args:
      sources: Their contents and splits count, and neither names nor times.

    Returns:
      digest: 16 hexadecimal digits.
      num_lines: 0 where some file is not plain lines of text.
    """
    digest, num_lines = hashlib.blake2b(digest_size=8), 0
    for source in sources:
        digest.update(f"{source.split}:{source.path.stat().st_size}:".encode())
        block = b"\n"
        for block in _blocks(source.path):
            digest.update(block)
            num_lines += block.count(b"\n")
        num_lines += not block.endswith(b"\n")
    has_lines = all(source.path.suffix == ".jsonl" for source in sources)
    return digest.hexdigest(), num_lines if has_lines else 0


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _at_path(data_set: Format, path: Path) -> list[SourceFile]:
    if path.is_dir():
        found = _among(data_set, partial(_in_folder, path))
        if found:
            return found
        raise ValueError(_missing(data_set, path))
    if not path.is_file():
        raise ValueError(
            f"data.path {str(path)!r}: there is no such file or folder. "
            f"{_where_to_get(data_set)}"
        )
    by_name = _among(data_set, partial(_named, [path]))
    if by_name:
        return by_name
    if len(data_set.files) == 1 or "" in data_set.files:
        split = "" if "" in data_set.files else next(iter(data_set.files))
        return [SourceFile(path=path, split=split)]
    raise ValueError(
        f"data.path {str(path)!r}: its name does not tell its split. Call it one of "
        f"{_wanted(data_set)}, or give the folder."
    )


def _among(
    data_set: Format, matching: Callable[[str], Sequence[Path]]
) -> list[SourceFile]:
    """The files of the splits; those of any split only where there are no others."""
    found: list[SourceFile] = []
    for split, names in sorted(data_set.files.items(), reverse=True):
        if split or not found:
            paths = next(filter(None, map(matching, names)), ())
            found += [SourceFile(path=path, split=split) for path in paths]
    return found


def _in_folder(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in folder.glob(name) if path.is_file())


def _named(paths: Sequence[Path], name: str) -> list[Path]:
    """Those of some files that have a name, in whichever folder it would have them."""
    wanted = name.rpartition("/")[2]
    return [path for path in paths if fnmatchcase(path.name, wanted)]


def _in_package(data_set: Format) -> list[SourceFile]:
    """The files in an installed package, of which nothing is imported."""
    if not data_set.package:
        return []
    try:
        files = importlib.metadata.files(data_set.package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    paths = sorted(Path(str(file.locate())) for file in files)
    return _among(data_set, partial(_named, [path for path in paths if path.is_file()]))


def _missing(data_set: Format, folder: Path) -> str:
    return (
        f"{data_set.name}: none of {_wanted(data_set)} is in {str(folder)!r}. "
        f"{_where_to_get(data_set)} Put it there, or set data.path to its file or "
        "folder."
    )


def _where_to_get(data_set: Format) -> str:
    installed = f", or pip install {data_set.package}" if data_set.package else ""
    return f"Get it: {data_set.get_it}{installed}."


def _wanted(data_set: Format) -> str:
    names = [name for names in data_set.files.values() for name in names]
    return ", ".join(dict.fromkeys(names))
