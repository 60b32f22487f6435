"""LoRA adapters as a folder that the library PEFT loads.

Reference:
  https://huggingface.co/docs/peft/developer_guides/checkpoint. Differs from what PEFT
  writes only in leaving out the fields of adapter_config.json that keep their default.
"""

import sys
from pathlib import Path
from typing import Any

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.lora import ADAPTERS, LoraSettings
from jaxgrpo.weights.names import (
    Entry,
    decoder_entries,
    dims_of,
    layer_entries,
    leaf_of,
)
from jaxgrpo.weights.saving import tensors_of, write_together
from jaxgrpo.weights.writing import write_json, write_tensors

_PREFIX = "base_model.model."


def save_adapter(
    folder: Path,
    adapters: Any,
    architecture: Architecture,
    settings: LoraSettings,
    *,
    dtype: str = "float32",
    base_name: str = "",
) -> None:
    """Writes adapter_config.json and adapter_model.safetensors.

    Args:
      folder: Made if needed; its files appear together.
      adapters: Tree as from `initial_adapters`.
      architecture: Of the base.
      settings: Rank, alpha and targets of the adapters.
      dtype: Of the stored tensors: float32, float16 or bfloat16.
      base_name: Where the base is found; empty leaves it to the one who loads.
    """
    tensors = [
        tensor
        for entry in adapter_entries(architecture, settings)
        for tensor in tensors_of(entry, (leaf_of(adapters, entry.path),), dtype)
    ]
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_name or None,
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": 0.0,
        "target_modules": [_module(target) for target in settings.targets],
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }

    def write(place: Path) -> None:
        write_json(place / "adapter_config.json", config)
        write_tensors(
            place, tensors, dtype, max_shard_bytes=sys.maxsize, stem="adapter_model"
        )

    write_together(folder, tensors, write)


def adapter_entries(architecture: Architecture, settings: LoraSettings) -> list[Entry]:
    """The matrices of all adapters, and the tensors in which PEFT stores them.

    Example:
      >>> from jaxgrpo.device.model.presets import PRESETS
      >>> settings = LoraSettings(rank=4, alpha=8.0, targets=("o",))
      >>> a, b = adapter_entries(PRESETS["qwen3-tiny"], settings)
      >>> a.names[1]
      'base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight'
      >>> a.stored_shape, b.stored_shape
      ((4, 64), (32, 4))
    """
    of_kernel = {entry.path: entry.names[0] for entry in decoder_entries(architecture)}
    rows = {}
    for target, names in ADAPTERS.items():
        if target not in settings.targets:
            continue
        stem = of_kernel["layers", names.kernel].removeprefix("model.layers.0.")
        stem = stem.removesuffix(".weight")
        into, out = names.a.split("_")[-1][:-1], names.b.split("_")[-1][1:]
        rows[names.a] = (f"{stem}.lora_A.weight", f"{into}Z", f"Z {into}")
        rows[names.b] = (f"{stem}.lora_B.weight", f"Z{out}", f"{out} Z")
    sizes = dims_of(architecture) | {"Z": settings.rank}
    prefix = _PREFIX + "model.layers.{layer}."
    return layer_entries(rows, sizes, architecture.num_layers, prefix)


def _module(target: str) -> str:
    """The name of a target's module in `transformers`."""
    return f"{target}_proj"
