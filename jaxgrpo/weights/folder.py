"""A checkpoint's folder by its name, and the architecture that it states."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from jaxgrpo.device.model.architecture import Architecture, architecture_from_config

REWARD_MODEL_SUFFIX = "ForSequenceClassification"
"""Of the class that a reward model's config.json names."""


def checkpoint_folder(source: str) -> Path:
    """The folder of a checkpoint.

    Args:
      source: A path, or `builtin:NAME`.

    Raises:
      ValueError: If there is no such folder.
    """
    if source.startswith("builtin:"):
        assets = Path(str(resources.files("jaxgrpo"))) / "assets"
        folder = assets / source.removeprefix("builtin:")
        if not folder.is_dir():
            names = sorted(path.name for path in assets.iterdir() if path.is_dir())
            raise ValueError(f"no checkpoint {source!r}. Built in are: {names}.")
        return folder
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise ValueError(
            f"no folder {str(folder)!r}. Give a checkpoint folder in Hugging Face "
            "layout, or builtin:NAME."
        )
    return folder


def load_architecture(folder: Path) -> Architecture:
    """The architecture stated by the folder's config.json.

    Raises:
      ValueError: There is none, or it is not a policy's.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"no config.json in {str(folder)!r}. Is it a checkpoint?")
    config = read_json(path)
    if is_reward_model(config):
        raise ValueError(
            f"{str(folder)!r} is a reward model, which writes no text. Give the "
            "checkpoint of a policy."
        )
    return architecture_from_config(config)


def is_reward_model(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a reward model and not of a policy."""
    names = config.get("architectures") or [""]
    return str(names[0]).endswith(REWARD_MODEL_SUFFIX)


def read_json(path: Path) -> Any:
    """What a JSON file of a checkpoint holds.

    Raises:
      ValueError: If it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}). Copy it again.") from None
