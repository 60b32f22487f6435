"""`jaxgrpo convert`: a GGUF file into a Hugging Face folder that can be trained."""

import sys
from pathlib import Path
from typing import Any

from jaxgrpo.device.model.architecture import config_from_architecture
from jaxgrpo.problems.progress import ProgressLine
from jaxgrpo.weights.gguf import gguf_architecture, gguf_tensors, open_gguf
from jaxgrpo.weights.gguf_tokenizer import end_ids, write_tokenizer
from jaxgrpo.weights.writing import (
    check_is_empty,
    whole_folder,
    write_json,
    write_tensors,
)


def convert(file: Path, out: Path, *, dtype: str, max_shard_bytes: int) -> None:
    """Writes configuration, weights, tokenizer and chat template.

    Quantised weights are written out as the numbers that they stand for: float32 holds
    them exactly.

    Args:
      file: In GGUF.
      out: New or empty folder.
      dtype: Of the stored tensors: float32, float16 or bfloat16.
      max_shard_bytes: Of the tensors in one file.

    Raises:
      ValueError: If `out` holds something, or the file cannot be converted.
    """
    check_is_empty(out)
    gguf = open_gguf(file)
    architecture = gguf_architecture(gguf)
    tensors = gguf_tensors(gguf, architecture)
    generation: dict[str, Any] = {"eos_token_id": list(end_ids(gguf))}
    config = config_from_architecture(architecture) | {"torch_dtype": dtype}
    for name, key in (("bos", "bos_token_id"), ("pad", "padding_token_id")):
        token_id = gguf.metadata.get(f"tokenizer.ggml.{key}")
        if token_id is not None:
            generation[f"{name}_token_id"] = token_id
    with whole_folder(out) as place:
        write_json(place / "config.json", config)
        write_json(place / "generation_config.json", generation)
        write_tokenizer(gguf, place)
        write_tensors(
            place,
            tensors,
            dtype,
            max_shard_bytes=max_shard_bytes,
            report=ProgressLine("tensors", sys.stderr),
        )
