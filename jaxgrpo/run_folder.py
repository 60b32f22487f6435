"""The folder of a run: who may write to it, which run it holds, whether it ended.

config.toml        resolved configuration
metrics.jsonl      one line per step
rollouts/          one Parquet part per step
checkpoints/       orbax, one folder per step
summary.json       the result; its presence says that the run is finished
"""

import fcntl
import json
import math
import os
import platform
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Any, Self

from jaxgrpo.config_toml import toml_document, toml_value

GROWING_FIELD = "run.num_steps"
"""May change, upwards, when a run continues. A decaying learning rate then follows the
new length from there on."""
FREE_FIELDS = (
    "log.", "checkpoint.", "scorer.num_workers", "evaluation.reference",
    "evaluation.rare_tag", "evaluation.confidence", "evaluation.resamples", "guard.",
)  # fmt: skip
"""Beginnings of the names of fields that change no result, and may differ."""

KEPT_PROBLEMS = "kept_problems.json"
"""Which problems a file of pass rates left to the run, and which file that was."""

_PACKAGES = (
    "jaxgrpo", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy",
    "transformers", "tokenizers", "grain", "tensorflow-datasets", "pyarrow", "wandb",
    "ruff",
)  # fmt: skip


class RunFolder:
    """Holds the folder of one run for this process. Close it, or use `with`.

    Args:
      path: The folder; created where it does not exist.

    Raises:
      ValueError: Another process holds it, or the path is a file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise ValueError(
                f"run folder {path} is a file. Choose another one with --run DIR."
            )
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets other processes have the folder."""
        self._lock.close()

    @property
    def checkpoints(self) -> Path:
        """Folder for the checkpoints."""
        return self.path / "checkpoints"

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / "summary.json").exists()

    @property
    def has_begun(self) -> bool:
        """Whether there is something to continue: a result, a step, an evaluation."""
        logged = self.path / "metrics.jsonl"
        folders = self.checkpoints, self.path / "evaluations"
        return (
            self.is_finished
            or (logged.exists() and logged.stat().st_size > 0)
            or any(folder.is_dir() and any(folder.iterdir()) for folder in folders)
        )

    def adopt_config(self, config: Mapping[str, Any]) -> None:
        """Stores a new run's configuration; refuses one that differs from the stored.

        A run that was refused before it began leaves nothing to continue, and any
        configuration may take its place. Otherwise `run.num_steps` may grow, and
        FREE_FIELDS may differ. A finished run that grows
        is unfinished again; its summary is kept as `summary_NUM_STEPS_steps.json`.

        Args:
          config: Resolved configuration as plain data.

        Raises:
          ValueError: The folder holds a run of another configuration. Names the first
            field that differs.
        """
        path = self.path / "config.toml"
        # Compare what a file can say: a tuple reads back as a list.
        new = tomllib.loads(toml_document(config))
        if not self.has_begun:
            (self.path / KEPT_PROBLEMS).unlink(missing_ok=True)
        elif path.exists():
            stored = _stored(path)
            differing = _differences(_fields(stored), _fields(new))
            if not differing:
                return
            self._refuse_unless_growing(differing)
            if self.is_finished and GROWING_FIELD in differing:
                num_steps = differing[GROWING_FIELD][0]
                name = f"summary_{num_steps}_steps.json"
                os.replace(self.path / "summary.json", self.path / name)
        write_whole(path, toml_document(config))

    def read_summary(self) -> dict[str, Any]:
        """Returns the result of a finished run."""
        return json.loads((self.path / "summary.json").read_text(encoding="utf-8"))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Stores the result; from then on the run is finished.

        Args:
          summary: Plain data. NaN and infinity, which JSON lacks, become null.
        """
        write_json(self.path / "summary.json", summary)

    def _refuse_unless_growing(self, differing: Mapping[str, tuple[Any, Any]]) -> None:
        for name, (old, new) in differing.items():
            if name.startswith(FREE_FIELDS):
                continue
            is_number = isinstance(old, int) and isinstance(new, int)
            if name == GROWING_FIELD and is_number and new > old:
                continue
            advice = "raise it or " if name == GROWING_FIELD else ""
            raise ValueError(
                f"run folder {self.path} holds a run with {_shown(name, old)}, and now "
                f"it is {_shown(None, new)}. To continue that run {advice}put the old "
                "value back; to start another choose a new folder with --run DIR."
            )


def environment(devices: Sequence[str]) -> dict[str, Any]:
    """Returns where a run happened: versions, machine, devices and commit.

    Args:
      devices: One description per accelerator or CPU device.

    Returns:
      Plain data. `git_commit` is None outside a clone, `git_is_clean` likewise.
    """
    root = Path(__file__).resolve().parent.parent
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "num_cpu_cores": len(os.sched_getaffinity(0)),
        "devices": list(devices),
        "versions": _versions(),
        "git_commit": commit,
        "git_is_clean": None if commit is None else changes == "",
    }


def _stored(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is no valid TOML: {error}. Repair it, or choose another folder "
            "with --run DIR."
        ) from None


def _locked(path: Path) -> IO[str]:
    file = (path / ".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise ValueError(
            f"run folder {path} is in use by process {owner}. Wait for it to end, or "
            "choose another folder with --run DIR."
        ) from error
    # The kernel lets go of the lock with the process, however it ends. The number is
    # only for the message above.
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _fields(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the fields of nested tables by dotted name, in their order."""
    fields = {}
    for key, value in table.items():
        if isinstance(value, dict):
            fields |= _fields(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            numbered = {str(i): item for i, item in enumerate(value)}
            fields |= _fields(numbered, f"{prefix}{key}.")
        else:
            fields[prefix + key] = value
    return fields


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    names = [*new, *(name for name in old if name not in new)]
    return {
        name: (old.get(name), new.get(name))
        for name in names
        if name not in old or name not in new or old[name] != new[name]
    }


def _shown(name: str | None, value: Any) -> str:
    # TOML has no null, so None can only mean that the field is absent.
    if value is None:
        return "absent" if name is None else f"no {name}"
    return toml_value(value) if name is None else f"{name} = {toml_value(value)}"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that it is there whole or not at all, also after a crash."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes plain data, whole or not at all; NaN and infinity become null."""
    text = json.dumps(_finite(data), indent=2, allow_nan=False)
    write_whole(path, text + "\n")


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _git(root: Path, *arguments: str) -> str | None:
    # An installed package may lie in a virtual environment inside somebody's
    # repository: only a clone has .git beside the package.
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()
