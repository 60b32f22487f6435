"""Small architectures of every family, and trees of numbers for them."""

from typing import Any

import jax
import numpy as np

from jaxgrpo.device.model.architecture import Architecture, Llama3RopeScaling
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.weights.names import decoder_entries, put_leaf

TIED = PRESETS["qwen3-tiny"]._replace(vocab_size=40)
UNTIED = TIED._replace(is_tied=False, rope_theta=1e6)
QWEN2 = UNTIED._replace(family="qwen2", head_width=8)
LLAMA = TIED._replace(
    family="llama", head_width=8, rope_scaling=Llama3RopeScaling(8.0, 1.0, 4.0, 8192)
)
ARCHITECTURES = {"tied": TIED, "untied": UNTIED, "qwen2": QWEN2, "llama": LLAMA}


def random_params(architecture: Architecture) -> Any:
    """Float32 numbers on the host; unlike a fresh model's, also in norms and biases."""
    rng = np.random.default_rng(0)
    tree: dict[str, Any] = {}
    for entry in decoder_entries(architecture):
        put_leaf(tree, entry.path, rng.standard_normal(entry.shape, np.float32))
    return tree


def assert_same_bits(left: Any, right: Any) -> None:
    """Both trees have the same structure, types and bits."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
