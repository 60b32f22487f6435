"""Writes parity_*.npz: what transformers' own decoders compute, and from which file.

Each archive holds a checkpoint as transformers saves it (the bytes of config.json and
model.safetensors, random weights), token ids, and the logits in float32. It also checks
the other direction, which the tests cannot without torch: that transformers loads what
`jaxgrpo.weights.save_checkpoint` writes, and computes the same.

Run in a throwaway environment with this package installed:

    pip install torch==2.13.0 transformers==5.24.0
    python tests/golden/make_parity_golden.py
"""

import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from jaxgrpo.device.model.architecture import Architecture, Llama3RopeScaling
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.weights import load_architecture, load_params, save_checkpoint

_FOLDER = Path(__file__).parent
_SHARED = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
}
_CASES: dict[str, dict[str, Any]] = {
    # Two query heads a key head, head tied to the embedding; like the next one with
    # another head_dim than hidden_size / num_attention_heads.
    "qwen3_tied": {
        "model_type": "qwen3",
        "vocab_size": 61,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        "tie_word_embeddings": True,
    },
    # As many key heads as query heads, a head of its own, Qwen3's rope base.
    "qwen3_untied": {
        "model_type": "qwen3",
        "vocab_size": 53,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "head_dim": 10,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        "tie_word_embeddings": False,
    },
    # Biases of queries, keys and values; no head_dim in the file.
    "qwen2": {
        "model_type": "qwen2",
        "vocab_size": 59,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        "tie_word_embeddings": True,
    },
    # Frequencies that stay, that are divided, and that lie between: over 32 positions
    # they turn 5.1, 1.6, 0.5, ... times. The tokens reach beyond those positions.
    "llama3": {
        "model_type": "llama",
        "vocab_size": 47,
        "hidden_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 256,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1e4,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        "tie_word_embeddings": False,
    },
}
_NUM_TOKENS = {"llama3": 72}


def make_case(name: str, fields: dict[str, Any]) -> None:
    """Writes one archive."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(**_SHARED | fields)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for path, tensor in model.named_parameters():
            # Every number must matter: norms far from 1, logits far from flat.
            if path.endswith("norm.weight"):
                tensor.normal_(1.0, 0.3)
            else:
                tensor.normal_(0.0, 0.35)
            tensor.copy_(tensor.bfloat16())  # half as large on disk
    shape = (2, _NUM_TOKENS.get(name, 17))
    token_ids = np.random.default_rng(0).integers(0, fields["vocab_size"], shape)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config_json = (Path(folder) / "config.json").read_bytes()
        weights = (Path(folder) / "model.safetensors").read_bytes()
    logits = _logits(model, token_ids)
    np.savez_compressed(
        _FOLDER / f"parity_{name}.npz",
        token_ids=token_ids.astype(np.int32),
        logits=logits,
        config=np.frombuffer(config_json, np.uint8),
        safetensors=np.frombuffer(weights, np.uint8),
        made_with=f"torch {torch.__version__}, transformers {transformers.__version__}",
    )
    print(f"{name}: |logits| up to {np.abs(logits).max():.2f}")


def check_loading(name: str, dtype: str) -> None:
    """Prints how far transformers is from itself after a trip through our files."""
    stored = np.load(_FOLDER / f"parity_{name}.npz")
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder) / "theirs", Path(folder) / "ours"
        theirs.mkdir()
        (theirs / "config.json").write_bytes(stored["config"].tobytes())
        (theirs / "model.safetensors").write_bytes(stored["safetensors"].tobytes())
        architecture = load_architecture(theirs)
        params = load_params(theirs, architecture)
        save_checkpoint(ours, params, architecture, dtype=dtype, eos_ids=(1, 2))
        model = AutoModelForCausalLM.from_pretrained(ours, dtype=torch.float32)
        assert model.generation_config.eos_token_id == [1, 2]
        difference = np.abs(_logits(model, stored["token_ids"]) - stored["logits"])
        print(f"{name} through save_checkpoint({dtype}): max diff {difference.max()}")


def check_random(architecture: Architecture, dtype: str) -> None:
    """Prints whether transformers holds exactly the random weights we wrote."""
    params = initial_params(architecture, jax.random.key(0))
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), params, architecture, dtype=dtype)
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True
        )
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        assert str(model.dtype) == f"torch.{dtype}", model.dtype
        assert model.config.rope_parameters["rope_theta"] == architecture.rope_theta
        model.save_pretrained(Path(folder) / "again")
        again = Path(folder) / "again"
        assert load_architecture(again) == architecture
        restored = load_params(again, architecture)
        expected = jax.tree.map(
            lambda x: np.asarray(x).astype(dtype).astype(np.float32), params
        )
        equal = jax.tree.map(np.array_equal, restored, expected)
        print(
            f"ours -> transformers -> ours ({architecture.family}, {dtype}): "
            f"equal {jax.tree.all(equal)}"
        )


def _logits(model: Any, token_ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(token_ids).long()).logits.numpy()


if __name__ == "__main__":
    for case, case_fields in _CASES.items():
        make_case(case, case_fields)
        check_loading(case, "float32")
        check_loading(case, "bfloat16")  # exact: the weights are bfloat16 numbers
    small = Architecture(
        vocab_size=61, width=24, num_layers=2, num_heads=4, num_kv_heads=2,
        head_width=8, mlp_width=40, rope_theta=5e5, norm_eps=1e-5, is_tied=False,
        max_positions=64,
    )  # fmt: skip
    stretched = Llama3RopeScaling(8.0, 1.0, 4.0, 32)
    for stored_dtype in ("float32", "bfloat16", "float16"):
        check_random(small, stored_dtype)
        check_random(small._replace(family="qwen2"), stored_dtype)
        check_random(
            small._replace(family="llama", rope_scaling=stretched), stored_dtype
        )
