"""`jaxgrpo export`: a run's weights as a folder that other libraries load."""

import sys
from pathlib import Path
from typing import Literal

from jaxgrpo.assembly import lora_settings
from jaxgrpo.device.model.lora import Adapted
from jaxgrpo.problems.progress import ProgressLine
from jaxgrpo.source import open_source
from jaxgrpo.weights import save_checkpoint
from jaxgrpo.weights.peft import save_adapter
from jaxgrpo.weights.writing import check_is_empty


def export(
    name: str,
    out: Path,
    overrides: list[str],
    *,
    step: int | None,
    dtype: str,
    lora: Literal["merged", "adapter"],
    max_shard_bytes: int,
) -> None:
    """Writes full weights with tokenizer, or adapters alone.

    Args:
      name: Run folder, checkpoint folder, or `builtin:NAME`.
      out: New or empty folder.
      overrides: Changes to the run's configuration, such as where its base now lies.
      step: Of the run's checkpoint; the newest if None.
      dtype: Of the stored tensors: float32, float16 or bfloat16.
      lora: What becomes of a run's adapters: merged into full weights, or a folder for
        PEFT. Full weights have none.
      max_shard_bytes: Of the tensors in one file of full weights.

    Raises:
      ValueError: If `out` holds something, or there are no adapters to write alone.
    """
    check_is_empty(out)
    source = open_source(name, overrides, step)
    policy = source.policy
    if lora == "merged":
        save_checkpoint(
            out,
            source.params,
            policy.architecture,
            dtype=dtype,
            eos_ids=policy.eos_ids,
            tokenizer_folder=policy.tokenizer_folder,
            max_shard_bytes=max_shard_bytes,
            report=ProgressLine("tensors", sys.stderr),
        )
        return
    settings = lora_settings(source.config)
    if settings is None or not isinstance(source.params, Adapted):
        raise ValueError(
            f"{name} has no adapters: lora.rank is 0. Leave out --lora adapter to "
            "write its full weights."
        )
    base = source.config.model.checkpoint
    save_adapter(
        out,
        source.params.adapters,
        policy.architecture,
        settings,
        dtype=dtype,
        base_name="" if base.startswith("builtin:") else base,
    )
