"""A tiny model for the tests of the device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS


@pytest.fixture(scope="session")
def tiny() -> Architecture:
    """Every mechanism of the decoder, small."""
    return PRESETS["qwen3-tiny"]


@pytest.fixture(scope="session")
def tiny_params(tiny: Architecture) -> Any:
    """Random parameters in which every one matters: norms off 1, logits off flat."""
    shapes = jax.eval_shape(lambda: initial_params(tiny, jax.random.key(0)))
    rng = np.random.default_rng(0)

    def draw(path: Any, leaf: Any) -> jax.Array:
        is_norm = path[-1].key == "scale"
        mean, spread = (1.0, 0.3) if is_norm else (0.0, 0.25)
        return jnp.asarray(rng.normal(mean, spread, leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)
