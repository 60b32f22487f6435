"""Rotary position embedding: which frequencies, and the rotation."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Llama3RopeScaling


def rotate(
    x_BTNH: Float[Array, "B T N H"],
    positions_BT: Int[Array, "B T"],
    theta: float,
    scaling: Llama3RopeScaling | None = None,
) -> Float[Array, "B T N H"]:
    """Rotary position embedding, half-rotation form, angles in fp32.

    With the head split into halves (a, b) and angle_i = position * frequency_i,

        (a, b) -> (a cos - b sin, b cos + a sin)

    Args:
      x_BTNH: Queries or keys; H is even.
      positions_BT: Of each token in its sequence, from 0.
      theta: Base of the frequencies.
      scaling: As in `rotary_frequencies`.

    Returns:
      The rotated x, in its own dtype.

    Reference:
      Su et al., RoFormer, 2021, https://arxiv.org/abs/2104.09864. Differs from it in
      pairing i with i + H/2 instead of 2i with 2i + 1, as Qwen and Llama do.
    """
    half = x_BTNH.shape[-1] // 2
    frequency_X = rotary_frequencies(x_BTNH.shape[-1], theta, scaling)
    positions_BT11 = positions_BT[:, :, None, None].astype(jnp.float32)
    angle_BT1X = positions_BT11 * frequency_X[None, None, None, :]
    cos_BT1X, sin_BT1X = jnp.cos(angle_BT1X), jnp.sin(angle_BT1X)
    a_BTNX, b_BTNX = x_BTNH[..., :half], x_BTNH[..., half:]
    rotated_BTNH = jnp.concatenate(
        [a_BTNX * cos_BT1X - b_BTNX * sin_BT1X, b_BTNX * cos_BT1X + a_BTNX * sin_BT1X],
        axis=-1,
    )
    return rotated_BTNH.astype(x_BTNH.dtype)


def rotary_frequencies(
    head_width: int, theta: float, scaling: Llama3RopeScaling | None = None
) -> Float[Array, " X"]:
    """Radians per position of each of the H / 2 pairs, in fp32.

        frequency_i = theta^(-2i / H)

    Scaled as in Llama 3.1, a frequency that makes n = original_max * frequency / (2 pi)
    turns within the original positions becomes

        s * frequency + (1 - s) * frequency / factor,
        s = clip((n - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)

    so that fast ones stay and slow ones are stretched over `factor` as many positions.

    Args:
      head_width: H.
      theta: Base.
      scaling: None for none.

    Example:
      >>> rotary_frequencies(4, 100.0)
      Array([1. , 0.1], dtype=float32)
      >>> rotary_frequencies(4, 100.0, Llama3RopeScaling(8.0, 1.0, 4.0, 60))
      Array([1.    , 0.0125], dtype=float32)

    Reference:
      Llama Team, The Llama 3 Herd of Models, 2024, https://arxiv.org/abs/2407.21783,
      names only the base; the scaling is that of Meta's published code for Llama 3.1
      (`apply_scaling` in llama_models) and of `transformers`' rope type "llama3".
    """
    half = head_width // 2
    exponent_X = -jnp.arange(half, dtype=jnp.float32) * 2.0 / head_width
    frequency_X = theta**exponent_X
    if scaling is None:
        return frequency_X
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    turns_X = frequency_X * (scaling.original_max_positions / (2.0 * math.pi))
    share_X = jnp.clip((turns_X - low) / (high - low), 0.0, 1.0)
    return frequency_X * (share_X + (1.0 - share_X) / scaling.factor)
