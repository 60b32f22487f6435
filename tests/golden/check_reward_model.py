"""Checks that transformers loads our reward models, and computes the same scores.

Rows of different lengths, padded; both directions. Stops at the first difference that
is too large.

Run in a throwaway environment with this package installed:

    pip install torch==2.13.0 transformers==5.24.0
    python tests/golden/check_reward_model.py
"""

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from transformers import AutoModelForSequenceClassification

from jaxgrpo.device.model.architecture import Architecture, Llama3RopeScaling
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.reward_model import reward_params, reward_scores
from jaxgrpo.weights.reward_model import (
    RewardInput,
    load_reward_architecture,
    load_reward_params,
    save_reward_model,
)

_LARGEST_DIFFERENCE = 1e-5
_PAD = 60
_LENGTHS = np.array([17, 5, 11])
_TINY = PRESETS["qwen3-tiny"]._replace(vocab_size=61)
_ARCHITECTURES = {
    "qwen3": _TINY,
    "qwen2": _TINY._replace(family="qwen2", head_width=8),
    "llama": _TINY._replace(
        family="llama",
        head_width=8,
        rope_scaling=Llama3RopeScaling(8.0, 1.0, 4.0, 32),
    ),
}


def check(name: str, architecture: Architecture) -> None:
    """Ours in transformers, and what transformers writes of it here again."""
    params = _spread(reward_params(initial_params(architecture, jax.random.key(0))))
    token_ids = np.random.default_rng(0).integers(0, _PAD, (3, 17))
    token_ids = np.where(np.arange(17) < _LENGTHS[:, None], token_ids, _PAD)
    ours = _scores(architecture, params, token_ids)
    with tempfile.TemporaryDirectory() as folder:
        save_reward_model(
            Path(folder), params, architecture, RewardInput(), pad_id=_PAD
        )
        model, info = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        assert model.config.num_labels == 1
        mask = torch.tensor(token_ids != _PAD)
        with torch.no_grad():
            theirs = model.eval()(torch.tensor(token_ids), attention_mask=mask).logits
        again = Path(folder) / "again"
        model.save_pretrained(again)
        found = load_reward_architecture(again)
        restored = _scores(found, load_reward_params(again, found), token_ids)
    difference = np.abs(theirs.numpy()[:, 0] - ours).max()
    print(f"{name}: max |difference of scores| {difference:.1e}, scores {ours}")
    assert difference <= _LARGEST_DIFFERENCE, name
    np.testing.assert_array_equal(restored, ours)


def _scores(architecture: Architecture, params: Any, token_ids: Any) -> np.ndarray:
    rows = Prompts(jnp.asarray(token_ids), jnp.asarray(_LENGTHS))
    with jax.default_matmul_precision("highest"):
        return np.asarray(reward_scores(params, rows, architecture=architecture))


def _spread(tree: Any) -> Any:
    """Random numbers in which every tensor matters: norms, biases and zeros too."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    drawn = [
        leaf + 0.2 * jax.random.normal(key, leaf.shape)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, drawn)


if __name__ == "__main__":
    for family, sizes in _ARCHITECTURES.items():
        check(family, sizes)
