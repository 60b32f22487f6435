"""Writes qwen3_*.npz: what transformers' own Qwen3 computes, and from which file.

Each archive holds a checkpoint as transformers saves it (the bytes of config.json and
model.safetensors, random weights), token ids, and the logits of Qwen3ForCausalLM in
float32. It also checks the other direction, which the tests cannot without torch: that
transformers loads what `jaxgrpo.weights.save_checkpoint` writes, and computes the same.

Run in a throwaway environment with this package installed:

    pip install torch==2.13.0 transformers==5.24.0
    python tests/golden/make_qwen3_golden.py
"""

import tempfile
from pathlib import Path

import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

from jaxgrpo.device.model.architecture import Architecture
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
# head_dim is never hidden_size / num_attention_heads.
_CASES = {
    # Two query heads a key head, head tied to the embedding.
    "qwen3_tied": {
        "vocab_size": 61,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
    },
    # As many key heads as query heads, a head of its own, Qwen3's rope base.
    "qwen3_untied": {
        "vocab_size": 53,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "head_dim": 10,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": False,
    },
}


def make_case(name: str, fields: dict) -> None:
    """Writes one archive."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**_SHARED, **fields)).eval()
    with torch.no_grad():
        for path, tensor in model.named_parameters():
            # Every number must matter: norms far from 1, logits far from flat.
            if path.endswith("norm.weight"):
                tensor.normal_(1.0, 0.3)
            else:
                tensor.normal_(0.0, 0.35)
    token_ids = np.random.default_rng(0).integers(0, fields["vocab_size"], (2, 17))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = (Path(folder) / "config.json").read_bytes()
        weights = (Path(folder) / "model.safetensors").read_bytes()
    logits = _logits(model, token_ids)
    np.savez_compressed(
        _FOLDER / f"{name}.npz",
        token_ids=token_ids.astype(np.int32),
        logits=logits,
        config=np.frombuffer(config, np.uint8),
        safetensors=np.frombuffer(weights, np.uint8),
        made_with=f"torch {torch.__version__}, transformers {transformers.__version__}",
    )
    print(f"{name}: |logits| up to {np.abs(logits).max():.2f}")


def check_loading(name: str, dtype: str) -> None:
    """Prints how far transformers is from itself after a trip through our files."""
    stored = np.load(_FOLDER / f"{name}.npz")
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = Path(folder) / "theirs", Path(folder) / "ours"
        theirs.mkdir()
        (theirs / "config.json").write_bytes(stored["config"].tobytes())
        (theirs / "model.safetensors").write_bytes(stored["safetensors"].tobytes())
        architecture = load_architecture(theirs)
        params = load_params(theirs, architecture)
        save_checkpoint(ours, params, architecture, dtype=dtype, eos_ids=(1, 2))
        model = Qwen3ForCausalLM.from_pretrained(ours, dtype=torch.float32)
        assert model.generation_config.eos_token_id == [1, 2]
        difference = np.abs(_logits(model, stored["token_ids"]) - stored["logits"])
        print(f"{name} through save_checkpoint({dtype}): max diff {difference.max()}")


def check_random(dtype: str) -> None:
    """Prints whether transformers holds exactly the random weights we wrote."""
    architecture = Architecture(
        vocab_size=61, width=24, num_layers=2, num_heads=4, num_kv_heads=2,
        head_width=8, mlp_width=40, rope_theta=5e5, norm_eps=1e-5, is_tied=False,
        max_positions=64,
    )  # fmt: skip
    params = initial_params(architecture, jax.random.key(0))
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), params, architecture, dtype=dtype)
        model, info = Qwen3ForCausalLM.from_pretrained(folder, output_loading_info=True)
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
        print(f"ours -> transformers -> ours ({dtype}): equal {jax.tree.all(equal)}")


def _logits(model: Qwen3ForCausalLM, token_ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(token_ids).long()).logits.numpy()


if __name__ == "__main__":
    for case, case_fields in _CASES.items():
        make_case(case, case_fields)
        check_loading(case, "float32")
    check_loading("qwen3_tied", "bfloat16")
    for stored_dtype in ("float32", "bfloat16", "float16"):
        check_random(stored_dtype)
