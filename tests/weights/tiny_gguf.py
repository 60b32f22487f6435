"""Small GGUF files, written by the library whose format it is."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from jaxgrpo.device.model.architecture import Architecture

# The alphabet of byte-level BPE: visible characters stand for themselves.
_VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
BYTES = [chr(byte) for byte in _VISIBLE]
BYTES += [chr(256 + rank) for rank in range(len(_HIDDEN))]
SPACE = chr(256 + _HIDDEN.index(32))

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN = ["<think>"]
MERGES = ["d e", "de f", f"{SPACE} a", "1 2"]
TOKENS = [*SPECIAL, *BYTES, *(merge.replace(" ", "") for merge in MERGES), *PLAIN]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
NUM_ROWS = 272
"""Of the embedding: more than there are tokens."""


def write_gguf(
    path: Path,
    architecture: Architecture,
    tensors: dict[str, np.ndarray],
    types: dict[str, str],
    **changes: Any,
) -> dict[str, np.ndarray]:
    """Writes a file and returns the numbers that it stands for.

    Args:
      path: The file.
      architecture: Sizes; its family names the architecture of the file.
      tensors: Float32 arrays by the names of llama.cpp.
      types: Type to store a tensor in, by name; float32 where there is none.
      changes: Metadata to add or replace, by key; None leaves a key out.
    """
    a = architecture
    keys = {
        f"{a.family}.{key}": value
        for key, value in {
            "block_count": a.num_layers,
            "context_length": a.max_positions,
            "embedding_length": a.width,
            "feed_forward_length": a.mlp_width,
            "attention.head_count": a.num_heads,
            "attention.head_count_kv": a.num_kv_heads,
            "attention.key_length": a.head_width,
            "attention.value_length": a.head_width,
            "attention.layer_norm_rms_epsilon": a.norm_eps,
            "rope.freq_base": a.rope_theta,
        }.items()
    }
    padding = [f"[PAD{row}]" for row in range(len(TOKENS), NUM_ROWS)]
    kinds = [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL) - len(PLAIN))
    keys |= {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS + padding,
        "tokenizer.ggml.token_type": kinds + [4] * len(PLAIN) + [5] * len(padding),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.chat_template": TEMPLATE,
    }
    writer = gguf.GGUFWriter(path, a.family)
    for key, value in (keys | changes).items():
        _add(writer, key, value)
    stored = {}
    for name, value in tensors.items():
        kind = gguf.GGMLQuantizationType[types.get(name, "F32")]
        data = gguf.quants.quantize(value, kind)
        stored[name] = gguf.quants.dequantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, list):
        writer.add_array(key, value)
        return
    kinds = {
        bool: gguf.GGUFValueType.BOOL,
        int: gguf.GGUFValueType.UINT32,
        float: gguf.GGUFValueType.FLOAT32,
        str: gguf.GGUFValueType.STRING,
    }
    writer.add_key_value(key, value, kinds[type(value)])
