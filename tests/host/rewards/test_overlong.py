from dataclasses import replace

import jax.numpy as jnp
import pytest

from jaxgrpo.device.objective.masks import overlong_penalty
from jaxgrpo.host.rewards.overlong import Settings, overlong
from tests.host.rewards.groups import completion, of_literals


def rewards(lengths: list[int], settings: Settings) -> list[float]:
    completions = tuple(completion(token_ids=[0] * length) for length in lengths)
    return overlong(
        replace(of_literals("", *[""] * len(lengths)), completions=completions),
        settings,
    )


def test_the_papers_vector():
    settings = Settings(max_tokens=16384, buffer_tokens=4096)
    lengths = [0, 12288, 12289, 14336, 16384, 20000]
    expected = [0.0, 0.0, -1 / 4096, -0.5, -1.0, -1.0]
    assert rewards(lengths, settings) == expected


def test_it_is_the_devices():
    lengths = list(range(0, 40, 3))
    theirs = overlong_penalty(jnp.array(lengths), 30, 12).tolist()
    found = rewards(lengths, Settings(max_tokens=30, buffer_tokens=12))
    assert found == pytest.approx(theirs)


@pytest.mark.parametrize("buffer", [0, 513])
def test_buffer_has_to_fit(buffer: int):
    with pytest.raises(ValueError, match=f"buffer_tokens {buffer} with max_tokens 512"):
        Settings(max_tokens=512, buffer_tokens=buffer)
