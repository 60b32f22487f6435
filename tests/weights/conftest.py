"""Models that every test of the weights can share."""

from typing import Any

import jax
import numpy as np
import pytest

from jaxgrpo.device.model.decoder import initial_params
from tests.weights.tiny import UNTIED


@pytest.fixture(scope="session")
def params() -> Any:
    """Parameters of UNTIED, in which no two numbers of an array are equal."""
    return jax.tree.map(np.asarray, initial_params(UNTIED, jax.random.key(0)))
