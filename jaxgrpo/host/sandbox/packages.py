"""Where the packages lie that programs may import."""

import importlib.util
from pathlib import Path


def find_packages(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where installed packages lie: (folders to search, paths to show)."""
    folders, shown = [], []
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ValueError(f"sandbox package {name!r} is not installed. Install it.")
        origin = Path(spec.origin)
        place = origin.parent if spec.submodule_search_locations else origin
        folders.append(str(place.parent))
        libraries = place.parent / f"{name}.libs"
        shown += [str(path) for path in (place, libraries) if path.exists()]
    return tuple(dict.fromkeys(folders)), tuple(shown)
