"""Reward models as checkpoints: a decoder's tensors, and `score.weight` for its head.

The layout is that of transformers' `Qwen3ForSequenceClassification` with one label (and
of its siblings for Qwen2 and Llama). What the scores depend on besides, transformers
has no field for; it stands in a file of its own, reward_model.json.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from jaxgrpo.device.model.architecture import (
    Architecture,
    architecture_from_config,
    config_from_architecture,
)
from jaxgrpo.device.model.decoder import Params
from jaxgrpo.device.reward_model import BACKBONE, SCORE, backbone_of
from jaxgrpo.weights.folder import (
    REWARD_MODEL_SUFFIX,
    checkpoint_folder,
    is_reward_model,
    read_json,
)
from jaxgrpo.weights.loading import read_entries
from jaxgrpo.weights.names import Entry, decoder_entries, leaf_of
from jaxgrpo.weights.reading import TensorReader
from jaxgrpo.weights.saving import copy_tokenizer, tensors_of, write_together
from jaxgrpo.weights.writing import write_json, write_tensors

EXPORT = "export"
"""Folder of a run of `jaxgrpo train-reward` that holds the checkpoint."""
_INPUT_FILE = "reward_model.json"
_LABEL_FIELDS = ("id2label", "label2id", "num_labels", "problem_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardInput:
    """What a reward model is shown of a problem and its answer."""

    max_tokens: int = 4096
    """Longer conversations are cut at their end."""
    template: str = "{prompt}"
    """Of the user's message, as `prompt.template` of a configuration."""


def reward_model_folder(source: str) -> Path:
    """The folder of a reward model's checkpoint.

    Args:
      source: That folder, a run of `jaxgrpo train-reward`, or `builtin:NAME`.

    Raises:
      ValueError: There is none, or it holds a policy.
    """
    folder = checkpoint_folder(source)
    if not (folder / "config.json").is_file():
        folder = folder / EXPORT
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"no reward model in {source!r}: neither it nor its folder {EXPORT!r} has "
            "a config.json. Give a finished run of `jaxgrpo train-reward`, or a "
            "checkpoint."
        )
    if not is_reward_model(read_json(folder / "config.json")):
        raise ValueError(
            f"{str(folder)!r} is no reward model: its config.json does not name a "
            f"class that ends in {REWARD_MODEL_SUFFIX}. Train one with `jaxgrpo "
            "train-reward`."
        )
    return folder


def load_reward_architecture(folder: Path) -> Architecture:
    """The architecture of a reward model's backbone, without a head.

    Raises:
      ValueError: It has several labels, or a backbone of no family here.
    """
    config = read_json(folder / "config.json")
    labels = config.get("id2label") or {}
    num_labels = config.get("num_labels", len(labels) or 2)  # transformers' default
    if num_labels != 1:
        raise ValueError(
            f"{str(folder)!r} has {num_labels} labels, a reward model has one. Use a "
            "checkpoint that gives one number."
        )
    plain = {name: v for name, v in config.items() if name not in _LABEL_FIELDS}
    return backbone_of(architecture_from_config(plain))


def load_reward_input(folder: Path) -> RewardInput:
    """What the reward model is shown; the defaults where the folder does not say.

    Raises:
      ValueError: The file says something else.
    """
    path = folder / _INPUT_FILE
    if not path.is_file():
        return RewardInput()
    stored = read_json(path)
    expected = {field.name: field.type for field in fields(RewardInput)}
    if {name: type(value) for name, value in stored.items()} != expected:
        raise ValueError(
            f"{path} holds {json.dumps(stored)}; expected are max_tokens, a number, "
            "and template, a text. Copy it again."
        )
    return RewardInput(**stored)


def load_reward_params(
    folder: Path, architecture: Architecture, shardings: Any = None
) -> Params:
    """The weights of a reward model in float32.

    Args:
      folder: Its checkpoint.
      architecture: Of the backbone.
      shardings: As for `load_params`.

    Raises:
      ValueError: As `load_params`.
    """
    reader, entries = TensorReader(folder), reward_entries(architecture)
    return read_entries(reader, entries, shardings, "float32", is_tied=True)


def save_reward_model(
    folder: Path,
    params: Params,
    architecture: Architecture,
    shown: RewardInput,
    *,
    dtype: str = "float32",
    pad_id: int | None = None,
    tokenizer_folder: Path | None = None,
) -> None:
    """Writes config.json, reward_model.json, the weights and the tokenizer.

    Args:
      folder: Made if needed; its files appear together.
      params: As from `reward_params`.
      architecture: Of the backbone.
      shown: What the model has been shown.
      dtype: Of the stored tensors: float32, float16 or bfloat16.
      pad_id: Token that pads rows, without which transformers scores one at a time.
      tokenizer_folder: Where tokenizer files and chat template are copied from.
    """
    tensors = [
        tensor
        for entry in reward_entries(architecture)
        for tensor in tensors_of(entry, (leaf_of(params, entry.path),), dtype)
    ]
    config = _config(architecture) | {"torch_dtype": dtype}
    if pad_id is not None:
        config["pad_token_id"] = pad_id

    def write(place: Path) -> None:
        write_json(place / "config.json", config)
        write_json(place / _INPUT_FILE, asdict(shown))
        if tokenizer_folder is not None:
            copy_tokenizer(tokenizer_folder, place)
        write_tensors(place, tensors, dtype)

    write_together(folder, tensors, write)


def reward_entries(architecture: Architecture) -> list[Entry]:
    """Every parameter of a reward model, in the order of its checkpoint."""
    decoder = [
        entry._replace(path=(BACKBONE, *entry.path))
        for entry in decoder_entries(backbone_of(architecture))
    ]
    score = Entry(
        path=(SCORE,),
        names=("score.weight",),
        is_stacked=False,
        dims="1D",
        stored=("1", "D"),
        sizes=(1, architecture.width),
    )
    return [*decoder, score]


def _config(architecture: Architecture) -> dict[str, Any]:
    """The config.json that marks it: one label, and the class that has one."""
    config = config_from_architecture(backbone_of(architecture))
    (policy,) = config["architectures"]
    return config | {
        "architectures": [policy.replace("ForCausalLM", REWARD_MODEL_SUFFIX)],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
    }
