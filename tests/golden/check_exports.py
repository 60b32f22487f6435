"""Checks what we write with the libraries it is written for; prints how far they are.

Full weights with transformers, adapters with PEFT, and a converted GGUF file with
transformers' own reader of GGUF. Stops at the first difference that is too large.

Run in a throwaway environment with this package installed:

    pip install torch==2.13.0 transformers==5.24.0 peft==0.21.2 gguf==0.19.0
    python tests/golden/check_exports.py
    python tests/golden/check_exports.py FILE.gguf
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from peft import PeftModel  # pyright: ignore[reportMissingImports]
from transformers import AutoModelForCausalLM, AutoTokenizer

from jaxgrpo.convert import convert
from jaxgrpo.device.head import head_logits
from jaxgrpo.device.model.architecture import Architecture, Llama3RopeScaling
from jaxgrpo.device.model.decoder import bind, forward_prompts, initial_params
from jaxgrpo.device.model.lora import (
    Adapted,
    FrozenBase,
    LoraSettings,
    initial_adapters,
)
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.records import Prompts
from jaxgrpo.weights import load_architecture, load_params, save_checkpoint
from jaxgrpo.weights.peft import save_adapter

_LARGEST_DIFFERENCE = 1e-4

_TINY = PRESETS["qwen3-tiny"]._replace(vocab_size=61)
_ARCHITECTURES = {
    "qwen3": _TINY,
    "qwen2": _TINY._replace(family="qwen2", is_tied=False, head_width=8),
    "llama": _TINY._replace(
        family="llama",
        head_width=8,
        rope_scaling=Llama3RopeScaling(8.0, 1.0, 4.0, 32),
    ),
}
# No numerals outside of ASCII: there transformers' reader, which knows no split of the
# name "smollm", departs from llama.cpp and from SmolLM2's own tokenizer.
_TEXTS = [
    "def add(a, b):\n    return a + b",
    "x = 1234567\n\tprint('h\u00e9llo \u4e16\u754c')  # done\n\n",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "for i in range(10):\r\n        pass\r\n",
    "  two  spaces, a tab\tand\u00a0a hard space  ",
    "e\u0301 versus \u00e9; \U0001f600\u200d\U0001f468; 3.14e-10, 0x1F",
    "I'm, I'M, they'll, x'y; <|im_start |>",
    "",
]


def check_family(name: str, architecture: Architecture) -> None:
    """Full weights, merged weights and an adapter of a random model."""
    params = _spread(initial_params(architecture, jax.random.key(0)))
    settings = LoraSettings(rank=4, alpha=6.0)
    adapters = _spread(initial_adapters(architecture, settings, jax.random.key(1)))
    adapted = Adapted(adapters, FrozenBase(params, jnp.float32(settings.scale)))
    shape = (2, 48)
    token_ids = np.random.default_rng(0).integers(0, architecture.vocab_size, shape)
    ours = {
        "full": _our_logits(architecture, params, token_ids),
        "adapted": _our_logits(architecture, adapted, token_ids),
    }
    assert np.abs(ours["full"] - ours["adapted"]).max() > 0.1, "adapters do nothing"
    with tempfile.TemporaryDirectory() as folder:
        full, merged, adapter = (Path(folder) / part for part in "abc")
        save_checkpoint(full, params, architecture, max_shard_bytes=30_000)
        save_checkpoint(merged, adapted, architecture)
        save_adapter(adapter, adapters, architecture, settings)
        assert len(list(full.glob("model-*.safetensors"))) > 1
        _report(f"{name}, shards", _logits(_model(full), token_ids), ours["full"])
        _report(f"{name}, merged", _logits(_model(merged), token_ids), ours["adapted"])
        with_adapter = PeftModel.from_pretrained(_model(full), adapter).eval()
        _report(f"{name}, PEFT", _logits(with_adapter, token_ids), ours["adapted"])
        left = [n for n, p in with_adapter.named_parameters() if "lora_" in n]
        assert len(left) == 2 * len(settings.targets) * architecture.num_layers


def check_gguf(file: Path) -> None:
    """A converted file against transformers' own reading of it."""
    theirs = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).eval()
    their_tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "converted"
        convert(file, out, dtype="float32", max_shard_bytes=5 * 10**9)
        tokenizer = AutoTokenizer.from_pretrained(out)
        for text in _TEXTS:
            ids, expected = tokenizer(text).input_ids, their_tokenizer(text).input_ids
            assert ids == expected, (text, ids, expected)
        print(f"token ids of {len(_TEXTS)} texts are equal")
        chat = [{"role": "user", "content": "Write add(a, b)."}]
        rendered, expected = (
            t.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            for t in (tokenizer, their_tokenizer)
        )
        assert rendered == expected
        token_ids = np.array([tokenizer(rendered).input_ids])
        expected = _logits(theirs, token_ids)
        _report(
            "gguf, transformers on our files", _logits(_model(out), token_ids), expected
        )
        architecture = load_architecture(out)
        params = load_params(out, architecture)
        ours = _our_logits(architecture, params, token_ids)
        # In float32, transformers itself is 6e-5 from what it computes in float64.
        largest = 1e-5 * float(np.abs(expected).max())
        _report("gguf, our decoder on our files", ours, expected, largest)


def _spread(tree: Any) -> Any:
    """Random numbers in which every tensor matters: norms, biases and zeros too."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    drawn = [
        leaf + 0.2 * jax.random.normal(key, leaf.shape)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, drawn)


def _our_logits(
    architecture: Architecture, weights: Any, token_ids: np.ndarray
) -> np.ndarray:
    @jax.jit
    def logits(weights: Any) -> jax.Array:
        model = bind(architecture, weights, jnp.dtype("float32"))
        lengths_P = jnp.full((token_ids.shape[0],), token_ids.shape[1])
        hidden_PSD, _ = forward_prompts(model, Prompts(jnp.array(token_ids), lengths_P))
        return head_logits(hidden_PSD, model.output_head_VD)

    with jax.default_matmul_precision("highest"):
        return np.asarray(logits(weights))


def _model(folder: Path) -> Any:
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def _logits(model: Any, token_ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor(token_ids)).logits.numpy()


def _report(
    name: str,
    actual: np.ndarray,
    expected: np.ndarray,
    largest: float = _LARGEST_DIFFERENCE,
) -> None:
    difference = np.abs(actual - expected).max()
    print(
        f"{name}: max |difference of logits| {difference:.1e}, "
        f"logits up to {np.abs(expected).max():.1f}"
    )
    assert difference <= largest, name


if __name__ == "__main__":
    if len(sys.argv) > 1:
        check_gguf(Path(sys.argv[1]))
    else:
        for family, sizes in _ARCHITECTURES.items():
            check_family(family, sizes)
