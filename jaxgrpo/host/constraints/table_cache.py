"""Compiled tables on disk, named by all that they depend on."""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from jaxgrpo.host.constraints.specification import Constraint
from jaxgrpo.host.constraints.token_tables import TokenTables
from jaxgrpo.host.constraints.vocabulary import Vocabulary

_UNREADABLE = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile)


def cached_tables(
    build: Callable[[], TokenTables],
    folder: Path,
    constraints: Sequence[Constraint],
    vocabulary: Vocabulary,
    num_logits: int,
) -> TokenTables:
    """Returns stored tables, or builds and stores them.

    The file's name is a hash of the arguments, of this package's source and of the
    version of outlines-core. It appears whole or not at all; one that cannot be read is
    replaced.

    Args:
      build: Makes the tables.
      folder: Of the files; made if it is not there.
      constraints: What the tables are of.
      vocabulary: What they were compiled for.
      num_logits: Likewise.
    """
    key = hashlib.sha256(_source_digest() + vocabulary.digest())
    key.update(repr((num_logits, list(constraints), _outlines_version())).encode())
    path = folder / f"{key.hexdigest()[:32]}.npz"
    stored = _stored(path)
    if stored is not None:
        return stored
    tables = build()
    _store(tables, path)
    return tables


def _stored(path: Path) -> TokenTables | None:
    """Returns the tables of a file; None if there is none or it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return TokenTables(**{name: arrays[name] for name in TokenTables._fields})
    except _UNREADABLE:
        return None


def _store(tables: TokenTables, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **tables._asdict())
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _source_digest() -> bytes:
    hasher = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.digest()


def _outlines_version() -> str:
    try:
        return metadata.version("outlines-core")
    except metadata.PackageNotFoundError:
        return "none"
